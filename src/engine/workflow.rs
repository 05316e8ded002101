//! The workflow of a pack. It is computed again from its history, so it asks nothing but that: no clock, no disk, no chance.

use std::{
    cell::RefCell,
    rc::Rc,
    time::{Duration, UNIX_EPOCH},
};

use temporalio_common::{ActivityDefinition, RetryPolicy, error::IncomingError};
use temporalio_macros::{workflow, workflow_methods};
use temporalio_sdk::{
    ActivityCancellationType, ActivityExecutionError, ActivityOptions, ContinueAsNewOptions, WorkflowCancellationToken,
    WorkflowContext, WorkflowResult, WorkflowTermination, workflows,
};

use super::wire::{CleanupEnd, CleanupOrder, Done, GivenUp, MOST_LOST, Order, SoFar, Try, UnitEnd, UnitOrder};
use crate::journal::Carried;

/// The type of failures of a worker that was stopped: the unit was ended and cleaned up, and belongs to another worker.
pub const STOPPED: &str = "stopped";
/// The type of failures that no other attempt gets around.
pub const REFUSED: &str = "refused";
/// Events after which the workflow goes on in a new one.
const LONG: u32 = 10_000;
/// What a unit takes beyond its own time, with a queue of pollers and a slow disk.
const SLACK: u64 = 600;
/// A cleanup may take so long.
const CLEANUP: Duration = Duration::from_secs(24 * 3600);

/// Runs a unit.
#[derive(Debug)]
pub struct RunUnit;

impl RunUnit {
    pub const NAME: &str = "gevals.unit";
}

impl ActivityDefinition for RunUnit {
    type Input = UnitOrder;
    type Output = UnitEnd;

    fn name(&self) -> &str {
        Self::NAME
    }
}

/// Cleans up after an attempt at a unit.
#[derive(Debug)]
pub struct CleanUp;

impl CleanUp {
    pub const NAME: &str = "gevals.cleanup";
}

impl ActivityDefinition for CleanUp {
    type Input = CleanupOrder;
    type Output = CleanupEnd;

    fn name(&self) -> &str {
        Self::NAME
    }
}

/// Runs the units of a pack.
#[workflow]
#[derive(Default)]
pub struct RunPack;

impl RunPack {
    /// As the macro calls it.
    pub const NAME: &str = "RunPack";
}

#[workflow_methods]
impl RunPack {
    #[run]
    pub async fn run(ctx: &mut WorkflowContext<Self>, order: Order) -> WorkflowResult<Done> {
        let mut so_far = order.so_far.clone();
        so_far.began = so_far.began.or(now(ctx));
        so_far.free.resize(order.rates.len(), 0.0);
        let of = Pack { order: Rc::new(order), so_far: Rc::new(RefCell::new(so_far)) };
        let lanes: Vec<_> = (0..of.order.parallel.max(1)).map(|_| of.lane(ctx.clone())).collect();
        workflows::join_all(lanes).await;
        let so_far = of.so_far.borrow().clone();
        let cancelled = is_cancelled(ctx);
        let is_over = so_far.stopped.is_some() || so_far.next >= of.order.units && so_far.again.is_empty();
        if !is_over && !cancelled {
            let rest = Order { so_far, ..(*of.order).clone() };
            match ctx.continue_as_new(rest, ContinueAsNewOptions::default())? {}
        }
        match cancelled {
            true => Err(WorkflowTermination::cancelled_with_details(Done { so_far, cancelled })),
            false => Ok(Done { so_far, cancelled }),
        }
    }
}

fn now(ctx: &WorkflowContext<RunPack>) -> Option<f64> {
    ctx.workflow_time()?.duration_since(UNIX_EPOCH).ok().map(|time| time.as_secs_f64())
}

fn is_cancelled(ctx: &WorkflowContext<RunPack>) -> bool {
    ctx.cancellation_token().is_cancelled()
}

#[derive(Clone)]
struct Pack {
    order: Rc<Order>,
    so_far: Rc<RefCell<SoFar>>,
}

impl Pack {
    /// One unit after another, as long as there are any.
    async fn lane(&self, ctx: WorkflowContext<RunPack>) {
        while let Some(attempt) = self.next(&ctx) {
            let wait = self.wait(&ctx, attempt.unit);
            if wait > 0.0 {
                ctx.timer(Duration::from_secs_f64(wait)).await;
            }
            if is_cancelled(&ctx) {
                break;
            }
            self.attempt(&ctx, attempt).await;
        }
    }

    /// What is begun next.
    fn next(&self, ctx: &WorkflowContext<RunPack>) -> Option<Try> {
        let mut so_far = self.so_far.borrow_mut();
        let order = &self.order;
        let nothing_left = so_far.again.is_empty() && so_far.next >= order.units;
        if so_far.stopped.is_some() || nothing_left || is_cancelled(ctx) {
            return None;
        }
        // What is left goes on in a new workflow.
        if ctx.continue_as_new_suggested() || ctx.history_length() > LONG {
            return None;
        }
        let spent = order.max_cost.filter(|most| so_far.cost >= *most);
        let took = now(ctx).zip(so_far.began).map(|(now, began)| now - began);
        let late = order.max_seconds.filter(|most| took.is_some_and(|took| took >= *most));
        so_far.stopped = match (spent, late) {
            (Some(most), _) => Some(format!("the limit of cost of {most} is spent")),
            (_, Some(most)) => Some(format!("the limit of time of {most} s is over")),
            _ => None,
        };
        if so_far.stopped.is_some() {
            return None;
        }
        so_far.again.pop_front().or_else(|| {
            let unit = so_far.next;
            so_far.next += 1;
            Some(Try { unit, broken: 0, lost: 0 })
        })
    }

    /// How long the unit has to wait for its provider, in seconds; its place is taken.
    fn wait(&self, ctx: &WorkflowContext<RunPack>, unit: u32) -> f64 {
        let Some(now) = now(ctx) else { return 0.0 };
        let of =
            |rate: &&(usize, &super::wire::Rate)| rate.1.units.iter().any(|(from, to)| (*from..*to).contains(&unit));
        let Some((nth, rate)) = self.order.rates.iter().enumerate().collect::<Vec<_>>().iter().find(of).copied() else {
            return 0.0;
        };
        let mut so_far = self.so_far.borrow_mut();
        let at = so_far.free[nth].max(now);
        so_far.free[nth] = at + rate.every;
        at - now
    }

    async fn attempt(&self, ctx: &WorkflowContext<RunPack>, attempt: Try) {
        let order = &self.order;
        let unit = UnitOrder {
            pack: order.pack.clone(),
            unit: attempt.unit,
            attempt: attempt.broken + attempt.lost + 1,
            silence: order.silence,
        };
        let number = unit.attempt;
        let options = ActivityOptions::with_start_to_close_timeout(Duration::from_secs(order.longest * 2 + SLACK))
            .heartbeat_timeout(Duration::from_secs(order.silence))
            .cancellation_type(ActivityCancellationType::WaitCancellationCompleted)
            .retry_policy(RetryPolicy::builder().maximum_attempts(1).build())
            .build();
        // Where the workflow is cancelled, so is this, and it ends when the unit has cleaned up.
        match ctx.execute_activity(RunUnit, unit, options).await {
            Ok(end) => self.ended(attempt, &end),
            Err(why) => self.without_result(ctx, attempt, number, &why).await,
        }
    }

    fn ended(&self, attempt: Try, end: &UnitEnd) {
        let mut so_far = self.so_far.borrow_mut();
        so_far.cost += end.cost.unwrap_or_default();
        if self.order.max_cost.is_some() && end.cost.is_none() && !end.is_broken() && so_far.stopped.is_none() {
            let why = "there is a limit of cost, and nothing tells what a unit cost: start the workers with `--prices`";
            so_far.stopped = Some(why.to_owned());
        }
        // Of a unit that cannot be run there is nothing to hope for.
        let may_help = end.is_broken() && end.exit != 2 && end.exit < 128;
        if may_help && attempt.broken < self.order.retries {
            so_far.again.push_back(Try { broken: attempt.broken + 1, ..attempt });
        } else if end.results.is_none() {
            let why = end.note.clone().unwrap_or_else(|| "there is no result".to_owned());
            so_far.given_up.push(GivenUp { unit: attempt.unit, why });
        }
    }

    async fn without_result(
        &self,
        ctx: &WorkflowContext<RunPack>,
        attempt: Try,
        number: u32,
        why: &ActivityExecutionError,
    ) {
        if why.as_cancelled().is_some() {
            return;
        }
        let give_up = |why: String| self.so_far.borrow_mut().given_up.push(GivenUp { unit: attempt.unit, why });
        let again = |attempt: Try| self.so_far.borrow_mut().again.push_back(attempt);
        if let Some(timeout) = why.as_timeout() {
            let Ok(carried) = timeout.last_heartbeat_details::<Option<Carried>>() else {
                return give_up(
                    "what a lost attempt left pending cannot be read: its worker is of another version".to_owned(),
                );
            };
            if let Some(carried) = carried.flatten()
                && let Err(why) = self.clean_up(ctx, attempt.unit, number, carried).await
            {
                return give_up(why);
            }
            return match attempt.lost + 1 < MOST_LOST {
                true => again(Try { lost: attempt.lost + 1, ..attempt }),
                false => give_up(format!("its worker was lost {MOST_LOST} times")),
            };
        }
        let failure = application(why);
        match failure.as_ref().and_then(|(kind, _)| kind.as_deref()) {
            Some(STOPPED) => again(attempt),
            Some(REFUSED) => {
                let why = failure.map(|(_, why)| why).unwrap_or_default();
                self.so_far.borrow_mut().stopped.get_or_insert(why);
            }
            _ => {
                let why = failure.map_or_else(|| why.to_string(), |(_, why)| why);
                match attempt.broken < self.order.retries {
                    true => again(Try { broken: attempt.broken + 1, ..attempt }),
                    false => give_up(why),
                }
            }
        }
    }

    /// Whatever happens to the workflow: a cleanup that was begun is brought to its end.
    async fn clean_up(
        &self,
        ctx: &WorkflowContext<RunPack>,
        unit: u32,
        attempt: u32,
        carried: Carried,
    ) -> Result<(), String> {
        let silence = self.order.silence;
        let order = CleanupOrder { pack: self.order.pack.clone(), unit, attempt, silence, carried };
        let retry = RetryPolicy::builder()
            .initial_interval(Duration::from_secs(1))
            .maximum_interval(Duration::from_secs(60))
            .build();
        let options = ActivityOptions::with_start_to_close_timeout(CLEANUP)
            .heartbeat_timeout(Duration::from_secs(silence))
            .retry_policy(retry)
            .cancellation_token(WorkflowCancellationToken::new())
            .build();
        match ctx.execute_activity(CleanUp, order, options).await {
            Ok(end) if end.pending => Err("a cleanup of a lost attempt is still pending".to_owned()),
            Ok(_) => Ok(()),
            Err(why) => Err(format!("a lost attempt could not be cleaned up after: {why}")),
        }
    }
}

/// The type of an application's failure, and its message.
fn application(why: &ActivityExecutionError) -> Option<(Option<String>, String)> {
    let Some(IncomingError::Application(failure)) = why.reason() else { return None };
    Some((failure.type_name().map(str::to_owned), failure.to_string()))
}
