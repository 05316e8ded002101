//! Faults that verify has found and that a later statement discards.

use crate::{
    bash::program::{Kind, Statement},
    diagnostic::{Diagnostic, Diagnostics},
    hir::PhaseKind,
    lint::{
        TaskView,
        script::Content,
        shell::{dead_check::STATUS_IGNORED, exit_status},
        task::contradiction,
    },
};

/// Counters that are reset before they are read, and functions whose status `echo` hides.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    if exit_status::in_vain(view) {
        return;
    }
    for script in view.scripts.iter().filter(|s| s.phase == PhaseKind::Verify && s.decides_by_status()) {
        let content = &*script.content;
        if content.program.sound {
            resets(content, out);
            printed(content, out);
        }
    }
}

fn text<'c>(content: &'c Content, statement: &Statement) -> &'c str {
    content.text.get(statement.range.clone()).unwrap_or_default()
}

/// `errors=0` between two loops that count errors: those of the first one are lost.
fn resets(content: &Content, out: &mut Diagnostics) {
    let zero = |s: &'_ Statement| {
        let name = text(content, s).strip_suffix("=0").filter(|_| matches!(s.kind, Kind::Assignment))?;
        crate::bash::ast::is_name(name).then_some(name)
    };
    let body = &content.program.body;
    for (at, reset) in body.iter().enumerate() {
        let Some(name) = zero(reset) else { continue };
        let Some(first) = body[..at].iter().rposition(|s| zero(s) == Some(name)) else { continue };
        let mut counted = None;
        let mut reads = false;
        let mut calls: Vec<&str> = Vec::new();
        let mut look = |s: &Statement, counted: &mut Option<std::ops::Range<usize>>| {
            if contradiction::counter(text(content, s)) == Some(name) {
                counted.get_or_insert(s.range.clone());
            } else if matches!(
                s.kind,
                Kind::Command(_) | Kind::Test | Kind::Assignment | Kind::Declaration | Kind::Unknown
            ) {
                reads |= has_name(text(content, s), name);
            }
        };
        for s in &body[first + 1..at] {
            s.walk(&mut |s| {
                if !s.name().is_empty() {
                    calls.push(s.name());
                }
                look(s, &mut counted);
            });
        }
        content.program.walk(&mut |s| {
            if let Kind::Function { name, body } = &s.kind
                && calls.contains(&name.as_str())
            {
                body.iter().for_each(|s| s.walk(&mut |s| look(s, &mut counted)));
            }
        });
        let Some(counted) = counted.filter(|_| !reads) else { continue };
        let is_read = body[at + 1..].iter().any(|s| has_name(text(content, s), name));
        if is_read {
            out.push(
                Diagnostic::new(
                    &STATUS_IGNORED,
                    content.span(reset.range.clone()),
                    format!("this discards what `{name}` has counted before"),
                )
                .label(content.span(counted), "counted here, and not read before the reset")
                .help("remove this line, or check the counter before it"),
            );
        }
    }
}

/// Whether a text contains a name as a word.
fn has_name(text: &str, name: &str) -> bool {
    crate::lint::analysis::texts::words(text, |c| c.is_ascii_alphanumeric() || c == '_').any(|(_, word)| word == name)
}

/// `echo "$(check a b)"`, where `check` is called as a command elsewhere, and returns 1 if something is wrong.
fn printed(content: &Content, out: &mut Diagnostics) {
    let program = &content.program;
    let mut functions: Vec<(&str, bool)> = Vec::new();
    program.walk(&mut |s| {
        if let Kind::Function { name, body } = &s.kind {
            let mut fails = false;
            body.iter().for_each(|s| {
                s.walk(&mut |s| {
                    fails |=
                        s.name() == "return" && s.words().get(1).is_some_and(|word| word.literal && word.text != "0");
                });
            });
            functions.push((name, fails));
        }
    });
    functions.retain(|(_, fails)| *fails);
    if functions.is_empty() {
        return;
    }
    for (at, statement) in program.body.iter().enumerate() {
        let [call] = statement.nested.as_slice() else { continue };
        if !matches!(statement.name(), "echo" | "printf" | ":")
            || !functions.iter().any(|(name, _)| *name == call.name())
        {
            continue;
        }
        let alone = program.body.iter().any(|s| match &s.kind {
            Kind::Or(pair) => pair[0].name() == call.name(),
            _ => s.name() == call.name(),
        });
        let leaves = program.body.get(at + 1).is_some_and(|next| next.name() == "exit");
        if alone && !leaves && (program.stops_at_errors() || at + 1 < program.body.len()) {
            out.push(
                Diagnostic::new(
                    &STATUS_IGNORED,
                    content.span(statement.range.clone()),
                    format!("`{}` hides the exit status of `{}`", statement.name(), call.name()),
                )
                .help(format!("call it directly: `{}`", text(content, call))),
            );
        }
    }
}
