//! What the built-in steps do. One file a step; their records and signatures stand in `builtin`.
//!
//! A step gets its arguments filled and gives back what it found. Whether a step may run, what its holes hold, and the
//! steps that hold other steps are the interpreter's business (`run`).

use std::{path::Path, time::Duration};

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::{
    event::{Difference, ExitReport, Outcome},
    hir::Dialect,
    host::{Host, Leftover},
    plan::StepAction,
};

/// What a step works with.
pub struct Context<'a> {
    pub host: &'a dyn Host,
    pub step: &'a StepAction,
    pub dialect: Dialect,
    /// The task's folder.
    pub dir: &'a Path,
    /// `spec.env`, for children.
    pub env: &'a [(String, String)],
    /// The arguments, filled; a record.
    pub args: Value,
    /// Fills `expect`, given the step's own values; `None` where the step has none.
    ///
    /// Errors are the message for a broken step.
    pub expect: &'a (dyn Fn(&Map<String, Value>) -> Result<Option<Value>, String> + Send + Sync),
    /// What is left for this step.
    pub timeout: Duration,
    pub cancel: &'a CancellationToken,
    pub task: &'a TaskState,
    pub tools: &'a dyn Tools,
}

/// What a step may know of the task so far; the json protocol hands it to scripts.
#[derive(Clone, Debug, Default)]
pub struct TaskState {
    pub name: String,
    /// The prompt as sent.
    pub prompt: String,
    /// Set once the agent has ended.
    pub agent: Option<AgentState>,
    /// `{toolCalls, resourceReads, promptGets}`.
    pub call_history: Value,
    /// `{ID: {outputs: {…}}}`.
    pub steps: Value,
}

#[derive(Clone, Debug, Default)]
pub struct AgentState {
    /// The agent's last message.
    pub output: String,
    pub exit_code: i32,
}

/// Calls tools directly, past the agent's recorder.
pub trait Tools: Send + Sync {
    fn call<'a>(&'a self, server: &'a str, tool: &'a str, args: Value) -> BoxFuture<'a, Result<ToolAnswer, ToolFault>>;
}

/// The result of a tool, whether it reports an error or not.
#[derive(Clone, Debug)]
pub struct ToolAnswer {
    pub content: Value,
    pub structured_content: Option<Value>,
    pub is_error: bool,
}

/// Why a tool gave no result.
#[derive(Clone, Debug)]
pub enum ToolFault {
    /// The server answered with a JSON-RPC error.
    Protocol { code: i64, message: String },
    /// The server could not be reached, or died.
    Lost(String),
}

/// What a step found.
#[derive(Debug)]
pub struct Done {
    pub outcome: Outcome,
    /// Why it did not pass; may be empty where it did.
    pub message: String,
    pub differences: Vec<Difference>,
    /// The step's own values, as its signature names them.
    pub locals: Map<String, Value>,
    pub exit: Option<ExitReport>,
    pub stdout: String,
    pub stderr: String,
    /// Processes it left in the background; they live until the task's cleanup is over.
    pub leftover: Option<Leftover>,
}

impl Done {
    pub fn new(outcome: Outcome, message: impl Into<String>) -> Self {
        Self {
            outcome,
            message: message.into(),
            differences: Vec::new(),
            locals: Map::new(),
            exit: None,
            stdout: String::new(),
            stderr: String::new(),
            leftover: None,
        }
    }
}

/// Does a step.
pub type Run = for<'a> fn(Context<'a>) -> BoxFuture<'a, Done>;
