//! Variables that only name the outcome of a command: `ok=$(COMMAND && echo yes || echo no)`, then `if [ "$ok" = yes ]`. The test
//! becomes the command.

use super::{
    command::is_echo,
    statement::{counts_up, mentions, prints, reads, touches, words},
};
use crate::bash::{
    self,
    ast::{self, Kind, List, Part, Redirect, Stmt},
    tools,
};

/// The list, in which each such assignment is joined with the test after it. The range of the joined statement contains both.
pub fn joined(list: List) -> List {
    let mut out: List = Vec::new();
    let mut at = 0;
    while let Some(stmt) = list.get(at) {
        let asked = Outcome::of(stmt).and_then(|outcome| {
            let next = list.get(at + 1)?;
            let kind = outcome.asked(next)?;
            let comments = [stmt.comments.as_slice(), &next.comments].concat();
            let joined = Stmt { range: stmt.range.start..next.range.end, kind, comments, background: false };
            let read = mentions(&joined, outcome.name) || reads(&list[at + 2..], outcome.name);
            (!read && !next.background && next.range.start >= stmt.range.end).then_some(joined)
        });
        at += if asked.is_some() { 2 } else { 1 };
        out.push(asked.unwrap_or_else(|| stmt.clone()));
    }
    out
}

/// The list, in which a count of successes that must reach the number of checks is a count of failures: `A && n=$((n+1))` for each of
/// three, then `if [ "$n" -lt 3 ]; then exit 1; fi`.
pub fn scored(mut list: List) -> List {
    for at in 0..list.len() {
        if let Kind::Assign(assigns) = &list[at].kind
            && let [assign] = assigns.as_slice()
            && !assign.odd
            && !assign.export
            && assign.value.as_ref().is_some_and(|value| value.source == "0")
            && let Some(new) = failures(&list, at, &assign.name)
        {
            list = new;
        }
    }
    list
}

fn failures(list: &[Stmt], at: usize, name: &str) -> Option<List> {
    let touching = (0..list.len()).filter(|i| *i != at && touches(&list[*i], name) && !prints(&list[*i]));
    let touching: Vec<usize> = touching.collect();
    let (guard, counts) = touching.split_last()?;
    (*counts.first()? > at).then_some(())?;
    let mut new = list.to_vec();
    for i in counts {
        new[*i].kind = failing(&list[*i], name)?;
    }
    let enough = |test: &Stmt| {
        let Kind::Test(inner, double) = &test.kind else { return None };
        let words = words(inner)?;
        let [count, operator, limit] = words.as_slice() else { return None };
        (count.variable() == Some(name) && limit.literal()? == counts.len().to_string()).then_some(())?;
        let sign = match operator.source.as_str() {
            "-eq" | "-ge" | "=" | "==" => "=",
            "-ne" | "-lt" | "!=" => "!=",
            _ => return None,
        };
        Some(Stmt { kind: Kind::Test(format!("\"${name}\" {sign} 0"), *double), ..test.clone() })
    };
    let last = &mut new[*guard];
    match &mut last.kind {
        Kind::If { branches, .. } => {
            let [(condition, _)] = branches.as_mut_slice() else { return None };
            let [test] = condition.as_mut_slice() else { return None };
            *test = enough(test)?;
        }
        Kind::Or(pair) | Kind::And(pair) => pair[0] = enough(&pair[0])?,
        Kind::Test(..) => *last = enough(last)?,
        _ => return None,
    }
    Some(new)
}

/// `A && n=$((n+1))`, or the same with `if`, as a statement that sets `n` if `A` fails.
fn failing(stmt: &Stmt, name: &str) -> Option<Kind> {
    let counts = |s: &Stmt| match &s.kind {
        Kind::Assign(assigns) => matches!(assigns.as_slice(), [a] if a.name == name && counts_up(a)),
        _ => false,
    };
    let (condition, otherwise) = match &stmt.kind {
        Kind::And(pair) if counts(&pair[1]) => (&pair[0], Vec::new()),
        Kind::If { branches, otherwise } => {
            let [(condition, body)] = branches.as_slice() else { return None };
            let [condition] = condition.as_slice() else { return None };
            let otherwise = otherwise.clone().unwrap_or_default();
            let (count, rest): (Vec<&Stmt>, Vec<&Stmt>) = body.iter().partition(|s| counts(s));
            (count.len() == 1 && rest.into_iter().chain(&otherwise).all(prints)).then_some(())?;
            (condition, otherwise)
        }
        _ => return None,
    };
    (!touches(condition, name) && !stmt.background).then_some(())?;
    let value = Some(ast::Word::read("1", 0));
    let assign = ast::Assign { name: name.to_owned(), value, export: false, local: false, odd: false, array: None };
    let new = |kind| Stmt { range: stmt.range.clone(), kind, comments: Vec::new(), background: false };
    let body = otherwise.into_iter().chain([new(Kind::Assign(vec![assign]))]).collect();
    let fails = new(Kind::Not(Box::new(condition.clone())));
    Some(Kind::If { branches: vec![(vec![fails], body)], otherwise: None })
}

/// The outcome of a command, as a script names it.
struct Outcome<'s> {
    name: &'s str,
    command: Stmt,
    passed: String,
    failed: String,
}

impl<'s> Outcome<'s> {
    fn of(stmt: &'s Stmt) -> Option<Self> {
        let Kind::Assign(assigns) = &stmt.kind else { return None };
        let [assign] = assigns.as_slice() else { return None };
        let plain = !assign.odd && !assign.export && !assign.local && !stmt.background;
        let [Part::Command { text, .. }] = assign.value.as_ref().filter(|_| plain)?.parts.as_slice() else {
            return None;
        };
        let mut list = ast::read(&bash::parse(text)?)?;
        let Kind::Or(pair) = list.pop().filter(|_| list.is_empty())?.kind else { return None };
        let [both, failed] = *pair;
        let Kind::And(pair) = both.kind else { return None };
        let [command, passed] = *pair;
        let (passed, failed) = (printed(&passed)?, printed(&failed)?);
        (passed != failed && is_silent(&command)).then_some(Self { name: &assign.name, command, passed, failed })
    }

    /// The statement, with the command in place of a test of the variable.
    fn asked(&self, stmt: &Stmt) -> Option<Kind> {
        match &stmt.kind {
            Kind::If { branches, otherwise } => {
                let ((condition, body), more) = branches.split_first()?;
                let [condition] = condition.as_slice() else { return None };
                let first = (vec![self.instead_of(condition)?], body.clone());
                let branches = std::iter::once(first).chain(more.iter().cloned()).collect();
                Some(Kind::If { branches, otherwise: otherwise.clone() })
            }
            Kind::Or(pair) => Some(Kind::Or(Box::new([self.instead_of(&pair[0])?, pair[1].clone()]))),
            Kind::And(pair) => Some(Kind::And(Box::new([self.instead_of(&pair[0])?, pair[1].clone()]))),
            _ => None,
        }
    }

    fn instead_of(&self, test: &Stmt) -> Option<Stmt> {
        let Kind::Test(inner, double) = &test.kind else { return None };
        let words = words(inner)?;
        let [asked, operator, value] = words.as_slice() else { return None };
        let quoted = *double || asked.source.starts_with('"');
        (quoted && asked.variable() == Some(self.name)).then_some(())?;
        let value = value.literal()?;
        let passes = match operator.source.as_str() {
            "=" | "==" => value == self.passed,
            "!=" => value != self.passed,
            _ => return None,
        };
        (value == self.passed || value == self.failed).then_some(())?;
        let kind = if passes { self.command.kind.clone() } else { Kind::Not(Box::new(self.command.clone())) };
        Some(Stmt { kind, ..test.clone() })
    }
}

/// The word that `echo WORD` prints.
fn printed(stmt: &Stmt) -> Option<String> {
    let Kind::Simple(simple) = &stmt.kind else { return None };
    let [echo, word] = simple.words.as_slice() else { return None };
    let plain = echo.source == "echo" && simple.redirects.is_empty() && simple.env.is_empty();
    word.literal().filter(|word| plain && bash::is_safe(word) && !word.starts_with('-'))
}

/// Whether a command is a program that prints nothing to standard output. A function could end the substitution, and a builtin could
/// change the shell.
fn is_silent(stmt: &Stmt) -> bool {
    runs_programs(stmt) && prints_nothing(stmt)
}

fn runs_programs(stmt: &Stmt) -> bool {
    let is_program = |name: &str| tools::tool(name).is_some() || matches!(name, "test" | "[");
    match &stmt.kind {
        Kind::Simple(simple) => simple.words.first().is_some_and(|name| is_program(&name.source)),
        Kind::Pipeline(list) => {
            list.iter().all(|s| runs_programs(s) || matches!(&s.kind, Kind::Simple(simple) if is_echo(simple)))
        }
        Kind::Not(inner) => runs_programs(inner),
        Kind::Test(..) => true,
        _ => false,
    }
}

fn prints_nothing(stmt: &Stmt) -> bool {
    match &stmt.kind {
        Kind::Simple(simple) => {
            let discards = |redirect: &Redirect| matches!(redirect, Redirect::Discard(1 | 3));
            let quiet = |word: &ast::Word| matches!(word.source.as_str(), "-q" | "--quiet");
            let greps = simple.words.first().is_some_and(|name| name.source == "grep");
            simple.redirects.iter().any(discards) || greps && simple.words[1..].iter().any(quiet)
        }
        Kind::Pipeline(list) => list.last().is_some_and(prints_nothing),
        Kind::Not(inner) => prints_nothing(inner),
        Kind::Test(..) => true,
        _ => false,
    }
}
