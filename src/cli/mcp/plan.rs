//! The tool `plan`.

use std::collections::BTreeMap;

use regex::RegexBuilder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    project,
    tool::{Answer, Effect, LONGEST, Tool, bounded, given, schema, taken},
};
use crate::{Plans, cli::plan::drawn};

pub const TOOL: Tool = Tool {
    name: "plan",
    title: "Show what would happen",
    about: "Shows what a task or an eval would do, without running it: every step in its phase, what it waits for and what cleans it up. \
            Fails if `check` finds a hard error, because then there is no plan.",
    effect: Effect::Reads,
    input: schema::<Input>,
    output: schema::<Output>,
    call: |arguments, _| plan(taken(arguments)?),
};

/// What is planned.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Input {
    /// Task and eval files, or folders, below the root.
    paths: Vec<String>,
    /// Texts of files by their paths, in the place of what is on the disk, or beside it.
    files: BTreeMap<String, String>,
    /// A regular expression: only tasks whose name matches.
    task: Option<String>,
    /// How the plan is given.
    format: Format,
}

#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Format {
    /// For reading.
    #[default]
    Tree,
    /// A table.
    Markdown,
    /// A picture.
    Mermaid,
    /// A document, under `document`; `gevals schema plan` describes it.
    Json,
}

#[derive(Serialize, JsonSchema)]
struct Output {
    /// The plan as text; empty for `json`.
    text: String,
    /// Whether the text is only the beginning: name fewer tasks.
    truncated: bool,
    /// The plan as a document, for `json`.
    #[serde(skip_serializing_if = "Option::is_none")]
    document: Option<serde_json::Map<String, serde_json::Value>>,
}

fn plan(input: Input) -> Answer {
    let task = input.task.as_deref().map(|task| RegexBuilder::new(task).size_limit(1 << 20).build());
    let task = task.transpose().map_err(|error| format!("invalid arguments: `task`: {error}"))?;
    let named = project::named(&input.paths, input.files)?;
    let looked = named.compiled(Plans::All, false).meant()?;
    let format = match input.format {
        Format::Tree => "tree",
        Format::Markdown => "markdown",
        Format::Mermaid => "mermaid",
        Format::Json => "json",
    };
    let text = drawn(looked.compiled, &looked.sources, &named.files, task.as_ref(), format)?;
    if !matches!(input.format, Format::Json) {
        let (text, truncated) = bounded(text);
        return given(&Output { text, truncated, document: None });
    }
    if text.len() > LONGEST {
        return Err(format!(
            "the plan has {} bytes, but an answer has at most {LONGEST}: select fewer tasks with `task`",
            text.len()
        ));
    }
    let document = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    given(&Output { text: String::new(), truncated: false, document: Some(document) })
}
