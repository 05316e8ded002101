//! How files belong together, as the last compilation has it: which eval selects which task, by which line, and what its lock says.

use std::{
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    lock::Lock,
    project::Project,
    source::{Sources, normalize},
};

/// The evals of the opened folders.
#[derive(Default)]
pub struct Suite(Vec<KnownEval>);

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
    /// What a compilation has read.
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
        Self(project.evals.iter().filter_map(of).collect())
    }

    /// The eval in a file.
    pub fn eval(&self, path: &Path) -> Option<&KnownEval> {
        self.0.iter().find(|eval| eval.path == path)
    }

    /// The evals that select a task, each with the set that does.
    pub fn selecting(&self, task: &Path) -> impl Iterator<Item = (&KnownEval, &KnownSet)> {
        let set = move |eval: &KnownEval| eval.sets.iter().position(|set| set.tasks.iter().any(|one| one.path == task));
        self.0.iter().filter_map(move |eval| Some((eval, &eval.sets[set(eval)?])))
    }

    /// The evals whose scripted agent is in a file.
    pub fn scripted(&self, oracle: &Path) -> impl Iterator<Item = &KnownEval> {
        self.0.iter().filter(move |eval| eval.oracle.as_deref() == Some(oracle))
    }

    /// The lock that a file is seen under: an eval's own, else that of the first eval that has to do with it. What is half typed
    /// nothing refers to: the nearest eval above has its lock.
    pub fn lock(&self, path: &Path) -> Arc<Lock> {
        let eval = self.eval(path).or_else(|| self.selecting(path).next().map(|(eval, _)| eval));
        let depth = |eval: &&KnownEval| {
            let folder = eval.path.parent().filter(|folder| path.starts_with(folder));
            folder.map(|folder| folder.as_os_str().len())
        };
        let above = || self.0.iter().filter(|eval| depth(eval).is_some()).max_by_key(depth);
        let eval = eval.or_else(|| self.scripted(path).next()).or_else(above);
        eval.map(|eval| Arc::clone(&eval.lock)).unwrap_or_default()
    }
}
