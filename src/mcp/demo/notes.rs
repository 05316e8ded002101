//! Notes in a directory, one `SLUG.md` each: a header with title, tags and date between two `---` lines, then the text.

use std::{
    fs,
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use jiff::Timestamp;
use rustix::fs::OFlags;
use thiserror::Error;

#[derive(Debug, Clone, PartialEq)]
pub struct Note {
    pub slug: String,
    pub title: String,
    pub tags: Vec<String>,
    pub created: Timestamp,
    pub body: String,
}

#[derive(Debug, Error)]
pub enum NoteError {
    #[error("there is no note `{0}`")]
    Unknown(String),
    #[error("there is a note `{0}` already")]
    Duplicate(String),
    #[error("`{0}` cannot be a title: it needs a letter or a digit, and at most 100 of them")]
    BadTitle(String),
    #[error("`{0}` cannot be a tag: it is empty, or holds a comma or a line break")]
    BadTag(String),
    #[error("the notes cannot be used: {0}")]
    Io(#[from] io::Error),
}

#[derive(Debug)]
pub struct Notes {
    dir: PathBuf,
    /// Held while a note is being changed.
    changing: Mutex<()>,
}

impl Notes {
    /// Opens a directory that only this user can write to: it may be in a place where other users can create a
    /// directory of the same name first.
    pub fn open(dir: &Path) -> io::Result<Notes> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        let refused = |why: &str| Err(io::Error::other(format!("`{}` {why}", dir.display())));
        let found = fs::symlink_metadata(dir)?;
        if !found.is_dir() {
            return refused("is a symbolic link: name the folder that it leads to");
        }
        if found.uid() != rustix::process::geteuid().as_raw() {
            return refused("belongs to somebody else: name another folder");
        }
        let by_others = found.mode() & 0o002 != 0;
        let by_group = found.mode() & 0o020 != 0 && found.gid() != rustix::process::getegid().as_raw();
        if by_others || by_group {
            return refused("can be written to by others: make it private (`chmod go-w`), or name another folder");
        }
        Ok(Notes { dir: dir.to_owned(), changing: Mutex::new(()) })
    }

    /// All notes, sorted by slug.
    pub fn all(&self) -> Result<Vec<Note>, NoteError> {
        let mut notes = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let path = entry?.path();
            let stem = path.file_stem().and_then(|stem| stem.to_str());
            let Some(slug) = stem.filter(|stem| path.extension().is_some_and(|e| e == "md") && is_slug(stem)) else {
                continue;
            };
            match self.by_slug(slug) {
                Ok(note) => notes.push(note),
                // Deleted in the meantime.
                Err(NoteError::Unknown(_)) => {}
                Err(error) => return Err(error),
            }
        }
        notes.sort_by(|a, b| a.slug.cmp(&b.slug));
        Ok(notes)
    }

    pub fn read(&self, title: &str) -> Result<Note, NoteError> {
        let slug = slug_of(title).ok_or_else(|| NoteError::Unknown(title.to_owned()))?;
        self.by_slug(&slug).map_err(|error| match error {
            NoteError::Unknown(_) => NoteError::Unknown(title.to_owned()),
            error => error,
        })
    }

    pub fn by_slug(&self, slug: &str) -> Result<Note, NoteError> {
        if !is_slug(slug) {
            return Err(NoteError::Unknown(slug.to_owned()));
        }
        match self.text(slug) {
            Ok(text) => Ok(decode(slug, &text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(NoteError::Unknown(slug.to_owned())),
            Err(error) => Err(error.into()),
        }
    }

    pub fn create(&self, title: &str, body: &str, tags: Vec<String>) -> Result<Note, NoteError> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let title = title.trim();
        let slug = slug_of(title).ok_or_else(|| NoteError::BadTitle(title.to_owned()))?;
        if let Some(bad) = tags.iter().find(|tag| tag.trim().is_empty() || tag.contains([',', '\n', '\r'])) {
            return Err(NoteError::BadTag(bad.clone()));
        }
        let note = Note {
            slug,
            title: title.replace(['\n', '\r'], " "),
            tags,
            created: Timestamp::now(),
            body: body.to_owned(),
        };
        let mut file = match new(&self.path(&note.slug)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(NoteError::Duplicate(note.title));
            }
            Err(error) => return Err(error.into()),
        };
        file.write_all(encode(&note).as_bytes())?;
        Ok(note)
    }

    /// Appends text on separate lines.
    pub fn append(&self, title: &str, text: &str) -> Result<Note, NoteError> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut note = self.read(title)?;
        if !note.body.is_empty() && !note.body.ends_with('\n') {
            note.body.push('\n');
        }
        note.body.push_str(text);
        let next = self.dir.join(format!(".{}.{}", note.slug, crate::random::word()));
        new(&next)?.write_all(encode(&note).as_bytes())?;
        fs::rename(next, self.path(&note.slug))?;
        Ok(note)
    }

    pub fn delete(&self, title: &str) -> Result<Note, NoteError> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let note = self.read(title)?;
        fs::remove_file(self.path(&note.slug))?;
        Ok(note)
    }

    /// Reads the file itself; does not follow a symbolic link.
    fn text(&self, slug: &str) -> io::Result<String> {
        let no_link = OFlags::NOFOLLOW.bits().cast_signed();
        let mut text = String::new();
        fs::OpenOptions::new().read(true).custom_flags(no_link).open(self.path(slug))?.read_to_string(&mut text)?;
        Ok(text)
    }

    fn path(&self, slug: &str) -> PathBuf {
        self.dir.join(format!("{slug}.md"))
    }
}

/// Creates a file that does not exist yet, readable only by this user.
fn new(path: &Path) -> io::Result<fs::File> {
    fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// The letters and digits of a title in lower case, with a hyphen for everything between them.
fn slug_of(title: &str) -> Option<String> {
    let slug = title
        .to_lowercase()
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join("-");
    is_slug(&slug).then_some(slug)
}

fn is_slug(text: &str) -> bool {
    !text.is_empty()
        && text.chars().count() <= 100
        && text.len() <= 240
        && text.split('-').all(|word| !word.is_empty() && word.chars().all(char::is_alphanumeric))
}

fn encode(note: &Note) -> String {
    let Note { title, tags, created, body, .. } = note;
    format!("---\ntitle: {title}\ntags: {}\ncreated: {created}\n---\n{body}", tags.join(", "))
}

/// Never fails: a file without a header is a note named by its slug.
fn decode(slug: &str, text: &str) -> Note {
    let mut note = Note {
        slug: slug.to_owned(),
        title: slug.to_owned(),
        tags: Vec::new(),
        created: Timestamp::UNIX_EPOCH,
        body: text.to_owned(),
    };
    let Some((head, body)) = text.strip_prefix("---\n").and_then(|rest| rest.split_once("\n---\n")) else {
        return note;
    };
    body.clone_into(&mut note.body);
    for line in head.lines() {
        match line.split_once(':').map(|(key, value)| (key, value.trim())) {
            Some(("title", title)) => title.clone_into(&mut note.title),
            Some(("tags", tags)) => {
                note.tags = tags.split(',').map(str::trim).filter(|tag| !tag.is_empty()).map(str::to_owned).collect();
            }
            Some(("created", created)) => note.created = created.parse().unwrap_or_default(),
            _ => {}
        }
    }
    note
}
