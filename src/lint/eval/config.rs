//! Faults of an eval and its MCP config: relative programs, and items that are missing or not used.

use crate::{
    diagnostic::{Diagnostic, Diagnostics, nearest},
    hir::{Expand, RequirementKind, Transport},
    lint::{EvalView, UnderView},
    rule,
};

rule! {
    pub static RELATIVE_SERVER_COMMAND = "relative-server-command", Warning;
    pub static UNKNOWN_EXTENSION = "unknown-extension", Hard;
    pub static UNUSED_EXTENSION = "unused-extension", Warning;
    pub static UNUSED_SOURCE = "unused-source", Warning;
    pub static MISSING_DIFFICULTY = "missing-difficulty", Note;
}

/// gevals resolves `./bin/server` in the eval's directory, other tools in the current
/// directory (`tests/coverage.md` D6).
pub fn relative(view: &EvalView<'_>, out: &mut Diagnostics) {
    let begins = |e: &Expand| e.display().starts_with("./") || e.display().starts_with("../");
    for server in view.unit.mcp.iter().flat_map(|m| &m.servers) {
        let Transport::Stdio { command, args, .. } = &server.transport else { continue };
        let text = command.display();
        let relative = text.contains('/') && !text.starts_with(['/', '~', '$']);
        for (part, text) in relative
            .then_some((command, text))
            .into_iter()
            .chain(args.iter().filter(|a| begins(a)).map(|a| (a, a.display())))
        {
            out.push(
                Diagnostic::new(
                    &RELATIVE_SERVER_COMMAND,
                    part.span,
                    format!("gevals resolves `{text}` in the eval's directory, other tools in the current directory"),
                )
                .help("use a program on PATH, or start the path with a variable: `${ROOT}/bin/server`"),
            );
        }
    }
}

/// An extension that a task requires and its eval does not declare.
pub fn unknown_extension(view: &UnderView<'_, '_>, out: &mut Diagnostics) {
    let Some(eval) = view.eval.map(|e| e.eval) else { return };
    for requirement in &view.task.requires {
        let RequirementKind::Extension(name) = &requirement.kind else { continue };
        if eval.extensions.iter().any(|e| e.alias.value == name.value) {
            continue;
        }
        let message = format!("the eval does not declare the extension `{}`", name.value);
        let diagnostic = match nearest(&name.value, eval.extensions.iter().map(|e| e.alias.value.as_str())) {
            Some(near) => Diagnostic::new(&UNKNOWN_EXTENSION, name.span, message)
                .label(eval.config, "this eval")
                .here(format!("did you mean `{near}`?"))
                .fix(format!("write `{near}`"), name.span, near),
            // Not a misspelling: every eval without the extension is at fault.
            None => Diagnostic::new(&UNKNOWN_EXTENSION, eval.config, message).label(name.span, "required here"),
        };
        out.push(
            diagnostic.help(format!("write `extensions: {{{}: {{package: …}}}}` in the eval's config", name.value)),
        );
    }
}

/// Reports extensions that no selected task uses.
pub fn unused_extension(view: &EvalView<'_>, out: &mut Diagnostics) {
    let tasks = || view.tasks.iter().filter_map(|u| u.task.as_ref());
    // A task that could not be read may use any of them.
    if view.tasks.iter().any(|u| u.task.is_none()) || view.tasks.is_empty() {
        return;
    }
    for extension in &view.eval.extensions {
        let asked = tasks().any(|t| {
            t.requires
                .iter()
                .any(|r| matches!(&r.kind, RequirementKind::Extension(n) if n.value == extension.alias.value))
                || t.imports.iter().any(|i| extension.package.as_ref().is_some_and(|p| p.value == i.package.value))
        });
        if !asked {
            out.push(
                Diagnostic::new(
                    &UNUSED_EXTENSION,
                    extension.span,
                    format!("the extension `{}` is not used by any task of the eval", extension.alias.value),
                )
                .help("remove it, or require it in the tasks that need it"),
            );
        }
    }
}

/// Reports sources that no task set uses.
pub fn unused_source(view: &EvalView<'_>, out: &mut Diagnostics) {
    for source in &view.eval.sources {
        if !view.eval.task_sets.iter().any(|s| s.source.as_ref().is_some_and(|n| n.value == source.name.value)) {
            out.push(
                Diagnostic::new(
                    &UNUSED_SOURCE,
                    source.span,
                    format!("the source `{}` is not used by any task set", source.name.value),
                )
                .help(format!("add `source: {}` to a task set, or remove the source", source.name.value)),
            );
        }
    }
}

/// Reports tasks without a difficulty if at least two thirds of the tasks have one.
pub fn difficulty(view: &EvalView<'_>, out: &mut Diagnostics) {
    let tasks: Vec<_> = view.tasks.iter().filter_map(|u| u.task.as_ref()).collect();
    let without: Vec<_> = tasks.iter().filter(|t| t.meta.difficulty.is_none()).collect();
    if tasks.len() < 3 || without.len() * 3 > tasks.len() {
        return;
    }
    // A task without a name has another fault, and its metadata was not read.
    for task in without.into_iter().filter(|t| !t.name.value.is_empty()) {
        out.push(
            Diagnostic::new(
                &MISSING_DIFFICULTY,
                task.name.span,
                format!("`{}` has no difficulty, but the other tasks of the eval do", task.name.value),
            )
            .help("write `difficulty: easy`, `medium` or `hard`"),
        );
    }
}
