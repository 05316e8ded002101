//! What the workflow, its workers and its client tell each other. All of it is JSON that stays in the history of the workflow.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::journal::Carried;

/// Of what is told. It is part of the name of the queue: workers and clients of another version have another one.
pub const VERSION: u32 = 3;
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
    /// How many batches of them are under way at a time, on all workers together; the units of a batch run one after another.
    pub parallel: u32,
    /// How long the units of a batch may take together, in seconds; where it is 0, each is a batch by itself.
    pub batch: f64,
    /// The first places behind the units of each agent and model: a batch is of one of them.
    pub ends: Vec<u32>,
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
    /// How long those took that ended last, in seconds.
    pub took: VecDeque<f64>,
    /// How many bytes of history a batch had at most.
    pub largest: u64,
}

impl SoFar {
    /// The next unit that was never begun, which is begun now.
    pub fn never_begun(&mut self) -> Try {
        let next = self.never_begun_yet();
        self.next += 1;
        next
    }

    /// The same, which is not begun yet.
    pub fn never_begun_yet(&self) -> Try {
        Try { unit: self.next, broken: 0, lost: 0 }
    }
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

impl Try {
    /// A first attempt. Others are batches by themselves: what went wrong may do so again, and with it what is in the same batch.
    pub fn is_fresh(&self) -> bool {
        (self.broken, self.lost) == (0, 0)
    }

    /// From 1.
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
    /// In the order in which they are run; all of one agent and one model.
    pub units: Vec<u32>,
    /// From 1; of several units it is the first one of each.
    pub attempt: u32,
    /// None but the first one is begun after so many seconds.
    pub seconds: f64,
    /// As in [`Order`].
    pub silence: u64,
}

/// How it ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchEnd {
    pub ends: Vec<UnitEnd>,
    /// Units that were not begun, in their order.
    pub left: Vec<u32>,
    /// Units without a result, whose process ended otherwise than by their doing alone, as far as anybody knows.
    pub lost: Vec<u32>,
    /// The results file of those that have one, compressed, in base64.
    pub results: Option<String>,
    pub worker: String,
}

/// How an attempt at a unit ended.
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
    /// Whether its result is among those that came back.
    pub came_back: bool,
    /// Why it is not; what is left behind, and where.
    pub note: Option<String>,
}

impl UnitEnd {
    /// Whether there is no answer, and another attempt may bring one.
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

/// What it came to.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CleanupEnd {
    /// Cleanups that are done.
    pub done: u32,
    /// Units of which something is still pending: they are not run again.
    pub pending: Vec<u32>,
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
