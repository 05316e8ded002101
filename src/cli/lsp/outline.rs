//! The outline of a file: keys, and steps by their operation and id.

use serde_json::{Value, json};

use super::text::Lines;
use crate::yaml::{Entry, Node, Tree};

/// How deep the outline goes.
const DEPTH: usize = 6;

/// The outline of a text.
pub fn of(tree: &Tree, lines: &Lines<'_>) -> Value {
    tree.root().entries().map(|entry| symbol(lines, entry.name, entry, 0)).collect()
}

/// A key with what stands below it.
fn symbol(lines: &Lines<'_>, name: &str, entry: Entry<'_>, depth: usize) -> Value {
    let Entry { key, value: node, .. } = entry;
    let mut children = Vec::new();
    if depth + 1 < DEPTH {
        children.extend(node.entries().map(|entry| symbol(lines, entry.name, entry, depth + 1)));
        // A step is its operation, and its id where it has one.
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
