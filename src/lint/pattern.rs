//! Patterns as automata: whether one matches all that another matches.

use std::collections::HashSet;

use regex_automata::{
    Anchored, Input,
    dfa::{Automaton, StartKind, dense},
    nfa::thompson,
    util::{primitives::StateID, syntax},
};

/// Pairs of states looked at before giving up.
const PAIRS: usize = 20_000;

/// Which texts are meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Texts {
    /// Names: printable ASCII.
    Names,
    /// Names and line breaks.
    Lines,
}

/// Whether every text that `inner` matches is matched by `outer` too; both unanchored. `false` where nobody can tell.
pub fn covers(outer: &str, inner: &str, texts: Texts) -> bool {
    let (Some(outer), Some(inner)) = (automaton(outer), automaton(inner)) else { return false };
    let (Some(o), Some(i)) = (start(&outer), start(&inner)) else { return false };
    let alphabet = || (b' '..=b'~').chain((texts == Texts::Lines).then_some(b'\n'));
    let mut seen = HashSet::from([(i, false, o)]);
    let mut open = vec![(i, false, o)];
    while let Some((i, matched, o)) = open.pop() {
        if outer.is_quit_state(o) || inner.is_quit_state(i) || seen.len() > PAIRS {
            return false;
        }
        let matched = matched || inner.is_match_state(i);
        if outer.is_match_state(o) || (inner.is_dead_state(i) && !matched) {
            continue;
        }
        let ends = matched || inner.is_match_state(inner.next_eoi_state(i));
        if ends && !outer.is_match_state(outer.next_eoi_state(o)) {
            return false;
        }
        for byte in alphabet() {
            let next = (inner.next_state(i, byte), matched, outer.next_state(o, byte));
            if seen.insert(next) {
                open.push(next);
            }
        }
    }
    true
}

/// Whether a pattern matches every text.
pub fn matches_all(pattern: &str, texts: Texts) -> bool {
    covers(pattern, "", texts)
}

/// The pattern of one text, exactly.
pub fn exactly(text: &str) -> String {
    format!(r"\A(?:{})\z", regex::escape(text))
}

fn automaton(pattern: &str) -> Option<dense::DFA<Vec<u32>>> {
    let limit = Some(1 << 20);
    dense::Builder::new()
        .configure(
            dense::Config::new().start_kind(StartKind::Unanchored).dfa_size_limit(limit).determinize_size_limit(limit),
        )
        .syntax(syntax::Config::new().unicode(false).utf8(false))
        .thompson(thompson::Config::new().utf8(false))
        .build(pattern)
        .ok()
}

fn start(dfa: &dense::DFA<Vec<u32>>) -> Option<StateID> {
    dfa.start_state_forward(&Input::new(b"").anchored(Anchored::No)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_covers_what() {
        let covers = |outer, inner| covers(outer, inner, Texts::Names);
        assert!(covers("delete", "pods_delete") && covers("^pods_", r"\Apods_delete\z") && covers("", "x"));
        assert!(
            covers("a|b", "a") && !covers("a", "a|b") && !covers("^delete", "delete") && !covers("delete$", "delete")
        );
        assert!(covers(".*", "") && covers("^", "") && covers("x*", "") && !covers("x+", "") && !covers(".", ""));
        assert!(!covers("[", "x"), "nobody can tell");
        assert!(
            matches_all("^.*$", Texts::Names)
                && !matches_all("^.*$", Texts::Lines)
                && matches_all("(?s)^.*$", Texts::Lines)
        );
    }
}
