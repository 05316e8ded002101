//! Compares what was found with what is expected: texts, JSON values, and the steps dialect's fields.

use std::{borrow::Cow, fmt::Write};

use regex::Regex;
use serde_json::Value;
use serde_json_path::JsonPath;

use crate::{
    builtin::{
        expect::{JsonExpect, JsonType, TextExpect},
        steps_http::FieldExpect,
    },
    event::Difference,
    ty::number::{self, same_value},
};

/// Characters shown of either side of a difference.
const SHOWN: usize = 400;
/// Characters shown before the first place where two texts differ.
const BEFORE: usize = 60;

/// Of an expectation of which no part demands anything.
pub const NOTHING: &str = "`expect` compares nothing: no part of it demands anything";

/// What was compared.
#[derive(Default, Debug)]
pub struct Compared {
    /// How many comparisons were made: a part of an expectation that demands nothing makes none.
    pub made: u32,
    /// Those that did not come out as expected.
    pub differences: Vec<Difference>,
}

impl Compared {
    /// Adds one comparison, and what differed.
    pub fn add(&mut self, difference: Option<Difference>) {
        self.made += 1;
        self.differences.extend(difference);
    }

    /// Adds all of another.
    pub fn extend(&mut self, other: Self) {
        self.made += other.made;
        self.differences.extend(other.differences);
    }
}

/// Compares a text. Newlines at the end of `equals` do not count, as those of a process' output do not.
///
/// # Errors
/// A pattern that is none: holes can make one.
pub fn text(subject: &str, expect: &TextExpect, actual: &str) -> Result<Compared, String> {
    let mut found = Compared::default();
    if let Some(expected) = &expect.equals {
        let differs = expected.trim_end_matches('\n') != actual.trim_end_matches('\n');
        found.add(differs.then(|| unequal(subject, expected, actual)));
    }
    found.extend(part(subject, expect.contains.as_deref(), expect.matches.as_deref(), actual)?);
    Ok(found)
}

/// Looks for a part and for a pattern in a text.
///
/// # Errors
/// A pattern that is none.
pub fn part(subject: &str, contains: Option<&str>, matches: Option<&str>, actual: &str) -> Result<Compared, String> {
    let mut found = Compared::default();
    if let Some(part) = contains {
        let differs = !actual.contains(part);
        found.add(differs.then(|| difference(subject, &format!("contains `{part}`"), actual)));
    }
    if let Some(text) = matches {
        let differs = !pattern(text)?.is_match(actual);
        found.add(differs.then(|| difference(subject, &format!("matches `{text}`"), actual)));
    }
    Ok(found)
}

/// Compares values of a JSON document: no match is a failure, several matches compare as a list.
///
/// # Errors
/// A path or a pattern that is none.
pub fn json(subject: &str, expects: &[JsonExpect], document: &Value) -> Result<Compared, String> {
    let mut found = Compared::default();
    for expect in expects {
        found.extend(json_value(subject, expect, document)?);
    }
    Ok(found)
}

fn json_value(subject: &str, expect: &JsonExpect, document: &Value) -> Result<Compared, String> {
    // Whether there is a value.
    let mut found = Compared { made: 1, ..Compared::default() };
    let path = JsonPath::parse(&expect.path).map_err(|e| format!("`{}` is not a JSON path: {e}", expect.path))?;
    let subject = format!("{subject} {}", expect.path);
    let matches: Vec<&Value> = path.query(document).all();
    let value = match matches.as_slice() {
        [] if expect.exists == Some(false) => return Ok(found),
        [] => {
            found.differences.push(difference(&subject, &demand(expect), "nothing at this path"));
            return Ok(found);
        }
        [one] => Cow::Borrowed(*one),
        many => Cow::Owned(many.iter().copied().cloned().collect()),
    };
    if expect.exists == Some(false) {
        found.differences.push(difference(&subject, "nothing at this path", &compact(&value)));
        return Ok(found);
    }
    if let Some(expected) = &expect.equals {
        // A path that can match often gives a list; that it matched but once does not make it another thing.
        let listed = may_match_often(&expect.path)
            && matches.len() == 1
            && expected.as_array().is_some_and(|items| items.len() == 1 && same_value(&items[0], &value));
        let differs = !listed && !same_value(expected, &value);
        found.add(differs.then(|| unequal(&subject, &compact(expected), &compact(&value))));
    }
    if let Some(ty) = expect.ty {
        found.add((ty != JsonType::of(&value)).then(|| wrong_type(&subject, ty, &value)));
    }
    if let Some(text) = &expect.matches {
        found.add(value_matches(&subject, text, &value)?);
    }
    Ok(found)
}

/// What is expected where there is nothing, in words.
fn demand(expect: &JsonExpect) -> String {
    match (&expect.equals, &expect.matches, expect.ty) {
        (Some(value), ..) => compact(value),
        (_, Some(pattern), _) => format!("matches `{pattern}`"),
        (_, _, Some(ty)) => format!("type {}", ty.name()),
        _ => "a value".to_owned(),
    }
}

fn may_match_often(path: &str) -> bool {
    path.contains(['*', '?', ':', ',']) || path.contains("..")
}

/// Compares fields as the steps dialect does (§6.1 of the upstream behaviour): dotted paths, and text unless both sides
/// are numbers, which are compared exactly. A field that is missing passes where nothing is demanded of it.
///
/// # Errors
/// A pattern that is none.
pub fn fields(subject: &str, expects: &[FieldExpect], document: &Value) -> Result<Compared, String> {
    let mut found = Compared::default();
    for expect in expects {
        let subject = format!("{subject} {}", expect.path).trim_end().to_owned();
        let equals = expect.equals.as_ref().filter(|v| !v.is_null());
        let Some(value) = field(document, &expect.path) else {
            let compared = equals.is_some() || expect.ty.is_some() || expect.matches.is_some();
            if compared || expect.exists == Some(true) {
                found.add(Some(difference(&subject, "a value", "does not exist")));
            } else if expect.exists == Some(false) {
                found.add(None);
            }
            continue;
        };
        if let Some(exists) = expect.exists {
            found.add((!exists).then(|| difference(&subject, "no value", &compact(value))));
            if !exists {
                continue;
            }
        }
        if let Some(ty) = expect.ty {
            found.add((ty != JsonType::of(value)).then(|| wrong_type(&subject, ty, value)));
        }
        if let Some(expected) = equals {
            let same = match (expected, value) {
                (Value::Number(a), Value::Number(b)) => number::same(a, b),
                _ => go_text(expected) == go_text(value),
            };
            found.add((!same).then(|| unequal(&subject, &go_text(expected), &go_text(value))));
        }
        if let Some(text) = &expect.matches {
            found.add(value_matches(&subject, text, value)?);
        }
    }
    Ok(found)
}

/// The value at a dotted path: `a.b[0].c`. A number between dots is a key, an index in brackets is read up to the first
/// character that is no digit.
fn field<'v>(document: &'v Value, path: &str) -> Option<&'v Value> {
    if path.is_empty() {
        return Some(document);
    }
    path.split('.').try_fold(document, |value, part| {
        let (key, mut indexes) = part.split_at(part.find('[').unwrap_or(part.len()));
        let mut value = if key.is_empty() && !indexes.is_empty() { value } else { value.as_object()?.get(key)? };
        while let Some(rest) = indexes.strip_prefix('[') {
            let end = rest.find(']').unwrap_or(rest.len());
            let digits = rest[..end].find(|c: char| !c.is_ascii_digit()).unwrap_or(end);
            value = value.as_array()?.get(rest[..digits].parse::<usize>().ok()?)?;
            indexes = rest[end..].trim_start_matches(']');
        }
        indexes.is_empty().then_some(value)
    })
}

/// A value as Go's `fmt` writes it by default.
fn go_text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Number(n) => n.as_f64().map_or_else(|| n.to_string(), go_float),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(go_text).collect::<Vec<_>>().join(" ")),
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            let entries: Vec<_> = entries.iter().map(|(key, value)| format!("{key}:{}", go_text(value))).collect();
            format!("map[{}]", entries.join(" "))
        }
    }
}

/// `%v` of a float64: the shortest digits, with an exponent below 1e-4 and from 1e6 on.
fn go_float(x: f64) -> String {
    let scientific = format!("{x:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..6).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
        _ => format!("{x}"),
    }
}

/// A pattern, compiled as it is when it is checked.
///
/// # Errors
/// Why it is none.
pub fn pattern(text: &str) -> Result<Regex, String> {
    Regex::new(text).map_err(|e| {
        let reason = e.to_string();
        let last = reason.lines().last().unwrap_or_default();
        format!("`{text}` is not a pattern: {}", last.strip_prefix("error: ").unwrap_or(last))
    })
}

fn value_matches(subject: &str, text: &str, value: &Value) -> Result<Option<Difference>, String> {
    let pattern = pattern(text)?;
    Ok(match value {
        Value::String(actual) if pattern.is_match(actual) => None,
        Value::String(actual) => Some(difference(subject, &format!("matches `{text}`"), actual)),
        other => Some(wrong_type(subject, JsonType::String, other)),
    })
}

fn wrong_type(subject: &str, expected: JsonType, value: &Value) -> Difference {
    let actual = format!("{} {}", JsonType::of(value).name(), compact(value));
    difference(subject, &format!("type {}", expected.name()), &actual)
}

fn compact(value: &Value) -> String {
    value.to_string()
}

/// What was expected, in words, and what was found; both cut to a bound.
pub fn difference(subject: &str, expected: &str, actual: &str) -> Difference {
    Difference {
        subject: subject.to_owned(),
        expected: cut(expected, 0),
        actual: cut(actual, 0),
        at: None,
        place: None,
    }
}

/// Two texts side by side: where they are long, the part around the first place where they differ.
pub fn unequal(subject: &str, expected: &str, actual: &str) -> Difference {
    let common = expected.chars().zip(actual.chars()).take_while(|(a, b)| a == b).count();
    let long = |text: &str| text.chars().nth(SHOWN).is_some();
    let from = if long(expected) || long(actual) { common.saturating_sub(BEFORE) } else { 0 };
    Difference {
        subject: subject.to_owned(),
        expected: cut(expected, from),
        actual: cut(actual, from),
        at: None,
        place: None,
    }
}

fn cut(text: &str, from: usize) -> String {
    if text.is_empty() {
        return "(empty)".to_owned();
    }
    let mut chars = text.chars();
    let mut out = String::new();
    if from > 0 {
        chars.nth(from - 1);
        out.push('…');
    }
    out.extend(chars.by_ref().take(SHOWN));
    if chars.next().is_some() {
        out.push('…');
    }
    out
}

/// Names what is not as expected.
pub fn summary(differences: &[Difference]) -> String {
    let mut out = String::new();
    for (i, difference) in differences.iter().take(3).enumerate() {
        let comma = if i == 0 { "" } else { ", " };
        let _ = write!(out, "{comma}`{}`", difference.subject);
    }
    if differences.len() > 3 {
        let _ = write!(out, " and {} more", differences.len() - 3);
    }
    let verb = if differences.len() == 1 { "is" } else { "are" };
    format!("{out} {verb} not as expected")
}

/// The head of a text, for a message.
pub fn excerpt(text: &str) -> String {
    cut(text, 0)
}
