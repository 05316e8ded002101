//! Reports: folds over the events of a run. What people and machines read while it runs, and the results file.

mod classic;
mod github;
mod json;
mod live;
mod results;
mod text;

pub use results::Results;

pub use crate::render::results::results_path;

use std::{
    collections::HashSet,
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::{
    event::{Event, EventKind, TaskRun},
    host::Host,
    journal,
    plan::EvalPlan,
    run::{Gate, Interrupt, Only, RunOptions, RunSummary, Selection, run_eval},
    source::{Sources, Stat},
};

/// One way to show a run while it runs.
pub struct ReportFormat {
    pub name: &'static str,
    pub summary: &'static str,
    pub make: fn(&ReportInput) -> Fold,
}

/// Takes the next event and gives the text that is to be printed for it.
pub type Fold = Box<dyn FnMut(&Event) -> String + Send>;

/// All of them; the first is the default.
pub const REPORTS: &[ReportFormat] = &[text::FORMAT, classic::FORMAT, github::FORMAT, json::FORMAT];

/// What a report may know besides the events.
#[derive(Clone)]
pub struct ReportInput {
    pub plan: Arc<EvalPlan>,
    pub sources: Arc<Sources>,
    /// The eval as the user named it, for commands to copy.
    pub eval: String,
    pub colour: bool,
    /// Findings that did not keep the eval from running, as `check` prints them.
    pub findings: Vec<Value>,
    /// Workers, and the number of runs asked for on the command line.
    pub parallel: usize,
    pub runs: Option<u32>,
    /// Which tasks are run.
    pub selection: Selection,
    pub gate: Option<Gate>,
    /// What costs are counted in.
    pub currency: String,
    /// Only the set-up is run: nothing is judged, and nothing has passed.
    pub unjudged: bool,
    /// Where the results file goes.
    pub results: PathBuf,
    /// The folder of the run that is resumed, and the tasks that have their results from it.
    pub earlier: Option<(PathBuf, HashSet<TaskRun>)>,
    pub detail: Detail,
    /// Whether to show, on standard error, what is going on right now.
    pub live: bool,
    /// Of the command line, what a command to run a task again must repeat.
    pub flags: Vec<String>,
}

/// How much the text says.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Detail {
    /// The summary only.
    Quiet,
    /// A line a task.
    #[default]
    Normal,
    /// A line an action.
    Verbose,
}

impl ReportInput {
    /// What a report needs, with everything else as by default.
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
            currency: options.prices.as_ref().map_or_else(|| "USD".to_owned(), |prices| prices.currency.clone()),
            unjudged: options.only == Some(Only::Setup),
            results,
            detail: Detail::default(),
            live: false,
            flags: Vec::new(),
            earlier: None,
        }
    }

    /// Whether tasks have gates of their own: not where the command line says how often they are run.
    fn own_gates(&self) -> bool {
        self.gate.is_none() && self.runs.is_none()
    }
}

/// Runs an eval, prints the report and keeps the results file up to date.
pub async fn run(
    input: &ReportInput,
    options: &RunOptions,
    host: Arc<dyn Host>,
    interrupts: UnboundedReceiver<Interrupt>,
    format: &ReportFormat,
    out: &mut (dyn Write + Send),
) -> RunSummary {
    let unwritable = |error: std::io::Error| format!("`{}` cannot be written: {error}", input.results.display());
    if let Err(error) = writable(input, options, host.as_ref()) {
        return RunSummary::refused(3, vec![unwritable(error)]);
    }
    if let Some(fault) = other_shard(input, host.as_ref()) {
        return RunSummary::refused(2, vec![fault]);
    }
    let selection = &input.selection;
    if selection.of(&input.plan).is_empty() && !selection.all(&input.plan).is_empty() {
        // An empty shard is one, too: a merge of the shards looks for it.
        let mut results = Results::new(input);
        results.finish_empty();
        return match host.write(&input.results, results.text().as_bytes(), None) {
            Ok(()) => RunSummary::default(),
            Err(error) => RunSummary::refused(3, vec![unwritable(error)]),
        };
    }
    let (sink, events) = unbounded_channel();
    let fold = (format.make)(input);
    let (mut summary, written) = tokio::join!(
        run_eval(&input.plan, options, Arc::clone(&host), interrupts, sink),
        follow(input, host.as_ref(), events, fold, out),
    );
    if let Err(error) = written {
        summary.faults.push(unwritable(error));
        summary.exit = if summary.exit >= 128 { summary.exit } else { 3 };
    } else if let Some(journal) = &options.journal {
        journal.close(!summary.kept.is_empty());
    }
    summary
}

/// Whether the results will have a place, asked before anything is done that belongs in them.
fn writable(input: &ReportInput, options: &RunOptions, host: &dyn Host) -> std::io::Result<()> {
    host.create_dir_all(&options.output_dir)?;
    if host.files().stat(&input.results) == Some(Stat::Dir) {
        return Err(std::io::ErrorKind::IsADirectory.into());
    }
    let probe = options.output_dir.join(format!(".gevals-{}", host.random_id()));
    host.write(&probe, b"", None)?;
    host.remove(&probe)
}

/// Writes the results of a run that is not there to do it itself.
///
/// # Errors
/// The journal cannot be read, or the results not be written.
pub fn restore(input: &ReportInput, journal: &Path, host: &dyn Host) -> std::io::Result<()> {
    let mut results = Results::new(input);
    journal::events(journal)?.for_each(|event| results.take(&event));
    host.write(&input.results, results.text().as_bytes(), None)
}

/// The events of the run that is resumed, as far as they count.
fn earlier(input: &ReportInput) -> std::io::Result<impl Iterator<Item = Event>> {
    let events = input.earlier.as_ref().map(|(dir, _)| journal::events(dir)).transpose()?;
    Ok(events.into_iter().flatten().filter(|event| match (&event.task, &input.earlier) {
        (Some(task), Some((_, done))) => done.contains(task),
        _ => matches!(event.kind, EventKind::RunStarted { .. }),
    }))
}

/// At most so often are the results written while tasks run; the journal has them at once.
const THROTTLE: Duration = Duration::from_millis(500);

/// Results of another shard of the same eval would be lost; those of an earlier run of this one are meant to be.
fn other_shard(input: &ReportInput, host: &dyn Host) -> Option<String> {
    let own = input.selection.shard?;
    let text = String::from_utf8(host.files().read(&input.results).ok()?).ok()?;
    let there = crate::results::read(&text).ok()?;
    let number = |key: &str| there.summary.get("shard")?.get(key)?.as_u64();
    let (index, of) = (number("index")?, number("of")?);
    let other = (index, of) != (u64::from(own.index), u64::from(own.of));
    other.then(|| {
        format!(
            "`{}` holds shard {index}/{of}: give each shard a folder of its own, such as `--output-dir shard-{}`",
            input.results.display(),
            own.index
        )
    })
}

/// Feeds the report and the results until the last event. The results are written as tasks end, and at the end.
async fn follow(
    input: &ReportInput,
    host: &dyn Host,
    mut events: UnboundedReceiver<Event>,
    mut fold: Fold,
    out: &mut (dyn Write + Send),
) -> std::io::Result<()> {
    let mut results = Results::new(input);
    for event in earlier(input)? {
        results.take(&event);
        fold(&event);
    }
    let mut live = input.live.then(|| live::Live::new(input.colour));
    let mut clock = tokio::time::interval(live::TICK);
    clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let mut written = Ok(());
    // When the last writing ended, and how long it took: more tasks are not to mean more time spent on each.
    let (mut last, mut cost) = (None::<Duration>, Duration::ZERO);
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
        let now = host.elapsed();
        let is_due = last.is_none_or(|last| now.saturating_sub(last) >= (cost * 20).max(THROTTLE));
        let is_last = matches!(event.kind, EventKind::RunFinished { .. });
        if is_last || is_due && matches!(event.kind, EventKind::TaskFinished { .. }) {
            written = host.write(&input.results, results.text().as_bytes(), None);
            let end = host.elapsed();
            (last, cost) = (Some(end), end.saturating_sub(now));
        }
        live.iter_mut().for_each(|live| live.take(&event));
        let text = fold(&event);
        if text.is_empty() {
            continue;
        }
        // A reader that went away (`| head`) must not keep cleanup from running.
        let mut print = || drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
        match &live {
            Some(live) => live.print(print),
            None => print(),
        }
    }
    live.iter_mut().for_each(live::Live::clear);
    written
}
