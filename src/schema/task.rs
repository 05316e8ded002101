//! Task files, in their three dialects. The steps stand in [`step`](super::step).

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde_json::Value;

use super::{
    step::{PortableStep, StepsStep},
    word::{Alias, Difficulty, LegacyVersion, Name, Nullable, PortableVersion, StepsVersion, TaskName, Time},
};

/// A task of the portable dialect, `mcp-eval/v1`.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct PortableTask {
    /// What the file is.
    #[schemars(extend("const" = "Task"))]
    pub kind: String,
    /// The form it is written in.
    pub api_version: PortableVersion,
    pub metadata: PortableMetadata,
    pub spec: PortableSpec,
}

/// What stands around the steps.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct PortableMetadata {
    /// What results call the task; unique in an eval.
    pub name: TaskName,
    /// For people; carried, never interpreted.
    pub description: Option<String>,
    /// How hard it is: results count by it.
    pub difficulty: Option<Difficulty>,
    /// What the label selectors of an eval look at.
    pub labels: Option<IndexMap<String, String>>,
    /// Words to filter by.
    pub tags: Option<Vec<String>>,
    /// Whether other tasks may run at the same time; false by default.
    pub parallel: Option<bool>,
    /// How often the task is run; once by default.
    #[schemars(range(min = 1))]
    pub runs: Option<u32>,
    /// How many of how many runs must pass; by default all.
    pub gate: Option<Gate>,
    /// Bounds setup, agent and verify together; 5m by default.
    pub timeout: Option<Time>,
    /// Bounds cleanup; 5m by default.
    pub cleanup_timeout: Option<Time>,
    /// Whether verify steps of which none uses an output of another run at the same time; false by default.
    pub parallel_verify: Option<bool>,
    /// Carried, never interpreted.
    pub annotations: Option<Value>,
    /// Carried, never interpreted.
    pub category: Option<Value>,
}

/// So many runs, of which so many must pass.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Gate {
    /// How many must pass.
    #[schemars(range(min = 1))]
    pub passes: u32,
    /// How often the task is run.
    #[schemars(range(min = 1))]
    pub of: u32,
}

/// What the agent may use.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Bounds {
    /// Tokens that are read and written.
    #[schemars(range(min = 1))]
    pub max_tokens: Option<u64>,
    /// In the currency of the prices.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub max_cost: Option<f64>,
    /// Calls of tools by the agent.
    #[schemars(range(min = 1))]
    pub max_tool_calls: Option<u64>,
}

/// The prompt and the steps.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct PortableSpec {
    /// Extensions whose operations are steps.
    pub imports: Option<Vec<Import>>,
    /// What must be there before anything runs.
    pub requires: Option<Vec<PortableRequirement>>,
    pub limits: Option<Bounds>,
    /// Variables of every step and hole; their values may have holes themselves.
    pub env: Option<IndexMap<String, String>>,
    /// What the agent is asked to do; a text with holes.
    pub prompt: PortablePrompt,
    /// Steps before the agent.
    pub setup: Option<Vec<PortableStep>>,
    /// Steps that decide. Write `verify: []` where the eval's assertions alone decide.
    pub verify: Vec<PortableStep>,
    /// Steps that run whatever happened, last one first.
    pub cleanup: Option<Vec<PortableStep>>,
}

/// An extension.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Import {
    /// `github.com/OWNER/REPO@VERSION`, or a path.
    pub package: Name,
    /// The prefix of its operations; by default the name of the package.
    #[schemars(rename = "as")]
    pub alias: Option<Alias>,
}

/// One thing that must be there.
#[derive(JsonSchema, Debug)]
#[schemars(
    rename_all = "camelCase",
    deny_unknown_fields,
    extend("anyOf" = [{ "required": ["mcpServer"] }, { "required": ["command"] }, { "required": ["judge"] }])
)]
pub struct PortableRequirement {
    /// A server of the eval's MCP config; its tools become steps.
    pub mcp_server: Option<Name>,
    /// The prefix of its tools; by default the server's name.
    #[schemars(rename = "as")]
    pub alias: Option<Alias>,
    /// A program on PATH.
    pub command: Option<Name>,
    /// The eval's judge.
    pub judge: Option<bool>,
}

/// The prompt: a text, or a file.
#[derive(JsonSchema, Debug)]
#[schemars(untagged)]
pub enum PortablePrompt {
    Text(Name),
    Mapping(Prompt),
}

/// What the agent is asked to do: `inline`, or a `file`.
#[derive(JsonSchema, Debug)]
#[schemars(
    rename_all = "camelCase",
    deny_unknown_fields,
    extend("oneOf" = [{ "required": ["inline"] }, { "required": ["file"] }])
)]
pub struct Prompt {
    /// The text.
    pub inline: Option<Name>,
    /// The path of a text, from the task's folder.
    pub file: Option<Name>,
}

/// A task of the steps dialect, `mcpchecker/v1alpha2`.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct StepsTask {
    /// What the file is.
    #[schemars(extend("const" = "Task"))]
    pub kind: String,
    /// The form it is written in.
    pub api_version: StepsVersion,
    pub metadata: Metadata,
    pub spec: StepsSpec,
}

/// What stands around the steps.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Metadata {
    /// What results call the task; unique in an eval.
    pub name: TaskName,
    /// For people; carried, never interpreted.
    pub description: Option<String>,
    /// How hard it is: results count by it.
    pub difficulty: Option<Difficulty>,
    /// What the label selectors of an eval look at.
    pub labels: Option<IndexMap<String, String>>,
    /// Whether other tasks may run at the same time; false by default.
    pub parallel: Option<bool>,
    /// How often the task is run; once by default.
    #[schemars(range(min = 1))]
    pub runs: Option<u32>,
    /// How many of how many runs must pass; by default all.
    pub gate: Option<Gate>,
    /// Carried, never interpreted.
    pub annotations: Option<Value>,
    /// Carried, never interpreted.
    pub category: Option<Value>,
}

/// The prompt and the steps.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct StepsSpec {
    /// What must be there before anything runs.
    pub requires: Option<Vec<StepsRequirement>>,
    pub limits: Option<Limits>,
    pub prompt: Prompt,
    /// Steps before the agent.
    pub setup: Option<Vec<StepsStep>>,
    /// Steps that decide.
    pub verify: Option<Vec<StepsStep>>,
    /// Steps that run whatever happened.
    pub cleanup: Option<Vec<StepsStep>>,
}

/// Limits of time, and of what the agent may use.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Limits {
    /// Bounds setup, agent and verify together.
    pub timeout: Option<Time>,
    /// Bounds cleanup.
    pub cleanup_timeout: Option<Time>,
    #[schemars(flatten)]
    pub bounds: Bounds,
}

/// One thing that must be there.
#[derive(JsonSchema, Debug)]
#[schemars(
    rename_all = "camelCase",
    deny_unknown_fields,
    extend("anyOf" = [
        { "required": ["mcpServer"] }, { "required": ["extension"] }, { "required": ["command"] }, { "required": ["judge"] }
    ])
)]
pub struct StepsRequirement {
    /// A server of the eval's MCP config; its tools become steps.
    pub mcp_server: Option<Name>,
    /// An extension of the eval; its operations become steps.
    pub extension: Option<Name>,
    /// The prefix of its steps; by default its name.
    #[schemars(rename = "as")]
    pub alias: Option<Alias>,
    /// A program on PATH.
    pub command: Option<Name>,
    /// The eval's judge.
    pub judge: Option<bool>,
}

/// A task of the legacy dialect: scripts, without `apiVersion` or with `mcpchecker/v1alpha1`.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct LegacyTask {
    /// What the file is.
    #[schemars(extend("const" = "Task"))]
    pub kind: String,
    /// May be left out.
    pub api_version: Option<LegacyVersion>,
    pub metadata: Metadata,
    pub steps: LegacySteps,
}

/// The prompt and the scripts.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct LegacySteps {
    pub prompt: Prompt,
    /// Runs before the agent.
    pub setup: Option<Nullable<LegacyScript>>,
    /// Decides: a script, or the judge.
    pub verify: Option<Nullable<LegacyVerify>>,
    /// Runs whatever happened.
    pub cleanup: Option<Nullable<LegacyScript>>,
}

/// One script: `inline`, or a `file`.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct LegacyScript {
    /// The text of a script.
    pub inline: Option<String>,
    /// The path of a script, from the task's folder.
    pub file: Option<String>,
}

/// One script, or what the judge looks for.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct LegacyVerify {
    /// The text of a script.
    pub inline: Option<String>,
    /// The path of a script, from the task's folder.
    pub file: Option<String>,
    /// The answer must state all of this, in meaning; it may state more.
    pub contains: Option<String>,
    /// The answer must state this, in meaning, and nothing else.
    pub exact: Option<String>,
}
