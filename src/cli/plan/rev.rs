//! The files of a git revision, for the compiler. They are read by running `git`; nothing is checked out.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Component, Path, PathBuf},
};

use crate::{
    cli::git::{git, no_revision},
    source::{Files, ReadError, Stat, normalize},
};

/// The files of a commit.
#[derive(Debug)]
pub struct Revision {
    /// The root of the work tree.
    root: PathBuf,
    /// The current directory, to which relative paths refer.
    here: PathBuf,
    /// The object of each file and whether it is executable, by path relative to the root.
    files: BTreeMap<PathBuf, (String, bool)>,
    dirs: BTreeSet<PathBuf>,
}

impl Revision {
    /// Reads the tree of a revision of the repository around the current directory.
    pub fn open(rev: &str) -> Result<Self, String> {
        if rev.starts_with('-') {
            return Err(format!("`{rev}` is not a revision"));
        }
        let text = |args: &[&str]| git(args).map(|out| String::from_utf8_lossy(&out).trim_end().to_owned());
        let root = PathBuf::from(text(&["rev-parse", "--show-toplevel"])?);
        let commit = text(&["rev-parse", "--verify", "--quiet", "--end-of-options", &format!("{rev}^{{commit}}")])
            .map_err(|_| no_revision(rev, &root.display().to_string()))?;
        let here = std::env::current_dir().and_then(std::fs::canonicalize).map_err(|e| e.to_string())?;
        let listing = git(&["ls-tree", "-r", "-z", "--full-tree", &commit])?;
        let mut files = BTreeMap::new();
        for entry in listing.split(|b| *b == 0).filter(|e| !e.is_empty()) {
            let entry = String::from_utf8_lossy(entry);
            let Some((meta, path)) = entry.split_once('\t') else { continue };
            let mut words = meta.split(' ');
            let (Some(mode), Some("blob"), Some(object)) = (words.next(), words.next(), words.next()) else { continue };
            files.insert(PathBuf::from(path), (object.to_owned(), mode == "100755"));
        }
        let dirs = files.keys().flat_map(|path| path.ancestors().skip(1)).map(Path::to_owned).collect();
        Ok(Self { root, here, files, dirs })
    }

    /// The path relative to the root of the work tree.
    fn inside(&self, path: &Path) -> Option<PathBuf> {
        let whole = normalize(&self.here.join(path));
        let inside = whole.strip_prefix(&self.root).ok()?;
        Some(inside.components().filter(|c| matches!(c, Component::Normal(_))).collect())
    }
}

impl Files for Revision {
    fn read(&self, path: &Path) -> Result<Vec<u8>, ReadError> {
        let Some(inside) = self.inside(path) else {
            return Err(ReadError::Outside(self.root.display().to_string()));
        };
        match self.files.get(&inside) {
            Some((object, _)) => git(&["cat-file", "blob", object]).map_err(ReadError::Other),
            None if self.dirs.contains(&inside) => Err(ReadError::IsDir),
            None => Err(ReadError::Missing),
        }
    }

    fn stat(&self, path: &Path) -> Option<Stat> {
        let inside = self.inside(path)?;
        match self.files.get(&inside) {
            Some((_, executable)) => Some(Stat::File { executable: *executable }),
            None => self.dirs.contains(&inside).then_some(Stat::Dir),
        }
    }

    fn refusal(&self, path: &Path) -> Option<ReadError> {
        self.inside(path).is_none().then(|| ReadError::Outside(self.root.display().to_string()))
    }

    fn list(&self, dir: &Path) -> Vec<String> {
        let Some(dir) = self.inside(dir) else { return Vec::new() };
        let inside = self.files.keys().filter_map(|path| path.strip_prefix(&dir).ok()?.components().next());
        let names: BTreeSet<String> = inside.map(|c| c.as_os_str().to_string_lossy().into_owned()).collect();
        names.into_iter().collect()
    }
}
