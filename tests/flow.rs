//! The course of a run, step by step, in each dialect: the pages in `flow/`. A case consists of files and the events of
//! running them: every action that ended, with its outcome, every verdict, and the exit status.
//!
//! `BLESS=1 cargo test --test all flow::` updates the pages with the current events. Review what it writes.
#![cfg(all(feature = "run", target_os = "linux"))]

use std::{fmt::Write, path::Path, sync::Mutex};

use gevals::event::{Event, EventKind};

use crate::support::{
    page::{Block, Page, pages},
    world::World,
};

#[test]
fn runs_match_their_pages() {
    let bless = std::env::var_os("BLESS").is_some_and(|v| v == "1") && std::env::var_os("CI").is_none();
    let mut faults = Vec::new();
    for page in pages(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/flow")) {
        let cases = cases(&page);
        assert!(cases.len() > 2, "{}", page.path.display());
        let next = Mutex::new(cases.iter());
        let bodies = Mutex::new(Vec::new());
        // The clock is real, and most cases only wait.
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    loop {
                        let Some(case) = next.lock().unwrap().next() else { return };
                        let happened = run(case);
                        bodies.lock().unwrap().push((case.expected.clone(), happened));
                    }
                });
            }
        });
        let stale: Vec<_> = bodies.into_inner().unwrap().into_iter().filter(|(b, now)| b.body != *now).collect();
        if bless {
            let bodies: Vec<_> = stale.into_iter().map(|(block, now)| (block.range, now)).collect();
            std::fs::write(&page.path, page.with(&bodies)).unwrap();
            continue;
        }
        for (block, now) in stale {
            let diff = similar::TextDiff::from_lines(&block.body, &now).unified_diff().to_string();
            faults.push(format!("{}:{} {}\n{diff}", page.path.display(), block.line, block.heading.1));
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

struct Case {
    files: Vec<Block>,
    expected: Block,
}

/// Files before the first heading of a case belong to all cases.
fn cases(page: &Page) -> Vec<Case> {
    let first = page.blocks.iter().map(|b| b.heading.0).min().unwrap();
    let (mut shared, mut cases) = (Vec::new(), Vec::new());
    let mut own: Vec<Block> = Vec::new();
    for block in &page.blocks {
        if own.first().is_some_and(|b: &Block| b.heading.0 != block.heading.0) {
            own.clear();
        }
        match (block.language(), block.heading.0 == first) {
            ("events", _) => {
                let files = shared.iter().chain(&own).cloned().collect();
                cases.push(Case { files, expected: block.clone() });
            }
            (_, true) => shared.push(block.clone()),
            (_, false) => own.push(block.clone()),
        }
    }
    cases
}

fn run(case: &Case) -> String {
    let world = World::new(&[]);
    for block in &case.files {
        world.write(block.file(), &block.text());
    }
    let ran = world.run(&["run", "eval.yaml", "--format", "json"]);
    let mut out = String::new();
    for line in ran.out.lines() {
        let event: Event = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        // The first run of the task `t` needs no name.
        let whose = event.task.as_ref().map_or_else(String::new, |task| match (task.name.as_str(), task.run) {
            ("t", 0) => String::new(),
            (name, run) => format!("{name}#{} ", run + 1),
        });
        match &event.kind {
            EventKind::ActionFinished { action, report } => {
                writeln!(out, "{whose}{action} {}", report.outcome.name()).unwrap();
            }
            EventKind::TaskFinished { verdict, cleanup_failed, .. } => {
                let cleanup = if *cleanup_failed { ", cleanup failed" } else { "" };
                writeln!(out, "{whose}= {}{cleanup}", verdict.name()).unwrap();
            }
            _ => {}
        }
    }
    let survivors = world.survivors();
    assert!(survivors.is_empty(), "{}: {survivors:?}", case.expected.heading.1);
    match ran.code {
        Some(code @ (2 | 3)) => writeln!(out, "exit {code}: {}", ran.err.lines().next().unwrap_or_default()).unwrap(),
        code => writeln!(out, "exit {}", code.unwrap()).unwrap(),
    }
    out
}
