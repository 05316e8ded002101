//! Patterns that gevals itself uses. They are compiled on first use, in every process. In them `\w`, `\d`, `\s` and
//! `\b` are ASCII: the Unicode versions take twenty times as long to compile.
//!
//! A check of one file searches only a few kilobytes with each pattern, so compilation is most of the work:
//! `regex-lite` needs a seventh of the instructions to compile. `regex-automata` searches faster, and takes over when
//! there is more text to search. Neither is needed for a text without any of the words that the pattern requires
//! ([`Needed`]).

mod needed;

use std::{
    borrow::Cow,
    ops::{Index, Range},
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use self::needed::Needed;

use regex_automata::{
    Input,
    meta::{Builder, Config, Regex},
    util::captures,
};

/// Number of bytes to search with a pattern before it is worth compiling it with the faster engine.
const FEW: usize = 2 << 10;

/// A pattern that is compiled when it is first used.
#[derive(Debug)]
pub struct Ascii {
    pattern: Cow<'static, str>,
    needed: OnceLock<Option<Needed>>,
    lite: OnceLock<regex_lite::Regex>,
    full: OnceLock<Regex>,
    /// Upper bound of the number of bytes searched so far.
    searched: AtomicUsize,
}

/// Creates a constant pattern. An invalid pattern panics when it is first used.
pub const fn ascii(pattern: &'static str) -> Ascii {
    Ascii::of(Cow::Borrowed(pattern))
}

#[derive(Clone, Copy)]
enum Engine<'a> {
    Lite(&'a regex_lite::Regex),
    Full(&'a Regex),
}

/// The range that a pattern or one of its groups matched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Match<'t> {
    text: &'t str,
    start: usize,
    end: usize,
}

/// The ranges that a pattern and its groups matched.
#[derive(Debug)]
pub struct Captures<'t> {
    text: &'t str,
    found: Found<'t>,
}

#[derive(Debug)]
enum Found<'t> {
    Lite(regex_lite::Captures<'t>),
    Full(captures::Captures),
}

impl From<String> for Ascii {
    /// Creates a pattern that is built at run time.
    fn from(pattern: String) -> Self {
        Self::of(Cow::Owned(pattern))
    }
}

impl Ascii {
    const fn of(pattern: Cow<'static, str>) -> Self {
        Self {
            pattern,
            needed: OnceLock::new(),
            lite: OnceLock::new(),
            full: OnceLock::new(),
            searched: AtomicUsize::new(0),
        }
    }

    /// Returns the engine for searching this text; `None` if nothing in it can match.
    #[expect(clippy::unwrap_used, reason = "a constant")]
    fn engine(&self, text: &str) -> Option<Engine<'_>> {
        let needed = self.needed.get_or_init(|| Needed::of(&self.pattern));
        if needed.as_ref().is_some_and(|needed| !needed.is_in(text)) {
            return None;
        }
        if let Some(full) = self.full.get() {
            return Some(Engine::Full(full));
        }
        if self.searched.fetch_add(text.len(), Ordering::Relaxed) < FEW {
            return Some(Engine::Lite(self.lite.get_or_init(|| regex_lite::Regex::new(&self.pattern).unwrap())));
        }
        Some(Engine::Full(self.full.get_or_init(|| {
            let quick = Config::new().auto_prefilter(false).dfa(false).onepass(false);
            Builder::new().configure(quick).build(&plain(&self.pattern)).unwrap()
        })))
    }

    /// Whether the pattern matches anywhere.
    pub fn is_match(&self, text: &str) -> bool {
        self.engine(text).is_some_and(|engine| match engine {
            Engine::Lite(regex) => regex.is_match(text),
            Engine::Full(regex) => regex.is_match(text),
        })
    }

    /// Returns all non-overlapping matches, from left to right.
    pub fn find_iter<'t>(&self, text: &'t str) -> impl Iterator<Item = Match<'t>> {
        let engine = self.engine(text);
        let found = move |at| match engine? {
            Engine::Lite(regex) => regex.find_at(text, at).map(|m| m.range()),
            Engine::Full(regex) => regex.find(Input::new(text).range(at..)).map(|m| m.range()),
        };
        one_by_one(text, move |at| found(at).map(|range| (range.clone(), range)))
            .map(move |Range { start, end }| Match { text, start, end })
    }

    /// Returns the first match, with its groups.
    pub fn captures<'t>(&self, text: &'t str) -> Option<Captures<'t>> {
        self.captures_at(text, 0)
    }

    /// Returns the first match at or after `at`, with its groups. `^` and `\b` also consider the text before `at`.
    pub fn captures_at<'t>(&self, text: &'t str, at: usize) -> Option<Captures<'t>> {
        self.engine(&text[at..])?.captures_at(text, at)
    }

    /// Returns all non-overlapping matches with their groups, from left to right.
    pub fn captures_iter<'t>(&self, text: &'t str) -> impl Iterator<Item = Captures<'t>> {
        let engine = self.engine(text);
        one_by_one(text, move |at| {
            let found = engine?.captures_at(text, at)?;
            Some((found.get(0)?.range(), found))
        })
    }

    /// Returns the text with every match replaced.
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

impl Engine<'_> {
    fn captures_at<'t>(self, text: &'t str, at: usize) -> Option<Captures<'t>> {
        let found = match self {
            Self::Lite(regex) => Found::Lite(regex.captures_at(text, at)?),
            Self::Full(regex) => {
                let mut found = regex.create_captures();
                regex.captures(Input::new(text).range(at..), &mut found);
                found.is_match().then_some(Found::Full(found))?
            }
        };
        Some(Captures { text, found })
    }
}

/// Returns all results of `found`, from left to right, without overlap. An empty match directly after the previous
/// match is skipped.
fn one_by_one<T>(text: &str, mut found: impl FnMut(usize) -> Option<(Range<usize>, T)>) -> impl Iterator<Item = T> {
    let (mut at, mut last) = (0, None);
    std::iter::from_fn(move || {
        loop {
            let (range, value) = (at <= text.len()).then(|| found(at))??;
            at = if range.is_empty() { text.ceil_char_boundary(range.end + 1).max(range.end + 1) } else { range.end };
            if !range.is_empty() || last != Some(range.end) {
                last = Some(range.end);
                return Some(value);
            }
        }
    })
}

impl<'t> Match<'t> {
    pub fn as_str(&self) -> &'t str {
        &self.text[self.start..self.end]
    }

    /// Start of the match, in bytes.
    pub fn start(&self) -> usize {
        self.start
    }

    /// End of the match, in bytes.
    pub fn end(&self) -> usize {
        self.end
    }

    /// Range of the match, in bytes.
    pub fn range(&self) -> Range<usize> {
        self.start..self.end
    }
}

impl<'t> Captures<'t> {
    /// Returns a group by its number, if it took part in the match; group 0 is the whole match.
    pub fn get(&self, group: usize) -> Option<Match<'t>> {
        let range = match &self.found {
            Found::Lite(found) => found.get(group).map(|m| m.range()),
            Found::Full(found) => found.get_group(group).map(|span| span.range()),
        };
        range.map(|Range { start, end }| Match { text: self.text, start, end })
    }

    /// Returns a group by its name, if it took part in the match.
    pub fn name(&self, name: &str) -> Option<Match<'t>> {
        let range = match &self.found {
            Found::Lite(found) => found.name(name).map(|m| m.range()),
            Found::Full(found) => found.get_group_by_name(name).map(|span| span.range()),
        };
        range.map(|Range { start, end }| Match { text: self.text, start, end })
    }
}

/// The text of a group; panics if the group did not take part in the match.
impl Index<usize> for Captures<'_> {
    type Output = str;

    #[expect(clippy::unwrap_used, reason = "as `regex` has it")]
    fn index(&self, group: usize) -> &str {
        self.get(group).unwrap().as_str()
    }
}

/// Returns the pattern with `\w`, `\d`, `\s`, `\S` and `\b` expanded to ASCII classes. A nested class is valid syntax.
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
        // The second round uses the other engine.
        for _ in 0..2 {
            assert!(all.is_match("a.b_1 2-é\\w") && !all.is_match("é 2-x\\w") && !all.is_match("a 2xx\\w"));
            assert!(!all.is_match("a\u{a0}2-x\\w") && !all.is_match("a ٢-x\\w"));
            all.searched.store(FEW, Ordering::Relaxed);
        }
        assert!(all.full.get().is_some());
    }

    #[test]
    fn both_engines_find_the_same_matches() {
        let texts = ["", "aé", "éaab  b=é1 \n", "a=1, bé='x y'; \"q\" aa", "é", "\n\n"];
        let patterns = [r"a*", r"(\w+)=(?<value>\d|'[^']*')?", r"(?m)^\s*$", r"(?i)\bA+\b", r"[^a]", r"(?:)|é"];
        for pattern in patterns {
            let (lite, full) = (ascii(pattern), ascii(pattern));
            full.searched.store(FEW, Ordering::Relaxed);
            let all = regex_automata::meta::Regex::new(&plain(pattern)).unwrap();
            for text in texts {
                let ranges = |of: &Ascii| of.find_iter(text).map(|m| m.range()).collect::<Vec<_>>();
                assert_eq!(
                    ranges(&lite),
                    all.find_iter(text).map(|m| m.range()).collect::<Vec<_>>(),
                    "{pattern} {text}"
                );
                assert_eq!(ranges(&lite), ranges(&full), "{pattern} {text}");
                let groups = |of: &Ascii| {
                    let one = |c: Captures<'_>| {
                        let value = c.name("value").map(|m| m.range());
                        ((0..3).map(|group| c.get(group).map(|m| m.range())).collect::<Vec<_>>(), value)
                    };
                    of.captures_iter(text).map(one).collect::<Vec<_>>()
                };
                assert_eq!(groups(&lite), groups(&full), "{pattern} {text}");
                assert_eq!(lite.is_match(text), full.is_match(text));
            }
            assert!(lite.full.get().is_none() && full.lite.get().is_none());
        }
    }
}
