//! Notifications of the system about the directories of relevant files. They determine which files are checked for
//! changes. If that is not possible (too many directories, a file system of another machine, links), all files are
//! checked.

use std::{
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, channel},
    thread::{JoinHandle, spawn},
    time::{Duration, Instant},
};

use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher as _, recommended_watcher};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::host::stamps::Stamps;

/// More paths than this are added in the background: to watch thousands of directories takes most of a second.
const FEW: usize = 1000;
/// How often everything is checked despite notifications.
const DOUBT: Duration = Duration::from_secs(5);

/// The watched directories, and the notifications about them.
#[derive(Debug)]
pub struct Watch {
    watcher: Option<RecommendedWatcher>,
    told: Receiver<notify::Result<Event>>,
    folders: Folders,
    /// A thread that owns them and the watcher while it adds directories.
    coming: Option<JoinHandle<(Option<RecommendedWatcher>, Folders)>>,
    here: PathBuf,
    /// The paths to check.
    named: FxHashSet<PathBuf>,
    /// When everything was checked; `None` if that must be repeated.
    looked: Option<Instant>,
    /// Whether all changes since then were reported.
    is_sure: bool,
    /// The rest of the current round, and when the round began.
    round: Vec<PathBuf>,
    begun: Option<Instant>,
    /// Whether there was a notification since the last query.
    has_heard: bool,
    /// Directories were created or removed.
    is_old: bool,
}

/// The watched directories: their absolute paths, and the paths that were asked for.
type Folders = FxHashMap<PathBuf, PathBuf>;

impl Default for Watch {
    fn default() -> Self {
        let (sender, told) = channel();
        let tell = move |event: notify::Result<Event>| {
            // Reading a file is not a change.
            if !event.as_ref().is_ok_and(|event| event.kind.is_access()) {
                let _ = sender.send(event);
            }
        };
        Self {
            watcher: recommended_watcher(tell).ok(),
            told,
            folders: Folders::default(),
            coming: None,
            here: std::env::current_dir().unwrap_or_default(),
            named: FxHashSet::default(),
            looked: None,
            is_sure: false,
            round: Vec::new(),
            begun: None,
            has_heard: false,
            is_old: false,
        }
    }
}

impl Watch {
    /// Watches the directories of everything that was asked for. Earlier changes in a new directory are found by
    /// checking everything once more.
    pub fn follow(&mut self, stamps: &Stamps) {
        if let Some(coming) = self.coming.take() {
            self.adopt(coming);
        }
        let paths = self.unfollowed(stamps);
        self.watch(paths);
    }

    /// Like [`follow`](Self::follow), but does not wait until thousands of directories are watched.
    pub fn follow_beside(&mut self, stamps: &Stamps) {
        self.take();
        if self.coming.is_some() {
            return;
        }
        let paths = self.unfollowed(stamps);
        if paths.len() <= FEW || self.watcher.is_none() {
            self.watch(paths);
            return;
        }
        let (mut watcher, mut folders) = (self.watcher.take(), std::mem::take(&mut self.folders));
        let here = self.here.clone();
        self.coming = Some(spawn(move || {
            watch(&mut watcher, &mut folders, &here, paths);
            (watcher, folders)
        }));
    }

    fn watch(&mut self, paths: Vec<PathBuf>) {
        let known = self.folders.len();
        watch(&mut self.watcher, &mut self.folders, &self.here, paths);
        if self.folders.len() > known {
            (self.looked, self.begun) = (None, None);
        }
    }

    /// The paths that are not followed yet.
    fn unfollowed(&mut self, stamps: &Stamps) -> Vec<PathBuf> {
        let paths = stamps.take_new();
        match std::mem::take(&mut self.is_old) {
            true => {
                *self = Self::default();
                stamps.paths()
            }
            false => paths,
        }
    }

    fn adopt(&mut self, coming: JoinHandle<(Option<RecommendedWatcher>, Folders)>) {
        (self.watcher, self.folders) = coming.join().unwrap_or_default();
        (self.looked, self.begun) = (None, None);
        self.has_heard = true;
    }

    /// Whether the system reports changes.
    pub fn is_told(&self) -> bool {
        self.watcher.is_some()
    }

    /// Whether there was a notification since the last call.
    pub fn has_heard(&mut self) -> bool {
        self.take();
        std::mem::take(&mut self.has_heard)
    }

    /// The paths to check now; `None` for all.
    pub fn named(&mut self, stamps: &Stamps) -> Option<&FxHashSet<PathBuf>> {
        self.take();
        let is_late = self.looked.is_none_or(|at| at.elapsed() >= DOUBT);
        (self.is_clear(stamps) && !is_late).then_some(&self.named)
    }

    /// Like [`named`](Self::named), for callers that must respond fast: everything is checked in rounds despite
    /// notifications, and each call takes up to `part` files of a round.
    pub fn named_and_some(&mut self, stamps: &Stamps, part: usize) -> Option<&FxHashSet<PathBuf>> {
        self.take();
        if !self.is_clear(stamps) {
            return None;
        }
        if self.round.is_empty() && self.begun.is_none_or(|at| at.elapsed() >= DOUBT) {
            self.begun = Some(Instant::now());
            self.round = stamps.paths();
        }
        let part = self.part(part);
        self.named.extend(part);
        Some(&self.named)
    }

    /// Whether one of the next `part` files of the current round has changed. If so, they are among the next paths to
    /// check.
    pub fn differs_in_round(&mut self, stamps: &Stamps, part: usize) -> bool {
        let part = self.part(part);
        let differs = stamps.differ_of(&part);
        if differs {
            self.named.extend(part);
        }
        differs
    }

    fn part(&mut self, part: usize) -> FxHashSet<PathBuf> {
        self.round.drain(self.round.len().saturating_sub(part)..).collect()
    }

    /// Whether the system reports all changes.
    fn is_clear(&self, stamps: &Stamps) -> bool {
        (self.is_told() || self.coming.is_some()) && !stamps.has_links() && self.is_sure
    }

    /// Records a file that a client says was created, changed or removed.
    pub fn note(&mut self, path: &Path) {
        match path.is_file() {
            true => self.named.extend([Some(path), path.parent()].into_iter().flatten().map(Path::to_owned)),
            // The files of a removed directory are not known.
            false => self.doubt(),
        }
    }

    /// Next time, everything is checked.
    pub fn doubt(&mut self) {
        self.is_sure = false;
    }

    /// Waits for a notification, at most until everything is checked anyway.
    pub fn wait(&mut self) {
        if let Ok(event) = self.told.recv_timeout(DOUBT) {
            self.hear(event);
        }
    }

    /// Records that everything was checked, or the named paths.
    pub fn looked(&mut self, at_everything: bool) {
        self.named.clear();
        if at_everything {
            (self.looked, self.is_sure) = (Some(Instant::now()), true);
            self.round.clear();
        }
    }

    fn take(&mut self) {
        if let Some(coming) = self.coming.take_if(|coming| coming.is_finished()) {
            self.adopt(coming);
        }
        if self.coming.is_some() {
            return;
        }
        while let Ok(event) = self.told.try_recv() {
            self.hear(event);
        }
    }

    fn hear(&mut self, event: notify::Result<Event>) {
        self.has_heard = true;
        let clear = event.ok().filter(|event| !event.need_rescan() && !event.paths.is_empty());
        if !clear.is_some_and(|event| event.paths.iter().all(|path| self.name(path))) {
            self.doubt();
            self.is_old = true;
        }
    }

    /// Records a file and its directory. Returns `false` for a directory, in which anything may have changed, and for a
    /// file in a directory that is not watched.
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

fn watch(watcher: &mut Option<RecommendedWatcher>, folders: &mut Folders, here: &Path, paths: Vec<PathBuf>) {
    for path in paths {
        // A missing directory will appear in its nearest existing ancestor.
        let mut folder = if path.is_dir() { Some(path.as_path()) } else { path.parent() };
        while let Some(path) = folder.filter(|path| !path.as_os_str().is_empty() && !path.is_dir()) {
            folder = path.parent();
        }
        let folder = folder.unwrap_or(Path::new(""));
        let system = here.join(folder);
        if folders.contains_key(&system) {
            continue;
        }
        let Some(known) = watcher else { return };
        if known.watch(&system, RecursiveMode::NonRecursive).is_err() {
            *watcher = None;
            return;
        }
        folders.insert(system, folder.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, thread::sleep};

    use super::*;
    use crate::{
        host::{
            disk::Disk,
            stamps::{SETTLED, Stamped},
        },
        source::Files as _,
    };

    /// A directory with ten files that were asked for, and a watcher that has checked all of them.
    fn watched(dir: &Path) -> (Stamps, Watch) {
        fs::create_dir_all(dir).unwrap();
        let stamps = Stamps::default();
        for nth in 0..10 {
            fs::write(dir.join(nth.to_string()), "old").unwrap();
        }
        sleep(SETTLED * 2);
        for nth in 0..10 {
            Stamped { files: &Disk, stamps: &stamps }.read(&dir.join(nth.to_string())).unwrap();
        }
        let mut watch = Watch::default();
        watch.follow(&stamps);
        watch.looked(true);
        (stamps, watch)
    }

    #[test]
    fn changes_without_a_notification_are_found_incrementally() {
        let dir = std::env::temp_dir().join(format!("gevals-watch-{}", crate::random::word()));
        let (stamps, mut watch) = watched(&dir);
        watch.told = channel().1;
        fs::write(dir.join("7"), "another").unwrap();
        sleep(SETTLED * 2);
        assert_eq!(watch.named_and_some(&stamps, 0).map(FxHashSet::len), Some(0), "a round begins");
        assert!((0..4).any(|_| watch.differs_in_round(&stamps, 3)), "in a pause");
        assert!(watch.named_and_some(&stamps, 0).unwrap().contains(&dir.join("7")));
        (watch.begun, watch.round) = (None, Vec::new());
        watch.looked(false);
        assert_eq!(watch.named_and_some(&stamps, 3).map(FxHashSet::len), Some(3), "in a compilation");
        watch.doubt();
        assert_eq!(watch.named_and_some(&stamps, 3), None, "everything");
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn watching_thousands_of_folders_does_not_block() {
        let dir = std::env::temp_dir().join(format!("gevals-watch-{}", crate::random::word()));
        let (stamps, mut watch) = watched(&dir);
        for nth in 0..=FEW {
            Stamped { files: &Disk, stamps: &stamps }.stat(&dir.join(format!("none-{nth}")));
        }
        watch.follow_beside(&stamps);
        assert!(watch.coming.is_some());
        fs::write(dir.join("4"), "another").unwrap();
        let mut asks = 0;
        // Notifications are processed once the background thread has finished.
        while !watch.named_and_some(&stamps, 0).expect("not everything").contains(&dir.join("4")) {
            sleep(SETTLED);
            asks += 1;
            assert!(asks < 500, "the change is never named");
        }
        assert!(watch.coming.is_none() && watch.has_heard());
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn files_named_by_the_editor_are_checked() {
        let dir = std::env::temp_dir().join(format!("gevals-watch-{}", crate::random::word()));
        let (stamps, mut watch) = watched(&dir);
        watch.told = channel().1;
        watch.note(&dir.join("4"));
        assert!(watch.named(&stamps).unwrap().contains(&dir.join("4")));
        fs::remove_dir_all(&dir).unwrap();
        watch.note(&dir);
        assert_eq!(watch.named(&stamps), None, "what was in a folder that is gone is not named");
    }
}
