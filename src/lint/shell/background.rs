//! Background processes that a script leaves running.

use crate::{
    bash::program::{Kind, Statement},
    diagnostic::{Diagnostic, Diagnostics, Strength},
    hir::PhaseKind,
    lint::{TaskView, script::ScriptView},
    rule,
};

rule! {
    pub static BACKGROUND_PROCESS = "background-process", Warning;
}

/// `&` without a `wait` (`tests/coverage.md` B17). A process started in setup may be meant to run until
/// the task ends; gevals stops it.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    let ends = |script: &ScriptView<'_>| {
        let ends = |c: &Statement| matches!(c.name(), "wait" | "kill" | "pkill" | "killall" | "trap");
        script.content.program.commands().into_iter().any(ends)
    };
    let cleaned = || view.scripts.iter().any(|s| s.phase == PhaseKind::Cleanup && ends(s));
    for script in view.scripts {
        let program = &script.content.program;
        if ends(script) {
            continue;
        }
        let Some(statement) = left(&program.body) else { continue };
        if script.phase == PhaseKind::Setup && cleaned() {
            continue;
        }
        let text = &script.content.text[statement.range.clone()];
        let end = statement.range.start + text.find('\n').unwrap_or(text.len());
        let diagnostic = Diagnostic::new(
            &BACKGROUND_PROCESS,
            script.content.span(statement.range.start..end),
            "this process keeps running after the script ends",
        );
        out.push(match script.phase {
            PhaseKind::Setup => diagnostic
                .strength(Strength::Note)
                .help("gevals stops it after cleanup; other tools wait for it or leave it running: redirect its output, and kill it in cleanup"),
            _ => diagnostic.here("nothing uses it").help("`wait` for it or `kill` it before the script ends"),
        });
    }
}

fn left(list: &[Statement]) -> Option<&Statement> {
    list.iter().find_map(|s| match &s.kind {
        _ if s.background => Some(s),
        Kind::Group(list) | Kind::Subshell(list) => left(list),
        _ => None,
    })
}
