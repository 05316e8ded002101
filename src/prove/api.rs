//! Original and conversion on a real Kubernetes API: each without an agent, and each with a solution in its place. Shims can be
//! wrong about Kubernetes; the real API cannot.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::Allowance;
use crate::{
    bash,
    builtin::count,
    cluster::{plane, stock},
    event::{Event, EventKind, Outcome, Verdict},
    hir::{AgentRef, ShellAgent, Template},
    host::{Gathered, RealHost, WithEnv},
    judge::scripted,
    plan::{ActionKind, AgentAction, AgentKind, Judge, Plan},
    run::{Interrupt, RunOptions, interrupts, run_eval},
    source::Spanned,
};

/// How many tasks run in parallel, of those that allow it.
const SIDE_BY_SIDE: usize = 12;
/// How many lines of a step's output are shown.
const SHOWN: usize = 6;

/// Where the proof runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// A context of the user's kubeconfig.
    Context(String),
    /// A control plane started for the proof, on this machine.
    Disposable,
}

impl Place {
    /// Parses the value of `--prove-on`.
    pub fn of(text: &str) -> Self {
        if text == "disposable" { Self::Disposable } else { Self::Context(text.to_owned()) }
    }
}

/// A task and its conversion.
#[derive(Debug)]
pub struct Pair {
    /// The original.
    pub old: Plan,
    /// The conversion.
    pub new: Plan,
    /// A script that does what the agent should do.
    pub solution: Option<PathBuf>,
    /// How the conversion may differ.
    pub allow: Allowance,
}

/// How a run of the original or of the conversion ended.
#[derive(Clone, Debug)]
pub struct End {
    /// Of the task.
    pub verdict: Verdict,
    /// Whether the agent's phase started, that is, whether the setup was done.
    pub agent: bool,
    /// Whether its cleanup failed.
    pub cleanup_failed: bool,
    /// What the steps that did not pass reported and printed, or the reason if there are none.
    pub said: String,
}

impl End {
    fn shown(&self) -> String {
        let verdict = format!("{:?}", self.verdict).to_lowercase();
        let setup = if self.agent { "" } else { ", during setup" };
        let cleanup = if self.cleanup_failed { "; cleanup failed" } else { "" };
        let said = self.said.lines().map(|line| format!("\n      {line}")).collect::<String>();
        format!("{verdict}{setup}{cleanup}{said}")
    }
}

/// The result for a task and its conversion.
#[derive(Clone, Debug, Default)]
pub struct OnApi {
    /// Without an agent: the original and the conversion. `None` if one of them was not run.
    pub idle: Option<[End; 2]>,
    /// With the solution.
    pub solved: Option<[End; 2]>,
    /// How the conversion may differ.
    allow: Allowance,
    /// Why there is no passing world.
    unsolved: Option<String>,
    /// Why the task was not run.
    lacks: Vec<String>,
}

impl OnApi {
    /// How they differ, with what both reported.
    pub fn differs(&self) -> Option<String> {
        let worlds = [("without an agent", &self.idle), ("with the solution", &self.solved)];
        worlds.into_iter().find_map(|(name, ends)| {
            let [old, new] = ends.as_ref()?;
            let passed = |end: &End| end.verdict == Verdict::Passed;
            let verdicts = passed(old) == passed(new) || passed(new) && self.allow.weaker;
            let cleanups = old.cleanup_failed == new.cleanup_failed || new.cleanup_failed && self.allow.cleanup;
            let same = verdicts && cleanups && (old.agent == new.agent || !passed(old) && !passed(new) && new.agent);
            (!same).then(|| format!("{name}\n    original: {}\n    conversion: {}", old.shown(), new.shown()))
        })
    }

    /// What is missing for a proof.
    pub fn lacks(&self) -> Vec<String> {
        let mut lacks = self.lacks.clone();
        match &self.idle {
            Some([old, new]) => match (old.verdict, new.verdict) {
                (Verdict::Passed, Verdict::Passed) => {
                    lacks.push("no failing world: both pass without an agent".to_owned());
                }
                _ if !old.agent && !new.agent => {
                    lacks.push(format!("no failing world: setup fails: {}", first(&old.said)));
                }
                _ => {}
            },
            None if lacks.is_empty() => lacks.push("it was not run".to_owned()),
            None => {}
        }
        match &self.solved {
            Some([old, new]) if old.verdict != Verdict::Passed && new.verdict != Verdict::Passed => {
                lacks.push(format!("no passing world: both fail with the solution: {}", first(&old.said)));
            }
            Some(_) => {}
            None => lacks.extend(self.unsolved.clone()),
        }
        lacks
    }

    /// The JSON of the report.
    pub fn json(&self) -> Value {
        let end = |end: &End| {
            json!({
                "verdict": end.verdict, "setup": end.agent, "cleanupFailed": end.cleanup_failed, "said": end.said,
            })
        };
        let world = |ends: &Option<[End; 2]>| {
            ends.as_ref().map(|[old, new]| json!({"original": end(old), "conversion": end(new)}))
        };
        let (differs, lacks) = (self.differs(), self.lacks());
        json!({
            "proved": differs.is_none() && lacks.is_empty(),
            "withoutAgent": world(&self.idle), "withSolution": world(&self.solved), "differs": differs, "lacks": lacks,
        })
    }

    /// In words: how they differ, what is missing for a proof, or that they agree in both worlds.
    pub fn shown(&self) -> String {
        if let Some(differs) = self.differs() {
            return format!("they differ {differs}");
        }
        let lacks = self.lacks();
        if lacks.is_empty() {
            "both pass and fail in the same cases".to_owned()
        } else {
            format!("unproved: {}", lacks.join("; "))
        }
    }
}

fn first(said: &str) -> &str {
    said.lines().next().unwrap_or("no reason given")
}

/// The result of the proof of all tasks.
#[derive(Debug, Default)]
pub struct Proof {
    /// In the order of the pairs.
    pub tasks: Vec<OnApi>,
    /// What the runs left behind. It was deleted.
    pub left: Vec<String>,
}

/// Why there is no proof.
#[derive(Debug)]
pub enum Fault {
    /// The context does not exist, or this machine cannot start a control plane.
    Usage(String),
    /// The API does not answer, or cannot be started.
    Broken(String),
    /// A signal arrived. What the runs created is deleted.
    Interrupted(Interrupt),
}

/// Runs originals and conversions on an API, in four rounds: all originals, then all conversions, without an agent; then both with the
/// solutions. After each round, what it created is deleted.
///
/// # Errors
/// The API does not exist or does not answer, or a signal arrived. What the runs created is deleted in this case too, as far as possible.
pub async fn on_api(place: &Place, pairs: &[Pair], tell: &dyn Fn(&str)) -> Result<Proof, Fault> {
    let broken = Fault::Broken;
    let mut signals = interrupts().map_err(|e| broken(format!("cannot listen for signals: {e}")))?;
    let folder = tempfile::tempdir().map_err(|e| broken(format!("cannot create a temporary directory: {e}")))?;
    let kubeconfig = match place {
        Place::Context(context) => {
            let text = stock::only(context).map_err(Fault::Usage)?;
            let path = folder.path().join("kubeconfig");
            // Only this user can read the temporary directory.
            fs::write(&path, text).map_err(|e| broken(format!("`{}`: {e}", path.display())))?;
            path
        }
        Place::Disposable => {
            plane::startable().map_err(Fault::Usage)?;
            let folder = folder.path().to_owned();
            let up =
                tokio::task::spawn_blocking(move || plane::up(&folder)).await.map_err(|e| broken(e.to_string()))?;
            up.map_err(|why| broken(format!("cannot start a control plane: {why}")))?
        }
    };
    let proof = in_four(&kubeconfig, pairs, &mut signals, tell).await;
    if *place == Place::Disposable {
        let folder = folder.path().to_owned();
        let down = tokio::task::spawn_blocking(move || plane::down(&folder)).await;
        down.map_err(|e| broken(e.to_string()))?.map_err(broken)?;
    }
    proof
}

/// Does the same with a kubeconfig.
///
/// # Errors
/// As [`on_api`].
pub async fn in_four(
    kubeconfig: &Path,
    pairs: &[Pair],
    signals: &mut UnboundedReceiver<Interrupt>,
    tell: &dyn Fn(&str),
) -> Result<Proof, Fault> {
    let before = stock::Stock::take(kubeconfig).await.map_err(Fault::Broken)?;
    let group = Gathered::enter();
    let host = Arc::new(RealHost::within(&group));
    let mut proof = Proof::default();
    let mut ends: Vec<BTreeMap<usize, End>> = Vec::new();
    let mut faults = Vec::new();
    let worlds = [(false, false), (false, true), (true, false), (true, true)];
    for (solved, converted) in worlds {
        let (one, who) = if converted { ("conversion", "conversions") } else { ("original", "originals") };
        let world = if solved { "with a solution" } else { "without an agent" };
        let tasks: Vec<(usize, Plan)> = pairs
            .iter()
            .enumerate()
            .filter(|(_, pair)| !solved || pair.solution.is_some())
            .map(|(index, pair)| {
                let plan = if converted { &pair.new } else { &pair.old };
                (index, with_agent(plan, pair.solution.as_deref().filter(|_| solved)))
            })
            .collect();
        if tasks.is_empty() {
            ends.push(BTreeMap::new());
            continue;
        }
        tell(&format!("on the real API: {} {world}", count(tasks.len(), one, who)));
        let ran = all(Arc::clone(&host), kubeconfig, tasks, solved).await;
        let mut heard = None;
        let restored = tokio::select! {
            left = before.restore() => left.map_err(|why| Fault::Broken(format!("cannot clean up after the {who} {world}: {why}"))),
            // A signal that arrived during the runs counts.
            () = twice(signals, &mut heard) => Err(Fault::Broken("interrupted: what the tasks created was not deleted".to_owned())),
        };
        if let Some(signal) = ran.stopped.or(heard).or_else(|| signals.try_recv().ok()) {
            restored?;
            return Err(Fault::Interrupted(signal));
        }
        proof.left.extend(restored?.into_iter().map(|what| format!("{what} (the {who}, {world})")));
        faults.extend(ran.faults);
        ends.push(ran.ends);
    }
    faults.sort();
    faults.dedup();
    proof.tasks = pairs.iter().enumerate().map(|(index, pair)| of_pair(index, pair, &ends, &faults)).collect();
    Ok(proof)
}

fn of_pair(index: usize, pair: &Pair, ends: &[BTreeMap<usize, End>], faults: &[String]) -> OnApi {
    let both = |old: usize, new: usize| Some([ends[old].get(&index)?.clone(), ends[new].get(&index)?.clone()]);
    let (idle, solved) = (both(0, 1), both(2, 3));
    let lacks = if idle.is_none() { faults.to_vec() } else { Vec::new() };
    let unsolved = match &pair.solution {
        None => Some(format!("no passing world: the solution `{}.sh` is missing", pair.old.task.name.value)),
        Some(_) => Some("no passing world: it was not run with the solution".to_owned()),
    };
    OnApi { idle, solved, allow: pair.allow, unsolved, lacks }
}

/// Waits until two signals have arrived, and stores the first.
async fn twice(signals: &mut UnboundedReceiver<Interrupt>, heard: &mut Option<Interrupt>) {
    for _ in 0..2 {
        match signals.recv().await {
            Some(signal) => {
                heard.get_or_insert(signal);
            }
            None => std::future::pending().await,
        }
    }
}

/// The plan with an agent that does nothing, or that runs a script.
fn with_agent(plan: &Plan, solution: Option<&Path>) -> Plan {
    let mut plan = plan.clone();
    let judged = plan.judgements() > 0;
    let agent = plan.agent;
    let action = plan.action_mut(agent);
    let span = action.span;
    if let ActionKind::Agent(AgentAction { kind, .. }) = &mut action.kind {
        *kind = match solution {
            Some(script) => {
                let line = format!("bash {}", bash::quote(&script.display().to_string()));
                let run_prompt = Some(Spanned::new(line, span));
                AgentKind::Shell(ShellAgent {
                    span,
                    mcp_server_arg: None,
                    allowed_tool_arg: None,
                    allowed_tools_separator: None,
                    run_prompt,
                    use_virtual_home: None,
                    get_version: None,
                })
            }
            // A judge needs an answer.
            None if judged => {
                let output = Some(Template::literal("nothing was done", span));
                AgentKind::Script { calls: Vec::new(), output, entry: true }
            }
            None => AgentKind::Noop,
        };
    }
    plan
}

struct RanAll {
    ends: BTreeMap<usize, End>,
    faults: Vec<String>,
    stopped: Option<Interrupt>,
}

/// Runs tasks. A judge among their steps approves if the tasks are solved.
async fn all(host: Arc<RealHost>, kubeconfig: &Path, tasks: Vec<(usize, Plan)>, solved: bool) -> RanAll {
    let (indices, plans): (Vec<usize>, Vec<Plan>) = tasks.into_iter().unzip();
    let judge = plans.iter().find(|plan| plan.judgements() > 0).map(|plan| {
        let span = plan.action(plan.agent).span;
        let name = "the judge of this world".to_owned();
        let agent = AgentRef { kind: Spanned::new(name.clone(), span), path: None, model: None, span };
        Judge { name, agent, kind: scripted(solved, span), env: None }
    });
    let eval = super::eval_of(Path::new("."), judge, plans);
    let executable = std::env::current_exe().ok();
    let secrets = crate::run::environment_secrets();
    let options = RunOptions {
        runs: Some(1),
        parallel: SIDE_BY_SIDE,
        keep_going: true,
        allow_unchecked: true,
        executable,
        secrets,
        ..RunOptions::default()
    };
    let (sink, mut events) = unbounded_channel::<Event>();
    let (forward, forwarded) = unbounded_channel();
    let stopped = Arc::new(std::sync::OnceLock::new());
    // Signals go to the run, and the first is noted here as well.
    let listening = interrupts().ok().map(|mut signals| {
        let stopped = Arc::clone(&stopped);
        tokio::spawn(async move {
            while let Some(signal) = signals.recv().await {
                stopped.get_or_init(|| signal);
                let _ = forward.send(signal);
            }
        })
    });
    let world = WithEnv::shared(host, vec![("KUBECONFIG".to_owned(), kubeconfig.display().to_string())]);
    let listen = async {
        let mut told: BTreeMap<usize, (bool, Vec<(String, String)>)> = BTreeMap::new();
        while let Some(event) = events.recv().await {
            let Some(task) = event.task else { continue };
            let (agent, said) = told.entry(task.index).or_default();
            match event.kind {
                EventKind::PhaseStarted { phase } if phase == "agent" => *agent = true,
                EventKind::ActionFinished { action, report } => {
                    // Only the last attempt of a step counts.
                    said.retain(|(known, _)| *known != action);
                    if matches!(report.outcome, Outcome::Failed | Outcome::Broken) {
                        let printed = report.stdout.lines().chain(report.stderr.lines());
                        let printed: Vec<&str> = printed.filter(|line| !line.trim().is_empty()).collect();
                        let last = printed.iter().skip(printed.len().saturating_sub(SHOWN));
                        let lines = last.map(|line| format!("\n  {line}")).collect::<String>();
                        said.push((action.clone(), format!("{action}: {}{lines}", report.message)));
                    }
                }
                _ => {}
            }
        }
        told
    };
    let (summary, mut told) = tokio::join!(run_eval(&eval, &options, Arc::new(world), forwarded, sink), listen);
    if let Some(listening) = listening {
        listening.abort();
    }
    let ends = summary.tasks.into_iter().filter_map(|end| {
        let place = end.task.index;
        let (agent, said) = told.remove(&place).unwrap_or_default();
        let mut lines: Vec<String> = said.into_iter().map(|(_, text)| text).collect();
        if lines.is_empty() && !end.reason.is_empty() {
            lines.push(end.reason);
        }
        let end = End { verdict: end.verdict, agent, cleanup_failed: end.cleanup_failed, said: lines.join("\n") };
        Some((*indices.get(place)?, end))
    });
    RanAll { ends: ends.collect(), faults: summary.faults, stopped: stopped.get().copied() }
}
