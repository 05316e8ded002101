//! The part of a journal that a cleanup on another machine needs, in few bytes: it is sent with the heartbeats of a worker.
//!
//! Property: *a journal rebuilt from what was carried has the same pending cleanups, with the same values.* Files are left out because they
//! are in the pack. So is what agents did, except for their output: no cleanup needs it.

use std::{
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use indexmap::IndexSet;
use serde::{Deserialize, Serialize};

use super::{Entry, FILE, Snapshot, folder, line, private, results, runs};
use crate::event::{ActionReport, Event, EventKind, TaskRun};

/// The maximum compressed size, in bytes.
const MOST: usize = 1 << 20;
/// How many bytes of lines may be buffered before they are parsed.
const MOST_UNREAD: usize = 1 << 20;
/// The maximum decompressed size of a journal, in bytes.
const MOST_UNPACKED: u64 = 64 << 20;

/// Follows the journal of a run or a recovery while another process appends to it.
#[derive(Debug)]
pub struct Follower {
    /// The output directory.
    out: PathBuf,
    /// The directory of the run, once it exists.
    run: Option<PathBuf>,
    /// How many bytes were read.
    bytes: u64,
    /// Lines that have not been parsed yet: they do not matter as long as nothing is pending.
    lines: Vec<u8>,
    entries: Vec<Entry>,
    pending: IndexSet<(TaskRun, String)>,
}

/// What a follower found since its last call.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct News {
    /// Whether something was appended.
    pub any: bool,
    /// Whether cleanups became pending or done, or something that they need became known.
    pub matters: bool,
}

/// The pending cleanups, and a shortened journal.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Carried {
    /// For people: pairs of task and cleanup.
    pub pending: Vec<(String, String)>,
    /// The boot and the container of its processes.
    pub place: String,
    /// Compressed lines, in base64.
    pub journal: String,
}

impl Entry {
    /// The run of a task that the entry belongs to.
    fn task(&self) -> Option<&TaskRun> {
        match self {
            Self::Event(event) => event.task.as_ref(),
            Self::Values { task, .. } | Self::Vars { task, .. } | Self::Kept { task } => Some(task),
            _ => None,
        }
    }
}

impl Follower {
    /// Follows the only run in this output directory.
    pub fn new(out: &Path) -> Self {
        Self {
            out: out.to_owned(),
            run: None,
            bytes: 0,
            lines: Vec::new(),
            entries: Vec::new(),
            pending: IndexSet::new(),
        }
    }

    /// Reads what was appended.
    ///
    /// # Errors
    /// The journal cannot be read, or is damaged.
    pub fn follow(&mut self) -> io::Result<News> {
        if self.run.is_none() {
            self.run = runs(&self.out).pop();
        }
        let Some(run) = &self.run else { return Ok(News::default()) };
        let mut file = File::open(run.join(FILE))?;
        if file.metadata()?.len() <= self.bytes {
            return Ok(News::default());
        }
        file.seek(SeekFrom::Start(self.bytes))?;
        let before = self.lines.len();
        file.read_to_end(&mut self.lines)?;
        // The rest of the last line has not been written yet.
        let whole = self.lines.iter().rposition(|byte| *byte == b'\n').map_or(before, |end| (end + 1).max(before));
        self.lines.truncate(whole);
        self.bytes += (whole - before) as u64;
        let news = News { any: whole > before, matters: false };
        let says_so = || String::from_utf8_lossy(&self.lines[before..]).contains("cleanupPending");
        match news.any && (self.has_pending() || self.lines.len() > MOST_UNREAD || says_so()) {
            true => Ok(News { matters: self.look()?, ..news }),
            false => Ok(news),
        }
    }

    /// Parses the buffered lines; returns whether any of them changes what must be cleaned up.
    fn look(&mut self) -> io::Result<bool> {
        let lines = std::mem::take(&mut self.lines);
        let mut matters = false;
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            let line::Line::Entry(entry, _) = line::read(line.to_vec(), false) else {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the journal is damaged"));
            };
            matters |= self.take(*entry);
        }
        Ok(matters)
    }

    /// How many bytes were read.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether a cleanup is pending.
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Stores an entry if a cleanup needs it; returns whether it changes what must be cleaned up.
    fn take(&mut self, entry: Entry) -> bool {
        let (kept, matters) = match entry {
            Entry::Run(header) => {
                (Entry::Run(Box::new(super::Header { files: Snapshot::default(), ..*header })), false)
            }
            Entry::Event(event) => match self.event(event) {
                Some((event, matters)) => (Entry::Event(event), matters),
                None => return false,
            },
            other => (other, false),
        };
        self.entries.push(kept);
        matters
    }

    fn event(&mut self, event: Event) -> Option<(Event, bool)> {
        let Event { seq, at, task, kind } = event;
        let mut matters = false;
        let kind = match kind {
            EventKind::CleanupPending { action, cleanups } => {
                let of = task.clone()?;
                self.pending.extend(cleanups.iter().map(|cleanup| (of.clone(), cleanup.clone())));
                matters = true;
                EventKind::CleanupPending { action, cleanups }
            }
            EventKind::CleanupDone { cleanup } => {
                self.pending.shift_remove(&(task.clone()?, cleanup.clone()));
                matters = true;
                EventKind::CleanupDone { cleanup }
            }
            EventKind::ActionFinished { action, report } => {
                matters = !report.outputs.is_empty() && self.has_pending();
                let report = ActionReport {
                    outputs: report.outputs,
                    retried: report.retried,
                    ..ActionReport::new(report.outcome, report.message)
                };
                EventKind::ActionFinished { action, report }
            }
            kind @ EventKind::TaskFinished { .. } => {
                // A run that left nothing pending needs no cleanup.
                if let Some(of) = task.as_ref().filter(|of| self.pending.iter().all(|(task, _)| task != *of)) {
                    self.entries.retain(|entry| entry.task() != Some(of));
                }
                kind
            }
            kind @ (EventKind::RunStarted { .. }
            | EventKind::RunFinished { .. }
            | EventKind::TaskStarted { .. }
            | EventKind::ActionStarted { .. }) => kind,
            // A cleanup may refer to the agent's output.
            kind @ EventKind::AgentSpoke { .. } => {
                matters = self.has_pending();
                kind
            }
            _ => return None,
        };
        Some((Event { seq, at, task, kind }, matters))
    }

    /// Returns what must be carried; `None` if nothing is pending.
    ///
    /// # Errors
    /// It is too large ([`io::ErrorKind::FileTooLarge`]), or cannot be compressed.
    pub fn carried(&self) -> io::Result<Option<Carried>> {
        use base64::Engine as _;
        const LEVEL: i32 = 3;
        if self.pending.is_empty() {
            return Ok(None);
        }
        let mut packed = zstd::Encoder::new(Vec::new(), LEVEL)?;
        for entry in &self.entries {
            serde_json::to_writer(&mut packed, entry)?;
            packed.write_all(b"\n")?;
        }
        let packed = packed.finish()?;
        if packed.len() > MOST {
            let why = format!("the data for a cleanup exceeds {} KiB compressed", MOST >> 10);
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
        }
        let place = self.entries.iter().rev().find_map(|entry| match entry {
            Entry::Process(writer) => Some(writer.place.clone()),
            _ => None,
        });
        Ok(Some(Carried {
            pending: self.pending.iter().map(|(task, id)| (task.name.clone(), id.clone())).collect(),
            place: place.unwrap_or_default(),
            journal: base64::engine::general_purpose::STANDARD.encode(packed),
        }))
    }
}

impl Carried {
    /// Rebuilds a journal in the output directory `out`, for a run in the directory `cwd`. Returns the directory of the run.
    ///
    /// # Errors
    /// The data is not a journal, or the journal cannot be written.
    pub fn rebuild(&self, out: &Path, cwd: &Path) -> io::Result<PathBuf> {
        use base64::Engine as _;
        let bad = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why.to_owned());
        let packed = base64::engine::general_purpose::STANDARD.decode(&self.journal).map_err(io::Error::other)?;
        let mut text = Vec::new();
        zstd::Decoder::new(packed.as_slice())?.take(MOST_UNPACKED).read_to_end(&mut text)?;
        let mut lines = Vec::new();
        let mut dir = None;
        for (nth, text) in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).enumerate() {
            let entry = match serde_json::from_slice(text)? {
                Entry::Run(mut header) => {
                    // The run id becomes the name of a directory.
                    if header.run.is_empty() || !header.run.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
                        return Err(bad("its run has no name"));
                    }
                    let run = folder(out, &header.run);
                    cwd.clone_into(&mut header.cwd);
                    header.results = results(&run);
                    dir = Some(run);
                    Entry::Run(header)
                }
                entry => entry,
            };
            lines.extend(line::seal(&serde_json::to_vec(&entry)?, nth as u64 + 1));
        }
        let dir = dir.ok_or_else(|| bad("it does not start like a journal"))?;
        fs::create_dir_all(dir.parent().unwrap_or(out))?;
        private(&dir)?;
        super::open(&dir.join(FILE), true)?.write_all(&lines)?;
        Ok(dir)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::{
        event::Outcome,
        journal::{Header, Journal, Overrides, Past, Settings, Values, Writer},
    };

    fn journal(out: &Path) -> Journal {
        let settings = json!({
            "runs": null, "parallel": 1, "allowUnchecked": false, "exitZero": false, "overrides": Overrides {
                limits: [None, None, None, Some(Duration::from_secs(7))], ..Overrides::default()
            }
        });
        let settings: Settings = serde_json::from_value(settings).unwrap();
        let header = Header {
            version: super::super::VERSION,
            run: "r1".to_owned(),
            gevals: "0.1.0".to_owned(),
            at: Timestamp::UNIX_EPOCH,
            eval: "eval.yaml".into(),
            name: "e".to_owned(),
            cwd: "/elsewhere".into(),
            results: "/elsewhere/results.json".into(),
            plan_digest: "sha256:0".to_owned(),
            settings,
            files: Snapshot::default(),
        };
        let writer = Writer {
            pid: 1,
            start: 1,
            mark: "m".to_owned(),
            what: "a run".to_owned(),
            place: "boot pid:1".to_owned(),
            group: None,
        };
        Journal::create(out, header, writer).unwrap()
    }

    fn task() -> TaskRun {
        TaskRun { index: 0, name: "t".to_owned(), run: 0 }
    }

    fn event(seq: u64, kind: EventKind) -> Event {
        Event { seq, at: Timestamp::UNIX_EPOCH, task: Some(task()), kind }
    }

    /// A recovery works from the same data on both machines; printed output is not carried.
    #[test]
    fn pending_cleanups_are_transferred_to_another_machine() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let journal = journal(here.path());
        let mut follower = Follower::new(here.path());
        assert_eq!(follower.follow().unwrap(), News { any: true, matters: false });
        assert_eq!(follower.carried().unwrap(), None, "nothing is pending");
        journal.append(&Entry::Values { task: task(), values: Values { id: "k7".to_owned(), ..Values::default() } });
        journal.event(&event(0, EventKind::TaskStarted { plan_digest: "d".to_owned() }));
        let cleanups = vec!["cleanup/0".to_owned(), "cleanup/1".to_owned()];
        journal.event(&event(1, EventKind::CleanupPending { action: "setup/0".to_owned(), cleanups }));
        let mut report = ActionReport::new(Outcome::Passed, "");
        report.outputs.insert("pod".to_owned(), "web-1".into());
        report.stdout = "x".repeat(100_000);
        journal.event(&event(2, EventKind::ActionFinished { action: "setup/0".to_owned(), report }));
        journal.event(&event(3, EventKind::CleanupDone { cleanup: "cleanup/1".to_owned() }));
        assert_eq!(follower.follow().unwrap(), News { any: true, matters: true });
        let carried = follower.carried().unwrap().unwrap();
        assert_eq!(carried.pending, [("t".to_owned(), "cleanup/0".to_owned())]);
        assert_eq!(carried.place, "boot pid:1");
        assert!(carried.journal.len() < 2_000, "{}", carried.journal.len());

        let run = carried.rebuild(there.path(), Path::new("/project")).unwrap();
        assert_eq!(run, folder(there.path(), "r1"));
        let (past, was) = (Past::read(&run).unwrap().0, Past::read(journal.dir()).unwrap().0);
        assert!(!past.is_damaged() && past.interrupted());
        assert_eq!((past.header.cwd.as_path(), &past.header.results), (Path::new("/project"), &results(&run)));
        assert_eq!((&past.writers, past.next), (&was.writers, was.next));
        let (past, was) = (&past.tasks[&task()], &was.tasks[&task()]);
        assert_eq!((&past.pending, &past.done, &past.ended), (&was.pending, &was.done, &was.ended));
        assert_eq!(past.ended["setup/0"].outputs["pod"], "web-1");
    }

    /// A batch of units is a single run: units that have ended without pending cleanups are not sent with those still running.
    #[test]
    fn finished_units_without_pending_cleanups_are_not_transferred() {
        let here = tempfile::tempdir().unwrap();
        let journal = journal(here.path());
        let mut follower = Follower::new(here.path());
        let of = |run: u32, seq: u64, kind: EventKind| {
            journal.event(&Event { task: Some(TaskRun { run, ..task() }), ..event(seq, kind) });
        };
        let pending =
            || EventKind::CleanupPending { action: "setup/0".to_owned(), cleanups: vec!["cleanup/0".to_owned()] };
        let done = || EventKind::CleanupDone { cleanup: "cleanup/0".to_owned() };
        let finished = EventKind::TaskFinished {
            verdict: crate::event::Verdict::Passed,
            reason: String::new(),
            duration: Duration::ZERO,
            cleanup_failed: false,
        };
        let mut sizes = Vec::new();
        for run in 0..50_u32 {
            let at = u64::from(run) * 10;
            of(run, at, EventKind::TaskStarted { plan_digest: "d".to_owned() });
            let values = Values { id: crate::random::word(), ..Values::default() };
            journal.append(&Entry::Values { task: TaskRun { run, ..task() }, values });
            of(run, at + 1, pending());
            assert_eq!(follower.follow().unwrap(), News { any: true, matters: true });
            let carried = follower.carried().unwrap().unwrap();
            assert_eq!(carried.pending.len(), 1);
            sizes.push(carried.journal.len());
            of(run, at + 2, done());
            of(run, at + 3, finished.clone());
        }
        assert_eq!(follower.follow().unwrap(), News { any: true, matters: true });
        assert!(sizes[49] < sizes[0] * 2, "{sizes:?}");
        // Damage is detected whether or not it could hide something pending.
        let path = journal.dir().join(FILE);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("\"seq\":12,", "\"seq\":13,")).unwrap();
        let mut follower = Follower::new(here.path());
        assert!(follower.follow().unwrap_err().to_string().contains("damaged"));
    }

    /// A journal that is too large is never reported as kept.
    #[test]
    fn journals_that_are_too_large_are_rejected() {
        let here = tempfile::tempdir().unwrap();
        let journal = journal(here.path());
        let mut follower = Follower::new(here.path());
        let cleanups = vec!["cleanup/0".to_owned()];
        journal.event(&event(0, EventKind::CleanupPending { action: "setup/0".to_owned(), cleanups }));
        follower.follow().unwrap();
        assert!(follower.carried().unwrap().is_some());
        let mut report = ActionReport::new(Outcome::Passed, "");
        // Incompressible data.
        let noise: String = (0..300_000).map(|_| crate::random::word()).collect();
        report.outputs.insert("all".to_owned(), noise.into());
        journal.event(&event(1, EventKind::ActionFinished { action: "setup/0".to_owned(), report }));
        assert_eq!(follower.follow().unwrap(), News { any: true, matters: true });
        let error = follower.carried().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert!(error.to_string().contains("exceeds 1024 KiB"), "{error}");
    }

    #[test]
    fn invalid_journals_are_rejected() {
        let there = tempfile::tempdir().unwrap();
        let packed = |text: &str| {
            use base64::Engine as _;
            let packed = zstd::encode_all(text.as_bytes(), 1).unwrap();
            base64::engine::general_purpose::STANDARD.encode(packed)
        };
        for (journal, why) in
            [("%".to_owned(), "symbol"), (packed(""), "does not start"), (packed("{\"reported\":null}\n"), "")]
        {
            let carried = Carried { pending: Vec::new(), place: String::new(), journal };
            let told = carried.rebuild(there.path(), Path::new("/project")).unwrap_err().to_string();
            assert!(told.contains(why), "`{told}` does not say `{why}`");
        }
        assert!(!folder(there.path(), "r1").exists());
    }
}
