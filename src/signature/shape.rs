//! JSON Schema, as far as it is needed to check literal arguments and typed holes.

use std::cell::RefCell;

use indexmap::IndexMap;
use rustc_hash::FxHashMap;
use serde_json::{Map, Value};

use crate::ty::Type;

/// The required form of a value. [`Shape::from_schema`] converts any JSON Schema: parts that it does not understand
/// become [`Shape::Any`], never an error.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum Shape {
    #[default]
    Any,
    Null,
    Bool,
    Integer {
        min: Option<i64>,
        max: Option<i64>,
    },
    Number,
    String {
        format: Option<Format>,
        one_of: Vec<String>,
    },
    List {
        items: Box<Shape>,
        min: usize,
    },
    Record {
        fields: IndexMap<String, Field>,
        rest: Option<Box<Shape>>,
    },
    /// One of several, chosen by the kind of the value.
    OneOf(Vec<Shape>),
}

/// A field of a record.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Field {
    pub shape: Shape,
    pub required: bool,
    pub default: Option<Value>,
    pub doc: String,
}

/// The required format of a string, checked if it has no holes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Format {
    /// Go syntax, greater than zero.
    Duration,
    /// RE2 syntax.
    Regex,
    /// RFC 9535.
    JsonPath,
    /// Upstream's dotted paths.
    FieldPath,
    /// Octal file mode.
    Mode,
    /// `2xx`, `any`.
    StatusClass,
    /// The path of an existing file, relative to the task.
    File,
    /// A path, relative to the task, that does not have to exist yet.
    Path,
    Url,
    /// The method of a request; any word is allowed.
    Method,
    /// A decimal number.
    Number,
    /// The text of a shell script.
    Script,
}

impl Format {
    /// The word in a schema's `format`.
    const NAMES: [(&'static str, Self); 12] = [
        ("duration", Self::Duration),
        ("regex", Self::Regex),
        ("jsonpath", Self::JsonPath),
        ("field-path", Self::FieldPath),
        ("file-mode", Self::Mode),
        ("status-class", Self::StatusClass),
        ("file", Self::File),
        ("path", Self::Path),
        ("url", Self::Url),
        ("method", Self::Method),
        ("number", Self::Number),
        ("script", Self::Script),
    ];

    fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(n, _)| *n == name).map(|(_, f)| *f)
    }
}

impl Shape {
    /// The shape of a Rust type.
    pub fn of<T: schemars::JsonSchema>() -> Self {
        let schema = schemars::schema_for!(T);
        let root = Root { schema: schema.as_value(), known: Some(RefCell::default()) };
        read(root.schema, &root, 0)
    }

    /// Reads a JSON Schema (2020-12 or draft 7).
    pub fn from_schema(schema: &Value) -> Self {
        read(schema, &Root { schema, known: None }, 0)
    }

    /// Reads the schema of a foreign tool, whose `format`s do not have our meanings.
    pub fn from_foreign(schema: &Value) -> Self {
        let mut shape = Self::from_schema(schema);
        shape.forget_formats();
        shape
    }

    fn forget_formats(&mut self) {
        match self {
            Self::String { format, .. } => *format = None,
            Self::List { items, .. } => items.forget_formats(),
            Self::Record { fields, rest } => {
                fields.values_mut().for_each(|field| field.shape.forget_formats());
                rest.iter_mut().for_each(|rest| rest.forget_formats());
            }
            Self::OneOf(shapes) => shapes.iter_mut().for_each(Self::forget_formats),
            _ => {}
        }
    }

    /// The fields of a record; `None` for anything else.
    pub fn fields(&self) -> Option<&IndexMap<String, Field>> {
        match self {
            Self::Record { fields, .. } => Some(fields),
            _ => None,
        }
    }

    /// The allowed shapes: those of a [`Shape::OneOf`], otherwise this one.
    pub fn alternatives(&self) -> &[Shape] {
        match self {
            Self::OneOf(shapes) => shapes,
            one => std::slice::from_ref(one),
        }
    }

    /// Whether a record with this key is allowed, alone or as an item of a list.
    pub fn holds(&self, key: &str) -> bool {
        match self {
            Self::Record { fields, .. } => fields.contains_key(key),
            Self::OneOf(shapes) => shapes.iter().any(|shape| shape.holds(key)),
            Self::List { items, .. } => items.holds(key),
            _ => false,
        }
    }

    /// The type that a hole must have in this place.
    pub fn ty(&self) -> Type {
        match self {
            Self::Any => Type::Any,
            Self::Null => Type::Null,
            Self::Bool => Type::Bool,
            Self::Integer { .. } | Self::Number => Type::Number,
            Self::String { .. } => Type::String,
            Self::List { items, .. } => Type::list(items.ty()),
            Self::Record { fields, rest } => Type::Record {
                fields: fields.iter().filter(|(_, f)| f.required).map(|(k, f)| (k.clone(), f.shape.ty())).collect(),
                open: rest.is_some() || fields.values().any(|f| !f.required),
            },
            Self::OneOf(shapes) => shapes.iter().map(Self::ty).reduce(|a, b| a.join(&b)).unwrap_or_default(),
        }
    }

    /// The description in messages: `a string`, `a list of strings`, `a duration`.
    pub fn describe(&self) -> String {
        match self {
            Self::String { format: Some(Format::Duration), .. } => "a duration".to_owned(),
            Self::String { format: Some(Format::Regex), .. } => "a pattern".to_owned(),
            Self::Integer { .. } => "an integer".to_owned(),
            Self::OneOf(shapes) => {
                // An optional value may also be null, but that is not what an author who writes a value means.
                let words: Vec<_> = shapes.iter().filter(|s| **s != Self::Null).map(Self::one).collect();
                match words.split_last() {
                    Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
                    _ => words.concat(),
                }
            }
            other => other.ty().to_string(),
        }
    }
}

impl Shape {
    /// The description as one of several alternatives: enumerated words are listed.
    fn one(&self) -> String {
        match self {
            Self::String { one_of, format: None } if !one_of.is_empty() => {
                one_of.iter().map(|w| format!("`{w}`")).collect::<Vec<_>>().join(" or ")
            }
            other => other.describe(),
        }
    }
}

/// The maximum depth of `$ref`s that are followed. A recursive schema is `any` below it.
const DEPTH: usize = 24;

/// A whole schema.
struct Root<'s> {
    schema: &'s Value,
    /// The shapes of definitions that were read, by their pointers. Only for our own schemas, which are not recursive: in a recursive
    /// one, the innermost shape would be the first.
    known: Option<RefCell<FxHashMap<&'s str, Shape>>>,
}

fn read<'s>(schema: &'s Value, root: &Root<'s>, depth: usize) -> Shape {
    let Value::Object(map) = schema else { return Shape::Any };
    if depth > DEPTH {
        debug_assert!(root.known.is_none(), "a schema of our own is recursive");
        return Shape::Any;
    }
    if let Some(pointer) = map.get("$ref").and_then(Value::as_str) {
        if let Some(shape) = root.known.as_ref().and_then(|known| known.borrow().get(pointer).cloned()) {
            return shape;
        }
        let target = pointer.strip_prefix('#').and_then(|pointer| root.schema.pointer(pointer));
        let shape = target.map_or(Shape::Any, |t| read(t, root, depth + 1));
        if let Some(known) = &root.known {
            known.borrow_mut().insert(pointer, shape.clone());
        }
        return shape;
    }
    // Next to `properties`, they only specify which properties go together, which does not affect the shape.
    let combined = !map.contains_key("properties");
    for key in ["oneOf", "anyOf"] {
        if let (true, Some(Value::Array(options))) = (combined, map.get(key)) {
            return one_of(options.iter().map(|o| read(o, root, depth + 1)));
        }
    }
    if let Some(Value::Array(parts)) = map.get("allOf") {
        return match parts.as_slice() {
            [one] => read(one, root, depth + 1),
            _ => Shape::Any,
        };
    }
    if let Some(value) = map.get("const") {
        return constant(std::slice::from_ref(value));
    }
    if let Some(Value::Array(values)) = map.get("enum") {
        return constant(values);
    }
    match map.get("type") {
        Some(Value::Array(types)) => one_of(types.iter().filter_map(Value::as_str).map(|t| typed(t, map, root, depth))),
        Some(Value::String(t)) => typed(t, map, root, depth),
        _ if map.contains_key("properties") => typed("object", map, root, depth),
        _ => Shape::Any,
    }
}

fn constant(values: &[Value]) -> Shape {
    let words: Option<Vec<_>> = values.iter().map(|v| v.as_str().map(str::to_owned)).collect();
    match words {
        Some(one_of) if !one_of.is_empty() => Shape::String { format: None, one_of },
        _ => one_of(values.iter().map(|v| match v {
            Value::Null => Shape::Null,
            Value::Bool(_) => Shape::Bool,
            Value::Number(_) => Shape::Number,
            Value::String(s) => Shape::String { format: None, one_of: vec![s.clone()] },
            _ => Shape::Any,
        })),
    }
}

fn one_of(shapes: impl Iterator<Item = Shape>) -> Shape {
    let mut flat: Vec<Shape> = Vec::new();
    for shape in shapes {
        match shape {
            Shape::OneOf(inner) => flat.extend(inner),
            Shape::String { format: None, one_of } if !one_of.is_empty() => {
                let merged = flat.iter_mut().find_map(|s| match s {
                    Shape::String { format: None, one_of } if !one_of.is_empty() => Some(one_of),
                    _ => None,
                });
                match merged {
                    Some(words) => words.extend(one_of),
                    None => flat.push(Shape::String { format: None, one_of }),
                }
            }
            other if flat.contains(&other) => {}
            other => flat.push(other),
        }
    }
    if flat.contains(&Shape::Any) {
        return Shape::Any;
    }
    match flat.len() {
        0 => Shape::Any,
        1 => flat.remove(0),
        _ => Shape::OneOf(flat),
    }
}

fn typed<'s>(name: &str, map: &'s Map<String, Value>, root: &Root<'s>, depth: usize) -> Shape {
    match name {
        "null" => Shape::Null,
        "boolean" => Shape::Bool,
        "integer" => Shape::Integer {
            min: map.get("minimum").and_then(Value::as_f64).map(|n| n as i64),
            max: map.get("maximum").and_then(Value::as_f64).map(|n| n as i64),
        },
        "number" => Shape::Number,
        "string" => Shape::String {
            format: map.get("format").and_then(Value::as_str).and_then(Format::from_name),
            one_of: Vec::new(),
        },
        "array" => Shape::List {
            items: Box::new(map.get("items").map_or(Shape::Any, |i| read(i, root, depth + 1))),
            min: map.get("minItems").and_then(Value::as_u64).unwrap_or(0) as usize,
        },
        "object" => {
            let required: Vec<&str> = match map.get("required") {
                Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
                _ => Vec::new(),
            };
            let properties = map.get("properties").and_then(Value::as_object);
            let fields = properties.into_iter().flatten().map(|(key, schema)| {
                let field = Field {
                    shape: read(schema, root, depth + 1),
                    required: required.contains(&key.as_str()),
                    default: schema.get("default").cloned(),
                    doc: schema.get("description").and_then(Value::as_str).unwrap_or("").to_owned(),
                };
                (key.clone(), field)
            });
            let rest = match map.get("additionalProperties") {
                Some(Value::Bool(false)) => None,
                Some(schema @ Value::Object(_)) => Some(Box::new(read(schema, root, depth + 1))),
                _ => Some(Box::new(Shape::Any)),
            };
            Shape::Record { fields: fields.collect(), rest }
        }
        _ => Shape::Any,
    }
}
