//! Eval files.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde_json::{Map, Value};

use crate::hir::Isolation;

use super::{
    task::{Bounds, Limits},
    word::{AgentType, AnyVersion, EvalName, Name, Nullable, Time, Variable, World},
};

/// An eval: which agent does which tasks with which servers, and the assertions on its calls.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Eval {
    /// The kind of file.
    #[schemars(extend("const" = "Eval"))]
    pub kind: String,
    /// The version of the file format.
    pub api_version: Option<AnyVersion>,
    pub metadata: EvalMetadata,
    pub config: Config,
}

/// The name of an eval.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct EvalMetadata {
    /// The eval's name; the results file is named after it.
    pub name: EvalName,
    /// Preserved, but not interpreted.
    pub description: Option<Value>,
    /// Preserved, but not interpreted.
    pub annotations: Option<Value>,
    /// Preserved, but not interpreted.
    pub category: Option<Value>,
    /// Preserved, but not interpreted.
    pub labels: Option<Value>,
}

/// Agent, servers and tasks.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Config {
    pub agent: TestedAgent,
    /// The MCP config file, which configures the servers.
    pub mcp_config_file: Option<Name>,
    pub llm_judge: Option<Nullable<Judge>>,
    pub extensions: Option<Extensions>,
    /// Repositories with tasks, by name.
    pub sources: Option<IndexMap<String, Source>>,
    pub skills: Option<Skills>,
    /// The share of a disposable Kubernetes control plane that each run of a task gets; `kube` means `{kube: namespace}`.
    pub world: Option<World>,
    pub default_task_limits: Option<Limits>,
    /// Limits for all tasks together.
    pub limits: Option<EvalLimits>,
    /// Environment variables whose values are masked in all output.
    pub secrets: Option<Vec<Variable>>,
    /// Which tasks to run, and the assertions on the agent's calls in them.
    #[schemars(length(min = 1))]
    pub task_sets: Vec<TaskSet>,
}

/// What all tasks together may use. When a limit is reached, the remaining tasks are cancelled.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct EvalLimits {
    /// Time limit of the whole run; the remaining tasks are cancelled.
    pub max_time: Option<Time>,
    #[schemars(flatten)]
    pub bounds: Bounds,
}

/// An agent, or the agent that is the judge.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentRef {
    /// The type of agent.
    #[schemars(rename = "type")]
    pub kind: AgentType,
    /// The agent file (for `file`) or the oracle file (for `builtin.script`).
    pub path: Option<Name>,
    /// `PROVIDER:MODEL`.
    pub model: Option<Name>,
}

/// The agent that is evaluated.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct TestedAgent {
    /// The type of agent.
    #[schemars(rename = "type")]
    pub kind: AgentType,
    /// The agent file (for `file`) or the oracle file (for `builtin.script`).
    pub path: Option<Name>,
    /// `PROVIDER:MODEL`.
    pub model: Option<Name>,
    /// How the agent is isolated from the machine.
    pub isolation: Option<Isolated>,
}

/// How an agent is isolated from the machine: a level, or a level and the exceptions that are granted.
#[derive(JsonSchema, Debug)]
#[schemars(untagged)]
pub enum Isolated {
    Level(Isolation),
    Granting(Isolating),
}

/// How strictly an agent is isolated from the machine, and what it can access nevertheless.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Isolating {
    /// The isolation level; `auto` by default.
    pub level: Option<Isolation>,
    /// Whether the agent may use the network at level `strict`; false by default.
    pub network: Option<bool>,
    /// Paths that the agent may read, relative to the eval's directory; in an agent file, relative to the agent file.
    pub read: Option<Vec<String>>,
    /// Paths that the agent may write, relative to the same directory.
    pub write: Option<Vec<String>>,
    /// Environment variables of gevals that the agent gets at level `strict`, in addition to the usual ones.
    pub env: Option<Vec<Variable>>,
}

/// The judge of answers.
#[derive(JsonSchema, Debug)]
#[schemars(
    rename_all = "camelCase",
    deny_unknown_fields,
    extend("anyOf" = [{ "required": ["ref"] }, { "required": ["env"] }])
)]
pub struct Judge {
    #[schemars(rename = "ref")]
    pub agent: Option<AgentRef>,
    pub env: Option<JudgeEnv>,
}

/// The deprecated form: names of environment variables.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct JudgeEnv {
    /// The environment variable with the model's base URL.
    pub base_url_key: Name,
    /// The environment variable with the API key.
    pub api_key_key: Name,
    /// The environment variable with the model's name.
    pub model_name_key: Name,
}

/// Extensions by alias, and options for running extensions.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase")]
pub struct Extensions {
    /// The directory where binaries are cached.
    pub cache_dir: Option<Name>,
    /// Time limit of an operation; 5m by default.
    pub timeout: Option<Time>,
    /// How extensions are sandboxed; none by default.
    pub sandbox: Option<Sandbox>,
    /// Patterns of packages that are allowed to run.
    pub allowed_sources: Option<Vec<String>>,
    /// Extensions that must not run, including cached copies.
    pub deny: Option<Vec<Denied>>,
    /// Whether a bundled extension is used instead of a release that it replaces; `auto` by default.
    pub substitute: Option<Substitute>,
    #[schemars(flatten)]
    pub aliases: IndexMap<String, Extension>,
}

/// How extensions are sandboxed.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "lowercase")]
pub enum Sandbox {
    None,
    Auto,
    Landlock,
    Bwrap,
    Docker,
}

/// Whether a bundled extension is used instead of a release that it replaces.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "lowercase")]
pub enum Substitute {
    Auto,
    Never,
}

/// A package or a digest that is refused, and the reason.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Denied {
    /// A pattern of packages, with a range of versions after `@`: `github.com/OWNER/REPO@<1.4.0`.
    pub package: Option<Name>,
    /// SHA-256 of a file of a release, or of a manifest.
    pub digest: Option<Name>,
    /// The reason that is shown when the extension is refused.
    pub reason: Name,
}

/// What an extension may do in a sandbox, in addition to reading its own directory and the task's directory.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Permissions {
    /// Whether the extension may use the network; false by default.
    pub network: Option<bool>,
    /// Paths that the extension may read, relative to the eval's directory.
    pub read: Option<Vec<String>>,
    /// Paths that the extension may write, relative to the eval's directory.
    pub write: Option<Vec<String>>,
    /// Environment variables of gevals that the extension gets in addition to its own.
    pub env: Option<Vec<Variable>>,
}

/// An extension: its package and its configuration.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Extension {
    /// `github.com/OWNER/REPO@VERSION`, or a path.
    pub package: Name,
    /// Environment variables of the extension's process.
    pub env: Option<IndexMap<String, String>>,
    /// The configuration that the extension receives when it starts.
    pub config: Option<Value>,
    /// What the extension is allowed to do in a sandbox.
    pub permissions: Option<Permissions>,
}

/// A repository of tasks.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Source {
    /// `OWNER/REPO` on GitHub, a URL, or a path.
    pub repo: Name,
    /// A branch, tag or commit.
    #[schemars(rename = "ref")]
    pub reference: Name,
    /// Server names in the repository, mapped to server names in this eval.
    pub server_mapping: Option<IndexMap<String, String>>,
}

/// Skills that the agent gets.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Skills {
    /// The sources of skills.
    pub sources: Option<Vec<SkillSource>>,
}

/// A source of skills.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct SkillSource {
    /// The type of source; only directories are supported.
    #[schemars(rename = "type", extend("const" = "path"))]
    pub kind: String,
    /// A directory that contains skills.
    pub path: Name,
}

/// Tasks, selected by `path` or `glob`, and the assertions on them.
#[derive(JsonSchema, Debug)]
#[schemars(
    rename_all = "camelCase",
    deny_unknown_fields,
    extend("oneOf" = [{ "required": ["path"] }, { "required": ["glob"] }])
)]
pub struct TaskSet {
    /// A task file.
    pub path: Option<Name>,
    /// A pattern of task files; supports `**`, `{a,b}` and `[set]`.
    pub glob: Option<Name>,
    /// The name of an entry of `sources`.
    pub source: Option<Name>,
    /// Labels that a task must have; all of them must match.
    pub label_selector: Option<IndexMap<String, String>>,
    pub assertions: Option<Nullable<Assertions>>,
}

/// Assertions on the agent's calls; each key is a separate assertion.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Assertions {
    /// Each matcher must match a call.
    #[schemars(length(min = 1))]
    pub tools_used: Option<Vec<ToolMatcher>>,
    /// At least one matcher must match a call.
    #[schemars(length(min = 1))]
    pub require_any: Option<Vec<ToolMatcher>>,
    /// No matcher may match any call.
    #[schemars(length(min = 1))]
    pub tools_not_used: Option<Vec<ToolMatcher>>,
    /// The minimum number of tool calls.
    #[schemars(range(min = 0))]
    pub min_tool_calls: Option<u64>,
    /// The maximum number of tool calls.
    #[schemars(range(min = 0))]
    pub max_tool_calls: Option<u64>,
    /// Each matcher must match a read.
    #[schemars(length(min = 1))]
    pub resources_read: Option<Vec<ResourceMatcher>>,
    /// No matcher may match any read.
    #[schemars(length(min = 1))]
    pub resources_not_read: Option<Vec<ResourceMatcher>>,
    /// Each matcher must match a prompt request.
    #[schemars(length(min = 1))]
    pub prompts_used: Option<Vec<PromptMatcher>>,
    /// No matcher may match any prompt request.
    #[schemars(length(min = 1))]
    pub prompts_not_used: Option<Vec<PromptMatcher>>,
    /// Calls that must occur in this order; other calls may occur in between.
    #[schemars(length(min = 1))]
    pub call_order: Option<Vec<OrderedCall>>,
    /// Whether identical calls are forbidden.
    pub no_duplicate_calls: Option<bool>,
    /// Each matcher must match a skill that the agent loaded.
    #[schemars(length(min = 1))]
    pub skills_loaded: Option<Vec<SkillMatcher>>,
    /// No matcher may match any skill that the agent loaded.
    #[schemars(length(min = 1))]
    pub skills_not_loaded: Option<Vec<SkillMatcher>>,
}

/// Tool calls.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolMatcher {
    /// A server name from the MCP config.
    pub server: Name,
    /// The tool's name.
    pub tool: Option<Name>,
    /// A regular expression for the tool's name (RE2 syntax, unanchored).
    pub tool_pattern: Option<Name>,
    /// Arguments that the call must have, with these values.
    pub arguments_match: Option<Map<String, Value>>,
    /// How the call ended; any status by default.
    pub status: Option<Status>,
    /// The maximum duration of the call.
    pub max_duration: Option<Time>,
}

/// Resource reads.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResourceMatcher {
    /// A server name from the MCP config.
    pub server: Name,
    /// The resource's URI.
    pub uri: Option<Name>,
    /// A regular expression for the URI (RE2 syntax, unanchored).
    pub uri_pattern: Option<Name>,
    /// How the read ended; any status by default.
    pub status: Option<Status>,
    /// The maximum duration of the read.
    pub max_duration: Option<Time>,
}

/// Prompt requests.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct PromptMatcher {
    /// A server name from the MCP config.
    pub server: Name,
    /// The prompt's name.
    pub prompt: Option<Name>,
    /// A regular expression for the prompt's name (RE2 syntax, unanchored).
    pub prompt_pattern: Option<Name>,
    /// Arguments that the request must have, with these values, which are strings.
    pub arguments_match: Option<IndexMap<String, String>>,
    /// How the request ended; any status by default.
    pub status: Option<Status>,
    /// The maximum duration of the request.
    pub max_duration: Option<Time>,
}

/// How a call ended.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase")]
pub enum Status {
    Ok,
    ToolError,
    ProtocolError,
}

/// A call in `callOrder`.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct OrderedCall {
    #[schemars(rename = "type")]
    pub kind: CallType,
    /// A server name from the MCP config.
    pub server: Name,
    /// The name of the tool or prompt, or the resource's URI.
    pub name: Name,
}

/// What the agent requests from a server.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase")]
pub enum CallType {
    Tool,
    Resource,
    Prompt,
}

#[derive(JsonSchema, Debug)]
#[schemars(
    rename_all = "camelCase",
    deny_unknown_fields,
    extend("anyOf" = [{ "required": ["skill"] }, { "required": ["skillPattern"] }])
)]
/// Matches skills: one by name, or all that a regular expression matches.
pub struct SkillMatcher {
    /// The skill's name.
    pub skill: Option<Name>,
    /// A regular expression for the skill's name (RE2 syntax, unanchored).
    pub skill_pattern: Option<Name>,
}
