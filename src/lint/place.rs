//! Paths that hold on one machine only.

use std::path::{Component, Path};

use super::{EvalView, TaskView};
use crate::{
    diagnostic::{Diagnostic, Diagnostics},
    hir::Name,
    rule,
    source::{Span, resolve},
};

rule! {
    pub static ABSOLUTE_PATH = "absolute-path", Warning;
    pub static PATH_LEAVES_TASK = "path-leaves-task", Warning;
}

fn absolute(path: &str, span: Span) -> Diagnostic {
    Diagnostic::new(&ABSOLUTE_PATH, span, format!("`{path}` is an absolute path: other machines do not have it"))
        .help("put the file beside the one that names it, and write a relative path")
}

/// Files that an eval names.
pub fn eval_paths(view: &EvalView<'_>, out: &mut Diagnostics) {
    let eval = view.eval;
    let sets = eval.task_sets.iter().flat_map(|s| s.path.iter().chain(&s.glob));
    let named: Vec<&Name> = sets.chain(&eval.mcp_config).chain(eval.agent.iter().flat_map(|a| &a.path)).collect();
    // What the command line names stands in no file.
    let written = |n: &&&Name| n.span != eval.config && Path::new(&n.value).is_absolute();
    for name in named.iter().filter(written) {
        out.push(absolute(&name.value, name.span));
    }
}

/// Scripts that a task names.
pub fn task_paths(view: &TaskView<'_>, out: &mut Diagnostics) {
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

/// A file neither below the task's folder nor below the eval's is lost when the suite is copied or fetched.
fn leaves(view: &TaskView<'_>, path: &Path, text: &str, span: Span) -> Option<Diagnostic> {
    let eval = view.eval?;
    let below = |dir: &Path| {
        path.starts_with(dir)
            && (!dir.as_os_str().is_empty() || !matches!(path.components().next(), Some(Component::ParentDir)))
    };
    if below(&view.task.dir) || below(&eval.eval.dir) {
        return None;
    }
    Some(
        Diagnostic::new(
            &PATH_LEAVES_TASK,
            span,
            format!("`{text}` lies outside the folder of the task and that of the eval"),
        )
        .help("keep what a task needs below its eval: who copies or fetches the suite gets no more than that"),
    )
}
