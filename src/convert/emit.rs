//! Writes YAML as a careful author would: block style, block scalars for multi-line texts, quotes where they are needed.

use crate::yaml::{self, Data, Node, Style, quoted, yaml11};

/// A value to be written.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// Written unchanged, on one line.
    Raw(String),
    Text(String),
    Map(Vec<Entry>),
    List(Vec<Item>),
}

/// A key of a mapping to be written.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    /// Comment lines above it, without `#`.
    pub comments: Vec<String>,
    pub key: String,
    pub value: Value,
    /// A comment after it, on the same line.
    pub trailing: Option<String>,
}

/// An item of a list to be written.
#[derive(Clone, PartialEq, Debug)]
pub struct Item {
    pub comments: Vec<String>,
    pub value: Value,
}

impl Value {
    /// Creates a mapping in this order.
    pub fn map<const N: usize>(entries: [(&str, Self); N]) -> Self {
        Self::Map(entries.into_iter().map(|(k, v)| Entry::new(k, v)).collect())
    }

    /// Creates a string, which is quoted where YAML requires it.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// Creates a boolean.
    pub fn bool(value: bool) -> Self {
        Self::Raw(value.to_string())
    }

    /// Changes all values that are written as texts.
    pub fn each_text(&mut self, change: &impl Fn(&mut String)) {
        match self {
            Self::Raw(_) => {}
            Self::Text(text) => change(text),
            Self::Map(entries) => entries.iter_mut().for_each(|entry| entry.value.each_text(change)),
            Self::List(items) => items.iter_mut().for_each(|item| item.value.each_text(change)),
        }
    }

    /// Changes all values that are written unchanged.
    pub fn each_raw(&mut self, change: &impl Fn(&mut String)) {
        match self {
            Self::Raw(text) => change(text),
            Self::Text(_) => {}
            Self::Map(entries) => entries.iter_mut().for_each(|entry| entry.value.each_raw(change)),
            Self::List(items) => items.iter_mut().for_each(|item| item.value.each_raw(change)),
        }
    }

    /// Creates a list of strings.
    pub fn texts<S: AsRef<str>>(items: impl IntoIterator<Item = S>) -> Self {
        Self::List(items.into_iter().map(|t| Item { comments: Vec::new(), value: Self::text(t.as_ref()) }).collect())
    }
}

impl Entry {
    /// Creates an entry without comments.
    pub fn new(key: &str, value: Value) -> Self {
        Self { comments: Vec::new(), key: key.to_owned(), value, trailing: None }
    }
}

/// The comments of a file. Each is returned only once.
#[derive(Debug)]
pub struct Comments<'t> {
    text: &'t str,
    /// Offset, text without `#`, and whether it is alone on its line.
    open: Vec<(usize, String, bool)>,
}

impl<'t> Comments<'t> {
    /// Collects the comments of a file.
    pub fn new(text: &'t str, comments: &[yaml::Comment]) -> Self {
        let open = comments.iter().map(|c| {
            let start = c.span.start as usize;
            let line = text[..start].rfind('\n').map_or(0, |i| i + 1);
            let own = text[line..start].trim().is_empty();
            (start, c.text.clone(), own)
        });
        Self { text, open: open.collect() }
    }

    /// Returns the comments before an offset that were not returned yet.
    pub fn before(&mut self, offset: usize) -> Vec<String> {
        let (taken, open) = std::mem::take(&mut self.open).into_iter().partition(|(at, ..)| *at < offset);
        self.open = open;
        let taken: Vec<(usize, String, bool)> = taken;
        taken.into_iter().map(|(_, text, _)| text).collect()
    }

    /// Returns the comment after a value, on its last line.
    pub fn behind(&mut self, end: usize) -> Option<String> {
        let line_end = self.text[end..].find('\n').map_or(self.text.len(), |i| end + i);
        let at = self.open.iter().position(|(at, _, own)| !own && (end..line_end).contains(at))?;
        Some(self.open.remove(at).1)
    }

    /// Drops the comments that contain this text.
    pub fn forget(&mut self, text: &str) {
        self.open.retain(|(_, comment, _)| !comment.contains(text));
    }

    /// Returns the remaining comments.
    pub fn rest(&mut self) -> Vec<String> {
        self.before(usize::MAX)
    }
}

/// Returns a value as it is written in a file, with its comments.
pub fn keep(node: Node<'_>, text: &str, comments: &mut Comments<'_>) -> Value {
    match node.data() {
        Data::Map if node.style() == Style::Block && !node.is_alias() => Value::Map(
            node.entries()
                .map(|e| {
                    let above = comments.before(e.key.span().start as usize);
                    let value = keep(e.value, text, comments);
                    let trailing = trailing(e.value, comments);
                    Entry { comments: above, key: key(e.name), value, trailing }
                })
                .collect(),
        ),
        Data::Seq if node.style() == Style::Block && !node.is_alias() => Value::List(
            node.items()
                .map(|item| {
                    let above = comments.before(item.span().start as usize);
                    let value = keep(item, text, comments);
                    Item { comments: above, value }
                })
                .collect(),
        ),
        Data::Map | Data::Seq => {
            let raw = text.get(node.span().range()).unwrap_or_default();
            if node.is_alias() || raw.contains(['\n', '&', '*', '#']) {
                plain(node)
            } else {
                Value::Raw(raw.to_owned())
            }
        }
        Data::Str(value) => {
            let raw = text.get(node.span().range()).unwrap_or_default();
            let block = matches!(node.style(), Style::Literal | Style::Folded);
            if node.is_alias() || block || raw.contains('\n') || yaml11(value).is_some() && node.is_plain() {
                Value::text(value)
            } else {
                Value::Raw(raw.to_owned())
            }
        }
        _ => Value::Raw(node.text().unwrap_or_default().to_owned()),
    }
}

/// Returns the comment after a value. The comments of a block belong to its contents.
pub fn trailing(node: Node<'_>, comments: &mut Comments<'_>) -> Option<String> {
    let block = node.style() == Style::Block && !node.is_alias();
    let lines = matches!(node.style(), Style::Literal | Style::Folded);
    (!block && !lines).then(|| comments.behind(node.span().end as usize)).flatten()
}

/// Returns a value without its formatting, with aliases resolved.
pub fn plain(node: Node<'_>) -> Value {
    match node.data() {
        Data::Map => Value::Map(node.entries().map(|e| Entry::new(&key(e.name), plain(e.value))).collect()),
        Data::Seq => Value::List(node.items().map(|item| Item { comments: Vec::new(), value: plain(item) }).collect()),
        Data::Str(text) => Value::text(text),
        _ => Value::Raw(node.text().unwrap_or_default().to_owned()),
    }
}

fn key(name: &str) -> String {
    if is_plain(name) { name.to_owned() } else { quoted(name) }
}

/// Writes the whole document.
pub fn document(entries: &[Entry], foot: &[String]) -> String {
    let mut out = String::new();
    map(&mut out, entries, 0);
    comment_lines(&mut out, foot, 0);
    out
}

fn map(out: &mut String, entries: &[Entry], indent: usize) {
    for entry in entries {
        comment_lines(out, &entry.comments, indent);
        out.push_str(&" ".repeat(indent));
        pair(out, entry, indent);
    }
}

fn pair(out: &mut String, entry: &Entry, indent: usize) {
    out.push_str(&entry.key);
    out.push(':');
    let trailing = entry.trailing.as_ref().map(|t| format!(" #{t}")).unwrap_or_default();
    match &entry.value {
        Value::Map(inner) if inner.is_empty() => *out += &format!(" {{}}{trailing}\n"),
        Value::List(items) if items.is_empty() => *out += &format!(" []{trailing}\n"),
        Value::Map(inner) => {
            *out += &format!("{trailing}\n");
            map(out, inner, indent + 2);
        }
        Value::List(items) => {
            *out += &format!("{trailing}\n");
            list(out, items, indent + 2);
        }
        Value::Raw(raw) if raw.is_empty() => *out += &format!("{trailing}\n"),
        Value::Raw(raw) => *out += &format!(" {raw}{trailing}\n"),
        Value::Text(text) => scalar(out, text, indent, &trailing),
    }
}

fn list(out: &mut String, items: &[Item], indent: usize) {
    for item in items {
        comment_lines(out, &item.comments, indent);
        *out += &" ".repeat(indent);
        match &item.value {
            Value::Map(entries) if !entries.is_empty() => {
                // A comment above the first key is written above its dash.
                *out += "- ";
                pair(out, &entries[0], indent + 2);
                map(out, &entries[1..], indent + 2);
            }
            Value::Map(_) => *out += "- {}\n",
            Value::List(inner) if inner.is_empty() => *out += "- []\n",
            Value::List(inner) => {
                *out += "-\n";
                list(out, inner, indent + 2);
            }
            Value::Raw(raw) => *out += &format!("- {raw}\n"),
            Value::Text(text) => {
                *out += "-";
                scalar(out, text, indent, "");
            }
        }
    }
}

fn comment_lines(out: &mut String, comments: &[String], indent: usize) {
    for line in comments {
        let space = if line.is_empty() || line.starts_with([' ', '#', '!']) { "" } else { " " };
        *out += format!("{}#{space}{line}", " ".repeat(indent)).trim_end();
        out.push('\n');
    }
}

/// Writes a scalar after a key or a dash.
fn scalar(out: &mut String, text: &str, indent: usize, trailing: &str) {
    if !text.contains('\n') {
        let written = if is_plain(text) { text.to_owned() } else { quoted(text) };
        *out += &format!(" {written}{trailing}\n");
        return;
    }
    let body = text.trim_end_matches('\n');
    let odd = |c: char| {
        c != '\n' && c != '\t' && c.is_control() || matches!(c, '\u{85}' | '\u{2028}' | '\u{2029}' | '\u{feff}')
    };
    if body.is_empty() || body.contains(odd) || body.lines().next().is_some_and(|l| l.trim().is_empty()) {
        // As a block, it would not be read back unchanged.
        *out += &format!(" {}{trailing}\n", quoted(text));
        return;
    }
    let chomp = match text.len() - body.len() {
        0 => "-",
        1 => "",
        _ => "+",
    };
    let explicit = if body.starts_with([' ', '\t']) { "2" } else { "" };
    *out += &format!(" |{explicit}{chomp}{trailing}\n");
    for line in text[..text.len() - usize::from(text.ends_with('\n'))].split('\n') {
        if !line.is_empty() {
            *out += &" ".repeat(indent + 2);
        }
        *out += line;
        out.push('\n');
    }
}

/// Whether the text needs no quotes, and every reader reads it as that text.
fn is_plain(text: &str) -> bool {
    let first = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '(' | '$') || !c.is_ascii();
    let Some(head) = text.chars().next() else { return false };
    let number = text.trim_start_matches(['-', '+', '.']).starts_with(|c: char| c.is_ascii_digit())
        && text
            .chars()
            .all(|c| c.is_ascii_hexdigit() || matches!(c, '.' | '-' | '+' | '_' | 'x' | 'o' | ':' | 'T' | 'Z'));
    let word =
        matches!(text.to_ascii_lowercase().as_str(), "null" | "true" | "false" | ".nan" | ".inf" | "~" | "=" | "<<");
    first(head)
        && !number
        && !word
        && yaml11(text).is_none()
        && !text.contains(": ")
        && !text.contains(" #")
        && !text.contains(|c: char| c.is_control() || c == '\u{feff}')
        && !text.ends_with([':', ' '])
        && !text.starts_with("---")
        && !text.starts_with("...")
}
