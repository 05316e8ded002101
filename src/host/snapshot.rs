//! Files as they were, in a directory that only this user can enter: what is run from there is what was read, whatever happens to
//! the originals meanwhile.
//!
//! A copy has the path of its original, below this directory. Everything beside it, and beside the directories above it, is a link to
//! the original, so a script finds its neighbors by `dirname "$0"` as it would at its own place. Directories beside a copy are real
//! directories, as long as they are not too large, because programs that walk through directories do not follow links.
#![expect(clippy::disallowed_methods, reason = "this is a door to files")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Component, Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// What a copy should be.
#[derive(Clone, Debug)]
pub struct Original {
    pub path: PathBuf,
    pub bytes: Vec<u8>,
    /// The Unix mode.
    pub mode: u32,
}

/// Copies of files. The directory is removed when this is dropped.
#[derive(Debug)]
pub struct Snapshot {
    root: PathBuf,
    /// By the paths of their originals.
    copies: BTreeMap<PathBuf, PathBuf>,
    /// Directories that contain copies, or such directories, by their originals.
    folders: BTreeMap<PathBuf, PathBuf>,
    is_executable: bool,
    beside: Mutex<Beside>,
}

/// The name of an empty copy in a directory where inline scripts run, and the beginning of the names of their files.
pub const INLINE: &str = ".gevals-inline";

/// How many entries beside copies are linked one by one, before directories are linked as a whole.
const ENTRIES: usize = 2000;

/// What is beside copies.
#[derive(Debug, Default)]
struct Beside {
    /// Directories in the directories of copies, by their originals.
    mirrored: BTreeMap<PathBuf, PathBuf>,
    /// The links that were created.
    links: BTreeSet<PathBuf>,
    /// Files that scripts left beside themselves and that were moved to where they belong, by the links that replace them.
    moved: BTreeMap<PathBuf, PathBuf>,
    /// Whether a copy was used since the last [`Snapshot::settle`].
    used: bool,
}

impl Snapshot {
    /// Copies files into a new, empty directory.
    ///
    /// # Errors
    /// A copy cannot be created.
    pub(super) fn new(root: PathBuf, originals: &[Original]) -> io::Result<Self> {
        let mut snapshot = Self {
            is_executable: is_executable(&root),
            root,
            copies: BTreeMap::new(),
            folders: BTreeMap::new(),
            beside: Mutex::default(),
        };
        for Original { path, bytes, mode } in originals {
            let place = place(path)?;
            let copy = snapshot.below(&place);
            for folder in place.ancestors().skip(1) {
                snapshot.folders.insert(folder.to_owned(), snapshot.below(folder));
            }
            fs::create_dir_all(copy.parent().unwrap_or(&snapshot.root))?;
            fs::write(&copy, bytes)?;
            fs::set_permissions(&copy, fs::Permissions::from_mode(*mode))?;
            snapshot.copies.insert(place, copy);
        }
        Ok(snapshot)
    }

    fn below(&self, place: &Path) -> PathBuf {
        let names = place.components().filter(|part| matches!(part, Component::Normal(_)));
        names.fold(self.root.clone(), |path, name| path.join(name))
    }

    fn beside(&self) -> MutexGuard<'_, Beside> {
        self.beside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the system runs programs from here.
    pub fn is_executable(&self) -> bool {
        self.is_executable
    }

    /// The copy of a file, with links to what is beside the original now; `None` if it has no copy.
    pub fn of(&self, path: &Path) -> Option<PathBuf> {
        let copy = self.copies.get(&place(path).ok()?)?;
        let mut beside = self.beside();
        beside.used = true;
        let mut left = ENTRIES;
        for (original, folder) in &self.folders {
            let holds_copy = self.copies.keys().any(|copy| copy.parent() == Some(original));
            self.link(original, folder, holds_copy, &mut left, &mut beside);
        }
        beside.links.retain(|link| {
            let gone =
                link.symlink_metadata().is_ok() && fs::read_link(link).is_ok_and(|to| to.symlink_metadata().is_err());
            !gone || fs::remove_file(link).is_err()
        });
        Some(copy.clone())
    }

    /// Creates links in a directory to what is new in the original, and if `deep`, in its subdirectories as well.
    fn link(&self, original: &Path, folder: &Path, deep: bool, left: &mut usize, beside: &mut Beside) {
        for entry in fs::read_dir(original).into_iter().flatten().flatten() {
            let (place, link) = (original.join(entry.file_name()), folder.join(entry.file_name()));
            if self.copies.contains_key(&place) || self.folders.contains_key(&place) {
                continue;
            }
            *left = left.saturating_sub(usize::from(deep));
            let is_known = beside.mirrored.contains_key(&place);
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir()) && entry.file_name() != ".git";
            if is_known
                || deep && is_folder && *left > 0 && link.symlink_metadata().is_err() && fs::create_dir(&link).is_ok()
            {
                beside.mirrored.insert(place.clone(), link.clone());
                self.link(&place, &link, true, left, beside);
            } else if link.symlink_metadata().is_err() && symlink(&place, &link).is_ok() {
                beside.links.insert(link);
            }
        }
    }

    /// Moves what a script left beside itself to the directory of the original, where others look for it. Removes from there what the
    /// script left earlier and has removed since.
    pub fn settle(&self) {
        let mut beside = self.beside();
        if !std::mem::take(&mut beside.used) {
            return;
        }
        let folders: Vec<_> =
            self.folders.iter().chain(&beside.mirrored).map(|(a, b)| (a.clone(), b.clone())).collect();
        for (original, folder) in &folders {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let (place, link) = (original.join(entry.file_name()), entry.path());
                let is_ours = self.copies.contains_key(&place)
                    || self.folders.contains_key(&place)
                    || beside.mirrored.contains_key(&place)
                    || entry.file_name().as_encoded_bytes().starts_with(INLINE.as_bytes())
                    || entry.file_type().is_ok_and(|kind| kind.is_symlink()) && beside.links.contains(&link);
                if !is_ours && transfer(&link, &place).is_ok() {
                    if symlink(&place, &link).is_ok() {
                        beside.links.insert(link.clone());
                    }
                    beside.moved.insert(link, place);
                }
            }
        }
        let is_whole = self.copies.values().all(|copy| copy.symlink_metadata().is_ok());
        let removed =
            |link: &PathBuf, place: &mut PathBuf| is_whole && link.symlink_metadata().is_err() && place.is_file();
        let gone: Vec<PathBuf> = beside.moved.extract_if(.., removed).map(|(_, place)| place).collect();
        for place in gone {
            let _ = fs::remove_file(place);
        }
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// The path of a file whose directory is resolved, as `..` resolves it.
fn place(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    match (path.parent(), path.file_name()) {
        (Some(folder), Some(name)) => Ok(folder.canonicalize()?.join(name)),
        _ => Ok(path),
    }
}

fn is_executable(folder: &Path) -> bool {
    use rustix::fs::{StatVfsMountFlags, statvfs};
    statvfs(folder).is_ok_and(|stat| !stat.f_flag.contains(StatVfsMountFlags::NOEXEC))
}

/// Moves a file or a directory, also to another file system.
fn transfer(from: &Path, to: &Path) -> io::Result<()> {
    if fs::rename(from, to).is_ok() {
        return Ok(());
    }
    let kind = from.symlink_metadata()?.file_type();
    if kind.is_dir() {
        fs::create_dir_all(to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            transfer(&entry.path(), &to.join(entry.file_name()))?;
        }
        fs::remove_dir(from)
    } else if kind.is_symlink() {
        symlink(fs::read_link(from)?, to)?;
        fs::remove_file(from)
    } else if kind.is_file() {
        fs::copy(from, to)?;
        fs::remove_file(from)
    } else {
        Err(io::Error::other("it is neither a file nor a folder"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_the_sibling_files_of_its_original() {
        let (project, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let at = |path: &str| project.path().join(path);
        fs::create_dir_all(at("tasks/one")).unwrap();
        fs::create_dir_all(at("lib")).unwrap();
        fs::create_dir_all(at("tasks/one/sub/deep")).unwrap();
        fs::write(at("tasks/one/sub/deep/x"), "x").unwrap();
        for (path, text) in [("tasks/one/a.sh", "a"), ("tasks/one/data", "d"), ("lib/b.sh", "b"), ("lib/c", "c")] {
            fs::write(at(path), text).unwrap();
        }
        let original = |path: &str| Original { path: at(path), bytes: fs::read(at(path)).unwrap(), mode: 0o755 };
        let snapshot =
            Snapshot::new(root.path().join("s"), &[original("tasks/one/a.sh"), original("lib/b.sh")]).unwrap();
        fs::write(at("tasks/one/a.sh"), "changed").unwrap();
        fs::write(at("lib/b.sh"), "changed").unwrap();
        let copy = snapshot.of(&at("tasks/one/../one/a.sh")).unwrap();
        let read = |path: &str| fs::read_to_string(copy.parent().unwrap().join(path)).unwrap();
        assert_eq!([read("a.sh"), read("data"), read("../../lib/b.sh"), read("../../lib/c")], ["a", "d", "b", "c"]);
        assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o755);
        assert!(snapshot.of(&at("lib/c")).is_none(), "it is no copy");

        // What a script leaves beside itself is moved to where others look for it, and removed there when the script removes it.
        let beside = |name: &str| copy.parent().unwrap().join(name);
        fs::write(beside("made"), "1").unwrap();
        assert!(beside("sub/deep").symlink_metadata().unwrap().is_dir(), "a walk does not find what is in it");
        assert_eq!(read("sub/deep/x"), "x");
        fs::write(beside("sub/deep/y"), "y").unwrap();
        fs::create_dir(beside("folder")).unwrap();
        fs::write(beside("folder/in"), "2").unwrap();
        snapshot.settle();
        assert_eq!(fs::read_to_string(at("tasks/one/made")).unwrap(), "1");
        assert_eq!(fs::read_to_string(at("tasks/one/sub/deep/y")).unwrap(), "y");
        assert_eq!(fs::read_to_string(at("tasks/one/folder/in")).unwrap(), "2");
        assert_eq!(snapshot.of(&at("tasks/one/a.sh")).as_ref(), Some(&copy));
        assert_eq!([read("made"), read("folder/in")], ["1", "2"]);
        for name in ["made", "data", "folder"] {
            fs::remove_file(beside(name)).unwrap();
        }
        snapshot.settle();
        // Nothing else is removed there.
        assert_eq!(
            [at("tasks/one/made"), at("tasks/one/data"), at("tasks/one/folder/in")].map(|p| p.exists()),
            [false, true, true]
        );
        // What is new or gone beside the original is also new or gone beside the copy.
        fs::write(at("tasks/one/new"), "3").unwrap();
        fs::remove_file(at("lib/c")).unwrap();
        snapshot.of(&at("tasks/one/a.sh")).unwrap();
        assert_eq!(read("new"), "3");
        assert!(beside("../../lib/c").symlink_metadata().is_err());
        drop(snapshot);
        assert!(!root.path().join("s").exists());
        assert_eq!(fs::read_to_string(at("tasks/one/data")).unwrap(), "d");
    }
}
