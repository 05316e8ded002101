//! Verify requires of one resource what the prompt asks for another of the same kind.

use rustc_hash::FxHashSet;

use crate::{
    diagnostic::{Diagnostic, Diagnostics},
    effects::asked::{Demand, Form},
    hir::{Arg, ArgKind, Def, OperationKind, PhaseKind, Step},
    lint::{
        TaskView,
        analysis::{checked_resource, facts, orders, texts},
        initial::already_true,
        prompt::wrong_state::WRONG_STATE,
    },
    source::Span,
};

pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    if view.task.prompt.is_none() {
        return;
    }
    let before = out.len();
    resources(view, out);
    if out.len() == before {
        requests(view, out);
    }
    if out.len() == before {
        waits(view, out);
    }
}

/// A value that verify requires of a named resource.
struct Required {
    kind: String,
    name: String,
    key: String,
    value: String,
    span: Span,
}

/// `maintenance=yes` is required of `web`, where the prompt asks for it in a sentence about `db` and says that `web` stays as it is.
fn resources(view: &TaskView<'_>, out: &mut Diagnostics) {
    let said = view.effects.prompt.shown();
    if !orders::KEEPS.is_match(&said) {
        return;
    }
    for required in required(view) {
        let Required { kind, name, key, value, span } = &required;
        if name.len() < 2 || key.len() < 3 || value.is_empty() || !texts::has_word(&said, key) {
            continue;
        }
        let places = |word: &str| -> Vec<std::ops::Range<usize>> {
            let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
            let is_whole = |at: &usize| !said[..*at].ends_with(part) && !said[at + word.len()..].starts_with(part);
            said.match_indices(word).map(|(at, _)| at).filter(is_whole).map(|at| texts::sentence(&said, at)).collect()
        };
        let own = places(name);
        let keeps = |sentence: &std::ops::Range<usize>| orders::KEEPS.is_match(&said[sentence.clone()]);
        let names = |sentence: &std::ops::Range<usize>| own.contains(sentence);
        if own.is_empty() || !own.iter().all(keeps) {
            continue;
        }
        let (of_key, of_value) = (places(key), places(value));
        // Each clause has a meaning of its own.
        let clauses = |sentence: &std::ops::Range<usize>| {
            let has = |clause: &&str| texts::has_word(clause, key) && texts::has_word(clause, value);
            said[sentence.clone()].split([',', ';']).filter(has).any(|clause| !orders::KEEPS.is_match(clause))
        };
        let is_asked = of_key.iter().any(|sentence| of_value.contains(sentence) && clauses(sentence));
        if !is_asked || of_key.iter().any(names) {
            continue;
        }
        let other = view.effects.acts.iter().filter(|act| act.thing.kind == *kind).find_map(|act| {
            let other = act.thing.name.as_ref()?.literal()?;
            (other != name && places(other).iter().any(|sentence| !keeps(sentence))).then(|| other.to_owned())
        });
        let is_given = facts::given(view).iter().any(|fact| facts::alike(&fact.key, key) && fact.text() == *value);
        if let Some(other) = other.filter(|_| !is_given && !crate::lint::resources::elsewhere::out_has(out, *span)) {
            let message =
                format!("verify requires `{key}: {value}` of `{name}`, but the prompt asks for it on `{other}`");
            push(view, *span, message, out);
            return;
        }
    }
}

fn push(view: &TaskView<'_>, span: Span, message: String, out: &mut Diagnostics) {
    let finding = Diagnostic::new(&WRONG_STATE, span, message);
    let finding = match &view.task.prompt {
        Some(prompt) => finding.label(prompt.text.span, "the task of the agent"),
        None => finding,
    };
    out.push(finding.help("check the resource that the agent must change"));
}

fn required(view: &TaskView<'_>) -> Vec<Required> {
    let mut found = Vec::new();
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            let text = |key: &str| step.arg(key).and_then(Arg::as_literal);
            let Some((path, value)) = text("jsonpath").zip(step.arg("value")) else { return };
            let (Some((kind, name)), Some(key)) =
                (text("resource").and_then(|resource| resource.split_once('/')), facts::last_name(path))
            else {
                return;
            };
            let kind = view.tools.tool("kubectl").and_then(|tool| tool.kind(kind)).map_or(kind, |(kind, _)| kind);
            let value_text = match value.as_value() {
                Some(serde_json::Value::String(text)) => text,
                Some(other) => other.to_string(),
                None => return,
            };
            let (kind, name) = (kind.to_owned(), name.to_owned());
            found.push(Required { kind, name, key, value: value_text, span: value.span });
        });
    });
    for question in view.asked() {
        let (Form::Field(path), Demand::Compared { operator, with }) = (&question.form, &question.demand) else {
            continue;
        };
        let equal = matches!(operator.as_str(), "=" | "==" | "-eq");
        let Some(key) = facts::last_name(path) else { continue };
        if !(equal || matches!(operator.as_str(), "!=" | "-ne")) || question.is_wanted() != Some(equal) {
            continue;
        }
        if let Some((act, name)) = question.runs.first().and_then(|run| checked_resource::read_by(view, run)) {
            let (kind, name) = (act.thing.kind.clone(), name.to_owned());
            found.push(Required { kind, name, key, value: with.clone(), span: question.span });
        }
    }
    found
}

/// The request steps of a phase that run once.
fn steps<'a>(view: &TaskView<'a>, phase: PhaseKind) -> Vec<&'a Step<Def>> {
    let mut found = Vec::new();
    view.task.walk(&mut |own, step| {
        if own == phase && step.op.kind == OperationKind::Builtin("http") {
            found.push(step);
        }
    });
    found
}

fn url(step: &Step<Def>) -> Option<String> {
    step.arg("url").and_then(texts::script_text)
}

/// The ID of the step whose output a URL contains.
fn made_by(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("{steps.")?;
    rest.split_once('.').map(|(id, _)| id)
}

/// A text that the prompt asks for is looked for at the resource of another step of setup than the one whose title the prompt has.
fn requests(view: &TaskView<'_>, out: &mut Diagnostics) {
    let Some(prompt) = &view.task.prompt else { return };
    let setup: Vec<&Step<Def>> = steps(view, PhaseKind::Setup).into_iter().filter(|step| step.id.is_some()).collect();
    if setup.len() < 2 {
        return;
    }
    let said = texts::written(&prompt.text).split_whitespace().collect::<Vec<_>>().join(" ");
    let lower = said.to_lowercase();
    let id = |step: &Step<Def>| step.id.as_ref().map(|id| id.value.clone()).unwrap_or_default();
    // The prompt contains the title, or the output of the step.
    let is_named = |step: &Step<Def>| {
        let mut named = said.contains(&format!("{{steps.{}.", id(step)));
        step.arg("body").iter().for_each(|body| {
            body.templates(&mut |template| {
                let text = texts::written(template);
                named |= text.len() > 3 && said.contains(text.trim());
            });
        });
        named
    };
    for step in steps(view, PhaseKind::Verify) {
        let Some(address) = url(step) else { continue };
        let Some(own) = made_by(&address).and_then(|own| setup.iter().find(|step| id(step) == own)) else { continue };
        let twins = setup.iter().filter(|other| id(other) != id(own) && url(other) == url(own) && is_named(other));
        let twins: Vec<_> = twins.collect();
        let ([twin], false) = (twins.as_slice(), is_named(own)) else { continue };
        let mut wanted = Vec::new();
        step.expect.iter().for_each(|(_, expect)| positive(expect, &mut wanted));
        for (span, text) in wanted {
            let plain = text.trim_start_matches("(?i)").to_lowercase();
            let is_asked = plain.len() > 3 && lower.contains(&plain) && !plain.contains('{');
            if is_asked && !facts::elsewhere(view).rest.to_lowercase().contains(&plain) {
                let message = format!(
                    "verify expects `{text}` in what the step `{}` creates, but the prompt asks for it in what `{}` creates",
                    id(own),
                    id(twin)
                );
                push(view, span, message, out);
                return;
            }
        }
    }
}

/// The texts that an expectation requires.
fn positive(arg: &Arg<Def>, found: &mut Vec<(Span, String)>) {
    match &arg.kind {
        ArgKind::Record(fields) => {
            for (key, value) in fields.iter().filter(|(key, _)| !matches!(key.value.as_str(), "not" | "none")) {
                match (key.value.as_str(), &value.kind) {
                    ("contains" | "equals" | "matches", ArgKind::Text(template)) => {
                        found.push((value.span, texts::written(template)));
                    }
                    _ => positive(value, found),
                }
            }
        }
        ArgKind::List(items) => items.iter().for_each(|item| positive(item, found)),
        _ => {}
    }
}

/// A state that a request of setup or verify requires.
struct Seen {
    phase: PhaseKind,
    url: String,
    path: String,
    value: String,
    span: Span,
    /// The variables of the task in the URL.
    variables: Vec<String>,
}

fn seen(view: &TaskView<'_>) -> Vec<Seen> {
    let mut found = Vec::new();
    for phase in [PhaseKind::Setup, PhaseKind::Verify] {
        for step in steps(view, phase) {
            let Some(url) = url(step) else { continue };
            let variables = url.match_indices("{env.").filter_map(|(at, _)| {
                let rest = &url[at..];
                Some(rest[..=rest.find('}')?].to_owned())
            });
            let variables: Vec<String> = variables.collect();
            let mut states = Vec::new();
            step.expect.iter().for_each(|(_, expect)| paths(expect, &mut states));
            found.extend(states.into_iter().map(|(path, value, span)| Seen {
                phase,
                url: url.clone(),
                path,
                value,
                span,
                variables: variables.clone(),
            }));
        }
    }
    found
}

fn paths(arg: &Arg<Def>, found: &mut Vec<(String, String, Span)>) {
    match &arg.kind {
        ArgKind::Record(fields) => {
            if let (Some(path), Some(value)) = (arg.get("path").and_then(Arg::as_literal), arg.get("equals"))
                && let Some(text) = value.as_literal()
            {
                found.push((path.to_owned(), text.to_owned(), value.span));
            }
            fields.iter().filter(|(key, _)| key.value != "not").for_each(|(_, value)| paths(value, found));
        }
        ArgKind::List(items) => items.iter().for_each(|item| paths(item, found)),
        _ => {}
    }
}

/// Setup has waited for a state of two resources. Verify requires another state of the one that the prompt does not name, or the same
/// state of the one that it does.
fn waits(view: &TaskView<'_>, out: &mut Diagnostics) {
    let Some(prompt) = &view.task.prompt else { return };
    let verify = &facts::elsewhere(view).verify;
    if !verify.contains("{env.") {
        return;
    }
    let all = seen(view);
    let said = texts::written(&prompt.text);
    let was = |one: &Seen| {
        all.iter().find(|other| other.phase == PhaseKind::Setup && other.url == one.url && other.path == one.path)
    };
    let pairs: Vec<(&Seen, &Seen)> =
        all.iter().filter(|one| one.phase == PhaseKind::Verify).filter_map(|one| Some((one, was(one)?))).collect();
    let shared: FxHashSet<&String> = match all.first() {
        Some(first) => {
            first.variables.iter().filter(|name| all.iter().all(|one| one.variables.contains(name))).collect()
        }
        None => return,
    };
    let own = |one: &Seen| one.variables.iter().find(|name| !shared.contains(name)).cloned();
    let sentence = |name: &str| said.find(name).map(|at| &said[texts::sentence(&said, at)]);
    let is_named = |name: &str| sentence(name).is_some_and(|text| !orders::KEEPS.is_match(text));
    for (one, before) in &pairs {
        let twin = pairs.iter().find(|(other, _)| {
            other.path == one.path && own(other).is_some() && own(other) != own(one) && is_same_but(other, one, &own)
        });
        let (Some(name), Some((other, other_before))) = (own(one), twin) else { continue };
        let Some(other_name) = own(other) else { continue };
        let (changed, other_changed) = (one.value != before.value, other.value != other_before.value);
        if changed && !other_changed && !said.contains(&name) && is_named(&other_name) {
            let message = format!(
                "verify requires that `{}` of `{name}` becomes `{}`, but the prompt is about `{other_name}`",
                one.path, one.value
            );
            push(view, one.span, message, out);
            return;
        }
        if !changed && !other_changed && is_named(&name) && !said.contains(&other_name) {
            out.push(
                Diagnostic::new(
                    &already_true::ALREADY_TRUE,
                    one.span,
                    format!("setup has waited for `{}`: this is true before the agent runs", one.value),
                )
                .label(before.span, "setup waits for it here")
                .label(prompt.text.span, "the task of the agent")
                .help("check for the state that the agent must bring about"),
            );
            return;
        }
    }
}

/// Whether two URLs differ only in the variable of their own.
fn is_same_but(a: &Seen, b: &Seen, own: &dyn Fn(&Seen) -> Option<String>) -> bool {
    let without = |one: &Seen| own(one).map(|name| one.url.replace(&name, "…"));
    without(a).is_some() && without(a) == without(b)
}
