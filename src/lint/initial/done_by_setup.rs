//! Resources that setup creates or deletes, although the prompt asks the agent to do so.

use crate::{
    ascii::{Ascii, ascii},
    bash::{flow, tools},
    diagnostic::{Diagnostic, Diagnostics},
    effects::{
        Verb,
        asked::{Demand, Form},
        shell::Run,
        value::Value,
    },
    hir::{OperationKind, PhaseKind},
    lint::{
        TaskView,
        analysis::{
            checked_resource::{has_name, place, runs, selected, words},
            facts, orders, present_state, texts,
        },
        initial::already_true::ALREADY_TRUE,
        resources::elsewhere,
    },
    source::Span,
};

/// Resources that setup creates or deletes although the prompt asks for it, and values in lists of names and values.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    let Some(prompt) = &view.task.prompt else { return };
    let said = view.effects.prompt.shown();
    let mut found = Vec::new();
    made(view, &said, &mut found);
    named_values(view, &said, &mut found);
    for (span, made, what) in found {
        if !elsewhere::out_has(out, span) {
            out.push(
                Diagnostic::new(&ALREADY_TRUE, span, format!("{what} is already present before the agent runs"))
                    .label(made, "setup creates it here")
                    .label(prompt.text.span, "the prompt asks for it here")
                    .help("start from a different state in setup: the task must not pass if the agent does nothing"),
            );
        }
    }
    gone(view, &said, out);
}

/// `create a label "severity-high"`, where setup runs `gh label create severity-high`, for programs whose commands are
/// not followed otherwise: the verb, the noun of the prompt and the name are words of one command.
fn made(view: &TaskView<'_>, said: &str, found: &mut Vec<(Span, Span, String)>) {
    if !orders::CREATES.is_match(said) {
        return;
    }
    let all: Vec<&Run<'_>> = runs(view, PhaseKind::Setup).collect();
    for (at, run) in all.iter().enumerate().filter(|(_, run)| !run.maybe) {
        let spelt: Vec<&str> = run.words.iter().filter_map(Value::literal).collect();
        if !spelt.iter().any(|word| matches!(*word, "create" | "declare" | "new" | "add" | "--create")) {
            continue;
        }
        let span = place(run);
        let is_followed =
            view.effects.in_phase(PhaseKind::Setup).any(|act| act.span == span && act.verb == Verb::Creates);
        let values = spelt.iter().map(|word| word.split_once('=').map_or(*word, |(_, value)| value));
        for name in values.skip(1).filter(|name| name.len() > 3 && !is_followed && !name.starts_with('-')) {
            let is_noun = |before: &str| {
                // In `an issue "Crash on exit"`, `Crash` is only a part of the name.
                let quote = before.chars().next_back().filter(|c| matches!(c, '"' | '`' | '\''));
                let behind = said.get(before.len() + name.len()..).unwrap_or_default();
                quote.is_none_or(|quote| behind.starts_with(quote))
                    && noun(before).is_some_and(|noun| spelt.iter().any(|word| is_kind(word, &noun)))
            };
            if !orders::is_object(said, name, &orders::CREATES, &is_noun) {
                continue;
            }
            let gone = all[at + 1..].iter().any(|run| has_name(run, name) && deletes(run));
            let Some(span) = present_state::looks_for(view, name).filter(|_| !gone) else { continue };
            found.push((span, place(run), format!("`{name}`")));
        }
    }
}

/// The noun before a name: `label` of `Create a label "`, `queue` of `a queue named `.
fn noun(before: &str) -> Option<String> {
    let before = before.trim_end_matches(['`', '"', '\'', ' ', '\n']);
    let before = ["named", "called"].iter().find_map(|word| before.strip_suffix(word)).unwrap_or(before);
    let word = before.trim_end().rsplit(|c: char| !c.is_ascii_alphabetic()).next()?;
    (word.len() > 2).then(|| word.to_lowercase())
}

/// Whether the word of a command is a noun of a prompt, in the singular or in the plural.
fn is_kind(word: &str, noun: &str) -> bool {
    let bare = |word: &str| word.trim_start_matches('-').trim_end_matches('s').to_lowercase();
    bare(word) == bare(noun)
}

/// Whether a command deletes something.
fn deletes(run: &Run<'_>) -> bool {
    const WORDS: [&str; 9] = ["delete", "rm", "remove", "drop", "uninstall", "destroy", "del", "unlink", "purge"];
    let deletes = |word: &str| WORDS.contains(&word.to_lowercase().trim_start_matches('-'));
    let names = ["rmdir", "dropdb", "dropuser", "userdel", "groupdel"];
    names.contains(&run.statement.name()) || run.words.iter().filter_map(Value::literal).any(deletes)
}

/// `Delete the project mercury`, where verify requires that it is absent, and the last command of setup that concerns it
/// deletes it.
fn gone(view: &TaskView<'_>, said: &str, out: &mut Diagnostics) {
    let opaque = || {
        let mut setup = view.effects.scripts.iter().filter(|script| script.view.phase == PhaseKind::Setup);
        setup.any(|script| script.trace.opaque)
    };
    let only_scripts = || {
        let is_script = |kind: &OperationKind| matches!(kind, OperationKind::Builtin("script" | "command"));
        view.task.setup.steps.iter().all(|step| is_script(&step.op.kind))
    };
    if !orders::DELETES.is_match(said) || opaque() || !only_scripts() {
        return;
    }
    let mut told: Vec<&str> = Vec::new();
    let setup: Vec<&Run<'_>> = runs(view, PhaseKind::Setup).collect();
    for (span, run) in absences(view) {
        let parts = run.words.iter().skip(1).filter_map(Value::literal).filter(|word| !word.starts_with('-'));
        let parts = parts.map(|word| word.split('?').next().unwrap_or(word).rsplit('/').next().unwrap_or(word));
        let parts: Vec<&str> = parts.filter(|name| name.len() > 2).collect();
        for name in parts.iter().copied().filter(|name| !is_followed_by(said, name, &parts)) {
            if told.contains(&name) || !orders::is_object(said, name, &orders::DELETES, &|_| true) {
                continue;
            }
            let Some(last) = setup.iter().rposition(|run| has_name(run, name)) else { continue };
            // A finalizer blocks the deletion.
            let is_stuck = |run: &Run<'_>| {
                let text = |word: &Value| word.shown().contains("finalizer") || word.literal() == Some("--wait=false");
                run.words.iter().chain(&run.input).any(text)
            };
            if setup[..=last].iter().any(|run| has_name(run, name) && is_stuck(run)) {
                continue;
            }
            if deletes(setup[last]) && setup[last + 1..].iter().all(|run| is_plain(run)) {
                told.push(name);
                out.push(
                    Diagnostic::new(&ALREADY_TRUE, span, format!("`{name}` is already absent before the agent runs"))
                        .label(place(setup[last]), "setup deletes it here and does not create it again")
                        .help("create it in setup: the task must not pass if the agent does nothing"),
                );
            }
        }
    }
}

/// Whether a word of a prompt is a noun before a name: `pod` in `the pod legacy`.
fn is_followed_by(said: &str, noun: &str, names: &[&str]) -> bool {
    said.match_indices(noun).any(|(at, _)| {
        let behind = &said[at + noun.len()..];
        let rest = behind.trim_start_matches([' ', '\n', '`', '"', '\'']);
        rest.len() < behind.len() && names.iter().any(|name| *name != noun && rest.starts_with(name))
    })
}

/// Whether it is known what a command creates: it reads no file, and its words are known.
fn is_plain(run: &Run<'_>) -> bool {
    const OTHERS: [&str; 8] =
        ["helm", "terraform", "ansible-playbook", "docker-compose", "kustomize", "npm", "vagrant", "pulumi"];
    let file = |word: &Value| {
        word.literal().is_none_or(|word| {
            matches!(word, "-f" | "-k" | "--filename" | "--file" | "compose" | "import" | "restore" | "load")
                || word.starts_with('@')
                || word.contains('$')
        })
    };
    let is_fed = run.statement.fed && run.input.is_none();
    tools::looks(&words(run)) || !is_fed && !OTHERS.contains(&run.statement.name()) && !run.words.iter().any(file)
}

/// The checks of verify that require that something is absent, and the commands that look for it.
fn absences<'v>(view: &TaskView<'v>) -> Vec<(Span, &'v Run<'v>)> {
    let mut found = Vec::new();
    for question in view.asked() {
        let Demand::Compared { operator, with } = &question.demand else { continue };
        let is_equal = matches!(operator.as_str(), "=" | "==" | "-eq");
        let is_missing = question.form == Form::Status && matches!(with.as_str(), "404" | "410");
        if is_missing && question.is_wanted() == Some(is_equal) {
            found.extend(question.runs.first().map(|run| (question.span, *run)));
        }
    }
    for run in runs(view, PhaseKind::Verify).filter(|run| run.lenient && !run.maybe && !deletes(run)) {
        let (succeeded, failed) = flow::outcomes(&run.content.program, &run.statement.range);
        if !succeeded.zero && failed.zero {
            found.push((place(run), run));
        }
    }
    found
}

/// `Set the environment variable LOG_LEVEL to warn`, where setup has `{name: LOG_LEVEL, value: warn}` and no other
/// value.
fn named_values(view: &TaskView<'_>, said: &str, found: &mut Vec<(Span, Span, String)>) {
    let asked = facts::asked(view).iter().filter(|fact| fact.key == "value");
    for fact in asked {
        let value = fact.text();
        if value.is_empty() || !orders::is_asked(said, &value) {
            continue;
        }
        let Some(name) = selected(view, fact).filter(|name| texts::has_word(said, name)) else { continue };
        let mut given: Vec<(Span, &str)> = Vec::new();
        let texts: Vec<(Span, String)> =
            runs(view, PhaseKind::Setup).filter_map(|run| Some((place(run), run.input.as_ref()?.shown()))).collect();
        for (span, text) in &texts {
            let pairs =
                NAMED.captures_iter(text).filter_map(|pair| Some((pair.get(1)?.as_str(), pair.get(2)?.as_str())));
            given.extend(pairs.filter(|(known, _)| *known == name).map(|(_, value)| (*span, value.trim())));
        }
        if let Some((made, _)) = given.first().filter(|_| given.iter().all(|(_, known)| *known == value)) {
            found.push((fact.span, *made, format!("`{name}: {value}`")));
        }
    }
}

/// `{name: X, value: Y}`, also on two lines.
static NAMED: Ascii = ascii(r#"\bname:\s*["']?([\w.-]+)["']?\s*(?:,|\n)\s*value:\s*["']?([^"'}\n,]+)"#);
