//! `llm`: the eval's judge reads the agent's answer.

use schemars::JsonSchema;
use serde::Deserialize;

use super::Builtin;
use crate::{
    hir::{Dialect, PhaseKind},
    signature::{Effects, Shape, Signature},
};

pub const BUILTIN: Builtin = Builtin { name: "llm", dialect: Dialect::Portable, signature };

/// Asks the eval's judge whether the agent's answer contains, or is, what is expected.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Judge {
    /// All of this must be said, in meaning; more may be.
    pub contains: Option<String>,
    /// This must be said, in meaning, and nothing else.
    pub exact: Option<String>,
}

fn signature() -> Signature {
    judge("llm")
}

/// The judge's signature, under the name a dialect has for it.
pub fn judge(name: &str) -> Signature {
    Signature {
        phases: vec![PhaseKind::Verify],
        effects: Effects::None,
        exactly_one: &[&["contains", "exact"]],
        judges: true,
        ..Signature::leaf(name, "asks the judge about the agent's answer", Shape::of::<Judge>())
    }
}
