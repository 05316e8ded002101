//! What setup creates and cleanup does not delete (author mistake 3).

use crate::{
    diagnostic::{Diagnostic, Diagnostics},
    effects::{Thing, Verb, curl, shell::Run, value::Value},
    hir::PhaseKind,
    lint::{TaskView, analysis::checked_resource},
    rule,
};

rule! {
    pub static RESOURCE_NOT_RELEASED = "resource-not-released", Warning;
}

/// Requires that the names of what setup creates and all effects of cleanup are known.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    only_read(view, out);
    by_helm(view, out);
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

/// `helm install --create-namespace -n demo` in setup, and cleanup only uninstalls the release.
fn by_helm(view: &TaskView<'_>, out: &mut Diagnostics) {
    let model = view.effects;
    if !model.sees(PhaseKind::Cleanup) || view.task.cleanup.steps.is_empty() {
        return;
    }
    for run in checked_resource::runs(view, PhaseKind::Setup).filter(|run| run.statement.tool() == "helm") {
        let words: Vec<&str> = run.words.iter().map(|word| word.literal().unwrap_or_default()).collect();
        let behind = words.iter().position(|word| matches!(*word, "-n" | "--namespace"));
        let (true, Some(name)) = (words.contains(&"--create-namespace"), behind.and_then(|at| run.words.get(at + 1)))
        else {
            continue;
        };
        let is_it = |act: &&crate::effects::Act| {
            act.thing.kind == "namespace" && act.thing.name.as_ref().is_none_or(|other| other.may_be(name))
        };
        let gone = model.in_phase(PhaseKind::Cleanup).any(|act| act.verb == Verb::Deletes && is_it(&act));
        let made = model.acts.iter().any(|act| act.verb == Verb::Creates && is_it(&act));
        if !gone && !made && name.is_known() {
            let shown = name.shown();
            out.push(
                Diagnostic::new(
                    &RESOURCE_NOT_RELEASED,
                    checked_resource::place(run),
                    format!("the namespace `{shown}` is never deleted"),
                )
                .help(format!("add to cleanup: `kubectl delete namespace {shown} --ignore-not-found`")),
            );
            return;
        }
    }
}

/// Setup sends `POST …/tickets`, and all that cleanup sends is `GET …/tickets/7`: `-X DELETE` is missing.
fn only_read(view: &TaskView<'_>, out: &mut Diagnostics) {
    let requests = |phase| {
        let runs = checked_resource::runs(view, phase).filter(|run| run.statement.name() == "curl");
        runs.filter_map(|run| Some((run, curl::sent(&run.words)?))).collect::<Vec<_>>()
    };
    let cleanup = requests(PhaseKind::Cleanup);
    if cleanup.is_empty() || cleanup.iter().any(|(_, sent)| sent.method != "GET") {
        return;
    }
    let made = requests(PhaseKind::Setup).into_iter().filter(|(_, sent)| sent.method == "POST");
    for (post, made) in made {
        let url = made.url.shown();
        let below = |sent: &curl::Sent| sent.url.shown().strip_prefix(&url).is_some_and(|rest| rest.starts_with('/'));
        // Its output may be the list of what another program deletes.
        let is_last =
            |run: &Run<'_>| run.content.program.commands().iter().all(|c| !matches!(c.name(), "xargs" | "jq"));
        if let Some((read, _)) = cleanup.iter().find(|(run, sent)| below(sent) && is_last(run)) {
            out.push(
                Diagnostic::new(
                    &RESOURCE_NOT_RELEASED,
                    checked_resource::place(read),
                    "this only reads what setup created",
                )
                .label(checked_resource::place(post), "created here")
                .help("delete it: `-X DELETE`"),
            );
            return;
        }
    }
}

pub fn command(thing: &Thing, shown: &str) -> Option<String> {
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
