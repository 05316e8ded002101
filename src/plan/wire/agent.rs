//! The agent, and what it gets.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Serialize;

use super::value::{Argument, TemplateDocument, record, template_document};
use crate::{
    hir::{AcpAgent, CallKind, Def, ModelAgent, Name, OracleCall, Provider, ShellAgent},
    plan::{AgentAction, AgentKind},
};

/// The agent's turn.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentDocument {
    pub prompt: TemplateDocument,
    pub kind: AgentKindDocument,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skills: Option<SkillsDocument>,
}

/// The skills that the agent gets.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SkillsDocument {
    pub sources: Vec<String>,
    /// Where the skills are in the agent's directory.
    pub mount_path: String,
    /// The agent's own tool that loads a skill.
    pub tool_name: String,
}

/// The kind of agent and its parameters.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum AgentKindDocument {
    /// `builtin.noop`.
    Noop,
    /// `builtin.script`; without `entry`, the task is broken.
    Script { entry: bool, calls: Vec<CallDocument>, output: Option<TemplateDocument> },
    /// A command line that runs once per prompt.
    Shell {
        run_prompt: Option<String>,
        mcp_server_arg: Option<String>,
        allowed_tool_arg: Option<String>,
        allowed_tools_separator: Option<String>,
        use_virtual_home: bool,
    },
    /// The calls of a recording, which are replayed.
    Replay { path: String },
    /// A model that gevals calls directly.
    Model {
        provider: Provider,
        model: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        base_url: Option<String>,
        /// The environment variable that contains its key.
        #[serde(skip_serializing_if = "Option::is_none")]
        api_key: Option<String>,
    },
    /// A program that speaks the Agent Client Protocol.
    Acp { command: String, args: Vec<String> },
    /// Claude Code, through its ACP adapter or its command line.
    ClaudeCode {
        #[serde(skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
    /// No agent: the task is planned without an eval.
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

pub(super) fn agent_document(agent: &AgentAction) -> AgentDocument {
    AgentDocument {
        prompt: template_document(&agent.prompt, false),
        kind: agent_kind(&agent.kind),
        skills: agent.skills.as_ref().map(|skills| SkillsDocument {
            sources: skills.sources.iter().map(|path| path.to_string_lossy().into_owned()).collect(),
            mount_path: skills.path.clone(),
            tool_name: skills.tool.clone(),
        }),
    }
}

pub(super) fn agent_kind(kind: &AgentKind) -> AgentKindDocument {
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
