//! Texts and their paths, and the interface through which the compiler reads files.
//!
//! Every position in gevals is a [`Span`]: a file and a half-open range of its bytes. Lines and columns exist only at
//! the edge, where messages are printed.

mod mentions;

pub use mentions::{is_written, mentions};

use std::{
    collections::BTreeMap,
    ffi::OsString,
    ops::Range,
    path::{Component, Path, PathBuf},
    sync::{Arc, OnceLock, PoisonError, RwLock},
};

use rustc_hash::FxHashMap;

/// A file of a [`Sources`]; meaningless without it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct FileId(u32);

/// A half-open range of bytes of one file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Span {
    pub file: FileId,
    pub start: u32,
    pub end: u32,
}

impl Span {
    /// A range of bytes of a file. Files larger than 4 GiB are never read.
    pub fn new(file: FileId, range: Range<usize>) -> Self {
        let clamp = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Self { file, start: clamp(range.start), end: clamp(range.end) }
    }

    /// The byte range in the file's text.
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// The empty span at this span's start.
    pub fn head(self) -> Self {
        Self { end: self.start, ..self }
    }

    /// The smallest span that covers both, which must be in the same file.
    pub fn to(self, other: Self) -> Self {
        Self { start: self.start.min(other.start), end: self.end.max(other.end), ..self }
    }

    /// Whether the other span is inside this one, in the same file.
    pub fn contains(self, other: Self) -> bool {
        self.file == other.file && self.start <= other.start && other.end <= self.end
    }
}

/// A value, and the place where it is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spanned<T> {
    pub value: T,
    pub span: Span,
}

impl<T> Spanned<T> {
    /// A value, and the place where it is written.
    pub fn new(value: T, span: Span) -> Self {
        Self { value, span }
    }
}

/// A line and a column, both starting at 1. Columns count Unicode scalar values (`decisions.md` §10).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Position {
    pub line: usize,
    pub column: usize,
}

/// One text and its path.
#[derive(Debug)]
pub struct Source {
    path: PathBuf,
    text: Arc<str>,
    lines: OnceLock<Vec<u32>>,
    mentions_gevals: OnceLock<bool>,
    given: bool,
}

impl Source {
    /// The path as given, with symbolic links unresolved.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the text was typed or sent by a user, so that there is no file to edit.
    pub fn is_given(&self) -> bool {
        self.given
    }

    /// Whether the text contains `gevals:`, as comments for gevals do; searched for once.
    pub fn mentions_gevals(&self) -> bool {
        *self.mentions_gevals.get_or_init(|| self.text.contains("gevals:"))
    }

    /// The whole text, as read.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text at a span of this file.
    pub fn slice(&self, span: Span) -> &str {
        self.text.get(span.range()).unwrap_or("")
    }

    /// Byte offsets at which lines start. A line ends after `\n`.
    pub fn line_starts(&self) -> &[u32] {
        self.lines.get_or_init(|| {
            let ends = self.text.bytes().enumerate().filter(|(_, b)| *b == b'\n');
            std::iter::once(0).chain(ends.map(|(i, _)| i as u32 + 1)).collect()
        })
    }

    /// The line and column of a byte of the text (`decisions.md` §10).
    pub fn position(&self, offset: u32) -> Position {
        let mut offset = (offset as usize).min(self.text.len());
        while !self.text.is_char_boundary(offset) {
            offset -= 1;
        }
        let starts = self.line_starts();
        let line = starts.partition_point(|&s| s as usize <= offset);
        let start = starts[line - 1] as usize;
        let start = if start == 0 && self.text.starts_with('\u{feff}') { offset.min(3) } else { start };
        Position { line, column: self.text[start..offset].chars().count() + 1 }
    }
}

/// All texts of a compilation. Append-only, and shared between threads.
///
/// A file has the same id every time it is read, as long as its text is the same, so identical findings in it can be
/// merged.
#[derive(Debug, Default)]
pub struct Sources(RwLock<Texts>);

#[derive(Debug, Default)]
struct Texts {
    files: Vec<Arc<Source>>,
    /// Which of them belong to the current compilation.
    current: Vec<bool>,
    /// The latest text of each path.
    by_path: FxHashMap<PathBuf, FileId>,
}

impl Sources {
    /// The id of this text of this file.
    pub fn add(&self, path: impl Into<PathBuf>, text: impl Into<Arc<str>>) -> FileId {
        self.push(path.into(), text.into(), false)
    }

    /// Adds words of a command line.
    pub fn give(&self, words: impl Into<Arc<str>>) -> FileId {
        self.push(PathBuf::from("the command line"), words.into(), true)
    }

    /// Adds a text that a client sent, with a name instead of a path.
    pub fn receive(&self, name: impl Into<PathBuf>, text: impl Into<Arc<str>>) -> FileId {
        self.push(name.into(), text.into(), true)
    }

    fn push(&self, path: PathBuf, text: Arc<str>, given: bool) -> FileId {
        let mut texts = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(&known) = texts.by_path.get(&path)
            && texts.files[known.0 as usize].text == text
        {
            texts.current[known.0 as usize] = true;
            return known;
        }
        let id = FileId(texts.files.len() as u32);
        texts.by_path.insert(path.clone(), id);
        texts.files.push(Arc::new(Source {
            path,
            text,
            lines: OnceLock::new(),
            mentions_gevals: OnceLock::new(),
            given,
        }));
        texts.current.push(true);
        id
    }

    /// Starts another compilation with the same ids. Only texts that it adds or [keeps](Self::keep) belong to it. Texts that the previous
    /// compilation did not use are freed.
    pub fn begin(&self) {
        let texts = &mut *self.0.write().unwrap_or_else(PoisonError::into_inner);
        for (index, current) in texts.current.iter_mut().enumerate() {
            let source = &mut texts.files[index];
            if !std::mem::take(current) && !source.text.is_empty() {
                if texts.by_path.get(&source.path) == Some(&FileId(index as u32)) {
                    texts.by_path.remove(&source.path);
                }
                let (path, given) = (source.path.clone(), source.given);
                *source = Arc::new(Source {
                    path,
                    text: Arc::from(""),
                    lines: OnceLock::new(),
                    mentions_gevals: OnceLock::new(),
                    given,
                });
            }
        }
    }

    /// Marks texts of earlier compilations as used by this one.
    pub fn keep(&self, ids: &[FileId]) {
        let mut texts = self.0.write().unwrap_or_else(PoisonError::into_inner);
        ids.iter().for_each(|id| texts.current[id.0 as usize] = true);
    }

    /// The known texts of these paths.
    pub fn known(&self, paths: &[PathBuf]) -> Vec<FileId> {
        let texts = self.0.read().unwrap_or_else(PoisonError::into_inner);
        paths.iter().filter_map(|path| texts.by_path.get(path).copied()).collect()
    }

    /// The text of a path, if this compilation has read it.
    pub fn read(&self, path: &Path) -> Option<Arc<Source>> {
        let texts = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let id = texts.by_path.get(path).filter(|id| texts.current[id.0 as usize])?;
        Some(Arc::clone(&texts.files[id.0 as usize]))
    }

    /// The file with an id. Ids come from this [`Sources`] only.
    pub fn get(&self, file: FileId) -> Arc<Source> {
        let texts = self.0.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&texts.files[file.0 as usize])
    }

    /// Every file of this compilation, in the order added.
    pub fn ids(&self) -> impl Iterator<Item = FileId> + use<> {
        let texts = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let current: Vec<bool> = texts.current.clone();
        current.into_iter().enumerate().filter(|(_, current)| *current).map(|(index, _)| FileId(index as u32))
    }

    /// Every text that this compilation has read so far.
    pub fn all(&self) -> Vec<Arc<Source>> {
        let texts = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let current = texts.files.iter().zip(&texts.current).filter(|(_, current)| **current);
        current.map(|(source, _)| Arc::clone(source)).collect()
    }

    /// The path of the file that a span is in.
    pub fn path(&self, span: Span) -> PathBuf {
        self.get(span.file).path.clone()
    }
}

/// The type of the entry at a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stat {
    Dir,
    File { executable: bool },
}

/// The reason why a file could not be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReadError {
    #[error("no such file")]
    Missing,
    #[error("it is a directory, not a file")]
    IsDir,
    /// Outside of the project root, which is named.
    #[error("it is outside the project `{0}`")]
    Outside(String),
    /// Inside by its path, but a link to something outside.
    #[error("it is a link to a path outside the project `{0}`")]
    LeadsOut(String),
    /// A directory that contains itself through links, or that is reached through too many links.
    #[error("it is a circular link")]
    Circular,
    /// A pipe, a socket or a device, from which reading may never end.
    #[error("it is {0}, not a file")]
    Special(&'static str),
    /// The limit is in MiB.
    #[error("it is larger than {0} MiB")]
    TooLarge(u64),
    #[error("{0}")]
    Other(String),
}

impl ReadError {
    /// Whether it is outside of the project root, by its path or by a link.
    pub fn is_outside(&self) -> bool {
        matches!(self, Self::Outside(_) | Self::LeadsOut(_))
    }
}

/// Access to files, the only way in which the compiler reads the world. It is implemented by the disk for the command
/// line, and by a map in memory in tests and in an editor.
pub trait Files: Sync {
    /// The bytes of a file.
    fn read(&self, path: &Path) -> Result<Vec<u8>, ReadError>;
    /// The type of the entry at a path. `None` if there is none, or if it may not be read.
    fn stat(&self, path: &Path) -> Option<Stat>;
    /// The reason why nothing at this path may be read, whether or not it exists.
    fn refusal(&self, path: &Path) -> Option<ReadError>;
    /// The names of the entries in a directory, sorted. Empty if the directory does not exist or may not be read.
    fn list(&self, dir: &Path) -> Vec<String>;
    /// The files and directories in a directory, sorted by name, each with whether it is a directory. A disk knows this
    /// without a query per entry.
    fn entries(&self, dir: &Path) -> Arc<[(String, bool)]> {
        let kind = |name: String| {
            let stat = self.stat(&dir.join(&name))?;
            Some((name, stat == Stat::Dir))
        };
        self.list(dir).into_iter().filter_map(kind).collect()
    }

    /// Like [`Self::entries`], and calls `link` with each link in the directory before it is followed.
    fn entries_and(&self, dir: &Path, link: &dyn Fn(&Path)) -> Arc<[(String, bool)]> {
        let _ = link;
        self.entries(dir)
    }

    /// Records a dependency on this path when the answer to an earlier query is reused.
    fn note(&self, _: &Path) {}
}

/// Files with cached directory listings.
pub struct Listed<'a> {
    files: &'a dyn Files,
    folders: RwLock<FxHashMap<OsString, Arc<[(String, bool)]>>>,
}

impl<'a> Listed<'a> {
    /// Caches the listings of `files`.
    pub fn new(files: &'a dyn Files) -> Self {
        Self { files, folders: RwLock::default() }
    }
}

impl Files for Listed<'_> {
    fn read(&self, path: &Path) -> Result<Vec<u8>, ReadError> {
        self.files.read(path)
    }

    fn stat(&self, path: &Path) -> Option<Stat> {
        self.files.stat(path)
    }

    fn refusal(&self, path: &Path) -> Option<ReadError> {
        self.files.refusal(path)
    }

    fn list(&self, dir: &Path) -> Vec<String> {
        self.files.list(dir)
    }

    fn entries(&self, dir: &Path) -> Arc<[(String, bool)]> {
        if let Some(known) = self.folders.read().unwrap_or_else(PoisonError::into_inner).get(dir.as_os_str()) {
            return Arc::clone(known);
        }
        let entries = self.files.entries(dir);
        self.folders
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(dir.as_os_str().to_owned(), Arc::clone(&entries));
        entries
    }
}

/// Files in memory, by path.
#[derive(Clone, Debug, Default)]
pub struct MemoryFiles(BTreeMap<PathBuf, (Vec<u8>, bool)>);

impl MemoryFiles {
    /// Adds a file, or replaces the one at this path.
    pub fn add(&mut self, path: impl Into<PathBuf>, text: impl Into<Vec<u8>>, executable: bool) {
        self.0.insert(normalize(&path.into()), (text.into(), executable));
    }

    /// The paths of all files, in order.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.keys().map(PathBuf::as_path)
    }
}

impl Files for MemoryFiles {
    fn read(&self, path: &Path) -> Result<Vec<u8>, ReadError> {
        match self.0.get(&normalize(path)) {
            Some((bytes, _)) => Ok(bytes.clone()),
            None if self.stat(path) == Some(Stat::Dir) => Err(ReadError::IsDir),
            None => Err(self.refusal(path).unwrap_or(ReadError::Missing)),
        }
    }

    fn stat(&self, path: &Path) -> Option<Stat> {
        let path = normalize(path);
        if let Some((_, executable)) = self.0.get(&path) {
            return Some(Stat::File { executable: *executable });
        }
        self.0.keys().any(|p| p.starts_with(&path) || path.as_os_str().is_empty()).then_some(Stat::Dir)
    }

    /// All files form one project: a path that leaves their common directory is outside.
    fn refusal(&self, path: &Path) -> Option<ReadError> {
        let path = normalize(path);
        let inside = match path.components().next() {
            Some(Component::ParentDir) => self.0.keys().any(|p| p.starts_with("..")),
            Some(Component::RootDir | Component::Prefix(_)) => self.0.keys().any(|p| p.is_absolute()),
            _ => true,
        };
        (!inside).then(|| ReadError::Outside(".".to_owned()))
    }

    fn list(&self, dir: &Path) -> Vec<String> {
        let dir = normalize(dir);
        let below = self.0.keys().filter_map(|p| p.strip_prefix(&dir).ok()?.components().next());
        let mut names: Vec<_> = below.map(|c| c.as_os_str().to_string_lossy().into_owned()).collect();
        names.dedup();
        names
    }
}

/// Resolves `.` and `..` lexically; symbolic links are not resolved (`decisions.md` §2).
pub fn normalize(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if matches!(out.components().next_back(), Some(Component::Normal(_))) => {
                out.pop();
            }
            Component::ParentDir if out.has_root() => {}
            _ => out.push(part),
        }
    }
    out
}

/// Resolves `path` as written in a file in `base`: absolute paths stay, others are joined and normalized.
pub fn resolve(base: &Path, path: &str) -> PathBuf {
    normalize(&base.join(path))
}
