//! Runs the plan of an eval, and nothing else, and reports what happens as one ordered stream of events.
//!
//! Properties: *the executed actions are a subset of the planned ones; whatever happens, every pending cleanup is attempted.*

mod agent;
pub mod assert;
pub mod attended;
pub mod clusters;
mod emit;
mod expectation;
pub mod fill;
mod intact;
mod inventory;
mod isolation;
pub mod needs;
pub mod recover;
mod restore;
pub mod select;
mod servers;
pub mod stop;
mod task;
mod unit;
mod usage;
pub mod verdict;

pub use inventory::Left;
pub use isolation::{foreseen, machine, results_in};
pub use select::{Chosen, Demand, Enough, Gate, Labels, Selection, Shard};
pub use servers::{Specs, specs};
pub use stop::{Interrupt, interrupts};
pub use task::{KeptWorld, TaskEnd};

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use futures_util::stream::{self, StreamExt};
use indexmap::IndexMap;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio_util::sync::CancellationToken;

use crate::{
    event::{Event, EventKind, TaskRun, Used, Verdict, recording},
    extension::usable,
    hir::{Bounds, Budget, Isolation},
    host::Host,
    journal::{Entry, Journal, Past, Selected, TaskPast},
    mcp::{HubOptions, Recording, RecordingBounds},
    plan::{ActionKind, EvalPlan, Judge, Plan, reach, wire},
    prices::Prices,
    secrets::{is_secret_name, of_environment},
    statistics::{Rate, Sequential},
    ty::{duration, endpoint},
};
use emit::Emitter;
use servers::Servers;
use task::World;

/// The version of the event format.
pub const VERSION: u32 = 1;

/// How a plan is run: what the command line adds to the plan.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Overrides each task's own number of runs.
    pub runs: Option<u32>,
    /// How many of the tasks that may run in parallel do so at the same time.
    pub parallel: usize,
    /// The tasks to run; all others are left out.
    pub selection: Selection,
    /// Whether to stop starting runs once a run has not passed and the gate of its task can no longer be met.
    pub fail_fast: bool,
    /// Where results are written.
    pub output_dir: PathBuf,
    /// The prices of models.
    pub prices: Option<Arc<Prices>>,
    /// The budget of all tasks together; takes precedence over the eval's.
    pub budget: Budget,
    /// The part of the budget already used by other runs that share it, and the time those runs took.
    pub used: Used,
    pub used_time: Duration,
    /// How many times a broken run is retried.
    pub retry_broken: u32,
    /// Whether tasks whose requirements are met still run when another task lacks something.
    pub keep_going: bool,
    /// How many runs of a task must pass, if not all.
    pub gate: Option<Gate>,
    /// The pass rate that the gate must show, if the gate is a rate.
    pub rate: Option<Rate>,
    /// If set, a task is no longer run once this test has decided its gate.
    pub until_decided: Option<Arc<Sequential>>,
    /// Whether a task that checks nothing counts as passed.
    pub allow_unchecked: bool,
    /// Whether a task fails if it passed without a successful call to a server under test.
    pub require_server_use: bool,
    /// Whether a task is broken if its replay differs from the recording.
    pub strict_replay: bool,
    /// Exit with status 0 instead of 1 or 4.
    pub exit_zero: bool,
    /// The executable that the command `gevals` of a server refers to.
    pub executable: Option<PathBuf>,
    /// Values to mask in addition to those known from the plan: see [`environment_secrets`].
    pub secrets: Vec<String>,
    /// How long a server may take to answer `initialize`.
    pub server_timeout: Duration,
    /// The longest MCP message that is let through, in bytes.
    pub max_message: usize,
    /// How large the recording may become.
    pub recording: RecordingBounds,
    /// The size that a results file may reach, in bytes, before results are cut.
    pub max_results: u64,
    /// Whether every task has its own servers.
    pub isolate: bool,
    /// How the agent is isolated from the machine; overrides the eval.
    pub isolation: Option<Isolation>,
    /// When the world of a task is kept instead of being cleaned up.
    pub keep: Keep,
    /// Runs a single phase only.
    pub only: Option<Only>,
    /// What other runs have set up, by task name, for [`Only::Verify`].
    pub worlds: HashMap<String, Arc<TaskPast>>,
    /// By task index: the trials to make instead of running the task. The world is inspected before and after each trial.
    pub trials: Option<HashMap<usize, Trials>>,
    /// The journal, which every event is written to before it is sent.
    pub journal: Option<Arc<Journal>>,
    /// What the journal contained when it was reopened: runs that already have a result are not repeated.
    pub past: Option<Arc<Past>>,
}

/// Other plans of a task, each run once, one after another: see `gevals prove`.
#[derive(Clone, Debug)]
pub struct Trials {
    pub plans: Vec<Plan>,
    /// The trials that must pass and be cleaned up. If one of them does not, or if any trial up to the end of this range leaves something
    /// behind, the trials after it are not run.
    pub control: std::ops::Range<u32>,
}

/// When the cleanup of a task is skipped and left to `gevals recover`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Keep {
    #[default]
    Never,
    OnFailure,
    Always,
}

/// A phase that can be run on its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Only {
    /// Sets up and keeps the world.
    Setup,
    /// Verifies a world that was kept.
    Verify,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            runs: None,
            parallel: 1,
            selection: Selection::default(),
            fail_fast: false,
            prices: None,
            budget: Budget::default(),
            used: Used::default(),
            used_time: Duration::ZERO,
            retry_broken: 0,
            keep_going: false,
            gate: None,
            rate: None,
            until_decided: None,
            output_dir: PathBuf::from("."),
            allow_unchecked: false,
            require_server_use: false,
            strict_replay: false,
            exit_zero: false,
            executable: None,
            secrets: Vec::new(),
            server_timeout: Duration::from_secs(30),
            max_message: HubOptions::default().max_message,
            recording: RecordingBounds::default(),
            max_results: 256 << 20,
            isolate: false,
            isolation: None,
            keep: Keep::Never,
            only: None,
            worlds: HashMap::new(),
            trials: None,
            journal: None,
            past: None,
        }
    }
}

/// The outcome of a run.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RunSummary {
    /// The exit status, see `decisions.md` §11.
    pub exit: u8,
    /// Whether the results file contains this run.
    pub written: bool,
    /// In the order in which they ended.
    pub tasks: Vec<TaskEnd>,
    /// Why nothing could run, why the run was stopped, or why its recording is incomplete.
    pub faults: Vec<String>,
    /// What was cut, and by which limit.
    pub cuts: Vec<String>,
    /// The worlds that were kept.
    pub kept: Vec<KeptWorld>,
    /// The parts of the world that should have been inspected but could not be, with the reason.
    pub unseen: Vec<String>,
    /// What agents and judges used, including what was used before; `None` if nothing was attempted.
    pub used: Option<Used>,
}

impl RunSummary {
    /// The summary of a run in which nothing ran.
    pub fn refused(exit: u8, faults: Vec<String>) -> Self {
        Self { exit, faults, ..Self::default() }
    }
}

/// The values of this process's environment variables whose names indicate a secret.
#[expect(clippy::disallowed_methods, reason = "no other question lists the environment")]
pub fn environment_secrets() -> Vec<String> {
    let variables = std::env::vars_os().filter_map(|(n, v)| Some((n.into_string().ok()?, v.into_string().ok()?)));
    of_environment(variables)
}

/// Runs an eval. The first interrupt stops the work and cleans up; the same interrupt again, later, stops the cleanup as well.
pub async fn run_eval(
    plan: &EvalPlan,
    options: &RunOptions,
    host: Arc<dyn Host>,
    mut interrupts: UnboundedReceiver<Interrupt>,
    sink: UnboundedSender<Event>,
) -> RunSummary {
    let clusters = clusters::Clusters::of(plan, options);
    let within = clusters.as_ref().map(|clusters| clusters.host(host.as_ref()));
    let host: &dyn Host = within.as_ref().map_or(host.as_ref(), |within| within);
    let started = host.elapsed();
    let selected = match &options.past {
        Some(past) => past.selected.iter().map(|s| s.index).filter(|&index| index < plan.tasks.len()).collect(),
        None => options.selection.of(plan),
    };
    let specs = servers::specs(&plan.servers, &plan.dir, host, options.executable.as_ref());
    let mut faults = Vec::new();
    let (specs, mut secrets) = match specs {
        Ok(specs) => specs,
        Err(unset) => {
            faults = unset;
            Default::default()
        }
    };
    secrets.extend(secret_variables(plan, host));
    secrets.extend(url_passwords(plan, host));
    secrets.extend(options.secrets.iter().cloned());
    let judge = needs::judge(plan, host);
    let mut lacks = needs::Lacks::default();
    for &index in &selected {
        lacks.add(
            index,
            needs::of_task(
                &plan.tasks[index],
                host,
                &judge,
                &plan.extensions,
                options.executable.as_deref(),
                options.only,
            ),
        );
    }
    if let (Err(why), false) =
        (usable(plan.extensions.sandbox, &|name| host.env(name)), reach::extensions(plan).is_empty())
    {
        faults.push(format!("the sandbox of extensions: {why}"));
    }
    if let (Some(_), Err(why)) = (&clusters, clusters::startable()) {
        faults.push(format!("`world: kube`: {why}"));
    }
    if let (Some(&index), None) = (selected.first(), options.only)
        && let ActionKind::Agent(agent) = &plan.tasks[index].action(plan.tasks[index].agent).kind
        && let Err(why) = needs::agent(&agent.kind, host)
    {
        faults.push(format!("the agent `{}` cannot be started: {why}", plan.agent_name));
    }
    let (jail, isolated) = isolation::isolation(plan, options, &selected, host).unwrap_or_else(|why| {
        faults.push(why);
        (None, None)
    });
    let judge = judge.ok().filter(|_| asked_judge(plan, &selected).is_some());
    let budget = Budget {
        time: options.budget.time.or(plan.budget.time),
        bounds: options.budget.bounds.or(&plan.budget.bounds),
    };
    let prices = options.prices.as_ref();
    let price = usage::price(prices, plan.model.as_deref(), &plan.agent_name);
    let judge_price = usage::judge_price(prices, judge.as_ref());
    faults.extend(unpriced(plan, &selected, &options.budget.bounds, prices, &|name| host.env(name)));
    // A resumed run continues with its budget.
    let before =
        options.past.as_ref().map(|past| past.used(|usage| usage::cost(judge_price, usage).unwrap_or_default()));
    let ledger = usage::Ledger::new(budget.bounds, before.unwrap_or_default().and(options.used));
    if selected.is_empty() {
        return match options.selection.shard {
            Some(_) if !options.selection.all(plan).is_empty() => RunSummary::default(),
            _ => RunSummary::refused(2, vec![options.selection.nothing(plan)]),
        };
    }
    if !faults.is_empty() || refused(&lacks, &selected, options) {
        faults.extend(lacks.lines(plan));
        return RunSummary::refused(3, faults);
    }

    let cancel = CancellationToken::new();
    let past = options.past.as_deref();
    let emitter = Emitter::new(host, sink, secrets).with_journal(
        options.journal.clone(),
        past.map_or(0, |past| past.next),
        cancel.clone(),
    );
    let digests: Vec<_> = plan.tasks.iter().map(wire::digest).collect();
    let plan_digest = wire::eval_digest(plan);
    let runs = |index: usize| match past.and_then(|p| p.selected.iter().find(|s| s.index == index)) {
        Some(selected) => selected.runs,
        None => match options.trials.as_ref().and_then(|trials| trials.get(&index)) {
            Some(trials) => u32::try_from(trials.plans.len()).unwrap_or(u32::MAX),
            None => options.runs.unwrap_or(plan.tasks[index].task.runs).max(1),
        },
    };
    let run_id = options.journal.as_ref().map_or_else(|| host.random_id(), |journal| journal.run().to_owned());
    if past.is_none() {
        let chosen = |index: usize, only: Option<u32>| Selected {
            index,
            name: plan.tasks[index].task.name.value.clone(),
            digest: digests[index].clone(),
            runs: runs(index),
            gate: gate_of(plan, options, index).map(|gate| (gate.passes, gate.of)),
            only,
        };
        let units = options.selection.units.iter().filter(|unit| unit.index < plan.tasks.len());
        let units: Vec<_> = units.map(|unit| chosen(unit.index, Some(unit.run))).collect();
        emitter.note(&Entry::Selected(match units.is_empty() {
            true => selected.iter().map(|&index| chosen(index, None)).collect(),
            false => units,
        }));
        emitter.emit(
            None,
            EventKind::RunStarted {
                version: VERSION,
                run_id: run_id.clone(),
                eval: plan.name.clone(),
                plan_digest: plan_digest.clone(),
                tasks: selected.len(),
                runs: match options.selection.units.len() {
                    0 => selected.iter().map(|&index| runs(index) as usize).sum(),
                    units => units,
                },
            },
        );
    }
    if let Some(isolated) = isolated {
        emitter.emit(None, isolated);
    }
    let recording = match &options.journal {
        None => None,
        Some(journal) => {
            let (version, eval, at) = (recording::VERSION, plan.name.clone(), host.now());
            let first = recording::Line::Recording { version, run: run_id, eval, plan_digest, at };
            let vault = emitter.vault.clone();
            match Recording::open(&journal.recording(), &first, options.recording, move || vault.secrets()) {
                Ok(recording) => Some(recording),
                Err(error) => {
                    let why = format!("`{}` cannot be written: {error}", journal.recording().display());
                    return RunSummary::refused(3, vec![why]);
                }
            }
        }
    };
    let is_client =
        |task: &Plan| matches!(&task.action(task.agent).kind, ActionKind::Agent(agent) if agent.kind.is_process());
    let clients = selected.iter().any(|&index| is_client(&plan.tasks[index]));
    let folders = inventory::folders(&specs, host);
    let servers = Servers::new(specs, &emitter, options.server_timeout, clients)
        .recorded(recording.clone())
        .up_to(options.max_message);
    let world = World {
        host,
        emitter: &emitter,
        servers: &servers,
        extensions: &plan.extensions,
        clusters: clusters.as_ref(),
        cancel,
        force: CancellationToken::new(),
        unstarted: OnceLock::new(),
        lacks: OnceLock::new(),
        agent_unstarted: OnceLock::new(),
        options,
        jail,
        kept: Mutex::default(),
        recording: recording.as_deref(),
        judge: judge.as_ref(),
        ledger: &ledger,
        price,
        judge_price,
        over: OnceLock::new(),
        stopped: OnceLock::new(),
    };
    let looks = options.trials.is_some() && clusters.is_none();
    let inventory = looks.then(|| inventory::Inventory::new(host, plan, &selected, &servers, folders));
    let inventory = tokio::sync::Mutex::new(inventory);
    let ends = Mutex::new(Vec::new());
    let written = || options.journal.as_ref().map_or(0, |journal| journal.written());
    let before = (host.elapsed(), written());
    let is_enough =
        |enough: Enough| host.elapsed().saturating_sub(before.0) >= enough.time || written() - before.1 >= enough.bytes;
    let is_enough = &is_enough;
    let mut heard = stop::Heard::default();
    if let Some(why) = ledger.over() {
        world.exhaust(why);
    }
    {
        let work = async {
            let begun = match clusters.as_ref().filter(|_| options.only != Some(Only::Verify)) {
                Some(clusters) => clusters.begin().await,
                None => Ok(()),
            };
            let start = async {
                begun?;
                start(plan, &selected, &servers, options.isolate || clusters.is_some(), lacks).await
            };
            let start = tokio::select! {
                start = start => start,
                () = world.cancel.cancelled() => Ok(needs::Lacks::default()),
            };
            match start {
                Err(why) => drop(world.unstarted.set(why)),
                Ok(lacks) if refused(&lacks, &selected, options) => {
                    drop(world.unstarted.set(lacks.lines(plan).join("\n")));
                }
                Ok(lacks) => drop(world.lacks.set(lacks)),
            }
            let each = |index: usize| {
                let (world, ends, digests, emitter) = (&world, &ends, &digests, &emitter);
                let inventory = &inventory;
                let trials = options.trials.as_ref().and_then(|trials| trials.get(&index));
                async move {
                    // How many runs may still not pass before the gate can no longer be met.
                    let mut spare =
                        gate_of(plan, options, index).map_or(0, |gate| runs(index).saturating_sub(gate.passes));
                    let mut passes = 0;
                    let mut in_control = true;
                    let decided =
                        |passes, runs| options.until_decided.as_ref().and_then(|gate| gate.decided(passes, runs));
                    for run in (0..runs(index)).filter(|run| options.selection.has(index, *run)) {
                        let is_first = ends.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
                        if !is_first && options.selection.enough.is_some_and(is_enough) {
                            break;
                        }
                        if trials.is_some_and(|trials| run >= trials.control.end) && !in_control {
                            break;
                        }
                        let own = trials.and_then(|trials| trials.plans.get(run as usize));
                        let planned = own.unwrap_or(&plan.tasks[index]);
                        let task = TaskRun { index, name: planned.task.name.value.clone(), run };
                        if let Some(end) = past.and_then(|past| past.result(&task)) {
                            spare = spare.saturating_sub(u32::from(!good(end.verdict, options.allow_unchecked)));
                            passes += u32::from(good(end.verdict, options.allow_unchecked));
                            ends.lock().unwrap_or_else(PoisonError::into_inner).push(TaskEnd::earlier(task, end));
                            // Its decision is already in the journal.
                            if decided(passes, run + 1).is_some() {
                                break;
                            }
                            continue;
                        }
                        // Trials run one at a time; other tasks do not wait for each other.
                        let mut inventory = match trials {
                            Some(_) => Some(inventory.lock().await),
                            None => None,
                        };
                        let mut inventory = inventory.as_mut().and_then(|inventory| inventory.as_mut());
                        let looks = |world: &World<'_>| !world.cancel.is_cancelled() && world.unstarted.get().is_none();
                        if let Some(inventory) = inventory.as_mut().filter(|_| looks(world)) {
                            inventory.begin().await;
                        }
                        let mut end = task::run(world, planned, &digests[index], task.clone()).await;
                        for retry in 1..=options.retry_broken {
                            if end.verdict != Verdict::Broken || !world.may_retry(&end) {
                                break;
                            }
                            let (of, reason) = (options.retry_broken, end.reason);
                            emitter.emit(Some(&task), EventKind::TaskRetried { retry, of, reason });
                            end = task::run(world, planned, &digests[index], task.clone()).await;
                        }
                        if let Some(inventory) = inventory.as_mut().filter(|_| looks(world)) {
                            end.left = inventory.left().await;
                        }
                        if let Some(Trials { control, .. }) = trials.filter(|trials| run < trials.control.end) {
                            let clean = end.verdict == Verdict::Passed && !end.cleanup_failed;
                            in_control &= !control.contains(&run) || clean;
                            // Later trials would see what was left behind instead of their own effects.
                            in_control &= end.left.is_empty();
                        }
                        if options.fail_fast && !good(end.verdict, options.allow_unchecked) {
                            if spare == 0 {
                                let why = || format!("not started: `{}` {}", end.task.name, end.verdict.name());
                                world.stopped.get_or_init(why);
                            }
                            spare = spare.saturating_sub(1);
                        }
                        passes += u32::from(good(end.verdict, options.allow_unchecked));
                        let cancelled = end.verdict == Verdict::Cancelled;
                        ends.lock().unwrap_or_else(PoisonError::into_inner).push(end);
                        if let (Some(met), false) = (decided(passes, run + 1), cancelled) {
                            let runs = run + 1;
                            emitter.emit(Some(&task), EventKind::GateDecided { met, passes, runs });
                            break;
                        }
                    }
                }
            };
            let (parallel, alone): (Vec<_>, Vec<_>) =
                selected.iter().copied().partition(|&index| plan.tasks[index].task.parallel);
            for index in alone {
                each(index).await;
            }
            stream::iter(parallel).map(each).buffer_unordered(options.parallel.max(1)).collect::<()>().await;
        };
        tokio::pin!(work);
        let mut deaf = false;
        let over = async {
            match budget.time {
                Some(limit) => {
                    host.sleep(limit.saturating_sub(options.used_time)).await;
                    format!("the run exceeded its limit of {}", duration::format(limit))
                }
                None => std::future::pending().await,
            }
        };
        tokio::pin!(over);
        let mut in_time = true;
        loop {
            tokio::select! {
                biased;
                signal = interrupts.recv(), if !deaf => match signal.map(|signal| (signal, heard.hear(signal, host.elapsed()))) {
                    None => deaf = true,
                    Some((signal, stop::Asks::Stop)) => {
                        emitter.emit(None, EventKind::Cancelled { reason: signal.name().to_owned() });
                        world.cancel.cancel();
                    }
                    Some((signal, stop::Asks::Again)) => {
                        let reason = format!("{} again: cleanup is stopped too", signal.name());
                        emitter.emit(None, EventKind::Cancelled { reason });
                        world.force.cancel();
                    }
                    Some((_, stop::Asks::Nothing)) => {}
                },
                () = &mut work => break,
                why = &mut over, if in_time => {
                    in_time = false;
                    world.exhaust(why);
                }
            }
        }
    }
    let inventory = inventory.into_inner();
    if let Some(inventory) = &inventory {
        let mut ends = ends.lock().unwrap_or_else(PoisonError::into_inner);
        let secrets = emitter.vault.secrets();
        for left in ends.iter_mut().flat_map(|end| &mut end.left) {
            left.stays = inventory.has(left);
            left.name = secrets.mask(&left.name).into_owned();
        }
    }
    let unseen = inventory.map(|inventory| inventory.unseen).unwrap_or_default();
    let mut unseen: Vec<_> = unseen.into_iter().map(|(what, why)| format!("{what}: {why}")).collect();
    if options.trials.is_some() && clusters.is_some() {
        unseen.push("the world: each run has a control plane and servers of its own (`world: kube`)".to_owned());
    }
    servers.close().await;
    if let Some(clusters) = &clusters {
        clusters.end().await;
    }
    let kept = std::mem::take(&mut *world.kept.lock().unwrap_or_else(PoisonError::into_inner));
    if kept.is_empty() {
        host.reap_marked(host.mark(), Duration::from_secs(2)).await;
    }
    let tasks = ends.into_inner().unwrap_or_else(PoisonError::into_inner);
    let nothing_ran = tasks.iter().all(|task| matches!(task.verdict, Verdict::Broken | Verdict::Cancelled));
    let unstarted = world.unstarted.get().or(world.agent_unstarted.get().filter(|_| nothing_ran));
    let secrets = emitter.vault.secrets();
    let mut faults: Vec<String> = unstarted.into_iter().map(|why| secrets.mask(why).into_owned()).collect();
    if let Some(why) = options.journal.as_ref().and_then(|journal| journal.failure()) {
        faults.push(format!("the run was stopped: {why}"));
    } else if let Some(Err(why)) = recording.as_ref().map(|recording| recording.flush()) {
        faults.push(format!("the recording is not complete: {why}"));
    }
    let exit = match heard.first() {
        Some(signal) => signal.exit(),
        None if !faults.is_empty() => 3,
        None => {
            let met = |index: usize, passes: u32, all: u32| match &options.until_decided {
                Some(gate) => gate.decided(passes, all) == Some(true),
                None => passes >= gate_of(plan, options, index).map_or(all, |gate| gate.passes),
            };
            let exit = status(&tasks, options.allow_unchecked, &met, options.exit_zero);
            // A unit that was not started has not passed.
            let all_begun = options.selection.enough.is_none() || tasks.len() >= options.selection.units.len();
            if matches!(exit, 0 | 4) && !all_begun && !options.exit_zero { 1 } else { exit }
        }
    };
    emitter.emit(
        None,
        EventKind::RunFinished { duration: host.elapsed().saturating_sub(started), exit, limits: ledger.limited() },
    );
    let cuts = recording.map(|recording| recording.cuts()).unwrap_or_default();
    RunSummary { exit, written: false, tasks, faults, cuts, kept, unseen, used: Some(ledger.total()) }
}

/// Whether nothing is run because of what tasks lack.
fn refused(lacks: &needs::Lacks, selected: &[usize], options: &RunOptions) -> bool {
    !lacks.is_empty() && (!options.keep_going || lacks.are_of_all(selected))
}

/// Starts the servers and checks that they list the tools that the tasks name.
///
/// # Errors
/// The reason why a server does not start or does not list its tools.
async fn start(
    plan: &EvalPlan,
    selected: &[usize],
    servers: &Servers<'_>,
    isolate: bool,
    mut lacks: needs::Lacks,
) -> Result<needs::Lacks, String> {
    let named = |server: &str| selected.iter().any(|&i| plan.tasks[i].tools().iter().any(|(of, _)| *of == server));
    if isolate && !plan.servers.iter().any(|server| named(&server.name.value)) {
        return Ok(lacks);
    }
    // Each task gets its own servers later; these are only asked for their tools.
    let own = isolate.then(|| servers.another());
    let servers = own.as_ref().unwrap_or(servers);
    for running in servers.all().await? {
        let server = running.hub.name();
        if !named(server) {
            continue;
        }
        let listed = running.names().await.map_err(|why| format!("`{server}` does not list its tools: {why}"))?;
        for &index in selected {
            lacks.add(index, needs::unlisted(&plan.tasks[index], server, &listed));
        }
    }
    if let Some(own) = own {
        own.close().await;
    }
    Ok(lacks)
}

/// The judge, if a selected task uses it; otherwise it need not be available.
fn asked_judge<'p>(plan: &'p EvalPlan, selected: &[usize]) -> Option<&'p Judge> {
    plan.judge.as_ref().filter(|_| selected.iter().any(|&index| plan.tasks[index].judgements() > 0))
}

/// Cost limits of the command line, the eval or a task that cannot be enforced because a price is unknown. If there are any, nothing is
/// run.
pub fn unpriced(
    plan: &EvalPlan,
    selected: &[usize],
    limits: &Bounds,
    prices: Option<&Arc<Prices>>,
    env: &dyn Fn(&str) -> Option<String>,
) -> Vec<String> {
    let of_run = limits.or(&plan.budget.bounds).cost.is_some();
    let limited = |index: &&usize| plan.tasks[**index].bounds.cost.is_some();
    let whose = match (of_run, selected.iter().find(limited)) {
        (true, _) => "the run".to_owned(),
        (false, Some(&index)) => format!("task `{}`", plan.tasks[index].task.name.value),
        (false, None) => return Vec::new(),
    };
    let unknown = |of: &str| match prices {
        Some(_) => format!("{whose} has a limit of cost, and the file of `--prices` has no price for {of}"),
        None => format!("{whose} has a limit of cost, and nothing tells what {of} costs: `--prices` does"),
    };
    let mut faults = Vec::new();
    if usage::price(prices, plan.model.as_deref(), &plan.agent_name).is_none() {
        faults.push(unknown(&format!("`{}`", plan.model.as_deref().unwrap_or(&plan.agent_name))));
    }
    // A judge whose variables are not set is reported elsewhere.
    let judge = asked_judge(plan, selected).and_then(|judge| judge.resolved(env).ok()).filter(|_| of_run);
    if let Some(judge) = judge.filter(|judge| usage::judge_price(prices, Some(judge)).is_none()) {
        faults.push(unknown(&format!("the judge `{}`", judge.title())));
    }
    faults
}

/// The exit status of a run that ran to its end. `met` decides for a task (by index) whether its number of passes out of its number of runs
/// is enough.
pub fn status(tasks: &[TaskEnd], allow_unchecked: bool, met: &dyn Fn(usize, u32, u32) -> bool, exit_zero: bool) -> u8 {
    let mut runs: IndexMap<usize, (u32, u32)> = IndexMap::new();
    for end in tasks {
        let (passes, all) = runs.entry(end.task.index).or_default();
        *passes += u32::from(good(end.verdict, allow_unchecked));
        *all += 1;
    }
    let enough = |(index, (passes, all)): (&usize, &(u32, u32))| met(*index, *passes, *all);
    let exit = if !runs.iter().all(enough) {
        1
    } else if tasks.iter().any(|t| t.cleanup_failed) {
        4
    } else {
        0
    };
    if exit_zero { 0 } else { exit }
}

/// How many runs of a task must pass, if not all: the gate of the command line, otherwise the task's own gate unless the command line sets
/// the number of runs.
pub fn gate_of(plan: &EvalPlan, options: &RunOptions, index: usize) -> Option<Gate> {
    // A single run cannot meet or miss a gate; only all runs together can.
    if !options.selection.units.is_empty() {
        return None;
    }
    let own = || plan.tasks.get(index)?.task.gate.filter(|_| options.runs.is_none());
    options.gate.or_else(|| own().map(|(passes, of)| Gate { passes, of }))
}

fn good(verdict: Verdict, allow_unchecked: bool) -> bool {
    match verdict {
        Verdict::Passed => true,
        Verdict::Unchecked => allow_unchecked,
        Verdict::Failed | Verdict::Broken | Verdict::Cancelled => false,
    }
}

/// API keys that agents and judges use, in any process.
const AGENT_KEYS: [&str; 6] =
    ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "MODEL_KEY", "JUDGE_API_KEY"];

/// Variables that may contain the URL of a model endpoint.
const ENDPOINTS: [&str; 5] =
    ["OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL", "GEMINI_BASE_URL", "MODEL_BASE_URL"];

/// The user name and password in such a URL.
fn url_passwords(plan: &EvalPlan, host: &dyn Host) -> Vec<String> {
    let judge = plan.judge.as_ref().and_then(|judge| judge.env.as_ref()?.base_url.as_ref());
    let urls = ENDPOINTS.into_iter().chain(judge.map(|name| name.value.as_str())).filter_map(|name| host.env(name));
    let users: Vec<String> = urls.filter_map(|url| endpoint::user(&url).map(str::to_owned)).collect();
    let passwords = users.iter().filter_map(|user| Some(user.split_once(':')?.1.to_owned()));
    passwords.chain(users.iter().cloned()).collect()
}

fn secret_variables(plan: &EvalPlan, host: &dyn Host) -> Vec<String> {
    let read = plan.tasks.iter().flat_map(|t| t.process_env.keys()).filter(|name| is_secret_name(name));
    let names = read.chain(&plan.secrets).map(String::as_str).chain(AGENT_KEYS);
    names.filter_map(|name| host.env(name)).collect()
}
