//! Eval, Agent, Oracle and MCP-config files, decoded.

use std::{path::PathBuf, time::Duration};

use indexmap::IndexMap;
use serde_json::Value;

use super::{Arg, Name, Stage, Template};
use crate::source::{FileId, Span, Spanned};

/// An eval: which agent does which tasks on which servers, and what is asserted of its calls (§2 of the upstream
/// behaviour).
#[derive(Clone, Debug)]
pub struct Eval {
    pub file: FileId,
    pub dir: PathBuf,
    pub name: Name,
    /// The `config` key, where missing parts are reported.
    pub config: Span,
    pub agent: Option<AgentRef>,
    /// What keeps the agent apart from the machine, and what it is granted all the same.
    pub isolation: Option<IsolationRef>,
    pub mcp_config: Option<Name>,
    pub judge: Option<JudgeRef>,
    pub extensions: Vec<ExtensionRef>,
    pub extension_options: ExtensionOptions,
    pub sources: Vec<SourceRef>,
    pub skills: Option<Skills>,
    pub world: Option<KubeWorld>,
    pub default_limits: Limits,
    /// Of all tasks together.
    pub budget: Budget,
    /// Names of environment variables whose values are secret.
    pub secrets: Vec<Name>,
    pub task_sets: Vec<TaskSet>,
}

/// What holds for a task that sets no limits of its own: `defaultTaskLimits`.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    pub timeout: Option<Spanned<Duration>>,
    pub cleanup_timeout: Option<Spanned<Duration>>,
    pub bounds: Bounds,
}

/// What an agent may use.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Bounds {
    /// Read and written.
    pub tokens: Option<u64>,
    /// In the currency of the prices.
    pub cost: Option<f64>,
    pub tool_calls: Option<u64>,
}

impl Bounds {
    /// What is missing, from others.
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

    /// `1000 tokens`, `5 tool calls`, for people.
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

/// What all tasks of an eval may use together.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Budget {
    pub time: Option<Duration>,
    pub bounds: Bounds,
}

/// `{type, path, model}`: an agent, or the agent that judges (§3.1).
#[derive(Clone, Debug)]
pub struct AgentRef {
    pub kind: Name,
    pub path: Option<Name>,
    pub model: Option<Name>,
    pub span: Span,
}

/// The judge of an eval: an agent, or a model that variables name (§3.1 of the upstream behaviour).
#[derive(Clone, Debug)]
pub struct JudgeRef {
    pub span: Span,
    pub agent: Option<AgentRef>,
    /// The deprecated form: names of environment variables.
    pub env: Option<JudgeEnv>,
}

/// Names of the variables that name a model: not their values.
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

/// What an extension may do in a sandbox beyond its own folder and that of the task, which it may read; or an agent beyond its own
/// folder.
#[derive(Clone, Debug, Default)]
pub struct Permissions {
    pub network: bool,
    /// Paths, relative to the eval; where an agent file asks, to that.
    pub read: Vec<Name>,
    pub write: Vec<Name>,
    /// Variables of gevals that it gets besides its own.
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

    /// As files and results write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Auto => "auto",
            Self::Strict => "strict",
        }
    }
}

/// `isolation`: of an agent file, which asks for it, or of an eval, which grants it.
#[derive(Clone, Debug, Default)]
pub struct IsolationRef {
    pub level: Option<Isolation>,
    pub permissions: Permissions,
}

/// What keeps extensions apart from the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Sandbox {
    #[default]
    None,
    /// The strongest that the machine has.
    Auto,
    Landlock,
    Bwrap,
    Docker,
}

impl Sandbox {
    /// As an eval writes it.
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

/// What each run of a task has of a disposable Kubernetes control plane: `world: kube`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum KubeWorld {
    /// A namespace of the one control plane of the run.
    Namespace,
    /// A control plane of its own.
    Api,
}

impl KubeWorld {
    /// The variables by which everything in a run of a task finds it: the kubeconfig, and the namespace of its context.
    pub const VARIABLES: [&str; 2] = [Self::KUBECONFIG, "KUBE_NAMESPACE"];
    /// The one that nothing replaces: no task, server or extension of such an eval reaches another cluster by its own variables.
    pub const KUBECONFIG: &str = "KUBECONFIG";

    /// As an eval writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Namespace => "namespace",
            Self::Api => "api",
        }
    }

    /// In a sentence.
    pub fn phrase(self) -> &'static str {
        match self {
            Self::Namespace => "namespace",
            Self::Api => "control plane",
        }
    }
}

/// Whether a bundled extension stands in for a release that it is made to replace.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Substitute {
    #[default]
    Auto,
    Never,
}

/// Extensions that are refused, copies in the cache too.
#[derive(Clone, Debug)]
pub struct Denied {
    pub what: DeniedWhat,
    pub reason: Name,
    pub span: Span,
}

/// What a denial is about.
#[derive(Clone, Debug)]
pub enum DeniedWhat {
    /// A pattern of packages, and which versions of them; all where there is none.
    Package(globset::GlobMatcher, Option<semver::VersionReq>),
    /// SHA-256 of a file of a release or of a manifest, in hex.
    Digest(String),
}

/// How extensions are fetched and run: the reserved names of `config.extensions` (`decisions.md` §2).
#[derive(Clone, Debug, Default)]
pub struct ExtensionOptions {
    /// Bounds an operation whose step has no `timeout`.
    pub timeout: Option<Spanned<Duration>>,
    pub sandbox: Sandbox,
    /// Patterns of packages; others are refused.
    pub allowed_sources: Option<Vec<Name>>,
    pub denied: Vec<Denied>,
    pub substitute: Substitute,
    /// Where downloads are kept, from the eval's folder.
    pub cache_dir: Option<Name>,
}

/// A repository that tasks come from, and the names that its servers have in this eval.
#[derive(Clone, Debug)]
pub struct SourceRef {
    pub name: Name,
    pub repo: Option<Name>,
    pub reference: Option<Name>,
    pub server_mapping: IndexMap<String, Name>,
    pub span: Span,
}

/// What the agent may read before it works.
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

/// What is demanded of the calls of the agent (§5.5 of the upstream behaviour).
#[derive(Clone, Debug)]
pub enum AssertionKind {
    /// `toolsUsed`, `resourcesRead`, `promptsUsed`: every matcher matches a call.
    AllUsed(CallKind, Vec<CallMatcher>),
    /// `requireAny`: some matcher matches a call.
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

/// An answer that an agent is given in the place of the server's, to see whether the task notices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WrongAnswer {
    /// Of the agent's calls, from 0, in the order of their start.
    pub call: usize,
    pub kind: WrongKind,
}

/// What is wrong with an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WrongKind {
    /// It is an error, and the server was never asked.
    Error,
    /// It has no content.
    Empty,
    /// It is that of this earlier call, from 0.
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
    /// As messages write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Resource => "resource",
            Self::Prompt => "prompt",
        }
    }
}

/// Which calls are meant. Neither a name nor a pattern: any call of that kind to the server.
#[derive(Clone, Debug)]
pub struct CallMatcher {
    pub span: Span,
    pub server: Name,
    /// Tool, URI or prompt name, exactly.
    pub name: Option<Name>,
    /// RE2 syntax, unanchored; with `name` too, either may match.
    pub pattern: Option<Name>,
    /// Every key given must be there with this value (`decisions.md` §7).
    pub arguments: Option<Spanned<Value>>,
    /// Where each of them stands, and its value.
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
    /// The text with every variable looked up.
    ///
    /// # Errors
    /// The name of the first variable that is neither set nor has a default.
    pub fn fill(&self, lookup: impl Fn(&str) -> Option<String>) -> Result<String, String> {
        let parts = self.parts.iter().map(|part| match part {
            ExpandPart::Text(text) => Ok(text.clone()),
            ExpandPart::Var { name, default } => lookup(name).or_else(|| default.clone()).ok_or_else(|| name.clone()),
        });
        parts.collect()
    }

    /// As written.
    pub fn display(&self) -> String {
        let parts = self.parts.iter().map(|part| match part {
            ExpandPart::Text(text) => text.clone(),
            ExpandPart::Var { name, default: None } => format!("${{{name}}}"),
            ExpandPart::Var { name, default: Some(value) } => format!("${{{name}:-{value}}}"),
        });
        parts.collect()
    }

    /// Whether a variable of the environment is expanded in it.
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
    /// What it asks for.
    pub isolation: Option<IsolationRef>,
    pub skills: Option<AgentSkills>,
}

/// An agent file's `builtin`: an agent that gevals brings along (§3.2).
#[derive(Clone, Debug)]
pub struct BuiltinAgent {
    pub span: Span,
    pub kind: Option<Name>,
    pub model: Option<Name>,
    pub base_url: Option<Name>,
    pub api_key: Option<Name>,
}

/// A model that is spoken to directly (§3.6).
#[derive(Clone, Debug)]
pub struct ModelAgent {
    pub provider: Provider,
    /// As the provider calls it.
    pub model: String,
    /// Where the environment names none.
    pub base_url: Option<Name>,
    /// The environment variable that contains its key.
    pub api_key: Option<Name>,
    /// Whether these two are meant, whatever the environment names.
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
    /// What may stand before the `:` of a model, aliases included.
    pub const NAMES: [&str; 4] = ["openai", "anthropic", "gemini", "google"];

    /// The provider that a name means.
    pub fn of(name: &str) -> Option<Self> {
        match name {
            "openai" => Some(Self::OpenAi),
            "anthropic" => Some(Self::Anthropic),
            "gemini" | "google" => Some(Self::Gemini),
            _ => None,
        }
    }

    /// As gevals writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
        }
    }
}

/// A program that speaks the Agent Client Protocol on its standard streams (§3.5).
#[derive(Clone, Debug)]
pub struct AcpAgent {
    pub span: Span,
    /// On the PATH, or a path from the agent file.
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

/// Of the lines of a recording; it grows when a reader of the old form would misread the new one.
pub const RECORDING_VERSION: u32 = 1;

/// How an agent takes skills.
#[derive(Clone, Debug)]
pub struct AgentSkills {
    pub span: Span,
    /// Where it looks for them, from its folder.
    pub mount_path: Option<Name>,
    /// Its own tool that reads one.
    pub tool_name: Option<Name>,
}

/// What the scripted agent does for each task (`decisions.md` §8).
#[derive(Clone, Debug)]
pub struct Oracle<H: Stage> {
    pub file: FileId,
    pub tasks: Vec<OracleTask<H>>,
}

/// What is done for one task.
#[derive(Clone, Debug)]
pub struct OracleTask<H: Stage> {
    pub task: Name,
    pub span: Span,
    pub calls: Vec<OracleCall<H>>,
    pub output: Option<Template<H>>,
}

/// One request of MCP; its values are templates in the scope of the prompt.
#[derive(Clone, Debug)]
pub struct OracleCall<H: Stage> {
    pub span: Span,
    pub kind: CallKind,
    pub server: Name,
    /// Tool, resource URI or prompt name; a resource URI may have holes.
    pub name: Template<H>,
    pub args: Vec<(Name, Arg<H>)>,
}
