//! Loads a project from paths: the named files, and the files that the evals among them refer to.

use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
};

use rustc_hash::FxHashSet;
use serde::Deserialize;

use super::{
    AgentChoice, Context, EvalUnit, INVALID_LOCK, Lack, Project, Recorded, TaskUnit, UNREADABLE_FILE, WRONG_KIND, glob,
    ours, overrides,
    read::{self, Judged, dir_of, task_unit},
    select::{Tasks, matched, select},
};
use crate::{
    decode::{MISSING_FIELD, Partial},
    diagnostic::{Diagnostic, Diagnostics, Reported},
    dialect::{self, FileKind},
    hir::{self, Agent, McpConfig, Name, Oracle, Substitute},
    lock::{self, Lock, LockedExtension, LockedServer},
    memo::Asked,
    outside, package, parallel, primitive,
    source::{FileId, Files, ReadError, Span, Stat, normalize, resolve},
    template, yaml,
};

/// Reads the named files and directories, and everything they refer to.
pub fn load(paths: &[PathBuf], cx: Context<'_>, out: &mut Diagnostics) -> Project {
    let asked = cx.memory.map(|_| Asked::of(cx.files));
    let files = asked.as_ref().map_or(cx.files, |asked| asked as &dyn Files);
    let mut loader = Loader {
        cx: Context { files, ..cx },
        plain: cx.files,
        asked: asked.as_ref(),
        project: Project::default(),
        tasks: Tasks::default(),
        locks: HashMap::new(),
        bundled: HashMap::new(),
    };
    let mut wanted = Vec::new();
    for path in paths {
        match cx.files.stat(path) {
            Some(Stat::Dir) if cx.only.is_some() => {
                wanted.extend(cx.only.iter().flat_map(|only| &only.searched).map(|path| (path.clone(), false)));
            }
            Some(Stat::Dir) => {
                for found in searched(path, cx).iter() {
                    match found {
                        Ok(path) => wanted.push((path.clone(), false)),
                        Err((folder, _)) => loader.project.foreign.push(folder.clone()),
                    }
                }
            }
            _ => wanted.push((normalize(path), true)),
        }
    }
    let mut seen = FxHashSet::default();
    wanted.retain(|(path, _)| seen.insert(path.as_os_str().to_owned()));
    // Files are read and parsed in parallel; references to other files are followed sequentially.
    let parsed: Vec<_> = parallel::map(&wanted, 2, |(path, named)| parse(path, *named, cx));
    loader.tasks.units.reserve_exact(parsed.iter().filter(|p| matches!(p, Parsed::Task(..))).count());
    let mut evals = Vec::new();
    for ((path, named), parsed) in wanted.iter().zip(parsed) {
        if !named && matches!(parsed, Parsed::Eval(..) | Parsed::Other(..)) {
            loader.tasks.others.insert(path.as_os_str().to_owned());
        }
        match parsed {
            Parsed::Unreadable => loader.project.unreadable.push(path.clone()),
            Parsed::Foreign => loader.project.foreign.push(path.clone()),
            Parsed::Broken(found) => {
                loader.project.others.insert(path.clone());
                out.extend(found);
            }
            Parsed::Task(unit, found) => {
                out.extend(found);
                loader.tasks.add(unit);
            }
            Parsed::Eval(tree, file, found) => {
                out.extend(found);
                evals.push((path.clone(), tree, file));
            }
            Parsed::Other(tree, file, kind, found) => {
                out.extend(found);
                loader.project.others.insert(path.clone());
                loader.lone(path, Arc::unwrap_or_clone(tree), file, kind, out);
            }
        }
    }
    let read: Vec<_> = parallel::map(&evals, 2, |(path, tree, file)| read_eval(path, tree, *file, cx));
    for ((path, _, file), read) in evals.iter().zip(read) {
        let unit = loader.eval(path, *file, read, out);
        loader.project.evals.push(unit);
    }
    loader.project.tasks = loader.tasks.units;
    loader.project.foreign.extend(loader.tasks.foreign);
    loader.project
}

/// The files in a directory that may be ours.
fn searched(dir: &Path, cx: Context<'_>) -> Arc<[glob::Found]> {
    let search = |files: &dyn Files| glob::yaml_files(dir, cx.exclude, files).into();
    match cx.memory {
        None => search(cx.files),
        Some(memory) => {
            let key = (dir.to_owned(), cx.exclude.to_vec());
            memory.searched.get_or_make(key, cx.sources, cx.files, |_| true, search)
        }
    }
}

/// The tools of a server according to a lock file.
pub fn locked_tools(name: &str, server: &LockedServer) -> primitive::Tools {
    let schemas = server.tools.iter().map(|(name, tool)| (name.clone(), tool.input_schema.clone()));
    let says = "according to its schema in `gevals.lock`".to_owned();
    primitive::Tools { server: name.to_owned(), says, schemas: schemas.collect() }
}

/// The result of reading a file.
#[derive(Clone, Debug)]
pub enum Parsed {
    Unreadable,
    Foreign,
    Broken(Diagnostics),
    Task(Arc<TaskUnit>, Diagnostics),
    Eval(Arc<yaml::Tree>, FileId, Diagnostics),
    Other(Arc<yaml::Tree>, FileId, FileKind, Diagnostics),
}

/// Reads and parses one file. A named file must be ours; a file found in a directory may belong to another program.
fn parse(path: &Path, named: bool, cx: Context<'_>) -> Parsed {
    match cx.memory {
        None => parse_anew(path, named, cx),
        Some(memory) => {
            let key = (path.as_os_str().to_owned(), named);
            let make = |files: &dyn Files| parse_anew(path, named, Context { files, ..cx });
            memory.parsed.get_or_make(key, cx.sources, cx.apart, |_| true, make)
        }
    }
}

fn parse_anew(path: &Path, named: bool, cx: Context<'_>) -> Parsed {
    let mut out = Diagnostics::default();
    let bytes = match cx.files.read(path) {
        Ok(bytes) => bytes,
        Err(why) if why.is_outside() => {
            let place = Span::new(cx.sources.add(path, ""), 0..0);
            out.error(outside::diagnostic(place, "file", &path.display().to_string(), &why));
            return Parsed::Broken(out);
        }
        Err(_) => return Parsed::Unreadable,
    };
    let (file, text) = match read::text(bytes, path, cx, &mut out) {
        Ok(read) => read,
        Err(_) if named => return Parsed::Broken(out),
        Err(_) => return Parsed::Foreign,
    };
    match read::judge(file, &text, named, &mut out) {
        Err(_) => Parsed::Broken(out),
        Ok(Judged::Ours(tree, FileKind::Task(dialect))) => {
            let unit = task_unit(path, file, tree, dialect, cx, &mut out);
            Parsed::Task(Arc::new(unit), out)
        }
        Ok(Judged::Ours(tree, FileKind::Eval)) => Parsed::Eval(Arc::new(tree), file, out),
        Ok(Judged::Ours(tree, kind)) => Parsed::Other(Arc::new(tree), file, kind, out),
        Ok(Judged::Foreign(Some(tree))) if named && ours::is_mcp_config(tree.root()) => {
            let dir = dir_of(path);
            dialect::mcp_config::decode(tree.root(), file, &dir, &mut out);
            Parsed::Broken(out)
        }
        Ok(Judged::Foreign(Some(tree))) if named && !out.has_hard() => {
            let message = match tree.root().is_implicit_null() {
                true => "this file is empty",
                false => "gevals does not recognize the kind of this file",
            };
            out.error(Diagnostic::new(&dialect::UNKNOWN_KIND, tree.root().span().head(), message).help(
                "a file starts with `kind: Task`, `kind: Eval`, `kind: Agent`, `kind: Oracle` or `kind: McpEvals`",
            ));
            Parsed::Broken(out)
        }
        Ok(Judged::Foreign(_)) if out.is_empty() => Parsed::Foreign,
        Ok(Judged::Foreign(_)) => Parsed::Broken(out),
    }
}

/// What can be determined about an eval on its own, before its references are followed.
struct ReadEval {
    decoded: Partial<hir::Eval>,
    found: Diagnostics,
    /// The matches of the globs of its task sets, in order; only for those without a source repository.
    matched: Vec<Option<glob::Matched>>,
}

fn read_eval(path: &Path, tree: &yaml::Tree, file: FileId, cx: Context<'_>) -> ReadEval {
    let mut found = Diagnostics::default();
    let decoded = dialect::eval::decode(tree.root(), file, &dir_of(path), &mut found);
    read::yaml11_words(tree, &mut found);
    let matched = decoded.value.as_ref().map(|eval| matched(eval, cx)).unwrap_or_default();
    ReadEval { decoded, found, matched }
}

struct Loader<'a> {
    /// Uses `asked` if there is a memory.
    cx: Context<'a>,
    /// The files themselves, without recording.
    plain: &'a dyn Files,
    asked: Option<&'a Asked<'a>>,
    project: Project,
    tasks: Tasks,
    /// By path of the lock file, or `None` if there is no lock file. Evals that share a lock share everything that was
    /// checked with it.
    locks: HashMap<Option<PathBuf>, Arc<Lock>>,
    /// By lock and aliases, with the lock that they were added to.
    bundled: HashMap<(*const Lock, Vec<String>, Substitute), (Arc<Lock>, Arc<Lock>)>,
}

impl Loader<'_> {
    /// Reads a file that was named or found on its own.
    fn lone(&mut self, path: &Path, tree: yaml::Tree, file: FileId, kind: FileKind, out: &mut Diagnostics) {
        match kind {
            FileKind::Agent => {
                dialect::agent::decode(tree.root(), file, &dir_of(path), out);
            }
            FileKind::Oracle => {
                dialect::oracle::decode(tree.root(), file, out);
            }
            FileKind::McpEvals => {
                let evals = primitive::file(tree, out);
                let tools = evals.server.as_ref().and_then(|name| {
                    let lock = self.lock(&dir_of(path), out).ok()?;
                    Some(locked_tools(&name.value, lock.servers.get(&name.value)?))
                });
                primitive::check(&[evals], tools.as_ref(), out);
            }
            FileKind::Task(_) | FileKind::Eval => {}
        }
    }

    fn eval(&mut self, path: &Path, file: FileId, read: ReadEval, out: &mut Diagnostics) -> EvalUnit {
        let dir = dir_of(path);
        self.asked.map(Asked::take);
        let ReadEval { decoded: Partial { value, reported }, found, matched } = read;
        out.extend(found);
        let mut unit = EvalUnit {
            path: path.to_owned(),
            file,
            eval: value,
            agent: None,
            oracle: None,
            judge: None,
            recording: None,
            mcp: None,
            may_be_served: !self.cx.overrides.asked,
            lock: Arc::new(Lock::default()),
            selected: Vec::new(),
            unread: Vec::new(),
            reported,
            reading: 0,
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
        // Paths on the command line are relative to the current directory.
        let from = |overridden: bool| if overridden { Path::new("") } else { dir.as_path() };
        if let Some(eval) = &unit.eval {
            match self.lock(&dir, out) {
                Ok(lock) => unit.lock = self.for_eval(lock, eval),
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
            let folder = read::folder(&dir, &source.value);
            if let Some((path, why)) = refused(&folder, 0, self.cx.files) {
                let written = match path == folder {
                    true => source.value.clone(),
                    false => path.display().to_string(),
                };
                let diagnostic = match why.is_outside() {
                    true => outside::diagnostic(source.span, "skill", &written, &why),
                    false => Diagnostic::new(
                        &UNREADABLE_FILE,
                        source.span,
                        format!("the skill `{written}` cannot be read: {why}"),
                    ),
                };
                failed = Some(out.error(diagnostic));
                continue;
            }
            let found = self.cx.files.stat(&folder);
            if found != Some(Stat::Dir) {
                let why = if found.is_some() { "is not a directory" } else { "does not exist" };
                let message = format!("the skill source `{}` {why}", source.value);
                failed = Some(out.error(Diagnostic::new(&UNREADABLE_FILE, source.span, message)));
            }
        }
        if let (Some(memory), Some(asked)) = (self.cx.memory, self.asked) {
            let from = asked.take();
            let known = memory.evals.get(&unit.path, self.cx.sources, |(known, _)| *known == file);
            unit.reading =
                known.map_or_else(|| memory.readings.fetch_add(1, Ordering::Relaxed), |(_, reading)| reading);
            memory.evals.put(unit.path.clone(), (file, unit.reading), from, self.cx.sources);
        }
        if let Some(eval) = &unit.eval {
            let cx = Context { files: self.plain, ..self.cx };
            let chosen = select(eval, matched, &unit.lock, &mut self.tasks, cx, out);
            (unit.selected, unit.unread) = (chosen.selected, chosen.unread);
            failed = chosen.failed.or(failed);
        }
        unit.reported = failed;
        unit
    }

    /// Whether the chosen agent is a script for `builtin.script`.
    fn is_oracle(&self, choice: &AgentChoice) -> bool {
        let AgentChoice::File(path) = choice else { return false };
        let Some(text) = self.cx.files.read(path).ok().and_then(|bytes| String::from_utf8(bytes).ok()) else {
            return false;
        };
        let mut ignored = Diagnostics::default();
        let tree = yaml::parse(self.cx.sources.add(path, text.as_str()), text, &mut ignored);
        tree.is_ok_and(|t| matches!(dialect::identify(t.root(), true, &mut ignored), Ok(Some(FileKind::Oracle))))
    }

    /// The lock file next to the eval, or in a directory above it.
    fn lock(&mut self, dir: &Path, out: &mut Diagnostics) -> Result<Arc<Lock>, Reported> {
        let found =
            dir.ancestors().chain(dir.as_os_str().is_empty().then(|| Path::new(""))).map(|d| d.join(lock::FILE_NAME));
        for path in found {
            if let Some(lock) = self.locks.get(&Some(path.clone())) {
                self.cx.files.note(&path);
                return Ok(Arc::clone(lock));
            }
            let bytes = match self.cx.files.read(&path) {
                Ok(bytes) => bytes,
                Err(why @ (ReadError::LeadsOut(_) | ReadError::Special(_) | ReadError::TooLarge(_))) => {
                    let place = Span::new(self.cx.sources.add(&path, ""), 0..0);
                    return Err(out.error(match why.is_outside() {
                        true => outside::diagnostic(place, "lock", lock::FILE_NAME, &why),
                        false => Diagnostic::new(&INVALID_LOCK, place, format!("the lock file cannot be read: {why}")),
                    }));
                }
                Err(_) => continue,
            };
            let (file, text) = read::text(bytes, &path, self.cx, out)?;
            let lock = Lock::parse(&text).map_err(|message| {
                out.error(
                    Diagnostic::new(
                        &INVALID_LOCK,
                        Span::new(file, 0..0),
                        format!("the lock file `{}` cannot be read: {message}", path.display()),
                    )
                    .help("gevals generates this file; recreate it with `gevals lock EVAL`, or delete it"),
                )
            });
            let dir = path.parent().unwrap_or(Path::new("")).to_owned();
            let lock = Arc::new(Lock { dir, ..lock? });
            self.locks.insert(Some(path), Arc::clone(&lock));
            return Ok(lock);
        }
        Ok(Arc::clone(self.locks.entry(None).or_default()))
    }

    /// The lock with the eval's settings for extensions: bundled extensions are known under its aliases without being locked.
    fn for_eval(&mut self, lock: Arc<Lock>, eval: &hir::Eval) -> Arc<Lock> {
        let substitute = eval.extension_options.substitute;
        let bundled = eval.extensions.iter().filter_map(|extension| {
            let known = lock.extensions.contains_key(&extension.alias.value);
            let package = extension.package.as_ref().filter(|_| !known)?;
            Some((extension.alias.value.clone(), package::bundled(&package.value, substitute)?))
        });
        let bundled: BTreeMap<String, &LockedExtension> = bundled.collect();
        if bundled.is_empty() && substitute == lock.substitute {
            return lock;
        }
        let key = (Arc::as_ptr(&lock), bundled.keys().cloned().collect(), substitute);
        let known = self.bundled.entry(key).or_insert_with(|| {
            let mut with = Lock { substitute, ..Lock::clone(&lock) };
            with.extensions.extend(bundled.into_iter().map(|(alias, extension)| (alias, extension.clone())));
            (Arc::new(with), lock)
        });
        Arc::clone(&known.0)
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
        let (file, tree) = read::document(&path, name, what, self.cx, out)?;
        let kind = dialect::identify(tree.root(), true, out)?;
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
            (found, wanted) => Err(read::wrong_kind(name, wanted, found, out)),
        }
    }

    fn recording(&self, agent: &hir::AgentRef, dir: &Path, out: &mut Diagnostics) -> Result<Recorded, Reported> {
        const HELP: &str = "each run writes one: `.gevals/runs/RUN/recording.jsonl` in its output directory";
        let name = path_of(agent, "a recording, `.gevals/runs/RUN/recording.jsonl`", out)?;
        let path = resolve(dir, &name.value);
        let unreadable = |why: &dyn std::fmt::Display| {
            let message = format!("cannot read the recording `{}`: {why}", path.display());
            Diagnostic::new(&UNREADABLE_FILE, name.span, message).help(HELP)
        };
        if let Some(why) = self.cx.files.refusal(&path).filter(ReadError::is_outside) {
            return Err(out.error(outside::diagnostic(name.span, "recording", &name.value, &why)));
        }
        let text = match self.cx.files.stat(&path) {
            Some(Stat::File { .. }) => self.cx.files.read(&path).map_err(|e| out.error(unreadable(&e)))?,
            Some(Stat::Dir) => return Err(out.error(unreadable(&"it is not a file"))),
            None => {
                let why = self.cx.files.refusal(&path).map(|why| why.to_string());
                return Err(out.error(unreadable(&why.as_deref().unwrap_or("the file does not exist"))));
            }
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
        let (file, tree) = read::document(&path, name, "MCP config", self.cx, out)?;
        let Partial { value, reported } = dialect::mcp_config::decode(tree.root(), file, &dir_of(&path), out);
        self.project.others.insert(path);
        match (value, reported) {
            (Some(config), None) => Ok(config),
            (_, Some(reported)) => Err(reported),
            (None, None) => Err(read::wrong_kind(name, "MCP config", None, out)),
        }
    }
}

/// The first file or directory below a directory that may not be read, or the directory itself.
fn refused(dir: &Path, depth: usize, files: &dyn Files) -> Option<(PathBuf, ReadError)> {
    /// The maximum depth of nested directories.
    const DEPTH: usize = 32;
    if let Some(why) = files.refusal(dir).filter(|_| depth <= DEPTH) {
        return (why != ReadError::Circular).then(|| (dir.to_owned(), why));
    }
    let entries = files.entries(dir);
    let mut entries = entries.iter().filter(|_| depth <= DEPTH);
    entries.find_map(|(name, is_dir)| {
        let path = dir.join(name);
        match is_dir {
            true => refused(&path, depth + 1, files),
            false => files.refusal(&path).map(|why| (path, why)),
        }
    })
}

/// The path that an agent of this type requires.
fn path_of<'a>(agent: &'a hir::AgentRef, what: &str, out: &mut Diagnostics) -> Result<&'a Name, Reported> {
    agent.path.as_ref().ok_or_else(|| {
        let message = format!("an agent of type `{}` has no `path`", agent.kind.value);
        out.error(Diagnostic::new(&MISSING_FIELD, agent.kind.span, message).help(format!("add `path:` with {what}")))
    })
}

/// The tasks for which a recording contains more than their prompts. Fails with what is wrong with the recording.
fn recorded(text: &str) -> Result<BTreeMap<String, Option<Lack>>, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Line {
        #[serde(rename = "type")]
        kind: String,
        version: Option<u32>,
        task: Option<Task>,
        exit_code: Option<i32>,
        cut: Option<u64>,
    }
    #[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord)]
    struct Task {
        name: String,
        run: u32,
    }
    /// A run of a task: as in `agent::replay`, its last attempt.
    #[derive(Default)]
    struct Turn {
        /// Whether there is more than a prompt.
        content: bool,
        lack: Option<Lack>,
    }
    let mut lines = text.lines().map(serde_json::from_str::<Line>);
    match lines.next() {
        Some(Ok(Line { kind, version: Some(version), .. })) if kind == "recording" => {
            if version > hir::RECORDING_VERSION {
                return Err(format!("has version {version}, which this version of gevals does not support"));
            }
        }
        _ => return Err("is not a recording".to_owned()),
    }
    let mut turns: BTreeMap<Task, Turn> = BTreeMap::new();
    let mut full = false;
    // The last line may be truncated if the run died.
    for Line { kind, task, exit_code, cut, .. } in lines.filter_map(Result::ok) {
        let Some(task) = task else {
            full |= kind == "cut";
            continue;
        };
        let turn = turns.entry(task).or_default();
        match kind.as_str() {
            "random" => *turn = Turn { content: true, lack: Some(Lack::End) },
            "prompt" => turn.lack = Some(Lack::End),
            "message" if cut.is_some() => *turn = Turn { content: true, lack: Some(Lack::TooLong) },
            "output" => {
                turn.content = true;
                turn.lack = match exit_code {
                    Some(0) => turn.lack.filter(|lack| *lack == Lack::TooLong),
                    _ => Some(Lack::Failed),
                };
            }
            _ => turn.content = true,
        }
    }
    let mut tasks = BTreeMap::new();
    for (task, turn) in turns {
        if turn.content {
            let lack = turn.lack.map(|lack| if full && lack == Lack::End { Lack::Full } else { lack });
            tasks.entry(task.name).or_insert(lack);
        }
    }
    Ok(tasks)
}
