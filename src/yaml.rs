//! Parses YAML with positions: text becomes a [`Tree`] of nodes, each of which knows its bytes in the source.
//!
//! The schema is YAML 1.2's core schema. Aliases and merge keys are resolved here, within a budget, so that modules
//! above this one do not see them. `granit-parser` scans; the arena, the types, the merging and the messages are ours.

mod cooked;
mod parse;
mod scalar;
mod syntax;
mod write;

use std::{ops::Range, path::Path, sync::Arc};

pub use cooked::SourceMap;
pub use parse::parse;
pub use scalar::{Yaml11, yaml11};
pub use syntax::{Undecodable, decode_utf8, quoted};
pub use write::write;

use crate::{
    diagnostic::{Diagnostic, Diagnostics},
    source::{FileId, Sources, Span},
    ty::number,
};
use scalar::Core;

crate::rule! {
    pub static SYNTAX = "syntax", Hard;
    pub static UNQUOTED_HOLE = "unquoted-hole", Hard;
    pub static DUPLICATE_KEY = "duplicate-key", Hard;
    pub static SECOND_DOCUMENT = "second-document", Hard;
    pub static NON_STRING_KEY = "non-string-key", Hard;
    pub static UNKNOWN_ANCHOR = "unknown-anchor", Hard;
    pub static UNKNOWN_TAG = "unknown-tag", Hard;
    pub static ALIAS_EXPANSION = "alias-expansion", Hard;
    pub static MERGE_KEY = "merge-key", Hard;
    pub static NESTING = "nesting", Hard;
    pub static YAML_1_1_WORD = "yaml-1-1-word", Warning;
}

/// A parsed document. It shares its text with the source, and borrows nothing.
#[derive(Clone, Debug)]
pub struct Tree {
    file: FileId,
    text: Arc<str>,
    /// The texts of scalars whose value differs from their source (escapes, folding, indentation), concatenated.
    cooked: String,
    nodes: Vec<Raw>,
    /// The items of lists, and the alternating keys and values of mappings.
    children: Vec<u32>,
    comments: Vec<Comment>,
    root: u32,
}

/// A comment, from its `#` to the end of its line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Comment {
    pub span: Span,
    /// The text after the `#`.
    pub text: String,
}

#[derive(Clone, Copy, Debug)]
struct Raw {
    start: u32,
    end: u32,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Scalar(Scalar),
    Seq {
        first: u32,
        len: u32,
        flow: bool,
    },
    /// `len` counts entries, each of which has two children.
    Map {
        first: u32,
        len: u32,
        flow: bool,
    },
    /// Points at a node that is neither an alias nor an ancestor of this one.
    Alias(u32),
    /// An alias that was reported as an error. Such a tree never leaves this module.
    Bad,
}

#[derive(Clone, Copy, Debug)]
struct Scalar {
    /// Where the text starts: in the source if `verbatim`, otherwise in `Tree::cooked`.
    offset: u32,
    len: u32,
    verbatim: bool,
    tagged: bool,
    style: Style,
    core: Core,
}

/// How a node is written.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Style {
    Plain,
    SingleQuoted,
    DoubleQuoted,
    /// A block after `|`.
    Literal,
    /// A block after `>`.
    Folded,
    /// A collection in brackets.
    Flow,
    /// An indented collection.
    Block,
}

/// What a node is, according to YAML 1.2's core schema.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Data<'t> {
    Null,
    Bool(bool),
    Int(i64),
    /// Includes integers beyond `i64`.
    Float(f64),
    Str(&'t str),
    Seq,
    Map,
}

/// A handle to a node of a [`Tree`]. An alias behaves like the node it repeats; only [`Node::span`], [`Node::written`],
/// [`Node::column`] and [`Node::is_alias`] distinguish them.
#[derive(Clone, Copy, Debug)]
pub struct Node<'t> {
    tree: &'t Tree,
    /// The node as written, which may be an alias.
    id: u32,
}

/// A key and its value.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'t> {
    pub key: Node<'t>,
    pub name: &'t str,
    pub value: Node<'t>,
}

impl Tree {
    /// Returns the node of the whole document.
    pub fn root(&self) -> Node<'_> {
        Node { tree: self, id: self.root }
    }

    /// Returns the file that was parsed.
    pub fn file(&self) -> FileId {
        self.file
    }

    /// Returns the node written at `span`.
    pub fn node_at(&self, span: Span) -> Option<Node<'_>> {
        if self.file != span.file {
            return None;
        }
        // Nodes are ordered by start.
        let first = self.nodes.partition_point(|raw| raw.start < span.start);
        let here = self.nodes[first..].iter().take_while(|raw| raw.start == span.start);
        let id = first + here.into_iter().position(|raw| raw.end == span.end)?;
        Some(Node { tree: self, id: u32::try_from(id).ok()? })
    }

    /// Returns the mapping that has the key written at `span`.
    pub fn mapping_of(&self, key: Span) -> Option<Node<'_>> {
        let holds = |node: &Node<'_>| node.entries().any(|e| e.key.span() == key);
        let mut nodes = (0..self.nodes.len() as u32).map(|id| Node { tree: self, id });
        (self.file == key.file).then(|| nodes.find(holds))?
    }

    /// Returns the comments of the document, in the order of the text.
    pub fn comments(&self) -> &[Comment] {
        &self.comments
    }

    fn text_of(&self, scalar: &Scalar) -> &str {
        let range = scalar.offset as usize..(scalar.offset + scalar.len) as usize;
        if scalar.verbatim { &self.text[range] } else { &self.cooked[range] }
    }
}

impl<'t> Node<'t> {
    /// Returns what the node is; aliases are followed.
    pub fn data(self) -> Data<'t> {
        match self.kind() {
            Kind::Scalar(s) => scalar::data(s.core, self.tree.text_of(s)),
            Kind::Seq { .. } => Data::Seq,
            Kind::Map { .. } => Data::Map,
            Kind::Alias(_) | Kind::Bad => Data::Null,
        }
    }

    /// Returns the span of the value as written, without its tag and anchor.
    ///
    /// * Quoted scalars include their quotes.
    /// * Block scalars extend from `|` or `>` to the end of their last line that is not blank, without its line break.
    /// * Flow collections include their brackets; block collections extend from their first key or dash to the end of
    ///   their last child.
    /// * An implicit null is the empty span directly after its key's colon (in a list, after its dash).
    /// * An alias is the `*name`; its children, and the result of [`Node::cooked`], are located at the anchor.
    pub fn span(self) -> Span {
        let raw = &self.tree.nodes[self.id as usize];
        Span::new(self.tree.file, raw.start as usize..raw.end as usize)
    }

    /// Returns the text of [`Node::span`].
    pub fn written(self) -> &'t str {
        &self.tree.text[self.span().range()]
    }

    /// Returns the number of characters before the node on its line.
    pub fn column(self) -> usize {
        let before = &self.tree.text[..self.span().start as usize];
        before.rsplit('\n').next().unwrap_or(before).trim_start_matches('\u{feff}').chars().count()
    }

    /// Returns the text of a string; `None` for numbers, booleans and null.
    pub fn as_str(self) -> Option<&'t str> {
        match self.kind() {
            Kind::Scalar(s) if s.core == Core::Str => Some(self.tree.text_of(s)),
            _ => None,
        }
    }

    /// Returns the text of a scalar of any type, with escapes resolved and lines folded. The text of an implicit null is
    /// empty.
    pub fn text(self) -> Option<&'t str> {
        match self.kind() {
            Kind::Scalar(s) => Some(self.tree.text_of(s)),
            _ => None,
        }
    }

    /// Whether this is a scalar without quotes or block header.
    pub fn is_plain(self) -> bool {
        self.style() == Style::Plain
    }

    /// Returns how the node is written. An alias has the style of the node it repeats.
    pub fn style(self) -> Style {
        match self.kind() {
            Kind::Scalar(s) => s.style,
            Kind::Seq { flow: true, .. } | Kind::Map { flow: true, .. } => Style::Flow,
            Kind::Seq { .. } | Kind::Map { .. } => Style::Block,
            Kind::Alias(_) | Kind::Bad => Style::Plain,
        }
    }

    /// Whether the node is written as `*name`.
    pub fn is_alias(self) -> bool {
        matches!(self.tree.nodes[self.id as usize].kind, Kind::Alias(_))
    }

    /// Whether this is a null that is not written.
    pub fn is_implicit_null(self) -> bool {
        matches!(self.kind(), Kind::Scalar(s) if s.core == Core::Null && s.len == 0)
    }

    /// Returns the kind of value, for messages: `a mapping`, `a string`, …
    pub fn describe(self) -> &'static str {
        match self.data() {
            Data::Null => "null",
            Data::Bool(_) => "a boolean",
            Data::Int(_) | Data::Float(_) => "a number",
            Data::Str(_) => "a string",
            Data::Seq => "a list",
            Data::Map => "a mapping",
        }
    }

    /// Returns the items of a list; nothing for any other node.
    pub fn items(self) -> impl ExactSizeIterator<Item = Node<'t>> + DoubleEndedIterator + use<'t> {
        let tree = self.tree;
        let ids: &'t [u32] = match self.kind() {
            Kind::Seq { first, len, .. } => &tree.children[*first as usize..(first + len) as usize],
            _ => &[],
        };
        ids.iter().map(move |&id| Node { tree, id })
    }

    /// Returns the entries of a mapping in order, those of merge keys last; nothing for any other node. Keys are unique
    /// strings: any others were reported.
    pub fn entries(self) -> impl ExactSizeIterator<Item = Entry<'t>> + DoubleEndedIterator + use<'t> {
        let tree = self.tree;
        let ids: &'t [u32] = match self.kind() {
            Kind::Map { first, len, .. } => &tree.children[*first as usize..(first + 2 * len) as usize],
            _ => &[],
        };
        ids.chunks_exact(2).map(move |pair| {
            let key = Node { tree, id: pair[0] };
            Entry { key, name: key.text().unwrap_or(""), value: Node { tree, id: pair[1] } }
        })
    }

    /// Returns the entry of a mapping with this key; keys are compared as written.
    pub fn entry(self, name: &str) -> Option<Entry<'t>> {
        self.entries().find(|e| e.name == name)
    }

    /// Returns the value of a mapping's entry.
    pub fn get(self, name: &str) -> Option<Node<'t>> {
        self.entry(name).map(|e| e.value)
    }

    /// Returns what to delete to remove one of several entries of a mapping, including its line if no other entry shares
    /// it.
    pub fn without(self, entry: Entry<'t>) -> Option<Span> {
        let at = self.entries().position(|e| e.key.span() == entry.key.span())?;
        let (start, end) = (entry.key.span(), entry.value.span());
        if start.file != end.file || end.start < start.end || self.is_alias() {
            return None;
        }
        let (text, file) = (&self.tree.text, self.tree.file);
        let next = self.entries().nth(at + 1).map(|e| e.key.span().start).filter(|next| *next >= end.end);
        let before = at.checked_sub(1).and_then(|at| self.entries().nth(at)).map(|e| e.value.span().end);
        let range = match (self.style(), next, before) {
            (Style::Flow, Some(next), _) => start.start as usize..next as usize,
            (Style::Flow, None, Some(before)) => before as usize..end.end as usize,
            (Style::Block, next, before) if next.is_some() || before.is_some() => {
                let line = text[..start.start as usize].rfind('\n').map_or(0, |at| at + 1);
                let rest = &text[end.end as usize..];
                let stop = end.end as usize + rest.find('\n').map_or(rest.len(), |at| at + 1);
                let alone =
                    text[line..start.start as usize].trim_start_matches('\u{feff}').trim_matches(' ').is_empty();
                match (alone, next) {
                    (true, _) => line..stop,
                    // After the dash of a list item: the next entry takes its place, unless there is something else
                    // between them.
                    (false, Some(next)) if text[end.end as usize..next as usize].trim().is_empty() => {
                        start.start as usize..next as usize
                    }
                    _ => return None,
                }
            }
            _ => return None,
        };
        Some(Span::new(file, range))
    }

    /// Returns how many items or entries a collection has; 0 for scalars.
    pub fn len(self) -> usize {
        match self.kind() {
            Kind::Seq { len, .. } | Kind::Map { len, .. } => *len as usize,
            _ => 0,
        }
    }

    /// Whether a list or mapping has no items.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Returns the smallest range of the source that contains a byte range of [`Node::text`]. An empty range gives an
    /// empty span. Callers that need many ranges of one long scalar should get its [`Node::source_map`] once.
    pub fn cooked(self, range: Range<usize>) -> Span {
        self.source_map().span(range)
    }

    /// Returns the map from the bytes of [`Node::text`] to those of the source.
    pub fn source_map(self) -> SourceMap {
        let target = self.target();
        let Raw { start, end, kind } = self.tree.nodes[target as usize];
        let span = Span::new(self.tree.file, start as usize..end as usize);
        match kind {
            Kind::Scalar(s) if s.verbatim => SourceMap::verbatim(span, s.offset as usize, s.len as usize),
            Kind::Scalar(s) => SourceMap::new(span, s.style, &self.tree.text, self.tree.text_of(&s)),
            _ => SourceMap::opaque(span),
        }
    }

    /// Returns a number as JSON has it, exactly as written; `None` for `.inf` and `.nan`, and for anything that is not a
    /// number.
    pub fn number(self) -> Option<serde_json::Number> {
        match self.data() {
            Data::Int(_) | Data::Float(_) => scalar::exact(self.text()?),
            _ => None,
        }
    }

    /// Returns the value as JSON, with aliases expanded. Numbers that JSON lacks (`.inf`, `.nan`) become their text.
    pub fn to_json(self) -> serde_json::Value {
        match self.data() {
            Data::Null => serde_json::Value::Null,
            Data::Bool(b) => b.into(),
            Data::Int(i) => i.into(),
            Data::Float(_) => self.number().map_or_else(|| self.text().unwrap_or("").into(), serde_json::Value::Number),
            Data::Str(s) => s.into(),
            // `parse` bounds the depth of trees, aliases included, and their expanded size.
            Data::Seq => self.items().map(Node::to_json).collect(),
            Data::Map => {
                serde_json::Value::Object(self.entries().map(|e| (e.name.to_owned(), e.value.to_json())).collect())
            }
        }
    }

    /// Returns the value as JSON, as tools read it that are based on Go's yaml.v2 ([`yaml11`]).
    pub fn to_manifest(self) -> serde_json::Value {
        let word = |node: Node<'_>| match node.kind() {
            Kind::Scalar(Scalar { style: Style::Plain, tagged: false, len: 1.., .. }) => yaml11(node.text()?),
            _ => None,
        };
        if let Some(read) = word(self) {
            return match read {
                Yaml11::Bool(value) => value.into(),
                Yaml11::Octal(number) | Yaml11::Int(number) => number.into(),
                Yaml11::Float(number) => of_go(number).map_or_else(|| number.into(), serde_json::Value::Number),
            };
        }
        match self.data() {
            // A large integer stays one.
            Data::Float(number) if self.text().is_some_and(|text| text.parse::<u64>().is_err()) => {
                of_go(number).map_or_else(|| self.to_json(), serde_json::Value::Number)
            }
            Data::Seq => self.items().map(Node::to_manifest).collect(),
            Data::Map => {
                let name = |entry: &Entry<'_>| match word(entry.key) {
                    Some(Yaml11::Bool(value)) => value.to_string(),
                    Some(Yaml11::Octal(number) | Yaml11::Int(number)) => number.to_string(),
                    Some(Yaml11::Float(_)) | None => entry.name.to_owned(),
                };
                let fields = self.entries().map(|entry| (name(&entry), entry.value.to_manifest())).collect();
                serde_json::Value::Object(fields)
            }
            _ => self.to_json(),
        }
    }

    /// Returns the span of a flow mapping that can be read as a template without quotes: `{NAME}`, `{NAME.segment}`,
    /// `{NAME.segment | filter}`. [`parse`] reports those with a dotted path from a root of the language and makes them
    /// strings. A bare `{name}` is also a YAML mapping with one key, so only a caller that expected a string can decide.
    pub fn unquoted_hole(self) -> Option<Span> {
        let span = self.span();
        let holds_nulls = || self.entries().all(|e| e.value.is_implicit_null());
        let text = &self.tree.text[span.range()];
        let is_map = matches!(self.kind(), Kind::Map { flow: true, .. }) && !self.is_alias();
        (is_map && syntax::hole(text).is_some_and(|h| h.len == text.len()) && holds_nulls()).then_some(span)
    }

    /// Returns the error for a node that is an unquoted hole (see [`Node::unquoted_hole`]) where a string was expected.
    pub fn unquoted_hole_error(self) -> Option<Diagnostic> {
        let span = self.unquoted_hole()?;
        Some(syntax::unquoted_hole(span, &self.tree.text[span.range()]))
    }

    /// Returns an identity within the tree: that of the repeated node for an alias.
    fn target(self) -> u32 {
        match self.tree.nodes[self.id as usize].kind {
            Kind::Alias(target) => target,
            _ => self.id,
        }
    }

    fn kind(self) -> &'t Kind {
        &self.tree.nodes[self.target() as usize].kind
    }
}

/// The documents of a manifest as JSON, as `kubectl` reads them: plain words as in YAML 1.1, in values and keys.
///
/// # Errors
/// Why a document cannot be read, with its line in the text.
pub fn manifests(text: &str) -> Result<Vec<serde_json::Value>, String> {
    let separates = |line: &str| {
        line.strip_prefix("---").is_some_and(|rest| rest.trim_end().is_empty() || rest.trim_start().starts_with('#'))
    };
    // Each document, and the number of lines before it.
    let mut documents = vec![(0, String::new())];
    for (nth, line) in text.split_inclusive('\n').enumerate() {
        match documents.last_mut() {
            Some((_, document)) if !separates(line) => document.push_str(line),
            _ => documents.push((nth + 1, String::new())),
        }
    }
    let mut found = Vec::new();
    for (before, document) in documents {
        let is_empty = document.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'));
        if is_empty {
            continue;
        }
        let (sources, mut out) = (Sources::default(), Diagnostics::default());
        let file = sources.add(Path::new("manifest.yaml"), document.as_str());
        match parse(file, document.as_str(), &mut out) {
            Ok(tree) if !out.has_error() => found.push(tree.root().to_manifest()),
            _ => {
                let first = out.iter().next();
                let text = first.and_then(|fault| document.get(..fault.span.start as usize)).unwrap_or_default();
                let line = before + text.matches('\n').count() + 1;
                return Err(format!("line {line}: {}", first.map_or("it is not YAML", |fault| fault.message.as_str())));
            }
        }
    }
    Ok(found)
}

/// A number as Go sends it: `1e3` and `2.0` are integers.
fn of_go(number: f64) -> Option<serde_json::Number> {
    number.is_finite().then(|| number::go_json(number).parse().ok()).flatten()
}

/// Warns about plain words, in values and keys, that YAML 1.1 tools (Go's yaml.v2) read as something else.
pub fn yaml11_words(tree: &Tree, out: &mut Diagnostics) {
    for raw in &tree.nodes {
        let Kind::Scalar(Scalar { style: Style::Plain, tagged: false, len: 1.., .. }) = raw.kind else { continue };
        let Kind::Scalar(scalar) = &raw.kind else { continue };
        let text = tree.text_of(scalar);
        let Some(reading) = yaml11(text) else { continue };
        let theirs = match reading {
            Yaml11::Bool(b) => format!("the boolean `{b}`"),
            Yaml11::Octal(i) | Yaml11::Int(i) => format!("the number `{i}`"),
            Yaml11::Float(f) => format!("the number `{f}`"),
        };
        let ours = match scalar::data(scalar.core, text) {
            Data::Int(i) => format!("the number `{i}`"),
            Data::Float(f) => format!("the number `{f}`"),
            _ => "a string".to_owned(),
        };
        let span = Span::new(tree.file, raw.start as usize..raw.end as usize);
        out.push(
            Diagnostic::new(&YAML_1_1_WORD, span, format!("YAML 1.1 tools read `{text}` as {theirs}"))
                .here(format!("gevals reads it as {ours}"))
                .help("quote it, so that every tool reads the same text")
                .fix("quote it", span, quoted(text)),
        );
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What `kubectl create --dry-run=client -o json` prints for these.
    #[test]
    fn manifests_are_read_as_by_kubectl() {
        let text = "# first\n---\nmode: 0400\nold: 0o17\nyes: [on, 'off', n, 1_000, \"012\", 08]\nid: 2020-01-01\n\
                    base: &base {a: 1, b: 2}\nmore: {<<: *base, b: 3}\n--- # second\n---\n{\"json\": true, \"n\": 1.50}\n";
        let found = manifests(text).unwrap();
        let first = json!({ "mode": 256, "old": 15, "true": [true, "off", false, 1000, "012", 8], "id": "2020-01-01",
            "base": {"a": 1, "b": 2}, "more": {"a": 1, "b": 3} });
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found[0], first);
        assert_eq!(found[1]["json"], json!(true));
        let numbers = manifests("[1e3, 2.0, .5, 0.50, 1e21, 1.5e-7, 18446744073709551615, -1.0]").unwrap();
        assert_eq!(numbers[0].to_string(), "[1000,2,0.5,0.5,1e+21,1.5e-7,18446744073709551615,-1]");

        assert_eq!(manifests("a: 1\n---\nb: [\n").unwrap_err().split(':').next(), Some("line 3"));
        assert_eq!(manifests("").unwrap(), Vec::<serde_json::Value>::new());
    }
}
