//! What a set of changed files affects: the tasks and evals that refer to them, and the findings about these.

use std::{
    collections::{BTreeSet, HashSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::{
    diagnostic::Diagnostic,
    hir::{Assertion, AssertionKind},
    lock, policy,
    project::{EvalUnit, Project},
    source::{Files, Sources, resolve},
};

/// Files and directories that have changed.
#[derive(Clone, Copy)]
pub struct Changed<'a> {
    /// In the form that `key` returns.
    pub paths: &'a BTreeSet<PathBuf>,
    /// Returns a path in a form that is the same for all paths of one file.
    pub key: &'a (dyn Fn(&Path) -> PathBuf + Sync),
}

impl Changed<'_> {
    /// Whether this path is one of them, or is inside one.
    pub fn touches(&self, path: &Path) -> bool {
        (self.key)(path).ancestors().any(|path| self.paths.contains(path))
    }

    /// Whether a text that belongs to a file in `dir` mentions one of them.
    pub fn are_in(&self, text: &str, dir: &Path) -> bool {
        let dir = || (self.key)(dir);
        self.paths.iter().any(|file| mentions(text, dir, file))
    }
}

/// What a change affects.
#[derive(Clone, Debug, Default)]
pub struct Affected {
    /// The files whose findings count, by the caller's key.
    files: HashSet<PathBuf>,
    everything: bool,
    /// Whether more is affected than single tasks, and evals because of these tasks.
    pub is_whole: bool,
    /// How many tasks and evals are affected.
    pub units: usize,
    /// For each task and each eval of the project, whether it is affected.
    tasks: Vec<bool>,
    evals: Vec<bool>,
}

impl Affected {
    /// Determines what a change affects. `refers` contains the files that each task refers to; `touched` says for each task whether it, or
    /// one of these files, has changed or mentions a changed file.
    ///
    /// A reference that cannot be followed – the name of a helper in a script, a removed file – is found by the words of the text: one
    /// task too many is better than one too few.
    pub fn of(
        changed: Changed<'_>,
        project: &Project,
        refers: &[Arc<[PathBuf]>],
        touched: &[bool],
        files: &dyn Files,
    ) -> Self {
        let Changed { paths, key } = changed;
        let gone: Vec<&PathBuf> = paths.iter().filter(|path| files.stat(path).is_none()).collect();
        let inside = |path: &Path| {
            let folder = key(path);
            paths.iter().any(|path| path.starts_with(&folder))
        };
        let is_named = |path: &PathBuf, name: &str| path.file_name().is_some_and(|own| own == name);
        let mut found = Self {
            files: paths.iter().cloned().collect(),
            everything: paths.iter().any(|path| is_named(path, policy::FILE_NAME)),
            tasks: touched.to_owned(),
            ..Self::default()
        };
        // Files that evals name, and that are not tasks of the project, count with those that are.
        let mut unread = BTreeSet::new();
        for unit in &project.evals {
            let named = eval_files(unit);
            let dir = unit.path.parent().unwrap_or(Path::new(""));
            let locks = |path: &Path| path.parent().is_some_and(|folder| key(dir).starts_with(folder));
            let locked = paths.iter().any(|path| is_named(path, lock::FILE_NAME) && locks(path));
            let itself = locked || named.iter().any(|p| changed.touches(p) || inside(p)) || lost(unit, &gone, key);
            found.is_whole |= itself;
            if itself {
                unit.selected.iter().for_each(|selected| found.tasks[selected.task] = true);
            }
            for path in unit.unread.iter().filter(|path| itself || changed.touches(path)) {
                match project.tasks.iter().position(|task| task.path == *path) {
                    Some(task) => found.tasks[task] = true,
                    None => drop(unread.insert(key(path))),
                }
            }
            let is_concerned = itself || unit.selected.iter().any(|selected| found.tasks[selected.task]);
            if is_concerned {
                found.units += 1;
                found.files.extend(named.iter().map(|path| key(path)));
            }
            found.evals.push(is_concerned);
        }
        found.units += unread.len();
        found.files.extend(unread);
        for task in (0..project.tasks.len()).filter(|task| found.tasks[*task]) {
            found.units += 1;
            found.files.extend(own_files(project, refers, task).map(|path| key(path)));
        }
        found.is_whole |= found.everything;
        if found.everything {
            found.units = project.files();
        }
        found
    }

    /// The same for a project that was compiled as a whole.
    pub fn after(
        changed: Changed<'_>,
        project: &Project,
        refers: &[Arc<[PathBuf]>],
        sources: &Sources,
        files: &dyn Files,
    ) -> Self {
        let all = sources.all();
        let texts: FxHashMap<_, &str> = all.iter().map(|s| (s.path().as_os_str(), s.text())).collect();
        let touched = |task: usize| {
            let dir = project.tasks[task].path.parent().unwrap_or(Path::new(""));
            own_files(project, refers, task).any(|path| {
                changed.touches(path) || texts.get(path.as_os_str()).is_some_and(|text| changed.are_in(text, dir))
            })
        };
        let touched: Vec<bool> = (0..project.tasks.len()).map(touched).collect();
        Self::of(changed, project, refers, &touched, files)
    }

    /// The tasks that must be compiled to find everything in what is affected: the affected tasks, and those that share a file with them
    /// or with an affected eval, or run in parallel with them. All tasks of an eval are needed if what they do decides what is found in the
    /// eval's files: if tools are forbidden, if an oracle names the tasks, or if a comment allows a finding.
    pub fn wanted(
        &self,
        changed: Changed<'_>,
        project: &Project,
        refers: &[Arc<[PathBuf]>],
        sources: &Sources,
    ) -> Vec<bool> {
        // For a script beside a task that no task runs, a rule checks whether any text mentions it.
        let folders: FxHashSet<&Path> = project.tasks.iter().filter_map(|unit| unit.path.parent()).collect();
        let folders: FxHashSet<PathBuf> = folders.into_iter().map(|folder| (changed.key)(folder)).collect();
        let is_run = |script: &Path| {
            let mut named = refers.iter().flat_map(|own| own.iter()).filter(|p| p.file_name() == script.file_name());
            named.any(|path| (changed.key)(path) == script)
        };
        let is_beside = |path: &Path| path.parent().is_some_and(|folder| folders.contains(folder));
        let mut scripts = changed.paths.iter().filter(|path| path.extension().is_some_and(|e| e == "sh"));
        if self.everything || scripts.any(|path| is_beside(path) && !is_run(path)) {
            return vec![true; project.tasks.len()];
        }
        let shares =
            |task: usize| own_files(project, refers, task).any(|path| self.files.contains(&(changed.key)(path)));
        let wanted = (0..project.tasks.len()).into_par_iter().map(|task| self.tasks[task] || shares(task));
        let mut wanted: Vec<bool> = wanted.collect();
        let is_parallel = |task: usize| project.tasks[task].task.as_ref().is_some_and(|task| task.meta.parallel);
        for (unit, _) in project.evals.iter().zip(&self.evals).filter(|(_, is_concerned)| **is_concerned) {
            let allows = |path: &Path| {
                let ids = sources.known(&[path.to_owned()]);
                ids.into_iter().any(|id| sources.get(id).text().contains("gevals:"))
            };
            let forbids = |item: &Assertion| matches!(item.kind, AssertionKind::NoneUsed(..));
            let sets = unit.eval.iter().flat_map(|eval| &eval.task_sets).filter_map(|set| set.assertions.as_ref());
            let all = unit.oracle.is_some()
                || sets.flat_map(|set| &set.items).any(forbids)
                || eval_files(unit).iter().any(|path| allows(path));
            let beside = unit.selected.iter().any(|selected| wanted[selected.task] && is_parallel(selected.task));
            for selected in &unit.selected {
                wanted[selected.task] |= all || beside && is_parallel(selected.task);
            }
        }
        wanted
    }

    /// Whether a finding is about something that is affected.
    pub fn concerns(&self, finding: &Diagnostic, sources: &Sources, key: &dyn Fn(&Path) -> PathBuf) -> bool {
        self.everything || self.files.contains(&key(&sources.path(finding.span)))
    }

    /// The files whose findings count, by the caller's key, if not all do.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(PathBuf::as_path)
    }
}

/// A task's own file, and the files that it refers to.
fn own_files<'p>(project: &'p Project, refers: &'p [Arc<[PathBuf]>], task: usize) -> impl Iterator<Item = &'p PathBuf> {
    std::iter::once(&project.tasks[task].path).chain(refers[task].iter())
}

/// The files that an eval names, and its own; not those of its tasks.
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

/// Whether a removed file was in a place that one of the eval's globs searches: it may have been a task.
fn lost(unit: &EvalUnit, gone: &[&PathBuf], key: &dyn Fn(&Path) -> PathBuf) -> bool {
    let Some(eval) = &unit.eval else { return false };
    eval.task_sets.iter().filter_map(|s| s.glob.as_ref()).any(|glob| {
        let fixed = glob.value.find(['*', '?', '[', '{']).map_or(glob.value.as_str(), |at| &glob.value[..at]);
        let dir = key(&resolve(&eval.dir, fixed.rfind('/').map_or("", |at| &fixed[..at])));
        gone.iter().any(|p| p.starts_with(&dir))
    })
}

/// Whether a text mentions a file: by its name if the file is in the text's directory or below it, otherwise with its directory.
fn mentions(text: &str, dir: impl Fn() -> PathBuf, file: &Path) -> bool {
    let Some(name) = file.file_name().map(|n| n.to_string_lossy()) else { return false };
    if !text.contains(name.as_ref()) {
        return false;
    }
    let folder = file.parent().and_then(Path::file_name).map(|n| n.to_string_lossy());
    file.starts_with(dir()) || folder.is_some_and(|folder| text.contains(&format!("{folder}/{name}")))
}
