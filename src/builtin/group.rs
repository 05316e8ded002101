//! `group`: steps with a setup and a cleanup of their own.

use schemars::JsonSchema;
use serde::Deserialize;

use super::Builtin;
use crate::{
    hir::Dialect,
    signature::{Control, Effects, Shape, Signature},
};

pub const BUILTIN: Builtin = Builtin { name: "group", dialect: Dialect::Portable, signature };

/// Runs `setup`, then `steps`; its `cleanup` always runs when the group ends.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Group {}

fn signature() -> Signature {
    Signature {
        effects: Effects::None,
        control: Control::Scope,
        ..Signature::leaf("group", "runs steps, and a cleanup after them", Shape::of::<Group>())
    }
}
