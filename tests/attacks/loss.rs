//! Nothing is lost: neither results, nor pending cleanups, nor the processes of a run, whatever ends it, fills its
//! disk, or damages its files.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::Write,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::world::{Ran, World, gevals};

/// An eval `e` of portable tasks without an agent, each given by its name and the rest of its spec.
fn tasks(tasks: &[(&str, &str)]) -> World {
    let world = World::new(&[]);
    let paths: String = tasks.iter().map(|(name, _)| format!("    - path: {name}.yaml\n")).collect();
    world.write(
        "eval.yaml",
        &format!("kind: Eval\nmetadata: {{name: e}}\nconfig:\n  agent: {{type: builtin.noop}}\n  taskSets:\n{paths}"),
    );
    for (name, spec) in tasks {
        world.write(&format!("{name}.yaml"), &task(name, "", spec));
    }
    world
}

fn task(name: &str, metadata: &str, spec: &str) -> String {
    format!(
        "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {{name: {name}{metadata}}}\nspec:\n  prompt: Do it.\n{spec}"
    )
}

const QUICK: &str = "  verify: [{command: {run: \"test -d WORLD\"}}]\n";

/// Creates a file with a unique name, and waits until it is killed, or continues if the file `quick` exists.
fn slow(cleanup: &str) -> String {
    format!(
        r#"  env: {{F: "WORLD/made-{{random.id}}"}}
  setup:
    - command: {{run: "touch $F"}}
    - command: {{run: "touch WORLD/here; test -e WORLD/quick || exec sleep 300"}}
  verify: [{{command: {{run: "test -f $F"}}}}]
  cleanup: [{{command: {{run: "{cleanup}"}}}}]
"#
    )
}

const CLEAN: &str = "rm $F && echo cleaned >> WORLD/log";

fn runs(world: &World) -> Vec<PathBuf> {
    let mut runs: Vec<_> = fs::read_dir(world.path(".gevals/runs")).unwrap().flatten().map(|e| e.path()).collect();
    runs.sort_by_key(|dir| fs::metadata(dir.join("journal.jsonl")).unwrap().created().unwrap());
    runs
}

fn journal(world: &World) -> PathBuf {
    runs(world).pop().unwrap().join("journal.jsonl")
}

fn killed(world: &World) {
    let run = world.start(world.command(&["run", "eval.yaml"]));
    world.wait_for("here");
    run.signal(Signal::KILL);
    run.end();
}

fn made(world: &World) -> usize {
    let entries = fs::read_dir(world.path(".")).unwrap().flatten();
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("made-")).count()
}

fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is() {
        assert!(started.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn lives(pid: &str) -> bool {
    fs::read_to_string(format!("/proc/{}/stat", pid.trim())).is_ok_and(|stat| !stat.contains(") Z "))
}

/// Returns a shell that runs this line with the environment of the world.
fn in_shell(world: &World, line: &str) -> Command {
    let mut shell = world.command(&[]);
    shell = {
        let mut sh = Command::new("sh");
        sh.current_dir(world.path(".")).stdin(Stdio::null());
        sh.envs(shell.get_envs().filter_map(|(name, value)| Some((name, value?))));
        sh
    };
    shell.args(["-c", line]);
    shell
}

// Results

#[test]
fn every_run_has_its_results_in_its_own_folder() {
    let world = tasks(&[("a", QUICK)]);
    world.run(&["run", "eval.yaml"]).expect(0, &["results: gevals-e-out.json"]);
    let first = world.read("gevals-e-out.json");
    world.write("a.yaml", &task("a", "", "  verify: [{command: {run: \"false\"}}]\n"));
    world.run(&["run", "eval.yaml"]).expect(1, &[]);
    let [one, two] = runs(&world).try_into().unwrap();
    assert_eq!(fs::read_to_string(one.join("results.json")).unwrap(), first);
    assert_eq!(fs::read_to_string(two.join("results.json")).unwrap(), world.read("gevals-e-out.json"));
    assert_ne!(world.read("gevals-e-out.json"), first);
    let rest: BTreeSet<_> =
        fs::read_dir(&two).unwrap().flatten().map(|e| e.file_name().into_string().unwrap()).collect();
    assert_eq!(rest, ["journal.jsonl", "recording.jsonl", "results.json"].map(str::to_owned).into());
}

/// During a run, its results are stored as lines; the file of the previous run stays complete until the new one is.
#[test]
fn results_are_streamed_during_the_run() {
    let world = tasks(&[("a", QUICK), ("b", &slow(CLEAN))]);
    world.write("gevals-e-out.json", "{\"summary\": {}, \"results\": []}\n");
    let run = world.start(world.command(&["run", "eval.yaml"]));
    world.wait_for("here");
    let lines = fs::read_to_string(journal(&world).with_file_name("results.jsonl")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&lines).unwrap()["taskName"], "a");
    assert_eq!(world.read("gevals-e-out.json"), "{\"summary\": {}, \"results\": []}\n");
    world.write("quick", "");
    run.signal(Signal::KILL);
    run.end();
    world.run(&["recover"]).expect(0, &["results: gevals-e-out.json"]);
    assert_eq!(world.results("e")["results"].as_array().unwrap().len(), 2);
}

#[test]
fn a_run_killed_before_it_selected_tasks_keeps_the_old_results() {
    let world = tasks(&[("a", QUICK), ("b", &slow(CLEAN))]);
    world.write("quick", "");
    world.run(&["run", "eval.yaml"]).expect(0, &[]);
    let old = world.read("gevals-e-out.json");
    for file in ["quick", "here"] {
        fs::remove_file(world.path(file)).unwrap();
    }
    killed(&world);
    // As if the kill had happened right after the start.
    let path = journal(&world);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.split_inclusive('\n').take(2).collect::<String>()).unwrap();
    let ran = world.run(&["recover"]).expect(0, &["interrupted"]);
    assert!(!ran.out.contains("results:"), "{}", ran.out);
    assert_eq!(world.read("gevals-e-out.json"), old);
    world.run(&["recover"]).expect(0, &["no cleanup is pending"]);
}

/// A recovery that knows less than the results file leaves it unchanged, and writes what it knows beside its journal.
#[test]
fn a_recovery_never_removes_results() {
    let world = tasks(&[("a", QUICK), ("b", &slow(CLEAN))]);
    killed(&world);
    world.run(&["recover"]).expect(0, &[]);
    let more = world.read("gevals-e-out.json");
    let path = journal(&world);
    let text = fs::read_to_string(&path).unwrap();
    // The end of task `a`, and the record that the run was recovered, are lost.
    let damaged = text.lines().filter(|line| !line.contains("closed")).map(|line| {
        if line.contains("\"taskFinished\"") && line.contains("\"passed\"") {
            line.replace("passed", "pAssed")
        } else {
            line.to_owned()
        }
    });
    let damaged: String = damaged.filter(|line| !line.contains("\"reported\"")).map(|line| line + "\n").collect();
    fs::write(&path, damaged).unwrap();
    let own = format!("{}/results.json", path.parent().unwrap().display());
    world.run(&["recover"]).expect(4, &["its journal is damaged", &format!("results: {own}")]);
    assert_eq!(world.read("gevals-e-out.json"), more);
    let own: Value = serde_json::from_str(&fs::read_to_string(own).unwrap()).unwrap();
    let reason = own["results"].as_array().unwrap().iter().find(|r| r["taskName"] == "a").unwrap()["reason"].clone();
    assert!(reason.as_str().unwrap().contains("the journal of the run is damaged"), "{reason}");
}

// A single stop

/// `timeout` signals its child and then its process group, which contains the child: the same signal twice in quick
/// succession.
#[test]
fn two_signals_in_quick_succession_count_as_one() {
    for signal in ["TERM", "INT", "HUP"] {
        let world = tasks(&[("b", &slow(&format!("sleep 0.4; {CLEAN}")))]);
        let line = format!("exec timeout -s {signal} 20 \"$GEVALS\" run eval.yaml");
        let run = world.start(in_shell(&world, &line));
        world.wait_for("here");
        // It forwards the signal that it receives, as it does when the time is over.
        run.signal(Signal::TERM);
        let ran = run.end();
        assert_eq!(world.read("log"), "cleaned\n", "{signal}: {}{}", ran.out, ran.err);
        world.run(&["recover"]).expect(0, &["no cleanup is pending"]);
    }
}

#[test]
fn timeout_gives_cleanup_its_time() {
    for signal in ["TERM", "INT", "HUP"] {
        let world = tasks(&[("b", &slow(&format!("sleep 0.4; {CLEAN}")))]);
        let ran = world.start(in_shell(&world, &format!("timeout -s {signal} 3 \"$GEVALS\" run eval.yaml"))).end();
        assert_eq!(
            (ran.code, world.read("log").as_str()),
            (Some(124), "cleaned\n"),
            "{signal}: {}{}",
            ran.out,
            ran.err
        );
        assert_eq!(world.results("e")["summary"]["cancelled"], format!("SIG{signal}"));
        world.run(&["recover"]).expect(0, &["no cleanup is pending"]);
    }
}

/// GitHub Actions sends SIGINT, SIGTERM 7.5 s later, and SIGKILL 2.5 s after that: cleanup can use all of this time.
#[test]
fn the_signals_of_ci_before_a_kill_count_as_one_stop() {
    let world = tasks(&[("b", &slow(&format!("touch WORLD/cleaning; sleep 2; {CLEAN}")))]);
    let run = world.start(world.command(&["run", "eval.yaml"]));
    world.wait_for("here");
    run.signal(Signal::INT);
    world.wait_for("cleaning");
    std::thread::sleep(Duration::from_millis(1200));
    run.signal(Signal::TERM);
    run.end().expect(130, &["SIGINT"]);
    assert_eq!((made(&world), world.read("log").as_str()), (0, "cleaned\n"));

    // A cleanup that takes longer is killed with gevals, and run later.
    let long = "touch WORLD/cleaning; test -e WORLD/quick || sleep 300;";
    let world = tasks(&[("b", &slow(&format!("{long} {CLEAN}")))]);
    let run = world.start(world.command(&["run", "eval.yaml"]));
    world.wait_for("here");
    run.signal(Signal::INT);
    world.wait_for("cleaning");
    run.signal(Signal::TERM);
    std::thread::sleep(Duration::from_millis(300));
    run.signal(Signal::KILL);
    run.end();
    assert_eq!(made(&world), 1);
    world.write("quick", "");
    world.run(&["recover"]).expect(0, &["`b`: cleanup/0 is done"]);
    assert_eq!((made(&world), world.survivors().len()), (0, 0));
}

#[test]
fn the_same_signal_a_second_later_also_stops_cleanup() {
    let world = tasks(&[("b", &slow(&format!("touch WORLD/cleaning; test -e WORLD/quick || sleep 300; {CLEAN}")))]);
    let run = world.start(world.command(&["run", "eval.yaml"]));
    world.wait_for("here");
    run.signal(Signal::INT);
    world.wait_for("cleaning");
    std::thread::sleep(Duration::from_millis(1200));
    run.signal(Signal::INT);
    run.end().expect(130, &["SIGINT again", "still pending"]);
    assert_eq!(made(&world), 1);
    world.write("quick", "");
    world.run(&["recover"]).expect(0, &["a cleanup is still pending", "`b`: cleanup/0 is done"]);
    assert_eq!(made(&world), 0);
}

/// If the terminal in which gevals runs is closed, gevals cleans up, although it can no longer print anything. The
/// tests themselves may run under nohup.
#[test]
fn closing_the_terminal_stops_the_run() {
    let world = tasks(&[("b", &slow(&format!("sleep 0.4; {CLEAN}")))]);
    let run = world.start(in_shell(
        &world,
        "exec env --default-signal=HUP script -qfec 'exec \"$GEVALS\" run eval.yaml' /dev/null",
    ));
    world.wait_for("here");
    run.signal(Signal::KILL);
    run.end();
    wait_until("it is not cleaned up", || world.read("log") == "cleaned\n");
    wait_until("there are no results", || world.path("gevals-e-out.json").exists());
    assert_eq!(world.results("e")["summary"]["cancelled"], "SIGHUP");
    assert!(world.survivors().is_empty());
    world.run(&["recover"]).expect(0, &["no cleanup is pending"]);
}

#[test]
fn under_nohup_closing_the_terminal_does_not_stop_the_run() {
    let world = tasks(&[("b", &slow(CLEAN))]);
    let run = world.start(in_shell(&world, "exec nohup \"$GEVALS\" run eval.yaml"));
    world.wait_for("here");
    run.signal(Signal::HUP);
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(made(&world), 1);
    run.signal(Signal::TERM);
    run.end().expect(143, &["SIGTERM"]);
}

/// Stopping gevals while it recovers an older run also stops the requested run.
#[test]
fn stopping_the_recovery_before_a_run_stops_the_run() {
    let world = tasks(&[("b", &slow(&format!("touch WORLD/cleaning; test -e WORLD/quick || sleep 300; {CLEAN}")))]);
    killed(&world);
    let run = world.start(world.command(&["run", "eval.yaml"]));
    world.wait_for("cleaning");
    run.signal(Signal::INT);
    run.end().expect(130, &["interrupted"]);
    assert_eq!(runs(&world).len(), 1, "no new run has begun");
    world.write("quick", "");
    world.run(&["recover"]).expect(0, &["`b`: cleanup/0 is done"]);
}

// Cleanups

#[test]
fn a_cleanup_that_did_not_pass_stays_pending() {
    let steps = |cleanup: &str| {
        format!(
            "  setup: [{{command: {{run: \"true\"}}}}]\n{QUICK}  cleanup:\n    - command: {{run: \"{cleanup}\"}}\n    - command: {{run: \"echo once >> WORLD/once\"}}\n"
        )
    };
    let (absent, dies, fails) = (
        steps("WORLD/bin/tidy absent"),
        steps("test -e WORLD/can || kill -9 $$; echo dies >> WORLD/log"),
        steps("test -e WORLD/can && echo fails >> WORLD/log"),
    );
    let hangs = format!(
        "  setup: [{{command: {{run: \"true\"}}}}]\n{QUICK}  cleanup: [{{command: {{run: \"test -e WORLD/can || exec sleep 300; echo hangs >> WORLD/log\", timeout: 300ms}}}}]\n"
    );
    let world = tasks(&[("absent", &absent), ("dies", &dies), ("fails", &fails), ("hangs", &hangs)]);
    world.run(&["run", "eval.yaml"]).expect(4, &["4 of 4 tasks passed", "still pending: `gevals recover "]);
    assert_eq!(world.read("log"), "");
    world.run(&["recover"]).expect(4, &["a cleanup is still pending", "`dies`: cleanup/0 is still pending"]);
    let results = world.read("gevals-e-out.json");
    world.program("tidy", "#!/bin/sh\necho $1 >> WORLD/log\n");
    world.write("can", "");
    let said = ["absent", "dies", "fails", "hangs"].map(|name| format!("`{name}`: cleanup/0 is done"));
    world.run(&["recover"]).expect(0, &said.each_ref().map(String::as_str));
    let log: BTreeSet<_> = world.read("log").lines().map(str::to_owned).collect();
    assert_eq!(log, ["absent", "dies", "fails", "hangs"].map(str::to_owned).into());
    // Cleanups that passed are not repeated, and the results are unchanged.
    assert_eq!(world.read("once"), "once\n".repeat(3));
    assert_eq!(world.read("gevals-e-out.json"), results);
    world.run(&["recover"]).expect(0, &["no cleanup is pending"]);
}

#[test]
fn the_next_run_retries_a_failed_cleanup() {
    let world = tasks(&[("b", &slow("test -e WORLD/can && rm $F"))]);
    world.write("quick", "");
    world.run(&["run", "eval.yaml"]).expect(4, &[]);
    assert_eq!(made(&world), 1);
    world.write("can", "");
    world.run(&["run", "eval.yaml"]).expect(0, &["`b`: cleanup/0 is done", "1 of 1 task passed"]);
    assert_eq!(made(&world), 0);
}

// Journals

/// Whichever line is damaged: the journal stays open, everything that is known is cleaned up, and nothing else is
/// removed.
#[test]
fn a_damaged_journal_stays_open_and_reports_what_is_unknown() {
    let world = tasks(&[("a", QUICK), ("b", &slow(&format!("echo \\\"$F\\\" >> WORLD/tried; {CLEAN}")))]);
    killed(&world);
    let path = journal(&world);
    let whole = fs::read_to_string(&path).unwrap();
    let file =
        fs::read_dir(world.path(".")).unwrap().flatten().find(|e| e.file_name().to_string_lossy().starts_with("made-"));
    let file = file.unwrap().path();
    let id = path.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    let mut named = 0;
    for damaged in 0..lines.len() {
        let mut bytes: Vec<Vec<u8>> = lines.iter().map(|line| line.as_bytes().to_vec()).collect();
        let at = bytes[damaged].len() / 2;
        bytes[damaged][at] ^= 0x04;
        fs::write(&path, bytes.concat()).unwrap();
        fs::write(&file, "").unwrap();
        let ran = world.run(&["recover"]);
        let said = format!("line {damaged}: {}{}", ran.out, ran.err);
        assert_eq!(ran.code, Some(4), "{said}");
        assert!(!ran.out.contains("no cleanup is pending"), "{said}");
        if damaged == 0 {
            assert!(ran.err.contains("the first line of its journal is damaged"), "{said}");
            assert!(file.exists());
        } else {
            let place = format!("line {} cannot be read", damaged + 1);
            assert!(ran.out.contains(&place) && ran.out.contains("it stays open"), "{said}");
            named += usize::from(ran.out.contains("`b` in progress"));
        }
        let again = world.run(&["recover"]);
        assert_eq!(again.code, Some(4), "line {damaged}: {}{}", again.out, again.err);
        world.run(&["recover", "--forget", &id]).expect(0, &["forgotten"]);
        world.run(&["recover"]).expect(0, &["no cleanup is pending"]);
    }
    assert!(named > 3, "{named}");
    // Every attempted cleanup used the right file name: none acted on another file.
    let tried: BTreeSet<_> = world.read("tried").lines().map(str::to_owned).collect();
    let file: PathBuf = file.components().collect();
    assert_eq!(tried, [file.display().to_string()].into());
}

#[test]
fn missing_lines_are_detected() {
    let world = tasks(&[("b", &slow(CLEAN))]);
    killed(&world);
    let path = journal(&world);
    let whole = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    let without = lines.iter().enumerate().filter(|(nth, _)| !(5..7).contains(nth)).map(|(_, line)| *line);
    fs::write(&path, without.collect::<String>()).unwrap();
    world.run(&["recover"]).expect(4, &["2 lines are missing from line 6 on"]);
    // A duplicated line is damage as well.
    fs::write(&path, [&lines[..6], &lines[5..]].concat().concat()).unwrap();
    world.run(&["recover"]).expect(4, &["line 7 cannot be read"]);
    // An end without a checksum cannot be added.
    fs::write(&path, whole.clone() + "\"closed\"\n").unwrap();
    world.run(&["recover"]).expect(4, &["its journal is damaged"]);
    // A killed process leaves half a line, which is not damage.
    fs::write(&path, whole.clone() + &lines[4][..20]).unwrap();
    fs::write(world.path("made-again"), "").unwrap();
    let ran = world.run(&["recover"]);
    assert!(ran.out.contains("interrupted") && !ran.out.contains("damaged"), "{}", ran.out);
}

/// As written by an older version of gevals: without line numbers and checksums.
#[test]
fn journals_of_version_1_are_read() {
    let world = tasks(&[("a", QUICK), ("b", &slow(CLEAN))]);
    killed(&world);
    let path = journal(&world);
    let old = |text: &str| -> String {
        let sealed = regex::Regex::new(r#",("line"):\d+,"sum":"[0-9a-f]{16}"\}$"#).unwrap();
        let line = |line: &str| match sealed.replace(line, "}").into_owned().as_str() {
            "{\"closed\":null}" => "\"closed\"\n".to_owned(),
            "{\"reported\":null}" => "\"reported\"\n".to_owned(),
            line => line.replacen("{\"run\":{\"version\":2,", "{\"run\":{\"version\":1,", 1) + "\n",
        };
        text.lines().map(line).collect()
    };
    let text = old(&fs::read_to_string(&path).unwrap());
    assert!(!text.contains("\"sum\"") && text.starts_with("{\"run\":{\"version\":1,"));
    fs::write(&path, &text).unwrap();
    world.run(&["recover"]).expect(0, &["`b`: cleanup/0 is done"]);
    assert_eq!(made(&world), 0);
    world.run(&["recover"]).expect(0, &["no cleanup is pending"]);
    // A journal that was closed then counts as closed.
    fs::write(&path, old(&fs::read_to_string(&path).unwrap())).unwrap();
    world.run(&["recover"]).expect(0, &["no cleanup is pending"]);
    // An invalid line is damage in that version as well.
    fs::write(&path, text.replacen("\"taskStarted\"", "\"taskStartled\"", 1)).unwrap();
    world.run(&["recover"]).expect(4, &["its journal is damaged"]);
}

// Streams

fn with_streams(world: &World, args: &[&str], out: Stdio, err: Stdio) -> (Option<i32>, String) {
    let ran = world.command(args).stdout(out).stderr(err).output().unwrap();
    (ran.status.code(), String::from_utf8_lossy(&ran.stderr).into_owned())
}

fn full() -> Stdio {
    File::options().write(true).open("/dev/full").unwrap().into()
}

#[test]
fn failing_to_print_is_an_error() {
    let world = World::new(&[]);
    world.copy("examples/quickstart", "q");
    world.run(&["run", "q"]).expect(0, &[]);
    world.write("old.yaml", "kind: Task\nmetadata: {name: old}\nsteps:\n  setup: {inline: 'true'}\n  prompt: {inline: Do it.}\n  verify: {inline: 'test -d /'}\n");
    let out = "gevals-quickstart-out.json";
    let commands: &[&[&str]] = &[
        &["--help"],
        &["run", "--help"],
        &["--version"],
        &["version"],
        &["check", "q"],
        &["check", "q", "--format", "json"],
        &["plan", "q"],
        &["plan", "q", "--format", "dot"],
        &["plan", "q", "--task", "write-note", "--why", "read"],
        &["explain"],
        &["explain", "unknown-field"],
        &["schema"],
        &["schema", "results"],
        &["completion", "bash"],
        &["convert", "--no-verify", "old.yaml"],
        &["result", "view", out],
        &["result", "summary", out],
        &["result", "convert", "junit", out],
        &["result", "diff", out, out],
        &["recover"],
        &["run", "q"],
        &["run", "q", "--format", "json"],
        &["run", "q", "--format", "classic"],
        &["run", "q", "--preflight"],
    ];
    for args in commands {
        let (code, err) = with_streams(&world, args, full(), Stdio::piped());
        assert!(code.is_some_and(|code| code != 0 && code != 101), "{args:?}: {code:?} {err}");
        assert!(err.contains("cannot write to standard output: No space left on device"), "{args:?}: {err}");
        // If standard error is full, nothing can be reported, but nothing panics.
        let (code, _) = with_streams(&world, args, Stdio::null(), full());
        assert!(code.is_some_and(|code| code != 101), "{args:?}: {code:?}");
        let (code, _) = with_streams(&world, args, full(), full());
        assert!(code.is_some_and(|code| code != 0 && code != 101), "{args:?}: {code:?}");
    }
    let wrong: &[&[&str]] =
        &[&["run", "nowhere"], &["check", "--no-such"], &["run", "q", "--run", "none"], &["recover", "nowhere"]];
    for args in wrong {
        assert_eq!(with_streams(&world, args, full(), full()).0, Some(2), "{args:?}");
    }
}

#[test]
fn a_closed_output_pipe_is_not_an_error() {
    let world = World::new(&[]);
    world.copy("examples/quickstart", "q");
    for args in ["--help", "explain", "schema results", "check q --format json", "run q --format json", "plan q"] {
        let line = format!("{{ \"$GEVALS\" {args}; echo $? > code; }} | true");
        let ran = world.start(in_shell(&world, &line)).end();
        assert_eq!((world.read("code").as_str(), ran.err.as_str()), ("0\n", ""), "{args}");
    }
}

/// `eprintln!` and `println!` panic if they cannot write. The remaining ones write to a pipe of another gevals process.
#[test]
fn print_macros_are_used_only_in_allowed_files() {
    let allowed = ["src/sandbox/confine.rs", "src/cluster/serve.rs"];
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = vec![root.join("src")];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                let shown = path.strip_prefix(root).unwrap().display().to_string();
                let printing = text.lines().any(|line| {
                    ["println!(", "print!("]
                        .iter()
                        .any(|name| line.trim_start().trim_start_matches('e').starts_with(name))
                });
                found.extend((printing && !allowed.contains(&shown.as_str())).then_some(shown));
            }
        }
    }
    assert!(found.is_empty(), "{found:?}");
}

// Files

/// This many tasks that run in parallel, and leave nothing behind.
fn many(count: usize, verify: &str) -> World {
    let world = World::new(&[]);
    world.write(
        "eval.yaml",
        "kind: Eval\nmetadata: {name: e}\nconfig:\n  agent: {type: builtin.noop}\n  taskSets: [{glob: 'tasks/*.yaml'}]\n",
    );
    for nth in 0..count {
        let spec = format!("  verify: [{{command: {{run: \"{verify}\"}}}}]\n");
        world.write(&format!("tasks/t{nth}.yaml"), &task(&format!("t{nth}"), ", parallel: true", &spec));
    }
    world
}

fn tasks_by_default() -> usize {
    std::env::var("GEVALS_TASKS").ok().and_then(|count| count.parse().ok()).unwrap_or(100)
}

/// `GEVALS_TASKS=1000` runs more of them.
#[test]
fn a_low_limit_on_open_files_breaks_no_task() {
    let count = tasks_by_default();
    let all = format!("{count} of {count} tasks passed");
    // gevals raises its soft limit; shortly after their start, the processes that it starts have the original limit
    // again.
    let own = "i=0; until test $(ulimit -Sn) = 64; do i=$((i+1)); test $i -lt 100 || exit 1; sleep 0.02; done";
    let world = many(count, own);
    let run = |world: &World, limit: &str| {
        let output = in_shell(world, &format!("{limit} && exec \"$GEVALS\" run eval.yaml -q -p 32")).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ran { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr), peak: 0 }
    };
    let ran = run(&world, "ulimit -Sn 64").expect(0, &[&all]);
    assert!(!ran.err.contains("open files"), "{}", ran.err);
    // With a low hard limit, fewer tasks run in parallel.
    let world = many(count, "test -d /");
    run(&world, "ulimit -n 64")
        .expect(0, &[&all, "`-p 32` needs more open files than the limit of 64: tasks run one at a time"]);
    run(&world, "ulimit -n 256").expect(0, &[&all, "than the limit of 256: 13 tasks run in parallel"]);
    assert_eq!(world.results("e")["summary"]["parallelWorkers"], 13);
}

// Processes

/// A daemon without the session, process group, parent and environment of the step.
const DAEMON: &str =
    "env -i setsid sh -c 'sleep 300 >/dev/null 2>&1 & echo $! > WORLD/pid.new; mv WORLD/pid.new WORLD/pid'";

#[test]
fn a_daemon_ends_with_its_run() {
    let world = tasks(&[("b", &slow(CLEAN).replace("touch $F", &format!("touch $F; {DAEMON}")))]);
    world.write("quick", "");
    world.run(&["run", "eval.yaml"]).expect(0, &[]);
    assert!(!lives(&world.read("pid")), "{}", world.read("pid"));
}

/// If control groups can be created; otherwise a later gevals cannot know to which run such a daemon belongs.
#[test]
fn a_daemon_of_a_killed_run_is_found_by_its_control_group() {
    let world = tasks(&[("b", &slow(CLEAN).replace("touch $F", &format!("touch $F; {DAEMON}")))]);
    killed(&world);
    let pid = world.read("pid");
    assert!(lives(&pid));
    let text = fs::read_to_string(journal(&world)).unwrap();
    let process: Value = serde_json::from_str(text.lines().nth(1).unwrap()).unwrap();
    let Some(group) = process["process"]["group"].as_str().map(PathBuf::from) else {
        println!("not tested: no control group can be made here");
        Command::new("kill").arg(pid.trim()).status().unwrap();
        return;
    };
    assert!(fs::read_to_string(group.join("cgroup.procs")).unwrap().lines().any(|member| member == pid.trim()));
    world.run(&["recover"]).expect(0, &["terminated ", "`b`: cleanup/0 is done"]);
    assert!(!lives(&pid) && !group.exists());
}

/// A kept world keeps its processes and their control group; cleanup ends both.
#[test]
fn control_groups_are_removed_with_their_worlds() {
    let groups = || {
        let mine = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let at = mine.lines().filter(|line| line.contains(" - cgroup2 ")).filter_map(|line| line.split(' ').nth(4));
        let entries = at.flat_map(|at| fs::read_dir(at).into_iter().flatten().flatten());
        entries
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("gevals-"))
            .map(|entry| entry.path())
            .collect::<BTreeSet<_>>()
    };
    let world = tasks(&[("b", &slow(CLEAN).replace("touch $F", &format!("touch $F; {DAEMON}")))]);
    world.write("quick", "");
    world.run(&["run", "eval.yaml", "--phase", "setup"]).expect(0, &["is kept"]);
    let text = fs::read_to_string(journal(&world)).unwrap();
    let process: Value = serde_json::from_str(text.lines().nth(1).unwrap()).unwrap();
    assert!(lives(&world.read("pid")));
    world.run(&["run", "eval.yaml", "--phase", "cleanup"]).expect(0, &[]);
    assert!(!process["process"]["group"].as_str().is_some_and(|group| groups().contains(Path::new(group))));
    if process["process"]["group"].is_string() {
        assert!(!lives(&world.read("pid")));
    } else {
        Command::new("kill").arg(world.read("pid").trim()).status().unwrap();
    }
}

// Bounds

const MCP: &str =
    "mcpServers:\n  notes: {command: gevals, args: [demo-server, --dir, WORLD/notes], enableAllTools: true}\n";

/// Two tasks, each of which writes a note of 700 KiB twice.
fn large() -> World {
    let world = World::new(&[("mcp.yaml", MCP)]);
    world.write(
        "eval.yaml",
        "kind: Eval\nmetadata: {name: e}\nconfig:\n  agent: {type: builtin.script, path: oracle.yaml}\n  mcpConfigFile: mcp.yaml\n  taskSets: [{glob: 'tasks/*.yaml'}]\n",
    );
    let text = "x".repeat(700 << 10);
    let mut oracle = "kind: Oracle\ntasks:\n".to_owned();
    for name in ["a", "b"] {
        let verify = "  verify: [{command: {run: \"test -d WORLD/notes\"}}]\n  cleanup: [{command: {run: \"rm -rf WORLD/notes/*\"}}]\n";
        world.write(&format!("tasks/{name}.yaml"), &task(name, "", verify));
        oracle += &format!("  {name}:\n    calls:\n");
        for call in ["one", "two"] {
            oracle += &format!(
                "      - {{server: notes, tool: notes_create, args: {{title: {call} {name}, body: \"{text}\"}}}}\n"
            );
        }
        oracle += "    output: done\n";
    }
    world.write("oracle.yaml", &oracle);
    world
}

#[test]
fn recordings_are_bounded_and_truncation_is_reported() {
    let world = large();
    let ran = world.run(&["run", "eval.yaml"]).expect(0, &[]);
    assert!(!ran.err.contains("warning"), "{}", ran.err);
    let recording = |world: &World| journal(world).with_file_name("recording.jsonl");
    assert!(fs::metadata(recording(&world)).unwrap().len() > 4 * (700 << 10));
    let cut = "the recording ends before the run, at 1 MiB; `--max-recording`";
    world.run(&["run", "eval.yaml", "--max-recording", "1"]).expect(0, &[cut]);
    let text = fs::read_to_string(recording(&world)).unwrap();
    assert!(text.len() <= (1 << 20) + 200, "{}", text.len());
    assert!(text.lines().last().unwrap().contains("\"cut\""));
    fs::copy(recording(&world), world.path("part.jsonl")).unwrap();
    // Missing parts do not count as a pass.
    let replay = ["run", "eval.yaml", "--agent", "builtin.replay:part.jsonl"];
    world.run(&replay).expect(2, &["the recording does not contain the task `b`"]);
    world
        .run(&[&replay[..], &["--run", "^a$"]].concat())
        .expect(2, &["the recording was full before the agent had ended in the task `a`"]);
}

#[test]
fn of_a_message_that_is_too_long_only_the_length_is_recorded() {
    let world = large();
    let oracle = world.read("oracle.yaml");
    world.write("oracle.yaml", &oracle.replace(&"x".repeat(700 << 10), &"y".repeat(1100 << 10)));
    world
        .run(&["run", "eval.yaml", "--max-recorded", "1"])
        .expect(0, &["4 messages are not in the recording, being longer than 1 MiB"]);
    let recording = journal(&world).with_file_name("recording.jsonl");
    let text = fs::read_to_string(&recording).unwrap();
    assert!(text.len() < 100 << 10, "{}", text.len());
    assert_eq!(text.matches("\"message\":null,\"cut\":11").count(), 4);
    fs::copy(recording, world.path("part.jsonl")).unwrap();
    let why = "a message was too long for the recording of the task";
    world.run(&["run", "eval.yaml", "--agent", "builtin.replay:part.jsonl"]).expect(2, &[why]);
}

#[test]
fn results_are_bounded_and_keep_the_parts_that_decide() {
    let world = large();
    world
        .run(&["run", "eval.yaml", "--max-results", "4"])
        .expect(0, &["larger than 4 MiB: for 1 of them, only the parts that decide the verdict are kept"]);
    let results = world.results("e");
    assert_eq!(results["summary"]["cut"], 1);
    assert_eq!((&results["summary"]["complete"], results["results"].as_array().unwrap().len()), (&true.into(), 2));
    let cut = &results["results"][1];
    assert_eq!((&cut["cut"], &cut["outcome"], &cut["callHistory"]), (&true.into(), &"passed".into(), &Value::Null));
    world.run(&["result", "verify", "gevals-e-out.json"]).expect(0, &[]);
}

#[test]
fn folders_of_runs_without_pending_cleanups_are_pruned() {
    let world = tasks(&[("b", &slow("test -e WORLD/can && rm $F"))]);
    world.write("quick", "");
    world.run(&["run", "eval.yaml"]).expect(4, &[]);
    let pending = runs(&world).pop().unwrap();
    world.run(&["run", "eval.yaml", "--phase", "setup"]).expect(0, &["is kept"]);
    let kept = runs(&world).pop().unwrap();
    let quick = tasks(&[("a", QUICK)]);
    let eval = quick.read("eval.yaml").replace("name: e", "name: other");
    world.write("other.yaml", &eval);
    world.write("a.yaml", &quick.read("a.yaml"));
    for _ in 0..4 {
        world.run(&["run", "other.yaml", "--keep-runs", "2"]);
    }
    let left = runs(&world);
    assert!(left.contains(&pending) && left.contains(&kept), "{left:?}");
    assert_eq!(left.len(), 4, "{left:?}");
    world.write("can", "");
    world.run(&["recover"]).expect(0, &[]);
    world.run(&["run", "other.yaml", "--keep-runs", "2"]).expect(0, &[]);
    assert_eq!(runs(&world).len(), 2);
}

/// `GEVALS_TASKS=10000` measures the figure in `docs/running.md`, which applies to the release build.
#[test]
fn memory_grows_little_with_the_number_of_tasks() {
    if std::env::var_os("GEVALS_TASKS").is_none() {
        eprintln!("NOT RUN: GEVALS_TASKS=10000 measures it");
        return;
    }
    let count = tasks_by_default();
    let world = many(count, "test -d /");
    let mut child = world.command(&["run", "eval.yaml", "-q", "-p", "32"]).stdout(Stdio::null()).spawn().unwrap();
    let (mut peak, mut written) = (0, 0);
    while child.try_wait().unwrap().is_none() {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let io = fs::read_to_string(format!("/proc/{}/io", child.id())).unwrap_or_default();
        let of = |text: &str, name: &str| -> Option<u64> {
            text.lines().find_map(|line| line.strip_prefix(name)?.trim().trim_end_matches(" kB").parse().ok())
        };
        peak = of(&status, "VmHWM:").unwrap_or(0).max(peak);
        written = of(&io, "wchar:").unwrap_or(0).max(written);
        std::thread::sleep(Duration::from_millis(20));
    }
    println!("{count} tasks: {} MB at most, {} bytes written a task", peak >> 10, written / count as u64);
    if count >= 10_000 {
        assert!(peak >> 10 <= 150, "{} MB", peak >> 10);
    }
}

// Temporary files

#[test]
fn the_demo_server_writes_only_into_folders_of_its_user() {
    let world = World::new(&[]);
    let ask = |dir: &str| {
        let mut command = world.command(&["demo-server", "--dir", dir]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let messages = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{},\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}\n{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":\"notes_create\",\"arguments\":{\"title\":\"one\",\"body\":\"secret\"}}}\n";
        let _ = child.stdin.take().unwrap().write_all(messages.as_bytes());
        let ran = child.wait_with_output().unwrap();
        (ran.status.code(), String::from_utf8_lossy(&ran.stderr).into_owned())
    };
    assert_eq!(ask("own").0, Some(0));
    let mode = |path: &str| fs::metadata(world.path(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("own"), mode("own/one.md")), (0o700, 0o600));
    fs::create_dir(world.path("victim")).unwrap();
    symlink("victim", world.path("link")).unwrap();
    fs::create_dir(world.path("open")).unwrap();
    fs::set_permissions(world.path("open"), fs::Permissions::from_mode(0o777)).unwrap();
    fs::create_dir(world.path("theirs")).unwrap();
    // Only root can change the owner.
    let given = std::os::unix::fs::chown(world.path("theirs"), Some(1), Some(1)).is_ok();
    assert_eq!(fs::metadata(world.path("theirs")).unwrap().uid() == 1, given);
    let refused = [
        ("link", "is a symbolic link"),
        ("open", "can be written to by others"),
        ("theirs", "belongs to somebody else"),
    ];
    for (dir, why) in refused.into_iter().filter(|(dir, _)| given || *dir != "theirs") {
        let (code, err) = ask(dir);
        assert!(code == Some(3) && err.contains(why), "{dir}: {code:?} {err}");
    }
    assert_eq!(fs::read_dir(world.path("victim")).unwrap().count(), 0);
    // A note that is a link is not followed.
    symlink("/etc/passwd", world.path("own/two.md")).unwrap();
    assert!(ask("own").0.is_some());
}

#[test]
fn files_opened_in_a_viewer_are_in_a_private_folder() {
    let world = World::new(&[]);
    world.copy("examples/quickstart", "q");
    let mut command = world.command(&["plan", "q", "--open", "--format", "html"]);
    command.env("PATH", world.programs());
    world.program("xdg-open", "#!/bin/sh\nstat -c '%a' \"$(dirname \"$1\")\" > WORLD/mode\n");
    let ran = world.start(command).end();
    assert_eq!((ran.code, world.read("mode").as_str()), (Some(0), "700\n"), "{}{}", ran.out, ran.err);
    assert!(gevals().to_str().is_some());
}
