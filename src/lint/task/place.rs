//! Paths that are only valid on one machine.

use std::path::{Component, Path};

use crate::{
    diagnostic::{Diagnostic, Diagnostics},
    hir::Name,
    lint::{EvalView, UnderView},
    policy, rule,
    source::{Span, resolve},
};

rule! {
    pub static ABSOLUTE_PATH = "absolute-path", Warning;
    pub static PATH_LEAVES_TASK = "path-leaves-task", Warning;
}

fn absolute(path: &str, span: Span) -> Diagnostic {
    Diagnostic::new(
        &ABSOLUTE_PATH,
        span,
        format!("`{path}` is an absolute path, which does not exist on other machines"),
    )
    .help("put the file beside the one that refers to it, and use a relative path")
}

/// Checks the files that an eval names.
pub fn eval_paths(view: &EvalView<'_>, out: &mut Diagnostics) {
    let eval = view.eval;
    let sets = eval.task_sets.iter().flat_map(|s| s.path.iter().chain(&s.glob));
    let named: Vec<&Name> = sets.chain(&eval.mcp_config).chain(eval.agent.iter().flat_map(|a| &a.path)).collect();
    // Names from the command line are not in a file.
    let written = |n: &&&Name| n.span != eval.config && Path::new(&n.value).is_absolute();
    for name in named.iter().filter(written) {
        out.push(absolute(&name.value, name.span));
    }
}

/// Checks the script and prompt files that a task names.
pub fn task_paths(view: &UnderView<'_, '_>, out: &mut Diagnostics) {
    let dir = &view.task.dir;
    view.task.walk(&mut |_, step| {
        let Some(arg) =
            step.arg("file").filter(|_| step.op.name == "script" || view.task.dialect != crate::hir::Dialect::Portable)
        else {
            return;
        };
        let Some(text) = arg.as_literal() else { return };
        if Path::new(text).is_absolute() {
            out.push(absolute(text, arg.span));
        } else if let Some(diagnostic) = leaves(view, &resolve(dir, text), text, arg.span) {
            out.push(diagnostic);
        }
    });
    let file = view.task.prompt.as_ref().and_then(|p| p.file.as_ref());
    if let Some(file) = file {
        let shown = file.value.display().to_string();
        if file.value.is_absolute() && !dir.is_absolute() {
            out.push(absolute(&shown, file.span));
        } else if let Some(diagnostic) = leaves(view, &file.value, &shown, file.span) {
            out.push(diagnostic);
        }
    }
}

/// A file outside the repository or the directory of `gevals.toml`, which is copied with the eval: other users may not
/// have it. Relative paths that stay inside are fine.
fn leaves(view: &UnderView<'_, '_>, path: &Path, text: &str, span: Span) -> Option<Diagnostic> {
    /// Directories are not nested more deeply than this.
    const CLIMBS: usize = 64;
    let mut dir = view.eval?.eval.dir.clone();
    for _ in 0..CLIMBS {
        let rest = path.strip_prefix(&dir);
        if rest.is_ok_and(|rest| rest.components().next() != Some(Component::ParentDir)) {
            return None;
        }
        let root = [".git", policy::FILE_NAME].iter().find(|name| view.files.stat(&dir.join(name)).is_some());
        if let Some(marker) = root {
            if view.files.refusal(path).is_some() {
                return None;
            }
            let what = if *marker == ".git" { "the repository" } else { "the directory of `gevals.toml`" };
            return Some(
                Diagnostic::new(&PATH_LEAVES_TASK, span, format!("`{text}` is outside {what}"))
                    .help("keep all files of a task inside: a copy or clone of the suite contains nothing else"),
            );
        }
        let up = matches!(dir.components().next_back(), None | Some(Component::ParentDir));
        if up {
            dir.push("..");
        } else if !dir.pop() {
            return None;
        }
    }
    None
}
