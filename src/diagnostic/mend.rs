//! Applies fixes safely: checks the resulting files again, and rolls back a fix that does harm.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    path::PathBuf,
};

use super::{Applicability, Diagnostic, Fix, Strength, fix};
use crate::source::{FileId, Sources, normalize};

/// Fixes may reveal other findings; no file should need more rounds than this.
const ROUNDS: usize = 20;

/// The changed texts of files, by normalized path.
pub type Texts = BTreeMap<PathBuf, Vec<u8>>;

/// The result of applying fixes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Mended {
    /// The new texts of the files that the fixes changed.
    pub texts: Texts,
    /// The fixes that were rolled back, with the reasons.
    pub refused: BTreeSet<String>,
}

/// Applies the safe fixes of the findings of `look`, and the unsafe ones if requested. `look` gets the changed texts of
/// files. Keeps the fixes that resolve their finding and add no error.
///
/// # Errors
/// Those of `look`.
pub fn mend<E>(unsafe_too: bool, look: impl Fn(&Texts, &Sources) -> Result<Vec<Diagnostic>, E>) -> Result<Mended, E> {
    let mut mended = Mended::default();
    let mut rejected = BTreeSet::new();
    for _ in 0..ROUNDS {
        let sources = Sources::default();
        let found = look(&mended.texts, &sources)?;
        let wanted = |d: &&Diagnostic| {
            d.fix.as_ref().is_some_and(|f| unsafe_too || f.applicability == Applicability::Safe)
                && !rejected.contains(&identity(d, &sources))
        };
        // The strongest findings come first: the kind of a file determines which other findings it has.
        let heaviest = found.iter().filter(wanted).map(|d| d.strength).min();
        let cures: Vec<_> = found.iter().filter(wanted).filter(|d| Some(d.strength) == heaviest).collect();
        if cures.is_empty() {
            break;
        }
        // First all fixes at once. If that does harm, one by one, to find the fix that does.
        let mut attempts = vec![cures.clone()];
        if cures.len() > 1 {
            attempts.extend(cures.iter().map(|d| vec![*d]));
        }
        let mut refused = Vec::new();
        let mut taken = None;
        for attempt in attempts {
            let (texts, applied) = applied(&attempt, &mended.texts, &sources);
            let again = Sources::default();
            let after = look(&texts, &again)?;
            match harm(&applied, (&found, &sources), (&after, &again)) {
                None if !applied.is_empty() => {
                    taken = Some(texts);
                    break;
                }
                Some(why) if attempt.len() == 1 => refused.push((attempt[0], why)),
                _ => {}
            }
        }
        for (d, why) in refused {
            let at = sources.get(d.span.file).position(d.span.start);
            mended.refused.insert(format!("{}:{}: {}: {why}", sources.path(d.span).display(), at.line, d.rule.name));
            rejected.insert(identity(d, &sources));
        }
        match taken {
            Some(texts) => mended.texts = texts,
            None => break,
        }
    }
    Ok(mended)
}

/// Identifies a finding while texts change.
type Identity = (&'static str, PathBuf, String);

fn identity(d: &Diagnostic, sources: &Sources) -> Identity {
    (d.rule.name, sources.path(d.span), d.message.clone())
}

/// The texts with the fixes applied, and the findings whose fix could be applied.
fn applied<'a>(cures: &[&'a Diagnostic], texts: &Texts, sources: &Sources) -> (Texts, Vec<&'a Diagnostic>) {
    let mut texts = texts.clone();
    let (written, taken) = fix::apply_these(cures.iter().filter_map(|d| d.fix.as_ref()), sources);
    for (file, text) in written {
        texts.insert(normalize(sources.get(file).path()), text.into_bytes());
    }
    let is_taken = |fix: &Fix| taken.iter().any(|t| std::ptr::eq(*t, fix));
    (texts, cures.iter().copied().filter(|d| d.fix.as_ref().is_some_and(is_taken)).collect())
}

/// The reason why fixes must be rolled back: an error that they added, or a finding that they did not resolve.
///
/// A fixed hard error may have hidden other errors, and revealing them is not harmful. In that case, only errors in the
/// text that the fix wrote, or at the value after the key that it wrote, are blamed on the fix. Other findings hide
/// nothing.
fn harm(cures: &[&Diagnostic], before: (&[Diagnostic], &Sources), after: (&[Diagnostic], &Sources)) -> Option<String> {
    let counts = |(found, sources): (&[Diagnostic], &Sources)| {
        let mut counts = BTreeMap::<Identity, usize>::new();
        for d in found {
            *counts.entry(identity(d, sources)).or_default() += 1;
        }
        counts
    };
    let (old, new) = (counts(before), counts(after));
    let count = |counts: &BTreeMap<Identity, usize>, id: &Identity| counts.get(id).copied().unwrap_or(0);
    let uncovers = cures.iter().any(|d| d.strength == Strength::Hard);
    let written = written(cures, before.1);
    let (found, sources) = after;
    let added = found.iter().filter(|d| d.strength.is_error()).find(|d| {
        let id = identity(d, sources);
        count(&new, &id) > count(&old, &id) && (!uncovers || stands_in(d, &written, sources))
    });
    if let Some(d) = added {
        return Some(format!("it would introduce the error `{}`: {}", d.rule.name, d.message));
    }
    let left = cures.iter().map(|d| identity(d, before.1)).find(|id| count(&new, id) >= count(&old, id));
    left.map(|_| "it does not fix the finding".to_owned())
}

/// The ranges that fixes wrote, in the new texts. A fix that only changes the case of a word, such as `Verify`, is left out: the word is
/// certainly the one that was meant, so the fix is not to blame for errors in its value.
fn written(cures: &[&Diagnostic], sources: &Sources) -> BTreeMap<PathBuf, Vec<Range<usize>>> {
    let mut edits: BTreeMap<FileId, Vec<_>> = BTreeMap::new();
    for edit in cures.iter().filter_map(|d| d.fix.as_ref()).flat_map(|fix| &fix.edits) {
        edits.entry(edit.span.file).or_default().push(edit);
    }
    let moved = |(file, mut edits): (FileId, Vec<&super::Edit>)| {
        edits.sort_by_key(|e| (e.span.start, e.span.end));
        edits.dedup_by(|a, b| a.span == b.span && a.text == b.text);
        let (mut grown, mut cut) = (0, 0);
        let source = sources.get(file);
        let text = source.text();
        let ranges = edits.into_iter().filter_map(|edit| {
            let start = edit.span.start as usize + grown - cut;
            grown += edit.text.len();
            cut += edit.span.range().len();
            let old = text.get(edit.span.range()).unwrap_or_default();
            (!old.eq_ignore_ascii_case(&edit.text)).then(|| start..start + edit.text.len())
        });
        (source.path().to_owned(), ranges.collect())
    };
    edits.into_iter().map(moved).collect()
}

/// Whether an error is in text that was written, or starts at the value after it.
fn stands_in(d: &Diagnostic, written: &BTreeMap<PathBuf, Vec<Range<usize>>>, sources: &Sources) -> bool {
    let source = sources.get(d.span.file);
    let at = d.span.range();
    let text = source.text();
    written.get(source.path()).into_iter().flatten().any(|range| {
        let behind = text.get(range.end..).unwrap_or_default();
        let value = range.end + (behind.len() - behind.trim_start_matches([':', ' ', '\n', '\t', '-']).len());
        at.start <= range.end && range.start <= at.end || at.start == value
    })
}
