//! A rehearsal without an agent: runs setup in a simulated world in memory, and then each check of verify. Behavior of programs
//! that is not known here ends the rehearsal or gives an unknown result, from which nothing is concluded.

mod cluster;
mod containers;
mod database;
mod disk;
mod filters;
mod git;
mod json;
mod steps;

use std::path::Path;

use rustc_hash::FxHashMap;

use self::{
    cluster::Cluster,
    containers::Containers,
    database::Databases,
    disk::{Disk, Node, absolute},
    git::Repos,
};
use super::{
    script::{Content, HOLE, Reader},
    value::{Piece, Value},
};
use crate::{
    bash::{
        ast::{self, Part},
        program::{Kind, Repeat, Statement},
        tools::Tools,
    },
    source::Files,
};

pub use steps::passes_at_once;

/// A text, or `None` if it is not completely known.
pub type Text = Option<String>;

/// The value of `{random.id}`. Resources with it in their name are new in each run.
const RANDOM: &str = "q7x2m9ka";

/// The maximum length of a text in bytes. Longer texts are not followed.
const MOST: usize = 1 << 18;

/// Marks a text that may contain more than is known.
const OPEN: char = '\u{2}';

/// The status of a command, and its output.
pub struct Done {
    pub status: Option<bool>,
    pub out: Text,
}

impl Done {
    fn unknown() -> Self {
        Self { status: None, out: None }
    }

    fn prints(text: &str) -> Option<Self> {
        Some(Self { status: Some(true), out: Some(text.to_owned()) })
    }

    fn is(status: bool) -> Self {
        Self { status: Some(status), out: Some(String::new()) }
    }
}

/// The reason for leaving a list of statements.
enum Stop {
    Exit(Option<bool>),
    Return(Option<bool>),
    Break,
    Continue,
    /// The rest is not known.
    Lost,
}

type Flow = Result<Option<bool>, Stop>;

/// The simulated world of a rehearsal.
struct World<'a> {
    disk: Disk<'a>,
    cluster: Cluster<'a>,
    databases: Databases,
    repos: Repos,
    containers: Containers,
    tools: &'a Tools,
}

impl<'a> World<'a> {
    fn new(tools: &'a Tools, files: &'a dyn Files, home: &'a Path) -> Self {
        Self {
            disk: Disk::new(files, home),
            cluster: Cluster::new(tools),
            databases: Databases::default(),
            repos: Repos::default(),
            containers: Containers::default(),
            tools,
        }
    }
}

/// The text of a value, if it is completely known.
fn text_of(value: &Value) -> Text {
    let piece = |piece: &Piece| match piece {
        Piece::Text(text) => Some(text.clone()),
        Piece::Name(name) if name == "{random.id}" => Some(RANDOM.to_owned()),
        _ => None,
    };
    value.pieces().iter().map(piece).collect()
}

/// Limits on the number of statements and on the depth of function calls.
const STEPS: usize = 4000;
const DEPTH: usize = 8;
/// The maximum number of substitutions that are searched in a statement.
const SUBSTITUTIONS: usize = 50;
const ROUNDS: usize = 32;

struct Shell<'s, 'w, 'a> {
    world: &'w mut World<'a>,
    content: &'s Content,
    /// The values of the script's holes, in order.
    holes: Vec<Text>,
    variables: FxHashMap<String, Text>,
    functions: FxHashMap<&'s str, &'s [Statement]>,
    /// The current directory.
    folder: Text,
    /// The output so far.
    out: Text,
    last: Option<bool>,
    errexit: bool,
    pipefail: bool,
    /// Whether an unknown status counts as success. True in setup, because without setup there is no run.
    hopes: bool,
    steps: usize,
    depth: usize,
}

impl<'s, 'w, 'a> Shell<'s, 'w, 'a> {
    /// Runs a script to its end.
    fn script(&mut self) -> Flow {
        if !self.content.program.sound {
            return Err(Stop::Lost);
        }
        let content = self.content;
        match self.list(&content.program.body, false) {
            Ok(status) | Err(Stop::Exit(status)) => Ok(status),
            Err(stop) => Err(stop),
        }
    }

    fn list(&mut self, list: &'s [Statement], lenient: bool) -> Flow {
        let mut status = Some(true);
        for statement in list {
            status = self.statement(statement, None, lenient)?;
            self.last = status;
        }
        Ok(status)
    }

    /// The effect of a status that is not part of a condition.
    fn settle(&self, status: Option<bool>, lenient: bool) -> Flow {
        match status {
            _ if lenient => Ok(status),
            Some(false) if self.errexit => Err(Stop::Exit(status)),
            None if self.hopes => Ok(Some(true)),
            None if self.errexit => Err(Stop::Lost),
            _ => Ok(status),
        }
    }

    fn statement(&mut self, s: &'s Statement, input: Option<Text>, lenient: bool) -> Flow {
        self.steps = self.steps.checked_sub(1).ok_or(Stop::Lost)?;
        if s.background {
            self.perhaps(std::slice::from_ref(s))?;
            return Ok(Some(true));
        }
        match &s.kind {
            Kind::Command(_) => {
                let status = self.command(s, input, lenient)?;
                self.settle(status, lenient)
            }
            Kind::Assignment => {
                let status = self.assignment(s)?;
                self.settle(status, lenient)
            }
            Kind::Declaration => {
                self.assignment(s)?;
                Ok(Some(true))
            }
            Kind::Test => {
                let status = self.test(s)?;
                self.settle(status, lenient)
            }
            Kind::Pipeline(parts) => {
                if s.written || s.fed {
                    return Err(Stop::Lost);
                }
                let (variables, folder) = (self.variables.clone(), self.folder.clone());
                let mut input = input;
                let mut all = Some(true);
                let mut status = Some(true);
                for (nth, part) in parts.iter().enumerate() {
                    if nth + 1 < parts.len() {
                        let (ended, text) = self.captured(|shell| shell.statement(part, input.take(), true))?;
                        (status, input) = (ended, Some(text));
                    } else {
                        status = self.inner(|shell| shell.statement(part, input.take(), true))?;
                    }
                    all = match (all, status) {
                        (Some(false), _) | (_, Some(false)) => Some(false),
                        (Some(true), Some(true)) => Some(true),
                        _ => None,
                    };
                }
                (self.variables, self.folder) = (variables, folder);
                let status = if self.pipefail { all } else { status };
                self.settle(status, lenient)
            }
            Kind::And(pair) => match self.statement(&pair[0], None, true)? {
                Some(true) => self.statement(&pair[1], None, lenient),
                Some(false) => Ok(Some(false)),
                None => {
                    self.perhaps(std::slice::from_ref(&pair[1]))?;
                    Ok(None)
                }
            },
            Kind::Or(pair) => match self.statement(&pair[0], None, true)? {
                Some(true) => Ok(Some(true)),
                Some(false) => self.statement(&pair[1], None, lenient),
                None => {
                    let passed_over = matches!(pair[1].name(), "true" | ":" | "echo" | "printf");
                    self.perhaps(std::slice::from_ref(&pair[1]))?;
                    if passed_over {
                        self.out = None;
                    }
                    Ok(if passed_over || self.hopes { Some(true) } else { None })
                }
            },
            Kind::Not(inner) => Ok(self.statement(inner, None, true)?.map(|status| !status)),
            Kind::If { branches, otherwise } => {
                if s.written || s.fed {
                    return Err(Stop::Lost);
                }
                for (nth, branch) in branches.iter().enumerate() {
                    match self.list(&branch.condition, true)? {
                        Some(true) => return self.list(&branch.body, lenient),
                        Some(false) => {}
                        None => {
                            branches[nth..].iter().try_for_each(|branch| self.perhaps(&branch.body))?;
                            self.perhaps(otherwise.as_deref().unwrap_or_default())?;
                            return Ok(if self.hopes { Some(true) } else { None });
                        }
                    }
                }
                match otherwise {
                    Some(body) => self.list(body, lenient),
                    None => Ok(Some(true)),
                }
            }
            Kind::Loop { repeat, condition, body } => self.repeated(s, *repeat, condition, body, lenient),
            Kind::Group(body) if !s.written && !s.fed => self.list(body, lenient),
            Kind::Subshell(body) if !s.written && !s.fed => {
                let (variables, folder) = (self.variables.clone(), self.folder.clone());
                let status = self.inner(|shell| shell.list(body, lenient))?;
                (self.variables, self.folder) = (variables, folder);
                self.settle(status, lenient)
            }
            Kind::Function { name, body } => {
                self.functions.insert(name, body);
                Ok(Some(true))
            }
            Kind::Case(arms) if self.hopes => {
                arms.iter().try_for_each(|arm| self.perhaps(arm))?;
                Ok(Some(true))
            }
            _ => Err(Stop::Lost),
        }
    }

    /// Runs something in a subshell, where an exit is a normal end.
    fn inner(&mut self, run: impl FnOnce(&mut Self) -> Flow) -> Flow {
        match run(self) {
            Err(Stop::Exit(status)) => Ok(status),
            other => other,
        }
    }

    /// Like [`Self::inner`], and returns the output.
    fn captured(&mut self, run: impl FnOnce(&mut Self) -> Flow) -> Result<(Option<bool>, Text), Stop> {
        let before = self.out.replace(String::new());
        let status = self.inner(run);
        let text = std::mem::replace(&mut self.out, before);
        Ok((status?, text))
    }

    /// Accounts for statements that may or may not have run.
    fn perhaps(&mut self, list: &'s [Statement]) -> Result<(), Stop> {
        for statement in list {
            let mut lost = false;
            let mut names: Vec<String> = Vec::new();
            let mut commands: Vec<&'s Statement> = Vec::new();
            statement.walk(&mut |s| match &s.kind {
                Kind::Assignment | Kind::Declaration => {
                    let text = &self.content.text[s.range.clone()];
                    names.extend(text.split_whitespace().filter_map(|w| Some(w.split_once('=')?.0.to_owned())));
                }
                Kind::Unknown | Kind::Function { .. } => lost = true,
                Kind::Command(_) => commands.push(s),
                _ => {}
            });
            for name in names {
                self.variables.insert(name, None);
            }
            if lost || commands.into_iter().any(|command| !self.passes_over(command)) {
                return Err(Stop::Lost);
            }
        }
        Ok(())
    }

    /// Accounts for a command that may have run. Returns `false` if its effects are not known.
    fn passes_over(&mut self, s: &'s Statement) -> bool {
        const IDLE: [&str; 22] = [
            "echo", "printf", "true", ":", "sleep", "date", "cat", "grep", "jq", "test", "false", "head", "tail",
            "curl", "set", "wc", "seq", "command", "tr", "sort", "awk", "cut",
        ];
        let words: Vec<&str> = s.words().iter().map(|word| word.text.as_str()).collect();
        let name = s.name();
        if let Some(&body) = self.functions.get(name) {
            self.depth += 1;
            let known = self.depth < DEPTH && self.perhaps(body).is_ok();
            self.depth -= 1;
            return known;
        }
        if s.written && !self.writes_nothing(s) {
            return false;
        }
        match name {
            _ if IDLE.contains(&name) => true,
            // A failure in setup ends the run.
            "exit" | "return" => self.hopes && words.get(1).is_some_and(|code| *code != "0"),
            "kubectl" | "oc" => {
                match Cluster::changes(&words[1..]) {
                    true if words.contains(&"config") => self.world.cluster.forget(),
                    true => self.world.cluster.doubt(),
                    false => {}
                }
                true
            }
            "helm" if self.hopes => {
                self.world.cluster.forget();
                true
            }
            "docker" | "podman" => {
                if Containers::changes(&words[1..]) {
                    self.world.containers.forget();
                }
                true
            }
            "sqlite3" | "psql" | "mysql" | "createdb" | "dropdb" => {
                self.world.databases.forget_all();
                true
            }
            _ => false,
        }
    }

    fn repeated(
        &mut self,
        s: &'s Statement,
        repeat: Repeat,
        condition: &'s [Statement],
        body: &'s [Statement],
        lenient: bool,
    ) -> Flow {
        if s.written || s.fed {
            return Err(Stop::Lost);
        }
        if repeat != Repeat::For {
            for _ in 0..ROUNDS {
                match self.list(condition, true)? {
                    Some(going) if going != (repeat == Repeat::While) => return Ok(Some(true)),
                    Some(_) => match self.list(body, lenient) {
                        Ok(_) | Err(Stop::Continue) => {}
                        Err(Stop::Break) => return Ok(Some(true)),
                        Err(stop) => return Err(stop),
                    },
                    None if self.hopes => {
                        self.perhaps(body)?;
                        return Ok(Some(true));
                    }
                    None => return Err(Stop::Lost),
                }
            }
            return Err(Stop::Lost);
        }
        let until = body.first().map_or(s.range.end, |first| first.range.start);
        let head = self.content.text.get(s.range.start..until).unwrap_or_default();
        let clause = head.strip_prefix("for").ok_or(Stop::Lost)?;
        let mut values: Vec<Text> = Vec::new();
        let mut name = String::new();
        if clause.trim_start().starts_with("((") {
            // All rounds are alike, so one is enough.
            values.push(None);
        } else {
            let words = ast::split(clause, s.range.start + 3);
            name = words.first().map(|word| word.source.clone()).unwrap_or_default();
            for word in
                words.iter().skip(1).skip_while(|word| word.source == "in").take_while(|word| word.source != "do")
            {
                match self.words(word, &s.nested)? {
                    words if words.iter().all(Option::is_some) => values.extend(words),
                    _ => {
                        let range = word.source.starts_with('{') && word.source.contains("..");
                        range.then_some(()).ok_or(Stop::Lost)?;
                        values.push(None);
                    }
                }
            }
        }
        let mut status = Some(true);
        // Waiting in verify is pointless, because the simulated world does not change.
        let waits = !self.hopes && body.iter().any(|s| s.name() == "sleep");
        for value in values.into_iter().take(if waits { 1 } else { ROUNDS }) {
            self.variables.insert(name.clone(), value);
            match self.list(body, lenient) {
                Ok(ended) => status = ended,
                Err(Stop::Continue) => {}
                Err(Stop::Break) => return Ok(Some(true)),
                Err(stop) => return Err(stop),
            }
        }
        Ok(status)
    }

    /// A part of the script with its holes filled in. Returns `None` if a value is not known.
    fn source(&self, range: std::ops::Range<usize>) -> Text {
        let text = self.content.text.get(range.clone())?;
        if !text.contains(HOLE) {
            return Some(text.to_owned());
        }
        let mut out = String::new();
        let mut at = range.start;
        for (hole, value) in self.content.holes.iter().zip(&self.holes) {
            if hole.start < range.start || hole.end > range.end {
                continue;
            }
            out.push_str(self.content.text.get(at..hole.start)?);
            let value = value.as_ref()?;
            // The shell would interpret the value.
            if value.contains(['$', '`', '"', '\'', '\\', '\n']) {
                return None;
            }
            out.push_str(value);
            at = hole.end;
        }
        out.push_str(self.content.text.get(at..range.end)?);
        (!out.contains(HOLE)).then_some(out)
    }

    fn assignment(&mut self, s: &'s Statement) -> Flow {
        let Some(text) = self.source(s.range.clone()) else { return Err(Stop::Lost) };
        let mut status = Some(true);
        for (nth, word) in ast::split(&text, s.range.start).iter().enumerate() {
            if nth == 0
                && matches!(word.source.as_str(), "export" | "local" | "readonly" | "declare" | "typeset" | "unset")
            {
                continue;
            }
            let end = word.source.find(['=', '+', '[']).unwrap_or(word.source.len());
            let (name, rest) = word.source.split_at(end);
            if !ast::is_name(name) {
                continue;
            }
            let value = match rest.strip_prefix('=') {
                Some(value) if !value.starts_with('(') => {
                    let word = ast::Word::read(value, 0);
                    let (value, ended) = self.value(&word.parts, &s.nested)?;
                    status = ended;
                    value
                }
                None if rest.is_empty() && text.starts_with("unset") => None,
                None if rest.is_empty() => continue,
                _ => None,
            };
            self.variables.insert(name.to_owned(), value);
        }
        Ok(status)
    }

    /// The texts that a word expands to.
    fn words(&mut self, word: &ast::Word, nested: &'s [Statement]) -> Result<Vec<Text>, Stop> {
        let bare = |part: &Part| matches!(part, Part::Var { quoted: false, .. } | Part::Command { quoted: false, .. });
        let (value, _) = self.value(&word.parts, nested)?;
        Ok(match value {
            Some(text) if word.parts.iter().any(bare) => {
                if let [_] = word.parts.as_slice() {
                    text.split_whitespace().map(|part| Some(part.to_owned())).collect()
                } else {
                    vec![Some(text).filter(|text| !text.contains([' ', '\n', '\t']))]
                }
            }
            value => vec![value],
        })
    }

    /// The text that the parts of a word expand to, and the status of the last command in it.
    fn value(&mut self, parts: &[Part], nested: &'s [Statement]) -> Result<(Text, Option<bool>), Stop> {
        let mut out = Some(String::new());
        let mut status = Some(true);
        for part in parts {
            let text = match part {
                Part::Text { text, .. } => Some(text.clone()),
                Part::Var { name, default, .. } => match (self.variables.get(name), default) {
                    (Some(Some(text)), Some(default)) if text.is_empty() => self.value(default, nested)?.0,
                    (Some(text), _) => text.clone(),
                    (None, Some(default)) => self.value(default, nested)?.0,
                    (None, None) => None,
                },
                Part::Command { text, .. } => {
                    let inner = nested
                        .iter()
                        .take(SUBSTITUTIONS)
                        .find(|inner| self.source(inner.range.clone()).is_some_and(|source| source == text.trim()));
                    match inner {
                        Some(inner) => {
                            let (variables, folder) = (self.variables.clone(), self.folder.clone());
                            let errexit = std::mem::take(&mut self.errexit);
                            let done = self.captured(|shell| shell.statement(inner, None, true));
                            self.errexit = errexit;
                            (self.variables, self.folder) = (variables, folder);
                            let (ended, text) = done?;
                            status = ended;
                            text.map(|text| text.trim_end_matches('\n').to_owned())
                        }
                        None => {
                            status = None;
                            None
                        }
                    }
                }
                Part::Other => None,
            };
            out = out.zip(text).map(|(out, text)| out + &text).filter(|out| out.len() < MOST);
        }
        Ok((out, status))
    }

    fn print(&mut self, text: Text) {
        self.out = self.out.take().zip(text).map(|(out, text)| out + &text).filter(|out| out.len() < MOST);
    }
}

/// The redirections of a command.
#[derive(Default)]
struct Redirects {
    input: Option<Text>,
    /// The file, and whether the output is appended.
    output: Option<(Text, bool)>,
    discards: bool,
}

impl<'s> Shell<'s, '_, '_> {
    fn command(&mut self, s: &'s Statement, input: Option<Text>, lenient: bool) -> Flow {
        let (Some(first), Some(last)) = (s.words().first(), s.words().last()) else { return Err(Stop::Lost) };
        for pair in s.words().windows(2) {
            let between = self.content.text.get(pair[0].range.end..pair[1].range.start).unwrap_or_default();
            if between.contains(['<', '>']) {
                return Err(Stop::Lost);
            }
        }
        let own = self.source(s.range.start..first.range.start).ok_or(Stop::Lost)?;
        let before = if own.trim().is_empty() { None } else { Some(self.variables.clone()) };
        for word in ast::split(&own, 0) {
            let Some((name, value)) = word.source.split_once('=').filter(|(name, _)| ast::is_name(name)) else {
                return Err(Stop::Lost);
            };
            let (value, _) = self.value(&ast::Word::read(value, 0).parts, &s.nested)?;
            self.variables.insert(name.to_owned(), value);
        }
        let mut words: Vec<Text> = Vec::new();
        for word in s.words() {
            let Some(source) = self.source(word.range.clone()) else {
                words.push(None);
                continue;
            };
            if matches!(source.as_str(), "\"$@\"" | "$@") {
                let count: usize = self.variables.get("#").and_then(|n| n.as_ref()?.parse().ok()).ok_or(Stop::Lost)?;
                for nth in 1..=count.min(9) {
                    words.push(self.variables.get(&nth.to_string()).cloned().flatten());
                }
                continue;
            }
            words.extend(self.words(&ast::Word::read(&source, 0), &s.nested)?);
        }
        let redirects = self.redirects(s, last.range.end)?;
        let input = redirects.input.or(input);
        let done = self.program(s, &words, input, lenient);
        if let Some(before) = before {
            self.variables = before;
        }
        let done = done?;
        match redirects.output {
            Some((path, adds)) => {
                let path = path.and_then(|path| absolute(self.folder.as_deref(), &path)).ok_or(Stop::Lost)?;
                let out = done.out.filter(|out| !out.contains(OPEN));
                match adds {
                    true => self.world.disk.append(&path, out),
                    false => self.world.disk.write(&path, out),
                }
            }
            None if !redirects.discards => self.print(done.out),
            None => {}
        }
        Ok(done.status)
    }

    /// Whether a command writes no output to a file.
    fn writes_nothing(&self, s: &Statement) -> bool {
        let behind = s.words().last().and_then(|last| self.content.text.get(last.range.end..s.range.end));
        behind.is_some_and(|behind| {
            behind.match_indices('>').all(|(at, _)| {
                let rest = behind[at + 1..].trim_start();
                rest.starts_with('&') || rest.starts_with("/dev/null")
            })
        })
    }

    /// Reads the redirections after the words of a command.
    fn redirects(&mut self, s: &'s Statement, from: usize) -> Result<Redirects, Stop> {
        let mut found = Redirects::default();
        if !s.written && !s.fed {
            return Ok(found);
        }
        let text = self.source(from..s.range.end).ok_or(Stop::Lost)?;
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            let both = rest.strip_prefix('&').filter(|behind| behind.starts_with('>'));
            let number = rest.chars().next().filter(|c| c.is_ascii_digit() && rest[1..].starts_with(['<', '>']));
            rest = both.unwrap_or(&rest[usize::from(number.is_some())..]);
            if let Some(behind) = rest.strip_prefix("<<<") {
                let word = ast::words(behind, 0).next().ok_or(Stop::Lost)?;
                let (value, _) = self.value(&word.parts, &s.nested)?;
                found.input = Some(value.map(|text| text + "\n"));
                rest = behind[word.range.end..].trim_start();
            } else if rest.starts_with("<<") {
                found.input = Some(self.document(s, from)?);
                // The rest of the line after `<<EOF`.
                let line = rest.lines().next().unwrap_or_default();
                if let Some(at) = line.find('>') {
                    let word = ast::words(line[at + 1..].trim_start_matches('>'), 0).next().ok_or(Stop::Lost)?;
                    let (value, _) = self.value(&word.parts, &s.nested)?;
                    let adds = line[at + 1..].starts_with('>');
                    match value.as_deref() {
                        Some("/dev/null") => found.discards = true,
                        Some(path) if path.starts_with('&') || line[..at].ends_with('2') => {}
                        _ => found.output = Some((value, adds)),
                    }
                }
                return Ok(found);
            } else if let Some(behind) = rest.strip_prefix('<') {
                let word = ast::words(behind, 0).next().ok_or(Stop::Lost)?;
                let (path, _) = self.value(&word.parts, &s.nested)?;
                let path = path.and_then(|path| absolute(self.folder.as_deref(), &path));
                found.input = Some(path.and_then(|path| self.world.disk.text(&path)));
                rest = behind[word.range.end..].trim_start();
            } else if let Some(behind) = rest.strip_prefix('>') {
                let adds = behind.starts_with('>');
                let behind = behind.trim_start_matches(['>', '|']);
                let word = ast::words(behind, 0).next().ok_or(Stop::Lost)?;
                rest = behind[word.range.end..].trim_start();
                if word.source.starts_with('&') {
                    // `>&2`: to the other stream.
                    found.discards |= number.is_none_or(|number| number == '1') && word.source == "&2";
                    continue;
                }
                if number.is_some_and(|number| number != '1') {
                    continue;
                }
                let (path, _) = self.value(&word.parts, &s.nested)?;
                match path.as_deref() {
                    Some("/dev/null" | "/dev/stderr") => found.discards = true,
                    _ => found.output = Some((path, adds)),
                }
            } else {
                return Err(Stop::Lost);
            }
        }
        Ok(found)
    }

    /// The text of a here-document.
    fn document(&mut self, s: &'s Statement, from: usize) -> Result<Text, Stop> {
        let content = self.content;
        let at = content.text.get(from..s.range.end).and_then(|text| text.find("<<")).ok_or(Stop::Lost)? + from + 2;
        let behind = &content.text[at..];
        let stripped = behind.starts_with('-');
        let word = ast::words(behind.trim_start_matches('-'), 0).next().ok_or(Stop::Lost)?;
        let quoted = word.source.contains(['\'', '"', '\\']);
        let end = word.source.trim_matches(['\'', '"']).split(['|', '>', '&', ')']).next().unwrap_or_default();
        let start = at + behind.find('\n').ok_or(Stop::Lost)? + 1;
        let mut stop = start;
        for line in content.text[start..].split_inclusive('\n') {
            if line.trim_end_matches('\n').trim_start_matches('\t') == end || line.trim_end_matches('\n') == end {
                break;
            }
            stop += line.len();
        }
        let Some(text) = self.source(start..stop) else { return Ok(None) };
        let text = match stripped {
            true => text.split_inclusive('\n').map(|line| line.trim_start_matches('\t')).collect(),
            false => text,
        };
        if quoted {
            return Ok(Some(text));
        }
        Ok(self.value(&ast::quoted(&text, true), &s.nested)?.0)
    }

    fn test(&mut self, s: &'s Statement) -> Flow {
        let Some(text) = self.source(s.range.clone()) else { return Ok(None) };
        if text.starts_with("((") {
            return Ok(self.number_test(&text));
        }
        let mut words: Vec<(Text, String)> = Vec::new();
        for word in ast::split(&text, s.range.start) {
            if matches!(word.source.as_str(), "[" | "[[" | "]" | "]]") {
                continue;
            }
            words.push((self.value(&word.parts, &s.nested)?.0, word.source));
        }
        Ok(self.holds(&words, text.starts_with("[[")))
    }

    /// Evaluates `(( n >= 3 ))`.
    fn number_test(&self, text: &str) -> Option<bool> {
        let inner = text.strip_prefix("((")?.strip_suffix("))")?.trim();
        let sign = [">=", "<=", "==", "!=", ">", "<"].into_iter().find(|sign| inner.contains(sign))?;
        let (left, right) = inner.split_once(sign)?;
        let number = |word: &str| -> Option<i64> {
            let name = word.trim().trim_start_matches('$').trim_matches(['{', '}']);
            name.parse().ok().or_else(|| self.variables.get(name)?.as_ref()?.trim().parse().ok())
        };
        compared(sign, number(left)?, number(right)?)
    }

    fn holds(&self, words: &[(Text, String)], double: bool) -> Option<bool> {
        let is = |at: usize, sign: &str| words[at].1 == sign;
        if words.iter().any(|(_, source)| source == "(" || source == ")") {
            return None;
        }
        // The operators with the lowest precedence first.
        for (signs, any) in [(["||", "-o"], true), (["&&", "-a"], false)] {
            if let Some(at) = (0..words.len()).find(|at| signs.iter().any(|sign| is(*at, sign))) {
                let (a, b) = (self.holds(&words[..at], double), self.holds(&words[at + 1..], double));
                return match (a, b) {
                    (Some(one), _) | (_, Some(one)) if one == any => Some(any),
                    (Some(_), Some(_)) => Some(!any),
                    _ => None,
                };
            }
        }
        match words {
            [(_, not), rest @ ..] if not == "!" => self.holds(rest, double).map(|holds| !holds),
            [(text, _)] => Some(!text.as_ref()?.is_empty()),
            [(_, sign), (text, _)] => {
                let text = text.as_ref()?;
                let there = || self.world.disk.at(&absolute(self.folder.as_deref(), text)?);
                match sign.as_str() {
                    "-z" => Some(text.is_empty()),
                    "-n" => Some(!text.is_empty()),
                    "-e" => Some(there()?.is_some()),
                    "-f" | "-r" => Some(matches!(there()?, Some(Node::File(_)))),
                    "-d" => Some(there()? == Some(Node::Folder)),
                    "-s" => match there()? {
                        Some(Node::File(text)) => Some(!text?.is_empty()),
                        Some(Node::Folder) => None,
                        None => Some(false),
                    },
                    _ => None,
                }
            }
            [(left, _), (_, sign), (right, source)] => {
                let left = left.as_ref().filter(|text| !text.contains(OPEN))?;
                if sign == "=~" {
                    let pattern = right.as_ref().unwrap_or(source);
                    let plain = right.is_some() || !source.contains(['$', '"', '\'']);
                    return plain.then(|| regex::Regex::new(pattern).ok().map(|regex| regex.is_match(left)))?;
                }
                let equal = matches!(sign.as_str(), "=" | "==");
                if double && right.is_none() && (equal || sign == "!=") {
                    // `[[ $x == *word* ]]`
                    let plain = !source.contains(['$', '"', '\'', '?', '[', '\\']);
                    let pattern = source.split('*').map(regex::escape).collect::<Vec<_>>().join("(?s:.*)");
                    let regex = plain.then(|| regex::Regex::new(&format!("^{pattern}$")).ok())??;
                    return Some(regex.is_match(left) == equal);
                }
                let right = right.as_ref().filter(|text| !text.contains(OPEN))?;
                let number = |text: &str| text.trim().parse::<i64>().ok();
                match sign.as_str() {
                    "=" | "==" => Some(left == right),
                    "!=" => Some(left != right),
                    "-eq" => compared("==", number(left)?, number(right)?),
                    "-ne" => compared("!=", number(left)?, number(right)?),
                    "-ge" => compared(">=", number(left)?, number(right)?),
                    "-gt" => compared(">", number(left)?, number(right)?),
                    "-le" => compared("<=", number(left)?, number(right)?),
                    "-lt" => compared("<", number(left)?, number(right)?),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Runs a command.
    fn program(&mut self, s: &'s Statement, words: &[Text], input: Option<Text>, lenient: bool) -> Result<Done, Stop> {
        let Some(Some(name)) = words.first() else { return Err(Stop::Lost) };
        let name = name.rsplit('/').next().unwrap_or(name).to_owned();
        if let Some(&body) = self.functions.get(name.as_str()) {
            return self.function(body, words, lenient);
        }
        let rest = &words[1..];
        let all: Option<Vec<&str>> = rest.iter().map(Option::as_deref).collect();
        match name.as_str() {
            "exit" | "return" => {
                let status = match rest.first() {
                    None => self.last,
                    Some(code) => code.as_ref().map(|code| code == "0"),
                };
                return Err(if name == "exit" { Stop::Exit(status) } else { Stop::Return(status) });
            }
            "break" => return Err(Stop::Break),
            "continue" => return Err(Stop::Continue),
            "echo" | "printf" => return Ok(Done { status: Some(true), out: all.and_then(|args| said(&name, &args)) }),
            "set" => {
                let args = all.ok_or(Stop::Lost)?;
                for arg in &args {
                    if *arg == "--" {
                        return Err(Stop::Lost);
                    }
                    self.errexit |=
                        arg.starts_with('-') && !arg.starts_with("--") && arg.contains('e') || *arg == "errexit";
                    self.pipefail |= *arg == "pipefail";
                    if arg.starts_with('+') && arg.contains('e') {
                        self.errexit = false;
                    }
                }
                return Ok(Done::is(true));
            }
            "cd" => {
                let to = all.as_deref().and_then(|args| match args {
                    [dir] => absolute(self.folder.as_deref(), dir),
                    _ => None,
                });
                self.folder = to;
                return Ok(Done::is(true));
            }
            "read" => {
                for name in rest.iter().flatten() {
                    self.variables.insert(name.clone(), None);
                }
                return Ok(Done::unknown());
            }
            "source" | "." | "eval" | "exec" | "trap" | "shift" | "wait" | "pushd" | "popd" | "mapfile"
            | "readarray" => {
                return Err(Stop::Lost);
            }
            "timeout" => {
                let at = words.iter().skip(1).position(|word| word.as_ref().is_some_and(|word| !word.starts_with('-')));
                let inner = words.get(at.ok_or(Stop::Lost)? + 2..).ok_or(Stop::Lost)?;
                return self.program(s, inner, input, lenient);
            }
            "sudo" | "command" if rest.first().is_some_and(|word| word.as_deref() != Some("-v")) => {
                return self.program(s, rest, input, lenient);
            }
            _ => {}
        }
        let Some(args) = all else { return self.unknown(&name, s, &[], false) };
        match self.known(&name, &args, input, lenient)? {
            Some(done) => Ok(done),
            None => self.unknown(&name, s, &args, true),
        }
    }

    fn function(&mut self, body: &'s [Statement], words: &[Text], lenient: bool) -> Result<Done, Stop> {
        if self.depth >= DEPTH {
            return Err(Stop::Lost);
        }
        let places: Vec<String> = (1..10).map(|nth| nth.to_string()).chain(["#".to_owned()]).collect();
        let outer: Vec<Option<Text>> = places.iter().map(|name| self.variables.get(name).cloned()).collect();
        for (nth, name) in places.iter().enumerate().take(9) {
            self.variables.insert(name.clone(), words.get(nth + 1).cloned().unwrap_or(Some(String::new())));
        }
        self.variables.insert("#".to_owned(), Some((words.len() - 1).to_string()));
        self.depth += 1;
        let before = self.out.replace(String::new());
        let status = self.list(body, lenient);
        let out = std::mem::replace(&mut self.out, before);
        self.depth -= 1;
        for (name, value) in places.into_iter().zip(outer) {
            match value {
                Some(value) => self.variables.insert(name, value),
                None => self.variables.remove(&name),
            };
        }
        match status {
            Ok(status) | Err(Stop::Return(status)) => Ok(Done { status, out }),
            Err(stop) => {
                // Its output up to that point.
                self.print(out);
                Err(stop)
            }
        }
    }

    /// Handles a command whose status, or the resources it affects, are not known.
    fn unknown(&mut self, name: &str, s: &'s Statement, args: &[&str], told: bool) -> Result<Done, Stop> {
        const LOOKS: [&str; 34] = [
            "cat",
            "grep",
            "egrep",
            "fgrep",
            "wc",
            "head",
            "tail",
            "sort",
            "uniq",
            "tr",
            "cut",
            "awk",
            "jq",
            "yq",
            "sed",
            "date",
            "sleep",
            "ls",
            "find",
            "stat",
            "diff",
            "cmp",
            "sha256sum",
            "md5sum",
            "file",
            "seq",
            "basename",
            "dirname",
            "curl",
            "nc",
            "ping",
            "hostname",
            "base64",
            "du",
        ];
        match name {
            "kubectl" | "oc" => {
                let words: Vec<&str> = s.words()[1..].iter().map(|word| word.text.as_str()).collect();
                if !told && Cluster::changes(&words) {
                    self.world.cluster.forget();
                }
            }
            "helm" | "kind" | "minikube" | "virtctl" | "kustomize" => self.world.cluster.forget(),
            "docker" | "podman" => {
                if !told {
                    self.world.containers.forget();
                }
            }
            "sqlite3" | "psql" | "mysql" | "createdb" | "dropdb" => self.world.databases.forget_all(),
            "sed" | "awk" | "curl" | "find" | "sort" => {
                let words = || s.words().iter().map(|word| word.text.as_str());
                let writes = |word: &str| {
                    word.starts_with("-i")
                        || word.starts_with("-o")
                        || matches!(word, "-O" | "--output" | "-delete" | "-exec" | "--in-place")
                };
                if self.hopes && words().any(writes) {
                    return Err(Stop::Lost);
                }
            }
            // No effect on anything that is simulated here.
            "chmod" | "chown" | "ssh-keygen" | "which" | "command" | "type" | "id" | "gh" | "aws" | "gcloud" | "az" => {
                if args.iter().any(|arg| matches!(*arg, "clone" | "cp" | "sync" | "download" | "get-credentials")) {
                    return Err(Stop::Lost);
                }
            }
            _ if LOOKS.contains(&name) => {}
            // Verify changes nothing relevant.
            _ if !self.hopes => {}
            _ => return Err(Stop::Lost),
        }
        Ok(Done::unknown())
    }

    /// Runs a program whose words are all known. Returns `None` if the request is not supported here.
    fn known(&mut self, name: &str, args: &[&str], input: Option<Text>, lenient: bool) -> Result<Option<Done>, Stop> {
        let folder = self.folder.clone();
        let path = |word: &str| absolute(folder.as_deref(), word);
        let lost = |path: Text| path.ok_or(Stop::Lost);
        let plain: Vec<&str> = args.iter().filter(|arg| !arg.starts_with('-')).copied().collect();
        Ok(match name {
            "true" | ":" | "sleep" | "chmod" | "chown" | "umask" => Some(Done::is(true)),
            "false" => Some(Done::is(false)),
            "command" | "which" => Some(Done { status: Some(true), out: None }),
            "pwd" => Some(Done { status: Some(true), out: folder.map(|folder| folder + "\n") }),
            "test" => {
                let words: Vec<(Text, String)> =
                    args.iter().map(|arg| (Some((*arg).to_owned()), (*arg).to_owned())).collect();
                Some(Done { status: self.holds(&words, false), out: Some(String::new()) })
            }
            "seq" => match args.iter().map(|arg| arg.parse::<u32>().ok()).collect::<Option<Vec<_>>>().as_deref() {
                Some([to]) if *to < 10_000 => Done::prints(&(1..=*to).map(|n| format!("{n}\n")).collect::<String>()),
                Some([from, to]) if *to < 10_000 => {
                    Done::prints(&(*from..=*to).map(|n| format!("{n}\n")).collect::<String>())
                }
                _ => None,
            },
            "basename" => match args {
                [path] => Done::prints(&format!("{}\n", path.trim_end_matches('/').rsplit('/').next().unwrap_or(path))),
                _ => None,
            },
            "dirname" => match args {
                [path] => Done::prints(&format!("{}\n", path.rsplit_once('/').map_or(".", |(dir, _)| dir))),
                _ => None,
            },
            "mktemp" => {
                let path = format!("/tmp/tmp.{RANDOM}{}", self.steps);
                match args {
                    ["-d"] => self.world.disk.folder(&path),
                    [] => self.world.disk.write(&path, Some(String::new())),
                    _ => return Err(Stop::Lost),
                }
                Done::prints(&format!("{path}\n"))
            }
            "mkdir" => {
                for word in plain {
                    let path = lost(path(word))?;
                    self.world.disk.folder(&path);
                }
                Some(Done::is(true))
            }
            "touch" => {
                for word in plain {
                    let path = lost(path(word))?;
                    if self.world.disk.at(&path).is_none_or(|node| node.is_none()) {
                        let text = self.world.disk.is_cleared(&path).then(String::new);
                        self.world.disk.write(&path, text);
                    }
                }
                Some(Done::is(true))
            }
            "rm" | "rmdir" => {
                for word in plain {
                    let path = lost(path(word))?;
                    self.world.disk.remove(&path);
                    self.world.databases.clear_below(&path);
                    self.world.repos.remove(&path);
                }
                Some(Done::is(true))
            }
            "cp" | "mv" => {
                let [from, to] = plain.as_slice() else { return Err(Stop::Lost) };
                let (from, mut to) = (lost(path(from))?, lost(path(to))?);
                let Some(Some(Node::File(text))) = self.world.disk.at(&from) else { return Err(Stop::Lost) };
                match self.world.disk.at(&to) {
                    Some(Some(Node::Folder)) => to = format!("{to}/{}", from.rsplit('/').next().unwrap_or_default()),
                    Some(_) => {}
                    None if plain[1].ends_with('/') => return Err(Stop::Lost),
                    None => {}
                }
                self.world.disk.write(&to, text);
                if name == "mv" {
                    self.world.disk.remove(&from);
                }
                Some(Done::is(true))
            }
            "tee" => {
                let text = input.flatten();
                for word in &plain {
                    let path = lost(path(word))?;
                    match args.contains(&"-a") {
                        true => self.world.disk.append(&path, text.clone()),
                        false => self.world.disk.write(&path, text.clone()),
                    }
                }
                Some(Done { status: Some(true), out: text })
            }
            "ls" => match (args, plain.as_slice()) {
                ([word], [_]) => {
                    let path = path(word);
                    match path.as_deref().and_then(|path| self.world.disk.at(path)) {
                        Some(None) => Some(Done::is(false)),
                        Some(Some(Node::File(_))) => Done::prints(&format!("{word}\n")),
                        Some(Some(Node::Folder)) => {
                            let path = path.unwrap_or_default();
                            let names = self.world.disk.below(&path).map(|all| {
                                let name = |(known, _): &(String, bool)| known[path.len() + 1..].to_owned();
                                let names =
                                    all.iter().map(name).filter(|name| !name.contains('/') && !name.starts_with('.'));
                                names.map(|name| name + "\n").collect::<String>()
                            });
                            Some(Done { status: Some(true), out: names })
                        }
                        None => None,
                    }
                }
                _ => None,
            },
            "find" => self.find(args).and_then(|text| Done::prints(&text)),
            "cat" | "grep" | "egrep" | "fgrep" | "wc" | "head" | "tail" | "sort" | "jq" | "cut" | "sed" | "awk"
            | "uniq" | "tr" | "xargs" | "base64" => self.filter(name, args, input),
            "git" => Some(self.world.repos.run(args, folder.as_deref(), &mut self.world.disk)),
            "docker" | "podman" => Some(self.world.containers.run(args)),
            "kubectl" | "oc" => {
                let disk = &self.world.disk;
                let read = |word: &str| disk.text(&path(word)?);
                let done = self.world.cluster.run(args, input.as_ref().and_then(Option::as_deref), &read, !lenient);
                if self.hopes && !lenient {
                    self.world.cluster.awaited(args);
                }
                Some(done)
            }
            "sqlite3" => {
                let words: Vec<&str> = plain.clone();
                let quiet = args
                    .iter()
                    .filter(|arg| arg.starts_with('-'))
                    .all(|arg| matches!(*arg, "-batch" | "-bail" | "-noheader" | "-list"));
                let key = lost(words.first().and_then(|word| path(word)))?;
                let sql = match words.get(1) {
                    Some(sql) => Some((*sql).to_owned()),
                    None => input.flatten(),
                };
                if self.world.disk.at(&key).is_none_or(|node| node.is_none()) {
                    self.world.disk.write(&key, None);
                }
                match sql {
                    Some(sql) => {
                        let done = self.world.databases.run(&key, &sql, "|");
                        Some(Done { out: done.out.filter(|_| quiet), ..done })
                    }
                    None => {
                        self.world.databases.forget(&key);
                        None
                    }
                }
            }
            "createdb" | "dropdb" => {
                if let Some(name) = plain.last() {
                    self.world.databases.clear(&format!("psql:{name}"));
                }
                Some(Done::is(true))
            }
            "psql" => {
                let mut rest = args.iter();
                let (mut base, mut sql, mut letters, mut other) = (None, Vec::new(), String::new(), false);
                while let Some(arg) = rest.next() {
                    match *arg {
                        "-d" | "--dbname" => base = rest.next().copied(),
                        "-h" | "-U" | "-p" | "-v" | "--host" | "--username" | "--port" => {
                            rest.next();
                        }
                        "-f" | "--file" => other = true,
                        "--tuples-only" => letters.push('t'),
                        "--no-align" => letters.push('A'),
                        "--quiet" => letters.push('q'),
                        _ if arg.starts_with("--") => other = true,
                        _ if arg.starts_with('-') => {
                            letters.push_str(&arg[1..]);
                            if arg.ends_with('c') {
                                sql.extend(rest.next().copied());
                            }
                        }
                        _ => base = Some(*arg),
                    }
                }
                let own = || self.variables.get("PGDATABASE").cloned().flatten();
                let key = format!("psql:{}", base.map(str::to_owned).or_else(own).unwrap_or_default());
                let text = if sql.is_empty() { input.flatten() } else { Some(sql.join(";")) };
                let text = text.filter(|_| !other && letters.chars().all(|c| "tAqXc".contains(c)));
                match text {
                    Some(text) => {
                        let done = self.world.databases.run(&key, &text, "|");
                        let bare = letters.contains('t') && letters.contains('A');
                        // Without `-q`, it also reports what it has done.
                        let says = text.to_lowercase().matches("select").count() == 1
                            && text.trim_start().to_lowercase().starts_with("select");
                        Some(Done { out: done.out.filter(|_| bare && says), ..done })
                    }
                    None => {
                        self.world.databases.forget(&key);
                        None
                    }
                }
            }
            _ => None,
        })
    }

    /// Runs a filter on its input or on files.
    fn filter(&mut self, name: &str, args: &[&str], input: Option<Text>) -> Option<Done> {
        if let Some(text) = input {
            let done = filters::run(name, args, &text?);
            if done.is_some() {
                return done;
            }
        }
        // The files are the last arguments.
        let first = match name {
            "cat" => 0,
            "wc" | "head" | "tail" | "sort" => {
                args.iter().position(|arg| !arg.starts_with('-') && arg.parse::<u32>().is_err())?
            }
            "grep" | "egrep" | "fgrep" | "jq" | "sed" | "awk" => {
                let skipped =
                    |at: usize| at > 0 && matches!(args[at - 1], "--arg" | "--argjson" | "-e" | "-A" | "-B" | "-m");
                let named = args.contains(&"-e");
                let mut words = (0..args.len()).filter(|at| !args[*at].starts_with('-') && !skipped(*at));
                words.nth(usize::from(!named))?
            }
            _ => return None,
        };
        let (options, files) = args.split_at(first);
        if files.is_empty()
            || files.len() > 1 && name != "cat"
            || options.iter().any(|arg| *arg == "-i" && name == "sed")
        {
            return None;
        }
        let mut all = String::new();
        for file in files {
            let path = absolute(self.folder.as_deref(), file)?;
            match self.world.disk.at(&path)? {
                Some(Node::File(text)) => all.push_str(&text?),
                _ => return Some(Done::is(false)),
            }
        }
        let done = filters::run(name, options, &all)?;
        match name {
            // It prints the name of the file as well.
            "wc" => Some(Done { out: None, ..done }),
            _ => Some(done),
        }
    }

    /// Runs `find DIR -name '*.x' -type f`.
    fn find(&self, args: &[&str]) -> Option<String> {
        let (dir, rest) = args.split_first()?;
        let root = absolute(self.folder.as_deref(), dir)?;
        let (mut name, mut folders, mut deep) = (None, None, usize::MAX);
        for pair in rest.chunks(2) {
            match pair {
                ["-name", pattern] => {
                    let parts: Vec<String> = pattern.split('*').map(regex::escape).collect();
                    (!pattern.contains(['?', '['])).then_some(())?;
                    name = Some(regex::Regex::new(&format!("^{}$", parts.join(".*"))).ok()?);
                }
                ["-type", sort] => folders = Some(*sort == "d"),
                ["-maxdepth", most] => deep = most.parse().ok()?,
                _ => return None,
            }
        }
        let mut out = String::new();
        for (path, folder) in self.world.disk.below(&root)? {
            let own = &path[root.len() + 1..];
            let last = own.rsplit('/').next().unwrap_or(own);
            if own.matches('/').count() < deep
                && folders.is_none_or(|wanted| wanted == folder)
                && name.as_ref().is_none_or(|name| name.is_match(last))
            {
                out.push_str(&format!("{}/{own}\n", dir.trim_end_matches('/')));
            }
        }
        // Without a filter, the output would include the directory itself.
        (folders == Some(false) || name.is_some()).then_some(out)
    }
}

fn compared(sign: &str, a: i64, b: i64) -> Option<bool> {
    Some(match sign {
        "==" => a == b,
        "!=" => a != b,
        ">=" => a >= b,
        "<=" => a <= b,
        ">" => a > b,
        "<" => a < b,
        _ => return None,
    })
}

/// The output of `echo` and `printf`.
fn said(name: &str, args: &[&str]) -> Text {
    if name == "echo" {
        let (bare, mut args) = (args.first() == Some(&"-n"), args);
        if bare {
            args = &args[1..];
        }
        if args.first().is_some_and(|arg| arg.starts_with("-e") || arg.starts_with("-ne"))
            || args.iter().any(|arg| arg.contains('\\'))
        {
            return None;
        }
        return Some(args.join(" ") + if bare { "" } else { "\n" });
    }
    let (format, mut values) = args.split_first().map(|(format, values)| (*format, values.iter()))?;
    if format.starts_with('-') {
        return None;
    }
    let mut out = String::new();
    for _ in 0..values.len().max(1) {
        let mut chars = format.chars();
        while let Some(c) = chars.next() {
            match c {
                '\\' => match chars.next()? {
                    'n' => out.push('\n'),
                    't' => out.push('\t'),
                    '\\' => out.push('\\'),
                    '"' => out.push('"'),
                    _ => return None,
                },
                '%' => match chars.next()? {
                    's' | 'd' => out.push_str(values.next().unwrap_or(&"")),
                    '%' => out.push('%'),
                    _ => return None,
                },
                c => out.push(c),
            }
        }
        if values.len() == 0 || !format.contains("%s") && !format.contains("%d") {
            break;
        }
    }
    Some(out)
}

/// Whether a rehearsal can follow a text.
fn is_shell(reader: Reader) -> bool {
    reader != Reader::Foreign
}
