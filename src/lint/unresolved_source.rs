//! Scripts that read another script which is not there.

use std::path::{Component, Path, PathBuf};

use super::TaskView;
use crate::{
    bash::program::Statement,
    diagnostic::{Diagnostic, Diagnostics, nearest},
    rule,
    source::{Files, Stat, resolve},
};

rule! {
    pub static UNRESOLVED_SOURCE = "unresolved-source", Verdict;
}

/// `source x` without a file `x`, seen from where the script runs (author mistake 12).
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    for script in view.scripts {
        let content = &script.content;
        let Some(dir) = &script.dir else { continue };
        // Only what runs whatever happens: `[ -f x ] && . x` knows that there may be none.
        for statement in &content.program.body {
            if matches!(statement.name(), "cd" | "pushd") {
                break;
            }
            let Some(word) = sourced(statement) else { continue };
            let path = resolve(dir, &word.text);
            // A file of that name may be made by a step before.
            let file = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            let mentions = view.scripts.iter().map(|s| s.content.text.matches(file.as_str()).count()).sum::<usize>();
            if view.files.stat(&path).is_some() || mentions > times_sourced(view, &file) {
                continue;
            }
            let mut diagnostic = Diagnostic::new(
                &UNRESOLVED_SOURCE,
                content.span(word.range.clone()),
                format!("there is no file `{}`", word.text),
            )
            .help(format!("the script runs in `{}`", shown(dir)));
            if let Some(found) = upwards(dir, &word.text, view.files) {
                diagnostic = diagnostic.here("it is there, seen from a folder above").fix(
                    format!("write `{found}`"),
                    content.span(word.range.clone()),
                    found,
                );
            } else {
                let siblings = path.parent().map(|p| view.files.list(p)).unwrap_or_default();
                if let Some(near) = nearest(&file, siblings.iter().map(String::as_str)) {
                    diagnostic = diagnostic.here(format!("did you mean `{near}`?"));
                }
            }
            out.push(diagnostic);
        }
    }
}

fn sourced(statement: &Statement) -> Option<&crate::bash::Word> {
    let word = matches!(statement.name(), "source" | ".").then(|| statement.words().get(1))??;
    // Without a slash it is looked for on PATH; absolute paths are this machine's.
    let relative = word.text.contains('/') && !word.text.starts_with(['/', '~']);
    (word.literal && relative).then_some(word)
}

fn times_sourced(view: &TaskView<'_>, file: &str) -> usize {
    let commands = view.scripts.iter().flat_map(|s| s.content.program.commands());
    commands.filter(|c| sourced(c).is_some_and(|w| w.text.ends_with(file))).count()
}

fn shown(dir: &Path) -> String {
    let text = dir.display().to_string();
    if text.is_empty() { ".".to_owned() } else { text }
}

/// The path from `dir` to a file that has this path from a folder above.
fn upwards(dir: &Path, path: &str, files: &dyn Files) -> Option<String> {
    let mut up = PathBuf::new();
    let depth = dir.components().filter(|c| matches!(c, Component::Normal(_))).count();
    for _ in 0..depth {
        up.push("..");
        let candidate = up.join(crate::source::normalize(Path::new(path)));
        if matches!(files.stat(&resolve(dir, &candidate.to_string_lossy())), Some(Stat::File { .. })) {
            return Some(candidate.to_string_lossy().into_owned());
        }
    }
    None
}
