//! Checks of verify that cannot fail, because the status that they use says nothing about the answer.

use rustc_hash::FxHashMap;

use crate::{
    ascii::{Ascii, ascii},
    bash::{
        ast, flow,
        program::{Kind, Program, Repeat, Statement},
    },
    diagnostic::{Diagnostic, Diagnostics, Strength},
    effects::{Followed, asked},
    hir::PhaseKind,
    lint::{
        TaskView,
        script::Content,
        shell::{
            dead_check::{self, STATUS_IGNORED},
            error_branch::{self, ERROR_BRANCH_CONTINUES},
            exit_status::{self, SCRIPT_CANNOT_FAIL},
        },
    },
    source::Span,
};

/// Filters of jq without `-e`, and functions that never fail.
pub fn ignored(view: &TaskView<'_>, out: &mut Diagnostics) {
    if exit_status::in_vain(view) {
        return;
    }
    let scripts = view.effects.scripts.iter();
    for followed in scripts.filter(|f| f.view.phase == PhaseKind::Verify && f.view.decides_by_status()) {
        filters(followed, out);
        never_fails(followed, out);
    }
}

/// `jq "$filter" file > /dev/null` with a filter that a function gets or a loop sets. [`dead_check`] reports filters
/// that are written in the command itself.
fn filters(followed: &Followed<'_>, out: &mut Diagnostics) {
    let mut told: Vec<Span> = Vec::new();
    for run in followed.trace.runs.iter().filter(|run| matches!(run.statement.name(), "jq" | "yq")) {
        let strict =
            asked::options(run).contains('e') || run.words.iter().any(|w| w.literal() == Some("--exit-status"));
        let Some(filter) = asked::operand(run).filter(|_| !strict && asked::discards(run)) else { continue };
        let span = run.content.span(run.statement.range.clone());
        let is_literal = run.statement.words().iter().any(|word| word.text == filter);
        if !is_literal && dead_check::answers(&filter) && !told.contains(&span) {
            told.push(span);
            let finding = Diagnostic::new(&STATUS_IGNORED, span, "this command succeeds regardless of what it finds");
            out.push(finding.help("use `jq -e`, which fails if the result is false or null"));
        }
    }
}

/// `wait_for_ready || exit 1`, if the function ends with status 0 in any case.
fn never_fails(followed: &Followed<'_>, out: &mut Diagnostics) {
    let content = &followed.view.content;
    let program = &content.program;
    let contents: Vec<&Content> = followed.trace.sources.iter().copied().chain(std::iter::once(&**content)).collect();
    let mut functions: FxHashMap<&str, (&Content, &[Statement])> = FxHashMap::default();
    for content in &contents {
        content.program.walk(&mut |s| {
            if let Kind::Function { name, body } = &s.kind {
                functions.insert(name, (content, body));
            }
        });
    }
    if functions.is_empty() || !program.sound || contents.iter().any(|content| !content.program.sound) {
        return;
    }
    let sources: Vec<&Program> = followed.trace.sources.iter().map(|content| &content.program).collect();
    let fails = |list: &[Statement]| leaves_badly(list, &functions);
    let mut found: Vec<(&Statement, &Statement)> = Vec::new();
    program.walk(&mut |s| match &s.kind {
        Kind::Or(pair) if fails(&pair[1..]) => found.push((&pair[0], &pair[1])),
        Kind::If { branches, otherwise } => {
            let Some(branch) = branches.first() else { return };
            let [condition] = branch.condition.as_slice() else { return };
            match &condition.kind {
                Kind::Not(inner) if fails(&branch.body) => {
                    found.extend(branch.body.first().map(|first| (&**inner, first)))
                }
                Kind::Command(_) => {
                    let otherwise = otherwise.as_deref().filter(|list| fails(list));
                    found.extend(otherwise.and_then(|list| Some((condition, list.first()?))));
                }
                _ => {}
            }
        }
        _ => {}
    });
    for (call, branch) in found {
        let Some((within, body)) = functions.get(call.name()).filter(|_| !call.written && !call.fed) else { continue };
        if asks(within, body) && flow::tested(program, &sources, call) == flow::Status::ZERO {
            out.push(
                Diagnostic::new(
                    &STATUS_IGNORED,
                    content.span(call.range.clone()),
                    format!("`{}` always ends with status 0", call.name()),
                )
                .label(content.span(first_line(content, branch)), "so this never runs")
                .help("end the function with `return 1` for the case that its condition is not met"),
            );
        }
    }
}

/// Whether a function contains a check, and all its loops end.
fn asks(content: &Content, body: &[Statement]) -> bool {
    let (mut asks, mut ends) = (false, true);
    let text = |s: &Statement| content.text.get(s.range.clone()).unwrap_or_default();
    let counted = |s: &Statement| {
        matches!(s.kind, Kind::Test) && ["-lt", "-le", "-gt", "-ge", "<", ">"].iter().any(|sign| text(s).contains(sign))
    };
    body.iter().for_each(|s| {
        s.walk(&mut |s| match &s.kind {
            Kind::Test | Kind::If { .. } => asks = true,
            Kind::Command(_) if CHECKS.is_match(text(s)) => asks = true,
            Kind::Loop { repeat: Repeat::While | Repeat::Until, condition, .. } => {
                ends &= condition.iter().any(counted)
            }
            _ => {}
        });
    });
    asks && ends
}

/// Whether a list ends with a failure: `exit 1`, or a function that does.
fn leaves_badly(list: &[Statement], functions: &FxHashMap<&str, (&Content, &[Statement])>) -> bool {
    let Some(last) = list.last() else { return false };
    let fails = |s: &Statement| {
        matches!(s.name(), "exit" | "return") && s.words().get(1).is_some_and(|word| word.literal && word.text != "0")
    };
    match &last.kind {
        Kind::Group(list) => leaves_badly(list, functions),
        Kind::Function { .. } => false,
        _ if fails(last) => true,
        _ => functions.get(last.name()).is_some_and(|(_, body)| match body.last() {
            Some(Statement { kind: Kind::Group(list), .. }) => {
                list.last().is_some_and(|s| fails(s) && s.name() == "exit")
            }
            Some(last) => fails(last) && last.name() == "exit",
            None => false,
        }),
    }
}

/// Commands that are only run for their status.
static CHECKS: Ascii = ascii(
    r"^(?:(?:kubectl|oc)\s(?:\S+\s+)*?(?:wait|rollout\s+status)|grep\s+-\w*q|cmp|diff|test|curl\s+(?:\S+\s+)*?(?:-\w*f|--fail))\b",
);

fn first_line(content: &Content, statement: &Statement) -> std::ops::Range<usize> {
    let text = content.text.get(statement.range.clone()).unwrap_or_default();
    statement.range.start..statement.range.start + text.find('\n').unwrap_or(text.len())
}

/// `if [ "$i" -eq 20 ]; then echo "no answer" >&2; fi` in a loop: the last iteration only reports the failure.
pub fn given_up(view: &TaskView<'_>, out: &mut Diagnostics) {
    for script in view.scripts.iter().filter(|s| s.phase == PhaseKind::Verify && s.decides_by_status()) {
        let content = &script.content;
        for whole in &content.program.body {
            let Kind::Loop { repeat: Repeat::For, body, .. } = &whole.kind else { continue };
            let after = content.text.get(whole.range.end..).unwrap_or_default();
            let text = content.text.get(whole.range.clone()).unwrap_or_default();
            let (mut sleeps, mut breaks) = (false, Vec::new());
            body.iter().for_each(|s| s.walk(&mut |s| sleeps |= s.name() == "sleep"));
            for s in body {
                if let Kind::If { branches, .. } = &s.kind {
                    let leaves = |list: &[Statement]| list.iter().any(|s| s.name() == "break");
                    breaks.extend(branches.iter().filter(|b| leaves(&b.body)).flat_map(|b| &b.condition));
                }
            }
            let head = text.trim_start_matches("for").trim_start_matches([' ', '(']);
            let name = head.split([' ', ';', '\n', '=']).next().unwrap_or_default();
            if !sleeps || breaks.is_empty() || after.trim().is_empty() || !ast::is_name(name) {
                continue;
            }
            // A later check may ask for the same, or read a variable of the loop.
            let again = breaks.iter().any(|condition| {
                let asked = content.text.get(condition.range.clone()).unwrap_or_default();
                let asked = asked.trim_start_matches("! ").split(['>', '|']).next().unwrap_or_default().trim();
                after.contains(asked)
            });
            if again || assigned(content, body).iter().any(|name| reads(after, name)) {
                continue;
            }
            for statement in body {
                let Kind::If { branches, otherwise: None } = &statement.kind else { continue };
                let [branch] = branches.as_slice() else { continue };
                let [condition] = branch.condition.as_slice() else { continue };
                let asked = content.text.get(condition.range.clone()).unwrap_or_default();
                let is_last = matches!(condition.kind, Kind::Test)
                    && (reads(asked, name) || asked.starts_with("((") && asked.contains(name))
                    && ["-eq", "-ge", "==", " = "].iter().any(|sign| asked.contains(sign));
                let on_error = |s: &Statement| {
                    let text = content.text.get(s.range.clone()).unwrap_or_default();
                    text.contains(">&2") || error_branch::says_failure(s) || error_branch::says_lack(s)
                };
                let says = branch.body.iter().all(|s| matches!(s.name(), "echo" | "printf"));
                if let Some(last) = branch.body.last().filter(|_| is_last && says && branch.body.iter().any(on_error)) {
                    out.push(
                        Diagnostic::new(
                            &ERROR_BRANCH_CONTINUES,
                            content.span(last.range.clone()),
                            "this reports that the loop gives up, but the script continues",
                        )
                        .help("add `exit 1` after it"),
                    );
                }
            }
        }
    }
}

/// The variables that a list assigns.
fn assigned<'c>(content: &'c Content, list: &[Statement]) -> Vec<&'c str> {
    let mut found = Vec::new();
    list.iter().for_each(|s| {
        s.walk(&mut |s| {
            if matches!(s.kind, Kind::Assignment | Kind::Declaration) {
                let text = content.text.get(s.range.clone()).unwrap_or_default();
                found.extend(text.split_once('=').map(|(name, _)| name.rsplit(' ').next().unwrap_or(name)));
            }
        });
    });
    found.retain(|name| ast::is_name(name));
    found
}

fn reads(text: &str, name: &str) -> bool {
    text.contains(&format!("${name}")) || text.contains(&format!("${{{name}"))
}

static PASSED: Ascii = ascii(r#"\bpassed\b\\?["']?\]?\s*(?:=>|[:=])\s*(\w+)\s*(?:[,;})"'\\\n]|$)"#);
static WORD: Ascii = ascii(r"\bpassed\b");
static FAILS: Ascii =
    ascii(r"exit\s*\(?\s*[1-9]|\braise\b|\bassert\b|\bthrow\b|set -\w*e|\|\| (?:exit|fail|die)|sys\.exit\(\w");

/// A script with `protocol: json` that reports `passed: true` on every path.
pub fn literal_verdict(view: &TaskView<'_>, out: &mut Diagnostics) {
    for script in view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify) {
        if script.step.arg("protocol").and_then(|protocol| protocol.as_literal()) != Some("json") {
            continue;
        }
        let content = &script.content;
        let verdicts: Vec<_> = PASSED.captures_iter(&content.text).collect();
        let all = WORD.find_iter(&content.text).count() == verdicts.len();
        let passes = |value: &str| value.eq_ignore_ascii_case("true");
        let Some(place) = verdicts.first().and_then(|found| found.get(0)) else { continue };
        if all && verdicts.iter().all(|found| passes(&found[1])) && !FAILS.is_match(&content.text) {
            let end = place.as_str().trim_end_matches(|c: char| !c.is_ascii_alphanumeric()).len();
            let start = place.range().start;
            out.push(
                Diagnostic::new(
                    &SCRIPT_CANNOT_FAIL,
                    content.span(start..start + end),
                    "this script always reports that the check has passed",
                )
                .strength(Strength::Warning)
                .help("report the result of the check: `\"passed\": ok`"),
            );
        }
    }
}
