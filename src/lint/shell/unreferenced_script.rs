//! Scripts that never run.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use rayon::prelude::*;

use crate::{
    diagnostic::{Diagnostic, Diagnostics},
    lint::ProjectView,
    parallel, rule,
    source::{Source, Span},
};

rule! {
    pub static UNREFERENCED_SCRIPT = "unreferenced-script", Warning;
}

/// A `*.sh` file next to a task that no file mentions (author mistake 10). Any mention prevents the finding.
pub fn check(view: &ProjectView<'_>, out: &mut Diagnostics) {
    let dirs: BTreeSet<&Path> = view.project.tasks.iter().filter_map(|t| t.path.parent()).collect();
    let unread = view.project.tasks.iter().filter(|t| t.task.is_none());
    let broken: BTreeSet<&Path> = unread.filter_map(|t| t.path.parent()).collect();
    let dirs: Vec<&Path> = dirs.difference(&broken).copied().collect();
    let silent = parallel::map(&dirs, 2, |dir| (*dir, silent(dir, view)));
    let silent: Vec<(&Path, Vec<String>)> = silent.into_iter().filter(|(_, names)| !names.is_empty()).collect();
    if silent.is_empty() {
        return;
    }
    let said = Said::of(view.sources.all(), silent.iter().map(|(dir, _)| *dir).collect());
    let found = silent.into_par_iter().map(|(dir, names)| unmentioned(dir, names, &said, view));
    for Unreferenced { name, path, text } in found.collect::<Vec<_>>().into_iter().flatten() {
        let end = text.find('\n').unwrap_or(text.len());
        let file = view.sources.add(path, text);
        out.push(
            Diagnostic::new(&UNREFERENCED_SCRIPT, Span::new(file, 0..end), format!("`{name}` is never run"))
                .here("no task, script or other file in the directory refers to it")
                .help("use it in a task, or remove it"),
        );
    }
}

struct Unreferenced {
    name: String,
    path: PathBuf,
    text: String,
}

/// The scripts in a directory that no task runs. Where tasks run none of them, only those that are named like a phase.
fn silent(dir: &Path, view: &ProjectView<'_>) -> Vec<String> {
    const PHASES: [&str; 7] = ["setup", "prepare", "verify", "check", "assert", "cleanup", "teardown"];
    let entries = view.files.entries(dir);
    let scripts = entries.iter().map(|(name, _)| name).filter(|name| name.ends_with(".sh"));
    let (run, silent): (Vec<_>, Vec<_>) =
        scripts.cloned().partition(|name| view.scripts.contains(dir.join(name).as_os_str()));
    let is_phase = |name: &String| PHASES.iter().any(|phase| name.contains(phase));
    silent.into_iter().filter(|name| !run.is_empty() || is_phase(name)).collect()
}

/// Those of the scripts that no text mentions.
fn unmentioned(dir: &Path, mut silent: Vec<String>, said: &Said<'_>, view: &ProjectView<'_>) -> Vec<Unreferenced> {
    // Use texts that have already been read.
    let read = |name: &str| {
        let path = dir.join(name);
        match view.sources.read(&path) {
            Some(source) => Some(source.text().to_owned()),
            None => String::from_utf8(view.files.read(&path).ok()?).ok(),
        }
    };
    let mentions = |text: &str, name: &str| text.contains(name) || text.contains("*.sh");
    silent.retain(|name| !said.inside(dir).any(|text| mentions(text, name)) && !said.reaches(dir, name));
    if silent.is_empty() {
        return Vec::new();
    }
    // Other files in the directory may mention it: other tasks, a Makefile, a README.
    let entries = view.files.entries(dir);
    let mut texts: Vec<String> =
        entries.iter().filter(|(n, _)| !n.ends_with(".sh")).filter_map(|(n, _)| read(n)).collect();
    while let Some(text) = texts.pop() {
        // What a mentioned script mentions counts as mentioned.
        silent.retain(|name| {
            let found = mentions(&text, name);
            if found {
                texts.extend(read(name));
            }
            !found
        });
    }
    let found = silent.into_iter().filter_map(|name| Some((read(&name)?, name)));
    found.map(|(text, name)| Unreferenced { path: dir.join(&name), name, text }).collect()
}

/// The mentions of scripts in all texts. Collected once, because a suite may have thousands of both.
struct Said<'d> {
    sources: Vec<Arc<Source>>,
    /// By directory: the texts in it or below.
    inside: HashMap<&'d Path, Vec<usize>>,
    /// `../a/verify.sh`: the directory and the name of a script.
    beside: HashSet<(String, String)>,
    /// `$dir/verify.sh`, `*/verify.sh`: a script in an unknown directory.
    anywhere: HashSet<String>,
}

impl<'d> Said<'d> {
    fn of(sources: Vec<Arc<Source>>, dirs: HashSet<&'d Path>) -> Self {
        let mut said = Self { sources, inside: HashMap::new(), beside: HashSet::new(), anywhere: HashSet::new() };
        for (index, source) in said.sources.iter().enumerate() {
            for dir in source.path().ancestors().skip(1).filter_map(|dir| dirs.get(dir)) {
                said.inside.entry(dir).or_default().push(index);
            }
            let text = source.text();
            for (at, end) in text.match_indices(".sh") {
                let word = text[..at].rsplit(char::is_whitespace).next().unwrap_or_default();
                let Some((before, stem)) = word.rsplit_once('/') else { continue };
                let folder = before.rsplit('/').next().unwrap_or_default().trim_matches(['"', '\'']);
                let name = format!("{stem}{end}");
                match folder.contains(['*', '$', '}', ')']) {
                    true => said.anywhere.insert(name),
                    false => said.beside.insert((folder.to_owned(), name)),
                };
            }
        }
        said
    }

    fn inside(&self, dir: &Path) -> impl Iterator<Item = &str> {
        self.inside.get(dir).into_iter().flatten().map(|&index| self.sources[index].text())
    }

    /// Whether any text mentions this script by its directory, or with an unknown directory.
    fn reaches(&self, dir: &Path, name: &str) -> bool {
        let folder = dir.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        [name, "*.sh"]
            .iter()
            .any(|name| self.anywhere.contains(*name) || self.beside.contains(&(folder.to_owned(), (*name).to_owned())))
    }
}
