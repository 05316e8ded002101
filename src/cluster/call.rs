//! A call of an operation: what it works with, and what it leaves.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

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
    /// The namespaces that this process generated and has not deleted.
    pub generated: Arc<Mutex<Vec<String>>>,
}

impl Call {
    /// Takes the generated namespaces.
    pub fn take_generated(&self) -> Vec<String> {
        std::mem::take(&mut *self.generated.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Remembers a generated namespace.
    pub fn remember(&self, namespace: &str) {
        self.generated.lock().unwrap_or_else(PoisonError::into_inner).push(namespace.to_owned());
    }
}
