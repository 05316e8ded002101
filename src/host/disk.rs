//! The file system, as the compiler reads it and as gevals writes to it.
#![expect(clippy::disallowed_methods, reason = "this is the door to the disk")]

#[cfg(feature = "run")]
use super::Entry;
use crate::source::{Files, ReadError, Stat};
use std::{
    ffi::OsString,
    fs::{self, File, Metadata, OpenOptions},
    io::{self, BufWriter, Read, Write},
    path::{Component, Path, PathBuf},
    sync::Arc,
};

/// Files of more bytes are not read. The recordings and results of a day have a tenth of it.
const LARGEST: u64 = 256 << 20;

/// The files of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl Files for Disk {
    fn read(&self, path: &Path) -> Result<Vec<u8>, ReadError> {
        read(path)
    }

    fn stat(&self, path: &Path) -> Option<Stat> {
        let meta = fs::metadata(path).ok()?;
        // A pipe, a socket or a device has no text that can be read twice; reading one may never end.
        match (meta.is_dir(), meta.is_file()) {
            (true, _) => Some(Stat::Dir),
            (_, true) => Some(Stat::File { executable: is_executable(&meta) }),
            _ => None,
        }
    }

    fn refusal(&self, path: &Path) -> Option<ReadError> {
        let meta = fs::metadata(path).ok()?;
        match special(&meta) {
            Some(kind) => Some(ReadError::Special(kind)),
            None if meta.is_file() && meta.len() > LARGEST => Some(ReadError::TooLarge(LARGEST >> 20)),
            None if meta.is_dir() => not_entered(path),
            None => None,
        }
    }

    fn list(&self, dir: &Path) -> Vec<String> {
        // An empty path is the current directory, but not for the operating system.
        let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        let mut names: Vec<_> = entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    fn entries(&self, dir: &Path) -> Arc<[(String, bool)]> {
        self.entries_and(dir, &|_| {})
    }

    fn entries_and(&self, dir: &Path, link: &dyn Fn(&Path)) -> Arc<[(String, bool)]> {
        let here = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
        if not_entered(here).is_some() {
            return Arc::new([]);
        }
        let kind = |entry: fs::DirEntry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_dir = match entry.file_type() {
                Ok(kind) if kind.is_dir() => true,
                Ok(kind) if kind.is_file() => false,
                // A link counts as its target; if that is not a regular file, reading it reports so.
                _ => {
                    let path = dir.join(&name);
                    link(&path);
                    self.stat(&path) == Some(Stat::Dir)
                }
            };
            Some((name, is_dir))
        };
        let mut entries: Vec<_> = fs::read_dir(here).into_iter().flatten().flatten().filter_map(kind).collect();
        entries.sort();
        entries.into()
    }
}

/// Reads a whole file. Most need one read: if a file has a length, a read of less than requested has reached the end.
fn read(path: &Path) -> Result<Vec<u8>, ReadError> {
    const FIRST: u64 = 32 << 20;
    let (mut file, meta) = open(path)?;
    let ends = meta.len() > 0;
    let mut bytes = vec![0; meta.len().min(FIRST) as usize + 1];
    let mut length = 0;
    loop {
        let asked = bytes.len() - length;
        match file.read(&mut bytes[length..]) {
            Ok(read) => {
                length += read;
                if read == 0 || ends && read < asked {
                    break;
                }
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(ReadError::Other(e.to_string())),
        }
        // The file grows, or does not report its length.
        if length as u64 > LARGEST {
            return Err(ReadError::TooLarge(LARGEST >> 20));
        }
        if length == bytes.len() {
            bytes.resize(length.saturating_mul(2).max(4096), 0);
        }
    }
    bytes.truncate(length);
    Ok(bytes)
}

/// Why a directory that can be read is not entered: links to it form a circle, or there are too many links on the way.
fn not_entered(dir: &Path) -> Option<ReadError> {
    /// How many linked directories a path may lead through.
    const LINKS: usize = 3;
    let is_link = |dir: &Path| fs::symlink_metadata(dir).is_ok_and(|meta| meta.is_symlink());
    // Only a link as the last component can close a circle.
    if !is_link(dir) {
        return None;
    }
    let real = fs::canonicalize(dir).ok()?;
    let around =
        || dir.ancestors().skip(1).filter(|dir| matches!(dir.components().next_back(), Some(Component::Normal(_))));
    let base = dir.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let circular = fs::canonicalize(base).is_ok_and(|base| base.starts_with(&real))
        || around().any(|dir| fs::canonicalize(dir).is_ok_and(|dir| dir == real));
    match circular {
        true => Some(ReadError::Circular),
        false if around().filter(|dir| is_link(dir)).count() >= LINKS => {
            Some(ReadError::Other(format!("it lies behind more than {LINKS} links")))
        }
        false => None,
    }
}

/// What is at a path; `None` if nothing is there.
///
/// # Errors
/// A directory on the way cannot be entered.
#[cfg(feature = "run")]
pub(crate) fn entry(path: &Path) -> io::Result<Option<Entry>> {
    let kind = |meta: &Metadata, is_link| match special(meta) {
        Some(kind) => Entry::Special(kind),
        None if meta.is_dir() && is_link => Entry::LinkToDir,
        None if meta.is_dir() => Entry::Dir,
        None => Entry::File,
    };
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_symlink() => match fs::metadata(path) {
            Ok(meta) => Ok(Some(kind(&meta, true))),
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => Err(e),
            Err(_) => Ok(Some(Entry::BrokenLink)),
        },
        Ok(meta) => Ok(Some(kind(&meta, false))),
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(e) => Err(e),
    }
}

/// What kind of file is at a path, if it is neither a regular file nor a directory.
fn special(meta: &Metadata) -> Option<&'static str> {
    if meta.is_file() || meta.is_dir() {
        return None;
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt as _;
        let kind = meta.file_type();
        if kind.is_fifo() {
            return Some("a pipe");
        }
        if kind.is_socket() {
            return Some("a socket");
        }
    }
    Some("a device")
}

/// Opens a regular file for reading: never one that could block, or that has an effect when it is opened.
fn open(path: &Path) -> Result<(File, Metadata), ReadError> {
    let fault = |e: io::Error| match e.kind() {
        io::ErrorKind::NotFound if path.is_symlink() => ReadError::Other("it is a link that leads nowhere".to_owned()),
        // Listings of directories have such names.
        io::ErrorKind::NotFound if path.to_str().is_some_and(|path| path.contains(char::REPLACEMENT_CHARACTER)) => {
            ReadError::Other("its name is not UTF-8: give it another one".to_owned())
        }
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => ReadError::Missing,
        io::ErrorKind::IsADirectory => ReadError::IsDir,
        _ if path.is_dir() => ReadError::IsDir,
        _ => ReadError::Other(e.to_string()),
    };
    let fits = |meta: &Metadata| match special(meta) {
        Some(kind) => Err(ReadError::Special(kind)),
        None if meta.is_dir() => Err(ReadError::IsDir),
        None if meta.len() > LARGEST => Err(ReadError::TooLarge(LARGEST >> 20)),
        None => Ok(()),
    };
    fits(&fs::metadata(path).map_err(fault)?)?;
    let mut options = OpenOptions::new();
    options.read(true);
    // Another process may have put a pipe there in the meantime.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, NONBLOCK);
    let file = options.open(path).map_err(fault)?;
    let meta = file.metadata().map_err(fault)?;
    fits(&meta)?;
    Ok((file, meta))
}

#[cfg(unix)]
const NONBLOCK: i32 = rustix::fs::OFlags::NONBLOCK.bits() as i32;

/// Creates or replaces a file, completely or not at all: readers see the old content or the new, and an error leaves the old.
/// A symbolic link is followed; an existing file keeps its permissions. A device or a pipe is written to.
///
/// # Errors
/// The error of the operating system; existing content is unchanged.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_with(path, bytes, None)
}

/// [`write_atomic`] with permission bits, which have no effect on Windows.
pub(crate) fn write_with(path: &Path, bytes: &[u8], mode: Option<u32>) -> io::Result<()> {
    replace(path, mode, |out| out.write_all(bytes))
}

/// [`write_with`] for what `text` writes.
///
/// # Errors
/// The error of the operating system, or of `text`; existing content is unchanged.
pub fn replace(path: &Path, mode: Option<u32>, text: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let there = fs::metadata(path).ok();
    // A rename would replace it with a regular file.
    if there.as_ref().is_some_and(|meta| !meta.is_file() && !meta.is_dir()) {
        let mut out = BufWriter::new(OpenOptions::new().write(true).open(path)?);
        return text(&mut out).and_then(|()| out.flush());
    }
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let (temp, file) = beside(&target)?;
    let written = (|| {
        let mut out = BufWriter::with_capacity(64 << 10, &file);
        text(&mut out)?;
        out.flush()?;
        drop(out);
        match (mode, &there) {
            (Some(mode), _) => set_mode(&temp, mode)?,
            (None, Some(meta)) if meta.is_file() => fs::set_permissions(&temp, meta.permissions())?,
            (None, _) => {}
        }
        file.sync_all()?;
        drop(file);
        fs::rename(&temp, &target)
    })();
    match written {
        // The rename itself is made durable as well; a file system that cannot sync a directory is no reason to fail.
        Ok(()) => {
            if let Some(Ok(dir)) = target.parent().filter(|_| cfg!(unix)).map(File::open) {
                let _ = dir.sync_all();
            }
        }
        Err(_) => {
            let _ = fs::remove_file(&temp);
        }
    }
    written
}

/// Opens a file for appending, and creates it if it does not exist. What is written in one call stays together.
///
/// # Errors
/// It cannot be opened for writing.
pub fn add_to(path: &Path) -> io::Result<Box<dyn Write + Send>> {
    Ok(Box::new(OpenOptions::new().append(true).create(true).open(path)?))
}

/// Creates a file in the directory of `target`, so that a rename does not cross file systems.
fn beside(target: &Path) -> io::Result<(PathBuf, File)> {
    let name =
        target.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path names no file"))?;
    loop {
        // A long name leaves no room for a suffix.
        let word = crate::random::word();
        let mut temp = OsString::from(".");
        if name.len() < 200 {
            temp.push(name);
        }
        temp.push(format!(".{word}.tmp"));
        let temp = target.with_file_name(temp);
        match OpenOptions::new().write(true).create_new(true).open(&temp) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            opened => return opened.map(|file| (temp, file)),
        }
    }
}

#[cfg(unix)]
pub(crate) fn is_executable(meta: &Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    meta.permissions().mode() & 0o111 != 0
}

#[cfg(not(unix))]
pub(crate) fn is_executable(_: &Metadata) -> bool {
    true
}

#[cfg(unix)]
pub(crate) fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
pub(crate) fn set_mode(_: &Path, _: u32) -> io::Result<()> {
    Ok(())
}
