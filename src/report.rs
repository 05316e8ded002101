//! Reports: folds over the events of a run. They produce what people and programs read while it runs, and the results file.

mod classic;
mod github;
mod json;
mod live;
#[cfg(feature = "otlp")]
pub mod otlp;
mod results;
mod text;

pub use results::Results;

pub use crate::render::results::results_path;

use std::{
    collections::HashSet,
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::{
    event::{Event, EventKind, TaskRun},
    host::{Host, disk},
    journal::{self, Spool},
    plan::EvalPlan,
    run::{Gate, Interrupt, Only, RunOptions, RunSummary, Selection, run_eval},
    source::{Sources, Stat},
    statistics::{Rate, Sequential},
};

/// A way to report a run while it runs.
pub struct ReportFormat {
    pub name: &'static str,
    pub summary: &'static str,
    pub make: fn(&ReportInput) -> Fold,
}

/// Takes the next event, and whether the results file contains this run by now; returns the text to print for the event.
pub type Fold = Box<dyn FnMut(&Event, bool) -> String + Send>;

/// All formats; the first is the default.
pub const REPORTS: &[ReportFormat] = &[text::FORMAT, classic::FORMAT, github::FORMAT, json::FORMAT];

/// What a report may use besides the events.
#[derive(Clone)]
pub struct ReportInput {
    pub plan: Arc<EvalPlan>,
    pub sources: Arc<Sources>,
    /// The eval as named by the user, for commands to copy.
    pub eval: String,
    pub colour: bool,
    /// Findings that did not prevent the eval from running, as `check` prints them.
    pub findings: Vec<Value>,
    /// The number of workers, and the number of runs given on the command line.
    pub parallel: usize,
    pub runs: Option<u32>,
    /// The tasks that are run.
    pub selection: Selection,
    pub gate: Option<Gate>,
    /// The rate that the gate must show, if it is a rate.
    pub rate: Option<Rate>,
    /// Decides the gate of a task run by run, if enabled.
    pub until_decided: Option<Arc<Sequential>>,
    /// The currency of costs.
    pub currency: String,
    /// Whether only the setup is run: nothing is judged, and nothing passes.
    pub unjudged: bool,
    /// The path of the results file.
    pub results: PathBuf,
    /// The size that the results file may reach, in bytes, before results are cut.
    pub max_results: u64,
    /// The directory of the run that is resumed, and the runs of tasks whose results are taken from it.
    pub earlier: Option<(PathBuf, HashSet<TaskRun>)>,
    pub detail: Detail,
    /// Whether to show on standard error what is currently running.
    pub live: bool,
    /// The flags of the command line that a command to rerun a task must repeat.
    pub flags: Vec<String>,
    /// The destination of traces, if any.
    #[cfg(feature = "otlp")]
    pub otlp: Option<otlp::Destination>,
}

/// How detailed the text is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Detail {
    /// Only the summary.
    Quiet,
    /// One line per task.
    #[default]
    Normal,
    /// One line per action.
    Verbose,
}

impl ReportInput {
    /// The input for a report, with defaults for everything that `options` does not set.
    pub fn new(plan: Arc<EvalPlan>, sources: Arc<Sources>, eval: impl Into<String>, options: &RunOptions) -> Self {
        let results = results_path(&options.output_dir, &plan.name);
        Self {
            plan,
            sources,
            eval: eval.into(),
            colour: false,
            findings: Vec::new(),
            parallel: options.parallel,
            runs: options.runs,
            selection: options.selection.clone(),
            gate: options.gate,
            rate: options.rate,
            until_decided: options.until_decided.clone(),
            currency: options.prices.as_ref().map_or_else(|| "USD".to_owned(), |prices| prices.currency.clone()),
            unjudged: options.only == Some(Only::Setup),
            results,
            max_results: options.max_results,
            detail: Detail::default(),
            live: false,
            flags: Vec::new(),
            earlier: None,
            #[cfg(feature = "otlp")]
            otlp: None,
        }
    }

    /// Whether the tasks' own gates apply: not if the command line sets a gate or the number of runs.
    fn own_gates(&self) -> bool {
        self.gate.is_none() && self.runs.is_none()
    }
}

/// Runs an eval, prints the report and writes the results file.
pub async fn run(
    input: &ReportInput,
    options: &RunOptions,
    host: Arc<dyn Host>,
    interrupts: UnboundedReceiver<Interrupt>,
    format: &ReportFormat,
    out: &mut (dyn Write + Send),
) -> RunSummary {
    let unwritable = |error: std::io::Error| format!("cannot write `{}`: {error}", input.results.display());
    if let Err(error) = writable(input, options, host.as_ref()) {
        return RunSummary::refused(3, vec![unwritable(error)]);
    }
    if let Some(fault) = other_shard(input, host.as_ref()) {
        return RunSummary::refused(2, vec![fault]);
    }
    let selection = &input.selection;
    if selection.of(&input.plan).is_empty() && !selection.all(&input.plan).is_empty() {
        // An empty shard has results as well: a merge of the shards expects them.
        let mut results = Results::new(input, Spool::in_memory());
        results.finish_empty();
        return match put(input, &mut results, None, host.as_ref()) {
            Ok(()) => RunSummary { written: true, ..RunSummary::default() },
            Err(error) => RunSummary::refused(3, vec![unwritable(error)]),
        };
    }
    #[cfg(feature = "otlp")]
    let open = |to: &otlp::Destination| otlp::Exporter::open(to, Arc::clone(&input.plan), &host);
    #[cfg(feature = "otlp")]
    let mut traces = match input.otlp.as_ref().map(open).transpose() {
        Ok(traces) => traces,
        Err(fault) => return RunSummary::refused(3, vec![fault]),
    };
    // Only the events of this run: those of the run that it resumes were exported earlier.
    let mut also = |_event: &Event| {
        #[cfg(feature = "otlp")]
        traces.iter_mut().for_each(|traces| traces.take(_event));
    };
    let (sink, events) = unbounded_channel();
    let fold = (format.make)(input);
    let own = options.journal.as_ref().map(|journal| journal.dir());
    let (mut summary, written) = tokio::join!(
        run_eval(&input.plan, options, Arc::clone(&host), interrupts, sink),
        follow(input, own, host.as_ref(), events, fold, &mut also, out),
    );
    #[cfg(feature = "otlp")]
    if let Some(traces) = traces {
        summary.cuts.extend(traces.close().await);
    }
    match written {
        Err(error) => {
            summary.faults.push(unwritable(error));
            summary.exit = if summary.exit >= 128 { summary.exit } else { 3 };
        }
        Ok(cut) => {
            summary.written = cut.is_some();
            if let Some(cut) = cut.filter(|cut| *cut > 0) {
                summary.cuts.push(format!(
                    "the results are larger than {} MiB: for {cut} of them, only the parts that decide the verdict are kept; change the \
                     limit with `--max-results`",
                    input.max_results >> 20
                ));
            }
            if let Some(journal) = &options.journal {
                journal.close(!summary.kept.is_empty());
            }
        }
    }
    summary
}

/// Writes the results into the run's own directory, if it has one, and copies them from there to their target.
fn put(input: &ReportInput, results: &mut Results, own: Option<&Path>, host: &dyn Host) -> std::io::Result<()> {
    let Some(own) = own.map(journal::results) else {
        let mut text = Vec::new();
        results.write(&mut text)?;
        return host.write(&input.results, &text, None);
    };
    disk::replace(&own, None, |out| results.write(out))?;
    if own != input.results {
        journal::publish(&own, &input.results)?;
    }
    results.written();
    Ok(())
}

/// Checks that the results can be written before anything is done that belongs in them.
fn writable(input: &ReportInput, options: &RunOptions, host: &dyn Host) -> std::io::Result<()> {
    host.create_dir_all(&options.output_dir)?;
    if host.files().stat(&input.results) == Some(Stat::Dir) {
        return Err(std::io::ErrorKind::IsADirectory.into());
    }
    let probe = options.output_dir.join(format!(".gevals-{}", host.random_id()));
    host.write(&probe, b"", None)?;
    host.remove(&probe)
}

/// Writes the results of a run that died into its own directory.
///
/// # Errors
/// The journal cannot be read, or the results cannot be written.
pub fn restore(input: &ReportInput, journal: &Path) -> std::io::Result<()> {
    let mut results = Results::new(input, Spool::of_run(journal)?);
    journal::events(journal)?.for_each(|event| results.take(&event));
    disk::replace(&journal::results(journal), None, |out| results.write(out))?;
    results.written();
    Ok(())
}

/// The events of the resumed run that still count.
fn earlier(input: &ReportInput) -> std::io::Result<impl Iterator<Item = Event>> {
    let events = input.earlier.as_ref().map(|(dir, _)| journal::events(dir)).transpose()?;
    Ok(events.into_iter().flatten().filter(|event| match (&event.task, &input.earlier) {
        (Some(task), Some((_, done))) => done.contains(task),
        _ => matches!(event.kind, EventKind::RunStarted { .. }),
    }))
}

/// Returns a fault if results of another shard of the same eval would be overwritten. Results of an earlier run of this shard
/// may be overwritten.
fn other_shard(input: &ReportInput, host: &dyn Host) -> Option<String> {
    let own = input.selection.shard?;
    let text = String::from_utf8(host.files().read(&input.results).ok()?).ok()?;
    let there = crate::results::read(&text).ok()?;
    let number = |key: &str| there.summary.get("shard")?.get(key)?.as_u64();
    let (index, of) = (number("index")?, number("of")?);
    let other = (index, of) != (u64::from(own.index), u64::from(own.of));
    other.then(|| {
        format!(
            "`{}` contains shard {index}/{of}: give each shard its own directory, such as `--output-dir shard-{}`",
            input.results.display(),
            own.index
        )
    })
}

/// Feeds the report and the results until the last event, and writes the results. Returns how many of them were cut, or `None`
/// if they were not written.
async fn follow(
    input: &ReportInput,
    own: Option<&Path>,
    host: &dyn Host,
    mut events: UnboundedReceiver<Event>,
    mut fold: Fold,
    also: &mut (dyn FnMut(&Event) + Send),
    out: &mut (dyn Write + Send),
) -> std::io::Result<Option<usize>> {
    let spool = own.map_or_else(|| Ok(Spool::in_memory()), Spool::of_run);
    let (spool, mut failure) = match spool {
        Ok(spool) => (spool, None),
        // The run is reported nevertheless.
        Err(error) => (Spool::in_memory(), Some(error)),
    };
    let mut results = Results::new(input, spool);
    match earlier(input) {
        Ok(events) => events.for_each(|event| {
            results.take(&event);
            fold(&event, false);
        }),
        Err(error) => failure = Some(error),
    }
    let mut live = input.live.then(|| live::Live::new(input.colour));
    let mut clock = tokio::time::interval(live::TICK);
    clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    // A run without events has no results.
    let mut written = Ok(false);
    loop {
        let event = tokio::select! {
            biased;
            event = events.recv() => event,
            _ = clock.tick(), if live.is_some() => {
                live.iter_mut().for_each(live::Live::tick);
                continue;
            }
        };
        let Some(event) = event else { break };
        results.take(&event);
        if matches!(event.kind, EventKind::RunFinished { .. }) {
            written = failure.take().map_or_else(|| put(input, &mut results, own, host).map(|()| true), Err);
        }
        live.iter_mut().for_each(|live| live.take(&event));
        also(&event);
        let text = fold(&event, matches!(written, Ok(true)));
        if text.is_empty() {
            continue;
        }
        // A reader that has gone away (`| head`) must not prevent cleanup.
        let mut print = || drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
        match &mut live {
            Some(live) => live.print(print),
            None => print(),
        }
    }
    live.iter_mut().for_each(live::Live::clear);
    Ok(written?.then(|| results.cut()))
}
