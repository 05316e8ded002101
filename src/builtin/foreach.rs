//! `foreach`: the same steps for every value of a list.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::Builtin;
use crate::{
    hir::Dialect,
    signature::{Control, Effects, Shape, Signature},
    ty::Type,
};

pub const BUILTIN: Builtin = Builtin { name: "foreach", dialect: Dialect::Portable, signature };

/// Runs its steps once for every value of a list; passes if every round passes.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Foreach {
    /// The name of the value inside the steps.
    pub var: String,
    /// A list, or one hole that holds a list (or text that is a JSON list).
    #[serde(rename = "in")]
    pub values: Vec<Value>,
    /// Rounds at a time.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 64))]
    pub parallel: u32,
    /// Whether a list without values passes.
    #[serde(default)]
    pub allow_empty: bool,
}

fn one() -> u32 {
    1
}

fn signature() -> Signature {
    Signature {
        locals: [("rounds".to_owned(), Type::list(Type::map()))].into(),
        effects: Effects::None,
        control: Control::Each,
        ..Signature::leaf("foreach", "runs steps for every value of a list", Shape::of::<Foreach>())
    }
}
