//! Scripts of simple commands, one a line, read without the parser: most of what tasks run is no more than that.

use std::ops::Range;

use super::{
    KEYWORDS, Word,
    program::{Kind, Program, Statement},
};

/// What the parser would tell of a text in which there are only comments and simple commands of words, quoted texts and
/// variables. `None`: there may be more.
pub fn read(text: &str) -> Option<Program> {
    let mut body = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let blank = |c| matches!(c, ' ' | '\t' | '\n');
        let start = at + line.len() - line.trim_start_matches(blank).len();
        let end = start.max(at + line.trim_end_matches(blank).len());
        if start < end && !text[start..].starts_with('#') {
            body.push(command(text, start..end)?);
        }
        at += line.len();
    }
    Some(Program { body, sound: true })
}

/// Commands whose arguments are more than words to the grammar.
const DECLARING: [&str; 7] = ["declare", "typeset", "export", "readonly", "local", "unset", "unsetenv"];

fn command(text: &str, range: Range<usize>) -> Option<Statement> {
    let mut words: Vec<Word> = Vec::new();
    let mut at = range.start;
    while at < range.end {
        if matches!(text.as_bytes()[at], b' ' | b'\t') {
            at += 1;
            continue;
        }
        let (end, literal) = word(text, at..range.end)?;
        let own = &text[at..end];
        let named =
            || own.bytes().all(|b| b.is_ascii_alphanumeric() || b"_./-".contains(&b)) && !DECLARING.contains(&own);
        if KEYWORDS.contains(&own) || own.starts_with('=') || words.is_empty() && !named() {
            return None;
        }
        words.push(Word::new(own, at..end, literal));
        at = end;
    }
    let kind = Kind::Command(words);
    Some(Statement { range, kind, background: false, fed: false, written: false, nested: Vec::new() })
}

/// Where the word ends that begins this range, and whether nothing in it is expanded.
fn word(text: &str, range: Range<usize>) -> Option<(usize, bool)> {
    let bytes = &text.as_bytes()[..range.end];
    let mut literal = true;
    let mut at = range.start;
    let close = |from: usize, quote: u8| Some(from + bytes[from..].iter().position(|b| *b == quote)?);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b' ' | b'\t' => break,
            b'\'' => at = close(at + 1, b'\'')? + 1,
            b'"' => {
                let end = close(at + 1, b'"')?;
                at += 1;
                while at < end {
                    match bytes[at] {
                        b'$' => {
                            at = variable(bytes, at)?;
                            literal = false;
                        }
                        b'\\' | b'`' => return None,
                        _ => at += 1,
                    }
                }
                at += 1;
            }
            b'$' => {
                at = variable(bytes, at)?;
                literal = false;
            }
            b if b.is_ascii_alphanumeric() || b"_./:=@+,-\x1a".contains(b) => at += 1,
            _ => return None,
        }
    }
    Some((at, literal))
}

/// Where `$NAME` or `${NAME}` ends.
fn variable(bytes: &[u8], dollar: usize) -> Option<usize> {
    let braced = bytes.get(dollar + 1) == Some(&b'{');
    let start = dollar + 1 + usize::from(braced);
    let length = bytes[start..].iter().position(|b| !b.is_ascii_alphanumeric() && *b != b'_');
    let end = length.map_or(bytes.len(), |length| start + length);
    let named = end > start && !bytes[start].is_ascii_digit();
    match braced {
        true => (named && bytes.get(end) == Some(&b'}')).then_some(end + 1),
        false => named.then_some(end),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::bash;

    #[test]
    fn what_tasks_run_is_plain() {
        for text in [
            "kubectl create namespace \"$NAMESPACE\"",
            "#!/usr/bin/env bash\nset -euo pipefail\n\n# ready\nkubectl -n demo create deployment app --image=nginx:1.27\n",
            "curl -s 'http://localhost:80/a b' -o \"${HOME}/x\"",
        ] {
            assert!(read(text).is_some(), "{text}");
        }
        for text in ["a | b", "a; b", "A=1 b", "a > b", "a $(b)", "if a", "a \\\n b", "a 'b\nc'", "[ a ]", "a &"] {
            assert!(read(text).is_none(), "{text}");
        }
    }

    /// Pieces of words, and what stands between words and lines.
    fn texts() -> impl Strategy<Value = String> {
        let words = bash::BUILTINS.iter().chain(KEYWORDS).chain(&DECLARING).map(|w| (*w).to_owned());
        let known = proptest::sample::select(words.collect::<Vec<_>>());
        let piece = prop_oneof![
            "[a-zA-Z0-9_./:=@%+,\x1a-]{1,5}",
            "\"[a-z $'#{}()|;&<>*=é-]{0,6}\"",
            "'[a-z $\"#{}()|;&<>*\\\\=é-]{0,6}'",
            "\\$[a-zA-Z_0-9]{1,3}",
            "\\$\\{[a-zA-Z_0-9]{1,3}\\}",
            known,
        ];
        let word = proptest::collection::vec(piece, 1..4).prop_map(|pieces| pieces.concat());
        let words = proptest::collection::vec((word, "[ \t]{1,2}"), 1..5);
        let command =
            words.prop_map(|words| words.into_iter().flat_map(|(word, space)| [word, space]).collect::<String>());
        let line = prop_oneof![6 => command, 1 => " {0,2}#[a-z \\\\'\"$(é]{0,8}", 1 => "[ \t]{0,2}"];
        proptest::collection::vec(line, 0..5).prop_map(|lines| lines.join("\n"))
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn it_is_what_the_parser_tells(text in texts()) {
            if let Some(plain) = read(&text) {
                let parsed = bash::parse(&text).map(|script| script.program());
                prop_assert_eq!(Some(plain), parsed, "{:?}", text);
            }
        }
    }
}
