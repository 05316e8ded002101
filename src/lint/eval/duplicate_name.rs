//! Two tasks with the same name in one eval.

use indexmap::IndexMap;

use crate::{
    diagnostic::{Diagnostic, Diagnostics},
    lint::EvalView,
    rule,
};

rule! {
    pub static DUPLICATE_TASK_NAME = "duplicate-task-name", Hard;
}

/// Results, reports and scripted agents identify tasks by name (`tests/coverage.md` A18).
pub fn check(view: &EvalView<'_>, out: &mut Diagnostics) {
    let mut seen = IndexMap::new();
    for task in view.tasks.iter().filter_map(|u| u.task.as_ref()) {
        let name = &task.name;
        if name.value.is_empty() {
            continue;
        }
        match seen.get(&name.value) {
            None => {
                seen.insert(&name.value, name.span);
            }
            Some(&first) => out.push(
                Diagnostic::new(&DUPLICATE_TASK_NAME, name.span, format!("duplicate task name `{}`", name.value))
                    .label(first, "first used here")
                    .help("results, reports and scripted agents identify tasks by name: use unique names"),
            ),
        }
    }
}
