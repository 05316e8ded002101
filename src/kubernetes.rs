//! `builtin:kubernetes`, the bundled extension: the operations of the portable format's Kubernetes extension, those of the
//! existing public one under their own names, and what real scripts do beyond them.
//!
//! It is a program like any other extension: the runner starts this binary with [`ARGUMENT`], and both speak JSON-RPC over
//! standard input and output (version 0.0.1). Here is what it can do, which the compiler asks; the room `cluster` does it.

pub mod operation;

use serde_json::{Map, Value, json};

/// The name of the extension, as in `builtin:kubernetes`.
pub const NAME: &str = "kubernetes";

/// The one argument with which this binary is the extension.
pub const ARGUMENT: &str = "kubernetes-extension";

/// The keys of its `config` that say which cluster is meant.
pub const CLUSTER: [&str; 2] = ["kubeconfig", "context"];

/// The version of the protocol that it speaks.
pub const PROTOCOL: &str = "0.0.1";

/// What `initialize` answers: name, version, and each operation with the JSON Schema of its arguments, its outputs, the
/// phases in which it may stand and what it does to the world.
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
