//! Restores the scope of a run of a task from its journal.

use serde_json::{Map, Value};

use super::fill::{Scope, TaskValues};
use crate::{
    event::{ActionReport, Outcome},
    hir::Dialect,
    journal::TaskPast,
    plan::{Action, ActionKind, Plan, StepAction, planned_id},
    secrets::MASK,
};

/// The scope for the cleanup of the group with the action id `at`, or for the cleanup of the task if `at` is empty.
pub(super) fn scope<'a>(values: &'a TaskValues<'a>, plan: &Plan, past: &TaskPast, at: &str) -> Scope<'a> {
    let mut actions = std::collections::HashMap::new();
    plan.walk(&mut |_, _, action: &Action| {
        if let ActionKind::Step(StepAction { id: Some(id), .. }) = &action.kind {
            actions.insert(action.id.clone(), id.clone());
        }
    });
    let portable = plan.task.dialect == Dialect::Portable;
    let mut scope = Scope::new(values);
    for (executed, report) in &past.ended {
        let Some(id) = actions.get(&planned_id(executed)) else { continue };
        // In upstream's dialects, cleanup does not see the outputs of verification.
        let known = portable || executed.starts_with("setup/");
        if !known || executed.starts_with("cleanup/") || !is_visible(executed, at) {
            continue;
        }
        match report.outcome {
            Outcome::Passed if portable || !report.outputs.is_empty() => scope.set_passed(id, outputs(report)),
            Outcome::Passed => {}
            outcome => scope.set_not_passed(id, outcome),
        }
    }
    if portable && let ActionKind::Agent(agent) = &plan.action(plan.agent).kind {
        let prompt = scope.text(&agent.prompt).unwrap_or_default();
        if past.begun.contains("agent") {
            scope.set_agent(&prompt, past.output.as_deref());
        }
    }
    for (name, value) in past.vars.get(at).into_iter().flatten() {
        if !is_masked(value) {
            scope.set_var(name, value.clone());
        }
    }
    scope
}

/// The outputs of an action, without those that contained a secret: the mask must not be taken for a value.
pub(super) fn outputs(report: &ActionReport) -> Map<String, Value> {
    report.outputs.iter().filter(|(_, v)| !is_masked(v)).map(|(k, v)| (k.clone(), v.clone())).collect()
}

fn is_masked(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains(MASK),
        Value::Array(items) => items.iter().any(is_masked),
        Value::Object(map) => map.iter().any(|(key, value)| key.contains(MASK) || is_masked(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Whether an executed action is visible from `at`: the results of a loop round are visible only inside that round,
/// those of an attempt outlive it.
fn is_visible(executed: &str, at: &str) -> bool {
    match executed.rfind(']') {
        None => true,
        Some(end) => at.strip_prefix(&executed[..=end]).is_some_and(|rest| rest.starts_with(['/', '#'])),
    }
}
