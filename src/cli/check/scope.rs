//! What to compile, and whose findings count: everything that was named, or what a change concerns.

use std::{
    borrow::Cow,
    collections::BTreeSet,
    ffi::OsString,
    path::{Component, Path, PathBuf},
    sync::{PoisonError, RwLock},
};

use rustc_hash::FxHashMap;

use super::{Args, Fault, status};
use crate::{
    Compiled,
    affected::{Affected, Changed},
    cli::git::{git, no_revision},
    diagnostic::{Diagnostic, Diagnostics},
    dialect::{self, FileKind},
    source::{Files, Sources, Stat, normalize},
    yaml,
};

/// What was compiled, and the findings that count.
pub struct Looked {
    pub compiled: Compiled,
    pub found: Vec<Diagnostic>,
    /// The number of files of a known kind; if a change decides, of the tasks and evals that it concerns.
    pub files: usize,
    /// Whether zero files are a valid result: a change may concern no task.
    pub may_be_empty: bool,
    /// A sentence for each named file that nothing refers to.
    pub unrelated: Vec<String>,
}

/// Compiles paths. If there are changed files, only the findings that concern them must be complete.
pub type Compile<'a> = &'a dyn Fn(&[PathBuf], Option<Changed<'_>>) -> Compiled;

/// Compiles what the arguments name, into `sources`.
pub fn look(args: &Args, files: &dyn Files, compile: Compile<'_>, sources: &Sources) -> Result<Looked, Fault> {
    let keys = Keys::default();
    let key = |path: &Path| {
        // `keys` reads the disk directly, so the path is noted here.
        files.note(path);
        keys.of(path)
    };
    if let Some(rev) = &args.changed_since {
        let (root, changed) = changed_since(rev).map_err(|e| (status::USAGE, e))?;
        let paths = if args.paths.is_empty() { vec![from_here(&root)] } else { args.paths.clone() };
        let changed = changed.iter().map(|p| key(p)).collect();
        let changed = Changed { paths: &changed, key: &key };
        return Ok(concerned(compile(&paths, Some(changed)), changed, sources, files));
    }
    if args.affected {
        let changed = args.paths.iter().map(|p| key(p)).collect();
        let changed = Changed { paths: &changed, key: &key };
        return Ok(concerned(compile(&roots(&args.paths), Some(changed)), changed, sources, files));
    }
    let paths = match (&args.stdin_filename, args.paths.as_slice()) {
        (Some(path), []) if args.stdin => vec![path.clone()],
        (_, []) => vec![PathBuf::from(".")],
        (_, paths) => paths.to_vec(),
    };
    // Scripts, prompts and configs only have a meaning in the files that refer to them.
    let parts: Vec<_> = paths.iter().map(|p| (p, part(p, files))).filter(|(_, part)| *part != Part::None).collect();
    if parts.is_empty() || args.stdin {
        return Ok(all(compile(&paths, None)));
    }
    let mut whole = roots(parts.iter().map(|(p, _)| *p));
    whole.extend(paths.iter().filter(|p| !parts.iter().any(|(part, _)| part == p)).cloned());
    let mut changed: BTreeSet<_> = paths.iter().map(|p| key(p)).collect();
    // With a single path, it is known in advance what matters.
    let only = Changed { paths: &changed, key: &key };
    let compiled = compile(&whole, (paths.len() == 1).then_some(only));
    let mut unrelated = Vec::new();
    let mut everything = false;
    let mut named = paths.clone();
    for (path, part) in parts {
        let one = BTreeSet::from([key(path)]);
        if affected(&compiled, Changed { paths: &one, key: &key }, sources, files).units > 0 {
            continue;
        }
        match part {
            Part::Text => {
                unrelated.push(format!("no task or eval refers to `{}`", path.display()));
                named.retain(|other| other != path);
            }
            _ => everything = true,
        }
    }
    if everything {
        return Ok(Looked { unrelated, ..all(compile(&named, None)) });
    }
    // Every file in a directory counts.
    let folders: Vec<_> = paths.iter().filter(|p| files.stat(p) == Some(Stat::Dir)).map(|p| key(p)).collect();
    if !folders.is_empty() {
        let read = sources.all().into_iter().map(|source| key(source.path()));
        changed.extend(read.filter(|path| folders.iter().any(|folder| path.starts_with(folder))));
    }
    let looked = concerned(compiled, Changed { paths: &changed, key: &key }, sources, files);
    Ok(Looked { may_be_empty: false, unrelated, ..looked })
}

fn all(compiled: Compiled) -> Looked {
    let (found, files) = (compiled.diagnostics.clone(), compiled.project.files());
    Looked { compiled, found, files, may_be_empty: false, unrelated: Vec::new() }
}

fn concerned(compiled: Compiled, changed: Changed<'_>, sources: &Sources, files: &dyn Files) -> Looked {
    let affected = affected(&compiled, changed, sources, files);
    let concerns = |d: &&Diagnostic| affected.concerns(d, sources, changed.key);
    let found = compiled.diagnostics.iter().filter(concerns).cloned().collect();
    let units = affected.units;
    Looked { found, files: units, compiled, may_be_empty: true, unrelated: Vec::new() }
}

/// What a change concerns: as determined while compiling, or else from everything that was compiled.
fn affected<'c>(
    compiled: &'c Compiled,
    changed: Changed<'_>,
    sources: &Sources,
    files: &dyn Files,
) -> Cow<'c, Affected> {
    let Compiled { project, refers, .. } = compiled;
    let after = || Cow::Owned(Affected::after(changed, project, refers, sources, files));
    compiled.affected.as_ref().map_or_else(after, Cow::Borrowed)
}

/// How a named file is used by others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    /// It is not: a task, an eval, a directory, or a file that cannot be read.
    None,
    /// As an agent, an oracle or an MCP config.
    Config,
    /// As a script or a prompt.
    Text,
}

fn part(path: &Path, files: &dyn Files) -> Part {
    if !matches!(files.stat(path), Some(Stat::File { .. })) || files.refusal(path).is_some() {
        return Part::None;
    }
    let text = files.read(path).ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
    if !path.extension().is_some_and(|e| e == "yaml" || e == "yml" || e == "json") {
        // A page about tasks may contain examples.
        let is_page = path.extension().is_some_and(|e| e == "md");
        let own = !is_page && text.lines().any(|line| line.starts_with("kind:"));
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

/// Identifies a file by its real path, or by its absolute path if it does not exist.
fn key(path: &Path) -> PathBuf {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let absolute = || std::path::absolute(path).map_or_else(|_| path.to_owned(), |p| normalize(&p));
    std::fs::canonicalize(path).unwrap_or_else(|_| absolute())
}

/// The [`key`]s of paths. Each directory is resolved once.
#[derive(Default)]
struct Keys(RwLock<FxHashMap<OsString, PathBuf>>);

impl Keys {
    fn of(&self, path: &Path) -> PathBuf {
        let is_plain = path.components().all(|part| matches!(part, Component::Normal(_) | Component::RootDir));
        let (true, Some(dir), Some(name)) = (is_plain, path.parent(), path.file_name()) else { return key(path) };
        // The system resolves links and missing paths.
        match std::fs::symlink_metadata(path) {
            Ok(meta) if !meta.is_symlink() => self.folder(dir).join(name),
            _ => key(path),
        }
    }

    fn folder(&self, dir: &Path) -> PathBuf {
        if let Some(known) = self.0.read().unwrap_or_else(PoisonError::into_inner).get(dir.as_os_str()) {
            return known.clone();
        }
        let found = self.of(dir);
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(dir.as_os_str().to_owned(), found.clone());
        found
    }
}

/// The repositories that contain these paths, relative to the current directory. For a path without one, the current
/// directory, or its parent directory if it is outside of that.
pub fn roots<'p>(paths: impl IntoIterator<Item = &'p PathBuf>) -> Vec<PathBuf> {
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

/// A directory relative to the current one, if it is below or above it.
fn from_here(dir: &Path) -> PathBuf {
    let Ok(here) = std::env::current_dir() else { return dir.to_owned() };
    match (dir.strip_prefix(&here), here.strip_prefix(dir)) {
        (Ok(below), _) if below.as_os_str().is_empty() => PathBuf::from("."),
        (Ok(below), _) => below.to_owned(),
        (_, Ok(rest)) => rest.components().map(|_| "..").collect(),
        _ => dir.to_owned(),
    }
}

/// The root of the repository around the current directory, and the files that differ from a revision.
fn changed_since(rev: &str) -> Result<(PathBuf, Vec<PathBuf>), String> {
    if rev.starts_with('-') {
        return Err(format!("`{rev}` is not a revision"));
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
