//! The files of a project: the disk, below the roots of the named paths.
//!
//! Paths are used as they are written (`decisions.md` §2), but the target of a link decides: no text outside of a root is
//! ever read, so none can be quoted.
#![expect(clippy::disallowed_methods, reason = "this is a door to the disk")]

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
};

use rustc_hash::FxHashMap;

use super::disk::Disk;
use crate::{
    policy,
    source::{Files, ReadError, Stat, normalize},
};

/// The files below some directories, and single files that the command line names.
#[derive(Debug, Default)]
pub struct Within {
    roots: Vec<Root>,
    /// Files that may be read wherever they are, by their paths without links.
    named: Vec<PathBuf>,
    folders: RwLock<FxHashMap<PathBuf, Option<PathBuf>>>,
}

/// A directory below which everything may be read.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Root {
    /// As it was named.
    path: PathBuf,
    /// Without links.
    real: PathBuf,
}

impl Within {
    /// The projects of the named files and directories, or only the one below `root`.
    ///
    /// # Errors
    /// `root` is not a directory.
    pub fn of(paths: &[PathBuf], root: Option<&Path>) -> Result<Self, String> {
        let mut within = Self::default();
        if let Some(root) = root {
            let real = fs::canonicalize(root).map_err(|e| format!("the root `{}`: {e}", root.display()))?;
            if !real.is_dir() {
                return Err(format!("the root `{}` is no folder", root.display()));
            }
            within.roots.push(Root { path: absolute(root), real });
            return Ok(within);
        }
        for path in paths {
            let path = root_of(path);
            let root = Root { real: fs::canonicalize(&path).unwrap_or_else(|_| path.clone()), path };
            if !within.roots.contains(&root) {
                within.roots.push(root);
            }
        }
        Ok(within)
    }

    /// The roots, as they were named.
    pub fn roots(&self) -> impl Iterator<Item = &Path> {
        self.roots.iter().map(|root| root.path.as_path())
    }

    /// Adds a file that may be read although it is elsewhere, because the command line names it.
    pub fn and(mut self, path: &Path) -> Self {
        self.named.extend(fs::canonicalize(path));
        self
    }

    /// What decides which files may be read, as a text that can be compared.
    pub fn reach(&self) -> String {
        format!("{:?} {:?}", self.roots, self.named)
    }

    /// The link by which a file is reached, below its root: writing there would change another file than the named one.
    pub fn link(&self, path: &Path) -> Option<PathBuf> {
        let whole = absolute(path);
        let root = self
            .roots
            .iter()
            .filter(|root| whole.starts_with(&root.path))
            .max_by_key(|root| root.path.as_os_str().len());
        let depth = root.map_or(0, |root| root.path.components().count());
        let mut links = whole.ancestors().filter(|dir| dir.components().count() > depth);
        links.find(|dir| fs::symlink_metadata(dir).is_ok_and(|meta| meta.is_symlink())).map(Path::to_owned)
    }

    /// Where a path leads, without links. The answer for a path outside does not depend on what exists there.
    fn find(&self, path: &Path) -> Result<PathBuf, ReadError> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let real = match (path.file_name(), path.parent().and_then(|dir| self.folder(dir))) {
            (Some(name), Some(dir)) => {
                let plain = dir.join(name);
                match fs::symlink_metadata(&plain) {
                    Ok(meta) if meta.is_symlink() => fs::canonicalize(&plain).ok(),
                    Ok(_) => Some(plain),
                    Err(_) if self.holds(&dir) => return Err(ReadError::Missing),
                    Err(_) => None,
                }
            }
            _ => self.folder(path),
        };
        match real {
            Some(real) if self.holds(&real) => Ok(real),
            real => {
                let whole = absolute(path);
                let inside =
                    self.roots.iter().any(|root| whole.starts_with(&root.path) || whole.starts_with(&root.real));
                Err(match (inside, real) {
                    (true, Some(_)) => ReadError::LeadsOut(self.name()),
                    (true, None) => ReadError::Missing,
                    (false, _) => ReadError::Outside(self.name()),
                })
            }
        }
    }

    fn holds(&self, real: &Path) -> bool {
        self.roots.iter().any(|root| real.starts_with(&root.real)) || self.named.iter().any(|named| named == real)
    }

    fn name(&self) -> String {
        let names: Vec<_> = self.roots.iter().map(|root| root.path.display().to_string()).collect();
        names.join("`, `")
    }

    /// A directory without links. The result is kept, because most files share a directory with others.
    fn folder(&self, dir: &Path) -> Option<PathBuf> {
        let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
        if let Some(known) = self.folders.read().unwrap_or_else(PoisonError::into_inner).get(dir) {
            return known.clone();
        }
        let real = fs::canonicalize(dir).ok();
        self.folders.write().unwrap_or_else(PoisonError::into_inner).insert(dir.to_owned(), real.clone());
        real
    }
}

impl Files for Within {
    fn read(&self, path: &Path) -> Result<Vec<u8>, ReadError> {
        Disk.read(&self.find(path)?)
    }

    fn stat(&self, path: &Path) -> Option<Stat> {
        Disk.stat(&self.find(path).ok()?)
    }

    fn refusal(&self, path: &Path) -> Option<ReadError> {
        match self.find(path) {
            Ok(_) => Disk.refusal(path),
            Err(ReadError::Missing) => None,
            Err(why) => Some(why),
        }
    }

    fn list(&self, dir: &Path) -> Vec<String> {
        self.find(dir).map_or_else(|_| Vec::new(), |dir| Disk.list(&dir))
    }

    fn entries(&self, dir: &Path) -> Arc<[(String, bool)]> {
        self.entries_and(dir, &|_| {})
    }

    fn entries_and(&self, dir: &Path, link: &dyn Fn(&Path)) -> Arc<[(String, bool)]> {
        match self.find(dir) {
            Ok(_) => Disk.entries_and(dir, link),
            Err(_) => Arc::new([]),
        }
    }
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).map_or_else(|_| path.to_owned(), |path| normalize(&path))
}

/// The root of the project of a file or directory: the repository around it, otherwise the nearest directory with `gevals.toml`,
/// otherwise the current directory if it contains the path, otherwise the path's own directory.
fn root_of(path: &Path) -> PathBuf {
    let path = absolute(path);
    let dir = if path.is_dir() { path.as_path() } else { path.parent().unwrap_or(&path) };
    let real = fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
    for marker in [".git", policy::FILE_NAME] {
        // For a linked directory, the path as written comes before its target.
        for dir in [dir, real.as_path()] {
            if let Some(root) = dir.ancestors().find(|dir| fs::symlink_metadata(dir.join(marker)).is_ok()) {
                return root.to_owned();
            }
        }
    }
    // The root of the file system is not a project; in containers it is often the current directory.
    let here = std::env::current_dir().ok().filter(|here| here.parent().is_some());
    match here {
        Some(here) if dir.starts_with(&here) || real.starts_with(&here) => here,
        _ => dir.to_owned(),
    }
}
