//! Writes out what a script runs: each call of a function with its arguments, each round of a loop over known words, and sourced
//! files, in which every variable has one value. The result shows what a script asks for; it is no equivalent script.

use std::{collections::HashMap, ops::Range, rc::Rc};

use super::{
    ast::{self, Assign, Kind, List, Redirect, Stmt, Word},
    escaped, is_safe, parse, quote,
};

/// The maximum depth of functions that call other functions.
const DEPTH: usize = 5;

/// Loops with more rounds than this stay loops.
const ROUNDS: usize = 16;

/// The start of the names of temporary files.
pub const TEMPORARY: &str = "/tmp/mktemp-";

/// A longer text is not extended, in bytes.
const LONGEST: usize = 128 << 10;

/// The text of a script, written out. `sourced` returns the text of a file that the script sources, by its name. `None` if the script
/// cannot be parsed.
pub fn unrolled(text: &str, sourced: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let list = ast::read(&parse(text)?)?;
    let mut all = Unrolled { functions: HashMap::new(), sourced, set: HashMap::new(), arrays: HashMap::new(), size: 0 };
    Some(all.list(text, 0..text.len(), &list, &mut Frame::default(), true))
}

/// The state of the script.
struct Unrolled<'a> {
    /// Functions: their text, and the statements in it.
    functions: HashMap<String, (Rc<str>, List)>,
    sourced: &'a dyn Fn(&str) -> Option<String>,
    /// Variables that were assigned, and how often.
    set: HashMap<String, usize>,
    /// Arrays of known words, by their keys.
    arrays: HashMap<String, Vec<(String, String)>>,
    size: usize,
}

/// What names stand for. Values are written as inside of double quotes.
#[derive(Clone, Default)]
struct Frame {
    arguments: Option<Vec<String>>,
    names: HashMap<String, String>,
    depth: usize,
}

impl Unrolled<'_> {
    /// The statements of a range. `straight`: all of them run, one after the other.
    fn list(&mut self, text: &str, range: Range<usize>, list: &[Stmt], frame: &mut Frame, straight: bool) -> String {
        let mut out = String::new();
        let mut at = range.start;
        for stmt in list {
            let Some(gap) = text.get(at..stmt.range.start) else { continue };
            out += &self.filled(gap, frame);
            out += &self.statement(text, stmt, frame, straight);
            at = stmt.range.end;
        }
        out + &self.filled(text.get(at..range.end).unwrap_or_default(), frame)
    }

    fn statement(&mut self, text: &str, stmt: &Stmt, frame: &mut Frame, straight: bool) -> String {
        let own = text.get(stmt.range.clone()).unwrap_or_default();
        self.size += own.len();
        if self.size > LONGEST {
            return own.to_owned();
        }
        match &stmt.kind {
            Kind::Function { name, body } => {
                self.functions.insert(name.clone(), (Rc::from(text), body.clone()));
                String::new()
            }
            Kind::Assign(assigns) => self.assigned(assigns, frame, straight).unwrap_or_else(|| self.filled(own, frame)),
            Kind::Simple(simple) => {
                let Some(name) = simple.words.first() else { return self.filled(own, frame) };
                let called = match name.source.as_str() {
                    "source" | "." => self.included(&simple.words, frame, straight),
                    "shift" => {
                        let arguments = frame.arguments.get_or_insert_default();
                        arguments.drain(..arguments.len().min(1));
                        None
                    }
                    "read" => self.read(simple, frame),
                    name => self.called(name, &simple.words[1..], frame).map(|called| {
                        // Where its output goes.
                        let end = simple.words.last().map_or(0, |word| word.range.end);
                        let behind =
                            text.get(end..stmt.range.end).filter(|behind| behind.trim_start().starts_with('>'));
                        behind.map_or(called.clone(), |behind| {
                            format!("{called} {}", self.filled(behind.trim_start(), frame))
                        })
                    }),
                };
                called.unwrap_or_else(|| self.filled(own, frame))
            }
            Kind::For { var, values, body } => {
                let rounds = self.rounds(values, frame).filter(|_| !waits(text, stmt));
                let (Some(rounds), [first, .., last] | [first @ last]) = (rounds, body.as_slice()) else {
                    return self.inside(text, stmt, frame);
                };
                let range = first.range.start..last.range.end;
                let mut out = String::from("{\n");
                for round in rounds {
                    frame.names.insert(var.clone(), round);
                    out += &self.list(text, range.clone(), body, frame, straight);
                    out.push('\n');
                }
                out + "}"
            }
            // In `((…))`, names need no `$`.
            Kind::Test(..) if own.starts_with("((") => {
                let value = |name: &str| frame.names.get(name).cloned();
                let number = |name: &str| {
                    value(name).and_then(|value| match bare(&value) {
                        Some(other) => Some(other.to_owned()),
                        None => value.parse::<i64>().is_ok().then_some(value),
                    })
                };
                named(own, &number)
            }
            // The first of them always runs.
            Kind::And(pair) | Kind::Or(pair) => {
                let first = self.statement(text, &pair[0], frame, straight);
                let gap = text.get(pair[0].range.end..pair[1].range.start).unwrap_or_default();
                first + gap + &self.list(text, pair[1].range.start..stmt.range.end, &pair[1..], frame, false)
            }
            Kind::Other(text) if text.starts_with("while ") => {
                self.each_line(text, frame).unwrap_or_else(|| self.filled(own, frame))
            }
            Kind::Group(list) => self.list(text, stmt.range.clone(), list, frame, straight),
            _ => self.inside(text, stmt, frame),
        }
    }

    /// A statement whose inner statements may or may not run.
    fn inside(&mut self, text: &str, stmt: &Stmt, frame: &mut Frame) -> String {
        let mut changed = Vec::new();
        changes(stmt, &mut changed);
        frame.names.retain(|name, value| !changed.contains(&name.as_str()) || bare(value).is_some());
        let mut inner: List = stmt.lists().concat();
        inner.sort_by_key(|stmt| stmt.range.start);
        self.list(text, stmt.range.clone(), &inner, frame, false)
    }

    /// A call with the body of the function in its place.
    fn called(&mut self, name: &str, words: &[Word], frame: &mut Frame) -> Option<String> {
        let (text, body) = self.functions.get(name).filter(|_| frame.depth < DEPTH).cloned()?;
        let ([first, .., last] | [first @ last]) = body.as_slice() else { return None };
        let range = first.range.start..last.range.end;
        if text.get(range.clone())?.replace("<<<", "").contains("<<") {
            return None;
        }
        let arguments = self.words(words, frame);
        let before = (frame.arguments.replace(arguments), frame.names.clone());
        frame.depth += 1;
        let out = self.list(&text, range, &body, frame, true);
        frame.depth -= 1;
        frame.arguments = before.0;
        // Local variables end with the function.
        let locals =
            body.iter().filter_map(|stmt| if let Kind::Assign(assigns) = &stmt.kind { Some(assigns) } else { None });
        for assign in locals.flatten().filter(|assign| assign.local) {
            match before.1.get(&assign.name) {
                Some(value) => frame.names.insert(assign.name.clone(), value.clone()),
                None => frame.names.remove(&assign.name),
            };
        }
        let mut out = out.trim();
        while let Some(rest) = out.strip_prefix(':') {
            out = rest.trim_start_matches([' ', ';', '\n']);
        }
        let is_local = |stmt: &Stmt| matches!(&stmt.kind, Kind::Assign(all) if all.iter().all(|assign| assign.local));
        let mut others = body.iter().filter(|stmt| !is_local(stmt));
        let needs_braces = |stmt: &Stmt| matches!(stmt.kind, Kind::And(_) | Kind::Or(_));
        let one = others.next().filter(|stmt| !needs_braces(stmt) && !out.contains('\n'));
        let is_one = one.is_some() && others.next().is_none();
        Some(if is_one { out.to_owned() } else { format!("{{\n{out}\n}}") })
    }

    /// A sourced file in place of the statement.
    fn included(&mut self, words: &[Word], frame: &mut Frame, straight: bool) -> Option<String> {
        let word = words.get(1).filter(|_| frame.depth < DEPTH)?;
        let path = self.filled(&word.source, frame).replace('"', "");
        // The directory is mostly an expansion: `$(dirname "$0")/lib.sh`.
        let path = match path.rfind([')', '}']) {
            Some(end) => path[end + 1..].to_owned(),
            None if path.starts_with('$') => path.split_once('/')?.1.to_owned(),
            None => path,
        };
        let text = (self.sourced)(path.trim_start_matches('/'))?;
        let list = ast::read(&parse(&text)?)?;
        frame.depth += 1;
        let out = self.list(&text, 0..text.len(), &list, frame, straight);
        frame.depth -= 1;
        Some(out)
    }

    /// `IFS=: read -r a b <<< "x:y"`. If the text is not known, each variable is what `awk` prints of it.
    fn read(&mut self, simple: &ast::Simple, frame: &mut Frame) -> Option<String> {
        let word =
            simple.redirects.iter().find_map(|r| if let Redirect::Herestring(word) = r { Some(word) } else { None })?;
        let names: Vec<&str> =
            simple.words[1..].iter().map(|word| word.source.as_str()).filter(|word| !word.starts_with('-')).collect();
        let separators =
            simple.env.iter().find(|assign| assign.name == "IFS").and_then(|assign| assign.value.as_ref()?.literal());
        let Some(text) = self.known(word, frame) else {
            (separators.is_none() && names.len() > 1).then_some(())?;
            let source = self.filled(&word.source, frame);
            let one = |(at, name): (usize, &&str)| {
                frame.names.remove(*name);
                format!("{name}=$(echo {source} | awk '{{print ${}}}')", at + 1)
            };
            return Some(names.iter().enumerate().map(one).collect::<Vec<_>>().join("\n"));
        };
        let separators = separators.unwrap_or_else(|| " \t\n".to_owned());
        let mut values = text.splitn(names.len().max(1), |c: char| separators.contains(c));
        for name in names {
            frame.names.insert(name.to_owned(), escaped(values.next().unwrap_or_default()));
        }
        Some(":".to_owned())
    }

    /// A loop that reads the lines of a here-document: `while read -r a b; do …; done <<EOF`.
    fn each_line(&mut self, text: &str, frame: &mut Frame) -> Option<String> {
        let loops = text.strip_prefix("while ")?;
        let is_do = |at: &usize| {
            let behind = loops[at + 1..].trim_start();
            behind.strip_prefix("do").is_some_and(|rest| rest.starts_with(char::is_whitespace))
        };
        let end = loops.match_indices([';', '\n']).map(|(at, _)| at).find(is_do)?;
        let (head, rest) = (&loops[..end], loops[end + 1..].trim_start().strip_prefix("do")?);
        let (body, document) = rest.rsplit_once("done <<")?;
        let (mark, lines) = document.trim_start_matches(['-', ' ']).split_once('\n')?;
        let (mark, is_literal) = (mark.trim().trim_matches(['\'', '"']), mark.contains(['\'', '"']));
        let lines: Vec<&str> = lines.lines().take_while(|line| line.trim_start_matches('\t') != mark).collect();
        (lines.len() <= ROUNDS && frame.depth < DEPTH).then_some(())?;
        let words: Vec<&str> = head.split_whitespace().collect();
        let at = words.iter().position(|word| *word == "read")?;
        let separators = words[..at].iter().find_map(|word| word.strip_prefix("IFS="));
        let separators = separators.map_or(" \t", |text| text.trim_matches(['\'', '"'])).to_owned();
        let names: Vec<&str> = words[at + 1..].iter().copied().filter(|word| !word.starts_with('-')).collect();
        let list = ast::read(&parse(body)?)?;
        frame.depth += 1;
        let mut out = String::from("{\n");
        for line in lines {
            let line = if is_literal { escaped(line) } else { inner(&self.filled(&format!("\"{line}\""), frame)) };
            let mut values = line.splitn(names.len().max(1), |c: char| separators.contains(c));
            for name in &names {
                frame.names.insert((*name).to_owned(), values.next().unwrap_or_default().to_owned());
            }
            out += &self.list(body, 0..body.len(), &list, frame, true);
            out.push('\n');
        }
        frame.depth -= 1;
        Some(out + "}")
    }

    /// Assignments, each to a name of its own. `None` if they are not understood.
    fn assigned(&mut self, assigns: &[Assign], frame: &mut Frame, straight: bool) -> Option<String> {
        for assign in assigns {
            if let Some(array) = &assign.array {
                // `[key]=value`, or `value`, whose key is its index.
                let item = |(at, word): (usize, &Word)| {
                    let (key, value) = match word.source.strip_prefix('[').and_then(|rest| rest.split_once("]=")) {
                        Some((key, value)) => (key.trim_matches(['"', '\'']).to_owned(), Word::read(value, 0)),
                        None => (at.to_string(), word.clone()),
                    };
                    Some((key, escaped(&self.known(&value, frame)?)))
                };
                let items: Option<Vec<(String, String)>> = array.iter().enumerate().map(item).collect();
                match items {
                    Some(items) => self.arrays.insert(assign.name.clone(), items),
                    None => self.arrays.remove(&assign.name),
                };
            }
        }
        let is_plain = |assign: &Assign| !assign.odd && assign.array.is_none();
        assigns.iter().all(is_plain).then_some(())?;
        let mut out = Vec::new();
        for assign in assigns {
            let Some(value) = &assign.value else { continue };
            let source = self.filled(&value.source, frame);
            let is_value = !source.contains("$(") && !source.contains('`');
            if straight && assign.local && is_value {
                frame.names.insert(assign.name.clone(), inner(&source));
                continue;
            }
            let times = self.set.entry(assign.name.clone()).or_default();
            *times += 1;
            let name = match *times {
                1 => assign.name.clone(),
                _ if !straight => {
                    frame.names.get(&assign.name).and_then(|value| bare(value)).unwrap_or(&assign.name).to_owned()
                }
                times => format!("{}_{times}", assign.name),
            };
            match name == assign.name {
                true => drop(frame.names.remove(&assign.name)),
                false => drop(frame.names.insert(assign.name.clone(), format!("${{{name}}}"))),
            }
            out.push(format!("{name}={source}"));
            // A file that only this script knows.
            if straight && source.trim_matches('"').starts_with("$(mktemp") {
                frame.names.insert(assign.name.clone(), format!("{TEMPORARY}{}", assign.name));
            }
            // The value of a loop variable or of an argument, known to later loops.
            if straight && let Some(text) = Word::read(&source, 0).literal() {
                frame.names.insert(assign.name.clone(), escaped(&text));
            }
        }
        Some(if out.is_empty() { ":".to_owned() } else { out.join("\n") })
    }

    /// The values of a loop, if all of them are known and few.
    fn rounds(&self, values: &[Word], frame: &Frame) -> Option<Vec<String>> {
        let mut rounds = Vec::new();
        for value in values {
            if let Some((from, to)) = counted(&value.source) {
                rounds.extend((from..=to).take(ROUNDS + 1).map(|n| n.to_string()));
                continue;
            }
            let name = value.source.trim_matches('"').strip_prefix("${").and_then(|rest| rest.strip_suffix("[@]}"));
            if let Some(items) = name.and_then(|name| self.arrays.get(name.strip_prefix('!').unwrap_or(name))) {
                let is_key = name.is_some_and(|name| name.starts_with('!'));
                rounds.extend(items.iter().map(|(key, value)| if is_key { key } else { value }).cloned());
                continue;
            }
            if value.source == "\"$@\"" {
                rounds.extend(frame.arguments.clone()?);
                continue;
            }
            let text = self.known(value, frame)?;
            match value.parts.as_slice() {
                [ast::Part::Var { quoted: false, .. }] => rounds.extend(text.split_whitespace().map(escaped)),
                _ => rounds.push(escaped(&text)),
            }
        }
        (rounds.len() <= ROUNDS).then_some(rounds)
    }

    /// The text of a word, if nothing in it depends on the run.
    fn known(&self, word: &Word, frame: &Frame) -> Option<String> {
        let mut plain = Unrolled {
            functions: HashMap::new(),
            sourced: &|_| None,
            set: HashMap::new(),
            arrays: HashMap::new(),
            size: self.size,
        };
        Word::read(&plain.filled(&word.source, &mut frame.clone()), 0).literal()
    }

    /// Arguments as inside of double quotes.
    fn words(&mut self, words: &[Word], frame: &mut Frame) -> Vec<String> {
        let mut found = Vec::new();
        for word in words {
            match (word.source.as_str(), &frame.arguments) {
                ("\"$@\"", Some(arguments)) => found.extend(arguments.clone()),
                _ => found.push(inner(&self.filled(&word.source, frame))),
            }
        }
        found
    }

    /// A text of shell with the names replaced by what they stand for.
    fn filled(&mut self, text: &str, frame: &mut Frame) -> String {
        let mut out = String::new();
        let mut rest = text;
        let mut quoted = false;
        let mut before = ' ';
        while let Some(c) = rest.chars().next() {
            let len = match c {
                '\\' => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
                '\'' if !quoted => rest[1..].find('\'').map_or(rest.len(), |end| end + 2),
                '#' if !quoted && before.is_whitespace() => rest.find('\n').unwrap_or(rest.len()),
                '"' if !quoted && rest[1..].starts_with('$') => {
                    // Expanded once: a second time would assign its variables again, and nested ones many times.
                    let Some((value, len)) = self.expanded(&rest[1..], true, frame) else {
                        quoted = true;
                        out.push('"');
                        rest = &rest[1..];
                        before = c;
                        continue;
                    };
                    let closes = rest[1 + len..].starts_with('"');
                    let literal = || Word::read(&format!("\"{value}\""), 0).literal().filter(|text| text.contains('"'));
                    // A text with quotes is easier to read in other quotes.
                    match literal().filter(|_| closes) {
                        Some(text) => {
                            out += &quote(&text);
                            rest = &rest[len + 2..];
                        }
                        None => {
                            quoted = true;
                            out.push('"');
                            out += &value;
                            rest = &rest[len + 1..];
                        }
                    }
                    before = c;
                    continue;
                }
                '"' => {
                    quoted = !quoted;
                    1
                }
                '$' => {
                    if let Some((value, len)) = self.expanded(rest, quoted, frame) {
                        out += &value;
                        rest = &rest[len..];
                        before = '$';
                        continue;
                    }
                    1
                }
                _ => c.len_utf8(),
            };
            out += &rest[..len];
            rest = &rest[len..];
            before = c;
        }
        out
    }

    /// What an expansion at the start of a text becomes, and its length. `None`: it stays as it is.
    fn expanded(&mut self, text: &str, quoted: bool, frame: &mut Frame) -> Option<(String, usize)> {
        let written = |inner: &str| {
            // Options in one variable are split.
            let is_bare = is_safe(inner) || inner.starts_with('-') && inner.split(' ').all(is_safe);
            if quoted || is_bare { inner.to_owned() } else { format!("\"{inner}\"") }
        };
        let value = |name: &str, frame: &Frame| match name.parse::<usize>() {
            Ok(at) => frame.arguments.as_ref().map(|all| all.get(at.wrapping_sub(1)).cloned().unwrap_or_default()),
            Err(_) => frame.names.get(name).cloned(),
        };
        if let Some(rest) = text.strip_prefix("$((") {
            let len = rest.find("))")?;
            let number = |word: &str| value(word, frame).filter(|value| value.parse::<i64>().is_ok());
            let inner = named(&rest[..len], &number);
            let sum = sum(&inner).map(|sum| sum.to_string());
            return Some((sum.unwrap_or_else(|| format!("$(({inner}))")), len + 5));
        }
        if text.starts_with("$(") {
            let end = ast::closing(&text[1..], b'(', b')')?;
            let inner = text.get(2..=end)?;
            let mut own = frame.clone();
            let list = parse(inner).and_then(|script| ast::read(&script)).filter(|_| frame.depth < DEPTH);
            let inner = match list {
                Some(list) => {
                    own.depth += 1;
                    self.list(inner, 0..inner.len(), &list, &mut own, false)
                }
                None => self.filled(inner, &mut own),
            };
            return Some((format!("$({})", inner.trim()), end + 2));
        }
        if let Some(rest) = text.strip_prefix("${") {
            let close = rest.find('}')?;
            let inner = &rest[..close];
            let name_len = inner.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
            let (name, operator) = inner.split_at(name_len);
            if let Some(key) = operator.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                let key = match key.strip_prefix('$') {
                    Some(name) => value(name, frame)?,
                    None => key.trim_matches(['"', '\'']).to_owned(),
                };
                let (_, value) = self.arrays.get(name)?.iter().find(|(known, _)| *known == key)?;
                return Some((written(value), close + 3));
            }
            let known = value(name, frame)?;
            if let Some(other) = bare(&known).filter(|_| !operator.is_empty()) {
                return Some((format!("${{{other}{operator}}}"), close + 3));
            }
            let text = match operator {
                "" => known,
                _ if operator.starts_with(":-") && known.is_empty() => operator[2..].to_owned(),
                _ if operator.starts_with(":-") || operator.starts_with(":?") || operator.starts_with('-') => known,
                _ => shortened(&known, operator)?,
            };
            return Some((written(&text), close + 3));
        }
        let rest = &text[1..];
        let len = match rest.bytes().next()? {
            b'0'..=b'9' => 1,
            _ => rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count(),
        };
        Some((written(&value(&rest[..len], frame)?), len + 1))
    }
}

/// The variables that a statement may change.
fn changes<'s>(stmt: &'s Stmt, found: &mut Vec<&'s str>) {
    match &stmt.kind {
        Kind::Assign(assigns) => found.extend(assigns.iter().map(|assign| assign.name.as_str())),
        Kind::For { var, .. } | Kind::Count { var, .. } => found.push(var),
        Kind::Step(text) => found.extend(text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))),
        Kind::Simple(simple) if simple.words.first().is_some_and(|name| name.source == "read") => {
            found.extend(simple.words.iter().map(|word| word.source.as_str()));
        }
        _ => {}
    }
    stmt.lists().into_iter().flatten().for_each(|stmt| changes(stmt, found));
}

/// Whether a loop waits for something, or is left early.
fn waits(text: &str, stmt: &Stmt) -> bool {
    text.get(stmt.range.clone()).is_some_and(|body| body.contains("sleep ") || body.contains("break"))
}

/// The numbers of `{1..3}` or `$(seq 3)`.
fn counted(source: &str) -> Option<(u32, u32)> {
    if let Some((from, to)) = source.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')?.split_once("..")) {
        return Some((from.parse().ok()?, to.parse().ok()?));
    }
    let words = source.strip_prefix("$(seq ")?.strip_suffix(')')?;
    match words.split_whitespace().collect::<Vec<_>>().as_slice() {
        [to] => Some((1, to.parse().ok()?)),
        [from, to] => Some((from.parse().ok()?, to.parse().ok()?)),
        _ => None,
    }
}

/// `${NAME%.*}` and the like, for a plain text and a pattern with one `*` at an end.
fn shortened(text: &str, operator: &str) -> Option<String> {
    let (longest, at_start, pattern) = match operator.as_bytes() {
        [b'%', b'%', ..] => (true, false, &operator[2..]),
        [b'%', ..] => (false, false, &operator[1..]),
        [b'#', b'#', ..] => (true, true, &operator[2..]),
        [b'#', ..] => (false, true, &operator[1..]),
        _ => return None,
    };
    if text.contains('$') || pattern.contains(['[', '?', '$']) {
        return None;
    }
    let kept = match (at_start, pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (true, Some(mark), _) if longest => text.rsplit_once(mark).map(|(_, kept)| kept),
        (true, Some(mark), _) => text.split_once(mark).map(|(_, kept)| kept),
        (false, _, Some(mark)) if longest => text.split_once(mark).map(|(kept, _)| kept),
        (false, _, Some(mark)) => text.rsplit_once(mark).map(|(kept, _)| kept),
        (true, ..) => text.strip_prefix(pattern),
        (false, ..) => text.strip_suffix(pattern),
    };
    Some(kept.unwrap_or(text).to_owned())
}

/// An arithmetic expression with its known names replaced.
fn named(text: &str, number: &dyn Fn(&str) -> Option<String>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let bare = rest.strip_prefix('$').unwrap_or(rest);
        let len = bare.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
        match number(&bare[..len]).filter(|_| len > 0) {
            Some(value) => {
                out += &value;
                rest = &bare[len..];
            }
            None => {
                let len = if len > 0 { rest.len() - bare.len() + len } else { c.len_utf8() };
                out += &rest[..len];
                rest = &rest[len..];
            }
        }
    }
    out
}

/// The sum or difference of two numbers.
fn sum(text: &str) -> Option<i64> {
    let (left, right, sign) = match (text.split_once('+'), text.split_once('-')) {
        (Some((left, right)), None) => (left, right, 1),
        (None, Some((left, right))) => (left, right, -1),
        _ => return None,
    };
    left.trim().parse::<i64>().ok()?.checked_add(right.trim().parse::<i64>().ok()?.checked_mul(sign)?)
}

/// The name in `${NAME}`.
fn bare(value: &str) -> Option<&str> {
    value.strip_prefix("${")?.strip_suffix('}').filter(|name| ast::is_name(name))
}

/// A word as it is written inside of double quotes.
fn inner(source: &str) -> String {
    if source.starts_with('"') && ast::closing_quote(source).is_some_and(|end| end + 1 == source.len()) {
        return source[1..source.len() - 1].to_owned();
    }
    match Word::read(source, 0).literal() {
        Some(text) => escaped(&text),
        None => source.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_rounds_are_written_out() {
        let lib = "NS=shop\nget() { kubectl get \"$1\" -n \"$NS\" | jq -r \"$2\"; }\n";
        let sourced = |name: &str| (name == "lib.sh").then(|| lib.to_owned());
        for (script, wanted) in [
            ("for n in a b; do test -f \"/x/$n.log\"; done", "{\ntest -f \"/x/a.log\"\ntest -f \"/x/b.log\"\n}"),
            (
                "eq() { if [ \"$2\" != \"$3\" ]; then exit 1; fi; }\neq first \"$(k get 'a b')\" \"3 $x\"",
                "if [ \"$(k get 'a b')\" != \"3 $x\" ]; then exit 1; fi",
            ),
            (
                "source \"$(dirname \"$0\")/lib.sh\"\n[ \"$(get pod '.a')\" = b ]",
                "NS=shop\n\n\n[ \"$(kubectl get \"pod\" -n \"shop\" | jq -r \".a\")\" = b ]",
            ),
            ("a=$(k x)\nuse \"$a\"\na=$(k y)\nuse \"$a\"", "a=$(k x)\nuse \"$a\"\na_2=$(k y)\nuse \"${a_2}\""),
            (
                "for p in web:80 db:5432; do k \"${p%%:*}\" \"${p#*:}\"; done",
                "{\nk \"web\" \"80\"\nk \"db\" \"5432\"\n}",
            ),
            (
                "for i in {1..30}; do k get && exit 0; sleep 2; done",
                "for i in {1..30}; do k get && exit 0; sleep 2; done",
            ),
            (
                "f() { local n=\"$1\" v; v=$(k \"$n\"); [ \"$v\" = up ]; }\nf a\nf b",
                "{\nv=$(k \"a\"); [ \"$v\" = up ]\n}\n{\nv_2=$(k \"b\"); [ \"${v_2}\" = up ]\n}",
            ),
            (
                "s=x\nfor i in 1 2; do s=$(k); sleep 1; done\n[ \"$s\" = up ]",
                "s=x\nfor i in 1 2; do s=$(k); sleep 1; done\n[ \"$s\" = up ]",
            ),
            (
                "all=(x y)\nfor a in \"${all[@]}\"; do k $a $((i + 1)); done",
                "all=(x y)\n{\nk x $((i + 1))\nk y $((i + 1))\n}",
            ),
            (
                "declare -A w=([a]=1 [b]=2)\nfor c in \"${!w[@]}\"; do k $c \"${w[$c]}\"; done",
                "declare -A w=([a]=1 [b]=2)\n{\nk a \"1\"\nk b \"2\"\n}",
            ),
            ("n=$(k)\nn=$(l)\n((n == 1))", "n=$(k)\nn_2=$(l)\n((n_2 == 1))"),
            ("N='-n a'\nk $N", "N='-n a'\nk -n a"),
            ("IFS=: read -r a b <<< \"x:y z\"\nk \"$b\"", ":\nk \"y z\""),
            ("k 'it is $1' # don't\nk \"$1\"", "k 'it is $1' # don't\nk \"$1\""),
        ] {
            assert_eq!(unrolled(script, &sourced).unwrap().trim(), wanted, "{script}");
        }
    }

    #[test]
    fn nested_substitutions_are_read_once() {
        let nested = (0..40).fold("k".to_owned(), |inner, _| format!("echo \"$({inner})\""));
        let script = format!("x=$({nested})\nx=$({nested})\nuse \"$x\"");
        assert!(unrolled(&script, &|_| None).unwrap().ends_with("use \"${x_2}\""));
    }
}
