//! `gevals recover`: cleans up after runs that crashed, and cleans up kept environments.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use super::{Global, complain, print, shown, status};
use crate::{
    Options, Plans,
    builtin::count,
    compile_with,
    diagnostic::{Diagnostics, Strength},
    host::{Gathered, RealHost, disk::Disk},
    journal::{self, Header, Journal, Past, Refusal, Writer},
    plan::{EvalPlan, wire},
    prices::Prices,
    project::{AgentChoice, EnvServer, LimitOverrides, Overrides},
    report::{self, ReportInput},
    results::{self, ResultsFile},
    run::{
        Gate, RunOptions,
        attended::{self, Answer},
        clusters, environment_secrets, interrupts,
        recover::{RecoverOptions, Recovered, clean_up, end_processes},
    },
    source::{Files, Sources},
    statistics::Rate,
};

const EXAMPLES: &str = "\
Examples:
  gevals recover              recover all runs with journals below this directory
  gevals recover out          recover those of the output directory `out`
  gevals recover k3v9x0aa     recover one run, by its id
  gevals recover --forget k3v9x0aa     close a run that was cleaned up by hand

A run that was killed leaves a journal, .gevals/runs/RUN/journal.jsonl in its output directory. This
command ends the processes that the run left behind, runs its pending cleanups, and completes its
results. Runs in progress are not touched. You can interrupt it and run it again: it never repeats a
cleanup step that is known to be done.

A damaged journal is recovered as far as it can be read. It stays open, because its lost part may
contain pending cleanups, until you close it with `--forget`.

Exit status: 0 no cleanup is pending any more, 2 there is no such run, or it is in progress, 3 a
journal cannot be used, 4 a cleanup is still pending, or a journal is damaged, 129, 130 or 143
interrupted";

/// Clean up after runs that were killed: end their processes, run their pending cleanups, write their results.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// An output directory, the directory of a run, or the id of a run.
    #[arg(value_name = "DIR|RUN", default_value = ".")]
    path: PathBuf,
    /// Forget the pending cleanups of one run without running them, after you have cleaned up by hand.
    #[arg(long)]
    forget: bool,
}

pub fn main(args: &Args, _: Global) -> u8 {
    let runs = journal::runs(&args.path);
    if runs.is_empty() {
        if !args.path.exists() {
            complain(&format!("no directory or run `{}`", shown(&args.path)));
            return status::USAGE;
        }
        print("no cleanup is pending: there are no journals of runs here\n");
        return status::OK;
    }
    let named = runs.len() == 1 && !args.path.join(".gevals").is_dir();
    // Absolute, because each run is recovered in the directory in which it was started.
    let runs: Vec<_> = runs.iter().filter_map(|dir| std::path::absolute(dir).ok()).collect();
    if args.forget {
        return forget(&runs, named);
    }
    let mut worst = status::OK;
    let mut found = 0;
    for dir in runs {
        let recovered = recover(&dir, &What { kept: true, only: None }, &mut |line| print(&format!("{line}\n")));
        match recovered {
            Ok(None) => {}
            Ok(Some(exit)) => {
                found += 1;
                worst = worst.max(exit);
            }
            Err(Refusal::Live(_)) if !named => {
                print(&format!("run `{}`: {}, skipped\n", name_of(&dir), Refusal::Live(writer_of(&dir))));
            }
            Err(refusal) => {
                complain(&format!("run `{}` cannot be recovered: {refusal}", name_of(&dir)));
                let exit = match refusal {
                    Refusal::Live(_) => status::USAGE,
                    Refusal::Malformed => status::PENDING,
                    Refusal::Io(_) | Refusal::Later(_) => status::BROKEN,
                };
                worst = worst.max(exit);
            }
        }
        if worst >= 128 {
            break;
        }
    }
    if found == 0 && worst == status::OK {
        print("no cleanup is pending\n");
    }
    worst
}

fn forget(runs: &[PathBuf], named: bool) -> u8 {
    let [dir] = runs else {
        complain("`--forget` requires a single run: specify it");
        return status::USAGE;
    };
    if !named {
        complain("`--forget` requires a single run: specify it");
        return status::USAGE;
    }
    match Journal::reopen(dir) {
        Ok((journal, past)) => {
            let pending: usize = past.tasks.values().map(|task| task.pending.len()).sum();
            journal.forget();
            clusters::dispose(dir);
            let pending = match pending {
                0 => "forgotten, no cleanup was pending".to_owned(),
                some => format!("{} forgotten", count(some, "cleanup is", "cleanups are")),
            };
            print(&format!("run `{}`: {pending}\n", name_of(dir)));
            status::OK
        }
        Err(Refusal::Malformed) if journal::forget_unreadable(dir).is_ok() => {
            print(&format!("run `{}`: all pending cleanups are forgotten\n", name_of(dir)));
            status::OK
        }
        Err(refusal) => {
            complain(&format!("run `{}`: {refusal}", name_of(dir)));
            if matches!(refusal, Refusal::Live(_)) { status::USAGE } else { status::BROKEN }
        }
    }
}

pub(super) fn name_of(dir: &Path) -> String {
    dir.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn writer_of(dir: &Path) -> Option<Writer> {
    Past::read(dir).ok()?.0.writers.pop()
}

/// What to recover.
pub(super) struct What {
    /// Also environments that were kept on purpose.
    pub kept: bool,
    /// Only these tasks.
    pub only: Option<Vec<String>>,
}

impl What {
    fn covers(&self, task: &String) -> bool {
        self.kept && self.only.as_ref().is_none_or(|only| only.contains(task))
    }
}

/// Recovers one run if there is anything to recover, and returns the exit status. Changes the working directory to that
/// of the run and back.
pub(super) fn recover(dir: &Path, what: &What, say: &mut dyn FnMut(&str)) -> Result<Option<u8>, Refusal> {
    if journal::is_closed(dir) {
        return Ok(None);
    }
    let (journal, past) = match Journal::reopen(dir) {
        Err(Refusal::Malformed) if journal::is_stillborn(dir) => {
            std::fs::remove_dir_all(dir)?;
            return Ok(None);
        }
        opened => opened?,
    };
    let is_due = past.interrupted() || what.kept && past.keeps();
    if !is_due {
        return Ok(None);
    }
    let here = std::env::current_dir()?;
    let header = &past.header;
    let about = format!("run `{}` of `{}`", header.run, header.name);
    let forget = forgets(dir);
    let Some(place) = started_in(dir, header) else {
        say(&format!(
            "{about}: the directory `{}` of its cleanups no longer exists: restore it, or if nothing is left to clean up, run \
             `{forget}`",
            shown(&header.cwd)
        ));
        return Ok(Some(status::PENDING));
    };
    std::env::set_current_dir(&place).map_err(|error| of_path(&place, &error))?;
    if place != header.cwd {
        say(&format!("{about} was started in `{}`, which is now `{}`", shown(&header.cwd), shown(&place)));
    }
    let exit = in_place(dir, journal, &past, what, say);
    if matches!(exit, Ok(status::PENDING)) && !journal::is_closed(dir) {
        say(&format!("  it is retried each time; if nothing is left to clean up, run `{forget}`"));
    }
    if journal::is_closed(dir) {
        clusters::dispose(dir);
    } else if !past.tasks.iter().any(|(task, of)| of.kept && !what.covers(&task.name)) {
        clusters::stop(dir);
    }
    std::env::set_current_dir(here)?;
    exit.map(Some)
}

/// The command that ends a run without cleaning up, to be copied.
pub(super) fn forgets(dir: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let dir = dir.strip_prefix(here).or_else(|_| dir.strip_prefix(".")).unwrap_or(dir);
    format!("gevals recover --forget {}", crate::bash::quote(&shown(dir)))
}

/// The directory in which the run was started. If it was moved together with the output directory, its new location: it
/// contains the eval.
fn started_in(dir: &Path, header: &Header) -> Option<PathBuf> {
    if header.cwd.is_dir() {
        return Some(header.cwd.clone());
    }
    let now = journal::output_dir(dir)?;
    let results = header.cwd.join(&header.results);
    let then = if is_own(header) { journal::output_dir(results.parent()?)? } else { results.parent()? };
    // Directories whose names are unchanged below a directory were moved with it.
    let alike = then.components().rev().zip(now.components().rev()).take_while(|(then, now)| then == now).count();
    let above = |path: &Path| path.ancestors().nth(alike).map(Path::to_owned);
    let place: PathBuf = above(now)?.join(header.cwd.strip_prefix(above(then)?).ok()?).components().collect();
    (header.eval.is_relative() && place.join(&header.eval).exists()).then_some(place)
}

/// Whether the results belong only in the run's own directory: those of a single phase, and of a run that was sent to
/// this machine.
fn is_own(header: &Header) -> bool {
    header.results.file_name() == journal::results(Path::new("")).file_name()
}

fn of_path(path: &Path, error: &std::io::Error) -> std::io::Error {
    std::io::Error::new(error.kind(), format!("`{}`: {error}", shown(path)))
}

fn in_place(dir: &Path, journal: Journal, past: &Past, what: &What, say: &mut dyn FnMut(&str)) -> Result<u8, Refusal> {
    let header = &past.header;
    let state = match past.interrupted() {
        true if past.is_damaged() => "its journal is damaged",
        true if past.finished && past.reported => "a cleanup is still pending",
        true => "interrupted",
        false => "its environment was kept",
    };
    say(&format!("run `{}` of `{}`: {state}", header.run, header.name));
    unknown(past, say);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let group = Gathered::enter();
    let host = Arc::new(RealHost::within(&group));
    journal.enter(Writer::own(host.as_ref(), "a recovery"))?;
    let journal = Arc::new(journal);
    let groups = Arc::clone(&journal);
    host.on_start(move |pid| groups.group(pid));

    let ended = runtime.block_on(end_processes(past, host.as_ref()));
    if ended > 0 {
        say(&format!("  terminated {}", count(ended, "process", "processes")));
    }
    // The clusters may have ended with the control group of the run.
    if past.tasks.values().any(|of| !of.pending.is_empty())
        && let Err(why) = clusters::revive(dir)
    {
        say(&format!("  warning: {why}"));
    }
    let sources = Sources::default();
    let files = header.files.over(&Disk);
    let options =
        Options { overrides: restored(&header.settings.overrides), plans: Plans::Evals, ..Options::default() };
    let compiled = compile_with(std::slice::from_ref(&header.eval), &options, &sources, &files);
    let [Some(plan)] = compiled.evals.as_slice() else {
        let why = compiled.diagnostics.iter().find(|d| d.strength == Strength::Hard).map(|d| d.message.clone());
        say(&format!("  `{}` can no longer be planned: {}", shown(&header.eval), why.unwrap_or_default()));
        return Ok(status::PENDING);
    };
    if wire::eval_digest(plan) != header.plan_digest {
        say("  note: files of the eval have changed since the run; the cleanups run in their current version");
    }
    let prices = header.settings.prices.as_ref().and_then(|path| {
        let prices = prices(path, &files);
        if prices.is_none() {
            say(&format!("  warning: the prices in `{}` cannot be read: no costs are counted", shown(path)));
        }
        prices
    });
    let options = RecoverOptions {
        prices: prices.clone(),
        executable: std::env::current_exe().ok(),
        secrets: environment_secrets().into_iter().chain(wire::eval_secrets(plan)).collect(),
        server_timeout: Duration::from_secs(30),
        only: what.only.clone(),
        kept: what.kept,
    };
    let recovered = runtime.block_on(async {
        let interrupts = interrupts()?;
        let (sink, _) = tokio::sync::mpsc::unbounded_channel();
        Ok::<_, std::io::Error>(clean_up(plan, past, &journal, &options, host.as_ref(), interrupts, sink).await)
    })?;
    let mut exit = report(past, &recovered, say);
    let mut reported = past.reported;
    if !past.reported && recovered.interrupted.is_none() {
        let findings = super::tolerated_findings(&compiled, &sources);
        let written = results(dir, past, plan, prices, sources, findings);
        match written {
            Ok(path) => {
                reported = true;
                if let Some(path) = path {
                    say(&format!("  results: {}", shown(path.strip_prefix(".").unwrap_or(&path))));
                }
            }
            Err(error) => {
                say(&format!("  the results cannot be written: {error}"));
                exit = exit.max(status::BROKEN);
            }
        }
    }
    let others = past.tasks.iter().any(|(task, of)| of.kept && !what.covers(&task.name));
    if reported && recovered.interrupted.is_none() {
        journal.close(others || past.is_damaged());
    }
    if past.is_damaged() {
        say("  it stays open, because other cleanups may be pending");
        exit = exit.max(status::PENDING);
    }
    if let Some(why) = journal.failure() {
        say(&format!("  {why}"));
        exit = exit.max(status::PENDING);
    }
    runtime.shutdown_timeout(Duration::from_millis(200));
    Ok(exit)
}

/// Reports what a damaged journal no longer contains.
fn unknown(past: &Past, say: &mut dyn FnMut(&str)) {
    /// The number of damaged places that are listed.
    const SHOWN: usize = 5;
    for damage in past.damage.iter().take(SHOWN) {
        let what = match damage.missing {
            0 => format!("line {} cannot be read", damage.line),
            missing => format!(
                "{} from line {} on",
                count(missing as usize, "line is missing", "lines are missing"),
                damage.line
            ),
        };
        let whose: Vec<_> = damage.tasks.iter().map(|task| of_run(past, task)).collect();
        let whose = match whose.as_slice() {
            [] => "no task is known to have been running".to_owned(),
            whose => format!("{} in progress", whose.join(", ")),
        };
        say(&format!(
            "  {what} ({whose}): it is unknown which cleanups became pending or were done there, and what they need"
        ));
    }
    if past.damage.len() > SHOWN {
        say(&format!("  and {} more such places", past.damage.len() - SHOWN));
    }
    if past.selected.is_empty() && past.is_damaged() {
        say("  it is unknown which tasks were selected");
    }
}

/// The prices as the run read them.
fn prices(path: &Path, files: &dyn Files) -> Option<Arc<Prices>> {
    let text = String::from_utf8(files.read(path).ok()?).ok()?;
    let prices = Prices::decode(Sources::default().add(path, text.as_str()), &text, &mut Diagnostics::default());
    prices.map(Arc::new)
}

fn report(past: &Past, recovered: &Recovered, say: &mut dyn FnMut(&str)) -> u8 {
    for (task, cleanup) in &recovered.done {
        say(&format!("  {}: {cleanup} is done", of_run(past, task)));
    }
    let pending = recovered
        .left
        .iter()
        .map(|(task, cleanup, why)| format!("{}: {cleanup} is still pending: {why}", of_run(past, task)));
    let away = recovered.away.iter().map(|(task, cleanup)| {
        let task = of_run(past, task);
        format!(
            "{task}: {cleanup} was run here, but the run was on another machine: what it removes may still exist there"
        )
    });
    let left: Vec<String> = pending.chain(away).collect();
    left.iter().for_each(|left| say(&format!("  {left}")));
    attended::answer(&Answer::Recovered { done: recovered.done.len() as u32, left });
    if recovered.cancelled > 0 {
        say(&format!("  {} cancelled", count(recovered.cancelled, "task run was", "task runs were")));
    }
    match recovered.interrupted {
        Some(signal) => signal.exit(),
        None if recovered.left.is_empty() && recovered.away.is_empty() => status::OK,
        None => status::PENDING,
    }
}

fn of_run(past: &Past, task: &crate::event::TaskRun) -> String {
    let several = past.selected.iter().any(|s| s.index == task.index && s.runs > 1);
    if several { format!("`{}` (run {})", task.name, task.run + 1) } else { format!("`{}`", task.name) }
}

/// Writes the results to the run's own directory, and from there to their original location unless the file there has
/// more. Returns their path, or `None` if the run died before it had selected its tasks.
fn results(
    dir: &Path,
    past: &Past,
    plan: &EvalPlan,
    prices: Option<Arc<Prices>>,
    sources: Sources,
    findings: Vec<serde_json::Value>,
) -> std::io::Result<Option<PathBuf>> {
    if past.selected.is_empty() {
        return Ok(None);
    }
    let (header, settings) = (&past.header, &past.header.settings);
    let options = RunOptions {
        runs: settings.runs,
        parallel: settings.parallel,
        gate: settings.gate.map(|(passes, of)| Gate { passes, of }),
        rate: settings.rate.map(|(at_least, confidence)| Rate { at_least, confidence }),
        prices,
        ..RunOptions::default()
    };
    let mut input = ReportInput::new(Arc::new(plan.clone()), Arc::new(sources), shown(&header.eval), &options);
    input.findings = findings;
    input.results = journal::results(dir);
    let own = &input.results;
    report::restore(&input, dir).map_err(|error| of_path(own, &error))?;
    // The output directory may have been moved since.
    let target = match (journal::output_dir(dir), header.results.file_name()) {
        (Some(out), Some(name)) if !is_own(header) => out.join(name),
        _ => return Ok(Some(own.clone())),
    };
    let target = if std::path::absolute(&header.results)? == target { header.results.clone() } else { target };
    let written = std::fs::read_to_string(own).map_err(|error| of_path(own, &error))?;
    if is_more(&target, header, &written) {
        return Ok(Some(own.clone()));
    }
    journal::publish(own, &target).map_err(|error| of_path(&target, &error))?;
    Ok(Some(target))
}

/// Whether a results file is of a later run than this one, or has more results of this one.
fn is_more(there: &Path, header: &Header, written: &str) -> bool {
    let read = |text: &str| results::read(text).ok();
    let Some(there) = std::fs::read_to_string(there).ok().and_then(|text| read(&text)) else { return false };
    let text = |key: &str| there.summary.get(key).and_then(serde_json::Value::as_str);
    if text("runId") != Some(&header.run) {
        let started = text("startedAt").and_then(|at| at.parse::<jiff::Timestamp>().ok());
        return started.is_some_and(|started| started > header.at);
    }
    let ended = |file: &ResultsFile| file.results.iter().filter(|r| r.outcome() != Some("cancelled")).count();
    read(written).is_none_or(|written| ended(&there) > ended(&written))
}

/// What replaced parts of the eval in an earlier run. The environment supplies the variables that its journal leaves out.
fn restored(kept: &journal::Overrides) -> Overrides {
    let variable = |name: &str| kept.variables.get(name).cloned().or_else(|| std::env::var(name).ok());
    let [timeout, cleanup_timeout, default_timeout, default_cleanup_timeout] = kept.limits;
    Overrides {
        agent: kept.agent.as_deref().map(AgentChoice::parse),
        model: kept.model.clone(),
        mcp_config: kept.mcp_config.clone(),
        server: EnvServer::read(&variable).unwrap_or_default(),
        asked: true,
        limits: LimitOverrides { timeout, cleanup_timeout, default_timeout, default_cleanup_timeout },
    }
}
