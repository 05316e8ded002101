//! `gevals result summary` and `verify` (§8.6 and §8.7 of the upstream behaviour).

use std::fmt::Write;

use serde_json::{Map, Value, json};

use super::{ResultsFile, RunResult, Statistics, by_task, harmless, percent};
use crate::{event::Limited, prices::money, statistics};

/// One line per result, followed by the totals.
pub fn text(file: &ResultsFile, task: Option<&str>) -> String {
    let results = file.only(task);
    let mut out = String::from("=== Evaluation Summary ===\n\n");
    for result in &results {
        let mark = match (result.passed(), result.task_passed() && !result.assertions_passed()) {
            (true, _) => '✓',
            (_, true) => '~',
            _ => '✗',
        };
        let (passed, all) = result.assertion_counts();
        let counts = if all > 0 { format!("  assertions {passed}/{all}") } else { String::new() };
        let outcome = match result.outcome() {
            Some(outcome @ ("broken" | "cancelled" | "unchecked")) => format!("  {outcome}"),
            _ => String::new(),
        };
        writeln!(out, "  {mark} {}{outcome}{counts}", harmless(&result.title())).ok();
        if let Some(error) = error(result) {
            writeln!(out, "      {}", harmless(&error)).ok();
        }
        for failed in result.failed_assertions() {
            writeln!(out, "      - {}", harmless(&failed).replace('\n', " ")).ok();
        }
        if result.cleanup_failed() {
            writeln!(out, "      cleanup failed").ok();
        }
        for (_, remark) in result.remarks() {
            writeln!(out, "      {}", harmless(remark).replace('\n', " ")).ok();
        }
    }
    if results.is_empty() {
        out.push_str("  no results\n");
    }
    let all = Statistics::of(results.iter().copied());
    let rate = |name: &str, passed: usize, of: usize, judged: usize, rate: f64| {
        format!("{name:<12}{passed}/{of} passed ({}{})\n", percent(rate), super::sure(passed, judged, of))
    };
    out.push('\n');
    out.push_str(&rate("Tasks:", all.tasks_passed, all.tasks, all.judged, all.task_rate()));
    out.push_str(&worth(&results));
    out.push_str(&rate("Assertions:", all.assertions_passed, all.assertions, all.assertions, all.assertion_rate()));
    if all.cleanups_failed > 0 {
        writeln!(out, "Cleanups:   {} failed", all.cleanups_failed).ok();
    }
    for gap in file.gaps() {
        writeln!(out, "Incomplete: {gap}").ok();
    }
    let tokens = &all.tokens;
    if let Some(total) = tokens.total() {
        let which = if tokens.guessed { "+" } else { "" };
        let schema = tokens.schema.map(|n| format!(" ({which}{n} of MCP schemas)")).unwrap_or_default();
        writeln!(out, "Tokens:     {total}{schema}").ok();
    }
    let pair = |input: Option<u64>, output: Option<u64>| {
        (input.is_some() || output.is_some())
            .then(|| format!("{} in, {} out", input.unwrap_or_default(), output.unwrap_or_default()))
    };
    if let Some(used) = pair(tokens.agent_input, tokens.agent_output) {
        writeln!(out, "Agent used: {used}").ok();
    }
    if let Some(used) = pair(tokens.judge_input, tokens.judge_output) {
        let how = if tokens.judge_guessed { ", estimated" } else { "" };
        writeln!(out, "Judge used: {used}{how}").ok();
    }
    let currency = file.summary.get("currency").and_then(Value::as_str).unwrap_or_default();
    if let Some(cost) = tokens.cost {
        writeln!(out, "Cost:       {}", format!("{} {}", money(cost), harmless(currency)).trim_end()).ok();
    }
    let limits = file.summary.get("limits").and_then(|limits| serde_json::from_value::<Limited>(limits.clone()).ok());
    if let Some(limits) = limits {
        writeln!(out, "Limits:     {}", harmless(&limits.words(currency))).ok();
    }
    out
}

/// What the runs show about their tasks: the confidence in each pass rate, which tasks are flaky, and pass@k and pass^k.
fn worth(results: &[&RunResult]) -> String {
    let (mut out, tasks) = (String::new(), by_task(results.iter().copied()));
    let counts: Vec<_> = tasks.values().map(|runs| (runs.len(), runs.iter().filter(|r| r.passed()).count())).collect();
    if let Some(steady) = counts.iter().filter(|(runs, passed)| runs == passed).map(|(runs, _)| *runs).min() {
        writeln!(out, "            {}", super::worth(steady)).ok();
    }
    let several = of_several(results.iter().copied());
    if several.is_empty() {
        return out;
    }
    for (name, runs) in &tasks {
        let passed = runs.iter().filter(|r| r.passed()).count();
        let failed = runs.iter().filter(|r| !r.passed() && matches!(r.outcome(), None | Some("failed"))).count();
        if passed < runs.len() {
            let flaky = if super::is_flaky(passed, failed) { ", flaky" } else { "" };
            let between = super::between(passed, passed + failed, runs.len());
            writeln!(out, "  {}: {passed}/{} passed{between}{flaky}", harmless(name), runs.len()).ok();
        }
    }
    let row = |name: &str, of: fn(&OfSeveral) -> f64| {
        let shown = several.iter().map(|one| format!("{name}{} {}", one.k, percent(of(one))));
        shown.collect::<Vec<_>>().join(", ")
    };
    writeln!(out, "Of k runs one passes:  {}", row("pass@", |one| one.any)).ok();
    writeln!(out, "Of k runs all pass:    {}", row("pass^", |one| one.all)).ok();
    out
}

/// The result of k runs of a task: an unbiased estimate, averaged over the tasks.
pub(super) struct OfSeveral {
    pub k: usize,
    /// pass@k: at least one passes.
    pub any: f64,
    /// pass^k: all pass.
    pub all: f64,
}

/// For several k up to the smallest number of runs of a task; empty if a task has only one run.
pub(super) fn of_several<'a>(results: impl IntoIterator<Item = &'a RunResult>) -> Vec<OfSeveral> {
    let tasks = by_task(results);
    let few = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let counts: Vec<_> =
        tasks.values().map(|runs| (few(runs.len()), few(runs.iter().filter(|r| r.passed()).count()))).collect();
    let least = tasks.values().map(Vec::len).min().unwrap_or(0);
    if least < 2 {
        return Vec::new();
    }
    let mut sizes = vec![1, 2, 3, 5, 10, 20, 50, 100];
    sizes.retain(|k| *k < least);
    sizes.push(least);
    let mean = |of: fn(u32, u32, u32) -> Option<f64>, k: usize| {
        let each: Option<Vec<f64>> = counts.iter().map(|(runs, passed)| of(*runs, *passed, few(k))).collect();
        each.map(|each| each.iter().sum::<f64>() / each.len() as f64)
    };
    let one = |k| Some(OfSeveral { k, any: mean(statistics::pass_at, k)?, all: mean(statistics::pass_hat, k)? });
    sizes.into_iter().filter_map(one).collect()
}

/// Returns the error of a result. Errors of agents become a fixed text, because they contain whole transcripts.
fn error(result: &RunResult) -> Option<String> {
    match result.passed() || result.task_passed() && !result.assertions_passed() {
        true => None,
        false if result.agent_failed() => Some("agent execution failed".to_owned()),
        false => Some(result.why()),
    }
}

/// The JSON document of upstream, with additional keys.
pub fn json(file: &ResultsFile, path: &str, task: Option<&str>) -> Value {
    let results = file.only(task);
    let tasks = results.iter().map(|result| {
        let mut out = Map::new();
        let mut set = |key: &str, value: Value| out.insert(key.to_owned(), value);
        let tokens = result.tokens();
        set("name", json!(result.name()));
        set("taskPassed", json!(result.task_passed()));
        set("assertionsPassed", json!(result.assertions_passed()));
        if let Some(error) = error(result) {
            set("taskError", json!(error));
        }
        let failed = result.failed_assertions();
        if !failed.is_empty() {
            set("failedAssertions", json!(failed));
        }
        if let Some(n) = tokens.estimated.filter(|n| *n > 0) {
            set("tokensEstimated", json!(n));
        }
        if let Some(n) = tokens.schema.filter(|n| *n > 0) {
            set("mcpSchemaTokens", json!(n));
        }
        if !tokens.error.is_empty() {
            set("tokenError", json!(tokens.error));
        }
        set("agentInputTokens", json!(tokens.agent_input.unwrap_or_default()));
        set("agentOutputTokens", json!(tokens.agent_output.unwrap_or_default()));
        set("judgeInputTokens", json!(tokens.judge_input.unwrap_or_default()));
        set("judgeOutputTokens", json!(tokens.judge_output.unwrap_or_default()));
        // Keys of gevals.
        if let Some(outcome) = result.outcome() {
            set("outcome", json!(outcome));
        }
        if let (run, 2..) = result.run() {
            set("runIndex", json!(run - 1));
        }
        Value::Object(out)
    });
    let tasks: Vec<_> = tasks.collect();
    let all = Statistics::of(results.iter().copied());
    let tokens = &all.tokens;
    let interval = super::interval(all.tasks_passed, all.judged);
    json!({
        "resultsFile": path,
        "tasks": tasks,
        "complete": file.gaps().is_empty(),
        "tasksTotal": all.tasks,
        "tasksPassed": all.tasks_passed,
        "tasksJudged": all.judged,
        "taskPassRate": all.task_rate(),
        "taskPassRateInterval": [interval.low, interval.high],
        "assertionsTotal": all.assertions,
        "assertionsPassed": all.assertions_passed,
        "assertionPassRate": all.assertion_rate(),
        "totalTokensEstimate": tokens.estimated.unwrap_or_default(),
        "totalMcpSchemaTokens": tokens.schema.unwrap_or_default(),
        "agentTotalInputTokens": tokens.agent_input.unwrap_or_default(),
        "agentTotalOutputTokens": tokens.agent_output.unwrap_or_default(),
        "judgeTotalInputTokens": tokens.judge_input.unwrap_or_default(),
        "judgeTotalOutputTokens": tokens.judge_output.unwrap_or_default(),
    })
}

/// `KEY=VALUE` lines for `$GITHUB_OUTPUT`.
pub fn github(file: &ResultsFile, path: &str, task: Option<&str>) -> String {
    let all = Statistics::of(file.only(task));
    let tokens = &all.tokens;
    let lines = [
        // A path with a line break could inject outputs.
        ("results-file", path.replace(['\n', '\r'], " ")),
        ("tasks-total", all.tasks.to_string()),
        ("tasks-passed", all.tasks_passed.to_string()),
        ("task-pass-rate", format!("{:.4}", all.task_rate())),
        ("assertions-total", all.assertions.to_string()),
        ("assertions-passed", all.assertions_passed.to_string()),
        ("assertion-pass-rate", format!("{:.4}", all.assertion_rate())),
        ("tokens-estimated", tokens.estimated.unwrap_or_default().to_string()),
        ("mcp-schema-tokens", tokens.schema.unwrap_or_default().to_string()),
        ("agent-input-tokens", tokens.agent_input.unwrap_or_default().to_string()),
        ("agent-output-tokens", tokens.agent_output.unwrap_or_default().to_string()),
        ("judge-input-tokens", tokens.judge_input.unwrap_or_default().to_string()),
        ("judge-output-tokens", tokens.judge_output.unwrap_or_default().to_string()),
    ];
    lines.into_iter().fold(String::new(), |out, (key, value)| out + key + "=" + &value + "\n")
}

/// Whether the file is complete and its rates reach the thresholds, with a text that explains it. Without a threshold every
/// task must have passed.
pub fn verify(file: &ResultsFile, task: Option<f64>, assertion: Option<f64>) -> (bool, String) {
    let (missed, gaps) = (file.missed(), file.gaps());
    let (met, mut out) = match (task, assertion) {
        (None, None) => {
            let all = Statistics::of(&file.results);
            let mark = if missed.is_empty() && all.tasks > 0 { '✓' } else { '✗' };
            let mut out = format!("{mark} {} of {} passed\n", all.passed, all.tasks);
            for name in &missed {
                writeln!(out, "    `{}` did not pass", harmless(name)).ok();
            }
            if all.tasks == 0 {
                out.push_str("    no task was run\n");
            }
            (missed.is_empty() && all.tasks > 0, out)
        }
        (task, assertion) => rates(file, task.unwrap_or(0.0), assertion.unwrap_or(0.0)),
    };
    for gap in &gaps {
        writeln!(out, "✗ Incomplete: {gap}").ok();
    }
    let met = met && gaps.is_empty();
    writeln!(out, "\n{}", if met { "PASSED" } else { "FAILED" }).ok();
    (met, out)
}

fn rates(file: &ResultsFile, task: f64, assertion: f64) -> (bool, String) {
    let all = Statistics::of(&file.results);
    let tasks_met = all.task_rate() >= task;
    // Without assertions, their rate cannot be too low.
    let assertions_met = all.assertions == 0 || all.assertion_rate() >= assertion;
    let word = |met: bool| if met { "✓" } else { "✗" };
    let mut out = format!(
        "{} Task pass rate:      {} ({}/{}{}), threshold {}\n",
        word(tasks_met),
        percent(all.task_rate()),
        all.tasks_passed,
        all.tasks,
        super::sure(all.tasks_passed, all.judged, all.tasks),
        percent(task)
    );
    match all.assertions {
        0 => out.push_str("- Assertion pass rate: no assertions\n"),
        count => {
            writeln!(
                out,
                "{} Assertion pass rate: {} ({}/{count}{}), threshold {}",
                word(assertions_met),
                percent(all.assertion_rate()),
                all.assertions_passed,
                super::sure(all.assertions_passed, count, count),
                percent(assertion)
            )
            .ok();
        }
    }
    (tasks_met && assertions_met, out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::read;

    #[test]
    fn zero_counts_are_not_shown() {
        let file = |tokens: Value| {
            let result = json!({
                "taskName": "t", "taskPassed": true, "allAssertionsPassed": true, "tokenEstimate": tokens,
            });
            read(&Value::Array(vec![result]).to_string()).unwrap()
        };
        let none = file(json!({ "totalTokens": 0, "mcpSchemaTokens": 0 }));
        assert!(!text(&none, None).contains("Cleanups"), "{}", text(&none, None));
        let shown = &json(&none, "x", None)["tasks"][0];
        assert!(shown.get("tokensEstimated").is_none() && shown.get("mcpSchemaTokens").is_none(), "{shown}");
        let some = file(json!({ "totalTokens": 7, "mcpSchemaTokens": 2 }));
        let shown = &json(&some, "x", None)["tasks"][0];
        assert_eq!((&shown["tokensEstimated"], &shown["mcpSchemaTokens"]), (&json!(7), &json!(2)));
    }

    #[test]
    fn an_empty_file_does_not_pass() {
        let one = |passed: bool| {
            let result = json!({ "taskName": "t", "taskPassed": passed, "allAssertionsPassed": true });
            read(&Value::Array(vec![result]).to_string()).unwrap()
        };
        let (met, said) = verify(&one(true), None, None);
        assert!(met && said.starts_with("✓ 1 of 1 passed\n"), "{said}");
        let (met, said) = verify(&one(false), None, None);
        assert!(!met && said.starts_with("✗ 0 of 1 passed\n"), "{said}");
        let (met, said) = verify(&read("[]").unwrap(), None, None);
        assert!(!met && said.starts_with("✗ 0 of 0 passed\n"), "{said}");
    }
}
