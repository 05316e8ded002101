//! What set-up makes and cleanup leaves behind (author mistake 3).

use super::{TaskView, texts};
use crate::{
    diagnostic::{Diagnostic, Diagnostics},
    effects::{Act, Thing, Verb, value::Value},
    hir::PhaseKind,
    rule,
};

rule! {
    pub static RESOURCE_NOT_RELEASED = "resource-not-released", Warning;
}

/// Needs: what set-up makes has a name that is known, and all that cleanup does is known.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    let model = view.effects;
    let made: Vec<&Act> = model.in_phase(PhaseKind::Setup).filter(|act| makes(act, view)).collect();
    if made.is_empty() || !model.sees(PhaseKind::Cleanup) || sweeps(view) {
        return;
    }
    let deleted: Vec<&Thing> = model
        .acts
        .iter()
        .filter(|act| act.verb == Verb::Deletes && act.phase != PhaseKind::Setup)
        .map(|act| &act.thing)
        .collect();
    let mut told: Vec<String> = Vec::new();
    for act in &made {
        let thing = &act.thing;
        let within = |outer: &&&Act| {
            outer.thing.kind == "namespace"
                && outer.thing.name.as_ref().zip(thing.space.as_ref()).is_some_and(|(name, space)| name.may_be(space))
        };
        // What lies in something that set-up makes goes with it.
        let is_inner = thing.system != "file" && made.iter().any(|outer| within(&outer))
            || thing.system == "file"
                && made.iter().any(|outer| {
                    !std::ptr::eq(*outer, *act) && outer.thing.system == "file" && lies_in(thing, &outer.thing)
                })
            || thing.system == "http"
                && made.iter().any(|outer| {
                    !std::ptr::eq(*outer, *act) && outer.thing.system == "http" && lies_in(thing, &outer.thing)
                });
        // A database goes with what holds it.
        let is_inner = is_inner
            || matches!(thing.system.as_str(), "postgres" | "mysql")
                && (made.iter().any(|outer| outer.thing.system == "docker" || outer.thing.system == "kubernetes")
                    || thing.kind != "database"
                        && deleted.iter().any(|gone| {
                            gone.system == thing.system && matches!(gone.kind.as_str(), "database" | "schema")
                        }));
        let shown = thing.name.as_ref().map(Value::shown).unwrap_or_default();
        if is_inner || deleted.iter().any(|gone| goes_with(thing, gone)) || told.contains(&shown) {
            continue;
        }
        let kind = if thing.system == "http" { "resource" } else { thing.kind.as_str() };
        let mut finding =
            Diagnostic::new(&RESOURCE_NOT_RELEASED, act.span, format!("nothing deletes the {kind} `{shown}`"));
        if let Some(help) = command(thing, &shown) {
            finding = finding.help(format!("add to cleanup: `{help}`"));
        }
        out.push(finding);
        told.push(shown);
    }
}

/// Whether something is made that stays, under a name that is known.
fn makes(act: &Act, view: &TaskView<'_>) -> bool {
    let thing = &act.thing;
    let Some(name) =
        thing.name.as_ref().filter(|name| act.verb == Verb::Creates && name.is_known() && !name.shown().contains('$'))
    else {
        return false;
    };
    match thing.system.as_str() {
        // What stays in the folder of the task, and what a script cleans up by itself, is no leak.
        "file" => {
            let shown = name.shown();
            let absolute = shown.starts_with("/tmp/") || shown.starts_with("/var/tmp/");
            absolute && !traps(view)
        }
        // What a POST makes has a name that only the server knows.
        "http" => is_put(act, view),
        "kubernetes" => !matches!(thing.kind.as_str(), "event" | "token"),
        "helm" | "docker" | "kind" => !thing.kind.is_empty(),
        "postgres" | "mysql" => {
            matches!(thing.kind.as_str(), "table" | "database" | "schema" | "role" | "user" | "view")
        }
        "git" => false,
        // What lies behind a server of a task may end with it; where cleanup deletes such things, it deletes them all.
        system => {
            view.tools.releases(system, &thing.kind)
                || view
                    .effects
                    .in_phase(PhaseKind::Cleanup)
                    .any(|act| act.verb == Verb::Deletes && act.thing.system == system)
        }
    }
}

/// A PUT says itself what the thing is called.
pub(super) fn is_put(act: &Act, view: &TaskView<'_>) -> bool {
    let mut found = false;
    view.task.walk(&mut |_, step| {
        found |= step.key == act.step
            && step
                .arg("method")
                .and_then(|method| method.as_literal())
                .is_some_and(|method| method.eq_ignore_ascii_case("PUT"));
    });
    found
}

fn traps(view: &TaskView<'_>) -> bool {
    view.scripts.iter().any(|script| {
        script.phase != PhaseKind::Verify
            && script.content.text.contains("trap ")
            && script.content.text.contains("rm ")
    })
}

/// Whether cleanup may delete anything by a label, a list or a name that is filled in.
pub(super) fn sweeps(view: &TaskView<'_>) -> bool {
    view.scripts.iter().filter(|script| script.phase == PhaseKind::Cleanup).any(|script| {
        script.content.program.commands().into_iter().any(|command| {
            let has = |word: &str| command.words().iter().any(|w| texts::has_word(&w.text, word));
            match command.tool() {
                "docker" => has("prune") || has("compose"),
                "docker-compose" | "make" | "xargs" | "eval" => true,
                "kind" => has("clusters"),
                "kubectl" => has("all") && has("delete"),
                _ => false,
            }
        })
    })
}

/// Whether a thing is gone when another is deleted.
pub(super) fn goes_with(thing: &Thing, gone: &Thing) -> bool {
    let same = thing.system == gone.system || thing.system == "helm" && gone.system == "kubernetes";
    if !same {
        return false;
    }
    if gone.system == "file" || gone.system == "http" {
        return lies_in(thing, gone)
            || thing.name == gone.name
            || gone.name.as_ref().is_some_and(|name| !name.is_known());
    }
    let outer = gone.kind == "namespace"
        && thing.space.as_ref().zip(gone.name.as_ref()).is_some_and(|(space, name)| space.may_be(name));
    outer || thing.system == gone.system && thing.may_be(gone)
}

/// Whether the path of one begins with that of the other.
fn lies_in(inner: &Thing, outer: &Thing) -> bool {
    let path = |thing: &Thing| thing.name.as_ref().map(|name| name.shown().trim_end_matches(['/', '*']).to_owned());
    match (path(inner), path(outer)) {
        (Some(inner), Some(outer)) => inner == outer || inner.starts_with(&format!("{outer}/")),
        _ => true,
    }
}

pub(super) fn command(thing: &Thing, shown: &str) -> Option<String> {
    let place = thing.space.as_ref().map_or_else(String::new, |space| format!(" -n {}", space.shown()));
    Some(match (thing.system.as_str(), thing.kind.as_str()) {
        ("kubernetes", kind) => format!("kubectl delete {kind} {shown}{place} --ignore-not-found"),
        ("helm", _) => format!("helm uninstall {shown}{} --ignore-not-found", place.replace(" -n ", " --namespace ")),
        ("docker", "container") => format!("docker rm -f {shown}"),
        ("docker", kind) => format!("docker {kind} rm {shown}"),
        ("kind", _) => format!("kind delete cluster --name {shown}"),
        ("file", _) => format!("rm -rf {shown}"),
        ("postgres", "database") => format!("dropdb --if-exists {shown}"),
        ("postgres", kind) => format!("psql -c 'DROP {} IF EXISTS {shown}'", kind.to_uppercase()),
        _ => return None,
    })
}
