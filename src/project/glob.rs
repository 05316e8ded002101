//! Files by pattern: `**`, `{a,b}` and `[set]` are known (`decisions.md` §2).

use std::path::{Path, PathBuf};

use globset::GlobBuilder;

use super::EMPTY_GLOB;
use crate::{
    decode::INVALID_PATTERN,
    diagnostic::{Diagnostic, nearest},
    hir::Name,
    source::{Files, Stat, resolve},
};

/// Folders nobody keeps tasks in.
const SKIPPED: [&str; 5] = [".git", ".gevals", "node_modules", "target", ".venv"];

/// All YAML and JSON files below a folder, sorted.
pub fn yaml_files(dir: &Path, files: &dyn Files) -> Vec<PathBuf> {
    let mut found = Vec::new();
    walk(dir, files, 0, &mut |path| {
        let known = path.extension().is_some_and(|e| e == "yaml" || e == "yml" || e == "json");
        if known {
            found.push(path);
        }
    });
    found
}

/// The files that a pattern matches, sorted. The folder before the pattern's first special character is taken as it is,
/// whatever characters its own name has.
///
/// # Errors
/// When the pattern is malformed, or matches nothing.
pub fn find(base: &Path, pattern: &Name, files: &dyn Files) -> Result<Vec<PathBuf>, Box<Diagnostic>> {
    let text = &pattern.value;
    let special = text.find(['*', '?', '[', '{']).unwrap_or(text.len());
    let split = text[..special].rfind('/').map_or(0, |i| i + 1);
    let (prefix, rest) = text.split_at(split);
    let glob = GlobBuilder::new(rest).literal_separator(true).build().map_err(|e| {
        Box::new(Diagnostic::new(&INVALID_PATTERN, pattern.span, format!("`{text}` is not a pattern for files: {}", e.kind())))
    })?;
    let matcher = glob.compile_matcher();
    let root = resolve(base, prefix);
    let mut found = Vec::new();
    walk(&root, files, 0, &mut |path| {
        let relative = path.strip_prefix(&root).unwrap_or(&path);
        if matcher.is_match(relative) {
            found.push(path);
        }
    });
    if found.is_empty() {
        let mut diagnostic = Diagnostic::new(&EMPTY_GLOB, pattern.span, format!("`{text}` matches no file"));
        if files.stat(&root).is_none() && !prefix.is_empty() {
            let folder = prefix.trim_end_matches('/');
            diagnostic = diagnostic.help(format!("there is no folder `{folder}`"));
            if let Some(first) = folder.split('/').next()
                && let Some(near) = nearest(first, files.list(base).iter().map(String::as_str))
            {
                let near = format!("{near}{}", &text[first.len()..]);
                diagnostic = diagnostic.here(format!("did you mean `{near}`?")).fix(format!("write `{near}`"), pattern.span, near);
            }
        } else {
            diagnostic = diagnostic.help("`*` stays inside one folder, `**` goes through all below");
        }
        return Err(Box::new(diagnostic));
    }
    Ok(found)
}

fn walk(dir: &Path, files: &dyn Files, depth: usize, visit: &mut dyn FnMut(PathBuf)) {
    // Links may lead in circles.
    if depth > 64 {
        return;
    }
    for name in files.list(dir) {
        let path = dir.join(&name);
        match files.stat(&path) {
            Some(Stat::Dir) if SKIPPED.contains(&name.as_str()) => {}
            Some(Stat::Dir) => walk(&path, files, depth + 1, visit),
            Some(Stat::File { .. }) => visit(path),
            None => {}
        }
    }
}
