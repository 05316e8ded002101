//! Writes converted tasks: in place of the old ones, or to a separate tree.

use std::{
    borrow::Cow,
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use super::Fault;
use crate::{
    Compiled,
    cli::status,
    convert::Converted,
    host::disk::{Disk, write_atomic},
    source::{Files, Listed, Stat, mentions, normalize},
};

/// Replaces a file, and keeps the old one next to it.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_symlink() {
        return Err(io::Error::other("it is a symbolic link; convert its target instead"));
    }
    if Disk.read(path).map_err(|e| io::Error::other(e.to_string()))? == text.as_bytes() {
        return Ok(());
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut backup = path.with_file_name(format!("{name}.orig"));
    let mut n = 2;
    while backup.exists() {
        backup = path.with_file_name(format!("{name}.orig{n}"));
        n += 1;
    }
    let mode = fs::metadata(path)?.permissions();
    fs::rename(path, &backup)?;
    let written = write_atomic(path, text.as_bytes()).and_then(|()| fs::set_permissions(path, mode));
    if written.is_err() {
        // Restores the original.
        let _ = fs::rename(&backup, path);
    }
    written
}

/// Whether a file exists with other content.
pub fn differs(path: &Path, new: &[u8]) -> bool {
    path.exists() && fs::read(path).map_or(true, |old| old != new)
}

/// Refuses to overwrite these files.
pub fn refuse_others<'a>(others: impl Iterator<Item = &'a Path>) -> Result<(), Fault> {
    const SHOWN: usize = 5;
    let others: Vec<String> = others.map(|path| format!("`{}`", path.display())).collect();
    if others.is_empty() {
        return Ok(());
    }
    let more = others.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let names = others[..others.len().min(SHOWN)].join(", ");
    Err((status::USAGE, format!("{names}{more} would be overwritten; nothing was written: `--force` overwrites them")))
}

/// Writes tasks, the evals that select them, and every file that they name, below a directory: each once, with its
/// mode. Files outside of the tree are reported, and paths to them are rebased.
pub fn write(
    out: &Path,
    force: bool,
    tasks: &[(PathBuf, &Converted)],
    compiled: &Compiled,
    files: &dyn Files,
) -> Result<Vec<String>, Fault> {
    let fault = |path: &Path, e: io::Error| (status::BROKEN, format!("cannot write `{}`: {e}", path.display()));
    let mut notes = Vec::new();
    let written: BTreeSet<PathBuf> = tasks.iter().map(|(p, _)| absolute(p)).collect();
    let mut copies: BTreeSet<PathBuf> = compiled.project.evals.iter().map(|e| absolute(&e.path)).collect();
    for task in &compiled.project.tasks {
        let path = absolute(&task.path);
        if !written.contains(&path) {
            notes.push(format!("`{}` was copied unchanged", task.path.display()));
            copies.insert(path);
        }
    }
    let own: Vec<PathBuf> = written.iter().chain(&copies).cloned().collect();
    let mut open: Vec<(String, PathBuf)> = copies.iter().map(|p| (text_of(p, files), folder(p))).collect();
    open.extend(tasks.iter().map(|(p, new)| (new.text.clone(), folder(&absolute(p)))));
    // Scripts name helpers, which may name others.
    let disk = Listed::new(&Disk);
    while let Some((text, dir)) = open.pop() {
        let whole = folders(&text, &dir, &disk)
            .into_iter()
            .filter(|folder| !written.iter().any(|task| task.starts_with(folder)));
        for file in mentions(&text, &dir, &disk).into_keys().chain(whole) {
            if !written.contains(&file) && copies.insert(file.clone()) && file.is_file() {
                open.push((text_of(&file, files), folder(&file)));
            }
        }
    }
    // A step needs the directory in which it runs, even if it reads no file there.
    for (path, new) in tasks {
        let dir = folder(&absolute(path));
        for name in
            new.text.lines().filter_map(|line| line.trim_start().trim_start_matches("- ").strip_prefix("workdir: "))
        {
            let workdir = normalize(&dir.join(name.trim().trim_matches(['"', '\''])));
            let is_there = written.iter().chain(&copies).any(|copy| copy.starts_with(&workdir));
            if workdir.is_dir() && !is_there {
                copies.insert(workdir);
            }
        }
    }
    let root = root(&own, &copies);
    let (inside, outside): (BTreeSet<PathBuf>, BTreeSet<PathBuf>) =
        copies.iter().cloned().partition(|copy| copy.starts_with(&root));
    notes.extend(outside.iter().map(|from| format!("`{}` is outside the tree and was not copied", from.display())));
    let mut made = Vec::new();
    for from in &inside {
        let to = out.join(from.strip_prefix(&root).unwrap_or(from));
        if !outside.is_empty() && from.is_file() {
            let text = text_of(from, files);
            needs_outside(&text, &text, from, &to, &outside)?;
        }
        copies_of(from, &to, files, &mut notes, &mut made);
    }
    for (path, new) in tasks {
        let from = absolute(path);
        let to = out.join(from.strip_prefix(&root).unwrap_or(&from));
        let text = rebased(&new.text, &folder(&from), &folder(&absolute(&to)), &outside);
        needs_outside(&new.text, &text, &from, &to, &outside)?;
        made.push(New { from, to, text: Some(text) });
    }
    if made.iter().any(|New { from, to, .. }| {
        fs::canonicalize(to).is_ok_and(|to| fs::canonicalize(from).is_ok_and(|from| from == to))
    }) {
        let why = format!(
            "`--out {}` is the directory of the originals; nothing was written: `--in-place` replaces them",
            out.display()
        );
        return Err((status::USAGE, why));
    }
    let mut others = Vec::new();
    for new in made.iter().filter(|new| !force && new.to.exists()) {
        others.extend(differs(&new.to, &new.bytes(files)?).then_some(new.to.as_path()));
    }
    refuse_others(others.into_iter())?;
    for new in &made {
        let New { from, to, .. } = new;
        let bytes = new.bytes(files)?;
        let written = to.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| write_atomic(to, &bytes));
        // Preserves modes.
        written.and_then(|()| fs::set_permissions(to, fs::metadata(from)?.permissions())).map_err(|e| fault(to, e))?;
    }
    Ok(notes)
}

fn folder(path: &Path) -> PathBuf {
    path.parent().unwrap_or(Path::new("/")).to_owned()
}

/// The content of a file, if it is a text of less than 1 MiB.
fn text_of(path: &Path, files: &dyn Files) -> String {
    let small = fs::metadata(path).is_ok_and(|m| m.len() < 1 << 20);
    let text = || String::from_utf8(files.read(path).ok()?).ok();
    if small { text().unwrap_or_default() } else { String::new() }
}

/// Refuses a file whose scripts name a file outside of the tree that they would not find from the new directory: only the paths of the
/// keys `file` and `workdir` are rewritten.
fn needs_outside(old: &str, new: &str, from: &Path, to: &Path, outside: &BTreeSet<PathBuf>) -> Result<(), Fault> {
    if outside.is_empty() {
        return Ok(());
    }
    let disk = Listed::new(&Disk);
    let found = mentions(new, &folder(&absolute(to)), &disk);
    let mut named = mentions(old, &folder(from), &disk).into_keys();
    let Some(file) = named.find(|file| outside.contains(file) && !found.contains_key(file)) else { return Ok(()) };
    let why = format!(
        "`{}` uses `{}`, which is outside of the converted tree; nothing was written: convert the directory that contains both",
        from.display(),
        file.display()
    );
    Err((status::USAGE, why))
}

/// The directories beside a file whose names are words of its text: programs may read them under any path (`"$DIR/a.yaml"`,
/// `--from-file=manifests`).
fn folders(text: &str, dir: &Path, files: &dyn Files) -> Vec<PathBuf> {
    // What follows a `/` or precedes it is part of a path, which is read as such.
    let end = |c: char| !(c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '/'));
    let texts = text.lines().filter(|line| {
        let key = line.trim_start().trim_start_matches("- ");
        !key.starts_with("workdir: ") && !key.starts_with("file: ")
    });
    let words: BTreeSet<&str> = texts
        .flat_map(|line| line.split(end))
        .filter(|word| word.len() > 1 && !word.starts_with('.') && !word.contains('/'))
        .collect();
    let is_folder = |path: &PathBuf| matches!(files.stat(path), Some(Stat::Dir));
    words.into_iter().map(|word| dir.join(word)).filter(is_folder).collect()
}

/// The directory that becomes the new tree: the one that contains the tasks, the evals and the files below the current
/// directory that they name. If it is not below the current directory, the one that contains the tasks and evals.
fn root(own: &[PathBuf], copies: &BTreeSet<PathBuf>) -> PathBuf {
    let inner = common(own);
    let here = absolute(Path::new("."));
    let all: Vec<PathBuf> = copies.iter().filter(|c| c.starts_with(&here)).chain(own).cloned().collect();
    let wide = common(&all);
    if wide.starts_with(&here) { wide } else { inner }
}

/// Rewrites paths to files outside of the tree, relative to the task's new directory.
fn rebased(text: &str, dir: &Path, new: &Path, outside: &BTreeSet<PathBuf>) -> String {
    let lines = text.split_inclusive('\n').map(|line| {
        let key = line.trim_start().trim_start_matches("- ");
        let Some(value) = ["file: ", "workdir: "].iter().find_map(|k| key.strip_prefix(k)) else {
            return line.to_owned();
        };
        let value = value.trim();
        let path = normalize(&dir.join(value));
        let is_outside = outside.contains(&path) || outside.iter().any(|o| o.parent() == Some(path.as_path()));
        if is_outside { line.replacen(value, &relative(new, &path).to_string_lossy(), 1) } else { line.to_owned() }
    });
    lines.collect()
}

/// A path relative to a directory; both are absolute or start at the same directory.
pub(in crate::cli) fn relative(from: &Path, to: &Path) -> PathBuf {
    let common = from.components().zip(to.components()).take_while(|(a, b)| a == b).count();
    let up = from.components().skip(common).map(|_| "..");
    up.map(Path::new).chain(to.components().skip(common).map(|c| Path::new(c.as_os_str()))).collect()
}

/// A file of the new tree.
struct New {
    from: PathBuf,
    to: PathBuf,
    /// Its text, unless it is a copy.
    text: Option<String>,
}

impl New {
    /// Its content. Copies are read one at a time, however large they are together.
    fn bytes(&self, files: &dyn Files) -> Result<Cow<'_, [u8]>, Fault> {
        if let Some(text) = &self.text {
            return Ok(Cow::Borrowed(text.as_bytes()));
        }
        let unreadable = |e| (status::BROKEN, format!("cannot copy `{}`: {e}", self.from.display()));
        files.read(&self.from).map(|bytes| Cow::Owned(bytes.to_vec())).map_err(unreadable)
    }
}

/// Adds the copies of a file or a directory. Files that may not be read are reported.
fn copies_of(from: &Path, to: &Path, files: &dyn Files, notes: &mut Vec<String>, out: &mut Vec<New>) {
    if let Some(why) = files.refusal(from) {
        notes.push(format!("`{}` was not copied: {why}", from.display()));
        return;
    }
    if files.stat(from) == Some(Stat::Dir) {
        for (name, _) in files.entries(from).iter() {
            copies_of(&from.join(name), &to.join(name), files, notes, out);
        }
        return;
    }
    out.push(New { from: from.to_owned(), to: to.to_owned(), text: None });
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).map_or_else(|_| path.to_owned(), |p| normalize(&p))
}

/// The directory that contains all files.
fn common(files: &[PathBuf]) -> PathBuf {
    let mut root = files.first().and_then(|f| f.parent()).map_or_else(|| PathBuf::from("."), Path::to_path_buf);
    for file in files {
        while !file.starts_with(&root) && root.pop() {}
    }
    root
}
