//! Packs from end to end: reproducible bytes, single units, merged results, and hostile archives.
#![cfg(all(feature = "run", target_os = "linux"))]

use std::{fs, os::unix::fs::PermissionsExt, path::Path, time::Duration};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{
    packed::{EVAL, SLOW, json, made, told},
    world::World,
};

/// Its script reads a file that is named only in the script.
const SCRIPTED: &str = "kind: Task
apiVersion: mcp-eval/v1
metadata: {name: scripted, labels: {suite: core}}
spec:
  prompt: {file: prompt.md}
  setup: [{script: {file: setup.sh}}]
  verify: [{command: {run: \"test -d /tmp\"}}]
  cleanup: [{command: {run: \"true\"}}]
";
const PLAIN: &str = "kind: Task
apiVersion: mcp-eval/v1
metadata: {name: plain}
spec:
  prompt: Do it.
  verify: [{command: {run: \"test -f note.txt\"}}]
";

/// An eval in its own directory: one task that passes, and one that fails.
fn suite() -> World {
    let world = World::new(&[
        ("p/gevals.toml", ""),
        ("p/eval.yaml", EVAL),
        ("p/tasks/a/task.yaml", SCRIPTED),
        ("p/tasks/a/prompt.md", "Do it.\n"),
        ("p/tasks/a/setup.sh", "#!/bin/sh\nset -e\n. ./lib.sh\ncat data/list.txt\n"),
        ("p/tasks/a/lib.sh", "x=1\n"),
        ("p/tasks/a/data/list.txt", "a list"),
        ("p/tasks/a/data/.hidden", "no"),
        ("p/tasks/b/task.yaml", PLAIN),
        ("p/unrelated.txt", "not packed"),
    ]);
    world.executable("p/tasks/a/setup.sh");
    world
}

fn units(world: &World, pack: &str) -> Value {
    serde_json::from_str(&world.run(&["units", pack, "--json"]).expect(0, &[]).out).unwrap()
}

fn ids(units: &Value) -> Vec<String> {
    units["units"].as_array().unwrap().iter().map(|unit| unit["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let world = suite();
    world.run(&["pack", "p/eval.yaml", "-o", "one.gevals"]).expect(0, &["2 units of 2 tasks", "sha256:"]);
    let one = fs::read(world.path("one.gevals")).unwrap();
    world.run(&["pack", "p", "-o", "two.gevals"]).expect(0, &[]);
    assert_eq!(fs::read(world.path("two.gevals")).unwrap(), one, "by the name of the folder");

    // Another directory, other times, other permissions (except the executable bit), and packed from within the
    // directory.
    let other = suite();
    let old = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1);
    for file in ["p/eval.yaml", "p/tasks/a/setup.sh", "p/tasks/a/data/list.txt"] {
        fs::File::options().append(true).open(other.path(file)).unwrap().set_modified(old).unwrap();
    }
    fs::set_permissions(other.path("p/eval.yaml"), fs::Permissions::from_mode(0o600)).unwrap();
    let mut command = other.command(&["pack", "eval.yaml", "-o", "../three.gevals"]);
    command.current_dir(other.path("p"));
    other.start(command).end().expect(0, &[]);
    assert_eq!(fs::read(other.path("three.gevals")).unwrap(), one, "from another folder");

    other.write("p/tasks/a/lib.sh", "x=2\n");
    other.run(&["pack", "p", "-o", "four.gevals"]).expect(0, &[]);
    assert_ne!(fs::read(other.path("four.gevals")).unwrap(), one, "other files");
}

#[test]
fn all_units_together_give_the_results_of_a_run() {
    let world = suite();
    world.run(&["pack", "p", "-o", "s.gevals", "-n", "2"]).expect(0, &["4 units of 2 tasks, 8 files"]);
    // The pack no longer needs the project.
    fs::remove_dir_all(world.path("p")).unwrap();
    let whole = world.run(&["run", "s.gevals", "-o", "whole"]).expect(1, &[]).out;
    let listed = units(&world, "s.gevals");
    assert_eq!(listed["units"][0]["labels"]["suite"], "core");
    assert!(listed["units"][0]["atMostSeconds"].as_u64().unwrap() > 0);
    assert_eq!(listed["units"][0]["expectedSeconds"], Value::Null);
    let all = ids(&listed);
    for (id, unit) in all.iter().zip(listed["units"].as_array().unwrap()) {
        let passes = unit["task"] == "scripted";
        let out = format!("out/{id}");
        world.run(&["exec-unit", "s.gevals", "--unit", id, "--out", &out]).expect(i32::from(!passes), &[]);
        let part = json(&world, &format!("{out}/gevals-e-out.json"));
        assert_eq!(part["results"].as_array().unwrap().len(), 1);
        assert_eq!(part["summary"]["unit"]["id"], id.as_str());
        assert_eq!(part["summary"]["complete"], true);
        // The results are self-contained, and the unpacked files are removed.
        let run = fs::read_dir(world.path(&format!("{out}/.gevals/runs"))).unwrap().next().unwrap().unwrap().path();
        assert!(run.join("journal.jsonl").is_file() && run.join("recording.jsonl").is_file());
        assert!(!world.path(&format!("{out}/.gevals/pack")).exists());
    }
    let plain = all.iter().find(|id| id.starts_with("plain")).unwrap();
    let zero = ["exec-unit", "s.gevals", "--unit", plain, "--out", "zero", "--exit-zero"];
    let unit = world.run(&zero).expect(0, &[]).out;
    // The printed commands refer to the pack, because the unpacked files no longer exist.
    for (said, again) in [(whole, "gevals run s.gevals --run '^plain$' "), (unit, "gevals exec-unit s.gevals --unit ")]
    {
        let line =
            said.lines().find_map(|line| line.trim().strip_prefix("rerun: ")).unwrap_or_else(|| panic!("{said}"));
        assert!(line.starts_with(again), "{line}");
        world.shell(&line.replace("whole", "whole-again")).expect(1, &["FAIL    plain"]);
    }
    world
        .run(&["result", "merge", "--pack", "s.gevals", "out", "-o", "all.json"])
        .expect(0, &["4 results of 4 files in all.json"]);
    let (whole, merged) = (json(&world, "whole/gevals-e-out.json"), json(&world, "all.json"));
    assert_eq!(told(&merged), told(&whole));
    assert_eq!(
        told(&merged).iter().map(|one| one.2.as_str()).collect::<Vec<_>>(),
        ["failed", "failed", "passed", "passed"]
    );
    for key in ["planDigest", "eval", "agent", "runs", "exit", "complete", "evals"] {
        assert_eq!(merged["summary"][key], whole["summary"][key], "{key}");
    }
    assert_eq!(merged["summary"].get("unit"), None);
    world.run(&["result", "verify", "all.json", "--task", "0.5"]).expect(0, &[]);

    // Earlier results provide the expected duration.
    let known = world.run(&["units", "s.gevals", "--json", "--history", "all.json"]).expect(0, &[]).out;
    let known: Value = serde_json::from_str(&known).unwrap();
    assert!(known["units"].as_array().unwrap().iter().all(|unit| unit["expectedSeconds"].as_f64().is_some()));
}

/// They have one journal and one results file; none starts after the time limit.
#[test]
fn several_units_are_run_one_after_another() {
    let world = suite();
    world.run(&["pack", "p", "-o", "s.gevals", "-n", "3"]).expect(0, &[]);
    let all = ids(&units(&world, "s.gevals"));
    let unit = |nth: usize| ["--unit", all[nth].as_str()];
    let run = |units: &[usize], more: &[&str]| {
        let units: Vec<&str> = units.iter().flat_map(|nth| unit(*nth)).collect();
        world.run(&[&["exec-unit", "s.gevals"], units.as_slice(), more].concat())
    };
    run(&[0, 2, 4], &["--out", "out/a"]).expect(1, &[]);
    let part = json(&world, "out/a/gevals-e-out.json");
    assert_eq!((part["results"].as_array().unwrap().len(), &part["summary"]["complete"]), (3, &Value::Bool(true)));
    assert_eq!(part["summary"].get("unit"), None, "it is not one unit");
    assert_eq!(fs::read_dir(world.path("out/a/.gevals/runs")).unwrap().count(), 1);
    run(&[1, 3, 5], &["--out", "out/b", "--begin-within", "1h"]).expect(1, &[]);
    world
        .run(&["result", "merge", "--pack", "s.gevals", "out", "-o", "all.json"])
        .expect(0, &["6 results of 2 files in all.json"]);
    world.run(&["run", "s.gevals", "-o", "whole"]).expect(1, &[]);
    assert_eq!(told(&json(&world, "all.json")), told(&json(&world, "whole/gevals-e-out.json")));

    run(&[0, 1, 2], &["--out", "late", "--begin-within", "0s"]).expect(1, &[]);
    let part = json(&world, "late/gevals-e-out.json");
    assert_eq!((part["results"].as_array().unwrap().len(), &part["summary"]["complete"]), (1, &Value::Bool(false)));
    world
        .run(&["result", "merge", "--pack", "s.gevals", "late", "-o", "late.json"])
        .expect(1, &[&format!("unit `{}` (`", all[1])]);

    run(&[0, 0], &["--out", "twice"]).expect(2, &["is specified twice"]);
    assert!(!world.path("twice").exists());
}

#[test]
fn missing_duplicate_and_foreign_units_are_named() {
    let world = suite();
    world.run(&["pack", "p", "-o", "s.gevals"]).expect(0, &[]);
    world.run(&["pack", "p", "-o", "t.gevals", "-n", "3"]).expect(0, &[]);
    let all = ids(&units(&world, "s.gevals"));
    let merge = |files: &[&str], code: i32, said: &[&str]| {
        let args: Vec<_> =
            ["result", "merge", "--pack", "s.gevals", "-o", "m.json"].iter().chain(files).copied().collect();
        world.run(&args).expect(code, said)
    };
    world.run(&["exec-unit", "s.gevals", "--unit", &all[0], "--out", "out/0"]).expect(0, &[]);
    let missing = format!("unit `{}` (`plain`, run 1) is missing", all[1]);
    merge(&["out"], 1, &[&missing]);
    assert_eq!(json(&world, "m.json")["summary"]["complete"], false);
    merge(&["out", "--allow-missing"], 0, &[&missing]);
    world.run(&["result", "verify", "m.json", "--task", "0"]).expect(1, &["Incomplete"]);

    world.run(&["exec-unit", "s.gevals", "--unit", &all[1], "--out", "out/1"]).expect(1, &[]);
    merge(&["out"], 0, &["2 results of 2 files"]);
    world.copy_within("out/0", "out/again");
    merge(&["out"], 1, &[&format!("unit `{}` (`scripted`, run 1) appears 2 times", all[0]), "out/again"]);
    fs::remove_dir_all(world.path("out/again")).unwrap();

    // From another pack with the same plan; then from another plan.
    let other = ids(&units(&world, "t.gevals"));
    assert_eq!(other[0], all[0], "an id does not depend on what else is in a pack");
    world.run(&["exec-unit", "t.gevals", "--unit", &other[0], "--out", "out/2"]).expect(0, &[]);
    merge(&["out"], 1, &["out/2/gevals-e-out.json` is foreign: it is a unit of another pack"]);
    fs::remove_dir_all(world.path("out/2")).unwrap();
    let changed = world.read("p/tasks/b/task.yaml").replace("Do it.", "Do it now.");
    world.write("p/tasks/b/task.yaml", &changed);
    world.run(&["run", "p", "-o", "out/3"]).expect(1, &[]);
    merge(&["out"], 1, &["out/3/gevals-e-out.json` is foreign: its plan is not in the pack"]);
    world.run(&["result", "merge", "--pack", "s.gevals", "nowhere"]).expect(2, &["nowhere"]);
}

/// A file with several results, and one with a byte order mark, are split as well.
#[test]
fn shards_of_a_pack_are_merged_in_its_order() {
    let world = suite();
    world.run(&["pack", "p", "-o", "s.gevals", "-n", "3"]).expect(0, &[]);
    world.run(&["run", "s.gevals", "-o", "whole"]).expect(1, &[]);
    for part in ["1/2", "2/2"] {
        let out = format!("out/{}", &part[..1]);
        let ran = world.run(&["run", "s.gevals", "--shard", part, "-o", &out]);
        assert!(matches!(ran.code, Some(0 | 1)), "{}{}", ran.out, ran.err);
    }
    let marked = format!("\u{feff}{}", world.read("out/2/gevals-e-out.json"));
    world.write("out/2/gevals-e-out.json", &marked);
    world.run(&["result", "merge", "--pack", "s.gevals", "out", "-o", "m.json"]).expect(0, &["6 results of 2 files"]);
    let names = |path: &str| {
        let results = json(&world, path)["results"].as_array().unwrap().clone();
        results.iter().map(|r| (r["taskName"].to_string(), r["runIndex"].as_u64())).collect::<Vec<_>>()
    };
    assert_eq!(names("m.json"), names("whole/gevals-e-out.json"));
    assert_eq!(told(&json(&world, "m.json")), told(&json(&world, "whole/gevals-e-out.json")));
    let printed = world.run(&["result", "merge", "--pack", "s.gevals", "out"]).expect(0, &[]).out;
    assert_eq!(printed, world.read("m.json"));
}

/// However many there are, only one is in memory at a time.
#[test]
fn results_of_many_units_take_little_memory() {
    const UNITS: usize = 300;
    let world = suite();
    fs::remove_dir_all(world.path("p/tasks/b")).unwrap();
    world.run(&["pack", "p", "-o", "s.gevals", "-n", &UNITS.to_string()]).expect(0, &[]);
    let listed = units(&world, "s.gevals");
    world.run(&["exec-unit", "s.gevals", "--unit", &ids(&listed)[0], "--out", "first"]).expect(0, &[]);
    let mut part = json(&world, "first/gevals-e-out.json");
    part["results"][0]["taskOutput"] = "x".repeat(300_000).into();
    for (nth, id) in ids(&listed).iter().enumerate() {
        part["summary"]["unit"]["id"] = id.as_str().into();
        part["results"][0]["runIndex"] = nth.into();
        world.write(&format!("out/{id}/gevals-e-out.json"), &part.to_string());
    }
    let merged = world.run(&["result", "merge", "--pack", "s.gevals", "out", "-o", "m.json"]);
    let merged = merged.expect(0, &["300 results of 300 files"]);
    let size = fs::metadata(world.path("m.json")).unwrap().len() / 1024;
    assert!(size > 85_000 && merged.peak < size, "{} KiB for {size} KiB of results", merged.peak);
}

#[test]
fn agents_are_packed_side_by_side() {
    let world = suite();
    world.write("p/oracle.yaml", "kind: Oracle\ntasks: {scripted: {calls: []}, plain: {calls: []}}\n");
    let args = ["pack", "p", "-o", "s.gevals", "--agent", "builtin.noop", "--agent", "p/oracle.yaml"];
    world.run(&args).expect(0, &["4 units of 2 tasks"]);
    let all = ids(&units(&world, "s.gevals"));
    world.run(&["run", "s.gevals", "-o", "whole"]).expect(1, &["=== builtin.noop", "=== oracle.yaml"]);
    for id in &all[..2] {
        let ran = world.run(&["exec-unit", "s.gevals", "--unit", id, "--out", &format!("out/{id}")]);
        assert!(matches!(ran.code, Some(0 | 1)), "{}{}", ran.out, ran.err);
    }
    world
        .run(&["exec-unit", "s.gevals", "--unit", &all[0], "--unit", &all[2], "--out", "two"])
        .expect(2, &["has another agent or model"]);
    let merge = ["result", "merge", "--pack", "s.gevals", "out"];
    world.run(&merge).expect(2, &["specify a directory"]);
    let merge: Vec<_> = merge.into_iter().chain(["-o", "merged"]).collect();
    world.run(&merge).expect(1, &[&all[2], &all[3]]);
    let (whole, merged) = ("whole/builtin.noop/gevals-e-out.json", "merged/builtin.noop/gevals-e-out.json");
    assert_eq!(told(&json(&world, merged)), told(&json(&world, whole)));
    world.run(&["pack", "p", "-o", "t.gevals", "--agent", "builtin.noop", "--agent", "builtin.noop:x"]).expect(2, &[]);
}

#[test]
fn an_attempt_after_a_kill_cleans_up_first() {
    let world = World::new(&[
        ("p/gevals.toml", ""),
        ("p/eval.yaml", EVAL),
        ("p/tasks/a/task.yaml", SLOW),
        ("p/tasks/a/clean.sh", "test ! -e WORLD/locked || exit 1; echo cleaned >> WORLD/log; rm $1\n"),
    ]);
    world.run(&["pack", "p", "-o", "s.gevals"]).expect(0, &[]);
    fs::remove_dir_all(world.path("p")).unwrap();
    let id = ids(&units(&world, "s.gevals")).remove(0);
    let unit = ["exec-unit", "s.gevals", "--unit", &id, "--out", "out"];
    let first = world.start(world.command(&unit));
    world.wait_for("here");
    // A second process at the same time would clean up while the first one is running.
    let second = world.start_with_own_streams({
        let mut command = world.command(&unit);
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        command
    });
    assert_eq!(second.end().code, Some(3));
    first.signal(Signal::KILL);
    first.end();
    let made = || made(&world);
    assert_eq!((made(), world.read("log").as_str()), (1, ""));
    assert!(world.path("out/.gevals/pack/tasks/a/clean.sh").is_file());

    // If the cleanup fails, there is no verdict.
    world.write("quick", "");
    world.write("locked", "");
    let told =
        ["is still pending", "an earlier attempt left pending cleanups", "`gevals recover --forget out/.gevals/runs/"];
    world.run(&unit).expect(3, &told);
    assert_eq!((made(), world.read("log").as_str()), (1, ""));
    fs::remove_file(world.path("locked")).unwrap();

    // The second attempt sees only its own files.
    world.run(&unit).expect(0, &["cleanup/0 is done"]);
    assert_eq!(world.read("seen").matches("made-").count(), 1);
    assert_eq!((made(), world.read("log").as_str()), (0, "cleaned\ncleaned\n"));
    assert!(!world.path("out/.gevals/pack").exists());
    assert!(world.survivors().is_empty());
    world.run(&["result", "merge", "--pack", "s.gevals", "out", "-o", "m.json"]).expect(0, &["1 results of 1 files"]);
}

/// The options exist in every build, so that the documentation applies; a build without an engine explains how to get
/// one with it.
#[cfg(not(feature = "temporal"))]
#[test]
fn a_build_without_an_engine_says_so() {
    let world = suite();
    world.run(&["pack", "p", "-o", "s.gevals"]).expect(0, &[]);
    let said = ["this gevals was built without Temporal: build one with `cargo install gevals -F temporal`"];
    world.run(&["run", "s.gevals", "--engine", "temporal"]).expect(2, &said);
    world.run(&["worker", "--pack", "s.gevals"]).expect(2, &said);
    world.run(&["run", "s.gevals", "--retries", "2"]).expect(2, &["--engine"]);
    world
        .run(&["run", "s.gevals", "--engine", "temporal", "--silence", "1s"])
        .expect(2, &["write a time from 5 s to 1 h"]);
    world.run(&["run", "s.gevals", "--engine", "temporal", "--rate", "openai"]).expect(2, &["such as `openai=30`"]);
    world.run(&["worker", "--pack", "s.gevals", "--queue", "a b"]).expect(2, &["at most 100 letters"]);
}

/// A signal is not a kill: the unit cleans up itself.
#[test]
fn an_interrupted_unit_cleans_up_itself() {
    let world = World::new(&[
        ("p/gevals.toml", ""),
        ("p/eval.yaml", EVAL),
        ("p/tasks/a/task.yaml", SLOW),
        ("p/tasks/a/clean.sh", "echo cleaned >> WORLD/log; rm $1\n"),
    ]);
    world.run(&["pack", "p", "-o", "s.gevals"]).expect(0, &[]);
    let id = ids(&units(&world, "s.gevals")).remove(0);
    let unit = world.start(world.command(&["exec-unit", "s.gevals", "--unit", &id, "--out", "out"]));
    world.wait_for("here");
    unit.signal(Signal::TERM);
    unit.end().expect(143, &[]);
    assert_eq!(world.read("log"), "cleaned\n");
    assert!(!world.path("out/.gevals/pack").exists());
    world
        .run(&["result", "merge", "--pack", "s.gevals", "out", "-o", "m.json"])
        .expect(1, &[&format!("unit `{id}` (`slow`, run 1) was interrupted")]);
}

/// The supervising process must acknowledge pending cleanups before the unit continues. When that process is gone, the
/// unit does nothing more, not even cleanups, because another process may have started them.
#[test]
fn an_attended_unit_waits_until_pending_cleanups_are_acknowledged() {
    use std::io::Write;
    let world = World::new(&[
        ("p/gevals.toml", ""),
        ("p/eval.yaml", EVAL),
        ("p/tasks/a/task.yaml", SLOW),
        ("p/tasks/a/clean.sh", "echo cleaned >> WORLD/log; rm $1\n"),
    ]);
    world.run(&["pack", "p", "-o", "s.gevals"]).expect(0, &[]);
    let id = ids(&units(&world, "s.gevals")).remove(0);
    let mut command = world.command(&["__attended", "exec-unit", "s.gevals", "--unit", &id, "--out", "out"]);
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut unit = command.spawn().unwrap();
    let mut attending = unit.stdin.take().unwrap();
    let journal = || {
        let runs = fs::read_dir(world.path("out/.gevals/runs")).into_iter().flatten().flatten();
        runs.map(|run| fs::read_to_string(run.path().join("journal.jsonl")).unwrap_or_default()).collect::<String>()
    };
    let started = std::time::Instant::now();
    while !journal().contains("\"type\":\"cleanupPending\"") {
        assert!(started.elapsed() < Duration::from_secs(20), "{}", journal());
        std::thread::sleep(Duration::from_millis(10));
    }
    let made = || made(&world);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(made(), 0, "nobody has what is pending, and it was done");
    // First less than is needed, then enough for the rest.
    for bytes in [1, 1_000_000] {
        assert_eq!(made(), 0);
        writeln!(attending, "{bytes}").unwrap();
        std::thread::sleep(Duration::from_millis(if bytes == 1 { 300 } else { 0 }));
    }
    world.wait_for("here");
    assert_eq!(made(), 1);
    drop(attending);
    assert_eq!(unit.wait().unwrap().code(), Some(3));
    assert!(world.survivors().is_empty());
    assert_eq!((made(), world.read("log").as_str()), (1, ""), "it is another one's to clean up");
    world.run(&["recover", "out"]).expect(0, &["cleanup/0 is done"]);
    assert_eq!((made(), world.read("log").as_str()), (0, "cleaned\n"));
}

#[test]
fn packs_contain_no_secrets() {
    let world = suite();
    world.write("p/mcp.json", r#"{"mcpServers": {"s": {"command": "some-server", "env": {"S_TOKEN": "${S_TOKEN}"}, "enableAllTools": true}}}"#);
    let eval = EVAL.replace("  taskSets", "  mcpConfigFile: mcp.json\n  taskSets");
    world.write("p/eval.yaml", &eval);
    let with = |args: &[&str]| {
        let mut command = world.command(args);
        command.env("S_TOKEN", "a-value-of-9-secrets");
        world.start(command).end()
    };
    let told =
        ["needed where it is run", "command    cat", "variable   S_TOKEN", "server     s: the command `some-server`"];
    let packed = with(&["pack", "p", "-o", "s.gevals"]).expect(0, &told);
    assert!(!packed.out.contains("setup.sh"), "it is in the pack: {}", packed.out);
    assert!(!unpacked(&world, "s.gevals").contains("a-value-of-9-secrets"));
    assert!(unpacked(&world, "s.gevals").contains("S_TOKEN"));

    world.write("p/tasks/a/lib.sh", "x=1\ny=a-value-of-9-secrets\n");
    let refused =
        with(&["pack", "p", "-o", "t.gevals"]).expect(2, &["`tasks/a/lib.sh`, line 2, contains a plain-text secret"]);
    assert!(!refused.err.contains("a-value-of-9-secrets"));
    assert!(!world.path("t.gevals").exists());
    world.write("p/tasks/a/lib.sh", "x=1\n");

    // A plain-text secret in a config that is in no environment variable.
    world.write(
        "p/mcp.json",
        r#"{"mcpServers": {"s": {"command": "c", "env": {"S_TOKEN": "Xq7Lw9Zr2Tn5Vb8Km3"}, "enableAllTools": true}}}"#,
    );
    world.run(&["pack", "p", "-o", "t.gevals"]).expect(2, &["`mcp.json`, line 1, contains a plain-text secret"]);
    world.write("p/mcp.json", r#"{"mcpServers": {"s": {"command": "c", "enableAllTools": true}}}"#);

    // A file name that indicates a secret; hidden files are left out unless the compiler reads them.
    world.write("p/tasks/a/setup.sh", "#!/bin/sh\nset -e\n. ./lib.sh\nls data/\n");
    world.write("p/tasks/a/data/server.pem", "x");
    world.run(&["pack", "p", "-o", "t.gevals"]).expect(2, &["`tasks/a/data/server.pem` would be packed", "--include"]);
    world.run(&["pack", "p", "-o", "t.gevals", "--include", "p/tasks/a/data/server.pem"]).expect(0, &[]);
    assert!(!unpacked(&world, "t.gevals").contains(".hidden"));
}

/// Patterns, names with blanks, directories that a script changes to; files that are not packed are reported, without
/// secrets.
#[test]
fn files_that_scripts_use_are_packed_or_reported() {
    let world = suite();
    let script = "#!/bin/sh\nset -e\n. ./lib.sh\ntrue --env-file .env\ncat data/*.json \"my files/the list.txt\"\n\
                  (cd parts && cat one.txt)\ncat .cache/warm.txt || true\n";
    world.write("p/tasks/a/setup.sh", script);
    world.executable("p/tasks/a/setup.sh");
    for name in ["data/a.json", "my files/the list.txt", "my files/other.txt", "parts/one.txt", "parts/two.txt"] {
        world.write(&format!("p/tasks/a/{name}"), "x");
    }
    world.write("p/tasks/a/.cache/warm.txt", "x");
    world.write("p/tasks/a/.env", "# for the shop\nSHOP_TOKEN=Xq7Lw9Zr2Tn5Vb8Km3\nexport MODE='fast'\n");
    let told = ["file       tasks/a/.cache/warm.txt\n", "file       tasks/a/.env, with SHOP_TOKEN, MODE\n"];
    world.run(&["pack", "p", "-o", "s.gevals"]).expect(0, &told);
    let bytes = fs::read(world.path("s.gevals")).unwrap();
    let names: Vec<String> = entries(&bytes).into_iter().map(|(name, _)| name).collect();
    let wanted = [
        "data/a.json",
        "lib.sh",
        "my files/the list.txt",
        "parts/one.txt",
        "parts/two.txt",
        "prompt.md",
        "setup.sh",
        "task.yaml",
    ];
    let of_task: Vec<_> = names.iter().filter_map(|name| name.strip_prefix("files/tasks/a/")).collect();
    assert_eq!(of_task, wanted);
    assert!(!unpacked(&world, "s.gevals").contains("Xq7Lw9Zr2Tn5Vb8Km3"));
    world.run(&["pack", "p", "-o", "again.gevals"]).expect(0, &[]);
    assert_eq!(fs::read(world.path("again.gevals")).unwrap(), bytes);
    let id = ids(&units(&world, "s.gevals")).into_iter().find(|id| id.starts_with("scripted")).unwrap();
    world.run(&["exec-unit", "s.gevals", "--unit", &id, "--out", "out"]).expect(0, &["PASS    scripted"]);
    // It is packed if requested explicitly.
    let meant = world.run(&["pack", "p", "-o", "t.gevals", "--include", "p/tasks/a/.env"]).expect(0, &[]);
    assert!(!meant.out.contains("tasks/a/.env"), "{}", meant.out);
    assert!(unpacked(&world, "t.gevals").contains("Xq7Lw9Zr2Tn5Vb8Km3"));

    // A script that requires the file is reported.
    world.write("p/tasks/a/setup.sh", "#!/bin/sh\nset -e\n. ./.env\n");
    world.run(&["pack", "p", "-o", "u.gevals"]).expect(2, &["`tasks/a/.env` would be packed", "from the environment"]);
    world.write("p/tasks/a/setup.sh", script);

    world.write("p/tasks/a/lib.sh", &format!("x=ghp_{}\n", "a1B2c3D4e5F6".repeat(3)));
    world.run(&["pack", "p", "-o", "u.gevals"]).expect(2, &["`tasks/a/lib.sh`, line 1, contains a plain-text secret"]);
}

/// Returns the text of an archive, unpacked by another program.
fn unpacked(world: &World, pack: &str) -> String {
    let bytes = zstd::decode_all(fs::read(world.path(pack)).unwrap().as_slice()).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn evals_that_cannot_be_packed_are_rejected() {
    let world = suite();
    world.run(&["pack", "p", "-o", "p"]).expect(2, &["is a directory"]);
    let eval = world.read("p/eval.yaml");
    world.run(&["pack", "p", "-o", "p/eval.yaml"]).expect(2, &["already exists and is not a pack"]);
    assert_eq!(world.read("p/eval.yaml"), eval);
    world.run(&["pack", "nowhere", "-o", "s.gevals"]).expect(2, &["nowhere"]);
    world.run(&["pack", "p", "-o", "no/such/s.gevals"]).expect(3, &["no/such/s.gevals"]);
    world
        .run(&["pack", "p", "-o", "s.gevals", "--include", "p/nothing"])
        .expect(2, &["`nothing` does not exist and cannot be included"]);
    world.write("outside.json", r#"{"mcpServers": {}}"#);
    world
        .run(&["pack", "p", "-o", "s.gevals", "--mcp-config-file", "outside.json"])
        .expect(2, &["`outside.json` is outside the project", "--root"]);
    // The pack is checked first, as by `run`.
    let broken = world.read("p/tasks/b/task.yaml").replace("verify", "verfiy");
    world.write("p/tasks/b/task.yaml", &broken);
    world.run(&["pack", "p", "-o", "s.gevals"]).expect(2, &["verfiy", "tasks/b/task.yaml"]);
    // A reference that leaves the project is an error of `check`.
    world.write("p/tasks/b/task.yaml", &PLAIN.replace("prompt: Do it.", "prompt: {file: ../../../outside.json}"));
    world.run(&["pack", "p", "-o", "s.gevals"]).expect(2, &["outside the project"]);
    assert!(!world.path("s.gevals").exists());
}

#[test]
fn hostile_and_damaged_archives_are_rejected() {
    let world = suite();
    world.run(&["pack", "p", "-o", "s.gevals"]).expect(0, &[]);
    let whole = fs::read(world.path("s.gevals")).unwrap();
    let id = ids(&units(&world, "s.gevals")).remove(0);
    let refused = |name: &str, bytes: &[u8], why: &str| {
        fs::write(world.path(name), bytes).unwrap();
        for args in
            [&["run", name, "-o", "out"][..], &["exec-unit", name, "--unit", &id, "--out", "out"], &["units", name]]
        {
            world.run(args).expect(2, &["cannot use the pack", why]);
        }
        assert!(!world.path("out").exists(), "{name}");
    };
    refused("cut.gevals", &whole[..whole.len() / 2], "it is not a complete pack");
    refused("empty.gevals", b"", "it is not a pack");
    refused("text.gevals", b"kind: Eval\n", "it is not a pack");
    let changed = |change: &dyn Fn(&mut Vec<(String, Vec<u8>)>)| {
        let mut entries = entries(&whole);
        change(&mut entries);
        archive(&entries)
    };
    assert_eq!(changed(&|_| {}).len(), archive(&entries(&whole)).len());
    refused("changed.gevals", &changed(&|all| all[1].1[0] ^= 1), "does not match its manifest");
    refused("more.gevals", &changed(&|all| all.push(("files/x".to_owned(), Vec::new()))), "its manifest does not list");
    refused("less.gevals", &changed(&|all| all.truncate(all.len() - 1)), "does not contain");
    refused("out.gevals", &changed(&|all| all.push(("../../out".to_owned(), b"x".to_vec()))), "leads outside the pack");
    refused("twice.gevals", &changed(&|all| all.push(all[1].clone())), "` twice");
    let reworded = changed(&|all| {
        let text = String::from_utf8(all[0].1.clone()).unwrap();
        all[0].1 = text.replace("\"scripted\"", "\"swapped\"").into_bytes();
    });
    refused("reworded.gevals", &reworded, "its digest does not match");
    world
        .run(&["exec-unit", "s.gevals", "--unit", "nosuch", "--out", "out"])
        .expect(2, &["the pack has no unit `nosuch`"]);
    let near = format!("{}x", &id[..id.len() - 1]);
    world
        .run(&["exec-unit", "s.gevals", "--unit", &near, "--out", "out"])
        .expect(2, &[&format!("did you mean `{id}`?")]);
    assert!(!world.path("out").exists());
}

fn entries(pack: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut tar = tar::Archive::new(zstd::Decoder::new(pack).unwrap());
    let mut found = Vec::new();
    for entry in tar.entries().unwrap() {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().to_str().unwrap().to_owned();
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut entry, &mut bytes).unwrap();
        found.push((path, bytes));
    }
    found
}

/// Writes an archive that the crate would refuse to write: names are used as given.
fn archive(entries: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut tar = tar::Builder::new(zstd::Encoder::new(Vec::new(), 1).unwrap());
    for (path, bytes) in entries {
        let mut header = tar::Header::new_gnu();
        header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        header.set_entry_type(tar::EntryType::Regular);
        header.set_cksum();
        tar.append(&header, bytes.as_slice()).unwrap();
    }
    tar.into_inner().unwrap().finish().unwrap()
}

trait Copies {
    fn copy_within(&self, from: &str, to: &str);
}

impl Copies for World {
    /// Copies a directory of results to another one.
    fn copy_within(&self, from: &str, to: &str) {
        fs::create_dir_all(self.path(to)).unwrap();
        for entry in fs::read_dir(self.path(from)).unwrap().flatten().filter(|entry| entry.path().is_file()) {
            fs::copy(entry.path(), self.path(to).join(Path::new(&entry.file_name()))).unwrap();
        }
    }
}
