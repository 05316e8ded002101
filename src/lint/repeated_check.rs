//! Checks of verify that a loop repeats without any difference.

use super::{TaskView, polls};
use crate::{
    bash::program::{Kind, Repeat},
    diagnostic::{Diagnostic, Diagnostics},
    hir::{Arg, ArgKind, Def, OperationKind, PhaseKind, Step},
    rule,
    source::Span,
};

rule! {
    pub static REPEATED_CHECK = "repeated-check", Warning;
}

/// A `foreach` or a `for` of verify whose list has a value twice, or with a step that does not use the variable although
/// others do.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            if matches!(step.op.kind, OperationKind::Builtin("foreach")) {
                each(step, out);
            }
        });
    });
    for script in view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify) {
        let content = &script.content;
        if !content.text.contains("for ") {
            continue;
        }
        content.program.walk(&mut |s| {
            let Kind::Loop { repeat: Repeat::For, body, .. } = &s.kind else { return };
            let Some((name, words)) = polls::listed(content, s, body) else { return };
            // `for i in 1 1 1` counts.
            let plain = |text: &str| {
                text.chars().any(|c| c.is_ascii_alphabetic()) && !text.contains(['$', '*', '?', '{', '`', '['])
            };
            let uses = [format!("${name}"), format!("${{{name}")];
            let text = content.text.get(s.range.clone()).unwrap_or_default();
            let twice = words
                .iter()
                .enumerate()
                .find(|(at, word)| plain(&word.source) && words[..*at].iter().any(|other| other.source == word.source));
            if let Some((_, word)) = twice.filter(|_| uses.iter().any(|used| text.contains(used.as_str()))) {
                out.push(again(content.span(word.range.clone()), &word.source));
            }
        });
    }
}

fn again(span: Span, value: &str) -> Diagnostic {
    Diagnostic::new(&REPEATED_CHECK, span, format!("`{value}` is in this list twice"))
        .here("the same checks again")
        .help("write the value that is missing, or remove it")
}

fn each(step: &Step<Def>, out: &mut Diagnostics) {
    let Some(var) = &step.var else { return };
    if let Some(ArgKind::List(items)) = step.arg("in").map(|list| &list.kind) {
        let twice = items.iter().enumerate().find_map(|(at, item)| {
            let text = item.as_literal().filter(|text| !text.is_empty())?;
            items[..at].iter().any(|other| other.as_literal() == Some(text)).then_some((text, item.span))
        });
        out.extend(twice.map(|(text, span)| again(span, text)));
        if items.len() < 2 {
            return;
        }
    }
    let steps = || step.blocks.iter().flat_map(|block| &block.steps);
    let uses = |step: &Step<Def>, name: &str| {
        let mut found = false;
        step.walk(&mut |step| {
            step.templates(&mut |template| {
                found |= template.holes().any(|hole| root(&hole.text) == name);
            })
        });
        found
    };
    // A step that uses the output of another may depend on the variable as well.
    if !steps().any(|step| uses(step, &var.value)) {
        return;
    }
    for step in steps().filter(|step| is_check(step) && !uses(step, &var.value) && !uses(step, "steps")) {
        out.push(
            Diagnostic::new(&REPEATED_CHECK, step.key, format!("this does the same for every `{}`", var.value))
                .label(var.span, "the other steps of the loop use this variable")
                .help("use the variable in this step, or move the step out of the loop"),
        );
    }
}

/// The first name in a hole: `day` in `{day | upper}`.
fn root(text: &str) -> &str {
    let inner = text.trim_start_matches('{').trim_start();
    inner.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-')).next().unwrap_or_default()
}

/// Whether a step only examines something: a file, a response, a field.
fn is_check(step: &Step<Def>) -> bool {
    let literal = |key: &str| step.arg(key).and_then(Arg::as_literal);
    match &step.op.kind {
        OperationKind::Builtin("file") => step.arg("content").is_none() && step.arg("absent").is_none(),
        OperationKind::Builtin("http") => literal("method").is_none_or(|method| method.eq_ignore_ascii_case("get")),
        OperationKind::Extension { operation, .. } => {
            ["equals", "exists", "absent", "matches", "can-i"].iter().any(|word| operation.contains(word))
        }
        _ => false,
    }
}
