//! Converts steps to the portable dialect: operations, their expectations, and scripts that are taken apart.

use std::{path::Path, time::Duration};

use super::{Converter, key, refusal};
use crate::{
    convert::{
        Refusal, Target,
        emit::{Entry, Item, Value},
        lift::{self, Shared, Source},
        step::{self, Step},
    },
    hir::{self, Arg, ArgKind, Dialect, PhaseKind, RequirementKind},
    source::{Span, Stat, resolve},
    template::{self, escape},
    ty::duration,
};

impl Converter<'_> {
    pub fn portable_step(
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
            let usual = duration::format(Duration::from_secs(default));
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
                // Other steps refer to the type; in the portable dialect they need an id.
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

    /// The steps dialect checks the JSON text of a tool's content, and fields of that; the portable dialect checks the
    /// text in it.
    pub fn tool_expect(
        &mut self,
        expect: &Arg<template::Path>,
        content: &Arg<template::Path>,
    ) -> Result<Value, Refusal> {
        let text = |arg: Option<&Arg<template::Path>>| arg.and_then(Arg::as_literal).map(str::to_owned);
        let mut patterns: Vec<(String, Span)> =
            text(content.get("match")).map(|p| (p, content.span)).into_iter().collect();
        if !patterns.is_empty() {
            self.note("`match` was applied to the JSON text of a tool's content; now it applies to the text inside it");
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
                    self.note("the check of the content type was removed: the check of its text implies it");
                }
                (Some("text"), Some(whole), None) if known => {
                    patterns.push((format!("^{}$", regex::escape(whole)), field.span));
                }
                (Some("text"), None, Some(pattern)) if known => patterns.push((pattern, field.span)),
                _ => {
                    return Err(refusal(
                        field.span,
                        format!("the portable dialect checks the text of a tool's content, not `{path}`"),
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
                return Err(refusal(
                    span,
                    "the portable dialect allows only one pattern for the text of a tool's content",
                ));
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

    /// In the steps dialect a 500 passes, unless a status is expected.
    pub fn http_expect(&mut self, old: &hir::Step<template::Path>) -> Result<Value, Refusal> {
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
                        self.note(format!("`{path}` was compared as text; now it is compared as a typed value"));
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

    /// Converts a script: takes it apart, or keeps it unchanged.
    pub fn script_step(
        &mut self,
        phase: PhaseKind,
        old: &hir::Step<template::Path>,
        shared: &Shared<'_>,
    ) -> Result<Vec<Step>, Refusal> {
        let source = self.script(phase, old);
        let plain = old.arg("env").is_none() && old.continue_on_error.is_none();
        let mut stays = None;
        if let (Target::Builtin | Target::Kubernetes, Some(source), true) = (self.cx.target, &source, plain) {
            let before = (
                shared.env_used.borrow().clone(),
                shared.ids.borrow().clone(),
                shared.temporary.borrow().clone(),
                shared.notes.borrow().clone(),
            );
            let lifted = lift::lift(source, shared);
            stays = lifted.as_ref().and_then(|l| l.books.pieces.first().cloned());
            match lifted.filter(|l| !l.untouched || l.steps.is_empty()) {
                Some(mut lifted) => {
                    let before = self.pieces.len();
                    let behind = |step: &mut Step| step.origin = step.origin.map(|origin| origin + before);
                    lifted.steps.iter_mut().for_each(|step| step.each(&mut |step| behind(step)));
                    if let Some(limit) = &old.timeout {
                        lifted.steps.iter_mut().for_each(|step| step.each(&mut |step| within(step, limit.value)));
                        // Nor may they together take longer.
                        if lifted.steps.len() > 1 && !lifted.apart {
                            let mut all = Step::group(std::mem::take(&mut lifted.steps));
                            all.timeout = Some(duration::format(limit.value));
                            lifted.steps.push(all);
                        }
                    }
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
        self.keep_script(phase, old, stays);
        let waits = source.as_ref().is_some_and(|source| step::waits(&source.text));
        let mut body = Vec::new();
        if let Some(Source { text, file: None, .. }) = &source {
            body.push(Entry::new("inline", Value::text(escape(text))));
            if !text.starts_with("#!") {
                body.push(Entry::new("shell", Value::text("bash")));
                self.note("a script without `#!` was run by `$SHELL`; now it is run by bash");
            }
        } else {
            let file = old.arg("file").ok_or_else(|| refusal(old.span, "the script is empty"))?;
            let name = file.as_literal().unwrap_or_default();
            let path = resolve(&self.task.dir, name);
            let dir = Path::new(name).parent().map(crate::source::normalize).filter(|d| !d.as_os_str().is_empty());
            match (self.cx.files.stat(&path), source) {
                (Some(Stat::File { executable: false }), Some(source)) if source.text.starts_with("#!") => {
                    self.note(format!("`{name}` is not executable, so its text is now part of the task"));
                    body.push(Entry::new("inline", Value::text(escape(&source.text))));
                }
                (Some(Stat::File { .. }), _) => body.push(Entry::new("file", Value::text(escape(name)))),
                _ => return Err(refusal(file.span, format!("the file `{name}` does not exist"))),
            }
            if let Some(dir) = dir {
                body.push(Entry::new("workdir", Value::text(escape(&dir.to_string_lossy()))));
            }
        }
        if let Some(env) = old.arg("env") {
            body.push(Entry::new("env", self.value(env)?));
        }
        let kept = step::Kind::Kept { operation: "script".to_owned(), body };
        Ok(vec![Step { asked: waits, ..Step::new(kept) }])
    }
}

/// Limits a step to the time that its script was allowed.
fn within(step: &mut Step, limit: Duration) {
    let usual = match &step.kind {
        step::Kind::Script { .. } => Some(Duration::from_secs(300)),
        step::Kind::Command { .. } => Some(Duration::from_secs(60)),
        _ => None,
    };
    let own = step.timeout.as_deref().and_then(|own| duration::parse(own).ok()).or(usual);
    if own.is_some_and(|own| own > limit) {
        step.timeout = Some(duration::format(limit));
    }
}

fn is_id(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

/// Converts `a.b[0].c` to a JSONPath.
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
