//! The files for a call: those below the root, some of them replaced by texts of the call.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use crate::{
    Compiled, Options, Plans,
    cli::{overlay::Overlay, project_files},
    compile_with,
    diagnostic::{self, Diagnostic, Pretty, Strength, nearest},
    source::{Files, Sources},
};

/// The maximum total size of the texts of a call, in bytes.
const MOST: usize = 8 << 20;

/// The paths and files of a call.
pub struct Named {
    pub paths: Vec<PathBuf>,
    pub files: Overlay,
}

/// The result of compiling them.
pub struct Looked {
    pub compiled: Compiled,
    pub sources: Sources,
}

/// The paths of a call, and its texts by path. Without paths, its texts are used; without either, everything below the
/// root.
pub fn named(paths: &[String], texts: BTreeMap<String, String>) -> Result<Named, String> {
    if texts.values().map(String::len).sum::<usize>() > MOST {
        return Err(format!("`files` contain more than {MOST} bytes: write them to disk and pass their paths"));
    }
    let texts: Vec<(PathBuf, Vec<u8>)> =
        texts.into_iter().map(|(path, text)| (super::path(&path), text.into_bytes())).collect();
    texts.iter().try_for_each(|(path, _)| inside(path))?;
    let named = match (paths, texts.as_slice()) {
        ([], []) => vec![PathBuf::from(".")],
        // Locks, scripts and prompts only have a meaning in the files that refer to them.
        ([], texts) => texts.iter().map(|(path, _)| path).filter(|path| may_be_ours(path)).cloned().collect(),
        (paths, _) => paths.iter().map(|path| super::path(path)).collect(),
    };
    if named.is_empty() {
        return Err("none of `files` is YAML or JSON: specify in `paths` what to check".to_owned());
    }
    let files = Overlay::of(&named, texts.iter().map(|(path, text)| (path.as_path(), text.clone())));
    named.iter().try_for_each(|path| there(path, &files))?;
    Ok(Named { paths: named, files })
}

fn may_be_ours(path: &Path) -> bool {
    path.extension().is_some_and(|extension| ["yaml", "yml", "json"].iter().any(|known| extension == *known))
}

/// Refuses a path outside of the root, whether it exists or not.
pub fn inside(path: &Path) -> Result<(), String> {
    match project_files(&[]).refusal(path) {
        Some(why) if why.is_outside() => Err(format!("`{}` is outside the root: use a path below it", path.display())),
        _ => Ok(()),
    }
}

/// Refuses a path that cannot be read.
pub fn there(path: &Path, files: &dyn Files) -> Result<(), String> {
    let shown = path.display();
    inside(path)?;
    if let Some(why) = files.refusal(path) {
        return Err(format!("cannot read `{shown}`: {why}"));
    }
    if files.stat(path).is_some() {
        return Ok(());
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = files.list(path.parent().unwrap_or(Path::new("")));
    let near = nearest(&name, beside.iter().map(String::as_str));
    let hint =
        near.map(|near| format!("; did you mean `{}`?", path.with_file_name(near).display())).unwrap_or_default();
    Err(format!("`{shown}` does not exist{hint}"))
}

impl Named {
    pub fn compiled(&self, plans: Plans, soft: bool) -> Looked {
        let sources = Sources::default();
        let options = Options { plans, soft, ..Options::default() };
        let compiled = compile_with(&self.paths, &options, &sources, &self.files);
        Looked { compiled, sources }
    }
}

impl Looked {
    /// Refuses a project that has hard errors, and lists them.
    pub fn meant(self) -> Result<Self, String> {
        let is_hard = |d: &&Diagnostic| d.strength == Strength::Hard;
        let hard: Vec<_> = self.compiled.diagnostics.iter().filter(is_hard).cloned().collect();
        if hard.is_empty() {
            return Ok(self);
        }
        Err(format!("there are errors; `check` shows the details:\n{}", concise(&hard, &self.sources)))
    }
}

/// The findings, one per line.
fn concise(found: &[Diagnostic], sources: &Sources) -> String {
    let mut text = String::new();
    let style = Pretty { limit: Some(20), ..Pretty::default() };
    let _ = diagnostic::concise(found, sources, &style, &mut text);
    text
}
