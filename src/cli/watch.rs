//! What the system says of the folders of the files that matter. It tells which files are to be looked at; where it cannot (too many
//! folders, a file system of another machine, links), all are.

use std::{
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, channel},
    time::{Duration, Instant},
};

use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher as _, recommended_watcher};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::host::stamps::Stamps;

/// How often to look at everything although the system would say.
const DOUBT: Duration = Duration::from_secs(5);

/// The folders of the files that matter, and what the system says of them.
#[derive(Debug)]
pub struct Watch {
    watcher: Option<RecommendedWatcher>,
    told: Receiver<notify::Result<Event>>,
    /// The folders that are watched: as the system calls them, and as they were asked for.
    folders: FxHashMap<PathBuf, PathBuf>,
    here: PathBuf,
    /// What is to be looked at.
    named: FxHashSet<PathBuf>,
    /// When everything was looked at; none where that is to be done again.
    looked: Option<Instant>,
    /// Something was told since somebody looked.
    has_heard: bool,
    /// Folders have come or gone.
    is_old: bool,
}

impl Default for Watch {
    fn default() -> Self {
        let (sender, told) = channel();
        let tell = move |event: notify::Result<Event>| {
            // That a file is read is no change.
            if !event.as_ref().is_ok_and(|event| event.kind.is_access()) {
                let _ = sender.send(event);
            }
        };
        Self {
            watcher: recommended_watcher(tell).ok(),
            told,
            folders: FxHashMap::default(),
            here: std::env::current_dir().unwrap_or_default(),
            named: FxHashSet::default(),
            looked: None,
            has_heard: false,
            is_old: false,
        }
    }
}

impl Watch {
    /// Watches the folders of everything that was asked for. What has changed in a new one before that is found by looking at everything
    /// once more.
    pub fn follow(&mut self, stamps: &Stamps) {
        let mut paths = stamps.take_new();
        if self.is_old {
            *self = Self::default();
            paths = stamps.paths();
        }
        for path in paths {
            // A folder that is not there appears in the nearest one that is.
            let mut folder = if path.is_dir() { Some(path.as_path()) } else { path.parent() };
            while let Some(path) = folder.filter(|path| !path.as_os_str().is_empty() && !path.is_dir()) {
                folder = path.parent();
            }
            let folder = folder.unwrap_or(Path::new(""));
            let system = self.here.join(folder);
            if self.folders.contains_key(&system) {
                continue;
            }
            let Some(watcher) = &mut self.watcher else { return };
            if watcher.watch(&system, RecursiveMode::NonRecursive).is_err() {
                self.watcher = None;
                return;
            }
            self.looked = None;
            self.folders.insert(system, folder.to_owned());
        }
    }

    /// Whether the system says what changes.
    pub fn is_told(&self) -> bool {
        self.watcher.is_some()
    }

    /// Whether something was told since this was last asked.
    pub fn has_heard(&mut self) -> bool {
        self.take();
        std::mem::take(&mut self.has_heard)
    }

    /// What is to be looked at by now; `None` for everything.
    pub fn named(&mut self, stamps: &Stamps) -> Option<&FxHashSet<PathBuf>> {
        self.take();
        let is_sure = self.is_told() && !stamps.has_links() && self.looked.is_some_and(|at| at.elapsed() < DOUBT);
        is_sure.then_some(&self.named)
    }

    /// Waits until something is told, at most until everything is looked at anyway.
    pub fn wait(&mut self) {
        if let Ok(event) = self.told.recv_timeout(DOUBT) {
            self.hear(event);
        }
    }

    /// Everything was looked at, or what was named.
    pub fn looked(&mut self, at_everything: bool) {
        self.named.clear();
        if at_everything {
            self.looked = Some(Instant::now());
        }
    }

    /// Everything is to be looked at.
    pub fn doubt(&mut self) {
        self.looked = None;
    }

    fn take(&mut self) {
        while let Ok(event) = self.told.try_recv() {
            self.hear(event);
        }
    }

    fn hear(&mut self, event: notify::Result<Event>) {
        self.has_heard = true;
        let clear = event.ok().filter(|event| !event.need_rescan() && !event.paths.is_empty());
        if !clear.is_some_and(|event| event.paths.iter().all(|path| self.name(path))) {
            self.looked = None;
            self.is_old = true;
        }
    }

    /// Notes a file and the folder that holds it; not where what changes is a folder, with all that is in it.
    fn name(&mut self, path: &Path) -> bool {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return false };
        if self.folders.contains_key(path) || path.is_dir() {
            return false;
        }
        let Some(folder) = self.folders.get(folder) else { return false };
        self.named.extend([folder.join(name), folder.clone()]);
        if folder.as_os_str().is_empty() {
            self.named.extend([Path::new(".").join(name), PathBuf::from(".")]);
        }
        true
    }
}
