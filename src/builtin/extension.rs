//! `extension`: the long form of an extension's operation.

use std::sync::Arc;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    Builtin, excerpt,
    expect::{JsonExpect, OneOrMany, present},
    text,
};
use crate::{
    hir::{Def, Dialect, Step},
    signature::{Field, Shape, Signature},
    ty::Type,
};

/// The step `extension`, the long form of an operation of a package (`portable-format.md`).
pub const BUILTIN: Builtin = Builtin { name: "extension", dialect: Dialect::Portable, signature, meaning };

/// Calls an operation of an extension by package and name.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Extension {
    /// As in `spec.imports`.
    pub package: String,
    /// The operation.
    pub action: String,
    /// Its arguments.
    #[serde(default)]
    pub args: Map<String, Value>,
}

/// What is expected of one thing that an operation gave, in the mapping form; any other value means `equals`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Demand {
    /// The value, with its type: `"5"` is not `5`.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Value")]
    pub equals: Option<Value>,
    /// A part of the text.
    pub contains: Option<String>,
    /// A pattern (RE2 syntax, unanchored).
    #[schemars(extend("format" = "regex"))]
    pub matches: Option<String>,
    /// Of a text that holds JSON, or of a value that is no text.
    pub json: Option<OneOrMany<JsonExpect>>,
}

/// What `expect` takes: whether the operation succeeds, what it says, and its outputs by name.
pub fn expect(outputs: Option<&Type>) -> Shape {
    let demand = || Shape::OneOf(vec![Shape::of::<Demand>(), Shape::Any]);
    let field = |shape: Shape, doc: &str| Field { shape, doc: doc.to_owned(), ..Field::default() };
    let mut fields = IndexMap::from([
        ("success".to_owned(), field(Shape::Bool, "Whether the operation is to succeed; true by default.")),
        ("message".to_owned(), field(demand(), "What it says.")),
        ("error".to_owned(), field(demand(), "Why it failed.")),
    ]);
    match outputs {
        Some(Type::Record { fields: known, .. }) => {
            fields.extend(known.keys().map(|name| (name.clone(), field(demand(), "An output."))));
            Shape::Record { fields, rest: None }
        }
        _ => Shape::Record { fields, rest: Some(Box::new(demand())) },
    }
}

/// Names of outputs that holes read as something else.
const ROOTS: [&str; 6] = ["env", "random", "task", "steps", "agent", "result"];

/// The step's own values, of what the operation gave.
pub fn values(outputs: &Map<String, Value>) -> Map<String, Value> {
    let own = outputs.iter().filter(|(name, _)| !ROOTS.contains(&name.as_str()));
    let result = [("result".to_owned(), Value::Object(outputs.clone()))];
    own.map(|(name, value)| (name.clone(), value.clone())).chain(result).collect()
}

/// What an operation leaves: `result`, and each output by its own name. Of one whose manifest is not known it may be the
/// standard output of a command, as the format's own examples have it.
pub fn locals(outputs: Option<Type>) -> Arc<IndexMap<String, Type>> {
    let mut locals = IndexMap::new();
    match &outputs {
        Some(Type::Record { fields, .. }) => {
            let own = fields.iter().filter(|(name, _)| !ROOTS.contains(&name.as_str()));
            locals.extend(own.map(|(name, ty)| (name.clone(), ty.clone())));
        }
        _ => locals.extend([("stdout".to_owned(), Type::Any)]),
    }
    locals.insert("result".to_owned(), outputs.unwrap_or_else(Type::map));
    Arc::new(locals)
}

fn signature() -> Signature {
    Signature {
        locals: locals(None),
        lists_outputs: true,
        expect: Some(Arc::new(expect(None))),
        ..Signature::leaf("extension", "calls an operation of an extension", Shape::of::<Extension>())
    }
}

fn meaning(step: &Step<Def>) -> String {
    format!("call {} of {}", excerpt(&text(step, "action")), excerpt(&text(step, "package")))
}
