//! Compares values with expectations: texts, JSON values, and the fields of the steps dialect.

use std::{borrow::Cow, cmp::Ordering, fmt::Write};

use regex::Regex;
use serde_json::Value;
use serde_json_path::JsonPath;

pub use crate::builtin::expect::TextDemands;
use crate::{
    builtin::{
        expect::{Bound, Bounds, ElementExpect, JsonDemands, JsonExpect, JsonType, NotJson, Sorted, TextExpect},
        steps_http::FieldExpect,
    },
    event::Difference,
    ty::number::{self, go_float, same_value},
};

/// How many characters of each side of a difference are shown.
const SHOWN: usize = 400;
/// How many characters are shown before the first position at which two texts differ.
const BEFORE: usize = 60;

/// The error for an expectation in which no part demands anything.
pub const NOTHING: &str = "`expect` compares nothing: no part of it demands anything";

/// The result of comparisons.
#[derive(Default, Debug)]
pub struct Compared {
    /// How many comparisons were made; a part of an expectation that demands nothing does not count.
    pub made: u32,
    /// The comparisons that did not match.
    pub differences: Vec<Difference>,
}

impl Compared {
    /// Adds one comparison, and its difference if there is one.
    pub fn add(&mut self, difference: Option<Difference>) {
        self.made += 1;
        self.differences.extend(difference);
    }

    /// Adds all comparisons of `other`.
    pub fn extend(&mut self, other: Self) {
        self.made += other.made;
        self.differences.extend(other.differences);
    }
}

/// Compares a text. Newlines at the end of `equals` are ignored, like those at the end of a process' output.
///
/// # Errors
/// A pattern is invalid, which is possible if it contains holes.
pub fn text(subject: &str, expect: &TextExpect, actual: &str) -> Result<Compared, String> {
    let mut found = Compared::default();
    if let Some(expected) = &expect.0.equals {
        found.add((!same_text(expected, actual)).then(|| unequal(subject, expected, actual)));
    }
    found.extend(part(subject, &expect.0.demands(), actual)?);
    Ok(found)
}

fn same_text(a: &str, b: &str) -> bool {
    a.trim_end_matches('\n') == b.trim_end_matches('\n')
}

/// Evaluates all demands on a text except that it equals another one.
///
/// # Errors
/// A pattern is invalid.
pub fn part(subject: &str, demands: &TextDemands<'_>, actual: &str) -> Result<Compared, String> {
    let mut found = Compared::default();
    let differs = |expected: &str| difference(subject, expected, actual);
    if let Some(part) = demands.contains {
        found.add((!actual.contains(part)).then(|| differs(&format!("contains `{part}`"))));
    }
    if let Some(text) = demands.matches {
        found.add((!pattern(text)?.is_match(actual)).then(|| differs(&format!("matches `{text}`"))));
    }
    if let Some(texts) = demands.one_of {
        let is_one = texts.iter().any(|text| same_text(text, actual));
        found.add((!is_one).then(|| differs(&one_of(texts.iter().map(|text| format!("`{text}`"))))));
    }
    let body = actual.trim_end_matches('\n');
    if let Some(empty) = demands.empty {
        let expected = if empty { "nothing" } else { "a text that is not empty" };
        found.add((body.is_empty() != empty).then(|| differs(expected)));
    }
    if let Some(count) = demands.lines {
        let lines = if body.is_empty() { 0 } else { body.split('\n').count() };
        let difference = || difference(&format!("lines of {subject}"), &count.describe(), &lines.to_string());
        found.add((!count.admits(lines as u64)).then(difference));
    }
    bounds(subject, &demands.bounds, Some(body), actual, &mut found);
    if let Some(expects) = demands.json {
        match serde_json::from_str(actual) {
            Ok(document) => found.extend(json(&format!("{subject}.json"), expects, &document)?),
            Err(_) => found.add(Some(differs("JSON"))),
        }
    }
    if let Some(not) = demands.not {
        if let Some(text) = &not.equals {
            found.add(same_text(text, actual).then(|| differs(&format!("not `{text}`"))));
        }
        if let Some(part) = &not.contains {
            found.add(actual.contains(part).then(|| differs(&format!("does not contain `{part}`"))));
        }
        if let Some(text) = &not.matches {
            found.add(pattern(text)?.is_match(actual).then(|| differs(&format!("does not match `{text}`"))));
        }
    }
    Ok(found)
}

fn one_of(shown: impl Iterator<Item = String>) -> String {
    let shown: Vec<String> = shown.collect();
    format!("one of {}", shown.join(", "))
}

/// Evaluates the bounds of a number; `number` is the number as written, or `None` if there is none.
fn bounds(subject: &str, bounds: &Bounds<'_>, number: Option<&str>, actual: &str, found: &mut Compared) {
    let demands: [(_, _, fn(Ordering) -> bool); 4] = [
        (bounds.at_least, "at least", Ordering::is_ge),
        (bounds.at_most, "at most", Ordering::is_le),
        (bounds.above, "above", Ordering::is_gt),
        (bounds.below, "below", Ordering::is_lt),
    ];
    for (bound, words, admits) in demands {
        let Some(Bound(bound)) = bound else { continue };
        let holds = number.and_then(|number| number::compare(number, bound)).is_some_and(admits);
        found.add((!holds).then(|| difference(subject, &format!("a number {words} {bound}"), actual)));
    }
}

/// Compares values in a JSON document: no match is a failure, several matches are compared as a list.
/// A list matcher sees the list of the matches if the path may match several, even if it matches only one.
///
/// # Errors
/// A path or a pattern is invalid.
pub fn json(subject: &str, expects: &[JsonExpect], document: &Value) -> Result<Compared, String> {
    let mut found = Compared::default();
    for expect in expects {
        found.extend(json_value(subject, expect, document)?);
    }
    Ok(found)
}

fn json_value(subject: &str, expect: &JsonExpect, document: &Value) -> Result<Compared, String> {
    let demands = expect.demands();
    let mut found = Compared::default();
    let Some(at) = at_path(subject, &expect.path, expect.exists, &demands, document, &mut found)? else {
        return Ok(found);
    };
    found.extend(value_demands(&at, &demands)?);
    let (subject, list) = (&at.subject, at.list());
    for (element, all) in [(&expect.all, true), (&expect.any, false)] {
        let Some(element) = element else { continue };
        let Value::Array(items) = list else {
            found.add(Some(wrong_type(subject, JsonType::Array, list)));
            continue;
        };
        found.extend(elements(subject, element, all, items)?);
    }
    Ok(found)
}

/// What a path selects.
struct At<'v> {
    subject: String,
    /// The only node, or the list of all nodes if there are several.
    value: Cow<'v, Value>,
    /// The list of the only node, if the path is one that may select several (RFC 9535, 2.3.5.1).
    nodes: Option<Value>,
    /// Whether there are several nodes.
    several: bool,
}

impl At<'_> {
    /// Returns the value that demands on a list apply to. It depends on the path whether this is the list of the
    /// nodes, and not on how many nodes there happen to be.
    fn list(&self) -> &Value {
        self.nodes.as_ref().unwrap_or(&self.value)
    }
}

/// Returns what a path selects; `None` if there is nothing more to compare.
fn at_path<'v>(
    subject: &str,
    path: &str,
    exists: Option<bool>,
    demands: &JsonDemands<'_>,
    document: &'v Value,
    found: &mut Compared,
) -> Result<Option<At<'v>>, String> {
    // The check that there is a value.
    found.made += 1;
    let parsed = JsonPath::parse(path).map_err(|e| format!("`{path}` is not a JSON path: {e}"))?;
    let subject = format!("{subject} {path}");
    let matches: Vec<&Value> = parsed.query(document).all();
    let singular = is_singular(path);
    let (value, nodes) = match matches.as_slice() {
        [] if exists == Some(false) => return Ok(None),
        [] => {
            found.differences.push(difference(&subject, &demand(demands), "nothing at this path"));
            return Ok(None);
        }
        [one] => (Cow::Borrowed(*one), (!singular).then(|| Value::Array(vec![(*one).clone()]))),
        many => (Cow::Owned(many.iter().copied().cloned().collect()), None),
    };
    let several = matches.len() > 1;
    if exists == Some(false) {
        found.differences.push(difference(&subject, "nothing at this path", &compact(&value)));
        return Ok(None);
    }
    Ok(Some(At { subject, value, nodes, several }))
}

/// Evaluates each element separately; reports the differences of the first element that fails.
fn elements(subject: &str, expect: &ElementExpect, all: bool, items: &[Value]) -> Result<Compared, String> {
    if items.is_empty() {
        let differs = difference(subject, "at least one element", "an empty list");
        return Ok(Compared { made: 1, differences: vec![differs] });
    }
    let demands = expect.demands();
    let mut first = None;
    for (index, item) in items.iter().enumerate() {
        let of = format!("{subject}[{index}]");
        let mut found = Compared::default();
        let path = expect.path.as_deref().unwrap_or("$");
        if let Some(at) = at_path(&of, path, expect.exists, &demands, item, &mut found)? {
            found.extend(value_demands(&at, &demands)?);
        }
        match (found.differences.is_empty(), all) {
            (true, false) => return Ok(found),
            (false, true) => return Ok(found),
            _ => first = first.or(Some(found)),
        }
    }
    Ok(match all {
        true => first.unwrap_or_default(),
        false => {
            let expected = format!("an element: {}", demand(&demands));
            Compared {
                made: 1,
                differences: vec![difference(subject, &expected, &compact(&Value::Array(items.to_vec())))],
            }
        }
    })
}

/// Compares a value. `length` and `sorted` apply to the list of the nodes; other demands also accept a single node.
fn value_demands(at: &At<'_>, demands: &JsonDemands<'_>) -> Result<Compared, String> {
    let (subject, value, list) = (at.subject.as_str(), &*at.value, at.list());
    let mut found = Compared::default();
    let differs = |expected: &str| difference(subject, expected, &compact(value));
    let has = |part: &Value| contains(value, part) || at.nodes.as_ref().is_some_and(|nodes| contains(nodes, part));
    if let Some(expected) = demands.equals {
        let same = same_value(expected, value) || at.nodes.as_ref().is_some_and(|nodes| same_value(expected, nodes));
        found.add((!same).then(|| unequal(subject, &compact(expected), &compact(value))));
    }
    if let Some(ty) = demands.ty {
        found.add((ty != JsonType::of(value)).then(|| wrong_type(subject, ty, value)));
    }
    if let Some(text) = demands.matches {
        found.add(value_matches(subject, text, value)?);
    }
    if let Some(part) = demands.contains {
        found.add((!has(part)).then(|| differs(&format!("contains {}", compact(part)))));
    }
    if let Some(values) = demands.one_of {
        let is_one = values.iter().any(|one| same_value(one, value));
        found.add((!is_one).then(|| differs(&one_of(values.iter().map(compact)))));
    }
    if let Some(count) = demands.length {
        match length(list) {
            Some(n) => {
                let difference = || difference(&format!("length of {subject}"), &count.describe(), &n.to_string());
                found.add((!count.admits(n as u64)).then(difference));
            }
            None => found.add(Some(differs("a list, an object or a string"))),
        }
    }
    let number = value.as_number().map(ToString::to_string);
    bounds(subject, &demands.bounds, number.as_deref(), &compact(value), &mut found);
    if let Some(order) = demands.sorted {
        found.add((!is_sorted(list, order)).then(|| differs(&format!("a list in {} order", order.name()))));
    }
    if let Some(not) = demands.not {
        denied(at, not, has, &mut found)?;
    }
    Ok(found)
}

/// Compares a value with what must not be true of it. If there are several nodes, it must not be true of any of them,
/// nor of their list. A value to which a condition cannot apply fails: it would satisfy every negation.
fn denied(at: &At<'_>, not: &NotJson, has: impl Fn(&Value) -> bool, found: &mut Compared) -> Result<(), String> {
    let (subject, value) = (at.subject.as_str(), &*at.value);
    let differs = |expected: &str| difference(subject, expected, &compact(value));
    let each: &[Value] = match value {
        Value::Array(nodes) if at.several => nodes,
        _ => &[],
    };
    if let Some(other) = &not.equals {
        let is_it = same_value(other, value) || each.iter().any(|one| same_value(other, one));
        found.add(is_it.then(|| differs(&format!("not {}", compact(other)))));
    }
    if let Some(part) = &not.contains {
        let expected = format!("does not contain {}", compact(part));
        let applies = match (value, part) {
            (Value::Array(_), _) | (Value::String(_), Value::String(_)) | (Value::Object(_), Value::Object(_)) => true,
            _ => at.nodes.is_some(),
        };
        found.add((!applies || has(part)).then(|| match applies {
            true => differs(&expected),
            false => differs(&format!("a value that can contain {}, and does not", compact(part))),
        }));
    }
    if let Some(text) = &not.matches {
        let one = std::slice::from_ref(value);
        let mut difference = None;
        for node in if at.several { each } else { one } {
            let wrong = match node {
                Value::String(_) => value_matches(subject, text, node)?.is_none(),
                _ => true,
            };
            if wrong && difference.is_none() {
                let is_text = node.is_string();
                let expected =
                    format!("{}`{text}`", if is_text { "does not match " } else { "a string that does not match " });
                difference = Some(differs(&expected));
            }
        }
        found.add(difference);
    }
    if let Some(ty) = not.ty {
        let is_it = ty == JsonType::of(value) || each.iter().any(|one| ty == JsonType::of(one));
        found.add(is_it.then(|| differs(&format!("not of the type {}", ty.name()))));
    }
    Ok(())
}

fn contains(value: &Value, part: &Value) -> bool {
    match (value, part) {
        (Value::Array(items), part) => items.iter().any(|item| same_value(item, part)),
        (Value::String(text), Value::String(part)) => text.contains(part.as_str()),
        (Value::Object(fields), Value::Object(part)) => {
            part.iter().all(|(key, part)| fields.get(key).is_some_and(|value| same_value(value, part)))
        }
        _ => false,
    }
}

fn length(value: &Value) -> Option<usize> {
    match value {
        Value::Array(items) => Some(items.len()),
        Value::Object(fields) => Some(fields.len()),
        Value::String(text) => Some(text.chars().count()),
        _ => None,
    }
}

fn is_sorted(value: &Value, order: Sorted) -> bool {
    // No elements are in every order, which says nothing.
    let Value::Array(items) = value else { return false };
    if items.is_empty() {
        return false;
    }
    let compare = |a: &Value, b: &Value| match (a, b) {
        (Value::Number(a), Value::Number(b)) => number::compare(&a.to_string(), &b.to_string()),
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        _ => None,
    };
    items.windows(2).all(|pair| {
        compare(&pair[0], &pair[1]).is_some_and(|found| match order {
            Sorted::Ascending => found.is_le(),
            Sorted::Descending => found.is_ge(),
        })
    })
}

/// Describes the expected value when there is nothing at the path.
fn demand(demands: &JsonDemands<'_>) -> String {
    match demands {
        JsonDemands { equals: Some(value), .. } => compact(value),
        JsonDemands { matches: Some(pattern), .. } => format!("matches `{pattern}`"),
        JsonDemands { ty: Some(ty), .. } => format!("type {}", ty.name()),
        JsonDemands { contains: Some(part), .. } => format!("contains {}", compact(part)),
        JsonDemands { one_of: Some(values), .. } => one_of(values.iter().map(compact)),
        JsonDemands { length: Some(count), .. } => format!("length {}", count.describe()),
        _ => "a value".to_owned(),
    }
}

/// Whether a path selects at most one node whatever the document (RFC 9535, 2.3.5.1): it consists of names and indices.
fn is_singular(path: &str) -> bool {
    let mut quote = None;
    let mut chars = path.chars().peekable();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(_), '\\') => drop(chars.next()),
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '*' | '?' | ':' | ',') => return false,
            (None, '.') if chars.peek() == Some(&'.') => return false,
            _ => {}
        }
    }
    true
}

/// Compares fields as in the steps dialect (§6.1 of the upstream behaviour): paths are dotted, and values are compared
/// as text unless both are numbers, which are compared exactly. A missing field passes if nothing is demanded of it.
///
/// # Errors
/// A pattern is invalid.
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

/// Returns the value at a dotted path such as `a.b[0].c`. A number between dots is a key; an index in brackets is read
/// up to the first character that is not a digit.
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

/// Formats a value like the default format of Go's `fmt`.
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

/// Compiles a pattern in the same way as `check`.
///
/// # Errors
/// Why the pattern is invalid.
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

/// A difference between what was expected, in words, and what was found; both are cut.
pub fn difference(subject: &str, expected: &str, actual: &str) -> Difference {
    Difference {
        subject: subject.to_owned(),
        expected: cut(expected, 0),
        actual: cut(actual, 0),
        at: None,
        place: None,
    }
}

/// A difference between two texts: if they are long, only the part around the first difference is shown.
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

/// Names the subjects that are not as expected.
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

/// The start of a text, for a message.
pub fn excerpt(text: &str) -> String {
    cut(text, 0)
}
