//! Amounts that are another percentage than that of the prompt.

use crate::{
    ascii::{Ascii, ascii},
    diagnostic::{Diagnostic, Diagnostics},
    effects::asked::Demand,
    lint::{
        TaskView,
        analysis::{facts, texts},
        prompt::disagrees::PROMPT_DISAGREES,
    },
    source::Span,
};

/// The most numbers of setup that are compared: with many, each amount is some percentage of one of them.
const MOST: usize = 40;
/// The percentages that an author may have meant.
const USUAL: [f64; 23] = [
    1.0, 2.0, 2.5, 3.0, 5.0, 7.5, 10.0, 12.5, 15.0, 19.0, 20.0, 25.0, 30.0, 35.0, 40.0, 45.0, 50.0, 60.0, 70.0, 75.0,
    80.0, 90.0, 95.0,
];

/// `11.33` and `3.00` are 15 % of the amounts in setup, and the prompt says 10 %.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    let Some(prompt) = &view.task.prompt else { return };
    let said = view.effects.prompt.shown();
    let mut percentages = PERCENT.captures_iter(&said);
    let (Some(only), None) = (percentages.next(), percentages.next()) else { return };
    let Some(told) = only.get(1).and_then(|number| number.as_str().parse::<f64>().ok()) else { return };
    fields(view, told, &said, prompt.text.span, out);
    let rest = &facts::elsewhere(view).rest;
    let mut bases = numbers(rest);
    bases.extend(numbers(facts::data(view)));
    bases.retain(|base| *base > 0.0);
    bases.sort_by(f64::total_cmp);
    bases.dedup();
    // `3.00` is no ID `3`.
    let is_written = |word: &str| {
        texts::has_word(&said, word) || texts::has_word(rest, word) || texts::has_word(facts::data(view), word)
    };
    for (span, text) in expected(view) {
        let mut amounts: Vec<f64> =
            words(&text).filter(|word| !is_written(word)).filter_map(|word| word.parse().ok()).collect();
        amounts.retain(|amount| *amount > 0.0);
        amounts.dedup();
        let has_fraction = amounts.iter().any(|amount| amount.fract() != 0.0);
        if amounts.len() < 2 || amounts.len() > 8 || !has_fraction || bases.len() > MOST {
            continue;
        }
        let are = |percentage: f64| {
            let parts = [percentage / 100.0, 1.0 - percentage / 100.0, 1.0 + percentage / 100.0];
            parts
                .into_iter()
                .any(|part| amounts.iter().all(|amount| bases.iter().any(|base| (base * part - amount).abs() < 0.0051)))
        };
        let other = if are(told) { None } else { USUAL.into_iter().find(|other| are(*other)) };
        if let Some(other) = other {
            out.push(
                Diagnostic::new(
                    &PROMPT_DISAGREES,
                    span,
                    format!("these amounts correspond to {other} %, and the prompt says {told} %"),
                )
                .label(prompt.text.span, "the task of the agent")
                .help("the two must agree: correct the one that is wrong"),
            );
            return;
        }
    }
}

/// `.percentage.value == 100`, and the prompt says 50 %.
fn fields(view: &TaskView<'_>, told: f64, said: &str, prompt: Span, out: &mut Diagnostics) {
    let is_percentage = |name: &str| {
        let lower = name.to_ascii_lowercase();
        lower.contains("percent") && !lower.contains("percentile")
    };
    for fact in facts::asked(view).iter().filter(|fact| fact.exact) {
        let text = fact.text();
        let Some(wanted) = text.trim_end_matches('%').parse::<f64>().ok().filter(|wanted| *wanted > 0.0) else {
            continue;
        };
        let is_other = (wanted - told).abs() > 0.01 && (100.0 - wanted - told).abs() > 0.01;
        if (is_percentage(&fact.key) || fact.parent.as_deref().is_some_and(is_percentage))
            && is_other
            && !texts::has_word(said, &text)
            && !texts::has_word(&facts::elsewhere(view).rest, &text)
        {
            let message = format!("verify expects {wanted} %, and the prompt says {told} %");
            out.push(
                Diagnostic::new(&PROMPT_DISAGREES, fact.span, message)
                    .label(prompt, "the task of the agent")
                    .help("the two must agree: correct the one that is wrong"),
            );
            return;
        }
    }
}

static PERCENT: Ascii = ascii(r"(?i)\b(\d+(?:\.\d+)?)\s?(?:%|per ?cent\b)");
static NUMBER: Ascii = ascii(r"^\d+(?:\.\d+)?$");

fn numbers(text: &str) -> Vec<f64> {
    words(text).filter_map(|word| word.parse().ok()).collect()
}

/// The numbers in a text, as written.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | ':' | '-' | '_')))
        .map(|word| word.trim_end_matches('.'))
        .filter(|word| NUMBER.is_match(word))
}

/// The texts that verify compares with.
fn expected(view: &TaskView<'_>) -> Vec<(Span, String)> {
    let mut found = Vec::new();
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            let printed = step.expect.as_ref().and_then(|(_, expect)| expect.get("stdout"));
            let wanted = printed.map(|out| out.get("equals").unwrap_or(out));
            if let Some((span, text)) = wanted.and_then(|arg| Some((arg.span, arg.as_literal()?))) {
                found.push((span, text.to_owned()));
            }
        });
    });
    for question in view.asked() {
        if let Demand::Compared { operator, with } = &question.demand
            && matches!(operator.as_str(), "=" | "==" | "!=")
        {
            found.push((question.span, with.clone()));
        }
    }
    found.retain(|(_, text)| !texts::words(text, |c| c.is_ascii_digit()).all(|(_, word)| word.is_empty()));
    found
}
