//! Resources that two tasks use at the same time.

use std::{
    hash::{Hash, Hasher},
    sync::LazyLock,
};

use indexmap::IndexMap;
use regex::Regex;

use crate::{
    builtin,
    diagnostic::{Diagnostic, Diagnostics},
    effects::{self, Act, Verb, value::Piece},
    hir::{OperationKind, PhaseKind},
    lint::{
        TaskView,
        cleanup::selected_deletions::{self, Sweep, Takeable},
    },
    rule,
    source::Span,
};

rule! {
    pub static SAME_RESOURCE_IN_PARALLEL_TASKS = "same-resource-in-parallel-tasks", Warning;
}

/// A resource that a task touches. Names with unknown parts are left out, except as patterns.
#[derive(Clone, Debug)]
pub struct Touch {
    /// Identifies the resource in comparisons.
    key: String,
    /// Description for messages: `the namespace \`shop\``.
    what: String,
    /// Whether the task creates, changes or deletes it, so that no other task can use it at the same time.
    owned: bool,
    /// The key of the resource that contains it. If two tasks share that, this one is not reported as well.
    within: Option<String>,
    /// The prefix of the paths that it comprises or deletes (`rm -rf /tmp/site-*`).
    begins: Option<String>,
    is_glob: bool,
    /// The search, if this is whatever a search finds.
    sweep: Option<Sweep>,
    /// What a search of another task may find. Set once per task.
    takeable: Option<Box<Takeable>>,
    place: Span,
}

impl Touch {
    /// Hashes everything but the location and what searches may find.
    pub fn put_into(&self, hasher: &mut impl Hasher) {
        let Self { key, what, owned, within, begins, is_glob, sweep, takeable, place: _ } = self;
        // The key of the entry that represents the whole task contains its location.
        let key = if takeable.is_none() { key } else { "" };
        (key, what, owned, within, begins, is_glob, format!("{sweep:?}")).hash(hasher);
    }

    /// Whether this is the result of a search.
    pub fn is_found(&self) -> bool {
        self.sweep.is_some()
    }

    /// Hashes what a search of another task may find.
    pub fn hash_takeable(&self, hasher: &mut impl Hasher) {
        format!("{:?}", self.takeable).hash(hasher);
    }
}

/// Reports a parallel task with several runs in which each creates, changes or deletes the same resource. A single
/// process runs them one after another, but workers of a pack at the same time.
pub fn runs(view: &TaskView<'_>, out: &mut Diagnostics) {
    let meta = &view.task.meta;
    let several =
        meta.runs.is_some_and(|runs| runs.value > 1) || meta.gate.as_ref().is_some_and(|gate| gate.value.1 > 1);
    if !meta.parallel || !several {
        return;
    }
    let is_shared = |touch: &&Touch| {
        touch.owned
            && touch.takeable.is_none()
            && touch.sweep.is_none()
            && !touch.is_glob
            && !touch.what.starts_with("the files ")
    };
    if let Some(touch) = touches(view).iter().find(is_shared) {
        out.push(
            Diagnostic::new(
                &SAME_RESOURCE_IN_PARALLEL_TASKS,
                touch.place,
                format!("all runs of this task use {}, and they may run at the same time", touch.what),
            )
            .help("add `{random.id}` to the name, or remove `parallel: true`"),
        );
    }
}

/// The first task that touches a resource, and the first that creates, changes or deletes it.
#[derive(Default)]
struct Touches {
    any: Option<(usize, Span)>,
    owner: Option<(usize, Span)>,
}

/// Reports parallel tasks of which one creates, changes or deletes what the other also touches.
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

/// Maximum number of pairs of a search and a task, which keeps this fast in suites of any size.
const PAIRS: usize = 100_000;

/// Reports deletions of everything that a search finds, which may include resources of other tasks.
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

/// Reports deletions by pattern that may include resources of other tasks.
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

/// Returns what a task touches that may run in parallel with others.
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
        // Two resources created from the same body have the same name. A query may be repeated.
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
    // Only tasks that may run in parallel get here. The first step represents the task.
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
        let takeable = Some(Box::new(selected_deletions::takeable(view)));
        found.push(Touch { takeable, ..plain(format!("task {place:?}")) });
        for (nth, sweep) in selected_deletions::sweeps(view).into_iter().enumerate() {
            let place = sweep.place;
            found.push(Touch { sweep: Some(sweep), place, ..plain(format!("sweep {place:?} {nth}")) });
        }
    }
    found
}

fn of_act(act: &Act, view: &TaskView<'_>, found: &mut Vec<Touch>) {
    let thing = &act.thing;
    let space = thing.space.as_ref().and_then(effects::value::Value::literal);
    // Namespaces that every cluster has do not belong to a task.
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
        // A name with an unknown end is a pattern, or may be one.
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
            // A namespace with a hole differs from task to task.
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
            // The working directory of a script is unknown here. A step names its file
            // relative to the task's directory.
            if !name.starts_with('/') && act.span != act.step || name.starts_with("/dev/") || name.starts_with("/proc/")
            {
                return;
            }
            // `mkdir -p` accepts an existing directory.
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
        // A resource on a server that the task itself starts belongs to the task alone.
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

/// Returns the ports and addresses that a command occupies.
fn in_command(line: &str) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    for pattern in PATTERNS.iter() {
        // A name with an unknown part may refer to different resources.
        let names = pattern.regex.captures_iter(line).map(|c| (pattern.kind, c[1].to_owned()));
        found.extend(names.filter(|(_, name)| !name.contains('…')));
    }
    found
}

struct Pattern {
    kind: &'static str,
    regex: Regex,
}

/// Resources that scripts occupy. A number must end where its word ends, so that it is
/// not part of a number with a hole.
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
