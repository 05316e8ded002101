//! `script`: a program or an inline text of the author; the escape hatch.

use std::{sync::Arc, time::Duration};

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Builtin, code, command, excerpt, text};
use crate::{
    hir::{Def, Dialect, Step},
    signature::{Shape, Signature},
    ty::Type,
};

/// The step `script` (`portable-format.md`).
pub const BUILTIN: Builtin = Builtin { name: "script", dialect: Dialect::Portable, signature, meaning: file_or_inline };

/// Runs a script. Without a protocol, exit status 0 passes; with `protocol: json`, the script gets a description of the task on
/// standard input and writes its verdict to standard output.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Script {
    /// A program to execute; its `#!` line selects the interpreter.
    #[schemars(extend("format" = "file"))]
    pub file: Option<String>,
    /// The script text. If it starts with `#!`, it is executed as a file; otherwise it is passed to the shell.
    #[schemars(extend("format" = "script"))]
    pub inline: Option<String>,
    /// Arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// Environment variables to add.
    #[serde(default)]
    pub env: IndexMap<String, String>,
    /// The working directory; the task's directory by default.
    #[schemars(extend("format" = "path"))]
    pub workdir: Option<String>,
    /// The shell that reads an inline text without `#!`.
    #[serde(default = "command::default_shell")]
    pub shell: String,
    /// How the script gives its verdict.
    #[serde(default)]
    pub protocol: Protocol,
}

/// How a script gives its verdict.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// By its exit status.
    #[default]
    None,
    /// As JSON on standard output; with a non-zero exit status, the step is broken.
    Json,
}

fn signature() -> Signature {
    Signature {
        locals: command::process_locals(),
        lists_outputs: true,
        timeout: Some(Duration::from_secs(300)),
        exactly_one: &[&["file", "inline"]],
        refine: Some(|literal, signature| {
            if literal("protocol").as_deref() == Some("json") {
                Arc::make_mut(&mut signature.locals).insert("result".to_owned(), Type::map());
            }
        }),
        ..Signature::leaf("script", "runs a script", Shape::of::<Script>())
    }
}

/// Describes a step with `file` or `inline`.
pub fn file_or_inline(step: &Step<Def>) -> String {
    match step.arg("file") {
        Some(_) => format!("run the script {}", excerpt(&text(step, "file"))),
        None => format!("run a script: {}", code(&text(step, "inline"))),
    }
}
