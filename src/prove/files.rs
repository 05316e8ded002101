//! The files of a jail: looked at, put back for the next run, compared.

use std::{
    collections::{BTreeMap, HashMap},
    fs, io,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use sha2::{Digest, Sha256};

use super::shim::TASK;

/// Paths with what is there and their modes.
pub type Files = Vec<(PathBuf, Vec<u8>, u32)>;

/// What `random.id` is in every world.
pub const RANDOM_ID: &str = "r4nd0m1d";

/// Folders whose contents are nobody's work.
const SKIPPED: [&str; 4] = [".git", "node_modules", "target", ".gevals"];
/// Bytes of the largest file that is held.
const LARGEST: u64 = 1 << 20;

/// All plain files below a folder that are not too large, with their modes.
pub fn tree(root: &Path) -> Files {
    let mut found = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let Ok(meta) = entry.metadata() else { continue };
            let name = entry.file_name();
            if meta.is_dir() && !name.to_str().is_some_and(|name| SKIPPED.contains(&name)) {
                open.push(entry.path());
            } else if meta.is_file() && meta.len() < LARGEST && found.len() < 5000 {
                let path = entry.path().strip_prefix(root).map(Path::to_path_buf).unwrap_or_default();
                found.push((path, fs::read(entry.path()).unwrap_or_default(), meta.permissions().mode()));
            }
        }
    }
    found.sort();
    found
}

/// Writes files into the task's folder.
pub fn place(files: &[(PathBuf, Vec<u8>, u32)]) -> Result<(), String> {
    for (path, bytes, mode) in files {
        let path = Path::new(TASK).join(path);
        let made = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&path, bytes));
        made.and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(*mode))).map_err(fault)?;
    }
    Ok(())
}

fn fault(error: io::Error) -> String {
    format!("the jail's folder cannot be written: {error}")
}

/// What is at a path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Entry {
    /// With its mode.
    Folder(u32),
    /// With its mode.
    File(u32, Arc<Content>),
    /// Where it leads.
    Link(PathBuf),
    /// No plain file, or one too large to be held: which one it is, and when it was changed.
    Other([i64; 6]),
}

/// The bytes of a file.
#[derive(Debug)]
pub struct Content {
    bytes: Vec<u8>,
    digest: [u8; 32],
}

impl PartialEq for Content {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for Content {}

/// All that processes of a jail can change.
pub type State = BTreeMap<PathBuf, Entry>;

/// A place of a state, and what comes to be there, if anything does.
pub type Change = (PathBuf, Option<Entry>);

/// What no process of a jail can change, what it has no part in (`/world`), and what is looked at by itself.
const FIXED: [&str; 13] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/proc",
    "/sys",
    "/dev",
    "/source",
    "/world",
    "/etc/alternatives",
];
/// Where else files can be written.
const WRITABLE: [&str; 3] = ["/", "/usr/local", "/dev/shm"];
/// What was changed so shortly ago may be changed again at what its clock holds for the same time.
const YOUNG: Duration = Duration::from_millis(50);

/// Looks at the files of a jail, again and again: what has not been changed is not read again.
#[derive(Default)]
pub struct Looks(HashMap<PathBuf, ([i64; 6], Arc<Content>)>);

impl Looks {
    /// All files and folders as they are now.
    pub fn look(&mut self) -> State {
        self.below(WRITABLE.iter().map(PathBuf::from).collect())
    }

    fn below(&mut self, mut open: Vec<PathBuf>) -> State {
        let mut state = State::new();
        while let Some(dir) = open.pop() {
            for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.to_str().is_some_and(|path| FIXED.contains(&path)) {
                    continue;
                }
                let Ok(meta) = entry.metadata() else { continue };
                let (mode, is) = (meta.permissions().mode(), identity(&meta));
                let entry = if meta.is_dir() {
                    open.push(path.clone());
                    Entry::Folder(mode)
                } else if meta.is_symlink() {
                    Entry::Link(fs::read_link(&path).unwrap_or_default())
                } else if meta.is_file() && meta.len() < LARGEST {
                    self.content(&path, is).map_or(Entry::Other(is), |content| Entry::File(mode, content))
                } else {
                    Entry::Other(is)
                };
                state.insert(path, entry);
            }
        }
        state
    }

    fn content(&mut self, path: &Path, is: [i64; 6]) -> Option<Arc<Content>> {
        if let Some((was, content)) = self.0.get(path)
            && *was == is
        {
            return Some(Arc::clone(content));
        }
        let bytes = fs::read(path).ok()?;
        let digest = Sha256::digest(&bytes).into();
        let content = Arc::new(Content { bytes, digest });
        let [_, _, _, _, seconds, nanos] = is;
        let changed = Duration::new(u64::try_from(seconds).ok()?, u32::try_from(nanos).ok()?);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
        if now > changed + YOUNG {
            self.0.insert(path.to_owned(), (is, Arc::clone(&content)));
        }
        Some(content)
    }
}

/// Which file it is, how large it is, and when it was changed.
fn identity(meta: &fs::Metadata) -> [i64; 6] {
    let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    [number(meta.dev()), number(meta.ino()), number(meta.size()), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec()]
}

/// By what a state is known: two that differ have two.
pub fn digest(state: &State) -> [u8; 32] {
    let mut all = Sha256::new();
    for (path, entry) in state {
        let path = path.as_os_str().as_encoded_bytes();
        all.update(path.len().to_le_bytes());
        all.update(path);
        match entry {
            Entry::Folder(mode) => all.update([b"d", mode.to_le_bytes().as_slice()].concat()),
            Entry::File(mode, content) => {
                all.update([b"f", mode.to_le_bytes().as_slice(), content.digest.as_slice()].concat());
            }
            Entry::Link(to) => {
                let to = to.as_os_str().as_encoded_bytes();
                all.update([b"l", to.len().to_le_bytes().as_slice(), to].concat());
            }
            Entry::Other(is) => all.update([b"o".as_slice(), is.map(i64::to_le_bytes).as_flattened()].concat()),
        }
    }
    all.finalize().into()
}

/// What makes the one of the other: what goes, the inner before the outer, then what comes.
pub fn changes(from: &State, to: &State) -> Vec<Change> {
    let gone = from.keys().rev().filter(|path| !to.contains_key(*path)).map(|path| (path.clone(), None));
    let come = to.iter().filter(|(path, entry)| from.get(*path) != Some(entry));
    gone.chain(come.map(|(path, entry)| (path.clone(), Some(entry.clone())))).collect()
}

/// Whether changes can be made again.
pub fn is_plain(changes: &[Change]) -> bool {
    !changes.iter().any(|(_, entry)| matches!(entry, Some(Entry::Other(_))))
}

/// Makes changes.
pub fn apply(changes: &[Change]) -> Result<(), String> {
    changes.iter().try_for_each(|(path, entry)| put(path, entry.as_ref())).map_err(fault)
}

fn put(path: &Path, entry: Option<&Entry>) -> io::Result<()> {
    let there = fs::symlink_metadata(path).ok();
    let stays = match (&there, entry) {
        (Some(there), Some(Entry::Folder(_))) => there.is_dir(),
        (Some(there), Some(Entry::File(..))) => there.is_file(),
        _ => false,
    };
    match &there {
        Some(there) if !stays && there.is_dir() => fs::remove_dir_all(path)?,
        Some(_) if !stays => fs::remove_file(path)?,
        _ => {}
    }
    match entry {
        None => Ok(()),
        Some(Entry::Folder(mode)) => {
            if !stays {
                fs::create_dir(path)?;
            }
            fs::set_permissions(path, fs::Permissions::from_mode(*mode))
        }
        Some(Entry::File(mode, content)) => {
            fs::write(path, &content.bytes)?;
            fs::set_permissions(path, fs::Permissions::from_mode(*mode))
        }
        Some(Entry::Link(to)) => symlink(to, path),
        Some(Entry::Other(_)) => Err(io::Error::other(format!("`{}` is no plain file", path.display()))),
    }
}

/// Plain files, by their paths as a task knows them.
pub type Written = Vec<(PathBuf, u32, Arc<Content>)>;

/// What a run has written, without what is private to one of its steps.
pub fn written(state: &State) -> Written {
    let known = |path: &Path| -> Option<PathBuf> {
        if let Ok(inside) = path.strip_prefix(TASK) {
            let skipped = |name: &std::ffi::OsStr| name.to_str().is_some_and(|name| SKIPPED.contains(&name));
            let folders = inside.parent().into_iter().flatten();
            return folders.clone().all(|name| !skipped(name)).then(|| inside.to_owned());
        }
        let inside = path.strip_prefix("/tmp").ok()?;
        let first = inside.iter().next()?.to_string_lossy();
        let private = first.starts_with("gevals-") || first.starts_with("tmp.") || first == RANDOM_ID;
        (!private).then(|| path.to_owned())
    };
    let file = |(path, entry): (&PathBuf, &Entry)| match entry {
        Entry::File(mode, content) => Some((known(path)?, *mode, Arc::clone(content))),
        _ => None,
    };
    state.iter().filter_map(file).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_changed_is_seen_and_put_back() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let mut looks = Looks::default();
        let mut look = || looks.below(vec![folder.path().to_owned()]);
        fs::create_dir_all(at("deep/er")).unwrap();
        for name in ["a", "b", "deep/er/c"] {
            fs::write(at(name), "0").unwrap();
        }
        symlink("a", at("link")).unwrap();
        let before = look();
        let put_back = |now: &State| apply(&changes(now, &before)).unwrap();
        // In the same moment, and of the same length.
        fs::write(at("a"), "1").unwrap();
        let after = look();
        assert_ne!(before, after);
        assert_ne!(digest(&before), digest(&after));
        assert_eq!(changes(&before, &after).len(), 1);
        let forth = changes(&before, &after);
        put_back(&after);
        assert_eq!(look(), before);
        assert_eq!(fs::read(at("a")).unwrap(), b"0");
        apply(&forth).unwrap();
        assert_eq!(look(), after);
        put_back(&after);
        // One thing in the place of another.
        fs::remove_dir_all(at("deep")).unwrap();
        fs::write(at("deep"), "a file").unwrap();
        fs::remove_file(at("link")).unwrap();
        fs::create_dir(at("link")).unwrap();
        fs::write(at("link/x"), "x").unwrap();
        fs::set_permissions(at("b"), fs::Permissions::from_mode(0o600)).unwrap();
        let now = look();
        assert!(is_plain(&changes(&before, &now)));
        put_back(&now);
        assert_eq!(look(), before);
        assert_eq!(digest(&look()), digest(&before));
        // What cannot be made again is told.
        let large = fs::File::create(at("large")).unwrap();
        large.set_len(LARGEST).unwrap();
        assert!(!is_plain(&changes(&before, &look())));
    }
}
