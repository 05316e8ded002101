//! Finding and reading files: from the paths on a command line to decoded tasks and evals, and what they refer to.
//!
//! `decisions.md` §2, "Which files" and "Paths": a file named explicitly, or reached from an eval, must be what it is
//! expected to be; in a folder, files of others are left alone.
//!
//! Finding paths is `glob`'s, telling whether a file is one of ours `ours`', reading one file `read`'s, following
//! what an eval refers to `load`'s, and choosing its tasks `select`'s.

mod glob;
mod load;
mod ours;
mod overrides;
mod read;
pub mod repository;
mod select;

pub use load::{load, locked_tools};
pub use ours::{may_be_ours, says_so};
pub use overrides::{AgentChoice, EnvServer, EnvTransport, LimitOverrides, Overrides};
pub use read::folder;

use std::{
    collections::{BTreeSet, HashSet},
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicU64},
};

use rustc_hash::{FxHashMap, FxHashSet};

use crate::{
    builtin::extension,
    diagnostic::{Diagnostic, Diagnostics, Reported},
    hir::{self, Agent, Dialect, Eval, McpConfig, Oracle},
    lock::Lock,
    memo::{Memo, Origin},
    rule,
    signature::Vocabularies,
    source::{FileId, Files, Sources, Span},
    template, yaml,
};

rule! {
    pub static UNREADABLE_FILE = "unreadable-file", Hard;
    pub static WRONG_KIND = "wrong-kind", Hard;
    pub static EMPTY_GLOB = "empty-glob", Hard;
    pub static EMPTY_SELECTION = "empty-selection", Verdict;
    pub static SOURCE_NOT_LOCKED = "source-not-locked", Hard;
    pub static INVALID_LOCK = "invalid-lock", Hard;
}

/// Everything that was read.
#[derive(Debug, Default)]
pub struct Project {
    /// Each where it was made: there may be thousands.
    pub tasks: Vec<Arc<TaskUnit>>,
    pub evals: Vec<EvalUnit>,
    /// Other files of a known kind that were read.
    pub others: HashSet<PathBuf>,
    /// Files of other programs, left alone.
    pub foreign: Vec<PathBuf>,
    /// Named paths that could not be read at all: a usage error.
    pub unreadable: Vec<PathBuf>,
}

impl Project {
    /// Files of a known kind.
    pub fn files(&self) -> usize {
        self.tasks.len() + self.evals.len() + self.others.len()
    }
}

/// A task file.
#[derive(Debug)]
pub struct TaskUnit {
    pub path: PathBuf,
    pub file: FileId,
    pub dialect: Dialect,
    pub task: Option<hir::Task<template::Path>>,
    pub reported: Option<Reported>,
    /// The file itself, for rules that look into its scalars.
    pub tree: yaml::Tree,
}

/// An eval file, with what it refers to.
#[derive(Debug)]
pub struct EvalUnit {
    pub path: PathBuf,
    pub file: FileId,
    pub eval: Option<Eval>,
    pub agent: Option<Agent>,
    pub oracle: Option<Oracle<template::Path>>,
    /// The file of the agent that judges.
    pub judge: Option<Agent>,
    /// What `builtin.replay` plays.
    pub recording: Option<Recorded>,
    pub mcp: Option<McpConfig>,
    /// Whether `MCP_*` variables may still describe a server where no MCP config is named.
    pub may_be_served: bool,
    pub lock: Arc<Lock>,
    /// The tasks it selects, in order of collection.
    pub selected: Vec<Selected>,
    /// Files that it would take tasks from, and that could not be read as one.
    pub unread: Vec<PathBuf>,
    pub reported: Option<Reported>,
    /// The same in another compilation with the same [`Memory`]: nothing that it was read from has changed, but for its tasks.
    pub reading: u64,
}

impl EvalUnit {
    /// The agent files: of the agent, and of the judge where that is another.
    pub fn agent_files(&self) -> impl Iterator<Item = &Agent> {
        let judge = self.judge.iter().filter(|judge| self.agent.as_ref().is_none_or(|agent| agent.file != judge.file));
        self.agent.iter().chain(judge)
    }

    /// How its agent takes skills: where they are mounted, and its tool that reads one.
    pub fn skills(&self) -> Option<(&str, &str)> {
        const CLAUDE_CODE: (&str, &str) = (".claude/skills", "Skill");
        let reference = self.eval.as_ref()?.agent.as_ref()?;
        match (reference.kind.value.as_str(), &self.agent) {
            ("builtin.claude-code", _) => Some(CLAUDE_CODE),
            ("file", Some(agent)) => match (&agent.builtin, &agent.skills) {
                (Some(builtin), _) => {
                    builtin.kind.as_ref().filter(|kind| kind.value == "claude-code").map(|_| CLAUDE_CODE)
                }
                (None, Some(skills)) => {
                    Some((skills.mount_path.as_ref()?.value.as_str(), skills.tool_name.as_ref()?.value.as_str()))
                }
                (None, None) => None,
            },
            _ => None,
        }
    }
}

/// An extension by its reference, as an eval or a task of it writes it.
#[derive(Clone, Copy, Debug)]
pub struct Reference<'a> {
    pub package: &'a str,
    pub span: Span,
    /// The folder that a path is relative to.
    pub dir: &'a Path,
    /// What tasks call it by, where the eval names it.
    pub alias: Option<&'a str>,
}

/// The extensions that an eval declares, that its tasks import, and that long forms of operations name.
pub fn references<'a>(
    eval: &'a Eval,
    tasks: impl Iterator<Item = &'a hir::Task<template::Path>>,
) -> Vec<Reference<'a>> {
    let declared = eval.extensions.iter().filter_map(|extension| {
        let package = extension.package.as_ref()?;
        let alias = Some(extension.alias.value.as_str());
        Some(Reference { package: &package.value, span: package.span, dir: &eval.dir, alias })
    });
    let mut found: Vec<_> = declared.collect();
    for task in tasks {
        let reference = |package: &'a str, span| Reference { package, span, dir: &task.dir, alias: None };
        found.extend(task.imports.iter().map(|import| reference(&import.package.value, import.package.span)));
        task.walk(&mut |_, step| {
            let package = step.arg("package").filter(|_| step.op.value == extension::BUILTIN.name);
            found.extend(package.and_then(|arg| Some(reference(arg.as_literal()?, arg.span))));
        });
    }
    found
}

/// A recording, whose calls are read when they are played.
#[derive(Clone, Debug)]
pub struct Recorded {
    pub path: PathBuf,
    /// The names of the tasks that it has something of.
    pub tasks: BTreeSet<String>,
}

/// A task of an eval, and the task sets that select it.
#[derive(Clone, Debug)]
pub struct Selected {
    /// Its place in [`Project::tasks`].
    pub task: usize,
    /// Places in the eval's `task_sets`, in order.
    pub sets: Vec<usize>,
}

/// What loading needs.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    pub sources: &'a Sources,
    pub files: &'a dyn Files,
    /// The same files, for what is kept of single files: what is asked here is noted with that.
    pub apart: &'a dyn Files,
    pub vocabularies: &'a Vocabularies,
    /// Patterns of paths that are left out when a folder is searched.
    pub exclude: &'a [String],
    pub overrides: &'a Overrides,
    pub memory: Option<&'a Memory>,
    /// Where all else is known: what is read of folders and of the tasks of evals.
    pub only: Option<&'a Only>,
}

/// A part of a project.
#[derive(Debug, Default)]
pub struct Only {
    /// What is found in the folders that are named.
    pub searched: Vec<PathBuf>,
    /// All tasks.
    pub tasks: BTreeSet<PathBuf>,
}

/// Where a task was read from.
#[derive(Debug, Default)]
pub struct Read {
    /// Whether its file was found in a folder that was named; an eval may name it as well.
    pub is_searched: bool,
    pub from: Origin,
    /// What was found.
    pub found: Vec<Diagnostic>,
}

/// What was read, kept for the next compilation.
#[derive(Debug, Default)]
pub struct Memory {
    /// Files of folders and of command lines; of these it is said that they must be ours.
    parsed: Memo<(PathBuf, bool), load::Parsed>,
    /// Tasks that evals name.
    tasks: Memo<PathBuf, select::Named>,
    /// The text of an eval, and which reading of it that is.
    evals: Memo<PathBuf, (FileId, u64)>,
    readings: AtomicU64,
    /// What was found in a folder without what is excluded, and by a pattern that somebody writes.
    searched: Memo<(PathBuf, Vec<String>), Arc<[glob::Found]>>,
    matched: Memo<(PathBuf, String), (hir::Name, glob::Matched)>,
}

impl Memory {
    /// Where each task was read from; and the paths that were asked for to read files that are none. It is told once: all is forgotten
    /// that was read.
    pub fn take(&self) -> (FxHashMap<PathBuf, Read>, Vec<PathBuf>) {
        let (mut tasks, mut others) = (FxHashMap::<PathBuf, Read>::default(), Vec::new());
        let mut add = |path: PathBuf, is_searched: bool, found: Option<&Diagnostics>, from: Origin| {
            let Some(found) = found else { return others.extend(from.asked) };
            let read = tasks.entry(path).or_default();
            read.is_searched |= is_searched;
            read.from.extend(from);
            read.found.extend(found.iter().cloned());
        };
        for ((path, _), parsed, from) in self.parsed.take() {
            let found = if let load::Parsed::Task(_, found) = &parsed { Some(found) } else { None };
            add(path, true, found, from);
        }
        for (path, named, from) in self.tasks.take() {
            add(path, false, named.task(), from);
        }
        (tasks, others)
    }

    /// Forgets what was read from files that have changed.
    pub fn forget(&self, changed: &FxHashSet<PathBuf>) {
        self.parsed.forget(changed);
        self.tasks.forget(changed);
        self.evals.forget(changed);
        self.searched.forget(changed);
        self.matched.forget(changed);
    }
}
