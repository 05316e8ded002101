//! Computes how long a plan can take at most: every part of it has a limit.

use std::time::Duration;

use super::{ActionIx, ActionKind, AgentKind, Holder, Plan, PlanPhase, StepAction};
use crate::{
    hir::ArgKind,
    signature::{Control, Format, Shape},
    ty::duration,
};

/// What each step of a cleanup may take, even if the steps before it have used up the timeout of the cleanup (unless that is shorter).
pub const LEAST_CLEANUP: Duration = Duration::from_secs(10);

/// Returns the longest time that one run of the task can take; every part of it has a limit.
pub fn worst_case(plan: &Plan) -> Duration {
    let phases = [PlanPhase::Setup, PlanPhase::Agent, PlanPhase::Verify];
    let work = sum(phases.into_iter().map(|phase| longest(plan, phase.into())));
    let cleanup = longest(plan, PlanPhase::Cleanup.into());
    let limit = |time: Option<Duration>, limit: Duration| time.map_or(limit, |t| t.min(limit));
    let others = u32::try_from(plan.members(PlanPhase::Cleanup).count().saturating_sub(1)).unwrap_or(u32::MAX);
    let cleanup_limit =
        plan.cleanup_timeout.saturating_add(LEAST_CLEANUP.min(plan.cleanup_timeout).saturating_mul(others));
    limit(work, plan.timeout).saturating_add(limit(cleanup, cleanup_limit))
}

/// Returns the duration of the longest path through a phase or block; `None` if something on it has no limit. Actions that
/// run in parallel count once.
fn longest(plan: &Plan, holder: Holder) -> Option<Duration> {
    // Members are in node order.
    let mut ends: Vec<(ActionIx, Duration)> = Vec::new();
    let end_of = |ends: &[(ActionIx, Duration)], ix| Some(ends[ends.binary_search_by_key(&ix, |(ix, _)| *ix).ok()?].1);
    for ix in plan.members(holder) {
        let starts = plan.just_before(ix).filter_map(|before| end_of(&ends, before)).max().unwrap_or_default();
        ends.push((ix, starts.saturating_add(bound(plan, ix)?)));
    }
    Some(ends.into_iter().map(|(_, end)| end).max().unwrap_or_default())
}

/// Returns the longest time that an action can take by itself; `None` if nothing limits it.
fn bound(plan: &Plan, ix: ActionIx) -> Option<Duration> {
    let action = plan.action(ix);
    let step = match &action.kind {
        ActionKind::Step(step) => step,
        ActionKind::Agent(agent) => return matches!(agent.kind, AgentKind::Noop).then_some(Duration::ZERO),
        ActionKind::Assertion(_) => return Some(Duration::ZERO),
    };
    let blocks = || sum(plan.blocks(ix).map(|block| longest(plan, block.holder)));
    let own = match step.op.signature.control {
        Control::Leaf => lasting(step),
        Control::Scope | Control::Any => blocks(),
        Control::Eventually => None,
        Control::Consistently => sum([lasting(step), blocks()].into_iter()),
        Control::Each => {
            let values = step.args.iter().find(|(name, _)| name.value == "in").map(|(_, arg)| &arg.kind);
            match values {
                Some(ArgKind::List(items)) => {
                    blocks().map(|round| round.saturating_mul(u32::try_from(items.len()).unwrap_or(u32::MAX)))
                }
                _ => None,
            }
        }
    };
    match (own, action.timeout) {
        (Some(own), Some(limit)) => Some(own.min(limit)),
        (own, limit) => own.or(limit),
    }
}

/// Returns the duration that a step specifies.
fn lasting(step: &StepAction) -> Option<Duration> {
    let duration = step.op.signature.params.fields()?.get("duration")?;
    let Shape::String { format: Some(Format::Duration), .. } = duration.shape else { return None };
    let (_, arg) = step.args.iter().find(|(name, _)| name.value == "duration")?;
    duration::parse(arg.as_literal()?).ok()
}

fn sum(mut times: impl Iterator<Item = Option<Duration>>) -> Option<Duration> {
    times.try_fold(Duration::ZERO, |sum, time| Some(sum.saturating_add(time?)))
}
