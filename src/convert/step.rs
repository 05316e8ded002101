//! Steps as the converter makes them, and how they are written.

use std::time::Duration;

use super::{
    emit::{Entry, Item, Value},
    pattern,
};
use crate::{
    bash::{self, program},
    builtin::command::ExitCode,
    template,
    ty::duration,
};

/// One step of the portable dialect. Texts are templates, so what looks like a hole is one; only the text that a shell runs is
/// not a template.
#[derive(Clone, PartialEq, Debug)]
pub struct Step {
    /// The piece of a script that it replaces, by its index in the report.
    pub origin: Option<usize>,
    pub comments: Vec<String>,
    pub id: Option<String>,
    pub timeout: Option<String>,
    /// Whether its command itself specifies how long it may take, or its script waits for something.
    pub asked: bool,
    pub continue_on_error: bool,
    pub kind: Kind,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Kind {
    Command {
        /// As the shell reads it: what looks like a hole is text. Values are passed in `env`.
        run: String,
        /// If it is not `sh`.
        shell: Option<String>,
        workdir: Option<String>,
        env: Vec<(String, String)>,
        expect: Expect,
    },
    Http {
        url: String,
        method: String,
        headers: Vec<(String, String)>,
        body: Option<String>,
        expect: HttpExpect,
    },
    File {
        path: String,
        content: Option<String>,
        mode: Option<String>,
    },
    Foreach {
        var: String,
        values: Vec<String>,
        steps: Vec<Step>,
    },
    AnyOf(Vec<Step>),
    Group {
        steps: Vec<Step>,
        cleanup: Vec<Step>,
    },
    Eventually {
        interval: String,
        steps: Vec<Step>,
    },
    Sleep(String),
    Script {
        inline: String,
        shell: Option<String>,
        workdir: Option<String>,
        env: Vec<(String, String)>,
    },
    /// Any operation that existed before the conversion.
    Kept {
        operation: String,
        body: Vec<Entry>,
    },
}

/// The expected result of a command.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Expect {
    pub exit_code: ExitCode,
    pub equals: Option<String>,
    pub contains: Option<String>,
    pub matches: Option<String>,
    /// The text must be a number in this range.
    pub range: Range,
    /// What the text must not be.
    pub not: Option<Not>,
}

/// The least and the greatest number that is expected, if there is one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Range {
    pub least: Option<u64>,
    pub most: Option<u64>,
}

impl Range {
    /// The range of the numbers for which a comparison is true; `None` for comparisons that have none.
    pub fn of(operator: &str, limit: u64) -> Option<Self> {
        let least = |limit| Self { least: Some(limit), most: None };
        let most = |limit| Self { least: None, most: Some(limit) };
        match operator {
            "-ge" => Some(least(limit)),
            "-gt" => Some(least(limit.checked_add(1)?)),
            "-le" => Some(most(limit)),
            "-lt" => Some(most(limit.checked_sub(1)?)),
            _ => None,
        }
    }

    /// The numbers that are in both.
    fn and(self, other: Self) -> Self {
        Self { least: self.least.max(other.least), most: self.most.into_iter().chain(other.most).min() }
    }

    fn is_set(self) -> bool {
        self != Self::default()
    }

    fn entries(self) -> impl Iterator<Item = Entry> {
        let entry = |key, limit: Option<u64>| Some(Entry::new(key, Value::Raw(limit?.to_string())));
        entry("atLeast", self.least).into_iter().chain(entry("atMost", self.most))
    }
}

/// What a text must not equal, contain or match.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Not {
    Equals(String),
    Contains(String),
    Matches(String),
}

impl Not {
    /// Returns the opposite of a single demand on a text.
    pub fn of(expect: &Expect) -> Option<Self> {
        match expect {
            Expect { exit_code: ExitCode::Is(0), equals, contains, matches, range, not: None } if !range.is_set() => {
                match (equals, contains, matches) {
                    (Some(text), None, None) => Some(Self::Equals(text.clone())),
                    (None, Some(text), None) => Some(Self::Contains(text.clone())),
                    (None, None, Some(text)) => Some(Self::Matches(text.clone())),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Combines both, if one pattern can express both.
    fn and(self, other: Self) -> Option<Self> {
        if self == other {
            return Some(self);
        }
        // Outside of a group, flags would apply to both.
        let plain = |text: &str| !text.contains(['{', '\n']) && !text.starts_with("(?");
        let pattern = |not: &Self| match not {
            Self::Equals(text) if plain(text) => Some(format!("^{}$", pattern::escaped(text))),
            Self::Contains(text) if plain(text) => Some(pattern::escaped(text)),
            Self::Matches(text) if plain(text) => Some(text.clone()),
            _ => None,
        };
        Some(Self::Matches(format!("{}|{}", pattern(&self)?, pattern(&other)?)))
    }

    fn text(&mut self) -> &mut String {
        match self {
            Self::Equals(text) | Self::Contains(text) | Self::Matches(text) => text,
        }
    }

    /// Whether a text is allowed.
    pub fn admits(&self, actual: &str) -> bool {
        match self {
            Self::Equals(text) => text != actual,
            Self::Contains(text) => !actual.contains(text.as_str()),
            Self::Matches(pattern) => regex::Regex::new(pattern).is_ok_and(|pattern| !pattern.is_match(actual)),
        }
    }

    fn value(&self) -> Value {
        match self {
            Self::Equals(text) => Value::text(text),
            Self::Contains(text) => Value::map([("contains", Value::text(text))]),
            Self::Matches(text) => Value::map([("matches", Value::text(text))]),
        }
    }
}

impl Expect {
    pub fn of_text(&self) -> bool {
        self.equals.is_some()
            || self.contains.is_some()
            || self.matches.is_some()
            || self.range.is_set()
            || self.not.is_some()
    }

    /// Returns the demands on the text, as a person would write them.
    pub fn demands(&self) -> Vec<Entry> {
        let text = |key: &str, text: &Option<String>| Some(Entry::new(key, Value::text(text.as_ref()?)));
        let matches = self.matches.as_ref().map(|pattern| worded(pattern));
        let not = self.not.as_ref().map(|not| Entry::new("not", not.value()));
        let all = [text("equals", &self.equals), text("contains", &self.contains), matches];
        all.into_iter().flatten().chain(self.range.entries()).chain(not).collect()
    }

    /// Combines both, if one expectation can express both.
    pub fn and(self, other: Self) -> Option<Self> {
        fn one<T: PartialEq>(a: Option<T>, b: Option<T>) -> Option<Option<T>> {
            match (a, b) {
                (Some(a), Some(b)) if a != b => None,
                (a, b) => Some(a.or(b)),
            }
        }
        let none = |a: Option<Not>, b: Option<Not>| match (a, b) {
            (Some(a), Some(b)) => Some(Some(a.and(b)?)),
            (a, b) => Some(a.or(b)),
        };
        let exit_code = match (self.exit_code, other.exit_code) {
            (a, b) if a == b => a,
            (ExitCode::Any, ExitCode::Is(0)) | (ExitCode::Is(0), ExitCode::Any) => ExitCode::Any,
            _ => return None,
        };
        let anything = |e: &Self| {
            e.equals.is_none()
                && e.contains.is_none()
                && e.not.is_none()
                && !e.range.is_set()
                && e.matches.as_deref() == Some(NOT_EMPTY)
        };
        let fills = |e: &Self| {
            e.equals.as_deref().is_some_and(|text| !text.is_empty())
                || e.contains.is_some()
                || e.matches.is_some()
                || e.range.is_set()
        };
        // Most other demands on a text imply that it is not empty.
        if anything(&self) && fills(&other) {
            return Some(Self { exit_code, ..other });
        }
        if anything(&other) && fills(&self) {
            return Some(Self { exit_code, ..self });
        }
        // Two parts in either order, or overlapping.
        if let (Some(a), Some(b)) = (&self.contains, &other.contains)
            && !a.contains(['{', '\\'])
            && !b.contains(['{', '\\'])
            && self.matches.is_none()
            && other.matches.is_none()
        {
            let joined = overlapping(a, b).into_iter().chain(overlapping(b, a)).map(|text| regex::escape(&text));
            let (x, y) = (regex::escape(a), regex::escape(b));
            let ways: Vec<String> = [format!("{x}.*{y}"), format!("{y}.*{x}")].into_iter().chain(joined).collect();
            return Some(Self {
                exit_code,
                equals: one(self.equals, other.equals)?,
                contains: None,
                matches: Some(template::escape(&format!("(?s){}", ways.join("|")))),
                range: self.range.and(other.range),
                not: none(self.not, other.not)?,
            });
        }
        // A text that matches such a pattern is not empty.
        let fills = |pattern: &Option<String>| {
            let regex = pattern.as_ref().and_then(|pattern| regex::Regex::new(pattern).ok());
            regex.is_some_and(|regex| !regex.is_match(""))
        };
        let matches = match (self.matches, other.matches) {
            (Some(any), other) if any == NOT_EMPTY && fills(&other) => other,
            (own, Some(any)) if any == NOT_EMPTY && fills(&own) => own,
            (own, other) => one(own, other)?,
        };
        Some(Self {
            exit_code,
            equals: one(self.equals, other.equals)?,
            contains: one(self.contains, other.contains)?,
            matches,
            range: self.range.and(other.range),
            not: none(self.not, other.not)?,
        })
    }
}

/// Returns the texts in which the start of `b` overlaps the end of `a`, or in which `a` contains `b`.
fn overlapping(a: &str, b: &str) -> Vec<String> {
    let from = |at: usize| {
        let tail = &a[at..];
        if tail.starts_with(b) { Some(a.to_owned()) } else { b.strip_prefix(tail).map(|rest| format!("{a}{rest}")) }
    };
    a.char_indices().filter_map(|(at, _)| from(at)).collect()
}

/// The pattern of a text that is not empty.
pub const NOT_EMPTY: &str = "(?s).";

/// Returns the pattern of a text with this many lines, none of which is empty.
pub fn lines(at_least: u64, exactly: bool) -> String {
    match (at_least, exactly) {
        (1, false) => NOT_EMPTY.to_owned(),
        (1, true) => r"^[^\n]+$".to_owned(),
        (n, exactly) => format!(r"^[^\n]+(\n[^\n]+){{{}{}}}$", n - 1, if exactly { "" } else { "," }),
    }
}

/// Writes a pattern the way a person would express its meaning.
fn worded(pattern: &str) -> Entry {
    // Newlines at its end do not count, so a text that is not empty has a character on some line.
    if pattern == NOT_EMPTY || pattern == "." {
        return Entry::new("empty", Value::bool(false));
    }
    if pattern == lines(1, true) {
        return Entry::new("lines", Value::Raw("1".to_owned()));
    }
    let repeated = pattern.strip_prefix(r"^[^\n]+(\n[^\n]+){").and_then(|rest| rest.strip_suffix("}$"));
    if let Some(repeated) = repeated {
        let (count, exactly) = repeated.strip_suffix(',').map_or((repeated, true), |count| (count, false));
        if let Ok(more) = count.parse::<u64>() {
            let count = Value::Raw((more + 1).to_string());
            return Entry::new("lines", if exactly { count } else { Value::map([("atLeast", count)]) });
        }
    }
    if let Some(choices) = pattern.strip_prefix("^(").and_then(|rest| rest.strip_suffix(")$")) {
        let texts: Vec<Option<String>> = choices.split('|').map(literal).collect();
        if let Some(texts) = texts.into_iter().collect::<Option<Vec<String>>>() {
            return Entry::new("oneOf", Value::texts(texts));
        }
    }
    // Without alternatives, no parentheses are needed.
    let line = pattern.strip_prefix("(?m)^(?:").and_then(|rest| rest.strip_suffix(")$"));
    match line.filter(|inner| !inner.contains(['|', '(', ')'])) {
        Some(inner) => Entry::new("matches", Value::text(format!("(?m)^{inner}$"))),
        None => Entry::new("matches", Value::text(pattern)),
    }
}

/// Returns the text if a pattern matches only that text.
fn literal(pattern: &str) -> Option<String> {
    let mut text = String::new();
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => text.push(chars.next().filter(char::is_ascii_punctuation)?),
            '.' | '*' | '+' | '?' | '(' | ')' | '[' | ']' | '{' | '}' | '^' | '$' | '|' => return None,
            c => text.push(c),
        }
    }
    Some(text)
}

/// The expected response of a request.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HttpExpect {
    /// `any`, a class or a code; `None` for any 2xx.
    pub status: Option<String>,
    pub contains: Option<String>,
    pub matches: Option<String>,
    pub range: Range,
}

/// How long a script may take that has no limit of its own.
const SCRIPT: Duration = Duration::from_secs(300);

/// Whether a script waits for something: it sleeps in a loop, or runs a command that waits.
pub fn waits(text: &str) -> bool {
    let Some(program) = bash::program(text) else { return false };
    let mut found = false;
    program.walk(&mut |statement| {
        let words = statement.words();
        found |= match &statement.kind {
            program::Kind::Loop { body, .. } => body.iter().any(sleeps),
            _ if matches!(statement.tool(), "kubectl" | "helm") => {
                words.iter().any(|word| matches!(word.text.as_str(), "wait" | "rollout" | "--wait"))
            }
            _ => false,
        };
    });
    found
}

/// Whether a statement, or one in it, is `sleep`.
fn sleeps(statement: &program::Statement) -> bool {
    let mut found = false;
    statement.walk(&mut |inner| found |= inner.name() == "sleep");
    found
}

impl Step {
    pub fn new(kind: Kind) -> Self {
        Self {
            origin: None,
            comments: Vec::new(),
            id: None,
            timeout: None,
            asked: false,
            continue_on_error: false,
            kind,
        }
    }

    pub fn command(run: impl Into<String>) -> Self {
        let (run, expect) = (run.into(), Expect::default());
        Self::new(Kind::Command { run, shell: None, workdir: None, env: Vec::new(), expect })
    }

    /// Returns a step that compares the exit status of another step with 0, and passes if the comparison is true.
    pub fn of_status(id: &str, operator: &str) -> Self {
        let mut step = Self::command(format!("test \"$STATUS\" {operator} 0"));
        step.given("STATUS", format!("{{steps.{id}.outputs.exitCode}}"));
        step
    }

    /// Passes a value to a command under this name.
    pub fn given(&mut self, name: &str, value: String) {
        if let Kind::Command { env, .. } = &mut self.kind {
            env.push((name.to_owned(), value));
        }
    }

    /// Accepts any exit status of the command, or any status of the response.
    pub fn any_status(&mut self) {
        match &mut self.kind {
            Kind::Command { expect, .. } => expect.exit_code = ExitCode::Any,
            Kind::Http { expect, .. } => expect.status = Some("any".to_owned()),
            _ => {}
        }
    }

    /// Returns a step that always passes.
    pub fn pass() -> Self {
        Self::command("true")
    }

    /// Returns a single step, or a group of several.
    pub fn group(mut steps: Vec<Self>) -> Self {
        match steps.len() {
            1 => steps.remove(0),
            _ => Self::new(Kind::Group { steps, cleanup: Vec::new() }),
        }
    }

    /// Visits this step and all steps inside it.
    pub fn walk<'s>(&'s self, visit: &mut dyn FnMut(&'s Self)) {
        visit(self);
        let lists: &[&[Self]] = match &self.kind {
            Kind::Foreach { steps, .. } | Kind::AnyOf(steps) | Kind::Eventually { steps, .. } => &[steps],
            Kind::Group { steps, cleanup } => &[steps, cleanup],
            _ => &[],
        };
        lists.iter().flat_map(|l| l.iter()).for_each(|s| s.walk(visit));
    }

    /// Returns how long it may wait by its own specification, beyond the default.
    pub fn waits(&self) -> Duration {
        let said = |text: &str| duration::parse(text).unwrap_or_default();
        // The maximum for a step of a script is not a wait that anyone asked for.
        let own = self.timeout.as_deref().filter(|limit| self.asked || *limit != "5m").map(said);
        let inner = |steps: &[Self]| steps.iter().map(Self::waits).sum::<Duration>();
        match &self.kind {
            Kind::Sleep(time) => said(time),
            Kind::Foreach { values, steps, .. } => own.unwrap_or_else(|| inner(steps) * values.len().max(1) as u32),
            Kind::AnyOf(steps) => own.unwrap_or_else(|| inner(steps)),
            Kind::Group { steps, .. } => own.unwrap_or_else(|| inner(steps)),
            Kind::Script { inline, .. } if own.is_none() && waits(inline) => SCRIPT,
            Kind::Kept { .. } if own.is_none() && self.asked => SCRIPT,
            _ => own.unwrap_or_default(),
        }
    }

    /// Returns the lists of steps inside it.
    pub fn lists(&mut self) -> Vec<&mut Vec<Self>> {
        match &mut self.kind {
            Kind::Foreach { steps, .. } | Kind::AnyOf(steps) | Kind::Eventually { steps, .. } => vec![steps],
            Kind::Group { steps, cleanup } => vec![steps, cleanup],
            _ => Vec::new(),
        }
    }

    /// Changes this step and all steps inside it.
    pub fn each(&mut self, change: &mut dyn FnMut(&mut Self)) {
        change(self);
        self.lists().into_iter().flatten().for_each(|s| s.each(change));
    }

    /// Replaces a text with another one in all texts of this step itself.
    pub fn replace(&mut self, old: &str, new: &str) {
        let change = |text: &mut String| {
            if text.contains(old) {
                *text = text.replace(old, new);
            }
        };
        let pairs = |list: &mut Vec<(String, String)>| list.iter_mut().for_each(|(_, value)| change(value));
        match &mut self.kind {
            Kind::Command { run: _, shell: _, workdir, env, expect } => {
                workdir.iter_mut().for_each(change);
                pairs(env);
                let texts = [&mut expect.equals, &mut expect.contains, &mut expect.matches];
                texts.into_iter().flatten().chain(expect.not.as_mut().map(Not::text)).for_each(change);
            }
            Kind::Http { url, headers, body, expect, .. } => {
                change(url);
                pairs(headers);
                [body, &mut expect.contains, &mut expect.matches].into_iter().flatten().for_each(change);
            }
            Kind::File { path, content, .. } => {
                change(path);
                content.iter_mut().for_each(change);
            }
            Kind::Foreach { values, .. } => values.iter_mut().for_each(change),
            Kind::Script { inline, env, .. } => {
                change(inline);
                pairs(env);
            }
            Kind::Kept { body, .. } => body.iter_mut().for_each(|entry| entry.value.each_text(&change)),
            Kind::AnyOf(_) | Kind::Group { .. } | Kind::Eventually { .. } | Kind::Sleep(_) => {}
        }
    }

    pub fn item(&self) -> Item {
        let mut body = Vec::new();
        if let Some(id) = &self.id {
            body.push(Entry::new("id", Value::text(id)));
        }
        let operation = self.body(&mut body);
        let value = match body.as_slice() {
            // Short form for a body with only one entry: `sleep: 5s`, `anyOf: [...]`.
            [Entry { key, value, .. }] if operation == "anyOf" && key == "steps" || key == "duration" => value.clone(),
            _ => Value::Map(body),
        };
        Item { comments: self.comments.clone(), value: Value::Map(vec![Entry::new(operation, value)]) }
    }

    fn body(&self, body: &mut Vec<Entry>) -> &str {
        let mut add = |key: &str, value: Value| body.push(Entry::new(key, value));
        let limits = |add: &mut dyn FnMut(&str, Value)| {
            if let Some(timeout) = &self.timeout {
                add("timeout", Value::text(timeout));
            }
            if self.continue_on_error {
                add("continueOnError", Value::bool(true));
            }
        };
        match &self.kind {
            Kind::Command { run, shell, workdir, env, expect } => {
                // No value becomes part of a shell's text, not even a hole that someone has put there.
                add("run", Value::text(template::escape(run)));
                shell.iter().for_each(|shell| add("shell", Value::text(shell)));
                workdir.iter().for_each(|dir| add("workdir", Value::text(dir)));
                limits(&mut add);
                if !env.is_empty() {
                    add("env", texts(env));
                }
                let mut entries = Vec::new();
                match expect.exit_code {
                    ExitCode::Is(0) => {}
                    ExitCode::Is(code) => entries.push(Entry::new("exitCode", Value::Raw(code.to_string()))),
                    ExitCode::Not(code) => {
                        let not = Value::map([("not", Value::Raw(code.to_string()))]);
                        entries.push(Entry::new("exitCode", not));
                    }
                    ExitCode::Any => entries.push(Entry::new("exitCode", Value::Raw("any".to_owned()))),
                }
                if let Some(value) = text_expect(expect.demands()) {
                    entries.push(Entry::new("stdout", value));
                }
                if !entries.is_empty() {
                    add("expect", Value::Map(entries));
                }
                "command"
            }
            Kind::Http { url, method, headers, body, expect } => {
                add("url", Value::text(url));
                if method != "GET" {
                    add("method", Value::text(method));
                }
                if !headers.is_empty() {
                    add("headers", texts(headers));
                }
                body.iter().for_each(|text| add("body", Value::text(text)));
                limits(&mut add);
                let mut entries = Vec::new();
                if let Some(status) = &expect.status {
                    entries.push(Entry::new("status", Value::Raw(status.clone())));
                }
                let (contains, matches) = (expect.contains.clone(), expect.matches.clone());
                let demands = Expect { contains, matches, range: expect.range, ..Expect::default() }.demands();
                if !demands.is_empty() {
                    entries.push(Entry::new("body", Value::Map(demands)));
                }
                if !entries.is_empty() {
                    add("expect", Value::Map(entries));
                }
                "http"
            }
            Kind::File { path, content, mode } => {
                add("path", Value::text(path));
                match content {
                    Some(content) => add("content", Value::text(content)),
                    None => add("absent", Value::bool(true)),
                }
                mode.iter().for_each(|mode| add("mode", Value::Raw(format!("\"{mode}\""))));
                limits(&mut add);
                "file"
            }
            Kind::Foreach { var, values, steps } => {
                add("var", Value::text(var));
                add("in", Value::texts(values));
                limits(&mut add);
                add("steps", list(steps));
                "foreach"
            }
            Kind::AnyOf(steps) => {
                limits(&mut add);
                add("steps", list(steps));
                "anyOf"
            }
            Kind::Group { steps, cleanup } => {
                limits(&mut add);
                add("steps", list(steps));
                if !cleanup.is_empty() {
                    add("cleanup", list(cleanup));
                }
                "group"
            }
            Kind::Eventually { interval, steps } => {
                limits(&mut add);
                add("interval", Value::text(interval));
                add("steps", list(steps));
                "eventually"
            }
            Kind::Sleep(duration) => {
                limits(&mut add);
                add("duration", Value::text(duration));
                "sleep"
            }
            Kind::Script { inline, shell, workdir, env } => {
                add("inline", Value::text(inline));
                shell.iter().for_each(|shell| add("shell", Value::text(shell)));
                workdir.iter().for_each(|dir| add("workdir", Value::text(dir)));
                limits(&mut add);
                if !env.is_empty() {
                    add("env", texts(env));
                }
                "script"
            }
            Kind::Kept { operation, body: kept } => {
                body.extend(kept.iter().cloned());
                let mut add = |key: &str, value: Value| body.push(Entry::new(key, value));
                limits(&mut add);
                operation
            }
        }
    }
}

/// Collects the ids that plans give to steps, with the pieces of scripts that the steps replace.
pub fn origins(steps: &[Step], prefix: &str, found: &mut Vec<(String, usize)>) {
    let mut taken = std::collections::HashSet::new();
    for (index, step) in steps.iter().enumerate() {
        let segment = match (&step.id, &step.kind) {
            (Some(id), _) if taken.insert(id) => id.clone(),
            _ => index.to_string(),
        };
        let id = format!("{prefix}/{segment}");
        found.extend(step.origin.map(|origin| (id.clone(), origin)));
        match &step.kind {
            Kind::Foreach { steps, .. } | Kind::Eventually { steps, .. } => origins(steps, &id, found),
            Kind::Group { steps, .. } => origins(steps, &format!("{id}/steps"), found),
            // The id of a branch always contains its index.
            Kind::AnyOf(steps) => {
                for (branch, step) in steps.iter().enumerate() {
                    origins(std::slice::from_ref(step), &format!("{id}/{branch}"), found);
                }
            }
            _ => {}
        }
    }
}

pub fn list(steps: &[Step]) -> Value {
    Value::List(steps.iter().map(Step::item).collect())
}

fn texts(pairs: &[(String, String)]) -> Value {
    Value::Map(pairs.iter().map(|(k, v)| Entry::new(k, Value::text(v))).collect())
}

/// A plain text means `equals`.
pub fn text_expect(demands: Vec<Entry>) -> Option<Value> {
    match demands.as_slice() {
        [] => None,
        [Entry { key, value, .. }] if key == "equals" => Some(value.clone()),
        _ => Some(Value::Map(demands)),
    }
}
