//! Reports: folds over the events of a run. What people and machines read while it runs, and the results file.

mod json;
mod results;
mod text;

pub use results::Results;

pub use crate::render::results::results_path;

use std::{io::Write, path::PathBuf, sync::Arc};

use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::{
    event::{Event, EventKind},
    host::Host,
    plan::EvalPlan,
    run::{Interrupt, RunOptions, RunSummary, run_eval},
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

pub const REPORTS: &[ReportFormat] = &[text::FORMAT, json::FORMAT];

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
    /// Where the results file goes.
    pub results: PathBuf,
}

impl ReportInput {
    pub fn new(plan: Arc<EvalPlan>, sources: Arc<Sources>, eval: impl Into<String>, options: &RunOptions) -> Self {
        let results = results_path(&options.output_dir, &plan.name);
        let (parallel, runs) = (options.parallel, options.runs);
        Self { plan, sources, eval: eval.into(), colour: false, findings: Vec::new(), parallel, runs, results }
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
        return RunSummary { exit: 3, tasks: Vec::new(), faults: vec![unwritable(error)] };
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
    }
    summary
}

/// Whether the results will have a place, asked before anything is done that they would tell of.
fn writable(input: &ReportInput, options: &RunOptions, host: &dyn Host) -> std::io::Result<()> {
    host.create_dir_all(&options.output_dir)?;
    if host.files().stat(&input.results) == Some(Stat::Dir) {
        return Err(std::io::ErrorKind::IsADirectory.into());
    }
    let probe = options.output_dir.join(format!(".gevals-{}", host.random_id()));
    host.write(&probe, b"", None)?;
    host.remove(&probe)
}

/// Feeds the report and the results until the last event. The results are written whenever a task has ended.
async fn follow(
    input: &ReportInput,
    host: &dyn Host,
    mut events: UnboundedReceiver<Event>,
    mut fold: Fold,
    out: &mut (dyn Write + Send),
) -> std::io::Result<()> {
    let mut results = Results::new(input);
    let mut written = Ok(());
    while let Some(event) = events.recv().await {
        results.take(&event);
        if matches!(event.kind, EventKind::TaskFinished { .. } | EventKind::RunFinished { .. }) {
            written = host.write(&input.results, results.text().as_bytes(), None);
        }
        let text = fold(&event);
        // A reader that went away (`| head`) must not keep cleanup from running.
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }
    written
}
