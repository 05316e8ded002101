//! Commands that read the rest of the script that contains them.

use crate::{
    bash::program::{Kind, Program, Statement},
    diagnostic::{Diagnostic, Diagnostics},
    lint::{TaskView, script::Reader},
    rule,
};

rule! {
    pub static STDIN_EATING_COMMAND = "stdin-eating-command", Warning;
}

/// An inline script without `#!` is the shell's standard input, which every command in it inherits (`tests/coverage.md`
/// B16).
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    for script in view.scripts.iter().filter(|s| s.on_stdin) {
        let content = &script.content;
        for command in readers(&content.program) {
            let Some(name) = command.words().first() else { continue };
            let rest = content.text[command.range.end..].lines().skip(1).any(|l| !l.trim().is_empty());
            if !rest {
                continue;
            }
            let mut diagnostic = Diagnostic::new(
                &STDIN_EATING_COMMAND,
                content.span(name.range.clone()),
                format!("`{}` reads the rest of this script as its input", name.text),
            )
            .here("the shell reads the script from standard input, which this command inherits")
            .help("start the script with `#!`, so that it is executed as a file, or redirect the command's input from `/dev/null`");
            let shebang = if script.reader == Reader::Posix { "#!/bin/sh" } else { "#!/usr/bin/env bash" };
            if let Some((at, text)) = content.before_line(0, shebang) {
                diagnostic = diagnostic.fix(format!("start with `{shebang}`"), at, text);
            }
            out.push(diagnostic);
            // One fix corrects all of them.
            break;
        }
    }
}

/// Commands that read standard input and whose input is not redirected.
fn readers(program: &Program) -> Vec<&Statement> {
    let mut found = Vec::new();
    visit(&program.body, &mut found);
    found
}

fn visit<'p>(list: &'p [Statement], found: &mut Vec<&'p Statement>) {
    for statement in list.iter().filter(|s| !s.fed && !s.background) {
        if reads(statement) {
            found.push(statement);
        }
        if !matches!(statement.kind, Kind::Function { .. }) {
            statement.lists(&mut |l| visit(l, found));
        }
    }
}

fn reads(statement: &Statement) -> bool {
    let words: Vec<&str> = statement.words().iter().map(|w| w.text.as_str()).collect();
    let operands = || words[1..].iter().filter(|w| !w.starts_with('-')).count();
    match statement.tool() {
        "read" => !words.iter().any(|w| w.starts_with("-u")),
        "ssh" => !words[1..]
            .iter()
            .any(|w| w.starts_with('-') && !w.starts_with("--") && (w.contains('n') || w.contains('f'))),
        "cat" => operands() == 0 || words[1..].contains(&"-"),
        "sh" | "bash" | "python3" | "python" => words.len() == 1,
        "kubectl" | "docker" => {
            let interactive = |w: &str| matches!(w, "-i" | "-it" | "-ti" | "--stdin" | "--interactive");
            words.iter().any(|w| matches!(*w, "exec" | "run")) && words.iter().any(|w| interactive(w))
        }
        _ => false,
    }
}
