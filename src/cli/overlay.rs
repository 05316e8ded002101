//! The files of projects, some of them with other texts: typed in an editor, read from standard input, or not written
//! yet.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::project_files;
use crate::{
    host::within::Within,
    source::{Files, ReadError, Stat, normalize},
};

/// Files, some of them with other texts.
pub struct Edited<'a> {
    pub under: &'a dyn Files,
    /// By normalized path.
    pub texts: &'a BTreeMap<PathBuf, Vec<u8>>,
}

impl Edited<'_> {
    fn text(&self, path: &Path) -> Option<&Vec<u8>> {
        if self.texts.is_empty() { None } else { self.texts.get(&normalize(path)) }
    }
}

impl Files for Edited<'_> {
    fn read(&self, path: &Path) -> Result<Vec<u8>, ReadError> {
        self.text(path).map_or_else(|| self.under.read(path), |bytes| Ok(bytes.clone()))
    }

    fn stat(&self, path: &Path) -> Option<Stat> {
        let there = self.under.stat(path);
        there.or_else(|| self.text(path).map(|_| Stat::File { executable: false }))
    }

    fn refusal(&self, path: &Path) -> Option<ReadError> {
        if self.text(path).is_some() { None } else { self.under.refusal(path) }
    }

    fn list(&self, dir: &Path) -> Vec<String> {
        self.under.list(dir)
    }

    fn entries(&self, dir: &Path) -> Arc<[(String, bool)]> {
        self.under.entries(dir)
    }

    fn entries_and(&self, dir: &Path, link: &dyn Fn(&Path)) -> Arc<[(String, bool)]> {
        self.under.entries_and(dir, link)
    }
}

/// The files of projects, some of them with other texts.
#[derive(Debug)]
pub struct Overlay {
    under: Within,
    /// By normalized path.
    texts: BTreeMap<PathBuf, Vec<u8>>,
}

impl Overlay {
    /// The files of the projects of these paths, with these texts.
    pub fn of<'a>(roots: &[PathBuf], texts: impl IntoIterator<Item = (&'a Path, Vec<u8>)>) -> Self {
        let texts = texts.into_iter().map(|(path, bytes)| (normalize(path), bytes)).collect();
        Self { under: project_files(roots), texts }
    }

    /// The files of the projects that these texts belong to.
    #[cfg(feature = "run")]
    pub fn over<'a>(files: impl IntoIterator<Item = (&'a Path, Vec<u8>)>) -> Self {
        let files: Vec<_> = files.into_iter().collect();
        Self::of(&files.iter().map(|(path, _)| normalize(path)).collect::<Vec<_>>(), files)
    }

    /// The texts, by normalized path.
    pub fn texts(&self) -> &BTreeMap<PathBuf, Vec<u8>> {
        &self.texts
    }

    /// Identifies what decides which files may be read, for comparison.
    pub fn reach(&self) -> String {
        self.under.reach()
    }

    /// Whether the file exists only here.
    pub fn is_new(&self, path: &Path) -> bool {
        self.edited().text(path).is_some() && self.under.stat(path).is_none()
    }

    /// The link through which a file is reached; see [`Within::link`].
    pub fn link(&self, path: &Path) -> Option<PathBuf> {
        self.under.link(path)
    }

    fn edited(&self) -> Edited<'_> {
        Edited { under: &self.under, texts: &self.texts }
    }
}

impl Files for Overlay {
    fn read(&self, path: &Path) -> Result<Vec<u8>, ReadError> {
        self.edited().read(path)
    }

    fn stat(&self, path: &Path) -> Option<Stat> {
        self.edited().stat(path)
    }

    fn refusal(&self, path: &Path) -> Option<ReadError> {
        self.edited().refusal(path)
    }

    fn list(&self, dir: &Path) -> Vec<String> {
        self.edited().list(dir)
    }

    fn entries(&self, dir: &Path) -> Arc<[(String, bool)]> {
        self.edited().entries(dir)
    }

    fn entries_and(&self, dir: &Path, link: &dyn Fn(&Path)) -> Arc<[(String, bool)]> {
        self.edited().entries_and(dir, link)
    }
}
