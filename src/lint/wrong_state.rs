//! Verify waits for, or asks for, the opposite of what the prompt tells the agent to bring about.

use rustc_hash::FxHashSet;

use super::{TaskView, already_true};
use crate::{
    ascii::{Ascii, ascii},
    bash::flow,
    diagnostic::{Diagnostic, Diagnostics},
    effects::{Act, Verb, value::Value},
    hir::{OperationKind, PhaseKind},
    rule,
    source::Span,
};

rule! {
    pub static WRONG_STATE = "wrong-state", Warning;
}

/// Conditions that say that all is well.
const GOOD: [&str; 9] = [
    "Ready",
    "Available",
    "Complete",
    "Established",
    "Initialized",
    "ContainersReady",
    "PodScheduled",
    "AgentConnected",
    "Healthy",
];

/// Needs: a wait for a good condition to be false, or for a thing to be gone, and a prompt that asks for nothing of the kind; or a check that
/// fails where a thing is there which the prompt asks to make (or the other way round).
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    let Some(prompt) = &view.task.prompt else { return };
    let said = view.effects.prompt.shown();
    let mut found: Vec<(Span, String)> = Vec::new();
    waits(view, &said, &mut found);
    early(view, &said, &mut found);
    presence(view, &said, &mut found);
    for (span, message) in found {
        out.push(
            Diagnostic::new(&WRONG_STATE, span, message)
                .label(prompt.text.span, "what the agent is to do")
                .help("verify asks for the state that the agent has to bring about"),
        );
    }
}

fn waits(view: &TaskView<'_>, said: &str, found: &mut Vec<(Span, String)>) {
    let (stops, deletes) = (STOPS.is_match(said), already_true::DELETES.is_match(said));
    for script in view.effects.scripts.iter().filter(|script| script.view.phase == PhaseKind::Verify) {
        for run in script.trace.runs.iter().filter(|run| run.statement.tool() == "kubectl") {
            let words: Vec<String> = run.words.iter().map(Value::shown).collect();
            if words.get(1).map(String::as_str) != Some("wait") && !words.iter().any(|word| word == "wait") {
                continue;
            }
            let asked = words.windows(2).find(|pair| pair[0] == "--for").map(|pair| pair[1].as_str());
            let asked = asked.or_else(|| words.iter().find_map(|word| word.strip_prefix("--for="))).unwrap_or_default();
            let span = run.content.span(run.statement.range.clone());
            match asked.split('=').collect::<Vec<_>>().as_slice() {
                // Who scales down ends pods.
                ["delete"] if !deletes && !stops && !SCALES.is_match(said) && !is_going(view, &words) => {
                    found.push((span, "this waits until a thing is gone, and the prompt deletes nothing".to_owned()));
                }
                ["condition", name, value]
                    if value.eq_ignore_ascii_case("false") && is_good(name) && !stops && !deletes =>
                {
                    found.push((span, format!("this waits until the condition `{name}` is false")));
                }
                _ => {}
            }
        }
    }
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            let OperationKind::Extension { operation, .. } = &step.op.kind else { return };
            let literal = |key: &str| step.arg(key).and_then(|arg| Some((arg.span, arg.as_literal()?)));
            if let (true, Some((_, name)), Some((span, value))) =
                (operation.contains("wait"), literal("condition"), literal("status"))
                && value.eq_ignore_ascii_case("false")
                && is_good(name)
                && !stops
                && !deletes
            {
                found.push((span, format!("this waits until the condition `{name}` is false")));
            }
        });
    });
}

/// Whether set-up has already deleted what a command names: `kubectl delete pod stuck --wait=false` where a finalizer keeps it.
fn is_going(view: &TaskView<'_>, words: &[String]) -> bool {
    let acts: Vec<&Act> = view.effects.in_phase(PhaseKind::Setup).collect();
    let last = acts.iter().rev().find(|act| {
        let name = act.thing.name.as_ref().filter(|name| name.is_known()).map(Value::shown);
        let named = |name: &str| words.iter().any(|word| word.rsplit('/').next() == Some(name));
        matches!(act.verb, Verb::Creates | Verb::Deletes) && name.is_some_and(|name| named(&name))
    });
    last.is_some_and(|act| act.verb == Verb::Deletes)
}

/// Conditions that hold before a thing does its work, and the word of a prompt that is content with them.
const EARLY: [(&str, &str); 4] = [
    ("PodScheduled", "schedul"),
    ("Initialized", "init"),
    ("PodReadyToStartContainers", "sandbox"),
    ("Progressing", "progress"),
];

/// A wait for a condition that also holds where a container never starts.
fn early(view: &TaskView<'_>, said: &str, found: &mut Vec<(Span, String)>) {
    let lower = said.to_lowercase();
    let early =
        |name: &str| EARLY.iter().any(|(known, word)| known.eq_ignore_ascii_case(name) && !lower.contains(word));
    let message = |name: &str| format!("the condition `{name}` also holds where nothing runs");
    for script in view.effects.scripts.iter().filter(|script| script.view.phase == PhaseKind::Verify) {
        for run in script.trace.runs.iter().filter(|run| run.statement.tool() == "kubectl") {
            for word in run.words.iter().filter_map(Value::literal) {
                let name = word.strip_prefix("--for=").unwrap_or(word).strip_prefix("condition=");
                if let Some(name) = name.filter(|name| early(name)) {
                    found.push((run.content.span(run.statement.range.clone()), message(name)));
                }
            }
        }
    }
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            let condition = step.arg("condition").and_then(|arg| Some((arg.span, arg.as_literal()?)));
            if let (OperationKind::Extension { operation, .. }, Some((span, name))) = (&step.op.kind, condition)
                && operation.contains("wait")
                && step.arg("status").is_none()
                && early(name)
            {
                found.push((span, message(name)));
            }
        });
    });
}

fn is_good(condition: &str) -> bool {
    GOOD.iter().any(|good| good.eq_ignore_ascii_case(condition))
}

/// `if kubectl get pod web; then exit 1; fi` where the prompt says `create a pod web`.
fn presence(view: &TaskView<'_>, said: &str, found: &mut Vec<(Span, String)>) {
    let (makes, deletes) = (already_true::MAKES.is_match(said), already_true::DELETES.is_match(said));
    if !makes && !deletes {
        return;
    }
    let names: FxHashSet<String> = view
        .effects
        .in_phase(PhaseKind::Verify)
        .filter(|act| act.verb == Verb::Reads && matches!(act.thing.system.as_str(), "kubernetes" | "docker" | "helm"))
        .filter_map(|act| act.thing.name.as_ref().filter(|name| name.is_known()).map(Value::shown))
        .filter(|name| name.len() > 2 && said.contains(name.as_str()))
        .collect();
    let asked = |name: &String| {
        let (made, gone) = (
            makes && already_true::is_object(said, name, &already_true::MAKES),
            deletes && already_true::is_object(said, name, &already_true::DELETES),
        );
        (made != gone).then_some(made)
    };
    let asked: Vec<(String, bool)> =
        names.into_iter().filter_map(|name| asked(&name).map(|made| (name, made))).collect();
    if asked.is_empty() {
        return;
    }
    for script in view
        .effects
        .scripts
        .iter()
        .filter(|script| script.view.phase == PhaseKind::Verify && script.view.decides_by_status())
    {
        let content = &script.view.content;
        for run in script.trace.runs.iter().filter(|run| std::ptr::eq(run.content, &**content)) {
            let span = content.span(run.statement.range.clone());
            let act = view
                .effects
                .in_phase(PhaseKind::Verify)
                .find(|act| act.verb == Verb::Reads && act.span.file == span.file && act.span.start == span.start);
            let name = act.and_then(|act| act.thing.name.as_ref()).map(Value::shown);
            let Some((name, made)) = asked.iter().find(|(known, _)| Some(known) == name.as_ref()) else { continue };
            let (there, gone) = flow::outcomes(&content.program, &run.statement.range);
            // A wait for the end of a thing succeeds where it is gone.
            let until_gone = run.words.windows(2).any(|pair| {
                pair[1].literal() == Some("--for=delete")
                    || pair[0].literal() == Some("--for") && pair[1].literal() == Some("delete")
            });
            let wants = match (there.zero, gone.zero) {
                (true, false) => !until_gone,
                (false, true) => until_gone,
                _ => continue,
            };
            if wants != *made {
                let (asks, fails) = if *made { ("make", "where it is there") } else { ("delete", "where it is gone") };
                found.push((span, format!("the prompt asks to {asks} `{name}`, and verify fails {fails}")));
            }
        }
    }
}

static STOPS: Ascii =
    ascii(r"(?i)\b(?:stop|halt|pause|suspend|unready|shut|cordon|drain|to 0|to zero|isolate|disable)");

static SCALES: Ascii = ascii(r"(?i)\bscal(?:e|es|ed|ing)\b[^.\n]*\b(?:down|back|in)\b|\breplac(?:e|ing)\b");
