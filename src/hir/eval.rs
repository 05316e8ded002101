//! Eval, Agent, Oracle and MCP-config files, decoded.

use std::{path::PathBuf, time::Duration};

use indexmap::IndexMap;
use serde_json::Value;

use super::{Arg, Name, Stage, Template};
use crate::source::{FileId, Span, Spanned};

/// An eval: which agent does which tasks with which servers, and what is asserted about its calls (§2 of the upstream
/// behavior).
#[derive(Clone, Debug)]
pub struct Eval {
    pub file: FileId,
    pub dir: PathBuf,
    pub name: Name,
    /// The `config` key; missing parts are reported there.
    pub config: Span,
    pub agent: Option<AgentRef>,
    /// How the agent is isolated from the machine, and what it is granted nevertheless.
    pub isolation: Option<IsolationRef>,
    pub mcp_config: Option<Name>,
    pub judge: Option<JudgeRef>,
    pub extensions: Vec<ExtensionRef>,
    pub extension_options: ExtensionOptions,
    pub sources: Vec<SourceRef>,
    pub skills: Option<Skills>,
    pub world: Option<KubeWorld>,
    pub default_limits: Limits,
    /// For all tasks together.
    pub budget: Budget,
    /// Names of environment variables whose values are secret.
    pub secrets: Vec<Name>,
    pub task_sets: Vec<TaskSet>,
}

/// Limits of tasks that set none of their own: `defaultTaskLimits`.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    pub timeout: Option<Spanned<Duration>>,
    pub cleanup_timeout: Option<Spanned<Duration>>,
    pub bounds: Bounds,
}

/// How much an agent may use.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Bounds {
    /// Input and output tokens.
    pub tokens: Option<u64>,
    /// In the currency of the prices.
    pub cost: Option<f64>,
    pub tool_calls: Option<u64>,
}

impl Bounds {
    /// Fills in missing limits from `other`.
    pub fn or(self, other: &Self) -> Self {
        Self {
            tokens: self.tokens.or(other.tokens),
            cost: self.cost.or(other.cost),
            tool_calls: self.tool_calls.or(other.tool_calls),
        }
    }

    /// Whether nothing is limited.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_none() && self.cost.is_none() && self.tool_calls.is_none()
    }

    /// Formats the limits for people: `1000 tokens`, `5 tool calls`.
    pub fn words(&self) -> Vec<String> {
        let plural = |n: u64, one: &str| if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") };
        let words = [
            self.tokens.map(|n| plural(n, "token")),
            self.cost.map(|n| format!("a cost of {n}")),
            self.tool_calls.map(|n| plural(n, "tool call")),
        ];
        words.into_iter().flatten().collect()
    }
}

/// How much all tasks of an eval may use together.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Budget {
    pub time: Option<Duration>,
    pub bounds: Bounds,
}

/// `{type, path, model}`: an agent, or the agent that acts as judge (§3.1).
#[derive(Clone, Debug)]
pub struct AgentRef {
    pub kind: Name,
    pub path: Option<Name>,
    pub model: Option<Name>,
    pub span: Span,
}

/// The judge of an eval: an agent, or a model that environment variables specify (§3.1 of the upstream behavior).
#[derive(Clone, Debug)]
pub struct JudgeRef {
    pub span: Span,
    pub agent: Option<AgentRef>,
    /// The deprecated form: names of environment variables.
    pub env: Option<JudgeEnv>,
}

/// Names, not values, of the variables that specify a model.
#[derive(Clone, Debug)]
pub struct JudgeEnv {
    pub base_url: Option<Name>,
    pub api_key: Option<Name>,
    pub model_name: Option<Name>,
}

/// An entry of `config.extensions`.
#[derive(Clone, Debug)]
pub struct ExtensionRef {
    pub alias: Name,
    pub package: Option<Name>,
    pub env: Vec<(Name, String)>,
    pub config: Value,
    /// What the eval grants it in a sandbox.
    pub permissions: Permissions,
    pub span: Span,
}

/// What an extension may access in a sandbox beyond its own directory and that of the task, which it may read; or what
/// an agent may access beyond its own directory.
#[derive(Clone, Debug, Default)]
pub struct Permissions {
    pub network: bool,
    /// Paths, relative to the eval; in an agent file, relative to that file.
    pub read: Vec<Name>,
    pub write: Vec<Name>,
    /// Variables of gevals that it receives in addition to its own.
    pub env: Vec<Name>,
}

/// How strictly an agent is isolated from the machine, weakest first.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Debug,
    Default,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    None,
    /// The agent can read the machine, except for what it is judged by, and can write only to its home directory.
    #[default]
    Auto,
    /// The agent can access only its own directory and what it is granted.
    Strict,
}

impl Isolation {
    /// Weakest first.
    pub const ALL: [Self; 3] = [Self::None, Self::Auto, Self::Strict];

    /// The name in files and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Auto => "auto",
            Self::Strict => "strict",
        }
    }
}

/// `isolation`: requested by an agent file, or granted by an eval.
#[derive(Clone, Debug, Default)]
pub struct IsolationRef {
    pub level: Option<Isolation>,
    pub permissions: Permissions,
}

/// How extensions are isolated from the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Sandbox {
    #[default]
    None,
    /// The strongest sandbox available on the machine.
    Auto,
    Landlock,
    Bwrap,
    Docker,
}

impl Sandbox {
    /// The name in an eval.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Auto => "auto",
            Self::Landlock => "landlock",
            Self::Bwrap => "bwrap",
            Self::Docker => "docker",
        }
    }
}

/// The part of a disposable Kubernetes control plane that each run of a task gets: `world: kube`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum KubeWorld {
    /// A namespace in the single control plane of the whole run.
    Namespace,
    /// A control plane of its own.
    Api,
}

impl KubeWorld {
    /// The variables that specify it in a run of a task: the kubeconfig, and the namespace of its context.
    pub const VARIABLES: [&str; 2] = [Self::KUBECONFIG, "KUBE_NAMESPACE"];
    /// The variable that cannot be overridden: no task, server or extension of such an eval reaches another cluster
    /// through its own variables.
    pub const KUBECONFIG: &str = "KUBECONFIG";

    /// The name in an eval.
    pub fn name(self) -> &'static str {
        match self {
            Self::Namespace => "namespace",
            Self::Api => "api",
        }
    }

    /// The name in a sentence.
    pub fn phrase(self) -> &'static str {
        match self {
            Self::Namespace => "namespace",
            Self::Api => "control plane",
        }
    }
}

/// Whether a bundled extension replaces the release that it is made to replace.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Substitute {
    #[default]
    Auto,
    Never,
}

/// A rule that refuses extensions, including copies in the cache.
#[derive(Clone, Debug)]
pub struct Denied {
    pub what: DeniedWhat,
    pub reason: Name,
    pub span: Span,
}

/// What a rule of denial matches.
#[derive(Clone, Debug)]
pub enum DeniedWhat {
    /// A pattern of packages, and the matching versions; without one, all versions.
    Package(globset::GlobMatcher, Option<semver::VersionReq>),
    /// SHA-256 of a file of a release or of a manifest, in hexadecimal.
    Digest(String),
}

/// How extensions are fetched and run: the reserved names of `config.extensions` (`decisions.md` §2).
#[derive(Clone, Debug, Default)]
pub struct ExtensionOptions {
    /// Limits an operation whose step has no `timeout`.
    pub timeout: Option<Spanned<Duration>>,
    pub sandbox: Sandbox,
    /// Patterns of packages; all others are refused.
    pub allowed_sources: Option<Vec<Name>>,
    pub denied: Vec<Denied>,
    pub substitute: Substitute,
    /// The directory for downloads, relative to the directory of the eval.
    pub cache_dir: Option<Name>,
}

/// A repository that contains tasks, and the names of its servers in this eval.
#[derive(Clone, Debug)]
pub struct SourceRef {
    pub name: Name,
    pub repo: Option<Name>,
    pub reference: Option<Name>,
    pub server_mapping: IndexMap<String, Name>,
    pub span: Span,
}

/// Skills that the agent may read before it works.
#[derive(Clone, Debug)]
pub struct Skills {
    pub span: Span,
    pub sources: Vec<Name>,
}

/// A selection of tasks: by `path` or `glob`, within a `source`, with these labels.
#[derive(Clone, Debug)]
pub struct TaskSet {
    pub path: Option<Name>,
    pub glob: Option<Name>,
    pub source: Option<Name>,
    pub selector: IndexMap<String, Name>,
    pub assertions: Option<Assertions>,
}

/// One assertion set (§5.5); several may apply to one task.
#[derive(Clone, Debug)]
pub struct Assertions {
    pub items: Vec<Assertion>,
}

/// One key of an assertion set.
#[derive(Clone, Debug)]
pub struct Assertion {
    pub key: Name,
    pub span: Span,
    pub kind: AssertionKind,
}

/// A requirement on the calls of the agent (§5.5 of the upstream behavior).
#[derive(Clone, Debug)]
pub enum AssertionKind {
    /// `toolsUsed`, `resourcesRead`, `promptsUsed`: every matcher matches a call.
    AllUsed(CallKind, Vec<CallMatcher>),
    /// `requireAny`: at least one matcher matches a call.
    AnyUsed(CallKind, Vec<CallMatcher>),
    /// `toolsNotUsed`, `resourcesNotRead`, `promptsNotUsed`: no matcher matches any call.
    NoneUsed(CallKind, Vec<CallMatcher>),
    MinToolCalls(u64),
    MaxToolCalls(u64),
    CallOrder(Vec<OrderedCall>),
    NoDuplicateCalls(bool),
    SkillsLoaded(Vec<SkillMatcher>),
    SkillsNotLoaded(Vec<SkillMatcher>),
}

/// An answer that an agent receives instead of the server's, to test whether the task detects it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WrongAnswer {
    /// Index among the agent's calls, from 0, in the order in which they started.
    pub call: usize,
    pub kind: WrongKind,
}

/// The fault of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WrongKind {
    /// An error; the server does not receive the request.
    Error,
    /// No content.
    Empty,
    /// The answer to this earlier call, from 0.
    Of(usize),
}

/// What an agent requests from a server.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CallKind {
    Tool,
    Resource,
    Prompt,
}

impl CallKind {
    /// The name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Resource => "resource",
            Self::Prompt => "prompt",
        }
    }
}

/// Which calls match. With neither a name nor a pattern: any call of that kind to the server.
#[derive(Clone, Debug)]
pub struct CallMatcher {
    pub span: Span,
    pub server: Name,
    /// The exact name of a tool or prompt, or a URI.
    pub name: Option<Name>,
    /// RE2 syntax, unanchored; if `name` is set as well, either may match.
    pub pattern: Option<Name>,
    /// Every key listed must be present with this value (`decisions.md` §7).
    pub arguments: Option<Spanned<Value>>,
    /// The span of each of them.
    pub argument_places: Vec<(Name, Span)>,
    pub status: Option<Spanned<CallStatus>>,
    pub max_duration: Option<Spanned<Duration>>,
}

/// How a call ended, as assertions name it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum CallStatus {
    Ok,
    /// The tool answered `isError: true`.
    ToolError,
    /// The call did not get a result.
    ProtocolError,
}

/// One entry of `callOrder`.
#[derive(Clone, Debug)]
pub struct OrderedCall {
    pub span: Span,
    pub kind: CallKind,
    pub server: Name,
    pub name: Name,
}

/// A skill by its name, or names by a pattern in RE2 syntax.
#[derive(Clone, Debug)]
pub struct SkillMatcher {
    pub span: Span,
    pub skill: Option<Name>,
    pub pattern: Option<Name>,
}

/// The MCP-config file (§4.1).
#[derive(Clone, Debug)]
pub struct McpConfig {
    pub file: FileId,
    pub dir: PathBuf,
    pub servers: Vec<Server>,
}

/// A server of the MCP-config file (§4.1).
#[derive(Clone, Debug)]
pub struct Server {
    pub name: Name,
    pub transport: Transport,
    pub disabled: bool,
    pub always_allow: Vec<Name>,
    pub enable_all_tools: Option<Spanned<bool>>,
}

impl Server {
    /// Whether an agent may call `tool` (§4.3).
    pub fn allows(&self, tool: &str) -> bool {
        self.enable_all_tools.is_some_and(|e| e.value) || self.always_allow.iter().any(|t| t.value == tool)
    }
}

/// How a server is reached.
#[derive(Clone, Debug)]
pub enum Transport {
    Stdio { command: Expand, args: Vec<Expand>, env: Vec<(Name, Expand)> },
    Http { url: Expand, headers: Vec<(Name, Expand)> },
}

/// Text in which `${VAR}` and `${VAR:-default}` are expanded when the run starts (`decisions.md` §2).
#[derive(Clone, Debug)]
pub struct Expand {
    pub span: Span,
    pub parts: Vec<ExpandPart>,
}

/// A piece of an [`Expand`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ExpandPart {
    Text(String),
    Var { name: String, default: Option<String> },
}

impl Expand {
    /// Returns the text with every variable expanded.
    ///
    /// # Errors
    /// The name of the first variable that is not set and has no default.
    pub fn fill(&self, lookup: impl Fn(&str) -> Option<String>) -> Result<String, String> {
        let parts = self.parts.iter().map(|part| match part {
            ExpandPart::Text(text) => Ok(text.clone()),
            ExpandPart::Var { name, default } => lookup(name).or_else(|| default.clone()).ok_or_else(|| name.clone()),
        });
        parts.collect()
    }

    /// Returns the text as written.
    pub fn display(&self) -> String {
        let parts = self.parts.iter().map(|part| match part {
            ExpandPart::Text(text) => text.clone(),
            ExpandPart::Var { name, default: None } => format!("${{{name}}}"),
            ExpandPart::Var { name, default: Some(value) } => format!("${{{name}:-{value}}}"),
        });
        parts.collect()
    }

    /// Whether the text contains environment variables.
    pub fn has_variables(&self) -> bool {
        self.parts.iter().any(|p| matches!(p, ExpandPart::Var { .. }))
    }
}

/// An Agent file (§3.2).
#[derive(Clone, Debug)]
pub struct Agent {
    pub file: FileId,
    pub dir: PathBuf,
    pub name: Option<Name>,
    pub version: Option<Name>,
    pub builtin: Option<BuiltinAgent>,
    pub acp: Option<AcpAgent>,
    pub commands: Option<ShellAgent>,
    /// The isolation that it requests.
    pub isolation: Option<IsolationRef>,
    pub skills: Option<AgentSkills>,
}

/// An agent file's `builtin`: an agent that is part of gevals (§3.2).
#[derive(Clone, Debug)]
pub struct BuiltinAgent {
    pub span: Span,
    pub kind: Option<Name>,
    pub model: Option<Name>,
    pub base_url: Option<Name>,
    pub api_key: Option<Name>,
}

/// A model that gevals calls directly (§3.6).
#[derive(Clone, Debug)]
pub struct ModelAgent {
    pub provider: Provider,
    /// The provider's name for it.
    pub model: String,
    /// Used if the environment specifies none.
    pub base_url: Option<Name>,
    /// The environment variable that contains its key.
    pub api_key: Option<Name>,
    /// Whether the two fields above override the environment.
    pub meant: bool,
}

/// The provider whose protocol a model speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    OpenAi,
    Anthropic,
    Gemini,
}

impl Provider {
    /// The allowed prefixes before the `:` of a model, including aliases.
    pub const NAMES: [&str; 4] = ["openai", "anthropic", "gemini", "google"];

    /// Returns the provider with this name.
    pub fn of(name: &str) -> Option<Self> {
        match name {
            "openai" => Some(Self::OpenAi),
            "anthropic" => Some(Self::Anthropic),
            "gemini" | "google" => Some(Self::Gemini),
            _ => None,
        }
    }

    /// The name that gevals writes.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
        }
    }
}

/// A program that implements the Agent Client Protocol on its standard streams (§3.5).
#[derive(Clone, Debug)]
pub struct AcpAgent {
    pub span: Span,
    /// A program on `PATH`, or a path relative to the agent file.
    pub command: Name,
    pub args: Vec<Name>,
    pub dir: PathBuf,
}

/// A command line per prompt, as templates (§3.4).
#[derive(Clone, Debug)]
pub struct ShellAgent {
    pub span: Span,
    pub mcp_server_arg: Option<Name>,
    pub allowed_tool_arg: Option<Name>,
    pub allowed_tools_separator: Option<Name>,
    pub run_prompt: Option<Name>,
    pub use_virtual_home: Option<Spanned<bool>>,
    pub get_version: Option<Name>,
}

/// Format version of recordings; it is increased when older readers would misread the new format.
pub const RECORDING_VERSION: u32 = 1;

/// How an agent reads skills.
#[derive(Clone, Debug)]
pub struct AgentSkills {
    pub span: Span,
    /// The directory in which it searches for them, relative to its own.
    pub mount_path: Option<Name>,
    /// Its own tool for reading a skill.
    pub tool_name: Option<Name>,
}

/// What the scripted agent does for each task (`decisions.md` §8).
#[derive(Clone, Debug)]
pub struct Oracle<H: Stage> {
    pub file: FileId,
    pub tasks: Vec<OracleTask<H>>,
}

/// The entry for one task.
#[derive(Clone, Debug)]
pub struct OracleTask<H: Stage> {
    pub task: Name,
    pub span: Span,
    pub calls: Vec<OracleCall<H>>,
    pub output: Option<Template<H>>,
}

/// One MCP request; its values are templates in the scope of the prompt.
#[derive(Clone, Debug)]
pub struct OracleCall<H: Stage> {
    pub span: Span,
    pub kind: CallKind,
    pub server: Name,
    /// The name of a tool or prompt, or a resource URI, which may contain holes.
    pub name: Template<H>,
    pub args: Vec<(Name, Arg<H>)>,
}
