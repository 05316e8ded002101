//! Scripts that nothing runs.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use rayon::prelude::*;

use super::ProjectView;
use crate::{
    diagnostic::{Diagnostic, Diagnostics},
    rule,
    source::Span,
};

rule! {
    pub static UNREFERENCED_SCRIPT = "unreferenced-script", Warning;
}

/// A `*.sh` beside a task that no file names (author mistake 10). Whatever names it, in whatever way, keeps it silent.
pub fn check(view: &ProjectView<'_>, out: &mut Diagnostics) {
    let dirs: BTreeSet<&Path> = view.project.tasks.iter().filter_map(|t| t.path.parent()).collect();
    let unread = view.project.tasks.iter().filter(|t| t.task.is_none());
    let broken: BTreeSet<&Path> = unread.filter_map(|t| t.path.parent()).collect();
    let dirs: Vec<&Path> = dirs.difference(&broken).copied().collect();
    let found: Vec<Vec<Unreferenced>> = dirs.into_par_iter().map(|dir| in_folder(dir, view)).collect();
    for Unreferenced { name, path, text } in found.into_iter().flatten() {
        let end = text.find('\n').unwrap_or(text.len());
        let file = view.sources.add(path, text);
        out.push(
            Diagnostic::new(&UNREFERENCED_SCRIPT, Span::new(file, 0..end), format!("nothing runs `{name}`"))
                .here("no task, script or other file of the folder names it")
                .help("name it in a task, or remove it"),
        );
    }
}

struct Unreferenced {
    name: String,
    path: PathBuf,
    text: String,
}

fn in_folder(dir: &Path, view: &ProjectView<'_>) -> Vec<Unreferenced> {
    let entries = view.files.entries(dir);
    let names = || entries.iter().map(|(name, _)| name);
    let mut silent: Vec<&String> =
        names().filter(|n| n.ends_with(".sh") && !view.scripts.contains(&dir.join(n))).collect();
    if silent.is_empty() {
        return Vec::new();
    }
    // Other files of the folder may speak of it too: other tasks, a Makefile, a README.
    let beside = names().filter(|n| !n.ends_with(".sh"));
    let mut texts: Vec<String> =
        beside.filter_map(|n| String::from_utf8(view.files.read(&dir.join(n)).ok()?).ok()).collect();
    let sources = view.sources.all();
    let mentions = |text: &str, name: &str| text.contains(name) || text.contains("*.sh");
    silent.retain(|name| {
        !sources.iter().any(|source| match source.path().starts_with(dir) {
            true => mentions(source.text(), name),
            false => reaches(source.text(), dir, name),
        })
    });
    while let Some(text) = texts.pop() {
        // What a mentioned script mentions is mentioned.
        silent.retain(|name| {
            let found = mentions(&text, name);
            if found {
                texts.extend(view.files.read(&dir.join(name)).ok().and_then(|b| String::from_utf8(b).ok()));
            }
            !found
        });
    }
    let unreferenced = silent.into_iter().filter_map(|name| {
        let path = dir.join(name);
        let text = String::from_utf8(view.files.read(&path).ok()?).ok()?;
        Some(Unreferenced { name: name.clone(), path, text })
    });
    unreferenced.collect()
}

/// Whether a text from elsewhere speaks of this script rather than of one of its own: `../a/verify.sh`, `$dir/verify.sh`.
fn reaches(text: &str, dir: &Path, name: &str) -> bool {
    let folder = dir.file_name().and_then(|n| n.to_str()).unwrap_or_default();
    text.contains("*.sh")
        || text.match_indices(name).any(|(at, _)| {
            let before = text[..at].strip_suffix('/').unwrap_or_default();
            let part = before.rsplit(|c: char| c == '/' || c.is_whitespace()).next().unwrap_or_default();
            part.trim_matches(['"', '\'']) == folder || part.contains(['*', '$', '}', ')'])
        })
}
