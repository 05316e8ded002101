//! The journal of a run: on disk before the world changes, so that the run can be cleaned up after if it dies.
//!
//! A run has a folder of its own, `.gevals/runs/RUN` in the output directory, and in it `journal.jsonl`: one entry a
//! line, appended, never rewritten. The events of the run are the most of it; the other entries are what events do not
//! tell and a later gevals needs – the files the plan was made of, the values of a task, the marks of processes. Secrets
//! stand in none of them. The process that appends holds the lock of the file: the run itself, then `recover` or a resumed run.
//! Each line has a number and a checksum ([`line`]): what a disk has damaged is noticed, and such a journal is never closed
//! as if nothing were pending.
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

/// Of the entries. Version 1 has no numbers and no checksums.
pub const VERSION: u32 = 2;
/// The folder in the output directory.
const FOLDER: &str = ".gevals";
const FILE: &str = "journal.jsonl";
/// What the recording of a run is called, in its folder.
pub const RECORDING: &str = "recording.jsonl";
/// A process that is being started holds what its parent has open until it is another program.
const PATIENCE: Duration = Duration::from_millis(500);

/// One line.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Entry {
    /// The first one.
    Run(Box<Header>),
    /// Who appends from here on.
    Process(Writer),
    /// The tasks that are to run.
    Selected(Vec<Selected>),
    Event(Event),
    /// What the holes of a task's run hold.
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
    /// The last one: the run has ended, and no cleanup is pending.
    Closed,
}

/// What a run is about.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    pub version: u32,
    pub run: String,
    pub gevals: String,
    pub at: Timestamp,
    /// As the user named it.
    pub eval: PathBuf,
    /// Its name.
    pub name: String,
    /// The folder that relative paths start from.
    pub cwd: PathBuf,
    /// The results file.
    pub results: PathBuf,
    pub plan_digest: String,
    pub settings: Settings,
    pub files: Snapshot,
}

/// What the user asked for, as far as it counts after the run's death.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Settings {
    pub runs: Option<u32>,
    pub parallel: usize,
    pub allow_unchecked: bool,
    pub exit_zero: bool,
    /// Its runs are trials of `gevals prove`, and none of the eval.
    #[serde(default)]
    pub trials: bool,
    /// How many of how many runs of a task must pass.
    #[serde(default)]
    pub gate: Option<(u32, u32)>,
    /// The rate that the gate is to show and its confidence, and whether tasks are run until it is decided.
    #[serde(default)]
    pub rate: Option<(f64, f64)>,
    #[serde(default)]
    pub until_decided: bool,
    #[serde(default)]
    pub isolate: bool,
    /// The jail of the agent, where the command line chose it.
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
    /// The file of prices.
    #[serde(default)]
    pub prices: Option<PathBuf>,
    /// Variables that the configurations of servers name, without secrets.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub servers: IndexMap<String, String>,
    pub overrides: Overrides,
}

/// What the command line and the environment put in the place of what the eval says.
#[derive(Clone, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Overrides {
    pub agent: Option<String>,
    #[serde(default)]
    pub model: Option<String>,
    pub mcp_config: Option<PathBuf>,
    /// Of tasks, of cleanups, and both where a task says nothing.
    pub limits: [Option<Duration>; 4],
    /// `MCP_*`.
    pub variables: IndexMap<String, String>,
}

/// A process that holds the lock, and the mark of all it starts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Writer {
    pub pid: u32,
    /// Since the boot, in ticks of its clock.
    pub start: u64,
    pub mark: String,
    pub what: String,
    /// The boot and the container in which pids mean something.
    pub place: String,
    /// The control group of all that it starts, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<PathBuf>,
}

impl Writer {
    /// The process that writes now, with the host it works with; `what` says what it does, for people.
    pub fn own(host: &dyn Host, what: &str) -> Self {
        let pid = std::process::id();
        let start = crate::host::started(pid).unwrap_or_default();
        let (mark, group) = (host.mark().to_owned(), host.group());
        Self { pid, start, mark, what: what.to_owned(), place: crate::host::place(), group }
    }
}

/// A task that is to run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Selected {
    pub index: usize,
    pub name: String,
    pub digest: String,
    pub runs: u32,
    /// How many of how many runs must pass, where not all.
    #[serde(default)]
    pub gate: Option<(u32, u32)>,
    /// The one of the runs that is made, from 0, where it is a unit of a pack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<u32>,
}

/// What is the same throughout one run of a task, without secrets: those are asked for again.
#[derive(Clone, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Values {
    pub id: String,
    pub port: Option<u16>,
    /// What extensions label with what they make, so that it is found again.
    #[serde(default)]
    pub run_id: String,
    /// `spec.env`.
    pub env: IndexMap<String, String>,
    /// Variables of gevals' own environment that holes and scripts read.
    pub process: IndexMap<String, String>,
    /// Those that programs in its scripts look for.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub programs: IndexMap<String, String>,
    /// Those of both that were set, and whose values are not kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub withheld: Vec<String>,
}

/// A journal that this process may append to.
#[derive(Debug)]
pub struct Journal {
    dir: PathBuf,
    run: String,
    state: Mutex<State>,
    /// Bytes that are known to be on the disk.
    synced: Mutex<u64>,
    /// The same, without waiting.
    durable: AtomicU64,
    failure: OnceLock<String>,
}

#[derive(Debug)]
struct State {
    file: Arc<File>,
    written: u64,
    /// The number of the next line.
    next: u64,
    /// Where the last line ends that a recovery needs; what only tells the story can wait for the next one.
    urgent: u64,
    pending: HashSet<(TaskRun, String)>,
}

/// Why a journal cannot be had.
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
    /// A new run's, in the output directory.
    ///
    /// # Errors
    /// The file cannot be made or written.
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
        // The names of the new file and its folder have to survive too.
        for folder in [journal.dir.as_path(), &top.join("runs"), &top] {
            File::open(folder)?.sync_all()?;
        }
        Ok(journal)
    }

    /// The journal of a run that is dead or has ended, and what stands in it. What a death left half written is cut off; what is
    /// damaged stays.
    ///
    /// # Errors
    /// It is not to be had, or is none.
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

    /// Who appends from now on. What it starts is found by this, should it die too.
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

    /// The folder of the run.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The id of the run.
    pub fn run(&self) -> &str {
        &self.run
    }

    /// Where what agents and servers say is written down.
    pub fn recording(&self) -> PathBuf {
        self.dir.join(RECORDING)
    }

    /// Why it can no longer be written, if so. What it could not hold must not happen.
    pub fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// How many bytes it has.
    pub fn written(&self) -> u64 {
        self.state().written
    }

    /// Hands a line to the operating system: it survives the death of this process. See [`Journal::sync`].
    pub fn append(&self, entry: &Entry) {
        self.write(serde_json::to_vec(entry));
    }

    /// A process that leads a group of its own has started.
    pub fn group(&self, pid: u32) {
        if let (Some(start), Ok(pid)) = (crate::host::started(pid), i32::try_from(pid)) {
            self.append(&Entry::Group { pid, start });
        }
    }

    /// Appends an event. A write error is kept: see [`Self::failure`].
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
            // One call, so that a death leaves at most one line incomplete.
            (&*state.file).write_all(&line)?;
            Ok(line.len() as u64)
        });
        match written {
            Ok(length) => {
                state.written += length;
                state.next += 1;
            }
            Err(error) => {
                // Half a line would spoil the next one.
                let _ = state.file.set_len(state.written);
                self.fail(&error);
            }
        }
    }

    /// Makes durable what was appended so far, if a recovery needs any of it. Several who wait are served by one call to
    /// the disk.
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

    /// The world of a task is left as it is, for somebody to look at.
    pub fn keep(&self, task: &TaskRun) {
        self.append(&Entry::Kept { task: task.clone() });
    }

    /// The results are written; ends the journal if no cleanup is pending, and nothing else keeps it open: a world that is left
    /// standing, or damage.
    pub fn close(&self, stays_open: bool) {
        self.append(&Entry::Reported);
        if !self.has_pending() && !stays_open {
            self.append(&Entry::Closed);
        }
        self.sync_now();
    }

    /// Ends the journal, whatever is pending.
    pub fn forget(&self) {
        self.append(&Entry::Closed);
        self.sync_now();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The folder of a run, in the output directory.
pub fn folder(output_dir: &Path, run: &str) -> PathBuf {
    output_dir.join(FOLDER).join("runs").join(run)
}

/// The output directory that the folder of a run is in; none where the folder was put elsewhere by itself.
pub fn output_dir(dir: &Path) -> Option<&Path> {
    let runs = dir.parent().filter(|runs| runs.ends_with(Path::new(FOLDER).join("runs")))?;
    runs.parent()?.parent()
}

/// The folders of runs that a path names: a run's own, that of an output directory, or one by its id in this folder.
/// Oldest first.
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

/// Removes the folders of the oldest runs, so that this many are left. One whose journal is not closed is never removed: it may have
/// a cleanup pending, or a world that is kept, or it is under way. Gives back how many were removed.
pub fn prune(output_dir: &Path, keep: usize) -> usize {
    let runs = runs(output_dir);
    let beyond = runs.len().saturating_sub(keep);
    let over = runs.into_iter().take(beyond).filter(|dir| is_closed(dir));
    over.filter(|dir| {
        // Somebody may just be opening it again.
        let Ok(file) = open(&dir.join(FILE), false) else { return false };
        flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() && fs::remove_dir_all(dir).is_ok()
    })
    .count()
}

/// Whether the run died before its journal said a word: then it has done nothing.
pub fn is_stillborn(dir: &Path) -> bool {
    fs::read(dir.join(FILE)).is_ok_and(|bytes| !bytes.contains(&b'\n'))
}

/// Whether the last line says that the run has ended and no cleanup is pending.
pub fn is_closed(dir: &Path) -> bool {
    /// More than the last line has.
    const TAIL: u64 = 256;
    /// What a journal of version 1 begins with.
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

/// Ends a journal that cannot be read, as its first line is damaged.
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

/// The events in a journal, one by one; what is no entry is passed over.
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

/// Lines, from the first to the last.
struct Entries {
    file: BufReader<File>,
    at: u64,
    /// Whether lines may be without checksums: those of version 1, of which the first line tells.
    plain: bool,
}

struct Found {
    line: line::Line,
    /// Whether it has an end.
    whole: bool,
    /// Where it ends in the file.
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
            // A later version that says nothing of a checksum has lost it.
            if matches!(line, line::Line::Entry(_, None)) && !self.plain {
                line = line::Line::Damaged;
            }
        }
        Some(Found { line, whole, end: self.at })
    }
}

/// Keeps a second run of the same eval from writing the same results, as long as it is held.
#[derive(Debug)]
pub struct Claim(#[expect(dead_code, reason = "holds the lock")] File);

/// # Errors
/// [`io::ErrorKind::WouldBlock`] where another process has it.
pub fn claim(output_dir: &Path, results: &Path) -> io::Result<Claim> {
    let folder = output_dir.join(FOLDER);
    fs::create_dir_all(&folder)?;
    let name = results.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let file = open(&folder.join(format!("{name}.lock")), true)?;
    if lock(&file)? { Ok(Claim(file)) } else { Err(io::ErrorKind::WouldBlock.into()) }
}

/// Whether the lock of the file could be had.
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
