//! Expectations of steps about texts and JSON values.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de::Error};
use serde_json::Value;

use crate::ty::number;

/// Defines a struct with all expectations about a text, in addition to its own fields.
macro_rules! with_text_demands {
    ($(#[$meta:meta])* $vis:vis struct $name:ident { $($(#[$field_meta:meta])* $field_vis:vis $field:ident: $ty:ty,)* }) => {
        $(#[$meta])*
        $vis struct $name {
            $($(#[$field_meta])* $field_vis $field: $ty,)*
            /// A substring of the text.
            pub contains: Option<String>,
            /// A regular expression that matches the text (RE2 syntax, unanchored).
            #[schemars(extend("format" = "regex"))]
            pub matches: Option<String>,
            /// The whole text is one of these.
            #[schemars(length(min = 1))]
            pub one_of: Option<Vec<String>>,
            /// Whether the text is empty.
            pub empty: Option<bool>,
            /// How many lines the text has; trailing newlines do not count.
            pub lines: Option<$crate::builtin::expect::Count>,
            /// The text is a number that is at least this.
            pub at_least: Option<$crate::builtin::expect::Bound>,
            /// The text is a number that is at most this.
            pub at_most: Option<$crate::builtin::expect::Bound>,
            /// The text is a number that is greater than this.
            pub above: Option<$crate::builtin::expect::Bound>,
            /// The text is a number that is less than this.
            pub below: Option<$crate::builtin::expect::Bound>,
            /// Matchers for the JSON in the text (of a tool, for its structured content, if there is any): one or a list.
            pub json: Option<$crate::builtin::expect::OneOrMany<$crate::builtin::expect::JsonExpect>>,
            /// What must not be true of the text; a bare string means `equals`.
            pub not: Option<$crate::builtin::expect::NotText>,
        }

        impl $name {
            /// The expectations about the text.
            pub fn demands(&self) -> $crate::builtin::expect::TextDemands<'_> {
                $crate::builtin::expect::TextDemands {
                    contains: self.contains.as_deref(),
                    matches: self.matches.as_deref(),
                    one_of: self.one_of.as_deref(),
                    empty: self.empty,
                    lines: self.lines.as_ref(),
                    bounds: $crate::builtin::expect::Bounds {
                        at_least: self.at_least.as_ref(),
                        at_most: self.at_most.as_ref(),
                        above: self.above.as_ref(),
                        below: self.below.as_ref(),
                    },
                    json: self.json.as_ref().map(|json| json.0.as_slice()),
                    not: self.not.as_ref(),
                }
            }
        }
    };
}
pub(crate) use with_text_demands;

/// The expectations about a text; the extension of the format that `docs/expect.md` describes.
#[derive(Clone, Copy, Debug, Default)]
pub struct TextDemands<'e> {
    pub contains: Option<&'e str>,
    pub matches: Option<&'e str>,
    pub one_of: Option<&'e [String]>,
    pub empty: Option<bool>,
    pub lines: Option<&'e Count>,
    pub bounds: Bounds<'e>,
    pub json: Option<&'e [JsonExpect]>,
    pub not: Option<&'e NotText>,
}

impl<'e> TextDemands<'e> {
    /// Only a pattern, if there is one.
    pub fn pattern(matches: Option<&'e str>) -> Self {
        Self { matches, ..Self::default() }
    }

    /// Whether anything is expected.
    pub fn is_some(&self) -> bool {
        let Bounds { at_least, at_most, above, below } = self.bounds;
        let number = [at_least, at_most, above, below].iter().any(Option::is_some);
        let text = self.contains.is_some() || self.matches.is_some() || self.one_of.is_some() || self.not.is_some();
        text || number || self.empty.is_some() || self.lines.is_some() || self.json.is_some()
    }
}

/// The bounds of a number.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bounds<'e> {
    pub at_least: Option<&'e Bound>,
    pub at_most: Option<&'e Bound>,
    pub above: Option<&'e Bound>,
    pub below: Option<&'e Bound>,
}

/// An expected count: a number, or bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    pub at_least: u64,
    pub at_most: Option<u64>,
}

impl Count {
    /// Whether this count is expected.
    pub fn admits(self, n: u64) -> bool {
        n >= self.at_least && self.at_most.is_none_or(|most| n <= most)
    }

    /// As text: `3`, `at least 1`, `1 to 3`.
    pub fn describe(self) -> String {
        match self {
            Self { at_least, at_most: Some(most) } if at_least == most => most.to_string(),
            Self { at_least: 0, at_most: Some(most) } => format!("at most {most}"),
            Self { at_least, at_most: Some(most) } => format!("{at_least} to {most}"),
            Self { at_least, at_most: None } => format!("at least {at_least}"),
        }
    }
}

/// The mapping form.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CountBounds {
    /// The minimum.
    #[serde(default)]
    at_least: u64,
    /// The maximum.
    at_most: Option<u64>,
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(d)?;
        // A hole produces a text.
        let whole = value.as_u64().or_else(|| value.as_str()?.trim().parse().ok());
        match whole {
            Some(n) => Ok(Self { at_least: n, at_most: Some(n) }),
            None => {
                let CountBounds { at_least, at_most } = serde_json::from_value(value).map_err(D::Error::custom)?;
                Ok(Self { at_least, at_most })
            }
        }
    }
}

impl JsonSchema for Count {
    fn schema_name() -> Cow<'static, str> {
        "Count".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let bounds = generator.subschema_for::<CountBounds>();
        json_schema!({ "description": "How many: a number, or bounds.", "anyOf": [{ "type": "integer", "minimum": 0 }, bounds] })
    }
}

/// A number to compare with; a hole may produce it as text.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound(pub String);

impl<'de> Deserialize<'de> for Bound {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = match Value::deserialize(d)? {
            Value::Number(number) => number.to_string(),
            Value::String(text) => text.trim().to_owned(),
            other => return Err(D::Error::custom(format!("`{other}` is not a number"))),
        };
        match number::compare(&text, "0") {
            Some(_) => Ok(Self(text)),
            None => Err(D::Error::custom(format!("`{text}` is not a number"))),
        }
    }
}

impl JsonSchema for Bound {
    fn schema_name() -> Cow<'static, str> {
        "Bound".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "type": "number" }, { "type": "string", "format": "number" }] })
    }
}

/// What must not be true of a text; a bare string means `equals`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NotText {
    pub equals: Option<String>,
    pub contains: Option<String>,
    pub matches: Option<String>,
}

/// The mapping form.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NotTextFields {
    /// The whole text.
    equals: Option<String>,
    /// A substring.
    contains: Option<String>,
    /// A pattern (RE2 syntax, unanchored).
    #[schemars(extend("format" = "regex"))]
    matches: Option<String>,
}

impl<'de> Deserialize<'de> for NotText {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        match Value::deserialize(d)? {
            Value::String(text) => Ok(Self { equals: Some(text), ..Self::default() }),
            other => {
                let NotTextFields { equals, contains, matches } =
                    serde_json::from_value(other).map_err(D::Error::custom)?;
                Ok(Self { equals, contains, matches })
            }
        }
    }
}

impl JsonSchema for NotText {
    fn schema_name() -> Cow<'static, str> {
        "NotText".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let fields = generator.subschema_for::<NotTextFields>();
        json_schema!({ "description": "What must not be true of the text; a bare string means `equals`.", "anyOf": [{ "type": "string" }, fields] })
    }
}

with_text_demands! {
/// Matchers for a text, as a mapping.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TextFields {
    /// The whole text.
    pub equals: Option<String>,
}
}

/// Expectations about a text; a bare string means `equals`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TextExpect(pub TextFields);

impl<'de> Deserialize<'de> for TextExpect {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        match Value::deserialize(d)? {
            Value::String(text) => Ok(Self(TextFields { equals: Some(text), ..TextFields::default() })),
            other => serde_json::from_value(other).map(Self).map_err(D::Error::custom),
        }
    }
}

impl JsonSchema for TextExpect {
    fn schema_name() -> Cow<'static, str> {
        "TextExpect".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let fields = generator.subschema_for::<TextFields>();
        json_schema!({ "description": "Matchers for a text; a bare string means `equals`.", "anyOf": [{ "type": "string" }, fields] })
    }
}

/// One value or a list.
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

/// Defines a struct with all expectations about one JSON value, in addition to its own fields.
macro_rules! with_json_demands {
    ($(#[$meta:meta])* $vis:vis struct $name:ident { $($(#[$field_meta:meta])* $field_vis:vis $field:ident: $ty:ty,)* }) => {
        $(#[$meta])*
        $vis struct $name {
            $($(#[$field_meta])* $field_vis $field: $ty,)*
            /// The value, with its type: `"5"` is not `5`, and `null` means null.
            #[serde(default, deserialize_with = "present")]
            #[schemars(with = "Value")]
            pub equals: Option<Value>,
            /// A regular expression that matches the string (RE2 syntax, unanchored).
            #[schemars(extend("format" = "regex"))]
            pub matches: Option<String>,
            /// The value's type.
            #[serde(rename = "type")]
            pub ty: Option<JsonType>,
            /// An element of a list, a substring, or entries of an object.
            #[serde(default, deserialize_with = "present")]
            #[schemars(with = "Value")]
            pub contains: Option<Value>,
            /// The value is one of these.
            #[schemars(length(min = 1))]
            pub one_of: Option<Vec<Value>>,
            /// How many elements, entries or characters it has.
            pub length: Option<Count>,
            /// A number that is at least this.
            pub at_least: Option<Bound>,
            /// A number that is at most this.
            pub at_most: Option<Bound>,
            /// A number that is greater than this.
            pub above: Option<Bound>,
            /// A number that is less than this.
            pub below: Option<Bound>,
            /// The order of a list's elements, which must be all numbers or all strings.
            pub sorted: Option<Sorted>,
            /// What must not be true of the value.
            pub not: Option<NotJson>,
        }

        impl $name {
            /// The expectations about the value.
            pub fn demands(&self) -> JsonDemands<'_> {
                JsonDemands {
                    equals: self.equals.as_ref(),
                    matches: self.matches.as_deref(),
                    ty: self.ty,
                    contains: self.contains.as_ref(),
                    one_of: self.one_of.as_deref(),
                    length: self.length.as_ref(),
                    bounds: Bounds {
                        at_least: self.at_least.as_ref(),
                        at_most: self.at_most.as_ref(),
                        above: self.above.as_ref(),
                        below: self.below.as_ref(),
                    },
                    sorted: self.sorted,
                    not: self.not.as_ref(),
                }
            }
        }
    };
}

with_json_demands! {
/// A condition on the value at a path of a JSON document (RFC 9535): no match is a failure, several matches are compared as a list.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JsonExpect {
    /// The JSONPath of the value.
    #[schemars(extend("format" = "jsonpath"))]
    pub path: String,
    /// Whether the value exists.
    pub exists: Option<bool>,
    /// What must be true of each element of a list; an empty list fails.
    pub all: Option<ElementExpect>,
    /// What must be true of at least one element of a list.
    pub any: Option<ElementExpect>,
}
}

with_json_demands! {
/// A condition on an element of a list.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ElementExpect {
    /// The JSONPath within the element; the element itself by default.
    #[schemars(extend("format" = "jsonpath"))]
    pub path: Option<String>,
    /// Whether the value exists.
    pub exists: Option<bool>,
}
}

/// The expectations about one JSON value.
#[derive(Clone, Copy, Debug, Default)]
pub struct JsonDemands<'e> {
    pub equals: Option<&'e Value>,
    pub matches: Option<&'e str>,
    pub ty: Option<JsonType>,
    pub contains: Option<&'e Value>,
    pub one_of: Option<&'e [Value]>,
    pub length: Option<&'e Count>,
    pub bounds: Bounds<'e>,
    pub sorted: Option<Sorted>,
    pub not: Option<&'e NotJson>,
}

/// What must not be true of a JSON value.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NotJson {
    /// The value, with its type.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Value")]
    pub equals: Option<Value>,
    /// An element of a list, a substring, or entries of an object.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Value")]
    pub contains: Option<Value>,
    /// A regular expression that matches the string (RE2 syntax, unanchored).
    #[schemars(extend("format" = "regex"))]
    pub matches: Option<String>,
    /// The value's type.
    #[serde(rename = "type")]
    pub ty: Option<JsonType>,
}

/// An order of elements; equal neighbors satisfy both.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Sorted {
    Ascending,
    Descending,
}

impl Sorted {
    /// The name in an expectation.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ascending => "ascending",
            Self::Descending => "descending",
        }
    }
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
    /// The type of a value.
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

    /// The name in an expectation.
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

/// Distinguishes `null` from an absent value.
pub fn present<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(d).map(Some)
}
