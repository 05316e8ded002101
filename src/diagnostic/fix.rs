//! Applies fixes to texts. Conflicting fixes wait for the next round of `check --fix`.

use std::collections::BTreeMap;

use super::{Diagnostic, Edit, Fix};
use crate::source::{FileId, Source, Sources};

/// The reason why edits cannot be applied.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Conflict {
    #[error("two edits change the same text")]
    Overlap,
    #[error("an edit lies outside its text or inside a character")]
    OutOfRange,
}

/// Adapts the edits of a finding to the quotes at the place where they write: a quoted name stays quoted, and a JSON
/// file stays JSON.
pub fn keep_quotes(diagnostic: &mut Diagnostic, sources: &Sources) {
    for edit in diagnostic.fix.iter_mut().flat_map(|f| &mut f.edits) {
        let source = sources.get(edit.span.file);
        if let Some(text) = in_quotes(source.slice(edit.span), &edit.text, &source) {
            edit.text = text;
        }
    }
}

fn in_quotes(old: &str, new: &str, source: &Source) -> Option<String> {
    let is_json = |text: &str| serde_json::from_str::<serde_json::Value>(text).is_ok();
    let quote = old.chars().next().filter(|q| old.len() > 1 && matches!(q, '"' | '\'') && old.ends_with(*q));
    let bare = !new.starts_with(['"', '\'', '{', '[']) && !is_json(new) && !new.contains(['\n', '"', '\'', '\\']);
    let json_file = source.path().extension().is_some_and(|e| e == "json");
    match quote {
        Some(quote) if bare => Some(format!("{quote}{new}{quote}")),
        None if bare && json_file && is_json(old) => Some(format!("\"{new}\"")),
        _ => None,
    }
}

/// The text after all `edits`, whose order matters only between insertions at the same place. Identical edits count
/// once.
///
/// # Errors
/// If two edits overlap, or one lies outside of the text.
pub fn apply(text: &str, edits: &[Edit]) -> Result<String, Conflict> {
    let mut chosen = Vec::new();
    for edit in edits {
        admit(text, &mut chosen, edit)?;
    }
    Ok(write(text, chosen))
}

/// The new text of every file that the fixes of `diagnostics` change. A fix is applied as a whole or not at all, in the
/// given order. A fix that overlaps one applied before it is left for the next round.
pub fn apply_all(diagnostics: &[Diagnostic], sources: &Sources) -> Vec<(FileId, String)> {
    apply_these(diagnostics.iter().filter_map(|d| d.fix.as_ref()), sources).0
}

/// Like [`apply_all`], for these fixes. Also returns the fixes that were applied.
pub fn apply_these<'a>(
    fixes: impl IntoIterator<Item = &'a Fix>,
    sources: &Sources,
) -> (Vec<(FileId, String)>, Vec<&'a Fix>) {
    let mut whole = Vec::new();
    let mut chosen = BTreeMap::<FileId, Vec<&Edit>>::new();
    for fix in fixes {
        let before: Vec<_> =
            fix.edits.iter().map(|e| (e.span.file, chosen.get(&e.span.file).map_or(0, Vec::len))).collect();
        let taken = fix.edits.iter().try_for_each(|edit| {
            let file = edit.span.file;
            admit(sources.get(file).text(), chosen.entry(file).or_default(), edit)
        });
        match taken {
            Ok(()) => whole.push(fix),
            Err(_) => {
                for (file, len) in before {
                    chosen.entry(file).or_default().truncate(len);
                }
            }
        }
    }
    let rewrite = |(file, edits)| {
        let source = sources.get(file);
        let text = write(source.text(), edits);
        (text != source.text()).then_some((file, text))
    };
    (chosen.into_iter().filter_map(rewrite).collect(), whole)
}

/// Adds `edit` to edits that do not overlap, unless an identical one is already present.
fn admit<'a>(text: &str, chosen: &mut Vec<&'a Edit>, edit: &'a Edit) -> Result<(), Conflict> {
    if text.get(edit.span.range()).is_none() {
        return Err(Conflict::OutOfRange);
    }
    if chosen.iter().any(|c| c.span.range() == edit.span.range() && c.text == edit.text) {
        return Ok(());
    }
    if chosen.iter().any(|c| overlap(c, edit)) {
        return Err(Conflict::Overlap);
    }
    chosen.push(edit);
    Ok(())
}

/// Insertions overlap only ranges that they are inside of: two insertions at the same place are both kept.
fn overlap(a: &Edit, b: &Edit) -> bool {
    a.span.start < b.span.end && b.span.start < a.span.end
}

fn write(text: &str, mut edits: Vec<&Edit>) -> String {
    edits.sort_by_key(|e| (e.span.start, e.span.end));
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for edit in edits {
        let range = edit.span.range();
        out.push_str(&text[at..range.start]);
        out.push_str(&edit.text);
        at = range.end;
    }
    out.push_str(&text[at..]);
    out
}
