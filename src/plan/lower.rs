//! Turns a checked task into its plan. Total: everything that `check` accepts has a plan.
//!
//! Actions are added in the order in which they would run, and every edge leads from an earlier node to a later one.
//! Therefore the graph is acyclic by construction, and its node order is a topological order.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    path::{Path, PathBuf},
    time::Duration,
};

use indexmap::IndexMap;
use petgraph::{algo::toposort, graph::NodeIndex, visit::EdgeRef};

use super::{
    Action, ActionIx, ActionKind, AgentAction, AgentKind, DEFAULT_CLEANUP_TIMEOUT, DEFAULT_TIMEOUT, Edge, Graph,
    Holder, Node, Plan, PlanPhase, PlannedTask, ProcessVariable, SkillMount, StepAction, UNSET_TIMEOUT,
};
use crate::{
    builtin::{self, excerpt},
    effects::{changes::Changes, inherited::Inherited},
    hir::{
        ArgKind, Assertion, AssertionKind, Assertions, BlockRole, CallKind, CallMatcher, Def, Dialect, Limits,
        OperationKind, OracleCall, PhaseKind, RequirementKind, SkillMatcher, Step, Target, Task, Template,
    },
    signature::Control,
    source::Spanned,
};

/// What a plan takes from the eval. Without an eval: an unspecified agent and nothing else.
#[derive(Clone, Debug)]
pub struct Context<'a> {
    /// With the oracle's entry for this task, if the agent is scripted.
    pub agent: AgentKind,
    pub skills: Option<SkillMount>,
    /// In the order of the task sets that select the task.
    pub assertions: Vec<&'a Assertions>,
    pub defaults: Limits,
    /// The timeout for operations of extensions whose step has none.
    pub extension_timeout: Option<Duration>,
    /// SHA-256 of every file that the task refers to.
    pub files: IndexMap<PathBuf, String>,
    /// What the task changes in the environment.
    pub changes: Changes,
    /// What its scripts read from the environment that gevals runs in.
    pub inherited: Inherited,
}

impl Default for Context<'_> {
    fn default() -> Self {
        Self {
            agent: AgentKind::Unspecified,
            skills: None,
            assertions: Vec::new(),
            defaults: Limits::default(),
            extension_timeout: None,
            files: IndexMap::new(),
            changes: Changes::default(),
            inherited: Inherited::default(),
        }
    }
}

/// Plans a task. `path` is where it was found, for display.
pub fn lower(task: &Task<Def>, path: &Path, context: &Context<'_>) -> Plan {
    let mut steps = 0;
    task.walk(&mut |_, _| steps += 1);
    // Phases, an agent and a few assertions in addition to the steps, with one to three edges each.
    let mut graph = Graph::with_capacity(steps + 8, 3 * steps + 8);
    for phase in PlanPhase::ALL {
        graph.add_node(Node::Phase(phase));
    }
    let mut to = Lowering {
        dialect: task.dialect,
        graph,
        scope: Scope::default(),
        agent: None,
        extension_timeout: context.extension_timeout,
    };
    let setup = to.phase(&task.setup.steps, PhaseKind::Setup);
    let agent = to.agent(task, context);
    let verify = to.verify(&task.verify.steps);
    let assertions = to.assertions(&context.assertions);
    let cleanup = to.phase(&task.cleanup.steps, PhaseKind::Cleanup);

    let before: Vec<_> = setup.iter().chain([&agent]).copied().collect();
    let behind: Vec<_> = assertions.iter().chain(&cleanup).copied().collect();
    if task.meta.parallel_verify {
        to.order(&before);
        to.side_by_side(agent, &verify, behind.first().copied());
        to.order(&behind);
    } else {
        to.order(&[&before[..], &verify, &behind].concat());
    }
    if let Some(&first) = cleanup.first() {
        to.graph.add_edge(before[0], first, Edge::Finally);
    }
    for (phase, actions) in PlanPhase::ALL.into_iter().zip([&setup[..], &[agent], &verify, &assertions, &cleanup]) {
        to.hold(Holder::from(phase).0, actions);
    }
    debug_assert!(toposort(&to.graph, None).is_ok(), "the plan of `{}` has a cycle", task.name.value);

    let (timeout, cleanup_timeout) = match task.dialect {
        Dialect::Portable => (DEFAULT_TIMEOUT, DEFAULT_CLEANUP_TIMEOUT),
        _ => (UNSET_TIMEOUT, UNSET_TIMEOUT),
    };
    let limit = |own: &Option<_>, default: &Option<_>, bound: Duration| {
        own.as_ref().or(default.as_ref()).map_or(bound, |t: &Spanned<Duration>| t.value)
    };
    Plan {
        task: PlannedTask {
            name: task.name.clone(),
            path: path.to_owned(),
            dir: task.dir.clone(),
            dialect: task.dialect,
            difficulty: task.meta.difficulty.as_ref().map(|d| d.value.clone()),
            labels: task.meta.labels.iter().map(|(k, v)| (k.clone(), v.value.clone())).collect(),
            tags: task.meta.tags.iter().map(|tag| tag.value.clone()).collect(),
            parallel: task.meta.parallel,
            parallel_verify: task.meta.parallel_verify,
            runs: task.meta.gate.map(|g| g.value.1).or(task.meta.runs.map(|r| r.value)).unwrap_or(1),
            gate: task.meta.gate.map(|g| g.value),
            unchecked: verify.is_empty() && assertions.is_empty(),
        },
        graph: to.graph,
        agent,
        env: env_in_order(task),
        process_env: process_env(task, context),
        programs_env: context.inherited.programs.clone(),
        commands: task
            .requires
            .iter()
            .filter_map(|r| match &r.kind {
                RequirementKind::Command(name) => Some(name.clone()),
                _ => None,
            })
            .collect(),
        step_servers: step_servers(task),
        files: context.files.clone(),
        changes: context.changes.clone(),
        timeout: limit(&task.meta.timeout, &context.defaults.timeout, timeout),
        bounds: task.meta.bounds.or(&context.defaults.bounds),
        cleanup_timeout: limit(&task.meta.cleanup_timeout, &context.defaults.cleanup_timeout, cleanup_timeout),
    }
}

struct Lowering {
    dialect: Dialect,
    graph: Graph,
    scope: Scope,
    agent: Option<ActionIx>,
    /// The timeout for operations of extensions whose step has none.
    extension_timeout: Option<Duration>,
}

/// The place of a sequence of steps.
#[derive(Clone, Copy)]
struct Place<'a> {
    /// The id above, without a trailing slash.
    prefix: &'a str,
    phase: PlanPhase,
    /// A cleanup, whose steps all run.
    cleanup: bool,
}

impl Lowering {
    /// Returns the timeout of a step that sets none.
    fn usual_time(&self, step: &Step<Def>) -> Option<Duration> {
        let of_eval = self.extension_timeout.filter(|_| matches!(step.op.kind, OperationKind::Extension { .. }));
        of_eval.or(step.op.signature.timeout)
    }

    fn phase(&mut self, steps: &[Step<Def>], kind: PhaseKind) -> Vec<ActionIx> {
        let phase = match kind {
            PhaseKind::Setup => PlanPhase::Setup,
            PhaseKind::Verify => PlanPhase::Verify,
            PhaseKind::Cleanup => PlanPhase::Cleanup,
        };
        self.steps(steps, Place { prefix: kind.name(), phase, cleanup: kind == PhaseKind::Cleanup })
    }

    /// Cleanup does not see the outputs of verify. In the two older dialects, verify does not see the outputs of setup
    /// either.
    fn verify(&mut self, steps: &[Step<Def>]) -> Vec<ActionIx> {
        if self.dialect == Dialect::Portable {
            let mark = self.scope.mark();
            let actions = self.phase(steps, PhaseKind::Verify);
            self.scope.undo(mark);
            return actions;
        }
        let setup = std::mem::take(&mut self.scope);
        let actions = self.phase(steps, PhaseKind::Verify);
        self.scope = setup;
        actions
    }

    /// Adds a sequence of steps and returns its actions in execution order.
    fn steps(&mut self, steps: &[Step<Def>], place: Place<'_>) -> Vec<ActionIx> {
        let segments = segments(steps).into_iter().zip(steps);
        match place.cleanup && self.dialect == Dialect::Portable {
            true => segments.rev().map(|(segment, step)| self.step(step, &segment, place)).collect(),
            false => segments.map(|(segment, step)| self.step(step, &segment, place)).collect(),
        }
    }

    fn step(&mut self, step: &Step<Def>, segment: &str, place: Place<'_>) -> ActionIx {
        let id = format!("{}/{segment}", place.prefix);
        let offered = match self.dialect {
            Dialect::Portable => step.id.as_ref().map(|id| id.value.clone()),
            _ => Some(step_type(&step.op.kind)),
        };
        let ix = self.add(Action {
            id: id.clone(),
            phase: place.phase,
            meaning: meaning(step, self.dialect),
            timeout: step.timeout.as_ref().map(|t| t.value + own_time(step)).or(self.usual_time(step)),
            continue_on_error: step.continue_on_error.as_ref().map_or(place.cleanup, |c| c.value),
            span: step.span,
            kind: ActionKind::Step(StepAction {
                id: offered.clone(),
                op: step.op.clone(),
                args: step.args.clone(),
                expect: step.expect.as_ref().map(|(_, arg)| arg.clone()),
                outputs: step.outputs.clone(),
                var: step.var.as_ref().map(|v| v.value.clone()),
            }),
        });
        self.data(ix, |visit| step.templates(visit));
        self.blocks(step, &id, ix, place.phase);
        if let Some(id) = offered {
            self.scope.bind(id, vec![ix]);
        }
        ix
    }

    fn blocks(&mut self, step: &Step<Def>, id: &str, ix: ActionIx, phase: PlanPhase) {
        let control = step.op.signature.control;
        let mut written: Vec<_> = step.blocks.iter().enumerate().collect();
        written.sort_by_key(|(_, block)| match block.role {
            BlockRole::Setup => 0,
            BlockRole::Steps | BlockRole::Branch => 1,
            BlockRole::Cleanup => 2,
        });
        let mark = self.scope.mark();
        let mut branches = Vec::new();
        let (mut held, mut blocks) = (Vec::new(), Vec::new());
        for (i, block) in written {
            let prefix = match (control, block.role) {
                (Control::Any, _) => format!("{id}/{i}"),
                (Control::Scope, BlockRole::Setup) => format!("{id}/setup"),
                (Control::Scope, BlockRole::Cleanup) => format!("{id}/cleanup"),
                (Control::Scope, _) => format!("{id}/steps"),
                _ => id.to_owned(),
            };
            let cleanup = block.role == BlockRole::Cleanup;
            let before = self.scope.mark();
            let holder = self.graph.add_node(Node::Block(block.role));
            let actions = self.steps(&block.steps, Place { prefix: &prefix, phase, cleanup });
            match control {
                Control::Any => branches.push(self.scope.undo(mark)),
                _ if cleanup => drop(self.scope.undo(before)),
                _ => {}
            }
            self.hold(holder, &actions);
            held.push(holder);
            blocks.push((block.role, actions));
        }
        self.hold(ix, &held);
        match control {
            Control::Any => {
                for (_, actions) in &blocks {
                    self.order(actions);
                    if let Some(&first) = actions.first() {
                        self.graph.add_edge(ix, first, Edge::Branch);
                    }
                }
                self.scope.join(branches);
            }
            _ => {
                // The inside of a `foreach` is only visible in its own round.
                if control == Control::Each {
                    self.scope.undo(mark);
                }
                let all: Vec<_> = std::iter::once(ix).chain(blocks.iter().flat_map(|(_, a)| a).copied()).collect();
                self.order(&all);
                let cleanup = blocks.iter().find(|(role, _)| *role == BlockRole::Cleanup);
                let cleanup = cleanup.and_then(|(_, actions)| actions.first().copied());
                if let (Some(cleanup), Some(&first)) = (cleanup, all.get(1)) {
                    let from = if first == cleanup { ix } else { first };
                    self.graph.add_edge(from, cleanup, Edge::Finally);
                }
            }
        }
    }

    fn agent(&mut self, task: &Task<Def>, context: &Context<'_>) -> ActionIx {
        let prompt = task.prompt.as_ref().map(|p| p.text.clone());
        let prompt = prompt.unwrap_or_else(|| Template::literal("", task.name.span));
        let ix = self.add(Action {
            id: PlanPhase::Agent.name().to_owned(),
            phase: PlanPhase::Agent,
            meaning: agent_meaning(&context.agent),
            timeout: None,
            continue_on_error: false,
            span: prompt.span,
            kind: ActionKind::Agent(AgentAction {
                prompt: prompt.clone(),
                kind: context.agent.clone(),
                skills: context.skills.clone(),
                wrong: None,
                recorded: None,
            }),
        });
        self.data(ix, |visit| {
            visit(&prompt);
            agent_templates(&context.agent, visit);
        });
        self.agent = Some(ix);
        ix
    }

    fn assertions(&mut self, sets: &[&Assertions]) -> Vec<ActionIx> {
        let mut taken = HashSet::new();
        let mut actions = Vec::new();
        for (number, set) in sets.iter().enumerate() {
            for (index, assertion) in set.items.iter().enumerate() {
                let place = if sets.len() == 1 { "assert".to_owned() } else { format!("assert/{number}") };
                let mut id = format!("{place}/{}", assertion.key.value);
                if !taken.insert(id.clone()) {
                    id = format!("{place}/{index}");
                }
                actions.push(self.add(Action {
                    id,
                    phase: PlanPhase::Assert,
                    meaning: assertion_meaning(assertion),
                    timeout: None,
                    continue_on_error: false,
                    span: assertion.span,
                    kind: ActionKind::Assertion(assertion.clone()),
                }));
            }
        }
        actions
    }

    fn add(&mut self, action: Action) -> ActionIx {
        self.graph.add_node(Node::Action(Box::new(action)))
    }

    /// Adds the edge of the first action last, so that it is found first.
    fn hold(&mut self, holder: NodeIndex, held: &[NodeIndex]) {
        for &ix in held.iter().rev() {
            self.graph.add_edge(holder, ix, Edge::Holds);
        }
    }

    /// Orders actions that may run in parallel: each runs after those whose values it, or something nested in it, uses;
    /// otherwise only after `before`. `behind` runs after all of them.
    fn side_by_side(&mut self, before: ActionIx, actions: &[ActionIx], behind: Option<ActionIx>) {
        // Nested actions are added after the action that contains them, and before the next one.
        let holds = |ix: ActionIx| actions.partition_point(|&top| top <= ix).checked_sub(1);
        let data = self.graph.edge_references().filter(|edge| matches!(edge.weight(), Edge::Data(_)));
        let uses: BTreeSet<_> = data
            .filter_map(|edge| Some((holds(edge.source())?, holds(edge.target())?)))
            .filter(|(from, to)| from != to)
            .collect();
        let (used, using): (HashSet<_>, HashSet<_>) = uses.iter().copied().unzip();
        for (_, &ix) in actions.iter().enumerate().filter(|(i, _)| !using.contains(i)) {
            self.graph.add_edge(before, ix, Edge::Order);
        }
        for (from, to) in uses {
            self.graph.add_edge(actions[from], actions[to], Edge::Order);
        }
        let Some(behind) = behind else { return };
        for (_, &ix) in actions.iter().enumerate().filter(|(i, _)| !used.contains(i)) {
            self.graph.add_edge(ix, behind, Edge::Order);
        }
        if actions.is_empty() {
            self.graph.add_edge(before, behind, Edge::Order);
        }
    }

    fn order(&mut self, sequence: &[ActionIx]) {
        for pair in sequence.windows(2) {
            self.graph.add_edge(pair[0], pair[1], Edge::Order);
        }
    }

    /// Adds edges to `ix` from everything that its templates use.
    fn data<'a>(&mut self, ix: ActionIx, templates: impl FnOnce(&mut dyn FnMut(&'a Template<Def>))) {
        let Self { graph, scope, agent, .. } = self;
        let mut seen = HashSet::new();
        templates(&mut |template| {
            for hole in template.holes() {
                let target = &hole.reference.target;
                if !seen.insert(target) {
                    continue;
                }
                let (from, name) = match target {
                    Target::Output { step, name } => (scope.get(step), name.as_str()),
                    Target::AgentOutput => (agent.as_slice(), "agent.output"),
                    Target::AgentPrompt => (agent.as_slice(), "agent.prompt"),
                    _ => continue,
                };
                for &from in from {
                    graph.add_edge(from, ix, Edge::Data(name.into()));
                }
            }
        });
    }
}

/// The actions that a step's id refers to at this point; several if the branches of an `anyOf` share it.
#[derive(Default)]
struct Scope {
    bindings: HashMap<String, Vec<ActionIx>>,
    /// The previous bindings, to restore them.
    log: Vec<(String, Option<Vec<ActionIx>>)>,
}

impl Scope {
    fn get(&self, id: &str) -> &[ActionIx] {
        self.bindings.get(id).map_or(&[], Vec::as_slice)
    }

    fn bind(&mut self, id: String, actions: Vec<ActionIx>) {
        let before = self.bindings.insert(id.clone(), actions);
        self.log.push((id, before));
    }

    fn mark(&self) -> usize {
        self.log.len()
    }

    /// Restores the bindings at `mark`, and returns those made since.
    fn undo(&mut self, mark: usize) -> Vec<(String, Vec<ActionIx>)> {
        let mut bound = Vec::new();
        for (id, before) in self.log.split_off(mark).into_iter().rev() {
            let now = match before {
                Some(before) => self.bindings.insert(id.clone(), before),
                None => self.bindings.remove(&id),
            };
            bound.extend(now.map(|now| (id, now)));
        }
        bound.reverse();
        bound
    }

    fn join(&mut self, branches: Vec<Vec<(String, Vec<ActionIx>)>>) {
        let mut joined: IndexMap<String, Vec<ActionIx>> = IndexMap::new();
        for (id, actions) in branches.into_iter().flatten() {
            joined.entry(id).or_default().extend(actions);
        }
        for (id, actions) in joined {
            self.bind(id, actions);
        }
    }
}

/// Returns the last part of each step's action id: its own id if that is valid and unique, otherwise its index in the
/// sequence. An id starts with a letter, so the two cannot collide.
fn segments(steps: &[Step<Def>]) -> Vec<String> {
    let mut taken = HashSet::new();
    let mut segment = |(index, step): (usize, &Step<Def>)| match &step.id {
        Some(id) if is_id(&id.value) && taken.insert(id.value.clone()) => id.value.clone(),
        _ => index.to_string(),
    };
    steps.iter().enumerate().map(&mut segment).collect()
}

fn is_id(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

/// Returns the name by which holes of the steps dialect refer to a step (§1.6 of the upstream behavior); it means the last
/// step of a type.
fn step_type(kind: &OperationKind) -> String {
    match kind {
        OperationKind::Builtin(name) => (*name).to_owned(),
        OperationKind::Tool { server, tool } => format!("{server}.{tool}"),
        OperationKind::Extension { package, operation } => format!("{package}.{operation}"),
    }
}

/// Returns `spec.env` with each entry after those that it reads, and otherwise in the order written.
fn env_in_order(task: &Task<Def>) -> Vec<(String, Template<Def>)> {
    let index: HashMap<&str, usize> = task.env.iter().enumerate().map(|(i, (n, _))| (n.value.as_str(), i)).collect();
    let reads = |i: usize| {
        task.env[i].1.holes().filter_map(|hole| match &hole.reference.target {
            Target::TaskEnv(name) => index.get(name.as_str()).copied(),
            _ => None,
        })
    };
    let mut entered = vec![false; task.env.len()];
    let mut placed = vec![false; task.env.len()];
    let mut order = Vec::with_capacity(task.env.len());
    for start in 0..task.env.len() {
        let mut stack = vec![start];
        while let Some(&i) = stack.last() {
            if !std::mem::replace(&mut entered[i], true) {
                let behind = stack.len();
                stack.extend(reads(i).filter(|&j| !entered[j]));
                stack[behind..].reverse();
                continue;
            }
            stack.pop();
            if !std::mem::replace(&mut placed[i], true) {
                order.push(i);
            }
        }
    }
    order.into_iter().map(|i| (task.env[i].0.value.clone(), task.env[i].1.clone())).collect()
}

fn process_env(task: &Task<Def>, context: &Context<'_>) -> IndexMap<String, ProcessVariable> {
    let mut variables: IndexMap<String, ProcessVariable> = IndexMap::new();
    let mut visit = |template: &Template<Def>| {
        for hole in template.holes() {
            let Target::ProcessEnv(name) = &hole.reference.target else { continue };
            let required = !hole.has_default();
            match variables.get_mut(name) {
                Some(known) if known.required || !required => {}
                // The message points at a hole that needs the variable.
                Some(known) => *known = ProcessVariable { required, span: hole.span },
                None => drop(variables.insert(name.clone(), ProcessVariable { required, span: hole.span })),
            }
        }
    };
    task.env.iter().for_each(|(_, template)| visit(template));
    if let Some(prompt) = &task.prompt {
        visit(&prompt.text);
    }
    agent_templates(&context.agent, &mut visit);
    task.walk(&mut |_, step| step.templates(&mut visit));
    for (name, span) in &context.inherited.scripts {
        variables.entry(name.clone()).or_insert(ProcessVariable { required: false, span: *span });
    }
    variables
}

fn step_servers(task: &Task<Def>) -> Vec<String> {
    let mut servers: IndexMap<String, ()> = IndexMap::new();
    task.walk(&mut |_, step| {
        if let OperationKind::Tool { server, .. } = &step.op.kind
            && !servers.contains_key(server)
        {
            servers.insert(server.clone(), ());
        }
    });
    servers.into_keys().collect()
}

/// An operation that receives its timeout as an argument may take a little longer, to report that it was reached
/// (`decisions.md` §4).
fn own_time(step: &Step<Def>) -> Duration {
    let given = matches!(step.op.kind, OperationKind::Extension { .. })
        && step.args.iter().any(|(name, _)| name.value == "timeout");
    if given { Duration::from_secs(10) } else { Duration::ZERO }
}

fn agent_templates<'a>(agent: &'a AgentKind, visit: &mut dyn FnMut(&'a Template<Def>)) {
    let AgentKind::Script { calls, output, .. } = agent else { return };
    for OracleCall { name, args, .. } in calls {
        visit(name);
        args.iter().for_each(|(_, arg)| arg.templates(visit));
    }
    if let Some(output) = output {
        visit(output);
    }
}

fn meaning(step: &Step<Def>, dialect: Dialect) -> String {
    match &step.op.kind {
        OperationKind::Builtin(name) => match builtin::builtin(name, dialect) {
            Some(builtin) => (builtin.meaning)(step),
            None => excerpt(&step.op.signature.doc),
        },
        OperationKind::Tool { server, tool } => {
            let args = step.arg("args").map_or(&[][..], |args| match &args.kind {
                ArgKind::Record(fields) => fields,
                _ => &[],
            });
            format!("call {server}.{tool}{}", builtin::call(args))
        }
        OperationKind::Extension { .. } => builtin::extension::meaning(step),
    }
}

fn agent_meaning(agent: &AgentKind) -> String {
    match agent {
        AgentKind::Noop => "does nothing".to_owned(),
        AgentKind::Script { entry: false, .. } => "has no script for this task".to_owned(),
        AgentKind::Script { calls, .. } if calls.is_empty() => "follows its script, which calls nothing".to_owned(),
        AgentKind::Script { calls, .. } => {
            let call = |call: &OracleCall<Def>| format!("{}.{}", call.server.value, excerpt(&call.name.display()));
            format!("follows its script: {}", list(calls, call, "and"))
        }
        AgentKind::Shell(_) => "works on the prompt".to_owned(),
        AgentKind::Replay { .. } => "repeats the calls of its recording".to_owned(),
        AgentKind::Model(agent) => format!("{}:{} works on the prompt", agent.provider.name(), agent.model),
        AgentKind::Acp(agent) => format!("`{}` works on the prompt", excerpt(&agent.command.value)),
        AgentKind::ClaudeCode { .. } => "Claude Code works on the prompt".to_owned(),
        AgentKind::Unspecified => "any agent works on the prompt".to_owned(),
    }
}

fn assertion_meaning(assertion: &Assertion) -> String {
    let verb = |kind| match kind {
        CallKind::Tool => "calls",
        CallKind::Resource => "reads",
        CallKind::Prompt => "gets",
    };
    match &assertion.kind {
        AssertionKind::AllUsed(kind, calls) => format!("the agent {} {}", verb(*kind), list(calls, call, "and")),
        AssertionKind::AnyUsed(kind, calls) => format!("the agent {} {}", verb(*kind), list(calls, call, "or")),
        AssertionKind::NoneUsed(kind, calls) => format!("the agent never {} {}", verb(*kind), list(calls, call, "or")),
        AssertionKind::MinToolCalls(n) => format!("at least {n} tool call{}", if *n == 1 { "" } else { "s" }),
        AssertionKind::MaxToolCalls(n) => format!("at most {n} tool call{}", if *n == 1 { "" } else { "s" }),
        AssertionKind::CallOrder(calls) => {
            let words: Vec<_> = calls.iter().map(|c| format!("{}.{}", c.server.value, c.name.value)).collect();
            format!("in this order: {}", excerpt(&words.join(", ")))
        }
        AssertionKind::NoDuplicateCalls(true) => "no call is made twice".to_owned(),
        AssertionKind::NoDuplicateCalls(false) => "a call may be made twice".to_owned(),
        AssertionKind::SkillsLoaded(skills) => format!("the agent loads {}", list(skills, skill, "and")),
        AssertionKind::SkillsNotLoaded(skills) => format!("the agent never loads {}", list(skills, skill, "or")),
    }
}

/// Formats items as `a, b and c`; a long list is shortened.
fn list<T>(items: &[T], word: fn(&T) -> String, last: &str) -> String {
    const SHOWN: usize = 3;
    let mut words: Vec<_> = items.iter().take(SHOWN).map(word).collect();
    if items.len() > SHOWN {
        words.push(format!("{} more", items.len() - SHOWN));
    }
    match words.split_last() {
        Some((end, rest)) if !rest.is_empty() => format!("{} {last} {end}", rest.join(", ")),
        _ => words.concat(),
    }
}

fn call(matcher: &CallMatcher) -> String {
    let server = &matcher.server.value;
    match (&matcher.name, &matcher.pattern) {
        (Some(name), None) => format!("{server}.{}", excerpt(&name.value)),
        (None, Some(pattern)) => format!("`{}` of {server}", excerpt(&pattern.value)),
        (Some(name), Some(pattern)) => format!("{server}.{} or `{}`", excerpt(&name.value), excerpt(&pattern.value)),
        (None, None) => format!("anything of {server}"),
    }
}

fn skill(matcher: &SkillMatcher) -> String {
    match (&matcher.skill, &matcher.pattern) {
        (Some(skill), _) => format!("skill {}", excerpt(&skill.value)),
        (None, Some(pattern)) => format!("a skill like `{}`", excerpt(&pattern.value)),
        (None, None) => "any skill".to_owned(),
    }
}
