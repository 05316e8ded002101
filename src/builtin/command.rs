//! `command`: runs a shell command.

use std::{borrow::Cow, time::Duration};

use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de::Error};
use serde_json::Value;

use super::{Builtin, code, expect::TextExpect, text};
use crate::{
    hir::{Def, Dialect, Step},
    signature::{Shape, Signature, Values, values},
    ty::Type,
};

/// The step `command` (`portable-format.md`).
pub const BUILTIN: Builtin = Builtin { name: "command", dialect: Dialect::Portable, signature, meaning };

/// Runs a shell command. Exit status 0 passes, unless `expect.exitCode` specifies another.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Command {
    /// What the shell runs.
    #[schemars(extend("format" = "script"))]
    pub run: String,
    /// The shell, a program that accepts `-c TEXT`.
    #[serde(default = "default_shell")]
    pub shell: String,
    /// The working directory; the task's directory by default.
    #[schemars(extend("format" = "path"))]
    pub workdir: Option<String>,
    /// Environment variables to add.
    #[serde(default)]
    pub env: IndexMap<String, String>,
}

/// The default of `shell`.
pub fn default_shell() -> String {
    "/bin/sh".to_owned()
}

/// The expected result of the command.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Expect {
    /// The exit status; `{not: 0}` for any status except this one, 126 and 127 (no such command); or `any`. 0 by default.
    #[serde(default)]
    pub exit_code: ExitCode,
    /// Standard output, without trailing newlines.
    pub stdout: Option<TextExpect>,
    /// Standard error, without trailing newlines.
    pub stderr: Option<TextExpect>,
}

/// Which exit status is expected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExitCode {
    Any,
    Is(i64),
    /// Any but this one. The step is broken if the program was not found or was killed.
    Not(i64),
}

impl Default for ExitCode {
    fn default() -> Self {
        Self::Is(0)
    }
}

impl ExitCode {
    /// Whether this exit status is expected.
    pub fn admits(self, code: i32) -> bool {
        match self {
            Self::Any => true,
            Self::Is(expected) => i64::from(code) == expected,
            Self::Not(other) => i64::from(code) != other,
        }
    }
}

impl<'de> Deserialize<'de> for ExitCode {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(d)?;
        if value == "any" {
            return Ok(Self::Any);
        }
        match value.as_object().and_then(|fields| fields.get("not")) {
            Some(other) => serde_json::from_value(other.clone()).map(Self::Not),
            None => serde_json::from_value(value).map(Self::Is),
        }
        .map_err(D::Error::custom)
    }
}

impl JsonSchema for ExitCode {
    fn schema_name() -> Cow<'static, str> {
        "ExitCode".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let not = serde_json::json!({
            "type": "object", "required": ["not"], "additionalProperties": false,
            "properties": { "not": {
                "description": "Any status except this one.", "type": "integer", "minimum": 0, "maximum": 255,
            } },
        });
        json_schema!({ "anyOf": [{ "type": "integer" }, { "enum": ["any"] }, not] })
    }
}

fn signature() -> Signature {
    Signature {
        expect: Some(Shape::of::<Expect>().into()),
        locals: process_locals(),
        lists_outputs: true,
        timeout: Some(Duration::from_secs(60)),
        ..Signature::leaf("command", "runs a shell command", Shape::of::<Command>())
    }
}

/// The outputs of every process.
pub fn process_locals() -> Values {
    values([("stdout", Type::String), ("stderr", Type::String), ("exitCode", Type::Number)])
}

fn meaning(step: &Step<Def>) -> String {
    format!("run {}", code(&text(step, "run")))
}
