//! `extension`: the long form of an extension's operation.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Builtin, excerpt, text};
use crate::{
    hir::{Def, Dialect, Step},
    signature::{Shape, Signature, values},
    ty::Type,
};

pub const BUILTIN: Builtin = Builtin { name: "extension", dialect: Dialect::Portable, signature, meaning };

/// Calls an operation of an extension by package and name.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Extension {
    /// As in `spec.imports`.
    pub package: String,
    /// The operation.
    pub action: String,
    /// Its arguments.
    #[serde(default)]
    pub args: Map<String, Value>,
}

fn signature() -> Signature {
    Signature {
        locals: values([("result", Type::map())]),
        lists_outputs: true,
        ..Signature::leaf("extension", "calls an operation of an extension", Shape::of::<Extension>())
    }
}

fn meaning(step: &Step<Def>) -> String {
    format!("call {} of {}", excerpt(&text(step, "action")), excerpt(&text(step, "package")))
}
