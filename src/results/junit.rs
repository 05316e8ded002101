//! `gevals result convert junit` (§8.9 of the upstream behaviour).

use std::{fmt::Write, time::Duration};

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use super::{ResultsFile, RunResult, view};

/// JUnit XML: one test case per result.
///
/// A verification or an assertion that failed is a *failure*; a run that could not be carried out is an *error*.
pub fn junit(file: &ResultsFile, results: &[&RunResult]) -> String {
    let mut report = Report::new("gevals");
    let name = if file.eval().is_empty() { "gevals" } else { file.eval() };
    let mut suite = TestSuite::new(name);
    for result in results {
        suite.add_test_case(case(result));
    }
    let gaps = file.gaps();
    if !gaps.is_empty() {
        let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
        status.set_type("Incomplete").set_message(short(&gaps.join("; "))).set_description(gaps.join("\n"));
        suite.add_test_case(TestCase::new("the results are complete", status));
    }
    report.add_test_suite(suite);
    report.to_string().unwrap_or_default()
}

fn case(result: &RunResult) -> TestCase {
    let mut status = match fault(result) {
        None => TestCaseStatus::success(),
        Some(fault) => {
            let mut status = match fault.kind {
                Some(kind) => TestCaseStatus::non_success(kind),
                None => TestCaseStatus::skipped(),
            };
            let told = told(result);
            let description = if told.is_empty() { fault.text.clone() } else { format!("{}\n\n{told}", fault.text) };
            status.set_type(fault.name).set_message(short(&fault.text)).set_description(description);
            status
        }
    };
    if let (Some("unchecked"), TestCaseStatus::NonSuccess { .. }) = (result.outcome(), &status) {
        status.set_type("Unchecked");
    }
    let mut case = TestCase::new(result.title(), status);
    case.set_classname(class(result.path()));
    if let Some(seconds) = result.seconds().and_then(|s| Duration::try_from_secs_f64(s).ok()) {
        case.set_time(seconds);
    }
    for (kind, text) in result.remarks() {
        case.add_property((format!("gevals.{kind}"), text.to_owned()));
    }
    case.set_system_out(view::view(result, None, view::Limits { events: 0, lines: 200, width: 1000, timeline: true }));
    case
}

/// How many characters of a value are shown.
const VALUE: usize = 2_000;

/// Describes what did not pass: the location, what was expected, what was found, and the answer.
fn told(result: &RunResult) -> String {
    let mut out = String::new();
    let value = |out: &mut String, name: &str, text: &str| {
        let text: String = text.trim_end().chars().take(VALUE).collect();
        writeln!(out, "  {name}: {}", text.replace('\n', "\n    ")).ok();
    };
    for step in result.failed() {
        let place = if step.place.is_empty() { String::new() } else { format!(" ({})", step.place) };
        writeln!(out, "{}{place}: {}", step.id, step.message).ok();
        for difference in &step.differences {
            let place = if difference.place.is_empty() { String::new() } else { format!(" ({})", difference.place) };
            writeln!(out, "  {}{place}", difference.subject).ok();
            value(&mut out, "  expected", difference.expected);
            value(&mut out, "  actual", difference.actual);
        }
        for (name, text) in [("waited", step.waited.as_str()), ("with", &step.filled()), ("answer", step.answer)] {
            if !text.is_empty() {
                value(&mut out, name, text);
            }
        }
    }
    out.trim_end().to_owned()
}

struct Fault {
    /// `None` if it was not run.
    kind: Option<NonSuccessKind>,
    name: &'static str,
    text: String,
}

fn fault(result: &RunResult) -> Option<Fault> {
    use NonSuccessKind::{Error, Failure};
    let text = if result.error().is_empty() { result.why() } else { result.error().to_owned() };
    let fault = |kind, name| Some(Fault { kind, name, text: text.clone() });
    match (result.task_passed() && !result.assertions_passed(), result.passed()) {
        (_, true) => None,
        (true, _) => {
            let failed = result.failed_assertions();
            let text = if failed.is_empty() { "Assertions failed".to_owned() } else { failed.join("; ") };
            Some(Fault { kind: Some(Failure), name: "AssertionFailure", text })
        }
        _ if result.outcome() == Some("cancelled") => fault(None, "Cancelled"),
        // It exceeded its limits, which is a valid result.
        _ if result.agent_failed() && result.outcome() == Some("failed") => fault(Some(Failure), "LimitExceeded"),
        _ if result.agent_failed() => fault(Some(Error), "AgentExecutionError"),
        _ if result.timed_out() => fault(Some(Error), "Timeout"),
        _ if result.remarks().any(|(kind, _)| kind == "serverUnused") => fault(Some(Failure), "ServerUnused"),
        _ if verified(result) => fault(Some(Failure), "VerificationFailure"),
        _ => fault(Some(Error), "ExecutionError"),
    }
}

/// Whether verification completed, and its result was negative.
fn verified(result: &RunResult) -> bool {
    match result.outcome() {
        Some(outcome) => matches!(outcome, "failed" | "unchecked"),
        // Upstream also reports a script's exit status as an error.
        None => ["one or more verification steps failed", "verification failed:"]
            .iter()
            .any(|p| result.error().starts_with(p)),
    }
}

/// The file's name without its extension.
fn class(path: &str) -> String {
    let name = path.rsplit(['/', '\\']).next().unwrap_or_default();
    name.rsplit_once('.').map_or(name, |(stem, _)| stem).to_owned()
}

/// A message is an attribute: one line of at most 200 characters.
fn short(text: &str) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(200) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::read;

    #[test]
    fn failures_errors_and_skipped_tasks_are_distinguished() {
        let file = read(
            r#"{"summary": {"eval": "e<&>"}, "results": [
              {"taskName": "fine", "taskPath": "a/b.yaml", "taskPassed": true, "allAssertionsPassed": true, "durationSeconds": 1.5},
              {"taskName": "no", "taskPassed": false, "taskError": "verification failed: \u0001<x>\n]]>"},
              {"taskName": "asserted", "taskPassed": true, "allAssertionsPassed": false, "assertionResults": {"a": {"passed": false, "reason": "r"}, "b": {"passed": false}}},
              {"taskName": "bare", "taskPassed": true, "allAssertionsPassed": false, "assertionResults": null},
              {"taskName": "agent", "taskPassed": false, "agentExecutionError": true, "timedOut": true},
              {"taskName": "much", "taskPassed": false, "agentExecutionError": true, "outcome": "failed", "taskError": "too much"},
              {"taskName": "late", "taskPassed": false, "timedOut": true, "taskError": "task exceeded timeout of 1s"},
              {"taskName": "setup", "taskPassed": false, "taskError": "failed to setup task: x"},
              {"taskName": "left", "taskPassed": false, "outcome": "cancelled", "runIndex": 1, "totalRuns": 3}
            ]}"#,
        )
        .unwrap();
        let text = junit(&file, &file.only(None));
        let report = Report::deserialize_from_str(&text).unwrap();
        let suite = &report.test_suites[0];
        assert_eq!((suite.name.as_str(), suite.tests, suite.failures, suite.errors), ("e<&>", 10, 4, 4));
        let cases: Vec<_> = suite
            .test_cases
            .iter()
            .map(|c| match &c.status {
                TestCaseStatus::Success { .. } => {
                    format!("{}.{} passed", c.classname.as_ref().unwrap().as_str(), c.name.as_str())
                }
                TestCaseStatus::NonSuccess { kind, ty, message, .. } => {
                    format!(
                        "{} {kind:?} {} {}",
                        c.name.as_str(),
                        ty.as_ref().unwrap().as_str(),
                        message.as_ref().unwrap().as_str()
                    )
                }
                TestCaseStatus::Skipped { .. } => format!("{} skipped", c.name.as_str()),
            })
            .collect();
        assert_eq!(
            cases,
            [
                "b.fine passed",
                "no Failure VerificationFailure verification failed: <x> ]]>",
                "asserted Failure AssertionFailure a: r; b",
                "bare Failure AssertionFailure Assertions failed",
                "agent Error AgentExecutionError the agent failed",
                "much Failure LimitExceeded too much",
                "late Error Timeout task exceeded timeout of 1s",
                "setup Error ExecutionError failed to setup task: x",
                "left (run 2/3) skipped",
                "the results are complete Error Incomplete `left` has no run 1, 3 of 3; `left (run 2/3)` was cancelled",
            ]
        );
        assert!(!text.contains('\u{1}') && text.starts_with("<?xml"));
    }
}
