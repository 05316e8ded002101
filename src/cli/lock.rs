//! `gevals lock`: asks the servers of an eval for their tools and its extensions for their operations, and records them
//! for `check`.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use indexmap::IndexMap;

use super::{
    Global, compile_paths, complain, note, overlay::Overlay, packages, print, print_findings, project_files,
    several_evals, shown, status, unreadable, warn,
};
use crate::{
    Options,
    builtin::count,
    compile_with,
    diagnostic::Strength,
    hir::Eval,
    host::{
        RealHost,
        disk::{Disk, write_atomic},
    },
    lock::{FILE_NAME, Lock, LockedServer, LockedTool},
    mcp::{ClientOptions, Hub, HubOptions, ServerSpec, SessionKind},
    outside::OUTSIDE_PROJECT,
    package::{Package, package},
    project::{EvalUnit, TaskUnit, references},
    run,
    secrets::is_secret_name,
    signature::Schema,
    source::{Files, Sources, Stat},
};

const EXAMPLES: &str = "\
Examples:
  gevals lock eval.yaml           write gevals.lock beside the eval
  gevals lock eval.yaml --check   check whether a server has changed, and which evals that breaks
  gevals lock eval.yaml --fetch   download what is locked, on another machine
  gevals lock eval.yaml --update  update the sources of tasks to newer commits

`gevals check` runs nothing and works offline: it knows the tools of a server and the operations of
an extension only from this file.

Exit status: 0 written, or unchanged; 1 --check found a difference; 2 there is nothing to lock; 3 a
server did not respond";

/// Record the tools of servers and the operations of extensions in gevals.lock, beside the eval.
///
/// This starts the servers of the eval and lists their tools, reads what its extensions can do, and downloads extension releases.
/// Entries that other evals in the same directory have locked are kept.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// An eval file.
    eval: PathBuf,
    /// Resolve the refs of sources again; otherwise, locked sources stay at their commits.
    #[arg(long, conflicts_with = "check")]
    update: bool,
    /// Download what is locked (sources, extension releases) without writing the lock: for CI and fresh clones.
    #[arg(long, conflicts_with_all = ["check", "update"])]
    fetch: bool,
    /// Write nothing; exit with 1 if anything differs from the lock, and report which evals that breaks.
    #[arg(long)]
    check: bool,
}

pub fn main(args: &Args, global: Global) -> u8 {
    let sources = Sources::default();
    let mut compiled = compile_paths(std::slice::from_ref(&args.eval), &sources);
    if unreadable(&compiled) {
        return status::USAGE;
    }
    let [unit] = compiled.project.evals.as_slice() else {
        let outside: Vec<_> =
            compiled.diagnostics.iter().filter(|d| std::ptr::eq(d.rule, &raw const OUTSIDE_PROJECT)).cloned().collect();
        if !outside.is_empty() {
            print_findings(&outside, &sources, compiled.project.files(), global);
        }
        complain(&not_one_eval(&args.eval, &compiled.project.evals));
        return status::USAGE;
    };
    let path = unit.path.parent().unwrap_or(Path::new("")).join(FILE_NAME);
    let mut old = packages::read(&path);
    match packages::find_sources(unit, &old, path.parent().unwrap_or(Path::new("")), args.update) {
        Ok(fetched) if fetched.is_empty() => {}
        // Only now is it known what the tasks in them use.
        Ok(fetched) => {
            old.version = 1;
            old.sources.extend(fetched);
            let Ok(text) = packages::text(&old) else { return status::BROKEN };
            let options = Options { soft: false, ..Options::default() };
            let over = Overlay::over([(path.as_path(), text.into_bytes())]);
            compiled = compile_with(std::slice::from_ref(&args.eval), &options, &sources, &over);
        }
        Err(faults) => {
            faults.iter().for_each(|fault| complain(fault));
            return status::BROKEN;
        }
    }
    let [unit] = compiled.project.evals.as_slice() else { return status::USAGE };
    let unread = unit.eval.as_ref().is_none_or(|e| e.mcp_config.is_some()) && unit.mcp.is_none();
    if unread {
        let hard: Vec<_> = compiled.diagnostics.iter().filter(|d| d.strength == Strength::Hard).cloned().collect();
        print_findings(&hard, &sources, compiled.project.files(), global);
    }
    let tasks = || packages::of_tasks(&compiled, unit).into_iter();
    let nothing = |eval: &Eval| {
        let substitute = eval.extension_options.substitute;
        references(eval, tasks()).iter().all(|r| matches!(package(r.package, substitute), Ok(Package::Bundled(_))))
    };
    if unread || unit.mcp.is_none() && old.sources.is_empty() && unit.eval.as_ref().is_none_or(nothing) {
        complain("the eval has no MCP config, extension or source to lock: what is built into gevals needs no lock");
        return status::USAGE;
    }
    if args.fetch {
        // If the lock cannot be read, it is unknown what was locked.
        if let Some(Err(error)) = path.exists().then(|| parsed(&path)) {
            complain(&damaged(&path, &error, unit));
            return status::BROKEN;
        }
        return fetched(unit, &packages::of_tasks(&compiled, unit), &old);
    }
    let found = servers(unit).and_then(|servers| {
        Ok((servers, packages::find(unit, &packages::of_tasks(&compiled, unit), &old, &|_| false)?))
    });
    let lock = match found {
        Ok((servers, found)) => {
            found.remarks.iter().for_each(|remark| note(remark));
            let mut lock = packages::merged(&old, found);
            lock.servers.extend(servers);
            lock
        }
        Err(faults) => {
            faults.iter().for_each(|fault| complain(fault));
            return status::BROKEN;
        }
    };
    let text = match packages::text(&lock) {
        Ok(text) => text,
        Err(error) => {
            complain(&format!("cannot write `{}`: {error}", path.display()));
            return status::BROKEN;
        }
    };
    if args.check {
        return drift(unit, &lock, &path, &text);
    }
    // Other evals may break, too: an alias may have another meaning there.
    let breaks = broken(&path, &text);
    if let Err(error) = write_atomic(&path, text.as_bytes()) {
        complain(&format!("cannot write `{}`: {error}", path.display()));
        return status::BROKEN;
    }
    breaks.lines().filter(|line| *line != BREAKS_NONE).for_each(warn);
    secrets_in(&text).iter().for_each(|warning| warn(warning));
    let tools: usize = lock.servers.values().map(|s| s.tools.len()).sum();
    let operations: usize = lock.extensions.values().map(|e| e.operations.len()).sum();
    let mut parts = Vec::new();
    if !lock.servers.is_empty() {
        let servers = count(lock.servers.len(), "server", "servers");
        parts.push(format!("{} of {servers}", count(tools, "tool", "tools")));
    }
    if !lock.sources.is_empty() {
        parts.push(count(lock.sources.len(), "source", "sources"));
    }
    if !lock.releases.is_empty() {
        parts.push(count(lock.releases.len(), "release", "releases"));
    }
    if !lock.extensions.is_empty() {
        let extensions = count(lock.extensions.len(), "extension", "extensions");
        parts.push(format!("{} of {extensions}", count(operations, "operation", "operations")));
    }
    print(&format!("locked {} in {}\n", in_words(&parts), path.display()));
    status::OK
}

/// Warnings about variables with the names of secrets whose value is in a lock: a server may write its configuration into the descriptions
/// of its tools.
fn secrets_in(lock: &str) -> Vec<String> {
    /// Shorter values occur in texts by chance.
    const LEAST: usize = 8;
    let variables =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let known = variables.filter(|(name, value)| is_secret_name(name) && value.trim().len() >= LEAST);
    let in_lock = known.filter(|(_, value)| lock.contains(value.trim()));
    in_lock
        .map(|(name, _)| format!("`{FILE_NAME}` contains the value of `{name}`: do not commit it if that is a secret"))
        .collect()
}

/// Downloads what is locked.
fn fetched(unit: &EvalUnit, tasks: &[&TaskUnit], old: &Lock) -> u8 {
    let unpinned = |name: &str| !old.releases.contains_key(name);
    match packages::find(unit, tasks, old, &unpinned) {
        Ok(found) => {
            let parts =
                [count(old.sources.len(), "source", "sources"), count(found.releases.len(), "release", "releases")];
            print(&format!("{} available as locked\n", in_words(&parts)));
            status::OK
        }
        Err(faults) => {
            faults.iter().for_each(|fault| complain(fault));
            status::BROKEN
        }
    }
}

fn in_words(parts: &[String]) -> String {
    match parts {
        [others @ .., last] if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => parts.concat(),
    }
}

fn not_one_eval(path: &Path, evals: &[EvalUnit]) -> String {
    let shown = shown(path);
    if !evals.is_empty() {
        return several_evals(&shown, evals.iter().map(|unit| unit.path.as_path()));
    }
    let text = Disk.read(path).unwrap_or_default();
    match String::from_utf8_lossy(&text).contains("mcpServers") {
        true => format!("`{shown}` is an MCP config: lock the eval that uses it"),
        false if Disk.stat(path) == Some(Stat::Dir) => format!("there is no eval in `{shown}`"),
        false => format!("`{shown}` is not an eval"),
    }
}

/// Asks every server of the eval.
fn servers(unit: &EvalUnit) -> Result<IndexMap<String, LockedServer>, Vec<String>> {
    let Some(config) = &unit.mcp else { return Ok(IndexMap::new()) };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| vec![format!("cannot start: {error}")])?;
    // `run` also starts them there.
    let dir = unit.eval.as_ref().map_or_else(PathBuf::new, |eval| eval.dir.clone());
    let executable = std::env::current_exe().ok();
    let (specs, _) = run::specs(&config.servers, &dir, &RealHost::new(), executable.as_ref())?;
    let ask = |(name, (spec, _))| Ok((name, runtime.block_on(ask(spec)).map_err(|fault| vec![fault])?));
    specs.into_iter().map(ask).collect()
}

fn parsed(path: &Path) -> Result<Lock, String> {
    let bytes = Disk.read(path).map_err(|error| error.to_string())?;
    Lock::parse(&String::from_utf8_lossy(&bytes))
}

fn damaged(path: &Path, why: &str, unit: &EvalUnit) -> String {
    let eval = crate::bash::quote(&shown(&unit.path));
    format!("cannot read `{}`: {why}; recreate it with `gevals lock {eval}`", path.display())
}

/// Prints what differs from the lock, and which evals below the lock's directory that breaks.
fn drift(unit: &EvalUnit, now: &Lock, path: &Path, text: &str) -> u8 {
    let then = match parsed(path) {
        Ok(then) => then,
        Err(error) => {
            complain(&damaged(path, &error, unit));
            return status::NO;
        }
    };
    let mut changes = Vec::new();
    compare("server", &then.servers, &now.servers, &mut changes, |name, old, new, changes| {
        compare(&format!("tool `{name}`."), &old.tools, &new.tools, changes, |_, _, _, _| {});
        if old.version != new.version {
            changes.push(format!("the version of `{name}` is `{}`; it was `{}`", new.version, old.version));
        }
    });
    compare("extension", &then.extensions, &now.extensions, &mut changes, |name, old, new, changes| {
        compare(&format!("operation `{name}`."), &old.operations, &new.operations, changes, |_, _, _, _| {});
        if old.version != new.version {
            changes.push(format!("the version of `{name}` is `{}`; it was `{}`", new.version, old.version));
        }
    });
    compare("source", &then.sources, &now.sources, &mut changes, |name, old, new, changes| {
        changes.push(format!("the source `{name}` is now at {}; it was at {}", new.commit, old.commit));
    });
    compare("release", &then.releases, &now.releases, &mut changes, |_, _, _, _| {});
    if changes.is_empty() {
        print(&format!("nothing differs from {}\n", path.display()));
        return status::OK;
    }
    let mut report: String = changes.iter().map(|change| format!("{change}\n")).collect();
    report += &broken(path, text);
    report += &format!("to accept these changes: gevals lock {}\n", unit.path.display());
    print(&report);
    status::NO
}

/// Collects what appeared, disappeared or changed. `inside` may add details of a change.
fn compare<T: PartialEq>(
    what: &str,
    old: &IndexMap<String, T>,
    new: &IndexMap<String, T>,
    changes: &mut Vec<String>,
    inside: impl Fn(&str, &T, &T, &mut Vec<String>),
) {
    let called = |name: &str| match what.strip_suffix('.') {
        Some(owner) => format!("{}.{name}`", owner.trim_end_matches('`')),
        None => format!("{what} `{name}`"),
    };
    for (name, was) in old {
        match new.get(name) {
            None => changes.push(format!("{} was removed", called(name))),
            Some(is) if is != was => {
                let before = changes.len();
                inside(name, was, is, changes);
                if changes.len() == before {
                    changes.push(format!("{} has changed", called(name)));
                }
            }
            Some(_) => {}
        }
    }
    for name in new.keys().filter(|name| !old.contains_key(*name)) {
        changes.push(format!("{} was added", called(name)));
    }
}

const BREAKS_NONE: &str = "this breaks no eval";

/// The errors that the evals below the lock's directory would have with the new lock but do not have with the old one.
fn broken(path: &Path, text: &str) -> String {
    let dir = path.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let errors = |files: &dyn Files| {
        let sources = Sources::default();
        let compiled = compile_with(&[dir.to_owned()], &Options::default(), &sources, files);
        let errors: Vec<(PathBuf, String)> = compiled
            .diagnostics
            .iter()
            .filter(|d| d.strength.is_error())
            .map(|d| {
                let source = sources.get(d.span.file);
                let at = source.position(d.span.start);
                let path = source.path();
                (path.to_owned(), format!("{}:{}:{}: {}", path.display(), at.line, at.column, d.message))
            })
            .collect();
        (compiled, errors)
    };
    let (_, before) = errors(&project_files(&[path.to_owned()]));
    let (compiled, mut after) = errors(&Overlay::over([(path, text.as_bytes().to_vec())]));
    after.retain(|error| !before.contains(error));
    let mut report = String::new();
    for eval in &compiled.project.evals {
        let tasks: Vec<&PathBuf> = eval.selected.iter().map(|s| &compiled.project.tasks[s.task].path).collect();
        let own: Vec<_> = after.iter().filter(|(path, _)| *path == eval.path || tasks.contains(&path)).collect();
        if !own.is_empty() {
            report += &format!("this breaks {}:\n", eval.path.display());
            own.iter().for_each(|(_, error)| report += &format!("  {error}\n"));
        }
    }
    if report.is_empty() { format!("{BREAKS_NONE}\n") } else { report }
}

/// How long a server may take to list its tools.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Starts a server and asks for its tools.
async fn ask(spec: ServerSpec) -> Result<LockedServer, String> {
    ask_all(spec).await.map(|(locked, _)| locked)
}

/// Like [`ask`], with the annotations of the tools.
pub(super) async fn ask_all(spec: ServerSpec) -> Result<(LockedServer, IndexMap<String, serde_json::Value>), String> {
    let name = spec.name.clone();
    let hub = Hub::start(spec, HubOptions::default()).await.map_err(|e| e.to_string())?;
    let options = ClientOptions { timeout: Some(TIMEOUT), ..ClientOptions::default() };
    let client = hub.client(SessionKind::Own, options).await.map_err(|e| e.to_string())?;
    let tools = client.list_tools().await.map_err(|e| format!("the server `{name}` does not list its tools: {e}"))?;
    let version = client.server().and_then(|s| s.pointer("/serverInfo/version")?.as_str().map(str::to_owned));
    drop(client);
    hub.close().await;
    let hints = tools
        .iter()
        .filter_map(|tool| Some((tool.get("name")?.as_str()?.to_owned(), tool.get("annotations")?.clone())));
    let hints = hints.collect();
    let tools = tools.into_iter().filter_map(|tool| {
        let name = tool.get("name")?.as_str()?.to_owned();
        let description = tool.get("description").and_then(|d| d.as_str()).unwrap_or_default().to_owned();
        let input_schema = Schema::new(tool.get("inputSchema").cloned().unwrap_or_default());
        Some((name, LockedTool { description, input_schema }))
    });
    Ok((LockedServer { version: version.unwrap_or_default(), tools: tools.collect() }, hints))
}
