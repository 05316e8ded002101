//! What is known of each task after a compilation: what a later one must know that looks only at what has changed since.

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

/// What is known of a project that was compiled as a whole, or of a part of one.
#[derive(Debug)]
pub struct Facts {
    pub tasks: Vec<TaskFacts>,
    /// The paths that were asked for by what concerns no single task.
    pub asked: Vec<PathBuf>,
    /// What rules found that look at several tasks, before a policy weighed it.
    pub broad: Vec<Diagnostic>,
}

/// What is known of a task.
#[derive(Debug)]
pub struct TaskFacts {
    pub unit: Arc<TaskUnit>,
    /// Whether its file was found in a folder that was named.
    pub is_searched: bool,
    /// All paths that were asked for, to read it and to compile it.
    pub asked: Vec<PathBuf>,
    pub refers: Arc<[PathBuf]>,
    /// The files in which something was found, and a digest of that.
    pub places: FxHashMap<PathBuf, u64>,
    /// A digest of all that rules see of it which look at several tasks.
    pub seen: u64,
    /// A digest of what searches of others may find; and whether it searches for what it deletes.
    pub takeable: u64,
    pub searches: bool,
}

impl Memory {
    /// What is known of each task of the one project that was compiled with this memory; nothing where tasks come from elsewhere. It is
    /// told once: then the memory has forgotten all but the texts.
    pub fn facts(&self, project: &Project) -> Option<Facts> {
        let from_elsewhere = |unit: &EvalUnit| unit.eval.as_ref().is_some_and(|eval| !eval.sources.is_empty());
        if project.evals.iter().any(from_elsewhere) {
            return None;
        }
        let (mut read, others) = self.project.take();
        let mut known: FxHashMap<PathBuf, (Origin, KnownTask)> =
            self.tasks.take().map(|(path, task, from)| (path, (from, task))).collect();
        let mut selecting: Vec<Vec<(&Path, &[usize])>> = vec![Vec::new(); project.tasks.len()];
        for eval in &project.evals {
            eval.selected.iter().for_each(|s| selecting[s.task].push((&eval.path, &s.sets)));
        }
        let mut tasks = Vec::with_capacity(project.tasks.len());
        for (unit, selecting) in project.tasks.iter().zip(selecting) {
            // Of two that share a file, and of one that was read in another way, only one would be known.
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
            // In whatever order.
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

/// Of another finding it is another one.
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

/// What the texts of a task say of scripts: of each, all of its line that stands before.
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

/// What evals see of their tasks: the head, and what steps are called.
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
