//! Reads outcomes and durations from a results file, to show them in plans. Accepts gevals' results and upstream's; the
//! latter contain only tasks.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::Value;

use super::Done;
use crate::{event::Outcome, plan::Plan, prices::money, ty::duration};

/// Returns the path of the results file of an eval.
pub fn results_path(output_dir: &Path, eval: &str) -> PathBuf {
    let name: String = eval.chars().map(|c| if c == '/' || c == ' ' { '-' } else { c }).collect();
    output_dir.join(format!("gevals-{name}-out.json"))
}

/// The results of tasks and their actions; an empty name stands for the task itself.
#[derive(Clone, Debug, Default)]
pub struct Painted {
    tasks: HashMap<String, HashMap<String, Done>>,
    /// What actions that did not pass found, and what judges said.
    whys: HashMap<String, HashMap<String, Why>>,
}

/// The parts of a report: `why`, `expected`, `actual`, `with`, `answered`.
pub type Why = Vec<(&'static str, String)>;

impl Painted {
    /// Returns the result of an action of a task; `None` if the action was not reached.
    pub fn get(&self, task: &str, action: &str) -> Option<Done> {
        let task = self.tasks.get(task)?;
        // Assertions are reported by their kind.
        let kind = || task.get(&format!("assert/{}", action.strip_prefix("assert/")?.rsplit('/').next()?));
        task.get(action).or_else(kind).copied()
    }

    /// Returns why an action did not pass, or what the judge said.
    pub fn why(&self, task: &str, action: &str) -> Option<&Why> {
        self.whys.get(task)?.get(action)
    }
}

/// Reads a results file. For several runs of a task, the worst outcome and the longest time count. Returns `None` if
/// the file is not a results file.
pub fn read(file: &Value) -> Option<Painted> {
    let results = file.as_array().or_else(|| file.get("results")?.as_array())?;
    let mut painted = Painted::default();
    for result in results {
        let Some(name) = result.get("taskName").and_then(Value::as_str) else { continue };
        let whys = painted.whys.entry(name.to_owned()).or_default();
        whys.extend(reasons(result));
        let task = painted.tasks.entry(name.to_owned()).or_default();
        for (action, done) in run(result) {
            task.entry(action)
                .and_modify(|known| {
                    known.outcome = worse(known.outcome, done.outcome);
                    known.duration = known.duration.max(done.duration);
                })
                .or_insert(done);
        }
    }
    Some(painted)
}

/// What runs took, and the source of that information.
#[derive(Clone, Debug)]
pub struct Earlier {
    pub from: String,
    /// The currency of costs.
    currency: String,
    /// The average of one run of each task.
    tasks: HashMap<String, Took>,
}

/// What runs take. Tokens and cost are set if they were counted.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Took {
    pub time: Duration,
    pub tokens: Option<u64>,
    pub cost: Option<f64>,
}

impl Took {
    fn and(self, other: Self) -> Self {
        let tokens = self.tokens.into_iter().chain(other.tokens).reduce(u64::saturating_add);
        let cost = self.cost.into_iter().chain(other.cost).reduce(|a, b| a + b);
        Self { time: self.time.saturating_add(other.time), tokens, cost }
    }

    fn times(self, runs: u32) -> Self {
        Self {
            time: self.time.saturating_mul(runs),
            tokens: self.tokens.map(|tokens| tokens.saturating_mul(runs.into())),
            cost: self.cost.map(|cost| cost * f64::from(runs)),
        }
    }
}

impl Earlier {
    /// Reads a results file. Returns `None` if the file is not one.
    pub fn read(file: &Value, from: String) -> Option<Self> {
        let results = file.as_array().or_else(|| file.get("results")?.as_array())?;
        let mut runs: HashMap<String, Vec<Took>> = HashMap::new();
        for result in results {
            let name = result.get("taskName").and_then(Value::as_str);
            if let (Some(name), Some(time)) = (name, seconds(result.get("durationSeconds"))) {
                let estimate = |key: &str| result.get("tokenEstimate")?.get(key);
                let tokens = estimate("totalTokens").and_then(Value::as_u64);
                let cost = estimate("cost").and_then(Value::as_f64);
                runs.entry(name.to_owned()).or_default().push(Took { time, tokens, cost });
            }
        }
        let tasks = runs.into_iter().map(|(name, runs)| {
            let count = u32::try_from(runs.len()).unwrap_or(u32::MAX);
            let time = runs.iter().map(|took| took.time).sum::<Duration>() / count;
            let tokens = runs.iter().map(|took| took.tokens).sum::<Option<u64>>().map(|sum| sum / u64::from(count));
            let cost = runs.iter().map(|took| took.cost).sum::<Option<f64>>().map(|sum| sum / f64::from(count));
            (name, Took { time, tokens, cost })
        });
        let currency = file.pointer("/summary/currency").and_then(Value::as_str).unwrap_or_default().to_owned();
        Some(Self { from, currency, tasks: tasks.collect() })
    }

    /// Returns what the plans take in total, each as often as it will run, and for how many of them that is known.
    pub fn of(&self, plans: &[Plan]) -> (Took, usize) {
        self.together(plans, &|plan| plan.task.runs)
    }

    /// Returns the same for a given number of runs each.
    pub fn runs(&self, plans: &[Plan], runs: u32) -> (Took, usize) {
        self.together(plans, &|_| runs)
    }

    /// Formats the time, the tokens and the cost for people, as far as they are known.
    pub fn words(&self, took: Took) -> String {
        let tokens = took.tokens.map(|tokens| format!(", {tokens} tokens")).unwrap_or_default();
        let cost = took.cost.map(|cost| format!(", {} {}", money(cost), self.currency)).unwrap_or_default();
        format!("{}{tokens}{}", duration::format(took.time), cost.trim_end())
    }

    fn together(&self, plans: &[Plan], runs: &dyn Fn(&Plan) -> u32) -> (Took, usize) {
        let known = plans.iter().filter_map(|plan| Some(self.tasks.get(&plan.task.name.value)?.times(runs(plan))));
        known.fold((Took::default(), 0), |(sum, count), took| (sum.and(took), count + 1))
    }
}

/// Returns the worse of two outcomes.
pub(super) fn worse(a: Outcome, b: Outcome) -> Outcome {
    let rank = |outcome| match outcome {
        Outcome::Skipped => 0,
        Outcome::Passed => 1,
        Outcome::Cancelled => 2,
        Outcome::Failed => 3,
        Outcome::Broken => 4,
    };
    if rank(b) > rank(a) { b } else { a }
}

/// Returns what one run of a task did, by planned action.
fn run(result: &Value) -> HashMap<String, Done> {
    let mut done = HashMap::new();
    let passed = result.get("taskPassed").and_then(Value::as_bool) == Some(true);
    let asserted = result.get("allAssertionsPassed").and_then(Value::as_bool) != Some(false);
    let outcome = match result.get("outcome").and_then(Value::as_str) {
        Some("unchecked") => Some(Outcome::Skipped),
        Some(name) => named(name),
        None if passed && asserted => Some(Outcome::Passed),
        None => Some(Outcome::Failed),
    };
    if let Some(outcome) = outcome {
        done.insert(String::new(), Done { outcome, duration: seconds(result.get("durationSeconds")) });
    }
    let assertions = result.get("assertionResults").and_then(Value::as_object);
    for (kind, assertion) in assertions.into_iter().flatten() {
        let passed = assertion.get("passed").and_then(Value::as_bool) == Some(true);
        let outcome = if passed { Outcome::Passed } else { Outcome::Failed };
        done.insert(format!("assert/{kind}"), Done { outcome, duration: None });
    }
    // Attempts, by their round: the last one counts, and their times add up.
    let mut rounds: indexmap::IndexMap<String, Done> = indexmap::IndexMap::new();
    for phase in ["setupOutput", "agentOutput", "verifyOutput", "cleanupOutput"] {
        let mut open: Vec<&Value> = steps(result.get(phase), "Steps").rev().collect();
        while let Some(step) = open.pop() {
            open.extend(steps(Some(step), "steps").rev());
            let (Some(id), Some(report)) = (step.get("id").and_then(Value::as_str), step.get("report")) else {
                continue;
            };
            let Some(outcome) = report.get("outcome").and_then(Value::as_str).and_then(named) else { continue };
            let duration = seconds(report.get("duration"));
            let round = rounds.entry(without(id, '#')).or_insert(Done { outcome, duration: None });
            round.outcome = outcome;
            round.duration = added(round.duration, duration);
        }
    }
    for (id, round) in rounds {
        done.entry(without(&id, '['))
            .and_modify(|known: &mut Done| {
                known.outcome = worse(known.outcome, round.outcome);
                known.duration = added(known.duration, round.duration);
            })
            .or_insert(round);
    }
    done
}

/// Returns what the reports of a run say, by planned action. For several rounds, the last one counts.
fn reasons(result: &Value) -> HashMap<String, Why> {
    let mut whys = HashMap::new();
    for phase in ["setupOutput", "agentOutput", "verifyOutput", "cleanupOutput"] {
        let mut open: Vec<&Value> = steps(result.get(phase), "Steps").rev().collect();
        while let Some(step) = open.pop() {
            open.extend(steps(Some(step), "steps").rev());
            let (Some(id), Some(report)) = (step.get("id").and_then(Value::as_str), step.get("report")) else {
                continue;
            };
            let explained =
                report.get("judgement").is_some() || report.get("outcome").and_then(Value::as_str) != Some("passed");
            if let Some(why) = Some(told(report)).filter(|why| explained && !why.is_empty()) {
                whys.insert(without(&without(id, '#'), '['), why);
            }
        }
    }
    whys
}

/// Returns the parts of a report: its message, what was expected and found, the values of its holes, and the answer.
fn told(report: &Value) -> Why {
    let text =
        |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().trim_end().to_owned();
    let mut told = vec![("why", text(report, "message"))];
    if report.get("outcome").and_then(Value::as_str) != Some("passed") {
        for difference in steps(Some(report), "differences") {
            told.push(("expected", format!("{}: {}", text(difference, "subject"), text(difference, "expected"))));
            told.push(("actual", text(difference, "actual")));
        }
        let filled = report.get("filled").and_then(Value::as_object).into_iter().flatten();
        let filled: Vec<_> = filled.filter_map(|(name, value)| Some(format!("{name} = {}", value.as_str()?))).collect();
        told.push(("with", filled.join(", ")));
        for (name, key) in [("answered", "answer"), ("stdout", "stdout"), ("stderr", "stderr")] {
            told.push((name, text(report, key)));
        }
    }
    told.retain(|(_, text)| !text.is_empty());
    told
}

fn steps<'a>(value: Option<&'a Value>, key: &str) -> std::slice::Iter<'a, Value> {
    value.and_then(|v| v.get(key)).and_then(Value::as_array).map_or([].iter(), |steps| steps.iter())
}

fn named(outcome: &str) -> Option<Outcome> {
    use Outcome::{Broken, Cancelled, Failed, Passed, Skipped};
    [Passed, Failed, Broken, Skipped, Cancelled].into_iter().find(|o| o.name() == outcome)
}

fn seconds(value: Option<&Value>) -> Option<Duration> {
    // Milliseconds are precise enough for readers.
    let millis = (value?.as_f64()? * 1e3).round();
    (0.0..1e15).contains(&millis).then(|| Duration::from_millis(millis as u64))
}

fn added(a: Option<Duration>, b: Option<Duration>) -> Option<Duration> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.saturating_add(b)),
        _ => a.or(b),
    }
}

/// Removes from each part of an id what follows a mark: `loop[1]/x#2` becomes `loop[1]/x`.
fn without(id: &str, mark: char) -> String {
    let part = |part: &str| part.split(mark).next().unwrap_or_default().to_owned();
    id.split('/').map(part).collect::<Vec<_>>().join("/")
}
