//! Why a step runs when it does: what it waits for, what waits for it, and the shortest way to it from the start of the task.

use indexmap::IndexSet;
use petgraph::{Direction, algo::astar, visit::EdgeFiltered};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    ActionIx, ActionKind, Edge, Plan, PlanPhase, planned_id,
    wire::{self, EdgeKind},
};
use crate::diagnostic::nearest;

/// The version of [`Answer`] as JSON.
pub const VERSION: u32 = 1;

/// The answer for a step, in each task that contains it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    pub version: u32,
    pub steps: Vec<Why>,
}

/// Why a step runs when it does: what it waits for, and what waits for it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Why {
    pub task: String,
    /// The ID of the action in the plan.
    pub id: String,
    /// A one-line human-readable description.
    pub meaning: String,
    /// The actions that it waits for, in plan order.
    pub waits_for: Vec<Link>,
    pub waited_for_by: Vec<Link>,
    /// The shortest path from the first action of the task to this one; the first link has no reason.
    pub path: Vec<Link>,
}

/// Another action, and the reasons why one waits for the other.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Link {
    pub id: String,
    pub meaning: String,
    pub by: Vec<Reason>,
}

/// Why one of two actions waits for the other.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Reason {
    pub kind: EdgeKind,
    /// The value that is passed (`data`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Returns why an action runs when it does.
pub fn why(plan: &Plan, ix: ActionIx) -> Why {
    let around = |direction| {
        let mut others: Vec<_> = plan.links_of(ix, direction).map(|(other, _)| other).collect();
        others.sort();
        others.dedup();
        let link = |other| match direction {
            Direction::Incoming => link(plan, other, Some((other, ix))),
            Direction::Outgoing => link(plan, other, Some((ix, other))),
        };
        others.into_iter().map(link).collect()
    };
    let links = EdgeFiltered::from_fn(&plan.graph, |edge| *edge.weight() != Edge::Holds);
    let start = PlanPhase::ALL.into_iter().flat_map(|phase| plan.members(phase)).next().unwrap_or(plan.agent);
    let path = astar(&links, start, |at| at == ix, |_| 1, |_| 0).map(|(_, path)| path).unwrap_or_default();
    let before = std::iter::once(None).chain(path.iter().map(|&ix| Some(ix)));
    let action = plan.action(ix);
    Why {
        task: plan.task.name.value.clone(),
        id: action.id.clone(),
        meaning: action.meaning.clone(),
        waits_for: around(Direction::Incoming),
        waited_for_by: around(Direction::Outgoing),
        path: before.zip(&path).map(|(before, &at)| link(plan, at, before.map(|before| (before, at)))).collect(),
    }
}

fn link(plan: &Plan, ix: ActionIx, between: Option<(ActionIx, ActionIx)>) -> Link {
    let action = plan.action(ix);
    let edges = between.into_iter().flat_map(|(from, to)| plan.graph.edges_connecting(from, to));
    let reasons = edges.filter_map(|edge| wire::kind_of(edge.weight()));
    let mut by: Vec<_> = reasons.map(|(kind, name)| Reason { kind, name }).collect();
    by.sort();
    Link { id: action.id.clone(), meaning: action.meaning.clone(), by }
}

/// Returns the action with this id, or else those whose step has this id.
pub fn find(plan: &Plan, name: &str) -> Vec<ActionIx> {
    let (mut exact, mut named) = (None, Vec::new());
    let planned = planned_id(name);
    plan.walk(&mut |_, ix, action| {
        if action.id == planned {
            exact = Some(ix);
        }
        if step_id(&action.kind) == Some(name) {
            named.push(ix);
        }
    });
    exact.map_or(named, |ix| vec![ix])
}

/// Returns names that may be meant by an unknown one: the nearest one, and those with the same last part.
pub fn near(name: &str, names: &[&str]) -> Vec<String> {
    const MOST: usize = 5;
    let parts = names.iter().copied().filter(|other| other.rsplit('/').next() == name.rsplit('/').next());
    let mut near: IndexSet<&str> = nearest(name, names.iter().copied()).into_iter().chain(parts).collect();
    near.truncate(MOST);
    near.into_iter().map(|name| format!("`{name}`")).collect()
}

/// Returns the other name by which a step can be requested.
pub fn step_id(kind: &ActionKind) -> Option<&str> {
    match kind {
        ActionKind::Step(step) => step.id.as_deref(),
        ActionKind::Agent(_) | ActionKind::Assertion(_) => None,
    }
}
