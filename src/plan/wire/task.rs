//! A task: everything that decides a run of it, and its digest.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    action::{ActionDocument, action_document},
    digest::body_digest,
    edge::{EdgeDocument, edges},
    limits::{LimitsDocument, limits},
    source::{relative, slashes},
    value::{TemplateDocument, template_document},
};
use crate::{
    plan::{ActionIx, ActionKind, Plan, PlanPhase},
    secrets::is_secret_name,
    source::Span,
};

/// One task.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskDocument {
    pub name: String,
    /// SHA-256 of the RFC 8785 form of `plan`.
    pub digest: String,
    pub runs: u32,
    /// How many runs must pass, if not all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passes: Option<u32>,
    pub parallel: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difficulty: Option<String>,
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub labels: IndexMap<String, String>,
    /// The task has neither a verify step nor an assertion, so it cannot pass.
    pub unchecked: bool,
    pub source: TaskSource,
    pub plan: TaskBody,
}

/// Where a task is written; not part of the digest.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskSource {
    pub path: String,
    /// Locations by action ID.
    pub actions: IndexMap<String, ActionSource>,
}

/// Where an action is written; not part of the digest.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActionSource {
    /// A one-line human-readable description.
    pub meaning: String,
    /// The byte range in the file; the end is exclusive.
    pub start: u32,
    pub end: u32,
}

/// Everything that determines a run of a task.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskBody {
    pub name: String,
    pub dialect: String,
    /// `spec.env`; each entry comes after the entries that it reads.
    pub env: IndexMap<String, TemplateDocument>,
    pub timeouts: Timeouts,
    pub reads: Reads,
    pub requires: Requires,
    /// Limits on what the agent may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitsDocument>,
    /// In execution order.
    pub actions: Vec<ActionDocument>,
    pub edges: Vec<EdgeDocument>,
}

/// In seconds.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Timeouts {
    /// The time limit of setup, agent and verify together.
    pub task: f64,
    pub cleanup: f64,
}

/// What the task reads from its environment.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Reads {
    /// Environment variables of gevals; true if the task requires the variable.
    pub env: IndexMap<String, bool>,
    /// SHA-256 digests by path, relative to the task's directory.
    pub files: IndexMap<String, String>,
}

/// What the task requires of the machine and the eval.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Requires {
    /// Programs that must be on the `PATH`.
    pub commands: Vec<String>,
    /// MCP servers that steps call.
    pub servers: Vec<String>,
    /// Whether a step needs the eval's judge.
    pub judge: bool,
}

/// Returns the plan digest of a task, which results quote.
pub fn digest(plan: &Plan) -> String {
    body_digest(&task_facts(plan), top(plan).map(|ix| action_document(plan, ix)), edges(plan).iter())
}

pub(super) fn task_document(plan: &Plan) -> TaskDocument {
    let mut actions = IndexMap::new();
    plan.walk(&mut |_, _, action| {
        let Span { start, end, .. } = action.span;
        actions.insert(action.id.clone(), ActionSource { meaning: action.meaning.clone(), start, end });
    });
    let mut facts = task_facts(plan);
    let top: Vec<_> = top(plan).map(|ix| action_document(plan, ix)).collect();
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

fn top(plan: &Plan) -> impl Iterator<Item = ActionIx> {
    PlanPhase::ALL.into_iter().flat_map(|phase| plan.members(phase))
}

/// Returns a task's body without its actions.
pub fn task_facts(plan: &Plan) -> TaskBody {
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

/// Returns the SHA-256 of every file that the task refers to, by path from the task's directory,
/// sorted.
pub fn files(plan: &Plan) -> IndexMap<String, String> {
    let mut files: Vec<_> = plan.files.iter().map(|(p, sha)| (relative(&plan.task.dir, p), sha.clone())).collect();
    files.sort();
    files.into_iter().collect()
}
