//! Completion: keys and words from the schemas, operations and their arguments from the lock, and the parts of holes.

use std::ops::Range;

use serde_json::{Value, json};

use super::{
    hover, names,
    operations::{self, Operation},
    place::{self, Way},
    schemas::{self, Choice},
    scripts,
    text::{Encoding, Lines},
};
use crate::{
    dialect::FileKind,
    lock::Lock,
    template::FILTERS,
    ty::Type,
    yaml::{Node, Tree},
};

/// A placeholder for what is being typed, so that the text can be parsed.
const TYPED: &str = "__typed__";

/// The completions at a byte.
pub fn at(text: &str, offset: usize, encoding: Encoding, lock: &Lock) -> Value {
    let line = line(text, offset);
    let before = &text[line.start..offset];
    let alias = before.rsplit([' ', '[', ',']).next().filter(|word| word.starts_with('*'));
    // The number of bytes of the word after the cursor.
    let mut behind = 0;
    let hole = (place::filter(text, offset), place::hole(text, offset));
    let (choices, typed) = match (in_script(text, offset), hole, alias) {
        _ if in_comment(text, offset) => (Vec::new(), 0),
        (Some(found), ..) => found,
        (_, (Some(word), _), _) => (filters(), word.len()),
        (.., Some(word)) => (anchors(text, offset, word), word.len() - 1),
        (_, (_, hole), _) => {
            let found = in_flow(text, offset, lock);
            match (found, hole) {
                (Some(found), _) if !found.0.is_empty() => {
                    behind = found.2;
                    (found.0, found.1)
                }
                (_, Some((start, path))) => in_hole(text, start, path, lock),
                (Some(_), None) => (Vec::new(), 0),
                (None, None) => {
                    let (choices, typed, rest) = in_block(text, offset, lock);
                    behind = rest;
                    (choices, typed)
                }
            }
        }
    };
    let range = Lines::new(text, encoding).range(offset - typed..offset + behind);
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

/// The completions, and how many bytes of the word are before and after the cursor.
type Offered = (Vec<Completion>, usize, usize);

/// The range of the line that contains a byte, without its line ending.
fn line(text: &str, offset: usize) -> Range<usize> {
    let start = text[..offset].rfind('\n').map_or(0, |at| at + 1);
    let end = text[offset..].find('\n').map_or(text.len(), |at| offset + at);
    start..start.max(text[..end].trim_end_matches('\r').len()).max(offset)
}

/// Whether a byte is in a comment. If the text is not valid YAML, only comments on their own line are recognized.
fn in_comment(text: &str, offset: usize) -> bool {
    let within = |range: Range<usize>| range.start < offset && offset <= range.end;
    match place::tree(text) {
        Some(tree) => tree.comments().iter().any(|comment| within(comment.span.range())),
        None => {
            text[line(text, offset).start..offset].trim_start().starts_with('#') && place::hole(text, offset).is_none()
        }
    }
}

/// Whether a letter may be part of a key or a listed word.
fn is_plain(letter: char) -> bool {
    letter.is_alphanumeric() || "._-".contains(letter)
}

/// The length of the word at the start of a text.
fn plain_length(text: &str) -> usize {
    text.find(|letter| !is_plain(letter)).unwrap_or(text.len())
}

/// Completions in a flow mapping or list: its keys or words. `None` outside of brackets.
fn in_flow(text: &str, offset: usize, lock: &Lock) -> Option<Offered> {
    let line = line(text, offset);
    let head = text[line.start..offset].trim_end_matches(is_plain);
    let typed = offset - line.start - head.len();
    let begun = head.trim_end();
    if !begun.ends_with(['{', ',', '[', ':']) || begun.ends_with(':') && begun.len() == head.len() {
        return None;
    }
    let behind = plain_length(&text[offset..line.end]);
    let rest = text[offset + behind..line.end].trim_start();
    let there = rest.starts_with(':');
    if !(rest.is_empty() || there || rest.starts_with([',', '}', ']'])) {
        return None;
    }
    let at = line.start + head.len();
    // Editors close brackets themselves. Brackets that are still open are closed here.
    let open = unclosed(begun);
    let closing = if rest.is_empty() { open.as_str() } else { "" };
    let with = |what: &str| {
        place::tree(&format!("{}{what}{closing}{}", &text[..at], &text[offset + behind..])).filter(|_| !open.is_empty())
    };
    if begun.ends_with(['{', ',']) {
        let tree = with(&format!("{TYPED}{}", if there { "" } else { ": null" }));
        let found =
            tree.and_then(|tree| typed_key(tree.root(), &mut Vec::new()).map(|(way, others)| (tree, way, others)));
        if let Some((tree, way, others)) = found {
            let mut found = keys(&tree, &way, &others, lock);
            if there {
                found.iter_mut().for_each(|one| one.insert.clone_from(&one.choice.word));
            }
            return Some((found, typed, behind));
        }
    }
    let tree = with(TYPED)?;
    let place = place::at(&tree, at).filter(|place| !place.is_key && place.range == (at..at + TYPED.len()))?;
    Some((words(&tree, &place.way, lock), typed, behind))
}

/// The brackets that close those which are open at the end of a line.
fn unclosed(line: &str) -> String {
    let mut open = Vec::new();
    let mut quote = None;
    for letter in line.chars() {
        match (quote, letter) {
            (Some(begun), letter) if begun == letter => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(letter),
            (None, '{') => open.push('}'),
            (None, '[') => open.push(']'),
            (None, '}' | ']') => drop(open.pop()),
            (None, _) => {}
        }
    }
    open.into_iter().rev().collect()
}

/// Completions in a block: the words of a value, or the keys of a mapping.
fn in_block(text: &str, offset: usize, lock: &Lock) -> Offered {
    const NOTHING: Offered = (Vec::new(), 0, 0);
    let line = line(text, offset);
    let before = &text[line.start..offset];
    let length = plain_length(&text[offset..line.end]);
    let rest = &text[offset + length..line.end];
    let is_end = |rest: &str| rest.trim_start().is_empty() || rest.trim_start().starts_with('#');
    if let Some((_, value)) = before.trim_start().trim_start_matches("- ").split_once(": ") {
        let value = value.trim_start();
        let quote = value.chars().next().filter(|letter| "\"'".contains(*letter));
        let closed = quote.filter(|quote| rest.starts_with(*quote)).map_or(0, char::len_utf8);
        if !is_end(&rest[closed..]) {
            return NOTHING;
        }
        let at = line.start + before.find(": ").unwrap_or_default() + 2;
        let tree = with_line(text, line.clone(), &format!("{}{TYPED}", &text[line.start..at]));
        let place = tree.as_ref().and_then(|tree| place::at(tree, at));
        let found = tree.as_ref().zip(place).map(|(tree, place)| words(tree, &place.way, lock)).unwrap_or_default();
        return (found, value.len(), length + closed);
    }
    let word = before.trim_start().trim_start_matches("- ").trim_start();
    let there = rest.starts_with(':');
    // Nothing can be inserted before other text.
    if !there && !is_end(rest) {
        return NOTHING;
    }
    let indent = before.len() - before.trim_start().len();
    let dash = if before[indent..].starts_with('-') { "- " } else { "" };
    let value = if there { rest } else { ": null" };
    let item = with_line(text, line.clone(), &format!("{}{dash}{TYPED}", &before[..indent]));
    let tree = with_line(text, line.clone(), &format!("{}{dash}{TYPED}{value}", &before[..indent]));
    let Some((tree, way, others)) = tree.and_then(|tree| {
        let (way, others) = typed_key(tree.root(), &mut Vec::new())?;
        Some((tree, way, others))
    }) else {
        return NOTHING;
    };
    let mut found = keys(&tree, &way, &others, lock);
    if there {
        found.iter_mut().for_each(|one| one.insert.clone_from(&one.choice.word));
    }
    // An item of a list of words.
    if let (true, false, Some(tree)) = (found.is_empty(), dash.is_empty(), item) {
        let place = place::at(&tree, line.start + indent + dash.len());
        found = place.map(|place| words(&tree, &place.way, lock)).unwrap_or_default();
    }
    (found, word.len(), length)
}

struct Completion {
    choice: Choice,
    insert: String,
    /// `CompletionItemKind`.
    kind: u8,
}

/// The tree of the text with one line replaced.
fn with_line(text: &str, line: Range<usize>, new: &str) -> Option<Tree> {
    place::tree(&format!("{}{new}{}", &text[..line.start], &text[line.end..]))
}

/// `CompletionItemKind`.
const FUNCTION: u8 = 3;
const VARIABLE: u8 = 6;
const PROPERTY: u8 = 10;
const WORD: u8 = 12;
const REFERENCE: u8 = 18;

fn completion(word: &str, about: String, kind: u8) -> Completion {
    Completion { choice: Choice { word: word.to_owned(), about }, insert: word.to_owned(), kind }
}

fn as_key(choice: Choice) -> Completion {
    Completion { insert: format!("{}: ", choice.word), choice, kind: PROPERTY }
}

fn filters() -> Vec<Completion> {
    FILTERS.iter().map(|info| completion(info.name, hover::about_filter(info), FUNCTION)).collect()
}

/// Completions in a script after `$` or `${`: the variables of its step and of the task.
fn in_script(text: &str, offset: usize) -> Option<(Vec<Completion>, usize)> {
    let before = text[..offset].trim_end_matches(|letter: char| letter.is_ascii_alphanumeric() || letter == '_');
    before.strip_suffix('{').unwrap_or(before).strip_suffix('$')?;
    let tree = place::tree(text)?;
    let Some(FileKind::Task(dialect)) = place::kind(&tree) else { return None };
    let place = place::at(&tree, offset).filter(|place| !place.is_key)?;
    let [step @ .., Way::Key(key)] = place.way.as_slice() else { return None };
    let Some(Way::Key(operation)) = step.last() else { return None };
    if !scripts::is_script(dialect, operation, key) {
        return None;
    }
    let own = place::node(&tree, step).and_then(|step| step.get("env"));
    let task = tree.root().get("spec").and_then(|spec| spec.get("env"));
    let mut found: Vec<Completion> = Vec::new();
    for (node, whose) in [(own, format!("of this `{operation}`")), (task, "of the task".to_owned())] {
        for entry in node.into_iter().flat_map(Node::entries) {
            if !found.iter().any(|known| known.insert == entry.name) {
                found.push(completion(entry.name, format!("a variable {whose}"), VARIABLE));
            }
        }
    }
    Some((found, offset - before.len()))
}

/// Completions for an alias: the anchors before it.
fn anchors(text: &str, offset: usize, alias: &str) -> Vec<Completion> {
    // The alias is still unknown, and would make the text invalid.
    let start = offset - alias.len();
    let text = format!("{}null{}", &text[..start], &text[offset..]);
    let Some(tree) = place::tree(&text) else { return Vec::new() };
    let before = names::anchors(&text, &tree).into_iter().filter(|(_, range, given)| *given && range.start < start);
    before.map(|(name, ..)| completion(&name, "an anchor".to_owned(), REFERENCE)).collect()
}

/// Completions for the mapping at a way: the keys that it does not have yet.
fn keys(tree: &Tree, way: &[Way], there: &[String], lock: &Lock) -> Vec<Completion> {
    let Some(kind) = place::kind(tree) else { return Vec::new() };
    let mut found: Vec<Completion> = Vec::new();
    match operations::around(tree, way, lock) {
        // The arguments of an operation, from its schema.
        Some((operation, within)) => {
            let schema = operation.schema();
            found.extend(schemas::keys(&schema, &schemas::at(&schema, within)).into_iter().map(as_key));
            if let (true, Operation::Extension { .. }) = (within.is_empty(), &operation) {
                let own = operation.signature().step_keys(crate::hir::Dialect::Portable);
                found.extend(own.into_iter().map(|key| as_key(Choice { word: key.to_owned(), about: String::new() })));
            }
        }
        None => {
            if let Some(schema) = schemas::of_kind(kind) {
                found.extend(schemas::keys(&schema, &schemas::at(&schema, way)).into_iter().map(as_key));
            }
            if let (FileKind::Task(_), true) = (kind, is_step(way)) {
                found.extend(
                    operations::all(tree, lock).into_iter().map(|(word, about)| as_key(Choice { word, about })),
                );
            }
        }
    }
    found.retain(|one| !there.contains(&one.choice.word));
    found
}

/// Whether a mapping is an item of a list of steps.
fn is_step(way: &[Way]) -> bool {
    const LISTS: [&str; 5] = ["setup", "verify", "cleanup", "steps", "anyOf"];
    matches!(way, [.., Way::Key(list), Way::Item(_)] if LISTS.contains(&list.as_str()))
}

/// The way to the mapping in which something is typed, and all of its keys, including the placeholder.
fn typed_key(node: Node<'_>, way: &mut Vec<Way>) -> Option<(Vec<Way>, Vec<String>)> {
    let names: Vec<String> = node.entries().map(|entry| entry.name.to_owned()).collect();
    if names.iter().any(|name| name == TYPED) {
        return Some((way.clone(), names));
    }
    for entry in node.entries() {
        way.push(Way::Key(entry.name.to_owned()));
        if let Some(found) = typed_key(entry.value, way) {
            return Some(found);
        }
        way.pop();
    }
    for (index, item) in node.items().enumerate() {
        way.push(Way::Item(index));
        if let Some(found) = typed_key(item, way) {
            return Some(found);
        }
        way.pop();
    }
    None
}

/// Completions for the scalar at a way.
fn words(tree: &Tree, way: &[Way], lock: &Lock) -> Vec<Completion> {
    let Some(kind) = place::kind(tree) else { return Vec::new() };
    if let Some((operation, within)) = operations::around(tree, way, lock)
        && !within.is_empty()
    {
        let schema = operation.schema();
        let words = schemas::words(&schemas::at(&schema, within));
        return words.into_iter().map(|choice| completion(&choice.word, choice.about, WORD)).collect();
    }
    let named = match way {
        [.., Way::Key(key)] if key == "mcpServer" => operations::servers(lock),
        [above @ .., Way::Key(key)] if matches!(kind, FileKind::Eval | FileKind::Oracle) => {
            operations::called(tree, above, key, lock)
        }
        _ => Vec::new(),
    };
    let Some(schema) = schemas::of_kind(kind) else { return Vec::new() };
    let words = schemas::words(&schemas::at(&schema, way));
    let words = words.into_iter().map(|choice| completion(&choice.word, choice.about, WORD));
    named.into_iter().map(|(word, about)| completion(&word, about, WORD)).chain(words).collect()
}

/// The roots that are in scope in all phases.
const ROOTS: [(&str, &str); 6] = [
    ("env", "a variable of the task's `env`, or of the process"),
    ("random.id", "letters and digits that are unique to this run"),
    ("random.port", "a port that is free when the run starts"),
    ("task.name", "the name of the task"),
    ("steps", "an output of a step: `steps.ID.outputs.NAME`"),
    ("agent.output", "the agent's last answer; in verify and cleanup"),
];

fn in_hole(text: &str, start: usize, path: &str, lock: &Lock) -> (Vec<Completion>, usize) {
    // A hole that is not closed is text. If the text is not valid YAML, the hole is left out.
    let tree = place::tree(text)
        .or_else(|| place::tree(&format!("{}{TYPED}{}", &text[..start - 1], &text[start + path.len()..])));
    let tree = tree.as_ref();
    let steps = || tree.map(place::steps).unwrap_or_default();
    let parts: Vec<&str> = path.split('.').collect();
    let typed = parts.last().map_or(0, |last| last.len());
    let way = tree.and_then(|tree| place::at(tree, start)).map(|place| place.way).unwrap_or_default();
    let locals = tree.map(|tree| operations::locals(tree, &way, lock)).unwrap_or_default();
    let of_types = |types: Vec<(String, Type)>| -> Vec<Completion> {
        types.into_iter().map(|(name, ty)| completion(&name, ty.to_string(), VARIABLE)).collect()
    };
    let found = match parts.as_slice() {
        [] | [_] => {
            let roots = ROOTS.iter().map(|(word, about)| completion(word, (*about).to_owned(), VARIABLE));
            of_types(locals).into_iter().chain(roots).collect()
        }
        ["env", _] => {
            let env = tree.and_then(|tree| ["spec", "env"].iter().try_fold(tree.root(), |node, key| node.get(key)));
            let env = env.into_iter().flat_map(Node::entries);
            env.map(|entry| completion(entry.name, entry.value.text().unwrap_or_default().to_owned(), VARIABLE))
                .collect()
        }
        ["steps", _] => steps().into_iter().map(|step| completion(&step.id, step.name, VARIABLE)).collect(),
        ["steps", _, _] => vec![completion("outputs", "an output of the step".to_owned(), PROPERTY)],
        ["steps", id, "outputs", inside @ .., _] => {
            let steps = steps();
            let of = |id: &str| steps.iter().find(|step| step.id == id);
            // `rounds[0].ID`, repeated for nested loops.
            let step = inside.chunks(2).try_fold((of(id), false), |(step, _), part| match (step, part) {
                (Some(step), [rounds, ..]) if step.outputs.is_empty() && is_round(rounds) => match part.get(1) {
                    Some(id) if step.rounds.iter().any(|known| known == id) => Some((of(id), false)),
                    Some(_) => None,
                    None => Some((Some(step), true)),
                },
                _ => None,
            });
            match (tree, step) {
                (_, Some((Some(step), true))) => {
                    let name = |id: &String| of(id).map(|step| step.name.clone()).unwrap_or_default();
                    step.rounds.iter().map(|id| completion(id, name(id), VARIABLE)).collect()
                }
                (Some(tree), Some((Some(step), false))) if step.outputs.is_empty() => {
                    of_types(operations::outputs(tree, &step.name, lock))
                }
                (_, Some((Some(step), false))) => {
                    step.outputs.iter().map(|output| completion(output, String::new(), PROPERTY)).collect()
                }
                _ => Vec::new(),
            }
        }
        [local, inside @ .., _] => {
            let ty = locals.into_iter().find(|(name, _)| name == local).map(|(_, ty)| ty);
            let ty = inside.iter().try_fold(ty.unwrap_or_default(), |ty, name| match ty {
                Type::Record { mut fields, .. } => fields.shift_remove(*name),
                _ => None,
            });
            match ty {
                Some(Type::Record { fields, .. }) => of_types(fields.into_iter().collect()),
                _ => Vec::new(),
            }
        }
    };
    (found, typed)
}

/// Whether a part of a path selects a round of a loop.
fn is_round(part: &str) -> bool {
    part.strip_prefix("rounds[").is_some_and(|nth| nth.ends_with(']'))
}
