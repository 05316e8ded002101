//! Scripts whose exit status does not mean what their author intends.

use crate::{
    bash::{
        ast,
        flow::{self, Status},
        program::{Kind, Program, Repeat, Statement},
    },
    diagnostic::{Diagnostic, Diagnostics, Strength},
    hir::{ArgKind, Def, PhaseKind, Target, Task, Template},
    lint::{
        TaskView,
        script::{Content, Form, ScriptView},
    },
    rule,
};

rule! {
    pub static LAST_COMMAND_DECIDES = "last-command-decides", Verdict;
    pub static SCRIPT_CANNOT_FAIL = "script-cannot-fail", Verdict;
    pub static SCRIPT_CANNOT_PASS = "script-cannot-pass", Verdict;
    pub static POLL_ENDS_IN_SUCCESS = "poll-ends-in-success", Verdict;
}

/// Without `set -e`, a failed command is ignored (`tests/coverage.md` B15). In cleanup, this is intended.
pub fn last_command(view: &TaskView<'_>, out: &mut Diagnostics) {
    for script in view.scripts.iter().filter(|s| s.phase != PhaseKind::Cleanup && understood(s)) {
        let program = &script.content.program;
        let Some(ignored) = ignored(&script.content) else { continue };
        let [.., last] = deciding(program) else { continue };
        let content = &script.content;
        let mut diagnostic = Diagnostic::new(
            &LAST_COMMAND_DECIDES,
            content.span(line(content, ignored)),
            format!("the exit status of `{}` is ignored", excerpt(content, ignored)),
        )
        .label(content.span(line(content, last)), "only this exit status counts")
        .help("start with `set -e`, or handle the failure: `|| exit 1`");
        let first = &program.body[0];
        if script.phase != PhaseKind::Verify {
            diagnostic = diagnostic.strength(Strength::Warning);
        } else if let Some((at, text)) = content.before_line(content.line_start(first.range.start), "set -e") {
            diagnostic = diagnostic.unsafe_fix("start with `set -e`", at, text);
        }
        out.push(diagnostic);
    }
}

fn understood(script: &ScriptView<'_>) -> bool {
    is_read(script) && script.decides_by_status()
}

fn is_read(script: &ScriptView<'_>) -> bool {
    script.content.program.sound && !script.content.program.body.is_empty()
}

/// Returns the statements up to the one that sets the script's exit status: a bare `exit` after it changes nothing.
fn deciding(program: &Program) -> &[Statement] {
    match program.body.as_slice() {
        [rest @ .., end] if end.name() == "exit" && end.words().len() == 1 => rest,
        all => all,
    }
}

/// Returns the first command whose failure is ignored, in a script that handles no failure at all.
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
    let [others @ .., last] = deciding(program) else { return None };
    if careful || deliberate(last) {
        return None;
    }
    others.iter().find(|s| matters(s) && !is_read_by(content, s, last) && flow::status(program, s).other)
}

/// Whether the last command reads the file that a statement writes: it then decides about that as well.
fn is_read_by(content: &Content, statement: &Statement, last: &Statement) -> bool {
    let line = content.text.get(statement.range.start..).and_then(|rest| rest.lines().next()).unwrap_or_default();
    let target = line.rsplit_once('>').map_or("", |(_, target)| target.trim());
    let text = content.text.get(last.range.clone()).unwrap_or_default();
    statement.written && target.len() > 2 && !target.contains(' ') && text.contains(target)
}

/// Whether the first line, `#!/bin/sh -e`, makes the script stop at errors.
pub fn errexit_line(text: &str) -> bool {
    let line = text.lines().next().unwrap_or_default();
    line.starts_with("#!")
        && line.split_whitespace().skip(1).any(|w| w.starts_with('-') && !w.starts_with("--") && w.contains('e'))
}

/// `exit 0`, `true`, `:`, `… || true`: the author intends success.
fn deliberate(last: &Statement) -> bool {
    match &last.kind {
        Kind::Command(words) => matches!(last.name(), "true" | ":") || last.name() == "exit" && words.len() > 1,
        Kind::Or(pair) => deliberate(&pair[1]),
        _ => false,
    }
}

/// Whether a failure of this statement matters: not for preparation, waiting or cleanup.
fn matters(statement: &Statement) -> bool {
    match &statement.kind {
        Kind::Command(words) => {
            let tolerant = words.iter().any(|w| w.text.starts_with("--ignore-not-found") || w.text == "--wait=false");
            let removes = words.iter().take(4).any(|w| matches!(w.text.as_str(), "delete" | "uninstall"));
            // `: "${NS:?}"` ends the script if it fails.
            !statement.background
                && !matches!(
                    statement.name(),
                    ":" | "rm" | "mkdir" | "cd" | "pushd" | "popd" | "kill" | "pkill" | "read" | "let" | "cat" | "ls"
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

/// The script always succeeds (author mistake 6).
pub fn cannot_fail(view: &TaskView<'_>, out: &mut Diagnostics) {
    for (script, last) in never_failing(view) {
        let program = &script.content.program;
        if polls(&script.content).iter().any(|p| p.ends_in_success(program)) {
            continue;
        }
        let content = &script.content;
        let (message, label) = match &last.kind {
            Kind::Command(_) if last.name() == "exit" => {
                ("this script cannot fail", "the script always ends here with status 0")
            }
            Kind::Or(_) => ("this script cannot fail", "this turns a failure of the first command into success"),
            _ => ("this script cannot fail", "no earlier command can end the script with a failure"),
        };
        out.push(
            Diagnostic::new(&SCRIPT_CANNOT_FAIL, content.span(line(content, last)), message)
                .here(label)
                .label(
                    script.step.key,
                    match script.decides_by_status() {
                        true => "a verify step passes if its script exits with status 0",
                        false => "every run of the script meets this expectation",
                    },
                )
                .help("end with the command that checks, or with `exit 1` if the check fails"),
        );
    }
}

/// The script always fails.
pub fn cannot_pass(view: &TaskView<'_>, out: &mut Diagnostics) {
    for script in view.scripts.iter().filter(|s| s.phase == PhaseKind::Verify && understood(s)) {
        let (content, program) = (&script.content, &script.content.program);
        let commands = program.commands();
        // The status is unknown if another program or a trap may change it. A script that
        // checks nothing fails on purpose.
        let hands_over = commands.iter().any(|c| matches!(c.name(), "exec" | "trap" | "source" | "." | "eval"));
        let tries = commands.iter().any(|c| matters(c) && flow::status(program, c) == Status::ANY);
        if hands_over || !tries || flow::outcome(program) != Status::OTHER || is_used(view.task, script) {
            continue;
        }
        let Some(end) = program.body.iter().find(|s| flow::leaves(program, s)).or(program.body.last()) else {
            continue;
        };
        out.push(
            Diagnostic::new(&SCRIPT_CANNOT_PASS, content.span(line(content, end)), "this script cannot pass")
                .here("the script always ends here with a failure")
                .label(script.step.key, "a verify step passes if its script exits with status 0")
                .help("add `exit 0` before this line for the case that the check succeeds"),
        );
    }
}

/// Whether a rule of this file reports a script of verify that checks something and cannot fail.
/// Other rules then report nothing.
pub fn in_vain(view: &TaskView<'_>) -> bool {
    let mut scripts = view.scripts.iter().filter(|s| s.phase == PhaseKind::Verify && understood(s));
    never_failing(view).next().is_some() || scripts.any(|s| ignored(&s.content).is_some())
}

/// Returns the scripts of verify that check something and cannot fail, each with its last statement.
fn never_failing<'v>(view: &'v TaskView<'_>) -> impl Iterator<Item = (&'v ScriptView<'v>, &'v Statement)> {
    let scripts = view.scripts.iter().filter(|s| s.phase == PhaseKind::Verify && is_read(s));
    scripts.filter_map(|script| {
        let program = &script.content.program;
        let last = program.body.last()?;
        let usual = script.decides_by_status();
        if flow::outcome(program) != (Status { zero: true, other: false })
            || usual && ignored(&script.content).is_some()
            || !usual && !is_met_by_success(script)
            || is_used(view.task, script)
        {
            return None;
        }
        // An inline script that only prints is not a broken check; `unfalsifiable-verify` examines verify as a whole.
        let tries = program.commands().iter().any(|c| flow::status(program, c).other);
        (tries || matches!(script.form, Form::File { .. })).then_some((script, last))
    })
}

/// Whether a script that succeeds always meets the step's `expect`: `exitCode: {not: 1}`,
/// or text that it always prints.
fn is_met_by_success(script: &ScriptView<'_>) -> bool {
    let Some(ArgKind::Record(fields)) = script.step.expect.as_ref().map(|(_, expect)| &expect.kind) else {
        return false;
    };
    script.is_judged()
        && fields.iter().all(|(name, arg)| match (name.value.as_str(), &arg.kind) {
            ("exitCode", ArgKind::Int(status)) => *status == 0,
            ("exitCode", ArgKind::Record(_)) => {
                arg.get("not").is_some_and(|not| matches!(not.kind, ArgKind::Int(status) if status != 0))
            }
            ("exitCode", _) => arg.as_literal() == Some("any"),
            ("stdout", ArgKind::Record(demands)) => demands.iter().all(|(demand, arg)| {
                demand.value == "contains" && arg.as_literal().is_some_and(|text| always_prints(&script.content, text))
            }),
            _ => false,
        })
}

/// Whether a script prints a text on every path.
fn always_prints(content: &Content, text: &str) -> bool {
    let program = &content.program;
    let prints = |s: &Statement| {
        let plain = |word: &ast::Word| word.literal().is_some_and(|said| said.contains(text));
        matches!(s.name(), "echo" | "printf")
            && !s.background
            && !s.written
            && ast::split(&content.text[s.range.clone()], 0).iter().skip(1).any(plain)
    };
    let leaves = |s: &&Statement| matches!(s.name(), "exit" | "exec" | "return" | "kill" | "trap" | "source" | ".");
    !program.commands().iter().any(leaves) && program.body.iter().any(prints)
}

/// Whether nothing in a script can make it fail: neither its commands, nor its redirections, nor its variables.
pub fn is_idle(content: &Content) -> bool {
    let program = &content.program;
    let mut text = content.text.clone();
    for harmless in [">&2", "2>&1", "&>/dev/null", ">/dev/null", "> /dev/null"] {
        text = text.replace(harmless, "");
    }
    let asks = |braced: &str| braced.split('}').next().is_some_and(|inner| inner.contains('?'));
    let unset = text.split("${").skip(1).any(asks) || program.sets('u', "nounset") && text.contains('$');
    program.sound
        && !unset
        && !text.contains(['<', '>'])
        && flow::outcome(program) == (Status { zero: true, other: false })
}

/// Whether a later step uses the output of this one.
pub fn is_used(task: &Task<Def>, script: &ScriptView<'_>) -> bool {
    let Some(id) = &script.step.id else { return false };
    let mut used = false;
    let mut look = |t: &Template<Def>| {
        used |= t.holes().any(|h| matches!(&h.reference.target, Target::Output { step, .. } if *step == id.value));
    };
    task.walk(&mut |_, step| step.templates(&mut look));
    used
}

/// A loop in verify that gives up with `break` and a message, if nothing after it checks the condition again.
fn gives_up(view: &TaskView<'_>, out: &mut Diagnostics) {
    for script in view.scripts.iter().filter(|s| s.phase == PhaseKind::Verify && understood(s)) {
        let content = &script.content;
        let program = &content.program;
        program.walk(&mut |s| last_round(content, s, out));
        for (nth, whole) in program.body.iter().enumerate() {
            let Kind::Loop { repeat: Repeat::While | Repeat::Until, condition, body } = &whole.kind else { continue };
            let [condition] = condition.as_slice() else { continue };
            let Some(limit) = limit(content, whole, body) else { continue };
            let Kind::If { branches, otherwise: None } = &limit.kind else { continue };
            let only_says = branches
                .iter()
                .flat_map(|branch| &branch.body)
                .all(|s| matches!(s.name(), "echo" | "printf" | "break"));
            let asked = &content.text[condition.range.clone()];
            let asked = asked.trim_start_matches("! ").split(['>', '|']).next().unwrap_or(asked).trim();
            let again = content.text[whole.range.end..].contains(asked);
            let poll = Poll { whole, limit: Some(limit) };
            if !only_says
                || again
                || nth + 1 == program.body.len()
                || poll.ends_in_success(program)
                || matches!(condition.name(), "true" | ":")
                || condition.name().is_empty() && !asks(content, whole, condition)
            {
                continue;
            }
            out.push(
                Diagnostic::new(
                    &POLL_ENDS_IN_SUCCESS,
                    content.span(line(content, whole)),
                    "after the timeout, the script continues as if the wait had succeeded",
                )
                .here("the condition is not checked again after the loop")
                .label(content.span(line(content, limit)), "the timeout is reached here")
                .help("replace this `break` with `exit 1`"),
            );
        }
    }
}

/// Whether the condition of a loop tests the output of a command rather than the number of iterations, and nothing
/// after the loop reads its variables.
fn asks(content: &Content, whole: &Statement, condition: &Statement) -> bool {
    let text = &content.text[condition.range.clone()];
    let behind = &content.text[whole.range.end..];
    let mut names = Vec::new();
    ast::split(text, 0).iter().for_each(|word| word.variables(&mut names));
    let read = |name: &String| behind.contains(&format!("${name}")) || behind.contains(&format!("${{{name}"));
    matches!(condition.kind, Kind::Test)
        && !counts(content, whole, condition)
        && !compares(content, condition)
        && !names.iter().any(read)
}

/// A loop waits until a variable has a value, and the test after it accepts others:
/// `[ -z "$state" ]`, `[ "$state" != Failed ]`.
fn weaker(view: &TaskView<'_>, out: &mut Diagnostics) {
    for script in view.scripts.iter().filter(|s| s.phase == PhaseKind::Verify && understood(s)) {
        let content = &script.content;
        for poll in polls(content) {
            if may_end_elsewhere(view, script, poll.whole) {
                continue;
            }
            for (name, sample, wanted) in awaited(content, poll.whole) {
                let Some(test) = goes_on_without(content, poll.whole, &name, &sample) else { continue };
                out.push(
                    Diagnostic::new(
                        &POLL_ENDS_IN_SUCCESS,
                        content.span(line(content, test)),
                        format!("the loop waits for `{wanted}`, but after the timeout this accepts other values of `${name}`"),
                    )
                    .label(content.span(line(content, poll.whole)), "after this loop")
                    .help(format!("check for `{wanted}` again")),
                );
            }
        }
    }
}

/// Whether a loop, or what follows it, calls a function of a sourced file, which may end the script: `die`.
fn may_end_elsewhere(view: &TaskView<'_>, script: &ScriptView<'_>, whole: &Statement) -> bool {
    let commands = script.content.program.commands();
    if !commands.iter().any(|command| matches!(command.name(), "." | "source")) {
        return false;
    }
    let sources = view.facts.followed(&view.effects.scripts, script).map(|followed| followed.trace.sources.as_slice());
    let Some(sources) = sources.filter(|sources| !sources.is_empty()) else { return true };
    let mut functions = Vec::new();
    for source in sources {
        source.program.walk(&mut |s| {
            if let Kind::Function { name, .. } = &s.kind {
                functions.push(name.as_str());
            }
        });
    }
    let behind = commands.iter().filter(|command| command.range.start >= whole.range.start);
    behind.into_iter().any(|command| functions.contains(&command.name()))
}

/// Whether a branch on a test of this variable counts the failure: the script may end later because of it.
fn is_counted(content: &Content, whole: &Statement, name: &str) -> bool {
    let mut found = false;
    content.program.walk(&mut |s| {
        let Kind::If { branches, .. } = &s.kind else { return };
        let tests = |s: &Statement| content.text[s.range.clone()].contains(name);
        let counts = |s: &Statement| {
            let mut sets = false;
            s.walk(&mut |s| {
                let text = &content.text[s.range.clone()];
                sets |= matches!(s.kind, Kind::Assignment) || text.starts_with("((") || s.name() == "let";
            });
            sets
        };
        found |= s.range.start >= whole.range.end
            && branches.iter().any(|branch| branch.condition.iter().any(tests) && branch.body.iter().any(counts));
    });
    found
}

/// Returns the test after a loop that may pass although the variable still has a value that keeps the loop waiting.
fn goes_on_without<'s>(content: &'s Content, whole: &Statement, name: &str, sample: &str) -> Option<&'s Statement> {
    let program = &content.program;
    let behind = &content.text[whole.range.end..];
    // The script waits for it again.
    if [format!("{name}="), "kubectl wait".to_owned(), "rollout status".to_owned()]
        .iter()
        .any(|again| behind.contains(again))
    {
        return None;
    }
    let (mut given, mut first, mut unknown) = (Vec::new(), None, is_counted(content, whole, name));
    program.walk(&mut |s| {
        if s.range.start < whole.range.end || !(matches!(s.kind, Kind::Test) || matches!(s.name(), "test" | "[")) {
            return;
        }
        let text = &content.text[s.range.clone()];
        let words = ast::split(text, 0);
        let mut names = Vec::new();
        words.iter().for_each(|word| word.variables(&mut names));
        if !names.iter().any(|known| known == name) {
            return;
        }
        match holds(&words, name, sample) {
            Some(truth) => {
                given.push((s.range.clone(), if truth { Status::ZERO } else { Status::OTHER }));
                first.get_or_insert(s);
            }
            None => unknown = true,
        }
    });
    let first = first.filter(|_| !unknown)?;
    flow::outcome_after_with(program, &whole.range, given)?.zero.then_some(first)
}

/// Returns the variable of a word, also with a default: `"${count:-0}"`.
fn variable(word: &ast::Word) -> Option<&str> {
    match word.parts.as_slice() {
        [ast::Part::Var { name, .. }] => Some(name),
        _ => None,
    }
}

/// Whether a test of one variable and a literal holds if the variable has this value. `None` for other tests.
fn holds(words: &[ast::Word], name: &str, value: &str) -> Option<bool> {
    let words: Vec<&ast::Word> =
        words.iter().filter(|word| !matches!(word.source.as_str(), "[" | "]" | "[[" | "]]" | "test")).collect();
    match words.as_slice() {
        [sign, word] if variable(word) == Some(name) => match sign.source.as_str() {
            "-z" => Some(value.is_empty()),
            "-n" => Some(!value.is_empty()),
            _ => None,
        },
        [word, sign, literal] if variable(word) == Some(name) => {
            let literal = literal.literal().filter(|text| !text.contains(['*', '?']))?;
            let numbers = || Some((value.parse::<i64>().ok()?, literal.parse::<i64>().ok()?));
            match sign.source.as_str() {
                "=" | "==" => Some(value == literal),
                "!=" => Some(value != literal),
                "-eq" => numbers().map(|(a, b)| a == b),
                "-ne" => numbers().map(|(a, b)| a != b),
                "-ge" => numbers().map(|(a, b)| a >= b),
                "-gt" => numbers().map(|(a, b)| a > b),
                "-le" => numbers().map(|(a, b)| a <= b),
                "-lt" => numbers().map(|(a, b)| a < b),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Returns the variables whose value ends a loop, each with a value that keeps it waiting,
/// and the one for which it waits.
fn awaited(content: &Content, whole: &Statement) -> Vec<(String, String, String)> {
    let Kind::Loop { body, .. } = &whole.kind else { return Vec::new() };
    let mut found: Vec<(String, String, String)> = Vec::new();
    let leaves = |s: &Statement| {
        let mut leaves = false;
        s.walk(&mut |s| leaves |= s.name() == "break");
        leaves
    };
    let mut test = |condition: &Statement| {
        let words = ast::split(&content.text[condition.range.clone()], 0);
        let words: Vec<&ast::Word> =
            words.iter().filter(|word| !matches!(word.source.as_str(), "[" | "]" | "[[" | "]]" | "test")).collect();
        let [left, sign, right] = words.as_slice() else { return };
        let (Some(name), Some(literal)) = (variable(left), right.literal()) else { return };
        let number = literal.parse::<i64>().ok();
        let sample = match (sign.source.as_str(), number) {
            ("=" | "==", _) if literal.contains(['*', '?']) => return,
            ("=" | "==" | "-eq", Some(number)) => number.saturating_sub(1).to_string(),
            ("=" | "==", None) if !literal.is_empty() => format!("not {literal}"),
            ("-ge", Some(number)) => number.saturating_sub(1).to_string(),
            ("-gt", Some(number)) => number.to_string(),
            _ => return,
        };
        // A variable that the loop increments is the number of its iterations.
        if !counts(content, whole, condition) {
            found.push((name.to_owned(), sample, literal));
        }
    };
    for statement in body {
        match &statement.kind {
            Kind::And(pair) if leaves(&pair[1]) => test(&pair[0]),
            Kind::If { branches, .. } => {
                for branch in branches {
                    if let ([condition], true) = (branch.condition.as_slice(), branch.body.iter().any(&leaves)) {
                        test(condition);
                    }
                }
            }
            _ => {}
        }
    }
    for statement in body {
        let Kind::Case(arms) = &statement.kind else { continue };
        let text = &content.text[statement.range.clone()];
        let subject = text.strip_prefix("case").and_then(|rest| ast::split(rest, 0).into_iter().next());
        let Some(name) = subject.as_ref().and_then(ast::Word::variable) else { continue };
        let patterns: Vec<&str> = arms
            .iter()
            .filter(|arm| arm.iter().any(&leaves))
            .filter_map(|arm| {
                content.text[statement.range.start..arm.first()?.range.start].trim_end().strip_suffix(')')
            })
            .map(|head| head.rsplit([' ', '\n', ';', '(']).next().unwrap_or_default().trim_matches(['"', '\'']))
            .collect();
        if let [pattern] = patterns.as_slice()
            && !pattern.is_empty()
            && !pattern.contains(['*', '?', '|', '$'])
        {
            found.push((name.to_owned(), format!("not {pattern}"), (*pattern).to_owned()));
        }
    }
    // With two values, either is sufficient.
    let twice = |name: &str| found.iter().filter(|(known, ..)| known == name).count() > 1;
    let several: Vec<String> = found.iter().map(|(name, ..)| name.clone()).filter(|name| twice(name)).collect();
    found.retain(|(name, ..)| !several.contains(name));
    found
}

/// `if [ "$i" -eq 30 ]; then exit 0; fi` in a loop over `i`; and an iteration that always ends the loop.
fn last_round(content: &Content, whole: &Statement, out: &mut Diagnostics) {
    let Kind::Loop { repeat: Repeat::For, body, .. } = &whole.kind else { return };
    let text = &content.text[whole.range.clone()];
    let name = text.trim_start_matches("for").trim_start().split([' ', ';', '\n']).next().unwrap_or_default();
    let succeeds =
        |s: &Statement| matches!(s.name(), "exit" | "return") && s.words().get(1).is_some_and(|word| word.text == "0");
    for statement in body {
        let Kind::If { branches, .. } = &statement.kind else { continue };
        let limit = branches.iter().find(|branch| {
            let asks = branch.condition.last().is_some_and(|condition| {
                let text = &content.text[condition.range.clone()];
                let counts = text.contains(&format!("${name}")) || text.contains(&format!("${{{name}}}"));
                matches!(condition.kind, Kind::Test)
                    && counts
                    && ["-eq", "-ge", "-gt", "=="].iter().any(|o| text.contains(o))
            });
            asks && branch.body.iter().any(succeeds)
        });
        if limit.is_some() {
            out.push(
                Diagnostic::new(
                    &POLL_ENDS_IN_SUCCESS,
                    content.span(line(content, whole)),
                    "after the timeout, this loop ends with success",
                )
                .label(content.span(line(content, statement)), "the timeout is reached here")
                .help("add `exit 1` to the last iteration"),
            );
        }
    }
    let mut goes_on = false;
    body.iter().for_each(|s| s.walk(&mut |s| goes_on |= s.name() == "continue"));
    let checks = body.len() > 1 && body.iter().any(|s| matches!(s.kind, Kind::If { .. } | Kind::Or(_) | Kind::Test));
    if let Some(last) = body.last().filter(|last| succeeds(last) && !goes_on && checks) {
        out.push(
            Diagnostic::new(
                &POLL_ENDS_IN_SUCCESS,
                content.span(line(content, last)),
                "this ends the script with success in the first iteration: the other items are not checked",
            )
            .label(content.span(line(content, whole)), "in this loop")
            .help("move `exit 0` after the loop"),
        );
    }
}

/// A loop that waits, and succeeds after a timeout (author mistake 7).
pub fn poll(view: &TaskView<'_>, out: &mut Diagnostics) {
    gives_up(view, out);
    weaker(view, out);
    for script in view.scripts.iter().filter(|s| understood(s)) {
        let content = &script.content;
        let program = &content.program;
        for poll in polls(&script.content) {
            if !poll.ends_in_success(program) || may_end_elsewhere(view, script, poll.whole) {
                continue;
            }
            let range = &poll.whole.range;
            let mut diagnostic = Diagnostic::new(
                &POLL_ENDS_IN_SUCCESS,
                content.span(line(content, poll.whole)),
                "after the timeout, this loop ends with success",
            )
            .here("the condition may never have been met");
            diagnostic = match poll.limit {
                Some(limit) => diagnostic
                    .label(content.span(line(content, limit)), "the timeout is reached here")
                    .help("replace this `break` with `exit 1`"),
                None => diagnostic
                    .help("add `exit 1` after the loop, and leave the loop with `exit 0` when the condition is met"),
            };
            if script.phase != PhaseKind::Verify {
                diagnostic = diagnostic.strength(Strength::Warning);
            }
            let is_last = program.body.last().is_some_and(|l| l.range == *range);
            if is_last
                && !leaves_by_break(poll.whole)
                && let Some((at, text)) = content.after_line(range.start, range.end, "exit 1")
            {
                diagnostic = diagnostic.unsafe_fix("add `exit 1`", at, text);
            }
            out.push(diagnostic);
        }
    }
}

/// A loop that sleeps, tries a limited number of times and can end in success.
struct Poll<'s> {
    whole: &'s Statement,
    /// The statement that gives up within an iteration with `break`.
    limit: Option<&'s Statement>,
}

/// The most waits of a script that are examined: each one needs a walk through the script.
const POLLS: usize = 64;

/// The loops of a script that wait, at most [`POLLS`].
fn polls(content: &Content) -> Vec<Poll<'_>> {
    let mut found = Vec::new();
    content.program.walk(&mut |s| {
        let Kind::Loop { repeat, condition, body } = &s.kind else { return };
        let (mut sleeps, mut leaves) = (false, 0);
        for statement in body {
            statement.walk(&mut |s| {
                sleeps |= s.name() == "sleep";
                leaves += usize::from(match s.name() {
                    "break" => true,
                    "exit" | "return" => s.words().get(1).is_none_or(|w| w.text == "0"),
                    _ => false,
                });
            });
        }
        if !sleeps || leaves == 0 {
            return;
        }
        if *repeat == Repeat::For || condition.iter().any(|c| compares(content, c)) {
            found.push(Poll { whole: s, limit: None });
        } else if let Some(limit) = limit(content, s, body)
            && (leaves > 1 || !condition.iter().all(|c| matches!(c.name(), "true" | ":")))
        {
            found.push(Poll { whole: s, limit: Some(limit) });
        }
    });
    found.truncate(POLLS);
    found
}

/// Whether a condition compares a number. In the condition of a loop, that is the number of its iterations.
fn compares(content: &Content, condition: &Statement) -> bool {
    let text = &content.text[condition.range.clone()];
    matches!(condition.kind, Kind::Test) && ["-lt", "-le", "-gt", "-ge", "<", ">"].iter().any(|o| text.contains(o))
}

/// `if [ $n -ge 30 ]; then …; break; fi`, `[ $n -ge 30 ] && break`: returns the first statement of an iteration that
/// ends the loop because of the number of iterations.
fn limit<'s>(content: &Content, whole: &Statement, round: &'s [Statement]) -> Option<&'s Statement> {
    let ends = |list: &[Statement]| match list {
        [Statement { kind: Kind::Group(list), .. }] => list.iter().any(|s| s.name() == "break"),
        _ => list.iter().any(|s| s.name() == "break"),
    };
    let is_limit = |condition: &[Statement], then: &[Statement]| match condition {
        [condition] => {
            ends(then)
                && (compares(content, condition) || equals(content, condition))
                && counts(content, whole, condition)
        }
        _ => false,
    };
    round.iter().find_map(|statement| match &statement.kind {
        Kind::If { branches, .. } if branches.iter().any(|b| is_limit(&b.condition, &b.body)) => Some(statement),
        Kind::If { branches, otherwise } => {
            let lists = branches.iter().map(|b| b.body.as_slice()).chain(otherwise.as_deref());
            lists.filter_map(|list| limit(content, whole, list)).next()
        }
        Kind::And(pair) if is_limit(&pair[..1], &pair[1..]) => Some(statement),
        _ => None,
    })
}

fn equals(content: &Content, condition: &Statement) -> bool {
    matches!(condition.kind, Kind::Test) && content.text[condition.range.clone()].contains("-eq")
}

/// Whether every iteration of a loop changes what a condition compares: `n=$((n+1))`, `((n++))`, the clock.
fn counts(content: &Content, whole: &Statement, condition: &Statement) -> bool {
    let text = &content.text[whole.range.clone()];
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let names = content.text[condition.range.clone()].split(|c| !is_name(c));
    names.filter(|n| n.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')).any(|name| {
        name == "SECONDS"
            || text.match_indices(name).any(|(at, _)| {
                let (before, after) = (&text[..at], &text[at + name.len()..]);
                if before.ends_with(is_name) {
                    return false;
                }
                let value = after.strip_prefix('=').map(|v| v.split(['\n', ';']).next().unwrap_or_default());
                let grows = |v: &str| {
                    v.contains("date +%s") || (v.starts_with("$((") || v.starts_with("$(expr")) && v.contains(name)
                };
                before.ends_with("++")
                    || ["++", "+=", "-=", "--"].iter().any(|o| after.trim_start().starts_with(o))
                    || value.is_some_and(grows)
            })
    })
}

fn leaves_by_break(poll: &Statement) -> bool {
    let mut found = false;
    poll.walk(&mut |s| found |= s.name() == "break");
    found
}

impl Poll<'_> {
    fn ends_in_success(&self, program: &Program) -> bool {
        // A loop that can make the script fail from within handles its timeout.
        let Kind::Loop { body, .. } = &self.whole.kind else { return false };
        let mut fails = false;
        for statement in body {
            statement.walk(&mut |s| {
                fails |= matches!(s.name(), "exit" | "return") && s.words().get(1).is_some_and(|w| w.text != "0");
            });
        }
        let after = flow::outcome_after(program, &self.whole.range, self.limit.is_some());
        !fails && after == Some(Status { zero: true, other: false })
    }
}

/// Returns the range of a statement's first line.
fn line(content: &Content, statement: &Statement) -> std::ops::Range<usize> {
    let text = &content.text[statement.range.clone()];
    statement.range.start..statement.range.start + text.find('\n').unwrap_or(text.len())
}

fn excerpt(content: &Content, statement: &Statement) -> String {
    let text = content.text[line(content, statement)].replace(crate::lint::script::HOLE, "…");
    let mut short: String = text.chars().take(40).collect();
    if short.len() < text.len() {
        short = format!("{}…", short.trim_end());
    }
    while short.contains("……") {
        short = short.replace("……", "…");
    }
    short
}
