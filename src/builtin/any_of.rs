//! `anyOf`: passes if one of several branches passes.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{Builtin, count};
use crate::{
    hir::{Def, Dialect, Step},
    signature::{Control, Effects, Shape, Signature},
};

/// The step `anyOf` (`portable-format.md`).
pub const BUILTIN: Builtin = Builtin { name: "anyOf", dialect: Dialect::Portable, signature, meaning };

/// Tries its branches in order and passes at the first that passes; the others do not run.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AnyOf {}

fn signature() -> Signature {
    Signature {
        short: Some("steps"),
        effects: Effects::None,
        control: Control::Any,
        ..Signature::leaf("anyOf", "passes at the first branch that passes", Shape::of::<AnyOf>())
    }
}

fn meaning(step: &Step<Def>) -> String {
    format!("any of {}", count(step.blocks.len(), "branch", "branches"))
}
