//! The agent's turn: the servers it is given, and the calls it makes.

use std::sync::{Arc, PoisonError};

use futures_util::future::BoxFuture;
use indexmap::IndexMap;
use serde_json::{Map, Value, json};
use tokio::sync::{
    Mutex,
    broadcast::{self, error::TryRecvError},
};

use super::{fill::Scope, servers::Running};
use crate::{
    agent::{self, AgentCalls, AgentContext, AgentDone, AgentFault, AgentServer, Spent},
    event::{ActionReport, AgentStep, Outcome},
    hir::{Arg, CallKind, Def},
    host::{Capability, Host, Leftover},
    mcp::{CallError, Client, ClientOptions, HttpFront, Notification, Recorder, SessionKind},
    plan::{AgentKind, SkillMount},
    sandbox::agent::Jail,
    ty::duration,
};

/// The inputs of a turn.
pub(super) struct Turn<'t> {
    pub host: &'t dyn Host,
    pub kind: &'t AgentKind,
    pub skills: Option<&'t SkillMount>,
    pub task: &'t str,
    pub run: u32,
    pub prompt: &'t str,
    pub dir: &'t std::path::Path,
    pub servers: &'t [Arc<Running>],
    pub recorder: &'t Recorder,
    pub scope: &'t Scope<'t>,
    pub timeout: std::time::Duration,
    pub cancel: &'t tokio_util::sync::CancellationToken,
    pub used: &'t (dyn Fn(Spent) + Send + Sync),
    /// Receives the capabilities that must not appear in any result: anyone who presents one is taken for the agent.
    pub secret: &'t (dyn Fn(&Capability) + Send + Sync),
    pub jail: Option<&'t Jail>,
    /// Whether a divergence from the recording makes the turn broken.
    pub strict_replay: bool,
}

/// How a turn ended.
pub(super) struct Ended {
    pub report: ActionReport,
    /// Why there was no turn, if the agent could not be started.
    pub unstarted: Option<String>,
    pub output: String,
    pub exit_code: i32,
    pub usage: Option<Spent>,
    pub steps: Option<Vec<AgentStep>>,
    pub cut: Option<String>,
    /// Why the turn ended, if it ended because of an unreadable call.
    pub malformed: Option<String>,
    /// How a replay diverged from the recording, in one line.
    pub diverged: Option<String>,
    pub leftover: Option<Leftover>,
}

impl Ended {
    pub fn broken(message: impl Into<String>) -> Self {
        let report = ActionReport::new(Outcome::Broken, message);
        let (output, diverged) = (String::new(), None);
        Self {
            report,
            unstarted: None,
            output,
            exit_code: 1,
            usage: None,
            steps: None,
            cut: None,
            malformed: None,
            diverged,
            leftover: None,
        }
    }
}

/// Runs the agent's turn. All its sessions are closed afterwards.
pub(super) async fn run(turn: &Turn<'_>) -> Ended {
    let started = turn.host.elapsed();
    let (servers, _fronts) = tokio::select! {
        fronts = fronts(turn) => match fronts {
            Ok(fronts) => fronts,
            Err(why) => return Ended::broken(why),
        },
        () = turn.cancel.cancelled() => {
            let report = ActionReport::new(Outcome::Cancelled, "the agent was cancelled");
            return Ended { report, ..Ended::broken("") };
        }
        () = turn.host.sleep(turn.timeout) => {
            return Ended::broken("the servers did not list their tools for the agent in time");
        }
    };
    let calls = Recorded { turn, clients: Mutex::default(), said: std::sync::Mutex::default() };
    let fill = |arg: &Arg<Def>, calls: &Value| {
        let locals = Map::from_iter([("calls".to_owned(), calls.clone())]);
        turn.scope.with_locals(&locals).fill(arg).map_err(|fault| fault.message())
    };
    let context = AgentContext {
        host: turn.host,
        prompt: turn.prompt,
        task: turn.task,
        run: turn.run,
        dir: turn.dir,
        servers: &servers,
        skills: turn.skills,
        timeout: turn.timeout.saturating_sub(turn.host.elapsed().saturating_sub(started)),
        cancel: turn.cancel,
        fill: &fill,
        used: turn.used,
        calls: &calls,
        jail: turn.jail,
    };
    let AgentDone { result, output, transcript, exit_code, usage, steps, cut, differences, diverged, leftover } =
        agent::run(turn.kind, context).await;
    let result = match result {
        // A shell command line whose last program is missing ends like this as well, whatever ran before it.
        Err(AgentFault::NotStarted(why)) if !turn.recorder.records().is_empty() => Err(AgentFault::Failed(why)),
        result => result,
    };
    let unstarted = match &result {
        Err(fault @ AgentFault::NotStarted(_)) => Some(fault.to_string()),
        _ => None,
    };
    let malformed = match &result {
        Err(fault @ AgentFault::Malformed(_)) => Some(fault.to_string()),
        _ => None,
    };
    let mut report = match result {
        Ok(()) => ActionReport::new(Outcome::Passed, ""),
        Err(AgentFault::Cancelled) => ActionReport::new(Outcome::Cancelled, "the agent was cancelled"),
        Err(AgentFault::TimedOut(limit)) => {
            let limit = duration::format(std::time::Duration::from_millis(limit.as_millis() as u64));
            ActionReport::new(Outcome::Broken, format!("the agent did not end within {limit}"))
        }
        Err(fault) => ActionReport::new(Outcome::Broken, fault.to_string()),
    };
    report.stdout = transcript;
    report.differences = differences;
    if let (true, Outcome::Passed, Some(why)) = (turn.strict_replay, report.outcome, &diverged) {
        report.outcome = Outcome::Broken;
        report.message.clone_from(why);
    }
    Ended { report, unstarted, output, exit_code, usage, steps, cut, malformed, diverged, leftover }
}

/// Starts a recording HTTP server for each MCP server if the agent connects by itself.
async fn fronts(turn: &Turn<'_>) -> Result<(Vec<AgentServer>, Vec<HttpFront>), String> {
    let (mut servers, mut fronts) = (Vec::new(), Vec::new());
    if !turn.kind.is_process() && !matches!(turn.kind, AgentKind::Model(_)) {
        return Ok((servers, fronts));
    }
    for running in turn.servers {
        let session = SessionKind::Agent(turn.recorder.clone());
        let front = running.hub.serve_http(session).await.map_err(|e| format!("no port to serve MCP on: {e}"))?;
        front.capability.iter().for_each(turn.secret);
        let allowed = running.allowed().await;
        let allowed = allowed.map_err(|e| format!("`{}` does not list its tools: {e}", running.hub.name()))?;
        let text = |tool: &Value, at: &str| tool.pointer(at).and_then(Value::as_str).map(str::to_owned);
        let title = |tool: &Value| text(tool, "/title").or_else(|| text(tool, "/annotations/title"));
        servers.push(AgentServer {
            name: running.hub.name().to_owned(),
            url: front.url.clone(),
            allowed: allowed.iter().filter_map(|tool| text(tool, "/name")).collect(),
            titles: allowed.iter().filter_map(title).collect(),
            enable_all_tools: running.enables_all(),
        });
        fronts.push(front);
    }
    Ok((servers, fronts))
}

/// Makes calls over sessions that are recorded like those of any agent.
struct Recorded<'t> {
    turn: &'t Turn<'t>,
    clients: Mutex<IndexMap<String, Arc<Client>>>,
    /// The notifications of the clients' servers.
    said: std::sync::Mutex<Vec<broadcast::Receiver<Notification>>>,
}

impl Recorded<'_> {
    async fn client(&self, server: &str) -> Result<Arc<Client>, String> {
        let mut clients = self.clients.lock().await;
        if let Some(client) = clients.get(server) {
            return Ok(Arc::clone(client));
        }
        let running = self.turn.servers.iter().find(|s| s.hub.name() == server);
        let running = running.ok_or_else(|| format!("the eval has no server `{server}`"))?;
        let session = SessionKind::Agent(self.turn.recorder.clone());
        let client = running.hub.client(session, ClientOptions::default()).await.map_err(|e| e.to_string())?;
        let client = Arc::new(client);
        self.said.lock().unwrap_or_else(PoisonError::into_inner).push(client.notifications());
        clients.insert(server.to_owned(), Arc::clone(&client));
        Ok(client)
    }
}

impl AgentCalls for Recorded<'_> {
    fn tools<'c>(&'c self, server: &'c str) -> BoxFuture<'c, Result<Vec<Value>, String>> {
        Box::pin(async move {
            let tools = self.client(server).await?.list_tools().await;
            tools.map_err(|error| format!("`{server}` does not list its tools: {error}"))
        })
    }

    fn call<'c>(
        &'c self,
        server: &'c str,
        kind: CallKind,
        name: &'c str,
        args: Value,
    ) -> BoxFuture<'c, Result<Value, String>> {
        Box::pin(async move {
            let client = self.client(server).await?;
            let result = match kind {
                CallKind::Tool => client.call_tool(name, args).await.map(|result| result.raw),
                CallKind::Resource => client.read_resource(name).await,
                CallKind::Prompt => client.get_prompt(name, args).await,
            };
            // An agent is stopped between two calls: the call that exceeds the limit and is refused is its last.
            tokio::task::yield_now().await;
            match result {
                Ok(result) => Ok(result),
                Err(error @ CallError::Protocol { .. }) => {
                    Ok(json!({ "content": [{ "type": "text", "text": error.to_string() }], "isError": true }))
                }
                Err(error) => Err(format!("`{server}`: {error}")),
            }
        })
    }

    fn tools_changed(&self) -> bool {
        let mut changed = false;
        for said in self.said.lock().unwrap_or_else(PoisonError::into_inner).iter_mut() {
            loop {
                match said.try_recv() {
                    Ok(notification) => changed |= notification.method == "notifications/tools/list_changed",
                    // The notification may be among the lost ones.
                    Err(TryRecvError::Lagged(_)) => changed = true,
                    Err(TryRecvError::Empty | TryRecvError::Closed) => break,
                }
            }
        }
        changed
    }
}
