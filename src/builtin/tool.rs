//! `ALIAS.TOOL`: an MCP tool as a step. It is not in the table of built-ins, because the author and the server choose
//! its name.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    expect::{present, with_text_demands},
    steps_http::FieldExpect,
};
use crate::{
    hir::Dialect,
    signature::{Field, Schema, Shape, Signature, values},
    ty::Type,
};

/// Calls a tool of an MCP server directly, without an agent.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Tool {
    /// The tool's arguments.
    #[serde(default)]
    pub args: Map<String, Value>,
}

/// The expected result of the tool (portable dialect).
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Expect {
    /// Whether the tool must report an error; by default, it must succeed.
    #[serde(default)]
    pub is_error: bool,
    pub content: Option<ContentExpect>,
    /// The whole structured content, compared deeply and with types.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Value")]
    pub structured_content: Option<Value>,
}

with_text_demands! {
/// The expected content of the result; matchers apply to its text.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ContentExpect {
    /// The whole content, compared like the exact match of an eval: a text with the text of the only block, blocks with all blocks,
    /// any other value with the JSON in the text of the only block.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Value")]
    pub equals: Option<Value>,
}
}

/// The expected result of the tool (steps dialect, §6.6 of the upstream behavior).
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StepsExpect {
    /// Whether an error counts as a success.
    #[serde(default)]
    pub is_error: bool,
    pub content: Option<StepsContentExpect>,
}

/// The expected JSON in the text of the content.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StepsContentExpect {
    /// A regular expression that matches the text (RE2 syntax, unanchored).
    #[serde(rename = "match")]
    #[schemars(extend("format" = "regex"))]
    pub matches: Option<String>,
    /// Conditions on its fields; all must be true.
    #[serde(default)]
    pub fields: Vec<FieldExpect>,
}

static PARAMS: LazyLock<Shape> = LazyLock::new(Shape::of::<Tool>);
static EXPECT: LazyLock<Arc<Shape>> = LazyLock::new(|| Shape::of::<Expect>().into());
static STEPS_EXPECT: LazyLock<Arc<Shape>> = LazyLock::new(|| Shape::of::<StepsExpect>().into());

/// The signature of a tool; its `inputSchema` is known if there is a lock.
pub fn signature(dialect: Dialect, name: &str, input_schema: Option<&Schema>) -> Signature {
    let mut params = PARAMS.clone();
    if let (Shape::Record { fields, .. }, Some(schema)) = (&mut params, input_schema) {
        let shape = Shape::from_foreign(schema.json());
        let required = shape.fields().is_some_and(|f| f.values().any(|f| f.required));
        fields.insert("args".to_owned(), Field { shape, required, ..Field::default() });
    }
    let expect = match dialect {
        Dialect::Portable => &EXPECT,
        _ => &STEPS_EXPECT,
    };
    let locals = match dialect {
        Dialect::Portable => {
            values([("content", Type::list(Type::map())), ("structuredContent", Type::Any), ("isError", Type::Bool)])
        }
        _ => values([("content", Type::String)]),
    };
    Signature {
        schema: input_schema.cloned(),
        expect: Some(Arc::clone(expect)),
        locals,
        lists_outputs: dialect == Dialect::Portable,
        timeout: Some(Duration::from_secs(60)),
        continues: dialect == Dialect::Portable,
        ..Signature::leaf(name, "calls an MCP tool", params)
    }
}
