//! The tool `explain`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::tool::{Answer, Effect, Tool, bounded, given, schema, taken};
use crate::cli::explain::{explained, overview, unknown};

pub const TOOL: Tool = Tool {
    name: "explain",
    title: "Explain a word",
    about: "Explains a rule that `check` names, a step, a matcher, a filter, an assertion, a key of a file, an environment variable, a command, or a \
            topic such as `task`, `eval`, `steps`, `holes`, `agents`. Without a word it lists the rules and topics.",
    effect: Effect::Reads,
    input: schema::<Input>,
    output: schema::<Output>,
    call: |arguments, _| explain(taken(arguments)?),
};

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Input {
    /// What is explained; without it all rules and topics are listed.
    word: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct Output {
    /// Markdown.
    text: String,
    /// Whether the text is only the beginning.
    truncated: bool,
}

fn explain(input: Input) -> Answer {
    let text = match &input.word {
        None => overview(),
        Some(word) => explained(word).ok_or_else(|| unknown(word))?,
    };
    let (text, truncated) = bounded(text);
    given(&Output { text, truncated })
}
