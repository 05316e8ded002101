//! What was made from files, kept until one of them changes: an editor compiles a suite again after every keystroke, but
//! only what the changed files affect.

use std::{
    ffi::{OsStr, OsString},
    hash::Hash,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use rustc_hash::{FxHashMap, FxHashSet};

use crate::source::{FileId, Files, ReadError, Sources, Stat};

/// Files that record the paths which are queried: what is made with them depends on the answers, and on nothing else.
pub struct Asked<'a> {
    files: &'a dyn Files,
    paths: Mutex<FxHashSet<OsString>>,
}

impl<'a> Asked<'a> {
    /// Wraps files. Nothing has been queried so far.
    pub fn of(files: &'a dyn Files) -> Self {
        Self { files, paths: Mutex::default() }
    }

    /// The paths that were queried since the last call.
    pub fn take(&self) -> Vec<PathBuf> {
        std::mem::take(&mut *self.paths.lock().unwrap_or_else(PoisonError::into_inner))
            .into_iter()
            .map(PathBuf::from)
            .collect()
    }
}

impl Files for Asked<'_> {
    fn read(&self, path: &Path) -> Result<Vec<u8>, ReadError> {
        self.note(path);
        self.files.read(path)
    }

    fn stat(&self, path: &Path) -> Option<Stat> {
        self.note(path);
        self.files.stat(path)
    }

    fn refusal(&self, path: &Path) -> Option<ReadError> {
        self.note(path);
        self.files.refusal(path)
    }

    fn list(&self, dir: &Path) -> Vec<String> {
        self.note(dir);
        self.files.list(dir)
    }

    fn entries(&self, dir: &Path) -> Arc<[(String, bool)]> {
        self.note(dir);
        self.files.entries(dir)
    }

    fn note(&self, path: &Path) {
        let mut paths = self.paths.lock().unwrap_or_else(PoisonError::into_inner);
        if !paths.contains(path.as_os_str()) {
            paths.insert(path.as_os_str().to_owned());
        }
    }
}

/// What something was made from.
#[derive(Debug, Default)]
pub struct Origin {
    /// The paths that were queried.
    pub asked: Vec<PathBuf>,
    /// Those of them whose texts are known.
    pub texts: Vec<FileId>,
}

impl Origin {
    /// Adds what something else was made from.
    pub fn extend(&mut self, other: Self) {
        self.asked.extend(other.asked);
        self.texts.extend(other.texts);
    }
}

/// Values made from files, by key.
#[derive(Debug)]
pub struct Memo<K, V>(Mutex<FxHashMap<K, Kept<V>>>);

#[derive(Debug)]
struct Kept<V> {
    value: V,
    /// The paths it was made from.
    from: Vec<PathBuf>,
    /// Those of them whose texts are known.
    texts: Vec<FileId>,
    /// Whether it was used in this compilation.
    used: bool,
}

impl<K, V> Default for Memo<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Hash + Eq, V: Clone> Memo<K, V> {
    /// Returns what is kept under this key, if it `fits`, and marks it as used.
    pub fn get(&self, key: &K, sources: &Sources, fits: impl FnOnce(&V) -> bool) -> Option<V> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = all.get_mut(key).filter(|kept| fits(&kept.value))?;
        kept.used = true;
        sources.keep(&kept.texts);
        Some(kept.value.clone())
    }

    /// Returns what is kept under this key, if it `fits`; otherwise makes it with the files, and keeps it.
    pub fn get_or_make(
        &self,
        key: K,
        sources: &Sources,
        files: &dyn Files,
        fits: impl FnOnce(&V) -> bool,
        make: impl FnOnce(&dyn Files) -> V,
    ) -> V {
        if let Some(kept) = self.get(&key, sources, fits) {
            return kept;
        }
        let asked = Asked::of(files);
        let made = make(&asked);
        self.put(key, made.clone(), asked.take(), sources);
        made
    }

    /// Keeps what was made from the answers about these paths.
    pub fn put(&self, key: K, value: V, from: Vec<PathBuf>, sources: &Sources) {
        let texts = sources.known(&from);
        let kept = Kept { value, from, texts, used: true };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key, kept);
    }

    /// Removes and returns everything that is kept: its key, its value, and what it was made from.
    pub fn take(&self) -> impl Iterator<Item = (K, V, Origin)> + use<K, V> {
        let all = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        all.into_iter().map(|(key, Kept { value, from, texts, .. })| (key, value, Origin { asked: from, texts }))
    }

    /// Forgets what was made from files that have changed, and what the last compilation did not use.
    pub fn forget(&self, changed: &FxHashSet<PathBuf>) {
        // By their spelling: to compare paths component by component takes ten times as long.
        let changed: FxHashSet<&OsStr> = changed.iter().map(|path| path.as_os_str()).collect();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, kept| {
            let differs = || kept.from.iter().any(|path| changed.contains(path.as_os_str()));
            std::mem::take(&mut kept.used) && (changed.is_empty() || !differs())
        });
    }

    /// Forgets everything.
    pub fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
