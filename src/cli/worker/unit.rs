//! An attempt at a unit, and a cleanup after one: each is a process of this program, whose journal is followed and carried to the server.
//!
//! Property: *a unit does nothing that would have to be cleaned up before the server has what a cleanup needs; and it does nothing any more
//! when the server may have given it to others.*

use std::{
    io,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use base64::Engine as _;
use serde_json::Value;
use temporalio_client::tonic;
use temporalio_common::protos::temporal::api::workflowservice::v1::PollActivityTaskQueueResponse;
use tokio::{
    io::AsyncWriteExt,
    process::{Child, ChildStdin, Command},
};
use tokio_util::sync::CancellationToken;

use super::Args;
use crate::{
    cli::{note, run::unit::put_files, shown},
    engine::{
        service::{Heard, Service, value},
        wire::{CleanupEnd, CleanupOrder, UnitEnd, UnitOrder},
        workflow::{CleanUp, REFUSED, RunUnit, STOPPED},
    },
    journal::{Carried, Follower, Past, runs},
    pack::{Contents, Manifest},
    report::results_path,
    results,
    run::attended,
};

/// How often a journal is looked at.
const TICK: Duration = Duration::from_millis(10);
/// How many bytes of results travel, in base64: less than a server takes.
const MOST_RESULTS: usize = 1_800_000;
/// How often a cleanup that failed is tried again.
const TRIES: u32 = 3;

/// Where a worker runs units.
pub struct Site {
    manifest: Manifest,
    files: Contents,
    ids: Vec<String>,
    pack: PathBuf,
    work: PathBuf,
    prices: Option<PathBuf>,
    program: PathBuf,
    service: Service,
    identity: String,
}

/// How a process that was attended ended.
enum Ended {
    /// With this exit status.
    By(u8),
    /// By itself, after somebody asked for that.
    Cancelled,
    /// By itself, since this worker is stopped.
    Stopped,
    /// It was ended, since others may have been given its unit.
    Lost,
}

impl Site {
    /// # Errors
    /// The folder cannot be made, or the program does not find itself.
    pub fn new(
        args: &Args,
        manifest: Manifest,
        files: Contents,
        service: Service,
        identity: &str,
    ) -> Result<Self, String> {
        let whole = |path: &Path| std::path::absolute(path).map_err(|error| format!("`{}`: {error}", shown(path)));
        let work = whole(&args.work)?;
        std::fs::create_dir_all(&work).map_err(|error| format!("`{}` cannot be made: {error}", shown(&work)))?;
        // It is nobody's to commit.
        std::fs::write(work.join(".gitignore"), "*\n").map_err(|error| format!("`{}`: {error}", shown(&work)))?;
        Ok(Self {
            ids: manifest.units().into_iter().map(|unit| unit.id).collect(),
            manifest,
            files,
            pack: whole(&args.pack)?,
            work,
            prices: args.prices.as_deref().map(whole).transpose()?,
            program: std::env::current_exe().map_err(|error| format!("this program does not find itself: {error}"))?,
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

    /// Does what a task asks for, and hands in what came of it.
    pub async fn perform(&self, task: PollActivityTaskQueueResponse, stop: &CancellationToken) {
        let token = task.task_token.clone();
        let name = task.activity_type.as_ref().map_or("", |kind| kind.name.as_str());
        let handed_in = match name {
            RunUnit::NAME => match value::<UnitOrder>(task.input.as_ref()) {
                Some(order) if order.pack == self.manifest.digest => self.unit(&token, &order, &task, stop).await,
                order => self.refuse(&token, order.map(|order| order.pack)).await,
            },
            CleanUp::NAME => match value::<CleanupOrder>(task.input.as_ref()) {
                Some(order) if order.pack == self.manifest.digest => {
                    // A worker that began it may have come further.
                    let further = value::<Option<Carried>>(task.heartbeat_details.as_ref()).flatten();
                    let order = CleanupOrder { carried: further.unwrap_or(order.carried.clone()), ..order };
                    self.cleanup(&token, &order, &task, stop).await
                }
                order => self.refuse(&token, order.map(|order| order.pack)).await,
            },
            other => {
                let why = format!("worker {} does not know what `{other}` is: it is of another version", self.identity);
                self.hand_in(|| self.service.failed(&token, REFUSED, &why)).await
            }
        };
        if let Err(status) = handed_in {
            note(&format!("what came of a unit could not be handed in: {}", status.message()));
        }
    }

    async fn refuse(&self, token: &[u8], asked: Option<String>) -> Result<(), tonic::Status> {
        let why = match asked {
            Some(asked) => {
                format!("worker {} has the pack {}, and was asked for {asked}", self.identity, self.manifest.digest)
            }
            None => {
                format!("worker {} does not understand what it was asked for: it is of another version", self.identity)
            }
        };
        self.hand_in(|| self.service.failed(token, REFUSED, &why)).await
    }

    /// Tries again as long as the server is away.
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

    /// A folder that nothing else uses.
    fn folder(&self, unit: u32, what: &str, attempt: u32) -> PathBuf {
        let id = self.ids.get(unit as usize).map_or("none", String::as_str);
        self.work.join(format!("{id}.{what}{attempt}.{}", crate::random::word()))
    }

    async fn unit(
        &self,
        token: &[u8],
        order: &UnitOrder,
        task: &PollActivityTaskQueueResponse,
        stop: &CancellationToken,
    ) -> Result<(), tonic::Status> {
        let started = Instant::now();
        let Some(id) = self.ids.get(order.unit as usize) else {
            let why = format!("the pack has no unit {}", order.unit);
            return self.hand_in(|| self.service.failed(token, REFUSED, &why)).await;
        };
        let out = self.folder(order.unit, "", order.attempt);
        let mut command = self.attended();
        command.arg("exec-unit").arg(&self.pack).args(["--unit", id, "--format", "text", "--out"]).arg(&out);
        if let Some(prices) = &self.prices {
            command.arg("--prices").arg(prices);
        }
        let ended = match self.run(command, &out, token, order.silence, task, stop).await {
            Ok(ended) => ended,
            Err(error) => {
                let why = format!("unit `{id}` cannot be started by worker {}: {error}", self.identity);
                return self.hand_in(|| self.service.failed(token, "broken", &why)).await;
            }
        };
        let exit = match ended {
            Ended::By(exit) => exit,
            Ended::Cancelled => {
                self.leave(&out, false);
                return self.hand_in(|| self.service.cancelled(token)).await;
            }
            Ended::Stopped => {
                self.leave(&out, false);
                let why = format!("worker {} was stopped", self.identity);
                return self.hand_in(|| self.service.failed(token, STOPPED, &why)).await;
            }
            Ended::Lost => return Ok(()),
        };
        let mut end = UnitEnd {
            unit: order.unit,
            exit,
            outcome: None,
            seconds: started.elapsed().as_secs_f64(),
            cost: None,
            results: None,
            note: None,
            worker: self.identity.clone(),
        };
        match self.results(&out) {
            Ok((packed, outcome, cost)) => {
                (end.outcome, end.cost) = (outcome, cost);
                match packed.len() <= MOST_RESULTS {
                    true => end.results = Some(packed),
                    false => {
                        end.note = Some(format!(
                            "its results are too large to travel: they are in {} of worker {}",
                            shown(&out),
                            self.identity
                        ));
                    }
                }
            }
            Err(_) => end.note = Some(self.said(&out).unwrap_or_else(|| format!("it ended with {exit}"))),
        }
        if exit == crate::cli::status::PENDING {
            end.note = Some(format!(
                "a cleanup failed: `gevals recover {}` runs it again, on the machine of worker {}",
                crate::cli::quoted(&out),
                self.identity
            ));
        }
        let handed_in = self.hand_in(|| self.service.completed(token, &end)).await;
        self.leave(&out, exit == 0 && handed_in.is_ok());
        handed_in
    }

    /// Takes away what nobody will look at.
    fn leave(&self, out: &Path, passed: bool) {
        let is_open = runs(out).iter().any(|run| !crate::journal::is_closed(run));
        if passed && !is_open {
            let _ = std::fs::remove_dir_all(out);
            let _ = std::fs::remove_file(log_of(out));
        }
    }

    /// The results file of a unit, ready to travel; how it ended, and what it cost.
    fn results(&self, out: &Path) -> io::Result<(String, Option<String>, Option<f64>)> {
        const LEVEL: i32 = 3;
        let text = std::fs::read_to_string(results_path(out, &self.manifest.name))?;
        let file = results::read(&text).map_err(io::Error::other)?;
        let first = file.results.first();
        let outcome = first.and_then(|result| result.outcome().map(str::to_owned));
        let cost = |result: &results::RunResult| result.0.get("tokenEstimate")?.get("cost").and_then(Value::as_f64);
        let cost = first.and_then(cost);
        let packed = zstd::encode_all(text.as_bytes(), LEVEL)?;
        Ok((base64::engine::general_purpose::STANDARD.encode(packed), outcome, cost))
    }

    /// The last line that a process left in its log.
    fn said(&self, out: &Path) -> Option<String> {
        let log = std::fs::read_to_string(log_of(out)).ok()?;
        let line = log.lines().rev().find(|line| line.starts_with("error: ")).or(log.lines().next_back())?;
        Some(line.trim_start_matches("error: ").to_owned())
    }

    /// This program, which ends when this worker does.
    fn attended(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(attended::ARGUMENT);
        command
    }

    /// Runs a process to its end. Its journal is in that folder.
    async fn run(
        &self,
        mut command: Command,
        out: &Path,
        token: &[u8],
        silence: u64,
        task: &PollActivityTaskQueueResponse,
        stop: &CancellationToken,
    ) -> io::Result<Ended> {
        let log = std::fs::File::create(log_of(out))?;
        command.stdin(Stdio::piped()).stdout(log.try_clone()?).stderr(log);
        // A signal of a terminal is this worker's to pass on.
        command.process_group(0);
        let mut child = command.spawn()?;
        let input = child.stdin.take();
        let attending = Attending {
            site: self,
            token,
            silence: Duration::from_secs(silence),
            workflow: task.workflow_execution.as_ref().map(|of| (of.workflow_id.as_str(), of.run_id.as_str())),
            follower: Follower::new(out),
            carried: None,
            input,
        };
        let ended = attending.until_it_ends(&mut child, stop).await;
        if child.id().is_some() {
            let _ = child.wait().await;
        }
        ended
    }

    async fn cleanup(
        &self,
        token: &[u8],
        order: &CleanupOrder,
        task: &PollActivityTaskQueueResponse,
        stop: &CancellationToken,
    ) -> Result<(), tonic::Status> {
        let out = self.folder(order.unit, "cleanup", order.attempt);
        let mut end =
            CleanupEnd { unit: order.unit, done: 0, pending: false, left: Vec::new(), worker: self.identity.clone() };
        let project = out.join("pack");
        let rebuilt = put_files(&self.files, &project).and_then(|()| order.carried.rebuild(&out, &project));
        let run = match rebuilt {
            Ok(run) => run,
            Err(error) => {
                end.pending = true;
                let pending = order.carried.pending.iter();
                end.left =
                    pending.map(|(task, cleanup)| format!("`{task}`: {cleanup} is still pending: {error}")).collect();
                return self.hand_in(|| self.service.completed(token, &end)).await;
            }
        };
        for nth in 1..=TRIES {
            let mut command = self.attended();
            command.arg("recover").arg(&run);
            let ended = match self.run(command, &out, token, order.silence, task, stop).await {
                Ok(ended) => ended,
                Err(error) => {
                    let why = format!("a cleanup cannot be started by worker {}: {error}", self.identity);
                    return self.hand_in(|| self.service.failed(token, "broken", &why)).await;
                }
            };
            match ended {
                Ended::By(_) => {}
                Ended::Lost => return Ok(()),
                Ended::Cancelled | Ended::Stopped => {
                    let why = format!("worker {} was stopped", self.identity);
                    return self.hand_in(|| self.service.failed(token, STOPPED, &why)).await;
                }
            }
            let past = Past::read(&run).ok().map(|(past, _)| past);
            end.pending = past.is_none_or(|past| past.tasks.values().any(|task| !task.pending.is_empty()));
            if !end.pending || nth == TRIES {
                break;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let log = std::fs::read_to_string(log_of(&out)).unwrap_or_default();
        let lines = log.lines().map(str::trim);
        end.left = lines.clone().filter(|line| line.contains(" is still ")).map(str::to_owned).collect();
        end.done = lines.filter(|line| line.ends_with(" is done")).count() as u32;
        let handed_in = self.hand_in(|| self.service.completed(token, &end)).await;
        self.leave(&out, !end.pending);
        handed_in
    }
}

/// Whether the server may answer later.
fn is_away(status: &tonic::Status) -> bool {
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

/// What a process prints.
fn log_of(out: &Path) -> PathBuf {
    out.with_extension(format!("{}.log", out.extension().unwrap_or_default().to_string_lossy()))
}

/// A process under way.
struct Attending<'s> {
    site: &'s Site,
    token: &'s [u8],
    silence: Duration,
    workflow: Option<(&'s str, &'s str)>,
    follower: Follower,
    carried: Option<Carried>,
    /// Its standard input: what is kept is told there, and its end is the process's.
    input: Option<ChildStdin>,
}

impl Attending<'_> {
    async fn until_it_ends(mut self, child: &mut Child, stop: &CancellationToken) -> io::Result<Ended> {
        let mut asked: Option<Ended> = None;
        let mut arrived = Instant::now();
        // Something that a cleanup needs has not arrived yet.
        let mut untold = false;
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                status = child.wait() => {
                    let exit = exit_of(status?);
                    return Ok(asked.unwrap_or(Ended::By(exit)));
                }
                () = stop.cancelled(), if asked.is_none() => {
                    asked = Some(Ended::Stopped);
                    terminate(child);
                }
                _ = tick.tick() => {}
            }
            // Of what cannot be read nothing can be carried: others go on from what has arrived.
            let Ok(news) = self.follower.follow() else { return self.abandon(child).await };
            if news.any {
                let Ok(carried) = self.follower.carried() else { return self.abandon(child).await };
                self.carried = carried;
            }
            untold |= news.matters;
            if untold || arrived.elapsed() >= self.silence / 4 {
                let sent = Instant::now();
                let heartbeat = self.site.service.heartbeat(self.token, &self.carried);
                match tokio::time::timeout(self.silence / 8, heartbeat).await {
                    Ok(Ok(Heard::GoOn)) => arrived = sent,
                    Ok(Ok(Heard::Cancel)) => {
                        arrived = sent;
                        if asked.is_none() {
                            asked = Some(Ended::Cancelled);
                            terminate(child);
                        }
                    }
                    Ok(Ok(Heard::Unknown)) if self.is_running().await => return self.abandon(child).await,
                    // Nobody waits for it, and nobody else cleans up.
                    Ok(Ok(Heard::Unknown)) => {
                        arrived = sent;
                        if asked.is_none() {
                            asked = Some(Ended::Cancelled);
                            terminate(child);
                        }
                    }
                    Ok(Err(_)) | Err(_) => {}
                }
                if arrived == sent {
                    untold = false;
                    self.tell().await;
                }
            }
            // Before the server can have given it to others.
            if arrived.elapsed() >= self.silence / 2 {
                return self.abandon(child).await;
            }
        }
    }

    /// What was read of the journal has arrived.
    async fn tell(&mut self) {
        let line = format!("{}\n", self.follower.bytes());
        if let Some(input) = &mut self.input {
            let _ = input.write_all(line.as_bytes()).await;
            let _ = input.flush().await;
        }
    }

    /// Whether the workflow goes on without this unit.
    async fn is_running(&self) -> bool {
        let Some((id, run)) = self.workflow else { return true };
        // Where that is not known, others may have it.
        self.site.service.find(id, run).await.map_or(true, |found| found.is_some_and(|found| found.runs))
    }

    async fn abandon(&mut self, child: &mut Child) -> io::Result<Ended> {
        self.input = None;
        let _ = tokio::time::timeout(Duration::from_secs(10), child.wait()).await;
        let _ = child.start_kill();
        Ok(Ended::Lost)
    }
}

fn terminate(child: &Child) {
    let id = child.id().and_then(|id| rustix::process::Pid::from_raw(i32::try_from(id).ok()?));
    if let Some(id) = id {
        let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
    }
}

fn exit_of(status: std::process::ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(3);
    u8::try_from(code).unwrap_or(3)
}
