//! A scripted agent without an entry for a task, or with entries for unknown tasks.

use indexmap::IndexMap;

use crate::{
    diagnostic::{Diagnostic, Diagnostics, nearest},
    lint::{EvalView, ProjectView, UnderView, eval::servers},
    project::{EvalUnit, Lack},
    rule,
    source::FileId,
};

rule! {
    pub static NO_ORACLE_ENTRY = "no-oracle-entry", Verdict;
    pub static UNUSED_ORACLE_ENTRY = "unused-oracle-entry", Warning;
}

/// A task that the oracle or the recording lacks. It would be broken (`decisions.md` §8).
pub fn missing(view: &UnderView<'_, '_>, out: &mut Diagnostics) {
    let Some(eval) = view.eval else { return };
    let name = &view.task.name;
    let agent = eval.eval.agent.as_ref().map_or(eval.eval.config, |a| a.span);
    if let Some(recorded) = &eval.unit.recording {
        let found = recorded.tasks.get(&name.value);
        let (message, help) = match found {
            Some(None) => return,
            None => ("the recording does not contain the task", "with this task"),
            Some(Some(Lack::Failed)) => {
                ("the agent had failed in the recorded run of the task", "in which it succeeds")
            }
            Some(Some(Lack::End)) => ("the recording ends before the agent had ended in the task", "to its end"),
            Some(Some(Lack::Full)) => {
                ("the recording was full before the agent had ended in the task", "with a larger `--max-recording`")
            }
            Some(Some(Lack::TooLong)) => {
                ("a message was too long for the recording of the task", "with a larger `--max-recorded`")
            }
        };
        let message = format!("{message} `{}`", name.value);
        let mut diagnostic = Diagnostic::new(&NO_ORACLE_ENTRY, agent, message).label(name.span, "the task");
        if found.is_none()
            && let Some(near) = nearest(&name.value, recorded.tasks.keys().map(String::as_str))
        {
            diagnostic = diagnostic.here(format!("it contains `{near}`"));
        }
        let help = format!("record a run {help}, or remove the task: without a complete recording it is broken");
        out.push(diagnostic.help(help));
    }
    let Some(oracle) = &eval.unit.oracle else { return };
    if oracle.tasks.iter().any(|t| t.task.value == name.value) {
        return;
    }
    let mut diagnostic = Diagnostic::new(
        &NO_ORACLE_ENTRY,
        agent,
        format!("the scripted agent has no entry for the task `{}`", name.value),
    )
    .label(name.span, "the task");
    if let Some(near) = nearest(&name.value, oracle.tasks.iter().map(|t| t.task.value.as_str()))
        && let Some(entry) = oracle.tasks.iter().find(|t| t.task.value == near)
    {
        diagnostic = diagnostic.label(entry.task.span, "did you mean this entry?");
    }
    out.push(diagnostic.help("add an entry with that name to the oracle: without one the task is broken"));
}

/// Checks the servers in the oracle's calls.
pub fn calls(view: &EvalView<'_>, out: &mut Diagnostics) {
    for call in view.unit.oracle.iter().flat_map(|oracle| &oracle.tasks).flat_map(|entry| &entry.calls) {
        servers::known(view, &call.server, out);
    }
}

/// Entries for tasks that do not exist. Several evals may share an oracle, and a task counts even if no eval currently
/// selects it.
pub fn unused(view: &ProjectView<'_>, out: &mut Diagnostics) {
    let project = view.project;
    let mut oracles: IndexMap<FileId, Vec<&EvalUnit>> = IndexMap::new();
    for unit in &project.evals {
        if let Some(entry) = unit.oracle.as_ref().and_then(|oracle| oracle.tasks.first()) {
            oracles.entry(entry.task.span.file).or_default().push(unit);
        }
    }
    let tasks = || project.tasks.iter().map(|unit| unit.task.as_ref());
    // An entry may be for a task that could not be read or whose name could not.
    if project.evals.iter().any(|unit| unit.reported.is_some())
        || tasks().any(|task| task.is_none_or(|t| t.name.value.is_empty()))
    {
        return;
    }
    let names: Vec<&str> = tasks().flatten().map(|task| task.name.value.as_str()).collect();
    for entry in oracles.values().filter_map(|evals| evals[0].oracle.as_ref()).flat_map(|oracle| &oracle.tasks) {
        let name = &entry.task;
        if names.contains(&name.value.as_str()) {
            continue;
        }
        let mut diagnostic = Diagnostic::new(
            &UNUSED_ORACLE_ENTRY,
            name.span,
            format!("the task `{}` is not selected by any eval", name.value),
        );
        if let Some(near) = nearest(&name.value, names.iter().copied()) {
            diagnostic = diagnostic.here(format!("did you mean `{near}`?"));
        }
        out.push(diagnostic.help("remove the entry, or correct its name"));
    }
}
