//! Scripts that nothing runs.

use std::{collections::BTreeSet, path::Path};

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
    for dir in dirs.difference(&broken).copied() {
        let names: Vec<String> = view.files.entries(dir).iter().map(|(name, _)| name.clone()).collect();
        let mut silent: Vec<&String> =
            names.iter().filter(|n| n.ends_with(".sh") && !view.scripts.contains(&dir.join(n))).collect();
        if silent.is_empty() {
            continue;
        }
        // Other files of the folder may speak of it too: other tasks, a Makefile, a README.
        let beside = names.iter().filter(|n| !n.ends_with(".sh"));
        let mut texts: Vec<String> =
            beside.filter_map(|n| String::from_utf8(view.files.read(&dir.join(n)).ok()?).ok()).collect();
        let sources = view.sources.all();
        let mentions = |text: &str, name: &str| text.contains(name) || text.contains("*.sh");
        silent.retain(|n| !sources.iter().any(|s| mentions(s.text(), n)));
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
        for name in silent {
            let path = dir.join(name);
            let Some(text) = view.files.read(&path).ok().and_then(|b| String::from_utf8(b).ok()) else { continue };
            let end = text.find('\n').unwrap_or(text.len());
            let file = view.sources.add(&path, text);
            out.push(
                Diagnostic::new(&UNREFERENCED_SCRIPT, Span::new(file, 0..end), format!("nothing runs `{name}`"))
                    .here("no task, script or other file of the folder names it")
                    .help("name it in a task, or remove it"),
            );
        }
    }
}
