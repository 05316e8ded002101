//! Checks of verify for the state that setup has made, rather than for the one that the prompt asks for.

use crate::{
    ascii::{Ascii, ascii},
    diagnostic::{Diagnostic, Diagnostics},
    hir::{Arg, ArgKind, Def, OperationKind, PhaseKind, Step},
    lint::{
        TaskView,
        analysis::{facts, orders, texts},
        cleanup::deleted_by_request::{self, Request},
        initial::already_true::ALREADY_TRUE,
        prompt::wrong_state::WRONG_STATE,
    },
    source::Span,
};

/// A text that a step gives to a field.
struct Sent<'a> {
    field: &'a str,
    text: String,
    span: Span,
}

/// An expectation of verify for a path.
struct Wanted<'a> {
    step: &'a Step<Def>,
    path: &'a str,
    field: String,
    /// The record with the path.
    arg: &'a Arg<Def>,
}

/// `equals: OLD` for a field to which setup gives `OLD`, if the prompt says `has left OLD` or `from OLD to NEW`. Requires that nothing else
/// expects a value of this field.
pub fn former(view: &TaskView<'_>, out: &mut Diagnostics) {
    let Some((said, prompt)) = facts::prompt(view) else { return };
    if !LEAVES.is_match(said) {
        return;
    }
    let all = wanted(view);
    let equal = |wanted: &Wanted<'_>| match &wanted.arg.get("equals")?.kind {
        ArgKind::Text(template) => Some((wanted.arg.get("equals")?.span, texts::written(template))),
        _ => None,
    };
    for one in &all {
        let Some((span, value)) = equal(one).filter(|(_, value)| value.len() > 2) else { continue };
        let is_only = || all.iter().filter(|other| other.field == one.field && equal(other).is_some()).count() == 1;
        if PAST.contains(&one.field.as_str()) || !is_left(said, &value) || !is_only() {
            continue;
        }
        let made = sent(view).into_iter().find(|sent| sent.field == one.field && sent.text == value);
        if let Some(made) = made.filter(|_| !out.iter().any(|known| known.span == span)) {
            out.push(
                Diagnostic::new(
                    &WRONG_STATE,
                    span,
                    format!("verify expects `{value}`, the value before the change that the prompt asks for"),
                )
                .label(made.span, "setup sets it here")
                .label(prompt, "the task of the agent")
                .help("check for the state that the agent must bring about"),
            );
        }
    }
}

/// Whether the prompt mentions a value once, as one that changes to another.
fn is_left(said: &str, value: &str) -> bool {
    let mut places = said.match_indices(value);
    let (Some((at, _)), None) = (places.next(), places.next()) else { return false };
    let before = said[..at].trim_end_matches(['`', '"']);
    let behind = said[at + value.len()..].trim_start_matches(['`', '"']);
    let sentence = &said[orders::sentence(said, at)];
    if orders::KEEPS.is_match(sentence) && !before.ends_with(" has left ") {
        return false;
    }
    LEFT.is_match(before)
        || before.ends_with("from ") && behind.starts_with(" to ")
        || REPLACE.is_match(before) && (behind.starts_with(" with ") || behind.starts_with(" by "))
}

/// Fields whose value is the former one by their meaning.
const PAST: [&str; 6] = ["from", "previous", "old", "before", "original", "source"];
static LEAVES: Ascii = ascii(r"(?i)\b(?:left|leaves|no longer|instead of|away from|from|replace)\b");
static LEFT: Ascii = ascii(
    r"(?i)\b(?:(?:has|have) left|leaves|no longer(?: \w+){0,2}(?: at| in| on| for| with| to)?|instead of|away from)\s+$",
);
static REPLACE: Ascii = ascii(r"(?i)\breplace(?: the \w+)?\s+$");

/// `any: {contains: ship}` for the field of a list in which setup itself has sent a text with this word.
pub fn said_before(view: &TaskView<'_>, out: &mut Diagnostics) {
    let Some(prompt) = &view.task.prompt else { return };
    let said = view.effects.prompt.shown().to_lowercase();
    let all = wanted(view);
    for one in &all {
        let Some(any) = one.arg.get("any").filter(|_| !one.path.contains('?')) else { continue };
        let find = |key: &str| Some((key == "matches", any.get(key)?.as_literal()?));
        let Some((is_pattern, text)) = find("contains").or_else(|| find("matches")) else { continue };
        let plain = text.trim_start_matches("(?i)").to_lowercase();
        // Another check of the same texts decides.
        let is_alone =
            || all.iter().filter(|other| std::ptr::eq(other.step, one.step) && other.path == one.path).count() == 1;
        if plain.len() < 3 || !said.contains(&plain) || !is_alone() || is_kept(&said, &plain) {
            continue;
        }
        let Some(holes) = listed_by(one.step) else { continue };
        let holds = |sent: &str| match is_pattern {
            true => regex::Regex::new(text).is_ok_and(|regex| regex.is_match(sent)),
            false => sent.contains(text),
        };
        let made = posts(view).into_iter().find_map(|(step, output)| {
            let body = written(step.arg("body")?);
            let is_listed = holes.iter().any(|hole| {
                body.contains(hole.as_str()) || output.as_ref().is_some_and(|output| hole.starts_with(output.as_str()))
            });
            let mut texts = Vec::new();
            collect(step.arg("body")?, "", &mut texts);
            // The whole text may have to stay.
            let is_part = |sent: &Sent<'_>| sent.field == one.field && sent.text.len() > 2 * plain.len();
            texts.into_iter().find(|sent| is_listed && is_part(sent) && holds(&sent.text))
        });
        if let Some(made) = made {
            out.push(
                Diagnostic::new(
                    &ALREADY_TRUE,
                    any.span,
                    "the text that setup sends meets this condition before the agent runs",
                )
                .label(made.span, "setup sends it here")
                .label(prompt.text.span, "the prompt asks for it here")
                .help("check for a text that only the agent writes"),
            );
        }
    }
}

/// Whether the prompt says of a text that it stays.
fn is_kept(said: &str, text: &str) -> bool {
    let sentence = |at| &said[orders::sentence(said, at)];
    said.match_indices(text).any(|(at, _)| orders::KEEPS.is_match(sentence(at)))
}

/// `total: 2` for a collection that setup empties and then fills with two members, if the prompt asks for another one.
pub fn totals(view: &TaskView<'_>, out: &mut Diagnostics) {
    let Some(prompt) = &view.task.prompt else { return };
    let said = view.effects.prompt.shown();
    let all = wanted(view);
    let counts = || all.iter().filter_map(|one| Some((one, counted(one)?)));
    if counts().next().is_none() || orders::DELETES.is_match(&said) || !view.effects.sees(PhaseKind::Setup) {
        return;
    }
    let requests = deleted_by_request::requests(view);
    let setup: Vec<&Request> = requests.iter().filter(|request| request.phase == PhaseKind::Setup).collect();
    for (one, arg) in counts() {
        let Some(ArgKind::Int(number)) = Some(&arg.kind) else { continue };
        let url = one.step.arg("url").map(|url| url.span);
        let Some(read) = requests.iter().find(|read| Some(read.span) == url && read.phase == PhaseKind::Verify) else {
            continue;
        };
        let Some((Some(collection), parent)) =
            read.segments.split_last().map(|(last, parent)| (last.literal(), parent))
        else {
            continue;
        };
        let is_whole = one.step.arg("url").is_some_and(|url| !written(url).contains('?'));
        let Some(emptied) = setup.iter().position(|gone| gone.method == "DELETE" && gone.segments == read.segments)
        else {
            continue;
        };
        let posts = setup.get(emptied + 1..).unwrap_or_default();
        let adds = |post: &&Request| {
            let is_action = || {
                post.segments.split_last().is_some_and(|(last, begin)| {
                    begin == parent
                        && last.literal().is_some_and(|last| matches!(last, "send" | "create" | "add" | "publish"))
                })
            };
            post.method == "POST" && (post.segments == read.segments || is_action())
        };
        let is_known = posts.iter().all(adds) && i64::try_from(posts.len()).ok() == Some(*number) && *number > 0;
        if is_known && is_whole && asks_for_another(&said, collection) {
            out.push(
                Diagnostic::new(
                    &ALREADY_TRUE,
                    arg.span,
                    format!("setup creates {number} of them, and the prompt asks for another one"),
                )
                .label(prompt.text.span, "the task of the agent")
                .help("count what the agent adds as well"),
            );
            return;
        }
    }
}

/// The number of members that an expectation requires.
fn counted<'a>(wanted: &Wanted<'a>) -> Option<&'a Arg<Def>> {
    let is_total = TOTALS.contains(&wanted.field.as_str());
    wanted.arg.get("length").or_else(|| wanted.arg.get("equals").filter(|_| is_total))
}

/// Whether a prompt asks for a new member of a collection: a reply to a message, `create a ticket`.
fn asks_for_another(said: &str, collection: &str) -> bool {
    let noun = collection.trim_end_matches('s').to_lowercase();
    let is_message = matches!(noun.as_str(), "message" | "mail" | "email" | "post" | "comment");
    is_message && REPLIES.is_match(said)
        || noun.len() > 2
            && MAKES_ONE
                .captures_iter(said)
                .any(|made| made.get(1).is_some_and(|made| made.as_str().to_lowercase() == noun))
}

/// Fields that contain the number of all members.
const TOTALS: [&str; 6] = ["total", "count", "total_count", "totalCount", "size", "messages_count"];
static REPLIES: Ascii = ascii(r"(?:^|[.,] |\band )(?:[Rr]eply|[Rr]espond|[Aa]nswer|[Ff]orward)\b");
static MAKES_ONE: Ascii =
    ascii(r"(?i)\b(?:create|add|send|post|publish|write|open)(?: \w+){0,3}? (?:a|an|another|one)(?: new)? (\w+)\b");

/// The holes in the path of a request, if it lists everything there.
fn listed_by(step: &Step<Def>) -> Option<Vec<String>> {
    let ArgKind::Text(url) = &step.arg("url")?.kind else { return None };
    let text = texts::written(url);
    let query = text.split_once('?').map_or("", |(_, query)| query);
    let is_whole =
        query.split('&').all(|part| part.is_empty() || part.starts_with("per_page") || part.starts_with("limit"));
    let holes: Vec<String> =
        url.holes().map(|hole| hole.text.to_string()).filter(|hole| hole.starts_with("{steps.")).collect();
    (is_whole && !holes.is_empty()).then_some(holes)
}

/// The POST requests of setup, and the text with which a hole for one of their outputs starts.
fn posts<'a>(view: &TaskView<'a>) -> Vec<(&'a Step<Def>, Option<String>)> {
    let mut found = Vec::new();
    view.task.walk(&mut |phase, step| {
        let method = step.arg("method").and_then(|method| method.as_literal()).unwrap_or_default();
        if phase == PhaseKind::Setup && step.op.kind == OperationKind::Builtin("http") && method == "POST" {
            found.push((step, step.id.as_ref().map(|id| format!("{{steps.{}.", id.value))));
        }
    });
    found
}

fn written(arg: &Arg<Def>) -> String {
    let mut all = String::new();
    arg.templates(&mut |template| {
        all.push_str(&texts::written(template));
        all.push('\n');
    });
    all
}

/// The texts that the steps of setup give to fields.
fn sent<'a>(view: &TaskView<'a>) -> Vec<Sent<'a>> {
    let mut found = Vec::new();
    view.task.walk(&mut |phase, step| {
        if phase == PhaseKind::Setup {
            step.args.iter().for_each(|(key, arg)| collect(arg, &key.value, &mut found));
        }
    });
    found
}

fn collect<'a>(arg: &'a Arg<Def>, field: &'a str, found: &mut Vec<Sent<'a>>) {
    match &arg.kind {
        ArgKind::Record(fields) => fields.iter().for_each(|(key, arg)| collect(arg, &key.value, found)),
        ArgKind::List(items) => items.iter().for_each(|arg| collect(arg, field, found)),
        ArgKind::Text(template) => found.push(Sent { field, text: texts::written(template), span: arg.span }),
        _ => {}
    }
}

/// The expectations for paths in verify.
fn wanted<'a>(view: &TaskView<'a>) -> Vec<Wanted<'a>> {
    fn walk<'a>(step: &'a Step<Def>, arg: &'a Arg<Def>, found: &mut Vec<Wanted<'a>>) {
        match &arg.kind {
            ArgKind::Record(fields) => {
                if let Some(path) = arg.get("path").and_then(|path| path.as_literal())
                    && let Some(field) = facts::last_name(path)
                {
                    found.push(Wanted { step, path, field, arg });
                }
                fields.iter().for_each(|(key, arg)| {
                    if key.value != "not" {
                        walk(step, arg, found);
                    }
                });
            }
            ArgKind::List(items) => items.iter().for_each(|arg| walk(step, arg, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    view.task.walk(&mut |phase, step| {
        if phase == PhaseKind::Verify {
            step.expect.iter().for_each(|(_, expect)| walk(step, expect, &mut found));
        }
    });
    found
}
