//! The events of a run: one closed, ordered stream. Every report is a fold over it.

pub mod recording;

use std::time::Duration;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::{
    hir::{CallKind, CallStatus, Isolation},
    prices::money,
};

/// One thing that happened. On the wire a line of JSON; the version stands in the first event.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// From 0, without gaps.
    pub seq: u64,
    #[schemars(with = "String")]
    pub at: Timestamp,
    /// The run of a task it belongs to; none for what concerns the whole eval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskRun>,
    #[serde(rename = "event", deserialize_with = "by_value")]
    pub kind: EventKind,
}

/// Deserializes a tagged enum via a value, because serde cannot buffer numbers that keep their text.
fn by_value<'de, D: Deserializer<'de>>(d: D) -> Result<EventKind, D::Error> {
    serde_json::from_value(Value::deserialize(d)?).map_err(serde::de::Error::custom)
}

/// One run of one task.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskRun {
    /// The task's place in the eval's plan, from 0.
    pub index: usize,
    pub name: String,
    /// Which repetition, from 0.
    pub run: u32,
}

/// How something ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    Passed,
    /// It worked, and the answer is no.
    Failed,
    /// It could not be carried out.
    Broken,
    Skipped,
    Cancelled,
}

impl Outcome {
    /// The name used in events and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Broken => "broken",
            Self::Skipped => "skipped",
            Self::Cancelled => "cancelled",
        }
    }
}

/// The verdict on one run of a task.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Passed,
    Failed,
    Broken,
    /// Nothing was evaluated: no verify step and no assertion.
    Unchecked,
    Cancelled,
}

impl Verdict {
    /// The name used in events and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Broken => "broken",
            Self::Unchecked => "unchecked",
            Self::Cancelled => "cancelled",
        }
    }
}

/// What happened.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "type")]
pub enum EventKind {
    RunStarted {
        version: u32,
        run_id: String,
        eval: String,
        plan_digest: String,
        tasks: usize,
        runs: usize,
    },
    ServerStarted {
        server: String,
        /// The tools that the agent is given, as the server lists them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tools: Vec<ServerTool>,
    },
    /// Something about a server that no call shows: rubbish on its output, a capability that it was not offered.
    ServerNotice {
        server: String,
        message: String,
    },
    /// What keeps the agent apart from the machine, where it is a process.
    AgentIsolated {
        level: Isolation,
        /// What does it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// Why nothing does, where nobody asked for that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// What the eval says, where the command line says something else.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        instead_of: Option<Isolation>,
    },
    TaskStarted {
        plan_digest: String,
    },
    PhaseStarted {
        phase: String,
    },
    /// The world is about to change; these planned cleanups must run, whatever happens.
    #[serde(alias = "cleanupOwed")]
    CleanupPending {
        action: String,
        cleanups: Vec<String>,
    },
    /// One of them is done: it passed, or it was skipped as nothing had been made. What failed, broke or was stopped stays pending.
    #[serde(alias = "cleanupPaid")]
    CleanupDone {
        cleanup: String,
    },
    ActionStarted {
        /// A planned action's id, with `[round]` and `#attempt` added.
        action: String,
    },
    ActionFinished {
        action: String,
        report: ActionReport,
    },
    /// What the agent reports of its own work, in order.
    AgentWorked {
        steps: Vec<AgentStep>,
    },
    /// What the agent is asked, with every hole filled.
    AgentPrompted {
        text: String,
    },
    AgentSpoke {
        text: String,
    },
    CallRecorded {
        call: CallReport,
    },
    /// What the agent's turn used.
    TokensCounted {
        tokens: Box<TokenEstimate>,
    },
    /// The run that just ended was broken, and is made again.
    TaskRetried {
        /// From 1.
        retry: u32,
        of: u32,
        reason: String,
    },
    /// Of a task that is run until its gate is decided: it is, after so many runs.
    GateDecided {
        met: bool,
        passes: u32,
        runs: u32,
    },
    /// What a pass is worth, where that is less than it seems.
    Remarked {
        remark: Remark,
    },
    TaskFinished {
        verdict: Verdict,
        reason: String,
        #[schemars(with = "f64")]
        #[serde(with = "seconds")]
        duration: Duration,
        cleanup_failed: bool,
    },
    /// A signal arrived, or a limit was hit; what runs is stopped and cleaned up.
    Cancelled {
        reason: String,
    },
    RunFinished {
        #[schemars(with = "f64")]
        #[serde(with = "seconds")]
        duration: Duration,
        exit: u8,
        /// Where the run has limits.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limits: Option<Limited>,
    },
}

/// What was used of the resources that can be limited.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Used {
    pub tokens: u64,
    pub cost: f64,
    pub tool_calls: u64,
}

impl Used {
    /// The sum of both.
    pub fn and(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_add(other.tokens),
            cost: self.cost + other.cost,
            tool_calls: self.tool_calls.saturating_add(other.tool_calls),
        }
    }
}

/// What agents and judges used together, of a run that may only use so much.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Limited {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tool_calls: Option<u64>,
    pub tokens: u64,
    pub cost: f64,
    pub tool_calls: u64,
}

impl Limited {
    /// The sum of both, and of their limits.
    pub fn and(self, other: Self) -> Self {
        let sum = |one: Option<u64>, other: Option<u64>| Some(one?.saturating_add(other?));
        Self {
            max_tokens: sum(self.max_tokens, other.max_tokens),
            max_cost: self.max_cost.zip(other.max_cost).map(|(one, other)| one + other),
            max_tool_calls: sum(self.max_tool_calls, other.max_tool_calls),
            tokens: self.tokens.saturating_add(other.tokens),
            cost: self.cost + other.cost,
            tool_calls: self.tool_calls.saturating_add(other.tool_calls),
        }
    }

    /// For people: `52 of 40 tokens, 3 of 5 tool calls`.
    pub fn words(&self, currency: &str) -> String {
        let words = [
            self.max_tokens.map(|most| format!("{} of {most} tokens", self.tokens)),
            self.max_cost.map(|most| format!("{} of {most} {currency}", money(self.cost))),
            self.max_tool_calls.map(|most| format!("{} of {most} tool calls", self.tool_calls)),
        ];
        words.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

/// Something about a run of a task that its verdict does not say.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Remark {
    pub kind: RemarkKind,
    /// Without the task's name.
    pub message: String,
}

/// What is remarkable about a task although its verdict stands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum RemarkKind {
    /// The task passed, and no call to a server under test succeeded.
    ServerUnused,
    /// The task passed, and nothing but a judge has decided that.
    JudgedAlone,
    /// The task passed, and the judge that was asked is the agent under test.
    JudgedByItself,
    /// The agent says that it stopped before it was done; what it did was judged all the same.
    AgentStopped,
    /// A call of a recording was answered otherwise than then; a strict replay is broken by it.
    Diverged,
}

impl RemarkKind {
    /// The severity, for people.
    pub fn severity(self) -> &'static str {
        match self {
            Self::ServerUnused | Self::JudgedByItself | Self::AgentStopped | Self::Diverged => "warning",
            Self::JudgedAlone => "note",
        }
    }
}

/// What an action did.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActionReport {
    pub outcome: Outcome,
    /// Why it did not pass, or what it found; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// What was asked for and what was found, where they can be set side by side.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<Difference>,
    /// How many comparisons it made, with those of the steps that it holds: of an exit status, a text, a value. One that passed
    /// without any decides nothing.
    #[serde(default)]
    pub comparisons: u32,
    #[schemars(with = "f64")]
    #[serde(with = "seconds")]
    pub duration: Duration,
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub outputs: serde_json::Map<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<ExitReport>,
    /// Standard output, cut to a bound.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stdout: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stderr: String,
    /// What a server, a tool or an extension answered, cut to a bound.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub answer: String,
    /// What holes and variables of a step held that did not pass, by their names: `env.TITLE`, `$NAME`. Cut to a bound.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub filled: serde_json::Map<String, Value>,
    /// What a judge found, where one was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judgement: Option<Box<Judgement>>,
    /// A cleanup step that was under way when a run died, and ran again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retried: bool,
}

impl ActionReport {
    /// Creates a report that has only an outcome and a message.
    pub fn new(outcome: Outcome, message: impl Into<String>) -> Self {
        Self {
            outcome,
            message: message.into(),
            differences: Vec::new(),
            comparisons: 0,
            duration: Duration::ZERO,
            outputs: serde_json::Map::new(),
            exit: None,
            stdout: String::new(),
            stderr: String::new(),
            answer: String::new(),
            filled: serde_json::Map::new(),
            judgement: None,
            retried: false,
        }
    }
}

/// One expectation that was not met.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// What was looked at: `stdout`, `exitCode`, `body.json $.status`.
    pub subject: String,
    pub expected: String,
    pub actual: String,
    /// Byte range in the task file of the expectation, where it is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<(u32, u32)>,
    /// The same as a file and a line, in results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

/// What a judge was asked, and what it submitted.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Judgement {
    /// The judge's name.
    pub judge: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// None where the judge submitted none: the step is broken then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed: Option<bool>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_category: Option<FailureCategory>,
    /// How often it was asked: once more where it submitted nothing at first.
    pub attempts: u32,
    /// As the judge reported it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenUsage>,
    /// Whether some of it is counted from prompt and answer, as the judge did not report it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
}

/// Why an answer is not what was expected.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailureCategory {
    SemanticMismatch,
    MissingInformation,
    ContainsExtraInfo,
    /// It is what was expected.
    #[serde(rename = "n/a")]
    None,
}

impl FailureCategory {
    /// All categories that a judge may submit.
    pub const ALL: [Self; 4] = [Self::SemanticMismatch, Self::MissingInformation, Self::ContainsExtraInfo, Self::None];

    /// The name used by judges.
    pub fn name(self) -> &'static str {
        match self {
            Self::SemanticMismatch => "semantic_mismatch",
            Self::MissingInformation => "missing_information",
            Self::ContainsExtraInfo => "contains_extra_info",
            Self::None => "n/a",
        }
    }
}

/// Tokens, as those reported them who counted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenUsage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub total_tokens: u64,
    /// Of the output: what the model thought.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub thought_tokens: u64,
    /// Of the input: what was read from a cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cached_read_tokens: u64,
    /// Of the input: what was written to a cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cached_write_tokens: u64,
}

/// The tokens of an agent's turn: as reported, else estimated from what went to and fro.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenEstimate {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub total_tokens: u64,
    pub prompt_tokens: u64,
    pub message_tokens: u64,
    pub thinking_tokens: u64,
    pub tool_input_tokens: u64,
    pub tool_output_tokens: u64,
    /// Of the descriptions of the tools that the agent may call.
    pub mcp_schema_tokens: u64,
    pub prompt_get_input_tokens: u64,
    pub prompt_get_output_tokens: u64,
    pub resource_input_tokens: u64,
    pub resource_output_tokens: u64,
    /// `actual`, where the agent or its model reported the first three, else `estimated`.
    pub source: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actual: Option<TokenUsage>,
    /// By the prices of the run, where they know the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
}

impl TokenEstimate {
    /// The sum of both; `actual` only if both are.
    pub fn and(self, other: Self) -> Self {
        let actual = self.actual.zip(other.actual).map(|(one, other)| one.and(other));
        let source = if actual.is_some() { "actual" } else { "estimated" };
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            total_tokens: self.total_tokens.saturating_add(other.total_tokens),
            prompt_tokens: self.prompt_tokens.saturating_add(other.prompt_tokens),
            message_tokens: self.message_tokens.saturating_add(other.message_tokens),
            thinking_tokens: self.thinking_tokens.saturating_add(other.thinking_tokens),
            tool_input_tokens: self.tool_input_tokens.saturating_add(other.tool_input_tokens),
            tool_output_tokens: self.tool_output_tokens.saturating_add(other.tool_output_tokens),
            mcp_schema_tokens: self.mcp_schema_tokens.saturating_add(other.mcp_schema_tokens),
            prompt_get_input_tokens: self.prompt_get_input_tokens.saturating_add(other.prompt_get_input_tokens),
            prompt_get_output_tokens: self.prompt_get_output_tokens.saturating_add(other.prompt_get_output_tokens),
            resource_input_tokens: self.resource_input_tokens.saturating_add(other.resource_input_tokens),
            resource_output_tokens: self.resource_output_tokens.saturating_add(other.resource_output_tokens),
            source: source.to_owned(),
            actual,
            cost: self.cost.zip(other.cost).map(|(one, other)| one + other),
        }
    }
}

impl TokenUsage {
    /// Adds input tokens if the total would otherwise be less than `total`.
    pub fn at_least(self, total: u64) -> Self {
        let missing = total.saturating_sub(self.total_tokens);
        Self { input_tokens: self.input_tokens + missing, total_tokens: self.total_tokens + missing, ..self }
    }

    /// The sum of both.
    pub fn and(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            total_tokens: self.total_tokens.saturating_add(other.total_tokens),
            thought_tokens: self.thought_tokens.saturating_add(other.thought_tokens),
            cached_read_tokens: self.cached_read_tokens.saturating_add(other.cached_read_tokens),
            cached_write_tokens: self.cached_write_tokens.saturating_add(other.cached_write_tokens),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// How a process ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", tag = "how")]
pub enum ExitReport {
    Exited { code: i32 },
    Signalled { signal: i32 },
    TimedOut { killed: bool },
    Cancelled { killed: bool },
    NotStarted { reason: String },
}

/// A tool of a server under test.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerTool {
    pub name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Value>,
}

/// A part of an agent's turn as it tells it itself (§8.3 of the upstream behaviour); secrets are masked.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentStep {
    #[serde(rename = "type")]
    pub kind: AgentStepKind,
    /// The text of a thought or a message, as far as it is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call: Option<AgentCall>,
    /// When it was told, where it was told while the agent worked.
    #[schemars(with = "Option<String>")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

/// What an agent does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AgentStepKind {
    Thinking,
    Message,
    ToolCall,
}

/// A call of a tool, its own or a server's, as the agent tells it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentCall {
    /// What the agent calls it.
    pub title: String,
    /// `read`, `edit`, `execute` …, where it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// `pending`, `in_progress`, `completed` or `failed`, where it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_input: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_output: Option<Value>,
}

/// One call of the agent's, as the proxy saw it; secrets are masked.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CallReport {
    pub server: String,
    pub kind: CallKind,
    /// Tool, URI or prompt name.
    pub name: String,
    pub params: Value,
    #[schemars(with = "String")]
    pub started: Timestamp,
    #[schemars(with = "f64")]
    #[serde(with = "seconds")]
    pub duration: Duration,
    pub status: CallStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// The headers of the request, where it came over HTTP.
    #[serde(default, skip_serializing_if = "Headers::is_empty")]
    pub headers: Headers,
}

/// The headers of a request by name, capitalized as in Go, which is how upstream writes them. Values that authorize are masked.
pub type Headers = std::collections::BTreeMap<String, Vec<String>>;

/// Serializes durations as seconds.
mod seconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(d: &Duration, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_f64((d.as_secs_f64() * 1e6).round() / 1e6)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Duration, D::Error> {
        Duration::try_from_secs_f64(f64::deserialize(d)?).map_err(serde::de::Error::custom)
    }
}
