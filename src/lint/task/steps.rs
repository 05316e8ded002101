//! Steps that wait too long, or do not check what they appear to check.

use std::{ops::Range, time::Duration};

use crate::{
    bash::{
        Word, ast,
        program::{Kind, Statement},
        tools,
    },
    diagnostic::{Diagnostic, Diagnostics, Strength},
    hir::{Arg, ArgKind, BlockRole, Def, Dialect, OperationKind, PhaseKind, Step},
    lint::{TaskView, UnderView, script::ScriptView},
    rule,
    signature::Control,
    source::Span,
    ty::duration,
};

rule! {
    pub static CONTINUE_ON_ERROR_IN_VERIFY = "continue-on-error-in-verify", Warning;
    pub static CONTINUE_ON_ERROR_IN_CLEANUP = "continue-on-error-in-cleanup", Warning;
    pub static TIMEOUT_BEYOND_TASK = "timeout-beyond-task", Warning;
    pub static HTTP_WITHOUT_STATUS = "http-without-status", Warning;
    pub static LOOSE_EQUALS = "loose-equals", Warning;
    pub static DOTTED_INDEX = "dotted-index", Warning;
    pub static IS_ERROR_ALSO_PASSES = "is-error-also-passes", Verdict;
    pub static FIXED_SLEEP = "fixed-sleep", Warning;
}

/// A failed verify step fails the task even if verify continues (`tests/coverage.md` B13). A failed nested step fails
/// the enclosing step.
pub fn continues(view: &TaskView<'_>, out: &mut Diagnostics) {
    for step in &view.task.verify.steps {
        continues_in(step, None, out);
    }
}

fn continues_in(step: &Step<Def>, whole: Option<&Step<Def>>, out: &mut Diagnostics) {
    if let Some(flag) = step.continue_on_error.filter(|c| c.value) {
        let name = &step.op.name;
        let (message, label) = match whole {
            None => (format!("`{name}` still fails the task if it fails"), "this only lets verify continue"),
            Some(whole) if whole.op.signature.control == Control::Any => {
                (format!("`{name}` is still a failed branch"), "the next branch is tried anyway")
            }
            Some(whole) => (
                format!("`{name}` still fails the enclosing `{}` if it fails", whole.op.name),
                "this only lets the following steps run",
            ),
        };
        out.push(
            Diagnostic::new(&CONTINUE_ON_ERROR_IN_VERIFY, flag.span, message)
                .here(label)
                .help("a check cannot be made optional this way: remove the flag or the check, or use `anyOf`, which passes if one of its branches does"),
        );
    }
    // In the step's own setup and cleanup, the flag has an effect.
    for block in step.blocks.iter().filter(|b| !matches!(b.role, BlockRole::Setup | BlockRole::Cleanup)) {
        block.steps.iter().for_each(|s| continues_in(s, Some(step), out));
    }
}

/// Cleanup runs every step, even if an earlier one fails.
pub fn continues_in_cleanup(view: &TaskView<'_>, out: &mut Diagnostics) {
    if view.task.dialect != Dialect::Portable {
        return;
    }
    for step in &view.task.cleanup.steps {
        let Some(flag) = step.continue_on_error else { continue };
        let diagnostic = match flag.value {
            true => Diagnostic::new(
                &CONTINUE_ON_ERROR_IN_CLEANUP,
                flag.span,
                "`continueOnError` has no effect: cleanup always continues after a failed step",
            )
            .strength(Strength::Note),
            false => Diagnostic::new(
                &CONTINUE_ON_ERROR_IN_CLEANUP,
                flag.span,
                format!("cleanup continues even if `{}` fails", step.op.name),
            ),
        };
        out.push(diagnostic.help("remove it"));
    }
}

/// The time after which a step is ended, whatever its own timeout.
#[derive(Clone)]
struct Limit {
    time: Duration,
    at: Option<Span>,
    what: String,
    /// Whether it is the default of the operation.
    default: bool,
}

/// The default timeout of tasks in the portable dialect (`decisions.md` §4).
const SILENT: Duration = Duration::from_secs(300);

/// A step whose time exceeds the timeout of what contains it.
pub fn timeouts(view: &UnderView<'_, '_>, out: &mut Diagnostics) {
    let meta = &view.task.meta;
    let default = view.eval.map(|e| &e.eval.default_limits);
    let limit = |phase| {
        let (own, given, what) = match phase {
            PhaseKind::Cleanup => (meta.cleanup_timeout, default.and_then(|d| d.cleanup_timeout), "cleanup"),
            _ => (meta.timeout, default.and_then(|d| d.timeout), "the task"),
        };
        let stated = own.or(given);
        let silent = (view.task.dialect == Dialect::Portable).then_some(SILENT);
        let time = stated.map(|s| s.value).or(silent)?;
        Some(Limit { time, at: stated.map(|s| s.span), what: what.to_owned(), default: false })
    };
    inner_waits(view, out);
    let cleanup = limit(PhaseKind::Cleanup);
    for phase in PhaseKind::ALL {
        let limit = limit(phase);
        view.task.phase(phase).steps.iter().for_each(|s| within(view, s, limit.as_ref(), cleanup.as_ref(), out));
    }
}

/// `timeout 10 kubectl wait … --timeout=90s`.
fn inner_waits(view: &UnderView<'_, '_>, out: &mut Diagnostics) {
    for script in &view.effects.scripts {
        for run in script.trace.runs.iter().filter(|run| run.statement.name() == "timeout") {
            let words: Vec<&str> = run.words.iter().map(|word| word.literal().unwrap_or_default()).collect();
            let Some(at) = limit_of(&words) else { continue };
            let outer = seconds(words[at]).filter(|outer| !outer.is_zero());
            let inner = own_limit(&words[at + 1..]);
            if let (Some(outer), Some(inner)) = (outer, inner)
                && inner > outer
            {
                out.push(
                    Diagnostic::new(
                        &TIMEOUT_BEYOND_TASK,
                        run.content.span(run.statement.range.clone()),
                        format!(
                            "`timeout` ends this after {}, but the wait inside may take {}",
                            duration::format(outer),
                            duration::format(inner)
                        ),
                    )
                    .help("give `timeout` more time than the wait inside it, or remove it"),
                );
            }
        }
    }
}

/// The index of the duration in the words of `timeout`, after its options.
fn limit_of(words: &[&str]) -> Option<usize> {
    let mut at = 1;
    while let Some(word) = words.get(at).filter(|word| word.starts_with('-')) {
        at += if matches!(*word, "-k" | "--kill-after" | "-s" | "--signal") { 2 } else { 1 };
    }
    words.get(at).map(|_| at)
}

/// The timeout that a program sets by an option: `kubectl wait --timeout=90s`, `curl --max-time 120`, `--timeout-ms
/// 20000`.
fn own_limit(words: &[&str]) -> Option<Duration> {
    let value = |names: &[&str]| {
        words.iter().enumerate().find_map(|(at, word)| match word.split_once('=') {
            Some((name, value)) if names.contains(&name) => Some(value),
            _ if names.contains(word) => words.get(at + 1).copied(),
            _ => None,
        })
    };
    // A number without a unit is in seconds for some programs, in milliseconds for others.
    let waits = words.iter().any(|word| matches!(*word, "wait" | "rollout" | "--wait"));
    let helm = words.first() == Some(&"helm");
    let is_told = |text: &&str| waits || !helm && text.ends_with(|c: char| c.is_ascii_alphabetic());
    let curl = words.first().is_some_and(|name| name.rsplit('/').next() == Some("curl"));
    let max = if curl { value(&["--max-time", "-m"]) } else { None };
    value(&["--timeout"])
        .filter(is_told)
        .or(max)
        .and_then(seconds)
        .or_else(|| value(&["--timeout-ms"])?.parse().ok().map(Duration::from_millis))
}

fn within(
    view: &UnderView<'_, '_>,
    step: &Step<Def>,
    limit: Option<&Limit>,
    cleanup: Option<&Limit>,
    out: &mut Diagnostics,
) {
    let waits = match step.op.kind {
        OperationKind::Builtin("sleep" | "consistently") => step.arg("duration"),
        _ => None,
    };
    let waits = waits.and_then(|arg| Some((duration::parse(arg.as_literal()?).ok()?, arg.span)));
    for (time, span) in waits.into_iter().chain(step.timeout.map(|t| (t.value, t.span))) {
        if let Some(limit) = limit.filter(|l| time > l.time) {
            out.push(never_gets(view, span, "this step", time, limit));
        }
    }
    let own = match (step.timeout, limit) {
        (Some(own), limit) if limit.is_none_or(|l| own.value <= l.time) => {
            Some(Limit { time: own.value, at: Some(own.span), what: format!("`{}`", step.op.name), default: false })
        }
        (None, limit) if view.script_of(step).is_some() => {
            match step.op.signature.timeout.filter(|own| limit.is_none_or(|l| *own < l.time)) {
                Some(time) => Some(Limit { time, at: None, what: format!("`{}`", step.op.name), default: true }),
                None => limit.cloned(),
            }
        }
        _ => limit.cloned(),
    };
    let Some(own) = own else { return };
    if let Some(script) = view.script_of(step) {
        commands_within(view, script, &own, out);
        loops_within(view, script, &own, out);
    }
    if step.op.signature.control == Control::Eventually
        && let Some(interval) = step.arg("interval")
        && let Some(Ok(time)) = interval.as_literal().map(duration::parse)
        && step.timeout.is_some_and(|own| time >= own.value)
    {
        out.push(
            Diagnostic::new(
                &TIMEOUT_BEYOND_TASK,
                interval.span,
                format!("there is never a second attempt: {} ends after {}", own.what, duration::format(own.time)),
            )
            .help("increase the timeout, or reduce the interval"),
        );
    }
    if let Some(duration) = step.arg("duration")
        && let Some(Ok(time)) = duration.as_literal().map(duration::parse)
        && step.timeout.is_some_and(|own| time >= own.value)
    {
        out.push(
            Diagnostic::new(
                &TIMEOUT_BEYOND_TASK,
                duration.span,
                format!("{} ends after {}, before this time is over", own.what, duration::format(own.time)),
            )
            .help("increase the timeout, or reduce the duration"),
        );
    }
    for block in &step.blocks {
        let limit = if block.role == BlockRole::Cleanup { cleanup } else { Some(&own) };
        block.steps.iter().for_each(|s| within(view, s, limit, cleanup, out));
    }
}

fn never_gets(view: &UnderView<'_, '_>, span: Span, what: &str, time: Duration, limit: &Limit) -> Diagnostic {
    let (time, end) = (duration::format(time), duration::format(limit.time));
    let diagnostic = Diagnostic::new(
        &TIMEOUT_BEYOND_TASK,
        span,
        format!("{what} cannot take {time}: {} ends after {end}", limit.what),
    );
    match limit.at {
        Some(at) => diagnostic.label(at, "the limit").help("increase this limit, or reduce the time"),
        None if limit.default => diagnostic.help(match view.task.dialect {
            Dialect::Legacy => "this is the default, which this dialect cannot change: wait for less time",
            _ => "this is the default: set the `timeout` of the step",
        }),
        None => {
            let diagnostic = diagnostic.help("set the limits: `timeout` and `cleanupTimeout` in `metadata`");
            // An eval may set a longer timeout.
            if view.eval.is_some() { diagnostic } else { diagnostic.strength(Strength::Note) }
        }
    }
}

/// `kubectl wait --timeout=300s` in a step with a shorter timeout.
fn commands_within(view: &UnderView<'_, '_>, script: &ScriptView<'_>, limit: &Limit, out: &mut Diagnostics) {
    programs_within(view, script, limit, out);
    if !script.content.text.contains("--timeout") {
        return;
    }
    for command in script.content.program.commands() {
        if !tools::takes(command.name(), "--timeout") {
            continue;
        }
        let words = command.words();
        let value = |(i, word): (usize, &Word)| match word.text.strip_prefix("--timeout")? {
            "" => Some((words.get(i + 1)?, words.get(i + 1)?.text.clone())),
            rest => Some((&words[i], rest.strip_prefix('=')?.to_owned())),
        };
        let Some((word, text)) = words.iter().enumerate().find_map(value) else { continue };
        if let Ok(time) = duration::parse(&text)
            && word.literal
            && time > limit.time
        {
            let what = format!("`{}`", command.name());
            out.push(never_gets(view, script.content.span(word.range.clone()), &what, time, limit));
        }
    }
}

/// `timeout 300 …`, `curl --max-time 120` in a step with a shorter timeout.
fn programs_within(view: &UnderView<'_, '_>, script: &ScriptView<'_>, limit: &Limit, out: &mut Diagnostics) {
    let text = &script.content.text;
    if !text.contains("timeout ") && !text.contains("curl") {
        return;
    }
    for command in script.content.program.commands() {
        let words = command.words();
        let word = match command.name() {
            "timeout" => words.iter().skip(1).find(|word| word.text.starts_with(|c: char| c.is_ascii_digit())),
            "curl" => {
                let option = words.iter().position(|word| matches!(word.text.as_str(), "--max-time" | "-m"));
                option.and_then(|at| words.get(at + 1))
            }
            _ => None,
        };
        let Some(word) = word.filter(|word| word.literal) else { continue };
        if let Some(time) = seconds(&word.text).filter(|time| *time > limit.time) {
            let what = format!("`{}`", command.name());
            out.push(never_gets(view, script.content.span(word.range.clone()), &what, time, limit));
        }
    }
}

/// A loop of 30 iterations with pauses of 5 seconds in a step with a shorter timeout.
fn loops_within(view: &UnderView<'_, '_>, script: &ScriptView<'_>, limit: &Limit, out: &mut Diagnostics) {
    let content = &script.content;
    for (statement, time) in
        crate::lint::shell::polls::longest(content).into_iter().filter(|(_, time)| *time > limit.time)
    {
        let head = &content.text[statement.range.clone()];
        let end = statement.range.start + head.find('\n').unwrap_or(head.len());
        out.push(never_gets(view, content.span(statement.range.start..end), "this loop", time, limit));
    }
}

/// Without an expected status, the steps dialect accepts status 500 as success (`tests/coverage.md` B34).
pub fn status(view: &TaskView<'_>, out: &mut Diagnostics) {
    if view.task.dialect != Dialect::Steps {
        return;
    }
    view.task.walk(&mut |phase, step| {
        // The removal of what an earlier run may have left, or of what the agent may have created.
        let method = step.arg("method").and_then(|method| method.as_literal());
        if matches!(phase, PhaseKind::Setup | PhaseKind::Cleanup)
            && method.is_some_and(|method| method.eq_ignore_ascii_case("delete"))
        {
            return;
        }
        let stated = step.expect.as_ref().and_then(|(_, e)| e.get("status"));
        let asked = stated.is_some_and(|s| !matches!(s.kind, ArgKind::Int(0)));
        if matches!(step.op.kind, OperationKind::Builtin("http")) && !asked && !view.has_unread(step.span) {
            out.push(
                Diagnostic::new(
                    &HTTP_WITHOUT_STATUS,
                    stated.map_or(step.key, |s| s.span),
                    "any response passes, even with status 500",
                )
                .help("add the expected status: `expect: {status: 200}`"),
            );
        }
    });
}

/// Visits the fields in the expectations of the steps dialect.
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

/// The steps dialect compares values as text: `"5"` equals the number 5 (`tests/coverage.md` B32).
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
                format!("the {other} {text} is also equal to this string: this dialect compares values as text"),
            )
            .help(format!(
                "add `type: string` if a string is expected; otherwise, remove the quotes and add `type: {}`",
                if other == "boolean" { "bool" } else { "number" }
            )),
        );
    });
}

/// `items.0.id` refers to a key `0`: list indices are written in brackets (`tests/coverage.md` B33).
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
                format!("`{text}` refers to a key that is a number, not to an item of a list"),
            )
            .help(format!("write a list index in brackets: `{right}`"))
            .fix("use brackets", path.span, format!("\"{right}\"")),
        );
    });
}

/// In the steps dialect, `isError: true` allows an error but does not require one (`tests/coverage.md` B29).
pub fn is_error(view: &TaskView<'_>, out: &mut Diagnostics) {
    if view.task.dialect != Dialect::Steps {
        return;
    }
    view.task.walk(&mut |_, step| {
        let Some((_, expect)) = &step.expect else { return };
        if let Some(flag) = expect.get("isError").filter(|f| matches!(f.kind, ArgKind::Bool(true))) {
            out.push(
                Diagnostic::new(&IS_ERROR_ALSO_PASSES, flag.span, "a successful call also passes: in this dialect `isError: true` only allows an error")
                    .help("check the error's text with `content: {match: …}`; in the portable dialect, `isError: true` requires an error"),
            );
        }
    });
}

/// From this duration on, waiting for a condition is better.
const LONG: Duration = Duration::from_secs(10);

pub fn sleeps(view: &TaskView<'_>, out: &mut Diagnostics) {
    for script in view.scripts.iter().filter(|s| s.content.text.contains("sleep")) {
        let content = &script.content;
        once(&content.program.body, &mut |command| {
            let [_, time] = command.words() else { return };
            if command.name() != "sleep" {
                return;
            }
            let text = if time.literal {
                Some(time.text.as_str())
            } else {
                crate::lint::shell::polls::constant(content, &time.text)
            };
            let Some(length) = text.and_then(seconds).filter(|t| *t >= LONG) else { return };
            if script.phase == PhaseKind::Verify && observes(&content.text, command.range.clone()) {
                return;
            }
            let written = duration::format(length);
            out.push(
                Diagnostic::new(&FIXED_SLEEP, content.span(command.range.clone()), format!("every run waits {written}, and a slow run may need longer"))
                    .help("wait for the condition instead: `kubectl wait`, a loop that ends as soon as it is met, or `eventually`"),
            );
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
                    format!("every run waits {}, and a slow run may need longer", duration::format(time)),
                )
                .help(
                    "wait for the condition instead: `eventually: {timeout: …, steps: […]}` ends as soon as its steps pass",
                ),
            );
        }
    });
}

/// Whether a pause is the time in which something must not change: what is read after it was read before it, or counts restarts.
fn observes(text: &str, pause: Range<usize>) -> bool {
    let (before, after) = (&text[..pause.start], &text[pause.end..]);
    let read_again = after.match_indices("$(").any(|(at, _)| {
        let command = &after[at..];
        ast::closing(&command[1..], b'(', b')').is_some_and(|end| end > 8 && before.contains(&command[..end + 2]))
    });
    read_again || ["restartCount", "kube_pod_container_status_restarts"].iter().any(|field| after.contains(field))
}

/// Parses a duration as `sleep` does: `30`, `30s`, `1m`.
fn seconds(text: &str) -> Option<Duration> {
    match text.parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => duration::parse(text).ok(),
    }
}

/// Visits every command that runs once and that the script waits for. Pauses in loops are part of polling.
fn once<'s>(list: &'s [Statement], visit: &mut dyn FnMut(&'s Statement)) {
    for statement in list {
        if statement.background || matches!(statement.kind, Kind::Loop { .. } | Kind::Function { .. }) {
            continue;
        }
        visit(statement);
        statement.lists(&mut |l| once(l, visit));
    }
}
