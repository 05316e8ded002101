//! The agents: what does the task's prompt on the eval's servers. One file a kind.
//!
//! An agent gets the prompt and the recording fronts of the servers, and gives back what it said. Starting servers,
//! recording calls and judging are others' business.

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
    ty::duration,
};

/// Bytes kept of an agent's answer.
const KEPT: usize = 16 << 20;
/// Bytes kept of all that it says.
const TRANSCRIPT: usize = 4 << 20;
/// And of what it complains of.
const COMPLAINTS: usize = 4 << 10;

pub use acp::program as acp_program;
pub use claude::adapter_or_cli as claude_code;
pub use model::{Conversation, Conversed, Speaker, converse, endpoint};
pub use replay::{Drawn, drawn, follow};

/// What an agent works with.
pub struct AgentContext<'a> {
    pub host: &'a dyn Host,
    /// As sent.
    pub prompt: &'a str,
    /// The task's name, for messages, and for agents that look up their part by it.
    pub task: &'a str,
    /// Which repetition of it, from 0.
    pub run: u32,
    /// The task's folder.
    pub dir: &'a Path,
    /// The enabled servers, behind their recorders.
    pub servers: &'a [AgentServer],
    /// What it is given to read; for agents that are processes.
    pub skills: Option<&'a SkillMount>,
    /// What is left for it.
    pub timeout: Duration,
    pub cancel: &'a CancellationToken,
    /// Fills a template of the oracle; the value is what `calls` stands for, a list of `{content, structuredContent,
    /// isError}`. Errors are the message.
    pub fill: &'a (dyn Fn(&Arg<Def>, &Value) -> Result<Value, String> + Send + Sync),
    /// Receives what the turn has used so far, whenever that is known anew. Where it is too much, `cancel` fires.
    pub used: &'a (dyn Fn(Spent) + Send + Sync),
    pub calls: &'a dyn AgentCalls,
    /// What keeps it apart from the machine; for agents that are processes.
    pub jail: Option<&'a Jail>,
}

impl AgentContext<'_> {
    /// The process in the agent's jail, where it has one, and what must be held as long as it lives. `own` are its folders, `named` what
    /// its command line names.
    fn confined(&self, exec: Exec, own: &[&Path], named: &[PathBuf]) -> Result<(Exec, Option<Doors>), String> {
        let Some(jail) = self.jail else { return Ok((exec, None)) };
        let ports: Vec<u16> = self.servers.iter().filter_map(|server| port(&server.url)).collect();
        jail.confine(exec, &Inside { own, named, ports: &ports })
            .map_err(|why| format!("cannot create its sandbox: {why}"))
    }
}

/// How a process ended that may have been in a jail.
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
    /// Of the recorder's HTTP front.
    pub url: String,
    /// Tools the agent may call without being asked, by name.
    pub allowed: Vec<String>,
    /// The titles of these tools, where they have one: an agent may ask for permission by it.
    pub titles: Vec<String>,
    /// As the MCP config has it; the agent gets it.
    pub enable_all_tools: bool,
}

/// Makes recorded calls, for agents that run within gevals.
pub trait AgentCalls: Send + Sync {
    /// The tools of a server, as `tools/list` has them.
    ///
    /// # Errors
    /// The server is lost, or there is none of this name.
    fn tools<'a>(&'a self, server: &'a str) -> BoxFuture<'a, Result<Vec<Value>, String>>;

    /// The result, as `{content, structuredContent, isError}` for a tool; a refusal by the server is a result with
    /// `isError: true`.
    ///
    /// # Errors
    /// The server is lost, or there is none of this name.
    fn call<'a>(
        &'a self,
        server: &'a str,
        kind: CallKind,
        name: &'a str,
        args: Value,
    ) -> BoxFuture<'a, Result<Value, String>>;

    /// Whether a server has reported, since this was last asked, that its list of tools has changed.
    fn tools_changed(&self) -> bool {
        false
    }
}

/// What an agent did.
#[derive(Debug)]
pub struct AgentDone {
    pub result: Result<(), AgentFault>,
    /// Its last message.
    pub output: String,
    /// All it said.
    pub transcript: String,
    pub exit_code: i32,
    /// What the model's endpoint or the agent reported; `None` where neither does.
    pub usage: Option<Spent>,
    /// What it thought, said and did with tools of its own and of servers, where it tells.
    pub steps: Option<Vec<AgentStep>>,
    /// Why it stopped, where it says that it was not done.
    pub cut: Option<String>,
    /// What a replay was to find and found otherwise.
    pub differences: Vec<Difference>,
    /// These in a line, if there are any.
    pub diverged: Option<String>,
    /// Processes it left in the background; they live until the task's cleanup is over.
    pub leftover: Option<Leftover>,
}

/// Tokens that a turn used, as reported by those who counted them. A count that nobody reported is 0.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Usage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// Reported, else the sum.
    pub total_tokens: u64,
    /// Of the output: what the model thought.
    pub thought_tokens: u64,
    /// Of the input: what was read from a cache, and written to one.
    pub cached_read_tokens: u64,
    pub cached_write_tokens: u64,
}

/// What is known of the tokens that a turn used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spent {
    /// All of it was reported.
    Reported(Usage),
    /// So many at least: they stand in the model's context.
    AtLeast(u64),
}

/// Why an agent did not do its part.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AgentFault {
    #[error("the agent could not be started: {0}")]
    NotStarted(String),
    #[error("the agent failed: {0}")]
    Failed(String),
    /// What it wants to call cannot be read: its own doing, and not the world's.
    #[error("the agent made a malformed call: {0}")]
    Malformed(String),
    #[error("the agent did not end within {}", duration::format(*.0))]
    TimedOut(Duration),
    #[error("the agent was cancelled")]
    Cancelled,
}

impl Usage {
    /// Adds what another answer used.
    fn add(&mut self, other: Self) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.total_tokens = self.total_tokens.saturating_add(other.total_tokens);
        self.thought_tokens = self.thought_tokens.saturating_add(other.thought_tokens);
        self.cached_read_tokens = self.cached_read_tokens.saturating_add(other.cached_read_tokens);
        self.cached_write_tokens = self.cached_write_tokens.saturating_add(other.cached_write_tokens);
    }
}

/// What an agent says, as far as it is kept: at most so many bytes of its head.
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
            dropped => self.text + &format!("\n… {dropped} bytes more"),
        }
    }
}

/// What an agent reports of its work, as far as it is kept: the first steps, and the heads of their texts.
#[derive(Default)]
struct Work {
    steps: Vec<AgentStep>,
    /// Where a call stands in `steps`, by the agent's id of it.
    calls: HashMap<String, usize>,
    /// Bytes kept of texts and results, and of arguments.
    texts: usize,
    inputs: usize,
    /// When what comes next was told.
    now: Option<jiff::Timestamp>,
}

/// Bytes kept of thoughts, messages and results of tools.
const DETAILS: usize = 1 << 20;
/// Steps kept.
const STEPS: usize = 10_000;

impl Work {
    /// A text, or more of the last one.
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

    /// The call with this id, which is new if it was not reported before; `None` where no more are kept.
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

    /// The arguments of a call.
    fn input(&mut self, id: &str, input: &Value) {
        let size = input.to_string().len();
        if !input.is_null() && self.inputs + size <= KEPT {
            self.inputs += size;
            if let Some(call) = self.call(id) {
                call.raw_input = Some(input.clone());
            }
        }
    }

    /// What came of a call.
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

/// What a process says on its standard error, as far as it is kept: its end.
#[derive(Default)]
struct Complaints(Vec<u8>);

impl Complaints {
    /// To its end.
    async fn read(&mut self, stderr: &mut (impl AsyncRead + Unpin)) {
        let mut chunk = vec![0; 8 << 10];
        while let Ok(read @ 1..) = stderr.read(&mut chunk).await {
            self.0.extend_from_slice(&chunk[..read]);
            let excess = self.0.len().saturating_sub(COMPLAINTS);
            self.0.drain(..excess);
        }
    }

    /// Its last lines, on one.
    fn last(&self) -> String {
        let text = String::from_utf8_lossy(&self.0);
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        lines[lines.len().saturating_sub(3)..].join(" / ")
    }

    /// A fault with them.
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

/// Lets an agent do its turn.
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
