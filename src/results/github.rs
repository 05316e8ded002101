//! The summary of a run for GitHub's pages (`GITHUB_STEP_SUMMARY`), in Markdown.

use std::fmt::Write;

use super::{ResultsFile, Statistics, diff::cell, sure, view::status};

/// The maximum number of failures shown in full; GitHub accepts one megabyte.
const FAILURES: usize = 50;

/// The maximum number of steps per failure, and of differences per step.
const STEPS: usize = 5;
/// The maximum length of a value, in characters.
const VALUE: usize = 200;

fn short(text: &str) -> String {
    match text.char_indices().nth(VALUE) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A summary in Markdown, for the page of a job.
pub fn step_summary(file: &ResultsFile) -> String {
    let all = Statistics::of(&file.results);
    let gaps = file.gaps();
    let mark = if file.missed().is_empty() && gaps.is_empty() { "✅" } else { "❌" };
    let eval = if file.eval().is_empty() { "gevals" } else { file.eval() };
    let mut out = format!("## {mark} {}: {} of {} passed\n\n", cell(eval), all.passed, all.tasks);
    if all.judged > 0 {
        writeln!(out, "Pass rate{}.\n", sure(all.passed, all.judged, all.tasks).replacen(',', "", 1)).ok();
    }
    for gap in gaps.iter().take(FAILURES) {
        writeln!(out, "> ⚠️ Incomplete: {}\n", cell(gap)).ok();
    }
    if let Some(shard) = file.summary.get("shard") {
        writeln!(out, "Shard {} of {}.\n", shard["index"], shard["of"]).ok();
    }
    out.push_str("| | task | status | assertions | time |\n|---|---|---|---|---|\n");
    for result in &file.results {
        let (passed, asserted) = result.assertion_counts();
        let assertions = if asserted > 0 { format!("{passed}/{asserted}") } else { String::new() };
        let time = result.seconds().map(|s| format!("{s:.1} s")).unwrap_or_default();
        let mark = if result.passed() { "✅" } else { "❌" };
        writeln!(out, "| {mark} | {} | {} | {assertions} | {time} |", cell(&result.title()), status(result)).ok();
    }
    let failed: Vec<_> = file.results.iter().filter(|r| !r.passed()).collect();
    if !failed.is_empty() {
        out.push_str("\n### What did not pass\n\n");
    }
    for result in failed.iter().take(FAILURES) {
        writeln!(out, "- **{}** {}", cell(&result.title()), cell(&result.why())).ok();
        for step in result.failed().iter().take(STEPS) {
            let place = if step.place.is_empty() { String::new() } else { format!(" at {}", cell(step.place)) };
            writeln!(out, "  - {}{place}: {}", cell(step.id), cell(&short(step.message))).ok();
            for difference in step.differences.iter().take(STEPS) {
                let place =
                    if difference.place.is_empty() { String::new() } else { format!(" ({})", cell(difference.place)) };
                let (expected, actual) = (short(difference.expected), short(difference.actual));
                writeln!(
                    out,
                    "    - {}{place}: expected {}, actual {}",
                    cell(difference.subject),
                    cell(&expected),
                    cell(&actual)
                )
                .ok();
            }
            for (name, text) in [("waited", &step.waited), ("with", &step.filled())] {
                if !text.is_empty() {
                    writeln!(out, "    - {name}: {}", cell(&short(text))).ok();
                }
            }
            let told = step.message.contains(step.answer.trim())
                || step.differences.iter().any(|difference| difference.actual.trim() == step.answer.trim());
            if !told && !step.answer.is_empty() {
                writeln!(out, "    - answer: {}", cell(&short(step.answer))).ok();
            }
        }
    }
    if failed.len() > FAILURES {
        writeln!(out, "- … and {} more", failed.len() - FAILURES).ok();
    }
    let remarked: Vec<_> = file.results.iter().flat_map(|r| r.remarks().map(move |(_, text)| (r, text))).collect();
    if !remarked.is_empty() {
        out.push_str("\n### What a pass does not say\n\n");
    }
    for (result, text) in remarked.iter().take(FAILURES) {
        writeln!(out, "- **{}** {}", cell(&result.title()), cell(text)).ok();
    }
    if remarked.len() > FAILURES {
        writeln!(out, "- … and {} more", remarked.len() - FAILURES).ok();
    }
    if all.cleanups_failed > 0 {
        writeln!(out, "\n> ⚠️ {} cleanups failed.", all.cleanups_failed).ok();
    }
    out
}
