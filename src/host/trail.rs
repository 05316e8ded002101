//! All names on the way to what was queried, with the state of each at that time: they show whether a result is still valid.
#![expect(clippy::disallowed_methods, reason = "this is a door to the disk")]

use std::{
    cmp::Reverse,
    ffi::{OsStr, OsString},
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    io,
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};

use super::stamps::is_young;
use crate::source::{Files, ReadError, Stat};

/// How many links a system follows.
const LINKS: usize = 40;
/// How many names one thread checks.
const PART: usize = 512;

/// Every name that decided an answer, with its state before the answer. A link is such a name, and so is everything that it leads
/// through: each is checked without following it, so nothing that decides is left out.
#[derive(Debug, Default)]
pub struct Trail {
    /// By their spelling: to compare paths component by component takes ten times as long.
    names: Mutex<FxHashMap<OsString, Known>>,
    /// Whether a change may have been missed, or may be missed later.
    is_doubtful: AtomicBool,
}

/// What is known of a name.
#[derive(Clone, Copy, Debug)]
struct Known {
    state: State,
    /// A digest of the entries of a directory; 0 if they were not queried.
    listing: u64,
    /// Whether a link leads to it.
    is_target: bool,
}

/// The state of a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct State([u64; State::WORDS]);

impl Trail {
    /// Records that the answers which follow depend on this path, and on what is there.
    pub fn note(&self, path: &Path) {
        self.mark(path, true, 0);
    }

    /// With `whole`, everything about the path counts, otherwise only where the name leads.
    fn mark(&self, path: &Path, whole: bool, links: usize) {
        let path = spelt(path);
        if self.knows(path, whole, links > 0) {
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
        // All names that it depends on are known by now, from before the answer. A thread that finds this name need not look further.
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let known = names.entry(path.as_os_str().to_owned()).or_insert(Known { state, listing: 0, is_target: false });
        known.is_target |= links > 0;
        if whole && !known.state.is_whole() {
            known.state = state;
        }
    }

    fn knows(&self, path: &Path, whole: bool, is_target: bool) -> bool {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.get_mut(path.as_os_str()).is_some_and(|known| {
            known.is_target |= is_target;
            known.state.is_whole() || !whole
        })
    }

    /// Sets the entries of a directory that was noted.
    fn list(&self, dir: &Path, entries: &[(String, bool)]) {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = names.get_mut(spelt(dir).as_os_str()) {
            known.listing = listing(entries);
        }
    }

    /// All names, in the order in which they are [written](Written::write); `None` if a later change could be missed. It can be called
    /// once: the trail is empty afterwards.
    pub fn written(&self) -> Option<Written> {
        if self.is_doubtful.load(Ordering::Relaxed) || cfg!(not(unix)) {
            return None;
        }
        let names = std::mem::take(&mut *self.names.lock().unwrap_or_else(PoisonError::into_inner));
        let mut names: Vec<_> = names.into_iter().collect();
        // What was changed last is most likely to change next.
        names.par_sort_by_key(|(_, Known { state: State(words), .. })| Reverse(words[4].max(words[5])));
        Some(Written(names))
    }

    /// Whether everything that was [written](Written::write) is unchanged: then each answer would be the same again.
    pub fn holds(bytes: &[u8]) -> bool {
        let Some(Names(names)) = Names::of(bytes) else { return false };
        let (first, rest) = names.split_at(names.len().min(PART));
        first.iter().all(Seen::is_same) && rest.par_chunks(PART).all(|part| part.iter().all(Seen::is_same))
    }
}

/// The names of a trail, in order.
#[derive(Debug)]
pub struct Written(Vec<(OsString, Known)>);

impl Written {
    /// Appends them to `bytes`; `false` if that is not possible.
    pub fn write(&self, bytes: &mut Vec<u8>) -> bool {
        let one = |(path, _): &(OsString, Known)| path.len() + 4 + 8 * (State::WORDS + 1) + 1;
        bytes.reserve_exact(self.0.iter().map(one).sum());
        for (path, Known { state: State(words), listing, is_target }) in &self.0 {
            let path = path.as_encoded_bytes();
            // No system has names of this length.
            let Ok(length) = u32::try_from(path.len()) else { return false };
            bytes.extend(length.to_le_bytes());
            bytes.extend(path);
            words.iter().chain([listing]).for_each(|word| bytes.extend(word.to_le_bytes()));
            bytes.push(u8::from(*is_target));
        }
        true
    }

    /// The place of each name.
    pub fn places(&self) -> FxHashMap<&OsStr, u32> {
        self.0.iter().zip(0..).map(|((path, _), place)| (path.as_os_str(), place)).collect()
    }
}

/// Names that were [written](Written::write), by their places.
#[derive(Debug)]
pub struct Names<'b>(Vec<Seen<'b>>);

#[derive(Debug)]
struct Seen<'b> {
    path: &'b Path,
    known: Known,
}

impl Seen<'_> {
    fn now(&self) -> State {
        State::of(&fs::symlink_metadata(self.path), self.known.state.is_whole())
    }

    fn is_same(&self) -> bool {
        self.now() == self.known.state
    }
}

impl<'b> Names<'b> {
    /// Reads the names; `None` if they are damaged.
    pub fn of(mut bytes: &'b [u8]) -> Option<Self> {
        let mut names = Vec::with_capacity(bytes.len() / 80);
        while !bytes.is_empty() {
            let length: [u8; 4] = bytes.split_off(..4)?.try_into().ok()?;
            let path = path_of(bytes.split_off(..u32::from_le_bytes(length) as usize)?)?;
            let mut words = [0; State::WORDS + 1];
            for word in &mut words {
                *word = u64::from_le_bytes(bytes.split_off(..8)?.try_into().ok()?);
            }
            let is_target = *bytes.split_off_first()? != 0;
            let [state @ .., listing] = words;
            names.push(Seen { path, known: Known { state: State(state), listing, is_target } });
        }
        Some(Self(names))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The name at a place.
    pub fn path(&self, place: u32) -> Option<&'b Path> {
        Some(self.0.get(place as usize)?.path)
    }

    /// The places of those of these names that the trail contains.
    pub fn these<'n>(&self, wanted: &'n FxHashSet<OsString>) -> FxHashMap<&'n OsStr, u32> {
        let known = self.0.iter().zip(0..).map(|(seen, place)| (wanted.get(seen.path.as_os_str()), place));
        known.filter_map(|(name, place)| Some((name?.as_os_str(), place))).collect()
    }

    /// Whether a link leads to the name.
    pub fn is_target(&self, place: u32) -> bool {
        self.0.get(place as usize).is_some_and(|seen| seen.known.is_target)
    }

    /// The places of the names that have changed. A directory with the same entries as before has not changed.
    pub fn changed(&self, files: &dyn Files) -> Vec<u32> {
        let holds_the_same = |seen: &Seen<'_>, now: State| {
            let State([place, number, mode, ..]) = now;
            let State([old_place, old_number, old_mode, ..]) = seen.known.state;
            let is_it = (place, number, mode) == (old_place, old_number, old_mode);
            is_it && seen.known.listing != 0 && listing(&files.entries(seen.path)) == seen.known.listing
        };
        let differs = |(place, seen): (usize, &Seen<'_>)| {
            let now = seen.now();
            (now != seen.known.state && !holds_the_same(seen, now)).then_some(place as u32)
        };
        self.0.par_iter().enumerate().with_min_len(PART).filter_map(differs).collect()
    }

    /// The places of the names that are this file or directory, in any spelling, without links to it. `changed` are the places of names
    /// that have changed.
    pub fn same(&self, file: &fs::Metadata, changed: &[u32]) -> Vec<u32> {
        let State([place, number, ..]) = State::of(&Ok(file.clone()), false);
        let is_it = |State([old_place, old_number, ..]): State| (place, number) == (old_place, old_number);
        let known = self.0.iter().zip(0..).filter(|(seen, _)| is_it(seen.known.state)).map(|(_, place)| place);
        let now = changed.iter().copied().filter(|place| is_it(self.0[*place as usize].now()));
        known.chain(now).collect()
    }

    /// Whether a name is a link.
    #[cfg(unix)]
    pub fn is_link(&self, place: u32) -> bool {
        const LINK: u64 = 0o120_000;
        let kind = |seen: &Seen<'_>| seen.known.state.0[2] & u64::from(State::KIND);
        self.0.get(place as usize).is_none_or(|seen| kind(seen) == LINK)
    }

    /// Whether a name is a link.
    #[cfg(not(unix))]
    pub fn is_link(&self, _: u32) -> bool {
        true
    }
}

/// A digest of the entries of a directory; never 0.
fn listing(entries: &[(String, bool)]) -> u64 {
    let mut hasher = DefaultHasher::new();
    entries.hash(&mut hasher);
    hasher.finish().max(1)
}

/// A path in the spelling of a trail.
pub fn spelt(path: &Path) -> &Path {
    // `dir/.` and `dir/` would follow a link.
    let path = path.components().as_path();
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

#[cfg(unix)]
fn path_of(bytes: &[u8]) -> Option<&Path> {
    Some(Path::new(std::os::unix::ffi::OsStrExt::from_bytes(bytes) as &OsStr))
}

#[cfg(not(unix))]
fn path_of(_: &[u8]) -> Option<&Path> {
    None
}

impl State {
    /// Device and inode, kind of file, and for a whole state or a link also the mode, the size and two times.
    const WORDS: usize = 6;
    /// Flags beside the bits of the mode.
    const WHOLE: u64 = 1 << 32;
    const TIMED: u64 = 1 << 33;
    /// The kind of file in a mode.
    const KIND: u32 = 0o170_000;

    #[cfg(unix)]
    fn of(meta: &io::Result<fs::Metadata>, whole: bool) -> Self {
        use std::os::unix::fs::MetadataExt as _;
        let kind = if whole { Self::WHOLE } else { 0 };
        let meta = match meta {
            Ok(meta) => meta,
            // It does not exist or cannot be read; and why.
            Err(why) => return Self([u64::MAX, why.raw_os_error().unwrap_or(0) as u64, kind, 0, 0, 0]),
        };
        let time = |seconds: i64, rest: i64| (seconds as u64).wrapping_mul(1_000_000_000).wrapping_add(rest as u64);
        let [place, number] = [meta.dev(), meta.ino()];
        // The target of a link is part of its state.
        match whole || meta.is_symlink() {
            true => {
                let times = [time(meta.mtime(), meta.mtime_nsec()), time(meta.ctime(), meta.ctime_nsec())];
                Self([place, number, kind | Self::TIMED | u64::from(meta.mode()), meta.size(), times[0], times[1]])
            }
            false => Self([place, number, kind | u64::from(meta.mode() & Self::KIND), 0, 0, 0]),
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

/// Whether it was changed so recently that another change may look the same.
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

/// Files that note each path before it is queried.
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
        // The target of a link decides whether it counts as a directory.
        let entries = self.files.entries_and(dir, &|link| self.trail.mark(link, false, 0));
        self.trail.list(dir, &entries);
        entries
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
    fn a_file_that_may_have_changed_within_the_same_timestamp_is_uncertain() {
        let file = std::env::temp_dir().join(format!("gevals-trail-{}", crate::random::word()));
        let is_clear = || {
            let trail = Trail::default();
            trail.note(&file);
            trail.written().is_some()
        };
        // On a busy machine, the file may not be new any more.
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
