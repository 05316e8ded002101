//! Single steps of verify that decide nothing, beside others that do.

use super::{TaskView, exit_status, verify};
use crate::{
    diagnostic::{Diagnostic, Diagnostics},
    effects::Verb,
    hir::{BlockRole, Def, OperationKind, PhaseKind, Step},
    rule,
    signature::Control,
};

rule! {
    pub static STEP_DECIDES_NOTHING = "step-decides-nothing", Warning;
}

/// A step that passes whatever the agent does, and that gives nothing to others. Where no step of verify can fail, `unfalsifiable-verify` says so.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    let steps = &view.task.verify.steps;
    if steps.iter().all(|step| verify::cannot_fail(step, view)) || exit_status::in_vain(view) {
        return;
    }
    for step in steps {
        step.walk(&mut |step| {
            if step.op.signature.control == Control::Any {
                for branch in step.blocks.iter().filter(|block| block.role == BlockRole::Branch) {
                    let open =
                        branch.steps.iter().all(|step| verify::cannot_fail(step, view) || is_true_already(step, view));
                    if let (Some(first), true) = (branch.steps.first(), open) {
                        out.push(
                            Diagnostic::new(
                                &STEP_DECIDES_NOTHING,
                                first.key,
                                "this branch passes whatever the agent does, and with it the whole",
                            )
                            .help("ask for what the agent has to bring about, or leave the branch out"),
                        );
                    }
                }
                return;
            }
            let is_script = matches!(step.op.kind, OperationKind::Builtin("command" | "script" | "sleep"));
            if step.op.signature.control != Control::Leaf || is_script || view.has_unread(step.span) {
                return;
            }
            let writes = matches!(step.op.kind, OperationKind::Builtin("file"))
                && step.arg("content").is_some()
                && step.expect.is_none();
            let gives = step.id.is_some() || step.outputs.as_ref().is_some_and(|outputs| !outputs.is_empty());
            if writes || !gives && verify::cannot_fail(step, view) {
                let message = if writes {
                    "this writes the file that it is to check"
                } else {
                    "this passes whatever the agent does"
                };
                out.push(
                    Diagnostic::new(&STEP_DECIDES_NOTHING, step.key, message)
                        .help("say what is expected (`expect`), or leave the step out"),
                );
            }
        });
    }
}

/// Whether a step asks for the existence of what set-up has made.
fn is_true_already(step: &Step<Def>, view: &TaskView<'_>) -> bool {
    let exists = matches!(&step.op.kind, OperationKind::Extension { operation, .. } if operation.contains("exists"));
    let made = |act: &crate::effects::Act| {
        view.effects
            .in_phase(PhaseKind::Setup)
            .any(|made| made.verb == Verb::Creates && !made.maybe && made.thing.is(&act.thing))
    };
    exists && view.effects.in_phase(PhaseKind::Verify).any(|act| act.step == step.key && made(act))
}
