//! What agents and judges use, and the limits that stop them. Counts are those of §3.7 of the upstream behaviour.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::{
    agent::Spent,
    event::{CallReport, Limited, TokenEstimate, TokenUsage, Used},
    hir::{Bounds, CallKind},
    judge::token_usage,
    plan::Judge,
    prices::{Price, money},
    tokens::count,
};

/// Counts one turn of an agent while it goes on.
pub(super) struct Meter<'a> {
    estimate: TokenEstimate,
    /// The agent says that it was this much at least.
    least: u64,
    tool_calls: u64,
    price: Option<Price>,
    bounds: &'a Bounds,
    budget: &'a Ledger,
    /// What was reported to the budget so far.
    reported: Used,
}

/// What all tasks of a run have used together.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    bounds: Bounds,
    used: Mutex<Used>,
}

impl Ledger {
    /// `before` is what was used of these bounds by others.
    pub fn new(bounds: Bounds, before: Used) -> Self {
        Self { bounds, used: Mutex::new(before) }
    }

    /// What is over already.
    pub fn over(&self) -> Option<String> {
        self.settle(Used::default(), Used::default())
    }

    /// What was used so far, by others before too.
    pub fn total(&self) -> Used {
        *self.used()
    }

    /// It beside the limits, if there are any.
    pub fn limited(&self) -> Option<Limited> {
        let Bounds { tokens: max_tokens, cost: max_cost, tool_calls: max_tool_calls } = self.bounds;
        let Used { tokens, cost, tool_calls } = self.total();
        (!self.is_unlimited()).then_some(Limited { max_tokens, max_cost, max_tool_calls, tokens, cost, tool_calls })
    }

    /// Whether everything may be used.
    pub fn is_unlimited(&self) -> bool {
        self.bounds.is_empty()
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts what a judge has used by now in the place of what it had before; says what is over now.
    pub fn judged(&self, now: &TokenUsage, before: &TokenUsage, price: Option<Price>) -> Option<String> {
        let used = |usage: &TokenUsage| Used {
            tokens: usage.total_tokens,
            cost: cost(price, usage).unwrap_or_default(),
            tool_calls: 0,
        };
        self.settle(used(before), used(now))
    }

    /// Puts one amount in the place of another; says what is over now.
    fn settle(&self, before: Used, now: Used) -> Option<String> {
        let mut used = self.used();
        used.tokens = used.tokens.saturating_sub(before.tokens).saturating_add(now.tokens);
        used.cost += now.cost - before.cost;
        used.tool_calls = (used.tool_calls + now.tool_calls).saturating_sub(before.tool_calls);
        over(*used, &self.bounds).map(|what| format!("the run went beyond its limit of {what}"))
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

/// The limits that a turn went beyond.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Over {
    /// The agent's own.
    pub task: Option<String>,
    /// Those of the whole run.
    pub run: Option<String>,
}

impl Over {
    pub fn is_any(&self) -> bool {
        self.task.is_some() || self.run.is_some()
    }

    /// Both; what was gone beyond first, of each kind.
    pub fn and(self, later: Self) -> Self {
        Self { task: self.task.or(later.task), run: self.run.or(later.run) }
    }
}

impl<'a> Meter<'a> {
    /// `schema` is the tokens of the tools' descriptions.
    pub fn new(prompt: &str, schema: u64, price: Option<Price>, bounds: &'a Bounds, budget: &'a Ledger) -> Self {
        let estimate = TokenEstimate {
            prompt_tokens: count(prompt),
            mcp_schema_tokens: schema,
            source: "estimated".to_owned(),
            ..TokenEstimate::default()
        };
        Self { estimate, least: 0, tool_calls: 0, price, bounds, budget, reported: Used::default() }
    }

    /// A call that the agent has made.
    pub fn call(&mut self, call: &CallReport) -> Over {
        let of = |value: Option<&Value>| value.map_or(0, |value| count(&value.to_string()));
        let arguments = || of(call.params.get("arguments"));
        let result = of(call.result.as_ref());
        let estimate = &mut self.estimate;
        match call.kind {
            CallKind::Tool => {
                estimate.tool_input_tokens += arguments();
                estimate.tool_output_tokens += result;
                self.tool_calls += 1;
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
        self.look()
    }

    /// What the agent, or its model, says it has used so far.
    pub fn reported(&mut self, spent: Spent) -> Over {
        match spent {
            Spent::Reported(usage) => {
                self.estimate.source = "actual".to_owned();
                self.estimate.actual = Some(token_usage(usage));
            }
            Spent::AtLeast(tokens) => {
                // What was reported before is no more than a part.
                self.estimate.source = "estimated".to_owned();
                self.estimate.actual = None;
                self.least = self.least.max(tokens);
            }
        }
        self.look()
    }

    /// The turn is over.
    pub fn end(&mut self, message: &str, spent: Option<Spent>) -> Over {
        self.estimate.message_tokens = count(message);
        match spent {
            Some(spent) => self.reported(spent),
            None => self.look(),
        }
    }

    fn look(&mut self) -> Over {
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
        let now =
            Used { tokens: used.total_tokens, cost: estimate.cost.unwrap_or_default(), tool_calls: self.tool_calls };
        let run = self.budget.settle(std::mem::replace(&mut self.reported, now), now);
        let task = over(now, self.bounds).map(|what| format!("the agent went beyond its limit of {what}"));
        Over { task, run }
    }

    /// What the turn came to.
    pub fn into_estimate(self) -> TokenEstimate {
        self.estimate
    }
}

/// The price of a model, by its own name or by that of its agent.
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
        let mut meter = Meter::new("Write it down.", 50, None, &own, &ledger);
        assert!(!meter.call(&call("ok")).is_any());
        let over = meter.call(&call(&"word ".repeat(300)));
        assert!(over.task.is_some() && over.run.is_none(), "{over:?}");
        // What was reported counts instead.
        let actual = Usage { input_tokens: 90, output_tokens: 10, total_tokens: 100, ..Usage::default() };
        assert!(!meter.end("done", Some(Spent::Reported(actual))).is_any());
        let estimate = meter.into_estimate();
        assert_eq!((estimate.total_tokens, estimate.source.as_str()), (100, "actual"));
        assert!(estimate.tool_output_tokens > 300 && estimate.mcp_schema_tokens == 50);
        let used = *ledger.used();
        assert_eq!((used.tokens, used.tool_calls), (100, 2));
        // The next turn is over the run's limit of calls.
        let own = bounds(None, Some(1));
        let mut next = Meter::new("x", 0, None, &own, &ledger);
        assert!(!next.call(&call("ok")).is_any());
        // One call may be too much for both.
        let Over { task, run } = next.call(&call("ok"));
        assert_eq!(run.unwrap(), "the run went beyond its limit of 3 tool calls: 4 were made");
        assert_eq!(task.unwrap(), "the agent went beyond its limit of 1 tool calls: 2 were made");
    }

    #[test]
    fn the_size_of_a_context_is_the_least_that_was_used_and_no_report() {
        let (none, ledger) = (Bounds::default(), Ledger::default());
        let counted = |least: u64| {
            let mut meter = Meter::new("Write it down.", 50, None, &none, &ledger);
            assert!(!meter.reported(Spent::AtLeast(least)).is_any());
            assert!(!meter.end("All is written.", Some(Spent::AtLeast(1))).is_any());
            meter.into_estimate()
        };
        let (small, large) = (counted(10), counted(4000));
        assert_eq!((small.input_tokens, small.output_tokens, small.total_tokens), (54, 4, 58));
        // More was read; what was written stays.
        assert_eq!((large.input_tokens, large.output_tokens, large.total_tokens), (3996, 4, 4000));
        assert_eq!((large.source.as_str(), large.actual), ("estimated", None));
    }
}
