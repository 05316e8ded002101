//! JSON paths in kubectl's syntax.

use serde_json::Value;
use serde_json_path::{JsonPath, NormalizedPath};

use crate::ty::number;

/// A path in kubectl's syntax: `{.a.b}`, `.a.b`, `a.b`, `{.metadata.annotations.example\.com/x}`, `[*]`,
/// `[?(@.type=="Ready")]`.
#[derive(Clone, Debug)]
pub struct Path {
    path: JsonPath,
    /// Whether it can select several values.
    several: bool,
}

impl Path {
    /// Parses a path.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let inner = text.trim();
        let inner = match inner.strip_prefix('{') {
            Some(rest) => rest.strip_suffix('}').ok_or_else(|| format!("`{text}`: a `{{` is never closed"))?,
            None => inner,
        };
        if inner.contains(['{', '}']) {
            return Err(format!("`{text}`: one path, not a template of several"));
        }
        let rfc = to_rfc(inner);
        let path = JsonPath::parse(&rfc).map_err(|e| format!("`{text}` is not a path: {e}"))?;
        let several =
            inner.contains("..") || inner.contains('*') || inner.contains("[?") || inner.contains(',') || slices(inner);
        Ok(Self { path, several })
    }

    /// The selected value, or a list if the path can select several; `None` if there is none.
    pub fn select(&self, value: &Value) -> Option<Value> {
        let found = self.path.query(value).all();
        match self.several {
            true if found.is_empty() => None,
            true => Some(found.into_iter().cloned().collect()),
            false => found.first().map(|value| (*value).clone()),
        }
    }

    /// What kubectl prints for the result of [`select`](Self::select): strings without quotes, several values separated
    /// by spaces.
    pub fn text(&self, selected: &Value) -> String {
        match selected {
            Value::Array(values) if self.several => values.iter().map(printed).collect::<Vec<_>>().join(" "),
            value => printed(value),
        }
    }

    /// Removes the selected values.
    pub fn remove(&self, value: &mut Value) {
        // In reverse order, so that the indexes of the remaining list items stay valid.
        let places: Vec<String> =
            self.path.query_located(value).locations().map(NormalizedPath::to_json_pointer).collect();
        for place in places.iter().rev() {
            let Some((parent, last)) = place.rsplit_once('/') else { continue };
            let last = last.replace("~1", "/").replace("~0", "~");
            match value.pointer_mut(parent) {
                Some(Value::Object(map)) => drop(map.shift_remove(&last)),
                Some(Value::Array(items)) => {
                    if let Some(index) = last.parse::<usize>().ok().filter(|i| *i < items.len()) {
                        items.remove(index);
                    }
                }
                _ => {}
            }
        }
    }
}

/// A value as kubectl prints it: objects and lists as Go writes them, with sorted keys and escapes for HTML.
pub fn printed(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value @ (Value::Object(_) | Value::Array(_)) => {
            let escapes = [
                ('<', "\\u003c"),
                ('>', "\\u003e"),
                ('&', "\\u0026"),
                ('\u{2028}', "\\u2028"),
                ('\u{2029}', "\\u2029"),
            ];
            let text = sorted(value).to_string();
            escapes.iter().fold(text, |text, (sign, escape)| text.replace(*sign, escape))
        }
        // kubectl reads what is no int64 as a float64.
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (None, Some(float)) => number::go_float(float),
            _ => number.to_string(),
        },
        value => value.to_string(),
    }
}

/// The same value with the keys of all objects in order, and with numbers as Go writes them.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().map(|(key, value)| (key.clone(), sorted(value))).collect();
            fields.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(fields.into_iter().collect())
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        Value::Number(number) if number.as_i64().is_none() => {
            let written = number.as_f64().and_then(|float| number::go_json(float).parse().ok());
            Value::Number(written.unwrap_or_else(|| number.clone()))
        }
        value => value.clone(),
    }
}

fn slices(text: &str) -> bool {
    text.split('[')
        .skip(1)
        .any(|part| part.split(']').next().is_some_and(|inner| !inner.contains(['\'', '"']) && inner.contains(':')))
}

/// The path in the syntax of RFC 9535: with a root, and names in quotes.
fn to_rfc(text: &str) -> String {
    let mut out = "$".to_owned();
    let mut rest = text.strip_prefix('$').unwrap_or(text);
    while let Some(first) = rest.chars().next() {
        if first == '[' {
            let end = end_of_brackets(rest);
            out.push_str(&rest[..end]);
            rest = &rest[end..];
            continue;
        }
        if let Some(deep) = rest.strip_prefix("..") {
            out.push_str("..");
            rest = deep;
        } else if first == '.' {
            rest = &rest[1..];
        }
        let mut name = String::new();
        let mut chars = rest.char_indices();
        let mut end = rest.len();
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => name.extend(chars.next().map(|(_, c)| c)),
                '.' | '[' => {
                    end = at;
                    break;
                }
                c => name.push(c),
            }
        }
        rest = &rest[end..];
        match name.as_str() {
            "" => {}
            "*" => out.push_str("[*]"),
            name => out.push_str(&format!("[{}]", Value::from(name))),
        }
    }
    out
}

/// The position after the bracket that closes the first one; brackets in strings are skipped.
fn end_of_brackets(text: &str) -> usize {
    let (mut depth, mut quote, mut escaped) = (0, None, false);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(_), _) if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            (None, _) => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_are_parsed_as_in_kubectl() {
        let pod = json!({
            "metadata": {"annotations": {"example.com/team": "a"}, "labels": {"app-name": "web"}},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}, {"type": "Initialized", "status": "False"}]},
        });
        for (path, value) in [
            ("{.status.phase}", json!("Running")),
            (".status.phase", json!("Running")),
            ("status.phase", json!("Running")),
            ("$.status.phase", json!("Running")),
            (r"{.metadata.annotations.example\.com/team}", json!("a")),
            ("{.metadata.annotations['example.com/team']}", json!("a")),
            ("{.metadata.labels.app-name}", json!("web")),
            ("{.status.conditions[0].type}", json!("Ready")),
            (r#"{.status.conditions[?(@.type=="Ready")].status}"#, json!(["True"])),
            ("{.status.conditions[*].type}", json!(["Ready", "Initialized"])),
            ("{..type}", json!(["Ready", "Initialized"])),
        ] {
            assert_eq!(Path::parse(path).unwrap().select(&pod), Some(value), "{path}");
        }
        assert_eq!(Path::parse("{.status.nothing}").unwrap().select(&pod), None);
        for wrong in ["{.a", "{.a}{.b}", "{range .items[*]}{.a}{end}", "{.a[}"] {
            assert!(Path::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn values_are_printed_as_by_kubectl() {
        let object = json!({"spec": {"m": {"url": "a=1&b=<2>", "a": null}, "list": [{"b": 1, "a": "x"}], "none": null,
                "big": 12_345_678_901_234_567_890_u64, "small": 1.5e-7, "in": {"big": 1e21, "whole": 2.0}}});
        for (path, text) in [
            ("{.spec.m}", r#"{"a":null,"url":"a=1\u0026b=\u003c2\u003e"}"#),
            ("{.spec.list}", r#"[{"a":"x","b":1}]"#),
            ("{.spec.m.url}", "a=1&b=<2>"),
            ("{.spec.none}", "null"),
            ("{.spec.big}", "1.2345678901234567e+19"),
            ("{.spec.small}", "1.5e-07"),
            ("{.spec.in}", r#"{"big":1e+21,"whole":2}"#),
        ] {
            let path = Path::parse(path).unwrap();
            assert_eq!(path.text(&path.select(&object).unwrap()), text);
        }
    }

    #[test]
    fn the_selection_of_a_path_is_removed() {
        let mut value = json!({"a": [{"b": 1, "c": 2}, {"b": 3}], "d/e": 4});
        Path::parse("{.a[*].b}").unwrap().remove(&mut value);
        Path::parse("{.d/e}").unwrap().remove(&mut value);
        assert_eq!(value, json!({"a": [{"c": 2}, {}]}));
        Path::parse("{.a[*]}").unwrap().remove(&mut value);
        assert_eq!(value, json!({"a": []}));
    }
}
