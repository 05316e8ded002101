//! Waiting for a file to change. The questions of the compiler have shown which files matter; the system says when their folders
//! change. Where it cannot (too many folders, a file system of another machine), times of files are compared every now and then.

use std::{
    collections::{BTreeSet, HashMap},
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread::sleep,
    time::{Duration, Instant, SystemTime},
};

use notify::{RecursiveMode, Watcher, recommended_watcher};

use crate::source::{Files, ReadError, Stat};

/// How often to look, at most, where the system says nothing.
const INTERVAL: Duration = Duration::from_millis(150);
/// How often to look although the system would say.
const DOUBT: Duration = Duration::from_secs(5);
/// An editor may write several files, or one in several steps.
const SETTLE: Duration = Duration::from_millis(15);

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
        let (sender, changes) = mpsc::channel();
        // It watches for as long as it lives.
        let watcher = watcher(&seen, move || sender.send(()).is_ok());
        loop {
            let begun = Instant::now();
            if seen.iter().any(|(path, then)| stamp(path) != *then) {
                return sleep(SETTLE);
            }
            // However many files there are, looking at them takes a small part of a processor.
            let pause = begun.elapsed() * 20;
            match &watcher {
                Some(_) => {
                    // Something else has changed in their folders: the next such change can wait.
                    sleep(pause.min(INTERVAL));
                    let _ = changes.recv_timeout(DOUBT);
                    while changes.try_recv().is_ok() {}
                }
                None => sleep(INTERVAL.max(pause)),
            }
        }
    }

    fn note(&self, path: &Path) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if !seen.contains_key(path) {
            seen.insert(path.to_owned(), stamp(path));
        }
    }
}

/// Calls for every change in the folders of these files, and in those that are folders themselves; `None` where the system does not
/// say.
fn watcher(
    seen: &HashMap<PathBuf, Stamp>,
    call: impl Fn() -> bool + Send + 'static,
) -> Option<notify::RecommendedWatcher> {
    let told = move |event: notify::Result<notify::Event>| {
        // That a file is read is no change.
        if event.is_ok_and(|event| !event.kind.is_access()) {
            let _ = call();
        }
    };
    let mut watcher = recommended_watcher(told).ok()?;
    let mut folders = BTreeSet::new();
    for path in seen.keys() {
        // A folder that is not there appears in the nearest one that is.
        let mut folder = if path.is_dir() { Some(path.as_path()) } else { path.parent() };
        while let Some(path) = folder.filter(|path| !path.as_os_str().is_empty() && !path.is_dir()) {
            folder = path.parent();
        }
        folders.insert(folder.filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_owned());
    }
    folders.iter().try_for_each(|folder| watcher.watch(folder, RecursiveMode::NonRecursive)).ok()?;
    Some(watcher)
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
