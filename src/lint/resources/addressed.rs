//! Requests of verify to another resource than the one that setup creates at the same place: another environment, another ID.

use crate::{
    diagnostic::{Diagnostic, Diagnostics},
    hir::{Arg, ArgKind, Def, PhaseKind},
    lint::{
        TaskView,
        analysis::facts,
        cleanup::deleted_by_request::{self, Request},
        resources::{cluster::whole, elsewhere::UNKNOWN_RESOURCE},
    },
    source::Span,
};

/// The maximum number of requests that are compared.
const MOST: usize = 32;

/// Requires that the word in the URL appears nowhere else in the task, and that verify does not mention the word that setup has in its place.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    let is_asked = view.effects.in_phase(PhaseKind::Verify).any(|act| act.thing.system == "http");
    if !is_asked || view.task.prompt.is_none() || !view.effects.sees(PhaseKind::Setup) {
        return;
    }
    let all = deleted_by_request::requests(view);
    let of = |phase: PhaseKind| all.iter().filter(move |request| request.phase == phase).take(MOST);
    let made: Vec<&Request> = of(PhaseKind::Setup)
        .filter(|made| matches!(made.method.as_str(), "POST" | "PUT" | "PATCH") && !made.segments.is_empty())
        .collect();
    let absent = absent(view);
    let mut told: Vec<String> = Vec::new();
    for read in of(PhaseKind::Verify).filter(|read| matches!(read.method.as_str(), "GET" | "HEAD")) {
        if made.is_empty() || absent.contains(&read.span) {
            continue;
        }
        for made in &made {
            let Some((word, own)) = other_member(view, read, made).or_else(|| other_key(view, read, made)) else {
                continue;
            };
            if !told.contains(&word) {
                out.push(
                    Diagnostic::new(
                        &UNKNOWN_RESOURCE,
                        read.span,
                        format!("neither the prompt nor setup mentions `{word}`: setup uses `{own}`"),
                    )
                    .label(made.span, "used here")
                    .help("check what setup creates, or what the prompt asks for"),
                );
                told.push(word);
            }
            break;
        }
    }
}

/// `…/environments/development`, where setup and the prompt have `production` there.
fn other_member(view: &TaskView<'_>, read: &Request, made: &Request) -> Option<(String, String)> {
    let at = read.segments.iter().zip(&made.segments).position(|(a, b)| a != b)?;
    let (word, own) = (read.segments.get(at)?.literal()?, made.segments.get(at)?.literal()?);
    let collection = read.segments.get(at.checked_sub(1)?)?.literal()?;
    let is_collection = at > 1 && collection.len() > 3 && collection.ends_with('s') && !collection.ends_with("ss");
    let is_mentioned = || whole(&view.effects.prompt.shown(), own);
    (is_collection && is_name(word) && is_name(own) && is_mentioned() && is_only_here(view, word, own))
        .then(|| (word.to_owned(), own.to_owned()))
}

/// `…/dashboards/uid/eval-https`, where setup sends `uid: eval-http`.
fn other_key(view: &TaskView<'_>, read: &Request, made: &Request) -> Option<(String, String)> {
    let own = made.keys.iter().find(|key| is_id(key))?;
    let begin = made.segments.len();
    let is_below = read.segments.len() > begin && read.segments.starts_with(&made.segments);
    let at = match is_below {
        true => begin,
        false => read.segments.iter().position(|part| part.literal().is_some_and(|part| FIELDS.contains(&part)))? + 1,
    };
    // The collection, below the host: `…/api/dashboards/db` and `…/api/dashboards/uid/ID`.
    let is_same = is_below || at > 3 && made.segments.get(..at - 1) == read.segments.get(..at - 1);
    let word = read.segments.get(at)?.literal()?;
    let uses = |output: &String| facts::elsewhere(view).verify.contains(output.as_str());
    (made.method == "POST"
        && is_same
        && is_id(word)
        && word != own
        && !made.output.as_ref().is_some_and(uses)
        && is_only_here(view, word, own))
    .then(|| (word.to_owned(), own.clone()))
}

/// Segments before an ID that name its field.
const FIELDS: [&str; 6] = ["uid", "id", "key", "slug", "identifier", "name"];

/// Whether a word is only in verify, in no other form either, and verify does not mention what setup has in its place.
fn is_only_here(view: &TaskView<'_>, word: &str, own: &str) -> bool {
    let texts = facts::elsewhere(view);
    let said = view.effects.prompt.shown();
    let bare = |text: &str| -> String {
        text.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
    };
    let stem = bare(word.trim_end_matches('s'));
    let (bare_own, bare_word) = (bare(own), bare(word));
    // A typo in a word that the prompt contains with a similar beginning is not another name.
    let is_told = bare(&said).contains(&stem) && (whole(&said, word) || !bare_word.starts_with(&bare_own));
    !is_told && !whole(&texts.rest, word) && !whole(&texts.verify, own)
}

/// Whether a segment may be the name of a member of a collection, rather than an operation.
fn is_name(word: &str) -> bool {
    word.len() > 2 && word.bytes().any(|b| b.is_ascii_alphabetic()) && !OPERATIONS.contains(&word)
}

/// Whether a text has the form of an ID: one word with a separator or a digit.
fn is_id(word: &str) -> bool {
    let is_word = word.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
    word.len() > 3 && is_word && is_name(word) && word.contains(|c: char| c.is_ascii_digit() || matches!(c, '-' | '_'))
}

/// Segments that are no names, although they are in the place of one.
const OPERATIONS: [&str; 25] = [
    "search", "query", "count", "list", "all", "self", "current", "latest", "stats", "export", "status", "health",
    "metadata", "default", "summary", "find", "filter", "lookup", "active", "recent", "history", "batch", "bulk",
    "new", "total",
];

/// The requests of verify that expect a status other than that of success.
fn absent(view: &TaskView<'_>) -> Vec<Span> {
    let fails = |status: &Arg<Def>| match &status.kind {
        ArgKind::Int(status) => *status >= 400,
        ArgKind::List(all) => all.iter().any(|one| matches!(one.kind, ArgKind::Int(status) if status >= 400)),
        _ => true,
    };
    let mut found = Vec::new();
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            let status = step.expect.as_ref().and_then(|(_, expect)| expect.get("status"));
            let is_negative = step.expect.as_ref().is_some_and(|(_, expect)| expect.get("not").is_some());
            if is_negative || status.is_some_and(fails) {
                found.extend(step.arg("url").map(|url| url.span));
            }
        });
    });
    found
}
