//! Counts the tokens of a text in the encoding `cl100k_base`. The table is built in, so nothing is downloaded.
//!
//! The count is an estimate for every model except those of that encoding's time. Upstream makes the same estimate
//! (§3.7 of the upstream behavior).

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    sync::LazyLock,
};

use regex::Regex;

/// Tokens by rank: for each, one byte for its length, then its bytes.
///
/// From `cl100k_base.tiktoken` of OpenAI's tiktoken (MIT license).
static TABLE: &[u8] = include_bytes!("tokens/cl100k_base.bin");

static RANKS: LazyLock<HashMap<&'static [u8], u32>> = LazyLock::new(|| {
    let mut ranks = HashMap::with_capacity(100_256);
    let (mut rest, mut rank) = (TABLE, 0);
    while let Some((&length, after)) = rest.split_first() {
        let (token, after) = after.split_at(usize::from(length).min(after.len()));
        ranks.insert(token, rank);
        (rest, rank) = (after, rank + 1);
    }
    ranks
});

/// Tokens do not cross the boundaries of these pieces. The original pattern has `\s+(?!\S)` before the last
/// alternative: see [`exactly`].
static PIECES: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let pattern =
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+";
    Regex::new(pattern).ok()
});

/// How many bytes are counted. The rest of a longer text is assumed to be like its beginning.
const MOST: usize = 128 << 10;

/// Returns the number of tokens of a text. Words that look like special tokens count as text.
pub fn count(text: &str) -> u64 {
    let head = &text[..text.floor_char_boundary(MOST)];
    let tokens = exactly(head);
    match head.len() {
        all if all == text.len() => tokens,
        // No division by zero: the text is longer than `head`, so `head` is not empty.
        part => tokens.saturating_mul(text.len() as u64) / part as u64,
    }
}

fn exactly(text: &str) -> u64 {
    let Some(pieces) = &*PIECES else { return 0 };
    let (mut at, mut tokens) = (0, 0);
    while let Some(found) = pieces.find_at(text, at).filter(|found| !found.is_empty()) {
        let mut end = found.end();
        let piece = found.as_str();
        // White space leaves its last character to the following word.
        if end < text.len()
            && !piece.ends_with(['\r', '\n'])
            && let Some((last, _)) = piece.char_indices().next_back().filter(|(last, _)| *last > 0)
            && piece.chars().all(char::is_whitespace)
        {
            end = found.start() + last;
        }
        tokens += piece_tokens(&text.as_bytes()[found.start()..end]);
        at = end;
    }
    tokens
}

/// Byte-pair encoding: repeatedly joins the neighbors that make the token with the lowest rank.
fn piece_tokens(piece: &[u8]) -> u64 {
    if RANKS.contains_key(piece) {
        return 1;
    }
    // The end of the part that starts here; 0 for a byte inside a part.
    let mut end: Vec<usize> = (1..=piece.len()).collect();
    // The start of the part before the one that starts here.
    let mut before: Vec<usize> = (0..=piece.len()).map(|i| i.saturating_sub(1)).collect();
    let mut parts = piece.len() as u64;
    let rank = |from: usize, to: usize| RANKS.get(&piece[from..to]).copied();
    let mut heap = BinaryHeap::new();
    for i in 1..piece.len() {
        heap.extend(rank(i - 1, i + 1).map(|rank| Reverse((rank, i - 1, i, i + 1))));
    }
    while let Some(Reverse((_, from, middle, to))) = heap.pop() {
        // One of the two may have been joined with another part since.
        if end[from] != middle || middle >= piece.len() || end[middle] != to {
            continue;
        }
        (end[from], end[middle]) = (to, 0);
        parts -= 1;
        if to < piece.len() {
            before[to] = from;
            heap.extend(rank(from, end[to]).map(|rank| Reverse((rank, from, to, end[to]))));
        }
        if from > 0 {
            heap.extend(rank(before[from], to).map(|rank| Reverse((rank, before[from], from, to))));
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_complete() {
        assert_eq!(RANKS.len(), 100_256);
        assert_eq!((RANKS[&b"!"[..]], RANKS[&b" Conveyor"[..]]), (0, 100_255));
    }

    /// As tiktoken counts them. 20,000 random texts were compared with another implementation.
    #[test]
    fn token_counts_equal_those_of_tiktoken() {
        for (text, tokens) in [
            ("", 0),
            ("Hello, world!", 4),
            ("  indented\n\n\tlines  ", 6),
            ("naïve façade 👩\u{200d}🔬", 12),
            ("{\"name\": \"web\", \"n\": 12345}", 13),
            ("don't I'LL", 5),
            ("<|endoftext|>", 7),
        ] {
            assert_eq!(count(text), tokens, "{text:?}");
        }
        let long = count(&"word ".repeat(100_000));
        assert!((99_990..=100_010).contains(&long), "{long}");
    }
}
