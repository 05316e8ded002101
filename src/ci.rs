//! CI logs are an output channel that runners interpret: on GitHub, a line that begins with `::error` is an annotation,
//! `::add-path` used to change later steps, and other runners have commands of their own. Text from others must not be
//! interpreted as a command.

use std::borrow::Cow;

use serde::de::IgnoredAny;

/// Environment variables that identify the CI runner that reads the output.
pub const VARIABLES: [&str; 4] = ["GITHUB_ACTIONS", "GITLAB_CI", "TF_BUILD", "TEAMCITY_VERSION"];

/// Returns the text without anything that a runner interprets as a command: `::` at the start of a line or after
/// blanks, and `##[`, `##vso[`, `##teamcity[`, `section_start:` and `section_end:` anywhere.
///
/// JSON and XML keep their meaning: the mark is written as an escape. In other text, a space is inserted.
pub fn harmless(text: &str) -> Cow<'_, str> {
    if marks(text).next().is_none() {
        return Cow::Borrowed(text);
    }
    let is_json = |text: &str| text.trim_start().starts_with(['{', '[', '"']) && json(text);
    let is_xml = |text: &str| {
        let head = text.trim_start().get(..14).unwrap_or_default().to_ascii_lowercase();
        ["<?xml", "<svg", "<!doctype html"].iter().any(|start| head.starts_with(&start[..start.len().min(14)]))
    };
    Cow::Owned(match () {
        () if is_json(text) => broken_up(text, json_escape),
        () if is_xml(text) => broken_up(text, |c| format!("&#{};", u32::from(c))),
        // In JSON lines, each line is a document.
        () => lines(text)
            .map(|line| if is_json(line) { broken_up(line, json_escape) } else { broken_up(line, |c| format!(" {c}")) })
            .collect(),
    })
}

fn json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

fn json_escape(c: char) -> String {
    format!("\\u{:04x}", u32::from(c))
}

/// Returns the text with the second character of each mark, which is ASCII, replaced by `escape`.
fn broken_up(text: &str, escape: impl Fn(char) -> String) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    let mut done = 0;
    for at in marks(text) {
        let Some(c) = text[at..].chars().next() else { continue };
        out.push_str(&text[done..at]);
        out.push_str(&escape(c));
        done = at + c.len_utf8();
    }
    out.push_str(&text[done..]);
    out
}

/// Splits a text into lines with their line ends, as runners do: a carriage return ends a line as well.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(['\n', '\r'])
}

/// Returns the positions at which marks can be broken up: their second characters.
fn marks(text: &str) -> impl Iterator<Item = usize> {
    let mut at = 0;
    lines(text).flat_map(move |line| {
        let start = at;
        at += line.len();
        let blank = |c: char| c.is_whitespace() || c.is_control() || is_invisible(c);
        let rest = line.trim_start_matches(blank);
        let command = rest.starts_with("::").then(|| line.len() - rest.len() + 1);
        // Most lines contain neither.
        let hashes = if line.contains('#') { hashes(line) } else { Vec::new() };
        let sections: Vec<usize> = ["section_start:", "section_end:"]
            .iter()
            .flat_map(|mark| line.match_indices(mark).map(|(at, _)| at + mark.len() - 1))
            .collect();
        let mut all: Vec<usize> = command.into_iter().chain(hashes).chain(sections).collect();
        all.sort_unstable();
        all.dedup();
        all.into_iter().map(move |at| start + at).collect::<Vec<_>>()
    })
}

/// Returns the position of the second `#` of each `##WORD[`. Invisible characters are skipped, because some runners
/// ignore them when they compare texts.
fn hashes(line: &str) -> Vec<usize> {
    let visible: Vec<(usize, char)> = line.char_indices().filter(|(_, c)| !is_invisible(*c)).collect();
    let mut found = Vec::new();
    for (nth, pair) in visible.windows(2).enumerate() {
        if let [(_, '#'), (second, '#')] = *pair {
            let behind =
                visible[nth + 2..].iter().map(|(_, c)| *c).find(|c| !c.is_alphanumeric() && *c != '-' && *c != '_');
            if behind == Some('[') {
                found.push(second);
            }
        }
    }
    found
}

/// Whether a character has no width: joiners, direction marks, soft hyphens.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
        || c.is_control() && !c.is_whitespace()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_never_commands_of_a_runner() {
        for (text, shown) in [
            ("::error::x\n", ": :error::x\n"),
            (" \t::add-mask::a\nb\r::debug::c", " \t: :add-mask::a\nb\r: :debug::c"),
            ("\u{feff}\u{a0}::error::x", "\u{feff}\u{a0}: :error::x"),
            ("a ##[group]b ##vso[task.setvariable]c", "a # #[group]b # #vso[task.setvariable]c"),
            ("###[error]", "## #[error]"),
            ("#\u{200b}#[error]", "#\u{200b} #[error]"),
            ("##teamcity[x]", "# #teamcity[x]"),
            ("section_start:1:a\r\u{1b}[0K section_end:1:a", "section_start :1:a\r\u{1b}[0K section_end :1:a"),
            ("{\"a\": \"##[x]\"}", "{\"a\": \"#\\u0023[x]\"}"),
            ("{\"a\": \"##[x]\"}\n{\"b\":1}\n", "{\"a\": \"#\\u0023[x]\"}\n{\"b\":1}\n"),
            ("<?xml version='1.0'?>\n<a>\n::x ##[y]</a>", "<?xml version='1.0'?>\n<a>\n:&#58;x #&#35;[y]</a>"),
        ] {
            assert_eq!(harmless(text), shown, "{text:?}");
            assert!(marks(&harmless(text)).next().is_none(), "{text:?}");
        }
        for text in ["a::b\n", "## [x]\n", "# Title\n## Sub\n", "key: [a]\n", "std::fs", "a ${x##*/}", "section: x"] {
            assert!(matches!(harmless(text), Cow::Borrowed(_)), "{text:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn neutralized_text_is_stable_and_has_no_commands(text in "[:#\\[\\] a\\r\\n{}\"\u{200b}\u{feff}]{0,24}") {
            let once = harmless(&text).into_owned();
            proptest::prop_assert!(marks(&once).next().is_none(), "{once:?}");
            proptest::prop_assert_eq!(harmless(&once), once.as_str());
        }
    }
}
