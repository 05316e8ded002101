//! How strong a server's evals are: each tool is broken in turn, and some eval must fail.
//!
//! A tool is broken where its answer passes by: it is called once, and what it answered is graded again and again, each
//! time changed in another way. So nothing is called more often than by a plain run, and without a model the report is
//! the same each time.

use serde_json::{Map, Value, json};

use super::{
    Server,
    run::{Done, Ended, Running, grade, one, run},
};
use crate::primitive::{Eval, Grading, Level};

/// A way in which a tool is broken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Mutant {
    /// It answers with an error.
    Error,
    /// It answers nothing.
    Empty,
    /// Each value of its answer is another one.
    WrongValue,
    /// It answers what another tool has answered.
    OtherAnswer,
    /// It is not listed.
    Gone,
    /// Its description is empty.
    Undescribed,
}

impl Mutant {
    /// The word in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Empty => "empty",
            Self::WrongValue => "wrong-value",
            Self::OtherAnswer => "other-answer",
            Self::Gone => "gone",
            Self::Undescribed => "undescribed",
        }
    }
}

/// What the evals see of one tool.
#[derive(Clone, Debug)]
pub struct ToolStrength {
    pub tool: String,
    /// The evals that look at it and pass as long as it is whole.
    pub evals: Vec<String>,
    /// Each with the eval that failed; `None`: no eval noticed.
    pub mutants: Vec<(Mutant, Option<String>)>,
}

impl ToolStrength {
    /// How many mutants some eval noticed.
    pub fn killed(&self) -> usize {
        self.mutants.iter().filter(|(_, by)| by.is_some()).count()
    }
}

/// The mutation score of a server's evals.
#[derive(Debug)]
pub struct Strength {
    /// Evals that do not pass while nothing is broken: they do not count.
    pub failing: Vec<Done>,
    /// Evals that were not run, as nothing was given to run them with; and scenarios.
    pub unused: Vec<String>,
    /// In the order of `tools/list`.
    pub tools: Vec<ToolStrength>,
}

impl Strength {
    /// Noticed mutants, and all.
    pub fn counts(&self) -> (usize, usize) {
        let killed = self.tools.iter().map(ToolStrength::killed).sum();
        (killed, self.tools.iter().map(|tool| tool.mutants.len()).sum())
    }
}

/// Measures executions, and invocations where there is a model; what a judge grades, where there is one.
pub async fn strength(running: &Running<'_>, server: &Server, tools: &[Value], evals: &[&Eval]) -> Strength {
    let usable = |eval: &Eval| match (eval.level(), eval.grading.value) {
        (Level::Scenario, _) => false,
        (Level::Invocation, Grading::LlmAsJudge) => running.model.is_some() && running.judge.is_some(),
        (Level::Invocation, Grading::ExactMatch) => running.model.is_some(),
        (Level::Execution, Grading::LlmAsJudge) => running.judge.is_some(),
        (Level::Execution, Grading::ExactMatch) => true,
    };
    let (used, unused): (Vec<&Eval>, Vec<&Eval>) = evals.iter().copied().partition(|eval| usable(eval));
    let once = Running { runs: 1, ..*running };
    let whole = run(&once, server, tools, &used).await;
    let mut passing: Vec<(&Eval, Done)> = used.into_iter().zip(whole).collect();
    let failing = passing.extract_if(.., |(_, done)| done.ended != Ended::Passed).map(|(_, done)| done).collect();
    // What a judge grades comes last: it costs more, and may decide otherwise each time.
    passing.sort_by_key(|(eval, _)| eval.grading.value);

    let mut report = Vec::new();
    for tool in tools.iter().filter_map(|tool| tool.get("name")?.as_str()) {
        let own: Vec<&(&Eval, Done)> = passing.iter().filter(|(eval, _)| looks_at(eval, tool)).collect();
        let mut mutants = Vec::new();
        let foreign: Vec<&Value> = passing
            .iter()
            .filter(|(eval, _)| eval.level() == Level::Execution && !looks_at(eval, tool))
            .filter_map(|(_, done)| done.result.as_ref())
            .collect();
        for mutant in [Mutant::Error, Mutant::Empty, Mutant::WrongValue, Mutant::OtherAnswer] {
            if mutant == Mutant::OtherAnswer && foreign.is_empty() {
                continue;
            }
            let (mut by, mut changes, mut looks) = (None, false, false);
            for (eval, done) in &own {
                let Some(result) = &done.result else { continue };
                looks = true;
                let Some(broken) = broken(mutant, result, &foreign) else { continue };
                changes = true;
                if grade(&once, eval, &broken).await.0 == Ended::Failed {
                    by = Some(eval.id.value.clone());
                    break;
                }
            }
            // A mutant that changes no answer is none.
            if changes || !looks {
                mutants.push((mutant, by));
            }
        }
        let invocations: Vec<&Eval> =
            own.iter().map(|(eval, _)| *eval).filter(|eval| eval.level() == Level::Invocation).collect();
        if !invocations.is_empty() {
            for mutant in [Mutant::Gone, Mutant::Undescribed] {
                let Some(listed) = relisted(mutant, tools, tool) else { continue };
                let mut by = None;
                for eval in &invocations {
                    if one(&once, server, &listed, eval, 0).await.ended == Ended::Failed {
                        by = Some(eval.id.value.clone());
                        break;
                    }
                }
                mutants.push((mutant, by));
            }
        }
        let evals = own.iter().map(|(eval, _)| eval.id.value.clone()).collect();
        report.push(ToolStrength { tool: tool.to_owned(), evals, mutants });
    }
    let unused = unused.into_iter().map(|eval| eval.id.value.clone()).collect();
    Strength { failing, unused, tools: report }
}

/// Whether an eval calls the tool, or expects that it is called.
fn looks_at(eval: &Eval, tool: &str) -> bool {
    eval.tool() == Some(tool)
}

/// The answer of a broken tool; `None` where it is the right one.
fn broken(mutant: Mutant, result: &Value, foreign: &[&Value]) -> Option<Value> {
    let other = match mutant {
        Mutant::Error => json!({"content": [{"type": "text", "text": "the tool is broken"}], "isError": true}),
        Mutant::Empty => json!({"content": []}),
        Mutant::WrongValue => {
            let mut wrong = result.clone();
            for block in wrong.get_mut("content").and_then(Value::as_array_mut).into_iter().flatten() {
                for key in ["text", "data", "uri", "resource"] {
                    if let Some(value) = block.get_mut(key) {
                        other_value(value);
                    }
                }
            }
            if let Some(structured) = wrong.get_mut("structuredContent") {
                other_value(structured);
            }
            wrong
        }
        Mutant::OtherAnswer => (*foreign.iter().find(|other| **other != result)?).clone(),
        Mutant::Gone | Mutant::Undescribed => return None,
    };
    (&other != result).then_some(other)
}

/// Makes each value another one of its kind. A text that holds JSON still does.
fn other_value(value: &mut Value) {
    match value {
        Value::Null => *value = Value::Bool(true),
        Value::Bool(b) => *b = !*b,
        Value::Number(number) => {
            let next = number.as_i64().and_then(|n| n.checked_add(1)).map(Value::from);
            *value = next.or_else(|| number.as_f64().map(|n| json!(n / 2.0 + 1.5))).unwrap_or(json!(0));
        }
        Value::String(text) => match serde_json::from_str::<Value>(text) {
            Ok(mut inner) if inner.is_object() || inner.is_array() => {
                other_value(&mut inner);
                *text = inner.to_string();
            }
            _ => text.push_str(" (changed)"),
        },
        Value::Array(items) if items.is_empty() => items.push(Value::Null),
        Value::Array(items) => items.iter_mut().for_each(other_value),
        Value::Object(map) if map.is_empty() => *map = Map::from_iter([("changed".to_owned(), Value::Bool(true))]),
        Value::Object(map) => map.values_mut().for_each(other_value),
    }
}

/// The tools as a model sees them while one is broken; `None` where that is no change.
fn relisted(mutant: Mutant, tools: &[Value], tool: &str) -> Option<Vec<Value>> {
    let is_it = |item: &Value| item.get("name").and_then(Value::as_str) == Some(tool);
    let mut listed = tools.to_vec();
    match mutant {
        Mutant::Gone => listed.retain(|item| !is_it(item)),
        _ => {
            let item = listed.iter_mut().find(|item| is_it(item))?.as_object_mut()?;
            item.remove("description").filter(|text| text.as_str().is_some_and(|text| !text.is_empty()))?;
        }
    }
    Some(listed)
}
