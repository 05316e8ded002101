//! `gevals result merge`: combines the results of shards into those of one run. Duplicate and missing results are
//! reported.
//!
//! Property: *merging all shards of a run gives the results of that run, except for order and times.*

use std::{collections::HashMap, ops::Range};

use indexmap::{IndexMap, IndexSet};
use serde_json::{Map, Value, json};

use super::{ResultsFile, RunResult};
use crate::event::Limited;

/// The outcome of a merge.
#[derive(Clone, PartialEq, Debug)]
pub struct Merged {
    pub file: Value,
    /// Shards and results that are missing or duplicated.
    pub faults: Vec<String>,
    /// Those of the faults for which it is not known which of two results is that of the run.
    pub ambiguous: Vec<String>,
}

/// What a pack specifies for one run of its eval, with one agent and one model.
#[derive(Clone, Debug)]
pub struct Expected {
    /// The digest of the pack.
    pub pack: String,
    /// The digest of the eval's plan.
    pub plan: String,
    pub units: Vec<ExpectedUnit>,
}

/// A result that must exist.
#[derive(Clone, Debug)]
pub struct ExpectedUnit {
    pub id: String,
    pub task: String,
    pub path: String,
    /// Counted from 1.
    pub run: u64,
}

/// Combines the results of a pack's units from files, one of which is in memory at a time.
#[derive(Debug)]
pub struct Units<'e> {
    parts: Vec<Part<'e>>,
    /// The paths of the files.
    paths: Vec<String>,
    /// Files that do not belong to any run of the pack.
    foreign: Vec<String>,
}

/// The results of one run of the pack's eval.
#[derive(Debug)]
struct Part<'e> {
    expected: &'e Expected,
    /// Maps task, path and run to an index in `found`.
    units: HashMap<(&'e str, &'e str, u64), usize>,
    /// The results found for each unit, in the order of the pack.
    found: Vec<Vec<Found>>,
    foreign: Vec<String>,
    alike: Alike,
    summary: Summary,
    /// As text, each only once.
    findings: IndexSet<String>,
}

#[derive(Debug)]
struct Found {
    at: At,
    cut_short: bool,
}

/// The location of a result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct At {
    /// The index of the file, in the order in which the files were added.
    pub file: usize,
    /// The byte range in the file.
    pub bytes: Range<usize>,
}

/// One run of the pack's eval, combined, but without the results themselves.
#[derive(Debug)]
pub struct Together {
    pub summary: Value,
    /// In the order of the pack.
    pub results: Vec<At>,
    pub findings: Value,
    /// Units that are missing, duplicated or were cut short, and foreign results.
    pub faults: Vec<String>,
}

impl<'e> Units<'e> {
    /// Expects these runs, all of one pack.
    pub fn new(all: &'e [Expected]) -> Self {
        Self { parts: all.iter().map(Part::new).collect(), paths: Vec::new(), foreign: Vec::new() }
    }

    /// Adds a file; `places` are the byte ranges of its results.
    ///
    /// # Errors
    /// The file does not belong to the same run as those before it.
    pub fn add(&mut self, path: &str, file: &ResultsFile, places: &[Range<usize>]) -> Result<(), String> {
        if places.len() != file.results.len() {
            return Err(format!("`{path}` has {} results, of which {} were found", file.results.len(), places.len()));
        }
        let nth = self.paths.len();
        self.paths.push(path.to_owned());
        let plan = file.summary.get("planDigest").and_then(Value::as_str);
        let pack = self.parts.first().map_or("", |part| &part.expected.pack);
        let other = file.unit().is_some_and(|(_, of)| of != pack);
        let part = self.parts.iter_mut().find(|part| Some(part.expected.plan.as_str()) == plan).filter(|_| !other);
        match part {
            Some(part) => return part.add(path, nth, file, places),
            None if other => self.foreign.push(format!("`{path}` is foreign: it is a unit of another pack")),
            None => self.foreign.push(format!("`{path}` is foreign: its plan is not in the pack")),
        }
        Ok(())
    }

    /// Returns the runs, and the files that do not belong to any.
    pub fn done(self) -> (Vec<Together>, Vec<String>) {
        (self.parts.into_iter().map(|part| part.done(&self.paths)).collect(), self.foreign)
    }
}

impl<'e> Part<'e> {
    fn new(expected: &'e Expected) -> Self {
        let key = |(nth, unit): (usize, &'e ExpectedUnit)| ((unit.task.as_str(), unit.path.as_str(), unit.run), nth);
        Self {
            expected,
            units: expected.units.iter().enumerate().map(key).collect(),
            found: expected.units.iter().map(|_| Vec::new()).collect(),
            foreign: Vec::new(),
            alike: Alike::default(),
            summary: Summary::default(),
            findings: IndexSet::new(),
        }
    }

    fn add(&mut self, path: &str, nth: usize, file: &ResultsFile, places: &[Range<usize>]) -> Result<(), String> {
        self.alike.add(path, &file.summary)?;
        self.summary.add(&file.summary);
        self.findings.extend(file.findings.iter().map(Value::to_string));
        for (result, bytes) in file.results.iter().zip(places) {
            let Some(unit) = self.units.get(&(result.name(), result.path(), result.run().0)) else {
                self.foreign.push(format!("`{}` in `{path}` is foreign", result.title()));
                continue;
            };
            let at = At { file: nth, bytes: bytes.clone() };
            let cut_short = result.outcome() == Some("cancelled");
            self.found[*unit].push(Found { at, cut_short });
        }
        Ok(())
    }

    fn done(self, paths: &[String]) -> Together {
        let path = |found: &Found| format!("`{}`", paths[found.at.file]);
        let mut faults = self.foreign;
        for (ExpectedUnit { id, task, run, .. }, found) in self.expected.units.iter().zip(&self.found) {
            let which = format!("unit `{id}` (`{task}`, run {run})");
            match found.as_slice() {
                [] => faults.push(format!("{which} is missing")),
                [one] if one.cut_short => {
                    faults.push(format!("{which} was interrupted in {}: run it again", path(one)));
                }
                [_] => {}
                several => {
                    let paths: Vec<_> = several.iter().map(path).collect();
                    faults.push(format!("{which} appears {} times: {}", several.len(), paths.join(", ")));
                }
            }
        }
        let mut summary = self.summary.done();
        summary.insert("complete".to_owned(), json!(faults.is_empty()));
        let results = self.found.into_iter().filter_map(|found| Some(found.into_iter().next()?.at)).collect();
        let findings = self.findings.iter().filter_map(|text| serde_json::from_str(text).ok()).collect();
        Together { summary: Value::Object(summary), results, findings: Value::Array(findings), faults }
    }
}

/// Merges files, which are given with their paths.
///
/// # Errors
/// The files are not of the same eval.
pub fn merge(files: &[(String, ResultsFile)]) -> Result<Merged, String> {
    let (mut alike, mut summary) = (Alike::default(), Summary::default());
    for (path, file) in files {
        alike.add(path, &file.summary)?;
        summary.add(&file.summary);
    }
    let (mut faults, mut ambiguous) = shards(files);
    let names: IndexSet<&str> = files.iter().flat_map(|(_, file)| file.names()).collect();
    let mut kept: IndexMap<(&str, &str, u64), (&str, &RunResult)> = IndexMap::new();
    for (path, file) in files {
        for result in &file.results {
            let key = (result.name(), result.path(), result.run().0);
            match kept.get(&key) {
                Some((first, _)) if *first == path => {
                    faults.push(format!("`{}` appears twice in `{path}`", result.title()));
                }
                Some((first, _)) => {
                    ambiguous.push(format!("`{}` is in `{first}` and in `{path}`", result.title()));
                }
                None => {
                    kept.insert(key, (path, result));
                }
            }
        }
    }
    let mut runs_of: IndexMap<&str, (IndexSet<u64>, u64)> = IndexMap::new();
    for ((task, _, run), (_, result)) in &kept {
        let (runs, all) = runs_of.entry(task).or_default();
        runs.insert(*run);
        *all = result.run().1.max(*all);
    }
    for name in &names {
        let (runs, all) = runs_of.shift_remove(name).unwrap_or((IndexSet::new(), 1));
        let all = files.iter().find_map(|(_, file)| file.decided(name)).map_or(all, |(_, runs)| runs);
        let missing: Vec<_> =
            (1..=all.min(10_000)).filter(|run| !runs.contains(run)).map(|run| run.to_string()).collect();
        match (runs.len(), all) {
            _ if missing.is_empty() => {}
            (0, _) => faults.push(format!("`{name}` is in none of the files")),
            (_, all) => faults.push(format!("`{name}` has no run {} of {all}", missing.join(", "))),
        }
    }
    // In the order of the plan, as far as it is known.
    let mut results: Vec<&RunResult> = kept.values().map(|(_, result)| *result).collect();
    results.sort_by_key(|r| (names.get_index_of(r.name()).unwrap_or(usize::MAX), r.run().0));
    let findings: IndexSet<String> = files.iter().flat_map(|(_, f)| &f.findings).map(Value::to_string).collect();
    let findings: Vec<Value> = findings.iter().filter_map(|text| serde_json::from_str(text).ok()).collect();
    let results: Vec<_> = results.into_iter().map(|r| Value::Object(r.0.clone())).collect();
    let mut summary = summary.done();
    faults.extend(ambiguous.iter().cloned());
    let complete = faults.is_empty() && files.iter().all(|(_, file)| file.gaps().is_empty());
    summary.insert("complete".to_owned(), json!(complete));
    Ok(Merged { file: json!({ "summary": summary, "results": results, "findings": findings }), faults, ambiguous })
}

/// What all files that contain it must have in common.
#[derive(Default, Debug)]
struct Alike {
    /// The first file that contained each value.
    said: IndexMap<&'static str, (String, Value)>,
}

impl Alike {
    fn add(&mut self, path: &str, summary: &Map<String, Value>) -> Result<(), String> {
        for (key, what) in [("eval", "eval"), ("planDigest", "plan"), ("agent", "agent")] {
            let Some(found) = summary.get(key) else { continue };
            let (first, value) = self.said.entry(key).or_insert_with(|| (path.to_owned(), found.clone()));
            if value != found {
                let shown = |v: &Value| v.as_str().map_or_else(|| v.to_string(), str::to_owned);
                return Err(format!(
                    "`{first}` and `{path}` are from different runs: the {what} is `{}` in one and `{}` in the other",
                    shown(value),
                    shown(found)
                ));
            }
        }
        Ok(())
    }
}

/// Shards that are missing or of another division, and those that appear twice.
fn shards(files: &[(String, ResultsFile)]) -> (Vec<String>, Vec<String>) {
    let (mut faults, mut twice) = (Vec::new(), Vec::new());
    let mut found: IndexMap<u64, Vec<(u64, &str)>> = IndexMap::new();
    for (path, file) in files {
        let shard = |key: &str| file.summary.get("shard")?.get(key)?.as_u64();
        if let (Some(index), Some(of)) = (shard("index"), shard("of")) {
            found.entry(of).or_default().push((index, path));
        }
    }
    if found.len() > 1 {
        let divisions: Vec<_> = found.keys().map(u64::to_string).collect();
        faults.push(format!("the files are shards of different divisions: of {}", divisions.join(" and of ")));
    }
    for (of, shards) in found {
        for index in 1..=of.min(10_000) {
            let paths: Vec<_> = shards.iter().filter(|(i, _)| *i == index).map(|(_, p)| format!("`{p}`")).collect();
            match paths.len() {
                0 => faults.push(format!("shard {index}/{of} is missing")),
                1 => {}
                _ => twice.push(format!("shard {index}/{of} appears twice: {}", paths.join(", "))),
            }
        }
    }
    (faults, twice)
}

/// The summary of the first file, with the times of all files, their total usage, and the worst exit status.
#[derive(Default, Debug)]
struct Summary {
    first: Map<String, Value>,
    started: Option<String>,
    longest: Option<f64>,
    limits: Option<Limited>,
    decided: Map<String, Value>,
    currency: Option<Value>,
    cancelled: Option<Value>,
    exits: IndexSet<u64>,
}

impl Summary {
    fn add(&mut self, summary: &Map<String, Value>) {
        if self.first.is_empty() {
            self.first.clone_from(summary);
        }
        let get = |key: &str| summary.get(key);
        if let Some(started) = get("startedAt").and_then(Value::as_str)
            && self.started.as_deref().is_none_or(|first| started < first)
        {
            self.started = Some(started.to_owned());
        }
        // Shards run in parallel.
        let seconds = get("durationSeconds").and_then(Value::as_f64);
        self.longest = self.longest.into_iter().chain(seconds).reduce(f64::max);
        // Each shard may use as much as the command line allows.
        let limits = get("limits").and_then(|limits| serde_json::from_value::<Limited>(limits.clone()).ok());
        self.limits = self.limits.into_iter().chain(limits).reduce(Limited::and);
        let decided = get("decided").and_then(Value::as_object).into_iter().flatten();
        self.decided.extend(decided.map(|(key, value)| (key.clone(), value.clone())));
        self.currency = self.currency.take().or_else(|| get("currency").cloned());
        self.cancelled = self.cancelled.take().or_else(|| get("cancelled").cloned());
        self.exits.extend(get("exit").and_then(Value::as_u64));
    }

    fn done(self) -> Map<String, Value> {
        let mut out = self.first;
        out.shift_remove("shard");
        out.shift_remove("unit");
        let decided = (!self.decided.is_empty()).then_some(Value::Object(self.decided));
        let exit = [130, 143, 129, 2, 3, 1, 4, 0].into_iter().find(|exit| self.exits.contains(exit));
        let together = [
            ("startedAt", self.started.map(Value::from)),
            ("durationSeconds", self.longest.map(|longest| json!(longest))),
            ("limits", self.limits.map(|limits| json!(limits))),
            ("decided", decided),
            ("currency", self.currency),
            ("cancelled", self.cancelled),
            ("exit", exit.map(Value::from)),
        ];
        for (key, value) in together {
            if let Some(value) = value {
                out.insert(key.to_owned(), value);
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::read;

    #[test]
    fn usage_of_shards_is_summed() {
        let shard = |index: u64, more: Value| {
            let mut summary = json!({ "eval": "e", "shard": { "index": index, "of": 3 } });
            for (key, value) in more.as_object().unwrap() {
                summary[key] = value.clone();
            }
            (format!("{index}.json"), read(&json!({ "summary": summary, "results": [] }).to_string()).unwrap())
        };
        let merged = merge(&[
            // This shard had nothing to do.
            shard(1, json!({})),
            shard(
                2,
                json!({ "limits": { "maxTokens": 40, "tokens": 26, "cost": 0.5, "toolCalls": 1 }, "currency": "EUR" }),
            ),
            shard(
                3,
                json!({ "limits": { "maxTokens": 40, "tokens": 13, "cost": 0.25, "toolCalls": 2 }, "currency": "EUR" }),
            ),
        ])
        .unwrap();
        let limits = json!({ "maxTokens": 80, "tokens": 39, "cost": 0.75, "toolCalls": 3 });
        assert_eq!((&merged.file["summary"]["limits"], &merged.file["summary"]["currency"]), (&limits, &json!("EUR")));
        assert_eq!(merged.faults, Vec::<String>::new());
    }

    fn part(summary: Value, results: Value) -> ResultsFile {
        read(&json!({ "summary": summary, "results": results }).to_string()).unwrap()
    }

    fn run(task: &str, run: u64, of: u64) -> Value {
        json!({ "taskName": task, "taskPassed": true, "allAssertionsPassed": true, "runIndex": run, "totalRuns": of })
    }

    #[test]
    fn the_number_of_runs_of_a_task_is_that_of_its_results() {
        let names = json!({ "names": ["twice", "once"] });
        let shard = |n: u64| json!({ "eval": "e", "evals": names, "complete": true, "shard": { "index": n, "of": 2 } });
        let first = part(shard(1), json!([run("twice", 0, 2), run("twice", 1, 2)]));
        let second = part(shard(2), json!([run("once", 0, 1)]));
        let merged = merge(&[("1.json".to_owned(), first), ("2.json".to_owned(), second.clone())]).unwrap();
        assert_eq!((merged.faults, &merged.file["summary"]["complete"]), (Vec::new(), &json!(true)));

        let torn = part(shard(1), json!([run("twice", 1, 2)]));
        let merged = merge(&[("1.json".to_owned(), torn), ("2.json".to_owned(), second)]).unwrap();
        assert_eq!(merged.faults, ["`twice` has no run 1 of 2"]);
        assert_eq!(merged.file["summary"]["complete"], json!(false));
    }

    #[test]
    fn merged_results_of_an_interrupted_run_are_incomplete() {
        let shard = |n: u64| json!({ "eval": "e", "complete": true, "shard": { "index": n, "of": 2 } });
        let mut cut = shard(1);
        cut["cancelled"] = json!("interrupted");
        let files = [part(cut, json!([run("a", 0, 1)])), part(shard(2), json!([run("b", 0, 1)]))];
        let merged = merge(&files.map(|file| ("x.json".to_owned(), file))).unwrap();
        assert_eq!(merged.file["summary"]["complete"], json!(false), "{:?}", merged.faults);
    }
}
