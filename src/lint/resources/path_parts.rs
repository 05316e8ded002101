//! Paths of verify that differ from that of the prompt in one part, and files with an earlier state that nothing saves.

use crate::{
    ascii::{Ascii, ascii},
    diagnostic::{Diagnostic, Diagnostics},
    effects::value::Value,
    hir::PhaseKind,
    lint::{
        TaskView,
        analysis::{
            checked_resource,
            expected::{absent_paths, read_paths},
            facts,
        },
        resources::{elsewhere::UNKNOWN_RESOURCE, odd_word::ODD_WORD},
        shell::misspelt::is_slip,
    },
};

/// `…/archive/2025-4/app.log`, if the prompt says `…/archive/2025-04`.
pub fn parts(view: &TaskView<'_>, out: &mut Diagnostics) {
    if view.task.prompt.is_none() {
        return;
    }
    let said = view.effects.prompt.shown();
    if !said.contains('/') {
        return;
    }
    let rest = &facts::elsewhere(view).rest;
    let mut told: Vec<String> = Vec::new();
    for (span, path) in read_paths(view).into_iter().chain(absent_paths(view)) {
        let mut at = 0;
        while let Some(next) = path[at..].find('/').map(|next| at + next + 1) {
            at = next;
            let parent = &path[..next];
            let own = path[next..].split('/').next().unwrap_or_default();
            if parent.len() < 4 || own.len() < 4 || !is_plain(own) || rest.contains(own) || said.contains(own) {
                continue;
            }
            let behind = said.match_indices(parent).map(|(at, _)| &said[at + parent.len()..]);
            let others = behind.map(|rest| {
                let end = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
                rest[..end].trim_end_matches('.')
            });
            let other = others.into_iter().find(|other| is_near(own, other));
            if let Some(other) = other
                .filter(|_| !told.contains(&own.to_owned()) && !crate::lint::resources::elsewhere::out_has(out, span))
            {
                told.push(own.to_owned());
                out.push(
                    Diagnostic::new(
                        &ODD_WORD,
                        span,
                        format!("the prompt has the path `{parent}{other}`, and verify `{parent}{own}`"),
                    )
                    .here(format!("did you mean `{other}`?"))
                    .help("use the same spelling everywhere; if it is intended, add `# gevals: allow(odd-word)`"),
                );
            }
        }
    }
}

fn is_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

fn is_plain(part: &str) -> bool {
    part.chars().all(is_part)
}

/// Whether two names differ by leading zeros, by their marks, or by a slip in a longer word.
fn is_near(a: &str, b: &str) -> bool {
    if a == b || b.len() < 4 {
        return false;
    }
    let numbers = |text: &str| -> Vec<String> {
        let parts = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| !part.is_empty());
        parts.map(|part| part.trim_start_matches('0').to_lowercase()).collect()
    };
    let digits = |text: &str| text.bytes().filter(u8::is_ascii_digit).collect::<Vec<_>>();
    numbers(a) == numbers(b) && a.to_lowercase() != b.to_lowercase()
        || digits(a) == digits(b) && a.len() > 5 && is_slip(a, b)
}

/// `cat "$REPO/.git/eval-main"`, where nothing writes this file.
pub fn saved(view: &TaskView<'_>, out: &mut Diagnostics) {
    if !view.effects.sees(PhaseKind::Setup) || view.task.prompt.is_none() {
        return;
    }
    let texts = facts::elsewhere(view);
    let said = view.effects.prompt.shown();
    // The content of a clone or an archive is unknown.
    if ["tar ", "unzip", "cp ", "rsync", "mv "].iter().any(|word| texts.rest.contains(word)) {
        return;
    }
    for run in checked_resource::runs(view, PhaseKind::Verify)
        .filter(|run| matches!(run.statement.name(), "cat" | "diff" | "cmp" | "sha256sum" | "md5sum"))
    {
        for word in run.words.iter().skip(1).filter(|word| word.is_known()) {
            let path = word.shown();
            let Some((folder, file)) = path.rsplit_once('/') else { continue };
            let is_copy = SAVED.is_match(file) && is_plain(file) && file.len() > 3;
            let is_written = || {
                texts.rest.contains(file)
                    || said.contains(file)
                    || facts::data(view).contains(file)
                    || texts.verify.matches(file).count() > 1
            };
            let top = folder.split('/').take(3).collect::<Vec<_>>().join("/");
            let is_made = || {
                texts.rest.contains(&top)
                    || view.effects.in_phase(PhaseKind::Setup).any(|act| {
                        act.thing
                            .name
                            .as_ref()
                            .map(Value::shown)
                            .is_some_and(|name| folder.starts_with(&name) && name.len() > 4)
                    })
            };
            let place = checked_resource::place(run);
            if is_copy && !is_written() && is_made() && !crate::lint::resources::elsewhere::out_has(out, place) {
                out.push(
                    Diagnostic::new(&UNKNOWN_RESOURCE, place, format!("nothing in the task writes `{file}`"))
                        .help("save the state in setup that verify compares with"),
                );
                return;
            }
        }
    }
}

/// The names of files that keep an earlier state.
static SAVED: Ascii =
    ascii(r"(?i)(?:before|original|saved|baseline|initial|expected|snapshot|eval|backup|checksum|\.sha\d*$)");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_differ_by_a_slip() {
        assert!(is_near("2025-4", "2025-04") && is_near("archive-old", "archive_old") && is_near("reprots", "reports"));
        assert!(!is_near("2025-04", "2025-05") && !is_near("app1", "app2") && !is_near("logs", "docs"));
    }
}
