//! `foreach`: the same steps for every value of a list.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{Builtin, count, excerpt, text};
use crate::{
    hir::{Arg, ArgKind, Def, Dialect, Step},
    signature::{Control, Effects, Shape, Signature, values},
    ty::Type,
};

/// The step `foreach` (`portable-format.md`).
pub const BUILTIN: Builtin = Builtin { name: "foreach", dialect: Dialect::Portable, signature, meaning };

/// Runs its steps once for each value of a list; passes if every round passes.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Foreach {
    /// The name of the variable that contains the value inside the steps.
    pub var: String,
    /// A list, or a single hole whose value is a list or text that is a JSON list.
    #[serde(rename = "in")]
    pub values: Vec<Value>,
    /// How many rounds run at the same time.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 64))]
    pub parallel: u32,
    /// Whether an empty list passes.
    #[serde(default)]
    pub allow_empty: bool,
}

fn one() -> u32 {
    1
}

fn signature() -> Signature {
    Signature {
        locals: values([("rounds", Type::list(Type::map()))]),
        effects: Effects::None,
        control: Control::Each,
        ..Signature::leaf("foreach", "runs steps for each value of a list", Shape::of::<Foreach>())
    }
}

fn meaning(step: &Step<Def>) -> String {
    let var = step.var.as_ref().map_or("value", |v| v.value.as_str());
    let values = match step.arg("in").map(|a| &a.kind) {
        Some(ArgKind::List(items)) => count(items.len(), "value", "values"),
        _ => excerpt(&text(step, "in")),
    };
    let parallel = match step.arg("parallel").and_then(Arg::as_value).and_then(|v| v.as_u64()) {
        Some(n) if n > 1 => format!(", {n} at a time"),
        _ => String::new(),
    };
    format!("for each {var} of {values}{parallel}")
}
