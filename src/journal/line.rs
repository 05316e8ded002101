//! A line of a journal: an entry, the line number, and a checksum over both.
//!
//! `{"event":…}` is written as `{"event":…,"line":7,"sum":"0123456789abcdef"}`. The number shows that lines are missing, the
//! checksum that a line was changed. Version 1 of the journal has neither.

use sha2::{Digest, Sha256};

use super::Entry;

/// The length of a checksum, in characters.
const SUM: usize = 16;
const BEFORE_SUM: &[u8] = b",\"sum\":\"";
const BEFORE_NUMBER: &[u8] = b",\"line\":";

/// The content of a line.
pub(super) enum Line {
    /// With the line number, which version 1 does not have.
    Entry(Box<Entry>, Option<u64>),
    /// The line is not as it was written.
    Damaged,
}

/// Returns the line for an entry, including the newline. Unit variants become objects like all others.
pub(super) fn seal(entry: &[u8], number: u64) -> Vec<u8> {
    let mut line = match entry {
        [b'"', ..] => [b"{", entry, b":null"].concat(),
        _ => entry.strip_suffix(b"}").unwrap_or(entry).to_vec(),
    };
    line.extend_from_slice(BEFORE_NUMBER);
    line.extend_from_slice(number.to_string().as_bytes());
    let sum = sum(&line);
    line.extend_from_slice(BEFORE_SUM);
    line.extend_from_slice(sum.as_bytes());
    line.extend_from_slice(b"\"}\n");
    line
}

/// Parses a line; `plain` allows lines without a checksum.
pub(super) fn read(mut line: Vec<u8>, plain: bool) -> Line {
    if line.last() == Some(&b'\n') {
        line.pop();
    }
    let Some(sealed) = sealed(&line) else {
        let entry = plain.then(|| serde_json::from_slice(&line).ok()).flatten();
        return entry.map_or(Line::Damaged, |entry| Line::Entry(Box::new(entry), None));
    };
    let (body, stated) = sealed;
    let before = body.windows(BEFORE_NUMBER.len()).rposition(|window| window == BEFORE_NUMBER);
    let number = |at: usize| str::from_utf8(&body[at + BEFORE_NUMBER.len()..]).ok()?.parse().ok();
    let (Some(at), true) = (before, stated == sum(body).as_bytes()) else { return Line::Damaged };
    let number = number(at);
    line.truncate(at);
    line.push(b'}');
    match (serde_json::from_slice(&line), number) {
        (Ok(entry), Some(number)) => Line::Entry(Box::new(entry), Some(number)),
        _ => Line::Damaged,
    }
}

/// Splits a line into the part that the checksum covers, and the checksum.
fn sealed(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = line.strip_suffix(b"\"}")?;
    let (rest, sum) = rest.split_at(rest.len().checked_sub(SUM)?);
    Some((rest.strip_suffix(BEFORE_SUM)?, sum))
}

fn sum(bytes: &[u8]) -> String {
    hex::encode(&Sha256::digest(bytes)[..SUM / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Vec<u8> {
        serde_json::to_vec(&Entry::Group { pid: 7, start: 9 }).unwrap()
    }

    #[test]
    fn lines_round_trip() {
        for entry in [entry(), serde_json::to_vec(&Entry::Closed).unwrap()] {
            let line = seal(&entry, 12);
            assert!(serde_json::from_slice::<serde_json::Value>(&line).unwrap().is_object());
            let Line::Entry(read, Some(12)) = read(line, false) else { panic!("damaged") };
            assert_eq!(serde_json::to_vec(&read).unwrap(), entry);
        }
    }

    /// Any flipped bit is detected.
    #[test]
    fn a_changed_line_is_damaged() {
        let line = seal(&entry(), 3);
        for at in 0..line.len() - 1 {
            for bit in 0..8 {
                let mut changed = line.clone();
                changed[at] ^= 1 << bit;
                assert!(matches!(read(changed, true), Line::Damaged), "byte {at}, bit {bit}");
            }
        }
    }

    #[test]
    fn only_version_1_has_lines_without_checksums() {
        assert!(matches!(read(entry(), true), Line::Entry(_, None)));
        assert!(matches!(read(entry(), false), Line::Damaged));
    }
}
