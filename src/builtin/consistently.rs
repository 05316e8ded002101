//! `consistently`: steps that pass, and keep passing.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{Builtin, eventually, text, text_or};
use crate::{
    hir::{Def, Dialect, Step},
    signature::{Control, Effects, Shape, Signature},
};

/// The step `consistently` (`portable-format.md`).
pub const BUILTIN: Builtin = Builtin { name: "consistently", dialect: Dialect::Portable, signature, meaning };

/// Runs its steps repeatedly for a while; every round must pass.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Consistently {
    /// How long the steps must keep passing.
    #[schemars(extend("format" = "duration"))]
    pub duration: String,
    /// The time from the end of one round to the start of the next.
    #[serde(default = "eventually::one_second")]
    #[schemars(extend("format" = "duration"))]
    pub interval: String,
}

fn signature() -> Signature {
    Signature {
        effects: Effects::None,
        control: Control::Consistently,
        ..Signature::leaf("consistently", "requires that its steps pass for a while", Shape::of::<Consistently>())
    }
}

fn meaning(step: &Step<Def>) -> String {
    let interval = text_or(step, "interval", &eventually::one_second());
    format!("all pass for {}, every {interval}", text(step, "duration"))
}
