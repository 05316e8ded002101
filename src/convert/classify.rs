//! Counts statements with its own view of a script: which are effective, and which still need a shell after conversion. The
//! lifter keeps its own counts; a test compares both.

use std::collections::HashSet;

use super::Tally;
use crate::{
    bash::{
        self,
        program::{Kind, Program, Statement},
    },
    hir::{Arg, ArgKind, Name, Part, Task, Template},
    template,
};

/// What a line of shell begins with if each command of its pipeline must succeed.
pub const PIPEFAIL: &str = "set -o pipefail; ";

/// Commands that change nothing outside the script and report nothing about the environment.
const IDLE: [&str; 19] = [
    "exit", "return", "set", "true", ":", "break", "continue", "shift", "source", ".", "cd", "trap", "local", "export",
    "declare", "readonly", "wait", "unset", "shopt",
];

/// Returns the functions that are called exactly once, as a statement of their own. Their bodies count in place of the
/// call.
pub fn called_once(program: &Program) -> HashSet<String> {
    let mut names = HashSet::new();
    program.walk(&mut |s| {
        if let Kind::Function { name, .. } = &s.kind {
            names.insert(name.clone());
        }
    });
    let mut calls: Vec<&str> = Vec::new();
    program.walk(&mut |s| {
        if let Some(first) = s.words().first() {
            calls.push(&first.text);
        }
        // `trap f EXIT` is a call as well.
        if s.name() == "trap" {
            calls.extend(s.words().iter().skip(1).map(|w| w.text.as_str()));
        }
    });
    let plain: HashSet<&str> = program
        .body
        .iter()
        .filter(|s| matches!(s.kind, Kind::Command(_)) && !s.background)
        .filter_map(|s| s.words().first().map(|w| w.text.as_str()))
        .collect();
    names.retain(|n| calls.iter().filter(|c| **c == n.as_str()).count() == 1 && plain.contains(n.as_str()));
    names
}

/// Returns the number of effective statements of a script.
pub fn effective(text: &str) -> usize {
    if is_foreign(text) {
        return 1;
    }
    match bash::program(text) {
        Some(program) => count(&program.body, &called_once(&program)),
        None => 0,
    }
}

/// Returns the number of effective statements of a part of a script, in which the functions `once` count where they are
/// called.
pub fn effective_in(text: &str, once: &HashSet<String>) -> usize {
    if is_foreign(text) {
        return 1;
    }
    bash::program(text).map_or(0, |program| count(&program.body, once))
}

/// A script in another language is one statement.
fn is_foreign(text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    first.starts_with("#!") && !first.split([' ', '/']).any(|w| matches!(w, "bash" | "sh" | "dash" | "zsh" | "ksh"))
}

fn count(list: &[Statement], once: &HashSet<String>) -> usize {
    list.iter().map(|s| one(s, once)).sum()
}

fn one(s: &Statement, once: &HashSet<String>) -> usize {
    match &s.kind {
        Kind::Command(words) => {
            let nested = usize::from(count(&s.nested, once) > 0);
            let name = s.name();
            if words.is_empty() || IDLE.contains(&name) || once.contains(name) {
                return nested;
            }
            if matches!(name, "echo" | "printf") && !s.written {
                return nested;
            }
            1
        }
        Kind::Assignment | Kind::Declaration => usize::from(count(&s.nested, once) > 0),
        Kind::Test => 1,
        Kind::Pipeline(parts) => usize::from(parts.iter().any(|p| one(p, once) > 0)),
        Kind::And(pair) | Kind::Or(pair) => count(pair.as_slice(), once),
        Kind::Not(inner) => one(inner, once),
        Kind::If { branches, otherwise } => {
            branches.iter().map(|b| count(&b.condition, once) + count(&b.body, once)).sum::<usize>()
                + otherwise.as_ref().map_or(0, |o| count(o, once))
        }
        // Pauses between two rounds are part of the loop.
        Kind::Loop { condition, body, .. } => {
            let pauses = body.iter().filter(|s| s.name() == "sleep").count();
            count(condition, once) + count(body, once) - pauses
        }
        // It tests its word, as a test does.
        Kind::Case(arms) => 1 + arms.iter().map(|a| count(a, once)).sum::<usize>(),
        Kind::Group(list) | Kind::Subshell(list) => count(list, once),
        Kind::Function { name, body } => {
            if once.contains(name) {
                count(body, once)
            } else {
                0
            }
        }
        Kind::Unknown => 1,
    }
}

/// Returns how many statements of a converted task still need a shell, counted in its text and in the scripts it names.
/// `once` is that of the original scripts.
pub fn residual(task: &Task<template::Path>, once: &HashSet<String>, file: &dyn Fn(&str) -> Option<String>) -> usize {
    let mut found = 0;
    task.walk(&mut |_, step| {
        let text = |key: &str| match step.arg(key).map(|a| &a.kind) {
            Some(ArgKind::Text(t)) => Some(shell_text(t)),
            _ => None,
        };
        match step.op.value.as_str() {
            "script" => {
                let script = text("inline").or_else(|| text("file").and_then(|f| file(&f)));
                found += script.map_or(1, |t| effective_in(&own(&t), once));
            }
            "command" => {
                let run = text("run").map(|run| with_variables(&run, &task.env, step.arg("env")));
                found += run.map_or(0, |run| usize::from(!is_simple(&run)).max(residual_run(&run)));
            }
            _ => {}
        }
    });
    found
}

/// Returns the line of a script that reads a value from the file whose path is in `NAME_FILE`.
pub fn from_file(name: &str) -> String {
    format!("{name}=$(cat \"${name}_FILE\")\n")
}

/// Returns a script without the lines that a conversion has added at the top.
fn own(script: &str) -> String {
    let is_own = |line: &&str| line.split_once('=').is_none_or(|(name, _)| *line != from_file(name));
    script.split_inclusive('\n').filter(is_own).collect()
}

fn residual_run(run: &str) -> usize {
    if is_simple(run) { 0 } else { effective(run) }
}

/// Replaces every variable that the task or the step itself sets with a word.
fn with_variables(run: &str, all: &[(Name, Template<template::Path>)], own: Option<&Arg<template::Path>>) -> String {
    let mut names: Vec<&str> = all.iter().map(|(name, _)| name.value.as_str()).collect();
    if let Some(ArgKind::Record(fields)) = own.map(|env| &env.kind) {
        names.extend(fields.iter().map(|(name, _)| name.value.as_str()));
    }
    names.sort_by_key(|name| std::cmp::Reverse(name.len()));
    names.iter().fold(run.to_owned(), |run, name| run.replace(&format!("${name}"), "HOLE"))
}

/// Returns the text as the shell gets it, with a word in place of every hole.
fn shell_text(template: &Template<template::Path>) -> String {
    let parts = template.parts.iter().map(|p| match p {
        Part::Text(text) => text.as_str(),
        Part::Hole(_) => "HOLE",
    });
    parts.collect()
}

/// Whether a shell text is one command of literal words, or one pipeline of such commands.
fn is_simple(run: &str) -> bool {
    let is_literal = |statement: &Statement| statement.words().iter().all(|word| word.literal);
    is_pipeline(run) && bash::program(run).is_some_and(|program| program.commands().into_iter().all(is_literal))
}

/// Whether a shell text is one command or one pipeline, which reads files or writes its output to one.
pub fn is_pipeline(run: &str) -> bool {
    let Some(script) = bash::parse(run.strip_prefix(PIPEFAIL).unwrap_or(run)) else { return false };
    let program = script.program();
    let [statement] = program.body.as_slice() else { return false };
    let parts = match &statement.kind {
        Kind::Pipeline(parts) => parts.as_slice(),
        _ => std::slice::from_ref(statement),
    };
    let is_command =
        |part: &Statement| matches!(part.kind, Kind::Command(_)) && !part.background && part.nested.is_empty();
    let plain = |text: &str| text.starts_with(['<', '>']) || text == "2>&1";
    program.sound
        && parts.iter().all(is_command)
        && script.of_kind("variable_assignment").is_empty()
        && script.of_kind("file_redirect").into_iter().all(|redirect| plain(script.text(redirect)))
        && ["heredoc_redirect", "herestring_redirect", "brace_expression", "extglob_pattern"]
            .iter()
            .all(|kind| script.of_kind(kind).is_empty())
}

/// Recomputes the tally of a conversion: what the scripts contained, and what still needs a shell in the result.
pub fn recount(scripts: &[String], result: &Task<template::Path>, file: &dyn Fn(&str) -> Option<String>) -> Tally {
    let mut once = HashSet::new();
    let mut effective = 0;
    for text in scripts {
        if is_foreign(text) {
            effective += 1;
        } else if let Some(program) = bash::program(text) {
            let own = called_once(&program);
            effective += count(&program.body, &own);
            once.extend(own);
        }
    }
    Tally { effective, residual: residual(result, &once, file), ..Tally::default() }
}
