//! Agents that nobody knows.

use super::EvalView;
use crate::{
    decode::MISSING_FIELD,
    diagnostic::{Diagnostic, Diagnostics, nearest},
    rule,
};

rule! {
    pub static UNKNOWN_AGENT = "unknown-agent", Hard;
}

/// Every type an agent may have (`decisions.md` §8).
pub const TYPES: [&str; 8] = [
    "file",
    "builtin.script",
    "builtin.noop",
    "builtin.replay",
    "builtin.claude-code",
    "builtin.llm-agent",
    "builtin.openai-agent",
    "builtin.openai-acp",
];

pub fn check(view: &EvalView<'_>, out: &mut Diagnostics) {
    let judge = view.eval.judge.as_ref().and_then(|j| j.agent.as_ref());
    for agent in view.eval.agent.iter().chain(judge) {
        let kind = &agent.kind;
        if TYPES.contains(&kind.value.as_str()) {
            if kind.value.ends_with("llm-agent") || kind.value.contains("openai") {
                model(agent, out);
            }
            continue;
        }
        let mut diagnostic =
            Diagnostic::new(&UNKNOWN_AGENT, kind.span, format!("unknown type `{}` of an agent", kind.value));
        if let Some(near) = nearest(&kind.value, TYPES) {
            diagnostic =
                diagnostic.here(format!("did you mean `{near}`?")).fix(format!("write `{near}`"), kind.span, near);
        }
        let words: Vec<_> = TYPES.iter().map(|t| format!("`{t}`")).collect();
        out.push(diagnostic.help(format!("known are {}", words.join(", "))));
    }
}

fn model(agent: &crate::hir::AgentRef, out: &mut Diagnostics) {
    if agent.model.is_none() {
        out.push(
            Diagnostic::new(
                &MISSING_FIELD,
                agent.span,
                format!("an agent of type `{}` needs a `model`", agent.kind.value),
            )
            .help("write `model: PROVIDER:MODEL`, for instance `model: anthropic:claude-sonnet-4-5`"),
        );
    }
}
