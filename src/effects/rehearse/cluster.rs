//! The objects of a rehearsal: what `kubectl` and Kubernetes operations create, and what queries return. A field that was not set is
//! unknown, because the cluster may fill it in.

use std::collections::BTreeSet;

use serde_json::{Map, Value as Json, json};

use super::{Done, OPEN, RANDOM, Text, filters, json};
use crate::bash::tools::Tools;

/// The known state of a cluster.
pub struct Cluster<'a> {
    objects: Vec<Object>,
    /// Namespaces that were created in the rehearsal, so that their content is known.
    fresh: BTreeSet<String>,
    /// Kind, namespace and name of deleted objects.
    gone: BTreeSet<(String, String, String)>,
    lost: bool,
    /// Whether the object being created certainly did not exist before.
    sure: bool,
    tools: &'a Tools,
}

struct Object {
    kind: String,
    space: String,
    name: String,
    /// `None` if the object exists but its fields are not known.
    body: Option<Json>,
    /// Whether setup has waited until it is ready.
    ready: bool,
}

/// Kinds of which controllers create objects on their own.
const DERIVED: [&str; 12] = [
    "pod",
    "replicaset",
    "endpoints",
    "endpointslice",
    "event",
    "job",
    "secret",
    "configmap",
    "serviceaccount",
    "persistentvolumeclaim",
    "persistentvolume",
    "controllerrevision",
];

/// A `kubectl` command line.
struct Line<'l> {
    operands: Vec<&'l str>,
    options: Vec<(&'l str, &'l str)>,
}

impl<'l> Line<'l> {
    /// Options without a value.
    const ALONE: [&'static str; 22] = [
        "--ignore-not-found",
        "--overwrite",
        "--wait",
        "--all",
        "-A",
        "--all-namespaces",
        "--no-headers",
        "--force",
        "--server-side",
        "--force-conflicts",
        "--now",
        "--save-config",
        "--validate",
        "--recursive",
        "-R",
        "--show-labels",
        "--watch",
        "-w",
        "--record",
        "--list",
        "-q",
        "--quiet",
    ];

    fn read(args: &[&'l str]) -> Self {
        let (mut operands, mut options) = (Vec::new(), Vec::new());
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            if *arg == "--" {
                options.push(("--", ""));
                break;
            }
            if !arg.starts_with('-') || *arg == "-" {
                operands.push(*arg);
            } else if let Some((name, value)) = arg.split_once('=').filter(|_| arg.starts_with("--")) {
                options.push((name, value));
            } else if Self::ALONE.contains(arg) || arg.starts_with("--dry-run") {
                options.push((*arg, "true"));
            } else if arg.starts_with("--") || arg.chars().count() == 2 {
                options.push((*arg, rest.next().copied().unwrap_or_default()));
            } else {
                let (name, value) = arg.split_at(arg.char_indices().nth(2).map_or(arg.len(), |(at, _)| at));
                options.push((name, value.trim_start_matches('=')));
            }
        }
        Self { operands, options }
    }

    fn get(&self, names: &[&str]) -> Option<&'l str> {
        self.options.iter().find(|(name, _)| names.contains(name)).map(|(_, value)| *value)
    }

    fn all(&self, name: &str) -> impl Iterator<Item = &'l str> {
        self.options.iter().filter(move |(known, _)| *known == name).map(|(_, value)| *value)
    }

    fn space(&self) -> &'l str {
        self.get(&["-n", "--namespace"]).unwrap_or_default()
    }

    /// Whether only these options are given, and options without an effect here.
    fn only(&self, names: &[&str]) -> bool {
        const IDLE: [&str; 8] = [
            "-n",
            "--namespace",
            "--context",
            "--kubeconfig",
            "--timeout",
            "--request-timeout",
            "--save-config",
            "--field-manager",
        ];
        self.options.iter().all(|(name, _)| names.contains(name) || IDLE.contains(name))
    }
}

impl<'a> Cluster<'a> {
    pub fn new(tools: &'a Tools) -> Self {
        Self { objects: Vec::new(), fresh: BTreeSet::new(), gone: BTreeSet::new(), lost: false, sure: false, tools }
    }

    /// Marks the whole state as unknown.
    pub fn forget(&mut self) {
        self.lost = true;
    }

    /// Marks the known state as no longer certain.
    pub fn doubt(&mut self) {
        self.lost |= !self.objects.is_empty() || !self.gone.is_empty();
    }

    /// Whether a command line may change objects.
    pub fn changes(args: &[&str]) -> bool {
        let line = Line::read(args);
        !matches!(
            (line.operands.first().copied(), line.operands.get(1).copied()),
            (
                Some(
                    "get"
                        | "describe"
                        | "logs"
                        | "wait"
                        | "version"
                        | "cluster-info"
                        | "top"
                        | "explain"
                        | "api-resources"
                        | "auth"
                        | "diff"
                        | "events"
                        | "exec"
                        | "port-forward"
                        | "cp"
                ),
                _
            ) | (Some("rollout"), Some("status" | "history"))
                | (Some("config"), Some("view" | "current-context" | "get-contexts"))
                | (None, _)
        )
    }

    fn kind(&self, word: &str) -> (String, bool) {
        let plain = word.split('.').next().unwrap_or(word).to_lowercase();
        match self.tools.tool("kubectl").and_then(|tool| tool.kind(&plain)) {
            // Objects of a namespaced kind are in a namespace. For a kind that is not listed, this is assumed.
            Some((kind, wide)) => (kind.to_owned(), wide),
            None => (plain.strip_suffix('s').unwrap_or(&plain).to_owned(), false),
        }
    }

    fn find(&self, kind: &str, space: &str, name: &str) -> Option<usize> {
        self.objects.iter().position(|o| o.kind == kind && o.space == space && o.name == name)
    }

    /// Whether an object exists. Returns `None` if that is not known.
    fn is_there(&self, kind: &str, space: &str, name: &str) -> Option<bool> {
        if self.lost {
            return None;
        }
        if self.find(kind, space, name).is_some() {
            return Some(true);
        }
        let listed = self.tools.tool("kubectl").is_some_and(|tool| tool.kind(kind).is_some());
        let absent = self.gone.contains(&(kind.to_owned(), space.to_owned(), name.to_owned()))
            || self.fresh.contains(space) && listed && !DERIVED.contains(&kind)
            || DERIVED.contains(&kind)
                && matches!(kind, "configmap" | "secret" | "serviceaccount")
                && self.fresh.contains(space)
                && !matches!(name, "default" | "kube-root-ca.crt");
        absent.then_some(false)
    }

    /// Parses `KIND NAME…` or `KIND/NAME…`.
    fn named(&self, operands: &[&str]) -> Option<Vec<(String, bool, String)>> {
        let first = operands.first()?;
        if first.contains('/') {
            let each = operands.iter().map(|word| {
                let (kind, name) = word.split_once('/')?;
                let (kind, wide) = self.kind(kind);
                Some((kind, wide, name.to_owned()))
            });
            return each.collect();
        }
        if first.contains(',') {
            return None;
        }
        let (kind, wide) = self.kind(first);
        (operands.len() > 1)
            .then(|| operands[1..].iter().map(|name| (kind.clone(), wide, (*name).to_owned())).collect())
    }

    /// Stores an object. With `merges`, the new fields are merged into an existing object.
    fn put(&mut self, kind: &str, wide: bool, space: &str, name: &str, body: Option<Json>, merges: bool) {
        let space = if wide { "" } else { space };
        let was_gone = self.gone.remove(&(kind.to_owned(), space.to_owned(), name.to_owned()));
        if kind == "namespace"
            && self.find(kind, space, name).is_none()
            && (self.sure || was_gone || name.contains(RANDOM))
        {
            self.fresh.insert(name.to_owned());
        }
        match self.find(kind, space, name) {
            Some(at) => {
                let object = &mut self.objects[at];
                object.ready = false;
                object.body = match (object.body.take(), body) {
                    (Some(mut old), Some(new)) if merges => merge(&mut old, new).map(|()| old),
                    (_, new) => new,
                };
            }
            None => {
                let (kind, space, name) = (kind.to_owned(), space.to_owned(), name.to_owned());
                self.objects.push(Object { kind, space, name, body, ready: false });
            }
        }
    }

    /// Stores the object of a manifest.
    pub fn apply(&mut self, manifest: &Json, space: &str, sure: bool) -> Option<()> {
        self.sure = sure;
        if manifest.get("kind").and_then(Json::as_str).is_some_and(|kind| kind == "List") {
            return manifest.get("items")?.as_array()?.iter().try_for_each(|item| self.apply(item, space, sure));
        }
        let (kind, wide) = self.kind(manifest.get("kind")?.as_str()?);
        let metadata = manifest.get("metadata")?;
        let name = metadata.get("name")?.as_str()?.to_owned();
        let space = metadata.get("namespace").and_then(Json::as_str).unwrap_or(space).to_owned();
        let mut body = manifest.clone();
        if let (Some(plain), Some(fields)) = (body.get("stringData").cloned(), body.as_object_mut()) {
            let plain = plain.as_object()?.clone();
            let data = fields.entry("data").or_insert_with(|| json!({})).as_object_mut()?;
            for (key, value) in plain {
                data.insert(key, json!(filters::wrapped(value.as_str()?)));
            }
        }
        self.put(&kind, wide, &space, &name, Some(body), true);
        Some(())
    }

    /// Deletes an object.
    pub fn delete(&mut self, kind: &str, space: &str, name: &str) {
        let (kind, wide) = self.kind(kind);
        let space = if wide { "" } else { space };
        self.objects.retain(|o| !(o.kind == kind && o.space == space && o.name == name));
        if kind == "namespace" {
            self.objects.retain(|o| o.space != name);
            self.fresh.remove(name);
        }
        self.gone.insert((kind, space.to_owned(), name.to_owned()));
    }

    /// Runs a command line. `read` returns the text of a file, and `input` is the command's standard input. With `strict`, a failure of the
    /// command ends the script.
    pub fn run(&mut self, args: &[&str], input: Option<&str>, read: &dyn Fn(&str) -> Text, strict: bool) -> Done {
        let line = Line::read(args);
        let sure = strict && line.operands.first() == Some(&"create");
        self.sure = sure;
        if args.iter().any(|arg| arg.starts_with("--dry-run")) {
            return self.dry(args, &line);
        }
        match self.done(&line, input, read, sure) {
            Some(done) => done,
            None => {
                if Self::changes(args) {
                    self.forget();
                }
                Done::unknown()
            }
        }
    }

    /// The manifest printed by `kubectl create KIND NAME … --dry-run=client -o yaml`.
    fn dry(&self, args: &[&str], line: &Line<'_>) -> Done {
        let mut other = Cluster::new(self.tools);
        let args: Vec<&str> = args.iter().filter(|arg| !arg.starts_with("--dry-run")).copied().collect();
        let made = line.operands.first() == Some(&"create") && {
            let line = Line::read(&args);
            let options: Vec<_> =
                line.options.iter().filter(|(name, _)| !matches!(*name, "-o" | "--output")).copied().collect();
            other.create(&Line { operands: line.operands, options }, &|_| None).is_some()
        };
        let text = other.objects.first().filter(|_| made).and_then(|object| {
            let mut body = object.body.clone()?;
            body.as_object_mut()?.insert("kind".to_owned(), json!(object.kind));
            if !object.space.is_empty() {
                body.get_mut("metadata")?.as_object_mut()?.insert("namespace".to_owned(), json!(object.space));
            }
            serde_json::to_string(&body).ok()
        });
        Done { status: Some(true), out: text }
    }

    fn done(&mut self, line: &Line<'_>, input: Option<&str>, read: &dyn Fn(&str) -> Text, sure: bool) -> Option<Done> {
        let quiet = Some(Done { status: Some(true), out: None });
        match *line.operands.first()? {
            "get" => self.get(line),
            "wait" => {
                let named = self.named(line.operands.get(1..)?)?;
                let wanted = line.get(&["--for"])?;
                let ready = matches!(
                    wanted.to_lowercase().as_str(),
                    "condition=available" | "condition=ready" | "condition=complete"
                );
                let at: Option<Vec<usize>> = named
                    .iter()
                    .map(|(kind, wide, name)| self.find(kind, if *wide { "" } else { line.space() }, name))
                    .collect();
                let at = at.filter(|_| ready && !self.lost)?;
                Some(Done { status: at.iter().all(|at| self.objects[*at].ready).then_some(true), out: None })
            }
            "rollout" => match *line.operands.get(1)? {
                "status" => {
                    let named = self.named(line.operands.get(2..)?)?;
                    let [(kind, _, name)] = named.as_slice() else { return None };
                    let at = self.find(kind, line.space(), name).filter(|_| !self.lost)?;
                    Some(Done { status: self.objects[at].ready.then_some(true), out: None })
                }
                "restart" => {
                    self.vague(&self.named(line.operands.get(2..)?)?, line.space());
                    quiet
                }
                "undo" | "pause" | "resume" => {
                    self.vague(&self.named(line.operands.get(2..)?)?, line.space());
                    quiet
                }
                _ => None,
            },
            "apply" | "create" | "replace" if line.get(&["-f", "--filename", "-k"]).is_some() => {
                let mut files = line.all("-f").chain(line.all("--filename"));
                let (file, None) = (files.next()?, files.next()) else { return None };
                if !line.only(&[
                    "-f",
                    "--filename",
                    "--server-side",
                    "--force-conflicts",
                    "--validate",
                    "--overwrite",
                    "--wait",
                ]) {
                    return None;
                }
                let text = if file == "-" { input?.to_owned() } else { read(file)? };
                if text.contains(OPEN) {
                    return None;
                }
                let documents = documents(&text)?;
                documents.iter().try_for_each(|document| self.apply(document, line.space(), sure))?;
                quiet
            }
            "create" => {
                self.create(line, read)?;
                quiet
            }
            "delete" => {
                let all = line.get(&["--all", "-l", "--selector", "-A", "--all-namespaces", "--field-selector"]);
                if all.is_some() || line.operands.len() < 2 {
                    return None;
                }
                for (kind, _, name) in self.named(&line.operands[1..])? {
                    self.delete(&kind, line.space(), &name);
                }
                quiet
            }
            "scale" => {
                let count: u64 = line.get(&["--replicas"])?.parse().ok()?;
                let named = self.named(&line.operands[1..])?;
                for (kind, _, name) in &named {
                    let at = self.find(kind, line.space(), name);
                    if let Some(object) = at.map(|at| &mut self.objects[at]) {
                        object.ready = false;
                        if let Some(body) = &mut object.body {
                            merge(body, json!({"spec": {"replicas": count}}))?;
                        }
                    }
                }
                quiet
            }
            "label" | "annotate" => {
                let plain = line.only(&["--overwrite"]);
                let (pairs, things): (Vec<&str>, Vec<&str>) =
                    line.operands[1..].iter().partition(|word| word.contains('=') || word.ends_with('-'));
                let named = self.named(&things).filter(|_| plain)?;
                let part = if line.operands[0] == "label" { "labels" } else { "annotations" };
                for (kind, wide, name) in &named {
                    let space = if *wide { "" } else { line.space() };
                    let Some(at) = self.find(kind, space, name) else { continue };
                    let Some(body) = &mut self.objects[at].body else { continue };
                    for pair in &pairs {
                        let fields = fields(body, &["metadata", part])?;
                        match pair.split_once('=') {
                            Some((key, value)) => {
                                fields.insert(key.to_owned(), json!(value));
                            }
                            None => {
                                fields.remove(pair.trim_end_matches('-'));
                            }
                        }
                    }
                }
                quiet
            }
            "patch" => {
                let named = self.named(&line.operands[1..])?;
                let patch = line.get(&["-p", "--patch"]).and_then(|text| documents(text)?.into_iter().next());
                let merges = matches!(line.get(&["--type"]), None | Some("merge" | "strategic"));
                match patch.filter(|patch| merges && !has_list(patch)) {
                    Some(patch) => {
                        for (kind, wide, name) in &named {
                            let space = if *wide { "" } else { line.space() };
                            self.put(kind, *wide, space, name, Some(patch.clone()), true);
                        }
                    }
                    None => self.vague(&named, line.space()),
                }
                quiet
            }
            "set" => {
                let pairs = line.operands.iter().position(|word| word.contains('=')).unwrap_or(line.operands.len());
                let named = self.named(line.operands.get(2..pairs)?)?;
                let images = line.operands.get(1) == Some(&"image");
                for (kind, _, name) in &named {
                    let at = self.find(kind, line.space(), name)?;
                    self.objects[at].ready = false;
                    let body = self.objects[at].body.take();
                    self.objects[at].body = body.filter(|_| images).and_then(|mut body| {
                        let list = body.pointer_mut("/spec/template/spec/containers")?.as_array_mut()?;
                        for (container, image) in line.operands[pairs..].iter().filter_map(|pair| pair.split_once('='))
                        {
                            for item in list.iter_mut() {
                                if container == "*" || item.get("name")?.as_str()? == container {
                                    item.as_object_mut()?.insert("image".to_owned(), json!(image));
                                }
                            }
                        }
                        Some(body)
                    });
                }
                quiet
            }
            "expose" => {
                let named = self.named(&line.operands[1..])?;
                let [(_, _, of)] = named.as_slice() else { return None };
                let name = line.get(&["--name"]).unwrap_or(of);
                let mut port = Map::new();
                for (key, option) in [("port", "--port"), ("targetPort", "--target-port")] {
                    if let Some(value) = line.get(&[option]) {
                        port.insert(key.to_owned(), value.parse::<u64>().map_or_else(|_| json!(value), |n| json!(n)));
                    }
                }
                let body = json!({
                    "metadata": {"name": name},
                    "spec": {"type": line.get(&["--type"]).unwrap_or("ClusterIP"), "ports": [port]},
                });
                let body = Some(body).filter(|_| line.get(&["--port"]).is_some());
                self.put("service", false, line.space(), name, body, false);
                quiet
            }
            "run" => {
                let name = line.operands.get(1)?;
                let image = line.get(&["--image"])?;
                let plain =
                    line.only(&["--image", "--restart", "--", "--labels", "-l", "--port", "--env", "--command"]);
                let body = json!({
                    "metadata": {"name": name},
                    "spec": {"containers": [{"name": name, "image": image}]},
                });
                self.put("pod", false, line.space(), name, Some(body).filter(|_| plain), false);
                quiet
            }
            _ => None,
        }
    }

    /// Marks the fields of these objects as unknown.
    fn vague(&mut self, named: &[(String, bool, String)], space: &str) {
        for (kind, wide, name) in named {
            if let Some(at) = self.find(kind, if *wide { "" } else { space }, name) {
                self.objects[at].body = None;
                self.objects[at].ready = false;
            }
        }
    }

    fn create(&mut self, line: &Line<'_>, read: &dyn Fn(&str) -> Text) -> Option<()> {
        let operands = &line.operands[1..];
        let (kind, wide) = self.kind(operands.first()?);
        let mut names = operands[1..].iter();
        let sort = if matches!(kind.as_str(), "secret" | "service") { names.next().copied() } else { None };
        let name = *names.next()?;
        if names.next().is_some() {
            return None;
        }
        let metadata = json!({"name": name});
        let body = match kind.as_str() {
            "namespace" | "serviceaccount" if line.only(&[]) => Some(json!({"metadata": metadata})),
            "configmap" | "secret" => (|| {
                if !line.only(&["--from-literal", "--from-file"]) || sort.is_some_and(|sort| sort != "generic") {
                    return None;
                }
                let mut data = Map::new();
                let mut add = |key: &str, value: &str| {
                    let value = if kind == "secret" { filters::wrapped(value) } else { value.to_owned() };
                    data.insert(key.to_owned(), json!(value));
                };
                for pair in line.all("--from-literal") {
                    let (key, value) = pair.split_once('=')?;
                    add(key, value);
                }
                for file in line.all("--from-file") {
                    let (key, path) = file.split_once('=').unwrap_or((file.rsplit('/').next()?, file));
                    add(key, &read(path)?);
                }
                Some(json!({"metadata": metadata, "data": data}))
            })(),
            "deployment" => {
                line.get(&["--image"]).filter(|_| line.only(&["--image", "--replicas", "--port"])).and_then(|image| {
                    let count: u64 = line.get(&["--replicas"]).unwrap_or("1").parse().ok()?;
                    let own = image.rsplit('/').next()?.split([':', '@']).next()?;
                    let labels = json!({"app": name});
                    Some(json!({
                        "metadata": {"name": name, "labels": labels},
                        "spec": {
                            "replicas": count,
                            "selector": {"matchLabels": labels},
                            "template": {
                                "metadata": {"labels": labels},
                                "spec": {"containers": [{"name": own, "image": image}]},
                            },
                        },
                    }))
                })
            }
            "service" => {
                let ports: Option<Vec<Json>> = line
                    .all("--tcp")
                    .map(|pair| {
                        let (port, target) = pair.split_once(':').unwrap_or((pair, pair));
                        Some(json!({"port": port.parse::<u64>().ok()?, "targetPort": target.parse::<u64>().ok()?}))
                    })
                    .collect();
                let sort = match sort? {
                    "clusterip" => "ClusterIP",
                    "nodeport" => "NodePort",
                    "loadbalancer" => "LoadBalancer",
                    _ => "",
                };
                ports.filter(|ports| !sort.is_empty() && !ports.is_empty() && line.only(&["--tcp"])).map(|ports| {
                    json!({"metadata": metadata, "spec": {"type": sort, "selector": {"app": name}, "ports": ports}})
                })
            }
            _ => None,
        };
        self.put(&kind, wide, line.space(), name, body, false);
        Some(())
    }

    fn get(&self, line: &Line<'_>) -> Option<Done> {
        let named = self.named(line.operands.get(1..)?)?;
        let form = line.get(&["-o", "--output"]);
        if self.lost || !line.only(&["-o", "--output", "--no-headers", "--ignore-not-found", "--show-labels"]) {
            return None;
        }
        let lenient = line.get(&["--ignore-not-found"]).is_some_and(|value| value != "false");
        let mut found = Vec::new();
        for (kind, wide, name) in &named {
            let space = if *wide { "" } else { line.space() };
            if self.is_there(kind, space, name)? {
                found.push(&self.objects[self.find(kind, space, name)?]);
            } else if !lenient {
                return Some(Done { status: Some(false), out: Some(String::new()) });
            }
        }
        let [only] = found.as_slice() else {
            return Some(Done { status: Some(true), out: found.is_empty().then(String::new) });
        };
        let out = match form {
            None | Some("wide" | "name") => Some(format!("{OPEN}{}", only.name)),
            Some("json") => only
                .shown()
                .and_then(|body| serde_json::to_string_pretty(&body).ok())
                .map(|text| format!("{OPEN}{text}")),
            Some("yaml") => {
                only.shown().and_then(|body| serde_yaml::to_string(&body).ok()).map(|text| format!("{OPEN}{text}"))
            }
            Some(form) => {
                let template = form.strip_prefix("jsonpath=");
                let body = template.and_then(|template| Some((template, only.shown()?)));
                body.and_then(|(template, body)| json::by_template(template, &body))
            }
        };
        Some(Done { status: Some(true), out })
    }
}

impl Object {
    /// The object with the fields that every object of its kind has.
    fn shown(&self) -> Option<Json> {
        let mut body = self.body.clone()?;
        let fields = body.as_object_mut()?;
        if self.kind == "deployment" || self.kind == "statefulset" {
            let spec = fields.entry("spec").or_insert_with(|| json!({})).as_object_mut()?;
            let count = spec.entry("replicas").or_insert_with(|| json!(1)).clone();
            if self.ready {
                let status = json!({"replicas": count, "readyReplicas": count, "availableReplicas": count, "updatedReplicas": count});
                fields.insert(
                    "status".to_owned(),
                    if self.kind == "deployment" { status } else { json!({"readyReplicas": count}) },
                );
            }
        }
        if self.kind == "namespace" {
            fields.insert("status".to_owned(), json!({"phase": "Active"}));
        }
        let metadata = fields.entry("metadata").or_insert_with(|| json!({})).as_object_mut()?;
        metadata.insert("name".to_owned(), json!(self.name));
        if !self.space.is_empty() {
            metadata.insert("namespace".to_owned(), json!(self.space));
        }
        metadata.entry("labels").or_insert_with(|| json!({}));
        metadata.entry("annotations").or_insert_with(|| json!({}));
        Some(body)
    }
}

impl Cluster<'_> {
    /// Records that setup has waited for the condition of a command line.
    pub fn awaited(&mut self, args: &[&str]) {
        let line = Line::read(args);
        let from = match line.operands.first() {
            Some(&"wait") => {
                let wanted = line.get(&["--for"]).unwrap_or_default().to_lowercase();
                if !matches!(wanted.as_str(), "condition=available" | "condition=ready") {
                    return;
                }
                1
            }
            Some(&"rollout") if line.operands.get(1) == Some(&"status") => 2,
            _ => return,
        };
        for (kind, wide, name) in
            line.operands.get(from..).and_then(|operands| self.named(operands)).unwrap_or_default()
        {
            if let Some(at) = self.find(&kind, if wide { "" } else { line.space() }, &name) {
                self.objects[at].ready = true;
            }
        }
    }
}

/// The fields at a path, which are created if they do not exist.
fn fields<'b>(body: &'b mut Json, path: &[&str]) -> Option<&'b mut Map<String, Json>> {
    let mut here = body.as_object_mut()?;
    for name in path {
        here = here.entry(*name).or_insert_with(|| json!({})).as_object_mut()?;
    }
    Some(here)
}

/// Merges another object into this one. Returns `None` for lists, because it is not known how they are merged.
fn merge(old: &mut Json, new: Json) -> Option<()> {
    match (old, new) {
        (Json::Object(old), Json::Object(new)) => {
            for (key, value) in new {
                match old.get_mut(&key) {
                    Some(known) => merge(known, value)?,
                    None => {
                        old.insert(key, value);
                    }
                }
            }
            Some(())
        }
        (_, Json::Null) => None,
        (old, new) => {
            *old = new;
            Some(())
        }
    }
}

fn has_list(value: &Json) -> bool {
    match value {
        Json::Array(_) | Json::Null => true,
        Json::Object(fields) => fields.values().any(has_list),
        _ => false,
    }
}

/// The documents in a manifest.
fn documents(text: &str) -> Option<Vec<Json>> {
    let mut found = Vec::new();
    for document in text.split("\n---") {
        let document = document.trim_start_matches("---").trim();
        if document.is_empty() || document.lines().all(|line| line.trim_start().starts_with('#')) {
            continue;
        }
        found.push(serde_yaml::from_str(document).ok()?);
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_finds_what_was_made() {
        let tools = Tools::default();
        let mut cluster = Cluster::new(&tools);
        let mut run = |line: &str, input: Option<&str>| {
            let args: Vec<&str> = line.split(' ').collect();
            let done = cluster.run(&args, input, &|_| None, true);
            (done.status, done.out)
        };
        let said = |text: &str| (Some(true), Some(text.to_owned()));
        run("create ns a", None);
        run("-n a create deployment web --image=x/nginx:1 --replicas=2", None);
        assert_eq!(run("get deploy web -n a -o jsonpath={.spec.replicas}", None), said("2"));
        run("scale deployment/web --replicas 3 -n a", None);
        run("set image deployment/web nginx=nginx:2 -n a", None);
        let path = "get deployment/web -n a -o jsonpath={.spec.replicas}-{.spec.template.spec.containers[0].image}";
        assert_eq!(run(path, None), said("3-nginx:2"));
        assert_eq!(run("get deploy web -n a -o jsonpath={.status.readyReplicas}", None), (Some(true), None));
        assert_eq!(run("get deploy none -n a", None).0, Some(false));
        assert_eq!(run("get deploy none -n b", None).0, None);
        assert_eq!(run("get pod web-1 -n a", None).0, None);
        run("apply -n a -f -", Some("kind: ConfigMap\nmetadata:\n  name: c\ndata:\n  k: v\n"));
        run("label cm c -n a x=y", None);
        assert_eq!(
            run("get cm c -n a -o jsonpath={.data.k}{.metadata.labels.x}{.metadata.labels.z}", None),
            said("vy")
        );
        run("delete cm c -n a", None);
        assert_eq!(run("get cm c -n a", None).0, Some(false));
        run("taint node n a=b:NoSchedule", None);
        assert_eq!(run("get deploy web -n a", None).0, None);
    }
}
