//! Masking of secrets in what gevals writes: results, logs, recordings, plans, messages. The wire is never masked.

use std::{borrow::Cow, ops::Range};

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE},
};
use regex::Regex;
use serde_json::Value;

/// What stands where a secret stood.
pub const MASK: &str = "***";

/// Shorter values would mask half of any text; whoever writes one masks it in its own place.
const SHORTEST: usize = 6;

/// Parts of a name, between `_`, `-` and `.`, that tell a secret.
const TELLING: [&str; 15] = [
    "TOKEN",
    "KEY",
    "APIKEY",
    "SECRET",
    "SECRETS",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "PWD",
    "CREDENTIAL",
    "CREDENTIALS",
    "AUTH",
    "AUTHORIZATION",
    "COOKIE",
    "DSN",
];

/// Whether a variable of this name holds a secret. `PWD` alone is the current folder.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    name != "PWD" && name != "OLDPWD" && name.split(['_', '-', '.']).any(|part| TELLING.contains(&part))
}

/// A set of secret values, found in plain, JSON-escaped, base64 and URL-encoded form.
#[derive(Debug, Default)]
pub struct Secrets {
    /// Longest first, no duplicates.
    forms: Vec<String>,
    /// A quick "is there any at all".
    any: Option<Regex>,
}

impl Secrets {
    pub fn new<I>(values: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        let mut forms = Vec::new();
        for value in values {
            let value: String = value.into();
            forms_of(&value, &mut forms);
            // A secret read from a file often ends in a newline that its user cuts off.
            if value.trim() != value {
                forms_of(value.trim(), &mut forms);
            }
        }
        forms.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        forms.dedup();
        let pattern = forms.iter().map(|form| regex::escape(form)).collect::<Vec<_>>().join("|");
        let any = if forms.is_empty() {
            None
        } else {
            regex::RegexBuilder::new(&pattern).size_limit(256 << 20).unicode(false).build().ok()
        };
        Secrets { forms, any }
    }

    pub fn is_empty(&self) -> bool {
        self.forms.is_empty()
    }

    /// The text with every secret in it replaced; overlapping ones become one mask.
    pub fn mask<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if !self.occurs_in(text) {
            return Cow::Borrowed(text);
        }
        let mut found: Vec<Range<usize>> = Vec::new();
        for form in &self.forms {
            // Occurrences of one form may overlap each other too, so the search goes on one character further.
            let mut from = 0;
            while let Some(at) = text.get(from..).and_then(|rest| rest.find(form.as_str())) {
                let start = from + at;
                found.push(start..start + form.len());
                from = start + text[start..].chars().next().map_or(1, char::len_utf8);
            }
        }
        if found.is_empty() {
            return Cow::Borrowed(text);
        }
        found.sort_by_key(|range| range.start);
        let mut masked = String::with_capacity(text.len());
        let mut end = 0;
        for range in found {
            if range.start >= end {
                masked.push_str(&text[end..range.start]);
                masked.push_str(MASK);
            }
            end = end.max(range.end);
        }
        masked.push_str(&text[end..]);
        Cow::Owned(masked)
    }

    /// Masks the strings, the keys and the numbers of a JSON value in place.
    pub fn mask_json(&self, value: &mut Value) {
        if self.is_empty() {
            return;
        }
        match value {
            Value::Null | Value::Bool(_) => {}
            Value::Number(number) => {
                let text = number.to_string();
                if let Cow::Owned(masked) = self.mask(&text) {
                    *value = Value::String(masked);
                }
            }
            Value::String(text) => {
                if let Cow::Owned(masked) = self.mask(text) {
                    *text = masked;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.mask_json(item)),
            Value::Object(map) => {
                map.values_mut().for_each(|item| self.mask_json(item));
                if map.keys().any(|key| self.occurs_in(key)) {
                    *map = std::mem::take(map)
                        .into_iter()
                        .map(|(key, item)| (self.mask(&key).into_owned(), item))
                        .collect();
                }
            }
        }
    }

    fn occurs_in(&self, text: &str) -> bool {
        match &self.any {
            Some(any) => any.is_match(text),
            None => self.forms.iter().any(|form| text.contains(form.as_str())),
        }
    }
}

fn forms_of(value: &str, forms: &mut Vec<String>) {
    if value.len() < SHORTEST {
        return;
    }
    forms.push(value.to_owned());
    let escaped = Value::from(value).to_string();
    forms.push(escaped[1..escaped.len() - 1].to_owned());
    forms.push(percent_encoded(value, "%20", false));
    forms.push(percent_encoded(value, "%20", true));
    forms.push(percent_encoded(value, "+", false));
    for engine in [STANDARD, URL_SAFE] {
        forms.push(engine.encode(value));
        // In a longer text (`user:password`) the value starts at any of three offsets; the characters that it shares
        // with its neighbours are left out.
        for shift in 0..3 {
            let mut bytes = vec![0; shift];
            bytes.extend_from_slice(value.as_bytes());
            let whole = engine.encode(&bytes);
            forms.push(whole[(shift * 8).div_ceil(6)..bytes.len() * 8 / 6].to_owned());
        }
    }
}

fn percent_encoded(value: &str, space: &str, lower: bool) -> String {
    let mut out = String::new();
    for byte in value.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(byte.into()),
            b' ' => out.push_str(space),
            _ if lower => out.push_str(&format!("%{byte:02x}")),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_masked() {
        let secrets = Secrets::new(["p@ss \"word\"\n", "short", "123456789"]);
        for text in [
            "p@ss \"word\"\n".to_owned(),
            "p@ss \"word\"".to_owned(),
            r#"{"a":"p@ss \"word\""}"#.to_owned(),
            "p%40ss%20%22word%22".to_owned(),
            "p%40ss+%22word%22".to_owned(),
            STANDARD.encode("p@ss \"word\""),
            format!("Basic {}", STANDARD.encode("me:p@ss \"word\"")),
            format!("Basic {}", STANDARD.encode("you:p@ss \"word\"!")),
        ] {
            let masked = secrets.mask(&text);
            assert!(masked.contains(MASK), "{text} -> {masked}");
            assert!(!masked.contains("word"), "{text} -> {masked}");
        }
        assert_eq!(secrets.mask("short"), "short");
        let mut json = serde_json::json!({"k123456789": [123_456_789, 7, "x123456789y"]});
        secrets.mask_json(&mut json);
        assert_eq!(json, serde_json::json!({"k***": ["***", 7, "x***y"]}));
    }

    #[test]
    fn overlapping_secrets_leave_no_rest() {
        let secrets = Secrets::new(["abcdef-ghijkl", "ghijkl-mnopqr"]);
        assert_eq!(secrets.mask("<abcdef-ghijkl-mnopqr>"), "<***>");
        assert_eq!(Secrets::new(["xyxyxy"]).mask("xyxyxyxy"), "***");
    }
}
