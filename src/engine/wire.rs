//! What the workflow, its workers and its client tell each other. All of it is JSON that stays in the history of the workflow.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::journal::Carried;

/// Of what is told; a worker does not take up what is newer than it.
pub const VERSION: u32 = 1;
/// How often a unit is begun at most whose attempts are lost with their workers.
pub const MOST_LOST: u32 = 5;

/// What a client asks for.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Order {
    pub version: u32,
    /// The digest of the pack.
    pub pack: String,
    /// How many units it has; they are called by their places in it.
    pub units: u32,
    /// How many are under way at a time, on all workers together.
    pub parallel: u32,
    /// How often a unit is run again that is broken.
    pub retries: u32,
    /// How long the longest unit may take, in seconds.
    pub longest: u64,
    /// How long a worker may be silent before its units are lost, in seconds.
    pub silence: u64,
    /// No unit is begun once so much was spent.
    pub max_cost: Option<f64>,
    /// No unit is begun after so many seconds.
    pub max_seconds: Option<f64>,
    pub rates: Vec<Rate>,
    pub so_far: SoFar,
}

/// How often units of a provider may begin.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rate {
    /// Of its units, the first place and the one behind the last, for each model.
    pub units: Vec<(u32, u32)>,
    /// Seconds from one to the next.
    pub every: f64,
}

/// What there is to know of a workflow that goes on in another one, as Temporal has it: a history must not become too long.
#[derive(Clone, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SoFar {
    /// The next unit that was never begun.
    pub next: u32,
    /// Those that are begun again.
    pub again: VecDeque<Try>,
    /// What was spent.
    pub cost: f64,
    /// When the first of these workflows began, in seconds since 1970.
    pub began: Option<f64>,
    /// When the next unit of each rate may begin, likewise.
    pub free: Vec<f64>,
    /// Why nothing is begun any more.
    pub stopped: Option<String>,
    /// Units that were given up.
    pub given_up: Vec<GivenUp>,
}

/// A unit that is to be begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Try {
    pub unit: u32,
    /// How often it was broken, and how often lost.
    pub broken: u32,
    pub lost: u32,
}

/// A unit without a verdict.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GivenUp {
    pub unit: u32,
    pub why: String,
}

/// An attempt at a unit.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnitOrder {
    pub pack: String,
    pub unit: u32,
    /// From 1.
    pub attempt: u32,
    /// As in [`Order`].
    pub silence: u64,
}

/// How an attempt ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnitEnd {
    pub unit: u32,
    /// Of `gevals exec-unit`.
    pub exit: u8,
    /// As in the results; none where there are no results.
    pub outcome: Option<String>,
    pub seconds: f64,
    pub cost: Option<f64>,
    /// The results file, compressed, in base64.
    pub results: Option<String>,
    /// Why there are none; what is left behind, and where.
    pub note: Option<String>,
    pub worker: String,
}

impl UnitEnd {
    /// Whether there is no answer, and another attempt may bring one.
    pub fn is_broken(&self) -> bool {
        self.exit == 3 || self.results.is_none() || self.outcome.as_deref() == Some("broken")
    }
}

/// A cleanup after an attempt that was lost.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CleanupOrder {
    pub pack: String,
    pub unit: u32,
    pub attempt: u32,
    pub silence: u64,
    pub carried: Carried,
}

/// What it came to.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CleanupEnd {
    pub unit: u32,
    /// Cleanups that are done.
    pub done: u32,
    /// Whether something is still pending: then the unit is not run again.
    pub pending: bool,
    /// What is left, for people.
    pub left: Vec<String>,
    pub worker: String,
}

/// What a workflow came to.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Done {
    pub so_far: SoFar,
    pub cancelled: bool,
}
