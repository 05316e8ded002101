//! Several agents and models in one command: each combination is a separate run with its own results, one after
//! another.

use std::{
    fmt::Write,
    path::Path,
    time::{Duration, Instant},
};

use serde_json::Value;

use super::{
    args::{Args, ReportArg},
    go,
    ready::prepare,
    write_page,
};
use crate::{
    cli::{Global, combination::Combination, complain, note, shown, status, tell},
    event::Used,
    host::disk::Disk,
    report::results_path,
    source::Files,
};

/// Runs all combinations unless interrupted, and prints a comparison. Returns the worst exit status.
pub fn run(args: &Args, combinations: &[Combination], global: Global) -> u8 {
    if args.resume.is_some() || args.phase.is_some() {
        complain("several agents or models are several runs: resume, set up, verify or clean up one at a time");
        return status::USAGE;
    }
    // No run starts before all have a plan and, if costs are limited, known prices.
    let mut ready = Vec::new();
    for (nth, combination) in combinations.iter().enumerate() {
        let one_of_them = Args {
            agent: combination.agent().into_iter().map(str::to_owned).collect(),
            model: combination.model().into_iter().map(str::to_owned).collect(),
            output_dir: combination.folder(nth, combinations, &args.output_dir),
            ..args.clone()
        };
        let prepared = prepare(&one_of_them, global).and_then(|prepared| {
            let faults = prepared.unpriced(&one_of_them);
            faults.iter().for_each(|fault| complain(fault));
            if faults.is_empty() { Ok(prepared) } else { Err(status::BROKEN) }
        });
        match prepared {
            Ok(prepared) => ready.push((combination, one_of_them, prepared)),
            Err(exit) => {
                complain(&format!("{} cannot be run, so nothing is run", combination.name()));
                return exit;
            }
        }
    }
    let (started, mut used) = (Instant::now(), Used::default());
    let (mut rows, mut written) = (Vec::new(), Vec::new());
    for (combination, one_of_them, prepared) in ready {
        let folder = one_of_them.output_dir.clone();
        note(&format!("\n=== {}", combination.name()));
        let before = results(&folder);
        // Limits of the command line apply to all runs together, limits of the eval to each run.
        let time = args.max_time.map_or(Duration::ZERO, |_| started.elapsed());
        let spent = Used {
            tokens: args.max_tokens.map_or(0, |_| used.tokens),
            cost: args.max_cost.map_or(0.0, |_| used.cost),
            tool_calls: 0,
        };
        let (exit, after) = go(&one_of_them, global, prepared, spent, time);
        used = after;
        let after = results(&folder);
        let new = after.iter().find(|one| !before.contains(one)).map(|(_, file)| file);
        // Results that another run left there do not count.
        if let Some(file) = new.and_then(|file| crate::results::read(&file.to_string()).ok()) {
            written.push((combination.name(), file));
        }
        rows.push((combination.name(), exit, passed(new), folder));
        if exit >= 128 {
            break;
        }
    }
    let width = rows.iter().map(|(name, ..)| name.chars().count()).max().unwrap_or_default();
    let mut table = String::from("\n");
    for (name, exit, passed, folder) in &rows {
        writeln!(table, "{name:width$}  exit {exit}  {passed:24}  {}", shown(folder)).ok();
    }
    if written.len() > 1 {
        let files: Vec<_> = written.iter().map(|(name, file)| (name.clone(), file)).collect();
        table.push('\n');
        table.push_str(&crate::results::compare::text(&files, crate::statistics::ALPHA));
    }
    // The table is for people; standard output may be for programs.
    tell(&table);
    if let (Some(ReportArg::Html), [_, _, ..]) = (args.report, written.as_slice()) {
        let eval = written.iter().map(|(_, file)| file.eval()).next().unwrap_or_default();
        let path = results_path(&args.output_dir, eval).with_extension("html");
        let files: Vec<_> = written.iter().map(|(name, file)| (name.clone(), file)).collect();
        write_page(&path, &files, &args.eval);
    }
    rows.iter().map(|(_, exit, ..)| *exit).max_by_key(|exit| severity(*exit)).unwrap_or(status::USAGE)
}

fn severity(exit: u8) -> u8 {
    match exit {
        status::OK => 0,
        4 => 1,
        1 => 2,
        status::USAGE => 3,
        status::BROKEN => 4,
        _ => 5,
    }
}

/// The results files in a directory, with their contents.
fn results(folder: &Path) -> Vec<(String, Value)> {
    let names = Disk.list(folder).into_iter().filter(|name| name.starts_with("gevals-") && name.ends_with("-out.json"));
    let read = |name: String| Some((name.clone(), serde_json::from_slice(&Disk.read(&folder.join(name)).ok()?).ok()?));
    names.filter_map(read).collect()
}

/// Describes how many runs of tasks passed in the results that this run wrote.
fn passed(written: Option<&Value>) -> String {
    let Some(written) = written else { return "no results".to_owned() };
    let runs = written["results"].as_array().map(Vec::as_slice).unwrap_or_default();
    let passed = runs.iter().filter(|run| run["outcome"] == "passed").count();
    format!("{passed} of {} passed", runs.len())
}
