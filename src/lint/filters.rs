//! Filters of jq and paths of kubectl: what they read, and what is wrong with them.

use std::{
    cell::OnceCell,
    ops::Range,
    rc::Rc,
};

use rustc_hash::FxHashSet;
use serde_json::Value as Json;

use super::{
    TaskView,
    answers::{self, place},
    comparison::COMPARES_OTHERWISE,
    facts,
    misspelt::MISSPELT_VALUE,
    typed::{About, Fault, Found, Keys, Reader, Type, World},
    values::{DOTTED_KEY, IMPOSSIBLE_VALUE},
};
use crate::{
    bash::{
        jq::{self, Kind, Node},
        jsonpath,
        tools::{self, Tool},
        types,
    },
    diagnostic::{Diagnostic, Diagnostics, Strength},
    effects::{
        Followed,
        asked::{self, Demand, Form},
        shell::Run,
        value::{Piece, Value},
    },
    hir::OperationKind,
    source::Span,
};

/// Reports fields that do not exist.
pub(super) fn fields(view: &TaskView<'_>, out: &mut Diagnostics) {
    report(view, About::Field, out, |span, message| {
        Diagnostic::new(&MISSPELT_VALUE, span, message).strength(Strength::Warning)
    });
}

/// Reports keys with dots.
pub(super) fn keys(view: &TaskView<'_>, out: &mut Diagnostics) {
    report(view, About::Key, out, |span, message| Diagnostic::new(&DOTTED_KEY, span, message));
}

/// Reports comparisons whose sides never have the same type.
pub(super) fn comparisons(view: &TaskView<'_>, out: &mut Diagnostics) {
    report(view, About::Types, out, |span, message| Diagnostic::new(&COMPARES_OTHERWISE, span, message));
}

/// Reports comparisons with values that a field never has.
pub(super) fn values(view: &TaskView<'_>, out: &mut Diagnostics) {
    report(view, About::Value, out, |span, message| Diagnostic::new(&IMPOSSIBLE_VALUE, span, message));
}

/// Reports the faults of one kind, except at places where others are reported already.
fn report(view: &TaskView<'_>, about: About, out: &mut Diagnostics, of: impl Fn(Span, String) -> Diagnostic) {
    let told: Vec<Span> = out.iter().map(|known| known.span).collect();
    for Found { span, fault } in faults(view).iter().filter(|found| found.fault.about == about) {
        if !told.iter().any(|known| known.contains(*span) || span.contains(*known)) {
            out.push(of(*span, fault.message.clone()).help(fault.help.clone()));
        }
    }
}

fn faults<'v>(view: &'v TaskView<'_>) -> &'v [Found] {
    view.facts.filters(|| {
        let given: OnceCell<Vec<String>> = OnceCell::new();
        let keys = |kind: &str| {
            let given = given.get_or_init(|| facts::given(view).iter().map(|fact| fact.key.clone()).collect());
            let what = format!("the {kind} that setup creates");
            Rc::new(Keys { given: given.clone(), said: view.effects.prompt.shown(), what })
        };
        let world = World { tools: view.tools, keys: &keys };
        let Some(tool) = view.tools.tool("kubectl") else { return Vec::new() };
        let mut search = Search { view, tool, world: &world, found: Vec::new() };
        for followed in &view.effects.scripts {
            search.script(followed);
        }
        search.steps();
        search.questions();
        search.found
    })
}

/// What a command prints, and what it is called.
struct Input {
    kind: Type,
    subject: String,
}

struct Search<'s, 'a> {
    view: &'s TaskView<'a>,
    tool: &'s Tool,
    world: &'s World<'s>,
    found: Vec<Found>,
}

const HOLE: &str = jq::HOLE;

/// The text of a word, with a sign for each part that is not known.
fn spelt(word: &Value) -> String {
    let piece = |piece: &Piece| match piece {
        Piece::Text(text) => text.clone(),
        Piece::Name(_) | Piece::Printed(_) | Piece::Unknown => HOLE.to_owned(),
    };
    word.pieces().iter().map(piece).collect()
}

impl Search<'_, '_> {
    fn add(&mut self, faults: Vec<Fault>, span: impl Fn(&Range<usize>) -> Span) {
        for fault in faults {
            let span = span(&fault.range);
            if !self.found.iter().any(|known| known.span == span && known.fault.message == fault.message) {
                self.found.push(Found { span, fault });
            }
        }
    }

    fn script(&mut self, followed: &Followed<'_>) {
        let mut read: FxHashSet<*const Run<'_>> = FxHashSet::default();
        let is_jq = |run: &Run<'_>| run.statement.name() == "jq";
        if followed.trace.runs.iter().any(is_jq) {
            for runs in asked::pipes(followed) {
                let Some((first, others)) = runs.split_first() else { continue };
                if !others.iter().any(|run| is_jq(run)) {
                    continue;
                }
                let mut input = self.printed(first);
                for run in others {
                    if is_jq(run) {
                        read.insert(std::ptr::from_ref(*run));
                        input.kind = self.jq(run, &input).unwrap_or(Type::Unknown);
                    } else if !matches!(run.statement.name(), "cat" | "tee") {
                        input.kind = Type::Unknown;
                    }
                }
            }
        }
        for run in &followed.trace.runs {
            match run.statement.tool() {
                "kubectl" => self.paths(run),
                "jq" if is_jq(run) && !read.contains(&std::ptr::from_ref(run)) => {
                    let input = Input { kind: Type::Unknown, subject: "the input".to_owned() };
                    self.jq(run, &input);
                }
                _ => {}
            }
        }
        for (run, form) in asked::printed(followed) {
            if let (Form::Field(path), "docker") = (form, run.statement.tool()) {
                let input = self.printed(run);
                let input = Input { kind: input.kind.item(), subject: input.subject };
                self.path(&format!(".{path}"), &input, "the output is empty", |_| statement(run));
            }
        }
    }

    /// Reads the filter of a jq command, and returns what it prints.
    fn jq(&mut self, run: &Run<'_>, input: &Input) -> Option<Type> {
        let words: Vec<String> = run.words.iter().skip(1).map(spelt).collect();
        let operands: Vec<&String> = tools::operands("jq", &words).collect();
        let (text, files) = operands.split_first()?;
        let has = |letter: char, long: &str| {
            words.iter().any(|word| word == long || !word.starts_with("--") && word.starts_with('-') && word.contains(letter))
        };
        let is_file = !files.is_empty() && files.iter().any(|file| *file != "-");
        let kind = match () {
            () if has('n', "--null-input") || has('R', "--raw-input") || words.iter().any(|word| word == "--stream") => Type::Unknown,
            () if is_file => files.first().filter(|_| files.len() == 1).map_or(Type::Unknown, |file| self.file(file)),
            () => input.kind.clone(),
        };
        let kind = if has('s', "--slurp") { Type::List(Rc::new(kind)) } else { kind };
        let variables = given(&words);
        let node = jq::parse(text)?;
        let mut reader = Reader::new(self.world, &input.subject, "the result is null", variables);
        let printed = reader.read(text, &node, &kind);
        self.add(reader.faults, |range| within(run, text, range));
        Some(printed)
    }

    /// The JSON file that setup writes.
    fn file(&self, path: &str) -> Type {
        let files = answers::written(self.view);
        files.iter().find(|(known, _)| known == path).map_or(Type::Unknown, |(_, json)| Type::of_json(json))
    }

    /// Reads a path without braces, and returns what it selects.
    fn path(&mut self, text: &str, input: &Input, effect: &'static str, span: impl Fn(&Range<usize>) -> Span) -> Option<Type> {
        let node = jsonpath::path(text, 0..text.len())?;
        Some(self.node(text, &node, input, effect, span))
    }

    fn node(&mut self, text: &str, node: &Node, input: &Input, effect: &'static str, span: impl Fn(&Range<usize>) -> Span) -> Type {
        let mut reader = Reader::new(self.world, &input.subject, effect, Vec::new());
        let found = reader.read(text, node, &input.kind);
        self.add(reader.faults, span);
        found
    }

    /// Reads the paths of `-o jsonpath=…`, `-o custom-columns=…` and `--for=jsonpath=…`.
    fn paths(&mut self, run: &Run<'_>) {
        const EFFECT: &str = "the output is empty";
        let is_asked = |word: &Value| word.pieces().iter().any(|piece| matches!(piece, Piece::Text(text) if text.contains("{.") || text.contains("{range") || text.contains("columns=")));
        if !run.words.iter().any(is_asked) {
            return;
        }
        let input = &self.printed(run);
        for word in run.words.iter().filter(|word| is_asked(word)).map(spelt) {
            if let Some((_, columns)) = word.split_once("custom-columns=") {
                let item = match &input.kind {
                    Type::Items(item, _) => Input { kind: item.as_ref().clone(), subject: input.subject.clone() },
                    kind => Input { kind: kind.clone(), subject: input.subject.clone() },
                };
                for path in columns.split(',').filter_map(|column| column.split_once(':')).map(|(_, path)| path) {
                    self.path(path, &item, "the column is empty", |range| within(run, path, range));
                }
                continue;
            }
            let waits = word.starts_with("--for") || word.starts_with("jsonpath=") && run.words.iter().any(|word| word.literal() == Some("wait"));
            let template = match (waits, word.split_once('{')) {
                // `jsonpath={.status.phase}=Running`
                (true, Some((_, rest))) => rest.rsplit_once('}').map(|(path, _)| format!("{{{path}}}")),
                (_, Some(_)) => word.find('{').map(|at| word[at..].to_owned()),
                _ => None,
            };
            let Some(template) = template else { continue };
            let Some(parsed) = jsonpath::parse(&template.replace("\\{", "{")) else { continue };
            let value = word.rsplit_once("}=").filter(|_| waits).map(|(_, value)| value.trim_matches(['"', '\'']));
            for part in &parsed.parts {
                let printed = self.node(&template, part, input, EFFECT, |range| within(run, &template, range));
                if let Some(Err(all)) = value.map(|value| printed.prints(value)) {
                    let path = template.trim_matches(['{', '}']);
                    let message = format!("`{path}` is never `{}`", value.unwrap_or_default());
                    let fault = Fault { range: 0..0, about: About::Value, message, help: format!("it is {all}") };
                    self.add(vec![fault], |_| place(run, &word));
                }
            }
        }
    }

    /// The paths of operations.
    fn steps(&mut self) {
        let mut found: Vec<(Span, String, String)> = Vec::new();
        self.view.task.walk(&mut |_, step| {
            let path = step.arg("jsonpath").filter(|_| matches!(step.op.kind, OperationKind::Extension { .. }));
            let named = step.arg("resource").or_else(|| step.arg("kind"));
            let resource = named.and_then(|arg| arg.as_literal().map(str::to_owned));
            let resource = resource.or_else(|| step.arg("resource").and_then(super::texts::script_text));
            if let (Some(path), Some(resource)) = (path, resource)
                && let Some(text) = path.as_literal()
            {
                found.push((path.span, resource, text.to_owned()));
            }
        });
        for (span, resource, text) in found {
            let word = resource.split('/').next().unwrap_or_default();
            let text = text.trim_matches(['{', '}']).to_owned();
            self.path(&text, &self.resource(word), "the output is empty", |_| span);
        }
    }

    /// A single resource of a kind.
    fn resource(&self, word: &str) -> Input {
        let kind = self.tool.kind(word).map_or(word, |(kind, _)| kind);
        let table = types::of_kind(kind);
        let subject = if table.is_some() { format!("a {kind}") } else { "a resource".to_owned() };
        Input { kind: Type::of(table.unwrap_or(types::Type::RESOURCE), ""), subject }
    }

    /// What a command prints.
    fn printed(&self, run: &Run<'_>) -> Input {
        self.resource_of(run).unwrap_or_else(|| Input { kind: Type::Unknown, subject: "the input".to_owned() })
    }

    fn resource_of(&self, run: &Run<'_>) -> Option<Input> {
        let tool = run.statement.tool();
        if !matches!(tool, "kubectl" | "helm" | "docker") {
            return None;
        }
        let words: Vec<String> = run.words.iter().skip(1).map(spelt).collect();
        let operands: Vec<&str> = tools::operands(tool, &words).map(String::as_str).collect();
        match (tool, operands.as_slice()) {
            ("docker", ["inspect", ..] | ["container", "inspect", ..]) => {
                let act = self.view.effects.read_by(run)?;
                let kind = Type::List(Rc::new(Type::Listed("docker", "container", String::new())));
                (act.thing.kind == "container").then(|| Input { kind, subject: "a container".to_owned() })
            }
            ("helm", ["status", ..]) if asked::is_object(run) => {
                Some(Input { kind: Type::Listed("helm", "release", String::new()), subject: "a release".to_owned() })
            }
            ("kubectl", [verb @ ("get" | "wait"), named @ ..]) => {
                let is_open = |word: &String| {
                    matches!(word.as_str(), "-f" | "--filename" | "--raw" | "-k") || word.starts_with("--raw=") || word.starts_with("--filename=")
                };
                let act = self.view.effects.read_by(run)?;
                let word = *named.first()?;
                if words.iter().any(is_open) || word.contains(',') || word.contains(HOLE) && !word.contains('/') {
                    return None;
                }
                let item = self.resource(&act.thing.kind);
                let is_list = act.thing.name.is_none() && *verb == "get";
                if !is_list {
                    return Some(item);
                }
                // What is not known may be a name.
                let is_known = named.len() == 1 && !word.contains('/') && run.words.iter().all(|word| !word.pieces().is_empty());
                let certain = is_known && !words.iter().any(|word| word == HOLE && operands.contains(&word.as_str()));
                certain.then(|| Input { kind: Type::Items(Rc::new(item.kind), word.to_owned()), subject: item.subject })
            }
            _ => None,
        }
    }

    /// What the shell compares with a text.
    fn questions(&mut self) {
        let view = self.view;
        for question in view.asked() {
            let Demand::Compared { operator, with } = &question.demand else { continue };
            if !matches!(operator.as_str(), "=" | "==" | "!=") || question.runs.len() > 2 {
                continue;
            }
            let Some(first) = question.runs.first() else { continue };
            let before = self.found.len();
            let printed = match question.runs.get(1) {
                None => self.single(first),
                Some(run) if run.statement.name() == "jq" => {
                    let input = self.printed(first);
                    asked::operand(run).and_then(|text| jq::parse(&text)).filter(is_one).and_then(|_| self.jq(run, &input))
                }
                Some(_) => None,
            };
            self.found.truncate(before);
            if let Some(Err(all)) = printed.map(|printed| printed.prints(with)) {
                let message = format!("the output is never `{with}`");
                let fault = Fault { range: 0..0, about: About::Value, message, help: format!("the field is {all}") };
                self.add(vec![fault], |_| question.span);
            }
        }
    }

    /// What `-o jsonpath=…` prints, if it is one value.
    fn single(&mut self, run: &Run<'_>) -> Option<Type> {
        if run.statement.tool() != "kubectl" {
            return None;
        }
        let words: Vec<String> = run.words.iter().skip(1).map(spelt).collect();
        let spelt: Vec<&str> = words.iter().map(String::as_str).collect();
        let template = asked::value_of(&spelt, "-o", "--output")?.strip_prefix("jsonpath=")?;
        let parsed = jsonpath::parse(template).filter(|parsed| parsed.is_single)?;
        let part = parsed.parts.first().filter(|part| is_one(part))?;
        let input = self.printed(run);
        Some(self.node(template, part, &input, "", |_| statement(run)))
    }
}

/// Whether a filter yields one value.
fn is_one(node: &Node) -> bool {
    match &node.kind {
        Kind::Identity | Kind::Variable(_) | Kind::Text(_) | Kind::Number(_) => true,
        Kind::Field(of, _) | Kind::Index(of, _) | Kind::Try(of) => is_one(of),
        Kind::Pipe(a, b) | Kind::Alternative(a, b) => is_one(a) && is_one(b),
        _ => false,
    }
}

/// The variables of a jq command: `--arg name value`.
fn given(words: &[String]) -> Vec<(String, Type)> {
    let triple = |at: usize| Some((words.get(at + 1)?.clone(), words.get(at + 2)?.clone()));
    let own = words.iter().enumerate().filter_map(|(at, word)| {
        let (name, value) = triple(at)?;
        let kind = match word.as_str() {
            "--arg" if value.contains(HOLE) => Type::Text(None),
            "--arg" => Type::Literal(value),
            "--rawfile" => Type::Text(None),
            "--argjson" => serde_json::from_str::<Json>(&value).map_or(Type::Unknown, |json| Type::of_json(&json)),
            _ => return None,
        };
        Some((name, kind))
    });
    own.collect()
}

fn statement(run: &Run<'_>) -> Span {
    run.content.span(run.statement.range.clone())
}

/// The place of a part of a text that is in a word of a command.
fn within(run: &Run<'_>, text: &str, range: &Range<usize>) -> Span {
    let part = text.get(range.clone()).unwrap_or_default();
    let leading = part.len() - part.trim_start().len();
    let (start, part) = (range.start + leading, part.trim());
    let found = run.statement.words().iter().find_map(|word| {
        let at = run.content.text.get(word.range.clone())?.find(text)?;
        Some(word.range.start + at + start)
    });
    match found {
        Some(start) => run.content.span(start..start + part.len()),
        None => place(run, part),
    }
}
