//! `gevals recover`: cleans up after runs that died, and after worlds that were kept.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use super::{Global, complain, print, shown, status};
use crate::{
    Options,
    builtin::count,
    compile_with,
    diagnostic::{Diagnostics, Strength},
    host::{Host, RealHost, disk::Disk},
    journal::{self, Journal, Past, Refusal, Writer},
    plan::{EvalPlan, wire},
    prices::Prices,
    project::{AgentChoice, EnvServer, LimitOverrides, Overrides},
    report::{self, ReportInput},
    run::{
        Gate, Interrupt, RunOptions, environment_secrets, interrupts,
        recover::{RecoverOptions, Recovered, clean_up, end_processes},
    },
    source::{Files, Sources},
};

const EXAMPLES: &str = "\
Examples:
  gevals recover              all runs whose journals are below this folder
  gevals recover out          those of the output directory `out`
  gevals recover k3v9x0aa     one run, by its id
  gevals recover --forget k3v9x0aa     its world was cleaned up by hand

A run that was killed has left a journal, .gevals/runs/RUN/journal.jsonl in its output directory. What it left
running is ended, its pending cleanups are run, and its results are completed. Runs that are under way are left alone.
It may be killed itself, and run again: a cleanup step that is known to be done is never run twice.

Exit status: 0 no cleanup is pending any more, 2 there is no such run, or it is under way, 3 a journal cannot be used,
             4 a cleanup is still pending, 130 or 143 interrupted";

/// Clean up after runs that were killed: end what they left running, run their pending cleanups, write their results.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// An output directory, the folder of a run, or a run's id.
    #[arg(value_name = "DIR|RUN", default_value = ".")]
    path: PathBuf,
    /// Forget the pending cleanups of one run, without cleaning up: for what somebody has cleaned up by hand.
    #[arg(long)]
    forget: bool,
}

pub fn main(args: &Args, _: Global) -> u8 {
    let runs = journal::runs(&args.path);
    if runs.is_empty() {
        if !args.path.exists() {
            complain(&format!("there is neither a folder nor a run `{}`", shown(&args.path)));
            return status::USAGE;
        }
        print("no cleanup is pending: no run has left a journal here\n");
        return status::OK;
    }
    let named = runs.len() == 1 && !args.path.join(".gevals").is_dir();
    // Absolute, since each run is recovered in the folder it was started in.
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
                print(&format!("run `{}`: {}, left alone\n", name_of(&dir), Refusal::Live(writer_of(&dir))));
            }
            Err(refusal) => {
                complain(&format!("run `{}` cannot be recovered: {refusal}", name_of(&dir)));
                let exit = if matches!(refusal, Refusal::Live(_)) { status::USAGE } else { status::BROKEN };
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
        complain("`--forget` is for one run: name it");
        return status::USAGE;
    };
    if !named {
        complain("`--forget` is for one run: name it");
        return status::USAGE;
    }
    match Journal::reopen(dir) {
        Ok((journal, past)) => {
            let pending: usize = past.tasks.values().map(|task| task.pending.len()).sum();
            journal.forget();
            print(&format!("run `{}`: {} forgotten\n", name_of(dir), count(pending, "cleanup is", "cleanups are")));
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

/// What is recovered.
pub(super) struct What {
    /// Worlds that are kept on purpose, too.
    pub kept: bool,
    /// These tasks alone.
    pub only: Option<Vec<String>>,
}

impl What {
    fn covers(&self, task: &String) -> bool {
        self.kept && self.only.as_ref().is_none_or(|only| only.contains(task))
    }
}

/// Recovers one run, if there is anything to recover. Gives the exit status; changes the current folder to the
/// run's and back.
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
    if let Err(error) = std::env::set_current_dir(&header.cwd) {
        say(&format!(
            "run `{}` of `{}`: its folder `{}` is gone: {error}",
            header.run,
            header.name,
            shown(&header.cwd)
        ));
        return Ok(Some(status::PENDING));
    }
    let exit = in_place(dir, journal, &past, what, say);
    std::env::set_current_dir(here)?;
    exit.map(Some)
}

fn in_place(dir: &Path, journal: Journal, past: &Past, what: &What, say: &mut dyn FnMut(&str)) -> Result<u8, Refusal> {
    let header = &past.header;
    let state = if past.interrupted() { "interrupted" } else { "its world was kept" };
    say(&format!("run `{}` of `{}`: {state}", header.run, header.name));
    if past.unreadable > 0 {
        let lines = count(past.unreadable, "line", "lines");
        say(&format!("  warning: {lines} of the journal cannot be read: the disk has damaged it"));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let host = Arc::new(RealHost::new());
    journal.enter(Writer::own(host.mark(), "a recovery"))?;
    let journal = Arc::new(journal);
    let groups = Arc::clone(&journal);
    host.on_start(move |pid| groups.group(pid));

    let ended = runtime.block_on(end_processes(past, host.as_ref()));
    if ended > 0 {
        say(&format!("  ended {}", count(ended, "process", "processes")));
    }
    let sources = Sources::default();
    let files = header.files.over(&Disk);
    let options = Options { overrides: restored(&header.settings.overrides), ..Options::default() };
    let compiled = compile_with(std::slice::from_ref(&header.eval), &options, &sources, &files);
    let [Some(plan)] = compiled.evals.as_slice() else {
        let why = compiled.diagnostics.iter().find(|d| d.strength == Strength::Hard).map(|d| d.message.clone());
        say(&format!("  `{}` cannot be planned any more: {}", shown(&header.eval), why.unwrap_or_default()));
        return Ok(status::PENDING);
    };
    if wire::eval_digest(plan) != header.plan_digest {
        say("  note: files of the eval have changed since; the cleanups are run as they are now");
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
        let written = results(dir, past, plan, prices, sources, findings, host.as_ref());
        match written {
            Ok(path) => {
                reported = true;
                say(&format!("  results: {}", shown(path.strip_prefix(".").unwrap_or(&path))));
            }
            Err(error) => {
                say(&format!("  the results cannot be written: {error}"));
                exit = exit.max(status::BROKEN);
            }
        }
    }
    let others = past.tasks.iter().any(|(task, of)| of.kept && !what.covers(&task.name));
    if reported && recovered.interrupted.is_none() {
        journal.close(others);
    }
    if let Some(why) = journal.failure() {
        say(&format!("  {why}"));
        exit = exit.max(status::PENDING);
    }
    runtime.shutdown_timeout(Duration::from_millis(200));
    Ok(exit)
}

/// As the run has read them.
fn prices(path: &Path, files: &dyn Files) -> Option<Arc<Prices>> {
    let text = String::from_utf8(files.read(path).ok()?).ok()?;
    let prices = Prices::decode(Sources::default().add(path, text.as_str()), &text, &mut Diagnostics::default());
    prices.map(Arc::new)
}

fn report(past: &Past, recovered: &Recovered, say: &mut dyn FnMut(&str)) -> u8 {
    for (task, cleanup) in &recovered.done {
        say(&format!("  {}: {cleanup} is done", of_run(past, task)));
    }
    for (task, cleanup, why) in &recovered.left {
        say(&format!("  {}: {cleanup} is still pending: {why}", of_run(past, task)));
    }
    if recovered.cancelled > 0 {
        say(&format!("  {} cancelled", count(recovered.cancelled, "task run was", "task runs were")));
    }
    match recovered.interrupted {
        Some(Interrupt::Int) => 130,
        Some(Interrupt::Term) => 143,
        None if recovered.left.is_empty() => status::OK,
        None => status::PENDING,
    }
}

fn of_run(past: &Past, task: &crate::event::TaskRun) -> String {
    let several = past.selected.iter().any(|s| s.index == task.index && s.runs > 1);
    if several { format!("`{}` (run {})", task.name, task.run + 1) } else { format!("`{}`", task.name) }
}

/// Writes them where the run would have; into its own folder where a later run has written there since.
fn results(
    dir: &Path,
    past: &Past,
    plan: &EvalPlan,
    prices: Option<Arc<Prices>>,
    sources: Sources,
    findings: Vec<serde_json::Value>,
    host: &dyn Host,
) -> std::io::Result<PathBuf> {
    let (header, settings) = (&past.header, &past.header.settings);
    let options = RunOptions {
        runs: settings.runs,
        parallel: settings.parallel,
        gate: settings.gate.map(|(passes, of)| Gate { passes, of }),
        prices,
        ..RunOptions::default()
    };
    let mut input = ReportInput::new(Arc::new(plan.clone()), Arc::new(sources), shown(&header.eval), &options);
    input.findings = findings;
    input.results.clone_from(&header.results);
    let there: Option<serde_json::Value> =
        std::fs::read(&input.results).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let is_later = there.is_some_and(|there| {
        let summary = &there["summary"];
        let started = summary["startedAt"].as_str().and_then(|at| at.parse::<jiff::Timestamp>().ok());
        summary["runId"] != header.run.as_str() && started.is_some_and(|started| started > header.at)
    });
    if is_later {
        input.results = dir.join("results.json");
    }
    report::restore(&input, dir, host)?;
    Ok(input.results)
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
