//! How long a plan can take at the most: every part of it is bounded.

use std::time::Duration;

use super::{ActionIx, ActionKind, AgentKind, Plan, StepAction};
use crate::{
    hir::ArgKind,
    signature::{Control, Format, Shape},
    ty::duration,
};

/// The longest one run of the task can take; every part of it is bounded.
pub fn worst_case(plan: &Plan) -> Duration {
    let agent = match &plan.action(plan.agent).kind {
        ActionKind::Agent(agent) => match agent.kind {
            AgentKind::Noop => Some(Duration::ZERO),
            _ => None,
        },
        _ => None,
    };
    let work = sum(plan.setup.iter().chain(&plan.verify).map(|&ix| bound(plan, ix)).chain([agent]));
    let cleanup = sum(plan.cleanup.iter().map(|&ix| bound(plan, ix)));
    let limit = |time: Option<Duration>, limit: Duration| time.map_or(limit, |t| t.min(limit));
    limit(work, plan.timeout).saturating_add(limit(cleanup, plan.cleanup_timeout))
}

/// The longest an action can take by itself; `None` where nothing bounds it.
fn bound(plan: &Plan, ix: ActionIx) -> Option<Duration> {
    let action = plan.action(ix);
    let ActionKind::Step(step) = &action.kind else { return Some(Duration::ZERO) };
    let blocks = || sum(action.blocks.iter().flat_map(|b| &b.actions).map(|&ix| bound(plan, ix)));
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

/// The duration that a step is told to last.
fn lasting(step: &StepAction) -> Option<Duration> {
    let duration = step.op.signature.params.fields()?.get("duration")?;
    let Shape::String { format: Some(Format::Duration), .. } = duration.shape else { return None };
    let (_, arg) = step.args.iter().find(|(name, _)| name.value == "duration")?;
    duration::parse(arg.as_literal()?).ok()
}

fn sum(mut times: impl Iterator<Item = Option<Duration>>) -> Option<Duration> {
    times.try_fold(Duration::ZERO, |sum, time| Some(sum.saturating_add(time?)))
}
