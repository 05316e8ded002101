//! Arguments that a tool may be called with, guessed from its schema.

use serde_json::{Map, Value, json};

/// How deep values are made up.
const DEPTH: usize = 8;

/// The arguments that a schema of a tool requires, each with a value that it may take.
pub fn arguments(schema: &Value) -> Map<String, Value> {
    match object(schema, schema, 0) {
        Value::Object(arguments) => arguments,
        _ => Map::new(),
    }
}

/// A value that a schema may take: what the schema names itself, else the simplest one. `root` is what `$ref` points into.
fn sample(schema: &Value, root: &Value, depth: usize) -> Value {
    let given = schema.get("default").or_else(|| schema.get("const"));
    let given = given.or_else(|| schema.get("enum")?.as_array()?.first());
    if let Some(value) = given.or_else(|| schema.get("examples")?.as_array()?.first()) {
        return value.clone();
    }
    if depth > DEPTH {
        return Value::Null;
    }
    let elsewhere = schema.get("$ref").and_then(|at| root.pointer(at.as_str()?.strip_prefix('#')?));
    let choice = || ["anyOf", "oneOf", "allOf"].iter().find_map(|key| schema.get(*key)?.as_array()?.first());
    if let Some(other) = elsewhere.or_else(|| choice().filter(|_| schema.get("type").is_none())) {
        return sample(other, root, depth + 1);
    }
    let kind = match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.first().and_then(Value::as_str),
        kind => kind.and_then(Value::as_str),
    };
    match kind {
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or_else(|| json!(1)),
        Some("boolean") => json!(false),
        Some("array") => {
            let least = schema.get("minItems").and_then(Value::as_u64).unwrap_or(0).min(10) as usize;
            json!(vec![
                schema.get("items").map_or_else(|| json!("example"), |item| sample(item, root, depth + 1));
                least
            ])
        }
        Some("object") => object(schema, root, depth),
        Some("null") => Value::Null,
        _ => json!("example"),
    }
}

fn object(schema: &Value, root: &Value, depth: usize) -> Value {
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    let property = |name: &str| schema.get("properties").and_then(|properties| properties.get(name));
    let field = |name: &str| {
        let value = property(name).map_or_else(|| json!("example"), |of| sample(of, root, depth + 1));
        (name.to_owned(), value)
    };
    Value::Object(required.filter_map(Value::as_str).map(field).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_fit_their_schemas() {
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
}
