//! Manifests that the API of Kubernetes rejects: in scripts, in files that they send, and in arguments of operations.

use std::{
    ops::Range,
    path::{Path, PathBuf},
};

use crate::{
    bash::{
        tools::{self, Tool},
        types::{self, Shape, Type},
    },
    diagnostic::{Diagnostic, Diagnostics, Strength, nearest},
    effects::{
        asked,
        script::{Content, HOLE},
        shell::Run,
    },
    hir::OperationKind,
    lint::TaskView,
    rule,
    source::{FileId, Span, Stat, resolve},
    yaml::{self, Data, Node},
};

rule! {
    pub static INVALID_MANIFEST = "invalid-manifest", Verdict;
}

const NO_YAML: &str = "the manifest is not valid YAML";

/// Requires that the manifest is a here-document, or a file in the task's directory, of a command whose failure is not ignored; or an
/// argument of an operation.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    let Some(tool) = view.tools.tool("kubectl") else { return };
    let mut read: Vec<PathBuf> = Vec::new();
    let mut workloads: Vec<Workload> = Vec::new();
    for followed in &view.effects.scripts {
        let runs = &followed.trace.runs;
        for run in runs.iter().filter(|run| !run.lenient) {
            let content = run.content;
            if is_applied(run, runs) {
                let Some(body) = document(content, run.statement.range.start) else { continue };
                let text = content.text[body.clone()].replace(HOLE, "$");
                let found = faults(&text, view.unit.file, tool, &mut workloads);
                for fault in found.into_iter().filter(|fault| !fault.ignored || !is_unvalidated(run)) {
                    let place = fault.place.start + body.start..fault.place.end + body.start;
                    out.push(fault.at(content.span(place)));
                }
                continue;
            }
            let path = sent(run).filter(|path| *path != "-" && !path.contains("://"));
            let Some(path) = path.zip(followed.view.dir.as_ref()).map(|(path, dir)| resolve(dir, path)) else {
                continue;
            };
            let given = space_of(run);
            for path in sent_files(&path, view) {
                let matters = |fault: &Fault| !fault.ignored || !is_unvalidated(run);
                of_file(&path, view, tool, &mut workloads, &mut read, matters, out);
                elsewhere(&path, given, view, out);
            }
        }
    }
    view.task.walk(&mut |_, step| {
        let name = step.op.name.rsplit('.').next().unwrap_or_default();
        let is_operation = matches!(step.op.kind, OperationKind::Extension { .. })
            && matches!(name, "create" | "apply" | "createResource" | "applyManifest");
        let lenient = step.continue_on_error.is_some_and(|lenient| lenient.value);
        if !is_operation || lenient || step.expect.is_some() {
            return;
        }
        if let Some(file) = step.arg("file").and_then(|file| file.as_literal()) {
            for path in sent_files(&resolve(&view.task.dir, file), view) {
                of_file(&path, view, tool, &mut workloads, &mut read, |_| true, out);
            }
        }
        let arg = ["manifest", "resource", "inline"].iter().find_map(|name| step.arg(name));
        // The arguments may be the manifest itself.
        let whole = || step.args.iter().find(|(name, _)| name.value == "apiVersion");
        let node = match arg {
            Some(arg) => view.unit.tree.node_at(arg.span),
            None => whole().and_then(|(name, _)| view.unit.tree.mapping_of(name.span)),
        };
        let Some(node) = node else { return };
        if let Some(text) = node.as_str() {
            // `{env.NS}-web` is no YAML before the hole is filled in.
            let has_holes = arg.is_some_and(|arg| arg.as_literal().is_none());
            let mut found = faults(text, view.unit.file, tool, &mut workloads);
            found.retain(|fault| !(has_holes && fault.message.starts_with(NO_YAML)));
            out.extend(found.into_iter().map(|fault| {
                let place = node.cooked(fault.place.clone());
                fault.at(place)
            }));
        } else {
            let mut found = Vec::new();
            let list = node.items().collect::<Vec<_>>();
            for manifest in if list.is_empty() { vec![node] } else { list } {
                Manifest { tool, found: &mut found, workloads: &mut workloads, is_alone: arg.is_some() }.read(manifest);
            }
            out.extend(found.into_iter().map(|fault| {
                let place = Span::new(view.unit.file, fault.place.clone());
                fault.at(place)
            }));
        }
    });
    images(view, &workloads, out);
}

/// The faults of a file that is sent to the API, unless they are known.
fn of_file(
    path: &Path,
    view: &TaskView<'_>,
    tool: &Tool,
    workloads: &mut Vec<Workload>,
    read: &mut Vec<PathBuf>,
    matters: impl Fn(&Fault) -> bool,
    out: &mut Diagnostics,
) {
    let text = view.files.read(path).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let Some(text) = text.filter(|_| !read.iter().any(|known| known == path)) else { return };
    read.push(path.to_owned());
    let mut found = faults(&text, view.unit.file, tool, workloads);
    found.retain(matters);
    if !found.is_empty() {
        let file = view.sources.add(path, text.as_str());
        out.extend(found.into_iter().map(|fault| {
            let place = Span::new(file, fault.place.clone());
            fault.at(place)
        }));
    }
}

/// The namespace in the words of a command.
fn space_of<'r>(run: &'r Run<'_>) -> Option<&'r str> {
    let words: Vec<&str> = run.words.iter().map(|word| word.literal().unwrap_or_default()).collect();
    asked::value_of(&words, "-n", "--namespace").filter(|space| !space.is_empty())
}

/// `kubectl apply -n web-tier -f web.yaml`, where the manifest is in another namespace: kubectl refuses it.
fn elsewhere(path: &Path, given: Option<&str>, view: &TaskView<'_>, out: &mut Diagnostics) {
    let Some(given) = given else { return };
    let Some(text) = view.files.read(path).ok().and_then(|bytes| String::from_utf8(bytes).ok()) else { return };
    for range in documents(&text) {
        let file = view.unit.file;
        let Ok(tree) = yaml::parse(file, &text[range.clone()], &mut Diagnostics::default()) else { continue };
        let node = tree.root().get("metadata").and_then(|metadata| metadata.get("namespace"));
        let Some((node, own)) = node.and_then(|node| Some((node, node.as_str()?))) else { continue };
        if own != given && !own.contains(['$', '{']) {
            let place = node.span().range();
            let span =
                Span::new(view.sources.add(path, text.as_str()), place.start + range.start..place.end + range.start);
            let message =
                format!("kubectl refuses this manifest: its namespace is `{own}`, and the command says `{given}`");
            out.push(Diagnostic::new(&INVALID_MANIFEST, span, message).help("remove one of the two"));
        }
    }
}

/// The files that `apply` sends: the file itself, or those in a directory.
fn sent_files(path: &Path, view: &TaskView<'_>) -> Vec<PathBuf> {
    if view.files.stat(path) != Some(Stat::Dir) {
        return vec![path.to_owned()];
    }
    let is_manifest = |name: &String| [".yaml", ".yml", ".json"].iter().any(|ending| name.ends_with(ending));
    view.files.list(path).into_iter().filter(is_manifest).map(|name| path.join(name)).collect()
}

/// `kubectl set image deployment/web app=nginx:1.27`, where the deployment has no container `app`.
fn images(view: &TaskView<'_>, workloads: &[Workload], out: &mut Diagnostics) {
    for run in view.effects.scripts.iter().flat_map(|script| &script.trace.runs) {
        let words: Vec<&str> = run.words.iter().skip(1).map(|word| word.literal().unwrap_or_default()).collect();
        if workloads.is_empty() || run.statement.tool() != "kubectl" {
            continue;
        }
        let operands: Vec<&str> = tools::operands("kubectl", &words).copied().collect();
        let ["set", "image", rest @ ..] = operands.as_slice() else { continue };
        let (kind, name, rest) = match rest {
            [first, rest @ ..] if first.contains('/') => {
                let (kind, name) = first.split_once('/').unwrap_or_default();
                (kind, name, rest)
            }
            [kind, name, rest @ ..] => (*kind, *name, rest),
            _ => continue,
        };
        let Some((kind, _)) = view.tools.tool("kubectl").and_then(|tool| tool.kind(kind)) else { continue };
        let mut known = workloads.iter().filter(|workload| workload.kind == kind && workload.name == name);
        let Some(workload) = known.next().filter(|_| known.next().is_none()) else { continue };
        for container in rest.iter().filter_map(|word| word.split_once('=')).map(|(container, _)| container) {
            if container != "*" && !container.is_empty() && !workload.containers.iter().any(|known| known == container)
            {
                let message = format!("the {kind} `{name}` has no container `{container}`, so this fails");
                let names = workload.containers.join("`, `");
                out.push(
                    Diagnostic::new(&INVALID_MANIFEST, run.content.span(run.statement.range.clone()), message)
                        .help(format!("its containers: `{names}`")),
                );
            }
        }
    }
}

/// What is wrong with the documents of a manifest. The places are ranges of the text.
fn faults(text: &str, file: FileId, tool: &Tool, workloads: &mut Vec<Workload>) -> Vec<Fault> {
    let mut found = Vec::new();
    for range in documents(text) {
        let begin = found.len();
        let mut out = Diagnostics::default();
        match yaml::parse(file, &text[range.clone()], &mut out) {
            Ok(tree) => Manifest { tool, found: &mut found, workloads, is_alone: true }.read(tree.root()),
            // What is filled in may be several lines.
            Err(_) if ["$", "{{"].iter().any(|sign| text[range.clone()].contains(sign)) => {}
            Err(_) => found.extend(out.iter().next().map(|fault| Fault {
                place: fault.span.start as usize..fault.span.end as usize,
                message: format!("{NO_YAML}: {}", fault.message),
                help: fault.help.clone().unwrap_or_else(|| "correct it: nothing is created otherwise".to_owned()),
                likely: false,
                ignored: false,
            })),
        }
        for fault in found.iter_mut().skip(begin) {
            fault.place = fault.place.start + range.start..fault.place.end + range.start;
        }
    }
    found
}

/// Whether a command sends the text of a here-document to the API, or writes it to a file that another command sends.
fn is_applied(run: &Run<'_>, runs: &[Run<'_>]) -> bool {
    run.input.is_some() && sent(run) == Some("-")
        || run.statement.name() == "cat"
            && run.input.is_some()
            && run
                .output
                .as_ref()
                .and_then(|file| file.literal())
                .is_some_and(|file| runs.iter().any(|other| !other.lenient && sent(other) == Some(file)))
}

/// The file of `kubectl apply -f FILE`.
fn sent<'r>(run: &'r Run<'_>) -> Option<&'r str> {
    if run.statement.tool() != "kubectl" {
        return None;
    }
    let words: Vec<&str> = run.words.iter().map(|word| word.literal().unwrap_or_default()).collect();
    let verb = words.iter().position(|word| matches!(*word, "apply" | "create"))?;
    asked::value_of(&words[verb..], "-f", "--filename").filter(|file| !file.is_empty())
}

/// Whether kubectl does not check the fields of the manifest.
fn is_unvalidated(run: &Run<'_>) -> bool {
    let off = ["--validate=false", "--validate=ignore", "--validate=warn"];
    run.words.iter().filter_map(|word| word.literal()).any(|word| off.contains(&word))
}

/// The text of the here-document that starts on the line of a statement.
fn document(content: &Content, at: usize) -> Option<Range<usize>> {
    let text = content.text.as_str();
    let begin = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let end = begin + text[begin..].find('\n')?;
    let (_, rest) = text[begin..end].split_once("<<")?;
    let word = rest.strip_prefix('-').unwrap_or(rest).trim_start();
    let quote = word.chars().next().filter(|c| matches!(c, '\'' | '"'));
    let word = quote.map_or(word, |quote| &word[quote.len_utf8()..]);
    let last = word.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(word.len());
    let delimiter = word.get(..last).filter(|word| !word.is_empty())?;
    let mut line = end + 1;
    loop {
        let rest = text.get(line..)?;
        let length = rest.find('\n').unwrap_or(rest.len());
        if rest[..length].trim_matches('\t') == delimiter {
            return Some(end + 1..line);
        }
        line += length + 1;
    }
}

/// The documents of a manifest, which lines of `---` separate.
fn documents(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let (mut begin, mut at) = (0, 0);
    for line in text.split_inclusive('\n') {
        if line.trim_end() == "---" {
            found.push(begin..at);
            begin = at + line.len();
        }
        at += line.len();
    }
    found.push(begin..text.len());
    found.retain(|range| text[range.clone()].contains("kind:") || text[range.clone()].contains("\"kind\""));
    found
}

/// A workload of a manifest, with the names of its containers.
struct Workload {
    kind: String,
    name: String,
    containers: Vec<String>,
}

struct Fault {
    place: Range<usize>,
    message: String,
    help: String,
    /// Whether a newer API may know more.
    likely: bool,
    /// Whether only kubectl rejects it, and the API ignores it.
    ignored: bool,
}

impl Fault {
    fn at(self, place: Span) -> Diagnostic {
        let finding = Diagnostic::new(&INVALID_MANIFEST, place, self.message).help(self.help);
        if self.likely { finding.strength(Strength::Warning) } else { finding }
    }
}

struct Manifest<'t, 'f> {
    tool: &'t Tool,
    found: &'f mut Vec<Fault>,
    workloads: &'f mut Vec<Workload>,
    /// Whether the resource has no other keys beside its own.
    is_alone: bool,
}

impl Manifest<'_, '_> {
    fn read(&mut self, root: Node<'_>) {
        let Some(kind) = root.get("kind").and_then(Node::as_str) else { return };
        let lower = kind.to_lowercase();
        let kind = self.tool.kind(kind).map_or(lower.as_str(), |(kind, _)| kind);
        let version = root.get("apiVersion").and_then(Node::as_str).unwrap_or_default();
        let Some((known, of)) = types::version(kind).zip(types::of_kind(kind)) else {
            let versions = self.tool.under(kind, "version");
            let is_it =
                |known: &&str| known.strip_suffix('*').map_or(*known == version, |group| version.starts_with(group));
            if versions.iter().any(is_it) {
                self.named(kind, root);
                self.of_project(kind, "", root);
            }
            return;
        };
        // Other groups have kinds of the same name.
        if version != known && !known.strip_suffix('*').is_some_and(|group| version.starts_with(group)) {
            return;
        }
        self.named(kind, root);
        for entry in root.entries() {
            match of.field(entry.name) {
                Some(inner) => self.field(kind, inner, entry.name, entry.value),
                None if self.is_alone && is_known(entry.name) => self.unknown(kind, of, "", entry.name, entry.key),
                None => {}
            }
        }
        self.containers(kind, root);
        self.selected(kind, root);
        self.restarts(kind, root);
    }

    /// Reads the fields of a kind that the project has described, below a path.
    fn of_project(&mut self, kind: &str, path: &str, node: Node<'_>) {
        let known: Vec<String> =
            self.tool.under(kind, if path.is_empty() { "top" } else { path }).into_iter().map(str::to_owned).collect();
        for entry in node.entries().filter(|entry| is_known(entry.name)) {
            let name = entry.name;
            if known.is_empty() || known.iter().any(|known| known == name) {
                let inner = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
                self.of_project(kind, &inner, entry.value);
            } else if self.is_alone || !path.is_empty() {
                self.missing(kind, &known.iter().map(String::as_str).collect::<Vec<_>>(), path, name, entry.key);
            }
        }
    }

    /// Reads the value of a field. `shown` is its path.
    fn field(&mut self, kind: &str, of: Type, shown: &str, node: Node<'_>) {
        match of.shape() {
            Shape::List(item) => node.items().for_each(|node| self.field(kind, item, shown, node)),
            Shape::Map(value) => {
                for entry in node.entries().filter(|entry| is_known(entry.name)) {
                    self.field(kind, value, &format!("{shown}.{}", entry.name), entry.value);
                }
            }
            Shape::Object => {
                for entry in node.entries().filter(|entry| is_known(entry.name)) {
                    match of.field(entry.name) {
                        Some(inner) => self.field(kind, inner, &format!("{shown}.{}", entry.name), entry.value),
                        None => self.unknown(kind, of, shown, entry.name, entry.key),
                    }
                }
            }
            Shape::Text(_) if !of.is_quantity() => self.text(shown, node),
            Shape::Text(_) => self.thousandths(shown, node),
            Shape::Number if node.as_str().is_some_and(is_known) => self.found.push(Fault {
                place: node.span().range(),
                message: format!("Kubernetes rejects this manifest: `{shown}` must be a number, not a string"),
                help: "remove the quotes, or write a number".to_owned(),
                likely: false,
                ignored: false,
            }),
            Shape::Number | Shape::Boolean | Shape::Either | Shape::Unknown => {}
        }
    }

    /// `memory: 512m`
    fn thousandths(&mut self, path: &str, value: Node<'_>) {
        let number = value.as_str().and_then(|text| text.strip_suffix('m'));
        if number.is_some_and(|number| number.bytes().all(|b| b.is_ascii_digit()))
            && ["memory", "guest", "storage"].iter().any(|end| path.ends_with(end))
        {
            self.found.push(Fault {
                place: value.span().range(),
                message: format!("`{}` is a number of thousandths of a byte", value.written()),
                help: "write `Mi` for mebibytes".to_owned(),
                likely: true,
                ignored: false,
            });
        }
    }

    fn unknown(&mut self, kind: &str, of: Type, outer: &str, name: &str, key: Node<'_>) {
        let own = if outer.is_empty() { "top" } else { outer };
        if of.is_open() || self.tool.under(kind, own).contains(&name) {
            return;
        }
        self.missing(kind, &of.fields().map(|(name, _)| name).collect::<Vec<_>>(), outer, name, key);
    }

    fn missing(&mut self, kind: &str, known: &[&str], outer: &str, name: &str, key: Node<'_>) {
        let place = key.span().range();
        let near = nearest(name, known.iter().copied());
        let path = if outer.is_empty() { name.to_owned() } else { format!("{outer}.{name}") };
        self.found.push(Fault {
            place,
            message: format!("a {kind} has no field `{path}`"),
            help: match near {
                Some(near) => format!("did you mean `{near}`?"),
                None if outer.is_empty() => format!("its fields are {}", known.join(", ")),
                None => format!("the fields of `{outer}` are {}", known.join(", ")),
            },
            likely: near.is_none(),
            ignored: true,
        });
    }

    /// A number or a boolean where a string is required.
    fn text(&mut self, path: &str, value: Node<'_>) {
        let what = match value.data() {
            Data::Bool(_) => "a boolean",
            Data::Int(_) | Data::Float(_) => "a number",
            _ => return,
        };
        self.found.push(Fault {
            place: value.span().range(),
            message: format!("Kubernetes rejects this manifest: `{path}` must be a string, not {what}"),
            help: format!("quote it: `\"{}\"`", value.written()),
            likely: false,
            ignored: false,
        });
    }

    /// The name of most resources is part of a host name.
    fn named(&mut self, kind: &str, root: Node<'_>) {
        let Some(name) = root.get("metadata").and_then(|metadata| metadata.get("name")) else { return };
        let Some(text) = name.as_str().filter(|text| is_known(text)) else { return };
        let free = matches!(kind, "role" | "rolebinding" | "clusterrole" | "clusterrolebinding");
        if !free && text.contains(|c: char| c.is_ascii_uppercase() || c == '_' || c == ' ') {
            self.found.push(Fault {
                place: name.span().range(),
                message: format!("Kubernetes rejects this manifest: `{text}` is not a valid name"),
                help: "a name consists of lowercase letters, digits, `-` and `.`".to_owned(),
                likely: false,
                ignored: false,
            });
        }
    }

    /// Records a workload whose containers are all known.
    fn containers(&mut self, kind: &str, root: Node<'_>) {
        let path = |names: &[&str]| names.iter().try_fold(root, |node, name| node.get(name));
        let name = path(&["metadata", "name"]).and_then(Node::as_str).filter(|name| is_known(name));
        let pod = path(&["spec", "template", "spec"]).or_else(|| path(&["spec"]).filter(|_| kind == "pod"));
        let Some((name, pod)) = name.zip(pod) else { return };
        let lists = ["containers", "initContainers"].into_iter().filter_map(|list| pod.get(list));
        let names: Option<Vec<String>> = lists
            .flat_map(Node::items)
            .map(|container| container.get("name")?.as_str().filter(|name| is_known(name)).map(str::to_owned))
            .collect();
        if let Some(containers) = names.filter(|names| !names.is_empty()) {
            self.workloads.push(Workload { kind: kind.to_owned(), name: name.to_owned(), containers });
        }
    }

    /// The pods of a workload have the labels by which it selects them.
    fn selected(&mut self, kind: &str, root: Node<'_>) {
        if !matches!(kind, "deployment" | "statefulset" | "daemonset" | "replicaset") {
            return;
        }
        let path = |names: &[&str]| names.iter().try_fold(root, |node, name| node.get(name));
        let Some(selector) = path(&["spec", "selector", "matchLabels"]) else { return };
        let labels = path(&["spec", "template", "metadata", "labels"]);
        for entry in selector.entries() {
            let own = labels.and_then(|labels| labels.get(entry.name)).and_then(Node::text);
            let Some(wanted) = entry.value.text().filter(|text| is_known(text)) else { continue };
            if own == Some(wanted)
                || own.is_some_and(|own| !is_known(own))
                || labels.is_some_and(|l| l.entries().any(|e| !is_known(e.name)))
            {
                continue;
            }
            self.found.push(Fault {
                place: entry.key.span().range(),
                message: format!(
                    "Kubernetes rejects this manifest: the template of the pods has no label `{}: {wanted}`",
                    entry.name
                ),
                help: "use the same labels in `spec.selector.matchLabels` and `spec.template.metadata.labels`"
                    .to_owned(),
                likely: false,
                ignored: false,
            });
        }
    }

    /// The pods of a job are not restarted forever, and those of a deployment are.
    fn restarts(&mut self, kind: &str, root: Node<'_>) {
        let pods: &[&str] = match kind {
            "job" | "deployment" | "statefulset" | "daemonset" | "replicaset" => &["spec", "template", "spec"],
            "cronjob" => &["spec", "jobTemplate", "spec", "template", "spec"],
            _ => return,
        };
        let Some(pod) = pods.iter().try_fold(root, |node, name| node.get(name)) else { return };
        let policy = pod.get("restartPolicy");
        let is_job = matches!(kind, "job" | "cronjob");
        let fits = match policy.and_then(Node::as_str) {
            Some(policy) if !is_known(policy) => true,
            Some("OnFailure" | "Never") => is_job,
            Some("Always") => !is_job,
            _ => !is_job && policy.is_none(),
        };
        let whole = pod.entries().all(|entry| is_known(entry.name)) && pod.get("containers").is_some();
        if !fits && whole {
            let containers = pod.entry("containers").map(|entry| entry.key);
            let place = policy.or(containers).map_or(pod.span(), Node::span).range();
            let (what, values) = if is_job { ("job", "`OnFailure` or `Never`") } else { (kind, "`Always`") };
            self.found.push(Fault {
                place,
                message: format!("Kubernetes rejects this manifest: the `restartPolicy` of a {what} must be {values}"),
                help: "set it beside `containers`".to_owned(),
                likely: false,
                ignored: false,
            });
        }
    }
}

/// Whether a text contains nothing that the shell or a hole fills in.
fn is_known(text: &str) -> bool {
    !text.contains(['$', '`', '\\', '{'])
}
