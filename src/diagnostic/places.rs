//! What is found often is reported once: warnings and notes that say the same are one finding with its places.

use rustc_hash::FxHashMap;

use super::{Diagnostic, Strength};

/// Findings as they are written: a warning or a note that says the same as one before it, by the same rule, is a further
/// place of that one. Errors stay apart, and so does what has a fix, since each is mended where it stands.
///
/// Whatever looks at places one by one (fixes, baselines, comments that allow) comes before.
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

/// How many places findings have.
pub fn places(gathered: &[Diagnostic]) -> usize {
    gathered.iter().map(|d| 1 + d.places.len()).sum()
}
