//! How files are related according to the last compilation: which eval selects which task, in which line, and what its
//! lock has.

use std::{
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::scripts;
use crate::{
    lock::Lock,
    project::Project,
    source::{Sources, normalize},
};

/// The evals of the open directories, and the files that their tasks read.
#[derive(Default)]
pub struct Suite {
    evals: Vec<KnownEval>,
    /// Prompts and scripts, each with the task that reads it.
    read: Vec<(PathBuf, KnownTask)>,
}

/// An eval, with what it refers to.
pub struct KnownEval {
    pub path: PathBuf,
    pub name: String,
    pub lock: Arc<Lock>,
    /// The file of its scripted agent.
    pub oracle: Option<PathBuf>,
    pub sets: Vec<KnownSet>,
}

/// A task set of an eval.
pub struct KnownSet {
    /// The bytes of its `path` or `glob`.
    pub range: Range<usize>,
    pub tasks: Vec<KnownTask>,
}

/// A task that a set selects.
pub struct KnownTask {
    pub path: PathBuf,
    pub name: String,
    /// The bytes of the name.
    pub range: Range<usize>,
}

impl Suite {
    /// Collects what a compilation has read.
    pub fn of(project: &Project, sources: &Sources) -> Self {
        let of = |unit: &crate::project::EvalUnit| {
            let eval = unit.eval.as_ref()?;
            let sets = eval.task_sets.iter().enumerate().map(|(nth, set)| {
                let selected = unit.selected.iter().filter(|selected| selected.sets.contains(&nth));
                let tasks = selected.map(|selected| {
                    let unit = &project.tasks[selected.task];
                    let name = unit.task.as_ref().map(|task| &task.name);
                    KnownTask {
                        path: normalize(&unit.path),
                        name: name.map(|name| name.value.clone()).unwrap_or_default(),
                        range: name.filter(|name| name.span.file == unit.file).map_or(0..0, |name| name.span.range()),
                    }
                });
                let named = set.path.as_ref().or(set.glob.as_ref());
                KnownSet { range: named.map_or(0..0, |name| name.span.range()), tasks: tasks.collect() }
            });
            Some(KnownEval {
                path: normalize(&unit.path),
                name: eval.name.value.clone(),
                lock: Arc::clone(&unit.lock),
                oracle: unit.oracle.as_ref().map(|oracle| normalize(sources.get(oracle.file).path())),
                sets: sets.collect(),
            })
        };
        let read =
            project.tasks.iter().filter_map(|unit| Some((unit, unit.task.as_ref()?))).flat_map(|(unit, task)| {
                let prompt = task.prompt.as_ref().filter(|prompt| prompt.file.is_some());
                let mut files: Vec<PathBuf> =
                    prompt.into_iter().map(|prompt| sources.get(prompt.text.span.file).path().to_owned()).collect();
                task.walk(&mut |_, step| files.extend(scripts::file(task, step)));
                files.into_iter().map(|file| {
                    let name = task.name.value.clone();
                    (normalize(&file), KnownTask { path: normalize(&unit.path), name, range: 0..0 })
                })
            });
        Self { evals: project.evals.iter().filter_map(of).collect(), read: read.collect() }
    }

    /// Another task that reads a file: as its prompt, as its script, or as the script of its agent for tasks of this
    /// name.
    pub fn reader(&self, file: &Path, task: &Path, name: &str) -> Option<(&str, &Path)> {
        let read = self.read.iter().filter(|(known, _)| known == file).map(|(_, reader)| reader);
        let scripted = self.scripted(file).flat_map(|eval| &eval.sets).flat_map(|set| &set.tasks);
        let readers = read.chain(scripted.filter(|other| other.name == name));
        readers.filter(|other| other.path != task).map(|other| (other.name.as_str(), other.path.as_path())).next()
    }

    /// The eval in a file.
    pub fn eval(&self, path: &Path) -> Option<&KnownEval> {
        self.evals.iter().find(|eval| eval.path == path)
    }

    /// The evals that select a task, each with the task set.
    pub fn selecting(&self, task: &Path) -> impl Iterator<Item = (&KnownEval, &KnownSet)> {
        let set = move |eval: &KnownEval| eval.sets.iter().position(|set| set.tasks.iter().any(|one| one.path == task));
        self.evals.iter().filter_map(move |eval| Some((eval, &eval.sets[set(eval)?])))
    }

    /// The evals whose scripted agent is in a file.
    pub fn scripted(&self, oracle: &Path) -> impl Iterator<Item = &KnownEval> {
        self.evals.iter().filter(move |eval| eval.oracle.as_deref() == Some(oracle))
    }

    /// The lock that applies to a file: that of the eval, or else of the first eval that uses the file. Nothing refers
    /// to a file that is still being written: the lock of the nearest eval above applies.
    pub fn lock(&self, path: &Path) -> Arc<Lock> {
        let eval = self.eval(path).or_else(|| self.selecting(path).next().map(|(eval, _)| eval));
        let depth = |eval: &&KnownEval| {
            let folder = eval.path.parent().filter(|folder| path.starts_with(folder));
            folder.map(|folder| folder.as_os_str().len())
        };
        let above = || self.evals.iter().filter(|eval| depth(eval).is_some()).max_by_key(depth);
        let eval = eval.or_else(|| self.scripted(path).next()).or_else(above);
        eval.map(|eval| Arc::clone(&eval.lock)).unwrap_or_default()
    }
}
