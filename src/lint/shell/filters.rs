//! Filters of jq and paths of kubectl: what they read, and what is wrong with them.

use std::{cell::OnceCell, collections::BTreeSet, ops::Range, path::PathBuf, rc::Rc};

use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::Value as Json;

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
    hir::{Arg, ArgKind, Def, OperationKind, PhaseKind},
    lint::{
        TaskView,
        analysis::{
            facts,
            typed::{About, Fault, Found, Keys, Reader, Type, World},
        },
        shell::{
            answers::{self, place},
            comparison::COMPARES_OTHERWISE,
            impossible_values::{DOTTED_KEY, IMPOSSIBLE_VALUE},
            misspelt::MISSPELT_VALUE,
        },
    },
    source::{Span, resolve},
};

/// Reports fields that do not exist.
pub fn fields(view: &TaskView<'_>, out: &mut Diagnostics) {
    report(view, About::Field, out, |span, message| {
        Diagnostic::new(&MISSPELT_VALUE, span, message).strength(Strength::Warning)
    });
}

/// Reports keys with dots.
pub fn keys(view: &TaskView<'_>, out: &mut Diagnostics) {
    report(view, About::Key, out, |span, message| Diagnostic::new(&DOTTED_KEY, span, message));
}

/// Reports comparisons whose sides never have the same type.
pub fn comparisons(view: &TaskView<'_>, out: &mut Diagnostics) {
    report(view, About::Types, out, |span, message| Diagnostic::new(&COMPARES_OTHERWISE, span, message));
}

/// Reports comparisons with values that a field never has.
pub fn values(view: &TaskView<'_>, out: &mut Diagnostics) {
    report(view, About::Value, out, |span, message| Diagnostic::new(&IMPOSSIBLE_VALUE, span, message));
}

/// Reports the faults of one kind, except at places where others are reported already.
fn report(view: &TaskView<'_>, about: About, out: &mut Diagnostics, of: impl Fn(Span, String) -> Diagnostic) {
    let told: Vec<Span> = out.iter().map(|known| known.span).collect();
    for Found { span, fault, likely } in faults(view).iter().filter(|found| found.fault.about == about) {
        if !told.iter().any(|known| known.contains(*span) || span.contains(*known)) {
            let finding = of(*span, fault.message.clone()).help(fault.help.clone());
            out.push(if *likely { finding.strength(Strength::Warning) } else { finding });
        }
    }
}

fn faults<'v>(view: &'v TaskView<'_>) -> &'v [Found] {
    view.facts.filters(|| {
        let given: OnceCell<Vec<String>> = OnceCell::new();
        let keys = |kind: &str| {
            let given = given.get_or_init(|| facts::given(view).iter().map(|fact| fact.key.clone()).collect());
            let what = format!("the {kind} that setup creates");
            Rc::new(Keys { given: given.clone(), said: view.effects.prompt.shown(), what, is_loose: false })
        };
        let values = || Rc::new(values_of_setup(view));
        let world = World { tools: view.tools, keys: &keys, values: &values };
        let Some(tool) = view.tools.tool("kubectl") else { return Vec::new() };
        let mut search =
            Search { view, tool, world: &world, outputs: FxHashMap::default(), likely: false, found: Vec::new() };
        for followed in &view.effects.scripts {
            search.script(followed);
        }
        search.steps();
        search.questions();
        search.found
    })
}

/// What a command prints, and what it is called.
#[derive(Clone, PartialEq)]
struct Input {
    kind: Type,
    subject: String,
}

impl Input {
    fn unknown() -> Self {
        Self { kind: Type::Unknown, subject: "the input".to_owned() }
    }
}

struct Search<'s, 'a> {
    view: &'s TaskView<'a>,
    tool: &'s Tool,
    world: &'s World<'s>,
    /// What a script writes to files, each with the address of its command: commands are in the order of the script.
    outputs: FxHashMap<Value, Vec<(usize, Input)>>,
    likely: bool,
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
                self.found.push(Found { span, fault, likely: self.likely });
            }
        }
    }

    fn script(&mut self, followed: &Followed<'_>) {
        self.expected(followed);
        let mut read: FxHashSet<*const Run<'_>> = FxHashSet::default();
        let is_jq = |run: &Run<'_>| run.statement.name() == "jq";
        if followed.trace.runs.iter().any(is_jq) {
            self.outputs.clear();
            for run in &followed.trace.runs {
                if let Some(file) = &run.output {
                    let input = if run.maybe { Input::unknown() } else { self.json_of(run) };
                    self.outputs.entry(file.clone()).or_default().push((std::ptr::from_ref(run).addr(), input));
                }
            }
            for runs in asked::pipes(followed) {
                let Some((first, others)) = runs.split_first() else { continue };
                if !others.iter().any(|run| is_jq(run)) {
                    continue;
                }
                let mut input = self.json_of(first);
                for run in others {
                    if is_jq(run) {
                        read.insert(std::ptr::from_ref(*run));
                        // With `-r`, a text is printed as it is, and may be JSON.
                        let printed = self.jq(run, &input).filter(|kind| !kind.is_text());
                        input.kind = printed.unwrap_or(Type::Unknown);
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
                    self.jq(run, &Input::unknown());
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

    /// Reads the paths that a step expects in the JSON that its only command prints.
    fn expected(&mut self, followed: &Followed<'_>) {
        let expect = followed.view.step.expect.as_ref().and_then(|(_, expect)| expect.get("stdout")?.get("json"));
        let Some(ArgKind::List(items)) = expect.map(|arg| &arg.kind) else { return };
        let Some(runs) = asked::only(followed).filter(|runs| runs.len() == 1) else { return };
        let Some(run) = runs.first() else { return };
        let input = self.json_of(run);
        for item in items {
            let Some((path, text)) = item.get("path").and_then(|path| Some((path, path.as_literal()?))) else {
                continue;
            };
            let Some(kind) = self.path(text, &input, "nothing is selected", |_| path.span) else { continue };
            let values = [item.get("equals"), item.get("all").and_then(|all| all.get("equals"))];
            values.into_iter().flatten().for_each(|value| self.equal(text, &kind, value));
        }
    }

    /// Compares the type of a field with the value that an operation expects.
    fn equal(&mut self, path: &str, kind: &Type, value: &Arg<Def>) {
        let Some(json) = value.as_value() else { return };
        let of_value = json.as_str().map_or_else(|| Type::of_json(&json), |text| Type::Literal(text.to_owned()));
        if let Some((about, message, help)) = kind.unequal(&of_value, path, &json.to_string()) {
            self.add(vec![Fault { range: 0..0, about, message, help }], |_| value.span);
        }
    }

    /// Reads the filter of a jq command, and returns what it prints.
    fn jq(&mut self, run: &Run<'_>, input: &Input) -> Option<Type> {
        let words: Vec<String> = run.words.iter().skip(1).map(spelt).collect();
        let operands: Vec<&String> = tools::operands("jq", &words).collect();
        let (text, files) = operands.split_first()?;
        let has = |letter: char, long: &str| {
            words
                .iter()
                .any(|word| word == long || !word.starts_with("--") && word.starts_with('-') && word.contains(letter))
        };
        let is_file = files.iter().any(|file| *file != "-");
        let others = has('n', "--null-input") || has('R', "--raw-input") || words.iter().any(|word| word == "--stream");
        let read = match () {
            () if others || files.len() > 1 => Input::unknown(),
            () if is_file => self.file(run, files[0]),
            () => input.clone(),
        };
        let kind = if has('s', "--slurp") { Type::List(Rc::new(read.kind)) } else { read.kind };
        let variables = given(&words);
        let node = jq::parse(text)?;
        let mut reader = Reader::new(self.world, &read.subject, "the result is null", variables);
        let printed = reader.read(text, &node, &kind);
        let faults = reader.faults;
        self.add(faults, |range| within(run, text, range));
        self.likely = false;
        Some(printed)
    }

    /// A file that the script itself, or setup, writes.
    fn file(&mut self, run: &Run<'_>, path: &str) -> Input {
        let own = run.words.last().and_then(|word| self.outputs.get(word));
        let address = std::ptr::from_ref(run).addr();
        if let Some((_, input)) = own.and_then(|all| all.iter().rev().find(|(at, _)| *at < address)) {
            return input.clone();
        }
        let files = answers::written(self.view);
        let known = files.iter().find(|(known, _)| known == path);
        self.likely = known.is_some();
        let subject = "the file".to_owned();
        known.map_or_else(Input::unknown, |(_, json)| Input { kind: Type::of_json(json), subject })
    }

    /// Reads a path without braces, and returns what it selects.
    fn path(
        &mut self,
        text: &str,
        input: &Input,
        effect: &'static str,
        span: impl Fn(&Range<usize>) -> Span,
    ) -> Option<Type> {
        let node = jsonpath::path(text, 0..text.len())?;
        Some(self.node(text, &node, input, effect, span))
    }

    fn node(
        &mut self,
        text: &str,
        node: &Node,
        input: &Input,
        effect: &'static str,
        span: impl Fn(&Range<usize>) -> Span,
    ) -> Type {
        let mut reader = Reader::new(self.world, &input.subject, effect, Vec::new());
        let found = reader.read(text, node, &input.kind);
        self.add(reader.faults, span);
        found
    }

    /// Reads the paths of `-o jsonpath=…`, `-o custom-columns=…` and `--for=jsonpath=…`.
    fn paths(&mut self, run: &Run<'_>) {
        const EFFECT: &str = "the output is empty";
        let is_asked = |word: &Value| {
            word.pieces().iter().any(|piece| matches!(piece, Piece::Text(text) if text.contains("{.") || text.contains("{range") || text.contains("columns=")))
        };
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
            let waits = word.starts_with("--for")
                || word.starts_with("jsonpath=") && run.words.iter().any(|word| word.literal() == Some("wait"));
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

    /// The paths of operations, and the values that they compare.
    fn steps(&mut self) {
        let view = self.view;
        view.task.walk(&mut |_, step| {
            let OperationKind::Extension { operation, .. } = &step.op.kind else { return };
            let named = step.arg("resource").or_else(|| step.arg("kind"));
            let resource = named.and_then(|arg| arg.as_literal().map(str::to_owned));
            let resource =
                resource.or_else(|| step.arg("resource").and_then(crate::lint::analysis::texts::script_text));
            if let (Some(path), Some(resource)) = (step.arg("jsonpath"), resource)
                && let Some(text) = path.as_literal()
            {
                let input = self.resource(resource.split('/').next().unwrap_or_default());
                let text = text.trim_matches(['{', '}']);
                let kind = self.path(text, &input, "the output is empty", |_| path.span);
                if let (Some(kind), Some(value), "field-equals") = (kind, step.arg("value"), operation.as_str()) {
                    self.equal(text, &kind, value);
                }
            }
        });
    }

    /// A single resource of a kind.
    fn resource(&self, word: &str) -> Input {
        let kind = self.tool.kind(word).map_or(word, |(kind, _)| kind);
        let table = types::of_kind(kind);
        let subject = if table.is_some() { format!("a {kind}") } else { "a resource".to_owned() };
        Input { kind: Type::of(table.unwrap_or(types::Type::RESOURCE), ""), subject }
    }

    /// The JSON that a command prints.
    fn json_of(&mut self, run: &Run<'_>) -> Input {
        if asked::is_object(run) || matches!(run.statement.tool(), "docker" | "aws") {
            return self.printed(run);
        }
        let kind = match self.single(run) {
            // A text is printed without quotes.
            Some(kind) if !kind.is_text() => kind,
            _ => Type::Unknown,
        };
        Input { kind, subject: self.printed(run).subject }
    }

    /// What a command reads.
    fn printed(&self, run: &Run<'_>) -> Input {
        self.resource_of(run).unwrap_or_else(Input::unknown)
    }

    fn resource_of(&self, run: &Run<'_>) -> Option<Input> {
        let tool = run.statement.tool();
        if !matches!(tool, "kubectl" | "helm" | "docker" | "aws") {
            return None;
        }
        let words: Vec<String> = run.words.iter().skip(1).map(spelt).collect();
        let operands: Vec<&str> = tools::operands(tool, &words).map(String::as_str).collect();
        let input = |kind, subject: &str| Some(Input { kind, subject: subject.to_owned() });
        match (tool, operands.as_slice()) {
            ("docker", ["inspect", ..] | ["container", "inspect", ..]) => {
                let (kind, _) = self.view.effects.kind_read_by(run)?;
                let container = || Type::List(Rc::new(Type::Listed("docker", "container", String::new())));
                if kind == "container" { input(container(), "a container") } else { None }
            }
            ("helm", ["status", ..]) => input(Type::Listed("helm", "release", String::new()), "a release"),
            ("helm", ["get", "values", ..]) => input(Type::Keys((self.world.values)()), "the values"),
            ("aws", ["sqs", "get-queue-attributes", ..]) => {
                let spelt: Vec<&str> = words.iter().map(String::as_str).collect();
                let is_whole = asked::value_of(&spelt, "--query", "--query").is_none()
                    && asked::value_of(&spelt, "--output", "--output").is_none_or(|form| form == "json");
                let texts = Type::Map(Rc::new(Type::Text(None)), "Attributes".to_owned());
                let all = Type::Open(Rc::new(vec![("Attributes".to_owned(), texts)]));
                if is_whole { input(all, "the output") } else { None }
            }
            ("kubectl", [verb @ ("get" | "wait"), named @ ..]) => {
                let is_open = |word: &String| {
                    let opens = ["-f", "--filename", "--raw", "-k"].contains(&word.as_str());
                    opens || word.starts_with("--raw=") || word.starts_with("--filename=")
                };
                let (kind, is_named) = self.view.effects.kind_read_by(run)?;
                let word = *named.first()?;
                if words.iter().any(is_open) || word.contains(',') || word.contains(HOLE) && !word.contains('/') {
                    return None;
                }
                let item = self.resource(kind);
                let is_slashed = word.contains('/');
                if *verb == "get" && named.len() > if is_slashed { 1 } else { 2 } {
                    return None;
                }
                if is_named || *verb == "wait" {
                    return Some(item);
                }
                // What is not known may be a name.
                let is_list = named.len() == 1 && !is_slashed && !words.iter().any(String::is_empty);
                let list = || Input { kind: Type::Items(Rc::new(item.kind), word.to_owned()), subject: item.subject };
                is_list.then(list)
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
                    let input = self.json_of(first);
                    asked::operand(run)
                        .and_then(|text| jq::parse(&text))
                        .filter(is_one)
                        .and_then(|_| self.jq(run, &input))
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
        let before = self.found.len();
        let printed = self.node(template, part, &input, "", |_| statement(run));
        self.found.truncate(before);
        Some(printed)
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

/// The most directories in which a chart is searched for.
const FILES: usize = 100;

/// The values of charts that setup sets, and those in the files of charts beside the task.
fn values_of_setup(view: &TaskView<'_>) -> Keys {
    let first_of =
        |path: &str| path.split(['.', '[', '=']).find(|part| !part.is_empty()).unwrap_or_default().to_owned();
    let setup = view.effects.scripts.iter().filter(|followed| followed.view.phase == PhaseKind::Setup);
    let mut given: Vec<String> = Vec::new();
    let mut files: BTreeSet<PathBuf> = BTreeSet::new();
    for followed in setup {
        let dir = followed.view.dir.as_deref().unwrap_or(&view.task.dir);
        for run in &followed.trace.runs {
            let words: Vec<&str> = run.words.iter().map(|word| word.literal().unwrap_or_default()).collect();
            let local = words.iter().skip(1).filter(|word| !word.is_empty() && !word.starts_with(['-', '/']));
            files.extend(local.map(|word| resolve(dir, word)));
            for (nth, word) in words.iter().enumerate().filter(|_| run.statement.tool() == "helm") {
                let option = ["--set", "--set-string"].iter().find_map(|option| word.strip_prefix(option));
                let pairs = option.and_then(|rest| rest.strip_prefix('=').or_else(|| words.get(nth + 1).copied()));
                given.extend(pairs.unwrap_or_default().split(',').filter(|pair| pair.contains('=')).map(first_of));
            }
        }
    }
    // The directory of a chart.
    for path in files.iter().take(FILES).map(|path| path.join("values.yaml")) {
        let text = view.files.read(&path).ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
        let keys = text.lines().filter_map(|line| line.split_once(':')).map(|(key, _)| key);
        given.extend(keys.filter(|key| key.starts_with(|c: char| c.is_ascii_alphabetic())).map(str::to_owned));
    }
    // Those that verify reads are not meant by another name.
    let verify = &facts::elsewhere(view).verify;
    let (read, given): (Vec<String>, Vec<String>) =
        given.into_iter().partition(|key| verify.contains(&format!(".{key}")));
    let what = "the chart that setup uses".to_owned();
    Keys { given, said: read.join(" "), what, is_loose: true }
}
