//! The files of a rehearsal: those that setup creates, those of the project, and those known not to exist.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use super::{MOST, RANDOM, Text};
use crate::source::{Files, Stat, normalize};

/// The entry at a path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Node {
    File(Text),
    Folder,
}

/// Files and directories by absolute path.
pub struct Disk<'a> {
    nodes: BTreeMap<String, Node>,
    /// Removed paths, including everything below them.
    gone: BTreeSet<String>,
    /// Directories with unknown content.
    open: BTreeSet<String>,
    files: &'a dyn Files,
    /// The directory of the task, whose files are known.
    home: &'a Path,
}

impl<'a> Disk<'a> {
    pub fn new(files: &'a dyn Files, home: &'a Path) -> Self {
        Self { nodes: BTreeMap::new(), gone: BTreeSet::new(), open: BTreeSet::new(), files, home }
    }

    /// The entry at a path: `Some(None)` if nothing exists there, `None` if that is not known.
    pub fn at(&self, path: &str) -> Option<Option<Node>> {
        if let Some(node) = self.nodes.get(path) {
            return Some(Some(node.clone()));
        }
        if self.is_cleared(path) {
            return Some(None);
        }
        if self.is_open(path) || !Path::new(path).starts_with(self.home) {
            return None;
        }
        match self.files.stat(Path::new(path))? {
            Stat::Dir => Some(Some(Node::Folder)),
            Stat::File { .. } => {
                let text = self.files.read(Path::new(path)).ok().and_then(|bytes| String::from_utf8(bytes).ok());
                Some(Some(Node::File(text)))
            }
        }
    }

    /// The text of a file.
    pub fn text(&self, path: &str) -> Text {
        match self.at(path)?? {
            Node::File(text) => text,
            Node::Folder => None,
        }
    }

    /// Whether everything at and below a path was created in the rehearsal.
    pub fn is_cleared(&self, path: &str) -> bool {
        !self.is_open(path) && (path.contains(RANDOM) || ancestors(path).any(|outer| self.gone.contains(outer)))
    }

    fn is_open(&self, path: &str) -> bool {
        ancestors(path).any(|outer| self.open.contains(outer))
    }

    /// Marks the content of a directory as unknown.
    pub fn doubt(&mut self, path: &str) {
        self.nodes.retain(|known, _| known == path || !ancestors(known).any(|outer| outer == path));
        self.open.insert(path.to_owned());
    }

    pub fn write(&mut self, path: &str, text: Text) {
        self.folders_to(path);
        self.nodes.insert(path.to_owned(), Node::File(text));
    }

    pub fn append(&mut self, path: &str, text: Text) {
        let before = match self.at(path) {
            Some(None) => Some(String::new()),
            Some(Some(Node::File(before))) => before,
            _ => None,
        };
        self.write(path, before.zip(text).map(|(before, text)| before + &text).filter(|text| text.len() < MOST));
    }

    pub fn folder(&mut self, path: &str) {
        self.folders_to(path);
        self.nodes.insert(path.to_owned(), Node::Folder);
    }

    fn folders_to(&mut self, path: &str) {
        for outer in ancestors(path).skip(1).map(str::to_owned).collect::<Vec<_>>() {
            self.nodes.entry(outer).or_insert(Node::Folder);
        }
    }

    /// Removes the entry at a path, with everything below it.
    pub fn remove(&mut self, path: &str) {
        self.nodes.retain(|known, _| !ancestors(known).any(|outer| outer == path));
        self.open.retain(|known| !ancestors(known).any(|outer| outer == path));
        self.gone.insert(path.to_owned());
    }

    /// The paths of all files and directories below a directory, each with whether it is a directory. Returns `None` if
    /// there may be others.
    pub fn below(&self, path: &str) -> Option<Vec<(String, bool)>> {
        if !self.is_cleared(path) || self.nodes.get(path) != Some(&Node::Folder) {
            return None;
        }
        let inside = self
            .nodes
            .iter()
            .filter(|(known, _)| known.len() > path.len() && ancestors(known).any(|outer| outer == path));
        Some(inside.map(|(known, node)| (known.clone(), *node == Node::Folder)).collect())
    }
}

/// A path and the directories that contain it, innermost first.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| {
        let at = path.rfind('/')?;
        (at > 0).then(|| &path[..at])
    })
}

/// The absolute form of a path relative to a directory.
pub fn absolute(from: Option<&str>, path: &str) -> Option<String> {
    if path.starts_with('~') || path.is_empty() {
        return None;
    }
    let whole = if path.starts_with('/') { path.to_owned() } else { format!("{}/{path}", from?) };
    Some(normalize(Path::new(&whole)).to_string_lossy().into_owned())
}
