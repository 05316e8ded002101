//! Scripts whose exit status does not say what their author thinks.

use super::{
    TaskView,
    script::{Content, Form, ScriptView},
};
use crate::{
    bash::{
        flow::{self, Status},
        program::{Kind, Program, Repeat, Statement},
    },
    diagnostic::{Diagnostic, Diagnostics, Strength},
    hir::{Def, PhaseKind, Target, Task, Template},
    rule,
};

rule! {
    pub static LAST_COMMAND_DECIDES = "last-command-decides", Verdict;
    pub static SCRIPT_CANNOT_FAIL = "script-cannot-fail", Verdict;
    pub static POLL_ENDS_IN_SUCCESS = "poll-ends-in-success", Verdict;
}

/// Without `set -e` a failed command is passed over (`tests/coverage.md` B15). In cleanup that is as it should be.
pub fn last_command(view: &TaskView<'_>, out: &mut Diagnostics) {
    for script in view.scripts.iter().filter(|s| s.phase != PhaseKind::Cleanup && understood(s)) {
        let program = &script.content.program;
        let Some(ignored) = ignored(&script.content) else { continue };
        let [.., last] = program.body.as_slice() else { continue };
        let content = &script.content;
        let mut diagnostic = Diagnostic::new(
            &LAST_COMMAND_DECIDES,
            content.span(line(content, ignored)),
            format!("nobody looks at whether `{}` fails", excerpt(content, ignored)),
        )
        .label(content.span(line(content, last)), "only this decides whether the step passes")
        .help("begin with `set -e`, or say what is to happen: `|| exit 1`");
        let first = &program.body[0];
        if script.phase != PhaseKind::Verify {
            diagnostic = diagnostic.strength(Strength::Warning);
        } else if let Some((at, text)) = content.before_line(content.line_start(first.range.start), "set -e") {
            diagnostic = diagnostic.fix("begin with `set -e`", at, text);
        }
        out.push(diagnostic);
    }
}

fn understood(script: &ScriptView<'_>) -> bool {
    script.content.program.sound && !script.content.program.body.is_empty() && script.decides_by_status()
}

/// The first command whose failure goes unseen, in a script that looks at no failure anywhere.
fn ignored(content: &Content) -> Option<&Statement> {
    let program = &content.program;
    if program.stops_at_errors() || content.text.contains("$?") || errexit_line(&content.text) {
        return None;
    }
    let careful = program.commands().iter().any(|c| match c.name() {
        "exit" | "return" => c.words().get(1).is_some_and(|w| w.text != "0"),
        "source" | "." | "trap" | "eval" | "exec" => true,
        _ => false,
    });
    if careful || deliberate(program.body.last()?) {
        return None;
    }
    let [others @ .., _] = program.body.as_slice() else { return None };
    others.iter().find(|s| matters(s) && flow::status(program, s).other)
}

/// Whether the first line, `#!/bin/sh -e`, makes the script stop at errors.
pub(super) fn errexit_line(text: &str) -> bool {
    let line = text.lines().next().unwrap_or_default();
    line.starts_with("#!")
        && line.split_whitespace().skip(1).any(|w| w.starts_with('-') && !w.starts_with("--") && w.contains('e'))
}

/// `exit 0`, `true`, `:`, `… || true`: the author wants success.
fn deliberate(last: &Statement) -> bool {
    match &last.kind {
        Kind::Command(words) => matches!(last.name(), "true" | ":") || last.name() == "exit" && words.len() > 1,
        Kind::Or(pair) => deliberate(&pair[1]),
        _ => false,
    }
}

/// Whether a failure of this would be news: not of what prepares, waits or clears away.
fn matters(statement: &Statement) -> bool {
    match &statement.kind {
        Kind::Command(words) => {
            let tolerant = words.iter().any(|w| w.text.starts_with("--ignore-not-found") || w.text == "--wait=false");
            let removes = words.iter().take(4).any(|w| matches!(w.text.as_str(), "delete" | "uninstall"));
            !statement.background
                && !matches!(
                    statement.name(),
                    "rm" | "mkdir" | "cd" | "pushd" | "popd" | "kill" | "pkill" | "read" | "let" | "cat" | "ls"
                )
                && !tolerant
                && !removes
        }
        Kind::Pipeline(parts) => {
            parts.iter().all(|p| matters(p) || p.name() == "cat")
                && parts.last().is_some_and(|p| !matches!(p.name(), "tee" | "head" | "tail" | "sort" | "cat"))
        }
        Kind::Test => true,
        Kind::Not(inner) => matters(inner),
        _ => false,
    }
}

/// Whatever happens, the script says yes (author mistake 6).
pub fn cannot_fail(view: &TaskView<'_>, out: &mut Diagnostics) {
    for script in view.scripts.iter().filter(|s| s.phase == PhaseKind::Verify && understood(s)) {
        let program = &script.content.program;
        if flow::outcome(program) != (Status { zero: true, other: false })
            || ignored(&script.content).is_some()
            || is_used(view.task, script)
        {
            continue;
        }
        // A line of text that only prints is no check gone wrong; `unfalsifiable-verify` looks at the whole of verify.
        let tries = script.content.program.commands().iter().any(|c| flow::status(program, c).other);
        if !tries && !matches!(script.form, Form::File { .. }) {
            continue;
        }
        let Some(last) = program.body.last() else { continue };
        if polls(&script.content).iter().any(|p| ends_in_success(program, p)) {
            continue;
        }
        let content = &script.content;
        let (message, label) = match &last.kind {
            Kind::Command(_) if last.name() == "exit" => {
                ("this script cannot fail", "it ends here, whatever came before")
            }
            Kind::Or(_) => ("this script cannot fail", "a failure of the first part becomes a success"),
            _ => ("this script cannot fail", "nothing before this can end the script with a failure"),
        };
        out.push(
            Diagnostic::new(&SCRIPT_CANNOT_FAIL, content.span(line(content, last)), message)
                .here(label)
                .label(script.step.key, "a step of verify passes if its script ends with status 0")
                .help("end with the command that checks, or with `exit 1` where the check fails"),
        );
    }
}

/// Whether a later step uses what this one says.
fn is_used(task: &Task<Def>, script: &ScriptView<'_>) -> bool {
    let Some(id) = &script.step.id else { return false };
    let mut used = false;
    let mut look = |t: &Template<Def>| {
        used |= t.holes().any(|h| matches!(&h.reference.target, Target::Output { step, .. } if *step == id.value));
    };
    task.walk(&mut |_, step| step.templates(&mut look));
    used
}

/// A loop that waits, and passes when it has waited in vain (author mistake 7).
pub fn poll(view: &TaskView<'_>, out: &mut Diagnostics) {
    for script in view.scripts.iter().filter(|s| understood(s)) {
        let content = &script.content;
        let program = &content.program;
        for poll in polls(&script.content) {
            if !ends_in_success(program, poll) {
                continue;
            }
            let header = poll.range.start
                ..poll.range.start + content.text[poll.range.clone()].find('\n').unwrap_or(poll.range.len());
            let mut diagnostic = Diagnostic::new(
                &POLL_ENDS_IN_SUCCESS,
                content.span(header),
                "when the time is up, this loop ends with success",
            )
            .here("what it waits for may never have come")
            .help("write `exit 1` behind the loop, and leave it with `exit 0` where the wait is over");
            if script.phase != PhaseKind::Verify {
                diagnostic = diagnostic.strength(Strength::Warning);
            }
            let is_last = program.body.last().is_some_and(|l| l.range == poll.range);
            if is_last
                && !leaves_by_break(poll)
                && let Some((at, text)) = content.after_line(poll.range.start, poll.range.end, "exit 1")
            {
                diagnostic = diagnostic.fix("add `exit 1`", at, text);
            }
            out.push(diagnostic);
        }
    }
}

/// Loops that sleep, try a limited number of times and can be left in success.
fn polls(content: &Content) -> Vec<&Statement> {
    let mut found = Vec::new();
    content.program.walk(&mut |s| {
        let Kind::Loop { repeat, condition, body } = &s.kind else { return };
        let mut sleeps = false;
        let mut leaves = false;
        for statement in body {
            statement.walk(&mut |s| {
                sleeps |= s.name() == "sleep";
                leaves |= match s.name() {
                    "break" => true,
                    "exit" | "return" => s.words().get(1).is_none_or(|w| w.text == "0"),
                    _ => false,
                };
            });
        }
        let limited = *repeat == Repeat::For || condition.iter().any(|c| counts(content, c));
        if sleeps && leaves && limited {
            found.push(s);
        }
    });
    found
}

/// Whether a condition is about the number of rounds.
fn counts(content: &Content, condition: &Statement) -> bool {
    let text = &content.text[condition.range.clone()];
    matches!(condition.kind, Kind::Test) && ["-lt", "-le", "-gt", "-ge", "<", ">"].iter().any(|o| text.contains(o))
}

fn leaves_by_break(poll: &Statement) -> bool {
    let mut found = false;
    poll.walk(&mut |s| found |= s.name() == "break");
    found
}

fn ends_in_success(program: &Program, poll: &Statement) -> bool {
    // A loop that can end the script in failure from within knows of its time-out.
    let Kind::Loop { body, .. } = &poll.kind else { return false };
    let mut fails = false;
    for statement in body {
        statement.walk(&mut |s| {
            fails |= matches!(s.name(), "exit" | "return") && s.words().get(1).is_some_and(|w| w.text != "0");
        });
    }
    !fails && flow::outcome_after(program, &poll.range) == Some(Status { zero: true, other: false })
}

/// The first line of a statement.
fn line(content: &Content, statement: &Statement) -> std::ops::Range<usize> {
    let text = &content.text[statement.range.clone()];
    statement.range.start..statement.range.start + text.find('\n').unwrap_or(text.len())
}

fn excerpt(content: &Content, statement: &Statement) -> String {
    let text = content.text[line(content, statement)].replace(super::script::HOLE, "…");
    let mut short: String = text.chars().take(40).collect();
    if short.len() < text.len() {
        short = format!("{}…", short.trim_end());
    }
    while short.contains("……") {
        short = short.replace("……", "…");
    }
    short
}
