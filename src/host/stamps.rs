//! Which files have changed since somebody asked for them.
#![expect(clippy::disallowed_methods, reason = "this is a door to the disk")]

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::source::{Files, ReadError, Stat, normalize};

/// The paths that were asked for, and how each was then.
#[derive(Debug, Default)]
pub struct Stamps(Mutex<FxHashMap<PathBuf, Stamp>>);

/// After this time another change of a file has another time, but on coarse file systems.
pub const SETTLED: Duration = Duration::from_millis(20);

/// What tells that a path leads to the same content as before; nothing where it leads nowhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stamp {
    file: Option<File>,
    /// It was changed so shortly before that another change may look the same.
    young: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct File {
    place: (u64, u64),
    size: u64,
    mode: u32,
    /// In nanoseconds: of the content, and of all that is known of the file.
    times: (i128, i128),
}

impl Stamps {
    /// The paths that lead to something else than when they were last asked for, or may do so. From now on, what is there now counts.
    pub fn changed(&self) -> FxHashSet<PathBuf> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let differs = |(path, stamp): (&PathBuf, &mut Stamp)| {
            let now = Stamp::of(path);
            let differs = stamp.young || now != *stamp;
            *stamp = now;
            differs.then(|| path.clone())
        };
        all.par_iter_mut().filter_map(differs).collect()
    }

    /// How this path was spelt when it was asked for.
    pub fn spelt(&self, path: &Path) -> Vec<PathBuf> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |spelt: &&PathBuf| spelt.file_name() == path.file_name() && normalize(spelt) == path;
        all.keys().filter(is_it).cloned().collect()
    }

    /// All paths that were asked for.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// Whether any of them leads to something else by now, or may do so.
    pub fn differ(&self) -> bool {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.par_iter().any(|(path, stamp)| stamp.young || Stamp::of(path).file != stamp.file)
    }

    /// The stamp is older than the answer: a change between the two is seen.
    fn note(&self, path: &Path) {
        if !self.0.lock().unwrap_or_else(PoisonError::into_inner).contains_key(path) {
            let stamp = Stamp::of(path);
            self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(path.to_owned()).or_insert(stamp);
        }
    }
}

impl Stamp {
    fn of(path: &Path) -> Self {
        /// Times of most file systems are exact to some milliseconds, and those of a few to two seconds.
        const FINE: i128 = SETTLED.as_nanos() as i128;
        const COARSE: i128 = 2_000_000_000;
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let file = fs::metadata(path).ok().map(|meta| File::of(&meta));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos() as i128);
        let young = file.is_some_and(|file| {
            let last = file.times.0.max(file.times.1);
            now - last < if last % 1_000_000_000 == 0 { COARSE } else { FINE }
        });
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
            times: (nanoseconds(meta.mtime(), meta.mtime_nsec()), nanoseconds(meta.ctime(), meta.ctime_nsec())),
        }
    }

    #[cfg(not(unix))]
    fn of(meta: &fs::Metadata) -> Self {
        let since = meta.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let time = since.unwrap_or(Duration::ZERO).as_nanos() as i128;
        Self { place: (0, 0), size: meta.len(), mode: u32::from(meta.is_dir()), times: (time, time) }
    }
}

/// Files, each path stamped before it is asked for.
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
        self.stamps.note(dir);
        self.files.entries(dir)
    }
}
