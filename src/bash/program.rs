//! A script as statements, in the form that rules need, independent of the grammar's names. Owned, so that it outlives
//! the tree.

use std::ops::Range;

use tree_sitter::{Node, TreeCursor};

use super::{Script, Word};

/// Statements in the order written.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Program {
    pub body: Vec<Statement>,
    /// Whether the whole script was understood. Conclusions from the *absence* of something require this.
    pub sound: bool,
    /// The number of statements, with those inside others.
    pub size: usize,
    /// The words after each `set`.
    options: Vec<String>,
}

/// A statement, with the properties that rules ask for.
#[derive(Clone, PartialEq, Debug)]
pub struct Statement {
    pub range: Range<usize>,
    pub kind: Kind,
    /// Ends in `&`.
    pub background: bool,
    /// Whether its standard input is a file, a here-document or another command.
    pub fed: bool,
    /// Whether its standard output is a file.
    pub written: bool,
    /// The statements in its `$(…)`, `<(…)` and backticks.
    pub nested: Vec<Statement>,
}

/// What a statement is.
#[derive(Clone, PartialEq, Debug)]
pub enum Kind {
    Command(Vec<Word>),
    /// `NAME=value`.
    Assignment,
    /// `export`, `local`, `readonly`, `unset`: they succeed regardless of the substitutions in them.
    Declaration,
    /// `[ … ]`, `[[ … ]]`, `(( … ))`.
    Test,
    /// Never empty.
    Pipeline(Vec<Statement>),
    And(Box<[Statement; 2]>),
    Or(Box<[Statement; 2]>),
    Not(Box<Statement>),
    If {
        branches: Vec<Branch>,
        otherwise: Option<Vec<Statement>>,
    },
    Loop {
        repeat: Repeat,
        condition: Vec<Statement>,
        body: Vec<Statement>,
    },
    Case(Vec<Vec<Statement>>),
    Group(Vec<Statement>),
    Subshell(Vec<Statement>),
    Function {
        name: String,
        body: Vec<Statement>,
    },
    Unknown,
}

/// A branch of an `if` or `case`.
#[derive(Clone, PartialEq, Debug)]
pub struct Branch {
    pub condition: Vec<Statement>,
    pub body: Vec<Statement>,
}

/// What determines how often a loop runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Repeat {
    For,
    While,
    Until,
}

impl Statement {
    /// The words of a simple command; empty for other statements.
    pub fn words(&self) -> &[Word] {
        match &self.kind {
            Kind::Command(words) => words,
            _ => &[],
        }
    }

    /// The name of a simple command, without its directory; empty for other statements.
    pub fn name(&self) -> &str {
        // Every rule calls this for every command. Names are short.
        let text = self.words().first().map_or("", |w| w.text.as_str());
        &text[text.bytes().rposition(|byte| byte == b'/').map_or(0, |at| at + 1)..]
    }

    /// Like [`Self::name`], but with one common name for programs with the same command line: `kubectl` for `oc`
    /// ([`super::tools`]).
    pub fn tool(&self) -> &str {
        super::tools::canonical(self.name())
    }

    /// The name of the function defined here.
    pub fn function(&self) -> Option<&str> {
        match &self.kind {
            Kind::Function { name, .. } => Some(name),
            _ => None,
        }
    }

    /// Visits the statement lists inside this statement, substitutions last.
    pub fn lists<'s>(&'s self, visit: &mut dyn FnMut(&'s [Self])) {
        match &self.kind {
            Kind::Command(_) | Kind::Assignment | Kind::Declaration | Kind::Test | Kind::Unknown => {}
            Kind::Pipeline(list) | Kind::Group(list) | Kind::Subshell(list) => visit(list),
            Kind::Function { body, .. } => visit(body),
            Kind::And(pair) | Kind::Or(pair) => visit(pair.as_slice()),
            Kind::Not(inner) => visit(std::slice::from_ref(&**inner)),
            Kind::If { branches, otherwise } => {
                for branch in branches {
                    visit(&branch.condition);
                    visit(&branch.body);
                }
                visit(otherwise.as_deref().unwrap_or_default());
            }
            Kind::Loop { condition, body, .. } => {
                visit(condition);
                visit(body);
            }
            Kind::Case(arms) => arms.iter().for_each(|arm| visit(arm)),
        }
        if !self.nested.is_empty() {
            visit(&self.nested);
        }
    }

    /// Whether the statement contains no others. Most statements do not, and every rule walks through all of them.
    fn is_leaf(&self) -> bool {
        let simple =
            matches!(self.kind, Kind::Command(_) | Kind::Assignment | Kind::Declaration | Kind::Test | Kind::Unknown);
        simple && self.nested.is_empty()
    }

    fn lists_mut(&mut self) -> Vec<&mut [Self]> {
        let mut lists: Vec<&mut [Self]> = match &mut self.kind {
            Kind::Command(_) | Kind::Assignment | Kind::Declaration | Kind::Test | Kind::Unknown => Vec::new(),
            Kind::Pipeline(list) | Kind::Group(list) | Kind::Subshell(list) => vec![list],
            Kind::Function { body, .. } => vec![body],
            Kind::And(pair) | Kind::Or(pair) => vec![pair.as_mut_slice()],
            Kind::Not(inner) => vec![std::slice::from_mut(&mut **inner)],
            Kind::If { branches, otherwise } => {
                let branches = branches.iter_mut().flat_map(|b| [b.condition.as_mut_slice(), b.body.as_mut_slice()]);
                branches.chain(otherwise.as_deref_mut()).collect()
            }
            Kind::Loop { condition, body, .. } => vec![condition, body],
            Kind::Case(arms) => arms.iter_mut().map(Vec::as_mut_slice).collect(),
        };
        lists.push(&mut self.nested);
        lists
    }

    /// Whether this is `set -FLAG` or `set -o NAME`.
    pub fn sets(&self, flag: char, name: &str) -> bool {
        self.options().any(|option| is_option(option, flag, name))
    }

    /// The words after `set`.
    fn options(&self) -> impl Iterator<Item = &str> {
        let words = if self.name() == "set" { &self.words()[1..] } else { &[] };
        words.iter().map(|word| word.text.as_str())
    }

    /// Visits this statement and every statement inside it, in the order written.
    pub fn walk<'s>(&'s self, visit: &mut dyn FnMut(&'s Self)) {
        visit(self);
        if !self.is_leaf() {
            self.lists(&mut |list| list.iter().for_each(|s| s.walk(visit)));
        }
    }
}

impl Program {
    pub(super) fn new(body: Vec<Statement>, sound: bool) -> Self {
        let mut program = Self { body, sound, ..Self::default() };
        let (mut size, mut options) = (0, Vec::new());
        program.walk(&mut |s| {
            size += 1;
            options.extend(s.options().map(str::to_owned));
        });
        (program.size, program.options) = (size, options);
        program
    }

    /// Visits every statement and all statements inside it, outer ones first.
    pub fn walk<'s>(&'s self, visit: &mut dyn FnMut(&'s Statement)) {
        self.body.iter().for_each(|s| s.walk(visit));
    }

    /// Every simple command.
    pub fn commands(&self) -> Vec<&Statement> {
        let mut found = Vec::new();
        self.walk(&mut |s| {
            if !s.words().is_empty() {
                found.push(s);
            }
        });
        found
    }

    /// Marks words that contain `mark` as not literal, because a value is filled in there before the shell reads them.
    pub fn mark_filled(&mut self, mark: char) {
        fn visit(list: &mut [Statement], mark: char) {
            for statement in list {
                if let Kind::Command(words) = &mut statement.kind {
                    words.iter_mut().for_each(|w| w.literal &= !w.text.contains(mark));
                }
                statement.lists_mut().into_iter().for_each(|l| visit(l, mark));
            }
        }
        visit(&mut self.body, mark);
    }

    /// This program after the functions of another one, which it sources, and by how much the ranges of these are moved so that they
    /// differ from its own.
    pub fn sourcing(&self, other: &Self) -> (Self, usize) {
        fn shift(list: &mut [Statement], by: usize) {
            for statement in list {
                statement.range = statement.range.start + by..statement.range.end + by;
                statement.lists_mut().into_iter().for_each(|list| shift(list, by));
            }
        }
        let by = self.body.last().map_or(0, |last| last.range.end) + 1;
        let mut body: Vec<Statement> = other.body.iter().filter(|s| s.function().is_some()).cloned().collect();
        shift(&mut body, by);
        body.extend(self.body.iter().cloned());
        (Self::new(body, self.sound && other.sound), by)
    }

    /// Whether `set -e` (or `-o errexit`) occurs anywhere.
    pub fn stops_at_errors(&self) -> bool {
        self.sets('e', "errexit")
    }

    /// Whether `set -FLAG` or `set -o NAME` occurs anywhere.
    pub fn sets(&self, flag: char, name: &str) -> bool {
        self.options.iter().any(|option| is_option(option, flag, name))
    }
}

/// Whether a word after `set` sets an option, by its letter or its name.
fn is_option(word: &str, flag: char, name: &str) -> bool {
    word == name || word.starts_with('-') && !word.starts_with("--") && word.contains(flag)
}

/// The maximum nesting depth of statements. Deeper statements are not understood.
const DEPTH: usize = 100;

pub(super) fn read(script: &Script) -> Program {
    let root = script.root();
    let mut reader = Reader { script, cursor: root.walk(), sound: script.is_sound() };
    let body = reader.list(root, DEPTH);
    let sound = reader.sound && !body.iter().any(|s| crosses_lines(s, &script.text));
    Program::new(body, sound)
}

/// Whether the grammar read the next line as a continuation of this one. It may miss the end of a statement between
/// `… | wc -l` and `helm list && echo`, and look for another bracket after `[ $A -ge 3 ]`.
fn crosses_lines(statement: &Statement, text: &str) -> bool {
    let mut crosses = false;
    statement.walk(&mut |s| {
        crosses |= match &s.kind {
            Kind::Command(words) => {
                let broken = |between: &str| between.replace("\\\n", "").contains('\n');
                // After an assignment, the grammar may read the next line as the command.
                let before =
                    words.first().and_then(|word| text.get(s.range.start..word.range.start)).unwrap_or_default();
                broken(&before[before.trim_end_matches([' ', '\t', '\n', '\\']).len()..])
                    || words
                        .windows(2)
                        .any(|pair| broken(text.get(pair[0].range.end..pair[1].range.start).unwrap_or_default()))
            }
            Kind::Test => {
                let mut lines = text[s.range.clone()].lines().rev().skip(1);
                lines.any(|line| line.trim_end().ends_with(']'))
            }
            _ => false,
        };
    });
    crosses
}

struct Reader<'s> {
    script: &'s Script,
    /// Shared, because creating a cursor costs more than using it.
    cursor: TreeCursor<'s>,
    sound: bool,
}

impl<'s> Reader<'s> {
    fn children(&mut self, node: Node<'s>) -> Vec<Node<'s>> {
        node.children(&mut self.cursor).collect()
    }

    fn has_token(&mut self, node: Node<'s>, token: &str) -> bool {
        node.children(&mut self.cursor).any(|c| c.kind() == token)
    }

    /// The statements among the children of a node.
    fn list(&mut self, node: Node<'s>, depth: usize) -> Vec<Statement> {
        let mut list: Vec<Statement> = Vec::new();
        for child in self.children(node) {
            if child.kind() == "&" {
                if let Some(last) = list.last_mut() {
                    last.background = true;
                    last.range.end = child.end_byte();
                }
            } else if is_statement(child) {
                list.push(self.statement(child, depth));
            } else if child.is_error() {
                list.push(plain(child, Kind::Unknown));
            }
        }
        list
    }

    fn statement(&mut self, node: Node<'s>, depth: usize) -> Statement {
        let Some(depth) = depth.checked_sub(1) else {
            self.sound = false;
            return plain(node, Kind::Unknown);
        };
        let kind = match node.kind() {
            "command" => return self.command(node, depth),
            "redirected_statement" => return self.redirected(node, depth),
            "variable_assignment" | "variable_assignments" => {
                return Statement { nested: self.substitutions(node, depth), ..plain(node, Kind::Assignment) };
            }
            "declaration_command" | "unset_command" => {
                return Statement { nested: self.substitutions(node, depth), ..plain(node, Kind::Declaration) };
            }
            "test_command" => return Statement { nested: self.substitutions(node, depth), ..plain(node, Kind::Test) },
            "pipeline" => match pipeline(self.list(node, depth)) {
                Some(pipeline) => return pipeline,
                None => self.unknown(),
            },
            "list" => {
                let and = self.has_token(node, "&&");
                match <[Statement; 2]>::try_from(self.list(node, depth)) {
                    Ok(pair) if and => Kind::And(Box::new(pair)),
                    Ok(pair) => Kind::Or(Box::new(pair)),
                    Err(_) => self.unknown(),
                }
            }
            "negated_command" => match self.list(node, depth).pop() {
                Some(inner) => Kind::Not(Box::new(inner)),
                None => self.unknown(),
            },
            "if_statement" => self.conditional(node, depth),
            "while_statement" => {
                let repeat = if self.has_token(node, "until") { Repeat::Until } else { Repeat::While };
                let condition = self.fields(node, "condition", depth);
                Kind::Loop { repeat, condition, body: self.body(node, depth) }
            }
            "for_statement" | "c_style_for_statement" => {
                let body = node.child_by_field_name("body").map(|body| body.start_byte());
                let kind = Kind::Loop { repeat: Repeat::For, condition: Vec::new(), body: self.body(node, depth) };
                let mut nested = Vec::new();
                for word in
                    self.children(node).into_iter().filter(|child| body.is_some_and(|at| child.end_byte() <= at))
                {
                    match word.kind() {
                        "command_substitution" | "process_substitution" => nested.extend(self.list(word, depth)),
                        _ => nested.extend(self.substitutions(word, depth)),
                    }
                }
                return Statement { nested, ..plain(node, kind) };
            }
            "case_statement" => {
                let items: Vec<_> = self.children(node).into_iter().filter(|c| c.kind() == "case_item").collect();
                Kind::Case(items.into_iter().map(|item| self.list(item, depth)).collect())
            }
            // In the grammar, `(( … ))` is a compound statement.
            "compound_statement" if self.has_token(node, "((") => Kind::Test,
            "compound_statement" => Kind::Group(self.list(node, depth)),
            "subshell" => Kind::Subshell(self.list(node, depth)),
            "function_definition" => {
                let name = node.child_by_field_name("name").map(|n| self.script.text(n).to_owned()).unwrap_or_default();
                let body = node.child_by_field_name("body").map(|b| vec![self.statement(b, depth)]);
                Kind::Function { name, body: body.unwrap_or_default() }
            }
            _ => self.unknown(),
        };
        plain(node, kind)
    }

    fn unknown(&mut self) -> Kind {
        self.sound = false;
        Kind::Unknown
    }

    fn command(&mut self, node: Node<'s>, depth: usize) -> Statement {
        let children = self.children(node);
        let fed = children.iter().any(|c| feeds(*c, self.script));
        let kind = Kind::Command(self.script.words_of(&children));
        Statement { fed, nested: self.substitutions(node, depth), ..plain(node, kind) }
    }

    fn redirected(&mut self, node: Node<'s>, depth: usize) -> Statement {
        let mut inner = match node.child_by_field_name("body") {
            Some(body) => self.statement(body, depth),
            // Only redirections: `> file`.
            None => plain(node, Kind::Assignment),
        };
        let lost = self.script.lost_words(node);
        let target = last(&mut inner, node.end_byte());
        if let (Some(lost), Kind::Command(words)) = (lost, &mut target.kind) {
            words.extend(lost.into_iter().map(|range| Word { text: "-".to_owned(), range, literal: true }));
        }
        let mut next = None;
        for redirect in self.children(node).into_iter().filter(|c| c.kind().ends_with("_redirect")) {
            target.fed |= feeds(redirect, self.script);
            target.written |= redirect.kind() == "file_redirect" && self.script.text(redirect).contains('>');
            if redirect.kind() != "heredoc_redirect" {
                target.nested.extend(self.substitutions(redirect, depth));
                continue;
            }
            // In the grammar, the text after `<<EOF` on the same line is part of the here-document.
            for file in self.children(redirect).into_iter().filter(|c| c.kind() == "file_redirect") {
                target.written |= self.script.text(file).contains('>');
                target.nested.extend(self.substitutions(file, depth));
            }
            let operator = redirect.child_by_field_name("operator").map(|o| self.script.text(o).to_owned());
            let right = redirect.child_by_field_name("right");
            let more = self.children(redirect).into_iter().find(|c| c.kind() == "pipeline");
            if let (Some(operator), Some(right)) = (operator, right) {
                next = Some((operator, self.statement(right, depth)));
            }
            if let Some(arguments) =
                Some(redirect.children_by_field_name("argument", &mut self.cursor).collect::<Vec<_>>())
                && let Kind::Command(words) = &mut target.kind
            {
                words.extend(arguments.into_iter().map(|a| self.script.word(a)));
            }
            for body in self.children(redirect).into_iter().filter(|c| c.kind() == "heredoc_body") {
                target.nested.extend(self.substitutions(body, depth));
            }
            if let Some(more) = more {
                // `cat <<EOF | kubectl apply && echo`: in the tree, the rest of the line is below the pipe.
                let first = std::mem::replace(target, plain(node, Kind::Unknown));
                let Range { start, end } = first.range;
                *target = self.list(more, depth).into_iter().fold(first, piped);
                target.range = start..end.max(target.range.end);
            }
        }
        if let Some((operator, right)) = next {
            let first = std::mem::replace(&mut inner, plain(node, Kind::Unknown));
            let pair = Box::new([first, right]);
            inner.kind = if operator == "&&" { Kind::And(pair) } else { Kind::Or(pair) };
        }
        inner
    }

    fn conditional(&mut self, node: Node<'s>, depth: usize) -> Kind {
        let mut branches = vec![self.branch(node, depth)];
        let mut otherwise = None;
        for child in self.children(node) {
            match child.kind() {
                "elif_clause" => branches.push(self.branch(child, depth)),
                "else_clause" => otherwise = Some(self.list(child, depth)),
                _ => {}
            }
        }
        Kind::If { branches, otherwise }
    }

    /// Conditions are the statements before `then`; the body comes after it.
    fn branch(&mut self, node: Node<'s>, depth: usize) -> Branch {
        let then = node.children(&mut self.cursor).find(|c| c.kind() == "then");
        let then = then.map_or(node.start_byte(), |t| t.start_byte());
        let (condition, body) = self.list(node, depth).into_iter().partition(|s| s.range.start < then);
        Branch { condition, body }
    }

    fn fields(&mut self, node: Node<'s>, name: &str, depth: usize) -> Vec<Statement> {
        let found = node.children_by_field_name(name, &mut self.cursor).filter(|c| is_statement(*c));
        let found: Vec<_> = found.collect();
        found.into_iter().map(|c| self.statement(c, depth)).collect()
    }

    fn body(&mut self, node: Node<'s>, depth: usize) -> Vec<Statement> {
        node.child_by_field_name("body").map(|b| self.list(b, depth)).unwrap_or_default()
    }

    /// The statements of the substitutions in a node's words.
    fn substitutions(&mut self, node: Node<'s>, depth: usize) -> Vec<Statement> {
        let mut found = Vec::new();
        // Most statements contain none of the characters that start a substitution.
        if !self.script.text(node).contains(['(', '`']) {
            return found;
        }
        let mut open = vec![node];
        while let Some(node) = open.pop() {
            for child in self.children(node).into_iter().rev() {
                if matches!(child.kind(), "command_substitution" | "process_substitution") {
                    found.extend(self.list(child, depth));
                } else {
                    open.push(child);
                }
            }
        }
        found.sort_by_key(|s: &Statement| s.range.start);
        found
    }
}

/// The command that redirections after a statement belong to: the last one in it. In the grammar, they belong to the whole
/// list or pipeline.
fn last(statement: &mut Statement, end: usize) -> &mut Statement {
    statement.range.end = end;
    if matches!(&statement.kind, Kind::Not(inner) if matches!(inner.kind, Kind::Pipeline(_))) {
        return match statement.kind {
            Kind::Not(ref mut inner) => last(inner, end),
            _ => statement,
        };
    }
    match statement.kind {
        Kind::Pipeline(ref mut parts) => {
            let at = parts.len() - 1;
            last(&mut parts[at], end)
        }
        Kind::And(ref mut pair) | Kind::Or(ref mut pair) => last(&mut pair[1], end),
        _ => statement,
    }
}

/// Joins parts into a pipeline. `! a | b` negates the whole pipeline, but the grammar attaches the `!` to the first
/// part.
pub(super) fn pipeline(parts: Vec<Statement>) -> Option<Statement> {
    parts.into_iter().reduce(piped)
}

/// Pipes the output of one statement into the next. Where the grammar has a list or a pipeline on one side of the pipe,
/// only the command next to the pipe is part of it.
fn piped(left: Statement, right: Statement) -> Statement {
    let range = left.range.start..right.range.end;
    let kind = match (left.kind, right.kind) {
        (Kind::And(pair), kind) => Kind::And(Box::new(behind(*pair, Statement { kind, ..right }))),
        (Kind::Or(pair), kind) => Kind::Or(Box::new(behind(*pair, Statement { kind, ..right }))),
        (kind, Kind::And(pair)) => Kind::And(Box::new(before(Statement { kind, ..left }, *pair))),
        (kind, Kind::Or(pair)) => Kind::Or(Box::new(before(Statement { kind, ..left }, *pair))),
        (Kind::Not(mut inner), kind) => {
            // The redirections `<` and `>` of `! a` belong to the command.
            inner.fed |= left.fed;
            inner.written |= left.written;
            inner.nested.extend(left.nested);
            Kind::Not(Box::new(piped(*inner, Statement { kind, ..right })))
        }
        (kind, more) => {
            let mut parts = match kind {
                Kind::Pipeline(parts) => parts,
                kind => vec![Statement { kind, ..left }],
            };
            let first = parts.len();
            match more {
                Kind::Pipeline(more) => parts.extend(more),
                kind => parts.push(Statement { kind, ..right }),
            }
            parts[first..].iter_mut().take(1).for_each(|p| p.fed = true);
            Kind::Pipeline(parts)
        }
    };
    Statement { range, kind, background: false, fed: false, written: false, nested: Vec::new() }
}

fn behind([first, second]: [Statement; 2], right: Statement) -> [Statement; 2] {
    [first, piped(second, right)]
}

fn before(left: Statement, [first, second]: [Statement; 2]) -> [Statement; 2] {
    [piped(left, first), second]
}

fn plain(node: Node<'_>, kind: Kind) -> Statement {
    Statement { range: node.byte_range(), kind, background: false, fed: false, written: false, nested: Vec::new() }
}

/// Whether a redirection provides standard input.
fn feeds(node: Node<'_>, script: &Script) -> bool {
    match node.kind() {
        "heredoc_redirect" | "herestring_redirect" => true,
        "file_redirect" => script.text(node).trim_start_matches('0').starts_with('<'),
        _ => false,
    }
}

fn is_statement(node: Node<'_>) -> bool {
    matches!(
        node.kind(),
        "command"
            | "redirected_statement"
            | "variable_assignment"
            | "variable_assignments"
            | "declaration_command"
            | "unset_command"
            | "test_command"
            | "pipeline"
            | "list"
            | "negated_command"
            | "if_statement"
            | "while_statement"
            | "for_statement"
            | "c_style_for_statement"
            | "case_statement"
            | "compound_statement"
            | "subshell"
            | "function_definition"
    )
}
