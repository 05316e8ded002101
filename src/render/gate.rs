//! `gevals plan --gate`: how often tasks must run to show a pass rate, and what that would take.

use std::fmt::Write;

use super::results::{Earlier, Took};
use crate::{
    builtin::count,
    plan::{EvalPlan, Plan},
    statistics::Rate,
};

/// The probability that a task that is better than the gate requires meets it.
const POWERS: [f64; 2] = [0.8, 0.95];
/// How much better: the share of the allowed failures that it does not have.
const BETTER: [f64; 4] = [0.5, 0.8, 0.9, 1.0];

/// Describes the runs that a gate needs, depending on how good tasks are, with their time, tokens and cost
/// based on what an earlier run took.
pub fn gate(rate: Rate, eval: Option<&EvalPlan>, plans: &[Plan], earlier: Option<&Earlier>) -> String {
    let mut out = String::new();
    let name = eval.map_or_else(|| count(plans.len(), "task", "tasks"), |eval| eval.name.clone());
    let percent = |share: f64| format!("{} %", (share * 1000.0).round() / 10.0);
    let fewest = rate.fewest().unwrap_or(0);
    writeln!(
        out,
        "{name}: showing `{rate}` takes at least {}, all of which pass",
        count(fewest as usize, "run", "runs")
    )
    .ok();
    writeln!(out, "\n{:>16}  {:>10}  {:>6}  {:>6}", "true pass rate", "meets it", "runs", "passes").ok();
    for better in BETTER {
        let truly = rate.at_least + (1.0 - rate.at_least) * better;
        let mut last = None;
        for power in POWERS {
            let Some((runs, passes, likely)) = rate.planned(truly, power) else { continue };
            if last.replace(runs) == Some(runs) {
                continue;
            }
            let takes = earlier.map(|earlier| taken(earlier, plans, runs)).unwrap_or_default();
            writeln!(out, "{:>16}  {:>10}  {runs:>6}  {passes:>6}{takes}", percent(truly), percent(likely)).ok();
        }
    }
    match earlier {
        Some(earlier) => {
            writeln!(out, "\ntime, tokens and cost are for all tasks one after another, as in {}", earlier.from).ok()
        }
        None => writeln!(out, "\ntime, tokens and cost are shown once there are results").ok(),
    };
    out
}

fn taken(earlier: &Earlier, plans: &[Plan], runs: u32) -> String {
    let (took, known) = earlier.runs(plans, runs);
    if known == 0 {
        return String::new();
    }
    let of = if known < plans.len() { format!(" ({known} of {} tasks)", plans.len()) } else { String::new() };
    let time = std::time::Duration::from_secs(took.time.as_secs().max(1));
    format!("  {}{of}", earlier.words(Took { time, ..took }))
}
