//! Where converted tasks are written: in the place of the old ones, or into a tree of their own.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use super::Fault;
use crate::{Compiled, cli::status, convert::Converted, host::disk::write_atomic, source::normalize};

/// Replaces a file; the old one is kept beside it.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    if fs::read(path)? == text.as_bytes() {
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
        // As it was.
        let _ = fs::rename(&backup, path);
    }
    written
}

/// Writes tasks, the evals that select them, and every file they name, below a folder. What lies outside of the tree is
/// named.
pub fn write(out: &Path, tasks: &[(PathBuf, &Converted)], compiled: &Compiled) -> Result<Vec<String>, Fault> {
    let fault = |path: &Path, e: io::Error| (status::BROKEN, format!("cannot write `{}`: {e}", path.display()));
    let evals: Vec<PathBuf> = compiled.project.evals.iter().map(|e| e.path.clone()).collect();
    let files: Vec<PathBuf> = tasks.iter().map(|(p, _)| absolute(p)).chain(evals.iter().map(|p| absolute(p))).collect();
    let root = common(&files);
    let mut notes = Vec::new();
    let mut copies: BTreeSet<PathBuf> = BTreeSet::new();
    for (path, new) in tasks {
        let path = absolute(path);
        let dir = path.parent().unwrap_or(Path::new("/")).to_owned();
        let texts = std::iter::once(&new.text).chain(&new.scripts);
        let mut named: BTreeSet<PathBuf> =
            new.files.iter().map(|f| normalize(&dir.join(f))).filter(|f| f.exists()).collect();
        let scripts: Vec<PathBuf> = named.iter().filter_map(|f| f.parent()).map(Path::to_path_buf).collect();
        for text in texts {
            for base in std::iter::once(&dir).chain(&scripts) {
                named.extend(mentioned(text, base));
            }
        }
        copies.extend(named);
    }
    for unit in &compiled.project.evals {
        let path = absolute(&unit.path);
        copies.insert(path.clone());
        let dir = path.parent().unwrap_or(Path::new("/")).to_owned();
        let text = fs::read_to_string(&path).unwrap_or_default();
        copies.extend(mentioned(&text, &dir));
    }
    let targets: BTreeSet<PathBuf> = tasks.iter().map(|(p, _)| absolute(p)).collect();
    let old: BTreeSet<PathBuf> = compiled.project.tasks.iter().map(|t| absolute(&t.path)).collect();
    for from in copies {
        match from.strip_prefix(&root) {
            Ok(_) if targets.contains(&from) || old.contains(&from) => {}
            Ok(inside) => copy(&from, &out.join(inside)).map_err(|e| fault(&out.join(inside), e))?,
            Err(_) => notes.push(format!("`{}` lies outside of the tree and was not copied", from.display())),
        }
    }
    for (path, new) in tasks {
        let from = absolute(path);
        let inside = from.strip_prefix(&root).unwrap_or(&from);
        let to = out.join(inside);
        let made = to.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| write_atomic(&to, new.text.as_bytes()));
        made.and_then(|()| fs::set_permissions(&to, fs::metadata(&from)?.permissions())).map_err(|e| fault(&to, e))?;
    }
    Ok(notes)
}

/// Files and folders below a folder that a text names.
fn mentioned(text: &str, dir: &Path) -> Vec<PathBuf> {
    let cut = |c: char| {
        c.is_whitespace() || matches!(c, '"' | '\'' | '`' | ';' | '|' | '(' | ')' | '<' | '>' | ',' | '=' | '{' | '}')
    };
    let words =
        text.split(cut).filter(|w| w.contains(['.', '/']) && !w.starts_with('/') && w.len() > 2 && !w.starts_with('-'));
    let mut found = Vec::new();
    for word in words {
        // `$DIR/manifests/web.yaml`: what stands behind the variable.
        let bare = word.strip_prefix('$').and_then(|w| w.split_once('/')).map_or(word, |(_, rest)| rest);
        let bare = bare.trim_start_matches("./").trim_end_matches('/');
        if bare.is_empty() || bare.chars().all(|c| matches!(c, '.' | '/')) || bare.contains('*') {
            continue;
        }
        let path = normalize(&dir.join(bare));
        if path.exists() {
            found.push(path);
        }
    }
    found
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    if from.is_dir() {
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            copy(&entry.path(), &to.join(entry.file_name()))?;
        }
        return Ok(());
    }
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    // Modes are kept.
    fs::copy(from, to).map(|_| ())
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).map_or_else(|_| path.to_owned(), |p| normalize(&p))
}

/// The folder that holds all files.
fn common(files: &[PathBuf]) -> PathBuf {
    let mut root = files.first().and_then(|f| f.parent()).map_or_else(|| PathBuf::from("."), Path::to_path_buf);
    for file in files {
        while !file.starts_with(&root) && root.pop() {}
    }
    root
}
