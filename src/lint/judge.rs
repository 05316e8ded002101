//! A judge that nobody configured.

use super::TaskView;
use crate::{
    diagnostic::{Diagnostic, Diagnostics, Strength},
    hir::RequirementKind,
    rule,
};

rule! {
    pub static NO_JUDGE = "no-judge", Verdict;
}

/// Upstream installs a judge that passes everything (§11 B11).
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    if view.eval.is_some_and(|e| e.eval.judge.is_some()) {
        return;
    }
    let mut places = Vec::new();
    view.task.walk(&mut |_, step| {
        if step.op.signature.judges {
            places.push((step.key, format!("`{}` needs a judge", step.op.name)));
        }
    });
    for requirement in &view.task.requires {
        if let RequirementKind::Judge(span) = requirement.kind {
            places.push((span, "the task requires a judge".to_owned()));
        }
    }
    for (span, message) in places {
        let diagnostic = Diagnostic::new(
            &NO_JUDGE,
            span,
            match view.eval {
                Some(_) => format!("{message}, and the eval configures none"),
                None => format!("{message}: the eval that runs this task must configure one"),
            },
        );
        out.push(match view.eval {
            Some(eval) => diagnostic
                .label(eval.eval.config, "the eval")
                .help("write `llmJudge: {ref: {type: …}}` in the eval's config"),
            None => diagnostic.strength(Strength::Note),
        });
    }
}
