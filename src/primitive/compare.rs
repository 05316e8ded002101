//! Exact matches: whether an answer is what an eval expects. Values are compared as JSON: numbers by value, and objects
//! regardless of key order.

use std::fmt;

use serde_json::{Map, Value};

use super::ExactMatch;
use crate::ty::number::same_value;

/// Maximum number of differences reported by one comparison.
const MOST: usize = 10;
/// Maximum number of characters of a value that are shown.
const SHOWN: usize = 200;

/// A tool call that a model made.
#[derive(Clone, PartialEq, Debug)]
pub struct Call {
    pub tool: String,
    pub arguments: Value,
}

/// One place where an answer differs from the expectation.
#[derive(Clone, PartialEq, Debug)]
pub struct Mismatch {
    /// Where: `toolName`, `arguments.path`, `content[0].text`.
    pub at: String,
    /// `None`: it should not exist.
    pub expected: Option<Value>,
    /// `None`: it does not exist.
    pub found: Option<Value>,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value: &Value| {
            let text = value.to_string();
            match text.char_indices().nth(SHOWN) {
                Some((end, _)) => format!("{}…", &text[..end]),
                None => text,
            }
        };
        match (&self.expected, &self.found) {
            (Some(expected), Some(found)) => {
                write!(f, "`{}` is {}, not {}", self.at, shown(found), shown(expected))
            }
            (Some(expected), None) => write!(f, "`{}` is missing; expected {}", self.at, shown(expected)),
            (None, Some(found)) => write!(f, "`{}` must not exist; it is {}", self.at, shown(found)),
            (None, None) => write!(f, "`{}` compares nothing", self.at),
        }
    }
}

/// An expectation that compares nothing never passes.
fn nothing() -> Vec<Mismatch> {
    vec![Mismatch { at: "expected".to_owned(), expected: None, found: None }]
}

/// Compares the calls in a model's first answer with the expected one: passes if one of them has the name of the tool,
/// and each expected argument is deeply equal. Other arguments are ignored.
///
/// # Errors
/// The differences of the closest call.
pub fn invocation(expected: &ExactMatch, calls: &[Call]) -> Result<(), Vec<Mismatch>> {
    let tool = |found: Option<&str>| {
        let expected = expected.tool.as_ref().map(|tool| Value::from(tool.value.as_str()));
        Mismatch { at: "toolName".to_owned(), expected, found: found.map(Value::from) }
    };
    if expected.tool.is_none() && expected.arguments.as_ref().is_none_or(|arguments| arguments.value.is_empty()) {
        return Err(nothing());
    }
    let mut nearest: Option<Vec<Mismatch>> = None;
    for call in calls {
        let mut differences = Vec::new();
        if expected.tool.as_ref().is_some_and(|name| name.value != call.tool) {
            differences.push(tool(Some(&call.tool)));
        }
        let named = expected.arguments.iter().flat_map(|arguments| &arguments.value);
        for (key, value) in named {
            differ(&format!("arguments.{key}"), Some(value), call.arguments.get(key), &mut differences);
        }
        if differences.is_empty() {
            return Ok(());
        }
        // A call of the right tool is closer than any other.
        let rank = |found: &[Mismatch]| (found.iter().any(|m| m.at == "toolName"), found.len());
        if nearest.as_ref().is_none_or(|best| rank(&differences) < rank(best)) {
            nearest = Some(differences);
        }
    }
    Err(nearest.unwrap_or_else(|| vec![tool(None)]))
}

/// Compares the result of `tools/call` with the expected one. The form of the expectation's `content` decides what is
/// compared:
///
/// - a list of blocks (mappings with a `type`; also the empty list), or one block: all blocks of the result, in order.
///   Two texts that both contain a JSON object or list are compared as JSON, everything else literally;
/// - a mapping with no keys other than `content`, `structuredContent` and `isError`: each of its keys is compared with
///   that key of the result;
/// - a text: the text of the only block of the result;
/// - anything else: the JSON in the text of the only block.
///
/// A result with `isError: true` never matches, unless the expectation says `isError: true`.
///
/// # Errors
/// The differences.
pub fn execution(expected: &ExactMatch, result: &Value) -> Result<(), Vec<Mismatch>> {
    let mut out = Vec::new();
    let Some(content) = expected.content.as_ref().map(|content| &content.value) else { return Err(nothing()) };
    let is_error = result.get("isError").and_then(Value::as_bool).unwrap_or(false);
    let named = whole(content);
    let wanted_error = named.and_then(|named| named.get("isError")?.as_bool()).unwrap_or(false);
    if is_error != wanted_error {
        out.push(Mismatch {
            at: "isError".to_owned(),
            expected: Some(wanted_error.into()),
            found: Some(is_error.into()),
        });
    }
    let none = Vec::new();
    let blocks = result.get("content").and_then(Value::as_array).unwrap_or(&none);
    match named {
        Some(named) => {
            if let Some(content) = named.get("content") {
                compare_content(content, blocks, &mut out);
            }
            if let Some(structured) = named.get("structuredContent") {
                differ("structuredContent", Some(structured), result.get("structuredContent"), &mut out);
            }
        }
        None => compare_content(content, blocks, &mut out),
    }
    if out.is_empty() { Ok(()) } else { Err(out) }
}

/// The differences between the `content` of a result and its expectation, compared as in [`execution`], except that an
/// expectation of a whole result has no meaning here.
pub fn content(expected: &Value, found: &Value) -> Vec<Mismatch> {
    let (mut out, none) = (Vec::new(), Vec::new());
    compare_content(expected, found.as_array().unwrap_or(&none), &mut out);
    out
}

/// The differences between two values, the second of which may be missing; `at` is their name in messages.
pub fn same(at: &str, expected: &Value, found: Option<&Value>) -> Vec<Mismatch> {
    let mut out = Vec::new();
    differ(at, Some(expected), found, &mut out);
    out
}

/// Returns the mapping if the expectation is one of a whole result.
pub(super) fn whole(content: &Value) -> Option<&Map<String, Value>> {
    let map = content.as_object().filter(|map| !map.is_empty())?;
    map.keys().all(|key| ["content", "structuredContent", "isError"].contains(&key.as_str())).then_some(map)
}

pub(super) fn is_block(value: &Value) -> bool {
    const KNOWN: [&str; 5] = ["text", "image", "audio", "resource", "resource_link"];
    value.get("type").and_then(Value::as_str).is_some_and(|kind| KNOWN.contains(&kind))
}

fn compare_content(expected: &Value, blocks: &[Value], out: &mut Vec<Mismatch>) {
    if let Some(items) = expected.as_array().filter(|items| items.iter().all(is_block)) {
        for index in 0..items.len().max(blocks.len()) {
            block(&format!("content[{index}]"), items.get(index), blocks.get(index), out);
        }
    } else if is_block(expected) {
        block("content[0]", Some(expected), blocks.first(), out);
        if let Some(more) = blocks.get(1) {
            differ("content[1]", None, Some(more), out);
        }
    } else {
        let only = match blocks {
            [only] => only.get("text").and_then(Value::as_str),
            _ => None,
        };
        match (expected, only) {
            (Value::String(expected), Some(found)) => text("content[0].text", expected, found, out),
            (_, Some(found)) => {
                let value = serde_json::from_str(found).unwrap_or_else(|_| Value::from(found));
                differ("content[0].text", Some(expected), Some(&value), out);
            }
            (_, None) => differ("content", Some(expected), Some(&Value::from(blocks.to_vec())), out),
        }
    }
}

fn block(at: &str, expected: Option<&Value>, found: Option<&Value>, out: &mut Vec<Mismatch>) {
    if let (Some(Value::Object(expected)), Some(Value::Object(found))) = (expected, found)
        && let (Some(Value::String(one)), Some(Value::String(other))) = (expected.get("text"), found.get("text"))
    {
        text(&format!("{at}.text"), one, other, out);
        let rest = |block: &Map<String, Value>| -> Value {
            block.iter().filter(|(key, _)| *key != "text").map(|(key, value)| (key.clone(), value.clone())).collect()
        };
        return differ(at, Some(&rest(expected)), Some(&rest(found)), out);
    }
    differ(at, expected, found, out);
}

/// Compares two texts; as JSON if both contain JSON objects or lists.
fn text(at: &str, expected: &str, found: &str, out: &mut Vec<Mismatch>) {
    if expected == found {
        return;
    }
    let json = |text: &str| {
        let value: Value = serde_json::from_str(text).ok()?;
        (value.is_object() || value.is_array()).then_some(value)
    };
    match (json(expected), json(found)) {
        (Some(expected), Some(found)) => differ(at, Some(&expected), Some(&found), out),
        _ => differ(at, Some(&expected.into()), Some(&found.into()), out),
    }
}

/// Adds the innermost values that differ.
fn differ(at: &str, expected: Option<&Value>, found: Option<&Value>, out: &mut Vec<Mismatch>) {
    if out.len() >= MOST {
        return;
    }
    match (expected, found) {
        (Some(Value::Object(one)), Some(Value::Object(other))) => {
            for (key, value) in one {
                differ(&format!("{at}.{key}"), Some(value), other.get(key), out);
            }
            for (key, value) in other.iter().filter(|(key, _)| !one.contains_key(*key)) {
                differ(&format!("{at}.{key}"), None, Some(value), out);
            }
        }
        (Some(Value::Array(one)), Some(Value::Array(other))) => {
            for index in 0..one.len().max(other.len()) {
                differ(&format!("{at}[{index}]"), one.get(index), other.get(index), out);
            }
        }
        (Some(one), Some(other)) if same_value(one, other) => {}
        (None, None) => {}
        _ => out.push(Mismatch { at: at.to_owned(), expected: expected.cloned(), found: found.cloned() }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::source::{Sources, Span, Spanned};

    fn at<T>(value: T) -> Spanned<T> {
        Spanned::new(value, Span::new(Sources::default().add("x", ""), 0..0))
    }

    fn says(result: Result<(), Vec<Mismatch>>) -> Vec<String> {
        result.err().unwrap_or_default().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn any_call_of_the_first_answer_may_match() {
        let of = |tool: Option<&str>, arguments: Value, calls: Vec<(&str, Value)>| {
            let arguments = arguments.as_object().cloned().map(at);
            let expected = ExactMatch { tool: tool.map(|t| at(t.to_owned())), arguments, content: None };
            let calls: Vec<_> =
                calls.into_iter().map(|(tool, arguments)| Call { tool: tool.to_owned(), arguments }).collect();
            says(invocation(&expected, &calls))
        };
        let wanted = json!({"path": "/a", "n": [1, {"x": 2}]});
        let right = json!({"n": [1.0, {"x": 2}], "path": "/a", "more": true});
        assert!(of(Some("read"), wanted.clone(), vec![("list", json!({})), ("read", right)]).is_empty());
        assert!(of(Some("read"), json!(null), vec![("read", json!(null))]).is_empty());
        assert!(of(None, json!({"a": 1}), vec![("any", json!({"a": 1}))]).is_empty());
        assert_eq!(of(Some("read"), json!({}), vec![]), ["`toolName` is missing; expected \"read\""]);
        assert_eq!(of(Some("read"), json!({}), vec![("list", json!({}))]), ["`toolName` is \"list\", not \"read\""]);
        // Values of named arguments are compared completely, and the closest call is reported.
        let near = json!({"path": "/a", "n": [1, {"x": 2, "y": 3}]});
        let calls = vec![("list", json!({"path": "/a", "n": [1, {"x": 2}]})), ("read", near), ("read", json!({}))];
        assert_eq!(of(Some("read"), wanted, calls), ["`arguments.n[1].y` must not exist; it is 3"]);
        // A number is not a text.
        assert_eq!(of(None, json!({"a": 1}), vec![("t", json!({"a": "1"}))]), ["`arguments.a` is \"1\", not 1"]);
    }

    #[test]
    fn the_type_of_content_decides_how_it_is_compared() {
        let of = |content: Value, result: Value| {
            let expected = ExactMatch { content: Some(at(content)), ..ExactMatch::default() };
            says(execution(&expected, &result))
        };
        let block = |text: &str| json!({"type": "text", "text": text});
        let text = |text: &str| json!({"content": [block(text)]});
        // Blocks against blocks.
        assert!(of(json!([block("a")]), text("a")).is_empty());
        assert!(of(block("a"), text("a")).is_empty());
        assert!(of(json!([]), json!({"content": []})).is_empty());
        assert_eq!(of(json!([block("a")]), text("b")), ["`content[0].text` is \"b\", not \"a\""]);
        assert_eq!(of(block("a"), json!({"content": [block("a"), block("b")]})).len(), 1);
        assert_eq!(of(json!([block("a"), block("b")]), text("a")).len(), 1);
        assert_eq!(of(json!([]), text("a")).len(), 1);
        let annotated = json!({"content": [{"type": "text", "text": "a", "annotations": {"priority": 1}}]});
        assert_eq!(of(block("a"), annotated).len(), 1);
        // Text that contains JSON is compared as JSON; other text is compared as text.
        assert!(of(json!([block(r#"{"a": 1, "b": [2]}"#)]), text(r#"{"b":[2.0],"a":1}"#)).is_empty());
        assert_eq!(of(json!([block(r#"{"a": 1}"#)]), text(r#"{"a": 2}"#)), ["`content[0].text.a` is 2, not 1"]);
        assert_eq!(of(json!([block("1")]), text("1.0")).len(), 1);
        assert_eq!(of(json!([block(" a")]), text("a")).len(), 1);
        // A text, and a value.
        assert!(of(json!("a"), text("a")).is_empty());
        assert!(of(json!({"temperature": 3}), text(r#"{"temperature": 3.0}"#)).is_empty());
        assert!(of(json!([1, 2]), text("[1,2]")).is_empty());
        assert!(of(json!(3), text("3")).is_empty());
        assert_eq!(of(json!({"a": 1}), text("none")), ["`content[0].text` is \"none\", not {\"a\":1}"]);
        assert_eq!(of(json!({"a": 1}), json!({"content": []})).len(), 1);
        assert_eq!(of(json!("a"), json!({"content": [block("a"), block("b")]})).len(), 1);
        // A whole result.
        let structured = json!({"content": [block("x")], "structuredContent": {"n": 1}});
        assert!(of(json!({"structuredContent": {"n": 1}}), structured.clone()).is_empty());
        assert!(of(json!({"structuredContent": {"n": 1}, "content": "x"}), structured.clone()).is_empty());
        assert_eq!(of(json!({"structuredContent": {"n": 2}}), structured), ["`structuredContent.n` is 1, not 2"]);
        assert_eq!(of(json!({"structuredContent": {}}), text("x")).len(), 1);
        // An error result counts, regardless of its text.
        let error = json!({"content": [block("a")], "isError": true});
        assert_eq!(of(json!("a"), error.clone()), ["`isError` is true, not false"]);
        assert!(of(json!({"isError": true}), error.clone()).is_empty());
        assert!(of(json!({"isError": true, "content": "a"}), error.clone()).is_empty());
        assert_eq!(of(json!({"isError": true}), text("a")), ["`isError` is false, not true"]);
        assert_eq!(of(json!({"isError": false, "content": "a"}), error).len(), 1);
    }

    #[test]
    fn expectations_that_compare_nothing_never_pass() {
        let call = Call { tool: "a".to_owned(), arguments: json!({}) };
        assert_eq!(says(invocation(&ExactMatch::default(), &[call])), ["`expected` compares nothing"]);
        assert_eq!(says(execution(&ExactMatch::default(), &json!({"content": []}))), ["`expected` compares nothing"]);
    }

    #[test]
    fn large_differences_are_truncated() {
        let expected = ExactMatch { content: Some(at(vec!["x".repeat(5000); 50].into())), ..ExactMatch::default() };
        let found = json!({"content": [{"type": "text", "text": Value::from(vec!["y".repeat(5000); 50]).to_string()}]});
        let told = says(execution(&expected, &found));
        assert_eq!(told.len(), MOST);
        assert!(told.iter().all(|line| line.chars().count() < 2 * SHOWN + 60), "{told:?}");
    }
}
