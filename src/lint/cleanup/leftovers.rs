//! Leftovers of an interrupted run that setup keeps and verify accepts as the agent's work.

use crate::{
    diagnostic::{Diagnostic, Diagnostics},
    effects::{
        Act, Thing, Verb,
        value::{Piece, Value},
    },
    hir::PhaseKind,
    lint::TaskView,
    rule,
    source::Span,
};

rule! {
    pub static NOT_RESET = "not-reset", Warning;
}

/// A resource with a fixed name that verify checks or cleanup deletes, that the agent must create, and that an earlier
/// run may have left behind. Requires that all effects of setup are known, that setup allows for leftovers (it reuses a
/// location, as with `mkdir -p` or `… || kubectl create namespace`, or first deletes other resources), and that it does
/// not delete this one.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    let model = view.effects;
    if view.task.prompt.is_none() || !model.sees(PhaseKind::Setup) {
        return;
    }
    let setup: Vec<&Act> = model.in_phase(PhaseKind::Setup).collect();
    let gone: Vec<&Thing> = setup.iter().filter(|act| act.verb == Verb::Deletes).map(|act| &act.thing).collect();
    // Locations that setup reuses.
    let taken: Vec<&&Act> =
        setup.iter().filter(|act| act.verb == Verb::Creates && act.again && fixed(&act.thing).is_some()).collect();
    if taken.is_empty() && gone.is_empty() {
        return;
    }
    let said = model.prompt.shown();
    if !makes(&said) {
        return;
    }
    let is_gone = |thing: &Thing| gone.iter().any(|gone| goes(thing, gone));
    let made = |thing: &Thing| {
        setup.iter().any(|act| {
            act.verb == Verb::Creates && act.thing.system == thing.system && {
                let names = act.thing.name.as_ref().zip(thing.name.as_ref());
                names.is_none_or(|(made, name)| {
                    made.may_be(name) && (act.thing.kind == thing.kind || thing.system != "kubernetes")
                })
            }
        })
    };
    let mut found: Vec<(Span, String, Span)> = Vec::new();
    for act in asked(view) {
        let thing = &act.thing;
        let Some(name) = fixed(thing).filter(|name| crate::lint::resources::cluster::whole(&said, name)) else {
            continue;
        };
        if made(thing) || is_gone(thing) || found.iter().any(|(_, told, _)| *told == shown(thing, name)) {
            continue;
        }
        let inside = taken
            .iter()
            .find(|outer| !is_gone(&outer.thing) && holds(&outer.thing, thing) && !refuses(view, &setup, &outer.thing));
        let beside = || {
            // If no location of the task contains it, what setup does with similar resources is the evidence.
            let free = match thing.system.as_str() {
                "docker" | "sqlite" | "postgres" | "mysql" | "aws" | "gcloud" => true,
                "kubernetes" => thing.kind != "namespace" && is_wide(&thing.kind),
                // Beside the folder of the task, and its cleanup deletes both.
                "file" => {
                    let deleted = |act: &Act| act.verb == Verb::Deletes && goes(thing, &act.thing);
                    name.starts_with("/tmp/")
                        && name.matches('/').count() == 2
                        && model.in_phase(PhaseKind::Cleanup).any(deleted)
                }
                _ => false,
            };
            let same =
                |other: &Thing| other.system == thing.system && fixed(other).is_some() && place(other) == place(thing);
            let shows = setup.iter().find(|other| {
                same(&other.thing)
                    && (other.verb == Verb::Deletes || other.verb == Verb::Creates && (other.again || other.maybe))
            });
            shows.filter(|_| free && !is_held(view, &thing.system))
        };
        if let Some(other) = inside.copied().or_else(beside) {
            found.push((other.span, shown(thing, name), act.span));
        }
    }
    releases(view, &setup, &is_gone, &mut found);
    for (span, what, place) in found {
        out.push(
            Diagnostic::new(&NOT_RESET, span, format!("setup does not reset {what} of an interrupted run"))
                .label(place, "this check then accepts it as the agent's work")
                .help("delete it, or what contains it, at the start of setup; or add `{random.id}` to the name"),
        );
    }
}

/// `helm upgrade --install` increments the revision of an existing release, and verify checks for a fixed revision.
fn releases(
    view: &TaskView<'_>,
    setup: &[&Act],
    is_gone: &dyn Fn(&Thing) -> bool,
    found: &mut Vec<(Span, String, Span)>,
) {
    let asks =
        view.scripts.iter().any(|script| script.phase == PhaseKind::Verify && script.content.text.contains("revision"));
    for act in setup.iter().filter(|act| asks && act.again && act.verb == Verb::Creates && act.thing.system == "helm") {
        let place = view.effects.in_phase(PhaseKind::Verify).find(|other| {
            other.thing.system == "helm"
                && other.thing.name.as_ref().zip(act.thing.name.as_ref()).is_some_and(|(a, b)| a.is(b))
        });
        if let (Some(name), Some(place), false) = (fixed(&act.thing), place, is_gone(&act.thing)) {
            found.push((act.span, format!("the revisions of the release `{name}`"), place.span));
        }
    }
}

/// What verify checks and what cleanup deletes.
fn asked<'a>(view: &'a TaskView<'_>) -> Vec<Act> {
    let model: &'a crate::effects::Model<'_> = view.effects;
    let mut found: Vec<Act> = model
        .acts
        .iter()
        .filter(|act| match act.phase {
            PhaseKind::Verify => matches!(act.verb, Verb::Reads | Verb::Awaits),
            PhaseKind::Cleanup => act.verb == Verb::Deletes && act.thing.system != "file",
            _ => false,
        })
        .cloned()
        .collect();
    for (span, path) in crate::lint::analysis::expected::read_paths(view) {
        let thing =
            Thing { system: "file".to_owned(), kind: "file".to_owned(), space: None, name: Some(Value::text(path)) };
        found.push(Act {
            phase: PhaseKind::Verify,
            verb: Verb::Reads,
            thing,
            span,
            step: span,
            maybe: false,
            lenient: false,
            again: false,
        });
    }
    found
}

/// The name of a resource, if it and its location are the same in every run.
fn fixed(thing: &Thing) -> Option<&str> {
    let place = thing.space.as_ref().is_none_or(|space| place_of(space).is_some());
    let name = thing.name.as_ref().and_then(Value::literal)?;
    (place && name.len() > 2 && !name.contains('*') && (thing.system != "file" || name.starts_with('/')))
        .then_some(name)
}

fn place(thing: &Thing) -> Option<String> {
    thing.space.as_ref().and_then(place_of)
}

/// A location, if it is the same in every run. The user's home directory is.
fn place_of(space: &Value) -> Option<String> {
    let same = |piece: &Piece| match piece {
        Piece::Text(_) => true,
        Piece::Name(name) => name == "$HOME",
        Piece::Printed(_) | Piece::Unknown => false,
    };
    space.pieces().iter().all(same).then(|| space.shown())
}

/// Whether a resource is inside another one that setup reuses.
fn holds(outer: &Thing, thing: &Thing) -> bool {
    let Some((outer_name, name)) = fixed(outer).zip(fixed(thing)) else { return false };
    match thing.system.as_str() {
        "kubernetes" => {
            outer.system == "kubernetes" && outer.kind == "namespace" && place(thing).as_deref() == Some(outer_name)
        }
        "file" => {
            let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
            let own = folder.matches('/').count() > 1;
            let lies = name.starts_with(&format!("{}/", outer_name.trim_end_matches('/')));
            outer.kind == "folder" && (lies || own && outer_name.starts_with(&format!("{folder}/")))
        }
        _ => false,
    }
}

/// Whether setup fails if something that it creates in a location already exists. Then nothing is mistaken for the
/// agent's work.
fn refuses(view: &TaskView<'_>, setup: &[&Act], outer: &Thing) -> bool {
    let stops = |act: &Act| {
        let mut scripts = view.scripts.iter().filter(|script| script.step.key == act.step);
        scripts.all(|script| script.content.program.stops_at_errors() || script.content.program.body.len() == 1)
    };
    setup.iter().any(|act| act.verb == Verb::Creates && !act.again && holds(outer, &act.thing) && stops(act))
}

/// Whether deleting `gone` also deletes `thing`.
fn goes(thing: &Thing, gone: &Thing) -> bool {
    let name = |thing: &Thing| thing.name.as_ref().map(Value::shown);
    if gone.system == "file" {
        // Deleting a file deletes the database in it.
        let path = if thing.system == "file" { name(thing) } else { place(thing) };
        let Some((path, gone)) = path.zip(name(gone)) else { return thing.system == "file" };
        let gone = gone.trim_end_matches(['/', '*', '…']);
        return path == gone || path.starts_with(gone);
    }
    let outer = gone.kind == "namespace"
        && thing.space.as_ref().zip(gone.name.as_ref()).is_some_and(|(space, name)| space.may_be(name));
    let database = gone.system == thing.system && matches!(gone.kind.as_str(), "database" | "schema");
    // A view may be read as a table, so only the names are compared.
    let same_name = thing.system == gone.system
        && thing.system != "kubernetes"
        && thing.name.as_ref().zip(gone.name.as_ref()).is_none_or(|(a, b)| a.may_be(b));
    outer || database || same_name || thing.may_be(gone)
}

/// Whether setup recreates what contains the tables of such a system.
fn is_held(view: &TaskView<'_>, system: &str) -> bool {
    matches!(system, "postgres" | "mysql" | "sqlite")
        && view.effects.in_phase(PhaseKind::Setup).any(|act| {
            matches!(act.verb, Verb::Creates | Verb::Deletes)
                && (matches!(act.thing.system.as_str(), "docker" | "kubernetes") || act.thing.kind == "database")
        })
}

fn is_wide(kind: &str) -> bool {
    crate::bash::tools::tool("kubectl").and_then(|tool| tool.kind(kind)).is_some_and(|(_, wide)| wide)
}

/// Whether a prompt asks to create anything.
pub fn makes(said: &str) -> bool {
    const MAKES: [&str; 28] = [
        "pack",
        "export",
        "collect",
        "convert",
        "create",
        "make",
        "write",
        "start",
        "run",
        "add",
        "save",
        "deploy",
        "launch",
        "install",
        "build",
        "generate",
        "put",
        "store",
        "copy",
        "define",
        "provision",
        "export",
        "produce",
        "set up",
        "request",
        "issue",
        "open",
        "back",
    ];
    let said = said.to_lowercase();
    MAKES.iter().any(|verb| crate::lint::analysis::texts::has_word(&said, verb))
}

fn shown(thing: &Thing, name: &str) -> String {
    let kind = if thing.kind.is_empty() { "thing" } else { thing.kind.as_str() };
    format!("the {kind} `{name}`")
}
