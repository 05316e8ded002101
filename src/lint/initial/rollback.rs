//! Tasks that break something in setup, for the agent to restore: the image or version that setup writes last.

use crate::{
    ascii::{Ascii, ascii},
    diagnostic::{Diagnostic, Diagnostics},
    effects::value::Value,
    hir::{OperationKind, PhaseKind},
    lint::{
        TaskView,
        analysis::{
            checked_resource::{place, runs},
            facts,
        },
        initial::already_true::ALREADY_TRUE,
    },
    source::Span,
};

/// Requires that the prompt speaks of something that is broken or to be undone, and that setup sets one image, or the tag of one,
/// exactly twice. Reported: both are the same, or verify requires the second.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    let Some(prompt) = &view.task.prompt else { return };
    let said = view.effects.prompt.shown();
    if !BROKEN.is_match(&said) || !view.effects.sees(PhaseKind::Setup) {
        return;
    }
    let writes = writes(view);
    no_second(view, &said, &writes, out);
    let [(first, good), (second, bad)] = writes.as_slice() else { return };
    // The order of writes in different files is not known, and two resources may have the same image from the start.
    let changes = first.file == second.file && changes(view, *second);
    if first == second || !changes || repository(good) != repository(bad) {
        return;
    }
    let help = "the state from which the agent starts must be a different one than the state that verify requires";
    if good == bad {
        let message = format!("setup sets `{bad}` twice, so nothing is broken before the agent runs");
        let finding = Diagnostic::new(&ALREADY_TRUE, *second, message).label(*first, "also set here");
        out.push(finding.label(prompt.text.span, "the prompt speaks of a fault").help(help));
        return;
    }
    let asked = facts::asked(view);
    let requires = |text: &str| asked.iter().find(|fact| fact.exact && is_key(&fact.key) && fact.text() == text);
    if let Some(fact) = requires(bad).filter(|_| requires(good).is_none() && !said.contains(bad.as_str())) {
        let message = format!("verify requires `{bad}`, which is what setup sets last");
        let finding = Diagnostic::new(&ALREADY_TRUE, fact.span, message).label(*second, "setup sets it here");
        out.push(finding.label(*first, format!("and `{good}` before")).help(help));
    }
}

/// `roll it back to the previous revision`, where setup creates one deployment and never changes it.
fn no_second(view: &TaskView<'_>, said: &str, writes: &[(Span, String)], out: &mut Diagnostics) {
    let (Some(prompt), [(first, _)]) = (&view.task.prompt, writes) else { return };
    let is_client = |run: &&crate::effects::shell::Run<'_>| matches!(run.statement.tool(), "kubectl" | "helm");
    let changes = runs(view, PhaseKind::Setup).filter(is_client).any(|run| {
        run.words.iter().skip(1).take(3).any(|word| {
            let verb = word.literal().unwrap_or_default();
            !word.is_known()
                || matches!(
                    verb,
                    "set" | "apply" | "patch" | "edit" | "replace" | "restart" | "upgrade" | "annotate" | "undo"
                )
        })
    });
    let only_shell = view.task.setup.steps.iter().all(|step| view.scripts.iter().any(|s| s.step.key == step.key));
    if REVISION.is_match(said) && !changes && only_shell {
        out.push(
            Diagnostic::new(&ALREADY_TRUE, *first, "setup makes only one revision: there is nothing to roll back to")
                .label(prompt.text.span, "the prompt asks to roll back")
                .help("change it in setup after creating it, for example with `kubectl set image`"),
        );
    }
}

static REVISION: Ascii =
    ascii(r"(?i)\b(?:previous|last|earlier) (?:revision|rollout)\b|\broll(?:ed)? (?:it |this |them |\S+ )?back\b");

/// The images, or the tags of images, that setup sets, in order.
fn writes(view: &TaskView<'_>) -> Vec<(Span, String)> {
    let mut found: Vec<(Span, String)> = Vec::new();
    for fact in facts::given(view).iter().filter(|fact| is_key(&fact.key)) {
        found.push((fact.span, fact.text()));
    }
    for run in runs(view, PhaseKind::Setup).filter(|run| run.statement.tool() == "kubectl") {
        let words: Vec<&str> = run.words.iter().map(|word| word.literal().unwrap_or_default()).collect();
        if words.get(1..3) == Some(&["set", "image"]) {
            let images =
                words[3..].iter().filter_map(|word| word.split_once('=')).filter(|(key, _)| !key.starts_with('-'));
            found.extend(images.map(|(_, image)| (place(run), image.to_owned())));
        }
    }
    found.sort_by_key(|(span, _)| (span.file, span.start));
    found
}

/// Whether what is at a place of setup changes a resource: `kubectl set image`, `kubectl patch`, `helm upgrade`, or an operation `patch`.
fn changes(view: &TaskView<'_>, at: Span) -> bool {
    let by_command = runs(view, PhaseKind::Setup).filter(|run| place(run) == at).any(|run| {
        let word = |nth: usize| run.words.get(nth).and_then(Value::literal);
        matches!((run.statement.tool(), word(1)), ("kubectl", Some("set" | "patch")) | ("helm", Some("upgrade")))
    });
    let mut by_operation = false;
    view.task.setup.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            let patches =
                matches!(&step.op.kind, OperationKind::Extension { operation, .. } if operation.as_str() == "patch");
            by_operation |= patches && step.span.contains(at);
        });
    });
    by_command || by_operation
}

fn is_key(key: &str) -> bool {
    matches!(key, "image" | "tag")
}

fn repository(image: &str) -> &str {
    image.rsplit_once(':').map_or("", |(repository, _)| repository)
}

static BROKEN: Ascii = ascii(
    r"(?i)\b(?:undo|roll(?:ed)?\s?back|rollback|revert|previous (?:revision|release|version|state|image)|go back|broke|broken|not become (?:ready|healthy)|no longer (?:starts?|works?|ready|healthy)|restore)\b",
);
