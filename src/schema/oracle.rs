//! Oracle files: what the scripted agent does.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde_json::{Map, Value};

use super::word::{AnyVersion, Name};

/// What the agent `builtin.script` does in each task.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Oracle {
    /// The kind of file.
    #[schemars(extend("const" = "Oracle"))]
    pub kind: String,
    /// The version of the file format.
    pub api_version: Option<AnyVersion>,
    pub metadata: Option<OracleMetadata>,
    /// The calls and the answer for each task, by task name.
    pub tasks: IndexMap<String, OracleTask>,
}

/// The name of an oracle.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct OracleMetadata {
    /// Preserved, but not interpreted.
    pub name: Option<Value>,
    /// Preserved, but not interpreted.
    pub description: Option<Value>,
    /// Preserved, but not interpreted.
    pub annotations: Option<Value>,
}

/// What the agent does in one task.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct OracleTask {
    /// Calls, in this order; a hole such as `{calls[0].content[0].text}` reads the answer of an earlier call.
    pub calls: Option<Vec<Call>>,
    /// The agent's final answer; may contain holes.
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
    /// A server name from the MCP config.
    pub server: Name,
    /// The tool to call.
    pub tool: Option<Name>,
    /// The URI of the resource to read.
    pub resource: Option<Name>,
    /// The prompt to get.
    pub prompt: Option<Name>,
    /// Arguments of the tool or prompt; strings may contain holes.
    pub args: Option<Map<String, Value>>,
}
