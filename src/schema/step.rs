//! Steps: written from the signatures that `check` holds them against, so that a new step type has its schema at once.

use std::borrow::Cow;

use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::word::{DURATION, ID};
use crate::{
    builtin,
    decode::HARMLESS,
    hir::Dialect,
    signature::{Control, Field, Format, Shape, Signature},
};

/// A hole in a text.
const HOLE: &str = r"\{[\s\S]*\}";
/// A text that consists of a single hole and therefore keeps its value's type.
const WHOLE: &str = r"^\{[\s\S]*\}$";

/// The names of the schemas of steps and of their matchers.
pub const NAMES: [&str; 4] = ["PortableStep", "StepsStep", "PortableMatchers", "StepsMatchers"];

macro_rules! schemas {
    ($($(#[$doc:meta])* $name:ident = $nth:literal, |$generator:ident| $schema:expr;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                NAMES[$nth].into()
            }

            fn json_schema($generator: &mut SchemaGenerator) -> Schema {
                $schema
            }
        }
    )+};
}

schemas! {
    /// A step of the portable dialect.
    PortableStep = 0, |generator| {
        let matchers = generator.subschema_for::<PortableMatchers>();
        step(Dialect::Portable, generator.subschema_for::<Self>().as_value(), matchers.as_value())
    };
    /// A step of the steps dialect.
    StepsStep = 1, |generator| {
        let matchers = generator.subschema_for::<StepsMatchers>();
        step(Dialect::Steps, generator.subschema_for::<Self>().as_value(), matchers.as_value())
    };
    /// Matchers for an output, in the portable dialect.
    PortableMatchers = 2, |_generator| matchers(true);
    /// Matchers for an output, in the steps dialect.
    StepsMatchers = 3, |_generator| matchers(false);
}

fn matchers(holes: bool) -> Schema {
    Schema::try_from(shape(&builtin::extension::MATCHERS, holes)).unwrap_or_default()
}

/// The schema of a step: one operation and, in the steps dialect, an optional ID. `one` refers to this schema, for nested steps; `matchers`
/// refers to the schema of matchers for outputs.
fn step(dialect: Dialect, one: &Value, matchers: &Value) -> Schema {
    let vocabulary = builtin::vocabularies().of(dialect);
    let mut properties = Map::new();
    for (name, signature) in vocabulary.names().filter_map(|n| vocabulary.get(n)) {
        properties.insert(name.to_owned(), operation(signature, dialect, one, matchers));
    }
    let mut schema = json!({
        "description": "An operation and its body.",
        "type": "object",
        "properties": properties,
        "patternProperties": { r"\.": prefixed(dialect, matchers) },
        "additionalProperties": false,
    });
    if dialect == Dialect::Portable {
        schema["minProperties"] = json!(1);
        schema["maxProperties"] = json!(1);
    } else {
        schema["properties"]["id"] =
            json!({ "description": "The step's name in results.", "type": ["string", "null"], "minLength": 1 });
        schema["if"] = json!({ "required": ["id"] });
        schema["then"] = json!({ "minProperties": 2, "maxProperties": 2 });
        schema["else"] = json!({ "minProperties": 1, "maxProperties": 1 });
    }
    Schema::try_from(schema).unwrap_or_default()
}

fn operation(signature: &Signature, dialect: Dialect, one: &Value, matchers: &Value) -> Value {
    let holes = dialect == Dialect::Portable;
    let mut properties = reserved(dialect, signature);
    let mut required = Vec::new();
    let mut short = None;
    for (name, field) in signature.params.fields().into_iter().flatten() {
        if field.required && field.default.is_none() {
            required.push(name.as_str());
        }
        let schema = self::field(field, holes);
        if signature.short == Some(name) {
            short = Some(schema.clone());
        }
        properties.insert(name.clone(), schema);
    }
    if signature.control == Control::Each {
        properties["var"]["pattern"] = json!("^[A-Za-z_][A-Za-z0-9_-]*$");
    }
    for (key, _, needed) in signature.control.blocks() {
        let mut list = json!({ "type": "array", "items": one });
        if *needed {
            required.push(key);
            list["minItems"] = json!(1);
        }
        if signature.short == Some(key) {
            short = Some(list.clone());
        }
        properties.insert((*key).to_owned(), list);
    }
    if let Some(expect) = &signature.expect {
        let schema = match signature.name == builtin::extension::BUILTIN.name {
            true => expected_outputs(matchers),
            false => described(shape(expect, holes), "The expected result."),
        };
        properties.insert("expect".to_owned(), schema);
    }
    // A key without a value counts as absent; below `expect`, nothing would be compared.
    for (key, schema) in &mut properties {
        if key != "expect" && !required.contains(&key.as_str()) {
            *schema = or_null(schema.take());
        }
    }
    for (key, ..) in HARMLESS.iter().filter(|(_, place, _)| *place == signature.name) {
        properties.insert((*key).to_owned(), json!({ "description": "This key has no effect." }));
    }
    let mut body = json!({ "type": "object", "properties": properties });
    if !required.is_empty() {
        body["required"] = json!(required);
    }
    match &signature.params {
        Shape::Record { rest: Some(rest), .. } => body["additionalProperties"] = shape(rest, holes),
        _ => body["additionalProperties"] = json!(false),
    }
    if let [set] = signature.exactly_one {
        let required = |name: &&str| match name.rsplit_once('.') {
            Some((_, inner)) => json!({ "required": [inner] }),
            // A null means that the key is absent.
            None => json!({ "required": [name], "properties": { *name: { "not": { "type": "null" } } } }),
        };
        let one_of: Vec<Value> = set.iter().map(required).collect();
        match set.first().and_then(|name| name.split_once('.')) {
            // A null means that the body is absent; each branch would accept it.
            Some((outer, _)) => {
                body["properties"][outer]["if"] = json!({ "type": "object" });
                body["properties"][outer]["then"] = json!({ "oneOf": Value::Array(one_of) });
            }
            None => body["oneOf"] = one_of.into(),
        }
    }
    let schema = match short {
        Some(short) => json!({ "anyOf": [short, body] }),
        None => body,
    };
    described(schema, &capital(&signature.doc))
}

/// The schema of a tool of a server or an operation of an extension; only the task's `requires` and `imports` determine which. `content`
/// and `isError` have the schema for tools: to compare an extension's output of that name with a mapping, the task must use `equals`.
fn prefixed(dialect: Dialect, matchers: &Value) -> Value {
    let signature = Signature { lists_outputs: true, continues: true, ..Signature::leaf("", "", Shape::Any) };
    let mut properties = reserved(dialect, &signature);
    if dialect != Dialect::Portable {
        properties.shift_remove("continueOnError");
    }
    properties.values_mut().for_each(|schema| *schema = or_null(schema.take()));
    properties.insert("args".to_owned(), json!({ "description": "The tool's arguments." }));
    properties.insert("expect".to_owned(), expected_of_prefixed(dialect, matchers));
    json!({
        "description": "`ALIAS.TOOL` calls a tool of an MCP server, `ALIAS.OPERATION` an operation of an extension.",
        "type": ["object", "null"],
        "properties": properties,
    })
}

/// The schema of the expected result of a tool, or of an operation, whose outputs are known only from its manifest.
fn expected_of_prefixed(dialect: Dialect, matchers: &Value) -> Value {
    let holes = dialect == Dialect::Portable;
    let mut schema = expected_outputs(matchers);
    let tool = builtin::tool::signature(dialect, "", None).expect;
    let fields = tool.iter().filter_map(|shape| shape.fields()).flatten();
    let properties = fields.map(|(name, field)| {
        let own = self::field(field, holes);
        let record = field.shape.alternatives().iter().find(|shape| shape.fields().is_some());
        let schema = match record {
            Some(record) => described(
                json!({ "if": { "type": "object" }, "then": self::shape(record, holes) }),
                "Matchers for the text of a tool's result, or for an output of this name.",
            ),
            None => own,
        };
        (name.clone(), schema)
    });
    schema["properties"] = properties.collect::<Map<_, _>>().into();
    schema
}

/// The schema of the expected outputs of an operation, by name: a mapping of matchers, or the value itself.
fn expected_outputs(matchers: &Value) -> Value {
    let keys: Vec<&String> = builtin::extension::MATCHERS.fields().into_iter().flat_map(IndexMap::keys).collect();
    json!({
        "description": "The expected result.",
        "type": "object",
        "additionalProperties": {
            "description": "Matchers for an output, or its value.",
            "if": { "type": "object", "minProperties": 1, "propertyNames": { "enum": keys } },
            "then": matchers,
        },
    })
}

/// The keys that every step may have.
fn reserved(dialect: Dialect, signature: &Signature) -> Map<String, Value> {
    let mut keys = Map::new();
    let mut add = |key: &str, schema: Value| keys.insert(key.to_owned(), schema);
    if dialect == Dialect::Portable {
        add(
            "id",
            json!({ "description": "The ID by which holes refer to the step; unique in the task.", "type": "string", "pattern": ID }),
        );
    }
    add(
        "timeout",
        json!({ "description": "How long it may take, like `30s`.", "type": "string", "pattern": DURATION }),
    );
    if signature.continues {
        add(
            "continueOnError",
            json!({ "description": "Whether the phase continues if this step does not pass.", "type": "boolean" }),
        );
    }
    if signature.lists_outputs && dialect == Dialect::Portable {
        add(
            "outputs",
            json!({
                "description": "Values for later steps: `{steps.ID.outputs.NAME}`.",
                "type": "object",
                "additionalProperties": {
                    "description": "A text with holes for the step's own values, or another value that contains such texts.",
                    "type": ["string", "number", "boolean", "array", "object", "null"],
                },
            }),
        );
    }
    keys
}

fn field(field: &Field, holes: bool) -> Value {
    let mut schema = described(shape(&field.shape, holes), &field.doc);
    if let Some(default) = &field.default
        && !default.is_null()
    {
        schema["default"] = default.clone();
    }
    schema
}

/// Returns a schema that also accepts null.
pub fn or_null(mut schema: Value) -> Value {
    match schema.get("type").cloned() {
        Some(Value::String(one)) if schema.get("enum").is_none() && schema.get("const").is_none() => {
            schema["type"] = json!([one, "null"]);
            schema
        }
        None if schema.get("anyOf").is_none() && schema.get("$ref").is_none() && schema.get("enum").is_none() => schema,
        _ => {
            let description = schema.as_object_mut().and_then(|map| map.shift_remove("description"));
            let either = json!({ "anyOf": [schema, { "type": "null" }] });
            description.iter().filter_map(Value::as_str).fold(either, described)
        }
    }
}

fn described(mut schema: Value, doc: &str) -> Value {
    if !doc.is_empty() {
        schema["description"] = json!(doc);
    }
    schema
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| format!("{}{}.", first.to_uppercase(), chars.as_str()))
}

/// Returns the schema of what `check` accepts for a shape. With `holes`, a value that is not a string may also be a single hole.
fn shape(shape: &Shape, holes: bool) -> Value {
    let schema = match shape {
        Shape::Any => return json!({}),
        Shape::Null => return json!({ "type": "null" }),
        Shape::String { format, one_of } => return text(*format, one_of),
        Shape::OneOf(shapes) => return one_of(shapes, holes),
        Shape::Bool => json!({ "type": "boolean" }),
        Shape::Number => json!({ "type": "number" }),
        Shape::Integer { min, max } => {
            let mut schema = json!({ "type": "integer" });
            for (key, bound) in [("minimum", min), ("maximum", max)] {
                if let Some(bound) = bound {
                    schema[key] = json!(bound);
                }
            }
            schema
        }
        Shape::List { items, min } => {
            let mut schema = json!({ "type": "array", "items": self::shape(items, holes) });
            if *min > 0 {
                schema["minItems"] = json!(min);
            }
            schema
        }
        Shape::Record { fields, rest } => {
            let properties: Map<_, _> = fields.iter().map(|(name, f)| (name.clone(), field(f, holes))).collect();
            let required: Vec<_> =
                fields.iter().filter(|(_, f)| f.required && f.default.is_none()).map(|(n, _)| n).collect();
            let mut schema = json!({ "type": "object" });
            if !properties.is_empty() {
                schema["properties"] = properties.into();
            }
            if !required.is_empty() {
                schema["required"] = json!(required);
            }
            schema["additionalProperties"] = rest.as_ref().map_or(json!(false), |rest| self::shape(rest, holes));
            schema
        }
    };
    if holes { or_hole(schema) } else { schema }
}

/// Returns a schema that also accepts a hole. `pattern` applies only to strings, so one flat schema is enough, and editors show one message.
fn or_hole(mut schema: Value) -> Value {
    schema["type"] = json!([schema["type"], "string"]);
    schema["pattern"] = json!(WHOLE);
    schema
}

fn text(format: Option<Format>, words: &[String]) -> Value {
    if !words.is_empty() {
        return json!({ "anyOf": [{ "enum": words }, { "type": "string", "pattern": HOLE }] });
    }
    let pattern = match format {
        Some(Format::Duration) => DURATION,
        Some(Format::StatusClass) => "^([1-5]xx|any)$",
        Some(Format::Mode) => "^[0-7]{3,4}$",
        Some(Format::JsonPath) => r"^\$",
        Some(Format::Url) => "^https?://",
        Some(Format::Number) => r"^[-+]?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?$",
        Some(Format::File | Format::Path | Format::Script) => return json!({ "type": "string", "minLength": 1 }),
        // Schema validators do not know the RE2 syntax.
        Some(Format::Regex | Format::FieldPath | Format::Method) | None => return json!({ "type": "string" }),
    };
    json!({ "type": "string", "pattern": format!("{pattern}|{HOLE}") })
}

fn one_of(shapes: &[Shape], holes: bool) -> Value {
    // If a string is allowed, so is a hole: the other alternatives need not repeat it.
    let holes = holes && !shapes.iter().any(|s| matches!(s, Shape::String { .. }));
    let (nulls, others): (Vec<_>, Vec<_>) = shapes.iter().partition(|s| matches!(s, Shape::Null));
    let mut schemas: Vec<Value> = others.into_iter().map(|s| shape(s, holes)).collect();
    if let ([_], [one]) = (nulls.as_slice(), schemas.as_mut_slice())
        && let Some(ty) = one.get("type").cloned()
    {
        let mut types = ty.as_array().cloned().unwrap_or_else(|| vec![ty]);
        types.push(json!("null"));
        one["type"] = types.into();
        return one.take();
    }
    schemas.extend(nulls.iter().map(|_| json!({ "type": "null" })));
    json!({ "anyOf": schemas })
}
