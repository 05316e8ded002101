//! The effects of steps that are not scripts: files, requests, operations of extensions, and tools of MCP servers, determined by their
//! names and arguments.

use rustc_hash::FxHashMap;

use super::{Act, Given, Model, Thing, Variables, Verb, loop_name, manifest, of_object, of_template, value::Value};
use crate::{
    bash::tools,
    hir::{Arg, ArgKind, BlockRole, Def, OperationKind, PhaseKind, Step, Task},
    signature::{Control, Effects},
    source::{Span, resolve},
    template::SegmentKind,
};

/// The maximum number of rounds of a `foreach` over a literal list.
const ROUNDS: usize = 32;

/// The maximum number of rounds in which a script or a request is followed.
const FOLLOWED: usize = 16;

/// The variables in each round of the `foreach` steps that contain a step, by the key of the step. Steps outside of any loop are left out, and
/// so are those of loops over other than literal lists or with more than [`FOLLOWED`] rounds.
pub fn rounds(task: &Task<Def>, environment: &Variables) -> FxHashMap<Span, Vec<Round>> {
    let mut found = FxHashMap::default();
    let outside = [Round { number: None, variables: environment.clone() }];
    for phase in PhaseKind::ALL {
        task.phase(phase).steps.iter().for_each(|step| in_rounds(step, &outside, &mut found));
    }
    found
}

/// A round of a loop.
#[derive(Clone, Debug)]
pub struct Round {
    /// The ID of the innermost loop and the index of its round, if the loop has an ID.
    pub number: Option<(String, usize)>,
    pub variables: Variables,
}

fn in_rounds(step: &Step<Def>, outside: &[Round], found: &mut FxHashMap<Span, Vec<Round>>) {
    let is_inside = outside.len() > 1 || outside.iter().any(|round| round.variables.contains_key(IN_LOOP));
    if step.op.signature.control == Control::Leaf {
        if is_inside {
            found.insert(step.key, outside.to_vec());
        }
        return;
    }
    let listed = literal_list(step).filter(|(values, _)| values.len() * outside.len() <= FOLLOWED);
    let mut inner = Vec::new();
    for outer in outside.iter().filter(|_| listed.is_some()) {
        for (nth, value) in listed.iter().flat_map(|(values, _)| values.iter().enumerate()) {
            let mut round = outer.clone();
            round.variables.insert(IN_LOOP.to_owned(), Value::default());
            round.number = step.id.as_ref().map(|id| (id.value.clone(), nth));
            if let Some((_, name)) = listed {
                of_round(name, &mut Vec::new(), value, &outer.variables, &mut round.variables);
            }
            inner.push(round);
        }
    }
    let within = if listed.is_some() { &inner } else { outside };
    step.blocks.iter().flat_map(|block| &block.steps).for_each(|step| in_rounds(step, within, found));
}

/// The key that marks the variables of a round. No real variable can have this name.
const IN_LOOP: &str = "{}";

/// The values of a `foreach` over a literal list, and the name of its variable.
fn literal_list(step: &Step<Def>) -> Option<(&Vec<Arg<Def>>, &str)> {
    match step.arg("in").map(|values| &values.kind) {
        Some(ArgKind::List(values)) if step.op.signature.control == Control::Each && values.len() <= ROUNDS => {
            Some((values, step.var.as_ref()?.value.as_str()))
        }
        _ => None,
    }
}

/// Follows the steps of a task.
pub(super) fn steps(given: Given<'_>, environment: &Variables, model: &mut Model<'_>) {
    for phase in PhaseKind::ALL {
        for step in &given.task.phase(phase).steps {
            follow(step, Place { phase, maybe: false }, given, environment, model);
        }
    }
}

/// The context of a step.
#[derive(Clone, Copy)]
struct Place {
    phase: PhaseKind,
    /// Whether it may not run at all.
    maybe: bool,
}

fn follow(step: &Step<Def>, place: Place, given: Given<'_>, environment: &Variables, model: &mut Model<'_>) {
    let control = step.op.signature.control;
    if control == Control::Leaf {
        leaf(step, place, given, environment, model);
        return;
    }
    let mut inside = |environment: &Variables| {
        for block in &step.blocks {
            let phase = match block.role {
                BlockRole::Setup if place.phase == PhaseKind::Verify => PhaseKind::Setup,
                BlockRole::Cleanup => PhaseKind::Cleanup,
                _ => place.phase,
            };
            let maybe = place.maybe || control == Control::Any;
            block.steps.iter().for_each(|step| follow(step, Place { phase, maybe }, given, environment, model));
        }
    };
    match literal_list(step) {
        Some((values, name)) => {
            for value in values {
                let mut within = environment.clone();
                of_round(name, &mut Vec::new(), value, environment, &mut within);
                inside(&within);
            }
        }
        None => inside(environment),
    }
}

/// Records the value of a round, and all values inside it.
fn of_round(name: &str, path: &mut Vec<SegmentKind>, value: &Arg<Def>, outer: &Variables, environment: &mut Variables) {
    environment.insert(loop_name(name, &*path), text_of(value, outer));
    let inner: Vec<(SegmentKind, &Arg<Def>)> = match &value.kind {
        ArgKind::Record(fields) => {
            fields.iter().map(|(key, arg)| (SegmentKind::Name(key.value.clone()), arg)).collect()
        }
        ArgKind::List(items) => (0..).map(SegmentKind::Index).zip(items).collect(),
        _ => Vec::new(),
    };
    for (segment, arg) in inner {
        path.push(segment);
        of_round(name, path, arg, outer, environment);
        path.pop();
    }
}

fn text_of(arg: &Arg<Def>, environment: &Variables) -> Value {
    match &arg.kind {
        ArgKind::Text(template) => of_template(template, environment),
        _ => arg.as_value().map_or_else(Value::unknown, |value| Value::text(value.to_string())),
    }
}

/// What is done, and to which resource.
type Done = (Verb, Thing);

fn leaf(step: &Step<Def>, place: Place, given: Given<'_>, environment: &Variables, model: &mut Model<'_>) {
    // The arguments of a tool are grouped under `args`.
    let find = |key: &str| step.arg(key).or_else(|| step.arg("args")?.get(key));
    let arg = |key: &str| match &find(key)?.kind {
        ArgKind::Text(template) => Some(of_template(template, environment)),
        ArgKind::List(_) | ArgKind::Record(_) => None,
        _ => find(key).map(|arg| text_of(arg, environment)),
    };
    let thing = |system: &str, kind: &str, name: Option<Value>| Thing {
        system: system.to_owned(),
        kind: kind.to_owned(),
        space: None,
        name,
    };
    let done: Option<Vec<Done>> = match &step.op.kind {
        OperationKind::Builtin("file") => {
            let verb = match (step.arg("content"), step.arg("absent").and_then(Arg::as_value)) {
                (Some(_), _) => Verb::Creates,
                (None, Some(serde_json::Value::Bool(true))) if place.phase != PhaseKind::Verify => Verb::Deletes,
                _ => Verb::Reads,
            };
            let path = arg("path").map(|path| match path.literal() {
                Some(path) => Value::text(resolve(&given.task.dir, path).to_string_lossy()),
                None => path,
            });
            Some(path.map(|path| (verb, thing("file", "file", Some(path)))).into_iter().collect())
        }
        OperationKind::Builtin("http") => {
            let method = arg("method").and_then(|method| method.literal().map(str::to_uppercase));
            let verb = match method.as_deref().unwrap_or("GET") {
                "GET" | "HEAD" | "OPTIONS" => Verb::Reads,
                "DELETE" => Verb::Deletes,
                "POST" | "PUT" => Verb::Creates,
                _ => Verb::Changes,
            };
            let urls = arg("url").map(|url| resources(&url)).unwrap_or_default();
            Some(urls.into_iter().map(|url| (verb, thing("http", "url", Some(url)))).collect())
        }
        OperationKind::Extension { operation, .. } => {
            let mut found = on_kubernetes(operation, step, &arg, given, environment);
            found.extend(described(operation, step, &arg, given, environment).unwrap_or_default());
            (!found.is_empty()).then_some(found)
        }
        OperationKind::Tool { server, tool } => by_tool((server, tool), step, &arg, environment, given),
        _ => Some(Vec::new()),
    };
    let is_apply = matches!(&step.op.kind, OperationKind::Extension { operation, .. } if operation == "apply");
    let lenient = step.continue_on_error.as_ref().is_some_and(|lenient| lenient.value);
    match done {
        None => model.opaque.push(place.phase),
        Some(done) => model.acts.extend(done.into_iter().map(|(verb, thing)| Act {
            phase: place.phase,
            verb,
            thing,
            span: step.key,
            step: step.key,
            maybe: place.maybe,
            lenient,
            again: place.maybe || lenient || is_apply,
        })),
    }
}

/// The resources that a URL names, without its query. `…/a,b` names two.
pub(super) fn resources(url: &Value) -> Vec<Value> {
    let path = url.split('?').into_iter().next().unwrap_or_default();
    let mut segments = path.split('/');
    let names = segments.pop().map(|last| last.split(',')).unwrap_or_default();
    if names.len() < 2 {
        return vec![path];
    }
    let mut begin = Value::default();
    for segment in &segments {
        begin.append(segment);
        begin.push(super::value::Piece::Text("/".to_owned()));
    }
    let of = |name: Value| {
        let mut url = begin.clone();
        url.append(&name);
        url
    };
    names.into_iter().map(of).collect()
}

/// The objects in the manifest that an operation is given.
fn described(
    operation: &str,
    step: &Step<Def>,
    arg: &dyn Fn(&str) -> Option<Value>,
    given: Given<'_>,
    environment: &Variables,
) -> Option<Vec<Done>> {
    let tool = given.tools.tool("kubectl")?;
    let verb = match operation {
        "apply" | "create" => Verb::Creates,
        "delete" => Verb::Deletes,
        _ => return None,
    };
    let inline = step.arg("inline").or_else(|| step.arg("manifest")).map(|arg| match &arg.kind {
        ArgKind::List(items) => items.iter().collect(),
        _ => vec![arg],
    });
    if let Some(records) = inline.filter(|records| records.iter().all(|record| record.get("kind").is_some())) {
        let object = |record: &Arg<Def>| {
            let inner = |key: &str| Some(text_of(record.get("metadata")?.get(key)?, environment));
            let kind = text_of(record.get("kind")?, environment).literal()?.to_lowercase();
            let object = manifest::Object { kind, name: inner("name")?, namespace: inner("namespace") };
            Some((verb, of_object(object, arg("namespace"), tool)))
        };
        return records.into_iter().map(object).collect();
    }
    let text = match (arg("inline").or_else(|| arg("manifest")), step.arg("file").and_then(|file| file.as_literal())) {
        (Some(text), _) => text,
        (None, Some(file)) => {
            Value::text(String::from_utf8(given.files.read(&resolve(&given.task.dir, file)).ok()?).ok()?)
        }
        (None, None) => return None,
    };
    let objects = manifest::objects(&text)?;
    Some(objects.into_iter().map(|object| (verb, of_object(object, arg("namespace"), tool))).collect())
}

/// The effects of an operation on Kubernetes, according to its name and arguments; empty if these do not determine
/// them.
fn on_kubernetes(
    operation: &str,
    step: &Step<Def>,
    arg: &dyn Fn(&str) -> Option<Value>,
    given: Given<'_>,
    environment: &Variables,
) -> Vec<Done> {
    let Some(tool) = given.tools.tool("kubectl") else { return Vec::new() };
    let inner = |key: &str| Some(text_of(step.arg("metadata")?.get(key)?, environment));
    let words = words(operation);
    let is = |known: &[&str]| words.iter().any(|word| known.contains(&word.as_str()));
    let verb = match () {
        () if is(&["create", "apply", "run", "expose"]) => Verb::Creates,
        () if is(&["delete", "remove"]) => Verb::Deletes,
        () if is(&["wait", "ready", "rollout"]) => Verb::Awaits,
        () if is(&["scale", "patch", "label", "annotate", "set", "restart"]) => Verb::Changes,
        () => Verb::Reads,
    };
    if words.first().is_some_and(|word| word == "helm") {
        let verb = match () {
            () if is(&["install", "upgrade"]) => Verb::Creates,
            () if is(&["uninstall"]) => Verb::Deletes,
            () => Verb::Reads,
        };
        let thing =
            |name| Thing { system: "helm".to_owned(), kind: "release".to_owned(), space: arg("namespace"), name };
        let name = arg("name").or_else(|| arg("release"));
        return if name.is_some() || verb == Verb::Reads { vec![(verb, thing(name))] } else { Vec::new() };
    }
    let resource = arg("resource").map(|resource| resource.split('/'));
    // A permission is for a kind of resources, or for a part of them: `pods/log`.
    let is_permission = operation == "can-i";
    let (kind, name) = match resource.as_deref() {
        Some([kind, _]) if is_permission => (kind.literal().map(str::to_owned), None),
        Some([kind, name]) => (kind.literal().map(str::to_owned), Some(name.clone())),
        Some([kind]) => (kind.literal().map(str::to_owned), arg("name")),
        _ => {
            let named = words.iter().find(|word| tool.kind(word).is_some()).cloned();
            let kind = arg("kind").and_then(|kind| kind.literal().map(str::to_owned)).or(named);
            (kind, arg("name").or_else(|| inner("name")))
        }
    };
    match (kind, name) {
        (Some(kind), Some(name)) => {
            vec![(verb, object(&kind, arg("namespace").or_else(|| inner("namespace")), name, tool))]
        }
        // All resources of a kind.
        (Some(kind), None) if is(&["count"]) => {
            let all = object(&kind, arg("namespace"), Value::default(), tool);
            vec![(verb, Thing { name: None, ..all })]
        }
        _ => Vec::new(),
    }
}

fn object(kind: &str, space: Option<Value>, name: Value, tool: &tools::Tool) -> Thing {
    of_object(manifest::Object { kind: kind.to_lowercase(), name, namespace: None }, space, tool)
}

/// The words of a name in lower case: `notes_create`, `listPods`.
pub fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = vec![String::new()];
    let mut before = ' ';
    for c in name.chars() {
        if !c.is_ascii_alphanumeric() || c.is_ascii_uppercase() && before.is_ascii_lowercase() {
            words.push(String::new());
        }
        if let Some(last) = words.last_mut().filter(|_| c.is_ascii_alphanumeric()) {
            last.push(c.to_ascii_lowercase());
        }
        before = c;
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Words in the names of tools that indicate what they do.
const VERBS: [(Verb, &[&str]); 4] = [
    (
        Verb::Reads,
        &[
            "get", "read", "list", "search", "find", "query", "show", "describe", "fetch", "view", "count", "check",
            "exists", "log", "logs", "status", "top", "stat", "open",
        ],
    ),
    (Verb::Deletes, &["delete", "remove", "uninstall", "destroy", "drop", "purge", "unlink"]),
    (
        Verb::Changes,
        &[
            "update", "patch", "append", "set", "edit", "modify", "rename", "move", "scale", "restart", "replace",
            "rollback", "assign", "close", "reopen", "complete", "merge", "upgrade",
        ],
    ),
    (
        Verb::Creates,
        &["create", "add", "new", "insert", "write", "put", "upload", "save", "make", "run", "install", "register"],
    ),
];

/// Arguments that contain the name of a resource.
const NAMES: [&str; 11] =
    ["name", "title", "path", "key", "slug", "id", "uri", "filename", "file_path", "filePath", "table"];

/// The effects of a tool, according to its name and arguments. Returns `None` if these do not determine them.
fn by_tool(
    (server, name): (&str, &str),
    step: &Step<Def>,
    arg: &dyn Fn(&str) -> Option<Value>,
    environment: &Variables,
    given: Given<'_>,
) -> Option<Vec<Done>> {
    let words = words(name);
    let said = words.iter().find_map(|word| VERBS.iter().find(|(_, known)| known.contains(&word.as_str())));
    let looks = step.op.signature.effects == Effects::None;
    let verb = match said {
        _ if looks => Verb::Reads,
        Some((verb, _)) => *verb,
        None => return None,
    };
    let is_verb = |word: &String| VERBS.iter().any(|(_, known)| known.contains(&word.as_str()));
    let nouns: Vec<String> = words.iter().filter(|word| !is_verb(word)).map(|word| singular(word)).collect();
    let nouns: Vec<&str> = nouns.iter().map(String::as_str).collect();
    let named = NAMES.iter().find_map(|key| arg(key));
    let kubectl = given.tools.tool("kubectl")?;
    if let Some(objects) = arg("resource").or_else(|| arg("manifest")).as_ref().and_then(manifest::objects) {
        return Some(objects.into_iter().map(|object| (verb, of_object(object, arg("namespace"), kubectl))).collect());
    }
    let known = || nouns.iter().copied().find(|noun| kubectl.kind(noun).is_some());
    let kind = arg("kind").and_then(|kind| kind.literal().map(str::to_owned));
    if let Some(kind) = kind.or_else(|| known().filter(|_| arg("namespace").is_some()).map(str::to_owned)) {
        return Some(named.map(|name| (verb, object(&kind, arg("namespace"), name, kubectl))).into_iter().collect());
    }
    let (system, kind) = match nouns.as_slice() {
        _ if nouns.contains(&"helm") => ("helm", "release".to_owned()),
        _ if nouns.contains(&"file") || nouns.contains(&"directory") => ("file", "file".to_owned()),
        _ => (server, nouns.join(" ")),
    };
    let space = arg("namespace").filter(|_| system == "helm");
    let thing = |name| Thing { system: system.to_owned(), kind: kind.clone(), space: space.clone(), name };
    let several = if named.is_none() { listed(step, environment) } else { Vec::new() };
    if !several.is_empty() {
        return Some(several.into_iter().map(|name| (verb, thing(Some(name)))).collect());
    }
    // The server chooses the name of a new resource if none is given.
    let name = match verb {
        Verb::Creates => Some(named.unwrap_or_else(Value::unknown)),
        _ => named,
    };
    Some(vec![(verb, thing(name))])
}

/// The singular of a word: `entity` for `entities`.
fn singular(word: &str) -> String {
    match word.strip_suffix("ies") {
        Some(stem) if stem.len() > 2 => format!("{stem}y"),
        _ => word.strip_suffix('s').unwrap_or(word).to_owned(),
    }
}

/// The names of several resources: `names: [a, b]`, `entities: [{name: a}, {name: b}]`. Empty if one of the names is not
/// known.
fn listed(step: &Step<Def>, environment: &Variables) -> Vec<Value> {
    let Some(ArgKind::Record(args)) = step.arg("args").map(|args| &args.kind) else { return Vec::new() };
    let lists = args.iter().filter_map(|(key, arg)| match &arg.kind {
        ArgKind::List(items) if !items.is_empty() => Some((key.value.as_str(), items)),
        _ => None,
    });
    let lists: Vec<_> = lists.collect();
    let [(key, items)] = lists.as_slice() else { return Vec::new() };
    let last = words(key).pop().map(|word| singular(&word)).unwrap_or_default();
    let name = |item: &Arg<Def>| match &item.kind {
        ArgKind::Text(template) => NAMES.contains(&last.as_str()).then(|| of_template(template, environment)),
        ArgKind::Record(_) => NAMES.iter().find_map(|key| item.get(key)).map(|arg| text_of(arg, environment)),
        _ => None,
    };
    items.iter().map(name).collect::<Option<Vec<_>>>().unwrap_or_default()
}
