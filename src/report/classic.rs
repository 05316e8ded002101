//! `classic`: the text, followed by the lines that scripts for mcpchecker look for (the upstream behaviour, §9.2).

use std::fmt::Write;

use serde_json::Value;

use super::{
    ReportFormat, ReportInput, Results,
    text::{Text, brief},
};
use crate::{
    event::EventKind,
    journal::Spool,
    results::{RunResult, Statistics},
};

pub(super) const FORMAT: ReportFormat = ReportFormat {
    name: "classic",
    summary: "text, and the last lines that scripts for mcpchecker expect",
    make: |input| {
        let (mut text, mut results, input) = (Text::new(input), Results::new(input, Spool::in_memory()), input.clone());
        Box::new(move |event, written| {
            results.take(event);
            let mut out = text.take(event, written);
            if let EventKind::RunFinished { duration: took, .. } = &event.kind {
                out += &last_lines(&input, &mut results, written);
                writeln!(out, "\nCompleted in {}", brief(*took)).ok();
            }
            out
        })
    },
};

/// A task counts as passed by its outcome, as in `gevals result summary`.
fn last_lines(input: &ReportInput, results: &mut Results, written: bool) -> String {
    let json = results.json();
    let runs = json["results"].as_array().into_iter().flatten().filter_map(Value::as_object);
    let runs: Vec<_> = runs.cloned().map(RunResult).collect();
    let all = Statistics::of(&runs);
    let path = input.results.strip_prefix(".").unwrap_or(&input.results).display();
    let saved = if written { format!("Results saved to: {path}\n\n") } else { String::new() };
    format!(
        "\n=== Evaluation Complete ===\n\n{saved}=== Overall Statistics ===\nTotal Tasks: {}\nTasks Passed: {}/{}\nAssertions Passed: {}/{}\n",
        all.tasks, all.tasks_passed, all.tasks, all.assertions_passed, all.assertions,
    )
}
