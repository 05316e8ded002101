//! A host for tests: it answers from a script, and its clock is tokio's, which a test can pause.
//!
//! Under `#[tokio::test(start_paused = true)]` everything in it is deterministic: sleeps and timeouts take no time.

use super::{
    Captured, Exec, Exit, Finished, Handle, Host, HttpFault, HttpFaultKind, HttpRequest, HttpResponse, Leftover,
    Process, StartFault, Stdin,
};
use crate::source::{Files, MemoryFiles, ReadError, Stat};
use futures_util::future::BoxFuture;
use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{io::DuplexStream, time::Instant};
use tokio_util::sync::CancellationToken;

/// What a process does.
#[derive(Clone, Debug)]
pub struct Answer {
    pub exit: Exit,
    pub stdout: String,
    pub stderr: String,
    pub takes: Duration,
    /// Whether it leaves something running in the background.
    pub leaves: bool,
}

impl Answer {
    /// A command that ends with this status, and prints nothing.
    pub fn exit(code: i32) -> Self {
        let [stdout, stderr] = [String::new(), String::new()];
        Self { exit: Exit::Exited(code), stdout, stderr, takes: Duration::ZERO, leaves: false }
    }

    /// A command that succeeds and prints this.
    pub fn prints(stdout: &str) -> Self {
        Self { stdout: stdout.to_string(), ..Self::exit(0) }
    }

    /// Sets how long the command takes, on the clock of the fake host.
    pub fn takes(self, takes: Duration) -> Self {
        Self { takes, ..self }
    }
}

/// A scripted host. [`FakeHost::log`] shows what it was asked.
#[derive(Debug)]
pub struct FakeHost {
    started: Instant,
    state: Mutex<State>,
    disk: FakeDisk,
}

#[derive(Debug, Default)]
struct State {
    env: BTreeMap<String, String>,
    commands: Vec<String>,
    /// For each kind of request, answers by a part of it; the last answer for a part stays.
    execs: Vec<(String, Answer)>,
    https: Vec<(String, Result<HttpResponse, HttpFault>)>,
    spawns: Vec<(String, DuplexStream)>,
    log: Vec<String>,
    ids: u32,
}

impl Default for FakeHost {
    fn default() -> Self {
        Self::new()
    }
}

impl FakeHost {
    /// A host without files, commands and answers.
    pub fn new() -> Self {
        Self { started: Instant::now(), state: Mutex::default(), disk: FakeDisk::default() }
    }

    /// Answers processes whose command line, or text on stdin, contains `part`. Several answers for one part are given
    /// in turn, and the last one from then on. A process without an answer is a program that does not exist.
    pub fn on_exec(&self, part: &str, answer: Answer) {
        self.state().execs.push((part.to_string(), answer));
    }

    /// Answers requests whose `METHOD URL` contains `part`, in turn like [`FakeHost::on_exec`]. Other requests are refused.
    pub fn on_http(&self, part: &str, answer: Result<HttpResponse, HttpFault>) {
        self.state().https.push((part.to_string(), answer));
    }

    /// Sets the streams of the next process whose command line contains `part`.
    pub fn on_spawn(&self, part: &str, streams: DuplexStream) {
        self.state().spawns.push((part.to_string(), streams));
    }

    /// Sets an environment variable.
    pub fn set_env(&self, name: &str, value: &str) {
        self.state().env.insert(name.to_string(), value.to_string());
    }

    /// Puts a command on the PATH, as `/bin/NAME`.
    pub fn add_command(&self, name: &str) {
        self.state().commands.push(name.to_string());
    }

    /// What this host was asked to do so far: `exec PROGRAM ARGS`, `spawn …`, `http METHOD URL`, `write PATH`, `remove
    /// PATH`, `reap`.
    pub fn log(&self) -> Vec<String> {
        self.state().log.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The first answer to a request; it is removed if another one for the same part follows.
fn take<T: Clone>(answers: &mut Vec<(String, T)>, fits: impl Fn(&str) -> bool) -> Option<T> {
    let first = answers.iter().position(|(part, _)| fits(part))?;
    let part = &answers[first].0;
    let follows = answers[first + 1..].iter().any(|(other, _)| other == part);
    Some(if follows { answers.remove(first).1 } else { answers[first].1.clone() })
}

fn command_line(exec: &Exec) -> String {
    let words = std::iter::once(&exec.program).chain(&exec.args);
    words.map(|w| w.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

impl Host for FakeHost {
    /// Midnight of 1 January 2026, plus the time that has passed since.
    fn now(&self) -> jiff::Timestamp {
        let start = jiff::Timestamp::constant(1_767_225_600, 0);
        start.checked_add(self.elapsed()).unwrap_or(start)
    }

    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }

    /// `aaaaaaaa`, `aaaaaaab`, …
    fn random_id(&self) -> String {
        let mut state = self.state();
        let mut n = state.ids;
        state.ids += 1;
        let mut id = [b'a'; 8];
        for digit in id.iter_mut().rev() {
            *digit += (n % 26) as u8;
            n /= 26;
        }
        id.map(char::from).iter().collect()
    }

    fn free_port(&self) -> io::Result<u16> {
        let mut state = self.state();
        state.ids += 1;
        Ok(40_000 + state.ids as u16)
    }

    fn env(&self, name: &str) -> Option<String> {
        self.state().env.get(name).cloned()
    }

    fn which(&self, command: &str) -> Option<PathBuf> {
        let known = self.state().commands.iter().any(|c| c == command);
        known.then(|| Path::new("/bin").join(command))
    }

    fn files(&self) -> &dyn Files {
        &self.disk
    }

    fn write(&self, path: &Path, bytes: &[u8], mode: Option<u32>) -> io::Result<()> {
        self.state().log.push(format!("write {}", path.display()));
        let mode = mode.or_else(|| self.mode(path).ok()).unwrap_or(0o644);
        self.disk.lock().add(path, bytes, mode & 0o111 != 0);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.state().log.push(format!("remove {}", path.display()));
        let mut files = self.disk.lock();
        let mut kept = MemoryFiles::default();
        for file in files.paths().filter(|file| !file.starts_with(crate::source::normalize(path))) {
            let executable = files.stat(file) == Some(Stat::File { executable: true });
            kept.add(file, files.read(file).unwrap_or_default(), executable);
        }
        *files = kept;
        Ok(())
    }

    fn create_dir_all(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn mode(&self, path: &Path) -> io::Result<u32> {
        match self.disk.stat(path) {
            Some(Stat::Dir | Stat::File { executable: true }) => Ok(0o755),
            Some(Stat::File { executable: false }) => Ok(0o644),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn set_mode(&self, path: &Path, mode: u32) -> io::Result<()> {
        let bytes = self.disk.read(path).map_err(|_| io::Error::from(io::ErrorKind::NotFound))?;
        self.disk.lock().add(path, bytes, mode & 0o111 != 0);
        Ok(())
    }

    fn temp_dir(&self) -> io::Result<PathBuf> {
        Ok(Path::new("/tmp").join(self.random_id()))
    }

    fn exec(&self, exec: Exec, cancel: CancellationToken) -> BoxFuture<'_, Finished> {
        let line = command_line(&exec);
        let stdin = match &exec.stdin {
            Stdin::Empty => String::new(),
            Stdin::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        };
        let answer = {
            let mut state = self.state();
            state.log.push(format!("exec {line}"));
            take(&mut state.execs, |part| line.contains(part) || stdin.contains(part))
        };
        let fault = StartFault::NoSuchProgram(exec.program.to_string_lossy().into_owned());
        let answer = answer.unwrap_or(Answer { exit: Exit::NotStarted(fault), ..Answer::exit(0) });
        Box::pin(async move {
            let started = Instant::now();
            let exit = tokio::select! {
                biased;
                () = cancel.cancelled() => Exit::Cancelled { killed: false },
                () = tokio::time::sleep(answer.takes), if answer.takes <= exec.timeout => answer.exit,
                () = tokio::time::sleep(exec.timeout) => Exit::TimedOut { killed: false },
            };
            let capture = |text: String| {
                let mut bytes = text.into_bytes();
                let dropped = bytes.len().saturating_sub(exec.capture_limit) as u64;
                bytes.truncate(exec.capture_limit);
                Captured { bytes, dropped }
            };
            let (stdout, stderr) = if exec.merge_stderr {
                (answer.stdout + &answer.stderr, String::new())
            } else {
                (answer.stdout, answer.stderr)
            };
            Finished {
                leftover: (answer.leaves && matches!(exit, Exit::Exited(_))).then(Leftover::fake),
                exit,
                stdout: capture(stdout),
                stderr: capture(stderr),
                duration: started.elapsed(),
                stragglers: 0,
            }
        })
    }

    fn spawn(&self, exec: Exec) -> BoxFuture<'_, Result<Process, StartFault>> {
        let line = command_line(&exec);
        let mut state = self.state();
        state.log.push(format!("spawn {line}"));
        let answer = state.spawns.iter().position(|(part, _)| line.contains(part)).map(|i| state.spawns.remove(i).1);
        Box::pin(async move {
            let fault = || StartFault::NoSuchProgram(exec.program.to_string_lossy().into_owned());
            let (stdout, stdin) = tokio::io::split(answer.ok_or_else(fault)?);
            let stderr = Box::new(tokio::io::empty());
            Ok(Process { stdin: Box::new(stdin), stdout: Box::new(stdout), stderr, handle: Handle::fake() })
        })
    }

    fn mark(&self) -> &str {
        "fake"
    }

    fn hold<'a>(&'a self, leftover: &'a mut Leftover, still: bool) -> BoxFuture<'a, ()> {
        Box::pin(leftover.hold(still))
    }

    fn reap(&self, leftover: Leftover) -> BoxFuture<'_, usize> {
        self.state().log.push("reap".to_string());
        Box::pin(leftover.reap())
    }

    fn reap_groups(&self, _: Vec<(i32, u64)>, _: Duration) -> BoxFuture<'_, usize> {
        Box::pin(std::future::ready(0))
    }

    fn reap_marked(&self, mark: &str, _: Duration) -> BoxFuture<'_, usize> {
        self.state().log.push(format!("reap {mark}"));
        Box::pin(async { 0 })
    }

    fn http(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpResponse, HttpFault>> {
        let line = format!("{} {}", request.method, request.url);
        let mut state = self.state();
        state.log.push(format!("http {line}"));
        let answer = take(&mut state.https, |part| line.contains(part));
        let refused = HttpFault { kind: HttpFaultKind::Connect, message: "connection refused".to_string() };
        Box::pin(async { answer.unwrap_or(Err(refused)) })
    }
}

#[derive(Debug, Default)]
struct FakeDisk(Mutex<MemoryFiles>);

impl FakeDisk {
    fn lock(&self) -> MutexGuard<'_, MemoryFiles> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Files for FakeDisk {
    fn read(&self, path: &Path) -> Result<Vec<u8>, ReadError> {
        self.lock().read(path)
    }

    fn stat(&self, path: &Path) -> Option<Stat> {
        self.lock().stat(path)
    }

    fn refusal(&self, path: &Path) -> Option<ReadError> {
        self.lock().refusal(path)
    }

    fn list(&self, dir: &Path) -> Vec<String> {
        self.lock().list(dir)
    }
}
