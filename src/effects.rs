//! The effects of a task's scripts and steps on the world: one model, which rules query. [`shell`] follows scripts, [`value`] is what is
//! known of a text, and [`crate::bash::tools`] contains the facts about programs. Unknowns are marked as such, and no rule draws
//! conclusions from them.

pub mod asked;
pub mod changes;
pub mod curl;
mod github;
pub mod inherited;
pub mod manifest;
mod operation;
mod programs;
pub mod script;
pub mod shell;
pub mod sourced;
mod sql;
pub mod value;

use std::{borrow::Cow, path::PathBuf, sync::Arc};

pub use self::operation::{Round, rounds, words};
use self::{
    manifest::Object,
    script::{Content, Form, Reader, ScriptFiles, ScriptView},
    shell::{Run, Sourced, Trace, Variables},
    value::{Piece, Value},
};
use crate::{
    bash::tools::{self, Tool, Tools},
    hir::{ArgKind, Def, Hole, Part, PhaseKind, Step, Target, Task, Template},
    source::{Files, Sources, Span, resolve},
    template::SegmentKind,
};

/// What a task does, in the order written.
#[derive(Debug, Default)]
pub struct Model<'a> {
    pub scripts: Vec<Followed<'a>>,
    pub acts: Vec<Act>,
    /// Phases in which the model may miss effects.
    pub opaque: Vec<PhaseKind>,
    /// The prompt for the agent.
    pub prompt: Value,
    /// SQL statements that its scripts run, as far as they are known.
    pub sql: Vec<Statements>,
    /// Environment variables that scripts in other languages read.
    pub foreign: Vec<(String, Span)>,
}

/// SQL statements that a command runs.
#[derive(Debug)]
pub struct Statements {
    pub phase: PhaseKind,
    pub span: Span,
    pub text: Value,
}

/// A script, and what was found by following it.
#[derive(Debug)]
pub struct Followed<'a> {
    pub view: &'a ScriptView<'a>,
    pub trace: Trace<'a>,
}

/// An operation on a resource.
#[derive(Clone, PartialEq, Debug)]
pub struct Act {
    pub phase: PhaseKind,
    pub verb: Verb,
    pub thing: Thing,
    /// Where it is written.
    pub span: Span,
    /// The step, identified by its key.
    pub step: Span,
    /// Whether it may not happen.
    pub maybe: bool,
    /// Whether its failure is ignored.
    pub lenient: bool,
    /// Whether it succeeds if the resource already exists.
    pub again: bool,
}

/// What is done to a resource.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Verb {
    Creates,
    Reads,
    Awaits,
    Changes,
    Deletes,
}

impl Verb {
    /// The name used in `docs/effects.md`.
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

/// A resource in the world.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Thing {
    /// The system it belongs to: `kubernetes`, `docker`, `file`.
    pub system: String,
    /// Its kind, as the canonical one of all the words that people use for it.
    pub kind: String,
    /// The part of the system: a namespace. `None` if it is not given.
    pub space: Option<Value>,
    /// `None` for all of them, or for those with a label.
    pub name: Option<Value>,
}

impl Thing {
    /// A description for people: `pod web in shop`.
    pub fn shown(&self) -> String {
        let name = self.name.as_ref().map_or_else(|| "*".to_owned(), Value::shown);
        let space = self.space.as_ref().map_or_else(String::new, |space| format!(" in {}", space.shown()));
        match self.kind.is_empty() {
            true => format!("{} {name}{space}", self.system),
            false => format!("{} {name}{space}", self.kind),
        }
    }

    /// Whether both are certainly the same resource.
    pub fn is(&self, other: &Self) -> bool {
        let name = self.name.as_ref().zip(other.name.as_ref()).is_some_and(|(a, b)| a.is(b));
        self.system == other.system && self.kind == other.kind && name && same_space(self, other)
    }

    /// Whether an operation on `other` may also affect this resource.
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

/// The scripts that scripts of a task source, each once. If one of them sources further scripts, the trace is opaque.
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

/// Records the effects of a script in each round of the loops that contain it.
fn in_each_round<'a>(rounds: &[Round], view: &'a ScriptView<'a>, given: Given<'a>, model: &mut Model<'a>) {
    let mut first: Vec<Act> = Vec::new();
    let statements = model.sql.len();
    for (nth, round) in rounds.iter().enumerate() {
        let from = model.acts.len();
        follow(given, view, &round.variables).runs.iter().for_each(|run| acts(run, view, given, model));
        let added = model.acts.split_off(from);
        if nth == 0 {
            first.clone_from(&added);
            model.acts.extend(added);
            continue;
        }
        // An effect that is the same in all rounds counts once.
        let others = added.into_iter().enumerate().filter(|(at, act)| first.get(*at) != Some(act));
        model.acts.extend(others.map(|(_, act)| act));
    }
    // SQL was recorded with the values of the loop left open.
    model.sql.truncate(statements);
}

/// Whether an argument of a step contains the variable of a loop.
fn reads_loop(step: &Step<Def>) -> bool {
    let mut reads = false;
    step.args.iter().for_each(|(_, arg)| {
        arg.templates(&mut |template| {
            reads |= template.holes().any(|hole| matches!(hole.reference.target, Target::Loop(_)));
        });
    });
    reads
}

/// The input from which the model of a task is built.
#[derive(Clone, Copy)]
pub struct Given<'a> {
    pub task: &'a Task<Def>,
    pub scripts: &'a [ScriptView<'a>],
    /// See [`sourced`].
    pub sourced: &'a [(PathBuf, Arc<Content>)],
    pub tools: &'a Tools,
    pub files: &'a dyn Files,
}

/// The maximum number of operations of a task. Rules compare them with each other; with more, nothing is concluded from any.
const MOST: usize = 2000;

impl<'a> Model<'a> {
    /// Follows all scripts and steps of a task.
    pub fn of(given: Given<'a>) -> Self {
        let environment = environment(given.task);
        let prompt = given.task.prompt.as_ref().map(|prompt| of_template(&prompt.text, &environment));
        let mut model = Self { prompt: prompt.unwrap_or_default(), ..Self::default() };
        let rounds = operation::rounds(given.task, &environment);
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
            let from = model.acts.len();
            for run in &trace.runs {
                acts(run, view, given, &mut model);
            }
            if let Some(rounds) = rounds.get(&view.step.key).filter(|_| reads_loop(view.step)) {
                model.acts.truncate(from);
                in_each_round(rounds, view, given, &mut model);
            }
            model.scripts.push(Followed { view, trace });
        }
        operation::steps(given, &environment, &mut model);
        if model.acts.len() > MOST {
            model.acts.clear();
            model.opaque.extend(PhaseKind::ALL);
        }
        model
    }

    /// The operations in a phase.
    pub fn in_phase(&self, phase: PhaseKind) -> impl Iterator<Item = &Act> {
        self.acts.iter().filter(move |act| act.phase == phase)
    }

    /// A description for people: the operations in each phase, one per line.
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

    /// Whether all operations in a phase are known.
    pub fn sees(&self, phase: PhaseKind) -> bool {
        !self.opaque.contains(&phase)
    }
}

/// The key of the task's name among its variables. No real variable can have this name.
const TASK_NAME: &str = "{task.name}";

/// The key of a `foreach` variable, or of the value at a path in it, among the task's variables.
fn loop_name<'p>(name: &str, path: impl IntoIterator<Item = &'p SegmentKind>) -> String {
    let mut whole = format!("{{{name}");
    path.into_iter().for_each(|segment| match segment {
        SegmentKind::Name(key) => whole.push_str(&format!(".{key}")),
        SegmentKind::Index(at) => whole.push_str(&format!("[{at}]")),
    });
    whole + "}"
}

/// The variables of a task, with the known parts of their values.
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

/// The environment variables that a script reads, if it is not a shell script.
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

/// The SQL statements that a client runs, also in a container. They are unknown if they are in a file or given in parts.
/// Returns `None` for other programs.
pub fn sql_of(run: &Run<'_>, tools: &Tools) -> Option<Value> {
    let client = |word: &Value| {
        let name = word.literal()?;
        tools.tool(name.rsplit('/').next().unwrap_or(name)).filter(|tool| !tool.sql.is_empty())
    };
    let outer = matches!(run.statement.tool(), "docker" | "docker-compose" | "kubectl" | "sudo" | "timeout");
    let places = run.words.iter().take(if outer { run.words.len() } else { 1 });
    let (at, tool) = places.enumerate().find_map(|(at, word)| Some((at, client(word)?)))?;
    let values = run.words.get(at + 1..)?;
    let words: Vec<Cow<'_, str>> = values.iter().map(spelt).collect();
    let words = Words { values, spelt: &words };
    let is_given = |word: &str| {
        let name = tool.last_of(word).unwrap_or_else(|| word.split('=').next().unwrap_or_default().to_owned());
        tool.sql.contains(&name)
    };
    let given = words.spelt.iter().filter(|word| is_given(word)).count();
    let command = tool.command(words.spelt, run.statement.fed || run.input.is_some());
    let operands: Vec<&Value> = words.operands(tool).collect();
    let text = match (tool.system.as_str(), given, operands.as_slice()) {
        _ if !command.is_some_and(|command| command.sql) => None,
        ("sqlite", 0, [_, statements]) => Some((*statements).clone()),
        ("sqlite", 0, [_]) | ("postgres" | "mysql", 0, _) => run.input.clone(),
        ("postgres" | "mysql", 1, _) => option(tool, &tool.sql, words),
        _ => None,
    };
    Some(text.unwrap_or_else(Value::unknown))
}

/// Records the operations of a command on resources, according to the table of its program.
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
        // An existing file is overwritten.
        model.acts.push(Act { again: true, ..act(Verb::Creates, thing, false) });
    }
    let Some(name) = run.words.first().and_then(Value::literal) else { return };
    let name = name.rsplit('/').next().unwrap_or(name);
    if name == "curl" {
        let (done, fails) = by_request(&run.words);
        model.acts.extend(done.into_iter().map(|(verb, thing)| act(verb, thing, !fails)));
        return;
    }
    let Some(tool) = given.tools.tool(name) else { return };
    let words: Vec<Cow<'_, str>> = run.words[1..].iter().map(spelt).collect();
    if tools::is_dry(&words) {
        return;
    }
    let words = Words { values: &run.words[1..], spelt: &words };
    if tool.system == "github" {
        model.acts.extend(github::acts(&run.words[1..]).into_iter().map(|(verb, thing)| act(verb, thing, false)));
    }
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
        // Tables belong to a file, and the statements come after the name of the file.
        let mut given = words.operands(tool);
        space = given.next().cloned();
        statements = given.next().cloned();
    }
    let system = command.system.as_ref().unwrap_or(&tool.system);
    if command.sql {
        let text = option(tool, &tool.sql, words).or(statements).or_else(|| run.input.clone());
        model.sql.extend(text.iter().map(|text| Statements { phase: view.phase, span, text: text.clone() }));
        let done: Vec<_> = text.iter().flat_map(sql::statements).collect();
        // SQLite creates the file together with the first table.
        let file = space.clone().filter(|_| system == "sqlite" && done.iter().any(|(verb, ..)| *verb == Verb::Creates));
        if let Some(name) = file {
            let thing = Thing { system: "file".to_owned(), kind: "file".to_owned(), space: None, name: Some(name) };
            model.acts.push(Act { again: true, ..act(Verb::Creates, thing, false) });
        }
        for (verb, kind, name, succeeds) in done {
            let space = space.clone().filter(|_| system == "sqlite");
            // In PostgreSQL, a user is a role that can log in.
            let kind = if system == "postgres" && kind == "user" { "role".to_owned() } else { kind };
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

/// What a `curl` command deletes, or the collection that it creates, and whether it fails if the server refuses. The effects of
/// other requests depend on the server.
fn by_request(words: &[Value]) -> (Vec<(Verb, Thing)>, bool) {
    let Some(sent) = curl::sent(words) else { return (Vec::new(), false) };
    let verb = match sent.method.as_str() {
        "DELETE" => Verb::Deletes,
        "MKCOL" | "MKCALENDAR" => Verb::Creates,
        _ => return (Vec::new(), false),
    };
    let thing = |url| Thing { system: "http".to_owned(), kind: "url".to_owned(), space: None, name: Some(url) };
    (operation::resources(&sent.url).into_iter().map(|url| (verb, thing(url))).collect(), sent.fails)
}

/// The bucket in `s3://BUCKET/KEY`. Other names are returned unchanged.
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

/// A word as text, for the table. Unknown parts become a character that no option starts with.
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

/// The words after the name of a program, as values and as texts for the program's table.
#[derive(Clone, Copy)]
struct Words<'r> {
    values: &'r [Value],
    spelt: &'r [Cow<'r, str>],
}

impl<'r> Words<'r> {
    /// The words that are neither options nor values of options.
    fn operands(self, tool: &'r Tool) -> impl Iterator<Item = &'r Value> {
        // Operands are references to elements of `spelt`, so their index is found by address.
        let place = move |word: &'r Cow<'r, str>| self.spelt.iter().position(|known| std::ptr::eq(known, word));
        tool.operands(self.spelt).filter_map(place).filter_map(move |at| self.values.get(at))
    }
}

/// The value of one of these options.
fn option(tool: &Tool, names: &[impl AsRef<str>], words: Words<'_>) -> Option<Value> {
    let options = words.spelt.iter().enumerate().filter(|(_, text)| text.starts_with('-'));
    for (at, text) in options {
        for name in names.iter().map(AsRef::as_ref) {
            // `-tAc STATEMENTS`: one-letter options that share a dash.
            if tool.last_of(text).is_some_and(|last| last == name) {
                return words.values.get(at + 1).cloned();
            }
            let Some(rest) = text.strip_prefix(name) else { continue };
            if rest.is_empty() {
                return words.values.get(at + 1).cloned();
            }
            // `-nNAMESPACE` as well as `--namespace=NAMESPACE`.
            let sign = if name.starts_with("--") || !tool.short { "=" } else { "" };
            if rest.len() > sign.len() && rest.starts_with(sign) {
                return Some(without(&words.values[at], name.len() + sign.len()));
            }
        }
    }
    None
}

/// A value without its first bytes, which must be literal.
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

/// The kinds and names given as operands. A name is `None` for all resources of a kind.
fn operands(tool: &Tool, command: &tools::Command, kind: &str, words: Words<'_>) -> Vec<(String, Option<Value>)> {
    let given: Vec<&Value> = words.operands(tool).collect();
    let usage: Vec<&str> = command.usage.split_whitespace().collect();
    let Some(place) = usage.iter().position(|word| matches!(*word, "KIND" | "NAME" | "NAMES" | "KIND/NAME")) else {
        return Vec::new();
    };
    let rest = given.get(place..).unwrap_or_default();
    if usage[place] != "KIND" && usage[place] != "KIND/NAME" {
        // There may be other words between the place and the name.
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

/// The objects in the manifests that a command is given.
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
