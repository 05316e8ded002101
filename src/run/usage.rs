//! What agents and judges use, and the limits that stop them. Counts follow §3.7 of the upstream behaviour.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::{
    agent::Spent,
    event::{CallReport, Limited, TokenEstimate, TokenUsage, Used},
    hir::{Bounds, CallKind},
    judge::token_usage,
    mcp::Allowance,
    plan::Judge,
    prices::{Price, money},
    tokens::count,
};

/// Counts what an agent uses during one turn.
pub(super) struct Meter<'a> {
    estimate: TokenEstimate,
    /// The minimum that the agent has reported.
    least: u64,
    /// The tool calls of the turn.
    calls: Arc<Allowance>,
    price: Option<Price>,
    bounds: &'a Bounds,
    budget: &'a Ledger,
    /// What was added to the budget so far.
    reported: Used,
}

/// What all tasks of a run have used together.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    bounds: Bounds,
    /// Without the tool calls.
    used: Mutex<Used>,
    calls: Arc<Allowance>,
}

impl Ledger {
    /// `before` is the part of these bounds that was used earlier.
    pub fn new(bounds: Bounds, before: Used) -> Self {
        let calls = Arc::new(Allowance::new(bounds.tool_calls, before.tool_calls));
        Self { bounds, used: Mutex::new(before), calls }
    }

    /// The limit that is already exceeded, in a message.
    pub fn over(&self) -> Option<String> {
        self.beyond(self.total())
    }

    /// What was used so far, including what was used earlier.
    pub fn total(&self) -> Used {
        Used { tool_calls: self.calls.made(), ..*self.used() }
    }

    /// The allowance of tool calls.
    pub fn calls(&self) -> Arc<Allowance> {
        Arc::clone(&self.calls)
    }

    /// The usage together with the limits, if there are any.
    pub fn limited(&self) -> Option<Limited> {
        let Bounds { tokens: max_tokens, cost: max_cost, tool_calls: max_tool_calls } = self.bounds;
        let Used { tokens, cost, tool_calls } = self.total();
        (!self.is_unlimited()).then_some(Limited { max_tokens, max_cost, max_tool_calls, tokens, cost, tool_calls })
    }

    /// Whether there are no limits.
    pub fn is_unlimited(&self) -> bool {
        self.bounds.is_empty()
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces what a judge had used before with what it has used now; returns the limit that is now exceeded.
    pub fn judged(&self, now: &TokenUsage, before: &TokenUsage, price: Option<Price>) -> Option<String> {
        let used = |usage: &TokenUsage| Used {
            tokens: usage.total_tokens,
            cost: cost(price, usage).unwrap_or_default(),
            tool_calls: 0,
        };
        self.settle(used(before), used(now));
        self.beyond(Used { tool_calls: 0, ..self.total() })
    }

    /// Replaces one amount of tokens and cost with another.
    fn settle(&self, before: Used, now: Used) {
        let mut used = self.used();
        used.tokens = used.tokens.saturating_sub(before.tokens).saturating_add(now.tokens);
        used.cost += now.cost - before.cost;
    }

    fn beyond(&self, used: Used) -> Option<String> {
        over(used, &self.bounds).map(|what| format!("the run exceeded its limit of {what}"))
    }
}

fn over(used: Used, bounds: &Bounds) -> Option<String> {
    if let Some(most) = bounds.tokens.filter(|most| used.tokens > *most) {
        return Some(format!("{most} tokens: {} were used", used.tokens));
    }
    if let Some(most) = bounds.tool_calls.filter(|most| used.tool_calls > *most) {
        return Some(format!("{most} tool calls: {} were made", used.tool_calls));
    }
    let most = bounds.cost.filter(|most| used.cost > *most)?;
    Some(format!("a cost of {most}: it was {}", money(used.cost)))
}

pub(super) fn cost(price: Option<Price>, used: &TokenUsage) -> Option<f64> {
    Some(price?.cost(used.input_tokens, used.output_tokens, used.cached_read_tokens))
}

/// The limits that a turn exceeded.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Over {
    /// A limit of the agent.
    pub task: Option<String>,
    /// A limit of the whole run.
    pub run: Option<String>,
}

impl Over {
    pub fn is_any(&self) -> bool {
        self.task.is_some() || self.run.is_some()
    }

    /// Combines both; of each kind, the limit that was exceeded first.
    pub fn and(self, later: Self) -> Self {
        Self { task: self.task.or(later.task), run: self.run.or(later.run) }
    }
}

impl<'a> Meter<'a> {
    /// `schema` is the number of tokens in the tools' descriptions; `calls` is incremented where calls are made.
    pub fn new(
        prompt: &str,
        schema: u64,
        price: Option<Price>,
        (bounds, calls): (&'a Bounds, Arc<Allowance>),
        budget: &'a Ledger,
    ) -> Self {
        let estimate = TokenEstimate {
            prompt_tokens: count(prompt),
            mcp_schema_tokens: schema,
            source: "estimated".to_owned(),
            ..TokenEstimate::default()
        };
        Self { estimate, least: 0, calls, price, bounds, budget, reported: Used::default() }
    }

    /// Counts a call that the agent has made.
    pub fn call(&mut self, call: &CallReport) -> Over {
        let of = |value: Option<&Value>| value.map_or(0, |value| count(&value.to_string()));
        let arguments = || of(call.params.get("arguments"));
        let result = of(call.result.as_ref());
        let estimate = &mut self.estimate;
        match call.kind {
            CallKind::Tool => {
                estimate.tool_input_tokens += arguments();
                estimate.tool_output_tokens += result;
            }
            CallKind::Resource => {
                estimate.resource_input_tokens += count(&call.name);
                estimate.resource_output_tokens += result;
            }
            CallKind::Prompt => {
                estimate.prompt_get_input_tokens += arguments();
                estimate.prompt_get_output_tokens += result;
            }
        }
        self.look(false)
    }

    /// Takes over what the agent or its model reports as used so far.
    pub fn reported(&mut self, spent: Spent) -> Over {
        self.take(spent);
        self.look(false)
    }

    fn take(&mut self, spent: Spent) {
        match spent {
            Spent::Reported(usage) => {
                self.estimate.source = "actual".to_owned();
                self.estimate.actual = Some(token_usage(usage));
            }
            Spent::AtLeast(tokens) => {
                // An earlier report covers only a part.
                self.estimate.source = "estimated".to_owned();
                self.estimate.actual = None;
                self.least = self.least.max(tokens);
            }
        }
    }

    /// Counts the end of the turn.
    pub fn end(&mut self, message: &str, spent: Option<Spent>) -> Over {
        self.estimate.message_tokens = count(message);
        if let Some(spent) = spent {
            self.take(spent);
        }
        self.look(true)
    }

    /// Updates the estimate and checks the limits. Tool calls are counted only when no more can be made.
    fn look(&mut self, is_over: bool) -> Over {
        let estimate = &mut self.estimate;
        let used = estimate.actual.unwrap_or_else(|| {
            let input_tokens = estimate.prompt_tokens
                + estimate.tool_output_tokens
                + estimate.mcp_schema_tokens
                + estimate.resource_output_tokens
                + estimate.prompt_get_output_tokens;
            let output_tokens = estimate.message_tokens
                + estimate.thinking_tokens
                + estimate.tool_input_tokens
                + estimate.resource_input_tokens
                + estimate.prompt_get_input_tokens;
            TokenUsage {
                input_tokens,
                output_tokens,
                total_tokens: input_tokens + output_tokens,
                ..TokenUsage::default()
            }
            .at_least(self.least)
        });
        (estimate.input_tokens, estimate.output_tokens, estimate.total_tokens) =
            (used.input_tokens, used.output_tokens, used.total_tokens);
        estimate.cost = cost(self.price, &used);
        let counted = |calls: u64| if is_over { calls } else { 0 };
        let now = Used {
            tokens: used.total_tokens,
            cost: estimate.cost.unwrap_or_default(),
            tool_calls: counted(self.calls.made()),
        };
        self.budget.settle(std::mem::replace(&mut self.reported, now), now);
        let all = self.budget.total();
        let run = self.budget.beyond(Used { tool_calls: counted(all.tool_calls), ..all });
        let task = over(now, self.bounds).map(|what| format!("the agent exceeded its limit of {what}"));
        Over { task, run }
    }

    /// The estimate for the turn.
    pub fn into_estimate(self) -> TokenEstimate {
        self.estimate
    }
}

/// The price of a model, by its own name or by the name of its agent.
pub(super) fn price(prices: Option<&Arc<crate::prices::Prices>>, model: Option<&str>, agent: &str) -> Option<Price> {
    prices?.of(model.into_iter().chain([agent]))
}

/// The price of a judge.
pub(super) fn judge_price(prices: Option<&Arc<crate::prices::Prices>>, judge: Option<&Judge>) -> Option<Price> {
    let judge = judge?;
    price(prices, judge.model(), &judge.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{agent::Usage, hir::CallStatus};

    fn bounds(tokens: Option<u64>, tool_calls: Option<u64>) -> Bounds {
        Bounds { tokens, cost: None, tool_calls }
    }

    fn call(result: &str) -> CallReport {
        CallReport {
            server: "s".to_owned(),
            kind: CallKind::Tool,
            name: "t".to_owned(),
            params: serde_json::json!({ "arguments": { "a": 1 } }),
            started: "2026-01-01T00:00:00Z".parse().unwrap(),
            duration: std::time::Duration::ZERO,
            status: CallStatus::Ok,
            error: None,
            result: Some(result.into()),
            headers: Default::default(),
        }
    }

    #[test]
    fn a_turn_is_counted_and_stopped() {
        let (own, ledger) = (bounds(Some(200), None), Ledger::new(bounds(None, Some(3)), Used::default()));
        let (calls, all) = (Arc::new(Allowance::new(None, 0)), ledger.calls());
        let make = |own: &Allowance| own.admits() & all.admits();
        let mut meter = Meter::new("Write it down.", 50, None, (&own, Arc::clone(&calls)), &ledger);
        assert!(make(&calls) && make(&calls));
        assert!(!meter.call(&call("ok")).is_any());
        let over = meter.call(&call(&"word ".repeat(300)));
        assert!(over.task.is_some() && over.run.is_none(), "{over:?}");
        // The reported usage takes precedence.
        let actual = Usage { input_tokens: 90, output_tokens: 10, total_tokens: 100, ..Usage::default() };
        assert!(!meter.end("done", Some(Spent::Reported(actual))).is_any());
        let estimate = meter.into_estimate();
        assert_eq!((estimate.total_tokens, estimate.source.as_str()), (100, "actual"));
        assert!(estimate.tool_output_tokens > 300 && estimate.mcp_schema_tokens == 50);
        let used = ledger.total();
        assert_eq!((used.tokens, used.tool_calls), (100, 2));
        // The next turn exceeds the run's limit of calls.
        let own = bounds(None, Some(1));
        let calls = Arc::new(Allowance::new(Some(1), 0));
        let mut next = Meter::new("x", 0, None, (&own, Arc::clone(&calls)), &ledger);
        // One call may exceed both limits; the number of calls is reported at the end.
        assert!(make(&calls) && !make(&calls));
        assert!(!next.call(&call("ok")).is_any());
        let Over { task, run } = next.end("done", None);
        assert_eq!(run.unwrap(), "the run exceeded its limit of 3 tool calls: 4 were made");
        assert_eq!(task.unwrap(), "the agent exceeded its limit of 1 tool calls: 2 were made");
    }

    #[test]
    fn the_size_of_a_context_is_a_lower_bound_of_usage() {
        let (none, ledger) = (Bounds::default(), Ledger::default());
        let counted = |least: u64| {
            let mut meter = Meter::new("Write it down.", 50, None, (&none, Arc::default()), &ledger);
            assert!(!meter.reported(Spent::AtLeast(least)).is_any());
            assert!(!meter.end("All is written.", Some(Spent::AtLeast(1))).is_any());
            meter.into_estimate()
        };
        let (small, large) = (counted(10), counted(4000));
        assert_eq!((small.input_tokens, small.output_tokens, small.total_tokens), (54, 4, 58));
        // The input grows; the output stays.
        assert_eq!((large.input_tokens, large.output_tokens, large.total_tokens), (3996, 4, 4000));
        assert_eq!((large.source.as_str(), large.actual), ("estimated", None));
    }
}
