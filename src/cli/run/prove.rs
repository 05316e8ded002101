//! `gevals prove`: whether an eval's tasks can fail. An agent that does nothing must not pass, the scripted one must
//! pass, and each mutant of the script should be detected.

use std::{collections::HashMap, fmt::Write, path::PathBuf, sync::Arc, time::Duration};

use clap::Parser;
use indexmap::IndexMap;
use serde_json::{Value, json};
use tokio::sync::mpsc::unbounded_channel;

use super::{
    args,
    journals::{begin, recover_others},
    ready::prepare,
};
use crate::{
    agent,
    cli::{Global, complain, note, packages, print, status},
    diagnostic::visible,
    event::{EventKind, Outcome, TaskRun, Verdict},
    host::{Gathered, RealHost, disk::write_atomic},
    journal::Journal,
    plan::{EvalPlan, Plan, mutant, wire},
    run::{Left, Only, RunOptions, Trials, interrupts, run_eval},
};

const EXAMPLES: &str = "\
Examples:
  gevals prove eval.yaml                          test whether each task can fail
  gevals prove eval.yaml --agent oracle.yaml      if the eval's own agent follows no script
  gevals prove eval.yaml --agent builtin.replay:.gevals/runs/RUN/recording.jsonl
                                                  take the script from a run of an agent that passed
  gevals prove eval.yaml --min-score 0.9          exit with 1 if fewer mutants are detected
  gevals prove eval.yaml --min-task-score 0.5     the same for each task on its own
  gevals prove eval.yaml --format json > proof.json
                                                  record which check detected which mutant, for
                                                  `gevals plan eval.yaml --proof proof.json --open`
  gevals prove eval.yaml --badge proved.json      for https://shields.io/badges/endpoint-badge

Each task is run with an agent that does nothing, with its script, with its script again (the
control), with every mutant of the script (a call omitted, two calls swapped, an argument with
another value, a call that fails or returns a wrong answer, no final answer), and with its script
once more. Mutants only count if the control passes: otherwise a task that leaves things behind
would seem to detect them. The environment is inspected before and after each trial: what servers
list, files, Kubernetes. What is left behind is reported.

Exit status: 0 success, 1 a task passes although nothing was done, does not pass as it should or
leaves things behind, its cleanup fails, or a score is too low, 2 usage error, 3 nothing could run";

/// Test whether the tasks of an eval can fail: with an agent that does nothing, and with mutated scripts.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// An eval file, or a directory that contains one.
    eval: PathBuf,
    /// Only run tasks whose names match REGEX.
    #[arg(short, long, visible_alias = "task", value_name = "REGEX")]
    run: Option<String>,
    /// Follow this script instead of the eval's agent: a file of kind Oracle, or a recording, as builtin.replay:RECORDING.
    #[arg(long, value_name = "FILE")]
    agent: Option<String>,
    /// Use this MCP config instead of the eval's.
    #[arg(long, value_name = "FILE")]
    mcp_config_file: Option<String>,
    /// The minimum share of mutants that must be detected, from 0 to 1.
    #[arg(long, value_name = "SHARE", value_parser = crate::cli::result::share)]
    min_score: Option<f64>,
    /// The minimum share of the mutants of each task that must be detected, from 0 to 1.
    #[arg(long, value_name = "SHARE", value_parser = crate::cli::result::share)]
    min_task_score: Option<f64>,
    /// Write a badge to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    badge: Option<PathBuf>,
    /// Output format.
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

/// A trial of a task.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Trial {
    Nothing,
    Script,
    /// The script again. If it does not pass, results of mutants mean nothing.
    Control,
    Mutant {
        title: String,
        cure: String,
    },
    Again,
}

/// How one run ended, and the first check that did not pass.
#[derive(Clone, Debug)]
struct Ended {
    verdict: Verdict,
    reason: String,
    by: Option<String>,
    left: Vec<Left>,
    /// The first cleanup step that did not pass, and why.
    cleanup: Option<String>,
}

/// The trials of one task; those that were not run have no end.
#[derive(Debug, Default)]
struct Proof {
    trials: Vec<(Trial, Option<Ended>)>,
}

impl Proof {
    fn of(&self, wanted: &Trial) -> Option<&Ended> {
        self.trials.iter().find(|(trial, _)| trial == wanted).and_then(|(_, ended)| ended.as_ref())
    }

    fn mutants(&self) -> impl Iterator<Item = (&str, &str, Option<&Ended>)> {
        self.trials.iter().filter_map(|(trial, ended)| match trial {
            Trial::Mutant { title, cure } => Some((title.as_str(), cure.as_str(), ended.as_ref())),
            _ => None,
        })
    }

    /// The number of detected mutants, and of all that count. Mutants that could not be executed do not count; those
    /// that were not tried count as not detected.
    fn counts(&self) -> (usize, usize) {
        let all = self
            .mutants()
            .filter(|(.., ended)| ended.is_none_or(|ended| is_noticed(ended) || ended.verdict == Verdict::Passed));
        let noticed = self.mutants().filter(|(.., ended)| ended.is_some_and(is_noticed)).count();
        (noticed, all.count())
    }

    /// Whether script and control passed, were cleaned up and left nothing behind, so that results of mutants are
    /// meaningful.
    fn in_control(&self) -> bool {
        let clean = |trial: &Trial| {
            self.of(trial).is_some_and(|ended| ended.verdict == Verdict::Passed && ended.cleanup.is_none())
        };
        clean(&Trial::Script) && clean(&Trial::Control) && self.left().is_empty()
    }

    /// What the task itself leaves behind, whatever its agent does wrong.
    fn left(&self) -> Vec<&Left> {
        let mut all: Vec<&Left> = [Trial::Nothing, Trial::Script, Trial::Control]
            .iter()
            .flat_map(|trial| self.of(trial).map(|ended| &ended.left))
            .flatten()
            .collect();
        all.sort();
        all.dedup();
        all
    }

    /// What its mutants leave behind and no later trial removed.
    fn litter(&self) -> Vec<&Left> {
        let mut all: Vec<&Left> = self.mutants().filter_map(|(.., ended)| Some(&ended?.left)).flatten().collect();
        all.retain(|left| left.stays && !left.gone);
        all.sort();
        all.dedup();
        all
    }

    /// What is wrong with the task itself.
    fn faults(&self) -> Vec<String> {
        let mut out = Vec::new();
        let (left, litter) = (self.left(), self.litter());
        if self.of(&Trial::Nothing).is_some_and(|ended| ended.verdict == Verdict::Passed) {
            out.push("it passes although nothing was done".to_owned());
        }
        let passed = |ended: &Ended| ended.verdict == Verdict::Passed;
        match (self.of(&Trial::Script), self.of(&Trial::Control), self.of(&Trial::Again)) {
            (Some(first), ..) if !passed(first) => {
                let after = self.of(&Trial::Nothing).is_some_and(|nothing| !nothing.left.is_empty());
                let why = if after { "; what was left behind may be the reason" } else { "" };
                out.push(format!("with its script it is {}: {}{why}", first.verdict.name(), first.reason));
            }
            (_, Some(control), _) if !passed(control) => out.push(format!(
                "it passed, but the second time it is {}: {}; its cleanup leaves something behind",
                control.verdict.name(),
                control.reason
            )),
            (.., Some(again)) if !passed(again) => out.push(format!(
                "it passed, but after its mutants it is {}: {}; its cleanup does not remove what they leave behind{}",
                again.verdict.name(),
                again.reason,
                if litter.is_empty() { String::new() } else { format!(": {}", named(&litter)) }
            )),
            _ => {}
        }
        // If the agent does nothing, there is nothing to clean up, so the cleanup may fail.
        let cleanups = [Trial::Script, Trial::Control];
        if let Some(why) = cleanups.iter().find_map(|trial| self.of(trial)?.cleanup.as_ref()) {
            out.push(format!("its cleanup fails: {why}"));
        }
        if !left.is_empty() {
            out.push(format!("its cleanup does not restore the initial state; left behind: {}", named(&left)));
        }
        out
    }

    fn is_proved(&self) -> bool {
        self.faults().is_empty()
    }
}

/// Lists some of them, for people.
fn named(left: &[&Left]) -> String {
    const SHOWN: usize = 8;
    let mut names: Vec<String> = left.iter().take(SHOWN).map(|left| left.shown()).collect();
    if left.len() > SHOWN {
        names.push(format!("and {} more", left.len() - SHOWN));
    }
    names.join(", ")
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
    let selected = ready.selection.of(&ready.plan);
    let mut plans: Vec<Plan> = selected.iter().map(|&at| ready.plan.tasks[at].clone()).collect();
    let group = Gathered::enter();
    let host = Arc::new(RealHost::within(&group));
    if let Some(why) = plans.iter_mut().find_map(|plan| agent::follow(host.as_ref(), plan).err()) {
        complain(&why);
        return status::BROKEN;
    }
    if plans.iter().all(|plan| mutant::mutants(plan).is_empty()) {
        complain(
            "no task has a script to follow: specify one with `--agent FILE`, a file of kind Oracle, or use what an \
             agent did with `--agent builtin.replay:RECORDING` (`gevals explain agents`)",
        );
        return status::USAGE;
    }
    // Recovers an earlier run that was killed.
    if let Some(exit) = recover_others(&line) {
        return exit;
    }
    let tried: Vec<(usize, Vec<(Trial, Plan)>)> =
        selected.iter().zip(&plans).map(|(&index, plan)| (index, trials(plan))).collect();
    let each = tried.iter().map(|(index, trials)| {
        let plans = trials.iter().map(|(_, plan)| plan.clone()).collect();
        (*index, Trials { plans, control: 1..CONTROL })
    });
    let mut options = args::options(&line, ready.selection, None);
    options.secrets.extend(wire::eval_secrets(&ready.plan));
    options.secrets.extend(plans.iter().flat_map(wire::literal_secrets));
    options.trials = Some(each.collect());
    // Results of trials are not results of the eval, so they stay in the directory of the journal.
    let journal = RunOptions { only: Some(Only::Setup), ..options.clone() };
    let journal = match begin(&line, &ready.plan, ready.files, &journal, host.as_ref()) {
        Ok(journal) => Arc::new(journal),
        Err(error) => {
            complain(&format!("cannot write a journal: {error}"));
            return status::BROKEN;
        }
    };
    options.journal = Some(Arc::clone(&journal));
    let groups = Arc::clone(&journal);
    host.on_start(move |pid| groups.group(pid));
    let carried = carry_out(&ready.plan, &options, &host);
    forget(&journal);
    match carried {
        Ok((mut ended, unseen)) => {
            let mut proofs: IndexMap<String, Proof> = IndexMap::new();
            for (index, trials) in tried {
                let name = &ready.plan.tasks[index].task.name.value;
                let proof = proofs.entry(name.clone()).or_default();
                let all = trials.into_iter().zip(0..);
                proof.trials.extend(all.map(|((trial, _), run)| (trial, ended.remove(&(index, run)))));
            }
            tell(args, &proofs, &unseen)
        }
        Err((exit, faults)) => {
            faults.iter().for_each(|fault| complain(fault));
            exit
        }
    }
}

/// The number of trials before the mutants: nothing, the script, and the script again.
const CONTROL: u32 = 3;

/// All trials of a task, in order.
fn trials(plan: &Plan) -> Vec<(Trial, Plan)> {
    let first = [
        (Trial::Nothing, mutant::idle(plan)),
        (Trial::Script, mutant::once(plan)),
        (Trial::Control, mutant::once(plan)),
    ];
    let mutants = mutant::mutants(plan).into_iter();
    let mutants = mutants.map(|mutant| (Trial::Mutant { title: mutant.title, cure: mutant.cure }, mutant.plan));
    first.into_iter().chain(mutants).chain([(Trial::Again, mutant::once(plan))]).collect()
}

/// Removes a run that has ended, unless cleanups are pending.
fn forget(journal: &Journal) {
    if journal.has_pending() {
        let run = crate::bash::quote(&crate::cli::shown(journal.dir()));
        return note(&format!(
            "cleanups are still pending: `gevals recover {run}` runs them again, and so does the next run"
        ));
    }
    journal.forget();
    if let Err(error) = std::fs::remove_dir_all(journal.dir()) {
        note(&format!("cannot remove `{}`: {error}", journal.dir().display()));
    }
}

/// How each trial ended, by task and position, and what could not be inspected in the environment.
type Carried = (HashMap<(usize, u32), Ended>, Vec<String>);

/// Runs the trials.
fn carry_out(plan: &EvalPlan, options: &RunOptions, host: &Arc<RealHost>) -> Result<Carried, (u8, Vec<String>)> {
    let broken = |why: String| (status::BROKEN, vec![why]);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| broken(format!("cannot start: {error}")))?;
    let (summary, (mut checks, mut cleanups)) = runtime.block_on(async {
        let interrupts = interrupts().map_err(|error| broken(format!("cannot listen for signals: {error}")))?;
        packages::ensure(plan, host).await.map_err(|faults| (status::BROKEN, faults))?;
        let (sink, mut events) = unbounded_channel::<crate::event::Event>();
        let listen = async {
            let (mut checks, mut cleanups) = (HashMap::<TaskRun, String>::new(), HashMap::<TaskRun, String>::new());
            while let Some(event) = events.recv().await {
                let (Some(task), EventKind::ActionFinished { action, report }) = (event.task, event.kind) else {
                    continue;
                };
                // A failure within a step may be one of several alternatives: only the step itself counts.
                let judges =
                    action.starts_with("assert/") || action.strip_prefix("verify/").is_some_and(|id| !id.contains('/'));
                let cleans = action.starts_with("cleanup/") && !action.starts_with(mutant::UNDO);
                match report.outcome {
                    Outcome::Failed if judges => drop(checks.entry(task).or_insert(action)),
                    Outcome::Failed | Outcome::Broken if cleans => {
                        cleanups.entry(task).or_insert_with(|| format!("`{action}`: {}", report.message));
                    }
                    _ => {}
                }
            }
            (checks, cleanups)
        };
        Ok(tokio::join!(run_eval(plan, options, host.clone(), interrupts, sink), listen))
    })?;
    runtime.shutdown_timeout(Duration::from_millis(200));
    if summary.exit >= 128 || !summary.faults.is_empty() {
        return Err((if summary.exit >= 128 { summary.exit } else { status::BROKEN }, summary.faults));
    }
    let ended = summary.tasks.into_iter().map(|end| {
        let by = checks.remove(&end.task);
        // A cleanup may continue after a failed step, for example in alternatives.
        let cleanup = cleanups.remove(&end.task).filter(|_| end.cleanup_failed);
        let place = (end.task.index, end.task.run);
        (place, Ended { verdict: end.verdict, reason: end.reason, by, left: end.left, cleanup })
    });
    Ok((ended.collect(), summary.unseen))
}

fn tell(args: &Args, proofs: &IndexMap<String, Proof>, unseen: &[String]) -> u8 {
    let (noticed, all) = proofs.values().map(Proof::counts).fold((0, 0), |(a, b), (c, d)| (a + c, b + d));
    let unproved = proofs.values().filter(|proof| !proof.is_proved()).count();
    match args.format {
        Format::Text => print(&text(proofs, noticed, all, unseen)),
        Format::Json => print(&format!("{:#}\n", json(proofs, noticed, all, unseen))),
    }
    if let Some(path) = &args.badge {
        let colour = match score(noticed, all) {
            _ if unproved > 0 => "red",
            0.9.. => "brightgreen",
            0.7.. => "yellow",
            _ => "red",
        };
        let mut message = share(noticed, all);
        if unproved > 0 {
            message += &format!(", {unproved} of {} tasks not proved", proofs.len());
        }
        let badge = json!({ "schemaVersion": 1, "label": "evals can fail", "message": message, "color": colour });
        if let Err(error) = write_atomic(path, format!("{badge:#}\n").as_bytes()) {
            complain(&format!("cannot write `{}`: {error}", path.display()));
            return status::BROKEN;
        }
    }
    let below = |least: Option<f64>, (noticed, all)| least.is_some_and(|least| score(noticed, all) < least);
    // A task without mutants has nothing to detect.
    let task_below = |proof: &Proof| proof.counts().1 > 0 && below(args.min_task_score, proof.counts());
    let too_low = below(args.min_score, (noticed, all)) || proofs.values().any(task_below);
    if too_low || unproved > 0 { status::NO } else { status::OK }
}

fn score(noticed: usize, all: usize) -> f64 {
    if all == 0 { 0.0 } else { noticed as f64 / all as f64 }
}

fn share(noticed: usize, all: usize) -> String {
    match all {
        0 => "nothing to detect".to_owned(),
        _ => format!("{} %", (noticed * 100) / all),
    }
}

fn text(proofs: &IndexMap<String, Proof>, noticed: usize, all: usize, unseen: &[String]) -> String {
    let mut out = String::new();
    let line = |text: &str| visible(text.lines().next().unwrap_or_default()).into_owned();
    for (name, proof) in proofs {
        let (noticed, all) = proof.counts();
        writeln!(out, "{}  {noticed} of {all} mutants detected ({})", line(name), share(noticed, all)).ok();
        for fault in proof.faults() {
            writeln!(out, "  ✗ {}", line(&fault)).ok();
        }
        if !proof.in_control() && all > 0 {
            writeln!(out, "  ✗ its {all} mutants were not tried, and count as not detected").ok();
            continue;
        }
        for (title, cure, ended) in proof.mutants() {
            let Some(ended) = ended else {
                writeln!(out, "  - {}: not tried", line(title)).ok();
                continue;
            };
            match (is_noticed(ended), ended.verdict, &ended.by) {
                (true, _, Some(by)) => writeln!(out, "  ✓ {}: detected by {}", line(title), line(by)),
                (true, ..) => writeln!(out, "  ✓ {}: detected: {}", line(title), line(&ended.reason)),
                (false, Verdict::Passed, _) => {
                    writeln!(out, "  ✗ {}: not detected; add {}", line(title), line(cure))
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
        let litter = proof.litter();
        if !litter.is_empty() {
            writeln!(out, "  ! left behind by its mutants, for you to remove: {}", line(&named(&litter))).ok();
        }
    }
    if !unseen.is_empty() {
        writeln!(out, "\nnot checked for what is left behind:").ok();
        unseen.iter().for_each(|what| _ = writeln!(out, "  {}", line(what)));
    }
    let unproved = proofs.values().filter(|proof| !proof.is_proved()).count();
    let tasks =
        if unproved == 0 { String::new() } else { format!("; {unproved} of {} tasks not proved", proofs.len()) };
    writeln!(out, "\n{noticed} of {all} mutants detected ({}){tasks}", share(noticed, all)).ok();
    out
}

fn json(proofs: &IndexMap<String, Proof>, noticed: usize, all: usize, unseen: &[String]) -> Value {
    let left = |left: &[&Left]| -> Vec<Value> {
        left.iter().map(|left| json!({ "name": left.name, "by": left.by, "gone": left.gone })).collect()
    };
    let ended =
        |ended: Option<&Ended>| ended.map(|e| json!({ "verdict": e.verdict.name(), "reason": e.reason, "by": e.by }));
    let rate = |(noticed, all)| (all > 0).then(|| score(noticed, all));
    let tasks: Vec<_> = proofs
        .iter()
        .map(|(name, proof)| {
            let (noticed, all) = proof.counts();
            let mutants = proof.mutants().map(|(title, cure, e)| {
                json!({
                    "mutant": title,
                    "noticed": e.is_some_and(is_noticed),
                    "by": e.and_then(|e| e.by.as_ref()),
                    "verdict": e.map(|e| e.verdict.name()),
                    "cure": cure,
                    "left": left(&e.map(|e| e.left.iter().collect::<Vec<_>>()).unwrap_or_default()),
                })
            });
            json!({
                "task": name,
                "proved": proof.is_proved(),
                "score": rate((noticed, all)),
                "noticed": noticed,
                "mutants": all,
                "faults": proof.faults(),
                "left": left(&proof.left()),
                "nothing": ended(proof.of(&Trial::Nothing)),
                "script": ended(proof.of(&Trial::Script)),
                "control": ended(proof.of(&Trial::Control)),
                "again": ended(proof.of(&Trial::Again)),
                "tried": mutants.collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({
        "version": 1,
        "score": rate((noticed, all)),
        "noticed": noticed,
        "mutants": all,
        "unseen": unseen,
        "tasks": tasks,
    })
}
