//! Answers that nothing uses: lists that a script prints instead of checking, and waits after which nothing asks again.

use crate::{
    bash::{
        ast, flow,
        program::{Kind, Repeat, Statement},
        tools,
    },
    diagnostic::{Diagnostic, Diagnostics, Strength},
    effects::asked,
    hir::PhaseKind,
    lint::{
        TaskView,
        analysis::{facts, texts},
        script::{Content, ScriptView},
        shell::{
            dead_check::STATUS_IGNORED,
            exit_status::{self, POLL_ENDS_IN_SUCCESS},
        },
    },
    source::Span,
};

/// An operation that succeeds whether or not it finds something.
struct Listing {
    program: &'static str,
    /// The leading operands.
    operation: &'static [&'static str],
    /// Options that select what is listed. If there are none, an operand after the operation is required.
    selects: &'static [&'static str],
    /// With these options, the exit status is the answer, or the output is for people.
    strict: &'static [&'static str],
    help: &'static str,
}

const CHECK_OUTPUT: &str = "check its output: `| grep -q …`";

const fn listing(
    program: &'static str,
    operation: &'static [&'static str],
    selects: &'static [&'static str],
    strict: &'static [&'static str],
) -> Listing {
    Listing { program, operation, selects, strict, help: CHECK_OUTPUT }
}

const FILTER: &[&str] = &["--filter", "-f"];
const SEARCH: &[&str] = &["--search", "-S", "--label", "-l", "--head", "--assignee", "--author", "--milestone"];

const LISTINGS: [Listing; 24] = [
    Listing {
        help: "add `--exit-code` or `--quiet`: the status is then 1 if there are differences",
        ..listing("git", &["diff"], &[], &["--exit-code", "--quiet", "--check", "--no-index"])
    },
    listing("git", &["status"], &["--porcelain", "--short", "-s"], &[]),
    listing("git", &["log"], &["--grep", "-S", "-G", "--author"], &[]),
    Listing {
        help: "add `--error-unmatch`, which fails if a file is not in the index",
        ..listing("git", &["ls-files"], &[], &["--error-unmatch"])
    },
    listing("git", &["branch"], &["--contains", "--merged", "--no-merged"], &[]),
    listing("git", &["tag"], &["--contains", "--merged", "--points-at"], &[]),
    listing("docker", &["ps"], FILTER, &[]),
    listing("docker", &["container", "ls"], FILTER, &[]),
    listing("docker", &["volume", "ls"], FILTER, &[]),
    listing("docker", &["network", "ls"], FILTER, &[]),
    listing("docker", &["image", "ls"], &[], &[]),
    listing("docker", &["images"], &[], &[]),
    listing("helm", &["list"], &["--filter", "-f", "--selector", "-l"], &[]),
    listing("helm", &["ls"], &["--filter", "-f", "--selector", "-l"], &[]),
    listing("gh", &["pr", "list"], SEARCH, &[]),
    listing("gh", &["issue", "list"], SEARCH, &[]),
    listing("gh", &["run", "list"], &["--branch", "-b", "--workflow", "-w", "--status", "-s", "--commit", "-c"], &[]),
    listing(
        "kubectl",
        &["get"],
        &["--selector", "-l", "--field-selector", "--ignore-not-found"],
        &["--output", "-o", "--raw", "--watch", "-w"],
    ),
    listing("find", &[], &["-name", "-iname", "-path", "-regex"], &["-exec", "-execdir", "-delete", "-ok", "-quit"]),
    Listing {
        help: "check that it prints nothing: `test -z \"$(gofmt -l .)\"`",
        ..listing("gofmt", &[], &["-l", "-d"], &["-w"])
    },
    Listing {
        help: "check that it prints nothing: `test -z \"$(goimports -l .)\"`",
        ..listing("goimports", &[], &["-l", "-d"], &["-w"])
    },
    listing("aws", &["ec2"], &["--filters"], &[]),
    listing("aws", &["logs", "filter-log-events"], &["--filter-pattern"], &[]),
    listing("gcloud", &[], &["--filter"], &["--quiet", "-q"]),
];

/// Returns the listing that a command is.
fn listed(statement: &Statement) -> Option<&'static Listing> {
    let (first, words) = statement.words().split_first()?;
    let name = tools::canonical(first.text.rsplit('/').next().unwrap_or_default());
    let words: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    let has = |option: &&str| {
        words
            .iter()
            .take_while(|word| **word != "--")
            .any(|word| word.strip_prefix(option).is_some_and(|rest| rest.is_empty() || rest.starts_with('=')))
    };
    LISTINGS.iter().filter(|listing| listing.program == name).find(|listing| {
        let mut operands = tools::operands(name, &words);
        let operation = listing.operation.iter().all(|word| operands.next() == Some(word));
        let selects = match listing.selects {
            [] => operands.next().is_some(),
            options => options.iter().any(has),
        };
        // A kind that is not in the table may not exist.
        let known = name != "kubectl" || flow::succeeds(name, statement);
        operation && selects && known && !listing.strict.iter().any(has)
    })
}

/// A step that only lists something, `git diff main dev -- file`, and differences that a script only prints.
pub fn lists(view: &TaskView<'_>, out: &mut Diagnostics) {
    for script in view.scripts.iter().filter(|s| s.phase == PhaseKind::Verify && s.decides_by_status()) {
        let content = &script.content;
        let program = &content.program;
        if !program.sound
            || LISTINGS.iter().all(|listing| !content.text.contains(listing.program))
                && !content.text.contains(" logs ")
        {
            continue;
        }
        let Some((last, before)) = program.body.split_last() else { continue };
        let mut found: Vec<(&Statement, &Listing)> = Vec::new();
        // A step that prints a log succeeds whatever is in it.
        if let ([only], false) = (program.body.as_slice(), exit_status::is_used(view.task, script))
            && script.step.expect.is_none()
            && only.tool() == "kubectl"
            && tools::operands("kubectl", &only.words()[1..]).next().is_some_and(|verb| verb.text == "logs")
            && is_shown(content, only)
        {
            let span = content.span(only.range.clone());
            let message = "this prints a log and checks nothing in it";
            out.push(Diagnostic::new(&STATUS_IGNORED, span, message).help("add `expect: {stdout: {contains: …}}`"));
            continue;
        }
        if before.iter().all(prepares)
            && let Some(listing) = listed(last).filter(|_| is_shown(content, last))
        {
            found.push((last, listing));
        } else if program.stops_at_errors() {
            let loops = program.body.iter().filter_map(|s| match &s.kind {
                Kind::Loop { repeat: Repeat::For, body, .. } => Some(body.as_slice()),
                _ => None,
            });
            for statement in std::iter::once(program.body.as_slice()).chain(loops).flatten() {
                let compares = |listing: &&Listing| listing.operation == ["diff"] && compares_two(statement);
                let listing = Some(statement).filter(|s| s.name() == "git").and_then(listed).filter(compares);
                found.extend(listing.filter(|_| is_shown(content, statement)).map(|listing| (statement, listing)));
            }
        }
        // If nothing else is checked, `verify-only-lists` reports it.
        let mut alone = Diagnostics::default();
        if !found.is_empty() {
            crate::lint::shell::listing::check(view, &mut alone);
        }
        found.retain(|(s, _)| !alone.iter().any(|known| known.span == content.span(s.range.clone())));
        for (statement, listing) in found {
            let span = content.span(statement.range.clone());
            if !exit_status::is_used(view.task, script) && !out.iter().any(|known| known.span.start == span.start) {
                let message = "this command succeeds regardless of what it finds";
                out.push(Diagnostic::new(&STATUS_IGNORED, span, message).help(listing.help));
            }
        }
    }
}

/// Whether `git diff` compares two revisions, or a revision with given files, and its output is not meant for people.
fn compares_two(statement: &Statement) -> bool {
    let words: Vec<&str> = statement.words().iter().skip(1).map(|word| word.text.as_str()).collect();
    tools::operands("git", &words).count() > 2
        && !words.iter().any(|word| matches!(*word, "--no-pager" | "-P") || word.starts_with("--stat"))
}

/// Whether a statement only prepares for others.
fn prepares(statement: &Statement) -> bool {
    match statement.kind {
        Kind::Assignment | Kind::Declaration => statement.nested.is_empty(),
        _ => matches!(statement.name(), "set" | "cd" | "export" | "shopt" | "echo" | ":" | "sleep"),
    }
}

/// Whether nothing reads the output of a command.
fn is_shown(content: &Content, statement: &Statement) -> bool {
    !statement.background && (!statement.written || asked::is_discarded(content, statement))
}

/// `cmd | grep -q X && break` in a loop that gives up, if nothing after it asks for `X`, which the prompt names.
pub fn forgotten(view: &TaskView<'_>, out: &mut Diagnostics) {
    let scripts = view.scripts.iter().filter(|s| s.phase == PhaseKind::Verify && s.decides_by_status());
    for script in scripts.filter(|script| script.content.text.contains("sleep") && script.content.program.sound) {
        let body = &script.content.program.body;
        for (nth, whole) in body.iter().enumerate() {
            let Kind::Loop { repeat: Repeat::For, body: round, .. } = &whole.kind else { continue };
            let only = round.len() < 5 && nth + 1 < body.len();
            let Some(condition) = Some(round).filter(|_| only).and_then(|round| gives_up(round)) else { continue };
            let Some(word) = lost(view, script, whole, condition) else { continue };
            let span = script.content.span(condition.range.clone());
            if out.iter().any(|known| known.span.file == span.file && known.span.start < span.end) {
                continue;
            }
            out.push(
                Diagnostic::new(
                    &POLL_ENDS_IN_SUCCESS,
                    span,
                    "after the timeout, the script continues as if the wait had succeeded",
                )
                .here(format!("`{word}` is not checked again after the loop"))
                .help("repeat the condition after the loop: without `break`, its failure then fails the script")
                .strength(Strength::Warning),
            );
        }
    }
}

/// Returns the condition of the only `break` in a loop that sleeps and cannot fail.
fn gives_up(round: &[Statement]) -> Option<&Statement> {
    let (mut sleeps, mut breaks, mut other) = (false, 0, false);
    for statement in round {
        statement.walk(&mut |s| {
            sleeps |= s.name() == "sleep";
            breaks += usize::from(s.name() == "break");
            other |= matches!(s.name(), "exit" | "return" | "continue")
                || matches!(s.kind, Kind::Assignment | Kind::Declaration | Kind::Loop { .. });
        });
    }
    let ends = |list: &[Statement]| list.iter().any(|s| s.name() == "break");
    let mut conditions = round.iter().filter_map(|statement| match &statement.kind {
        Kind::And(pair) if pair[1].name() == "break" => Some(&pair[0]),
        Kind::And(pair) if matches!(&pair[1].kind, Kind::Group(list) if ends(list)) => Some(&pair[0]),
        Kind::If { branches, .. } => match branches.as_slice() {
            [branch] if ends(&branch.body) => branch.condition.last().filter(|_| branch.condition.len() == 1),
            _ => None,
        },
        _ => None,
    });
    conditions.next().filter(|condition| {
        sleeps && breaks == 1 && !other && matches!(condition.kind, Kind::Pipeline(_) | Kind::Test | Kind::Command(_))
    })
}

/// Returns a value that a condition of a loop searches for and the prompt names, if nothing else in verify contains it.
fn lost<'c>(
    view: &TaskView<'_>,
    script: &'c ScriptView<'_>,
    whole: &Statement,
    condition: &'c Statement,
) -> Option<&'c str> {
    let content = &script.content;
    let last = match &condition.kind {
        Kind::Pipeline(parts) => parts.last().filter(|last| matches!(last.name(), "grep" | "egrep" | "fgrep"))?,
        Kind::Command(_) if matches!(condition.name(), "grep" | "egrep" | "fgrep" | "test" | "[") => condition,
        Kind::Test => condition,
        _ => return None,
    };
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | ':');
    let text = content.text.get(last.range.clone())?;
    // In a test, the wanted value is its last word.
    let sought = match last.name() {
        "grep" | "egrep" | "fgrep" => text.split_once(' ')?.1,
        _ => text.rsplit_once("= ").or_else(|| text.rsplit_once("== "))?.1,
    };
    let said = view.effects.prompt.shown();
    let behind = content.text.get(whole.range.end..)?;
    let others = &facts::elsewhere(view).verify;
    let is_value = |word: &&str| {
        let named = word.bytes().any(|b| b.is_ascii_digit()) || word.contains(['-', '_', '/', ':']);
        word.len() > 3 && named && !word.starts_with('-') && texts::has_word(&said, word)
    };
    let words = sought.split(|c| !is_part(c)).map(|word| word.trim_matches(['.', ':', '/', '-'])).filter(is_value);
    let mut lost =
        words.filter(|word| !behind.contains(word) && others.matches(word).count() <= copies(view, content, word));
    let mut names = Vec::new();
    ast::split(text, 0).iter().for_each(|word| word.variables(&mut names));
    lost.next().filter(|_| names.is_empty())
}

/// How often a word occurs in the copies of a script in [`facts::elsewhere`]: two, if it is written in the task.
fn copies(view: &TaskView<'_>, content: &Content, word: &str) -> usize {
    let here: Span = content.span(0..content.text.len());
    let twice = if here.file == view.unit.file { 2 } else { 1 };
    content.text.matches(word).count() * twice
}
