//! Patterns as automata: whether one matches all that another matches.

use std::collections::HashSet;

use regex_automata::{
    Anchored, Input,
    dfa::{Automaton, StartKind, dense},
    nfa::thompson,
    util::{primitives::StateID, syntax},
};
use regex_syntax::{
    ParserBuilder,
    hir::{Hir, HirKind, Look},
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
    let takes_nothing = |hir: Hir| hir.properties().minimum_len() == Some(0);
    parsed(pattern).is_some_and(takes_nothing) && covers(pattern, "", texts)
}

/// Whether no text matches a pattern; of `output`, newlines at the end are gone. `false` where nobody can tell.
pub fn matches_none(pattern: &str, output: bool) -> bool {
    // The automaton knows the words of ASCII alone.
    let words = pattern.contains("\\b") || pattern.contains("\\B");
    let wide = ["[^", "\\W", "\\D", "\\S", "\\p", "\\P", "."].iter().any(|part| pattern.contains(part));
    if words && (wide || !pattern.is_ascii()) || parsed(pattern).is_some_and(|hir| matches_some(&hir, output)) {
        return false;
    }
    none(pattern, |_| true, output)
}

/// The names that tools can have.
pub struct Names;

impl Names {
    /// Whether no name matches a pattern. `false` where nobody can tell.
    pub fn none_matches(pattern: &str) -> bool {
        none(pattern, |byte| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte), false)
    }
}

/// Whether a pattern matches no text of these bytes.
fn none(pattern: &str, alphabet: fn(u8) -> bool, output: bool) -> bool {
    let Some(dfa) = automaton(pattern) else { return false };
    let Some(start) = start(&dfa) else { return false };
    // Whether the text so far ends in a newline.
    let mut seen = HashSet::from([(start, false)]);
    let mut open = vec![(start, false)];
    while let Some((state, newline)) = open.pop() {
        if dfa.is_match_state(state) || dfa.is_quit_state(state) || seen.len() > PAIRS {
            return false;
        }
        if !(output && newline) && dfa.is_match_state(dfa.next_eoi_state(state)) {
            return false;
        }
        for byte in (0..=u8::MAX).filter(|byte| alphabet(*byte)) {
            let next = (dfa.next_state(state, byte), byte == b'\n');
            if !dfa.is_dead_state(next.0) && seen.insert(next) {
                open.push(next);
            }
        }
    }
    true
}

/// The pattern of one text, exactly.
pub fn exactly(text: &str) -> String {
    format!(r"\A(?:{})\z", regex::escape(text))
}

/// A pattern as the automata read it.
fn parsed(pattern: &str) -> Option<Hir> {
    ParserBuilder::new().unicode(false).utf8(false).build().parse(pattern).ok()
}

/// Whether a pattern is seen to match some text without an automaton, which takes a hundred times as long: it looks around at its
/// ends at most. Of `output`, newlines at the end are gone.
fn matches_some(hir: &Hir, output: bool) -> bool {
    match hir.kind() {
        HirKind::Capture(capture) => matches_some(&capture.sub, output),
        HirKind::Alternation(branches) => branches.iter().any(|branch| matches_some(branch, output)),
        HirKind::Concat(parts) => {
            let first = parts.iter().take_while(|part| is_look(part, [Look::Start, Look::StartLF])).count();
            let rest = &parts[first..];
            let last = rest.iter().rev().take_while(|part| is_look(part, [Look::End, Look::EndLF])).count();
            let (inner, ends) = rest.split_at(rest.len() - last);
            let kept = |part: &Hir| matches!(part.kind(), HirKind::Literal(text) if !text.0.ends_with(b"\n"));
            let stays = !output || ends.is_empty() || inner.last().is_some_and(kept);
            stays && inner.iter().all(is_free)
        }
        _ => is_free(hir),
    }
}

fn is_look(hir: &Hir, looks: [Look; 2]) -> bool {
    matches!(hir.kind(), HirKind::Look(look) if looks.contains(look))
}

/// Whether a part matches some text wherever it stands.
fn is_free(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Empty | HirKind::Literal(_) => true,
        HirKind::Class(class) => !class.is_empty(),
        HirKind::Look(_) => false,
        HirKind::Repetition(repetition) => repetition.min == 0 || is_free(&repetition.sub),
        HirKind::Capture(capture) => is_free(&capture.sub),
        HirKind::Concat(parts) => parts.iter().all(is_free),
        HirKind::Alternation(branches) => branches.iter().any(is_free),
    }
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
    fn what_matches_nothing() {
        let none = |pattern| matches_none(pattern, false);
        for pattern in [r"\z\Anginx", "^ok$^x", r"[^\s\S]", r"a\bb", "$x", "x^", "ok$\nmore", r"\A\z."] {
            assert!(none(pattern), "{pattern}");
        }
        for pattern in ["", "^$", "x", "^a|b^c", r"\bx\b", "(?m)^ok$\n^x", r"(?:^|x)y", r"é\B.", r"\z\A", "[", r"a\B\W"]
        {
            assert!(!none(pattern), "{pattern}");
        }
        assert!(matches_none(r"ok\n\z", true) && !none(r"ok\n\z") && !matches_none(r"ok\n?\z", true));
        assert!(!matches_none("ok\n", true), "more may follow");
        assert!(Names::none_matches("list pods") && Names::none_matches("^a:b") && !Names::none_matches("^list.pods$"));
        assert!(!Names::none_matches("") && !Names::none_matches("[ _]list"));
    }

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
