//! `builtin:kubernetes`, the bundled extension: the operations of the portable format's Kubernetes extension, those of
//! the existing public one under their own names, and more that real scripts need.
//!
//! It is a program like any other extension: the runner starts this binary with [`ARGUMENT`], and both exchange
//! JSON-RPC over standard input and output (version 0.0.1). This module defines the operations, for the compiler; the
//! module `cluster` implements them.

pub mod operation;

use serde_json::{Map, Value, json};

/// The name of the extension, as in `builtin:kubernetes`.
pub const NAME: &str = "kubernetes";

/// The argument that makes this binary run as the extension.
pub const ARGUMENT: &str = "kubernetes-extension";

/// The keys of its `config` that select the cluster.
pub const CLUSTER: [&str; 2] = ["kubeconfig", "context"];

/// The version of the protocol that it implements.
pub const PROTOCOL: &str = "0.0.1";

/// The answer to `initialize`: name, version, and each operation with the JSON Schema of its arguments, its outputs,
/// the phases in which it is allowed, and its side effects.
pub fn manifest() -> Value {
    let operations: Map<String, Value> = operation::OPERATIONS
        .iter()
        .map(|operation| {
            let outputs: Map<String, Value> = operation
                .outputs
                .iter()
                .map(|(name, kind, description)| {
                    ((*name).to_owned(), json!({"type": kind, "description": description}))
                })
                .collect();
            let value = json!({
                "description": operation.description,
                "params": (operation.params)(),
                "outputs": outputs,
                "phases": operation.phases(),
                "sideEffects": operation.effect.name(),
            });
            (operation.name.to_owned(), value)
        })
        .collect();
    json!({
        "name": NAME,
        "version": env!("CARGO_PKG_VERSION"),
        "protocolVersion": PROTOCOL,
        "description": "Kubernetes: prepares, awaits and checks the objects of a cluster",
        "operations": operations,
    })
}
