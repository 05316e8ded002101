//! Two phases that run the same script.

use rustc_hash::FxHashMap;

use crate::{
    diagnostic::{Diagnostic, Diagnostics},
    effects::{Verb, script::ScriptView},
    hir::{Block, BlockRole, Def, PhaseKind, Step, Target},
    lint::TaskView,
    rule,
};

rule! {
    pub static SAME_SCRIPT_TWICE = "same-script-twice", Warning;
}

/// Verify does the same as setup or cleanup (author mistake 1). Setup and cleanup may both delete the same resources.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    let pairs = [
        (
            PhaseKind::Setup,
            PhaseKind::Verify,
            "a check that succeeds before the agent runs proves nothing about the agent",
        ),
        (
            PhaseKind::Verify,
            PhaseKind::Cleanup,
            "a script that checks deletes nothing, and a script that deletes checks nothing",
        ),
    ];
    for (first, second, why) in pairs {
        let mut known: FxHashMap<Vec<&str>, Vec<&ScriptView<'_>>> = FxHashMap::default();
        // An alternative may have failed in its first place.
        for script in view.scripts.iter().filter(|s| s.phase == first && !is_alternative(view, s.step)) {
            known.entry(effect(&script.content.text)).or_default().push(script);
        }
        for later in view.scripts.iter().filter(|s| s.phase == second && !known.is_empty()) {
            let effect = effect(&later.content.text);
            let same = known.get(&effect).into_iter().flatten().find(|s| given(s.step) == given(later.step));
            let Some(earlier) = same.filter(|_| !effect.is_empty() && !is_compared(view, later.step)) else { continue };
            let is_only_check = view.task.verify.steps.len() == 1;
            let waits = || only_waits(view, later.step) || is_repeated(view, earlier.step);
            if second == PhaseKind::Verify && !is_only_check && waits() {
                continue;
            }
            out.push(
                Diagnostic::new(
                    &SAME_SCRIPT_TWICE,
                    later.key,
                    format!("{} runs the same script as {}", second.name(), first.name()),
                )
                .label(earlier.key, "first used here")
                .help(why),
            );
        }
    }
}

/// Whether setup repeats a step until it passes: what works then may have to work afterwards as well.
fn is_repeated(view: &TaskView<'_>, step: &Step<Def>) -> bool {
    let mut found = false;
    view.task.walk(&mut |_, outer| {
        let span = outer.span;
        found |= outer.op.name == "eventually"
            && span.file == step.span.file
            && span.start < step.span.start
            && step.span.end <= span.end;
    });
    found
}

/// Whether a step is in one of several branches.
fn is_alternative(view: &TaskView<'_>, step: &Step<Def>) -> bool {
    let mut found = false;
    view.task.walk(&mut |_, outer| {
        let around = |block: &Block<Def>| {
            block.role == BlockRole::Branch && block.span.start <= step.span.start && step.span.end <= block.span.end
        };
        found |= outer.blocks.len() > 1 && outer.span.file == step.span.file && outer.blocks.iter().any(around);
    });
    found
}

/// Whether a verify step is compared with an earlier result: by its own expectation, or by a later step that uses its
/// output. The script then runs twice to detect a change.
fn is_compared(view: &TaskView<'_>, step: &Step<Def>) -> bool {
    let mut compared = false;
    if let Some((_, expect)) = &step.expect {
        expect.templates(&mut |text| {
            compared |= text.holes().any(|hole| matches!(hole.reference.target, Target::Output { .. }));
        });
    }
    compared || view.uses_output_of(step)
}

/// Whether a step only waits until a resource is ready, which verify may do again after the agent's work.
fn only_waits(view: &TaskView<'_>, step: &Step<Def>) -> bool {
    let mut acts = view.effects.acts.iter().filter(|act| act.step == step.key).peekable();
    acts.peek().is_some() && acts.all(|act| act.verb == Verb::Awaits)
}

/// The lines with an effect.
fn effect(text: &str) -> Vec<&str> {
    let lines = text.lines().map(str::trim);
    lines
        .filter(|l| !l.is_empty() && !l.starts_with('#') && !l.starts_with("set ") && !l.starts_with("echo "))
        .collect()
}

/// The arguments and expectations that distinguish two runs of the same script.
fn given(step: &Step<Def>) -> Vec<(String, String)> {
    let others = step.args.iter().filter(|(k, _)| !matches!(k.value.as_str(), "file" | "inline" | "run"));
    let texts = |arg: &crate::hir::Arg<Def>| {
        let mut texts = arg.as_value().map(|value| value.to_string()).unwrap_or_default();
        arg.templates(&mut |t| texts += &t.display());
        texts
    };
    let mut given: Vec<_> = others.map(|(k, a)| (k.value.clone(), texts(a))).collect();
    given.extend(step.expect.iter().map(|(_, expect)| ("expect".to_owned(), texts(expect))));
    given.sort();
    given
}
