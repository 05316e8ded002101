//! Checks of verify that a loop or a copied command repeats without any difference.

use crate::{
    bash::{
        ast,
        program::{Kind, Repeat, Statement},
        tools,
    },
    diagnostic::{Diagnostic, Diagnostics},
    hir::{Arg, ArgKind, Def, OperationKind, PhaseKind, Step},
    lint::{TaskView, script::Content, shell::polls},
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
        copied(content, out);
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

/// `a=$(COMMAND)` and `b=$(COMMAND)`, with nothing between them that could change the answer: the second was copied from the first.
fn copied(content: &Content, out: &mut Diagnostics) {
    let mut known: Vec<(String, &str, &Statement)> = Vec::new();
    for statement in &content.program.body {
        if let Some((name, command)) = captured(content, statement) {
            match known.iter().find(|(other, text, _)| *text == command && *other != name) {
                Some((other, _, first)) => out.push(
                    Diagnostic::new(
                        &REPEATED_CHECK,
                        content.span(statement.range.clone()),
                        format!("`{name}` is read in the same way as `{other}`"),
                    )
                    .label(content.span(first.range.clone()), "the same command")
                    .help("read what the variable is named after, or remove it"),
                ),
                None => known.push((name, command, statement)),
            }
        } else if !is_still(statement) {
            known.clear();
        }
    }
}

/// The variable and the command of `NAME=$(COMMAND)`, if the command only reads.
fn captured<'c>(content: &'c Content, statement: &Statement) -> Option<(String, &'c str)> {
    if !matches!(statement.kind, Kind::Assignment) || !is_still(statement) {
        return None;
    }
    let text = content.text.get(statement.range.clone())?;
    let (name, value) = text.split_once('=')?;
    let value = value.trim_matches('"');
    let end = ast::closing(value.strip_prefix('$')?, b'(', b')')?;
    (ast::is_name(name) && end + 2 == value.len() && value.contains(' ')).then(|| (name.to_owned(), value))
}

/// Whether a statement neither changes anything nor lets time pass.
fn is_still(statement: &Statement) -> bool {
    let mut still = true;
    statement.walk(&mut |s| {
        still &= match s.name() {
            "" => !matches!(s.kind, Kind::Loop { .. }),
            "echo" | "printf" | "exit" | "return" | "test" | "set" | "true" => !s.written,
            _ => {
                let words: Vec<&str> = s.words().iter().map(|word| word.text.as_str()).collect();
                !s.written && tools::only_looks(&words.join(" "))
            }
        };
    });
    still
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
