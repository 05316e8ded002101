//! `group`: steps with their own setup and cleanup.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{Builtin, count};
use crate::{
    hir::{BlockRole, Def, Dialect, Step},
    signature::{Control, Effects, Shape, Signature},
};

/// The step `group` (`portable-format.md`).
pub const BUILTIN: Builtin = Builtin { name: "group", dialect: Dialect::Portable, signature, meaning };

/// Runs `setup`, then `steps`; its `cleanup` always runs when the group ends.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Group {}

fn signature() -> Signature {
    Signature {
        effects: Effects::None,
        control: Control::Scope,
        ..Signature::leaf("group", "runs steps with their own setup and cleanup", Shape::of::<Group>())
    }
}

fn meaning(step: &Step<Def>) -> String {
    let has = |role| step.blocks.iter().any(|b| b.role == role && !b.steps.is_empty());
    let steps = step.blocks.iter().filter(|b| b.role == BlockRole::Steps).map(|b| b.steps.len()).sum();
    let own = match (has(BlockRole::Setup), has(BlockRole::Cleanup)) {
        (true, true) => ", with its own setup and cleanup",
        (true, false) => ", with its own setup",
        (false, true) => ", with its own cleanup",
        (false, false) => "",
    };
    format!("{}{own}", count(steps, "step", "steps"))
}
