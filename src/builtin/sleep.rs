//! `sleep`: waits.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{Builtin, text};
use crate::{
    hir::{Def, Dialect, Step},
    signature::{Effects, Shape, Signature},
};

/// The step `sleep` (`portable-format.md`).
pub const BUILTIN: Builtin = Builtin { name: "sleep", dialect: Dialect::Portable, signature, meaning };

/// Waits for a while; `eventually` is nearly always better.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Sleep {
    /// How long to wait.
    #[schemars(extend("format" = "duration"))]
    pub duration: String,
}

fn signature() -> Signature {
    Signature {
        short: Some("duration"),
        effects: Effects::None,
        ..Signature::leaf("sleep", "waits", Shape::of::<Sleep>())
    }
}

fn meaning(step: &Step<Def>) -> String {
    format!("wait {}", text(step, "duration"))
}
