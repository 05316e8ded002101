//! The messages between the workflow, its workers and its client. All of them are JSON that stays in the history of the
//! workflow.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::journal::Carried;

/// The version of the messages. It is part of the name of the queue, so workers and clients of another version use
/// another queue.
pub const VERSION: u32 = 3;
/// How often a unit is started at most if its attempts are lost with their workers.
pub const MOST_LOST: u32 = 5;

/// The request of a client.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Order {
    pub version: u32,
    /// The digest of the pack.
    pub pack: String,
    /// The number of units; they are identified by their indexes.
    pub units: u32,
    /// The maximum number of batches in progress at the same time, over all workers; the units of a batch run one after
    /// another.
    pub parallel: u32,
    /// How long the units of a batch may take together, in seconds; if 0, each unit is a separate batch.
    pub batch: f64,
    /// The indexes after the last unit of each agent and model: a batch contains units of only one of them.
    pub ends: Vec<u32>,
    /// How often a broken unit is run again.
    pub retries: u32,
    /// The maximum duration of the longest unit, in seconds.
    pub longest: u64,
    /// How long a worker may be silent before its units are considered lost, in seconds.
    pub silence: u64,
    /// No unit is started once this much has been spent.
    pub max_cost: Option<f64>,
    /// No unit is started after this many seconds.
    pub max_seconds: Option<f64>,
    pub rates: Vec<Rate>,
    pub so_far: SoFar,
}

/// How often units of a provider may start.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rate {
    /// The units of the provider: for each model, the first index, and the index after the last.
    pub units: Vec<(u32, u32)>,
    /// Seconds from one start to the next.
    pub every: f64,
}

/// The state of a workflow that continues in another one, in Temporal's sense, because a history must not become too
/// long.
#[derive(Clone, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SoFar {
    /// The next unit that was never started.
    pub next: u32,
    /// Units to start again.
    pub again: VecDeque<Try>,
    /// The cost so far.
    pub cost: f64,
    /// When the first of these workflows started, in seconds since 1970.
    pub began: Option<f64>,
    /// When the next unit of each rate may start, in seconds since 1970.
    pub free: Vec<f64>,
    /// Why no more units are started.
    pub stopped: Option<String>,
    /// Units that gevals has given up on.
    pub given_up: Vec<GivenUp>,
    /// The durations of the units that ended last, in seconds.
    pub took: VecDeque<f64>,
    /// The largest number of bytes of history of one batch.
    pub largest: u64,
}

impl SoFar {
    /// Takes the next unit that was never started.
    pub fn never_begun(&mut self) -> Try {
        let next = self.never_begun_yet();
        self.next += 1;
        next
    }

    /// The same, without taking it.
    pub fn never_begun_yet(&self) -> Try {
        Try { unit: self.next, broken: 0, lost: 0 }
    }
}

/// A unit to start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Try {
    pub unit: u32,
    /// How often it was broken, and how often it was lost.
    pub broken: u32,
    pub lost: u32,
}

impl Try {
    /// Whether this is the first attempt. Other attempts are separate batches: the problem may recur, and affect the
    /// other units of the batch.
    pub fn is_fresh(&self) -> bool {
        (self.broken, self.lost) == (0, 0)
    }

    /// The number of the attempt, from 1.
    pub fn number(&self) -> u32 {
        self.broken + self.lost + 1
    }
}

/// A unit without a verdict.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GivenUp {
    pub unit: u32,
    pub why: String,
}

/// An attempt at the units of a batch.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchOrder {
    pub pack: String,
    /// In the order in which they run; all of one agent and one model.
    pub units: Vec<u32>,
    /// From 1; for several units it is the first attempt of each.
    pub attempt: u32,
    /// No unit but the first is started after this many seconds.
    pub seconds: f64,
    /// As in [`Order`].
    pub silence: u64,
}

/// How an attempt at a batch ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchEnd {
    pub ends: Vec<UnitEnd>,
    /// Units that were not started, in order.
    pub left: Vec<u32>,
    /// Units without a result whose process ended, as far as is known, not through their own doing alone.
    pub lost: Vec<u32>,
    /// The results file of the units that have a result, compressed, in base64.
    pub results: Option<String>,
    pub worker: String,
}

/// How an attempt at a unit ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnitEnd {
    pub unit: u32,
    /// The exit status of `gevals exec-unit`.
    pub exit: u8,
    /// As in the results; `None` if there are no results.
    pub outcome: Option<String>,
    pub seconds: f64,
    pub cost: Option<f64>,
    /// Whether its result is among those that were returned.
    pub came_back: bool,
    /// Why its result was not returned; what is left behind, and where.
    pub note: Option<String>,
}

impl UnitEnd {
    /// Whether there is no verdict, and another attempt may produce one.
    pub fn is_broken(&self) -> bool {
        self.exit == 3 || !self.came_back || self.outcome.as_deref() == Some("broken")
    }
}

/// A cleanup after an attempt at a batch that was lost.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CleanupOrder {
    pub pack: String,
    pub units: Vec<u32>,
    pub attempt: u32,
    pub silence: u64,
    pub carried: Carried,
}

/// The result of a cleanup.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CleanupEnd {
    /// The number of cleanups that are done.
    pub done: u32,
    /// Units that still have pending cleanups: they are not run again.
    pub pending: Vec<u32>,
    /// What is left, for people.
    pub left: Vec<String>,
    pub worker: String,
}

/// The result of a workflow.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Done {
    pub so_far: SoFar,
    pub cancelled: bool,
}
