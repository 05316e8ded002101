//! Branches that report a failure and continue.

use std::ops::Range;

use crate::{
    bash::{
        flow,
        program::{Kind, Statement},
        tools,
    },
    diagnostic::{Diagnostic, Diagnostics},
    effects::value::Value,
    hir::PhaseKind,
    lint::{
        TaskView,
        script::{Content, ScriptView},
    },
    rule,
};

rule! {
    pub static ERROR_BRANCH_CONTINUES = "error-branch-continues", Warning;
}

/// In verify, `if …; then echo "FAIL: …"; fi` (author mistake 8).
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    let verify: Vec<&Content> =
        view.scripts.iter().filter(|s| s.phase == PhaseKind::Verify).map(|script| &*script.content).collect();
    for content in helpers(view) {
        told_in_function(content, out);
        succeeds_after(content, &verify, out);
    }
    for content in &verify {
        succeeds_after(content, &[content], out);
    }
    for script in view.scripts.iter().filter(|s| s.phase == PhaseKind::Verify) {
        let program = &script.content.program;
        let mut loops: Vec<Range<usize>> = Vec::new();
        program.walk(&mut |statement| {
            if matches!(statement.kind, Kind::Loop { .. }) {
                loops.push(statement.range.clone());
            }
            let in_loop = loops.iter().any(|l| l.contains(&statement.range.start));
            if let Kind::Case(arms) = &statement.kind
                && !in_loop
            {
                out.extend(only_told(&script.content, arms));
            }
            let Kind::If { branches, otherwise } = &statement.kind else { return };
            // In a loop, a later iteration may succeed. At the end, the branch determines the exit status.
            let is_last = program.body.last().is_some_and(|l| l.range == statement.range);
            let goes_on = !is_last && !in_loop;
            let denied = |body: &[Statement]| {
                let asked = branches.iter().find(|b| std::ptr::eq(b.body.as_slice(), body)).map(|b| &b.condition);
                goes_on && asked.is_some_and(|c| c.iter().all(|c| denies(&script.content.text, c)))
            };
            for body in branches.iter().map(|b| b.body.as_slice()).chain(otherwise.as_deref()) {
                if let Some(last) = body.last()
                    && body.iter().all(says)
                    && (body.iter().any(says_failure) || denied(body) && body.iter().all(says_lack))
                {
                    out.push(
                        Diagnostic::new(
                            &ERROR_BRANCH_CONTINUES,
                            script.content.span(last.range.clone()),
                            "this reports an error, but the script continues",
                        )
                        .help("add `exit 1` after it"),
                    );
                }
            }
        });
        if script.decides_by_status() {
            forgiven(&script.content, out);
        }
        out.extend(script.decides_by_status().then(|| ends_well_anyway(&script.content)).flatten());
        out.extend(script.decides_by_status().then(|| passes_without(view, script)).flatten());
        program.walk(&mut |statement| {
            let text = &script.content.text;
            let (asked, fails, body) = match &statement.kind {
                Kind::Or(pair) => (&pair[0], true, &pair[1..]),
                Kind::If { branches, .. } => match branches[0].condition.last() {
                    Some(asked) if denies(text, asked) => (asked, false, branches[0].body.as_slice()),
                    _ => return,
                },
                _ => return,
            };
            let body = unbraced(body);
            let [said @ .., last] = body else { return };
            let tells = |s: &Statement| {
                says(s) && text[s.range.clone()].contains(">&2") && !text[s.range.clone()].contains("skip")
            };
            let ends = last.name() == "exit" && last.words().get(1).is_some_and(|word| word.text == "0");
            if !ends || said.is_empty() || !said.iter().all(tells) {
                return;
            }
            // If no other path succeeds, success is intended here.
            let (succeeded, failed) = flow::outcomes(program, &asked.range);
            let well = if fails { succeeded.zero } else { failed.zero };
            if well {
                out.push(
                    Diagnostic::new(
                        &ERROR_BRANCH_CONTINUES,
                        script.content.span(last.range.clone()),
                        "this reports an error, but the script exits with status 0",
                    )
                    .help("write `exit 1`"),
                );
            }
        });
    }
}

/// `terraform plan -detailed-exitcode || echo "the plan is not empty"`.
fn forgiven(content: &Content, out: &mut Diagnostics) {
    // Commands that only show something.
    const SHOWS: [&str; 8] = ["describe", "logs", "events", "top", "cat", "ls", "tail", "history"];
    // A script that consists of this cannot fail: `status-ignored` reports it.
    if content.program.body.len() < 2 {
        return;
    }
    for statement in &content.program.body {
        let Kind::Or(pair) = &statement.kind else { continue };
        let [asked, said] = pair.as_slice() else { continue };
        let text = content.text.get(asked.range.clone()).unwrap_or_default();
        let shows = text.split_whitespace().any(|word| SHOWS.contains(&word));
        // `status-ignored` knows what these check.
        let is_known = tools::tool(asked.name()).is_some()
            || !matches!(asked.kind, Kind::Command(_))
            || matches!(asked.name(), "grep" | "test" | "[" | "diff" | "cmp" | "jq" | "curl");
        if says(said) && (says_failure(said) || says_lack(said)) && !shows && !says(asked) && !is_known {
            out.push(
                Diagnostic::new(
                    &ERROR_BRANCH_CONTINUES,
                    content.span(said.range.clone()),
                    "this reports an error, but the script continues",
                )
                .help("write `|| { echo …; exit 1; }`"),
            );
        }
    }
}

/// `if [ ! -s /tmp/report.csv ]; then echo "no report"; exit 0; fi`, where the prompt asks for this file.
fn passes_without(view: &TaskView<'_>, script: &ScriptView<'_>) -> Option<Diagnostic> {
    let prompt = view.task.prompt.as_ref()?;
    let content = &script.content;
    content.text.contains("exit 0").then_some(())?;
    let said = view.effects.prompt.shown();
    let tests = &view.followed(script)?.trace.tests;
    let mut found = None;
    content.program.walk(&mut |s| {
        let Kind::If { branches, .. } = &s.kind else { return };
        for branch in branches {
            let ([asked], [told @ .., last]) = (branch.condition.as_slice(), branch.body.as_slice()) else { continue };
            let ends = last.name() == "exit" && last.words().get(1).is_some_and(|word| word.text == "0");
            let skips = |s: &Statement| content.text[s.range.clone()].to_lowercase().contains("skip");
            let test = tests.iter().find(|test| std::ptr::eq(test.statement, asked));
            let words: Vec<&str> = test.iter().flat_map(|test| &test.words).filter_map(Value::literal).collect();
            let file = match words.as_slice() {
                ["!", "-s" | "-f" | "-e", file] => *file,
                _ => continue,
            };
            // The prompt may ask to delete it.
            let asks = said
                .match_indices(file)
                .map(|(at, _)| &said[crate::lint::analysis::texts::sentence(&said, at)])
                .any(|sentence| !crate::lint::analysis::orders::DELETES.is_match(sentence));
            if ends && !told.is_empty() && told.iter().all(|s| says(s) && !skips(s)) && asks {
                found.get_or_insert_with(|| {
                    Diagnostic::new(
                        &ERROR_BRANCH_CONTINUES,
                        content.span(last.range.clone()),
                        format!("verify passes if `{file}` does not exist"),
                    )
                    .label(prompt.text.span, "the prompt asks for it here")
                    .help("write `exit 1`")
                });
            }
        }
    });
    found
}

/// A list without the braces around it.
fn unbraced(list: &[Statement]) -> &[Statement] {
    match list {
        [Statement { kind: Kind::Group(list), .. }] => list,
        list => list,
    }
}

/// The scripts that those of verify source.
fn helpers<'v>(view: &TaskView<'v>) -> Vec<&'v Content> {
    let mut found: Vec<&Content> = Vec::new();
    let verify = view.effects.scripts.iter().filter(|script| script.view.phase == PhaseKind::Verify);
    for source in verify.flat_map(|script| &script.trace.sources) {
        if !found.iter().any(|known| std::ptr::eq(*known, &**source)) {
            found.push(source);
        }
    }
    found
}

/// `expect() { if [[ $3 != $2 ]]; then echo "want $2, have $3"; fi; }`, where the message is the only effect of the function.
fn told_in_function(content: &Content, out: &mut Diagnostics) {
    content.program.walk(&mut |s| {
        let Kind::Function { body, .. } = &s.kind else { return };
        let body = unbraced(body);
        let [before @ .., last] = body else { return };
        let Kind::If { branches, otherwise: None } = &last.kind else { return };
        let [branch] = branches.as_slice() else { return };
        let sets_up = |s: &Statement| matches!(s.kind, Kind::Assignment | Kind::Declaration);
        let lacks = |s: &Statement| says_failure(s) || says_lack(s) || compares(s);
        let told = branch.body.last().filter(|_| {
            branch.body.iter().all(says)
                && branch.body.iter().any(lacks)
                && branch.condition.iter().all(|condition| denies(&content.text, condition))
        });
        if let Some(told) = told.filter(|_| before.iter().all(sets_up)) {
            out.push(
                Diagnostic::new(
                    &ERROR_BRANCH_CONTINUES,
                    content.span(told.range.clone()),
                    "this reports an error, but the function succeeds",
                )
                .help("add `exit 1` after it, or `return 1` if the callers check the status"),
            );
        }
    });
}

/// `fail() { echo "FAIL: $*"; return; }`, if verify relies on it: `[ … ] || fail "…"`.
fn succeeds_after(content: &Content, callers: &[&Content], out: &mut Diagnostics) {
    content.program.walk(&mut |s| {
        let Kind::Function { name, body } = &s.kind else { return };
        let body = unbraced(body);
        let ends = |s: &Statement| s.name() == "return" && s.words().get(1).is_none_or(|word| word.text == "0");
        // `if [[ $1 != $2 ]]; then echo "FAIL: …"; return; fi`
        for s in body {
            let Kind::If { branches, .. } = &s.kind else { continue };
            for branch in branches.iter().filter(|b| b.condition.iter().all(|c| denies(&content.text, c))) {
                let [told @ .., last] = branch.body.as_slice() else { continue };
                let lacks = told.iter().all(says) && told.iter().any(|s| says_failure(s) || compares(s));
                if ends(last) && lacks {
                    out.push(
                        Diagnostic::new(
                            &ERROR_BRANCH_CONTINUES,
                            content.span(last.range.clone()),
                            format!("`{name}` reports an error and succeeds, so the script continues"),
                        )
                        .help("write `exit 1`"),
                    );
                }
            }
        }
        let [told @ .., last] = body else { return };
        if told.is_empty() || !ends(last) || !told.iter().all(says) || !told.iter().any(says_failure) {
            return;
        }
        let mut called = false;
        for caller in callers {
            caller.program.walk(&mut |s| {
                called |= matches!(&s.kind, Kind::Or(pair) if pair[1].name() == name.as_str());
            });
        }
        if called {
            out.push(
                Diagnostic::new(
                    &ERROR_BRANCH_CONTINUES,
                    content.span(last.range.clone()),
                    format!("`{name}` reports an error and succeeds, so the script continues"),
                )
                .help("write `exit 1`"),
            );
        }
    });
}

/// `want 3, have 2`: a message about a difference.
fn compares(statement: &Statement) -> bool {
    let text: Vec<String> = statement.words().iter().skip(1).map(|w| w.text.to_lowercase()).collect();
    let text = text.join(" ");
    let has = |words: &[&str]| words.iter().any(|word| crate::lint::analysis::texts::has_word(&text, word));
    has(&["want", "wanted", "expected", "expect"]) && has(&["have", "got", "actual", "found", "was", "is", "but"])
}

/// `if …; then …; exit 0; fi; echo "web is not ready"`, at the end of a script: it succeeds with and without `exit 0`.
fn ends_well_anyway(content: &Content) -> Option<Diagnostic> {
    let body = &content.program.body;
    let told = body.iter().rev().take_while(|s| says(s)).count();
    let (rest, told) = body.split_at(body.len() - told);
    let Kind::If { branches, otherwise: None } = &rest.last()?.kind else { return None };
    let ends_well = |s: &Statement| s.name() == "exit" && s.words().get(1).is_some_and(|word| word.text == "0");
    let mut well = None;
    let find = |s: &Statement| s.walk(&mut |s| well = well.take().or(ends_well(s).then(|| s.range.clone())));
    branches.iter().flat_map(|branch| &branch.body).for_each(find);
    let well = well?;
    let last = told.last()?;
    let finding = Diagnostic::new(
        &ERROR_BRANCH_CONTINUES,
        content.span(last.range.clone()),
        "the script also succeeds if it gets here",
    );
    Some(
        finding
            .label(content.span(well), "this ends it with success")
            .help("add `exit 1` after it, or remove `exit 0`"),
    )
}

/// `case $x in 2) ;; *) echo "x is $x" >&2 ;; esac`: a message is the only effect.
fn only_told(content: &Content, arms: &[Vec<Statement>]) -> Option<Diagnostic> {
    let told = arms.iter().find(|arm| !arm.is_empty())?;
    let text = |s: &Statement| content.text[s.range.clone()].to_lowercase();
    let on_error = |s: &Statement| says_failure(s) || text(s).contains(">&2") && !text(s).contains("warn");
    let others = arms.iter().filter(|arm| arm.is_empty()).count();
    let last = told.last().filter(|_| others > 0 && others + 1 == arms.len() && told.iter().all(says))?;
    told.iter().any(on_error).then(|| {
        Diagnostic::new(
            &ERROR_BRANCH_CONTINUES,
            content.span(last.range.clone()),
            "this reports an error, but the script continues",
        )
        .help("add `exit 1` after it")
    })
}

/// `[ "$x" != y ]`, `! grep …`.
fn denies(text: &str, condition: &Statement) -> bool {
    let text = &text[condition.range.clone()];
    match condition.kind {
        Kind::Not(_) => true,
        Kind::Test => ["!=", " -ne ", "[ ! ", "[ -z ", "[[ ! "].iter().any(|o| text.contains(o)),
        _ => false,
    }
}

/// Whether a statement reports that something is wrong.
pub fn says_lack(statement: &Statement) -> bool {
    let text: Vec<String> = statement.words().iter().skip(1).map(|w| w.text.to_lowercase()).collect();
    let text = format!(" {} ", text.join(" "));
    [" not ", "n't ", " missing ", " wrong ", " incorrect ", " mismatch "].iter().any(|w| text.contains(w))
        && !["yet", "using", "skip", "wait", "retry", "as expected", "ok", "good", "(", ","]
            .iter()
            .any(|w| text.contains(w))
}

fn says(statement: &Statement) -> bool {
    matches!(statement.name(), "echo" | "printf")
}

pub fn says_failure(statement: &Statement) -> bool {
    let text: Vec<String> = statement.words().iter().skip(1).map(|w| w.text.to_lowercase()).collect();
    let text = text.join(" ");
    let demands = [" must not ", " should not ", " must be ", " should be "].iter().any(|w| text.contains(w))
        && !["warn", "wait", "skip", "note", "yet", "retry", "again", "soon"].iter().any(|w| text.contains(w));
    (demands || ["fail", "error:", "❌", "✗"].iter().any(|w| text.contains(w)))
        && !text.contains("no error")
        && !text.contains("0 fail")
        && !text.contains("expected fail")
}
