//! `llm`: the eval's judge assesses the agent's answer.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{Builtin, excerpt, text};
use crate::{
    hir::{Def, Dialect, PhaseKind, Step},
    signature::{Effects, Shape, Signature},
};

/// The step `llm` (`portable-format.md`).
pub const BUILTIN: Builtin = Builtin { name: "llm", dialect: Dialect::Portable, signature, meaning };

/// Asks the eval's judge about the agent's answer or calls.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Llm {
    /// The answer must state all of this in substance; it may state more.
    pub contains: Option<String>,
    /// The answer must state this in substance, and nothing else.
    pub exact: Option<String>,
    /// The criteria by which the judge decides; the judge reads the agent's calls, their results and the answer.
    pub rubric: Option<String>,
}

/// Asks the eval's judge whether the agent's answer contains or equals the expected text (steps dialect).
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Judge {
    /// The answer must state all of this in substance; it may state more.
    pub contains: Option<String>,
    /// The answer must state this in substance, and nothing else.
    pub exact: Option<String>,
}

fn signature() -> Signature {
    judge("llm", Shape::of::<Llm>(), &[&["contains", "exact", "rubric"]])
}

/// The signature of a judge step, for either dialect.
pub fn judge(name: &str, params: Shape, exactly_one: &'static [&'static [&'static str]]) -> Signature {
    Signature {
        phases: vec![PhaseKind::Verify],
        effects: Effects::None,
        exactly_one,
        judges: true,
        ..Signature::leaf(name, "asks the judge about the agent's answer", params)
    }
}

/// Describes what a judge step asks.
pub fn meaning(step: &Step<Def>) -> String {
    let asked = |key: &str| step.arg(key).map(|_| excerpt(&text(step, key)));
    match (asked("exact"), asked("rubric")) {
        (Some(exact), _) => format!("ask the judge whether the answer is “{exact}”"),
        (_, Some(rubric)) => format!("ask the judge about the agent's work, by “{rubric}”"),
        (None, None) => format!("ask the judge whether the answer says “{}”", excerpt(&text(step, "contains"))),
    }
}
