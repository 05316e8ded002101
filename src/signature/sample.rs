//! Sample arguments for a tool, derived from its schema.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value, json};

/// The maximum depth of generated values.
const DEPTH: usize = 8;

/// The value of a string of which nothing is known.
const TEXT: &str = "example";

/// A value in the description of a string: in quotes after `e.g.` or similar.
static NAMED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r#"(?i)(?:\be\.\s?g\.|\bfor example\b|\bexamples?:|\bsuch as\b)[^'"`]{0,20}['"`]([^'"`]{1,100})['"`]"#)
        .ok()
});

/// Sample arguments for a tool.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample {
    pub arguments: Map<String, Value>,
    /// The names of strings of which nothing is known, so that their values are made up.
    pub made_up: Vec<String>,
}

/// The arguments that the schema of a tool requires, each with an allowed value.
pub fn arguments(schema: &Value) -> Map<String, Value> {
    sample(schema, &|_| None).arguments
}

/// Like [`arguments`], but with values for strings from `known`, by name, and with the list of made-up ones.
pub fn sample(schema: &Value, known: &dyn Fn(&str) -> Option<Value>) -> Sample {
    let mut sampler = Sampler { root: schema, known, made_up: Vec::new() };
    let arguments = match sampler.object(schema, 0) {
        Value::Object(arguments) => arguments,
        _ => Map::new(),
    };
    Sample { arguments, made_up: sampler.made_up }
}

struct Sampler<'a> {
    /// The schema that `$ref`s point into.
    root: &'a Value,
    known: &'a dyn Fn(&str) -> Option<Value>,
    made_up: Vec<String>,
}

impl Sampler<'_> {
    /// A value that a schema allows: one that the schema itself contains, otherwise the simplest one.
    fn value(&mut self, name: &str, schema: &Value, depth: usize) -> Value {
        let given = schema.get("default").or_else(|| schema.get("const"));
        let given = given.or_else(|| schema.get("enum")?.as_array()?.first());
        let given = given.or_else(|| schema.get("examples")?.as_array()?.first());
        // A `null` as the default of a required value has no meaning.
        if let Some(value) = given.filter(|value| !value.is_null() || schema.get("type").is_none()) {
            return value.clone();
        }
        if depth > DEPTH {
            return Value::Null;
        }
        let root = self.root;
        let elsewhere = schema.get("$ref").and_then(|at| root.pointer(at.as_str()?.strip_prefix('#')?));
        let choice = || ["anyOf", "oneOf", "allOf"].iter().find_map(|key| schema.get(*key)?.as_array()?.first());
        if let Some(other) = elsewhere.or_else(|| choice().filter(|_| schema.get("type").is_none())) {
            return self.value(name, other, depth + 1);
        }
        let kind = match schema.get("type") {
            Some(Value::Array(kinds)) => kinds.first().and_then(Value::as_str),
            kind => kind.and_then(Value::as_str),
        };
        match kind {
            Some("integer" | "number") => number(schema),
            Some("boolean") => json!(false),
            Some("array") => {
                let least = schema.get("minItems").and_then(Value::as_u64).unwrap_or(0).min(10) as usize;
                match (schema.get("items"), least) {
                    (_, 0) => json!([]),
                    (None, least) => json!(vec![TEXT; least]),
                    (Some(item), least) => json!(vec![self.value(name, item, depth + 1); least]),
                }
            }
            Some("object") => self.object(schema, depth),
            Some("null") => Value::Null,
            _ => self.text(name, schema),
        }
    }

    fn object(&mut self, schema: &Value, depth: usize) -> Value {
        let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        let property = |name: &str| schema.get("properties").and_then(|properties| properties.get(name));
        let mut fields = Map::new();
        for name in required.filter_map(Value::as_str) {
            let value = self.value(name, property(name).unwrap_or(&Value::Bool(true)), depth + 1);
            fields.insert(name.to_owned(), value);
        }
        Value::Object(fields)
    }

    fn text(&mut self, name: &str, schema: &Value) -> Value {
        if let Some(value) = (self.known)(name) {
            return value;
        }
        let format = schema.get("format").and_then(Value::as_str);
        let of_format = format.and_then(|format| match format {
            "date-time" => Some("2025-01-01T12:00:00Z"),
            "date" => Some("2025-01-01"),
            "time" => Some("12:00:00Z"),
            _ => None,
        });
        let about = schema.get("description").and_then(Value::as_str).unwrap_or_default();
        let named = || Some(NAMED.as_ref()?.captures(about)?.get(1)?.as_str());
        if let Some(text) = of_format.or_else(named) {
            return json!(text);
        }
        if !self.made_up.iter().any(|known| known == name) {
            self.made_up.push(name.to_owned());
        }
        // The resource it refers to may not exist.
        let named = format.and_then(|format| match format {
            "email" => Some("someone@example.org"),
            "uri" | "url" => Some("https://example.org"),
            "uuid" => Some("00000000-0000-4000-8000-000000000000"),
            "hostname" => Some("example.org"),
            "ipv4" => Some("192.0.2.1"),
            _ => None,
        });
        if let Some(text) = named {
            return json!(text);
        }
        let length = |key: &str| schema.get(key).and_then(Value::as_u64).map(|n| n.min(1000) as usize);
        let mut text = TEXT.repeat(length("minLength").unwrap_or(0).div_ceil(TEXT.len()).max(1));
        text.truncate(length("maxLength").unwrap_or(text.len()));
        json!(text)
    }
}

/// The smallest number allowed, or 1.
fn number(schema: &Value) -> Value {
    let bound = |key: &str| schema.get(key).and_then(Value::as_i64);
    if let Some(least) = schema.get("minimum") {
        return least.clone();
    }
    let above = bound("exclusiveMinimum").map(|bound| bound.saturating_add(1));
    let most = bound("maximum").or_else(|| bound("exclusiveMaximum").map(|bound| bound.saturating_sub(1)));
    let step = bound("multipleOf").filter(|step| *step > 0).unwrap_or(1);
    json!(above.unwrap_or(step).min(most.unwrap_or(i64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_match_their_schemas() {
        let schema = json!({"type": "object", "required": ["a", "b", "c", "d", "f", "g", "h"], "properties": {
            "a": {"type": "string"}, "b": {"type": "integer", "minimum": 3}, "c": {"enum": ["x"]},
            "d": {"type": "array", "minItems": 1, "items": {"type": "boolean"}}, "e": {"type": "string"},
            "f": {"$ref": "#/$defs/point"}, "g": {"anyOf": [{"type": "null"}, {"type": "string"}]}},
            "$defs": {"point": {"type": "object", "required": ["at"], "properties": {"at": {"$ref": "#/$defs/point"}, "x": {}}}}});
        let found = arguments(&schema);
        let found: Vec<_> = ["a", "b", "c", "d", "g", "h"].iter().map(|key| &found[*key]).collect();
        assert_eq!(json!(found), json!(["example", 3, "x", [false], null, "example"]));
        assert_eq!(arguments(&json!({"type": "object"})), Map::new());
        assert_eq!(arguments(&json!(true)), Map::new());
    }

    #[test]
    fn samples_use_hints_of_the_schema_and_generate_the_rest() {
        let schema = json!({"type": "object", "required": ["zone", "when", "path", "name", "code", "n", "free"], "properties": {
            "zone": {"type": "string", "description": "IANA name (e.g., 'America/New_York', 'Europe/London'). Use 'UTC' else."},
            "when": {"type": "string", "format": "date"}, "path": {"type": "string"}, "name": {"type": "string", "default": null},
            "code": {"type": "string", "minLength": 9, "maxLength": 10}, "n": {"type": "number", "exclusiveMinimum": 4}}});
        let known = |name: &str| (name == "path").then(|| json!("/srv"));
        let Sample { arguments, made_up } = sample(&schema, &known);
        let said = json!({"zone": "America/New_York", "when": "2025-01-01", "path": "/srv", "name": "example", "code": "exampleexa", "n": 5,
            "free": "example"});
        assert_eq!((Value::Object(arguments), made_up), (said, ["name", "code", "free"].map(str::to_owned).into()));
    }
}
