//! A task that cannot fail.

use crate::{
    diagnostic::{Diagnostic, Diagnostics, Strength, nearest},
    dialect,
    hir::Dialect,
    lint::{Selecting, UnderView},
    rule,
    source::Span,
    yaml::{Entry, Node},
};

rule! {
    pub static NO_VERDICT = "no-verdict", Verdict;
}

/// Neither a verify step nor an assertion: upstream passes such a task if the agent exits (`tests/coverage.md` A4).
pub fn check(view: &UnderView<'_, '_>, out: &mut Diagnostics) {
    if !view.task.verify.steps.is_empty() {
        return;
    }
    let verify = verify_of(view);
    if verify.is_some_and(|verify| view.has_unread(verify)) {
        return;
    }
    let empty_script = view.task.verify.key.filter(|_| view.task.dialect == Dialect::Legacy);
    if view.asserted {
        // The assertions decide, so an empty `verify` is only misleading.
        out.extend(empty_script.map(|verify| dialect::legacy::empty_phase("verify", verify)));
        return;
    }
    let task = &view.task;
    let message = format!("nothing determines whether `{}` passes", task.name.value);
    let help = "add a step to verify that can fail, or add assertions to the eval's task set";
    out.push(match (view.eval, task.verify.key) {
        // A task with an empty `verify` relies on its evals: report each eval without assertions.
        (Some(eval), Some(verify)) if empty_script.is_none() => {
            Diagnostic::new(&NO_VERDICT, set(eval), message).label(verify, "the task relies on the eval").help(help)
        }
        (Some(eval), verify) => Diagnostic::new(&NO_VERDICT, verify.unwrap_or(task.name.span), message)
            .label(eval.eval.name.span, "this eval has no assertions for it")
            .help(help),
        (None, Some(verify)) if empty_script.is_some() => dialect::legacy::empty_phase("verify", verify),
        (None, verify) => Diagnostic::new(&NO_VERDICT, verify.unwrap_or(task.name.span), message)
            .strength(Strength::Note)
            .help("it has no verify step; only the assertions of an eval could decide"),
    });
}

/// The location of the task's `verify`, or else of a key that may be a typo of it.
fn verify_of(view: &UnderView<'_, '_>) -> Option<Span> {
    let phases = find(view.unit.tree.root(), &["spec", "steps"])?.value;
    match find(phases, &["verify"]) {
        Some(verify) => Some(verify.value.span()),
        None => {
            let near = |e: &Entry<'_>| nearest(e.name, ["verify"]).is_some();
            phases.entries().find(near).map(|e| e.key.span())
        }
    }
}

fn find<'t>(node: Node<'t>, names: &[&str]) -> Option<Entry<'t>> {
    node.entries().find(|e| names.iter().any(|name| e.name.eq_ignore_ascii_case(name)))
}

/// The task set by which the eval selects the task.
fn set(eval: Selecting<'_>) -> Span {
    let named =
        eval.sets.first().map(|&set| &eval.eval.task_sets[set]).and_then(|set| set.path.as_ref().or(set.glob.as_ref()));
    named.map_or(eval.eval.name.span, |path| path.span)
}
