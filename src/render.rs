//! Plans as people and tools see them: text, JSON, pictures. Nothing here acts; outcomes of a run are an argument.

pub mod diff;
mod dot;
pub mod gate;
mod html;
mod json;
mod markdown;
mod mermaid;
pub mod picture;
pub mod proof;
pub mod results;
mod svg;
mod tree;
pub mod why;

use std::{borrow::Cow, collections::BTreeSet, fmt, time::Duration};

use petgraph::Direction;

use crate::{
    builtin::{self, count, excerpt},
    diagnostic::visible,
    event::Outcome,
    hir::{Arg, ArgKind, BlockRole, Def, Dialect, OperationKind},
    package::{Package, package},
    plan::{
        Action, ActionIx, ActionKind, Edge, EvalPlan, Plan, PlanPhase, ProcessVariable, UNSET_TIMEOUT, reach, wire,
    },
    signature::Control,
    source::{Files, Sources},
    template,
    ty::duration,
};

pub use crate::plan::worst_case;

/// One way to show plans.
#[derive(Debug)]
pub struct PlanFormat {
    /// As after `--format`.
    pub name: &'static str,
    pub summary: &'static str,
    /// One document, however many views.
    pub render: fn(&[View<'_>]) -> String,
}

/// All of them; the first is the default.
pub const FORMATS: &[PlanFormat] =
    &[tree::FORMAT, json::FORMAT, dot::FORMAT, mermaid::FORMAT, svg::FORMAT, html::FORMAT, markdown::FORMAT];

/// How something went in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Done {
    pub outcome: Outcome,
    pub duration: Option<Duration>,
}

/// How an action of a task, by their names, went in a run; with an empty name of an action, how the task went.
pub type Outcomes<'a> = &'a (dyn Fn(&str, &str) -> Option<Done> + Sync);

/// What a report of a run says of an action of a task.
pub type Reasons<'a> = &'a (dyn Fn(&str, &str) -> Option<results::Why> + Sync);

/// What a check of a task noticed in a proof.
pub type Noticed<'a> = &'a (dyn Fn(&str, &str) -> Option<String> + Sync);

/// What is shown, and how.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub eval: Option<&'a EvalPlan>,
    pub plans: &'a [Plan],
    pub colour: bool,
    /// Draw with characters beyond ASCII.
    pub unicode: bool,
    /// Show every task whole, however many there are, and every round of a loop over a literal list.
    pub expand: bool,
    pub outcomes: Option<Outcomes<'a>>,
    /// Why an action of a task went as it did.
    pub reasons: Option<Reasons<'a>>,
    /// What `gevals prove` says of a check, or, with an empty name, of a task.
    pub proof: Option<Noticed<'a>>,
    /// What an earlier run of the eval took.
    pub earlier: Option<&'a results::Earlier>,
    /// Where the texts of spans are found, for excerpts.
    pub sources: Option<&'a Sources>,
    /// Where the scripts that tasks refer to are found, for what they touch.
    pub files: Option<&'a dyn Files>,
}

impl<'a> View<'a> {
    /// Plans without outcomes.
    pub fn new(plans: &'a [Plan]) -> Self {
        Self {
            eval: None,
            plans,
            colour: false,
            unicode: true,
            expand: false,
            outcomes: None,
            reasons: None,
            proof: None,
            earlier: None,
            sources: None,
            files: None,
        }
    }

    fn done(&self, plan: &Plan, action: &Action) -> Option<Done> {
        self.outcomes.and_then(|done| done(&plan.task.name.value, &action.id))
    }

    fn proof(&self, plan: &Plan, action: &str) -> Option<String> {
        self.proof.and_then(|says| says(&plan.task.name.value, action))
    }

    fn task_done(&self, plan: &Plan) -> Option<Done> {
        self.outcomes.and_then(|done| done(&plan.task.name.value, ""))
    }

    /// The worst outcome of some actions, and their time together.
    fn phase_done(&self, plan: &Plan, actions: &[ActionIx]) -> Option<Done> {
        let done = actions.iter().filter_map(|&ix| self.done(plan, plan.action(ix)));
        done.reduce(|a, b| Done {
            outcome: results::worse(a.outcome, b.outcome),
            duration: a.duration.zip(b.duration).map(|(a, b)| a.saturating_add(b)),
        })
    }
}

impl fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("tasks", &self.plans.len()).field("expand", &self.expand).finish_non_exhaustive()
    }
}

/// One view of everything, for pictures.
fn together<'a>(views: &[View<'a>], plans: &'a mut Vec<Plan>) -> View<'a> {
    match views {
        [one] => *one,
        _ => {
            plans.extend(views.iter().flat_map(|view| view.plans).cloned());
            View { eval: None, plans, ..views.first().copied().unwrap_or(View::new(&[])) }
        }
    }
}

/// A picture of everything, as a language for graphs writes it: as much as their programs lay out in a few seconds.
fn drawn(views: &[View<'_>], write: fn(&picture::Picture, &mut String) -> std::fmt::Result) -> String {
    let mut plans = Vec::new();
    let view = &together(views, &mut plans);
    let mut out = String::new();
    let mut picture = picture::picture(view, picture::Most { nodes: 150, links: 400 });
    picture.narrow();
    let _ = write(&picture, &mut out);
    out
}

/// The values of other actions that an action uses: `create.name`, `agent.output`; in the order written.
fn uses(plan: &Plan, ix: ActionIx) -> Vec<String> {
    let uses = plan.links_of(ix, Direction::Incoming).filter_map(|(from, edge)| match edge {
        Edge::Data(name) => Some(value_name(plan.action(from), name)),
        _ => None,
    });
    let mut names: Vec<_> = uses.collect();
    // What was added last comes first.
    names.reverse();
    names.dedup();
    names
}

fn value_name(from: &Action, name: &str) -> String {
    match &from.kind {
        ActionKind::Step(step) => format!("{}.{name}", step.id.as_deref().unwrap_or(&from.id)),
        _ => name.to_owned(),
    }
}

/// The bundled extension that a step runs in the place of another one.
fn stand_in(view: &View<'_>, action: &Action) -> Option<String> {
    let ActionKind::Step(step) = &action.kind else { return None };
    let OperationKind::Extension { package: name, .. } = &step.op.kind else { return None };
    let extensions = &view.eval?.extensions;
    let reference = extensions.reference(name);
    match package(reference, extensions.substitute) {
        Ok(Package::Bundled(bundled)) => Some(format!("builtin:{bundled}")).filter(|means| means != reference),
        _ => None,
    }
}

/// What a step expects, where it says so.
fn expected(action: &Action) -> Option<String> {
    let ActionKind::Step(step) = &action.kind else { return None };
    let expect =
        step.expect.as_ref().or_else(|| step.args.iter().find(|(name, _)| name.value == "expect").map(|(_, arg)| arg));
    Some(format!("expects {}", builtin::expected(expect?)))
}

/// Packages that mean a bundled extension, a sentence each.
fn stand_ins(eval: &EvalPlan) -> BTreeSet<String> {
    let used = wire::used_extensions(eval).into_iter();
    let stands = used.filter_map(|used| {
        let means = used.bundled.filter(|means| *means != used.package)?;
        Some(format!("{} means {means}", used.package))
    });
    stands.collect()
}

/// What a task reads, needs, touches, and how long it can take.
fn facts(plan: &Plan, view: &View<'_>) -> Vec<(&'static str, Vec<String>)> {
    let reach = reach::of_task(plan, view.files);
    let variable = |(name, v): (&String, &ProcessVariable)| match v.required {
        true => format!("${name}"),
        false => format!("${name} (if set)"),
    };
    let mut reads: Vec<_> = plan.process_env.iter().map(variable).collect();
    reads.extend(wire::files(plan).into_keys());
    let mut needs: Vec<_> = plan.commands.iter().map(|c| format!("{} on PATH", c.value)).collect();
    needs.extend(plan.step_servers.iter().map(|s| format!("the server {s}")));
    let judge = match reach.judged {
        0 => Vec::new(),
        n => vec![format!("requested by {}", count(n, "step", "steps"))],
    };
    let unset = match plan.task.dialect != Dialect::Portable && plan.timeout == UNSET_TIMEOUT {
        true => " (a default of gevals for tasks without a limit)",
        false => "",
    };
    let cleanup = match plan.members(PlanPhase::Cleanup).next().is_none() {
        true => String::new(),
        false => format!(", then {} for cleanup", duration::format(plan.cleanup_timeout)),
    };
    let worst = duration::format(worst_case(plan));
    let time = vec![format!("at most {}{unset}{cleanup}; worst case {worst}", duration::format(plan.timeout))];
    let listed = |set: BTreeSet<String>| {
        let mut items: Vec<_> = set.iter().take(REACH_SHOWN).map(|item| excerpt(item)).collect();
        if set.len() > REACH_SHOWN {
            items.push(format!("{} more", set.len() - REACH_SHOWN));
        }
        items
    };
    let limits = match plan.bounds.words() {
        words if words.is_empty() => Vec::new(),
        words => vec![format!("the agent may use {}", words.join(", "))],
    };
    let all = [
        ("reads", reads),
        ("needs", needs),
        ("runs", listed(reach.commands)),
        ("calls", listed(reach.tools)),
        ("hosts", listed(reach.hosts)),
        ("paths", listed(reach.paths)),
        ("ns", listed(reach.namespaces)),
        ("creates", listed(reach.creates)),
        ("deletes", listed(reach.deletes)),
        ("leaves", listed(reach.leaves)),
        ("judge", judge),
        ("time", time),
        ("limits", limits),
    ];
    all.into_iter().filter(|(_, values)| !values.is_empty()).collect()
}

/// Of each kind of thing a task touches.
const REACH_SHOWN: usize = 12;

/// The last part of a nested action's id, behind that of the action which holds it.
fn label<'a>(action: &'a Action, above: &str) -> &'a str {
    action.id.strip_prefix(above).and_then(|rest| rest.strip_prefix('/')).unwrap_or(&action.id)
}

/// The keyword of a block that has one.
fn role_name(role: BlockRole) -> &'static str {
    match role {
        BlockRole::Setup => "setup",
        BlockRole::Steps => "steps",
        BlockRole::Branch => "branch",
        BlockRole::Cleanup => "cleanup",
    }
}

/// One line, harmless to terminals and readers: no control characters, none that turn the direction of text.
fn line(text: &str, unicode: bool) -> String {
    let breaks = |byte: u8| matches!(byte, b'\n' | b'\t' | b'\r');
    let text: Cow<'_, str> = match text.bytes().any(breaks) {
        true => text.replace(['\n', '\t', '\r'], " ").into(),
        false => text.into(),
    };
    let text = visible(&text);
    match unicode {
        true => text.into_owned(),
        false if text.is_ascii() => text.into_owned(),
        false => text.replace('…', "...").replace(['“', '”'], "\""),
    }
}

/// As [`line`], and no longer than `most` characters.
fn cut(text: &str, most: usize) -> String {
    let head: String = text.chars().take(most).collect();
    let more = head.len() < text.len();
    line(&head, true) + if more { "…" } else { "" }
}

/// Rounds of one loop that are shown; more make no better picture.
const ROUNDS: usize = 100;

/// The loop variable and its values, where a loop goes over a literal list and is to be shown round by round.
fn rounds(view: &View<'_>, action: &Action) -> Option<(String, Vec<String>)> {
    let ActionKind::Step(step) = &action.kind else { return None };
    let ArgKind::List(items) = &step.args.iter().find(|(name, _)| name.value == "in")?.1.kind else { return None };
    if !view.expand || step.op.signature.control != Control::Each || items.is_empty() || items.len() > ROUNDS {
        return None;
    }
    let value = |arg: &Arg<Def>| arg.as_value().map(|value| template::render(&value));
    Some((step.var.clone()?, items.iter().map(value).collect::<Option<_>>()?))
}

/// A meaning with the values of loop variables in the place of their holes.
fn substituted(meaning: &str, values: &[(String, String)]) -> String {
    values.iter().rev().fold(meaning.to_owned(), |text, (var, value)| text.replace(&format!("{{{var}}}"), value))
}
