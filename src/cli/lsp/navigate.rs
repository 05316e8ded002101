//! Navigation: what is at a place, where it is defined and used, and renaming.

use std::{collections::BTreeMap, ops::Range, path::Path};

use serde_json::{Value, json};

use super::{
    BAD_PARAMS, Refusal, Server, hover,
    names::{Names, Occurrence, names},
    paths::Named,
    place::{self, Place, Way},
    reading::Reading,
    schemas,
    suite::KnownTask,
    text::{Lines, uri_of},
};
use crate::{
    diagnostic::Texts,
    hir::{Dialect, RequirementKind},
    source::{Files, Span, Stat, normalize, resolve},
};

impl Server {
    pub(super) fn hover(&self, path: &Path, text: &str, offset: usize) -> Value {
        let said = |(range, markdown): (Range<usize>, String)| {
            let contents = json!({ "kind": "markdown", "value": markdown });
            json!({ "contents": contents, "range": self.lines(text).range(range) })
        };
        let shown = self.found.get(path.as_os_str()).into_iter().flat_map(|found| &found.shown);
        let rule = shown.filter(|shown| shown.range.contains(&offset)).min_by_key(|shown| shown.range.len());
        if let Some(shown) = rule
            && let Some(rule) = shown.diagnostic["code"].as_str().and_then(crate::lint::rule)
        {
            return said((shown.range.clone(), rule.page.to_owned()));
        }
        let reading = self.reading(path, text);
        let step = || hover::step(offset, &reading, &self.files(&Texts::new()));
        if let Some(found) = hover::hole(offset, &reading).or_else(step) {
            return said(found);
        }
        let names = self.names(path, text, &reading);
        if let Some(found) = at(&names.all, &reading, offset).and_then(|one| hover::used(one, &reading)) {
            return said(found);
        }
        let (Some(tree), Some(kind)) = (reading.tree(), reading.kind) else { return Value::Null };
        let Some(Place { way, is_key: true, range }) = place::at(tree, offset) else { return Value::Null };
        let Some(Way::Key(key)) = way.last() else { return Value::Null };
        let in_list = matches!(way.iter().rev().nth(1), Some(Way::Item(_)));
        if let Some(section) = super::super::explain::step(key).filter(|_| in_list) {
            return said((range, section));
        }
        let schema = schemas::of_kind(kind);
        let about = schema.as_ref().and_then(|schema| schemas::description(&schemas::at(schema, &way)));
        about.map_or(Value::Null, |about| said((range, format!("**{key}**: {about}"))))
    }

    pub(super) fn definition(&self, path: &Path, text: &str, offset: usize) -> Value {
        let reading = self.reading(path, text);
        let Names { all, .. } = self.names(path, text, &reading);
        if let Some(one) = at(&all, &reading, offset) {
            let given = all.iter().filter(|other| other.given && other.named == one.named);
            return given.map(|given| self.location(given.span, &reading)).collect();
        }
        let Some(tree) = reading.tree() else { return Value::Null };
        if let Some(tasks) = self.selected(path, offset) {
            return tasks.into_iter().map(|task| self.begin(&task.path, task.range.clone())).collect();
        }
        let Some(Place { range, is_key, way }) = place::at(tree, offset) else { return Value::Null };
        if is_key {
            return self.prefix(&text[range], &reading);
        }
        if way == [Way::Key("metadata".to_owned()), Way::Key("name".to_owned())] {
            return self.selecting(path);
        }
        let written = text[range].trim_matches(['"', '\'']);
        let target = resolve(path.parent().unwrap_or(Path::new("")), written);
        match self.files(&Texts::new()).stat(&target) {
            Some(Stat::File { .. }) if !written.is_empty() => self.begin(&normalize(&target), 0..0),
            _ => Value::Null,
        }
    }

    /// The requirement or import to which the prefix of a step's name refers.
    fn prefix(&self, operation: &str, reading: &Reading) -> Value {
        let (Some((alias, _)), Some(task)) = (operation.split_once('.'), reading.task()) else { return Value::Null };
        let is = |span: &Span| reading.sources.get(span.file).slice(*span).trim_matches(['"', '\'']) == alias;
        let required = task.requires.iter().filter_map(|requirement| {
            let (RequirementKind::McpServer(name) | RequirementKind::Extension(name)) = &requirement.kind else {
                return None;
            };
            Some(requirement.alias.as_ref().unwrap_or(name).span)
        });
        let imported = task.imports.iter().map(|import| import.alias.as_ref().unwrap_or(&import.package).span);
        required.chain(imported).find(is).map_or(Value::Null, |span| self.location(span, reading))
    }

    /// The tasks that the task set at a byte of an eval selects.
    fn selected(&self, path: &Path, offset: usize) -> Option<Vec<&KnownTask>> {
        let mut sets = self.suite().eval(path)?.sets.iter();
        let set = sets.find(|set| !set.range.is_empty() && (set.range.start..=set.range.end).contains(&offset))?;
        Some(set.tasks.iter().collect())
    }

    /// The task sets that select a task.
    fn selecting(&self, path: &Path) -> Value {
        self.suite().selecting(path).map(|(eval, set)| self.begin(&eval.path, set.range.clone())).collect()
    }

    pub(super) fn references(&self, path: &Path, text: &str, offset: usize, params: &Value) -> Value {
        let reading = self.reading(path, text);
        let Names { all, .. } = self.names(path, text, &reading);
        let declared = params.pointer("/context/includeDeclaration").and_then(Value::as_bool).unwrap_or(true);
        if let Some(one) = at(&all, &reading, offset) {
            let same = all.iter().filter(|other| other.named == one.named && (declared || !other.given));
            return same.map(|other| self.location(other.span, &reading)).collect();
        }
        let way = reading.tree().and_then(|tree| place::at(tree, offset)).map(|place| place.way);
        match way.as_deref() {
            Some([Way::Key(metadata), Way::Key(name)]) if metadata == "metadata" && name == "name" => {
                self.selecting(path)
            }
            _ => json!([]),
        }
    }

    /// The places in the same file with the same name.
    pub(super) fn highlights(&self, path: &Path, text: &str, offset: usize) -> Value {
        let reading = self.reading(path, text);
        let Names { all, .. } = self.names(path, text, &reading);
        let Some(one) = at(&all, &reading, offset) else { return json!([]) };
        let here =
            |other: &&Occurrence| other.named == one.named && reading.file().is_none_or(|file| file == other.span.file);
        let lines = self.lines(text);
        all.iter().filter(here).map(|other| json!({ "range": lines.range(other.span.range()) })).collect()
    }

    pub(super) fn prepare_rename(&self, path: &Path, text: &str, offset: usize) -> Value {
        let reading = self.reading(path, text);
        let Names { all, .. } = self.names(path, text, &reading);
        let given = |one: &&Occurrence| all.iter().any(|other| other.given && other.named == one.named);
        at(&all, &reading, offset).filter(given).map_or(
            Value::Null,
            |one| json!({ "range": self.lines(text).range(one.span.range()), "placeholder": one.named.name() }),
        )
    }

    pub(super) fn rename(&self, path: &Path, text: &str, offset: usize, new: &str) -> Result<Value, Refusal> {
        let refuse = |why: String| Err((BAD_PARAMS, why));
        let reading = self.reading(path, text);
        let names = self.names(path, text, &reading);
        let all = &names.all;
        let Some(one) = at(all, &reading, offset) else {
            return refuse("only steps, outputs, variables of a task and anchors can be renamed".to_owned());
        };
        let is_variable = matches!(one.named, Named::Variable(_));
        let first = |letter: char| letter.is_ascii_alphabetic() || is_variable && letter == '_';
        let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || !is_variable && letter == '-';
        if !new.starts_with(first) || !new.chars().all(plain) {
            let marks = if is_variable { "`_`" } else { "`-` and `_`" };
            return refuse(format!("a name starts with a letter, followed by letters, digits, {marks}"));
        }
        let renamed = match &one.named {
            Named::Step(_) => Named::Step(new.to_owned()),
            Named::Output { step, .. } => Named::Output { step: step.clone(), name: new.to_owned() },
            Named::Variable(_) => Named::Variable(new.to_owned()),
            Named::Anchor(_) => Named::Anchor(new.to_owned()),
        };
        if renamed != one.named && all.iter().any(|other| other.named == renamed) {
            return refuse(format!("`{new}` already exists"));
        }
        if !all.iter().any(|other| other.given && other.named == one.named) {
            return refuse(format!("`{}` is not defined", one.named.name()));
        }
        if let Some(why) = self.hindrance(path, &one.named, new, &names, &reading) {
            return refuse(why);
        }
        let mut changes: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for place in all.iter().filter(|other| other.named == one.named) {
            let source = reading.sources.get(place.span.file);
            let (in_text, uri) = match reading.file() {
                Some(file) if file == place.span.file => (text, uri_of(path)),
                Some(_) => (source.text(), uri_of(&normalize(source.path()))),
                None => (text, uri_of(path)),
            };
            if in_text.get(place.span.range()) != Some(one.named.name()) {
                return refuse(format!("a use of `{}` is written with escapes; rename it by hand", one.named.name()));
            }
            let range = Lines::new(in_text, self.encoding).range(place.span.range());
            let edit = json!({ "range": range, "newText": new });
            let edits = changes.entry(uri).or_default();
            if !edits.contains(&edit) {
                edits.push(edit);
            }
        }
        Ok(json!({ "changes": changes }))
    }

    /// Why renaming would change the meaning of something else.
    fn hindrance(&self, path: &Path, named: &Named, new: &str, names: &Names, reading: &Reading) -> Option<String> {
        let old = named.name();
        let place = |span: Span| {
            let source = reading.sources.get(span.file);
            format!("line {} of {}", source.position(span.start).line, source.path().display())
        };
        if let Named::Variable(_) = named {
            let both = |(used, own): &&(Vec<String>, Vec<String>)| {
                used.iter().any(|name| name == old) && own.iter().any(|name| name == new)
            };
            if new != old && names.scripts.iter().any(|script| both(&script)) {
                return Some(format!("a script that uses `{old}` has its own `{new}`"));
            }
            if let Some((_, at)) = names.doubts.iter().find(|(name, _)| name == old) {
                return Some(format!("`{old}` in {} may be the same variable; rename it by hand", place(*at)));
            }
        }
        let uses: Vec<Span> = names.all.iter().filter(|one| one.named == *named).map(|one| one.span).collect();
        if let Some(at) = uses.iter().find(|span| names.shared.contains(span)) {
            return Some(format!("`{old}` in {} has another use as well; rename it by hand", place(*at)));
        }
        let task = reading.task()?;
        let mut files: Vec<_> = uses.iter().map(|span| span.file).filter(|file| *file != task.file).collect();
        files.sort_unstable();
        files.dedup();
        files.into_iter().find_map(|file| {
            let file = normalize(reading.sources.get(file).path());
            let (reader, at) = self.suite().reader(&file, path, &task.name.value)?;
            let (file, at) = (file.display(), at.display());
            Some(format!("the task `{reader}` ({at}) reads {file} as well, and would miss `{old}` there"))
        })
    }

    /// All names of a task, including those in the oracles of the evals that select it.
    fn names(&self, path: &Path, text: &str, reading: &Reading) -> Names {
        let portable = reading.task().is_some_and(|task| task.dialect == Dialect::Portable);
        let mut oracles: Vec<&Path> = Vec::new();
        if portable {
            oracles.extend(self.suite().selecting(path).filter_map(|(eval, _)| eval.oracle.as_deref()));
            oracles.sort_unstable();
            oracles.dedup();
        }
        let files = self.files(&Texts::new());
        let oracles = oracles.into_iter().filter_map(|oracle| {
            let text = String::from_utf8(files.read(oracle).ok()?).ok()?;
            Some(Span::new(reading.sources.add(oracle, text), 0..0))
        });
        names(text, reading, &oracles.collect::<Vec<_>>(), &files)
    }

    fn location(&self, span: Span, reading: &Reading) -> Value {
        let source = reading.sources.get(span.file);
        json!({ "uri": uri_of(&normalize(source.path())), "range": Lines::of(&source, self.encoding).range(span.range()) })
    }

    /// A location in a file that may not be open.
    fn begin(&self, path: &Path, range: Range<usize>) -> Value {
        let text = match self.open.get(path) {
            Some(document) => document.text.clone(),
            None => {
                let bytes = self.files(&Texts::new()).read(path).unwrap_or_default();
                String::from_utf8_lossy(&bytes).into_owned()
            }
        };
        json!({ "uri": uri_of(path), "range": self.lines(&text).range(range) })
    }
}

/// The narrowest name at a byte of the task's own file.
fn at<'o>(all: &'o [Occurrence], reading: &Reading, offset: usize) -> Option<&'o Occurrence> {
    let here = |one: &&Occurrence| {
        let range = one.span.range();
        reading.file().is_none_or(|file| file == one.span.file) && (range.start..=range.end).contains(&offset)
    };
    all.iter().filter(here).min_by_key(|one| one.span.range().len())
}
