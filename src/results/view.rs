//! `gevals result view` (§8.5 of the upstream behaviour): each result in full, cut to a readable length.

use std::fmt::Write;

use indexmap::IndexMap;
use serde_json::Value;

use super::{RunResult, harmless, timeline::timeline};

/// How much is shown.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub timeline: bool,
    /// The maximum number of timeline entries; 0 for all.
    pub events: usize,
    /// The maximum number of lines of one output.
    pub lines: usize,
    /// The maximum width of a line, in characters.
    pub width: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { timeline: true, events: 40, lines: 6, width: 100 }
    }
}

/// Formats one result; `prompt` is the task's prompt, if its file can still be read.
pub fn view(result: &RunResult, prompt: Option<&str>, limits: Limits) -> String {
    let mut out = String::new();
    let line = |out: &mut String, name: &str, text: &str| {
        writeln!(out, "{name:<12}{}", harmless(text)).ok();
    };
    line(&mut out, "Task:", &result.title());
    if !result.path().is_empty() {
        line(&mut out, "Path:", result.path());
    }
    if !result.difficulty().is_empty() {
        line(&mut out, "Difficulty:", result.difficulty());
    }
    line(&mut out, "Status:", &status(result));
    if let Some(seconds) = result.seconds() {
        line(&mut out, "Duration:", &format!("{seconds:.2}s"));
    }
    if !result.error().is_empty() {
        writeln!(out, "Error:").ok();
        block(&mut out, result.error(), limits);
    }
    if let Some(prompt) = prompt {
        writeln!(out, "Prompt:").ok();
        block(&mut out, prompt.trim_end(), limits);
    }
    for (_, remark) in result.remarks() {
        line(&mut out, "Remark:", &remark.replace('\n', " "));
    }
    if let Some(reason) = result.judge_reason() {
        writeln!(out, "Judge:").ok();
        block(&mut out, reason, limits);
    }
    let (passed, all) = result.assertion_counts();
    if all > 0 {
        line(&mut out, "Assertions:", &format!("{passed}/{all} passed"));
        for failed in result.failed_assertions() {
            writeln!(out, "  - {}", cut(&failed.replace('\n', " "), limits.width)).ok();
        }
    }
    steps(&mut out, result, limits);
    tokens(&mut out, result);
    calls(&mut out, result, limits);
    if limits.timeline {
        let entries = timeline(result.output());
        if !entries.is_empty() {
            writeln!(out, "Timeline:").ok();
        }
        let shown = if limits.events == 0 { entries.len() } else { limits.events.min(entries.len()) };
        for entry in &entries[..shown] {
            writeln!(out, "  - {}:", entry.kind).ok();
            block(&mut out, &entry.text, limits);
        }
        if shown < entries.len() {
            writeln!(out, "  … {} more (--max-events 0 shows all)", entries.len() - shown).ok();
        }
    }
    out
}

/// Returns `PASSED` or `FAILED`, with the reason.
pub fn status(result: &RunResult) -> String {
    let word = match (result.passed(), result.task_passed() && !result.assertions_passed()) {
        (true, _) => "PASSED",
        (_, true) => "FAILED (assertions)",
        (false, _) if result.agent_failed() => "FAILED (agent error)",
        (false, _) if result.timed_out() => "FAILED (timed out)",
        (false, _) => match result.outcome() {
            Some("broken") => "FAILED (broken)",
            Some("cancelled") => "FAILED (cancelled)",
            Some("unchecked") => "FAILED (unchecked)",
            Some("recorded") => "RECORDED (nothing was verified)",
            _ => "FAILED",
        },
    };
    let cleanup = if result.cleanup_failed() { ", cleanup failed" } else { "" };
    format!("{word}{cleanup}")
}

/// The maximum length of the message of a step that did not pass, in characters.
const MESSAGE: usize = 1_000;

/// What did not pass: what was expected, what was found, the answer, and the location.
fn steps(out: &mut String, result: &RunResult, limits: Limits) {
    let failed = result.failed();
    if !failed.is_empty() {
        writeln!(out, "Did not pass:").ok();
    }
    for step in failed {
        // Failures are shown in full, even if lines are cut to a shorter width elsewhere.
        let message = format!("{}: {}", step.id, step.message.replace('\n', " "));
        writeln!(out, "  - {}", cut(&message, limits.width.max(MESSAGE))).ok();
        let filled = step.filled();
        for (name, text) in
            [("waited", step.waited.as_str()), ("what", step.meaning), ("with", &filled), ("at", step.place)]
        {
            if !text.is_empty() {
                let width = if name == "with" { limits.width.max(MESSAGE) } else { limits.width };
                writeln!(out, "      {name:<8}  {}", cut(text, width)).ok();
            }
        }
        for difference in &step.differences {
            let place = if difference.place.is_empty() { String::new() } else { format!(" ({})", difference.place) };
            writeln!(out, "      {}", cut(&format!("{}{place}", difference.subject), limits.width)).ok();
            named(out, "expected", difference.expected, limits);
            named(out, "actual", difference.actual, limits);
        }
        if !step.answer.is_empty() {
            named(out, "answer", step.answer, limits);
        }
    }
    let steps = result.0.get("cleanupOutput").and_then(|p| p.get("Steps")?.as_array()).into_iter().flatten();
    let bad = steps.filter(|s| s.get("success").and_then(Value::as_bool) == Some(false));
    for (i, step) in bad.enumerate() {
        if i == 0 {
            writeln!(out, "Cleanup:").ok();
        }
        let text = |key: &str| step.get(key).and_then(Value::as_str).unwrap_or_default();
        let id = if text("id").is_empty() { text("type") } else { text("id") };
        writeln!(out, "  - {}", cut(id, limits.width)).ok();
        let why = if text("error").is_empty() { text("message") } else { text("error") };
        block(out, why, limits);
    }
}

fn tokens(out: &mut String, result: &RunResult) {
    let tokens = result.tokens();
    let part = |key: &str| result.0.get("tokenEstimate").and_then(|t| t.get(key)?.as_u64()).unwrap_or_default();
    if let Some(total) = tokens.total() {
        let parts = ["prompt", "message", "thinking", "toolInput", "toolOutput"];
        let parts = parts.map(|name| (name, part(&format!("{name}Tokens"))));
        let parts: Vec<_> = parts.iter().filter(|(_, n)| *n > 0).map(|(name, n)| format!("{name} {n}")).collect();
        let parts = if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };
        writeln!(out, "Tokens:     {total}{parts}").ok();
        if let Some(schema) = tokens.schema.filter(|n| *n > 0) {
            let which = if tokens.guessed { "+" } else { "" };
            writeln!(out, "            {which}{schema} of MCP schemas").ok();
        }
    }
    for (name, input, output) in
        [("agent", tokens.agent_input, tokens.agent_output), ("judge", tokens.judge_input, tokens.judge_output)]
    {
        if input.is_some() || output.is_some() {
            let (input, output) = (input.unwrap_or_default(), output.unwrap_or_default());
            writeln!(out, "            {name} used {input} in, {output} out").ok();
        }
    }
    if !tokens.error.is_empty() {
        writeln!(out, "            not all counted: {}", harmless(&tokens.error)).ok();
    }
}

fn calls(out: &mut String, result: &RunResult, limits: Limits) {
    let of = |key: &str| -> Vec<&Value> {
        let calls = result.0.get("callHistory").and_then(|h| h.get(key)?.as_array());
        calls.into_iter().flatten().collect()
    };
    let good = |call: &Value| {
        let answered = call.get("success").and_then(Value::as_bool) == Some(true);
        // Upstream counts an answer that is an error as a success; for people it is a failure.
        answered && call.pointer("/result/isError").and_then(Value::as_bool) != Some(true)
    };
    let text = |call: &Value, key: &str| call.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let kinds = [("ToolCalls", "tools"), ("ResourceReads", "resources"), ("PromptGets", "prompts")];
    let mut lines = Vec::new();
    for (key, name) in kinds {
        let mut servers: IndexMap<String, (usize, usize)> = IndexMap::new();
        for call in of(key) {
            let (ok, fail) = servers.entry(text(call, "serverName")).or_default();
            if good(call) {
                *ok += 1;
            } else {
                *fail += 1;
            }
        }
        let servers = servers.into_iter().map(|(server, (ok, fail))| match fail {
            0 => format!("{server}:{ok} ok"),
            _ => format!("{server}:{ok} ok, {server}:{fail} fail"),
        });
        let servers: Vec<_> = servers.collect();
        if !servers.is_empty() {
            lines.push(format!("{name}: {} ({})", of(key).len(), servers.join(", ")));
        }
    }
    if !lines.is_empty() {
        writeln!(out, "Calls:      {}", cut(&lines.join(" | "), usize::MAX)).ok();
    }
    for call in of("ToolCalls") {
        let mark = if good(call) { '✓' } else { '✗' };
        let arguments = call.pointer("/request/Params/arguments").filter(|a| !a.is_null());
        let arguments = arguments.map(|a| format!(" {a}")).unwrap_or_default();
        let name = format!("{}.{}{arguments}", text(call, "serverName"), text(call, "name"));
        writeln!(out, "  {mark} {}", cut(&name, limits.width)).ok();
        let content = call.pointer("/result/content").and_then(Value::as_array).into_iter().flatten();
        let texts: Vec<_> = content.filter_map(|c| c.get("text")?.as_str()).collect();
        let said = if texts.is_empty() { text(call, "error") } else { texts.join("\n") };
        block(out, &said, limits);
    }
}

/// Prints a value with its name: on the same line if it is one line, below it otherwise.
fn named(out: &mut String, name: &str, text: &str, limits: Limits) {
    match text.trim_end().lines().collect::<Vec<_>>().as_slice() {
        [] => writeln!(out, "        {name:<8}  (empty)").ok(),
        [line] => writeln!(out, "        {name:<8}  {}", cut(line, limits.width)).ok(),
        _ => {
            writeln!(out, "        {name}").ok();
            block(out, text, limits);
            None
        }
    };
}

/// Prints text indented and cut to the limits.
fn block(out: &mut String, text: &str, limits: Limits) {
    let lines: Vec<_> = text.trim_end().lines().collect();
    let shown = limits.lines.min(lines.len());
    for line in &lines[..shown] {
        writeln!(out, "      {}", cut(line, limits.width)).ok();
    }
    if shown < lines.len() {
        writeln!(out, "      … {} more", lines.len() - shown).ok();
    }
}

fn cut(line: &str, width: usize) -> String {
    let mut out: String = harmless(line).chars().take(width).collect();
    if width < line.chars().count() {
        out.push('…');
    }
    out
}

/// Returns the prompt in a task's text; `file` reads a file next to the task.
pub fn prompt(task: &str, file: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let task: Value = serde_yaml::from_str(task).ok()?;
    let prompt = task.pointer("/spec/prompt").or_else(|| task.pointer("/steps/prompt"))?;
    let text = |key: &str| prompt.get(key).and_then(Value::as_str).filter(|t| !t.is_empty());
    match (prompt.as_str(), text("inline"), text("file")) {
        (Some(text), ..) | (None, Some(text), _) => Some(text.to_owned()),
        (None, None, Some(path)) => file(path),
        _ => None,
    }
}
