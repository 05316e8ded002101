//! Patterns as automata: whether one matches everything that another matches.

use std::collections::HashSet;

use regex_automata::{
    Anchored, Input,
    hybrid::{
        LazyStateID,
        dfa::{Cache, Config, DFA},
    },
    nfa::thompson,
    util::syntax,
};
use regex_syntax::{
    ParserBuilder,
    hir::{Hir, HirKind, Look},
};

/// The maximum number of state pairs to examine.
const PAIRS: usize = 20_000;

/// The set of texts to consider.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Texts {
    /// Names: printable ASCII.
    Names,
    /// Names and line breaks.
    Lines,
}

/// Whether `outer` matches every text that `inner` matches; both are unanchored. `false` if undecided.
pub fn covers(outer: &str, inner: &str, texts: Texts) -> bool {
    Automaton::of(outer)
        .zip(Automaton::of(inner))
        .and_then(|(mut outer, mut inner)| outer.covers(&mut inner, texts))
        .unwrap_or(false)
}

/// Whether a pattern matches every text.
pub fn matches_all(pattern: &str, texts: Texts) -> bool {
    let takes_nothing = |hir: Hir| hir.properties().minimum_len() == Some(0);
    parsed(pattern).is_some_and(takes_nothing) && covers(pattern, "", texts)
}

/// Whether a pattern matches no text. If `output` is set, texts have no trailing newlines. `false` if undecided.
pub fn matches_none(pattern: &str, output: bool) -> bool {
    // The automaton supports only ASCII word boundaries.
    let words = pattern.contains("\\b") || pattern.contains("\\B");
    let wide = ["[^", "\\W", "\\D", "\\S", "\\p", "\\P", "."].iter().any(|part| pattern.contains(part));
    if words && (wide || !pattern.is_ascii()) || parsed(pattern).is_some_and(|hir| matches_some(&hir, output)) {
        return false;
    }
    none(pattern, |_| true, output)
}

/// The valid names of tools.
pub struct Names;

impl Names {
    /// Whether a pattern matches no valid name. `false` if undecided.
    pub fn none_matches(pattern: &str) -> bool {
        none(pattern, |byte| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte), false)
    }
}

/// Whether a pattern matches no text of the bytes in `alphabet`.
fn none(pattern: &str, alphabet: fn(u8) -> bool, output: bool) -> bool {
    Automaton::of(pattern).and_then(|mut automaton| automaton.matches_none(alphabet, output)).unwrap_or(false)
}

/// The pattern that matches exactly one text.
pub fn exactly(text: &str) -> String {
    format!(r"\A(?:{})\z", regex::escape(text))
}

/// The parsed pattern, with the same options as the automata.
fn parsed(pattern: &str) -> Option<Hir> {
    ParserBuilder::new().unicode(false).utf8(false).build().parse(pattern).ok()
}

/// Whether a pattern clearly matches some text: it has assertions only at its ends. An automaton would take a hundred
/// times as long. If `output` is set, texts have no trailing newlines.
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

/// Whether a part can match some text at any position.
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

/// A pattern whose states are built on demand: most patterns need few. Its methods return `None` if it becomes too
/// large.
struct Automaton {
    dfa: DFA,
    states: Cache,
}

impl Automaton {
    fn of(pattern: &str) -> Option<Self> {
        // State IDs are only valid until the cache is cleared, so never clear it.
        let config = Config::new().cache_capacity(1 << 20).skip_cache_capacity_check(true);
        let dfa = DFA::builder()
            .configure(config.minimum_cache_clear_count(Some(0)))
            .syntax(syntax::Config::new().unicode(false).utf8(false))
            .thompson(thompson::Config::new().utf8(false).nfa_size_limit(Some(1 << 20)))
            .build(pattern)
            .ok()?;
        let states = dfa.create_cache();
        Some(Self { dfa, states })
    }

    fn start(&mut self) -> Option<LazyStateID> {
        self.dfa.start_state_forward(&mut self.states, &Input::new(b"").anchored(Anchored::No)).ok()
    }

    fn next(&mut self, state: LazyStateID, byte: u8) -> Option<LazyStateID> {
        self.dfa.next_state(&mut self.states, state, byte).ok().filter(|next| !next.is_quit())
    }

    /// Whether the pattern matches if the text ends here.
    fn ends(&mut self, state: LazyStateID) -> Option<bool> {
        Some(self.dfa.next_eoi_state(&mut self.states, state).ok()?.is_match())
    }

    fn covers(&mut self, inner: &mut Self, texts: Texts) -> Option<bool> {
        let start = (inner.start()?, false, self.start()?);
        let alphabet = || (b' '..=b'~').chain((texts == Texts::Lines).then_some(b'\n'));
        let mut seen = HashSet::from([start]);
        let mut open = vec![start];
        while let Some((i, matched, o)) = open.pop() {
            if seen.len() > PAIRS {
                return None;
            }
            let matched = matched || i.is_match();
            if o.is_match() || (i.is_dead() && !matched) {
                continue;
            }
            if (matched || inner.ends(i)?) && !self.ends(o)? {
                return Some(false);
            }
            for byte in alphabet() {
                let next = (inner.next(i, byte)?, matched, self.next(o, byte)?);
                if seen.insert(next) {
                    open.push(next);
                }
            }
        }
        Some(true)
    }

    fn matches_none(&mut self, alphabet: fn(u8) -> bool, output: bool) -> Option<bool> {
        // Whether the text so far ends in a newline.
        let start = (self.start()?, false);
        let mut seen = HashSet::from([start]);
        let mut open = vec![start];
        while let Some((state, newline)) = open.pop() {
            if seen.len() > PAIRS {
                return None;
            }
            if state.is_match() || (!(output && newline) && self.ends(state)?) {
                return Some(false);
            }
            for byte in (0..=u8::MAX).filter(|byte| alphabet(*byte)) {
                let next = (self.next(state, byte)?, byte == b'\n');
                if !next.0.is_dead() && seen.insert(next) {
                    open.push(next);
                }
            }
        }
        Some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_that_match_nothing_are_detected() {
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
    fn patterns_that_cover_others_are_detected() {
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
