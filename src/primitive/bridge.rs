//! Evals as portable tasks, and portable tasks as evals: what both can say is the same after the way there and back, and
//! what one of them cannot say is reported.
//!
//! | eval | task |
//! |---|---|
//! | execution, exact match | under `builtin.noop` and `maxToolCalls: 0`, one step `SERVER.TOOL` with an `expect` |
//! | invocation, exact match | a prompt; `toolsUsed` and `maxToolCalls: 1` of the eval file decide |
//! | scenario, judged | a prompt, and a step `llm` with a `rubric` |
//!
//! `id` is the name of the task. What else an eval has and a task has not stands in its annotations.

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

/// The annotation that holds the name of an eval, where it is not its id.
const NAME: &str = "evals/name";
/// The annotation that holds `maxTurns` of a scenario.
const MAX_TURNS: &str = "evals/maxTurns";
/// The calls that the agent of an invocation may make.
const CALLS: u64 = 1;

/// What becomes of something that the other side cannot say.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Effect {
    /// The whole task or eval is left out.
    LeftOut,
    /// Less is checked: what failed may pass.
    Weaker,
    /// It is decided in another way: what passed may fail, or what failed pass.
    Differs,
    /// Nothing is decided by it; it is not carried over.
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

/// Something that the other side cannot say.
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

/// A file that holds a value: YAML, or JSON where YAML would hold another one (numbers that only JSON has).
pub fn text(value: &Value) -> String {
    let written = yaml::write(value).unwrap_or_default();
    let file = Sources::default().add("written", written.as_str());
    let read = yaml::parse(file, written.clone(), &mut Diagnostics::default()).map(|tree| tree.root().to_json());
    if read.is_ok_and(|read| &read == value) { written } else { format!("{value:#}\n") }
}
