//! Journals from end to end: recover, resume, kept worlds, recordings, and full disks.
#![cfg(all(feature = "run", target_os = "linux"))]

use std::{fs, path::PathBuf};

use gevals::{event::recording::Line, schema};
use rustix::process::Signal;
use serde_json::Value;

use crate::support::world::{Ran, World};

/// An eval `e` of portable tasks, each given by its name and the rest of its spec.
fn tasks(tasks: &[(&str, &str)]) -> World {
    let world = World::new(&[]);
    let paths: String = tasks.iter().map(|(name, _)| format!("    - path: {name}.yaml\n")).collect();
    world.write(
        "eval.yaml",
        &format!("kind: Eval\nmetadata: {{name: e}}\nconfig:\n  agent: {{type: builtin.noop}}\n  taskSets:\n{paths}"),
    );
    for (name, spec) in tasks {
        world.write(
            &format!("{name}.yaml"),
            &format!(
                "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {{name: {name}}}\nspec:\n  prompt: Do it.\n{spec}"
            ),
        );
    }
    world
}

/// Creates a file, waits unless `quick` exists, and removes the file in cleanup.
const SLOW: &str = r#"  env: {F: "WORLD/made-{random.id}"}
  setup:
    - command: {run: "touch $F"}
    - command: {run: "touch WORLD/here; test -e WORLD/quick || exec sleep 300"}
  verify: [{command: {run: "test -f $F"}}]
  cleanup: [{command: {run: "echo cleaned >> WORLD/log; rm $F"}}]
"#;
const QUICK: &str = "  verify: [{command: {run: \"echo quick >> WORLD/quick-log; test -d WORLD\"}}]\n  cleanup: [{command: {run: \"true\"}}]\n";

fn run_of(world: &World) -> PathBuf {
    let mut runs: Vec<_> = fs::read_dir(world.path(".gevals/runs")).unwrap().flatten().map(|e| e.path()).collect();
    assert_eq!(runs.len(), 1, "{runs:?}");
    runs.pop().unwrap()
}

/// Kills a run as soon as the file `when` exists.
fn killed(world: &World, args: &[&str], when: &str) {
    let run = world.start(world.command(args));
    world.wait_for(when);
    run.signal(Signal::KILL);
    run.end();
}

fn outcomes(world: &World) -> Vec<(String, String)> {
    let results = world.results("e");
    let outcome = |r: &Value| (r["taskName"].as_str().unwrap().to_owned(), r["outcome"].as_str().unwrap().to_owned());
    results["results"].as_array().unwrap().iter().map(outcome).collect()
}

fn made(world: &World) -> usize {
    fs::read_dir(world.path("."))
        .unwrap()
        .flatten()
        .filter(|e| e.file_name().to_string_lossy().starts_with("made-"))
        .count()
}

#[test]
fn a_killed_run_is_recovered_then_resumed() {
    let world = tasks(&[("a", QUICK), ("b", SLOW), ("c", QUICK)]);
    killed(&world, &["run", "eval.yaml"], "here");
    assert_eq!(made(&world), 1);
    world.run(&["recover"]).expect(0, &["`b`: cleanup/0 is done", "2 task runs were cancelled"]);
    assert_eq!((made(&world), world.read("log").as_str()), (0, "cleaned\n"));
    assert!(world.survivors().is_empty());
    let told = [("a", "passed"), ("b", "cancelled"), ("c", "cancelled")].map(|(n, o)| (n.to_owned(), o.to_owned()));
    assert_eq!(outcomes(&world), told);
    world.run(&["recover"]).expect(0, &["no cleanup is pending"]);

    world.write("quick", "");
    let resumed = world
        .run(&["run", "eval.yaml", "--resume"])
        .expect(0, &["1 of 3 results are available", "3 of 3 tasks passed"]);
    assert!(!resumed.out.contains("PASS    a"), "{}", resumed.out);
    assert_eq!(outcomes(&world).iter().filter(|(_, outcome)| outcome == "passed").count(), 3);
    assert_eq!(world.read("quick-log"), "quick\nquick\n");
    world.run(&["run", "eval.yaml", "--resume"]).expect(2, &["there is nothing to resume"]);
    world.run(&["run", "eval.yaml", "--resume=nosuch"]).expect(2, &["no run `nosuch`"]);
}

/// Cleanup follows the recorded plan, even if the files of the task have changed; such a run is not resumed.
#[test]
fn a_run_with_changed_files_is_cleaned_up_as_planned_but_not_resumed() {
    let world = tasks(&[("b", SLOW)]);
    killed(&world, &["run", "eval.yaml"], "here");
    let text = world.read("b.yaml");
    world.write("b.yaml", &text.replace("rm $F", "true"));
    world.run(&["run", "eval.yaml", "--resume"]).expect(2, &["the task `b` has changed since"]);
    // It was cleaned up nevertheless.
    assert_eq!((made(&world), world.read("log").as_str()), (0, "cleaned\n"));

    let world = tasks(&[("b", SLOW)]);
    killed(&world, &["run", "eval.yaml"], "here");
    for file in ["b.yaml", "eval.yaml"] {
        fs::remove_file(world.path(file)).unwrap();
    }
    let elsewhere = tempfile::tempdir().unwrap();
    let mut command = world.command(&["recover", world.path(".").to_str().unwrap()]);
    command.current_dir(elsewhere.path());
    world.start(command).end().expect(0, &["`b`: cleanup/0 is done"]);
    assert_eq!(made(&world), 0);
}

/// Scripts and servers have the same environment when a run is recovered from another shell. Secrets must be provided
/// again.
#[test]
fn a_recovery_has_the_environment_of_its_run() {
    let world = tasks(&[(
        "a",
        r#"  requires: [{mcpServer: notes}]
  setup:
    - command: {run: 'mkdir "$MADE_IN/made-{random.id}"'}
    - command: {run: 'kubectl config; touch WORLD/here; exec sleep 300'}
  verify: [{command: {run: 'test -d "$MADE_IN/made-{random.id}"'}}]
  cleanup:
    - command: {run: 'rm -r "$MADE_IN/made-{random.id}"; kubectl config; printf "%s\n" "$KIND_OF_TOKEN" >> WORLD/told'}
    - notes.notes_create: {args: {title: t, body: b}}
"#,
    )]);
    world.program("kubectl", "#!/bin/sh\necho \"in $KUBECONFIG\" >> WORLD/told\n");
    world.write(
        "mcp.yaml",
        "mcpServers:\n  notes: {command: gevals, args: [demo-server, --dir, '${NOTES}'], enableAllTools: true}\n",
    );
    world.write("eval.yaml", &world.read("eval.yaml").replace("config:", "config:\n  mcpConfigFile: mcp.yaml"));
    let mut command = world.command(&["run", "eval.yaml"]);
    world
        .run(&["run", "eval.yaml", "--preflight"])
        .expect(3, &["but possibly optional for scripts and holes: KIND_OF_TOKEN, MADE_IN"]);
    let had = [("MADE_IN", "."), ("NOTES", "notes"), ("KUBECONFIG", "kc"), ("KIND_OF_TOKEN", "t0p-secret")];
    command.envs(had.map(|(name, value)| {
        (name, if name == "KIND_OF_TOKEN" { value.to_owned() } else { world.path(value).display().to_string() })
    }));
    command.env("PATH", world.programs());
    let run = world.start(command);
    world.wait_for("here");
    run.signal(Signal::KILL);
    run.end();

    let recover = |token: Option<&str>| {
        let mut command = world.command(&["recover"]);
        command.env("PATH", world.programs()).envs(token.map(|token| ("KIND_OF_TOKEN", token)));
        world.start(command).end()
    };
    recover(None).expect(
        4,
        &["still pending: the environment variable `KIND_OF_TOKEN`, which the task reads, was set when it started"],
    );
    assert_eq!(made(&world), 1);
    recover(Some("new")).expect(0, &["`a`: cleanup/0 is done", "`a`: cleanup/1 is done"]);
    assert_eq!(made(&world), 0);
    let config = format!("in {}\n", world.path("kc").display());
    assert_eq!(world.read("told"), format!("{config}{config}new\n"));
    assert!(world.read("notes/t.md").contains('b'));
    assert!(!fs::read_to_string(run_of(&world).join("journal.jsonl")).unwrap().contains("t0p-secret"));
}

/// After Ctrl-C, nothing is pending, and the rest can be run later.
#[test]
fn an_interrupted_run_leaves_nothing_pending_and_is_resumed() {
    let world = tasks(&[("a", QUICK), ("b", SLOW)]);
    let run = world.start(world.command(&["run", "eval.yaml"]));
    world.wait_for("here");
    run.signal(Signal::INT);
    run.end().expect(130, &[]);
    world.run(&["recover"]).expect(0, &["no cleanup is pending"]);
    world.write("quick", "");
    world.run(&["run", "eval.yaml", "--resume"]).expect(0, &["1 of 2 results are available", "2 of 2 tasks passed"]);
}

/// A second Ctrl-C stops cleanup, which is then pending; the next run executes and reports it.
#[test]
fn the_next_run_does_the_cleanup_that_a_second_signal_stopped() {
    let world = tasks(&[(
        "b",
        &SLOW.replace("echo cleaned >> WORLD/log;", "touch WORLD/cleaning; test -e WORLD/quick || sleep 300;"),
    )]);
    let run = world.start(world.command(&["run", "eval.yaml"]));
    world.wait_for("here");
    run.signal(Signal::INT);
    world.wait_for("cleaning");
    // If sent earlier, it would count as the same signal.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    run.signal(Signal::INT);
    run.end().expect(130, &["still pending"]);
    assert_eq!(made(&world), 1);
    world.write("quick", "");
    let ran = world
        .run(&["run", "eval.yaml"])
        .expect(0, &["a cleanup is still pending", "`b`: cleanup/0 is done", "1 of 1 task passed"]);
    assert!(!ran.out.contains("still pending"), "standard output is the report's: {}", ran.out);
    assert_eq!(made(&world), 0);
}

/// A cleanup that fails during recovery stays pending until the user declares it done.
#[test]
fn a_cleanup_that_fails_stays_pending() {
    let world = tasks(&[("b", &SLOW.replace("rm $F", "rm $F && test -e WORLD/can"))]);
    killed(&world, &["run", "eval.yaml"], "here");
    world.run(&["recover"]).expect(4, &["cleanup/0 is still pending: failed"]);
    world.run(&["recover"]).expect(4, &["cleanup/0 is still pending: failed"]);
    let id = run_of(&world).file_name().unwrap().to_str().unwrap().to_owned();
    world.run(&["recover", "--forget"]).expect(2, &["specify it"]);
    world.run(&["recover", "--forget", &id]).expect(0, &["1 cleanup is forgotten"]);
    world.run(&["recover"]).expect(0, &["no cleanup is pending"]);
    world.run(&["recover", "nowhere"]).expect(2, &["no directory or run"]);
}

/// A cleanup that never passes can be given up with the command that every refusal prints.
#[test]
fn a_pending_cleanup_can_be_given_up() {
    let fails = QUICK.replace("run: \"true\"", "run: \"test -e WORLD/never\"");
    let world = tasks(&[("a", &fails), ("b", SLOW)]);
    let forgets = |said: &str| {
        let (_, command) = said.rsplit_once('`').map(|(said, _)| said.rsplit_once('`').unwrap()).unwrap();
        assert!(command.starts_with("gevals recover --forget "), "{said}");
        command.to_owned()
    };
    killed(&world, &["run", "eval.yaml", "-o", "my results"], "here");
    let recovered = world.run(&["recover", "my results"]).expect(4, &["`a`: cleanup/0 is still pending"]);
    world.write("quick", "");
    let refused = world.run(&["run", "eval.yaml", "-o", "my results", "--resume"]).expect(3, &["cannot be resumed"]);
    assert_eq!(forgets(&recovered.out), forgets(&refused.err));
    world.shell(&forgets(&refused.err)).expect(0, &["1 cleanup is forgotten"]);
    world.run(&["recover", "my results"]).expect(0, &["no cleanup is pending"]);
    let resumed = world.run(&["run", "eval.yaml", "-o", "my results", "--resume"]).expect(4, &["2 of 2 tasks passed"]);
    assert!(!resumed.err.contains("pending"), "{}", resumed.err);
    let again = world.run(&["run", "eval.yaml", "-o", "my results"]).expect(4, &["cleanups are still pending"]);
    world.shell(&forgets(&again.err)).expect(0, &["1 cleanup is forgotten"]);
}

/// An output directory is recovered at its current location, whether it was moved together with the directory of the
/// run or without it. gevals never guesses where cleanups act.
#[test]
fn a_moved_run_is_recovered_at_its_new_location() {
    let results = |world: &World, folder: &str| world.path(&format!("{folder}/gevals-e-out.json")).is_file();
    // Moved by itself, from an absolute path.
    let world = tasks(&[("b", SLOW)]);
    killed(&world, &["run", "eval.yaml", "-o", world.path("out").to_str().unwrap()], "here");
    fs::rename(world.path("out"), world.path("kept")).unwrap();
    world.run(&["recover", "kept"]).expect(0, &["`b`: cleanup/0 is done", "/kept/gevals-e-out.json"]);
    assert!(results(&world, "kept") && !world.path("out").exists());
    world.run(&["recover", "kept"]).expect(0, &["no cleanup is pending"]);

    // Moved together with the directory of the eval, in which the cleanup refers to its file.
    let near = SLOW.replace("WORLD/made-{random.id}", "made").replace("rm $F", "rm made");
    for (out, moved) in [(".", "q"), ("out", "q/out"), ("deep/out", "q/deep/out")] {
        let world = World::new(&[]);
        world.write("p/eval.yaml", &tasks(&[("b", "")]).read("eval.yaml"));
        let head = "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {name: b}\nspec:\n  prompt: Do it.\n";
        world.write("p/b.yaml", &format!("{head}{near}"));
        let killed = || {
            let mut command = world.command(&["run", "eval.yaml", "-o", out]);
            command.current_dir(world.path("p"));
            let run = world.start(command);
            world.wait_for("here");
            run.signal(Signal::KILL);
            run.end();
        };
        killed();
        fs::rename(world.path("p"), world.path("q")).unwrap();
        assert!(world.path("q/made").is_file());
        world.run(&["recover", moved]).expect(0, &["was started in", "`b`: cleanup/0 is done"]);
        assert!(!world.path("q/made").exists() && results(&world, moved), "{out}");

        // Moved without it.
        fs::rename(world.path("q"), world.path("p")).unwrap();
        fs::remove_dir_all(world.path("p").join(out).join(".gevals")).unwrap();
        fs::remove_file(world.path("here")).unwrap();
        killed();
        fs::rename(world.path("p").join(out).join(".gevals"), world.path(".gevals")).unwrap();
        fs::remove_dir_all(world.path("p")).unwrap();
        let run = run_of(&world);
        let forget = format!("`gevals recover --forget .gevals/runs/{}`", run.file_name().unwrap().to_str().unwrap());
        let folder = format!("the directory `{}` of its cleanups no longer exists", world.path("p").display());
        world.run(&["recover"]).expect(4, &[&folder, &forget]);
    }

    // If results cannot be written, the message names the file.
    let world = tasks(&[("b", SLOW)]);
    killed(&world, &["run", "eval.yaml", "-o", "out"], "here");
    fs::create_dir(world.path("out/gevals-e-out.json")).unwrap();
    world.run(&["recover", "out"]).expect(3, &["the results cannot be written: `out/gevals-e-out.json`: "]);
}

#[test]
fn two_concurrent_runs_are_distinguished() {
    let world = tasks(&[("b", SLOW)]);
    let run = world.start(world.command(&["run", "eval.yaml"]));
    world.wait_for("here");
    let other = |args: &[&str]| {
        let out = world.command(args).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Ran { code: out.status.code(), out: text(out.stdout), err: text(out.stderr), peak: 0 }
    };
    other(&["run", "eval.yaml"]).expect(3, &["another run is writing to `./gevals-e-out.json`", "--output-dir"]);
    other(&["recover"]).expect(0, &["a run of `e` is in progress (process ", "skipped"]);
    let id = run_of(&world).file_name().unwrap().to_str().unwrap().to_owned();
    other(&["recover", &id]).expect(2, &["is in progress"]);
    assert_eq!(made(&world), 1);
    run.signal(Signal::TERM);
    run.end().expect(143, &[]);
}

#[test]
fn an_environment_is_set_up_verified_and_cleaned_up_phase_by_phase() {
    let world = tasks(&[("b", SLOW)]);
    world.write("quick", "");
    world.run(&["run", "eval.yaml", "--phase", "verify"]).expect(2, &["no environment of `b` is kept"]);
    world.run(&["run", "eval.yaml", "--phase", "cleanup"]).expect(2, &["no environment of these tasks is kept"]);
    world
        .run(&["run", "eval.yaml", "--phase", "setup"])
        .expect(0, &["is kept", "export F=", "--phase verify", "1 of 1 task set up"]);
    assert_eq!(made(&world), 1);
    world.run(&["run", "eval.yaml", "--phase", "verify"]).expect(0, &["PASS    b"]);
    let file =
        fs::read_dir(world.path(".")).unwrap().flatten().find(|e| e.file_name().to_string_lossy().starts_with("made-"));
    let file = file.unwrap().path();
    fs::rename(&file, world.path("away")).unwrap();
    world.run(&["run", "eval.yaml", "--phase", "verify"]).expect(1, &["FAIL    b"]);
    fs::rename(world.path("away"), &file).unwrap();
    // Runs of single phases do not overwrite the results of whole runs, and other runs keep the world.
    assert!(!world.path("gevals-e-out.json").exists());
    world.run(&["run", "eval.yaml"]).expect(0, &[]);
    assert_eq!(made(&world), 1);
    world.run(&["run", "eval.yaml", "--phase", "cleanup"]).expect(0, &["`b`: cleanup/0 is done"]);
    assert_eq!(made(&world), 0);
    world.run(&["recover"]).expect(0, &["no cleanup is pending"]);
}

/// The commands that gevals prints work when copied, wherever the results are written.
#[test]
fn printed_commands_work_when_copied() {
    let world = tasks(&[("b", &SLOW.replace("test -f $F", "false"))]);
    world.write("quick", "");
    let command = |said: &str, what: &str| -> String {
        let line = said.lines().find_map(|line| line.trim().strip_prefix(what)).unwrap_or_else(|| panic!("{said}"));
        line.to_owned()
    };
    let ran = world.run(&["run", "eval.yaml", "--phase", "setup", "-o", "my results"]).expect(0, &["is kept"]);
    let judged = world.shell(&command(&ran.err, "verify")).expect(1, &["FAIL    b"]);
    world.shell(&command(&judged.out, "rerun:")).expect(1, &["FAIL    b"]);
    assert_eq!(made(&world), 1, "no agent has run");
    world.shell(&command(&ran.err, "clean up")).expect(0, &["`b`: cleanup/0 is done"]);
    assert_eq!(made(&world), 0);
    let ran = world.run(&["run", "eval.yaml", "-o", "my results"]).expect(1, &[]);
    world.shell(&command(&ran.out, "rerun:")).expect(1, &["results: my results/gevals-e-out.json"]);

    // An agent that is not a replay refuses `--replay`, so the commands printed by a resumed run, or for one of several
    // agents, must not contain it.
    for file in ["quick", "here"] {
        fs::remove_file(world.path(file)).unwrap();
    }
    killed(&world, &["run", "eval.yaml"], "here");
    world.write("quick", "");
    let resumed = world.run(&["run", "eval.yaml", "--resume"]).expect(1, &[]);
    world.shell(&command(&resumed.out, "rerun:")).expect(1, &["FAIL    b"]);
    let agents = ["--agent", "builtin.noop", "--agent", "agent.yaml", "--replay", "tolerant"];
    world.write("agent.yaml", "kind: Agent\nmetadata: {name: other}\ncommands: {runPrompt: \"true\"}\n");
    let several = world.run(&[&["run", "eval.yaml"][..], &agents].concat()).expect(1, &[]);
    world.shell(&command(&several.out, "rerun:")).expect(1, &["FAIL    b"]);

    // The printed command contains `--root`, because without it the project would be a different one.
    let world = tasks(&[("b", &SLOW.replace("test -f $F", "false"))]);
    world.write("quick", "");
    world.write("own/gevals.toml", "");
    world.write("own/eval.yaml", &world.read("eval.yaml").replace("b.yaml", "../b.yaml"));
    let ran = world.run(&["run", "own/eval.yaml", "--root", "."]).expect(1, &[]);
    world.shell(&command(&ran.out, "rerun:")).expect(1, &["FAIL    b"]);
}

#[test]
fn environments_of_failed_tasks_are_kept() {
    let world = tasks(&[("a", QUICK), ("b", &SLOW.replace("test -f $F", "false"))]);
    world.write("quick", "");
    let ran = world.run(&["run", "eval.yaml", "--keep", "on-failure"]).expect(1, &["the environment of `b` is kept"]);
    assert!(!ran.err.contains("the environment of `a`"), "{}", ran.err);
    assert_eq!(made(&world), 1);
    world.run(&["recover"]).expect(0, &["its environment was kept", "`b`: cleanup/0 is done"]);
    assert_eq!(made(&world), 0);
    world.run(&["recover"]).expect(0, &["no cleanup is pending"]);
}

/// A missing server is detected before anything runs.
#[test]
fn preflight_runs_nothing() {
    let world = World::new(&[]);
    world.copy("examples/quickstart", "q");
    world
        .run(&["run", "q", "--preflight"])
        .expect(0, &["ok      server `notes`", "6 tools", "everything is available for 4 tasks"]);
    world.write("q/mcp.yaml", "mcpServers:\n  notes: {command: no-such-server, enableAllTools: true}\n");
    world
        .run(&["run", "q", "--preflight"])
        .expect(3, &["missing server `notes`", "no-such-server", "1 item is missing"]);
    assert!(!world.path("gevals-quickstart-out.json").exists() && !world.path(".gevals").exists());
}

/// Every line matches the schema, and all calls are recorded.
#[test]
fn a_recording_contains_all_messages() {
    let world = World::new(&[]);
    world.copy("examples/quickstart", "q");
    world.run(&["run", "q"]).expect(0, &[]);
    let text = fs::read_to_string(run_of(&world).join("recording.jsonl")).unwrap();
    let schema = schema::SCHEMAS.iter().find(|s| s.name == "recording").map(|s| (s.make)(None)).unwrap();
    let validator = jsonschema::draft7::new(&schema).unwrap();
    let mut calls = 0;
    let mut answers = 0;
    let (mut prompts, mut drawn) = (0, 0);
    for (i, line) in text.lines().enumerate() {
        let value: Value = serde_json::from_str(line).unwrap();
        assert!(validator.is_valid(&value), "{line}");
        match serde_json::from_value(value).unwrap() {
            Line::Recording { .. } => assert_eq!(i, 0),
            Line::Random { id, port, .. } => drawn += usize::from(!id.is_empty() && port.is_some()),
            Line::Prompt { .. } => prompts += 1,
            Line::Message { task: Some(_), message, .. } => {
                calls += usize::from(message["method"] == "tools/call");
                answers += usize::from(message["result"]["content"].is_array());
            }
            Line::Message { .. } | Line::Output { .. } | Line::Cut { .. } => {}
        }
    }
    let results = world.results("quickstart");
    let called = |r: &Value| r["callHistory"]["ToolCalls"].as_array().map_or(0, Vec::len);
    let expected: usize = results["results"].as_array().unwrap().iter().map(called).sum();
    assert!(expected > 0);
    assert_eq!((drawn, prompts, calls, answers), (4, 4, expected, expected));
}

/// Secrets are neither in the journal nor in the recording, wherever they come from; a cleanup that needs one must be
/// given it again.
#[test]
fn secrets_are_never_written() {
    let spec = r#"  env: {API_TOKEN: "{env.SECRET_TOKEN}", NAME: plain}
  setup: [{command: {id: s, run: "echo $API_TOKEN"}}, {command: {run: "touch WORLD/here; sleep 300"}}]
  verify: [{command: {run: "test -n \"{steps.s.outputs.stdout}\""}}]
  cleanup:
    - command: {run: "test \"$API_TOKEN\" = hush-hush-0815 && echo cleaned > WORLD/log"}
    - command: {run: "test -n \"{steps.s.outputs.stdout}\""}
"#;
    let world = tasks(&[("b", spec)]);
    let with_secret = |args: &[&str]| {
        let mut command = world.command(args);
        command.env("SECRET_TOKEN", "hush-hush-0815");
        world.start(command)
    };
    let run = with_secret(&["run", "eval.yaml"]);
    world.wait_for("here");
    run.signal(Signal::KILL);
    run.end();
    let ran = with_secret(&["recover"]).end();
    assert_eq!(world.read("log"), "cleaned\n", "{}", ran.out);
    // A step that would receive a mask instead of the value does not run.
    ran.expect(4, &["`b`: cleanup/0 is done", "cleanup/1 is still pending", "has no value"]);
    for file in ["journal.jsonl", "recording.jsonl"] {
        let text = fs::read_to_string(run_of(&world).join(file)).unwrap();
        assert!(!text.contains("hush-hush"), "{file}: {text}");
    }
}

/// A line that was only half written when the process died is not a problem, wherever it is cut. (For damage, see
/// `attacks/loss.rs`.)
#[test]
fn a_truncated_journal_is_read_up_to_the_truncation() {
    let world = tasks(&[("b", SLOW)]);
    killed(&world, &["run", "eval.yaml"], "here");
    let path = run_of(&world).join("journal.jsonl");
    let whole = fs::read(&path).unwrap();
    let last = whole.split_inclusive(|byte| *byte == b'\n').next_back().unwrap();
    let torn = [whole.as_slice(), &last[..last.len() - 40], b"\0\0\0"].concat();
    fs::write(&path, &torn).unwrap();
    world.run(&["recover"]).expect(0, &["`b`: cleanup/0 is done"]);
    assert_eq!(made(&world), 0);
    assert!(fs::read_to_string(&path).unwrap().lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
    fs::write(&path, "{}\n").unwrap();
    world.run(&["recover"]).expect(4, &["the first line of its journal is damaged or not from a journal"]);
}

/// A full disk (here, a limit on the size of files) stops the run before it does anything that could not be undone.
#[test]
fn a_full_disk_stops_the_run_and_cleans_up() {
    let step =
        |i: usize| format!("    - command: {{run: \"touch WORLD/made-{i}; head -c 3000 /dev/zero | tr '\\\\0' x\"}}\n");
    let steps: String = (0..100).map(step).collect();
    let spec = format!(
        "  setup:\n{steps}  verify: [{{command: {{run: \"test -d WORLD\"}}}}]\n  cleanup: [{{command: {{run: \"rm -f WORLD/made-*\"}}}}]\n"
    );
    let world = tasks(&[("b", &spec)]);
    let gevals = env!("CARGO_BIN_EXE_gevals");
    // 200 blocks of 512 bytes; a write beyond them must fail with EFBIG, and not end gevals with SIGXFSZ.
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &format!("ulimit -f 200; exec {gevals} run eval.yaml")]).current_dir(world.path("."));
    let ran = world.start(command).end();
    assert_eq!(ran.code, Some(3), "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("journal.jsonl`: "), "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("CANCELLED") || ran.out.to_lowercase().contains("cancel"), "{}", ran.out);
    assert_eq!(made(&world), 0, "the cleanup ran");
    world.run(&["recover"]).expect(0, &[]);
}

/// `--isolate` starts one server per task; otherwise, all tasks share one.
#[test]
fn servers_are_shared_unless_isolated() {
    // With `--isolate`, one additional server is started beforehand to list its tools.
    for (isolate, starts) in [(false, 1), (true, 5)] {
        let world = World::new(&[]);
        world.copy("examples/quickstart", "q");
        world.write(
            "q/mcp.yaml",
            "mcpServers:\n  notes: {command: sh, args: [-c, \"echo start >> WORLD/starts; exec $GEVALS demo-server --dir ${HOME}/.cache/gevals-quickstart\"], enableAllTools: true}\n",
        );
        let args: &[&str] = if isolate { &["run", "q", "--isolate"] } else { &["run", "q"] };
        world.run(args).expect(0, &["4 of 4 tasks passed"]);
        assert_eq!(world.read("starts").lines().count(), starts);
        assert!(world.survivors().is_empty());
    }
}

/// If a server dies during an agent's turn, the task is broken, and the server is restarted for the next one.
#[test]
fn the_task_that_lost_a_server_is_broken() {
    let world = World::new(&[]);
    world.copy("examples/quickstart", "q");
    // At the first call, the server exits.
    let serve = "$GEVALS demo-server --dir ${HOME}/.cache/gevals-quickstart";
    world.write("dies", &format!("echo start >> WORLD/starts\n[ $(wc -l < WORLD/starts) -gt 1 ] && exec {serve}\nwhile read -r l; do case $l in *tools/call*) exit;; *) printf '%s\\n' \"$l\";; esac; done | {serve}\n"));
    world.write("q/mcp.yaml", "mcpServers:\n  notes: {command: sh, args: [WORLD/dies], enableAllTools: true}\n");
    world.run(&["run", "q"]).expect(1, &["3 of 4 tasks passed, 1 broken"]);
    assert_eq!(world.read("starts").lines().count(), 2);
}

fn lives(world: &World, pid_file: &str) -> bool {
    let pid = world.read(pid_file);
    assert!(!pid.trim().is_empty());
    fs::read_to_string(format!("/proc/{}/stat", pid.trim())).is_ok_and(|stat| !stat.contains(") Z "))
}

/// A process without the mark of its run is found by its process group; background processes of a kept world live as
/// long as the world.
#[test]
fn processes_end_with_their_environment() {
    let start = r#"    - command: {run: "env -i sleep 300 >/dev/null 2>&1 & echo $! > WORLD/pid"}"#;
    let world = tasks(&[("b", &SLOW.replace("  setup:\n", &format!("  setup:\n{start}\n")))]);
    killed(&world, &["run", "eval.yaml"], "here");
    assert!(lives(&world, "pid"));
    world.run(&["recover"]).expect(0, &["terminated "]);
    assert!(!lives(&world, "pid"));

    world.write("quick", "");
    world.run(&["run", "eval.yaml", "--phase", "setup"]).expect(0, &["is kept"]);
    assert!(lives(&world, "pid"));
    world.run(&["run", "eval.yaml", "--phase", "verify"]).expect(0, &[]);
    assert!(lives(&world, "pid"));
    world.run(&["run", "eval.yaml", "--phase", "cleanup"]).expect(0, &[]);
    assert!(!lives(&world, "pid"));
}

/// A broken run with pending cleanups is not repeated: the cleanups would be forgotten.
#[test]
fn a_broken_run_with_pending_cleanups_or_a_kept_environment_is_not_retried() {
    // Broken every time.
    let broken = "  setup:\n    - command: {run: \"touch WORLD/made-$$; echo . >> WORLD/runs\"}\n    - command: {run: \"false\"}\n  verify: [{command: {run: \"test -d /\"}}]\n  cleanup: [{command: {run: \"rm WORLD/made-*\"}}]\n";
    let world = tasks(&[("a", broken)]);
    for keep in ["on-failure", "always"] {
        let args = ["run", "eval.yaml", "--retry-broken", "2", "--keep", keep];
        world.run(&args).expect(1, &["the environment of `a` is kept"]);
        assert_eq!((made(&world), world.read("runs").as_str()), (1, ".\n"), "{keep}");
        world.run(&["recover"]).expect(0, &["`a`: cleanup/0 is done"]);
        assert_eq!(made(&world), 0);
        fs::remove_file(world.path("runs")).unwrap();
    }
    world.run(&["run", "eval.yaml", "--retry-broken", "2"]).expect(1, &["retried (2 of at most 2)"]);
    assert_eq!((made(&world), world.read("runs").as_str()), (0, ".\n.\n.\n"));

    // Broken the first time, and its cleanup fails as well.
    let flaky = "  setup: [{command: {run: \"test -e WORLD/again || { touch WORLD/again; false; }\"}}]\n  verify: [{command: {run: \"test -d /\"}}]\n  cleanup: [{command: {run: \"test -e WORLD/clean || { touch WORLD/clean; false; }\"}}]\n";
    let world = tasks(&[("a", flaky)]);
    world
        .run(&["run", "eval.yaml", "--retry-broken", "2"])
        .expect(1, &["0 of 1 task passed, 1 broken", "cleanup: a `cleanup/0` failed"]);
}

/// A server that fails to start is not started again for each task.
#[test]
fn a_failure_that_affects_every_task_is_not_retried() {
    let world = tasks(&[("a", QUICK), ("b", QUICK)]);
    let eval = world.read("eval.yaml").replace("  taskSets", "  mcpConfigFile: mcp.yaml\n  taskSets");
    world.write("eval.yaml", &eval);
    world.write("mcp.yaml", "mcpServers:\n  x: {command: sh, args: [-c, \"echo . >> WORLD/starts; exit 3\"]}\n");
    let ran = world.run(&["run", "eval.yaml", "--retry-broken", "3"]).expect(3, &["2 broken"]);
    assert!(!ran.out.contains("is retried"), "{}", ran.out);
}

/// A resumed run is judged by its original options: if `--runs` was given, the gates of tasks do not apply.
#[test]
fn a_resumed_run_keeps_its_gate() {
    let flaky = "  verify: [{command: {run: \"echo . >> WORLD/runs; test $(wc -l < WORLD/runs) != 1\"}}]\n";
    for (args, exit) in [(&["-n", "2"][..], 1), (&[], 0), (&["--gate", "1/2"], 0), (&["--gate", "2/2"], 1)] {
        let world = tasks(&[("a", flaky), ("b", SLOW)]);
        world.write("a.yaml", &world.read("a.yaml").replace("{name: a}", "{name: a, gate: {passes: 1, of: 2}}"));
        killed(&world, &[&["run", "eval.yaml"], args].concat(), "here");
        world.write("quick", "");
        world.run(&["run", "eval.yaml", "--resume"]).expect(exit, &["passed, 1 failed"]);
        let own = world.results("e")["results"][0].get("gate").is_some();
        assert_eq!(own, args.is_empty(), "{args:?}");
    }
}

/// A task that runs until its gate is decided continues with the runs in the journal: the total is the same as without
/// an interruption.
#[test]
fn a_resumed_run_continues_until_its_gate_is_decided() {
    let steady = "  verify: [{command: {run: \"echo . >> WORLD/runs; test $(wc -l < WORLD/runs) != 3 || { touch WORLD/here; test -e WORLD/quick || exec sleep 300; }; test -d WORLD\"}}]\n";
    let args = ["run", "eval.yaml", "--gate", "0.5@90%", "--until-decided", "--max-runs", "20"];
    let whole = tasks(&[("a", steady)]);
    whole.write("quick", "");
    whole.run(&args).expect(0, &[": met"]);
    let decided = whole.results("e")["summary"]["decided"]["a"].clone();
    assert!(decided["runs"].as_u64().unwrap() > 3, "{decided}");
    let world = tasks(&[("a", steady)]);
    killed(&world, &args, "here");
    world.write("quick", "");
    world.run(&["run", "eval.yaml", "--resume"]).expect(0, &["2 of 20 results are available", ": met"]);
    let results = world.results("e");
    assert_eq!(results["summary"]["decided"]["a"], decided);
    assert_eq!(results["results"].as_array().unwrap().len() as u64, decided["runs"].as_u64().unwrap());
    assert_eq!(results["summary"]["complete"], true);
    // One run was repeated.
    assert_eq!(world.read("runs").lines().count() as u64, decided["runs"].as_u64().unwrap() + 1);
    world.run(&["result", "verify", "gevals-e-out.json"]).expect(0, &["PASSED"]);

    // Failures before the interruption count as well: three of four is impossible after a second failure.
    let failing = steady.replace("!= 3", "!= 2").replace("test -d WORLD", "test -e WORLD/none");
    let world = tasks(&[("a", &failing)]);
    killed(&world, &["run", "eval.yaml", "--gate", "3/4", "--until-decided"], "here");
    world.write("quick", "");
    world.run(&["run", "eval.yaml", "--resume"]).expect(1, &["missed by a (0 of 2)"]);
    let decided = &world.results("e")["summary"]["decided"]["a"];
    assert_eq!(*decided, serde_json::json!({ "met": false, "passes": 0, "runs": 2 }));
}

/// A resumed run keeps the isolation of its agent, or none.
#[test]
fn a_resumed_run_keeps_its_isolation() {
    let world = tasks(&[("b", SLOW)]);
    let eval = world.read("eval.yaml").replace("{type: builtin.noop}", "{type: file, path: agent.yaml}");
    world.write("eval.yaml", &eval);
    world.write("agent.yaml", "kind: Agent\ncommands: {runPrompt: ': {{ .Prompt }}'}\n");
    let args = ["run", "eval.yaml", "--isolation", "none"];
    world.run(&[&args[..], &["--preflight"]].concat()).expect(0, &["ok      isolation of the agent  none"]);
    killed(&world, &args, "here");
    world.write("quick", "");
    world.run(&["run", "eval.yaml", "--resume"]).expect(0, &["1 of 1 task passed"]);
    assert_eq!(world.results("e")["summary"]["isolation"], "none");
}

/// Limits, prices and requirements for a pass also apply to the rest of a resumed run, and appear in its results.
#[test]
fn a_resumed_run_keeps_its_limits() {
    let flaky = "  setup: [{command: {run: \"test -e WORLD/again || { touch WORLD/again; false; }\"}}]\n  verify: [{command: {run: \"test -d /\"}}]\n";
    let world = tasks(&[("b", SLOW), ("a", flaky)]);
    let eval = world.read("eval.yaml").replace("  taskSets", "  mcpConfigFile: mcp.yaml\n  taskSets");
    world.write("eval.yaml", &eval);
    world.write("mcp.yaml", "mcpServers:\n  n: {command: gevals, args: [demo-server, --dir, WORLD/n]}\n");
    world.write("prices.yaml", "currency: EUR\nmodels: {builtin.noop: {input: 1, output: 1}}\n");
    let limits = ["--max-tokens", "100000", "--max-cost", "3", "--max-time", "1h", "--prices", "prices.yaml"];
    let args = ["run", "eval.yaml", "--require-server-use", "--retry-broken", "1", "-p", "2"];
    killed(&world, &[&args[..], &limits].concat(), "here");
    // The prices come from the original run.
    fs::remove_file(world.path("prices.yaml")).unwrap();
    let limited = || {
        let summary = world.results("e")["summary"].clone();
        assert_eq!((&summary["currency"], &summary["parallelWorkers"]), (&"EUR".into(), &2.into()), "{summary}");
        (summary["limits"]["maxTokens"].clone(), summary["limits"]["maxCost"].clone())
    };
    world.run(&["recover"]).expect(0, &["2 task runs were cancelled"]);
    assert_eq!(limited(), (100_000.into(), 3.0.into()));
    world.write("quick", "");
    let ran = world.run(&["run", "eval.yaml", "--resume"]).expect(
        1,
        &["a is retried (1 of at most 1)", "`--require-server-use` requires one", " of 100000 tokens, ", " of 3 EUR"],
    );
    assert!(ran.out.contains(" --require-server-use"), "{}", ran.out);
    assert_eq!(limited(), (100_000.into(), 3.0.into()));
    let world = tasks(&[("b", SLOW)]);
    killed(&world, &["run", "eval.yaml", "--max-time", "1s"], "here");
    world.run(&["run", "eval.yaml", "--resume"]).expect(1, &["the run exceeded its limit of 1s"]);
}
