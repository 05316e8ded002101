//! A call of an operation: what it works with, and what it leaves.

use std::{path::PathBuf, sync::Arc};

use serde_json::{Map, Value};

use super::api::Cluster;

/// What an operation came to, where it succeeded.
#[derive(Debug, Default)]
pub struct Done {
    /// One line.
    pub message: String,
    /// By name.
    pub outputs: Map<String, Value>,
}

impl Done {
    /// A success without outputs.
    pub fn said(message: impl Into<String>) -> Self {
        Self { message: message.into(), outputs: Map::new() }
    }

    /// The same with an output.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.outputs.insert(name.to_owned(), value.into());
        self
    }
}

/// What an operation works with.
pub struct Call {
    /// The cluster.
    pub cluster: Arc<Cluster>,
    /// The folder of the task.
    pub folder: PathBuf,
    /// Whose call it is: the id of the run of the task.
    pub run_id: Arc<str>,
}
