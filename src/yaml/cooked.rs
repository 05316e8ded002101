//! Maps the text of a scalar back to the bytes it was written with.
//!
//! A scalar is cooked a second time here, recording where each piece came from. If the result differs from that of the
//! parser, the map returns the whole scalar.

use std::ops::Range;

use super::Style;
use crate::source::Span;

/// Maps byte ranges of a scalar's text to spans of its source.
#[derive(Clone, Debug)]
pub struct SourceMap {
    /// The scalar as written.
    whole: Span,
    /// Ordered and without gaps in the text. Empty if only the whole scalar can be returned.
    pieces: Vec<Piece>,
    len: usize,
}

/// The bytes of the text from `at` to the next piece's `at`, and where they come from: the same bytes if `verbatim`,
/// otherwise something that stands for them as a whole.
#[derive(Clone, Copy, Debug)]
struct Piece {
    at: usize,
    start: usize,
    end: usize,
    verbatim: bool,
}

impl SourceMap {
    pub(super) fn opaque(whole: Span) -> Self {
        Self { whole, pieces: Vec::new(), len: 0 }
    }

    pub(super) fn verbatim(whole: Span, start: usize, len: usize) -> Self {
        Self { whole, pieces: vec![Piece { at: 0, start, end: start + len, verbatim: true }], len }
    }

    pub(super) fn new(whole: Span, style: Style, source: &str, text: &str) -> Self {
        let mut cook = Cook { source, text, at: 0, pieces: Vec::new() };
        let range = whole.range();
        let cooked = match style {
            Style::Plain => cook.lines(range, |_, _| None),
            Style::SingleQuoted => cook.lines(range.start + 1..range.end - 1, single_quoted),
            Style::DoubleQuoted => cook.lines(range.start + 1..range.end - 1, double_quoted),
            _ => cook.block(range.start),
        };
        match cooked {
            Some(()) if cook.at == text.len() => Self { whole, pieces: cook.pieces, len: text.len() },
            _ => Self::opaque(whole),
        }
    }

    /// Returns the smallest range of the source that contains these bytes of the text. Empty ranges give empty spans.
    pub fn span(&self, range: Range<usize>) -> Span {
        let start = range.start.min(self.len);
        let end = range.end.clamp(start, self.len);
        let Some(first) = self.piece(start) else { return self.whole };
        if start == end {
            let at = if start == self.len { self.after(start) } else { self.before(first, start) };
            return Span::new(self.whole.file, at..at);
        }
        Span::new(self.whole.file, self.before(first, start)..self.after(end))
    }

    /// Returns the piece that contains the byte at `at`; at the end, the last one.
    fn piece(&self, at: usize) -> Option<usize> {
        self.pieces.partition_point(|p| p.at <= at).checked_sub(1)
    }

    fn before(&self, index: usize, at: usize) -> usize {
        let piece = self.pieces[index];
        if piece.verbatim { piece.start + (at - piece.at) } else { piece.start }
    }

    /// Returns where the byte that ends at `at` ends in the source.
    fn after(&self, at: usize) -> usize {
        let Some(index) = self.piece(at.saturating_sub(1)) else { return self.whole.end as usize };
        let piece = self.pieces[index];
        if piece.verbatim { piece.start + (at - piece.at) } else { piece.end }
    }
}

struct Cook<'a> {
    source: &'a str,
    text: &'a str,
    /// How much of `text` has been mapped.
    at: usize,
    pieces: Vec<Piece>,
}

/// Reads an escape at the start of the remaining source, if there is one. Returns the character it stands for and its
/// length. An escaped line break stands for no character.
type Escape = fn(&str, char) -> Option<(Option<char>, usize)>;

impl Cook<'_> {
    /// Maps plain and quoted scalars: line breaks are folded, and escapes of the style are resolved.
    fn lines(&mut self, range: Range<usize>, escape: Escape) -> Option<()> {
        let mut at = range.start;
        // After an escaped line break, indentation adds nothing, and no line break is folded to a space.
        let mut escaped_break = false;
        while at < range.end {
            let rest = self.source.get(at..range.end)?;
            let c = rest.chars().next()?;
            if let Some((cooked, len)) = escape(rest, c) {
                if let Some(cooked) = cooked {
                    let mut buffer = [0; 4];
                    self.take(cooked.encode_utf8(&mut buffer), at..at + len)?;
                }
                escaped_break = cooked.is_none();
                at += len;
            } else if matches!(c, ' ' | '\t' | '\n' | '\r') {
                let blank = rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
                let breaks: Vec<_> = breaks(&rest[..blank]).map(|b| at + b.start..at + b.end).collect();
                let kept = match breaks.as_slice() {
                    kept if escaped_break => kept,
                    [] => {
                        self.take(&rest[..blank], at..at + blank)?;
                        &[]
                    }
                    [_] => {
                        self.take(" ", at..at + blank)?;
                        &[]
                    }
                    [_, kept @ ..] => kept,
                };
                let mut start = at;
                for (i, b) in kept.iter().enumerate() {
                    let end = if i + 1 == kept.len() { at + blank } else { b.end };
                    self.take("\n", start..end)?;
                    start = end;
                }
                escaped_break = false;
                at += blank;
            } else {
                let plain = rest
                    .char_indices()
                    .find(|&(i, c)| i > 0 && (matches!(c, ' ' | '\t' | '\n' | '\r') || escape(&rest[i..], c).is_some()))
                    .map_or(rest.len(), |(i, _)| i);
                self.take(&rest[..plain], at..at + plain)?;
                escaped_break = false;
                at += plain;
            }
        }
        Some(())
    }

    /// Maps block scalars, from their `|` or `>`. The text shows which line breaks were folded. The first line that is
    /// not empty shows the indentation, because all line breaks before it are kept.
    fn block(&mut self, header: usize) -> Option<()> {
        let body = self.source.get(header..)?;
        let Some(first) = breaks(body).next() else { return self.trailing(self.source.len()) };
        let lead = self.text.len() - self.text.trim_start_matches('\n').len();
        let mut lines = lines(self.source, header + first.end);
        let spaces = |s: &str| s.len() - s.trim_start_matches(' ').len();
        let indent = match lines.clone().nth(lead) {
            Some((line, _)) if lead < self.text.len() => {
                spaces(&self.source[line]).checked_sub(spaces(&self.text[lead..]))?
            }
            _ => usize::MAX,
        };
        // The line breaks since the last content: folding reduces them, or turns one of them into a space.
        let mut open: Vec<Range<usize>> = Vec::new();
        let mut fresh = true;
        let tail = self.text.trim_end_matches('\n').len();
        while self.at < tail {
            let (line, end) = lines.next()?;
            let content = line.start + spaces(&self.source[line.clone()]).min(indent);
            if content < line.end {
                let rest = &self.text[self.at..];
                let kept = rest.len() - rest.trim_start_matches('\n').len();
                let gap = if kept == 0 && !fresh { 1 } else { kept };
                let joined = open.len().checked_sub(gap)?;
                for i in 0..gap {
                    let group = if i == 0 { &open[..=joined] } else { &open[joined + i..=joined + i] };
                    let (from, to) = (group.first()?.start, group.last()?.end);
                    self.take(if kept == 0 { " " } else { "\n" }, from..to)?;
                }
                self.take(&self.source[content..line.end], content..line.end)?;
                open.clear();
                fresh = false;
            }
            open.push(end);
        }
        // The rest are the kept line breaks at the end: that of the last line, then one for each blank line.
        for b in &open {
            if self.at < self.text.len() {
                self.take("\n", b.clone())?;
            }
        }
        for (_, b) in lines {
            if self.at == self.text.len() {
                break;
            }
            self.take("\n", b)?;
        }
        self.trailing(self.source.len())
    }

    /// Maps a final line break that the text has and the file lacks.
    fn trailing(&mut self, end: usize) -> Option<()> {
        while self.at < self.text.len() {
            self.take("\n", end..end)?;
        }
        Some(())
    }

    fn take(&mut self, cooked: &str, source: Range<usize>) -> Option<()> {
        let rest = self.text.get(self.at..)?;
        if !rest.starts_with(cooked) {
            return None;
        }
        let verbatim = self.source.get(source.clone()) == Some(cooked);
        match self.pieces.last_mut() {
            Some(last) if verbatim && last.verbatim && last.end == source.start => last.end = source.end,
            _ => self.pieces.push(Piece { at: self.at, start: source.start, end: source.end, verbatim }),
        }
        self.at += cooked.len();
        Some(())
    }
}

/// Returns the line breaks of `text`: `\n`, `\r\n` or `\r`.
fn breaks(text: &str) -> impl Iterator<Item = Range<usize>> {
    let bytes = text.as_bytes();
    let is_break = |(i, b): (usize, &u8)| match b {
        b'\r' => Some(i..i + 1 + usize::from(bytes.get(i + 1) == Some(&b'\n'))),
        b'\n' if i == 0 || bytes[i - 1] != b'\r' => Some(i..i + 1),
        _ => None,
    };
    bytes.iter().enumerate().filter_map(is_break)
}

/// Returns the lines of `source` from `start`: the range of each, and of its line break (empty at the end of the file).
fn lines(source: &str, start: usize) -> impl Iterator<Item = (Range<usize>, Range<usize>)> + Clone {
    let mut at = Some(start);
    std::iter::from_fn(move || {
        let start = at?;
        let rest = source.get(start..)?;
        let end = rest.find(['\n', '\r']).map_or(source.len(), |i| start + i);
        let line_break = match &source.as_bytes()[end..] {
            [] => 0,
            [b'\r', b'\n', ..] => 2,
            _ => 1,
        };
        at = (line_break > 0).then_some(end + line_break);
        Some((start..end, end..end + line_break))
    })
}

fn single_quoted(rest: &str, c: char) -> Option<(Option<char>, usize)> {
    (c == '\'' && rest.starts_with("''")).then_some((Some('\''), 2))
}

fn double_quoted(rest: &str, c: char) -> Option<(Option<char>, usize)> {
    if c != '\\' {
        return None;
    }
    let hex = |at: usize, len: usize| rest.get(at..at + len).and_then(|h| u32::from_str_radix(h, 16).ok());
    let known = |c| Some((Some(c), 2));
    match rest.chars().nth(1)? {
        '0' => known('\0'),
        'a' => known('\x07'),
        'b' => known('\x08'),
        't' | '\t' => known('\t'),
        'n' => known('\n'),
        'v' => known('\x0b'),
        'f' => known('\x0c'),
        'r' => known('\r'),
        'e' => known('\x1b'),
        'N' => known('\u{85}'),
        '_' => known('\u{a0}'),
        'L' => known('\u{2028}'),
        'P' => known('\u{2029}'),
        'x' => Some((char::from_u32(hex(2, 2)?), 4)),
        'U' => Some((char::from_u32(hex(2, 8)?), 10)),
        'u' => {
            let high = hex(2, 4)?;
            match hex(8, 4) {
                Some(low) if (0xd800..0xdc00).contains(&high) && rest[6..].starts_with("\\u") => {
                    let code = 0x10000 + ((high - 0xd800) << 10) + low.wrapping_sub(0xdc00);
                    Some((char::from_u32(code), 12))
                }
                _ => Some((char::from_u32(high), 6)),
            }
        }
        '\n' | '\r' => Some((None, 1 + breaks(&rest[1..]).next()?.end)),
        c => known(c),
    }
}
