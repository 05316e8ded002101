//! Cleanup that does not release everything: in the wrong order, only in part, or not what the agent creates.

use std::cell::LazyCell;

use rustc_hash::FxHashSet;

use crate::{
    ascii::{Ascii, ascii},
    bash::tools,
    diagnostic::{Diagnostic, Diagnostics},
    effects::{Act, Verb, shell::Run, value::Value},
    hir::{Dialect, PhaseKind},
    lint::{
        TaskView,
        analysis::orders,
        cleanup::{created_by_request, lasting, released},
    },
    source::Span,
};

/// Resources that cannot be deleted while others use them: the system, the kind, and the kinds of the users.
const HELD: [(&str, &str, &[&str]); 5] = [
    ("docker", "network", &["container"]),
    ("docker", "volume", &["container"]),
    ("postgres", "role", &["database", "schema", "table"]),
    ("aws", "role", &["function"]),
    ("gcloud", "network", &["instance", "firewall rule"]),
];

/// Runs all checks of `resource-not-released`.
pub fn released(view: &TaskView<'_>, out: &mut Diagnostics) {
    released::check(view, out);
    order(view, out);
    halves(view, out);
    running(view, out);
    buckets(view, out);
    made_by_agent(view, out);
    made_again(view, out);
    selects(view, out);
    nearly(view, out);
    created_by_request::check(view, out);
    lasting::check(view, out);
}

/// `mongosh mongodb://localhost/eval-archive`, where the rest of the task uses `eval_archive`.
fn nearly(view: &TaskView<'_>, out: &mut Diagnostics) {
    let runs = |cleanup: bool| {
        let scripts = view.effects.scripts.iter().filter(move |s| (s.view.phase == PhaseKind::Cleanup) == cleanup);
        scripts.flat_map(|script| &script.trace.runs)
    };
    let is_name = |word: &&str| {
        let part = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'/' | b':');
        word.len() > 8 && !word.starts_with('-') && word.bytes().all(part) && word.contains(['-', '_', '/'])
    };
    let words = || runs(false).flat_map(|run| run.words.iter().skip(1).filter_map(Value::literal));
    let used = LazyCell::new(|| words().collect::<FxHashSet<&str>>());
    let rest = || &crate::lint::analysis::facts::elsewhere(view).rest;
    let own = |word: &str| rest().matches(word).count();
    let mut told: Vec<&str> = Vec::new();
    for run in runs(true) {
        for (nth, word) in run.words.iter().enumerate().skip(1) {
            let Some(word) = word.literal().filter(is_name) else { continue };
            let cleanup_only = || {
                let texts = view.scripts.iter().filter(|s| s.phase == PhaseKind::Cleanup);
                texts.map(|s| s.content.text.matches(word).count()).sum::<usize>() >= own(word)
                    && !crate::lint::analysis::facts::elsewhere(view).verify.contains(word)
                    && !view.effects.prompt.shown().contains(word)
            };
            let other = || {
                words().find(|other| {
                    // Letters and digits are the same, for example with a hyphen for an underscore.
                    let same = |is: fn(&u8) -> bool| other.bytes().filter(is).eq(word.bytes().filter(is));
                    *other != word
                        && other.len().abs_diff(word.len()) < 2
                        && same(u8::is_ascii_digit)
                        && same(u8::is_ascii_alphabetic)
                })
            };
            if told.contains(&word) || used.contains(word) || !cleanup_only() {
                continue;
            }
            if let Some(other) = other() {
                let place = run.statement.words().get(nth).map_or(run.statement.range.clone(), |w| w.range.clone());
                out.push(
                    Diagnostic::new(
                        &released::RESOURCE_NOT_RELEASED,
                        run.content.span(place),
                        format!("cleanup uses the name `{word}`, but everything else uses `{other}`"),
                    )
                    .help("use the same name to delete what setup creates"),
                );
                told.push(word);
            }
        }
    }
}

/// `select(.createdBy == "mute")` in cleanup, where the rest of the task uses `.createdBy == "eval-mute"`.
fn selects(view: &TaskView<'_>, out: &mut Diagnostics) {
    let of = |phase: PhaseKind| view.scripts.iter().filter(move |script| script.phase == phase);
    let mut told: Vec<&str> = Vec::new();
    for script in of(PhaseKind::Cleanup).filter(|script| script.content.text.contains("select(")) {
        let others = &crate::lint::analysis::facts::elsewhere(view);
        for found in SELECTS.captures_iter(&script.content.text) {
            let (Some(key), Some(value)) = (found.get(1), found.get(2)) else { continue };
            let beside = of(PhaseKind::Setup).chain(of(PhaseKind::Verify)).flat_map(|other| {
                SELECTS
                    .captures_iter(&other.content.text)
                    .filter_map(|other| (other.get(1)?.as_str() == key.as_str()).then_some(other.get(2)?.as_str()))
            });
            let wanted: std::collections::BTreeSet<&str> = beside.collect();
            // `rest` includes the scripts of cleanup, so occurrences in this one are subtracted.
            let anywhere = crate::lint::resources::cluster::whole(&others.verify, value.as_str())
                || others.rest.matches(value.as_str()).count() > script.content.text.matches(value.as_str()).count()
                || crate::lint::resources::cluster::whole(&view.effects.prompt.shown(), value.as_str());
            if let ([other], false, false) =
                (wanted.iter().collect::<Vec<_>>().as_slice(), anywhere, told.contains(&value.as_str()))
            {
                out.push(
                    Diagnostic::new(
                        &released::RESOURCE_NOT_RELEASED,
                        script.content.span(value.range()),
                        format!("cleanup searches for `{}`, but everything else uses `{other}`", value.as_str()),
                    )
                    .help("what the search does not find is not deleted: use the same name"),
                );
                told.push(value.as_str());
            }
        }
    }
}

static SELECTS: Ascii = ascii(r#"\.([A-Za-z_]\w*)\s*==\s*\\?"([^"$\\{}]{3,})\\?""#);

fn cleanup<'a>(view: &'a TaskView<'_>) -> impl Iterator<Item = &'a Act> {
    let model: &'a crate::effects::Model<'_> = view.effects;
    model.acts.iter().filter(|act| act.phase == PhaseKind::Cleanup)
}

/// `docker network rm` before the `docker rm` of the containers in the network.
fn order(view: &TaskView<'_>, out: &mut Diagnostics) {
    let mut acts: Vec<&Act> = cleanup(view).filter(|act| act.verb == Verb::Deletes).collect();
    if view.task.dialect == Dialect::Portable {
        // Its cleanup runs the last step first.
        acts.sort_by_key(|act| std::cmp::Reverse(act.step.start));
    }
    // A role whose privileges have been revoked can be dropped.
    let scripts = || view.scripts.iter().filter(|script| script.phase == PhaseKind::Cleanup);
    let disowned =
        scripts().any(|script| ["drop owned", "revoke"].iter().any(|words| contains(&script.content.text, words)));
    for (system, kind, holders) in HELD {
        let of = |act: &&&Act, kinds: &[&str]| act.thing.system == system && kinds.contains(&act.thing.kind.as_str());
        let Some(at) = acts.iter().position(|act| of(&act, &[kind])) else { continue };
        let before = acts[..at].iter().any(|act| of(&act, holders));
        let Some(after) = acts[at..].iter().find(|act| of(act, holders)).filter(|_| !before) else { continue };
        // A second attempt afterwards succeeds.
        let again = disowned && kind == "role"
            || acts.iter().filter(|act| of(act, &[kind]) && act.thing.is(&acts[at].thing)).count() > 1;
        if !again {
            out.push(
                Diagnostic::new(
                    &released::RESOURCE_NOT_RELEASED,
                    acts[at].span,
                    format!(
                        "the {kind} cannot be deleted yet: the {} that may use it is deleted after it",
                        after.thing.kind
                    ),
                )
                .label(after.span, "deleted here")
                .help("change the order"),
            );
        }
    }
}

fn contains(text: &str, words: &str) -> bool {
    text.to_lowercase().contains(words)
}

/// `docker rm` without `-f` of a container that setup has started and nothing stops.
fn running(view: &TaskView<'_>, out: &mut Diagnostics) {
    let runs = |phase: PhaseKind| {
        let scripts = view.effects.scripts.iter().filter(move |script| script.view.phase == phase);
        scripts.flat_map(|script| &script.trace.runs)
    };
    let says = |run: &&Run<'_>, words: &[&str]| {
        matches!(run.statement.tool(), "docker" | "podman")
            && words.iter().any(|word| run.words.iter().any(|known| known.literal() == Some(word)))
    };
    let started = |name: &Value| {
        runs(PhaseKind::Setup).find(|run| {
            let named = run.words.windows(2).any(|pair| pair[0].literal() == Some("--name") && pair[1].is(name));
            named && says(run, &["run"]) && says(run, &["-d", "--detach"]) && !says(run, &["--rm"])
        })
    };
    let stops = |run: &&Run<'_>| says(run, &["stop", "kill", "down"]);
    if PhaseKind::ALL.into_iter().flat_map(runs).any(|run| stops(&run)) {
        return;
    }
    for run in runs(PhaseKind::Cleanup).filter(|run| says(run, &["rm"])) {
        let forced =
            run.words.iter().filter_map(Value::literal).any(|word| {
                word == "--force" || word.starts_with('-') && !word.starts_with("--") && word.contains('f')
            });
        let made = run.words.iter().skip(2).find_map(started).filter(|_| !forced);
        if let Some(made) = made {
            out.push(
                Diagnostic::new(
                    &released::RESOURCE_NOT_RELEASED,
                    run.content.span(run.statement.range.clone()),
                    "a running container is not removed",
                )
                .label(made.content.span(line(made)), "started here")
                .help("write `docker rm -f`, or stop the container first"),
            );
        }
    }
}

/// Returns the range of a command's first line.
fn line(run: &Run<'_>) -> std::ops::Range<usize> {
    let text = run.content.text.get(run.statement.range.clone()).unwrap_or_default();
    run.statement.range.start..run.statement.range.start + text.find('\n').unwrap_or(text.len())
}

/// `docker stop` without a command that removes the container.
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
    // Cleanup may stop and start a container that the task did not create.
    let is_theirs = view.effects.in_phase(PhaseKind::Cleanup).any(|act| act.verb == Verb::Creates)
        || scripts().any(|script| script.content.text.contains("docker start"));
    if let Some((span, kind)) = stops.filter(|_| !removes && !is_theirs) {
        out.push(
            Diagnostic::new(
                &released::RESOURCE_NOT_RELEASED,
                span,
                format!("a stopped {kind} still exists, and keeps its name"),
            )
            .help("remove it: `docker rm -f NAME`"),
        );
    }
}

/// A bucket can only be deleted if it is empty, and `--force` does not delete versions.
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
            "`--force` deletes the objects but not their versions: a bucket with versions is not deleted"
        } else if fills && !empties && !forced && (has(run, &["s3", "rb"]) || has(run, &["delete-bucket"])) {
            "the bucket is not empty, so it is not deleted"
        } else {
            continue;
        };
        out.push(
            Diagnostic::new(&released::RESOURCE_NOT_RELEASED, run.content.span(run.statement.range.clone()), message)
                .help("delete its content first: everything in `list-object-versions`, including delete markers, or use `s3 rm --recursive`"),
        );
    }
}

/// Reports resources that the prompt asks the agent to create, that verify checks, and that nothing deletes. Only kinds
/// that are not deleted along with others.
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
            && orders::is_object(&said, &name, &orders::MAKES, &|before| {
                crate::lint::analysis::texts::speaks_of(view, before, kind)
            })
        {
            let mut finding = Diagnostic::new(
                &released::RESOURCE_NOT_RELEASED,
                view.task.cleanup.steps[0].key,
                format!("the {kind} `{name}`, which the agent creates, is never deleted"),
            )
            .label(act.span, "verify checks it here");
            if let Some(help) = released::command(thing, &name) {
                finding = finding.help(format!("add to cleanup: `{help}`"));
            }
            out.push(finding);
            told.push(name);
        }
    }
}

/// Reports resources that setup removes before the agent creates them, and that remain after the run.
fn made_again(view: &TaskView<'_>, out: &mut Diagnostics) {
    let model = view.effects;
    let sees = model.sees(PhaseKind::Cleanup) && !model.sweeps();
    if view.task.prompt.is_none() || !sees || view.task.cleanup.steps.is_empty() {
        return;
    }
    let said = model.prompt.shown();
    let makes = orders::MAKES_AGAIN.is_match(&said);
    let deletes = |phase| model.in_phase(phase).filter(|act| act.verb == Verb::Deletes);
    let mut told: Vec<String> = Vec::new();
    for act in deletes(PhaseKind::Setup) {
        let thing = &act.thing;
        let Some(name) = thing.name.as_ref().filter(|name| name.is_known()).map(Value::shown) else { continue };
        let gone = |gone: &Act| {
            thing.goes_with(&gone.thing)
                || gone.thing.may_be(thing)
                || gone.thing.system == thing.system && gone.thing.name.is_none()
        };
        let in_use = |act: &Act| act.verb == Verb::Changes && act.thing.may_be(thing);
        // Another form of deletion that names it.
        let is_named = || {
            let mut texts = view.scripts.iter().filter(|script| script.phase == PhaseKind::Cleanup);
            texts.any(|script| crate::lint::analysis::texts::has_word(&script.content.text, &name))
        };
        let short = name.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        // Cleanup deletes the others that setup deletes in the same command.
        let is_one_of_several = |act: &Act| {
            let others: Vec<&Act> = deletes(PhaseKind::Setup)
                .filter(|other| other.span == act.span && other.thing.kind == thing.kind && other.thing != *thing)
                .collect();
            let goes = |other: &&Act| deletes(PhaseKind::Cleanup).any(|gone| gone.thing.is(&other.thing));
            !others.is_empty() && others.iter().all(goes)
        };
        // The prompt names it, and verify looks at it.
        let is_wanted = |act: &Act| {
            let is_path = act.thing.system == "file" && name.starts_with('/') && short.contains('.');
            let asked = model.in_phase(PhaseKind::Verify).any(|read| read.thing.may_be(&act.thing));
            (makes || crate::lint::cleanup::leftovers::makes(&said))
                && crate::lint::resources::cluster::whole(&said, &name)
                && (asked || is_path && crate::lint::analysis::facts::elsewhere(view).verify.contains(&name))
                && !crate::lint::analysis::checked_resource::is_forbidden(&said, &name)
        };
        if short.len() < 3
            || told.contains(&name)
            || !deletes(PhaseKind::Cleanup).any(|act| act.thing.system == thing.system)
            || deletes(PhaseKind::Cleanup).any(gone)
            || model.in_phase(PhaseKind::Setup).any(|made| made.verb == Verb::Creates && made.thing.may_be(thing))
            || !model.in_phase(PhaseKind::Cleanup).any(in_use) && is_named()
            || !(orders::is_object(&said, short, &orders::MAKES_AGAIN, &|_| true)
                || is_wanted(act)
                || makes && crate::lint::analysis::texts::has_word(&said, short) && is_one_of_several(act))
        {
            continue;
        }
        let message = format!("the {} `{name}`, which the agent creates, is never deleted", thing.kind);
        let finding = Diagnostic::new(&released::RESOURCE_NOT_RELEASED, view.task.cleanup.steps[0].key, message)
            .label(act.span, "setup deletes what an earlier run left");
        let help = released::command(thing, &name).map(|help| format!("add to cleanup: `{help}`"));
        out.push(finding.help(help.unwrap_or_else(|| "delete it in cleanup as well".to_owned())));
        told.push(name);
    }
}

/// Runs all checks of `cleanup-needs-ignore-not-found`.
pub fn ignore_not_found(view: &TaskView<'_>, out: &mut Diagnostics) {
    crate::lint::resources::cluster::ignore_not_found(view, out);
    drops(view, out);
    refuses(view, out);
}

/// `ignoreNotFound: false` in cleanup, which also runs if there is nothing to delete.
fn refuses(view: &TaskView<'_>, out: &mut Diagnostics) {
    view.task.cleanup.steps.iter().filter(|step| step.continue_on_error.is_none_or(|lenient| !lenient.value)).for_each(
        |step| {
            let refuses =
                step.arg("ignoreNotFound").filter(|arg| arg.as_value() == Some(serde_json::Value::Bool(false)));
            if let Some(arg) = refuses {
                out.push(
                    Diagnostic::new(
                        &crate::lint::resources::cluster::CLEANUP_NEEDS_IGNORE_NOT_FOUND,
                        arg.span,
                        "this fails if there is nothing to delete",
                    )
                    .help("cleanup also runs if setup fails early: write `ignoreNotFound: true`")
                    .fix("ignore missing objects", arg.span, "true"),
                );
            }
        },
    );
}

/// `DROP TABLE a` in cleanup, which also runs if setup has not created the table.
fn drops(view: &TaskView<'_>, out: &mut Diagnostics) {
    let mut told: Vec<Span> = Vec::new();
    for act in cleanup(view).filter(|act| act.verb == Verb::Deletes && !act.lenient && !act.maybe) {
        let thing = &act.thing;
        let in_sql = matches!(thing.system.as_str(), "postgres" | "mysql" | "sqlite")
            && matches!(thing.kind.as_str(), "table" | "view" | "index" | "schema" | "role" | "user" | "database");
        // `dropdb` has an option for this instead.
        let written = view.scripts.iter().any(|script| {
            script.phase == PhaseKind::Cleanup
                && script.step.key == act.step
                && script.content.text.to_lowercase().contains("drop ")
        });
        if in_sql && written && !told.contains(&act.span) {
            let name = thing.name.as_ref().map(Value::shown).unwrap_or_default();
            out.push(
                Diagnostic::new(
                    &crate::lint::resources::cluster::CLEANUP_NEEDS_IGNORE_NOT_FOUND,
                    act.span,
                    format!(
                        "this fails if the {} `{name}` does not exist, and the statements after it do not run",
                        thing.kind
                    ),
                )
                .help(format!(
                    "cleanup also runs if setup fails early: write `DROP {} IF EXISTS`",
                    thing.kind.to_uppercase()
                )),
            );
            told.push(act.span);
        }
    }
}
