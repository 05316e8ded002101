//! What the built-in steps do. One file a step; their records and signatures stand in `builtin`.
//!
//! A step gets its arguments filled and gives back what it found. Whether a step may run, what its holes hold, and the
//! steps that hold other steps are the interpreter's business (`run`).

pub mod compare;

mod command;
mod extension;
mod file;
mod http;
mod llm;
mod process;
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

/// What does the built-in steps that hold no other steps.
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

/// What does a step of this kind. Steps that hold other steps are the interpreter's own; here they end broken.
pub fn run_of(kind: &OperationKind, dialect: Dialect) -> Run {
    // The legacy dialect has no steps of its own.
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

/// What a step works with.
pub struct Context<'a> {
    pub host: &'a dyn Host,
    pub step: &'a StepAction,
    pub dialect: Dialect,
    /// The task's folder.
    pub dir: &'a Path,
    /// Copies of the files that the plan refers to.
    pub snapshot: Option<&'a Snapshot>,
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
    pub extensions: &'a Extensions<'a>,
    /// `setup`, `verify` or `cleanup`.
    pub phase: &'static str,
    /// Who judges, where the eval says so.
    pub judge: Option<&'a Judge>,
    /// Receives what must stand in no result.
    pub secret: &'a (dyn Fn(&Capability) + Send + Sync),
    /// Receives what the judge of this step has used so far.
    pub judged: &'a (dyn Fn(TokenUsage) + Send + Sync),
}

/// What a step may know of the task so far; the json protocol hands it to scripts.
#[derive(Clone, Debug, Default)]
pub struct TaskState {
    pub name: String,
    /// No other run of a task has it.
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

/// What the agent did, as far as steps may ask for it.
#[derive(Clone, Debug, Default)]
pub struct AgentState {
    /// The agent's last message.
    pub output: String,
    pub exit_code: i32,
}

/// Calls tools directly, past the agent's recorder.
pub trait Tools: Send + Sync {
    /// What a tool takes and gives, as its server lists it.
    ///
    /// # Errors
    /// [`ToolFault::Unlisted`], where it does not.
    fn contract<'a>(&'a self, server: &'a str, tool: &'a str) -> BoxFuture<'a, Result<Contract, ToolFault>>;

    /// The same; the server is asked again, for it may have changed its tools.
    fn contract_anew<'a>(&'a self, server: &'a str, tool: &'a str) -> BoxFuture<'a, Result<Contract, ToolFault>>;

    /// Calls a tool of a server. An error of the tool itself is an answer.
    fn call<'a>(&'a self, server: &'a str, tool: &'a str, args: Value) -> BoxFuture<'a, Result<ToolAnswer, ToolFault>>;
}

/// The schemas of a tool, as in `tools/list`.
#[derive(Clone, Debug, Default)]
pub struct Contract {
    pub input: Schema,
    pub output: Option<Schema>,
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
    /// The server lists these tools, and not the one that is meant.
    Unlisted(Vec<String>),
}

/// What a step found.
#[derive(Debug)]
pub struct Done {
    pub outcome: Outcome,
    /// Why it did not pass; may be empty where it did.
    pub message: String,
    pub differences: Vec<Difference>,
    /// How many comparisons were made.
    pub comparisons: u32,
    /// The step's own values, as its signature names them.
    pub locals: Map<String, Value>,
    pub exit: Option<ExitReport>,
    pub stdout: String,
    pub stderr: String,
    /// What a judge found, where one was asked.
    pub judgement: Option<Box<Judgement>>,
    /// Processes it left in the background; they live until the task's cleanup is over.
    pub leftover: Option<Leftover>,
}

impl Done {
    /// A step that ended without outputs.
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
    /// The outcome that the expectations give: broken where one could not be looked at.
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
    /// The arguments as a built-in's record.
    fn decode<T: DeserializeOwned>(&self) -> Result<T, String> {
        let args = fit(&self.step.op.signature.params, self.args.clone());
        serde_json::from_value(args).map_err(|e| format!("the arguments do not fit: {e}"))
    }

    /// What is expected, if anything is.
    fn expected<T: DeserializeOwned>(&self, locals: &Map<String, Value>) -> Result<Option<T>, String> {
        let Some(expect) = (self.expect)(locals)? else { return Ok(None) };
        let expect = match &self.step.op.signature.expect {
            Some(shape) => fit(shape, expect),
            None => expect,
        };
        serde_json::from_value(expect).map(Some).map_err(|e| format!("`expect` does not fit: {e}"))
    }

    /// Does the work, unless it takes too long or is cancelled.
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

/// What is left of a limit is seldom round.
fn limit(timeout: Duration) -> String {
    let step = if timeout < Duration::from_secs(1) { 1 } else { 100 };
    let millis = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
    duration::format(Duration::from_millis(millis.saturating_add(step / 2) / step * step))
}

/// Writes a value as text where only text may stand: a hole keeps its value's type, and `PORT: "{random.port}"` is meant
/// as the text. A list takes a text that holds one as JSON.
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

/// Whether the kind of the value is the shape's.
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

/// Does a step.
pub type Run = for<'a> fn(Context<'a>) -> BoxFuture<'a, Done>;
