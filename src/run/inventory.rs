//! An inventory of an eval's world, as far as it can be queried: what servers list, and what their read-only tools return; the files in
//! directories that the eval names; Kubernetes objects. `gevals prove` compares it from trial to trial, to name what a trial has left
//! behind.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::{Map, Value, json};

use super::servers::{Running, Servers, Specs};
use crate::{
    host::Host,
    mcp::Transport,
    package::{Package, package},
    plan::{EvalPlan, Plan, reach},
    source::Stat,
};

/// How long to wait for one answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many tools of a server are called.
const MOST_TOOLS: usize = 20;
/// How many items of a list are read.
const MOST_THINGS: usize = 10_000;
/// How many levels of a directory are read.
const DEPTH: usize = 4;
/// The maximum length of a name, in characters.
const LONGEST: usize = 120;
/// The fields that name an item of a list, best first.
const NAMES: [&str; 7] = ["name", "title", "id", "uri", "path", "key", "url"];

/// Something that exists after a trial but did not before it, or the other way round.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Left {
    /// The name that the server, the directory or the cluster uses.
    pub name: String,
    /// Where it was found.
    pub by: Vec<String>,
    /// Whether it existed before the first trial and is now missing.
    pub gone: bool,
    /// Whether this is still the case after the last trial.
    pub stays: bool,
}

impl Left {
    /// The finding, for people.
    pub fn shown(&self) -> String {
        let gone = if self.gone { " is gone" } else { "" };
        format!("`{}`{gone} ({})", self.name, self.by.join(", "))
    }
}

/// The names of items, by where they were found.
type Stock = BTreeMap<String, BTreeSet<String>>;

pub(super) struct Inventory<'a> {
    host: &'a dyn Host,
    servers: &'a Servers<'a>,
    folders: Vec<PathBuf>,
    /// The cluster that the eval uses: how to connect to it, and the kinds of objects that its tasks create.
    cluster: Option<(Value, BTreeSet<String>)>,
    first: Option<Stock>,
    last: Stock,
    /// Names that change by themselves, with digits replaced.
    loose: BTreeSet<(String, String)>,
    /// What could not be inspected, and why.
    pub unseen: BTreeMap<String, String>,
}

impl<'a> Inventory<'a> {
    /// Creates the inventory of some tasks; inspects nothing yet.
    pub fn new(
        host: &'a dyn Host,
        plan: &EvalPlan,
        selected: &[usize],
        servers: &'a Servers<'a>,
        folders: Vec<PathBuf>,
    ) -> Self {
        let tasks: Vec<&Plan> = selected.iter().filter_map(|&index| plan.tasks.get(index)).collect();
        let mut all: BTreeSet<PathBuf> = folders.into_iter().collect();
        all.insert(plan.dir.clone());
        all.extend(tasks.iter().map(|task| task.task.folder().to_owned()));
        all.extend(tasks.iter().flat_map(|task| &task.changes.creates).filter_map(|thing| path_of(thing)));
        Self {
            host,
            servers,
            folders: all.into_iter().collect(),
            cluster: cluster(plan, &tasks),
            first: None,
            last: Stock::new(),
            loose: BTreeSet::new(),
            unseen: BTreeMap::new(),
        }
    }

    /// Takes the first inventory, twice: what differs between the two changes by itself.
    pub async fn begin(&mut self) {
        if self.first.is_none() {
            let first = self.take().await;
            self.last = first.clone();
            self.first = Some(self.settled(first).await);
        }
    }

    /// Returns what exists now but did not the last time, and what existed the first time and has disappeared since the last time.
    pub async fn left(&mut self) -> Vec<Left> {
        let mut now = self.take().await;
        let mut found = self.differences(&now);
        if !found.is_empty() {
            // What disappears by itself is not left behind.
            now = self.settled(now).await;
            found = self.differences(&now);
        }
        self.last = now;
        found
    }

    /// Takes the inventory again; names that are new compared with `before` are ignored from now on.
    async fn settled(&mut self, before: Stock) -> Stock {
        let after = self.take().await;
        let none = BTreeSet::new();
        for by in before.keys().chain(after.keys()) {
            let (old, new) = (before.get(by).unwrap_or(&none), after.get(by).unwrap_or(&none));
            // A name that disappeared may belong to an object whose deletion is in progress, so only new names count.
            for name in new.difference(old) {
                self.loose.insert((by.clone(), without_digits(name)));
            }
        }
        after
    }

    fn differences(&self, now: &Stock) -> Vec<Left> {
        let none = BTreeSet::new();
        let mut found: BTreeMap<(bool, String), BTreeSet<String>> = BTreeMap::new();
        let first = self.first.as_ref();
        for by in self.last.keys().chain(now.keys()).collect::<BTreeSet<_>>() {
            let (before, after) = (self.last.get(by).unwrap_or(&none), now.get(by).unwrap_or(&none));
            let fixed = |name: &&String| !self.loose.contains(&(by.clone(), without_digits(name)));
            for name in after.difference(before).filter(fixed) {
                found.entry((false, name.clone())).or_default().insert(by.clone());
            }
            let was = first.and_then(|first| first.get(by)).unwrap_or(&none);
            for name in before.difference(after).filter(|name| was.contains(*name)).filter(fixed) {
                found.entry((true, name.clone())).or_default().insert(by.clone());
            }
        }
        found
            .into_iter()
            .map(|((gone, name), by)| Left { name, by: by.into_iter().collect(), gone, stays: true })
            .collect()
    }

    /// Whether a finding is still true according to the last inventory.
    pub fn has(&self, left: &Left) -> bool {
        let is_there = |by: &String| self.last.get(by).is_some_and(|names| names.contains(&left.name));
        left.by.iter().any(is_there) != left.gone
    }

    async fn take(&mut self) -> Stock {
        let mut stock = Stock::new();
        match self.servers.all().await {
            Ok(running) => {
                for server in running {
                    self.ask(&server, &mut stock).await;
                }
            }
            Err(why) => self.cannot("the servers".to_owned(), why),
        }
        for folder in &self.folders {
            let by = format!("files in {}", folder.display());
            let names = stock.entry(by).or_default();
            files(self.host, folder, Path::new(""), DEPTH, names);
        }
        // A cluster that did not answer once would otherwise cost a full timeout after every trial.
        if let Some((config, kinds)) = self.cluster.as_ref().filter(|_| !self.unseen.contains_key("Kubernetes")) {
            match objects(config, kinds).await {
                Ok(names) => drop(stock.insert("Kubernetes".to_owned(), names)),
                Err(why) => self.cannot("Kubernetes".to_owned(), why),
            }
        }
        // If a source did not answer this time, assume that nothing has changed there.
        for (by, names) in &self.last {
            if !stock.contains_key(by) {
                stock.insert(by.clone(), names.clone());
            }
        }
        stock
    }

    async fn ask(&mut self, server: &Running, stock: &mut Stock) {
        let name = server.hub.name().to_owned();
        let client = match server.own().await {
            Ok(client) => client,
            Err(why) => return self.cannot(format!("the server `{name}`"), why.to_string()),
        };
        let mut asked = 0;
        if self.unseen.contains_key(&format!("the tools of `{name}`")) {
            return;
        }
        match within(self.host, client.list_resources()).await {
            Ok(resources) if client.offers("resources") => {
                asked += 1;
                stock.insert(format!("resources of {name}"), things(&Value::Array(resources)));
            }
            Ok(_) => {}
            Err(why) => self.cannot(format!("the resources of `{name}`"), why),
        }
        let tools = match within(self.host, client.list_tools()).await {
            Ok(tools) => tools,
            Err(why) => return self.cannot(format!("the tools of `{name}`"), why),
        };
        for tool in tools.iter().filter(|tool| is_inventory(tool)).take(MOST_TOOLS) {
            let Some(tool) = tool.get("name").and_then(Value::as_str) else { continue };
            if self.unseen.contains_key(&format!("`{name}.{tool}`")) {
                continue;
            }
            match within(self.host, client.call_tool(tool, json!({}))).await {
                Ok(answer) if answer.is_error => {
                    self.cannot(
                        format!("`{name}.{tool}`"),
                        answer.text().lines().next().unwrap_or_default().to_owned(),
                    );
                }
                Ok(answer) => {
                    asked += 1;
                    let told = match &answer.structured {
                        Some(value) => things(value),
                        None => of_text(&answer.text()),
                    };
                    stock.insert(format!("{name}.{tool}"), told);
                }
                Err(why) => self.cannot(format!("`{name}.{tool}`"), why),
            }
        }
        if asked == 0 {
            let why = "it has neither resources nor a tool that only reads and needs no argument";
            self.unseen.entry(format!("the server `{name}`")).or_insert_with(|| why.to_owned());
        }
    }

    fn cannot(&mut self, what: String, why: String) {
        self.unseen.insert(what, why);
    }
}

/// Whether a tool declares itself read-only and requires no arguments.
fn is_inventory(tool: &Value) -> bool {
    let reads = tool.pointer("/annotations/readOnlyHint").and_then(Value::as_bool) == Some(true);
    let required = tool.pointer("/inputSchema/required").and_then(Value::as_array);
    reads && required.is_none_or(Vec::is_empty)
}

async fn within<T, E: std::fmt::Display>(
    host: &dyn Host,
    asked: impl Future<Output = Result<T, E>>,
) -> Result<T, String> {
    tokio::select! {
        answer = asked => answer.map_err(|error| error.to_string()),
        () = host.sleep(PATIENCE) => Err(format!("no answer within {} s", PATIENCE.as_secs())),
    }
}

/// The directories named in the commands of servers.
pub(super) fn folders(specs: &Specs, host: &dyn Host) -> Vec<PathBuf> {
    let home = host.env("HOME").unwrap_or_default();
    let mut found = Vec::new();
    for (spec, _) in specs.values() {
        let Transport::Stdio { args, env, .. } = &spec.transport else { continue };
        let values = args.iter().map(|arg| arg.split_once('=').map_or(arg.as_str(), |(_, value)| value));
        for value in values.chain(env.values().map(String::as_str)) {
            let path = Path::new(value);
            // In a home directory or a directory that everybody writes to, not every change belongs to the task.
            let own = path.components().count() > 2 && value != home && path.is_absolute();
            if own && host.files().stat(path).is_none_or(|stat| stat == Stat::Dir) {
                found.push(path.to_owned());
            }
        }
    }
    found
}

/// The path of a file that a task is known to create, if it is fully determined.
fn path_of(thing: &str) -> Option<PathBuf> {
    let path = thing.strip_prefix("file ").filter(|path| path.starts_with('/'))?;
    (!path.contains(['…', '*', '{', '$'])).then(|| PathBuf::from(path))
}

fn files(host: &dyn Host, root: &Path, below: &Path, depth: usize, names: &mut BTreeSet<String>) {
    let folder = root.join(below);
    if below.as_os_str().is_empty() && host.files().stat(root).is_some_and(|stat| stat != Stat::Dir) {
        names.insert(root.display().to_string());
        return;
    }
    for (name, is_dir) in host.files().entries(&folder).iter() {
        let hidden = name.starts_with('.') || matches!(name.as_str(), "node_modules" | "target");
        if hidden || names.len() >= MOST_THINGS {
            continue;
        }
        let path = below.join(name);
        names.insert(path.display().to_string());
        if *is_dir && depth > 1 {
            files(host, root, &path, depth - 1, names);
        }
    }
}

/// How to connect to the cluster of an eval, and the kinds of objects that its tasks create; `None` if it uses no cluster.
fn cluster(plan: &EvalPlan, tasks: &[&Plan]) -> Option<(Value, BTreeSet<String>)> {
    let extensions = &plan.extensions;
    let is_kubernetes = |text: &str| matches!(package(text, extensions.substitute), Ok(Package::Bundled(_)));
    let declared = extensions.declared.iter().find(|extension| is_kubernetes(&extension.package));
    let mut reach = tasks.iter().map(|task| reach::of_task(task, None));
    let uses = |reach: reach::Reach| {
        !reach.namespaces.is_empty() || ["kubectl", "helm"].iter().any(|command| reach.commands.contains(*command))
    };
    if declared.is_none() && !reach.any(uses) && reach::extensions(plan).keys().all(|e| !is_kubernetes(e)) {
        return None;
    }
    let things = tasks.iter().flat_map(|task| &task.changes.creates);
    let kinds = things.filter_map(|thing| thing.split(' ').next()).map(str::to_owned).collect();
    Some((declared.map_or(Value::Null, |declared| declared.config.clone()), kinds))
}

#[cfg(feature = "kubernetes")]
async fn objects(config: &Value, kinds: &BTreeSet<String>) -> Result<BTreeSet<String>, String> {
    crate::cluster::inventory::objects(config, kinds, PATIENCE).await
}

#[cfg(not(feature = "kubernetes"))]
async fn objects(_: &Value, _: &BTreeSet<String>) -> Result<BTreeSet<String>, String> {
    Err("this build has no `builtin:kubernetes`".to_owned())
}

/// The names of the items in an answer: list items, and keys of nested maps. Values are not compared.
fn things(value: &Value) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    collect(value, &mut names);
    names
}

fn collect(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => {
            let mut counts: BTreeMap<String, usize> = BTreeMap::new();
            for item in items.iter().take(MOST_THINGS) {
                let name = name_of(item);
                let count = counts.entry(name.clone()).or_default();
                *count += 1;
                names.insert(if *count == 1 { name } else { format!("{name} ({count})") });
            }
        }
        Value::Object(fields) => {
            for (key, field) in fields {
                if field.is_object() {
                    names.insert(cut(key));
                }
                collect(field, names);
            }
        }
        _ => {}
    }
}

fn name_of(item: &Value) -> String {
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let named = |fields: &Map<String, Value>| NAMES.iter().find_map(|key| text(fields.get(*key)?));
    let name = match item {
        Value::Object(fields) => named(fields).or_else(|| named(fields.get("metadata")?.as_object()?)),
        scalar => text(scalar),
    };
    cut(&name.unwrap_or_else(|| item.to_string()))
}

/// In text that is not JSON, every line is an item.
fn of_text(text: &str) -> BTreeSet<String> {
    match serde_json::from_str::<Value>(text) {
        Ok(value @ (Value::Array(_) | Value::Object(_))) => things(&value),
        _ => text.lines().map(str::trim).filter(|line| !line.is_empty()).take(MOST_THINGS).map(cut).collect(),
    }
}

fn cut(text: &str) -> String {
    text.chars().take(LONGEST).collect()
}

fn without_digits(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_digit() { '#' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(value: &Value) -> Vec<String> {
        things(value).into_iter().collect()
    }

    #[test]
    fn the_items_of_an_answer_are_those_of_its_lists() {
        let notes = json!({"count": 2, "notes": [{"title": "Plan", "tags": ["a"]}, {"title": "Plan", "tags": []}]});
        assert_eq!(names(&notes), ["Plan", "Plan (2)"]);
        assert_eq!(names(&json!([{"metadata": {"name": "web"}}, 7, "x", {"a": 1}])), ["7", "web", "x", "{\"a\":1}"]);
        assert_eq!(names(&json!({"pods": {"web": {"ready": true}}, "time": "12:00"})), ["pods", "web"]);
        assert_eq!(of_text("Plan\n\n  Log\n").into_iter().collect::<Vec<_>>(), ["Log", "Plan"]);
        assert_eq!(of_text("[\"Plan\"]").into_iter().collect::<Vec<_>>(), ["Plan"]);
    }

    #[test]
    fn only_read_only_tools_without_required_arguments_are_called() {
        let tool = |reads: bool, required: &[&str]| json!({"name": "t", "annotations": {"readOnlyHint": reads}, "inputSchema": {"required": required}});
        assert!(is_inventory(&tool(true, &[])));
        assert!(!is_inventory(&tool(false, &[])) && !is_inventory(&tool(true, &["title"])));
        assert!(!is_inventory(&json!({"name": "t", "inputSchema": {}})));
    }

    #[test]
    fn only_completely_known_paths_are_inspected() {
        assert_eq!(path_of("file /tmp/made.txt"), Some(PathBuf::from("/tmp/made.txt")));
        for none in ["file /tmp/…", "file notes.md", "pod web in shop", "file /tmp/{random.id}"] {
            assert_eq!(path_of(none), None, "{none}");
        }
    }
}
