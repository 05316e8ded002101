//! `orders_created_idx` in verify, where the prompt says to name the index `orders_created`.

use crate::{
    ascii::{Ascii, ascii},
    diagnostic::Diagnostics,
    lint::{TaskView, analysis::facts, prompt::disagrees},
};

/// Requires that the prompt tells the agent the name, that verify expects it with the affix of a kind, and that nothing else mentions that.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    let Some((said, prompt)) = facts::prompt(view) else { return };
    let names: Vec<&str> = NAMED
        .captures_iter(said)
        .filter_map(|named| Some(named.get(1)?.as_str()))
        .filter(|name| name.len() > 3)
        .collect();
    if names.is_empty() || DERIVES.is_match(said) {
        return;
    }
    let rest = &facts::elsewhere(view).rest;
    for (span, text) in crate::lint::analysis::expected::expected(view) {
        let is_plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
        if !is_plain || said.contains(text) || rest.contains(text) {
            continue;
        }
        let bare = |name: &&&str| {
            let affix = text.strip_prefix(**name).and_then(|rest| rest.strip_prefix(['_', '-']));
            let affix = affix.or_else(|| text.strip_suffix(**name).and_then(|rest| rest.strip_suffix(['_', '-'])));
            affix.is_some_and(|affix| KINDS.contains(&affix))
        };
        let name = names.iter().find(bare);
        if let Some(name) = name.filter(|_| !out.iter().any(|known| known.span == span)) {
            out.push(disagrees::disagrees(span, text, name, prompt));
            return;
        }
    }
}

/// `archive/11/app.log` in verify, where the prompt says `archive/2024/` and setup creates `2024/11/app.log`.
pub fn without_part(view: &TaskView<'_>, out: &mut Diagnostics) {
    let Some((said, prompt)) = facts::prompt(view) else { return };
    let places: Vec<(&str, &str)> =
        PLACE.captures_iter(said).filter_map(|place| Some((place.get(1)?.as_str(), place.get(2)?.as_str()))).collect();
    if places.is_empty() {
        return;
    }
    let rest = &facts::elsewhere(view).rest;
    for (span, text) in crate::lint::analysis::expected::expected(view) {
        for line in text.lines().filter(|line| !said.contains(line) && !rest.contains(line)) {
            let other = places.iter().find(|(begin, part)| {
                let behind = line.strip_prefix(begin).filter(|behind| behind.len() > 3 && !behind.starts_with(part));
                behind.is_some_and(|behind| rest.contains(&format!("{part}{behind}")))
            });
            if let Some((begin, part)) = other.filter(|_| !out.iter().any(|known| known.span == span)) {
                out.push(disagrees::disagrees(span, line, &format!("{begin}{part}"), prompt));
                return;
            }
        }
    }
}

/// A directory in quotes.
static PLACE: Ascii = ascii(r#"[`"]((?:[\w.-]*/)*[\w.-]+/)([\w.-]+/)[`"]"#);

/// Affixes that repeat the kind of a resource.
const KINDS: [&str; 28] = [
    "idx",
    "index",
    "ix",
    "tbl",
    "table",
    "view",
    "vw",
    "fn",
    "func",
    "proc",
    "trg",
    "trigger",
    "db",
    "svc",
    "service",
    "deploy",
    "deployment",
    "cm",
    "configmap",
    "secret",
    "sa",
    "role",
    "topic",
    "queue",
    "bucket",
    "net",
    "network",
    "vol",
];

static NAMED: Ascii = ascii(r#"(?i)\b(?:names?|named|call|called)\b[^.\n`"]{0,30}[`"]([\w-]+)[`"]"#);
/// Programs that derive the names of several resources from one.
static DERIVES: Ascii = ascii(r"(?i)\b(?:helm|chart|release|compose|stack|kind|operator|template|prefix|suffix|sub)\b");
