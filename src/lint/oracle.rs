//! A scripted agent that does not know what to do, or knows too much.

use super::{EvalView, TaskView, servers};
use crate::{
    diagnostic::{Diagnostic, Diagnostics, nearest},
    rule,
};

rule! {
    pub static NO_ORACLE_ENTRY = "no-oracle-entry", Verdict;
    pub static UNUSED_ORACLE_ENTRY = "unused-oracle-entry", Warning;
}

/// The task would be broken (`decisions.md` §8).
pub fn missing(view: &TaskView<'_>, out: &mut Diagnostics) {
    let Some(eval) = view.eval else { return };
    let name = &view.task.name;
    let agent = eval.eval.agent.as_ref().map_or(eval.eval.config, |a| a.span);
    if let Some(recorded) = eval.unit.recording.as_ref().filter(|recorded| !recorded.tasks.contains(&name.value)) {
        let message = format!("the recording has nothing of the task `{}`", name.value);
        let mut diagnostic = Diagnostic::new(&NO_ORACLE_ENTRY, agent, message).label(name.span, "the task");
        if let Some(near) = nearest(&name.value, recorded.tasks.iter().map(String::as_str)) {
            diagnostic = diagnostic.here(format!("it has something of `{near}`"));
        }
        out.push(diagnostic.help("record a run with this task, or leave it out: without one the task is broken"));
    }
    let Some(oracle) = &eval.unit.oracle else { return };
    if oracle.tasks.iter().any(|t| t.task.value == name.value) {
        return;
    }
    let mut diagnostic =
        Diagnostic::new(&NO_ORACLE_ENTRY, agent, format!("the scripted agent does not know the task `{}`", name.value))
            .label(name.span, "the task");
    if let Some(near) = nearest(&name.value, oracle.tasks.iter().map(|t| t.task.value.as_str()))
        && let Some(entry) = oracle.tasks.iter().find(|t| t.task.value == near)
    {
        diagnostic = diagnostic.label(entry.task.span, "did you mean this entry?");
    }
    out.push(diagnostic.help("add an entry of that name to the oracle: without one the task is broken"));
}

pub fn unused(view: &EvalView<'_>, out: &mut Diagnostics) {
    let Some(oracle) = &view.unit.oracle else { return };
    for entry in &oracle.tasks {
        for call in &entry.calls {
            servers::known(view, &call.server, out);
        }
        let name = &entry.task;
        // An entry may belong to the task whose name could not be read.
        if view.tasks.iter().any(|u| u.task.as_ref().is_none_or(|t| t.name.value.is_empty())) {
            continue;
        }
        if view.tasks.iter().filter_map(|u| u.task.as_ref()).any(|t| t.name.value == name.value) {
            continue;
        }
        let names = view.tasks.iter().filter_map(|u| u.task.as_ref()).map(|t| t.name.value.as_str());
        let mut diagnostic =
            Diagnostic::new(&UNUSED_ORACLE_ENTRY, name.span, format!("the eval selects no task `{}`", name.value));
        if let Some(near) = nearest(&name.value, names) {
            diagnostic = diagnostic.here(format!("did you mean `{near}`?"));
        }
        out.push(diagnostic.help("remove the entry, or correct its name"));
    }
}
