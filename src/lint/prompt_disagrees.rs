//! The prompt asks for one thing, and verify for another.

use std::{collections::BTreeSet, sync::LazyLock};

use regex::Regex;

use super::{TaskView, texts};
use crate::{
    diagnostic::{Diagnostic, Diagnostics},
    hir::{ArgKind, PhaseKind},
    rule,
    source::Span,
};

rule! {
    pub static PROMPT_DISAGREES = "prompt-disagrees", Warning;
}

/// Verify expects a number, an amount, an image or a word in capitals that stands nowhere else, and the prompt has one of the same form that
/// nothing else in the task has: one of them was changed alone.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    let Some(prompt) = &view.task.prompt else { return };
    let said = texts::written(&prompt.text);
    let mut asked = values(&said);
    // In a prompt numbers may be words.
    let lower = said.to_lowercase();
    for (number, word) in ["two", "three", "four", "five", "six", "seven", "eight", "nine"].iter().enumerate() {
        if lower.contains(word) && texts::has_word(&lower, word) {
            asked.insert(Item { form: "number of 1".to_owned(), text: (number + 2).to_string() });
        }
    }
    if asked.is_empty() {
        return;
    }
    let expected: Vec<(Span, Item)> = expected(view)
        .into_iter()
        .flat_map(|(span, text)| values(&text).into_iter().map(move |item| (span, item)))
        .filter(|(_, item)| !asked.contains(item))
        .collect();
    if expected.is_empty() {
        return;
    }
    // What stands elsewhere in the task is known to be meant.
    let (mut others, mut verified) = (String::new(), String::new());
    view.task.env.iter().for_each(|(_, template)| others.push_str(&format!("{}\n", texts::written(template))));
    for script in view.scripts {
        let text = if script.phase == PhaseKind::Verify { &mut verified } else { &mut others };
        text.push_str(&script.content.text);
        text.push('\n');
    }
    view.task.walk(&mut |phase, step| {
        let text = if phase == PhaseKind::Verify { &mut verified } else { &mut others };
        step.templates(&mut |template| text.push_str(&format!("{}\n", texts::written(template))));
        let mut add = |arg: &crate::hir::Arg<crate::hir::Def>| {
            text.push_str(&format!("{}\n", arg.as_value().unwrap_or_default()))
        };
        step.args.iter().for_each(|(_, arg)| add(arg));
        step.expect.iter().for_each(|(_, arg)| add(arg));
    });
    let (others, verified) = (values(&others), values(&verified));
    let free: Vec<&Item> = asked.iter().filter(|item| !others.contains(*item) && !verified.contains(*item)).collect();
    if free.is_empty() {
        return;
    }
    let mut told = BTreeSet::new();
    for (span, item) in expected {
        if others.contains(&item) || !told.insert(item.clone()) {
            continue;
        }
        if let [other] = free.iter().filter(|other| other.form == item.form).collect::<Vec<_>>()[..] {
            out.push(
                Diagnostic::new(
                    &PROMPT_DISAGREES,
                    span,
                    format!("verify expects `{}`, and the prompt says `{}`", item.text, other.text),
                )
                .label(prompt.text.span, "in this prompt")
                .help("one of them was changed alone: make them say the same"),
            );
        }
    }
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Item {
    form: String,
    text: String,
}

/// What has a form: numbers from 2, amounts, images with a tag, words in capitals.
fn values(text: &str) -> BTreeSet<Item> {
    let mut found = BTreeSet::new();
    for word in VALUE.find_iter(text).map(|m| m.as_str()) {
        let form = match word {
            _ if word.contains(':') => format!("image {}", word.split(':').next().unwrap_or_default()),
            _ if word.bytes().all(|b| b.is_ascii_digit()) => {
                if matches!(word.trim_start_matches('0'), "" | "1") {
                    continue;
                }
                format!("number of {}", word.len())
            }
            _ if word.starts_with(|c: char| c.is_ascii_digit()) => {
                format!("amount {}", word.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.'))
            }
            _ => "capitals".to_owned(),
        };
        found.insert(Item { form, text: word.to_owned() });
    }
    found
}

#[expect(clippy::unwrap_used, reason = "a constant")]
static VALUE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?-u)\b(?:[a-z][a-z0-9-]*(?:/[a-z0-9-]+)*:v?\d[\w.-]*\w|\d+(?:\.\d+)?(?:Ki|Mi|Gi|Ti|m|MB|GB|KB)\b|\d+\b|[A-Z][A-Z0-9_]{4,}\b)").unwrap()
});

/// The literal texts that verify compares with, each with its place.
fn expected(view: &TaskView<'_>) -> Vec<(Span, String)> {
    let mut found = Vec::new();
    for script in view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify) {
        let content = &script.content;
        for found_in in COMPARED.captures_iter(&content.text) {
            if let Some(m) = (1..4).find_map(|group| found_in.get(group)) {
                found.push((content.span(m.range()), m.as_str().to_owned()));
            }
        }
    }
    for step in &view.task.verify.steps {
        step.walk(&mut |step| {
            let mut add = |arg: &crate::hir::Arg<crate::hir::Def>, key: &str| {
                if matches!(
                    key,
                    "value"
                        | "equals"
                        | "contains"
                        | "mode"
                        | "replicas"
                        | "image"
                        | "stdout"
                        | "min"
                        | "max"
                        | "expected"
                ) {
                    leaves(arg, &mut found);
                }
            };
            step.args.iter().for_each(|(key, arg)| add(arg, &key.value));
            if let Some((_, expect)) = &step.expect {
                expectations(expect, &mut found);
            }
        });
    }
    found
}

fn expectations(arg: &crate::hir::Arg<crate::hir::Def>, found: &mut Vec<(Span, String)>) {
    match &arg.kind {
        ArgKind::Record(fields) => fields.iter().for_each(|(key, arg)| match key.value.as_str() {
            "status" | "exitCode" | "path" | "matches" | "timeout" => {}
            _ => expectations(arg, found),
        }),
        ArgKind::List(items) => items.iter().for_each(|arg| expectations(arg, found)),
        _ => leaves(arg, found),
    }
}

fn leaves(arg: &crate::hir::Arg<crate::hir::Def>, found: &mut Vec<(Span, String)>) {
    match arg.as_value() {
        Some(serde_json::Value::String(text)) => found.push((arg.span, text)),
        Some(serde_json::Value::Number(number)) => found.push((arg.span, number.to_string())),
        _ => {}
    }
}

/// `= "x"`, `-eq 3`, `grep -q x`.
#[expect(clippy::unwrap_used, reason = "a constant")]
static COMPARED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"(?:\s(?:=|==|!=|-eq|-ne|-ge|-le)\s+|\bgrep\s+(?:-\w+\s+)*)(?:"([^"$`\n]+)"|'([^'\n]+)'|([\w.:/-]+))"#)
        .unwrap()
});
