//! `gevals prove`: whether an eval's tasks can fail. An agent that does nothing must not pass, the scripted one must, and each mutant of
//! what it does should be noticed.

use std::{collections::HashMap, fmt::Write, path::PathBuf, sync::Arc, time::Duration};

use clap::Parser;
use indexmap::IndexMap;
use serde_json::{Value, json};
use tokio::sync::mpsc::unbounded_channel;

use super::{args, ready::prepare};
use crate::{
    agent,
    cli::{Global, complain, packages, print, status},
    diagnostic::visible,
    event::{EventKind, Outcome, Verdict},
    host::{RealHost, disk::write_atomic},
    plan::{EvalPlan, Plan, mutant, wire},
    run::{Selection, interrupts, run_eval},
};

const EXAMPLES: &str = "\
Examples:
  gevals prove eval.yaml                          can each task fail?
  gevals prove eval.yaml --agent oracle.yaml      where the eval's own agent follows no script
  gevals prove eval.yaml --agent builtin.replay:.gevals/runs/RUN/recording.jsonl
                                                  the script is what an agent did when it passed
  gevals prove eval.yaml --min-score 0.9          exit 1 where fewer mutants are noticed
  gevals prove eval.yaml --badge proved.json      for https://shields.io/badges/endpoint-badge

Each task is run with its script, with an agent that does nothing, with every mutant of the script –
a call less, two calls exchanged, an argument with another value, a call that fails or has a wrong
answer, no answer at the end – and with its script again, in the world that all of these have left.

Exit status: 0 all is well, 1 a task passes although nothing is done, or does not pass as it should,
or the score is too low, 2 used wrongly, 3 nothing could run";

/// Try whether the tasks of an eval can fail: do nothing, do each thing wrong, and see what is noticed.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// An eval file, or a folder that holds one.
    eval: PathBuf,
    /// Only tasks whose name matches this pattern.
    #[arg(short, long, visible_alias = "task", value_name = "REGEX")]
    run: Option<String>,
    /// A script to follow, instead of the eval's agent: a file of kind Oracle, or a recording, as builtin.replay:RECORDING.
    #[arg(long, value_name = "FILE")]
    agent: Option<String>,
    /// Other servers: an MCP config, instead of the one that the eval names.
    #[arg(long, value_name = "FILE")]
    mcp_config_file: Option<String>,
    /// The share of mutants that must be noticed, from 0 to 1.
    #[arg(long, value_name = "SHARE", value_parser = crate::cli::result::share)]
    min_score: Option<f64>,
    /// Where a badge is written, as JSON.
    #[arg(long, value_name = "FILE")]
    badge: Option<PathBuf>,
    /// What is printed.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Format {
    Text,
    Json,
}

/// The command line of a run.
#[derive(Parser)]
#[command(no_binary_name = true)]
struct Line {
    #[command(flatten)]
    args: args::Args,
}

/// What is tried with one task.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Trial {
    Script,
    Nothing,
    Mutant { title: String, cure: String },
    Again,
}

/// How one run ended, and the first check that did not pass.
#[derive(Clone, Debug)]
struct Ended {
    verdict: Verdict,
    reason: String,
    by: Option<String>,
}

/// One task's trials.
#[derive(Debug, Default)]
struct Proof {
    trials: Vec<(Trial, Ended)>,
}

impl Proof {
    fn of(&self, wanted: &Trial) -> Option<&Ended> {
        self.trials.iter().find(|(trial, _)| trial == wanted).map(|(_, ended)| ended)
    }

    fn mutants(&self) -> impl Iterator<Item = (&str, &str, &Ended)> {
        self.trials.iter().filter_map(|(trial, ended)| match trial {
            Trial::Mutant { title, cure } => Some((title.as_str(), cure.as_str(), ended)),
            _ => None,
        })
    }

    /// Noticed, and all that could be carried out.
    fn counts(&self) -> (usize, usize) {
        let noticed = self.mutants().filter(|(.., ended)| is_noticed(ended)).count();
        (noticed, self.mutants().filter(|(.., ended)| is_noticed(ended) || ended.verdict == Verdict::Passed).count())
    }

    /// What is wrong with the task itself.
    fn faults(&self) -> Vec<String> {
        let mut out = Vec::new();
        match self.of(&Trial::Script) {
            Some(ended) if ended.verdict != Verdict::Passed => {
                out.push(format!("with its script it is {}: {}", ended.verdict.name(), ended.reason));
            }
            _ => {}
        }
        if self.of(&Trial::Nothing).is_some_and(|ended| ended.verdict == Verdict::Passed) {
            out.push("it passes although nothing is done".to_owned());
        }
        match (self.of(&Trial::Script), self.of(&Trial::Again)) {
            (Some(first), Some(again)) if first.verdict == Verdict::Passed && again.verdict != Verdict::Passed => {
                out.push(format!(
                    "it passed, and in the world that is left it is {}: {}; its cleanup leaves something",
                    again.verdict.name(),
                    again.reason
                ));
            }
            _ => {}
        }
        out
    }
}

fn is_noticed(ended: &Ended) -> bool {
    matches!(ended.verdict, Verdict::Failed | Verdict::Unchecked)
}

pub fn main(args: &Args, global: Global) -> u8 {
    let mut words = vec![args.eval.display().to_string()];
    for (name, value) in [("--run", &args.run), ("--agent", &args.agent), ("--mcp-config-file", &args.mcp_config_file)]
    {
        words.extend(value.iter().flat_map(|value| [name.to_owned(), value.clone()]));
    }
    let line = match Line::try_parse_from(words) {
        Ok(line) => line.args,
        Err(error) => {
            complain(error.to_string().lines().next().unwrap_or_default().trim_start_matches("error: "));
            return status::USAGE;
        }
    };
    let ready = match prepare(&line, global) {
        Ok(ready) => ready,
        Err(exit) => return exit,
    };
    let mut selected: Vec<Plan> =
        ready.selection.of(&ready.plan).into_iter().map(|at| ready.plan.tasks[at].clone()).collect();
    let host = RealHost::new();
    if let Some(why) = selected.iter_mut().find_map(|plan| agent::follow(&host, plan).err()) {
        complain(&why);
        return status::BROKEN;
    }
    let scripted = |plan: &&Plan| !mutant::mutants(plan).is_empty();
    if !selected.iter().any(|plan| scripted(&plan)) {
        complain(
            "no task has a script to follow: `--agent FILE` names one, a file of kind Oracle, and \
             `--agent builtin.replay:RECORDING` what an agent did (`gevals explain agents`)",
        );
        return status::USAGE;
    }
    let (plan, trials) = trials(&ready.plan, &selected);
    let mut options = args::options(&line, Selection::default(), None);
    options.secrets.extend(wire::eval_secrets(&plan));
    match carry_out(&plan, options) {
        Ok(ended) => {
            let mut proofs: IndexMap<String, Proof> = IndexMap::new();
            for (index, (task, trial)) in trials.into_iter().enumerate() {
                let ended = ended.get(&index).cloned().unwrap_or(Ended {
                    verdict: Verdict::Cancelled,
                    reason: "it was not run".to_owned(),
                    by: None,
                });
                proofs.entry(task).or_default().trials.push((trial, ended));
            }
            tell(args, &proofs)
        }
        Err((exit, faults)) => {
            faults.iter().for_each(|fault| complain(fault));
            exit
        }
    }
}

/// A plan that holds every trial of every task, one after another.
fn trials(plan: &EvalPlan, selected: &[Plan]) -> (EvalPlan, Vec<(String, Trial)>) {
    let (mut tasks, mut trials) = (Vec::new(), Vec::new());
    for one in selected {
        let name = &one.task.name.value;
        let mut add = |trial: Trial, plan: Plan| {
            trials.push((name.clone(), trial));
            tasks.push(plan);
        };
        add(Trial::Script, mutant::once(one));
        add(Trial::Nothing, mutant::idle(one));
        for mutant in mutant::mutants(one) {
            add(Trial::Mutant { title: mutant.title, cure: mutant.cure }, mutant.plan);
        }
        add(Trial::Again, mutant::once(one));
    }
    (EvalPlan { tasks, ..plan.clone() }, trials)
}

/// Runs them; how each ended, by its place.
fn carry_out(plan: &EvalPlan, options: crate::run::RunOptions) -> Result<HashMap<usize, Ended>, (u8, Vec<String>)> {
    let broken = |why: String| (status::BROKEN, vec![why]);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| broken(format!("cannot start: {error}")))?;
    let host = Arc::new(RealHost::new());
    let _group = host.gather();
    let (summary, checks) = runtime.block_on(async {
        let interrupts = interrupts().map_err(|error| broken(format!("cannot listen for signals: {error}")))?;
        packages::ensure(plan, &host).await.map_err(|faults| (status::BROKEN, faults))?;
        let (sink, mut events) = unbounded_channel::<crate::event::Event>();
        let listen = async {
            let mut checks: HashMap<usize, String> = HashMap::new();
            while let Some(event) = events.recv().await {
                let (Some(task), EventKind::ActionFinished { action, report }) = (event.task, event.kind) else {
                    continue;
                };
                // What fails within a step may be one of several alternatives: the step itself decides.
                let judges = ["verify/", "assert/"]
                    .iter()
                    .any(|phase| action.strip_prefix(phase).is_some_and(|id| !id.contains('/')));
                if judges && report.outcome == Outcome::Failed {
                    checks.entry(task.index).or_insert(action);
                }
            }
            checks
        };
        Ok(tokio::join!(run_eval(plan, &options, host.clone(), interrupts, sink), listen))
    })?;
    runtime.shutdown_timeout(Duration::from_millis(200));
    if summary.exit >= 128 || !summary.faults.is_empty() {
        return Err((if summary.exit >= 128 { summary.exit } else { status::BROKEN }, summary.faults));
    }
    let ended = summary.tasks.into_iter().map(|end| {
        let by = checks.get(&end.task.index).cloned();
        (end.task.index, Ended { verdict: end.verdict, reason: end.reason, by })
    });
    Ok(ended.collect())
}

fn tell(args: &Args, proofs: &IndexMap<String, Proof>) -> u8 {
    let (noticed, all) = proofs.values().map(Proof::counts).fold((0, 0), |(a, b), (c, d)| (a + c, b + d));
    let score = if all == 0 { 0.0 } else { noticed as f64 / all as f64 };
    match args.format {
        Format::Text => print(&text(proofs, noticed, all)),
        Format::Json => print(&format!("{:#}\n", json(proofs, noticed, all))),
    }
    if let Some(path) = &args.badge {
        let colour = match score {
            0.9.. => "brightgreen",
            0.7.. => "yellow",
            _ => "red",
        };
        let badge =
            json!({ "schemaVersion": 1, "label": "evals can fail", "message": share(noticed, all), "color": colour });
        if let Err(error) = write_atomic(path, format!("{badge:#}\n").as_bytes()) {
            complain(&format!("cannot write `{}`: {error}", path.display()));
            return status::BROKEN;
        }
    }
    let too_low = args.min_score.is_some_and(|least| score < least);
    if too_low || proofs.values().any(|proof| !proof.faults().is_empty()) { status::NO } else { status::OK }
}

fn share(noticed: usize, all: usize) -> String {
    match all {
        0 => "nothing to notice".to_owned(),
        _ => format!("{} %", (noticed * 100) / all),
    }
}

fn text(proofs: &IndexMap<String, Proof>, noticed: usize, all: usize) -> String {
    let mut out = String::new();
    let line = |text: &str| visible(text.lines().next().unwrap_or_default()).into_owned();
    for (name, proof) in proofs {
        let (noticed, all) = proof.counts();
        writeln!(out, "{}  {noticed} of {all} mutants noticed", line(name)).ok();
        for fault in proof.faults() {
            writeln!(out, "  ✗ {}", line(&fault)).ok();
        }
        for (title, cure, ended) in proof.mutants() {
            match (is_noticed(ended), ended.verdict, &ended.by) {
                (true, _, Some(by)) => writeln!(out, "  ✓ {}: noticed by {}", line(title), line(by)),
                (true, ..) => writeln!(out, "  ✓ {}: noticed: {}", line(title), line(&ended.reason)),
                (false, Verdict::Passed, _) => {
                    writeln!(out, "  ✗ {}: not noticed; it takes {}", line(title), line(cure))
                }
                (false, verdict, _) => {
                    writeln!(
                        out,
                        "  - {}: {}, so it does not count: {}",
                        line(title),
                        verdict.name(),
                        line(&ended.reason)
                    )
                }
            }
            .ok();
        }
    }
    writeln!(out, "\n{} of {all} mutants noticed ({})", noticed, share(noticed, all)).ok();
    out
}

fn json(proofs: &IndexMap<String, Proof>, noticed: usize, all: usize) -> Value {
    let ended =
        |ended: Option<&Ended>| ended.map(|e| json!({ "verdict": e.verdict.name(), "reason": e.reason, "by": e.by }));
    let tasks: Vec<_> = proofs
        .iter()
        .map(|(name, proof)| {
            let (noticed, all) = proof.counts();
            let mutants = proof.mutants().map(|(title, cure, e)| {
                json!({ "mutant": title, "noticed": is_noticed(e), "by": e.by, "verdict": e.verdict.name(), "cure": cure })
            });
            json!({
                "task": name,
                "noticed": noticed,
                "mutants": all,
                "faults": proof.faults(),
                "script": ended(proof.of(&Trial::Script)),
                "nothing": ended(proof.of(&Trial::Nothing)),
                "again": ended(proof.of(&Trial::Again)),
                "tried": mutants.collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({ "version": 1, "noticed": noticed, "mutants": all, "tasks": tasks })
}
