//! The workflow of a pack. Temporal replays it from its history, so it must not depend on anything else: no clock, no
//! disk, no randomness.

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

use super::wire::{
    BatchEnd, BatchOrder, CleanupEnd, CleanupOrder, Done, GivenUp, MOST_LOST, Order, SoFar, Try, UnitEnd,
};
use crate::journal::Carried;

/// The type of failures of a worker that was stopped: the unit was ended and cleaned up, and another worker should run
/// it.
pub const STOPPED: &str = "stopped";
/// The type of failures that another attempt cannot fix.
pub const REFUSED: &str = "refused";
/// The number of events after which the workflow continues in a new one: a server accepts 51,200.
const LONG: u32 = 40_000;
/// If the server suggests it earlier (after 4,096 events, unless its operator changed that), the workflow continues in
/// a new one after this many times the events at that point. Before it can continue, everything in progress must end,
/// and lanes are idle meanwhile.
const LONGER: u32 = 8;
/// The same limit in bytes, including what is still to come: a server accepts 50 MB.
const LARGE: u64 = 40_000_000;
/// Bytes of history of a batch, in addition to its results.
const EVENTS: u64 = 2_000;
/// Seconds that a unit may take in addition to its own time, with many pollers queued and a slow disk.
const SLACK: u64 = 600;
/// Timeout of a cleanup.
const CLEANUP: Duration = Duration::from_secs(24 * 3600);

/// The number of units after which their duration is considered known, and the number of latest units that count.
const KNOWN: usize = 4;
const REMEMBERED: usize = 16;
/// While the durations are unknown, a batch is at most this fraction of a lane's share, and at most this many units:
/// units that wait behind a long one are returned when it has ended, and until then there is enough work for the other
/// lanes.
const BLIND: usize = 16;

/// Runs the units of a batch.
#[derive(Debug)]
pub struct RunBatch;

impl RunBatch {
    pub const NAME: &str = "gevals.batch";
}

impl ActivityDefinition for RunBatch {
    type Input = BatchOrder;
    type Output = BatchEnd;

    fn name(&self) -> &str {
        Self::NAME
    }
}

/// Cleans up after an attempt at a batch.
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
    /// The name that the macro uses.
    pub const NAME: &str = "RunPack";
}

#[workflow_methods]
impl RunPack {
    #[run]
    pub async fn run(ctx: &mut WorkflowContext<Self>, order: Order) -> WorkflowResult<Done> {
        let mut so_far = order.so_far.clone();
        so_far.began = so_far.began.or(now(ctx));
        so_far.free.resize(order.rates.len(), 0.0);
        let of = Pack { order: Rc::new(order), so_far: Rc::new(RefCell::new(so_far)), history: Rc::default() };
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
    history: Rc<RefCell<History>>,
}

/// The history of this workflow, as far as it is known here.
#[derive(Default)]
struct History {
    bytes: u64,
    /// The number of batches in progress.
    under_way: u64,
    /// The number of events when the server suggested a new workflow.
    suggested: Option<u32>,
}

impl History {
    /// Whether to continue in a new workflow; `largest` is the largest history of one batch so far.
    fn is_full(&self, events: u32, largest: u64) -> bool {
        let is_long = events > LONG || self.suggested.is_some_and(|at| events >= at.saturating_mul(LONGER));
        let to_come = (self.under_way + 1) * largest.max(EVENTS);
        // At least one batch is always started.
        is_long || (self.under_way > 0 || self.bytes > 0) && self.bytes + to_come > LARGE
    }
}

impl Pack {
    /// Runs one batch after another, as long as there are any.
    async fn lane(&self, ctx: WorkflowContext<RunPack>) {
        while let Some((first, others)) = self.next(&ctx) {
            let wait = self.wait(&ctx, first.unit);
            if wait > 0.0 {
                ctx.timer(Duration::from_secs_f64(wait)).await;
            }
            if is_cancelled(&ctx) {
                break;
            }
            self.attempt(&ctx, std::iter::once(first).chain(others).collect()).await;
        }
    }

    /// The next units to start: one, and those in the same batch.
    fn next(&self, ctx: &WorkflowContext<RunPack>) -> Option<(Try, Vec<Try>)> {
        let mut so_far = self.so_far.borrow_mut();
        let order = &self.order;
        let nothing_left = so_far.again.is_empty() && so_far.next >= order.units;
        if so_far.stopped.is_some() || nothing_left || is_cancelled(ctx) {
            return None;
        }
        // The remaining units continue in a new workflow.
        let mut history = self.history.borrow_mut();
        if ctx.continue_as_new_suggested() {
            history.suggested.get_or_insert(ctx.history_length());
        }
        if history.is_full(ctx.history_length(), so_far.largest) {
            return None;
        }
        drop(history);
        let spent = order.max_cost.filter(|most| so_far.cost >= *most);
        let took = now(ctx).zip(so_far.began).map(|(now, began)| now - began);
        let late = order.max_seconds.filter(|most| took.is_some_and(|took| took >= *most));
        so_far.stopped = match (spent, late) {
            (Some(most), _) => Some(format!("the cost limit of {most} is reached")),
            (_, Some(most)) => Some(format!("the time limit of {most} s is reached")),
            _ => None,
        };
        if so_far.stopped.is_some() {
            return None;
        }
        drop(so_far);
        Some(self.taken())
    }

    /// Takes the next remaining unit, and those in the same batch.
    fn taken(&self) -> (Try, Vec<Try>) {
        let (order, mut so_far) = (&self.order, self.so_far.borrow_mut());
        let first = so_far.again.pop_front().unwrap_or_else(|| so_far.never_begun());
        let mut others = Vec::new();
        if self.goes_with_others(first) {
            let most = self.most(&so_far);
            while others.len() + 1 < most {
                let following =
                    so_far.again.front().copied().or((so_far.next < order.units).then(|| so_far.never_begun_yet()));
                let goes_along =
                    |other: &Try| self.goes_with_others(*other) && self.of(other.unit) == self.of(first.unit);
                let Some(other) = following.filter(goes_along) else { break };
                if so_far.again.pop_front().is_none() {
                    so_far.next += 1;
                }
                others.push(other);
            }
        }
        (first, others)
    }

    /// Whether a unit may be in a batch with others. If something is counted at the start of each unit, each is a
    /// separate batch.
    fn goes_with_others(&self, attempt: Try) -> bool {
        attempt.is_fresh()
            && self.order.batch > 0.0
            && self.order.max_cost.is_none()
            && self.rate(attempt.unit).is_none()
    }

    /// The index of the agent and model of a unit.
    fn of(&self, unit: u32) -> usize {
        self.order.ends.partition_point(|end| *end <= unit)
    }

    /// The maximum number of units in a batch. While the durations are unknown, few; then as many as can start within
    /// the time of a batch if each takes the mean of the latest ones. A batch leaves as many units for each of the
    /// other lanes, except that a quarter of the time may always be used.
    fn most(&self, so_far: &SoFar) -> usize {
        let waiting = self.order.units.saturating_sub(so_far.next) as usize + so_far.again.len() + 1;
        let share = waiting / self.order.parallel.max(1) as usize;
        if so_far.took.len() < KNOWN {
            return (share / BLIND).clamp(1, BLIND);
        }
        let mean = so_far.took.iter().sum::<f64>() / so_far.took.len() as f64;
        let fit = |seconds: f64| (seconds / mean.max(0.001)).ceil() as usize;
        fit(self.order.batch).min(share.max(fit(self.order.batch / 4.0))).max(1)
    }

    /// The index and the rate of the provider that a unit uses.
    fn rate(&self, unit: u32) -> Option<(usize, &super::wire::Rate)> {
        let of = |rate: &super::wire::Rate| rate.units.iter().any(|(from, to)| (*from..*to).contains(&unit));
        self.order.rates.iter().enumerate().find(|(_, rate)| of(rate))
    }

    /// How long the unit has to wait for its provider, in seconds; reserves its slot.
    fn wait(&self, ctx: &WorkflowContext<RunPack>, unit: u32) -> f64 {
        let Some(now) = now(ctx) else { return 0.0 };
        let Some((nth, rate)) = self.rate(unit) else { return 0.0 };
        let mut so_far = self.so_far.borrow_mut();
        let at = so_far.free[nth].max(now);
        so_far.free[nth] = at + rate.every;
        at - now
    }

    async fn attempt(&self, ctx: &WorkflowContext<RunPack>, batch: Vec<Try>) {
        let order = &self.order;
        let left = order
            .max_seconds
            .zip(self.so_far.borrow().began)
            .zip(now(ctx))
            .map(|((most, began), now)| most - (now - began));
        let asked = BatchOrder {
            pack: order.pack.clone(),
            units: batch.iter().map(|attempt| attempt.unit).collect(),
            attempt: batch.first().map_or(1, Try::number),
            seconds: left.map_or(order.batch, |left| order.batch.min(left.max(0.0))),
            silence: order.silence,
        };
        // The last unit may start just before the time is over, and takes its own time.
        let longest = Duration::from_secs(order.longest * 2 + SLACK)
            + Duration::try_from_secs_f64(asked.seconds).unwrap_or_default();
        let options = ActivityOptions::with_start_to_close_timeout(longest)
            .heartbeat_timeout(Duration::from_secs(order.silence))
            .cancellation_type(ActivityCancellationType::WaitCancellationCompleted)
            .retry_policy(RetryPolicy::builder().maximum_attempts(1).build())
            .build();
        // If the workflow is canceled, this is canceled as well, and ends when the unit has cleaned up.
        self.history.borrow_mut().under_way += 1;
        let ended = ctx.execute_activity(RunBatch, asked.clone(), options).await;
        self.history.borrow_mut().under_way -= 1;
        match ended {
            Ok(end) => {
                self.note_bytes(end.results.as_ref().map_or(0, String::len));
                self.ended(&batch, end);
            }
            Err(why) => self.without_result(ctx, &asked, &batch, &why).await,
        }
    }

    fn note_bytes(&self, bytes: usize) {
        let bytes = bytes as u64 + EVENTS;
        self.history.borrow_mut().bytes += bytes;
        let mut so_far = self.so_far.borrow_mut();
        so_far.largest = so_far.largest.max(bytes);
    }

    fn ended(&self, batch: &[Try], end: BatchEnd) {
        let of = |unit: u32| batch.iter().find(|attempt| attempt.unit == unit).copied();
        for end in &end.ends {
            if let Some(attempt) = of(end.unit) {
                self.unit_ended(attempt, end);
            }
        }
        for attempt in end.lost.iter().copied().filter_map(of) {
            self.lost(attempt, "its process was lost");
        }
        let mut so_far = self.so_far.borrow_mut();
        end.left.iter().rev().copied().filter_map(of).for_each(|attempt| so_far.again.push_front(attempt));
    }

    fn unit_ended(&self, attempt: Try, end: &UnitEnd) {
        let mut so_far = self.so_far.borrow_mut();
        so_far.cost += end.cost.unwrap_or_default();
        so_far.took.push_back(end.seconds);
        if so_far.took.len() > REMEMBERED {
            so_far.took.pop_front();
        }
        if self.order.max_cost.is_some() && end.cost.is_none() && !end.is_broken() && so_far.stopped.is_none() {
            let why = "there is a cost limit, but the cost of a unit is unknown: start the workers with `--prices`";
            so_far.stopped = Some(why.to_owned());
        }
        // Repeating a unit that cannot be run does not help.
        let may_help = end.is_broken() && end.exit != 2 && end.exit < 128;
        if may_help && attempt.broken < self.order.retries {
            so_far.again.push_back(Try { broken: attempt.broken + 1, ..attempt });
        } else if !end.came_back {
            let why = end.note.clone().unwrap_or_else(|| "there is no result".to_owned());
            so_far.given_up.push(GivenUp { unit: attempt.unit, why });
        }
    }

    /// Schedules the unit again, unless it was lost too often.
    fn lost(&self, attempt: Try, what: &str) {
        let mut so_far = self.so_far.borrow_mut();
        match attempt.lost + 1 < MOST_LOST {
            true => so_far.again.push_back(Try { lost: attempt.lost + 1, ..attempt }),
            false => so_far.given_up.push(GivenUp { unit: attempt.unit, why: format!("{what} {MOST_LOST} times") }),
        }
    }

    async fn without_result(
        &self,
        ctx: &WorkflowContext<RunPack>,
        asked: &BatchOrder,
        batch: &[Try],
        why: &ActivityExecutionError,
    ) {
        if why.as_cancelled().is_some() {
            return;
        }
        let give_up = |attempt: &Try, why: &str| {
            self.so_far.borrow_mut().given_up.push(GivenUp { unit: attempt.unit, why: why.to_owned() });
        };
        if let Some(timeout) = why.as_timeout() {
            let Ok(carried) = timeout.last_heartbeat_details::<Option<Carried>>() else {
                let why = "the pending cleanups of a lost attempt cannot be read: its worker is another version";
                return batch.iter().for_each(|attempt| give_up(attempt, why));
            };
            let pending = match carried.flatten() {
                Some(carried) => {
                    // In the last heartbeat, and in the cleanup order.
                    self.note_bytes(carried.journal.len() * 2);
                    self.clean_up(ctx, asked, carried).await
                }
                None => Ok(Vec::new()),
            };
            for attempt in batch {
                match &pending {
                    Err(why) => give_up(attempt, why),
                    Ok(pending) if pending.contains(&attempt.unit) => {
                        give_up(attempt, "a cleanup of a lost attempt is still pending");
                    }
                    Ok(_) => self.lost(*attempt, "its worker was lost"),
                }
            }
            return;
        }
        let failure = application(why);
        match failure.as_ref().and_then(|(kind, _)| kind.as_deref()) {
            Some(STOPPED) => {
                let mut so_far = self.so_far.borrow_mut();
                batch.iter().rev().for_each(|attempt| so_far.again.push_front(*attempt));
            }
            Some(REFUSED) => {
                let why = failure.map(|(_, why)| why).unwrap_or_default();
                self.so_far.borrow_mut().stopped.get_or_insert(why);
            }
            _ => {
                let why = failure.map_or_else(|| why.to_string(), |(_, why)| why);
                for attempt in batch {
                    match attempt.broken < self.order.retries {
                        true => {
                            let again = Try { broken: attempt.broken + 1, ..*attempt };
                            self.so_far.borrow_mut().again.push_back(again);
                        }
                        false => give_up(attempt, &why),
                    }
                }
            }
        }
    }

    /// Runs a cleanup to its end, regardless of what happens to the workflow. Returns the units that still have pending
    /// cleanups.
    async fn clean_up(
        &self,
        ctx: &WorkflowContext<RunPack>,
        of: &BatchOrder,
        carried: Carried,
    ) -> Result<Vec<u32>, String> {
        let silence = self.order.silence;
        let BatchOrder { pack, units, attempt, .. } = of.clone();
        let order = CleanupOrder { pack, units, attempt, silence, carried };
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
            Ok(end) => Ok(end.pending),
            Err(why) => Err(format!("the cleanup after a lost attempt failed: {why}")),
        }
    }
}

/// The type and the message of an application failure.
fn application(why: &ActivityExecutionError) -> Option<(Option<String>, String)> {
    let Some(IncomingError::Application(failure)) = why.reason() else { return None };
    Some((failure.type_name().map(str::to_owned), failure.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::wire::{Rate, VERSION};

    fn pack(units: u32, change: impl FnOnce(&mut Order)) -> Pack {
        let mut order = Order {
            version: VERSION,
            pack: String::new(),
            units,
            parallel: 4,
            batch: 2.0,
            ends: vec![units],
            retries: 1,
            longest: 60,
            silence: 30,
            max_cost: None,
            max_seconds: None,
            rates: Vec::new(),
            so_far: SoFar::default(),
        };
        change(&mut order);
        let so_far = Rc::new(RefCell::new(order.so_far.clone()));
        Pack { order: Rc::new(order), so_far, history: Rc::default() }
    }

    fn end(unit: u32, seconds: f64) -> UnitEnd {
        let outcome = Some("passed".to_owned());
        UnitEnd { unit, exit: 0, outcome, seconds, cost: Some(0.0), came_back: true, note: None }
    }

    /// The sizes of all batches, if each ends before the next one is taken, and each unit takes this long.
    fn sizes(pack: &Pack, seconds: impl Fn(u32) -> f64) -> Vec<usize> {
        let mut sizes = Vec::new();
        let mut seen = Vec::new();
        while pack.so_far.borrow().next < pack.order.units || !pack.so_far.borrow().again.is_empty() {
            let (first, others) = pack.taken();
            let batch: Vec<_> = std::iter::once(first).chain(others).collect();
            let ends = batch.iter().map(|attempt| end(attempt.unit, seconds(attempt.unit))).collect();
            seen.extend(batch.iter().map(|attempt| attempt.unit));
            sizes.push(batch.len());
            pack.ended(
                &batch,
                BatchEnd { ends, left: Vec::new(), lost: Vec::new(), results: None, worker: String::new() },
            );
        }
        assert_eq!(seen, (0..pack.order.units).collect::<Vec<_>>(), "each unit once, in order");
        sizes
    }

    #[test]
    fn short_units_are_batched_and_long_ones_run_alone() {
        let short = sizes(&pack(1000, |_| {}), |_| 0.01);
        assert_eq!(short[..2], [15, 200], "nothing is known at first, then two seconds are full");
        // A quarter of the time may always be used; otherwise as many units are left for each of the other lanes.
        assert!(short[2..].iter().all(|size| (1..=200).contains(size)) && short.len() < 20, "{short:?}");
        assert!(sizes(&pack(100, |_| {}), |_| 2.0).iter().all(|size| *size == 1));
        assert!(sizes(&pack(100, |_| {}), |_| 1.0).contains(&2), "the second one begins in time");
        assert!(
            sizes(&pack(100, |_| {}), |unit| if unit % 4 == 3 { 30.0 } else { 0.01 }).iter().all(|size| *size == 1)
        );
        // Four lanes, twelve units left: none takes more than its share, unless it is short.
        let few = sizes(&pack(16, |_| {}), |_| 0.4);
        assert_eq!(few, [1, 1, 1, 1, 3, 2, 2, 2, 2, 1]);
    }

    #[test]
    fn a_history_reserves_space_for_pending_batches() {
        let full = |bytes, under_way, largest| History { bytes, under_way, suggested: None }.is_full(100, largest);
        assert!(!full(30_000_000, 200, 20_000));
        assert!(full(30_000_000, 5, 2_000_000));
        assert!(full(0, 20, 2_000_000), "others wait until those have ended");
        assert!(!full(0, 0, 60_000_000), "nothing at all would be begun");
        let long = |suggested, events| History { suggested, ..History::default() }.is_full(events, 0);
        assert!(!long(Some(4_096), 30_000) && long(Some(4_096), 33_000) && long(Some(5), 40) && long(None, 40_001));
    }

    #[test]
    fn units_counted_at_their_start_run_alone() {
        let alone = |change: fn(&mut Order)| sizes(&pack(60, change), |_| 0.01).iter().all(|size| *size == 1);
        assert!(alone(|order| order.batch = 0.0));
        assert!(alone(|order| order.max_cost = Some(1.0)));
        assert!(alone(|order| order.rates = vec![Rate { units: vec![(0, 60)], every: 1.0 }]));
        // Units of another provider do not wait for it.
        let sizes = sizes(&pack(60, |order| order.rates = vec![Rate { units: vec![(0, 20)], every: 1.0 }]), |_| 0.01);
        assert!(sizes[..20].iter().all(|size| *size == 1) && sizes[20] > 1, "{sizes:?}");
    }

    #[test]
    fn a_batch_has_one_agent_and_model() {
        let pack = pack(60, |order| {
            order.ends = vec![20, 60];
            order.so_far.took = [0.001; 4].into();
        });
        let (first, others) = pack.taken();
        assert_eq!((first.unit, others.len()), (0, 19));
        assert_eq!(pack.taken().0.unit, 20);
    }

    #[test]
    fn broken_units_are_retried_alone_and_unstarted_units_come_first() {
        let pack = pack(60, |order| {
            order.batch = 0.2;
            order.so_far.took = [0.01; 4].into();
        });
        let (first, others) = pack.taken();
        let batch: Vec<_> = std::iter::once(first).chain(others).collect();
        assert!(batch.len() >= 6, "{batch:?}");
        let broken = UnitEnd { outcome: Some("broken".to_owned()), ..end(0, 0.01) };
        let left = batch[4..].iter().map(|attempt| attempt.unit).collect();
        pack.ended(
            &batch,
            BatchEnd {
                ends: vec![broken, end(1, 0.01), end(2, 0.01)],
                left,
                lost: vec![3],
                results: None,
                worker: String::new(),
            },
        );
        let (first, others) = pack.taken();
        assert_eq!((first.unit, first.is_fresh()), (4, true));
        let following = batch.last().unwrap().unit;
        assert!(
            others.iter().map(|attempt| attempt.unit).eq(5..=following),
            "up to those that are run again: {others:?}"
        );
        assert_eq!(pack.taken(), (Try { unit: 0, broken: 1, lost: 0 }, Vec::new()));
        assert_eq!(pack.taken(), (Try { unit: 3, broken: 0, lost: 1 }, Vec::new()));
        assert_eq!(pack.taken().0.unit, following + 1);
    }
}
