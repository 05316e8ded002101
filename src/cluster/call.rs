//! A call of an operation: its context and its result.

use std::{path::PathBuf, sync::Arc};

use serde_json::{Map, Value};

use super::api::Cluster;

/// The result of an operation that succeeded.
#[derive(Debug, Default)]
pub struct Done {
    /// One line.
    pub message: String,
    /// Values by name.
    pub outputs: Map<String, Value>,
}

impl Done {
    /// A success without outputs.
    pub fn said(message: impl Into<String>) -> Self {
        Self { message: message.into(), outputs: Map::new() }
    }

    /// Adds an output.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.outputs.insert(name.to_owned(), value.into());
        self
    }
}

/// The context of an operation.
pub struct Call {
    /// The cluster.
    pub cluster: Arc<Cluster>,
    /// The directory of the task.
    pub folder: PathBuf,
    /// The id of the run of the task that makes the call.
    pub run_id: Arc<str>,
}
