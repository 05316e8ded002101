//! What a journal tells: which tasks have results, which cleanups of the others are pending, and the values that those need.

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
    /// All that ever appended.
    pub writers: Vec<Writer>,
    /// Leaders of process groups, by pid and start.
    pub groups: Vec<(i32, u64)>,
    pub selected: Vec<Selected>,
    pub tasks: IndexMap<TaskRun, TaskPast>,
    /// The number of the next event.
    pub next: u64,
    /// The run came to its end.
    pub finished: bool,
    /// Its results are written.
    pub reported: bool,
    pub closed: bool,
    /// What agents used, and judges.
    agents: Used,
    judges: TokenUsage,
    /// Lines that are not as they were written, or are missing.
    pub damage: Vec<Damage>,
}

/// A place where a journal does not tell what it once did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Damage {
    /// From 1.
    pub line: u64,
    /// How many lines are missing before it; none where the line itself is damaged.
    pub missing: u64,
    /// The tasks under way there: which cleanups of them are pending or done is not known any more.
    pub tasks: Vec<TaskRun>,
}

/// Where a journal goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ends {
    /// What stands behind it was left half written.
    pub bytes: u64,
    /// The number of the next line.
    pub next: u64,
}

/// A run of a task.
#[derive(Clone, Debug, Default)]
pub struct TaskPast {
    pub end: Option<End>,
    /// Cleanups that are pending, and the action that each belongs to.
    pub pending: IndexMap<String, String>,
    pub done: HashSet<String>,
    pub begun: HashSet<String>,
    /// Actions that ended, in order; of the reports, what they printed is left out.
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
    /// With the place where the last whole line ends.
    ///
    /// # Errors
    /// The file cannot be read, or is no journal.
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
                // What a death left half written: the last line, without an end.
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

    /// Whether it does not tell everything any more: it must not be taken for one that has nothing pending.
    pub fn is_damaged(&self) -> bool {
        !self.damage.is_empty()
    }

    /// Whether it needs `recover`: it did not end, or has not written its results, or a cleanup is pending that is not kept on purpose.
    pub fn interrupted(&self) -> bool {
        !self.closed
            && (!self.finished
                || !self.reported
                || self.is_damaged()
                || self.tasks.values().any(|task| !task.pending.is_empty() && !task.kept))
    }

    /// What agents and judges used of the run's limits, as far as turns came to an end; the price is the judge's.
    pub fn used(&self, price: impl Fn(&TokenUsage) -> f64) -> Used {
        self.agents.and(Used { tokens: self.judges.total_tokens, cost: price(&self.judges), tool_calls: 0 })
    }

    /// Whether a world of it is kept on purpose.
    pub fn keeps(&self) -> bool {
        !self.closed && self.tasks.values().any(|task| task.kept)
    }

    /// Every run of a task that was asked for.
    pub fn wanted(&self) -> impl Iterator<Item = (&Selected, TaskRun)> {
        self.selected.iter().flat_map(|selected| {
            (0..selected.runs)
                .filter(|run| selected.only.is_none_or(|only| only == *run))
                .map(move |run| (selected, TaskRun { index: selected.index, name: selected.name.clone(), run }))
        })
    }

    /// The result of a task that ended by itself.
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
                // What was forgotten is not tried again by a run that is resumed.
                self.tasks.values_mut().for_each(|of| of.pending.clear());
            }
        }
    }

    fn task(&mut self, task: TaskRun) -> &mut TaskPast {
        // Its beginning may be what is missing.
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
                // Behind what ended before it, in whatever round or attempt that was.
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
    /// The report of a cleanup step that never runs again.
    pub fn completed(&self, id: &str) -> Option<&ActionReport> {
        let report = self.ended.get(id)?;
        (self.done.contains(id) || report.outcome == Outcome::Passed).then_some(report)
    }
}
