//! Things that two tasks touch at the same time.

use std::{
    hash::{Hash, Hasher},
    sync::LazyLock,
};

use indexmap::IndexMap;
use regex::Regex;

use super::{
    TaskView,
    sweeps::{self, Sweep, Takeable},
};
use crate::{
    builtin,
    diagnostic::{Diagnostic, Diagnostics},
    effects::{self, Act, Verb, value::Piece},
    hir::{OperationKind, PhaseKind},
    rule,
    source::Span,
};

rule! {
    pub static SAME_RESOURCE_IN_PARALLEL_TASKS = "same-resource-in-parallel-tasks", Warning;
}

/// Something that a task touches; only what is written out whole.
#[derive(Clone, Debug)]
pub struct Touch {
    /// What it is, for comparison.
    key: String,
    /// For people: `the namespace \`shop\``.
    what: String,
    /// Whether the task makes it, changes it or deletes it: then nobody else can use it meanwhile.
    owned: bool,
    /// The key of what it lies in: where two tasks share that, no more has to be said.
    within: Option<String>,
    /// How paths begin that it is, or that it takes with it (`rm -rf /tmp/site-*`).
    begins: Option<String>,
    is_glob: bool,
    /// It is whatever a search finds.
    sweep: Option<Sweep>,
    /// What a search of another task may find; once a task.
    takeable: Option<Box<Takeable>>,
    place: Span,
}

impl Touch {
    /// All of it but where it is, and what searches may find of it.
    pub fn put_into(&self, hasher: &mut impl Hasher) {
        let Self { key, what, owned, within, begins, is_glob, sweep, takeable, place: _ } = self;
        // What stands for the task as a whole is called by its place.
        let key = if takeable.is_none() { key } else { "" };
        (key, what, owned, within, begins, is_glob, format!("{sweep:?}")).hash(hasher);
    }

    /// Whether it is what a search finds.
    pub fn is_found(&self) -> bool {
        self.sweep.is_some()
    }

    /// What a search of another task may find.
    pub fn hash_takeable(&self, hasher: &mut impl Hasher) {
        format!("{:?}", self.takeable).hash(hasher);
    }
}

/// Who touches a thing first, and who is the first to make or delete it.
#[derive(Default)]
struct Touches {
    any: Option<(usize, Span)>,
    owner: Option<(usize, Span)>,
}

/// Parallel tasks of which one makes or deletes what the other touches, too.
pub fn between(tasks: &[&[Touch]], out: &mut Diagnostics) {
    let mut known: IndexMap<&str, Touches> = IndexMap::new();
    for (index, touches) in tasks.iter().enumerate() {
        let mut told: Vec<&str> = Vec::new();
        for touch in *touches {
            let before = known.entry(&touch.key).or_default();
            let other = if touch.owned { before.any } else { before.owner }.filter(|(task, _)| *task != index);
            let is_told = |key: &str| told.contains(&key);
            let shared = touch.within.as_deref().is_some_and(is_told);
            if let Some((_, place)) = other.filter(|_| !is_told(&touch.key) && !shared) {
                out.push(
                    Diagnostic::new(
                        &SAME_RESOURCE_IN_PARALLEL_TASKS,
                        touch.place,
                        format!("{} is also used by another task that may run at the same time", touch.what),
                    )
                    .label(place, "there")
                    .help("add `{random.id}` to the name, or remove `parallel: true` from one of the tasks"),
                );
                told.push(&touch.key);
            }
            before.any.get_or_insert((index, touch.place));
            if touch.owned {
                before.owner.get_or_insert((index, touch.place));
            }
        }
    }
    globs(tasks, out);
    swept(tasks, out);
}

/// How many pairs of a search and a task are looked at: in a suite of any size this takes no time.
const PAIRS: usize = 100_000;

/// A deletion of all that a search finds takes what others make.
fn swept(tasks: &[&[Touch]], out: &mut Diagnostics) {
    let all = || tasks.iter().enumerate().flat_map(|(index, touches)| touches.iter().map(move |touch| (index, touch)));
    let searches: Vec<(usize, &Sweep, Span)> =
        all().filter_map(|(index, touch)| Some((index, touch.sweep.as_ref()?, touch.place))).collect();
    if searches.is_empty() {
        return;
    }
    let takeable: Vec<(usize, &Takeable, Span)> =
        all().filter_map(|(index, touch)| Some((index, touch.takeable.as_deref()?, touch.place))).collect();
    let mut left = PAIRS;
    for (index, sweep, place) in searches {
        let mut others = takeable.iter().filter(|(other, ..)| *other != index).take(left);
        let taken = others.find_map(|(_, takeable, place)| {
            left -= 1;
            Some((sweep.takes(takeable)?, *place))
        });
        if let Some((what, other)) = taken {
            out.push(
                Diagnostic::new(
                    &SAME_RESOURCE_IN_PARALLEL_TASKS,
                    place,
                    format!("this also deletes {what} of another task that may run at the same time"),
                )
                .label(other, "the other task")
                .help("delete only what this task creates, by name or by a label that is unique to this task"),
            );
        }
    }
}

/// A deletion by a pattern takes what others make.
fn globs(tasks: &[&[Touch]], out: &mut Diagnostics) {
    let all = || tasks.iter().enumerate().flat_map(|(index, touches)| touches.iter().map(move |touch| (index, touch)));
    for (index, glob) in all().filter(|(_, touch)| touch.is_glob) {
        let prefix = glob.begins.as_deref().unwrap_or_default();
        let taken = |(other, touch): &(usize, &Touch)| {
            *other != index
                && prefix.len() > 5
                && !touch.is_glob
                && touch.begins.as_deref().is_some_and(|begins| begins.starts_with(prefix))
        };
        if let Some((_, other)) = all().find(taken) {
            out.push(
                Diagnostic::new(
                    &SAME_RESOURCE_IN_PARALLEL_TASKS,
                    glob.place,
                    format!("`{prefix}*` also matches what another task creates, which may run at the same time"),
                )
                .label(other.place, "there")
                .help("delete only the directory of this task"),
            );
        }
    }
}

/// What a task touches that runs beside others.
pub fn touches(view: &TaskView<'_>) -> Vec<Touch> {
    let mut found = Vec::new();
    for act in &view.effects.acts {
        of_act(act, view, &mut found);
    }
    for script in &view.effects.scripts {
        for run in &script.trace.runs {
            let line: Vec<String> = run.words.iter().map(effects::value::Value::shown).collect();
            let input = run.input.as_ref().map(effects::value::Value::shown).filter(|text| text.contains("nodePort"));
            let line = format!("{} {}", line.join(" "), input.unwrap_or_default());
            for (kind, name) in in_command(&line) {
                let what = format!("the {kind} `{name}`");
                found.push(Touch {
                    key: what.clone(),
                    what,
                    owned: true,
                    within: None,
                    begins: None,
                    is_glob: false,
                    sweep: None,
                    takeable: None,
                    place: script.view.step.key,
                });
            }
        }
    }
    view.task.walk(&mut |phase, step| {
        let is_post = matches!(step.op.kind, OperationKind::Builtin("http"))
            && step
                .arg("method")
                .and_then(|method| method.as_literal())
                .is_some_and(|m| m.eq_ignore_ascii_case("post"));
        // What is made from one body twice has one name. A question may be asked twice.
        if let (true, PhaseKind::Setup, Some(url)) = (is_post, phase, step.arg("url").and_then(|url| url.as_literal()))
            && let Some(body) = step.arg("body").and_then(crate::hir::Arg::as_value)
        {
            let what = format!("the request `POST {url}` ({})", builtin::excerpt(&body.to_string()));
            found.push(Touch {
                key: what.clone(),
                what,
                owned: true,
                within: None,
                begins: None,
                is_glob: false,
                sweep: None,
                takeable: None,
                place: step.key,
            });
        }
    });
    // Only a task that stands beside others is asked: the first step stands for it.
    if let Some(place) = view.task.setup.steps.first().or(view.task.verify.steps.first()).map(|step| step.key) {
        let plain = |key: String| Touch {
            key,
            what: String::new(),
            owned: false,
            within: None,
            begins: None,
            is_glob: false,
            sweep: None,
            takeable: None,
            place,
        };
        let takeable = Some(Box::new(sweeps::takeable(view)));
        found.push(Touch { takeable, ..plain(format!("task {place:?}")) });
        for (nth, sweep) in sweeps::sweeps(view).into_iter().enumerate() {
            let place = sweep.place;
            found.push(Touch { sweep: Some(sweep), place, ..plain(format!("sweep {place:?} {nth}")) });
        }
    }
    found
}

fn of_act(act: &Act, view: &TaskView<'_>, found: &mut Vec<Touch>) {
    let thing = &act.thing;
    let space = thing.space.as_ref().and_then(effects::value::Value::literal);
    // What every cluster has is nobody's.
    let is_given = |name: &str| name == "default" || name.starts_with("kube-");
    let namespace = |name: &str| format!("kubernetes namespace {name}");
    if let Some(space) = space.filter(|space| !is_given(space)) {
        let what = format!("the namespace `{space}`");
        found.push(Touch {
            key: namespace(space),
            what,
            owned: false,
            within: None,
            begins: None,
            is_glob: false,
            sweep: None,
            takeable: None,
            place: act.step,
        });
    }
    if thing.system == "file"
        && let Some(name) = &thing.name
        && name.literal().is_none_or(|name| name.ends_with('*'))
    {
        let begins = match name.pieces().first() {
            Some(Piece::Text(text)) => text.trim_end_matches('*').to_owned(),
            _ => return,
        };
        // A name that ends in what is not known is a pattern, or may be one.
        let open =
            matches!(name.pieces().last(), Some(Piece::Printed(_) | Piece::Unknown)) || name.shown().ends_with('*');
        let what = format!("the files `{}`", name.shown());
        let key = format!("{what} {:?}", act.step);
        let is_glob = open && act.verb == Verb::Deletes;
        let (owned, begins) = (act.verb != Verb::Reads, Some(begins));
        found.push(Touch {
            key,
            what,
            owned,
            within: None,
            begins,
            is_glob,
            sweep: None,
            takeable: None,
            place: act.step,
        });
        return;
    }
    let Some(name) = thing.name.as_ref().and_then(effects::value::Value::literal).filter(|name| !name.is_empty())
    else {
        return;
    };
    let mut owned = act.verb != Verb::Reads && act.verb != Verb::Awaits;
    let (key, what, within) = match thing.system.as_str() {
        "kubernetes" if thing.kind == "namespace" && is_given(name) => return,
        "kubernetes" if thing.kind == "namespace" => (namespace(name), format!("the namespace `{name}`"), None),
        "kubernetes" => {
            // A namespace that is filled in is another for each task.
            if thing.space.is_some() && space.is_none() {
                return;
            }
            let place = space.map_or_else(String::new, |space| format!(" in `{space}`"));
            (
                format!("kubernetes {} {name}{place}", thing.kind),
                format!("the {} `{name}`{place}", thing.kind),
                space.map(namespace),
            )
        }
        "file" => {
            // Where a script runs is not known here; a step names its file from the folder of the task.
            if !name.starts_with('/') && act.span != act.step || name.starts_with("/dev/") || name.starts_with("/proc/")
            {
                return;
            }
            // `mkdir -p` takes a folder that is there.
            owned &= !(thing.kind == "folder" && act.lenient);
            let path = name.trim_end_matches('/');
            let kind = if thing.kind == "file" && act.verb != Verb::Deletes { "file" } else { "folder" };
            let kind = if std::path::Path::new(path).extension().is_some() { "file" } else { kind };
            (format!("file {path}"), format!("the {kind} `{path}`"), None)
        }
        "http"
            if matches!(act.verb, Verb::Deletes | Verb::Changes) || crate::effects::changes::is_put(act, view.task) =>
        {
            (format!("the URL `{name}`"), format!("the URL `{name}`"), None)
        }
        "http" => return,
        // What a server of its own holds is a task's own.
        system => {
            if thing.space.is_some() && space.is_none() {
                return;
            }
            let place = space.unwrap_or_default();
            (format!("{system} {} {name} {place}", thing.kind), format!("the {} `{name}`", thing.kind), None)
        }
    };
    let begins = (thing.system == "file").then(|| name.to_owned());
    found.push(Touch {
        key,
        what,
        owned,
        within,
        begins,
        is_glob: false,
        sweep: None,
        takeable: None,
        place: act.step,
    });
}

/// Ports and addresses that a command takes for itself.
fn in_command(line: &str) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    for pattern in PATTERNS.iter() {
        // What ends in something that is not known may be two things.
        let names = pattern.regex.captures_iter(line).map(|c| (pattern.kind, c[1].to_owned()));
        found.extend(names.filter(|(_, name)| !name.contains('…')));
    }
    found
}

struct Pattern {
    kind: &'static str,
    regex: Regex,
}

/// What scripts take. A number ends where its word ends, so that none is half of one that is filled in.
static PATTERNS: LazyLock<Vec<Pattern>> = LazyLock::new(|| {
    const END: &str = r#"(?:["'\s;|&)]|$)"#;
    let patterns = [
        ("port", r#"\bport-forward\b[^\n;|&]*?\s["']?(\d{2,5}):\d{2,5}"#),
        ("port", r#"\b(?:docker|podman)\s+run\b[^\n;|&]*?\s(?:-p|--publish)[ =]["']?(?:[\d.]+:)?(\d{2,5}):\d{2,5}"#),
        ("port", r#"\bhttp\.server\s+(\d{2,5})"#),
        ("port of the nodes", r#"(?:--node-port[ =]|\bnodePort:\s*)(\d{5})"#),
        ("port", r#"\b(?:nc|ncat|netcat)\s+(?:-[a-z]+\s+)*-[a-z]*l[a-z]*\s+(?:-p\s+)?(\d{2,5})"#),
        (
            "URL",
            r#"\bcurl\b[^\n;|&]*?\s(?:-X|--request)[ =]?["']?(?:PUT|PATCH|DELETE)\b[^\n;|&]*?\s["']?(https?://[^\s"'{}$&|;]+)"#,
        ),
    ];
    let whole = |(kind, p): (_, &str)| Some(Pattern { kind, regex: Regex::new(&format!("{p}{END}")).ok()? });
    patterns.into_iter().filter_map(whole).collect()
});

#[cfg(test)]
mod tests {
    use super::{PATTERNS, in_command};

    #[test]
    fn only_complete_numbers_match() {
        assert_eq!(PATTERNS.len(), 6, "every pattern compiles");
        let found = |text: &str| {
            in_command(text)
                .into_iter()
                .map(|(kind, name)| format!("the {kind} `{name}`"))
                .collect::<Vec<_>>()
                .join(", ")
        };
        for (text, what) in [
            ("kubectl port-forward svc/web 8080:80 &", "the port `8080`"),
            ("docker run -d -p 127.0.0.1:8080:80 nginx", "the port `8080`"),
            ("docker run -d --name db -p 5432:5432 postgres:16", "the port `5432`"),
            ("python3 -m http.server 8000", "the port `8000`"),
            ("nc -l -p 9000", "the port `9000`"),
            ("curl -s -X PUT https://x/a -d 1", "the URL `https://x/a`"),
            ("kubectl port-forward svc/web :80", ""),
            ("docker run -p {random.port}:80 nginx", ""),
            ("curl -s -X PUT https://x/$A", ""),
        ] {
            assert_eq!(found(text), what, "{text}");
        }
    }
}
