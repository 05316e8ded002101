//! `http` of the steps dialect (§6.1 of the upstream behaviour): a 500 passes unless a status is expected; fields are
//! addressed by dotted paths and compared as text.

use std::time::Duration;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    Builtin,
    expect::{JsonType, present},
    http,
};
use crate::{
    hir::Dialect,
    signature::{Shape, Signature},
};

/// The step `http` of the steps dialect (`upstream-behaviour.md`).
pub const BUILTIN: Builtin = Builtin { name: "http", dialect: Dialect::Steps, signature, meaning: http::request };

/// Sends an HTTP request.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StepsHttp {
    #[schemars(extend("format" = "url"))]
    pub url: String,
    /// The method, sent as written; GET by default.
    #[serde(default)]
    #[schemars(extend("format" = "method"))]
    pub method: String,
    #[serde(default)]
    pub headers: IndexMap<String, String>,
    /// Exactly one of `raw` and `json`.
    pub body: Option<StepsBody>,
}

/// The body to send; not a template.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StepsBody {
    /// A text, without a content type.
    pub raw: Option<String>,
    /// A mapping, sent as JSON with its content type.
    pub json: Option<Map<String, Value>>,
}

/// The expected response.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StepsExpect {
    /// The status code; if omitted, any status passes.
    #[serde(default)]
    #[schemars(range(min = 0, max = 599))]
    pub status: u16,
    pub body: Option<StepsBodyExpect>,
}

/// The expected body.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StepsBodyExpect {
    /// A regular expression that matches the raw body (RE2 syntax, unanchored).
    #[serde(rename = "match")]
    #[schemars(extend("format" = "regex"))]
    pub matches: Option<String>,
    /// Conditions on fields of a JSON body; all must be true.
    #[serde(default)]
    pub fields: Vec<FieldExpect>,
}

/// A condition on one field.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FieldExpect {
    /// The path of the field: dots separate keys, `[n]` indexes lists.
    #[schemars(extend("format" = "field-path"))]
    pub path: String,
    /// The expected value, compared as text unless both are numbers; null is not compared.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Value")]
    pub equals: Option<Value>,
    /// The value's type.
    #[serde(rename = "type")]
    pub ty: Option<JsonType>,
    /// A regular expression that matches the string (RE2 syntax, unanchored).
    #[serde(rename = "match")]
    #[schemars(extend("format" = "regex"))]
    pub matches: Option<String>,
    /// Whether the value exists.
    pub exists: Option<bool>,
}

fn signature() -> Signature {
    Signature {
        expect: Some(Shape::of::<StepsExpect>().into()),
        timeout: Some(Duration::from_secs(300)),
        continues: false,
        exactly_one: &[&["body.raw", "body.json"]],
        ..Signature::leaf("http", "sends an HTTP request", Shape::of::<StepsHttp>())
    }
}
