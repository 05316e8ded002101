//! What a set of changed files concerns: the tasks and evals that refer to them, and the findings that are theirs.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    Compiled,
    diagnostic::Diagnostic,
    lock, policy,
    project::{EvalUnit, TaskUnit},
    source::{Files, Source, Sources, resolve},
};

/// What is concerned by a change.
#[derive(Debug, Default)]
pub struct Affected {
    /// The files whose findings count, by the caller's key.
    files: HashSet<PathBuf>,
    everything: bool,
    /// How many tasks and evals are concerned.
    pub units: usize,
}

impl Affected {
    /// Whether a finding is about something that is concerned.
    pub fn concerns(&self, finding: &Diagnostic, sources: &Sources, key: &dyn Fn(&Path) -> PathBuf) -> bool {
        self.everything || self.files.contains(&key(&sources.path(finding.span)))
    }
}

/// What the changed files and folders concern. `key` tells whether two paths are the same file; `changed` are keys.
///
/// A reference that cannot be followed – the name of a helper in a script, a file that is gone – is taken from the
/// words of the text: rather one task too many than one too few.
pub fn affected(
    compiled: &Compiled,
    changed: &BTreeSet<PathBuf>,
    sources: &Sources,
    files: &dyn Files,
    key: &dyn Fn(&Path) -> PathBuf,
) -> Affected {
    let gone: Vec<&PathBuf> = changed.iter().filter(|p| files.stat(p).is_none()).collect();
    let texts: HashMap<PathBuf, Arc<Source>> =
        sources.all().into_iter().map(|source| (source.path().to_owned(), source)).collect();
    let touched = |path: &Path| key(path).ancestors().any(|p| changed.contains(p));
    let inside = |path: &Path| {
        let folder = key(path);
        changed.iter().any(|p| p.starts_with(&folder))
    };
    let speaks = |text: &str, dir: &Path| {
        let dir = key(dir);
        changed.iter().any(|file| mentions(text, &dir, file))
    };
    let mut found = Affected { files: changed.iter().cloned().collect(), ..Affected::default() };
    found.everything = changed.iter().any(|p| p.file_name().is_some_and(|n| n == policy::FILE_NAME));

    let own: Vec<Vec<PathBuf>> = compiled.project.tasks.iter().zip(&compiled.refers).map(own_files).collect();
    let mut tasks: Vec<bool> = compiled
        .project
        .tasks
        .iter()
        .zip(&own)
        .map(|(unit, own)| {
            let dir = unit.path.parent().unwrap_or(Path::new(""));
            own.iter().any(|p| touched(p) || texts.get(p).is_some_and(|source| speaks(source.text(), dir)))
        })
        .collect();
    for unit in &compiled.project.evals {
        let named = eval_files(unit);
        let dir = unit.path.parent().unwrap_or(Path::new(""));
        let locked = changed.iter().any(|p| {
            p.file_name().is_some_and(|n| n == lock::FILE_NAME) && p.parent().is_some_and(|d| key(dir).starts_with(d))
        });
        let itself = locked || named.iter().any(|p| touched(p) || inside(p)) || lost(unit, &gone, key);
        if itself {
            unit.selected.iter().for_each(|s| tasks[s.task] = true);
        }
        if itself || unit.selected.iter().any(|s| tasks[s.task]) {
            found.units += 1;
            found.files.extend(named.iter().map(|p| key(p)));
        }
    }
    for (own, _) in own.iter().zip(&tasks).filter(|(_, touched)| **touched) {
        found.units += 1;
        found.files.extend(own.iter().map(|p| key(p)));
    }
    if found.everything {
        found.units = compiled.project.files();
    }
    found
}

fn own_files((unit, refers): (&Arc<TaskUnit>, &Arc<[PathBuf]>)) -> Vec<PathBuf> {
    std::iter::once(&unit.path).chain(refers.iter()).cloned().collect()
}

/// The files that an eval names, itself among them; not those of its tasks.
fn eval_files(unit: &EvalUnit) -> Vec<PathBuf> {
    let mut files = vec![unit.path.clone()];
    let Some(eval) = &unit.eval else { return files };
    let judge = eval.judge.as_ref().and_then(|j| j.agent.as_ref());
    let agents = eval.agent.iter().chain(judge).filter_map(|a| a.path.as_ref());
    let packages = eval.extensions.iter().filter_map(|e| e.package.as_ref());
    let skills = eval.skills.iter().flat_map(|s| &s.sources);
    let sets = eval.task_sets.iter().filter_map(|s| s.path.as_ref());
    let named = agents.chain(&eval.mcp_config).chain(packages).chain(skills).chain(sets);
    files.extend(named.map(|name| resolve(&eval.dir, &name.value)));
    files
}

/// Whether a file that is gone stood where one of the eval's globs looks: it may have been a task.
fn lost(unit: &EvalUnit, gone: &[&PathBuf], key: &dyn Fn(&Path) -> PathBuf) -> bool {
    let Some(eval) = &unit.eval else { return false };
    eval.task_sets.iter().filter_map(|s| s.glob.as_ref()).any(|glob| {
        let fixed = glob.value.find(['*', '?', '[', '{']).map_or(glob.value.as_str(), |at| &glob.value[..at]);
        let dir = key(&resolve(&eval.dir, fixed.rfind('/').map_or("", |at| &fixed[..at])));
        gone.iter().any(|p| p.starts_with(&dir))
    })
}

/// Whether a text speaks of a file: by its name where the file is in the text's folder or below, else with its folder.
fn mentions(text: &str, dir: &Path, file: &Path) -> bool {
    let Some(name) = file.file_name().map(|n| n.to_string_lossy()) else { return false };
    if !text.contains(name.as_ref()) {
        return false;
    }
    let folder = file.parent().and_then(Path::file_name).map(|n| n.to_string_lossy());
    file.starts_with(dir) || folder.is_some_and(|folder| text.contains(&format!("{folder}/{name}")))
}
