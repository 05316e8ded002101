//! One run of one task, from its setup to its verdict (`decisions.md` §5).

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::stream::{FuturesUnordered, StreamExt};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    Keep, Only, RunOptions, agent,
    assert::{self, Made, Seen},
    clusters::{Clusters, Share},
    emit::{self, Emitter, TaskEvents},
    fill::{Scope, TaskValues},
    intact,
    inventory::Left,
    needs::Lacks,
    restore,
    servers::{Running, Servers},
    unit::{Ended, Inside, Limits, Unit},
    usage::{Ledger, Meter, Over},
    verdict::{Facts, Judged, verdict},
};
use crate::{
    agent::Drawn,
    event::{
        ActionReport, AgentStep, CallReport, Difference, EventKind, Outcome, Remark, RemarkKind, TaskRun, Verdict,
        recording,
    },
    extension::{Extensions, Started},
    hir::{CallKind, CallStatus, Def, Dialect, Part, Template},
    host::Host,
    journal::{End, Entry, TaskPast, Values},
    mcp::{self, Allowance, CallOutcome, CallRecord, Recorder, Recording},
    plan::{self, ActionIx, ActionKind, Agenda, AgentAction, AgentKind, Judge, Plan, PlanPhase},
    prices::Price,
    sandbox::agent::Jail,
    secrets::is_secret_name,
    step::{AgentState, TaskState},
    ty::duration,
};

/// What all runs of all tasks share.
pub(super) struct World<'a> {
    pub host: &'a dyn Host,
    pub emitter: &'a Emitter<'a>,
    pub servers: &'a Servers<'a>,
    /// As configured in the eval.
    pub extensions: &'a plan::Extensions,
    /// The control planes that the eval requests.
    pub clusters: Option<&'a Clusters<'a>>,
    /// Cancelled by the first signal: whatever runs is stopped and cleaned up.
    pub cancel: CancellationToken,
    /// Cancelled when the signal is repeated: cleanup is stopped as well.
    pub force: CancellationToken,
    /// Why no task can run, such as a server that does not start.
    pub unstarted: OnceLock<String>,
    /// What tasks lack that are not run while others are.
    pub lacks: OnceLock<Lacks>,
    /// Why the first agent that could not be started was not started.
    pub agent_unstarted: OnceLock<String>,
    /// Why no further task is started (`--fail-fast`).
    pub stopped: OnceLock<String>,
    pub options: &'a RunOptions,
    /// Isolates agents from the machine.
    pub jail: Option<Jail>,
    /// The worlds that were kept.
    pub kept: Mutex<Vec<KeptWorld>>,
    pub recording: Option<&'a Recording>,
    pub judge: Option<&'a Judge>,
    pub ledger: &'a Ledger,
    /// The prices of the model under test and of the judge's model.
    pub price: Option<Price>,
    pub judge_price: Option<Price>,
    /// The limit of the whole run that was exceeded.
    pub over: OnceLock<String>,
}

/// A world that was kept, and how to enter it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeptWorld {
    pub task: TaskRun,
    pub dir: PathBuf,
    /// `spec.env`, and the variables of its control plane, with secrets masked.
    pub env: Vec<(String, String)>,
    /// The number of its cleanup steps.
    pub cleanups: usize,
}

/// The outcome of a run of a task.
#[derive(Clone, PartialEq, Debug)]
pub struct TaskEnd {
    pub task: TaskRun,
    pub verdict: Verdict,
    /// The reason for the verdict, in one line; empty if the run passed.
    pub reason: String,
    pub cleanup_failed: bool,
    pub duration: Duration,
    /// What the run left behind in the world, if that was inspected.
    pub left: Vec<Left>,
}

impl TaskEnd {
    /// The outcome of an earlier run, from a journal.
    pub(super) fn earlier(task: TaskRun, end: &End) -> Self {
        let End { verdict, reason, duration, cleanup_failed } = end.clone();
        Self { task, verdict, reason, cleanup_failed, duration, left: Vec::new() }
    }
}

pub(super) async fn run(world: &World<'_>, plan: &Plan, digest: &str, task: TaskRun) -> TaskEnd {
    let started = world.host.elapsed();
    let events = TaskEvents::new(world.emitter, task.clone());
    let mut facts = Facts::default();
    let mut cleanup_failed = false;
    if world.cancel.is_cancelled() {
        facts.cancelled = Some(world.cut_short("the run was cancelled before its turn"));
    } else if let Some(why) = world.stopped.get() {
        facts.cancelled = Some(why.clone());
    } else {
        events.emit(EventKind::TaskStarted { plan_digest: digest.to_owned() });
        match share(world, plan, &task).await {
            Err(why) => facts.hindered = Some(why),
            Ok(share) => {
                cleanup_failed = placed(world, plan, &events, share.as_ref(), &mut facts).await;
                if let (Some(clusters), Some(share)) = (world.clusters, share) {
                    clusters.leave(share, facts.kept).await;
                }
            }
        }
    }
    let (verdict, reason) = verdict(&facts);
    let reason = world.emitter.vault.secrets().mask(&reason).into_owned();
    let why = match (&facts.only, facts.kept) {
        (Some(Only::Verify), _) => NOT_ASKED.to_owned(),
        (_, true) => "its world is kept".to_owned(),
        _ if reason.is_empty() => NOT_REACHED.to_owned(),
        _ => format!("{NOT_REACHED}: {reason}"),
    };
    events.skip_phases(plan, &PlanPhase::ALL, &why);
    for remark in remarks(world, plan, &facts, verdict) {
        events.emit(EventKind::Remarked { remark });
    }
    let duration = world.host.elapsed().saturating_sub(started);
    events.emit(EventKind::TaskFinished { verdict, reason: reason.clone(), duration, cleanup_failed });
    // A failure to flush is reported at the end of the run.
    let _ = world.recording.map(Recording::flush);
    TaskEnd { task, verdict, reason, cleanup_failed, duration, left: Vec::new() }
}

/// The share of a control plane for the run of the task, if the eval requests one.
async fn share(world: &World<'_>, plan: &Plan, task: &TaskRun) -> Result<Option<Share>, String> {
    let Some(clusters) = world.clusters.filter(|_| world.unstarted.get().is_none()) else { return Ok(None) };
    match world.options.worlds.get(&plan.task.name.value) {
        Some(past) => Ok(clusters.restored(past)),
        None => clusters.enter(task).await.map(Some),
    }
}

/// Runs the phases of a task, with its own servers if it must not share them. Returns whether a cleanup step failed.
async fn placed(
    world: &World<'_>,
    plan: &Plan,
    events: &TaskEvents<'_>,
    share: Option<&Share>,
    facts: &mut Facts,
) -> bool {
    let within = share.map(|share| share.host(world.host));
    let host: &dyn Host = within.as_ref().map_or(world.host, |within| within);
    let own = match world.clusters {
        Some(clusters) => match clusters.servers(host) {
            Ok(specs) => Some(world.servers.of(specs)),
            Err(why) => {
                facts.hindered = Some(why);
                return false;
            }
        },
        None => world.options.isolate.then(|| world.servers.another()),
    };
    let servers = own.as_ref().unwrap_or(world.servers);
    let cleanup_failed = match ready(world, servers, events.run.index).await {
        Err(_) if world.cancel.is_cancelled() => {
            facts.cancelled = Some(world.cut_short("the run was cancelled"));
            false
        }
        Err(why) => {
            facts.hindered = Some(why);
            false
        }
        Ok(running) => phases(world, plan, events, host, servers, &running, facts).await,
    };
    if let Some(own) = own {
        own.close().await;
    }
    cleanup_failed
}

/// Remarks that qualify the verdict.
fn remarks(world: &World<'_>, plan: &Plan, facts: &Facts, verdict: Verdict) -> Vec<Remark> {
    let mut remarks = Vec::new();
    let spoilt = facts.checks.iter().any(|check| check.outcome != Outcome::Passed);
    if facts.unused && (verdict == Verdict::Passed || facts.must_use && verdict == Verdict::Failed && !spoilt) {
        let message = "passed without testing anything: no call to a server under test succeeded".to_owned();
        remarks.push(Remark { kind: RemarkKind::ServerUnused, message });
    }
    if let (Verdict::Passed, Some(judge), true) = (verdict, world.judge, plan.rests_on_judge()) {
        let message = format!("passed only on the verdict of a judge, {}", judge.title());
        remarks.push(Remark { kind: RemarkKind::JudgedAlone, message });
    }
    if let Some(why) = &facts.cut {
        let message = format!("the agent stopped before it was done: {why}");
        remarks.push(Remark { kind: RemarkKind::AgentStopped, message });
    }
    let diverged = facts.diverged.iter().cloned();
    remarks.extend(diverged.map(|message| Remark { kind: RemarkKind::Diverged, message }));
    if let (Verdict::Passed, Some(judge), ActionKind::Agent(agent), true) =
        (verdict, world.judge, &plan.action(plan.agent).kind, plan.judgements() > 0)
        && agent.kind.is_same(&judge.kind)
    {
        let message = format!("the judge {} is the agent under test: it judged its own answer", judge.title());
        remarks.push(Remark { kind: RemarkKind::JudgedByItself, message });
    }
    remarks
}

/// Describes a divergence from a recording, in one line.
fn told(difference: &Difference) -> String {
    let Difference { subject, expected, actual, .. } = difference;
    format!("{subject} differs from the recording: {actual} instead of {expected}")
}

/// The random values that were used when the replayed calls were recorded.
fn replayed(host: &dyn Host, plan: &Plan, run: u32) -> Option<Values> {
    let Drawn { id, port } = crate::agent::drawn(host, plan.recording()?, &plan.task.name.value, run)?;
    Some(Values { id, port, ..Values::default() })
}

/// The reason for actions that were not reached.
const NOT_REACHED: &str = "not reached";
/// The reason for phases that `--phase` leaves out.
const NOT_ASKED: &str = "another phase was asked for";

/// Returns the running servers, or the reason why the task cannot run.
async fn ready(world: &World<'_>, servers: &Servers<'_>, index: usize) -> Result<Vec<Arc<Running>>, String> {
    match world.unstarted.get().cloned().or_else(|| world.lacks.get()?.of(index)) {
        Some(why) => Err(why),
        None => tokio::select! {
            servers = servers.all() => servers,
            () = world.cancel.cancelled() => Err("the run was cancelled".to_owned()),
        },
    }
}

/// Runs setup, agent, verification, assertions and cleanup. Returns whether a cleanup step failed.
async fn phases(
    world: &World<'_>,
    plan: &Plan,
    events: &TaskEvents<'_>,
    host: &dyn Host,
    tools: &Servers<'_>,
    servers: &[Arc<Running>],
    facts: &mut Facts,
) -> bool {
    let options = world.options;
    facts.only = options.only;
    let snapshot = match intact::changed(host, plan).map_or_else(|| intact::snapshot(host, plan), Err) {
        Ok(snapshot) => snapshot,
        Err(why) => {
            facts.hindered = Some(why);
            return false;
        }
    };
    let past = options.worlds.get(&plan.task.name.value);
    let values = match past.and_then(|past| past.values.clone()).or_else(|| {
        // Trials replay the first run of the recording.
        replayed(host, plan, if options.trials.is_some() { 0 } else { events.run.run })
    }) {
        Some(kept) => TaskValues::restored(host, &plan.task.name.value, kept),
        None => TaskValues::new(host, &plan.task.name.value),
    };
    let env = match values.environment(plan, false) {
        Ok(env) => env,
        Err(why) => {
            facts.hindered = Some(why);
            return false;
        }
    };
    let secret = env.iter().filter(|(name, _)| is_secret_name(name)).map(|(_, value)| value.clone());
    world.emitter.vault.learn(secret);
    if let Some(recording) = world.recording {
        let (id, port) = values.drawn();
        let (at, task) = (host.now(), events.run.clone());
        recording.say(&recording::Line::Random { at, task, id, port });
    }
    if events.emitter.journal().is_some() {
        let values = values.values(plan, &world.emitter.vault.secrets());
        events.emitter.note(&Entry::Values { task: events.run.clone(), values });
    }
    let judged_usage = |now, before| {
        if let Some(why) = world.ledger.judged(&now, &before, world.judge_price) {
            world.exhaust(why);
        }
    };
    let journalled = world.emitter.journal().cloned().map(|journal| Arc::new(move |pid| journal.group(pid)) as Started);
    let unit = Unit {
        host,
        plan,
        events,
        tools,
        extensions: Extensions::new(host, world.extensions, options.executable.clone()).heard_by(journalled),
        judge: world.judge,
        judged: &judged_usage,
        env,
        snapshot,
        state: Mutex::new(TaskState {
            name: plan.task.name.value.clone(),
            run_id: values.run_id().to_owned(),
            ..TaskState::default()
        }),
        force: &world.force,
        leftovers: Mutex::default(),
        agent_leftover: tokio::sync::Mutex::default(),
        // The cleanup of a kept world belongs to the run that set it up.
        pending: AtomicBool::new(options.only == Some(Only::Verify)),
        cleanup_failed: AtomicBool::new(false),
        past: None,
        ended: Mutex::default(),
    };
    let deadline = host.elapsed().saturating_add(plan.timeout);
    let limits = |phase| Limits { deadline, cancel: world.cancel.clone(), phase };
    if options.only == Some(Only::Verify) {
        let nothing = TaskPast::default();
        judge_kept(&unit, &values, past.map_or(&nothing, Arc::as_ref), &limits(PlanPhase::Verify), facts).await;
        if world.cancel.is_cancelled() {
            facts.cancelled = Some(world.cut_short("the run was cancelled"));
        }
        unit.reap().await;
        return false;
    }
    let mut scope = Scope::new(&values);

    facts.setup = setup(&unit, &mut scope, &limits(PlanPhase::Setup)).await;
    let after_setup = scope.clone();
    if facts.setup.is_none() && options.only.is_none() {
        // An agent in a jail cannot change the files.
        let stamps = (is_process(plan) && world.jail.is_none()).then(|| intact::Stamps::new(host, plan));
        let changed = || intact::changed(host, plan).or_else(|| stamps.as_ref()?.changed(host));
        let turned = agent_turn(&unit, &mut scope, &limits(PlanPhase::Agent), servers, world, facts).await;
        let Turned { calls, lost, skills } = turned.unwrap_or_default();
        let answered = calls.iter().any(|call| call.report.status == CallStatus::Ok);
        facts.unused = !servers.is_empty() && !answered && !plan.forbids_calls();
        facts.must_use = options.require_server_use;
        // An HTTP server is contacted again for each call, so it is lost only for the call that it does not answer.
        facts.lost = servers.iter().find_map(|server| server.lost()).or(lost);
        if plan.task.dialect != Dialect::Portable {
            scope.forget_outputs();
        }
        // Nothing is verified if the agent could not run, or if the files differ from the plan.
        facts.hindered = facts.hindered.take().or_else(changed);
        if facts.hindered.is_none() {
            verify(&unit, &mut scope, &limits(PlanPhase::Verify), facts).await;
            // The calls that an interrupted agent did not make prove nothing.
            if !world.cancel.is_cancelled() {
                assertions(&unit, &calls, skills.as_deref(), facts);
            }
            // A background process of the agent may have changed the files in the meantime.
            facts.hindered = changed();
        }
    }
    if host.elapsed() >= deadline {
        facts.timed_out = Some(format!("task exceeded timeout of {}", duration::format(plan.timeout)));
    }
    if world.cancel.is_cancelled() {
        facts.cancelled = Some(world.cut_short("the run was cancelled"));
    }

    let keep = match options.keep {
        _ if world.cancel.is_cancelled() => false,
        Keep::Always => true,
        Keep::OnFailure => verdict(facts).0 != Verdict::Passed,
        Keep::Never => options.only == Some(Only::Setup),
    };
    facts.kept = keep;
    // Reported before the cleanup, which reports its own steps.
    let why = match &facts.setup {
        _ if options.only == Some(Only::Setup) => NOT_ASKED.to_owned(),
        Some(setup) => format!("{NOT_REACHED}: `{}` did not pass", setup.id),
        None => NOT_REACHED.to_owned(),
    };
    events.skip_phases(plan, &[PlanPhase::Setup, PlanPhase::Agent, PlanPhase::Verify, PlanPhase::Assert], &why);
    if keep {
        world.keep(&unit).await;
        return unit.cleanup_failed.load(Ordering::Relaxed);
    }

    // In upstream's dialects, cleanup sees neither the agent nor the outputs of verification.
    let mut scope = if plan.task.dialect == Dialect::Portable { scope } else { after_setup };
    unit.bind_work(&mut scope);
    if let Some(first) = plan.members(PlanPhase::Cleanup).next() {
        events.emit(EventKind::PhaseStarted { phase: PlanPhase::Cleanup.name().to_owned() });
        unit.plan_cleanup(&plan.action(first).id);
        unit.cleanup(&Inside::cleanup_of_task(), &mut scope).await;
    }
    if options.trials.is_some() {
        unit.settle();
    }
    unit.reap().await;
    unit.cleanup_failed.load(Ordering::Relaxed)
}

/// Runs verification and assertions on what another run has set up, and on what its agent did, if it had one.
async fn judge_kept<'a>(
    unit: &Unit<'a>,
    values: &'a TaskValues<'a>,
    past: &TaskPast,
    limits: &Limits,
    facts: &mut Facts,
) {
    let mut scope = restore::scope(values, unit.plan, past, "");
    if past.begun.contains("agent")
        && let ActionKind::Agent(agent) = &unit.plan.action(unit.plan.agent).kind
    {
        let exit_code = past.ended.get("agent").map_or(0, |report| i32::from(report.outcome != Outcome::Passed));
        let mut state = unit.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.prompt = scope.text(&agent.prompt).unwrap_or_else(|_| as_written(&agent.prompt));
        state.agent = Some(AgentState { output: past.output.clone().unwrap_or_default(), exit_code });
        state.call_history = history(past.calls.iter());
    }
    if unit.plan.task.dialect != Dialect::Portable {
        scope.forget_outputs();
    }
    unit.bind_phase(PlanPhase::Setup, &mut scope);
    verify(unit, &mut scope, limits, facts).await;
    if past.begun.contains("agent") && !limits.cancel.is_cancelled() {
        let seen = |report: &CallReport| Seen { report: report.clone(), made: Made::Masked };
        assertions(unit, &past.calls.iter().map(seen).collect::<Vec<_>>(), None, facts);
    }
}

impl World<'_> {
    /// Called when the whole run has used up a limit: what runs is stopped and cleaned up, and nothing more is started.
    pub fn exhaust(&self, why: String) {
        if self.over.set(why.clone()).is_ok() {
            self.emitter.emit(None, EventKind::Cancelled { reason: why });
            self.cancel.cancel();
        }
    }

    /// Whether to count what an agent uses. An agent without a model uses nothing, so it is counted only if there are limits.
    fn counts(&self, plan: &Plan, kind: &AgentKind) -> bool {
        is_client(kind) || !plan.bounds.is_empty() || !self.ledger.is_unlimited()
    }

    /// Whether a broken run may be retried. A retry would lose track of its pending cleanups and kept worlds, and what prevents every task
    /// from running also prevents this one.
    pub fn may_retry(&self, end: &TaskEnd) -> bool {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|kept| kept.task == end.task);
        let over = self.cancel.is_cancelled() || self.stopped.get().is_some() || self.unstarted.get().is_some();
        let lacking = self.lacks.get().is_some_and(|lacks| lacks.of(end.task.index).is_some());
        !(kept || over || lacking || end.cleanup_failed)
    }

    /// Why the run was cut short.
    fn cut_short(&self, otherwise: &str) -> String {
        self.over.get().cloned().unwrap_or_else(|| otherwise.to_owned())
    }

    /// Keeps the world of a task: its pending cleanups stay pending.
    async fn keep(&self, unit: &Unit<'_>) {
        let plan = unit.plan;
        if let Some(first) = plan.members(PlanPhase::Cleanup).next() {
            unit.plan_cleanup(&plan.action(first).id);
        }
        unit.extensions.close().await;
        for leftover in unit.leftovers().await {
            leftover.release();
        }
        if let Some(journal) = self.emitter.journal() {
            journal.keep(&unit.events.run);
        }
        let secrets = self.emitter.vault.secrets();
        let given = unit.host.given().iter().filter(|(name, _)| unit.env.iter().all(|(own, _)| own != name));
        let env = given.chain(&unit.env).map(|(name, value)| (name.clone(), secrets.mask(value).into_owned()));
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).push(KeptWorld {
            task: unit.events.run.clone(),
            dir: plan.task.folder().to_owned(),
            env: env.collect(),
            cleanups: plan.members(PlanPhase::Cleanup).count(),
        });
    }
}

/// Runs the setup. Returns the step that prevents the agent from running, if any.
async fn setup<'a>(unit: &Unit<'a>, scope: &mut Scope<'a>, limits: &Limits) -> Option<Judged> {
    let mut stopped = None;
    let mut agenda = begin(unit, PlanPhase::Setup);
    while let Some(ix) = agenda.pop() {
        let action = unit.plan.action(ix);
        if stopped.is_some() {
            skip(unit, ix, scope);
        } else {
            let end = unit.step(ix, action.id.clone(), scope, limits).await;
            let stops = match end.outcome {
                Outcome::Passed => false,
                Outcome::Cancelled => true,
                _ => !action.continue_on_error,
            };
            stopped = stops.then(|| judged(&action.id, end));
        }
        agenda.done(ix);
    }
    stopped
}

/// What an agent's turn has used, and the limits that it exceeded.
#[derive(Default)]
struct Counted<'m> {
    meter: Option<Meter<'m>>,
    over: Over,
}

/// What an agent did in its turn.
#[derive(Default)]
struct Turned {
    /// In the order in which they started.
    calls: Vec<Seen>,
    /// The server that did not answer one of the calls, in a message.
    lost: Option<String>,
    /// The inputs of the agent's tool that reads skills, if the agent reports its tool calls.
    skills: Option<Vec<Value>>,
}

/// Runs the agent's turn.
async fn agent_turn<'a>(
    unit: &Unit<'a>,
    scope: &mut Scope<'a>,
    limits: &Limits,
    servers: &[Arc<Running>],
    world: &World<'_>,
    facts: &mut Facts,
) -> Option<Turned> {
    let recording = world.recording;
    let action = unit.plan.action(unit.plan.agent);
    let ActionKind::Agent(AgentAction { prompt, kind, skills, wrong, .. }) = &action.kind else { return None };
    unit.events.emit(EventKind::PhaseStarted { phase: PlanPhase::Agent.name().to_owned() });
    if limits.cancel.is_cancelled() {
        return None;
    }
    unit.plan_cleanup(&action.id);
    unit.events.emit(EventKind::ActionStarted { action: action.id.clone() });
    let started = unit.host.elapsed();
    unit.events.emitter.durable().await;
    // Stops only the agent.
    let stop = limits.cancel.child_token();
    let own = Arc::new(Allowance::new(unit.plan.bounds.tool_calls, 0));
    let recorder = Recorder::new(unit.events.emitter.vault.secrets())
        .of_task(unit.events.run.clone())
        .with(*wrong)
        .within(vec![Arc::clone(&own), world.ledger.calls()], stop.clone());
    let mut live = recorder.subscribe();
    let filled = match scope.text(prompt) {
        // As upstream: a prompt with a hole that cannot be filled is sent as written (`check` has reported it).
        Err(_) if unit.plan.task.dialect != Dialect::Portable => Ok(as_written(prompt)),
        filled => filled,
    };
    let counted = Mutex::new(Counted::default());
    let count = |what: &dyn Fn(&mut Meter<'_>) -> Over| {
        let mut counted = counted.lock().unwrap_or_else(PoisonError::into_inner);
        let beyond = counted.meter.as_mut().map(what).unwrap_or_default();
        counted.over = std::mem::take(&mut counted.over).and(beyond);
        if counted.over.is_any() {
            stop.cancel();
        }
    };
    let recorded = |call: CallRecord| {
        let call = reported(call);
        count(&|meter| meter.call(&call));
        unit.events.emit(EventKind::CallRecorded { call });
    };
    let (prompt, mut done) = match filled {
        Err(fault) => (String::new(), agent::Ended::broken(format!("the prompt: {}", fault.message()))),
        Ok(prompt) => {
            if let Some(recording) = recording {
                let (at, task) = (unit.host.now(), unit.events.run.clone());
                recording.say(&recording::Line::Prompt { at, task, text: prompt.clone() });
            }
            unit.events.emit(EventKind::AgentPrompted { text: emit::head(&prompt, emit::PROMPT).to_owned() });
            if world.counts(unit.plan, kind) {
                let asked = if is_client(kind) { servers } else { &[] };
                let schema = schema_tokens(unit, asked, limits).await;
                let meter = Meter::new(&prompt, schema, world.price, (&unit.plan.bounds, own), world.ledger);
                counted.lock().unwrap_or_else(PoisonError::into_inner).meter = Some(meter);
            }
            let timeout = unit.left(limits).min(action.timeout.unwrap_or(Duration::MAX));
            let turn = agent::Turn {
                host: unit.host,
                kind,
                skills: skills.as_ref(),
                task: &unit.plan.task.name.value,
                run: unit.events.run.run,
                prompt: &prompt,
                dir: unit.plan.task.folder(),
                servers,
                recorder: &recorder,
                scope,
                timeout,
                cancel: &stop,
                used: &|now| count(&|meter| meter.reported(now)),
                secret: &|capability| unit.events.keep_secret(capability),
                jail: world.jail.as_ref(),
                strict_replay: world.options.strict_replay,
            };
            let done = {
                let work = agent::run(&turn);
                tokio::pin!(work);
                loop {
                    tokio::select! {
                        biased;
                        Some(call) = live.recv() => recorded(call),
                        done = &mut work => break done,
                    }
                }
            };
            (prompt, done)
        }
    };
    unit.agent_leftover.lock().await.left = done.leftover.take();
    if let Some(recording) = recording {
        let (at, task) = (unit.host.now(), unit.events.run.clone());
        recording.say(&recording::Line::Output { at, task, text: done.output.clone(), exit_code: done.exit_code });
    }
    // The agent's sessions are closed, so the calls that it was still waiting for have ended as well.
    tokio::task::yield_now().await;
    while let Ok(call) = live.try_recv() {
        recorded(call);
    }
    if let Some(why) = done.unstarted.take() {
        world.agent_unstarted.get_or_init(|| why.clone());
        facts.hindered = Some(why);
    }
    // Nothing was sent to an agent that was not started.
    if facts.hindered.is_none() {
        count(&|meter| meter.end(&done.output, done.usage));
    }
    let Counted { meter, over } = counted.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(meter) = meter.filter(|_| facts.hindered.is_none()) {
        unit.events.emit(EventKind::TokensCounted { tokens: Box::new(meter.into_estimate()) });
    }
    if let Some(why) = over.task.filter(|_| !limits.cancel.is_cancelled()) {
        done.report.outcome = Outcome::Failed;
        done.report.message.clone_from(&why);
        facts.fault = Some(why);
    }
    if let Some(why) = over.run {
        world.exhaust(why);
    }
    for notice in recorder.notices() {
        unit.events.emitter.notice(Some(&unit.events.run), &notice.server, &notice.text);
    }
    if done.diverged.is_some() && done.report.outcome == Outcome::Passed {
        facts.diverged = done.report.differences.iter().map(told).collect();
    }
    facts.cut = done.cut.take();
    let records = recorder.records();
    let lost = records.iter().find(|call| call.outcome == CallOutcome::Lost).map(|call| {
        let CallRecord { server, name, .. } = call;
        format!("a server was lost while the agent worked: no answer came from `{server}` to `{name}`")
    });
    let calls: Vec<_> = records.into_iter().map(seen).collect();
    let steps = done.steps.take();
    if let Some(steps) = steps.clone().filter(|steps| !steps.is_empty()) {
        unit.events.emit(EventKind::AgentWorked { steps });
    }
    if !done.output.is_empty() {
        unit.events.emit(EventKind::AgentSpoke { text: done.output.clone() });
    }
    let spoke = done.report.outcome == Outcome::Passed || !done.output.is_empty();
    scope.set_agent(&prompt, spoke.then_some(done.output.as_str()));
    {
        let mut state = unit.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.prompt = prompt;
        state.agent = Some(AgentState { output: done.output.clone(), exit_code: done.exit_code });
        state.call_history = history(calls.iter().map(|call| &call.report));
    }
    let mut report = done.report;
    let malformed = (recorder.unreadable() > 0)
        .then(|| "a call of the agent does not name what it calls: its effect is unknown".to_owned())
        .or(done.malformed);
    if let Some(why) = malformed.filter(|_| facts.fault.is_none() && facts.hindered.is_none()) {
        report.outcome = Outcome::Failed;
        report.message.clone_from(&why);
        facts.fault = Some(why);
    }
    report.duration = unit.host.elapsed().saturating_sub(started);
    facts.agent = Some(judged(&action.id, unit.report(&action.id, report)));
    let tool = skills.as_ref().map(|skills| skills.tool.as_str()).unwrap_or_default();
    let reads = |steps: Vec<AgentStep>| {
        let calls = steps.into_iter().filter_map(|step| step.tool_call);
        calls.filter(|call| call.title == tool).filter_map(|call| call.raw_input)
    };
    Some(Turned { calls, lost, skills: steps.map(|steps| reads(steps).collect()) })
}

/// Whether the agent is a separate process, which may do things it was not asked to do.
fn is_process(plan: &Plan) -> bool {
    matches!(&plan.action(plan.agent).kind, ActionKind::Agent(agent) if agent.kind.is_process())
}

/// Whether there may be a model behind the agent.
fn is_client(kind: &AgentKind) -> bool {
    !matches!(kind, AgentKind::Noop | AgentKind::Script { .. } | AgentKind::Replay { .. } | AgentKind::Unspecified)
}

/// Counts the tokens that the servers' tool descriptions cost an agent; 0 if a server does not list them in time.
async fn schema_tokens(unit: &Unit<'_>, servers: &[Arc<Running>], limits: &Limits) -> u64 {
    let count = async {
        let mut all = 0;
        for server in servers {
            all += server.schema_tokens().await;
        }
        all
    };
    tokio::select! {
        all = count => all,
        () = unit.host.sleep(unit.left(limits)) => 0,
        () = limits.cancel.cancelled() => 0,
    }
}

fn as_written(template: &Template<Def>) -> String {
    let parts = template.parts.iter().map(|part| match part {
        Part::Text(text) => text.as_str(),
        Part::Hole(hole) => hole.text.as_str(),
    });
    parts.collect()
}

async fn verify<'a>(unit: &Unit<'a>, scope: &mut Scope<'a>, limits: &Limits, facts: &mut Facts) {
    if unit.plan.task.parallel_verify {
        return side_by_side(unit, scope, limits, facts).await;
    }
    let mut stopped = false;
    let mut agenda = begin(unit, PlanPhase::Verify);
    while let Some(ix) = agenda.pop() {
        let end = if stopped {
            skip(unit, ix, scope)
        } else {
            let end = unit.step(ix, unit.plan.action(ix).id.clone(), scope, limits).await;
            stopped = stops_verify(unit, ix, &end);
            end
        };
        agenda.done(ix);
        facts.checks.push(judged(&unit.plan.action(ix).id, end));
    }
}

/// Like `verify`, but runs steps at the same time if the graph has several ready. A step sees the values of only those steps that it runs
/// after, however fast the others are; a step that breaks stops those that run after it.
async fn side_by_side<'a>(unit: &Unit<'a>, scope: &mut Scope<'a>, limits: &Limits, facts: &mut Facts) {
    let before = scope.clone();
    let mut agenda = begin(unit, PlanPhase::Verify);
    let mut running = FuturesUnordered::new();
    let mut over: BTreeMap<ActionIx, Beside<'a>> = BTreeMap::new();
    loop {
        while let Some(ix) = agenda.pop() {
            let mut own = before.clone();
            let mut stopped = false;
            for done in unit.plan.just_before(ix).filter_map(|before| over.get(&before)) {
                own.adopt_new(&done.scope);
                stopped |= done.stops;
            }
            running.push(async move {
                let end = match stopped {
                    true => skip(unit, ix, &mut own),
                    false => unit.step(ix, unit.plan.action(ix).id.clone(), &mut own, limits).await,
                };
                let stops = stopped || stops_verify(unit, ix, &end);
                (ix, Beside { scope: own, end, stops })
            });
        }
        let Some((ix, done)) = running.next().await else { break };
        agenda.done(ix);
        over.insert(ix, done);
    }
    // In the order in which they are written.
    for (ix, done) in over {
        scope.adopt_new(&done.scope);
        facts.checks.push(judged(&unit.plan.action(ix).id, done.end));
    }
}

/// A verify step that ran beside others.
struct Beside<'a> {
    scope: Scope<'a>,
    end: Ended,
    /// Whether the steps after it are not reached.
    stops: bool,
}

fn stops_verify(unit: &Unit<'_>, ix: ActionIx, end: &Ended) -> bool {
    match end.outcome {
        Outcome::Broken => !unit.plan.action(ix).continue_on_error,
        Outcome::Cancelled => true,
        _ => false,
    }
}

/// Returns the agenda of a phase, and emits its start unless the phase is empty.
fn begin<'p>(unit: &Unit<'p>, phase: PlanPhase) -> Agenda<'p> {
    if unit.plan.members(phase).next().is_some() {
        unit.events.emit(EventKind::PhaseStarted { phase: phase.name().to_owned() });
    }
    unit.plan.agenda(phase)
}

/// Assertions take no time, so they are evaluated even after the task's timeout.
fn assertions(unit: &Unit<'_>, calls: &[Seen], skills: Option<&[Value]>, facts: &mut Facts) {
    for (i, ix) in unit.plan.members(PlanPhase::Assert).enumerate() {
        let action = unit.plan.action(ix);
        let ActionKind::Assertion(assertion) = &action.kind else { continue };
        if i == 0 {
            unit.events.emit(EventKind::PhaseStarted { phase: PlanPhase::Assert.name().to_owned() });
        }
        let Some(report) = assert::evaluate(assertion, calls, skills) else {
            unit.events.skip(unit.plan, ix, "it asserts nothing");
            continue;
        };
        let report = ActionReport { comparisons: 1, ..report };
        unit.events.emit(EventKind::ActionStarted { action: action.id.clone() });
        facts.checks.push(judged(&action.id, unit.report(&action.id, report)));
    }
}

/// Skips a step that is not reached.
fn skip<'a>(unit: &Unit<'a>, ix: ActionIx, scope: &mut Scope<'a>) -> Ended {
    unit.bind_unreached(ix, scope);
    unit.events.skip_inside(unit.plan, ix, NOT_REACHED);
    let report = ActionReport::new(Outcome::Skipped, NOT_REACHED);
    unit.report(&unit.plan.action(ix).id, report)
}

fn judged(id: &str, end: Ended) -> Judged {
    Judged { id: id.to_owned(), outcome: end.outcome, why: end.message, comparisons: end.comparisons }
}

/// Converts a record to the form that assertions judge.
fn seen(mut record: CallRecord) -> Seen {
    let made = record.unmasked.take().map_or(Made::AsReported, Made::Otherwise);
    Seen { report: reported(record), made }
}

fn reported(record: CallRecord) -> CallReport {
    let (status, error) = match record.outcome {
        CallOutcome::Ok => (CallStatus::Ok, None),
        CallOutcome::ToolError => (CallStatus::ToolError, None),
        CallOutcome::ProtocolError { code, message } => {
            (CallStatus::ProtocolError, Some(format!("{message} ({code})")))
        }
        CallOutcome::Lost => (CallStatus::ProtocolError, Some("the connection broke before an answer came".to_owned())),
        CallOutcome::Cancelled => (CallStatus::ProtocolError, Some("the agent abandoned the call".to_owned())),
    };
    CallReport {
        server: record.server,
        kind: match record.kind {
            mcp::CallKind::Tool => CallKind::Tool,
            mcp::CallKind::Resource => CallKind::Resource,
            mcp::CallKind::Prompt => CallKind::Prompt,
        },
        name: record.name,
        params: record.params,
        started: record.started,
        duration: record.duration,
        status,
        error,
        result: record.result,
        headers: record.headers,
    }
}

/// The call history, in the form that scripts receive (`portable-format.md`, "Script protocol").
fn history<'c>(calls: impl Iterator<Item = &'c CallReport> + Clone) -> Value {
    let of = |kind: CallKind| -> Vec<Value> {
        let calls = calls.clone().filter(|c| c.kind == kind);
        let entries = calls.map(|call| {
            let name = match kind {
                CallKind::Tool => "toolName",
                CallKind::Resource => "uri",
                CallKind::Prompt => "promptName",
            };
            let mut entry =
                json!({ "serverName": call.server, name: call.name, "result": call.result, "timestamp": call.started });
            if kind != CallKind::Resource {
                entry["arguments"] = call.params.get("arguments").cloned().unwrap_or_else(|| json!({}));
            }
            if let Some(error) = &call.error {
                entry["error"] = Value::from(error.as_str());
            }
            entry
        });
        entries.collect()
    };
    json!({ "toolCalls": of(CallKind::Tool), "resourceReads": of(CallKind::Resource), "promptGets": of(CallKind::Prompt) })
}
