//! Waiting for a file to change. Times of files are compared every now and then: that works on every system and file
//! system, and the questions of the compiler have shown which files matter.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    thread::sleep,
    time::{Duration, Instant, SystemTime},
};

use crate::source::{Files, ReadError, Stat};

/// How often to look, at most.
const INTERVAL: Duration = Duration::from_millis(150);
/// An editor may write several files, or one in several steps.
const SETTLE: Duration = Duration::from_millis(60);

/// Files, and what was asked of them.
pub struct Watched<'a> {
    files: &'a dyn Files,
    seen: Mutex<HashMap<PathBuf, Stamp>>,
}

/// When a file, or the list of a folder, was last changed; `None` where there is none.
type Stamp = Option<(SystemTime, u64)>;

impl<'a> Watched<'a> {
    pub fn new(files: &'a dyn Files) -> Self {
        Self { files, seen: Mutex::default() }
    }

    /// Returns when something that was asked for is not as it was when it was asked for.
    pub fn wait(&self) {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let begun = Instant::now();
            if seen.iter().any(|(path, then)| stamp(path) != *then) {
                return sleep(SETTLE);
            }
            // However many files there are, looking at them takes a small part of a processor.
            sleep(INTERVAL.max(begun.elapsed() * 20));
        }
    }

    fn note(&self, path: &Path) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if !seen.contains_key(path) {
            seen.insert(path.to_owned(), stamp(path));
        }
    }
}

fn stamp(path: &Path) -> Stamp {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let meta = fs::metadata(path).ok()?;
    Some((meta.modified().ok()?, meta.len()))
}

impl Files for Watched<'_> {
    fn read(&self, path: &Path) -> Result<Vec<u8>, ReadError> {
        self.note(path);
        self.files.read(path)
    }

    fn stat(&self, path: &Path) -> Option<Stat> {
        self.note(path);
        self.files.stat(path)
    }

    fn refusal(&self, path: &Path) -> Option<ReadError> {
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
}
