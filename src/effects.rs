//! What the scripts and steps of a task do to the world: one model, which rules ask. [`shell`] follows scripts, [`value`] is what is
//! known of a text, [`crate::bash::tools`] what is known of programs. What is not known is said to be so, and no rule concludes from it.

pub mod asked;
pub mod changes;
pub mod inherited;
pub mod manifest;
mod operation;
mod programs;
pub mod rehearse;
pub mod script;
pub mod shell;
pub mod sourced;
mod sql;
pub mod value;

use std::{borrow::Cow, path::PathBuf, sync::Arc};

pub use self::operation::words;
use self::{
    manifest::Object,
    script::{Content, Form, Reader, ScriptFiles, ScriptView},
    shell::{Run, Sourced, Trace, Variables},
    value::{Piece, Value},
};
use crate::{
    bash::tools::{self, Tool, Tools},
    hir::{ArgKind, Def, Hole, Part, PhaseKind, Target, Task, Template},
    source::{Files, Sources, Span, resolve},
    template::SegmentKind,
};

/// What a task does, in the order written.
#[derive(Debug, Default)]
pub struct Model<'a> {
    pub scripts: Vec<Followed<'a>>,
    pub acts: Vec<Act>,
    /// Phases in which something may be done that the model does not see.
    pub opaque: Vec<PhaseKind>,
    /// What the agent is told.
    pub prompt: Value,
    /// Statements of SQL that its scripts run, as far as they are known.
    pub sql: Vec<Statements>,
    /// Variables that scripts in other languages ask their environment for.
    pub foreign: Vec<(String, Span)>,
}

/// Statements of SQL that a command runs.
#[derive(Debug)]
pub struct Statements {
    pub phase: PhaseKind,
    pub span: Span,
    pub text: Value,
}

/// A script and what was seen in it.
#[derive(Debug)]
pub struct Followed<'a> {
    pub view: &'a ScriptView<'a>,
    pub trace: Trace<'a>,
}

/// Something that is done to a thing.
#[derive(Clone, PartialEq, Debug)]
pub struct Act {
    pub phase: PhaseKind,
    pub verb: Verb,
    pub thing: Thing,
    /// Where it is written.
    pub span: Span,
    /// The step, by its key.
    pub step: Span,
    /// It may not happen.
    pub maybe: bool,
    /// That it fails is passed over.
    pub lenient: bool,
    /// What is made may be there already.
    pub again: bool,
}

/// What is done.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Verb {
    Creates,
    Reads,
    Awaits,
    Changes,
    Deletes,
}

impl Verb {
    /// As `docs/effects.md` calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Creates => "creates",
            Self::Reads => "reads",
            Self::Awaits => "awaits",
            Self::Changes => "changes",
            Self::Deletes => "deletes",
        }
    }
}

/// Something in the world.
#[derive(Clone, PartialEq, Debug)]
pub struct Thing {
    /// What it lives in: `kubernetes`, `docker`, `file`.
    pub system: String,
    /// Its kind, in one word of all that people write for it.
    pub kind: String,
    /// The part of the system: a namespace. `None`: not said.
    pub space: Option<Value>,
    /// `None`: all of them, or those with a label.
    pub name: Option<Value>,
}

impl Thing {
    /// For people: `pod web in shop`.
    pub fn shown(&self) -> String {
        let name = self.name.as_ref().map_or_else(|| "*".to_owned(), Value::shown);
        let space = self.space.as_ref().map_or_else(String::new, |space| format!(" in {}", space.shown()));
        match self.kind.is_empty() {
            true => format!("{} {name}{space}", self.system),
            false => format!("{} {name}{space}", self.kind),
        }
    }

    /// Whether the two certainly are one.
    pub fn is(&self, other: &Self) -> bool {
        let name = self.name.as_ref().zip(other.name.as_ref()).is_some_and(|(a, b)| a.is(b));
        self.system == other.system && self.kind == other.kind && name && same_space(self, other)
    }

    /// Whether what is done to `other` may be done to this, too.
    pub fn may_be(&self, other: &Self) -> bool {
        let kinds = self.kind == other.kind || other.kind == "all" || self.kind.is_empty() || other.kind.is_empty();
        let names = match (&self.name, &other.name) {
            (Some(a), Some(b)) => a.may_be(b),
            _ => true,
        };
        let spaces = match (&self.space, &other.space) {
            (Some(a), Some(b)) => a.may_be(b),
            _ => true,
        };
        self.system == other.system && kinds && names && spaces
    }
}

fn same_space(a: &Thing, b: &Thing) -> bool {
    match (&a.space, &b.space) {
        (Some(a), Some(b)) => a.is(b),
        (None, None) => true,
        _ => false,
    }
}

/// The scripts that scripts of a task read, each once. One that reads others is opaque.
pub fn sourced(
    scripts: &[ScriptView<'_>],
    all: &ScriptFiles,
    sources: &Sources,
    files: &dyn Files,
) -> Vec<(PathBuf, Arc<Content>)> {
    let mut found: Vec<(PathBuf, Arc<Content>)> = Vec::new();
    for script in scripts {
        for (_, path) in sourced::read_by(script) {
            if !found.iter().any(|(known, _)| *known == path)
                && let Some(file) = all.get(&path, sources, files)
            {
                found.push((path, Arc::clone(&file.content)));
            }
        }
    }
    found
}

/// What the model of a task is made from.
#[derive(Clone, Copy)]
pub struct Given<'a> {
    pub task: &'a Task<Def>,
    pub scripts: &'a [ScriptView<'a>],
    /// See [`sourced`].
    pub sourced: &'a [(PathBuf, Arc<Content>)],
    pub tools: &'a Tools,
    pub files: &'a dyn Files,
}

impl<'a> Model<'a> {
    /// Follows all scripts and steps of a task.
    pub fn of(given: Given<'a>) -> Self {
        let environment = environment(given.task);
        let prompt = given.task.prompt.as_ref().map(|prompt| of_template(&prompt.text, &environment));
        let mut model = Self { prompt: prompt.unwrap_or_default(), ..Self::default() };
        for view in given.scripts {
            if view.reader == Reader::Foreign {
                model.opaque.push(view.phase);
                model.foreign.extend(asked_by(&view.content));
                continue;
            }
            let trace = follow(given, view, &environment);
            if trace.opaque {
                model.opaque.push(view.phase);
            }
            for run in &trace.runs {
                acts(run, view, given, &mut model);
            }
            model.scripts.push(Followed { view, trace });
        }
        operation::steps(given, &environment, &mut model);
        model
    }

    /// What is done in a phase.
    pub fn in_phase(&self, phase: PhaseKind) -> impl Iterator<Item = &Act> {
        self.acts.iter().filter(move |act| act.phase == phase)
    }

    /// For people: what is done in each phase, a line each.
    pub fn shown(&self, sources: &Sources) -> String {
        let mut out = String::new();
        for phase in PhaseKind::ALL {
            let mut title = phase.name();
            for act in self.in_phase(phase) {
                let mut notes: Vec<&str> = Vec::new();
                if act.maybe {
                    notes.push("perhaps");
                }
                if act.lenient {
                    notes.push("may fail");
                }
                let notes = if notes.is_empty() { String::new() } else { format!("  ({})", notes.join(", ")) };
                let source = sources.get(act.span.file);
                let place = format!("{}:{}", source.path().display(), source.position(act.span.start).line);
                out.push_str(&format!("  {title:8} {:8} {}{notes}  {place}\n", act.verb.name(), act.thing.shown()));
                title = "";
            }
            if !self.sees(phase) {
                out.push_str(&format!("  {title:8} and unknown effects\n"));
            }
        }
        if out.is_empty() { "  no known effects\n".to_owned() } else { out }
    }

    /// Whether all that is done in a phase is known.
    pub fn sees(&self, phase: PhaseKind) -> bool {
        !self.opaque.contains(&phase)
    }
}

/// The name of the task among its variables: no variable can be called so.
const TASK_NAME: &str = "{task.name}";

/// The variable of a `foreach` among the task's, or what lies in its value at a path.
fn loop_name<'p>(name: &str, path: impl IntoIterator<Item = &'p SegmentKind>) -> String {
    let mut whole = format!("{{{name}");
    path.into_iter().for_each(|segment| match segment {
        SegmentKind::Name(key) => whole.push_str(&format!(".{key}")),
        SegmentKind::Index(at) => whole.push_str(&format!("[{at}]")),
    });
    whole + "}"
}

/// The variables of a task, with what is known of them.
pub fn environment(task: &Task<Def>) -> Variables {
    let mut known = Variables::default();
    for _ in 0..4 {
        let mut next = Variables::from_iter([(TASK_NAME.to_owned(), Value::text(&*task.name.value))]);
        for (name, template) in &task.env {
            next.insert(name.value.clone(), of_template(template, &known));
        }
        if next == known {
            break;
        }
        known = next;
    }
    known
}

/// What is known of a template.
pub fn of_template(template: &Template<Def>, environment: &Variables) -> Value {
    let mut value = Value::default();
    for part in &template.parts {
        match part {
            Part::Text(text) => value.push(Piece::Text(text.clone())),
            Part::Hole(hole) => value.append(&of_hole(hole, environment)),
        }
    }
    value
}

fn of_hole(hole: &Hole<Def>, environment: &Variables) -> Value {
    let Hole { reference, text, filters, .. } = hole;
    let is_plain = filters.is_empty();
    match &reference.target {
        Target::TaskEnv(name) if is_plain => environment.get(name).cloned().unwrap_or_else(|| Value::name(text)),
        Target::TaskName if is_plain => environment.get(TASK_NAME).cloned().unwrap_or_else(|| Value::name(text)),
        Target::Loop(name) if is_plain => {
            environment.get(&loop_name(name, &reference.segments)).cloned().unwrap_or_else(Value::unknown)
        }
        Target::Loop(_) | Target::Local(_) => Value::unknown(),
        _ => Value::name(text),
    }
}

/// What a script asks its environment for that is not one of the shell.
fn asked_by(content: &Content) -> Vec<(String, Span)> {
    let (text, first) = (&*content.text, content.text.lines().next().unwrap_or_default());
    let program = ["python", "node", "ruby", "perl"].into_iter().find(|program| first.contains(program));
    let names = program.map(|program| programs::asked(program, text)).unwrap_or_default();
    let place = |name: &str| text.find(name).map_or(0..0, |at| at..at + name.len());
    names.into_iter().map(|name| (name.to_owned(), content.span(place(name)))).collect()
}

fn follow<'a>(given: Given<'a>, view: &'a ScriptView<'a>, environment: &Variables) -> Trace<'a> {
    let mut variables = environment.clone();
    if let Some(ArgKind::Record(fields)) = view.step.arg("env").map(|arg| &arg.kind) {
        for (name, arg) in fields {
            let value = match &arg.kind {
                ArgKind::Text(template) => of_template(template, environment),
                _ => arg.as_value().map_or_else(Value::unknown, |value| Value::text(value.to_string())),
            };
            variables.insert(name.value.clone(), value);
        }
    }
    if let Some(ArgKind::List(args)) = view.step.arg("args").map(|arg| &arg.kind) {
        for (nth, arg) in args.iter().enumerate() {
            let value = match &arg.kind {
                ArgKind::Text(template) => of_template(template, environment),
                _ => arg.as_value().map_or_else(Value::unknown, |value| Value::text(value.to_string())),
            };
            variables.insert((nth + 1).to_string(), value);
        }
        variables.insert("#".to_owned(), Value::text(args.len().to_string()));
    }
    let holes: Vec<Value> = match &view.value.kind {
        ArgKind::Text(template) => template.holes().map(|hole| of_hole(hole, environment)).collect(),
        _ => Vec::new(),
    };
    let mut sourced = Sourced::default();
    for (word, path) in sourced::read_by(view) {
        if let Some((path, content)) = given.sourced.iter().find(|(known, _)| *known == path) {
            let starts = view.content.program.body.iter().find(|s| s.words().iter().any(|w| w.range == word.range));
            if let Some(statement) = starts {
                sourced.insert((Arc::as_ptr(&view.content), statement.range.start), (path.clone(), content));
            }
        }
    }
    let path = match &view.form {
        Form::File { path, .. } => Some(path.as_path()),
        _ => None,
    };
    shell::follow(&view.content, &holes, &variables, &sourced, path)
}

/// The things that a command is about, by what is known of its program.
fn acts<'a>(run: &Run<'a>, view: &ScriptView<'a>, given: Given<'a>, model: &mut Model<'a>) {
    let span = run.content.span(run.statement.range.start..first_line(run));
    let act = |verb, thing, lenient| Act {
        phase: view.phase,
        verb,
        thing,
        span,
        step: view.step.key,
        maybe: run.maybe,
        lenient: run.lenient || lenient,
        again: run.maybe || run.lenient || lenient,
    };
    if let Some(path) = &run.output {
        let thing = Thing { system: "file".to_owned(), kind: "file".to_owned(), space: None, name: Some(path.clone()) };
        // What a file held is written over.
        model.acts.push(Act { again: true, ..act(Verb::Creates, thing, false) });
    }
    let Some(name) = run.words.first().and_then(Value::literal) else { return };
    let name = name.rsplit('/').next().unwrap_or(name);
    let Some(tool) = given.tools.tool(name) else { return };
    let words: Vec<Cow<'_, str>> = run.words[1..].iter().map(spelt).collect();
    if tools::is_dry(&words) {
        return;
    }
    let words = Words { values: &run.words[1..], spelt: &words };
    let Some(command) = tool.command(words.spelt, run.statement.fed || run.input.is_some()) else { return };
    let verbs = [
        (Verb::Creates, &command.creates),
        (Verb::Reads, &command.reads),
        (Verb::Awaits, &command.awaits),
        (Verb::Changes, &command.changes),
        (Verb::Deletes, &command.deletes),
    ];
    let mut space = option(tool, &tool.space, words);
    let mut statements = None;
    if tool.system == "sqlite" {
        // Its tables are those of a file, and what it does stands behind.
        let mut given = words.operands(tool);
        space = given.next().cloned();
        statements = given.next().cloned();
    }
    let system = command.system.as_ref().unwrap_or(&tool.system);
    if command.sql {
        let text = option(tool, &tool.sql, words).or(statements).or_else(|| run.input.clone());
        model.sql.extend(text.iter().map(|text| Statements { phase: view.phase, span, text: text.clone() }));
        let done: Vec<_> = text.iter().flat_map(sql::statements).collect();
        // SQLite makes the file with the first table.
        let file = space.clone().filter(|_| system == "sqlite" && done.iter().any(|(verb, ..)| *verb == Verb::Creates));
        if let Some(name) = file {
            let thing = Thing { system: "file".to_owned(), kind: "file".to_owned(), space: None, name: Some(name) };
            model.acts.push(Act { again: true, ..act(Verb::Creates, thing, false) });
        }
        for (verb, kind, name, succeeds) in done {
            let space = space.clone().filter(|_| system == "sqlite");
            let thing = Thing { system: system.clone(), kind, space, name: Some(name) };
            model.acts.push(act(verb, thing, succeeds));
        }
    }
    for (verb, kind) in verbs.into_iter().filter_map(|(verb, kind)| Some((verb, kind.as_ref()?))) {
        if kind == "FILES" {
            match described(run, tool, words, view, given) {
                Some(objects) => {
                    for object in objects {
                        let act = act(verb, of_object(object, space.clone(), tool), command.succeeds);
                        model.acts.push(Act { again: act.again || command.again, ..act });
                    }
                }
                None if matches!(verb, Verb::Creates | Verb::Deletes) => model.opaque.push(view.phase),
                None => {}
            }
            continue;
        }
        let named = option(tool, &command.named, words);
        let wide = |kind: &str| tool.kind(kind).is_some_and(|(_, wide)| wide);
        let things = match named {
            Some(name) => vec![(kind.clone(), Some(name))],
            None => operands(tool, command, kind, words),
        };
        for (kind, name) in things {
            let name = name.map(|name| of_url(&name));
            let canonical = tool.kind(&kind).map_or_else(|| kind.to_lowercase(), |(kind, _)| kind.to_owned());
            let space = if wide(&canonical) { None } else { space.clone() };
            let thing = Thing { system: system.clone(), kind: canonical, space, name };
            let act = act(verb, thing, command.succeeds);
            model.acts.push(Act { again: act.again || command.again, ..act });
        }
    }
}

/// The bucket that `s3://BUCKET/KEY` is in; any other name as it is.
fn of_url(name: &Value) -> Value {
    let scheme = ["s3://", "gs://"].iter().find(|scheme| {
        name.pieces().first().is_some_and(|piece| matches!(piece, Piece::Text(text) if text.starts_with(**scheme)))
    });
    match scheme {
        Some(scheme) => without(name, scheme.len()).split('/').into_iter().next().unwrap_or_default(),
        None => name.clone(),
    }
}

fn first_line(run: &Run<'_>) -> usize {
    let range = &run.statement.range;
    let text = run.content.text.get(range.clone()).unwrap_or_default();
    range.start + text.find('\n').unwrap_or(text.len())
}

/// A word for the table: what is not known in it is a character that no option begins with.
fn spelt(value: &Value) -> Cow<'_, str> {
    if let Some(text) = value.literal() {
        return Cow::Borrowed(text);
    }
    let mut spelt = String::new();
    value.pieces().iter().for_each(|piece| match piece {
        Piece::Text(text) => spelt.push_str(text),
        _ => spelt.push(script::HOLE),
    });
    Cow::Owned(spelt)
}

/// The words behind the name of a program, and how the table of the program sees them.
#[derive(Clone, Copy)]
struct Words<'r> {
    values: &'r [Value],
    spelt: &'r [Cow<'r, str>],
}

impl<'r> Words<'r> {
    /// Those that are neither options nor values of options.
    fn operands(self, tool: &'r Tool) -> impl Iterator<Item = &'r Value> {
        // An operand is one of the words: its place is how far it is from the first.
        let place = move |word: &'r Cow<'r, str>| self.spelt.iter().position(|known| std::ptr::eq(known, word));
        tool.operands(self.spelt).filter_map(place).filter_map(move |at| self.values.get(at))
    }
}

/// The value of one of these options.
fn option(tool: &Tool, names: &[impl AsRef<str>], words: Words<'_>) -> Option<Value> {
    let options = words.spelt.iter().enumerate().filter(|(_, text)| text.starts_with('-'));
    for (at, text) in options {
        for name in names.iter().map(AsRef::as_ref) {
            // `-tAc STATEMENTS`: options of one letter that share a dash.
            if tool.last_of(text).is_some_and(|last| last == name) {
                return words.values.get(at + 1).cloned();
            }
            let Some(rest) = text.strip_prefix(name) else { continue };
            if rest.is_empty() {
                return words.values.get(at + 1).cloned();
            }
            // `-nNAMESPACE` beside `--namespace=NAMESPACE`.
            let sign = if name.starts_with("--") || !tool.short { "=" } else { "" };
            if rest.len() > sign.len() && rest.starts_with(sign) {
                return Some(without(&words.values[at], name.len() + sign.len()));
            }
        }
    }
    None
}

/// A value without its first bytes, which are literal.
fn without(value: &Value, bytes: usize) -> Value {
    let mut out = Value::default();
    for (nth, piece) in value.pieces().iter().enumerate() {
        match piece {
            Piece::Text(text) if nth == 0 => out.push(Piece::Text(text.get(bytes..).unwrap_or_default().to_owned())),
            piece => out.push(piece.clone()),
        }
    }
    out
}

/// Kinds and names that stand as operands. `None` for a name: all of a kind.
fn operands(tool: &Tool, command: &tools::Command, kind: &str, words: Words<'_>) -> Vec<(String, Option<Value>)> {
    let given: Vec<&Value> = words.operands(tool).collect();
    let usage: Vec<&str> = command.usage.split_whitespace().collect();
    let Some(place) = usage.iter().position(|word| matches!(*word, "KIND" | "NAME" | "NAMES" | "KIND/NAME")) else {
        return Vec::new();
    };
    let rest = given.get(place..).unwrap_or_default();
    if usage[place] != "KIND" && usage[place] != "KIND/NAME" {
        // Between them and the name may stand other words.
        let names = if usage.contains(&"NAMES") { rest } else { rest.get(..1).unwrap_or_default() };
        return names.iter().map(|name| (kind.to_owned(), Some((*name).clone()))).collect();
    }
    let Some((first, names)) = rest.split_first() else { return Vec::new() };
    let one = |word: &Value| {
        let parts = word.split('/');
        match parts.as_slice() {
            [kind, name] => Some((kind.literal()?.to_owned(), Some(name.clone()))),
            _ => None,
        }
    };
    if spelt_has_slash(first) {
        let many = usage.contains(&"NAMES");
        return rest.iter().take(if many { rest.len() } else { 1 }).filter_map(|word| one(word)).collect();
    }
    let Some(word) = first.literal() else { return Vec::new() };
    let kinds: Vec<&str> = word.split(',').collect();
    let of = |name: Option<Value>| -> Vec<(String, Option<Value>)> {
        kinds.iter().map(|word| ((if kind == "KIND" { *word } else { kind }).to_owned(), name.clone())).collect()
    };
    let last = if usage.contains(&"NAMES") { names.len() } else { 1 };
    match names.is_empty() {
        true => of(None),
        false => names.iter().take(last).flat_map(|name| of(Some((*name).clone()))).collect(),
    }
}

fn spelt_has_slash(value: &Value) -> bool {
    value.pieces().iter().any(|piece| matches!(piece, Piece::Text(text) if text.contains('/')))
}

/// The objects of the manifests that a command is given.
fn described(
    run: &Run<'_>,
    tool: &Tool,
    words: Words<'_>,
    view: &ScriptView<'_>,
    given: Given<'_>,
) -> Option<Vec<Object>> {
    let file = option(tool, &["-f", "--filename"], words)?;
    let path = file.literal()?;
    if path == "-" {
        return manifest::objects(run.input.as_ref()?);
    }
    let path = resolve(view.dir.as_ref()?, path);
    let text = String::from_utf8(given.files.read(&path).ok()?).ok()?;
    manifest::objects(&Value::text(text))
}

fn of_object(object: Object, space: Option<Value>, tool: &Tool) -> Thing {
    let (kind, wide) =
        tool.kind(&object.kind).map_or((object.kind.clone(), false), |(kind, wide)| (kind.to_owned(), wide));
    let space = if wide { None } else { object.namespace.or(space) };
    Thing { system: tool.system.clone(), kind, space, name: Some(object.name) }
}
