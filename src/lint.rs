//! What is well formed and means something, and still probably fools its author. One file a fault.
//!
//! A rule is an id, a page and a function. Three files make one: the function here, a line in [`RULES`], a page in
//! `lints/`. Rules whose fault shows while a file is read or checked have their code there; they are listed all the same.

mod agent;
mod assertions;
mod duplicate_name;
mod judge;
mod no_verdict;
mod oracle;
mod servers;
mod unpinned_server;

use crate::{
    check, decode, diagnostic::{Diagnostics, Rule}, dialect, hir::{Def, Eval, Task}, project::{self, EvalUnit, TaskUnit}, yaml,
};

/// A rule and where its fault is found.
#[derive(Debug)]
pub struct Lint {
    pub rule: &'static Rule,
    pub found: Found,
}

/// Where a fault is found.
#[derive(Debug)]
pub enum Found {
    /// While reading or checking.
    OnTheWay,
    /// In a task under an eval, or under none.
    InTask(fn(&TaskView<'_>, &mut Diagnostics)),
    /// In an eval.
    InEval(fn(&EvalView<'_>, &mut Diagnostics)),
}

/// A task, and the eval that selects it. Rules that need an eval are notes where there is none (`decisions.md` §2).
#[derive(Clone, Copy)]
pub struct TaskView<'a> {
    pub unit: &'a TaskUnit,
    pub task: &'a Task<Def>,
    pub eval: Option<EvalView<'a>>,
    /// Whether an assertion set of the eval applies to the task.
    pub asserted: bool,
}

/// An eval and what it refers to.
#[derive(Clone, Copy)]
pub struct EvalView<'a> {
    pub unit: &'a EvalUnit,
    pub eval: &'a Eval,
    /// The tasks it selects.
    pub tasks: &'a [&'a TaskUnit],
}

const fn way(rule: &'static Rule) -> Lint {
    Lint { rule, found: Found::OnTheWay }
}

/// All rules.
pub static RULES: &[Lint] = &[
    // the text
    way(&yaml::SYNTAX),
    way(&yaml::UNQUOTED_HOLE),
    way(&yaml::DUPLICATE_KEY),
    way(&yaml::SECOND_DOCUMENT),
    way(&yaml::NON_STRING_KEY),
    way(&yaml::UNKNOWN_ANCHOR),
    way(&yaml::UNKNOWN_TAG),
    way(&yaml::ALIAS_EXPANSION),
    way(&yaml::MERGE_KEY),
    way(&yaml::NESTING),
    way(&yaml::YAML_1_1_WORD),
    // files
    way(&project::UNREADABLE_FILE),
    way(&project::WRONG_KIND),
    way(&project::EMPTY_GLOB),
    way(&project::EMPTY_SELECTION),
    way(&project::UNSUPPORTED_SOURCE),
    way(&project::INVALID_LOCK),
    way(&dialect::UNKNOWN_KIND),
    way(&dialect::UNKNOWN_VERSION),
    way(&dialect::OLD_VERSION),
    // records
    way(&decode::UNKNOWN_FIELD),
    way(&decode::WRONG_TYPE),
    way(&decode::MISSING_FIELD),
    way(&decode::INVALID_DURATION),
    way(&decode::INVALID_PATTERN),
    way(&decode::KEY_CASE),
    way(&decode::COERCED_SCALAR),
    way(&decode::EMPTY_NAME),
    way(&dialect::DIFFICULTY),
    way(&dialect::NO_VERIFY),
    way(&dialect::PROMPT_SHAPE),
    way(&dialect::NON_POSITIVE_RUNS),
    way(&dialect::STEP_SHAPE),
    way(&dialect::INVALID_ID),
    way(&dialect::legacy::LEGACY_PHASE),
    way(&dialect::legacy::IGNORED_JUDGE),
    way(&dialect::legacy::EMPTY_PHASE),
    way(&dialect::eval::TASK_SET_SHAPE),
    way(&dialect::eval::INVALID_EVAL_NAME),
    way(&dialect::eval::INVALID_ASSERTION),
    way(&dialect::eval::NO_AGENT),
    way(&dialect::mcp_config::INVALID_SERVER),
    way(&dialect::oracle::ORACLE_CALL),
    // names and values
    way(&check::UNKNOWN_OPERATION),
    way(&check::UNKNOWN_TOOL),
    way(&check::WRONG_PHASE),
    way(&check::DUPLICATE_ALIAS),
    way(&check::UNUSED_REQUIREMENT),
    way(&check::DUPLICATE_ID),
    way(&check::ENV_CYCLE),
    way(&check::SHADOWED_NAME),
    way(&check::EMPTY_LOOP),
    way(&check::EMPTY_PROMPT),
    way(&check::EXACTLY_ONE),
    way(&check::INVALID_VALUE),
    way(&check::MISSING_FILE),
    way(&check::UNKNOWN_NAME),
    way(&check::UNKNOWN_STEP),
    way(&check::UNKNOWN_OUTPUT),
    way(&check::OUT_OF_SCOPE),
    way(&check::MAYBE_UNASSIGNED),
    way(&check::WRONG_HOLE_TYPE),
    way(&check::MALFORMED_HOLE),
    way(&check::UNKNOWN_FILTER),
    way(&check::EMPTY_DEFAULT),
    way(&check::UNEXPANDED_HOLE),
    way(&check::DOUBLE_BRACE),
    way(&check::DOLLAR_BRACE),
    // verdicts
    Lint { rule: &no_verdict::NO_VERDICT, found: Found::InTask(no_verdict::check) },
    Lint { rule: &judge::NO_JUDGE, found: Found::InTask(judge::check) },
    // evals
    Lint { rule: &agent::UNKNOWN_AGENT, found: Found::InEval(agent::check) },
    Lint { rule: &servers::UNKNOWN_SERVER, found: Found::InTask(servers::required) },
    Lint { rule: &servers::NO_TOOLS_PERMITTED, found: Found::InEval(servers::permitted) },
    Lint { rule: &unpinned_server::UNPINNED_SERVER, found: Found::InEval(unpinned_server::check) },
    Lint { rule: &assertions::IMPOSSIBLE_COUNT, found: Found::InEval(assertions::check) },
    Lint { rule: &duplicate_name::DUPLICATE_TASK_NAME, found: Found::InEval(duplicate_name::check) },
    Lint { rule: &oracle::NO_ORACLE_ENTRY, found: Found::InTask(oracle::missing) },
    Lint { rule: &oracle::UNUSED_ORACLE_ENTRY, found: Found::InEval(oracle::unused) },
];

/// The rule of this name.
pub fn rule(name: &str) -> Option<&'static Rule> {
    RULES.iter().map(|l| l.rule).find(|r| r.name == name)
}

pub fn in_task(view: &TaskView<'_>, out: &mut Diagnostics) {
    for lint in RULES {
        if let Found::InTask(check) = lint.found {
            check(view, out);
        }
    }
}

pub fn in_eval(view: &EvalView<'_>, out: &mut Diagnostics) {
    for lint in RULES {
        if let Found::InEval(check) = lint.found {
            check(view, out);
        }
    }
}
