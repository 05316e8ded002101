//! Mutants of what a scripted agent does: each has one thing wrong, which a useful task must notice.

use std::collections::{HashMap, HashSet};

use super::{Action, ActionIx, ActionKind, AgentKind, Edge, Holder, Node, Plan, PlanPhase};
use crate::{
    hir::{Arg, ArgKind, CallKind, Def, Hole, OracleCall, Part, Target, Template, WrongAnswer, WrongKind},
    signature::Control,
    template::SegmentKind,
    ty::Type,
};

/// How many values in the arguments of one call are replaced. Later ones stay unchanged.
const MOST_VALUES: usize = 12;
/// The prefix of the ids of steps that undo what a mutant has created under another name. No step of a task has such an id.
pub const UNDO: &str = "cleanup/~";
/// How many other calls' answers a call gets in place of its own.
const MOST_ANSWERS: usize = 3;

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

/// Returns all mutants of a scripted agent's turn: one call missing, two calls swapped, an argument with another value, a call
/// answered with an error, with nothing or with the answer of another call, no answer at the end. Returns none for an agent that
/// follows no script.
pub fn mutants(plan: &Plan) -> Vec<Mutant> {
    let ActionKind::Agent(agent) = &plan.action(plan.agent).kind else { return Vec::new() };
    let AgentKind::Script { calls, output, entry: true } = &agent.kind else { return Vec::new() };
    let mut out = Vec::new();
    let scripted = |calls: Vec<OracleCall<Def>>, output: Option<Template<Def>>| {
        with(plan, AgentKind::Script { calls, output, entry: true })
    };
    for (nth, call) in calls.iter().enumerate() {
        let name = name(nth, call);
        let cure = format!(
            "a verify step that checks what it does, or the assertion `toolsUsed` with `{}`",
            call.name.display()
        );
        let (fewer, gone, said) = without(calls, output.as_ref(), nth);
        let others: Vec<String> = gone.iter().filter(|&&at| at != nth).map(|at| (at + 1).to_string()).collect();
        let title = match others.as_slice() {
            [] => format!("{name} is not made"),
            [one] => format!("{name} is not made, nor is call {one}, which needs its answer"),
            several => format!("{name} is not made, nor are calls {}, which need its answer", several.join(", ")),
        };
        out.push(Mutant { title, cure, plan: scripted(fewer, said) });
        // A call that needs the answer of the previous call cannot be made before it.
        if let Some(next) = calls.get(nth + 1).filter(|next| !alike(call, next) && !needs(next, nth)) {
            let mut order: Vec<usize> = (0..calls.len()).collect();
            order.swap(nth, nth + 1);
            let mut swapped = calls.clone();
            swapped.swap(nth, nth + 1);
            let mut output = output.clone();
            // The swap is its own inverse.
            renumber(&mut swapped, output.as_mut(), &|at| order.get(at).copied());
            let title = format!("{name} is made after {}", self::name(nth + 1, next));
            let cure = "the assertion `callOrder`, if the order matters".to_owned();
            out.push(Mutant { title, cure, plan: scripted(swapped, output) });
        }
        let values = call
            .args
            .iter()
            .enumerate()
            .flat_map(|(at, (key, arg))| leaves(&key.value, arg).into_iter().map(move |leaf| (at, leaf)));
        for (at, (path, old, changed)) in values.take(MOST_VALUES) {
            let mut calls = calls.clone();
            calls[nth].args[at].1 = changed;
            let key = &call.args[at].0.value;
            let mut plan = scripted(calls, output.clone());
            if let Some(old) = old {
                undo(&mut plan, &old);
            }
            let cure = format!("a verify step that checks the effect of `{key}`");
            out.push(Mutant { title: format!("{name} has a different `{path}`"), cure, plan });
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
    if output.as_ref().is_some_and(|output| !output.parts.is_empty()) {
        let cure = "a verify step that checks `{agent.output}`, if the answer matters".to_owned();
        out.push(Mutant { title: "the answer is empty".to_owned(), cure, plan: scripted(calls.clone(), None) });
    }
    for nth in 0..calls.len() {
        let used = match calls[nth].kind {
            CallKind::Tool => "toolsUsed",
            CallKind::Resource => "resourcesRead",
            CallKind::Prompt => "promptsUsed",
        };
        let cure = format!("a verify step that checks what it does, or `status: ok` in the assertion `{used}`");
        out.push(answered(nth, WrongKind::Error, "fails", &cure));
        // To a script that does not read the answer, all answers are the same.
        if !reads(calls, output.as_ref(), nth) {
            continue;
        }
        let cure = "a verify step that checks what the answer is used for";
        out.push(answered(nth, WrongKind::Empty, "gets an empty answer", cure));
        // Similar calls may have the same answer, and later ones have none yet.
        let others =
            (0..nth).rev().filter(|&other| calls[other].kind == calls[nth].kind && !alike(&calls[other], &calls[nth]));
        for other in others.take(MOST_ANSWERS) {
            let title = match nth - other {
                1 => "gets the answer of the call before it".to_owned(),
                _ => format!("gets the answer of {}", name(other, &calls[other])),
            };
            out.push(answered(nth, WrongKind::Of(other), &title, cure));
        }
    }
    out
}

fn name(nth: usize, call: &OracleCall<Def>) -> String {
    format!("call {} ({}.{})", nth + 1, call.server.value, call.name.display())
}

/// Returns the calls without the nth and those that need its answer, the indexes of the removed calls, and the output without the
/// holes that their answers fill. Other references to calls still refer to the same calls.
fn without(
    calls: &[OracleCall<Def>],
    output: Option<&Template<Def>>,
    nth: usize,
) -> (Vec<OracleCall<Def>>, Vec<usize>, Option<Template<Def>>) {
    let mut gone = vec![nth];
    for (at, call) in calls.iter().enumerate().skip(nth + 1) {
        if gone.iter().any(|&missing| needs(call, missing)) {
            gone.push(at);
        }
    }
    let mut fewer: Vec<_> =
        calls.iter().enumerate().filter(|(at, _)| !gone.contains(at)).map(|(_, call)| call.clone()).collect();
    let mut output = output.cloned();
    if let Some(output) = &mut output {
        output.parts.retain(|part| match part {
            Part::Hole(hole) => !gone.iter().any(|&missing| refers(hole, missing)),
            Part::Text(_) => true,
        });
    }
    let place = |at: usize| (!gone.contains(&at)).then(|| at - gone.iter().filter(|&&missing| missing < at).count());
    renumber(&mut fewer, output.as_mut(), &place);
    (fewer, gone, output)
}

/// Whether a hole is filled with something from the answer of the nth call.
fn refers(hole: &Hole<Def>, nth: usize) -> bool {
    let index = i64::try_from(nth).map(SegmentKind::Index);
    hole.reference.target == Target::Calls && hole.reference.segments.first() == index.as_ref().ok()
}

/// Whether a call cannot be made without the answer of the nth call.
fn needs(call: &OracleCall<Def>, nth: usize) -> bool {
    let mut found = false;
    let mut look = |text: &Template<Def>| found |= text.holes().any(|hole| refers(hole, nth) && !hole.has_default());
    look(&call.name);
    call.args.iter().for_each(|(_, arg)| arg.templates(&mut look));
    found
}

/// Whether a later call or the output uses the answer of the nth call.
fn reads(calls: &[OracleCall<Def>], output: Option<&Template<Def>>, nth: usize) -> bool {
    let mut found = false;
    let mut look = |text: &Template<Def>| {
        found |= text.holes().any(|hole| {
            // A hole for all calls includes this one.
            hole.reference.target == Target::Calls && (hole.reference.segments.is_empty() || refers(hole, nth))
        });
    };
    for call in calls {
        look(&call.name);
        call.args.iter().for_each(|(_, arg)| arg.templates(&mut look));
    }
    output.into_iter().for_each(look);
    found
}

/// Updates references to calls to the new indexes of these calls.
fn renumber(calls: &mut [OracleCall<Def>], output: Option<&mut Template<Def>>, place: &dyn Fn(usize) -> Option<usize>) {
    let mut move_on = |text: &mut Template<Def>| {
        for part in &mut text.parts {
            let Part::Hole(hole) = part else { continue };
            if hole.reference.target == Target::Calls
                && let Some(SegmentKind::Index(index)) = hole.reference.segments.first_mut()
                && let Some(new) = usize::try_from(*index).ok().and_then(place)
            {
                *index = i64::try_from(new).unwrap_or(i64::MAX);
            }
        }
    };
    for call in calls {
        move_on(&mut call.name);
        call.args.iter_mut().for_each(|(_, arg)| each_template(arg, &mut move_on));
    }
    output.into_iter().for_each(move_on);
}

fn each_template(arg: &mut Arg<Def>, visit: &mut dyn FnMut(&mut Template<Def>)) {
    match &mut arg.kind {
        ArgKind::Text(text) => visit(text),
        ArgKind::List(items) => items.iter_mut().for_each(|item| each_template(item, visit)),
        ArgKind::Record(fields) => fields.iter_mut().for_each(|(_, field)| each_template(field, visit)),
        _ => {}
    }
}

fn alike(one: &OracleCall<Def>, other: &OracleCall<Def>) -> bool {
    let args = |call: &OracleCall<Def>| -> HashMap<String, String> {
        call.args.iter().map(|(name, arg)| (name.value.clone(), written(arg))).collect()
    };
    one.server.value == other.server.value && one.name.display() == other.name.display() && args(one) == args(other)
}

/// Formats a value as text. Equal values have the same text, wherever they are written.
fn written(arg: &Arg<Def>) -> String {
    match &arg.kind {
        ArgKind::Null => "null".to_owned(),
        ArgKind::Bool(value) => value.to_string(),
        ArgKind::Int(n) => n.to_string(),
        ArgKind::Float(x) => x.to_string(),
        ArgKind::Text(text) => format!("{:?}", text.display()),
        ArgKind::List(items) => format!("[{}]", items.iter().map(written).collect::<Vec<_>>().join(", ")),
        ArgKind::Record(fields) => {
            let fields = fields.iter().map(|(key, field)| format!("{:?}: {}", key.value, written(field)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
    }
}

/// For each place in a value, returns its path, the text that was there, and the whole value with another one at that place.
fn leaves(path: &str, arg: &Arg<Def>) -> Vec<(String, Option<Template<Def>>, Arg<Def>)> {
    let one = |kind: ArgKind<Def>| vec![(path.to_owned(), None, Arg { kind, span: arg.span })];
    match &arg.kind {
        ArgKind::Bool(value) => one(ArgKind::Bool(!value)),
        ArgKind::Int(n) => one(ArgKind::Int(if *n == i64::MAX { 0 } else { n + 1 })),
        ArgKind::Float(_) => one(ArgKind::Int(7)),
        ArgKind::Null => one(ArgKind::Text(Template::literal("another", arg.span))),
        ArgKind::Text(text) => {
            let kind = ArgKind::Text(another(text));
            vec![(path.to_owned(), Some(text.clone()), Arg { kind, span: arg.span })]
        }
        ArgKind::List(items) if items.is_empty() => one(ArgKind::List(vec![Arg::text("another", arg.span)])),
        ArgKind::List(items) => {
            let each = items.iter().enumerate().flat_map(|(at, item)| {
                leaves(&format!("{path}[{at}]"), item).into_iter().map(move |(path, old, changed)| {
                    let mut items = items.clone();
                    items[at] = changed;
                    (path, old, Arg { kind: ArgKind::List(items), span: arg.span })
                })
            });
            each.collect()
        }
        // An empty record stays empty: it may not allow any fields.
        ArgKind::Record(fields) => {
            let each = fields.iter().enumerate().flat_map(|(at, (key, field))| {
                leaves(&format!("{path}.{}", key.value), field).into_iter().map(move |(path, old, changed)| {
                    let mut fields = fields.clone();
                    fields[at].1 = changed;
                    (path, old, Arg { kind: ArgKind::Record(fields), span: arg.span })
                })
            });
            each.collect()
        }
    }
}

/// Returns another text that no other run has, so that what is created under that name does not collide with leftovers of an earlier
/// run.
fn another(text: &Template<Def>) -> Template<Def> {
    let id = Hole {
        reference: Def { target: Target::RandomId, segments: Vec::new(), ty: Type::String },
        filters: Vec::new(),
        text: "{random.id}".to_owned(),
        span: text.span,
        spans: Vec::new(),
        filter_spans: Vec::new(),
    };
    let parts = vec![Part::Text("another value ".to_owned()), Part::Hole(Box::new(id))];
    Template { parts, span: text.span, suspects: Vec::new() }
}

/// Cleans up what a mutant creates under another name. Before the cleanup of the task, which uses the name from the script, the steps
/// of the cleanup that get this name run with the other one.
fn undo(plan: &mut Plan, old: &Template<Def>) {
    let Some(first) = plan.members(PlanPhase::Cleanup).next() else { return };
    let shown = old.display();
    if shown.is_empty() {
        return;
    }
    let fits = |text: &Template<Def>| text.display() == shown;
    let mut made: HashSet<String> = HashSet::new();
    let mut again: Vec<Action> = Vec::new();
    // The branches of an `anyOf` are separate steps here: each cleans up what exists, or finds that nothing exists.
    let is_any = |ix: &ActionIx| matches!(&plan.action(*ix).kind, ActionKind::Step(step) if step.op.signature.control == Control::Any);
    let steps = plan.members(PlanPhase::Cleanup).flat_map(|ix| {
        let branches = Some(ix).filter(is_any).into_iter().flat_map(|any| plan.nested(any));
        std::iter::once(ix).chain(branches)
    });
    for ix in steps {
        let action = plan.action(ix);
        let ActionKind::Step(step) = &action.kind else { continue };
        let mut uses = false;
        step.args.iter().for_each(|(_, arg)| arg.templates(&mut |text| uses |= fits(text)));
        if !uses || !action.is_leaf() || step.outputs.as_ref().is_some_and(|outputs| !outputs.is_empty()) {
            continue;
        }
        let mut action = action.clone();
        action.id = format!("{UNDO}{}", action.id.trim_start_matches("cleanup/"));
        action.continue_on_error = true;
        if let ActionKind::Step(step) = &mut action.kind {
            // Later steps use the outputs of the task's own steps.
            step.id = None;
            for (_, arg) in &mut step.args {
                each_template(arg, &mut |text| {
                    if fits(text) {
                        *text = another(text);
                    }
                });
            }
        }
        if made.insert(action.id.clone()) {
            again.push(action);
        }
    }
    let mut before = first;
    for action in again.into_iter().rev() {
        let ix = plan.graph.add_node(Node::Action(Box::new(action)));
        plan.graph.add_edge(Holder::from(PlanPhase::Cleanup).0, ix, Edge::Holds);
        plan.graph.add_edge(ix, before, Edge::Order);
        before = ix;
    }
}

fn with(plan: &Plan, kind: AgentKind) -> Plan {
    let mut plan = plan.clone();
    let agent = plan.agent;
    if let ActionKind::Agent(turn) = &mut plan.action_mut(agent).kind {
        turn.kind = kind;
    }
    // One at a time, and once: each must find the environment that the previous one left.
    plan.task.parallel = false;
    (plan.task.runs, plan.task.gate) = (1, None);
    plan
}

/// Returns the same task, run once and on its own.
pub fn once(plan: &Plan) -> Plan {
    match &plan.action(plan.agent).kind {
        ActionKind::Agent(agent) => with(plan, agent.kind.clone()),
        _ => plan.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::source::{Sources, Span};

    #[test]
    fn each_value_in_an_argument_is_changed_separately() {
        let file = Sources::default().add("oracle.yaml", "");
        let value = json!({"a": {"none": {}, "ports": [80, true]}, "b": [], "c": null});
        let arg = Arg::of_value(&value, Span::new(file, 0..0));
        let found: Vec<(String, Value)> =
            leaves("p", &arg).into_iter().map(|(path, _, changed)| (path, changed.as_value().unwrap())).collect();
        let with = |at: &str, new: Value| {
            let mut value = value.clone();
            *value.pointer_mut(at).unwrap() = new;
            value
        };
        let wanted = [
            ("p.a.ports[0]".to_owned(), with("/a/ports/0", json!(81))),
            ("p.a.ports[1]".to_owned(), with("/a/ports/1", json!(false))),
            ("p.b".to_owned(), with("/b", json!(["another"]))),
            ("p.c".to_owned(), with("/c", json!("another"))),
        ];
        assert_eq!(found, wanted);
    }
}
