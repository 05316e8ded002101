//! `extension`: the long form of an extension's operation.

use std::sync::{Arc, LazyLock};

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de::Error};
use serde_json::{Map, Value};

use super::{
    Builtin, call, excerpt,
    expect::{present, with_text_demands},
};
use crate::{
    hir::{Def, Dialect, OperationKind, Step},
    signature::{Shape, Signature},
    ty::Type,
};

/// The step `extension`, the long form of an operation of a package (`portable-format.md`).
pub const BUILTIN: Builtin = Builtin { name: "extension", dialect: Dialect::Portable, signature, meaning };

/// Calls an operation of an extension by package and name.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Extension {
    /// The package, as in `spec.imports`.
    pub package: String,
    /// The operation to call.
    pub action: String,
    /// The arguments of the operation.
    #[serde(default)]
    pub args: Map<String, Value>,
}

/// The expected outputs of an operation, by name.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub struct Expect(pub IndexMap<String, OutputExpect>);

/// The expectation about an output: matchers, or the value itself.
#[derive(Clone, Debug)]
pub enum OutputExpect {
    Matchers(Box<Matchers>),
    Value(Value),
}

with_text_demands! {
/// Matchers, as for commands and requests.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Matchers {
    /// The whole value.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Value")]
    pub equals: Option<Value>,
}
}

/// The matchers of an output.
pub static MATCHERS: LazyLock<Shape> = LazyLock::new(Shape::of::<Matchers>);

/// The shape of `expect` if the outputs are unknown: any name.
pub static ANY_OUTPUT: LazyLock<Arc<Shape>> =
    LazyLock::new(|| Arc::new(Shape::Record { fields: IndexMap::new(), rest: Some(Box::default()) }));

/// Whether a mapping with these keys contains matchers; any other mapping is a value to compare with.
pub fn are_matchers<'k>(keys: impl IntoIterator<Item = &'k str>) -> bool {
    let mut keys = keys.into_iter().peekable();
    let known = MATCHERS.fields();
    keys.peek().is_some() && keys.all(|key| known.is_some_and(|fields| fields.contains_key(key)))
}

impl<'de> Deserialize<'de> for OutputExpect {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        match Value::deserialize(d)? {
            Value::Object(fields) if are_matchers(fields.keys().map(String::as_str)) => {
                serde_json::from_value(Value::Object(fields)).map(Self::Matchers).map_err(D::Error::custom)
            }
            value => Ok(Self::Value(value)),
        }
    }
}

/// The outputs of an operation: `result`, and each output by its own name. If the manifest is unknown, `stdout` may be
/// the standard output of a command, as in the format's own examples.
pub fn locals(outputs: Option<Type>) -> Arc<IndexMap<String, Type>> {
    const ROOTS: [&str; 6] = ["env", "random", "task", "steps", "agent", "result"];
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
        expect: Some(Arc::clone(&ANY_OUTPUT)),
        ..Signature::leaf("extension", "calls an operation of an extension", Shape::of::<Extension>())
    }
}

/// One line: the operation, in either form, and its arguments.
pub fn meaning(step: &Step<Def>) -> String {
    let name = match &step.op.kind {
        OperationKind::Extension { package, operation } if step.op.name == BUILTIN.name => {
            format!("{operation} of {}", excerpt(package))
        }
        _ => step.op.name.clone(),
    };
    format!("call {name}{}", call(&step.args))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn null_can_be_an_expected_value() {
        let Expect(outputs) = serde_json::from_value(json!({ "a": { "equals": null }, "b": { "of": 1 } })).unwrap();
        match (&outputs["a"], &outputs["b"]) {
            (OutputExpect::Matchers(a), OutputExpect::Value(b)) => {
                assert_eq!(a.equals, Some(Value::Null));
                assert_eq!(*b, json!({ "of": 1 }));
            }
            other => panic!("{other:?}"),
        }
    }
}
