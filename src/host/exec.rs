//! Processes: each starts in a process group of its own, gets its input, is read within limits, and is ended at its timeout with
//! everything it started.
//!
//! A step lives as long as the process it started, not as long as the pipes that the process passed on: soon after the leader ends,
//! the output so far is used. What it left in the background may live on ([`Finished::leftover`]); its output is read and discarded,
//! so that it neither blocks nor dies of a closed pipe.
#![expect(clippy::disallowed_methods, reason = "this is the door to processes")]

use super::{
    descriptors,
    disk::is_executable,
    tree::{Leads, MARK, Tree},
};
#[cfg(target_os = "linux")]
use rustix::process::{WaitId, WaitIdOptions, waitid};
use rustix::{io::Errno, process::Pid};
#[cfg(target_os = "linux")]
use std::os::fd::OwnedFd;
use std::{
    ffi::{OsStr, OsString},
    io,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::Stdio,
    sync::OnceLock,
    time::{Duration, Instant},
};
#[cfg(target_os = "linux")]
use tokio::io::unix::AsyncFd;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::unix::pipe,
    process::{Child, Command},
};
use tokio_util::sync::CancellationToken;

/// How long the pipes may take to close after the leader has ended.
const DRAIN: Duration = Duration::from_millis(100);

/// A process to run.
#[derive(Clone, Debug)]
pub struct Exec {
    /// A name is looked up on the PATH; a path is relative to `cwd`.
    pub program: OsString,
    pub args: Vec<OsString>,
    pub cwd: PathBuf,
    /// Added to the inherited environment; of two with the same name, the last one counts.
    pub env: Vec<(OsString, OsString)>,
    /// Whether no environment is inherited.
    pub bare: bool,
    pub stdin: Stdin,
    pub timeout: Duration,
    /// The time from SIGTERM to SIGKILL.
    pub grace: Duration,
    /// How many bytes of each stream are kept, from its beginning.
    pub capture_limit: usize,
    /// Whether `stdout` gets both streams, in the order in which they are written.
    pub merge_stderr: bool,
}

/// What a process reads from its standard input.
#[derive(Clone, Debug)]
pub enum Stdin {
    Empty,
    Bytes(Vec<u8>),
}

impl Exec {
    /// A program to run in a directory, with no arguments, no input and the environment of gevals.
    pub fn new(program: impl Into<OsString>, cwd: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            cwd: cwd.into(),
            env: Vec::new(),
            bare: false,
            stdin: Stdin::Empty,
            timeout: Duration::from_secs(300),
            grace: Duration::from_secs(2),
            capture_limit: 8 << 20,
            merge_stderr: false,
        }
    }

    /// Adds arguments.
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets a variable.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Sets what the program reads from its standard input.
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = Stdin::Bytes(bytes.into());
        self
    }

    /// Sets how long it may take before it is ended.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The value a variable will have in the process.
    fn variable(&self, name: &str) -> Option<OsString> {
        let own = self.env.iter().rev().find(|(n, _)| n == name).map(|(_, v)| v.clone());
        own.or_else(|| std::env::var_os(name).filter(|_| !self.bare || name == MARK))
    }
}

/// How a process ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Exit {
    NotStarted(StartFault),
    Exited(i32),
    Signalled(i32),
    /// `killed`: SIGTERM was not enough.
    TimedOut {
        killed: bool,
    },
    Cancelled {
        killed: bool,
    },
}

/// The limit, for messages.
pub const ROOM: &str = "the system gives a program at most 128 KiB in one argument or variable";

/// Why a process did not start.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StartFault {
    #[error("there is no program `{0}`")]
    NoSuchProgram(String),
    #[error("the folder `{0}` to run it in does not exist")]
    NoSuchDir(String),
    #[error("`{0}` is not executable")]
    NotExecutable(String),
    #[error("`{0}` is neither a program nor a script that begins with `#!`")]
    ExecFormat(String),
    /// The script, and what its first line names.
    #[error("the interpreter `{1}` in the first line of `{0}` does not exist")]
    NoSuchInterpreter(String, String),
    /// What is too large, and how many bytes it has.
    #[error("its {0} has {1} bytes, and {ROOM}: write it into a file, or to standard input")]
    TooLarge(String, usize),
    /// What contains it.
    #[error(
        "its {0} contains a NUL character, which no program can receive there: write it into a file, or to standard input"
    )]
    Nul(String),
    #[error("{0}")]
    Other(String),
}

/// How a process ended, and what it printed.
#[derive(Debug)]
pub struct Finished {
    pub exit: Exit,
    pub stdout: Captured,
    pub stderr: Captured,
    /// The time until the leader ended.
    pub duration: Duration,
    /// How many processes other than the leader had left its group or outlived it, and were killed.
    pub stragglers: usize,
    /// What still runs in the background; only if the leader ended by itself.
    pub leftover: Option<Leftover>,
}

/// The beginning of a stream.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Captured {
    pub bytes: Vec<u8>,
    /// How many bytes were read but not kept.
    pub dropped: u64,
}

impl Captured {
    /// The text as `$(…)` returns it: without the newlines at its end; what is not UTF-8 is replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).trim_end_matches('\n').to_string()
    }
}

/// Processes that outlived their leader. They live until [`super::Host::reap`], or until this is dropped: then they are
/// killed immediately.
#[derive(Debug)]
pub struct Leftover {
    /// `None` if the processes are not real.
    tree: Option<Tree>,
    grace: Duration,
    /// The dead leader, not yet reaped: see [`super::tree`]. It comes after `tree` so that it is dropped after it.
    _leader: Option<Leader>,
}

impl Leftover {
    /// Lets the processes live on, beyond the end of this process.
    pub fn release(self) {
        if let Some(tree) = self.tree {
            tree.release();
        }
    }

    pub(super) fn fake() -> Self {
        Self { tree: None, grace: Duration::ZERO, _leader: None }
    }

    /// Whether the processes have ended by themselves.
    pub async fn has_ended(&mut self) -> bool {
        let Some(tree) = self.tree.take() else { return false };
        let (tree, alive) = tree.check().await;
        self.tree = Some(tree);
        !alive
    }

    pub(super) async fn hold(&mut self, still: bool) {
        if let Some(tree) = self.tree.take() {
            self.tree = Some(tree.hold(still).await);
        }
    }

    pub(super) async fn reap(self) -> usize {
        let Some(tree) = self.tree else { return 1 };
        tree.end(self.grace).await.0.stragglers()
    }
}

/// A process to communicate with. Dropping it kills it and everything it started.
pub struct Process {
    pub stdin: Box<dyn AsyncWrite + Send + Unpin>,
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
    pub stderr: Box<dyn AsyncRead + Send + Unpin>,
    pub handle: Handle,
}

/// The lifetime of a [`Process`], which is killed with everything it started when this is dropped.
pub struct Handle(Option<(Tree, Leader, Duration)>);

impl Handle {
    /// A handle without a process: it never ends by itself.
    pub(super) fn fake() -> Self {
        Self(None)
    }

    /// Waits for the end; may be called again.
    pub async fn wait(&mut self) -> Exit {
        match &mut self.0 {
            Some((_, leader, _)) => leader.ended().await,
            None => std::future::pending().await,
        }
    }

    /// Sends SIGTERM, and SIGKILL after the grace period, to the process and everything it started. Returns how it had ended by itself,
    /// or that it was canceled.
    pub async fn end(self) -> Exit {
        let Some((tree, mut leader, grace)) = self.0 else { return Exit::Exited(0) };
        let early = tokio::time::timeout(Duration::ZERO, leader.ended()).await.ok();
        let (_, killed) = tree.end(grace).await;
        early.unwrap_or(Exit::Cancelled { killed })
    }
}

/// A callback for every process that is started.
#[derive(Default)]
pub(super) struct OnStart(pub OnceLock<Box<dyn Fn(u32) + Send + Sync>>);

impl std::fmt::Debug for OnStart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OnStart")
    }
}

/// Runs a process until it ends, reaches its timeout or is canceled. If the future is dropped, everything it started is killed.
pub(super) async fn run(exec: Exec, mark: String, cancel: CancellationToken, on_start: &OnStart) -> Finished {
    let started = Instant::now();
    let without_process = |exit| Finished {
        exit,
        stdout: Captured::default(),
        stderr: Captured::default(),
        duration: started.elapsed(),
        stragglers: 0,
        leftover: None,
    };
    if cancel.is_cancelled() {
        return without_process(Exit::Cancelled { killed: false });
    }
    let stdin = if let Stdin::Empty = exec.stdin { Stdio::null() } else { Stdio::piped() };
    let (mut leader, tree, mut stdout, mut stderr) = match start(&exec, mark, stdin, on_start).await {
        Ok((leader, tree, out, err)) => {
            (leader, tree, Stream::new(out, exec.capture_limit), Stream::new(err, exec.capture_limit))
        }
        Err(fault) => return without_process(Exit::NotStarted(fault)),
    };
    let input = leader.child.stdin.take();
    // A process that does not read its input is no fault: the write then fails, or is abandoned when the process ends.
    let feed = async {
        if let (Some(mut pipe), Stdin::Bytes(bytes)) = (input, &exec.stdin) {
            let _ = pipe.write_all(bytes).await;
        }
    };

    let ended = {
        let streams = async {
            tokio::join!(feed, stdout.pump(), stderr.pump());
            std::future::pending().await
        };
        tokio::select! {
            biased;
            exit = leader.ended() => Ok(exit),
            () = cancel.cancelled() => Err(true),
            () = tokio::time::sleep(exec.timeout) => Err(false),
            never = streams => never,
        }
    };
    let duration = started.elapsed();
    let mut finished = match ended {
        Ok(exit) => {
            let _ = tokio::time::timeout(DRAIN, async { tokio::join!(stdout.pump(), stderr.pump()) }).await;
            let (tree, alive) = tree.check().await;
            let leftover = alive.then(|| Leftover { tree: Some(tree), grace: exec.grace, _leader: Some(leader) });
            Finished { leftover, duration, ..without_process(exit) }
        }
        Err(cancelled) => {
            let streams = async {
                tokio::join!(stdout.pump(), stderr.pump());
                std::future::pending().await
            };
            let (tree, killed) = tokio::select! {
                ended = tree.end(exec.grace) => ended,
                never = streams => never,
            };
            let duration = started.elapsed();
            let _ = tokio::time::timeout(DRAIN, async { tokio::join!(stdout.pump(), stderr.pump()) }).await;
            let exit = if cancelled { Exit::Cancelled { killed } } else { Exit::TimedOut { killed } };
            Finished { stragglers: tree.stragglers(), duration, ..without_process(exit) }
        }
    };
    (finished.stdout, finished.stderr) = (stdout.finish(), stderr.finish());
    finished
}

/// The arguments and variables that a program was to be given, each with its name for people.
fn given(exec: &Exec) -> impl Iterator<Item = (String, &OsString)> {
    let args = exec.args.iter().enumerate().map(|(nth, arg)| (format!("argument {}", nth + 1), arg));
    let env = exec.env.iter().map(|(name, value)| (format!("variable `{}`", name.to_string_lossy()), value));
    args.chain(env)
}

/// The program in the `#!` line of a script.
fn interpreter_of(script: &Path) -> Option<String> {
    use std::io::{BufRead, BufReader, Read};
    let mut line = Vec::new();
    BufReader::new(std::fs::File::open(script).ok()?.take(256)).read_until(b'\n', &mut line).ok()?;
    let line = String::from_utf8_lossy(&line).into_owned();
    Some(line.strip_prefix("#!")?.split_whitespace().next()?.to_owned())
}

/// The largest argument or variable that a program was to be given.
fn too_large(exec: &Exec) -> StartFault {
    let all = given(exec).map(|(what, value)| (what, value.len()));
    let (what, bytes) = all.max_by_key(|(_, bytes)| *bytes).unwrap_or(("environment".to_owned(), 0));
    StartFault::TooLarge(what, bytes)
}

/// The first argument or variable with a NUL character, if one has it.
fn with_nul(exec: &Exec) -> Option<StartFault> {
    let (what, _) = given(exec).find(|(_, value)| value.as_encoded_bytes().contains(&0))?;
    Some(StartFault::Nul(what))
}

/// Starts a process to communicate with. The timeout and the capture limit of the [`Exec`] do not apply.
pub(super) async fn spawn(exec: Exec, mark: String, on_start: &OnStart) -> Result<Process, StartFault> {
    let (mut leader, tree, stdout, stderr) = start(&exec, mark, Stdio::piped(), on_start).await?;
    let stdin = leader.child.stdin.take();
    Ok(Process {
        stdin: stdin.map_or_else(|| Box::new(tokio::io::sink()) as _, |pipe| Box::new(pipe) as _),
        stdout: stdout.unwrap_or_else(|| Box::new(tokio::io::empty())),
        stderr: stderr.unwrap_or_else(|| Box::new(tokio::io::empty())),
        handle: Handle(Some((tree, leader, exec.grace))),
    })
}

type Pipe = Box<dyn AsyncRead + Send + Unpin>;

/// The process itself. It is not reaped before this is dropped: see [`super::tree`].
#[derive(Debug)]
struct Leader {
    /// Dropped first, while the pid is certainly still its own. `None` if waiting means reaping.
    _leads: Option<Leads>,
    child: Child,
    /// `None` if the system has none; then waiting means reaping.
    #[cfg(target_os = "linux")]
    watch: Option<AsyncFd<OwnedFd>>,
}

impl Leader {
    async fn ended(&mut self) -> Exit {
        #[cfg(target_os = "linux")]
        if let (Some(watch), Some(pid)) = (&self.watch, pid(&self.child))
            && watch.readable().await.is_ok()
        {
            let peek = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
            if let Ok(Some(status)) = waitid(WaitId::Pid(pid), peek) {
                let exited = status.exit_status().map(Exit::Exited);
                return exited.or(status.terminating_signal().map(Exit::Signalled)).unwrap_or(UNKNOWN);
            }
        }
        match self.child.wait().await {
            Ok(status) => status.code().map(Exit::Exited).or(status.signal().map(Exit::Signalled)).unwrap_or(UNKNOWN),
            Err(_) => UNKNOWN,
        }
    }
}

/// For a process whose exit status another one took, which happens only when [`super::Host::reap_marked`] has killed it.
const UNKNOWN: Exit = Exit::Signalled(9);

fn pid(child: &Child) -> Option<Pid> {
    child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?))
}

async fn start(
    exec: &Exec,
    mark: String,
    stdin: Stdio,
    on_start: &OnStart,
) -> Result<(Leader, Tree, Option<Pipe>, Option<Pipe>), StartFault> {
    let other = |e: io::Error| StartFault::Other(e.to_string());
    let cwd = std::path::absolute(&exec.cwd).map_err(other)?;
    if !cwd.is_dir() {
        return Err(StartFault::NoSuchDir(exec.cwd.display().to_string()));
    }
    if let Some(fault) = with_nul(exec) {
        return Err(fault);
    }
    let name = exec.program.to_string_lossy().into_owned();
    let Some(program) = find(&exec.program, &cwd, exec.variable("PATH").as_deref()) else {
        return Err(StartFault::NoSuchProgram(name));
    };
    let marks = match exec.variable(MARK) {
        Some(outer) if !outer.is_empty() => format!("{},{mark}", outer.to_string_lossy()),
        _ => mark.clone(),
    };

    let mut command = Command::new(&program);
    command.args(&exec.args).current_dir(&cwd).process_group(0).kill_on_drop(false).stdin(stdin);
    if exec.bare {
        command.env_clear();
    }
    command.envs(exec.env.iter().map(|(name, value)| (name, value))).env(MARK, marks);
    let merged = if exec.merge_stderr {
        let (reader, writer) = io::pipe().map_err(other)?;
        command.stdout(writer.try_clone().map_err(other)?).stderr(writer);
        Some(pipe::Receiver::from_owned_fd(reader.into()).map_err(other)?)
    } else {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        None
    };

    let mut busy = 0;
    let mut child = loop {
        match command.spawn() {
            Ok(child) => break child,
            // The file was just written, and a process that another thread started meanwhile still has it open.
            Err(e) if e.raw_os_error() == Some(Errno::TXTBSY.raw_os_error()) && busy < 50 => {
                busy += 1;
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Err(e) => {
                return Err(match e.raw_os_error().map(Errno::from_raw_os_error) {
                    Some(Errno::NOENT) if program.exists() => {
                        let interpreter = interpreter_of(&program).unwrap_or_default();
                        StartFault::NoSuchInterpreter(name, interpreter)
                    }
                    Some(Errno::NOENT | Errno::NOTDIR) => StartFault::NoSuchProgram(name),
                    Some(Errno::ACCESS | Errno::ISDIR) => StartFault::NotExecutable(name),
                    Some(Errno::NOEXEC) => StartFault::ExecFormat(name),
                    Some(Errno::TOOBIG) => too_large(exec),
                    _ => other(e),
                });
            }
        }
    };
    // The command still holds the writing end of a merged pipe, which would never close.
    drop(command);
    let pid = pid(&child);
    if let Some(pid) = child.id() {
        descriptors::give_back(pid);
        on_start.0.get().iter().for_each(|on_start| on_start(pid));
    }
    let tree = Tree::of_exec(mark, pid);
    let stdout = merged.map(|p| Box::new(p) as Pipe).or_else(|| child.stdout.take().map(|p| Box::new(p) as Pipe));
    let stderr = child.stderr.take().map(|p| Box::new(p) as Pipe);
    #[cfg(target_os = "linux")]
    let leader = {
        let watch = pid.and_then(watch);
        Leader { _leads: pid.filter(|_| watch.is_some()).map(Leads::its_tree), child, watch }
    };
    #[cfg(not(target_os = "linux"))]
    let leader = Leader { _leads: None, child };
    Ok((leader, tree, stdout, stderr))
}

/// Returns a descriptor that becomes readable when the process ends.
#[cfg(target_os = "linux")]
#[expect(
    deprecated,
    reason = "what replaces it is unsafe, for types that may close their descriptor early; this owns it"
)]
fn watch(pid: Pid) -> Option<AsyncFd<OwnedFd>> {
    let fd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::NONBLOCK).ok()?;
    AsyncFd::with_interest(fd, tokio::io::Interest::READABLE).ok()
}

/// The file to run for `program`. A path with a slash is not searched for, and need only exist.
pub(super) fn find(program: &OsStr, cwd: &Path, path: Option<&OsStr>) -> Option<PathBuf> {
    if program.as_encoded_bytes().contains(&b'/') {
        let file = cwd.join(program);
        return file.exists().then_some(file);
    }
    let runs = |file: &PathBuf| file.metadata().is_ok_and(|meta| meta.is_file() && is_executable(&meta));
    std::env::split_paths(path?).map(|dir| cwd.join(dir).join(program)).find(runs)
}

/// Bytes to read at once from a process that prints little, and from one that prints more.
const LITTLE: usize = 4 << 10;
const MUCH: usize = 64 << 10;

/// A stream that is being read: its beginning is kept, the rest is counted.
struct Stream {
    pipe: Option<Pipe>,
    buffer: Vec<u8>,
    captured: Captured,
    limit: usize,
}

impl Stream {
    fn new(pipe: Option<Pipe>, limit: usize) -> Self {
        Self { pipe, buffer: vec![0; LITTLE], captured: Captured::default(), limit }
    }

    /// Reads to the end. May be dropped and called again: nothing that was read is lost.
    async fn pump(&mut self) {
        while let Some(pipe) = &mut self.pipe {
            match pipe.read(&mut self.buffer).await {
                Ok(0) | Err(_) => self.pipe = None,
                Ok(n) => {
                    let keep = n.min(self.limit - self.captured.bytes.len());
                    self.captured.bytes.extend_from_slice(&self.buffer[..keep]);
                    self.captured.dropped += (n - keep) as u64;
                    if n == self.buffer.len() {
                        self.buffer.resize(MUCH, 0);
                    }
                }
            }
        }
    }

    /// What was read. If another process still has the other end open, the stream is read on and discarded.
    fn finish(self) -> Captured {
        if let Some(mut pipe) = self.pipe {
            tokio::spawn(async move { tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await });
        }
        self.captured
    }
}
