//! Values that several formats share.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::{
    dialect::{DIALECTS, DialectInfo},
    hir::Dialect,
    lint::AGENT_TYPES,
};

/// Go's syntax of durations. They must be greater than zero, which a pattern cannot express well.
pub const DURATION: &str = r"^\+?(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$";

/// A letter, then letters, digits, `_` and `-`.
pub const ID: &str = "^[A-Za-z][A-Za-z0-9_-]*$";

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident = $schema:expr;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                $schema
            }
        }
    )+};
}

words! {
    /// A string that is not empty.
    Name = json_schema!({ "type": "string", "minLength": 1 });
    /// A duration like `90s`, `1h30m` or `500ms`.
    Time = json_schema!({ "type": "string", "pattern": DURATION });
    /// The prefix of steps; contains no dot.
    Alias = json_schema!({ "type": "string", "pattern": r"^[^.]+$" });
    /// The name of an environment variable.
    Variable = json_schema!({ "type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$" });
    /// The name of a task: one line of plain text.
    TaskName = json_schema!({ "type": "string", "pattern": r"^[^\u0000-\u001f\u007f-\u009f]+$" });
    /// The name of an eval; its results file is named after it.
    EvalName = json_schema!({ "type": "string", "maxLength": 200, "pattern": r"^[^/\\\u0000-\u001f\u007f]+$" });
    /// How hard a task is; `check` warns about an unknown word.
    Difficulty = json_schema!({ "type": "string", "anyOf": [{ "enum": ["easy", "medium", "hard"] }, {}] });
    /// `kube`, or a share of a control plane.
    World = json_schema!({ "oneOf": [
        { "const": "kube" },
        {
            "type": "object",
            "properties": { "kube": {
                "description": "`namespace`: each run gets its own namespace on a shared control plane; `api`: each run gets its own control plane.",
                "enum": ["namespace", "api"],
            } },
            "required": ["kube"],
            "additionalProperties": false,
        },
    ] });
    /// The types of agents.
    AgentType = json_schema!({ "type": "string", "enum": AGENT_TYPES });
    /// Any version that selects a dialect, or none.
    AnyVersion = json_schema!({ "type": "string", "enum": DIALECTS.iter().flat_map(versions).collect::<Vec<_>>() });
    /// A version of the legacy dialect; empty or null means the first version.
    LegacyVersion = {
        let mut words: Vec<_> = versions_of(Dialect::Legacy).into_iter().map(serde_json::Value::from).collect();
        words.extend(["".into(), serde_json::Value::Null]);
        json_schema!({ "enum": words })
    };
    StepsVersion = json_schema!({ "type": "string", "enum": versions_of(Dialect::Steps) });
    PortableVersion = json_schema!({ "type": "string", "enum": versions_of(Dialect::Portable) });
}

fn versions(info: &DialectInfo) -> impl Iterator<Item = &'static str> {
    info.versions.iter().chain(info.aliases).copied()
}

/// The values of `apiVersion` that select a dialect, old names last.
pub fn versions_of(dialect: Dialect) -> Vec<&'static str> {
    DIALECTS.iter().filter(|d| d.dialect == dialect).flat_map(versions).collect()
}

/// A value, or an explicit null.
#[derive(Clone, Copy, Debug)]
pub struct Nullable<T>(std::marker::PhantomData<T>);

impl<T: JsonSchema> JsonSchema for Nullable<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("Nullable{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let inner = generator.subschema_for::<T>();
        json_schema!({ "oneOf": [inner, { "type": "null" }] })
    }
}
