//! What an editor may fold: mappings, lists, blocks of text, and comments of several lines.

use serde_json::{Value, json};

use super::text::Lines;
use crate::yaml::{Node, Tree};

/// The ranges of a text that can be folded.
pub fn of(text: &str, tree: &Tree, lines: &Lines<'_>) -> Value {
    let mut found = Vec::new();
    below(tree.root(), text, lines, &mut found);
    let mut comments: Option<(usize, usize)> = None;
    let mut comment = |range: Option<(usize, usize)>| {
        if let Some((start, end)) = range.filter(|(start, end)| end > start) {
            found.push(json!({ "startLine": start, "endLine": end, "kind": "comment" }));
        }
    };
    for span in tree.comments().iter().map(|comment| comment.span.range()) {
        let line = lines.place(span.start).0;
        let begins = text[..span.start].rsplit('\n').next().is_some_and(|before| before.trim().is_empty());
        comments = match comments {
            Some((start, end)) if begins && line == end + 1 => Some((start, line)),
            before => {
                comment(before);
                begins.then_some((line, line))
            }
        };
    }
    comment(comments);
    Value::Array(found)
}

fn below(node: Node<'_>, text: &str, lines: &Lines<'_>, found: &mut Vec<Value>) {
    let mut fold = |start: usize, end: Node<'_>| {
        let start = lines.place(start).0;
        // A block ends with its text, without the blank lines after it.
        let end = end.span().range();
        let end = end.start + text[end.clone()].trim_end().len();
        let end = lines.place(end).0;
        if end > start {
            found.push(json!({ "startLine": start, "endLine": end }));
        }
    };
    if node.is_alias() {
        return;
    }
    node.entries().for_each(|entry| fold(entry.key.span().range().start, entry.value));
    // An item with a single key folds like that key.
    node.items().filter(|item| item.entries().len() > 1).for_each(|item| fold(item.span().range().start, item));
    node.entries().for_each(|entry| below(entry.value, text, lines, found));
    node.items().for_each(|item| below(item, text, lines, found));
}
