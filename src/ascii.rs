//! Patterns of gevals' own, which every start of the program compiles anew where it needs them. Compiling is what they cost, so that
//! they do without what makes long texts fast to search: literals that are looked for first, and automata made in advance. And in them
//! `\w`, `\d`, `\s` and `\b` mean ASCII: Unicode's take twenty times as long.

use std::{
    borrow::Cow,
    ops::{Index, Range},
    sync::OnceLock,
};

use regex_automata::{
    Input,
    meta::{Builder, Config, Regex},
    util::captures,
};

/// A pattern that is compiled when it is first used.
#[derive(Debug)]
pub struct Ascii {
    pattern: Cow<'static, str>,
    compiled: OnceLock<Regex>,
}

/// A constant pattern. One that is no pattern panics when it is used.
pub const fn ascii(pattern: &'static str) -> Ascii {
    Ascii { pattern: Cow::Borrowed(pattern), compiled: OnceLock::new() }
}

/// What a pattern, or a group of it, has matched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Match<'t> {
    text: &'t str,
    start: usize,
    end: usize,
}

/// What a pattern and its groups have matched.
#[derive(Debug)]
pub struct Captures<'t> {
    text: &'t str,
    found: captures::Captures,
}

impl From<String> for Ascii {
    /// A pattern that is put together.
    fn from(pattern: String) -> Self {
        Self { pattern: Cow::Owned(pattern), compiled: OnceLock::new() }
    }
}

impl Ascii {
    #[expect(clippy::unwrap_used, reason = "a constant")]
    fn regex(&self) -> &Regex {
        self.compiled.get_or_init(|| {
            let quick = Config::new().auto_prefilter(false).dfa(false).onepass(false);
            Builder::new().configure(quick).build(&plain(&self.pattern)).unwrap()
        })
    }

    /// Whether it matches anywhere.
    pub fn is_match(&self, text: &str) -> bool {
        self.regex().is_match(text)
    }

    /// Where it matches, from left to right, without overlap.
    pub fn find_iter<'t>(&self, text: &'t str) -> impl Iterator<Item = Match<'t>> {
        self.regex().find_iter(text).map(move |m| Match { text, start: m.start(), end: m.end() })
    }

    /// The first match, with its groups.
    pub fn captures<'t>(&self, text: &'t str) -> Option<Captures<'t>> {
        self.captures_at(text, 0)
    }

    /// The first match from a place on, with its groups. What stands before the place is looked at too, by `^` and `\b`.
    pub fn captures_at<'t>(&self, text: &'t str, at: usize) -> Option<Captures<'t>> {
        let mut found = self.regex().create_captures();
        self.regex().captures(Input::new(text).range(at..), &mut found);
        found.is_match().then_some(Captures { text, found })
    }

    /// All matches with their groups, from left to right, without overlap.
    pub fn captures_iter<'t>(&self, text: &'t str) -> impl Iterator<Item = Captures<'t>> {
        self.regex().captures_iter(text).map(move |found| Captures { text, found })
    }

    /// The text with something else in place of every match.
    pub fn replace_all<'t>(&self, text: &'t str, mut by: impl FnMut(&str) -> String) -> Cow<'t, str> {
        let mut found = self.find_iter(text).peekable();
        if found.peek().is_none() {
            return Cow::Borrowed(text);
        }
        let (mut out, mut from) = (String::with_capacity(text.len()), 0);
        for m in found {
            out.push_str(&text[from..m.start]);
            out.push_str(&by(m.as_str()));
            from = m.end;
        }
        out.push_str(&text[from..]);
        Cow::Owned(out)
    }
}

impl<'t> Match<'t> {
    pub fn as_str(&self) -> &'t str {
        &self.text[self.start..self.end]
    }

    /// Where it starts, in bytes.
    pub fn start(&self) -> usize {
        self.start
    }

    /// Where it ends, in bytes.
    pub fn end(&self) -> usize {
        self.end
    }

    /// In bytes.
    pub fn range(&self) -> Range<usize> {
        self.start..self.end
    }
}

impl<'t> Captures<'t> {
    /// A group by its number, if it took part in the match; 0 is the match.
    pub fn get(&self, group: usize) -> Option<Match<'t>> {
        self.found.get_group(group).map(|span| Match { text: self.text, start: span.start, end: span.end })
    }

    /// A group by its name, if it took part in the match.
    pub fn name(&self, name: &str) -> Option<Match<'t>> {
        self.found.get_group_by_name(name).map(|span| Match { text: self.text, start: span.start, end: span.end })
    }
}

/// The text of a group; one that took no part panics.
impl Index<usize> for Captures<'_> {
    type Output = str;

    #[expect(clippy::unwrap_used, reason = "as `regex` has it")]
    fn index(&self, group: usize) -> &str {
        self.get(group).unwrap().as_str()
    }
}

/// The pattern with its short forms written out. A class within a class is part of it.
fn plain(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() * 2);
    let mut rest = pattern.chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match rest.next() {
            Some('w') => out.push_str("[0-9A-Za-z_]"),
            Some('d') => out.push_str("[0-9]"),
            Some('s') => out.push_str(r"[\t\n\x0B\x0C\r\x20]"),
            Some('S') => out.push_str(r"[^\t\n\x0B\x0C\r\x20]"),
            Some('b') => out.push_str(r"(?-u:\b)"),
            other => {
                out.push('\\');
                out.extend(other);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_forms_are_those_of_ascii() {
        let all = ascii(r"^[\w.-]+\s\d\b[^\s]\S\\w$");
        assert!(all.is_match("a.b_1 2-é\\w") && !all.is_match("é 2-x\\w") && !all.is_match("a 2xx\\w"));
        assert!(!all.is_match("a\u{a0}2-x\\w") && !all.is_match("a ٢-x\\w"));
    }
}
