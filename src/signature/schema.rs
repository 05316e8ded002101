//! A JSON Schema as its author wrote it, against which arguments and results are validated.
//!
//! Nothing is fetched: the requirements of a referenced document are unknown, and a value is validated as far as its
//! schema is known. The same applies to values: a hole may have any value, so a fault is reported only if it occurs for
//! every possible value.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use jsonschema::{
    JsonType, PatternOptions, ValidationError, Validator,
    error::{TypeKind, ValidationErrorKind},
};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

/// A schema (2020-12, or the draft named in its `$schema`), compiled when a value is first validated. Clones share it.
#[derive(Clone, Default)]
pub struct Schema(Arc<Inner>);

#[derive(Default)]
struct Inner {
    json: Value,
    compiled: OnceLock<Compiled>,
}

struct Compiled {
    /// `None` if nothing can be validated.
    validator: Option<Validator>,
    /// The part of the schema that is not validated, and why.
    gap: Option<String>,
}

/// A fault in a value.
#[derive(Clone, PartialEq, Debug)]
pub struct Fault {
    /// The place: a JSON pointer into the value.
    pub at: String,
    pub kind: FaultKind,
}

/// The kind of a fault.
#[derive(Clone, PartialEq, Debug)]
pub enum FaultKind {
    /// A key of the record at this place is missing.
    Missing(String),
    /// The record at this place has a key that is not allowed.
    Unknown(String),
    /// The value has the wrong type. The text is the requirement.
    Type(String),
    /// The value has the right type, but is not allowed. The text is the requirement: *must be at least 3*.
    Value(String),
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(key) => write!(f, "has no `{key}`"),
            Self::Unknown(key) => write!(f, "has an unknown key `{key}`"),
            Self::Type(demand) | Self::Value(demand) => f.write_str(demand),
        }
    }
}

impl fmt::Display for Fault {
    /// The fault as a sentence about the value: *`.items[0].name` must be a string*.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at.is_empty() {
            true => write!(f, "it {}", self.kind),
            false => write!(f, "`{}` {}", path_of(&self.at), self.kind),
        }
    }
}

/// A JSON pointer in the usual path notation: `items[0].name`.
fn path_of(pointer: &str) -> String {
    let mut path = String::new();
    for token in pointer.split('/').skip(1) {
        let token = token.replace("~1", "/").replace("~0", "~");
        if !path.is_empty() && token.bytes().all(|b| b.is_ascii_digit()) {
            path += &format!("[{token}]");
        } else {
            path += if path.is_empty() { "" } else { "." };
            path += &token;
        }
    }
    path
}

/// Limits for patterns: backtracking steps, for those with look-around, and size in bytes. All other patterns run in
/// linear time.
const BACKTRACKS: usize = 10_000;
const PATTERN_SIZE: usize = 1 << 20;
/// The maximum number of schemas that apply to one value. Larger or recursive schemas are not validated.
const WEIGHT: usize = 10_000;

impl Schema {
    /// A schema, which is compiled on first use.
    pub fn new(json: Value) -> Self {
        Self(Arc::new(Inner { json, compiled: OnceLock::new() }))
    }

    /// The schema as it was given.
    pub fn json(&self) -> &Value {
        &self.0.json
    }

    /// The part of the schema that is not validated, and why. `None` if all of it is.
    pub fn gap(&self) -> Option<&str> {
        self.compiled().gap.as_deref()
    }

    /// The faults in `value`. The values at the pointers in `unknown` may be anything.
    pub fn faults(&self, value: &Value, unknown: &[String]) -> Vec<Fault> {
        let Some(validator) = &self.compiled().validator else { return Vec::new() };
        let mut faults = Vec::new();
        for error in validator.iter_errors(value).filter(|error| is_certain(error, unknown)) {
            let at = error.instance_path().as_str().to_owned();
            for kind in kinds(&error) {
                let fault = Fault { at: at.clone(), kind };
                if !faults.contains(&fault) {
                    faults.push(fault);
                }
            }
        }
        faults
    }

    fn compiled(&self) -> &Compiled {
        self.0.compiled.get_or_init(|| {
            let mut known = self.json().clone();
            let foreign = close(&mut known, false);
            if foreign {
                monotone(&mut known);
            }
            let gap = foreign.then(|| "it refers to another document, which is not read".to_owned());
            if weight(&known, &known, 0).is_none() {
                return Compiled { validator: None, gap: Some("it refers to itself recursively".to_owned()) };
            }
            let patterns = PatternOptions::fancy_regex()
                .backtrack_limit(BACKTRACKS)
                .size_limit(PATTERN_SIZE)
                .dfa_size_limit(PATTERN_SIZE);
            // The meaning of `format` is up to the server.
            let options = jsonschema::options().offline().should_validate_formats(false).with_pattern_options(patterns);
            match options.build(&known) {
                Ok(validator) => Compiled { validator: Some(validator), gap },
                Err(error) => Compiled { validator: None, gap: Some(one_line(&error.to_string())) },
            }
        })
    }
}

/// Whether an error occurs for all possible values at the unknown places.
fn is_certain(error: &ValidationError<'_>, unknown: &[String]) -> bool {
    use ValidationErrorKind as K;
    if matches!(error.kind(), K::BacktrackLimitExceeded { .. } | K::RegexEngineFailure { .. } | K::Referencing(_)) {
        return false;
    }
    if unknown.is_empty() {
        return true;
    }
    let at = error.instance_path().as_str();
    let inside =
        |place: &str, of: &str| place.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    if unknown.iter().any(|place| inside(at, place)) {
        return false;
    }
    // A conditional schema may depend on a hole.
    const CONDITIONAL: [&str; 8] =
        ["then", "else", "not", "anyOf", "oneOf", "contains", "unevaluatedProperties", "unevaluatedItems"];
    let path = error.evaluation_path().as_str();
    let outer = path.rsplit_once('/').map_or("", |(outer, _)| outer);
    if outer.split('/').any(|key| CONDITIONAL.contains(&key)) {
        return false;
    }
    // The keys of a record and the length of a list are known.
    let structural = matches!(
        error.kind(),
        K::Required { .. }
            | K::AdditionalProperties { .. }
            | K::AdditionalItems { .. }
            | K::MinItems { .. }
            | K::MaxItems { .. }
            | K::MinProperties { .. }
            | K::MaxProperties { .. }
            | K::Type { .. }
    );
    structural || !unknown.iter().any(|place| inside(place, at))
}

fn kinds(error: &ValidationError<'_>) -> Vec<FaultKind> {
    use ValidationErrorKind as K;
    match error.kind() {
        K::Required { property } => vec![FaultKind::Missing(property.as_str().unwrap_or_default().to_owned())],
        K::AdditionalProperties { unexpected } | K::UnevaluatedProperties { unexpected } => {
            unexpected.iter().cloned().map(FaultKind::Unknown).collect()
        }
        K::Type { .. } => vec![FaultKind::Type(demand(error))],
        _ => vec![FaultKind::Value(demand(error))],
    }
}

/// What a value must be: *must match `^a`*.
fn demand(error: &ValidationError<'_>) -> String {
    use ValidationErrorKind as K;
    let counted = |n: u64, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    match error.kind() {
        K::Type { kind } => format!("must be {}, not {}", types(kind), type_of(error.instance())),
        K::Required { property } => format!("must have `{}`", property.as_str().unwrap_or_default()),
        K::AdditionalProperties { unexpected } | K::UnevaluatedProperties { unexpected } => {
            format!("must not have `{}`", unexpected.join("`, `"))
        }
        K::Pattern { pattern } => format!("must match `{pattern}`"),
        K::Constant { expected_value } => format!("must be `{expected_value}`"),
        K::Enum { options } => {
            let options: Vec<_> = options.as_array().into_iter().flatten().map(|o| format!("`{o}`")).collect();
            format!("must be one of {}", options.join(", "))
        }
        K::Minimum { limit } => format!("must be at least {limit}"),
        K::Maximum { limit } => format!("must be at most {limit}"),
        K::ExclusiveMinimum { limit } => format!("must be greater than {limit}"),
        K::ExclusiveMaximum { limit } => format!("must be less than {limit}"),
        K::MultipleOf { multiple_of } => format!("must be a multiple of {multiple_of}"),
        K::MinLength { limit } => format!("must have at least {}", counted(*limit, "character")),
        K::MaxLength { limit } => format!("must have at most {}", counted(*limit, "character")),
        K::MinItems { limit } => format!("must have at least {}", counted(*limit, "value")),
        K::MaxItems { limit } => format!("must have at most {}", counted(*limit, "value")),
        K::MinProperties { limit } => format!("must have at least {}", counted(*limit, "key")),
        K::MaxProperties { limit } => format!("must have at most {}", counted(*limit, "key")),
        K::UniqueItems => "must not contain duplicate values".to_owned(),
        K::PropertyNames { error } => format!("has an invalid key: it {}", demand(error)),
        K::FalseSchema => "must not be present".to_owned(),
        K::Not { .. } => "must not match the schema in `not`".to_owned(),
        K::OneOfMultipleValid { .. } => {
            "matches several alternatives of the schema, but only one may match (`oneOf`)".to_owned()
        }
        K::AnyOf { context } | K::OneOfNotValid { context } => {
            let mut demands: Vec<String> = Vec::new();
            for branch in context {
                let at = |inner: &ValidationError<'_>| {
                    let inner = inner.instance_path().as_str();
                    path_of(inner.strip_prefix(error.instance_path().as_str()).unwrap_or(inner))
                };
                let demand = branch.first().map(|inner| match at(inner).as_str() {
                    "" => demand(inner),
                    at => format!("its `{at}` {}", demand(inner)),
                });
                demands.extend(demand.filter(|demand| !demands.contains(demand)));
            }
            match demands.as_slice() {
                [] => "does not match any alternative of the schema".to_owned(),
                [one] => one.clone(),
                [first, rest @ ..] => {
                    let rest: Vec<_> = rest.iter().take(3).map(String::as_str).collect();
                    format!("{first}, or {}", rest.join(", or "))
                }
            }
        }
        _ => format!("does not satisfy `{}` of the schema", error.kind().keyword()),
    }
}

fn types(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(one) => type_name(*one).to_owned(),
        TypeKind::Multiple(several) => several.iter().map(type_name).collect::<Vec<_>>().join(" or "),
    }
}

fn type_name(name: JsonType) -> &'static str {
    match name {
        JsonType::Array => "a list",
        JsonType::Boolean => "a boolean",
        JsonType::Integer => "an integer",
        JsonType::Null => "null",
        JsonType::Number => "a number",
        JsonType::Object => "a mapping",
        JsonType::String => "a string",
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The schemas directly inside a schema.
fn inner(schema: &mut Map<String, Value>) -> impl Iterator<Item = &mut Value> {
    schema.iter_mut().flat_map(|(key, value)| {
        let found: Box<dyn Iterator<Item = &mut Value>> = match (key.as_str(), value) {
            ("properties" | "patternProperties" | "dependentSchemas" | "dependencies" | "$defs" | "definitions", v) => {
                Box::new(v.as_object_mut().into_iter().flatten().map(|(_, schema)| schema))
            }
            ("allOf" | "anyOf" | "oneOf" | "prefixItems" | "items", Value::Array(all)) => Box::new(all.iter_mut()),
            (
                "additionalProperties"
                | "items"
                | "additionalItems"
                | "contains"
                | "not"
                | "if"
                | "then"
                | "else"
                | "propertyNames"
                | "unevaluatedItems"
                | "unevaluatedProperties",
                one,
            ) => Box::new(std::iter::once(one)),
            _ => Box::new(std::iter::empty()),
        };
        found
    })
}

/// Removes the constraints of every schema that refers to another document, or to a name instead of a location. Returns
/// whether there was one. Also makes keys with a default optional.
fn close(schema: &mut Value, named: bool) -> bool {
    let Value::Object(map) = schema else { return false };
    let has_default = |map: &Map<String, Value>, key: &Value| {
        key.as_str().is_some_and(|key| {
            map.get("properties").is_some_and(|p| p.get(key).is_some_and(|p| p.get("default").is_some()))
        })
    };
    if let Some(Value::Array(required)) = map.get("required").cloned() {
        let needed: Vec<_> = required.into_iter().filter(|key| !has_default(map, key)).collect();
        map.insert("required".to_owned(), needed.into());
    }
    let is_place = |target: &Value| target.as_str().is_some_and(|t| t == "#" || t.starts_with("#/"));
    let mut foreign = map.contains_key("$dynamicRef") || map.contains_key("$recursiveRef");
    foreign |= map.get("$ref").is_some_and(|target| named || !is_place(target));
    if foreign {
        map.retain(|key, _| ["$schema", "$defs", "definitions"].contains(&key.as_str()));
    }
    map.shift_remove("$id");
    for schema in inner(map) {
        let named = named || schema.get("$id").is_some_and(Value::is_string);
        foreign |= close(schema, named);
    }
    foreign
}

/// Removes everything that could become stricter if a schema inside it is relaxed.
fn monotone(schema: &mut Value) {
    let Value::Object(map) = schema else { return };
    for key in ["not", "oneOf", "if", "then", "else", "maxContains", "unevaluatedProperties", "unevaluatedItems"] {
        map.shift_remove(key);
    }
    inner(map).for_each(monotone);
}

/// The number of schemas that apply to one value. `None` if there are too many, or if they are recursive.
fn weight(schema: &Value, root: &Value, depth: usize) -> Option<usize> {
    let Value::Object(map) = schema else { return Some(1) };
    if depth > 64 {
        return None;
    }
    let mut sum = 1;
    let mut add = |schema: &Value| -> Option<()> {
        sum += weight(schema, root, depth + 1)?;
        (sum < WEIGHT).then_some(())
    };
    if let Some(target) = map.get("$ref").and_then(Value::as_str).and_then(|t| root.pointer(t.strip_prefix('#')?)) {
        add(target)?;
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        map.get(key).and_then(Value::as_array).into_iter().flatten().try_for_each(&mut add)?;
    }
    for key in ["not", "if", "then", "else"] {
        map.get(key).into_iter().try_for_each(&mut add)?;
    }
    for key in ["dependentSchemas", "dependencies"] {
        map.get(key).and_then(Value::as_object).into_iter().flatten().try_for_each(|(_, schema)| add(schema))?;
    }
    Some(sum)
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.json().fmt(f)
    }
}

impl PartialEq for Schema {
    fn eq(&self, other: &Self) -> bool {
        self.json() == other.json()
    }
}

impl Serialize for Schema {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.json().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Schema {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Self::new)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn faults(schema: Value, value: Value, unknown: &[&str]) -> Vec<String> {
        let unknown: Vec<_> = unknown.iter().map(|u| (*u).to_owned()).collect();
        Schema::new(schema).faults(&value, &unknown).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn faults_report_what_the_schema_requires() {
        let schema = json!({
            "type": "object",
            "properties": {
                "name": { "type": "string", "pattern": "^[a-z]+$", "maxLength": 5 },
                "ports": { "type": "array", "items": { "type": "integer", "exclusiveMinimum": 0 }, "uniqueItems": true },
                "kind": { "enum": ["a", 1] },
                "one": { "anyOf": [{ "type": "null" }, { "type": "string", "minLength": 2 }] },
                "in/side": { "properties": { "a~b": { "const": 1 } } },
            },
            "required": ["name"],
            "additionalProperties": false,
        });
        let of = |value| faults(schema.clone(), value, &[]);
        assert!(of(json!({ "name": "web", "ports": [1, 2.0], "kind": 1, "one": null })).is_empty());
        assert_eq!(of(json!({ "nmae": "a" })), ["it has an unknown key `nmae`", "it has no `name`"]);
        assert_eq!(of(json!({ "name": "Web" })), ["`name` must match `^[a-z]+$`"]);
        assert_eq!(of(json!({ "name": "website" })), ["`name` must have at most 5 characters"]);
        assert_eq!(of(json!({ "name": "a", "ports": [0] })), ["`ports[0]` must be greater than 0"]);
        assert_eq!(of(json!({ "name": "a", "ports": [1, 1] })), ["`ports` must not contain duplicate values"]);
        assert_eq!(of(json!({ "name": "a", "kind": "b" })), ["`kind` must be one of `\"a\"`, `1`"]);
        assert_eq!(of(json!({ "name": 1 })), ["`name` must be a string, not a number"]);
        let one = "`one` must be null, not a string, or must have at least 2 characters";
        assert_eq!(of(json!({ "name": "a", "one": "a" })), [one]);
        assert_eq!(of(json!({ "name": "a", "in/side": { "a~b": 2 } })), ["`in/side.a~b` must be `1`"]);
    }

    #[test]
    fn values_with_holes_that_may_be_valid_are_not_faults() {
        let schema = json!({
            "properties": {
                "a": { "type": "string", "pattern": "^x" },
                "list": { "type": "array", "minItems": 2, "uniqueItems": true, "items": { "type": "string" } },
                "deep": { "type": "object", "required": ["b"], "maxProperties": 1 },
            },
            "if": { "properties": { "a": { "const": "x" } } },
            "then": { "required": ["c"] },
            "anyOf": [{ "required": ["d"] }, { "properties": { "a": { "const": "y" } } }],
            "not": { "properties": { "a": { "type": "null" } } },
            "additionalProperties": { "type": "string" },
        });
        let of = |value, unknown: &[&str]| faults(schema.clone(), value, unknown);
        assert!(of(json!({ "a": null }), &["/a"]).is_empty());
        assert!(of(json!({ "a": "x" }), &[]).len() >= 2);
        assert!(of(json!({ "a": null, "list": [null, null] }), &["/a", "/list/0", "/list/1"]).is_empty());
        assert_eq!(
            of(json!({ "a": null, "list": [null] }), &["/a", "/list/0"]),
            ["`list` must have at least 2 values"]
        );
        assert_eq!(
            of(json!({ "a": null, "list": [null, 1] }), &["/a", "/list/0"]),
            ["`list[1]` must be a string, not a number"]
        );
        assert_eq!(of(json!({ "a": null, "deep": { "c": null } }), &["/a", "/deep/c"]), ["`deep` has no `b`"]);
        assert_eq!(of(json!({ "a": null, "other": 1 }), &["/a"]), ["`other` must be a string, not a number"]);
        // `/ab` is not below `/a`.
        assert_eq!(of(json!({ "a": null, "ab": 1 }), &["/a"]), ["`ab` must be a string, not a number"]);
    }

    #[test]
    fn remote_references_are_not_resolved() {
        let remote = json!({ "$ref": "https://example.com/a.json#/x", "type": "string" });
        let schema = Schema::new(json!({
            "properties": { "a": remote, "b": { "type": "string" }, "c": { "$ref": "file:///etc/passwd" } },
            "not": { "properties": { "a": remote } },
            "oneOf": [remote, { "type": "object" }],
            "unevaluatedProperties": false,
        }));
        assert!(schema.gap().unwrap().contains("another document"));
        assert!(schema.faults(&json!({ "a": 1, "c": 2, "d": 3 }), &[]).is_empty());
        assert_eq!(schema.faults(&json!({ "b": 1 }), &[]).len(), 1);
        let local = json!({ "$defs": { "a": { "type": "string" } }, "properties": { "a": { "$ref": "#/$defs/a" } } });
        assert_eq!(faults(local, json!({ "a": 1 }), &[]), ["`a` must be a string, not a number"]);
    }

    #[test]
    fn no_schema_hangs_or_crashes_the_program() {
        let ladder: Map<String, Value> = (0..60)
            .map(|i| {
                let next = json!({ "$ref": format!("#/$defs/{}", i + 1) });
                (i.to_string(), json!({ "anyOf": [next, next] }))
            })
            .chain([("60".to_owned(), json!({ "type": "null" }))])
            .collect();
        for schema in [
            json!({ "$ref": "#" }),
            json!({ "allOf": [{ "$ref": "#" }] }),
            json!({ "$defs": { "a": { "$ref": "#/$defs/b" }, "b": { "not": { "$ref": "#/$defs/a" } } }, "$ref": "#/$defs/a" }),
            json!({ "$defs": ladder, "$ref": "#/$defs/0" }),
            json!({ "$ref": "#/nowhere" }),
            json!({ "type": "thing" }),
            json!({ "pattern": "(" }),
            json!({ "pattern": "(((a{1000}){1000}){1000})" }),
            json!({ "$schema": "https://example.com/own" }),
            json!([1]),
            json!(1),
        ] {
            let schema = Schema::new(schema);
            assert!(schema.faults(&json!({ "a": "aaa" }), &[]).is_empty(), "{schema:?}");
            assert!(schema.gap().is_some(), "{schema:?}");
        }
        // Without a limit, this would not end.
        let slow = Schema::new(json!({ "pattern": "^(?=(a+)+$)(a+)+b\\1$" }));
        assert!(slow.faults(&json!("a".repeat(5000)), &[]).len() < 2);
        // A list of lists of lists.
        let nested = Schema::new(json!({ "type": "array", "items": { "$ref": "#" } }));
        assert_eq!(nested.gap(), None);
        assert_eq!(nested.faults(&json!([[[1]]]), &[]).len(), 1);
    }
}
