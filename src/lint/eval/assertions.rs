//! Assertions that no run can satisfy.

use crate::{
    diagnostic::{Diagnostic, Diagnostics, Strength},
    hir::AssertionKind,
    lint::EvalView,
    rule,
};

rule! {
    pub static IMPOSSIBLE_COUNT = "impossible-count", Verdict;
}

/// A minimum that a capable agent may not need.
const MANY: u64 = 8;

/// A minimum number of calls that exceeds the maximum (`tests/coverage.md` E6).
pub fn check(view: &EvalView<'_>, out: &mut Diagnostics) {
    for set in view.eval.task_sets.iter().filter_map(|s| s.assertions.as_ref()) {
        let find = |min: bool| {
            set.items.iter().find_map(|i| match i.kind {
                AssertionKind::MinToolCalls(n) if min => Some((n, i.span)),
                AssertionKind::MaxToolCalls(n) if !min => Some((n, i.span)),
                _ => None,
            })
        };
        // Probably the other of the two keys was meant.
        if let (Some((min, at)), None) = (find(true), find(false))
            && min >= MANY
        {
            out.push(
                Diagnostic::new(
                    &IMPOSSIBLE_COUNT,
                    at,
                    format!("an agent that needs fewer than {min} calls fails, and nothing limits their number"),
                )
                .strength(Strength::Warning)
                .help("to limit the number of calls, write `maxToolCalls`"),
            );
        }
        if let (Some((min, min_at)), Some((max, max_at))) = (find(true), find(false))
            && min > max
        {
            out.push(
                Diagnostic::new(
                    &IMPOSSIBLE_COUNT,
                    min_at,
                    format!("no run can make at least {min} and at most {max} calls"),
                )
                .here("at least this many")
                .label(max_at, "at most this many")
                .help("increase `maxToolCalls`, or reduce `minToolCalls`"),
            );
        }
    }
}
