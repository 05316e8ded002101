//! The fields that setup sets and verify checks, with their values.

use std::{
    cell::{LazyCell, OnceCell},
    collections::BTreeMap,
    ops::Range,
    path::{Path, PathBuf},
};

use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::Value as Json;

use crate::{
    ascii::{Ascii, Captures, ascii},
    bash::{
        fields, flow,
        program::{Kind, Statement},
    },
    effects::{
        Followed,
        asked::{Demand, Form, Question},
        script::{Content, ScriptView},
        shell::Run,
        value::Value,
    },
    hir::{Arg, ArgKind, Def, OperationKind, Part, PhaseKind, Step, Task},
    lint::{
        TaskView,
        analysis::{texts, typed::Found},
    },
    source::{Span, mentions, resolve},
};

/// Facts about a task, each computed when a rule first needs it.
#[derive(Debug, Default)]
pub struct Facts<'a> {
    questions: OnceCell<Vec<Question<'a>>>,
    given: OnceCell<Vec<Fact>>,
    manifests: OnceCell<Vec<(String, Span)>>,
    asked: OnceCell<Vec<Fact>>,
    elsewhere: OnceCell<Elsewhere>,
    prompt: OnceCell<Option<(String, Span)>>,
    known: OnceCell<Known>,
    expected: OnceCell<Vec<(Span, String)>>,
    data: OnceCell<String>,
    words: OnceCell<FxHashSet<String>>,
    declared: OnceCell<FxHashSet<String>>,
    scripts: OnceCell<Places>,
    followed: OnceCell<Places>,
    filters: OnceCell<Vec<Found>>,
}

/// Indices in a list, by the address of the item's subject: a task may have thousands of steps.
type Places = FxHashMap<usize, usize>;

fn places<T>(of: impl Iterator<Item = *const T>) -> Places {
    // The first one wins.
    let mut places = Places::default();
    of.enumerate().for_each(|(place, of)| {
        places.entry(of.addr()).or_insert(place);
    });
    places
}

impl<'a> Facts<'a> {
    /// The questions that verify asks, computed by `find` on first use.
    pub fn questions(&self, find: impl FnOnce() -> Vec<Question<'a>>) -> &[Question<'a>] {
        self.questions.get_or_init(find)
    }

    /// The values that verify expects, computed by `find` on first use.
    pub fn expected(&self, find: impl FnOnce() -> Vec<(Span, String)>) -> &[(Span, String)] {
        self.expected.get_or_init(find)
    }

    /// The faults of filters, computed by `find` on first use.
    pub fn filters(&self, find: impl FnOnce() -> Vec<Found>) -> &[Found] {
        self.filters.get_or_init(find)
    }

    pub fn script_of<'s>(&self, scripts: &'s [ScriptView<'s>], step: &Step<Def>) -> Option<&'s ScriptView<'s>> {
        let places = self.scripts.get_or_init(|| places(scripts.iter().map(|s| std::ptr::from_ref(s.step))));
        places.get(&std::ptr::from_ref(step).addr()).and_then(|place| scripts.get(*place))
    }

    pub fn followed<'s>(&self, all: &'s [Followed<'s>], script: &ScriptView<'_>) -> Option<&'s Followed<'s>> {
        let places = self.followed.get_or_init(|| places(all.iter().map(|f| std::ptr::from_ref(f.view).cast::<()>())));
        places.get(&std::ptr::from_ref(script).addr()).and_then(|place| all.get(*place))
    }

    pub fn declares(&self, task: &Task<Def>, name: &str) -> bool {
        self.declared.get_or_init(|| task.env.iter().map(|(name, _)| name.value.clone()).collect()).contains(name)
    }
}

/// Every word in the scripts of a task and in their environment variables.
pub fn shell_words<'a>(view: &TaskView<'a>) -> &'a FxHashSet<String> {
    view.facts.words.get_or_init(|| {
        let mut found = FxHashSet::default();
        let mut add = |text: &str| {
            let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).filter(|word| !word.is_empty());
            for word in words {
                if !found.contains(word) {
                    found.insert(word.to_owned());
                }
            }
        };
        view.scripts.iter().for_each(|script| add(&script.content.text));
        view.task.walk(&mut |_, step| {
            texts::script(step).iter().for_each(|text| add(text));
            if let Some(ArgKind::Record(env)) = step.arg("env").map(|arg| &arg.kind) {
                env.iter().filter_map(|(_, value)| value.as_literal()).for_each(&mut add);
            }
        });
        found
    })
}

/// Whether two names refer to the same field, or to fields of which one follows from the other.
pub fn alike(given: &str, asked: &str) -> bool {
    let is_replicas = |key: &str| {
        matches!(key, "replicas" | "readyReplicas" | "availableReplicas" | "updatedReplicas" | "replicaCount")
    };
    // `--ack-deadline` sets `ackDeadlineSeconds`.
    let with_unit = asked
        .strip_prefix(given)
        .is_some_and(|unit| matches!(unit, "Seconds" | "Days" | "Bytes" | "Gb" | "GB" | "Name"));
    given == asked || with_unit || is_replicas(given) && is_replicas(asked)
}

/// A field and a value that it is set to or compared with.
#[derive(Debug)]
pub struct Fact {
    /// The last part of the path.
    pub key: String,
    /// The part before the last, if known.
    pub parent: Option<String>,
    pub value: Json,
    pub span: Span,
    /// Whether the type matters: a JSON value is compared with another.
    pub typed: bool,
    /// Whether the value must be equal, rather than a bound.
    pub exact: bool,
}

impl Fact {
    /// The value as text.
    pub fn text(&self) -> String {
        match &self.value {
            Json::String(text) => text.clone(),
            value => value.to_string(),
        }
    }
}

/// The texts of a task except its prompt.
#[derive(Debug)]
pub struct Elsewhere {
    /// In verify.
    pub verify: String,
    /// Everywhere else.
    pub rest: String,
}

/// The texts of a task except its prompt: variables, the texts of steps, scripts.
pub fn elsewhere<'a>(view: &TaskView<'a>) -> &'a Elsewhere {
    view.facts.elsewhere.get_or_init(|| {
        let mut found = Elsewhere { verify: String::new(), rest: String::new() };
        let mut push = |phase, text: &str| {
            let all = if phase == Some(PhaseKind::Verify) { &mut found.verify } else { &mut found.rest };
            all.push_str(text);
            all.push('\n');
        };
        view.task.env.iter().for_each(|(_, template)| push(None, &texts::written(template)));
        view.task.walk(&mut |phase, step| {
            step.templates(&mut |template| {
                let text = texts::written(template);
                push(Some(phase), &message_free(view, (phase, step), &text).unwrap_or(text));
            });
        });
        for script in view.scripts {
            let content = &script.content;
            match script.phase {
                PhaseKind::Verify => push(Some(script.phase), &without_messages(content)),
                _ => push(Some(script.phase), &content.text),
            }
        }
        push(Some(PhaseKind::Verify), &expected_files(view));
        found
    })
}

/// The prompt as it is written, and where.
pub fn prompt<'a>(view: &TaskView<'a>) -> Option<(&'a str, Span)> {
    let found = view.facts.prompt.get_or_init(|| {
        let prompt = view.task.prompt.as_ref()?;
        Some((texts::written(&prompt.text), prompt.text.span))
    });
    found.as_ref().map(|(text, span)| (text.as_str(), *span))
}

/// All texts of a task except its prompt: those of verify, and the others. In contrast to [`Elsewhere`], with the
/// messages of scripts, and without the names in holes.
#[derive(Debug, Default)]
pub struct Known {
    pub verified: String,
    pub others: String,
}

impl Known {
    pub fn anywhere(&self, word: &str) -> bool {
        texts::has_word(&self.verified, word) || texts::has_word(&self.others, word)
    }
}

pub fn known<'a>(view: &TaskView<'a>) -> &'a Known {
    view.facts.known.get_or_init(|| {
        let mut known = Known::default();
        let env = view.task.env.iter();
        env.for_each(|(_, template)| known.others.push_str(&format!("{}\n", texts::written(template))));
        for script in view.scripts {
            let text = if script.phase == PhaseKind::Verify { &mut known.verified } else { &mut known.others };
            text.push_str(&script.content.text);
            text.push('\n');
        }
        view.task.walk(&mut |phase, step| {
            let text = if phase == PhaseKind::Verify { &mut known.verified } else { &mut known.others };
            let mut add = |arg: &Arg<Def>| {
                // Names in holes are not words of the text.
                arg.templates(&mut |template| {
                    template.parts.iter().for_each(|part| match part {
                        Part::Text(part) => text.push_str(part),
                        Part::Hole(_) => text.push(' '),
                    });
                    text.push('\n');
                });
                constants_in(arg, text);
            };
            step.args.iter().for_each(|(_, arg)| add(arg));
            step.expect.iter().for_each(|(_, arg)| add(arg));
        });
        known
    })
}

/// Appends the keys of an argument and its values that are not texts, one per line.
pub fn constants_in(arg: &Arg<Def>, text: &mut String) {
    match &arg.kind {
        ArgKind::Record(fields) => fields.iter().for_each(|(key, inner)| {
            text.push_str(&format!("{}\n", key.value));
            constants_in(inner, text);
        }),
        ArgKind::List(items) => items.iter().for_each(|item| constants_in(item, text)),
        ArgKind::Text(_) => {}
        _ => text.push_str(&format!("{}\n", arg.as_value().unwrap_or_default())),
    }
}

/// The texts of the files with which steps of verify compare resources: `expected: quota.yaml`.
pub fn expected_files(view: &TaskView<'_>) -> String {
    let mut found = String::new();
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            let file = step.arg("expected").and_then(|file| file.as_literal());
            let text = file.and_then(|file| read(view, &view.task.dir, file));
            found.extend(text.iter().flat_map(|text| [text.as_str(), "\n"]));
        });
    });
    found
}

/// The inline script of a step of verify without what it only prints; `None` for other texts of a step.
pub fn message_free(view: &TaskView<'_>, (phase, step): (PhaseKind, &Step<Def>), text: &str) -> Option<String> {
    // The setup of a step in verify is part of verify.
    let script =
        view.script_of(step).filter(|script| (script.phase, phase) == (PhaseKind::Verify, PhaseKind::Verify))?;
    let (text, content) = (text.trim(), script.content.text.trim());
    let is_it = text.lines().next() == content.lines().next() && text.lines().count() == content.lines().count();
    is_it.then(|| without_messages(&script.content))
}

/// The text of a script without what it only prints: that a message names a value does not mean that the value is checked.
pub fn without_messages(content: &Content) -> String {
    fn messages(list: &[Statement], found: &mut Vec<Range<usize>>) {
        for statement in list {
            let is_message = matches!(statement.kind, Kind::Command(_))
                && matches!(statement.name(), "echo" | "printf")
                && !statement.written
                && statement.nested.is_empty();
            if is_message {
                found.extend(statement.words().iter().skip(1).map(|word| word.range.clone()));
            }
            // What is printed in a pipeline, a function or a substitution may be read.
            if !matches!(statement.kind, Kind::Pipeline(_) | Kind::Function { .. }) {
                let is_nested = |list: &[Statement]| std::ptr::eq(list, statement.nested.as_slice());
                statement.lists(&mut |list| {
                    if !is_nested(list) {
                        messages(list, found);
                    }
                });
            }
        }
    }
    let mut found = Vec::new();
    messages(&content.program.body, &mut found);
    found.sort_by_key(|range| range.start);
    let mut text = String::with_capacity(content.text.len());
    let mut at = 0;
    for range in found.into_iter().filter(|range| range.end <= content.text.len()) {
        text.push_str(content.text.get(at..range.start).unwrap_or_default());
        at = range.end.max(at);
    }
    text.push_str(content.text.get(at..).unwrap_or_default());
    text
}

/// The most files that are read for one task, and the most bytes of one.
const FILES: usize = 20;
const LARGEST: usize = 64 << 10;

/// The texts of the files beside a task that its setup names, such as `seed.sql` and `manifests/`.
pub fn data<'a>(view: &TaskView<'a>) -> &'a str {
    view.facts.data.get_or_init(|| {
        let mut named: BTreeMap<PathBuf, bool> = BTreeMap::new();
        let mut add = |text: &str, dir: &Path| named.extend(mentions(text, dir, view.files));
        view.task.setup.steps.iter().for_each(|step| {
            step.walk(&mut |step| step.templates(&mut |template| add(&texts::written(template), &view.task.dir)));
        });
        for script in view.scripts.iter().filter(|script| script.phase == PhaseKind::Setup) {
            add(&script.content.text, script.dir.as_deref().unwrap_or(&view.task.dir));
        }
        let mut paths: Vec<PathBuf> = Vec::new();
        for (path, is_dir) in named {
            match is_dir {
                true => paths.extend(view.files.list(&path).iter().map(|name| path.join(name))),
                false => paths.push(path),
            }
        }
        let texts = paths.iter().take(FILES).filter_map(|path| String::from_utf8(view.files.read(path).ok()?).ok());
        texts.filter(|text| text.len() <= LARGEST).fold(String::new(), |all, text| all + &text + "\n")
    })
}

/// The fields that setup sets: in manifests, request bodies, arguments of tools and options.
pub fn given<'a>(view: &TaskView<'a>) -> &'a [Fact] {
    view.facts.given.get_or_init(|| find_given(view))
}

fn find_given(view: &TaskView<'_>) -> Vec<Fact> {
    let mut found = Vec::new();
    for script in view.effects.scripts.iter().filter(|script| script.view.phase == PhaseKind::Setup) {
        for run in &script.trace.runs {
            let span = run.content.span(run.statement.range.clone());
            in_run(run, span, &mut found);
            found.extend(sent(view, script, run).iter().flat_map(|text| lines(text, span)));
        }
    }
    view.task.setup.steps.iter().for_each(|step| {
        step.walk(&mut |step| match &step.op.kind {
            OperationKind::Builtin("http") => {
                let body = step.arg("body").and_then(|body| body.get("json"));
                body.into_iter().for_each(|body| leaves(None, body, &mut found));
                let text = step.arg("body").and_then(texts::script_text);
                if let Some(json) = text.and_then(|text| serde_json::from_str::<Json>(&text).ok()) {
                    of_json(None, &json, step.key, &mut found);
                }
            }
            OperationKind::Builtin("file") => {
                let text = step.arg("content").and_then(|content| content.as_literal());
                found.extend(text.iter().flat_map(|text| lines(text, step.key)));
            }
            OperationKind::Tool { .. } | OperationKind::Extension { .. } => {
                step.args.iter().for_each(|(key, arg)| leaves(Some(&key.value), arg, &mut found));
                found.extend(given_to(view, step).iter().flat_map(|text| lines(text, step.key)));
            }
            _ => {}
        });
    });
    found
}

/// The manifests that setup applies, each with its place: here-documents, files, and arguments of operations.
pub fn manifests<'a>(view: &TaskView<'a>) -> &'a [(String, Span)] {
    view.facts.manifests.get_or_init(|| {
        let mut found = Vec::new();
        for script in view.effects.scripts.iter().filter(|script| script.view.phase == PhaseKind::Setup) {
            for run in script.trace.runs.iter().filter(|run| run.statement.tool() == "kubectl") {
                let span = run.content.span(run.statement.range.clone());
                let input = run.input.as_ref().map(Value::shown);
                found.extend(sent(view, script, run).into_iter().chain(input).map(|text| (text, span)));
            }
        }
        view.task.setup.steps.iter().for_each(|step| {
            step.walk(&mut |step| {
                if matches!(step.op.kind, OperationKind::Extension { .. }) {
                    found.extend(given_to(view, step).into_iter().map(|text| (text, step.key)));
                }
            });
        });
        found
    })
}

/// The text of the file in `-f FILE`.
fn sent(view: &TaskView<'_>, script: &Followed<'_>, run: &Run<'_>) -> Option<String> {
    let words: Vec<&str> = run.words.iter().map(|word| word.literal().unwrap_or_default()).collect();
    let file = words.windows(2).find(|pair| matches!(pair[0], "-f" | "--filename")).map(|pair| pair[1])?;
    read(view, script.view.dir.as_ref()?, file)
}

/// The manifests in the arguments of an operation, and in the files that they name.
fn given_to(view: &TaskView<'_>, step: &Step<Def>) -> Vec<String> {
    let literal = |name: &str| step.arg(name).and_then(|arg| arg.as_literal());
    let text = literal("file").and_then(|file| read(view, &view.task.dir, file));
    let inline = literal("inline").or_else(|| literal("manifest")).map(str::to_owned);
    text.into_iter().chain(inline).collect()
}

/// The text of a file, or of all manifests in a directory.
fn read(view: &TaskView<'_>, dir: &Path, file: &str) -> Option<String> {
    let path = resolve(dir, file);
    let text = |path: &Path| String::from_utf8(view.files.read(path).ok()?).ok();
    let is_manifest = |name: &&String| [".yaml", ".yml", ".json"].iter().any(|end| name.ends_with(end));
    text(&path).or_else(|| {
        let texts: Vec<String> = view
            .files
            .list(&path)
            .iter()
            .filter(is_manifest)
            .take(FILES)
            .filter_map(|name| text(&path.join(name)))
            .collect();
        (!texts.is_empty()).then(|| texts.join("\n---\n"))
    })
}

/// Adds the fields that a command sets.
pub fn in_run(run: &Run<'_>, span: Span, found: &mut Vec<Fact>) {
    if let Some(input) = run.input.as_ref().map(Value::shown) {
        found.extend(lines(&input, span));
    }
    let words: Vec<String> = run.words.iter().map(Value::shown).collect();
    let is_label = words.iter().any(|word| matches!(word.as_str(), "label" | "annotate"));
    let mut push = |key: &str, value: &str| {
        let (parent, key) = key.rsplit_once('.').map_or((None, key), |(parent, key)| (Some(parent.to_owned()), key));
        found.push(Fact {
            key: key.to_owned(),
            parent,
            value: Json::String(value.to_owned()),
            span,
            typed: false,
            exact: true,
        });
    };
    // `--min-available=1`, `--ack-deadline 10`: most options are named after the field that they set.
    if matches!(
        words.first().map(String::as_str),
        Some("kubectl" | "oc" | "gcloud" | "aws" | "az" | "docker" | "gh" | "helm")
    ) {
        for (nth, word) in words.iter().enumerate() {
            let Some(option) = word.strip_prefix("--") else { continue };
            let (name, value) = match option.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (option, words.get(nth + 1).map(String::as_str).filter(|value| !value.starts_with('-'))),
            };
            let known = [
                "from-literal",
                "set",
                "labels",
                "replicas",
                "image",
                "type",
                "port",
                "namespace",
                "project",
                "timeout",
                "hard",
            ];
            if let Some(value) =
                value.filter(|value| !known.contains(&name) && !value.is_empty() && !value.contains(' '))
            {
                let tool = crate::bash::tools::canonical(words.first().map_or("", String::as_str));
                match fields::of_option(tool, name) {
                    Some(field) => push(field, value),
                    None => push(&camel(name), value),
                }
            }
        }
    }
    for (nth, word) in words.iter().enumerate() {
        let next = || words.get(nth + 1).map(String::as_str);
        let pair = match word.as_str() {
            "--from-literal" | "--set" | "-l" | "--labels" | "--hard" => next(),
            _ => ["--from-literal=", "--set=", "--labels=", "--hard="].iter().find_map(|head| word.strip_prefix(head)),
        };
        let own = Some(word.as_str()).filter(|word| is_label && !word.starts_with('-'));
        for (key, value) in pair.or(own).iter().flat_map(|pair| pair.split(',')).filter_map(|pair| pair.split_once('='))
        {
            push(key.rsplit('.').next().unwrap_or(key), value);
        }
        for option in ["replicas", "image", "type", "port"] {
            let value = word.strip_prefix("--").and_then(|word| word.strip_prefix(option));
            match value {
                Some("") => next().into_iter().for_each(|value| push(option, value)),
                Some(value) => value.strip_prefix('=').into_iter().for_each(|value| push(option, value)),
                None => {}
            }
        }
    }
    for word in words.iter().filter(|word| word.starts_with('{')) {
        if let Ok(json) = serde_json::from_str::<Json>(word.trim_end_matches("\\n")) {
            of_json(None, &json, span, found);
        }
    }
}

/// The labels that setup sets, and those in its own selectors. `None` if there may be others.
pub fn labels(view: &TaskView<'_>) -> Option<Vec<(String, String)>> {
    if !view.effects.sees(PhaseKind::Setup) {
        return None;
    }
    let mut found = Vec::new();
    for script in view.effects.scripts.iter().filter(|script| script.view.phase == PhaseKind::Setup) {
        for run in &script.trace.runs {
            let words: Vec<String> = run.words.iter().map(Value::shown).collect();
            let spelt: Vec<&str> = words.iter().map(String::as_str).collect();
            // The labels that charts, remote manifests and other programs set are not visible here.
            let foreign = matches!(run.statement.tool(), "helm" | "virtctl" | "kind" | "make" | "terraform")
                || spelt
                    .iter()
                    .any(|word| word.starts_with("http") || *word == "-k" || word.starts_with("--kustomize"));
            if foreign {
                return None;
            }
            in_manifest(&run.input.as_ref().map(Value::shown).unwrap_or_default(), &mut found);
            let file = spelt.windows(2).find(|pair| matches!(pair[0], "-f" | "--filename")).map(|pair| pair[1]);
            let text = file.zip(script.view.dir.as_ref()).and_then(|(file, dir)| read(view, dir, file));
            in_manifest(&text.unwrap_or_default(), &mut found);
            let by_name = match spelt.as_slice() {
                [_, "create", "deployment" | "deploy", name, ..] => Some(("app", *name)),
                [_, "run", name, ..] => Some(("run", *name)),
                _ => None,
            };
            found.extend(by_name.map(|(key, name)| (key.to_owned(), name.to_owned())));
            // `kubectl label pod web tier=a`, `--labels tier=a`.
            let labels = spelt.contains(&"label");
            for (nth, word) in spelt.iter().enumerate() {
                let own = Some(*word).filter(|word| labels && !word.starts_with('-'));
                let behind = spelt
                    .get(nth + 1)
                    .copied()
                    .filter(|_| matches!(*word, "--labels" | "-l") && spelt.contains(&"run"));
                let pairs = own.or(behind).or_else(|| word.strip_prefix("--labels=")).unwrap_or_default();
                found.extend(
                    pairs.split(',').filter_map(|pair| pair.split_once('=')).map(|(k, v)| (k.to_owned(), v.to_owned())),
                );
            }
        }
    }
    let mut step_labels = |arg: &Arg<Def>| in_argument(None, arg, &mut found);
    view.task
        .setup
        .steps
        .iter()
        .for_each(|step| step.walk(&mut |step| step.args.iter().for_each(|(_, arg)| step_labels(arg))));
    view.task.setup.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            let file =
                step.arg("file").and_then(|file| file.as_literal()).and_then(|file| read(view, &view.task.dir, file));
            in_manifest(&file.unwrap_or_default(), &mut found);
        });
    });
    Some(found)
}

fn in_argument(key: Option<&str>, arg: &Arg<Def>, found: &mut Vec<(String, String)>) {
    match &arg.kind {
        ArgKind::Record(fields) => {
            for (name, value) in fields {
                if matches!(key, Some("labels" | "matchLabels" | "selector"))
                    && let Some(text) = value.as_literal()
                {
                    found.push((name.value.clone(), text.to_owned()));
                }
                in_argument(Some(&name.value), value, found);
            }
        }
        ArgKind::List(items) => items.iter().for_each(|item| in_argument(key, item, found)),
        _ => {
            if let Some(text) = arg.as_literal().filter(|text| text.contains('\n')) {
                in_manifest(text, found);
            }
        }
    }
}

/// Labels in a manifest, after `labels:`, `matchLabels:` or `selector:`: in braces, or on indented lines.
fn in_manifest(text: &str, found: &mut Vec<(String, String)>) {
    let mut depth = None;
    let clean = |text: &str| text.trim().trim_matches(['"', '\'']).to_owned();
    for line in text.lines() {
        let content = line.trim_start();
        let indent = line.len() - content.len();
        if depth.is_some_and(|depth| indent <= depth) && !content.is_empty() {
            depth = None;
        }
        if depth.is_some() {
            found.extend(content.split_once(':').map(|(key, value)| (clean(key), clean(value))));
        }
        for head in ["labels:", "matchLabels:", "selector:"] {
            let Some(rest) = content
                .trim_start_matches("- ")
                .strip_prefix(head)
                .or_else(|| content.split_once(&format!("{{{head}")).map(|(_, rest)| rest))
            else {
                continue;
            };
            match rest.split_once('{') {
                Some((_, inner)) => {
                    let inner = inner.rsplit('{').next().unwrap_or(inner);
                    let pairs =
                        inner.split('}').next().unwrap_or_default().split(',').filter_map(|pair| pair.split_once(':'));
                    found.extend(pairs.map(|(key, value)| (clean(key), clean(value))));
                }
                None if rest.trim().is_empty() => depth = Some(indent),
                None => {}
            }
        }
    }
}

/// Every `key: value`, `"key": value` and `key: [item]`, line by line.
pub fn lines(text: &str, span: Span) -> impl Iterator<Item = Fact> {
    let mut found: Vec<Fact> = Vec::new();
    // The keys that contain the current line, with their indentation.
    let mut around: Vec<(usize, &str)> = Vec::new();
    for line in text.lines() {
        let content = line.trim_start();
        let indent = line.len() - content.len();
        let item = content.strip_prefix("- ").map(str::trim_start);
        let (content, indent) = match item {
            Some(rest) => (rest, line.len() - rest.len()),
            None => (content, indent),
        };
        if !content.is_empty() {
            while around.last().is_some_and(|(depth, _)| *depth >= indent) {
                around.pop();
            }
        }
        let parent = around.last().map(|(_, key)| (*key).to_owned());
        let mut rest = line;
        while let Some(part) = LINE.captures(rest) {
            // The comma behind a value is before the next key.
            let end = part.get(0).map_or(rest.len(), |whole| whole.end());
            let behind = if rest[..end].ends_with(',') { end.saturating_sub(1) } else { end };
            rest = &rest[behind..];
            let value = &part[3];
            let quoted = !part[2].is_empty();
            let value = if quoted { Json::String(value.to_owned()) } else { scalar(value) };
            found.push(Fact {
                key: part[1].to_owned(),
                parent: parent.clone(),
                value,
                span,
                typed: false,
                exact: true,
            });
        }
        // A list of texts has one line per item.
        if let (Some(item), Some((_, key))) = (item, around.last()) {
            let item = item.trim().trim_matches(['"', '\'']);
            if !item.is_empty() && !item.contains([' ', '{', '[', ':', '#']) {
                let parent = around.iter().rev().nth(1).map(|(_, key)| (*key).to_owned());
                let value = scalar(item);
                found.push(Fact { key: (*key).to_owned(), parent, value, span, typed: false, exact: true });
            }
        }
        // `runAfter: [build]`
        if let Some((key, items)) = content.split_once(": [").filter(|(key, _)| !key.contains([' ', '"', '{'])) {
            let items = items
                .split(']')
                .next()
                .unwrap_or_default()
                .split(',')
                .map(|item| item.trim().trim_matches(['"', '\'']));
            found.extend(items.filter(|item| !item.is_empty() && !item.contains(['{', '['])).map(|item| Fact {
                key: key.to_owned(),
                parent: parent.clone(),
                value: scalar(item),
                span,
                typed: false,
                exact: true,
            }));
        }
        if let Some(key) = content.trim_end().strip_suffix(':').filter(|key| !key.contains(' ')) {
            around.push((indent, key));
        }
    }
    found.into_iter()
}

/// The camel-case form of an option: `ackDeadline` for `ack-deadline`.
fn camel(option: &str) -> String {
    let mut parts = option.split('-');
    let mut name = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let mut letters = part.chars();
        name.extend(letters.next().map(|c| c.to_ascii_uppercase()));
        name.push_str(letters.as_str());
    }
    name
}

fn scalar(text: &str) -> Json {
    match serde_json::from_str::<Json>(text) {
        Ok(value @ (Json::Number(_) | Json::Bool(_))) => value,
        _ => Json::String(text.to_owned()),
    }
}

static LINE: Ascii = ascii(
    r#"(?m)(?:^|[{,])[ \t]*(?:- )?"?([A-Za-z][\w.-]*)"?[ \t]*:[ \t]+(["']?)([^"'{}\[\],\n#]+?)["']?[ \t]*(?:,|\}|$)"#,
);

fn leaves(key: Option<&str>, arg: &Arg<Def>, found: &mut Vec<Fact>) {
    match &arg.kind {
        ArgKind::Record(fields) => fields.iter().for_each(|(key, arg)| leaves(Some(&key.value), arg, found)),
        ArgKind::List(items) => items.iter().for_each(|arg| leaves(key, arg, found)),
        _ => {
            if let Some((key, value)) = key.zip(arg.as_value()) {
                found.push(Fact {
                    key: key.to_owned(),
                    parent: None,
                    value,
                    span: arg.span,
                    typed: false,
                    exact: true,
                });
            }
        }
    }
}

fn of_json(key: Option<&str>, value: &Json, span: Span, found: &mut Vec<Fact>) {
    match value {
        Json::Object(fields) => fields.iter().for_each(|(key, value)| of_json(Some(key), value, span, found)),
        Json::Array(items) => items.iter().for_each(|value| of_json(key, value, span, found)),
        value => found.extend(key.map(|key| Fact {
            key: key.to_owned(),
            parent: None,
            value: value.clone(),
            span,
            typed: false,
            exact: true,
        })),
    }
}

/// Fields that verify compares with a literal value.
pub fn asked<'a>(view: &TaskView<'a>) -> &'a [Fact] {
    view.facts.asked.get_or_init(|| find_asked(view))
}

fn find_asked(view: &TaskView<'_>) -> Vec<Fact> {
    let mut found = Vec::new();
    for script in view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify) {
        in_tests(&script.content, &mut found);
        in_calls(&script.content, &mut found);
        in_python(&script.content, &mut found);
    }
    of_helpers(view, &mut found);
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            if let (Some(path), Some(value)) =
                (step.arg("jsonpath").and_then(|path| path.as_literal()), step.arg("value"))
                && let Some((key, json)) = last_name(path).zip(value.as_value())
            {
                let typed =
                    matches!(&step.op.kind, OperationKind::Extension { operation, .. } if operation == "field-equals");
                found.push(Fact { key, parent: parent(path), value: json, span: value.span, typed, exact: true });
            }
            if let Some(expected) = step.arg("expected").filter(|expected| matches!(expected.kind, ArgKind::Record(_)))
            {
                in_expected(None, expected, &mut found);
            }
            if let Some((file, span)) = step.arg("expected").and_then(|file| Some((file.as_literal()?, file.span))) {
                let text = read(view, &view.task.dir, file).unwrap_or_default();
                let identifies = |key: &str| matches!(key, "apiVersion" | "kind" | "name" | "namespace");
                found.extend(lines(&text, span).filter(|fact| !identifies(&fact.key)));
            }
            of_rounds(step, &mut found);
            if let Some((_, expect)) = &step.expect {
                paths(expect, &mut found);
                in_row(step, expect, &mut found);
                let stdout = expect.get("stdout").map(|out| out.get("equals").unwrap_or(out));
                let path = step.arg("run").and_then(texts::script_text).and_then(|run| field(&run).map(str::to_owned));
                if let (Some(path), Some(value)) = (path, stdout)
                    && let Some((key, json)) = last_name(&path).zip(value.as_literal().map(scalar))
                {
                    found.push(Fact {
                        key,
                        parent: parent(&path),
                        value: json,
                        span: value.span,
                        typed: false,
                        exact: true,
                    });
                }
            }
        });
    });
    // A variable of jq.
    found.retain(|fact| !fact.value.as_str().is_some_and(|value| value.starts_with('$')));
    found
}

/// The fields that the rounds of a `foreach` over a literal list check: `jsonpath: "{want.path}"`, `value: "{want.value}"`.
fn of_rounds(step: &Step<Def>, found: &mut Vec<Fact>) {
    let (Some(ArgKind::List(rounds)), Some(name)) =
        (step.arg("in").map(|list| &list.kind), step.arg("var").and_then(|name| name.as_literal()))
    else {
        return;
    };
    let inner = step.blocks.iter().flat_map(|block| &block.steps);
    for step in inner.take(8) {
        let hole = |key: &str| match &step.arg(key)?.kind {
            ArgKind::Text(text) => {
                let text = texts::written(text);
                text.strip_prefix('{')?.strip_suffix('}')?.strip_prefix(name)?.strip_prefix('.').map(str::to_owned)
            }
            _ => None,
        };
        let Some((path, value)) = hole("jsonpath").zip(hole("value")) else { continue };
        for round in rounds.iter().take(64) {
            let Some((path, value)) = round.get(&path).and_then(|path| path.as_literal()).zip(round.get(&value)) else {
                continue;
            };
            if let Some((key, json)) = last_name(path).zip(value.as_value()) {
                found.push(Fact { key, parent: parent(path), value: json, span: value.span, typed: true, exact: true });
            }
        }
    }
}

/// The fields of the object with which an operation compares a resource, without those that identify it.
fn in_expected(parent: Option<&str>, arg: &Arg<Def>, found: &mut Vec<Fact>) {
    let ArgKind::Record(fields) = &arg.kind else { return };
    for (key, value) in fields {
        let key = key.value.as_str();
        if matches!(key, "apiVersion" | "kind" | "name" | "namespace") {
            continue;
        }
        in_expected(Some(key), value, found);
        if let Some(json) = value.as_value().filter(|json| !json.is_array() && !json.is_object() && !json.is_null()) {
            let (key, parent) = (key.to_owned(), parent.map(str::to_owned));
            found.push(Fact { key, parent, value: json, span: value.span, typed: false, exact: true });
        }
    }
}

/// `jq -c '[.replicas, .greeting]'`, whose output must be `[2,"Good morning"]`.
fn in_row(step: &Step<Def>, expect: &Arg<Def>, found: &mut Vec<Fact>) {
    let Some(stdout) = expect.get("stdout").map(|out| out.get("equals").unwrap_or(out)) else { return };
    let Some(text) = stdout.as_literal().filter(|text| text.starts_with('[')) else { return };
    let Some(Json::Array(values)) = serde_json::from_str(text.trim()).ok() else { return };
    let Some(run) = step.arg("run").and_then(texts::script_text).filter(|run| run.contains("jq")) else { return };
    let Some(row) = ROW.captures(&run).and_then(|row| Some(row.get(1)?.as_str().to_owned())) else { return };
    let paths: Vec<&str> = row.split(',').map(str::trim).collect();
    let is_path = |path: &&str| path.starts_with('.') && last_name(path).is_some();
    if paths.len() != values.len() || !paths.iter().all(is_path) {
        return;
    }
    for (path, value) in paths.iter().zip(values).filter(|(_, value)| !value.is_array() && !value.is_object()) {
        let Some(key) = last_name(path) else { continue };
        found.push(Fact { key, parent: parent(path), value, span: stdout.span, typed: false, exact: true });
    }
}

/// The paths in `jq '[.a, .b.c]'`.
static ROW: Ascii = ascii(r"\bjq\s+(?:-\w+\s+)*'\[([^'|\[\]()]+)\]'");

/// Comparisons in functions whose arguments are the path and the value: `expect .spec.suspend true`.
fn of_helpers(view: &TaskView<'_>, found: &mut Vec<Fact>) {
    let known: FxHashSet<Span> = found.iter().map(|fact| fact.span).collect();
    for question in view.asked().iter().filter(|question| !known.contains(&question.span)) {
        let (Form::Field(path), Demand::Compared { operator, with }) = (&question.form, &question.demand) else {
            continue;
        };
        let wanted = match operator.as_str() {
            "=" | "==" | "-eq" => true,
            "!=" | "-ne" => false,
            _ => continue,
        };
        let text = question.content.text.get(question.statement.range.clone()).unwrap_or_default();
        // The value or the field is an argument of the function, or the function reads one field.
        let in_function = || !text.contains(with.as_str()) || !question.runs.iter().all(|run| is_near(question, run));
        if with.is_empty() || with.contains('*') || question.is_wanted() != Some(wanted) || !in_function() {
            continue;
        }
        let is_known = |key: &str| found.iter().any(|fact| fact.key == key && fact.text() == *with);
        if let Some(key) = last_name(path).filter(|key| !is_known(key)) {
            let (parent, value, span) = (parent(path), scalar(with), question.span);
            found.push(Fact { key, parent, value, span, typed: false, exact: true });
        }
    }
}

/// Whether a command is in the check that inspects it, and not in a function.
fn is_near(question: &Question<'_>, run: &Run<'_>) -> bool {
    let mut in_function = false;
    question.content.program.walk(&mut |s| {
        let is_around = s.range.start <= run.statement.range.start && run.statement.range.end <= s.range.end;
        in_function |= matches!(s.kind, Kind::Function { .. }) && is_around;
    });
    std::ptr::eq(run.content, question.content) && !in_function
}

/// `{path: $.a.b, equals: c}`, anywhere in an expectation.
fn paths(arg: &Arg<Def>, found: &mut Vec<Fact>) {
    match &arg.kind {
        ArgKind::Record(fields) => {
            let path = arg.get("path").and_then(|path| path.as_literal());
            if let (Some(path), Some(value)) = (path, arg.get("equals"))
                && let Some(json) = value.as_value().filter(|json| !json.is_array() && !json.is_object())
                && let Some(key) = last_name(path)
            {
                found.push(Fact {
                    key,
                    parent: parent(path),
                    value: json,
                    span: value.span,
                    typed: false,
                    exact: true,
                });
            }
            fields.iter().for_each(|(_, arg)| paths(arg, found));
        }
        ArgKind::List(items) => items.iter().for_each(|arg| paths(arg, found)),
        _ => {}
    }
}

/// The last name in a path: `mode` of `{.data.mode}`, `$.items[0].mode`.
pub fn last_name(path: &str) -> Option<String> {
    let path = path.trim_end_matches(['}', '"', '\'', ' ']);
    let path = match path.strip_suffix(']') {
        Some(inner) => &inner[..inner.rfind('[')?],
        None => path,
    };
    let name = path.rsplit(['.', ']', '$']).next()?.trim_matches(['"', '\'']);
    let plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    plain.then(|| name.to_owned())
}

/// The name before the last one: `data` of `{.data.mode}`.
fn parent(path: &str) -> Option<String> {
    let path = path.trim_end_matches(['}', '"', '\'', ' ']);
    let at = path.rfind('.').filter(|at| !path[..*at].ends_with('\\'))?;
    last_name(&path[..at])
}

/// `check replicas 3 "$(kubectl get … -o jsonpath='{.spec.replicas}')"`, where `check` compares two of its arguments.
fn in_calls(content: &Content, found: &mut Vec<Fact>) {
    let mut compare: Vec<(&str, usize, usize)> = Vec::new();
    content.program.walk(&mut |s| {
        let Kind::Function { name, body } = &s.kind else { return };
        let mut pair = None;
        // `local want="$2"`.
        let mut names: Vec<(String, usize)> = Vec::new();
        let nth =
            |text: &str| text.trim_matches(['"', '$', '{', '}']).parse::<usize>().ok().filter(|_| text.contains('$'));
        body.iter().for_each(|s| {
            s.walk(&mut |s| {
                let text = content.text.get(s.range.clone()).unwrap_or_default();
                if matches!(s.kind, Kind::Assignment | Kind::Declaration) {
                    let words = crate::bash::ast::split(text, 0);
                    let pairs = words.iter().filter_map(|word| word.source.split_once('='));
                    names.extend(pairs.filter_map(|(name, value)| Some((name.to_owned(), nth(value)?))));
                } else if matches!(s.kind, Kind::Test) {
                    let words = crate::bash::ast::split(text, 0);
                    let place = |text: &str| {
                        nth(text).or_else(|| {
                            let name = text.trim_matches(['"', '$', '{', '}']);
                            names.iter().find(|(known, _)| known == name).map(|(_, nth)| *nth)
                        })
                    };
                    for triple in words.windows(3) {
                        if matches!(triple[1].source.as_str(), "=" | "==" | "!=" | "-eq" | "-ne")
                            && let (Some(a), Some(b)) = (place(&triple[0].source), place(&triple[2].source))
                        {
                            pair.get_or_insert((a, b));
                        }
                    }
                }
            });
        });
        compare.extend(pair.map(|(a, b)| (name.as_str(), a, b)));
    });
    if compare.is_empty() {
        return;
    }
    content.program.walk(&mut |s| {
        let Some((_, a, b)) = compare.iter().find(|(name, ..)| *name == s.name()) else { return };
        let word = |nth: usize| s.words().get(nth);
        for (wanted, given) in [(*a, *b), (*b, *a)] {
            if let (Some(wanted), Some(given)) = (word(wanted), word(given))
                && wanted.literal
                && let Some(path) = field(&given.text)
                && let Some(key) = last_name(path)
            {
                let span = content.span(wanted.range.clone());
                found.push(Fact {
                    key,
                    parent: parent(path),
                    value: scalar(&wanted.text),
                    span,
                    typed: false,
                    exact: true,
                });
            }
        }
    });
}

/// `found.get("mode") != "live"`, `found["mode"] == "live"` in Python code.
fn in_python(content: &Content, found: &mut Vec<Fact>) {
    let text = content.text.as_str();
    if !text.contains("python") {
        return;
    }
    for (at, _) in text.match_indices(['"', '\'']) {
        if !(text[..at].ends_with('[') || text[..at].ends_with("get(")) {
            continue;
        }
        let quote = &text[at..at + 1];
        let Some(end) = text[at + 1..].find(quote).map(|end| at + 1 + end) else { break };
        let key = &text[at + 1..end];
        let plain =
            !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'));
        let rest = &text[end + 1..];
        let Some(rest) = rest.strip_prefix([']', ')']).filter(|_| plain) else { continue };
        let rest = rest.trim_start_matches(' ');
        let signs = ["!= ", "== ", ">= ", "<= "].iter();
        let Some((sign, rest)) = signs.filter_map(|sign| Some((sign, rest.strip_prefix(sign)?))).next() else {
            continue;
        };
        let start = text.len() - rest.len();
        let value = match rest.as_bytes().first() {
            Some(quote @ (b'"' | b'\'')) => {
                let inner = &rest[1..];
                let Some(end) = inner.find(char::from(*quote)) else { continue };
                Json::String(inner[..end].to_owned())
            }
            Some(b'0'..=b'9') => {
                let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
                scalar(&rest[..end])
            }
            _ => match rest {
                _ if rest.starts_with("True") => Json::Bool(true),
                _ if rest.starts_with("False") => Json::Bool(false),
                _ => continue,
            },
        };
        let line = rest.find([':', '\n', ')']).unwrap_or(rest.len());
        found.push(Fact {
            key: key.to_owned(),
            parent: None,
            value,
            span: content.span(start..start + line),
            typed: true,
            exact: *sign == "== " || *sign == "!= ",
        });
    }
}

/// `mode=$(kubectl get … -o jsonpath='{.data.mode}')`, and then `[ "$mode" = live ]`.
fn in_tests(content: &Content, found: &mut Vec<Fact>) {
    let mut captures: Vec<(String, String)> = Vec::new();
    content.program.walk(&mut |s| {
        if matches!(s.kind, Kind::Assignment | Kind::Declaration) && s.nested.len() == 1 {
            let text = content.text.get(s.range.clone()).unwrap_or_default();
            let text = text.trim_start_matches("local ").trim_start_matches("export ").trim_start_matches("readonly ");
            if let Some((name, path)) = text.split_once('=').and_then(|(name, rest)| Some((name, field(rest)?))) {
                captures.push((name.to_owned(), path.to_owned()));
            }
        }
    });
    content.program.walk(&mut |s: &Statement| {
        let text = content.text.get(s.range.clone()).unwrap_or_default();
        if s.tool() == "jq" {
            for word in s.words() {
                for list in EQUAL_LIST.captures_iter(&word.text) {
                    let (key, value) = (list[1].to_owned(), Json::String(list[2].to_owned()));
                    let span = content.span(word.range.clone());
                    found.push(Fact { key, parent: None, value, span, typed: true, exact: true });
                }
                for equal in EQUAL.captures_iter(&word.text) {
                    let is_text = equal.get(2).is_some_and(|quote| !quote.as_str().is_empty());
                    let before = equal.get(0).map_or("", |whole| &word.text[..whole.start()]);
                    found.push(Fact {
                        key: equal[1].to_owned(),
                        parent: last_name(before).filter(|_| before.ends_with(|c: char| c.is_ascii_alphanumeric())),
                        value: if is_text { Json::String(equal[3].to_owned()) } else { scalar(&equal[3]) },
                        span: content.span(word.range.clone()),
                        typed: true,
                        exact: true,
                    });
                }
            }
            return;
        }
        if !(matches!(s.kind, Kind::Test) || s.name() == "test") {
            return;
        }
        // If a match makes the script fail, the value is not the expected one.
        let outcomes = LazyCell::new(|| flow::outcomes(&content.program, &s.range));
        let is_refused = |test: &str| {
            let is = |operators: &[&str]| test.split_whitespace().any(|word| operators.contains(&word));
            let (met, missed) = *outcomes;
            is(&["=", "==", "-eq"]) && !met.zero && missed.zero || is(&["!=", "-ne"]) && !missed.zero && met.zero
        };
        for test in TEST.captures_iter(text) {
            // `"x$mode"` contains more than the field.
            let before = &text[..test.get(0).map_or(0, |whole| whole.start())];
            if !before.is_empty() && !before.ends_with([' ', '\t', '\n', '(', '!']) {
                continue;
            }
            let group = |name: &str| test.name(name).map(|m| m.as_str());
            let path = match (group("var"), group("command")) {
                (Some(var), _) => captures.iter().rev().find(|(name, _)| name == var).map(|(_, path)| path.as_str()),
                (None, Some(command)) => field(command),
                _ => None,
            };
            // `[[ … == v1.* ]]` compares with a pattern.
            let value = group("value").filter(|value| !(text.starts_with("[[") && value.contains(['*', '?', '['])));
            if let (Some(path), Some(value)) = (path, value)
                && let Some(key) = last_name(path)
                && !is_refused(test.get(0).map_or("", |whole| whole.as_str()))
            {
                let span = content.span(s.range.clone());
                let exact = test.get(0).is_some_and(|test| !BOUND.is_match(test.as_str()));
                found.push(Fact { key, parent: parent(path), value: scalar(value), span, typed: false, exact });
            }
        }
    });
}

/// Whether a fact comes from a comparison in a jq filter that only selects elements.
pub fn is_of_selector(view: &TaskView<'_>, fact: &Fact) -> bool {
    let source = view.sources.get(fact.span.file);
    let Some(text) = source.text().get(fact.span.range()).filter(|text| text.contains("select(")) else { return false };
    let mut equals = EQUAL.captures_iter(text).filter(|equal| equal[1] == fact.key && equal[3] == fact.text());
    let of_selector = |equal: &Captures<'_>| {
        let at = equal.get(0).map_or(0, |whole| whole.start());
        is_selector(&text[..at], &text[at..])
    };
    equals.next().is_some_and(|first| of_selector(&first)) && equals.all(|other| of_selector(&other))
}

/// Whether a comparison in a jq filter only selects the elements of which another field is read: `select(.name == "web") | .port`.
fn is_selector(before: &str, from: &str) -> bool {
    let Some(open) = before.rfind("select(") else { return false };
    let inner = &before[open + "select".len()..];
    let whole = inner.to_owned() + from;
    let Some(end) = crate::bash::ast::closing(&whole, b'(', b')').filter(|end| *end >= inner.len()) else {
        return false;
    };
    let next = whole[end + 1..].trim_start().strip_prefix('|').map_or("", str::trim_start);
    next.strip_prefix('.').is_some_and(|field| field.starts_with(|c: char| c.is_ascii_alphabetic()))
}

/// The path of the field that a command prints.
pub fn field(command: &str) -> Option<&str> {
    let found = FIELD.captures(command)?;
    let path = (1..5).find_map(|group| found.get(group))?;
    // `{.spec.minReplicas}-{.spec.maxReplicas}` prints more than one field.
    let behind = command[path.end()..].strip_prefix('}').filter(|_| found.get(1).is_some());
    // In quotes, a space does not end the format: `'{.spec.replicas} {.spec.paused}'`.
    let head = command[..path.start()].strip_suffix('{').unwrap_or_default();
    let quote = head.chars().next_back().filter(|_| head.ends_with(['"', '\'']));
    let quote =
        quote.or_else(|| head.strip_suffix("jsonpath=")?.chars().next_back().filter(|c| matches!(c, '"' | '\'')));
    if let Some((behind, quote)) = behind.zip(quote)
        && !behind.starts_with(quote)
    {
        return None;
    }
    if behind
        .is_some_and(|behind| behind.starts_with(|c: char| !c.is_whitespace() && !matches!(c, '"' | '\'' | ')' | '`')))
    {
        return None;
    }
    // In `.items[] | select(…) | .name`, the last part is printed.
    if let Some(quote @ ('\'' | '"')) = command[..path.start()].chars().next_back().filter(|_| found.get(2).is_some())
        && let Some((filter, _)) = command[path.start()..].split_once(quote)
        && let Some((_, last)) = filter.rsplit_once("| ")
    {
        let last = last.trim().trim_end_matches(['?', ']', '[']);
        let plain =
            last.starts_with('.') && last.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
        if plain && last.len() > 1 {
            return Some(last);
        }
        // `.policyTypes | index("Egress")` prints something else.
        if !matches!(last, "." | "tostring" | "@text") {
            return None;
        }
    }
    Some(path.as_str())
}

static FIELD: Ascii = ascii(
    r#"jsonpath=["']?\{([^}]*)\}|\bjq\s+(?:-\w+\s+)*["']?(\.[\w.\[\]"-]+)|["']\{\{\s*(?:json )?(\.[\w.]+)\s*\}\}["']|["']\{(\.[^}]*)\}["']"#,
);

/// `.key == value` or `.key != value` in a jq filter.
static EQUAL: Ascii = ascii(r#"\.([A-Za-z_]\w*)\s*[!=]=\s*("?)([^"\s()]+)"?"#);

/// `[.ports[] | .port] == ["80"]` or `map(.port) == ["80"]` in a jq filter.
static EQUAL_LIST: Ascii = ascii(r#"\.([A-Za-z_]\w*)\s*[\])]\s*[!=]=\s*\[\s*"(\d+)""#);

/// The operator of a bound.
static BOUND: Ascii = ascii(r"\s-(?:ge|gt|le|lt)\s");
/// A variable or a capture, an operator, a literal.
static TEST: Ascii = ascii(
    r#""?(?:\$\{?(?P<var>\w+)(?::-[^}]*)?\}?|\$\((?P<command>[^\n]*)\))"?\s+(?:=|==|!=|-eq|-ne|-ge|-gt|-le|-lt)\s+["']?(?P<value>[^"'\s$\]]+)["']?"#,
);
