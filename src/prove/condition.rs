//! What decides the verdict of a conversion: each demand of a step that must be met, and the same plan without it.

use crate::{
    hir::{Arg, ArgKind, BlockRole, Def, OperationKind},
    plan::{ActionIx, ActionKind, Plan, PlanPhase, StepAction},
};

/// A demand.
#[derive(Clone, Debug)]
pub struct Condition {
    /// Of the action.
    pub id: String,
    ix: ActionIx,
    demand: Demand,
    /// As people read it.
    pub shown: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Demand {
    /// The exit status of a command, the status of an answer.
    Status(&'static str),
    /// What is printed.
    Output(&'static str),
    /// All that an operation asks for, which cannot be left out in part.
    Whole,
}

/// The demands on whose steps the verdict rests.
pub fn conditions(plan: &Plan) -> Vec<Condition> {
    let mut found = Vec::new();
    for phase in [PlanPhase::Setup, PlanPhase::Verify] {
        for ix in plan.members(phase) {
            collect(plan, ix, phase == PlanPhase::Setup, &mut found);
        }
    }
    found
}

/// `soft`: a step that may fail is passed over.
fn collect(plan: &Plan, ix: ActionIx, soft: bool, found: &mut Vec<Condition>) {
    let action = plan.action(ix);
    let ActionKind::Step(step) = &action.kind else { return };
    if soft && action.continue_on_error {
        return;
    }
    let blocks: Vec<_> = plan.blocks(ix).filter(|block| block.role != BlockRole::Cleanup).collect();
    if blocks.is_empty() {
        let of = |demand, what: String| Condition { id: action.id.clone(), ix, demand, shown: what };
        found.extend(demands(step).into_iter().map(|(demand, what)| of(demand, format!("{what} (`{}`)", action.id))));
        return;
    }
    // What has an alternative that always passes decides nothing.
    let inner = || blocks.iter().flat_map(|block| plan.members(block.holder));
    if step.op.name.as_str() == "anyOf" && inner().any(|ix| always_passes(plan, ix)) {
        return;
    }
    inner().for_each(|ix| collect(plan, ix, soft, found));
}

fn always_passes(plan: &Plan, ix: ActionIx) -> bool {
    matches!(&plan.action(ix).kind, ActionKind::Step(step) if command(step) == Some("true"))
}

/// What a command runs, where that is known.
fn command(step: &StepAction) -> Option<&str> {
    (step.op.name.as_str() == "command").then_some(())?;
    step.args.iter().find(|(name, _)| name.value == "run")?.1.as_literal()
}

fn demands(step: &StepAction) -> Vec<(Demand, String)> {
    let expected = |key: &str| step.expect.as_ref().and_then(|expect| expect.get(key));
    let mut found = Vec::new();
    let mut add = |demand, what: &str| found.push((demand, what.to_owned()));
    match step.op.name.as_str() {
        "command" if command(step) != Some("true") => {
            let run = command(step).unwrap_or_default();
            if expected("exitCode").and_then(Arg::as_value).is_none_or(|value| value != "any") {
                add(Demand::Status("exitCode"), &format!("the exit status of `{run}`"));
            }
            for stream in ["stdout", "stderr"] {
                if expected(stream).is_some() {
                    add(Demand::Output(stream), &format!("what `{run}` prints"));
                }
            }
        }
        "http" => {
            if expected("status").and_then(Arg::as_value).is_none_or(|value| value != "any") {
                add(Demand::Status("status"), "the status of the answer");
            }
            if expected("body").is_some() {
                add(Demand::Output("body"), "the body of the answer");
            }
        }
        _ if step.op.signature.judges => add(Demand::Whole, "the judge"),
        _ if matches!(step.op.kind, OperationKind::Extension { .. }) => {
            add(Demand::Whole, &format!("the operation `{}`", step.op.name.as_str()));
        }
        _ => {}
    }
    found
}

impl Condition {
    /// The plan in which all is asked but this; `None` where that cannot be said.
    pub fn relaxed(&self, plan: &Plan) -> Option<Plan> {
        let mut plan = plan.clone();
        let action = plan.action_mut(self.ix);
        let span = action.span;
        let ActionKind::Step(step) = &mut action.kind else { return None };
        let mut fields: Vec<(crate::hir::Name, Arg<Def>)> = match step.expect.take().map(|expect| expect.kind) {
            Some(ArgKind::Record(fields)) => fields,
            _ => Vec::new(),
        };
        match self.demand {
            Demand::Status(key) => {
                fields.retain(|(name, _)| name.value != key);
                fields.push((crate::source::Spanned::new(key.to_owned(), span), Arg::text("any", span)));
            }
            Demand::Output(key) => fields.retain(|(name, _)| name.value != key),
            Demand::Whole => return None,
        }
        step.expect = (!fields.is_empty()).then(|| Arg::new(ArgKind::Record(fields), span));
        Some(plan)
    }
}
