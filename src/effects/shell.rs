//! An abstract interpreter for shell scripts. It follows assignments, functions, substitutions of literal texts and loops over known
//! lists, and determines the words of each command as far as possible. Everything else is [`Value::unknown`].

use std::{
    borrow::Cow,
    collections::BTreeSet,
    ops::Range,
    path::{Path, PathBuf},
    rc::Rc,
    sync::Arc,
};

use rustc_hash::FxHashMap;

use super::{
    programs,
    script::Content,
    value::{Piece, Value},
};
use crate::bash::{
    self,
    ast::{self, Part},
    program::{Kind, Repeat, Statement},
    tools,
};

/// Variables and their values.
pub type Variables = FxHashMap<String, Value>;

/// One execution of a simple command.
#[derive(Clone, Debug)]
pub struct Run<'s> {
    /// The text that contains it.
    pub content: &'s Content,
    pub statement: &'s Statement,
    /// Its words, starting with the name.
    pub words: Vec<Value>,
    /// Its standard input, if it is written in the script.
    pub input: Option<Value>,
    /// The file that its standard output is written to.
    pub output: Option<Value>,
    /// Whether it may not run at all, because it is in a branch or in a loop.
    pub maybe: bool,
    /// Whether its failure is ignored, because it is before `||` or in a condition.
    pub lenient: bool,
}

/// A test, with the words between its brackets as far as they are known.
#[derive(Clone, Debug)]
pub struct Test<'s> {
    pub content: &'s Content,
    pub statement: &'s Statement,
    pub words: Vec<Value>,
}

/// A variable that is read, but not set in the script or its task.
#[derive(Clone, Debug)]
pub struct Unset<'s> {
    pub content: &'s Content,
    pub name: String,
    pub range: Range<usize>,
    /// Whether it has a default.
    pub provided: bool,
}

/// A variable of the script that a program reads from its environment, although it is not exported.
#[derive(Clone, Debug)]
pub struct Unexported<'s> {
    pub content: &'s Content,
    pub name: String,
    /// The program that reads it.
    pub program: String,
    pub range: Range<usize>,
}

/// `${count.index}`: an expansion that the shell does not support.
#[derive(Clone, Debug)]
pub struct Bad<'s> {
    pub content: &'s Content,
    pub text: String,
    pub range: Range<usize>,
    /// Whether it is in a here-document.
    pub in_document: bool,
}

/// A variable that is changed in a subshell, or in a part of a pipeline, and read after it.
#[derive(Clone, Debug)]
pub struct Lost<'s> {
    pub content: &'s Content,
    pub name: String,
    pub set: Range<usize>,
    pub read: Range<usize>,
}

/// The result of following one script.
#[derive(Clone, Debug, Default)]
pub struct Trace<'s> {
    pub runs: Vec<Run<'s>>,
    /// Commands whose output is passed on: those in `$(…)`, and pipelines. Each is given as the runs of its parts, by their index
    /// in `runs`.
    pub chains: Vec<Vec<usize>>,
    /// The chains that are pipelines.
    pub pipelines: Vec<(&'s Content, &'s Statement, usize)>,
    /// `[ … ]` and `[[ … ]]`. `test …` is recorded as a run.
    pub tests: Vec<Test<'s>>,
    pub unset: Vec<Unset<'s>>,
    /// Variables that the script sets.
    pub sets: BTreeSet<String>,
    /// Variables that are read after a subshell has changed them without effect.
    pub lost: Vec<Lost<'s>>,
    pub unexported: Vec<Unexported<'s>>,
    /// Variables that programs in the script read from their environment, and that neither the script nor its task
    /// sets.
    pub asked: Vec<(String, &'s Content, Range<usize>)>,
    pub bad: Vec<Bad<'s>>,
    /// `$NAME` of a script variable in a here-document that is not expanded.
    pub literal: Vec<Bad<'s>>,
    /// Whether it may run commands that the analysis does not see: `eval`, a file that does not exist.
    pub opaque: bool,
    /// The scripts that it sources.
    pub sources: Vec<&'s Content>,
}

/// Sourced scripts, by the place of the command that sources them.
pub type Sourced<'s> = FxHashMap<(*const Content, usize), (PathBuf, &'s Arc<Content>)>;

/// Limits on the number of statements and on the depth of function calls.
const STEPS: usize = 20_000;
const DEPTH: usize = 12;
/// The maximum number of rounds of a loop over a known list.
const ROUNDS: usize = 32;

/// Follows a script. `holes` are the values of its holes, in order.
pub fn follow<'s>(
    content: &'s Content,
    holes: &[Value],
    variables: &Variables,
    sourced: &Sourced<'s>,
    path: Option<&Path>,
) -> Trace<'s> {
    let marked = marked(content);
    let mut shell = Shell {
        marked: (content, &marked),
        holes,
        sourced,
        functions: FxHashMap::default(),
        variables: Rc::new(variables.clone()),
        trace: Trace { opaque: !content.program.sound, ..Trace::default() },
        steps: STEPS,
        read: BTreeSet::new(),
        changed: FxHashMap::default(),
        inner: None,
        locals: Vec::new(),
        inside: &[],
        pipefail: content.program.sets('\0', "pipefail"),
        exported: variables.keys().cloned().collect(),
        exports_all: content.program.sets('a', "allexport"),
    };
    if let Some(path) = path {
        Rc::make_mut(&mut shell.variables).insert("0".to_owned(), Value::text(path.to_string_lossy()));
    }
    shell.list(content, &content.program.body, Place::default(), 0);
    if shell.steps == 0 {
        shell.trace.opaque = true;
    }
    shell.trace
}

/// Marks the start of a hole, followed by its number and by padding.
const BEGIN: char = super::script::HOLE;
const FILL: char = '\u{19}';
const DIGITS: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyz";

/// The text of a script in which each hole contains its number.
fn marked(content: &Content) -> Cow<'_, str> {
    if content.holes.is_empty() {
        return Cow::Borrowed(&content.text);
    }
    let mut text = content.text.clone();
    for (number, hole) in content.holes.iter().enumerate() {
        let digit = |n: usize| char::from(DIGITS[n % DIGITS.len()]);
        let mut mark = String::from(BEGIN);
        mark.push(digit(number / DIGITS.len()));
        mark.push(digit(number));
        mark.extend(std::iter::repeat_n(FILL, hole.len().saturating_sub(3)));
        if hole.len() >= 3 {
            text.replace_range(hole.clone(), &mark);
        }
    }
    Cow::Owned(text)
}

/// The context of a statement.
#[derive(Clone, Copy, Default)]
struct Place {
    maybe: bool,
    lenient: bool,
}

struct Shell<'s, 'h> {
    /// The script, and its text in which each hole contains its number.
    marked: (&'s Content, &'h str),
    holes: &'h [Value],
    sourced: &'h Sourced<'s>,
    functions: FxHashMap<String, (&'s Content, &'s [Statement])>,
    variables: Rc<Variables>,
    trace: Trace<'s>,
    steps: usize,
    /// Variables that were changed in a subshell that has ended, and where.
    changed: FxHashMap<String, Range<usize>>,
    /// Where variables were set in the current subshell or part of a pipeline.
    inner: Option<FxHashMap<String, Range<usize>>>,
    /// For each function being followed: the outer state of its local variables.
    locals: Vec<FxHashMap<String, Outside>>,
    /// The statements in the substitutions of the current statement.
    inside: &'s [Statement],
    /// Whether a pipeline fails if any part fails.
    pipefail: bool,
    /// Exported variables.
    exported: BTreeSet<String>,
    exports_all: bool,
    /// Places at which an unset variable was reported.
    read: BTreeSet<(usize, String)>,
}

/// A variable that a function hides: its value, where a finished subshell has changed it, and where the current one
/// has.
type Outside = (Option<Value>, Option<Range<usize>>, Option<Range<usize>>);

impl<'s: 'h, 'h> Shell<'s, 'h> {
    fn list(&mut self, content: &'s Content, list: &'s [Statement], place: Place, depth: usize) {
        for statement in list {
            self.statement(content, statement, None, place, depth);
        }
    }

    fn text(&self, content: &'s Content, range: Range<usize>) -> &'h str {
        let text = if std::ptr::eq(self.marked.0, content) { self.marked.1 } else { content.text.as_str() };
        text.get(range).unwrap_or_default()
    }

    fn statement(&mut self, content: &'s Content, s: &'s Statement, input: Option<Value>, place: Place, depth: usize) {
        if self.steps == 0 {
            return;
        }
        self.steps -= 1;
        let may = Place { maybe: true, ..place };
        match s.kind {
            Kind::Command(_) => {}
            // The exit status of the substitutions in a loop's list is ignored.
            Kind::Loop { .. } => self.nested(content, s, Place { lenient: true, ..place }, depth),
            _ => self.nested(content, s, place, depth),
        }
        match &s.kind {
            Kind::Command(_) => self.command(content, s, input, place, depth),
            Kind::Assignment | Kind::Declaration => self.assignment(content, s),
            Kind::Test => self.test(content, s),
            Kind::Unknown => self.trace.opaque = true,
            Kind::Pipeline(parts) => {
                let before = self.enter();
                let mut fed = None;
                for (nth, part) in parts.iter().enumerate() {
                    let last = nth + 1 == parts.len();
                    let lenient = place.lenient || !last && !self.pipefail;
                    let input = fed.take();
                    fed = self.printed(content, part, input.as_ref());
                    self.statement(content, part, input, Place { lenient, ..place }, depth);
                }
                // Each part runs in a subshell.
                self.leave(before);
                if let Some(chain) = self.chain(s) {
                    self.trace.pipelines.push((content, s, chain));
                }
                if let Some(read) = parts.last().filter(|part| part.name() == "read") {
                    let names = read.words()[1..].iter().filter(|word| ast::is_name(&word.text));
                    names.for_each(|word| {
                        self.changed.insert(word.text.clone(), word.range.clone());
                    });
                }
            }
            Kind::And(pair) => {
                self.statement(content, &pair[0], None, place, depth);
                self.statement(content, &pair[1], None, may, depth);
            }
            Kind::Or(pair) => {
                // In `… || exit 1`, the failure is not ignored.
                let lenient = place.lenient || !gives_up(&pair[1]);
                self.statement(content, &pair[0], None, Place { lenient, ..place }, depth);
                let (before, changed) = (Rc::clone(&self.variables), self.changed.clone());
                self.statement(content, &pair[1], None, may, depth);
                self.join(before);
                self.changed_as(changed);
            }
            Kind::Not(inner) => self.statement(content, inner, None, Place { lenient: true, ..place }, depth),
            Kind::If { branches, otherwise } => {
                let mut ends = Vec::new();
                for branch in branches {
                    self.list(content, &branch.condition, Place { lenient: true, ..place }, depth);
                    let (before, changed) = (Rc::clone(&self.variables), self.changed.clone());
                    self.list(content, &branch.body, may, depth);
                    ends.push(std::mem::replace(&mut self.variables, before));
                    self.changed_as(changed);
                }
                if let Some(body) = otherwise {
                    let changed = self.changed.clone();
                    self.list(content, body, may, depth);
                    self.changed_as(changed);
                }
                ends.into_iter().for_each(|end| self.join(end));
            }
            Kind::Loop { repeat, condition, body } => {
                self.repeated(content, s, *repeat, (condition, body), place, depth)
            }
            Kind::Case(arms) => {
                for arm in arms {
                    let before = Rc::clone(&self.variables);
                    self.list(content, arm, may, depth);
                    self.join(before);
                }
            }
            Kind::Group(body) => self.list(content, body, place, depth),
            Kind::Subshell(body) => {
                let before = self.enter();
                self.list(content, body, place, depth);
                self.leave(before);
            }
            Kind::Function { name, body } => {
                self.functions.insert(name.clone(), (content, body));
            }
        }
    }

    /// Follows the statements in substitutions.
    fn nested(&mut self, content: &'s Content, s: &'s Statement, place: Place, depth: usize) {
        if !s.nested.is_empty() {
            let before = Rc::clone(&self.variables);
            self.list(content, &s.nested, place, depth);
            self.variables = before;
        }
        self.inside = &s.nested;
    }

    /// Records a command or a pipeline that has been followed as a chain. Returns `None` if it contains other statements.
    fn chain(&mut self, s: &'s Statement) -> Option<usize> {
        let mut runs = Vec::new();
        self.links(s, DEPTH, &mut runs)?;
        self.trace.chains.push(runs);
        Some(self.trace.chains.len() - 1)
    }

    fn links(&self, s: &'s Statement, depth: usize, runs: &mut Vec<usize>) -> Option<()> {
        match &s.kind {
            Kind::Pipeline(parts) => parts.iter().try_for_each(|part| self.links(part, depth, runs)),
            Kind::Group(list) => match list.as_slice() {
                [only] => self.links(only, depth, runs),
                _ => None,
            },
            // `… || true`, `… || echo 0`.
            Kind::Or(pair) if matches!(pair[1].name(), "true" | ":" | "echo" | "printf") => {
                self.links(&pair[0], depth, runs)
            }
            // `stat -c %a FILE || stat -f %Lp FILE`: another version of the same program.
            Kind::Or(pair) if pair[0].name() == "stat" && pair[1].name() == "stat" => self.links(&pair[0], depth, runs),
            Kind::Command(_) => match self.functions.get(s.name()) {
                Some((_, [only])) => self.links(only, depth.checked_sub(1)?, runs),
                Some(_) => None,
                None => {
                    runs.push(self.trace.runs.iter().rposition(|run| std::ptr::eq(run.statement, s))?);
                    Some(())
                }
            },
            _ => None,
        }
    }

    /// The chain of a `$(…)` in the current statement.
    fn substituted(&mut self, content: &'s Content, text: &str) -> Option<usize> {
        let inside = self.inside;
        let inner = inside.iter().find(|inner| self.text(content, inner.range.clone()) == text.trim())?;
        self.chain(inner)
    }

    /// Joins the variables of two branches: if their values differ, the value is unknown.
    fn join(&mut self, other: Rc<Variables>) {
        if Rc::ptr_eq(&self.variables, &other) {
            return;
        }
        let own = Rc::make_mut(&mut self.variables);
        for (name, value) in own.iter_mut() {
            if other.get(name) != Some(value) {
                *value = Value::unknown();
            }
        }
        for name in other.keys() {
            if !own.contains_key(name) {
                own.insert(name.clone(), Value::unknown());
            }
        }
    }

    /// Enters a subshell.
    fn enter(&mut self) -> (Rc<Variables>, Option<FxHashMap<String, Range<usize>>>) {
        (Rc::clone(&self.variables), self.inner.replace(FxHashMap::default()))
    }

    /// Leaves a subshell, whose changes of variables are lost.
    fn leave(&mut self, (variables, inner): (Rc<Variables>, Option<FxHashMap<String, Range<usize>>>)) {
        self.variables = variables;
        let lost = std::mem::replace(&mut self.inner, inner).unwrap_or_default();
        // Only a change of a variable that existed before can be missed.
        let lost = lost.into_iter().filter(|(name, _)| self.variables.contains_key(name));
        self.changed.extend(lost);
    }

    /// Joins lost changes after something that may not have run: earlier lost changes remain, unless they were
    /// reported.
    fn changed_as(&mut self, before: FxHashMap<String, Range<usize>>) {
        let reported = |name: &String| self.trace.lost.iter().any(|lost| lost.name == *name);
        let still: Vec<_> = before.into_iter().filter(|(name, _)| !reported(name)).collect();
        self.changed.extend(still);
    }

    /// `: "${NAME:=value}"` sets a variable that is not set or empty.
    fn set_default(&mut self, content: &'s Content, source: &str, start: usize) {
        let inner = source.trim_matches('"').strip_prefix("${").and_then(|inner| inner.strip_suffix('}'));
        let Some((name, default)) = inner.and_then(|inner| inner.split_once('=')) else { return };
        let (name, is_empty_unset) = name.strip_suffix(':').map_or((name, false), |name| (name, true));
        let known = self.variables.get(name).is_some_and(|known| !is_empty_unset || !known.pieces().is_empty());
        if ast::is_name(name) && !known {
            let value = self.value(content, &ast::Word::read(default, start));
            self.set(name, value);
        }
    }

    fn set_at(&mut self, name: &str, value: Value, place: Range<usize>) {
        self.set(name, value);
        if let Some(inner) = &mut self.inner {
            inner.insert(name.to_owned(), place);
        }
    }

    fn set(&mut self, name: &str, value: Value) {
        self.changed.remove(name);
        self.trace.sets.insert(name.to_owned());
        Rc::make_mut(&mut self.variables).insert(name.to_owned(), value);
    }

    fn repeated(
        &mut self,
        content: &'s Content,
        s: &'s Statement,
        repeat: Repeat,
        (condition, body): (&'s [Statement], &'s [Statement]),
        place: Place,
        depth: usize,
    ) {
        let may = Place { maybe: true, ..place };
        self.list(content, condition, Place { lenient: true, ..place }, depth);
        let mut values = None;
        if repeat == Repeat::For {
            let head = self.text(content, s.range.start..body.first().map_or(s.range.end, |first| first.range.start));
            if let Some(clause) = head.strip_prefix("for")
                && !clause.trim_start().starts_with("((")
            {
                let words = ast::split(clause, s.range.start + 3);
                let name = words.first().map(|word| word.source.clone()).unwrap_or_default();
                let listed: Vec<ast::Word> = words
                    .into_iter()
                    .skip(1)
                    .skip_while(|word| word.source == "in")
                    .take_while(|word| word.source != "do")
                    .collect();
                let mut known = Vec::new();
                // A loop that one of its rounds leaves waits for something: its list only counts the rounds.
                let counts = body.iter().any(leaves);
                for word in &listed {
                    match numbers(&word.source).filter(|_| !counts) {
                        Some(numbers) => known.extend(numbers),
                        None => known.extend(self.words(content, word)),
                    }
                }
                let all = !known.is_empty() && known.len() <= ROUNDS && known.iter().all(Value::is_known);
                self.set(&name, Value::unknown());
                values = all.then_some((name, known));
            } else if let Some(name) = head.split(['(', '=', ' ']).find(|word| ast::is_name(word) && *word != "for") {
                self.set(name, Value::unknown());
            }
        }
        match values {
            Some((name, known)) => {
                for value in known {
                    self.set(&name, value);
                    // A loop over a known list runs all its rounds, unless one of them leaves it.
                    let leaves = body.iter().any(|s| leaves_early(s, false));
                    self.list(content, body, if leaves { may } else { place }, depth);
                }
            }
            None => {
                // Variables that a round changes are unknown at the start of every round.
                let (before, steps) = (Rc::clone(&self.variables), self.steps);
                let (runs, unset, lost) = (self.trace.runs.len(), self.trace.unset.len(), self.trace.lost.len());
                let (chains, pipelines, tests) =
                    (self.trace.chains.len(), self.trace.pipelines.len(), self.trace.tests.len());
                let (read, changed) = (self.read.clone(), self.changed.clone());
                self.list(content, body, may, depth + 1);
                self.trace.runs.truncate(runs);
                self.trace.chains.truncate(chains);
                self.trace.pipelines.truncate(pipelines);
                self.trace.tests.truncate(tests);
                self.trace.unset.truncate(unset);
                self.trace.lost.truncate(lost);
                (self.read, self.changed) = (read, changed);
                self.steps = self.steps.min(steps);
                self.join(before);
                self.list(content, body, may, depth);
            }
        }
    }

    fn assignment(&mut self, content: &'s Content, s: &'s Statement) {
        let text = self.text(content, s.range.clone());
        let words = ast::split(text, s.range.start);
        let exports = words.first().is_some_and(|first| match first.source.as_str() {
            "export" => true,
            "declare" | "typeset" | "local" => {
                words.iter().any(|word| word.source.starts_with('-') && word.source.contains('x'))
            }
            _ => false,
        });
        let mut local = false;
        for (nth, word) in words.iter().enumerate() {
            self.bad_expansion(content, &word.source, word.range.start);
            if nth == 0
                && matches!(word.source.as_str(), "export" | "local" | "readonly" | "declare" | "typeset" | "unset")
            {
                local = matches!(word.source.as_str(), "local" | "declare" | "typeset");
                continue;
            }
            let name_end = word.source.find(['=', '+', '[']).unwrap_or(word.source.len());
            let (name, rest) = word.source.split_at(name_end);
            if !ast::is_name(name) {
                continue;
            }
            // After `unset`, no program is meant to read it.
            if exports || words[0].source == "unset" {
                self.exported.insert(name.to_owned());
            }
            if local && rest.starts_with('=') {
                self.hide(name);
            }
            match rest.strip_prefix('=') {
                Some(value) if value.starts_with('(') => self.set(name, Value::unknown()),
                Some(value) => {
                    let value = ast::Word::read(value, word.range.start + name_end + 1);
                    let value = self.value(content, &value);
                    self.set_at(name, value, word.range.clone());
                }
                None if !rest.is_empty() => self.set(name, Value::unknown()),
                None => {
                    let known = self.variables.get(name).cloned().unwrap_or_default();
                    if local {
                        self.hide(name);
                    }
                    self.set(name, known);
                }
            }
        }
    }

    /// Makes a variable local to the current function.
    fn hide(&mut self, name: &str) {
        if self.locals.last().is_some_and(|locals| !locals.contains_key(name)) {
            let inner = self.inner.as_ref().and_then(|inner| inner.get(name).cloned());
            let outside = (self.variables.get(name).cloned(), self.changed.get(name).cloned(), inner);
            if let Some(locals) = self.locals.last_mut() {
                locals.insert(name.to_owned(), outside);
            }
        }
    }

    /// Restores the outer values of local variables after a function.
    fn uncover(&mut self) {
        for (name, (value, changed, inner)) in self.locals.pop().unwrap_or_default() {
            let variables = Rc::make_mut(&mut self.variables);
            match value {
                Some(value) => variables.insert(name.clone(), value),
                None => variables.remove(&name),
            };
            match changed {
                Some(place) => self.changed.insert(name.clone(), place),
                None => self.changed.remove(&name),
            };
            if let Some(set) = &mut self.inner {
                match inner {
                    Some(place) => set.insert(name, place),
                    None => set.remove(&name),
                };
            }
        }
    }

    /// A test reads variables. `(( … ))` may also set them.
    fn test(&mut self, content: &'s Content, s: &'s Statement) {
        let text = self.text(content, s.range.clone());
        if text.starts_with("((") {
            let plain = !text.contains(['`', '"', '[', '{']) && !text.contains("$(");
            for word in text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).filter(|word| ast::is_name(word))
            {
                if let Some(set) = self.changed.remove(word).filter(|_| !is_changed(text, word)) {
                    self.trace.lost.push(Lost { content, name: word.to_owned(), set, read: s.range.clone() });
                }
                if plain && !is_changed(text, word) && !self.variables.contains_key(word) {
                    self.unset(content, word, &s.range, false);
                    continue;
                }
                self.set(word, Value::unknown());
            }
            return;
        }
        let words = ast::split(text, s.range.start);
        let words = words.iter().filter(|word| !matches!(word.source.as_str(), "[" | "[[" | "]" | "]]"));
        let words = words.map(|word| self.value(content, word)).collect();
        self.trace.tests.push(Test { content, statement: s, words });
    }

    fn command(&mut self, content: &'s Content, s: &'s Statement, input: Option<Value>, place: Place, depth: usize) {
        self.nested(content, s, place, depth);
        let Some(first) = s.words().first() else { return };
        // `NAME=value command`: only for this command.
        let own = self.text(content, s.range.start..first.range.start);
        let before = (!own.trim().is_empty()).then(|| Rc::clone(&self.variables));
        let mut given: Vec<String> = Vec::new();
        for word in ast::split(own, s.range.start) {
            if let Some((name, value)) = word.source.split_once('=')
                && ast::is_name(name)
            {
                let value = self.value(content, &ast::Word::read(value, word.range.start + name.len() + 1));
                Rc::make_mut(&mut self.variables).insert(name.to_owned(), value);
                given.push(name.to_owned());
            }
        }
        let mut words: Vec<Value> = Vec::new();
        for word in s.words() {
            let source = self.text(content, word.range.clone());
            if bash::is_safe(source) {
                words.push(Value::text(source));
                continue;
            }
            // The arguments of a function or of the script.
            let is_all = matches!(source, "\"$@\"" | "\"${@}\"" | "$@");
            let count =
                is_all.then(|| self.variables.get("#").and_then(Value::literal)?.parse::<usize>().ok()).flatten();
            if let Some(count) = count.filter(|count| *count < 10) {
                let known = (1..=count).map(|nth| self.variables.get(&nth.to_string()).cloned().unwrap_or_default());
                words.extend(known.collect::<Vec<_>>());
                continue;
            }
            self.bad_expansion(content, source, word.range.start);
            self.set_default(content, source, word.range.start);
            words.extend(self.words(content, &ast::Word::read(source, word.range.start)));
        }
        let last = s.words().last().map_or(s.range.start, |word| word.range.end);
        let behind = self.text(content, last..s.range.end);
        let document = self.document(content, s);
        let input = document.or(input);
        let output = s.written.then(|| self.output(content, behind, last)).flatten();
        let name = words.first().and_then(Value::literal).unwrap_or_default().to_owned();
        if let Some(&(within, body)) = self.functions.get(&name) {
            if depth < DEPTH {
                let outer = Rc::clone(&self.variables);
                for nth in 1..10 {
                    let value = words.get(nth).cloned().unwrap_or_default();
                    Rc::make_mut(&mut self.variables).insert(nth.to_string(), value);
                }
                let count = (words.len() - 1).to_string();
                Rc::make_mut(&mut self.variables).insert("#".to_owned(), Value::text(count));
                self.locals.push(FxHashMap::default());
                self.list(within, body, place, depth + 1);
                self.uncover();
                for nth in (1..10).map(|n| n.to_string()).chain(["#".to_owned()]) {
                    match outer.get(&nth) {
                        Some(value) => Rc::make_mut(&mut self.variables).insert(nth, value.clone()),
                        None => Rc::make_mut(&mut self.variables).remove(&nth),
                    };
                }
            }
        } else {
            self.known(content, s, &name, &words, place, depth);
            if name == "read" {
                self.read_line(&words, input.as_ref());
            }
            self.environment(content, s, &name, &words, input.as_ref(), &given);
            self.trace.runs.push(Run {
                content,
                statement: s,
                words,
                input,
                output,
                maybe: place.maybe,
                lenient: place.lenient,
            });
        }
        if let Some(before) = before {
            self.variables = before;
        }
    }

    /// Handles builtins of the shell.
    fn known(
        &mut self,
        content: &'s Content,
        s: &'s Statement,
        name: &str,
        words: &[Value],
        place: Place,
        depth: usize,
    ) {
        match name {
            "read" | "mapfile" | "readarray" | "getopts" | "let" => {
                let names: Vec<String> = words[1..]
                    .iter()
                    .filter_map(Value::literal)
                    .filter(|w| ast::is_name(w))
                    .map(str::to_owned)
                    .collect();
                names.iter().for_each(|name| self.set(name, Value::unknown()));
                if name == "read" && names.is_empty() {
                    self.set("REPLY", Value::unknown());
                }
            }
            "printf" if words.get(1).and_then(Value::literal) == Some("-v") => {
                if let Some(name) = words.get(2).and_then(Value::literal).map(str::to_owned) {
                    self.set(&name, Value::unknown());
                }
            }
            "set" if words.get(1).and_then(Value::literal) == Some("--") => {
                for nth in 1..10 {
                    let value = words.get(nth + 1).cloned().unwrap_or_default();
                    Rc::make_mut(&mut self.variables).insert(nth.to_string(), value);
                }
            }
            "source" | "." => match self.sourced.get(&(std::ptr::from_ref(content), s.range.start)) {
                Some((_, inner)) if depth < DEPTH => {
                    let inner: &'s Content = inner;
                    self.trace.opaque |= !inner.program.sound;
                    if !self.trace.sources.iter().any(|known| std::ptr::eq(*known, inner)) {
                        self.trace.sources.push(inner);
                    }
                    self.list(inner, &inner.program.body, place, depth + 1);
                }
                _ => self.trace.opaque = true,
            },
            "eval" => self.trace.opaque = true,
            // A program whose name is not known, or one that runs another program.
            "" | "bash" | "sh" | "xargs" | "make" | "python" | "python3" | "node" | "find" | "parallel" => {
                self.trace.opaque = true
            }
            _ if name.contains('/') && !name.starts_with("/usr/") && !name.starts_with("/bin/") => {
                self.trace.opaque = true
            }
            _ => {}
        }
    }

    /// `read -r a b <<< "x y"`: the variables get the words of a known line.
    fn read_line(&mut self, words: &[Value], input: Option<&Value>) {
        let Some(line) = input.and_then(Value::literal).map(|line| line.trim_end_matches('\n').to_owned()) else {
            return;
        };
        let options = words.iter().skip(1).take_while(|word| word.literal().is_some_and(|word| word.starts_with('-')));
        let count = options.clone().count();
        let plain = options.into_iter().all(|word| word.literal() == Some("-r"))
            && !self.variables.contains_key("IFS")
            && !line.contains(['\n', '\\']);
        let names: Option<Vec<&str>> =
            words.iter().skip(1 + count).map(|word| word.literal().filter(|word| ast::is_name(word))).collect();
        let Some(names) = names.filter(|names| plain && !names.is_empty()) else { return };
        let mut rest = line.as_str().trim();
        for (nth, name) in names.iter().enumerate() {
            let (value, behind) = match rest.split_once([' ', '\t']) {
                Some((value, behind)) if nth + 1 < names.len() => (value, behind.trim_start()),
                _ => (rest, ""),
            };
            self.set(name, Value::text(value));
            rest = behind;
        }
    }

    /// Variables that a program reads from its environment, but that the script does not export.
    fn environment(
        &mut self,
        content: &'s Content,
        s: &'s Statement,
        name: &str,
        words: &[Value],
        input: Option<&Value>,
        given: &[String],
    ) {
        if self.exports_all {
            return;
        }
        let names: Vec<String> = match name {
            "bash" | "sh" | "timeout" | "xargs" | "env" => {
                let shells = words.windows(3).find(|three| {
                    let literal = |nth: usize| three[nth].literal().unwrap_or_default();
                    matches!(literal(0), "bash" | "sh") && literal(1).starts_with('-') && literal(1).ends_with('c')
                });
                // Only in single quotes; otherwise the script itself expands it.
                let place = shells.and_then(|three| words.iter().position(|word| std::ptr::eq(word, &three[2])));
                let word = place.and_then(|at| s.words().get(at)).filter(|_| words.len() == s.words().len());
                let source = word.map(|word| self.text(content, word.range.clone())).unwrap_or_default();
                source.strip_prefix('\'').map(programs::read_by_shell).unwrap_or_default()
            }
            "python" | "python3" | "jq" | "yq" | "gojq" | "awk" | "gawk" | "mawk" | "node" | "deno" | "bun"
            | "ruby" | "perl" => {
                let mut text: Vec<String> = words[1..].iter().map(Value::shown).collect();
                text.extend(input.map(Value::shown).filter(|_| !matches!(name, "jq" | "awk" | "gawk" | "mawk")));
                programs::asked(name, &text.join("\n")).into_iter().map(str::to_owned).collect()
            }
            _ => {
                // A command that mentions the variable explicitly does not need the environment.
                let written = |name: &&String| {
                    content.text.contains(&format!("${name}")) || content.text.contains(&format!("${{{name}"))
                };
                let asks = tools::tool(name).into_iter().flat_map(|tool| &tool.env);
                asks.filter(|name| self.trace.sets.contains(*name) && !written(name)).cloned().collect()
            }
        };
        for asked in names {
            let own = self.trace.sets.contains(&asked) && !self.exported.contains(&asked) && !given.contains(&asked);
            // `env A="$A" program`.
            let passed = words.iter().any(|word| word.shown().starts_with(&format!("{asked}=")));
            let known = self.trace.sets.contains(&asked) || given.contains(&asked) || passed;
            if !known && !self.variables.contains_key(&asked) && ast::is_name(&asked) {
                self.trace.asked.push((asked.clone(), content, s.range.clone()));
            }
            if own && !passed && !self.trace.unexported.iter().any(|known| known.name == asked) {
                let end = content.text[s.range.clone()].find('\n').map_or(s.range.end, |at| s.range.start + at);
                let program = if matches!(name, "timeout" | "xargs" | "env") { "bash" } else { name };
                self.trace.unexported.push(Unexported {
                    content,
                    name: asked,
                    program: program.to_owned(),
                    range: s.range.start..end,
                });
            }
        }
    }

    /// Reports expansions in a word that the shell does not support.
    fn bad_expansion(&mut self, content: &'s Content, source: &str, start: usize) {
        // Substitutions are checked separately.
        if !source.contains("${") || source.starts_with('\'') || source.contains("$(") || unescaped(source) {
            return;
        }
        let single = source.match_indices('\'').next().is_some() && !source.starts_with('"');
        if let Some((at, text)) = programs::bad_expansion(source).filter(|_| !single) {
            let range = start + at..start + at + text.len();
            self.bad(content, text, range, false);
        }
    }

    fn bad(&mut self, content: &'s Content, text: &str, range: Range<usize>, in_document: bool) {
        if !self.trace.bad.iter().any(|bad| std::ptr::eq(bad.content, content) && bad.range == range) {
            self.trace.bad.push(Bad { content, text: text.to_owned(), range, in_document });
        }
    }

    /// The texts that a word expands to.
    fn words(&mut self, content: &'s Content, word: &ast::Word) -> Vec<Value> {
        let value = self.value(content, word);
        // A variable without quotes can expand to several words.
        if let [Part::Var { quoted: false, .. }] = word.parts.as_slice()
            && value.literal().is_some_and(|text| text.contains(' '))
        {
            return value.split(' ').into_iter().filter(|part| !part.pieces().is_empty()).collect();
        }
        vec![value]
    }

    /// The text of a word, as far as it is known.
    fn value(&mut self, content: &'s Content, word: &ast::Word) -> Value {
        let mut value = Value::default();
        self.parts(content, &word.parts, &word.range, &mut value);
        self.calculated(content, word);
        value
    }

    /// Arithmetic reads variables as well: `exit $((errors > 0))`.
    fn calculated(&mut self, content: &'s Content, word: &ast::Word) {
        if self.changed.is_empty() {
            return;
        }
        let Some((_, text)) = word.source.split_once("$((") else { return };
        let text = text.split("))").next().unwrap_or_default();
        for name in text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')) {
            if let Some(set) = self.changed.remove(name) {
                self.trace.lost.push(Lost { content, name: name.to_owned(), set, read: word.range.clone() });
            }
        }
    }

    fn parts(&mut self, content: &'s Content, parts: &[Part], range: &Range<usize>, value: &mut Value) {
        for part in parts {
            match part {
                Part::Text { text, .. } => self.filled(text, value),
                Part::Var { name, default, .. } => {
                    if let Some(set) = self.changed.remove(name) {
                        self.trace.lost.push(Lost { content, name: name.clone(), set, read: range.clone() });
                    }
                    let known = self.variables.get(name).cloned();
                    match (known, default) {
                        (Some(known), _) if !known.pieces().is_empty() || default.is_none() => value.append(&known),
                        (_, Some(default)) => {
                            self.unset(content, name, range, true);
                            self.parts(content, default, range, value);
                        }
                        (_, None) => {
                            self.unset(content, name, range, false);
                            value.push(Piece::Name(format!("${name}")));
                        }
                    }
                }
                Part::Command { text, .. } => {
                    let chain = self.substituted(content, text);
                    value.push(chain.map_or(Piece::Unknown, Piece::Printed));
                }
                Part::Other => value.push(Piece::Unknown),
            }
        }
    }

    fn unset(&mut self, content: &'s Content, name: &str, range: &Range<usize>, provided: bool) {
        let is_parameter = matches!(name.as_bytes(), [b'1'..=b'9']);
        if (is_parameter || ast::is_name(name)) && self.read.insert((range.start, name.to_owned())) {
            self.trace.unset.push(Unset { content, name: name.to_owned(), range: range.clone(), provided });
        }
    }

    /// Appends a literal text, with its holes replaced with their values.
    fn filled(&self, text: &str, value: &mut Value) {
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once(BEGIN) {
            value.push(Piece::Text(before.to_owned()));
            let digit = |at: usize| behind.as_bytes().get(at).and_then(|b| DIGITS.iter().position(|d| d == b));
            match digit(0).zip(digit(1)) {
                Some((high, low)) => {
                    match self.holes.get(high * DIGITS.len() + low) {
                        Some(hole) => value.append(hole),
                        None => value.push(Piece::Unknown),
                    }
                    rest = behind[2..].trim_start_matches(FILL);
                }
                None => {
                    value.push(Piece::Unknown);
                    rest = behind;
                }
            }
        }
        value.push(Piece::Text(rest.to_owned()));
    }

    /// The text of a here-document or here-string of a command.
    fn document(&mut self, content: &'s Content, s: &Statement) -> Option<Value> {
        if !s.fed {
            return None;
        }
        let all = self.text(content, s.range.start..content.text.len());
        let at = all.get(..s.range.len() + 1).unwrap_or(all).find("<<")?;
        let behind = &all[at + 2..];
        let place = s.range.start + at..s.range.end;
        let mut value = Value::default();
        if let Some(text) = behind.strip_prefix('<') {
            // After the command, there may be the `)` of `$(jq . <<<"$x")`.
            let text = text.get(..s.range.len().saturating_sub(at + 3)).unwrap_or(text);
            let word = ast::words(text, s.range.start + at + 3).next()?;
            return Some(self.value(content, &word));
        }
        let stripped = behind.strip_prefix('-');
        let word = ast::words(stripped.unwrap_or(behind), 0).next()?;
        let quoted = word.source.contains(['\'', '"', '\\']);
        let end =
            word.source.trim_matches(['\'', '"']).split(['|', '>', '&', ')']).next().unwrap_or_default().to_owned();
        let body = behind.split_once('\n')?.1;
        let mut text = String::new();
        for line in body.split_inclusive('\n') {
            let line = if stripped.is_some() { line.trim_start_matches('\t') } else { line };
            if line.trim_end_matches('\n') == end {
                break;
            }
            text.push_str(line);
        }
        match quoted {
            true => {
                self.literal(content, s, &text);
                self.filled(&text, &mut value);
            }
            false => {
                let bad = programs::bad_expansion(&text).filter(|_| !text.contains("$("));
                if let Some((_, bad)) = bad.or_else(|| programs::dotted_command(&text)) {
                    let at = body.find(bad).map_or(place.start, |at| content.text.len() - body.len() + at);
                    self.bad(content, bad, at..at + bad.len(), true);
                }
                // `$$` is the process id, but also a quote in SQL.
                if let Some(at) = body[..text.len().min(body.len())].find("$$").filter(|_| s.tool() == "psql") {
                    let at = content.text.len() - body.len() + at;
                    self.bad(content, "$$", at..at + 2, true);
                }
                self.parts(content, &ast::quoted(&text, true), &place, &mut value);
            }
        }
        Some(value)
    }

    /// Records variables of the script that appear in a here-document that no shell expands.
    fn literal(&mut self, content: &'s Content, s: &Statement, text: &str) {
        let own = |name: &&String| self.trace.sets.contains(*name) && !self.exported.contains(*name);
        let names = ast::names_in(text);
        let found = names.iter().find(own).cloned();
        if let Some(name) = found {
            let end = content.text[s.range.clone()].find('\n').map_or(s.range.end, |at| s.range.start + at);
            self.trace.literal.push(Bad { content, text: name, range: s.range.start..end, in_document: true });
        }
    }

    /// The file in `> FILE` and `>> FILE`.
    fn output(&mut self, content: &'s Content, behind: &str, start: usize) -> Option<Value> {
        let at = behind.match_indices('>').map(|(at, _)| at).find(|&at| {
            let before = behind[..at].chars().next_back();
            !matches!(before, Some('2' | '&' | '>')) && !behind[at + 1..].starts_with('&')
        })?;
        let rest = behind[at + 1..].trim_start_matches(['>', '|', ' ']);
        let word = ast::words(rest, start + behind.len() - rest.len()).next()?;
        let value = self.value(content, &word);
        (value.literal() != Some("/dev/null")).then_some(value)
    }

    /// The output of a command, if it is written in the script: `echo`, `printf '%s'`, `cat` with a here-document.
    fn printed(&mut self, content: &'s Content, s: &'s Statement, input: Option<&Value>) -> Option<Value> {
        match s.name() {
            "cat" if s.words().len() == 1 => self.document(content, s).or_else(|| input.cloned()),
            "envsubst" => None,
            "kubectl" | "oc" if tools::is_dry(&s.words().iter().map(|word| &word.text).collect::<Vec<_>>()) => {
                self.dry(content, s)
            }
            "echo" | "printf" => {
                let mut text = Value::default();
                for (nth, word) in s.words().iter().enumerate().skip(1) {
                    let source = self.text(content, word.range.clone());
                    if matches!(source, "-n" | "-e" | "-ne" | "'%s'" | "\"%s\"" | "'%s\\n'" | "\"%s\\n\"") {
                        continue;
                    }
                    if nth > 1 && !text.pieces().is_empty() {
                        text.push(Piece::Text(" ".to_owned()));
                    }
                    let value = self.value(content, &ast::Word::read(source, word.range.start));
                    text.append(&value);
                }
                Some(text)
            }
            _ => None,
        }
    }
}

impl<'s: 'h, 'h> Shell<'s, 'h> {
    /// The manifest that `kubectl create KIND NAME --dry-run=client -o yaml` prints, reduced to the fields that identify
    /// the object.
    fn dry(&mut self, content: &'s Content, s: &'s Statement) -> Option<Value> {
        let mut words = Vec::new();
        for word in s.words() {
            let source = self.text(content, word.range.clone());
            words.extend(self.words(content, &ast::Word::read(source, word.range.start)));
        }
        let spelt: Vec<&str> = words.iter().map(|word| word.literal().unwrap_or("?")).collect();
        let space =
            spelt.iter().position(|word| matches!(*word, "-n" | "--namespace")).and_then(|at| words.get(at + 1));
        let operands: Vec<&Value> = tools::operands("kubectl", &spelt)
            .filter_map(|word| words.get(spelt.iter().position(|known| std::ptr::eq(known, word))?))
            .collect();
        let (kind, name) = match operands.get(1..)? {
            [_, kind, _, name, ..] if matches!(kind.literal(), Some("secret" | "service")) => (*kind, *name),
            [_, kind, name, ..] => (*kind, *name),
            _ => return None,
        };
        let mut text = Value::text(format!("kind: {}\nmetadata:\n  name: ", kind.literal()?));
        text.append(name);
        if let Some(space) = space {
            text.push(Piece::Text("\n  namespace: ".to_owned()));
            text.append(space);
        }
        Some(text)
    }
}

/// Whether a statement may leave the list or the loop that contains it.
fn leaves(statement: &Statement) -> bool {
    let mut found = false;
    statement.walk(&mut |s| found |= matches!(s.name(), "exit" | "return" | "break" | "continue"));
    found
}

/// Whether a script that succeeds may leave the list that contains a statement early: in it, or, if the list is the body of
/// a loop, with `break`. `inner`: whether the statement is in another loop, to which `break` then belongs.
fn leaves_early(statement: &Statement, inner: bool) -> bool {
    let first = statement.words().get(1);
    match statement.name() {
        "exit" => return !gives_up(statement),
        "return" => return true,
        "break" | "continue" => return !inner || first.is_some(),
        _ => {}
    }
    let inner = inner || matches!(statement.kind, Kind::Loop { .. });
    let mut found = false;
    statement.lists(&mut |list| found |= list.iter().any(|s| leaves_early(s, inner)));
    found
}

/// Whether a statement ends the script with a failure: `exit 1`, `{ echo …; exit 1; }`.
fn gives_up(statement: &Statement) -> bool {
    match &statement.kind {
        Kind::Group(list) => list.last().is_some_and(gives_up),
        _ => {
            let status = statement.words().get(1).and_then(|word| word.text.parse::<u8>().ok());
            statement.name() == "exit" && status.is_some_and(|status| status > 0)
        }
    }
}

/// The values of `{1..3}`, `$(seq 3)` and `$(seq 1 3)`, if they are at most as many as a loop may have rounds.
fn numbers(source: &str) -> Option<Vec<Value>> {
    let parts: Vec<&str> = match source.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
        Some(range) => range.split("..").collect(),
        None => source.strip_prefix("$(seq ")?.strip_suffix(')')?.split_whitespace().collect(),
    };
    let given: Option<Vec<usize>> =
        parts.iter().map(|part| part.parse().ok().filter(|_| !part.starts_with('0'))).collect();
    let (first, last) = match (given?.as_slice(), source.starts_with('{')) {
        ([last], false) => (1, *last),
        ([first, last], _) => (*first, *last),
        _ => return None,
    };
    (first <= last && last - first < ROUNDS).then(|| (first..=last).map(|n| Value::text(n.to_string())).collect())
}

/// Whether a text contains a command in backticks.
fn unescaped(text: &str) -> bool {
    text.match_indices('`').any(|(at, _)| !text[..at].ends_with('\\'))
}

/// Whether an arithmetic expression may change a variable: `n++`, `--n`, `n = 1`, `n += 2`.
fn is_changed(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(at, _)| {
        let (before, behind) = (text[..at].trim_end(), text[at + name.len()..].trim_start());
        let sets = behind.strip_prefix(['+', '-', '*', '/', '%', '&', '|', '^']).unwrap_or(behind);
        let assigns = sets.starts_with('=') && !behind.starts_with("==");
        let counts = |text: &str| {
            text.starts_with("++") || text.starts_with("--") || text.starts_with("<<=") || text.starts_with(">>=")
        };
        assigns || counts(behind) || before.ends_with("++") || before.ends_with("--")
    })
}
