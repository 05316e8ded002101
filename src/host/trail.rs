//! The names on the way to everything that was asked for, and what each was then: whether what was made of the answers still holds.
#![expect(clippy::disallowed_methods, reason = "this is a door to the disk")]

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use rayon::prelude::*;
use rustc_hash::FxHashMap;

use super::stamps::is_young;
use crate::source::{Files, ReadError, Stat};

/// As many links as a system follows.
const LINKS: usize = 40;
/// So many names are looked at by one thread.
const PART: usize = 512;

/// Every name that decides what was answered, with what it was before the answer. A link is itself such a name, and so is all that it
/// leads through: each is looked at without following it, so nothing that decides is left out.
#[derive(Debug, Default)]
pub struct Trail {
    /// As they are spelt: to compare paths part by part takes ten times as long.
    names: Mutex<FxHashMap<OsString, State>>,
    /// A change may have been missed, or may be later.
    is_doubtful: AtomicBool,
}

/// What a name was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct State([u64; State::WORDS]);

impl Trail {
    /// The answers that follow depend on this path, and on what is there.
    pub fn note(&self, path: &Path) {
        self.mark(path, true, 0);
    }

    /// The `whole` of what is there counts, or only where the name leads.
    fn mark(&self, path: &Path, whole: bool, links: usize) {
        // `dir/.` and `dir/` would follow a link.
        let path = path.components().as_path();
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        if self.knows(path, whole) {
            return;
        }
        if links > LINKS {
            self.is_doubtful.store(true, Ordering::Relaxed);
            return;
        }
        let meta = fs::symlink_metadata(path);
        let state = State::of(&meta, whole);
        if state.has_times() && meta.as_ref().is_ok_and(is_new) {
            self.is_doubtful.store(true, Ordering::Relaxed);
        }
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        if let Some(parent) = parent {
            self.mark(parent, false, links);
        }
        if meta.is_ok_and(|meta| meta.is_symlink()) {
            match fs::read_link(path) {
                Ok(target) => self.mark(&parent.unwrap_or(Path::new("")).join(target), whole, links + 1),
                Err(_) => self.is_doubtful.store(true, Ordering::Relaxed),
            }
        }
        // What is known of others by now is older than the answer, too. A thread that finds this name need not look any further.
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let known = names.entry(path.as_os_str().to_owned()).or_insert(state);
        if whole && !known.is_whole() {
            *known = state;
        }
    }

    fn knows(&self, path: &Path, whole: bool) -> bool {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.get(path.as_os_str()).is_some_and(|known| known.is_whole() || !whole)
    }

    /// Writes all of it behind `bytes`; `false` where nobody could tell later whether something has changed.
    pub fn write(&self, bytes: &mut Vec<u8>) -> bool {
        if self.is_doubtful.load(Ordering::Relaxed) || cfg!(not(unix)) {
            return false;
        }
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        for (path, State(words)) in &*names {
            let path = path.as_encoded_bytes();
            // No system has names that long.
            let Ok(length) = u32::try_from(path.len()) else { return false };
            bytes.extend(length.to_le_bytes());
            bytes.extend(path);
            words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        }
        true
    }

    /// Whether everything that was [written](Self::write) is as it was: then each answer would be the same again.
    pub fn holds(bytes: &[u8]) -> bool {
        let Some(names) = names(bytes) else { return false };
        let is_same =
            |(path, state): &(PathBuf, State)| State::of(&fs::symlink_metadata(path), state.is_whole()) == *state;
        match names.len() <= PART {
            true => names.iter().all(is_same),
            false => names.par_chunks(PART).all(|part| part.iter().all(is_same)),
        }
    }
}

fn names(mut bytes: &[u8]) -> Option<Vec<(PathBuf, State)>> {
    let mut names = Vec::with_capacity(bytes.len() / 80);
    while !bytes.is_empty() {
        let length: [u8; 4] = bytes.split_off(..4)?.try_into().ok()?;
        let path = path_of(bytes.split_off(..u32::from_le_bytes(length) as usize)?)?;
        let mut words = [0; State::WORDS];
        for word in &mut words {
            *word = u64::from_le_bytes(bytes.split_off(..8)?.try_into().ok()?);
        }
        names.push((path, State(words)));
    }
    Some(names)
}

#[cfg(unix)]
fn path_of(bytes: &[u8]) -> Option<PathBuf> {
    Some(PathBuf::from(std::os::unix::ffi::OsStrExt::from_bytes(bytes) as &std::ffi::OsStr))
}

#[cfg(not(unix))]
fn path_of(_: &[u8]) -> Option<PathBuf> {
    None
}

impl State {
    /// Where it lies (two), what it is, and of what counts as a whole its size and two times.
    const WORDS: usize = 6;
    /// Beside the bits of the mode.
    const WHOLE: u64 = 1 << 32;
    const TIMED: u64 = 1 << 33;

    #[cfg(unix)]
    fn of(meta: &io::Result<fs::Metadata>, whole: bool) -> Self {
        use std::os::unix::fs::MetadataExt as _;
        /// The kind of file in a mode.
        const KIND: u32 = 0o170_000;
        let kind = if whole { Self::WHOLE } else { 0 };
        let meta = match meta {
            Ok(meta) => meta,
            // Nothing, and why.
            Err(why) => return Self([u64::MAX, why.raw_os_error().unwrap_or(0) as u64, kind, 0, 0, 0]),
        };
        let time = |seconds: i64, rest: i64| (seconds as u64).wrapping_mul(1_000_000_000).wrapping_add(rest as u64);
        let [place, number] = [meta.dev(), meta.ino()];
        // Where a link leads is part of it.
        match whole || meta.is_symlink() {
            true => {
                let times = [time(meta.mtime(), meta.mtime_nsec()), time(meta.ctime(), meta.ctime_nsec())];
                Self([place, number, kind | Self::TIMED | u64::from(meta.mode()), meta.size(), times[0], times[1]])
            }
            false => Self([place, number, kind | u64::from(meta.mode() & KIND), 0, 0, 0]),
        }
    }

    #[cfg(not(unix))]
    fn of(_: &io::Result<fs::Metadata>, _: bool) -> Self {
        Self([0; Self::WORDS])
    }

    fn is_whole(self) -> bool {
        self.0[2] & Self::WHOLE != 0
    }

    fn has_times(self) -> bool {
        self.0[2] & Self::TIMED != 0
    }
}

/// Whether it was changed so shortly before that another change may look the same.
#[cfg(unix)]
fn is_new(meta: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let time = |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
    is_young(time(meta.mtime(), meta.mtime_nsec()).max(time(meta.ctime(), meta.ctime_nsec())))
}

#[cfg(not(unix))]
fn is_new(_: &fs::Metadata) -> bool {
    let _ = is_young;
    true
}

/// Files, each path noted before it is asked for.
pub struct Noted<'a> {
    pub files: &'a dyn Files,
    pub trail: &'a Trail,
}

impl Files for Noted<'_> {
    fn read(&self, path: &Path) -> Result<Vec<u8>, ReadError> {
        self.trail.note(path);
        self.files.read(path)
    }

    fn stat(&self, path: &Path) -> Option<Stat> {
        self.trail.note(path);
        self.files.stat(path)
    }

    fn refusal(&self, path: &Path) -> Option<ReadError> {
        self.trail.note(path);
        self.files.refusal(path)
    }

    fn list(&self, dir: &Path) -> Vec<String> {
        self.trail.note(dir);
        self.files.list(dir)
    }

    fn entries(&self, dir: &Path) -> Arc<[(String, bool)]> {
        self.trail.note(dir);
        // Whether a link is a folder is told by what it leads to.
        self.files.entries_and(dir, &|link| self.trail.mark(link, false, 0))
    }

    fn note(&self, path: &Path) {
        self.trail.note(path);
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::thread::sleep;

    use super::{super::stamps::SETTLED, *};

    #[test]
    fn what_may_have_changed_once_more_at_the_same_time_is_in_doubt() {
        let file = std::env::temp_dir().join(format!("gevals-trail-{}", crate::random::word()));
        let is_clear = || {
            let trail = Trail::default();
            trail.note(&file);
            trail.write(&mut Vec::new())
        };
        // A busy machine may take longer than a moment.
        let is_seen = |_| {
            fs::write(&file, "").unwrap();
            !is_clear()
        };
        assert!((0..50).any(is_seen));
        sleep(SETTLED * 2);
        assert!(is_clear());
        fs::remove_file(&file).unwrap();
    }
}
