//! Selects the tasks of an eval: the files that its task sets reach, and the tasks chosen among them (§2.4).

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    sync::Arc,
};

use indexmap::IndexSet;
use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};

use super::{
    Context, EMPTY_GLOB, EMPTY_SELECTION, Selected, TaskUnit, glob,
    read::{self, Judged},
    repository::{Digests, base, map_servers},
};
use crate::{
    diagnostic::{Diagnostic, Diagnostics, Reported, nearest},
    dialect::{self, FileKind},
    hir::{Eval, Name, TaskSet},
    lock::Lock,
    source::{Files, resolve},
};

/// The tasks that were read, in order and by path. A file is read once, however many task sets refer to it. All paths
/// are normalized: they are compared as spelled, which takes a tenth of the time.
#[derive(Default)]
pub(super) struct Tasks {
    pub units: Vec<Arc<TaskUnit>>,
    by_path: FxHashMap<OsString, usize>,
    /// Files of other programs that a glob matched.
    pub foreign: IndexSet<PathBuf>,
    /// Files that are known not to be tasks, although a glob may match them.
    pub others: FxHashSet<OsString>,
    /// Digests of the repositories that tasks come from.
    digests: Digests,
}

impl Tasks {
    pub fn add(&mut self, unit: Arc<TaskUnit>) -> usize {
        let index = self.units.len();
        self.by_path.insert(unit.path.as_os_str().to_owned(), index);
        self.units.push(unit);
        index
    }
}

/// The selection of an eval.
pub(super) struct Chosen {
    pub selected: Vec<Selected>,
    /// Files that may be tasks but could not be read.
    pub unread: Vec<PathBuf>,
    pub failed: Option<Reported>,
}

/// The matches of the globs of an eval's task sets, in order; only for those without a source repository.
pub(super) fn matched(eval: &Eval, cx: Context<'_>) -> Vec<Option<glob::Matched>> {
    let here = |set: &TaskSet| set.source.is_none() && set.path.is_none();
    let find = |set: &TaskSet| Some(matched_by(&eval.dir, set.glob.as_ref().filter(|_| here(set))?, cx));
    eval.task_sets.iter().map(find).collect()
}

/// Selects the tasks of an eval, in order of collection (§2.4).
pub(super) fn select(
    eval: &Eval,
    mut ahead: Vec<Option<glob::Matched>>,
    lock: &Lock,
    tasks: &mut Tasks,
    cx: Context<'_>,
    out: &mut Diagnostics,
) -> Chosen {
    let mut unread = Vec::new();
    let mut selected: Vec<Selected> = Vec::new();
    let mut at: FxHashMap<usize, usize> = FxHashMap::default();
    let mut failed = None;
    // Tasks of sources that use other names for servers.
    let mut own: FxHashMap<(String, PathBuf), usize> = FxHashMap::default();
    for (index, set) in eval.task_sets.iter().enumerate() {
        let dir = match set.source.as_ref().map(|name| base(eval, set, name, lock, &mut tasks.digests, cx)) {
            None => eval.dir.clone(),
            Some(Ok(dir)) => dir,
            Some(Err(diagnostic)) => {
                failed = Some(out.error(*diagnostic));
                continue;
            }
        };
        // If servers have other names, the task is different, and belongs to this eval only.
        let source = set.source.as_ref().and_then(|name| eval.sources.iter().find(|s| s.name.value == name.value));
        let mapped = source.filter(|source| !source.server_mapping.is_empty());
        let (paths, place) = match (&set.path, &set.glob) {
            (Some(path), None) => {
                let named = resolve(&dir, &path.value);
                let is_wanted = cx.only.is_none_or(|only| only.tasks.contains(&named));
                (if is_wanted { vec![(named, true)] } else { Vec::new() }, path.clone())
            }
            (None, Some(pattern)) => match ahead[index].take().unwrap_or_else(|| matched_by(&dir, pattern, cx)) {
                Ok(paths) => (paths.iter().map(|p| (p.clone(), false)).collect(), pattern.clone()),
                Err(diagnostic) => {
                    failed = Some(out.error(*diagnostic));
                    continue;
                }
            },
            _ => continue,
        };
        let mut matched = false;
        let known = |tasks: &Tasks, own: &FxHashMap<(String, PathBuf), usize>, path: &Path| match mapped {
            Some(source) => own.get(&(source.name.value.clone(), path.to_owned())).copied(),
            None => tasks.by_path.get(path.as_os_str()).copied(),
        };
        let is_other = |tasks: &Tasks, path: &Path, named: bool| !named && tasks.others.contains(path.as_os_str());
        let is_new =
            |(path, named): &&(PathBuf, bool)| known(tasks, &own, path).is_none() && !is_other(tasks, path, *named);
        let new: Vec<_> = paths.iter().filter(is_new).collect();
        let mut read: FxHashMap<&OsStr, _> = new
            .into_par_iter()
            .map(|(path, named)| {
                let memory = cx.memory.filter(|_| mapped.is_none());
                let Some(memory) = memory else { return (path.as_os_str(), task(path, &place, *named, cx)) };
                let fits = |known: &Named| known.named == *named && known.place == place;
                let make = |files: &dyn Files| task(path, &place, *named, Context { files, ..cx });
                let path = path.as_os_str();
                (path, memory.tasks.get_or_make(path.to_owned(), cx.sources, cx.apart, fits, make))
            })
            .collect();
        for (path, named) in &paths {
            if is_other(tasks, path, *named) {
                tasks.foreign.insert(path.clone());
                continue;
            }
            let unit = match (known(tasks, &own, path), read.remove(path.as_os_str())) {
                (Some(known), _) => Ok(Some(known)),
                (None, Some(Named { unit, found, .. })) => {
                    out.extend(found);
                    unit.map(|unit| {
                        let mut unit = unit?;
                        let Some(source) = mapped else { return Some(tasks.add(unit)) };
                        let task = Arc::get_mut(&mut unit).and_then(|unit| unit.task.as_mut());
                        task.into_iter().for_each(|task| map_servers(task, source));
                        tasks.units.push(unit);
                        own.insert((source.name.value.clone(), path.clone()), tasks.units.len() - 1);
                        Some(tasks.units.len() - 1)
                    })
                }
                (None, None) => continue,
            };
            let task = match unit {
                Ok(Some(task)) => task,
                Ok(None) => {
                    tasks.others.insert(path.as_os_str().to_owned());
                    tasks.foreign.insert(path.clone());
                    continue;
                }
                Err(reported) => {
                    failed = Some(reported);
                    matched = true;
                    unread.push(path.clone());
                    continue;
                }
            };
            let labels = tasks.units[task].task.as_ref().map(|t| &t.meta.labels);
            if !labels.is_some_and(|l| dialect::eval::selects(&set.selector, l)) && !set.selector.is_empty() {
                // Its labels are not known.
                if labels.is_none() {
                    unread.push(path.clone());
                }
                continue;
            }
            matched = true;
            match at.get(&task) {
                Some(&i) => selected[i].sets.push(index),
                None => {
                    at.insert(task, selected.len());
                    selected.push(Selected { task, sets: vec![index] });
                }
            }
        }
        if !matched {
            nothing_selected(tasks, set, &place, out);
        }
    }
    Chosen { selected, unread, failed }
}

/// The files that a pattern matches.
fn matched_by(dir: &Path, pattern: &Name, cx: Context<'_>) -> glob::Matched {
    if let Some(only) = cx.only {
        return glob::among(dir, pattern, &only.tasks);
    }
    let Some(memory) = cx.memory else { return glob::find(dir, pattern, cx.files) };
    let key = (dir.to_owned(), pattern.value.clone());
    let find = |files: &dyn Files| (pattern.clone(), glob::find(dir, pattern, files));
    memory.matched.get_or_make(key, cx.sources, cx.files, |(known, _)| known == pattern, find).1
}

fn nothing_selected(tasks: &Tasks, set: &TaskSet, place: &Name, out: &mut Diagnostics) {
    let labels = |key: &str| {
        let found: IndexSet<&str> = tasks
            .units
            .iter()
            .filter_map(|t| t.task.as_ref()?.meta.labels.get(key))
            .map(|n| n.value.as_str())
            .collect();
        found
    };
    // Report a label that no task has; if there is none, report the combination.
    let unknown = set.selector.iter().find(|(key, value)| !labels(key).contains(value.value.as_str()));
    let Some((key, value)) = unknown.or_else(|| set.selector.iter().next()) else {
        out.error(
            Diagnostic::new(&EMPTY_GLOB, place.span, format!("`{}` does not match any task", place.value))
                .help("it matches files, but none is of kind `Task`"),
        );
        return;
    };
    if unknown.is_none() {
        out.push(
            Diagnostic::new(&EMPTY_SELECTION, value.span, "no task has all of these labels, so none is selected")
                .help("each label exists, but no task has all of them"),
        );
        return;
    }
    let values = labels(key);
    let message = format!("no task has the label `{key}: {}`, so none is selected", value.value);
    let mut diagnostic = Diagnostic::new(&EMPTY_SELECTION, value.span, message);
    diagnostic = match nearest(&value.value, values.iter().copied()) {
        Some(near) => {
            diagnostic.here(format!("did you mean `{near}`?")).fix(format!("write `{near}`"), value.span, near)
        }
        None if values.is_empty() => diagnostic.help(format!("no task has a label `{key}`")),
        None => diagnostic.help(format!(
            "values of `{key}`: {}",
            values.iter().map(|v| format!("`{v}`")).collect::<Vec<_>>().join(", ")
        )),
    };
    out.push(diagnostic);
}

/// The result of reading a file that a task set names, or that its glob matches.
#[derive(Clone, Debug)]
pub struct Named {
    /// The place that refers to it, and whether it is a path.
    place: Name,
    named: bool,
    unit: Result<Option<Arc<TaskUnit>>, Reported>,
    found: Diagnostics,
}

impl Named {
    /// The findings from reading it, if it is a task.
    pub fn task(&self) -> Option<&Diagnostics> {
        matches!(self.unit, Ok(Some(_))).then_some(&self.found)
    }
}

/// Reads the task in a file. A file that a glob matches may belong to another program.
fn task(path: &Path, place: &Name, named: bool, cx: Context<'_>) -> Named {
    let mut found = Diagnostics::default();
    let unit = task_in(path, place, named, cx, &mut found).map(|unit| unit.map(Arc::new));
    Named { place: place.clone(), named, unit, found }
}

fn task_in(
    path: &Path,
    place: &Name,
    named: bool,
    cx: Context<'_>,
    out: &mut Diagnostics,
) -> Result<Option<TaskUnit>, Reported> {
    let (file, text) = read::read(path, &place.value, place.span, "task", cx, out)?;
    let mut found = Diagnostics::default();
    // A truncated file belongs to the suite as well.
    let is_bare = read::is_bare(&text);
    match read::judge(file, &text, named || is_bare, &mut found) {
        Ok(Judged::Ours(tree, FileKind::Task(dialect))) => {
            out.extend(found);
            Ok(Some(read::task_unit(path, file, tree, dialect, cx, out)))
        }
        Ok(Judged::Ours(_, kind)) if named => Err(read::wrong_kind(place, "Task", Some(kind), out)),
        Ok(Judged::Foreign(_)) if named => Err(read::wrong_kind(place, "Task", None, out)),
        Ok(Judged::Foreign(_)) if is_bare => {
            // The glob matches several files, so the message names this one.
            let place = Name { value: path.display().to_string(), span: place.span };
            Err(read::wrong_kind(&place, "Task", None, out))
        }
        // It is checked separately, if at all.
        Ok(Judged::Ours(..)) => Ok(None),
        Ok(Judged::Foreign(_)) => {
            out.extend(found);
            Ok(None)
        }
        Err(reported) => {
            out.extend(found);
            Err(reported)
        }
    }
}
