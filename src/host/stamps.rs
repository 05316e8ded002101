//! Which files have changed since they were queried.
#![expect(clippy::disallowed_methods, reason = "this is a door to the disk")]

use std::{
    collections::hash_map::Entry,
    ffi::{OsStr, OsString},
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::source::{Files, ReadError, Stat, normalize};

/// The paths that were queried, and the state of each at that time.
#[derive(Debug, Default)]
pub struct Stamps {
    paths: Mutex<FxHashMap<OsString, Stamp>>,
    /// The entries of the directories among them.
    folders: Mutex<FxHashMap<OsString, Arc<[(String, bool)]>>>,
    places: Mutex<Places>,
}

/// What else is known of the paths.
#[derive(Debug, Default)]
struct Places {
    /// Paths that were not [taken](Stamps::take_new) yet.
    new: Vec<PathBuf>,
    /// Paths that are not spelled in the shortest way.
    odd: Vec<PathBuf>,
    /// Directories that were checked for being links.
    plain: FxHashSet<OsString>,
    /// Links in directories that were listed: their targets decide whether they count as directories.
    entries: FxHashSet<OsString>,
    /// Whether any path is a link, leads through one, or is one of several names of a file.
    links: bool,
}

impl Places {
    fn add(&mut self, path: &Path, is_odd: bool, is_link: bool) {
        self.new.push(path.to_owned());
        if is_odd {
            self.odd.push(path.to_owned());
        }
        self.links |= is_link;
        for folder in path.ancestors().skip(1) {
            if self.links || !self.plain.insert(folder.as_os_str().to_owned()) {
                break;
            }
            self.links |= is_symlink(folder);
        }
    }
}

fn is_symlink(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| meta.is_symlink())
}

/// After this time, another change of a file has another timestamp, except on coarse file systems.
pub const SETTLED: Duration = Duration::from_millis(20);

/// Whether something that was last changed at this time, in nanoseconds, can change again with the same timestamp.
pub(super) fn is_young(last: i128) -> bool {
    /// Timestamps of most file systems are exact to some milliseconds, and those of a few to two seconds.
    const FINE: i128 = SETTLED.as_nanos() as i128;
    const COARSE: i128 = 2_000_000_000;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos() as i128);
    // A time in the future is not the time of a change.
    (0..if last % 1_000_000_000 == 0 { COARSE } else { FINE }).contains(&(now - last))
}

/// What shows that a path still leads to the same content; `file` is `None` if it leads nowhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stamp {
    file: Option<File>,
    /// Whether it was changed so recently that another change may look the same.
    young: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct File {
    place: (u64, u64),
    size: u64,
    mode: u32,
    /// How many names a file has; 1 for a directory.
    names: u64,
    /// In nanoseconds: when the content changed, and when anything about the file changed.
    times: (i128, i128),
}

impl Stamps {
    /// The paths that lead to something else than before, or may do so. From now on, their current state counts.
    pub fn changed(&self) -> FxHashSet<PathBuf> {
        let differs = |(path, stamp): (&OsString, &mut Stamp)| stamp.renew(path).then(|| PathBuf::from(path));
        let mut changed = self.known().par_iter_mut().filter_map(differs).collect();
        self.forget_folders(&mut changed);
        changed
    }

    /// The same, if only these paths can have changed.
    pub fn changed_of(&self, named: &FxHashSet<PathBuf>) -> FxHashSet<PathBuf> {
        let mut known = self.known();
        let differs =
            |path: &&PathBuf| known.get_mut(path.as_os_str()).is_some_and(|stamp| stamp.renew(path.as_os_str()));
        let mut changed = named.iter().filter(differs).cloned().collect();
        drop(known);
        self.forget_folders(&mut changed);
        changed
    }

    /// Forgets the entries of directories that have changed, or that contain a link that has changed.
    fn forget_folders(&self, changed: &mut FxHashSet<PathBuf>) {
        let holds_link = {
            let places = self.places();
            let links = changed.iter().filter(|path| places.entries.contains(path.as_os_str()));
            links.filter_map(|path| path.parent()).map(Path::to_owned).collect::<Vec<_>>()
        };
        changed.extend(holds_link);
        let mut folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
        for path in &*changed {
            folders.remove(path.as_os_str());
        }
    }

    /// The ways in which this path was spelled when it was queried.
    pub fn spelt(&self, path: &Path) -> Vec<PathBuf> {
        let odd = self.places().odd.iter().filter(|spelt| normalize(spelt) == path).cloned().collect::<Vec<_>>();
        let plain = self.known().contains_key(path.as_os_str()).then(|| path.to_owned());
        odd.into_iter().chain(plain).collect()
    }

    /// All paths that were queried.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.known().keys().map(PathBuf::from).collect()
    }

    /// The paths that were queried since the last call.
    pub fn take_new(&self) -> Vec<PathBuf> {
        std::mem::take(&mut self.places().new)
    }

    /// Whether a file that was queried may change under a name that was not.
    pub fn has_links(&self) -> bool {
        self.places().links
    }

    /// Whether any path leads to something else now. A path that may do so is reported as soon as no further change can be missed.
    pub fn differ(&self) -> bool {
        self.known().par_iter().any(|(path, stamp)| stamp.differs(path))
    }

    /// The same, if only these paths can have changed.
    pub fn differ_of(&self, named: &FxHashSet<PathBuf>) -> bool {
        let known = self.known();
        named.iter().any(|path| known.get(path.as_os_str()).is_some_and(|stamp| stamp.differs(path.as_os_str())))
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> MutexGuard<'_, FxHashMap<OsString, Stamp>> {
        self.paths.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a stamp before the path is queried, so that a change in between is noticed.
    fn note(&self, path: &Path) {
        if !self.known().contains_key(path.as_os_str()) {
            let stamp = Stamp::of(path);
            let is_odd = normalize(path).as_os_str() != path.as_os_str();
            let is_link = stamp.file.is_some_and(|file| file.names > 1) || is_symlink(path);
            if let Entry::Vacant(place) = self.known().entry(path.as_os_str().to_owned()) {
                place.insert(stamp);
                self.places().add(path, is_odd, is_link);
            }
        }
    }

    /// The entries of a directory, which is read once for as long as it does not change.
    fn entries(&self, dir: &Path, files: &dyn Files) -> Arc<[(String, bool)]> {
        self.note(dir);
        let folders = || self.folders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = folders().get(dir.as_os_str()) {
            return Arc::clone(known);
        }
        // The target of a link can change although the directory does not.
        let entries = files.entries_and(dir, &|link| {
            self.note(link);
            self.places().entries.insert(link.as_os_str().to_owned());
        });
        folders().insert(dir.as_os_str().to_owned(), Arc::clone(&entries));
        entries
    }
}

impl Stamp {
    /// Whether the path leads to something else now, or may do so. From now on, its current state counts.
    fn renew(&mut self, path: &OsStr) -> bool {
        let now = Self::of(Path::new(path));
        let differs = self.young || now != *self;
        *self = now;
        differs
    }

    fn differs(&self, path: &OsStr) -> bool {
        let now = Self::of(Path::new(path));
        now.file != self.file || self.young && !now.young
    }

    fn of(path: &Path) -> Self {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let file = fs::metadata(path).ok().map(|meta| File::of(&meta));
        let young = file.is_some_and(|file| is_young(file.times.0.max(file.times.1)));
        Self { file, young }
    }
}

impl File {
    #[cfg(unix)]
    fn of(meta: &fs::Metadata) -> Self {
        use std::os::unix::fs::MetadataExt as _;
        let nanoseconds = |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
        Self {
            place: (meta.dev(), meta.ino()),
            size: meta.size(),
            mode: meta.mode(),
            names: if meta.is_dir() { 1 } else { meta.nlink() },
            times: (nanoseconds(meta.mtime(), meta.mtime_nsec()), nanoseconds(meta.ctime(), meta.ctime_nsec())),
        }
    }

    #[cfg(not(unix))]
    fn of(meta: &fs::Metadata) -> Self {
        let since = meta.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let time = since.unwrap_or(Duration::ZERO).as_nanos() as i128;
        Self { place: (0, 0), size: meta.len(), mode: u32::from(meta.is_dir()), names: 1, times: (time, time) }
    }
}

/// Files that stamp each path before it is queried.
pub struct Stamped<'a> {
    pub files: &'a dyn Files,
    pub stamps: &'a Stamps,
}

impl Files for Stamped<'_> {
    fn read(&self, path: &Path) -> Result<Vec<u8>, ReadError> {
        self.stamps.note(path);
        self.files.read(path)
    }

    fn stat(&self, path: &Path) -> Option<Stat> {
        self.stamps.note(path);
        self.files.stat(path)
    }

    fn refusal(&self, path: &Path) -> Option<ReadError> {
        self.stamps.note(path);
        self.files.refusal(path)
    }

    fn list(&self, dir: &Path) -> Vec<String> {
        self.stamps.note(dir);
        self.files.list(dir)
    }

    fn entries(&self, dir: &Path) -> Arc<[(String, bool)]> {
        self.stamps.entries(dir, self.files)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs::File as Opened, thread::sleep};

    use super::*;
    use crate::host::disk::Disk;

    #[test]
    fn what_changes_is_reported_once() {
        let dir = std::env::temp_dir().join(format!("gevals-stamps-{}", crate::random::word()));
        fs::create_dir_all(dir.join("elsewhere/target")).unwrap();
        let (file, link, gone) = (dir.join("file"), dir.join("link"), dir.join("gone"));
        fs::write(&file, "old").unwrap();
        let tomorrow = SystemTime::now() + Duration::from_secs(86_400);
        Opened::options().write(true).open(&file).unwrap().set_modified(tomorrow).unwrap();
        let stamps = Stamps::default();
        let files = Stamped { files: &Disk, stamps: &stamps };
        sleep(SETTLED * 2);
        files.read(&file).unwrap();
        files.stat(&gone);
        assert!(!stamps.differ() && stamps.changed().is_empty(), "nothing has changed, whatever the time of a file");
        fs::write(&file, "new").unwrap();
        fs::write(&gone, "").unwrap();
        sleep(SETTLED * 2);
        assert!(stamps.differ());
        assert_eq!(stamps.changed(), FxHashSet::from_iter([file, gone]));
        assert!(!stamps.differ() && stamps.changed().is_empty());
        // A link that leads to a directory, and then to a file: the directory that contains the link does not change.
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink("elsewhere/target", &link).unwrap();
            sleep(SETTLED * 2);
            let is_dir =
                |entries: &[(String, bool)]| entries.iter().find(|(name, _)| name == "link").map(|(_, is)| *is);
            assert_eq!(is_dir(&files.entries(&dir)), Some(true));
            fs::remove_dir(dir.join("elsewhere/target")).unwrap();
            fs::write(dir.join("elsewhere/target"), "").unwrap();
            assert!(stamps.changed().contains(&link));
            assert_eq!(is_dir(&files.entries(&dir)), Some(false));
        }
        fs::remove_dir_all(&dir).unwrap();
    }
}
