//! The tool `convert`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    project,
    tool::{Answer, Effect, LONGEST, Tool, given, schema, taken},
};
use crate::{Plans, cli::convert::unproved_texts, convert::Target, hir::Dialect};

pub const TOOL: Tool = Tool {
    name: "convert",
    title: "Convert tasks",
    about: "Converts tasks to another dialect: bash tasks of mcpchecker become portable ones, statement by statement. What cannot be \
            converted stays a script. Nothing is written or run, so nothing is proved: the command `gevals convert` proves that both \
            versions behave the same.",
    effect: Effect::Reads,
    input: schema::<Input>,
    output: schema::<Output>,
    call: |arguments, _| convert(taken(arguments)?),
};

/// What is converted.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Input {
    /// Task and eval files, or folders, below the root.
    paths: Vec<String>,
    /// Texts of files by their paths, in the place of what is on the disk, or beside it.
    files: BTreeMap<String, String>,
    /// The dialect that is written.
    to: To,
    /// What scripts are taken apart into; without it they stay scripts. Only for `portable`.
    target: Option<TargetName>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum To {
    /// `mcp-eval/v1`.
    #[default]
    Portable,
    /// `mcpchecker/v1alpha2`.
    Steps,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum TargetName {
    /// Built-in steps.
    Builtin,
    /// These, and operations of `builtin:kubernetes` for commands of kubectl.
    Kubernetes,
}

#[derive(Serialize, JsonSchema)]
struct Output {
    /// Whether every task could be converted.
    ok: bool,
    /// For each task its `path`, whether it was `converted`, its new `text` or the `reason` why there is none, and in `pieces` what became
    /// of every statement.
    tasks: Vec<Map<String, Value>>,
}

fn convert(input: Input) -> Answer {
    if input.to == To::Steps && input.target.is_some() {
        return Err("`target` converts scripts for `portable`; `steps` only wraps them".to_owned());
    }
    let named = project::named(&input.paths, input.files)?;
    let looked = named.compiled(Plans::All, true);
    if looked.compiled.project.tasks.is_empty() {
        looked.meant()?;
        return Err("no tasks found".to_owned());
    }
    let to = if input.to == To::Steps { Dialect::Steps } else { Dialect::Portable };
    let target = match input.target {
        None => Target::Wrap,
        Some(TargetName::Builtin) => Target::Builtin,
        Some(TargetName::Kubernetes) => Target::Kubernetes,
    };
    let tasks = unproved_texts(&looked.compiled, &looked.sources, &named.files, to, target);
    let tasks: Vec<_> = tasks.into_iter().filter_map(|task| task.as_object().cloned()).collect();
    let answer = given(&Output { ok: tasks.iter().all(|task| task["converted"] == true), tasks })?;
    match answer.to_string().len() {
        size if size > LONGEST * 4 => Err(format!("the answer would have {size} bytes: select fewer tasks")),
        _ => Ok(answer),
    }
}
