//! What is to be read, and whose findings count: everything that was named, or what a change concerns.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use super::{Args, Fault, status};
use crate::{
    Compiled,
    affected::affected,
    cli::git::{git, no_revision},
    diagnostic::{Diagnostic, Diagnostics},
    dialect::{self, FileKind},
    source::{Files, Sources, Stat, normalize},
    yaml,
};

/// What was read, and what was found in what counts.
pub struct Looked {
    pub compiled: Compiled,
    pub found: Vec<Diagnostic>,
    /// Files of a known kind; where a change decides, the tasks and evals it concerns.
    pub files: usize,
    /// Whether nothing at all is an answer: a change may concern no task.
    pub may_be_empty: bool,
}

/// Has compiled what the arguments name, into `sources`.
pub fn look(
    args: &Args,
    files: &dyn Files,
    compile: &dyn Fn(&[PathBuf]) -> Compiled,
    sources: &Sources,
) -> Result<Looked, Fault> {
    if let Some(rev) = &args.changed_since {
        let (root, changed) = changed_since(rev).map_err(|e| (status::USAGE, e))?;
        let paths = if args.paths.is_empty() { vec![from_here(&root)] } else { args.paths.clone() };
        return Ok(concerned(compile(&paths), changed.iter().map(|p| key(p)).collect(), sources, files));
    }
    if args.affected {
        let changed = args.paths.iter().map(|p| key(p)).collect();
        return Ok(concerned(compile(&roots(&args.paths)), changed, sources, files));
    }
    let paths = match (&args.stdin_filename, args.paths.as_slice()) {
        (Some(path), []) if args.stdin => vec![path.clone()],
        (_, []) => vec![PathBuf::from(".")],
        (_, paths) => paths.to_vec(),
    };
    // Scripts, prompts and configs mean something only in what refers to them.
    let parts: Vec<_> = paths.iter().map(|p| (p, part(p, files))).filter(|(_, part)| *part != Part::None).collect();
    if parts.is_empty() || args.stdin {
        return Ok(all(compile(&paths)));
    }
    let mut whole = roots(parts.iter().map(|(p, _)| *p));
    whole.extend(paths.iter().filter(|p| !parts.iter().any(|(part, _)| part == p)).cloned());
    let compiled = compile(&whole);
    for (path, part) in parts {
        if affected(&compiled, &BTreeSet::from([key(path)]), sources, files, &key).units > 0 {
            continue;
        }
        match part {
            Part::Text => {
                return Err((status::USAGE, format!("no task and no eval refers to `{}`", path.display())));
            }
            _ => return Ok(all(compile(&paths))),
        }
    }
    let mut changed: BTreeSet<_> = paths.iter().map(|p| key(p)).collect();
    // All that stands in a folder counts, not the folder.
    let folders: Vec<_> = paths.iter().filter(|p| files.stat(p) == Some(Stat::Dir)).map(|p| key(p)).collect();
    if !folders.is_empty() {
        let read = sources.all().into_iter().map(|source| key(source.path()));
        changed.extend(read.filter(|path| folders.iter().any(|folder| path.starts_with(folder))));
    }
    Ok(Looked { may_be_empty: false, ..concerned(compiled, changed, sources, files) })
}

fn all(compiled: Compiled) -> Looked {
    let (found, files) = (compiled.diagnostics.clone(), compiled.project.files());
    Looked { compiled, found, files, may_be_empty: false }
}

fn concerned(compiled: Compiled, changed: BTreeSet<PathBuf>, sources: &Sources, files: &dyn Files) -> Looked {
    let affected = affected(&compiled, &changed, sources, files, &key);
    let found = compiled.diagnostics.iter().filter(|d| affected.concerns(d, sources, &key)).cloned().collect();
    Looked { found, files: affected.units, compiled, may_be_empty: true }
}

/// What a named file is a part of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    /// Of nothing: a task, an eval, a folder, or what cannot be read.
    None,
    /// An agent, an oracle, an MCP config.
    Config,
    /// A script, a prompt.
    Text,
}

fn part(path: &Path, files: &dyn Files) -> Part {
    if !matches!(files.stat(path), Some(Stat::File { .. })) || files.refusal(path).is_some() {
        return Part::None;
    }
    let text = files.read(path).ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
    if !path.extension().is_some_and(|e| e == "yaml" || e == "yml" || e == "json") {
        let own = text.lines().any(|line| line.starts_with("kind:"));
        return if own { Part::None } else { Part::Text };
    }
    let (scratch, mut out) = (Sources::default(), Diagnostics::default());
    let file = scratch.add(path, text.as_str());
    let Ok(tree) = yaml::parse(file, text, &mut out) else { return Part::None };
    match dialect::identify(tree.root(), true, &mut out) {
        Ok(Some(FileKind::Task(_) | FileKind::Eval | FileKind::McpEvals)) | Err(_) => Part::None,
        Ok(_) => Part::Config,
    }
}

/// Tells whether two paths are one file: where it is, links followed.
fn key(path: &Path) -> PathBuf {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let absolute = || std::path::absolute(path).map_or_else(|_| path.to_owned(), |p| normalize(&p));
    std::fs::canonicalize(path).unwrap_or_else(|_| absolute())
}

/// The repositories that files stand in, as seen from here; without one, the current folder.
fn roots<'p>(paths: impl IntoIterator<Item = &'p PathBuf>) -> Vec<PathBuf> {
    let mut roots: Vec<PathBuf> = Vec::new();
    let here = key(Path::new("."));
    for path in paths {
        let path = std::path::absolute(path).map_or_else(|_| path.clone(), |p| normalize(&p));
        let root = path.ancestors().skip(1).find(|dir| dir.join(".git").exists());
        let outside = || path.parent().filter(|_| !path.starts_with(&here)).unwrap_or(&here);
        let root = from_here(root.unwrap_or_else(outside));
        if !roots.contains(&root) {
            roots.push(root);
        }
    }
    roots
}

/// A folder as it is called from the current one: below it, or above it, by a short path.
fn from_here(dir: &Path) -> PathBuf {
    let Ok(here) = std::env::current_dir() else { return dir.to_owned() };
    match (dir.strip_prefix(&here), here.strip_prefix(dir)) {
        (Ok(below), _) if below.as_os_str().is_empty() => PathBuf::from("."),
        (Ok(below), _) => below.to_owned(),
        (_, Ok(rest)) => rest.components().map(|_| "..").collect(),
        _ => dir.to_owned(),
    }
}

/// The root of the repository around the current folder, and the files that are not as they were at a revision.
fn changed_since(rev: &str) -> Result<(PathBuf, Vec<PathBuf>), String> {
    if rev.starts_with('-') {
        return Err(format!("`{rev}` is no revision"));
    }
    let text = |args: &[&str]| git(args).map(|out| String::from_utf8_lossy(&out).trim_end().to_owned());
    let root = text(&["rev-parse", "--show-toplevel"])?;
    let commit = text(&["rev-parse", "--verify", "--quiet", "--end-of-options", &format!("{rev}^{{commit}}")])
        .map_err(|_| no_revision(rev, &root))?;
    let differ = git(&["-C", &root, "diff", "--name-only", "--no-renames", "-z", &commit, "--"])?;
    let new = git(&["-C", &root, "ls-files", "--others", "--exclude-standard", "-z"])?;
    let root = PathBuf::from(root);
    let names = differ.split(|b| *b == 0).chain(new.split(|b| *b == 0)).filter(|name| !name.is_empty());
    let changed = names.map(|name| root.join(&*String::from_utf8_lossy(name))).collect();
    Ok((root, changed))
}
