//! The output of a check, kept in the user's cache as long as nothing that it asked for has changed.
//!
//! A question consists of the arguments and everything else that determines the answer. An answer is stored with the
//! trail of the names that were asked for. So no code has to declare dependencies, and if anything has changed,
//! everything is checked again.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use sha2::{Digest as _, Sha256};

use super::{Args, scope};
use crate::{
    cli::{Global, ROOT, overlay::Overlay},
    host::{
        cache,
        disk::Disk,
        trail::{Noted, Trail, Written},
    },
    source::Files,
};

/// The header of a file in this format.
const FORM: &[u8] = b"gevals check 1\n";
/// The maximum number of files, and the maximum size of all of them and of one, in bytes.
const FILES: usize = 64;
const ALL: u64 = 64 << 20;
const ONE: usize = 16 << 20;
/// A temporary file of this age is not being written any more.
const LEFT: Duration = Duration::from_secs(3600);
const DIGEST: usize = 32;

/// The output of the command, and its exit status.
pub struct Answer {
    pub text: String,
    pub code: u8,
}

/// A question, and the location of its answer.
pub struct Kept {
    question: Vec<u8>,
    folder: PathBuf,
    name: String,
    trail: Trail,
}

/// The directory of all answers, which may not exist.
pub fn folder() -> Option<PathBuf> {
    cache::checks().filter(|_| cfg!(unix))
}

impl Kept {
    /// The question that these arguments ask about these files; `None` if its answer is not kept.
    pub fn of(args: &Args, files: &Overlay, global: Global) -> Option<Self> {
        let writes = args.mends() || args.write_baseline.is_some();
        // What git says about a revision is not in the trail.
        if args.no_cache || writes || args.watch || args.stdin || args.changed_since.is_some() {
            return None;
        }
        let folder = folder()?;
        let trail = Trail::default();
        let program = std::env::current_exe().ok().filter(|program| program.is_file())?;
        trail.note(&program);
        let style = global.pretty(&std::io::stdout());
        let here = std::env::current_dir().ok()?;
        let roots = (ROOT.get(), files.reach(), scope::roots(&args.paths));
        let version = env!("CARGO_PKG_VERSION");
        let question = format!("{version} {} {program:?} {here:?} {roots:?} {style:?} {args:?}", user()).into_bytes();
        let name = hex::encode(&Sha256::digest(&question)[..16]);
        Some(Self { question, folder, name, trail })
    }

    /// The files, with a record of what is asked for.
    pub fn noting<'a>(&'a self, files: &'a dyn Files) -> Noted<'a> {
        Noted { files, trail: &self.trail }
    }

    /// What was asked for through [`noting`](Self::noting).
    pub fn trail(&self) -> &Trail {
        &self.trail
    }

    /// The earlier answer, if it is still valid.
    pub fn answer(&self) -> Option<Answer> {
        if !is_ours(&self.folder) {
            return None;
        }
        let bytes = Disk.read(&self.folder.join(&self.name)).ok()?;
        let (answer, trail) = self.read(&bytes)?;
        Trail::holds(trail).then_some(answer)
    }

    /// Reads an answer and its trail; `None` if the file is damaged or answers another question.
    fn read<'b>(&self, bytes: &'b [u8]) -> Option<(Answer, &'b [u8])> {
        let mut rest = bytes.strip_prefix(FORM)?;
        let digest = rest.split_off(..DIGEST)?;
        if Sha256::digest(rest).as_slice() != digest || part(&mut rest)? != self.question {
            return None;
        }
        let text = String::from_utf8(part(&mut rest)?.to_vec()).ok()?;
        let code = *rest.split_off_first()?;
        Some((Answer { text, code }, rest))
    }

    /// Keeps an answer, and the names of its trail. If that fails, the next check does everything again.
    pub fn keep(&self, text: &str, code: u8, names: &Written) {
        let mut rest = Vec::new();
        for part in [self.question.as_slice(), text.as_bytes()] {
            let Ok(length) = u32::try_from(part.len()) else { return };
            rest.extend(length.to_le_bytes());
            rest.extend(part);
        }
        rest.push(code);
        if names.write(&mut rest) && rest.len() <= ONE {
            let digest = Sha256::digest(&rest);
            let _ = write(&self.folder, &self.name, &[FORM, digest.as_slice(), &rest]);
        }
    }
}

/// Takes bytes that are prefixed with their length.
pub fn part<'b>(bytes: &mut &'b [u8]) -> Option<&'b [u8]> {
    let length: [u8; 4] = bytes.split_off(..4)?.try_into().ok()?;
    bytes.split_off(..u32::from_le_bytes(length) as usize)
}

/// Writes a file atomically. It is not synced to the disk, because a damaged file is not used.
pub fn write(folder: &Path, name: &str, parts: &[&[u8]]) -> io::Result<()> {
    make(folder)?;
    if !is_ours(folder) {
        return Ok(());
    }
    make_room(folder, parts.iter().map(|part| part.len() as u64).sum())?;
    let temp = folder.join(format!(".{name}.{}", crate::random::word()));
    let written = (|| {
        let mut file = new_file(&temp)?;
        parts.iter().try_for_each(|part| file.write_all(part))?;
        fs::rename(&temp, folder.join(name))
    })();
    if written.is_err() {
        let _ = fs::remove_file(&temp);
    }
    written
}

/// Removes the oldest answers until there is room for another one with this many bytes, and abandoned temporary files.
fn make_room(folder: &Path, mut bytes: u64) -> io::Result<()> {
    let mut known = Vec::new();
    for entry in fs::read_dir(folder)?.flatten() {
        let Ok(meta) = entry.metadata() else { continue };
        let time = meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        match entry.file_name().as_encoded_bytes().starts_with(b".") {
            true if time.elapsed().is_ok_and(|age| age > LEFT) => drop(fs::remove_file(entry.path())),
            true => {}
            false => known.push((time, meta.len(), entry.path())),
        }
    }
    known.sort();
    let mut files = 1;
    for (_, length, path) in known.into_iter().rev() {
        (files, bytes) = (files + 1, bytes + length);
        if files > FILES || bytes > ALL {
            let _ = fs::remove_file(path);
        }
    }
    Ok(())
}

/// The output quotes files of the project, so only this user may read it.
#[cfg(unix)]
fn make(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

#[cfg(unix)]
fn new_file(path: &Path) -> io::Result<fs::File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Whether this is a directory to which only this user can write: others could store false answers.
#[cfg(unix)]
pub fn is_ours(folder: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    fs::symlink_metadata(folder)
        .is_ok_and(|meta| meta.is_dir() && u64::from(meta.uid()) == user() && meta.mode() & 0o022 == 0)
}

#[cfg(unix)]
pub fn user() -> u64 {
    u64::from(rustix::process::geteuid().as_raw())
}

#[cfg(not(unix))]
fn make(_: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(unix))]
fn new_file(_: &Path) -> io::Result<fs::File> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(unix))]
pub fn is_ours(_: &Path) -> bool {
    false
}

#[cfg(not(unix))]
pub fn user() -> u64 {
    0
}
