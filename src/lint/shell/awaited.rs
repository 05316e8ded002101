//! Verify that checks the result of a controller without waiting for it.

use crate::{
    bash::program::Kind,
    diagnostic::{Diagnostic, Diagnostics},
    effects::{Verb, script::Content, value::Value},
    hir::{Def, OperationKind, PhaseKind, Step},
    lint::TaskView,
    rule,
    signature::Control,
    source::Span,
};

rule! {
    pub static NOT_AWAITED = "not-awaited", Warning;
}

/// Fields that a controller sets when pods have started.
const LATE: [&str; 8] = [
    "readyReplicas",
    "availableReplicas",
    "updatedReplicas",
    "numberReady",
    "numberAvailable",
    "loadBalancer",
    "currentReplicas",
    "succeeded",
];

/// Resources that controllers create some seconds after another one: the kind that is read, and the
/// kind from which it is created.
const MADE: [(&str, &str); 3] = [("secret", "certificate"), ("secret", "externalsecret"), ("taskrun", "pipelinerun")];

/// Requires that nothing in verify waits and that the prompt asks for a change. An agent that did the work
/// and ends at once may then fail.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    if view.task.prompt.is_none() {
        return;
    }
    let said = view.effects.prompt.shown();
    if !asks(&said) {
        return;
    }
    hurried(view, out);
    if step_waits(view) {
        return;
    }
    let mut found: Vec<(Span, String)> = Vec::new();
    let waits = waits(view);
    let any = !waits.is_empty();
    if !any {
        view.task.verify.steps.iter().for_each(|step| step.walk(&mut |step| found.extend(late(step))));
    }
    for script in view.effects.scripts.iter().filter(|script| script.view.phase == PhaseKind::Verify) {
        let runs = script.trace.runs.iter().filter(|run| run.statement.tool() == "kubectl");
        for run in runs.filter(|run| !has_waited(&waits, run.content, run.statement.range.start)) {
            let path = run
                .words
                .iter()
                .filter_map(Value::literal)
                .find(|word| word.contains("jsonpath") && word.contains("status"));
            let field = path.and_then(|path| LATE.iter().find(|field| path.contains(&format!(".{field}"))));
            found.extend(field.map(|field| (run.content.span(run.statement.range.clone()), format!("`{field}`"))));
        }
    }
    let model = view.effects;
    for act in
        model.in_phase(PhaseKind::Verify).filter(|act| act.verb == Verb::Reads && act.thing.system == "kubernetes")
    {
        let made = |by: &str| {
            let reads = model
                .in_phase(PhaseKind::Verify)
                .any(|other| other.thing.kind == by && other.thing.system == "kubernetes");
            let given = model.acts.iter().any(|other| other.verb == Verb::Creates && other.thing.may_be(&act.thing));
            reads && !given
        };
        if let Some((kind, by)) = MADE.iter().find(|(kind, by)| !any && *kind == act.thing.kind && made(by)) {
            found.push((act.span, format!("the {kind} of a {by}")));
        }
    }
    let Some((span, what)) = found.into_iter().next() else { return };
    out.push(
        Diagnostic::new(
            &NOT_AWAITED,
            span,
            format!("{what} changes some time after the update, and verify does not wait for it"),
        )
        .help("wait first: `kubectl wait`, `kubectl rollout status`, a loop with a limit, or `eventually`"),
    );
}

/// `kubectl rollout status deployment/web --timeout=1s`: a timeout before anything can have started. Not reported
/// in a loop, which checks again.
fn hurried(view: &TaskView<'_>, out: &mut Diagnostics) {
    for script in view.effects.scripts.iter().filter(|script| script.view.phase == PhaseKind::Verify) {
        for run in script.trace.runs.iter().filter(|run| run.statement.tool() == "kubectl" && !run.maybe) {
            let words: Vec<&str> = run.words.iter().map(|word| word.literal().unwrap_or_default()).collect();
            let behind = words.windows(2).find(|pair| pair[0] == "--timeout").map(|pair| pair[1]);
            let limit = behind.or_else(|| words.iter().find_map(|word| word.strip_prefix("--timeout=")));
            let waits = words.iter().take(4).any(|word| matches!(*word, "wait" | "rollout"));
            let gone = words.iter().any(|word| word.contains("delete"));
            if let Some(limit @ ("1s" | "2s" | "1" | "2")) = limit.filter(|_| waits && !gone) {
                out.push(
                    Diagnostic::new(
                        &NOT_AWAITED,
                        run.content.span(run.statement.range.clone()),
                        format!(
                            "a timeout of {} s expires before anything can have started",
                            limit.trim_end_matches('s')
                        ),
                    )
                    .help("allow enough time: `--timeout=60s`"),
                );
            }
        }
    }
}

/// Returns the key of a step that reads something a controller sets later, and a description of it.
fn late(step: &Step<Def>) -> Option<(Span, String)> {
    let OperationKind::Extension { operation, .. } = &step.op.kind else { return None };
    let path = step.arg("jsonpath").and_then(|path| path.as_literal()).unwrap_or_default();
    if let Some(field) = LATE.iter().find(|field| path.contains(&format!(".{field}"))) {
        return Some((step.key, format!("`{field}`")));
    }
    let kind = step.arg("kind").and_then(|kind| kind.as_literal()).unwrap_or_default();
    let counts = operation == "count" && matches!(kind.to_lowercase().as_str(), "pod" | "pods" | "po");
    counts.then(|| (step.key, "the number of pods".to_owned()))
}

/// Whether a step of verify waits.
fn step_waits(view: &TaskView<'_>) -> bool {
    let mut waits = false;
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            waits |= matches!(step.op.signature.control, Control::Eventually)
                || matches!(step.op.kind, OperationKind::Builtin("sleep" | "wait" | "consistently"))
                || matches!(&step.op.kind, OperationKind::Extension { operation, .. } if ["wait", "ready", "rollout", "condition", "stable"].iter().any(|word| operation.contains(word)));
        });
    });
    waits
}

/// The scripts of verify that wait, and where each waits for the first time.
fn waits<'a>(view: &'a TaskView<'_>) -> Vec<(&'a Content, usize)> {
    let scripts = view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify);
    let first = scripts.filter_map(|script| {
        let content = &*script.content;
        let sleeps = content.text.contains("sleep");
        let mut first = (!content.program.sound).then_some(0);
        content.program.walk(&mut |s| {
            let waits = matches!(s.kind, Kind::Loop { .. }) && sleeps
                || matches!(s.name(), "sleep" | "timeout" | "source" | "." | "make" | "python3" | "python")
                || s.words()
                    .iter()
                    .any(|word| matches!(word.text.as_str(), "wait" | "rollout" | "--wait" | "--watch" | "-w"))
                || s.words().first().is_some_and(|word| word.text.contains('/') || word.text.contains("wait"));
            if waits {
                first = Some(first.map_or(s.range.start, |known: usize| known.min(s.range.start)));
            }
        });
        Some((content, first?))
    });
    first.collect()
}

/// Whether something has waited before this place of a script. A function runs where it is called, so for one, the whole script counts.
fn has_waited(waits: &[(&Content, usize)], content: &Content, place: usize) -> bool {
    let in_function = || {
        let mut functions = content.program.body.iter().filter(|s| matches!(s.kind, Kind::Function { .. }));
        functions.any(|s| s.range.contains(&place))
    };
    waits.iter().any(|(other, first)| !std::ptr::eq(*other, content) || *first <= place || in_function())
}

/// Whether a prompt asks for something that starts pods.
fn asks(said: &str) -> bool {
    const CHANGES: [&str; 16] = [
        "scale", "replicas", "create", "deploy", "start", "restart", "roll", "upgrade", "install", "expose", "run",
        "repair", "fix", "issue", "request", "make",
    ];
    let said = said.to_lowercase();
    CHANGES.iter().any(|word| crate::lint::analysis::texts::has_word(&said, word))
}
