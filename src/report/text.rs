//! `text`: the report for people. One line per task while it runs, a short summary, then every failure with its location.

use std::{
    collections::{HashMap, HashSet},
    fmt::Write,
    path::Path,
    time::Duration,
};

use indexmap::{IndexMap, IndexSet};

use super::{Detail, ReportFormat, ReportInput};
use crate::{
    bash,
    event::{
        ActionReport, Difference, Event, EventKind, Limited, Outcome, Remark, TaskRun, TokenEstimate, TokenUsage,
        Verdict,
    },
    hir::Isolation,
    plan::{Action, PlanPhase, planned_id},
    prices::money,
    results,
    run::Gate,
    source::Span,
    ty::duration,
};

pub(super) const FORMAT: ReportFormat = ReportFormat {
    name: "text",
    summary: "one line per task, a summary, and what failed and where",
    make: |input| {
        let mut text = Text::new(input);
        Box::new(move |event, written| text.take(event, written))
    },
};

/// How many lines of a value are shown.
const LINES: usize = 8;
/// How many tags are listed with their rates.
const KINDS: usize = 20;
/// How many lines are shown of an answer or of standard output.
const FEW: usize = 4;
/// How many characters of a line are shown.
const WIDTH: usize = 160;

pub(super) struct Text {
    input: ReportInput,
    /// The actions that did not pass, of the runs in progress.
    bad: IndexMap<TaskRun, Vec<(String, ActionReport)>>,
    /// The phases that have started.
    begun: HashMap<TaskRun, Vec<String>>,
    done: Vec<Finished>,
    /// How many runs there will be.
    expected: usize,
    /// Failures that were already printed during the run.
    told: HashSet<(Verdict, String)>,
    remarked: Vec<(TaskRun, Remark)>,
    /// Runs that were broken and retried, and why.
    retried: Vec<(TaskRun, String)>,
    tokens: Vec<TokenEstimate>,
    judged: TokenUsage,
    judged_in_part: bool,
    limits: Option<Limited>,
    notices: Vec<String>,
    cancelled: Option<String>,
}

/// A check that did not pass, for annotations.
pub(super) struct Failure {
    pub path: String,
    pub line: usize,
    pub title: String,
    pub message: String,
}

/// Numbers of runs: those that passed, those that passed or failed, and all.
#[derive(Default)]
struct Counts {
    passed: usize,
    judged: usize,
    all: usize,
}

impl Counts {
    fn add(&mut self, verdict: Verdict) {
        self.passed += usize::from(verdict == Verdict::Passed);
        self.judged += usize::from(matches!(verdict, Verdict::Passed | Verdict::Failed));
        self.all += 1;
    }
}

struct Finished {
    task: TaskRun,
    verdict: Verdict,
    reason: String,
    cleanup_failed: bool,
    bad: Vec<(String, ActionReport)>,
}

impl Text {
    pub(super) fn new(input: &ReportInput) -> Self {
        let runs = |&index: &usize| runs_of(input, index) as usize;
        Self {
            expected: input.selection.of(&input.plan).iter().map(runs).sum(),
            input: input.clone(),
            bad: IndexMap::new(),
            begun: HashMap::new(),
            done: Vec::new(),
            told: HashSet::new(),
            remarked: Vec::new(),
            retried: Vec::new(),
            tokens: Vec::new(),
            judged: TokenUsage::default(),
            judged_in_part: false,
            limits: None,
            notices: Vec::new(),
            cancelled: None,
        }
    }

    pub(super) fn take(&mut self, event: &Event, written: bool) -> String {
        match (&event.task, &event.kind) {
            (Some(task), EventKind::ActionFinished { action, report }) => {
                if let Some(judgement) = &report.judgement
                    && let Some(usage) = judgement.usage
                {
                    self.judged_in_part |= judgement.estimated;
                    self.judged = self.judged.and(usage);
                }
                // Skipped actions of a phase that never started are explained by what prevented it from starting.
                let phase = action.split('/').next().unwrap_or_default();
                let begun = self.begun.get(task).is_some_and(|begun| begun.iter().any(|b| b == phase));
                if report.outcome == Outcome::Passed {
                    self.tolerate(task, action);
                } else if begun || report.outcome != Outcome::Skipped {
                    self.bad.entry(task.clone()).or_default().push((action.clone(), report.clone()));
                }
                self.verbosely(|text| {
                    let why = cut(one_line(&report.message));
                    let why = if why.is_empty() { why } else { format!(": {why}") };
                    let (outcome, took) = (report.outcome.name(), brief(report.duration));
                    text.faint(&format!("  {} {action} {outcome} in {took}{why}", task.name))
                })
            }
            (Some(task), EventKind::PhaseStarted { phase }) => {
                self.begun.entry(task.clone()).or_default().push(phase.clone());
                String::new()
            }
            (Some(task), EventKind::CallRecorded { call }) => self.verbosely(|text| {
                let arguments = call.params.get("arguments").map(|a| format!(" {a}")).unwrap_or_default();
                text.faint(&cut(&format!("  {} calls {}.{}{arguments}", task.name, call.server, call.name)))
            }),
            (None, EventKind::AgentIsolated { level, by, reason, instead_of }) => {
                let reason = reason.as_ref().map(|why| format!(" ({})", one_line(why))).unwrap_or_default();
                let by = by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
                let other = instead_of.filter(|other| other != level).map(Isolation::name);
                let other = other.map(|other| format!(", instead of {other}")).unwrap_or_default();
                let line = format!("  isolation: {}{by}{other}{reason}", level.name());
                // The usual isolation is not mentioned.
                let is_usual = *level != Isolation::None && other.is_empty();
                match self.input.detail {
                    Detail::Quiet => String::new(),
                    Detail::Normal if is_usual => String::new(),
                    _ => self.faint(&line) + "\n",
                }
            }
            (None, EventKind::ServerStarted { server, .. }) => {
                self.verbosely(|text| text.faint(&format!("  server {server} started")))
            }
            (Some(task), EventKind::TaskFinished { verdict, reason, duration, cleanup_failed }) => {
                self.begun.remove(task);
                let mut bad = self.bad.shift_remove(task).unwrap_or_default();
                if let Some(plan) = self.input.plan.tasks.get(task.index) {
                    plan.in_written_order(&mut bad);
                }
                let line = self.progress(task, *verdict, *duration, *cleanup_failed);
                let done = Finished {
                    task: task.clone(),
                    verdict: *verdict,
                    reason: reason.clone(),
                    cleanup_failed: *cleanup_failed,
                    bad,
                };
                let told = self.at_once(&done);
                self.done.push(done);
                if self.input.detail == Detail::Quiet { String::new() } else { line + &told }
            }
            (Some(_), EventKind::TokensCounted { tokens }) => {
                self.tokens.push((**tokens).clone());
                String::new()
            }
            (Some(task), EventKind::TaskRetried { retry, of, reason }) => {
                self.done.retain(|done| done.task != *task);
                self.remarked.retain(|(remarked, _)| remarked != task);
                self.retried.push((task.clone(), reason.clone()));
                let line = format!("  {} is retried ({retry} of at most {of})", task.name);
                if self.input.detail == Detail::Quiet { String::new() } else { self.faint(&line) + "\n" }
            }
            (Some(task), EventKind::Remarked { remark }) => {
                self.remarked.push((task.clone(), remark.clone()));
                String::new()
            }
            (_, EventKind::ServerNotice { server, message }) => {
                self.notices.push(format!("`{server}`: {}", one_line(message)));
                String::new()
            }
            (_, EventKind::Cancelled { reason }) => {
                // A second signal also stops the cleanup, as its reason says.
                let is_first = self.cancelled.is_none();
                self.cancelled.get_or_insert_with(|| reason.clone());
                if is_first { format!("{reason}: stopping and cleaning up\n") } else { format!("{reason}\n") }
            }
            (_, EventKind::RunFinished { duration, limits, .. }) => {
                self.limits = *limits;
                self.summary(*duration, written)
            }
            _ => String::new(),
        }
    }

    /// Forgets what failed within a step that passed: earlier rounds of a wait, and other alternatives.
    fn tolerate(&mut self, task: &TaskRun, passed: &str) {
        let Some(mut bad) = self.bad.shift_remove(task) else { return };
        bad.retain(|(id, _)| {
            let is_within = id.strip_prefix(passed).is_some_and(|rest| rest.starts_with(['/', '#']));
            !is_within || self.action(task, id).is_some_and(|action| action.continue_on_error)
        });
        if !bad.is_empty() {
            self.bad.insert(task.clone(), bad);
        }
    }

    /// Explains at once why a run did not pass; the summary repeats it along with the other failures. Empty if the summary follows
    /// immediately, or if the same text was already printed.
    fn at_once(&mut self, done: &Finished) -> String {
        let is_last = self.done.len() + 1 >= self.expected;
        let fails = matches!(done.verdict, Verdict::Failed | Verdict::Broken);
        // What prevents every task from running is reported once, at the end.
        let checked = done.bad.iter().any(|(_, report)| matches!(report.outcome, Outcome::Failed | Outcome::Broken));
        if !fails || !checked || is_last || !self.told.insert((done.verdict, self.failure(done, false))) {
            return String::new();
        }
        self.failure(done, true)
    }

    fn verbosely(&self, line: impl FnOnce(&Self) -> String) -> String {
        if self.input.detail == Detail::Verbose { line(self) + "\n" } else { String::new() }
    }

    /// The checks that did not pass, with their lines; for a run without one, its task.
    pub(super) fn failures(&self) -> Vec<Failure> {
        let mut failures = Vec::new();
        for done in self.done.iter().filter(|d| d.verdict != Verdict::Passed && d.verdict != Verdict::Cancelled) {
            let before = failures.len();
            for (id, report) in &done.bad {
                let said = matches!(report.outcome, Outcome::Failed | Outcome::Broken);
                let Some(action) = self.action(&done.task, id).filter(|a| said && a.is_leaf()) else {
                    continue;
                };
                let differences = report.differences.iter().map(|d| {
                    format!("\n{}: expected {}, actual {}", d.subject, one_line(&d.expected), one_line(&d.actual))
                });
                let at = report.differences.iter().find_map(|d| d.at);
                let span = at.map_or(action.span, |(start, end)| Span { start, end, ..action.span });
                failures.push(Failure {
                    title: format!("{} {id}", done.task.name),
                    message: how(report) + &differences.collect::<String>(),
                    ..self.failure_at(span)
                });
            }
            if let (true, Some(planned)) = (failures.len() == before, self.input.plan.tasks.get(done.task.index)) {
                failures.push(Failure {
                    title: done.task.name.clone(),
                    message: format!("{}: {}", done.verdict.name(), done.reason),
                    ..self.failure_at(planned.task.name.span)
                });
            }
        }
        failures
    }

    /// The remarks, once per task, at its name; annotations have the levels `notice` and `warning`.
    pub(super) fn annotated_remarks(&self) -> Vec<(&'static str, Failure)> {
        let mut shown = HashSet::new();
        let once = self.remarked.iter().filter(|(task, remark)| shown.insert((task.index, remark.kind)));
        let annotated = once.filter_map(|(task, remark)| {
            let span = self.input.plan.tasks.get(task.index)?.task.name.span;
            let severity = if remark.kind.severity() == "warning" { "warning" } else { "notice" };
            let (title, message) = (task.name.clone(), remark.message.clone());
            Some((severity, Failure { title, message, ..self.failure_at(span) }))
        });
        annotated.collect()
    }

    fn failure_at(&self, span: Span) -> Failure {
        let source = self.input.sources.get(span.file);
        Failure {
            path: source.path().display().to_string(),
            line: source.position(span.start).line,
            title: String::new(),
            message: String::new(),
        }
    }

    fn progress(&self, task: &TaskRun, verdict: Verdict, took: Duration, cleanup_failed: bool) -> String {
        let width = self.input.plan.tasks.iter().map(|t| t.task.name.value.chars().count()).max().unwrap_or(0);
        let runs = self.runs(task);
        let mut name = format!("{:<width$}", task.name, width = width.min(48));
        if runs > 1 {
            write!(name, "  run {}/{runs}", task.run + 1).ok();
        }
        let note = if cleanup_failed { "  cleanup failed" } else { "" };
        format!("{}  {name}  {}{note}\n", self.word(verdict), brief(took))
    }

    fn summary(&self, took: Duration, written: bool) -> String {
        let mut out = String::new();
        let of = |verdict| self.done.iter().filter(|d| d.verdict == verdict).count();
        let others = [Verdict::Failed, Verdict::Broken, Verdict::Unchecked, Verdict::Cancelled];
        let others = others.into_iter().filter(|v| of(*v) > 0).map(|v| format!(", {} {}", of(v), v.name()));
        let counted =
            plural(self.done.len(), if self.done.iter().any(|d| self.runs(&d.task) > 1) { "run" } else { "task" });
        let (passed, others) = (of(Verdict::Passed), others.collect::<String>());
        let done = if self.input.unjudged { "set up" } else { "passed" };
        // If all passed, the confidence is shown further below.
        let all = self.done.len();
        let sure = if passed < all && !self.input.unjudged {
            results::sure(passed, passed + of(Verdict::Failed), all)
        } else {
            String::new()
        };
        writeln!(out, "\n{passed} of {counted} {done}{others} in {}{sure}", brief(took)).ok();
        if let Some(gate) = self.input.gate {
            let Gate { passes, of } = gate;
            let how = match (self.input.rate, &self.input.until_decided) {
                (Some(rate), None) => format!("`{rate}`, which is {passes} passes of {of} runs"),
                (Some(rate), Some(_)) => format!("`{rate}`, checked after each of at most {of} runs"),
                (None, _) => format!("{passes} passes of {of} runs"),
            };
            writeln!(out, "the gate is {how}: {}", self.gate(gate)).ok();
        }
        if let Some(shard) = self.input.selection.shard {
            writeln!(out, "this was shard {shard}: `gevals result merge` merges the shards").ok();
        }
        if let Some(seed) = self.input.selection.shuffle {
            writeln!(out, "in random order; repeat it with --shuffle --seed {seed}").ok();
        }
        self.used(&mut out);
        self.by_kind(&mut out);
        self.by_task(&mut out);
        let mut remarked: IndexMap<_, IndexSet<&str>> = IndexMap::new();
        for (task, remark) in &self.remarked {
            remarked.entry((remark.kind, remark.message.as_str())).or_default().insert(&task.name);
        }
        let mut retried: IndexMap<&TaskRun, Vec<&str>> = IndexMap::new();
        self.retried.iter().for_each(|(task, why)| retried.entry(task).or_default().push(one_line(why)));
        for (task, whys) in retried {
            writeln!(out, "note: {} was broken and retried: {}", self.whose(&[task]), cut(&whys.join("; "))).ok();
        }
        for ((kind, message), tasks) in remarked {
            let more = if tasks.len() > LINES { format!(" and {} more", tasks.len() - LINES) } else { String::new() };
            let tasks: Vec<_> = tasks.into_iter().take(LINES).collect();
            writeln!(out, "{}: {}: {}{more}", kind.severity(), cut(message), cut(&tasks.join(", "))).ok();
        }
        let mut remarks: IndexMap<_, usize> = IndexMap::new();
        self.remarks().into_iter().for_each(|remark| *remarks.entry(remark).or_default() += 1);
        for ((severity, what), times) in remarks {
            let times = if times > 1 { format!(" ({times} times)") } else { String::new() };
            writeln!(out, "{severity}: {what}{times}").ok();
        }
        // Identical failures are explained once: runs of a task, or all tasks if a server does not start.
        let mut failures: IndexMap<(Verdict, String), Vec<&Finished>> = IndexMap::new();
        for done in self.done.iter().filter(|d| d.verdict != Verdict::Passed) {
            failures.entry((done.verdict, self.failure(done, false))).or_default().push(done);
        }
        for ((verdict, _), alike) in failures {
            let runs: Vec<_> = alike.iter().map(|done| &done.task).collect();
            let why = self.failure(alike[0], true);
            write!(out, "\n{}  {}\n{why}", self.word(verdict), self.whose(&runs)).ok();
            writeln!(out, "  rerun: {}", self.rerun(&runs)).ok();
        }
        // Otherwise the file may contain another run.
        if written {
            let results = &self.input.results;
            writeln!(out, "\nresults: {}", results.strip_prefix(".").unwrap_or(results).display()).ok();
        }
        out
    }

    /// Prints the tokens used, and their cost if it is known.
    fn used(&self, out: &mut String) {
        let sum = |of: fn(&TokenEstimate) -> u64| self.tokens.iter().map(of).sum::<u64>();
        let (input, output) = (sum(|t| t.input_tokens), sum(|t| t.output_tokens));
        if input + output > 0 {
            let reported = self.tokens.iter().filter(|t| t.actual.is_some()).count();
            let how = match reported {
                0 => ", estimated",
                n if n == self.tokens.len() => "",
                _ => ", estimated in part",
            };
            let cost: Option<f64> = self.tokens.iter().map(|t| t.cost).sum();
            let cost = cost.map(|cost| format!(", {} {}", money(cost), self.input.currency)).unwrap_or_default();
            writeln!(out, "the agent used {input} tokens in, {output} out{how}{cost}").ok();
        }
        if self.judged.total_tokens > 0 {
            let TokenUsage { input_tokens, output_tokens, .. } = self.judged;
            let how = if self.judged_in_part { ", estimated" } else { "" };
            writeln!(out, "the judge used {input_tokens} tokens in, {output_tokens} out{how}").ok();
        }
        if let Some(limits) = self.limits {
            let used = limits.words(&self.input.currency);
            writeln!(out, "used of the limits for all tasks together: {used}").ok();
        }
    }

    /// Which tasks did not pass often enough.
    fn gate(&self, gate: Gate) -> String {
        let mut counts: IndexMap<&str, (u32, u32)> = IndexMap::new();
        for done in &self.done {
            let (passes, runs) = counts.entry(&done.task.name).or_default();
            *passes += u32::from(done.verdict == Verdict::Passed);
            *runs += 1;
        }
        let met = |passes: u32, runs: u32| match &self.input.until_decided {
            Some(decides) => decides.decided(passes, runs) == Some(true),
            None => passes >= gate.passes,
        };
        let missed = counts.into_iter().filter(|(_, (passes, runs))| !met(*passes, *runs));
        let missed: Vec<_> = missed.map(|(name, (passes, runs))| format!("{name} ({passes} of {runs})")).collect();
        if missed.is_empty() { "met".to_owned() } else { format!("missed by {}", missed.join(", ")) }
    }

    /// Prints `by difficulty: easy 2/3 (20–94 %), hard 0/1 (0–80 %)` if tasks set a difficulty, and the same by tag.
    fn by_kind(&self, out: &mut String) {
        let mut by_difficulty: IndexMap<&str, Counts> =
            ["easy", "medium", "hard"].map(|d| (d, Counts::default())).into();
        let mut by_tag: IndexMap<&str, Counts> = IndexMap::new();
        for done in &self.done {
            let Some(task) = self.input.plan.tasks.get(done.task.index).map(|plan| &plan.task) else { continue };
            let count = |count: &mut Counts| count.add(done.verdict);
            if let Some(difficulty) = task.difficulty.as_deref() {
                count(by_difficulty.entry(difficulty).or_default());
            }
            let tags: IndexSet<&str> = task.tags.iter().map(String::as_str).collect();
            tags.into_iter().for_each(|tag| count(by_tag.entry(tag).or_default()));
        }
        by_tag.sort_keys();
        for (what, counts) in [("difficulty", by_difficulty), ("tag", by_tag)] {
            let counts = counts.into_iter().filter(|(_, counts)| counts.all > 0);
            let rate = |(name, Counts { passed, judged, all })| {
                format!("{name} {passed}/{all}{}", results::between(passed, judged, all))
            };
            let counts: Vec<_> = counts.map(rate).collect();
            if !counts.is_empty() && !self.input.unjudged {
                let more = counts.len().saturating_sub(KINDS);
                let more = if more > 0 { format!(" and {}", plural(more, "other")) } else { String::new() };
                writeln!(out, "by {what}: {}{more}", counts[..counts.len().min(KINDS)].join(", ")).ok();
            }
        }
    }

    /// Prints how often each task passed that ran several times and did not always pass.
    fn by_task(&self, out: &mut String) {
        let mut counts: IndexMap<usize, (usize, usize)> = IndexMap::new();
        for done in self.done.iter().filter(|d| self.runs(&d.task) > 1) {
            let count = counts.entry(done.task.index).or_default();
            count.0 += usize::from(done.verdict == Verdict::Passed);
            count.1 += 1;
        }
        self.worth(out);
        for (index, (passed, all)) in counts.into_iter().filter(|(_, (passed, all))| passed < all) {
            let name = &self.input.plan.tasks[index].task.name.value;
            let own = self.input.plan.tasks[index].task.gate.filter(|_| self.input.own_gates());
            let gate = own.map_or_else(String::new, |(passes, of)| {
                format!(", and {passes} of {of} must: {}", if passed >= passes as usize { "met" } else { "missed" })
            });
            let runs = || self.done.iter().filter(|done| done.task.index == index);
            let failed = runs().filter(|done| done.verdict == Verdict::Failed).count();
            let flaky = if results::is_flaky(passed, failed) { ", flaky" } else { "" };
            let rate = results::bounds(passed, passed + failed, all);
            let rate = rate.map_or_else(String::new, |rate| format!("; its pass rate is {rate}"));
            writeln!(out, "{name}: {passed} of {all} runs passed{gate}{rate}{flaky}").ok();
        }
    }

    /// Prints how much confidence the number of passes gives for tasks that always passed.
    fn worth(&self, out: &mut String) {
        let mut counts: IndexMap<usize, (usize, usize)> = IndexMap::new();
        for done in &self.done {
            let count = counts.entry(done.task.index).or_default();
            count.0 += usize::from(done.verdict == Verdict::Passed);
            count.1 += 1;
        }
        // If a gate is requested, the gate decides instead.
        let steady = counts.values().filter(|(passed, all)| passed == all).map(|(_, all)| *all).min();
        if let (Some(all), None, false) = (steady, self.input.gate, self.input.unjudged) {
            writeln!(out, "{}", results::worth(all)).ok();
        }
    }

    /// Remarks that do not change a verdict.
    fn remarks(&self) -> Vec<(&'static str, String)> {
        let mut remarks: Vec<(&'static str, String)> = Vec::new();
        for done in &self.done {
            for (id, report) in &done.bad {
                let Some(action) = self.action(&done.task, id) else { continue };
                // A branch, or an earlier round, of a step that passed in the end.
                let around = id.match_indices('/').map(|(at, _)| {
                    let start = id[..at].rfind('/').unwrap_or_default();
                    &id[..id[start..at].find(['[', '#']).map_or(at, |round| start + round)]
                });
                let mut around = around.filter(|around| self.action(&done.task, around).is_some());
                if action.phase == PlanPhase::Cleanup
                    && around.any(|around| done.bad.iter().all(|(other, _)| other != around))
                {
                    continue;
                }
                // The last line that a program printed often gives the reason.
                let said = report.stderr.trim_end().lines().last().map(|said| format!(" – {}", cut(said)));
                let what = format!("{} `{id}` {}{}", done.task.name, how(report), said.unwrap_or_default());
                match (action.phase, report.outcome) {
                    (PlanPhase::Cleanup, Outcome::Skipped) => remarks.push(("note", what)),
                    (PlanPhase::Setup, Outcome::Failed | Outcome::Broken) if done.verdict == Verdict::Passed => {
                        remarks.push(("note", what));
                    }
                    (PlanPhase::Cleanup, _) => remarks.push(("cleanup", what)),
                    _ => {}
                }
            }
            if done.cleanup_failed && !remarks.iter().any(|(severity, _)| *severity == "cleanup") {
                remarks.push(("cleanup", format!("{}: a cleanup step did not pass", done.task.name)));
            }
        }
        remarks.extend(self.notices.iter().take(5).map(|notice| ("server", notice.clone())));
        remarks
    }

    /// Returns `NAME`, `NAME  runs 1, 3 of 5` or `2 tasks: NAME, NAME`.
    fn whose(&self, runs: &[&TaskRun]) -> String {
        let names: IndexSet<&str> = runs.iter().map(|t| t.name.as_str()).collect();
        let numbers: Vec<_> = runs.iter().map(|t| (t.run + 1).to_string()).collect();
        match (names.len(), self.runs(runs[0]), numbers.as_slice()) {
            (1, 1, _) => runs[0].name.clone(),
            (1, all, [one]) => format!("{}  run {one}/{all}", runs[0].name),
            (1, all, several) => format!("{}  runs {} of {all}", runs[0].name, several.join(", ")),
            (several, ..) => {
                let first: Vec<_> = names.iter().take(LINES).copied().collect();
                let more = if several > LINES { format!(", and {} more", several - LINES) } else { String::new() };
                format!("{several} tasks: {}{more}", first.join(", "))
            }
        }
    }

    /// The command that reruns these tasks and no others.
    fn rerun(&self, runs: &[&TaskRun]) -> String {
        let names: IndexSet<_> = runs.iter().map(|t| literal(&t.name)).collect();
        let all: IndexSet<_> = self.done.iter().map(|d| d.task.name.as_str()).collect();
        let eval = bash::quote(&self.input.eval);
        let flags: String = self.input.flags.iter().map(|flag| format!(" {}", bash::quote(flag))).collect();
        let units = &self.input.selection.units;
        if !units.is_empty() {
            let of_them = units.iter().filter(|unit| runs.iter().any(|t| (t.index, t.run) == (unit.index, unit.run)));
            let ids: String = of_them.map(|unit| format!(" --unit {}", bash::quote(&unit.id))).collect();
            return format!("gevals exec-unit {eval}{ids}{flags}");
        }
        let names: Vec<_> = names.into_iter().collect();
        let run = match names.as_slice() {
            [one] => format!(" --run {}", bash::quote(&format!("^{one}$"))),
            several if several.len() == all.len() && self.is_whole() => String::new(),
            several => format!(" --run {}", bash::quote(&format!("^({})$", several.join("|")))),
        };
        format!("gevals run {eval}{run}{flags}")
    }

    /// Whether this run includes all tasks of the eval.
    fn is_whole(&self) -> bool {
        self.input.selection.of(&self.input.plan).len() == self.input.plan.tasks.len()
    }

    /// Describes every step and assertion that did not pass. The values of holes differ from run to run, so failures are compared
    /// without them.
    fn failure(&self, done: &Finished, with_values: bool) -> String {
        let mut out = String::new();
        // What was cut off by the timeout did not fail by itself.
        if let Some((late, _)) = done.reason.split_once(": ").filter(|(late, _)| late.starts_with("task exceeded")) {
            writeln!(out, "  {late}").ok();
        }
        let worth = |action: &Action, report: &ActionReport| {
            let said =
                matches!(report.outcome, Outcome::Failed | Outcome::Broken) && done.verdict != Verdict::Cancelled;
            // A step with nested steps only repeats their messages.
            said && action.phase != PlanPhase::Cleanup && action.is_leaf()
        };
        let mut shown: Vec<&str> = Vec::new();
        for (id, report) in &done.bad {
            let Some(action) = self.action(&done.task, id).filter(|action| worth(action, report)) else { continue };
            // A loop or a wait fails repeatedly at the same step: only its last round is shown.
            let planned = action.id.as_str();
            let last =
                done.bad.iter().rev().find(|(other, r)| planned_id(other) == planned && r.outcome != Outcome::Skipped);
            if shown.contains(&planned) || last.is_none_or(|(last, _)| last != id) {
                continue;
            }
            shown.push(planned);
            let values = if with_values { values(report) } else { String::new() };
            self.bad_action(&mut out, id, action, report, [self.waited(done, id).unwrap_or_default(), &values]);
        }
        let skipped = done.bad.iter().filter(|(id, r)| {
            r.outcome == Outcome::Skipped && self.action(&done.task, id).is_some_and(|a| a.phase != PlanPhase::Cleanup)
        });
        let skipped = skipped.count();
        if skipped > 0 && done.verdict != Verdict::Cancelled {
            writeln!(out, "  {} not run", plural(skipped, "step")).ok();
        }
        // A run is not broken by steps that only failed, so the reason is added.
        let is_broken = |(_, report): &(String, ActionReport)| report.outcome == Outcome::Broken;
        if done.verdict == Verdict::Broken && !shown.is_empty() && !done.bad.iter().any(is_broken) {
            writeln!(out, "  {}", cut(one_line(&done.reason))).ok();
        }
        if shown.is_empty() {
            // Output of a program follows the line that mentions it; its end is the most informative.
            let mut lines = done.reason.trim_end().lines();
            writeln!(out, "  {}", cut(lines.next().unwrap_or_default())).ok();
            let lines: Vec<_> = lines.collect();
            for line in &lines[lines.len().saturating_sub(LINES)..] {
                writeln!(out, "    {}", cut(line)).ok();
            }
        }
        out
    }

    fn bad_action(&self, out: &mut String, id: &str, action: &Action, report: &ActionReport, said: [&str; 2]) {
        let on =
            if action.phase == PlanPhase::Setup && action.continue_on_error { " (the task continued)" } else { "" };
        writeln!(out, "  {id} {}{on}", how(report)).ok();
        if !action.meaning.is_empty() {
            writeln!(out, "    {}", self.faint(&cut(one_line(&action.meaning)))).ok();
        }
        for line in said.into_iter().filter(|line| !line.is_empty()) {
            writeln!(out, "    {}", cut(line)).ok();
        }
        if report.differences.is_empty() {
            writeln!(out, "    at {}", self.place(action.span)).ok();
            // The lines after the first explain the difference.
            let rest: Vec<_> = report.message.trim_end().lines().skip(1).collect();
            for line in &rest[..rest.len().min(LINES)] {
                writeln!(out, "      {}", cut(line)).ok();
            }
            let more = rest.len().saturating_sub(LINES);
            if more > 0 {
                writeln!(out, "      … {}", plural(more, "line more")).ok();
            }
        }
        for difference in &report.differences {
            let Difference { subject, expected, actual, at, .. } = difference;
            let span = at.map_or(action.span, |(start, end)| Span { start, end, ..action.span });
            writeln!(out, "    at {}: {subject}", self.place(span)).ok();
            block(out, "expected", expected);
            block(out, "actual", actual);
        }
        let differs = |subject: &str| report.differences.iter().any(|d| d.subject == subject);
        // Text that was already shown is not repeated.
        let shown = |text: &str| {
            let told = |other: &str| other.trim() == text.trim();
            report.message.contains(text.trim()) || report.differences.iter().any(|d| told(&d.actual))
        };
        if !report.answer.trim().is_empty() && !shown(&report.answer) {
            let lines: Vec<_> = report.answer.trim_end().lines().collect();
            let more = lines.len().saturating_sub(FEW);
            block(out, "answer", &lines[..lines.len() - more].join("\n"));
            if more > 0 {
                writeln!(out, "        … {}", plural(more, "line more")).ok();
            }
        }
        // The end of a program's output is the most informative.
        for (name, text, most) in [("stdout", &report.stdout, FEW), ("stderr", &report.stderr, LINES)] {
            if !text.trim().is_empty() && !differs(name) && !shown(text) {
                let lines: Vec<_> = text.trim_end().lines().collect();
                block(out, name, &lines[lines.len().saturating_sub(most)..].join("\n"));
            }
        }
    }

    /// How long and how often the step around an action waited, if it waits: `not within 10s, 4 rounds`.
    fn waited<'d>(&self, done: &'d Finished, id: &str) -> Option<&'d str> {
        let holder = id.rsplit_once('#').map(|(holder, _)| holder)?;
        let (_, report) = done.bad.iter().rev().find(|(other, _)| other == holder)?;
        let (said, _) = report.message.split_once("; ")?;
        said.starts_with(results::NOT_WITHIN).then_some(said)
    }

    fn action(&self, task: &TaskRun, id: &str) -> Option<&Action> {
        self.input.plan.tasks.get(task.index)?.find(&planned_id(id))
    }

    fn place(&self, span: Span) -> String {
        let source = self.input.sources.get(span.file);
        let line = source.position(span.start).line;
        let path: &Path = source.path();
        format!("{}:{line}", path.display())
    }

    fn runs(&self, task: &TaskRun) -> u32 {
        runs_of(&self.input, task.index)
    }

    fn word(&self, verdict: Verdict) -> String {
        let (word, colour) = match verdict {
            Verdict::Passed if self.input.unjudged => ("SET UP", "36"),
            Verdict::Passed => ("PASS", "32"),
            Verdict::Failed => ("FAIL", "31"),
            Verdict::Broken => ("BROKEN", "35"),
            Verdict::Unchecked => ("UNCHECKED", "33"),
            Verdict::Cancelled => ("CANCELLED", "33"),
        };
        let padded = format!("{word:<6}");
        if self.input.colour { format!("\u{1b}[1;{colour}m{padded}\u{1b}[0m") } else { padded }
    }

    fn faint(&self, text: &str) -> String {
        if self.input.colour { format!("\u{1b}[2m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

fn runs_of(input: &ReportInput, index: usize) -> u32 {
    if let Some(units) = input.selection.units_of(index) {
        return units;
    }
    let planned = input.plan.tasks.get(index).map(|p| p.task.runs);
    input.runs.or(planned).unwrap_or(1).max(1)
}

/// Returns `with $COLOUR = b, env.TITLE = Bread`; empty if there are no values.
fn values(report: &ActionReport) -> String {
    let each = report.filled.iter().filter_map(|(name, value)| Some(format!("{name} = {}", one_line(value.as_str()?))));
    let each: Vec<_> = each.collect();
    if each.is_empty() { String::new() } else { format!("with {}", each.join(", ")) }
}

fn how(report: &ActionReport) -> String {
    match one_line(&report.message) {
        "" => report.outcome.name().to_owned(),
        why => format!("{}: {}", report.outcome.name(), cut(why)),
    }
}

/// Prints a value with its name: on the same line if it is one line, below it otherwise.
fn block(out: &mut String, name: &str, text: &str) {
    let text = text.trim_end_matches('\n');
    let lines: Vec<_> = text.lines().collect();
    match lines.as_slice() {
        [] => writeln!(out, "      {name:<8}  (empty)").ok(),
        [line] => writeln!(out, "      {name:<8}  {}", cut(line)).ok(),
        lines => {
            writeln!(out, "      {name}").ok();
            for line in &lines[..lines.len().min(LINES)] {
                writeln!(out, "        {}", cut(line)).ok();
            }
            let rest = lines.len().saturating_sub(LINES);
            if rest > 0 { writeln!(out, "        … {}", plural(rest, "line more")).ok() } else { None }
        }
    };
}

fn one_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// Cuts a line, and replaces control characters, which could affect the terminal.
fn cut(line: &str) -> String {
    let mut out: String =
        line.chars().take(WIDTH).map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c }).collect();
    if line.chars().nth(WIDTH).is_some() {
        out.push('…');
    }
    out
}

fn plural(n: usize, what: &str) -> String {
    match (n, what.split_once(' ')) {
        (1, _) => format!("1 {what}"),
        (_, Some((noun, rest))) => format!("{n} {noun}s {rest}"),
        (_, None) => format!("{n} {what}s"),
    }
}

pub(super) fn brief(time: Duration) -> String {
    let time = time.as_secs_f64();
    if time < 1.0 {
        format!("{time:.2}s")
    } else if time < 60.0 {
        format!("{time:.1}s")
    } else {
        duration::format(Duration::from_secs(time.round() as u64))
    }
}

/// A pattern that matches exactly this text; `-` needs no escape outside brackets.
fn literal(text: &str) -> String {
    regex::escape(text).replace("\\-", "-")
}
