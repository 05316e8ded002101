//! The shell scripts of a task as written: their locations, and the variables that they use.

use std::{collections::BTreeMap, ops::Range, path::PathBuf};

use super::reading::{Reading, steps};
use crate::{
    bash, builtin,
    effects::script::{self, HOLE, Reader},
    hir::{Arg, ArgKind, Dialect, Name, Step, Task},
    signature::{Format, Shape},
    source::{FileId, Files, Span, Stat, resolve},
    template::{self, Path},
    yaml::{Node, SourceMap},
};

/// A script that a step passes to a program.
pub struct Script<'t> {
    pub step: &'t Step<Path>,
    /// The text, with holes masked.
    pub text: String,
    /// `None` if no shell reads it, or it cannot be parsed.
    pub shell: Option<bash::Script>,
    place: Place,
    /// The directory of its file.
    dir: PathBuf,
}

enum Place {
    Scalar(SourceMap),
    File(FileId),
}

/// The variables that a script uses.
#[derive(Default)]
pub struct Variables {
    /// Variables from its environment, with all their places in it.
    pub given: Vec<(String, Range<usize>)>,
    /// Variables that it assigns before it uses them.
    pub own: Vec<String>,
}

/// A text that is a shell script according to the schema of its step.
pub struct Inline<'t> {
    pub written: &'t str,
    pub holes: Vec<Range<usize>>,
    pub map: SourceMap,
    pub reader: Option<Reader>,
}

/// The argument as a script, if it is one.
pub fn inline<'t>(
    reading: &'t Reading,
    dialect: Dialect,
    operation: &str,
    args: &[(Name, Arg<Path>)],
    (key, value): &(Name, Arg<Path>),
) -> Option<Inline<'t>> {
    if !is_script(dialect, operation, &key.value) {
        return None;
    }
    let node: Node<'t> = reading.unit.as_ref()?.tree.node_at(value.span)?;
    let written = node.text()?;
    let shell = args.iter().find(|(key, _)| key.value == "shell").and_then(|(_, shell)| shell.as_literal());
    let reader = script::shebang(written.trim_start()).or_else(|| shell.map(script::named));
    let holes = match dialect {
        Dialect::Portable => template::scan(written).holes().map(|hole| hole.range.clone()).collect(),
        _ => Vec::new(),
    };
    Some(Inline { written, holes, map: node.source_map(), reader })
}

/// Whether an argument of a step is a script.
pub fn is_script(dialect: Dialect, operation: &str, key: &str) -> bool {
    let is = |shape: &Shape| matches!(shape, Shape::String { format: Some(Format::Script), .. });
    let signature = builtin::vocabularies().of(dialect).get(operation).map(|(_, signature)| signature);
    let field = signature.and_then(|signature| signature.params.fields()?.get(key));
    field.is_some_and(|field| field.shape.alternatives().iter().any(is))
}

/// The file of a step's script.
pub fn file(task: &Task<Path>, step: &Step<Path>) -> Option<PathBuf> {
    let file = (step.op.value == "script").then(|| step.arg("file")?.as_literal())?;
    file.map(|file| resolve(&task.dir, file))
}

/// The scripts of a task. Those in files become sources.
pub fn all<'t>(reading: &Reading, task: &'t Task<Path>, files: &dyn Files) -> Vec<Script<'t>> {
    let mut found = Vec::new();
    let mut known: BTreeMap<PathBuf, FileId> = BTreeMap::new();
    let shell = |reader, text: &str| (reader != Some(Reader::Foreign)).then(|| bash::parse(text)).flatten();
    for step in steps(task) {
        for arg in &step.args {
            let Some(inline) = inline(reading, task.dialect, &step.op.value, &step.args, arg) else { continue };
            let text = script::masked(inline.written, &inline.holes);
            let shell = shell(inline.reader, &text);
            found.push(Script { step, text, shell, place: Place::Scalar(inline.map), dir: task.dir.clone() });
        }
        let Some(path) = file(task, step) else { continue };
        let Some(text) = files.read(&path).ok().and_then(|bytes| String::from_utf8(bytes).ok()) else { continue };
        let dir = path.parent().map(Into::into).unwrap_or_default();
        let file = *known.entry(path).or_insert_with_key(|path| reading.sources.add(path, text.as_str()));
        let place = Place::File(file);
        found.push(Script { step, shell: shell(script::shebang(&text), &text), text, place, dir });
    }
    found
}

impl Script<'_> {
    /// Maps bytes of the script to their file.
    pub fn span(&self, range: Range<usize>) -> Span {
        match &self.place {
            Place::Scalar(map) => map.span(range),
            Place::File(file) => Span::new(*file, range),
        }
    }

    /// The variables that the step itself sets for it.
    pub fn env(&self) -> Vec<&str> {
        match self.step.arg("env").map(|env| &env.kind) {
            Some(ArgKind::Record(env)) => env.iter().map(|(name, _)| name.value.as_str()).collect(),
            _ => Vec::new(),
        }
    }

    /// The variables of a shell script.
    pub fn variables(&self) -> Variables {
        let Some(shell) = &self.shell else { return Variables::default() };
        let nodes = shell.nodes().filter(|node| node.kind() == "variable_name" && !shell.text(*node).contains(HOLE));
        // `NAME=value program` only affects the program.
        let nodes: Vec<_> = nodes.filter(|node| assignment(*node).is_none_or(|a| !has_parent(a, "command"))).collect();
        let mut found = Variables::default();
        for node in &nodes {
            let name = shell.text(*node);
            let of_name = || nodes.iter().filter(|other| shell.text(**other) == name);
            let is_own = of_name().next().and_then(|first| assignment(*first)).is_some_and(|assigned| {
                let within = assigned.byte_range();
                is_certain(assigned) && of_name().filter(|other| within.contains(&other.start_byte())).count() == 1
            });
            match is_own {
                true if !found.own.iter().any(|own| own == name) => found.own.push(name.to_owned()),
                true => {}
                false => found.given.push((name.to_owned(), node.byte_range())),
            }
        }
        found
    }

    /// A place where the script, or a file that it names, may use a variable of this name in a way that is not
    /// analyzed.
    pub fn doubt(&self, name: &str, reading: &Reading, files: &dyn Files) -> Option<Span> {
        let Some(shell) = &self.shell else { return mentions(&self.text, name).next().map(|range| self.span(range)) };
        let comments = shell.of_kind("comment");
        let unclear = mentions(&self.text, name).find(|range| {
            let node = shell.root().descendant_for_byte_range(range.start, range.end);
            let (before, behind) = (&self.text[..range.start], &self.text[range.end..]);
            let is = |kind| node.is_some_and(|node| node.kind() == kind && node.byte_range() == *range);
            let quoted = ['\'', '"'].iter().any(|quote| before.ends_with(*quote) && behind.starts_with(*quote));
            let read = ["$", "${", "env.", "ENV."].iter().any(|mark| before.ends_with(mark));
            let noted = comments.iter().any(|comment| comment.byte_range().contains(&range.start));
            !noted && !is("variable_name") && (quoted || read || is("word"))
        });
        unclear.map(|range| self.span(range)).or_else(|| self.beside(name, reading, files))
    }

    /// The same in a file that the script names: a program, or what it reads with `source`.
    fn beside(&self, name: &str, reading: &Reading, files: &dyn Files) -> Option<Span> {
        let shell = self.shell.as_ref()?;
        let words = shell.nodes().filter(|node| matches!(node.kind(), "word" | "string" | "concatenation"));
        for word in words {
            let text = shell.text(word).trim_matches('"');
            // `$(dirname "$0")/lib.sh`, `$HERE/lib.sh`
            let path = match text.contains('$') {
                true => text.rsplit([')', '}']).next().and_then(|rest| Some(rest.split_once('/')?.1)),
                false => Some(text).filter(|text| text.contains(['.', '/'])),
            };
            let Some(path) = path.filter(|path| !path.is_empty() && !path.contains(['\n', HOLE])) else { continue };
            let path = resolve(&self.dir, path);
            let is_file = matches!(files.stat(&path), Some(Stat::File { .. }));
            let text =
                is_file.then(|| files.read(&path).ok()).flatten().and_then(|bytes| String::from_utf8(bytes).ok());
            let Some(text) = text else { continue };
            let mentioned = mentions(&text, name).next();
            if let Some(range) = mentioned {
                return Some(Span::new(reading.sources.add(path, text), range));
            }
        }
        None
    }
}

/// The occurrences of a word in a text.
fn mentions<'t>(text: &'t str, word: &'t str) -> impl Iterator<Item = Range<usize>> + 't {
    let inside = |letter: char| letter.is_alphanumeric() || letter == '_';
    let found = text.match_indices(word).map(|(at, _)| at..at + word.len());
    found.filter(move |range| !text[..range.start].ends_with(inside) && !text[range.end..].starts_with(inside))
}

/// The node that assigns the variable at a node: `NAME=value`, `for NAME in …`.
fn assignment(node: tree_sitter::Node<'_>) -> Option<tree_sitter::Node<'_>> {
    let parent = node.parent()?;
    let assigns = match parent.kind() {
        "variable_assignment" => parent.child_by_field_name("name") == Some(node),
        "for_statement" => parent.child_by_field_name("variable") == Some(node),
        _ => false,
    };
    assigns.then_some(parent)
}

fn has_parent(node: tree_sitter::Node<'_>, kind: &str) -> bool {
    node.parent().is_some_and(|parent| parent.kind() == kind)
}

/// Whether a statement is executed whatever happens before it.
fn is_certain(node: tree_sitter::Node<'_>) -> bool {
    let Some(parent) = node.parent() else { return true };
    match parent.kind() {
        "program" => true,
        "declaration_command" | "variable_assignments" => is_certain(parent),
        "list" => parent.child(0) == Some(node) && is_certain(parent),
        _ => false,
    }
}
