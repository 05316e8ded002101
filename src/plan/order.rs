//! Determines what may run now: the graph gives the order of a sequence, one step after another.

use std::collections::{HashMap, VecDeque};

use petgraph::Direction;

use super::{ActionIx, Edge, Holder, Plan};

/// The actions of a phase or block that have not run, with how many others of it each still waits for.
#[derive(Clone, Debug)]
pub struct Agenda<'p> {
    plan: &'p Plan,
    waiting: HashMap<ActionIx, usize>,
    ready: VecDeque<ActionIx>,
}

impl Plan {
    /// Returns the actions of a phase or block, as they become ready.
    pub fn agenda(&self, holder: impl Into<Holder>) -> Agenda<'_> {
        let members = self.members(holder);
        let mut waiting: HashMap<_, _> = members.clone().map(|ix| (ix, 0)).collect();
        for ix in members.clone() {
            for (before, _) in self.links_of(ix, Direction::Incoming) {
                if waiting.contains_key(&before)
                    && let Some(count) = waiting.get_mut(&ix)
                {
                    *count += 1;
                }
            }
        }
        let ready = members.filter(|ix| waiting[ix] == 0).collect();
        Agenda { plan: self, waiting, ready }
    }

    /// Returns the actions that an action directly follows in execution order.
    pub fn just_before(&self, ix: ActionIx) -> impl Iterator<Item = ActionIx> {
        self.links_of(ix, Direction::Incoming).filter(|(_, edge)| **edge == Edge::Order).map(|(before, _)| before)
    }
}

impl Agenda<'_> {
    /// Returns an action that waits for nothing; if there are several, the one that is written first.
    pub fn pop(&mut self) -> Option<ActionIx> {
        self.ready.pop_front()
    }

    /// Marks an action as ended, whatever its outcome.
    pub fn done(&mut self, ix: ActionIx) {
        let from = self.ready.len();
        for (after, _) in self.plan.links_of(ix, Direction::Outgoing) {
            if let Some(count) = self.waiting.get_mut(&after) {
                *count -= 1;
                if *count == 0 {
                    self.ready.push_back(after);
                }
            }
        }
        self.ready.make_contiguous()[from..].sort();
    }
}
