//! Computes what changed between two plans: steps, data flow, reach, duration. Pure.
//!
//! A step is recognized by its id, or, if it has none, by what it does. Inserting a step before others therefore does
//! not change those.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::{
    ActionIx, ActionKind, Edge, EvalPlan, Plan, PlanPhase,
    reach::{self, Reach},
    wire, worst_case,
};
use crate::source::Files;

/// The version of [`Diff`] as JSON.
pub const VERSION: u32 = 1;

/// One of the two sides that are compared.
#[derive(Clone, Copy)]
pub struct Side<'a> {
    pub evals: &'a [EvalPlan],
    /// The tasks of the evals, and tasks that are planned without one.
    pub plans: &'a [Plan],
    /// The scripts that tasks refer to.
    pub files: Option<&'a dyn Files>,
}

/// Everything that changed between two plans; lists are empty if nothing changed.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Diff {
    pub version: u32,
    /// Changes of the agent, servers, permissions and judge.
    pub eval: Vec<FactChange>,
    pub tasks: Vec<TaskDiff>,
    /// Changes in what all tasks together, with the eval, can access.
    pub reach: Vec<ReachChange>,
}

/// The changes in one task.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskDiff {
    pub name: String,
    pub change: Change,
    /// Changes of the environment, the limits and the files that the task refers to.
    pub facts: Vec<FactChange>,
    pub steps: Vec<StepChange>,
    pub flow: Vec<FlowChange>,
    pub reach: Vec<ReachChange>,
    /// The maximum duration of a run, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worst_case: Option<DurationChange>,
}

/// The kind of change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Change {
    Added,
    Removed,
    Changed,
    /// It runs earlier or later relative to its neighbors.
    Moved,
}

/// A changed value in a plan.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FactChange {
    /// The path in the plan: `timeouts.task`, `args.run`.
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

/// A changed step.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepChange {
    /// The ID in the new plan; for a removed step, in the old plan.
    pub id: String,
    pub change: Change,
    /// A one-line human-readable description.
    pub meaning: String,
    pub facts: Vec<FactChange>,
}

/// A value that is now passed from one step to another, or no longer is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FlowChange {
    pub from: String,
    pub to: String,
    pub name: String,
    pub added: bool,
}

/// What the plan can now access and could not before, and vice versa.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReachChange {
    /// `commands`, `hosts`, `paths`, `namespaces`, `servers`, `tools`, `permitted`, `env`, `creates`, `deletes`,
    /// `leaves`, `judge`.
    pub of: String,
    pub added: Vec<String>,
    pub removed: Vec<String>,
}

/// The worst-case duration, before and after, in seconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DurationChange {
    pub before: f64,
    pub after: f64,
}

impl Diff {
    /// Whether nothing differs.
    pub fn is_empty(&self) -> bool {
        self.eval.is_empty() && self.tasks.is_empty() && self.reach.is_empty()
    }

    /// Whether the new plan can touch something that the old one cannot.
    pub fn grows(&self) -> bool {
        self.reach.iter().any(|change| !change.added.is_empty())
    }
}

/// Computes the changes from the old plan to the new one.
pub fn diff(old: Side<'_>, new: Side<'_>) -> Diff {
    // A single task on each side is compared, whatever the names.
    let alone = old.plans.len() == 1 && new.plans.len() == 1;
    let name = |plan: &Plan| if alone { String::new() } else { plan.task.name.value.clone() };
    let by_name = |side: Side<'_>| -> HashMap<String, usize> {
        side.plans.iter().enumerate().map(|(i, plan)| (name(plan), i)).rev().collect()
    };
    let (before, after) = (by_name(old), by_name(new));
    let mut tasks = Vec::new();
    let (mut old_reach, mut new_reach) = (whole(old.evals), whole(new.evals));
    let reach_of = |side: Side<'_>, plan: &Plan| reach::of_task(plan, side.files);
    for plan in new.plans {
        let reach = reach_of(new, plan);
        new_reach.add(reach.clone());
        match before.get(&name(plan)) {
            Some(&i) => {
                let old_plan = &old.plans[i];
                let old_reach = reach_of(old, old_plan);
                tasks.extend(task(old_plan, plan, &old_reach, &reach));
            }
            None => tasks.push(only(plan, Change::Added, &reach)),
        }
    }
    for plan in old.plans {
        let reach = reach_of(old, plan);
        if !after.contains_key(&name(plan)) {
            tasks.push(only(plan, Change::Removed, &reach));
        }
        old_reach.add(reach);
    }
    let eval = match (old.evals, new.evals) {
        ([old], [new]) => facts(&wire::eval_body(old), &wire::eval_body(new)),
        _ => {
            let pairs =
                new.evals.iter().filter_map(|eval| Some((old.evals.iter().find(|o| o.name == eval.name)?, eval)));
            pairs.flat_map(|(old, new)| facts(&wire::eval_body(old), &wire::eval_body(new))).collect()
        }
    };
    Diff { version: VERSION, eval, tasks, reach: reach_changes(&old_reach, &new_reach) }
}

fn whole(evals: &[EvalPlan]) -> Reach {
    let mut reach = Reach::default();
    evals.iter().for_each(|eval| reach.add(reach::of_eval(eval)));
    reach
}

/// Returns the difference for a task that only one side has.
fn only(plan: &Plan, change: Change, reach: &Reach) -> TaskDiff {
    let (before, after) = match change {
        Change::Removed => (reach, &Reach::default()),
        _ => (&Reach::default(), reach),
    };
    TaskDiff {
        name: plan.task.name.value.clone(),
        change,
        facts: Vec::new(),
        steps: Vec::new(),
        flow: Vec::new(),
        reach: reach_changes(before, after),
        worst_case: None,
    }
}

fn task(old: &Plan, new: &Plan, old_reach: &Reach, new_reach: &Reach) -> Option<TaskDiff> {
    let mut pairing = Pairing { old, new, pairs: BTreeMap::new(), changes: Vec::new() };
    pairing.phases();
    let (longest_before, longest_after) = (worst_case(old).as_secs_f64(), worst_case(new).as_secs_f64());
    let diff = TaskDiff {
        name: new.task.name.value.clone(),
        change: Change::Changed,
        facts: [facts(&wire::task_facts(old), &wire::task_facts(new)), parallel_verify(old, new)].concat(),
        flow: flow(old, new, &pairing.pairs),
        steps: pairing.changes,
        reach: reach_changes(old_reach, new_reach),
        worst_case: (longest_before.to_bits() != longest_after.to_bits())
            .then_some(DurationChange { before: longest_before, after: longest_after }),
    };
    let same = diff.facts.is_empty()
        && diff.flow.is_empty()
        && diff.steps.is_empty()
        && diff.reach.is_empty()
        && diff.worst_case.is_none();
    (!same).then_some(diff)
}

/// The plan's JSON shows this only by its edges.
fn parallel_verify(old: &Plan, new: &Plan) -> Vec<FactChange> {
    let [before, after] = [old, new].map(|plan| Some(plan.task.parallel_verify.into()));
    let change = FactChange { name: "parallelVerify".to_owned(), before, after };
    (change.before != change.after).then_some(change).into_iter().collect()
}

/// Pairs the actions of the old plan with those of the new one.
struct Pairing<'a> {
    old: &'a Plan,
    new: &'a Plan,
    /// Ids in the new plan, by ids in the old plan.
    pairs: BTreeMap<String, String>,
    changes: Vec<StepChange>,
}

impl Pairing<'_> {
    fn phases(&mut self) {
        let (old, new) = (self.old, self.new);
        for phase in PlanPhase::ALL {
            let members = |plan: &Plan| plan.members(phase).collect::<Vec<_>>();
            self.sequence(&members(old), &members(new));
        }
    }

    fn sequence(&mut self, old: &[ActionIx], new: &[ActionIx]) {
        let partner = self.partners(old, new);
        let mut taken = vec![false; old.len()];
        partner.iter().flatten().for_each(|&i| taken[i] = true);
        let stays = in_order(&partner);
        for (j, &ix) in new.iter().enumerate() {
            match partner[j] {
                Some(i) => self.pair(old[i], ix, !stays.contains(&j)),
                None => self.note(self.new, ix, Change::Added, Vec::new()),
            }
        }
        for (_, &ix) in old.iter().enumerate().filter(|(i, _)| !taken[*i]) {
            self.note(self.old, ix, Change::Removed, Vec::new());
        }
    }

    /// Returns the old counterpart of each new action.
    fn partners(&self, old: &[ActionIx], new: &[ActionIx]) -> Vec<Option<usize>> {
        let mut partner = vec![None; new.len()];
        let mut left: BTreeSet<usize> = (0..old.len()).collect();
        let by_id: HashMap<&str, usize> =
            old.iter().enumerate().filter_map(|(i, &ix)| Some((named(self.old, ix)?, i))).collect();
        for (j, &ix) in new.iter().enumerate() {
            if let Some(i) = named(self.new, ix).and_then(|id| by_id.get(id)) {
                partner[j] = Some(*i);
                left.remove(i);
            }
        }
        let mut by_content: HashMap<String, Vec<usize>> = HashMap::new();
        for &i in left.iter().rev().filter(|i| named(self.old, old[**i]).is_none()) {
            by_content.entry(content(self.old, old[i])).or_default().push(i);
        }
        for (j, &ix) in new.iter().enumerate() {
            if partner[j].is_none()
                && named(self.new, ix).is_none()
                && let Some(i) = by_content.get_mut(&content(self.new, ix)).and_then(Vec::pop)
            {
                partner[j] = Some(i);
                left.remove(&i);
            }
        }
        // A remaining action between the same neighbors that does the same kind of thing was changed.
        let mut next = vec![old.len(); new.len() + 1];
        for j in (0..new.len()).rev() {
            next[j] = partner[j].unwrap_or(next[j + 1]);
        }
        let mut low = 0;
        for j in 0..new.len() {
            match partner[j] {
                Some(i) => low = low.max(i + 1),
                None => {
                    let candidate = left.range(low..next[j].max(low)).copied().find(|&i| {
                        named(self.old, old[i]).is_none() == named(self.new, new[j]).is_none()
                            && named(self.new, new[j]).is_none()
                            && kind(self.old, old[i]) == kind(self.new, new[j])
                    });
                    if let Some(i) = candidate {
                        partner[j] = Some(i);
                        left.remove(&i);
                        low = i + 1;
                    }
                }
            }
        }
        partner
    }

    fn pair(&mut self, old: ActionIx, new: ActionIx, moved: bool) {
        let (before, after) = (self.old.action(old), self.new.action(new));
        self.pairs.insert(before.id.clone(), after.id.clone());
        let own = |plan: &Plan, ix| {
            let mut document = wire::own_document(plan.action(ix));
            document.id.clear();
            document
        };
        let facts = facts(&own(self.old, old), &own(self.new, new));
        if !facts.is_empty() {
            self.note(self.new, new, Change::Changed, facts);
        } else if moved {
            self.note(self.new, new, Change::Moved, facts);
        }
        let blocks = |plan: &Plan, ix| plan.blocks(ix).map(|b| plan.members(b.holder).collect()).collect::<Vec<_>>();
        let (mut before, mut after): (Vec<Vec<_>>, Vec<Vec<_>>) = (blocks(self.old, old), blocks(self.new, new));
        let most = before.len().max(after.len());
        before.resize(most, Vec::new());
        after.resize(most, Vec::new());
        before.iter().zip(&after).for_each(|(before, after)| self.sequence(before, after));
    }

    fn note(&mut self, plan: &Plan, ix: ActionIx, change: Change, facts: Vec<FactChange>) {
        let action = plan.action(ix);
        self.changes.push(StepChange { id: action.id.clone(), change, meaning: action.meaning.clone(), facts });
    }
}

/// Returns the new actions that keep their order: a longest increasing subsequence of old indexes.
fn in_order(partner: &[Option<usize>]) -> BTreeSet<usize> {
    let mut tails: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = vec![None; partner.len()];
    for (j, old) in partner.iter().enumerate() {
        let Some(old) = *old else { continue };
        let at = tails.partition_point(|&t| partner[t].is_some_and(|o| o < old));
        before[j] = at.checked_sub(1).map(|p| tails[p]);
        match tails.get_mut(at) {
            Some(tail) => *tail = j,
            None => tails.push(j),
        }
    }
    let mut kept = BTreeSet::new();
    let mut at = tails.last().copied();
    while let Some(j) = at {
        kept.insert(j);
        at = before[j];
    }
    kept
}

/// Returns the last part of an action's id, if that is a name and not a number.
fn named(plan: &Plan, ix: ActionIx) -> Option<&str> {
    let name = plan.action(ix).id.rsplit('/').next()?;
    (!name.starts_with(|c: char| c.is_ascii_digit())).then_some(name)
}

fn kind(plan: &Plan, ix: ActionIx) -> &str {
    match &plan.action(ix).kind {
        ActionKind::Step(step) => &step.op.name,
        ActionKind::Agent(_) => "agent",
        ActionKind::Assertion(assertion) => &assertion.key.value,
    }
}

/// Returns everything that decides what an action and its nested actions do, but not where it is.
fn content(plan: &Plan, ix: ActionIx) -> String {
    let action = plan.action(ix);
    let mut document = wire::own_document(action);
    document.id.clear();
    let mut text = serde_json::to_string(&document).unwrap_or_default();
    for block in plan.blocks(ix) {
        text.push('[');
        plan.members(block.holder).for_each(|ix| text.push_str(&content(plan, ix)));
        text.push(']');
    }
    text
}

fn flow(old: &Plan, new: &Plan, pairs: &BTreeMap<String, String>) -> Vec<FlowChange> {
    let edges = |plan: &Plan, renamed: &dyn Fn(&str) -> String| -> BTreeSet<(String, String, String)> {
        let data = plan.links().filter_map(|(from, to, edge)| match edge {
            Edge::Data(name) => {
                let id = |ix| renamed(&plan.action(ix).id);
                Some((id(from), id(to), name.to_string()))
            }
            _ => None,
        });
        data.collect()
    };
    let before = edges(old, &|id| pairs.get(id).cloned().unwrap_or_else(|| id.to_owned()));
    let after = edges(new, &str::to_owned);
    let change = |added: bool| {
        move |(from, to, name): &(String, String, String)| FlowChange {
            from: from.clone(),
            to: to.clone(),
            name: name.clone(),
            added,
        }
    };
    after.difference(&before).map(change(true)).chain(before.difference(&after).map(change(false))).collect()
}

fn reach_changes(old: &Reach, new: &Reach) -> Vec<ReachChange> {
    let mut changes = Vec::new();
    for ((of, before), (_, after)) in old.parts().into_iter().zip(new.parts()) {
        // A single tool was already permitted if all tools were.
        let covered = |set: &BTreeSet<String>, item: &String| {
            set.contains(item)
                || (of == "permitted" && item.split_once('.').is_some_and(|(s, _)| set.contains(&format!("{s}.*"))))
        };
        let added: Vec<_> = after.iter().filter(|item| !covered(before, item)).cloned().collect();
        let removed: Vec<_> = before.iter().filter(|item| !covered(after, item)).cloned().collect();
        if !added.is_empty() || !removed.is_empty() {
            changes.push(ReachChange { of: of.to_owned(), added, removed });
        }
    }
    let judge = |asked: bool| if asked { vec!["the judge".to_owned()] } else { Vec::new() };
    let (before, after) = (old.judged > 0, new.judged > 0);
    if before != after {
        changes.push(ReachChange { of: "judge".to_owned(), added: judge(after), removed: judge(before) });
    }
    changes
}

/// Returns the leaves in which two values differ.
fn facts(old: &impl Serialize, new: &impl Serialize) -> Vec<FactChange> {
    let value = |v: Result<Value, _>| v.unwrap_or_default();
    let mut changes = Vec::new();
    leaves(
        Some(&value(serde_json::to_value(old))),
        Some(&value(serde_json::to_value(new))),
        String::new(),
        &mut changes,
    );
    changes
}

fn leaves(old: Option<&Value>, new: Option<&Value>, at: String, out: &mut Vec<FactChange>) {
    if old == new {
        return;
    }
    // The structure of a template follows from its text.
    let (old, new) = (old.map(plain), new.map(plain));
    let below = |key: &str| match (at.as_str(), key) {
        (_, "step" | "agent" | "assertion") if at.is_empty() => String::new(),
        ("", key) => key.to_owned(),
        (at, key) => format!("{at}.{key}"),
    };
    match (&old, &new) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            for key in a.keys().chain(b.keys().filter(|k| !a.contains_key(*k))) {
                leaves(a.get(key), b.get(key), below(key), out);
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) if a.len() == b.len() => {
            for (i, (a, b)) in a.iter().zip(b).enumerate() {
                leaves(Some(a), Some(b), format!("{at}[{i}]"), out);
            }
        }
        _ if old != new => out.push(FactChange { name: at, before: old, after: new }),
        _ => {}
    }
}

/// Returns a value as its author would write it: without the tags that specify its kind.
fn plain(value: &Value) -> Value {
    let Value::Object(map) = value else { return value.clone() };
    if let Some(text) = map.get("text").filter(|_| map.keys().all(|k| k == "text" || k == "holes")) {
        return text.clone();
    }
    match map.iter().next() {
        Some((tag, inner)) if map.len() == 1 => match (tag.as_str(), inner) {
            ("literal", _) => inner.clone(),
            ("template", _) => plain(inner),
            ("list", Value::Array(items)) => items.iter().map(plain).collect(),
            ("record", Value::Object(fields)) => {
                Value::Object(fields.iter().map(|(k, v)| (k.clone(), plain(v))).collect())
            }
            _ => value.clone(),
        },
        _ => value.clone(),
    }
}
