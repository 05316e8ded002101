//! The meaning of a single text: its tree, its task, and the result of checking that.

use std::{path::Path, sync::Arc};

use crate::{
    Options, Plans, builtin, check, compile_with,
    diagnostic::Diagnostics,
    dialect::FileKind,
    hir::{Def, Hole, Stage, Step, Task, Template},
    lock::Lock,
    project::TaskUnit,
    source::{FileId, Files, Sources, Span},
    template,
    ty::ROOTS,
    yaml::{self, Tree},
};

use super::place;

/// The meaning of a text, as far as it can be read.
pub struct Reading {
    pub sources: Sources,
    pub kind: Option<FileKind>,
    /// The task, if it is one.
    pub unit: Option<Arc<TaskUnit>>,
    /// The checked task, if it has no hard errors.
    pub checked: Option<Task<Def>>,
    pub lock: Arc<Lock>,
    tree: Option<Tree>,
}

impl Reading {
    /// Reads the text of the file at `path`.
    pub fn new(path: &Path, text: &str, lock: Arc<Lock>, files: &dyn Files) -> Self {
        let sources = Sources::default();
        let tree = yaml::parse(sources.add(path, text), text, &mut Diagnostics::default()).ok();
        let kind = tree.as_ref().and_then(place::kind);
        let mut reading = Self { sources, kind, unit: None, checked: None, lock, tree };
        if let Some(FileKind::Task(_)) = kind {
            let options = Options { plans: Plans::None, soft: false, ..Options::default() };
            let tasks = compile_with(&[path.to_owned()], &options, &reading.sources, files).project.tasks;
            reading.unit = tasks.into_iter().next();
            let cx = check::Context {
                sources: &reading.sources,
                files,
                vocabularies: builtin::vocabularies(),
                lock: &reading.lock,
            };
            let task = reading.unit.as_ref().and_then(|unit| unit.task.as_ref());
            let checked = task.and_then(|task| check::task(task, cx, &mut Diagnostics::default()).ok());
            reading.checked = checked.map(|checked| checked.task);
        }
        reading
    }

    /// The tree of the text, if it is valid YAML.
    pub fn tree(&self) -> Option<&Tree> {
        self.tree.as_ref()
    }

    /// The task as written.
    pub fn task(&self) -> Option<&Task<template::Path>> {
        self.unit.as_ref()?.task.as_ref()
    }

    /// The file of the task.
    pub fn file(&self) -> Option<FileId> {
        Some(self.unit.as_ref()?.file)
    }

    /// The holes in the task's own file: their spans and texts. If the task has errors, only those whose root is in
    /// scope everywhere: `{word}` may be text.
    pub fn holes(&self) -> Vec<(Span, &str)> {
        match (&self.checked, self.task()) {
            (Some(checked), _) => holes(checked).into_iter().map(|hole| (hole.span, hole.text.as_str())).collect(),
            (None, Some(task)) => {
                let known = holes(task).into_iter().filter(|hole| ROOTS.contains(&hole.reference.root.text.as_str()));
                known.map(|hole| (hole.span, hole.text.as_str())).collect()
            }
            (None, None) => Vec::new(),
        }
    }

    /// The steps of the checked task.
    pub fn steps(&self) -> Vec<&Step<Def>> {
        self.checked.as_ref().map(steps).unwrap_or_default()
    }
}

/// All steps of a task. Nested steps follow the step that contains them.
pub fn steps<H: Stage>(task: &Task<H>) -> Vec<&Step<H>> {
    let mut found = Vec::new();
    task.walk(&mut |_, step| found.push(step));
    found
}

/// The holes in a task's own file.
pub fn holes<H: Stage>(task: &Task<H>) -> Vec<&Hole<H>> {
    let mut templates: Vec<&Template<H>> = task.env.iter().map(|(_, template)| template).collect();
    templates.extend(task.prompt.iter().map(|prompt| &prompt.text));
    task.walk(&mut |_, step| step.templates(&mut |template| templates.push(template)));
    templates.into_iter().flat_map(Template::holes).filter(|hole| hole.span.file == task.file).collect()
}
