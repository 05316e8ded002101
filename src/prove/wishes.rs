//! What scripts compare the answers of commands with: texts by which they may get further. These are guesses, which worlds try out.

use std::collections::{BTreeMap, BTreeSet};

use super::{curl, invert, side::traced};
use crate::{
    bash::{
        self,
        ast::{self, Kind, Part, Redirect, Simple, Stmt, Word},
    },
    convert::test_words,
};

/// The texts that commands should print, by the command as worlds know it; a word that only a run knows is `{…}`.
pub fn wishes(scripts: &[String]) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for script in scripts.iter().filter_map(|text| Script::parsed(text)) {
        let mut solved = script.solved();
        for pair in &script.equal {
            let text = pair.iter().find_map(|path| text_of(&solved, path)).unwrap_or_else(|| "same\n".to_owned());
            let missing: Vec<&String> = pair.iter().filter(|path| text_of(&solved, path).is_none()).collect();
            solved.extend(missing.into_iter().map(|path| (cat(path), vec![text.clone()])));
        }
        for (argv, mut texts) in solved {
            if let ([_, file], Some(text)) = (argv.as_slice(), texts.first())
                && script.ordered.contains(file)
            {
                let mut lines: Vec<String> = text.lines().map(|line| format!("{line}\n")).collect();
                lines.sort_unstable();
                texts.insert(0, lines.concat());
            }
            let known = found.entry(traced(&curl::request(&argv).unwrap_or(argv))).or_default();
            for text in texts {
                if !known.contains(&text) {
                    known.push(text);
                }
            }
        }
    }
    found
}

/// The maximum number of near misses of a script.
const MISSES: usize = 12;

/// For each requirement on what a filter prints: the command, and a text that meets all requirements on it but this one, which it
/// nearly meets.
pub fn near_misses(scripts: &[String]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for mut script in scripts.iter().filter_map(|text| Script::parsed(text)) {
        let solved = script.solved();
        let first = |all: &[(Vec<String>, Vec<String>)], argv: &Vec<String>| {
            all.iter().find(|(known, _)| known == argv).and_then(|(_, texts)| texts.first().cloned())
        };
        for at in 0..script.whole.len().min(MISSES) {
            let (source, filters, text) = script.whole[at].clone();
            let Some((argv, _)) = script.origin(&source, &filters).filter(|(_, filters)| !filters.is_empty()) else {
                continue;
            };
            let near =
                text.parse::<u32>().map_or_else(|_| format!("not-{text}-so"), |n| n.saturating_add(1).to_string());
            script.whole[at].2 = near;
            let missed = first(&script.solved(), &argv).filter(|missed| Some(missed) != first(&solved, &argv).as_ref());
            found.extend(missed.map(|missed| (traced(&argv), missed)));
            script.whole[at].2 = text;
        }
    }
    found
}

/// The first text that a file should have.
fn text_of(solved: &[(Vec<String>, Vec<String>)], path: &str) -> Option<String> {
    solved.iter().find(|(argv, _)| *argv == cat(path)).and_then(|(_, texts)| texts.first().cloned())
}

/// A test without the parentheses of its groups; unchanged if it has patterns or substitutions.
fn without_groups(test: &str) -> String {
    let has_others = test.contains("=~") || test.contains("$(");
    if has_others { test.to_owned() } else { test.replace(['(', ')'], " ") }
}

/// Where a variable's value comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Source {
    Command(Vec<String>),
    Variable(String),
}

/// What is known of a script.
#[derive(Default)]
pub struct Script {
    /// Variables with one known text; `None` for others.
    constants: BTreeMap<String, Option<String>>,
    /// Variables with the text that `echo` or `printf` prints.
    printed_constants: BTreeMap<String, String>,
    /// What a variable is read from, and through which filters.
    sources: BTreeMap<String, (Source, Vec<Vec<String>>)>,
    /// The commands whose output is written to a file, by the file, and through which filters.
    written: BTreeMap<String, (Source, Vec<Vec<String>>)>,
    /// What a variable or the output of a command is compared with: the whole text, or a part of it.
    whole: Vec<(Source, Vec<Vec<String>>, String)>,
    parts: Vec<(Source, Vec<Vec<String>>, String)>,
    /// Where the conditions are that should be false.
    refused: Vec<std::ops::Range<usize>>,
    /// Files that should be equal.
    equal: Vec<[String; 2]>,
    /// Variables that the script ends with, and functions that report a failure.
    flags: BTreeSet<String>,
    failing: BTreeSet<String>,
    /// Files whose lines should be in order.
    ordered: BTreeSet<String>,
}

impl Script {
    /// Reads a script. `None` if it cannot be parsed.
    fn parsed(text: &str) -> Option<Self> {
        let list = ast::read(&bash::parse(text)?)?;
        let list = bash::inline::inlined(&list, text);
        let mut script = Self::of(&list);
        list.iter().for_each(|stmt| script.sources(stmt));
        script.failures(&list);
        list.iter().for_each(|stmt| script.tests(stmt));
        script.arguments();
        Some(script)
    }

    /// Reads the constants of a script.
    pub fn of(list: &[Stmt]) -> Self {
        let mut script = Self::default();
        list.iter().for_each(|stmt| script.constants(stmt));
        script
    }

    fn constants(&mut self, stmt: &Stmt) {
        walk(stmt, &mut |stmt| {
            let Kind::Assign(assigns) = &stmt.kind else { return };
            for assign in assigns {
                let text = assign.value.as_ref().filter(|_| !assign.odd).and_then(|word| self.text(word));
                let known = self.constants.get(&assign.name).cloned();
                let text = if known.is_some() { None } else { text };
                self.constants.insert(assign.name.clone(), text);
            }
        });
    }

    fn sources(&mut self, stmt: &Stmt) {
        walk(stmt, &mut |stmt| {
            let last = match &stmt.kind {
                Kind::Pipeline(list) => list.last(),
                _ => Some(stmt),
            };
            if let Some(Stmt { kind: Kind::Simple(simple), .. }) = last
                && let Some(file) = simple.redirects.iter().find_map(written_to)
                && let Some(path) = self.text(file).and_then(|text| path(&text))
                && let Some(source) = self.printed(stmt)
                && !matches!(&source.0, Source::Command(argv) if matches!(argv[0].as_str(), "echo" | "printf" | "cat"))
            {
                self.written.entry(path).or_insert(source);
            }
            if let Kind::Simple(simple) = &stmt.kind {
                for (name, source) in self.fields(simple).unwrap_or_default() {
                    self.sources.entry(name).or_insert(source);
                }
            }
            let Kind::Assign(assigns) = &stmt.kind else { return };
            for assign in assigns {
                let Some(Word { parts, .. }) = &assign.value else { continue };
                let [Part::Command { text, .. }] = parts.as_slice() else { continue };
                if let Some(text) = said(text) {
                    self.printed_constants.insert(assign.name.clone(), text);
                    continue;
                }
                if let Some(source) = self.read(text) {
                    self.sources.entry(assign.name.clone()).or_insert(source);
                }
            }
        });
    }

    /// `read -r NAME NAME < <(COMMAND)`, also with `<<<` and a separator (`IFS=,`): the variables, and what each is read from.
    fn fields(&self, simple: &Simple) -> Option<Vec<(String, (Source, Vec<Vec<String>>))>> {
        let (_, names) = simple.words.split_first().filter(|(program, _)| program.source == "read")?;
        let names: Vec<&Word> = names.iter().filter(|word| word.source != "-r").collect();
        let separator = match simple.env.as_slice() {
            [] => " ".to_owned(),
            [assign] if assign.name == "IFS" => self.text(assign.value.as_ref()?)?,
            _ => return None,
        };
        let (source, filters) = simple.redirects.iter().find_map(|redirect| match redirect {
            Redirect::Read(word) => self.read(word.source.strip_prefix("<(")?.strip_suffix(')')?),
            Redirect::Herestring(word) => self.value(word),
            _ => None,
        })?;
        let field =
            |at: usize| vec!["cut".to_owned(), format!("-d{separator}"), format!("-f{}", at + 1), "-".to_owned()];
        let one = |(at, word): (usize, &&Word)| {
            let own = if names.len() > 1 { vec![field(at)] } else { Vec::new() };
            ast::is_name(&word.source).then(|| (word.source.clone(), (source.clone(), [filters.clone(), own].concat())))
        };
        names.iter().enumerate().map(one).collect()
    }

    /// What a word is the value of: `"$(COMMAND)"` or `"$NAME"`.
    fn value(&self, word: &Word) -> Option<(Source, Vec<Vec<String>>)> {
        match word.parts.as_slice() {
            [Part::Command { text, .. }] => self.read(text),
            _ => variable(word).map(|name| (Source::Variable(name), Vec::new())),
        }
    }

    /// `"$A/$B" = "up/ready"`: each value, and the text that it should have.
    fn pieces(&self, word: &Word, text: &str) -> Option<Vec<(Source, Vec<Vec<String>>, String)>> {
        let (mut found, mut rest, mut parts) = (Vec::new(), text, word.parts.as_slice());
        while let [part, others @ ..] = parts {
            if let Some(fixed) = self.joined(std::slice::from_ref(part)) {
                rest = rest.strip_prefix(fixed.as_str())?;
            } else {
                let (source, filters) = match part {
                    Part::Var { name, default: None, .. } => (Source::Variable(name.clone()), Vec::new()),
                    Part::Command { text, .. } => self.read(text)?,
                    _ => return None,
                };
                let end = match others {
                    [] => rest.len(),
                    [next, ..] => rest.find(&self.joined(std::slice::from_ref(next))?)?,
                };
                found.push((source, filters, rest[..end].to_owned()));
                rest = &rest[end..];
            }
            parts = others;
        }
        (word.parts.len() > 1 && rest.is_empty()).then_some(found)
    }

    /// Finds the variables that scripts end with (`exit $rc`), and the functions that report a failure.
    fn failures(&mut self, list: &[Stmt]) {
        let mut functions = Vec::new();
        for stmt in list {
            walk(stmt, &mut |stmt| match &stmt.kind {
                Kind::Simple(Simple { words, .. }) => {
                    if let [program, status] = words.as_slice()
                        && matches!(program.source.as_str(), "exit" | "return")
                    {
                        self.flags.extend(variable(status));
                    }
                }
                Kind::Function { name, body } => functions.push((name.clone(), body.clone())),
                _ => {}
            });
        }
        for (name, body) in functions {
            // A function that returns 0 elsewhere, or a variable, may also report success.
            let mut may_succeed = false;
            for stmt in &body {
                walk(stmt, &mut |stmt| may_succeed |= matches!(&stmt.kind, Kind::Simple(simple) if is_open(simple)));
            }
            if !may_succeed && body.iter().any(|stmt| self.fails(stmt)) {
                self.failing.insert(name);
            }
        }
    }

    /// Whether a statement ends the script with a failure, or makes it end with one later.
    fn fails(&self, stmt: &Stmt) -> bool {
        match &stmt.kind {
            Kind::Simple(Simple { words, .. }) => {
                match words.iter().map(|word| word.source.as_str()).collect::<Vec<_>>()[..] {
                    ["exit" | "return", status] => status != "0",
                    [name, ..] => self.failing.contains(name),
                    [] => false,
                }
            }
            Kind::Assign(assigns) => assigns.iter().any(|assign| {
                let value = assign.value.as_ref().and_then(Word::literal);
                self.flags.contains(&assign.name) && value.is_none_or(|value| value != "0")
            }),
            Kind::Step(name) => self.flags.contains(name),
            Kind::Group(list) => list.iter().any(|stmt| self.fails(stmt)),
            _ => false,
        }
    }

    fn tests(&mut self, stmt: &Stmt) {
        walk(stmt, &mut |stmt| match &stmt.kind {
            Kind::Test(inner, _) => {
                let apart = without_groups(inner);
                if let Some([flag, word]) = test_words(&apart).as_deref()
                    && flag.source == if self.refused.contains(&stmt.range) { "-z" } else { "-n" }
                {
                    self.compared_with(word, "some");
                }
                let is_refused = self.refused.contains(&stmt.range);
                for comparison in test_words(&apart).unwrap_or_default().windows(3) {
                    let [a, operator, b] = comparison else { continue };
                    self.compared(a, &operator.source, b, is_refused);
                    self.compared(b, &operator.source, a, is_refused);
                }
            }
            // A loop over words checks each of them.
            Kind::For { var, values, body } => {
                let words: Vec<String> = values.iter().filter_map(Word::literal).take(MANY).collect();
                for word in if words.len() == values.len() { words } else { Vec::new() } {
                    let before = self.constants.insert(var.clone(), Some(word));
                    body.iter().for_each(|stmt| self.tests(stmt));
                    self.constants.remove(var);
                    self.constants.extend(before.map(|before| (var.clone(), before)));
                }
            }
            Kind::If { branches, .. } => {
                let failing = branches.iter().filter(|(_, body)| body.iter().any(|stmt| self.fails(stmt)));
                // A condition is wanted if the script fails where it is false: `if ! A | grep -q B; then exit 1; fi`.
                let conditions: Vec<&Stmt> = failing.flat_map(|(condition, _)| condition).collect();
                conditions.into_iter().for_each(|stmt| refused(stmt, &mut self.refused));
            }
            // `! A | grep -q B || exit 1`
            Kind::Or(pair) if self.fails(&pair[1]) => {
                if let Kind::Not(inner) = &pair[0].kind {
                    self.refused.push(inner.range.clone());
                }
            }
            Kind::And(pair) if self.fails(&pair[1]) && !matches!(pair[0].kind, Kind::Not(_)) => {
                self.refused.push(pair[0].range.clone());
            }
            Kind::Pipeline(list) if self.refused.contains(&stmt.range) => {
                if let Some((source, mut filters)) = self.pipeline(list)
                    && let Some([.., program, _]) =
                        filters.last_mut().filter(|filter| filter[0] == "jq").map(Vec::as_mut_slice)
                    && let Some(other) = invert::negated(program)
                {
                    *program = other;
                    self.whole.push((source, filters, "true".to_owned()));
                }
            }
            Kind::Simple(_) if self.refused.contains(&stmt.range) => {}
            Kind::Pipeline(list) => {
                let Some(([.., Stmt { kind: Kind::Simple(last), .. }], (source, mut filters))) =
                    Some(list.as_slice()).zip(self.pipeline(list))
                else {
                    return;
                };
                filters.pop();
                self.searched(last, source, filters);
            }
            Kind::Simple(simple) if self.document_of(simple).is_some() => {
                self.whole.extend(self.document_of(simple).map(|(path, text)| (printed(&path), Vec::new(), text)));
            }
            Kind::Simple(simple) if is_order(simple) => self.ordered.extend(file_of(self, simple)),
            Kind::Simple(simple) if compared_files(self, simple).is_some() => {
                self.equal.extend(compared_files(self, simple));
            }
            Kind::Simple(simple) => {
                let fed = simple.redirects.iter().find_map(|r| match r {
                    Redirect::Herestring(word) => variable(word),
                    _ => None,
                });
                if let Some(name) = fed {
                    self.searched(simple, Source::Variable(name), Vec::new());
                } else if let Some(path) = file_of(self, simple) {
                    self.searched(simple, printed(&path), Vec::new());
                }
            }
            _ => {}
        });
    }

    /// A value that one filter is given and another one prints (`jq --arg name "$NAME"`): some value, the same for both.
    fn arguments(&mut self) {
        let mut wanted = Vec::new();
        let given = |filters: &mut Vec<Vec<String>>, wanted: &mut Vec<String>| {
            for word in filters.iter_mut().filter(|filter| filter[0] == "jq").flatten() {
                if let Some(name) = word.strip_prefix('{').and_then(|word| word.strip_suffix('}'))
                    && self.sources.contains_key(name)
                {
                    wanted.push(name.to_owned());
                    *word = some(name);
                }
            }
        };
        let (mut whole, mut parts) = (self.whole.clone(), self.parts.clone());
        whole.iter_mut().chain(&mut parts).for_each(|(_, filters, _)| given(filters, &mut wanted));
        // The command that prints it may be given such a value itself.
        let mut sources = self.sources.clone();
        sources.values_mut().for_each(|(_, filters)| given(filters, &mut wanted));
        wanted.sort();
        wanted.dedup();
        whole.extend(wanted.into_iter().map(|name| (Source::Variable(name.clone()), Vec::new(), some(&name))));
        (self.whole, self.parts, self.sources) = (whole, parts, sources);
    }

    /// `is_refused`: the script fails where this is true.
    fn compared(&mut self, word: &Word, operator: &str, other: &Word, is_refused: bool) {
        if let ("=" | "==", Some(text)) = (operator, self.text(other)) {
            self.whole.extend(self.pieces(word, &text).unwrap_or_default());
        }
        // `${#NAME}` asks for a number of characters.
        let length = measured(word);
        let from = match &length {
            Some(name) => Some((Source::Variable(name.clone()), Vec::new())),
            None => self.value(word),
        };
        let Some((source, filters)) = from else { return };
        let is_glob = other.parts.iter().any(|part| match part {
            Part::Text { text, quoted } => !quoted && text.contains('*'),
            part => matches!(part, Part::Other),
        });
        let number = || self.text(other)?.parse::<i64>().ok();
        // The number may be the one that is wanted, or one that is refused.
        if let (Some(number), "-ge" | "-le" | "-gt" | "-lt" | "-ne") = (number(), operator) {
            let all = match (operator, is_refused) {
                ("-le", true) | ("-gt" | "-ne", false) => [1, 0, -1],
                ("-ge", true) | ("-lt", false) => [-1, 0, 1],
                ("-gt", true) => [0, -1, 1],
                _ => [0, 1, -1],
            };
            let text = |n: i64| match length {
                Some(_) => "x".repeat(usize::try_from(n).unwrap_or_default().min(LONGEST)),
                None => n.to_string(),
            };
            let texts = all.iter().map(|n| number.saturating_add(*n)).filter(|n| *n >= 0);
            self.whole.extend(texts.map(|n| (source.clone(), filters.clone(), text(n))));
            return;
        }
        if length.is_some() {
            return;
        }
        let text = match operator {
            "=" | "==" | "!=" | "=~" if is_glob || operator == "=~" => {
                let text = self.text(other).unwrap_or_else(|| other.source.replace(['"', '\''], ""));
                let sampled = if operator == "=~" { None } else { of_glob(&text) };
                let is_whole = match &sampled {
                    Some(_) => !text.starts_with('*') && !text.ends_with('*'),
                    None => operator == "=~" && text.starts_with('^') && text.ends_with('$'),
                };
                let fragment = match operator {
                    _ if sampled.is_some() => sampled.unwrap_or_default(),
                    "=~" => invert::sample_of_shell(&text),
                    // A quoted `*` is part of the text.
                    _ => match other.parts.iter().map(fixed).collect::<Option<String>>() {
                        Some(fixed) if !fixed.is_empty() => fixed,
                        _ => text.replace(['*', '^', '$', '\\'], "").replace(".+", "-"),
                    },
                };
                if is_whole { &mut self.whole } else { &mut self.parts }.push((source, filters, fragment));
                return;
            }
            "=" | "==" | "!=" => self.text(other).or_else(|| self.same(word, other)),
            "-eq" => number().map(|n| n.to_string()).or_else(|| self.same(word, other).map(|_| "3".to_owned())),
            "-ne" | "-ge" | "-le" | "-gt" | "-lt" => self.same(word, other).map(|_| "3".to_owned()),
            _ => None,
        };
        if let Some(text) = text {
            self.whole.push((source, filters, text));
        }
    }

    /// The word should be this text, if nothing else is required of it.
    fn compared_with(&mut self, word: &Word, text: &str) {
        let Some((source, filters)) = self.value(word) else { return };
        let is_known = |(other, own, _): &(Source, Vec<Vec<String>>, String)| *other == source && *own == filters;
        if !self.whole.iter().chain(&self.parts).any(is_known) {
            self.whole.push((source, filters, text.to_owned()));
        }
    }

    /// The file that `diff` compares with a here-document, and its text.
    fn document_of(&self, simple: &Simple) -> Option<(String, String)> {
        let (name, words) = simple.words.split_first()?;
        matches!(name.source.as_str(), "diff" | "cmp").then_some(())?;
        let text = simple
            .redirects
            .iter()
            .find_map(|r| if let Redirect::Heredoc(parts) = r { self.joined(parts) } else { None })?;
        let operands: Vec<&Word> =
            words.iter().filter(|word| !word.source.starts_with('-') || word.source == "-").collect();
        let [a, b] = operands.as_slice() else { return None };
        let (file, dash) = if a.source == "-" { (b, a) } else { (a, b) };
        (dash.source == "-").then_some(())?;
        Some((path(&self.text(file)?)?, text))
    }

    /// A text for two outputs that should be equal.
    fn same(&self, word: &Word, other: &Word) -> Option<String> {
        let filters = |word: &Word| match word.parts.as_slice() {
            [Part::Command { text, .. }] => self.read(text).map(|(_, filters)| filters),
            _ => variable(word).and_then(|name| self.sources.get(&name)).map(|(_, filters)| filters.clone()),
        };
        let counts = [filters(word)?, filters(other)?].concat().iter().any(|filter| filter[0] == "wc");
        Some(if counts { "3" } else { "same" }.to_owned())
    }

    /// `… | grep -q PATTERN`
    fn searched(&mut self, simple: &Simple, source: Source, filters: Vec<Vec<String>>) {
        let words: Vec<String> = simple.words.iter().filter_map(|word| self.text(word)).collect();
        let ([name, rest @ ..], true) = (words.as_slice(), words.len() == simple.words.len()) else { return };
        // `jq -e` reports by its exit status whether its result is true.
        if name == "jq" && rest.iter().any(|word| matches!(word.as_str(), "-e" | "-er" | "-re" | "--exit-status")) {
            let end = usize::from(file_of(self, simple).is_some());
            let filter = words[..words.len() - end].iter().cloned().chain(["-".to_owned()]).collect();
            self.whole.push((source, [filters, vec![filter]].concat(), "true".to_owned()));
            return;
        }
        if !matches!(name.as_str(), "grep" | "egrep" | "fgrep") {
            return;
        }
        let behind = rest.iter().position(|word| word == "--" || word == "-e").and_then(|at| rest.get(at + 1));
        if let Some(pattern) = behind.or_else(|| rest.iter().find(|word| !word.starts_with('-'))) {
            let is_extended = name == "egrep" || rest.iter().any(|w| w.starts_with('-') && w.contains('E'));
            let is_fixed = name == "fgrep" || rest.iter().any(|w| w.starts_with('-') && w.contains('F'));
            let fragment = if is_fixed { pattern.clone() } else { invert::sample(pattern, is_extended) };
            self.parts.push((source, filters, fragment));
        }
    }

    /// What a command substitution reads, and through which filters.
    fn read(&self, text: &str) -> Option<(Source, Vec<Vec<String>>)> {
        if let Some(file) = text.trim().strip_prefix('<') {
            return Some((printed(&self.text(&Word::read(file.trim(), 0))?), Vec::new()));
        }
        let list = ast::read(&bash::parse(text)?)?;
        match list.as_slice() {
            // A function that prints what it has captured.
            [Stmt { kind: Kind::Group(list), .. }] => {
                let Kind::Simple(last) = &list.last()?.kind else { return None };
                let name = variable(last.words.last().filter(|_| last.words[0].source == "echo")?)?;
                let assigned =
                    list.iter().filter_map(|stmt| if let Kind::Assign(all) = &stmt.kind { Some(all) } else { None });
                let value = assigned.flatten().find(|assign| assign.name == name)?.value.as_ref()?;
                let [Part::Command { text, .. }] = value.parts.as_slice() else { return None };
                self.read(text)
            }
            [stmt] => self.printed(stmt),
            _ => None,
        }
    }

    fn printed(&self, stmt: &Stmt) -> Option<(Source, Vec<Vec<String>>)> {
        match &stmt.kind {
            Kind::Simple(simple) => {
                let read =
                    simple.redirects.iter().find_map(|r| if let Redirect::Read(word) = r { Some(word) } else { None });
                match read {
                    Some(file) => {
                        let filter = [self.argv(simple)?, vec!["-".to_owned()]].concat();
                        Some((printed(&path(&self.text(file)?)?), vec![filter]))
                    }
                    None => self.source(simple),
                }
            }
            Kind::Pipeline(list) => self.pipeline(list),
            // `|| echo ""`
            Kind::Or(pair) => self.printed(&pair[0]),
            // `… && echo yes`: the command succeeds, whatever it prints.
            Kind::And(pair) => {
                let (source, filters) = self.printed(&pair[0])?;
                Some((source, [filters, vec![vec!["&&".to_owned()]]].concat()))
            }
            _ => None,
        }
    }

    fn pipeline(&self, list: &[Stmt]) -> Option<(Source, Vec<Vec<String>>)> {
        let (first, rest) = list.split_first()?;
        let Kind::Simple(first) = &first.kind else { return None };
        let filters = rest.iter().map(|stmt| match &stmt.kind {
            // The file of a filter is expected after its program.
            Kind::Simple(simple) => Some([self.argv(simple)?, vec!["-".to_owned()]].concat()),
            _ => None,
        });
        let (source, own) = self.source(first)?;
        Some((source, [own, filters.collect::<Option<_>>()?].concat()))
    }

    /// A command, or the file that it filters.
    fn source(&self, simple: &Simple) -> Option<(Source, Vec<Vec<String>>)> {
        let mut argv = self.argv(simple)?;
        let fed = simple
            .redirects
            .iter()
            .find_map(|r| if let Redirect::Herestring(word) = r { variable(word) } else { None });
        if let Some(name) = fed {
            argv.push("-".to_owned());
            return Some((Source::Variable(name), vec![argv]));
        }
        // `yq` is a program of its own in worlds.
        match file_of(self, simple).filter(|_| !matches!(argv[0].as_str(), "cat" | "test" | "yq")) {
            Some(path) => {
                *argv.last_mut()? = "-".to_owned();
                Some((printed(&path), vec![argv]))
            }
            None => Some((self.command(simple)?, Vec::new())),
        }
    }

    /// A command, or the variable that `echo` prints.
    fn command(&self, simple: &Simple) -> Option<Source> {
        let name = simple.words.first()?.source.as_str();
        match (name, simple.words.last()) {
            ("echo" | "printf", Some(word)) => variable(word).map(Source::Variable),
            ("cat", _) if file_of(self, simple).is_some() => file_of(self, simple).map(|path| printed(&path)),
            _ => self.argv(simple).map(Source::Command),
        }
    }

    fn argv(&self, simple: &Simple) -> Option<Vec<String>> {
        let words = simple.words.iter().map(|word| {
            let parts = word.parts.iter().map(|part| match part {
                Part::Text { text, .. } => text.clone(),
                part @ Part::Var { name, .. } => {
                    self.joined(std::slice::from_ref(part)).unwrap_or_else(|| format!("{{{name}}}"))
                }
                Part::Command { .. } => "{}".to_owned(),
                Part::Other => word.source.clone(),
            });
            parts.collect::<String>()
        });
        let argv: Vec<String> = words.collect();
        (!argv.is_empty()).then_some(argv)
    }

    /// The text of a word, if all of it is known.
    pub fn text(&self, word: &Word) -> Option<String> {
        match word.parts.as_slice() {
            [Part::Other] => self.sum(&word.source).map(|sum| sum.to_string()),
            [Part::Command { text, .. }] => said(text).or_else(|| self.document(text)),
            [Part::Var { name, default: None, .. }] => {
                let constant = || self.constants.get(name).cloned().flatten();
                constant().or_else(|| self.printed_constants.get(name).cloned())
            }
            parts => self.joined(parts),
        }
    }

    /// `cat <<EOF … EOF`
    fn document(&self, command: &str) -> Option<String> {
        let list = ast::read(&bash::parse(command)?)?;
        let [Stmt { kind: Kind::Simple(simple), .. }] = list.as_slice() else { return None };
        let ([cat], [Redirect::Heredoc(parts)]) = (simple.words.as_slice(), simple.redirects.as_slice()) else {
            return None;
        };
        (cat.source == "cat").then(|| self.joined(parts))?.map(|text| text.trim_end_matches('\n').to_owned())
    }

    fn joined(&self, parts: &[Part]) -> Option<String> {
        let part = |part: &Part| match part {
            Part::Text { text, .. } => Some(text.clone()),
            Part::Var { name, default, .. } => match (self.constants.get(name), default) {
                (Some(Some(text)), _) => Some(text.clone()),
                // A variable that nothing in the script sets has its default in most worlds.
                (_, Some(default)) => self.joined(default),
                _ => None,
            },
            _ => None,
        };
        parts.iter().map(part).collect()
    }

    /// `$((A + B - 1))`, if all of it is known.
    fn sum(&self, source: &str) -> Option<i64> {
        let inner = source.trim_matches('"').strip_prefix("$((")?.strip_suffix("))")?;
        let spaced =
            ["+", "-", "*"].iter().fold(inner.to_owned(), |text, sign| text.replace(sign, &format!(" {sign} ")));
        let number = |word: &str| match word.parse() {
            Ok(number) => Some(number),
            Err(_) => self.constants.get(word.trim_start_matches('$'))?.as_ref()?.parse::<i64>().ok(),
        };
        let mut words = spaced.split_whitespace();
        let mut sum = number(words.next()?)?;
        while let Some(sign) = words.next() {
            let other = number(words.next()?)?;
            sum = match sign {
                "+" => sum.checked_add(other)?,
                "-" => sum.checked_sub(other)?,
                "*" if !inner.contains(['+', '-']) => sum.checked_mul(other)?,
                _ => return None,
            };
        }
        Some(sum)
    }

    /// Commands, and what they may print.
    fn solved(&self) -> Vec<(Vec<String>, Vec<String>)> {
        // By the command: for each way in which its output is read, what is wanted there.
        let mut wanted: Vec<(Vec<String>, Vec<(Vec<Vec<String>>, Vec<String>)>)> = Vec::new();
        let mut add = |source: &Source, filters: &[Vec<String>], text: &str, is_part: bool| {
            let Some((argv, filters)) = self.origin(source, filters) else { return };
            let at = wanted.iter().position(|(known, _)| *known == argv).unwrap_or(wanted.len());
            if at == wanted.len() {
                wanted.push((argv, Vec::new()));
            }
            let ways = &mut wanted[at].1;
            match ways.iter_mut().find(|(known, _)| *known == filters) {
                // Several parts appear in one text.
                Some((_, texts)) if is_part && !texts.is_empty() => {
                    let all = format!("{} {text}", texts[0]);
                    texts.push(format!("{}\n{text}", texts[0]));
                    texts.insert(0, all);
                    texts.push(text.to_owned());
                }
                Some((_, texts)) => texts.push(text.to_owned()),
                None => ways.push((filters, vec![text.to_owned()])),
            }
        };
        self.parts.iter().for_each(|(source, filters, text)| add(source, filters, text, true));
        self.whole.iter().for_each(|(source, filters, text)| add(source, filters, text, false));
        // Rows of a file, each of which is searched for.
        let mut rows: Vec<(Vec<String>, String)> = Vec::new();
        for (source, filters, text) in self.whole.iter().chain(&self.parts) {
            let Some((argv, filters)) = self.origin(source, filters) else { continue };
            let by_row = filters.iter().all(|filter| matches!(filter[0].as_str(), "head" | "tail" | "sort"));
            let row = (argv, text.clone());
            if by_row && !text.is_empty() && !rows.contains(&row) {
                rows.push(row);
            }
        }
        let solve = |(argv, ways): (Vec<String>, Vec<(Vec<Vec<String>>, Vec<String>)>)| {
            let (plain, filtered) =
                through(&ways.iter().map(|(filters, texts)| (filters.as_slice(), texts)).collect::<Vec<_>>());
            let rows = rows.iter().filter(|(of, _)| *of == argv).map(|(_, row)| row.as_str()).collect::<Vec<_>>();
            let mut texts: Vec<String> = self.composed(&argv).into_iter().collect();
            let rows = (rows.len() > 1).then(|| rows.join("\n"));
            let is_file = argv[0] == "cat";
            texts.extend(rows.clone().filter(|_| is_file));
            texts.extend(if filtered.is_empty() { Vec::new() } else { invert::combined(&filtered, &[]) });
            let is_part = |(source, filters, _): &&(Source, Vec<Vec<String>>, String)| {
                self.origin(source, filters).is_some_and(|(of, filters)| of == argv && filters.is_empty())
            };
            let parts: Vec<&String> = self.parts.iter().filter(is_part).map(|(.., text)| text).collect();
            let with = texts.iter().find_map(|text| with_parts(text, &parts));
            texts.splice(0..0, with);
            texts.extend(plain);
            let at = texts.len().min(2);
            texts.splice(at..at, rows.filter(|_| !is_file));
            texts.truncate(MANY);
            (argv, texts)
        };
        wanted.into_iter().map(solve).filter(|(_, texts)| !texts.is_empty()).collect()
    }

    /// A text of several lines that meets every requirement on its first, its last and its nth line, on the number of its lines, on the
    /// number of lines with a pattern, and on parts of it. `None` if there are other requirements, or only one.
    fn composed(&self, argv: &[String]) -> Option<String> {
        let (mut nth, mut last, mut count) = (BTreeMap::new(), None, None);
        let (mut lines, mut many, mut asked) = (Vec::new(), Vec::new(), 0);
        for ((source, filters, text), is_part) in
            self.whole.iter().map(|whole| (whole, false)).chain(self.parts.iter().map(|part| (part, true)))
        {
            let Some((of, filters)) = self.origin(source, filters) else { continue };
            if of != argv {
                continue;
            }
            let number = text.parse::<usize>().ok().filter(|number| *number <= MOST_LINES);
            match filters.as_slice() {
                [] if is_part => lines.push(text.clone()),
                [one] if is_one_line(one, "head") => drop(nth.entry(0).or_insert(text.clone())),
                [one] if invert::nth_line(one).is_some() => {
                    nth.entry(invert::nth_line(one)?).or_insert(text.clone());
                }
                [one] if is_one_line(one, "tail") => last = last.or(Some(text.clone())),
                [one] if one[0] == "wc" && one.iter().any(|word| word == "-l") => count = count.or(Some(number?)),
                [one] if is_count(one) => many.push((pattern_of(one)?, number?)),
                [one, wc] if one[0] == "grep" && wc[0] == "wc" => many.push((pattern_of(one)?, number?)),
                _ => return None,
            }
            asked += 1;
        }
        // Numbers that are compared by `-ge` are asked for with their neighbors.
        let has_lines = !nth.is_empty() || last.is_some() || count.is_some() || !many.is_empty();
        if asked < 2 || !has_lines {
            return None;
        }
        let until = nth.keys().last().map_or(0, |at| at + 1);
        let head = (0..until).map(|at| nth.get(&at).cloned().unwrap_or_else(|| format!("row-{at}")));
        let mut all: Vec<String> = head.chain(lines).collect();
        for (pattern, wanted) in many {
            let known = all.iter().chain(&last).filter(|line| line.contains(&pattern)).count();
            all.extend(std::iter::repeat_n(pattern, wanted.saturating_sub(known)));
        }
        // A line that several requirements ask for is there once.
        let filled = count.unwrap_or_default().saturating_sub(all.len() + usize::from(last.is_some()));
        all.extend((0..filled).map(|nth| format!("thing-{nth}")));
        if all.last() != last.as_ref() {
            all.extend(last);
        }
        // Only `wc -l` needs the end of the last line.
        Some(all.join("\n") + if count.is_some() { "\n" } else { "" })
    }

    /// The command behind variables, with all filters in between.
    fn origin(&self, source: &Source, filters: &[Vec<String>]) -> Option<(Vec<String>, Vec<Vec<String>>)> {
        let mut filters = filters.to_vec();
        let mut source = source.clone();
        // A variable may be derived from itself.
        for _ in 0..8 {
            match source {
                Source::Command(argv) => match argv.as_slice() {
                    [cat, path] if cat == "cat" && self.written.contains_key(path) => {
                        let (next, before) = &self.written[path];
                        filters.splice(0..0, before.iter().cloned());
                        source = next.clone();
                    }
                    _ => return Some((argv, filters)),
                },
                Source::Variable(name) => {
                    let (next, before) = self.sources.get(&name)?;
                    filters.splice(0..0, before.iter().cloned());
                    source = next.clone();
                }
            }
        }
        None
    }
}

/// The file in `> FILE`.
fn written_to(redirect: &Redirect) -> Option<&Word> {
    if let Redirect::Write(word) = redirect { Some(word) } else { None }
}

/// What `echo` or `printf` prints, if it is a literal text: `printf '%s\n' a b`.
fn said(text: &str) -> Option<String> {
    let list = ast::read(&bash::parse(text)?)?;
    let [Stmt { kind: Kind::Simple(simple), .. }] = list.as_slice() else { return None };
    let words: Vec<String> = simple.words.iter().map(Word::literal).collect::<Option<_>>()?;
    match words.as_slice() {
        [echo, rest @ ..] if echo == "echo" && rest.first().is_some_and(|word| !word.starts_with('-')) => {
            Some(rest.join(" "))
        }
        [printf, format, rest @ ..] if printf == "printf" && !rest.is_empty() => {
            let end = match format.as_str() {
                "%s" => "",
                "%s\\n" => "\n",
                _ => return None,
            };
            Some(rest.join(end))
        }
        [printf, format] if printf == "printf" && !format.contains('%') => {
            Some(format.replace("\\n", "\n").trim_end_matches('\n').to_owned())
        }
        _ => None,
    }
}

/// Collects the ranges of a condition that should be false, and of its parts.
fn refused(stmt: &Stmt, found: &mut Vec<std::ops::Range<usize>>) {
    match &stmt.kind {
        Kind::Not(_) => return,
        Kind::And(pair) | Kind::Or(pair) => pair.iter().for_each(|stmt| refused(stmt, found)),
        _ => {}
    }
    found.push(stmt.range.clone());
}

/// Whether a command ends a function or script with a status other than a fixed failure: `return`, `return 0`, `exit "$rc"`.
fn is_open(simple: &Simple) -> bool {
    let (Some(program), status) = (simple.words.first(), simple.words.get(1)) else { return false };
    matches!(program.source.as_str(), "exit" | "return")
        && status.is_none_or(|status| status.source == "0" || variable(status).is_some())
}

/// Whether a command checks that lines are in order: `sort -c FILE`.
fn is_order(simple: &Simple) -> bool {
    let words: Vec<&str> = simple.words.iter().map(|word| word.source.as_str()).collect();
    matches!(words.as_slice(), ["sort", rest @ ..] if rest.iter().any(|word| matches!(*word, "-c" | "-C" | "--check")))
}

/// Commands whose last word is a file that they read, if they have one.
const READERS: [&str; 14] =
    ["cat", "grep", "egrep", "fgrep", "jq", "yq", "head", "tail", "wc", "awk", "sed", "sort", "cut", "test"];

/// The file that a command reads, if it is one of `READERS`.
pub fn file_of(script: &Script, simple: &Simple) -> Option<String> {
    let (name, words) = simple.words.split_first()?;
    READERS.contains(&name.source.as_str()).then_some(())?;
    let takes = |word: &&Word| !word.source.starts_with('-');
    // The file comes after a pattern or a program.
    let before = usize::from(!matches!(name.source.as_str(), "cat" | "head" | "tail" | "wc" | "sort"));
    words.iter().filter(takes).nth(before)?;
    path(&script.text(words.last()?)?)
}

/// The text, if it is a path of plain characters, with or without a directory, outside of the system's directories.
pub fn path(text: &str) -> Option<String> {
    let text = text.trim_end_matches('/');
    let is_plain = text.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | '@' | '+' | ' '));
    let name = text.rsplit('/').next().unwrap_or_default();
    let is_own = ["/proc", "/sys", "/dev", "/usr", "/bin"].iter().any(|root| text.starts_with(root));
    let is_path = is_plain && !is_own && !matches!(name, "" | "." | "..") && !text.starts_with('-');
    is_path.then(|| text.to_owned())
}

/// A text that matches a glob with `?` or `[…]`, without what `*` stands for.
fn of_glob(glob: &str) -> Option<String> {
    glob.contains(['?', '[']).then_some(())?;
    let pattern = glob.chars().map(|c| match c {
        '*' => String::new(),
        '?' => "[a-z0-9]".to_owned(),
        '[' | ']' | '-' => c.to_string(),
        c => regex::escape(&c.to_string()),
    });
    Some(invert::sample(&pattern.collect::<String>(), true))
}

/// What a part of a glob stands for by itself; `None` if only a run knows it.
fn fixed(part: &Part) -> Option<String> {
    match part {
        Part::Text { text, quoted: true } => Some(text.clone()),
        Part::Text { text, .. } => Some(text.replace('*', "")),
        Part::Other => Some(String::new()),
        Part::Var { .. } | Part::Command { .. } => None,
    }
}

/// A document that also contains texts which a script searches it for. `None` if it is not an object, or contains them.
fn with_parts(document: &str, parts: &[&String]) -> Option<String> {
    let mut value: serde_json::Value = serde_json::from_str(document).ok()?;
    let object = value.as_object_mut()?;
    let missing: Vec<&&String> = parts.iter().filter(|part| !document.contains(part.as_str())).collect();
    if missing.is_empty() {
        return None;
    }
    for (nth, part) in missing.into_iter().enumerate() {
        // `"name"` is a key or a value.
        let key = part.strip_prefix('"').and_then(|part| part.strip_suffix('"')).filter(|key| !key.contains('"'));
        let (key, text) = key.map_or_else(|| (format!("more-{nth}"), part.as_str()), |key| (key.to_owned(), "some"));
        object.entry(key).or_insert_with(|| text.into());
    }
    Some(value.to_string())
}

/// The files that a command like `diff` compares.
pub fn compared_files(script: &Script, simple: &Simple) -> Option<[String; 2]> {
    let (name, words) = simple.words.split_first()?;
    let operands: Vec<&Word> = words.iter().filter(|word| !word.source.starts_with('-')).collect();
    let ([a, b], "diff" | "cmp") = (operands.as_slice(), name.source.as_str()) else { return None };
    Some([path(&script.text(a)?)?, path(&script.text(b)?)?])
}

/// Ways to read a text: the filters, and what the last one should print.
type Way<'a> = (&'a [Vec<String>], &'a Vec<String>);

/// The texts that are read without a filter, and for each first filter of the others the texts that it may read.
fn through(ways: &[Way<'_>]) -> (Vec<String>, Vec<Vec<String>>) {
    let mut plain = Vec::new();
    let mut groups: Vec<(&Vec<String>, Vec<Way<'_>>)> = Vec::new();
    for (filters, texts) in ways {
        let Some((first, rest)) = filters.split_first() else {
            plain.extend_from_slice(texts);
            continue;
        };
        match groups.iter_mut().find(|(known, _)| *known == first) {
            Some((_, group)) => group.push((rest, texts)),
            None => groups.push((first, vec![(rest, texts)])),
        }
    }
    let row = row(&groups);
    if row.is_some() {
        groups.retain(|(filter, _)| invert::field(filter).is_none());
    }
    let inputs = |(filter, group): (&Vec<String>, Vec<Way<'_>>)| {
        let (plain, filtered) = through(&group);
        let texts = if filtered.is_empty() { plain } else { [invert::combined(&filtered, &[]), plain].concat() };
        invert::inputs(filter, &texts)
    };
    // The rows that others look for have a number as well.
    let (counts, mut others): (Vec<_>, Vec<_>) =
        groups.into_iter().map(|group| (group.0[0] == "wc", inputs(group))).partition(|(is_count, _)| *is_count);
    others.extend(row.map(|row| (false, vec![row])));
    if others.is_empty() {
        return (plain, counts.into_iter().map(|(_, texts)| texts).collect());
    }
    plain.extend(counts.into_iter().flat_map(|(_, texts)| texts));
    (plain, others.into_iter().map(|(_, texts)| texts).collect())
}

/// One row for several filters that each print a field of it, such as `awk '{print $2}'`.
fn row(groups: &[(&Vec<String>, Vec<Way<'_>>)]) -> Option<String> {
    let mut fields: Vec<(usize, String, &str)> = Vec::new();
    for (filter, group) in groups {
        let Some((at, separator)) = invert::field(filter) else { continue };
        let [(rest, texts)] = group.as_slice() else { return None };
        fields.push((at, separator, rest.is_empty().then(|| texts.first())??));
    }
    let (_, separator, _) = fields.first().filter(|_| fields.len() > 1)?;
    let same = fields.iter().all(|(_, other, text)| other == separator && !text.contains(separator.as_str()));
    let width = fields.iter().map(|(at, ..)| *at).max().filter(|_| same)?;
    let value = |at| fields.iter().find(|(own, ..)| *own == at).map_or("a", |(.., text)| text);
    Some((1..=width).map(value).collect::<Vec<_>>().join(separator))
}

/// Whether a filter is `head -n 1` or `tail -n 1`, in any spelling.
fn is_one_line(filter: &[String], name: &str) -> bool {
    let words: Vec<&str> = filter.iter().skip(1).map(String::as_str).filter(|word| *word != "-").collect();
    filter[0] == name && matches!(words.as_slice(), ["-n", "1"] | ["-n1"] | ["-1"] | ["--lines=1"])
}

/// Whether a filter counts lines with a pattern.
fn is_count(filter: &[String]) -> bool {
    matches!(filter[0].as_str(), "grep" | "egrep" | "fgrep")
        && filter.iter().any(|word| matches!(word.as_str(), "-c" | "--count" | "-cE" | "-Ec" | "-cF" | "-cx"))
}

/// A line with the pattern of `grep`.
fn pattern_of(filter: &[String]) -> Option<String> {
    let has = |letter: char| filter.iter().any(|word| word.starts_with('-') && word.contains(letter));
    let pattern = filter.iter().skip(1).find(|word| !word.starts_with('-'))?;
    // Lines without it are another requirement.
    (!has('v')).then(|| if has('F') { pattern.clone() } else { invert::sample(pattern, has('E')) })
}

/// The output of `cat` for a file.
fn printed(path: &str) -> Source {
    Source::Command(cat(path))
}

fn cat(path: &str) -> Vec<String> {
    vec!["cat".to_owned(), path.to_owned()]
}

/// Some value for a variable.
pub fn some(name: &str) -> String {
    format!("some-{}", name.to_ascii_lowercase())
}

/// How many texts are tried for one command, at most.
const MANY: usize = 12;

/// The largest number of lines that a text is made of.
const MOST_LINES: usize = 50;

/// The longest text that is made for a script that counts characters.
const LONGEST: usize = 200;

/// The name in `${#NAME}`.
fn measured(word: &Word) -> Option<String> {
    let name = word.source.trim_matches('"').strip_prefix("${#")?.strip_suffix('}')?;
    ast::is_name(name).then(|| name.to_owned())
}

/// The name in `"$NAME"` or `"${NAME%%…}"`, if the word is nothing else.
fn variable(word: &Word) -> Option<String> {
    match word.parts.as_slice() {
        [Part::Var { name, .. }] => Some(name.clone()),
        [Part::Other] => {
            let inner = word.source.trim_matches('"').strip_prefix("${")?.strip_suffix('}')?;
            let name = &inner[..inner.find(['%', '#'])?];
            ast::is_name(name).then(|| name.to_owned())
        }
        _ => None,
    }
}

/// Visits a statement and all statements inside it.
pub fn walk(stmt: &Stmt, visit: &mut dyn FnMut(&Stmt)) {
    visit(stmt);
    stmt.lists().into_iter().flatten().for_each(|inner| walk(inner, visit));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first text that is wanted of each command.
    fn first(script: &str) -> Vec<String> {
        wishes(&[script.to_owned()]).into_values().map(|texts| texts[0].clone()).collect()
    }

    #[test]
    fn answers_that_a_script_requires_are_found() {
        let cases: [(&str, &[&str]); 39] = [
            ("if kubectl get x | jq -e 'any(.[]; .n <= 0)'; then exit 1; fi", &[r#"[{"n":1}]"#]),
            ("V=$(kubectl get x)\nif ! echo \"$V\" | grep -qw up; then exit 1; fi", &["up"]),
            ("if kubectl get x | grep -q up; then exit 1; fi\nkubectl get x | grep -q on", &["on"]),
            ("V=$(kubectl get x)\nif [ \"${#V}\" -lt 5 ]; then exit 1; fi", &["xxxxx"]),
            (
                "R=/srv/r\nF=$(head -n 1 \"$R\")\n[ \"$F\" = 'a 2' ] || exit 1\nfor w in 'b 1' 'c 1'; do\n  if ! grep -qx \"$w\" \"$R\"; then exit 1; fi\ndone",
                &["a 2\nb 1\nc 1"],
            ),
            ("if grep -q bad /srv/r; then exit 1; fi\ngrep -q a /srv/r && grep -q b /srv/r", &["a\nb"]),
            ("P=$(curl -sf http://a/b)\nV=$(echo \"$P\" | jq -r .v)\n[ \"$V\" = up ]", &[r#"{"v":"up"}"#]),
            ("A=$(kubectl get x)\n[ \"$A\" = up ] || exit 1", &["up"]),
            (
                "A=$(kubectl get x)\nB=$(kubectl get y)\nif [[ (\"$A\" == *\"a\"* && \"$A\" == *\"b c\"*) || (\"$B\" == *d*) ]]; then\n  exit 0\nfi\nexit 1",
                &["a b c", "d"],
            ),
            (
                "A=$(kubectl get x -o json | jq -e '.a == 1' >/dev/null && echo yes || echo no)\n[ $A = yes ]",
                &[r#"{"a":1}"#],
            ),
            (
                "J=$(kubectl get x -o json)\nN=$(echo \"$J\" | jq -r '.a')\nV=$(echo \"$J\" | jq -r --arg n \"$N\" '.b[] | select(.n == $n) | .v')\n[ \"$V\" = up ]",
                &[r#"{"b":[{"n":"some-n","v":"up"}],"a":"some-n"}"#],
            ),
            ("kubectl get x | grep -q -- --port", &["--port"]),
            ("G=$(kubectl get x)\nfor t in a b; do echo \"$G\" | grep -q \"$t\" || exit 1; done", &["a b"]),
            (
                "A=$(kubectl get x)\nB=$(kubectl get y | wc -l)\n[ \"$A\" = \"$B\" ]",
                &["3", "thing-0\nthing-1\nthing-2\n"],
            ),
            ("[ \"$(</srv/a)\" = up ] && grep -q down /srv/b", &["up", "down"]),
            ("[ \"$(kubectl get x | wc -l)\" -ge 2 ] || exit 1", &["thing-0\nthing-1\n"]),
            ("[ \"$(wc -l < f)\" -eq 3 ]\ngrep -qx ann f\ntail -n 1 f | grep -q '^eve$'", &["ann\nthing-0\neve\n"]),
            (
                "grep -q '^USER a$' f\ngrep -c '^RUN' f | grep -q '^1$'\n[ \"$(head -n 1 f)\" = 'FROM x' ]\n[ \"$(tail -1 f)\" = CMD ]",
                &["FROM x\nUSER a\nRUN\nCMD"],
            ),
            ("[ \"$(cat a)\" = up ]\ndiff -q a b", &["up", "up"]),
            (
                "J=$(kubectl get x -o json)\n[ \"$(echo \"$J\" | jq -r .a)\" = up ]\necho \"$J\" | grep -q '\"b\"'",
                &[r#"{"a":"up","b":"some"}"#],
            ),
            ("O=$(kubectl get x)\n[[ \"$O\" == *'a*b'* ]]", &["a*b"]),
            ("J=$(kubectl get x)\n[ \"$(jq -r .a <<<\"$J\")\" = up ]", &[r#"{"a":"up"}"#]),
            (
                "A=$(kubectl get x | jq .a)\nB=$(kubectl get x | jq .b)\nif [ $A -ne 80 ] || [ $B -lt 20 ]; then exit 1; fi",
                &[r#"{"a":80,"b":20}"#],
            ),
            ("W=$(printf '%s\\n' a b)\nA=$(kubectl get x)\n[ \"$A\" != \"$W\" ] && exit 1", &["a\nb"]),
            ("P=$(kubectl get x | jq '.a // empty')\n[ -n \"$P\" ]", &[r#"{"a":"some"}"#]),
            ("A=$(kubectl get x)\ncase \"$A\" in\n  *\"a b\"*) ;;\n  *) exit 1 ;;\nesac", &["a b"]),
            ("V=$(kubectl get x)\n[[ \"$V\" == v1.3[0-9].? ]] || exit 1", &["v1.31.a"]),
            ("[ \"$(sed -n 1p f)\" = a ]\n[ \"$(awk 'NR==3' f)\" = c ] || exit 1", &["a\nrow-1\nc"]),
            ("kubectl get x > /tmp/x\n[ \"$(jq -r .a /tmp/x)\" = up ]", &[r#"{"a":"up"}"#]),
            ("A=$(kubectl get x)\nB=$(kubectl get y)\n[ \"$A/$B\" = up/ready ]", &["up", "ready"]),
            (
                "rc=0\nerr() { echo \"$*\"; rc=1; }\ngrep -q bad f && err bad\nfor w in a b; do grep -q \"^$w\" f || err \"$w\"; done\nexit $rc",
                &["a\nb"],
            ),
            ("sort -c f || exit 1\ngrep -q b f\ngrep -q a f", &["a\nb\n"]),
            ("grep -q bad f && { echo bad; exit 1; }\ngrep -q ok f", &["ok"]),
            (
                "up() { for i in 1 2; do kubectl get y && return 0; done; return 1; }\nif kubectl get x | grep -q ok; then up; fi",
                &["ok"],
            ),
            ("rc=0\ncheck() { grep -q \"$1\" f; return $rc; }\ngrep -q ok f && check up || exit $?", &["ok"]),
            ("V=$(kubectl get x)\n[[ \"$V\" =~ ^up.*\\>\\ *5 ]] || exit 1", &["up>5"]),
            ("P=up\n[[ \"$P: $(kubectl get x) ($(kubectl get y))\" == 'up: 1 (2)' ]]", &["1", "2"]),
            (
                "read -r a b c < <(kubectl get x)\n[ \"$c\" = up ]\ncase \"$a\" in 0|1) ;; *) exit 1 ;; esac",
                &["0 a up"],
            ),
            ("IFS=, read -r a b <<< \"$(kubectl get x)\"\n[ \"$a\" = up ] && [ \"$b\" = on ]", &["up,on"]),
        ];
        for (script, wanted) in cases {
            assert_eq!(first(script), wanted, "{script}");
        }
    }
}
