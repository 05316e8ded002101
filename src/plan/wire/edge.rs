//! How the actions of a task depend on each other.

use schemars::JsonSchema;
use serde::Serialize;

use crate::plan::{Edge, Plan};

/// A dependency of one action on another.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EdgeDocument {
    pub from: String,
    pub to: String,
    pub kind: EdgeKind,
    /// The value that is passed (`data`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// The kind of dependency between two actions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum EdgeKind {
    /// `to` runs after `from`.
    Order,
    /// `to` uses a value of `from`.
    Data,
    /// The cleanup `to` is pending once `from` has started.
    Finally,
    /// `to` starts a branch of `from`.
    Branch,
}

/// Returns the kind of an edge between actions, and the value that flows. `None` for an edge by which a phase, action or
/// block contains something: actions are nested in it.
pub fn kind_of(edge: &Edge) -> Option<(EdgeKind, Option<String>)> {
    match edge {
        Edge::Holds => None,
        Edge::Order => Some((EdgeKind::Order, None)),
        Edge::Data(name) => Some((EdgeKind::Data, Some(name.to_string()))),
        Edge::Finally => Some((EdgeKind::Finally, None)),
        Edge::Branch => Some((EdgeKind::Branch, None)),
    }
}

pub(super) fn edges(plan: &Plan) -> Vec<EdgeDocument> {
    let edges = plan.links().filter_map(|(from, to, edge)| {
        let (kind, name) = kind_of(edge)?;
        Some(EdgeDocument { from: plan.action(from).id.clone(), to: plan.action(to).id.clone(), kind, name })
    });
    let mut edges: Vec<_> = edges.collect();
    // The order in which an author wrote holes and variables has no effect.
    edges.sort_by(|a, b| {
        let key = |e: &EdgeDocument| e.kind as u8;
        (&a.from, &a.to, key(a), &a.name).cmp(&(&b.from, &b.to, key(b), &b.name))
    });
    edges
}
