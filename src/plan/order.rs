//! What may run now: a sequence is asked of the graph, one step after another.

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
    /// The actions of a phase or a block, as they become ready.
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

    /// Those of the same phase or block that an action runs after.
    pub fn just_before(&self, ix: ActionIx) -> impl Iterator<Item = ActionIx> {
        self.links_of(ix, Direction::Incoming).filter(|(_, edge)| **edge == Edge::Order).map(|(before, _)| before)
    }
}

impl Agenda<'_> {
    /// An action that waits for nothing; of several the one that is written first.
    pub fn pop(&mut self) -> Option<ActionIx> {
        self.ready.pop_front()
    }

    /// It has ended, whatever came of it.
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
