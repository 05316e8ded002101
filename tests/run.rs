//! The interpreter: what runs, in which order, the result of a run, and that cleanup always runs.
#![cfg(feature = "run")]

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use gevals::{
    builtin, check,
    diagnostic::Diagnostics,
    dialect::{self, TaskFile},
    event::{ActionReport, Event, EventKind, Outcome, Verdict},
    hir::Dialect,
    host::{FakeHost, Host, RealHost, fake::Answer},
    journal::Spool,
    lock::Lock,
    plan::{self, AgentKind, EvalPlan, Plan, planned_id},
    report::{self, ReportInput, Results},
    results::{self, merge::merge},
    run::{Interrupt, RunOptions, RunSummary, Selection, Shard, run_eval},
    source::{FileId, MemoryFiles, Sources},
    yaml,
};
use proptest::prelude::*;
use tokio::sync::mpsc::unbounded_channel;

/// Plans a portable task; any fault in it fails the test.
fn plan_of(sources: &Sources, path: &str, text: &str, agent: AgentKind) -> Plan {
    let file: FileId = sources.add(path, text);
    let vocabularies = builtin::vocabularies();
    let mut out = Diagnostics::default();
    let tree = yaml::parse(file, text, &mut out).unwrap_or_else(|_| panic!("{text}"));
    let dialect = Dialect::Portable;
    let info = TaskFile { file, dir: PathBuf::from("/t"), vocabulary: vocabularies.of(dialect) };
    let task = dialect::task(tree.root(), dialect, &info, &mut out).value;
    let (files, lock) = (MemoryFiles::default(), Lock::default());
    let cx = check::Context { sources, files: &files, vocabularies, lock: &lock };
    let checked = task.and_then(|task| check::task(&task, cx, &mut out).ok());
    let Some(checked) = checked else {
        let found: Vec<_> = out.iter().map(|d| d.message.clone()).collect();
        panic!("{text}\n{found:?}");
    };
    plan::lower(&checked.task, Path::new(path), &plan::Context { agent, ..plan::Context::default() })
}

fn eval_of(tasks: Vec<Plan>) -> EvalPlan {
    EvalPlan {
        name: "e".to_owned(),
        path: PathBuf::from("eval.yaml"),
        agent: None,
        agent_name: "noop".to_owned(),
        isolation: Default::default(),
        servers: Vec::new(),
        dir: PathBuf::from("/t"),
        judge: None,
        extensions: gevals::plan::Extensions::default(),
        world: None,
        budget: gevals::hir::Budget::default(),
        model: None,
        written: Default::default(),
        secrets: Vec::new(),
        tasks,
    }
}

fn task(steps: &str) -> String {
    format!(
        "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {{name: t, timeout: 60s, cleanupTimeout: 60s}}\nspec:\n  prompt: Do it.\n{steps}"
    )
}

struct Ran {
    summary: RunSummary,
    events: Vec<Event>,
}

impl Ran {
    fn verdict(&self) -> Verdict {
        self.summary.tasks[0].verdict
    }

    fn reason(&self) -> &str {
        &self.summary.tasks[0].reason
    }

    fn started(&self) -> Vec<&str> {
        let ids = self.events.iter().filter_map(|e| match &e.kind {
            EventKind::ActionStarted { action } => Some(action.as_str()),
            _ => None,
        });
        ids.collect()
    }

    fn report(&self, id: &str) -> &ActionReport {
        let found = self.events.iter().find_map(|e| match &e.kind {
            EventKind::ActionFinished { action, report } if action == id => Some(report),
            _ => None,
        });
        found.unwrap_or_else(|| panic!("no `{id}` among {:?}", self.started()))
    }

    fn outcome(&self, id: &str) -> Outcome {
        self.report(id).outcome
    }
}

async fn run_plan(host: Arc<dyn Host>, plan: &EvalPlan, options: &RunOptions, signals: &[(u64, Interrupt)]) -> Ran {
    let (sink, mut events) = unbounded_channel();
    let (interrupt, interrupts) = unbounded_channel();
    for &(after, signal) in signals {
        let (interrupt, host) = (interrupt.clone(), Arc::clone(&host));
        tokio::spawn(async move {
            host.sleep(Duration::from_secs(after)).await;
            interrupt.send(signal).ok();
        });
    }
    let summary = run_eval(plan, options, host, interrupts, sink).await;
    let mut all = Vec::new();
    while let Ok(event) = events.try_recv() {
        all.push(event);
    }
    assert!(all.iter().enumerate().all(|(i, e)| e.seq == i as u64), "numbers without gaps");
    Ran { summary, events: all }
}

/// Commands: `ok…` passes, `no…` fails, `gone…` cannot start, `slow…` takes an hour, `say X` prints X.
fn world() -> Arc<FakeHost> {
    let host = FakeHost::new();
    host.on_exec("-c ok", Answer::exit(0));
    host.on_exec("-c no", Answer::exit(1));
    host.on_exec("-c slow", Answer::exit(0).takes(Duration::from_secs(3600)));
    host.on_exec("-c say", Answer::prints("said"));
    host.on_exec("-c list", Answer::prints("[1, 2, 3]"));
    Arc::new(host)
}

async fn run(steps: &str) -> Ran {
    run_on(world(), steps, &[]).await
}

async fn run_on(host: Arc<FakeHost>, steps: &str, signals: &[(u64, Interrupt)]) -> Ran {
    let plan = eval_of(vec![plan_of(&Sources::default(), "t.yaml", &task(steps), AgentKind::Noop)]);
    run_plan(host, &plan, &RunOptions::default(), signals).await
}

#[tokio::test(start_paused = true)]
async fn phases_run_in_order_and_cleanup_in_reverse() {
    let ran = run("  setup: [{command: {run: ok 1}}]\n  verify: [{command: {run: ok 2}}]\n  cleanup: [{command: {id: a, run: ok 3}}, {command: {id: b, run: ok 4}}]\n").await;
    assert_eq!(ran.started(), ["setup/0", "agent", "verify/0", "cleanup/b", "cleanup/a"]);
    assert_eq!((ran.verdict(), ran.summary.exit), (Verdict::Passed, 0));
    let pending = ran
        .events
        .iter()
        .position(|e| matches!(&e.kind, EventKind::CleanupPending { cleanups, .. } if cleanups.len() == 2));
    let first = ran.events.iter().position(|e| matches!(e.kind, EventKind::ActionStarted { .. }));
    assert!(pending < first, "pending before the world changes");
}

#[tokio::test(start_paused = true)]
async fn a_failed_setup_skips_everything_but_cleanup() {
    let ran = run("  setup: [{command: {run: no}}, {command: {run: ok}}]\n  verify: [{command: {run: ok}}]\n  cleanup: [{command: {run: ok}}]\n").await;
    assert_eq!(ran.started(), ["setup/0", "cleanup/0"]);
    assert_eq!((ran.verdict(), ran.summary.exit), (Verdict::Broken, 1));
    assert!(ran.reason().contains("setup/0"), "{}", ran.reason());
}

#[tokio::test(start_paused = true)]
async fn verification_continues_after_a_failure_and_stops_when_broken() {
    let ran = run("  verify: [{command: {id: a, run: no}}, {command: {id: b, run: ok}}, {command: {id: c, run: \"echo {steps.a.outputs.stdout}\"}}, {command: {run: gone}}, {command: {run: ok}}]\n").await;
    assert_eq!(ran.started(), ["agent", "verify/a", "verify/b", "verify/3"]);
    assert_eq!(ran.outcome("verify/c"), Outcome::Skipped);
    assert_eq!(ran.outcome("verify/3"), Outcome::Broken);
    assert_eq!(ran.outcome("verify/4"), Outcome::Skipped);
    assert_eq!(ran.verdict(), Verdict::Failed);
}

#[tokio::test(start_paused = true)]
async fn outputs_reach_later_steps_with_their_types() {
    let host = world();
    let ran = run_on(
        Arc::clone(&host),
        "  setup: [{command: {id: s, run: say, outputs: {code: '{exitCode}', text: '<{stdout}>'}}}]\n  verify:\n  - command: {run: 'ok {steps.s.outputs.text} {steps.s.outputs.code}'}\n  - foreach: {var: x, in: ['{steps.s.outputs.code}'], steps: [{command: {run: 'ok loop'}}]}\n",
        &[],
    )
    .await;
    assert_eq!(ran.verdict(), Verdict::Passed, "{}", ran.reason());
    assert!(host.log().iter().any(|l| l.ends_with("-c ok <said> 0")), "{:?}", host.log());
    assert_eq!(ran.report("setup/s").outputs["code"], serde_json::json!(0));
}

#[tokio::test(start_paused = true)]
async fn loops_branches_and_waits() {
    let host = world();
    host.on_exec("-c flip", Answer::exit(1));
    host.on_exec("-c flip", Answer::exit(1));
    host.on_exec("-c flip", Answer::exit(0));
    let ran = run_on(
        host,
        "  setup: [{command: {id: l, run: list}}]
  verify:
  - foreach: {id: f, var: x, in: '{steps.l.outputs.stdout}', parallel: 2, steps: [{command: {id: s, run: 'ok {x}', outputs: {v: '{stdout}{exitCode}'}}}]}
  - anyOf: {id: a, steps: [{command: {id: b, run: no}}, {command: {id: b, run: ok}}, {command: {id: b, run: ok never}}]}
  - eventually: {id: w, timeout: 10s, interval: 1s, steps: [{command: {id: flip, run: flip}}]}
  - consistently: {id: c, duration: 2s, interval: 1s, steps: [{command: {run: ok}}]}
  - group: {id: g, setup: [{command: {run: ok}}], steps: [{command: {run: no}}, {command: {run: ok never}}], cleanup: [{command: {run: ok}}]}
  - eventually: {id: x, timeout: 3s, steps: [{command: {run: no}}]}
  - command: {run: 'ok {steps.f.outputs.rounds[2].s.v} {steps.b.outputs.exitCode}'}
",
        &[],
    )
    .await;
    assert_eq!(ran.outcome("verify/f"), Outcome::Passed, "{:?}", ran.report("verify/f"));
    assert_eq!(ran.report("verify/f").outputs["rounds"].as_array().unwrap().len(), 3);
    assert_eq!(ran.outcome("verify/f[2]/s"), Outcome::Passed);
    assert_eq!(ran.outcome("verify/a"), Outcome::Passed);
    assert_eq!(ran.outcome("verify/a/0/b"), Outcome::Failed);
    assert!(!ran.started().iter().any(|id| id.starts_with("verify/a/2")));
    assert_eq!(ran.outcome("verify/w#3/flip"), Outcome::Passed);
    assert_eq!(ran.started().iter().filter(|id| id.starts_with("verify/c#")).count(), 3);
    assert_eq!(ran.outcome("verify/g"), Outcome::Failed);
    assert_eq!(ran.outcome("verify/g/cleanup/0"), Outcome::Passed);
    assert!(!ran.started().contains(&"verify/g/steps/1"));
    assert_eq!(ran.outcome("verify/x"), Outcome::Failed);
    assert_eq!(ran.outcome("verify/6"), Outcome::Passed, "{:?}", ran.report("verify/6"));
    assert_eq!(ran.verdict(), Verdict::Failed);
}

#[tokio::test(start_paused = true)]
async fn empty_loops_check_nothing() {
    let host = world();
    host.on_exec("-c empty", Answer::prints("[]"));
    let text = "  setup: [{command: {id: l, run: empty}}]\n  verify: [{foreach: {var: x, in: '{steps.l.outputs.stdout}', ALLOW steps: [{command: {run: 'ok {x}'}}]}}]\n";
    let ran = run_on(Arc::clone(&host), &text.replace("ALLOW", ""), &[]).await;
    assert_eq!(ran.verdict(), Verdict::Failed);
    // A loop that may be empty, and is, is not a verdict by itself.
    let allowed = text.replace("ALLOW", "allowEmpty: true,");
    let ran = run_on(Arc::clone(&host), &allowed, &[]).await;
    assert_eq!((ran.verdict(), ran.report("verify/0").comparisons), (Verdict::Unchecked, 0));
    let ran = run_on(host, &allowed.replace("}}]}}]", "}}]}}, {command: {run: ok}}]"), &[]).await;
    assert_eq!(ran.verdict(), Verdict::Passed);
}

/// Comparisons are counted in the events, and nothing passes that compared nothing.
#[tokio::test(start_paused = true)]
async fn comparisons_are_counted() {
    let host = world();
    host.on_exec("-c says", Answer::prints("a b"));
    let text = "  verify:
  - command: {id: none, run: ok}
  - command: {id: any, run: ok, expect: {exitCode: any}}
  - command: {id: one, run: ok, expect: {exitCode: 0}}
  - command: {id: four, run: says, expect: {stdout: {contains: a, matches: b$, equals: a b}}}
  - command: {id: fails, run: says, expect: {exitCode: 3, stdout: {contains: x}, stderr: ''}}
  - file: {id: made, path: /f, content: x}
  - file: {id: there, path: /f, expect: {contains: x, mode: '0644'}}
  - file: {id: absent, path: /g, expect: {exists: false}}
  - sleep: 1s
  - foreach: {id: loop, var: x, in: [1, 2, 3], steps: [{command: {run: 'ok', expect: {stdout: {matches: .}}}}]}
  - anyOf: [{command: {run: not ok}}, {group: {steps: [{command: {run: ok}}, {command: {run: ok}}]}}]
";
    let ran = run_on(host, text, &[]).await;
    let made = |id: &str| ran.report(&format!("verify/{id}")).comparisons;
    let all = ["none", "any", "one", "four", "fails", "made", "there", "absent", "8", "loop", "10"].map(made);
    assert_eq!(all, [1, 0, 1, 4, 3, 0, 3, 1, 0, 6, 2]);
}

#[tokio::test(start_paused = true)]
async fn timeouts_are_enforced() {
    let ran = run("  verify: [{command: {run: slow, timeout: 5s, continueOnError: true}}, {command: {run: slow, timeout: 10m}}, {command: {run: ok}}]\n  cleanup: [{command: {run: ok}}]\n").await;
    assert_eq!(ran.report("verify/0").duration, Duration::from_secs(5));
    assert_eq!(ran.report("verify/1").duration, Duration::from_secs(55));
    assert_eq!(ran.outcome("cleanup/0"), Outcome::Passed);
    assert_eq!(ran.verdict(), Verdict::Broken);
    assert!(ran.reason().starts_with("task exceeded timeout of"), "{}", ran.reason());
}

/// Cleanup runs whatever happened before, and runs once.
#[tokio::test(start_paused = true)]
async fn cleanup_always_runs_once() {
    let good = [(0, Interrupt::Int); 0];
    let int = [(5, Interrupt::Int)];
    let term = [(5, Interrupt::Term)];
    let cases: [(&str, &[(u64, Interrupt)], Verdict, u8); 8] = [
        ("  setup: [{command: {run: no}}]\n  verify: [{command: {run: ok}}]\n", &good, Verdict::Broken, 1),
        ("  setup: [{command: {run: gone}}]\n  verify: [{command: {run: ok}}]\n", &good, Verdict::Broken, 1),
        (
            "  setup: [{command: {run: slow, timeout: 10m}}]\n  verify: [{command: {run: ok}}]\n",
            &good,
            Verdict::Broken,
            1,
        ),
        ("  verify: [{command: {run: no}}]\n", &good, Verdict::Failed, 1),
        ("  verify: [{command: {run: slow, timeout: 10m}}]\n", &good, Verdict::Broken, 1),
        ("  verify: [{command: {run: slow}}]\n", &int, Verdict::Cancelled, 130),
        ("  setup: [{command: {run: slow}}]\n  verify: [{command: {run: ok}}]\n", &term, Verdict::Cancelled, 143),
        ("  verify: [{eventually: {timeout: 40s, steps: [{command: {run: no}}]}}]\n", &int, Verdict::Cancelled, 130),
    ];
    for (steps, signals, verdict, exit) in cases {
        let steps = format!(
            "{steps}  cleanup: [{{command: {{run: ok 1}}}}, {{command: {{run: no 2}}}}, {{command: {{run: ok 3}}}}]\n"
        );
        let ran = run_on(world(), &steps, signals).await;
        let cleaned: Vec<_> = ran.started().into_iter().filter(|id| id.starts_with("cleanup/")).collect();
        assert_eq!(cleaned, ["cleanup/2", "cleanup/1", "cleanup/0"], "{steps}");
        assert_eq!((ran.verdict(), ran.summary.exit), (verdict, exit), "{steps}");
        assert!(ran.summary.tasks[0].cleanup_failed);
        // The failed one stays pending.
        let done = ran.events.iter().filter(|e| matches!(e.kind, EventKind::CleanupDone { .. })).count();
        assert_eq!(done, 2, "{steps}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_cleanup_affects_only_the_exit_status() {
    let ran = run("  verify: [{command: {run: ok}}]\n  cleanup: [{command: {run: no}}]\n").await;
    assert_eq!((ran.verdict(), ran.summary.exit), (Verdict::Passed, 4));
}

/// Each step of a cleanup gets some time, even behind one that takes all of the cleanup's.
#[tokio::test(start_paused = true)]
async fn a_cleanup_that_hangs_does_not_starve_the_others() {
    let spec = "  cleanup: [{command: {run: ok}}, {command: {run: slow, timeout: 2h}}, {command: {run: ok}}]\n";
    let task = task(&format!("  verify: [{{command: {{run: ok}}}}]\n{spec}"));
    let task = task.replace("cleanupTimeout: 60s", "cleanupTimeout: 30s");
    let plan = eval_of(vec![plan_of(&Sources::default(), "t.yaml", &task, AgentKind::Noop)]);
    let ran = run_plan(world(), &plan, &RunOptions::default(), &[]).await;
    let outcomes = ["cleanup/0", "cleanup/1", "cleanup/2"].map(|id| ran.outcome(id));
    assert_eq!(outcomes, [Outcome::Passed, Outcome::Broken, Outcome::Passed]);
    assert!(ran.report("cleanup/1").message.contains("30s"), "{}", ran.report("cleanup/1").message);
}

#[tokio::test(start_paused = true)]
async fn cleanup_is_skipped_if_its_inputs_were_never_created() {
    let ran = run("  setup: [{command: {run: no}}, {command: {id: m, run: say}}]\n  verify: [{command: {run: ok}}]\n  cleanup: [{command: {run: 'ok {steps.m.outputs.stdout}'}}]\n").await;
    assert_eq!(ran.outcome("cleanup/0"), Outcome::Skipped);
    assert!(!ran.summary.tasks[0].cleanup_failed);
}

#[tokio::test(start_paused = true)]
async fn a_second_signal_also_stops_cleanup() {
    let signals = [(5, Interrupt::Int), (10, Interrupt::Int)];
    let ran = run_on(
        world(),
        "  verify: [{command: {run: slow}}]\n  cleanup: [{command: {run: ok}}, {command: {run: slow}}]\n",
        &signals,
    )
    .await;
    assert_eq!(ran.outcome("cleanup/1"), Outcome::Cancelled);
    assert_eq!(ran.outcome("cleanup/0"), Outcome::Cancelled);
    assert_eq!(ran.summary.exit, 130);
}

/// A step that may fail must still stop the loop when it is cancelled; otherwise the loop would continue immediately,
/// forever.
#[tokio::test(start_paused = true)]
async fn a_loop_ends_when_the_run_is_cancelled_in_a_step_that_may_fail() {
    for (control, limit) in [("consistently", "duration"), ("eventually", "timeout")] {
        let steps = format!(
            "  setup: [{{{control}: {{id: c, {limit}: 10s, steps: [{{command: {{run: slow, continueOnError: true}}}}]}}}}]\n  verify: [{{command: {{run: ok}}}}]\n"
        );
        let ran = run_on(world(), &steps, &[(1, Interrupt::Int)]).await;
        assert_eq!(ran.outcome("setup/c"), Outcome::Cancelled, "{steps}");
        assert_eq!(ran.started(), ["setup/c", "setup/c#1/0"]);
        assert_eq!((ran.verdict(), ran.summary.exit), (Verdict::Cancelled, 130));
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_without_checks_does_not_pass() {
    let ran = run("  verify: []\n").await;
    assert_eq!((ran.verdict(), ran.summary.exit), (Verdict::Unchecked, 1));
}

#[tokio::test(start_paused = true)]
async fn missing_requirements_are_reported_before_anything_runs() {
    let ran =
        run("  requires: [{command: kubectl}]\n  verify: [{command: {run: ok}}]\n  cleanup: [{command: {run: ok}}]\n")
            .await;
    assert!(ran.started().is_empty() && ran.summary.tasks.is_empty());
    assert_eq!(ran.summary.exit, 3);
    assert_eq!(ran.summary.faults, ["task `t` requires `kubectl`, which is not on the PATH"]);
    let ran = run("  verify: [{command: {run: 'ok {env.NOT_THERE_AT_ALL}'}}]\n").await;
    assert_eq!(ran.summary.exit, 3);
    assert!(ran.summary.faults[0].contains("NOT_THERE_AT_ALL"), "{:?}", ran.summary.faults);
}

#[tokio::test(start_paused = true)]
async fn secrets_are_masked_in_events() {
    let host = world();
    host.set_env("API_TOKEN", "hunter2-hunter2");
    host.on_exec("-c leak", Answer::prints("it is hunter2-hunter2"));
    let ran = run_on(host, "  verify: [{command: {run: 'leak {env.API_TOKEN}'}}]\n", &[]).await;
    let text = serde_json::to_string(&ran.events).unwrap();
    assert!(!text.contains("hunter2"), "{text}");
    assert!(text.contains("it is ***"));
}

#[tokio::test(start_paused = true)]
async fn sequential_tasks_run_before_parallel_ones() {
    let host = world();
    for name in ["a", "b", "c"] {
        host.on_exec(&format!("-c takes {name}"), Answer::exit(0).takes(Duration::from_secs(10)));
    }
    let sources = Sources::default();
    let plans = [("a", true), ("b", true), ("c", false)].map(|(name, parallel)| {
        let text = format!("kind: Task\napiVersion: mcp-eval/v1\nmetadata: {{name: {name}, parallel: {parallel}, runs: 2}}\nspec:\n  prompt: Do it.\n  verify: [{{command: {{run: takes {name}}}}}]\n");
        plan_of(&sources, "t.yaml", &text, AgentKind::Noop)
    });
    let options = RunOptions { parallel: 2, ..RunOptions::default() };
    let before = host.elapsed();
    let ran = run_plan(Arc::clone(&host) as _, &eval_of(plans.into()), &options, &[]).await;
    let order: Vec<_> = ran.summary.tasks.iter().map(|t| format!("{}{}", t.task.name, t.task.run)).collect();
    assert_eq!(order[..2], ["c0", "c1"]);
    assert_eq!(order.len(), 6);
    assert_eq!((host.elapsed() - before).as_secs(), 40);
}

/// With a real shell, real files and a real clock.
#[tokio::test]
async fn a_real_task_from_end_to_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().display();
    let text = format!(
        "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {{name: real, difficulty: easy}}\nspec:\n  env: {{FILE: '{path}/{{random.id}}'}}\n  prompt: 'Look at {{env.FILE}}'\n  setup: [{{command: {{run: 'echo 41 > $FILE; sleep 300 & echo started'}}}}]\n  verify:\n  - command:\n      run: cat $FILE\n      expect:\n        exitCode: 0\n        stdout: '42'\n  cleanup: [{{command: {{run: 'rm $FILE'}}}}]\n"
    );
    let sources = Arc::new(Sources::default());
    let mut plan = plan_of(&sources, "tasks/real.yaml", &text, AgentKind::Noop);
    plan.task.dir = dir.path().to_owned();
    let plan = Arc::new(eval_of(vec![plan]));
    let options = RunOptions { output_dir: dir.path().to_owned(), ..RunOptions::default() };
    let host: Arc<dyn Host> = Arc::new(RealHost::new());
    let input = ReportInput::new(plan, sources, "eval.yaml", &options);
    let mut out = Vec::new();
    let (_keep, interrupts) = unbounded_channel();
    let summary = report::run(&input, &options, host, interrupts, &report::REPORTS[0], &mut out).await;
    let text = String::from_utf8(out).unwrap();
    println!("{text}");
    assert_eq!(summary.exit, 1);
    assert!(text.starts_with("FAIL    real  "), "{text}");
    assert!(text.contains("tasks/real.yaml:13"), "{text}");
    assert!(text.contains("rerun: gevals run eval.yaml --run '^real$'"), "{text}");
    let results = std::fs::read_to_string(dir.path().join("gevals-e-out.json")).unwrap();
    println!("{results}");
    let results: serde_json::Value = serde_json::from_str(&results).unwrap();
    assert_eq!(results["results"][0]["taskPassed"], false);
    assert_eq!(results["results"][0]["verifyOutput"]["Steps"][0]["type"], "command");
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "only the results are left: {left:?}");
}

/// Small random tasks: nested steps that pass, fail, break or hang.
fn steps(depth: u32) -> BoxedStrategy<String> {
    let leaf = prop_oneof![
        4 => Just("{command: {run: ok}}".to_owned()),
        2 => Just("{command: {run: no}}".to_owned()),
        1 => Just("{command: {run: gone}}".to_owned()),
        1 => Just("{command: {run: no, continueOnError: true}}".to_owned()),
        1 => Just("{command: {run: slow, timeout: 2s}}".to_owned()),
    ];
    let step = leaf.prop_recursive(depth, 12, 3, |inner| {
        let several = prop::collection::vec(inner, 1..3).prop_map(|v| v.join(", "));
        prop_oneof![
            several.clone().prop_map(|s| format!("{{anyOf: [{s}]}}")),
            several.clone().prop_map(|s| format!("{{foreach: {{var: xVAR, in: [1, 2], parallel: 2, steps: [{s}]}}}}")),
            several.clone().prop_map(|s| format!("{{eventually: {{timeout: 3s, steps: [{s}]}}}}")),
            several.clone().prop_map(|s| format!("{{consistently: {{duration: 1s, steps: [{s}]}}}}")),
            (several.clone(), several).prop_map(|(s, c)| format!("{{group: {{steps: [{s}], cleanup: [{c}]}}}}")),
        ]
    });
    prop::collection::vec(step, 1..4)
        .prop_map(|v| {
            let mut text = v.join(", ");
            for n in 0.. {
                let Some(at) = text.find("xVAR") else { break };
                text.replace_range(at..at + 4, &format!("x{n}"));
            }
            text
        })
        .boxed()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn only_what_is_planned_is_executed(setup in steps(2), verify in steps(3), cleanup in steps(2), interrupt in prop::option::of(0u64..40), beside: bool) {
        let text = task(&format!("  setup: [{setup}]\n  verify: [{verify}]\n  cleanup: [{cleanup}]\n"));
        let text = if beside { text.replace("name: t,", "name: t, parallelVerify: true,") } else { text };
        let plan = eval_of(vec![plan_of(&Sources::default(), "t.yaml", &text, AgentKind::Noop)]);
        let mut planned = HashSet::new();
        // What each action of a phase waits for.
        let mut waits: HashMap<&str, Vec<&str>> = HashMap::new();
        let one = &plan.tasks[0];
        one.walk(&mut |depth, ix, action| {
            planned.insert(action.id.clone());
            if depth == 0 {
                waits.insert(&action.id, one.just_before(ix).map(|ix| one.action(ix).id.as_str()).collect());
            }
        });
        let mut begun: Vec<&str> = Vec::new();
        let signals: Vec<_> = interrupt.map(|after| (after, Interrupt::Int)).into_iter().collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let ran = runtime.block_on(run_plan(world(), &plan, &RunOptions::default(), &signals));
        // Each action ends, executed or skipped with a reason; an action in a round or an attempt ends once per round
        // or attempt.
        let ends: Vec<_> = ran.events.iter().filter_map(|event| match &event.kind {
            EventKind::ActionFinished { action, report } => Some((action, report)),
            _ => None,
        }).collect();
        let ended: HashSet<_> = ends.iter().map(|(action, _)| planned_id(action)).collect();
        prop_assert_eq!(&ended, &planned, "{}", text);
        let once: HashSet<_> = ends.iter().map(|(action, _)| *action).collect();
        prop_assert_eq!(once.len(), ends.len(), "{:?}\n{}", ends, text);
        prop_assert!(ends.iter().all(|(_, report)| report.outcome != Outcome::Skipped || !report.message.is_empty()));
        let mut open = Vec::new();
        for event in &ran.events {
            match &event.kind {
                EventKind::ActionStarted { action } => {
                    prop_assert!(planned.contains(&planned_id(action)), "`{action}` is not planned\n{text}");
                    let before = waits.get(action.as_str()).map_or(&[][..], Vec::as_slice);
                    prop_assert!(!open.iter().any(|o| before.contains(o)), "`{action}` did not wait\n{text}");
                    let late = begun.iter().find(|b| waits.get(**b).is_some_and(|w| w.contains(&action.as_str())));
                    prop_assert!(late.is_none(), "{late:?} did not wait for `{action}`\n{text}");
                    begun.push(action);
                    open.push(action.as_str());
                }
                EventKind::ActionFinished { action, .. } => {
                    prop_assert!(planned.contains(&planned_id(action)), "`{action}` is not planned\n{text}");
                    open.retain(|o| *o != action.as_str());
                }
                _ => {}
            }
        }
        prop_assert!(open.is_empty(), "never finished: {open:?}\n{text}");
        // Every pending cleanup was attempted, and stays pending only if it did not pass.
        let pending: HashSet<_> = ran.events.iter().flat_map(|e| match &e.kind {
            EventKind::CleanupPending { cleanups, .. } => cleanups.clone(),
            _ => Vec::new(),
        }).collect();
        let done: HashSet<_> = ran.events.iter().filter_map(|e| match &e.kind {
            EventKind::CleanupDone { cleanup } => Some(cleanup.clone()),
            _ => None,
        }).collect();
        let failed: HashSet<_> = ran.events.iter().filter_map(|e| match &e.kind {
            EventKind::ActionFinished { action, report } if !matches!(report.outcome, Outcome::Passed | Outcome::Skipped) => {
                Some(action.clone())
            }
            _ => None,
        }).collect();
        let passed: HashSet<_> = pending.difference(&failed).cloned().collect();
        prop_assert_eq!(passed, done, "{}", text);
        // A pass means that every check passed.
        let top = |id: &str| id.starts_with("verify/") && !id["verify/".len()..].contains(['/', '[', '#']);
        let all = ran.events.iter().all(|e| !matches!(&e.kind, EventKind::ActionFinished { action, report } if top(action) && report.outcome != Outcome::Passed));
        if ran.verdict() == Verdict::Passed {
            prop_assert!(all, "{}", text);
        }
    }
}

#[test]
fn results_are_a_fold_over_events() {
    let sources = Arc::new(Sources::default());
    let plan = Arc::new(eval_of(vec![plan_of(
        &sources,
        "t.yaml",
        &task("  verify: [{command: {run: no <b>}}]\n"),
        AgentKind::Noop,
    )]));
    let options = RunOptions::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let ran = runtime.block_on(run_plan(world(), &plan, &options, &[]));
    let mut results = Results::new(&ReportInput::new(plan, sources, "eval.yaml", &options), Spool::in_memory());
    // The events can be written and read back.
    for event in &ran.events {
        let line = serde_json::to_string(event).unwrap();
        results.take(&serde_json::from_str(&line).unwrap());
    }
    let json = results.json();
    assert_eq!(json["summary"]["exit"], 1);
    assert_eq!(json["results"][0]["outcome"], "failed");
    assert_eq!(
        json["results"][0]["taskError"].as_str().unwrap().split(':').next(),
        Some("one or more verification steps failed")
    );
    assert_eq!(json["results"][0]["callHistory"]["ToolCalls"], serde_json::Value::Null);
}

/// Writes files, compiles the eval and runs it with a real host.
async fn run_files(dir: &Path, files: &[(&str, String)], options: RunOptions) -> (RunSummary, String, Vec<Event>) {
    for (path, text) in files {
        let path = dir.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let host: Arc<dyn Host> = Arc::new(RealHost::new());
    let sources = Arc::new(Sources::default());
    let compiled = gevals::compile(&[dir.join("eval.yaml")], &sources, host.files());
    let found: Vec<_> = compiled.diagnostics.iter().map(|d| d.message.clone()).collect();
    let plan = compiled.evals.into_iter().next().flatten().unwrap_or_else(|| panic!("{found:?}"));
    let options = RunOptions { output_dir: dir.join("out"), ..options };
    let mut input = ReportInput::new(Arc::new(plan), sources, "eval.yaml", &options);
    let (_keep, interrupts) = unbounded_channel();
    let mut out = Vec::new();
    let json = report::REPORTS.iter().find(|r| r.name == "json").unwrap();
    input.colour = false;
    let summary = report::run(&input, &options, host, interrupts, json, &mut out).await;
    let text = String::from_utf8(out).unwrap();
    let events: Vec<Event> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // The text report is a fold over the same events.
    let mut fold = (report::REPORTS[0].make)(&input);
    (summary, events.iter().map(|event| fold(event, true)).collect(), events)
}

/// An eval of a scripted agent with the demo server, which writes its process ID to `pid`.
fn notes_eval(dir: &Path, assertions: &str) -> [(&'static str, String); 2] {
    let server =
        format!("echo $$ > {0}/pid; exec {1} demo-server --dir {0}/notes", dir.display(), env!("CARGO_BIN_EXE_gevals"));
    [
        ("eval.yaml", format!("kind: Eval\nmetadata: {{name: e}}\nconfig:\n  agent: {{type: builtin.script, path: oracle.yaml}}\n  mcpConfigFile: mcp.yaml\n  taskSets:\n  - glob: tasks/*.yaml\n{assertions}")),
        ("mcp.yaml", serde_json::json!({"mcpServers": {"notes": {"command": "/bin/sh", "args": ["-c", server], "enableAllTools": true}}}).to_string()),
    ]
}

#[tokio::test]
async fn a_server_that_dies_is_restarted_for_the_next_task() {
    let dir = tempfile::tempdir().unwrap();
    let task = |name: &str, verify: &str| {
        format!(
            "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {{name: {name}}}\nspec:\n  requires: [{{mcpServer: notes, as: n}}]\n  prompt: Do it.\n  verify:\n{verify}"
        )
    };
    let mut files = notes_eval(dir.path(), "").to_vec();
    files.push(("oracle.yaml", "kind: Oracle\ntasks:\n  a: {calls: [], output: done}\n  b: {calls: [{server: notes, tool: notes_create, args: {title: '{task.name}', body: x}}], output: '{calls[0].isError}'}\n".to_owned()));
    files.push((
        "tasks/a.yaml",
        task(
            "a",
            &format!("  - command: {{run: 'kill -9 $(cat {}/pid)'}}\n  - n.notes_list: {{}}\n", dir.path().display()),
        ),
    ));
    files.push(("tasks/b.yaml", task("b", "  - n.notes_read: {args: {title: b}, expect: {content: {contains: x}}}\n")));
    let (summary, text, events) = run_files(dir.path(), &files, RunOptions::default()).await;
    assert_eq!((summary.tasks[0].verdict, summary.tasks[1].verdict), (Verdict::Broken, Verdict::Passed), "{text}");
    assert!(text.contains("verify/1 broken: "), "{text}");
    let started = events.iter().filter(|e| matches!(e.kind, EventKind::ServerStarted { .. })).count();
    assert_eq!(started, 2);
}

#[tokio::test]
async fn assertions_apply_only_to_calls_of_the_agent() {
    let dir = tempfile::tempdir().unwrap();
    let assertions = "    assertions:
      toolsUsed: [{server: notes, toolPattern: '^notes_', status: ok, maxDuration: 30s}, {server: notes, tool: notes_create, argumentsMatch: {title: A}}]
      requireAny: [{server: notes, tool: notes_append}, {server: notes, tool: notes_create, status: toolError}]
      toolsNotUsed: [{server: notes, tool: notes_list}, {server: notes, tool: notes_create, argumentsMatch: {title: B}}]
      minToolCalls: 2
      maxToolCalls: 1
      callOrder: [{type: tool, server: notes, name: notes_create}, {type: resource, server: notes, name: 'note:///a'}]
      noDuplicateCalls: true
      resourcesNotRead: [{server: notes, uriPattern: 'b$'}]
";
    let mut files = notes_eval(dir.path(), assertions).to_vec();
    files.push(("oracle.yaml", "kind: Oracle\ntasks:\n  t:\n    calls:\n    - {server: notes, tool: notes_create, args: {title: A, body: x}}\n    - {server: notes, tool: notes_create, args: {title: A, body: x}}\n    - {server: notes, resource: 'note:///a'}\n".to_owned()));
    // The list is called by the step, not by the agent.
    files.push(("tasks/t.yaml", "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {name: t}\nspec:\n  requires: [{mcpServer: notes, as: n}]\n  prompt: Do it.\n  verify:\n  - n.notes_list: {}\n".to_owned()));
    let (summary, text, events) = run_files(dir.path(), &files, RunOptions::default()).await;
    let failed: Vec<_> = events
        .iter()
        .filter_map(|e| match &e.kind {
            EventKind::ActionFinished { action, report } if report.outcome != Outcome::Passed => Some(action.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(failed, ["assert/maxToolCalls", "assert/noDuplicateCalls"], "{text}");
    assert_eq!((summary.exit, summary.tasks[0].verdict), (1, Verdict::Failed));
    let results: serde_json::Value =
        serde_json::from_slice(&std::fs::read(dir.path().join("out/gevals-e-out.json")).unwrap()).unwrap();
    let result = &results["results"][0];
    assert_eq!((&result["taskPassed"], &result["allAssertionsPassed"]), (&true.into(), &false.into()));
    assert_eq!(result["callHistory"]["ToolCalls"].as_array().unwrap().len(), 2);
    assert_eq!(result["callHistory"]["ResourceReads"][0]["uri"], "note:///a");
    assert_eq!(result["assertionResults"]["maxToolCalls"]["passed"], false);
}

#[tokio::test]
async fn nothing_is_run_if_a_server_does_not_start() {
    let dir = tempfile::tempdir().unwrap();
    let mut files = notes_eval(dir.path(), "").to_vec();
    files[1].1 = r#"{"mcpServers": {"notes": {"command": "no-such-program-here", "enableAllTools": true}}}"#.to_owned();
    files.push(("oracle.yaml", "kind: Oracle\ntasks: {t: {calls: []}}\n".to_owned()));
    files.push(("tasks/t.yaml", "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {name: t}\nspec:\n  prompt: Do it.\n  verify: [{command: {run: 'test -d /'}}]\n".to_owned()));
    let (summary, text, _) = run_files(dir.path(), &files, RunOptions::default()).await;
    assert_eq!((summary.exit, summary.tasks[0].verdict), (3, Verdict::Broken));
    assert!(text.contains("no-such-program-here"), "{text}");
}

/// Returns the results of a run, without what differs between runs.
async fn results_of(plan: &Arc<EvalPlan>, sources: &Arc<Sources>, selection: Selection) -> serde_json::Value {
    let options = RunOptions { selection, parallel: 2, ..RunOptions::default() };
    let mut results = Results::new(
        &ReportInput::new(Arc::clone(plan), Arc::clone(sources), "eval.yaml", &options),
        Spool::in_memory(),
    );
    let ran = run_plan(world(), plan, &options, &[]).await;
    ran.events.iter().for_each(|event| results.take(event));
    let mut file = results.json();
    timeless(&mut file);
    file
}

fn timeless(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Object(map) => {
            for key in ["runId", "startedAt", "durationSeconds", "duration", "timestamp"] {
                map.shift_remove(key);
            }
            map.values_mut().for_each(timeless);
        }
        serde_json::Value::Array(list) => list.iter_mut().for_each(timeless),
        _ => {}
    }
}

/// Sorts results by names and runs.
fn in_order(mut file: serde_json::Value) -> serde_json::Value {
    if let Some(results) = file["results"].as_array_mut() {
        results.sort_by_key(|r| (r["taskName"].to_string(), r["runIndex"].as_u64()));
    }
    file
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn merged_shards_equal_the_whole_run(
        tasks in prop::collection::vec((0usize..4, any::<bool>(), 1u32..4, any::<bool>()), 1..7),
        of in 1u32..5,
        seed in prop::option::of(0u64..9),
        left_out in 0u32..5,
    ) {
        let sources = Arc::new(Sources::default());
        let plans = tasks.iter().enumerate().map(|(i, (how, clean, runs, parallel))| {
            let (verify, cleanup) = (["ok", "no", "gone", "ok"][*how], if *clean { "ok" } else { "no" });
            let text = format!("kind: Task\napiVersion: mcp-eval/v1\nmetadata: {{name: t{i}, runs: {runs}, parallel: {parallel}}}\nspec:\n  prompt: Do it.\n  verify: [{{command: {{run: {verify}}}}}]\n  cleanup: [{{command: {{run: {cleanup}}}}}]\n");
            plan_of(&sources, "t.yaml", &text, AgentKind::Noop)
        });
        let plan = Arc::new(eval_of(plans.collect()));
        let runtime = || tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let whole = runtime().block_on(results_of(&plan, &sources, Selection { shuffle: seed, ..Selection::default() }));
        let shards: Vec<_> = (1..=of).map(|index| {
            let shard = Some(Shard { index, of });
            let selection = Selection { shard, shuffle: seed, ..Selection::default() };
            // A shard without tasks reports nothing else.
            let empty = selection.of(&plan).is_empty();
            let file = if empty {
                let options = RunOptions { selection, parallel: 2, ..RunOptions::default() };
                let mut results = Results::new(&ReportInput::new(Arc::clone(&plan), Arc::clone(&sources), "eval.yaml", &options), Spool::in_memory());
                results.finish_empty();
                results.json()
            } else {
                runtime().block_on(results_of(&plan, &sources, selection))
            };
            (format!("{index}.json"), results::read(&file.to_string()).unwrap(), empty)
        }).collect();
        let given = |skip: Option<u32>| -> Vec<_> {
            let kept = shards.iter().zip(1..).filter(|(_, index)| Some(*index) != skip);
            kept.map(|((path, file, _), _)| (path.clone(), file.clone())).collect()
        };
        let merged = merge(&given(None)).unwrap();
        prop_assert_eq!(&merged.faults, &Vec::<String>::new());
        prop_assert_eq!(in_order(merged.file), in_order(whole));
        // Missing and duplicate parts are reported.
        let left_out = left_out % of + 1;
        if of > 1 {
            let faults = merge(&given(Some(left_out))).unwrap().faults;
            prop_assert!(faults.contains(&format!("shard {left_out}/{of} is missing")), "{:?}", faults);
            let lost = !shards[left_out as usize - 1].2;
            prop_assert_eq!(faults.len() > 1, lost, "{:?}", faults);
        }
        let mut twice = given(None);
        twice.push(twice[0].clone());
        let faults = merge(&twice).unwrap().faults;
        prop_assert!(faults.iter().any(|f| f.starts_with(&format!("shard 1/{of} appears twice"))), "{:?}", faults);
    }
}
