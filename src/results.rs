//! Reads results files back: our own and those of earlier tools, in both of their formats (§8 of the upstream behaviour). The
//! output of `gevals result` is produced here as text; files are read and written by the callers.

#[cfg(feature = "run")]
pub mod archive;
pub mod compare;
pub mod diff;
pub mod github;
pub mod html;
pub mod junit;
pub mod merge;
#[cfg(feature = "parquet")]
pub mod parquet;
pub mod recording;
#[cfg(feature = "parquet")]
pub mod stream;
pub mod summary;
mod timeline;
pub mod view;

use std::{
    collections::BTreeSet,
    io::{self, Write},
    ops::Range,
};

use indexmap::IndexMap;
use rayon::prelude::*;
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::{Map, Value, value::RawValue};

use crate::statistics::{self, Interval};

/// A task is flaky only if the confidence interval of its pass rate is above this and below 1 minus this.
const RARELY: f64 = 0.05;
/// The version of the file format that this gevals writes, and the newest one it reads.
pub const VERSION: u64 = 1;
/// The prefix of the message of a step that waited without success.
pub const NOT_WITHIN: &str = "not within ";
/// The file name that the scripts of `gevals emit` use for merged results.
pub const MERGED: &str = "results.json";
/// Missing runs beyond this number are not listed.
const MOST_RUNS: u64 = 10_000;

/// A results file.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ResultsFile {
    /// Empty in the older format, which is a bare list.
    pub summary: Map<String, Value>,
    pub results: Vec<RunResult>,
    pub findings: Vec<Value>,
}

/// One run of one task, as written; its methods return what upstream would read.
#[derive(Clone, PartialEq, Debug)]
pub struct RunResult(pub Map<String, Value>);

/// Reads a results file.
///
/// # Errors
/// What is wrong with the file, for people.
pub fn read(text: &str) -> Result<ResultsFile, String> {
    Ok(read_with_places(text)?.0)
}

/// Reads a results file; also returns the byte ranges of its results in the text.
///
/// # Errors
/// As for [`read`].
pub fn read_with_places(text: &str) -> Result<(ResultsFile, Vec<Range<usize>>), String> {
    let trimmed = text.trim_start_matches('\u{feff}').trim();
    if trimmed.is_empty() {
        return Err("the file is empty".to_owned());
    }
    let (value, raw) = match parallel(trimmed) {
        Some(read) => read,
        None => (serde_json::from_str(trimmed).map_err(|e| format!("it is not JSON: {e}"))?, Vec::new()),
    };
    let place = |raw: &RawValue| {
        let start = raw.get().as_ptr().addr() - text.as_ptr().addr();
        start..start + raw.get().len()
    };
    Ok((of_value(value)?, raw.into_iter().map(place).collect()))
}

/// Converts a JSON value to a results file.
///
/// # Errors
/// What is wrong with the file, for people.
pub fn of_value(value: Value) -> Result<ResultsFile, String> {
    let (mut summary, mut findings) = (Map::new(), Vec::new());
    let results = match value {
        Value::Array(results) => results,
        Value::Object(mut file) => {
            if let Some(Value::Object(found)) = file.remove("summary") {
                summary = found;
            }
            if let Some(Value::Array(found)) = file.remove("findings") {
                findings = found;
            }
            match file.remove("results") {
                Some(Value::Array(results)) => results,
                // An empty list, as Go serializes it.
                Some(Value::Null) => Vec::new(),
                Some(_) => return Err("its `results` are not a list".to_owned()),
                None => return Err("it has no `results`: this is not a results file".to_owned()),
            }
        }
        _ => return Err("it is neither a list of results nor an object that contains one".to_owned()),
    };
    if let Some(version) = summary.get("version").and_then(Value::as_u64).filter(|v| *v > VERSION) {
        return Err(format!("it has version {version}, but this gevals supports up to {VERSION}: use a newer gevals"));
    }
    let results = results.into_iter().enumerate().map(|(i, result)| match result {
        Value::Object(map) if map.get("taskName").is_some_and(Value::is_string) => Ok(RunResult(map)),
        _ => Err(format!("its result {} has no `taskName`", i + 1)),
    });
    Ok(ResultsFile { results: results.collect::<Result<_, _>>()?, summary, findings })
}

/// Whether a file has a name that `gevals run` gives to results files.
pub fn is_named(name: &str) -> bool {
    name.starts_with("gevals-") && name.ends_with("-out.json")
}

/// Parses the same value as `serde_json`, but the results in parallel; also returns the texts of the results. Returns `None` if
/// the text is not as expected.
fn parallel(text: &str) -> Option<(Value, Vec<&RawValue>)> {
    let items = |raw: &[&RawValue]| -> Option<Value> {
        let items: Result<Vec<Value>, _> = raw.par_iter().map(|item| serde_json::from_str(item.get())).collect();
        Some(Value::Array(items.ok()?))
    };
    if text.starts_with('[') {
        let raw: Vec<&RawValue> = serde_json::from_str(text).ok()?;
        return Some((items(&raw)?, raw));
    }
    let Fields(fields) = serde_json::from_str(text).ok()?;
    let (mut value, mut results) = (Map::new(), Vec::new());
    for (name, field) in fields {
        let read = match field {
            Field::Items(raw) => {
                results = raw;
                items(&results)?
            }
            Field::One(raw) => serde_json::from_str(raw.get()).ok()?,
        };
        value.insert(name, read);
    }
    Some((Value::Object(value), results))
}

/// The fields of a results file, not parsed yet.
struct Fields<'t>(IndexMap<String, Field<'t>>);

enum Field<'t> {
    One(&'t RawValue),
    /// The results.
    Items(Vec<&'t RawValue>),
}

impl<'t> Deserialize<'t> for Fields<'t> {
    fn deserialize<D: Deserializer<'t>>(d: D) -> Result<Self, D::Error> {
        struct Reads;
        impl<'t> Visitor<'t> for Reads {
            type Value = Fields<'t>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a results file")
            }

            fn visit_map<A: MapAccess<'t>>(self, mut map: A) -> Result<Fields<'t>, A::Error> {
                let mut fields = IndexMap::new();
                while let Some(name) = map.next_key::<String>()? {
                    let field = match name.as_str() {
                        "results" => Field::Items(map.next_value()?),
                        _ => Field::One(map.next_value()?),
                    };
                    fields.insert(name, field);
                }
                Ok(Fields(fields))
            }
        }
        d.deserialize_map(Reads)
    }
}

/// The text of a results file: indented by two spaces, with characters escaped that are special in HTML.
pub fn text(file: &Value) -> String {
    nested(file, 0) + "\n"
}

/// The text of a value that is `depth` levels deep in the file.
pub fn nested(value: &Value, depth: usize) -> String {
    let mut text = Vec::new();
    // Writing to memory cannot fail.
    let _ = write(value, depth, &mut text);
    String::from_utf8(text).unwrap_or_default()
}

/// Writes the output of [`nested`] piece by piece.
///
/// # Errors
/// Those of the writer.
pub fn write(value: &Value, depth: usize, out: impl Write) -> io::Result<()> {
    let newline = format!("\n{}", "  ".repeat(depth));
    Ok(serde_json::to_writer_pretty(Safe { out, newline }, value)?)
}

/// Writes a file in the format of [`text`]. Its results are made from `from`, several in parallel, so that few are in memory at a
/// time.
///
/// # Errors
/// Those of the writer and of `result`.
pub fn write_file<T: Sync>(
    summary: &Value,
    from: &[T],
    result: impl Fn(&T) -> io::Result<Value> + Sync,
    findings: &Value,
    out: &mut dyn Write,
) -> io::Result<()> {
    const SIDE_BY_SIDE: usize = 16;
    out.write_all(b"{\n  \"summary\": ")?;
    write(summary, 1, &mut *out)?;
    out.write_all(b",\n  \"results\": [")?;
    let mut before: &[u8] = b"\n    ";
    for some in from.chunks(SIDE_BY_SIDE) {
        let texts: io::Result<Vec<_>> = some.par_iter().map(|one| Ok(nested(&result(one)?, 2))).collect();
        for text in texts? {
            out.write_all(before)?;
            out.write_all(text.as_bytes())?;
            before = b",\n    ";
        }
    }
    let after = if from.is_empty() { "" } else { "\n  " };
    write!(out, "{after}],\n  \"findings\": ")?;
    write(findings, 1, &mut *out)?;
    out.write_all(b"\n}\n")
}

/// The size of the output of [`nested`], in bytes.
pub fn size(value: &Value, depth: usize) -> u64 {
    let mut count = Count(0);
    let _ = write(value, depth, &mut count);
    count.0
}

struct Count(u64);

impl Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Indents JSON, and escapes characters in it that are special in HTML.
struct Safe<W> {
    out: W,
    newline: String,
}

impl<W: Write> Write for Safe<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut plain = 0;
        for (at, byte) in bytes.iter().enumerate() {
            let instead = match byte {
                b'<' => "\\u003c",
                b'>' => "\\u003e",
                b'&' => "\\u0026",
                // In JSON, a newline occurs only between values.
                b'\n' => &self.newline,
                _ => continue,
            };
            self.out.write_all(&bytes[plain..at])?;
            self.out.write_all(instead.as_bytes())?;
            plain = at + 1;
        }
        self.out.write_all(&bytes[plain..])?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl ResultsFile {
    /// The results whose task name contains this text, ignoring case (§8.4); all if it is `None`.
    pub fn only(&self, task: Option<&str>) -> Vec<&RunResult> {
        let wanted = task.map(str::to_lowercase).unwrap_or_default();
        self.results.iter().filter(|r| r.name().to_lowercase().contains(&wanted)).collect()
    }

    /// If this is the result of a unit: its id, and the digest of its pack.
    pub fn unit(&self) -> Option<(&str, &str)> {
        let unit = self.summary.get("unit")?;
        Some((unit.get("id")?.as_str()?, unit.get("pack")?.as_str()?))
    }

    /// Why it does not contain a verdict for every run of every selected task; empty if it does, as far as the file says what was
    /// selected.
    pub fn gaps(&self) -> Vec<String> {
        let mut gaps = Vec::new();
        let cut_short = self.summary.contains_key("cancelled");
        match (self.summary.get("cancelled"), self.summary.get("complete")) {
            (Some(reason), _) => {
                gaps.push(format!("the run was interrupted: {}", harmless(reason.as_str().unwrap_or_default())));
            }
            (_, Some(complete)) if *complete != Value::Bool(true) => {
                gaps.push("the file is marked as incomplete".to_owned());
            }
            _ => {}
        }
        let mut runs: IndexMap<&str, Vec<&RunResult>> = IndexMap::new();
        // A shard names the tasks of all shards, and a unit those of all units.
        if self.summary.get("shard").is_none() && self.unit().is_none() {
            runs.extend(self.names().into_iter().map(|name| (name, Vec::new())));
        }
        for result in &self.results {
            runs.entry(result.name()).or_default().push(result);
        }
        // A shard may have nothing to do.
        if runs.is_empty()
            && !(self.summary.contains_key("shard") && self.summary.get("complete") == Some(&Value::Bool(true)))
        {
            gaps.push("it has no results".to_owned());
        }
        for (name, results) in runs {
            let Some(all) = results.iter().map(|result| result.run().1).max() else {
                gaps.push(format!("`{}` has no result", harmless(name)));
                continue;
            };
            let all = self.decided(name).map_or(all, |(_, runs)| runs);
            let name = harmless(name);
            let seen: BTreeSet<u64> = results.iter().map(|result| result.run().0).collect();
            let missing: Vec<_> =
                (1..=all.min(MOST_RUNS)).filter(|run| !seen.contains(run)).map(|run| run.to_string()).collect();
            if !missing.is_empty() && self.unit().is_none() {
                gaps.push(format!("`{name}` has no run {} of {all}", missing.join(", ")));
            }
            gaps.extend(
                results
                    .iter()
                    .filter(|result| !cut_short && result.outcome() == Some("cancelled"))
                    .map(|result| format!("`{}` was cancelled", harmless(&result.title()))),
            );
        }
        gaps
    }

    /// The tasks of which too few runs passed: all runs must pass, unless the run or the task has a gate.
    pub fn missed(&self) -> Vec<&str> {
        let mut tasks: IndexMap<&str, (u64, u64)> = IndexMap::new();
        let undecided = |result: &&RunResult| self.decided(result.name()).is_none();
        for result in self.results.iter().filter(undecided) {
            let gate = [result.0.get("gate"), self.summary.get("gate")].into_iter().flatten().next();
            let needed = gate.and_then(|gate| gate.get("passes")?.as_u64()).unwrap_or(result.run().1).max(1);
            let task = tasks.entry(result.name()).or_default();
            *task = (task.0 + u64::from(result.passed()), task.1.max(needed));
        }
        let names = self.summary.get("decided").and_then(Value::as_object).into_iter().flat_map(Map::keys);
        let lost = names.map(String::as_str).filter(|name| self.decided(name).is_some_and(|(met, _)| !met));
        tasks.into_iter().filter(|(_, (passed, needed))| passed < needed).map(|(name, _)| name).chain(lost).collect()
    }

    /// For a task that was run until its gate was decided: whether the gate was met, and after how many runs.
    fn decided(&self, task: &str) -> Option<(bool, u64)> {
        let decided = self.summary.get("decided")?.get(task)?;
        Some((decided.get("met")?.as_bool()?, decided.get("runs")?.as_u64()?))
    }

    /// The names of the selected tasks, if the file contains them.
    fn names(&self) -> Vec<&str> {
        let names = self.summary.get("evals").and_then(|evals| evals.get("names")?.as_array());
        names.into_iter().flatten().filter_map(Value::as_str).collect()
    }

    /// The agent with its model: `claude-code (opus)`. Older formats do not contain it.
    fn agent(&self) -> Option<String> {
        let agent = self.summary.get("agent")?;
        let text = |key: &str| agent.get(key).and_then(Value::as_str).map(harmless);
        let name = text("name").or_else(|| text("type"))?;
        Some(text("model").map_or_else(|| format!("`{name}`"), |model| format!("`{name}` ({model})")))
    }

    /// The name of the eval; older formats do not contain it.
    pub fn eval(&self) -> &str {
        self.summary.get("eval").and_then(Value::as_str).unwrap_or_default()
    }
}

/// Groups runs by the name of their task, in the order of the file.
fn by_task<'a>(results: impl IntoIterator<Item = &'a RunResult>) -> IndexMap<&'a str, Vec<&'a RunResult>> {
    let mut tasks: IndexMap<&str, Vec<&RunResult>> = IndexMap::new();
    for result in results {
        tasks.entry(result.name()).or_default().push(result);
    }
    tasks
}

/// One kind of assertion in one result.
#[derive(Clone, PartialEq, Debug)]
pub struct Asserted<'a> {
    pub kind: &'a str,
    pub passed: bool,
    pub reason: &'a str,
}

/// A step or an assertion that did not pass.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Failed<'a> {
    pub id: &'a str,
    pub message: &'a str,
    /// What the step does.
    pub meaning: &'a str,
    /// The file and line of the step.
    pub place: &'a str,
    /// The answer to the step, or its printed output.
    pub answer: &'a str,
    pub differences: Vec<Differs<'a>>,
    /// The values of its holes and variables.
    pub filled: Vec<(&'a str, &'a str)>,
    /// For a step that was retried: how long and how often.
    pub waited: String,
}

/// What was expected and what was found.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Differs<'a> {
    pub subject: &'a str,
    pub expected: &'a str,
    pub actual: &'a str,
    /// The file and line of the expectation.
    pub place: &'a str,
}

impl<'a> Failed<'a> {
    /// Formats the values: `$V = b, env.TITLE = Bread`.
    pub fn filled(&self) -> String {
        let each = self.filled.iter().map(|(name, value)| format!("{name} = {}", value.replace('\n', " ")));
        each.collect::<Vec<_>>().join(", ")
    }

    /// Collects the steps that failed inside this step, or the step itself if there are none.
    fn of(step: &'a Value, depth: usize, out: &mut Vec<Self>) {
        let outcome = step.pointer("/report/outcome").and_then(Value::as_str);
        let good = step.get("success").and_then(Value::as_bool) == Some(true);
        if good || matches!(outcome, Some("skipped" | "cancelled" | "passed")) {
            return;
        }
        let before = out.len();
        if depth < 16 {
            let inner = step.get("steps").and_then(Value::as_array).into_iter().flatten();
            inner.for_each(|inner| Self::of(inner, depth + 1, out));
        }
        if out.len() > before {
            if let Some(waited) = waited(step) {
                for inner in out.iter_mut().skip(before).filter(|inner| inner.waited.is_empty()) {
                    inner.waited.clone_from(&waited);
                }
            }
            return;
        }
        let text = |value: &'a Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
        let report = step.get("report").unwrap_or(&Value::Null);
        let first = |all: [&'a str; 3]| all.into_iter().find(|text| !text.trim().is_empty()).unwrap_or_default();
        let filled = report.get("filled").and_then(Value::as_object).into_iter().flatten();
        out.push(Self {
            id: first([text(step, "id"), text(step, "type"), ""]),
            message: first([text(step, "message"), text(step, "error"), "it did not pass"]),
            meaning: text(step, "meaning"),
            place: text(step, "place"),
            answer: first([text(report, "answer"), text(report, "stderr"), text(report, "stdout")]),
            differences: Differs::of(report),
            filled: filled.filter_map(|(name, value)| Some((name.as_str(), value.as_str()?))).collect(),
            waited: String::new(),
        });
    }
}

impl<'a> Differs<'a> {
    /// The differences in a report or in the result of an assertion.
    fn of(report: &'a Value) -> Vec<Self> {
        let differences = report.get("differences").and_then(Value::as_array).into_iter().flatten();
        let one = |d: &'a Value| {
            let text = |key: &str| d.get(key).and_then(Value::as_str).unwrap_or_default();
            Self { subject: text("subject"), expected: text("expected"), actual: text("actual"), place: text("place") }
        };
        differences.map(one).collect()
    }
}

/// Returns `not within 10s, 4 rounds` for a step that waits: its message starts with it.
fn waited(step: &Value) -> Option<String> {
    let message = step.get("message").and_then(Value::as_str)?;
    let (said, _) = message.split_once("; ")?;
    said.starts_with(NOT_WITHIN).then(|| said.to_owned())
}

impl RunResult {
    /// The steps and assertions that did not pass, without cleanup; for a step with nested steps, those that failed inside it.
    pub fn failed(&self) -> Vec<Failed<'_>> {
        let mut out = Vec::new();
        for phase in ["setupOutput", "agentOutput", "verifyOutput"] {
            let steps = self.0.get(phase).and_then(|phase| phase.get("Steps")?.as_array());
            steps.into_iter().flatten().for_each(|step| Failed::of(step, 0, &mut out));
        }
        // A step that waits fails repeatedly at the same nested step: only the last attempt is kept.
        let mut last: IndexMap<String, Failed<'_>> = IndexMap::new();
        for step in out.drain(..) {
            let attempted = step.id.split('/').map(|part| part.split('#').next().unwrap_or_default());
            last.insert(attempted.collect::<Vec<_>>().join("/"), step);
        }
        out.extend(last.into_values());
        let asserted = self.0.get("assertionResults").and_then(Value::as_object).into_iter().flatten();
        for (kind, result) in asserted.filter(|(_, result)| result.get("passed") == Some(&Value::Bool(false))) {
            let text = |key: &str| result.get(key).and_then(Value::as_str).unwrap_or_default();
            let (message, place) = (text("reason"), text("place"));
            let message = if message.is_empty() { "it does not hold" } else { message };
            out.push(Failed { id: kind, message, place, differences: Differs::of(result), ..Failed::default() });
        }
        // If only the step around everything failed, it explains the failure itself.
        if self.passed() { Vec::new() } else { out }
    }

    /// The cleanup steps that did not pass.
    pub fn failed_cleanup(&self) -> Vec<Failed<'_>> {
        let mut out = Vec::new();
        let steps = self.0.get("cleanupOutput").and_then(|phase| phase.get("Steps")?.as_array());
        steps.into_iter().flatten().for_each(|step| Failed::of(step, 0, &mut out));
        out
    }

    /// The tags of the task.
    pub fn tags(&self) -> impl Iterator<Item = &str> {
        let tags = self.0.get("tags").and_then(Value::as_array).into_iter().flatten();
        tags.filter_map(Value::as_str)
    }

    fn text(&self, key: &str) -> &str {
        self.0.get(key).and_then(Value::as_str).unwrap_or_default()
    }

    fn flag(&self, key: &str) -> bool {
        self.0.get(key).and_then(Value::as_bool).unwrap_or_default()
    }

    fn number(&self, pointer: &[&str]) -> Option<u64> {
        let (first, rest) = pointer.split_first()?;
        rest.iter().try_fold(self.0.get(*first)?, |value, key| value.get(key))?.as_u64()
    }

    /// The task's name.
    pub fn name(&self) -> &str {
        self.text("taskName")
    }

    /// The task's file, as the run has written it.
    pub fn path(&self) -> &str {
        self.text("taskPath")
    }

    /// The task's difficulty; empty if it has none.
    pub fn difficulty(&self) -> &str {
        self.text("difficulty")
    }

    /// The agent's output.
    pub fn output(&self) -> &str {
        self.text("taskOutput")
    }

    /// Whether verification passed, not counting assertions.
    pub fn task_passed(&self) -> bool {
        self.flag("taskPassed")
    }

    /// Whether every assertion passed; also true if there are none.
    pub fn assertions_passed(&self) -> bool {
        self.flag("allAssertionsPassed")
    }

    /// Whether the run of the task passed: its `outcome` is `passed`, and the two older keys do not contradict it. Files of other
    /// tools have only the older keys.
    pub fn passed(&self) -> bool {
        let outcome = self.0.get("outcome").is_none_or(|outcome| *outcome == "passed");
        outcome && self.task_passed() && self.assertions_passed()
    }

    /// Whether it passed or failed; other outcomes are not evidence of a rate.
    pub fn is_evidence(&self) -> bool {
        matches!(self.outcome(), None | Some("passed" | "failed"))
    }

    /// Whether it counts as passed in the share of tasks. Other tools count the result of verification, not counting assertions.
    fn counts_as_passed(&self) -> bool {
        if self.0.contains_key("outcome") { self.passed() } else { self.task_passed() }
    }

    /// Whether the task timed out.
    pub fn timed_out(&self) -> bool {
        self.flag("timedOut")
    }

    /// Whether the agent could not complete its turn.
    pub fn agent_failed(&self) -> bool {
        self.flag("agentExecutionError")
    }

    /// Whether a cleanup step did not pass.
    pub fn cleanup_failed(&self) -> bool {
        self.flag("cleanupFailed")
    }

    /// How it ended, in gevals' own terms; upstream has no equivalent.
    pub fn outcome(&self) -> Option<&str> {
        self.0.get("outcome").and_then(Value::as_str)
    }

    /// Which run this is, out of how many; both counted from 1.
    pub fn run(&self) -> (u64, u64) {
        (self.number(&["runIndex"]).unwrap_or(0) + 1, self.number(&["totalRuns"]).unwrap_or(1).max(1))
    }

    /// The name, with the run if there are several.
    pub fn title(&self) -> String {
        match self.run() {
            (_, 1) => self.name().to_owned(),
            (run, all) => format!("{} (run {run}/{all})", self.name()),
        }
    }

    /// The digest of the plan; empty in files of other tools.
    pub fn plan_digest(&self) -> &str {
        self.text("planDigest")
    }

    /// How long the task took, in seconds; `None` if the file does not contain it.
    pub fn seconds(&self) -> Option<f64> {
        self.0.get("durationSeconds").and_then(Value::as_f64).filter(|s| s.is_finite() && *s >= 0.0)
    }

    /// The assertions by kind, in the order of the file.
    pub fn assertions(&self) -> impl Iterator<Item = Asserted<'_>> {
        let kinds = self.0.get("assertionResults").and_then(Value::as_object).into_iter().flatten();
        kinds.filter(|(_, result)| result.is_object()).map(|(kind, result)| Asserted {
            kind,
            passed: result.get("passed").and_then(Value::as_bool).unwrap_or_default(),
            reason: result.get("reason").and_then(Value::as_str).unwrap_or_default(),
        })
    }

    /// How many assertions passed, and how many there are.
    pub fn assertion_counts(&self) -> (usize, usize) {
        (self.assertions().filter(|a| a.passed).count(), self.assertions().count())
    }

    /// Returns `KIND` or `KIND: REASON` for each assertion that failed.
    pub fn failed_assertions(&self) -> Vec<String> {
        let failed = self.assertions().filter(|a| !a.passed);
        failed
            .map(|a| if a.reason.is_empty() { a.kind.to_owned() } else { format!("{}: {}", a.kind, a.reason) })
            .collect()
    }

    /// Why it did not pass, in one line; empty if it passed.
    pub fn why(&self) -> String {
        let first = |text: &str| text.lines().next().unwrap_or_default().to_owned();
        match (self.task_passed(), self.passed()) {
            (_, true) => String::new(),
            (false, _) if self.text("taskError").is_empty() && self.agent_failed() => "the agent failed".to_owned(),
            (false, _) if self.text("taskError").is_empty() => "the task failed".to_owned(),
            (false, _) => first(self.text("taskError")),
            (true, _) => match self.failed_assertions().as_slice() {
                [] if !self.text("reason").is_empty() => first(self.text("reason")),
                [] if self.assertions_passed() => format!("its outcome is `{}`", self.outcome().unwrap_or_default()),
                [] => "assertions failed".to_owned(),
                failed => first(&failed.join("; ")),
            },
        }
    }

    /// The error of the task; empty if it passed.
    pub fn error(&self) -> &str {
        self.text("taskError")
    }

    /// The reason given by the first judge.
    pub fn judge_reason(&self) -> Option<&str> {
        self.0.get("taskJudgeReason").and_then(Value::as_str).filter(|reason| !reason.is_empty())
    }

    /// The kinds and texts of the remarks.
    pub fn remarks(&self) -> impl Iterator<Item = (&str, &str)> {
        let remarks = self.0.get("remarks").and_then(Value::as_array).into_iter().flatten();
        remarks.filter_map(|remark| Some((remark.get("kind")?.as_str()?, remark.get("message")?.as_str()?)))
    }

    /// The tokens used by the agent and by the judge.
    pub fn tokens(&self) -> Tokens {
        let any = |keys: &[&str]| self.number(keys);
        Tokens {
            estimated: any(&["tokenEstimate", "totalTokens"]),
            guessed: any(&["tokenEstimate", "totalTokens"]).is_some()
                && self.0.get("tokenEstimate").is_some_and(|t| t["source"] != "actual"),
            cost: self.0.get("tokenEstimate").and_then(|t| t.get("cost")?.as_f64()),
            schema: any(&["tokenEstimate", "mcpSchemaTokens"]),
            agent_input: any(&["tokenEstimate", "actual", "inputTokens"]),
            agent_output: any(&["tokenEstimate", "actual", "outputTokens"]),
            judge_input: any(&["judgeTokenUsage", "inputTokens"]),
            judge_output: any(&["judgeTokenUsage", "outputTokens"]),
            judge_guessed: self.0.get("judgeTokensEstimated") == Some(&Value::Bool(true)),
            error: self.0.get("tokenEstimate").and_then(|t| t.get("error")?.as_str()).unwrap_or_default().to_owned(),
        }
    }
}

/// What a run used, as far as it was counted.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Tokens {
    pub estimated: Option<u64>,
    /// Whether some of these tokens were estimated instead of reported.
    pub guessed: bool,
    /// According to the prices of the run.
    pub cost: Option<f64>,
    /// For the descriptions of tools.
    pub schema: Option<u64>,
    pub agent_input: Option<u64>,
    pub agent_output: Option<u64>,
    pub judge_input: Option<u64>,
    pub judge_output: Option<u64>,
    pub judge_guessed: bool,
    /// Why there is no estimate.
    pub error: String,
}

impl Tokens {
    /// The number of tokens, and whether it is an estimate.
    fn total(&self) -> Option<String> {
        let total = self.estimated?;
        Some(if self.guessed { format!("~{total} estimated") } else { total.to_string() })
    }

    fn add(&mut self, other: &Self) {
        let sum = |a: &mut Option<u64>, b: Option<u64>| {
            if let Some(b) = b {
                *a = Some(a.unwrap_or(0).saturating_add(b));
            }
        };
        sum(&mut self.estimated, other.estimated);
        self.guessed |= other.guessed;
        self.judge_guessed |= other.judge_guessed;
        if let Some(cost) = other.cost {
            *self.cost.get_or_insert_default() += cost;
        }
        sum(&mut self.schema, other.schema);
        sum(&mut self.agent_input, other.agent_input);
        sum(&mut self.agent_output, other.agent_output);
        sum(&mut self.judge_input, other.judge_input);
        sum(&mut self.judge_output, other.judge_output);
        if self.error.is_empty() {
            self.error.clone_from(&other.error);
        }
    }
}

/// The counts that all result commands share (§8.4): every run counts as a task, and an assertion is one kind in one result.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Statistics {
    pub tasks: usize,
    /// The runs that passed or failed: runs that were broken or never ran are not evidence of a rate.
    pub judged: usize,
    /// By outcome; in a file without outcomes, by verification, not counting assertions.
    pub tasks_passed: usize,
    pub assertions: usize,
    pub assertions_passed: usize,
    /// The runs whose task and assertions passed.
    pub passed: usize,
    pub cleanups_failed: usize,
    pub tokens: Tokens,
}

impl Statistics {
    /// Counts tasks and assertions.
    pub fn of<'a>(results: impl IntoIterator<Item = &'a RunResult>) -> Self {
        let mut out = Self::default();
        for result in results {
            let (passed, all) = result.assertion_counts();
            out.tasks += 1;
            out.judged += usize::from(result.is_evidence());
            out.tasks_passed += usize::from(result.counts_as_passed());
            out.assertions += all;
            out.assertions_passed += passed;
            out.passed += usize::from(result.passed());
            out.cleanups_failed += usize::from(result.cleanup_failed());
            out.tokens.add(&result.tokens());
        }
        out
    }

    /// The share of tasks that passed, from 0 to 1; 0 if there are none.
    pub fn task_rate(&self) -> f64 {
        rate(self.tasks_passed, self.tasks)
    }

    /// The share of assertions that passed, from 0 to 1; 0 if there are none.
    pub fn assertion_rate(&self) -> f64 {
        rate(self.assertions_passed, self.assertions)
    }
}

/// The confidence interval of the pass rate of a task, given how many of its runs passed.
pub fn interval(passed: usize, runs: usize) -> Interval {
    let few = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    statistics::wilson(few(passed), few(runs), statistics::CONFIDENCE)
}

/// Whether the runs show that a task neither passes nor fails as a rule: with 95 % confidence, its pass rate is above 5 % and
/// below 95 %. Runs that could not be carried out are not evidence.
pub fn is_flaky(passed: usize, failed: usize) -> bool {
    let Interval { low, high } = interval(passed, passed + failed);
    low > RARELY && high < 1.0 - RARELY
}

/// Formats the interval: `23–89 %`, or `23–89 % of 5 judged` if not all runs are evidence; `None` if no run is.
pub fn bounds(passed: usize, judged: usize, runs: usize) -> Option<String> {
    let interval = interval(passed, judged);
    match judged {
        0 => None,
        _ if judged == runs => Some(interval.to_string()),
        _ => Some(format!("{interval} of {judged} judged")),
    }
}

/// Returns ` (23–89 %)`; empty if no run is evidence.
pub fn between(passed: usize, judged: usize, runs: usize) -> String {
    bounds(passed, judged, runs).map_or_else(String::new, |bounds| format!(" ({bounds})"))
}

/// Returns `, with 95 % confidence 23–89 %`; empty if no run is evidence.
pub fn sure(passed: usize, judged: usize, runs: usize) -> String {
    let interval = interval(passed, judged);
    match judged {
        0 => String::new(),
        _ if judged == runs => format!(", with 95 % confidence {interval}"),
        _ => format!("; of the {judged} that were judged, with 95 % confidence {interval}"),
    }
}

/// What it says about a task that it passed all of its runs.
pub fn worth(runs: usize) -> String {
    let low = (interval(runs, runs).low * 100.0).floor();
    let more = if runs == 1 { "; `-n` runs tasks more often" } else { "" };
    format!("a pass is {runs} of {runs}: with 95 % confidence the task passes at least {low} % of the time{more}")
}

/// A fraction; 0 if `all` is 0.
fn rate(part: usize, all: usize) -> f64 {
    if all == 0 { 0.0 } else { part as f64 / all as f64 }
}

/// Formats a rate as `75.00%`.
fn percent(rate: f64) -> String {
    format!("{:.2}%", rate * 100.0)
}

/// Replaces control characters, which could affect the terminal.
fn harmless(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\t' && c != '\n' { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn both_forms_are_read_and_others_are_rejected() {
        let one = r#"{"taskName": "a", "taskPassed": true, "allAssertionsPassed": true}"#;
        for text in [format!("[{one}]"), format!(" \n[{one}]\n"), format!(r#"{{"results": [{one}]}}"#)] {
            let file = read(&text).unwrap();
            assert_eq!((file.results.len(), file.results[0].passed()), (1, true));
        }
        assert!(read(r#"{"results": []}"#).unwrap().results.is_empty());
        assert!(read(r#"{"summary": {}, "results": null}"#).unwrap().results.is_empty());
        assert!(read("[]").unwrap().results.is_empty());
        for bad in ["", " \n", "{}", "5", "{", r#"{"results": 5}"#, "[5]", "[{}]", r#"[{"taskName": 5}]"#] {
            assert!(read(bad).is_err(), "{bad}");
        }
        assert!(read(r#"{"summary": {"version": 2}, "results": []}"#).unwrap_err().contains("newer"));
    }

    #[test]
    fn json_is_written_for_html_at_its_depth_and_its_size_is_known() {
        let value = serde_json::json!({"a": "<b> & c", "d": [1]});
        let text = nested(&value, 1);
        assert_eq!(text, "{\n    \"a\": \"\\u003cb\\u003e \\u0026 c\",\n    \"d\": [\n      1\n    ]\n  }");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        assert_eq!(size(&value, 1), text.len() as u64);
        assert_eq!(size(&Value::Null, 0), 4);
        let mut out = std::io::BufWriter::new(Vec::new());
        Safe { out: &mut out, newline: String::new() }.write_all(b"x").unwrap();
        assert!(out.get_ref().is_empty());
        Safe { out: &mut out, newline: String::new() }.flush().unwrap();
        assert_eq!(out.get_ref(), b"x");
    }

    #[test]
    fn missing_and_mistyped_fields_are_not_errors() {
        let file = read(
            r#"[{"taskName": "a", "taskPassed": "yes", "assertionResults": {"x": 5, "y": {}}, "tokenEstimate": [1]}]"#,
        )
        .unwrap();
        let result = &file.results[0];
        assert!(!result.passed());
        assert_eq!(result.assertion_counts(), (0, 1));
        assert_eq!(result.why(), "the task failed");
        assert_eq!(result.tokens(), Tokens::default());
    }

    fn one(text: &str) -> RunResult {
        read(&format!("[{text}]")).unwrap().results.remove(0)
    }

    #[test]
    fn the_first_reported_reason_of_a_failure_is_used() {
        let cases = [
            (r#""taskPassed": true, "allAssertionsPassed": true"#, ""),
            (r#""taskPassed": false, "taskError": "boom\nmore""#, "boom"),
            (r#""taskPassed": false, "taskError": "boom", "agentExecutionError": true"#, "boom"),
            (r#""taskPassed": false, "agentExecutionError": true"#, "the agent failed"),
            (r#""taskPassed": false"#, "the task failed"),
            (r#""taskPassed": true, "allAssertionsPassed": false"#, "assertions failed"),
            (r#""taskPassed": true, "allAssertionsPassed": false, "reason": "its budget\n is used""#, "its budget"),
            (r#""taskPassed": true, "allAssertionsPassed": true, "outcome": "broken""#, "its outcome is `broken`"),
            (
                r#""taskPassed": true, "allAssertionsPassed": true, "outcome": "broken", "reason": "no server""#,
                "no server",
            ),
            (
                r#""taskPassed": true, "assertionResults": {"a": {"passed": false, "reason": "r"}, "b": {"passed": false}}"#,
                "a: r; b",
            ),
        ];
        for (text, why) in cases {
            assert_eq!(one(&format!(r#"{{"taskName": "t", {text}}}"#)).why(), why, "{text}");
        }
    }

    #[test]
    fn fields_of_a_result_are_read() {
        let result =
            one(r#"{"taskName": "t", "difficulty": "easy", "durationSeconds": 2.5, "taskJudgeReason": "it is right"}"#);
        assert_eq!(
            (result.difficulty(), result.seconds(), result.judge_reason()),
            ("easy", Some(2.5), Some("it is right"))
        );
        let result = one(r#"{"taskName": "t", "durationSeconds": 0, "taskJudgeReason": ""}"#);
        assert_eq!((result.difficulty(), result.seconds(), result.judge_reason()), ("", Some(0.0), None));
        for wrong in ["-1", "\"2\"", "null", "1e999"] {
            let result = one(&format!(r#"{{"taskName": "t", "durationSeconds": {wrong}}}"#));
            assert_eq!(result.seconds(), None, "{wrong}");
        }
    }

    #[test]
    fn the_innermost_failed_step_and_its_last_attempt_are_found() {
        let step = |id: &str, outcome: &str, inner: &str| {
            format!(
                r#"{{"id": "{id}", "success": {}, "message": "m {id}", "report": {{"outcome": "{outcome}"}}, "steps": [{inner}]}}"#,
                outcome == "passed"
            )
        };
        let attempts = [step("verify/w#1/0", "failed", ""), step("verify/w#2/0", "failed", "")].join(",");
        let steps = [
            step("verify/a", "passed", &step("verify/a/0", "failed", "")),
            step("verify/w", "failed", &attempts),
            step("verify/s", "skipped", ""),
            step("verify/b", "broken", ""),
        ];
        let result = one(&format!(
            r#"{{"taskName": "t", "taskPassed": false, "outcome": "failed", "verifyOutput": {{"Steps": [{}]}},
               "assertionResults": {{"x": {{"passed": false, "reason": "r", "place": "e.yaml:3"}}, "y": {{"passed": true}}}}}}"#,
            steps.join(",")
        ));
        let found: Vec<_> = result.failed().iter().map(|f| (f.id.to_owned(), f.message.to_owned())).collect();
        let expected = [("verify/w#2/0", "m verify/w#2/0"), ("verify/b", "m verify/b"), ("x", "r")];
        assert_eq!(found, expected.map(|(id, message)| (id.to_owned(), message.to_owned())));
        assert_eq!(result.failed()[2].place, "e.yaml:3");
    }

    #[test]
    fn a_sum_with_an_estimate_is_an_estimate() {
        let tokens = |guessed| Tokens { estimated: Some(1), guessed, judge_guessed: guessed, ..Tokens::default() };
        for (one, other) in [(true, false), (false, true), (false, false)] {
            let mut sum = tokens(one);
            sum.add(&tokens(other));
            assert_eq!((sum.estimated, sum.guessed, sum.judge_guessed), (Some(2), one || other, one || other));
        }
    }

    #[test]
    fn terminal_control_characters_are_replaced_and_line_breaks_kept() {
        assert_eq!(harmless("a\tb\nc\u{1b}[2J\r\u{9b}"), "a\tb\nc\u{fffd}[2J\u{fffd}\u{fffd}");
    }

    /// A shard without results is complete if it says so; any other file without results has a gap.
    #[test]
    fn a_file_without_results_has_a_gap_unless_it_is_a_complete_shard() {
        for (summary, whole) in [
            (r#"{"shard": {"index": 2, "of": 2}, "complete": true}"#, true),
            (r#"{"shard": {"index": 2, "of": 2}, "complete": false}"#, false),
            (r#"{"shard": {"index": 2, "of": 2}}"#, false),
            (r#"{"complete": true}"#, false),
            (r#"{}"#, false),
        ] {
            let gaps = read(&format!(r#"{{"summary": {summary}, "results": []}}"#)).unwrap().gaps();
            assert_eq!(gaps.is_empty(), whole, "{summary}: {gaps:?}");
            assert_eq!(gaps.contains(&"it has no results".to_owned()), !whole, "{summary}: {gaps:?}");
        }
        let told = read(r#"{"summary": {"complete": false}, "results": [{"taskName": "a"}]}"#).unwrap().gaps();
        assert_eq!(told, ["the file is marked as incomplete"]);
        let told = read(r#"{"summary": {"complete": true}, "results": [{"taskName": "a"}]}"#).unwrap().gaps();
        assert!(told.is_empty(), "{told:?}");
    }

    fn json() -> impl Strategy<Value = Value> {
        let keys = [
            "taskName",
            "taskPath",
            "taskPassed",
            "taskOutput",
            "taskError",
            "assertionResults",
            "allAssertionsPassed",
            "callHistory",
            "ToolCalls",
            "tokenEstimate",
            "totalTokens",
            "runIndex",
            "totalRuns",
            "durationSeconds",
            "Steps",
            "verifyOutput",
            "results",
            "summary",
            "evals",
            "names",
            "shard",
            "unit",
            "index",
            "of",
            "passed",
            "type",
            "outcome",
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".{0,12}".prop_map(Value::from),
            Just(Value::from("{\"type\":\"item.completed\",\"item\":5}\nexec\n\nx")),
        ];
        leaf.prop_recursive(4, 64, 6, move |inner| {
            let entry = (prop::sample::select(keys.to_vec()), inner.clone());
            prop_oneof![
                prop::collection::vec(inner, 0..4).prop_map(Value::from),
                prop::collection::vec(entry, 0..6)
                    .prop_map(|pairs| Value::Object(pairs.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_readable_results_can_be_shown(mut results in prop::collection::vec(json(), 0..4), summary in json()) {
            for (i, result) in results.iter_mut().enumerate() {
                if let Value::Object(map) = result {
                    map.insert("taskName".to_owned(), Value::from(format!("t{}", i % 2)));
                } else {
                    *result = serde_json::json!({ "taskName": "t", "assertionResults": result.clone() });
                }
            }
            let text = serde_json::json!({ "summary": summary, "results": results }).to_string();
            if let Ok(file) = read(&text) {
                for result in file.only(None) {
                    view::view(result, None, view::Limits::default());
                }
                summary::text(&file, None);
                summary::json(&file, "x", None);
                summary::github(&file, "x", None);
                summary::verify(&file, Some(0.5), Some(0.5));
                summary::verify(&file, None, None);
                let diff = diff::diff(&file, &file, 0.05);
                prop_assert!(diff.regressions.is_empty() && diff.losses.is_empty() && diff.gains.is_empty());
                diff.text();
                diff.markdown();
                junit::junit(&file, &file.only(None));
                github::step_summary(&file);
                drop(merge::merge(&[("a".to_owned(), file.clone()), ("b".to_owned(), file)]));
            }
        }
    }

    #[test]
    fn tasks_are_flaky_only_with_evidence() {
        for (passed, failed, flaky) in [
            (0, 5, false),
            (5, 0, false),
            (1, 1, true),
            (2, 1, true),
            (1, 2, true),
            (3, 1, false),
            (3, 2, true),
            (4, 1, false),
            (8, 2, true),
            (9, 1, false),
            (19, 1, false),
            (17, 3, true),
            (0, 0, false),
        ] {
            assert_eq!(
                is_flaky(passed, failed),
                flaky,
                "{passed} passed, {failed} failed: {}",
                interval(passed, passed + failed)
            );
        }
    }

    #[test]
    fn rates_without_results_are_zero() {
        let none = Statistics::of([]);
        assert!(none.task_rate() == 0.0 && none.assertion_rate() == 0.0);
    }
}
