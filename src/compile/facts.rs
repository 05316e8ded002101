//! Facts about each task after a compilation, for a later compilation that only examines what has changed since.

use std::{
    collections::BTreeSet,
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
    sync::{Arc, PoisonError},
};

use rayon::prelude::*;
use rustc_hash::FxHashMap;

use super::{KnownTask, Memory};
use crate::{
    builtin::extension,
    diagnostic::Diagnostic,
    hir::{RequirementKind, Task},
    lint::Touch,
    memo::Origin,
    project::{EvalUnit, Project, Read, TaskUnit},
    source::{FileId, Sources, Span},
    template,
};

/// Facts about a project that was compiled as a whole, or about a part of one.
#[derive(Debug)]
pub struct Facts {
    pub tasks: Vec<TaskFacts>,
    /// The paths that were read or queried for what concerns no single task.
    pub asked: Vec<PathBuf>,
    /// Findings of the rules that inspect several tasks, before the policy is applied.
    pub broad: Vec<Diagnostic>,
}

/// Facts about a task.
#[derive(Debug)]
pub struct TaskFacts {
    pub unit: Arc<TaskUnit>,
    /// Whether its file was found in a directory that was named.
    pub is_searched: bool,
    /// All paths that were read or queried to read and compile it.
    pub asked: Vec<PathBuf>,
    pub refers: Arc<[PathBuf]>,
    /// The files with findings, and a digest of the findings in each.
    pub places: FxHashMap<PathBuf, u64>,
    /// A digest of everything that rules that inspect several tasks see of it.
    pub seen: u64,
    /// A digest of what the searches of other tasks may find; and whether the task searches for what it deletes.
    pub takeable: u64,
    pub searches: bool,
}

impl Memory {
    /// Returns the facts about each task of the one project that was compiled with this memory; `None` if tasks come
    /// from other sources. Can be called once: it empties the memory except for the texts.
    pub fn facts(&self, project: &Project) -> Option<Facts> {
        let from_elsewhere = |unit: &EvalUnit| unit.eval.as_ref().is_some_and(|eval| !eval.sources.is_empty());
        if project.evals.iter().any(from_elsewhere) {
            return None;
        }
        let (mut read, others) = self.project.take();
        let mut known: FxHashMap<PathBuf, (Origin, KnownTask)> =
            self.tasks.take().map(|(path, task, from)| (path.into(), (from, task))).collect();
        let mut selecting: Vec<Vec<(&Path, &[usize])>> = vec![Vec::new(); project.tasks.len()];
        for eval in &project.evals {
            eval.selected.iter().for_each(|s| selecting[s.task].push((&eval.path, &s.sets)));
        }
        let mut tasks = Vec::with_capacity(project.tasks.len());
        for (unit, selecting) in project.tasks.iter().zip(selecting) {
            // If two tasks share a file, or a task was read in another way, facts would be known only for one of them.
            let (Some(mut read), Some((from, task))) = (read.remove(&unit.path), known.remove(&unit.path)) else {
                return None;
            };
            if !Arc::ptr_eq(&task.unit, unit) {
                return None;
            }
            read.from.extend(from);
            tasks.push((read, task, selecting));
        }
        let tasks = tasks.into_par_iter().map(|(read, task, selecting)| self.of(read, task, &selecting));
        let broad = std::mem::take(&mut *self.broad.lock().unwrap_or_else(PoisonError::into_inner));
        let asked = broad.asked.into_iter().chain(others);
        Some(Facts { tasks: tasks.collect(), asked: asked.collect(), broad: broad.found })
    }

    fn of(&self, read: Read, task: KnownTask, selecting: &[(&Path, &[usize])]) -> TaskFacts {
        let KnownTask { unit, result, .. } = task;
        let mut places: FxHashMap<FileId, u64> = FxHashMap::default();
        for found in read.found.iter().chain(result.found.iter()) {
            // The order does not matter.
            let all = places.entry(found.span.file).or_default();
            *all = all.wrapping_add(digest(found, &self.sources));
        }
        let mut hasher = DefaultHasher::new();
        (selecting, &result.scripts, unit.reported.is_some()).hash(&mut hasher);
        said(&read.from.texts, &self.sources).hash(&mut hasher);
        result.touches.iter().for_each(|touch| touch.put_into(&mut hasher));
        let mut takeable = DefaultHasher::new();
        result.touches.iter().for_each(|touch| touch.hash_takeable(&mut takeable));
        unit.task.is_some().hash(&mut hasher);
        if let Some(task) = &unit.task {
            seen(task, &mut hasher);
        }
        TaskFacts {
            is_searched: read.is_searched,
            asked: read.from.asked,
            refers: result.refers,
            places: places.into_iter().map(|(id, found)| (self.sources.get(id).path().to_owned(), found)).collect(),
            seen: hasher.finish(),
            takeable: takeable.finish(),
            searches: result.touches.iter().any(Touch::is_found),
            unit,
        }
    }
}

/// Returns a digest that differs for different findings.
fn digest(found: &Diagnostic, sources: &Sources) -> u64 {
    let Diagnostic { rule, strength, message, span, label, labels, places: _, help, fix } = found;
    let mut hasher = DefaultHasher::new();
    let put = |span: Span, text: &str, hasher: &mut DefaultHasher| {
        (sources.get(span.file).path().as_os_str(), span.start, span.end, text).hash(hasher);
    };
    (rule.name, format!("{strength:?}"), message, help).hash(&mut hasher);
    put(*span, label, &mut hasher);
    labels.iter().for_each(|label| put(label.span, &label.message, &mut hasher));
    if let Some(fix) = fix {
        (&fix.description, format!("{:?}", fix.applicability)).hash(&mut hasher);
        fix.edits.iter().for_each(|edit| put(edit.span, &edit.text, &mut hasher));
    }
    hasher.finish()
}

/// Returns the mentions of scripts in the texts of a task: each line up to and including a mention.
fn said(texts: &[FileId], sources: &Sources) -> BTreeSet<String> {
    let mut said = BTreeSet::new();
    for id in texts {
        let source = sources.get(*id);
        for line in source.text().lines() {
            said.extend(line.match_indices(".sh").map(|(at, end)| line[..at + end.len()].to_owned()));
        }
    }
    said
}

/// Hashes what evals see of their tasks: the metadata, and the names of steps.
fn seen(task: &Task<template::Path>, hasher: &mut impl Hasher) {
    let meta = &task.meta;
    (format!("{:?}", task.dialect), meta.parallel, &task.name.value, meta.difficulty.as_ref().map(|name| &name.value))
        .hash(hasher);
    for (key, value) in &meta.labels {
        (key, &value.value).hash(hasher);
    }
    for requirement in &task.requires {
        let (kind, name) = match &requirement.kind {
            RequirementKind::Command(name) => (0, name.value.as_str()),
            RequirementKind::McpServer(name) => (1, name.value.as_str()),
            RequirementKind::Extension(name) => (2, name.value.as_str()),
            RequirementKind::Judge(_) => (3, ""),
        };
        (kind, name, requirement.alias.as_ref().map(|alias| &alias.value)).hash(hasher);
    }
    for import in &task.imports {
        (&import.package.value, import.alias.as_ref().map(|alias| &alias.value)).hash(hasher);
    }
    task.env.iter().for_each(|(name, _)| name.value.hash(hasher));
    task.walk(&mut |_, step| {
        step.op.value.hash(hasher);
        if step.op.value == extension::BUILTIN.name {
            for name in ["package", "action"] {
                step.arg(name).and_then(|arg| arg.as_literal().map(str::to_owned)).hash(hasher);
            }
        }
    });
}
