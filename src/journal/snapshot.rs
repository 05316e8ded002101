//! A snapshot of the files that a plan was made from: with it the plan can be made again after files have changed or
//! disappeared.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use serde::{Deserialize, Serialize};

use crate::{
    secrets::Secrets,
    source::{Files, ReadError, Stat},
};

/// Files larger than this, in bytes, are not stored; they are read from the disk again.
const LARGEST: usize = 1 << 20;

/// What was read from the disk. Everything else is read from the disk again.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Snapshot {
    texts: BTreeMap<PathBuf, String>,
    stats: BTreeMap<PathBuf, Seen>,
    lists: BTreeMap<PathBuf, Vec<String>>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Seen {
    Missing,
    Dir,
    File,
    Executable,
}

impl Snapshot {
    /// Drops files that contain a secret.
    pub fn without(mut self, secrets: &Secrets) -> Self {
        self.texts.retain(|_, text| matches!(secrets.mask(text), std::borrow::Cow::Borrowed(_)));
        self
    }

    /// Layers the snapshot over `files`, which provide what it does not contain.
    pub fn over<'a>(&'a self, files: &'a dyn Files) -> impl Files + 'a {
        Restored { snapshot: self, files }
    }
}

struct Restored<'a> {
    snapshot: &'a Snapshot,
    files: &'a dyn Files,
}

impl Files for Restored<'_> {
    fn read(&self, path: &Path) -> Result<Vec<u8>, ReadError> {
        match self.snapshot.texts.get(path) {
            Some(text) => Ok(text.clone().into_bytes()),
            None => self.files.read(path),
        }
    }

    fn stat(&self, path: &Path) -> Option<Stat> {
        match self.snapshot.stats.get(path) {
            Some(Seen::Missing) => None,
            Some(Seen::Dir) => Some(Stat::Dir),
            Some(Seen::File) => Some(Stat::File { executable: false }),
            Some(Seen::Executable) => Some(Stat::File { executable: true }),
            None => self.files.stat(path),
        }
    }

    fn refusal(&self, path: &Path) -> Option<ReadError> {
        match self.snapshot.texts.contains_key(path) {
            true => None,
            false => self.files.refusal(path),
        }
    }

    fn list(&self, dir: &Path) -> Vec<String> {
        match self.snapshot.lists.get(dir) {
            Some(names) => names.clone(),
            None => self.files.list(dir),
        }
    }
}

/// Files that are recorded while a plan is made from them.
pub struct Watched<'a> {
    files: &'a dyn Files,
    seen: Mutex<Snapshot>,
}

impl<'a> Watched<'a> {
    /// Records everything that is read from `files`.
    pub fn new(files: &'a dyn Files) -> Self {
        Self { files, seen: Mutex::default() }
    }

    /// Returns what was read.
    pub fn into_snapshot(self) -> Snapshot {
        self.seen.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn seen(&self) -> MutexGuard<'_, Snapshot> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Files for Watched<'_> {
    fn read(&self, path: &Path) -> Result<Vec<u8>, ReadError> {
        let read = self.files.read(path);
        if let Ok(bytes) = &read
            && bytes.len() <= LARGEST
            && let (Some(_), Ok(text)) = (path.to_str(), str::from_utf8(bytes))
        {
            self.seen().texts.insert(path.to_owned(), text.to_owned());
        }
        read
    }

    fn stat(&self, path: &Path) -> Option<Stat> {
        let stat = self.files.stat(path);
        let seen = match stat {
            None => Seen::Missing,
            Some(Stat::Dir) => Seen::Dir,
            Some(Stat::File { executable: false }) => Seen::File,
            Some(Stat::File { executable: true }) => Seen::Executable,
        };
        if path.to_str().is_some() {
            self.seen().stats.insert(path.to_owned(), seen);
        }
        stat
    }

    fn refusal(&self, path: &Path) -> Option<ReadError> {
        self.files.refusal(path)
    }

    fn list(&self, dir: &Path) -> Vec<String> {
        let names = self.files.list(dir);
        if dir.to_str().is_some() {
            self.seen().lists.insert(dir.to_owned(), names.clone());
        }
        names
    }
}
