//! Plans as a Markdown table, a row a task: for a pull request, or a page about a suite.

use std::{collections::BTreeSet, fmt::Write};

use super::{PlanFormat, View, line, stand_ins, worst_case};
use crate::{
    builtin::count,
    plan::{Plan, PlanPhase},
    ty::duration,
};

pub const FORMAT: PlanFormat = PlanFormat { name: "markdown", summary: "a table with one row per task", render };

fn render(views: &[View<'_>]) -> String {
    let mut out = String::from("| task | dialect | difficulty | decided by | at most |\n|---|---|---|---|---|\n");
    for (view, plan) in views.iter().flat_map(|view| view.plans.iter().map(move |plan| (view, plan))) {
        let task = &plan.task;
        let cells = [
            task.name.value.as_str(),
            task.dialect.name(),
            task.difficulty.as_deref().unwrap_or_default(),
            &decided_by(plan),
            &duration::format(worst_case(plan)),
        ];
        let _ = writeln!(out, "| {} |", cells.map(|cell| escaped(&line(cell, view.unicode))).join(" | "));
    }
    let stand_ins: BTreeSet<_> = views.iter().filter_map(|view| view.eval).flat_map(stand_ins).collect();
    for (n, means) in stand_ins.iter().enumerate() {
        let _ = writeln!(out, "{}{}", if n == 0 { "\n" } else { "  \n" }, escaped(&line(means, true)));
    }
    out
}

fn decided_by(plan: &Plan) -> String {
    let (verify, assert) = (plan.members(PlanPhase::Verify).count(), plan.members(PlanPhase::Assert).count());
    let steps = count(verify, "step", "steps");
    let assertions = count(assert, "assertion", "assertions");
    match (verify, assert) {
        (0, 0) => "nothing".to_owned(),
        (_, 0) => steps,
        (0, _) => assertions,
        _ => format!("{steps}, {assertions}"),
    }
}

/// Nothing in a cell is Markdown. What stands within a word, as in `create-pod`, is left as it is.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii_punctuation() && !matches!(c, '-' | '.' | ',' | '/') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
