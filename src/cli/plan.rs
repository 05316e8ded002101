//! `gevals plan`: what would happen.

use std::path::PathBuf;

use regex::Regex;

use super::{Global, compile_paths, complain, print, print_findings, status, unreadable};
use crate::{
    diagnostic::Strength,
    plan::{EvalPlan, Plan},
    render::{FORMATS, View},
    source::Sources,
};

const EXAMPLES: &str = "\
Examples:
  gevals plan eval.yaml                       what an eval would do
  gevals plan tasks/create-pod.yaml           what one task would do
  gevals plan eval.yaml --format mermaid      a picture for a pull request

Exit status: 0 there is a plan, 2 there is none";

/// Show what a task or an eval would do, without doing it.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Task and eval files, or folders.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// How the plan is drawn.
    #[arg(long, default_value = "tree", value_parser = clap::builder::PossibleValuesParser::new(FORMATS.iter().map(|f| f.name)))]
    format: String,
    /// Show every task whole, however many there are.
    #[arg(long)]
    expand: bool,
    /// Only tasks whose name matches this pattern.
    #[arg(long, value_name = "REGEX")]
    task: Option<Regex>,
}

pub fn main(args: &Args, global: Global) -> u8 {
    let sources = Sources::default();
    let compiled = compile_paths(&args.paths, &sources);
    if unreadable(&compiled) {
        return status::USAGE;
    }
    if compiled.diagnostics.iter().any(|d| d.strength == Strength::Hard) {
        let hard: Vec<_> = compiled.diagnostics.iter().filter(|d| d.strength == Strength::Hard).cloned().collect();
        print_findings(&hard, &sources, compiled.project.files(), global);
        complain("there is no plan while something has no meaning");
        return status::USAGE;
    }
    let wanted = |plan: &Plan| args.task.as_ref().is_none_or(|r| r.is_match(&plan.task.name.value));
    let Some(format) = FORMATS.iter().find(|f| f.name == args.format) else { return status::USAGE };
    let out = std::io::stdout();
    let colour = global.colour(&out);
    // A task that was asked for by name is shown whole.
    let expand = args.expand || args.task.is_some();
    let mut shown = 0;
    let selected: std::collections::HashSet<usize> =
        compiled.project.evals.iter().flat_map(|e| &e.selected).map(|s| s.task).collect();
    for plan in compiled.evals.iter().flatten() {
        let plan = EvalPlan { tasks: plan.tasks.iter().filter(|p| wanted(p)).cloned().collect(), ..plan.clone() };
        if plan.tasks.is_empty() {
            continue;
        }
        shown += 1;
        print(&(format.render)(&View { eval: Some(&plan), colour, expand, ..View::new(&plan.tasks) }));
    }
    let loose: Vec<Plan> = compiled
        .tasks
        .iter()
        .enumerate()
        .filter(|(i, _)| !selected.contains(i))
        .filter_map(|(_, p)| p.clone())
        .filter(|p| wanted(p))
        .collect();
    if !loose.is_empty() {
        shown += 1;
        print(&(format.render)(&View { colour, expand, ..View::new(&loose) }));
    }
    if shown == 0 {
        complain("no task is selected");
        return status::USAGE;
    }
    status::OK
}
