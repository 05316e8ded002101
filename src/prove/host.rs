//! The host of a proof: real processes and files inside of the jail, made-up answers from the network, and a clock that
//! stands still while anything is running and otherwise jumps to the next time that something waits for.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;
use tokio::{
    net::TcpListener,
    sync::{Notify, mpsc::UnboundedReceiver},
};
use tokio_util::sync::CancellationToken;

use super::{
    curl,
    files::{self, Looks, State, Written, written},
    memory::{Key, Memory, Past, Took},
    shell, shim, trace,
    watch::Watch,
    world::{Answer, Call, HANGS, LARGEST, World, has_hung},
};
use crate::{
    event::{Event, EventKind},
    host::{
        Captured, Entry, Exec, Exit, Finished, Host, HttpFault, HttpFaultKind, HttpRequest, HttpResponse, Leftover,
        Process, RealHost, StartFault, Stdin,
    },
    source::{Files, normalize},
};

#[derive(Default)]
struct Times {
    now: Duration,
    busy: usize,
    sleepers: BTreeMap<(Duration, u64), Waker>,
    next: u64,
    generation: u64,
}

/// A clock on which time passes only while nothing is running.
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

    /// Advances the clock whenever nothing is running. Never returns.
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

    /// Advances the clock and returns the tasks to wake; none if something has changed since `before`. `None`: wait for a change.
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The result for a process that is not started any more.
fn ended() -> Finished {
    let (stdout, stderr) = (Captured::default(), Captured::default());
    let exit = Exit::Cancelled { killed: false };
    Finished { exit, stdout, stderr, duration: Duration::ZERO, stragglers: 0, leftover: None }
}

/// What all runs in a jail share.
pub struct Stage {
    real: RealHost,
    looks: Mutex<Looks>,
    memory: Mutex<Memory>,
    /// Ends processes that do not end by themselves.
    pub watch: Watch,
    /// The files that each run starts with.
    base: State,
    /// Commands that are replaced by shims.
    commands: BTreeSet<String>,
    /// Whether all shells ask the world which programs exist.
    lookups: bool,
    /// The world of the current run.
    world: Arc<Mutex<Option<World>>>,
}

impl Stage {
    /// Whether every run starts with a file at this path, which may be relative to the directory of the task.
    pub fn starts_with(&self, path: &str) -> bool {
        self.base.contains_key(&normalize(&Path::new(shim::TASK).join(path)))
    }

    /// Uses the current files as the base, and writes functions for bash if no script would notice them.
    pub async fn new(scripts: &[String]) -> Self {
        let real = RealHost::new();
        let mut looks = Looks::default();
        let base = looks.look();
        let (commands, world) = (shell::commands(), Arc::default());
        let listener = TcpListener::bind(("127.0.0.1", 0)).await;
        let mut lookups = !scripts.iter().any(|script| shell::is_foreign(script));
        if let Ok(listener) = listener
            && let Ok(at) = listener.local_addr()
            && !scripts.iter().any(|script| shell::notices(script))
            && shell::write(&commands, at.port(), lookups).is_ok()
        {
            tokio::spawn(shell::serve(listener, Arc::clone(&world)));
        } else {
            lookups = false;
        }
        Self {
            real,
            looks: Mutex::new(looks),
            memory: Mutex::default(),
            watch: Watch::default(),
            base,
            commands,
            lookups,
            world,
        }
    }

    /// The files as they are now.
    pub fn look(&self) -> State {
        lock(&self.looks).look()
    }

    /// Forgets what processes did, and returns it.
    pub fn forget(&self) -> Memory {
        std::mem::take(&mut *lock(&self.memory))
    }

    /// Sets what is known of earlier processes.
    pub fn remember(&self, memory: Memory) {
        *lock(&self.memory) = memory;
    }

    /// Restores all files to their initial state.
    ///
    /// # Errors
    /// The files cannot be written.
    pub fn reset(&self) -> Result<(), String> {
        files::apply(&files::changes(&self.look(), &self.base))
    }
}

/// What is going on in a run.
#[derive(Default)]
struct Traffic {
    open: usize,
    begun: u64,
    /// Whether a process was left in the background: it may do anything at any time.
    crowded: bool,
}

/// A period in which something is done, and whether nothing else was being done when it started.
struct Turn {
    traffic: Arc<Mutex<Traffic>>,
    number: u64,
    alone: bool,
}

impl Turn {
    fn new(traffic: &Arc<Mutex<Traffic>>) -> Self {
        let mut now = lock(traffic);
        let alone = now.open == 0 && !now.crowded;
        now.open += 1;
        now.begun += 1;
        Self { traffic: Arc::clone(traffic), number: now.begun, alone }
    }

    /// Whether nothing else was done in the whole period.
    fn was_alone(&self) -> bool {
        let now = lock(&self.traffic);
        self.alone && now.begun == self.number && !now.crowded
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        lock(&self.traffic).open -= 1;
    }
}

/// See the module documentation.
pub struct ProofHost {
    pub stage: Arc<Stage>,
    pub clock: Arc<Clock>,
    pub world: World,
    pub events: Mutex<UnboundedReceiver<Event>>,
    /// The events received so far.
    pub told: Mutex<Vec<Event>>,
    /// The files as they were when verification started.
    pub made: Mutex<Option<Written>>,
    traffic: Arc<Mutex<Traffic>>,
}

impl ProofHost {
    /// Creates the host of a world, for a run that reports to `events`.
    pub fn new(stage: Arc<Stage>, clock: Arc<Clock>, world: World, events: UnboundedReceiver<Event>) -> Self {
        let (events, told, made) = (Mutex::new(events), Mutex::default(), Mutex::default());
        *lock(&stage.world) = Some(world.clone());
        Self { stage, clock, world, events, told, made, traffic: Arc::default() }
    }

    fn real(&self) -> &RealHost {
        &self.stage.real
    }

    /// Starts a period in which something is done.
    fn turn(&self) -> Turn {
        Turn::new(&self.traffic)
    }

    /// Runs a line of shell without a process, if it is one plain command.
    fn plain(&self, exec: &Exec) -> Option<(Finished, Took)> {
        let [flag, line] = exec.args.as_slice() else { return None };
        let is_shell = matches!(exec.program.to_str()?, "sh" | "/bin/sh" | "bash" | "/bin/bash" | "/usr/bin/bash");
        let is_usual = matches!(exec.stdin, Stdin::Empty) && !exec.merge_stderr && !exec.bare && exec.cwd.is_dir();
        let own = |name: &str| exec.env.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value);
        if !is_shell || flag != "-c" || !is_usual || own("PATH").is_some() {
            return None;
        }
        // A variable that a shell sets itself does not have the given value.
        let variable = |name: &str| Some(own(name).filter(|_| !shell::is_own(name))?.to_str()?.to_owned());
        let argv = shell::words(line.to_str()?, &variable)?;
        // Linux starts no process with an argument or a variable of this size.
        let given = exec.env.iter().map(|(name, value)| name.len() + 1 + value.len());
        if given.chain(argv.iter().map(String::len)).any(|bytes| bytes >= LARGEST) {
            return None;
        }
        let call = Call { argv, stdin: None };
        let found = match call.argv.first() {
            Some(name) if self.stage.commands.contains(name) && shell::is_plain(name) => None,
            _ if call.is_lookup() && self.stage.lookups => Some(self.real().which(&call.argv[2])?),
            _ => return None,
        };
        let _turn = self.turn();
        let call = shim::asked(&self.world, call, &exec.cwd, Some(&mut io::empty()))?;
        let is_slow = self.world.slow().next().is_some();
        if is_slow {
            shim::wake(exec.timeout, &self.world);
        }
        let mut answer = shim::answer(&self.world, &call, &exec.cwd);
        let slept = if is_slow { shim::slept() } else { Duration::ZERO };
        if let Some(path) = found.filter(|_| answer.status == 0) {
            answer.stdout = format!("{}\n", path.display());
        }
        let hung = answer.status == HANGS;
        let captured = |text: &str| Captured { bytes: text.as_bytes().to_vec(), dropped: 0 };
        let (exit, said) = match hung {
            true => (Exit::Signalled(9), Answer::default()),
            false => (Exit::Exited(i32::from(shim::status(&answer))), answer),
        };
        let (stdout, stderr, changes) = (captured(&said.stdout), captured(&said.stderr), Vec::new());
        let past = Past { exit, stdout, stderr, hung, slept, limit: exec.timeout, changes };
        Some((past.finished(), past.took()))
    }

    /// Waits until the calls of `nohup` and `setsid` are in the trace, which both sides must make. They end at once here.
    async fn wait_for_background(&self, finished: &mut Finished) {
        let starts = ["nohup", "setsid"].iter().any(|program| self.stage.commands.contains(*program));
        let Some(leftover) = finished.leftover.as_mut().filter(|_| starts) else { return };
        let since = Instant::now();
        while since.elapsed() < BACKGROUND && !leftover.has_ended().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Runs a process, or repeats what is remembered of it, and returns the time that it takes.
    async fn done(&self, exec: Exec, cancel: CancellationToken) -> (Finished, Took) {
        if let Some(done) = self.plain(&exec).filter(|_| !cancel.is_cancelled()) {
            return done;
        }
        let (turn, limit) = (self.turn(), exec.timeout);
        let (files, before) = (self.stage.look(), trace::of_phase());
        let key = Key::of(&exec, &self.world, &files);
        // What only repeats a setup records nothing that matters.
        let is_fresh = self.world.watched && !before.starts_with(&format!("{}setup", trace::PHASE));
        let may_repeat = turn.alone && !is_fresh;
        let known = may_repeat.then(|| lock(&self.stage.memory).foretell(&key, &self.world, &before)).flatten();
        if let Some((lines, past)) = known
            && past.is_within(limit)
            && files::apply(&past.changes).is_ok()
        {
            trace::append(&lines);
            return (past.finished(), past.took());
        }
        let mut finished = self.stage.watch.run(self.real(), exec, cancel).await;
        self.wait_for_background(&mut finished).await;
        let hung = finished.exit == Exit::Signalled(9) && has_hung();
        let slept = shim::slept();
        if finished.leftover.is_some() {
            lock(&self.traffic).crowded = true;
        }
        let ended = matches!(finished.exit, Exit::Exited(_) | Exit::Signalled(_) | Exit::NotStarted(_));
        let (exit, stdout, stderr) = (finished.exit.clone(), finished.stdout.clone(), finished.stderr.clone());
        let changes = files::changes(&files, &self.stage.look());
        let past = Past { exit, stdout, stderr, hung, slept, limit, changes };
        let took = past.took();
        let after = trace::of_phase();
        if let Some(lines) = after.strip_prefix(&before)
            && ended
            && turn.was_alone()
            && files::is_plain(&past.changes)
        {
            lock(&self.stage.memory).learn(key, &self.world, &before, lines, past);
        }
        (finished, took)
    }

    /// Completes after this time.
    fn wish(&self, duration: Duration) -> Sleep {
        let mut times = self.clock.times();
        let id = times.next;
        times.next += 1;
        let key = (times.now.saturating_add(duration), id);
        drop(times);
        Sleep { clock: Arc::clone(&self.clock), key }
    }

    /// Handles the events so far: records which phases have started, and makes the changes of the agent.
    pub fn listen(&self) {
        let mut events = lock(&self.events);
        while let Ok(event) = events.try_recv() {
            if let EventKind::PhaseStarted { phase } = &event.kind {
                trace::append(&format!("{}{phase}\n", trace::PHASE));
                if self.world.watched {
                    trace::begin(phase);
                }
                if phase == "agent" {
                    for path in &self.world.gone {
                        let path = Path::new(shim::TASK).join(path);
                        if self.world.moves {
                            remove_others(&path);
                        }
                        let _ = std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir_all(&path));
                    }
                    for (name, text) in &self.world.files {
                        let is_folder = name.ends_with('/');
                        let path = Path::new(shim::TASK).join(name);
                        if is_folder {
                            let _ = self.real().create_dir_all(&path);
                            continue;
                        }
                        if self.world.moves {
                            remove_others(&path);
                        }
                        let _ = path.parent().map(|folder| self.real().create_dir_all(folder));
                        // A script may kill the process with this number: there must be none.
                        let text = if files::is_of_process(&path) { NO_PROCESS } else { text };
                        let mode = self.world.programs.contains(name).then_some(0o755);
                        let _ = self.real().write(&path, text.as_bytes(), mode);
                    }
                    for (name, target) in &self.world.links {
                        let path = Path::new(shim::TASK).join(name);
                        let _ = path.parent().map(|folder| self.real().create_dir_all(folder));
                        let _ = std::fs::remove_file(&path);
                        let _ = std::os::unix::fs::symlink(target, &path);
                    }
                }
                if phase == "verify" {
                    *lock(&self.made) = Some(written(&self.stage.look()));
                }
            }
            lock(&self.told).push(event);
        }
    }
}

/// How long the end of a script waits for calls that it started in the background.
const BACKGROUND: Duration = Duration::from_millis(300);

/// A number above the highest one that Linux gives a process.
const NO_PROCESS: &str = "4194305\n";

/// The most files and directories that are searched for one that the agent moves.
const SEARCHED: usize = 500;

/// Removes the files with the name of this one elsewhere in its tree, which is a directory such as `/tmp/NAME`.
fn remove_others(path: &Path) {
    let tree: PathBuf = path.components().take(3).collect();
    let mut rest = if tree == *path { Vec::new() } else { vec![tree] };
    let mut searched = 0;
    while let Some(dir) = rest.pop().filter(|_| searched < SEARCHED) {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            searched += 1;
            let is_other = entry.file_name() == *path.file_name().unwrap_or_default() && entry.path() != path;
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => rest.push(entry.path()),
                Ok(kind) if kind.is_file() && is_other => drop(std::fs::remove_file(entry.path())),
                _ => {}
            }
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
        self.world.env.get(name).cloned().or_else(|| self.real().env(name))
    }

    fn which(&self, command: &str) -> Option<PathBuf> {
        self.real().which(command)
    }

    fn files(&self) -> &dyn Files {
        self.real().files()
    }

    fn entry(&self, path: &Path) -> io::Result<Option<Entry>> {
        self.real().entry(path)
    }

    fn write(&self, path: &Path, bytes: &[u8], mode: Option<u32>) -> io::Result<()> {
        let _turn = self.turn();
        self.real().write(path, bytes, mode)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let _turn = self.turn();
        self.real().remove(path)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        let _turn = self.turn();
        self.real().create_dir_all(path)
    }

    fn mode(&self, path: &Path) -> io::Result<u32> {
        self.real().mode(path)
    }

    fn set_mode(&self, path: &Path, mode: u32) -> io::Result<()> {
        let _turn = self.turn();
        self.real().set_mode(path, mode)
    }

    fn temp_dir(&self) -> io::Result<PathBuf> {
        use std::os::unix::fs::DirBuilderExt;
        let _turn = self.turn();
        let mut names = (0..).map(|n| PathBuf::from(format!("/tmp/gevals-{n}")));
        // The same names in every run.
        let made = names.find_map(|path| match std::fs::DirBuilder::new().mode(0o700).create(&path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => None,
            made => Some(made.map(|()| path)),
        });
        made.unwrap_or_else(|| Err(io::Error::other("no unused name is left")))
    }

    fn exec(&self, mut exec: Exec, cancel: CancellationToken) -> BoxFuture<'_, Finished> {
        Box::pin(async move {
            self.listen();
            if !exec.bare {
                let env = self.world.env.iter().map(|(name, value)| (name.into(), value.into()));
                exec.env.splice(0..0, env);
            }
            let limit = exec.timeout;
            if self.stage.watch.has_ended_one() {
                return ended();
            }
            shim::wake(limit, &self.world);
            let busy = Busy::new(&self.clock);
            let (mut finished, took) = self.done(exec, cancel).await;
            drop(busy);
            match took {
                Took::Forever => {
                    self.wish(limit).await;
                    finished.exit = Exit::TimedOut { killed: true };
                }
                Took::Time(slept) if !slept.is_zero() => self.wish(slept).await,
                Took::Time(_) => {}
            }
            finished
        })
    }

    fn spawn(&self, exec: Exec) -> BoxFuture<'_, Result<Process, StartFault>> {
        self.real().spawn(exec)
    }

    fn mark(&self) -> &str {
        self.real().mark()
    }

    fn hold<'a>(&'a self, leftover: &'a mut Leftover, still: bool) -> BoxFuture<'a, ()> {
        self.real().hold(leftover, still)
    }

    fn reap(&self, leftover: Leftover) -> BoxFuture<'_, usize> {
        Box::pin(async move {
            let _busy = Busy::new(&self.clock);
            self.real().reap(leftover).await
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
        Box::new((Busy::new(&self.clock), self.turn()))
    }

    fn http(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpResponse, HttpFault>> {
        Box::pin(async move {
            self.listen();
            let _turn = self.turn();
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
