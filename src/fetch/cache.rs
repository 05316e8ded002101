//! The cache: a folder of this user.

use std::{
    io,
    path::{Path, PathBuf},
};

use crate::host::cache::{self, VARIABLE};

/// Where downloads are kept.
#[derive(Clone, Debug)]
pub struct Cache(PathBuf);

impl Cache {
    /// The folder that an eval names, or GEVALS_CACHE_DIR, or the user's cache.
    ///
    /// # Errors
    /// There is none of these.
    #[expect(clippy::disallowed_methods, reason = "this is the door to the cache")]
    pub fn new(named: Option<&Path>) -> Result<Self, String> {
        let dir = named.map(Path::to_owned).or_else(cache::folder);
        let dir = dir.ok_or_else(|| format!("no directory for downloads: set {VARIABLE}"))?;
        std::path::absolute(&dir)
            .map(Self)
            .map_err(|e| format!("`{}` is not a directory for downloads: {e}", dir.display()))
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The folder of programs that were downloaded.
    pub fn programs(&self) -> PathBuf {
        self.0.join("extensions")
    }

    /// The folder of a release on a platform.
    pub(super) fn release(&self, owner: &str, repo: &str, tag: &str) -> PathBuf {
        // A tag may have slashes.
        let tag: String = tag.chars().map(|c| if c == '/' || c == '\\' { '+' } else { c }).collect();
        self.programs().join(owner).join(repo).join(tag)
    }

    /// Fills a folder of the cache: all of it is there, or nothing.
    #[expect(clippy::disallowed_methods, reason = "this is the door to the cache")]
    pub(super) fn fill(folder: &Path, write: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
        let parent = folder.parent().unwrap_or(folder);
        std::fs::create_dir_all(parent)?;
        let temporary = tempfile::tempdir_in(parent)?;
        write(temporary.path())?;
        Self::fill_with(folder, temporary.keep())
    }

    /// Makes a folder out of one that was filled beside it, and of which nothing stays where that fails.
    #[expect(clippy::disallowed_methods, reason = "this is the door to the cache")]
    pub(super) fn fill_with(folder: &Path, filled: PathBuf) -> io::Result<()> {
        // Another process may have been quicker; what it left is checked by digest like ours.
        let moved = std::fs::remove_dir_all(folder).or_else(|e| match e.kind() {
            io::ErrorKind::NotFound => Ok(()),
            _ => Err(e),
        });
        let moved = moved.and_then(|()| std::fs::rename(&filled, folder));
        if moved.is_err() {
            let _ = std::fs::remove_dir_all(&filled);
        }
        moved
    }
}
