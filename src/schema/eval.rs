//! Eval files.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde_json::{Map, Value};

use crate::hir::Isolation;

use super::{
    task::{Bounds, Limits},
    word::{AgentType, AnyVersion, EvalName, Name, Nullable, Time, Variable, World},
};

/// An eval: which agent does which tasks on which servers, and what is asserted of its calls.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Eval {
    /// What the file is.
    #[schemars(extend("const" = "Eval"))]
    pub kind: String,
    /// The form it is written in.
    pub api_version: Option<AnyVersion>,
    pub metadata: EvalMetadata,
    pub config: Config,
}

/// The name of an eval.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct EvalMetadata {
    /// What the results file is named after.
    pub name: EvalName,
    /// Carried, never interpreted.
    pub description: Option<Value>,
    /// Carried, never interpreted.
    pub annotations: Option<Value>,
    /// Carried, never interpreted.
    pub category: Option<Value>,
    /// Carried, never interpreted.
    pub labels: Option<Value>,
}

/// Agent, servers and tasks.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Config {
    pub agent: TestedAgent,
    /// The file that configures the servers.
    pub mcp_config_file: Option<Name>,
    pub llm_judge: Option<Nullable<Judge>>,
    pub extensions: Option<Extensions>,
    /// Repositories with tasks, by name.
    pub sources: Option<IndexMap<String, Source>>,
    pub skills: Option<Skills>,
    /// What each run of a task has of a disposable Kubernetes control plane; `kube` is `{kube: namespace}`.
    pub world: Option<World>,
    pub default_task_limits: Option<Limits>,
    /// Of all tasks together.
    pub limits: Option<EvalLimits>,
    /// Environment variables whose values are masked in everything that is written.
    pub secrets: Option<Vec<Variable>>,
    /// Which tasks, and what is asserted of the agent's calls in them.
    #[schemars(length(min = 1))]
    pub task_sets: Vec<TaskSet>,
}

/// What all tasks may use together. What is left undone then is cancelled.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct EvalLimits {
    /// Of the whole run; tasks that are left then are cancelled.
    pub max_time: Option<Time>,
    #[schemars(flatten)]
    pub bounds: Bounds,
}

/// An agent, or the agent that judges.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentRef {
    /// What agent it is.
    #[schemars(rename = "type")]
    pub kind: AgentType,
    /// The agent's file (`file`), or the oracle's (`builtin.script`).
    pub path: Option<Name>,
    /// `PROVIDER:MODEL`.
    pub model: Option<Name>,
}

/// The agent that is evaluated.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct TestedAgent {
    /// What agent it is.
    #[schemars(rename = "type")]
    pub kind: AgentType,
    /// The agent's file (`file`), or the oracle's (`builtin.script`).
    pub path: Option<Name>,
    /// `PROVIDER:MODEL`.
    pub model: Option<Name>,
    /// What keeps it apart from the machine.
    pub isolation: Option<Isolated>,
}

/// What keeps an agent apart from the machine: a level, or a level and what is granted all the same.
#[derive(JsonSchema, Debug)]
#[schemars(untagged)]
pub enum Isolated {
    Level(Isolation),
    Granting(Isolating),
}

/// How far an agent is kept apart from the machine, and what it has all the same.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Isolating {
    /// `auto` by default.
    pub level: Option<Isolation>,
    /// Whether it may connect anywhere where the level is `strict`; no by default.
    pub network: Option<bool>,
    /// Paths that it may read, from the eval's folder; in an agent file, from that.
    pub read: Option<Vec<String>>,
    /// Paths that it may write, from the same.
    pub write: Option<Vec<String>>,
    /// Variables of gevals that it gets besides the usual ones where the level is `strict`.
    pub env: Option<Vec<Variable>>,
}

/// Who judges answers.
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
    /// The variable with the URL of the model.
    pub base_url_key: Name,
    /// The variable with its key.
    pub api_key_key: Name,
    /// The variable with its name.
    pub model_name_key: Name,
}

/// Extensions by alias, and beside them the options of their runner.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase")]
pub struct Extensions {
    /// Where binaries are kept.
    pub cache_dir: Option<Name>,
    /// Bounds an operation; 5m by default.
    pub timeout: Option<Time>,
    /// What keeps extensions apart from the machine; none by default.
    pub sandbox: Option<Sandbox>,
    /// Patterns of packages that may run.
    pub allowed_sources: Option<Vec<String>>,
    /// Extensions that may not run, a copy in the cache neither.
    pub deny: Option<Vec<Denied>>,
    /// Whether a bundled extension stands in for a release that it replaces; auto by default.
    pub substitute: Option<Substitute>,
    #[schemars(flatten)]
    pub aliases: IndexMap<String, Extension>,
}

/// What keeps extensions apart from the machine.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "lowercase")]
pub enum Sandbox {
    None,
    Auto,
    Landlock,
    Bwrap,
    Docker,
}

/// Whether a bundled extension stands in for a release that it replaces.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "lowercase")]
pub enum Substitute {
    Auto,
    Never,
}

/// A package or a digest that is refused, and why.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Denied {
    /// A pattern of packages, with a range of versions behind `@`: `github.com/OWNER/REPO@<1.4.0`.
    pub package: Option<Name>,
    /// SHA-256 of a file of a release, or of a manifest.
    pub digest: Option<Name>,
    /// What is said where it is refused.
    pub reason: Name,
}

/// What an extension may do in a sandbox beyond its own folder and that of the task, which it may read.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Permissions {
    /// Whether it may connect anywhere; no by default.
    pub network: Option<bool>,
    /// Paths that it may read, from the eval's folder.
    pub read: Option<Vec<String>>,
    /// Paths that it may write, from the eval's folder.
    pub write: Option<Vec<String>>,
    /// Variables of gevals that it gets besides its own.
    pub env: Option<Vec<Variable>>,
}

/// An extension: its package, and what it is given.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Extension {
    /// `github.com/OWNER/REPO@VERSION`, or a path.
    pub package: Name,
    /// Variables of its process.
    pub env: Option<IndexMap<String, String>>,
    /// What it is given when it starts.
    pub config: Option<Value>,
    /// What it is granted in a sandbox.
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
    /// Names of servers there, and what they are called here.
    pub server_mapping: Option<IndexMap<String, String>>,
}

/// Skills that the agent is given.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Skills {
    /// Where they come from.
    pub sources: Option<Vec<SkillSource>>,
}

/// Where skills are.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct SkillSource {
    /// A folder is the only source there is.
    #[schemars(rename = "type", extend("const" = "path"))]
    pub kind: String,
    /// A folder with skills in it.
    pub path: Name,
}

/// Tasks, by `path` or by `glob`, and what is asserted of them.
#[derive(JsonSchema, Debug)]
#[schemars(
    rename_all = "camelCase",
    deny_unknown_fields,
    extend("oneOf" = [{ "required": ["path"] }, { "required": ["glob"] }])
)]
pub struct TaskSet {
    /// A task file.
    pub path: Option<Name>,
    /// Task files: `**`, `{a,b}` and `[set]` are known.
    pub glob: Option<Name>,
    /// One of `sources`.
    pub source: Option<Name>,
    /// Labels that a task must have, all of them.
    pub label_selector: Option<IndexMap<String, String>>,
    pub assertions: Option<Nullable<Assertions>>,
}

/// What the agent's calls must be; every key is a demand.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Assertions {
    /// Each must match a call.
    #[schemars(length(min = 1))]
    pub tools_used: Option<Vec<ToolMatcher>>,
    /// One of them must match a call.
    #[schemars(length(min = 1))]
    pub require_any: Option<Vec<ToolMatcher>>,
    /// None may match any call.
    #[schemars(length(min = 1))]
    pub tools_not_used: Option<Vec<ToolMatcher>>,
    /// Fewer calls of tools are too few.
    #[schemars(range(min = 0))]
    pub min_tool_calls: Option<u64>,
    /// More are too many.
    #[schemars(range(min = 0))]
    pub max_tool_calls: Option<u64>,
    /// Each must match a read.
    #[schemars(length(min = 1))]
    pub resources_read: Option<Vec<ResourceMatcher>>,
    /// None may match any read.
    #[schemars(length(min = 1))]
    pub resources_not_read: Option<Vec<ResourceMatcher>>,
    /// Each must match a prompt got.
    #[schemars(length(min = 1))]
    pub prompts_used: Option<Vec<PromptMatcher>>,
    /// None may match any prompt got.
    #[schemars(length(min = 1))]
    pub prompts_not_used: Option<Vec<PromptMatcher>>,
    /// Calls that must come in this order; others may stand between.
    #[schemars(length(min = 1))]
    pub call_order: Option<Vec<OrderedCall>>,
    /// Whether the same call may not come twice.
    pub no_duplicate_calls: Option<bool>,
    /// Each must match a skill that the agent has loaded.
    #[schemars(length(min = 1))]
    pub skills_loaded: Option<Vec<SkillMatcher>>,
    /// None may match any skill that it has loaded.
    #[schemars(length(min = 1))]
    pub skills_not_loaded: Option<Vec<SkillMatcher>>,
}

/// Calls of tools.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolMatcher {
    /// A name from the MCP config.
    pub server: Name,
    /// Its name.
    pub tool: Option<Name>,
    /// A pattern (RE2 syntax, unanchored).
    pub tool_pattern: Option<Name>,
    /// Arguments the call must have, with these values.
    pub arguments_match: Option<Map<String, Value>>,
    /// How the call ended; any way by default.
    pub status: Option<Status>,
    /// The call took no longer.
    pub max_duration: Option<Time>,
}

/// Reads of resources.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResourceMatcher {
    /// A name from the MCP config.
    pub server: Name,
    /// Its URI.
    pub uri: Option<Name>,
    /// A pattern (RE2 syntax, unanchored).
    pub uri_pattern: Option<Name>,
    /// How the read ended; any way by default.
    pub status: Option<Status>,
    /// The read took no longer.
    pub max_duration: Option<Time>,
}

/// Prompts got.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct PromptMatcher {
    /// A name from the MCP config.
    pub server: Name,
    /// Its name.
    pub prompt: Option<Name>,
    /// A pattern (RE2 syntax, unanchored).
    pub prompt_pattern: Option<Name>,
    /// Arguments the call must have, with these values, which are texts.
    pub arguments_match: Option<IndexMap<String, String>>,
    /// How it ended; any way by default.
    pub status: Option<Status>,
    /// It took no longer.
    pub max_duration: Option<Time>,
}

/// How a call went.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase")]
pub enum Status {
    Ok,
    ToolError,
    ProtocolError,
}

/// A call in an order of calls.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct OrderedCall {
    #[schemars(rename = "type")]
    pub kind: CallType,
    /// A name from the MCP config.
    pub server: Name,
    /// Of the tool or the prompt, or the resource's URI.
    pub name: Name,
}

/// What an agent asks a server for.
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
/// Which skills are meant: one by name, or all that a pattern matches.
pub struct SkillMatcher {
    /// Its name.
    pub skill: Option<Name>,
    /// A pattern (RE2 syntax, unanchored).
    pub skill_pattern: Option<Name>,
}
