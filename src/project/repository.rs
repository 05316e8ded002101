//! Task sets from repositories (`sources:` of an eval; §2.6 of the upstream behaviour). `gevals lock` fetches them into a directory
//! below that of the lock file and pins their commits; from then on they are files.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

use super::{Context, SOURCE_NOT_LOCKED};
use crate::{
    diagnostic::Diagnostic,
    dialect::eval::TASK_SET_SHAPE,
    hir::{Eval, Name, Requirement, RequirementKind, SourceRef, Task, TaskSet},
    lock::Lock,
    source::Files,
    template::Path as Hole,
};

/// The maximum depth of nested directories.
const DEEPEST: usize = 64;

/// The key of a source in the lock file: `REPO@REF`.
pub fn reference(source: &SourceRef) -> Option<String> {
    Some(format!("{}@{}", source.repo.as_ref()?.value, source.reference.as_ref()?.value))
}

/// The directory of a source, relative to that of the lock file.
pub fn folder(reference: &str, commit: &str) -> PathBuf {
    let repo = reference.rsplit_once('@').map_or(reference, |(repo, _)| repo);
    let bare =
        repo.split_once("://").map_or(repo, |(_, rest)| rest).trim_start_matches("git@").trim_end_matches(".git");
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_') { c } else { '-' };
    let key: String = bare.chars().map(plain).collect();
    Path::new(".gevals/sources").join(key.trim_matches(['-', '.'])).join(commit)
}

/// SHA-256 over `path:REL` and the bytes of each file, in the order of their paths.
///
/// # Errors
/// If a file cannot be read.
pub fn digest(dir: &Path, files: &dyn Files) -> Result<String, String> {
    fn walk(dir: &Path, below: &str, depth: usize, files: &dyn Files, out: &mut Vec<(String, PathBuf)>) {
        for (name, is_dir) in files.entries(dir).iter() {
            let (path, below) = (dir.join(name), format!("{below}{name}"));
            match is_dir {
                true if depth < DEEPEST => walk(&path, &format!("{below}/"), depth + 1, files, out),
                true => {}
                false => out.push((below, path)),
            }
        }
    }
    let mut found = Vec::new();
    walk(dir, "", 0, files, &mut found);
    found.sort();
    let mut digest = Sha256::new();
    for (below, path) in found {
        let bytes = files.read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        digest.update(format!("path:{below}\n"));
        digest.update(bytes);
    }
    Ok(hex::encode(digest.finalize()))
}

/// Digests of directories, computed once.
pub(super) type Digests = HashMap<PathBuf, Result<String, String>>;

/// The directory that the paths of a task set are relative to.
pub(super) fn base(
    eval: &Eval,
    set: &TaskSet,
    name: &Name,
    lock: &Lock,
    digests: &mut Digests,
    cx: Context<'_>,
) -> Result<PathBuf, Box<Diagnostic>> {
    let fault = |message: String| Box::new(Diagnostic::new(&SOURCE_NOT_LOCKED, name.span, message));
    let Some(source) = eval.sources.iter().find(|source| source.name.value == name.value) else {
        let near = crate::diagnostic::nearest(&name.value, eval.sources.iter().map(|s| s.name.value.as_str()));
        let diagnostic = fault(format!("the eval has no source `{}`", name.value));
        return Err(Box::new(match near {
            // It is not known which of the two names is the right one.
            Some(near) => diagnostic.here(format!("did you mean `{near}`?")),
            None => diagnostic.help("define it: `sources: {NAME: {repo: github.com/OWNER/REPO, ref: TAG}}`"),
        }));
    };
    for path in set.path.iter().chain(&set.glob) {
        let climbs = crate::source::normalize(Path::new(&path.value)).starts_with("..");
        if climbs || path.value.starts_with('/') {
            let message = format!("`{}` is outside the source `{}`", path.value, name.value);
            return Err(Box::new(
                Diagnostic::new(&TASK_SET_SHAPE, path.span, message)
                    .help("write a path relative to the root of the repository"),
            ));
        }
    }
    let key = reference(source).unwrap_or_default();
    let Some(locked) = lock.sources.get(&key) else {
        return Err(Box::new(
            fault(format!("the source `{}` is not pinned by a lock file", name.value))
                .label(source.span, "its commit and digest are unknown")
                .help("to fetch and pin it, run `gevals lock EVAL`"),
        ));
    };
    let dir = lock.dir.join(folder(&key, &locked.commit));
    let restore = "to fetch the locked version, run `gevals lock EVAL --fetch`";
    if cx.files.stat(&dir).is_none() {
        let message = format!("the source `{}` is locked, but has not been fetched", name.value);
        return Err(Box::new(fault(message).here(format!("expected at {}", dir.display())).help(restore)));
    }
    match digests.entry(dir.clone()).or_insert_with(|| digest(&dir, cx.files)) {
        Ok(now) if *now == locked.sha256 => Ok(dir),
        Ok(now) => {
            let message = format!("the source `{}` does not match the lock file", name.value);
            let here = format!("the digest of {} is {now}, but the lock file has {}", dir.display(), locked.sha256);
            Err(Box::new(fault(message).here(here).help(restore)))
        }
        Err(why) => Err(Box::new(fault(format!("the source `{}` cannot be read: {why}", name.value)).help(restore))),
    }
}

/// Renames the servers of a task from the names in its source to those in the eval.
pub(super) fn map_servers(task: &mut Task<Hole>, source: &SourceRef) {
    for Requirement { kind, alias } in &mut task.requires {
        if let RequirementKind::McpServer(name) = kind
            && let Some(own) = source.server_mapping.get(&name.value)
        {
            // Its steps keep using the original name.
            alias.get_or_insert_with(|| name.clone());
            name.value.clone_from(&own.value);
        }
    }
}
