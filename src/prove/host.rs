//! The host of a proof: real processes and files inside of the jail, made-up answers from the network, and a clock that
//! stands still while anything works and jumps to the next wish when nothing does.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

use futures_util::future::BoxFuture;
use tokio::sync::{Notify, mpsc::UnboundedReceiver};
use tokio_util::sync::CancellationToken;

use super::{
    curl, shim, trace,
    world::{World, has_hung},
};
use crate::{
    event::{Event, EventKind},
    host::{
        Exec, Exit, Finished, Host, HttpFault, HttpFaultKind, HttpRequest, HttpResponse, Leftover, Process, RealHost,
        StartFault,
    },
    source::Files,
};

#[derive(Default)]
struct Times {
    now: Duration,
    busy: usize,
    sleepers: BTreeMap<(Duration, u64), Waker>,
    next: u64,
    generation: u64,
}

/// Time that passes only when nothing works.
#[derive(Default)]
pub struct Clock {
    times: Mutex<Times>,
    changed: Notify,
}

impl Clock {
    fn times(&self) -> MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Times)) {
        let mut times = self.times();
        change(&mut times);
        times.generation += 1;
        drop(times);
        self.changed.notify_one();
    }

    /// Lets time pass, for ever.
    pub async fn tick(self: Arc<Self>) {
        loop {
            self.changed.notified().await;
            loop {
                let before = self.times().generation;
                for _ in 0..16 {
                    tokio::task::yield_now().await;
                }
                let Some(due) = self.due(before) else { break };
                due.into_iter().for_each(Waker::wake);
                tokio::task::yield_now().await;
            }
        }
    }

    /// Whom to wake, if nothing has happened since; `None`: wait for something to happen.
    fn due(&self, before: u64) -> Option<Vec<Waker>> {
        let mut times = self.times();
        if times.generation != before {
            return Some(Vec::new());
        }
        if times.busy > 0 {
            return None;
        }
        let (&(at, _), _) = times.sleepers.first_key_value()?;
        times.now = times.now.max(at);
        Some(times.sleepers.range(..=(at, u64::MAX)).map(|(_, w)| w.clone()).collect())
    }
}

struct Busy(Arc<Clock>);

impl Busy {
    fn new(clock: &Arc<Clock>) -> Self {
        clock.change(|t| t.busy += 1);
        Self(Arc::clone(clock))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.change(|t| t.busy -= 1);
    }
}

struct Sleep {
    clock: Arc<Clock>,
    key: (Duration, u64),
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut times = self.clock.times();
        if times.now >= self.key.0 {
            times.sleepers.remove(&self.key);
            return Poll::Ready(());
        }
        let new = times.sleepers.insert(self.key, cx.waker().clone()).is_none();
        if new {
            times.generation += 1;
        }
        drop(times);
        if new {
            self.clock.changed.notify_one();
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.clock.change(|t| {
            t.sleepers.remove(&self.key);
        });
    }
}

/// See the module.
pub struct ProofHost {
    pub real: Arc<RealHost>,
    pub clock: Arc<Clock>,
    pub world: World,
    pub events: Mutex<UnboundedReceiver<Event>>,
    /// What has been told so far.
    pub told: Mutex<Vec<Event>>,
    /// Files as they were when verification began.
    pub made: Mutex<Option<Vec<(PathBuf, Vec<u8>, u32)>>>,
}

impl ProofHost {
    /// The end of a time from now.
    fn wish(&self, duration: Duration) -> Sleep {
        let mut times = self.clock.times();
        let id = times.next;
        times.next += 1;
        let key = (times.now.saturating_add(duration), id);
        drop(times);
        Sleep { clock: Arc::clone(&self.clock), key }
    }

    /// Writes down which phases have begun.
    pub fn listen(&self) {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        while let Ok(event) = events.try_recv() {
            if let EventKind::PhaseStarted { phase } = &event.kind {
                trace::append(&format!("#phase {phase}\n"));
                if phase == "agent" {
                    for (path, text) in &self.world.files {
                        let _ = self.real.write(&Path::new(shim::TASK).join(path), text.as_bytes(), None);
                    }
                }
                if phase == "verify" {
                    *self.made.lock().unwrap_or_else(PoisonError::into_inner) = Some(super::files::written());
                }
            }
            self.told.lock().unwrap_or_else(PoisonError::into_inner).push(event);
        }
    }
}

impl Host for ProofHost {
    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::UNIX_EPOCH
    }

    fn elapsed(&self) -> Duration {
        self.clock.times().now
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let sleep = self.wish(duration);
        Box::pin(async {
            sleep.await;
            trace::append(trace::PAUSE);
        })
    }

    fn random_id(&self) -> String {
        super::files::RANDOM_ID.to_owned()
    }

    fn free_port(&self) -> io::Result<u16> {
        Ok(40_000)
    }

    fn env(&self, name: &str) -> Option<String> {
        self.real.env(name)
    }

    fn which(&self, command: &str) -> Option<PathBuf> {
        self.real.which(command)
    }

    fn files(&self) -> &dyn Files {
        self.real.files()
    }

    fn write(&self, path: &Path, bytes: &[u8], mode: Option<u32>) -> io::Result<()> {
        self.real.write(path, bytes, mode)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.real.remove(path)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.real.create_dir_all(path)
    }

    fn mode(&self, path: &Path) -> io::Result<u32> {
        self.real.mode(path)
    }

    fn set_mode(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.real.set_mode(path, mode)
    }

    fn temp_dir(&self) -> io::Result<PathBuf> {
        self.real.temp_dir()
    }

    fn exec(&self, exec: Exec, cancel: CancellationToken) -> BoxFuture<'_, Finished> {
        Box::pin(async move {
            self.listen();
            shim::wake();
            let limit = exec.timeout;
            let busy = Busy::new(&self.clock);
            let mut finished = self.real.exec(exec, cancel).await;
            drop(busy);
            if finished.exit == Exit::Signalled(9) && has_hung() {
                self.wish(limit).await;
                finished.exit = Exit::TimedOut { killed: true };
            }
            finished
        })
    }

    fn spawn(&self, exec: Exec) -> BoxFuture<'_, Result<Process, StartFault>> {
        self.real.spawn(exec)
    }

    fn mark(&self) -> &str {
        self.real.mark()
    }

    fn hold<'a>(&'a self, leftover: &'a mut Leftover, still: bool) -> BoxFuture<'a, ()> {
        self.real.hold(leftover, still)
    }

    fn reap(&self, leftover: Leftover) -> BoxFuture<'_, usize> {
        Box::pin(async move {
            let _busy = Busy::new(&self.clock);
            self.real.reap(leftover).await
        })
    }

    fn reap_marked(&self, _: &str, _: Duration) -> BoxFuture<'_, usize> {
        Box::pin(async { 0 })
    }

    fn reap_groups(&self, _: Vec<(i32, u64)>, _: Duration) -> BoxFuture<'_, usize> {
        Box::pin(async { 0 })
    }

    fn outside(&self) -> Box<dyn std::any::Any + Send> {
        self.listen();
        Box::new(Busy::new(&self.clock))
    }

    fn http(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpResponse, HttpFault>> {
        Box::pin(async move {
            self.listen();
            let body = request.body.map(|b| String::from_utf8_lossy(&b).into_owned());
            match curl::ask(&self.world, &request.method, &request.url, &request.headers, body.as_deref()) {
                (Some(status), text) => {
                    Ok(HttpResponse { status, headers: Vec::new(), body: text.into_bytes(), truncated: false })
                }
                (None, _) => {
                    Err(HttpFault { kind: HttpFaultKind::Connect, message: "no answer in this world".to_owned() })
                }
            }
        })
    }
}
