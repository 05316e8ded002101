//! The files of a jail: reads them, restores them for the next run, compares them.

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

/// Paths with their contents and modes.
pub type Files = Vec<(PathBuf, Vec<u8>, u32)>;

/// The value of `random.id` in every world.
pub const RANDOM_ID: &str = "r4nd0m1d";

/// Directories whose contents are not part of a task.
const SKIPPED: [&str; 4] = [".git", "node_modules", "target", ".gevals"];
/// Files of so many bytes, or more, are not kept.
const LARGEST: u64 = 1 << 20;

/// The regular files below a directory that are not too large, with their modes; at most 5000.
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

/// Writes files into the task's directory.
pub fn place(files: &[(PathBuf, Vec<u8>, u32)]) -> Result<(), String> {
    for (path, bytes, mode) in files {
        let path = Path::new(TASK).join(path);
        let made = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&path, bytes));
        made.and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(*mode))).map_err(fault)?;
    }
    Ok(())
}

fn fault(error: io::Error) -> String {
    format!("cannot write to the directory of the sandbox: {error}")
}

/// What exists at a path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Entry {
    /// With its mode.
    Folder(u32),
    /// With its mode.
    File(u32, Arc<Content>),
    /// With its target.
    Link(PathBuf),
    /// Not a regular file, or one that is too large to keep: which file it is, and when it was changed.
    Other([i64; 6]),
}

/// The bytes of a file.
#[derive(Debug)]
pub struct Content {
    bytes: Vec<u8>,
    digest: [u8; 32],
}

impl Content {
    /// Whether it is one decimal number.
    fn is_number(&self) -> bool {
        let text = self.bytes.trim_ascii();
        !text.is_empty() && text.iter().all(u8::is_ascii_digit)
    }
}

impl PartialEq for Content {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for Content {}

/// All files that processes of a jail can change.
pub type State = BTreeMap<PathBuf, Entry>;

/// A path, and what it becomes; `None` if it is removed.
pub type Change = (PathBuf, Option<Entry>);

/// What is not part of a state: what no process of a jail can change, what does not belong to it (`/world`), and what is read
/// separately.
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
/// Where files can be written.
const WRITABLE: [&str; 3] = ["/", "/usr/local", "/dev/shm"];
/// A file that was changed this recently may change again within the resolution of its timestamp.
const YOUNG: Duration = Duration::from_millis(50);

/// Reads the files of a jail repeatedly: a file that has not changed is not read again.
#[derive(Default)]
pub struct Looks(HashMap<PathBuf, ([i64; 6], Arc<Content>)>);

impl Looks {
    /// All files and directories as they are now.
    pub fn look(&mut self) -> State {
        self.below(WRITABLE.iter().map(PathBuf::from).collect())
    }

    fn below(&mut self, mut open: Vec<PathBuf>) -> State {
        let mut state = State::new();
        while let Some(dir) = open.pop() {
            let device = fs::metadata(&dir).ok().map(|meta| meta.dev());
            for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.to_str().is_some_and(|path| FIXED.contains(&path)) {
                    continue;
                }
                let Ok(meta) = entry.metadata() else { continue };
                // A file mounted from outside of the jail, such as this program, cannot be replaced in it.
                if meta.is_file() && device != Some(meta.dev()) {
                    continue;
                }
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

/// Which file it is, its size, and when it was changed.
fn identity(meta: &fs::Metadata) -> [i64; 6] {
    let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    [number(meta.dev()), number(meta.ino()), number(meta.size()), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec()]
}

/// Identifies a state: different states have different digests.
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

/// The changes from one state to the other: first removals, inner paths before outer ones, then additions and modifications.
pub fn changes(from: &State, to: &State) -> Vec<Change> {
    let gone = from.keys().rev().filter(|path| !to.contains_key(*path)).map(|path| (path.clone(), None));
    let come = to.iter().filter(|(path, entry)| from.get(*path) != Some(entry));
    gone.chain(come.map(|(path, entry)| (path.clone(), Some(entry.clone())))).collect()
}

/// Whether changes can be applied again.
pub fn is_plain(changes: &[Change]) -> bool {
    !changes.iter().any(|(_, entry)| matches!(entry, Some(Entry::Other(_))))
}

/// Applies changes.
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
        Some(Entry::Other(_)) => Err(io::Error::other(format!("`{}` is not a regular file", path.display()))),
    }
}

/// Whether a file contains the number of a process, by its name: `/tmp/server.pid`.
pub fn is_of_process(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().split(['.', '-', '_']).any(|part| part == "pid"))
}

/// Regular files, by their paths as a task knows them, with their modes and the digests of their contents.
pub type Written = Vec<(PathBuf, u32, [u8; 32])>;

/// The files that a run has written, without those that are private to one of its steps.
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
        // The system chooses the number of a process.
        Entry::File(mode, content) if is_of_process(path) && content.is_number() => {
            Some((known(path)?, *mode, [0; 32]))
        }
        Entry::File(mode, content) => Some((known(path)?, *mode, content.digest)),
        _ => None,
    };
    state.iter().filter_map(file).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_detected_and_reverted() {
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
        // At the same moment, and of the same length.
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
        // An entry of one kind replaces one of another kind.
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
        // A change that cannot be applied again is recognized.
        let large = fs::File::create(at("large")).unwrap();
        large.set_len(LARGEST).unwrap();
        assert!(!is_plain(&changes(&before, &look())));
    }
}
