//! An eval: everything its tasks share, and its digest.

use std::path::PathBuf;

use indexmap::IndexMap;
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
    hir::{AgentRef, Isolation, Name, Sandbox},
    lock::Permissions,
    package::{Package, package},
    plan::{EvalPlan, Granted, Isolated, reach},
};

/// An eval.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvalDocument {
    pub name: String,
    /// SHA-256 of the RFC 8785 form of `{"eval": plan, "tasks": […]}`, where each task is its `name` and `digest`.
    pub digest: String,
    pub source: Source,
    /// Everything that the tasks share.
    pub plan: EvalBody,
    /// Tasks in the order in which they were collected; tasks that are not `parallel` run first, one at a time.
    pub tasks: Vec<TaskDocument>,
}

/// What the digest of an eval covers.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvalBody {
    pub agent: EvalAgent,
    pub servers: Vec<ServerDocument>,
    pub judge: bool,
    /// The judge, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judged_by: Option<JudgeDocument>,
    /// What all tasks together may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitsDocument>,
    /// The share of a disposable Kubernetes control plane that each task run gets: `namespace` or `api`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kube: Option<String>,
    /// How extensions are sandboxed, if they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    /// The extensions that tasks use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<ExtensionDocument>,
}

/// An extension that tasks use.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExtensionDocument {
    /// The name that tasks use: an alias of the eval, or a reference.
    pub name: String,
    /// The reference to the package.
    pub package: String,
    /// The bundled extension that the reference resolves to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bundled: Option<String>,
    /// The release that the lock file pins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<ReleaseDocument>,
    /// The permissions that its manifest requests, and those that the eval grants in a sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asks: Option<Permissions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grants: Option<Permissions>,
}

/// A release of an extension.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseDocument {
    pub tag: String,
    /// SHA-256 digests by file name.
    pub files: IndexMap<String, String>,
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
    /// The environment variables that are read when a run starts: base URL, key and model.
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
    /// How the agent is isolated from the machine, if specified; the level is `auto` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolation: Option<IsolationDocument>,
}

/// How an agent is isolated from the machine, and what it can access nevertheless.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IsolationDocument {
    pub level: Isolation,
    /// What the agent file requests in addition to a level, and what the eval grants.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asks: Option<Permissions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grants: Option<Permissions>,
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

/// Returns the plan digest of an eval, from its agent, servers and judge, and the digests of its tasks.
pub fn eval_digest(eval: &EvalPlan) -> String {
    let tasks: Vec<_> = eval.tasks.par_iter().map(|plan| (plan.task.name.value.as_str(), digest(plan))).collect();
    whole_digest(&eval_body(eval), tasks.iter().map(|(name, digest)| (*name, digest.as_str())))
}

fn whole_digest<'a>(eval: &EvalBody, tasks: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let tasks: Vec<_> = tasks.map(|(name, digest)| json!({ "name": name, "digest": digest })).collect();
    sha256(&json!({ "eval": eval, "tasks": tasks }))
}

/// Returns the extensions that tasks use.
pub fn used_extensions(eval: &EvalPlan) -> Vec<ExtensionDocument> {
    let document = |(name, reference): (String, String)| {
        let meant = package(&reference, eval.extensions.substitute);
        let asks = eval.extensions.asked.get(&name).cloned();
        let grants = eval.extensions.get(&name).and_then(|declared| grants(&declared.granted));
        let pinned = eval.extensions.releases.get(&reference);
        let release = pinned.filter(|_| matches!(meant, Ok(Package::Release { .. })));
        ExtensionDocument {
            bundled: match meant {
                Ok(Package::Bundled(name)) => Some(format!("builtin:{name}")),
                _ => None,
            },
            release: release.map(|r| ReleaseDocument { tag: r.tag.clone(), files: r.files.clone() }),
            name,
            package: reference,
            asks,
            grants,
        }
    };
    reach::extensions(eval).into_iter().map(document).collect()
}

fn isolation(isolated: &Isolated) -> Option<IsolationDocument> {
    let Isolated { level, meant, asks, granted } = isolated;
    let asks = asks.as_ref().map(|(_, asks)| asks.clone()).filter(|asks| !asks.is_empty());
    let grants = grants(granted);
    (*meant || asks.is_some() || grants.is_some()).then_some(IsolationDocument { level: *level, asks, grants })
}

/// Returns granted permissions in the form of documents; `None` if nothing is granted.
pub fn grants(granted: &Granted) -> Option<Permissions> {
    let paths = |paths: &[PathBuf]| paths.iter().map(|path| slashes(path)).collect();
    (*granted != Granted::default()).then(|| Permissions {
        network: granted.network,
        read: paths(&granted.read),
        write: paths(&granted.write),
        env: granted.env.clone(),
    })
}

/// Returns what the digest of an eval covers.
pub fn eval_body(eval: &EvalPlan) -> EvalBody {
    let word = |get: fn(&AgentRef) -> Option<&Name>| eval.agent.as_ref().and_then(get).map(|n| n.value.clone());
    EvalBody {
        agent: EvalAgent {
            name: eval.agent_name.clone(),
            kind: word(|a| Some(&a.kind)),
            model: word(|a| a.model.as_ref()),
            isolation: isolation(&eval.isolation),
        },
        servers: eval.servers.iter().map(server_document).collect(),
        judge: eval.judge.is_some(),
        limits: limits(&eval.budget.bounds, eval.budget.time),
        kube: eval.world.map(|world| world.name().to_owned()),
        sandbox: Some(eval.extensions.sandbox).filter(|s| *s != Sandbox::None).map(|s| s.name().to_owned()),
        extensions: used_extensions(eval),
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
