//! Mutants of what a scripted agent does: in each one thing is wrong, and a task that is worth something must notice.

use std::collections::HashMap;

use super::{ActionKind, AgentKind, Plan};
use crate::{
    hir::{Arg, ArgKind, CallKind, Def, OracleCall, Target, Template, WrongAnswer, WrongKind},
    template::SegmentKind,
};

/// A plan whose agent does one thing wrong.
#[derive(Clone, Debug)]
pub struct Mutant {
    pub title: String,
    /// What would notice it.
    pub cure: String,
    pub plan: Plan,
}

/// The same task with an agent that does nothing.
pub fn idle(plan: &Plan) -> Plan {
    with(plan, AgentKind::Noop)
}

/// Every mutant of a scripted agent's turn: a call less, two calls exchanged, an argument with another value, a call that is answered
/// with an error, with nothing or with the answer of another, no answer at the end. None of an agent that follows no script.
pub fn mutants(plan: &Plan) -> Vec<Mutant> {
    let ActionKind::Agent(agent) = &plan.action(plan.agent).kind else { return Vec::new() };
    let AgentKind::Script { calls, output, entry: true } = &agent.kind else { return Vec::new() };
    let mut out = Vec::new();
    let mut add = |title: String, cure: String, calls: Vec<OracleCall<Def>>, output: Option<Template<Def>>| {
        out.push(Mutant { title, cure, plan: with(plan, AgentKind::Script { calls, output, entry: true }) });
    };
    for (nth, call) in calls.iter().enumerate() {
        let name = name(nth, call);
        let mut fewer = calls.clone();
        fewer.remove(nth);
        let cure = format!(
            "a verify step that looks at what it does, or the assertion `toolsUsed` with `{}`",
            call.name.display()
        );
        add(format!("{name} is not made"), cure, fewer, output.clone());
        if let Some(next) = calls.get(nth + 1).filter(|next| !alike(call, next)) {
            let mut swapped = calls.clone();
            swapped.swap(nth, nth + 1);
            let cure = "the assertion `callOrder`, if the order matters".to_owned();
            add(format!("{name} is made after {}", self::name(nth + 1, next)), cure, swapped, output.clone());
        }
        for (at, (key, arg)) in call.args.iter().enumerate() {
            let mut changed = calls.clone();
            changed[nth].args[at].1 = other(arg);
            let cure = format!("a verify step that looks at what `{}` leads to", key.value);
            add(format!("{name} has another `{}`", key.value), cure, changed, output.clone());
        }
    }
    let answered = |nth: usize, kind, title: &str, cure: &str| {
        let mut plan = once(plan);
        let agent = plan.agent;
        if let ActionKind::Agent(turn) = &mut plan.action_mut(agent).kind {
            turn.wrong = Some(WrongAnswer { call: nth, kind });
        }
        Mutant { title: format!("{} {title}", name(nth, &calls[nth])), cure: cure.to_owned(), plan }
    };
    let mut wrong = Vec::new();
    for nth in 0..calls.len() {
        let used = match calls[nth].kind {
            CallKind::Tool => "toolsUsed",
            CallKind::Resource => "resourcesRead",
            CallKind::Prompt => "promptsUsed",
        };
        let cure = format!("a verify step that looks at what it does, or `status: ok` in the assertion `{used}`");
        wrong.push(answered(nth, WrongKind::Error, "fails", &cure));
        // To a script that does not read an answer all answers are one.
        if !reads(calls, output.as_ref(), nth) {
            continue;
        }
        let cure = "a verify step that looks at what the answer is used for";
        wrong.push(answered(nth, WrongKind::Empty, "is answered with nothing", cure));
        if nth > 0 && calls[nth - 1].kind == calls[nth].kind {
            wrong.push(answered(nth, WrongKind::Previous, "has the answer of the call before it", cure));
        }
    }
    if output.as_ref().is_some_and(|output| !output.parts.is_empty()) {
        let cure = "a verify step that looks at `{agent.output}`, if the answer matters".to_owned();
        add("the answer is empty".to_owned(), cure, calls.clone(), None);
    }
    out.extend(wrong);
    out
}

fn name(nth: usize, call: &OracleCall<Def>) -> String {
    format!("call {} ({}.{})", nth + 1, call.server.value, call.name.display())
}

/// Whether a later call or the output uses the answer of the nth call.
fn reads(calls: &[OracleCall<Def>], output: Option<&Template<Def>>, nth: usize) -> bool {
    let mut found = false;
    let mut look = |text: &Template<Def>| {
        found |= text.holes().any(|hole| {
            let first = hole.reference.segments.first();
            hole.reference.target == Target::Calls
                && first.is_none_or(|segment| i64::try_from(nth).is_ok_and(|nth| *segment == SegmentKind::Index(nth)))
        });
    };
    for call in calls {
        look(&call.name);
        call.args.iter().for_each(|(_, arg)| arg.templates(&mut look));
    }
    output.into_iter().for_each(look);
    found
}

fn alike(one: &OracleCall<Def>, other: &OracleCall<Def>) -> bool {
    let args = |call: &OracleCall<Def>| -> HashMap<String, String> {
        call.args.iter().map(|(name, arg)| (name.value.clone(), format!("{:?}", arg.kind))).collect()
    };
    one.server.value == other.server.value && one.name.display() == other.name.display() && args(one) == args(other)
}

/// Another value of the same type.
fn other(arg: &Arg<Def>) -> Arg<Def> {
    let text = |text: &str| ArgKind::Text(Template::literal(text, arg.span));
    let kind = match &arg.kind {
        ArgKind::Bool(value) => ArgKind::Bool(!value),
        ArgKind::Int(n) => ArgKind::Int(if *n == i64::MAX { 0 } else { n + 1 }),
        ArgKind::Float(_) => ArgKind::Int(7),
        ArgKind::List(items) => match items.split_first() {
            Some((first, rest)) => ArgKind::List(std::iter::once(other(first)).chain(rest.iter().cloned()).collect()),
            None => ArgKind::List(vec![Arg::text("another", arg.span)]),
        },
        ArgKind::Record(fields) => match fields.split_first() {
            Some(((name, first), rest)) => {
                ArgKind::Record(std::iter::once((name.clone(), other(first))).chain(rest.iter().cloned()).collect())
            }
            None => ArgKind::Record(Vec::new()),
        },
        ArgKind::Null => text("another"),
        ArgKind::Text(_) => text("another value"),
    };
    Arg { kind, span: arg.span }
}

fn with(plan: &Plan, kind: AgentKind) -> Plan {
    let mut plan = plan.clone();
    let agent = plan.agent;
    if let ActionKind::Agent(turn) = &mut plan.action_mut(agent).kind {
        turn.kind = kind;
    }
    // One at a time, and once: each is to meet the world that the one before it left.
    plan.task.parallel = false;
    (plan.task.runs, plan.task.gate) = (1, None);
    plan
}

/// The same task, run once and by itself.
pub fn once(plan: &Plan) -> Plan {
    match &plan.action(plan.agent).kind {
        ActionKind::Agent(agent) => with(plan, agent.kind.clone()),
        _ => plan.clone(),
    }
}
