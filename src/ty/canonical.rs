//! The canonical JSON of a value (RFC 8785), which digests are computed from: sorted keys, numbers as JavaScript writes
//! them, no white space.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CharEscape, CompactFormatter, Formatter, Serializer};
use sha2::{Digest, Sha256};

use super::number::as_float;

/// Returns the SHA-256 of the canonical JSON of `value`: `sha256:` and 64 hexadecimal digits.
pub fn digest(value: &impl Serialize) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(canonical(value))))
}

/// Returns the canonical JSON of `value`, whose numbers must be finite.
pub fn canonical(value: &impl Serialize) -> Vec<u8> {
    let mut form = Canonical::default();
    // The writer has no room: output that bypasses the formatter is an error, and is not lost.
    let written = value.serialize(&mut Serializer::with_formatter(&mut [][..], &mut form));
    debug_assert!(written.is_ok(), "{written:?}");
    form.text
}

/// Writes nothing to the writer that it gets, but everything to `text`, where the entries of an object are sorted when
/// it ends.
#[derive(Default)]
struct Canonical {
    text: Vec<u8>,
    /// For every open object, the start of its entries in `text` and in `entries`.
    objects: Vec<(usize, usize)>,
    entries: Vec<Entry>,
    /// The unsorted text of an object while its entries are sorted.
    written: Vec<u8>,
}

/// The place of an entry of an object in the text.
#[derive(Clone, Copy, Default)]
struct Entry {
    start: usize,
    /// The end of the key, including its quotes.
    key: usize,
    end: usize,
}

impl Canonical {
    fn push(&mut self, text: &[u8]) -> io::Result<()> {
        self.text.extend_from_slice(text);
        Ok(())
    }
}

/// Compares keys by the UTF-16 of their values.
fn order(a: &[u8], b: &[u8]) -> std::cmp::Ordering {
    let plain = |key: &[u8]| key.iter().all(|&byte| byte.is_ascii() && byte != b'\\');
    if plain(a) && plain(b) {
        // A quote ends a key, and spaces and `!` are less than a quote.
        return a[1..a.len() - 1].cmp(&b[1..b.len() - 1]);
    }
    let said = |key: &[u8]| serde_json::from_slice::<String>(key).unwrap_or_default();
    said(a).encode_utf16().cmp(said(b).encode_utf16())
}

/// Every number is written as in JavaScript.
macro_rules! numbers {
    ($($write:ident $number:ty),*) => {$(
        fn $write<W: ?Sized + Write>(&mut self, _: &mut W, value: $number) -> io::Result<()> {
            self.push(ryu_js::Buffer::new().format_finite(value as f64).as_bytes())
        }
    )*};
}

impl Formatter for &mut Canonical {
    fn begin_object<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.push(b"{")?;
        let begun = (self.text.len(), self.entries.len());
        self.objects.push(begun);
        Ok(())
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, _: &mut W, first: bool) -> io::Result<()> {
        if !first {
            self.push(b",")?;
        }
        let start = self.text.len();
        self.entries.push(Entry { start, ..Entry::default() });
        Ok(())
    }

    fn end_object_key<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        let end = self.text.len();
        if let Some(entry) = self.entries.last_mut() {
            entry.key = end;
        }
        Ok(())
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.push(b":")
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        let end = self.text.len();
        if let Some(entry) = self.entries.last_mut() {
            entry.end = end;
        }
        Ok(())
    }

    fn end_object<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        let Canonical { text, objects, entries, written } = &mut **self;
        let Some((begun, first)) = objects.pop() else { return Ok(()) };
        let own = &mut entries[first..];
        let by_key = |a: &Entry, b: &Entry| order(&text[a.start..a.key], &text[b.start..b.key]);
        if !own.is_sorted_by(|a, b| by_key(a, b).is_lt()) {
            own.sort_by(by_key);
            written.clear();
            written.extend_from_slice(&text[begun..]);
            text.truncate(begun);
            for (i, entry) in own.iter().enumerate() {
                text.extend_from_slice(if i > 0 { b"," } else { b"" });
                text.extend_from_slice(&written[entry.start - begun..entry.end - begun]);
            }
        }
        entries.truncate(first);
        text.push(b'}');
        Ok(())
    }

    fn begin_array<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.push(b"[")
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, _: &mut W, first: bool) -> io::Result<()> {
        self.push(if first { b"" } else { b"," })
    }

    fn end_array<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.push(b"]")
    }

    fn write_null<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.push(b"null")
    }

    fn write_bool<W: ?Sized + Write>(&mut self, _: &mut W, value: bool) -> io::Result<()> {
        self.push(if value { b"true" } else { b"false" })
    }

    numbers!(write_i8 i8, write_i16 i16, write_i32 i32, write_i64 i64, write_i128 i128);
    numbers!(write_u8 u8, write_u16 u16, write_u32 u32, write_u64 u64, write_u128 u128);
    numbers!(write_f32 f32, write_f64 f64);

    /// A number that JavaScript cannot represent exactly stays as written: otherwise it would be another number.
    fn write_number_str<W: ?Sized + Write>(&mut self, _: &mut W, text: &str) -> io::Result<()> {
        match text.parse().ok().and_then(|number| as_float(&number)) {
            Some(number) => self.push(ryu_js::Buffer::new().format_finite(number).as_bytes()),
            None => self.push(text.as_bytes()),
        }
    }

    fn begin_string<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.push(b"\"")
    }

    fn write_string_fragment<W: ?Sized + Write>(&mut self, _: &mut W, fragment: &str) -> io::Result<()> {
        self.push(fragment.as_bytes())
    }

    fn write_char_escape<W: ?Sized + Write>(&mut self, _: &mut W, escape: CharEscape) -> io::Result<()> {
        CompactFormatter.write_char_escape(&mut self.text, escape)
    }

    fn end_string<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.push(b"\"")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Number, Value};

    fn values() -> impl Strategy<Value = Value> {
        // Characters whose order in UTF-16 differs from that in UTF-8, and characters that are escaped.
        const ODD: [char; 10] = ['"', '\\', '\n', '\u{1f}', ' ', '!', '\u{e000}', '\u{1f600}', 'a', 'b'];
        let text = || {
            let one = prop_oneof![any::<char>(), prop::sample::select(ODD.as_slice())];
            proptest::collection::vec(one, 0..4).prop_map(String::from_iter)
        };
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            // Integers that JavaScript represents exactly.
            (-(1i64 << 53)..=1 << 53).prop_map(Value::from),
            any::<f64>().prop_filter_map("finite", Number::from_f64).prop_map(Value::Number),
            text().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 64, 6, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                proptest::collection::vec((text(), inner), 0..6)
                    .prop_map(|entries| Value::Object(Map::from_iter(entries))),
            ]
        })
    }

    proptest! {
        /// Same output as `serde_json_canonicalizer`, which takes three times as long.
        #[test]
        fn the_output_equals_that_of_the_library(value in values()) {
            let expected = serde_json_canonicalizer::to_string(&value).map_err(|e| TestCaseError::fail(e.to_string()))?;
            let found = super::canonical(&value);
            prop_assert_eq!(String::from_utf8_lossy(&found), expected);
        }
    }

    #[test]
    fn numbers_beyond_the_range_of_javascript_keep_their_digits() {
        let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        for (text, form) in
            [("[18446744073709551617,1e400]", "[18446744073709551617,1e+400]"), ("[1.50,1E2]", "[1.5,100]")]
        {
            assert_eq!(String::from_utf8(super::canonical(&read(text))).unwrap(), form);
        }
    }
}
