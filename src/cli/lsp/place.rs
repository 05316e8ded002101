//! What is at a byte of a file: the way to it through the YAML, and the hole that contains it.

use std::ops::Range;

use crate::{
    diagnostic::Diagnostics,
    dialect::{self, FileKind},
    source::Sources,
    yaml::{self, Node, Tree},
};

/// A component of the way from the root to a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Way {
    Key(String),
    Item(usize),
}

/// What is at a byte.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// The keys and items that lead to the node.
    pub way: Vec<Way>,
    /// Whether it is the last key itself, rather than its value.
    pub is_key: bool,
    /// The bytes of the key or scalar.
    pub range: Range<usize>,
}

/// The tree of a text, if it is valid YAML.
pub fn tree(text: &str) -> Option<Tree> {
    let sources = Sources::default();
    let file = sources.add("", text);
    yaml::parse(file, text, &mut Diagnostics::default()).ok()
}

/// The kind of a file, if it is specified.
pub fn kind(tree: &Tree) -> Option<FileKind> {
    dialect::identify(tree.root(), true, &mut Diagnostics::default()).ok().flatten()
}

/// The key or scalar that contains a byte.
pub fn at(tree: &Tree, offset: usize) -> Option<Place> {
    let mut way = Vec::new();
    within(tree.root(), offset, &mut way)
}

fn within(node: Node<'_>, offset: usize, way: &mut Vec<Way>) -> Option<Place> {
    let holds = |node: Node<'_>| {
        let range = node.span().range();
        (range.start..=range.end).contains(&offset)
    };
    for entry in node.entries() {
        let of_key = holds(entry.key);
        if !of_key && !holds(entry.value) {
            continue;
        }
        way.push(Way::Key(entry.name.to_owned()));
        if of_key {
            return Some(Place { way: way.clone(), is_key: true, range: entry.key.span().range() });
        }
        if let Some(found) = within(entry.value, offset, way) {
            return Some(found);
        }
        way.pop();
    }
    for (index, item) in node.items().enumerate() {
        if holds(item) {
            way.push(Way::Item(index));
            if let Some(found) = within(item, offset, way) {
                return Some(found);
            }
            way.pop();
        }
    }
    let scalar = node.entries().len() == 0 && node.items().len() == 0 && holds(node);
    scalar.then(|| Place { way: way.clone(), is_key: false, range: node.span().range() })
}

/// The path in the hole around a byte: its start, and its text up to the byte.
pub fn hole(text: &str, offset: usize) -> Option<(usize, &str)> {
    let line = text[..offset].rfind('\n').map_or(0, |at| at + 1);
    let open = text[line..offset].rfind('{')? + line;
    let inside = &text[open + 1..offset];
    let plain = |letter: char| letter.is_alphanumeric() || "_-.[]".contains(letter);
    (inside.chars().all(plain) && !text[..open].ends_with('\\')).then_some((open + 1, inside))
}

/// The name of the filter that is being typed at a byte, after the `|` of a hole.
pub fn filter(text: &str, offset: usize) -> Option<&str> {
    let line = text[..offset].rfind('\n').map_or(0, |at| at + 1);
    let open = text[line..offset].rfind('{')? + line;
    let inside = &text[open + 1..offset];
    let (path, word) = inside.rsplit_once('|')?;
    let begins = path.trim_start().starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_');
    let word = word.trim_start_matches(' ');
    (begins && !inside.contains('}') && word.chars().all(|letter| letter.is_ascii_alphanumeric())).then_some(word)
}

/// The node that a way leads to.
pub fn node<'t>(tree: &'t Tree, way: &[Way]) -> Option<Node<'t>> {
    way.iter().try_fold(tree.root(), |node, step| match step {
        Way::Key(key) => node.get(key),
        Way::Item(index) => node.items().nth(*index),
    })
}

/// A step with an ID: the ID, its range, the operation, and the keys of its outputs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    pub id: String,
    pub range: Range<usize>,
    pub name: String,
    pub outputs: Vec<String>,
    /// The steps whose outputs are in its rounds, if it is a `foreach` that lists no outputs.
    pub rounds: Vec<String>,
}

/// The steps of a task that have an ID, in order.
pub fn steps(tree: &Tree) -> Vec<Step> {
    let mut found = Vec::new();
    collect(tree.root(), &mut found);
    found
}

fn collect(node: Node<'_>, found: &mut Vec<Step>) {
    for item in node.items() {
        for entry in item.entries() {
            if let Some(id) = entry.value.get("id").and_then(|id| Some((id.as_str()?.to_owned(), id.span().range()))) {
                let outputs = entry.value.get("outputs").into_iter().flat_map(Node::entries);
                let outputs = outputs.map(|output| output.name.to_owned()).collect();
                let mut rounds = Vec::new();
                if entry.name == "foreach" {
                    left(entry.value, &mut rounds);
                }
                found.push(Step { id: id.0, range: id.1, name: entry.name.to_owned(), outputs, rounds });
            }
        }
        collect(item, found);
    }
    for entry in node.entries() {
        collect(entry.value, found);
    }
}

/// The IDs of the steps inside of a step whose outputs can be used after it: not those inside of another loop, and not
/// those of a cleanup.
fn left(body: Node<'_>, found: &mut Vec<String>) {
    let items = ["setup", "steps"].into_iter().filter_map(|key| body.get(key)).chain([body]).flat_map(Node::items);
    for entry in items.flat_map(Node::entries) {
        if let Some(id) = entry.value.get("id").and_then(Node::as_str)
            && !found.iter().any(|known| known == id)
        {
            found.push(id.to_owned());
        }
        if entry.name != "foreach" {
            left(entry.value, found);
        }
    }
}
