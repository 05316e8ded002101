//! `gevals result html`: one or several results files as one page that needs nothing else, built like the page of plans.
//!
//! The overview is parsed when the page opens; what happened in a run stands on a line of its own, which is parsed when someone
//! looks at it. So the size of a page is not the time that it takes to open.

use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use super::{ResultsFile, RunResult, Statistics, by_task, diff, interval, is_flaky, timeline::timeline};
use crate::{
    diagnostic::visible,
    page::{self, Page, escaped},
    statistics::ALPHA,
};

const STYLE: &str = include_str!("html/report.css");
const SCRIPT: &str = include_str!("html/report.js");

/// Characters of one text that are shown; the fewest that keep the page below [`MOST`] are taken.
const TEXTS: [usize; 4] = [20_000, 4_000, 1_000, 250];
/// Bytes of all details.
const MOST: usize = 16 << 20;
/// Of one list: calls of a run, entries of a transcript.
const ENTRIES: usize = 500;

/// A page of these results; `link` is put before the path of a source, which makes it a link.
pub fn page(files: &[(String, &ResultsFile)], link: Option<&str>) -> String {
    let runs: Vec<(usize, &RunResult)> = files
        .iter()
        .enumerate()
        .flat_map(|(side, (_, file))| file.results.iter().map(move |run| (side, run)))
        .collect();
    let details = details(&runs);
    let cut = details.iter().filter(|text| text.is_empty()).count();
    let eval = files.iter().map(|(_, file)| file.eval()).find(|eval| !eval.is_empty()).unwrap_or("results");
    let index = json!({
        "title": eval,
        "link": link,
        "cut": cut,
        "sides": files.iter().map(|(name, file)| side(name, file)).collect::<Vec<_>>(),
        "tasks": tasks(files),
        "runs": runs.iter().map(|(side, run)| row(*side, run)).collect::<Vec<_>>(),
        "together": match files {
            [(_, base), (_, current)] => diff::diff(base, current, ALPHA).together(),
            _ => String::new(),
        },
    });
    let index = index.to_string();
    let eval = visible(eval);
    let title = format!("{eval} · results");
    let body = format!("<header>\n<h1 dir=\"auto\">{}</h1>\n{CONTROLS}</header>\n{MAIN}", escaped(&eval));
    let size = index.len() + details.iter().map(|text| text.len() + 1).sum::<usize>();
    Page { title: &title, style: STYLE, body: &body, script: SCRIPT }.text(size + size / 8, |out| {
        page::data(out, "index", &index);
        page::data(out, "details", &details.join("\n"));
    })
}

const CONTROLS: &str = "\
<div id=\"sides\"></div>\
<div class=\"controls\" role=\"toolbar\" aria-label=\"which tasks\">\
<input id=\"search\" type=\"search\" placeholder=\"Search (/)\" aria-label=\"search tasks\">\
<span id=\"chips\" role=\"group\" aria-label=\"outcome\"></span>\
<select id=\"difficulty\" aria-label=\"difficulty\"></select>\
<select id=\"tag\" aria-label=\"tag\"></select>\
<select id=\"sort\" aria-label=\"order\"></select>\
<span id=\"found\" role=\"status\"></span></div>\n";

const MAIN: &str = "\
<main><div id=\"list\" tabindex=\"0\" role=\"listbox\" aria-label=\"tasks\"><div id=\"rows\"></div></div>\
<article id=\"detail\" aria-label=\"details\" tabindex=\"-1\"></article></main>\
<noscript><p>This page needs its script.</p></noscript>";

/// What one file is about.
fn side(name: &str, file: &ResultsFile) -> Value {
    let all = Statistics::of(&file.results);
    let interval = interval(all.passed, all.tasks);
    let text = |path: &[&str]| {
        let found = path.iter().try_fold(&Value::Object(file.summary.clone()), |value, key| value.get(key)).cloned();
        found.and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
    };
    json!({
        "name": name,
        "agent": text(&["agent", "name"]),
        "model": text(&["agent", "model"]),
        "started": text(&["startedAt"]),
        "currency": text(&["currency"]),
        "seconds": file.summary.get("durationSeconds"),
        "runs": all.tasks,
        "passed": all.passed,
        "interval": interval.to_string(),
        "tokens": all.tokens.estimated,
        "cost": all.tokens.cost,
        "cleanups": all.cleanups_failed,
        "gaps": file.gaps(),
        "gate": file.summary.get("gate"),
    })
}

/// Tasks by name, with the numbers of their runs on each side.
fn tasks(files: &[(String, &ResultsFile)]) -> Vec<Value> {
    let mut tasks: IndexMap<&str, Vec<Vec<usize>>> = IndexMap::new();
    let mut first: IndexMap<&str, &RunResult> = IndexMap::new();
    let mut nth = 0;
    for (side, (_, file)) in files.iter().enumerate() {
        for run in &file.results {
            tasks.entry(run.name()).or_insert_with(|| vec![Vec::new(); files.len()])[side].push(nth);
            first.insert(run.name(), run);
            nth += 1;
        }
    }
    let compared = match files {
        [(_, base), (_, current)] => Some(diff::diff(base, current, ALPHA)),
        _ => None,
    };
    let mut changes: IndexMap<&str, (&str, f64)> = IndexMap::new();
    if let Some(diff) = &compared {
        for (kind, list) in [
            ("regression", &diff.regressions),
            ("loss", &diff.losses),
            ("improvement", &diff.improvements),
            ("gain", &diff.gains),
            ("new", &diff.new),
            ("gone", &diff.removed),
        ] {
            changes.extend(list.iter().map(|change| (change.task, (kind, change.p))));
        }
    }
    let by_side: Vec<_> = files.iter().map(|(_, file)| by_task(&file.results)).collect();
    let task = |(name, sides): (&str, Vec<Vec<usize>>)| {
        let run = first[name];
        let rates = by_side.iter().map(|tasks| {
            let runs = tasks.get(name).map(Vec::as_slice).unwrap_or_default();
            let passed = runs.iter().filter(|run| run.passed()).count();
            let failed =
                runs.iter().filter(|run| !run.passed() && matches!(run.outcome(), None | Some("failed"))).count();
            (!runs.is_empty()).then(|| {
                json!({
                    "passed": passed,
                    "runs": runs.len(),
                    "interval": interval(passed, runs.len()).to_string(),
                    "flaky": is_flaky(passed, failed),
                })
            })
        });
        let mut out = json!({ "name": name, "path": run.path(), "sides": sides, "rates": rates.collect::<Vec<_>>() });
        if !run.difficulty().is_empty() {
            out["difficulty"] = json!(run.difficulty());
        }
        if let Some(tags) = run.0.get("tags").filter(|tags| tags.is_array()) {
            out["tags"] = tags.clone();
        }
        if let Some((kind, p)) = changes.get(name) {
            out["change"] = json!(kind);
            out["p"] = json!(diff::probability(*p));
        }
        out
    };
    tasks.into_iter().map(task).collect()
}

/// What the overview shows of a run.
fn row(side: usize, run: &RunResult) -> Value {
    let tokens = run.tokens();
    json!([
        outcome(run),
        run.seconds(),
        tokens.estimated,
        tokens.cost,
        why(run),
        side,
        run.run().0,
        u8::from(run.cleanup_failed())
    ])
}

fn outcome(run: &RunResult) -> &str {
    match (run.passed(), run.outcome()) {
        (true, _) => "passed",
        (false, Some(outcome @ ("broken" | "cancelled" | "unchecked"))) => outcome,
        (false, _) if run.agent_failed() || run.timed_out() => "broken",
        (false, _) => "failed",
    }
}

/// The first thing that went wrong, in a line.
fn why(run: &RunResult) -> String {
    let line = match run.failed().into_iter().next() {
        Some(failed) => {
            let more = match (failed.differences.first(), failed.answer.trim_end().lines().last()) {
                // The status is in the message; what the program said is not.
                (Some(d), said) if d.subject == "exitCode" => said.map(|said| format!(" – {said}")),
                (Some(d), _) => Some(format!(" – expected {}, actual {}", d.expected, d.actual)),
                (None, _) => None,
            };
            format!("{}: {}{}", failed.id, failed.message, more.unwrap_or_default())
        }
        None => run.why(),
    };
    cut(&line.split_whitespace().collect::<Vec<_>>().join(" "), 240)
}

/// What happened in each run, as JSON; empty where all together would be too large.
fn details(runs: &[(usize, &RunResult)]) -> Vec<String> {
    for limit in TEXTS {
        let (mut out, mut size) = (Vec::with_capacity(runs.len()), 0);
        for (_, run) in runs {
            let text = detail(run, limit).to_string();
            size += text.len();
            if size > MOST {
                break;
            }
            out.push(text);
        }
        if out.len() == runs.len() {
            return out;
        }
    }
    // What did not pass is looked at first.
    let mut out = vec![String::new(); runs.len()];
    let mut size = 0;
    let (passed, other): (Vec<usize>, Vec<usize>) = (0..runs.len()).partition(|&nth| runs[nth].1.passed());
    for nth in other.into_iter().chain(passed) {
        let text = detail(runs[nth].1, TEXTS[TEXTS.len() - 1]).to_string();
        if size + text.len() > MOST {
            break;
        }
        size += text.len();
        out[nth] = text;
    }
    out
}

fn detail(run: &RunResult, limit: usize) -> Value {
    let mut out = Map::new();
    let text = |key: &str| run.0.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    for (name, key) in [
        ("prompt", "prompt"),
        ("answer", "taskOutput"),
        ("error", "taskError"),
        ("judge", "taskJudgeReason"),
        ("judgeError", "taskJudgeError"),
        ("digest", "planDigest"),
    ] {
        if let Some(text) = text(key) {
            out.insert(name.to_owned(), json!(cut(text, limit)));
        }
    }
    let phases = ["setup", "agent", "verify", "cleanup"].into_iter().filter_map(|phase| {
        let steps = run.0.get(&format!("{phase}Output"))?.get("Steps")?.as_array()?;
        let steps: Vec<_> = steps.iter().take(ENTRIES).map(|step| self::step(step, limit, 0)).collect();
        (!steps.is_empty()).then(|| json!({ "name": phase, "steps": steps }))
    });
    out.insert("phases".to_owned(), phases.collect());
    let asserted = run.0.get("assertionResults").and_then(Value::as_object).into_iter().flatten();
    let asserted: Vec<_> =
        asserted.map(|(kind, result)| bounded(&json!({ "kind": kind, "result": result }), limit)).collect();
    if !asserted.is_empty() {
        out.insert("asserted".to_owned(), json!(asserted));
    }
    let calls = calls(run, limit);
    if !calls.is_empty() {
        out.insert("calls".to_owned(), json!(calls));
    }
    let transcript = transcript(run, limit);
    if !transcript.is_empty() {
        out.insert("transcript".to_owned(), json!(transcript));
    }
    for key in ["tokenEstimate", "judgeTokenUsage", "remarks", "retries", "cut"] {
        if let Some(value) = run.0.get(key).filter(|value| !value.is_null()) {
            out.insert(key.to_owned(), bounded(value, limit));
        }
    }
    Value::Object(out)
}

/// How deep steps stand in steps, at most.
const DEEP: usize = 16;

fn step(step: &Value, limit: usize, depth: usize) -> Value {
    let mut out = Map::new();
    let report = step.get("report").unwrap_or(&Value::Null);
    let success = step.get("success").and_then(Value::as_bool).unwrap_or_default();
    let outcome = report.get("outcome").and_then(Value::as_str).unwrap_or(if success { "passed" } else { "failed" });
    out.insert("outcome".to_owned(), json!(outcome));
    let error = step
        .get("error")
        .filter(|error| step.get("message").is_none_or(|m| m == "" || m.is_null()) && !error.is_null());
    if let Some(error) = error {
        out.insert("message".to_owned(), bounded(error, limit));
    }
    for key in ["id", "type", "meaning", "place", "message"] {
        if let Some(value) = step.get(key).filter(|value| value.as_str().is_some_and(|text| !text.is_empty())) {
            out.insert(key.to_owned(), bounded(value, limit));
        }
    }
    for key in ["duration", "differences", "exit", "stdout", "stderr", "answer", "judgement", "outputs", "retried"] {
        if let Some(value) = report.get(key).filter(|value| !value.is_null()) {
            out.insert(key.to_owned(), bounded(value, limit));
        }
    }
    if let (None, Some(outputs)) = (report.get("outputs"), step.get("outputs")) {
        out.insert("outputs".to_owned(), bounded(outputs, limit));
    }
    if let Some(inner) = step.get("steps").and_then(Value::as_array).filter(|_| depth < DEEP) {
        let inner: Vec<_> = inner.iter().take(ENTRIES).map(|inner| self::step(inner, limit, depth + 1)).collect();
        out.insert("steps".to_owned(), json!(inner));
    }
    Value::Object(out)
}

/// The agent's calls of all kinds, in time.
fn calls(run: &RunResult, limit: usize) -> Vec<Value> {
    let of =
        |key: &str| run.0.get("callHistory").and_then(|history| history.get(key)?.as_array()).into_iter().flatten();
    let mut calls: Vec<&Value> = ["ToolCalls", "ResourceReads", "PromptGets"].into_iter().flat_map(of).collect();
    calls.sort_by_key(|call| call.get("timestamp").and_then(Value::as_str).unwrap_or_default());
    let shown = calls.into_iter().take(ENTRIES).map(|call| {
        let name = call.get("name").or(call.get("uri")).unwrap_or(&Value::Null);
        let good = call.get("success").and_then(Value::as_bool) == Some(true)
            && call.pointer("/result/isError").and_then(Value::as_bool) != Some(true);
        let arguments = call.pointer("/request/Params/arguments").unwrap_or(&Value::Null);
        json!({
            "server": call.get("serverName"),
            "name": bounded(name, limit),
            "at": call.get("timestamp"),
            "seconds": call.get("durationSeconds"),
            "good": good,
            "arguments": cut(&arguments.to_string(), limit),
            "answer": cut(&answer(call), limit),
        })
    });
    shown.collect()
}

/// The texts of an answer, where it has some.
fn answer(call: &Value) -> String {
    let content = call.pointer("/result/content").and_then(Value::as_array).into_iter().flatten();
    let texts: Vec<_> = content.filter_map(|part| part.get("text")?.as_str()).collect();
    match (texts.is_empty(), call.get("error").and_then(Value::as_str), call.get("result")) {
        (false, ..) => texts.join("\n"),
        (true, Some(error), _) => error.to_owned(),
        (true, None, Some(result)) if !result.is_null() => result.to_string(),
        _ => String::new(),
    }
}

/// What the agent reports of its own work; else what its output looks like.
fn transcript(run: &RunResult, limit: usize) -> Vec<Value> {
    let steps = run.0.get("agentOutput").and_then(|output| output.get("agentDetails")?.get("outputSteps")?.as_array());
    if let Some(steps) = steps {
        let shown = steps.iter().take(ENTRIES).map(|step| {
            let call = step.get("toolCall").filter(|call| !call.is_null()).map(Value::to_string);
            let text = step.get("content").and_then(Value::as_str).map(str::to_owned).or(call).unwrap_or_default();
            json!({ "kind": step.get("type"), "text": cut(&text, limit) })
        });
        return shown.collect();
    }
    let entries = timeline(run.output());
    // One note is the answer itself.
    match entries.as_slice() {
        [] | [_] => Vec::new(),
        several => {
            several.iter().take(ENTRIES).map(|e| json!({ "kind": e.kind, "text": cut(&e.text, limit) })).collect()
        }
    }
}

/// The same value with shorter texts.
fn bounded(value: &Value, limit: usize) -> Value {
    match value {
        Value::String(text) => Value::String(cut(text, limit)),
        Value::Array(items) => items.iter().take(ENTRIES).map(|item| bounded(item, limit)).collect(),
        Value::Object(map) => {
            Value::Object(map.iter().take(ENTRIES).map(|(key, value)| (key.clone(), bounded(value, limit))).collect())
        }
        other => other.clone(),
    }
}

fn cut(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{}… ({} more characters)", &text[..end], text[end..].chars().count()),
        None => text.to_owned(),
    }
}
