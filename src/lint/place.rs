//! Paths that hold on one machine only, and things that two tasks make at the same time.

use std::{
    path::{Component, Path},
    sync::LazyLock,
};

use indexmap::IndexMap;
use regex::Regex;

use super::{EvalView, TaskView};
use crate::{
    diagnostic::{Diagnostic, Diagnostics},
    hir::{Arg, ArgKind, Name, Step},
    rule,
    source::{Span, resolve},
    template,
};

rule! {
    pub static ABSOLUTE_PATH = "absolute-path", Warning;
    pub static PATH_LEAVES_TASK = "path-leaves-task", Warning;
    pub static SAME_RESOURCE_IN_PARALLEL_TASKS = "same-resource-in-parallel-tasks", Warning;
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

/// Parallel tasks whose setups make the same thing.
pub fn collisions(view: &EvalView<'_>, out: &mut Diagnostics) {
    let mut makers: IndexMap<String, (usize, Span)> = IndexMap::new();
    for (index, unit) in view.tasks.iter().enumerate() {
        let Some(task) = unit.task.as_ref().filter(|t| t.meta.parallel) else { continue };
        for step in &task.setup.steps {
            step.walk(&mut |step| {
                for thing in made(step) {
                    match makers.get(&thing) {
                        Some((first, _)) if *first == index => {}
                        Some((_, place)) => out.push(
                            Diagnostic::new(
                                &SAME_RESOURCE_IN_PARALLEL_TASKS,
                                step.key,
                                format!("another task that may run at the same time makes {thing}, too"),
                            )
                            .label(*place, "there")
                            .help("put `{random.id}` into the name, or take `parallel: true` from one of the tasks"),
                        ),
                        None => {
                            makers.insert(thing, (index, step.key));
                        }
                    }
                }
            });
        }
    }
}

type Raw = Step<template::Path>;

/// What a setup step makes, in words; only what is written out whole.
fn made(step: &Raw) -> Vec<String> {
    let literal = |key: &str| step.arg(key).and_then(Arg::as_literal);
    match step.op.value.as_str() {
        "file" => match (literal("path"), step.arg("content")) {
            (Some(path), Some(_)) if path.starts_with('/') => vec![format!("the file `{path}`")],
            _ => Vec::new(),
        },
        "command" | "script" => {
            let Some(ArgKind::Text(text)) = step.arg("run").or_else(|| step.arg("inline")).map(|a| &a.kind) else {
                return Vec::new();
            };
            let parts = text.parts.iter().map(|p| match p {
                crate::hir::Part::Text(text) => text.as_str(),
                crate::hir::Part::Hole(_) => "{hole}",
            });
            let text: String = parts.collect();
            MAKERS
                .iter()
                .flat_map(|(what, re)| {
                    re.captures_iter(&text).map(move |c| format!("the {what} `{}`", &c[1])).collect::<Vec<_>>()
                })
                .collect()
        }
        name if name.contains('.') => {
            let makes = ["create", "apply", "add", "new", "put", "write", "insert", "deploy", "install"];
            let verb = name.to_lowercase();
            let args = ArgKind::Record(step.args.clone());
            let value = Arg::new(args, step.span).as_value();
            match value {
                Some(value) if !step.args.is_empty() && makes.iter().any(|m| verb.contains(m)) => {
                    vec![format!("the same by `{name}` ({})", crate::builtin::excerpt(&value.to_string()))]
                }
                _ => Vec::new(),
            }
        }
        _ => Vec::new(),
    }
}

static MAKERS: LazyLock<Vec<(&str, Regex)>> = LazyLock::new(|| {
    let patterns = [
        ("namespace", r#"\bcreate\s+(?:namespace|ns)\s+["']?([a-z0-9][a-z0-9-]*)(?:["'\s;|&]|$)"#),
        ("folder", r#"\bmkdir\s+(?:-p\s+)?["']?(/[\w./-]+)(?:["'\s;|&]|$)"#),
        ("file", r#">\s*["']?(/(?:tmp|var)/[\w./-]+)(?:["'\s;|&]|$)"#),
    ];
    patterns.into_iter().filter_map(|(what, p)| Some((what, Regex::new(p).ok()?))).collect()
});

/// The hint that a name is free of holes is the pattern's: none matches a brace.
#[cfg(test)]
mod tests {
    use super::MAKERS;

    #[test]
    fn only_whole_names_count() {
        let found = |text: &str| MAKERS.iter().any(|(_, re)| re.is_match(text));
        assert!(found("kubectl create ns demo") && found("mkdir -p /tmp/x\n") && found("echo > /tmp/a"));
        assert!(
            !found("kubectl create ns demo-{hole}")
                && !found("kubectl create ns $NS")
                && !found("mkdir /tmp/{hole}")
                && !found("x > /dev/null")
        );
    }
}
