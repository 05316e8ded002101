//! What a run would do: an inert, directed acyclic graph, made from a checked task by a lowering that cannot fail, executed
//! by `run` and by nothing else.
//!
//! The graph is all there is: phases, actions and blocks are its nodes; what holds what, what runs after what, and which
//! values flow are its edges. Everything else about a plan is a question to it.
//!
//! Property: *the set of executed actions is a subset of the planned ones.* A plan serialises to a documented, versioned
//! form ([`wire`]), has a digest, renders and diffs.

mod bound;
pub mod diff;
mod lower;
pub mod mutant;
mod order;
pub mod reach;
pub mod why;
pub mod wire;

pub use bound::worst_case;
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
/// Phases, actions and blocks, and the edges between them; acyclic.
pub type Graph = DiGraph<Node, Edge>;

/// What a plan is made of.
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
    /// The phases are the first nodes of every plan, in this order.
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

/// The plan of one task under one eval (or under none).
#[derive(Clone, Debug)]
pub struct Plan {
    pub task: PlannedTask,
    pub graph: Graph,
    /// The one action of the agent's phase.
    pub agent: ActionIx,
    /// `spec.env` in dependency order.
    pub env: Vec<(String, Template<Def>)>,
    /// Variables of gevals' own environment that holes and scripts read: a missing one fails before the run starts, unless every
    /// hole that reads it has a default. To a script it is an empty text.
    pub process_env: IndexMap<String, ProcessVariable>,
    /// Those that programs in its scripts look for: `KUBECONFIG`.
    pub programs_env: BTreeSet<String>,
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
    /// What its scripts and steps change in the world, as far as that is known.
    pub changes: Changes,
}

/// A variable of the environment that a hole or a script reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProcessVariable {
    pub required: bool,
    pub span: Span,
}

/// What a plan says of its task besides the graph.
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
    /// Whether verify steps of which none uses a value of another run side by side.
    pub parallel_verify: bool,
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

/// The phases of a plan, in the order in which they run.
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

    /// As plans and events write it.
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
    /// Whether it can hold other actions.
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
    /// In a mutant of the task, what is wrong with an answer that the agent is given.
    pub wrong: Option<WrongAnswer>,
    /// The recording that its script was read from: what was random then is so again.
    pub recorded: Option<PathBuf>,
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

/// How one node hangs on another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Edge {
    /// Is in this phase or block, or is a block of this action. All others lead from action to action.
    Holds,
    /// Runs after it.
    Order,
    /// Uses its output of this name.
    Data(Box<str>),
    /// A cleanup that is pending once it has started.
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
    /// What keeps the agent apart from the machine.
    pub isolation: Isolated,
    /// Enabled servers, by name.
    pub servers: Vec<Server>,
    /// The folder server commands run in.
    pub dir: PathBuf,
    pub judge: Option<Judge>,
    pub extensions: Extensions,
    /// What each run of a task has of a disposable control plane.
    pub world: Option<KubeWorld>,
    /// What all tasks may use together.
    pub budget: Budget,
    /// The model of the agent, as far as it is known.
    pub model: Option<String>,
    /// Names of environment variables whose values are secret.
    pub secrets: Vec<String>,
    /// What the eval says of itself, for readers of its results.
    pub written: Written,
    /// In the order of collection; those not `parallel` run first, one by one.
    pub tasks: Vec<Plan>,
}

/// What an eval and the command line say, as results name it (§8.2 of the upstream behaviour). Nothing is run by it.
#[derive(Clone, Debug, Default)]
pub struct Written {
    pub task_sets: Vec<WrittenSet>,
    /// The paths of the sources of skills.
    pub skills: Vec<String>,
    /// `defaultTask`, `task`, `defaultCleanup` and `cleanup`, where they are given.
    pub timeouts: [Option<Duration>; 4],
}

/// A task set as the eval has it.
#[derive(Clone, Debug)]
pub struct WrittenSet {
    pub path: Option<String>,
    pub glob: Option<String>,
    pub labels: IndexMap<String, String>,
}

/// The extensions of an eval, how they are found, and what keeps them apart from the machine.
#[derive(Clone, Debug, Default)]
pub struct Extensions {
    /// As the eval configures them.
    pub declared: Vec<Extension>,
    /// The releases that the lock pins, by reference.
    pub releases: IndexMap<String, LockedRelease>,
    /// What their manifests ask for, by the name that tasks have for them.
    pub asked: IndexMap<String, Permissions>,
    pub substitute: Substitute,
    pub sandbox: Sandbox,
    /// Where downloads are kept, if the eval says it.
    pub cache: Option<PathBuf>,
}

impl Extensions {
    /// The entry that a name means: its alias, or its package.
    pub fn get(&self, name: &str) -> Option<&Extension> {
        let by_alias = self.declared.iter().find(|extension| extension.alias == name);
        by_alias.or_else(|| self.declared.iter().find(|extension| extension.package == name))
    }

    /// The reference that a name means.
    pub fn reference<'a>(&'a self, name: &'a str) -> &'a str {
        self.get(name).map_or(name, |declared| &declared.package)
    }
}

/// An extension as an eval configures it.
#[derive(Clone, Debug)]
pub struct Extension {
    /// What tasks of the steps dialect require it by.
    pub alias: String,
    /// The reference.
    pub package: String,
    /// The folder that a path is relative to.
    pub dir: PathBuf,
    /// Added to its environment; with `${NAME}` and `{env.NAME}` to fill when it starts.
    pub env: Vec<(String, String)>,
    /// What it is initialized with, to fill likewise.
    pub config: serde_json::Value,
    /// What it is granted in a sandbox.
    pub granted: Granted,
}

/// What keeps an agent apart from the machine. What of it a machine can do is known when the run starts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Isolated {
    pub level: Isolation,
    /// Whether somebody wrote the level down: then nothing less will do.
    pub meant: bool,
    /// What the agent file asks for: a level, and what it is to have all the same.
    pub asks: Option<(Option<Isolation>, Permissions)>,
    /// What the eval grants.
    pub granted: Granted,
}

/// What an extension may do in a sandbox beyond its own folder and that of the task, which it may read; or an agent beyond its own
/// folder.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Granted {
    pub network: bool,
    /// Absolute, or relative to the folder of the eval.
    pub read: Vec<PathBuf>,
    pub write: Vec<PathBuf>,
    /// Variables of gevals that it gets besides its own.
    pub env: Vec<String>,
}

/// Default bound of setup, agent and verify together (`portable-format.md`).
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(300);
/// Default bound of cleanup.
pub const DEFAULT_CLEANUP_TIMEOUT: Duration = Duration::from_secs(300);
/// Bound of both in the dialects that have no default, where neither task nor eval sets one: nothing runs for ever.
pub const UNSET_TIMEOUT: Duration = Duration::from_secs(3600);

impl Plan {
    /// The action of a node that is one.
    pub fn action(&self, ix: ActionIx) -> &Action {
        match &self.graph[ix] {
            Node::Action(action) => action,
            Node::Phase(_) | Node::Block(_) => unreachable!("an `ActionIx` is the node of an action"),
        }
    }

    /// The action of a node, which must be one.
    pub fn action_mut(&mut self, ix: ActionIx) -> &mut Action {
        match &mut self.graph[ix] {
            Node::Action(action) => action,
            Node::Phase(_) | Node::Block(_) => unreachable!("an `ActionIx` is the node of an action"),
        }
    }

    /// Those of a phase or block, in execution order. Cleanup's order is the dialect's.
    pub fn members(&self, holder: impl Into<Holder>) -> impl Iterator<Item = ActionIx> + Clone {
        self.held(holder.into().0)
    }

    /// What is nested in an action, in execution order.
    pub fn blocks(&self, ix: ActionIx) -> impl Iterator<Item = Block> + Clone {
        self.held(ix).filter_map(|held| match self.graph[held] {
            Node::Block(role) => Some(Block { role, holder: Holder(held) }),
            Node::Phase(_) | Node::Action(_) => None,
        })
    }

    /// The actions of all blocks of an action.
    pub fn nested(&self, ix: ActionIx) -> impl Iterator<Item = ActionIx> + Clone {
        self.blocks(ix).flat_map(|block| self.members(block.holder))
    }

    /// Lowering adds the last one first, and petgraph gives the last edge first.
    fn held(&self, of: NodeIndex<u32>) -> impl Iterator<Item = NodeIndex<u32>> + Clone {
        self.graph.edges(of).filter(|edge| *edge.weight() == Edge::Holds).map(|edge| edge.target())
    }

    /// Every action, in the order of their nodes.
    pub fn actions(&self) -> impl Iterator<Item = &Action> {
        self.graph.node_weights().filter_map(|node| match node {
            Node::Action(action) => Some(&**action),
            Node::Phase(_) | Node::Block(_) => None,
        })
    }

    /// What leads from action to action.
    pub fn links(&self) -> impl Iterator<Item = (ActionIx, ActionIx, &Edge)> {
        let links = self.graph.raw_edges().iter().filter(|edge| edge.weight != Edge::Holds);
        links.map(|edge| (edge.source(), edge.target(), &edge.weight))
    }

    /// The links from an action, or to it.
    pub fn links_of(&self, ix: ActionIx, direction: Direction) -> impl Iterator<Item = (ActionIx, &Edge)> {
        let edges = self.graph.edges_directed(ix, direction).filter(|edge| *edge.weight() != Edge::Holds);
        edges.map(move |edge| match direction {
            Direction::Incoming => (edge.source(), edge.weight()),
            Direction::Outgoing => (edge.target(), edge.weight()),
        })
    }

    /// Puts what is reported of actions, by their executed ids, into the order in which verify is written: steps that run side
    /// by side end in any.
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

    /// How many of its steps ask the judge.
    pub fn judgements(&self) -> usize {
        let judges = |action: &&Action| matches!(&action.kind, ActionKind::Step(step) if step.op.signature.judges);
        self.actions().filter(judges).count()
    }

    /// Whether a judge decides it, and nothing else.
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

    /// The recording that its agent replays, or follows as a script.
    pub fn recording(&self) -> Option<&Path> {
        match &self.action(self.agent).kind {
            ActionKind::Agent(AgentAction { kind: AgentKind::Replay { path }, .. }) => Some(path),
            ActionKind::Agent(agent) => agent.recorded.as_deref(),
            _ => None,
        }
    }

    /// Whether an assertion demands that the agent calls nothing.
    pub fn forbids_calls(&self) -> bool {
        self.members(PlanPhase::Assert).any(|ix| match &self.action(ix).kind {
            ActionKind::Assertion(assertion) => matches!(assertion.kind, AssertionKind::MaxToolCalls(0)),
            _ => false,
        })
    }

    /// The tools that steps call and assertions name, with their servers; each once.
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
                    // A call that gets no result may be of what is no tool.
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

    /// Every action, in execution order, nested ones behind the action that holds them.
    pub fn walk<'a>(&'a self, visit: &mut dyn FnMut(usize, ActionIx, &'a Action)) {
        for ix in PlanPhase::ALL.into_iter().flat_map(|phase| self.members(phase)) {
            self.walk_from(0, ix, visit);
        }
    }

    /// The action that is planned with this id.
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
