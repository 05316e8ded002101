//! Merges repeated findings: warnings and notes that say the same become one finding with several places.

use rustc_hash::FxHashMap;

use super::{Diagnostic, Strength};

/// Merges findings for output: a warning or a note with the same rule and the same text as an earlier one becomes a
/// further place of that one. Errors and findings with a fix are not merged, because each is fixed at its place.
///
/// Everything that handles places one by one (fixes, baselines, `allow` comments) must run before this.
pub fn gather(found: Vec<Diagnostic>) -> Vec<Diagnostic> {
    type Words = (&'static str, Strength, String, Option<String>);
    let mut first: FxHashMap<Words, usize> = FxHashMap::default();
    let mut gathered: Vec<Diagnostic> = Vec::new();
    for d in found {
        if d.strength.is_error() || d.fix.is_some() {
            gathered.push(d);
            continue;
        }
        let words = (d.rule.name, d.strength, d.message.clone(), d.help.clone());
        match first.get(&words) {
            Some(&at) => gathered[at].places.push(d.span),
            None => {
                first.insert(words, gathered.len());
                gathered.push(d);
            }
        }
    }
    gathered
}

/// The number of places of all findings.
pub fn places(gathered: &[Diagnostic]) -> usize {
    gathered.iter().map(|d| 1 + d.places.len()).sum()
}
