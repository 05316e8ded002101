//! Setup leaves what the prompt asks to bring about: the state itself, an entry that the pattern of verify also matches, a file with the
//! text that verify looks for.

use crate::{
    ascii::{Ascii, ascii},
    diagnostic::{Diagnostic, Diagnostics},
    effects::{
        Verb,
        asked::{Demand, Form, Question},
        shell::Run,
        value::Value,
    },
    hir::PhaseKind,
    lint::{
        TaskView,
        analysis::{checked_resource, facts, orders, texts},
        initial::already_true::{self, ALREADY_TRUE},
        prompt::wrong_state::WRONG_STATE,
    },
};

pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    if view.task.prompt.is_none() {
        return;
    }
    let said = view.effects.prompt.shown();
    ordered(view, &said, out);
    listed(view, &said, out);
    versions(view, &said, out);
}

/// A verb, and the fields and values for the state that it brings about.
const STATES: [(&[&str], &[(&str, &str)]); 8] = [
    (&["start", "boot"], &[("runStrategy", "Always"), ("running", "true")]),
    (&["stop", "halt"], &[("runStrategy", "Halted"), ("running", "false")]),
    (&["suspend", "pause"], &[("suspend", "true"), ("paused", "true")]),
    (&["resume", "unpause"], &[("suspend", "false"), ("paused", "false")]),
    (&["archive"], &[("archived", "true")]),
    (&["unarchive"], &[("archived", "false")]),
    (&["lock"], &[("locked", "true")]),
    (&["unlock"], &[("locked", "false")]),
];

/// `Start it`, where the only manifest of setup has `runStrategy: Always`.
fn ordered(view: &TaskView<'_>, said: &str, out: &mut Diagnostics) {
    let lower = said.to_lowercase();
    let mut known = STATES.iter().filter(|(verbs, _)| verbs.iter().any(|verb| lower.contains(verb))).peekable();
    if known.peek().is_none() {
        return;
    }
    let asked = facts::asked(view);
    for (verbs, states) in known {
        let Some(verb) = verbs.iter().find(|verb| orders::is_ordered(said, verb)) else { continue };
        for (key, value) in *states {
            let mut given = facts::given(view).iter().filter(|fact| fact.key == *key).peekable();
            let Some(first) = given.peek().map(|fact| fact.span) else { continue };
            let is_it = |fact: &facts::Fact| fact.text() == *value;
            let is_changed = || {
                // `set -e` changes nothing.
                let mut runs =
                    checked_resource::runs(view, PhaseKind::Setup).filter(|run| run.statement.name() != "set");
                runs.any(|run| checked_resource::words(run).split_whitespace().any(|word| CHANGES.contains(&word)))
            };
            // A check of the field itself is that of another question.
            if given.all(is_it) && !asked.iter().any(|fact| fact.key == *key) && !is_changed() {
                let message = format!("setup already has `{key}: {value}`, and the prompt asks to {verb} it");
                push(view, first, first, message, out);
                return;
            }
        }
    }
}

/// Commands that may change such a state.
const CHANGES: [&str; 17] = [
    "patch", "edit", "stop", "start", "halt", "restart", "pause", "unpause", "suspend", "resume", "replace", "scale",
    "set", "sed", "lock", "unlock", "rollout",
];

fn push(
    view: &TaskView<'_>,
    span: crate::source::Span,
    made: crate::source::Span,
    message: String,
    out: &mut Diagnostics,
) {
    let mut finding = Diagnostic::new(&ALREADY_TRUE, span, message);
    if made != span {
        finding = finding.label(made, "setup creates it here");
    }
    if let Some(prompt) = &view.task.prompt {
        finding = finding.label(prompt.text.span, "the prompt asks for it here");
    }
    out.push(finding.help("start from a different state in setup: the task must not pass if the agent does nothing"));
}

/// The kind of which a command lists all entries.
fn lists<'r>(run: &'r Run<'_>) -> Option<&'r str> {
    let words: Vec<&str> = run.words.iter().map(|word| word.literal().unwrap_or("…")).collect();
    let (["git", "-C", _, rest @ ..] | ["git", rest @ ..]) = words.as_slice() else { return None };
    match rest {
        ["tag"] | ["tag", "-l" | "--list"] => Some("tag"),
        ["branch"] | ["branch", "-a" | "-r" | "--list" | "--all" | "-l"] => Some("branch"),
        _ => None,
    }
}

/// The pattern of a `grep`, as a regular expression. `None` if it has another meaning there.
fn pattern_of(question: &Question<'_>) -> Option<regex::Regex> {
    let Demand::Matches { pattern, options } = &question.demand else { return None };
    if !options.chars().all(|c| "qsEFiwx".contains(c)) {
        return None;
    }
    let pattern = match (options.contains('F'), options.contains('E')) {
        (true, _) => regex::escape(pattern),
        (_, true) => pattern.clone(),
        // In a basic regular expression, these are the characters themselves.
        _ if pattern.contains('\\') => return None,
        _ => pattern
            .replace('(', "\\(")
            .replace(')', "\\)")
            .replace('+', "\\+")
            .replace('?', "\\?")
            .replace('{', "\\{")
            .replace('|', "\\|"),
    };
    let (head, tail) = match (options.contains('x'), options.contains('w')) {
        (true, _) => ("^(?:", ")$"),
        (_, true) => (r"\b(?:", r")\b"),
        _ => ("(?:", ")"),
    };
    let letters = if options.contains('i') { "(?mi)" } else { "(?m)" };
    regex::Regex::new(&format!("{letters}{head}{pattern}{tail}")).ok()
}

/// `git tag | grep -q v1.4`, where setup makes the tag `v1.4.0` and the prompt asks for `v1.4.1`.
fn listed(view: &TaskView<'_>, said: &str, out: &mut Diagnostics) {
    for question in view.asked() {
        let kind = match (question.runs.as_slice(), &question.form) {
            ([run], Form::Names | Form::Rows | Form::Other) => match lists(run) {
                Some(kind) => kind.to_owned(),
                None => match view.effects.read_by(run).filter(|act| act.thing.name.is_none()) {
                    Some(act) if question.form != Form::Other => act.thing.kind.clone(),
                    _ => continue,
                },
            },
            _ => continue,
        };
        let Demand::Matches { pattern, .. } = &question.demand else { continue };
        if question.is_wanted() != Some(true) || pattern.len() < 3 {
            continue;
        }
        let Some(regex) = pattern_of(question) else { continue };
        let setup = || view.effects.in_phase(PhaseKind::Setup).filter(|act| act.thing.kind == kind);
        let name = |act: &crate::effects::Act| act.thing.name.as_ref().and_then(Value::literal).map(str::to_owned);
        let made = setup()
            .filter(|act| act.verb == Verb::Creates && !act.maybe)
            .find(|act| name(act).is_some_and(|name| regex.is_match(&name)));
        let Some((made, old)) = made.and_then(|act| Some((act, name(act)?))) else { continue };
        let is_gone = setup().any(|act| act.verb == Verb::Deletes && act.span.start > made.span.start);
        // The name that the agent is asked to create.
        let part = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/'));
        let rest = &facts::elsewhere(view).rest;
        let asked = said.split(part).map(|word| word.trim_end_matches('.')).find(|word| {
            *word != old && word.len() > pattern.len() && regex.is_match(word) && !texts::has_word(rest, word)
        });
        if let Some(asked) = asked.filter(|asked| {
            !is_gone
                && !asked.starts_with(old.as_str())
                && orders::is_object(said, asked, &orders::MAKES_AGAIN, &|_| true)
        }) {
            let message = format!("`{pattern}` also matches `{old}`, which setup creates, not only `{asked}`");
            push(view, question.span, made.span, message, out);
        }
    }
}

/// `git show release:totals.py | grep -q 'total('`, where each version of the file from setup has this text.
fn versions(view: &TaskView<'_>, said: &str, out: &mut Diagnostics) {
    let path = |question: &Question<'_>| -> Option<String> {
        let [run] = question.runs.as_slice() else { return None };
        let last = run.words.last()?.shown();
        let shows = run.statement.name() == "git" && run.words.iter().any(|word| word.literal() == Some("show"));
        let (_, path) = last.split_once(':').filter(|_| shows)?;
        Some(path.rsplit('/').next().unwrap_or(path).to_owned()).filter(|file| file.contains('.'))
    };
    let mut asked = view.asked().iter().filter_map(|question| Some((question, path(question)?))).peekable();
    if asked.peek().is_none() || !view.effects.sees(PhaseKind::Setup) {
        return;
    }
    let asked: Vec<(&Question<'_>, String)> = asked.collect();
    let files = already_true::files(view);
    for (question, file) in &asked {
        // Another check of the same file decides.
        if asked.iter().filter(|(_, other)| other == file).count() > 1 || question.is_wanted() != Some(true) {
            continue;
        }
        let Some(regex) = pattern_of(question) else { continue };
        let of_file = |name: &Value| name.shown().rsplit('/').next() == Some(file.as_str());
        let mut same = files.iter().filter(|(name, ..)| of_file(name)).peekable();
        let Some(made) = same.peek().map(|(_, _, made)| *made) else { continue };
        let matches = |text: &Option<String>| text.as_ref().is_some_and(|text| regex.is_match(text));
        let Demand::Matches { pattern, .. } = &question.demand else { continue };
        if same.all(|(_, text, _)| matches(text)) && !texts::has_word(said, pattern) {
            let message = format!("every version of `{file}` that setup writes already has `{pattern}`");
            push(view, question.span, made, message, out);
        }
    }
}

/// `.revision` must be 1, where setup installs the release and the prompt asks to upgrade it.
pub fn revision(view: &TaskView<'_>, out: &mut Diagnostics) {
    let asked = facts::asked(view);
    let mut wanted = asked.iter().filter(|fact| fact.exact && fact.key == "revision").peekable();
    if wanted.peek().is_none() || !UPGRADES.is_match(&view.effects.prompt.shown()) {
        return;
    }
    let made = view.effects.in_phase(PhaseKind::Setup);
    let releases = made.filter(|act| act.thing.system == "helm" && act.verb == Verb::Creates && !act.maybe);
    let made: Vec<_> = releases.collect();
    let Some(last) = made.last().filter(|last| made.iter().all(|act| act.thing == last.thing)) else { return };
    for fact in wanted {
        let is_before = fact.text().parse::<usize>().is_ok_and(|number| number <= made.len());
        if is_before && !crate::lint::resources::elsewhere::out_has(out, fact.span) {
            let message =
                format!("the release has revision {} before the agent runs, and an upgrade adds one", made.len());
            out.push(
                Diagnostic::new(&WRONG_STATE, fact.span, message)
                    .label(last.span, "setup creates it here")
                    .help("require a later revision"),
            );
        }
    }
}

static UPGRADES: Ascii = ascii(r"(?i)\b(?:upgrade|roll(?:ed)? ?back|roll it back|revert|update)\b");
