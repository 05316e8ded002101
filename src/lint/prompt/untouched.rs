//! Verify requires a change of what the prompt says must not be changed.

use crate::{
    ascii::{Ascii, ascii},
    bash::tools,
    diagnostic::{Diagnostic, Diagnostics},
    effects::{
        asked::{Demand, Form},
        value::Value,
    },
    hir::PhaseKind,
    lint::{
        TaskView,
        analysis::{
            checked_resource::{EXCEPT, has_name, is_forbidden, place, read_at, read_by, runs, words},
            facts, orders, texts,
        },
        prompt::wrong_state::WRONG_STATE,
    },
    source::Span,
};

/// Requires that the prompt forbids changes of a resource, a branch or a file, and that verify requires another value
/// than the one that setup gives it.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    let said = view.effects.prompt.shown();
    clean(view, &said, out);
    rows(view, &said, out);
    if !FORBIDS.is_match(&said) {
        return;
    }
    values(view, &said, out);
    others(view, &said, out);
}

/// `kubectl get deployment cart … = 5`, where the prompt says `Do not touch cart`, and setup creates it with another
/// value.
fn values(view: &TaskView<'_>, said: &str, out: &mut Diagnostics) {
    for fact in facts::asked(view).iter().filter(|fact| fact.exact) {
        let value = fact.text();
        if value.is_empty()
            || !texts::has_word(said, &value)
            || crate::lint::resources::elsewhere::out_has(out, fact.span)
        {
            continue;
        }
        let runs_at = read_at(view, fact.span);
        let Some(run) = runs_at.first() else { continue };
        let is_git = run.statement.tool() == "git";
        let words = run.words.iter().skip(1).filter_map(Value::literal);
        let parts = words.flat_map(|word| word.split([':', '/'])).filter(|word| word.len() > 2);
        let Some(name) = parts.into_iter().find(|name| is_forbidden(said, name)) else { continue };
        let given = if is_git {
            facts::given(view)
                .iter()
                .filter(|given| given.key == fact.key)
                .map(|given| (given.span, given.text()))
                .collect()
        } else {
            given_to(view, name, &fact.key)
        };
        let Some((made, old)) = given.first().filter(|_| given.iter().all(|(_, known)| *known != value)) else {
            continue;
        };
        out.push(
            Diagnostic::new(
                &WRONG_STATE,
                fact.span,
                format!(
                    "verify requires `{}: {value}` of `{name}`, which the prompt says must not be changed",
                    fact.key
                ),
            )
            .label(*made, format!("setup sets `{old}`"))
            .help("read the value of what the agent is asked to change"),
        );
    }
}

/// The values that setup gives to a field in commands that name a resource.
fn given_to(view: &TaskView<'_>, name: &str, key: &str) -> Vec<(Span, String)> {
    let mut found = Vec::new();
    for run in runs(view, PhaseKind::Setup).filter(|run| has_name(run, name)) {
        let mut facts = Vec::new();
        facts::in_run(run, place(run), &mut facts);
        found.extend(facts.iter().filter(|fact| fact.key == key).map(|fact| (fact.span, fact.text())));
    }
    found
}

/// `[ -n "$(kubectl get pod batch -o jsonpath='{.metadata.labels.reviewed}')" ]`, where setup creates the pod without
/// the label, and the prompt asks for the label on another pod and says not to change the others.
fn others(view: &TaskView<'_>, said: &str, out: &mut Diagnostics) {
    if !OTHERS.is_match(said) {
        return;
    }
    for question in view.asked() {
        let Form::Field(path) = &question.form else { continue };
        let wants = match &question.demand {
            Demand::There => question.is_wanted() == Some(true),
            Demand::Compared { operator, with } => {
                let equal = matches!(operator.as_str(), "=" | "==" | "-eq");
                !with.is_empty()
                    && question.is_wanted() == Some(equal)
                    && (equal || matches!(operator.as_str(), "!=" | "-ne"))
            }
            Demand::Matches { .. } => false,
        };
        let is_map = ["labels.", "annotations.", "data."].iter().any(|map| path.contains(map));
        let Some(key) = path.rsplit('.').next().filter(|key| wants && is_map && key.len() > 2) else { continue };
        let Some((_, name)) = question.runs.first().and_then(|run| read_by(view, run)) else { continue };
        let is_set = facts::given(view).iter().any(|fact| fact.key == key) || facts::elsewhere(view).rest.contains(key);
        if !texts::has_word(said, key) || texts::has_word(said, name) || is_set {
            continue;
        }
        if let Some(made) = runs(view, PhaseKind::Setup).find(|run| has_name(run, name) && !tools::looks(&words(run))) {
            out.push(
                Diagnostic::new(
                    &WRONG_STATE,
                    question.span,
                    format!("verify requires `{key}` of `{name}`, but the prompt says not to change the others"),
                )
                .label(place(made), "setup creates it without this field")
                .help("require that it is empty, or read the resource that the prompt names"),
            );
        }
    }
}

/// `[ -n "$(git status --porcelain)" ]`, where the prompt asks for a clean working tree.
fn clean(view: &TaskView<'_>, said: &str, out: &mut Diagnostics) {
    // Text is searched faster than by a regular expression.
    if !["lean", "LEAN", "ncommitted"].iter().any(|word| said.contains(word)) || !CLEAN.is_match(said) {
        return;
    }
    for question in view.asked().iter().filter(|question| question.demand == Demand::There) {
        let [run] = question.runs.as_slice() else { continue };
        if tools::lists_changes(&words(run))
            && question.is_wanted() == Some(true)
            && !crate::lint::resources::elsewhere::out_has(out, question.span)
        {
            out.push(
                Diagnostic::new(
                    &WRONG_STATE,
                    question.span,
                    "this requires uncommitted changes, but the prompt asks for a clean working tree",
                )
                .help("require that the output is empty: `[ -z … ]`"),
            );
        }
    }
}

/// `SELECT count(*) … WHERE customer = 'acme' AND status = 'pending'` must be 2, where the prompt asks to set the status of
/// acme's orders from `pending` to `shipped`.
fn rows(view: &TaskView<'_>, said: &str, out: &mut Diagnostics) {
    let verified = &facts::elsewhere(view).verify;
    if !["elect", "ELECT"].iter().any(|word| verified.contains(word)) {
        return;
    }
    let mut counts: Vec<(Span, String, String)> = Vec::new();
    for question in view.asked() {
        let Demand::Compared { operator, with } = &question.demand else { continue };
        let equal = matches!(operator.as_str(), "=" | "==" | "-eq");
        if question.is_wanted() == Some(equal) && (equal || matches!(operator.as_str(), "!=" | "-ne")) {
            counts.extend(question.runs.first().map(|run| (question.span, words(run), with.clone())));
        }
    }
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            let stdout = step.expect.as_ref().and_then(|(_, expect)| expect.get("stdout"));
            let stdout = stdout.map(|out| out.get("equals").unwrap_or(out));
            if let Some((value, text)) = stdout.and_then(|out| Some((out.span, out.as_literal()?))) {
                let run = step.arg("run").and_then(texts::script_text).unwrap_or_default();
                counts.push((value, run, text.to_owned()));
            }
        });
    });
    for (span, command, expected) in counts {
        let Some(found) = COUNT.captures(&command).filter(|_| expected.trim().parse::<u64>().is_ok_and(|n| n > 0))
        else {
            continue;
        };
        let condition = found.get(1).map_or("", |condition| condition.as_str());
        let is_plain = ![" or ", " not ", "!=", "<>"].iter().any(|word| condition.to_lowercase().contains(word));
        let literals: Vec<&str> =
            EQUALS.captures_iter(condition).filter_map(|one| Some(one.get(1)?.as_str())).collect();
        if !is_plain || literals.len() < 2 {
            continue;
        }
        for turned in TURNED.captures_iter(said) {
            let (Some(old), Some(new)) = (turned.get(1), turned.get(2)) else { continue };
            let sentence = &said[orders::sentence(said, old.start())];
            let has = |word: &&str| texts::has_word(sentence, word);
            if literals.contains(&old.as_str())
                && !EXCEPT.is_match(sentence)
                && literals.iter().all(has)
                && orders::is_asked(said, new.as_str())
                && !crate::lint::resources::elsewhere::out_has(out, span)
            {
                let (old, new) = (old.as_str(), new.as_str());
                out.push(
                    Diagnostic::new(
                        &WRONG_STATE,
                        span,
                        format!("this counts rows with `{old}`, which the prompt asks to change to `{new}`"),
                    )
                    .help("count the rows with the new value, or require 0"),
                );
            }
        }
    }
}

static COUNT: Ascii = ascii(r"(?i)\bselect\s+count\(\*\)\s+from\s+[\w.]+\s+where\s+([^\x22;]+)");
static EQUALS: Ascii = ascii(r"=\s*'([^']+)'");
static TURNED: Ascii = ascii(r"[`\x22']([\w-]+)[`\x22']\s+(?:in)?to\s+[`\x22']([\w-]+)[`\x22']");
static FORBIDS: Ascii = ascii(r"(?i)\b(?:do not|don't|must not|never|without|leave|stays?|remains?)\b");
static OTHERS: Ascii = ascii(
    r"(?i)\b(?:do not|don't|must not|never)\s+(?:[a-z]+\s+){1,4}(?:the\s+)?(?:other|others|rest)\b|\bleave\s+(?:all\s+)?(?:the\s+)?(?:other|others|rest)\b",
);
static CLEAN: Ascii = ascii(
    r"(?i)\bclean\s+(?:git\s+)?(?:working|work|status|worktree|tree|checkout)|\b(?:working tree|worktree|checkout)\s+(?:must|should|has to|is to)\s+(?:be|stay)\s+clean|\bno uncommitted\b",
);
