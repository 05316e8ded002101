//! A plan as JSON: documented, versioned, and the same bytes for the same plan on every machine.
//!
//! `plan` contains everything that decides a run, and nothing else: the digest is the SHA-256 of the RFC 8785 form of
//! that object. The keys beside it are presentation (`source`), choices of the caller (`runs`, `parallel`) or
//! descriptions. Literal secrets are masked: values with telling names, and headers that are not part of content
//! negotiation.

mod action;
mod agent;
mod assertion;
mod digest;
mod edge;
mod eval;
mod limits;
mod secret;
mod server;
mod source;
mod task;
mod value;

pub use action::{ActionDocument, BlockDocument, OperationDocument, StepDocument, own_document};
pub use agent::{AgentDocument, AgentKindDocument, CallDocument, SkillsDocument};
pub use assertion::{AssertionDocument, Demand, MatcherDocument, Matchers, OrderedCallDocument, SkillDocument};
pub use edge::{EdgeDocument, EdgeKind, kind_of};
pub use eval::{
    EvalAgent, EvalBody, EvalDocument, ExtensionDocument, IsolationDocument, JudgeDocument, ReleaseDocument, eval_body,
    eval_digest, grants, used_extensions,
};
pub use limits::LimitsDocument;
pub use secret::{eval_secrets, is_secret_header, literal_secrets, server_secrets};
pub use server::ServerDocument;
pub use source::Source;
pub use task::{
    ActionSource, Reads, Requires, TaskBody, TaskDocument, TaskSource, Timeouts, digest, files, task_facts,
};
pub use value::{Argument, HoleDocument, HoleSource, TemplateDocument, shown};

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;

use super::{EvalPlan, Plan};

/// The version of the format. It increases when a reader of the old format would misread the new one.
pub const VERSION: u32 = 1;

/// What `gevals plan --format json` prints.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanDocument {
    pub version: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evals: Vec<EvalDocument>,
    /// Tasks that are planned without an eval.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskDocument>,
}

/// Builds one document of evals, each with those of its tasks that are shown, and of tasks without an eval.
pub fn document<'a>(groups: impl IntoIterator<Item = (Option<&'a EvalPlan>, &'a [Plan])>) -> PlanDocument {
    let mut document = PlanDocument { version: VERSION, evals: Vec::new(), tasks: Vec::new() };
    for (eval, plans) in groups {
        let tasks: Vec<_> = plans.par_iter().map(task::task_document).collect();
        match eval {
            Some(eval) => document.evals.push(eval::eval_document(eval, tasks)),
            None => document.tasks.extend(tasks),
        }
    }
    document
}
