//! Judges that are not configured, that cannot judge, or that judge their own answers.

use crate::{
    diagnostic::{Diagnostic, Diagnostics, Strength},
    hir::{Agent, AgentRef, PhaseKind, RequirementKind, is_variable},
    lint::{EvalView, TaskView, UnderView},
    plan::AgentKind,
    rule,
};

rule! {
    pub static NO_JUDGE = "no-judge", Verdict;
    pub static JUDGE_CANNOT_JUDGE = "judge-cannot-judge", Verdict;
    pub static JUDGE_IS_AGENT = "judge-is-agent", Warning;
    pub static VAGUE_RUBRIC = "vague-rubric", Warning;
}

/// No judge is configured. Upstream installs a judge that passes everything (`tests/coverage.md` B11).
pub fn check(view: &UnderView<'_, '_>, out: &mut Diagnostics) {
    if view.eval.is_some_and(|e| e.eval.judge.is_some()) {
        return;
    }
    let mut places = Vec::new();
    view.task.walk(&mut |_, step| {
        if step.op.signature.judges {
            places.push((step.key, format!("`{}` requires a judge", step.op.name)));
        }
    });
    for requirement in &view.task.requires {
        if let RequirementKind::Judge(span) = requirement.kind {
            places.push((span, "the task requires a judge".to_owned()));
        }
    }
    let Some(eval) = view.eval else {
        out.extend(places.into_iter().map(|(span, message)| {
            Diagnostic::new(&NO_JUDGE, span, format!("{message}: the eval that runs this task must configure one"))
                .strength(Strength::Note)
        }));
        return;
    };
    if places.is_empty() {
        return;
    }
    // Reported once, at the eval, however many steps need a judge.
    let message = "this eval configures no judge, but its tasks require one";
    let diagnostic = Diagnostic::new(&NO_JUDGE, eval.eval.config, message);
    let diagnostic = places.into_iter().fold(diagnostic, |d, (span, why)| d.label(span, why));
    out.push(diagnostic.help("add `llmJudge: {ref: {type: …}}` to the eval's config"));
}

/// Agents that read no input cannot judge. The name of an environment variable may also be invalid.
pub fn cannot(view: &EvalView<'_>, out: &mut Diagnostics) {
    let Some(judge) = &view.eval.judge else { return };
    if let Some(agent) = &judge.agent {
        let why = match agent.kind.value.as_str() {
            "builtin.noop" => "it does nothing",
            "builtin.script" => "its output was written before the agent answered",
            "builtin.replay" => "its output was recorded before the agent answered",
            _ => return,
        };
        out.push(
            Diagnostic::new(
                &JUDGE_CANNOT_JUDGE,
                agent.kind.span,
                format!("`{}` cannot judge: {why}", agent.kind.value),
            )
            .help("use an agent with a model: `type: builtin.llm-agent`, or `type: file`"),
        );
        return;
    }
    let names = judge.env.iter().flat_map(|env| [&env.base_url, &env.api_key, &env.model_name]).flatten();
    for name in names.filter(|name| !is_variable(&name.value)) {
        let message = "this is not the name of an environment variable";
        out.push(
            Diagnostic::new(&JUDGE_CANNOT_JUDGE, name.span, message)
                .help("write the name of the variable that contains the value, not the value"),
        );
    }
}

/// A model tends to judge its own answers too favorably.
pub fn own(view: &EvalView<'_>, out: &mut Diagnostics) {
    let (Some(agent), Some(judge)) = (&view.eval.agent, view.eval.judge.as_ref().and_then(|j| j.agent.as_ref())) else {
        return;
    };
    let kind = |reference: &AgentRef, file: &Option<Agent>| AgentKind::of(reference, file.as_ref());
    let same = match (kind(agent, &view.unit.agent), kind(judge, &view.unit.judge)) {
        (Some(one), Some(other)) => one.is_same(&other),
        _ => false,
    };
    if same {
        out.push(
            Diagnostic::new(
                &JUDGE_IS_AGENT,
                judge.span,
                "the judge is the agent under test, so it judges its own answers",
            )
            .label(agent.span, "the agent")
            .help("use another model as the judge"),
        );
    }
}

/// A criterion that consists of general praise: no answer contradicts it.
pub fn vague(view: &TaskView<'_>, out: &mut Diagnostics) {
    view.task.walk(&mut |phase, step| {
        if phase != PhaseKind::Verify || !step.op.signature.judges {
            return;
        }
        for (key, arg) in
            step.args.iter().filter(|(key, _)| matches!(key.value.as_str(), "rubric" | "contains" | "exact"))
        {
            let Some(text) = arg.as_literal() else { continue };
            let lower = text.to_lowercase();
            let words = || lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
            let praises = words().any(|word| PRAISE.contains(&word));
            // A short reference may be the answer itself: `valid`.
            let is_sentence = || words().count() > 2 && words().any(|word| JUDGED.contains(&word));
            if praises
                && words().all(|word| [&PRAISE[..], &PLAIN, &JUDGED].iter().any(|known| known.contains(&word)))
                && (key.value == "rubric" || is_sentence())
            {
                out.push(
                    Diagnostic::new(&VAGUE_RUBRIC, arg.span, "this contains no criterion: it fits almost every answer")
                        .help("say what the answer must contain, or which facts must be true"),
                );
            }
        }
    });
}

/// Words of praise without a measure.
#[rustfmt::skip]
const PRAISE: [&str; 47] = [
    "good", "great", "well", "nice", "fine", "excellent", "perfect", "helpful", "useful", "correct", "correctly", "right", "proper", "properly",
    "appropriate", "appropriately", "adequate", "adequately", "acceptable", "satisfactory", "satisfying", "reasonable", "sensible", "quality",
    "clear", "clearly", "accurate", "accurately", "complete", "completely", "successful", "successfully", "sound", "ok", "okay", "best",
    "high", "professional", "polite", "friendly", "convincing", "coherent", "relevant", "understandable", "logical", "thorough", "valid",
];

/// Words for what the agent returns.
#[rustfmt::skip]
const JUDGED: [&str; 18] = [
    "agent", "assistant", "model", "ai", "answer", "answers", "answered", "response", "responses", "reply", "output", "result", "job", "work",
    "explanation", "explains", "explain", "explained",
];

/// Words that name nothing of a task.
#[rustfmt::skip]
const PLAIN: [&str; 56] = [
    "the", "a", "an", "and", "or", "of", "to", "in", "is", "was", "were", "are", "be", "has", "have", "had", "it", "its", "this", "that", "if",
    "whether", "how", "very", "really", "all", "any", "not", "should", "must", "can", "will", "did", "does", "do", "done", "with", "for", "by",
    "judge", "check", "decide", "evaluate", "rate", "assess", "verify", "grade", "score", "pass", "passes", "fail",
    "things", "everything", "sense", "makes", "way",
];
