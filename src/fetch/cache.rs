//! The cache: a directory of this user.

use std::{
    io,
    path::{Path, PathBuf},
};

use crate::host::cache::{self, VARIABLE};

/// The directory of downloads.
#[derive(Clone, Debug)]
pub struct Cache(PathBuf);

impl Cache {
    /// The directory that an eval names, or GEVALS_CACHE_DIR, or the user's cache.
    ///
    /// # Errors
    /// None of these is known.
    #[expect(clippy::disallowed_methods, reason = "this is the door to the cache")]
    pub fn new(named: Option<&Path>) -> Result<Self, String> {
        let dir = named.map(Path::to_owned).or_else(cache::folder);
        let dir = dir.ok_or_else(|| format!("no directory for downloads: set {VARIABLE}"))?;
        std::path::absolute(&dir)
            .map(Self)
            .map_err(|e| format!("`{}` is not a directory for downloads: {e}", dir.display()))
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The directory of downloaded programs.
    pub fn programs(&self) -> PathBuf {
        self.0.join("extensions")
    }

    /// The directory of a release.
    pub(super) fn release(&self, owner: &str, repo: &str, tag: &str) -> PathBuf {
        // A tag may contain slashes.
        let tag: String = tag.chars().map(|c| if c == '/' || c == '\\' { '+' } else { c }).collect();
        self.programs().join(owner).join(repo).join(tag)
    }

    /// Fills a directory of the cache, completely or not at all.
    #[expect(clippy::disallowed_methods, reason = "this is the door to the cache")]
    pub(super) fn fill(folder: &Path, write: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
        let parent = folder.parent().unwrap_or(folder);
        std::fs::create_dir_all(parent)?;
        let temporary = tempfile::tempdir_in(parent)?;
        write(temporary.path())?;
        Self::fill_with(folder, temporary.keep())
    }

    /// Replaces a directory by one that was filled beside it. If that fails, the filled one is removed.
    #[expect(clippy::disallowed_methods, reason = "this is the door to the cache")]
    pub(super) fn fill_with(folder: &Path, filled: PathBuf) -> io::Result<()> {
        // Another process may have been faster; what it left is checked by digest like ours.
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
