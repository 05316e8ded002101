//! The outline of a file: keys, and steps by their operation and ID.

use serde_json::{Value, json};

use super::text::{Encoding, Lines, uri_of};
use crate::{
    hir::Name,
    project::Project,
    source::{Sources, Span, normalize},
    yaml::{Entry, Node, Tree},
};

/// How deep the outline goes.
const DEPTH: usize = 6;

/// The maximum number of names of a suite.
const NAMES: usize = 500;

/// The tasks and evals of a suite whose names contain these letters, ignoring case.
pub fn of_suite(project: &Project, sources: &Sources, letters: &str, encoding: Encoding) -> Value {
    let letters = letters.to_lowercase();
    let tasks = project.tasks.iter().filter_map(|unit| Some(("task", &unit.task.as_ref()?.name)));
    let evals = project.evals.iter().filter_map(|unit| Some(("eval", &unit.eval.as_ref()?.name)));
    let named = tasks.chain(evals).filter(|(_, name)| name.value.to_lowercase().contains(&letters));
    let place = |span: Span| {
        let source = sources.get(span.file);
        json!({ "uri": uri_of(&normalize(source.path())), "range": Lines::of(&source, encoding).range(span.range()) })
    };
    // `SymbolKind`: an object, a namespace.
    let kind = |what: &str| if what == "task" { 19 } else { 3 };
    let symbol = |(what, name): (&str, &Name)| json!({ "name": name.value, "kind": kind(what), "containerName": what, "location": place(name.span) });
    named.take(NAMES).map(symbol).collect()
}

/// The outline of a text.
pub fn of(tree: &Tree, lines: &Lines<'_>) -> Value {
    tree.root().entries().map(|entry| symbol(lines, entry.name, entry, 0)).collect()
}

/// A key with everything below it.
fn symbol(lines: &Lines<'_>, name: &str, entry: Entry<'_>, depth: usize) -> Value {
    let Entry { key, value: node, .. } = entry;
    let mut children = Vec::new();
    if depth + 1 < DEPTH {
        children.extend(node.entries().map(|entry| symbol(lines, entry.name, entry, depth + 1)));
        // A step is shown by its operation, and by its ID if it has one.
        for item in node.items() {
            let Some(first) = item.entries().next() else { continue };
            let id = first.value.get("id").and_then(Node::as_str);
            let name = id.map_or_else(|| first.name.to_owned(), |id| format!("{id} ({})", first.name));
            children.push(symbol(lines, &name, first, depth + 1));
        }
    }
    let value = node.text().filter(|value| value.len() < 60 && !value.contains('\n')).unwrap_or_default();
    // `SymbolKind`: a string, an array, an object.
    let kind = match (node.entries().len(), node.items().len()) {
        (0, 0) => 15,
        (0, _) => 18,
        _ => 19,
    };
    json!({
        "name": if name.is_empty() { "?" } else { name }, "detail": value, "kind": kind,
        "range": lines.range(key.span().to(node.span()).range()), "selectionRange": lines.range(key.span().range()),
        "children": children,
    })
}
