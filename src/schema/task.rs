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
    /// The kind of file.
    #[schemars(extend("const" = "Task"))]
    pub kind: String,
    /// The version of the file format.
    pub api_version: PortableVersion,
    pub metadata: PortableMetadata,
    pub spec: PortableSpec,
}

/// Metadata of the task.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct PortableMetadata {
    /// The task's name in results; unique within an eval.
    pub name: TaskName,
    /// A description for readers; preserved, but not interpreted.
    pub description: Option<String>,
    /// How hard the task is; results are counted by difficulty.
    pub difficulty: Option<Difficulty>,
    /// Labels, which the label selectors of an eval match.
    pub labels: Option<IndexMap<String, String>>,
    /// Words to filter tasks by.
    pub tags: Option<Vec<String>>,
    /// Whether other tasks may run at the same time; false by default.
    pub parallel: Option<bool>,
    /// How many times the task is run; once by default.
    #[schemars(range(min = 1))]
    pub runs: Option<u32>,
    /// How many runs out of how many must pass; all by default.
    pub gate: Option<Gate>,
    /// Time limit for setup, agent and verify together; 5m by default.
    pub timeout: Option<Time>,
    /// Time limit for cleanup; 5m by default.
    pub cleanup_timeout: Option<Time>,
    /// Whether verify steps that do not use each other's outputs run at the same time; false by default.
    pub parallel_verify: Option<bool>,
    /// Preserved, but not interpreted.
    pub annotations: Option<Value>,
    /// Preserved, but not interpreted.
    pub category: Option<Value>,
}

/// How many runs out of how many must pass.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Gate {
    /// How many runs must pass.
    #[schemars(range(min = 1))]
    pub passes: u32,
    /// How many times the task is run.
    #[schemars(range(min = 1))]
    pub of: u32,
}

/// Limits on what the agent may use.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Bounds {
    /// Input and output tokens together.
    #[schemars(range(min = 1))]
    pub max_tokens: Option<u64>,
    /// Cost, in the currency of the price file.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub max_cost: Option<f64>,
    /// Tool calls of the agent.
    #[schemars(range(min = 1))]
    pub max_tool_calls: Option<u64>,
}

/// The prompt and the steps.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct PortableSpec {
    /// Extensions whose operations can be used as steps.
    pub imports: Option<Vec<Import>>,
    /// Requirements that are checked before anything runs.
    pub requires: Option<Vec<PortableRequirement>>,
    pub limits: Option<Bounds>,
    /// Variables for steps and holes; their values may contain holes.
    pub env: Option<IndexMap<String, String>>,
    /// What the agent is asked to do; may contain holes.
    pub prompt: PortablePrompt,
    /// Steps that run before the agent.
    pub setup: Option<Vec<PortableStep>>,
    /// Steps that decide whether the task passes. Write `verify: []` if only the eval's assertions decide.
    pub verify: Vec<PortableStep>,
    /// Steps that always run, in reverse order.
    pub cleanup: Option<Vec<PortableStep>>,
}

/// An extension.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Import {
    /// `github.com/OWNER/REPO@VERSION`, or a path.
    pub package: Name,
    /// The prefix of the extension's operations; the package name by default.
    #[schemars(rename = "as")]
    pub alias: Option<Alias>,
}

/// A requirement.
#[derive(JsonSchema, Debug)]
#[schemars(
    rename_all = "camelCase",
    deny_unknown_fields,
    extend("anyOf" = [{ "required": ["mcpServer"] }, { "required": ["command"] }, { "required": ["judge"] }])
)]
pub struct PortableRequirement {
    /// A server of the eval's MCP config; its tools become steps.
    pub mcp_server: Option<Name>,
    /// The prefix of the server's tools; the server's name by default.
    #[schemars(rename = "as")]
    pub alias: Option<Alias>,
    /// A program that must be on the `PATH`.
    pub command: Option<Name>,
    /// Whether the task needs the eval's judge.
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
    /// The path of a text file, relative to the task's directory.
    pub file: Option<Name>,
}

/// A task of the steps dialect, `mcpchecker/v1alpha2`.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct StepsTask {
    /// The kind of file.
    #[schemars(extend("const" = "Task"))]
    pub kind: String,
    /// The version of the file format.
    pub api_version: StepsVersion,
    pub metadata: Metadata,
    pub spec: StepsSpec,
}

/// Metadata of the task.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Metadata {
    /// The task's name in results; unique within an eval.
    pub name: TaskName,
    /// A description for readers; preserved, but not interpreted.
    pub description: Option<String>,
    /// How hard the task is; results are counted by difficulty.
    pub difficulty: Option<Difficulty>,
    /// Labels, which the label selectors of an eval match.
    pub labels: Option<IndexMap<String, String>>,
    /// Whether other tasks may run at the same time; false by default.
    pub parallel: Option<bool>,
    /// How many times the task is run; once by default.
    #[schemars(range(min = 1))]
    pub runs: Option<u32>,
    /// How many runs out of how many must pass; all by default.
    pub gate: Option<Gate>,
    /// Preserved, but not interpreted.
    pub annotations: Option<Value>,
    /// Preserved, but not interpreted.
    pub category: Option<Value>,
}

/// The prompt and the steps.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct StepsSpec {
    /// Requirements that are checked before anything runs.
    pub requires: Option<Vec<StepsRequirement>>,
    pub limits: Option<Limits>,
    pub prompt: Prompt,
    /// Steps that run before the agent.
    pub setup: Option<Vec<StepsStep>>,
    /// Steps that decide whether the task passes.
    pub verify: Option<Vec<StepsStep>>,
    /// Steps that always run.
    pub cleanup: Option<Vec<StepsStep>>,
}

/// Time limits, and limits on what the agent may use.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Limits {
    /// Time limit for setup, agent and verify together.
    pub timeout: Option<Time>,
    /// Time limit for cleanup.
    pub cleanup_timeout: Option<Time>,
    #[schemars(flatten)]
    pub bounds: Bounds,
}

/// A requirement.
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
    /// The prefix of its steps; the server's or extension's name by default.
    #[schemars(rename = "as")]
    pub alias: Option<Alias>,
    /// A program that must be on the `PATH`.
    pub command: Option<Name>,
    /// Whether the task needs the eval's judge.
    pub judge: Option<bool>,
}

/// A task of the legacy dialect: scripts, without `apiVersion` or with `mcpchecker/v1alpha1`.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct LegacyTask {
    /// The kind of file.
    #[schemars(extend("const" = "Task"))]
    pub kind: String,
    /// The version of the file format; may be omitted.
    pub api_version: Option<LegacyVersion>,
    pub metadata: Metadata,
    pub steps: LegacySteps,
}

/// The prompt and the scripts.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct LegacySteps {
    pub prompt: Prompt,
    /// A script that runs before the agent.
    pub setup: Option<Nullable<LegacyScript>>,
    /// Decides whether the task passes: a script or the judge.
    pub verify: Option<Nullable<LegacyVerify>>,
    /// A script that always runs.
    pub cleanup: Option<Nullable<LegacyScript>>,
}

/// A script: `inline`, or a `file`.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct LegacyScript {
    /// The text of a script.
    pub inline: Option<String>,
    /// The path of a script, relative to the task's directory.
    pub file: Option<String>,
}

/// A script, or what the judge looks for.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct LegacyVerify {
    /// The text of a script.
    pub inline: Option<String>,
    /// The path of a script, relative to the task's directory.
    pub file: Option<String>,
    /// The answer must state all of this in substance; it may state more.
    pub contains: Option<String>,
    /// The answer must state this in substance, and nothing else.
    pub exact: Option<String>,
}
