//! The agents, which work on the task's prompt with the eval's servers. One file per kind of agent.
//!
//! An agent gets the prompt and the recording fronts of the servers, and returns what it said. Starting servers,
//! recording calls and judging happen elsewhere.

mod acp;
mod claude;
mod model;
mod replay;
mod script;
mod shell;
mod skills;

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    time::Duration,
};

use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio_util::sync::CancellationToken;

use crate::{
    event::{AgentCall, AgentStep, AgentStepKind, Difference},
    hir::{Arg, CallKind, Def},
    host::{Exec, Exit, Host, Leftover},
    plan::{AgentKind, SkillMount},
    sandbox::{
        agent::{Inside, Jail},
        doors::Doors,
    },
    secrets::CUT,
    ty::duration,
};

/// Maximum number of bytes kept of an agent's answer.
const KEPT: usize = 16 << 20;
/// Maximum number of bytes kept of everything it says.
const TRANSCRIPT: usize = 4 << 20;
/// Maximum number of bytes kept of its standard error.
const COMPLAINTS: usize = 4 << 10;

pub use acp::program as acp_program;
pub use claude::adapter_or_cli as claude_code;
pub use model::{Conversation, Conversed, Speaker, converse, endpoint};
pub use replay::{Drawn, drawn, follow};

/// The input and environment of an agent.
pub struct AgentContext<'a> {
    pub host: &'a dyn Host,
    /// The prompt as it is sent.
    pub prompt: &'a str,
    /// The task's name, for messages, and for agents that look up their calls by it.
    pub task: &'a str,
    /// The repetition of the task, from 0.
    pub run: u32,
    /// The task's directory.
    pub dir: &'a Path,
    /// The enabled servers, behind their recorders.
    pub servers: &'a [AgentServer],
    /// The skills it gets; for agents that are processes.
    pub skills: Option<&'a SkillMount>,
    /// The time it has left.
    pub timeout: Duration,
    pub cancel: &'a CancellationToken,
    /// Fills a template of the oracle; the value is what `calls` refers to, a list of
    /// `{content, structuredContent, isError}`. The error is the message.
    pub fill: &'a (dyn Fn(&Arg<Def>, &Value) -> Result<Value, String> + Send + Sync),
    /// Receives the usage of the turn so far, whenever it changes. If it exceeds a limit, `cancel` fires.
    pub used: &'a (dyn Fn(Spent) + Send + Sync),
    pub calls: &'a dyn AgentCalls,
    /// Isolates it from the machine; for agents that are processes.
    pub jail: Option<&'a Jail>,
}

impl AgentContext<'_> {
    /// The process in the agent's jail, if it has one, and what must be kept as long as it lives. `own` contains its
    /// directories, `named` the paths on its command line.
    fn confined(&self, exec: Exec, own: &[&Path], named: &[PathBuf]) -> Result<(Exec, Option<Doors>), String> {
        let Some(jail) = self.jail else { return Ok((exec, None)) };
        let ports: Vec<u16> = self.servers.iter().filter_map(|server| port(&server.url)).collect();
        jail.confine(exec, &Inside { own, named, ports: &ports })
            .map_err(|why| format!("cannot create its sandbox: {why}"))
    }
}

/// How a process ended that may have run in a jail.
fn ended(jail: Option<&Jail>, exit: Exit) -> Exit {
    jail.map_or(exit.clone(), |jail| jail.ended(exit))
}

/// The port in the URL of a front.
fn port(url: &str) -> Option<u16> {
    url.strip_prefix("http://127.0.0.1:")?.split('/').next()?.parse().ok()
}

/// A server as agents see it.
#[derive(Clone, Debug)]
pub struct AgentServer {
    pub name: String,
    /// The URL of the recorder's HTTP front.
    pub url: String,
    /// Names of the tools that the agent may call without asking for permission.
    pub allowed: Vec<String>,
    /// The titles of these tools, if they have one: an agent may use the title to ask for permission.
    pub titles: Vec<String>,
    /// As in the MCP config; passed on to the agent.
    pub enable_all_tools: bool,
}

/// Makes recorded calls, for agents that run within gevals.
pub trait AgentCalls: Send + Sync {
    /// The tools of a server, as in `tools/list`.
    ///
    /// # Errors
    /// The server is lost, or no server has this name.
    fn tools<'a>(&'a self, server: &'a str) -> BoxFuture<'a, Result<Vec<Value>, String>>;

    /// Makes a call. Returns `{content, structuredContent, isError}` for a tool; a refusal by the server is a result
    /// with `isError: true`.
    ///
    /// # Errors
    /// The server is lost, or no server has this name.
    fn call<'a>(
        &'a self,
        server: &'a str,
        kind: CallKind,
        name: &'a str,
        args: Value,
    ) -> BoxFuture<'a, Result<Value, String>>;

    /// Whether a server has reported since the last call of this function that its list of tools has changed.
    fn tools_changed(&self) -> bool {
        false
    }
}

/// The result of an agent's turn.
#[derive(Debug)]
pub struct AgentDone {
    pub result: Result<(), AgentFault>,
    /// Its last message.
    pub output: String,
    /// Everything it said.
    pub transcript: String,
    pub exit_code: i32,
    /// As reported by the model's endpoint or the agent; `None` if neither reports it.
    pub usage: Option<Spent>,
    /// What it thought, said and did with its own tools and those of servers, if it reports this.
    pub steps: Option<Vec<AgentStep>>,
    /// Why it stopped, if it reports that it was not done.
    pub cut: Option<String>,
    /// Where a replay found something other than what was recorded.
    pub differences: Vec<Difference>,
    /// The differences in one line, if there are any.
    pub diverged: Option<String>,
    /// Processes it left in the background; they live until the task's cleanup is done.
    pub leftover: Option<Leftover>,
}

/// Tokens that a turn used, as reported. An unreported count is 0.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Usage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// As reported; otherwise the sum.
    pub total_tokens: u64,
    /// Part of the output: reasoning tokens.
    pub thought_tokens: u64,
    /// Part of the input: tokens read from a cache, and written to one.
    pub cached_read_tokens: u64,
    pub cached_write_tokens: u64,
}

/// What is known of the tokens that a turn used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spent {
    /// All usage was reported.
    Reported(Usage),
    /// A lower bound: these tokens are in the model's context.
    AtLeast(u64),
}

/// Why an agent did not complete its turn.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AgentFault {
    #[error("the agent could not be started: {0}")]
    NotStarted(String),
    #[error("the agent failed: {0}")]
    Failed(String),
    /// A call that it requested is malformed: a fault of the agent, not of the environment.
    #[error("the agent made a malformed call: {0}")]
    Malformed(String),
    #[error("the agent did not end within {}", duration::format(*.0))]
    TimedOut(Duration),
    #[error("the agent was cancelled")]
    Cancelled,
}

impl Usage {
    /// Adds the usage of another answer.
    fn add(&mut self, other: Self) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.total_tokens = self.total_tokens.saturating_add(other.total_tokens);
        self.thought_tokens = self.thought_tokens.saturating_add(other.thought_tokens);
        self.cached_read_tokens = self.cached_read_tokens.saturating_add(other.cached_read_tokens);
        self.cached_write_tokens = self.cached_write_tokens.saturating_add(other.cached_write_tokens);
    }
}

/// What an agent says, as far as it is kept: at most the first `MOST` bytes.
#[derive(Default)]
struct Said<const MOST: usize> {
    text: String,
    dropped: usize,
}

impl<const MOST: usize> Said<MOST> {
    fn push(&mut self, text: &str) {
        let left = MOST.saturating_sub(self.text.len());
        let kept = text.floor_char_boundary(left.min(text.len()));
        self.text.push_str(&text[..kept]);
        self.dropped += text.len() - kept;
    }

    fn line(&mut self, text: &str) {
        self.push(text);
        self.push("\n");
    }

    fn into_text(self) -> String {
        match self.dropped {
            0 => self.text,
            dropped => self.text + &format!("{CUT}{dropped} bytes more"),
        }
    }
}

/// The steps that an agent reports, as far as they are kept: the first steps, and the starts of their texts.
#[derive(Default)]
struct Work {
    steps: Vec<AgentStep>,
    /// The index of a call in `steps`, by the agent's id for it.
    calls: HashMap<String, usize>,
    /// Bytes kept of texts and results, and of arguments.
    texts: usize,
    inputs: usize,
    /// When the next step was reported.
    now: Option<jiff::Timestamp>,
}

/// Maximum number of bytes kept of thoughts, messages and tool results.
const DETAILS: usize = 1 << 20;
/// Maximum number of steps kept.
const STEPS: usize = 10_000;

impl Work {
    /// Adds a text, or appends to the last one.
    fn text(&mut self, kind: AgentStepKind, text: &str, begins: bool) {
        let left = DETAILS.saturating_sub(self.texts);
        let kept = &text[..text.floor_char_boundary(left.min(text.len()))];
        self.texts += kept.len();
        let full = self.steps.len() >= STEPS || kept.is_empty();
        match self.steps.last_mut().filter(|last| last.kind == kind && !begins) {
            Some(AgentStep { content: Some(content), .. }) => content.push_str(kept),
            _ if full => {}
            _ => self.steps.push(AgentStep { kind, content: Some(kept.to_owned()), tool_call: None, at: self.now }),
        }
    }

    /// Returns the call with this id, adding it if it was not reported before; `None` if no more steps are kept.
    fn call(&mut self, id: &str) -> Option<&mut AgentCall> {
        let at = match self.calls.get(id) {
            Some(at) => *at,
            None if self.steps.len() >= STEPS => return None,
            None => {
                let call = Some(AgentCall::default());
                let kind = AgentStepKind::ToolCall;
                self.steps.push(AgentStep { kind, content: None, tool_call: call, at: self.now });
                self.calls.insert(id.to_owned(), self.steps.len() - 1);
                self.steps.len() - 1
            }
        };
        self.steps[at].tool_call.as_mut()
    }

    /// Sets the arguments of a call.
    fn input(&mut self, id: &str, input: &Value) {
        let size = input.to_string().len();
        if !input.is_null() && self.inputs + size <= KEPT {
            self.inputs += size;
            if let Some(call) = self.call(id) {
                call.raw_input = Some(input.clone());
            }
        }
    }

    /// Sets the result of a call.
    fn output(&mut self, id: &str, output: &Value) {
        let size = output.to_string().len();
        if !output.is_null() && self.texts + size <= DETAILS && self.calls.contains_key(id) {
            self.texts += size;
            if let Some(call) = self.call(id) {
                call.raw_output = Some(output.clone());
            }
        }
    }
}

/// The last part of what a process prints on its standard error.
#[derive(Default)]
struct Complaints(Vec<u8>);

impl Complaints {
    /// Reads to the end.
    async fn read(&mut self, stderr: &mut (impl AsyncRead + Unpin)) {
        let mut chunk = vec![0; 8 << 10];
        while let Ok(read @ 1..) = stderr.read(&mut chunk).await {
            self.0.extend_from_slice(&chunk[..read]);
            let excess = self.0.len().saturating_sub(COMPLAINTS);
            self.0.drain(..excess);
        }
    }

    /// The last lines, joined into one.
    fn last(&self) -> String {
        let text = String::from_utf8_lossy(&self.0);
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        lines[lines.len().saturating_sub(3)..].join(" / ")
    }

    /// Adds the last lines to an error message.
    fn explain(&self, why: String) -> String {
        match self.last() {
            last if last.is_empty() => why,
            last => format!("{why} (on standard error: {last})"),
        }
    }
}

impl AgentDone {
    fn ended(result: Result<(), AgentFault>, output: String) -> Self {
        let exit_code = i32::from(result.is_err());
        Self {
            result,
            transcript: {
                let mut said = Said::<TRANSCRIPT>::default();
                said.push(&output);
                said.into_text()
            },
            output,
            exit_code,
            usage: None,
            steps: None,
            cut: None,
            differences: Vec::new(),
            diverged: None,
            leftover: None,
        }
    }
}

/// Runs an agent's turn.
pub async fn run(kind: &AgentKind, cx: AgentContext<'_>) -> AgentDone {
    match kind {
        AgentKind::Noop => AgentDone::ended(Ok(()), String::new()),
        AgentKind::Script { calls, output, entry: true } => script::run(&cx, calls, output.as_ref()).await,
        AgentKind::Script { entry: false, .. } => {
            let message = format!("the oracle has no entry for the task `{}`", cx.task);
            AgentDone::ended(Err(AgentFault::Failed(message)), String::new())
        }
        AgentKind::Shell(agent) => shell::run(&cx, agent).await,
        AgentKind::Model(agent) => model::run(&cx, agent).await,
        AgentKind::Replay { path } => replay::run(&cx, path).await,
        AgentKind::Acp(agent) => acp::run(&cx, acp::Start::of(agent)).await,
        AgentKind::ClaudeCode { model } => claude::run(&cx, model.as_deref()).await,
        AgentKind::Unspecified => {
            let message = "no agent is specified".to_owned();
            AgentDone::ended(Err(AgentFault::NotStarted(message)), String::new())
        }
    }
}
