//! The tool `check`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    project,
    tool::{Answer, Effect, Tool, given, schema, taken},
};
use crate::{
    Plans,
    cli::check::clear,
    diagnostic::{self, Finding, Level},
};

pub const TOOL: Tool = Tool {
    name: "check",
    title: "Check tasks and evals",
    about: "Checks tasks, evals and what they refer to, as a compiler does, and runs nothing: every mistake with its place, what to \
            do about it, and edits that mend it. Give `paths` below the root, or `files` that are not written yet.",
    effect: Effect::Reads,
    input: schema::<Input>,
    output: schema::<Output>,
    call: |arguments, _| check(taken(arguments)?),
};

/// What is checked.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Input {
    /// Files and folders below the root; without `files` and `paths` the whole root.
    paths: Vec<String>,
    /// Texts of files by their paths, in the place of what is on the disk, or beside it.
    files: BTreeMap<String, String>,
    /// How many findings are given, errors first.
    #[schemars(range(min = 1, max = 200))]
    max_findings: usize,
}

impl Default for Input {
    fn default() -> Self {
        Self { paths: Vec::new(), files: BTreeMap::new(), max_findings: 50 }
    }
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Output {
    /// Whether there is no error: then there is a plan.
    ok: bool,
    /// How many findings are errors.
    errors: usize,
    /// How many findings there are in all.
    found: usize,
    /// How many tasks and evals and other files of a known kind were looked at.
    files: usize,
    /// Errors first; lines and columns count from 1, bytes of edits from 0. `explain` tells more of a rule.
    diagnostics: Vec<Finding>,
}

fn check(input: Input) -> Answer {
    if !(1..=200).contains(&input.max_findings) {
        return Err("the arguments do not fit: `max_findings` is from 1 to 200".to_owned());
    }
    let looked = project::named(&input.paths, input.files)?.compiled(Plans::None, true);
    let files = looked.compiled.project.files();
    let found = diagnostic::gather(looked.compiled.diagnostics.clone());
    if files == 0 && found.is_empty() {
        return Err(
            "no tasks or evals were found: specify a file or directory that contains some, or use `files`".to_owned()
        );
    }
    let mut diagnostics = diagnostic::report(&found, &looked.sources, files).diagnostics;
    let errors = diagnostics.iter().filter(|d| d.level == Level::Error).count();
    let found = diagnostics.len();
    diagnostics.sort_by_key(|d| d.level != Level::Error);
    diagnostics.truncate(input.max_findings);
    let mut answer = given(&Output { ok: errors == 0, errors, found, files, diagnostics })?;
    clear(&looked.compiled.project).mask_json(&mut answer);
    Ok(answer)
}
