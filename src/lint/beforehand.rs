//! The state of single resources before the agent runs: which commands of setup concern them, and what these do.

use super::{
    TaskView,
    already_true::{self, ALREADY_TRUE},
    facts::{self, Fact},
    texts,
};
use crate::{
    ascii::{Ascii, ascii},
    bash::{flow, tools},
    diagnostic::{Diagnostic, Diagnostics},
    effects::{
        Act, Verb,
        asked::{self, Demand, Form},
        shell::Run,
        value::Value,
    },
    hir::{OperationKind, PhaseKind},
    source::Span,
};

/// The fields that setup gives to the resource that a check reads.
pub(super) enum Owned {
    /// Setup does not create the resource, or changes it in a way that is not followed.
    Missing,
    /// These, by commands that name the resource.
    By(Vec<Fact>),
    Unknown,
}

/// The commands of the scripts of a phase.
pub(super) fn runs<'v>(view: &TaskView<'v>, phase: PhaseKind) -> impl Iterator<Item = &'v Run<'v>> {
    let scripts = view.effects.scripts.iter().filter(move |script| script.view.phase == phase);
    scripts.flat_map(|script| &script.trace.runs)
}

/// Whether a command names a resource, in its words or in its input.
pub(super) fn has_name(run: &Run<'_>, name: &str) -> bool {
    run.words.iter().chain(&run.input).any(|word| texts::has_word(&word.shown(), name))
}

/// The place of a command.
pub(super) fn place(run: &Run<'_>) -> Span {
    run.content.span(run.statement.range.clone())
}

/// The words of a command, as far as they are known.
pub(super) fn words(run: &Run<'_>) -> String {
    run.words.iter().map(Value::shown).collect::<Vec<_>>().join(" ")
}

/// The commands whose output is compared at a place: the one that reads the world comes first.
pub(super) fn read_at<'v>(view: &TaskView<'v>, place: Span) -> Vec<&'v Run<'v>> {
    if let Some(question) = view.asked().iter().find(|question| question.span == place) {
        return question.runs.clone();
    }
    let inside = |outer: Span| outer.file == place.file && outer.start <= place.start && place.end <= outer.end;
    let verify = view.effects.scripts.iter().filter(|script| script.view.phase == PhaseKind::Verify);
    for script in verify.filter(|script| script.view.content.text.contains("jq")) {
        let filtered = asked::filtered_by(script).find(|(_, jq, _)| inside(self::place(jq)));
        if let Some((first, jq, _)) = filtered {
            return vec![first, jq];
        }
    }
    let mut found = None;
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            if inside(step.span) && matches!(step.op.kind, OperationKind::Builtin("command")) {
                found = view.script_of(step);
            }
        });
    });
    let followed = found.and_then(|script| view.followed(script));
    followed.map(|followed| followed.trace.runs.iter().collect()).unwrap_or_default()
}

/// What a command reads, and its name: also in a function that is called for several resources.
pub(super) fn read_by<'v>(view: &TaskView<'v>, run: &Run<'_>) -> Option<(&'v Act, &'v str)> {
    let span = place(run);
    let acts = view.effects.acts.iter().filter(|act| {
        matches!(act.verb, Verb::Reads | Verb::Awaits) && act.span.file == span.file && act.span.start == span.start
    });
    let mut named = acts.filter_map(|act| {
        let name = act.thing.name.as_ref().and_then(Value::literal).filter(|name| name.len() > 2)?;
        let has = |word: &Value| word.literal().is_some_and(|word| word.rsplit('/').next() == Some(name));
        run.words.iter().any(has).then_some((act, name))
    });
    let first = named.next()?;
    named.all(|(act, _)| act.thing == first.0.thing).then_some(first)
}

/// Whether a command of setup mentions a kind of resources, or applies what is not in the script.
fn mentions(view: &TaskView<'_>, kind: &str) -> bool {
    runs(view, PhaseKind::Setup).any(|run| {
        let has = |word: &Value| word.shown().to_ascii_lowercase().contains(kind);
        let is_file = |pair: &[Value]| {
            matches!(pair[0].literal(), Some("-f" | "--filename" | "-k")) && pair[1].literal() != Some("-")
        };
        matches!(run.statement.tool(), "helm" | "terraform" | "kustomize")
            || run.words.windows(2).any(is_file)
            || run.words.iter().chain(&run.input).any(has)
    })
}

/// The fields that setup gives to the Kubernetes resource that a check reads.
pub(super) fn owned(view: &TaskView<'_>, question: &Fact) -> Owned {
    let runs_at = read_at(view, question.span);
    let Some((act, name)) = runs_at.first().and_then(|run| read_by(view, run)) else { return Owned::Unknown };
    let scripts = || view.effects.scripts.iter().filter(|script| script.view.phase == PhaseKind::Setup);
    if act.thing.system != "kubernetes" || scripts().any(|script| script.trace.opaque) {
        return Owned::Unknown;
    }
    let mut setup = view.effects.in_phase(PhaseKind::Setup);
    let is_made = setup.any(|made| made.verb == Verb::Creates && made.thing.may_be(&act.thing));
    if !is_made && (view.effects.sees(PhaseKind::Setup) || !mentions(view, &act.thing.kind)) {
        return Owned::Missing;
    }
    let mut found = Vec::new();
    for run in runs(view, PhaseKind::Setup) {
        let has = |word: &str| run.words.iter().any(|known| known.shown().contains(word));
        let edits = run.statement.name() == "sed" && (has(&question.key) || has(&question.text()));
        let changes = ["set", "patch", "edit", "replace", "undo", "autoscale"];
        let named = has_name(run, name);
        if edits || named && run.words.iter().take(4).filter_map(Value::literal).any(|word| changes.contains(&word)) {
            return Owned::Missing;
        }
        if named {
            facts::in_run(run, place(run), &mut found);
        }
    }
    found.retain(|fact| already_true::alike(&fact.key, &question.key));
    Owned::By(found)
}

/// `create a label "severity-high"`, where setup runs `gh label create severity-high`, for programs whose commands are
/// not followed otherwise: the verb, the noun of the prompt and the name are words of one command.
pub(super) fn made(view: &TaskView<'_>, said: &str, found: &mut Vec<(Span, Span, String)>) {
    if !already_true::CREATES.is_match(said) {
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
            let is_noun = |before: &str| noun(before).is_some_and(|noun| spelt.iter().any(|word| is_kind(word, &noun)));
            if !already_true::is_object(said, name, &already_true::CREATES, &is_noun) {
                continue;
            }
            let gone = all[at + 1..].iter().any(|run| has_name(run, name) && deletes(run));
            let Some(span) = already_true::looks_for(view, name).filter(|_| !gone) else { continue };
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
pub(super) fn gone(view: &TaskView<'_>, said: &str, out: &mut Diagnostics) {
    let opaque = || {
        let mut setup = view.effects.scripts.iter().filter(|script| script.view.phase == PhaseKind::Setup);
        setup.any(|script| script.trace.opaque)
    };
    let only_scripts = || {
        let is_script = |kind: &OperationKind| matches!(kind, OperationKind::Builtin("script" | "command"));
        view.task.setup.steps.iter().all(|step| is_script(&step.op.kind))
    };
    if !already_true::DELETES.is_match(said) || opaque() || !only_scripts() {
        return;
    }
    let mut told: Vec<&str> = Vec::new();
    let setup: Vec<&Run<'_>> = runs(view, PhaseKind::Setup).collect();
    for (span, run) in absences(view) {
        let parts = run.words.iter().skip(1).filter_map(Value::literal).filter(|word| !word.starts_with('-'));
        let parts = parts.map(|word| word.split('?').next().unwrap_or(word).rsplit('/').next().unwrap_or(word));
        for name in parts.filter(|name| name.len() > 2) {
            if told.contains(&name) || !already_true::is_object(said, name, &already_true::DELETES, &|_| true) {
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
pub(super) fn named_values(view: &TaskView<'_>, said: &str, found: &mut Vec<(Span, Span, String)>) {
    let asked = facts::asked(view).iter().filter(|fact| fact.key == "value");
    for fact in asked {
        let value = fact.text();
        if value.is_empty() || !already_true::is_asked(said, &value) {
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

/// The name of the element whose `value` is compared.
pub(super) fn selected(view: &TaskView<'_>, fact: &Fact) -> Option<String> {
    let runs = read_at(view, fact.span);
    runs.iter().find_map(|run| Some(SELECTED.captures(&words(run))?.get(1)?.as_str().to_owned()))
}

/// The name of an element that a filter selects: `select(.name == "X") | .value`, `[?(@.name=="X")].value`.
static SELECTED: Ascii = ascii(r#"\.name\s*==\s*["']([\w.-]+)["']\)\]?\s*\|?\s*\.value\b"#);
/// `{name: X, value: Y}`, also on two lines.
static NAMED: Ascii = ascii(r#"\bname:\s*["']?([\w.-]+)["']?\s*(?:,|\n)\s*value:\s*["']?([^"'}\n,]+)"#);
