//! `eventually`: waits until steps pass.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{Builtin, text_or};
use crate::{
    hir::{Def, Dialect, Step},
    signature::{Control, Effects, Shape, Signature},
    ty::duration,
};

/// The step `eventually` (`portable-format.md`).
pub const BUILTIN: Builtin = Builtin { name: "eventually", dialect: Dialect::Portable, signature, meaning };

/// Runs its steps repeatedly until all of them pass in one round, or until `timeout` (60s) expires.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Eventually {
    /// The time from the end of one round to the start of the next.
    #[serde(default = "one_second")]
    #[schemars(extend("format" = "duration"))]
    pub interval: String,
}

/// The default of `interval`.
pub fn one_second() -> String {
    "1s".to_owned()
}

fn signature() -> Signature {
    Signature {
        effects: Effects::None,
        timeout: Some(Duration::from_secs(60)),
        control: Control::Eventually,
        ..Signature::leaf("eventually", "waits until its steps pass", Shape::of::<Eventually>())
    }
}

fn meaning(step: &Step<Def>) -> String {
    let limit = step.timeout.as_ref().map(|t| t.value).or(step.op.signature.timeout);
    let limit = limit.map_or(String::new(), |t| format!(", for at most {}", duration::format(t)));
    format!("until all pass, every {}{limit}", text_or(step, "interval", &one_second()))
}
