//! The prompt sends the agent to another place than the one that setup and verify use: a directory, a numbered resource, a database, a
//! branch.

use std::collections::BTreeSet;

use rustc_hash::FxHashSet;

use crate::{
    ascii::{Ascii, ascii},
    diagnostic::{Diagnostic, Diagnostics},
    effects::{shell::Run, value::Value},
    hir::PhaseKind,
    lint::{
        TaskView,
        analysis::{checked_resource, facts, orders, texts},
        prompt::disagrees::{PROMPT_DISAGREES, disagrees},
        resources::elsewhere::{UNKNOWN_RESOURCE, out_has},
    },
    source::Span,
};

pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    if view.task.prompt.is_none() {
        return;
    }
    let said = view.effects.prompt.shown();
    directories(view, &said, out);
    numbers(view, &said, out);
    branches(view, &said, out);
}

/// The known words of the commands of a phase, each with its place.
fn words(view: &TaskView<'_>, phase: PhaseKind) -> Vec<(Span, String)> {
    let of = |run: &Run<'_>| {
        let span = checked_resource::place(run);
        let known = run.words.iter().chain(&run.output).filter(|word| word.is_known());
        known.map(|word| (span, word.shown())).collect::<Vec<_>>()
    };
    checked_resource::runs(view, phase).flat_map(of).collect()
}

/// `into /tmp/eval/old`, where setup creates `/tmp/eval/archive` and verify looks there; or a directory that nothing else mentions.
fn directories(view: &TaskView<'_>, said: &str, out: &mut Diagnostics) {
    let asked: BTreeSet<&str> =
        PATH.find_iter(said).map(|found| found.as_str().trim_end_matches(['.', '/', '-'])).collect();
    if asked.is_empty() || !view.effects.sees(PhaseKind::Setup) {
        return;
    }
    let (setup, verify) = (words(view, PhaseKind::Setup), words(view, PhaseKind::Verify));
    let texts = facts::elsewhere(view);
    let acts = || view.effects.acts.iter().filter_map(|act| act.thing.name.as_ref()).map(Value::shown);
    let mentions = |path: &str| {
        has_path(&texts.rest, path)
            || has_path(&texts.verify, path)
            || setup.iter().chain(&verify).any(|(_, word)| has_path(word, path))
            || acts().any(|name| has_path(&name, path))
    };
    for path in asked {
        let (Some((parent, own)), false) = (path.rsplit_once('/'), mentions(path)) else { continue };
        let top = path.split('/').take(3).collect::<Vec<_>>().join("/");
        // A script may put the path together.
        let is_joined = || [&texts.rest, &texts.verify].iter().any(|text| text.contains(&format!("/{own}")));
        let root = |path: &str| path.split('/').nth(1).map(str::to_owned);
        let is_free = |(_, word): &&(Span, String)| {
            let found = PATH.find_iter(word).next().map(|found| found.as_str());
            found.is_some_and(|other| root(other) == root(path) && !said.contains(other))
        };
        if let Some((_, other)) =
            setup.iter().find(is_free).filter(|_| !mentions(&top) && !is_joined() && path.matches('/').count() > 2)
            && let Some(prompt) = &view.task.prompt
        {
            out.push(
                Diagnostic::new(
                    &UNKNOWN_RESOURCE,
                    prompt.text.span,
                    format!("nothing else in the task mentions `{path}`"),
                )
                .help(format!("setup creates `{other}`: use the same path in both")),
            );
            return;
        }
        // The last part of the path may be in a variable or the name of a file, which a script puts together.
        if own.len() < 2 || texts::has_word(&texts.verify, own) || texts::has_word(&texts.rest, own) {
            continue;
        }
        let ending = |name: &str| name.rsplit_once('.').map(|(_, ending)| ending.to_owned());
        // What is beside the path: in the same directory, and of the same type.
        let beside = |words: &[(Span, String)]| -> BTreeSet<String> {
            let names = words.iter().filter_map(|(_, word)| {
                let rest = &word[word.find(&format!("{parent}/"))? + parent.len() + 1..];
                let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')));
                let name = &rest[..end.unwrap_or(rest.len())];
                let is_free = !name.is_empty() && !said.contains(&format!("{parent}/{name}"));
                (is_free && ending(name) == ending(own)).then(|| name.to_owned())
            });
            names.collect()
        };
        let known: Vec<String> = beside(&setup).intersection(&beside(&verify)).cloned().collect();
        if let ([name], true) = (known.as_slice(), parent.matches('/').count() > 1) {
            let wanted = format!("{parent}/{name}");
            let place = verify.iter().find(|(_, word)| word.contains(&wanted)).map(|(span, _)| *span);
            if let (Some(place), Some(prompt)) = (place.filter(|place| !out_has(out, *place)), &view.task.prompt) {
                out.push(disagrees(place, &wanted, path, prompt.text.span));
                return;
            }
        }
    }
}

/// Whether a text contains a path, which does not end within a name.
fn has_path(text: &str, path: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    text.match_indices(path).any(|(at, _)| !text[at + path.len()..].starts_with(part))
}

static PATH: Ascii = ascii(r"/(?:tmp|var/tmp|srv|data|work)(?:/[\w.{}-]+)+");

/// `ticket 23`, where verify asks for `/tickets/42`; `database 6`, where verify runs `redis-cli -n 5`.
fn numbers(view: &TaskView<'_>, said: &str, out: &mut Diagnostics) {
    let Some(prompt) = &view.task.prompt else { return };
    let mut used: Vec<(String, String, Span)> = Vec::new();
    for act in view.effects.in_phase(PhaseKind::Verify).filter(|act| act.thing.system == "http") {
        let url = act.thing.name.as_ref().map(Value::shown).unwrap_or_default();
        let segments: Vec<&str> = url.split(['?', '#']).next().unwrap_or_default().split('/').skip(3).collect();
        for pair in segments.windows(2).filter(|pair| is_number(pair[1])) {
            let noun = pair[0].strip_suffix('s').unwrap_or(pair[0]);
            used.push((noun.to_lowercase(), pair[1].to_owned(), act.step));
        }
    }
    for run in checked_resource::runs(view, PhaseKind::Verify) {
        let words: Vec<String> = run.words.iter().map(Value::shown).collect();
        let number = |at: usize| words.get(at).filter(|word| is_number(word)).cloned();
        let found = match words.first().map(String::as_str) {
            Some("redis-cli" | "valkey-cli") => {
                let at = words.iter().position(|word| word == "-n");
                at.and_then(|at| number(at + 1)).map(|number| ("database", number))
            }
            _ => None,
        };
        used.extend(found.map(|(noun, number)| (noun.to_owned(), number, checked_resource::place(run))));
    }
    if used.is_empty() {
        return;
    }
    // Another resource may have to stay as it is: only one that gets a value of the prompt counts.
    let mut changed: FxHashSet<Span> = FxHashSet::default();
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            let mut found = false;
            step.expect.iter().for_each(|(_, expect)| {
                expect.templates(&mut |text| found |= orders::is_asked(said, &texts::written(text)));
            });
            changed.extend(found.then_some(step.key));
        });
    });
    let lower = said.to_lowercase();
    let nouns: BTreeSet<&String> = used.iter().map(|(noun, ..)| noun).collect();
    for noun in nouns.into_iter().filter(|noun| noun.len() > 2) {
        let told: BTreeSet<&str> = NUMBERED
            .captures_iter(&lower)
            .filter_map(|found| Some((found.get(1)?.as_str(), found.get(2)?.as_str())))
            .filter(|(word, _)| word.strip_suffix('s').unwrap_or(word) == noun)
            .map(|(_, number)| number)
            .collect();
        let own = || used.iter().filter(|(of, ..)| of == noun);
        let verified = &facts::elsewhere(view).verify;
        let mut free = told.iter().filter(|number| !texts::has_word(verified, number));
        let strange: BTreeSet<&str> =
            own().map(|(_, number, _)| number.as_str()).filter(|number| !texts::has_word(said, number)).collect();
        let (Some(free), None, 1, Some(strange)) = (free.next(), free.next(), strange.len(), strange.first()) else {
            continue;
        };
        let is_meant = |span: &Span| noun == "database" || changed.contains(span);
        let place = own().find(|(_, number, span)| number == strange && is_meant(span)).map(|(.., span)| *span);
        if let Some(place) = place.filter(|place| !out_has(out, *place)) {
            out.push(disagrees(place, &format!("{noun} {strange}"), &format!("{noun} {free}"), prompt.text.span));
            return;
        }
    }
}

static NUMBERED: Ascii = ascii(r"\b([a-z]{3,}) (?:no\. ?|number )?[#`]?(\d{1,6})\b");

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.len() < 7 && text.bytes().all(|b| b.is_ascii_digit())
}

/// Options of git that name a new branch.
static MADE: Ascii = ascii(r"(?:\s-[bBcCmM]|--initial-branch[= ]|defaultBranch[= ])\s*([a-z]+)\b");

/// `git merge-base --is-ancestor topic master`, where setup creates only `main`.
fn branches(view: &TaskView<'_>, said: &str, out: &mut Diagnostics) {
    const USUAL: [&str; 4] = ["main", "master", "trunk", "develop"];
    // A clone has branches of its own, and `git init` names the first one as the user's settings say.
    let rest = &facts::elsewhere(view).rest;
    if !view.effects.sees(PhaseKind::Setup)
        || ["clone", "fetch", "git pull", "worktree"].iter().any(|word| rest.contains(word))
    {
        return;
    }
    let made: Vec<&str> = MADE.captures_iter(rest).filter_map(|made| Some(made.get(1)?.as_str())).collect();
    let named = |name: &str| texts::has_word(rest, name) || texts::has_word(said, name);
    for run in checked_resource::runs(view, PhaseKind::Verify).filter(|run| run.statement.name() == "git") {
        let words: Vec<&str> = run.words.iter().skip(1).filter_map(Value::literal).collect();
        let revisions = words.iter().flat_map(|word| word.split(['^', '~', ':', '.', '@']));
        let place = checked_resource::place(run);
        for name in revisions.filter(|word| USUAL.contains(word) && !named(word)) {
            let other = USUAL.iter().find(|other| made.contains(other));
            if let Some(other) = other.filter(|_| !out_has(out, place)) {
                let message = format!("setup creates the branch `{other}`, and no `{name}`");
                out.push(Diagnostic::new(&PROMPT_DISAGREES, place, message).help(format!("use `{other}`")));
                return;
            }
        }
    }
}
