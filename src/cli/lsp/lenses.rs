//! Code lenses above the first line of a file: run it, show its plan. The editor executes the commands.

use std::path::Path;

use serde_json::{Value, json};

use super::{
    suite::{KnownEval, Suite},
    text::{Lines, uri_of},
};
use crate::{
    builtin::count,
    yaml::{Node, Tree},
};

/// Runs `gevals run EVAL --run '^TASK$'`; its argument is `{eval, task}`, the URI of the eval and the name of the task, if it is one.
pub const RUN: &str = "gevals.run";
/// The same for one phase of a task. The editor asks which one.
pub const DEBUG: &str = "gevals.debug";
/// Shows `gevals plan FILE --format html`; its argument is `{file}`, the URI of a task or an eval.
pub const PLAN: &str = "gevals.plan";

/// The maximum number of evals that are offered for a task.
const OFFERED: usize = 3;

/// The lenses of a task or an eval.
pub fn of(path: &Path, tree: &Tree, suite: &Suite, lines: &Lines<'_>) -> Value {
    let Some(first) = tree.root().entries().next() else { return json!([]) };
    let range = lines.range(first.key.span().range());
    let lens = |title: String, command: &str, argument: Value| json!({ "range": range, "command": { "title": title, "command": command, "arguments": [argument] } });
    let of = |eval: &KnownEval, task: Option<&str>| json!({ "eval": uri_of(&eval.path), "task": task });
    let mut found = Vec::new();
    if let Some(eval) = suite.eval(path) {
        let mut tasks: Vec<&Path> =
            eval.sets.iter().flat_map(|set| &set.tasks).map(|task| task.path.as_path()).collect();
        tasks.sort_unstable();
        tasks.dedup();
        found.push(lens(format!("run {}", count(tasks.len(), "task", "tasks")), RUN, of(eval, None)));
    } else if tree.root().get("kind").and_then(Node::as_str) == Some("Task") {
        let selecting: Vec<_> = suite.selecting(path).collect();
        for (eval, set) in selecting.iter().take(OFFERED) {
            let task = set.tasks.iter().find(|task| task.path == path).map(|task| task.name.as_str());
            let whose = if selecting.len() > 1 { format!(" in {}", eval.name) } else { String::new() };
            found.push(lens(format!("run this task{whose}"), RUN, of(eval, task)));
            found.push(lens(format!("run one phase{whose}"), DEBUG, of(eval, task)));
        }
    } else {
        return json!([]);
    }
    found.push(lens("show plan".to_owned(), PLAN, json!({ "file": uri_of(path) })));
    Value::Array(found)
}
