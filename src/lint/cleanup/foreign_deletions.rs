//! Deletions of resources that the task did not create: they damage a cluster or machine that others use too.

use std::path::Path;

use crate::{
    bash::{Word, program::Statement, tools::operands},
    diagnostic::{Diagnostic, Diagnostics, nearest},
    effects::{Act, Verb, value::Value},
    hir::{Def, OperationKind, PhaseKind, Step},
    lint::{
        TaskView,
        analysis::texts,
        resources::cluster::{Call, whole},
        script::{HOLE, Reader, ScriptView},
    },
    rule,
    source::{Span, resolve},
};

rule! {
    pub static DELETES_FOREIGN_RESOURCE = "deletes-foreign-resource", Warning;
}

/// The target of a deletion.
enum Target {
    /// A resource with this name. `derived`: its name may begin with that of another one, as controllers name them.
    Named { name: String, derived: bool },
    /// Everything, whatever its name.
    Everything(String),
}

struct Deletion {
    target: Target,
    /// The namespace, if it is specified.
    within: Option<String>,
    span: Span,
}

/// Setup or cleanup deletes something that nothing in the task creates or mentions.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    let mut found = Vec::new();
    // Compose generates the names of what it creates.
    let composed = is_composed(view);
    let mut by = Diagnostics::default();
    by_model(view, composed, &mut by);
    for script in view.scripts.iter().filter(|s| s.phase != PhaseKind::Verify && may_delete(&s.content.text)) {
        script.content.program.walk(&mut |s| in_command(s, script, composed, &mut found));
    }
    view.task.walk(&mut |phase, step| {
        if phase != PhaseKind::Verify {
            found.extend(in_step(step));
        }
    });
    // Most names appear in the prompt, or in a script that deletes nothing. The complete search is slower.
    let prompt = view.task.prompt.as_ref().map(|p| texts::written(&p.text)).unwrap_or_default();
    let makers = view.scripts.iter().filter(|s| s.phase != PhaseKind::Cleanup && !may_delete(&s.content.text));
    let said: Vec<&str> = makers.map(|s| s.content.text.as_str()).chain([prompt.as_str()]).collect();
    let known: Vec<Span> = by.iter().map(|finding| finding.span).collect();
    out.extend(by);
    let is_known =
        |span: &Span| known.iter().any(|k| k.file == span.file && k.start <= span.start && span.start <= k.end);
    found.retain(|deletion| !is_known(&deletion.span));
    found.retain(|deletion| match &deletion.target {
        Target::Named { name, .. } => !said.iter().any(|text| whole(text, name)),
        Target::Everything(_) => true,
    });
    if found.is_empty() {
        return;
    }
    let made = Made::of(view);
    for Deletion { target, within, span } in found {
        let (message, near) = match &target {
            Target::Everything(what) => (format!("this deletes {what}"), None),
            Target::Named { name, derived } => {
                // Everything in a namespace that belongs to the task also belongs to the task.
                let own = within.as_deref().is_some_and(|ns| !is_shared(ns) && made.knows(ns, false));
                if own || made.knows(name, *derived) {
                    continue;
                }
                (format!("nothing in the task creates or mentions `{name}`"), nearest(name, made.words()))
            }
        };
        let help = match &target {
            Target::Everything(_) => {
                "delete by name what the task created, or use a label that only its own resources have"
            }
            Target::Named { .. } => "delete only what setup creates or the prompt asks for",
        };
        let mut diagnostic = Diagnostic::new(&DELETES_FOREIGN_RESOURCE, span, message).help(help);
        if let Some(near) = near {
            diagnostic = diagnostic.here(format!("did you mean `{near}`?"));
        }
        out.push(diagnostic);
    }
}

/// The span of the name that an act deletes.
fn named_at(view: &TaskView<'_>, act: &Act) -> Span {
    let mut found = None;
    let name = act.thing.name.as_ref().and_then(|name| name.literal());
    for script in view.scripts {
        script.content.program.walk(&mut |s| {
            let starts = script.content.span(s.range.start..s.range.start);
            if (starts.file, starts.start) == (act.span.file, act.span.start) {
                let word = s.words().iter().find(|word| Some(&*word.text) == name);
                found = found.or(word.map(|word| script.content.span(word.range.clone())));
            }
        });
    }
    view.task.walk(&mut |_, step| {
        if step.key == act.step && act.span == act.step {
            let arg = |key: &str| step.arg(key).or_else(|| step.arg("args")?.get(key));
            found =
                ["name", "resource", "title", "path", "key", "id"].iter().find_map(|key| arg(key)).map(|arg| arg.span);
        }
    });
    found.unwrap_or(act.span)
}

fn is_composed(view: &TaskView<'_>) -> bool {
    view.scripts.iter().any(|script| script.content.text.contains("compose"))
}

/// Deletions by cleanup steps and SQL statements of what nothing in the task creates: names with holes, tables,
/// resources behind tools. Requires that all effects of setup are known and that the prompt does not name the resource.
fn by_model(view: &TaskView<'_>, composed: bool, out: &mut Diagnostics) {
    let model = view.effects;
    if !model.sees(PhaseKind::Setup) || view.task.prompt.is_none() {
        return;
    }
    let said = model.prompt.shown();
    let other = |act: &&Act| !(act.verb == Verb::Deletes && act.phase != PhaseKind::Verify);
    for act in model.in_phase(PhaseKind::Cleanup).filter(|act| act.verb == Verb::Deletes) {
        let thing = &act.thing;
        let is_sql = matches!(thing.system.as_str(), "postgres" | "mysql");
        let Some(name) = thing.name.as_ref().filter(|name| name.is_known()) else { continue };
        if is_other_of_kind(view, act, name, &said) {
            out.push(
                Diagnostic::new(
                    &DELETES_FOREIGN_RESOURCE,
                    named_at(view, act),
                    format!("nothing in the task creates or mentions a {} `{}`", thing.kind, name.shown()),
                )
                .help("delete only what setup creates or the prompt asks for"),
            );
            continue;
        }
        let by_docker = thing.system == "docker" && !composed && name.literal().is_some();
        let by_step = act.span == act.step && (name.literal().is_none() || thing.system != "kubernetes");
        if !(is_sql || by_step || by_docker) || matches!(thing.system.as_str(), "http" | "file" | "helm") {
            continue;
        }
        let same = |other: &Act| {
            other.thing.system == thing.system && other.thing.name.as_ref().is_none_or(|other| other.may_be(name))
        };
        // The agent may create resources in a namespace of the task.
        let own = thing.space.is_some();
        if own || model.acts.iter().filter(other).any(same) || said.contains(&name.shown()) {
            continue;
        }
        let made = model.acts.iter().filter(other).filter(|other| other.thing.system == thing.system);
        if made.clone().next().is_none() {
            continue;
        }
        out.push(
            Diagnostic::new(
                &DELETES_FOREIGN_RESOURCE,
                named_at(view, act),
                format!("nothing in the task creates or mentions `{}`", name.shown()),
            )
            .help("delete only what setup creates or the prompt asks for"),
        );
    }
}

/// `clusterrole/viewer`, if the task uses another cluster role, and only a resource of another kind is called `viewer`.
fn is_other_of_kind(view: &TaskView<'_>, act: &Act, name: &Value, said: &str) -> bool {
    let thing = &act.thing;
    let wide = view.tools.tool("kubectl").and_then(|tool| tool.kind(&thing.kind)).is_some_and(|(_, wide)| wide);
    let (true, true, Some(text)) = (thing.system == "kubernetes", wide && thing.kind != "namespace", name.literal())
    else {
        return false;
    };
    let mut others = view.effects.acts.iter().filter(|other| {
        other.phase != PhaseKind::Cleanup && other.thing.system == thing.system && other.thing.kind == thing.kind
    });
    let known = others.clone().any(|other| other.thing.name.as_ref().is_some_and(Value::is_known));
    known
        && others.all(|other| other.thing.name.as_ref().is_some_and(|other| !other.may_be(name)))
        && !crate::lint::resources::elsewhere::is_called(view, said, text, &thing.kind)
}

/// Whether a text contains a word by which [`in_command`] recognizes a deletion.
fn may_delete(text: &str) -> bool {
    ["delete", "uninstall", "rm", "prune"].iter().any(|word| text.contains(word))
}

/// Whether every cluster has this namespace.
fn is_shared(namespace: &str) -> bool {
    namespace == "default" || namespace.starts_with("kube-") || namespace.starts_with("openshift-")
}

/// Collects what a command deletes, as far as its words show.
fn in_command(command: &Statement, script: &ScriptView<'_>, composed: bool, found: &mut Vec<Deletion>) {
    let words = command.words();
    let mut push = |target: Option<Target>, within: Option<&Word>, word: &Word| {
        let span = script.content.span(word.range.clone());
        found.extend(target.map(|target| Deletion { target, within: within.map(|w| w.text.clone()), span }));
    };
    let named = |word: &Word, derived| {
        let name = word.text.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        let whole = word.literal && !name.is_empty() && !name.contains(['*', '?', '[', '{']);
        whole.then(|| Target::Named { name: name.to_owned(), derived })
    };
    let every = |what: String| Some(Target::Everything(what));
    let words_of = |from: usize| words.get(from..).unwrap_or_default();
    match (command.tool(), words.get(1).map_or("", |w| w.text.as_str())) {
        ("kubectl", _) => {
            let Some(call) = Call::of(command, "delete") else { return };
            if call.has(&["-f", "--filename", "-k", "--kustomize", "-l", "--selector", "--field-selector"]) {
                return;
            }
            let named_words = call.named();
            let Some((kind, names)) = named_words.split_first() else { return };
            let namespace = call.namespace();
            if let Some(all) = words.iter().find(|w| w.text == "--all") {
                let (target, word) = match namespace {
                    _ if call.has(&["-A", "--all-namespaces"]) || is_global(&kind.text) => {
                        (every(format!("all `{}` in the cluster", kind.text)), all)
                    }
                    None => (every(format!("all `{}` in the current namespace", kind.text)), all),
                    Some(namespace) if is_shared(&namespace.text) => {
                        (every(format!("all `{}` in `{}`", kind.text, namespace.text)), all)
                    }
                    Some(namespace) => (named(namespace, false), namespace),
                };
                push(target, None, word);
                return;
            }
            // If the namespace is not literal, its owner is unknown.
            if namespace.is_some_and(|n| !n.literal) {
                return;
            }
            // `pod/web`, or `pod web`
            let slash = |w: &Word| w.text.contains('/');
            let each = if slash(kind) { named_words.as_slice() } else { names };
            for word in each {
                let kind = word.text.split_once('/').map_or(kind.text.as_str(), |(kind, _)| kind);
                push(named(word, is_derived(kind)), namespace, word);
            }
        }
        ("helm", "uninstall" | "delete") => {
            operands(command.tool(), words_of(2)).for_each(|w| push(named(w, false), None, w));
        }
        ("docker", "rm") => {
            operands(command.tool(), words_of(1)).skip(1).for_each(|w| push(named(w, composed), None, w));
        }
        ("docker", "system" | "container" | "volume" | "network" | "image") => {
            let Some(verb) = words.get(2) else { return };
            match verb.text.as_str() {
                "prune" => push(every("everything that is not in use".to_owned()), None, verb),
                // Prompts name images without registry and tag (`alpine`).
                "rm" if words[1].text == "image" => operands(command.tool(), words_of(1)).skip(2).for_each(|w| {
                    let end = w.text.rfind('/').map_or(0, |slash| slash + 1);
                    let name = w.text[end..].split([':', '@']).next().unwrap_or_default();
                    push(named(&Word { text: name.into(), ..w.clone() }, true), None, w);
                }),
                "rm" => operands(command.tool(), words_of(1)).skip(2).for_each(|w| push(named(w, composed), None, w)),
                _ => {}
            }
        }
        ("rm", _) if words.iter().any(|w| is_recursive(&w.text)) => {
            for word in operands(command.tool(), words_of(1)) {
                let target = match shared_folder(&word.text) {
                    Some(folder) => every(format!("everything in `{folder}`")),
                    None if word.text.starts_with(['/', '~']) => named(word, false),
                    None => None,
                };
                push(target, None, word);
            }
        }
        _ => {}
    }
}

fn is_recursive(flag: &str) -> bool {
    flag == "--recursive" || flag.strip_prefix('-').is_some_and(|f| !f.starts_with('-') && f.contains(['r', 'R']))
}

/// The shared directory that a path denotes, or whose whole content it denotes.
fn shared_folder(path: &str) -> Option<&'static str> {
    let path = path.replace('"', "");
    let folder = path.trim_end_matches('*');
    let folder = folder.strip_suffix('/').filter(|f| !f.is_empty()).unwrap_or(folder);
    let shared = ["/", "~", "$HOME", "${HOME}", "/root", "/home", "/tmp", "/var", "/var/tmp", "/etc", "/usr", "/opt"];
    shared.into_iter().find(|s| *s == folder)
}

/// Whether a kind is cluster-scoped.
fn is_global(kind: &str) -> bool {
    matches!(
        kind,
        "namespace"
            | "namespaces"
            | "ns"
            | "node"
            | "nodes"
            | "no"
            | "pv"
            | "persistentvolume"
            | "persistentvolumes"
            | "crd"
            | "crds"
            | "customresourcedefinition"
            | "customresourcedefinitions"
            | "clusterrole"
            | "clusterroles"
            | "clusterrolebinding"
            | "clusterrolebindings"
            | "storageclass"
            | "storageclasses"
            | "sc"
    )
}

/// Whether controllers also create resources of this kind.
fn is_derived(kind: &str) -> bool {
    !is_global(kind)
        && !matches!(kind.split('.').next(), Some("deployment" | "deployments" | "deploy" | "project" | "projects"))
}

/// What a step of an extension or a tool deletes.
fn in_step(step: &Step<Def>) -> Option<Deletion> {
    let operation = match &step.op.kind {
        OperationKind::Extension { operation, .. } => operation.as_str(),
        OperationKind::Tool { .. } => step.op.name.rsplit('.').next()?,
        _ => return None,
    };
    let deletes = ["delete", "remove", "uninstall"].iter().any(|verb| operation.to_lowercase().contains(verb));
    let arg = |key: &str| step.arg(key).or_else(|| step.arg("args")?.get(key));
    let name = arg("name").or_else(|| arg("metadata")?.get("name")).or_else(|| arg("resource")).filter(|_| deletes)?;
    let text = name.as_literal()?;
    let target = Target::Named { name: text.rsplit('/').next().unwrap_or(text).to_owned(), derived: false };
    Some(Deletion { target, within: None, span: name.span })
}

/// All texts of a task about its resources, except its cleanup and its deletions.
struct Made {
    texts: Vec<String>,
    /// Whether something may be created that no text shows.
    opaque: bool,
}

impl Made {
    fn of(view: &TaskView<'_>) -> Self {
        let task = view.task;
        let mut made = Self { texts: Vec::new(), opaque: false };
        let templates = task.env.iter().map(|(_, t)| t).chain(task.prompt.iter().map(|p| &p.text));
        made.texts.extend(templates.map(texts::written));
        task.walk(&mut |phase, step| {
            if phase != PhaseKind::Cleanup && texts::script(step).is_none() && in_step(step).is_none() {
                step.templates(&mut |t| made.texts.push(texts::written(t)));
                // Scripts are read below, without their deletions.
                let is_script = || view.scripts.iter().any(|script| std::ptr::eq(script.step, step));
                if phase == PhaseKind::Setup && !is_script() {
                    step.templates(&mut |t| {
                        made.read(view, &task.dir, t.as_literal());
                    });
                }
            }
        });
        for script in view.scripts.iter().filter(|s| s.phase != PhaseKind::Cleanup) {
            made.script(view, script);
        }
        made
    }

    /// Adds the text of a named file. Returns whether it could be read.
    fn read(&mut self, view: &TaskView<'_>, dir: &Path, name: Option<&str>) -> bool {
        let path = name.filter(|n| n.contains(['.', '/'])).map(|name| resolve(dir, name));
        let text = path.and_then(|path| String::from_utf8(view.files.read(&path).ok()?).ok());
        let is_there = text.is_some();
        self.texts.extend(text);
        is_there
    }

    fn script(&mut self, view: &TaskView<'_>, script: &ScriptView<'_>) {
        let composed = is_composed(view);
        let mut text = script.content.text.clone();
        let makes = script.phase == PhaseKind::Setup;
        let program = &script.content.program;
        self.opaque |= makes && (script.reader == Reader::Foreign || !program.sound);
        let mut functions = Vec::new();
        program.walk(&mut |s| functions.extend(s.function()));
        for command in program.commands() {
            let mut deleted = Vec::new();
            in_command(command, script, composed, &mut deleted);
            if !deleted.is_empty() {
                text.replace_range(command.range.clone(), &" ".repeat(command.range.len()));
            }
            if !makes {
                continue;
            }
            self.opaque |= !PLAIN.contains(&command.tool()) && !functions.contains(&command.name());
            let mut before = "";
            for word in command.words() {
                let name =
                    word.text.split_once('=').filter(|_| word.text.starts_with('-')).map_or(&*word.text, |w| w.1);
                let read = match &script.dir {
                    Some(dir) if word.literal => self.read(view, dir, Some(name)),
                    _ => false,
                };
                let manifest = matches!(before, "-f" | "--filename" | "-k" | "--kustomize");
                // A manifest that the script writes itself is a part of its text.
                self.opaque |= !read && manifest && word.text != "-" && !is_written(script, word);
                before = &word.text;
            }
        }
        self.texts.push(text);
    }

    fn knows(&self, name: &str, derived: bool) -> bool {
        let any = |told: &dyn Fn(&str) -> bool| self.texts.iter().any(|text| told(text));
        let of_part = |part: &str| part.len() > 2 && any(&|text| texts::has_word(text, part));
        self.opaque
            || any(&|text| whole(text, name))
            || derived && name.split('-').any(of_part)
            || any(&|text| assembles(text, name))
    }

    fn words(&self) -> impl Iterator<Item = &str> {
        let split = |c: char| !c.is_ascii_alphanumeric() && c != '-';
        self.texts.iter().flat_map(move |text| text.split(split)).filter(|w| w.len() > 2)
    }
}

/// Whether a script writes this file before it passes it to a command: `cat > $DIR/a.yaml <<EOF`.
fn is_written(script: &ScriptView<'_>, word: &Word) -> bool {
    let text = &script.content.text;
    let source = |range: &std::ops::Range<usize>| text.get(range.clone()).unwrap_or_default().trim_matches('"');
    let file = source(&word.range);
    let is_path = file.len() > 2 && !file.contains(['*', '?', '(', '`']);
    is_path
        && text[..word.range.start.min(text.len())].lines().any(|line| {
            let Some((before, rest)) = line.split_once('>') else { return false };
            let target = rest.trim_start_matches('>').split_whitespace().next().unwrap_or_default();
            target.trim_matches('"') == file && before.trim_start().starts_with("cat") && line.contains("<<")
        })
}

/// Whether a text builds names with the beginning or the end of this one: `web-$i`.
fn assembles(text: &str, name: &str) -> bool {
    let filled = |c: char| matches!(c, '$' | '{' | '%' | HOLE);
    (2..name.len()).filter(|at| name.is_char_boundary(*at)).any(|at| {
        let (head, tail) = name.split_at(at);
        let begins = text.match_indices(head).any(|(i, _)| text[i + head.len()..].starts_with(filled));
        let ends = || text.match_indices(tail).any(|(i, _)| text[..i].ends_with(['}', HOLE]));
        begins || tail.len() > 1 && ends()
    })
}

/// Commands that create only what their words, and the files they name, show.
const PLAIN: &[&str] = &[
    "kubectl", "docker", "git", "curl", "wget", "jq", "yq", "echo", "printf", "cat", "tee", "sleep", "set", "cd",
    "mkdir", "mktemp", "touch", "cp", "mv", "ln", "rm", "chmod", "trap", "exit", "return", "true", "false", ":",
    "test", "[", "grep", "sed", "awk", "tr", "cut", "sort", "head", "tail", "wc", "seq", "date", "read", "wait",
    "kill", "export", "local", "shift", "base64", "openssl", "timeout", "until", "break", "continue", "command",
    "type", "which",
];
