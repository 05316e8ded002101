//! Archives that contain results files, as people and engines keep them: zip, and tar, optionally compressed with gzip or zstd.
//!
//! Archives may come from untrusted sources. Paths that lead out of the archive, links, devices, and anything that exceeds [`LIMITS`] are
//! refused. No name in an archive is used as a path: the caller decides where the bytes go.

use std::{
    cell::Cell,
    io::{self, Read, Seek},
    rc::Rc,
};

use crate::{diagnostic::visible, pack::is_plain};

/// The limits of an archive.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The maximum number of files and directories.
    pub entries: usize,
    /// The maximum unpacked size of a file that is read, in bytes.
    pub file: u64,
    /// The maximum total size in bytes: of a tar everything, of a zip only the files that are read.
    pub bytes: u64,
}

impl Limits {
    fn too_much(self) -> String {
        format!("it contains more than {} MiB", self.bytes >> 20)
    }
}

pub const LIMITS: Limits = Limits { entries: 1_000_000, file: 2 << 30, bytes: 16 << 30 };

/// How many bytes at the start of a file are needed to detect its format.
pub const HEAD: usize = 262;
/// How many bytes may be between two files of a tar: names and other metadata, which are read into memory.
const BETWEEN: u64 = 1 << 20;

/// The format of an archive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Zip,
    Tar,
    Gzip,
    Zstd,
}

/// Detects the format of an archive from its first bytes; returns `None` if it is not an archive.
pub fn kind(first: &[u8]) -> Option<Kind> {
    let has = |magic: &[u8]| first.starts_with(magic);
    if has(b"PK\x03\x04") || has(b"PK\x05\x06") {
        Some(Kind::Zip)
    } else if has(&[0x1f, 0x8b]) {
        Some(Kind::Gzip)
    } else if has(&[0x28, 0xb5, 0x2f, 0xfd]) {
        Some(Kind::Zstd)
    } else if first.get(257..262) == Some(b"ustar") {
        Some(Kind::Tar)
    } else {
        None
    }
}

/// Receives the name and the bytes of a file in an archive.
pub type Take<'t> = dyn FnMut(&str, &mut dyn Read) -> Result<(), String> + 't;

/// Passes the files of an archive whose names are wanted to `take`, one after another. Hidden directories are skipped, as on disk.
///
/// # Errors
/// What is wrong with the archive, for people: it is damaged, contains something that is not allowed, or exceeds the limits. Also the
/// errors of `take`.
pub fn each(
    kind: Kind,
    from: impl Read + Seek,
    limits: Limits,
    wanted: &dyn Fn(&str) -> bool,
    take: &mut Take<'_>,
) -> Result<(), String> {
    let mut seen = Seen { limits, wanted, entries: 0 };
    let from = io::BufReader::new(from);
    match kind {
        Kind::Zip => zipped(from, &mut seen, take),
        Kind::Tar => tarred(from, &mut seen, take),
        Kind::Gzip => tarred(flate2::bufread::MultiGzDecoder::new(from), &mut seen, take),
        Kind::Zstd => tarred(zstd::Decoder::with_buffer(from).map_err(|e| bad(&e))?, &mut seen, take),
    }
}

fn bad(why: &dyn std::fmt::Display) -> String {
    format!("it is not a readable archive: {why}")
}

/// Checks each entry.
struct Seen<'s> {
    limits: Limits,
    wanted: &'s dyn Fn(&str) -> bool,
    entries: usize,
}

enum Sort {
    File,
    Folder,
    Other,
}

impl Seen<'_> {
    /// Returns the plain name of an entry, if it is wanted.
    fn entry(&mut self, name: &str, sort: &Sort, size: u64) -> Result<Option<String>, String> {
        self.entries += 1;
        if self.entries > self.limits.entries {
            return Err(format!("it contains more than {} files", self.limits.entries));
        }
        let shown = visible(name);
        let plain = name.strip_prefix("./").unwrap_or(name);
        let plain = plain.strip_suffix('/').unwrap_or(plain);
        if matches!(sort, Sort::Folder) && matches!(plain, "" | ".") {
            return Ok(None);
        }
        if !is_plain(plain) {
            return Err(format!("`{shown}` in it leads outside it, or is not a path"));
        }
        if plain.split('/').any(|part| part.starts_with('.')) {
            return Ok(None);
        }
        match sort {
            Sort::Folder => return Ok(None),
            Sort::Other => {
                return Err(format!("`{shown}` in it is a link or a device: only files and directories are supported"));
            }
            Sort::File => {}
        }
        if !(self.wanted)(plain.rsplit('/').next().unwrap_or_default()) {
            return Ok(None);
        }
        self.fits(name, size)?;
        Ok(Some(plain.to_owned()))
    }

    fn fits(&self, name: &str, size: u64) -> Result<(), String> {
        let most = self.limits.file;
        if size > most { Err(format!("`{}` in it has more than {} MiB", visible(name), most >> 20)) } else { Ok(()) }
    }
}

fn zipped(from: impl Read + Seek, seen: &mut Seen<'_>, take: &mut Take<'_>) -> Result<(), String> {
    let mut archive = zip::ZipArchive::new(from).map_err(|e| bad(&e))?;
    let mut left = seen.limits.bytes;
    for nth in 0..archive.len() {
        let entry = archive.by_index(nth).map_err(|e| bad(&e))?;
        let name = entry.name().map_err(|e| bad(&e))?.into_owned();
        let sort = match (entry.is_dir(), entry.unix_mode().unwrap_or(0) & 0o170_000) {
            (true, _) => Sort::Folder,
            (_, 0 | 0o100_000) => Sort::File,
            _ => Sort::Other,
        };
        // The stated size may be wrong.
        let Some(plain) = seen.entry(&name, &sort, entry.size())? else { continue };
        let most = seen.limits.file.min(left);
        let mut content = Measured { inner: entry.take(most + 1), count: 0 };
        take(&plain, &mut content)?;
        seen.fits(&name, content.count)?;
        left = left.checked_sub(content.count).ok_or_else(|| seen.limits.too_much())?;
    }
    Ok(())
}

struct Measured<R> {
    inner: R,
    count: u64,
}

impl<R: Read> Read for Measured<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(bytes)?;
        self.count += read as u64;
        Ok(read)
    }
}

fn tarred(from: impl Read, seen: &mut Seen<'_>, take: &mut Take<'_>) -> Result<(), String> {
    let limits = seen.limits;
    let (left, over) = (Rc::new(Cell::new(BETWEEN)), Rc::new(Cell::new(None)));
    let over_too = Rc::clone(&over);
    let from = Metered { inner: from, total: limits.bytes, left: Rc::clone(&left), over: over_too, ended: false };
    let mut archive = tar::Archive::new(from);
    let why = |error: io::Error| match over.get() {
        Some(Over::Total) => limits.too_much(),
        Some(Over::Between) => "there is more than a name between two of its files".to_owned(),
        None => bad(&error),
    };
    for entry in archive.entries().map_err(why)? {
        let mut entry = entry.map_err(why)?;
        left.set(entry.size().saturating_add(BETWEEN));
        let name = String::from_utf8(entry.path_bytes().into_owned());
        let name = name.map_err(|_| "the name of a file in it is not valid UTF-8".to_owned())?;
        let sort = match entry.header().entry_type() {
            tar::EntryType::Regular | tar::EntryType::Continuous => Sort::File,
            tar::EntryType::Directory => Sort::Folder,
            // Applies to all entries; `git archive` writes one.
            tar::EntryType::XGlobalHeader => continue,
            _ => Sort::Other,
        };
        let size = entry.size();
        let Some(plain) = seen.entry(&name, &sort, size)? else { continue };
        let mut content = Measured { inner: &mut entry, count: 0 };
        take(&plain, &mut content).map_err(|told| if over.get().is_some() { limits.too_much() } else { told })?;
        if content.count != size {
            return Err(format!("`{}` in it is truncated", visible(&name)));
        }
    }
    let mut rest = archive.into_inner();
    if rest.ended {
        return Err("it is truncated: its end is missing".to_owned());
    }
    // The compressed stream ends with a checksum, so it is read to the end.
    left.set(u64::MAX);
    io::copy(&mut rest, &mut io::sink()).map_err(why)?;
    Ok(())
}

#[derive(Clone, Copy)]
enum Over {
    Total,
    Between,
}

/// A reader that fails if more is read than allowed.
struct Metered<R> {
    inner: R,
    total: u64,
    /// How many bytes may still be read for the entry, including what is before the next entry.
    left: Rc<Cell<u64>>,
    over: Rc<Cell<Option<Over>>>,
    /// Whether the end was reached.
    ended: bool,
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(bytes)? as u64;
        self.ended = read == 0 && !bytes.is_empty();
        let over = match (self.total.checked_sub(read), self.left.get().checked_sub(read)) {
            (Some(total), Some(left)) => {
                self.total = total;
                self.left.set(left);
                return Ok(read as usize);
            }
            (None, _) => Over::Total,
            _ => Over::Between,
        };
        self.over.set(Some(over));
        Err(io::Error::other("more than it may contain"))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write};

    use super::*;
    use crate::pack::tests::tar_of;

    fn zip_of(entries: &[(&str, &[u8])]) -> Vec<u8> {
        let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for (name, bytes) in entries {
            zip.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
            zip.write_all(bytes).unwrap();
        }
        zip.finish().unwrap().into_inner()
    }

    fn gzipped(bytes: &[u8]) -> Vec<u8> {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        out.write_all(bytes).unwrap();
        out.finish().unwrap()
    }

    fn read_with(bytes: &[u8], limits: Limits) -> Result<Vec<(String, String)>, String> {
        let kind = kind(&bytes[..bytes.len().min(HEAD)]).ok_or("no archive")?;
        let mut found = Vec::new();
        each(kind, Cursor::new(bytes), limits, &|name| name.ends_with(".json"), &mut |name, content| {
            let mut text = String::new();
            content.read_to_string(&mut text).map_err(|error| error.to_string())?;
            found.push((name.to_owned(), text));
            Ok(())
        })?;
        Ok(found)
    }

    fn read(bytes: &[u8]) -> Result<Vec<(String, String)>, String> {
        read_with(bytes, LIMITS)
    }

    #[test]
    fn all_forms_are_read() {
        use tar::EntryType::{Directory, Regular, Symlink, XGlobalHeader};
        let plain = tar_of(&[
            ("pax_global_header", b"", XGlobalHeader),
            ("./", b"", Directory),
            ("./a/", b"", Directory),
            ("./a/x.json", b"1", Regular),
            ("a/.gevals/y.json", b"2", Regular),
            ("a/.gevals/link", b"", Symlink),
            ("a/z.txt", b"3", Regular),
            ("b.json", b"4", Regular),
        ]);
        let expected = vec![("a/x.json".to_owned(), "1".to_owned()), ("b.json".to_owned(), "4".to_owned())];
        assert_eq!(read(&plain).unwrap(), expected);
        assert_eq!(read(&gzipped(&plain)).unwrap(), expected);
        assert_eq!(read(&zstd::encode_all(plain.as_slice(), 1).unwrap()).unwrap(), expected);
        let zip = zip_of(&[("a/x.json", b"1"), ("a/.h/y.json", b"2"), ("a/z.txt", b"3"), ("b.json", b"4")]);
        assert_eq!(read(&zip).unwrap(), expected);
        assert_eq!(read(&zip_of(&[])).unwrap(), []);
        assert_eq!(read(b"{\"results\": []}"), Err("no archive".to_owned()));
    }

    #[test]
    fn paths_outside_and_special_files_are_rejected() {
        use tar::EntryType::{Block, Link, Regular, Symlink};
        let long = "d/".repeat(40) + "x.json";
        for name in ["../x.json", "/x.json", "a/../x.json", "a//x.json", "a\\x.json", "\u{1b}[2J.json", ".."] {
            let told = read(&tar_of(&[("a.json", b"1", Regular), (name, b"", Regular)])).unwrap_err();
            assert!(told.contains("leads outside it"), "{name}: {told}");
            let told = read(&zip_of(&[("a.json", b"1"), (name, b"")])).unwrap_err();
            assert!(told.contains("leads outside it"), "{name}: {told}");
        }
        assert_eq!(read(&tar_of(&[(&long, b"1", Regular)])).unwrap().len(), 1);
        for kind in [Symlink, Link, Block] {
            let told = read(&tar_of(&[("a.json", b"", kind)])).unwrap_err();
            assert!(told.contains("a link or a device"), "{told}");
        }
        let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
        zip.add_symlink("a.json", "/etc/passwd", zip::write::SimpleFileOptions::default()).unwrap();
        let told = read(&zip.finish().unwrap().into_inner()).unwrap_err();
        assert!(told.contains("a link or a device"), "{told}");
    }

    #[test]
    fn archives_beyond_the_limits_are_rejected_in_every_form() {
        use tar::EntryType::Regular;
        let limits = Limits { entries: 2, file: 1 << 20, bytes: 3 << 20 };
        let refused = |bytes: &[u8], why: &str| {
            let told = read_with(bytes, limits).unwrap_err();
            assert!(told.contains(why), "`{told}` does not say `{why}`");
        };
        let three = tar_of(&[("a", b"", Regular), ("b", b"", Regular), ("c", b"", Regular)]);
        refused(&three, "more than 2 files");
        refused(&zip_of(&[("a", b""), ("b", b""), ("c", b"")]), "more than 2 files");
        // Zeros compress well, whether the file is wanted or not.
        let large = vec![b'0'; (1 << 20) + 1];
        let huge = vec![b'0'; 4 << 20];
        refused(&gzipped(&tar_of(&[("a.json", &large, Regular)])), "`a.json` in it has more than 1 MiB");
        refused(&zip_of(&[("a.json", &large)]), "`a.json` in it has more than 1 MiB");
        refused(&gzipped(&tar_of(&[("a", &huge, Regular), ("b.json", b"1", Regular)])), "it contains more than 3 MiB");
        assert_eq!(read_with(&zip_of(&[("a", &huge), ("b.json", b"1")]), limits).unwrap().len(), 1);
        let one = &huge[..1 << 20];
        let several: Vec<(String, &[u8])> = (0..4).map(|nth| (format!("{nth}.json"), one)).collect();
        let several: Vec<(&str, &[u8])> = several.iter().map(|(name, bytes)| (name.as_str(), *bytes)).collect();
        let told = read_with(&zip_of(&several), Limits { entries: 9, ..limits }).unwrap_err();
        assert_eq!(told, "it contains more than 3 MiB");
        // A name is read into memory before it is requested.
        let told = read(&tar_of(&[("x", &huge, tar::EntryType::GNULongName), ("a.json", b"1", Regular)])).unwrap_err();
        assert!(told.contains("more than a name"), "{told}");
    }

    #[test]
    fn damaged_archives_are_errors() {
        use tar::EntryType::Regular;
        let whole = tar_of(&[("a.json", b"11111111", Regular), ("b.json", b"2", Regular)]);
        for bytes in [gzipped(&whole), zstd::encode_all(whole.as_slice(), 1).unwrap(), zip_of(&[("a.json", b"1")])] {
            for at in 0..bytes.len() {
                assert!(read(&bytes[..at]).is_err(), "cut at {at} of {}", bytes.len());
                let mut damaged = bytes.clone();
                damaged[at] ^= 0x55;
                drop(read(&damaged));
            }
        }
        // Also between two files.
        assert!(read(&whole[..600]).is_err());
        for at in [1024, 1536, 2048] {
            let told = read(&whole[..at]).unwrap_err();
            assert!(told.contains("truncated"), "cut at {at}: {told}");
        }
    }
}
