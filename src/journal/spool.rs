//! The results of a run: a stream of lines while it runs, and a file at its end.
//!
//! A result is written once, when its task ends, so that neither memory use nor the amount written grows with the square of the
//! number of tasks. The file is created in the run's directory and copied to where the user wants it; both are put in place by
//! rename, completely or not at all.

use std::{
    fs::{self, File, OpenOptions},
    io,
    ops::Range,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use crate::host::disk::replace;

/// The files in a run's directory: its results, and those of the tasks that have ended so far, as JSON lines.
const RESULTS: &str = "results.json";
const STREAM: &str = "results.jsonl";

/// Stores results as they arrive, one per line.
#[derive(Debug)]
pub struct Spool {
    kept: Kept,
    length: u64,
}

#[derive(Debug)]
enum Kept {
    Memory(Vec<u8>),
    File(PathBuf, File),
}

impl Spool {
    /// For a run that leaves nothing behind.
    pub fn in_memory() -> Self {
        Self { kept: Kept::Memory(Vec::new()), length: 0 }
    }

    /// Creates the stream in the directory of a run; what an earlier process wrote there is overwritten.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn of_run(dir: &Path) -> io::Result<Self> {
        let path = dir.join(STREAM);
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).mode(0o600).open(&path)?;
        Ok(Self { kept: Kept::File(path, file), length: 0 })
    }

    /// Appends a line and returns its position.
    ///
    /// # Errors
    /// It cannot be written; in that case nothing is appended.
    pub fn append(&mut self, line: &str) -> io::Result<Range<u64>> {
        let text = [line.as_bytes(), b"\n"].concat();
        match &mut self.kept {
            Kept::Memory(lines) => lines.extend_from_slice(&text),
            Kept::File(_, file) => file.write_all_at(&text, self.length)?,
        }
        let start = self.length;
        self.length += text.len() as u64;
        Ok(start..self.length)
    }

    /// Returns a line that was appended.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn line(&self, at: &Range<u64>) -> io::Result<Vec<u8>> {
        match &self.kept {
            Kept::Memory(lines) => Ok(lines[at.start as usize..at.end as usize].to_vec()),
            Kept::File(_, file) => {
                let mut line = vec![0; (at.end - at.start) as usize];
                file.read_exact_at(&mut line, at.start)?;
                Ok(line)
            }
        }
    }

    /// Removes the stream, which is no longer needed once the results are in a file.
    pub fn remove(&self) {
        if let Kept::File(path, _) = &self.kept {
            let _ = fs::remove_file(path);
        }
    }
}

/// The results file in the directory of a run.
pub fn results(dir: &Path) -> PathBuf {
    dir.join(RESULTS)
}

/// Copies the results of a run to where the user wants them.
///
/// # Errors
/// One of the files cannot be read or written.
pub fn publish(own: &Path, target: &Path) -> io::Result<()> {
    let mut own = File::open(own)?;
    replace(target, None, |out| io::copy(&mut own, out).map(drop))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn appended_lines_can_be_read_back() {
        let dir = tempfile::tempdir().unwrap();
        for mut spool in [Spool::in_memory(), Spool::of_run(dir.path()).unwrap()] {
            let (one, two) = (spool.append("one").unwrap(), spool.append("zwölf").unwrap());
            let three = spool.append("").unwrap();
            for (at, text) in [(&two, "zwölf\n"), (&one, "one\n"), (&three, "\n")] {
                assert_eq!(spool.line(at).unwrap(), text.as_bytes());
            }
            spool.remove();
        }
        assert!(!dir.path().join(STREAM).exists());
    }
}
