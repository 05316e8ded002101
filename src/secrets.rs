//! Masking of secrets in everything that gevals writes: results, logs, recordings, plans, messages. What is sent over
//! the wire is never masked.

use crate::ascii::{Ascii, ascii};
use std::{borrow::Cow, ops::Range, sync::LazyLock};

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE},
};
use regex::Regex;
use serde_json::Value;

/// Minimum length in bytes of a line of a multi-line secret that is masked by itself.
const LINE: usize = 20;

/// The replacement for a secret.
pub const MASK: &str = "***";

/// The beginning of a note about a part of a text that was left out: `\n… 5 bytes more`, `\n… 5 bytes left out …\n`.
pub const CUT: &str = "\n… ";

/// Minimum length of a secret: shorter values would mask half of any text. Code that writes such a value masks it
/// itself.
const SHORTEST: usize = 6;

/// Parts of a name, between `_`, `-` and `.`, that indicate a secret.
const TELLING: [&str; 17] = [
    "TOKEN",
    "KEY",
    "APIKEY",
    "SECRET",
    "SECRETS",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "PASS",
    "PWD",
    "PAT",
    "CREDENTIAL",
    "CREDENTIALS",
    "AUTH",
    "AUTHORIZATION",
    "COOKIE",
    "DSN",
];

/// Endings of such a part that also indicate one: `PGPASSWORD`, `sshPass`.
const ENDS: [&str; 12] = [
    "TOKEN",
    "KEY",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "PASS",
    "PWD",
    "CREDENTIAL",
    "CREDENTIALS",
    "DSN",
    "WEBHOOK",
];

/// Words with these endings that do not indicate a secret.
const WORDS: [&str; 12] = [
    "MONKEY",
    "TURKEY",
    "DONKEY",
    "WHISKEY",
    "HOCKEY",
    "JOCKEY",
    "HOTKEY",
    "COMPASS",
    "BYPASS",
    "TRESPASS",
    "ASKPASS",
    "ENCOMPASS",
];

/// Last parts of names that describe a secret but do not contain it: its location.
const ABOUT: [&str; 6] = ["FILE", "PATH", "DIR", "SOCK", "HOME", "ASKPASS"];

/// Names that look like those of secrets but are not: the current directory, the fingerprint of a public key, a path.
const NO_SECRETS: [&str; 5] = ["PWD", "OLDPWD", "GPG_KEY", "GPG_KEYS", "GOOGLE_APPLICATION_CREDENTIALS"];

/// Whether a variable of this name contains a secret.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let parts = || name.split(['_', '-', '.']);
    let tells =
        |part: &str| TELLING.contains(&part) || ENDS.iter().any(|end| part.ends_with(end)) && !WORDS.contains(&part);
    !NO_SECRETS.contains(&name.as_str())
        && !parts().next_back().is_some_and(|last| ABOUT.contains(&last))
        && parts().any(tells)
}

/// Returns the secrets in the variables of an environment: the values of variables with secret names, and secrets in
/// the values of others, such as passwords in URLs.
pub fn of_environment(variables: impl IntoIterator<Item = (String, String)>) -> Vec<String> {
    let mut found = Vec::new();
    for (name, value) in variables {
        found.extend(told(&value));
        if is_secret_name(&name) {
            found.push(value);
        }
    }
    found
}

/// Returns the values in a text that are secret because of their context (secret names, options of commands, passwords
/// in URLs) or because they have the format of a token.
pub fn told(text: &str) -> Vec<String> {
    let values = |line: &str| hidden(line).into_iter().map(|range| line[range].to_owned()).collect::<Vec<_>>();
    text.lines().flat_map(values).collect()
}

/// Like [`told`], for the arguments of a command, where a value may follow its option.
pub fn in_arguments<S: AsRef<str>>(args: &[S]) -> Vec<String> {
    let mut found: Vec<String> = args.iter().flat_map(|arg| told(arg.as_ref())).collect();
    for (nth, arg) in args.iter().map(AsRef::as_ref).enumerate() {
        let Some(name) = arg.strip_prefix('-') else { continue };
        match name.split_once('=') {
            Some((name, value)) if is_secret_name(name.trim_start_matches('-')) => found.push(value.to_owned()),
            None if is_secret_name(name.trim_start_matches('-')) => {
                let value = args.get(nth + 1).map(AsRef::as_ref).filter(|value| !value.starts_with('-'));
                found.extend(value.map(str::to_owned));
            }
            _ => {}
        }
    }
    found
}

/// Words that describe a state and are not secrets, although they follow a secret name (`AUTH=enabled`).
const STATES: [&str; 9] =
    ["enabled", "disabled", "required", "optional", "default", "always", "anonymous", "unknown", "unused"];

/// The schemes of an `Authorization` header. In `Bearer ${TOKEN}`, only what follows the scheme is secret.
const SCHEME_NAMES: [&str; 21] = [
    "bearer",
    "basic",
    "digest",
    "token",
    "apikey",
    "api-key",
    "negotiate",
    "oauth",
    "dpop",
    "hawk",
    "bot",
    "sharedkey",
    "geniekey",
    "splunk",
    "ssws",
    "api-token",
    "apitoken",
    "oauth2",
    "pveapitoken",
    "klaviyo-api-key",
    "zoho-oauthtoken",
];

/// Whether a text is only the name of a scheme, or of a parameter as in `token=${TOKEN}`.
fn is_scheme(text: &str) -> bool {
    let name = text.trim().trim_end_matches(['=', ':']);
    SCHEME_NAMES.iter().any(|scheme| name.eq_ignore_ascii_case(scheme))
}

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

/// Whether a value with a secret name can be a secret: long enough, and not a placeholder, the path of a file, or the
/// name of a variable.
pub fn looks_secret(value: &str) -> bool {
    let bare = value.trim();
    let bare = SCHEMES.iter().find_map(|p| bare.strip_prefix(p)).unwrap_or(bare).trim();
    let lower = bare.to_ascii_lowercase();
    let placeholder = PLACEHOLDERS.iter().any(|p| lower.contains(p));
    let path = bare.starts_with(['/', '~', '.', '<', '$', '{']) || bare.contains("://");
    let variable = bare.contains('_') && bare.bytes().all(|b| matches!(b, b'A'..=b'Z' | b'0'..=b'9' | b'_'));
    bare.len() >= 8 && !placeholder && !path && !variable && !bare.contains(' ')
}

/// Whether a value looks randomly generated: long, with letters and digits. Passwords of databases that exist only
/// during a task are words.
pub fn looks_drawn(value: &str) -> bool {
    let bare = SCHEMES.iter().find_map(|p| value.trim().strip_prefix(p)).unwrap_or(value).trim();
    let count = |is: fn(&u8) -> bool| bare.bytes().filter(is).count();
    bare.len() >= 20
        && bare.bytes().all(|b| b.is_ascii_alphanumeric())
        && count(u8::is_ascii_digit) >= 3
        && count(u8::is_ascii_alphabetic) >= 3
        && looks_secret(bare)
}

/// Finds tokens in any text by their unambiguous formats. Placeholders in examples are excluded.
pub fn tokens(text: &str) -> impl Iterator<Item = Range<usize>> {
    // Most texts contain nothing similar, and compiling the pattern takes longer than checking a task.
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let mut words = text.split(|c| !part(c));
    let like = |word: &str| word.len() >= SHORTEST_TOKEN && HEADS.iter().any(|head| word.contains(head));
    let found = (words.any(like) || text.contains("-----BEGIN")).then(|| TOKENS.find_iter(text));
    found
        .into_iter()
        .flatten()
        .filter(|m| {
            let token = m.as_str();
            let mut seen = [false; 128];
            token.bytes().filter(u8::is_ascii).for_each(|b| seen[usize::from(b)] = true);
            token.starts_with("--") || looks_secret(token) && seen.iter().filter(|s| **s).count() >= 10
        })
        .map(|m| m.range())
}

/// Returns the range of the password in a URL, unless it is a well-known default, equals the user name, or the host is
/// this machine.
pub fn password(url: &str) -> Option<Range<usize>> {
    const KNOWN: [&str; 8] = ["pass", "postgres", "admin", "root", "guest", "secret", "user", "mysql"];
    let found = url.contains('@').then(|| LOGIN.captures(url))??;
    let (user, password, host) = (found.get(1)?.as_str(), found.get(2)?, &url[found.get(0)?.end()..]);
    let lower = password.as_str().to_ascii_lowercase();
    let known = KNOWN.iter().chain(&PLACEHOLDERS).any(|known| lower.contains(known));
    let local = ["localhost", "127.", "[::1]", "0.0.0.0"].iter().any(|h| host.starts_with(h));
    (password.as_str().len() >= SHORTEST && password.as_str() != user && !known && !local && !lower.starts_with('<'))
        .then(|| password.range())
}

/// Every token that [`TOKENS`] finds contains one of these, except keys on lines of their own.
const HEADS: [&str; 9] = ["gh", "github_pat_", "glpat-", "sk-", "xox", "AKIA", "ASIA", "AIza", "eyJ"];
/// In bytes: `AKIA` and sixteen more.
const SHORTEST_TOKEN: usize = 20;

static TOKENS: Ascii = ascii(concat!(
    r"(?-u:\b)(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,}|glpat-[A-Za-z0-9_-]{20,}",
    r"|sk-(?:ant|proj)-[A-Za-z0-9_-]{20,}|xox[baprs]-[A-Za-z0-9-]{20,}|(?:AKIA|ASIA)[A-Z0-9]{16}(?-u:\b)",
    r"|AIza[A-Za-z0-9_-]{35}|eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{16,})",
    r"|-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----\s+[A-Za-z0-9+/]{40,}",
));

const SCHEMES: [&str; 4] = ["Bearer ", "Basic ", "Token ", "token "];

/// Returns a line of a file with the values of secret names (`TOKEN: …`, `--password=…`, `https://user:…@host`)
/// replaced; all other bytes keep their positions. For displayed lines of files that may contain a secret in plain
/// text.
pub fn veil(line: &str) -> Cow<'_, str> {
    let mut values = hidden(line);
    if is_of_key(line.trim()) {
        values.push(0..line.len());
    }
    if values.is_empty() {
        return Cow::Borrowed(line);
    }
    let hidden = |at: usize| values.iter().any(|v| v.contains(&at));
    let stars = |(at, c): (usize, char)| if hidden(at) { "*".repeat(c.len_utf8()) } else { c.to_string() };
    Cow::Owned(line.char_indices().map(stars).collect())
}

/// Finds the values of secret names, passwords and tokens in a line.
fn hidden(line: &str) -> Vec<Range<usize>> {
    // A short word after `key:` is more often a label than a secret.
    let telling = |name: &str| is_secret_name(name) && !matches!(name.to_ascii_lowercase().as_str(), "key" | "auth");
    // Most lines contain none, and compiling the patterns takes longer than printing most findings.
    let lower = line.to_ascii_lowercase();
    let tells = HINTS.iter().any(|hint| lower.contains(hint));
    let mut values: Vec<Range<usize>> = Vec::new();
    let mut from = if tells { 0 } else { line.len() + 1 };
    while let Some(found) = line.get(from..).and_then(|rest| PAIR.captures_at(line, line.len() - rest.len())) {
        let value = found.get(2).or(found.get(3));
        let (Some(whole), Some(name), Some(value)) = (found.get(0), found.get(1), value) else { break };
        let is_name = value.as_str().strip_prefix('[').is_some_and(is_variable_name) || reads_variable(value.as_str());
        if telling(name.as_str().trim_start_matches('-')) && looks_secret(value.as_str()) && !is_name {
            values.push(value.range());
            from = whole.end();
        } else {
            from = value.start().max(name.end() + 1);
        }
    }
    values.extend(passwords(line));
    if tells {
        let flags = FLAG.captures_iter(line).chain(LISTED.captures_iter(line)).filter_map(|c| c.get(1));
        values.extend(flags.filter(|value| looks_secret(value.as_str())).map(|m| m.range()));
    }
    values.extend(tokens(line));
    values
}

/// Whether the first item of a list is the name of a variable, as in `secrets: [JIRA_TOKEN]`.
fn is_variable_name(text: &str) -> bool {
    let all = |is: fn(&u8) -> bool| text.bytes().all(|b| is(&b));
    text.contains('_') && all(|b| matches!(b, b'A'..=b'Z' | b'0'..=b'9' | b'_'))
        || all(u8::is_ascii_uppercase) && is_secret_name(text)
}

/// How programs read a variable of their environment.
const READS: [&str; 8] = [
    "os.environ",
    "os.getenv(",
    "os.Getenv(",
    "process.env",
    "System.getenv(",
    "Deno.env.get(",
    "import.meta.env",
    "getenv(",
];

/// Whether a value is code that reads a variable, and contains nothing else: `process.env.API_KEY`.
fn reads_variable(value: &str) -> bool {
    let rest = READS.iter().find_map(|head| value.strip_prefix(head));
    let part = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || "_.[();\\".contains(c);
    rest.is_some_and(|rest| rest.trim_start_matches(".get").chars().all(part))
}

/// Finds the passwords in the URLs of a text.
fn passwords(text: &str) -> impl Iterator<Item = Range<usize>> {
    let found = (text.contains("://") && text.contains('@')).then(|| LOGIN.captures_iter(text));
    let ranges = found.into_iter().flatten().filter_map(|c| c.get(2));
    // Masked passwords stay as they are.
    ranges.filter(|m| !m.as_str().bytes().all(|b| b == b'*')).map(|m| m.range())
}

/// Every line in which [`PAIR`] or [`FLAG`] finds something contains one of these.
const HINTS: [&str; 11] =
    ["token", "key", "secret", "pass", "pwd", "credential", "auth", "cookie", "dsn", "webhook", "pat"];

static PAIR: LazyLock<Ascii> = LazyLock::new(|| {
    let name =
        r#"([A-Za-z0-9_.-]*(?i:token|key|secret|pass|pwd|credential|auth|cookie|dsn|webhook|pat)[A-Za-z0-9_.-]*)"#;
    let scheme = r"(?:(?:Bearer|Basic|[Tt]oken)\s+)?";
    let pattern = r#"\s*[:=]\s*(?:"SCHEME((?:\\.|[^"\\\s])+)"|["']?SCHEME([^\s"',}\]]+))"#;
    format!(r#"{name}["']?{}"#, pattern.replace("SCHEME", scheme)).into()
});

static LOGIN: Ascii = ascii(r"://([^/\s:@]*):([^@\s/$\{]+)@");

/// `--token VALUE`, in shell text and in a list.
static FLAG: Ascii = ascii(
    r#"--?[A-Za-z0-9-]*(?:token|key|secret|password|credential)["']?[,\s]\s*["']?([A-Za-z0-9_+/=.~-]*[0-9][A-Za-z0-9_+/=.~-]{7,})"#,
);

/// `"--token", "VALUE"`: in a list, the value may contain any character.
static LISTED: Ascii =
    ascii(r#"["']--?[A-Za-z0-9-]*(?:token|key|secret|pass|pwd|password|credential)["'],\s*["']([^"'\s]{8,})["']"#);

/// Whether a line looks like one of a private key: 60 to 80 base64 characters, with a digit and letters in both cases.
fn is_of_key(line: &str) -> bool {
    let has = |is: fn(&u8) -> bool| line.bytes().any(|b| is(&b));
    (60..=80).contains(&line.len())
        && line.bytes().all(is_base64)
        && has(u8::is_ascii_digit)
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_lowercase)
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}

/// A set of secret values. They are found in plain text, escaped for JSON, URLs and HTML, and encoded as base64 and
/// hexadecimal. In addition, values with the format of a token and passwords in URLs are found without being in the
/// set.
#[derive(Debug, Default)]
pub struct Secrets {
    /// Longest first, without duplicates.
    forms: Vec<String>,
    /// A quick test for whether a text contains any of them.
    any: Option<Regex>,
}

impl Secrets {
    /// Creates the set; values that are too short to be distinguished from other text are left out.
    pub fn new<I>(values: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        let mut forms = Vec::new();
        for value in values {
            let value: String = value.into();
            if STATES.contains(&value.trim()) || is_scheme(&value) {
                continue;
            }
            forms_of(&value, &mut forms);
            // The lines of a key may be shown one by one.
            value.lines().skip(1).map(str::trim).filter(|line| line.len() >= LINE).for_each(|line| {
                forms.push(line.to_owned());
            });
            // A secret read from a file often ends in a newline, which its user removes.
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

    /// Returns the text with every secret replaced; overlapping secrets become one mask.
    pub fn mask<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if !self.occurs_in(text) {
            return Cow::Borrowed(text);
        }
        let mut found: Vec<Range<usize>> = Vec::new();
        for form in &self.forms {
            // Occurrences of one form may overlap, so the search continues one character further.
            let mut from = 0;
            while let Some(at) = text.get(from..).and_then(|rest| rest.find(form.as_str())) {
                let start = from + at;
                found.push(start..start + form.len());
                from = start + text[start..].chars().next().map_or(1, char::len_utf8);
            }
        }
        if let Some(unwrapped) = Unwrapped::of(text) {
            found.extend(self.forms.iter().flat_map(|form| unwrapped.places(form)));
        }
        found.extend(self.parts_at_cuts(text));
        found.extend(tokens(text).chain(passwords(text)));
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

    /// Masks the strings, keys and numbers of a JSON value in place; returns whether anything was masked.
    pub fn mask_json(&self, value: &mut Value) -> bool {
        match value {
            Value::Null | Value::Bool(_) => false,
            Value::Number(number) => {
                let text = number.to_string();
                let masked = self.mask(&text);
                let Cow::Owned(masked) = masked else { return false };
                *value = Value::String(masked);
                true
            }
            Value::String(text) => {
                let Cow::Owned(masked) = self.mask(text) else { return false };
                *text = masked;
                true
            }
            Value::Array(items) => items.iter_mut().fold(false, |any, item| self.mask_json(item) | any),
            Value::Object(map) => {
                let mut any = map.values_mut().fold(false, |any, item| self.mask_json(item) | any);
                if map.keys().any(|key| self.occurs_in(key)) {
                    any = true;
                    *map = std::mem::take(map)
                        .into_iter()
                        .map(|(key, item)| (self.mask(&key).into_owned(), item))
                        .collect();
                }
                any
            }
        }
    }

    fn occurs_in(&self, text: &str) -> bool {
        let is_in = |text: &str| match &self.any {
            Some(any) => any.is_match(text),
            None => self.forms.iter().any(|form| text.contains(form.as_str())),
        };
        let known = is_in(text) || Unwrapped::of(text).is_some_and(|unwrapped| is_in(&unwrapped.text));
        known
            || !self.parts_at_cuts(text).is_empty()
            || tokens(text).next().is_some()
            || passwords(text).next().is_some()
    }

    /// Returns the places of secrets of which a cut has left only a part: the beginning in front of [`CUT`], or the end behind it.
    fn parts_at_cuts(&self, text: &str) -> Vec<Range<usize>> {
        /// Shorter parts say little, and occur by chance.
        const LEAST: usize = 4;
        let mut found = Vec::new();
        for (at, mark) in text.match_indices('…') {
            // In JSON, newlines are escaped.
            let line_end = ["\n", "\\n"].into_iter().find_map(|end| Some((text[..at].strip_suffix(end)?.len(), end)));
            let Some((cut, newline)) = line_end else { continue };
            let note = text[at + mark.len()..].trim_start_matches(|c: char| c == ' ' || c.is_ascii_digit());
            let behind = match note.strip_prefix("bytes left out …").and_then(|behind| behind.strip_prefix(newline)) {
                Some(behind) => behind,
                None if note.starts_with("bytes more") => "",
                None => continue,
            };
            let start = text.len() - behind.len();
            let parts =
                |form: &String| (LEAST..form.len()).rev().filter(|at| form.is_char_boundary(*at)).collect::<Vec<_>>();
            for form in &self.forms {
                let begins = parts(form).into_iter().find(|at| text[..cut].ends_with(&form[..*at]));
                found.extend(begins.map(|length| cut - length..cut));
                let ends = parts(form).into_iter().rev().map(|at| &form[at..]).filter(|end| end.len() >= LEAST);
                found.extend(ends.into_iter().find(|end| behind.starts_with(end)).map(|end| start..start + end.len()));
            }
        }
        found
    }
}

/// A text without the newlines at which programs wrap long lines of base64 (`base64` after 76 characters, PEM after
/// 64).
struct Unwrapped {
    text: String,
    /// The positions in `text` at which a newline was removed.
    breaks: Vec<usize>,
}

impl Unwrapped {
    /// Returns `None` if there is no such newline.
    fn of(text: &str) -> Option<Self> {
        const LEAST: usize = 60;
        let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/-_=".contains(byte);
        let bytes = text.as_bytes();
        let is_break = |at: usize| {
            at >= LEAST && bytes.get(at + 1).is_some_and(is_base64) && bytes[at - LEAST..at].iter().rev().all(is_base64)
        };
        let newlines: Vec<usize> = text.match_indices('\n').map(|(at, _)| at).filter(|at| is_break(*at)).collect();
        if newlines.is_empty() {
            return None;
        }
        let (mut unwrapped, mut from) = (String::with_capacity(text.len()), 0);
        let mut breaks = Vec::with_capacity(newlines.len());
        for at in newlines {
            unwrapped.push_str(&text[from..at]);
            breaks.push(unwrapped.len());
            from = at + 1;
        }
        unwrapped.push_str(&text[from..]);
        Some(Self { text: unwrapped, breaks })
    }

    /// Returns the ranges in the original text at which a form occurs.
    fn places<'a>(&'a self, form: &'a str) -> impl Iterator<Item = Range<usize>> + 'a {
        let before = |at: usize| self.breaks.partition_point(|place| *place <= at);
        self.text.match_indices(form).map(move |(at, _)| {
            let last = at + form.len() - 1;
            at + before(at)..last + before(last) + 1
        })
    }
}

fn forms_of(value: &str, forms: &mut Vec<String>) {
    if value.len() < SHORTEST {
        return;
    }
    forms.push(value.to_owned());
    let escaped = Value::from(value).to_string();
    let escaped = &escaped[1..escaped.len() - 1];
    forms.push(escaped.to_owned());
    // Some programs write `\/`, and JSON within JSON is escaped twice.
    forms.push(escaped.replace('/', "\\/"));
    let twice = Value::from(escaped).to_string();
    forms.push(twice[1..twice.len() - 1].to_owned());
    // Python writes only ASCII, and Go also escapes what has a meaning in HTML.
    forms.push(escaped_in_json(escaped, |c| !c.is_ascii()));
    forms.push(escaped_in_json(escaped, |c| matches!(c, '&' | '<' | '>' | '\u{2028}' | '\u{2029}')));
    let html = value.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    for (quote, apostrophe) in [("&quot;", "'"), ("&quot;", "&#x27;"), ("&quot;", "&#39;"), ("&#34;", "&#39;")] {
        forms.push(html.replace('"', quote).replace('\'', apostrophe));
    }
    for digits in [hex::encode(value), hex::encode_upper(value)] {
        let pairs: Vec<&str> = (0..digits.len()).step_by(2).map(|at| &digits[at..at + 2]).collect();
        forms.extend([":", " "].map(|between| pairs.join(between)));
        forms.push(digits);
    }
    forms.push(percent_encoded(value, "%20", false));
    forms.push(percent_encoded(value, "%20", true));
    forms.push(percent_encoded(value, "+", false));
    for engine in [STANDARD, URL_SAFE] {
        forms.push(engine.encode(value));
        // In a longer text (`user:password`), the value starts at one of three offsets; the characters that it shares
        // with adjacent bytes are left out.
        for shift in 0..3 {
            let mut bytes = vec![0; shift];
            bytes.extend_from_slice(value.as_bytes());
            let whole = engine.encode(&bytes);
            forms.push(whole[(shift * 8).div_ceil(6)..bytes.len() * 8 / 6].to_owned());
        }
    }
}

/// A text with the characters that `escapes` selects as `\\u` and the hexadecimal digits of their UTF-16 units.
fn escaped_in_json(text: &str, escapes: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match escapes(c) {
            true => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}"))),
            false => out.push(c),
        }
    }
    out
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
    fn base64_with_line_breaks_is_masked_at_any_offset() {
        let secret = "correct-horse-battery-staple-0123456789";
        let secrets = Secrets::new([secret.to_owned()]);
        for (width, before) in [64, 76].into_iter().flat_map(|width| (0..120).map(move |before| (width, before))) {
            let whole = STANDARD.encode(format!("{}{secret} and what comes after it", "x".repeat(before)));
            let lines: Vec<_> = whole.as_bytes().chunks(width).map(|line| std::str::from_utf8(line).unwrap()).collect();
            let masked = secrets.mask(&format!("it is\n{}\nall of it", lines.join("\n"))).into_owned();
            assert!(
                masked.contains(MASK) && masked.starts_with("it is\n") && masked.ends_with("\nall of it"),
                "{masked}"
            );
            // The remaining text decodes to nothing of the secret except its ends.
            for part in masked.replace('\n', "").split(MASK) {
                let part: String = part.chars().filter(char::is_ascii_alphanumeric).collect();
                assert!(!part.contains(&STANDARD.encode(secret)[4..12]), "{width} {before} {masked}");
            }
            assert!(masked.len() < whole.len() + 20 - secret.len() * 4 / 3 + 8, "{width} {before} {masked}");
        }
        // Other texts are unchanged, whatever the lengths of their lines.
        let plain = format!("{}\n{}\n", "a".repeat(76), "b".repeat(76));
        assert_eq!(secrets.mask(&plain), plain);
    }

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
        let secrets = Secrets::new(["p\u{e4}ss&<'x'>", "123456789"]);
        for text in [
            r#""p\u00e4ss&<'x'>""#,
            r#""p\u{e4}ss\u0026\u003c'x'\u003e""#.replace("\\u{e4}", "\u{e4}").as_str(),
            "p\u{e4}ss&amp;&lt;&#x27;x&#x27;&gt;",
            "p\u{e4}ss&amp;&lt;&#39;x&#39;&gt;",
            "70C3A47373263C2778273E",
            "70:c3:a4:73:73:26:3c:27:78:27:3e",
        ] {
            assert!(secrets.mask(text).contains(MASK), "{text}");
        }
        for (text, masked) in [
            ("its 12345678\n… 9 bytes more", "its ***\n… 9 bytes more"),
            ("its 12345\n… 9 bytes left out …\n56789 is", "its ***\n… 9 bytes left out …\n*** is"),
            (r#"{"a":"12345678\n… 9 bytes more"}"#, r#"{"a":"***\n… 9 bytes more"}"#),
            ("123\n… 9 bytes more", "123\n… 9 bytes more"),
            ("12345\n… it goes on", "12345\n… it goes on"),
        ] {
            assert_eq!(secrets.mask(text), masked);
        }
        assert_eq!(secrets.mask("short"), "short");
        let mut json = serde_json::json!({"k123456789": [123_456_789, 7, "x123456789y"]});
        secrets.mask_json(&mut json);
        assert_eq!(json, serde_json::json!({"k***": ["***", 7, "x***y"]}));
    }

    #[test]
    fn only_values_of_secret_names_are_masked() {
        for (line, shown) in [
            ("headers: {Authorization: Bearer 8f14e45fceea167a}", "headers: {Authorization: Bearer ****************}"),
            (r#"  "GITHUB_TOKEN": "ghp_abcdéf12","#, r#"  "GITHUB_TOKEN": "*************","#),
            ("args: [--password=hunter2hunter2, -v]", "args: [--password=**************, -v]"),
            ("run: curl -H 'X-Api-Key: 0123456789'", "run: curl -H 'X-Api-Key: **********'"),
            (
                "run: gh auth login ghp_0123456789abcdef0123456789abcdef0123",
                "run: gh auth login ****************************************",
            ),
            (r#"args: ["--token", "8f14e45fceea167a"]"#, r#"args: ["--token", "****************"]"#),
            ("url: postgres://me:geheim@localhost/x", "url: postgres://me:******@localhost/x"),
            ("secrets: [8f14e45fceea167a, b]", "secrets: *****************, b]"),
            ("secrets: [Tr0ub4dor_3]", "secrets: ************]"),
        ] {
            assert_eq!(veil(line), shown);
        }
        for line in [
            "key: app.kubernetes.io/name",
            "TOKEN: ${GITHUB_TOKEN}",
            "apiKey: OPENAI_API_KEY",
            "secrets: [JIRA_TOKEN]",
            "secrets: [S3_TOKEN, GITLAB_TOKEN]",
            "  secrets: [GITHUBTOKEN]",
            r#"token = os.environ["GITHUB_TOKEN"]"#,
            r#"run: python3 -c "token = os.environ.get(\"GITHUB_TOKEN\")""#,
            "const apiKey = process.env.API_KEY;",
            "tokens: {max: 4000}",
            "PASSWORD: changeme",
            "prompt: Find the secret: it is in the file notes.txt",
        ] {
            assert_eq!(veil(line), line);
        }
    }

    #[test]
    fn schemes_are_not_secret() {
        let secrets = Secrets::new(["Bearer ", "Digest", "token=", "GenieKey ", "Bearer 8f14e45fceea167a", "bearers"]);
        assert_eq!(
            secrets.mask("Bearer {env.X}, Digest, token=, GenieKey 7"),
            "Bearer {env.X}, Digest, token=, GenieKey 7"
        );
        assert_eq!(secrets.mask("Bearer 8f14e45fceea167a of bearers"), "*** of ***");
    }

    #[test]
    fn tokens_are_recognized_by_their_format() {
        for text in [
            "a ghp_0123456789abcdef0123456789abcdef0123 b",
            "AKIA2E0A8F3B244C9986",
            "github_pat_11AB4CDEF0gHiJkLmNoPqRsTuVwXyZ0123456",
            "glpat-a1b2c3d4e5f6g7h8i9j0",
            "xoxb-1a2b3c4d5e-6f7g8h9i0j1k",
            "AIzaSyA1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6q",
            "x=sk-ant-api03-8f14e45fceea167a5a36dedd4bea2543",
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N",
            "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA0Z3VS5JJcds3xfn0ygWyF8PbnGy0",
        ] {
            assert_eq!(tokens(text).count(), 1, "{text}");
        }
        for text in [
            "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
            "ghp_000000000000000000000000000000000000",
            "AKIAIOSFODNN7EXAMPLE",
            "-----BEGIN PRIVATE KEY-----\n...",
            "sk-proj-<your key>",
        ] {
            assert_eq!(tokens(text).count(), 0, "{text}");
        }
        assert_eq!(password("https://user:hunter2x@x.example/").map(|r| r.len()), Some(8));
        for url in
            ["http://x/", "postgres://postgres:postgres@db/x", "https://me:hunter2x@localhost/", "https://a:$B@c/"]
        {
            assert_eq!(password(url), None, "{url}");
        }
    }

    #[test]
    fn overlapping_secrets_are_masked_completely() {
        let secrets = Secrets::new(["abcdef-ghijkl", "ghijkl-mnopqr"]);
        assert_eq!(secrets.mask("<abcdef-ghijkl-mnopqr>"), "<***>");
        assert_eq!(Secrets::new(["xyxyxy"]).mask("xyxyxyxy"), "***");
    }
}
