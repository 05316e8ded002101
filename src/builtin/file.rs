//! `file`: creates, removes or checks a file.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{Builtin, excerpt, expect::with_text_demands, text};
use crate::{
    hir::{Def, Dialect, Step},
    signature::{Shape, Signature},
};

/// The step `file` (`portable-format.md`).
pub const BUILTIN: Builtin = Builtin { name: "file", dialect: Dialect::Portable, signature, meaning };

/// Writes a file (`content`), removes one (`absent`), or checks one (`expect`).
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct File {
    /// The file's path, relative to the task's directory.
    #[schemars(extend("format" = "path"))]
    pub path: String,
    /// The text to write; missing parent directories are created.
    pub content: Option<String>,
    /// Octal permissions of the file that is written.
    #[serde(default = "default_mode")]
    #[schemars(extend("format" = "file-mode"))]
    pub mode: String,
    /// Removes the file; passes if the file does not exist.
    #[serde(default)]
    pub absent: bool,
}

fn default_mode() -> String {
    "0644".to_owned()
}

with_text_demands! {
/// The expected state of the file.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Expect {
    /// Whether the file exists; true by default.
    #[serde(default = "yes")]
    pub exists: bool,
    /// The file's octal permissions.
    #[schemars(extend("format" = "file-mode"))]
    pub mode: Option<String>,
}
}

fn yes() -> bool {
    true
}

fn signature() -> Signature {
    Signature {
        expect: Some(Shape::of::<Expect>().into()),
        timeout: Some(Duration::from_secs(30)),
        exactly_one: &[&["content", "absent", "expect"]],
        ..Signature::leaf("file", "writes, removes or checks a file", Shape::of::<File>())
    }
}

fn meaning(step: &Step<Def>) -> String {
    let verb = match (step.arg("content"), step.arg("absent")) {
        (Some(_), _) => "write",
        (None, Some(absent)) if absent.as_value() == Some(true.into()) => "remove",
        _ => "look at",
    };
    format!("{verb} {}", excerpt(&text(step, "path")))
}
