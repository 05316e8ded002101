//! Deletions that delete nothing, and deletions in verify.

use rustc_hash::FxHashSet;

use crate::{
    bash::{program::Statement, tools},
    diagnostic::{Diagnostic, Diagnostics},
    hir::PhaseKind,
    lint::TaskView,
    rule,
};

rule! {
    pub static GLOB_IN_DELETE = "glob-in-delete", Warning;
    pub static VERIFY_DELETES = "verify-deletes", Warning;
}

/// `kubectl delete pod web-*`: kubectl does not expand patterns in names (author mistake 4). Also `rm "dir/*"`.
pub fn glob(view: &TaskView<'_>, out: &mut Diagnostics) {
    for script in view.scripts {
        for command in script.content.program.commands() {
            if command.name() == "rm" {
                for word in &command.words()[1..] {
                    let source = script.content.text.get(word.range.clone()).unwrap_or_default();
                    let quoted = source.len() > 2
                        && source.ends_with(['"', '\''])
                        && source.trim_end_matches(['"', '\'']).ends_with('*');
                    if quoted {
                        out.push(
                            Diagnostic::new(
                                &GLOB_IN_DELETE,
                                script.content.span(word.range.clone()),
                                "`*` is not expanded in quotes: no file has this name",
                            )
                            .help("move `*` out of the quotes: `\"$DIR\"/*`"),
                        );
                    }
                }
                continue;
            }
            let Some(delete) = delete(command) else { continue };
            let words = &command.words()[delete + 1..];
            let mut before = "";
            for word in words {
                let of_flag = word.text.starts_with('-') || before.starts_with('-') && !before.contains('=');
                before = &word.text;
                if !of_flag && word.literal && word.text.contains(['*', '?']) && !word.text.contains('/') {
                    out.push(
                        Diagnostic::new(
                            &GLOB_IN_DELETE,
                            script.content.span(word.range.clone()),
                            format!("`{}` is a literal name for `{}`, not a pattern", word.text, command.name()),
                        )
                        .here("no resource has this name")
                        .help("list the names with `get -o name` and a filter, or delete by label: `-l KEY=VALUE`"),
                    );
                }
            }
        }
    }
}

/// Verify that changes what it checks (author mistake 5). A script may delete what it created itself.
pub fn in_verify(view: &TaskView<'_>, out: &mut Diagnostics) {
    let scripts = || view.scripts.iter().filter(|s| s.phase == PhaseKind::Verify);
    if !scripts().any(|script| script.content.text.contains("delete")) {
        return;
    }
    // Another step of verify may have created it.
    let all: Vec<&Statement> = scripts().flat_map(|script| script.content.program.commands()).collect();
    let named: FxHashSet<&str> = names_made(&all).into_iter().collect();
    for script in scripts() {
        let content = &script.content;
        let commands = content.program.commands();
        let made = names_made(&commands);
        let makes_unnamed = made.contains(&"-f");
        let is_own = |text: &str| text.len() > 2 && named.contains(text);
        let mut report = |range: std::ops::Range<usize>| {
            out.push(
                Diagnostic::new(&VERIFY_DELETES, content.span(range), "verify deletes what it checks")
                    .help("delete it in cleanup, which always runs; until then, you can inspect a failed task"),
            );
        };
        for command in commands {
            if command.name() == "trap" {
                let deletes = command.words().get(1).is_some_and(|w| deletes_in(&w.text, &is_own) && !makes_unnamed);
                if deletes && command.words().iter().any(|w| w.text == "EXIT") {
                    report(command.range.clone());
                }
                continue;
            }
            let Some(at) = delete(command) else { continue };
            // `pod NAME`, `pod/NAME`
            let words = &command.words()[at + 1..];
            let named =
                words.iter().enumerate().filter(|(i, w)| *i > 0 && !w.text.starts_with('-') || w.text.contains('/'));
            let names: Vec<&str> = named.map(|(_, w)| w.text.rsplit('/').next().unwrap_or_default()).collect();
            if names.is_empty() || makes_unnamed || names.iter().any(|n| is_own(n)) || tools::is_dry(command.words()) {
                continue;
            }
            report(command.range.clone());
        }
    }
}

/// The words of the commands that create something.
fn names_made<'s>(commands: &[&'s Statement]) -> Vec<&'s str> {
    const MAKES: [&str; 5] = ["create", "run", "apply", "install", "expose"];
    let makes = |command: &&&Statement| command.words().iter().any(|word| MAKES.contains(&word.text.as_str()));
    commands.iter().filter(makes).flat_map(|command| command.words().iter().map(|word| word.text.as_str())).collect()
}

/// Whether the text of a trap deletes something that the script did not create.
fn deletes_in(text: &str, is_own: &dyn Fn(&str) -> bool) -> bool {
    let words: Vec<&str> = text.split(|c: char| c.is_whitespace() || c == ';').collect();
    let at = words.iter().position(|w| *w == "delete");
    at.is_some_and(|at| {
        let tool = words[..at].iter().any(|w| tools::canonical(w) == "kubectl");
        tool && !words[at + 1..].iter().any(|w| is_own(w))
    })
}

/// The index of the verb in a command that deletes.
fn delete(command: &Statement) -> Option<usize> {
    if command.tool() != "kubectl" {
        return None;
    }
    let at = command.words().iter().position(|w| w.text == "delete")?;
    // `kubectl -n NS delete`, but not `kubectl auth can-i delete`.
    let between = &command.words()[1..at];
    let mut flag = false;
    let only_flags = between.iter().all(|w| {
        let fits = w.text.starts_with('-') || flag;
        flag = w.text.starts_with('-') && !w.text.contains('=');
        fits
    });
    (only_flags && command.words().len() > at + 1).then_some(at)
}
