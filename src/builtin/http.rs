//! `http`: a request and the expected response.

use std::{borrow::Cow, time::Duration};

use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de::Error};
use serde_json::Value;

use super::{
    Builtin, excerpt,
    expect::{OneOrMany, with_text_demands},
    text,
};
use crate::{
    hir::{Def, Dialect, Step},
    signature::{Shape, Signature, values},
    ty::Type,
};

/// The step `http` (`portable-format.md`).
pub const BUILTIN: Builtin = Builtin { name: "http", dialect: Dialect::Portable, signature, meaning };

/// Sends an HTTP request. Any 2xx answer passes, unless `expect.status` specifies another status.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Http {
    /// The URL of the request.
    #[schemars(extend("format" = "url"))]
    pub url: String,
    /// The method, sent as written.
    #[serde(default = "get")]
    #[schemars(extend("format" = "method"))]
    pub method: String,
    /// Headers of the request.
    #[serde(default)]
    pub headers: IndexMap<String, String>,
    /// A text, or `{json: VALUE}`, which also sets the content type.
    pub body: Option<Body>,
}

fn get() -> String {
    "GET".to_owned()
}

/// The body to send.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    Text(String),
    Json(Value),
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct JsonBody {
    /// Any value, sent as JSON.
    json: Value,
}

impl<'de> Deserialize<'de> for Body {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        match Value::deserialize(d)? {
            Value::String(text) => Ok(Self::Text(text)),
            other => serde_json::from_value(other).map(|JsonBody { json }| Self::Json(json)).map_err(D::Error::custom),
        }
    }
}

impl JsonSchema for Body {
    fn schema_name() -> Cow<'static, str> {
        "HttpBody".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let json = generator.subschema_for::<JsonBody>();
        json_schema!({ "anyOf": [{ "type": "string" }, json] })
    }
}

/// The expected response.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Expect {
    /// A code, a list of codes, a class like `2xx`, or `any`; any 2xx by default.
    #[serde(default)]
    pub status: Status,
    /// Matchers for the body.
    pub body: Option<BodyExpect>,
}

/// Which status codes are expected.
#[derive(Clone, Debug, PartialEq)]
pub enum Status {
    Any,
    /// The first digit: 2 for `2xx`.
    Class(u16),
    OneOf(Vec<u16>),
}

impl Default for Status {
    fn default() -> Self {
        Self::Class(2)
    }
}

impl Status {
    /// Whether this status is expected.
    pub fn admits(&self, code: u16) -> bool {
        match self {
            Self::Any => true,
            Self::Class(class) => code / 100 == *class,
            Self::OneOf(codes) => codes.contains(&code),
        }
    }

    /// Parses `2xx` and `any`.
    pub fn parse(text: &str) -> Option<Self> {
        match text.as_bytes() {
            b"any" => Some(Self::Any),
            [class @ b'1'..=b'5', b'x', b'x'] => Some(Self::Class(u16::from(class - b'0'))),
            _ => None,
        }
    }

    /// As text, for plans and messages.
    pub fn describe(&self) -> String {
        match self {
            Self::Any => "any".to_owned(),
            Self::Class(class) => format!("{class}xx"),
            Self::OneOf(codes) => codes.iter().map(u16::to_string).collect::<Vec<_>>().join(" or "),
        }
    }
}

impl<'de> Deserialize<'de> for Status {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(d)?;
        if let Some(text) = value.as_str() {
            return Self::parse(text).ok_or_else(|| D::Error::custom(format!("`{text}` is not a valid status")));
        }
        serde_json::from_value(value).map(|OneOrMany(codes)| Self::OneOf(codes)).map_err(D::Error::custom)
    }
}

impl JsonSchema for Status {
    fn schema_name() -> Cow<'static, str> {
        "HttpStatus".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let code = json_schema!({ "type": "integer", "minimum": 100, "maximum": 599 });
        json_schema!({
            "description": "A code, a list of codes, a class like `2xx`, or `any`.",
            "anyOf": [
                code,
                { "type": "array", "items": code, "minItems": 1 },
                { "type": "string", "format": "status-class", "pattern": "^([1-5]xx|any)$" },
            ],
        })
    }
}

with_text_demands! {
/// The expected body of a response.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BodyExpect {}
}

fn signature() -> Signature {
    let response =
        Type::record([("status", Type::Number), ("body", Type::String), ("json", Type::Any), ("headers", Type::map())]);
    Signature {
        expect: Some(Shape::of::<Expect>().into()),
        locals: values([("response", response)]),
        lists_outputs: true,
        timeout: Some(Duration::from_secs(30)),
        ..Signature::leaf("http", "sends an HTTP request", Shape::of::<Http>())
    }
}

fn meaning(step: &Step<Def>) -> String {
    request(step)
}

/// Describes a step with a method and a URL.
pub fn request(step: &Step<Def>) -> String {
    let method = text(step, "method");
    format!("{} {}", if method.is_empty() { "GET" } else { &method }, excerpt(&text(step, "url")))
}
