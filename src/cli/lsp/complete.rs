//! What may stand at a position: keys and words by the schemas, and the paths of holes.

use serde_json::{Value, json};

use super::{
    place::{self, Way},
    schemas::{self, Choice},
    text::{Encoding, Lines},
};
use crate::yaml::{Node, Tree};

/// Stands for what is being typed, so that the text can be read meanwhile.
const TYPED: &str = "__typed__";

/// The completions at a byte.
pub fn at(text: &str, offset: usize, encoding: Encoding) -> Value {
    let start = text[..offset].rfind('\n').map_or(0, |at| at + 1);
    let end = text[offset..].find('\n').map_or(text.len(), |at| offset + at);
    let before = &text[start..offset];
    let (choices, typed) = match place::hole(text, offset) {
        Some((_, path)) => in_hole(text, start..end, path),
        None => match before.trim_start().trim_start_matches("- ").split_once(": ") {
            Some((_, value)) => (words(text, start..end, before), value.trim_start().len()),
            None => {
                let word = before.trim_start().trim_start_matches("- ").trim_start();
                (keys(text, start..end, before), word.len())
            }
        },
    };
    let range = Lines::new(text, encoding).range(offset - typed..offset);
    let items = choices.into_iter().enumerate().map(|(nth, Completion { choice, insert, kind })| {
        json!({
            "label": choice.word,
            "kind": kind,
            "documentation": { "kind": "markdown", "value": choice.about },
            "sortText": format!("{nth:04}"),
            "textEdit": { "range": range, "newText": insert },
        })
    });
    json!({ "isIncomplete": false, "items": items.collect::<Vec<_>>() })
}

struct Completion {
    choice: Choice,
    insert: String,
    /// `CompletionItemKind`.
    kind: u8,
}

/// The tree of the text in which a line is another one.
fn with_line(text: &str, line: std::ops::Range<usize>, new: &str) -> Option<Tree> {
    place::tree(&format!("{}{new}{}", &text[..line.start], &text[line.end..]))
}

fn keys(text: &str, line: std::ops::Range<usize>, before: &str) -> Vec<Completion> {
    let indent = before.len() - before.trim_start().len();
    let rest = &before[indent..];
    let dash = if rest.starts_with('-') { "- " } else { "" };
    let tree = with_line(text, line, &format!("{}{dash}{TYPED}: null", &before[..indent]));
    let Some((tree, way, there)) = tree.and_then(|tree| {
        let (way, there) = typed(tree.root(), &mut Vec::new())?;
        Some((tree, way, there))
    }) else {
        return Vec::new();
    };
    let Some(schema) = place::kind(&tree).and_then(schemas::of_kind) else { return Vec::new() };
    let known = schemas::keys(&schema, &schemas::at(&schema, &way));
    let new = known.into_iter().filter(|choice| !there.contains(&choice.word));
    new.map(|choice| Completion { insert: format!("{}: ", choice.word), choice, kind: 10 }).collect()
}

/// The way to the mapping in which something is typed, and its other keys.
fn typed(node: Node<'_>, way: &mut Vec<Way>) -> Option<(Vec<Way>, Vec<String>)> {
    let names: Vec<String> = node.entries().map(|entry| entry.name.to_owned()).collect();
    if names.iter().any(|name| name == TYPED) {
        return Some((way.clone(), names));
    }
    for entry in node.entries() {
        way.push(Way::Key(entry.name.to_owned()));
        if let Some(found) = typed(entry.value, way) {
            return Some(found);
        }
        way.pop();
    }
    for (index, item) in node.items().enumerate() {
        way.push(Way::Item(index));
        if let Some(found) = typed(item, way) {
            return Some(found);
        }
        way.pop();
    }
    None
}

fn words(text: &str, line: std::ops::Range<usize>, before: &str) -> Vec<Completion> {
    let Some((key, _)) = before.split_once(": ") else { return Vec::new() };
    let Some(tree) = with_line(text, line.clone(), &format!("{key}: {TYPED}")) else { return Vec::new() };
    let Some(place) = place::at(&tree, line.start + key.len() + 3) else { return Vec::new() };
    let Some(schema) = place::kind(&tree).and_then(schemas::of_kind) else { return Vec::new() };
    let words = schemas::words(&schemas::at(&schema, &place.way));
    words.into_iter().map(|choice| Completion { insert: choice.word.clone(), choice, kind: 12 }).collect()
}

/// The roots that are in scope in all phases, and those of steps.
const ROOTS: [(&str, &str); 7] = [
    ("env", "a variable of the task's `env`, else of the process"),
    ("random.id", "letters and digits that no other run has"),
    ("random.port", "a port that is free when the run begins"),
    ("task.name", "of the task"),
    ("steps", "what a step has left: `steps.ID.outputs.NAME`"),
    ("agent.output", "what the agent said last; in verify and cleanup"),
    ("stdout", "of a command or script, in its `outputs`"),
];

fn in_hole(text: &str, line: std::ops::Range<usize>, path: &str) -> (Vec<Completion>, usize) {
    // The line is as it was: a hole that is not closed is text.
    let tree = place::tree(text).or_else(|| {
        let indent = text[line.clone()].len() - text[line.clone()].trim_start().len();
        with_line(text, line.clone(), &format!("{}{TYPED}: null", " ".repeat(indent)))
    });
    let tree = tree.as_ref();
    let choice = |word: String, about: String, kind: u8| Completion {
        insert: word.clone(),
        choice: Choice { word, about },
        kind,
    };
    let steps = || tree.map(place::steps).unwrap_or_default();
    let parts: Vec<&str> = path.split('.').collect();
    let typed = parts.last().map_or(0, |last| last.len());
    let found = match parts.as_slice() {
        [] | [_] => ROOTS.iter().map(|(word, about)| choice((*word).to_owned(), (*about).to_owned(), 6)).collect(),
        ["env", _] => {
            let env = tree.and_then(|tree| ["spec", "env"].iter().try_fold(tree.root(), |node, key| node.get(key)));
            let env = env.into_iter().flat_map(Node::entries);
            env.map(|entry| choice(entry.name.to_owned(), entry.value.text().unwrap_or_default().to_owned(), 6))
                .collect()
        }
        ["steps", _] => steps().into_iter().map(|step| choice(step.id, step.name, 6)).collect(),
        ["steps", _, _] => vec![choice("outputs".to_owned(), "what the step has left".to_owned(), 10)],
        ["steps", id, "outputs", _] => {
            let step = steps().into_iter().find(|step| step.id == *id);
            let outputs = step.map(|step| step.outputs).unwrap_or_default();
            outputs.into_iter().map(|output| choice(output, String::new(), 10)).collect()
        }
        _ => Vec::new(),
    };
    (found, typed)
}
