//! A plan as JSON: documented, versioned, the same bytes for the same plan on every machine.
//!
//! What decides a run stands under `plan`, and nothing else does: the digest is the SHA-256 of the RFC 8785 form of that
//! object. Beside it stands what is presentation (`source`), choice of the caller (`runs`, `parallel`) or description.
//! Literal secrets – values of telling names, headers that are no content negotiation – are masked.

use std::{
    borrow::Borrow,
    path::{Component, Path},
    time::Duration,
};

use indexmap::IndexMap;
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{Action, ActionIx, ActionKind, AgentKind, Edge, EvalPlan, Plan, canonical::canonical};
use crate::{
    hir::{
        AcpAgent, AgentRef, Arg, ArgKind, Assertion, AssertionKind, BlockRole, Bounds, CallKind, CallMatcher,
        CallStatus, Def, Expand, ExpandPart, Hole, ModelAgent, Name, OperationKind, OracleCall, Part, Provider, Server,
        ShellAgent, SkillMatcher, Target, Template, Transport,
    },
    secrets::{MASK, is_secret_name},
    signature::{Field, Shape},
    source::{Span, normalize},
    template::{Filter, SegmentKind, escape},
    ty::Type,
};

/// The version of the form; it grows when a reader of the old form would misread the new one.
pub const VERSION: u32 = 1;

/// What `gevals plan --format json` prints.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanDocument {
    pub version: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evals: Vec<EvalDocument>,
    /// Tasks planned by themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskDocument>,
}

/// An eval.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvalDocument {
    pub name: String,
    /// SHA-256 of the RFC 8785 form of `{"eval": plan, "tasks": […]}`, a task being its `name` and `digest`.
    pub digest: String,
    pub source: Source,
    /// Everything its tasks share.
    pub plan: EvalBody,
    /// In the order of collection; those not `parallel` run first, one by one.
    pub tasks: Vec<TaskDocument>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvalBody {
    pub agent: EvalAgent,
    pub servers: Vec<ServerDocument>,
    pub judge: bool,
    /// Who judges, where anybody does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judged_by: Option<JudgeDocument>,
    /// What all tasks may use together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitsDocument>,
}

/// The agent that judges answers.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JudgeDocument {
    pub name: String,
    /// `file`, `builtin.llm-agent`, …
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    pub agent: AgentKindDocument,
    /// The variables that decide when a run starts: base URL, key and model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<String>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvalAgent {
    pub name: String,
    /// `file`, `builtin.script`, …
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// An MCP server; variables are not expanded, secrets masked.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerDocument {
    pub name: String,
    /// A program and its arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub env: IndexMap<String, String>,
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub headers: IndexMap<String, String>,
    /// Whether the agent may call every tool.
    pub all_tools: bool,
    /// Those it may call, where not all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
}

/// Where something was written; presentation.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Source {
    pub path: String,
}

/// One task.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskDocument {
    pub name: String,
    /// SHA-256 of the RFC 8785 form of `plan`.
    pub digest: String,
    pub runs: u32,
    /// How many of them must pass, where not all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passes: Option<u32>,
    pub parallel: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difficulty: Option<String>,
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub labels: IndexMap<String, String>,
    /// Neither a verify step nor an assertion: it cannot pass.
    pub unchecked: bool,
    pub source: TaskSource,
    pub plan: TaskBody,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskSource {
    pub path: String,
    /// By action id.
    pub actions: IndexMap<String, ActionSource>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActionSource {
    /// One line for people.
    pub meaning: String,
    /// Bytes of the file it was written in, end exclusive.
    pub start: u32,
    pub end: u32,
}

/// Everything that decides a run of a task.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskBody {
    pub name: String,
    pub dialect: String,
    /// `spec.env`, an entry behind those it reads.
    pub env: IndexMap<String, TemplateDocument>,
    pub timeouts: Timeouts,
    pub reads: Reads,
    pub requires: Requires,
    /// What the agent may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitsDocument>,
    /// In execution order.
    pub actions: Vec<ActionDocument>,
    pub edges: Vec<EdgeDocument>,
}

/// What agents may use; what is left out has no limit.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LimitsDocument {
    /// In seconds; of an eval only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_time: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tool_calls: Option<u64>,
}

/// In seconds.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Timeouts {
    /// Of setup, agent and verify together.
    pub task: f64,
    pub cleanup: f64,
}

/// What the task takes from its surroundings.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Reads {
    /// Variables of the environment of gevals; true where the task cannot do without.
    pub env: IndexMap<String, bool>,
    /// SHA-256 by path, relative to the task's folder.
    pub files: IndexMap<String, String>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Requires {
    /// Programs on PATH.
    pub commands: Vec<String>,
    /// MCP servers that steps call.
    pub servers: Vec<String>,
    /// Whether a step needs the eval's judge.
    pub judge: bool,
}

/// Text with holes. `text` is in the hole language, holes written out in full; `holes` tells of each in turn.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateDocument {
    pub text: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holes: Vec<HoleDocument>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HoleDocument {
    pub from: HoleSource,
    /// `string`, `list<number>`, …
    #[serde(rename = "type")]
    pub ty: String,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum HoleSource {
    /// `spec.env`.
    TaskEnv,
    /// The environment of gevals.
    ProcessEnv,
    Random,
    Task,
    Agent,
    /// An output of a step.
    Step,
    /// The variable of a `foreach`.
    Loop,
    /// The step itself.
    Local,
    /// Earlier calls of the scripted agent.
    Calls,
}

/// A value: exactly one of the four.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Argument {
    /// JSON without holes.
    Literal(Value),
    Template(TemplateDocument),
    List(Vec<Argument>),
    Record(IndexMap<String, Argument>),
}

/// One thing that may happen.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActionDocument {
    pub id: String,
    pub phase: String,
    /// In seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
    pub continue_on_error: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<StepDocument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentDocument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assertion: Option<AssertionDocument>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocks: Vec<BlockDocument>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlockDocument {
    /// `setup`, `steps`, `branch`, `cleanup`.
    pub role: String,
    /// In execution order.
    pub actions: Vec<ActionDocument>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepDocument {
    pub operation: OperationDocument,
    /// What other steps call it by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Defaults included.
    pub args: IndexMap<String, Argument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect: Option<Argument>,
    /// Left out where the operation's own values are offered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outputs: Option<IndexMap<String, Argument>>,
    /// The variable of a `foreach`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub var: Option<String>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum OperationDocument {
    Builtin(String),
    Tool { server: String, tool: String },
    Extension { package: String, operation: String },
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentDocument {
    pub prompt: TemplateDocument,
    pub kind: AgentKindDocument,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skills: Option<SkillsDocument>,
}

/// What the agent is given to read.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SkillsDocument {
    pub sources: Vec<String>,
    /// Where they stand in the agent's folder.
    pub mount_path: String,
    /// The agent's own tool that reads one.
    pub tool_name: String,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum AgentKindDocument {
    /// `builtin.noop`.
    Noop,
    /// `builtin.script`; without `entry` the task is broken.
    Script { entry: bool, calls: Vec<CallDocument>, output: Option<TemplateDocument> },
    /// A command line per prompt.
    Shell {
        run_prompt: Option<String>,
        mcp_server_arg: Option<String>,
        allowed_tool_arg: Option<String>,
        allowed_tools_separator: Option<String>,
        use_virtual_home: bool,
    },
    /// The calls of a recording.
    Replay { path: String },
    /// A model that is spoken to directly.
    Model {
        provider: Provider,
        model: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        base_url: Option<String>,
        /// The variable that holds its key.
        #[serde(skip_serializing_if = "Option::is_none")]
        api_key: Option<String>,
    },
    /// A program that speaks the Agent Client Protocol.
    Acp { command: String, args: Vec<String> },
    /// Claude Code, over its adapter to that protocol or by its command line.
    ClaudeCode {
        #[serde(skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
    /// No eval names one.
    Unspecified,
}

/// A call of a scripted agent.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CallDocument {
    pub kind: CallKind,
    pub server: String,
    pub name: TemplateDocument,
    pub args: IndexMap<String, Argument>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AssertionDocument {
    /// As in the eval: `toolsUsed`, `maxToolCalls`, …
    pub key: String,
    pub demand: Demand,
}

/// What is demanded of the agent's calls.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Demand {
    /// Every matcher matches a call.
    All(Matchers),
    /// Some matcher matches a call.
    Any(Matchers),
    /// No matcher matches any call.
    None(Matchers),
    MinToolCalls(u64),
    MaxToolCalls(u64),
    CallOrder(Vec<OrderedCallDocument>),
    NoDuplicateCalls(bool),
    SkillsLoaded(Vec<SkillDocument>),
    SkillsNotLoaded(Vec<SkillDocument>),
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Matchers {
    pub kind: CallKind,
    pub calls: Vec<MatcherDocument>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MatcherDocument {
    pub server: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// Every key given must be there with this value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<CallStatus>,
    /// In seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_duration: Option<f64>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OrderedCallDocument {
    pub kind: CallKind,
    pub server: String,
    pub name: String,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SkillDocument {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skill: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
}

/// How one action depends on another.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EdgeDocument {
    pub from: String,
    pub to: String,
    pub kind: EdgeKind,
    /// The value that flows (`data`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum EdgeKind {
    /// `to` runs after `from`.
    Order,
    /// `to` uses a value of `from`.
    Data,
    /// `to` is owed once `from` has started.
    Finally,
    /// `to` begins a branch of `from`.
    Branch,
}

/// One document of evals, each with those of its tasks that are to be shown, and of tasks alone.
pub fn document<'a>(groups: impl IntoIterator<Item = (Option<&'a EvalPlan>, &'a [Plan])>) -> PlanDocument {
    let mut document = PlanDocument { version: VERSION, evals: Vec::new(), tasks: Vec::new() };
    for (eval, plans) in groups {
        let tasks: Vec<_> = plans.par_iter().map(task_document).collect();
        match eval {
            Some(eval) => document.evals.push(eval_document(eval, tasks)),
            None => document.tasks.extend(tasks),
        }
    }
    document
}

fn eval_document(eval: &EvalPlan, tasks: Vec<TaskDocument>) -> EvalDocument {
    let plan = eval_body(eval);
    EvalDocument {
        name: eval.name.clone(),
        digest: whole_digest(&plan, tasks.iter().map(|t| (t.name.as_str(), t.digest.as_str()))),
        source: Source { path: slashes(&eval.path) },
        plan,
        tasks,
    }
}

/// A task's plan digest, which results quote.
pub fn digest(plan: &Plan) -> String {
    body_digest(&task_facts(plan), top(plan).map(|&ix| action_document(plan, ix)), edges(plan).iter())
}

/// The digest of a body, whose actions and edges are handed in beside it, so that large ones need not be held whole.
fn body_digest<'a>(
    facts: &TaskBody,
    actions: impl Iterator<Item = impl Borrow<ActionDocument>>,
    edges: impl Iterator<Item = &'a EdgeDocument>,
) -> String {
    let facts = canonical(facts);
    // Keys are sorted, and what stands before the edges is one of our own words.
    let hole = |key: &str| facts.windows(key.len()).position(|w| w == key.as_bytes()).map(|at| at + key.len() - 1);
    let (Some(first), Some(second)) = (hole("\"actions\":[]"), hole("\"edges\":[]")) else {
        return named(Sha256::digest(&facts));
    };
    let mut hash = Sha256::new();
    hash.update(&facts[..first]);
    for (i, action) in actions.enumerate() {
        hash.update(if i > 0 { "," } else { "" });
        hash.update(canonical(action.borrow()));
    }
    hash.update(&facts[first..second]);
    for (i, edge) in edges.enumerate() {
        hash.update(if i > 0 { "," } else { "" });
        hash.update(canonical(edge));
    }
    hash.update(&facts[second..]);
    named(hash.finalize())
}

/// An eval's plan digest: its agent, servers and judge, and the digests of its tasks.
pub fn eval_digest(eval: &EvalPlan) -> String {
    let tasks: Vec<_> = eval.tasks.par_iter().map(|plan| (plan.task.name.value.as_str(), digest(plan))).collect();
    whole_digest(&eval_body(eval), tasks.iter().map(|(name, digest)| (*name, digest.as_str())))
}

fn whole_digest<'a>(eval: &EvalBody, tasks: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let tasks: Vec<_> = tasks.map(|(name, digest)| json!({ "name": name, "digest": digest })).collect();
    sha256(&json!({ "eval": eval, "tasks": tasks }))
}

fn sha256(value: &impl Serialize) -> String {
    named(Sha256::digest(canonical(value)))
}

fn named(hash: impl AsRef<[u8]>) -> String {
    format!("sha256:{}", hex::encode(hash))
}

pub(super) fn eval_body(eval: &EvalPlan) -> EvalBody {
    let word = |get: fn(&AgentRef) -> Option<&Name>| eval.agent.as_ref().and_then(get).map(|n| n.value.clone());
    EvalBody {
        agent: EvalAgent {
            name: eval.agent_name.clone(),
            kind: word(|a| Some(&a.kind)),
            model: word(|a| a.model.as_ref()),
        },
        servers: eval.servers.iter().map(server_document).collect(),
        judge: eval.judge.is_some(),
        limits: limits(&eval.budget.bounds, eval.budget.time),
        judged_by: eval.judge.as_ref().map(|judge| JudgeDocument {
            name: judge.name.clone(),
            kind: judge.agent.kind.value.clone(),
            model: judge.agent.model.as_ref().map(|m| m.value.clone()),
            agent: agent_kind(&judge.kind),
            variables: judge
                .env
                .iter()
                .flat_map(|e| [&e.base_url, &e.api_key, &e.model_name])
                .flatten()
                .map(|n| n.value.clone())
                .collect(),
        }),
    }
}

fn server_document(server: &Server) -> ServerDocument {
    let mut document = ServerDocument {
        name: server.name.value.clone(),
        command: Vec::new(),
        url: None,
        env: IndexMap::new(),
        headers: IndexMap::new(),
        all_tools: server.enable_all_tools.is_some_and(|e| e.value),
        tools: server.always_allow.iter().map(|t| t.value.clone()).collect(),
    };
    let map = |entries: &[(Name, Expand)], secret: fn(&str) -> bool| {
        let shown = |n: &Name, v: &Expand| if secret(&n.value) { masked_expand(v) } else { v.display() };
        entries.iter().map(|(n, v)| (n.value.clone(), shown(n, v))).collect()
    };
    match &server.transport {
        Transport::Stdio { command, args, env } => {
            document.command = std::iter::once(command).chain(args).map(Expand::display).collect();
            document.env = map(env, is_secret_name);
        }
        Transport::Http { url, headers } => {
            document.url = Some(url.display());
            document.headers = map(headers, is_secret_header);
        }
    }
    document
}

fn masked_expand(value: &Expand) -> String {
    let parts = value.parts.iter().map(|part| match part {
        ExpandPart::Text(_) => MASK.to_owned(),
        ExpandPart::Var { name, default: None } => format!("${{{name}}}"),
        ExpandPart::Var { name, default: Some(_) } => format!("${{{name}:-{MASK}}}"),
    });
    parts.collect()
}

fn task_document(plan: &Plan) -> TaskDocument {
    let mut actions = IndexMap::new();
    plan.walk(&mut |_, _, action| {
        let Span { start, end, .. } = action.span;
        actions.insert(action.id.clone(), ActionSource { meaning: action.meaning.clone(), start, end });
    });
    let mut facts = task_facts(plan);
    let top: Vec<_> = top(plan).map(|&ix| action_document(plan, ix)).collect();
    let edges = edges(plan);
    let digest = body_digest(&facts, top.iter(), edges.iter());
    (facts.actions, facts.edges) = (top, edges);
    let task = &plan.task;
    TaskDocument {
        name: task.name.value.clone(),
        digest,
        runs: task.runs,
        passes: task.gate.map(|(passes, _)| passes),
        parallel: task.parallel,
        difficulty: task.difficulty.clone(),
        labels: task.labels.clone(),
        unchecked: task.unchecked,
        source: TaskSource { path: slashes(&task.path), actions },
        plan: facts,
    }
}

fn top(plan: &Plan) -> impl Iterator<Item = &ActionIx> {
    plan.setup.iter().chain([&plan.agent]).chain(&plan.verify).chain(&plan.assertions).chain(&plan.cleanup)
}

/// A task's body without its actions.
pub(super) fn task_facts(plan: &Plan) -> TaskBody {
    let task = &plan.task;
    let mut judge = false;
    plan.walk(&mut |_, _, action| {
        judge |= matches!(&action.kind, ActionKind::Step(step) if step.op.signature.judges);
    });
    let env = plan.env.iter().map(|(name, template)| (name.clone(), template_document(template, is_secret_name(name))));
    let mut variables: Vec<_> = plan.process_env.iter().map(|(n, v)| (n.clone(), v.required)).collect();
    variables.sort();
    TaskBody {
        name: task.name.value.clone(),
        dialect: task.dialect.name().to_owned(),
        env: env.collect(),
        timeouts: Timeouts { task: plan.timeout.as_secs_f64(), cleanup: plan.cleanup_timeout.as_secs_f64() },
        reads: Reads { env: variables.into_iter().collect(), files: files(plan) },
        requires: Requires {
            commands: plan.commands.iter().map(|c| c.value.clone()).collect(),
            servers: plan.step_servers.clone(),
            judge,
        },
        limits: limits(&plan.bounds, None),
        actions: Vec::new(),
        edges: Vec::new(),
    }
}

fn limits(bounds: &Bounds, time: Option<Duration>) -> Option<LimitsDocument> {
    (time.is_some() || !bounds.is_empty()).then(|| LimitsDocument {
        max_time: time.map(|t| t.as_secs_f64()),
        max_tokens: bounds.tokens,
        max_cost: bounds.cost,
        max_tool_calls: bounds.tool_calls,
    })
}

/// SHA-256 of every file the task refers to, by path from the task's folder, sorted.
pub fn files(plan: &Plan) -> IndexMap<String, String> {
    let mut files: Vec<_> = plan.files.iter().map(|(p, sha)| (relative(&plan.task.dir, p), sha.clone())).collect();
    files.sort();
    files.into_iter().collect()
}

fn edges(plan: &Plan) -> Vec<EdgeDocument> {
    let edges = plan.graph.edge_indices().filter_map(|edge| {
        let (from, to) = plan.graph.edge_endpoints(edge)?;
        let (kind, name) = match &plan.graph[edge] {
            Edge::Order => (EdgeKind::Order, None),
            Edge::Data(name) => (EdgeKind::Data, Some(name.clone())),
            Edge::Finally => (EdgeKind::Finally, None),
            Edge::Branch => (EdgeKind::Branch, None),
        };
        Some(EdgeDocument { from: plan.action(from).id.clone(), to: plan.action(to).id.clone(), kind, name })
    });
    let mut edges: Vec<_> = edges.collect();
    // The order in which an author wrote holes and variables decides nothing.
    edges.sort_by(|a, b| {
        let key = |e: &EdgeDocument| e.kind as u8;
        (&a.from, &a.to, key(a), &a.name).cmp(&(&b.from, &b.to, key(b), &b.name))
    });
    edges
}

fn action_document(plan: &Plan, ix: ActionIx) -> ActionDocument {
    let action = plan.action(ix);
    let mut document = own_document(action);
    let blocks = action.blocks.iter().map(|block| BlockDocument {
        role: block_role(block.role).to_owned(),
        actions: block.actions.iter().map(|&ix| action_document(plan, ix)).collect(),
    });
    document.blocks = blocks.collect();
    document
}

fn block_role(role: BlockRole) -> &'static str {
    match role {
        BlockRole::Setup => "setup",
        BlockRole::Steps => "steps",
        BlockRole::Branch => "branch",
        BlockRole::Cleanup => "cleanup",
    }
}

/// An action without what is nested in it.
pub(super) fn own_document(action: &Action) -> ActionDocument {
    let mut document = ActionDocument {
        id: action.id.clone(),
        phase: action.phase.name().to_owned(),
        timeout: action.timeout.map(|t| t.as_secs_f64()),
        continue_on_error: action.continue_on_error,
        step: None,
        agent: None,
        assertion: None,
        blocks: Vec::new(),
    };
    match &action.kind {
        ActionKind::Step(step) => {
            document.step = Some(StepDocument {
                operation: match &step.op.kind {
                    OperationKind::Builtin(name) => OperationDocument::Builtin((*name).to_owned()),
                    OperationKind::Tool { server, tool } => {
                        OperationDocument::Tool { server: server.clone(), tool: tool.clone() }
                    }
                    OperationKind::Extension { package, operation } => {
                        OperationDocument::Extension { package: package.clone(), operation: operation.clone() }
                    }
                },
                id: step.id.clone(),
                args: record(&step.args, step.op.signature.params.fields(), true),
                expect: step.expect.as_ref().map(|e| argument(e, step.op.signature.expect.as_deref())),
                outputs: step.outputs.as_ref().map(|outputs| record(outputs, None, false)),
                var: step.var.clone(),
            });
        }
        ActionKind::Agent(agent) => {
            document.agent = Some(AgentDocument {
                prompt: template_document(&agent.prompt, false),
                kind: agent_kind(&agent.kind),
                skills: agent.skills.as_ref().map(|skills| SkillsDocument {
                    sources: skills.sources.iter().map(|path| path.to_string_lossy().into_owned()).collect(),
                    mount_path: skills.path.clone(),
                    tool_name: skills.tool.clone(),
                }),
            });
        }
        ActionKind::Assertion(assertion) => document.assertion = Some(assertion_document(assertion)),
    }
    document
}

fn agent_kind(kind: &AgentKind) -> AgentKindDocument {
    match kind {
        AgentKind::Noop => AgentKindDocument::Noop,
        AgentKind::Script { calls, output, entry } => AgentKindDocument::Script {
            entry: *entry,
            calls: calls.iter().map(call_document).collect(),
            output: output.as_ref().map(|t| template_document(t, false)),
        },
        AgentKind::Shell(ShellAgent {
            run_prompt,
            mcp_server_arg,
            allowed_tool_arg,
            allowed_tools_separator,
            use_virtual_home,
            ..
        }) => {
            let text = |name: &Option<Name>| name.as_ref().map(|n| n.value.clone());
            AgentKindDocument::Shell {
                run_prompt: text(run_prompt),
                mcp_server_arg: text(mcp_server_arg),
                allowed_tool_arg: text(allowed_tool_arg),
                allowed_tools_separator: text(allowed_tools_separator),
                use_virtual_home: use_virtual_home.is_some_and(|u| u.value),
            }
        }
        AgentKind::Replay { path } => AgentKindDocument::Replay { path: path.to_string_lossy().into_owned() },
        AgentKind::Model(ModelAgent { provider, model, base_url, api_key, .. }) => AgentKindDocument::Model {
            provider: *provider,
            model: model.clone(),
            base_url: base_url.as_ref().map(|n| n.value.clone()),
            api_key: api_key.as_ref().map(|n| n.value.clone()),
        },
        AgentKind::Acp(AcpAgent { command, args, .. }) => AgentKindDocument::Acp {
            command: command.value.clone(),
            args: args.iter().map(|arg| arg.value.clone()).collect(),
        },
        AgentKind::ClaudeCode { model } => AgentKindDocument::ClaudeCode { model: model.clone() },
        AgentKind::Unspecified => AgentKindDocument::Unspecified,
    }
}

fn call_document(call: &OracleCall<Def>) -> CallDocument {
    CallDocument {
        kind: call.kind,
        server: call.server.value.clone(),
        name: template_document(&call.name, false),
        args: record(&call.args, None, false),
    }
}

fn assertion_document(assertion: &Assertion) -> AssertionDocument {
    let matchers = |kind: CallKind, calls: &[CallMatcher]| Matchers {
        kind,
        calls: calls
            .iter()
            .map(|m| MatcherDocument {
                server: m.server.value.clone(),
                name: m.name.as_ref().map(|n| n.value.clone()),
                pattern: m.pattern.as_ref().map(|p| p.value.clone()),
                arguments: m.arguments.as_ref().map(|a| a.value.clone()),
                status: m.status.map(|s| s.value),
                max_duration: m.max_duration.map(|d| d.value.as_secs_f64()),
            })
            .collect(),
    };
    let skills = |skills: &[SkillMatcher]| {
        let text = |name: &Option<Name>| name.as_ref().map(|n| n.value.clone());
        skills.iter().map(|s| SkillDocument { skill: text(&s.skill), pattern: text(&s.pattern) }).collect()
    };
    let demand = match &assertion.kind {
        AssertionKind::AllUsed(kind, calls) => Demand::All(matchers(*kind, calls)),
        AssertionKind::AnyUsed(kind, calls) => Demand::Any(matchers(*kind, calls)),
        AssertionKind::NoneUsed(kind, calls) => Demand::None(matchers(*kind, calls)),
        AssertionKind::MinToolCalls(n) => Demand::MinToolCalls(*n),
        AssertionKind::MaxToolCalls(n) => Demand::MaxToolCalls(*n),
        AssertionKind::CallOrder(calls) => Demand::CallOrder(
            calls
                .iter()
                .map(|c| OrderedCallDocument {
                    kind: c.kind,
                    server: c.server.value.clone(),
                    name: c.name.value.clone(),
                })
                .collect(),
        ),
        AssertionKind::NoDuplicateCalls(on) => Demand::NoDuplicateCalls(*on),
        AssertionKind::SkillsLoaded(list) => Demand::SkillsLoaded(skills(list)),
        AssertionKind::SkillsNotLoaded(list) => Demand::SkillsNotLoaded(skills(list)),
    };
    AssertionDocument { key: assertion.key.value.clone(), demand }
}

type Fields = IndexMap<String, Field>;

/// A record with the defaults of its shape. `step`: the arguments of a step, among which variables and headers may be
/// secret.
fn record(entries: &[(Name, Arg<Def>)], fields: Option<&Fields>, step: bool) -> IndexMap<String, Argument> {
    let mut record = IndexMap::new();
    for (name, arg) in entries {
        let value = match (name.value.as_str(), &arg.kind) {
            ("env", ArgKind::Record(inner)) if step => guarded(inner, is_secret_name),
            ("headers", ArgKind::Record(inner)) if step => guarded(inner, is_secret_header),
            _ => argument(arg, fields.and_then(|f| f.get(&name.value)).map(|f| &f.shape)),
        };
        record.insert(name.value.clone(), value);
    }
    for (name, field) in fields.into_iter().flatten() {
        if let Some(default) = field.default.as_ref().filter(|d| !d.is_null())
            && !record.contains_key(name)
        {
            record.insert(name.clone(), Argument::Literal(default.clone()));
        }
    }
    record
}

fn guarded(entries: &[(Name, Arg<Def>)], secret: fn(&str) -> bool) -> Argument {
    let value = |name: &Name, arg: &Arg<Def>| match (&arg.kind, secret(&name.value)) {
        (_, false) => argument(arg, None),
        (ArgKind::Text(template), true) if template.as_literal().is_none() => {
            Argument::Template(template_document(template, true))
        }
        (_, true) => Argument::Literal(MASK.into()),
    };
    Argument::Record(entries.iter().map(|(n, a)| (n.value.clone(), value(n, a))).collect())
}

fn argument(arg: &Arg<Def>, shape: Option<&Shape>) -> Argument {
    match &arg.kind {
        ArgKind::Record(entries) => match shape.and_then(Shape::fields) {
            Some(fields) => Argument::Record(record(entries, Some(fields), false)),
            None => match arg.as_value() {
                Some(value) => Argument::Literal(value),
                None => Argument::Record(record(entries, None, false)),
            },
        },
        ArgKind::List(items) => match arg.as_value() {
            Some(value) => Argument::Literal(value),
            None => Argument::List(items.iter().map(|a| argument(a, None)).collect()),
        },
        ArgKind::Text(template) if template.as_literal().is_none() => {
            Argument::Template(template_document(template, false))
        }
        _ => Argument::Literal(arg.as_value().unwrap_or_default()),
    }
}

/// The value of a variable of `spec.env` as it may be shown.
pub fn shown(name: &str, template: &Template<Def>) -> String {
    template_document(template, is_secret_name(name)).text
}

/// The literal texts that a plan masks.
pub fn literal_secrets(plan: &Plan) -> Vec<String> {
    let (mut secrets, mut others) = (Vec::new(), Vec::new());
    let mut literals = |template: &Template<Def>| {
        for part in &template.parts {
            if let Part::Text(text) = part {
                // A text of several lines is indented where it is written.
                secrets.extend(text.lines().map(|line| line.trim().to_owned()));
            }
        }
    };
    plan.env.iter().filter(|(name, _)| is_secret_name(name)).for_each(|(_, template)| literals(template));
    plan.walk(&mut |_, _, action| {
        let ActionKind::Step(step) = &action.kind else { return };
        for (name, arg) in &step.args {
            let secret: fn(&str) -> bool = match name.value.as_str() {
                "env" => is_secret_name,
                "headers" => is_secret_header,
                _ => continue,
            };
            let ArgKind::Record(entries) = &arg.kind else { continue };
            for (_, arg) in entries.iter().filter(|(name, _)| secret(&name.value)) {
                arg.templates(&mut literals);
                others.extend(arg.as_value().filter(|v| !v.is_string()).map(|v| v.to_string()));
            }
        }
    });
    secrets.append(&mut others);
    secrets
}

/// `masked`: literal text is a secret, holes are not.
fn template_document(template: &Template<Def>, masked: bool) -> TemplateDocument {
    let mut text = String::new();
    let mut holes = Vec::new();
    for (i, part) in template.parts.iter().enumerate() {
        match part {
            Part::Text(_) if masked => text.push_str(MASK),
            Part::Text(literal) => {
                let escaped = escape(literal);
                text.push_str(&escaped);
                // Backslashes before a hole escape each other.
                if matches!(template.parts.get(i + 1), Some(Part::Hole(_))) {
                    let slashes = escaped.len() - escaped.trim_end_matches('\\').len();
                    text.extend(std::iter::repeat_n('\\', slashes));
                }
            }
            Part::Hole(hole) => {
                text.push_str(&written(hole));
                holes.push(HoleDocument {
                    from: hole_source(&hole.reference.target),
                    ty: type_name(&hole.reference.ty),
                });
            }
        }
    }
    TemplateDocument { text, holes }
}

/// A hole in its one canonical spelling.
fn written(hole: &Hole<Def>) -> String {
    let mut path = match &hole.reference.target {
        Target::TaskEnv(name) | Target::ProcessEnv(name) => format!("env.{name}"),
        Target::RandomId => "random.id".to_owned(),
        Target::RandomPort => "random.port".to_owned(),
        Target::TaskName => "task.name".to_owned(),
        Target::AgentOutput => "agent.output".to_owned(),
        Target::AgentPrompt => "agent.prompt".to_owned(),
        Target::Output { step, name } => format!("steps.{step}.outputs.{name}"),
        Target::Loop(name) | Target::Local(name) => name.clone(),
        Target::Calls => "calls".to_owned(),
    };
    for segment in &hole.reference.segments {
        path += &match segment {
            SegmentKind::Name(name) => format!(".{name}"),
            SegmentKind::Index(index) => format!("[{index}]"),
        };
    }
    let filters: String = hole.filters.iter().map(filter_text).collect();
    format!("{{{path}{filters}}}")
}

fn filter_text(filter: &Filter) -> String {
    let args: Vec<_> = filter.args.iter().map(|a| a.value.to_string()).collect();
    match args.is_empty() {
        true => format!(" | {}", filter.name.text),
        false => format!(" | {}({})", filter.name.text, args.join(", ")),
    }
}

fn hole_source(target: &Target) -> HoleSource {
    match target {
        Target::TaskEnv(_) => HoleSource::TaskEnv,
        Target::ProcessEnv(_) => HoleSource::ProcessEnv,
        Target::RandomId | Target::RandomPort => HoleSource::Random,
        Target::TaskName => HoleSource::Task,
        Target::AgentOutput | Target::AgentPrompt => HoleSource::Agent,
        Target::Output { .. } => HoleSource::Step,
        Target::Loop(_) => HoleSource::Loop,
        Target::Local(_) => HoleSource::Local,
        Target::Calls => HoleSource::Calls,
    }
}

fn type_name(ty: &Type) -> String {
    match ty {
        Type::Any => "any".to_owned(),
        Type::Null => "null".to_owned(),
        Type::Bool => "bool".to_owned(),
        Type::Number => "number".to_owned(),
        Type::String => "string".to_owned(),
        Type::List(of) => format!("list<{}>", type_name(of)),
        Type::Record { .. } => "record".to_owned(),
    }
}

/// Every header but those of content negotiation (`decisions.md` §10).
pub fn is_secret_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    !(name == "accept" || name.starts_with("accept-") || name.starts_with("content-") || name == "user-agent")
}

/// A path as seen from the task's folder, so that a plan is the same wherever the suite lies.
fn relative(dir: &Path, path: &Path) -> String {
    let (dir, path) = (normalize(dir), normalize(path));
    let common = dir.components().zip(path.components()).take_while(|(a, b)| a == b).count();
    let up = dir.components().skip(common);
    if dir.has_root() != path.has_root() || up.clone().any(|c| c == Component::ParentDir) {
        return slashes(&path);
    }
    let parts = up.map(|_| "..".to_owned());
    let down = path.components().skip(common).map(|c| c.as_os_str().to_string_lossy().into_owned());
    parts.chain(down).collect::<Vec<_>>().join("/")
}

fn slashes(path: &Path) -> String {
    path.to_string_lossy().replace('\\', "/")
}
