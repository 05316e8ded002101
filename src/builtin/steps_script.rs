//! `script` of the steps dialect, and of the legacy dialect's phases (§1.10 of the upstream behaviour).

use std::time::Duration;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Builtin, script};
use crate::{
    hir::Dialect,
    signature::{Shape, Signature},
};

/// The step `script` of the steps dialect (`upstream-behaviour.md`).
pub const BUILTIN: Builtin =
    Builtin { name: "script", dialect: Dialect::Steps, signature, meaning: script::file_or_inline };

/// Runs a script; exit status 0 passes.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StepsScript {
    /// A program to execute, in its own directory.
    #[schemars(extend("format" = "file"))]
    pub file: Option<String>,
    /// The script text. If it starts with `#!`, it is executed as a file; otherwise it is passed to `$SHELL`.
    #[schemars(extend("format" = "script"))]
    pub inline: Option<String>,
    /// Environment variables to add.
    #[serde(default)]
    pub env: IndexMap<String, String>,
}

fn signature() -> Signature {
    Signature {
        timeout: Some(Duration::from_secs(300)),
        exactly_one: &[&["file", "inline"]],
        ..Signature::leaf("script", "runs a script", Shape::of::<StepsScript>())
    }
}
