//! Unknown types of agents, and agents without a model.

use crate::{
    decode::MISSING_FIELD,
    diagnostic::{Diagnostic, Diagnostics, nearest},
    hir::{BuiltinAgent, Name},
    lint::EvalView,
    rule,
    source::Span,
};

rule! {
    pub static UNKNOWN_AGENT = "unknown-agent", Hard;
}

/// All types of agents (`decisions.md` §8).
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

/// Built-in types that an agent file may specify.
const IN_FILES: [&str; 4] = ["claude-code", "llm-agent", "openai-agent", "openai-acp"];

pub fn check(view: &EvalView<'_>, out: &mut Diagnostics) {
    let judge = view.eval.judge.as_ref().and_then(|j| j.agent.as_ref());
    for agent in view.eval.agent.iter().chain(judge) {
        let kind = &agent.kind;
        if TYPES.contains(&kind.value.as_str()) {
            if kind.value.ends_with("llm-agent") || kind.value.contains("openai") {
                needs_model(&kind.value, agent.model.as_ref(), agent.span, out);
            } else if kind.value == "builtin.claude-code"
                && agent.model.as_ref().is_some_and(|m| m.value.trim().is_empty())
            {
                out.push(
                    Diagnostic::new(&MISSING_FIELD, agent.span, "the agent's model has no name")
                        .help("name a model, or remove `model`: Claude Code then uses its default"),
                );
            }
            continue;
        }
        let mut diagnostic = Diagnostic::new(&UNKNOWN_AGENT, kind.span, format!("unknown agent type `{}`", kind.value));
        let in_full = || {
            let own =
                if matches!(kind.value.as_str(), "claude" | "builtin.claude") { "claude-code" } else { &kind.value };
            TYPES.into_iter().find(|t| t.strip_prefix("builtin.") == Some(own))
        };
        if let Some(near) = nearest(&kind.value, TYPES).or_else(in_full) {
            diagnostic =
                diagnostic.here(format!("did you mean `{near}`?")).fix(format!("write `{near}`"), kind.span, near);
        }
        let words: Vec<_> = TYPES.iter().map(|t| format!("`{t}`")).collect();
        out.push(diagnostic.help(match kind.value.as_str() {
            "acp" => "write `type: file` and the `path` of a file of kind `Agent` with `acp: {cmd: …}`".to_owned(),
            "command" | "commands" | "shell" | "cli" => {
                "write `type: file` and the `path` of a file of kind `Agent` with `commands: {runPrompt: …}`".to_owned()
            }
            _ => format!("known types: {}", words.join(", ")),
        }));
    }
    for (reference, file) in [(view.eval.agent.as_ref(), &view.unit.agent), (judge, &view.unit.judge)] {
        if let Some(file) = file.as_ref().and_then(|file| file.builtin.as_ref()) {
            builtin(file, reference.and_then(|r| r.model.as_ref()), out);
        }
    }
}

/// Checks `builtin` of an agent file, with the model that the eval specifies.
fn builtin(builtin: &BuiltinAgent, model: Option<&Name>, out: &mut Diagnostics) {
    let known = TYPES.iter().filter_map(|t| t.strip_prefix("builtin.")).filter(|t| IN_FILES.contains(t));
    let words: Vec<_> = known.map(|t| format!("`{t}`")).collect();
    let help = format!("known types: {}", words.join(", "));
    let Some(kind) = &builtin.kind else {
        out.push(Diagnostic::new(&MISSING_FIELD, builtin.span, "a built-in agent needs a `type`").help(help));
        return;
    };
    if !IN_FILES.contains(&kind.value.as_str()) {
        let message = format!("unknown built-in agent type `{}`", kind.value);
        let mut diagnostic = Diagnostic::new(&UNKNOWN_AGENT, kind.span, message);
        let bare = kind.value.trim_start_matches("builtin.");
        if let Some(near) = nearest(bare, IN_FILES) {
            diagnostic =
                diagnostic.here(format!("did you mean `{near}`?")).fix(format!("write `{near}`"), kind.span, near);
        }
        out.push(diagnostic.help(help));
    } else if kind.value != "claude-code" {
        needs_model(&kind.value, model.or(builtin.model.as_ref()), builtin.span, out);
    }
}

fn needs_model(kind: &str, model: Option<&Name>, place: Span, out: &mut Diagnostics) {
    if model.is_none_or(|model| model.value.trim().is_empty()) {
        out.push(
            Diagnostic::new(&MISSING_FIELD, place, format!("an agent of type `{kind}` requires a `model`"))
                .help("write `model: PROVIDER:MODEL`, for example `model: anthropic:claude-sonnet-4-5`"),
        );
    }
}
