//! Steps that wait too long, or do not check what they seem to check.

use std::time::Duration;

use super::TaskView;
use crate::{
    bash::program::{Kind, Statement},
    diagnostic::{Diagnostic, Diagnostics},
    hir::{Arg, ArgKind, Def, Dialect, OperationKind, PhaseKind},
    rule,
    ty::duration,
};

rule! {
    pub static CONTINUE_ON_ERROR_IN_VERIFY = "continue-on-error-in-verify", Warning;
    pub static TIMEOUT_BEYOND_TASK = "timeout-beyond-task", Warning;
    pub static HTTP_WITHOUT_STATUS = "http-without-status", Warning;
    pub static LOOSE_EQUALS = "loose-equals", Warning;
    pub static DOTTED_INDEX = "dotted-index", Warning;
    pub static IS_ERROR_ALSO_PASSES = "is-error-also-passes", Verdict;
    pub static FIXED_SLEEP = "fixed-sleep", Warning;
}

/// A verify step that fails fails the task, whatever goes on behind it (`tests/coverage.md` B13).
pub fn continues(view: &TaskView<'_>, out: &mut Diagnostics) {
    for step in &view.task.verify.steps {
        if let Some(flag) = step.continue_on_error.filter(|c| c.value) {
            out.push(
                Diagnostic::new(&CONTINUE_ON_ERROR_IN_VERIFY, flag.span, format!("`{}` still fails the task when it fails", step.op.name))
                    .here("only lets verify go on")
                    .help("a check cannot be made optional this way: remove the flag, or the check; `anyOf` passes if one of several does"),
            );
        }
    }
}

/// A step that may take longer than its whole task never gets that time.
pub fn timeouts(view: &TaskView<'_>, out: &mut Diagnostics) {
    let meta = &view.task.meta;
    let default = view.eval.map(|e| &e.eval.default_limits);
    // The portable dialect bounds every task, said or not (`decisions.md` §4).
    let silent = (view.task.dialect == Dialect::Portable && view.eval.is_some()).then_some(Duration::from_secs(300));
    view.task.walk(&mut |phase, step| {
        let (own, given) = match phase {
            PhaseKind::Cleanup => (meta.cleanup_timeout, default.and_then(|d| d.cleanup_timeout)),
            _ => (meta.timeout, default.and_then(|d| d.timeout)),
        };
        let stated = own.or(given);
        let (Some(limit), Some(timeout)) = (stated.map(|s| s.value).or(silent), step.timeout) else { return };
        if timeout.value <= limit {
            return;
        }
        let what = if phase == PhaseKind::Cleanup { "cleanup" } else { "the task" };
        let mut diagnostic = Diagnostic::new(
            &TIMEOUT_BEYOND_TASK,
            timeout.span,
            format!(
                "this step never gets {}: {what} ends after {}",
                duration::format(timeout.value),
                duration::format(limit)
            ),
        );
        if let Some(stated) = stated {
            diagnostic = diagnostic.label(stated.span, "the limit");
        }
        out.push(diagnostic.help("raise the limit of the task, or lower that of the step"));
    });
}

/// Without a status the steps dialect takes a 500 for a success (`tests/coverage.md` B34).
pub fn status(view: &TaskView<'_>, out: &mut Diagnostics) {
    if view.task.dialect != Dialect::Steps {
        return;
    }
    view.task.walk(&mut |_, step| {
        let stated = step.expect.as_ref().and_then(|(_, e)| e.get("status"));
        let asked = stated.is_some_and(|s| !matches!(s.kind, ArgKind::Int(0)));
        if matches!(step.op.kind, OperationKind::Builtin("http")) && !asked {
            out.push(
                Diagnostic::new(
                    &HTTP_WITHOUT_STATUS,
                    stated.map_or(step.key, |s| s.span),
                    "any answer passes here, a 500 too",
                )
                .help("write `expect: {status: 200}`, or whatever is right"),
            );
        }
    });
}

/// The fields that the expectations of the steps dialect name.
fn fields<'t>(view: &TaskView<'t>, visit: &mut dyn FnMut(&'t Arg<Def>)) {
    if view.task.dialect != Dialect::Steps {
        return;
    }
    view.task.walk(&mut |_, step| {
        let Some((_, expect)) = &step.expect else { return };
        for part in ["body", "content"].iter().filter_map(|k| expect.get(k)?.get("fields")) {
            if let ArgKind::List(items) = &part.kind {
                items.iter().for_each(&mut *visit);
            }
        }
    });
}

/// The steps dialect compares as text: `"5"` equals the number 5 (`tests/coverage.md` B32).
pub fn loose(view: &TaskView<'_>, out: &mut Diagnostics) {
    fields(view, &mut |field| {
        let (Some(equals), None) = (field.get("equals"), field.get("type")) else { return };
        let Some(text) = equals.as_literal() else { return };
        let other = match text {
            "true" | "false" => "boolean",
            _ if text.parse::<f64>().is_ok() => "number",
            _ => return,
        };
        out.push(
            Diagnostic::new(
                &LOOSE_EQUALS,
                equals.span,
                format!("the {other} {text} equals this text, too: this dialect compares as text"),
            )
            .help(format!(
                "add `type: string` if it is to be a text; remove the quotes and add `type: {}` if not",
                if other == "boolean" { "bool" } else { "number" }
            )),
        );
    });
}

/// `items.0.id` looks for a key `0`: lists are indexed with brackets (`tests/coverage.md` B33).
pub fn dotted(view: &TaskView<'_>, out: &mut Diagnostics) {
    fields(view, &mut |field| {
        let Some(path) = field.get("path") else { return };
        let Some(text) = path.as_literal() else { return };
        let is_index = |s: &str| !s.is_empty() && s.len() < 3 && s.bytes().all(|b| b.is_ascii_digit());
        if !text.split('.').any(is_index) {
            return;
        }
        let mut right = String::new();
        for part in text.split('.') {
            if is_index(part) {
                right += &format!("[{part}]");
            } else {
                right += if right.is_empty() { "" } else { "." };
                right += part;
            }
        }
        out.push(
            Diagnostic::new(
                &DOTTED_INDEX,
                path.span,
                format!("`{text}` looks for a key that is a number: a list is not searched this way"),
            )
            .help(format!("an index stands in brackets: `{right}`"))
            .fix("write brackets", path.span, format!("\"{right}\"")),
        );
    });
}

/// In the steps dialect `isError: true` lets an error pass; it does not ask for one (`tests/coverage.md` B29).
pub fn is_error(view: &TaskView<'_>, out: &mut Diagnostics) {
    if view.task.dialect != Dialect::Steps {
        return;
    }
    view.task.walk(&mut |_, step| {
        let Some((_, expect)) = &step.expect else { return };
        if let Some(flag) = expect.get("isError").filter(|f| matches!(f.kind, ArgKind::Bool(true))) {
            out.push(
                Diagnostic::new(&IS_ERROR_ALSO_PASSES, flag.span, "a call that succeeds passes, too: in this dialect an error is only allowed")
                    .help("look for the error's text with `content: {match: …}`; the portable dialect's `isError: true` asks for an error"),
            );
        }
    });
}

/// As long as this, and a wait for a condition is better.
const LONG: Duration = Duration::from_secs(10);

pub fn sleeps(view: &TaskView<'_>, out: &mut Diagnostics) {
    for script in view.scripts {
        once(&script.content.program.body, &mut |command| {
            let [name, time] = command.words() else { return };
            let seconds = time.text.strip_suffix('s').unwrap_or(&time.text).parse().unwrap_or(0);
            if name.text == "sleep" && Duration::from_secs(seconds) >= LONG {
                let written = duration::format(Duration::from_secs(seconds));
                out.push(
                    Diagnostic::new(&FIXED_SLEEP, script.content.span(command.range.clone()), format!("every run waits {written}, and a slow one not long enough"))
                        .help("wait for what it is about: `kubectl wait`, a loop that ends as soon as it is there, or `eventually`"),
                );
            }
        });
    }
    view.task.walk(&mut |_, step| {
        let OperationKind::Builtin("sleep") = step.op.kind else { return };
        let Some(arg) = step.arg("duration") else { return };
        if let Some(Ok(time)) = arg.as_literal().map(duration::parse)
            && time >= LONG
        {
            out.push(
                Diagnostic::new(
                    &FIXED_SLEEP,
                    arg.span,
                    format!("every run waits {}, and a slow one not long enough", duration::format(time)),
                )
                .help(
                    "wait for what it is about: `eventually: {timeout: …, steps: […]}` ends as soon as its steps pass",
                ),
            );
        }
    });
}

/// Every command that runs once: none in a loop, which waits for something.
fn once<'s>(list: &'s [Statement], visit: &mut dyn FnMut(&'s Statement)) {
    for statement in list {
        if matches!(statement.kind, Kind::Loop { .. } | Kind::Function { .. }) {
            continue;
        }
        visit(statement);
        statement.lists(&mut |l| once(l, visit));
    }
}
