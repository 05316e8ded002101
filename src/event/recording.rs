//! The lines of a recording: the agent's prompt, the messages between it and the servers, and its answer.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::TaskRun;

pub use crate::hir::RECORDING_VERSION as VERSION;

/// One line of a recording.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "type")]
pub enum Line {
    /// The first one.
    Recording {
        version: u32,
        run: String,
        eval: String,
        plan_digest: String,
        #[schemars(with = "String")]
        at: Timestamp,
    },
    /// What is random in a run of a task, before its set-up.
    Random {
        #[schemars(with = "String")]
        at: Timestamp,
        task: TaskRun,
        id: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        port: Option<u16>,
    },
    /// What an agent was asked to do.
    Prompt {
        #[schemars(with = "String")]
        at: Timestamp,
        task: TaskRun,
        text: String,
    },
    /// A message of MCP, as it was on the wire but for secrets.
    Message {
        #[schemars(with = "String")]
        at: Timestamp,
        /// The run of a task whose agent's session it is; none for what gevals itself says and hears.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<TaskRun>,
        server: String,
        /// Requests and their answers have ids of their own in each session of a server.
        session: u64,
        direction: Way,
        /// A message of JSON-RPC; a string for what was none; null for one that was too long to be recorded.
        message: Value,
        /// How many bytes it had, where it was too long to be recorded.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cut: Option<u64>,
    },
    /// The last one, where the recording has become as large as it may: nothing that followed was recorded.
    Cut {
        #[schemars(with = "String")]
        at: Timestamp,
    },
    /// What an agent said last, and how it ended.
    Output {
        #[schemars(with = "String")]
        at: Timestamp,
        task: TaskRun,
        text: String,
        exit_code: i32,
    },
}

/// Which way a message went.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Way {
    ToServer,
    FromServer,
}

impl Line {
    /// Parses a line.
    ///
    /// # Errors
    /// It is not JSON, or not a line of a recording.
    pub fn read(text: &str) -> serde_json::Result<Self> {
        // Parsed via a value, because serde cannot buffer numbers that keep their text in a tagged enum.
        serde_json::from_value(serde_json::from_str(text)?)
    }
}
