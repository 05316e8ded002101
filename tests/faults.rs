//! `kill -9` at random moments, of runs and of recoveries: nothing leaks, no finished cleanup is repeated, no result is
//! lost.
//!
//! Thirty kills by default; `GEVALS_KILLS=1000 cargo test --release --test all faults:: -- --nocapture` prints a table for
//! more of them.
#![cfg(all(feature = "run", target_os = "linux"))]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::world::World;

/// Creates a directory and files in it, leaves a process behind that has left its process group, sets up rounds of a
/// loop with a group each, and cleans up step by step. Every cleanup step logs its name before it acts.
const TASK: &str = r#"kind: Task
apiVersion: mcp-eval/v1
metadata: {name: NAME, parallel: PARALLEL}
spec:
  env: {W: "WORLD/made/NAME-{random.id}"}
  prompt: Do it.
  setup:
    - command: {run: "mkdir -p $W"}
    - command: {id: name, run: "printf file-NAME"}
    - command: {run: "touch \"$W/{steps.name.outputs.stdout}\""}
    - command: {run: "setsid sleep 300 >/dev/null 2>&1 &"}
    - foreach:
        var: i
        in: [1, 2]
        steps:
          - group:
              id: g
              setup: [{command: {run: "mkdir \"$W/round-{i}\""}}]
              steps: [{command: {run: "touch \"$W/round-{i}/x\""}}]
              cleanup:
                - command: {run: "echo 'NAME g{i} one' >> WORLD/log; rmdir \"$W/round-{i}\" 2>/dev/null || test ! -e \"$W/round-{i}\""}
                - command: {run: "echo 'NAME g{i} two' >> WORLD/log; rm -f \"$W/round-{i}/x\""}
  verify:
    - command: {run: "test -f \"$W/{steps.name.outputs.stdout}\""}
  cleanup:
    - command: {run: "echo 'NAME top 0' >> WORLD/log; rm -rf \"$W\""}
    - command: {run: "echo 'NAME top 1' >> WORLD/log; rm -f \"$W/{steps.name.outputs.stdout}\""}
    - foreach:
        var: j
        in: [1, 2]
        steps: [{command: {run: "echo 'NAME top 2 {j}' >> WORLD/log"}}]
"#;

const TASKS: [(&str, &str); 4] = [("a", "false"), ("b", "false"), ("c", "true"), ("d", "true")];

fn small_world() -> World {
    let world = World::new(&[]);
    let paths: String = TASKS.iter().map(|(name, _)| format!("    - path: {name}.yaml\n")).collect();
    world.write(
        "eval.yaml",
        &format!("kind: Eval\nmetadata: {{name: e}}\nconfig:\n  agent: {{type: builtin.noop}}\n  taskSets:\n{paths}"),
    );
    for (name, parallel) in TASKS {
        world.write(&format!("{name}.yaml"), &TASK.replace("NAME", name).replace("PARALLEL", parallel));
    }
    world
}

/// The relevant contents of a journal.
#[derive(Default, Debug)]
struct Told {
    /// Log lines of cleanup steps that are known to be done.
    done: BTreeSet<String>,
    results: BTreeMap<String, String>,
    retried: usize,
}

fn journal(world: &World) -> Option<PathBuf> {
    let runs = fs::read_dir(world.path(".gevals/runs")).ok()?.flatten().map(|entry| entry.path().join("journal.jsonl"));
    runs.into_iter().find(|path| path.exists())
}

fn told(world: &World) -> Told {
    let mut told = Told::default();
    let text = journal(world).map(|path| fs::read(path).unwrap_or_default()).unwrap_or_default();
    for line in String::from_utf8_lossy(&text).lines() {
        let Ok(entry) = serde_json::from_str::<Value>(line) else { continue };
        let event = &entry["event"];
        let (kind, task) = (&event["event"], event["task"]["name"].as_str().unwrap_or_default());
        match kind["type"].as_str().unwrap_or_default() {
            "actionFinished" if kind["report"]["outcome"] == "passed" => {
                told.done.extend(log_line(task, kind["action"].as_str().unwrap()));
                told.retried += usize::from(kind["report"]["retried"] == true);
            }
            "taskFinished" => {
                let verdict = kind["verdict"].as_str().unwrap().to_owned();
                told.results.insert(task.to_owned(), verdict);
            }
            _ => {}
        }
    }
    told
}

/// Returns what the cleanup step with this ID writes to the log.
fn log_line(task: &str, action: &str) -> Option<String> {
    let round = |text: &str| Some(text.split('[').nth(1)?.split(']').next()?.parse::<usize>().ok()? + 1);
    match action {
        "cleanup/0" => Some(format!("{task} top 0")),
        "cleanup/1" => Some(format!("{task} top 1")),
        _ if action.starts_with("cleanup/2[") => Some(format!("{task} top 2 {}", round(action)?)),
        _ if action.ends_with("/g/cleanup/0") => Some(format!("{task} g{} one", round(action)?)),
        _ if action.ends_with("/g/cleanup/1") => Some(format!("{task} g{} two", round(action)?)),
        _ => None,
    }
}

fn log(world: &World) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for line in world.read("log").lines() {
        *counts.entry(line.to_owned()).or_default() += 1;
    }
    counts
}

#[derive(Default, Debug)]
struct Table {
    kills_of_runs: usize,
    kills_of_recoveries: usize,
    near_a_write: usize,
    ended_before: usize,
    resumed: usize,
    retried: usize,
    results_kept: usize,
    leaks: Vec<String>,
    repeats: Vec<String>,
    lost: Vec<String>,
    other: Vec<String>,
}

/// Kills the process at a random moment, or soon after a random write to the journal. Returns whether it was still
/// alive, and whether the last write was less than 5 ms ago.
fn kill(world: &World, args: &[&str], usual: Duration, near: bool, random: &mut fastrand::Rng) -> (bool, bool) {
    let running = world.start(world.command(args));
    if near {
        let (mut writes, started) = (random.usize(1..if args[0] == "run" { 60 } else { 12 }), Instant::now());
        let (mut path, mut last) = (journal(world), 0);
        while writes > 0 && started.elapsed() < usual {
            path = path.or_else(|| journal(world));
            let now = path.as_ref().and_then(|path| Some(fs::metadata(path).ok()?.len())).unwrap_or_default();
            writes -= usize::from(now != last);
            last = now;
            std::thread::sleep(Duration::from_micros(50));
        }
        std::thread::sleep(Duration::from_micros(random.u64(0..1000)));
    } else {
        std::thread::sleep(usual.mul_f64(random.f64()));
    }
    running.signal(Signal::KILL);
    let at = SystemTime::now();
    let ended = running.end();
    let written = journal(world).and_then(|path| fs::metadata(path).ok()?.modified().ok());
    let age = written.and_then(|written| at.duration_since(written).ok());
    (ended.code.is_none(), age.is_some_and(|age| age < Duration::from_millis(5)))
}

fn round(usual: Duration, random: &mut fastrand::Rng, table: &Mutex<Table>) {
    let world = small_world();
    let (killed, near) = kill(&world, &["run", "eval.yaml", "-p", "2"], usual, random.u8(..4) < 3, random);
    let mut first = told(&world);
    let mut found = Table { ended_before: usize::from(!killed), ..Table::default() };
    found.kills_of_runs += usize::from(killed);
    found.near_a_write += usize::from(killed && near);
    let results = first.results.clone();
    let mut done = std::mem::take(&mut first.done);
    let mut counts = log(&world);
    let check = |done: &BTreeSet<String>, counts: &BTreeMap<String, usize>, found: &mut Table| {
        let now = log(&world);
        for step in done {
            if now.get(step) != counts.get(step) {
                found.repeats.push(format!("{step}: {:?} -> {:?}", counts.get(step), now.get(step)));
            }
        }
    };
    while random.u8(..3) == 0 {
        let near = random.u8(..4) < 3;
        let (killed, near) = kill(&world, &["recover"], Duration::from_millis(250), near, random);
        found.kills_of_recoveries += usize::from(killed);
        found.near_a_write += usize::from(killed && near);
        check(&done, &counts, &mut found);
        done = told(&world).done;
        counts = log(&world);
    }
    let resume = killed && !results.is_empty() && random.bool();
    if resume {
        let ran = world.run(&["run", "eval.yaml", "--resume"]);
        // All tasks may have had their results already, so that the kill came after the last one.
        if ran.code == Some(0) {
            found.resumed += 1;
        } else if !ran.err.contains("nothing to resume") {
            found.other.push(format!("resume: {:?} {}{}", ran.code, ran.out, ran.err));
        }
        let finished: BTreeSet<_> = results.keys().cloned().collect();
        done.retain(|line| finished.contains(line.split(' ').next().unwrap()));
    } else {
        let ran = world.run(&["recover"]);
        if ran.code != Some(0) {
            found.other.push(format!("recover: {:?} {}{}", ran.code, ran.out, ran.err));
        }
    }
    check(&done, &counts, &mut found);
    found.retried = told(&world).retried;
    found.leaks.extend(left(&world.path("made")));
    found.leaks.extend(world.survivors());
    if journal(&world).is_some() && !told(&world).results.is_empty() {
        let written = fs::read(world.path("gevals-e-out.json")).unwrap_or_default();
        let written: Value = serde_json::from_slice(&written).unwrap_or_default();
        let outcomes: Vec<_> = written["results"].as_array().into_iter().flatten().collect();
        if outcomes.len() != TASKS.len() {
            found.lost.push(format!("{} results of {}", outcomes.len(), TASKS.len()));
        }
        for (task, verdict) in &results {
            match outcomes.iter().find(|o| o["taskName"] == task.as_str()) {
                Some(outcome) if outcome["outcome"] == verdict.as_str() => found.results_kept += 1,
                other => found.lost.push(format!("{task}: {verdict}, now {:?}", other.map(|o| &o["outcome"]))),
            }
        }
    }
    let again = world.run(&["recover"]);
    if again.code != Some(0) || !again.out.contains("no cleanup is pending") {
        found.other.push(format!("recover again: {:?} {}{}", again.code, again.out, again.err));
    }
    let mut table = table.lock().unwrap();
    table.kills_of_runs += found.kills_of_runs;
    table.kills_of_recoveries += found.kills_of_recoveries;
    table.near_a_write += found.near_a_write;
    table.ended_before += found.ended_before;
    table.resumed += found.resumed;
    table.retried += found.retried;
    table.results_kept += found.results_kept;
    table.leaks.extend(found.leaks);
    table.repeats.extend(found.repeats);
    table.lost.extend(found.lost);
    table.other.extend(found.other);
}

fn left(dir: &Path) -> Vec<String> {
    fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path().display().to_string()).collect()
}

#[test]
fn nothing_is_lost_when_a_run_is_killed_at_any_time() {
    let kills: usize = std::env::var("GEVALS_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(30);
    let seed = std::env::var("GEVALS_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    let usual = {
        let world = small_world();
        let started = Instant::now();
        world.run(&["run", "eval.yaml", "-p", "2"]).expect(0, &["4 of 4 tasks passed"]);
        assert!(left(&world.path("made")).is_empty());
        // Once each: nothing is repeated in a run that is not killed.
        assert_eq!(log(&world).values().copied().collect::<BTreeSet<_>>(), BTreeSet::from([1]));
        assert_eq!(log(&world).len(), 4 * 8);
        assert_eq!(told(&world).done.len(), 4 * 8);
        started.elapsed()
    };
    let table = Mutex::new(Table::default());
    let rounds = AtomicUsize::new(0);
    let enough = || {
        let table = table.lock().unwrap();
        table.kills_of_runs + table.kills_of_recoveries >= kills
    };
    let workers = if kills > 100 { 4 } else { 2 };
    std::thread::scope(|scope| {
        for worker in 0..workers {
            let (table, rounds, enough) = (&table, &rounds, &enough);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed ^ (worker as u64 * 0x9e37_79b9));
                while !enough() && rounds.fetch_add(1, Ordering::Relaxed) < kills * 4 {
                    round(usual.mul_f64(1.5), &mut random, table);
                }
            });
        }
    });
    let t = table.into_inner().unwrap();
    println!("seed {seed}, a run takes {usual:?}");
    for (name, value) in [
        ("kills of runs", t.kills_of_runs),
        ("kills of recoveries", t.kills_of_recoveries),
        ("of both, within 5 ms of a journal write", t.near_a_write),
        ("runs that ended before the kill", t.ended_before),
        ("runs resumed", t.resumed),
        ("cleanup steps in flight, retried", t.retried),
        ("finished results kept", t.results_kept),
        ("leaks", t.leaks.len()),
        ("repeats of finished cleanup steps", t.repeats.len()),
        ("finished results lost", t.lost.len()),
        ("other", t.other.len()),
    ] {
        println!("{value:6}  {name}");
    }
    let wrong = [&t.leaks, &t.repeats, &t.lost, &t.other];
    assert!(wrong.iter().all(|list| list.is_empty()), "{wrong:#?}");
}
