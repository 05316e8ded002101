//! The contents of a journal: which tasks have results, which cleanups of the others are pending, and the values that those need.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
    time::Duration,
};

use indexmap::IndexMap;
use serde_json::{Map, Value};

use super::{Entries, Entry, Header, Refusal, Selected, Values, Writer, line::Line};
use crate::{
    event::{ActionReport, CallReport, Event, EventKind, Outcome, TaskRun, TokenUsage, Used, Verdict},
    hir::CallKind,
};

/// The fold of a journal.
#[derive(Clone, Debug)]
pub struct Past {
    pub header: Header,
    /// All processes that have ever appended.
    pub writers: Vec<Writer>,
    /// The leaders of process groups, by pid and start time.
    pub groups: Vec<(i32, u64)>,
    pub selected: Vec<Selected>,
    pub tasks: IndexMap<TaskRun, TaskPast>,
    /// The number of the next event.
    pub next: u64,
    /// Whether the run has ended.
    pub finished: bool,
    /// Whether its results are written.
    pub reported: bool,
    pub closed: bool,
    /// What agents used, and what judges used.
    agents: Used,
    judges: TokenUsage,
    /// Lines that were changed or are missing.
    pub damage: Vec<Damage>,
}

/// A place where the journal no longer shows what was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Damage {
    /// Counted from 1.
    pub line: u64,
    /// How many lines are missing before it; 0 if the line itself is damaged.
    pub missing: u64,
    /// The tasks running at that point: it is no longer known which of their cleanups are pending or done.
    pub tasks: Vec<TaskRun>,
}

/// Where the journal continues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ends {
    /// The end of the last complete line, in bytes; anything after it is an incomplete line.
    pub bytes: u64,
    /// The number of the next line.
    pub next: u64,
}

/// A run of a task.
#[derive(Clone, Debug, Default)]
pub struct TaskPast {
    pub end: Option<End>,
    /// The pending cleanups, with the action that each belongs to.
    pub pending: IndexMap<String, String>,
    pub done: HashSet<String>,
    pub begun: HashSet<String>,
    /// The actions that ended, in order; their reports do not contain printed output.
    pub ended: IndexMap<String, ActionReport>,
    pub values: Option<Values>,
    /// By action.
    pub vars: HashMap<String, Map<String, Value>>,
    pub output: Option<String>,
    pub calls: Vec<CallReport>,
    pub kept: bool,
    /// The journal is damaged at entries of this run: it may have done more than the journal shows.
    pub damaged: bool,
}

/// How a run of a task ended.
#[derive(Clone, PartialEq, Debug)]
pub struct End {
    pub verdict: Verdict,
    pub reason: String,
    pub duration: Duration,
    pub cleanup_failed: bool,
}

impl Past {
    /// Reads a journal; also returns where its last complete line ends.
    ///
    /// # Errors
    /// The file cannot be read, or is not a journal.
    pub fn read(dir: &Path) -> Result<(Self, Ends), Refusal> {
        let mut entries = Entries::open(dir)?;
        let first = entries.next().map(|read| (read.line, read.end));
        let Some((Line::Entry(first, _), bytes)) = first else { return Err(Refusal::Malformed) };
        let Entry::Run(header) = *first else { return Err(Refusal::Malformed) };
        let mut past = Self {
            header: *header,
            writers: Vec::new(),
            groups: Vec::new(),
            selected: Vec::new(),
            tasks: IndexMap::new(),
            next: 0,
            finished: false,
            reported: false,
            closed: false,
            agents: Used::default(),
            judges: TokenUsage::default(),
            damage: Vec::new(),
        };
        let mut ends = Ends { bytes, next: 2 };
        for read in entries {
            match read.line {
                Line::Entry(entry, number) => {
                    let number = number.unwrap_or(ends.next);
                    if number != ends.next {
                        past.damaged(ends.next, number.saturating_sub(ends.next));
                    }
                    ends.next = number + 1;
                    past.take(*entry);
                }
                // An incomplete last line, left by a crash.
                Line::Damaged if !read.whole => break,
                Line::Damaged => {
                    past.damaged(ends.next, 0);
                    ends.next += 1;
                }
            }
            ends.bytes = read.end;
        }
        Ok((past, ends))
    }

    fn damaged(&mut self, line: u64, missing: u64) {
        let under_way = self.tasks.iter_mut().filter(|(_, of)| of.end.is_none() || !of.pending.is_empty());
        let tasks = under_way.map(|(task, of)| {
            of.damaged = true;
            task.clone()
        });
        let tasks = tasks.collect();
        self.damage.push(Damage { line, missing, tasks });
    }

    /// Whether parts of it are lost: it must not be treated as if nothing were pending.
    pub fn is_damaged(&self) -> bool {
        !self.damage.is_empty()
    }

    /// Whether it needs `recover`: it has not ended, has not written its results, is damaged, or has a pending cleanup that is not kept
    /// on purpose.
    pub fn interrupted(&self) -> bool {
        !self.closed
            && (!self.finished
                || !self.reported
                || self.is_damaged()
                || self.tasks.values().any(|task| !task.pending.is_empty() && !task.kept))
    }

    /// What agents and judges used of the run's limits, for the turns that ended; `price` is that of the judge.
    pub fn used(&self, price: impl Fn(&TokenUsage) -> f64) -> Used {
        self.agents.and(Used { tokens: self.judges.total_tokens, cost: price(&self.judges), tool_calls: 0 })
    }

    /// Whether it has a world that is kept on purpose.
    pub fn keeps(&self) -> bool {
        !self.closed && self.tasks.values().any(|task| task.kept)
    }

    /// Returns every run of a task that was requested.
    pub fn wanted(&self) -> impl Iterator<Item = (&Selected, TaskRun)> {
        self.selected.iter().flat_map(|selected| {
            (0..selected.runs)
                .filter(|run| selected.only.is_none_or(|only| only == *run))
                .map(move |run| (selected, TaskRun { index: selected.index, name: selected.name.clone(), run }))
        })
    }

    /// The result of a run of a task, unless the run was cancelled.
    pub fn result(&self, task: &TaskRun) -> Option<&End> {
        self.tasks.get(task)?.end.as_ref().filter(|end| end.verdict != Verdict::Cancelled)
    }

    fn take(&mut self, entry: Entry) {
        match entry {
            Entry::Run(_) => {}
            Entry::Process(writer) => {
                self.writers.push(writer);
                self.closed = false;
            }
            Entry::Selected(selected) => self.selected = selected,
            Entry::Event(event) => self.event(event),
            Entry::Values { task, values } => self.task(task).values = Some(values),
            Entry::Vars { task, action, vars } => {
                self.task(task).vars.insert(action, vars);
            }
            Entry::Group { pid, start } => self.groups.push((pid, start)),
            Entry::Kept { task } => self.task(task).kept = true,
            Entry::Reported => self.reported = true,
            Entry::Closed => {
                self.closed = true;
                // A resumed run does not retry what was forgotten.
                self.tasks.values_mut().for_each(|of| of.pending.clear());
            }
        }
    }

    fn task(&mut self, task: TaskRun) -> &mut TaskPast {
        // Its first entries may be among the missing lines.
        let damaged = self.is_damaged();
        self.tasks.entry(task).or_insert_with(|| TaskPast { damaged, ..TaskPast::default() })
    }

    fn event(&mut self, event: Event) {
        self.next = event.seq + 1;
        self.reported &= event.task.is_none();
        let Some(task) = event.task else {
            match event.kind {
                EventKind::RunFinished { .. } => self.finished = true,
                _ => (self.finished, self.reported) = (false, false),
            }
            return;
        };
        match &event.kind {
            EventKind::TokensCounted { tokens } => {
                self.agents.tokens += tokens.total_tokens;
                self.agents.cost += tokens.cost.unwrap_or_default();
            }
            EventKind::CallRecorded { call } => self.agents.tool_calls += u64::from(call.kind == CallKind::Tool),
            EventKind::ActionFinished { report, .. } => {
                let judged = report.judgement.as_ref().and_then(|judgement| judgement.usage);
                self.judges = self.judges.and(judged.unwrap_or_default());
            }
            _ => {}
        }
        let of = self.task(task);
        match event.kind {
            EventKind::TaskStarted { .. } => *of = TaskPast::default(),
            EventKind::CleanupPending { action, cleanups } => {
                of.pending.extend(cleanups.into_iter().map(|cleanup| (cleanup, action.clone())));
            }
            EventKind::CleanupDone { cleanup } => {
                of.pending.shift_remove(&cleanup);
                of.done.insert(cleanup);
            }
            EventKind::ActionStarted { action } => {
                of.begun.insert(action);
            }
            EventKind::ActionFinished { action, report } => {
                let report = ActionReport {
                    outputs: report.outputs,
                    retried: report.retried,
                    ..ActionReport::new(report.outcome, report.message)
                };
                // After everything that ended before it, in any round or attempt.
                of.ended.shift_remove(&action);
                of.ended.insert(action, report);
            }
            EventKind::AgentSpoke { text } => of.output = Some(text),
            EventKind::CallRecorded { call } => of.calls.push(call),
            EventKind::TaskFinished { verdict, reason, duration, cleanup_failed } => {
                of.end = Some(End { verdict, reason, duration, cleanup_failed });
                if of.pending.is_empty() && !of.kept {
                    *of = TaskPast { end: of.end.take(), damaged: of.damaged, ..TaskPast::default() };
                }
            }
            _ => {}
        }
    }
}

impl TaskPast {
    /// The report of a cleanup step that must not run again.
    pub fn completed(&self, id: &str) -> Option<&ActionReport> {
        let report = self.ended.get(id)?;
        (self.done.contains(id) || report.outcome == Outcome::Passed).then_some(report)
    }
}
