//! `gevals worker`: runs units of a pack for an engine.

use std::path::PathBuf;

use super::Global;

const EXAMPLES: &str = "\
Examples:
  temporal server start-dev                                   start a Temporal server to try this
  gevals worker --pack suite.gevals                           on each machine, any number of times
  gevals run suite.gevals --engine temporal -p 20 -o results  start the run and wait for the results

Each worker needs the same pack, and what the pack needs. Each slot runs its units in a separate
process, which ends with the worker. A signal (INT, TERM) ends the worker: its units clean up, and
other workers run them. The same signal again, at least a second later, ends it immediately, as if
it had been killed. If a worker is killed, another worker cleans up after its units, as far as that
is possible from another machine, before they are run again.

Exit status: 2 the pack cannot be used, 3 no server responds, or it stops responding,
             129, 130 or 143 ended by a signal (cleanups were run)";

/// Run units of a pack for Temporal, until stopped.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    pub server: Server,
    /// A pack, as written by `gevals pack`.
    #[arg(long, value_name = "SUITE")]
    pub pack: PathBuf,
    /// Run up to N units in parallel in this worker.
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=512))]
    pub parallel: u16,
    /// The directory in which units run; units that did not pass leave their journals and recordings there.
    #[arg(long, value_name = "DIR", default_value = ".gevals/worker")]
    pub work: PathBuf,
    /// A file with the prices of models.
    #[arg(long, value_name = "FILE")]
    pub prices: Option<PathBuf>,
}

/// The Temporal server, and what this uses of it.
#[derive(clap::Args, Clone, Debug)]
pub struct Server {
    /// The address of the Temporal server.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7233")]
    pub address: String,
    /// The name under which clients and workers find each other.
    #[arg(long, value_name = "NAME", default_value = "gevals", value_parser = name)]
    pub queue: String,
    /// The namespace on the server.
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub namespace: String,
}

/// Checks a word that becomes part of the name of a queue or of an ID.
///
/// # Errors
/// The word is empty, too long, or has other characters.
pub fn name(text: &str) -> Result<String, String> {
    let fit = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    match !text.is_empty() && text.len() <= 100 && text.chars().all(fit) {
        true => Ok(text.to_owned()),
        false => Err("write at most 100 letters, digits, `-`, `_` and `.`".to_owned()),
    }
}

#[cfg(not(feature = "temporal"))]
pub fn main(_: &Args, _: Global) -> u8 {
    super::complain(NOT_HERE);
    super::status::USAGE
}

/// The message of a build without the feature `temporal`.
#[cfg(not(feature = "temporal"))]
pub const NOT_HERE: &str = "this gevals was built without Temporal: build one with `cargo install gevals -F temporal`";

#[cfg(feature = "temporal")]
mod unit;

#[cfg(feature = "temporal")]
pub use at_work::main;
#[cfg(feature = "temporal")]
pub(in crate::cli) use unit::worst;

#[cfg(feature = "temporal")]
mod at_work {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicBool, Ordering},
        },
        time::{Duration, Instant},
    };

    use temporalio_sdk::{Runtime, Worker, WorkerOptions};
    use tokio::task::JoinSet;
    use tokio_util::sync::CancellationToken;

    use super::{
        Args, Global,
        unit::{self, Site},
    };
    use crate::{
        cli::{complain, note, packed, status},
        engine::{queue, service::Service, workflow::RunPack},
        run::{Interrupt, interrupts, stop},
    };

    /// The pause after a failed poll.
    const PAUSE: Duration = Duration::from_secs(1);
    /// How long workflow tasks wait for the worker that has cached the workflow.
    const STICKY: Duration = Duration::from_secs(3);

    pub fn main(args: &Args, _: Global) -> u8 {
        let (manifest, files) = match packed::read(&args.pack) {
            Ok(read) => read,
            Err((exit, why)) => {
                complain(&why);
                return exit;
            }
        };
        let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => {
                complain(&format!("cannot start: {error}"));
                return status::BROKEN;
            }
        };
        let done = runtime.block_on(work(args, manifest, files));
        runtime.shutdown_timeout(Duration::from_millis(200));
        match done {
            Ok(signal) => signal.exit(),
            Err(why) => {
                complain(&why);
                status::BROKEN
            }
        }
    }

    async fn work(
        args: &Args,
        manifest: crate::pack::Manifest,
        files: crate::pack::Contents,
    ) -> Result<Interrupt, String> {
        let mut signals = interrupts().map_err(|error| format!("cannot listen for signals: {error}"))?;
        let identity = format!("{}@{}", std::process::id(), super::super::host_name());
        let address = &args.server.address;
        let unreachable = |why: String| format!("no Temporal server responds at `{address}`: {why}");
        let service = Service::connect(address, &args.server.namespace, &identity).await.map_err(unreachable)?;
        let queue = queue(&args.server.queue, &manifest.digest);
        let site = Arc::new(Site::new(args, manifest, files, service.clone(), &identity)?);
        note(&format!(
            "worker {identity}: {} of `{}` from {address}, queue `{queue}`",
            crate::builtin::count(site.units(), "unit", "units"),
            site.eval_name(),
        ));
        let runtime = Runtime::from_current_tokio(Default::default()).map_err(|error| error.to_string())?;
        let options = WorkerOptions::new(queue.as_str())
            .register_workflow::<RunPack>()
            .map_err(|error| error.to_string())?
            .sticky_queue_schedule_to_start_timeout(STICKY)
            .build();
        let mut worker = Worker::new(&runtime, service.client().clone(), options).map_err(|error| error.to_string())?;
        let shut_down = worker.shutdown_handle();
        let stop = CancellationToken::new();
        let is_away = Arc::new(AtomicBool::new(false));
        let mut places = JoinSet::new();
        for _ in 0..args.parallel {
            let (site, is_away) = (Arc::clone(&site), Arc::clone(&is_away));
            let (service, queue, stop) = (service.clone(), queue.clone(), stop.clone());
            places.spawn(async move {
                let mut handing_in = JoinSet::new();
                let ended = poll(service, queue, site, stop, is_away, &mut handing_in).await;
                while let Some(handed_in) = handing_in.join_next().await {
                    handed_in.map_err(not_handed_in)?;
                }
                ended
            });
        }
        let workflows = worker.run();
        tokio::pin!(workflows);
        let began = Instant::now();
        let mut heard = stop::Heard::default();
        let ended = tokio::select! {
            signal = signals.recv() => Ok(signal.unwrap_or(Interrupt::Term)),
            Some(place) = places.join_next() => Err(match place {
                Ok(Err(why)) => format!("the server does not provide any work: {why}"),
                Ok(Ok(())) => "a slot ended unexpectedly".to_owned(),
                Err(error) => format!("a slot ended unexpectedly: {error}"),
            }),
            ended = &mut workflows => Err(match ended {
                Ok(()) => "the worker ended unexpectedly".to_owned(),
                Err(error) => format!("the worker cannot continue: {error}"),
            }),
        };
        if let Ok(signal) = ended {
            heard.hear(signal, began.elapsed());
        }
        note("stopping: running units clean up, and other workers run them");
        stop.cancel();
        loop {
            tokio::select! {
                place = places.join_next() => match place {
                    Some(_) => {}
                    None => break,
                },
                Some(signal) = signals.recv() => {
                    if heard.hear(signal, began.elapsed()) == stop::Asks::Again {
                        note(&format!("{} again: other workers clean up after running units", signal.name()));
                        return ended;
                    }
                }
            }
        }
        if ended.is_ok() {
            shut_down();
            // A clean shutdown lets the server give pending workflow tasks to other workers soon.
            let _ = tokio::time::timeout(Duration::from_secs(5), workflows).await;
        }
        ended
    }

    fn not_handed_in(error: tokio::task::JoinError) -> String {
        format!("the result of a batch could not be reported: {error}")
    }

    /// Runs one batch or cleanup after another, in a process that is started in advance. `is_away`: whether it was
    /// already reported that the server does not respond.
    ///
    /// # Errors
    /// The server's message, if an error is permanent.
    async fn poll(
        service: Service,
        queue: String,
        site: Arc<Site>,
        stop: CancellationToken,
        is_away: Arc<AtomicBool>,
        handing_in: &mut JoinSet<()>,
    ) -> Result<(), String> {
        let mut process = site.ready();
        loop {
            while let Some(handed_in) = handing_in.try_join_next() {
                handed_in.map_err(not_handed_in)?;
            }
            let polled = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                polled = service.poll(&queue) => polled,
            };
            match polled {
                Ok(Some(task)) => site.perform(task, &mut process, &stop, handing_in).await,
                // There is nothing to do, and an idle process uses memory.
                Ok(None) => process = None,
                Err(why) if unit::is_away(&why) => {
                    if !is_away.swap(true, Ordering::Relaxed) {
                        note(&format!("waiting for the server: {}", why.message()));
                    }
                    tokio::select! {
                        () = stop.cancelled() => return Ok(()),
                        () = tokio::time::sleep(PAUSE) => {}
                    }
                    continue;
                }
                Err(why) => return Err(why.message().to_owned()),
            }
            is_away.store(false, Ordering::Relaxed);
        }
    }
}
