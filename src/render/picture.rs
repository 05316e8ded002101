//! A plan as boxes and arrows, before any format: what is drawn, and how much of it.
//!
//! Small plans are drawn whole; of large ones the phases, or one box a task: a picture that nobody can read helps
//! nobody, and Mermaid refuses more than 500 arrows.

use std::collections::{HashMap, HashSet};

use super::{View, cut, label, role_name};
use crate::{
    builtin::count,
    event::Outcome,
    plan::{ActionIx, ActionKind, Edge, Plan, PlanPhase},
    signature::Control,
};

#[derive(Clone, Debug, Default)]
pub struct Picture {
    pub title: String,
    pub items: Vec<Item>,
    pub links: Vec<Link>,
    nodes: usize,
    frames: usize,
}

#[derive(Clone, Debug)]
pub enum Item {
    Node(Node),
    Frame(Frame),
}

/// A box.
#[derive(Clone, Debug)]
pub struct Node {
    /// From 0, unique in the picture.
    pub key: usize,
    pub title: String,
    pub text: String,
    pub kind: NodeKind,
    pub outcome: Option<Outcome>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeKind {
    Step,
    /// Holds other steps.
    Control,
    Agent,
    Assertion,
    Cleanup,
    /// Stands for several.
    Summary,
}

/// Boxes that belong together.
#[derive(Clone, Debug)]
pub struct Frame {
    pub key: usize,
    pub title: String,
    pub items: Vec<Item>,
}

#[derive(Clone, Debug)]
pub struct Link {
    pub from: usize,
    pub to: usize,
    pub kind: LinkKind,
    pub label: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LinkKind {
    Order,
    Data,
    Finally,
    Branch,
    /// Not drawn: arranges boxes in columns.
    Layout,
}

const TITLE: usize = 60;
const TEXT: usize = 80;
/// What still makes a readable picture.
const MOST_NODES: usize = 150;
const MOST_LINKS: usize = 400;
const MOST_TASKS: usize = 20;

/// What to draw of a view.
pub fn picture(view: &View<'_>) -> Picture {
    let title = match (view.eval, view.plans) {
        (Some(eval), _) => eval.name.as_str(),
        (None, [one]) => one.task.name.value.as_str(),
        _ => "plan",
    };
    let mut picture = Picture { title: cut(title, TITLE), ..Picture::default() };
    let nodes: usize = view.plans.iter().map(|p| p.graph.node_count()).sum();
    let links: usize = view.plans.iter().map(|p| p.graph.edge_count()).sum();
    if nodes <= MOST_NODES && links <= MOST_LINKS {
        view.plans.iter().for_each(|plan| picture.whole(view, plan));
    } else if view.plans.len() <= MOST_TASKS {
        view.plans.iter().for_each(|plan| picture.phases(plan));
    } else {
        picture.tasks(view.plans);
    }
    picture
}

impl Picture {
    fn node(&mut self, title: &str, text: &str, kind: NodeKind, outcome: Option<Outcome>) -> Node {
        self.nodes += 1;
        Node { key: self.nodes - 1, title: cut(title, TITLE), text: cut(text, TEXT), kind, outcome }
    }

    fn frame(&mut self, title: &str, items: Vec<Item>) -> Option<Item> {
        if items.is_empty() {
            return None;
        }
        self.frames += 1;
        Some(Item::Frame(Frame { key: self.frames - 1, title: cut(title, TITLE), items }))
    }

    fn whole(&mut self, view: &View<'_>, plan: &Plan) {
        let mut keys = HashMap::new();
        let mut phases = Vec::new();
        for (phase, actions) in in_order(plan) {
            let items = self.actions(view, plan, actions, phase.name(), &mut keys);
            if phase == PlanPhase::Agent {
                phases.extend(items);
            } else {
                phases.extend(self.frame(phase.name(), items));
            }
        }
        let task = self.frame(&plan.task.name.value, phases);
        self.items.extend(task);
        self.edges(plan, &keys);
    }

    fn actions(
        &mut self,
        view: &View<'_>,
        plan: &Plan,
        actions: &[ActionIx],
        above: &str,
        keys: &mut HashMap<ActionIx, usize>,
    ) -> Vec<Item> {
        let mut items = Vec::new();
        for &ix in actions {
            let action = plan.action(ix);
            let kind = match &action.kind {
                ActionKind::Agent(_) => NodeKind::Agent,
                ActionKind::Assertion(_) => NodeKind::Assertion,
                ActionKind::Step(step) if step.op.signature.control != Control::Leaf => NodeKind::Control,
                ActionKind::Step(_) if action.phase == PlanPhase::Cleanup || above.ends_with("/cleanup") => {
                    NodeKind::Cleanup
                }
                ActionKind::Step(_) => NodeKind::Step,
            };
            let name = label(action, above);
            let node = self.node(name, &action.meaning, kind, view.outcome(plan, action));
            keys.insert(ix, node.key);
            let mut inner = vec![Item::Node(node)];
            for (i, block) in action.blocks.iter().enumerate() {
                let branches = matches!(&action.kind, ActionKind::Step(s) if s.op.signature.control == Control::Any);
                let above = match branches {
                    true => format!("{}/{i}", action.id),
                    false => format!("{}/{}", action.id, role_name(block.role)),
                };
                let nested = block.actions.first().is_some_and(|&ix| plan.action(ix).id.starts_with(&above));
                let above = if nested { &above } else { &action.id };
                let items = self.actions(view, plan, &block.actions, above, keys);
                let title = match branches {
                    true => format!("branch {i}"),
                    false => role_name(block.role).to_owned(),
                };
                if nested {
                    inner.extend(self.frame(&title, items));
                } else {
                    inner.extend(items);
                }
            }
            match inner.len() {
                1 => items.append(&mut inner),
                _ => items.extend(self.frame(name, inner)),
            }
        }
        items
    }

    fn edges(&mut self, plan: &Plan, keys: &HashMap<ActionIx, usize>) {
        let mut data: indexmap::IndexMap<(usize, usize), Vec<&str>> = indexmap::IndexMap::new();
        let mut others = Vec::new();
        for edge in plan.graph.edge_indices() {
            let Some((from, to)) = plan.graph.edge_endpoints(edge) else { continue };
            let (Some(&from), Some(&to)) = (keys.get(&from), keys.get(&to)) else { continue };
            match &plan.graph[edge] {
                Edge::Data(name) => data.entry((from, to)).or_default().push(name),
                Edge::Order => others.push((from, to, LinkKind::Order)),
                Edge::Finally => others.push((from, to, LinkKind::Finally)),
                Edge::Branch => others.push((from, to, LinkKind::Branch)),
            }
        }
        // An arrow for a value already says what runs first.
        let mut drawn: HashSet<_> = data.keys().copied().collect();
        let named = data.into_iter().map(|((from, to), names)| Link {
            from,
            to,
            kind: LinkKind::Data,
            label: cut(&names.join(", "), TITLE),
        });
        self.links.extend(named);
        for (from, to, kind) in others {
            if kind == LinkKind::Finally || drawn.insert((from, to)) {
                let label = if kind == LinkKind::Finally { "owed".to_owned() } else { String::new() };
                self.links.push(Link { from, to, kind, label });
            }
        }
    }

    fn phases(&mut self, plan: &Plan) {
        let mut items = Vec::new();
        let mut keys: Vec<(PlanPhase, usize)> = Vec::new();
        for (phase, actions) in in_order(plan) {
            if actions.is_empty() {
                continue;
            }
            let (text, kind) = match phase {
                PlanPhase::Agent => (plan.action(plan.agent).meaning.clone(), NodeKind::Agent),
                PlanPhase::Assert => (count(actions.len(), "assertion", "assertions"), NodeKind::Assertion),
                _ => (count(actions.len(), "step", "steps"), NodeKind::Summary),
            };
            let node = self.node(phase.name(), &text, kind, None);
            keys.push((phase, node.key));
            items.push(Item::Node(node));
        }
        for pair in keys.windows(2) {
            self.links.push(Link { from: pair[0].1, to: pair[1].1, kind: LinkKind::Order, label: String::new() });
        }
        if let (Some(first), Some(last)) = (keys.first(), keys.last())
            && last.0 == PlanPhase::Cleanup
        {
            self.links.push(Link { from: first.1, to: last.1, kind: LinkKind::Finally, label: "owed".to_owned() });
        }
        let task = self.frame(&plan.task.name.value, items);
        self.items.extend(task);
    }

    fn tasks(&mut self, plans: &[Plan]) {
        for (title, parallel) in [("one by one", false), ("side by side", true)] {
            let mut items = Vec::new();
            let mut keys = Vec::new();
            for plan in plans.iter().filter(|p| p.task.parallel == parallel) {
                let text = format!(
                    "{} setup, {} verify, {} cleanup",
                    plan.setup.len(),
                    plan.verify.len() + plan.assertions.len(),
                    plan.cleanup.len()
                );
                let node = self.node(&plan.task.name.value, &text, NodeKind::Summary, None);
                keys.push(node.key);
                items.push(Item::Node(node));
            }
            let columns = keys.len().isqrt().max(1);
            for (above, below) in keys.iter().zip(keys.iter().skip(columns)) {
                self.links.push(Link { from: *above, to: *below, kind: LinkKind::Layout, label: String::new() });
            }
            let frame = self.frame(title, items);
            self.items.extend(frame);
        }
    }
}

fn in_order(plan: &Plan) -> [(PlanPhase, &[ActionIx]); 5] {
    [
        (PlanPhase::Setup, &plan.setup),
        (PlanPhase::Agent, std::slice::from_ref(&plan.agent)),
        (PlanPhase::Verify, &plan.verify),
        (PlanPhase::Assert, &plan.assertions),
        (PlanPhase::Cleanup, &plan.cleanup),
    ]
}
