//! `llm`: the eval's judge reads the agent's answer.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{Builtin, excerpt, text};
use crate::{
    hir::{Def, Dialect, PhaseKind, Step},
    signature::{Effects, Shape, Signature},
};

/// The step `llm` (`portable-format.md`).
pub const BUILTIN: Builtin = Builtin { name: "llm", dialect: Dialect::Portable, signature, meaning };

/// Asks the eval's judge whether the agent's answer contains, or is, what is expected.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Judge {
    /// The answer must state all of this, in meaning; it may state more.
    pub contains: Option<String>,
    /// The answer must state this, in meaning, and nothing else.
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

/// What a judge step asks.
pub fn meaning(step: &Step<Def>) -> String {
    match step.arg("exact") {
        Some(_) => format!("ask the judge whether the answer is “{}”", excerpt(&text(step, "exact"))),
        None => format!("ask the judge whether the answer says “{}”", excerpt(&text(step, "contains"))),
    }
}
