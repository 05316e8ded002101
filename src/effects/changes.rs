//! What a task changes in the world, and what remains after its cleanup.

use std::collections::{BTreeSet, HashMap};

use super::{Act, Model, Thing, Value, Verb};
use crate::{
    bash::{
        program::Statement,
        tools::{self, Tools},
    },
    hir::{Def, PhaseKind, Task},
};

/// What a task changes in the world, described for people: `namespace shop`, `pod web in shop`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Changes {
    pub creates: BTreeSet<String>,
    pub deletes: BTreeSet<String>,
    /// What setup creates and nothing removes.
    pub leaves: BTreeSet<String>,
}

impl Model<'_> {
    /// What the scripts and steps of a task change. Resources without a known name are left out, and so are changes by the
    /// agent.
    pub fn changes(&self, task: &Task<Def>, tools: &Tools) -> Changes {
        let of = |verb: Verb| {
            let acts = self.acts.iter().filter(move |act| act.verb == verb && is_named(&act.thing));
            acts.map(|act| act.thing.shown()).collect()
        };
        let left = self.left_behind(task, tools).unwrap_or_default();
        Changes {
            creates: of(Verb::Creates),
            deletes: of(Verb::Deletes),
            leaves: left.into_iter().map(|act| act.thing.shown()).collect(),
        }
    }

    /// The operations of setup that create a resource with a known name that nothing removes. Returns `None` if cleanup has
    /// effects that the model does not see, or deletes by a label or a list.
    pub fn left_behind(&self, task: &Task<Def>, tools: &Tools) -> Option<Vec<&Act>> {
        let made: Vec<&Act> = self.in_phase(PhaseKind::Setup).filter(|act| self.makes(act, task, tools)).collect();
        if made.is_empty() {
            return Some(made);
        }
        if !self.sees(PhaseKind::Cleanup) || self.sweeps() {
            return None;
        }
        let deletes = |act: &&Act| act.verb == Verb::Deletes && act.phase != PhaseKind::Setup;
        let deleted: Vec<&Thing> = self.acts.iter().filter(deletes).map(|act| &act.thing).collect();
        let places = Places::of(&made);
        let stays = |act: &&&Act| {
            let thing = &act.thing;
            // If the database is kept, the tables that setup created in it are dropped.
            let emptied = thing.system == "file"
                && deleted.iter().any(|gone| {
                    gone.system == "sqlite"
                        && gone.space.as_ref().zip(thing.name.as_ref()).is_some_and(|(space, file)| space.is(file))
                });
            !emptied
                && !places.contain(thing)
                && !goes_with_database(thing, &made, &deleted)
                && !deleted.iter().any(|gone| thing.goes_with(gone))
        };
        Some(made.iter().filter(stays).copied().collect())
    }

    /// Whether an operation creates a lasting resource with a known name.
    fn makes(&self, act: &Act, task: &Task<Def>, tools: &Tools) -> bool {
        let thing = &act.thing;
        let Some(name) = thing
            .name
            .as_ref()
            .filter(|name| act.verb == Verb::Creates && name.is_known() && !name.shown().contains('$'))
        else {
            return false;
        };
        match thing.system.as_str() {
            // Files in the task's directory, and files that a script removes itself, are not leaks.
            "file" => {
                let shown = name.shown();
                let absolute = shown.starts_with("/tmp/") || shown.starts_with("/var/tmp/");
                absolute && !self.traps()
            }
            // The name of a resource created with POST is known only to the server, and `…/register` is not a resource.
            "http" => {
                let shown = name.shown();
                let last = shown.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
                // Of the requests in scripts, only those that create a collection are recorded.
                (is_put(act, task) || act.span != act.step) && !CALLS.contains(&last) && !self.stops_server(&shown)
            }
            "kubernetes" => !matches!(thing.kind.as_str(), "event" | "token"),
            "helm" | "docker" | "kind" => !thing.kind.is_empty(),
            "postgres" | "mysql" => {
                matches!(thing.kind.as_str(), "table" | "database" | "schema" | "role" | "user" | "view")
            }
            "git" => false,
            // `gh label create --force` may only ensure that a label exists, unless cleanup deletes labels.
            "github" => {
                let deletes = |gone: &Act| gone.verb == Verb::Deletes && gone.thing.kind == thing.kind;
                thing.kind != "all" && (!act.again || self.in_phase(PhaseKind::Cleanup).any(deletes))
            }
            // Resources behind a server of the task may end with the server. If cleanup deletes any of them, it is
            // expected to delete all.
            system => {
                tools.releases(system, &thing.kind)
                    || self
                        .in_phase(PhaseKind::Cleanup)
                        .any(|act| act.verb == Verb::Deletes && act.thing.system == system)
            }
        }
    }

    /// Whether a URL is one of this machine, and cleanup stops a server.
    fn stops_server(&self, url: &str) -> bool {
        // Behind a forwarded port, the server is elsewhere.
        let forwards = self.scripts.iter().any(|script| script.view.content.text.contains("port-forward"));
        let is_own = !forwards && ["://127.0.0.1", "://localhost", "://[::1]"].iter().any(|host| url.contains(host));
        let stops = |run: &super::shell::Run<'_>| matches!(run.statement.name(), "kill" | "pkill" | "killall");
        let mut cleanup = self.scripts.iter().filter(|script| script.view.phase == PhaseKind::Cleanup);
        is_own && cleanup.any(|script| script.trace.runs.iter().any(stops))
    }

    fn traps(&self) -> bool {
        self.scripts.iter().map(|script| script.view).any(|view| {
            let text = &view.content.text;
            view.phase != PhaseKind::Verify && text.contains("trap ") && text.contains("rm ")
        })
    }

    /// Whether cleanup may delete resources by a label, a list or a name that is filled in.
    pub fn sweeps(&self) -> bool {
        self.scripts.iter().filter(|script| script.view.phase == PhaseKind::Cleanup).any(|script| {
            script.view.content.program.commands().into_iter().any(|command| {
                let part = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
                let has = |word: &str| command.words().iter().any(|w| w.text.split(part).any(|part| part == word));
                match command.tool() {
                    "docker" => has("prune") || has("compose"),
                    "docker-compose" | "make" | "xargs" | "eval" => true,
                    "kind" => has("clusters"),
                    "kubectl" => has("all") && has("delete") && !deletes_in_namespace(command),
                    _ => false,
                }
            })
        })
    }
}

/// Whether `kubectl delete pods,services --all` deletes only kinds whose resources belong to a namespace.
fn deletes_in_namespace(command: &Statement) -> bool {
    let Some(kubectl) = tools::tool("kubectl") else { return false };
    let words: Vec<&str> = command.words().iter().skip(1).map(|word| word.text.as_str()).collect();
    let mut operands = tools::operands("kubectl", &words).copied().skip_while(|word| *word != "delete").skip(1);
    let own = |kind: &str| kind != "all" && kubectl.kind(kind).is_some_and(|(_, wide)| !wide);
    operands.next().is_some_and(|kinds| kinds.split(',').all(own)) && operands.next().is_none()
}

impl Thing {
    /// Whether this resource is removed when `gone` is deleted.
    pub fn goes_with(&self, gone: &Self) -> bool {
        let same = self.system == gone.system || self.system == "helm" && gone.system == "kubernetes";
        if !same {
            return false;
        }
        if gone.system == "file" || gone.system == "http" {
            return lies_in(self, gone)
                || gone.system == "http" && lies_under_name(self, gone)
                || self.name == gone.name
                || gone.name.as_ref().is_some_and(|name| {
                    !name.is_known() && self.name.as_ref().is_none_or(|own| own.may_begin_as(name))
                });
        }
        // A custom resource is removed together with its definition: `widgetfleets.example.com`.
        let plural = gone.name.as_ref().and_then(super::Value::literal).and_then(|name| name.split('.').next());
        let stem = self.kind.trim_end_matches(['s', 'y']);
        if gone.kind == "customresourcedefinition" && !stem.is_empty() && plural.is_some_and(|p| p.starts_with(stem)) {
            return true;
        }
        let outer = gone.kind == "namespace"
            && self.space.as_ref().zip(gone.name.as_ref()).is_some_and(|(space, name)| space.may_be(name));
        outer || self.system == gone.system && self.may_be(gone)
    }
}

/// Last segments of URLs that perform an action.
const CALLS: [&str; 10] =
    ["register", "create", "add", "update", "enable", "start", "restore", "import", "apply", "run"];

/// Whether the operation is a PUT, whose URL contains the name of the resource.
pub fn is_put(act: &Act, task: &Task<Def>) -> bool {
    let mut found = false;
    task.walk(&mut |_, step| {
        found |= step.key == act.step
            && step
                .arg("method")
                .and_then(|method| method.as_literal())
                .is_some_and(|method| method.eq_ignore_ascii_case("PUT"));
    });
    found
}

/// Whether a resource has a known name and is not a file in the task's directory.
fn is_named(thing: &Thing) -> bool {
    thing.name.as_ref().is_some_and(|name| name.is_known() && (thing.system != "file" || name.shown().starts_with('/')))
}

/// The resources of setup that contain others, which are removed together with them.
struct Places<'a> {
    /// How many operations create each path, by system.
    paths: HashMap<(&'a str, String), usize>,
    namespaces: Vec<&'a Value>,
}

impl<'a> Places<'a> {
    fn of(made: &[&'a Act]) -> Self {
        let mut places = Self { paths: HashMap::new(), namespaces: Vec::new() };
        for thing in made.iter().map(|act| &act.thing) {
            if matches!(thing.system.as_str(), "file" | "http") {
                *places.paths.entry((&thing.system, path(thing))).or_default() += 1;
            } else if thing.kind == "namespace" {
                places.namespaces.extend(&thing.name);
            }
        }
        places
    }

    /// Whether a resource that setup creates is inside another one, or is created twice.
    fn contain(&self, thing: &Thing) -> bool {
        if matches!(thing.system.as_str(), "file" | "http") {
            let path = path(thing);
            let count = |path: &str| self.paths.get(&(thing.system.as_str(), path.to_owned())).copied().unwrap_or(0);
            return path.match_indices('/').any(|(end, _)| count(&path[..end]) > 0);
        }
        let space = thing.space.as_ref().filter(|_| thing.kind != "namespace");
        space.is_some_and(|space| self.namespaces.iter().any(|name| name.may_be(space)))
    }
}

/// The path or URL of a resource, without a final `/` or `*`.
fn path(thing: &Thing) -> String {
    let shown = thing.name.as_ref().map(Value::shown).unwrap_or_default();
    shown.trim_end_matches(['/', '*']).to_owned()
}

/// Whether a resource is removed together with its database: a database with the container or cluster that runs it, a
/// table with its database.
fn goes_with_database(thing: &Thing, made: &[&Act], deleted: &[&Thing]) -> bool {
    let holds = |outer: &&Act| matches!(outer.thing.system.as_str(), "docker" | "kubernetes");
    let outer = |gone: &&&Thing| gone.system == thing.system && matches!(gone.kind.as_str(), "database" | "schema");
    matches!(thing.system.as_str(), "postgres" | "mysql")
        && (made.iter().any(holds)
            // Roles belong to no database.
            || !matches!(thing.kind.as_str(), "database" | "role") && deleted.iter().any(|gone| outer(&gone)))
}

/// Whether the URL of `inner` contains the name of `outer` as a segment, with more after it: `…/permissions/shop/guest` is removed with
/// `…/vhosts/shop`.
fn lies_under_name(inner: &Thing, outer: &Thing) -> bool {
    let segments = |thing: &Thing| thing.name.as_ref().filter(|name| name.is_known()).map(|name| name.split('/'));
    let (Some(inner), Some(outer)) = (segments(inner), segments(outer)) else { return false };
    // The segments `https:`, an empty one and the host; or one placeholder for all of them.
    let host = |url: &[Value]| if url.get(1).is_some_and(|part| *part == Value::default()) { 3 } else { 1 };
    let (begin, Some(name)) = (host(&outer), outer.last()) else { return false };
    outer.len() > begin + 1
        && inner.get(..begin) == outer.get(..begin)
        && name.shown().len() > 2
        && inner.len() > begin + 2
        && inner[begin + 1..inner.len() - 1].contains(name)
}

/// Whether the path of `inner` starts with that of `outer`, or one of them is not known.
fn lies_in(inner: &Thing, outer: &Thing) -> bool {
    if inner.name.is_none() || outer.name.is_none() {
        return true;
    }
    path(inner).strip_prefix(&path(outer)).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
