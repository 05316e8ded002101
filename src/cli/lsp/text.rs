//! Positions and paths of the protocol: lines and columns from 0, with columns in the negotiated unit; URIs of files.

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::source::Source;

/// The unit of columns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Encoding {
    Utf8,
    /// Every client supports this unit.
    #[default]
    Utf16,
}

impl Encoding {
    /// Its name in the protocol.
    pub fn name(self) -> &'static str {
        match self {
            Self::Utf8 => "utf-8",
            Self::Utf16 => "utf-16",
        }
    }

    fn units(self, text: &str) -> usize {
        match self {
            Self::Utf8 => text.len(),
            Self::Utf16 => text.encode_utf16().count(),
        }
    }

    /// The byte at a position. A position after the end of a line or of the text is that end.
    pub fn offset(self, text: &str, position: &Value) -> usize {
        let number = |key: &str| position[key].as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or_default();
        let (line, column) = (number("line"), number("character"));
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1));
        let Some(start) = starts.into_iter().nth(line) else { return text.len() };
        let end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let end = start + text[start..end].strip_suffix('\r').map_or(end - start, str::len);
        let mut units = 0;
        for (at, letter) in text[start..end].char_indices() {
            if units >= column {
                return start + at;
            }
            units += match self {
                Self::Utf8 => letter.len_utf8(),
                Self::Utf16 => letter.len_utf16(),
            };
        }
        end
    }
}

/// A text with its line starts, for many positions.
pub struct Lines<'t> {
    text: &'t str,
    starts: Cow<'t, [u32]>,
    encoding: Encoding,
}

impl<'t> Lines<'t> {
    /// Finds the lines of a text.
    pub fn new(text: &'t str, encoding: Encoding) -> Self {
        let starts = text.match_indices('\n').filter_map(|(at, _)| u32::try_from(at + 1).ok());
        Self { text, starts: std::iter::once(0).chain(starts).collect(), encoding }
    }

    /// Uses the line starts of a source.
    pub fn of(source: &'t Source, encoding: Encoding) -> Self {
        Self { text: source.text(), starts: source.line_starts().into(), encoding }
    }

    /// The line and the column of a byte.
    pub fn place(&self, offset: usize) -> (usize, usize) {
        let offset = self.text.floor_char_boundary(offset.min(self.text.len()));
        let line = self.starts.partition_point(|start| *start as usize <= offset) - 1;
        (line, self.encoding.units(&self.text[self.starts[line] as usize..offset]))
    }

    /// The position of a byte.
    pub fn position(&self, offset: usize) -> Value {
        let (line, character) = self.place(offset);
        json!({ "line": line, "character": character })
    }

    /// The range of some bytes.
    pub fn range(&self, range: std::ops::Range<usize>) -> Value {
        json!({ "start": self.position(range.start), "end": self.position(range.end) })
    }
}

/// The path of a `file:` URI.
pub fn path_of(uri: &str) -> Option<PathBuf> {
    let rest = uri.strip_prefix("file://")?;
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    let mut bytes = Vec::new();
    let mut letters = path.bytes();
    while let Some(byte) = letters.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [letters.next()?, letters.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            byte => byte,
        });
    }
    let path = String::from_utf8(bytes).ok()?;
    path.starts_with('/').then(|| PathBuf::from(path))
}

/// A path as a `file:` URI (RFC 3986).
pub fn uri_of(path: &Path) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    let letters = path.to_string_lossy().into_owned().into_bytes().into_iter();
    let text: String =
        letters.map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect();
    format!("file://{text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_convert_back_to_bytes() {
        let text = "a: ä𝄞b\r\n\nende";
        for encoding in [Encoding::Utf8, Encoding::Utf16] {
            let lines = Lines::new(text, encoding);
            for (at, _) in text.char_indices().filter(|(_, letter)| *letter != '\n') {
                assert_eq!(encoding.offset(text, &lines.position(at)), at, "{encoding:?}");
            }
        }
        let lines = Lines::new(text, Encoding::Utf16);
        assert_eq!(lines.position(text.find('b').unwrap()), json!({ "line": 0, "character": 6 }));
        assert_eq!(Encoding::Utf16.offset(text, &json!({ "line": 1, "character": 9 })), 12);
        // The end of a line is before both bytes of its line ending.
        assert_eq!(text[Encoding::Utf16.offset(text, &json!({ "line": 0, "character": 99 }))..], *"\r\n\nende");
        assert_eq!(Encoding::Utf16.offset(text, &json!({ "line": 9, "character": 0 })), text.len());
    }

    #[test]
    fn uris_convert_back_to_paths() {
        for path in ["/a/b.yaml", "/with space/ä+#?%.yaml"] {
            assert_eq!(path_of(&uri_of(Path::new(path))), Some(PathBuf::from(path)));
        }
        assert_eq!(path_of("file://localhost/a%20b"), Some(PathBuf::from("/a b")));
        assert_eq!(path_of("untitled:Untitled-1"), None);
    }
}
