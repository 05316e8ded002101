//! Converts commands of kubectl to operations of `builtin:kubernetes`: what `--target kubernetes` does with the lifted steps.
//!
//! Every function here returns `None` if it does not understand a command, or if the operation would do something else: the step
//! then stays unchanged. `oc` stays as well, because its defaults differ.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    str::FromStr,
    time::Duration,
};

use super::{
    emit::{Entry, Item, Value, plain},
    lift::{TEMPORARY, of_body},
    step::{Expect, Kind, NOT_EMPTY, Range, Step, text_expect},
};
use crate::{
    bash::{
        self,
        ast::{self, Part},
        types::{self, Shape, Type},
    },
    builtin::command::ExitCode,
    diagnostic::Diagnostics,
    hir::PhaseKind,
    kubernetes::operation,
    source::Sources,
    template::{self, escape},
    ty::{duration, number},
    yaml::{self, Tree, parse},
};

/// The alias for tasks that do not import the extension yet.
pub const ALIAS: &str = "k8s";
/// The limit for a command that waits without a limit of its own: as long as a script may take.
const UNBOUNDED: &str = "5m";
/// An operation needs about so long until it knows the state.
const SHORTEST: Duration = Duration::from_millis(100);

/// The result of converting the commands of a task.
#[derive(Debug, Default)]
pub struct Lifted {
    /// How many commands became operations.
    pub operations: usize,
    pub commands: usize,
    /// Whether one of them has no namespace.
    pub unplaced: bool,
    /// Whether a cleanup reports a failure that the script ignored.
    pub reported: bool,
}

/// Turns the steps of a task into operations, as far as they are understood.
pub fn lift(
    phases: &mut [(PhaseKind, Vec<Step>)],
    alias: &str,
    constant: Constant<'_>,
    texts: &dyn Fn(&str) -> Vec<String>,
) -> Lifted {
    let all = format!("{phases:?}");
    let mut lifted = Lifted::default();
    let mut outputs = Vec::new();
    for (phase, steps) in phases.iter_mut() {
        let mut cx =
            Cx { phase: *phase, alias, constant, texts, all: &all, lifted: &mut lifted, outputs: &mut outputs };
        cx.list(steps);
    }
    // Outputs that other steps read have a new name now.
    for (_, steps) in phases.iter_mut() {
        for step in steps {
            step.each(&mut |step| {
                for (old, new) in &outputs {
                    step.replace(old, new);
                }
            });
        }
    }
    lifted
}

/// Returns the value of a variable in `spec.env`, if it is known, and whether the environment may override it.
type Constant<'a> = &'a dyn Fn(&str) -> Option<(String, bool)>;

struct Cx<'a> {
    phase: PhaseKind,
    alias: &'a str,
    constant: Constant<'a>,
    /// The texts of a file, or of the files of a directory. None if it is not known before the run.
    texts: &'a dyn Fn(&str) -> Vec<String>,
    /// The task before the conversion, to see what is used where.
    all: &'a str,
    lifted: &'a mut Lifted,
    outputs: &'a mut Vec<(String, String)>,
}

impl Cx<'_> {
    fn list(&mut self, steps: &mut Vec<Step>) {
        for inner in steps.iter_mut().flat_map(Step::lists) {
            self.list(inner);
        }
        let mut at = 0;
        while at < steps.len() {
            let handed = at.checked_sub(1).and_then(|before| self.handed(&steps[before], &steps[at]));
            let made = match &handed {
                Some(content) => self.of_manifest(&steps[at], content),
                None => self.of_command(&steps[at]),
            };
            if is_kubectl(&steps[at]) {
                self.lifted.commands += usize::from(made.is_none());
                self.lifted.operations += usize::from(made.is_some());
            }
            if let Some(made) = made {
                steps[at] = made;
                if handed.is_some() {
                    let file = steps.remove(at - 1);
                    at -= 1;
                    steps[at].comments.splice(0..0, file.comments);
                }
            }
            at += 1;
        }
    }

    /// Returns the text of a file that the previous step writes only for this one.
    fn handed(&self, file: &Step, command: &Step) -> Option<String> {
        let Kind::File { path, content: Some(content), mode: None } = &file.kind else { return None };
        let Kind::Command { env, .. } = &command.kind else { return None };
        let own = path.starts_with(TEMPORARY) && file.id.is_none() && self.all.matches(path.as_str()).count() == 2;
        (own && env.iter().any(|(_, value)| value == path)).then(|| content.clone())
    }

    /// `kubectl apply -f FILE`, with the content of the file.
    fn of_manifest(&mut self, step: &Step, content: &str) -> Option<Step> {
        let Kind::Command { run, shell: None, workdir: None, env, expect } = &step.kind else { return None };
        let kubectl = Kubectl::read(run, env, self.constant)?;
        self.is_settled(&kubectl).then_some(())?;
        (*expect == Expect::default() && step.id.is_none() && self.phase != PhaseKind::Verify).then_some(())?;
        kubectl.only(&["filename", "namespace"])?;
        match (kubectl.verb.as_str(), kubectl.words.as_slice()) {
            ("apply", []) => {
                is_same(&[content.to_owned()], kubectl.flag("namespace")).then_some(())?;
                let mut body = vec![Entry::new("inline", Value::text(content))];
                kubectl.namespace(&mut body);
                Some(self.operation(step, "apply", body))
            }
            ("create", []) => {
                let body = manifest(content, kubectl.flag("namespace"))?;
                Some(self.operation(step, "create", body))
            }
            _ => None,
        }
    }

    fn of_command(&mut self, step: &Step) -> Option<Step> {
        let Kind::Command { run, shell: None, workdir, env, expect } = &step.kind else { return None };
        let mut kubectl = Kubectl::read(run, env, self.constant)?;
        self.is_settled(&kubectl).then_some(())?;
        // A limit must be known before the run.
        if let Some(limit) = kubectl.flags.get_mut("timeout")
            && let Some(name) = limit.strip_prefix("{env.").and_then(|name| name.strip_suffix('}'))
        {
            let (value, open) = (self.constant)(name)?;
            (!open).then_some(())?;
            *limit = value;
        }
        let kubectl = kubectl;
        let read = step.id.as_ref().is_some_and(|id| self.all.contains(&format!("{{steps.{id}.outputs.")));
        let looks = matches!(kubectl.verb.as_str(), "get" | "wait" | "auth" | "exec" | "logs")
            || kubectl.verb == "rollout" && kubectl.words.first().is_some_and(|w| w == "status");
        (looks || self.phase != PhaseKind::Verify).then_some(())?;
        // Only `get` has an output that other steps can read.
        (!read || kubectl.verb == "get").then_some(())?;
        let quiet = *expect == Expect::default();
        let (name, body) = match kubectl.verb.as_str() {
            "get" => return self.get(step, &kubectl, expect, read),
            "wait" if quiet => ("wait", wait(&kubectl)?),
            "delete" => {
                let any = expect.exit_code == ExitCode::Any && !expect.of_text();
                (quiet || any).then_some(())?;
                // The operation ignores that the cluster does not have the kind, and the command does not.
                let strict = !any && self.phase != PhaseKind::Cleanup && kubectl.switch("ignore-not-found", false)?;
                (!strict || kubectl.is_served()).then_some(())?;
                delete(&kubectl, any)?
            }
            "apply" if quiet => ("apply", apply(&kubectl, workdir.as_deref(), self.texts)?),
            "create" if quiet => {
                kubectl.only(&[])?;
                let [kind, name] = kubectl.words.as_slice() else { return None };
                matches!(kind.as_str(), "namespace" | "namespaces" | "ns").then_some(())?;
                ("create-namespace", vec![Entry::new("name", Value::text(name))])
            }
            "rollout" if quiet => rollout(&kubectl)?,
            "scale" if quiet => ("scale", scale(&kubectl)?),
            "patch" if quiet => ("patch", patch(&kubectl)?),
            "annotate" | "label" if quiet => marks(&kubectl)?,
            "auth" => ("can-i", can_i(&kubectl, expect)?),
            "exec" => ("exec", exec(&kubectl, expect)?),
            "logs" => ("logs", logs(&kubectl, expect)?),
            _ => return None,
        };
        self.placed(&kubectl, &body);
        let mut made = self.operation(step, name, body);
        if expect.exit_code == ExitCode::Any && kubectl.verb == "delete" {
            // `|| true`: cleanup continues anyway.
            made.continue_on_error |= self.phase != PhaseKind::Cleanup;
            self.lifted.reported |= self.phase == PhaseKind::Cleanup;
        }
        Some(made)
    }

    /// Whether the namespace of a command is certain: not that of the context if the task changes the context.
    fn is_settled(&self, kubectl: &Kubectl) -> bool {
        let changes = ["set-context", "use-context", "kubens"].iter().any(|word| self.all.contains(word));
        let own = ["namespace", "all-namespaces"].iter().any(|name| kubectl.flag(name).is_some());
        !changes || own || kubectl.words.iter().any(|word| is_of_cluster(word))
    }

    /// Records whether a command uses the namespace of the context.
    fn placed(&mut self, kubectl: &Kubectl, body: &[Entry]) {
        let about = |entry: &Entry| matches!(&entry.value, Value::Text(text) if is_of_cluster(text));
        let cluster = body.iter().any(|e| matches!(e.key.as_str(), "resource" | "kind") && about(e));
        let named = body.iter().any(|e| e.key == "namespace" || e.key == "allNamespaces" || e.key == "inline");
        self.lifted.unplaced |= !cluster && !named && !matches!(kubectl.verb.as_str(), "create" | "apply");
    }

    fn operation(&self, step: &Step, name: &str, body: Vec<Entry>) -> Step {
        // An operation with a limit as its argument needs no other one.
        let own = ["wait", "delete", "delete-namespace", "rollout"].contains(&name);
        let timeout = step.timeout.clone().filter(|_| !own);
        Step { timeout, kind: Kind::Kept { operation: format!("{}.{name}", self.alias), body }, ..step.clone() }
    }

    fn get(&mut self, step: &Step, kubectl: &Kubectl, expect: &Expect, read: bool) -> Option<Step> {
        kubectl.only(&["namespace", "output", "selector"])?;
        let mut body = kubectl.chosen()?;
        let output = kubectl.flag("output");
        let Some(path) = output.and_then(|output| output.strip_prefix("jsonpath=")) else {
            let one = kubectl.one().is_some() && output.is_none() && !expect.of_text() && !read;
            let name = match expect.exit_code {
                ExitCode::Is(0) => "resource-exists",
                ExitCode::Is(1) => "resource-absent",
                _ => return None,
            };
            one.then_some(())?;
            self.placed(kubectl, &body);
            return Some(self.operation(step, name, body));
        };
        let any = match expect.exit_code {
            ExitCode::Is(0) => false,
            ExitCode::Any => true,
            ExitCode::Is(_) | ExitCode::Not(_) => return None,
        };
        let demands = expect.of_text() && expect.equals.as_deref() != Some("") && expect.not.is_none();
        // Two texts may both be empty, but an operation that is compared with an empty text is broken.
        (!expect.equals.as_ref().is_some_and(|text| text.contains("{steps."))).then_some(())?;
        // A command that fails prints nothing, which does not meet a demand. Without a demand, the script would have continued.
        (demands || !any).then_some(())?;
        body.push(Entry::new("jsonpath", Value::text(escape(&one_path(path)?))));
        if !demands {
            // For an index that is out of range, kubectl fails; for a field that is missing, it does not.
            (!has_index(path)).then_some(())?;
            body.push(Entry::new("optional", Value::bool(true)));
        }
        if let Some(id) = step.id.as_ref().filter(|_| read) {
            // Only its text is read, not its exit status.
            let uses = |what: &str| self.all.matches(&format!("{{steps.{id}.outputs.{what}")).count();
            (uses("") == uses("stdout")).then_some(())?;
            let output = |name: &str| format!("{{steps.{id}.outputs.{name}");
            self.outputs.push((output("stdout"), output("text")));
        }
        // `$(…)` removes line feeds at the end.
        let expect = Expect { matches: expect.matches.clone().map(of_body), ..expect.clone() };
        if let Some(text) = text_expect(expect.demands()) {
            body.push(Entry::new("expect", Value::map([("text", text)])));
        }
        self.placed(kubectl, &body);
        Some(self.operation(step, "get", body))
    }
}

/// Whether a path selects an item of a list by its position: `.items[0]`, `.items[-1:]`.
fn has_index(path: &str) -> bool {
    path.match_indices('[')
        .any(|(at, _)| path[at + 1..].starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | ':')))
}

fn is_kubectl(step: &Step) -> bool {
    matches!(&step.kind, Kind::Command { run, .. } if run.starts_with("kubectl "))
}

/// Whether a resource is of a built-in kind without a namespace. `resource` starts with its kind, as in `KIND/NAME`.
fn is_of_cluster(resource: &str) -> bool {
    const KINDS: [&str; 18] = [
        "namespace",
        "namespaces",
        "ns",
        "node",
        "nodes",
        "no",
        "clusterrole",
        "clusterroles",
        "clusterrolebinding",
        "clusterrolebindings",
        "crd",
        "crds",
        "customresourcedefinition",
        "customresourcedefinitions",
        "pv",
        "persistentvolume",
        "storageclass",
        "ingressclass",
    ];
    let kind = resource.split('/').next().unwrap_or_default();
    KINDS.contains(&kind.split('.').next().unwrap_or_default())
}

/// A command line of kubectl. Its texts are templates.
#[derive(Debug)]
struct Kubectl {
    verb: String,
    /// The words after the verb that are not options.
    words: Vec<String>,
    /// By long name.
    flags: BTreeMap<&'static str, String>,
    /// The words after `--`.
    command: Vec<String>,
}

/// Options with a value, and their short names.
const VALUED: [(&str, &str); 15] = [
    ("namespace", "n"),
    ("selector", "l"),
    ("output", "o"),
    ("filename", "f"),
    ("patch", "p"),
    ("container", "c"),
    ("timeout", ""),
    ("for", ""),
    ("type", ""),
    ("replicas", ""),
    ("as", ""),
    ("subresource", ""),
    ("tail", ""),
    ("grace-period", ""),
    ("field-selector", ""),
];
/// Options without a value, or with a boolean after `=`.
const SWITCHES: [(&str, &str); 9] = [
    ("ignore-not-found", ""),
    ("wait", ""),
    ("all", ""),
    ("all-namespaces", "A"),
    ("overwrite", ""),
    ("previous", ""),
    ("quiet", "q"),
    ("server-side", ""),
    ("no-headers", ""),
];

impl Kubectl {
    fn read(run: &str, env: &[(String, String)], constant: Constant<'_>) -> Option<Self> {
        (!env.iter().any(|(name, _)| is_read(name))).then_some(())?;
        let words = words(run, env, constant)?;
        let (name, rest) = words.split_first()?;
        (name == "kubectl").then_some(())?;
        let mut found = Self { verb: String::new(), words: Vec::new(), flags: BTreeMap::new(), command: Vec::new() };
        let mut rest = rest.iter();
        while let Some(word) = rest.next() {
            if word == "--" {
                found.command = rest.cloned().collect();
                break;
            }
            let Some(option) = word.strip_prefix('-').filter(|option| !option.is_empty()) else {
                if found.verb.is_empty() {
                    found.verb.clone_from(word)
                } else {
                    found.words.push(word.clone())
                }
                continue;
            };
            let (name, value) = match option.strip_prefix('-') {
                Some(long) => long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value.to_owned()))),
                None => {
                    let (short, joined) = option.split_at(option.chars().next()?.len_utf8());
                    (short, (!joined.is_empty()).then(|| joined.trim_start_matches('=').to_owned()))
                }
            };
            let short = !word.starts_with("--");
            let named = |(long, brief): &&(&'static str, &str)| if short { *brief == name } else { *long == name };
            let (name, value) = if let Some((name, _)) = VALUED.iter().find(named) {
                (*name, value.or_else(|| rest.next().cloned())?)
            } else {
                let (name, _) = SWITCHES.iter().find(named)?;
                (*name, value.unwrap_or_else(|| "true".to_owned()))
            };
            // An option that is given twice is not understood.
            found.flags.insert(name, value).is_none().then_some(())?;
        }
        let is_namespace = found.flag("namespace").is_none_or(is_name);
        (!found.verb.is_empty() && is_namespace).then_some(found)
    }

    fn flag(&self, name: &str) -> Option<&str> {
        self.flags.get(name).map(String::as_str)
    }

    fn switch(&self, name: &str, default: bool) -> Option<bool> {
        match self.flag(name) {
            None => Some(default),
            Some("true") => Some(true),
            Some("false") => Some(false),
            Some(_) => None,
        }
    }

    /// Requires that it has no options except these.
    fn only(&self, names: &[&str]) -> Option<()> {
        (self.flags.keys().all(|name| names.contains(name)) && self.command.is_empty()).then_some(())
    }

    fn namespace(&self, body: &mut Vec<Entry>) {
        if let Some(namespace) = self.flag("namespace") {
            body.push(Entry::new("namespace", Value::text(namespace)));
        }
    }

    /// Returns the only object that it names, as `KIND/NAME`.
    fn one(&self) -> Option<String> {
        one_of(&self.words)
    }

    /// Whether every cluster has the kind that it names.
    fn is_served(&self) -> bool {
        let kind = self.words.first().and_then(|word| word.split('/').next());
        kind.is_some_and(operation::is_served)
    }

    /// Returns `resource`, or `kind` and `selector`, and the namespace.
    fn chosen(&self) -> Option<Vec<Entry>> {
        let mut body = match (self.one(), self.flag("selector"), self.words.as_slice()) {
            (Some(resource), None, _) => vec![Entry::new("resource", Value::text(resource))],
            (None, selector, [kind]) if is_kind(kind) && !selector.is_some_and(str::is_empty) => {
                vec![Entry::new("kind", Value::text(kind)), Entry::new("selector", Value::text(selector?))]
            }
            _ => return None,
        };
        self.namespace(&mut body);
        Some(body)
    }

    /// Returns the time limit in the form that operations accept.
    fn timeout(&self, default: &str) -> Option<Entry> {
        let text = self.flag("timeout").unwrap_or(default);
        // `wait` reads `-1s` as a week.
        let limit = if self.verb == "wait" { text.trim_start_matches('-') } else { text };
        let span = duration::parse(limit).ok()?;
        let is_open = span.is_zero() || limit != text;
        (is_open || span >= SHORTEST).then_some(())?;
        Some(Entry::new("timeout", Value::text(if is_open { UNBOUNDED } else { text })))
    }
}

/// Returns the words of a simple command, as templates.
fn words(run: &str, env: &[(String, String)], constant: Constant<'_>) -> Option<Vec<String>> {
    // A shell and a template interpret escapes differently.
    (escape(run) == run).then_some(())?;
    let script = bash::parse(run)?;
    let list = ast::read(&script)?;
    let [ast::Stmt { kind: ast::Kind::Simple(simple), background: false, .. }] = list.as_slice() else { return None };
    (simple.redirects.is_empty() && simple.env.is_empty()).then_some(())?;
    let part = |part: &Part| match part {
        Part::Text { text, .. } => Some(text.clone()),
        Part::Var { name, default: None, quoted } => match env.iter().find(|(other, _)| other == name) {
            // Without quotes it may be several words.
            Some((_, value)) => quoted.then(|| value.clone()),
            None => {
                constant(name).filter(|(value, _)| *quoted || bash::is_safe(value)).map(|_| format!("{{env.{name}}}"))
            }
        },
        _ => None,
    };
    simple.words.iter().map(|word| word.parts.iter().map(part).collect()).collect()
}

/// Returns the text of a template without holes.
fn literal(text: &str) -> Option<String> {
    match template::scan(text).pieces.as_slice() {
        [] => Some(String::new()),
        [template::Piece::Text(text)] => Some(text.clone()),
        _ => None,
    }
}

fn is_kind(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-')) && word != "all"
}

/// Whether kubectl sends a name as it is.
fn is_name(word: &str) -> bool {
    !word.is_empty() && !word.contains('/') && !word.contains(char::is_whitespace)
}

/// Whether kubectl, or the search for it, reads a variable of the environment.
fn is_read(name: &str) -> bool {
    matches!(name, "HOME" | "PATH") || name.starts_with("KUBE") || name.to_ascii_uppercase().ends_with("_PROXY")
}

fn one_of(words: &[String]) -> Option<String> {
    match words {
        [kind, name] if is_kind(kind) && is_name(name) => Some(format!("{kind}/{name}")),
        [one] => {
            let (kind, name) = one.split_once('/')?;
            (is_kind(kind) && is_name(name)).then(|| one.clone())
        }
        _ => None,
    }
}

/// Returns the path of a JSONPath template that consists of a single path, without its braces.
fn one_path(template: &str) -> Option<String> {
    let text = literal(template)?;
    let inner = text.trim().strip_prefix('{')?.strip_suffix('}')?.to_owned();
    let plain = inner.starts_with('.') && !inner.contains(['{', '}', '"', '\'']);
    let single = !inner.contains("..") && !inner.contains('*') && !inner.contains('?') && !inner.contains([',', ':']);
    (plain && single).then_some(inner)
}

fn wait(kubectl: &Kubectl) -> Option<Vec<Entry>> {
    kubectl.only(&["for", "timeout", "namespace", "selector"])?;
    let mut body = kubectl.chosen()?;
    let mut add = |key: &str, value: Value| body.push(Entry::new(key, value));
    let wanted = kubectl.flag("for")?;
    // kubectl does not wait for the object to be created.
    let mut existing = true;
    if let Some(condition) = wanted.strip_prefix("condition=") {
        let (name, status) = condition.split_once('=').unwrap_or((condition, "True"));
        add("condition", Value::text(name));
        if !status.eq_ignore_ascii_case("true") {
            let mut letters = status.chars();
            let first = letters.next()?.to_uppercase();
            add("status", Value::text(first.chain(letters.flat_map(char::to_lowercase)).collect::<String>()));
        }
    } else if let Some(path) = wanted.strip_prefix("jsonpath=") {
        let end = literal(path)?;
        let (path, value) = match end.split_once("}=") {
            Some((path, value)) => (format!("{path}}}"), Some(value.to_owned())),
            None => (end, None),
        };
        add("jsonpath", Value::text(escape(&one_path(&escape(&path))?)));
        if let Some(value) = value {
            // kubectl removes quotes and blanks, and accepts no other `=`.
            let bare = value.trim().trim_matches(['\'', '"']);
            let is_plain = !value.is_empty() && !value.contains('=') && bare == value;
            is_plain.then_some(())?;
            add("value", Value::text(escape(&value)));
        }
    } else {
        existing = false;
        match wanted {
            // The operation also waits for objects that are created meanwhile.
            "delete" if kubectl.is_served() && kubectl.flag("selector").is_none() => add("deleted", Value::bool(true)),
            "create" if kubectl.flag("selector").is_none() => add("created", Value::bool(true)),
            _ => return None,
        }
    }
    if existing {
        add("mustExist", Value::bool(true));
    }
    // Zero means to ask once.
    let once = |limit: &str| duration::parse(limit).is_ok_and(|limit| limit.is_zero());
    (!kubectl.flag("timeout").is_some_and(once)).then_some(())?;
    body.push(kubectl.timeout("30s")?);
    Some(body)
}

fn delete(kubectl: &Kubectl, any: bool) -> Option<(&'static str, Vec<Entry>)> {
    kubectl.only(&["namespace", "selector", "ignore-not-found", "wait", "timeout"])?;
    let ignore = kubectl.switch("ignore-not-found", false)? || any;
    let wait = kubectl.switch("wait", true)?;
    let limit = kubectl.timeout(UNBOUNDED)?;
    let namespace = kubectl.one().and_then(|one| {
        let (kind, name) = one.split_once('/')?;
        matches!(kind, "namespace" | "namespaces" | "ns").then(|| name.to_owned())
    });
    if let (Some(name), true) = (namespace, ignore) {
        let mut body = vec![Entry::new("name", Value::text(name))];
        if wait {
            body.push(Entry::new("wait", Value::bool(true)));
            body.push(limit);
        }
        return Some(("delete-namespace", body));
    }
    let mut body = kubectl.chosen()?;
    // If a selector matches nothing, that is not a failure in any case.
    if ignore && kubectl.flag("selector").is_none() {
        body.push(Entry::new("ignoreNotFound", Value::bool(true)));
    }
    body.push(if wait { limit } else { Entry::new("wait", Value::bool(false)) });
    Some(("delete", body))
}

fn apply(kubectl: &Kubectl, workdir: Option<&str>, texts: &dyn Fn(&str) -> Vec<String>) -> Option<Vec<Entry>> {
    kubectl.only(&["filename", "namespace"])?;
    let file = kubectl.flag("filename").filter(|_| kubectl.words.is_empty())?;
    (file != "-" && !file.contains("://")).then_some(())?;
    let file = match workdir {
        Some(dir) if !file.starts_with('/') => format!("{dir}/{file}"),
        _ => file.to_owned(),
    };
    is_same(&texts(&file), kubectl.flag("namespace")).then_some(())?;
    let mut body = vec![Entry::new("file", Value::text(file))];
    kubectl.namespace(&mut body);
    Some(body)
}

/// The tree of a text that kubectl reads in the same way.
fn yaml(text: &str) -> Option<Tree> {
    let file = Sources::default().add(Path::new("manifest.yaml"), text);
    let mut found = Diagnostics::default();
    let tree: Tree = parse(file, text, &mut found).ok()?;
    (!found.has_error()).then_some(())?;
    let mut other = Diagnostics::default();
    yaml::yaml11_words(&tree, &mut other);
    other.is_empty().then_some(tree)
}

/// Returns the only object of a manifest, with the namespace that the command names.
fn manifest(content: &str, namespace: Option<&str>) -> Option<Vec<Entry>> {
    let text = literal(content)?;
    let tree = yaml(&text)?;
    let root = tree.root();
    let field = |name: &str| root.get(name).and_then(|node| node.text().map(str::to_owned));
    let kind = field("kind")?;
    let manifest = root.to_manifest();
    (is_object(&manifest) && is_plain(&manifest) && has_known_fields(&manifest)).then_some(())?;
    let Value::Map(mut body) = as_sent(escaped(plain(root))) else { return None };
    if let Some(namespace) = namespace.filter(|_| !is_of_cluster(&kind.to_ascii_lowercase())) {
        let metadata = body.iter_mut().find(|entry| entry.key == "metadata")?;
        let Value::Map(fields) = &mut metadata.value else { return None };
        match fields.iter().find(|entry| entry.key == "namespace") {
            None => fields.push(Entry::new("namespace", Value::text(namespace))),
            // kubectl refuses another one.
            Some(own) => (own.value == Value::text(namespace)).then_some(())?,
        }
    }
    Some(body)
}

/// Whether server-side apply does with manifests what kubectl does.
fn is_same(texts: &[String], namespace: Option<&str>) -> bool {
    // Go's yaml.v2 accepts no tab before a value.
    if texts.iter().any(|text| [":\t", ": \t", "-\t", "- \t"].iter().any(|tab| text.contains(tab))) {
        return false;
    }
    let Ok(manifests) = texts.iter().map(|text| yaml::manifests(text)).collect::<Result<Vec<_>, _>>() else {
        return false;
    };
    let all: Vec<_> = manifests.iter().flatten().flat_map(objects).collect();
    // kubectl refuses another namespace than that of `-n`.
    let fits = |object: &serde_json::Value| {
        let own = object["metadata"]["namespace"].as_str();
        own.zip(namespace).is_none_or(|(own, given)| own == given)
    };
    // kubectl looks up all kinds first, also those that the manifest defines.
    let defined: Vec<_> =
        all.iter().filter(|o| o["kind"] == "CustomResourceDefinition").map(|o| &o["spec"]["group"]).collect();
    let is_known = |object: &serde_json::Value| {
        let group = object["apiVersion"].as_str().and_then(|version| version.split_once('/')).map(|(group, _)| group);
        !defined.iter().any(|known| known.as_str() == group && group.is_some())
    };
    all.iter().all(|object| is_object(object) && is_plain(object) && fits(object) && is_known(object))
}

/// The objects of a manifest: those of a list, or itself.
fn objects(manifest: &serde_json::Value) -> Vec<&serde_json::Value> {
    match manifest["items"].as_array().filter(|_| manifest["kind"] == "List" && manifest["apiVersion"] == "v1") {
        Some(items) => items.iter().collect(),
        None => vec![manifest],
    }
}

/// Whether kubectl can decode an object (it stops at the first that it cannot decode), and server-side apply accepts its
/// metadata. Lists with a kind of their own give their items what they lack.
fn is_object(manifest: &serde_json::Value) -> bool {
    const METADATA: [&str; 8] = [
        "name",
        "generateName",
        "namespace",
        "labels",
        "annotations",
        "finalizers",
        "ownerReferences",
        "creationTimestamp",
    ];
    let text = |value: &serde_json::Value| value.as_str().is_some_and(|text| !text.is_empty());
    let is_version = |text: &str| text.split('/').count() < 3;
    [&manifest["apiVersion"], &manifest["kind"], &manifest["metadata"]["name"]].into_iter().all(text)
        && manifest["apiVersion"].as_str().is_some_and(is_version)
        && !manifest["kind"].as_str().is_some_and(|kind| kind.ends_with("List"))
        && manifest["metadata"].as_object().is_some_and(|own| own.keys().all(|key| METADATA.contains(&key.as_str())))
}

/// Whether a manifest has only fields that its kind has, as far as these are known: `create` ignores others.
fn has_known_fields(manifest: &serde_json::Value) -> bool {
    let kind = manifest["kind"].as_str().unwrap_or_default().to_lowercase();
    let is_it = manifest["apiVersion"].as_str() == types::version(&kind);
    match (types::of_kind(&kind).filter(|_| is_it), manifest) {
        (Some(of), serde_json::Value::Object(fields)) => fields.iter().all(|(name, value)| {
            matches!(name.as_str(), "apiVersion" | "kind" | "metadata")
                || of.field(name).is_some_and(|of| has_fields(value, of))
        }),
        _ => true,
    }
}

fn has_fields(value: &serde_json::Value, of: Type) -> bool {
    use serde_json::Value as Json;
    match (value, of.shape()) {
        (Json::Array(items), Shape::List(of)) => items.iter().all(|item| has_fields(item, of)),
        (Json::Object(fields), Shape::Map(of)) => fields.values().all(|value| has_fields(value, of)),
        (Json::Object(fields), Shape::Object) => {
            fields.iter().all(|(name, value)| of.field(name).map_or(of.is_open(), |of| has_fields(value, of)))
        }
        _ => true,
    }
}

/// The fields that identify the items of a list, to kubectl or to server-side apply. Only items that also have the second
/// field have such a key.
const KEYS: [(&str, &str); 8] = [
    ("name", ""),
    ("containerPort", ""),
    // Ports of a service have names; those of a network policy are no keys.
    ("port", "name"),
    ("mountPath", ""),
    ("devicePath", ""),
    ("topologyKey", "maxSkew"),
    ("ip", ""),
    ("type", "status"),
];

/// Whether server-side apply accepts a manifest exactly if kubectl does: no empty values, no list with two equal items or two
/// items of the same key, no identity of an existing object.
fn is_plain(manifest: &serde_json::Value) -> bool {
    use serde_json::Value as Json;
    match manifest {
        Json::Null => false,
        Json::Object(fields) => fields.iter().all(|(key, value)| match key.as_str() {
            "creationTimestamp" => value.is_null(),
            "uid" | "resourceVersion" => false,
            // The words of a command line may be equal.
            "command" | "args" => true,
            _ => is_plain(value),
        }),
        Json::Array(items) => {
            let is_twice = |&(key, other): &(&str, &str)| {
                let keys: Vec<_> = items.iter().filter(|item| other.is_empty() || item.get(other).is_some()).collect();
                has_twice(keys.into_iter().filter_map(|item| item.get(key)))
            };
            let words = items.iter().filter(|item| !item.is_object() && !item.is_array());
            items.iter().all(is_plain) && !has_twice(words) && !KEYS.iter().any(is_twice)
        }
        _ => true,
    }
}

/// Whether two values are equal.
fn has_twice<'a>(values: impl Iterator<Item = &'a serde_json::Value>) -> bool {
    let mut seen: Vec<&serde_json::Value> = Vec::new();
    values.into_iter().any(|value| {
        let known = seen.contains(&value);
        seen.push(value);
        known
    })
}

/// Writes numbers as kubectl sends them.
fn as_sent(mut value: Value) -> Value {
    value.each_raw(&|text| {
        if let Some(number) = text.parse().ok().filter(|_| text.contains(['.', 'e', 'E'])) {
            *text = number::go_json(number);
        }
    });
    value
}

/// Escapes the texts of a value as templates.
fn escaped(value: Value) -> Value {
    match value {
        Value::Raw(text) => Value::Raw(text),
        Value::Text(text) => Value::Text(escape(&text)),
        Value::Map(entries) => {
            Value::Map(entries.into_iter().map(|e| Entry { value: escaped(e.value), ..e }).collect())
        }
        Value::List(items) => Value::List(items.into_iter().map(|i| Item { value: escaped(i.value), ..i }).collect()),
    }
}

type Named = (&'static str, Vec<Entry>);

fn rollout(kubectl: &Kubectl) -> Option<Named> {
    const KINDS: [&str; 9] =
        ["deployment", "deployments", "deploy", "statefulset", "statefulsets", "sts", "daemonset", "daemonsets", "ds"];
    let (what, words) = kubectl.words.split_first()?;
    let resource = one_of(words)?;
    let kind = resource.split(['/', '.']).next()?.to_ascii_lowercase();
    KINDS.contains(&kind.as_str()).then_some(())?;
    let mut body = vec![Entry::new("resource", Value::text(resource))];
    kubectl.namespace(&mut body);
    match what.as_str() {
        "status" => {
            kubectl.only(&["namespace", "timeout"])?;
            body.push(Entry::new("mustExist", Value::bool(true)));
            body.push(kubectl.timeout(UNBOUNDED)?);
            Some(("rollout", body))
        }
        "restart" => {
            kubectl.only(&["namespace"])?;
            Some(("restart", body))
        }
        _ => None,
    }
}

/// An integer in decimal: kubectl reads `010` as an octal number.
fn integer<N: FromStr + ToString>(text: &str) -> Option<N> {
    text.parse().ok().filter(|number: &N| number.to_string() == text)
}

fn scale(kubectl: &Kubectl) -> Option<Vec<Entry>> {
    kubectl.only(&["namespace", "replicas"])?;
    let replicas: u32 = integer(kubectl.flag("replicas")?)?;
    let mut body = vec![Entry::new("resource", Value::text(kubectl.one()?))];
    kubectl.namespace(&mut body);
    body.push(Entry::new("replicas", Value::Raw(replicas.to_string())));
    Some(body)
}

fn patch(kubectl: &Kubectl) -> Option<Vec<Entry>> {
    kubectl.only(&["namespace", "type", "patch", "subresource"])?;
    let text = literal(kubectl.flag("patch")?)?;
    // What starts like JSON must be JSON.
    let is_json = text.trim_start().starts_with(['{', '[']);
    (!is_json || serde_json::from_str::<serde_json::Value>(&text).is_ok()).then_some(())?;
    let tree = yaml(&text)?;
    let mut body = vec![Entry::new("resource", Value::text(kubectl.one()?))];
    kubectl.namespace(&mut body);
    match kubectl.flag("type").unwrap_or("strategic") {
        "strategic" => {}
        kind @ ("merge" | "json") => body.push(Entry::new("type", Value::text(kind))),
        _ => return None,
    }
    if let Some(part) = kubectl.flag("subresource") {
        body.push(Entry::new("subresource", Value::text(part)));
    }
    let patch = escaped(plain(tree.root()));
    // Of JSON, kubectl sends the text, and only a merge takes numbers by their form.
    let patch = if is_json && kubectl.flag("type") == Some("merge") { patch } else { as_sent(patch) };
    matches!(patch, Value::Map(_) | Value::List(_)).then_some(())?;
    body.push(Entry::new("patch", patch));
    Some(body)
}

/// `annotate` and `label`: without `--overwrite`, kubectl fails if there is a value already, and the operation does not.
fn marks(kubectl: &Kubectl) -> Option<Named> {
    kubectl.only(&["namespace", "overwrite"])?;
    let slash = kubectl.words.first()?.contains('/');
    let (words, marks) = kubectl.words.split_at_checked(if slash { 1 } else { 2 })?;
    let mut body = vec![Entry::new("resource", Value::text(one_of(words)?))];
    kubectl.namespace(&mut body);
    let overwrites = kubectl.switch("overwrite", false)?;
    let mut fields = Vec::new();
    for mark in marks {
        match (mark.split_once('='), mark.strip_suffix('-')) {
            (Some((name, value)), _) if overwrites => fields.push(Entry::new(name, Value::text(value))),
            (None, Some(name)) => fields.push(Entry::new(name, Value::Raw("null".to_owned()))),
            _ => return None,
        }
    }
    let names: BTreeSet<_> = fields.iter().map(|field| &field.key).collect();
    (!fields.is_empty() && names.len() == fields.len()).then_some(())?;
    let (name, key) = if kubectl.verb == "label" { ("label", "labels") } else { ("annotate", "annotations") };
    body.push(Entry::new(key, Value::Map(fields)));
    Some((name, body))
}

fn can_i(kubectl: &Kubectl, expect: &Expect) -> Option<Vec<Entry>> {
    kubectl.only(&["namespace", "as", "quiet", "all-namespaces"])?;
    let [what, verb, resource] = kubectl.words.as_slice() else { return None };
    // About a kind that the cluster does not have, kubectl also asks.
    (what == "can-i" && operation::is_served(resource)).then_some(())?;
    let said = |text: &str| {
        [&expect.equals, &expect.contains].into_iter().flatten().all(|t| t == text)
            && expect.matches.is_none()
            && expect.range == Range::default()
            && expect.not.is_none()
    };
    let allowed = match expect.exit_code {
        ExitCode::Is(0) if !expect.of_text() || said("yes") => true,
        ExitCode::Is(1) if !expect.of_text() || said("no") => false,
        ExitCode::Any if expect.of_text() && said("yes") => true,
        ExitCode::Any if expect.of_text() && said("no") => false,
        _ => return None,
    };
    let mut body = vec![Entry::new("verb", Value::text(verb))];
    match resource.split_once('/') {
        // `pods/log` is a part of a resource, and `pods/web` is an object: only the server knows the difference.
        Some(_) => return None,
        None => body.push(Entry::new("resource", Value::text(resource))),
    }
    match (kubectl.switch("all-namespaces", false)?, kubectl.flag("namespace")) {
        (true, None) => {}
        (false, namespace) => body.push(Entry::new("namespace", Value::text(namespace.unwrap_or("default")))),
        _ => return None,
    }
    if let Some(user) = kubectl.flag("as") {
        body.push(Entry::new("as", Value::text(user)));
    }
    if !allowed {
        body.push(Entry::new("allowed", Value::bool(false)));
    }
    Some(body)
}

fn exec(kubectl: &Kubectl, expect: &Expect) -> Option<Vec<Entry>> {
    let known = ["namespace", "container"];
    (kubectl.flags.keys().all(|name| known.contains(name)) && !kubectl.command.is_empty()).then_some(())?;
    let [pod] = kubectl.words.as_slice() else { return None };
    let pod = pod.strip_prefix("pod/").unwrap_or(pod);
    (!pod.contains('/')).then_some(())?;
    let code = match expect.exit_code {
        ExitCode::Any => return None,
        ExitCode::Is(code) => Value::Raw(code.to_string()),
        ExitCode::Not(code) => Value::map([("not", Value::text(code.to_string()))]),
    };
    let mut body = vec![Entry::new("pod", Value::text(pod))];
    kubectl.namespace(&mut body);
    if let Some(container) = kubectl.flag("container") {
        body.push(Entry::new("container", Value::text(container)));
    }
    body.push(Entry::new("command", Value::texts(&kubectl.command)));
    let mut wanted = vec![Entry::new("exitCode", code)];
    if expect.of_text() {
        wanted.push(Entry::new("stdout", part_of(expect)?));
    }
    body.push(Entry::new("expect", Value::Map(wanted)));
    Some(body)
}

fn logs(kubectl: &Kubectl, expect: &Expect) -> Option<Vec<Entry>> {
    kubectl.only(&["namespace", "container", "tail", "previous"])?;
    let [pod] = kubectl.words.as_slice() else { return None };
    let pod = pod.strip_prefix("pod/").unwrap_or(pod);
    (!pod.contains('/') && expect.exit_code == ExitCode::Is(0)).then_some(())?;
    let mut body = vec![Entry::new("pod", Value::text(pod))];
    kubectl.namespace(&mut body);
    if let Some(container) = kubectl.flag("container") {
        body.push(Entry::new("container", Value::text(container)));
    }
    if let Some(lines) = kubectl.flag("tail") {
        body.push(Entry::new("tail", Value::Raw(integer::<i64>(lines)?.to_string())));
    }
    if kubectl.switch("previous", false)? {
        body.push(Entry::new("previous", Value::bool(true)));
    }
    if expect.of_text() {
        body.push(Entry::new("expect", Value::map([("stdout", part_of(expect)?)])));
    }
    Some(body)
}

/// Returns what a text must contain, if the end of its last line does not matter.
fn part_of(expect: &Expect) -> Option<Value> {
    let anchored = |pattern: &String| pattern.contains(['$', '^']) && pattern != NOT_EMPTY;
    (expect.equals.is_none() && expect.not.is_none() && !expect.matches.as_ref().is_some_and(anchored)).then_some(())?;
    text_expect(expect.demands())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_for_which_kubectl_may_fail_are_recognized() {
        for (path, fails) in [
            ("{.items[0].metadata.name}", true),
            ("{.items[-1:].metadata.name}", true),
            ("{.items[*].metadata.name}", false),
            (r#"{.status.conditions[?(@.type=="Ready")].status}"#, false),
            ("{.spec.replicas}", false),
        ] {
            assert_eq!(has_index(path), fails, "{path}");
        }
    }
}
