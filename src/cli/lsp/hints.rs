//! Inlay hints for what is inferred: types of outputs, timeouts, values of holes, tasks selected by a glob.

use std::{ops::RangeInclusive, path::Path};

use serde_json::{Value, json};

use super::{
    reading::{Reading, holes},
    suite::Suite,
    text::Lines,
};
use crate::{
    builtin::count,
    hir::{Arg, ArgKind, Def, Target},
    ty::{Type, duration},
};

/// `InlayHintKind`.
const TYPE: u8 = 1;

/// The hints of a text in the range that is shown.
pub fn of(path: &Path, shown: RangeInclusive<usize>, reading: &Reading, suite: &Suite, lines: &Lines<'_>) -> Value {
    let mut found = Vec::new();
    let mut hint = |offset: usize, label: String, tooltip: &str, kind: Option<u8>| {
        if !shown.contains(&offset) {
            return;
        }
        let mut hint =
            json!({ "position": lines.position(offset), "label": label, "tooltip": tooltip, "paddingLeft": true });
        if let Some(kind) = kind {
            hint["kind"] = kind.into();
        }
        found.push(hint);
    };
    for set in suite.eval(path).into_iter().flat_map(|eval| &eval.sets).filter(|set| !set.range.is_empty()) {
        let names: Vec<&str> = set.tasks.iter().take(12).map(|task| task.name.as_str()).collect();
        hint(set.range.end, count(set.tasks.len(), "task", "tasks"), &names.join(", "), None);
    }
    for step in reading.steps() {
        for (name, value) in step.outputs.iter().flatten() {
            let ty = type_of(value);
            if ty != Type::Any {
                hint(name.span.range().end, format!("({ty})"), "the type of this output", Some(TYPE));
            }
        }
        if let (None, Some(limit)) = (&step.timeout, step.op.signature.timeout) {
            let label = format!("timeout {}", duration::format(limit));
            hint(step.key.range().end, label, "the default; `timeout` sets another limit", None);
        }
    }
    let holes = reading.checked.as_ref().map(holes).unwrap_or_default();
    for hole in holes.iter().filter(|hole| hole.filters.is_empty()) {
        let (label, tooltip) = match &hole.reference.target {
            Target::RandomId => ("8 letters and digits", "the same throughout a run of a task, and unique to it"),
            Target::RandomPort => ("a free port", "a number"),
            _ => continue,
        };
        hint(hole.span.range().end, label.to_owned(), tooltip, None);
    }
    Value::Array(found)
}

/// The type of the value of an argument.
pub fn type_of(arg: &Arg<Def>) -> Type {
    match &arg.kind {
        ArgKind::Null => Type::Null,
        ArgKind::Bool(_) => Type::Bool,
        ArgKind::Int(_) | ArgKind::Float(_) => Type::Number,
        ArgKind::Text(template) => template.single_hole().map_or(Type::String, |hole| hole.reference.ty.clone()),
        ArgKind::List(items) => Type::list(items.iter().map(type_of).reduce(|a, b| a.join(&b)).unwrap_or_default()),
        ArgKind::Record(fields) => Type::Record {
            fields: fields.iter().map(|(name, value)| (name.value.clone(), type_of(value))).collect(),
            open: false,
        },
    }
}
