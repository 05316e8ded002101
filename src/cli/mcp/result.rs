//! The tool `result`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    project::there,
    tool::{Answer, Effect, Tool, bounded, given, schema, taken},
};
use crate::{
    cli::project_files,
    results::{self, ResultsFile, RunResult, Statistics, recording, view},
    source::Files,
};

/// The maximum number of results that are returned. Those that did not pass come first.
const MOST: usize = 200;

pub const TOOL: Tool = Tool {
    name: "result",
    title: "View results",
    about: "Reports which tasks passed in a results file of `gevals run` or of mcpchecker, and why the others did not. With `details`, also \
            what was called and what the agent said.",
    effect: Effect::Reads,
    input: schema::<Input>,
    output: schema::<Output>,
    call: |arguments, _| result(&taken(arguments)?),
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// A results file below the root.
    file: String,
    /// Only tasks whose name holds this text, in any case.
    #[serde(default)]
    task: Option<String>,
    /// Whether each result that did not pass is shown whole; with `task` each of those.
    #[serde(default)]
    details: bool,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    /// Whether every task passed and no result is missing.
    ok: bool,
    /// Results that should be there and are not.
    missing: Vec<String>,
    /// How many runs of tasks there are.
    runs: usize,
    passed: usize,
    /// Those that did not pass first.
    results: Vec<Line>,
    /// How many results are left out.
    omitted: usize,
    /// In full, for people, where `details` asks for it.
    details: String,
    /// Whether the details are only the beginning.
    truncated: bool,
}

/// A run of a task.
#[derive(Serialize, JsonSchema)]
struct Line {
    task: String,
    passed: bool,
    /// Why it did not pass; empty if it did.
    why: String,
}

fn result(input: &Input) -> Answer {
    let path = super::path(&input.file);
    let files = project_files(&[]);
    there(&path, &files)?;
    let bytes = files.read(&path).map_err(|error| format!("cannot read `{}`: {error}", input.file))?;
    let text = String::from_utf8(bytes).map_err(|_| format!("`{}` is not text", input.file))?;
    if recording::is_recording(&text) {
        return Err(format!("`{}` is a recording, which has no verdicts", input.file));
    }
    let file = results::read(&text).map_err(|why| format!("cannot read the results in `{}`: {why}", input.file))?;
    let chosen = file.only(input.task.as_deref());
    if chosen.is_empty() {
        return Err(format!("no matching results in `{}`", input.file));
    }
    given(&summary(&file, &chosen, input.task.is_some(), input.details))
}

/// Summarizes some results of a file. With `all`, the details include those that passed.
pub fn summary(file: &ResultsFile, chosen: &[&RunResult], all: bool, details: bool) -> Output {
    let mut chosen = chosen.to_vec();
    chosen.sort_by_key(|result| result.passed());
    let statistics = Statistics::of(chosen.iter().copied());
    let limits = view::Limits { timeline: true, events: 40, lines: 6, width: 200 };
    let shown = chosen.iter().filter(|result| details && (all || !result.passed()));
    let (details, truncated) =
        bounded(shown.map(|result| view::view(result, None, limits)).collect::<Vec<_>>().join("\n"));
    let line = |result: &&RunResult| {
        let passed = result.passed();
        Line { task: result.title(), passed, why: if passed { String::new() } else { bounded(result.why()).0 } }
    };
    let missing = file.gaps();
    Output {
        ok: missing.is_empty() && chosen.iter().all(|result| result.passed()),
        missing,
        runs: statistics.tasks,
        passed: chosen.iter().filter(|result| result.passed()).count(),
        omitted: chosen.len().saturating_sub(MOST),
        results: chosen.iter().take(MOST).map(line).collect(),
        details,
        truncated,
    }
}
