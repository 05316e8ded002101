//! `gevals result merge`: the results of shards as those of one run. What is there twice, or nowhere, is reported.
//!
//! Property: *merging all shards of a run gives the results of that run, but for order and times.*

use indexmap::{IndexMap, IndexSet};
use serde_json::{Map, Value, json};

use super::{ResultsFile, RunResult};
use crate::event::Limited;

/// What came of merging.
#[derive(Clone, PartialEq, Debug)]
pub struct Merged {
    pub file: Value,
    /// Shards and results that are missing, or there twice.
    pub faults: Vec<String>,
}

/// What a pack says of one run of its eval, with one agent and one model.
#[derive(Clone, Debug)]
pub struct Expected {
    /// The digest of the pack.
    pub pack: String,
    /// Of the eval's plan.
    pub plan: String,
    pub units: Vec<ExpectedUnit>,
}

/// A result that there must be.
#[derive(Clone, Debug)]
pub struct ExpectedUnit {
    pub id: String,
    pub task: String,
    pub path: String,
    /// From 1.
    pub run: u64,
}

/// Sorts files by the runs that a pack expects, in its order, and says which belong to none of them.
pub fn sort(files: Vec<(String, ResultsFile)>, all: &[Expected]) -> (Vec<Vec<(String, ResultsFile)>>, Vec<String>) {
    let (mut sorted, mut faults) = (vec![Vec::new(); all.len()], Vec::new());
    for (path, file) in files {
        let plan = file.summary.get("planDigest").and_then(Value::as_str);
        let pack = all.first().map_or("", |expected| &expected.pack);
        let other = file.unit().is_some_and(|(_, of)| of != pack);
        match all.iter().position(|expected| Some(expected.plan.as_str()) == plan).filter(|_| !other) {
            Some(place) => sorted[place].push((path, file)),
            None if other => faults.push(format!("`{path}` is foreign: it is a unit of another pack")),
            None => faults.push(format!("`{path}` is foreign: its plan is none of the pack's")),
        }
    }
    (sorted, faults)
}

/// Merges the parts of one run of a pack. A result that the pack does not know is left out; what is missing, doubled, foreign or was
/// cut short is named by its unit.
///
/// # Errors
/// Where they are not of one eval.
pub fn merge_units(files: &[(String, ResultsFile)], expected: &Expected) -> Result<Merged, String> {
    let key = |result: &RunResult| (result.name().to_owned(), result.path().to_owned(), result.run().0);
    let units: IndexMap<_, _> = expected.units.iter().map(|u| ((u.task.clone(), u.path.clone(), u.run), u)).collect();
    let (mut faults, mut known) = (Vec::new(), Vec::new());
    for (path, file) in files {
        let (own, foreign): (Vec<_>, Vec<_>) = file.results.iter().cloned().partition(|r| units.contains_key(&key(r)));
        faults.extend(foreign.iter().map(|result| format!("`{}` in `{path}` is foreign", result.title())));
        known.push((path.clone(), ResultsFile { results: own, ..file.clone() }));
    }
    let mut found: IndexMap<_, Vec<(&str, &RunResult)>> = units.keys().map(|key| (key.clone(), Vec::new())).collect();
    for (path, file) in &known {
        for result in &file.results {
            found.entry(key(result)).or_default().push((path, result));
        }
    }
    for (key, results) in &found {
        let Some(ExpectedUnit { id, task, run, .. }) = units.get(key) else { continue };
        let which = format!("unit `{id}` (`{task}`, run {run})");
        match results.as_slice() {
            [] => faults.push(format!("{which} is missing")),
            [(path, one)] if one.outcome() == Some("cancelled") => {
                faults.push(format!("{which} was cut short in `{path}`: run it again"));
            }
            [_] => {}
            several => {
                let paths: Vec<_> = several.iter().map(|(path, _)| format!("`{path}`")).collect();
                faults.push(format!("{which} is there {} times: {}", several.len(), paths.join(", ")));
            }
        }
    }
    let mut merged = merge(&known)?;
    let order = |result: &Value| {
        let text = |key: &str| result[key].as_str().unwrap_or_default().to_owned();
        let run = result["runIndex"].as_u64().unwrap_or_default() + 1;
        units.get_index_of(&(text("taskName"), text("taskPath"), run)).unwrap_or(usize::MAX)
    };
    if let Some(results) = merged.file["results"].as_array_mut() {
        results.sort_by_cached_key(order);
    }
    merged.file["summary"]["complete"] = json!(faults.is_empty());
    Ok(Merged { faults, ..merged })
}

/// Merges files, which are given with their paths.
///
/// # Errors
/// Where they are not of one eval.
pub fn merge(files: &[(String, ResultsFile)]) -> Result<Merged, String> {
    alike(files)?;
    let mut faults = shards(files);
    let names: IndexSet<&str> = files.iter().flat_map(|(_, file)| file.names()).collect();
    let mut kept: IndexMap<(&str, &str, u64), (&str, &RunResult)> = IndexMap::new();
    for (path, file) in files {
        for result in &file.results {
            let key = (result.name(), result.path(), result.run().0);
            match kept.get(&key) {
                Some((first, _)) => faults.push(match *first == path {
                    true => format!("`{}` is twice in `{path}`", result.title()),
                    false => format!("`{}` is in `{first}` and in `{path}`", result.title()),
                }),
                None => {
                    kept.insert(key, (path, result));
                }
            }
        }
    }
    for name in &names {
        let runs: IndexSet<u64> = kept.keys().filter(|(task, ..)| task == name).map(|(.., run)| *run).collect();
        let all = kept.values().filter(|(_, r)| r.name() == *name).map(|(_, r)| r.run().1).max().unwrap_or(1);
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
    let mut summary = summary(files);
    let complete = faults.is_empty() && files.iter().all(|(_, file)| file.gaps().is_empty());
    summary.insert("complete".to_owned(), json!(complete));
    Ok(Merged { file: json!({ "summary": summary, "results": results, "findings": findings }), faults })
}

/// What all files must have in common, where they say so.
fn alike(files: &[(String, ResultsFile)]) -> Result<(), String> {
    for (key, what) in [("eval", "eval"), ("planDigest", "plan"), ("agent", "agent")] {
        let mut said = files.iter().filter_map(|(path, file)| Some((path, file.summary.get(key)?)));
        let Some((first, value)) = said.next() else { continue };
        if let Some((other, found)) = said.find(|(_, found)| *found != value) {
            let shown = |v: &Value| v.as_str().map_or_else(|| v.to_string(), str::to_owned);
            return Err(format!(
                "`{first}` and `{other}` are not of one run: the {what} is `{}` in one and `{}` in the other",
                shown(value),
                shown(found)
            ));
        }
    }
    Ok(())
}

/// Shards that are missing, there twice, or of another division.
fn shards(files: &[(String, ResultsFile)]) -> Vec<String> {
    let mut faults = Vec::new();
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
                _ => faults.push(format!("shard {index}/{of} is there twice: {}", paths.join(", "))),
            }
        }
    }
    faults
}

/// The first file's, with the times of all, what all used, and the worst exit status.
fn summary(files: &[(String, ResultsFile)]) -> Map<String, Value> {
    let mut out = files.iter().map(|(_, f)| &f.summary).find(|s| !s.is_empty()).cloned().unwrap_or_default();
    out.shift_remove("shard");
    out.shift_remove("unit");
    let all = |key: &'static str| files.iter().filter_map(move |(_, f)| f.summary.get(key));
    if let Some(first) = all("startedAt").filter_map(Value::as_str).min() {
        out.insert("startedAt".to_owned(), json!(first));
    }
    // They run side by side.
    if let Some(longest) = all("durationSeconds").filter_map(Value::as_f64).reduce(f64::max) {
        out.insert("durationSeconds".to_owned(), json!(longest));
    }
    // Each shard may use as much as the command line says.
    let limits = all("limits").filter_map(|limits| serde_json::from_value::<Limited>(limits.clone()).ok());
    if let Some(limits) = limits.reduce(Limited::and) {
        out.insert("limits".to_owned(), json!(limits));
    }
    let decided: Map<String, Value> =
        all("decided").filter_map(Value::as_object).flatten().map(|(k, v)| (k.clone(), v.clone())).collect();
    if !decided.is_empty() {
        out.insert("decided".to_owned(), Value::Object(decided));
    }
    if let Some(currency) = all("currency").next() {
        out.insert("currency".to_owned(), currency.clone());
    }
    if let Some(reason) = all("cancelled").next() {
        out.insert("cancelled".to_owned(), reason.clone());
    }
    let exits: IndexSet<u64> = all("exit").filter_map(Value::as_u64).collect();
    if let Some(exit) = [130, 143, 2, 3, 1, 4, 0].into_iter().find(|exit| exits.contains(exit)) {
        out.insert("exit".to_owned(), json!(exit));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::read;

    #[test]
    fn what_shards_used_is_told_together() {
        let shard = |index: u64, more: Value| {
            let mut summary = json!({ "eval": "e", "shard": { "index": index, "of": 3 } });
            for (key, value) in more.as_object().unwrap() {
                summary[key] = value.clone();
            }
            (format!("{index}.json"), read(&json!({ "summary": summary, "results": [] }).to_string()).unwrap())
        };
        let merged = merge(&[
            // It had nothing to do.
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
    fn a_task_has_as_many_runs_as_its_own_results_say() {
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
    fn what_is_merged_of_a_run_that_was_cut_short_is_not_complete() {
        let shard = |n: u64| json!({ "eval": "e", "complete": true, "shard": { "index": n, "of": 2 } });
        let mut cut = shard(1);
        cut["cancelled"] = json!("interrupted");
        let files = [part(cut, json!([run("a", 0, 1)])), part(shard(2), json!([run("b", 0, 1)]))];
        let merged = merge(&files.map(|file| ("x.json".to_owned(), file))).unwrap();
        assert_eq!(merged.file["summary"]["complete"], json!(false), "{:?}", merged.faults);
    }
}
