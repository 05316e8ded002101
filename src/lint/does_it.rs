//! Verify that does the agent's work itself.

use super::{TaskView, already_true, texts};
use crate::{
    ascii::{Ascii, ascii},
    diagnostic::{Diagnostic, Diagnostics},
    effects::{Act, Verb, value::Value},
    hir::PhaseKind,
    rule,
};

rule! {
    pub static VERIFY_MAKES = "verify-makes", Warning;
}

/// `run it once, as a Job called sweep`.
static CALLED: Ascii =
    ascii(r"(?i)\b(?:run|create|make|start|deploy|install|add|set up|launch)\b[^.;]*\b(?:called|named)\s+[`\x22']?$");

/// Requires that the prompt asks to create a resource with this name, that setup does not create it, and that verify
/// creates it and then checks it.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    let Some(prompt) = &view.task.prompt else { return };
    let model = view.effects;
    let said = model.prompt.shown();
    let mut told: Vec<String> = Vec::new();
    let verify: Vec<&Act> = model.in_phase(PhaseKind::Verify).collect();
    for (at, made) in verify.iter().enumerate().filter(|(_, act)| act.verb == Verb::Creates) {
        let thing = &made.thing;
        let known = matches!(thing.system.as_str(), "kubernetes" | "helm" | "docker" | "postgres" | "mysql");
        let Some(name) = thing.name.as_ref().filter(|name| known && name.is_known()).map(Value::shown) else {
            continue;
        };
        let others = |phase: PhaseKind, verbs: &[Verb]| {
            model.in_phase(phase).any(|act| verbs.contains(&act.verb) && act.thing.may_be(thing))
        };
        let looks = verify[at + 1..]
            .iter()
            .any(|act| matches!(act.verb, Verb::Reads | Verb::Awaits) && act.thing.may_be(thing));
        let is_own = others(PhaseKind::Verify, &[Verb::Deletes]) || others(PhaseKind::Setup, &[Verb::Creates]);
        if name.len() < 3 || told.contains(&name) || !looks || is_own || !model.sees(PhaseKind::Setup) {
            continue;
        }
        let speaks = |before: &str| texts::speaks_of(view, before, &thing.kind);
        let called = said.match_indices(name.as_str()).any(|(at, _)| {
            let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
            CALLED.is_match(&said[..at]) && !said[at + name.len()..].starts_with(part)
        });
        if !called && !already_true::is_object(&said, &name, &already_true::MAKES, &speaks) {
            continue;
        }
        out.push(
            Diagnostic::new(
                &VERIFY_MAKES,
                made.span,
                format!("verify itself creates the {} `{name}`, which the agent is asked to create", thing.kind),
            )
            .label(prompt.text.span, "the prompt asks for it here")
            .help("only check what the agent has created: what verify creates exists even if the agent does nothing"),
        );
        told.push(name);
    }
}
