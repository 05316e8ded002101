//! Masking of secrets in what gevals writes: results, logs, recordings, plans, messages. The wire is never masked.

use std::{borrow::Cow, ops::Range, sync::LazyLock};

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

/// Whether what is written under a telling name can be a secret: long enough, and neither a placeholder, nor the path of a
/// file, nor the name of a variable.
pub fn looks_secret(value: &str) -> bool {
    const PLACEHOLDERS: [&str; 14] = [
        "test",
        "dummy",
        "fake",
        "example",
        "changeme",
        "change-me",
        "placeholder",
        "your",
        "xxx",
        "none",
        "null",
        "anonymous",
        "not-needed",
        "unused",
    ];
    let bare = value.trim();
    let bare = SCHEMES.iter().find_map(|p| bare.strip_prefix(p)).unwrap_or(bare).trim();
    let lower = bare.to_ascii_lowercase();
    let placeholder = PLACEHOLDERS.iter().any(|p| lower.contains(p));
    let path = bare.starts_with(['/', '~', '.', '<', '$', '{']) || bare.contains("://");
    let variable = bare.contains('_') && bare.bytes().all(|b| matches!(b, b'A'..=b'Z' | b'0'..=b'9' | b'_'));
    bare.len() >= 8 && !placeholder && !path && !variable && !bare.contains(' ')
}

const SCHEMES: [&str; 4] = ["Bearer ", "Basic ", "Token ", "token "];

/// A line of a file with the values of telling names (`TOKEN: …`, `--password=…`, `https://user:…@host`) made
/// unreadable; every byte keeps its place. For lines that are shown, of files that may have a secret written in clear.
pub fn veil(line: &str) -> Cow<'_, str> {
    // A short word under `key:` is a label more often than a secret.
    let telling = |name: &str| is_secret_name(name) && !matches!(name.to_ascii_lowercase().as_str(), "key" | "auth");
    let mut values: Vec<Range<usize>> = Vec::new();
    let mut from = 0;
    while let Some(found) = line.get(from..).and_then(|rest| PAIR.captures_at(line, line.len() - rest.len())) {
        let (Some(whole), Some(name), Some(value)) = (found.get(0), found.get(1), found.get(2)) else { break };
        if telling(name.as_str().trim_start_matches('-')) && looks_secret(value.as_str()) {
            values.push(value.range());
            from = whole.end();
        } else {
            from = value.start().max(name.end() + 1);
        }
    }
    values.extend(LOGIN.captures_iter(line).filter_map(|c| c.get(1)).map(|m| m.range()));
    if values.is_empty() {
        return Cow::Borrowed(line);
    }
    let hidden = |at: usize| values.iter().any(|v| v.contains(&at));
    let stars = |(at, c): (usize, char)| if hidden(at) { "*".repeat(c.len_utf8()) } else { c.to_string() };
    Cow::Owned(line.char_indices().map(stars).collect())
}

#[expect(clippy::unwrap_used, reason = "a constant")]
static PAIR: LazyLock<Regex> = LazyLock::new(|| {
    let name =
        r#"([A-Za-z0-9_.-]*(?i:token|key|secret|passw|passphrase|pwd|credential|auth|cookie|dsn)[A-Za-z0-9_.-]*)"#;
    Regex::new(&format!(r#"{name}["']?\s*[:=]\s*["']?(?:(?:Bearer|Basic|[Tt]oken)\s+)?([^\s"',}}\]]+)"#)).unwrap()
});

#[expect(clippy::unwrap_used, reason = "a constant")]
static LOGIN: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"://[^/\s:@]+:([^@\s/$\{]+)@").unwrap());

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
    fn values_of_telling_names_are_veiled_and_others_are_not() {
        for (line, shown) in [
            ("headers: {Authorization: Bearer 8f14e45fceea167a}", "headers: {Authorization: Bearer ****************}"),
            (r#"  "GITHUB_TOKEN": "ghp_abcdéf12","#, r#"  "GITHUB_TOKEN": "*************","#),
            ("args: [--password=hunter2hunter2, -v]", "args: [--password=**************, -v]"),
            ("run: curl -H 'X-Api-Key: 0123456789'", "run: curl -H 'X-Api-Key: **********'"),
            ("url: postgres://me:geheim@localhost/x", "url: postgres://me:******@localhost/x"),
        ] {
            assert_eq!(veil(line), shown);
        }
        for line in [
            "key: app.kubernetes.io/name",
            "TOKEN: ${GITHUB_TOKEN}",
            "apiKey: OPENAI_API_KEY",
            "tokens: {max: 4000}",
            "PASSWORD: changeme",
            "prompt: Find the secret: it is in the file notes.txt",
        ] {
            assert_eq!(veil(line), line);
        }
    }

    #[test]
    fn overlapping_secrets_leave_no_rest() {
        let secrets = Secrets::new(["abcdef-ghijkl", "ghijkl-mnopqr"]);
        assert_eq!(secrets.mask("<abcdef-ghijkl-mnopqr>"), "<***>");
        assert_eq!(Secrets::new(["xyxyxy"]).mask("xyxyxyxy"), "***");
    }
}
