//! Attempts at batches of units, and cleanups after them. Each runs in a process of this program, whose journal is
//! followed and sent to the server. A process that has run a batch also gets the next one, so that it does not have to
//! read and check the pack again.
//!
//! Invariant: *a unit does nothing that needs cleanup before the server has the data for that cleanup, and it does
//! nothing more once the server may have given it to another worker.*

use std::{
    collections::HashMap,
    ffi::OsStr,
    io::{self, Write as _},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use base64::Engine as _;
use serde_json::Value;
use temporalio_client::tonic;
use temporalio_common::protos::temporal::api::workflowservice::v1::PollActivityTaskQueueResponse;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    process::{Child, Command},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use super::Args;
use crate::{
    cli::{note, run::unit::put_files, shown},
    engine::{
        service::{Heard, Service, value},
        wire::{BatchEnd, BatchOrder, CleanupEnd, CleanupOrder, UnitEnd},
        workflow::{CleanUp, REFUSED, RunBatch, STOPPED},
    },
    journal::{self, Carried, Follower, Past, runs},
    pack::{Contents, Manifest},
    report::results_path,
    results,
    run::attended::{self, Answer},
};

/// How often a journal is polled.
const TICK: Duration = Duration::from_millis(10);
/// The size limit of results in a message, in base64: below the 2 MiB that a server accepts.
const MOST_RESULTS: usize = 2_000_000;
/// The message for a unit whose cleanups need more data than that.
const TOO_LARGE: &str = "the data for its cleanup exceeds 1 MiB compressed and cannot be stored for other workers: it was ended and cleaned up";
/// How many times a cleanup is attempted.
const TRIES: u32 = 3;

/// Where a worker runs units.
pub struct Site {
    manifest: Manifest,
    files: Contents,
    /// The IDs of the units, by index.
    ids: Vec<String>,
    /// The names of their tasks, with paths and runs counted from 1, by index.
    names: Vec<(String, String, u64)>,
    /// The indexes of their combinations of agent and model, by index.
    of: Vec<usize>,
    pack: PathBuf,
    work: PathBuf,
    prices: Option<PathBuf>,
    program: PathBuf,
    service: Service,
    identity: String,
}

/// How an order to a process ended.
#[derive(Clone, Copy)]
enum Ended {
    /// With this exit status.
    By(u8),
    /// It ended itself, after a cancellation.
    Cancelled,
    /// It ended itself, because this worker is being stopped.
    Stopped,
    /// It was ended, because another worker may have been given its unit.
    Lost,
    /// It was ended, because the data for its cleanups is too large to be stored elsewhere.
    TooLarge,
}

/// A process of this program, which ends when this worker does.
pub struct Process {
    child: Child,
    /// Its standard input: it carries orders and confirmations of what is stored. The process ends when it is closed.
    orders: Option<OwnedWriteHalf>,
    /// Its answers over the same socket: how each order ended.
    answers: Lines<BufReader<OwnedReadHalf>>,
    /// Its output. The file has no name.
    log: std::fs::File,
    /// How many bytes of the output were read.
    read: u64,
    /// The index of the combination of agent and model for which it has compiled the eval.
    of: usize,
    /// For a recovery: how many cleanups are done, and what is left, for people.
    done: u32,
    left: Vec<String>,
    is_over: bool,
}

/// How long a process may take to end what it started.
const GRACE: Duration = Duration::from_secs(10);

impl Process {
    /// Starts this program with these arguments.
    fn start(site: &Site, arguments: &[&OsStr], of: usize) -> io::Result<Self> {
        let name = site.work.join(format!(".log-{}", crate::random::word()));
        let log = std::fs::File::options().read(true).append(true).create_new(true).open(&name)?;
        std::fs::remove_file(name)?;
        let (own, its) = std::os::unix::net::UnixStream::pair()?;
        own.set_nonblocking(true)?;
        let mut command = Command::new(&site.program);
        command.args(arguments).stdin(OwnedFd::from(its)).stdout(log.try_clone()?).stderr(log.try_clone()?);
        // This worker passes on the signals of a terminal.
        command.process_group(0);
        let child = command.spawn()?;
        let (answers, orders) = UnixStream::from_std(own)?.into_split();
        let answers = BufReader::new(answers).lines();
        Ok(Self { child, orders: Some(orders), answers, log, read: 0, of, done: 0, left: Vec::new(), is_over: false })
    }

    async fn tell(&mut self, line: &str) -> io::Result<()> {
        let Some(orders) = &mut self.orders else { return Err(io::ErrorKind::BrokenPipe.into()) };
        orders.write_all(format!("{line}\n").as_bytes()).await
    }

    /// Sends an order.
    async fn ask(&mut self, order: &attended::Order) -> io::Result<()> {
        self.tell(&serde_json::to_string(order)?).await
    }

    /// Waits for the end of the order or of the process, and returns the exit status.
    async fn answer(&mut self) -> io::Result<u8> {
        while let Ok(Some(line)) = self.answers.next_line().await {
            match serde_json::from_str(&line) {
                Ok(Answer::Ended(exit)) => return Ok(exit),
                Ok(Answer::Recovered { done, left }) => (self.done, self.left) = (done, left),
                Err(_) => break,
            }
        }
        self.is_over = true;
        Ok(exit_of(self.child.wait().await?))
    }

    /// Returns what it has printed since the last call, or the last MiB of it.
    fn said(&mut self) -> String {
        use std::os::unix::fs::FileExt;
        const MOST: u64 = 1 << 20;
        let length = self.log.metadata().map_or(0, |log| log.len().saturating_sub(self.read));
        let mut bytes = vec![0; length.min(MOST) as usize];
        self.read += length;
        let last = self.read - bytes.len() as u64;
        let read = self.log.read_exact_at(&mut bytes, last);
        read.map_or_else(|_| String::new(), |()| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Closes its input, and kills it if it does not end within `grace`. In that case, also ends what its runs in `out`
    /// started.
    async fn end(&mut self, grace: Duration, out: &Path) {
        self.orders = None;
        if self.is_over {
            return;
        }
        if tokio::time::timeout(grace, self.child.wait()).await.is_err() {
            if let Some(group) = pid_of(&self.child) {
                let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
            }
            let _ = self.child.wait().await;
            attended::end_all(&runs(out)).await;
        }
        self.is_over = true;
    }
}

impl Site {
    /// # Errors
    /// The directory cannot be created, or the path of this program is unknown.
    pub fn new(
        args: &Args,
        manifest: Manifest,
        files: Contents,
        service: Service,
        identity: &str,
    ) -> Result<Self, String> {
        let whole = |path: &Path| std::path::absolute(path).map_err(|error| format!("`{}`: {error}", shown(path)));
        let work = whole(&args.work)?;
        std::fs::create_dir_all(&work).map_err(|error| format!("cannot create `{}`: {error}", shown(&work)))?;
        // It must not be committed.
        std::fs::write(work.join(".gitignore"), "*\n").map_err(|error| format!("`{}`: {error}", shown(&work)))?;
        Ok(Self {
            names: manifest
                .units()
                .iter()
                .map(|unit| (unit.task.to_owned(), unit.path.to_owned(), u64::from(unit.run)))
                .collect(),
            of: manifest.units().iter().map(|unit| unit.at.0).collect(),
            ids: manifest.units().into_iter().map(|unit| unit.id).collect(),
            manifest,
            files,
            pack: whole(&args.pack)?,
            work,
            prices: args.prices.as_deref().map(whole).transpose()?,
            program: std::env::current_exe()
                .map_err(|error| format!("gevals cannot find its own executable: {error}"))?,
            service,
            identity: identity.to_owned(),
        })
    }

    /// How many units the pack has.
    pub fn units(&self) -> usize {
        self.ids.len()
    }

    /// The name of the eval.
    pub fn eval_name(&self) -> &str {
        &self.manifest.name
    }

    /// Performs a task. Results are reported by a future in `handing_in`, so that the next task can be polled
    /// meanwhile, and the process may be reused for it.
    pub async fn perform(
        self: &Arc<Self>,
        task: PollActivityTaskQueueResponse,
        process: &mut Option<Process>,
        stop: &CancellationToken,
        handing_in: &mut JoinSet<()>,
    ) {
        let token = task.task_token.clone();
        let name = task.activity_type.as_ref().map_or("", |kind| kind.name.as_str());
        let handed_in = match name {
            RunBatch::NAME => match value::<BatchOrder>(task.input.as_ref()) {
                Some(order) if order.pack == self.manifest.digest => {
                    self.batch(&token, order, &task, process, stop, handing_in).await
                }
                order => self.refuse(&token, order.map(|order| order.pack)).await,
            },
            CleanUp::NAME => match value::<CleanupOrder>(task.input.as_ref()) {
                Some(order) if order.pack == self.manifest.digest => {
                    // A worker that started this cleanup may have progressed further.
                    let further = value::<Option<Carried>>(task.heartbeat_details.as_ref()).flatten();
                    let order = CleanupOrder { carried: further.unwrap_or(order.carried.clone()), ..order };
                    self.cleanup(&token, &order, &task, stop).await
                }
                order => self.refuse(&token, order.map(|order| order.pack)).await,
            },
            other => {
                let why = format!("worker {} does not know `{other}`: it is another version", self.identity);
                self.hand_in(|| self.service.failed(&token, REFUSED, &why)).await
            }
        };
        say_if_lost(handed_in);
    }

    async fn refuse(&self, token: &[u8], asked: Option<String>) -> Result<(), tonic::Status> {
        let why = match asked {
            Some(asked) => {
                format!("worker {} has the pack {}, and was asked for {asked}", self.identity, self.manifest.digest)
            }
            None => {
                format!("worker {} does not understand its order: it is another version", self.identity)
            }
        };
        self.hand_in(|| self.service.failed(token, REFUSED, &why)).await
    }

    /// Retries while the server is unavailable.
    async fn hand_in<F>(&self, mut call: impl FnMut() -> F) -> Result<(), tonic::Status>
    where
        F: Future<Output = Result<(), tonic::Status>>,
    {
        const PATIENCE: Duration = Duration::from_secs(600);
        let started = Instant::now();
        loop {
            match call().await {
                Err(status) if is_away(&status) && started.elapsed() < PATIENCE => {
                    tokio::time::sleep(Duration::from_millis(500)).await;
                }
                done => return done,
            }
        }
    }

    /// A directory that nothing else uses.
    fn folder(&self, units: &[u32], what: &str, attempt: u32) -> PathBuf {
        let first = units.first().and_then(|unit| self.ids.get(*unit as usize));
        let others = match units.len() {
            0 | 1 => String::new(),
            all => format!("+{}", all - 1),
        };
        let id = first.map_or("none", String::as_str);
        self.work.join(format!("{id}{others}.{what}{attempt}.{}", crate::random::word()))
    }

    async fn batch(
        self: &Arc<Self>,
        token: &[u8],
        order: BatchOrder,
        task: &PollActivityTaskQueueResponse,
        process: &mut Option<Process>,
        stop: &CancellationToken,
        handing_in: &mut JoinSet<()>,
    ) -> Result<(), tonic::Status> {
        let started = Instant::now();
        let ids: Option<Vec<&String>> = order.units.iter().map(|unit| self.ids.get(*unit as usize)).collect();
        let Some(ids) = ids.filter(|ids| !ids.is_empty()) else {
            let why = format!("the pack has no units {:?}", order.units);
            return self.hand_in(|| self.service.failed(token, REFUSED, &why)).await;
        };
        let out = self.folder(&order.units, "", order.attempt);
        let of = self.of[order.units[0] as usize];
        let asked = attended::Order {
            out: out.clone(),
            units: ids.iter().map(|id| (*id).clone()).collect(),
            seconds: order.seconds,
        };
        let begun = match self.begun(&asked, of, process.take()).await {
            Ok(mut begun) => {
                let attending = self.attending(&mut begun, &out, token, order.silence, task);
                attending.until_it_ends(true, stop).await.map(|ended| (begun, ended))
            }
            Err(error) => Err(error),
        };
        let (mut begun, mut ended) = match begun {
            Ok(begun) => begun,
            Err(error) => {
                let why = format!("unit `{}` cannot be started by worker {}: {error}", ids[0], self.identity);
                return self.hand_in(|| self.service.failed(token, "broken", &why)).await;
            }
        };
        let mut log = begun.said();
        // A process that completed its order can take another one.
        if let (Ended::By(0 | 1 | 4), false) = (ended, begun.is_over) {
            *process = Some(begun);
        } else {
            begun.end(GRACE, &out).await;
        }
        // If a process crashed, its units must not run again elsewhere before its cleanup.
        if let Ended::By(_) | Ended::TooLarge = ended
            && let Some(run) =
                runs(&out).pop().filter(|run| !self.results_of(&out).is_file() && !journal::is_closed(run))
        {
            match self.recover(&run, &out, token, order.silence, task, stop).await {
                Ok((Ended::By(_) | Ended::TooLarge, recovery)) => log.push_str(&recovery.log),
                Ok((other, _)) => ended = other,
                Err(_) => {}
            }
        }
        if matches!(ended, Ended::TooLarge) {
            log.push_str(&format!("error: {TOO_LARGE}\n"));
            ended = Ended::By(crate::cli::status::BROKEN);
        }
        if matches!(ended, Ended::Lost) {
            return Ok(());
        }
        let (site, token) = (Arc::clone(self), token.to_owned());
        handing_in.spawn(async move { site.hand_in_batch(&token, &order, &out, ended, &log, started.elapsed()).await });
        Ok(())
    }

    /// Reports the result of a batch, and removes files that nobody needs.
    async fn hand_in_batch(
        &self,
        token: &[u8],
        order: &BatchOrder,
        out: &Path,
        ended: Ended,
        log: &str,
        took: Duration,
    ) {
        let end = self.end_of(order, out, ended, log, took);
        let passed = end.left.is_empty() && end.lost.is_empty() && end.ends.iter().all(|end| end.exit == 0);
        let handed_in = match ended {
            Ended::Cancelled if end.ends.is_empty() => self.hand_in(|| self.service.cancelled(token)).await,
            Ended::Stopped if end.ends.is_empty() => {
                let why = format!("worker {} was stopped", self.identity);
                self.hand_in(|| self.service.failed(token, STOPPED, &why)).await
            }
            _ => self.hand_in(|| self.service.completed(token, &end)).await,
        };
        self.leave(out, passed && handed_in.is_ok(), log);
        say_if_lost(handed_in);
    }

    /// The result of a batch whose process has ended.
    fn end_of(&self, order: &BatchOrder, out: &Path, ended: Ended, log: &str, took: Duration) -> BatchEnd {
        let pending = self.pending(out, &order.units);
        let of_machine = |why: String| {
            format!(
                "{why}: `gevals recover {}` runs it again, on the machine of worker {}",
                crate::cli::quoted(out),
                self.identity
            )
        };
        let mut end = BatchEnd {
            ends: Vec::new(),
            left: Vec::new(),
            lost: Vec::new(),
            results: None,
            worker: self.identity.clone(),
        };
        let text = std::fs::read_to_string(self.results_of(out));
        let file = text.as_deref().map_err(|error| io::Error::from(error.kind()));
        let file = file.and_then(|text| results::read(text).map_err(io::Error::other));
        let by_name: HashMap<_, _> = match &file {
            Ok(file) => {
                let key =
                    |result: &results::RunResult| (result.name().to_owned(), result.path().to_owned(), result.run().0);
                file.results.iter().enumerate().map(|(nth, result)| (key(result), (nth, result))).collect()
            }
            Err(_) => HashMap::new(),
        };
        let alone = order.units.len() == 1;
        let mut kept = Vec::new();
        for unit in &order.units {
            let is_pending = pending.contains(unit);
            let found = by_name.get(&self.names[*unit as usize]);
            let found = found.filter(|(_, result)| result.outcome() != Some("cancelled"));
            let Some((nth, result)) = found else {
                match ended {
                    Ended::By(_) if is_pending => end.ends.push(UnitEnd {
                        unit: *unit,
                        // An exit status of 128 or more prevents another run: a cleanup is pending.
                        exit: 128,
                        outcome: None,
                        seconds: took.as_secs_f64(),
                        cost: None,
                        came_back: false,
                        note: Some(of_machine("its process was lost, and a cleanup is pending".to_owned())),
                    }),
                    Ended::By(exit) if alone => end.ends.push(UnitEnd {
                        unit: *unit,
                        exit,
                        outcome: None,
                        seconds: took.as_secs_f64(),
                        cost: None,
                        came_back: false,
                        note: Some(last_line(log).unwrap_or_else(|| format!("it ended with {exit}"))),
                    }),
                    // A recovery reports all other units as cancelled.
                    Ended::By(_) if file.is_err() || by_name.contains_key(&self.names[*unit as usize]) => {
                        end.lost.push(*unit);
                    }
                    // It was not started: the time was up, or the worker is being stopped.
                    _ => end.left.push(*unit),
                }
                continue;
            };
            let outcome = result.outcome().map(str::to_owned);
            let number = |key: &str| result.0.get(key).and_then(Value::as_f64);
            let exit = match (ended, outcome.as_deref()) {
                (Ended::By(exit), _) if alone => exit,
                (_, Some("passed")) if is_pending || result.0.get("cleanupFailed") == Some(&Value::Bool(true)) => {
                    crate::cli::status::PENDING
                }
                (_, Some("passed")) => crate::cli::status::OK,
                _ => crate::cli::status::NO,
            };
            kept.push(*nth);
            end.ends.push(UnitEnd {
                unit: *unit,
                exit,
                outcome,
                seconds: number("durationSeconds").unwrap_or(took.as_secs_f64()),
                cost: result.0.get("tokenEstimate").and_then(|tokens| tokens.get("cost")?.as_f64()),
                came_back: true,
                note: (exit == crate::cli::status::PENDING).then(|| of_machine("a cleanup failed".to_owned())),
            });
        }
        if let (Ok(file), Ok(text), false) = (&file, &text, kept.is_empty()) {
            match packed(file, text, &kept, &end.ends) {
                Ok(packed) if packed.len() <= MOST_RESULTS => end.results = Some(packed),
                unfit => {
                    let why = unfit.map_or_else(
                        |error| format!("cannot be packed ({error})"),
                        |_| "are too large to send".to_owned(),
                    );
                    let note = format!("its results {why}: they are in {} of worker {}", shown(out), self.identity);
                    for end in end.ends.iter_mut().filter(|end| end.came_back) {
                        end.came_back = false;
                        end.note.get_or_insert_with(|| note.clone());
                    }
                }
            }
        }
        end
    }

    /// The path of the results file of a process, which may have been written by a recovery.
    fn results_of(&self, out: &Path) -> PathBuf {
        results_path(out, &self.manifest.name)
    }

    /// The units among these whose cleanups are pending in the journal of a run.
    fn pending(&self, out: &Path, units: &[u32]) -> Vec<u32> {
        let open = runs(out).pop().filter(|run| !journal::is_closed(run));
        let Some(past) = open.map(|run| Past::read(&run)) else { return Vec::new() };
        let Ok((past, _)) = past else { return units.to_vec() };
        let is_pending = |unit: &&u32| {
            let (name, _, run) = &self.names[**unit as usize];
            let of = |task: &crate::event::TaskRun| task.name == *name && u64::from(task.run) + 1 == *run;
            past.tasks.iter().any(|(task, past)| of(task) && !past.pending.is_empty())
        };
        units.iter().filter(is_pending).copied().collect()
    }

    /// Removes the directory if everything passed; otherwise, writes the log.
    fn leave(&self, out: &Path, passed: bool, log: &str) {
        let is_open = runs(out).iter().any(|run| !journal::is_closed(run));
        if passed && !is_open {
            let _ = std::fs::remove_dir_all(out);
        } else {
            let _ = std::fs::write(log_of(out), log);
        }
    }

    /// Starts a process for units before any are ordered.
    pub fn ready(&self) -> Option<Process> {
        self.started(0, self.ids.first()?).ok()
    }

    /// Starts a process for units with the same agent and model as this one.
    fn started(&self, of: usize, unit: &str) -> io::Result<Process> {
        let folder = self.work.join(format!(".ready-{}", crate::random::word()));
        let mut arguments: Vec<&OsStr> = [attended::SERVING, "exec-unit"].map(OsStr::new).into();
        arguments.extend([
            self.pack.as_os_str(),
            "--unit".as_ref(),
            unit.as_ref(),
            "--out".as_ref(),
            folder.as_os_str(),
        ]);
        arguments.extend(["--format", "text"].map(OsStr::new));
        if let Some(prices) = &self.prices {
            arguments.extend(["--prices".as_ref(), prices.as_os_str()]);
        }
        Process::start(self, &arguments, of)
    }

    /// Returns a process that executes the order: the existing one if possible.
    async fn begun(&self, asked: &attended::Order, of: usize, there: Option<Process>) -> io::Result<Process> {
        if let Some(mut there) = there {
            if there.of == of && there.ask(asked).await.is_ok() {
                return Ok(there);
            }
            there.end(GRACE, &asked.out).await;
        }
        let mut begun = self.started(of, asked.units.first().map_or("", String::as_str))?;
        // This fails if the process has already ended; its output says why.
        let _ = begun.ask(asked).await;
        Ok(begun)
    }

    /// Prepares to follow a process whose journal is in `out`.
    fn attending<'s>(
        &'s self,
        process: &'s mut Process,
        out: &'s Path,
        token: &'s [u8],
        silence: u64,
        task: &'s PollActivityTaskQueueResponse,
    ) -> Attending<'s> {
        Attending {
            site: self,
            token,
            silence: Duration::from_secs(silence),
            workflow: task.workflow_execution.as_ref().map(|of| (of.workflow_id.as_str(), of.run_id.as_str())),
            follower: Follower::new(out),
            carried: None,
            process,
            out,
        }
    }

    /// Runs the pending cleanups of a run in that directory, on this machine.
    async fn recover(
        &self,
        run: &Path,
        out: &Path,
        token: &[u8],
        silence: u64,
        task: &PollActivityTaskQueueResponse,
        stop: &CancellationToken,
    ) -> io::Result<(Ended, Recovery)> {
        let arguments = [attended::ARGUMENT.as_ref(), "recover".as_ref(), run.as_os_str()];
        let mut process = Process::start(self, &arguments, usize::MAX)?;
        let ended = self.attending(&mut process, out, token, silence, task).until_it_ends(false, stop).await;
        let log = process.said();
        process.end(GRACE, out).await;
        Ok((ended?, Recovery { done: process.done, left: process.left, log }))
    }

    async fn cleanup(
        &self,
        token: &[u8],
        order: &CleanupOrder,
        task: &PollActivityTaskQueueResponse,
        stop: &CancellationToken,
    ) -> Result<(), tonic::Status> {
        let out = self.folder(&order.units, "cleanup", order.attempt);
        let mut end = CleanupEnd { done: 0, pending: Vec::new(), left: Vec::new(), worker: self.identity.clone() };
        let project = out.join("pack");
        let rebuilt = put_files(&self.files, &project).and_then(|()| order.carried.rebuild(&out, &project));
        let run = match rebuilt {
            Ok(run) => run,
            Err(error) => {
                end.pending.clone_from(&order.units);
                let pending = order.carried.pending.iter();
                end.left =
                    pending.map(|(task, cleanup)| format!("`{task}`: {cleanup} is still pending: {error}")).collect();
                return self.hand_in(|| self.service.completed(token, &end)).await;
            }
        };
        let mut log = String::new();
        for nth in 1..=TRIES {
            let (ended, recovery) = match self.recover(&run, &out, token, order.silence, task, stop).await {
                Ok(recovered) => recovered,
                Err(error) => {
                    let why = format!("a cleanup cannot be started by worker {}: {error}", self.identity);
                    return self.hand_in(|| self.service.failed(token, "broken", &why)).await;
                }
            };
            log.push_str(&recovery.log);
            match ended {
                Ended::By(_) | Ended::TooLarge => {}
                Ended::Lost => return Ok(()),
                Ended::Cancelled | Ended::Stopped => {
                    let why = format!("worker {} was stopped", self.identity);
                    return self.hand_in(|| self.service.failed(token, STOPPED, &why)).await;
                }
            }
            end.done += recovery.done;
            end.left = recovery.left;
            end.pending = self.pending(&out, &order.units);
            if end.pending.is_empty() || nth == TRIES {
                break;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let handed_in = self.hand_in(|| self.service.completed(token, &end)).await;
        self.leave(&out, end.pending.is_empty(), &log);
        handed_in
    }
}

/// The result of a recovery.
struct Recovery {
    /// How many cleanups were done.
    done: u32,
    /// What is left, for people.
    left: Vec<String>,
    /// The output.
    log: String,
}

fn say_if_lost(handed_in: Result<(), tonic::Status>) {
    if let Err(status) = handed_in {
        note(&format!("the result of a unit could not be reported: {}", status.message()));
    }
}

/// Returns the results at `kept` of a results file, compressed and in base64. `text` is the text of the file.
fn packed(file: &results::ResultsFile, text: &str, kept: &[usize], ends: &[UnitEnd]) -> io::Result<String> {
    const LEVEL: i32 = 3;
    let mut summary = file.summary.clone();
    // `cancelled` refers to units that are left.
    summary.shift_remove("cancelled");
    summary.insert("exit".to_owned(), worst(ends.iter().filter(|end| end.came_back).map(|end| end.exit)).into());
    let mut out = zstd::Encoder::new(Vec::new(), LEVEL)?;
    if kept.len() == file.results.len() && summary == file.summary {
        out.write_all(text.as_bytes())?;
    } else {
        let result = |nth: &usize| Ok(Value::Object(file.results[*nth].0.clone()));
        results::write_file(&Value::Object(summary), kept, result, &Value::Array(file.findings.clone()), &mut out)?;
    }
    Ok(base64::engine::general_purpose::STANDARD.encode(out.finish()?))
}

/// Returns the exit status of a run whose units have these exit statuses.
pub(in crate::cli) fn worst(exits: impl Iterator<Item = u8> + Clone) -> u8 {
    let is_there = |exit: &&u8| exits.clone().any(|there| there == **exit);
    [3, 1, 4].iter().find(is_there).copied().unwrap_or(0)
}

/// Whether the call may succeed later.
pub(super) fn is_away(status: &tonic::Status) -> bool {
    use tonic::Code;
    matches!(
        status.code(),
        Code::Unavailable
            | Code::DeadlineExceeded
            | Code::Unknown
            | Code::Internal
            | Code::Cancelled
            | Code::ResourceExhausted
            | Code::Aborted
    )
}

/// Returns the last error that a process printed, or else its last line.
fn last_line(log: &str) -> Option<String> {
    let line = log.lines().rev().find(|line| line.starts_with("error: ")).or(log.lines().next_back())?;
    Some(line.trim_start_matches("error: ").to_owned())
}

/// The path for the output of a process.
fn log_of(out: &Path) -> PathBuf {
    out.with_extension(format!("{}.log", out.extension().unwrap_or_default().to_string_lossy()))
}

/// A running process whose journal is followed.
struct Attending<'s> {
    site: &'s Site,
    token: &'s [u8],
    silence: Duration,
    workflow: Option<(&'s str, &'s str)>,
    follower: Follower,
    carried: Option<Carried>,
    process: &'s mut Process,
    /// Its directory.
    out: &'s Path,
}

impl Attending<'_> {
    /// Follows the process until it ends. If the data for pending cleanups is too large to be stored, a process that
    /// runs units (`makes`) is ended; a recovery continues.
    async fn until_it_ends(mut self, makes: bool, stop: &CancellationToken) -> io::Result<Ended> {
        let mut asked: Option<Ended> = None;
        let mut arrived = Instant::now();
        // Data that a cleanup needs has not reached the server yet.
        let mut untold = false;
        // `carried` lacks what was read since.
        let mut is_old = false;
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                exit = self.process.answer() => {
                    let exit = exit?;
                    return Ok(asked.unwrap_or(Ended::By(exit)));
                }
                () = stop.cancelled(), if asked.is_none() => {
                    asked = Some(Ended::Stopped);
                    terminate(&self.process.child);
                }
                _ = tick.tick() => {}
            }
            // Nothing can be sent from an unreadable journal: other workers continue from what has arrived.
            let Ok(news) = self.follower.follow() else { return self.abandon().await };
            is_old |= news.any;
            untold |= news.matters;
            if untold || arrived.elapsed() >= self.silence / 4 {
                if std::mem::take(&mut is_old) {
                    match self.follower.carried() {
                        Ok(carried) => self.carried = carried,
                        Err(error) if error.kind() == io::ErrorKind::FileTooLarge && makes => {
                            self.process.end(self.silence / 4, self.out).await;
                            return Ok(Ended::TooLarge);
                        }
                        // Other workers would continue from what arrived earlier.
                        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {}
                        Err(_) => return self.abandon().await,
                    }
                }
                let sent = Instant::now();
                let heartbeat = self.site.service.heartbeat(self.token, &self.carried);
                match tokio::time::timeout(self.silence / 8, heartbeat).await {
                    Ok(Ok(Heard::GoOn)) => arrived = sent,
                    Ok(Ok(Heard::Cancel)) => {
                        arrived = sent;
                        if asked.is_none() {
                            asked = Some(Ended::Cancelled);
                            terminate(&self.process.child);
                        }
                    }
                    Ok(Ok(Heard::Unknown)) if self.is_running().await => return self.abandon().await,
                    // The workflow has ended: nothing waits for the unit, and no other worker cleans up.
                    Ok(Ok(Heard::Unknown)) => {
                        arrived = sent;
                        if asked.is_none() {
                            asked = Some(Ended::Cancelled);
                            terminate(&self.process.child);
                        }
                    }
                    Ok(Err(_)) | Err(_) => {}
                }
                if arrived == sent {
                    untold = false;
                    self.tell().await;
                }
            }
            // This is before the server can give the unit to another worker.
            if arrived.elapsed() >= self.silence / 2 {
                return self.abandon().await;
            }
        }
    }

    /// Tells the process that what was read of its journal has reached the server.
    async fn tell(&mut self) {
        let bytes = self.follower.bytes();
        let _ = self.process.tell(&bytes.to_string()).await;
    }

    /// Whether the workflow is still running, so that another worker may get this unit.
    async fn is_running(&self) -> bool {
        let Some((id, run)) = self.workflow else { return true };
        // If that is unknown, another worker may have the unit.
        let found = tokio::time::timeout(self.silence / 8, self.site.service.find(id, run)).await;
        found.ok().and_then(Result::ok).is_none_or(|found| found.is_some_and(|found| found.runs))
    }

    /// Ends the process before another worker gets its unit.
    async fn abandon(self) -> io::Result<Ended> {
        self.process.end(self.silence / 4, self.out).await;
        Ok(Ended::Lost)
    }
}

fn pid_of(child: &Child) -> Option<rustix::process::Pid> {
    rustix::process::Pid::from_raw(i32::try_from(child.id()?).ok()?)
}

fn terminate(child: &Child) {
    if let Some(id) = pid_of(child) {
        let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
    }
}

fn exit_of(status: std::process::ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(3);
    u8::try_from(code).unwrap_or(3)
}
