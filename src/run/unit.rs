//! Executes single actions: whether an action may run, its values, its timeout, its nested steps, and what is reported of it.

use std::{
    collections::HashMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::{
    future::BoxFuture,
    stream::{self, StreamExt},
};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::{
    emit::{self, TaskEvents},
    expectation,
    fill::{Fault, Scope, how},
    restore,
};
use crate::{
    event::{ActionReport, EventKind, Outcome, TokenUsage},
    extension::Extensions,
    hir::{Arg, ArgKind, BlockRole, Def},
    host::{Host, Leftover, Snapshot},
    journal::TaskPast,
    plan::{Action, ActionIx, ActionKind, Block, Judge, LEAST_CLEANUP, Plan, PlanPhase, StepAction, mutant},
    results::NOT_WITHIN,
    signature::{Control, Effects},
    source::Span,
    step::{Context, Done, TaskState, Tools, run_of},
    ty::duration,
};

/// How long after its timeout or its cancellation a step that does not stop is abandoned.
const PATIENCE: Duration = Duration::from_secs(15);
/// The timeout of a step for which neither the author nor the signature sets one.
const NO_LIMIT: Duration = Duration::from_secs(365 * 24 * 3600);

/// What the actions of one run of a task share.
pub(super) struct Unit<'a> {
    pub host: &'a dyn Host,
    pub plan: &'a Plan,
    pub events: &'a TaskEvents<'a>,
    pub tools: &'a dyn Tools,
    pub extensions: Extensions<'a>,
    pub judge: Option<&'a Judge>,
    /// Receives what a judge has used so far, and the value it received before.
    pub judged: &'a (dyn Fn(TokenUsage, TokenUsage) + Send + Sync),
    pub env: Vec<(String, String)>,
    /// The copies that scripts are run from.
    pub snapshot: Option<Snapshot>,
    /// The state that scripts receive.
    pub state: Mutex<TaskState>,
    /// Cancelled when a signal is repeated; the first signal does not stop cleanup.
    pub force: &'a CancellationToken,
    pub leftovers: Mutex<Vec<Leftover>>,
    /// What the agent left in the background.
    pub agent_leftover: tokio::sync::Mutex<AgentLeftover>,
    /// Whether the task's cleanup is pending.
    pub pending: AtomicBool,
    pub cleanup_failed: AtomicBool,
    /// In a recovery: what the journal contains about this run of the task.
    pub past: Option<&'a TaskPast>,
    /// Cleanup steps that ended, with the reason if they are still pending.
    pub ended: Mutex<HashMap<String, Option<String>>>,
}

/// What an agent left in the background. It is suspended while judges are queried: otherwise it could answer in their place.
#[derive(Default)]
pub(super) struct AgentLeftover {
    pub left: Option<Leftover>,
    /// How many judges are being queried.
    asked: usize,
}

/// The limits and the phase of an action.
#[derive(Clone)]
pub(super) struct Limits {
    /// On the host's clock.
    pub deadline: Duration,
    pub cancel: CancellationToken,
    pub phase: PlanPhase,
}

/// How a step or a sequence of steps ended.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    pub outcome: Outcome,
    pub message: String,
    pub comparisons: u32,
}

impl Ended {
    pub fn passed() -> Self {
        Self { outcome: Outcome::Passed, message: String::new(), comparisons: 0 }
    }

    fn new(outcome: Outcome, message: impl Into<String>) -> Self {
        Self { outcome, message: message.into(), comparisons: 0 }
    }

    pub fn of(report: &ActionReport) -> Self {
        Self { outcome: report.outcome, message: report.message.clone(), comparisons: report.comparisons }
    }

    /// The worse of two outcomes, with the comparisons of both; the first if they are equal.
    fn and(self, other: Self) -> Self {
        let comparisons = self.comparisons.saturating_add(other.comparisons);
        let graver = if gravity(other.outcome) > gravity(self.outcome) { other } else { self };
        Self { comparisons, ..graver }
    }
}

fn gravity(outcome: Outcome) -> u8 {
    match outcome {
        Outcome::Passed => 0,
        Outcome::Skipped => 1,
        Outcome::Failed => 2,
        Outcome::Broken => 3,
        Outcome::Cancelled => 4,
    }
}

impl<'a> Unit<'a> {
    /// Runs one step and everything inside it. `id` is its id with rounds and attempts.
    pub fn step<'f>(
        &'f self,
        ix: ActionIx,
        id: String,
        scope: &'f mut Scope<'a>,
        limits: &'f Limits,
    ) -> BoxFuture<'f, Ended>
    where
        'a: 'f,
    {
        Box::pin(async move {
            let action = self.plan.action(ix);
            let ActionKind::Step(step) = &action.kind else {
                return Ended::new(Outcome::Broken, "this is not a step");
            };
            if let Some(report) = self.past.and_then(|past| past.completed(&id)) {
                match (&step.id, report.outcome) {
                    (Some(id), Outcome::Passed) => scope.set_passed(id, restore::outputs(report)),
                    (_, outcome) => self.bind_failure(ix, scope, outcome),
                }
                return Ended::of(report);
            }
            if let Some(end) = self.hindrance(step, scope, limits) {
                self.bind_failure(ix, scope, end.outcome);
                self.skip_inside(ix, &id);
                return self.report(&id, ActionReport::new(end.outcome, end.message));
            }
            if step.op.signature.effects != Effects::None {
                self.plan_cleanup(&id);
            }
            self.events.emit(EventKind::ActionStarted { action: id.clone() });
            let started = self.host.elapsed();
            if step.op.signature.effects != Effects::None {
                self.events.emitter.durable().await;
                if limits.cancel.is_cancelled() {
                    self.bind_failure(ix, scope, Outcome::Cancelled);
                    self.skip_inside(ix, &id);
                    return self.report(&id, ActionReport::new(Outcome::Cancelled, "the run was cancelled"));
                }
            }
            let (mut report, bound) = match step.op.signature.control {
                Control::Leaf => self.leaf(action, step, scope, limits).await,
                control => {
                    let (end, bound) = self.composite(control, ix, step, &id, scope, limits).await;
                    let report = ActionReport::new(end.outcome, end.message);
                    (ActionReport { comparisons: end.comparisons, ..report }, bound)
                }
            };
            report.duration = self.host.elapsed().saturating_sub(started);
            report.retried = self.past.is_some_and(|past| past.begun.contains(&id));
            if report.outcome == Outcome::Passed {
                if let (Some(id), Some(outputs)) = (&step.id, bound)
                    && (self.plan.task.dialect == crate::hir::Dialect::Portable || !outputs.is_empty())
                {
                    report.outputs.clone_from(&outputs);
                    scope.set_passed(id, outputs);
                }
            } else {
                self.bind_failure(ix, scope, report.outcome);
            }
            self.skip_inside(ix, &id);
            self.report(&id, report)
        })
    }

    /// Skips the steps inside a step that ended, unless one of its rounds or branches has reached them. A step that one round of an
    /// outer loop did not reach may be reached in another round.
    fn skip_inside(&self, ix: ActionIx, id: &str) {
        if !id.contains(['[', '#']) && self.past.is_none() {
            self.events.skip_inside(self.plan, ix, "not reached");
        }
    }

    /// Runs steps one after another, as inside a group, a round or a branch; a step that fails or breaks ends the sequence.
    async fn sequence(&self, inside: &Inside<'_>, scope: &mut Scope<'a>, limits: &Limits) -> Ended {
        let mut end = Ended::passed();
        let mut agenda = self.plan.agenda(inside.block.holder);
        while let Some(ix) = agenda.pop() {
            let step = self.step(ix, inside.id_of(self.plan.action(ix)), scope, limits).await;
            agenda.done(ix);
            let goes_on = self.plan.action(ix).continue_on_error;
            let stops = match step.outcome {
                Outcome::Passed | Outcome::Skipped => false,
                Outcome::Failed | Outcome::Broken => !goes_on,
                Outcome::Cancelled => true,
            };
            let in_setup = limits.phase == PlanPhase::Setup || inside.block.role == BlockRole::Setup;
            // Cancellation counts even for a step that is allowed to fail.
            let forgiven = goes_on && !stops && in_setup;
            if !forgiven {
                end = end.and(step);
            }
            if stops {
                break;
            }
        }
        end
    }

    /// Why a step is not even started.
    fn hindrance(&self, step: &StepAction, scope: &Scope<'a>, limits: &Limits) -> Option<Ended> {
        if limits.cancel.is_cancelled() {
            return Some(Ended::new(Outcome::Cancelled, "the run was cancelled"));
        }
        if let Some(fault) = scope.missing_step(step) {
            return Some(Ended::new(Outcome::Skipped, fault.message()));
        }
        self.left(limits).is_zero().then(|| Ended::new(Outcome::Skipped, "no time was left"))
    }

    /// Marks the task's cleanup as pending, because the world is about to change.
    pub fn plan_cleanup(&self, id: &str) {
        let mut cleanups = self.plan.members(PlanPhase::Cleanup).peekable();
        if cleanups.peek().is_some() && !self.pending.swap(true, Ordering::Relaxed) {
            // What undoes a mutant is not part of the task, and a recovery reads the task again.
            let ids = cleanups.map(|ix| self.plan.action(ix).id.clone());
            let cleanups = ids.filter(|id| !id.starts_with(mutant::UNDO)).collect();
            self.events.emit(EventKind::CleanupPending { action: id.to_owned(), cleanups });
        }
    }

    /// Ends a trial: whatever its cleanup could not clean up was never created, or is reported by `gevals prove`. Nothing stays
    /// pending.
    pub fn settle(&self) {
        let ended = std::mem::take(&mut *self.ended.lock().unwrap_or_else(PoisonError::into_inner));
        let missed = ended.into_iter().filter(|(id, why)| why.is_some() && !id.starts_with(mutant::UNDO));
        for (cleanup, _) in missed {
            self.events.emit(EventKind::CleanupDone { cleanup });
        }
    }

    async fn leaf(
        &self,
        action: &Action,
        step: &StepAction,
        scope: &Scope<'a>,
        limits: &Limits,
    ) -> (ActionReport, Option<Map<String, Value>>) {
        let args = match fill_args(step, scope, &[]) {
            Ok(args) => args,
            Err(fault) => {
                let filled = scope.filled(step, &self.env, &Map::new());
                return (ActionReport { filled, ..broken(&fault) }, None);
            }
        };
        self.events.learn_secrets(&args);
        let expect = |locals: &Map<String, Value>| match &step.expect {
            Some(arg) => {
                let filled = expectation::fill(&scope.with_locals(locals), arg, self.plan.task.dialect);
                filled.map(Some).map_err(|fault| fault.message())
            }
            None => Ok(None),
        };
        let own = action.timeout.or(step.op.signature.timeout).unwrap_or(NO_LIMIT);
        let timeout = own.min(self.left(limits));
        let state = self.task_state(scope);
        let last = Mutex::new(TokenUsage::default());
        let judged = |now| {
            let before = std::mem::replace(&mut *last.lock().unwrap_or_else(PoisonError::into_inner), now);
            (self.judged)(now, before);
        };
        let context = Context {
            host: self.host,
            step,
            dialect: self.plan.task.dialect,
            dir: self.plan.task.folder(),
            snapshot: self.snapshot.as_ref(),
            env: &self.env,
            args,
            expect: &expect,
            timeout,
            cancel: &limits.cancel,
            task: &state,
            tools: self.tools,
            extensions: &self.extensions,
            phase: limits.phase.name(),
            judge: self.judge,
            judged: &judged,
            secret: &|capability| self.events.keep_secret(capability),
        };
        let run = run_of(&step.op.kind, self.plan.task.dialect);
        if step.op.signature.judges {
            self.hold_agent().await;
        }
        let mut done = tokio::select! {
            done = run(context) => done,
            () = self.host.sleep(timeout.saturating_add(PATIENCE)) => {
                Done::new(Outcome::Broken, format!("it ran longer than {} and was abandoned", duration::format(timeout)))
            }
            () = self.cancelled_long_ago(&limits.cancel) => Done::new(Outcome::Cancelled, "it did not stop when asked to"),
        };
        if step.op.signature.judges {
            self.let_agent_go().await;
        }
        self.snapshot.iter().for_each(Snapshot::settle);
        self.keep(done.leftover.take());
        let mut report = ActionReport::new(done.outcome, done.message);
        report.differences = done.differences;
        report.comparisons = done.comparisons;
        for difference in &mut report.differences {
            let place = step.expect.as_ref().map(|expect| place(expect, &difference.subject));
            difference.at = difference.at.or(place.filter(|p| p.file == action.span.file).map(|p| (p.start, p.end)));
        }
        report.exit = done.exit;
        report.stdout = done.stdout;
        report.stderr = done.stderr;
        report.answer = answer(&done.locals);
        report.judgement = done.judgement;
        if report.outcome != Outcome::Passed {
            report.filled = scope.filled(step, &self.env, &done.locals);
            return (report, None);
        }
        match outputs(step, scope, &done.locals) {
            Ok(outputs) => (report, Some(outputs)),
            Err(why) => {
                report.outcome = Outcome::Broken;
                report.message = why;
                report.filled = scope.filled(step, &self.env, &done.locals);
                (report, None)
            }
        }
    }

    /// Keeps a background process until the task's cleanup is over.
    pub fn keep(&self, leftover: Option<Leftover>) {
        self.leftovers.lock().unwrap_or_else(PoisonError::into_inner).extend(leftover);
    }

    /// Suspends the agent before a judge is queried. The lock is held until the agent is suspended, so that no other judge is
    /// queried earlier.
    async fn hold_agent(&self) {
        let mut agent = self.agent_leftover.lock().await;
        agent.asked += 1;
        if let (1, Some(left)) = (agent.asked, &mut agent.left) {
            self.host.hold(left, true).await;
        }
    }

    /// Resumes the agent once no judge is being queried.
    async fn let_agent_go(&self) {
        let mut agent = self.agent_leftover.lock().await;
        agent.asked -= 1;
        if let (0, Some(left)) = (agent.asked, &mut agent.left) {
            self.host.hold(left, false).await;
        }
    }

    /// Takes everything that runs in the background; the caller ends it or lets it live.
    pub async fn leftovers(&self) -> Vec<Leftover> {
        let agent = self.agent_leftover.lock().await.left.take();
        let mut all = std::mem::take(&mut *self.leftovers.lock().unwrap_or_else(PoisonError::into_inner));
        all.extend(agent);
        all
    }

    /// Ends what the task's steps and its agent left in the background.
    pub async fn reap(&self) {
        self.extensions.close().await;
        for leftover in self.leftovers().await {
            self.host.reap(leftover).await;
        }
    }

    async fn cancelled_long_ago(&self, cancel: &CancellationToken) {
        cancel.cancelled().await;
        self.host.sleep(PATIENCE).await;
    }

    async fn composite(
        &self,
        control: Control,
        ix: ActionIx,
        step: &StepAction,
        id: &str,
        scope: &mut Scope<'a>,
        limits: &Limits,
    ) -> (Ended, Option<Map<String, Value>>) {
        let action = self.plan.action(ix);
        // `in` is filled separately: text that is a JSON list is accepted.
        let args = match fill_args(step, scope, &["in"]) {
            Ok(args) => args,
            Err(fault) => return (Ended::new(Outcome::Broken, fault.message()), None),
        };
        let own = action.timeout.or(step.op.signature.timeout).unwrap_or(NO_LIMIT);
        let deadline = limits.deadline.min(self.host.elapsed().saturating_add(own));
        let inner = Limits { deadline, ..limits.clone() };
        let nested = Nested { ix, action, id };
        match control {
            Control::Leaf => (Ended::passed(), None),
            Control::Any => (self.any_of(&nested, scope, &inner).await, None),
            Control::Scope => (self.group(&nested, scope, &inner).await, None),
            Control::Each => match self.each(&nested, step, &args, scope, &inner).await {
                Ok((end, rounds)) => (end, Some(Map::from_iter([("rounds".to_owned(), Value::Array(rounds))]))),
                Err(end) => (end, None),
            },
            Control::Eventually => (self.eventually(&nested, &args, own, scope, &inner).await, None),
            Control::Consistently => (self.consistently(&nested, &args, scope, &inner).await, None),
        }
    }

    async fn any_of(&self, nested: &Nested<'_>, scope: &mut Scope<'a>, limits: &Limits) -> Ended {
        let mut ends: Vec<Ended> = Vec::new();
        let mut tried = scope.clone();
        for block in self.plan.blocks(nested.ix) {
            let mut branch = scope.clone();
            let end = self.sequence(&nested.inside(block, ""), &mut branch, limits).await;
            match end.outcome {
                Outcome::Passed => {
                    scope.adopt(branch);
                    return end;
                }
                Outcome::Cancelled => return end,
                _ => {
                    tried = branch;
                    ends.push(end);
                }
            }
        }
        scope.adopt(tried);
        let outcome = [Outcome::Failed, Outcome::Broken, Outcome::Skipped];
        let outcome = outcome.into_iter().find(|o| ends.iter().any(|e| e.outcome == *o)).unwrap_or(Outcome::Broken);
        let whys: Vec<_> = ends.iter().enumerate().map(|(i, end)| format!("{i}: {}", end.brief())).collect();
        Ended::new(outcome, format!("no branch passed: {}", whys.join("; ")))
    }

    async fn group(&self, nested: &Nested<'_>, scope: &mut Scope<'a>, limits: &Limits) -> Ended {
        let blocks = |role| self.plan.blocks(nested.ix).filter(move |b| b.role == role);
        if blocks(BlockRole::Cleanup).next().is_some() && !scope.vars().is_empty() {
            self.events.note_vars(nested.id, scope.vars());
        }
        for block in blocks(BlockRole::Cleanup) {
            let inside = nested.inside(block, "");
            let cleanups = self.plan.members(block.holder).map(|ix| inside.id_of(self.plan.action(ix))).collect();
            self.events.emit(EventKind::CleanupPending { action: nested.id.to_owned(), cleanups });
        }
        let mut end = Ended::passed();
        for role in [BlockRole::Setup, BlockRole::Steps] {
            for block in blocks(role) {
                if end.outcome == Outcome::Passed {
                    end = self.sequence(&nested.inside(block, ""), scope, limits).await;
                }
                self.plan.members(block.holder).for_each(|ix| self.bind_unreached(ix, scope));
            }
        }
        for block in blocks(BlockRole::Cleanup) {
            self.cleanup(&nested.inside(block, ""), scope).await;
        }
        end
    }

    /// Runs every cleanup step, whatever the outcome of the one before, within the cleanup's own timeout; each gets at least
    /// [`LEAST_CLEANUP`].
    pub async fn cleanup(&self, inside: &Inside<'_>, scope: &mut Scope<'a>) {
        let deadline = self.host.elapsed().saturating_add(self.plan.cleanup_timeout);
        let limits = Limits { deadline, cancel: self.force.clone(), phase: PlanPhase::Cleanup };
        let least = LEAST_CLEANUP.min(self.plan.cleanup_timeout);
        let mut agenda = self.plan.agenda(inside.block.holder);
        while let Some(ix) = agenda.pop() {
            let id = inside.id_of(self.plan.action(ix));
            // One that hangs takes no time from the others.
            let deadline = limits.deadline.max(self.host.elapsed().saturating_add(least));
            let limits = Limits { deadline, cancel: limits.cancel.clone(), phase: limits.phase };
            let end = self.step(ix, id.clone(), scope, &limits).await;
            agenda.done(ix);
            let in_time = !self.left(&limits).is_zero();
            let (passed, skipped) = (end.outcome == Outcome::Passed, end.outcome == Outcome::Skipped);
            // Skipped because an output is missing: nothing was created, so there is nothing to clean up.
            if !(passed || skipped && in_time) {
                self.cleanup_failed.store(true, Ordering::Relaxed);
            }
            // A step that did not pass stays pending, so that a recovery tries again.
            let was_done = self.past.is_some_and(|past| past.done.contains(&id));
            // A damaged journal may lack an output of something that was created nevertheless.
            let in_doubt = skipped && self.past.is_some_and(|past| past.damaged);
            let done = passed || skipped && in_time && !in_doubt;
            let why = (!done && !was_done).then(|| match in_doubt {
                true => format!("{}, but the journal is damaged: it may have been made", end.brief()),
                false => end.brief(),
            });
            self.ended.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), why);
            if done && !was_done {
                self.events.emit(EventKind::CleanupDone { cleanup: id });
            }
        }
    }

    async fn each(
        &self,
        nested: &Nested<'_>,
        step: &StepAction,
        args: &Value,
        scope: &Scope<'a>,
        limits: &Limits,
    ) -> Result<(Ended, Vec<Value>), Ended> {
        let broken = |why: String| Ended::new(Outcome::Broken, why);
        let values = match step.args.iter().find(|(name, _)| name.value == "in") {
            Some((_, arg)) => scope.fill(arg).map_err(|fault| broken(fault.message()))?,
            None => Value::Null,
        };
        let values = match values {
            Value::Array(values) => values,
            Value::String(text) => match serde_json::from_str(&text) {
                Ok(Value::Array(values)) => values,
                _ => return Err(broken(format!("`in` is text that is not a JSON list: {}", shortened(&text)))),
            },
            other => return Err(broken(format!("`in` is {}, not a list", crate::ty::Type::of(&other)))),
        };
        if values.is_empty() && args.get("allowEmpty") != Some(&Value::Bool(true)) {
            return Err(Ended::new(Outcome::Failed, "the list is empty, so nothing was checked"));
        }
        let parallel = args.get("parallel").and_then(Value::as_u64).unwrap_or(1).max(1) as usize;
        let var = step.var.clone().or_else(|| args.get("var")?.as_str().map(str::to_owned)).unwrap_or_default();
        let bad = AtomicBool::new(false);
        let stops_early = limits.phase == PlanPhase::Setup;
        let rounds = values.into_iter().enumerate().map(|(i, value)| {
            let (var, bad) = (&var, &bad);
            async move {
                if stops_early && bad.load(Ordering::Relaxed) || limits.cancel.is_cancelled() {
                    return (Ended::new(Outcome::Skipped, "an earlier round did not pass"), Value::Null);
                }
                let mut round = scope.clone();
                round.set_var(var, value);
                let mut end = Ended::passed();
                for block in self.plan.blocks(nested.ix) {
                    let inside = nested.inside(block, &format!("[{i}]"));
                    end = end.and(self.sequence(&inside, &mut round, limits).await);
                }
                if end.outcome != Outcome::Passed {
                    bad.store(true, Ordering::Relaxed);
                    end.message = format!("round {i}: {}", end.message);
                }
                (end, Value::Object(round.outputs_beyond(scope)))
            }
        });
        let rounds: Vec<_> = stream::iter(rounds).buffered(parallel).collect().await;
        let (ends, outputs): (Vec<_>, Vec<_>) = rounds.into_iter().unzip();
        let bad = ends.iter().filter(|e| e.outcome != Outcome::Passed).count();
        let all = ends.len();
        let mut end = ends.into_iter().fold(Ended::passed(), Ended::and);
        if limits.cancel.is_cancelled() {
            end.outcome = Outcome::Cancelled;
        } else if bad > 1 {
            end.message = format!("{bad} of {all} rounds did not pass; {}", end.message);
        }
        Ok((end, outputs))
    }

    async fn eventually(
        &self,
        nested: &Nested<'_>,
        args: &Value,
        own: Duration,
        scope: &mut Scope<'a>,
        limits: &Limits,
    ) -> Ended {
        let interval = match parsed(args, "interval", Some(Duration::from_secs(1))) {
            Ok(interval) => interval,
            Err(why) => return Ended::new(Outcome::Broken, why),
        };
        let (mut failed, mut last, mut rounds) = (false, None, 0);
        for attempt in 1.. {
            rounds = attempt;
            let mut round = scope.clone();
            let end = self.attempt(nested, attempt, &mut round, limits).await;
            let over = self.left(limits).is_zero();
            match end.outcome {
                Outcome::Passed => {
                    scope.adopt(round);
                    return end;
                }
                Outcome::Cancelled => return end,
                Outcome::Failed => failed = true,
                Outcome::Broken | Outcome::Skipped => {}
            }
            // A round that the timeout cut off says less than the one before.
            if last.is_none() || !over {
                last = Some((attempt, end));
            }
            if !over {
                self.pause(interval, limits).await;
            }
            if self.left(limits).is_zero() {
                scope.adopt(round);
                break;
            }
        }
        let outcome = if failed { Outcome::Failed } else { Outcome::Broken };
        let (attempt, why) = last.map_or((0, String::new()), |(attempt, end)| (attempt, end.message));
        let within = duration::format(own);
        let rounds = if rounds == 1 { "1 round".to_owned() } else { format!("{rounds} rounds") };
        Ended::new(outcome, format!("{NOT_WITHIN}{within}, {rounds}; round {attempt}: {why}"))
    }

    async fn consistently(&self, nested: &Nested<'_>, args: &Value, scope: &mut Scope<'a>, limits: &Limits) -> Ended {
        let times = parsed(args, "duration", None)
            .and_then(|whole| Ok((whole, parsed(args, "interval", Some(Duration::from_secs(1)))?)));
        let (whole, interval) = match times {
            Ok(times) => times,
            Err(why) => return Ended::new(Outcome::Broken, why),
        };
        let until = self.host.elapsed().saturating_add(whole);
        for attempt in 1.. {
            let mut round = scope.clone();
            let mut end = self.attempt(nested, attempt, &mut round, limits).await;
            let now = self.host.elapsed();
            if end.outcome != Outcome::Passed || now >= until {
                if end.outcome != Outcome::Passed {
                    end.message = format!("round {attempt}: {}", end.message);
                }
                scope.adopt(round);
                return end;
            }
            self.pause(interval.min(until.saturating_sub(now)), limits).await;
            if self.left(limits).is_zero() {
                break;
            }
        }
        Ended::new(Outcome::Broken, format!("the time ran out before {} had passed", duration::format(whole)))
    }

    async fn attempt(&self, nested: &Nested<'_>, attempt: u32, scope: &mut Scope<'a>, limits: &Limits) -> Ended {
        let mut end = Ended::passed();
        for block in self.plan.blocks(nested.ix) {
            let inside = nested.inside(block, &format!("#{attempt}"));
            end = end.and(self.sequence(&inside, scope, limits).await);
        }
        end
    }

    async fn pause(&self, time: Duration, limits: &Limits) {
        let time = time.min(self.left(limits));
        tokio::select! {
            () = self.host.sleep(time) => {}
            () = limits.cancel.cancelled() => {}
        }
    }

    pub fn left(&self, limits: &Limits) -> Duration {
        limits.deadline.saturating_sub(self.host.elapsed())
    }

    /// The state that scripts receive, with the outputs so far.
    fn task_state(&self, scope: &Scope<'a>) -> TaskState {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner).clone();
        state.steps = scope.steps();
        state
    }

    pub fn report(&self, id: &str, report: ActionReport) -> Ended {
        let end = Ended::of(&report);
        self.events.emit(EventKind::ActionFinished { action: id.to_owned(), report });
        end
    }

    /// Marks a step, and the steps inside it that have no result, as not passed: holes that refer to them have no value.
    fn bind_failure(&self, ix: ActionIx, scope: &mut Scope<'a>, outcome: Outcome) {
        let action = self.plan.action(ix);
        if let ActionKind::Step(StepAction { id: Some(id), .. }) = &action.kind {
            scope.set_not_passed(id, outcome);
        }
        self.plan.nested(ix).for_each(|ix| self.bind_unreached(ix, scope));
    }

    /// Marks a step, and the steps inside it, as skipped if they have no result.
    pub fn bind_unreached(&self, ix: ActionIx, scope: &mut Scope<'a>) {
        let action = self.plan.action(ix);
        if let ActionKind::Step(StepAction { id: Some(id), .. }) = &action.kind
            && !scope.knows(id)
        {
            scope.set_not_passed(id, Outcome::Skipped);
        }
        self.plan.nested(ix).for_each(|ix| self.bind_unreached(ix, scope));
    }

    /// Applies `bind_unreached` to every step of a phase.
    pub fn bind_phase(&self, phase: PlanPhase, scope: &mut Scope<'a>) {
        self.plan.members(phase).for_each(|ix| self.bind_unreached(ix, scope));
    }

    /// Applies `bind_unreached` to every step that a cleanup may refer to.
    pub fn bind_work(&self, scope: &mut Scope<'a>) {
        self.bind_phase(PlanPhase::Setup, scope);
        self.bind_phase(PlanPhase::Verify, scope);
    }
}

impl Ended {
    /// The outcome and its message in one line.
    pub fn brief(&self) -> String {
        match self.message.lines().next() {
            None | Some("") => how(self.outcome).to_owned(),
            Some(line) => format!("{} ({line})", how(self.outcome)),
        }
    }
}

/// A step with nested steps that is running.
struct Nested<'n> {
    ix: ActionIx,
    action: &'n Action,
    id: &'n str,
}

/// Nested steps, and the prefix of their executed ids that replaces their parent's planned id.
pub(super) struct Inside<'n> {
    pub block: Block,
    pub planned: &'n str,
    pub executed: String,
}

impl<'n> Nested<'n> {
    fn inside(&self, block: Block, suffix: &str) -> Inside<'n> {
        Inside { block, planned: &self.action.id, executed: format!("{}{suffix}", self.id) }
    }
}

impl Inside<'_> {
    /// The cleanup phase, treated as a block of the task.
    pub fn cleanup_of_task() -> Self {
        let block = Block { role: BlockRole::Cleanup, holder: PlanPhase::Cleanup.into() };
        Self { block, planned: "", executed: String::new() }
    }

    fn id_of(&self, action: &Action) -> String {
        match action.id.strip_prefix(self.planned) {
            Some(rest) if !self.planned.is_empty() => format!("{}{rest}", self.executed),
            _ => action.id.clone(),
        }
    }
}

fn fill_args(step: &StepAction, scope: &Scope<'_>, except: &[&str]) -> Result<Value, Fault> {
    let wanted = step.args.iter().filter(|(name, _)| !except.contains(&name.value.as_str()));
    let args: Result<Map<_, _>, Fault> = wanted.map(|(name, arg)| Ok((name.value.clone(), scope.fill(arg)?))).collect();
    args.map(Value::Object)
}

/// Returns where a subject such as `stdout` or `body.json $.status` is written in `expect`.
fn place(expect: &Arg<Def>, subject: &str) -> Span {
    let (keys, path) = subject.split_once(' ').unwrap_or((subject, ""));
    let (mut at, mut span) = (expect, expect.span);
    for key in keys.split('.') {
        let Some(inner) = at.get(key) else { break };
        (at, span) = (inner, inner.span);
    }
    let items = match &at.kind {
        ArgKind::List(items) => items.as_slice(),
        _ => &[],
    };
    let item = items.iter().find(|item| item.get("path").and_then(Arg::as_literal) == Some(path));
    item.map_or(span, |item| item.span)
}

/// The outputs that a step that passed offers to later steps.
fn outputs(step: &StepAction, scope: &Scope<'_>, locals: &Map<String, Value>) -> Result<Map<String, Value>, String> {
    if let Some(listed) = &step.outputs {
        let filler = scope.with_locals(locals);
        let values = listed.iter().map(|(name, arg)| {
            let value = filler.fill(arg).map_err(|f| format!("output `{}`: {}", name.value, f.message()))?;
            Ok((name.value.clone(), value))
        });
        return values.collect();
    }
    let mut outputs = Map::new();
    for (name, value) in locals {
        match value {
            Value::Object(fields) if name == "result" => outputs.extend(fields.clone()),
            _ => {
                outputs.insert(name.clone(), value.clone());
            }
        }
    }
    Ok(outputs)
}

/// The answer that a step received, for people: the body of a response, the texts of a tool's content, or otherwise the values
/// themselves. What a program printed is kept separately.
fn answer(locals: &Map<String, Value>) -> String {
    let text = match (locals.get("response"), locals.get("content")) {
        (Some(response), _) => {
            let body = response.get("body").and_then(Value::as_str).unwrap_or_default();
            format!("status {}\n{body}", response.get("status").unwrap_or(&Value::Null))
        }
        (None, Some(Value::Array(content))) => {
            let part =
                |part: &Value| part.get("text").and_then(Value::as_str).map_or_else(|| part.to_string(), str::to_owned);
            content.iter().map(part).collect::<Vec<_>>().join("\n")
        }
        _ => {
            let printed = |name: &str| matches!(name, "stdout" | "stderr" | "exitCode");
            let rest: Map<String, Value> = locals
                .iter()
                .filter(|(name, _)| !printed(name))
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect();
            if rest.is_empty() { String::new() } else { Value::Object(rest).to_string() }
        }
    };
    emit::head(&text, emit::ANSWER).to_owned()
}

fn broken(fault: &Fault) -> ActionReport {
    ActionReport::new(Outcome::Broken, fault.message())
}

fn parsed(args: &Value, key: &str, default: Option<Duration>) -> Result<Duration, String> {
    match (args.get(key).and_then(Value::as_str), default) {
        (Some(text), _) => duration::parse(text).map_err(|fault| format!("`{key}: {text}` is not a duration: {fault}")),
        (None, Some(default)) => Ok(default),
        (None, None) => Err(format!("`{key}` is missing")),
    }
}

fn shortened(text: &str) -> String {
    let head: String = text.chars().take(80).collect();
    if head.len() < text.len() { format!("`{head}…`") } else { format!("`{head}`") }
}
