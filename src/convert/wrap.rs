//! A task as a whole: its envelope, its prompt, its phases.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, HashMap, HashSet},
    path::{Path, PathBuf},
};

use super::{
    Context, Converted, Label, Piece, Refusal, Tally, Target, classify,
    emit::{self, Comments, Entry, Item, Value, document, keep, trailing},
    lift::{self, Shared, Source},
    shell::Text,
    step::{self, Step},
};
use crate::{
    hir::{self, Arg, ArgKind, Dialect, Part, PhaseKind, RequirementKind, Task, Template},
    project::TaskUnit,
    source::{Span, Stat, resolve},
    template::{self, SegmentKind, escape},
    ty::duration,
    yaml::Node,
};

type Written = Task<template::Path>;

pub(super) fn task(unit: &TaskUnit, cx: Context<'_>, mistake: Option<usize>) -> Result<Converted, Refusal> {
    let source = cx.sources.get(unit.file);
    let root = unit.tree.root();
    let whole = root.span();
    let task = unit.task.as_ref().filter(|_| unit.reported.is_none());
    let task = task.ok_or_else(|| refusal(whole, "the task has errors; `gevals check` shows them"))?;
    let mut converter = Converter {
        cx,
        task,
        text: source.text(),
        comments: Comments::new(source.text(), unit.tree.comments()),
        notes: Vec::new(),
        pieces: Vec::new(),
        tally: Tally::default(),
        ids: HashMap::new(),
        packages: packages(unit, cx),
        apart: false,
    };
    if task.dialect == cx.to {
        return Ok(converter.unchanged(source.text()));
    }
    let entries = match (task.dialect, cx.to) {
        (Dialect::Legacy, Dialect::Steps) => converter.as_steps(root)?,
        (_, Dialect::Portable) => converter.as_portable(root, mistake)?,
        (from, to) => {
            return Err(refusal(whole, format!("a {} task cannot become a {} task", from.name(), to.name())));
        }
    };
    let (entries, places) = entries;
    let foot = converter.comments.rest();
    let text = document(&entries, &foot);
    let count = |task: &Written| {
        let mut n = 0;
        task.walk(&mut |_, _| n += 1);
        n
    };
    let texts: Vec<String> = converter.scripts().into_iter().map(|s| s.text).collect();
    let scripts: usize = texts.iter().map(|t| t.lines().count()).sum();
    let inline =
        |task: &Written| PhaseKind::ALL.iter().flat_map(|k| &task.phase(*k).steps).any(|s| s.arg("file").is_some());
    Ok(Converted {
        steps_before: count(task),
        steps_after: 0,
        lines_before: source.text().lines().count() + if inline(task) { scripts } else { 0 },
        lines_after: text.lines().count(),
        text,
        tally: converter.tally,
        pieces: converter.pieces,
        notes: converter.notes,
        files: referenced(task),
        scripts: texts,
        places,
    })
}

fn refusal(span: Span, message: impl Into<String>) -> Refusal {
    Refusal { span, message: message.into() }
}

/// The packages of extensions, by the name the eval gives them.
fn packages(unit: &TaskUnit, cx: Context<'_>) -> HashMap<String, String> {
    let index = cx.project.tasks.iter().position(|t| t.file == unit.file);
    let evals = cx.project.evals.iter().filter(|e| e.selected.iter().any(|s| Some(s.task) == index));
    let mut found = HashMap::new();
    for extension in evals.filter_map(|e| e.eval.as_ref()).flat_map(|e| &e.extensions) {
        if let Some(package) = &extension.package {
            found.insert(extension.alias.value.clone(), package.value.clone());
        }
    }
    found
}

/// Files that a task names, relative to its folder.
fn referenced(task: &Written) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    task.walk(&mut |_, step| {
        if let Some(file) = step.arg("file").and_then(Arg::as_literal) {
            found.push(PathBuf::from(file));
        }
    });
    if let Some(file) = task.prompt.as_ref().and_then(|p| p.file.as_ref()) {
        found.push(file.value.strip_prefix(&task.dir).map_or_else(|_| file.value.clone(), Path::to_path_buf));
    }
    found
}

struct Converter<'a> {
    cx: Context<'a>,
    task: &'a Written,
    text: &'a str,
    comments: Comments<'a>,
    notes: Vec<String>,
    pieces: Vec<Piece>,
    tally: Tally,
    /// The id that stands for a type of step, where the steps dialect refers to types.
    ids: HashMap<String, String>,
    packages: HashMap<String, String>,
    /// The last script goes on behind whatever is wrong.
    apart: bool,
}

impl Converter<'_> {
    fn unchanged(&self, text: &str) -> Converted {
        Converted {
            text: text.to_owned(),
            tally: Tally::default(),
            pieces: Vec::new(),
            notes: Vec::new(),
            steps_before: 0,
            steps_after: 0,
            lines_before: text.lines().count(),
            lines_after: text.lines().count(),
            files: referenced(self.task),
            scripts: Vec::new(),
            places: 0,
        }
    }

    fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// `kind` and `apiVersion`, with the comments at the head of the file.
    fn head(&mut self, root: Node<'_>, version: &str) -> Vec<Entry> {
        let first = root.entries().next().map_or(0, |e| e.key.span().start as usize);
        let mut kind = Entry::new("kind", Value::Raw("Task".to_owned()));
        kind.comments = self.comments.before(first);
        kind.trailing = find(root, "kind").and_then(|e| trailing(e.value, &mut self.comments));
        vec![kind, Entry::new("apiVersion", Value::Raw(version.to_owned()))]
    }

    fn entry(&mut self, key: &str, node: Node<'_>, above: Span) -> Entry {
        let comments = self.comments.before(above.start as usize);
        let value = keep(node, self.text, &mut self.comments);
        let trailing = trailing(node, &mut self.comments);
        Entry { comments, key: key.to_owned(), value, trailing }
    }

    fn metadata(&mut self, root: Node<'_>) -> Option<Entry> {
        let entry = find(root, "metadata")?;
        let mut kept = self.entry("metadata", entry.value, entry.key.span());
        if let Value::Raw(_) = kept.value {
            kept.value = emit::plain(entry.value);
        }
        if let Value::Map(entries) = &mut kept.value {
            for e in entries.iter_mut() {
                e.key = e.key.to_ascii_lowercase().replace("cleanuptimeout", "cleanupTimeout");
                if e.key == "parallel" {
                    e.value = Value::bool(self.task.meta.parallel);
                }
                // Empty values of the older dialects.
            }
            entries.retain(|e| e.value != Value::Raw(String::new()));
        }
        Some(kept)
    }

    /// Legacy to steps: the same scripts, as steps.
    fn as_steps(&mut self, root: Node<'_>) -> Result<(Vec<Entry>, usize), Refusal> {
        let mut entries = self.head(root, "mcpchecker/v1alpha2");
        entries.extend(self.metadata(root));
        let mut spec = Vec::new();
        let steps = find(root, "steps").ok_or_else(|| refusal(root.span(), "the task has no `steps`"))?;
        let above = self.comments.before(steps.key.span().start as usize);
        for entry in steps.value.entries() {
            let name = entry.name.to_ascii_lowercase();
            let comments = self.comments.before(entry.key.span().start as usize);
            let mut value = keep(entry.value, self.text, &mut self.comments);
            let mut new = match name.as_str() {
                "prompt" => {
                    let text = entry.value.get("inline").and_then(Node::text).unwrap_or_default();
                    if text.contains("{steps.") {
                        return Err(refusal(
                            entry.value.span(),
                            "`{steps.` makes the prompt a template of the steps dialect, and there is no escape",
                        ));
                    }
                    allowed_braces(&mut value);
                    Entry::new("prompt", value)
                }
                _ => {
                    let phase =
                        [("setup", PhaseKind::Setup), ("verify", PhaseKind::Verify), ("cleanup", PhaseKind::Cleanup)];
                    let Some((_, kind)) = phase.into_iter().find(|(n, _)| *n == name) else { continue };
                    let Some(step) = self.task.phase(kind).steps.first() else { continue };
                    let operation = step.op.value.clone();
                    if operation == "llmJudge" {
                        for (_, arg) in &step.args {
                            if arg.as_literal().is_some_and(|t| t.contains(['{', '}'])) {
                                return Err(refusal(
                                    arg.span,
                                    "braces have a meaning for a judge of the steps dialect, and there is no escape",
                                ));
                            }
                        }
                    }
                    allowed_braces(&mut value);
                    if let Value::Map(fields) = &mut value {
                        fields.retain(|f| step.arg(&f.key.to_ascii_lowercase()).is_some());
                    }
                    self.keep_script(kind, step);
                    let item = Item { comments: Vec::new(), value: Value::Map(vec![Entry::new(&operation, value)]) };
                    Entry::new(&name, Value::List(vec![item]))
                }
            };
            new.comments = comments;
            spec.push(new);
        }
        spec.sort_by_key(|e| ["prompt", "setup", "verify", "cleanup"].iter().position(|k| *k == e.key));
        let mut spec = Entry::new("spec", Value::Map(spec));
        spec.comments = above;
        entries.push(spec);
        Ok((entries, 0))
    }

    /// Counts a script that stays one.
    fn keep_script(&mut self, phase: PhaseKind, step: &hir::Step<template::Path>) {
        let Some(source) = self.script(phase, step) else {
            // A program that is no text.
            if step.op.value == "script" {
                let text = step.arg("file").and_then(Arg::as_literal).unwrap_or_default().to_owned();
                self.tally.add(Label::Residual, 1);
                let (label, why) = (Label::Residual, Some("no script".to_owned()));
                self.pieces.push(Piece { phase, file: None, line: 1, text, label, statements: 1, why });
            }
            return;
        };
        let statements = classify::effective(&source.text);
        self.tally.add(Label::Residual, statements);
        self.pieces.push(Piece {
            phase,
            file: source.path,
            line: 1,
            text: source
                .text
                .lines()
                .find(|l| !l.starts_with("#!") && !l.trim().is_empty())
                .unwrap_or_default()
                .to_owned(),
            label: Label::Residual,
            statements,
            why: None,
        });
    }

    /// Scripts of the task, as far as they can be read.
    fn scripts(&self) -> Vec<Source> {
        let of = |kind: PhaseKind| self.task.phase(kind).steps.iter().filter_map(move |s| self.script(kind, s));
        PhaseKind::ALL.into_iter().flat_map(of).collect()
    }

    fn script(&self, phase: PhaseKind, step: &hir::Step<template::Path>) -> Option<Source> {
        if step.op.value != "script" {
            return None;
        }
        if let Some(text) = step.arg("inline").and_then(Arg::as_literal) {
            // Blank lines before `#!` do not count.
            let text = if text.trim_start().starts_with("#!") { text.trim_start() } else { text };
            return Some(Source { phase, text: text.to_owned(), file: None, workdir: None, path: None });
        }
        let file = step.arg("file").and_then(Arg::as_literal)?;
        let path = resolve(&self.task.dir, file);
        let text = String::from_utf8(self.cx.files.read(&path).ok()?).ok()?;
        let dir = Path::new(file).parent().map(|d| crate::source::normalize(d).to_string_lossy().into_owned());
        Some(Source {
            phase,
            text,
            file: Some(file.to_owned()),
            workdir: dir.filter(|d| !d.is_empty()),
            path: Some(path),
        })
    }

    fn as_portable(&mut self, root: Node<'_>, mistake: Option<usize>) -> Result<(Vec<Entry>, usize), Refusal> {
        // Here braces have an escape.
        self.comments.forget("gevals: allow(unexpanded-hole)");
        let mut entries = self.head(root, "mcp-eval/v1");
        let mut metadata = self.metadata(root).unwrap_or_else(|| Entry::new("metadata", Value::Map(Vec::new())));
        if let Value::Map(fields) = &mut metadata.value {
            for (key, own) in
                [("timeout", &self.task.meta.timeout), ("cleanupTimeout", &self.task.meta.cleanup_timeout)]
            {
                let limit = own.as_ref().map_or(crate::plan::UNSET_TIMEOUT, |t| t.value);
                fields.push(Entry::new(key, Value::text(duration::format(limit))));
            }
        }
        entries.push(metadata);
        let legacy = self.task.dialect == Dialect::Legacy;
        let block = find(root, if legacy { "steps" } else { "spec" })
            .ok_or_else(|| refusal(root.span(), "the task has no steps"))?;
        let above = self.comments.before(block.key.span().start as usize);
        // In the order of the file, so that each comment stays with what follows it.
        let mut over: HashMap<String, Vec<String>> = HashMap::new();
        let mut items: HashMap<(PhaseKind, usize), Vec<String>> = HashMap::new();
        for entry in block.value.entries() {
            let name = entry.name.to_ascii_lowercase();
            over.insert(name.clone(), self.comments.before(entry.key.span().start as usize));
            if let Some(kind) = PhaseKind::ALL.into_iter().find(|k| k.name() == name) {
                for (i, item) in entry.value.items().enumerate() {
                    let mut comments = self.comments.before(item.span().start as usize);
                    comments.extend(self.comments.before(item.span().end as usize));
                    items.insert((kind, i), comments);
                }
            }
            let inside = self.comments.before(entry.value.span().end as usize);
            let behind = self.comments.behind(entry.value.span().end as usize);
            if let Some(comments) = over.get_mut(&name) {
                comments.extend(inside);
                comments.extend(behind);
            }
        }
        let shared = shared(self.cx, self.task, &self.scripts(), mistake);
        let mut phases: Vec<(PhaseKind, Vec<Step>)> = Vec::new();
        for kind in PhaseKind::ALL {
            let mut steps = Vec::new();
            for (i, step) in self.task.phase(kind).steps.iter().enumerate() {
                let mut new = self.portable_step(kind, step, &shared)?;

                if let (Some(first), Some(comments)) = (new.first_mut(), items.get(&(kind, i))) {
                    first.comments.splice(0..0, comments.iter().cloned());
                }
                steps.append(&mut new);
            }
            let apart = std::mem::take(&mut self.apart) && self.task.phase(kind).steps.len() == 1;
            if kind == PhaseKind::Verify && !apart {
                steps = sequence(steps);
            }
            phases.push((kind, steps));
        }
        let mut spec = Vec::new();
        if let Some(entry) = self.imports()? {
            spec.push(entry);
        }
        if let Some(entry) = self.requires(over.get("requires").cloned().unwrap_or_default()) {
            spec.push(entry);
        }
        let used = shared.env_used.borrow();
        let env: Vec<Entry> = shared
            .env
            .iter()
            .filter(|(name, _)| used.contains(*name))
            .map(|(name, (value, _))| Entry::new(name, Value::text(value)))
            .collect();
        if !env.is_empty() {
            spec.push(Entry::new("env", Value::Map(env)));
        }
        drop(used);
        let mut prompt = Entry::new("prompt", self.prompt()?);
        prompt.comments = over.remove("prompt").unwrap_or_default();
        spec.push(prompt);
        pruned(&mut phases);
        let temporary = format!("{phases:?}").contains(lift::TEMPORARY);
        for (kind, mut steps) in phases {
            if kind == PhaseKind::Cleanup {
                if temporary {
                    steps.push(Step::command(format!("rm -rf {}", lift::TEMPORARY.trim_end_matches('/'))));
                }
                // Cleanup runs from its end.
                steps.reverse();
            }
            if steps.is_empty() && kind != PhaseKind::Verify {
                continue;
            }
            let mut entry = Entry::new(kind.name(), step::list(&steps));
            entry.comments = over.remove(kind.name()).unwrap_or_default();
            spec.push(entry);
        }
        let mut spec = Entry::new("spec", Value::Map(spec));
        spec.comments = above;
        for (_, rest) in over {
            spec.comments.extend(rest);
        }
        entries.push(spec);
        for note in shared.notes.borrow().iter() {
            self.note(note.clone());
        }
        Ok((entries, shared.places.get()))
    }

    fn imports(&self) -> Result<Option<Entry>, Refusal> {
        let mut items = Vec::new();
        for requirement in &self.task.requires {
            let RequirementKind::Extension(name) = &requirement.kind else { continue };
            let package = self.packages.get(&name.value).ok_or_else(|| {
                refusal(
                    name.span,
                    format!(
                        "the package of the extension `{}` is not known: convert it with the eval that declares it",
                        name.value
                    ),
                )
            })?;
            let alias = requirement.alias.as_ref().unwrap_or(name);
            let value = Value::map([("package", Value::text(package)), ("as", Value::text(&alias.value))]);
            items.push(Item { comments: Vec::new(), value });
        }
        Ok((!items.is_empty()).then(|| Entry::new("imports", Value::List(items))))
    }

    fn requires(&self, comments: Vec<String>) -> Option<Entry> {
        let mut items = Vec::new();
        for requirement in &self.task.requires {
            let mut fields = match &requirement.kind {
                RequirementKind::Extension(_) => continue,
                RequirementKind::McpServer(name) => vec![Entry::new("mcpServer", Value::text(&name.value))],
                RequirementKind::Command(name) => vec![Entry::new("command", Value::text(&name.value))],
                RequirementKind::Judge(_) => vec![Entry::new("judge", Value::bool(true))],
            };
            if let Some(alias) = &requirement.alias {
                fields.push(Entry::new("as", Value::text(&alias.value)));
            }
            items.push(Item { comments: Vec::new(), value: Value::Map(fields) });
        }
        (!items.is_empty()).then(|| Entry { comments, ..Entry::new("requires", Value::List(items)) })
    }

    fn prompt(&mut self) -> Result<Value, Refusal> {
        let Some(prompt) = &self.task.prompt else {
            return Err(refusal(self.task.name.span, "the task has no prompt"));
        };
        let text = match &prompt.file {
            None => self.template(&prompt.text)?,
            Some(file) => {
                let read = self.cx.files.read(&file.value).ok().and_then(|b| String::from_utf8(b).ok());
                let text = read.ok_or_else(|| refusal(file.span, "the prompt file cannot be read"))?;
                let escaped = match self.task.dialect {
                    Dialect::Steps => {
                        let found = crate::dialect::steps::prompt_text(&text, file.span, &|_| file.span);
                        self.template(&found)?
                    }
                    _ => escape(&text),
                };
                if escaped == text {
                    let path = file.value.strip_prefix(&self.task.dir).unwrap_or(&file.value);
                    return Ok(Value::map([("file", Value::text(path.to_string_lossy()))]));
                }
                escaped
            }
        };
        let mut variables: Vec<String> = crate::bash::ast::names_in(&text);
        variables.dedup();
        for name in variables.iter().filter(|n| n.len() > 1 && n.chars().all(|c| c.is_ascii_uppercase() || c == '_')) {
            self.note(format!("the prompt has the shell's `${name}`, which nobody fills: write what is meant"));
        }
        Ok(Value::text(text))
    }

    /// A template of the older dialects in the portable one's words.
    fn template(&self, template: &Template<template::Path>) -> Result<String, Refusal> {
        let mut out = String::new();
        for part in &template.parts {
            match part {
                Part::Text(text) => out += &escape(text),
                Part::Hole(hole) => {
                    let path = &hole.reference;
                    let names: Vec<&str> = path
                        .segments
                        .iter()
                        .filter_map(|s| if let SegmentKind::Name(n) = &s.kind { Some(n.as_str()) } else { None })
                        .collect();
                    match (path.root.text.as_str(), names.as_slice()) {
                        ("env" | "random", [name]) => out += &format!("{{{}.{name}}}", path.root.text),
                        ("agent", ["output"]) => out += "{agent.output}",
                        ("steps", [ty, key]) => {
                            let id = self.ids.get(*ty).ok_or_else(|| {
                                refusal(hole.span, format!("no step of the type `{ty}` stands before this"))
                            })?;
                            out += &format!("{{steps.{id}.outputs.{key}}}");
                        }
                        _ => {
                            return Err(refusal(
                                hole.span,
                                format!("`{}` has no counterpart in the portable dialect", hole.text),
                            ));
                        }
                    }
                }
            }
        }
        Ok(out)
    }

    fn value(&self, arg: &Arg<template::Path>) -> Result<Value, Refusal> {
        Ok(match &arg.kind {
            ArgKind::Null => Value::Raw("null".to_owned()),
            ArgKind::Bool(b) => Value::bool(*b),
            ArgKind::Int(i) => Value::Raw(i.to_string()),
            ArgKind::Float(x) => Value::Raw(x.to_string()),
            ArgKind::Text(text) => Value::text(self.template(text)?),
            ArgKind::List(items) => Value::List(
                items
                    .iter()
                    .map(|i| Ok(Item { comments: Vec::new(), value: self.value(i)? }))
                    .collect::<Result<_, _>>()?,
            ),
            ArgKind::Record(fields) => Value::Map(
                fields.iter().map(|(k, v)| Ok(Entry::new(&key(&k.value), self.value(v)?))).collect::<Result<_, _>>()?,
            ),
        })
    }

    fn portable_step(
        &mut self,
        phase: PhaseKind,
        old: &hir::Step<template::Path>,
        shared: &Shared<'_>,
    ) -> Result<Vec<Step>, Refusal> {
        let operation = old.op.value.as_str();
        let limited = |mut step: Step, default: u64| {
            step.continue_on_error = old.continue_on_error.as_ref().is_some_and(|c| c.value);
            step.id = old.id.as_ref().map(|i| i.value.clone()).filter(|i| is_id(i));
            let limit = old.timeout.as_ref().map(|t| duration::format(t.value));
            let usual = duration::format(std::time::Duration::from_secs(default));
            step.timeout = limit.or_else(|| Some("5m".to_owned())).filter(|l| *l != usual);
            step
        };
        let get = |key: &str| old.arg(key);
        match operation {
            "script" => self.script_step(phase, old, shared).map(|steps| match steps.len() {
                1 if matches!(steps[0].kind, step::Kind::Script { .. } | step::Kind::Kept { .. }) => steps
                    .into_iter()
                    .map(|s| {
                        let comments = s.comments.clone();
                        let mut s = limited(s, 300);
                        s.comments = comments;
                        s
                    })
                    .collect(),
                _ => steps,
            }),
            "llmJudge" => {
                let mut body = Vec::new();
                for (name, arg) in &old.args {
                    body.push(Entry::new(&name.value, self.value(arg)?));
                }
                Ok(vec![Step::new(step::Kind::Kept { operation: "llm".to_owned(), body })])
            }
            "http" => {
                let mut body = Vec::new();
                for name in ["url", "method", "headers"] {
                    if let Some(arg) = get(name) {
                        body.push(Entry::new(name, self.value(arg)?));
                    }
                }
                if let Some(arg) = get("body") {
                    let value = match (arg.get("raw"), arg.get("json")) {
                        (Some(raw), _) => self.value(raw)?,
                        (_, Some(json)) => Value::map([("json", self.value(json)?)]),
                        _ => Value::text(""),
                    };
                    body.push(Entry::new("body", value));
                }
                body.push(Entry::new("expect", self.http_expect(old)?));
                Ok(vec![limited(Step::new(step::Kind::Kept { operation: "http".to_owned(), body }), 30)])
            }
            _ => {
                let mut body = Vec::new();
                for (name, arg) in &old.args {
                    body.push(Entry::new(&key(&name.value), self.value(arg)?));
                }
                if let Some((_, expect)) = &old.expect {
                    let value = match (self.task.dialect, expect.get("content")) {
                        (Dialect::Steps, Some(content)) => self.tool_expect(expect, content)?,
                        _ => self.value(expect)?,
                    };
                    body.push(Entry::new("expect", value));
                }
                let mut step = Step::new(step::Kind::Kept { operation: operation.to_owned(), body });
                // Others refer to the type; here they need an id.
                let wish = old.id.as_ref().map(|i| i.value.clone()).filter(|i| is_id(i));
                let alias = operation.split('.').next().unwrap_or_default();
                let real = self.task.requires.iter().find_map(|r| match &r.kind {
                    RequirementKind::Extension(n) | RequirementKind::McpServer(n) => {
                        let own = r.alias.as_ref().unwrap_or(n);
                        (own.value == alias).then(|| n.value.clone())
                    }
                    _ => None,
                });
                let ty = real.map_or_else(|| operation.to_owned(), |r| operation.replacen(alias, &r, 1));
                let used = self.text.contains(&format!("{{steps.{ty}."));
                if used || wish.is_some() {
                    let own = wish.is_some();
                    let id = wish.unwrap_or_else(|| operation.replace('.', "-"));
                    let mut ids = shared.ids.borrow_mut();
                    let mut unique = id.clone();
                    let mut n = 2;
                    while !own && !ids.insert(unique.clone()) {
                        unique = format!("{id}-{n}");
                        n += 1;
                    }
                    self.ids.insert(ty, unique.clone());
                    step.id = Some(unique);
                }
                step.continue_on_error = old.continue_on_error.as_ref().is_some_and(|c| c.value);
                step.timeout = old.timeout.as_ref().map(|t| duration::format(t.value));
                Ok(vec![step])
            }
        }
    }

    /// The steps dialect looks at the JSON text of a tool's content, and at fields of that; here it is the text in it.
    fn tool_expect(&mut self, expect: &Arg<template::Path>, content: &Arg<template::Path>) -> Result<Value, Refusal> {
        let text = |arg: Option<&Arg<template::Path>>| arg.and_then(Arg::as_literal).map(str::to_owned);
        let mut patterns: Vec<(String, Span)> =
            text(content.get("match")).map(|p| (p, content.span)).into_iter().collect();
        if !patterns.is_empty() {
            self.note("`match` was held against the JSON text of a tool's content; here against the text in it");
        }
        let fields = match content.get("fields").map(|f| &f.kind) {
            Some(ArgKind::List(fields)) => fields.as_slice(),
            _ => &[],
        };
        for field in fields {
            let path = text(field.get("path")).unwrap_or_default();
            let index = path.strip_prefix('[').and_then(|p| p.split_once("]."));
            let (what, equals) = (index.map(|(_, name)| name), text(field.get("equals")));
            let known = field.get("exists").is_none() && text(field.get("type")).is_none_or(|t| t == "string");
            match (what, &equals, text(field.get("match"))) {
                (Some("type"), Some(ty), None) if ty == "text" && known => {
                    self.note("that a tool's content is text follows from what is expected of its text");
                }
                (Some("text"), Some(whole), None) if known => {
                    patterns.push((format!("^{}$", regex::escape(whole)), field.span));
                }
                (Some("text"), None, Some(pattern)) if known => patterns.push((pattern, field.span)),
                _ => {
                    return Err(refusal(
                        field.span,
                        format!("the portable dialect looks at the text of a tool's content, and not at `{path}`"),
                    ));
                }
            }
        }
        if patterns.is_empty() {
            patterns.push((step::NOT_EMPTY.to_owned(), content.span));
        }
        let (mut contains, mut matches) = (None, None);
        for (pattern, span) in patterns {
            let place =
                if regex::escape(&pattern) == pattern && contains.is_none() { &mut contains } else { &mut matches };
            if place.replace(pattern).is_some() {
                return Err(refusal(span, "the portable dialect holds the text of a content against one pattern"));
            }
        }
        let mut entries = Vec::new();
        if let Some(error) = expect.get("isError") {
            entries.push(Entry::new("isError", self.value(error)?));
        }
        let demands = [("contains", contains), ("matches", matches)];
        let demands = demands.into_iter().filter_map(|(k, v)| Some(Entry::new(k, Value::text(escape(&v?)))));
        entries.push(Entry::new("content", Value::Map(demands.collect())));
        Ok(Value::Map(entries))
    }

    /// A 500 passes in the steps dialect, unless a status is expected.
    fn http_expect(&mut self, old: &hir::Step<template::Path>) -> Result<Value, Refusal> {
        let expect = old.expect.as_ref().map(|(_, e)| e);
        let status = expect.and_then(|e| e.get("status")).map(|s| self.value(s)).transpose()?;
        let status =
            status.filter(|s| *s != Value::Raw("0".to_owned())).unwrap_or_else(|| Value::Raw("any".to_owned()));
        let mut entries = vec![Entry::new("status", status)];
        if let Some(body) = expect.and_then(|e| e.get("body")) {
            let mut demands = Vec::new();
            if let Some(pattern) = body.get("match") {
                demands.push(Entry::new("matches", self.value(pattern)?));
            }
            if let Some(Arg { kind: ArgKind::List(fields), .. }) = body.get("fields") {
                let mut items = Vec::new();
                for field in fields {
                    let path = field.get("path").and_then(Arg::as_literal).unwrap_or_default();
                    let mut entries = vec![Entry::new("path", Value::text(json_path(path)))];
                    for (from, to) in
                        [("equals", "equals"), ("type", "type"), ("match", "matches"), ("exists", "exists")]
                    {
                        if let Some(value) = field.get(from) {
                            entries.push(Entry::new(to, self.value(value)?));
                        }
                    }
                    if field.get("equals").is_some() {
                        self.note(format!("`{path}` was compared as text; here a value has a type"));
                    }
                    items.push(Item { comments: Vec::new(), value: Value::Map(entries) });
                }
                if !items.is_empty() {
                    demands.push(Entry::new("json", Value::List(items)));
                }
            }
            if !demands.is_empty() {
                entries.push(Entry::new("body", Value::Map(demands)));
            }
        }
        Ok(Value::Map(entries))
    }

    /// A script: taken apart, or as it was.
    fn script_step(
        &mut self,
        phase: PhaseKind,
        old: &hir::Step<template::Path>,
        shared: &Shared<'_>,
    ) -> Result<Vec<Step>, Refusal> {
        let source = self.script(phase, old);
        let plain = old.arg("env").is_none() && old.timeout.is_none() && old.continue_on_error.is_none();
        if let (Target::Builtin, Some(source), true) = (self.cx.target, &source, plain) {
            let before = (
                shared.env_used.borrow().clone(),
                shared.ids.borrow().clone(),
                shared.temporary.borrow().clone(),
                shared.notes.borrow().clone(),
            );
            match lift::lift(source, shared).filter(|l| !l.untouched || l.steps.is_empty()) {
                Some(lifted) => {
                    self.tally.merge(lifted.books.tally);
                    self.pieces.extend(lifted.books.pieces);
                    self.apart = lifted.apart;
                    return Ok(lifted.steps);
                }
                None => {
                    shared.env_used.replace(before.0);
                    shared.ids.replace(before.1);
                    shared.temporary.replace(before.2);
                    shared.notes.replace(before.3);
                }
            }
        }
        self.keep_script(phase, old);
        let mut body = Vec::new();
        if let Some(Source { text, file: None, .. }) = &source {
            body.push(Entry::new("inline", Value::text(escape(text))));
            if !text.starts_with("#!") {
                body.push(Entry::new("shell", Value::text("bash")));
                self.note("a script without `#!` was read by `$SHELL`; here it is read by bash");
            }
        } else {
            let file = old.arg("file").ok_or_else(|| refusal(old.span, "the script is empty"))?;
            let name = file.as_literal().unwrap_or_default();
            let path = resolve(&self.task.dir, name);
            let dir = Path::new(name).parent().map(crate::source::normalize).filter(|d| !d.as_os_str().is_empty());
            match (self.cx.files.stat(&path), source) {
                (Some(Stat::File { executable: false }), Some(source)) if source.text.starts_with("#!") => {
                    self.note(format!("`{name}` is not executable, so its text stands in the task"));
                    body.push(Entry::new("inline", Value::text(escape(&source.text))));
                }
                (Some(Stat::File { .. }), _) => body.push(Entry::new("file", Value::text(escape(name)))),
                _ => return Err(refusal(file.span, format!("there is no file `{name}`"))),
            }
            if let Some(dir) = dir {
                body.push(Entry::new("workdir", Value::text(escape(&dir.to_string_lossy()))));
            }
        }
        if let Some(env) = old.arg("env") {
            body.push(Entry::new("env", self.value(env)?));
        }
        Ok(vec![Step::new(step::Kind::Kept { operation: "script".to_owned(), body })])
    }
}

fn key(name: &str) -> String {
    let plain =
        name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/')) && !name.is_empty();
    let word = crate::yaml::yaml11(name).is_some() || name.starts_with(|c: char| !c.is_ascii_alphabetic());
    if plain && !word { name.to_owned() } else { crate::yaml::quoted(name) }
}

fn is_id(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

/// `a.b[0].c` as a JSONPath.
fn json_path(path: &str) -> String {
    let mut out = String::from("$");
    for part in path.split('.').filter(|p| !p.is_empty()) {
        let (name, indexes) = part.split_at(part.find('[').unwrap_or(part.len()));
        let plain = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        match (name.is_empty(), plain) {
            (true, _) => {}
            (_, true) => out += &format!(".{name}"),
            (_, false) => out += &format!("['{name}']"),
        }
        out += indexes;
    }
    out
}

/// Checks go on behind one that fails; what does more than look must not.
fn sequence(steps: Vec<Step>) -> Vec<Step> {
    if steps.len() < 2 || lift::read_only(&steps[1..]) {
        return steps;
    }
    vec![Step::new(step::Kind::Group { steps, cleanup: Vec::new() })]
}

/// Leaves out ids that nothing refers to, and files that nothing reads.
fn pruned(phases: &mut [(PhaseKind, Vec<Step>)]) {
    loop {
        let all = format!("{phases:?}");
        let mut unread = false;
        for (_, steps) in phases.iter_mut() {
            unread |= without(steps, &|step| match &step.kind {
                step::Kind::File { path, content: Some(_), .. } => {
                    path.starts_with(lift::TEMPORARY) && all.matches(path.as_str()).count() == 1
                }
                _ => false,
            });
        }
        if !unread {
            break;
        }
    }
    let all = format!("{phases:?}");
    for step in phases.iter_mut().flat_map(|(_, steps)| steps) {
        step.each(&mut |s| {
            let made = matches!(s.kind, step::Kind::Command { .. } | step::Kind::Http { .. });
            if made && s.id.as_ref().is_some_and(|id| !all.contains(&format!("{{steps.{id}."))) {
                s.id = None;
            }
        });
    }
}

/// Takes steps out of a list; whether there were any.
fn without(steps: &mut Vec<Step>, gone: &dyn Fn(&Step) -> bool) -> bool {
    let before = steps.len();
    steps.retain(|s| !gone(s));
    let inner = steps.iter_mut().flat_map(Step::lists).map(|list| without(list, gone)).fold(false, |a, b| a | b);
    inner || steps.len() < before
}

/// What the scripts of a task share: above all the variables that may stand in `spec.env`, which are those that have one
/// value wherever they are used.
fn shared<'a>(cx: Context<'a>, task: &Written, scripts: &[Source], mistake: Option<usize>) -> Shared<'a> {
    let constants: Vec<HashMap<String, Option<Text>>> = scripts.iter().map(|s| lift::constants(&s.text)).collect();
    let uses: Vec<HashSet<String>> =
        scripts.iter().map(|s| crate::bash::ast::names_in(&s.text).into_iter().collect()).collect();
    let mut env = BTreeMap::new();
    for (name, value) in constants.iter().flatten() {
        let Some(value) = value else { continue };
        let fits = name.len() > 1 && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
        let text = value.constant().unwrap_or_default();
        let agreed = constants.iter().zip(&uses).all(|(own, used)| match own.get(name) {
            Some(Some(other)) => other == value,
            Some(None) => false,
            None => !used.contains(name),
        });
        let holds_self = value.template().contains(&format!("env.{name} "));
        if fits && agreed && !holds_self && !lift::is_special(name) && !text.is_empty() && !text.contains(['\n', '\'']) {
            env.insert(name.clone(), (value.template(), value.constant()));
        }
    }
    let mut ids = HashSet::new();
    task.walk(&mut |_, step| ids.extend(step.id.as_ref().map(|i| i.value.clone())));
    Shared {
        files: cx.files,
        dir: task.dir.clone(),
        allow_weaker: cx.allow_weaker,
        env,
        env_used: RefCell::default(),
        ids: RefCell::new(ids),
        temporary: RefCell::default(),
        notes: RefCell::default(),
        mistake,
        places: Cell::new(0),
    }
}

/// The value of a key, however it is written.
fn find<'t>(node: Node<'t>, name: &str) -> Option<crate::yaml::Entry<'t>> {
    node.entries().find(|e| e.name.eq_ignore_ascii_case(name))
}

/// Braces that the steps dialect leaves as they are, and rules would take for a hole.
fn allowed_braces(value: &mut Value) {
    let Value::Map(fields) = value else { return };
    for field in fields.iter_mut().filter(|f| f.key.eq_ignore_ascii_case("inline")) {
        let (Value::Text(text) | Value::Raw(text)) = &field.value else { continue };
        if crate::dialect::steps::looks_like_holes(text).next().is_some() {
            field.comments.push(" gevals: allow(unexpanded-hole)".to_owned());
        }
    }
}
