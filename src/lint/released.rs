//! What setup creates and cleanup does not delete (author mistake 3).

use super::TaskView;
use crate::{
    diagnostic::{Diagnostic, Diagnostics},
    effects::{Thing, value::Value},
    rule,
};

rule! {
    pub static RESOURCE_NOT_RELEASED = "resource-not-released", Warning;
}

/// Requires that the names of what setup creates and all effects of cleanup are known.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    let mut told: Vec<String> = Vec::new();
    for act in view.effects.left_behind(view.task, view.tools).unwrap_or_default() {
        let thing = &act.thing;
        let shown = thing.name.as_ref().map(Value::shown).unwrap_or_default();
        if told.contains(&shown) {
            continue;
        }
        let kind = if thing.system == "http" { "resource" } else { thing.kind.as_str() };
        let mut finding =
            Diagnostic::new(&RESOURCE_NOT_RELEASED, act.span, format!("the {kind} `{shown}` is never deleted"));
        if let Some(help) = command(thing, &shown) {
            finding = finding.help(format!("add to cleanup: `{help}`"));
        }
        out.push(finding);
        told.push(shown);
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
