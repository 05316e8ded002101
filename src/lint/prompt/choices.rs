//! Values of which there are only a few: verify expects another one than the prompt, or accepts both of two opposites.

use crate::{
    ascii::{Ascii, ascii},
    diagnostic::{Diagnostic, Diagnostics, Strength},
    hir::{Arg, ArgKind, Def, Step},
    lint::{
        TaskView,
        analysis::{facts, orders, texts},
        prompt::{disagrees::disagrees, wrong_state::WRONG_STATE},
        shell::{always_true::ALWAYS_TRUE, comparison::COMPARES_OTHERWISE},
    },
    source::Span,
};

/// Values that exclude each other.
const CHOICES: [&[&str]; 27] = [
    &["Role", "ClusterRole"],
    &["RoleBinding", "ClusterRoleBinding"],
    &["Issuer", "ClusterIssuer"],
    &["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"],
    &["OnFailure", "Always", "Never"],
    &["IfNotPresent", "Always", "Never"],
    &["RollingUpdate", "Recreate", "OnDelete"],
    &["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"],
    &["OrderedReady", "Parallel"],
    &["Allow", "Forbid", "Replace"],
    &["Retain", "Delete", "Recycle"],
    &["NoSchedule", "PreferNoSchedule", "NoExecute"],
    &["Ingress", "Egress"],
    &["Prefix", "Exact", "ImplementationSpecific"],
    &["Guaranteed", "Burstable", "BestEffort"],
    &["WaitForFirstConsumer", "Immediate"],
    &["Halted", "Manual", "RerunOnFailure", "Always"],
    &["HTTP", "HTTPS", "GRPC"],
    &["TCP", "UDP", "SCTP"],
    &["GET", "POST", "PUT", "PATCH", "DELETE"],
    &["EUR", "USD", "GBP", "CHF", "JPY"],
    &["unless-stopped", "on-failure", "always"],
    &["btree", "hash", "gin", "gist", "brin"],
    &["allkeys-lru", "volatile-lru", "allkeys-lfu", "volatile-lfu", "volatile-ttl", "allkeys-random", "noeviction"],
    &["STANDARD", "NEARLINE", "COLDLINE", "ARCHIVE", "GLACIER", "STANDARD_IA", "DEEP_ARCHIVE"],
    &["viewer", "editor", "owner", "admin", "maintainer", "developer", "reporter", "guest"],
    &["critical", "warning", "info", "error", "page"],
];

/// `roleRef.kind` must be `ClusterRole`, and the prompt asks for a Role.
pub fn others(view: &TaskView<'_>, out: &mut Diagnostics) {
    let Some(prompt) = &view.task.prompt else { return };
    let asked = facts::asked(view);
    if asked.is_empty() {
        return;
    }
    let said = view.effects.prompt.shown();
    let bare =
        |text: &str| text.chars().filter(|c| !matches!(c, ' ' | '-' | '_' | '\n')).collect::<String>().to_lowercase();
    let plain = bare(&said);
    for fact in asked.iter().filter(|fact| fact.exact) {
        let Some(value) = fact.value.as_str() else { continue };
        if plain.contains(&bare(value)) {
            continue;
        }
        let is_named = |other: &&&str| **other != value && is_meant(&said, other);
        let told: Vec<&str> = CHOICES
            .iter()
            .filter(|set| set.contains(&value))
            .flat_map(|set| set.iter().filter(is_named))
            .copied()
            .collect();
        let Some((told, [])) = told.split_first() else { continue };
        // What setup has may be what the agent finds, or what must stay.
        let rest = &facts::elsewhere(view).rest;
        let is_set = |word: &str| texts::has_word(rest, word) || texts::has_word(facts::data(view), word);
        let is_asked = asked.iter().any(|other| other.value.as_str() == Some(told));
        let is_found = || crate::lint::resources::elsewhere::out_has(out, fact.span);
        if !is_asked && !is_set(value) && !is_set(told) && !is_found() {
            out.push(disagrees(fact.span, value, told, prompt.text.span));
            return;
        }
    }
}

/// Whether a prompt names a value: one with a distinctive form anywhere, another one only in quotes or behind `=`.
fn is_meant(said: &str, word: &str) -> bool {
    let distinct = word.bytes().skip(1).any(|b| b.is_ascii_uppercase() || matches!(b, b'-' | b'_')) || word == "Role";
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    said.match_indices(word).any(|(at, _)| {
        let (before, behind) = (&said[..at], &said[at + word.len()..]);
        let quoted =
            before.ends_with(['`', '"', '\'', '=']) && behind.starts_with(['`', '"', '\'', ' ', '.', ',', '\n']);
        let sentence = &said[texts::sentence(said, at)];
        !before.ends_with(part)
            && !behind.starts_with(part)
            && (distinct || quoted)
            && !STATE.is_match(before)
            && !NOT.is_match(sentence)
    })
}

/// The words before a value that the agent finds, or must not use.
static STATE: Ascii = ascii(
    r"(?i)\b(?:is|are|was|were|currently|from|instead of|rather than|not|no|now|has|have|with)\s+(?:an?\s+|of type\s+|the type\s+)?[`\x22']?$",
);
static NOT: Ascii = ascii(r"(?i)\b(?:not|never|instead|rather|no longer|without|replace|convert|turn)\b");

/// `oneOf: [OPEN, CLOSED]`: each state is accepted.
pub fn both(view: &TaskView<'_>, out: &mut Diagnostics) {
    let mut found: Vec<(Span, String, String)> = Vec::new();
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| step.expect.iter().for_each(|(_, expect)| in_expectation(expect, &mut found)));
    });
    for (span, one, other) in found {
        out.push(
            Diagnostic::new(&ALWAYS_TRUE, span, format!("this accepts both `{one}` and its opposite, `{other}`"))
                .help("expect the one that is wanted")
                .strength(Strength::Warning),
        );
    }
}

fn in_expectation(arg: &Arg<Def>, found: &mut Vec<(Span, String, String)>) {
    match &arg.kind {
        ArgKind::Record(fields) => fields.iter().filter(|(key, _)| key.value != "not").for_each(|(key, value)| {
            let pair = match (key.value.as_str(), &value.kind) {
                ("oneOf", ArgKind::List(items)) => match items.as_slice() {
                    [one, other] => Some((text(one), text(other))),
                    _ => None,
                },
                ("matches", _) => value.as_literal().and_then(alternatives).and_then(|all| match all.as_slice() {
                    [one, other] => Some((Some((*one).to_owned()), Some((*other).to_owned()))),
                    _ => None,
                }),
                _ => None,
            };
            if let Some((Some(one), Some(other))) = pair.filter(|_| value.span.start < value.span.end)
                && texts::are_opposites(&one, &other)
            {
                found.push((value.span, one, other));
            }
            in_expectation(value, found);
        }),
        ArgKind::List(items) => items.iter().for_each(|item| in_expectation(item, found)),
        _ => {}
    }
}

fn text(arg: &Arg<Def>) -> Option<String> {
    match arg.as_value()? {
        serde_json::Value::String(text) => Some(text),
        value @ serde_json::Value::Bool(_) => Some(value.to_string()),
        _ => None,
    }
}

/// The words between the alternatives of a pattern that has nothing else: `(?i)\bvideo\b|\b405\b`, `^(open|closed)$`.
fn alternatives(pattern: &str) -> Option<Vec<&str>> {
    let mut rest = pattern.trim();
    if let Some((_, behind)) =
        rest.strip_prefix("(?").and_then(|flags| flags.split_once(')')).filter(|(f, _)| !f.contains(':'))
    {
        rest = behind;
    }
    rest = rest.strip_prefix('^').unwrap_or(rest);
    rest = rest.strip_suffix('$').unwrap_or(rest);
    if let Some(inner) = rest.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        rest = inner.strip_prefix("?:").unwrap_or(inner);
    }
    let words: Vec<&str> = rest
        .split('|')
        .map(|part| {
            part.trim_start_matches("\\b").trim_start_matches(['^']).trim_end_matches("\\b").trim_end_matches('$')
        })
        .collect();
    let plain =
        |word: &&str| !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    (words.len() > 1 && words.iter().all(plain)).then_some(words)
}

const SPOKEN: [&str; 21] = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "none",
    "no", "once", "twice", "nothing", "half", "single", "empty",
];

/// `video|405` in the answer, where the prompt asks for the name and the number.
pub fn either(view: &TaskView<'_>, out: &mut Diagnostics) {
    let said = view.effects.prompt.shown();
    if !ASKS_BOTH.is_match(&said) {
        return;
    }
    let mut patterns: Vec<(Span, String)> = Vec::new();
    view.task.verify.steps.iter().for_each(|step| step.walk(&mut |step| of_answer(step, &mut patterns)));
    for (span, pattern) in patterns {
        let Some(words) = alternatives(&pattern) else { continue };
        let is_number = |word: &str| word.bytes().all(|b| b.is_ascii_digit());
        let is_word = |word: &str| word.bytes().all(|b| b.is_ascii_alphabetic() || b == b'-' || b == b'_');
        let (numbers, names): (Vec<&&str>, Vec<&&str>) = words.iter().partition(|word| is_number(word));
        let spelt = names.iter().any(|name| SPOKEN.contains(&name.to_lowercase().as_str()));
        if let (Some(number), Some(name)) = (numbers.first(), names.first().filter(|name| is_word(name) && !spelt)) {
            out.push(
                Diagnostic::new(
                    &COMPARES_OTHERWISE,
                    span,
                    format!("`{name}` alone, or `{number}` alone, is enough: `|` accepts either of them"),
                )
                .help(format!("require both: `{name}.*{number}|{number}.*{name}`, or two checks")),
            );
        }
    }
}

static ASKS_BOTH: Ascii = ascii(r"(?i)\b(?:and|both|as well as|together with)\b");

/// The patterns for the answer of the agent.
fn of_answer(step: &Step<Def>, found: &mut Vec<(Span, String)>) {
    if !texts::sees_answer(step) {
        return;
    }
    let mut push = |arg: &Arg<Def>| {
        if let Some(pattern) = arg.get("matches").filter(|_| arg.get("contains").is_none())
            && let Some(text) = pattern.as_literal()
        {
            found.push((pattern.span, text.to_owned()));
        }
    };
    step.expect.iter().for_each(|(_, expect)| {
        push(expect);
        texts::PRINTED.iter().filter_map(|key| expect.get(key)).for_each(&mut push);
    });
}

/// A value that verify refuses.
struct Refused {
    span: Span,
    value: String,
    /// Whether it is compared with a whole field.
    of_field: bool,
}

/// `not: {contains: LABEL}`, where the prompt asks to put this label on something, and nothing says to remove it; `not: {equals: 19}`, where
/// nothing has this number.
pub fn refused(view: &TaskView<'_>, out: &mut Diagnostics) {
    let Some(prompt) = &view.task.prompt else { return };
    let (mut wanted, mut refused): (Vec<String>, Vec<Refused>) = (Vec::new(), Vec::new());
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            step.expect.iter().for_each(|(_, expect)| demands(expect, (false, false), &mut wanted, &mut refused));
        });
    });
    if refused.is_empty() {
        return;
    }
    let said = texts::written(&prompt.text).split_whitespace().collect::<Vec<_>>().join(" ");
    let elsewhere = facts::elsewhere(view);
    for Refused { span, value, of_field } in refused {
        // Another check may require it elsewhere.
        let is_number = value.bytes().all(|b| b.is_ascii_digit());
        let is_wanted = wanted.iter().any(|other| other.contains(&value))
            || !is_number && elsewhere.verify.matches(value.as_str()).count() > 1;
        if is_wanted || value.len() < 3 && !is_number || crate::lint::resources::elsewhere::out_has(out, span) {
            continue;
        }
        let message = if is_told(&said, &value, is_number) {
            Some(format!("verify fails if `{value}` is there, but the prompt asks for it"))
        } else {
            let is_known = |word: &str| {
                texts::has_word(&said, word)
                    || texts::has_word(&elsewhere.rest, word)
                    || texts::has_word(facts::data(view), word)
            };
            let is_good = GOOD.contains(&value.to_lowercase().as_str());
            // Small numbers need no origin.
            let is_odd = is_number && value.len() > 1 || is_good;
            (of_field && is_odd && !is_known(&value))
                .then(|| format!("verify fails if the value is `{value}`, which neither setup nor the prompt has"))
        };
        if let Some(message) = message {
            out.push(
                Diagnostic::new(&WRONG_STATE, span, message)
                    .label(prompt.text.span, "the task of the agent")
                    .help("check for the state that the agent must bring about"),
            );
        }
    }
}

/// States of something that works.
const GOOD: [&str; 12] = [
    "deployed",
    "running",
    "ready",
    "active",
    "healthy",
    "succeeded",
    "completed",
    "success",
    "available",
    "suppressed",
    "complete",
    "up",
];

/// Whether each place at which a prompt mentions a value asks for it, or says that it stays.
fn is_told(said: &str, value: &str, is_number: bool) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '{' | '}');
    let places = |value: &str| -> Vec<usize> {
        let found = said.match_indices(value).map(|(at, _)| at);
        let is_whole = |at: &usize| {
            !said[..*at].ends_with(part) && !said[at + value.len()..].trim_start_matches('.').starts_with(part)
        };
        found.filter(is_whole).collect()
    };
    // `Leave the issue open` for `opened`.
    let stem = value.strip_suffix("ed").filter(|stem| stem.len() > 3);
    let (mut all, mut length) = (places(value), value.len());
    if let Some(stem) = stem.filter(|_| all.is_empty()) {
        (all, length) = (places(stem), stem.len());
    }
    let asked = |at: &usize| {
        let whole = texts::sentence(said, *at);
        let (head, sentence) = (&said[whole.start..*at], &said[whole.clone()]);
        let quoted = said[..*at].ends_with(['"', '`']) && said[at + length..].starts_with(['"', '`']);
        let asks = PUTS.is_match(head) && !orders::KEEPS.is_match(sentence) || STAYS.is_match(head);
        let is_state = STATE.is_match(said[..*at].trim_end_matches(['"', '`']));
        (asks || quoted && !is_number && SAYS.is_match(head)) && !is_state && !GONE.is_match(sentence)
    };
    !all.is_empty() && all.iter().all(asked)
}

fn demands(arg: &Arg<Def>, (negated, in_field): (bool, bool), wanted: &mut Vec<String>, refused: &mut Vec<Refused>) {
    match &arg.kind {
        ArgKind::Record(fields) => {
            let in_field = in_field || arg.get("path").is_some();
            for (key, value) in fields {
                let inverts = matches!(key.value.as_str(), "not" | "none");
                let text = match &value.kind {
                    ArgKind::Text(template) => Some(texts::written(template)),
                    ArgKind::Int(number) if *number > 0 => Some(number.to_string()),
                    _ => None,
                };
                if let Some(text) = text.filter(|_| matches!(key.value.as_str(), "contains" | "equals" | "matches")) {
                    match negated {
                        true => {
                            let (value, of_field) =
                                (text.trim_start_matches("(?i)").to_owned(), in_field && key.value == "equals");
                            refused.push(Refused {
                                span: arg.get(&key.value).map_or(arg.span, |arg| arg.span),
                                value,
                                of_field,
                            });
                        }
                        false => wanted.push(text),
                    }
                }
                if !(negated && inverts) {
                    demands(value, (negated || inverts, in_field), wanted, refused);
                }
            }
        }
        ArgKind::List(items) => items.iter().for_each(|item| demands(item, (negated, in_field), wanted, refused)),
        _ => {}
    }
}

static PUTS: Ascii = ascii(
    r"(?i)\b(?:put|add|give|set|apply|attach|assign|label|tag|create|write|insert|append|include|mark|book|name it|rename it|call it)\b",
);
static STAYS: Ascii = ascii(r"(?i)\b(?:leave|keep|stays?|remains?)\b");
static SAYS: Ascii =
    ascii(r"(?i)\b(?:comment|words|message|text|title|note|reason|description|say|reply|answer|post|send)\b");
static GONE: Ascii = ascii(
    r"(?i)\b(?:remove|delete|drop|replace|instead|rename|move|from|clear|strip|unassign|detach|revoke|before|old|former|previous|no|not|never|without|other than|else|except)\b",
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alternatives_of_plain_patterns() {
        assert_eq!(alternatives(r"(?is)\bvideo\b|\b405\b"), Some(vec!["video", "405"]));
        assert_eq!(alternatives("^(open|closed)$"), Some(vec!["open", "closed"]));
        assert_eq!(alternatives(r"video.*405|405.*video"), None);
        assert_eq!(alternatives("video"), None);
        assert!(texts::are_opposites("OPEN", "closed") && !texts::are_opposites("open", "merged"));
    }
}
