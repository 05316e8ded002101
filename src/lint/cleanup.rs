//! Cleanup that does not clear away: in the wrong order, by half, or not what the agent makes.

use super::{TaskView, already_true, released};
use crate::{
    bash::tools,
    diagnostic::{Diagnostic, Diagnostics},
    effects::{Act, Verb, shell::Run, value::Value},
    hir::PhaseKind,
    source::Span,
};

/// Things that cannot be deleted while others use them: the system, the kind, and the kinds that hold it.
const HELD: [(&str, &str, &[&str]); 6] = [
    ("docker", "network", &["container"]),
    ("docker", "volume", &["container"]),
    ("postgres", "role", &["database", "schema", "table"]),
    ("postgres", "user", &["database", "schema", "table"]),
    ("aws", "role", &["function"]),
    ("gcloud", "network", &["instance", "firewall rule"]),
];

/// All of `resource-not-released`.
pub fn released(view: &TaskView<'_>, out: &mut Diagnostics) {
    released::check(view, out);
    order(view, out);
    halves(view, out);
    buckets(view, out);
    made_by_agent(view, out);
}

fn cleanup<'a>(view: &'a TaskView<'_>) -> impl Iterator<Item = &'a Act> {
    let model: &'a crate::effects::Model<'_> = view.effects;
    model.acts.iter().filter(|act| act.phase == PhaseKind::Cleanup)
}

/// `docker network rm` before the `docker rm` of what is in it.
fn order(view: &TaskView<'_>, out: &mut Diagnostics) {
    let acts: Vec<&Act> = cleanup(view).filter(|act| act.verb == Verb::Deletes).collect();
    for (system, kind, holders) in HELD {
        let of = |act: &&&Act, kinds: &[&str]| act.thing.system == system && kinds.contains(&act.thing.kind.as_str());
        let Some(at) = acts.iter().position(|act| of(&act, &[kind])) else { continue };
        let before = acts[..at].iter().any(|act| of(&act, holders));
        let Some(after) = acts[at..].iter().find(|act| of(act, holders)).filter(|_| !before) else { continue };
        // A second try behind it finds it free.
        let again = acts.iter().filter(|act| of(act, &[kind]) && act.thing.is(&acts[at].thing)).count() > 1;
        if !again {
            out.push(
                Diagnostic::new(
                    &released::RESOURCE_NOT_RELEASED,
                    acts[at].span,
                    format!(
                        "the {kind} cannot be deleted yet: the {} that may use it is deleted behind it",
                        after.thing.kind
                    ),
                )
                .label(after.span, "deleted here")
                .help("change the order"),
            );
        }
    }
}

/// `docker stop`, and nothing that removes.
fn halves(view: &TaskView<'_>, out: &mut Diagnostics) {
    let scripts = || view.scripts.iter().filter(|script| script.phase == PhaseKind::Cleanup);
    if !scripts().any(|script| script.content.text.contains("stop") || script.content.text.contains("kill")) {
        return;
    }
    let said = view.effects.prompt.shown();
    if said.contains("--rm") || view.scripts.iter().any(|script| script.content.text.contains("--rm")) {
        return;
    }
    let mut stops: Option<(Span, &str)> = None;
    let mut removes = false;
    for script in scripts() {
        script.content.program.walk(&mut |s| {
            let words: Vec<&str> = s.words().iter().map(|word| word.text.as_str()).collect();
            let Some(at) =
                words.iter().position(|word| matches!(tools::canonical(word), "docker" | "virtctl" | "docker-compose"))
            else {
                return;
            };
            let has = |all: &[&str]| words[at..].iter().any(|word| all.contains(word));
            removes |= has(&["rm", "prune", "down", "remove", "delete"]);
            if has(&["stop", "kill"]) && !has(&["compose"]) && words[at] != "virtctl" {
                stops.get_or_insert((script.content.span(s.range.clone()), "container"));
            }
        });
        removes |= script.content.text.contains("delete") || !script.content.program.sound;
    }
    // What the task did not make it may stop and start.
    let is_theirs = view.effects.in_phase(PhaseKind::Cleanup).any(|act| act.verb == Verb::Creates)
        || scripts().any(|script| script.content.text.contains("docker start"));
    if let Some((span, kind)) = stops.filter(|_| !removes && !is_theirs) {
        out.push(
            Diagnostic::new(
                &released::RESOURCE_NOT_RELEASED,
                span,
                format!("a {kind} that is stopped is still there, with its name"),
            )
            .help("remove it: `docker rm -f NAME`"),
        );
    }
}

/// A bucket is only deleted when it is empty, and `--force` does not delete versions.
fn buckets(view: &TaskView<'_>, out: &mut Diagnostics) {
    if !view.scripts.iter().any(|script| script.phase == PhaseKind::Cleanup && script.content.text.contains("aws")) {
        return;
    }
    let runs = |phase: PhaseKind| {
        view.effects
            .scripts
            .iter()
            .filter(move |script| script.view.phase == phase)
            .flat_map(|script| &script.trace.runs)
    };
    let has = |run: &Run<'_>, words: &[&str]| {
        words.iter().all(|word| run.words.iter().any(|known| known.literal() == Some(word)))
    };
    let is_aws = |run: &Run<'_>| matches!(run.words.first().and_then(Value::literal), Some("aws" | "awslocal"));
    let said = view.effects.prompt.shown().to_lowercase();
    let versions = said.contains("versioning")
        || view.scripts.iter().any(|script| script.content.text.contains("put-bucket-versioning"));
    let text = |word: &str| {
        view.scripts.iter().any(|script| script.phase == PhaseKind::Cleanup && script.content.text.contains(word))
    };
    let fills = runs(PhaseKind::Setup)
        .any(|run| is_aws(run) && (has(run, &["s3", "cp"]) || has(run, &["s3", "sync"]) || has(run, &["put-object"])));
    let empties = text("delete-object") || text("s3 rm");
    for run in runs(PhaseKind::Cleanup).filter(|run| is_aws(run)) {
        let forced = has(run, &["s3", "rb", "--force"]);
        let message = if forced && versions && !text("list-object-versions") && !text("delete-objects") {
            "`--force` deletes the objects, and not their versions: a bucket with versions stays"
        } else if fills && !empties && !forced && (has(run, &["s3", "rb"]) || has(run, &["delete-bucket"])) {
            "the bucket is not empty, and stays"
        } else {
            continue;
        };
        out.push(
            Diagnostic::new(&released::RESOURCE_NOT_RELEASED, run.content.span(run.statement.range.clone()), message)
                .help("delete what is in it first: all of `list-object-versions`, with markers of deletion, or `s3 rm --recursive`"),
        );
    }
}

/// What the prompt asks the agent to make, verify looks at, and nothing deletes. Of things that go with nothing else.
fn made_by_agent(view: &TaskView<'_>, out: &mut Diagnostics) {
    let model = view.effects;
    let sees = model.sees(PhaseKind::Cleanup) && model.sees(PhaseKind::Setup) && !view.effects.sweeps();
    if view.task.prompt.is_none() || !sees || view.task.cleanup.steps.is_empty() {
        return;
    }
    let said = model.prompt.shown();
    let mut told: Vec<String> = Vec::new();
    for act in model.in_phase(PhaseKind::Verify).filter(|act| matches!(act.verb, Verb::Reads | Verb::Awaits)) {
        let thing = &act.thing;
        let kind = thing.kind.as_str();
        let alone = match thing.system.as_str() {
            "kubernetes" => tools::tool("kubectl").and_then(|tool| tool.kind(kind)).is_some_and(|(_, wide)| wide),
            "docker" => matches!(kind, "container" | "network" | "volume"),
            "aws" | "gcloud" => true,
            _ => false,
        };
        let Some(name) = thing.name.as_ref().filter(|name| alone && name.is_known()).map(Value::shown) else {
            continue;
        };
        let made = model.acts.iter().any(|made| made.verb == Verb::Creates && made.thing.may_be(thing));
        let gone = model.acts.iter().any(|gone| {
            gone.verb == Verb::Deletes
                && gone.phase != PhaseKind::Setup
                && (thing.goes_with(&gone.thing) || gone.thing.system == thing.system && gone.thing.name.is_none())
        });
        if name.len() > 2
            && !made
            && !gone
            && !told.contains(&name)
            && already_true::is_object(&said, &name, &already_true::MAKES)
        {
            let mut finding = Diagnostic::new(
                &released::RESOURCE_NOT_RELEASED,
                view.task.cleanup.steps[0].key,
                format!("nothing deletes the {kind} `{name}` that the agent makes"),
            )
            .label(act.span, "verify looks at it here");
            if let Some(help) = released::command(thing, &name) {
                finding = finding.help(format!("add to cleanup: `{help}`"));
            }
            out.push(finding);
            told.push(name);
        }
    }
}

/// All of `cleanup-needs-ignore-not-found`.
pub fn ignore_not_found(view: &TaskView<'_>, out: &mut Diagnostics) {
    super::cluster::ignore_not_found(view, out);
    drops(view, out);
}

/// `DROP TABLE a` in a cleanup that runs also where set-up has made none.
fn drops(view: &TaskView<'_>, out: &mut Diagnostics) {
    let mut told: Vec<Span> = Vec::new();
    for act in cleanup(view).filter(|act| act.verb == Verb::Deletes && !act.lenient && !act.maybe) {
        let thing = &act.thing;
        let in_sql = matches!(thing.system.as_str(), "postgres" | "mysql" | "sqlite")
            && matches!(thing.kind.as_str(), "table" | "view" | "index" | "schema" | "role" | "user" | "database");
        // `dropdb` says it in an option.
        let written = view.scripts.iter().any(|script| {
            script.phase == PhaseKind::Cleanup
                && script.step.key == act.step
                && script.content.text.to_lowercase().contains("drop ")
        });
        if in_sql && written && !told.contains(&act.span) {
            let name = thing.name.as_ref().map(Value::shown).unwrap_or_default();
            out.push(
                Diagnostic::new(
                    &super::cluster::CLEANUP_NEEDS_IGNORE_NOT_FOUND,
                    act.span,
                    format!(
                        "this fails where there is no {} `{name}`, and what stands behind it is not done",
                        thing.kind
                    ),
                )
                .help(format!(
                    "cleanup runs also when setup failed early: write `DROP {} IF EXISTS`",
                    thing.kind.to_uppercase()
                )),
            );
            told.push(act.span);
        }
    }
}
