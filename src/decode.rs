//! Reads records from YAML nodes: the decoder requests every key it knows, and all other keys are reported.

use std::time::Duration;

use indexmap::IndexMap;
use regex_syntax::hir::{Hir, HirKind};

use crate::{
    diagnostic::{Diagnostic, Diagnostics, Reported, Strength, nearest},
    hir::{Arg, ArgKind, Hole, Name, Part, Suspect, Template},
    rule,
    source::{Span, Spanned},
    template::{self, Path, Piece},
    ty::duration,
    yaml::{Data, Entry, Node, Yaml11, yaml11},
};

rule! {
    pub static UNKNOWN_FIELD = "unknown-field", Verdict;
    pub static WRONG_TYPE = "wrong-type", Hard;
    pub static MISSING_FIELD = "missing-field", Hard;
    pub static INVALID_DURATION = "invalid-duration", Hard;
    pub static KEY_CASE = "key-case", Verdict;
    pub static COERCED_SCALAR = "coerced-scalar", Warning;
    pub static INVALID_PATTERN = "invalid-pattern", Hard;
    pub static EMPTY_NAME = "empty-name", Hard;
    pub static EMPTY_VALUE = "empty-value", Warning;
    pub static VACUOUS_EXPECTATION = "vacuous-expectation", Verdict;
    pub static INVALID_VALUE = "invalid-value", Hard;
    pub static UNKNOWN_TOOL = "unknown-tool", Hard;
    pub static SECRET_IN_CLEAR = "secret-in-clear", Warning;
}

/// How lenient a reader is. What upstream reads, gevals reads in the same way, and reports (`decisions.md` §2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leniency {
    /// Not at all: the portable dialect, and files that only gevals has.
    Strict,
    /// Task files of the legacy and steps dialects: keys are case-insensitive, YAML 1.1 words are booleans.
    Task,
    /// Eval, Agent and MCP-config files: in addition, numbers and booleans in string fields become text.
    Config,
}

/// The state of a reader: where findings go, and how lenient it is.
#[derive(Debug)]
pub struct Reader<'d> {
    pub out: &'d mut Diagnostics,
    pub leniency: Leniency,
    failed: Option<Reported>,
}

/// A value decoded as far as possible, and whether an error was reported.
#[derive(Debug)]
pub struct Partial<T> {
    pub value: Option<T>,
    pub reported: Option<Reported>,
}

impl<'d> Reader<'d> {
    /// Creates a reader that reports to `out`.
    pub fn new(out: &'d mut Diagnostics, leniency: Leniency) -> Self {
        Self { out, leniency, failed: None }
    }

    /// Reports a hard error.
    pub fn error(&mut self, diagnostic: Diagnostic) {
        self.failed = Some(self.out.error(diagnostic));
    }

    /// Returns the value, and whether an error was reported while it was read.
    pub fn finish<T>(self, value: T) -> Partial<T> {
        Partial { value: Some(value), reported: self.failed }
    }

    /// Reads `node` as a mapping. `what` names it in messages: `a task`, `the config of an eval`.
    pub fn fields<'t>(&mut self, node: Node<'t>, what: &'static str) -> Option<Fields<'t>> {
        match node.data() {
            Data::Map => Some(Fields {
                entries: node.entries().collect(),
                asked: Vec::new(),
                missing: Vec::new(),
                blanks: Vec::new(),
                what,
                node,
                span: node.span(),
            }),
            _ => {
                self.wrong_type(node, "a mapping", what);
                None
            }
        }
    }

    /// Reads `node` as a list; an explicit null is reported too.
    pub fn items<'t>(&mut self, node: Node<'t>, what: &str) -> Vec<Node<'t>> {
        match node.data() {
            Data::Seq => node.items().collect(),
            _ => {
                self.wrong_type(node, "a list", what);
                Vec::new()
            }
        }
    }

    /// Reports a value of the wrong type: `wanted` is, for example, `a string`, `what` is `the name of a task`.
    pub fn wrong_type(&mut self, node: Node<'_>, wanted: &str, what: &str) {
        self.error(mistyped(node, wanted, what));
    }

    /// Reads a required string. `what` names it in the finding.
    pub fn string(&mut self, node: Node<'_>, what: &str) -> Option<Name> {
        if let Some(text) = node.as_str() {
            return Some(Spanned::new(text.to_owned(), node.span()));
        }
        if self.leniency == Leniency::Config && matches!(node.data(), Data::Bool(_) | Data::Int(_) | Data::Float(_)) {
            let text = node.text().unwrap_or_default();
            let read = match yaml11(text) {
                Some(Yaml11::Bool(b)) => b.to_string(),
                Some(Yaml11::Octal(n) | Yaml11::Int(n)) => n.to_string(),
                Some(Yaml11::Float(x)) => go_float(x),
                None => match node.data() {
                    Data::Float(x) => go_float(x),
                    _ => text.to_owned(),
                },
            };
            self.out.push(
                Diagnostic::new(
                    &COERCED_SCALAR,
                    node.span(),
                    format!("{what} is a string, but this is {}", node.describe()),
                )
                .here(format!("read as the text `{read}`"))
                .help("quote it, so that every tool reads the same text")
                .fix("quote the value", node.span(), quote(&read)),
            );
            return Some(Spanned::new(read, node.span()));
        }
        self.wrong_type(node, "a string", what);
        None
    }

    /// Reads a string that is not empty.
    pub fn name(&mut self, node: Node<'_>, what: &str) -> Option<Name> {
        let name = self.string(node, what)?;
        if name.value.trim().is_empty() {
            self.error(Diagnostic::new(&EMPTY_NAME, place(node), format!("{what} is empty")).help("write a name"));
            return None;
        }
        Some(name)
    }

    /// Reads a boolean.
    pub fn bool(&mut self, node: Node<'_>, what: &str) -> Option<Spanned<bool>> {
        if let Data::Bool(b) = node.data() {
            return Some(Spanned::new(b, node.span()));
        }
        if self.leniency != Leniency::Strict
            && node.is_plain()
            && let Some(Yaml11::Bool(b)) = node.text().and_then(yaml11)
        {
            self.out.push(
                Diagnostic::new(&COERCED_SCALAR, node.span(), format!("{what} is written as a YAML 1.1 boolean"))
                    .here(format!("read as `{b}`"))
                    .help(format!("write `{b}`"))
                    .fix(format!("write `{b}`"), node.span(), b.to_string()),
            );
            return Some(Spanned::new(b, node.span()));
        }
        self.wrong_type(node, "true or false", what);
        None
    }

    /// Reads an integer that fits into 64 bits.
    pub fn integer(&mut self, node: Node<'_>, what: &str) -> Option<Spanned<i64>> {
        match node.data() {
            Data::Int(n) => {
                if self.leniency != Leniency::Strict
                    && let Some(Yaml11::Octal(octal)) = node.text().and_then(yaml11)
                {
                    self.out.push(
                        Diagnostic::new(
                            &COERCED_SCALAR,
                            node.span(),
                            format!("{what} is written as a YAML 1.1 octal number"),
                        )
                        .here(format!("read as {octal}"))
                        .help(format!("write `{octal}`"))
                        .fix(format!("write `{octal}`"), node.span(), octal.to_string()),
                    );
                    return Some(Spanned::new(octal, node.span()));
                }
                Some(Spanned::new(n, node.span()))
            }
            _ => {
                self.wrong_type(node, "an integer", what);
                None
            }
        }
    }

    /// Reads a time limit: Go syntax, greater than zero.
    pub fn duration(&mut self, node: Node<'_>, what: &str) -> Option<Spanned<Duration>> {
        let text = match node.data() {
            Data::Str(text) => text,
            Data::Int(n) => {
                self.error(
                    Diagnostic::new(&INVALID_DURATION, node.span(), format!("{what} has no unit"))
                        .help(format!("write `{n}s` for {n} seconds"))
                        .fix("add the unit", node.span(), format!("{n}s")),
                );
                return None;
            }
            _ => {
                self.wrong_type(node, "a duration like `30s`", what);
                return None;
            }
        };
        match parse_duration(text, node.span(), what) {
            Ok(value) => Some(Spanned::new(value, node.span())),
            Err(diagnostic) => {
                self.error(*diagnostic);
                None
            }
        }
    }

    /// Returns the entries of a mapping with arbitrary keys. An entry without a value is reported and left out.
    pub fn present<'t>(&mut self, node: Node<'t>) -> Vec<Entry<'t>> {
        let (blank, present): (Vec<_>, Vec<_>) = node.entries().partition(|e| is_blank(e.value));
        blank.into_iter().for_each(|entry| self.out.push(empty_value(node, entry)));
        present
    }

    /// Reads a mapping of strings.
    pub fn strings(&mut self, node: Node<'_>, what: &str) -> IndexMap<String, Name> {
        if !matches!(node.data(), Data::Map) {
            self.wrong_type(node, "a mapping", what);
            return IndexMap::new();
        }
        let entries = self.present(node).into_iter();
        entries.filter_map(|e| Some((e.name.to_owned(), self.string(e.value, &format!("`{}`", e.name))?))).collect()
    }

    /// Reads a list of strings.
    pub fn words(&mut self, node: Node<'_>, what: &str) -> Vec<Name> {
        let items = match node.as_str() {
            Some(text) => self.unlisted(node, [text], what),
            None => self.items(node, what),
        };
        items.into_iter().filter_map(|item| self.string(item, &format!("an item of {what}"))).collect()
    }

    /// Reads the arguments of a program.
    pub fn arguments<'t>(&mut self, node: Node<'t>) -> Vec<Node<'t>> {
        match node.as_str().and_then(plain_words) {
            Some(words) => self.unlisted(node, words, "`args`"),
            None => self.items(node, "`args`"),
        }
    }

    /// Reports a text where a list of texts is expected.
    fn unlisted<'a, 't>(
        &mut self,
        node: Node<'_>,
        words: impl IntoIterator<Item = &'a str>,
        what: &str,
    ) -> Vec<Node<'t>> {
        let list = flow_list(words);
        self.error(mistyped(node, "a list", what).help(format!("write `{list}`")).fix(
            "make it a list",
            node.span(),
            list,
        ));
        Vec::new()
    }
}

/// Returns the finding for a value of the wrong type, with a fix if the value suggests one.
pub fn mistyped(node: Node<'_>, wanted: &str, what: &str) -> Diagnostic {
    let message = format!("{what} must be {wanted}, not {}", node.describe());
    let diagnostic = Diagnostic::new(&WRONG_TYPE, place(node), message).here(format!("{} here", node.describe()));
    let write = |text: String| {
        let help = format!("write `{text}`");
        (help.clone(), Some((help, text)))
    };
    let text = node.text().unwrap_or_default();
    let (help, fix) = match node.data() {
        Data::Null => (format!("write {wanted}, or remove the key"), None),
        _ if wanted.contains("a string") && node.is_plain() && !text.is_empty() => {
            (format!("quote it: `\"{text}\"`"), Some(("quote the value".to_owned(), quote(text))))
        }
        Data::Map if wanted == "a list" => ("start each item with `- `".to_owned(), None),
        Data::Str(text) if wanted == "true or false" => match yaml11(text) {
            Some(Yaml11::Bool(word)) => write(word.to_string()),
            _ if matches!(text, "true" | "false") => write(text.to_owned()),
            _ => ("write `true` or `false`".to_owned(), None),
        },
        Data::Str(text) if matches!(wanted, "an integer" | "a number") && text.parse::<i64>().is_ok() => {
            write(text.to_owned())
        }
        Data::Seq if wanted.starts_with("a mapping") => {
            ("write `KEY: VALUE` on each line, without `- `".to_owned(), None)
        }
        _ if wanted.starts_with("a mapping") => ("write `KEY: VALUE` on each line, below the key".to_owned(), None),
        Data::Seq if wanted.starts_with("a string") => {
            ("write a single string, without brackets and `- `".to_owned(), None)
        }
        Data::Float(_) | Data::Str(_) if wanted == "an integer" => {
            ("write a whole number, for example `3`".to_owned(), None)
        }
        Data::Str(_) | Data::Bool(_) | Data::Int(_) if wanted == "a list" => {
            ("start each item with `- `, or write `[…, …]`".to_owned(), None)
        }
        _ => return diagnostic,
    };
    match fix {
        Some((description, text)) => diagnostic.help(help).fix(description, node.span(), text),
        None => diagnostic.help(help),
    }
}

/// Splits a command line into words, if a shell would use them unchanged.
pub fn plain_words(text: &str) -> Option<Vec<&str>> {
    let plain = !text.contains(['"', '\'', '\\', '`', '|', '&', ';', '<', '>', '(', '*', '\n']);
    let words: Vec<_> = text.split_whitespace().collect();
    (plain && !words.is_empty()).then_some(words)
}

/// Writes a list of texts on one line.
pub fn flow_list<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    format!("[{}]", words.into_iter().map(quote).collect::<Vec<_>>().join(", "))
}

/// Writes a text so that it can appear in a flow collection.
pub fn flow_word(node: Node<'_>) -> String {
    let text = node.text().unwrap_or_default();
    let safe = |c: char| c.is_alphanumeric() || "_-./*?".contains(c);
    match node.is_plain() && text.chars().all(safe) && !text.starts_with(['*', '?', '-']) {
        true => text.to_owned(),
        false => quote(text),
    }
}

/// Formats a number as Go's `sigs.k8s.io/yaml` writes it into a string field: `FormatFloat(x, 'g', -1, 32)`.
fn go_float(x: f64) -> String {
    let x = x as f32;
    let scientific = format!("{x:e}");
    match scientific.split_once('e').map(|(digits, exponent)| (digits, exponent.parse::<i32>())) {
        Some((digits, Ok(exponent))) if !(-4..6).contains(&exponent) => {
            format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
        }
        _ => x.to_string(),
    }
}

/// Parses a text as a duration greater than zero.
///
/// # Errors
/// The finding, at `span`: not a duration, or not greater than zero.
pub fn parse_duration(text: &str, span: Span, what: &str) -> Result<Duration, Box<Diagnostic>> {
    let fault = match duration::parse(text) {
        Ok(d) if d.is_zero() => "it must be greater than zero".to_owned(),
        Ok(d) => return Ok(d),
        Err(fault) => fault.to_string(),
    };
    let diagnostic = Diagnostic::new(&INVALID_DURATION, span, format!("{what} is not a valid duration: {fault}"));
    let bare = text.trim();
    Err(Box::new(if !bare.is_empty() && bare.bytes().all(|b| b.is_ascii_digit()) && bare != "0" {
        diagnostic.help(format!("write `{bare}s` for {bare} seconds")).fix("add the unit", span, format!("{bare}s"))
    } else {
        diagnostic.help("write a number and a unit, such as `500ms`, `30s` or `1h30m`")
    }))
}

/// Size up to which a pattern certainly compiles: an automaton of a hundred Unicode classes takes less than half of the
/// limit.
const COMPILES: usize = 100;

/// Returns the number of characters and classes in the automaton of this pattern.
fn size(hir: &Hir) -> usize {
    let of_all = |parts: &[Hir]| parts.iter().map(size).fold(0, usize::saturating_add);
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => 0,
        HirKind::Literal(text) => text.0.len() / 16 + 1,
        HirKind::Class(_) => 1,
        HirKind::Capture(capture) => size(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => of_all(parts),
        HirKind::Repetition(repetition) => {
            let times = repetition.max.unwrap_or(repetition.min).max(1);
            size(&repetition.sub).saturating_mul(times as usize)
        }
    }
}

/// Checks that a text is a pattern: RE2 syntax, which Go and Rust share except for a few corner cases.
///
/// # Errors
/// The finding, at `span`, with what to write instead if that is known.
pub fn check_pattern(text: &str, span: Span) -> Result<(), Box<Diagnostic>> {
    // Compiling takes a hundred times as long as parsing, so only patterns that may be too large are compiled.
    if regex_syntax::parse(text).is_ok_and(|hir| size(&hir) <= COMPILES) {
        return Ok(());
    }
    let Err(error) = regex::Regex::new(text) else { return Ok(()) };
    let reason = match error {
        regex::Error::Syntax(text) => {
            let last = text.lines().last().unwrap_or_default();
            last.strip_prefix("error: ").unwrap_or(last).to_owned()
        }
        other => other.to_string(),
    };
    Err(Box::new(
        Diagnostic::new(&INVALID_PATTERN, span, format!("`{text}` is not a valid pattern: {reason}"))
            .help("patterns use RE2 syntax; escape a literal character with a backslash"),
    ))
}

/// The keys of one mapping.
#[derive(Debug)]
pub struct Fields<'t> {
    entries: Vec<Entry<'t>>,
    asked: Vec<&'static str>,
    /// Required keys that are missing, and where that was reported.
    missing: Vec<(&'static str, Option<Span>)>,
    /// Keys that were requested and have no value.
    blanks: Vec<Entry<'t>>,
    what: &'static str,
    node: Node<'t>,
    pub span: Span,
}

impl<'t> Fields<'t> {
    /// Takes the value of `key`, and marks `key` as known.
    pub fn take(&mut self, reader: &mut Reader<'_>, key: &'static str) -> Option<Node<'t>> {
        self.take_entry(reader, key).map(|e| e.value)
    }

    /// Like [`take`](Self::take), but with the key. A key without a value counts as absent; [`finish`](Self::finish)
    /// reports it.
    pub fn take_entry(&mut self, reader: &mut Reader<'_>, key: &'static str) -> Option<Entry<'t>> {
        let entry = self.take_any(reader, key)?;
        if is_blank(entry.value) {
            self.blanks.push(entry);
            return None;
        }
        Some(entry)
    }

    /// Takes the first of these keys that was requested and has no value. From now on, the caller is responsible for
    /// reporting it.
    pub fn take_blank(&mut self, keys: &[&str]) -> Option<Entry<'t>> {
        let at = self.blanks.iter().position(|e| keys.iter().any(|key| e.name.eq_ignore_ascii_case(key)))?;
        Some(self.blanks.remove(at))
    }

    /// Whether a requested key has no value.
    pub fn has_blanks(&self) -> bool {
        !self.blanks.is_empty()
    }

    /// Takes a key with any value. In files that upstream reads, a key in the wrong case is taken as well, and
    /// reported.
    fn take_any(&mut self, reader: &mut Reader<'_>, key: &'static str) -> Option<Entry<'t>> {
        self.asked.push(key);
        if let Some(at) = self.entries.iter().position(|e| e.name == key) {
            return Some(self.entries.remove(at));
        }
        if reader.leniency == Leniency::Strict {
            return None;
        }
        let at = self.entries.iter().position(|e| e.name.eq_ignore_ascii_case(key))?;
        let entry = self.entries.remove(at);
        reader.out.push(
            Diagnostic::new(&KEY_CASE, entry.key.span(), format!("key `{}` must be spelled `{key}`", entry.name))
                .help("other tools treat keys as case-sensitive")
                .fix(format!("write `{key}`"), entry.key.span(), key),
        );
        Some(entry)
    }

    /// Takes a required key; a missing one is reported at `parent`.
    pub fn require(&mut self, reader: &mut Reader<'_>, key: &'static str, parent: Span) -> Option<Node<'t>> {
        self.require_entry(reader, key, parent, None).map(|e| e.value)
    }

    /// Like [`require`](Self::require), but with the key; `help` is what to write if the key is missing.
    pub fn require_entry(
        &mut self,
        reader: &mut Reader<'_>,
        key: &'static str,
        parent: Span,
        help: Option<&str>,
    ) -> Option<Entry<'t>> {
        let found = self.take_entry(reader, key);
        if found.is_none() {
            let blank = self.take_blank(&[key]);
            let parent = blank.map_or(parent, |e| e.key.span());
            self.missing.push((key, Some(parent)));
            let diagnostic = Diagnostic::new(&MISSING_FIELD, parent, self.has_no(key));
            let diagnostic = if blank.is_some() { diagnostic.here("this key has no value") } else { diagnostic };
            reader.error(match help {
                Some(help) => diagnostic.help(help),
                None => diagnostic,
            });
        }
        found
    }

    fn has_no(&self, key: &str) -> String {
        format!("{} has no `{key}`", self.what)
    }

    /// Marks `keys` as keys of which one is required. Returns whether an unknown key is probably a misspelling of one
    /// of them: [`finish`](Self::finish) then reports that.
    pub fn misspells<const N: usize>(&mut self, keys: [&'static str; N]) -> bool {
        self.missing.extend(keys.map(|key| (key, None)));
        let meant = |e: &Entry<'_>| meant(e.name, self.what, self.asked.iter().copied());
        self.entries.iter().filter_map(meant).any(|key| keys.contains(&key))
    }

    /// The entries that were not taken yet.
    pub fn remaining(&self) -> &[Entry<'t>] {
        &self.entries
    }

    /// Reports every key that was not requested, with the nearest name and where it would belong. A misspelled required
    /// key is reported once, not twice.
    pub fn finish(self, reader: &mut Reader<'_>) {
        self.report(reader, false);
    }

    /// Like [`finish`](Self::finish), for a mapping that has no meaning without its unknown keys: each one is a hard
    /// error.
    pub fn finish_hard(self, reader: &mut Reader<'_>) {
        self.report(reader, true);
    }

    fn report(self, reader: &mut Reader<'_>, hard: bool) {
        self.blanks.iter().for_each(|entry| reader.out.push(empty_value(self.node, *entry)));
        for entry in &self.entries {
            let beside = self.node.entries().map(|entry| entry.name);
            let unknown = unknown_field(entry.name, entry.key.span(), self.what, self.asked.iter().copied(), beside);
            let near = meant(entry.name, self.what, self.asked.iter().copied());
            match self.missing.iter().find(|(key, _)| Some(*key) == near) {
                Some((near, parent)) => {
                    let message = self.has_no(near);
                    reader.out.retain(|d| {
                        d.rule.name != MISSING_FIELD.name || Some(d.span) != *parent || d.message != message
                    });
                    reader.error(unknown.strength(Strength::Hard));
                }
                None if hard => reader.error(unknown.strength(Strength::Hard)),
                None => reader.out.push(unknown),
            }
        }
    }
}

/// Whether a key has no value: nothing at all, or null.
pub fn is_blank(value: Node<'_>) -> bool {
    matches!(value.data(), Data::Null)
}

/// Returns the finding for a key of `mapping` without a value: it is read as if it were absent (`decisions.md` §13).
pub fn empty_value(mapping: Node<'_>, entry: Entry<'_>) -> Diagnostic {
    let message = format!("`{}` has no value and is treated as missing", entry.name);
    let diagnostic = Diagnostic::new(&EMPTY_VALUE, entry.key.span(), message).help("add a value, or remove the key");
    match mapping.without(entry) {
        Some(place) => diagnostic.fix(format!("remove `{}`", entry.name), place, ""),
        None => diagnostic,
    }
}

/// Returns the finding for an unknown key: what it probably should be, or where it belongs. `beside`: the other keys of
/// the mapping.
pub fn unknown_field<'a, 'b>(
    key: &str,
    span: Span,
    what: &str,
    known: impl IntoIterator<Item = &'a str> + Clone,
    beside: impl IntoIterator<Item = &'b str>,
) -> Diagnostic {
    let diagnostic = Diagnostic::new(&UNKNOWN_FIELD, span, format!("unknown key `{key}` in {what}"));
    if let Some(near) = meant(key, what, known.clone()) {
        if beside.into_iter().any(|beside| beside == near) {
            return diagnostic
                .here(format!("did you mean `{near}`, which is also present?"))
                .help(format!("unknown keys have no effect: move the value to `{near}`, or remove the key"));
        }
        return diagnostic.here(format!("did you mean `{near}`?")).help("unknown keys have no effect").fix(
            format!("write `{near}`"),
            span,
            near,
        );
    }
    if let Some((_, _, hint)) = HARMLESS.iter().find(|(k, place, _)| *k == key && what.contains(place)) {
        return diagnostic.strength(Strength::Warning).here("this key has no effect").help(*hint);
    }
    if ["timeout", "cleanupTimeout"].contains(&key)
        && what == "a task's spec"
        && known.clone().into_iter().any(|known| known == "limits")
    {
        return diagnostic.here("this key has no effect here").help(format!("write `limits: {{{key}: …}}`"));
    }
    if let Some((_, _, hint)) = ELSEWHERE.iter().find(|(k, place, _)| *k == key && what.contains(place)) {
        return diagnostic.here("this key has no effect here").help(*hint);
    }
    let known: Vec<_> = known.into_iter().map(|k| format!("`{k}`")).collect();
    let help = match known.is_empty() {
        true => "no keys are allowed here".to_owned(),
        false => format!("valid keys: {}", known.join(", ")),
    };
    diagnostic.here("this key has no effect").help(help)
}

/// Returns the key that an unknown key probably means.
pub fn meant<'a>(key: &str, what: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> Option<&'a str> {
    let synonym = || {
        let (.., word) = SYNONYMS.iter().find(|(other, place, _)| *other == key && *place == what)?;
        known.clone().into_iter().find(|k| k == word)
    };
    nearest(key, known.clone()).or_else(synonym)
}

/// Names of keys in other tools: the key, where it occurs, and its name in gevals.
const SYNONYMS: &[(&str, &str, &str)] = &[
    ("servers", "an MCP config", "mcpServers"),
    ("autoApprove", "a server", "alwaysAllow"),
    ("allowedTools", "a server", "alwaysAllow"),
    ("includeTools", "a server", "alwaysAllow"),
    ("tools", "a server", "alwaysAllow"),
    ("allowAll", "a server", "enableAllTools"),
    ("transport", "a server", "type"),
    ("cmd", "a server", "command"),
    ("arguments", "a server", "args"),
    ("environment", "a server", "env"),
    ("endpoint", "a server", "url"),
    ("command", "an ACP agent", "cmd"),
    ("arguments", "an ACP agent", "args"),
    ("name", "a built-in agent", "type"),
    ("run", "the commands of an agent", "runPrompt"),
    ("command", "the commands of an agent", "runPrompt"),
    ("baseUrl", "the environment of a judge", "baseUrlKey"),
    ("apiKey", "the environment of a judge", "apiKeyKey"),
    ("model", "the environment of a judge", "modelNameKey"),
    ("agent", "a judge", "ref"),
    ("mcpConfig", "an eval's config", "mcpConfigFile"),
    ("mcp", "an eval's config", "mcpConfigFile"),
    ("judge", "an eval's config", "llmJudge"),
    ("name", "a reference to an agent", "type"),
    ("file", "a reference to an agent", "path"),
    ("ref", "a reference to an agent", "path"),
    ("file", "a task set", "path"),
    ("labels", "a task set", "labelSelector"),
    ("selector", "a task set", "labelSelector"),
    ("source", "an extension", "package"),
    ("name", "an assertion about tools", "tool"),
    ("args", "an assertion about tools", "argumentsMatch"),
    ("arguments", "an assertion about tools", "argumentsMatch"),
    ("pattern", "an assertion about tools", "toolPattern"),
    ("resource", "an assertion about resources", "uri"),
    ("pattern", "an assertion about resources", "uriPattern"),
    ("name", "an assertion about prompts", "prompt"),
    ("args", "an assertion about prompts", "argumentsMatch"),
    ("arguments", "an assertion about prompts", "argumentsMatch"),
    ("pattern", "an assertion about prompts", "promptPattern"),
    ("tool", "an item of `callOrder`", "name"),
    ("minCalls", "assertions", "minToolCalls"),
    ("maxCalls", "assertions", "maxToolCalls"),
    ("toolsForbidden", "assertions", "toolsNotUsed"),
    ("forbiddenTools", "assertions", "toolsNotUsed"),
    ("requiredTools", "assertions", "toolsUsed"),
    ("server", "a requirement", "mcpServer"),
    ("mcp", "a requirement", "mcpServer"),
    ("id", "a task's metadata", "name"),
    ("before", "a task's spec", "setup"),
    ("after", "a task's spec", "cleanup"),
    ("teardown", "a task's spec", "cleanup"),
    ("checks", "a task's spec", "verify"),
    ("before", "the steps of a legacy task", "setup"),
    ("after", "the steps of a legacy task", "cleanup"),
    ("teardown", "the steps of a legacy task", "cleanup"),
    ("text", "a prompt", "inline"),
    ("run", "a script of a legacy task", "inline"),
    ("script", "a script of a legacy task", "inline"),
    ("path", "a script of a legacy task", "file"),
    ("run", "`script`", "inline"),
    ("cmd", "`script`", "inline"),
    ("path", "`script`", "file"),
    ("cwd", "`script`", "workdir"),
    ("cmd", "`command`", "run"),
    ("command", "`command`", "run"),
    ("inline", "`command`", "run"),
    ("cwd", "`command`", "workdir"),
    ("code", "the mapping of the `expect` of `command`", "exitCode"),
    ("status", "the mapping of the `expect` of `command`", "exitCode"),
    ("exit", "the mapping of the `expect` of `command`", "exitCode"),
    ("output", "the mapping of the `expect` of `command`", "stdout"),
    ("regex", "`stdout`", "matches"),
    ("match", "`stdout`", "matches"),
    ("pattern", "`stdout`", "matches"),
    ("includes", "`stdout`", "contains"),
    ("regex", "`stderr`", "matches"),
    ("match", "`stderr`", "matches"),
    ("pattern", "`stderr`", "matches"),
    ("includes", "`stderr`", "contains"),
    ("regex", "`body`", "matches"),
    ("pattern", "`body`", "matches"),
    ("includes", "`body`", "contains"),
    ("items", "`foreach`", "in"),
    ("list", "`foreach`", "in"),
    ("as", "`foreach`", "var"),
    ("item", "`foreach`", "var"),
];

/// Keys that only document something: without them, verdicts are the same.
pub const HARMLESS: &[(&str, &str, &str)] = &[
    ("reason", "llmJudge", "the judge gives its own reason; use a comment instead"),
    ("reasoning", "llmJudge", "the judge gives its own reason; use a comment instead"),
];

const PARALLEL: &str = "set `parallel: true` in the metadata of a task, and use `--parallel N` on the command line";
const RUNS: &str = "set `runs: N` in the metadata of a task, or use `--runs N` on the command line";

/// Keys that authors put in the wrong place: the key, a word of the place, and where it belongs.
const ELSEWHERE: &[(&str, &str, &str)] = &[
    ("assertions", "task", "assertions belong in the eval, beside the `path` or `glob` of a task set"),
    ("assertions", "eval", "assertions belong to a task set: put them beside its `path` or `glob`"),
    ("agentFile", "config", "remove it: the adjacent `agent` specifies the agent"),
    ("agentFile", "eval", "write `agent: {type: file, path: FILE}` under `config`"),
    ("taskSets", "eval", "`taskSets` belongs under `config`"),
    ("agent", "an eval", "`agent` belongs under `config`"),
    ("spec", "an eval", "put the settings of an eval under `config`"),
    ("config", "a task", "put the settings of a task under `spec`; `config` belongs to an eval"),
    ("mcpConfigFile", "an eval", "`mcpConfigFile` belongs under `config`"),
    ("llmJudge", "an eval", "`llmJudge` belongs under `config`"),
    ("parallel", "config", PARALLEL),
    ("runs", "config", RUNS),
    ("tasks", "config", "write `taskSets: [{glob: \"tasks/*.yaml\"}]`"),
    ("mcpServers", "config", "configure servers in a separate file, and refer to it with `mcpConfigFile`"),
    ("timeout", "an eval's config", "write `defaultTaskLimits: {timeout: …}`"),
    ("taskTimeout", "an eval's config", "write `defaultTaskLimits: {timeout: …}`"),
    (
        "timeout",
        "the limits of an eval",
        "set `defaultTaskLimits: {timeout: …}` for each task, or `maxTime` for all of them",
    ),
    ("parallelism", "config", PARALLEL),
    ("concurrency", "config", PARALLEL),
    ("repeat", "config", RUNS),
    ("env", "config", "set `env` for a server in the MCP config, and for a step in the task"),
    ("provider", "a reference to an agent", "put it before the model: `model: PROVIDER:MODEL`"),
    (
        "cmd",
        "a reference to an agent",
        "put it in a file of kind `Agent` and refer to the file with `path`: `acp: {cmd: …}`",
    ),
    (
        "command",
        "a reference to an agent",
        "put it in a file of kind `Agent` and refer to the file with `path`: `commands: {runPrompt: …}`",
    ),
    ("model", "a judge", "it belongs under `ref`: `ref: {type: builtin.llm-agent, model: PROVIDER:MODEL}`"),
    ("provider", "a judge", "put it before the model: `ref: {type: builtin.llm-agent, model: PROVIDER:MODEL}`"),
    ("enabled", "a server", "set `disabled: true` for a server that must not be started"),
    ("auth", "a server", "write `headers: {Authorization: \"Bearer ${TOKEN}\"}`"),
    ("timeout", "a server", "remove it: a call is limited by the timeout of its step or task"),
    ("cwd", "a server", "servers are started in the eval's directory; pass paths in `args`"),
    ("env", "an ACP agent", "the program inherits the environment of `gevals`: set the variable there"),
    ("model", "an agent", "it belongs under `builtin`: `builtin: {type: llm-agent, model: PROVIDER:MODEL}`"),
    ("cmd", "an agent", "it belongs under `acp`: `acp: {cmd: …}`"),
    ("type", "an agent", "specify how to run the agent with `builtin`, `acp` or `commands`"),
    ("spec", "an agent", "`builtin`, `acp` and `commands` belong at the top level"),
    ("config", "an agent", "`builtin`, `acp` and `commands` belong at the top level"),
    ("runs", "a task's spec", RUNS),
    ("gate", "a task's spec", "set `gate: {passes: P, of: N}` in the metadata of the task"),
    ("parallel", "a task's spec", "set `parallel: true` in the metadata of the task"),
    ("difficulty", "a task's spec", "it belongs under `metadata`"),
    ("labels", "a task's spec", "it belongs under `metadata`"),
    ("tags", "a task's spec", "it belongs under `metadata`"),
    ("tags", "a task's metadata", "write `labels: {KEY: VALUE}`"),
    ("timeout", "a step", "the time limit belongs inside the step's body"),
    ("name", "a step, beside", "describe a step in a comment; its `id` belongs inside its body"),
    ("if", "a step, beside", "every step runs: use a script to decide, by its exit status"),
    ("when", "a step, beside", "every step runs: use a script to decide, by its exit status"),
    ("retries", "`command`", "`eventually: {timeout: 1m, steps: […]}` tries its steps again until they pass"),
    ("retry", "`command`", "`eventually: {timeout: 1m, steps: […]}` tries its steps again until they pass"),
    ("contains", "the `expect` of `command`", "specify the output: `stdout: {contains: …}`"),
    ("matches", "the `expect` of `command`", "specify the output: `stdout: {matches: …}`"),
    ("equals", "the `expect` of `command`", "specify the output: `stdout: {equals: …}`"),
    ("exists", "`file`", "put expectations for a file under `expect`: `expect: {exists: true}`"),
    ("contains", "`file`", "put expectations for a file under `expect`: `expect: {contains: …}`"),
    ("matches", "`file`", "put expectations for a file under `expect`: `expect: {matches: …}`"),
    ("status", "`http`", "put expectations for the response under `expect`: `expect: {status: …}`"),
    (
        "prompt",
        "`llmJudge`",
        "write `contains: …` with what the answer must say; the judge compares the meaning, not the words",
    ),
    (
        "question",
        "`llmJudge`",
        "write `contains: …` with what the answer must say; the judge compares the meaning, not the words",
    ),
    (
        "criteria",
        "`llmJudge`",
        "write `contains: …` with what the answer must say; the judge compares the meaning, not the words",
    ),
    ("llmJudge", "a script of a legacy task", "use `contains` or `exact` instead"),
    (
        "env",
        "a script of a legacy task",
        "set the variables in the script; in the steps dialect, a step can have an `env`",
    ),
    (
        "timeout",
        "a script of a legacy task",
        "in the steps dialect, `apiVersion: mcpchecker/v1alpha2`, steps can have a `timeout`",
    ),
    ("continueOnError", "a step", "it belongs inside the step's body"),
    ("expect", "a step", "it belongs inside the step's body"),
    ("outputs", "a step", "it belongs inside the step's body"),
    ("id", "a step", "it belongs inside the step's body"),
    ("expect", "`script`", "a script passes by its exit status: compare the output in the script (`… | grep -q WORD`)"),
    ("extension", "a requirement", "extensions are imported: write `imports: [{package: …}]` under `spec`"),
    ("limits", "a task's spec", "write `timeout` and `cleanupTimeout` under `metadata`"),
    ("limits", "a task", "in the steps dialect, limits belong under `spec`"),
    ("timeout", "a task's metadata", "in the steps dialect, write `limits: {timeout: …}` under `spec`"),
    ("timeout", "the limits of a task", "in the portable dialect, it belongs under `metadata`"),
    ("cleanupTimeout", "the limits of a task", "in the portable dialect, it belongs under `metadata`"),
    ("timeout", "a task", "in the portable dialect, it belongs under `metadata`"),
    (
        "steps",
        "a task",
        "`steps` belongs to the legacy dialect, which has no `apiVersion`; with this `apiVersion`, the phases belong under `spec`",
    ),
    ("spec", "a legacy task", "`spec` requires `apiVersion: mcpchecker/v1alpha2` or `mcp-eval/v1`"),
    ("prompt", "a legacy task", "`prompt` belongs under `steps`"),
    ("setup", "a legacy task", "`setup` belongs under `steps`"),
    ("verify", "a legacy task", "`verify` belongs under `steps`"),
    ("cleanup", "a legacy task", "`cleanup` belongs under `steps`"),
    ("prompt", "a task", "`prompt` belongs under `spec` (in the legacy dialect under `steps`)"),
    ("setup", "a task", "`setup` belongs under `spec` (in the legacy dialect under `steps`)"),
    ("verify", "a task", "`verify` belongs under `spec` (in the legacy dialect under `steps`)"),
    ("cleanup", "a task", "`cleanup` belongs under `spec` (in the legacy dialect under `steps`)"),
    ("argTemplateMcpServer", "an agent", "it belongs under `commands`; built-in and ACP agents need none"),
    ("argTemplateAllowedTools", "an agent", "it belongs under `commands`; built-in and ACP agents need none"),
    ("allowedToolsJoinSeparator", "an agent", "it belongs under `commands`; built-in and ACP agents need none"),
    ("runPrompt", "an agent", "it belongs under `commands`; built-in and ACP agents need none"),
];

/// Returns the span to underline for a node: an implicit null has no text, so its span is right after the key.
pub fn place(node: Node<'_>) -> Span {
    node.span()
}

/// Writes a text as a YAML scalar that every tool reads as this text.
pub fn quote(text: &str) -> String {
    serde_json::Value::String(text.to_owned()).to_string()
}

/// Finds the holes in a text of a value.
pub type Scan = fn(Node<'_>) -> Template<Path>;

/// A scalar's text, unchanged, without holes.
pub fn literal(node: Node<'_>) -> Template<Path> {
    Template::literal(node.text().unwrap_or_default(), node.span())
}

/// A scalar's text with the holes of the portable dialect.
pub fn portable(node: Node<'_>) -> Template<Path> {
    let text = node.text().unwrap_or_default();
    let map = std::cell::OnceCell::new();
    scan_text(text, node.span(), &|range| map.get_or_init(|| node.source_map()).span(range))
}

/// Scans `text` for holes. `place` maps a range of it to a span in a file.
pub fn scan_text(text: &str, span: Span, place: &dyn Fn(std::ops::Range<usize>) -> Span) -> Template<Path> {
    let scan = template::scan(text);
    let parts = scan.pieces.into_iter().map(|piece| match piece {
        Piece::Text(text) => Part::Text(text),
        Piece::Hole(hole) => {
            let root = place(hole.path.root.range.clone());
            let segments = hole.path.segments.iter().map(|s| place(s.range.clone()));
            Part::Hole(Box::new(Hole {
                text: text[hole.range.clone()].to_owned(),
                span: place(hole.range.clone()),
                spans: std::iter::once(root).chain(segments).collect(),
                filter_spans: hole.filters.iter().map(|f| place(f.range.clone())).collect(),
                filters: hole.filters,
                reference: hole.path,
            }))
        }
    });
    let suspects = scan.suspects.into_iter().map(|s| Suspect {
        kind: s.kind,
        root: s.root,
        span: place(s.range),
        detail: s.detail,
    });
    let (mut parts, mut suspects): (Vec<_>, Vec<_>) = (parts.collect(), suspects.collect());
    // A suite has thousands of these.
    parts.shrink_to_fit();
    suspects.shrink_to_fit();
    Template { parts, span, suspects }
}

/// A value with the holes that `scan` finds in its texts.
pub fn arg(node: Node<'_>, scan: Scan) -> Arg<Path> {
    let kind = match node.data() {
        Data::Null => ArgKind::Null,
        Data::Bool(b) => ArgKind::Bool(b),
        Data::Int(n) => ArgKind::Int(n),
        // A number that JSON cannot represent is kept as text.
        Data::Float(_) => node.number().map_or_else(|| ArgKind::Text(scan(node)), ArgKind::Float),
        Data::Str(_) => ArgKind::Text(scan(node)),
        Data::Seq => ArgKind::List(node.items().map(|i| arg(i, scan)).collect()),
        Data::Map => ArgKind::Record(node.entries().map(|e| (key(e), arg(e.value, scan))).collect()),
    };
    Arg::new(kind, node.span())
}

/// Returns the key of an entry as a name.
pub fn key(entry: Entry<'_>) -> Name {
    Spanned::new(entry.name.to_owned(), entry.key.span())
}
