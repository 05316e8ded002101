//! A task that nothing can fail.

use super::TaskView;
use crate::{
    diagnostic::{Diagnostic, Diagnostics, Strength},
    rule,
};

rule! {
    pub static NO_VERDICT = "no-verdict", Verdict;
}

/// Neither a verify step nor an assertion: upstream passes such a task whenever the agent exits (`tests/coverage.md` A4).
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    if !view.task.verify.steps.is_empty() || view.asserted {
        return;
    }
    let place = view.task.verify.key.unwrap_or(view.task.name.span);
    let diagnostic =
        Diagnostic::new(&NO_VERDICT, place, format!("nothing decides whether `{}` passes", view.task.name.value));
    out.push(match view.eval {
        Some(eval) => diagnostic
            .label(eval.eval.name.span, "this eval asserts nothing of it either")
            .help("add a step to verify that can fail, or assertions to the eval's task set"),
        None => diagnostic
            .strength(Strength::Note)
            .help("it has no verify step; the assertions of an eval would have to decide"),
    });
}
