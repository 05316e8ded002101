//! Verify checks only a part of what the prompt asks for: some of the items of setup, one of two results, nothing of a value that it reads.

use std::cell::LazyCell;

use rustc_hash::FxHashMap;

use crate::{
    ascii::{Ascii, ascii},
    bash::program::{Kind, Statement},
    diagnostic::{Diagnostic, Diagnostics},
    effects::script::Content,
    hir::{BlockRole, OperationKind, PhaseKind, Step},
    lint::{
        TaskView,
        analysis::{
            facts,
            texts::{self, has_word},
        },
        prompt::unverified::{VALUE_NOT_VERIFIED, judged},
        resources::series::{Loop, listed},
    },
};

/// Runs the checks of `value-not-verified` that need no model of what the prompt sets.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    let said = view.effects.prompt.shown();
    if said.is_empty() || view.task.verify.steps.is_empty() || judged(view) {
        return;
    }
    fewer(view, &said, out);
    either(view, &said, out);
    fields(view, &said, out);
    for script in view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify) {
        unread(&script.content, out);
    }
}

/// `for user in anna ben` in verify, where setup has `anna ben carla`, and the prompt names all three.
fn fewer(view: &TaskView<'_>, said: &str, out: &mut Diagnostics) {
    let asked = listed(view, PhaseKind::Verify);
    if asked.is_empty() {
        return;
    }
    let made = listed(view, PhaseKind::Setup);
    let verify = &facts::elsewhere(view).verify;
    let is_name = |item: &String| item.len() > 2 && item.starts_with(|c: char| c.is_ascii_alphabetic());
    for own in &asked {
        let is_longer = |other: &&Loop| {
            own.items.len() < other.items.len() && own.items.iter().all(|item| other.items.contains(item))
        };
        let Some(other) = made.iter().find(is_longer) else { continue };
        let missing: Vec<&String> = other.items.iter().filter(|item| !own.items.contains(item)).collect();
        let all_named = other.items.iter().all(|item| is_name(item) && has_word(said, item));
        let Some(first) = missing.first().filter(|_| all_named) else { continue };
        let at = said.find(first.as_str()).unwrap_or_default();
        // One that should stay as it is needs no check.
        let sentence = &said[texts::sentence(said, at)];
        let together = own.items.iter().all(|item| has_word(sentence, item));
        if together && !EXCEPT.is_match(sentence) && !missing.iter().any(|item| has_word(verify, item)) {
            out.push(
                Diagnostic::new(
                    &VALUE_NOT_VERIFIED,
                    own.span,
                    format!("the prompt also asks for `{first}`, but verify does not check it"),
                )
                .label(other.span, "setup's list")
                .help("check each of them: otherwise an agent passes that does only a part"),
            );
        }
    }
}

static EXCEPT: Ascii = ascii(r"(?i)\b(?:except|but not|other than|leave|keep|not|only|without|unchanged)\b");

/// `anyOf` with a branch for each of two things that the prompt joins by `and`.
fn either(view: &TaskView<'_>, said: &str, out: &mut Diagnostics) {
    if !said.contains(" and ") || CHOICE.is_match(said) {
        return;
    }
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            if !matches!(step.op.kind, OperationKind::Builtin("anyOf")) {
                return;
            }
            let branches = step.blocks.iter().filter(|block| block.role == BlockRole::Branch);
            let texts: Vec<String> = branches.map(|block| written(&block.steps)).collect();
            let [one, other] = texts.as_slice() else { return };
            let joined = PAIR.captures_iter(said).find_map(|pair| {
                let name = |nth: usize| pair.get(nth).map_or("", |name| name.as_str().trim_end_matches(['.', ',']));
                let (a, b) = (name(1), name(2));
                let splits =
                    |a: &str, b: &str| one.contains(a) && !one.contains(b) && other.contains(b) && !other.contains(a);
                let is_name = |name: &str| name.len() > 3 && name.contains(['.', '-', '_', '/']);
                (is_name(a) && is_name(b) && (splits(a, b) || splits(b, a))).then(|| (a.to_owned(), b.to_owned()))
            });
            if let Some((a, b)) = joined {
                out.push(
                    Diagnostic::new(
                        &VALUE_NOT_VERIFIED,
                        step.key,
                        format!("the prompt asks for `{a}` and `{b}`, but one of the two is enough here"),
                    )
                    .help("list the steps without `anyOf`: then both are required"),
                );
            }
        });
    });
}

static CHOICE: Ascii = ascii(r"(?i)\b(?:either|one of|any of|whichever)\b");
static PAIR: Ascii = ascii(r#"([\w./-]+)[`"]?,? and [`"]?([\w./-]+)"#);

/// All texts of steps.
fn written(steps: &[Step<crate::hir::Def>]) -> String {
    let mut all = String::new();
    for step in steps {
        step.walk(&mut |step| {
            step.templates(&mut |template| {
                all.push_str(&texts::written(template));
                all.push('\n');
            });
        });
    }
    all
}

/// `a parallelism of 2`, where verify checks other fields of the job and not this one.
fn fields(view: &TaskView<'_>, said: &str, out: &mut Diagnostics) {
    let Some(prompt) = &view.task.prompt else { return };
    let lower = said.to_lowercase();
    let verify = LazyCell::new(|| facts::elsewhere(view).verify.to_lowercase());
    for (spoken, field, beside) in FIELDS {
        let Some(at) = lower.find(spoken).filter(|_| lower.matches(spoken).count() == 1) else { continue };
        let (before, behind) = (&lower[..at], &lower[at + spoken.len()..]);
        let number = AFTER.captures(behind).or_else(|| BEFORE.captures(before)).and_then(|found| found.get(1));
        let is_checked = verify.contains(&field.to_lowercase()) || verify.contains(spoken);
        let other = beside.iter().any(|field| verify.contains(&field.to_lowercase()));
        let sentence = &said[texts::sentence(said, at)];
        if let Some(number) = number
            && other
            && !is_checked
            && !STAYS.is_match(sentence)
        {
            out.push(
                Diagnostic::new(
                    &VALUE_NOT_VERIFIED,
                    prompt.text.span,
                    format!("the prompt asks for a {spoken} of {}, but verify does not check it", number.as_str()),
                )
                .help(format!("check `{field}` in verify: otherwise an agent passes that uses a different value")),
            );
        }
    }
}

static STAYS: Ascii = ascii(r"(?i)\b(?:leave|keep|stays?|remains?|unchanged|already|currently)\b");
static AFTER: Ascii = ascii(r#"^(?: limit)?(?:\s+(?:of|to|is|=|:))?\s*[`"]?(\d+)\b"#);
static BEFORE: Ascii = ascii(r"\b(\d+)\s+$");
/// How a prompt names a field, the field, and those that are checked beside it.
const FIELDS: [(&str, &str, &[&str]); 8] = [
    ("parallelism", "parallelism", &["completions", "backoffLimit"]),
    ("completions", "completions", &["parallelism", "backoffLimit"]),
    ("backoff limit", "backoffLimit", &["completions", "parallelism"]),
    ("max surge", "maxSurge", &["maxUnavailable"]),
    ("max unavailable", "maxUnavailable", &["maxSurge"]),
    ("history limit", "HistoryLimit", &["schedule", "concurrencyPolicy"]),
    ("target port", "targetPort", &["port", "nodePort"]),
    ("node port", "nodePort", &["port", "targetPort"]),
];

/// `secret=$(jq -r '.spec.tls[0].secretName' <<<"$ing")`, and nothing uses `$secret`, or only a message does at the end.
fn unread(content: &Content, out: &mut Diagnostics) {
    let sources = |s: &Statement| matches!(s.name(), "." | "source" | "eval");
    if !content.program.sound || content.program.commands().iter().any(|s| sources(s)) {
        return;
    }
    let quiet = LazyCell::new(|| facts::without_messages(content));
    // How often each word occurs.
    let counts = LazyCell::new(|| {
        let mut counts: FxHashMap<&str, usize> = FxHashMap::default();
        words(&content.text).for_each(|word| *counts.entry(word).or_default() += 1);
        counts
    });
    let mut found: Vec<(String, &Statement)> = Vec::new();
    let last = content.program.body.last();
    for statement in &content.program.body {
        let (Kind::Assignment, [inner]) = (&statement.kind, statement.nested.as_slice()) else { continue };
        let text = content.text.get(statement.range.clone()).unwrap_or_default();
        let Some((name, _)) = text.split_once('=') else { continue };
        if !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') || IGNORED.contains(&name) {
            continue;
        }
        let inside = content.text.get(inner.range.clone()).unwrap_or_default();
        let selects = || SELECTS.is_match(inside) && !inside.contains("jq -e") && !inside.contains(" -er ");
        let is_printed_last = || {
            let prints = last.is_some_and(|last| {
                matches!(last.name(), "echo" | "printf")
                    && has_word(content.text.get(last.range.clone()).unwrap_or_default(), name)
            });
            prints && COUNTS.is_match(inside) && words(&quiet).filter(|word| *word == name).count() == 1
        };
        let is_unused = counts.get(name) == Some(&1);
        if is_unused && selects() || is_printed_last() {
            found.push((name.to_owned(), statement));
        }
    }
    for (name, statement) in found {
        out.push(
            Diagnostic::new(
                &VALUE_NOT_VERIFIED,
                content.span(statement.range.clone()),
                format!("verify reads `{name}` and does not check it"),
            )
            .help(format!("compare `${name}` with what the prompt asks for, or remove the line")),
        );
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    texts::words(text, |c| c.is_ascii_alphanumeric() || c == '_').map(|(_, word)| word)
}

/// Names for what nobody wants.
const IGNORED: [&str; 8] = ["_", "ignored", "unused", "dummy", "out", "output", "result", "response"];
/// A command that selects a value.
static SELECTS: Ascii =
    ascii(r"jsonpath=|\bjq -r\b|\bjq -c\b|\|\s*wc -l|\|\s*cut -|\bpsql\b.*-t?A?t?c|custom-columns=");
/// A command that counts.
static COUNTS: Ascii = ascii(r"(?i)\|\s*wc -l|\blength\b|count\(|grep -c");
