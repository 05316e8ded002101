//! The resource that a check reads: the command that reads it, and what setup and the prompt say about it.

use crate::{
    ascii::{Ascii, ascii},
    effects::{Act, Verb, asked, shell::Run, value::Value},
    hir::{OperationKind, PhaseKind},
    lint::{
        TaskView,
        analysis::{
            facts::{self, Fact},
            texts,
        },
    },
    source::Span,
};

/// The fields that setup gives to the resource that a check reads.
pub enum Owned {
    /// Setup does not create the resource, or changes it in a way that is not followed, or it must not be changed.
    Missing,
    /// These, by commands that name the resource.
    By(Vec<Fact>),
    Unknown,
}

/// The commands of the scripts of a phase.
pub fn runs<'v>(view: &TaskView<'v>, phase: PhaseKind) -> impl Iterator<Item = &'v Run<'v>> {
    let scripts = view.effects.scripts.iter().filter(move |script| script.view.phase == phase);
    scripts.flat_map(|script| &script.trace.runs)
}

/// Whether a command names a resource, in its words or in its input.
pub fn has_name(run: &Run<'_>, name: &str) -> bool {
    run.words.iter().chain(&run.input).any(|word| texts::has_word(&word.shown(), name))
}

/// The place of a command.
pub fn place(run: &Run<'_>) -> Span {
    run.content.span(run.statement.range.clone())
}

/// The words of a command, as far as they are known.
pub fn words(run: &Run<'_>) -> String {
    run.words.iter().map(Value::shown).collect::<Vec<_>>().join(" ")
}

/// The commands whose output is compared at a place: the one that reads the world comes first.
pub fn read_at<'v>(view: &TaskView<'v>, place: Span) -> Vec<&'v Run<'v>> {
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
pub fn read_by<'v>(view: &TaskView<'v>, run: &Run<'_>) -> Option<(&'v Act, &'v str)> {
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

/// Whether an operation of verify reads a Kubernetes resource that setup does not create.
fn is_new(view: &TaskView<'_>, place: Span) -> bool {
    let mut found = None;
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            let contains =
                |outer: Span| outer.file == place.file && outer.start <= place.start && place.end <= outer.end;
            if matches!(step.op.kind, OperationKind::Extension { .. }) && contains(step.span) {
                found = Some(step.key);
            }
        });
    });
    let is_read = |act: &&Act| matches!(act.verb, Verb::Reads | Verb::Awaits) && Some(act.step) == found;
    let mut read = view.effects.in_phase(PhaseKind::Verify).filter(is_read).peekable();
    let is_made = |act: &Act| {
        act.thing.system != "kubernetes"
            || view
                .effects
                .in_phase(PhaseKind::Setup)
                .any(|made| made.verb == Verb::Creates && made.thing.may_be(&act.thing))
    };
    view.effects.sees(PhaseKind::Setup) && read.peek().is_some() && !read.any(is_made)
}

/// The fields that setup gives to the Kubernetes resource that a check reads.
pub fn owned(view: &TaskView<'_>, question: &Fact) -> Owned {
    let runs_at = read_at(view, question.span);
    let Some((act, name)) = runs_at.first().and_then(|run| read_by(view, run)) else {
        return if is_new(view, question.span) { Owned::Missing } else { Owned::Unknown };
    };
    let said = view.effects.prompt.shown();
    if is_forbidden(&said, name) {
        return Owned::Missing;
    }
    if !texts::has_word(&said, name) {
        return Owned::Unknown;
    }
    let scripts = || view.effects.scripts.iter().filter(|script| script.view.phase == PhaseKind::Setup);
    if act.thing.system != "kubernetes" || scripts().any(|script| script.trace.opaque) {
        return Owned::Unknown;
    }
    let mut setup = view.effects.in_phase(PhaseKind::Setup);
    let is_made = setup.any(|made| made.verb == Verb::Creates && made.thing.may_be(&act.thing));
    if !is_made && (view.effects.sees(PhaseKind::Setup) || !mentions(view, &act.thing.kind)) {
        return Owned::Missing;
    }
    // A manifest of the resource says more than the words of the command that applies it.
    let mut found = of_manifests(view, &act.thing.kind, name);
    let is_described = !found.is_empty();
    for run in runs(view, PhaseKind::Setup) {
        let has = |word: &str| run.words.iter().any(|known| known.shown().contains(word));
        let edits = run.statement.name() == "sed" && (has(&question.key) || has(&question.text()));
        let named = has_name(run, name);
        if edits {
            return Owned::Missing;
        }
        if !named {
            continue;
        }
        let known = found.len();
        if !is_described || run.input.is_none() {
            facts::in_run(run, place(run), &mut found);
        }
        let verb =
            |words: &[&str]| run.words.iter().take(4).filter_map(Value::literal).any(|word| words.contains(&word));
        let changes = verb(&["set", "edit", "replace", "undo"])
            || verb(&["patch"]) && has(&question.key)
            || verb(&["autoscale"]) && question.key == "replicas";
        if changes && !found.get(known..).unwrap_or_default().iter().any(|fact| facts::alike(&fact.key, &question.key))
        {
            return Owned::Missing;
        }
    }
    found.retain(|fact| facts::alike(&fact.key, &question.key));
    Owned::By(found)
}

/// The fields of a resource in the manifests that setup applies.
fn of_manifests(view: &TaskView<'_>, kind: &str, name: &str) -> Vec<Fact> {
    let mut found = Vec::new();
    for (text, span) in facts::manifests(view) {
        for document in text.split("\n---").filter(|document| document.contains(name)) {
            let is_kind = KIND.captures(document).and_then(|kind| Some(kind.get(1)?.as_str().to_lowercase()));
            let own = NAMED.captures(document);
            let own = own.as_ref().and_then(|own| own.get(1).or_else(|| own.get(2)));
            if is_kind.as_deref() == Some(kind) && own.is_some_and(|own| own.as_str() == name) {
                found.extend(facts::lines(document, *span));
            }
        }
    }
    found
}

static KIND: Ascii = ascii(r"(?m)^kind:\s*(\w+)");
static NAMED: Ascii = ascii(
    r#"(?m)^metadata:(?:\s*\{[^}\n]*?\bname:\s*["']?([\w.-]+)|\s*\n(?:[ \t]+.*\n)*?[ \t]+name:\s*["']?([\w.-]+))"#,
);

/// The name of the element whose `value` is compared.
pub fn selected(view: &TaskView<'_>, fact: &Fact) -> Option<String> {
    let runs = read_at(view, fact.span);
    runs.iter().find_map(|run| Some(SELECTED.captures(&words(run))?.get(1)?.as_str().to_owned()))
}

/// Whether a prompt forbids changes of `name`, and asks for none elsewhere.
pub fn is_forbidden(said: &str, name: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
    let mut forbidden = false;
    for (at, _) in said.match_indices(name) {
        let (before, behind) = (&said[..at], &said[at + name.len()..]);
        let is_end = behind.strip_prefix('.').unwrap_or(behind).chars().next().is_none_or(|c| !part(c));
        if before.ends_with(part) || !is_end {
            continue;
        }
        let sentence = texts::sentence(said, at);
        let head = before.get(sentence.start..).unwrap_or_default();
        let tail = said.get(at + name.len()..sentence.end).unwrap_or_default();
        let tail = tail.trim_start_matches(['`', '"', '\'']);
        if (DONT.is_match(head) && !tail.starts_with('\'')
            || LEAVE.is_match(head) && ALONE.is_match(tail)
            || STAYS.is_match(tail))
            && !EXCEPT.is_match(&said[sentence.clone()])
        {
            forbidden = true;
        } else if !FROM.is_match(head) {
            return false;
        }
    }
    forbidden
}

/// The name of an element that a filter selects: `select(.name == "X") | .value`, `[?(@.name=="X")].value`.
static SELECTED: Ascii = ascii(r#"\.name\s*==\s*["']([\w.-]+)["']\)\]?\s*\|?\s*\.value\b"#);
static DONT: Ascii = ascii(
    r"(?i)\b(?:do not|don't|must not|never)\s+(?:change|touch|modify|alter|edit|update)\s+(?:the\s+)?(?:existing\s+)?(?:[a-z]+\s+){0,2}[`\x22']*$",
);
static LEAVE: Ascii = ascii(r"(?i)\b(?:leave|keep)\s+(?:the\s+)?(?:[a-z]+\s+){0,2}[`\x22']*$");
static ALONE: Ascii = ascii(r"(?i)^\s+(?:alone|untouched|unchanged|intact|as (?:it|they) (?:is|are))\b");
static STAYS: Ascii = ascii(
    r"(?i)^\s+(?:must|should) (?:stay|remain) (?:unchanged|untouched|as it is)\b|^\s+must not be (?:changed|touched|modified)\b",
);
pub static EXCEPT: Ascii = ascii(r"(?i)\b(?:except|other than|apart from|otherwise|yet|until|unless|besides|beyond)\b");
static FROM: Ascii = ascii(r"(?i)\b(?:from|like|than|of|for|off|as)\s+(?:the\s+)?(?:[a-z]+\s+)?[`\x22']*$");
