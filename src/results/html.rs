//! `gevals result html`: one or several results files as a single self-contained page, built like the page of plans.
//!
//! The overview is parsed when the page opens; the details of each run are on a separate line, which is parsed when they are
//! viewed. The time to open a page therefore does not depend on its size.

use std::collections::{BTreeMap, BTreeSet};

use indexmap::IndexMap;
use jiff::Timestamp;
use rayon::prelude::*;
use serde_json::{Map, Value, json};

use super::{
    ResultsFile, RunResult, Statistics, bounds, by_task, compare,
    diff::{self, Diff, Pairs},
    is_flaky, summary,
    timeline::timeline,
};
use crate::{
    diagnostic::visible,
    page::{self, Page, escaped},
    secrets,
    statistics::ALPHA,
};

const STYLE: &str = include_str!("html/report.css");
const SCRIPT: &str = include_str!("html/report.js");

/// How many characters of a text are shown; the largest of these that keeps the details below [`MOST`] is used.
const TEXTS: [usize; 4] = [20_000, 4_000, 1_000, 250];
/// The maximum size of all details, in bytes.
const MOST: usize = 16 << 20;
/// The maximum length of a list: calls of a run, entries of a transcript.
const ENTRIES: usize = 500;

/// How several files relate to each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Two files are before and after; more are agents or models.
    Time,
    /// Agents or models on the same tasks.
    Beside,
}

/// Everything besides the results that a page is made from.
pub struct Look<'l> {
    pub order: Order,
    /// The prefix that turns the path of a source into a link.
    pub link: Option<&'l str>,
    /// Returns the text of a source, if it can be read.
    pub source: &'l dyn Fn(&str) -> Option<String>,
}

/// Builds the page for these results.
pub fn page(files: &[(String, &ResultsFile)], look: &Look<'_>) -> String {
    let compared = match files {
        [(_, base), (_, current)] if look.order == Order::Time => Some(diff::diff(base, current, ALPHA)),
        _ => None,
    };
    let runs: Vec<(usize, &RunResult)> = files
        .iter()
        .enumerate()
        .flat_map(|(side, (_, file))| file.results.iter().map(move |run| (side, run)))
        .collect();
    let eval = files.iter().map(|(_, file)| file.eval()).find(|eval| !eval.is_empty()).unwrap_or("results");
    let link = look.link;
    let index = || {
        json!({
            "title": eval,
            "link": link,
            "compared": compared.is_some(),
            "sides": files.iter().map(|(name, file)| side(name, file)).collect::<Vec<_>>(),
            "tasks": tasks(files, compared.as_ref()),
            "groups": groups(files),
            "duels": if compared.is_some() { Vec::new() } else { duels(files) },
            "runs": runs.par_iter().map(|(side, run)| row(*side, run)).collect::<Vec<_>>(),
            "together": compared.as_ref().map(Diff::together).unwrap_or_default(),
        })
    };
    let (details, mut index) = rayon::join(|| details(&runs), index);
    index["cut"] = json!(details.iter().filter(|text| text.is_empty()).count());
    let index = index.to_string();
    let sources = sources(&runs, look.source).to_string();
    let eval = visible(eval);
    let title = format!("{eval} · results");
    let body = format!("<header>\n<h1 dir=\"auto\">{}</h1>\n{CONTROLS}</header>\n{MAIN}", escaped(&eval));
    let size = index.len() + sources.len() + details.iter().map(|text| text.len() + 1).sum::<usize>();
    Page { title: &title, style: STYLE, body: &body, script: SCRIPT }.text(size + size / 8, |out| {
        page::data(out, "index", &index);
        page::data(out, "details", &details.join("\n"));
        page::data(out, "sources", &sources);
    })
}

const CONTROLS: &str = "\
<div id=\"sides\"></div>\
<div class=\"controls\" role=\"toolbar\" aria-label=\"which tasks\">\
<input id=\"search\" type=\"search\" placeholder=\"Search (/)\" aria-label=\"search tasks\">\
<button id=\"overview\" type=\"button\" class=\"chip\">Overview (o)</button>\
<span id=\"chips\" role=\"group\" aria-label=\"outcome\"></span>\
<select id=\"difficulty\" aria-label=\"difficulty\"></select>\
<select id=\"tag\" aria-label=\"tag\"></select>\
<select id=\"sort\" aria-label=\"order\"></select>\
<span id=\"found\" role=\"status\"></span></div>\n";

const MAIN: &str = "\
<main><div id=\"list\" tabindex=\"0\" role=\"listbox\" aria-label=\"tasks\"><div id=\"rows\"></div></div>\
<article id=\"detail\" aria-label=\"details\" tabindex=\"-1\"></article></main>\
<noscript><p>This page needs its script.</p></noscript>";

/// The description of one file.
fn side(name: &str, file: &ResultsFile) -> Value {
    let all = Statistics::of(&file.results);
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
        "interval": bounds(all.passed, all.judged, all.tasks).unwrap_or_default(),
        "tokens": all.tokens.estimated,
        "cost": all.tokens.cost,
        "cleanups": all.cleanups_failed,
        "gaps": file.gaps(),
        "gate": file.summary.get("gate"),
        "several": summary::of_several(&file.results)
            .iter()
            .map(|one| json!({ "k": one.k, "any": one.any, "all": one.all }))
            .collect::<Vec<_>>(),
        "judge": judged(&all.tokens),
    })
}

fn judged(tokens: &super::Tokens) -> Value {
    match (tokens.judge_input, tokens.judge_output) {
        (None, None) => Value::Null,
        (input, output) => json!({ "in": input, "out": output, "estimated": tokens.judge_guessed }),
    }
}

/// The maximum number of difficulties and tags that are listed with their rates.
const GROUPS: usize = 200;

/// The pass rates by difficulty and by tag, on each side.
fn groups(files: &[(String, &ResultsFile)]) -> Vec<Value> {
    let mut groups: BTreeMap<(usize, &str), Vec<(usize, usize, usize)>> = BTreeMap::new();
    // Difficulties come before tags, in ascending order.
    let rank = |difficulty: &str| ["easy", "medium", "hard"].iter().position(|known| *known == difficulty).unwrap_or(3);
    for (side, (_, file)) in files.iter().enumerate() {
        for run in &file.results {
            let tags: BTreeSet<&str> = run.tags().collect();
            let difficulty = Some(run.difficulty()).filter(|difficulty| !difficulty.is_empty());
            let of =
                difficulty.map(|name| (rank(name), name)).into_iter().chain(tags.into_iter().map(|tag| (TAG, tag)));
            for key in of {
                let (passed, judged, runs) =
                    &mut groups.entry(key).or_insert_with(|| vec![(0, 0, 0); files.len()])[side];
                *passed += usize::from(run.passed());
                *judged += usize::from(run.is_evidence());
                *runs += 1;
            }
        }
    }
    let rates = |sides: &[(usize, usize, usize)]| sides.iter().map(|side| rate(*side)).collect::<Vec<_>>();
    let shown = groups.iter().take(GROUPS).map(|((rank, name), sides)| {
        json!({ "kind": if *rank == TAG { "tag" } else { "difficulty" }, "name": name, "rates": rates(sides) })
    });
    shown.collect()
}

/// Sorts tags after all difficulties.
const TAG: usize = 4;

/// Null if nothing was run.
fn rate((passed, judged, runs): (usize, usize, usize)) -> Value {
    match runs {
        0 => Value::Null,
        _ => json!({ "passed": passed, "runs": runs, "interval": bounds(passed, judged, runs).unwrap_or_default() }),
    }
}

/// Which of several agents or models beats which.
fn duels(files: &[(String, &ResultsFile)]) -> Vec<Value> {
    let cell = |cell: &Option<(Pairs, bool)>| match cell {
        Some((pairs, beats)) => {
            json!({ "alone": pairs.lost, "other": pairs.won, "pairs": pairs.all, "p": diff::probability(pairs.p()), "beats": beats })
        }
        None => Value::Null,
    };
    if files.len() < 2 {
        return Vec::new();
    }
    compare::matrix(files, ALPHA).iter().map(|row| row.iter().map(cell).collect()).collect()
}

/// The maximum number of failed locations whose source is shown, the lines before and after each, and the characters per line.
const PLACES: usize = 2_000;
const BEFORE: usize = 2;
const BEHIND: usize = 5;
const LINE: usize = 200;

/// The lines of the sources around everything that did not pass, by location. Secrets in them are masked as in findings.
fn sources(runs: &[(usize, &RunResult)], read: &dyn Fn(&str) -> Option<String>) -> Value {
    let (mut texts, mut out): (IndexMap<String, Option<Vec<String>>>, _) = (IndexMap::new(), Map::new());
    for (_, run) in runs {
        let failed = run.failed();
        let places = failed.iter().flat_map(|failed| {
            std::iter::once(failed.place).chain(failed.differences.iter().map(|difference| difference.place))
        });
        let cleanup = run.failed_cleanup();
        for place in places.chain(cleanup.iter().map(|failed| failed.place)) {
            if out.len() >= PLACES {
                return Value::Object(out);
            }
            let Some((path, line)) = place.rsplit_once(':').filter(|_| !out.contains_key(place)) else { continue };
            let Some(line) = line.parse::<usize>().ok().filter(|line| *line > 0) else { continue };
            let text = texts
                .entry(path.to_owned())
                .or_insert_with(|| Some(read(path)?.lines().map(|line| secrets::veil(line).into_owned()).collect()));
            let from = line.saturating_sub(BEFORE + 1);
            let Some(lines) = text.as_ref().filter(|lines| line <= lines.len()) else { continue };
            let shown: Vec<_> =
                lines[from..lines.len().min(line + BEHIND)].iter().map(|line| cut(line, LINE)).collect();
            out.insert(place.to_owned(), json!({ "from": from + 1, "at": line, "lines": shown }));
        }
    }
    Value::Object(out)
}

/// The tasks by name, with the numbers of their runs on each side.
fn tasks(files: &[(String, &ResultsFile)], compared: Option<&Diff<'_>>) -> Vec<Value> {
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
    let mut changes: IndexMap<&str, (&str, f64)> = IndexMap::new();
    if let Some(diff) = compared {
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
                    "interval": bounds(passed, passed + failed, runs.len()).unwrap_or_default(),
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

/// The first failure, in one line.
fn why(run: &RunResult) -> String {
    let cleanup = if run.passed() { run.failed_cleanup() } else { Vec::new() };
    let line = match run.failed().into_iter().chain(cleanup).next() {
        Some(failed) => {
            let more = match (failed.differences.first(), failed.answer.trim_end().lines().last()) {
                // The message contains the status, but not the program's output.
                (Some(d), said) if d.subject == "exitCode" => said.map(|said| format!(" – {said}")),
                (Some(d), _) => Some(format!(" – expected {}, actual {}", d.expected, d.actual)),
                (None, _) => None,
            };
            let waited = if failed.waited.is_empty() { String::new() } else { format!("{}: ", failed.waited) };
            format!("{}: {waited}{}{}", failed.id, failed.message, more.unwrap_or_default())
        }
        None => run.why(),
    };
    cut(&line.split_whitespace().collect::<Vec<_>>().join(" "), 240)
}

/// How many runs are sampled to estimate the total size.
const SAMPLE: usize = 64;
/// How many runs are serialized in parallel before the size is checked.
const AT_ONCE: usize = 256;

/// The details of each run, as JSON; an entry is empty if the details would be too large in total.
fn details(runs: &[(usize, &RunResult)]) -> Vec<String> {
    // With many runs, a sample shows which limits are far too large to try.
    let sample: Vec<_> = runs.iter().step_by(runs.len().div_ceil(SAMPLE).max(1)).collect();
    let is_too_long = |limit| {
        let texts: usize = sample.par_iter().map(|(_, run)| detail(run, limit).to_string().len()).sum();
        texts / sample.len() * runs.len() > MOST + MOST / 2
    };
    for limit in TEXTS {
        if runs.len() > 4 * SAMPLE && is_too_long(limit) {
            continue;
        }
        let (mut out, mut size) = (Vec::with_capacity(runs.len()), 0);
        for some in runs.chunks(AT_ONCE) {
            out.par_extend(some.par_iter().map(|(_, run)| detail(run, limit).to_string()));
            size += out[out.len() - some.len()..].iter().map(String::len).sum::<usize>();
            if size > MOST {
                break;
            }
        }
        if size <= MOST {
            return out;
        }
    }
    // Runs that did not pass get space first, because they are viewed first.
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
    let told = transcript(run, limit);
    if !told.is_empty() {
        let (turn, order) = turn(&told, &calls);
        out.insert("turn".to_owned(), json!(turn));
        out.insert("order".to_owned(), json!(order));
    }
    for key in ["tokenEstimate", "judgeTokenUsage", "judgeTokensEstimated", "remarks", "retries", "cut"] {
        if let Some(value) = run.0.get(key).filter(|value| !value.is_null()) {
            out.insert(key.to_owned(), bounded(value, limit));
        }
    }
    Value::Object(out)
}

/// The maximum nesting depth of steps.
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
    for key in
        ["duration", "differences", "exit", "stdout", "stderr", "answer", "filled", "judgement", "outputs", "retried"]
    {
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

/// The agent's calls of all kinds, ordered by time.
fn calls(run: &RunResult, limit: usize) -> Vec<Value> {
    let of =
        |key: &str| run.0.get("callHistory").and_then(|history| history.get(key)?.as_array()).into_iter().flatten();
    let mut calls: Vec<&Value> = ["ToolCalls", "ResourceReads", "PromptGets"].into_iter().flat_map(of).collect();
    calls.sort_by_key(|call| call.get("timestamp").and_then(Value::as_str).and_then(|at| at.parse::<Timestamp>().ok()));
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

/// The texts of an answer, or its error, or its JSON.
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

/// What the agent reported about its own work, or otherwise what its output looks like.
fn transcript(run: &RunResult, limit: usize) -> Vec<Told> {
    let steps = run.0.get("agentOutput").and_then(|output| output.get("agentDetails")?.get("outputSteps")?.as_array());
    if let Some(steps) = steps {
        let shown = steps.iter().take(ENTRIES).map(|step| {
            let call = step.get("toolCall").filter(|call| !call.is_null());
            let text = step.get("content").and_then(Value::as_str).map(str::to_owned);
            let title = call.and_then(|call| call.get("title")?.as_str()).map(str::to_owned);
            Told {
                kind: step.get("type").and_then(Value::as_str).unwrap_or_default().to_owned(),
                text: cut(&text.or(call.map(Value::to_string)).unwrap_or_default(), limit),
                title,
                at: step.get("at").and_then(Value::as_str).and_then(|at| at.parse().ok()),
            }
        });
        return shown.collect();
    }
    let entries = timeline(run.output());
    // A single note is the answer itself.
    if entries.len() < 2 {
        return Vec::new();
    }
    let shown = entries.iter().take(ENTRIES).map(|entry| {
        let title = entry.kind.contains("tool").then(|| entry.text.lines().next().unwrap_or_default().to_owned());
        Told { kind: entry.kind.to_string(), text: cut(&entry.text, limit), title, at: None }
    });
    shown.collect()
}

/// One item that an agent reports about its turn.
struct Told {
    kind: String,
    text: String,
    /// Set for a tool call.
    title: Option<String>,
    at: Option<Timestamp>,
}

/// Merges what the agent reported and the recorded calls into one sequence; also returns how the order was determined. A call
/// that the agent names appears only once.
fn turn(told: &[Told], calls: &[Value]) -> (Vec<Value>, &'static str) {
    let text = |call: usize, key: &str| calls[call].get(key).and_then(Value::as_str).unwrap_or_default();
    let began = |call: usize| text(call, "at").parse::<Timestamp>().ok();
    let mut left: Vec<usize> = (0..calls.len()).collect();
    // `Ok`: an item that the agent reported; `Err`: a call.
    let mut turn: Vec<Result<usize, usize>> = Vec::new();
    for (nth, one) in told.iter().enumerate() {
        let named = |call: &&usize| one.title.as_ref().is_some_and(|title| title.contains(text(**call, "name")));
        match left.iter().find(named).copied() {
            Some(call) => {
                left.retain(|other| *other != call);
                turn.push(Err(call));
            }
            None => turn.push(Ok(nth)),
        }
    }
    let timed = told.iter().all(|one| one.at.is_some()) && (0..calls.len()).all(|call| began(call).is_some());
    let unmatched = left.len();
    for call in left {
        let before = turn.iter().position(|entry| match entry {
            Ok(nth) => timed && told[*nth].at > began(call),
            Err(other) if timed => began(*other) > began(call),
            Err(other) => *other > call,
        });
        let ends_in_words = matches!(turn.last(), Some(Ok(nth)) if told[*nth].title.is_none());
        let at = before.unwrap_or(turn.len() - usize::from(!timed && ends_in_words));
        turn.insert(at, Err(call));
    }
    let order = match (timed, calls.is_empty(), unmatched) {
        (true, ..) => "time",
        (false, true, _) => "told",
        (false, false, 0) => "matched",
        (false, false, _) => "guessed",
    };
    let shown = turn.into_iter().map(|entry| match entry {
        Ok(nth) => {
            let Told { kind, text, at, .. } = &told[nth];
            json!({ "kind": kind, "text": text, "at": at })
        }
        Err(call) => json!({ "call": call }),
    });
    (shown.collect(), order)
}

/// Copies a value with its texts cut.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn told(kind: &str, title: Option<&str>, at: Option<&str>) -> Told {
        let at = at.map(|at| at.parse().unwrap());
        Told { kind: kind.to_owned(), text: kind.to_owned(), title: title.map(str::to_owned), at }
    }

    fn call(name: &str, at: &str) -> Value {
        json!({ "name": name, "at": at })
    }

    /// The sequence as words and the numbers of calls.
    fn order(told: &[Told], calls: &[Value]) -> (Vec<String>, &'static str) {
        let (turn, order) = turn(told, calls);
        let word = |entry: &Value| match entry.get("call") {
            Some(call) => call.to_string(),
            None => entry["kind"].as_str().unwrap().to_owned(),
        };
        (turn.iter().map(word).collect(), order)
    }

    #[test]
    fn the_source_of_a_failure_is_shown_without_its_secrets() {
        let text =
            (1..=30).map(|n| if n == 12 { "password: hunter2-and-more".to_owned() } else { format!("line {n}") });
        let text = text.collect::<Vec<_>>().join("\n");
        let step = |place: &str| json!({ "id": "verify/0", "success": false, "message": "m", "place": place, "report": { "outcome": "failed" } });
        let run = |place: &str| {
            let file = json!([{ "taskName": "t", "taskPassed": false, "verifyOutput": { "Steps": [step(place)] } }]);
            super::super::read(&file.to_string()).unwrap().results.remove(0)
        };
        let read = |path: &str| (path == "a.yaml").then(|| text.clone());
        let shown = |place: &str| sources(&[(0, &run(place))], &read);
        let lines = shown("a.yaml:11");
        assert_eq!((&lines["a.yaml:11"]["from"], &lines["a.yaml:11"]["at"]), (&json!(9), &json!(11)));
        assert_eq!(lines["a.yaml:11"]["lines"][0], "line 9");
        assert!(lines.to_string().contains("password: ****") && !lines.to_string().contains("hunter2"), "{lines}");
        assert_eq!(shown("a.yaml:1")["a.yaml:1"]["lines"].as_array().map(Vec::len), Some(6));
        // Nothing is shown for a missing file, a missing line, or a location in another format.
        for place in ["b.yaml:1", "a.yaml:31", "a.yaml:0", "a.yaml", ""] {
            assert_eq!(shown(place), json!({}), "{place}");
        }
    }

    #[test]
    fn messages_and_calls_are_ordered_by_time() {
        let at = |second: u32| format!("2026-11-25T02:00:0{second}Z");
        let calls = [call("list", &at(1)), call("read", &at(3))];
        // Ordered by time: a call that the agent names appears once; one that it does not name appears where it happened.
        let (zero, one, two, four) = (at(0), at(1), at(2), at(4));
        let timed = [
            told("think", None, Some(&zero)),
            told("tool", Some("mcp__notes__list"), Some(&one)),
            told("own", Some("Bash"), Some(&two)),
            told("say", None, Some(&four)),
        ];
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert_eq!(order(&timed, &calls), (words(&["think", "0", "own", "1", "say"]), "time"));
        // Without times: by the calls that the agent names.
        let matched = [told("think", None, None), told("tool", Some("list"), None), told("tool", Some("read"), None)];
        assert_eq!(order(&matched, &calls), (words(&["think", "0", "1"]), "matched"));
        // A call that it does not name is placed before the next one that it names, or before its last words.
        let some = [told("think", None, None), told("tool", Some("read"), None), told("say", None, None)];
        assert_eq!(order(&some, &calls), (words(&["think", "0", "1", "say"]), "guessed"));
        let none = [told("think", None, None), told("say", None, None)];
        assert_eq!(order(&none, &calls), (words(&["think", "0", "1", "say"]), "guessed"));
        assert_eq!(order(&none, &[]), (words(&["think", "say"]), "told"));
    }
}
