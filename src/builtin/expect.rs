//! What steps expect of texts and JSON values.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de::Error};
use serde_json::Value;

/// Demands on a text; a bare string means `equals`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TextExpect {
    pub equals: Option<String>,
    pub contains: Option<String>,
    pub matches: Option<String>,
}

/// The mapping form.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TextExpectFields {
    /// The whole text.
    equals: Option<String>,
    /// A part of it.
    contains: Option<String>,
    /// A pattern (RE2 syntax, unanchored).
    #[schemars(extend("format" = "regex"))]
    matches: Option<String>,
}

impl<'de> Deserialize<'de> for TextExpect {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        match Value::deserialize(d)? {
            Value::String(text) => Ok(Self { equals: Some(text), ..Self::default() }),
            other => {
                let TextExpectFields { equals, contains, matches } =
                    serde_json::from_value(other).map_err(D::Error::custom)?;
                Ok(Self { equals, contains, matches })
            }
        }
    }
}

impl JsonSchema for TextExpect {
    fn schema_name() -> Cow<'static, str> {
        "TextExpect".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let fields = generator.subschema_for::<TextExpectFields>();
        json_schema!({ "description": "Demands on a text; a bare string means `equals`.", "anyOf": [{ "type": "string" }, fields] })
    }
}

/// One or a list.
#[derive(Clone, Debug, PartialEq)]
pub struct OneOrMany<T>(pub Vec<T>);

impl<'de, T: serde::de::DeserializeOwned> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let items = match Value::deserialize(d)? {
            Value::Array(items) => items,
            one => vec![one],
        };
        let items: Result<_, _> = items.into_iter().map(serde_json::from_value).collect();
        items.map(Self).map_err(D::Error::custom)
    }
}

impl<T: JsonSchema> JsonSchema for OneOrMany<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("OneOrMany{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<T>();
        json_schema!({ "anyOf": [one, { "type": "array", "items": one, "minItems": 1 }] })
    }
}

/// A demand on the value at a path of a JSON document (RFC 9535): no match is a failure, several compare as a list.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JsonExpect {
    /// Where to look.
    #[schemars(extend("format" = "jsonpath"))]
    pub path: String,
    /// The value, with its type: `"5"` is not `5`, and `null` means null.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Value")]
    pub equals: Option<Value>,
    /// A pattern for a string (RE2 syntax, unanchored).
    #[schemars(extend("format" = "regex"))]
    pub matches: Option<String>,
    /// The value's type.
    #[serde(rename = "type")]
    pub ty: Option<JsonType>,
    /// Whether there is a value at all.
    pub exists: Option<bool>,
}

/// The types of JSON.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum JsonType {
    String,
    Number,
    Bool,
    Array,
    Object,
    Null,
}

impl JsonType {
    /// The kind of a value.
    pub fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(_) => Self::Bool,
            Value::Number(_) => Self::Number,
            Value::String(_) => Self::String,
            Value::Array(_) => Self::Array,
            Value::Object(_) => Self::Object,
        }
    }

    /// As an expectation writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Number => "number",
            Self::Bool => "bool",
            Self::Array => "array",
            Self::Object => "object",
            Self::Null => "null",
        }
    }
}

/// Keeps `null` apart from nothing.
pub fn present<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(d).map(Some)
}
