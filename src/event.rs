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

/// An event. On the wire, one line of JSON; the first event contains the version.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// The sequence number, starting at 0, without gaps.
    pub seq: u64,
    #[schemars(with = "String")]
    pub at: Timestamp,
    /// The task run that the event belongs to; absent if it concerns the whole eval.
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
    /// The task's position in the eval's plan, starting at 0.
    pub index: usize,
    pub name: String,
    /// The repetition, starting at 0.
    pub run: u32,
}

/// How something ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    Passed,
    /// It was executed, and the result is negative.
    Failed,
    /// It could not be executed.
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
    /// Nothing was evaluated: there is no verify step and no assertion.
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
        /// The tools that the agent gets, as listed by the server.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tools: Vec<ServerTool>,
    },
    /// A notice about a server that no call shows: invalid output, or use of a capability that it was not offered.
    ServerNotice {
        server: String,
        message: String,
    },
    /// How the agent is isolated from the machine, if the agent is a process.
    AgentIsolated {
        level: Isolation,
        /// The isolation mechanism.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// Why the agent is not isolated, if this was not requested.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// The level set by the eval, if the command line overrides it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        instead_of: Option<Isolation>,
    },
    TaskStarted {
        plan_digest: String,
    },
    PhaseStarted {
        phase: String,
    },
    /// The environment is about to be changed; these planned cleanups must run, whatever happens.
    #[serde(alias = "cleanupOwed")]
    CleanupPending {
        action: String,
        cleanups: Vec<String>,
    },
    /// A pending cleanup is done: it passed, or it was skipped because nothing had been created. A cleanup that failed, broke or was
    /// stopped stays pending.
    #[serde(alias = "cleanupPaid")]
    CleanupDone {
        cleanup: String,
    },
    ActionStarted {
        /// The ID of a planned action, with `[round]` and `#attempt` appended.
        action: String,
    },
    ActionFinished {
        action: String,
        report: ActionReport,
    },
    /// What the agent reports about its own work, in order.
    AgentWorked {
        steps: Vec<AgentStep>,
    },
    /// The agent's prompt, with all holes filled.
    AgentPrompted {
        text: String,
    },
    AgentSpoke {
        text: String,
    },
    CallRecorded {
        call: CallReport,
    },
    /// The tokens that the agent's turn used.
    TokensCounted {
        tokens: Box<TokenEstimate>,
    },
    /// The run that just ended was broken and is retried.
    TaskRetried {
        /// The number of the retry, starting at 1.
        retry: u32,
        of: u32,
        reason: String,
    },
    /// The gate of a task that is run until its gate is decided, and the number of runs that this took.
    GateDecided {
        met: bool,
        passes: u32,
        runs: u32,
    },
    /// A remark about what a pass is worth, if it is worth less than it seems.
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
    /// A signal arrived or a limit was reached; running tasks are stopped and cleaned up.
    Cancelled {
        reason: String,
    },
    RunFinished {
        #[schemars(with = "f64")]
        #[serde(with = "seconds")]
        duration: Duration,
        exit: u8,
        /// What was used, if the run has limits.
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

/// What agents and judges used together in a run with limits.
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

/// A remark about a task run that its verdict does not express.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Remark {
    pub kind: RemarkKind,
    /// The message, without the task's name.
    pub message: String,
}

/// The kind of a remark, which does not change the verdict.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum RemarkKind {
    /// The task passed, and no call to a server under test succeeded.
    ServerUnused,
    /// The task passed, and only a judge decided that.
    JudgedAlone,
    /// The task passed, and the judge is the agent under test.
    JudgedByItself,
    /// The agent reported that it stopped before it was done; its work was evaluated anyway.
    AgentStopped,
    /// A replayed call was answered differently than in the recording; this breaks a strict replay.
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

/// The report of an action.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActionReport {
    pub outcome: Outcome,
    /// Why the action did not pass, or what it found; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Expected and actual values, if they can be compared side by side.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<Difference>,
    /// How many comparisons (of an exit status, a text or a value) the action made, including those of nested steps. An action that
    /// passed without any comparison decides nothing.
    #[serde(default)]
    pub comparisons: u32,
    #[schemars(with = "f64")]
    #[serde(with = "seconds")]
    pub duration: Duration,
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub outputs: serde_json::Map<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<ExitReport>,
    /// Standard output, truncated to a limit.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stdout: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stderr: String,
    /// The answer of a server, tool or extension, truncated to a limit.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub answer: String,
    /// For a step that did not pass: the values of its holes and variables, by name (`env.TITLE`, `$NAME`), truncated to a limit.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub filled: serde_json::Map<String, Value>,
    /// The judgment, if a judge was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judgement: Option<Box<Judgement>>,
    /// Whether this is a cleanup step that was in progress when a run died, and was run again.
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

/// An expectation that was not met.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// What was compared: `stdout`, `exitCode`, `body.json $.status`.
    pub subject: String,
    pub expected: String,
    pub actual: String,
    /// The byte range of the expectation in the task file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<(u32, u32)>,
    /// The same location as file and line, in results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

/// What a judge was asked and what it submitted.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Judgement {
    /// The judge's name.
    pub judge: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The judge's verdict; absent if the judge submitted none, in which case the step is broken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed: Option<bool>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_category: Option<FailureCategory>,
    /// How many times the judge was asked; it is asked once more if it submits nothing at first.
    pub attempts: u32,
    /// The token usage that the judge reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenUsage>,
    /// Whether part of the usage is counted from prompt and answer, because the judge did not report it.
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
    /// The answer is as expected.
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

/// Tokens, as reported by the agent, model or judge.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenUsage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub total_tokens: u64,
    /// Output tokens used for thinking.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub thought_tokens: u64,
    /// Input tokens read from a cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cached_read_tokens: u64,
    /// Input tokens written to a cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cached_write_tokens: u64,
}

/// The tokens of an agent's turn: as reported, otherwise estimated from the messages exchanged.
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
    /// Tokens of the descriptions of the tools that the agent may call.
    pub mcp_schema_tokens: u64,
    pub prompt_get_input_tokens: u64,
    pub prompt_get_output_tokens: u64,
    pub resource_input_tokens: u64,
    pub resource_output_tokens: u64,
    /// `actual` if the agent or its model reported the first three, otherwise `estimated`.
    pub source: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actual: Option<TokenUsage>,
    /// The cost by the prices of the run, if they include the model.
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

/// A part of an agent's turn, as reported by the agent (§8.3 of the upstream behavior); secrets are masked.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentStep {
    #[serde(rename = "type")]
    pub kind: AgentStepKind,
    /// The text of a thought or message, as far as it is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call: Option<AgentCall>,
    /// When it was reported, if it was reported while the agent worked.
    #[schemars(with = "Option<String>")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

/// The kind of step in an agent's turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AgentStepKind {
    Thinking,
    Message,
    ToolCall,
}

/// A tool call (of the agent's own tools or a server's), as reported by the agent.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentCall {
    /// The agent's title for the call.
    pub title: String,
    /// `read`, `edit`, `execute` …, if the agent reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// `pending`, `in_progress`, `completed` or `failed`, if the agent reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_input: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_output: Option<Value>,
}

/// A call of the agent, as recorded by the proxy; secrets are masked.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CallReport {
    pub server: String,
    pub kind: CallKind,
    /// The tool name, URI or prompt name.
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
    /// The headers of the request, if it came over HTTP.
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
