//! A plan as boxes and arrows, independent of any format: what is drawn, and how much of it.
//!
//! Small plans are drawn completely. For large ones only the phases are drawn, or one box per task: a picture that nobody can read is
//! useless, and Mermaid refuses more than 500 arrows.

use std::collections::{HashMap, HashSet};

use super::{Done, View, cut, expected, label, role_name, rounds, stand_in, substituted};
use crate::{
    builtin::count,
    event::Outcome,
    plan::{ActionIx, ActionKind, Edge, Plan, PlanPhase},
    signature::Control,
    ty::duration,
};

/// A plan as boxes and arrows, for renderers that draw.
#[derive(Clone, Debug, Default)]
pub struct Picture {
    pub title: String,
    pub items: Vec<Item>,
    pub links: Vec<Link>,
    pub nodes: usize,
    frames: usize,
}

/// A box, or a frame around other items.
#[derive(Clone, Debug)]
pub enum Item {
    Node(Node),
    Frame(Frame),
}

/// A box.
#[derive(Clone, Debug)]
pub struct Node {
    /// Counted from 0, unique in the picture.
    pub key: usize,
    pub title: String,
    pub text: String,
    pub kind: NodeKind,
    pub outcome: Option<Outcome>,
    /// What it represents: the index of the plan in the view, and the action, if it is one.
    pub stands_for: Option<(usize, Option<ActionIx>)>,
}

/// What a box represents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeKind {
    Step,
    /// Contains other steps.
    Control,
    Agent,
    Assertion,
    Cleanup,
    /// Represents several boxes; its text has one line for each of those that are named.
    Summary,
}

impl NodeKind {
    /// The class in style sheets.
    pub fn class(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Control => "control",
            Self::Agent => "agent",
            Self::Assertion => "assertion",
            Self::Cleanup => "cleanup",
            Self::Summary => "summary",
        }
    }
}

/// Boxes that belong together.
#[derive(Clone, Debug)]
pub struct Frame {
    pub key: usize,
    pub title: String,
    pub kind: FrameKind,
    /// The outcome of a task.
    pub outcome: Option<Outcome>,
    pub items: Vec<Item>,
}

/// What a frame represents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameKind {
    Task,
    Phase,
    /// A step that contains others.
    Step,
    /// `setup`, `steps` or `cleanup`, or a round of a loop.
    Block,
    /// One of several that are tried in turn.
    Branch,
    /// Tasks in rows and columns, without an order.
    Grid,
}

/// An arrow between two boxes.
#[derive(Clone, Debug)]
pub struct Link {
    pub from: usize,
    pub to: usize,
    pub kind: LinkKind,
    pub label: String,
}

/// What an arrow means.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LinkKind {
    Order,
    Data,
    Finally,
    Branch,
    /// Not drawn; it arranges boxes in columns.
    Layout,
}

const TITLE: usize = 60;
const TEXT: usize = 120;
const MOST_TASKS: usize = 20;

/// The limits of a readable picture.
#[derive(Clone, Copy, Debug)]
pub struct Most {
    pub nodes: usize,
    pub links: usize,
}

/// Returns what to draw of a view.
pub fn picture(view: &View<'_>, most: Most) -> Picture {
    let title = match (view.eval, view.plans) {
        (Some(eval), _) => eval.name.as_str(),
        (None, [one]) => one.task.name.value.as_str(),
        _ => "plan",
    };
    let mut picture = Picture { title: cut(title, TITLE), ..Picture::default() };
    let nodes: usize = view.plans.iter().map(|p| p.actions().count()).sum();
    let links: usize = view.plans.iter().map(|p| p.links().count()).sum();
    let plans = view.plans.iter().enumerate();
    if nodes <= most.nodes && links <= most.links {
        plans.for_each(|(i, plan)| picture.whole(view, i, plan));
    } else if view.plans.len() <= MOST_TASKS {
        plans.for_each(|(i, plan)| picture.phases(view, i, plan));
    } else {
        picture.tasks(view);
    }
    picture
}

/// A plan whose actions are becoming boxes.
struct Drawing<'a> {
    view: &'a View<'a>,
    index: usize,
    plan: &'a Plan,
    /// An action has several boxes if a loop is unrolled, in the order of its rounds.
    keys: HashMap<ActionIx, Vec<usize>>,
    /// The values of the surrounding loops, if they are unrolled.
    values: Vec<(String, String)>,
}

impl Picture {
    fn node(&mut self, title: &str, text: &str, kind: NodeKind, done: Option<Done>) -> Node {
        self.nodes += 1;
        let (title, outcome) = (titled(title, done), done.map(|d| d.outcome));
        Node { key: self.nodes - 1, title, text: cut(text, TEXT), kind, outcome, stands_for: None }
    }

    fn frame(&mut self, title: &str, kind: FrameKind, items: Vec<Item>) -> Option<Item> {
        if items.is_empty() {
            return None;
        }
        self.frames += 1;
        Some(Item::Frame(Frame { key: self.frames - 1, title: cut(title, TITLE), kind, outcome: None, items }))
    }

    fn task(&mut self, view: &View<'_>, plan: &Plan, items: Vec<Item>) -> Option<Item> {
        let done = view.task_done(plan);
        let mut item = self.frame("", FrameKind::Task, items)?;
        if let Item::Frame(frame) = &mut item {
            frame.title = titled(&plan.task.name.value, done);
            frame.outcome = done.map(|d| d.outcome);
        }
        Some(item)
    }

    fn whole(&mut self, view: &View<'_>, index: usize, plan: &Plan) {
        let mut drawing = Drawing { view, index, plan, keys: HashMap::new(), values: Vec::new() };
        let mut phases = Vec::new();
        for phase in PlanPhase::ALL {
            let items = self.actions(&mut drawing, plan.members(phase), phase.name());
            if phase == PlanPhase::Agent {
                phases.extend(items);
            } else {
                phases.extend(self.frame(phase.name(), FrameKind::Phase, items));
            }
        }
        let task = self.task(view, plan, phases);
        self.items.extend(task);
        self.edges(plan, &drawing.keys);
    }

    fn actions<'a>(
        &mut self,
        drawing: &mut Drawing<'a>,
        actions: impl Iterator<Item = ActionIx> + 'a,
        above: &str,
    ) -> Vec<Item> {
        let mut items = Vec::new();
        for ix in actions {
            let action = drawing.plan.action(ix);
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
            let text = substituted(&action.meaning, &drawing.values);
            let text = match stand_in(drawing.view, action) {
                Some(bundled) => format!("{bundled}: {text}"),
                None => text,
            };
            let text = match expected(action) {
                Some(expected) => format!("{text} · {expected}"),
                None => text,
            };
            let mut node = self.node(name, &text, kind, drawing.view.done(drawing.plan, action));
            node.stands_for = Some((drawing.index, Some(ix)));
            drawing.keys.entry(ix).or_default().push(node.key);
            let mut inner = vec![Item::Node(node)];
            match rounds(drawing.view, action) {
                Some((var, values)) => {
                    for value in values {
                        drawing.values.push((var.clone(), value.clone()));
                        let items = self.blocks(drawing, ix);
                        drawing.values.pop();
                        inner.extend(self.frame(&format!("{var} = {value}"), FrameKind::Block, items));
                    }
                }
                None => inner.extend(self.blocks(drawing, ix)),
            }
            match inner.len() {
                1 => items.append(&mut inner),
                _ => items.extend(self.frame(name, FrameKind::Step, inner)),
            }
        }
        items
    }

    /// Adds what is nested in an action.
    fn blocks(&mut self, drawing: &mut Drawing<'_>, ix: ActionIx) -> Vec<Item> {
        let plan = drawing.plan;
        let action = plan.action(ix);
        let branches = matches!(&action.kind, ActionKind::Step(s) if s.op.signature.control == Control::Any);
        let mut inner = Vec::new();
        for (i, block) in plan.blocks(ix).enumerate() {
            let above = match branches {
                true => format!("{}/{i}", action.id),
                false => format!("{}/{}", action.id, role_name(block.role)),
            };
            let actions = plan.members(block.holder);
            let first = actions.clone().next().map(|ix| plan.action(ix).id.as_str());
            let nested = first.and_then(|id| id.strip_prefix(&*above)).is_some_and(|rest| rest.starts_with('/'));
            let items = self.actions(drawing, actions, if nested { &above } else { &action.id });
            match (nested, branches) {
                (true, true) => inner.extend(self.frame(&format!("branch {i}"), FrameKind::Branch, items)),
                (true, false) => inner.extend(self.frame(role_name(block.role), FrameKind::Block, items)),
                (false, _) => inner.extend(items),
            }
        }
        inner
    }

    fn edges(&mut self, plan: &Plan, keys: &HashMap<ActionIx, Vec<usize>>) {
        let mut data: indexmap::IndexMap<(usize, usize), Vec<&str>> = indexmap::IndexMap::new();
        let mut others = Vec::new();
        for (from, to, edge) in plan.links() {
            let (Some(from), Some(to)) = (keys.get(&from), keys.get(&to)) else { continue };
            // If both are in a loop, each round has its own.
            let pairs = match from.len() <= to.len() {
                true => to.iter().enumerate().map(|(i, &to_key)| (from[i * from.len() / to.len()], to_key)).collect(),
                false => from.iter().map(|&from| (from, to[0])).collect::<Vec<_>>(),
            };
            for (from, to) in pairs {
                match edge {
                    Edge::Data(name) => data.entry((from, to)).or_default().push(name),
                    Edge::Order => others.push((from, to, LinkKind::Order)),
                    Edge::Finally => others.push((from, to, LinkKind::Finally)),
                    Edge::Branch => others.push((from, to, LinkKind::Branch)),
                    Edge::Holds => {}
                }
            }
        }
        // An arrow for a value already shows what runs first.
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
                let label = if kind == LinkKind::Finally { "pending".to_owned() } else { String::new() };
                self.links.push(Link { from, to, kind, label });
            }
        }
    }

    fn phases(&mut self, view: &View<'_>, index: usize, plan: &Plan) {
        let mut items = Vec::new();
        let mut keys: Vec<(PlanPhase, usize)> = Vec::new();
        for phase in PlanPhase::ALL {
            let actions: Vec<_> = plan.members(phase).collect();
            if actions.is_empty() {
                continue;
            }
            let (text, kind) = match phase {
                PlanPhase::Agent => (plan.action(plan.agent).meaning.clone(), NodeKind::Agent),
                PlanPhase::Assert => (count(actions.len(), "assertion", "assertions"), NodeKind::Assertion),
                _ => (count(actions.len(), "step", "steps"), NodeKind::Summary),
            };
            let mut node = self.node(phase.name(), &text, kind, view.phase_done(plan, &actions));
            node.stands_for = Some((index, (phase == PlanPhase::Agent).then_some(plan.agent)));
            keys.push((phase, node.key));
            items.push(Item::Node(node));
        }
        for pair in keys.windows(2) {
            self.links.push(Link { from: pair[0].1, to: pair[1].1, kind: LinkKind::Order, label: String::new() });
        }
        if let (Some(first), Some(last)) = (keys.first(), keys.last())
            && last.0 == PlanPhase::Cleanup
        {
            self.links.push(Link { from: first.1, to: last.1, kind: LinkKind::Finally, label: "pending".to_owned() });
        }
        let task = self.task(view, plan, items);
        self.items.extend(task);
    }

    fn tasks(&mut self, view: &View<'_>) {
        for (title, parallel) in [("one at a time", false), ("in parallel", true)] {
            let mut items = Vec::new();
            let mut keys = Vec::new();
            for (i, plan) in view.plans.iter().enumerate().filter(|(_, p)| p.task.parallel == parallel) {
                let of = |phase: PlanPhase| plan.members(phase).count();
                let text = format!(
                    "{} setup, {} verify, {} cleanup",
                    of(PlanPhase::Setup),
                    of(PlanPhase::Verify) + of(PlanPhase::Assert),
                    of(PlanPhase::Cleanup)
                );
                let mut node = self.node(&plan.task.name.value, &text, NodeKind::Summary, view.task_done(plan));
                node.stands_for = Some((i, None));
                keys.push(node.key);
                items.push(Item::Node(node));
            }
            let columns = keys.len().isqrt().max(1);
            for (above, below) in keys.iter().zip(keys.iter().skip(columns)) {
                self.links.push(Link { from: *above, to: *below, kind: LinkKind::Layout, label: String::new() });
            }
            let frame = self.frame(title, FrameKind::Grid, items);
            self.items.extend(frame);
        }
    }
}

/// With more boxes than this, long runs of steps become one box each.
const MANY: usize = 30;
/// How long such a run is, and how many of its steps are named.
const RUN: usize = 10;
const NAMED: usize = 8;
/// The maximum length of a step's text when it is one of many lines.
const LINE: usize = 60;

impl Picture {
    /// Adapts the picture to programs that lay out boxes themselves, so that it fits on a screen. A step without a name gets what it
    /// does as its name. If there are many boxes, each long run of steps that only order connects to others becomes one box.
    pub fn narrow(&mut self) {
        if self.nodes > MANY {
            let ties = |link: &&Link| link.kind != LinkKind::Order;
            let tied: HashSet<usize> = self.links.iter().filter(ties).flat_map(|link| [link.from, link.to]).collect();
            let mut into = HashMap::new();
            fold(&mut self.items, &tied, &mut into);
            let key = |key: usize| into.get(&key).copied().unwrap_or(key);
            for link in &mut self.links {
                (link.from, link.to) = (key(link.from), key(link.to));
            }
            let mut drawn = HashSet::new();
            self.links.retain(|link| link.from != link.to && drawn.insert((link.from, link.to, link.kind)));
        }
        name(&mut self.items);
    }
}

/// Puts each long run into one box. `into` maps each box to the one that replaces it.
fn fold(items: &mut Vec<Item>, tied: &HashSet<usize>, into: &mut HashMap<usize, usize>) {
    let mut folded: Vec<Item> = Vec::new();
    let mut run: Vec<Node> = Vec::new();
    for item in std::mem::take(items) {
        let fits = |node: &Node| {
            let alike = run.first().is_none_or(|first| first.kind == node.kind && first.outcome == node.outcome);
            alike && matches!(node.kind, NodeKind::Step | NodeKind::Cleanup) && !tied.contains(&node.key)
        };
        match item {
            Item::Node(node) if fits(&node) => run.push(node),
            mut other => {
                folded.extend(one(std::mem::take(&mut run), into));
                if let Item::Frame(frame) = &mut other {
                    fold(&mut frame.items, tied, into);
                }
                match other {
                    // The first step of another run.
                    Item::Node(node)
                        if matches!(node.kind, NodeKind::Step | NodeKind::Cleanup) && !tied.contains(&node.key) =>
                    {
                        run.push(node);
                    }
                    other => folded.push(other),
                }
            }
        }
    }
    folded.extend(one(run, into));
    *items = folded;
}

/// Returns a run of steps as one box, if it is long.
fn one(run: Vec<Node>, into: &mut HashMap<usize, usize>) -> Vec<Item> {
    let (Some(first), true) = (run.first(), run.len() >= RUN) else { return run.into_iter().map(Item::Node).collect() };
    into.extend(run.iter().map(|node| (node.key, first.key)));
    let mut lines: Vec<String> = run.iter().take(NAMED).map(|node| cut(called(node), LINE)).collect();
    lines.push(format!("and {} more", run.len() - NAMED));
    let outcome = first.outcome.map_or_else(String::new, |outcome| format!(" · {}", outcome.name()));
    let title = format!("{}{outcome}", count(run.len(), "step", "steps"));
    let text = lines.join("\n");
    vec![Item::Node(Node { title, text, kind: NodeKind::Summary, ..first.clone() })]
}

/// Returns the name of a step: the author's, or what the step does.
fn called(node: &Node) -> &str {
    let name = node.title.split(" · ").next().unwrap_or_default();
    if is_number(name) && !node.text.is_empty() { &node.text } else { &node.title }
}

fn is_number(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_digit())
}

/// Names steps without a name by what they do.
fn name(items: &mut [Item]) {
    for item in items {
        match item {
            Item::Frame(frame) => name(&mut frame.items),
            Item::Node(node) => {
                let (number, outcome) = node.title.split_once(" · ").unwrap_or((&node.title, ""));
                if is_number(number) && !node.text.is_empty() {
                    let outcome = if outcome.is_empty() { String::new() } else { format!(" · {outcome}") };
                    node.title = std::mem::take(&mut node.text) + &outcome;
                }
            }
        }
    }
}

/// Returns a name with its outcome.
fn titled(name: &str, done: Option<Done>) -> String {
    let mut title = cut(name, TITLE);
    if let Some(Done { outcome, duration: took }) = done {
        title += &format!(" · {}", outcome.name());
        if let Some(took) = took {
            title += &format!(", {}", duration::format(took));
        }
    }
    title
}
