//! Converts a whole task: its envelope, its prompt, its phases.

mod operation;
mod portable;
mod steps;

use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
};

use super::{
    Context, Converted, Piece, Refusal, Tally,
    emit::{self, Comments, Entry, Item, Value, document, keep, trailing},
    lift::Source,
};
use crate::{
    hir::{self, Arg, ArgKind, Dialect, Part, PhaseKind, Task, Template},
    project::TaskUnit,
    source::{Span, resolve},
    template::{self, SegmentKind, escape},
    yaml::Node,
};

type Written = Task<template::Path>;

pub(super) fn task(unit: &TaskUnit, cx: Context<'_>, mistake: Option<usize>) -> Result<Converted, Refusal> {
    let source = cx.sources.get(unit.file);
    let root = unit.tree.root();
    let whole = root.span();
    let task = unit.task.as_ref().filter(|_| unit.reported.is_none());
    let task = task.ok_or_else(|| refusal(whole, "the task has errors: see `gevals check`"))?;
    let mut converter = Converter {
        cx,
        task,
        text: source.text(),
        comments: Comments::new(source.text(), unit.tree.comments()),
        notes: Vec::new(),
        pieces: Vec::new(),
        origins: Vec::new(),
        tally: Tally::default(),
        ids: HashMap::new(),
        packages: packages(unit, cx),
        apart: false,
        kubectl: (0, 0),
    };
    if task.dialect == cx.to {
        return Ok(converter.unchanged(source.text()));
    }
    let entries = match (task.dialect, cx.to) {
        (Dialect::Legacy, Dialect::Steps) => converter.as_steps(root)?,
        (_, Dialect::Portable) => converter.as_portable(root, mistake)?,
        (from, to) => {
            return Err(refusal(whole, format!("a {} task cannot be converted to a {} task", from.name(), to.name())));
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
        origins: converter.origins,
        notes: converter.notes,
        files: referenced(task),
        kubectl: converter.kubectl,
        packages: converter.packages,
        scripts: texts,
        places,
    })
}

fn refusal(span: Span, message: impl Into<String>) -> Refusal {
    Refusal { span, message: message.into() }
}

/// Returns the packages of extensions, by the name that the eval uses for them.
fn packages(unit: &TaskUnit, cx: Context<'_>) -> BTreeMap<String, String> {
    let index = cx.project.tasks.iter().position(|t| t.file == unit.file);
    let evals = cx.project.evals.iter().filter(|e| e.selected.iter().any(|s| Some(s.task) == index));
    let mut found = BTreeMap::new();
    for extension in evals.filter_map(|e| e.eval.as_ref()).flat_map(|e| &e.extensions) {
        if let Some(package) = &extension.package {
            found.insert(extension.alias.value.clone(), package.value.clone());
        }
    }
    found
}

/// Returns the files that a task names, relative to its directory.
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
    origins: Vec<(String, usize)>,
    tally: Tally,
    /// The id for a type of step, because the steps dialect refers to types.
    ids: HashMap<String, String>,
    packages: BTreeMap<String, String>,
    /// The last script continues after failures.
    apart: bool,
    /// How many commands became operations, and how many did not.
    kubectl: (usize, usize),
}

impl Converter<'_> {
    fn unchanged(&self, text: &str) -> Converted {
        Converted {
            text: text.to_owned(),
            tally: Tally::default(),
            pieces: Vec::new(),
            origins: Vec::new(),
            notes: Vec::new(),
            steps_before: 0,
            steps_after: 0,
            lines_before: text.lines().count(),
            lines_after: text.lines().count(),
            files: referenced(self.task),
            scripts: Vec::new(),
            kubectl: (0, 0),
            packages: BTreeMap::new(),
            places: 0,
        }
    }

    fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Returns `kind` and `apiVersion`, with the comments at the start of the file.
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
                // Empty values of the older dialects are dropped.
            }
            entries.retain(|e| e.value != Value::Raw(String::new()));
        }
        Some(kept)
    }

    /// Returns the scripts of the task, as far as they can be read.
    fn scripts(&self) -> Vec<Source> {
        let of = |kind: PhaseKind| self.task.phase(kind).steps.iter().filter_map(move |s| self.script(kind, s));
        PhaseKind::ALL.into_iter().flat_map(of).collect()
    }

    fn script(&self, phase: PhaseKind, step: &hir::Step<template::Path>) -> Option<Source> {
        if step.op.value != "script" {
            return None;
        }
        if let Some(text) = step.arg("inline").and_then(Arg::as_literal) {
            // Blank lines before `#!` are ignored.
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
            self.note(format!("`${name}` in the prompt is not expanded: write the value itself"));
        }
        Ok(Value::text(text))
    }

    /// Translates a template of the older dialects to the portable dialect.
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
                            let id = self
                                .ids
                                .get(*ty)
                                .ok_or_else(|| refusal(hole.span, format!("no earlier step has the type `{ty}`")))?;
                            out += &format!("{{steps.{id}.outputs.{key}}}");
                        }
                        _ => {
                            return Err(refusal(
                                hole.span,
                                format!("`{}` has no equivalent in the portable dialect", hole.text),
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
}

/// Returns the entry of a key, ignoring case.
fn find<'t>(node: Node<'t>, name: &str) -> Option<crate::yaml::Entry<'t>> {
    node.entries().find(|e| e.name.eq_ignore_ascii_case(name))
}

/// Marks braces that the steps dialect leaves unchanged, but that rules would report as holes.
fn allowed_braces(value: &mut Value) {
    let Value::Map(fields) = value else { return };
    for field in fields.iter_mut().filter(|f| f.key.eq_ignore_ascii_case("inline")) {
        let (Value::Text(text) | Value::Raw(text)) = &field.value else { continue };
        if crate::dialect::steps::looks_like_holes(text).next().is_some() {
            field.comments.push(" gevals: allow(unexpanded-hole)".to_owned());
        }
    }
}

fn key(name: &str) -> String {
    let plain =
        name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/')) && !name.is_empty();
    let word = crate::yaml::yaml11(name).is_some() || name.starts_with(|c: char| !c.is_ascii_alphabetic());
    if plain && !word { name.to_owned() } else { crate::yaml::quoted(name) }
}
