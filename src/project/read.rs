//! Reads one file: its text, its tree, and the task in it.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use rustc_hash::FxHashSet;

use super::{Context, TaskUnit, UNREADABLE_FILE, WRONG_KIND, ours};
use crate::{
    decode::{self, Partial, quote},
    diagnostic::{Diagnostic, Diagnostics, Reported, Strength, nearest},
    dialect::{self, FileKind, TaskFile},
    hir::{self, Dialect, Name},
    outside,
    source::{FileId, ReadError, Span, resolve},
    template, yaml,
};

pub(super) fn text(
    bytes: Vec<u8>,
    path: &Path,
    cx: Context<'_>,
    out: &mut Diagnostics,
) -> Result<(FileId, Arc<str>), Reported> {
    match yaml::decode_utf8(bytes) {
        Ok(text) => {
            let text: Arc<str> = text.into();
            Ok((cx.sources.add(path, Arc::clone(&text)), text))
        }
        Err(fault) => {
            let file = cx.sources.add(path, fault.text.as_str());
            Err(out.error(fault.diagnostic(file)))
        }
    }
}

/// Reads a file that another one refers to. `written` is the path as written there.
pub(super) fn read(
    path: &Path,
    written: &str,
    span: Span,
    what: &str,
    cx: Context<'_>,
    out: &mut Diagnostics,
) -> Result<(FileId, Arc<str>), Reported> {
    match cx.files.read(path) {
        Ok(bytes) => text(bytes, path, cx, out),
        Err(error) if error.is_outside() => {
            Err(out.error(outside::diagnostic(span, &format!("{what} file"), written, &error)))
        }
        Err(error) => {
            let shown = if path.as_os_str().is_empty() { Path::new(".").display() } else { path.display() };
            let mut diagnostic =
                Diagnostic::new(&UNREADABLE_FILE, span, format!("cannot read the {what} file `{shown}`: {error}"));
            if error == ReadError::IsDir && what == "task" {
                diagnostic =
                    diagnostic.help(format!("write `glob: {written}/*.yaml` to match the files in a directory"));
            }
            if error == ReadError::Missing {
                let siblings = path.parent().map(|dir| cx.files.list(dir)).unwrap_or_default();
                let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
                diagnostic = diagnostic.help(match what == "task" && written.contains('*') {
                    true => {
                        format!("a `path` is a single file: write `glob: {}` to match several files", quote(written))
                    }
                    false => "paths are relative to the directory of the file that contains them".to_owned(),
                });
                if let Some(near) = nearest(&name, siblings.iter().map(String::as_str)) {
                    let near = format!("{}{near}", written.strip_suffix(&name).unwrap_or_default());
                    diagnostic =
                        diagnostic.here(format!("did you mean `{near}`?")).fix(format!("write `{near}`"), span, near);
                }
            }
            Err(out.error(diagnostic))
        }
    }
}

/// The result of judging a file.
pub(super) enum Judged {
    Ours(yaml::Tree, FileKind),
    /// A file of another program, with its tree if it was parsed.
    Foreign(Option<yaml::Tree>),
}

/// Decides whether a file is ours. A `held` file was named, so it must be ours. A file found in a directory or by a
/// glob is ours only if its content says so; otherwise nothing is reported.
///
/// # Errors
/// If the file is ours and cannot be read.
pub(super) fn judge(file: FileId, text: &Arc<str>, held: bool, out: &mut Diagnostics) -> Result<Judged, Reported> {
    if !held && !ours::may_be_ours(text) {
        return Ok(Judged::Foreign(None));
    }
    let mut found = Diagnostics::default();
    let tree = match yaml::parse(file, Arc::clone(text), &mut found) {
        Err(_) if !held && !ours::says_so(text) => return Ok(Judged::Foreign(None)),
        Err(reported) => {
            out.extend(found);
            return Err(reported);
        }
        Ok(tree) => tree,
    };
    let mut said = Diagnostics::default();
    let kind = dialect::identify(tree.root(), held, &mut said);
    // A later document that is ours would be ignored.
    let second = found.iter().any(|d| d.rule.name == yaml::SECOND_DOCUMENT.name);
    let foreign = matches!(kind, Ok(None)) && !held && !(second && ours::says_so(text));
    if !foreign {
        out.extend(found);
    }
    out.extend(said);
    match kind? {
        Some(kind) => Ok(Judged::Ours(tree, kind)),
        None if !foreign && out.has_hard() => Err(Reported::of(out)),
        None => Ok(Judged::Foreign(Some(tree))),
    }
}

/// Whether a text is empty, or contains nothing but `kind: Task`. A text with only comments does not count, because the
/// values of many charts look like that.
pub(super) fn is_bare(text: &str) -> bool {
    let said = text.lines().map(|line| line.split(" #").next().unwrap_or_default().trim());
    let mut said = said.filter(|line| !line.is_empty() && !line.starts_with('#') && *line != "---").peekable();
    text.trim().is_empty() || said.peek().is_some() && said.all(|line| line == "kind: Task")
}

/// The tree of a file that `name` refers to.
pub(super) fn document(
    path: &Path,
    name: &Name,
    what: &str,
    cx: Context<'_>,
    out: &mut Diagnostics,
) -> Result<(FileId, yaml::Tree), Reported> {
    let (file, text) = read(path, &name.value, name.span, what, cx, out)?;
    yaml::parse(file, text, out).map(|tree| (file, tree))
}

pub(super) fn task_unit(
    path: &Path,
    file: FileId,
    tree: yaml::Tree,
    dialect: Dialect,
    cx: Context<'_>,
    out: &mut Diagnostics,
) -> TaskUnit {
    let broken = out.has_hard().then(|| out.iter().find(|d| d.strength == Strength::Hard).cloned()).flatten();
    let info = TaskFile { file, dir: dir_of(path), vocabulary: cx.vocabularies.of(dialect) };
    let Partial { value, mut reported } = dialect::task(tree.root(), dialect, &info, out);
    if dialect != Dialect::Portable {
        yaml11_words(&tree, out);
    }
    let mut value = value;
    if let Some(task) = &mut value {
        for phase in [&mut task.setup, &mut task.verify, &mut task.cleanup] {
            shrink(&mut phase.steps);
        }
    }
    // A YAML error, which has been reported, also means that there is no plan.
    if reported.is_none() && broken.is_some() {
        reported = Some(Reported::of(out));
    }
    let mut unit =
        TaskUnit { path: path.to_owned(), file, dialect, task: value, reported, tree, uses: OnceLock::new() };
    if let Some(task) = &mut unit.task
        && let Err(reported) = prompt_file(task, cx, out)
    {
        unit.reported = Some(reported);
    }
    unit
}

/// Frees the spare capacity of step vectors, because there may be thousands of tasks.
fn shrink(steps: &mut Vec<hir::Step<template::Path>>) {
    steps.shrink_to_fit();
    for step in steps {
        step.args.shrink_to_fit();
        step.blocks.iter_mut().for_each(|block| shrink(&mut block.steps));
    }
}

/// Reports words that YAML 1.1 reads differently, except those that already have a finding.
pub(super) fn yaml11_words(tree: &yaml::Tree, out: &mut Diagnostics) {
    let said: FxHashSet<Span> = out.iter().map(|d| d.span).collect();
    let mut words = Diagnostics::default();
    yaml::yaml11_words(tree, &mut words);
    out.extend(words.into_iter().filter(|d| !said.contains(&d.span)));
}

/// Reads the prompt if it is in a file. Its holes are located in that file.
fn prompt_file(task: &mut hir::Task<template::Path>, cx: Context<'_>, out: &mut Diagnostics) -> Result<(), Reported> {
    let dialect = task.dialect;
    let Some(prompt) = &mut task.prompt else { return Ok(()) };
    let Some(path) = &prompt.file else { return Ok(()) };
    let written = path.value.strip_prefix(&task.dir).unwrap_or(&path.value).to_string_lossy();
    let (file, text) = read(&path.value, &written, path.span, "prompt", cx, out)?;
    let span = Span::new(file, 0..text.len());
    let place = |range| Span::new(file, range);
    prompt.text = match dialect {
        Dialect::Portable => decode::scan_text(&text, span, &place),
        Dialect::Steps => dialect::steps::prompt_text(&text, span, &place),
        Dialect::Legacy => dialect::steps::unexpanded_text(&text, span, &place),
    };
    Ok(())
}

/// A directory that is named in a file. An empty path becomes `.`, because the file system does not accept it.
pub fn folder(dir: &Path, name: &str) -> PathBuf {
    let path = resolve(dir, name);
    if path.as_os_str().is_empty() { PathBuf::from(".") } else { path }
}

pub(super) fn dir_of(path: &Path) -> PathBuf {
    path.parent().map(Path::to_owned).unwrap_or_default()
}

/// Reports a file that is not of the kind that `name` must refer to.
pub(super) fn wrong_kind(name: &Name, wanted: &str, found: Option<FileKind>, out: &mut Diagnostics) -> Reported {
    let found = found.map_or_else(
        || "it has no `kind` that gevals supports".to_owned(),
        |k| format!("it is of kind `{}`", k.name()),
    );
    let message = format!("`{}` must be of kind `{wanted}`, but {found}", name.value);
    out.error(
        Diagnostic::new(&WRONG_KIND, name.span, message)
            .help(format!("start that file with `kind: {wanted}`, or use another file")),
    )
}
