//! Builds the arena from the parser's events, and reports what YAML allows and gevals does not.

use std::{
    collections::{HashMap, HashSet},
    ops::Range,
    sync::Arc,
};

use granit_parser::{Event, Parser, ScalarStyle, ScanError, StructureStyle, Tag};

use super::{
    ALIAS_EXPANSION, Comment, DUPLICATE_KEY, Kind, MERGE_KEY, NESTING, NON_STRING_KEY, Raw, SECOND_DOCUMENT, SYNTAX,
    Scalar, Style, Tree, UNKNOWN_ANCHOR, UNKNOWN_TAG, quoted,
    scalar::{Core, core},
    syntax::{self, Place},
};
use crate::{
    diagnostic::{Diagnostic, Diagnostics, Reported, nearest},
    source::{FileId, Span},
};

/// How many nodes aliases and merge keys may add to a document.
const EXPANSION_BUDGET: u64 = 1_000_000;

/// How deep a tree may be with its aliases followed, because functions recurse over it. The parser limits the depth of
/// what is written without aliases.
const DEPTH_LIMIT: u32 = 600;

/// Parses a file with one document. Reports everything it finds: at most one syntax error for each document, and all
/// other errors.
///
/// Returns a tree even if it reported duplicate keys (the first one is used), keys that are not strings (left out),
/// unknown tags (ignored), templates without quotes (read as strings) or further documents (ignored). An empty file is
/// a null.
///
/// # Errors
/// There is no usable tree: the text is not YAML, or is invalid by the rules of gevals. `out` contains the reason.
pub fn parse(file: FileId, text: impl Into<Arc<str>>, out: &mut Diagnostics) -> Result<Tree, Reported> {
    read(file, &text.into(), out)
}

fn read(file: FileId, text: &Arc<str>, out: &mut Diagnostics) -> Result<Tree, Reported> {
    if u32::try_from(text.len()).is_err() {
        let start = Span::new(file, 0..0);
        return Err(out.error(Diagnostic::new(&SYNTAX, start, "this file is larger than 4 GiB")));
    }
    let options = granit_parser::options! {
        strict_indentation: true,
        emit_unresolved_aliases: true,
        emit_anchor_events: true,
        max_buffered_comment_events: 1 << 20,
    };
    let mut events = Parser::new_from_str_with_options(text, options);
    let mut builder = Builder::new(file, text);
    let mut documents = 0;
    let mut first = None;
    let mut later = Vec::new();
    loop {
        match events.next() {
            Some(Ok((Event::DocumentStart(..), span))) => {
                documents += 1;
                if documents > 1 {
                    later.push(builder.span(&span));
                }
            }
            Some(Ok((Event::DocumentEnd, _))) => {
                let root = builder.finish(out);
                if documents == 1 {
                    first = Some(root.map(|root| builder.tree(root)));
                }
                builder.clear();
            }
            Some(Ok((event, span))) => builder.event(event, &span, out),
            Some(Err(error)) => {
                documents = documents.max(1);
                let reported = builder.syntax_error(&error, out);
                if documents == 1 {
                    first = Some(Err(reported));
                }
                builder.clear();
                if !matches!(events.proceed_next_document(), Ok(true)) {
                    break;
                }
            }
            None => break,
        }
    }
    if let Some(&second) = later.first() {
        let d = Diagnostic::new(&SECOND_DOCUMENT, second, "a second document starts here")
            .help("put each document into its own file");
        out.error(later[1..].iter().fold(d, |d, &span| d.label(span, "another document")));
    }
    first.unwrap_or_else(|| {
        let root = builder.push(text.len(), text.len(), NOTHING);
        Ok(builder.tree(root))
    })
}

const NOTHING: Kind =
    Kind::Scalar(Scalar { offset: 0, len: 0, verbatim: true, tagged: false, style: Style::Plain, core: Core::Null });

struct Builder<'a> {
    file: FileId,
    text: &'a Arc<str>,
    cooked: String,
    nodes: Vec<Raw>,
    children: Vec<u32>,
    comments: Vec<Comment>,
    /// The collections that are open, innermost last.
    open: Vec<Open>,
    /// The children so far of the open collections, in order. Those of the document are first.
    pending: Vec<u32>,
    /// By the parser's numbers, which continue through all documents.
    anchors: HashMap<usize, Anchor>,
    anchor_names: Vec<String>,
    /// Aliases without an earlier anchor: the tree cannot be used.
    unknown: Vec<(Span, String)>,
    /// Templates that were read as mappings. One may turn out to be the start of a syntax error.
    holes: Vec<Diagnostic>,
    /// Block scalars, whose headers are searched for when all comments are known.
    blocks: Vec<u32>,
    /// How many nodes the aliases so far stand for.
    expanded: u64,
    /// Set if the tree would be misleading.
    fatal: Option<Reported>,
    last_end: usize,
}

struct Open {
    node: u32,
    flow: bool,
    /// Where its children start in `pending`.
    from: usize,
    anchor: usize,
    size: Size,
}

/// The size of a node when its aliases are followed.
#[derive(Clone, Copy)]
struct Size {
    nodes: u64,
    depth: u32,
}

enum Anchor {
    /// Its node is not complete: an alias to it would be endless.
    Open,
    Closed(u32, Size),
}

impl<'a> Builder<'a> {
    fn new(file: FileId, text: &'a Arc<str>) -> Self {
        Self {
            file,
            text,
            cooked: String::new(),
            nodes: Vec::with_capacity(text.len() / 24),
            children: Vec::with_capacity(text.len() / 24),
            comments: Vec::new(),
            open: Vec::new(),
            pending: Vec::new(),
            anchors: HashMap::new(),
            anchor_names: Vec::new(),
            unknown: Vec::new(),
            holes: Vec::new(),
            blocks: Vec::new(),
            expanded: 0,
            fatal: None,
            last_end: 0,
        }
    }

    /// Resets the state for the next document.
    fn clear(&mut self) {
        self.cooked.clear();
        self.nodes.clear();
        self.children.clear();
        self.comments.clear();
        self.open.clear();
        self.pending.clear();
        self.anchors.clear();
        self.anchor_names.clear();
        self.unknown.clear();
        self.holes.clear();
        self.blocks.clear();
        self.expanded = 0;
        self.fatal = None;
    }

    fn tree(&mut self, root: u32) -> Tree {
        // Thousands of trees are kept in memory.
        self.nodes.shrink_to_fit();
        self.children.shrink_to_fit();
        self.cooked.shrink_to_fit();
        Tree {
            file: self.file,
            text: Arc::clone(self.text),
            cooked: std::mem::take(&mut self.cooked),
            nodes: std::mem::take(&mut self.nodes),
            children: std::mem::take(&mut self.children),
            comments: std::mem::take(&mut self.comments),
            root,
        }
    }

    fn event(&mut self, event: Event<'_>, span: &granit_parser::Span, out: &mut Diagnostics) {
        let range = span.byte_range().unwrap_or(0..0);
        let tag = |builder: &Self| span.tag_span().map_or_else(|| builder.span(span), |s| builder.span(&s));
        match event {
            Event::Comment(text, _) => {
                self.comments.push(Comment { span: self.span(span), text: text.into_owned() });
                return;
            }
            Event::Anchor(_, name) => {
                self.anchor_names.push(name.into_owned());
                return;
            }
            Event::Scalar(text, style, anchor, written_tag) => {
                let id = self.scalar(&text, style, range.clone(), written_tag.as_deref(), tag(self), out);
                let size = Size { nodes: 1, depth: 1 };
                if anchor != 0 {
                    self.anchors.insert(anchor, Anchor::Closed(id, size));
                }
                self.child(id, size);
            }
            Event::SequenceStart(style, anchor, written_tag) => {
                self.check_collection_tag(written_tag.as_deref(), "seq", tag(self), out);
                self.start(style, anchor, range.start);
            }
            Event::MappingStart(style, anchor, written_tag) => {
                self.check_collection_tag(written_tag.as_deref(), "map", tag(self), out);
                self.start(style, anchor, range.start);
            }
            Event::SequenceEnd => self.end(range.end, false, out),
            Event::MappingEnd => self.end(range.end, true, out),
            Event::Alias(anchor) => self.alias(anchor, self.span(span), out),
            Event::UnresolvedAlias(name) => {
                self.unknown.push((self.span(span), name.into_owned()));
                self.bad(range.start, range.end);
            }
            _ => {}
        }
        self.last_end = range.end;
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        range: Range<usize>,
        tag: Option<&Tag>,
        tag_span: Span,
        out: &mut Diagnostics,
    ) -> u32 {
        let style = match style {
            ScalarStyle::Plain => Style::Plain,
            ScalarStyle::SingleQuoted => Style::SingleQuoted,
            ScalarStyle::DoubleQuoted => Style::DoubleQuoted,
            ScalarStyle::Literal => Style::Literal,
            ScalarStyle::Folded => Style::Folded,
        };
        // The parser returns an implicit null as `~`.
        let text = if style == Style::Plain && range.is_empty() { "" } else { text };
        let plain = if style == Style::Plain { core(text) } else { Core::Str };
        let core = match tag {
            None => plain,
            Some(tag) => self.tagged(tag, text, style, tag_span, out),
        };
        let inner = match style {
            Style::Plain => range.start,
            _ => range.start + 1,
        };
        let verbatim = !matches!(style, Style::Literal | Style::Folded)
            && self.text.get(inner..inner + text.len()) == Some(text)
            && inner + text.len() + usize::from(style != Style::Plain) == range.end;
        let offset = if verbatim {
            inner
        } else {
            self.cooked.push_str(text);
            self.cooked.len() - text.len()
        };
        let scalar =
            Scalar { offset: offset as u32, len: text.len() as u32, verbatim, tagged: tag.is_some(), style, core };
        if !matches!(style, Style::Literal | Style::Folded) {
            return self.push(range.start, range.end, Kind::Scalar(scalar));
        }
        let content = self.text[range.clone()].trim_end_matches([' ', '\t', '\n', '\r']);
        let end = if content.is_empty() {
            self.text[..range.start].trim_end_matches([' ', '\t', '\n', '\r']).len()
        } else {
            let end = range.start + content.len();
            self.text[end..].find(['\n', '\r']).map_or(self.text.len(), |i| end + i)
        };
        let id = self.push(range.start.min(end), end, Kind::Scalar(scalar));
        self.blocks.push(id);
        id
    }

    /// Returns the type that a tag gives a scalar.
    fn tagged(&self, tag: &Tag, text: &str, style: Style, span: Span, out: &mut Diagnostics) -> Core {
        let written = || self.text[span.range()].to_owned();
        let by_schema = core(text);
        match tag.core_suffix() {
            Some("str") => Core::Str,
            Some("null") if by_schema == Core::Null => Core::Null,
            Some("bool") if by_schema == Core::Bool => Core::Bool,
            Some("int") if by_schema == Core::Int => Core::Int,
            Some("float") if matches!(by_schema, Core::Int | Core::Float) => Core::Float,
            Some(_) => {
                out.error(
                    Diagnostic::new(&UNKNOWN_TAG, span, format!("`{text}` does not match its tag `{}`", written()))
                        .help("remove the tag, or write a value of its type"),
                );
                Core::Str
            }
            None if tag.handle() == "!" && tag.suffix().is_empty() => Core::Str,
            None if text == "<<" && tag.suffix_in_namespace("tag:yaml.org,2002:").as_deref() == Some("merge") => {
                Core::Str
            }
            None => {
                self.unknown_tag(span, out);
                if style == Style::Plain { by_schema } else { Core::Str }
            }
        }
    }

    fn check_collection_tag(&self, tag: Option<&Tag>, expected: &str, span: Span, out: &mut Diagnostics) {
        let Some(tag) = tag else { return };
        let unspecific = tag.handle() == "!" && tag.suffix().is_empty();
        if tag.core_suffix() != Some(expected) && !unspecific {
            self.unknown_tag(span, out);
        }
    }

    fn unknown_tag(&self, span: Span, out: &mut Diagnostics) {
        let tag = &self.text[span.range()];
        out.error(
            Diagnostic::new(&UNKNOWN_TAG, span, format!("the tag `{tag}` is not supported"))
                .help("remove it, or quote the value if the `!` is part of the text"),
        );
    }

    fn start(&mut self, style: StructureStyle, anchor: usize, start: usize) {
        let node = self.push(start, start, Kind::Bad);
        if anchor != 0 {
            self.anchors.insert(anchor, Anchor::Open);
        }
        let flow = style == StructureStyle::Flow;
        self.open.push(Open { node, flow, from: self.pending.len(), anchor, size: Size { nodes: 1, depth: 1 } });
    }

    fn end(&mut self, end: usize, is_map: bool, out: &mut Diagnostics) {
        let Some(open) = self.open.pop() else { return };
        // Taken out and put back, so that a collection needs no allocation of its own.
        let mut pending = std::mem::take(&mut self.pending);
        let children = &pending[open.from..];
        if is_map {
            self.place_implicit_values(children);
        }
        let start = self.nodes[open.node as usize].start as usize;
        let end = match children.last() {
            Some(&last) if !open.flow => self.nodes[last as usize].end as usize,
            _ => end,
        };
        self.nodes[open.node as usize].end = end.max(start) as u32;
        let first = self.children.len() as u32;
        let kind = if !is_map {
            self.children.extend_from_slice(children);
            Kind::Seq { first, len: children.len() as u32, flow: open.flow }
        } else if let Some(template) = self.unquoted_hole(&open, children, start..end) {
            template
        } else {
            self.entries(children, out);
            Kind::Map { first, len: (self.children.len() as u32 - first) / 2, flow: open.flow }
        };
        pending.truncate(open.from);
        self.pending = pending;
        self.nodes[open.node as usize].kind = kind;
        if open.anchor != 0 {
            self.anchors.insert(open.anchor, Anchor::Closed(open.node, open.size));
        }
        self.child(open.node, open.size);
    }

    /// A template that looks like a mapping: it is reported, and read as the string that was meant.
    fn unquoted_hole(&mut self, open: &Open, children: &[u32], range: Range<usize>) -> Option<Kind> {
        let text = &self.text[range.clone()];
        let values_absent = || children.chunks_exact(2).all(|pair| self.is_implicit_null(pair[1]));
        let is_template = open.flow
            && !children.is_empty()
            && syntax::hole(text).is_some_and(|h| h.len == text.len() && h.is_certain())
            && values_absent();
        is_template.then(|| {
            self.holes.push(syntax::unquoted_hole(Span::new(self.file, range.clone()), text));
            Kind::Scalar(Scalar {
                offset: range.start as u32,
                len: text.len() as u32,
                verbatim: true,
                tagged: true,
                style: Style::Plain,
                core: Core::Str,
            })
        })
    }

    /// Places implicit values directly after the colon of their key, or after the key if there is no colon.
    fn place_implicit_values(&mut self, children: &[u32]) {
        for pair in children.chunks_exact(2) {
            let [key, value] = [self.nodes[pair[0] as usize], self.nodes[pair[1] as usize]];
            let untagged = matches!(value.kind, Kind::Scalar(Scalar { tagged: false, .. }));
            if self.is_implicit_null(pair[1]) && untagged {
                let behind = &self.text[key.end as usize..];
                let colon = behind.trim_start_matches([' ', '\t', '\n', '\r']);
                let skipped = (behind.len() - colon.len()) as u32;
                let at = if colon.starts_with(':') { key.end + skipped + 1 } else { key.end };
                // After an anchor, the parser's position is better.
                if self.text[at as usize..].trim_start().starts_with('&') {
                    continue;
                }
                let node = &mut self.nodes[pair[1] as usize];
                (node.start, node.end) = (at, at);
            }
        }
    }

    /// Adds the final entries of a mapping: string keys, each once, then what its merge key adds.
    fn entries(&mut self, children: &[u32], out: &mut Diagnostics) {
        const FEW: usize = 12;
        let mut merge = None;
        let mut added = std::mem::take(&mut self.children);
        let first = added.len();
        let few = children.len() <= 2 * FEW;
        let mut seen: HashMap<&str, u32> = HashMap::with_capacity(if few { 0 } else { children.len() / 2 });
        for pair in children.chunks_exact(2) {
            let [key, value] = [pair[0], pair[1]];
            let Some((name, style)) = self.key(key, out) else { continue };
            let is_merge = name == "<<" && style == Style::Plain;
            let earlier = if is_merge {
                merge.map(|(key, _)| key)
            } else if few {
                added[first..].chunks_exact(2).map(|e| e[0]).find(|&e| self.scalar_text(e) == Some(name))
            } else {
                seen.get(name).copied()
            };
            if let Some(earlier) = earlier {
                let message = format!("duplicate key `{name}`");
                let help = if is_merge {
                    "to merge several mappings, use a single key: `<<: [*a, *b]`"
                } else {
                    "remove one of them, or rename it"
                };
                let d = Diagnostic::new(&DUPLICATE_KEY, self.node_span(key), message).here("again");
                out.error(d.label(self.node_span(earlier), "first used here").help(help));
            } else if is_merge {
                merge = Some((key, value));
            } else {
                if !few {
                    seen.insert(name, key);
                }
                added.extend([key, value]);
            }
        }
        self.children = added;
        if let Some((key, value)) = merge {
            self.merge(key, value, first, out);
        }
    }

    /// Returns the name of a key. A key that is not a string is reported.
    fn key(&self, id: u32, out: &mut Diagnostics) -> Option<(&str, Style)> {
        let span = self.node_span(id);
        let source = &self.text[span.range()];
        let what = match self.nodes[self.target(id) as usize].kind {
            Kind::Scalar(ref s) if s.core == Core::Str => return Some((self.text_of(s), s.style)),
            Kind::Bad => return None,
            Kind::Scalar(Scalar { core: Core::Null, .. }) if span.range().is_empty() => "nothing",
            Kind::Scalar(Scalar { core: Core::Null, .. }) => "null",
            Kind::Scalar(Scalar { core: Core::Bool, .. }) => "a boolean",
            Kind::Scalar(_) => "a number",
            Kind::Seq { .. } => "a list",
            _ => "a mapping",
        };
        let message = format!("a key must be a string, but this is {what}");
        let mut d = Diagnostic::new(&NON_STRING_KEY, span, message);
        d = match self.nodes[id as usize].kind {
            Kind::Scalar(Scalar { tagged: false, .. }) if !source.is_empty() => {
                d.help("quote it").fix("quote the key", span, quoted(source))
            }
            _ if source.starts_with('{') => d.help("quote the value if the brace starts a template"),
            _ if source.is_empty() => d.help("add a key before the colon"),
            _ => d.help("write a string"),
        };
        out.error(d);
        None
    }

    /// Adds to the entries from `first` on those of a merge key's value that they lack.
    fn merge(&mut self, key: u32, value: u32, first: usize, out: &mut Diagnostics) {
        let sources = match self.nodes[self.target(value) as usize].kind {
            Kind::Map { .. } => vec![value],
            Kind::Seq { first, len, .. } => self.children[first as usize..(first + len) as usize].to_vec(),
            _ => vec![value],
        };
        let mut merged = Vec::new();
        let (mut expanded, mut fatal) = (self.expanded, self.fatal);
        let own = self.children[first..].chunks_exact(2);
        let mut names: HashSet<&str> = own.filter_map(|e| self.scalar_text(e[0])).collect();
        for source in sources {
            match self.nodes[self.target(source) as usize].kind {
                Kind::Map { first, len, .. } => {
                    expanded = expanded.saturating_add(1 + u64::from(len));
                    if expanded > EXPANSION_BUDGET {
                        break;
                    }
                    let added = &self.children[first as usize..(first + 2 * len) as usize];
                    for entry in added.chunks_exact(2) {
                        if self.scalar_text(entry[0]).is_some_and(|name| names.insert(name)) {
                            merged.extend_from_slice(entry);
                        }
                    }
                }
                Kind::Bad => {}
                _ => {
                    fatal = Some(
                        out.error(
                            Diagnostic::new(
                                &MERGE_KEY,
                                self.node_span(source),
                                "`<<` merges mappings, but this is not a mapping",
                            )
                            .label(self.node_span(key), "merged by this key")
                            .help("use an alias of a mapping (`<<: *defaults`), or quote the key if it is text"),
                        ),
                    );
                }
            }
        }
        self.children.extend(merged);
        (self.expanded, self.fatal) = (expanded, fatal);
        self.check_budget(self.node_span(key), out);
    }

    fn alias(&mut self, anchor: usize, span: Span, out: &mut Diagnostics) {
        let range = span.range();
        let name = &self.text[range.clone()];
        match self.anchors.get(&anchor) {
            Some(&Anchor::Closed(node, size)) => {
                self.expanded = self.expanded.saturating_add(size.nodes);
                self.check_budget(span, out);
                let depth = self.open.len() as u32 + size.depth;
                if depth > DEPTH_LIMIT && self.fatal.is_none() {
                    let d = Diagnostic::new(&NESTING, span, format!("including `{name}`, this is nested too deeply"));
                    self.fatal =
                        Some(out.error(d.help(format!("at most {DEPTH_LIMIT} levels of nesting are allowed"))));
                }
                let id = self.push(range.start, range.end, Kind::Alias(node));
                self.child(id, size);
            }
            _ => {
                let d = Diagnostic::new(
                    &ALIAS_EXPANSION,
                    span,
                    format!("the alias `{name}` is inside the value it refers to"),
                )
                .help("an alias can only refer to a value that is complete before it");
                self.fatal = Some(out.error(d));
                self.bad(range.start, range.end);
            }
        }
    }

    fn check_budget(&mut self, span: Span, out: &mut Diagnostics) {
        if self.expanded > EXPANSION_BUDGET && self.fatal.is_none() {
            let d =
                Diagnostic::new(&ALIAS_EXPANSION, span, "the aliases up to here expand to more than a million nodes")
                    .help("write the document with fewer nested aliases");
            self.fatal = Some(out.error(d));
        }
    }

    fn bad(&mut self, start: usize, end: usize) {
        let id = self.push(start, end, Kind::Bad);
        self.child(id, Size { nodes: 1, depth: 1 });
    }

    /// Adds a complete node to the open collection.
    fn child(&mut self, id: u32, size: Size) {
        if let Some(open) = self.open.last_mut() {
            open.size.nodes = open.size.nodes.saturating_add(size.nodes);
            open.size.depth = open.size.depth.max(size.depth + 1);
        }
        self.pending.push(id);
    }

    /// Completes a document.
    fn finish(&mut self, out: &mut Diagnostics) -> Result<u32, Reported> {
        for hole in self.holes.drain(..) {
            out.error(hole);
        }
        for (span, name) in std::mem::take(&mut self.unknown) {
            let known = self.anchor_names.iter().map(String::as_str);
            let help = if self.anchor_names.contains(&name) {
                Some(format!("`&{name}` is defined later; an anchor must come before its aliases"))
            } else {
                nearest(&name, known).map(|near| format!("did you mean `*{near}`?"))
            };
            let help =
                help.unwrap_or_else(|| format!("define the anchor with `&{name}`, or quote `*{name}` if it is text"));
            let d = Diagnostic::new(&UNKNOWN_ANCHOR, span, format!("the anchor `&{name}` is not defined"));
            self.fatal = Some(out.error(d.help(help)));
        }
        self.comments.sort_by_key(|c| c.span.start);
        for id in std::mem::take(&mut self.blocks) {
            self.find_header(id);
        }
        match (self.fatal, self.pending.pop()) {
            (Some(reported), _) => Err(reported),
            (None, Some(root)) => Ok(root),
            (None, None) => Ok(self.push(self.text.len(), self.text.len(), NOTHING)),
        }
    }

    /// Moves the start of a block scalar from its content, where the parser reports it, to its `|` or `>`.
    fn find_header(&mut self, id: u32) {
        let Raw { start, kind: Kind::Scalar(scalar), .. } = self.nodes[id as usize] else { return };
        let indicator = if scalar.style == Style::Literal { '|' } else { '>' };
        let content = start as usize;
        let is_empty = self.text_of(&scalar).trim_matches('\n').is_empty();
        if is_empty && self.text[content..].starts_with(indicator) {
            // Without content, the parser reports the header itself.
            let header = self.text[content..].trim_start_matches(|c| "|>+-0123456789".contains(c));
            self.nodes[id as usize].end = (self.text.len() - header.len()) as u32;
            return;
        }
        let mut head = self.text[..content].trim_end_matches([' ', '\t', '\n', '\r']);
        let line = head.rfind(['\n', '\r']).map_or(0, |i| i + 1);
        let comment = self.comments.partition_point(|c| (c.span.start as usize) < line);
        if let Some(comment) = self.comments.get(comment)
            && (comment.span.start as usize) < head.len()
        {
            head = self.text[..comment.span.start as usize].trim_end_matches([' ', '\t']);
        }
        let before = head.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-'));
        if before.ends_with(indicator) {
            let node = &mut self.nodes[id as usize];
            node.start = before.len() as u32 - 1;
            if is_empty {
                node.end = head.len() as u32;
            }
        }
    }

    fn syntax_error(&mut self, error: &ScanError, out: &mut Diagnostics) -> Reported {
        let place = Place {
            file: self.file,
            text: self.text,
            at: error.marker().byte_offset().unwrap_or(0).min(self.text.len()),
            last_end: self.last_end,
            bracket: self.open.iter().rfind(|o| o.flow).map(|o| self.nodes[o.node as usize].start as usize),
        };
        let found = syntax::diagnose(error.kind(), &place);
        for hole in self.holes.drain(..).filter(|h| !found.span.contains(h.span)) {
            out.error(hole);
        }
        out.error(found)
    }

    fn push(&mut self, start: usize, end: usize, kind: Kind) -> u32 {
        self.nodes.push(Raw { start: start as u32, end: end as u32, kind });
        self.nodes.len() as u32 - 1
    }

    fn target(&self, id: u32) -> u32 {
        match self.nodes[id as usize].kind {
            Kind::Alias(target) => target,
            _ => id,
        }
    }

    fn is_implicit_null(&self, id: u32) -> bool {
        matches!(self.nodes[id as usize].kind, Kind::Scalar(s) if s.core == Core::Null && s.len == 0)
    }

    fn text_of(&self, scalar: &Scalar) -> &str {
        let range = scalar.offset as usize..(scalar.offset + scalar.len) as usize;
        if scalar.verbatim { &self.text[range] } else { &self.cooked[range] }
    }

    fn scalar_text(&self, id: u32) -> Option<&str> {
        match &self.nodes[self.target(id) as usize].kind {
            Kind::Scalar(scalar) => Some(self.text_of(scalar)),
            _ => None,
        }
    }

    fn node_span(&self, id: u32) -> Span {
        let raw = &self.nodes[id as usize];
        Span::new(self.file, raw.start as usize..raw.end as usize)
    }

    fn span(&self, span: &granit_parser::Span) -> Span {
        Span::new(self.file, span.byte_range().unwrap_or(0..0))
    }
}
