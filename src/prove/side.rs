//! One task in one world: what it did, and how two runs differ.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use super::{
    Allowance, Slack,
    files::{Written, written},
    host::{Clock, ProofHost, Stage},
    shim::TASK,
    trace::{self, PAUSE, PHASE, TRACE, WATCHED},
    world::{Call, Dice, Given, Half, Mood, WORLD, World, fits, is_plain_number},
};
use crate::{
    builtin::builtin,
    convert::only_looks,
    event::{EventKind, ExitReport, Outcome, Verdict},
    hir::{AgentRef, Arg, Dialect, Operation, OperationKind, Template},
    host::ROOM,
    judge::scripted,
    plan::{ActionKind, AgentAction, AgentKind, Judge, Plan, planned_id},
    run::{RunOptions, run_eval},
    source::Spanned,
};

/// The result of a run.
#[derive(Debug, Serialize, Deserialize)]
pub struct Ran {
    pub phases: BTreeMap<String, Vec<Call>>,
    /// For each call, whether time passed since the previous one.
    pub late: BTreeMap<String, Vec<bool>>,
    pub passed: bool,
    pub agent: bool,
    pub cleanup_failed: bool,
    /// Actions that were not started because they were given more than a program can be given.
    pub cramped: BTreeSet<String>,
    pub why: String,
    /// How many lines steps that did not pass have printed, without those that report success. For a script that reports each fault,
    /// this is the number of faults.
    complaints: usize,
    /// Planned actions that did not pass in their last attempt, with whether they were carried out at all.
    pub failed: BTreeMap<String, bool>,
    /// Those that did not pass although what they compared was a plain decimal number.
    pub numbers: BTreeSet<String>,
    /// Files as they were when verification started.
    pub made: Option<Written>,
    /// Files as they were at the end.
    pub left: Written,
    /// What shells recorded, if the world is watched.
    pub watched: String,
}

impl Ran {
    /// Whether it passed, or else how far it went, and with how few failures and complaints. Asking the same again is no progress.
    pub fn shown(&self) -> (bool, usize, Reverse<usize>, Reverse<usize>) {
        let calls: BTreeSet<_> = self.before_cleanup().map(|(call, half)| (call.key(), half)).collect();
        (self.passed, calls.len(), Reverse(self.failed.len()), Reverse(self.complaints))
    }

    /// All calls, and when they were made.
    pub fn timed(&self) -> impl Iterator<Item = (&Call, Half)> {
        self.phases.iter().flat_map(|(phase, calls)| {
            let half = Half::of_phase(phase);
            calls.iter().map(move |call| (call, half))
        })
    }

    /// The calls before the cleanup, in their order.
    pub fn before_cleanup(&self) -> impl DoubleEndedIterator<Item = (&Call, Half)> {
        let calls = |phase: &str| {
            let half = Half::of_phase(phase);
            self.phases.get(phase).map_or(&[][..], Vec::as_slice).iter().map(move |call| (call, half))
        };
        calls("setup").chain(calls("agent")).chain(calls("verify"))
    }
}

/// Runs a plan in a world.
///
/// # Errors
/// The jail cannot be prepared, a process does not end, or the task cannot run.
pub async fn ran(plan: &Plan, world: &World, stage: &Arc<Stage>) -> Result<Ran, String> {
    stage.reset()?;
    let _ = fs::remove_file(TRACE);
    let _ = fs::remove_file(WATCHED);
    fs::write(WORLD, serde_json::to_vec(world).map_err(|e| e.to_string())?).map_err(|e| e.to_string())?;
    let (sink, events) = tokio::sync::mpsc::unbounded_channel();
    let (_signals, interrupts) = tokio::sync::mpsc::unbounded_channel();
    let clock = Arc::new(Clock::default());
    let ticking = tokio::spawn(Arc::clone(&clock).tick());
    let host = Arc::new(ProofHost::new(Arc::clone(stage), clock, world.clone(), events));
    let mut plan = plan.clone();
    let judge = judged(&mut plan, world);
    let eval = super::eval_of(Path::new(TASK), judge, vec![plan]);
    let executable = std::env::current_exe().ok();
    let options = RunOptions { runs: Some(1), executable, ..RunOptions::default() };
    let summary = run_eval(&eval, &options, Arc::<ProofHost>::clone(&host), interrupts, sink).await;
    ticking.abort();
    host.listen();
    if stage.watch.has_ended_one() {
        return Err("a process did not exit".to_owned());
    }
    let end = summary.tasks.first().ok_or_else(|| summary.faults.join("; "))?;
    let mut phases: BTreeMap<String, Vec<Call>> = BTreeMap::new();
    let mut late: BTreeMap<String, Vec<bool>> = BTreeMap::new();
    let mut phase = String::new();
    let mut paused = false;
    for line in fs::read_to_string(TRACE).unwrap_or_default().lines() {
        if let Some(name) = line.strip_prefix(PHASE) {
            phase = name.to_owned();
        } else if line == PAUSE.trim_end() {
            paused = true;
        } else if let Ok(call) = serde_json::from_str::<Call>(line) {
            phases.entry(phase.clone()).or_default().push(call);
            late.entry(phase.clone()).or_default().push(std::mem::take(&mut paused));
        }
    }
    let told = host.told.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let agent = told.iter().any(|e| matches!(&e.kind, EventKind::PhaseStarted { phase } if phase == "agent"));
    let mut why = end.reason.clone();
    let mut complaints = 0;
    let mut cramped = BTreeSet::new();
    let mut failed = BTreeMap::new();
    let mut numbers = BTreeSet::new();
    for event in told.iter() {
        let EventKind::ActionFinished { action, report } = &event.kind else { continue };
        if report.outcome == Outcome::Passed {
            failed.remove(&planned_id(action));
            numbers.remove(&planned_id(action));
        } else {
            if matches!(&report.exit, Some(ExitReport::NotStarted { reason }) if reason.contains(ROOM)) {
                cramped.insert(planned_id(action));
            }
            failed.insert(planned_id(action), matches!(report.outcome, Outcome::Failed | Outcome::Broken));
            let mut texts = report.differences.iter().filter(|d| matches!(d.subject.as_str(), "stdout" | "body"));
            if texts.any(|difference| is_plain_number(&difference.actual)) {
                numbers.insert(planned_id(action));
            }
            why += &format!("\n{action}: {:?} {}", report.outcome, report.message);
            let is_fine = |line: &&str| {
                let text = line.to_ascii_lowercase();
                let text = text.trim_start_matches(|c: char| !c.is_alphanumeric());
                line.contains(['✓', '✔', '✅']) || ["ok", "pass", "success"].iter().any(|word| text.starts_with(word))
            };
            complaints += report.stdout.lines().chain(report.stderr.lines()).filter(|line| !is_fine(line)).count();
        }
    }
    let made = host.made.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
    Ok(Ran {
        made,
        left: written(&stage.look()),
        phases,
        late,
        passed: end.verdict == Verdict::Passed,
        agent,
        cleanup_failed: end.cleanup_failed,
        cramped,
        why,
        complaints,
        failed,
        numbers,
        watched: if world.watched { trace::recorded() } else { String::new() },
    })
}

/// If a task asks a judge or reads the agent's answer: gives it an agent that answers, and a judge that approves in good and late
/// worlds, rejects in bad ones, and decides by chance in the others.
fn judged(plan: &mut Plan, world: &World) -> Option<Judge> {
    let judges = plan.judgements() > 0;
    if !judges && world.agent.is_none() {
        return None;
    }
    let content = match world.mood {
        Mood::Good | Mood::Late => true,
        Mood::Bad => false,
        Mood::Silent | Mood::Mixed | Mood::Odd => Dice::new(world.seed, "judge").below(2) > 0,
    };
    if let Some(nth) = world.refuses {
        refuse(plan, nth);
    }
    let agent = plan.agent;
    let action = plan.action_mut(agent);
    let span = action.span;
    if let ActionKind::Agent(AgentAction { kind, .. }) = &mut action.kind {
        let output = Some(Template::literal(world.agent.as_deref().unwrap_or("an answer"), span));
        *kind = AgentKind::Script { calls: Vec::new(), output, entry: true };
    }
    if !judges {
        return None;
    }
    let name = "the judge of this world".to_owned();
    let agent = AgentRef { kind: Spanned::new(name.clone(), span), path: None, model: None, span };
    Some(Judge { name, agent, kind: scripted(content, span), env: None })
}

/// Replaces a question to the judge with a command that fails.
fn refuse(plan: &mut Plan, nth: usize) {
    let mut places = Vec::new();
    plan.walk(&mut |_, ix, action| {
        places.extend(matches!(&action.kind, ActionKind::Step(step) if step.op.signature.judges).then_some(ix));
    });
    let (Some(ix), Some(command)) = (places.get(nth), builtin("command", Dialect::Portable)) else { return };
    let action = plan.action_mut(*ix);
    let span = action.span;
    if let ActionKind::Step(step) = &mut action.kind {
        let (name, signature) = (command.name.to_owned(), Arc::new((command.signature)()));
        step.op = Operation { name, kind: OperationKind::Builtin(command.name), signature };
        step.args = vec![(Spanned::new("run".to_owned(), span), Arg::text("false", span))];
        step.expect = None;
    }
}

/// A command as the shims record it.
pub fn traced(argv: &[String]) -> String {
    let cluster = matches!(argv.first().map(String::as_str), Some("kubectl" | "oc"));
    // The words after `--` belong to another command.
    let end = argv.iter().position(|word| word == "--").unwrap_or(argv.len());
    let handed = |i: &usize| {
        let flag = i.checked_sub(1).filter(|_| cluster && *i < end);
        flag.is_some_and(|i| matches!(argv[i].as_str(), "-f" | "--filename"))
    };
    let words: Vec<&str> = (0..argv.len()).map(|i| if handed(&i) { "-" } else { argv[i].as_str() }).collect();
    words.join("\u{1f}")
}

/// A call as one line. A word with control characters is replaced, because only in programs it can be shell syntax.
fn line(call: &Call) -> String {
    let is_program = call.argv.iter().any(|word| matches!(word.as_str(), "awk" | "sed" | "sh" | "bash" | "-c"));
    let word = |word: &String| match word.contains(|c: char| c.is_control()) && !is_program {
        true => "x".to_owned(),
        false => word.clone(),
    };
    call.argv.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// How two runs differ in a way that no label allows.
pub fn disagreement(a: &Ran, b: &Ran, world: &World, allow: Allowance, asked: &BTreeSet<String>) -> Option<String> {
    let odd = world.loud || world.mood == Mood::Odd || world.given.values().any(Given::is_odd);
    let may = |slack: Slack| slack.lenient || slack.numbers && b.numbers.is_empty() || slack.stronger && odd;
    let stopped = a.agent && !b.agent;
    let failed = a.passed && !b.passed;
    // A run that stops in setup has failed as well.
    let may_fail = may(allow.setup) || may(allow.verify);
    // This needs a label of its own.
    if !b.cramped.is_empty() && (stopped || failed) {
        return Some("a value of 128 KiB is too large for a variable of the conversion".to_owned());
    }
    if stopped && !may(allow.setup) || failed && !(stopped || may(allow.verify)) {
        return Some("the original continues, but the conversion fails".to_owned());
    }
    if (!a.agent && b.agent || !a.passed && b.passed) && !allow.weaker {
        return Some("the original fails, but the conversion continues".to_owned());
    }
    // Where one was killed, the other goes on.
    if world.given.values().any(|given| *given == Given::Hangs) {
        return None;
    }
    // A command in the background may be called at any time.
    let of = |ran: &Ran, phase: &str| -> (Vec<Call>, Vec<bool>) {
        let late = ran.late.get(phase).into_iter().flatten().copied();
        ran.phases.get(phase).into_iter().flatten().cloned().zip(late).filter(|(c, _)| !c.is_aside()).unzip()
    };
    // What runs in the background may do so at any time, but in both.
    let beside = |ran: &Ran| -> BTreeSet<Call> {
        let calls = ran.phases.values().flatten().filter(|call| matches!(call.argv[0].as_str(), "nohup" | "setsid"));
        calls.cloned().collect()
    };
    if a.passed && b.passed && beside(a) != beside(b) {
        return Some("they start different programs in the background".to_owned());
    }
    for phase in ["setup", "verify", "cleanup"] {
        let ((x, late_x), (y, late_y)) = (of(a, phase), of(b, phase));
        let common = x.iter().zip(&y).take_while(|(x, y)| x == y).count();
        // What authors print for people when something has failed.
        let diagnoses = |calls: &[Call]| {
            let tells = |a: &String| matches!(a.as_str(), "describe" | "logs" | "events" | "get" | "top" | "status");
            calls
                .iter()
                .all(|c| c.argv.iter().any(tells) && !c.argv.iter().any(|a| a.contains("jsonpath") || a == "json"))
        };
        let only_look =
            |calls: &[Call]| calls.iter().all(|c| only_looks(&line(c)) || c.argv[0] == "http" && c.argv[1] == "GET");
        let mut sorted = (x[common..].to_vec(), y[common..].to_vec());
        sorted.0.sort();
        sorted.1.sort();
        // Two calls that only read, at the same time, come in either order: `diff <(…) <(…)`.
        let same_looks = sorted.0 == sorted.1 && only_look(&sorted.0);
        // The conversion has these calls as well, but a round or a group skips the rest after a failure.
        let planned = |c: &Call| asked.iter().any(|pattern| fits(pattern, &c.key()));
        let free = match phase {
            "setup" => !a.agent || !b.agent,
            "verify" => !b.passed || !a.passed,
            // The conversion may clean up more, not less.
            _ => allow.cleanup && common == x.len() && b.cleanup_failed,
        };
        // To read more is allowed, to wait longer is not: a wait asks the same again after some time has passed.
        let again = |calls: &[Call], late: &[bool]| {
            common > 0 && late.get(common) == Some(&true) && calls[common] == calls[common - 1]
        };
        let free = free && !again(&x, &late_x) && !again(&y, &late_y);
        let fits = common == x.len() && common == y.len()
            || same_looks
            || free && phase == "cleanup"
            || free
                && only_look(&x[common..])
                && only_look(&y[common..])
                && (common == x.len()
                    || common == y.len()
                    || common > 0 && (diagnoses(&x[common..]) || x.len() == common + 1)
                    || x[common..].iter().all(planned))
            || free && may_fail && common == y.len()
            // A failure stops one and not the other.
            || phase == "verify" && !a.agent && !b.agent;
        if !fits {
            return Some(format!("they call different commands in {phase}"));
        }
    }
    if let (Some(x), Some(y)) = (&a.made, &b.made)
        && x != y
        && a.agent == b.agent
    {
        let differs = x.iter().chain(y).find(|f| x.contains(f) != y.contains(f)).map(|(p, ..)| p.display().to_string());
        return Some(format!("they leave different files: `{}`", differs.unwrap_or_default()));
    }
    if a.agent == b.agent && a.passed == b.passed && a.left != b.left {
        return Some("they leave different files behind".to_owned());
    }
    let cleanups_agree = a.cleanup_failed == b.cleanup_failed || b.cleanup_failed && (allow.cleanup || may_fail);
    (!cleanups_agree).then(|| "a cleanup fails in only one of them".to_owned())
}

/// How often a row of two traces is repeated.
fn repeated(times: usize) -> String {
    if times == 0 { String::new() } else { format!("{:70} | … {times} more\n", format!("… {times} more")) }
}

/// Two traces side by side, for people.
pub fn side_by_side(why: &str, a: &Ran, b: &Ran, world: &World) -> String {
    let lines = |ran: &Ran| -> Vec<String> {
        let mut lines = Vec::new();
        for phase in ["setup", "verify", "cleanup"] {
            lines.push(format!("-- {phase}"));
            lines.extend(ran.phases.get(phase).into_iter().flatten().map(Call::shown));
        }
        lines.push(format!("=> {}", if ran.passed { "passed" } else { "not passed" }));
        lines
    };
    let (left, right) = (lines(a), lines(b));
    let cut = |text: &str| -> String { text.chars().take(70).collect() };
    let but = world.shown();
    let mut out = format!("{why} ({but})\n{:70} | {}\n", "original", "converted");
    let mut again = 0;
    for i in 0..left.len().max(right.len()) {
        let (l, r) = (left.get(i).map_or("", String::as_str), right.get(i).map_or("", String::as_str));
        let sign = if l == r { '|' } else { '≠' };
        // A wait asks the same many times.
        if i > 0 && l == r && left.get(i - 1) == left.get(i) && right.get(i - 1) == right.get(i) {
            again += 1;
            continue;
        }
        out += &repeated(std::mem::take(&mut again));
        // If two lines differ only beyond the part that is shown, show where they differ.
        let same = l.chars().zip(r.chars()).take_while(|(a, b)| a == b).count();
        let from = if l == r || same < 50 { 0 } else { same - 20 };
        let shown = |text: &str| match from {
            0 => cut(text),
            _ => cut(&text.chars().skip(from).fold("…".to_owned(), |text, c| text + c.encode_utf8(&mut [0; 4]))),
        };
        out += &format!("{:70} {sign} {}\n", shown(l), shown(r));
    }
    out += &repeated(again);
    out += &format!("original: {}\nconverted: {}\n", a.why, b.why);
    out
}
