//! What a run would do: an inert, directed acyclic graph. A lowering that cannot fail makes it from a checked task, and only `run`
//! executes it.
//!
//! The graph is the whole plan: phases, actions and blocks are its nodes; its edges say what contains what, what runs after what,
//! and which values flow. Everything else about a plan is derived from it.
//!
//! Property: *the set of executed actions is a subset of the planned ones.* A plan serializes to a documented, versioned form
//! ([`wire`]), has a digest, and can be rendered and compared with another plan.

mod bound;
pub mod diff;
mod lower;
pub mod mutant;
mod order;
pub mod reach;
pub mod why;
pub mod wire;

pub use bound::{LEAST_CLEANUP, worst_case};
pub use lower::{Context, lower};
pub use order::Agenda;

use std::{
    collections::{BTreeSet, HashMap},
    path::{Path, PathBuf},
    time::Duration,
};

use indexmap::{IndexMap, IndexSet};
use petgraph::{
    Direction,
    graph::{DiGraph, NodeIndex},
    visit::EdgeRef,
};

use crate::{
    effects::changes::Changes,
    hir::{
        AcpAgent, Agent, AgentRef, Arg, Assertion, AssertionKind, BlockRole, Bounds, Budget, CallKind, CallMatcher,
        CallStatus, Def, Dialect, Isolation, JudgeEnv, KubeWorld, ModelAgent, Name, Operation, OperationKind,
        OracleCall, Provider, Sandbox, Server, ShellAgent, Substitute, Template, WrongAnswer,
    },
    lock::{LockedRelease, Permissions},
    signature::Control,
    source::Span,
    ty::endpoint,
};

/// The node of an action.
pub type ActionIx = NodeIndex<u32>;
/// Phases, actions and blocks, and the edges between them. Acyclic.
pub type Graph = DiGraph<Node, Edge>;

/// A node of a plan's graph.
#[derive(Clone, Debug)]
pub enum Node {
    Phase(PlanPhase),
    Action(Box<Action>),
    /// Nested actions that run as one sequence.
    Block(BlockRole),
}

/// The node of a phase or of a block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Holder(NodeIndex<u32>);

impl From<PlanPhase> for Holder {
    /// The phases are the first nodes of every plan, in the order of [`PlanPhase`].
    fn from(phase: PlanPhase) -> Self {
        Self(NodeIndex::new(phase as usize))
    }
}

/// Nested actions of one action that run as one sequence.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    pub role: BlockRole,
    pub holder: Holder,
}

/// The plan of one task under one eval, or under none.
#[derive(Clone, Debug)]
pub struct Plan {
    pub task: PlannedTask,
    pub graph: Graph,
    /// The only action of the agent phase.
    pub agent: ActionIx,
    /// `spec.env` in dependency order.
    pub env: Vec<(String, Template<Def>)>,
    /// Variables of gevals' own environment that holes and scripts read. If one is missing, the run fails before it starts, unless
    /// every hole that reads it has a default. Scripts see a missing variable as an empty string.
    pub process_env: IndexMap<String, ProcessVariable>,
    /// Variables that the programs in its scripts read: `KUBECONFIG`.
    pub programs_env: BTreeSet<String>,
    /// Programs that must be on PATH (`requires: [{command}]`).
    pub commands: Vec<Name>,
    /// Servers that the task's steps call.
    pub step_servers: Vec<String>,
    /// SHA-256 of every file that the task refers to, by path.
    pub files: IndexMap<PathBuf, String>,
    pub timeout: Duration,
    pub cleanup_timeout: Duration,
    /// What the agent may use.
    pub bounds: Bounds,
    /// What its scripts and steps change in the environment, as far as gevals knows.
    pub changes: Changes,
}

/// An environment variable that a hole or a script reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProcessVariable {
    pub required: bool,
    pub span: Span,
}

/// The properties of a planned task other than its graph.
#[derive(Clone, Debug)]
pub struct PlannedTask {
    pub name: Name,
    pub path: PathBuf,
    /// The directory commands run in.
    pub dir: PathBuf,
    pub dialect: Dialect,
    pub difficulty: Option<String>,
    pub labels: IndexMap<String, String>,
    /// What the command line can select by, besides labels. Not part of the digest.
    pub tags: Vec<String>,
    pub parallel: bool,
    /// Whether verify steps that do not use each other's values run in parallel.
    pub parallel_verify: bool,
    pub runs: u32,
    /// How many of how many runs must pass, if not all.
    pub gate: Option<(u32, u32)>,
    /// The task has neither a verify step nor an assertion, so it cannot pass (`decisions.md` §5).
    pub unchecked: bool,
}

impl PlannedTask {
    /// The task's directory as a path that processes accept: `.` for an empty path, which the operating system does not accept as
    /// a directory.
    pub fn folder(&self) -> &Path {
        if self.dir.as_os_str().is_empty() { Path::new(".") } else { &self.dir }
    }
}

/// A step, the agent's turn or an assertion that may run.
#[derive(Clone, Debug)]
pub struct Action {
    /// `PHASE/ID` or `PHASE/INDEX`, nested by `/` (`decisions.md` §10). Unique in a plan.
    pub id: String,
    pub phase: PlanPhase,
    pub kind: ActionKind,
    /// One line that describes what it does.
    pub meaning: String,
    pub timeout: Option<Duration>,
    pub continue_on_error: bool,
    pub span: Span,
}

/// Returns the id of the planned action behind an executed one: without `[round]` and `#attempt`.
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

/// The phases of a plan, in execution order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum PlanPhase {
    Setup,
    Agent,
    Verify,
    Assert,
    Cleanup,
}

impl PlanPhase {
    /// In execution order.
    pub const ALL: [Self; 5] = [Self::Setup, Self::Agent, Self::Verify, Self::Assert, Self::Cleanup];

    /// The name in plans and events.
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

impl Action {
    /// Whether the action cannot contain other actions.
    pub fn is_leaf(&self) -> bool {
        !matches!(&self.kind, ActionKind::Step(step) if step.op.signature.control != Control::Leaf)
    }
}

/// What an action does.
#[derive(Clone, Debug)]
pub enum ActionKind {
    Step(StepAction),
    Agent(AgentAction),
    Assertion(Assertion),
}

/// A checked step, with the defaults of its operation made explicit.
#[derive(Clone, Debug)]
pub struct StepAction {
    /// The author's id, which holes refer to. In the steps dialect, the step's type.
    pub id: Option<String>,
    pub op: Operation,
    pub args: Vec<(Name, Arg<Def>)>,
    pub expect: Option<Arg<Def>>,
    /// `None`: the step offers the operation's own values.
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
    /// In a mutant of the task: what is wrong with an answer that the agent gets.
    pub wrong: Option<WrongAnswer>,
    /// The recording that its script was read from. Random values are the same as in the recording.
    pub recorded: Option<PathBuf>,
}

/// Skills that the agent can read before it works.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SkillMount {
    /// Directories. If two files have the same name, the one from the later directory is used.
    pub sources: Vec<PathBuf>,
    /// Within the agent's directory.
    pub path: String,
    /// The agent's own tool that reads a skill.
    pub tool: String,
}

/// The agent, as far as the plan knows it.
#[derive(Clone, Debug)]
pub enum AgentKind {
    /// `builtin.noop`.
    Noop,
    /// `builtin.script`, with what it does in this task. `entry` is false if the oracle has no entry for the task: the task is
    /// then broken.
    Script { calls: Vec<OracleCall<Def>>, output: Option<Template<Def>>, entry: bool },
    /// `type: file` with `commands`.
    Shell(ShellAgent),
    /// `builtin.replay`, from the recording of an earlier run.
    Replay { path: PathBuf },
    /// `builtin.llm-agent`.
    Model(ModelAgent),
    /// A program that supports the Agent Client Protocol.
    Acp(AcpAgent),
    /// `builtin.claude-code`, with the model that was requested.
    ClaudeCode { model: Option<String> },
    /// There is no eval, so the plan shows an unspecified agent.
    Unspecified,
}

impl AgentKind {
    /// Resolves a reference to the agent or the judge of an eval. `file` is the agent file that it names. Returns `None` if an
    /// error was found, and for kinds that only the agent of an eval can be: a script or a replay.
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
                        // The endpoint and the key of one provider do not apply to a model of another.
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

    /// Whether both are asked the same way, as far as gevals can tell: the same model or the same command line.
    pub fn is_same(&self, other: &Self) -> bool {
        let text = |name: &Option<Name>| name.as_ref().map(|n| n.value.clone()).unwrap_or_default();
        let word = |names: &[Name]| names.iter().map(|n| n.value.clone()).collect::<Vec<_>>();
        match (self, other) {
            (Self::Model(one), Self::Model(other)) => {
                // Without its own endpoint, a model uses the one from the environment, which may be any.
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
                // Without a name it is the configured model, which may be any.
                one.is_none() || other.is_none() || bare(one) == bare(other)
            }
            _ => false,
        }
    }

    /// Whether the agent is a process with its own MCP client.
    pub fn is_process(&self) -> bool {
        matches!(self, Self::Shell(_) | Self::Acp(_) | Self::ClaudeCode { .. })
    }
}

/// Parses a model name. If the name has no provider, the provider is OpenAI for agent kinds with an old name (`openai-agent`,
/// `openai-acp`).
fn model_agent(kind: &str, model: &Name) -> Option<ModelAgent> {
    let (provider, model) = match model.value.split_once(':') {
        Some((provider, model)) => (Provider::of(provider)?, model),
        None if kind.contains("openai") => (Provider::OpenAi, model.value.as_str()),
        None => return None,
    };
    let model = model.to_owned();
    (!model.is_empty()).then_some(ModelAgent { provider, model, base_url: None, api_key: None, meant: false })
}

/// The agent that judges answers.
#[derive(Clone, Debug)]
pub struct Judge {
    /// The name in the agent file, otherwise the agent's type.
    pub name: String,
    /// The eval's reference, with the model that the agent file names. For the deprecated form, the equivalent reference.
    pub agent: AgentRef,
    pub kind: AgentKind,
    /// The variables of the deprecated form, which are read when the run starts.
    pub env: Option<JudgeEnv>,
}

impl Judge {
    /// Returns the judge's model, from the reference or from the agent file.
    pub fn model(&self) -> Option<&str> {
        self.agent.model.as_ref().map(|model| model.value.as_str())
    }

    /// Returns the name and the model, for display.
    pub fn title(&self) -> String {
        match self.model() {
            Some(model) => format!("{} ({model})", self.name),
            None => self.name.clone(),
        }
    }

    /// Resolves the variables of the deprecated form (§2.2 of the upstream behavior).
    ///
    /// # Errors
    /// Returns the variables that are not set, or a model whose provider gevals does not support.
    pub fn resolved(&self, lookup: &dyn Fn(&str) -> Option<String>) -> Result<Self, Vec<String>> {
        let Some(JudgeEnv { base_url: Some(base_url), api_key: Some(api_key), model_name: Some(model_name) }) =
            &self.env
        else {
            return Ok(self.clone());
        };
        let value = |name: &Name| lookup(&name.value).filter(|value| !value.is_empty());
        let (Some(url), Some(_), Some(model)) = (value(base_url), value(api_key), value(model_name)) else {
            let unset = [base_url, api_key, model_name].into_iter().filter(|name| value(name).is_none());
            return Err(unset.map(|name| format!("the judge requires `${}`, which is not set", name.value)).collect());
        };
        let model = Name::new(if model.contains(':') { model } else { format!("openai:{model}") }, model_name.span);
        let Some(agent) = model_agent("llm-agent", &model) else {
            return Err(vec![format!("the provider of the judge's model `{}` is not supported", model.value)]);
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

/// The relation between two nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Edge {
    /// The target is in this phase or block, or is a block of this action. All other edges connect actions.
    Holds,
    /// The target runs after the source.
    Order,
    /// The target uses the source's output of this name.
    Data(Box<str>),
    /// The target is a cleanup that is pending once the source has started.
    Finally,
    /// The target is a branch of the source.
    Branch,
}

/// The plan of a whole eval.
#[derive(Clone, Debug)]
pub struct EvalPlan {
    pub name: String,
    pub path: PathBuf,
    pub agent: Option<AgentRef>,
    pub agent_name: String,
    /// What isolates the agent from the machine.
    pub isolation: Isolated,
    /// Enabled servers, by name.
    pub servers: Vec<Server>,
    /// The directory server commands run in.
    pub dir: PathBuf,
    pub judge: Option<Judge>,
    pub extensions: Extensions,
    /// What each run of a task gets of a disposable control plane.
    pub world: Option<KubeWorld>,
    /// What all tasks together may use.
    pub budget: Budget,
    /// The model of the agent, if known.
    pub model: Option<String>,
    /// Names of environment variables whose values are secret.
    pub secrets: Vec<String>,
    /// What the eval specifies, for readers of its results.
    pub written: Written,
    /// In the order of collection. Tasks that are not `parallel` run first, one at a time.
    pub tasks: Vec<Plan>,
}

/// What the eval and the command line specify, in the terms of results files (§8.2 of the upstream behavior). It has no effect on
/// the run.
#[derive(Clone, Debug, Default)]
pub struct Written {
    pub task_sets: Vec<WrittenSet>,
    /// The paths of the sources of skills.
    pub skills: Vec<String>,
    /// `defaultTask`, `task`, `defaultCleanup` and `cleanup`, if they are set.
    pub timeouts: [Option<Duration>; 4],
}

/// A task set as written in the eval.
#[derive(Clone, Debug)]
pub struct WrittenSet {
    pub path: Option<String>,
    pub glob: Option<String>,
    pub labels: IndexMap<String, String>,
}

/// The extensions of an eval, how they are found, and what isolates them from the machine.
#[derive(Clone, Debug, Default)]
pub struct Extensions {
    /// As the eval configures them.
    pub declared: Vec<Extension>,
    /// The releases that the lock pins, by reference.
    pub releases: IndexMap<String, LockedRelease>,
    /// The permissions that their manifests ask for, by the name that tasks use for the extension.
    pub asked: IndexMap<String, Permissions>,
    pub substitute: Substitute,
    pub sandbox: Sandbox,
    /// Where downloads are kept, if the eval specifies it.
    pub cache: Option<PathBuf>,
}

impl Extensions {
    /// Returns the extension with this alias or, if there is none, with this package.
    pub fn get(&self, name: &str) -> Option<&Extension> {
        let by_alias = self.declared.iter().find(|extension| extension.alias == name);
        by_alias.or_else(|| self.declared.iter().find(|extension| extension.package == name))
    }

    /// Returns the package reference for a name, which is the name itself if no extension is declared for it.
    pub fn reference<'a>(&'a self, name: &'a str) -> &'a str {
        self.get(name).map_or(name, |declared| &declared.package)
    }
}

/// An extension as an eval configures it.
#[derive(Clone, Debug)]
pub struct Extension {
    /// The name by which tasks of the steps dialect require it.
    pub alias: String,
    /// The package reference.
    pub package: String,
    /// The directory that relative paths are resolved against.
    pub dir: PathBuf,
    /// Added to its environment. `${NAME}` and `{env.NAME}` are filled when it starts.
    pub env: Vec<(String, String)>,
    /// The configuration that it is initialized with, filled in the same way.
    pub config: serde_json::Value,
    /// The permissions that it gets in a sandbox.
    pub granted: Granted,
}

/// What isolates an agent from the machine. How much of it a machine supports is known when the run starts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Isolated {
    pub level: Isolation,
    /// Whether the level was set explicitly: then a lower level is not accepted.
    pub meant: bool,
    /// What the agent file asks for: a level, and the permissions that it needs despite the isolation.
    pub asks: Option<(Option<Isolation>, Permissions)>,
    /// What the eval grants.
    pub granted: Granted,
}

/// What an extension may do in a sandbox besides reading its own directory and that of the task, or what an agent may do outside
/// its own directory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Granted {
    pub network: bool,
    /// Absolute, or relative to the directory of the eval.
    pub read: Vec<PathBuf>,
    pub write: Vec<PathBuf>,
    /// Variables of gevals' environment that it gets in addition to its own.
    pub env: Vec<String>,
}

/// Default limit for setup, agent and verify together (`portable-format.md`).
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(300);
/// Default limit for cleanup.
pub const DEFAULT_CLEANUP_TIMEOUT: Duration = Duration::from_secs(300);
/// Limit for both in the dialects that have no default, if neither the task nor the eval sets one: nothing runs forever.
pub const UNSET_TIMEOUT: Duration = Duration::from_secs(3600);

impl Plan {
    /// Returns the action of a node.
    pub fn action(&self, ix: ActionIx) -> &Action {
        match &self.graph[ix] {
            Node::Action(action) => action,
            Node::Phase(_) | Node::Block(_) => unreachable!("an `ActionIx` is the node of an action"),
        }
    }

    /// Returns the action of a node, mutably.
    pub fn action_mut(&mut self, ix: ActionIx) -> &mut Action {
        match &mut self.graph[ix] {
            Node::Action(action) => action,
            Node::Phase(_) | Node::Block(_) => unreachable!("an `ActionIx` is the node of an action"),
        }
    }

    /// Returns the actions of a phase or block, in execution order. The dialect defines the order of cleanup.
    pub fn members(&self, holder: impl Into<Holder>) -> impl Iterator<Item = ActionIx> + Clone {
        self.held(holder.into().0)
    }

    /// Returns the blocks nested in an action, in execution order.
    pub fn blocks(&self, ix: ActionIx) -> impl Iterator<Item = Block> + Clone {
        self.held(ix).filter_map(|held| match self.graph[held] {
            Node::Block(role) => Some(Block { role, holder: Holder(held) }),
            Node::Phase(_) | Node::Action(_) => None,
        })
    }

    /// Returns the actions of all blocks of an action.
    pub fn nested(&self, ix: ActionIx) -> impl Iterator<Item = ActionIx> + Clone {
        self.blocks(ix).flat_map(|block| self.members(block.holder))
    }

    /// Lowering adds the last node first, and petgraph returns the last edge first.
    fn held(&self, of: NodeIndex<u32>) -> impl Iterator<Item = NodeIndex<u32>> + Clone {
        self.graph.edges(of).filter(|edge| *edge.weight() == Edge::Holds).map(|edge| edge.target())
    }

    /// Returns every action, in node order.
    pub fn actions(&self) -> impl Iterator<Item = &Action> {
        self.graph.node_weights().filter_map(|node| match node {
            Node::Action(action) => Some(&**action),
            Node::Phase(_) | Node::Block(_) => None,
        })
    }

    /// Returns the edges that connect actions.
    pub fn links(&self) -> impl Iterator<Item = (ActionIx, ActionIx, &Edge)> {
        let links = self.graph.raw_edges().iter().filter(|edge| edge.weight != Edge::Holds);
        links.map(|edge| (edge.source(), edge.target(), &edge.weight))
    }

    /// Returns the links from an action, or to it.
    pub fn links_of(&self, ix: ActionIx, direction: Direction) -> impl Iterator<Item = (ActionIx, &Edge)> {
        let edges = self.graph.edges_directed(ix, direction).filter(|edge| *edge.weight() != Edge::Holds);
        edges.map(move |edge| match direction {
            Direction::Incoming => (edge.source(), edge.weight()),
            Direction::Outgoing => (edge.target(), edge.weight()),
        })
    }

    /// Sorts reports of actions, given by their executed ids, into the order in which verify is written: steps that run in
    /// parallel end in any order.
    pub fn in_written_order<T>(&self, reports: &mut [(String, T)]) {
        if !self.task.parallel_verify {
            return;
        }
        let verify = self.members(PlanPhase::Verify).map(|ix| self.action(ix).id.as_str());
        let places: HashMap<&str, usize> = verify.enumerate().map(|(place, id)| (id, place)).collect();
        reports.sort_by_cached_key(|(id, _)| {
            let planned = planned_id(id);
            let phase = planned.split('/').next().unwrap_or_default();
            let top = planned.match_indices('/').nth(1).map_or(&*planned, |(end, _)| &planned[..end]);
            (PlanPhase::ALL.iter().position(|p| p.name() == phase), places.get(top).copied())
        });
    }

    /// Returns how many of its steps ask the judge.
    pub fn judgements(&self) -> usize {
        let judges = |action: &&Action| matches!(&action.kind, ActionKind::Step(step) if step.op.signature.judges);
        self.actions().filter(judges).count()
    }

    /// Whether only a judge decides the result.
    pub fn rests_on_judge(&self) -> bool {
        let mut leaves: Vec<ActionIx> = self.members(PlanPhase::Verify).collect();
        let mut judged = false;
        while let Some(ix) = leaves.pop() {
            let before = leaves.len();
            leaves.extend(self.nested(ix));
            match &self.action(ix).kind {
                _ if leaves.len() > before => {}
                ActionKind::Step(step) if step.op.signature.judges => judged = true,
                _ => return false,
            }
        }
        judged && self.members(PlanPhase::Assert).next().is_none()
    }

    /// Returns the recording that its agent replays or follows as a script.
    pub fn recording(&self) -> Option<&Path> {
        match &self.action(self.agent).kind {
            ActionKind::Agent(AgentAction { kind: AgentKind::Replay { path }, .. }) => Some(path),
            ActionKind::Agent(agent) => agent.recorded.as_deref(),
            _ => None,
        }
    }

    /// Whether an assertion requires that the agent calls nothing.
    pub fn forbids_calls(&self) -> bool {
        self.members(PlanPhase::Assert).any(|ix| match &self.action(ix).kind {
            ActionKind::Assertion(assertion) => matches!(assertion.kind, AssertionKind::MaxToolCalls(0)),
            _ => false,
        })
    }

    /// Returns the tools that steps call and assertions name, with their servers, each once.
    pub fn tools(&self) -> IndexSet<(&str, &str)> {
        let mut tools = IndexSet::new();
        self.walk(&mut |_, _, action| match &action.kind {
            ActionKind::Step(StepAction { op, .. }) => {
                if let OperationKind::Tool { server, tool } = &op.kind {
                    tools.insert((server.as_str(), tool.as_str()));
                }
            }
            ActionKind::Assertion(assertion) => match &assertion.kind {
                AssertionKind::AllUsed(CallKind::Tool, matchers)
                | AssertionKind::AnyUsed(CallKind::Tool, matchers)
                | AssertionKind::NoneUsed(CallKind::Tool, matchers) => {
                    // A call that returns no result may name a tool that does not exist.
                    let fails = |m: &CallMatcher| m.status.as_ref().is_some_and(|s| s.value != CallStatus::Ok);
                    for CallMatcher { server, name, .. } in matchers.iter().filter(|m| !fails(m)) {
                        tools.extend(name.as_ref().map(|name| (server.value.as_str(), name.value.as_str())));
                    }
                }
                AssertionKind::CallOrder(calls) => {
                    let calls = calls.iter().filter(|call| call.kind == CallKind::Tool);
                    tools.extend(calls.map(|call| (call.server.value.as_str(), call.name.value.as_str())));
                }
                _ => {}
            },
            ActionKind::Agent(_) => {}
        });
        tools
    }

    /// Visits every action, in execution order. Nested actions follow the action that contains them.
    pub fn walk<'a>(&'a self, visit: &mut dyn FnMut(usize, ActionIx, &'a Action)) {
        for ix in PlanPhase::ALL.into_iter().flat_map(|phase| self.members(phase)) {
            self.walk_from(0, ix, visit);
        }
    }

    /// Returns the action that is planned with this id.
    pub fn find(&self, id: &str) -> Option<&Action> {
        let mut found = None;
        self.walk(&mut |_, _, action| found = found.or((action.id == id).then_some(action)));
        found
    }

    fn walk_from<'a>(&'a self, depth: usize, ix: ActionIx, visit: &mut dyn FnMut(usize, ActionIx, &'a Action)) {
        visit(depth, ix, self.action(ix));
        for inner in self.nested(ix) {
            self.walk_from(depth + 1, inner, visit);
        }
    }
}
