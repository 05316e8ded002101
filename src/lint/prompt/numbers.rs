//! The prompt and the task contain different numbers in the same role.

use std::collections::BTreeSet;

use crate::{
    ascii::{Ascii, ascii},
    diagnostic::{Diagnostic, Diagnostics},
    hir::PhaseKind,
    lint::{
        TaskView,
        analysis::{facts, texts},
        prompt::disagrees,
    },
    source::Span,
};

pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    let Some((said, prompt)) = facts::prompt(view) else { return };
    counted(view, said, prompt, out);
    transposed(view, said, prompt, out);
}

const WORDS: [&str; 12] =
    ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"];

/// The value of a number, in digits or as a word.
pub fn number(word: &str) -> Option<u64> {
    let place = WORDS.iter().position(|known| *known == word);
    place.map(|place| place as u64 + 1).or_else(|| word.parse().ok())
}

/// `Keep its two replicas`, but verify expects 3 at `.spec.replicas`.
fn counted(view: &TaskView<'_>, said: &str, prompt: Span, out: &mut Diagnostics) {
    let lower = said.to_lowercase();
    // A bound does not contradict a larger or smaller number.
    for fact in facts::asked(view).iter().filter(|fact| fact.exact && !fact.value.is_boolean()) {
        let text = fact.text();
        let Some(value) = text.parse::<u64>().ok().filter(|value| *value > 0) else { continue };
        let words = crate::effects::words(&fact.key);
        let noun = words.last().map(|word| word.trim_end_matches('s'));
        let Some(noun) = noun.filter(|noun| noun.len() > 4 && lower.contains(noun)) else { continue };
        let mut told: BTreeSet<u64> = BTreeSet::new();
        let mut shown = None;
        for (at, _) in lower.match_indices(noun) {
            let sentence = crate::lint::analysis::orders::sentence(&lower, at);
            // A number in a sentence about a change or a part is not the total.
            if RELATIVE.is_match(&lower[sentence]) {
                return;
            }
            let mut before: Vec<&str> = lower[..at].split_whitespace().rev().take(4).collect();
            // `all 3 of its replicas`
            if let ["its" | "their", "of", _, "all"] = before.as_slice() {
                before.drain(..2);
            }
            before.truncate(2);
            let found = before.iter().find_map(|word| Some((number(word)?, *word)));
            if let Some((number, word)) = found.filter(|_| lower[..at].ends_with([' ', '\n'])) {
                told.insert(number);
                shown = Some(word.to_owned());
            }
        }
        let Some(shown) = shown.filter(|_| !told.contains(&value)) else { continue };
        // If verify checks the prompt's number elsewhere, this may be another resource.
        let is_asked =
            facts::asked(view).iter().any(|other| other.text().parse::<u64>().is_ok_and(|n| told.contains(&n)));
        let word = usize::try_from(value).ok().and_then(|value| WORDS.get(value - 1));
        let is_said = texts::has_word(&lower, &text) || word.is_some_and(|word| texts::has_word(&lower, word));
        if !is_said && !is_asked && told.len() == 1 {
            out.push(disagrees::disagrees(fact.span, &text, &format!("{shown} {noun}s"), prompt));
            return;
        }
    }
}

static RELATIVE: Ascii = ascii(
    r"\b(?:more|additional|another|extra|add|adds|increase|decrease|by|remove|delete|fewer|less|double|twice|half|each|per|every|first|last|from|instead|of the|at least|at most|up to|minimum|maximum|between|other)\b",
);

/// `the employee 42`, but verify checks the one with `id = 24`: the same digits in another order, and neither number
/// appears elsewhere.
fn transposed(view: &TaskView<'_>, said: &str, prompt: Span, out: &mut Diagnostics) {
    let elsewhere = facts::elsewhere(view);
    let told: BTreeSet<&str> = runs(said).map(|(_, run)| run).collect();
    let is_there = |number: &str| elsewhere.verify.contains(number) || elsewhere.rest.contains(number);
    let free: Vec<&str> = told.iter().copied().filter(|number| !is_there(number)).collect();
    if free.is_empty() {
        return;
    }
    let digits = |number: &str| {
        let mut digits = number.as_bytes().to_vec();
        digits.sort_unstable();
        digits
    };
    // A short number may be computed, so the preceding word must be the same: `id 42` and `id = 24`.
    let called: Vec<(&str, &str)> = runs(said).map(|(at, run)| (run, word_before(said, at))).collect();
    let other = |number: &str, word: &str| {
        let same = |free: &&&str| {
            let is_called = || called.iter().any(|(run, known)| run == *free && !word.is_empty() && *known == word);
            digits(free) == digits(number) && (number.len() > 3 || is_called())
        };
        if told.contains(number) { None } else { free.iter().find(same).copied() }
    };
    let in_scripts = [PhaseKind::Verify, PhaseKind::Setup].into_iter().flat_map(|phase| {
        let scripts = view.scripts.iter().filter(move |script| script.phase == phase);
        scripts.flat_map(|script| runs(&script.content.text).map(move |(at, run)| (script, at, run)))
    });
    let mut in_scripts = in_scripts.filter_map(|(script, at, run)| {
        let other = other(run, word_before(&script.content.text, at))?;
        Some((script.content.span(at..at + run.len()), run.to_owned(), other))
    });
    let in_steps = || {
        let expected = crate::lint::analysis::expected::expected(view);
        expected.filter_map(|(span, text)| other(text, "").map(|other| (span, text.to_owned(), other))).next()
    };
    let found = in_scripts.next().or_else(in_steps);
    if let Some((span, number, other)) = found {
        let message = format!("the task contains `{number}` here, but the prompt says `{other}`");
        let finding = Diagnostic::new(&disagrees::PROMPT_DISAGREES, span, message);
        out.push(
            finding
                .label(prompt, "in this prompt")
                .help("the digits are in a different order: use the same number in both"),
        );
    }
}

/// The word before an offset, if only punctuation and spaces are between them.
fn word_before(text: &str, at: usize) -> &str {
    let before = text[..at].trim_end_matches(|c: char| c.is_ascii() && !c.is_ascii_alphanumeric() && c != '\n');
    let start =
        before.rfind(|c: char| !c.is_ascii_alphabetic()).map_or(0, |start| before.ceil_char_boundary(start + 1));
    before.get(start..).unwrap_or_default()
}

/// Numbers of at least two digits that are not part of a word, a version, a date or an address, and their offsets.
fn runs(text: &str) -> impl Iterator<Item = (usize, &str)> {
    RUN.find_iter(text).map(|found| (found.start(), found.as_str())).filter(|(at, run)| {
        let bytes = text.as_bytes();
        let joins = |byte: Option<u8>, beyond: Option<u8>| match byte {
            Some(b'.' | b'-' | b',') => beyond.is_some_and(|byte| byte.is_ascii_digit()),
            Some(byte) => byte.is_ascii_alphanumeric() || byte == b'_',
            None => false,
        };
        let before = |back: usize| at.checked_sub(back).map(|at| bytes[at]);
        let behind = |on: usize| bytes.get(at + run.len() + on).copied();
        !joins(before(1), before(2)) && !joins(behind(0), behind(1))
    })
}

static RUN: Ascii = ascii(r"\d\d+");
