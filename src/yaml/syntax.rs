//! Explains why a text is not YAML in terms of its author's mistake, and why bytes are not text.

use std::ops::Range;

use granit_parser::ErrorKind;

use super::{NESTING, SYNTAX, UNQUOTED_HOLE};
use crate::{
    diagnostic::Diagnostic,
    source::{FileId, Span},
    ty::{LOCALS, ROOTS},
};

/// Bytes that are not UTF-8 text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Undecodable {
    /// The displayable text; everything before the fault is as in the file.
    pub text: String,
    fault: Range<usize>,
    message: &'static str,
    help: &'static str,
}

impl Undecodable {
    /// Returns the finding at the first byte that is not UTF-8.
    pub fn diagnostic(&self, file: FileId) -> Diagnostic {
        Diagnostic::new(&SYNTAX, Span::new(file, self.fault.clone()), self.message).help(self.help)
    }
}

/// Decodes the bytes of a file. A byte order mark stays, so that offsets are those of the file.
///
/// # Errors
/// The text with its invalid bytes replaced, and the place of the first of them.
pub fn decode_utf8(bytes: Vec<u8>) -> Result<String, Undecodable> {
    const SAVE: &str = "save it as UTF-8";
    let utf16 = |decode: fn([u8; 2]) -> u16| {
        let units = bytes[2..].chunks_exact(2).map(|pair| decode([pair[0], pair[1]]));
        let text = char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
        Undecodable { text, fault: 0..0, message: "this file is UTF-16, not UTF-8", help: SAVE }
    };
    match bytes.as_slice() {
        [0xff, 0xfe, ..] => return Err(utf16(u16::from_le_bytes)),
        [0xfe, 0xff, ..] => return Err(utf16(u16::from_be_bytes)),
        _ => {}
    }
    let text = String::from_utf8(bytes).map_err(|e| {
        let start = e.utf8_error().valid_up_to();
        let text = String::from_utf8_lossy(e.as_bytes()).into_owned();
        let fault = start..start + char::REPLACEMENT_CHARACTER.len_utf8();
        Undecodable { text, fault, message: "this byte is not valid UTF-8", help: SAVE }
    })?;
    match text.find('\0') {
        Some(nul) => Err(Undecodable {
            fault: nul..nul + 1,
            text,
            message: "this file contains a NUL byte: it is not a text file",
            help: "use a YAML or JSON file",
        }),
        None => Ok(text),
    }
}

/// Returns a scalar that reads as `text`: in double quotes, or in single quotes if double quotes would need escapes.
pub fn quoted(text: &str) -> String {
    if text.contains(['\n', '\r', '\t']) || text.contains(char::is_control) {
        // JSON strings are YAML, except for a control character that only YAML requires to be escaped.
        let json = serde_json::Value::from(text).to_string();
        return json.replace('\u{7f}', "\\x7f");
    }
    if text.contains(['"', '\\']) { format!("'{}'", text.replace('\'', "''")) } else { format!("\"{text}\"") }
}

/// A hole at the start of a text.
pub(super) struct Hole<'a> {
    /// Up to and including its closing brace.
    pub(super) len: usize,
    root: &'a str,
    dotted: bool,
}

impl Hole<'_> {
    /// Whether it can only be a template: a dotted path from a name that the language defines.
    pub(super) fn is_certain(&self) -> bool {
        self.dotted && ROOTS.iter().chain(&LOCALS).any(|root| *root == self.root)
    }
}

/// Reads `{root.segment[0] | filter("x")}` at the start of `text`, on one line.
pub(super) fn hole(text: &str) -> Option<Hole<'_>> {
    let word = |s: &str| s.len() - s.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || "_-".contains(c)).len();
    let blanks = |s: &str| s.len() - s.trim_start_matches([' ', '\t']).len();
    let mut at = 1 + blanks(text.strip_prefix('{')?);
    let root = &text[at..at + word(&text[at..])];
    if !root.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        return None;
    }
    at += root.len();
    let path = at;
    loop {
        let rest = &text[at..];
        at += match rest.as_bytes().first()? {
            b'.' => match word(&rest[1..]) {
                0 => return None,
                n => 1 + n,
            },
            b'[' => {
                let inner = &rest[1..rest.find(']')?];
                inner.parse::<i64>().ok()?;
                inner.len() + 2
            }
            _ => break,
        };
    }
    let dotted = at > path;
    at += blanks(&text[at..]);
    if text[at..].starts_with('|') {
        let mut quote = None;
        for (i, c) in text[at..].char_indices() {
            match (quote, c) {
                (_, '\n' | '\r') => return None,
                (Some(q), c) if q == c => quote = None,
                (None, '"' | '\'') => quote = Some(c),
                (None, '{') => return None,
                (None, '}') => return Some(Hole { len: at + i + 1, root, dotted }),
                _ => {}
            }
        }
        return None;
    }
    text[at..].starts_with('}').then_some(Hole { len: at + 1, root, dotted })
}

/// Returns the finding for a template without quotes that is a flow mapping.
pub(super) fn unquoted_hole(span: Span, source: &str) -> Diagnostic {
    Diagnostic::new(&UNQUOTED_HOLE, span, format!("`{source}` without quotes is a YAML mapping, not a hole"))
        .help("quote it")
        .fix("quote the hole", span, quoted(source))
}

/// The context in which the parser stopped.
pub(super) struct Place<'a> {
    pub(super) file: FileId,
    pub(super) text: &'a str,
    /// The place of the error, and the end of the last complete piece before it.
    pub(super) at: usize,
    pub(super) last_end: usize,
    /// The bracket of the innermost open flow collection.
    pub(super) bracket: Option<usize>,
}

/// Returns the first tab that indents a line, from the line of `at` on. The parser stops after it, or at the start of the scalar that
/// continues there.
fn indenting_tab(text: &str, at: usize) -> Option<usize> {
    let mut start = text[..at].rfind('\n').map_or(0, |end| end + 1);
    text[start..].split_inclusive('\n').find_map(|line| {
        let white = line.len() - line.trim_start_matches([' ', '\t']).len();
        let tab = line[..white].find('\t').map(|tab| start + tab);
        start += line.len();
        tab
    })
}

/// Returns the diagnostic for a syntax error.
pub(super) fn diagnose(kind: &ErrorKind, place: &Place<'_>) -> Diagnostic {
    let Place { file, text, at, .. } = *place;
    let value = value_at(text, at);
    if let Some(found) = value.clone().and_then(|v| template(place, v)) {
        return found;
    }
    let here = char_at(text, at);
    let span = Span::new(file, here.clone());
    let error = |message: &str, help: &str| Diagnostic::new(&SYNTAX, span, message).help(help);
    let quote = |d: Diagnostic| match value.clone() {
        Some(v) if is_one_line(text, &v) => {
            let fixed = quoted(&text[v.clone()]);
            d.fix("quote the value", Span::new(file, v), fixed)
        }
        _ => d,
    };
    match kind {
        ErrorKind::RecursionLimitExceeded => Diagnostic::new(&NESTING, span, "this is nested too deeply")
            .help("at most 255 levels of lists and mappings are allowed"),
        ErrorKind::UnexpectedCharacter { character: c @ ('@' | '`' | '%') } => {
            quote(error(&format!("an unquoted value cannot start with `{c}`"), "quote it"))
        }
        ErrorKind::UnexpectedCharacter { character: '\0' } => {
            error("this file contains a NUL byte: it is not a text file", "use a YAML or JSON file")
        }
        ErrorKind::UnexpectedCharacter { character: c } if c.is_control() => error(
            &format!("the control character U+{:04X} is not allowed", u32::from(*c)),
            "remove it, or write it as an escape sequence in double quotes",
        ),
        ErrorKind::UnexpectedCharacter { character: c } => {
            error(&format!("unexpected `{c}`"), "quote the value if it is part of the text")
        }
        ErrorKind::TabNotAllowed
        | ErrorKind::TabInBlockIndentation
        | ErrorKind::TabInIndentation
        | ErrorKind::TabAtBlockScalarStart
        | ErrorKind::TabInPlainScalar => {
            let tab = indenting_tab(text, at).map_or(span, |tab| Span::new(file, tab..tab + 1));
            Diagnostic::new(&SYNTAX, tab, "this line is indented with a tab")
                .help("YAML allows only spaces for indentation")
        }
        ErrorKind::UnclosedQuotedScalar | ErrorKind::DocumentIndicatorInQuotedScalar => {
            error("this quote is not closed", "close it, or quote the whole text if the quote is part of it")
        }
        ErrorKind::InvalidQuotedScalarIndent => {
            let opening = text.get(place.last_end..at).and_then(|s| s.find(['"', '\''])).map(|i| place.last_end + i);
            let d = error(
                "this line continues a quoted text, but is not indented",
                "close the quote above, or indent the lines of the text",
            );
            match opening {
                Some(o) => d.label(Span::new(file, o..o + 1), "the quote opens here"),
                None => d,
            }
        }
        ErrorKind::InvalidTrailingSingleQuotedScalar => error(
            "unexpected text after the closing quote",
            "quote the whole value; in single quotes, write a quote twice: `''`",
        ),
        ErrorKind::InvalidTrailingDoubleQuotedScalar => error(
            "unexpected text after the closing quote",
            "quote the whole value, in single quotes if it contains double quotes",
        ),
        ErrorKind::UnknownQuotedScalarEscape => {
            let escape = unknown_escape(text, here.start).unwrap_or(here);
            let message = format!("`{}` is not a valid escape sequence", &text[escape.clone()]);
            Diagnostic::new(&SYNTAX, Span::new(file, escape), message)
                .help("write `\\\\` for a backslash, or use single quotes, which have no escape sequences")
        }
        ErrorKind::InvalidQuotedScalarHexEscape
        | ErrorKind::InvalidLowSurrogateHexEscape
        | ErrorKind::InvalidLowSurrogate
        | ErrorKind::MissingLowSurrogate
        | ErrorKind::UnpairedLowSurrogate
        | ErrorKind::InvalidUnicodeEscape => error(
            "this text contains an incomplete or invalid escape sequence",
            "`\\x` requires two hexadecimal digits, `\\u` four and `\\U` eight",
        ),
        ErrorKind::UnclosedFlowCollection { open } => {
            error(&format!("this `{open}` is not closed"), "close it, or quote the text if the bracket is part of it")
        }
        ErrorKind::MismatchedFlowCollectionEnd { open, close } => {
            let d = error(
                &format!("`{close}` does not match `{open}`"),
                "close brackets in the order in which they were opened",
            );
            match place.bracket {
                Some(b) => d.label(Span::new(file, b..b + 1), "opened here"),
                None => d,
            }
        }
        ErrorKind::MisplacedFlowCollectionEnd => error(
            "this closing bracket has no opening one",
            "remove it, or quote the text if the bracket is part of it",
        ),
        ErrorKind::InvalidIndentation | ErrorKind::InvalidFlowScalarIndent if place.bracket.is_some() => {
            let bracket = place.bracket.unwrap_or(at);
            error("this line is inside brackets, but is not indented", "close the bracket above, or indent the line")
                .label(Span::new(file, bracket..bracket + 1), "the bracket is opened here")
        }
        ErrorKind::UnexpectedEofFlowSequence
        | ErrorKind::UnexpectedEofFlowMapping
        | ErrorKind::UnexpectedEofImplicitFlowMapping
        | ErrorKind::ExpectedFlowMappingSeparator
        | ErrorKind::ExpectedFlowSequenceSeparator => {
            let d = error("a comma or the closing bracket is missing before this", "separate items with commas");
            match place.bracket {
                Some(b) => d.label(Span::new(file, b..b + 1), "the bracket is opened here"),
                None => d,
            }
        }
        ErrorKind::MappingValueNotAllowed | ErrorKind::InvalidColonPlacement => {
            let colon = value.clone().filter(|v| v.contains(&at));
            let d = error(
                match colon {
                    Some(_) => "an unquoted value cannot contain `: `",
                    None => "a key is not allowed here",
                },
                match colon {
                    Some(_) => "quote the value if the colon is part of the text",
                    None => "indent it like the adjacent keys; the error may be in the line above",
                },
            );
            if colon.is_some() { quote(d) } else { d }
        }
        ErrorKind::ExpectedBlockMappingKey
        | ErrorKind::ExpectedBlockSequenceEntry
        | ErrorKind::InvalidIndentation
        | ErrorKind::BlockSequenceEntryNotAllowed => error(
            "this line does not match the structure of the lines above",
            "indent it like its siblings; all siblings must be keys, or all must start with `-`",
        ),
        ErrorKind::SimpleKeyExpected | ErrorKind::InvalidSimpleKey => {
            error("this is neither a key nor a value", "a key must be followed by a colon and a space: `key: value`")
        }
        ErrorKind::InvalidMappingValueWhitespace
        | ErrorKind::ExpectedWhitespace
        | ErrorKind::InvalidBlockEntryWhitespace => {
            error("a space is missing here", "write `key: value` and `- item`, with a space")
        }
        ErrorKind::CommentNotSeparated => {
            error("a comment requires a space before its `#`", "add a space before the `#`")
        }
        ErrorKind::CommentInterceptedScalar => {
            error("a comment is not allowed inside a text of several lines", "use a block (`|` or `>`) for the text")
        }
        ErrorKind::ZeroBlockScalarIndent | ErrorKind::InvalidBlockScalarHeader => error(
            "this is not a valid block header",
            "after `|` or `>`, only `-`, `+`, a digit from 1 to 9 and a comment are allowed; the text starts on the next line",
        ),
        ErrorKind::InvalidBlockScalarIndent => {
            error("this line is indented less than its block", "indent all lines of the block equally")
        }
        ErrorKind::BomInsideDocument => error("unexpected byte order mark", "remove it; most editors do not show it"),
        ErrorKind::ExpectedDocumentStart
        | ErrorKind::DirectiveDisallowed
        | ErrorKind::InvalidDirectiveName
        | ErrorKind::MissingDirectiveName
        | ErrorKind::MissingYamlVersion
        | ErrorKind::MissingYamlVersionSeparator
        | ErrorKind::InvalidDirectiveTerminator => match percent_line(text, at) {
            Some(p) => Diagnostic::new(
                &SYNTAX,
                Span::new(file, p..p + 1),
                "a line that starts with `%` is a directive for the YAML parser",
            )
            .help("quote the line if it is text; a real directive is followed by `---`"),
            None => error("a document cannot start here", "separate documents with a line `---`"),
        },
        ErrorKind::MissingAnchorOrAliasName => quote(error(
            "the name of the anchor or alias after `&` or `*` is missing",
            "quote the value if the character is part of the text",
        )),
        ErrorKind::UndeclaredTagHandle
        | ErrorKind::MissingTagUri
        | ErrorKind::UnclosedVerbatimTag
        | ErrorKind::InvalidTagTerminator
        | ErrorKind::InvalidGlobalTagCharacter => {
            quote(error("this tag is not valid", "quote the value if the `!` is part of the text"))
        }
        ErrorKind::UnexpectedEof => error("unexpected end of the file", "complete the last line"),
        other => error(&other.to_string(), "see https://yaml.org/spec/1.2.2 for the rules of YAML"),
    }
}

/// Returns the diagnostic for a value that starts with a hole and continues after it, which is not valid YAML.
fn template(place: &Place<'_>, value: Range<usize>) -> Option<Diagnostic> {
    let Place { file, text, at, .. } = *place;
    let line = &text[value.clone()];
    let (start, end) = line.match_indices('{').find_map(|(i, _)| {
        let before = line[..i].trim_end();
        let listed = before.ends_with(['[', ',']);
        let found = hole(&line[i..])?;
        let rest = if listed { line[i..].find([',', ']']) } else { None };
        let end = rest.map_or(line.len(), |r| i + r.max(found.len));
        let goes_on = i + found.len < end || line[i..i + found.len].contains('[');
        (goes_on && (i == 0 || listed) && value.start + i < at && at <= value.start + end).then_some((i, end))
    })?;
    let span = Span::new(file, value.start + start..value.start + end);
    let source = &line[start..end];
    let d = Diagnostic::new(&UNQUOTED_HOLE, span, "a value that starts with a hole must be quoted")
        .here("without quotes, `{` starts a YAML mapping")
        .help("quote this template");
    Some(if is_one_line(text, &value) { d.fix("quote the hole", span, quoted(source)) } else { d })
}

/// Returns the value on the line of `at`: after the dashes and the first key, without a comment.
fn value_at(text: &str, at: usize) -> Option<Range<usize>> {
    let start = text.get(..at)?.rfind(['\n', '\r']).map_or(0, |i| i + 1);
    let end = text[at..].find(['\n', '\r']).map_or(text.len(), |i| at + i);
    let line = &text[start..end];
    let skip =
        |from: usize| from + (line[from..].len() - line[from..].trim_start_matches([' ', '\t', '\u{feff}']).len());
    let mut from = skip(0);
    while line[from..].starts_with("- ") {
        from = skip(from + 2);
    }
    if !line[from..].starts_with(['{', '[', '"', '\'']) {
        from = line[from..].find(": ").map_or(from, |i| skip(from + i + 2));
    }
    let until = line[from..].find(" #").map_or(line.len(), |i| from + i);
    let until = from + line[from..until].trim_end().len();
    (from < until).then_some(start + from..start + until)
}

/// Whether no following line is indented more than the key or dash before the value, and so could continue it.
fn is_one_line(text: &str, value: &Range<usize>) -> bool {
    let indent = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let start = text[..value.start].rfind(['\n', '\r']).map_or(0, |i| i + 1);
    let head = text[start..value.start].trim_end_matches([' ', '-']);
    let owner = match head.trim_start_matches([' ', '-']).len() {
        0 => text[start..value.start].rfind('-').unwrap_or(0),
        key => head.len() - key,
    };
    let mut below = text[value.end..].lines().skip(1).filter(|l| !l.trim().is_empty());
    below.next().is_none_or(|next| indent(next) <= owner)
}

fn char_at(text: &str, at: usize) -> Range<usize> {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    match text[at..].chars().next() {
        Some(c) if !matches!(c, '\n' | '\r') => at..at + c.len_utf8(),
        _ => at..at,
    }
}

/// Returns the first escape in the double-quoted text at `quote` that YAML does not define.
fn unknown_escape(text: &str, quote: usize) -> Option<Range<usize>> {
    let mut chars = text.get(quote + 1..)?.char_indices();
    while let Some((i, c)) = chars.next() {
        match c {
            '"' => return None,
            '\\' => {
                let (_, escaped) = chars.next()?;
                if !"0abt\tnvfre \"/\\N_LPxuU\n\r".contains(escaped) {
                    let start = quote + 1 + i;
                    return Some(start..start + 1 + escaped.len_utf8());
                }
            }
            _ => {}
        }
    }
    None
}

/// Returns the first line before `at` that starts with `%`.
fn percent_line(text: &str, at: usize) -> Option<usize> {
    let head = &text[..char_at(text, at).end];
    if head.starts_with('%') { Some(0) } else { head.find("\n%").map(|i| i + 1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_distinguished_from_mappings() {
        let found = |text| hole(text).map(|h| (h.len, h.is_certain()));
        assert_eq!(found("{env.X}"), Some((7, true)));
        assert_eq!(found("{ env.X } foo"), Some((9, true)));
        assert_eq!(found("{steps.a.outputs[0] | join(\"}\")}!"), Some((32, true)));
        assert_eq!(found("{x}"), Some((3, false)));
        assert_eq!(found("{a.b}"), Some((5, false)));
        for text in
            ["{a: 1}", "{{env.X}}", "{}", "{env.}", "{1}", "{env.X, b}", "env", "{env.X", "{env[x]}", "{env.X | {}"]
        {
            assert_eq!(found(text), None, "{text}");
        }
    }

    #[test]
    fn invalid_encodings_are_distinguished() {
        assert_eq!(decode_utf8(b"\xef\xbb\xbfa: 1".to_vec()).as_deref(), Ok("\u{feff}a: 1"));
        let fault = |bytes: &[u8]| decode_utf8(bytes.to_vec()).map_err(|e| (e.fault.clone(), e.message, e.text));
        let utf16 = "a: é".encode_utf16().flat_map(u16::to_le_bytes);
        let bytes: Vec<u8> = [0xff, 0xfe].into_iter().chain(utf16).collect();
        assert_eq!(fault(&bytes), Err((0..0, "this file is UTF-16, not UTF-8", "a: é".to_owned())));
        assert_eq!(fault(b"a: \xff\n"), Err((3..6, "this byte is not valid UTF-8", "a: \u{fffd}\n".to_owned())));
        assert!(matches!(fault(b"a\0"), Err((Range { start: 1, end: 2 }, _, _))));
    }

    #[test]
    fn quoting_chooses_the_quotes_that_need_no_escape() {
        assert_eq!(quoted("a b"), "\"a b\"");
        assert_eq!(quoted("say \"it's\""), "'say \"it''s\"'");
        assert_eq!(quoted("a\\b"), "'a\\b'");
        assert_eq!(quoted("a\nb"), "\"a\\nb\"");
    }
}
