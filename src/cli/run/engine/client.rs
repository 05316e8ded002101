//! The client of a pack's workflow.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs,
    io::{IsTerminal, Read},
    path::PathBuf,
    time::{Duration, Instant},
};

use base64::Engine as _;
use indicatif::{ProgressBar, ProgressStyle};
use temporalio_client::tonic;
use temporalio_common::protos::temporal::api::history::v1::{HistoryEvent, history_event::Attributes};
use tokio_util::sync::CancellationToken;

use super::RunArgs;
use crate::{
    builtin::count,
    cli::{Global, host_name, is_dumb, note, packed, print, result::units_together, shown, status, warn, worker},
    diagnostic::visible,
    engine::{
        queue,
        service::{Page, Service, value},
        wire::{BatchEnd, BatchOrder, CleanupEnd, CleanupOrder, Done, Order, Rate, SoFar, UnitEnd, VERSION},
        workflow::{CleanUp, RunBatch},
        workflow_id,
    },
    pack::{Manifest, Unit},
    report::results_path,
    results::{self, summary},
    run::{Interrupt, interrupts, stop},
    ty::duration,
};

type Fault = (u8, String);

/// After this time without a running unit, the client checks whether there are workers.
const NO_WORKER: Duration = Duration::from_secs(5);
/// The pause after a failed call.
const PAUSE: Duration = Duration::from_secs(1);
/// The pause between two pages of a history, unless the workflow has ended: without it, the server would send each
/// event separately.
const BETWEEN: Duration = Duration::from_millis(200);

pub fn run(args: &RunArgs, global: Global) -> Result<u8, Fault> {
    if !packed::is_pack(&args.eval) {
        let eval = crate::bash::quote(&shown(&args.eval));
        let why = format!("an engine runs packs: create one with `gevals pack {eval} -o suite.gevals`");
        return Err((status::USAGE, why));
    }
    let (manifest, _) = packed::read(&args.eval)?;
    let order = order(args, &manifest).map_err(|why| (status::USAGE, why))?;
    let broken = |error: std::io::Error| (status::BROKEN, format!("cannot start: {error}"));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(broken)?;
    let done = runtime.block_on(follow(args, &manifest, &order, global));
    runtime.shutdown_timeout(Duration::from_millis(200));
    done
}

/// The order that the command line describes.
fn order(args: &RunArgs, manifest: &Manifest) -> Result<Order, String> {
    let units = manifest.units();
    let rates = args.engine.rate.iter().map(|(provider, per_minute)| {
        let of = |unit: &Unit<'_>| unit.model.is_some_and(|model| model.split(':').next() == Some(provider));
        let mut places: Vec<(u32, u32)> = Vec::new();
        for (nth, _) in units.iter().enumerate().filter(|(_, unit)| of(unit)) {
            let nth = nth as u32;
            match places.last_mut() {
                Some((_, to)) if *to == nth => *to += 1,
                _ => places.push((nth, nth + 1)),
            }
        }
        match places.is_empty() {
            false => Ok(Rate { units: places, every: 60.0 / per_minute }),
            true => Err(format!(
                "no unit of the pack has a model of `{}`: select one with `gevals pack --model {0}:MODEL`",
                visible(provider)
            )),
        }
    });
    Ok(Order {
        version: VERSION,
        pack: manifest.digest.clone(),
        units: units.len() as u32,
        parallel: u32::from(args.parallel.unwrap_or(1)),
        batch: args.engine.batch.as_secs_f64(),
        ends: (1..=manifest.combinations.len())
            .map(|nth| units.partition_point(|unit| unit.at.0 < nth) as u32)
            .collect(),
        retries: args.engine.retries,
        longest: units.iter().map(|unit| unit.at_most_seconds).max().unwrap_or_default(),
        silence: args.engine.silence.as_secs(),
        max_cost: args.max_cost,
        max_seconds: args.max_time.map(|time| time.as_secs_f64()),
        rates: rates.collect::<Result<_, _>>()?,
        so_far: SoFar::default(),
    })
}

async fn follow(args: &RunArgs, manifest: &Manifest, order: &Order, global: Global) -> Result<u8, Fault> {
    let broken = |why: String| (status::BROKEN, why);
    let mut signals = interrupts().map_err(|error| broken(format!("cannot listen for signals: {error}")))?;
    let server = &args.engine.server;
    let identity = format!("{}@{}", std::process::id(), host_name());
    let service = Service::connect(&server.address, &server.namespace, &identity)
        .await
        .map_err(|why| broken(format!("no Temporal server responds at `{}`: {why}", server.address)))?;
    let queue = queue(&server.queue, &manifest.digest);
    let id = workflow_id(&manifest.name, &manifest.digest, args.engine.name.as_deref());
    let found = service.find(&id, "").await.map_err(broken)?;
    let first = match found.filter(|found| found.runs || args.engine.name.is_some()) {
        Some(found) => {
            note(&format!("run `{id}` was started before, and is followed from its start"));
            found.first
        }
        None => {
            let run = service.start(&id, &queue, order).await.map_err(broken)?;
            note(&format!(
                "run `{id}` at {}: if this command is interrupted, run it again to continue",
                server.address
            ));
            run
        }
    };
    let parts = Parts::new(args, &id, &manifest.name)
        .map_err(|error| broken(format!("`{}`: {error}", shown(&args.output_dir))))?;
    let mut screen = Screen::new(manifest, args, global, parts);
    let mut heard = stop::Heard::default();
    let started = Instant::now();
    let page = |run: &str, from: Vec<u8>, end: &CancellationToken| {
        let (service, id, run, end) = (service.clone(), id.clone(), run.to_owned(), end.clone());
        Box::pin(async move {
            if !from.is_empty() {
                let _ = tokio::time::timeout(BETWEEN, end.cancelled()).await;
            }
            service.history(&id, &run, from).await
        })
    };
    let (mut run, mut from) = (first, Vec::new());
    let mut end = end_of(&service, &id, &run);
    let mut paging = page(&run, from.clone(), &end);
    let mut tick = tokio::time::interval(Duration::from_millis(250));
    let (mut told_of_workers, mut looked) = (false, Instant::now());
    let ended = loop {
        let paged = tokio::select! {
            paged = &mut paging => paged,
            Some(signal) = signals.recv() => {
                match heard.hear(signal, started.elapsed()) {
                    // No worker has seen the run, and none could receive a cancellation.
                    stop::Asks::Stop if screen.attempts == 0 && service.workers(&queue).await == Ok(0) => {
                        let why = format!("{} before anything was started", signal.name());
                        service.terminate(&id, &why).await.map_err(broken)?;
                        screen.clear();
                        note(&format!("{}: nothing was started", signal.name()));
                        return Ok(signal.exit());
                    }
                    stop::Asks::Stop => {
                        screen.say(&format!("{}: stopping and cleaning up running units; signal again to exit without waiting", signal.name()));
                        service.cancel(&id).await.map_err(broken)?;
                    }
                    stop::Asks::Again => {
                        screen.clear();
                        note(&format!("run `{id}` continues to stop in the background; the same command with `--name` waits for it"));
                        return Ok(signal.exit());
                    }
                    stop::Asks::Nothing => {}
                }
                continue;
            }
            _ = tick.tick() => {
                screen.tick();
                let idle = screen.running.is_empty() || screen.begun == 0;
                if !told_of_workers && idle && started.elapsed() > NO_WORKER && looked.elapsed() > NO_WORKER {
                    looked = Instant::now();
                    if service.workers(&queue).await == Ok(0) {
                        told_of_workers = true;
                        screen.say(&format!(
                            "no worker with this pack is running: start one with `gevals worker --address {} --queue {} --pack {}`",
                            server.address,
                            server.queue,
                            crate::cli::quoted(&args.eval)
                        ));
                    }
                }
                continue;
            }
        };
        let Page { events, next } = match paged {
            Ok(page) => page,
            Err(status) if status.code() == tonic::Code::NotFound => {
                return Err(broken(format!("the server no longer knows the run `{id}`: {}", status.message())));
            }
            // The server may come back.
            Err(_) => {
                tokio::time::sleep(PAUSE).await;
                paging = page(&run, from.clone(), &end);
                continue;
            }
        };
        let mut over = None;
        for event in events {
            over = over.or(screen.take(event)?);
        }
        match over {
            Some(End::GoesOn(other)) => {
                end = end_of(&service, &id, &other);
                (run, from) = (other, Vec::new());
            }
            Some(End::Over(ended)) => break ended,
            None if next.is_empty() => {
                return Err(broken(format!("the history of the run `{id}` ends without a result")));
            }
            None => from = next,
        }
        paging = page(&run, from.clone(), &end);
    };
    screen.clear();
    screen.finish(args, ended, heard.first(), started.elapsed())
}

/// Returns a token that is cancelled when the workflow has ended.
fn end_of(service: &Service, id: &str, run: &str) -> CancellationToken {
    let end = CancellationToken::new();
    let (service, id, run, ended) = (service.clone(), id.to_owned(), run.to_owned(), end.clone());
    tokio::spawn(async move {
        loop {
            match service.has_ended(&id, &run).await {
                Ok(true) => return ended.cancel(),
                Ok(false) => {}
                // The server may come back.
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    });
    end
}

/// How a workflow ended.
enum End {
    /// It continues as another run of the workflow.
    GoesOn(String),
    Over(Ended),
}

enum Ended {
    Done(Box<Done>),
    /// It was ended from outside, or it failed.
    Otherwise(String),
}

/// The results files of batches, until they are merged.
struct Parts {
    folder: PathBuf,
    eval: String,
    /// For each file, the exit statuses of the units whose results count.
    files: Vec<BTreeMap<u32, u8>>,
    /// The file that has the result of a unit.
    of: HashMap<u32, usize>,
}

impl Parts {
    fn new(args: &RunArgs, id: &str, eval: &str) -> std::io::Result<Self> {
        let folder = args.output_dir.join(".gevals").join("parts").join(id);
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => fs::create_dir_all(&folder)?,
        }
        Ok(Self { folder, eval: eval.to_owned(), files: Vec::new(), of: HashMap::new() })
    }

    fn path(&self, file: usize) -> PathBuf {
        results_path(&self.folder.join(file.to_string()), &self.eval)
    }

    /// The paths of files that have results, in order of arrival.
    fn all(&self) -> Vec<PathBuf> {
        (0..self.files.len()).filter(|file| !self.files[*file].is_empty()).map(|file| self.path(file)).collect()
    }

    /// Adds the results of a batch. The last of several attempts counts.
    fn put(&mut self, end: &BatchEnd, units: &[Unit<'_>]) -> std::io::Result<()> {
        const MOST: u64 = 1 << 30;
        let Some(packed) = &end.results else { return Ok(()) };
        let packed = base64::engine::general_purpose::STANDARD.decode(packed).map_err(std::io::Error::other)?;
        let mut text = Vec::new();
        zstd::Decoder::new(packed.as_slice())?.take(MOST).read_to_end(&mut text)?;
        let has: BTreeMap<_, _> = end.ends.iter().filter(|end| end.came_back).map(|end| (end.unit, end.exit)).collect();
        for unit in has.keys() {
            self.take_out(*unit, units)?;
        }
        let file = self.files.len();
        let path = self.path(file);
        fs::create_dir_all(path.parent().unwrap_or(&self.folder))?;
        fs::write(path, text)?;
        self.of.extend(has.keys().map(|unit| (*unit, file)));
        self.files.push(has);
        Ok(())
    }

    /// Removes the result of an earlier attempt from its file.
    fn take_out(&mut self, unit: u32, units: &[Unit<'_>]) -> std::io::Result<()> {
        let Some(file) = self.of.remove(&unit) else { return Ok(()) };
        self.files[file].remove(&unit);
        let (path, others) = (self.path(file), &self.files[file]);
        if others.is_empty() {
            return fs::remove_file(path);
        }
        let Some(unit) = units.get(unit as usize) else { return Ok(()) };
        let mut value: serde_json::Value = serde_json::from_slice(&fs::read(&path)?)?;
        if let Some(results) = value["results"].as_array_mut() {
            results.retain(|result| {
                let result = results::RunResult(result.as_object().cloned().unwrap_or_default());
                (result.name(), result.path(), result.run().0) != (unit.task, unit.path, u64::from(unit.run))
            });
        }
        value["summary"]["exit"] = worker::worst(others.values().copied()).into();
        fs::write(path, serde_json::to_vec(&value)?)
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
        // The directories around it are removed if they are empty.
        for folder in self.folder.ancestors().skip(1).take(2) {
            let _ = fs::remove_dir(folder);
        }
    }
}

/// A fold of the history: what is shown, and what is written at the end.
struct Screen<'m> {
    manifest: &'m Manifest,
    units: Vec<Unit<'m>>,
    width: usize,
    colour: bool,
    quiet: bool,
    parts: Parts,
    /// The orders of activities, by the IDs of the events that scheduled them.
    asked: HashMap<i64, Asked>,
    /// Running batches, by the IDs of the events that scheduled them.
    running: HashSet<i64>,
    /// How many batches workers have started.
    begun: usize,
    /// Exit statuses of units in their last attempts.
    ends: HashMap<u32, u8>,
    bad: HashSet<u32>,
    /// How many attempts at units have started.
    attempts: usize,
    left: Vec<String>,
    live: Option<ProgressBar>,
}

enum Asked {
    Batch(BatchOrder),
    Cleanup(CleanupOrder),
}

impl<'m> Screen<'m> {
    fn new(manifest: &'m Manifest, args: &RunArgs, global: Global, parts: Parts) -> Self {
        let units = manifest.units();
        let live = !args.quiet && !is_dumb() && std::io::stderr().is_terminal();
        let live = live.then(|| {
            let bar = ProgressBar::new_spinner();
            let style = ProgressStyle::with_template("{msg}  {elapsed}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            bar
        });
        Self {
            width: units.iter().map(|unit| unit.task.chars().count()).max().unwrap_or_default().min(48),
            units,
            manifest,
            colour: global.colour(&std::io::stdout()),
            quiet: args.quiet,
            parts,
            asked: HashMap::new(),
            running: HashSet::new(),
            begun: 0,
            ends: HashMap::new(),
            bad: HashSet::new(),
            attempts: 0,
            left: Vec::new(),
            live,
        }
    }

    fn tick(&self) {
        if let Some(live) = &self.live {
            let bad = if self.bad.is_empty() { String::new() } else { format!(", {} did not pass", self.bad.len()) };
            live.set_message(format!(
                "{}/{}{bad}, {} in progress",
                self.ends.len(),
                self.units.len(),
                self.running.len()
            ));
            live.tick();
        }
    }

    fn clear(&self) {
        if let Some(live) = &self.live {
            live.finish_and_clear();
        }
    }

    /// Prints a message about the run.
    fn say(&self, line: &str) {
        if let Some(live) = &self.live {
            live.suspend(|| note(line));
        } else {
            note(line);
        }
    }

    fn line(&self, line: &str) {
        if self.quiet {
            return;
        }
        match &self.live {
            Some(live) => live.suspend(|| print(line)),
            None => print(line),
        }
    }

    fn name(&self, unit: u32) -> String {
        let Some(unit) = self.units.get(unit as usize) else { return format!("unit {unit}") };
        let mut name = format!("{:<width$}", visible(unit.task), width = self.width);
        if unit.runs > 1 {
            name.push_str(&format!("  run {}/{}", unit.run, unit.runs));
        }
        for word in [unit.agent, unit.model].into_iter().flatten() {
            name.push_str(&format!("  {}", visible(word)));
        }
        name
    }

    /// The name of the only unit, or of the first one and how many more there are.
    fn names(&self, units: &[u32]) -> String {
        match units {
            [unit] => self.name(*unit),
            [first, ..] => format!("{} and {} more in its batch", self.name(*first).trim_end(), units.len() - 1),
            [] => String::new(),
        }
    }

    fn word(&self, outcome: &str) -> String {
        use owo_colors::OwoColorize;
        let word = format!("{outcome:<9}");
        match (self.colour, outcome) {
            (false, _) => word,
            (true, "passed") => word.green().to_string(),
            (true, "lost" | "broken") => word.yellow().to_string(),
            (true, _) => word.red().to_string(),
        }
    }

    /// Processes the next event. Returns how the workflow ended, if it did.
    fn take(&mut self, event: HistoryEvent) -> Result<Option<End>, Fault> {
        let id = event.event_id;
        match event.attributes {
            Some(Attributes::WorkflowExecutionStartedEventAttributes(started)) => {
                let order = value::<Order>(started.input.as_ref());
                if order.is_none_or(|order| order.version != VERSION) {
                    let why = "another version of gevals started this run, and this version does not understand it: follow it with that version, or give this run its own `--name`";
                    return Err((status::BROKEN, why.to_owned()));
                }
            }
            Some(Attributes::ActivityTaskScheduledEventAttributes(asked)) => {
                let kind = asked.activity_type.map(|kind| kind.name).unwrap_or_default();
                let asked = match kind.as_str() {
                    RunBatch::NAME => value::<BatchOrder>(asked.input.as_ref()).map(Asked::Batch),
                    CleanUp::NAME => value::<CleanupOrder>(asked.input.as_ref()).map(Asked::Cleanup),
                    _ => None,
                };
                match &asked {
                    Some(Asked::Batch(batch)) => {
                        self.attempts += batch.units.len();
                        self.running.insert(id);
                    }
                    Some(Asked::Cleanup(order)) => {
                        let pending = count(order.carried.pending.len(), "cleanup is", "cleanups are");
                        let line =
                            format!("{}  {}  {pending} run elsewhere\n", self.word("lost"), self.names(&order.units));
                        self.line(&line);
                    }
                    None => {}
                }
                asked.into_iter().for_each(|asked| drop(self.asked.insert(id, asked)));
            }
            Some(Attributes::ActivityTaskStartedEventAttributes(_)) => self.begun += 1,
            Some(Attributes::ActivityTaskCompletedEventAttributes(done)) => {
                match self.asked.remove(&done.scheduled_event_id) {
                    Some(Asked::Batch(_)) => {
                        self.running.remove(&done.scheduled_event_id);
                        if let Some(end) = value::<BatchEnd>(done.result.as_ref()) {
                            self.batch_ended(&end)?;
                        }
                    }
                    Some(Asked::Cleanup(order)) => {
                        if let Some(end) = value::<CleanupEnd>(done.result.as_ref()) {
                            let of = self.names(&order.units);
                            let of = of.trim_end();
                            self.left.extend(end.left.iter().map(|line| format!("a lost attempt of {of}: {line}")));
                        }
                    }
                    None => {}
                }
            }
            Some(Attributes::ActivityTaskFailedEventAttributes(failed)) => {
                let why = failed.failure.map(|failure| failure.message).unwrap_or_default();
                self.over(failed.scheduled_event_id, &why);
            }
            Some(Attributes::ActivityTaskTimedOutEventAttributes(timed_out)) => {
                self.over(timed_out.scheduled_event_id, "its worker does not respond");
            }
            Some(Attributes::ActivityTaskCanceledEventAttributes(cancelled)) => {
                self.asked.remove(&cancelled.scheduled_event_id);
                self.running.remove(&cancelled.scheduled_event_id);
            }
            Some(Attributes::WorkflowExecutionContinuedAsNewEventAttributes(next)) => {
                return Ok(Some(End::GoesOn(next.new_execution_run_id)));
            }
            Some(Attributes::WorkflowExecutionCompletedEventAttributes(done)) => {
                let done = value::<Done>(done.result.as_ref());
                let unknown =
                    || Ended::Otherwise("it ended in a way that this version of gevals does not understand".to_owned());
                return Ok(Some(End::Over(done.map_or_else(unknown, |done| Ended::Done(Box::new(done))))));
            }
            Some(Attributes::WorkflowExecutionFailedEventAttributes(failed)) => {
                let why = failed.failure.map(|failure| failure.message).unwrap_or_default();
                return Ok(Some(End::Over(Ended::Otherwise(format!("the workflow failed: {why}")))));
            }
            Some(Attributes::WorkflowExecutionTerminatedEventAttributes(by)) => {
                return Ok(Some(End::Over(Ended::Otherwise(format!("the workflow was terminated: {}", by.reason)))));
            }
            Some(Attributes::WorkflowExecutionCanceledEventAttributes(done)) => {
                let done = value::<Done>(done.details.as_ref());
                let unknown = || Ended::Otherwise("the workflow was cancelled".to_owned());
                return Ok(Some(End::Over(done.map_or_else(unknown, |done| Ended::Done(Box::new(done))))));
            }
            Some(Attributes::WorkflowExecutionTimedOutEventAttributes(_)) => {
                return Ok(Some(End::Over(Ended::Otherwise("the workflow timed out".to_owned()))));
            }
            _ => {}
        }
        self.tick();
        Ok(None)
    }

    /// Records an attempt that ended without a result.
    fn over(&mut self, scheduled: i64, why: &str) {
        if let Some(Asked::Batch(batch)) = self.asked.remove(&scheduled) {
            self.running.remove(&scheduled);
            let line = format!("{}  {}  {}\n", self.word("lost"), self.names(&batch.units), visible(why));
            self.line(&line);
        }
    }

    fn batch_ended(&mut self, end: &BatchEnd) -> Result<(), Fault> {
        let put = self.parts.put(end, &self.units);
        put.map_err(|error| (status::BROKEN, format!("cannot write `{}`: {error}", shown(&self.parts.folder))))?;
        self.attempts = self.attempts.saturating_sub(end.left.len());
        if !end.lost.is_empty() {
            let line = format!("{}  {}  their process ended too soon\n", self.word("lost"), self.names(&end.lost));
            self.line(&line);
        }
        end.ends.iter().for_each(|end| self.ended(end));
        Ok(())
    }

    fn ended(&mut self, end: &UnitEnd) {
        self.ends.insert(end.unit, end.exit);
        let outcome = end.outcome.as_deref().unwrap_or("broken");
        match outcome {
            "passed" => self.bad.remove(&end.unit),
            _ => self.bad.insert(end.unit),
        };
        let took = duration::format(Duration::from_millis((end.seconds * 10.0).round() as u64 * 100));
        let mut line = format!("{}  {}  {took}", self.word(outcome), self.name(end.unit));
        if let Some(note) = &end.note {
            line.push_str(&format!("  {}", visible(note)));
            if end.exit == status::PENDING {
                self.left.push(format!("{}: {note}", self.name(end.unit).trim_end()));
            }
        }
        self.line(&format!("{line}\n"));
    }

    /// Writes the results, and prints a summary. Returns the exit status.
    fn finish(mut self, args: &RunArgs, ended: Ended, signal: Option<Interrupt>, took: Duration) -> Result<u8, Fault> {
        let mut faults = Vec::new();
        let mut cancelled = false;
        match ended {
            Ended::Done(done) => {
                cancelled = done.cancelled;
                faults.extend(done.cancelled.then(|| "the workflow was cancelled".to_owned()));
                faults.extend(done.so_far.stopped);
                faults.extend(
                    done.so_far
                        .given_up
                        .iter()
                        .map(|unit| format!("{}: {}", self.name(unit.unit).trim_end(), unit.why)),
                );
            }
            Ended::Otherwise(why) => faults.push(why),
        }
        let files = self.parts.all();
        let several = self.manifest.combinations.len() > 1;
        let to = |nth: usize| match several {
            true => packed::results_of(self.manifest, nth, &args.output_dir),
            false => results_path(&args.output_dir, &self.manifest.name),
        };
        let (results, missing) = units_together(self.manifest, &files, &|nth| Some(to(nth)))?;
        let runs_again = self.attempts.saturating_sub(self.units.len().min(self.attempts));
        let mut text = format!("\n{} of {} in {}", results, count(self.units.len(), "unit", "units"), brief(took));
        if runs_again > 0 {
            text.push_str(&format!(", {} more", count(runs_again, "attempt", "attempts")));
        }
        text.push('\n');
        let mut met = true;
        for path in (0..self.manifest.combinations.len()).map(to).filter(|path| path.is_file()) {
            let file = fs::read_to_string(&path).ok().and_then(|text| results::read(&text).ok());
            if let Some(file) = file {
                let (is_met, told) = summary::verify(&file, None, None);
                met &= is_met;
                text.push_str(&told);
            }
            text.push_str(&format!("results: {}\n", shown(path.strip_prefix(".").unwrap_or(&path))));
        }
        print(&text);
        // Most results of a stopped run are missing.
        let shown_missing = if cancelled || !faults.is_empty() { 5 } else { missing.len() };
        for fault in faults.iter().chain(missing.iter().take(shown_missing)) {
            crate::cli::complain(fault);
        }
        if missing.len() > shown_missing {
            crate::cli::complain(&format!("and {} more", missing.len() - shown_missing));
        }
        self.left.dedup();
        self.left.iter().for_each(|left| warn(left));
        let is_pending = !self.left.is_empty() || self.ends.values().any(|exit| *exit == status::PENDING);
        Ok(match signal {
            Some(signal) => signal.exit(),
            None if results == 0 => status::BROKEN,
            None if !faults.is_empty() || !missing.is_empty() || !met => status::NO,
            None if is_pending => status::PENDING,
            None => status::OK,
        })
    }
}

fn brief(time: Duration) -> String {
    duration::format(Duration::from_millis((time.as_millis() as u64 / 100) * 100))
}
