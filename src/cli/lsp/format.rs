//! The canonical form of holes: `{path | filter(a, b) | filter}`. Nothing else in a text is changed.

use std::{ops::Range, path::Path};

use serde_json::{Value, json};

use super::reading::{Reading, holes};
use crate::{
    diagnostic::Diagnostics,
    hir::{Def, Dialect, Hole},
    source::Sources,
    template::{self, Piece},
};

/// The edits that write all holes of a task in their canonical form. There are none if they would change the meaning,
/// or if the task has errors, because it is then unknown which braces are holes.
pub fn edits(path: &Path, text: &str, reading: &Reading) -> Vec<(Range<usize>, String)> {
    let Some(task) = reading.checked.as_ref().filter(|task| task.dialect == Dialect::Portable) else {
        return Vec::new();
    };
    // Escaped and folded texts are skipped.
    let written = |hole: &&Hole<Def>| text.get(hole.span.range()) == Some(hole.text.as_str());
    let new = |hole: &Hole<Def>| Some((hole.span.range(), canonical(&hole.text)?));
    let mut edits: Vec<_> = holes(task).into_iter().filter(written).filter_map(new).collect();
    edits.retain(|(range, new)| text[range.clone()] != **new);
    edits.sort_by_key(|(range, _)| range.start);
    edits.dedup();
    let mut formatted = text.to_owned();
    for (range, new) in edits.iter().rev() {
        formatted.replace_range(range.clone(), new);
    }
    let same = match (yaml(path, text), yaml(path, &formatted)) {
        (Some(before), Some(after)) => before == after,
        _ => false,
    };
    if same { edits } else { Vec::new() }
}

/// Everything that a text says, with the holes in each string replaced by their meaning.
fn yaml(path: &Path, text: &str) -> Option<Value> {
    let sources = Sources::default();
    let tree = crate::yaml::parse(sources.add(path, text), text, &mut Diagnostics::default()).ok()?;
    let mut value = tree.root().to_json();
    strings(&mut value);
    Some(value)
}

fn strings(value: &mut Value) {
    match value {
        Value::String(text) => *value = meaning(text),
        Value::Array(items) => items.iter_mut().for_each(strings),
        Value::Object(fields) => fields.values_mut().for_each(strings),
        _ => {}
    }
}

/// The pieces of a text: the text between holes, and the meaning of the holes.
fn meaning(text: &str) -> Value {
    let filter = |filter: &template::Filter| {
        let args: Vec<&Value> = filter.args.iter().map(|arg| &arg.value).collect();
        json!([filter.name.text, args])
    };
    let pieces = template::scan(text).pieces.into_iter().map(|piece| match piece {
        Piece::Text(text) => json!(text),
        Piece::Hole(hole) => json!([hole.path.to_string(), hole.filters.iter().map(filter).collect::<Vec<_>>()]),
    });
    pieces.collect()
}

/// The canonical form of a hole; `None` if the text is not a hole.
fn canonical(text: &str) -> Option<String> {
    let scan = template::scan(text);
    let hole = scan.single_hole()?;
    let filters = hole.filters.iter().map(|filter| {
        let args: Vec<&str> = filter.args.iter().map(|arg| &text[arg.range.clone()]).collect();
        let args = if args.is_empty() { String::new() } else { format!("({})", args.join(", ")) };
        format!(" | {}{args}", filter.name.text)
    });
    Some(format!("{{{}{}}}", hole.path, filters.collect::<String>()))
}
