//! What a script runs: an abstract interpreter of shell. It follows assignments, functions, substitutions of literal texts and loops over
//! known lists, and knows of each command the words as far as they can be told. What it does not know is [`Value::unknown`].

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

/// Variables and what they hold.
pub type Variables = FxHashMap<String, Value>;

/// One run of a simple command.
#[derive(Clone, Debug)]
pub struct Run<'s> {
    /// The text that it stands in.
    pub content: &'s Content,
    pub statement: &'s Statement,
    /// Its words, the name first.
    pub words: Vec<Value>,
    /// What it reads from its standard input, where that is written out.
    pub input: Option<Value>,
    /// The file that its standard output goes to.
    pub output: Option<Value>,
    /// It may not run at all: it stands in a branch, or in a loop.
    pub maybe: bool,
    /// Its failure is passed over where it stands: before `||`, in a condition.
    pub lenient: bool,
}

/// A test, with the words between its brackets as far as they are known.
#[derive(Clone, Debug)]
pub struct Test<'s> {
    pub content: &'s Content,
    pub statement: &'s Statement,
    pub words: Vec<Value>,
}

/// A variable that is read, and nothing in the script or its task sets it.
#[derive(Clone, Debug)]
pub struct Unset<'s> {
    pub content: &'s Content,
    pub name: String,
    pub range: Range<usize>,
    /// It has a default.
    pub provided: bool,
}

/// A variable of the script that a program looks for in its environment, where it is not.
#[derive(Clone, Debug)]
pub struct Unexported<'s> {
    pub content: &'s Content,
    pub name: String,
    /// The program that looks.
    pub program: String,
    pub range: Range<usize>,
}

/// `${count.index}`: an expansion that the shell cannot do.
#[derive(Clone, Debug)]
pub struct Bad<'s> {
    pub content: &'s Content,
    pub text: String,
    pub range: Range<usize>,
    /// It stands in a here-document.
    pub in_document: bool,
}

/// A variable that a part of a pipeline, or a subshell, changes, and that is read behind it.
#[derive(Clone, Debug)]
pub struct Lost<'s> {
    pub content: &'s Content,
    pub name: String,
    pub set: Range<usize>,
    pub read: Range<usize>,
}

/// What was seen in one script.
#[derive(Clone, Debug, Default)]
pub struct Trace<'s> {
    pub runs: Vec<Run<'s>>,
    /// Commands that hand on what they print, each the runs of its parts by their place in `runs`: those in `$(…)`, and pipelines.
    pub chains: Vec<Vec<usize>>,
    /// The pipelines among them.
    pub pipelines: Vec<(&'s Content, &'s Statement, usize)>,
    /// `[ … ]` and `[[ … ]]`; `test …` is a run.
    pub tests: Vec<Test<'s>>,
    pub unset: Vec<Unset<'s>>,
    /// Variables that the script sets.
    pub sets: BTreeSet<String>,
    /// Variables that are read after a shell of its own has changed them in vain.
    pub lost: Vec<Lost<'s>>,
    pub unexported: Vec<Unexported<'s>>,
    /// Variables that programs in it look for in their environment, and that neither it nor its task sets.
    pub asked: Vec<(String, &'s Content, Range<usize>)>,
    pub bad: Vec<Bad<'s>>,
    /// `$NAME` of a variable of the script, in a here-document in which nothing is filled in.
    pub literal: Vec<Bad<'s>>,
    /// It may run what cannot be seen: `eval`, a file that is not there.
    pub opaque: bool,
    /// The scripts that it reads.
    pub sources: Vec<&'s Content>,
}

/// Scripts that others read, by the place of the command that reads them.
pub type Sourced<'s> = FxHashMap<(*const Content, usize), (PathBuf, &'s Arc<Content>)>;

/// How much is followed: statements, and calls of functions inside each other.
const STEPS: usize = 20_000;
const DEPTH: usize = 12;
/// Rounds of a loop over a known list.
const ROUNDS: usize = 32;

/// Follows a script. `holes` are what stands in the place of its holes, in order.
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

/// Marks the beginning of a hole, behind which its number stands, and what fills it up.
const BEGIN: char = super::script::HOLE;
const FILL: char = '\u{19}';
const DIGITS: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyz";

/// The text of a script in which each hole says its number.
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

/// Where a statement stands.
#[derive(Clone, Copy, Default)]
struct Place {
    maybe: bool,
    lenient: bool,
}

struct Shell<'s, 'h> {
    /// The script, and its text in which each hole says its number.
    marked: (&'s Content, &'h str),
    holes: &'h [Value],
    sourced: &'h Sourced<'s>,
    functions: FxHashMap<String, (&'s Content, &'s [Statement])>,
    variables: Rc<Variables>,
    trace: Trace<'s>,
    steps: usize,
    /// Variables with another value in a shell that has ended, and where they got it.
    changed: FxHashMap<String, Range<usize>>,
    /// Where variables are set in the part of a pipeline, or the subshell, that is being followed.
    inner: Option<FxHashMap<String, Range<usize>>>,
    /// What the variables that are local to each function that is being followed were outside of it.
    locals: Vec<FxHashMap<String, Outside>>,
    /// What stands in the substitutions of the statement that is being followed.
    inside: &'s [Statement],
    /// Whether a pipeline fails where any part does.
    pipefail: bool,
    /// Variables that programs see.
    exported: BTreeSet<String>,
    exports_all: bool,
    /// Places at which an unset variable was reported.
    read: BTreeSet<(usize, String)>,
}

/// A variable that a function hides: its value, and where a shell of its own has changed it, or is changing it.
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
            // Nobody asks how the list of a loop has ended.
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
                // Each part runs in a shell of its own.
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
                self.statement(content, &pair[0], None, Place { lenient: true, ..place }, depth);
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

    /// What stands in substitutions.
    fn nested(&mut self, content: &'s Content, s: &'s Statement, place: Place, depth: usize) {
        if !s.nested.is_empty() {
            let before = Rc::clone(&self.variables);
            self.list(content, &s.nested, place, depth);
            self.variables = before;
        }
        self.inside = &s.nested;
    }

    /// A command or a pipeline that has been followed as one that hands on what it prints. `None`: it is made of other statements.
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

    /// What a `$(…)` of the statement that is being followed prints.
    fn substituted(&mut self, content: &'s Content, text: &str) -> Option<usize> {
        let inside = self.inside;
        let inner = inside.iter().find(|inner| self.text(content, inner.range.clone()) == text.trim())?;
        self.chain(inner)
    }

    /// What two ways left of a variable, where they differ, is not known.
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

    /// Begins a shell of its own.
    fn enter(&mut self) -> (Rc<Variables>, Option<FxHashMap<String, Range<usize>>>) {
        (Rc::clone(&self.variables), self.inner.replace(FxHashMap::default()))
    }

    /// Ends it: what it set is lost.
    fn leave(&mut self, (variables, inner): (Rc<Variables>, Option<FxHashMap<String, Range<usize>>>)) {
        self.variables = variables;
        let lost = std::mem::replace(&mut self.inner, inner).unwrap_or_default();
        // Only of what was there before somebody may expect that it has changed.
        let lost = lost.into_iter().filter(|(name, _)| self.variables.contains_key(name));
        self.changed.extend(lost);
    }

    /// Behind what may not have run: what was lost before it still is, unless it was reported.
    fn changed_as(&mut self, before: FxHashMap<String, Range<usize>>) {
        let reported = |name: &String| self.trace.lost.iter().any(|lost| lost.name == *name);
        let still: Vec<_> = before.into_iter().filter(|(name, _)| !reported(name)).collect();
        self.changed.extend(still);
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
                for word in &listed {
                    known.extend(self.words(content, word));
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
                    // A known list is gone through to its end, unless a round leaves.
                    let leaves = body.iter().any(leaves);
                    self.list(content, body, if leaves { may } else { place }, depth);
                }
            }
            None => {
                // What a round changes is not known at the beginning of any.
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
            if exports {
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

    /// A variable becomes local to the function that is being followed.
    fn hide(&mut self, name: &str) {
        if self.locals.last().is_some_and(|locals| !locals.contains_key(name)) {
            let inner = self.inner.as_ref().and_then(|inner| inner.get(name).cloned());
            let outside = (self.variables.get(name).cloned(), self.changed.get(name).cloned(), inner);
            if let Some(locals) = self.locals.last_mut() {
                locals.insert(name.to_owned(), outside);
            }
        }
    }

    /// Behind a function its local variables are what they were before.
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

    /// A test reads variables; `(( … ))` may set some.
    fn test(&mut self, content: &'s Content, s: &'s Statement) {
        let text = self.text(content, s.range.clone());
        if text.starts_with("((") {
            let plain = !text.contains(['`', '"', '[', '{']) && !text.contains("$(");
            for word in text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).filter(|word| ast::is_name(word))
            {
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
        // `NAME=value command`: of the command alone.
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
            // The arguments of a function, or of the script.
            let is_all = matches!(source, "\"$@\"" | "\"${@}\"" | "$@");
            let count =
                is_all.then(|| self.variables.get("#").and_then(Value::literal)?.parse::<usize>().ok()).flatten();
            if let Some(count) = count.filter(|count| *count < 10) {
                let known = (1..=count).map(|nth| self.variables.get(&nth.to_string()).cloned().unwrap_or_default());
                words.extend(known.collect::<Vec<_>>());
                continue;
            }
            self.bad_expansion(content, source, word.range.start);
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

    /// What the shell itself does.
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
            // A program that cannot be told, or one that runs another.
            "" | "bash" | "sh" | "xargs" | "make" | "python" | "python3" | "node" | "find" | "parallel" => {
                self.trace.opaque = true
            }
            _ if name.contains('/') && !name.starts_with("/usr/") && !name.starts_with("/bin/") => {
                self.trace.opaque = true
            }
            _ => {}
        }
    }

    /// Variables that a program looks for in its environment, and that the script has only for itself.
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
                // In single quotes; else the script itself fills it in.
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
                // A command that has it written out needs no environment.
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

    /// Reports what the shell cannot expand in a word.
    fn bad_expansion(&mut self, content: &'s Content, source: &str, start: usize) {
        // What stands in a substitution is looked at by itself.
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

    /// The texts that a word becomes.
    fn words(&mut self, content: &'s Content, word: &ast::Word) -> Vec<Value> {
        let value = self.value(content, word);
        // A variable without quotes becomes several words, as does a brace expansion.
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
        value
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
        if ast::is_name(name) && self.read.insert((range.start, name.to_owned())) {
            self.trace.unset.push(Unset { content, name: name.to_owned(), range: range.clone(), provided });
        }
    }

    /// A literal text, in which holes are what stands in their place.
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

    /// What a here-document or a here-string gives to a command.
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
            // Behind the command may stand the `)` of `$(jq . <<<"$x")`.
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
                // `$$` is the number of the process, and quotes in SQL.
                if let Some(at) = body[..text.len().min(body.len())].find("$$").filter(|_| s.tool() == "psql") {
                    let at = content.text.len() - body.len() + at;
                    self.bad(content, "$$", at..at + 2, true);
                }
                self.parts(content, &ast::quoted(&text, true), &place, &mut value);
            }
        }
        Some(value)
    }

    /// Notes variables of the script that a here-document has in its text, and that no shell fills in there.
    fn literal(&mut self, content: &'s Content, s: &Statement, text: &str) {
        let own = |name: &&String| self.trace.sets.contains(*name) && !self.exported.contains(*name);
        let names = ast::names_in(text);
        let found = names.iter().find(own).cloned();
        if let Some(name) = found {
            let end = content.text[s.range.clone()].find('\n').map_or(s.range.end, |at| s.range.start + at);
            self.trace.literal.push(Bad { content, text: name, range: s.range.start..end, in_document: true });
        }
    }

    /// The file of `> FILE` and `>> FILE`.
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

    /// What a command prints, where that is written out: `echo`, `printf '%s'`, `cat` of a here-document.
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
    /// The manifest that `kubectl create KIND NAME --dry-run=client -o yaml` prints, as far as it says which object it is.
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

/// Whether a statement may leave the list or the loop that it stands in.
fn leaves(statement: &Statement) -> bool {
    let mut found = false;
    statement.walk(&mut |s| found |= matches!(s.name(), "exit" | "return" | "break" | "continue"));
    found
}

/// Whether a text has a command in backticks.
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
