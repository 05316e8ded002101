//! One action, with its nested actions.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    agent::{AgentDocument, agent_document},
    assertion::{AssertionDocument, assertion_document},
    value::{Argument, argument, record},
};
use crate::{
    hir::{BlockRole, OperationKind},
    plan::{Action, ActionIx, ActionKind, Plan},
};

/// An action that may run.
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

/// Nested actions that run as one sequence.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlockDocument {
    /// `setup`, `steps`, `branch`, `cleanup`.
    pub role: String,
    /// In execution order.
    pub actions: Vec<ActionDocument>,
}

/// An operation of a step, with its arguments.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepDocument {
    pub operation: OperationDocument,
    /// The ID by which other steps refer to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The arguments, including defaults.
    pub args: IndexMap<String, Argument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect: Option<Argument>,
    /// The listed outputs; omitted if the operation's own values are the outputs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outputs: Option<IndexMap<String, Argument>>,
    /// The variable of a `foreach`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub var: Option<String>,
}

/// The operation that a step runs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum OperationDocument {
    Builtin(String),
    Tool { server: String, tool: String },
    Extension { package: String, operation: String },
}

pub(super) fn action_document(plan: &Plan, ix: ActionIx) -> ActionDocument {
    let mut document = own_document(plan.action(ix));
    let blocks = plan.blocks(ix).map(|block| BlockDocument {
        role: block_role(block.role).to_owned(),
        actions: plan.members(block.holder).map(|ix| action_document(plan, ix)).collect(),
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

/// Returns an action without its nested actions.
pub fn own_document(action: &Action) -> ActionDocument {
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
        ActionKind::Agent(agent) => document.agent = Some(agent_document(agent)),
        ActionKind::Assertion(assertion) => document.assertion = Some(assertion_document(assertion)),
    }
    document
}
