//! The journal of a run: written to disk before the world changes, so that the run can be cleaned up if it dies.
//!
//! Each run has its own directory, `.gevals/runs/RUN` in the output directory, which contains `journal.jsonl`: one entry per line,
//! only appended to, never rewritten. Most entries are the events of the run; the others are what events do not contain and a later
//! gevals needs: the files the plan was made from, the values of a task, the marks of processes. None of them contains secrets. The
//! process that appends holds the lock of the file: first the run itself, then `recover` or a resumed run. Each line has a number
//! and a checksum ([`line`]): damage on disk is detected, and a damaged journal is never closed as if nothing were pending.
#![expect(clippy::disallowed_methods, reason = "the journal is a file of its own kind: appended to and synced")]

mod carried;
pub mod gate;
mod line;
mod past;
mod snapshot;
mod spool;

pub use carried::{Carried, Follower, News};
pub use past::{Damage, End, Ends, Past, TaskPast};
pub use snapshot::{Snapshot, Watched};
pub use spool::{Spool, publish, results};

use std::{
    collections::HashSet,
    fs::{self, File, OpenOptions},
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use indexmap::IndexMap;
use jiff::Timestamp;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    event::{Event, EventKind, TaskRun},
    hir::Isolation,
    host::Host,
};

/// The version of the entries. Version 1 has no numbers and no checksums.
pub const VERSION: u32 = 2;
/// The directory in the output directory.
const FOLDER: &str = ".gevals";
const FILE: &str = "journal.jsonl";
/// The file name of a run's recording, in the run's directory.
pub const RECORDING: &str = "recording.jsonl";
/// How long to wait for a lock: a process that is being started keeps its parent's open files until it executes another program.
const PATIENCE: Duration = Duration::from_millis(500);

/// One entry, written as one line.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Entry {
    /// The first entry.
    Run(Box<Header>),
    /// The process that appends from here on.
    Process(Writer),
    /// The tasks to run.
    Selected(Vec<Selected>),
    Event(Event),
    /// The values that holes refer to in a run of a task.
    Values {
        task: TaskRun,
        values: Values,
    },
    /// The variables of the loops around a group that has a cleanup pending.
    Vars {
        task: TaskRun,
        action: String,
        vars: Map<String, Value>,
    },
    /// The leader of a process group.
    Group {
        pid: i32,
        start: u64,
    },
    /// The cleanups of the task are left pending on purpose.
    Kept {
        task: TaskRun,
    },
    /// The results are written.
    Reported,
    /// The last entry: the run has ended, and no cleanup is pending.
    Closed,
}

/// The description of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    pub version: u32,
    pub run: String,
    pub gevals: String,
    pub at: Timestamp,
    /// As given by the user.
    pub eval: PathBuf,
    /// The name of the eval.
    pub name: String,
    /// The directory that relative paths are resolved against.
    pub cwd: PathBuf,
    /// The results file.
    pub results: PathBuf,
    pub plan_digest: String,
    pub settings: Settings,
    pub files: Snapshot,
}

/// The user's settings, as far as they matter after the run has died.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Settings {
    pub runs: Option<u32>,
    pub parallel: usize,
    pub allow_unchecked: bool,
    pub exit_zero: bool,
    /// Whether the runs are trials of `gevals prove` instead of runs of the eval.
    #[serde(default)]
    pub trials: bool,
    /// How many runs of a task must pass, and out of how many.
    #[serde(default)]
    pub gate: Option<(u32, u32)>,
    /// The rate that the gate must show and its confidence, and whether tasks are run until the gate is decided.
    #[serde(default)]
    pub rate: Option<(f64, f64)>,
    #[serde(default)]
    pub until_decided: bool,
    #[serde(default)]
    pub isolate: bool,
    /// The isolation of the agent, if the command line sets it.
    #[serde(default)]
    pub isolation: Option<Isolation>,
    #[serde(default)]
    pub require_server_use: bool,
    #[serde(default)]
    pub strict_replay: bool,
    #[serde(default)]
    pub retry_broken: u32,
    #[serde(default)]
    pub keep_going: bool,
    #[serde(default)]
    pub max_time: Option<Duration>,
    #[serde(default)]
    pub max_tokens: Option<u64>,
    #[serde(default)]
    pub max_cost: Option<f64>,
    /// The price file.
    #[serde(default)]
    pub prices: Option<PathBuf>,
    /// Variables that the configurations of servers refer to, without secrets.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub servers: IndexMap<String, String>,
    pub overrides: Overrides,
}

/// What the command line and the environment override in the eval.
#[derive(Clone, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Overrides {
    pub agent: Option<String>,
    #[serde(default)]
    pub model: Option<String>,
    pub mcp_config: Option<PathBuf>,
    /// The timeouts of tasks and of cleanups, and the defaults of both for tasks that set none.
    pub limits: [Option<Duration>; 4],
    /// The `MCP_*` variables.
    pub variables: IndexMap<String, String>,
}

/// A process that holds the lock, and the mark of everything it starts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Writer {
    pub pid: u32,
    /// The start time since boot, in clock ticks.
    pub start: u64,
    pub mark: String,
    pub what: String,
    /// The boot and the container in which its pid is valid.
    pub place: String,
    /// The control group of everything it starts, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<PathBuf>,
}

impl Writer {
    /// The current process with its host; `what` describes for people what it does.
    pub fn own(host: &dyn Host, what: &str) -> Self {
        let pid = std::process::id();
        let start = crate::host::started(pid).unwrap_or_default();
        let (mark, group) = (host.mark().to_owned(), host.group());
        Self { pid, start, mark, what: what.to_owned(), place: crate::host::place(), group }
    }
}

/// A task to run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Selected {
    pub index: usize,
    pub name: String,
    pub digest: String,
    pub runs: u32,
    /// How many runs must pass and out of how many, if not all.
    #[serde(default)]
    pub gate: Option<(u32, u32)>,
    /// The only run to execute, counted from 0, if it is a unit of a pack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<u32>,
}

/// The values that stay the same throughout one run of a task, without secrets, which are looked up again.
#[derive(Clone, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Values {
    pub id: String,
    pub port: Option<u16>,
    /// The label that extensions attach to what they create, so that it can be found again.
    #[serde(default)]
    pub run_id: String,
    /// `spec.env`.
    pub env: IndexMap<String, String>,
    /// Variables of gevals' own environment that holes and scripts read.
    pub process: IndexMap<String, String>,
    /// The variables that programs in its scripts read.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub programs: IndexMap<String, String>,
    /// The variables of both kinds that were set but whose values are not stored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub withheld: Vec<String>,
}

/// A journal that this process may append to.
#[derive(Debug)]
pub struct Journal {
    dir: PathBuf,
    run: String,
    state: Mutex<State>,
    /// The number of bytes known to be on disk.
    synced: Mutex<u64>,
    /// The same number, readable without waiting for the lock.
    durable: AtomicU64,
    failure: OnceLock<String>,
}

#[derive(Debug)]
struct State {
    file: Arc<File>,
    written: u64,
    /// The number of the next line.
    next: u64,
    /// The end of the last line that a recovery needs; lines that are only informative can wait for the next sync.
    urgent: u64,
    pending: HashSet<(TaskRun, String)>,
}

/// Why a journal cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Another process holds the lock.
    #[error("{}", live(.0.as_ref()))]
    Live(Option<Writer>),
    #[error(
        "the first line of its journal is damaged or not from a journal: it is unknown which eval it ran and which cleanups are pending; \
         clean up by hand, then run `gevals recover --forget` for it"
    )]
    Malformed,
    #[error("it was written by a newer gevals: its version is {0}")]
    Later(u32),
}

fn live(writer: Option<&Writer>) -> String {
    match writer {
        Some(writer) => format!("{} is in progress (process {})", writer.what, writer.pid),
        None => "another gevals is using it".to_owned(),
    }
}

impl Journal {
    /// Creates the journal of a new run in the output directory.
    ///
    /// # Errors
    /// The file cannot be created or written.
    pub fn create(output_dir: &Path, header: Header, writer: Writer) -> io::Result<Self> {
        let top = output_dir.join(FOLDER);
        fs::create_dir_all(top.join("runs"))?;
        let ignore = top.join(".gitignore");
        if !ignore.exists() {
            fs::write(ignore, "*\n")?;
        }
        let dir = folder(output_dir, &header.run);
        private(&dir)?;
        let file = open(&dir.join(FILE), true)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        let run = header.run.clone();
        let journal = Self::over(dir, run, file, (0, 1), HashSet::new());
        journal.append(&Entry::Run(Box::new(header)));
        journal.enter(writer)?;
        // The directory entries of the new file and its directories must survive as well.
        for folder in [journal.dir.as_path(), &top.join("runs"), &top] {
            File::open(folder)?.sync_all()?;
        }
        Ok(journal)
    }

    /// Opens the journal of a run that died or ended, and returns what it contains. An incomplete last line is cut off; damaged
    /// lines stay.
    ///
    /// # Errors
    /// The journal is locked or cannot be read, is not a journal, or has a later version.
    pub fn reopen(dir: &Path) -> Result<(Self, Past), Refusal> {
        let file = open(&dir.join(FILE), false)?;
        if !lock(&file)? {
            return Err(Refusal::Live(Past::read(dir).ok().and_then(|(past, _)| past.writers.last().cloned())));
        }
        let (past, end) = Past::read(dir)?;
        if past.header.version > VERSION {
            return Err(Refusal::Later(past.header.version));
        }
        file.set_len(end.bytes)?;
        let pending = past.tasks.iter().flat_map(|(task, of)| of.pending.keys().map(|id| (task.clone(), id.clone())));
        let journal =
            Self::over(dir.to_owned(), past.header.run.clone(), file, (end.bytes, end.next), pending.collect());
        Ok((journal, past))
    }

    /// Records the process that appends from now on, so that what it starts can be found if it dies as well.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub fn enter(&self, writer: Writer) -> io::Result<()> {
        self.append(&Entry::Process(writer));
        self.sync_now();
        self.failure().map_or(Ok(()), |why| Err(io::Error::other(why)))
    }

    fn over(
        dir: PathBuf,
        run: String,
        file: File,
        (written, next): (u64, u64),
        pending: HashSet<(TaskRun, String)>,
    ) -> Self {
        gate::open(&dir);
        let state = State { file: Arc::new(file), written, next, urgent: 0, pending };
        Self {
            dir,
            run,
            state: Mutex::new(state),
            synced: Mutex::default(),
            durable: AtomicU64::new(0),
            failure: OnceLock::new(),
        }
    }

    /// The directory of the run.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The id of the run.
    pub fn run(&self) -> &str {
        &self.run
    }

    /// The file that records the messages of agents and servers.
    pub fn recording(&self) -> PathBuf {
        self.dir.join(RECORDING)
    }

    /// Why it can no longer be written, if so. An action that it could not record must not happen.
    pub fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// The length in bytes.
    pub fn written(&self) -> u64 {
        self.state().written
    }

    /// Hands a line to the operating system, so that it survives the death of this process. To survive more, see [`Journal::sync`].
    pub fn append(&self, entry: &Entry) {
        self.write(serde_json::to_vec(entry));
    }

    /// Records a process that has been started as the leader of its own group.
    pub fn group(&self, pid: u32) {
        if let (Some(start), Ok(pid)) = (crate::host::started(pid), i32::try_from(pid)) {
            self.append(&Entry::Group { pid, start });
        }
    }

    /// Appends an event. A write error is stored, see [`Self::failure`].
    pub fn event(&self, event: &Event) {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        enum Borrowed<'a> {
            Event(&'a Event),
        }
        self.write(serde_json::to_vec(&Borrowed::Event(event)));
        let Some(task) = &event.task else { return };
        let mut state = self.state();
        match &event.kind {
            EventKind::CleanupPending { cleanups, .. } => {
                state.pending.extend(cleanups.iter().map(|id| (task.clone(), id.clone())));
            }
            EventKind::CleanupDone { cleanup } => {
                state.pending.remove(&(task.clone(), cleanup.clone()));
            }
            EventKind::ActionFinished { report, .. } if !report.outputs.is_empty() => {}
            _ => return,
        }
        state.urgent = state.written;
    }

    fn write(&self, entry: serde_json::Result<Vec<u8>>) {
        let mut state = self.state();
        if self.failure.get().is_some() {
            return;
        }
        let written = entry.map_err(io::Error::from).and_then(|entry| {
            let line = line::seal(&entry, state.next);
            // A single call, so that a crash leaves at most one line incomplete.
            (&*state.file).write_all(&line)?;
            Ok(line.len() as u64)
        });
        match written {
            Ok(length) => {
                state.written += length;
                state.next += 1;
            }
            Err(error) => {
                // An incomplete line would corrupt the next one.
                let _ = state.file.set_len(state.written);
                self.fail(&error);
            }
        }
    }

    /// Makes everything appended so far durable, if a recovery needs any of it. Concurrent callers share a single sync.
    pub async fn sync(self: &Arc<Self>) {
        let wanted = self.state().urgent;
        if self.durable.load(Ordering::Acquire) < wanted {
            let journal = Arc::clone(self);
            let _ = tokio::task::spawn_blocking(move || journal.sync_to(wanted)).await;
        }
        gate::pass(wanted, self.has_pending()).await;
    }

    fn sync_now(&self) {
        let written = self.state().written;
        self.sync_to(written);
    }

    fn sync_to(&self, wanted: u64) {
        let mut synced = self.synced.lock().unwrap_or_else(PoisonError::into_inner);
        if *synced >= wanted {
            return;
        }
        let (file, written) = {
            let state = self.state();
            (Arc::clone(&state.file), state.written)
        };
        match file.sync_data() {
            Ok(()) => {
                *synced = written;
                self.durable.store(written, Ordering::Release);
            }
            Err(error) => self.fail(&error),
        }
    }

    fn fail(&self, error: &io::Error) {
        self.failure.get_or_init(|| format!("cannot write `{}`: {error}", self.dir.join(FILE).display()));
    }

    /// Whether a cleanup is pending.
    pub fn has_pending(&self) -> bool {
        !self.state().pending.is_empty()
    }

    /// Records that the world of a task is kept for inspection.
    pub fn keep(&self, task: &TaskRun) {
        self.append(&Entry::Kept { task: task.clone() });
    }

    /// Records that the results are written. Closes the journal if no cleanup is pending, unless `stays_open` is set because a world
    /// is kept or the journal is damaged.
    pub fn close(&self, stays_open: bool) {
        self.append(&Entry::Reported);
        if !self.has_pending() && !stays_open {
            self.append(&Entry::Closed);
        }
        self.sync_now();
    }

    /// Closes the journal even if cleanups are pending.
    pub fn forget(&self) {
        self.append(&Entry::Closed);
        self.sync_now();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The directory of a run, in the output directory.
pub fn folder(output_dir: &Path, run: &str) -> PathBuf {
    output_dir.join(FOLDER).join("runs").join(run)
}

/// The output directory that contains a run's directory; `None` if the run's directory has been moved elsewhere.
pub fn output_dir(dir: &Path) -> Option<&Path> {
    let runs = dir.parent().filter(|runs| runs.ends_with(Path::new(FOLDER).join("runs")))?;
    runs.parent()?.parent()
}

/// Returns the run directories that a path refers to: a run's own directory, those in an output directory, or one given by its run
/// id in the current directory. Oldest first.
pub fn runs(path: &Path) -> Vec<PathBuf> {
    let by_id = Path::new(FOLDER).join("runs").join(path);
    for dir in [path, &by_id] {
        if dir.join(FILE).is_file() {
            return vec![dir.to_owned()];
        }
    }
    let folder = if path.file_name().is_some_and(|name| name == FOLDER) { path.to_owned() } else { path.join(FOLDER) };
    let entries = fs::read_dir(folder.join("runs")).into_iter().flatten().flatten();
    let mut dirs: Vec<_> = entries
        .map(|entry| entry.path())
        .filter_map(|dir| {
            let journal = fs::metadata(dir.join(FILE)).ok()?;
            Some((journal.created().or_else(|_| journal.modified()).ok(), dir))
        })
        .collect();
    dirs.sort();
    dirs.into_iter().map(|(_, dir)| dir).collect()
}

/// Removes the directories of the oldest runs, so that `keep` runs are left. A run whose journal is not closed is never removed: it
/// may have a pending cleanup or a kept world, or still be running. Returns how many were removed.
pub fn prune(output_dir: &Path, keep: usize) -> usize {
    let runs = runs(output_dir);
    let beyond = runs.len().saturating_sub(keep);
    let over = runs.into_iter().take(beyond).filter(|dir| is_closed(dir));
    over.filter(|dir| {
        // Another process may be reopening it right now.
        let Ok(file) = open(&dir.join(FILE), false) else { return false };
        flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() && fs::remove_dir_all(dir).is_ok()
    })
    .count()
}

/// Whether the run died before it wrote a complete line: in that case it has done nothing.
pub fn is_stillborn(dir: &Path) -> bool {
    fs::read(dir.join(FILE)).is_ok_and(|bytes| !bytes.contains(&b'\n'))
}

/// Whether the last line says that the run has ended and no cleanup is pending.
pub fn is_closed(dir: &Path) -> bool {
    /// More bytes than the last line has.
    const TAIL: u64 = 256;
    /// The start of a journal of version 1.
    const FIRST: &[u8] = b"{\"run\":{\"version\":1,";
    let ends = || {
        let mut file = File::open(dir.join(FILE))?;
        let mut first = [0; FIRST.len()];
        file.read_exact(&mut first)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
        let mut tail = Vec::new();
        file.read_to_end(&mut tail)?;
        io::Result::Ok((first == FIRST, tail))
    };
    let Ok((plain, mut tail)) = ends() else { return false };
    if tail.pop() != Some(b'\n') {
        return false;
    }
    let start = tail.iter().rposition(|byte| *byte == b'\n').map_or(0, |before| before + 1);
    matches!(line::read(tail.split_off(start), plain), line::Line::Entry(entry, _) if matches!(*entry, Entry::Closed))
}

/// Closes a journal that cannot be read because its first line is damaged.
///
/// # Errors
/// It cannot be written, or another process holds its lock.
pub fn forget_unreadable(dir: &Path) -> Result<(), Refusal> {
    let file = open(&dir.join(FILE), false)?;
    lock(&file)?.then_some(()).ok_or(Refusal::Live(None))?;
    let entries = Entries::open(dir)?;
    let (end, next) =
        entries.fold((0, 1), |(end, next), read| if read.whole { (read.end, next + 1) } else { (end, next) });
    file.set_len(end)?;
    let journal = Journal::over(dir.to_owned(), String::new(), file, (end, next), HashSet::new());
    journal.forget();
    journal.failure().map_or(Ok(()), |why| Err(io::Error::other(why).into()))
}

/// Returns the events in a journal, one by one; lines that are not entries are skipped.
///
/// # Errors
/// The file cannot be read.
pub fn events(dir: &Path) -> io::Result<impl Iterator<Item = Event>> {
    let entries = Entries::open(dir)?;
    Ok(entries.filter_map(|read| match read.line {
        line::Line::Entry(entry, _) => match *entry {
            Entry::Event(event) => Some(event),
            _ => None,
        },
        line::Line::Damaged => None,
    }))
}

/// The lines of a journal, from first to last.
struct Entries {
    file: BufReader<File>,
    at: u64,
    /// Whether lines without checksums are accepted: only in version 1, according to the first line.
    plain: bool,
}

struct Found {
    line: line::Line,
    /// Whether the line is complete.
    whole: bool,
    /// The offset in the file at which it ends.
    end: u64,
}

impl Entries {
    fn open(dir: &Path) -> io::Result<Self> {
        Ok(Self { file: BufReader::with_capacity(64 << 10, File::open(dir.join(FILE))?), at: 0, plain: true })
    }
}

impl Iterator for Entries {
    type Item = Found;

    fn next(&mut self) -> Option<Self::Item> {
        let mut bytes = Vec::new();
        let read = self.file.read_until(b'\n', &mut bytes).unwrap_or_default();
        if read == 0 {
            return None;
        }
        let is_first = self.at == 0;
        self.at += read as u64;
        let whole = bytes.last() == Some(&b'\n');
        let mut line = if whole { line::read(bytes, self.plain) } else { line::Line::Damaged };
        if is_first {
            self.plain = match &line {
                line::Line::Entry(entry, _) => matches!(&**entry, Entry::Run(header) if header.version == 1),
                line::Line::Damaged => false,
            };
            // A first line of a later version without a checksum is damaged.
            if matches!(line, line::Line::Entry(_, None)) && !self.plain {
                line = line::Line::Damaged;
            }
        }
        Some(Found { line, whole, end: self.at })
    }
}

/// While held, prevents another run of the same eval from writing the same results.
#[derive(Debug)]
pub struct Claim(#[expect(dead_code, reason = "holds the lock")] File);

/// Claims a results file.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] if another process holds the claim.
pub fn claim(output_dir: &Path, results: &Path) -> io::Result<Claim> {
    let folder = output_dir.join(FOLDER);
    fs::create_dir_all(&folder)?;
    let name = results.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let file = open(&folder.join(format!("{name}.lock")), true)?;
    if lock(&file)? { Ok(Claim(file)) } else { Err(io::ErrorKind::WouldBlock.into()) }
}

/// Whether the file could be locked.
fn lock(file: &File) -> io::Result<bool> {
    let started = Instant::now();
    while let Err(error) = flock(file, FlockOperation::NonBlockingLockExclusive) {
        if error != rustix::io::Errno::WOULDBLOCK {
            return Err(error.into());
        }
        if started.elapsed() > PATIENCE {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(true)
}

fn open(path: &Path, create: bool) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    OpenOptions::new().read(true).append(true).create(create).mode(0o600).open(path)
}

fn private(dir: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().mode(0o700).create(dir)
}
