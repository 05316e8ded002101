//! Reads what `gevals prove` found, to show it in plans: which check noticed which mutant, and which noticed none.

use std::collections::HashMap;

use serde_json::Value;

use super::Done;
use crate::{
    builtin::count,
    event::Outcome,
    plan::{Plan, PlanPhase, planned_id},
};

/// The proofs of tasks, by task name.
#[derive(Clone, Debug, Default)]
pub struct Proved {
    tasks: HashMap<String, Task>,
}

#[derive(Clone, Debug, Default)]
struct Task {
    is_proved: bool,
    faults: Vec<String>,
    /// The mutants that count.
    mutants: usize,
    noticed: usize,
    /// The mutants that each check noticed, by its id in the plan.
    by: HashMap<String, Vec<String>>,
    missed: Vec<String>,
}

/// Reads the output of `gevals prove --format json`. Returns `None` if it is something else.
pub fn read(file: &Value) -> Option<Proved> {
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let number = |value: &Value, key: &str| usize::try_from(value.get(key)?.as_u64()?).ok();
    let mut proved = Proved::default();
    for told in file.get("tasks")?.as_array()? {
        let mut task = Task {
            is_proved: told.get("faults")?.as_array()?.is_empty(),
            faults: told.get("faults")?.as_array()?.iter().filter_map(|f| Some(f.as_str()?.to_owned())).collect(),
            mutants: number(told, "mutants")?,
            noticed: number(told, "noticed")?,
            ..Task::default()
        };
        for tried in told.get("tried")?.as_array()? {
            let mutant = text(tried, "mutant")?;
            match (tried.get("noticed")?.as_bool()?, text(tried, "by"), text(tried, "verdict")) {
                (true, Some(by), _) => task.by.entry(planned_id(&by)).or_default().push(mutant),
                (false, _, Some(verdict)) if verdict == "passed" => task.missed.push(mutant),
                _ => {}
            }
        }
        proved.tasks.insert(text(told, "task")?, task);
    }
    Some(proved)
}

impl Proved {
    /// Returns a check that noticed a mutant as passed, and one that noticed none as not reached.
    pub fn get(&self, task: &str, action: &str) -> Option<Done> {
        let task = self.tasks.get(task)?;
        let outcome = match action {
            "" if task.is_proved => Outcome::Passed,
            "" => Outcome::Failed,
            check if !is_check(check) => return None,
            check if task.by.contains_key(check) => Outcome::Passed,
            _ => Outcome::Skipped,
        };
        Some(Done { outcome, duration: None })
    }

    /// Describes how many mutants a check noticed, and which. With an empty name: those that no check noticed.
    pub fn says(&self, task: &str, action: &str) -> Option<String> {
        let task = self.tasks.get(task)?;
        let listed = |title: String, mutants: &[String]| match mutants {
            [] => title,
            some => format!("{title}: {}", some.join("; ")),
        };
        if action.is_empty() {
            let title = format!("{} of {} detected", task.noticed, count(task.mutants, "mutant", "mutants"));
            let missed =
                if task.missed.is_empty() { title } else { listed(format!("{title}; not detected"), &task.missed) };
            return Some(task.faults.iter().fold(missed, |all, fault| format!("{all}; {fault}")));
        }
        if !is_check(action) {
            return None;
        }
        let none = Vec::new();
        let noticed = task.by.get(action).unwrap_or(&none);
        Some(match noticed.len() {
            0 => "detected no mutant".to_owned(),
            some => listed(format!("detected {}", count(some, "mutant", "mutants")), noticed),
        })
    }

    /// Returns the checks of a proof that the plan does not have, which means that the proof is of another version of
    /// the task.
    pub fn unknown<'p>(&self, plans: impl Iterator<Item = &'p Plan>) -> Vec<String> {
        let mut unknown = Vec::new();
        for plan in plans {
            let Some(task) = self.tasks.get(&plan.task.name.value) else { continue };
            let has = |check: &String| {
                let phases = [PlanPhase::Verify, PlanPhase::Assert];
                phases.iter().flat_map(|phase| plan.members(*phase)).any(|ix| plan.action(ix).id == *check)
            };
            unknown.extend(
                task.by.keys().filter(|check| !has(check)).map(|check| format!("{}: {check}", plan.task.name.value)),
            );
        }
        unknown.sort();
        unknown
    }

    /// Whether it contains one of these tasks.
    pub fn is_of<'p>(&self, mut plans: impl Iterator<Item = &'p Plan>) -> bool {
        plans.any(|plan| self.tasks.contains_key(&plan.task.name.value))
    }
}

/// Whether an action decides the task: a top-level step of verify, or an assertion.
fn is_check(action: &str) -> bool {
    action.starts_with("assert/") || action.strip_prefix("verify/").is_some_and(|id| !id.contains('/'))
}
