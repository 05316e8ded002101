//! Server processes: each is started in its own process group, watched, and killed with its group when closed. Also
//! splits their output into lines.

use std::{
    collections::VecDeque,
    io,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{ExitStatus, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use indexmap::IndexMap;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::{ChildStderr, ChildStdin, ChildStdout, Command},
    sync::watch,
};
use tokio_util::bytes::{Bytes, BytesMut};

use super::ServerError;

const STDERR_KEPT: usize = 64 * 1024;

/// A started process, without its pipes.
#[derive(Debug, Clone)]
pub(crate) struct Process {
    group: Arc<Group>,
    exit: watch::Receiver<Option<String>>,
    stderr: Arc<Mutex<VecDeque<u8>>>,
    /// Closed once standard error has been read to its end.
    silent: watch::Receiver<()>,
}

pub(crate) fn spawn(
    server: &str,
    command: &str,
    args: &[String],
    env: &IndexMap<String, String>,
    cwd: Option<&Path>,
) -> Result<(Process, ChildStdin, ChildStdout), ServerError> {
    spawn_with(server, command, args, env, cwd, true)
}

/// Like [`spawn`]; the process inherits the environment of gevals only if `inherited` is set.
pub(crate) fn spawn_with(
    server: &str,
    command: &str,
    args: &[String],
    env: &IndexMap<String, String>,
    cwd: Option<&Path>,
    inherited: bool,
) -> Result<(Process, ChildStdin, ChildStdout), ServerError> {
    let cannot =
        |reason: String| ServerError::CannotRun { server: server.to_owned(), command: command.to_owned(), reason };
    let mut prepared = Command::new(command);
    if !inherited {
        prepared.env_clear();
    }
    prepared.args(args).envs(env).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    prepared.process_group(0).kill_on_drop(true);
    if let Some(dir) = cwd {
        prepared.current_dir(dir);
    }
    let mut busy = 0;
    let started = loop {
        match prepared.spawn() {
            // The file was written a moment ago, and a process that another thread started meanwhile still has it open.
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy && busy < 50 => {
                busy += 1;
                std::thread::sleep(Duration::from_millis(10));
            }
            started => break started,
        }
    };
    let mut child = started.map_err(|error| match (error.kind(), cwd) {
        (io::ErrorKind::NotFound, Some(dir)) if !dir.is_dir() => {
            ServerError::NoDirectory { server: server.to_owned(), dir: dir.display().to_string() }
        }
        (io::ErrorKind::NotFound, _) => {
            ServerError::CommandNotFound { server: server.to_owned(), command: command.to_owned() }
        }
        _ => cannot(error.to_string()),
    })?;
    child.id().iter().for_each(|pid| crate::host::descriptors::give_back(*pid));
    let (Some(stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(cannot("no pipes".to_owned()));
    };
    let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    let group = Arc::new(Group(Mutex::new(pid)));
    let tail = Arc::new(Mutex::new(VecDeque::new()));
    let (speaking, silent) = watch::channel(());
    tokio::spawn(keep_tail(stderr, tail.clone(), speaking));
    let (exited, exit) = watch::channel(None);
    let watched = group.clone();
    tokio::spawn(async move {
        // If the runtime drops this task, the guard still kills the group.
        let guard = KillGroup(watched);
        let text = match child.wait().await {
            Ok(status) => ended_how(status),
            Err(error) => format!("cannot be waited for: {error}"),
        };
        drop(guard);
        exited.send_replace(Some(text));
    });
    Ok((Process { group, exit, stderr: tail, silent }, stdin, stdout))
}

impl Process {
    /// The process ID, until the process has been waited for.
    pub fn pid(&self) -> Option<u32> {
        lock(&self.group.0).and_then(|pid| pid.as_raw_pid().try_into().ok())
    }

    /// How the process ended, if it has ended.
    pub fn exited(&self) -> Option<String> {
        self.exit.borrow().clone()
    }

    pub async fn wait(&self) -> String {
        let mut exit = self.exit.clone();
        match exit.wait_for(Option::is_some).await {
            Ok(text) => text.clone().unwrap_or_default(),
            Err(_) => "ended".to_owned(),
        }
    }

    /// Waits for the exit, and for the end of standard error as well; the latter only briefly, because a stray
    /// descendant may keep the pipe open.
    pub async fn wait_for_all(&self) -> String {
        let status = self.wait().await;
        let mut silent = self.silent.clone();
        let _ =
            tokio::time::timeout(Duration::from_millis(200), async { while silent.changed().await.is_ok() {} }).await;
        status
    }

    /// The last part of what the process printed to standard error.
    pub fn stderr(&self) -> String {
        let tail = lock(&self.stderr);
        let (front, back) = tail.as_slices();
        let text = String::from_utf8_lossy(&[front, back].concat()).into_owned();
        // The first line may be truncated, possibly in the middle of a secret.
        match text.split_once('\n') {
            Some((_, whole)) if tail.len() >= STDERR_KEPT => whole.to_owned(),
            _ => text,
        }
    }

    /// Call this after closing the standard input of the process: waits for it to exit, then sends SIGTERM, then
    /// SIGKILL, to its group. No process of the group is left.
    pub async fn close(&self, grace: Duration) -> String {
        for signal in [Signal::TERM, Signal::KILL] {
            if let Ok(text) = tokio::time::timeout(grace, self.wait()).await {
                return text;
            }
            self.group.signal(signal);
        }
        self.wait().await
    }

    pub fn kill(&self) {
        self.group.signal(Signal::KILL);
    }
}

/// The process group, until its leader has been waited for: afterwards the number may be reused.
#[derive(Debug)]
struct Group(Mutex<Option<Pid>>);

impl Group {
    fn signal(&self, signal: Signal) {
        if let Some(group) = *lock(&self.0) {
            // ESRCH: the group no longer exists, which is the goal.
            let _ = kill_process_group(group, signal);
        }
    }
}

struct KillGroup(Arc<Group>);

impl Drop for KillGroup {
    fn drop(&mut self) {
        self.0.signal(Signal::KILL);
        *lock(&self.0.0) = None;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn ended_how(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with status {code}"),
        (None, Some(signal)) => match Signal::from_named_raw(signal) {
            Some(name) => {
                format!(
                    "was killed by signal {signal} ({})",
                    format!("{name:?}").trim_matches('"').replace("Signal::", "SIG")
                )
            }
            None => format!("was killed by signal {signal}"),
        },
        (None, None) => "ended".to_owned(),
    }
}

async fn keep_tail(mut stderr: ChildStderr, tail: Arc<Mutex<VecDeque<u8>>>, _speaking: watch::Sender<()>) {
    let mut chunk = [0; 4096];
    while let Ok(read @ 1..) = stderr.read(&mut chunk).await {
        let mut tail = lock(&tail);
        tail.extend(&chunk[..read]);
        let excess = tail.len().saturating_sub(STDERR_KEPT);
        tail.drain(..excess);
    }
}

/// Splits input into lines of at most `limit` bytes; the last line need not end in a line feed.
pub(crate) struct Lines<R> {
    reader: R,
    buffer: BytesMut,
    /// The first `scanned` bytes of the buffer contain no line feed.
    scanned: usize,
    limit: usize,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub fn new(reader: R, limit: usize) -> Self {
        Lines { reader, buffer: BytesMut::new(), scanned: 0, limit }
    }

    /// After a line beyond the limit: reads to the end of that line and discards it. `see` gets each piece and returns
    /// whether to continue. Returns `false` if `see` stopped, or at the end of the input.
    pub async fn skip(&mut self, mut see: impl FnMut(&[u8]) -> bool) -> io::Result<bool> {
        loop {
            let end = self.buffer.iter().position(|byte| *byte == b'\n');
            let piece = self.buffer.split_to(end.map_or(self.buffer.len(), |at| at + 1));
            self.scanned = 0;
            if !see(&piece) {
                return Ok(false);
            }
            if end.is_some() {
                return Ok(true);
            }
            self.buffer.reserve(64 * 1024);
            if self.reader.read_buf(&mut self.buffer).await? == 0 {
                return Ok(false);
            }
        }
    }

    /// Returns `InvalidData` for a line beyond the limit; [`Lines::skip`] skips the rest of it. Dropping the future
    /// loses nothing.
    pub async fn next(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            if let Some(at) = self.buffer[self.scanned..].iter().position(|byte| *byte == b'\n') {
                let mut line = self.buffer.split_to(self.scanned + at + 1);
                self.scanned = 0;
                line.truncate(line.len() - 1);
                if line.last() == Some(&b'\r') {
                    line.truncate(line.len() - 1);
                }
                return Ok(Some(line.freeze()));
            }
            self.scanned = self.buffer.len();
            if self.scanned > self.limit {
                return Err(io::ErrorKind::InvalidData.into());
            }
            self.buffer.reserve(8 * 1024);
            if self.reader.read_buf(&mut self.buffer).await? == 0 {
                self.scanned = 0;
                let rest = self.buffer.split();
                return Ok((!rest.is_empty()).then(|| rest.freeze()));
            }
        }
    }
}
