//! Tasks that never run.

use indexmap::IndexSet;

use crate::{
    diagnostic::{Diagnostic, Diagnostics},
    project::Project,
    rule,
};

rule! {
    pub static ORPHAN_TASK = "orphan-task", Warning;
}

/// Tasks that no eval of the project selects. `selected` are the indices of those that are. A project without evals is
/// part of another project, so nothing is reported.
pub fn check(project: &Project, selected: &IndexSet<usize>, out: &mut Diagnostics) {
    if project.evals.is_empty() {
        return;
    }
    for (index, unit) in project.tasks.iter().enumerate() {
        if let (Some(task), false) = (&unit.task, selected.contains(&index)) {
            out.push(
                Diagnostic::new(
                    &ORPHAN_TASK,
                    task.name.span,
                    format!("the task `{}` is not selected by any eval", task.name.value),
                )
                .help("add it to a task set of an eval, or remove it: it never runs"),
            );
        }
    }
}
