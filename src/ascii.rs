//! Patterns of gevals' own. In them `\w`, `\d`, `\s` and `\b` mean ASCII: Unicode's take twenty times as long to compile, and every start
//! of the program compiles those that it needs.

use std::{ops::Deref, sync::OnceLock};

use regex::Regex;

/// A pattern that is compiled when it is first used.
#[derive(Debug)]
pub struct Ascii {
    pattern: &'static str,
    compiled: OnceLock<Regex>,
}

/// A constant pattern. One that is no pattern panics when it is used.
pub const fn ascii(pattern: &'static str) -> Ascii {
    Ascii { pattern, compiled: OnceLock::new() }
}

impl Deref for Ascii {
    type Target = Regex;

    #[expect(clippy::unwrap_used, reason = "a constant")]
    fn deref(&self) -> &Regex {
        self.compiled.get_or_init(|| Regex::new(&plain(self.pattern)).unwrap())
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
