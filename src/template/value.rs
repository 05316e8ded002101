//! Follows paths, by type and by value, and writes values into text.

use indexmap::IndexMap;
use serde_json::Value;

use super::{Hole, Piece, Scan, Segment, SegmentKind};
use crate::{diagnostic::nearest, ty::Type};

/// Returns the type at `segments` from a value of type `base`, or else which segment cannot exist, and why.
pub fn walk_type(base: &Type, segments: &[Segment]) -> Result<Type, (usize, String)> {
    segments
        .iter()
        .enumerate()
        .try_fold(base.clone(), |ty, (i, segment)| step_type(ty, segment).map_err(|why| (i, why)))
}

/// Returns the value at `segments`, if it exists.
pub fn walk_value<'v>(base: &'v Value, segments: &[Segment]) -> Option<&'v Value> {
    segments.iter().try_fold(base, |value, segment| match (&segment.kind, value) {
        (SegmentKind::Name(name), Value::Object(map)) => map.get(name),
        (SegmentKind::Index(index), Value::Array(items)) => items.get(usize::try_from(*index).ok()?),
        _ => None,
    })
}

/// Renders a value as text: strings unchanged, null as the empty text, everything else as JSON.
pub fn render(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        _ => value.to_string(),
    }
}

/// Returns the value of a template whose holes have values: a single hole keeps the type of its value,
/// everything else is text.
pub fn fill<E>(scan: &Scan, mut value: impl FnMut(&Hole) -> Result<Value, E>) -> Result<Value, E> {
    if let Some(hole) = scan.single_hole() {
        return value(hole);
    }
    let mut out = String::new();
    for piece in &scan.pieces {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Hole(hole) => out.push_str(&render(&value(hole)?)),
        }
    }
    Ok(Value::String(out))
}

fn step_type(ty: Type, segment: &Segment) -> Result<Type, String> {
    match (ty, &segment.kind) {
        (Type::Any, _) => Ok(Type::Any),
        (Type::List(of), SegmentKind::Index(_)) => Ok(*of),
        (Type::List(_), SegmentKind::Name(name)) => {
            Err(format!("a list has no field `{name}`; its items are `[0]`, `[1]` …"))
        }
        (Type::Record { mut fields, open }, SegmentKind::Name(name)) => match fields.swap_remove(name) {
            Some(ty) => Ok(ty),
            None if open => Ok(Type::Any),
            None => Err(match near(name, &fields) {
                Some(near) => format!("the field `{name}` does not exist; did you mean `{near}`?"),
                None if fields.is_empty() => format!("the field `{name}` does not exist; the mapping has no fields"),
                None => format!("the field `{name}` does not exist; available: {}", names(fields.keys())),
            }),
        },
        (Type::Record { .. }, SegmentKind::Index(index)) => {
            Err(format!("a mapping is read by name, not by index `[{index}]`"))
        }
        (ty, SegmentKind::Name(name)) => Err(format!("{ty} has no field `{name}`")),
        (ty, SegmentKind::Index(index)) => Err(format!("{ty} has no item `[{index}]`")),
    }
}

/// Returns the field of a record that is probably meant by a segment that names none.
pub fn meant_field<'t>(ty: &'t Type, segment: &Segment) -> Option<&'t str> {
    match (ty, &segment.kind) {
        (Type::Record { fields, .. }, SegmentKind::Name(name)) => near(name, fields),
        _ => None,
    }
}

fn near<'t>(name: &str, fields: &'t IndexMap<String, Type>) -> Option<&'t str> {
    nearest(name, fields.keys().map(String::as_str))
}

fn names<'a>(names: impl Iterator<Item = &'a String>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
