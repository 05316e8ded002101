//! Finding and reading files: from the paths on a command line to decoded tasks and evals, and what they refer to.
//!
//! `decisions.md` §2, "Which files" and "Paths": a file named explicitly, or reached from an eval, must be what it is
//! expected to be; in a folder, files of others are left alone.

mod glob;
mod overrides;

pub use overrides::{AgentChoice, EnvServer, EnvTransport, LimitOverrides, Overrides};

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use indexmap::{IndexMap, IndexSet};
use rayon::prelude::*;
use serde::Deserialize;

use crate::{
    decode::Partial,
    diagnostic::{Diagnostic, Diagnostics, Reported},
    dialect::{self, FileKind, TaskFile},
    hir::{self, Agent, Dialect, Eval, McpConfig, Name, Oracle},
    lock::{self, Lock},
    rule,
    signature::Vocabularies,
    source::{FileId, Files, ReadError, Sources, Span, Spanned, Stat, normalize, resolve},
    template,
    yaml::{self, Node},
};

rule! {
    pub static UNREADABLE_FILE = "unreadable-file", Hard;
    pub static WRONG_KIND = "wrong-kind", Hard;
    pub static EMPTY_GLOB = "empty-glob", Hard;
    pub static EMPTY_SELECTION = "empty-selection", Verdict;
    pub static UNSUPPORTED_SOURCE = "unsupported-source", Verdict;
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
    pub strangers: Vec<PathBuf>,
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
    pub lock: Arc<Lock>,
    /// The tasks it selects, in order of collection.
    pub selected: Vec<Selected>,
    pub reported: Option<Reported>,
}

impl EvalUnit {
    /// The agent files: of the agent, and of the judge where that is another.
    pub fn agent_files(&self) -> impl Iterator<Item = &Agent> {
        let judge = self.judge.iter().filter(|judge| self.agent.as_ref().is_none_or(|agent| agent.file != judge.file));
        self.agent.iter().chain(judge)
    }
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
    pub vocabularies: &'a Vocabularies,
    /// Patterns of paths that are left out when a folder is searched.
    pub exclude: &'a [String],
    pub overrides: &'a Overrides,
}

/// Reads the files and folders named, and everything they refer to.
pub fn load(paths: &[PathBuf], cx: Context<'_>, out: &mut Diagnostics) -> Project {
    let mut loader = Loader { cx, project: Project::default(), tasks: IndexMap::new(), locks: HashMap::new() };
    let mut wanted = Vec::new();
    for path in paths {
        match cx.files.stat(path) {
            Some(Stat::Dir) => {
                wanted.extend(glob::yaml_files(path, cx.exclude, cx.files).into_iter().map(|p| (p, false)));
            }
            _ => wanted.push((normalize(path), true)),
        }
    }
    let mut seen = indexmap::IndexSet::new();
    wanted.retain(|(path, _)| seen.insert(path.clone()));
    // Reading and parsing is done side by side; what refers to other files is followed one by one.
    let parsed: Vec<_> = wanted.par_iter().map(|(path, named)| parse(path, *named, cx)).collect();
    loader.project.tasks.reserve_exact(parsed.iter().filter(|p| matches!(p, Parsed::Task(..))).count());
    let mut evals = Vec::new();
    for ((path, _), parsed) in wanted.iter().zip(parsed) {
        match parsed {
            Parsed::Unreadable => loader.project.unreadable.push(path.clone()),
            Parsed::Stranger => loader.project.strangers.push(path.clone()),
            Parsed::Broken(found) => {
                loader.project.others.insert(path.clone());
                out.extend(found);
            }
            Parsed::Task(unit, found) => {
                out.extend(found);
                loader.add_task(unit);
            }
            Parsed::Eval(tree, file, found) => {
                out.extend(found);
                evals.push((path.clone(), tree, file));
            }
            Parsed::Other(tree, file, kind, found) => {
                out.extend(found);
                loader.project.others.insert(path.clone());
                loader.lone(path, &tree, file, kind, out);
            }
        }
    }
    for (path, tree, file) in evals {
        let unit = loader.eval(&path, &tree, file, out);
        loader.project.evals.push(unit);
    }
    loader.project
}

enum Parsed {
    Unreadable,
    Stranger,
    Broken(Diagnostics),
    Task(Arc<TaskUnit>, Diagnostics),
    Eval(Box<yaml::Tree>, FileId, Diagnostics),
    Other(Box<yaml::Tree>, FileId, FileKind, Diagnostics),
}

/// Reads and parses one file. One that was named must be ours; one found in a folder may be a stranger's.
fn parse(path: &Path, named: bool, cx: Context<'_>) -> Parsed {
    let mut out = Diagnostics::default();
    let Ok(bytes) = cx.files.read(path) else { return Parsed::Unreadable };
    let (file, text) = match text(bytes, path, cx, &mut out) {
        Ok(read) => read,
        Err(_) if named => return Parsed::Broken(out),
        Err(_) => return Parsed::Stranger,
    };
    // Files that cannot be ours are not worth a complaint: templates that are no YAML, another program's kinds.
    if !named && !begins_line(&text, &KEYS) && !begins_line(&text, &["prompt:"]) {
        return Parsed::Stranger;
    }
    let tree = yaml::parse(file, Arc::clone(&text), &mut out);
    let strange = || is_foreign(&text) || !begins_line(&text, &KEYS) || text.contains("{{") && !ours(&text);
    if !named && out.has_hard() && strange() {
        return Parsed::Stranger;
    }
    let Ok(tree) = tree else { return Parsed::Broken(out) };
    match dialect::identify(tree.root(), &mut out) {
        Ok(Some(FileKind::Task(dialect))) => {
            let unit = task_unit(path, file, tree, dialect, cx, &mut out);
            Parsed::Task(Arc::new(unit), out)
        }
        Ok(Some(FileKind::Eval)) => Parsed::Eval(Box::new(tree), file, out),
        Ok(Some(kind)) => Parsed::Other(Box::new(tree), file, kind, out),
        Ok(None) if named && is_mcp_config(tree.root()) => {
            let dir = dir_of(path);
            dialect::mcp_config::decode(tree.root(), file, &dir, &mut out);
            Parsed::Broken(out)
        }
        Ok(None) if named && !out.has_hard() => {
            let message = match tree.root().is_implicit_null() {
                true => "this file is empty",
                false => "this file is not of a kind that gevals knows",
            };
            out.error(
                Diagnostic::new(&dialect::UNKNOWN_KIND, tree.root().span().head(), message)
                    .help("a file begins with `kind: Task`, `kind: Eval`, `kind: Agent` or `kind: Oracle`"),
            );
            Parsed::Broken(out)
        }
        Ok(None) => Parsed::Stranger,
        Err(_) => Parsed::Broken(out),
    }
}

fn is_mcp_config(root: Node<'_>) -> bool {
    root.entries().any(|e| crate::diagnostic::nearest(e.name, ["mcpServers"]).is_some())
}

/// What files of ours begin a line with.
const KEYS: [&str; 7] = ["kind", "Kind", "KIND", "spec", "steps", "config", "commands"];

/// A cheap look before the parser: does this file say, or nearly, that it is one of ours?
fn begins_line(text: &str, keys: &[&str]) -> bool {
    let begins = |line: &str| {
        let line = line.trim_start_matches(['{', '"', '\'', ' ', '\u{feff}']);
        keys.iter().any(|k| line.starts_with(k))
    };
    text.lines().any(begins) || text.trim_start().starts_with('{')
}

/// Whether a text that does not parse says that it is of another program's API.
fn is_foreign(text: &str) -> bool {
    let version = text.lines().find_map(|line| line.strip_prefix("apiVersion:")).unwrap_or_default();
    let version = version.trim().trim_matches(['"', '\'']);
    !version.is_empty() && !["mcpchecker/", "gevals/", "mcp-eval/"].iter().any(|ours| version.starts_with(ours))
}

fn ours(text: &str) -> bool {
    ["kind: Task", "kind: Eval", "kind: Agent", "kind: Oracle"].iter().any(|k| text.contains(k))
}

fn text(bytes: Vec<u8>, path: &Path, cx: Context<'_>, out: &mut Diagnostics) -> Result<(FileId, Arc<str>), Reported> {
    match yaml::decode_utf8(bytes) {
        Ok(text) => {
            let text: Arc<str> = text.into();
            Ok((cx.sources.add(path, Arc::clone(&text)), text))
        }
        Err(fault) => {
            let file = cx.sources.add(path, fault.text.as_str());
            Err(out.error(fault.diagnostic(file)))
        }
    }
}

fn dir_of(path: &Path) -> PathBuf {
    path.parent().map(Path::to_owned).unwrap_or_default()
}

fn task_unit(
    path: &Path,
    file: FileId,
    tree: yaml::Tree,
    dialect: Dialect,
    cx: Context<'_>,
    out: &mut Diagnostics,
) -> TaskUnit {
    let broken =
        out.has_hard().then(|| out.iter().find(|d| d.strength == crate::diagnostic::Strength::Hard).cloned()).flatten();
    let info = TaskFile { file, dir: dir_of(path), vocabulary: cx.vocabularies.of(dialect) };
    let Partial { value, mut reported } = dialect::task(tree.root(), dialect, &info, out);
    if dialect != Dialect::Portable {
        yaml11_words(&tree, out);
    }
    let mut value = value;
    if let Some(task) = &mut value {
        for phase in [&mut task.setup, &mut task.verify, &mut task.cleanup] {
            shrink(&mut phase.steps);
        }
    }
    // A fault of the YAML itself leaves no plan either; it has been reported.
    if reported.is_none() && broken.is_some() {
        reported = Some(Reported::of(out));
    }
    let mut unit = TaskUnit { path: path.to_owned(), file, dialect, task: value, reported, tree };
    if let Some(task) = &mut unit.task
        && let Err(reported) = prompt_file(task, cx, out)
    {
        unit.reported = Some(reported);
    }
    unit
}

/// Gives back what the vectors of steps have to spare: there may be thousands of tasks.
fn shrink(steps: &mut Vec<hir::Step<template::Path>>) {
    steps.shrink_to_fit();
    for step in steps {
        step.args.shrink_to_fit();
        step.blocks.iter_mut().for_each(|block| shrink(&mut block.steps));
    }
}

/// Words that YAML 1.1 reads otherwise, but for those of which something has been said.
fn yaml11_words(tree: &yaml::Tree, out: &mut Diagnostics) {
    let said: HashSet<Span> = out.iter().map(|d| d.span).collect();
    let mut words = Diagnostics::default();
    yaml::yaml11_words(tree, &mut words);
    out.extend(words.into_iter().filter(|d| !said.contains(&d.span)));
}

/// Reads the prompt where it is a file: its holes are found, and underlined, in that file.
fn prompt_file(task: &mut hir::Task<template::Path>, cx: Context<'_>, out: &mut Diagnostics) -> Result<(), Reported> {
    let dialect = task.dialect;
    let Some(prompt) = &mut task.prompt else { return Ok(()) };
    let Some(path) = &prompt.file else { return Ok(()) };
    let written = path.value.strip_prefix(&task.dir).unwrap_or(&path.value).to_string_lossy();
    let (file, text) = read(&path.value, &written, path.span, "prompt", cx, out)?;
    let span = Span::new(file, 0..text.len());
    let place = |range| Span::new(file, range);
    prompt.text = match dialect {
        Dialect::Portable => crate::decode::scan_text(&text, span, &place),
        Dialect::Steps => dialect::steps::prompt_text(&text, span, &place),
        Dialect::Legacy => dialect::steps::unexpanded_text(&text, span, &place),
    };
    Ok(())
}

/// Reads a file that another refers to.
///
/// A folder that is named in a file. No path at all is none to the disk.
pub fn folder(dir: &Path, name: &str) -> PathBuf {
    let path = resolve(dir, name);
    if path.as_os_str().is_empty() { PathBuf::from(".") } else { path }
}

/// The path that an agent of this type must have.
fn path_of<'a>(agent: &'a hir::AgentRef, what: &str, out: &mut Diagnostics) -> Result<&'a Name, Reported> {
    agent.path.as_ref().ok_or_else(|| {
        let message = format!("an agent of type `{}` has no `path`", agent.kind.value);
        out.error(
            Diagnostic::new(&crate::decode::MISSING_FIELD, agent.kind.span, message)
                .help(format!("write `path:` with {what}")),
        )
    })
}

/// The tasks that a recording tells something of, besides their prompts; else what is wrong with it.
fn recorded(text: &str) -> Result<BTreeSet<String>, String> {
    #[derive(Deserialize)]
    struct Line {
        #[serde(rename = "type")]
        kind: String,
        version: Option<u32>,
        task: Option<Task>,
    }
    #[derive(Deserialize)]
    struct Task {
        name: String,
    }
    let mut lines = text.lines().map(serde_json::from_str::<Line>);
    match lines.next() {
        Some(Ok(Line { kind, version: Some(version), .. })) if kind == "recording" => {
            if version > hir::RECORDING_VERSION {
                return Err(format!("has version {version}, which this version of gevals does not know"));
            }
        }
        _ => return Err("is none".to_owned()),
    }
    // Of a run that died the last line may be cut.
    let lines = lines.filter_map(Result::ok).filter(|line| line.kind != "prompt");
    Ok(lines.filter_map(|line| Some(line.task?.name)).collect())
}

/// `written` is what stands there for the path.
fn read(
    path: &Path,
    written: &str,
    span: Span,
    what: &str,
    cx: Context<'_>,
    out: &mut Diagnostics,
) -> Result<(FileId, Arc<str>), Reported> {
    match cx.files.read(path) {
        Ok(bytes) => text(bytes, path, cx, out),
        Err(error) => {
            let shown = path.display();
            let mut diagnostic =
                Diagnostic::new(&UNREADABLE_FILE, span, format!("cannot read the {what} file `{shown}`: {error}"));
            if error == ReadError::IsDir && what == "task" {
                diagnostic = diagnostic.help(format!("write `glob: {written}/*.yaml` for the files of a folder"));
            }
            if error == ReadError::Missing {
                let siblings = path.parent().map(|dir| cx.files.list(dir)).unwrap_or_default();
                let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
                diagnostic = diagnostic.help("paths start from the folder of the file that names them");
                if let Some(near) = crate::diagnostic::nearest(&name, siblings.iter().map(String::as_str)) {
                    let near = format!("{}{near}", written.strip_suffix(&name).unwrap_or_default());
                    diagnostic =
                        diagnostic.here(format!("did you mean `{near}`?")).fix(format!("write `{near}`"), span, near);
                }
            }
            Err(out.error(diagnostic))
        }
    }
}

struct Loader<'a> {
    cx: Context<'a>,
    project: Project,
    /// By path: a file is read once, whoever refers to it.
    tasks: IndexMap<PathBuf, usize>,
    /// By folder: evals that share a lock share what was checked under it.
    locks: HashMap<Option<PathBuf>, Arc<Lock>>,
}

impl EvalUnit {
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

impl Loader<'_> {
    fn add_task(&mut self, unit: Arc<TaskUnit>) -> usize {
        let index = self.project.tasks.len();
        self.tasks.insert(unit.path.clone(), index);
        self.project.tasks.push(unit);
        index
    }

    /// An agent or oracle that was named, or found, on its own.
    fn lone(&self, path: &Path, tree: &yaml::Tree, file: FileId, kind: FileKind, out: &mut Diagnostics) {
        match kind {
            FileKind::Agent => {
                dialect::agent::decode(tree.root(), file, &dir_of(path), out);
            }
            FileKind::Oracle => {
                dialect::oracle::decode(tree.root(), file, out);
            }
            FileKind::Task(_) | FileKind::Eval => {}
        }
    }

    fn eval(&mut self, path: &Path, tree: &yaml::Tree, file: FileId, out: &mut Diagnostics) -> EvalUnit {
        let dir = dir_of(path);
        let Partial { value, reported } = dialect::eval::decode(tree.root(), file, &dir, out);
        yaml11_words(tree, out);
        let mut unit = EvalUnit {
            path: path.to_owned(),
            file,
            eval: value,
            agent: None,
            oracle: None,
            judge: None,
            recording: None,
            mcp: None,
            lock: Arc::new(Lock::default()),
            selected: Vec::new(),
            reported,
        };
        let mut failed = reported;
        let overrides = self.cx.overrides;
        if let (Some(eval), Some(choice)) = (&mut unit.eval, &overrides.agent) {
            eval.agent = Some(choice.reference(self.is_oracle(choice), self.cx.sources));
        }
        if let (Some(agent), Some(model)) = (unit.eval.as_mut().and_then(|e| e.agent.as_mut()), &overrides.model) {
            agent.model = Some(overrides::typed("--model", model, self.cx.sources));
        }
        if let (Some(eval), Some(path)) = (&mut unit.eval, &overrides.mcp_config) {
            let path = path.to_string_lossy();
            eval.mcp_config = Some(overrides::typed("--mcp-config-file", &path, self.cx.sources));
        }
        // What a command line names is found from where it was typed.
        let from = |overridden: bool| if overridden { Path::new("") } else { dir.as_path() };
        if let Some(eval) = &unit.eval {
            match self.lock(&dir, out) {
                Ok(lock) => unit.lock = lock,
                Err(r) => failed = Some(r),
            }
            if let Some(agent) = &eval.agent {
                match self.agent(agent, from(overrides.agent.is_some()), out) {
                    Ok((agent, oracle)) => (unit.agent, unit.oracle) = (agent, oracle),
                    Err(r) => failed = Some(r),
                }
                if agent.kind.value == "builtin.replay" {
                    match self.recording(agent, from(overrides.agent.is_some()), out) {
                        Ok(recorded) => unit.recording = Some(recorded),
                        Err(r) => failed = Some(r),
                    }
                }
            }
            if let Some(judge) = eval.judge.as_ref().and_then(|j| j.agent.as_ref()).filter(|a| a.kind.value == "file") {
                match self.agent(judge, &dir, out) {
                    Ok((agent, _)) => unit.judge = agent,
                    Err(r) => failed = Some(r),
                }
            }
            match (&eval.mcp_config, &overrides.server) {
                (Some(name), _) => match self.mcp(name, from(overrides.mcp_config.is_some()), out) {
                    Ok(mcp) => unit.mcp = Some(mcp),
                    Err(r) => failed = Some(r),
                },
                (None, Some(server)) => unit.mcp = Some(server.config(eval.config)),
                (None, None) => {}
            }
        }
        for source in unit.eval.iter().filter_map(|e| e.skills.as_ref()).flat_map(|s| &s.sources) {
            let found = self.cx.files.stat(&folder(&dir, &source.value));
            if found != Some(Stat::Dir) {
                let why = if found.is_some() { "is no folder" } else { "does not exist" };
                let message = format!("the source of skills `{}` {why}", source.value);
                failed = Some(out.error(Diagnostic::new(&UNREADABLE_FILE, source.span, message)));
            }
        }
        if let Some(eval) = unit.eval.clone() {
            match self.select(&eval, out) {
                (selected, None) => unit.selected = selected,
                (selected, Some(r)) => {
                    unit.selected = selected;
                    failed = Some(r);
                }
            }
        }
        unit.reported = failed;
        unit
    }

    /// Whether the agent that was chosen is a script for `builtin.script`.
    fn is_oracle(&self, choice: &AgentChoice) -> bool {
        let AgentChoice::File(path) = choice else { return false };
        let Some(text) = self.cx.files.read(path).ok().and_then(|bytes| String::from_utf8(bytes).ok()) else {
            return false;
        };
        let mut ignored = Diagnostics::default();
        let tree = yaml::parse(self.cx.sources.add(path, text.as_str()), text, &mut ignored);
        tree.is_ok_and(|t| matches!(dialect::identify(t.root(), &mut ignored), Ok(Some(FileKind::Oracle))))
    }

    /// The lock beside the eval, or in a folder above it.
    fn lock(&mut self, dir: &Path, out: &mut Diagnostics) -> Result<Arc<Lock>, Reported> {
        let found =
            dir.ancestors().chain(dir.as_os_str().is_empty().then(|| Path::new(""))).map(|d| d.join(lock::FILE_NAME));
        for path in found {
            if let Some(lock) = self.locks.get(&Some(path.clone())) {
                return Ok(Arc::clone(lock));
            }
            let Ok(bytes) = self.cx.files.read(&path) else { continue };
            let (file, text) = text(bytes, &path, self.cx, out)?;
            let lock = Lock::parse(&text).map_err(|message| {
                out.error(
                    Diagnostic::new(
                        &INVALID_LOCK,
                        Span::new(file, 0..0),
                        format!("the lock cannot be read: {message}"),
                    )
                    .help("gevals writes this file; make it anew with `gevals lock`"),
                )
            });
            let lock = Arc::new(lock?);
            self.locks.insert(Some(path), Arc::clone(&lock));
            return Ok(lock);
        }
        Ok(Arc::clone(self.locks.entry(None).or_default()))
    }

    fn document(
        &self,
        path: &Path,
        name: &Name,
        what: &str,
        out: &mut Diagnostics,
    ) -> Result<(FileId, yaml::Tree), Reported> {
        let (file, text) = read(path, &name.value, name.span, what, self.cx, out)?;
        yaml::parse(file, text, out).map(|tree| (file, tree))
    }

    fn wrong_kind(&self, name: &Name, wanted: &str, found: Option<FileKind>, out: &mut Diagnostics) -> Reported {
        let found = found.map_or_else(|| "not a file of gevals".to_owned(), |k| format!("of kind `{}`", k.name()));
        out.error(
            Diagnostic::new(
                &WRONG_KIND,
                name.span,
                format!("`{}` must be of kind `{wanted}`, and it is {found}", name.value),
            )
            .help(format!("begin that file with `kind: {wanted}`, or name another")),
        )
    }

    fn agent(
        &mut self,
        agent: &hir::AgentRef,
        dir: &Path,
        out: &mut Diagnostics,
    ) -> Result<(Option<Agent>, Option<Oracle<template::Path>>), Reported> {
        let (wanted, what) = match agent.kind.value.as_str() {
            "file" => ("Agent", "agent"),
            "builtin.script" => ("Oracle", "oracle"),
            _ => return Ok((None, None)),
        };
        let name = path_of(agent, &format!("a file of kind `{wanted}`"), out)?;
        let path = resolve(dir, &name.value);
        let (file, tree) = self.document(&path, name, what, out)?;
        let kind = dialect::identify(tree.root(), out)?;
        let dir = dir_of(&path);
        self.project.others.insert(path);
        match (kind, wanted) {
            (Some(FileKind::Agent), "Agent") => {
                let Partial { value, reported } = dialect::agent::decode(tree.root(), file, &dir, out);
                reported.map_or(Ok((value, None)), Err)
            }
            (Some(FileKind::Oracle), "Oracle") => {
                let Partial { value, reported } = dialect::oracle::decode(tree.root(), file, out);
                reported.map_or(Ok((None, value)), Err)
            }
            (found, wanted) => Err(self.wrong_kind(name, wanted, found, out)),
        }
    }

    fn recording(&self, agent: &hir::AgentRef, dir: &Path, out: &mut Diagnostics) -> Result<Recorded, Reported> {
        const HELP: &str = "a run leaves one: `.gevals/runs/RUN/recording.jsonl` in its output folder";
        let name = path_of(agent, "a recording, `.gevals/runs/RUN/recording.jsonl`", out)?;
        let path = resolve(dir, &name.value);
        let unreadable = |why: &dyn std::fmt::Display| {
            let message = format!("cannot read the recording `{}`: {why}", path.display());
            Diagnostic::new(&UNREADABLE_FILE, name.span, message).help(HELP)
        };
        let text = match self.cx.files.stat(&path) {
            Some(Stat::File { .. }) => self.cx.files.read(&path).map_err(|e| out.error(unreadable(&e)))?,
            Some(Stat::Dir) => return Err(out.error(unreadable(&"it is no file"))),
            None => return Err(out.error(unreadable(&"there is no such file"))),
        };
        match recorded(&String::from_utf8_lossy(&text)) {
            Ok(tasks) => Ok(Recorded { path, tasks }),
            Err(why) => {
                let message = format!("the recording `{}` {why}", name.value);
                Err(out.error(Diagnostic::new(&WRONG_KIND, name.span, message).help(HELP)))
            }
        }
    }

    fn mcp(&mut self, name: &Name, dir: &Path, out: &mut Diagnostics) -> Result<McpConfig, Reported> {
        let path = resolve(dir, &name.value);
        let (file, tree) = self.document(&path, name, "MCP config", out)?;
        let Partial { value, reported } = dialect::mcp_config::decode(tree.root(), file, &dir_of(&path), out);
        self.project.others.insert(path);
        match (value, reported) {
            (Some(config), None) => Ok(config),
            (_, Some(reported)) => Err(reported),
            (None, None) => Err(self.wrong_kind(name, "MCP config", None, out)),
        }
    }

    /// The tasks of an eval, in order of collection (§2.4).
    fn select(&mut self, eval: &Eval, out: &mut Diagnostics) -> (Vec<Selected>, Option<Reported>) {
        let mut selected: Vec<Selected> = Vec::new();
        let mut at: IndexMap<usize, usize> = IndexMap::new();
        let mut failed = None;
        for (index, set) in eval.task_sets.iter().enumerate() {
            if let Some(source) = &set.source {
                out.push(
                    Diagnostic::new(&UNSUPPORTED_SOURCE, source.span, "task sets from a source cannot be read yet")
                        .help("check the source out, and name its files by a path"),
                );
                continue;
            }
            let (paths, place) = match (&set.path, &set.glob) {
                (Some(path), None) => (vec![(resolve(&eval.dir, &path.value), true)], path.clone()),
                (None, Some(pattern)) => match glob::find(&eval.dir, pattern, self.cx.files) {
                    Ok(paths) => (paths.into_iter().map(|p| (p, false)).collect(), pattern.clone()),
                    Err(diagnostic) => {
                        failed = Some(out.error(*diagnostic));
                        continue;
                    }
                },
                _ => continue,
            };
            let mut matched = false;
            let new: Vec<_> = paths.iter().filter(|(path, _)| !self.tasks.contains_key(path)).collect();
            let mut read: HashMap<PathBuf, _> = new
                .into_par_iter()
                .map(|(path, named)| {
                    let mut found = Diagnostics::default();
                    let unit = self.task(path, &place, *named, &mut found);
                    (path.clone(), (unit, found))
                })
                .collect();
            for (path, _) in paths {
                let unit = match (self.tasks.get(&path), read.remove(&path)) {
                    (Some(&known), _) => Ok(Some(known)),
                    (None, Some((unit, found))) => {
                        out.extend(found);
                        unit.map(|unit| unit.map(|unit| self.add_task(Arc::new(unit))))
                    }
                    (None, None) => continue,
                };
                let task = match unit {
                    Ok(Some(task)) => task,
                    Ok(None) => continue,
                    Err(reported) => {
                        failed = Some(reported);
                        matched = true;
                        continue;
                    }
                };
                let labels = self.project.tasks[task].task.as_ref().map(|t| &t.meta.labels);
                if !labels.is_some_and(|l| dialect::eval::selects(&set.selector, l)) && !set.selector.is_empty() {
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
                self.nothing_selected(set, &place, out);
            }
        }
        (selected, failed)
    }

    fn nothing_selected(&self, set: &hir::TaskSet, place: &Name, out: &mut Diagnostics) {
        let labels = |key: &str| {
            let found: IndexSet<&str> = self
                .project
                .tasks
                .iter()
                .filter_map(|t| t.task.as_ref()?.meta.labels.get(key))
                .map(|n| n.value.as_str())
                .collect();
            found
        };
        // The label to blame is one that no task has; else it is their combination.
        let unknown = set.selector.iter().find(|(key, value)| !labels(key).contains(value.value.as_str()));
        let Some((key, value)) = unknown.or_else(|| set.selector.iter().next()) else {
            out.error(
                Diagnostic::new(&EMPTY_GLOB, place.span, format!("`{}` matches no task", place.value))
                    .help("files match, but none is of kind `Task`"),
            );
            return;
        };
        if unknown.is_none() {
            out.push(
                Diagnostic::new(&EMPTY_SELECTION, value.span, "no task has all of these labels: nothing is selected")
                    .help("each label is some task's, but no task has them together"),
            );
            return;
        }
        let values = labels(key);
        let message = format!("no task has the label `{key}: {}`: nothing is selected", value.value);
        let mut diagnostic = Diagnostic::new(&EMPTY_SELECTION, value.span, message);
        diagnostic = match crate::diagnostic::nearest(&value.value, values.iter().copied()) {
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

    /// The task in a file. A file that a glob matches may be another's.
    fn task(
        &self,
        path: &Path,
        place: &Spanned<String>,
        named: bool,
        out: &mut Diagnostics,
    ) -> Result<Option<TaskUnit>, Reported> {
        let (file, tree) = self.document(path, place, "task", out)?;
        match dialect::identify(tree.root(), out)? {
            Some(FileKind::Task(dialect)) => Ok(Some(task_unit(path, file, tree, dialect, self.cx, out))),
            found if named => Err(self.wrong_kind(place, "Task", found, out)),
            _ => Ok(None),
        }
    }
}
