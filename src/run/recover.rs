//! Recovers a run that died: ends what it left running, runs its pending cleanups, and gives every task a result.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, atomic::AtomicBool},
    time::Duration,
};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio_util::sync::CancellationToken;

use super::{
    Interrupt,
    clusters::Share,
    emit::{Emitter, TaskEvents},
    fill::TaskValues,
    restore,
    servers::{self, Servers},
    status,
    task::TaskEnd,
    unit::{Inside, Unit},
    usage::{self, Ledger},
};
use crate::{
    event::{Event, EventKind, Limited, TaskRun, Verdict},
    extension::Extensions,
    hir::{BlockRole, Bounds, OperationKind, Transport},
    host::{Host, WithEnv},
    journal::{Journal, Past, TaskPast, gate},
    package::Package,
    plan::{ActionKind, EvalPlan, Plan, PlanPhase, StepAction, planned_id},
    prices::Prices,
    secrets::is_secret_name,
    step::TaskState,
};

/// How long the processes of a dead run have to exit after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);

/// The options of a recovery.
pub struct RecoverOptions {
    /// The prices of models.
    pub prices: Option<Arc<Prices>>,
    pub executable: Option<PathBuf>,
    pub secrets: Vec<String>,
    pub server_timeout: Duration,
    /// The tasks whose cleanups are run; all if `None`.
    pub only: Option<Vec<String>>,
    /// Whether worlds that were kept on purpose are cleaned up as well.
    pub kept: bool,
}

/// The outcome of a recovery.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Recovered {
    /// The number of processes that were ended.
    pub ended: usize,
    /// Cleanups that are done.
    pub done: Vec<(TaskRun, String)>,
    /// Cleanups that are still pending, with the reason.
    pub left: Vec<(TaskRun, String, String)>,
    /// Cleanups that were done here and act on the machine they run on, although the journal came from another machine.
    pub away: Vec<(TaskRun, String)>,
    /// The number of tasks that got the result `cancelled`.
    pub cancelled: usize,
    pub interrupted: Option<Interrupt>,
}

/// Ends what a dead run left running. Returns the number of processes ended.
pub async fn end_processes(past: &Past, host: &dyn Host) -> usize {
    let mut ended = 0;
    let here = crate::host::place();
    if !here.is_empty() && past.writers.last().is_some_and(|writer| writer.place == here) {
        ended += host.reap_groups(past.groups.clone(), GRACE).await;
    }
    for writer in past.writers.iter().filter(|writer| writer.mark != host.mark()) {
        if let Some(group) = writer.group.as_ref().filter(|_| writer.place == here) {
            ended += host.reap_gathered(group, &writer.mark, GRACE).await;
        }
        // A process that is in the middle of an `exec` shows no mark for a moment, so one check is not enough.
        for _ in 0..20 {
            let found = host.reap_marked(&writer.mark, GRACE).await;
            ended += found;
            host.sleep(Duration::from_millis(5)).await;
            if found == 0 && host.reap_marked(&writer.mark, GRACE).await == 0 {
                break;
            }
        }
    }
    ended
}

/// Runs the pending cleanups. Event numbers continue those of the journal. The caller has already ended the processes that were left.
pub async fn clean_up(
    plan: &EvalPlan,
    past: &Past,
    journal: &Arc<Journal>,
    options: &RecoverOptions,
    host: &dyn Host,
    mut interrupts: UnboundedReceiver<Interrupt>,
    sink: UnboundedSender<Event>,
) -> Recovered {
    let started = host.elapsed();
    let mut recovered = Recovered::default();
    // A different place alone is not enough: a shared disk or a rebooted machine does not count as another machine.
    let elsewhere =
        gate::is_attended() && past.writers.first().is_some_and(|writer| writer.place != crate::host::place());
    let kept = past.header.settings.servers.iter().filter(|_| !elsewhere);
    let kept: Vec<_> = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
    let specs = |host: &dyn Host| {
        let host = WithEnv::new(host, kept.clone());
        servers::specs(&plan.servers, &plan.dir, &host, options.executable.as_ref())
    };
    let (found, unset) = match specs(host) {
        Ok(found) => (found, None),
        Err(unset) => (Default::default(), Some(unset.join("; "))),
    };
    let (found, mut secrets): (servers::Specs, Vec<String>) = found;
    secrets.extend(super::secret_variables(plan, host));
    secrets.extend(options.secrets.iter().cloned());
    let stop = CancellationToken::new();
    let emitter =
        Emitter::new(host, sink, secrets).with_journal(Some(Arc::clone(journal)), past.next, CancellationToken::new());
    let servers = Servers::new(found, &emitter, options.server_timeout, false).lacking(unset);
    let wanted = |task: &TaskRun, of: &TaskPast| {
        !of.pending.is_empty()
            && (options.kept || !of.kept)
            && options.only.as_ref().is_none_or(|only| only.contains(&task.name))
    };
    let interrupted = {
        let work = async {
            for (task, of) in past.tasks.iter().filter(|(task, of)| wanted(task, of)) {
                let Some(planned) = plan.tasks.get(task.index).filter(|p| p.task.name.value == task.name) else {
                    let why = "the eval no longer contains this task".to_owned();
                    recovered.left.extend(of.pending.keys().map(|id| (task.clone(), id.clone(), why.clone())));
                    continue;
                };
                let share = Share::restored(plan, of).map(|share| share.host(host));
                let host: &dyn Host = share.as_ref().map_or(host, |within| within);
                let own = share.as_ref().map(|_| servers.of(specs(host).unwrap_or_default().0));
                let servers = own.as_ref().unwrap_or(&servers);
                let extensions = Extensions::new(host, &plan.extensions, options.executable.clone());
                let before = recovered.done.len();
                let to = &mut recovered;
                clean_up_task(planned, task, of, &emitter, servers, extensions, host, &stop, elsewhere, to).await;
                if let Some(own) = own {
                    own.close().await;
                }
                if elsewhere {
                    let done = recovered.done[before..].iter();
                    let away = done.filter(|(_, cleanup)| acts_here(planned, plan, cleanup)).cloned();
                    recovered.away.extend(away.collect::<Vec<_>>());
                }
            }
        };
        tokio::pin!(work);
        let mut deaf = false;
        let mut interrupted = None;
        loop {
            tokio::select! {
                biased;
                signal = interrupts.recv(), if !deaf => match signal {
                    None => deaf = true,
                    Some(signal) => {
                        interrupted.get_or_insert(signal);
                        stop.cancel();
                    }
                },
                () = &mut work => break,
            }
        }
        interrupted
    };
    recovered.interrupted = interrupted;
    servers.close().await;
    host.reap_marked(host.mark(), GRACE).await;
    if recovered.interrupted.is_some() {
        return recovered;
    }
    recovered.cancelled = give_results(past, &emitter);
    if !past.finished && !journal.has_pending() {
        let (duration, exit) = (host.elapsed().saturating_sub(started), exit_of(past));
        let limits = limited(plan, past, options.prices.as_ref(), host);
        emitter.emit(None, EventKind::RunFinished { duration, exit, limits });
    }
    recovered
}

/// Whether a cleanup acts on the machine it runs on, as far as can be determined: what has a URL or is in a cluster is the same from
/// anywhere.
fn acts_here(plan: &Plan, eval: &EvalPlan, cleanup: &str) -> bool {
    let step_acts = |step: &StepAction| match &step.op.kind {
        OperationKind::Builtin(name) => matches!(*name, "command" | "script" | "file"),
        OperationKind::Tool { server, .. } => {
            let server = eval.servers.iter().find(|known| known.name.value == *server);
            server.is_none_or(|server| matches!(server.transport, Transport::Stdio { .. }))
        }
        OperationKind::Extension { package, .. } => {
            let known = crate::package::package(eval.extensions.reference(package), eval.extensions.substitute);
            !matches!(known, Ok(Package::Bundled(_)))
        }
    };
    let planned = planned_id(cleanup);
    let mut acts = true;
    plan.walk(&mut |_, ix, action| {
        if action.id == planned {
            let mut inside = vec![ix];
            acts = false;
            while let Some(ix) = inside.pop() {
                inside.extend(plan.nested(ix));
                acts |= matches!(&plan.action(ix).kind, ActionKind::Step(step) if step_acts(step));
            }
        }
    });
    acts
}

/// Emits a result for every run of a task that has none; returns how many there were.
fn give_results(past: &Past, emitter: &Emitter<'_>) -> usize {
    let mut cancelled = 0;
    for (_, task) in past.wanted() {
        let of = past.tasks.get(&task);
        if of.is_some_and(|of| of.end.is_some()) {
            continue;
        }
        let reason = match of {
            Some(of) if of.damaged => "its result is unknown: the journal of the run is damaged",
            None if past.is_damaged() => "its result is unknown: the journal of the run is damaged",
            Some(_) => "the run was interrupted before the task ended",
            None => "the run was interrupted before its turn",
        };
        let cleanup_failed = false;
        let (verdict, duration) = (Verdict::Cancelled, Duration::ZERO);
        let finished = EventKind::TaskFinished { verdict, reason: reason.to_owned(), duration, cleanup_failed };
        emitter.emit(Some(&task), finished);
        cancelled += 1;
    }
    cancelled
}

/// What the dead run had used of its limits.
fn limited(plan: &EvalPlan, past: &Past, prices: Option<&Arc<Prices>>, host: &dyn Host) -> Option<Limited> {
    let settings = &past.header.settings;
    let bounds = Bounds { tokens: settings.max_tokens, cost: settings.max_cost, tool_calls: None };
    let judge = plan.judge.as_ref().and_then(|judge| judge.resolved(&|name| host.env(name)).ok());
    let price = usage::judge_price(prices, judge.as_ref());
    let used = past.used(|judges| usage::cost(price, judges).unwrap_or_default());
    Ledger::new(bounds.or(&plan.budget.bounds), used).limited()
}

fn exit_of(past: &Past) -> u8 {
    let ends: Vec<_> = past
        .wanted()
        .map(|(_, task)| match past.tasks.get(&task).and_then(|of| of.end.as_ref()) {
            Some(end) => TaskEnd::earlier(task, end),
            None => TaskEnd {
                task,
                verdict: Verdict::Cancelled,
                reason: String::new(),
                cleanup_failed: false,
                duration: Duration::ZERO,
                left: Vec::new(),
            },
        })
        .collect();
    let settings = &past.header.settings;
    let met = |index: usize, passes: u32, all: u32| {
        let own = past.selected.iter().find(|s| s.index == index).and_then(|s| s.gate);
        passes >= settings.gate.or(own).map_or(all, |(needed, _)| needed)
    };
    status(&ends, settings.allow_unchecked, &met, settings.exit_zero)
}

async fn clean_up_task(
    plan: &Plan,
    task: &TaskRun,
    past: &TaskPast,
    emitter: &Emitter<'_>,
    servers: &Servers<'_>,
    extensions: Extensions<'_>,
    host: &dyn Host,
    stop: &CancellationToken,
    elsewhere: bool,
    recovered: &mut Recovered,
) {
    let all_left = |why: String| past.pending.keys().map(move |id| (task.clone(), id.clone(), why.clone()));
    if stop.is_cancelled() {
        recovered.left.extend(all_left("the recovery was interrupted".to_owned()));
        return;
    }
    if !plan.step_servers.is_empty()
        && let Err(why) = servers.all().await
    {
        recovered.left.extend(all_left(why));
        return;
    }
    // Without its random id, a cleanup would remove something else.
    let Some(values) = past.values.clone() else {
        recovered.left.extend(all_left("the journal is damaged: the values that it needs are unknown".to_owned()));
        return;
    };
    let events = TaskEvents::new(emitter, task.clone());
    let values = TaskValues::restored(host, &task.name, values);
    let env = match values.environment(plan, elsewhere) {
        Ok(env) => env,
        Err(why) => {
            recovered.left.extend(all_left(why));
            return;
        }
    };
    let secret = env.iter().filter(|(name, _)| is_secret_name(name)).map(|(_, value)| value.clone());
    emitter.vault.learn(secret);
    let unit = Unit {
        host,
        plan,
        events: &events,
        tools: servers,
        extensions,
        judge: None,
        judged: &|_, _| {},
        env,
        snapshot: None,
        state: Mutex::new(TaskState {
            name: task.name.clone(),
            run_id: values.run_id().to_owned(),
            ..TaskState::default()
        }),
        force: stop,
        leftovers: Mutex::default(),
        agent_leftover: tokio::sync::Mutex::default(),
        pending: AtomicBool::new(true),
        cleanup_failed: AtomicBool::new(false),
        past: Some(past),
        ended: Mutex::default(),
    };
    let is_top = |id: &String| plan.members(PlanPhase::Cleanup).any(|ix| plan.action(ix).id == *id);
    // Groups first, innermost first: the newest cleanup runs first.
    let mut groups: Vec<&String> = Vec::new();
    for (cleanup, owner) in past.pending.iter().rev() {
        if !is_top(cleanup) && !groups.contains(&owner) {
            groups.push(owner);
        }
    }
    for owner in groups {
        let planned = planned_id(owner);
        let mut found = None;
        plan.walk(&mut |_, ix, action| {
            if action.id == planned {
                found = Some(ix);
            }
        });
        let blocks = found.into_iter().flat_map(|ix| plan.blocks(ix));
        for block in blocks.filter(|block| block.role == BlockRole::Cleanup) {
            let mut scope = restore::scope(&values, plan, past, owner);
            unit.bind_work(&mut scope);
            let inside = Inside { block, planned: &planned, executed: owner.clone() };
            unit.cleanup(&inside, &mut scope).await;
        }
    }
    if past.pending.keys().any(is_top) {
        let mut scope = restore::scope(&values, plan, past, "");
        unit.bind_work(&mut scope);
        events.emit(EventKind::PhaseStarted { phase: PlanPhase::Cleanup.name().to_owned() });
        unit.cleanup(&Inside::cleanup_of_task(), &mut scope).await;
    }
    unit.reap().await;
    emitter.durable().await;
    let ended = unit.ended.lock().unwrap_or_else(PoisonError::into_inner);
    for cleanup in past.pending.keys() {
        match ended.get(cleanup) {
            Some(None) => recovered.done.push((task.clone(), cleanup.clone())),
            Some(Some(why)) => recovered.left.push((task.clone(), cleanup.clone(), why.clone())),
            None => recovered.left.push((task.clone(), cleanup.clone(), "it was not reached".to_owned())),
        }
    }
}
