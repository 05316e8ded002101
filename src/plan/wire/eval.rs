//! An eval: everything its tasks share, and its digest.

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::{
    agent::{AgentKindDocument, agent_kind},
    digest::sha256,
    limits::{LimitsDocument, limits},
    server::{ServerDocument, server_document},
    source::{Source, slashes},
    task::{TaskDocument, digest},
};
use crate::{
    hir::{AgentRef, Name},
    package::{Package, package},
    plan::{EvalPlan, reach},
};

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

/// What the digest of an eval covers.
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
    /// The extensions that tasks use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<ExtensionDocument>,
}

/// An extension that tasks use.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExtensionDocument {
    /// What tasks know it by: an alias of the eval, or a reference.
    pub name: String,
    /// The reference.
    pub package: String,
    /// The bundled extension that it means.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bundled: Option<String>,
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

/// The agent of an eval.
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

pub(super) fn eval_document(eval: &EvalPlan, tasks: Vec<TaskDocument>) -> EvalDocument {
    let plan = eval_body(eval);
    EvalDocument {
        name: eval.name.clone(),
        digest: whole_digest(&plan, tasks.iter().map(|t| (t.name.as_str(), t.digest.as_str()))),
        source: Source { path: slashes(&eval.path) },
        plan,
        tasks,
    }
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

/// The bundled extension that a reference means.
pub fn meant(reference: &str) -> Option<String> {
    match package(reference) {
        Ok(Package::Bundled(name)) => Some(format!("builtin:{name}")),
        _ => None,
    }
}

/// What the digest of an eval covers.
pub fn eval_body(eval: &EvalPlan) -> EvalBody {
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
        extensions: reach::extensions(eval)
            .into_iter()
            .map(|(name, package)| ExtensionDocument { bundled: meant(&package), name, package })
            .collect(),
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
