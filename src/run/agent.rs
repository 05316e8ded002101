//! The agent's turn: finds the agent that the plan names and lets it work.

use std::{path::Path, sync::Arc, time::Duration};

use indexmap::IndexMap;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::{fill::Scope, servers::Running};
use crate::{
    event::{ExitReport, Outcome},
    hir::{CallKind, Def, OracleCall, Template},
    host::Host,
    mcp::{Client, ClientOptions, Recorder, SessionKind},
    plan::AgentKind,
    ty::duration,
};

/// What an agent works with.
pub(super) struct Turn<'t> {
    pub host: &'t dyn Host,
    pub kind: &'t AgentKind,
    pub prompt: &'t str,
    pub dir: &'t Path,
    pub servers: &'t [Arc<Running>],
    pub recorder: &'t Recorder,
    pub scope: &'t Scope<'t>,
    pub timeout: Duration,
    pub cancel: &'t CancellationToken,
}

/// How its turn ended.
pub(super) struct Done {
    pub outcome: Outcome,
    pub message: String,
    /// Its last message.
    pub output: String,
    pub exit_code: i32,
    pub exit: Option<ExitReport>,
    pub stdout: String,
    pub stderr: String,
}

impl Done {
    fn said(output: String) -> Self {
        Self {
            outcome: Outcome::Passed,
            message: String::new(),
            output,
            exit_code: 0,
            exit: None,
            stdout: String::new(),
            stderr: String::new(),
        }
    }

    pub fn broken(message: impl Into<String>) -> Self {
        Self { outcome: Outcome::Broken, message: message.into(), exit_code: 1, ..Self::said(String::new()) }
    }
}

pub(super) async fn run(turn: &Turn<'_>) -> Done {
    tokio::select! {
        biased;
        () = turn.cancel.cancelled() => Done { outcome: Outcome::Cancelled, ..Done::broken("the run was cancelled") },
        done = work(turn) => done,
        () = turn.host.sleep(turn.timeout) => {
            Done::broken(format!("the agent did not end within {}", duration::format(turn.timeout)))
        }
    }
}

async fn work(turn: &Turn<'_>) -> Done {
    match turn.kind {
        AgentKind::Noop => Done::said(String::new()),
        AgentKind::Script { entry: false, .. } => Done::broken("the oracle has no entry for this task"),
        AgentKind::Script { calls, output, .. } => {
            script(turn, calls, output.as_ref()).await.unwrap_or_else(Done::broken)
        }
        AgentKind::Shell(_) => Done::broken("agents that are commands are not there yet"),
        AgentKind::Unsupported(name) => Done::broken(format!("agents of type `{name}` are not supported")),
        AgentKind::Unspecified => Done::broken("no agent is named"),
    }
}

/// Makes the calls of the oracle, in order, over sessions that are recorded like any agent's.
async fn script(
    turn: &Turn<'_>,
    calls: &[OracleCall<Def>],
    output: Option<&Template<Def>>,
) -> Result<Done, String> {
    let mut clients: IndexMap<&str, Client> = IndexMap::new();
    let mut locals = Map::from_iter([("calls".to_owned(), Value::Array(Vec::new()))]);
    let mut refused = Vec::new();
    for (i, call) in calls.iter().enumerate() {
        let at = |why: String| format!("call {i}: {why}");
        let server = call.server.value.as_str();
        if !clients.contains_key(server) {
            let running = turn.servers.iter().find(|s| s.hub.name() == server);
            let running = running.ok_or_else(|| at(format!("the eval has no server `{server}`")))?;
            let session = SessionKind::Agent(turn.recorder.clone());
            let client = running.hub.client(session, ClientOptions::default()).await.map_err(|e| at(e.to_string()))?;
            clients.insert(server, client);
        }
        let client = &clients[server];
        let filler = turn.scope.with_locals(&locals);
        let name = filler.text(&call.name).map_err(|f| at(f.message()))?;
        let args = call.args.iter().map(|(name, arg)| Ok((name.value.clone(), filler.fill(arg)?)));
        let args = args.collect::<Result<Map<_, _>, super::fill::Fault>>().map_err(|f| at(f.message()))?;
        let result = match call.kind {
            CallKind::Tool => client.call_tool(&name, Value::Object(args)).await.map(|result| result.raw),
            CallKind::Resource => client.read_resource(&name).await,
            CallKind::Prompt => client.get_prompt(&name, Value::Object(args)).await,
        };
        let result = match result {
            Ok(result) => result,
            Err(error @ crate::mcp::CallError::Closed) => return Err(at(format!("`{server}`: {error}"))),
            Err(error) => {
                refused.push(at(format!("`{server}.{name}`: {error}")));
                Value::Null
            }
        };
        if let Some(Value::Array(results)) = locals.get_mut("calls") {
            results.push(result);
        }
    }
    let output = match output {
        Some(output) => turn.scope.with_locals(&locals).text(output).map_err(|f| format!("output: {}", f.message()))?,
        None => String::new(),
    };
    Ok(Done { message: refused.join("; "), ..Done::said(output) })
}
