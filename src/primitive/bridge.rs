//! Converts evals to portable tasks, and portable tasks to evals: what both can express is unchanged after a round
//! trip, and what one of them cannot express is reported.
//!
//! | eval | task |
//! |---|---|
//! | execution, exact match | under `builtin.noop` and `maxToolCalls: 0`, one step `SERVER.TOOL` with an `expect` |
//! | invocation, exact match | a prompt; `toolsUsed` and `maxToolCalls: 1` of the eval file decide |
//! | scenario, judged | a prompt, and a step `llm` with a `rubric` |
//!
//! `id` is the name of the task. Other parts of an eval that a task does not have are in its annotations.

mod export;
mod import;

use std::fmt;

use serde_json::Value;

use crate::{
    diagnostic::Diagnostics,
    source::{Sources, Span},
    yaml,
};

pub use export::{Exported, Portable, export};
pub use import::{Agents, Imported, import, suite};

/// The annotation for the name of an eval, if it differs from the id.
const NAME: &str = "evals/name";
/// The annotation for `maxTurns` of a scenario.
const MAX_TURNS: &str = "evals/maxTurns";
/// The number of calls that the agent of an invocation may make.
const CALLS: u64 = 1;

/// The effect of something that the other side cannot express.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Effect {
    /// The whole task or eval is left out.
    LeftOut,
    /// Less is checked: what failed may pass.
    Weaker,
    /// The decision is made differently: what passed may fail, or what failed may pass.
    Differs,
    /// It has no influence on the decision, and is not converted.
    Dropped,
}

impl Effect {
    /// The word in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::LeftOut => "left out",
            Self::Weaker => "weaker",
            Self::Differs => "differs",
            Self::Dropped => "dropped",
        }
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Something that the other side cannot express.
#[derive(Clone, Debug)]
pub struct Loss {
    /// Where it is written.
    pub span: Span,
    pub effect: Effect,
    pub message: String,
}

impl Loss {
    fn new(effect: Effect, span: Span, message: impl Into<String>) -> Self {
        Self { span, effect, message: message.into() }
    }

    fn left_out(span: Span, message: impl Into<String>) -> Self {
        Self::new(Effect::LeftOut, span, message)
    }
}

/// The text of a file that contains a value: YAML, or JSON if the YAML would be read as another value (numbers that
/// only JSON supports).
pub fn text(value: &Value) -> String {
    let written = yaml::write(value).unwrap_or_default();
    let file = Sources::default().add("written", written.as_str());
    let read = yaml::parse(file, written.clone(), &mut Diagnostics::default()).map(|tree| tree.root().to_json());
    if read.is_ok_and(|read| &read == value) { written } else { format!("{value:#}\n") }
}
