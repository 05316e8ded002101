//! The scanner: one pass over the text, written by hand. `grammar/template.pest` defines the same language, and a test
//! compares the two.
//!
//! It is linear. An attempt to read a hole passes a later `{` only inside a string literal, and of all attempts in
//! progress at one place, no two can be inside a string with the same quote: the quote that opens it for one closes it
//! for the other. So no character is read by more than a fixed number of attempts.

use std::ops::Range;

use serde_json::Value;

use super::{Filter, Hole, Ident, Literal, Path, Piece, Scan, Segment, SegmentKind, Suspect, SuspectKind};

/// Splits a text into literal pieces and holes. Scanning never fails: what is not a hole is text.
pub fn scan(text: &str) -> Scan {
    read(text).0
}

/// Escapes a text so that [`scan`] returns exactly this text, as one literal.
pub fn escape(text: &str) -> String {
    if !text.contains('{') {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for brace in read(text).1 {
        let before = &text[at..brace];
        let slashes = before.len() - before.trim_end_matches('\\').len();
        out.push_str(before);
        out.extend(std::iter::repeat_n('\\', slashes + 1));
        at = brace;
    }
    out.push_str(&text[at..]);
    out
}

/// Returns the parts of a text, and the opening brace of everything that is a hole or would be one without its backslash.
fn read(text: &str) -> (Scan, Vec<usize>) {
    let bytes = text.as_bytes();
    let mut out = Scan::default();
    let mut braces = Vec::new();
    let mut literal = String::new();
    let mut at = 0;
    // Whether a `}}` may still follow. The search may fail only once; otherwise many unclosed `{{` would make this
    // quadratic.
    let mut closable = true;
    while let Some(plain) = text[at..].find(['{', '\\', '$']) {
        literal.push_str(&text[at..at + plain]);
        at += plain;
        let start = at;
        // Backslashes only have a meaning before a hole: each pair is one backslash, and an odd one keeps the hole as
        // text.
        let slashes = run(bytes, at, b'\\');
        let dollars = run(bytes, at, b'$');
        at += slashes + dollars;
        let open = run(bytes, at, b'{');
        if open > 1 {
            let inside = at + open;
            let end = closing(text, inside, &mut closable);
            at = end.unwrap_or(inside);
            match end {
                Some(end) if dollars > 0 => dollar_brace(text, inside - open - 1..end, inside, &mut out.suspects),
                Some(end) => double_brace(text, inside - open..end, inside, &mut out.suspects),
                None => {}
            }
            literal.push_str(&text[start..at]);
            continue;
        }
        match (open == 1).then(|| hole(text, at)) {
            Some(Ok(hole)) if dollars > 0 => {
                let range = at - 1..hole.range.end;
                let root = hole.path.root.text.clone();
                out.suspects.push(Suspect::new(SuspectKind::ShellVariable(hole.path), root, range));
                at += 1;
                literal.push_str(&text[start..at]);
            }
            Some(Ok(hole)) => {
                braces.push(at);
                at = hole.range.end;
                literal.push_str(&text[start..start + slashes / 2]);
                if slashes % 2 == 1 {
                    literal.push_str(&text[hole.range]);
                } else {
                    flush(&mut literal, &mut out.pieces);
                    out.pieces.push(Piece::Hole(hole));
                }
            }
            Some(Err(malformed)) => {
                at += 1;
                literal.push_str(&text[start..at]);
                out.suspects.extend(malformed.filter(|_| dollars == 0).map(|suspect| *suspect));
            }
            None => literal.push_str(&text[start..at]),
        }
    }
    literal.push_str(&text[at..]);
    flush(&mut literal, &mut out.pieces);
    (out, braces)
}

fn flush(literal: &mut String, pieces: &mut Vec<Piece>) {
    if !literal.is_empty() {
        literal.shrink_to_fit();
        pieces.push(Piece::Text(std::mem::take(literal)));
    }
}

/// Returns how often `byte` is repeated at `at`.
fn run(bytes: &[u8], at: usize, byte: u8) -> usize {
    bytes[at..].iter().take_while(|b| **b == byte).count()
}

/// Returns the end of the first `}}` from `inside` on.
fn closing(text: &str, inside: usize, closable: &mut bool) -> Option<usize> {
    let end = closable.then(|| text[inside..].find("}}")).flatten().map(|n| inside + n + 2);
    *closable = end.is_some();
    end
}

/// Records `${{ … }}` as a suspect.
fn dollar_brace(text: &str, range: Range<usize>, inside: usize, suspects: &mut Vec<Suspect>) {
    let mut cursor = Cursor { text, at: inside };
    cursor.spaces();
    let root = cursor.ident().map(|root| root.text).unwrap_or_default();
    suspects.push(Suspect::new(SuspectKind::DollarBrace, root, range));
}

/// Records what looks like a hole in `{{ … }}`: the whole content, or holes in it.
fn double_brace(text: &str, range: Range<usize>, inside: usize, suspects: &mut Vec<Suspect>) {
    let mut suspect = |path: Path, range| {
        let root = path.root.text.clone();
        suspects.push(Suspect::new(SuspectKind::DoubleBrace(path), root, range));
    };
    let mut cursor = Cursor { text, at: inside };
    cursor.eat('-');
    cursor.spaces();
    if let Some(path) = cursor.ident().and_then(|root| cursor.path(root).ok()) {
        cursor.spaces();
        if matches!(cursor.peek(), Some('}' | '|')) || text[cursor.at..].starts_with("-}}") {
            return suspect(path, range);
        }
    }
    let mut at = inside;
    while let Some(n) = text[at..range.end].find('{') {
        at += n + 1;
        if let Ok(hole) = hole(text, at - 1) {
            at = hole.range.end.min(range.end);
            suspect(hole.path, hole.range);
        }
    }
}

/// Reads the hole whose brace is at `open`. `Err` contains the suspect if a root follows but no hole, and nothing if no
/// root follows.
fn hole(text: &str, open: usize) -> Result<Hole, Option<Box<Suspect>>> {
    let mut cursor = Cursor { text, at: open + 1 };
    cursor.spaces();
    let root = cursor.ident().ok_or(None)?;
    let name = root.text.clone();
    match cursor.path(root).and_then(|path| Ok((path, cursor.filters()?))) {
        Ok((path, filters)) => Ok(Hole { range: open..cursor.at, path, filters }),
        Err(detail) => {
            let end = cursor.at + cursor.peek().map_or(0, char::len_utf8);
            Err(Some(Box::new(Suspect { kind: SuspectKind::Malformed, root: name, range: open..end, detail })))
        }
    }
}

impl Suspect {
    fn new(kind: SuspectKind, root: String, range: Range<usize>) -> Self {
        Self { kind, root, range, detail: String::new() }
    }
}

/// A position in the text. Its readers either move past what they read, or stop at the character that does not fit and
/// return the reason.
struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl Cursor<'_> {
    fn path(&mut self, root: Ident) -> Result<Path, String> {
        let mut segments = Vec::new();
        loop {
            let start = self.at;
            if self.eat('.') {
                let range = self.take_while(is_name);
                if range.is_empty() {
                    return Err(self.expected("a name after `.`"));
                }
                segments.push(Segment { kind: SegmentKind::Name(self.text[range.clone()].to_owned()), range });
            } else if self.eat('[') {
                let digits = self.integer();
                let index = self.text[digits].parse().map_err(|_| self.expected("a nonnegative index after `[`"))?;
                if !self.eat(']') {
                    return Err(self.expected("`]`"));
                }
                segments.push(Segment { kind: SegmentKind::Index(index), range: start..self.at });
            } else {
                return Ok(Path { root, segments });
            }
        }
    }

    /// Reads from after the path up to and including the closing brace.
    fn filters(&mut self) -> Result<Vec<Filter>, String> {
        let mut filters = Vec::new();
        let mut wanted = "`.`, `[`, `|` or `}`";
        loop {
            if self.spaces() {
                wanted = "`|` or `}`";
            }
            if self.eat('}') {
                return Ok(filters);
            }
            if !self.eat('|') {
                return Err(self.expected(wanted));
            }
            self.spaces();
            let Some(name) = self.ident() else { return Err(self.expected("the name of a filter after `|`")) };
            let called = self.eat('(');
            let args = if called { self.args()? } else { Vec::new() };
            wanted = if called { "`|` or `}`" } else { "`(`, `|` or `}`" };
            filters.push(Filter { range: name.range.start..self.at, name, args });
        }
    }

    /// Reads from after `(` up to and including `)`.
    fn args(&mut self) -> Result<Vec<Literal>, String> {
        let mut args = Vec::new();
        self.spaces();
        if self.eat(')') {
            return Ok(args);
        }
        loop {
            let start = self.at;
            let value = self.literal()?;
            args.push(Literal { value, range: start..self.at });
            self.spaces();
            if self.eat(')') {
                return Ok(args);
            }
            if !self.eat(',') {
                return Err(self.expected("`,` or `)`"));
            }
            self.spaces();
        }
    }

    fn literal(&mut self) -> Result<Value, String> {
        match self.peek() {
            Some(quote @ ('\'' | '"')) => self.string(quote),
            Some('-' | '0'..='9') => self.number(),
            _ => {
                let word = Cursor { ..*self }.take_while(is_name);
                let value = match &self.text[word.clone()] {
                    "true" => Value::Bool(true),
                    "false" => Value::Bool(false),
                    "none" | "null" => Value::Null,
                    _ => return Err(self.expected("a string, a number, `true`, `false` or `null`")),
                };
                self.at = word.end;
                Ok(value)
            }
        }
    }

    fn string(&mut self, quote: char) -> Result<Value, String> {
        self.eat(quote);
        let mut value = String::new();
        loop {
            match self.peek() {
                None | Some('\n' | '\r') => return Err(self.expected(&format!("`{quote}` at the end of the string"))),
                Some('\\') => {
                    self.at += 1;
                    value.push(match self.peek() {
                        Some(c @ ('\\' | '\'' | '"')) => c,
                        Some('n') => '\n',
                        Some('r') => '\r',
                        Some('t') => '\t',
                        _ => return Err(self.expected("one of `\\`, `'`, `\"`, `n`, `r`, `t` after `\\`")),
                    });
                    self.at += 1;
                }
                Some(c) => {
                    self.at += c.len_utf8();
                    if c == quote {
                        return Ok(Value::String(value));
                    }
                    value.push(c);
                }
            }
        }
    }

    fn number(&mut self) -> Result<Value, String> {
        let start = self.at;
        self.eat('-');
        if self.integer().is_empty() {
            return Err(self.expected("a digit"));
        }
        if self.eat('.') && self.take_while(|b| b.is_ascii_digit()).is_empty() {
            return Err(self.expected("a digit"));
        }
        serde_json::from_str(&self.text[start..self.at]).map_err(|_| "the number is out of range".to_owned())
    }

    /// Moves past an integer without leading zeros that fits an `i64`; further digits are not part of it.
    fn integer(&mut self) -> Range<usize> {
        let start = self.at;
        if !self.eat('0') {
            let digits = self.take_while(|b| b.is_ascii_digit());
            self.at = digits.end.min(start + 18);
        }
        start..self.at
    }

    /// Moves past `[A-Za-z_][A-Za-z0-9_-]*`.
    fn ident(&mut self) -> Option<Ident> {
        self.peek().filter(|c| c.is_ascii_alphabetic() || *c == '_')?;
        let range = self.take_while(is_name);
        Some(Ident { text: self.text[range.clone()].to_owned(), range })
    }

    /// Moves past spaces, and returns whether there were any. Tabs and line breaks do not count: `f() {⏎ls⏎}` is not a
    /// hole.
    fn spaces(&mut self) -> bool {
        !self.take_while(|b| b == b' ').is_empty()
    }

    /// `accept` may only accept ASCII.
    fn take_while(&mut self, accept: fn(u8) -> bool) -> Range<usize> {
        let start = self.at;
        self.at += self.text.as_bytes()[start..].iter().take_while(|b| accept(**b)).count();
        start..self.at
    }

    fn eat(&mut self, wanted: char) -> bool {
        let there = self.peek() == Some(wanted);
        self.at += if there { wanted.len_utf8() } else { 0 };
        there
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn expected(&self, what: &str) -> String {
        match self.peek() {
            None => format!("expected {what}, found the end of the text"),
            Some('\n' | '\r') => format!("expected {what}, found a line break"),
            Some('\t') => format!("expected {what}, found a tab"),
            Some(' ') => format!("expected {what}, found a space"),
            Some('`') => format!("expected {what}, found a backtick"),
            Some(c) => format!("expected {what}, found `{c}`"),
        }
    }
}

/// Whether a byte can be part of a name after its first character.
fn is_name(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_' || b == b'-'
}
