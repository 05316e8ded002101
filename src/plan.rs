//! What a run would do: an inert, directed acyclic graph of actions, made from a checked task by a lowering that cannot
//! fail, executed by `run` and by nothing else.
//!
//! Property: *the set of executed actions is a subset of the planned ones.* A plan serialises to a documented, versioned
//! form ([`wire`]), has a digest, renders and diffs.

mod bound;
mod canonical;
pub mod diff;
mod lower;
pub mod reach;
pub mod wire;

pub use bound::worst_case;
pub use lower::{Context, lower};

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use indexmap::IndexMap;
use petgraph::stable_graph::{NodeIndex, StableDiGraph};

use crate::{
    hir::{
        AcpAgent, Agent, AgentRef, Arg, Assertion, AssertionKind, BlockRole, Bounds, Budget, Def, Dialect, JudgeEnv,
        ModelAgent, Name, Operation, OracleCall, Provider, Server, ShellAgent, Template,
    },
    source::Span,
    ty::endpoint,
};

pub type ActionIx = NodeIndex<u32>;
pub type Graph = StableDiGraph<Action, Edge>;

/// The plan of one task under one eval (or under none).
#[derive(Clone, Debug)]
pub struct Plan {
    pub task: PlannedTask,
    pub graph: Graph,
    /// Top-level actions in execution order; cleanup's order is the dialect's.
    pub setup: Vec<ActionIx>,
    pub agent: ActionIx,
    pub verify: Vec<ActionIx>,
    pub assertions: Vec<ActionIx>,
    pub cleanup: Vec<ActionIx>,
    /// `spec.env` in dependency order.
    pub env: Vec<(String, Template<Def>)>,
    /// Variables of gevals' own environment that holes read: a missing one fails before the run starts, unless every
    /// hole that reads it has a default.
    pub process_env: IndexMap<String, ProcessVariable>,
    /// Programs that must be on PATH (`requires: [{command}]`).
    pub commands: Vec<Name>,
    /// Servers the task's steps call.
    pub step_servers: Vec<String>,
    /// SHA-256 of every file the task refers to, by path.
    pub files: IndexMap<PathBuf, String>,
    pub timeout: Duration,
    pub cleanup_timeout: Duration,
    /// What the agent may use.
    pub bounds: Bounds,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProcessVariable {
    pub required: bool,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub struct PlannedTask {
    pub name: Name,
    pub path: PathBuf,
    /// The folder commands run in.
    pub dir: PathBuf,
    pub dialect: Dialect,
    pub difficulty: Option<String>,
    pub labels: IndexMap<String, String>,
    /// What a command line selects by, besides labels; no part of the digest.
    pub tags: Vec<String>,
    pub parallel: bool,
    pub runs: u32,
    /// How many of how many runs must pass, where not all.
    pub gate: Option<(u32, u32)>,
    /// Neither a verify step nor an assertion: it cannot pass (`decisions.md` §5).
    pub unchecked: bool,
}

impl PlannedTask {
    /// The task's folder as a path that processes can be given: to the operating system, no path at all is no folder.
    pub fn folder(&self) -> &Path {
        if self.dir.as_os_str().is_empty() { Path::new(".") } else { &self.dir }
    }
}

/// One thing that may happen.
#[derive(Clone, Debug)]
pub struct Action {
    /// `PHASE/ID` or `PHASE/INDEX`, nested by `/` (`decisions.md` §10); unique in a plan.
    pub id: String,
    pub phase: PlanPhase,
    pub kind: ActionKind,
    /// One line for people: what it does.
    pub meaning: String,
    pub timeout: Option<Duration>,
    pub continue_on_error: bool,
    /// Nested actions, by block, in execution order.
    pub blocks: Vec<PlanBlock>,
    pub span: Span,
}

/// The id of the planned action behind an executed one: without `[round]` and `#attempt`.
pub fn planned_id(executed: &str) -> String {
    let mut out = String::new();
    let mut skip = false;
    for c in executed.chars() {
        match c {
            '[' | '#' => skip = true,
            ']' => skip = false,
            '/' => {
                skip = false;
                out.push(c);
            }
            _ if skip => {}
            _ => out.push(c),
        }
    }
    out
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum PlanPhase {
    Setup,
    Agent,
    Verify,
    Assert,
    Cleanup,
}

impl PlanPhase {
    pub fn name(self) -> &'static str {
        match self {
            Self::Setup => "setup",
            Self::Agent => "agent",
            Self::Verify => "verify",
            Self::Assert => "assert",
            Self::Cleanup => "cleanup",
        }
    }
}

#[derive(Clone, Debug)]
pub struct PlanBlock {
    pub role: BlockRole,
    pub actions: Vec<ActionIx>,
}

#[derive(Clone, Debug)]
pub enum ActionKind {
    Step(StepAction),
    Agent(AgentAction),
    Assertion(Assertion),
}

#[derive(Clone, Debug)]
pub struct StepAction {
    /// The author's id; what holes refer to (in the steps dialect the step's type).
    pub id: Option<String>,
    pub op: Operation,
    pub args: Vec<(Name, Arg<Def>)>,
    pub expect: Option<Arg<Def>>,
    /// `None`: the operation's own values are offered.
    pub outputs: Option<Vec<(Name, Arg<Def>)>>,
    /// The loop variable of a `foreach`.
    pub var: Option<String>,
}

/// The agent's turn.
#[derive(Clone, Debug)]
pub struct AgentAction {
    pub prompt: Template<Def>,
    pub kind: AgentKind,
    pub skills: Option<SkillMount>,
}

/// What an agent is given to read before it works.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SkillMount {
    /// Folders; of two files with one name the later one's counts.
    pub sources: Vec<PathBuf>,
    /// Within the agent's folder.
    pub path: String,
    /// The agent's own tool that reads one.
    pub tool: String,
}

/// Which agent, as far as the plan knows it.
#[derive(Clone, Debug)]
pub enum AgentKind {
    /// `builtin.noop`.
    Noop,
    /// `builtin.script`, with what it does in this task; `None` where the oracle has no entry: the task is broken.
    Script { calls: Vec<OracleCall<Def>>, output: Option<Template<Def>>, entry: bool },
    /// `type: file` with `commands`.
    Shell(ShellAgent),
    /// `builtin.replay`, from a recording that an earlier run has made.
    Replay { path: PathBuf },
    /// `builtin.llm-agent`.
    Model(ModelAgent),
    /// A program that speaks the Agent Client Protocol.
    Acp(AcpAgent),
    /// `builtin.claude-code`, with the model that was asked for.
    ClaudeCode { model: Option<String> },
    /// No eval: the plan shows an agent that nobody named.
    Unspecified,
}

impl AgentKind {
    /// What a reference means, to the agent of an eval or to its judge; `file` is the agent file that it names. `None` where
    /// an error was found, and for what only an eval's agent can be: a script, a replay.
    pub fn of(reference: &AgentRef, file: Option<&Agent>) -> Option<Self> {
        let (kind, model) = (reference.kind.value.as_str(), reference.model.as_ref());
        match (kind, file) {
            ("builtin.noop", _) => Some(Self::Noop),
            ("builtin.script" | "builtin.replay", _) => None,
            ("file", Some(file)) => match (&file.builtin, &file.acp) {
                (Some(builtin), _) => match builtin.kind.as_ref()?.value.as_str() {
                    kind @ ("llm-agent" | "openai-agent" | "openai-acp") => {
                        let own = builtin.model.as_ref().and_then(|own| model_agent(kind, own));
                        let model = model_agent(kind, model.or(builtin.model.as_ref())?)?;
                        // The endpoint of one provider, and its key, are nothing for a model of another.
                        if own.is_some_and(|own| own.provider != model.provider) {
                            return Some(Self::Model(model));
                        }
                        let (base_url, api_key) = (builtin.base_url.clone(), builtin.api_key.clone());
                        Some(Self::Model(ModelAgent { base_url, api_key, ..model }))
                    }
                    "claude-code" => Some(Self::claude_code(model.or(builtin.model.as_ref()))),
                    _ => None,
                },
                (None, Some(acp)) => Some(Self::Acp(acp.clone())),
                (None, None) => Some(Self::Shell(file.commands.clone()?)),
            },
            ("file", None) => None,
            ("builtin.llm-agent" | "builtin.openai-agent" | "builtin.openai-acp", _) => {
                Some(Self::Model(model_agent(kind, model?)?))
            }
            ("builtin.claude-code", _) => Some(Self::claude_code(model)),
            _ => None,
        }
    }

    fn claude_code(model: Option<&Name>) -> Self {
        Self::ClaudeCode { model: model.map(|m| m.value.clone()) }
    }

    /// Whether the other one is asked the same way, as far as anybody can tell: the same model, or the same command line.
    pub fn is_same(&self, other: &Self) -> bool {
        let text = |name: &Option<Name>| name.as_ref().map(|n| n.value.clone()).unwrap_or_default();
        let word = |names: &[Name]| names.iter().map(|n| n.value.clone()).collect::<Vec<_>>();
        match (self, other) {
            (Self::Model(one), Self::Model(other)) => {
                // Without an endpoint of its own it is that of the environment, which may be any.
                let elsewhere = one.base_url.is_some() && other.base_url.is_some();
                (one.provider, &one.model) == (other.provider, &other.model)
                    && (!elsewhere || text(&one.base_url) == text(&other.base_url))
            }
            (Self::Acp(one), Self::Acp(other)) => {
                let in_dir = |agent: &AcpAgent| agent.command.value.contains('/').then(|| agent.dir.clone());
                one.command.value == other.command.value
                    && word(&one.args) == word(&other.args)
                    && in_dir(one) == in_dir(other)
            }
            (Self::Shell(one), Self::Shell(other)) => text(&one.run_prompt) == text(&other.run_prompt),
            (Self::ClaudeCode { model: one }, Self::ClaudeCode { model: other }) => {
                let bare = |model: &Option<String>| {
                    model.as_ref().map(|m| m.strip_prefix("anthropic:").unwrap_or(m).to_owned())
                };
                // Without a name it is the one that is configured, which may be any.
                one.is_none() || other.is_none() || bare(one) == bare(other)
            }
            _ => false,
        }
    }

    /// Whether it is a process, with a client of MCP of its own.
    pub fn is_process(&self) -> bool {
        matches!(self, Self::Shell(_) | Self::Acp(_) | Self::ClaudeCode { .. })
    }
}

/// A model without a provider is OpenAI's where the agent has an old name.
fn model_agent(kind: &str, model: &Name) -> Option<ModelAgent> {
    let (provider, model) = match model.value.split_once(':') {
        Some((provider, model)) => (Provider::of(provider)?, model),
        None if kind.contains("openai") => (Provider::OpenAi, model.value.as_str()),
        None => return None,
    };
    let model = model.to_owned();
    (!model.is_empty()).then_some(ModelAgent { provider, model, base_url: None, api_key: None, meant: false })
}

/// Who judges answers.
#[derive(Clone, Debug)]
pub struct Judge {
    /// Of the agent file, else its type.
    pub name: String,
    /// As the eval refers to it, with the model that its file names; of the deprecated form, what it means.
    pub agent: AgentRef,
    pub kind: AgentKind,
    /// The variables of the deprecated form, which decide when the run starts.
    pub env: Option<JudgeEnv>,
}

impl Judge {
    /// Its model, from the reference or from its file.
    pub fn model(&self) -> Option<&str> {
        self.agent.model.as_ref().map(|model| model.value.as_str())
    }

    /// Name and model, for people.
    pub fn title(&self) -> String {
        match self.model() {
            Some(model) => format!("{} ({model})", self.name),
            None => self.name.clone(),
        }
    }

    /// With what the variables of the deprecated form hold (§2.2 of the upstream behaviour).
    ///
    /// # Errors
    /// The variables that are not set, or a model that nobody speaks to.
    pub fn resolved(&self, lookup: &dyn Fn(&str) -> Option<String>) -> Result<Self, Vec<String>> {
        let Some(JudgeEnv { base_url: Some(base_url), api_key: Some(api_key), model_name: Some(model_name) }) =
            &self.env
        else {
            return Ok(self.clone());
        };
        let value = |name: &Name| lookup(&name.value).filter(|value| !value.is_empty());
        let (Some(url), Some(_), Some(model)) = (value(base_url), value(api_key), value(model_name)) else {
            let unset = [base_url, api_key, model_name].into_iter().filter(|name| value(name).is_none());
            return Err(unset.map(|name| format!("the judge needs `${}`, which is not set", name.value)).collect());
        };
        let model = Name::new(if model.contains(':') { model } else { format!("openai:{model}") }, model_name.span);
        let Some(agent) = model_agent("llm-agent", &model) else {
            return Err(vec![format!("the judge's model `{}` is of no provider that gevals speaks to", model.value)]);
        };
        if let Some(why) = endpoint::fault(&endpoint::without_user(url.trim())) {
            return Err(vec![format!("`{}` is not the URL of an endpoint: {why}", base_url.value)]);
        }
        let (base_url, api_key) = (Some(Name::new(url, base_url.span)), Some(api_key.clone()));
        let agent = ModelAgent { base_url, api_key, meant: true, ..agent };
        let reference = AgentRef { model: Some(model), ..self.agent.clone() };
        Ok(Self { agent: reference, kind: AgentKind::Model(agent), ..self.clone() })
    }
}

/// How one action depends on another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Edge {
    /// Runs after it.
    Order,
    /// Uses its output of this name.
    Data(String),
    /// Is owed once it has started.
    Finally,
    /// Is a branch of it.
    Branch,
}

/// The plan of a whole eval.
#[derive(Clone, Debug)]
pub struct EvalPlan {
    pub name: String,
    pub path: PathBuf,
    pub agent: Option<AgentRef>,
    pub agent_name: String,
    /// Enabled servers, by name.
    pub servers: Vec<Server>,
    /// The folder server commands run in.
    pub dir: PathBuf,
    pub judge: Option<Judge>,
    /// What all tasks may use together.
    pub budget: Budget,
    /// The model of the agent, as far as it is known.
    pub model: Option<String>,
    /// Names of environment variables whose values are secret.
    pub secrets: Vec<String>,
    /// In the order of collection; those not `parallel` run first, one by one.
    pub tasks: Vec<Plan>,
}

/// Default bound of setup, agent and verify together (`portable-format.md`).
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(300);
/// Default bound of cleanup.
pub const DEFAULT_CLEANUP_TIMEOUT: Duration = Duration::from_secs(300);
/// Bound of both in the dialects that have no default, where neither task nor eval sets one: nothing runs for ever.
pub const UNSET_TIMEOUT: Duration = Duration::from_secs(3600);

impl Plan {
    pub fn action(&self, ix: ActionIx) -> &Action {
        &self.graph[ix]
    }

    /// How many of its steps ask the judge.
    pub fn judgements(&self) -> usize {
        let judges = |action: &&Action| matches!(&action.kind, ActionKind::Step(step) if step.op.signature.judges);
        self.graph.node_weights().filter(judges).count()
    }

    /// Whether a judge decides it, and nothing else.
    pub fn rests_on_judge(&self) -> bool {
        let mut leaves: Vec<ActionIx> = self.verify.clone();
        let mut judged = false;
        while let Some(ix) = leaves.pop() {
            let action = self.action(ix);
            match &action.kind {
                _ if !action.blocks.is_empty() => leaves.extend(action.blocks.iter().flat_map(|b| &b.actions)),
                ActionKind::Step(step) if step.op.signature.judges => judged = true,
                _ => return false,
            }
        }
        judged && self.assertions.is_empty()
    }

    /// Whether an assertion demands that the agent calls nothing.
    pub fn forbids_calls(&self) -> bool {
        let none = |ix: &ActionIx| match &self.action(*ix).kind {
            ActionKind::Assertion(assertion) => matches!(assertion.kind, AssertionKind::MaxToolCalls(0)),
            _ => false,
        };
        self.assertions.iter().any(none)
    }

    /// Every action, in execution order, nested ones behind the action that holds them.
    pub fn walk<'a>(&'a self, visit: &mut dyn FnMut(usize, ActionIx, &'a Action)) {
        let agent = std::slice::from_ref(&self.agent);
        for &ix in self.setup.iter().chain(agent).chain(&self.verify).chain(&self.assertions).chain(&self.cleanup) {
            self.walk_from(0, ix, visit);
        }
    }

    fn walk_from<'a>(&'a self, depth: usize, ix: ActionIx, visit: &mut dyn FnMut(usize, ActionIx, &'a Action)) {
        let action = &self.graph[ix];
        visit(depth, ix, action);
        for &inner in action.blocks.iter().flat_map(|b| &b.actions) {
            self.walk_from(depth + 1, inner, visit);
        }
    }
}
