//! Finds files by pattern. `**`, `{a,b}` and `[set]` are supported (`decisions.md` §2).

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
};

use globset::{GlobBuilder, GlobMatcher};
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rayon::prelude::*;

use super::{EMPTY_GLOB, UNREADABLE_FILE};
use crate::{
    decode::INVALID_PATTERN,
    diagnostic::{Diagnostic, nearest},
    hir::Name,
    outside,
    source::{Files, ReadError, Stat, normalize, resolve},
};

/// Limits the depth, because links may be circular.
const MAX_DEPTH: usize = 64;

/// Directories that never contain tasks.
const SKIPPED: [&str; 5] = [".git", ".gevals", "node_modules", "target", ".venv"];

/// A file; or a directory that could not be searched, with the reason.
pub type Found = Result<PathBuf, (PathBuf, ReadError)>;

/// The files that a pattern matches, or the reason why there are none.
pub type Matched = Result<Arc<[PathBuf]>, Box<Diagnostic>>;

/// All YAML and JSON files below a directory, sorted, except those excluded by ignore files and `exclude`.
pub fn yaml_files(dir: &Path, exclude: &[String], files: &dyn Files) -> Vec<Found> {
    let mut excluded = GitignoreBuilder::new(normalize(dir));
    for pattern in exclude {
        // A malformed pattern matches nothing, as in git.
        let _ = excluded.add_line(None, pattern);
    }
    let root = Ignores { here: excluded.build().into_iter().collect(), above: None };
    search(&normalize(dir), files, 0, &root)
}

/// The ignore files that apply to a directory, nearest first.
struct Ignores<'a> {
    here: Vec<Gitignore>,
    above: Option<&'a Self>,
}

impl Ignores<'_> {
    /// Whether a path is ignored. The ignore file nearest to the path decides.
    fn ignore(&self, path: &Path, is_dir: bool) -> bool {
        let here = self.here.iter().rev().map(|i| i.matched(path, is_dir)).find(|m| !m.is_none());
        match here {
            Some(found) => found.is_ignore(),
            None => self.above.is_some_and(|above| above.ignore(path, is_dir)),
        }
    }
}

/// Searches directories in parallel, because a suite has one for each of its tasks.
fn search(dir: &Path, files: &dyn Files, depth: usize, above: &Ignores<'_>) -> Vec<Found> {
    if depth > MAX_DEPTH {
        return Vec::new();
    }
    let entries = files.entries(dir);
    if entries.is_empty() {
        return refused(dir, files);
    }
    let mut ignores = Ignores { here: Vec::new(), above: Some(above) };
    for name in [".gitignore", ".ignore"] {
        if entries.iter().any(|(n, _)| n == name)
            && let Ok(bytes) = files.read(&dir.join(name))
        {
            let mut builder = GitignoreBuilder::new(dir);
            for line in String::from_utf8_lossy(&bytes).lines() {
                let _ = builder.add_line(None, line);
            }
            ignores.here.extend(builder.build());
        }
    }
    let wanted = entries.par_iter().filter(|(name, is_dir)| match is_dir {
        true => !SKIPPED.contains(&name.as_str()),
        false => [".yaml", ".yml", ".json"].iter().any(|e| name.len() > e.len() && name.ends_with(e)),
    });
    let found = wanted.flat_map_iter(|(name, is_dir)| {
        let path = dir.join(name);
        match is_dir {
            _ if ignores.ignore(&path, *is_dir) => Vec::new(),
            true => search(&path, files, depth + 1, &ignores),
            false => vec![Ok(path)],
        }
    });
    found.collect()
}

/// The reason why a directory is empty, if it may not be read.
fn refused(dir: &Path, files: &dyn Files) -> Vec<Found> {
    files.refusal(dir).map(|why| Err((dir.to_owned(), why))).into_iter().collect()
}

/// The files that a pattern matches, sorted. The directory before the pattern's first special character is taken
/// literally.
///
/// # Errors
/// If the pattern is malformed, matches nothing, or requires a directory that may not be read.
pub fn find(base: &Path, pattern: &Name, files: &dyn Files) -> Matched {
    let text = &pattern.value;
    let Pattern { prefix, root, matcher } = read(base, pattern)?;
    let mut found = Vec::new();
    for one in walk(&root, files, 0, &|path| matcher.is_match(path.strip_prefix(&root).unwrap_or(path))) {
        match one {
            Ok(path) => found.push(path),
            // Its content is found at its real location.
            Err((_, ReadError::Circular)) => {}
            Err((folder, why)) => {
                let folder = folder.display().to_string();
                return Err(Box::new(match why.is_outside() {
                    true => outside::diagnostic(pattern.span, "folder", &folder, &why),
                    false => Diagnostic::new(
                        &UNREADABLE_FILE,
                        pattern.span,
                        format!("the directory `{folder}` cannot be searched: {why}"),
                    ),
                }));
            }
        }
    }
    if found.is_empty() {
        let mut diagnostic = Diagnostic::new(&EMPTY_GLOB, pattern.span, format!("`{text}` does not match any file"));
        if files.stat(&root).is_none() && !prefix.is_empty() {
            let folder = prefix.trim_end_matches('/');
            diagnostic = diagnostic.help(format!("the directory `{folder}` does not exist"));
            if let Some(first) = folder.split('/').next()
                && let Some(near) = nearest(first, files.list(base).iter().map(String::as_str))
            {
                let near = format!("{near}{}", &text[first.len()..]);
                diagnostic = diagnostic.here(format!("did you mean `{near}`?")).fix(
                    format!("write `{near}`"),
                    pattern.span,
                    near,
                );
            }
        } else if let Some(Stat::Dir) = files.stat(&resolve(base, text)) {
            let folder = text.trim_end_matches('/');
            diagnostic = diagnostic.help(format!("this is a directory: write `{folder}/*.yaml` to match its files"));
        } else {
            diagnostic = diagnostic.help("`*` matches within a directory, `**` also matches all subdirectories");
        }
        return Err(Box::new(diagnostic));
    }
    Ok(found.into())
}

/// The files among the given ones that a pattern matches.
///
/// # Errors
/// If the pattern is malformed.
pub fn among(base: &Path, pattern: &Name, files: &BTreeSet<PathBuf>) -> Matched {
    let Pattern { root, matcher, .. } = read(base, pattern)?;
    let is_meant = |path: &&PathBuf| path.strip_prefix(&root).is_ok_and(|path| matcher.is_match(path));
    Ok(files.iter().filter(is_meant).cloned().collect())
}

struct Pattern<'p> {
    /// The text before the first special character, as written.
    prefix: &'p str,
    /// The directory that the prefix names.
    root: PathBuf,
    matcher: GlobMatcher,
}

fn read<'p>(base: &Path, pattern: &'p Name) -> Result<Pattern<'p>, Box<Diagnostic>> {
    let text = &pattern.value;
    let special = text.find(['*', '?', '[', '{']).unwrap_or(text.len());
    let split = text[..special].rfind('/').map_or(0, |i| i + 1);
    let (prefix, rest) = text.split_at(split);
    let glob = GlobBuilder::new(rest).literal_separator(true).build().map_err(|e| {
        Box::new(Diagnostic::new(
            &INVALID_PATTERN,
            pattern.span,
            format!("`{text}` is not a valid file pattern: {}", e.kind()),
        ))
    })?;
    Ok(Pattern { prefix, root: resolve(base, prefix), matcher: glob.compile_matcher() })
}

/// The matching files below a directory.
fn walk(dir: &Path, files: &dyn Files, depth: usize, wanted: &(dyn Fn(&Path) -> bool + Sync)) -> Vec<Found> {
    if depth > MAX_DEPTH {
        return Vec::new();
    }
    let entries = files.entries(dir);
    if entries.is_empty() {
        return refused(dir, files);
    }
    let below = entries.par_iter().flat_map_iter(|(name, is_dir)| {
        let path = dir.join(name);
        match *is_dir {
            true if SKIPPED.contains(&name.as_str()) => Vec::new(),
            true => walk(&path, files, depth + 1, wanted),
            false if wanted(&path) => vec![Ok(path)],
            false => Vec::new(),
        }
    });
    below.collect()
}
