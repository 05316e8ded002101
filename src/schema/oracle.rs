//! Oracle files: what the scripted agent does.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde_json::{Map, Value};

use super::word::{AnyVersion, Name};

/// What `builtin.script` does in each task.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Oracle {
    /// What the file is.
    #[schemars(extend("const" = "Oracle"))]
    pub kind: String,
    /// The form it is written in.
    pub api_version: Option<AnyVersion>,
    pub metadata: Option<OracleMetadata>,
    /// By the task's name.
    pub tasks: IndexMap<String, OracleTask>,
}

/// The name of an oracle.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct OracleMetadata {
    /// Carried, never interpreted.
    pub name: Option<Value>,
    /// Carried, never interpreted.
    pub description: Option<Value>,
    /// Carried, never interpreted.
    pub annotations: Option<Value>,
}

/// What the agent does in one task.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct OracleTask {
    /// In this order; a hole `{calls[0].content[0].text}` reads an earlier call's answer.
    pub calls: Option<Vec<Call>>,
    /// What the agent answers in the end; a text with holes.
    pub output: Option<String>,
}

/// A call of a tool, a resource or a prompt.
#[derive(JsonSchema, Debug)]
#[schemars(
    rename_all = "camelCase",
    deny_unknown_fields,
    extend("oneOf" = [{ "required": ["tool"] }, { "required": ["resource"] }, { "required": ["prompt"] }])
)]
pub struct Call {
    /// A name from the MCP config.
    pub server: Name,
    /// The tool that is called.
    pub tool: Option<Name>,
    /// Its URI.
    pub resource: Option<Name>,
    /// The prompt that is got.
    pub prompt: Option<Name>,
    /// Of the tool or the prompt; texts may have holes.
    pub args: Option<Map<String, Value>>,
}
