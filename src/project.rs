//! Finds and reads files: from the paths on a command line to decoded tasks and evals, and the files they refer to.
//!
//! `decisions.md` §2, "Which files" and "Paths": a file that is named explicitly, or referenced by an eval, must be of
//! the expected kind; other files in a directory are ignored if they are not ours.
//!
//! `glob` finds paths, `ours` decides whether a file is one of ours, `read` reads one file, `load` follows the
//! references of an eval, and `select` chooses its tasks.

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
    collections::{BTreeMap, BTreeSet, HashSet},
    ffi::OsString,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock, atomic::AtomicU64},
};

use rustc_hash::{FxHashMap, FxHashSet};

use crate::{
    builtin::extension,
    diagnostic::{Diagnostic, Diagnostics, Reported},
    hir::{self, Agent, Dialect, Eval, McpConfig, Oracle, RequirementKind},
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

/// All files that were read.
#[derive(Debug, Default)]
pub struct Project {
    /// Shared instead of moved, because there may be thousands.
    pub tasks: Vec<Arc<TaskUnit>>,
    pub evals: Vec<EvalUnit>,
    /// Other files of a known kind that were read.
    pub others: HashSet<PathBuf>,
    /// Files of other programs, which are ignored.
    pub foreign: Vec<PathBuf>,
    /// Named paths that could not be read at all, which is a usage error.
    pub unreadable: Vec<PathBuf>,
}

impl Project {
    /// The number of files of a known kind.
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
    /// The file itself, for rules that inspect its scalars.
    pub tree: yaml::Tree,
    uses: OnceLock<Uses>,
}

/// What the steps of a task use, as written.
#[derive(Debug, Default)]
pub struct Uses {
    /// The packages of extensions that it imports, or that long forms of operations name.
    pub packages: Vec<(String, Span)>,
    pub tools: Vec<Used>,
    pub operations: Vec<Used>,
}

/// A tool of a server, or an operation of an extension.
#[derive(PartialEq, Eq, Debug)]
pub struct Used {
    /// The name of the server, or the name or package of the extension.
    pub owner: String,
    pub name: String,
}

impl TaskUnit {
    /// What its steps use; determined once.
    pub fn uses(&self) -> &Uses {
        self.uses.get_or_init(|| self.task.as_ref().map(Uses::of).unwrap_or_default())
    }
}

impl Uses {
    fn of(task: &hir::Task<template::Path>) -> Self {
        let mut aliases: BTreeMap<&str, (&str, bool)> = BTreeMap::new();
        for requirement in &task.requires {
            let (name, is_server) = match &requirement.kind {
                RequirementKind::McpServer(name) => (name, true),
                RequirementKind::Extension(name) => (name, false),
                RequirementKind::Command(_) | RequirementKind::Judge(_) => continue,
            };
            let alias = requirement.alias.as_ref().unwrap_or(name);
            aliases.insert(&alias.value, (&name.value, is_server));
        }
        for import in &task.imports {
            let short = || {
                let name = import.package.value.rsplit('/').next().unwrap_or_default();
                name.split('@').next().unwrap_or_default()
            };
            let alias = import.alias.as_ref().map_or_else(short, |a| a.value.as_str());
            aliases.insert(alias, (&import.package.value, false));
        }
        let packages = task.imports.iter().map(|import| (import.package.value.clone(), import.package.span)).collect();
        let mut uses = Self { packages, ..Self::default() };
        task.walk(&mut |_, step| {
            if let Some((alias, name)) = step.op.value.split_once('.')
                && let Some((owner, is_server)) = aliases.get(alias)
            {
                let used = Used { owner: (*owner).to_owned(), name: name.to_owned() };
                let known = if *is_server { &mut uses.tools } else { &mut uses.operations };
                if !known.contains(&used) {
                    known.push(used);
                }
            }
            if step.op.value != extension::BUILTIN.name {
                return;
            }
            let package = step.arg("package").and_then(|arg| Some((arg.as_literal()?, arg.span)));
            if let Some((package, span)) = package {
                uses.packages.push((package.to_owned(), span));
                if let Some(action) = step.arg("action").and_then(|arg| arg.as_literal()) {
                    uses.operations.push(Used { owner: package.to_owned(), name: action.to_owned() });
                }
            }
        });
        uses
    }
}

/// An eval file, with the files it refers to.
#[derive(Debug)]
pub struct EvalUnit {
    pub path: PathBuf,
    pub file: FileId,
    pub eval: Option<Eval>,
    pub agent: Option<Agent>,
    pub oracle: Option<Oracle<template::Path>>,
    /// The agent file of the judge.
    pub judge: Option<Agent>,
    /// The recording that `builtin.replay` plays.
    pub recording: Option<Recorded>,
    pub mcp: Option<McpConfig>,
    /// Whether `MCP_*` variables may still describe a server if no MCP config is named.
    pub may_be_served: bool,
    pub lock: Arc<Lock>,
    /// The tasks that it selects, in order of collection.
    pub selected: Vec<Selected>,
    /// Files that match its task sets but could not be read as tasks.
    pub unread: Vec<PathBuf>,
    pub reported: Option<Reported>,
    /// An id of this reading of the eval. It is the same in another compilation with the same [`Memory`] if nothing that the
    /// eval was read from has changed, except for its tasks.
    pub reading: u64,
}

impl EvalUnit {
    /// The agent files: of the agent, and of the judge if that is a different one.
    pub fn agent_files(&self) -> impl Iterator<Item = &Agent> {
        let judge = self.judge.iter().filter(|judge| self.agent.as_ref().is_none_or(|agent| agent.file != judge.file));
        self.agent.iter().chain(judge)
    }

    /// How its agent accepts skills: the directory where they are mounted, and the tool that reads one.
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

/// A reference to an extension, as written in an eval or in one of its tasks.
#[derive(Clone, Copy, Debug)]
pub struct Reference<'a> {
    pub package: &'a str,
    pub span: Span,
    /// The directory that a path is relative to.
    pub dir: &'a Path,
    /// The alias that tasks use, if the eval defines one.
    pub alias: Option<&'a str>,
}

/// The extensions that an eval declares, that its tasks import, and that the long forms of operations name.
pub fn references<'a>(eval: &'a Eval, tasks: impl Iterator<Item = &'a TaskUnit>) -> Vec<Reference<'a>> {
    let declared = eval.extensions.iter().filter_map(|extension| {
        let package = extension.package.as_ref()?;
        let alias = Some(extension.alias.value.as_str());
        Some(Reference { package: &package.value, span: package.span, dir: &eval.dir, alias })
    });
    let mut found: Vec<_> = declared.collect();
    for unit in tasks {
        let Some(task) = &unit.task else { continue };
        let packages = unit.uses().packages.iter();
        found.extend(packages.map(|(package, span)| Reference { package, span: *span, dir: &task.dir, alias: None }));
    }
    found
}

/// A recording. Its calls are read when they are played.
#[derive(Clone, Debug)]
pub struct Recorded {
    pub path: PathBuf,
    /// The tasks that it contains, and what their first run lacks.
    pub tasks: BTreeMap<String, Option<Lack>>,
}

/// Why the recorded turn of an agent is not complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lack {
    /// The agent failed.
    Failed,
    /// The recording ends before the agent's turn, because the run died.
    End,
    /// The recording reached its maximum size before the end of the agent's turn.
    Full,
    /// A message was too long for the recording.
    TooLong,
}

/// A task of an eval, with the task sets that select it.
#[derive(Clone, Debug)]
pub struct Selected {
    /// Its index in [`Project::tasks`].
    pub task: usize,
    /// Indexes into the eval's `task_sets`, in order.
    pub sets: Vec<usize>,
}

/// The context for loading.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    pub sources: &'a Sources,
    pub files: &'a dyn Files,
    /// The same files, for what is cached per file: dependencies are recorded there separately.
    pub apart: &'a dyn Files,
    pub vocabularies: &'a Vocabularies,
    /// Patterns of paths that are left out when a directory is searched.
    pub exclude: &'a [String],
    pub overrides: &'a Overrides,
    pub memory: Option<&'a Memory>,
    /// Restricts which files from directories and which tasks of evals are read, if everything else is already known.
    pub only: Option<&'a Only>,
}

/// A part of a project.
#[derive(Debug, Default)]
pub struct Only {
    /// The files found in the named directories.
    pub searched: Vec<PathBuf>,
    /// All tasks.
    pub tasks: BTreeSet<PathBuf>,
}

/// How a task was read.
#[derive(Debug, Default)]
pub struct Read {
    /// Whether its file was found in a named directory. An eval may refer to it as well.
    pub is_searched: bool,
    pub from: Origin,
    /// The findings.
    pub found: Vec<Diagnostic>,
}

/// The results of reading, kept for the next compilation.
#[derive(Debug, Default)]
pub struct Memory {
    /// Files from directories and command lines, with whether they must be ours.
    parsed: Memo<(OsString, bool), load::Parsed>,
    /// Tasks that evals refer to.
    tasks: Memo<OsString, select::Named>,
    /// The text of an eval, and the id of its reading.
    evals: Memo<PathBuf, (FileId, u64)>,
    readings: AtomicU64,
    /// The files found in a directory, by exclusion patterns, and those matched by a pattern.
    searched: Memo<(PathBuf, Vec<String>), Arc<[glob::Found]>>,
    matched: Memo<(PathBuf, String), (hir::Name, glob::Matched)>,
}

impl Memory {
    /// How each task was read, and the paths that were requested to read files that are not tasks. Consumes the recorded results, so
    /// each is returned only once.
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
            add(path.into(), true, found, from);
        }
        for (path, named, from) in self.tasks.take() {
            add(path.into(), false, named.task(), from);
        }
        (tasks, others)
    }

    /// Forgets everything that was read from files that have changed.
    pub fn forget(&self, changed: &FxHashSet<PathBuf>) {
        rayon::join(|| self.parsed.forget(changed), || self.tasks.forget(changed));
        self.evals.forget(changed);
        self.searched.forget(changed);
        self.matched.forget(changed);
    }
}
