//! The inputs of `gevals result`: a results file, or those in a directory, in an archive, or at the URL of a store.
//!
//! Content of an archive or a store is put into a temporary directory, under generated names, and is removed with
//! [`Inputs`].

use std::path::{Path, PathBuf};

use super::Fault;
use crate::{
    cli::{shown, status},
    host::disk::Disk,
    results::{self, ResultsFile, merge},
    source::{Files, Stat},
};

/// A results file.
#[derive(Clone, Debug)]
pub struct Input {
    /// Its name at its origin.
    pub shown: String,
    /// Where it can be read.
    pub path: PathBuf,
}

impl Input {
    /// A file on this machine.
    pub fn here(path: &Path) -> Self {
        Self { shown: shown(path), path: path.to_owned() }
    }
}

/// The results files for some arguments.
#[derive(Default, Debug)]
pub struct Inputs {
    pub files: Vec<Input>,
    /// The directories of those that were fetched or unpacked.
    #[cfg(feature = "run")]
    kept: Vec<tempfile::TempDir>,
}

/// A run of an eval. A file may contain only a part of it.
#[derive(Debug)]
pub struct Run {
    /// The name of its file, or of the argument with all its files.
    pub shown: String,
    pub file: ResultsFile,
    /// Missing and duplicate results, if it was merged.
    pub faults: Vec<String>,
}

/// All results files for these arguments.
///
/// # Errors
/// There are none for an argument, or they cannot be read.
pub fn of(args: &[PathBuf]) -> Result<Inputs, Fault> {
    let mut all = Inputs::default();
    for arg in args {
        let before = all.files.len();
        match url(arg) {
            Some(url) => at_url(url, &mut all)?,
            None => at(arg, &shown(arg), &mut all)?,
        }
        if all.files.len() == before {
            return Err((
                status::USAGE,
                format!("cannot read results: there are no results files in `{}`", arg.display()),
            ));
        }
    }
    Ok(all)
}

/// The runs in an argument. Parts of the same run are merged.
///
/// # Errors
/// As for [`of`], or a file is not a results file.
pub fn runs(arg: &Path, read: impl Fn(&Input) -> Result<ResultsFile, Fault>) -> Result<Vec<Run>, Fault> {
    let inputs = of(&[arg.to_owned()])?;
    let mut runs: Vec<([Option<serde_json::Value>; 3], Vec<(String, ResultsFile)>)> = Vec::new();
    for input in &inputs.files {
        let file = read(input)?;
        // `merge` requires the same of files that belong together. A file that is not a part of a run is one by itself.
        let of = ["eval", "planDigest", "agent"].map(|key| file.summary.get(key).cloned());
        let is_part = |file: &ResultsFile| file.summary.contains_key("shard") || file.unit().is_some();
        let parts = runs.iter_mut().find(|(other, files)| *other == of && files.iter().all(|(_, file)| is_part(file)));
        let parts = parts.filter(|_| is_part(&file));
        let one = (input.shown.clone(), file);
        match parts {
            Some((_, files)) => files.push(one),
            None => runs.push((of, vec![one])),
        }
    }
    let several = runs.len() > 1;
    let run = |(_, mut files): (_, Vec<(String, ResultsFile)>)| {
        if files.len() == 1
            && let Some((shown, file)) = files.pop()
        {
            return Ok(Run { shown, file, faults: Vec::new() });
        }
        let merged = merge::merge(&files).map_err(|why| (status::USAGE, why))?;
        if let Some(why) = merged.ambiguous.first() {
            let more = match merged.ambiguous.len() - 1 {
                0 => String::new(),
                more => format!(" (and {more} more)"),
            };
            let whole = shown(arg);
            return Err((
                status::USAGE,
                format!("`{whole}` contains parts of several runs, specify one of them: {why}{more}"),
            ));
        }
        let file = results::of_value(merged.file).map_err(|why| (status::USAGE, why))?;
        let first = files.first().map(|(shown, _)| shown.clone()).unwrap_or_default();
        let shown = if several { format!("{first} and {} more", files.len() - 1) } else { shown(arg) };
        Ok(Run { shown, file, faults: merged.faults })
    };
    runs.into_iter().map(run).collect()
}

/// Returns the argument if it is a URL.
pub fn url(arg: &Path) -> Option<&str> {
    let (scheme, _) = arg.to_str()?.split_once("://")?;
    let fit = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    (!scheme.is_empty() && scheme.chars().all(fit)).then_some(arg.to_str()?)
}

/// Adds what is at a path on this machine.
fn at(path: &Path, called: &str, all: &mut Inputs) -> Result<(), Fault> {
    let mut found = Vec::new();
    match Disk.stat(path) {
        Some(Stat::Dir) => search(path, 0, &mut found),
        Some(Stat::File { .. }) if unpacked(path, called, &mut found, all)? => {}
        // A missing file is reported by its reader.
        _ => {
            all.files.push(Input { shown: called.to_owned(), path: path.to_owned() });
            return Ok(());
        }
    }
    all.files.extend(chosen(found));
    Ok(())
}

/// The files with names as written by `gevals run`, or else those that `merge` writes for `gevals emit`.
fn chosen(mut found: Vec<Input>) -> Vec<Input> {
    let is_named = |input: &Input| input.shown.rsplit(['/', '\\']).next().is_some_and(results::is_named);
    if found.iter().any(is_named) {
        found.retain(is_named);
    }
    found
}

/// Whether the name of a file in a directory or an archive is that of a results file.
pub fn is_wanted(name: &str) -> bool {
    results::is_named(name) || name == results::MERGED
}

fn search(dir: &Path, depth: usize, out: &mut Vec<Input>) {
    const DEEPEST: usize = 16;
    for (name, is_dir) in Disk.entries(dir).iter().filter(|(name, _)| !name.starts_with('.')) {
        match is_dir {
            true if depth < DEEPEST => search(&dir.join(name), depth + 1, out),
            false if is_wanted(name) => out.push(Input::here(&dir.join(name))),
            _ => {}
        }
    }
}

/// The results files in a directory, and optionally the recordings of their runs.
#[cfg(feature = "store")]
pub fn in_folder(dir: &Path, recordings: bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    search(dir, 0, &mut found);
    let mut paths: Vec<PathBuf> = chosen(found).into_iter().map(|input| input.path).collect();
    if recordings {
        let folders: std::collections::BTreeSet<_> = paths.iter().filter_map(|path| path.parent()).collect();
        let runs = folders.into_iter().flat_map(crate::journal::runs);
        let recordings = runs.map(|run| run.join(crate::journal::RECORDING)).filter(|path| path.is_file());
        let recordings: Vec<_> = recordings.collect();
        paths.extend(recordings);
    }
    paths
}

/// Unpacks an archive. Returns `false` if the file is not an archive.
#[cfg(feature = "run")]
fn unpacked(path: &Path, called: &str, found: &mut Vec<Input>, all: &mut Inputs) -> Result<bool, Fault> {
    use std::{
        fs::File,
        io::{Read, Seek},
    };

    use crate::results::archive;

    let fault = |why: String| (status::USAGE, format!("cannot read the results in `{called}`: {why}"));
    // What cannot be opened is reported by its reader; what can be read only once, such as a pipe, is not an archive.
    let Ok(mut file) = File::open(path) else { return Ok(false) };
    if !file.metadata().is_ok_and(|file| file.is_file()) {
        return Ok(false);
    }
    let mut first = Vec::new();
    let begun = file.by_ref().take(archive::HEAD as u64).read_to_end(&mut first).and_then(|_| file.rewind());
    begun.map_err(|error| fault(error.to_string()))?;
    let Some(kind) = archive::kind(&first) else { return Ok(false) };
    if path.extension().is_some_and(|ending| ending == crate::pack::ENDING) {
        return Err(fault("it is a pack, which has no results yet: `gevals run` runs it".to_owned()));
    }
    let folder = temporary()?;
    let mut take = |name: &str, content: &mut dyn Read| {
        let to = folder.path().join(format!("{}.json", found.len()));
        let written = File::create(&to).and_then(|mut out| std::io::copy(content, &mut out));
        written.map_err(|error| format!("`{name}` in it cannot be read: {error}"))?;
        found.push(Input { shown: format!("{called}/{name}"), path: to });
        Ok(())
    };
    archive::each(kind, file, archive::LIMITS, &is_wanted, &mut take).map_err(fault)?;
    all.kept.push(folder);
    Ok(true)
}

#[cfg(not(feature = "run"))]
fn unpacked(_: &Path, _: &str, _: &mut Vec<Input>, _: &mut Inputs) -> Result<bool, Fault> {
    Ok(false)
}

#[cfg(feature = "run")]
fn temporary() -> Result<tempfile::TempDir, Fault> {
    tempfile::tempdir().map_err(|error| (status::BROKEN, format!("cannot create a temporary directory: {error}")))
}

/// Adds what is at a URL: on this machine, or in a store.
fn at_url(url: &str, all: &mut Inputs) -> Result<(), Fault> {
    match url.split_once("://") {
        Some(("file", _)) => at(&file_path(url)?, url, all),
        _ => in_store(url, all),
    }
}

/// The path of a `file://` URL.
#[cfg(feature = "run")]
fn file_path(url: &str) -> Result<PathBuf, Fault> {
    let path = reqwest::Url::parse(url).ok().and_then(|url| url.to_file_path().ok());
    path.ok_or_else(|| {
        (status::USAGE, format!("`{url}` is not a file on this machine: write it as file:///directory/file"))
    })
}

#[cfg(not(feature = "run"))]
fn file_path(url: &str) -> Result<PathBuf, Fault> {
    Err((
        status::USAGE,
        format!("this build of gevals contains only the compiler and cannot read URLs: use the path of `{url}`"),
    ))
}

#[cfg(feature = "store")]
fn in_store(url: &str, all: &mut Inputs) -> Result<(), Fault> {
    use crate::store::{Fetched, Store};

    let store = Store::open(url).map_err(told)?;
    let folder = temporary()?;
    match store.fetch(&is_wanted, folder.path()).map_err(told)? {
        Fetched::One(path) => at(&path, url, all)?,
        Fetched::Below(files) => {
            all.files.extend(chosen(files.into_iter().map(|(shown, path)| Input { shown, path }).collect()));
        }
    }
    all.kept.push(folder);
    Ok(())
}

/// The exit status and the message for an error of a store.
#[cfg(feature = "store")]
pub fn told(trouble: crate::store::Trouble) -> Fault {
    use crate::store::Trouble;
    match trouble {
        Trouble::Wrong(why) => (status::USAGE, why),
        Trouble::Broken(why) => (status::BROKEN, why),
    }
}

#[cfg(not(feature = "store"))]
fn in_store(url: &str, _: &mut Inputs) -> Result<(), Fault> {
    Err((status::USAGE, without_store(url)))
}

/// The message of a build without the feature `store`.
#[cfg(not(feature = "store"))]
pub fn without_store(url: &str) -> String {
    format!(
        "`{url}` is in an object store, and this gevals was built without the feature `store`: `cargo install --locked gevals -F store` builds one with it"
    )
}
