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
    /// The first line.
    Recording {
        version: u32,
        run: String,
        eval: String,
        plan_digest: String,
        #[schemars(with = "String")]
        at: Timestamp,
    },
    /// The random values of a task run, before its setup.
    Random {
        #[schemars(with = "String")]
        at: Timestamp,
        task: TaskRun,
        id: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        port: Option<u16>,
    },
    /// The prompt of an agent.
    Prompt {
        #[schemars(with = "String")]
        at: Timestamp,
        task: TaskRun,
        text: String,
    },
    /// An MCP message as it was on the wire, except for secrets.
    Message {
        #[schemars(with = "String")]
        at: Timestamp,
        /// The task run whose agent's session it is; absent for gevals' own messages.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<TaskRun>,
        server: String,
        /// The session with the server; request IDs are unique within a session.
        session: u64,
        direction: Way,
        /// The JSON-RPC message; a string if it was not a valid message; null if it was too long to be recorded.
        message: Value,
        /// The number of bytes of a message that was too long to be recorded.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cut: Option<u64>,
    },
    /// The last line if the recording has reached its maximum size: nothing that followed was recorded.
    Cut {
        #[schemars(with = "String")]
        at: Timestamp,
    },
    /// The agent's last answer, and how the agent ended.
    Output {
        #[schemars(with = "String")]
        at: Timestamp,
        task: TaskRun,
        text: String,
        exit_code: i32,
    },
}

/// The direction of a message.
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
