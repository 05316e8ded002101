//! Executes the built-in steps, one file per step; their records and signatures are in `builtin`.
//!
//! A step receives its filled arguments and returns what it found. The interpreter (`run`) decides whether a step may
//! run, provides the values of its holes, and handles steps that contain other steps.

pub mod compare;

mod command;
mod extension;
mod file;
mod http;
mod llm;
pub mod process;
mod script;
mod sleep;
mod steps_http;
mod steps_judge;
mod steps_script;
mod tool;

pub use tool::no_such_tool;

use std::{path::Path, time::Duration};

use compare::Compared;
use futures_util::future::BoxFuture;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::{
    event::{Difference, ExitReport, Judgement, Outcome, TokenUsage},
    extension::Extensions,
    hir::{Dialect, OperationKind},
    host::{Capability, Host, Leftover, Snapshot},
    plan::{Judge, StepAction},
    signature::{Schema, Shape},
    template,
    ty::duration,
};

/// The implementations of the built-in steps that do not contain other steps.
pub const RUNS: &[(&str, Dialect, Run)] = &[
    ("command", Dialect::Portable, command::run),
    ("script", Dialect::Portable, script::run),
    ("http", Dialect::Portable, http::run),
    ("file", Dialect::Portable, file::run),
    ("llm", Dialect::Portable, llm::run),
    ("sleep", Dialect::Portable, sleep::run),
    ("extension", Dialect::Portable, extension::run),
    ("http", Dialect::Steps, steps_http::run),
    ("script", Dialect::Steps, steps_script::run),
    ("llmJudge", Dialect::Steps, steps_judge::run),
];

/// The implementation of a step of this kind. Steps that contain other steps belong to the interpreter; here they end as
/// broken.
pub fn run_of(kind: &OperationKind, dialect: Dialect) -> Run {
    // The legacy dialect shares the steps of the steps dialect.
    let dialect = if dialect == Dialect::Legacy { Dialect::Steps } else { dialect };
    match kind {
        OperationKind::Builtin(name) => {
            let found = RUNS.iter().find(|(known, of, _)| known == name && *of == dialect);
            found.map_or(unknown, |(_, _, run)| *run)
        }
        OperationKind::Tool { .. } => tool::run,
        OperationKind::Extension { .. } => extension::run,
    }
}

fn unknown(cx: Context<'_>) -> BoxFuture<'_, Done> {
    let message = format!("`{}` is not a step that can be done by itself", cx.step.op.name);
    Box::pin(async { Done::new(Outcome::Broken, message) })
}

/// The inputs of a step.
pub struct Context<'a> {
    pub host: &'a dyn Host,
    pub step: &'a StepAction,
    pub dialect: Dialect,
    /// The task's directory.
    pub dir: &'a Path,
    /// Copies of the files that the plan refers to.
    pub snapshot: Option<&'a Snapshot>,
    /// `spec.env`, for child processes.
    pub env: &'a [(String, String)],
    /// The filled arguments; an object.
    pub args: Value,
    /// Fills `expect`, given the step's own values; returns `None` if the step has no `expect`.
    ///
    /// An error is the message for a broken step.
    pub expect: &'a (dyn Fn(&Map<String, Value>) -> Result<Option<Value>, String> + Send + Sync),
    /// The time left for this step.
    pub timeout: Duration,
    pub cancel: &'a CancellationToken,
    pub task: &'a TaskState,
    pub tools: &'a dyn Tools,
    pub extensions: &'a Extensions<'a>,
    /// `setup`, `verify` or `cleanup`.
    pub phase: &'static str,
    /// The judge, if the eval configures one.
    pub judge: Option<&'a Judge>,
    /// Receives capabilities, which must not appear in any result.
    pub secret: &'a (dyn Fn(&Capability) + Send + Sync),
    /// Receives what the judge of this step has used so far.
    pub judged: &'a (dyn Fn(TokenUsage) + Send + Sync),
}

/// The task data that a step may use; the JSON protocol passes it to scripts.
#[derive(Clone, Debug, Default)]
pub struct TaskState {
    pub name: String,
    /// Unique among all runs of tasks.
    pub run_id: String,
    /// The prompt as sent.
    pub prompt: String,
    /// Set once the agent has ended.
    pub agent: Option<AgentState>,
    /// `{toolCalls, resourceReads, promptGets}`.
    pub call_history: Value,
    /// `{ID: {outputs: {…}}}`.
    pub steps: Value,
}

/// The agent data that steps may use.
#[derive(Clone, Debug, Default)]
pub struct AgentState {
    /// The agent's last message.
    pub output: String,
    pub exit_code: i32,
}

/// Calls tools directly, without the agent's recorder.
pub trait Tools: Send + Sync {
    /// Returns the schemas of a tool, as listed by its server.
    ///
    /// # Errors
    /// [`ToolFault::Unlisted`] if the server does not list the tool; otherwise the fault of listing the tools.
    fn contract<'a>(&'a self, server: &'a str, tool: &'a str) -> BoxFuture<'a, Result<Contract, ToolFault>>;

    /// Like `contract`, but asks the server again, because it may have changed its tools.
    fn contract_anew<'a>(&'a self, server: &'a str, tool: &'a str) -> BoxFuture<'a, Result<Contract, ToolFault>>;

    /// Calls a tool of a server. An error reported by the tool itself is an answer.
    fn call<'a>(&'a self, server: &'a str, tool: &'a str, args: Value) -> BoxFuture<'a, Result<ToolAnswer, ToolFault>>;
}

/// The schemas of a tool, as in `tools/list`.
#[derive(Clone, Debug, Default)]
pub struct Contract {
    pub input: Schema,
    pub output: Option<Schema>,
}

/// The result of a tool, which may report an error.
#[derive(Clone, Debug)]
pub struct ToolAnswer {
    pub content: Value,
    pub structured_content: Option<Value>,
    pub is_error: bool,
}

/// Why a tool returned no result.
#[derive(Clone, Debug)]
pub enum ToolFault {
    /// The server answered with a JSON-RPC error.
    Protocol { code: i64, message: String },
    /// The server could not be reached, or died.
    Lost(String),
    /// The server lists these tools, which do not include the requested one.
    Unlisted(Vec<String>),
}

/// The result of a step.
#[derive(Debug)]
pub struct Done {
    pub outcome: Outcome,
    /// Why it did not pass; may be empty if it passed.
    pub message: String,
    pub differences: Vec<Difference>,
    /// How many comparisons were made.
    pub comparisons: u32,
    /// The step's own values, named as in its signature.
    pub locals: Map<String, Value>,
    pub exit: Option<ExitReport>,
    pub stdout: String,
    pub stderr: String,
    /// The judgement, if a judge was asked.
    pub judgement: Option<Box<Judgement>>,
    /// Processes that it left in the background; they live until the task's cleanup is over.
    pub leftover: Option<Leftover>,
}

impl Done {
    /// Creates the result of a step that ended without outputs.
    pub fn new(outcome: Outcome, message: impl Into<String>) -> Self {
        Self {
            outcome,
            message: message.into(),
            differences: Vec::new(),
            comparisons: 0,
            locals: Map::new(),
            exit: None,
            stdout: String::new(),
            stderr: String::new(),
            judgement: None,
            leftover: None,
        }
    }
}

impl Done {
    /// Sets the outcome according to the expectations: broken if one of them could not be evaluated.
    fn judged(mut self, judged: Result<Compared, String>) -> Self {
        self.comparisons = judged.as_ref().map_or(0, |compared| compared.made);
        match judged.map(|compared| compared.differences) {
            Err(message) => (self.outcome, self.message) = (Outcome::Broken, message),
            Ok(differences) if differences.is_empty() => self.outcome = Outcome::Passed,
            Ok(differences) => {
                self.outcome = Outcome::Failed;
                self.message = compare::summary(&differences);
                self.differences = differences;
            }
        }
        self
    }
}

/// Why a step ends before it has found anything.
enum Stop {
    Broken(String),
    Cancelled,
}

impl From<String> for Stop {
    fn from(message: String) -> Self {
        Self::Broken(message)
    }
}

impl From<Result<Self, Stop>> for Done {
    fn from(result: Result<Self, Stop>) -> Self {
        result.unwrap_or_else(|stop| match stop {
            Stop::Broken(message) => Self::new(Outcome::Broken, message),
            Stop::Cancelled => Self::new(Outcome::Cancelled, ""),
        })
    }
}

impl Context<'_> {
    /// Decodes the arguments into the record of a built-in step.
    fn decode<T: DeserializeOwned>(&self) -> Result<T, String> {
        let args = fit(&self.step.op.signature.params, self.args.clone());
        serde_json::from_value(args).map_err(|e| format!("the arguments do not fit: {e}"))
    }

    /// Returns the expectation, if the step has one.
    fn expected<T: DeserializeOwned>(&self, locals: &Map<String, Value>) -> Result<Option<T>, String> {
        let Some(expect) = (self.expect)(locals)? else { return Ok(None) };
        let expect = match &self.step.op.signature.expect {
            Some(shape) => fit(shape, expect),
            None => expect,
        };
        serde_json::from_value(expect).map(Some).map_err(|e| format!("`expect` does not fit: {e}"))
    }

    /// Runs `work` until it ends, times out or is cancelled.
    async fn within<T>(&self, work: impl Future<Output = T>) -> Result<T, Stop> {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(Stop::Cancelled),
            done = work => Ok(done),
            () = self.host.sleep(self.timeout) => Err(Stop::Broken(self.too_long())),
        }
    }

    fn too_long(&self) -> String {
        format!("it did not end within {}", limit(self.timeout))
    }
}

/// Formats a timeout, rounded because the remaining time is rarely a round number.
fn limit(timeout: Duration) -> String {
    let step = if timeout < Duration::from_secs(1) { 1 } else { 100 };
    let millis = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
    duration::format(Duration::from_millis(millis.saturating_add(step / 2) / step * step))
}

/// Converts a value to text where only text is allowed: a hole keeps its value's type, so that `PORT: "{random.port}"`
/// would be a number. For a list, parses a text that contains one as JSON.
pub fn fit(shape: &Shape, value: Value) -> Value {
    match (shape, value) {
        (Shape::Record { fields, rest }, Value::Object(map)) => {
            let fit_field = |(key, value)| match fields.get(&key).map(|f| &f.shape).or(rest.as_deref()) {
                Some(shape) => (key, fit(shape, value)),
                None => (key, value),
            };
            Value::Object(map.into_iter().map(fit_field).collect())
        }
        (Shape::List { items, .. }, Value::Array(values)) => values.into_iter().map(|v| fit(items, v)).collect(),
        (Shape::List { .. }, Value::String(text)) => match serde_json::from_str(&text) {
            Ok(list @ Value::Array(_)) => fit(shape, list),
            _ => Value::String(text),
        },
        (Shape::String { .. }, value) if !value.is_null() => Value::String(template::render(&value)),
        (Shape::OneOf(shapes), value) => match shapes.iter().find(|s| admits(s, &value)) {
            Some(shape) => fit(shape, value),
            None => match shapes.iter().find(|s| matches!(s, Shape::String { .. })) {
                Some(text) => fit(text, value),
                None => value,
            },
        },
        (_, value) => value,
    }
}

/// Whether the value has the type of the shape.
fn admits(shape: &Shape, value: &Value) -> bool {
    match shape {
        Shape::Any => true,
        Shape::Null => value.is_null(),
        Shape::Bool => value.is_boolean(),
        Shape::Integer { .. } | Shape::Number => value.is_number(),
        Shape::String { .. } => value.is_string(),
        Shape::List { .. } => value.is_array(),
        Shape::Record { .. } => value.is_object(),
        Shape::OneOf(shapes) => shapes.iter().any(|s| admits(s, value)),
    }
}

/// Executes a step.
pub type Run = for<'a> fn(Context<'a>) -> BoxFuture<'a, Done>;
