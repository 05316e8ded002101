//! What the prompt tells the agent to bring about, and verify never asks for.

use super::{TaskView, already_true, facts, quantity::Quantity, texts};
use crate::{
    ascii::{Ascii, ascii},
    diagnostic::{Diagnostic, Diagnostics},
    hir::{Arg, ArgKind, Def, OperationKind, PhaseKind},
    rule,
};

rule! {
    pub static VALUE_NOT_VERIFIED = "value-not-verified", Warning;
}

/// Needs: the prompt tells the agent to give something a value (`set the mode to live`, `with 3 replicas`), the value stands nowhere else in
/// the task, in no other form, and verify is a check of its own, not the decision of a judge.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    let Some(prompt) = &view.task.prompt else { return };
    if view.task.verify.steps.is_empty() || view.asserted || judged(view) {
        return;
    }
    let said = texts::written(&prompt.text);
    let wanted = wanted(&said);
    if wanted.is_empty() || ONLY_SHOWN.is_match(&said) {
        return;
    }
    let all = facts::elsewhere(view);
    let mut known = format!("{}\n{}", all.verify, all.rest);
    view.task.walk(&mut |_, step| {
        step.args.iter().for_each(|(_, arg)| numbers(arg, &mut known));
        step.expect.iter().for_each(|(_, arg)| numbers(arg, &mut known));
    });
    for script in &view.effects.scripts {
        script.trace.sources.iter().for_each(|content| known.push_str(&content.text));
    }
    let known = known.to_lowercase();
    // A part of a form that is not followed: a schedule of `15 * * * *`, a pattern.
    let amounts = Quantity::all(&known);
    for value in wanted {
        let lower = value.to_lowercase();
        let stands = known.contains(&lower)
            || Quantity::of_value(&lower).is_some_and(|quantity| amounts.iter().any(|(_, other)| other.is(&quantity)));
        if !stands {
            out.push(
                Diagnostic::new(
                    &VALUE_NOT_VERIFIED,
                    prompt.text.span,
                    format!("the prompt asks for `{value}`, and verify never does"),
                )
                .help("let verify ask for this value: else an agent passes that gives another one"),
            );
            return;
        }
    }
}

/// Values that are no texts: `equals: 3`.
fn numbers(arg: &Arg<Def>, known: &mut String) {
    match &arg.kind {
        ArgKind::Record(fields) => fields.iter().for_each(|(_, arg)| numbers(arg, known)),
        ArgKind::List(items) => items.iter().for_each(|arg| numbers(arg, known)),
        _ => known.extend(arg.as_value().map(|value| format!("{value}\n"))),
    }
}

/// Whether a judge looks at what the agent did, or a program does that is not read here.
fn judged(view: &TaskView<'_>) -> bool {
    let mut judged = !view.effects.sees(PhaseKind::Verify);
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| judged |= matches!(step.op.kind, OperationKind::Builtin("llm")));
    });
    judged
}

/// The values that a prompt tells the agent to give.
fn wanted(said: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for value in VALUE.captures_iter(said) {
        let Some(place) = ["value", "code", "number", "count"].iter().find_map(|form| value.name(form)) else {
            continue;
        };
        let sentence = already_true::sentence(said, place.start());
        let head = &said[sentence.start..place.start()];
        // `Set the mode to live, and leave the queue`: each part says something of its own.
        let clause = head.rfind([',', ';', '(']).map_or(head, |at| &head[at..]);
        let text = place.as_str().trim_end_matches(['.', ':']);
        let behind = place.start() + text.len();
        let rest = &said[behind..sentence.end.max(behind)];
        let rest = rest.split([',', ';', ')']).next().unwrap_or_default();
        let is_value = text.len() > 1 || text.bytes().all(|b| b.is_ascii_digit());
        if is_value
            && GIVES.is_match(head)
            && !AWAY.is_match(clause)
            && !already_true::KEEPS.is_match(clause)
            && !already_true::KEEPS.is_match(rest)
            && !already_true::DELETES.is_match(clause)
            && !text.contains('/')
            && !found.iter().any(|known| known == text)
        {
            found.push(text.to_owned());
        }
    }
    found
}

/// Behind `to`: a word in quotes, a number or a version. Behind `with`: a number of things.
static VALUE: Ascii = ascii(
    r#"(?:\b(?:to|to be|version|tag)\s+(?:"(?P<value>[\w.:-]+)"|`(?P<code>[\w.:-]+)`|(?P<number>v?\d[\w.:%-]*))|\bwith\s+(?P<count>\d+)\s+[a-z]+)"#,
);
static GIVES: Ascii = ascii(
    r"(?i)\b(?:set|change|update|scale|switch|turn|raise|increase|lower|reduce|upgrade|bump|patch|adjust|resize|extend|label|tag)\b",
);
/// Nothing is to be changed.
static ONLY_SHOWN: Ascii = ascii(r"(?i)\b(?:dry[ -]run|would|preview|explain|how to|how do)\b");
/// What stands there is no value: `from 2 to 4 o'clock`, `up to 5`.
static AWAY: Ascii = ascii(
    r"(?i)\b(?:up|close|next|listen|connect|belong|similar|relative|reply|answer|pages?|lines?|rows?|steps?)\s+to\s*\W*$",
);
