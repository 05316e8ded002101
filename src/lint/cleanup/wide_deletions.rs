//! Deletions that reach further than what the task creates: a pattern in a shared directory, everything of a kind, a path that
//! begins with a variable that may be empty.

use crate::{
    bash,
    diagnostic::{Diagnostic, Diagnostics},
    effects::{
        Followed, Verb,
        shell::Run,
        value::{Piece, Value},
    },
    hir::PhaseKind,
    lint::{
        TaskView,
        analysis::texts,
        cleanup::{foreign_deletions::DELETES_FOREIGN_RESOURCE, released::RESOURCE_NOT_RELEASED, selected_deletions},
    },
};

pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    listed(view, out);
    for (kind, span) in selected_deletions::everything(view) {
        out.push(
            Diagnostic::new(
                &DELETES_FOREIGN_RESOURCE,
                span,
                format!("this deletes every {kind}, not only those of the task"),
            )
            .help("delete by name what the task created, or use a label that only its own resources have"),
        );
    }
    for script in view.effects.scripts.iter().filter(|script| script.view.phase != PhaseKind::Verify) {
        for run in script.trace.runs.iter().filter(|run| removes_folders(run)) {
            // A word that expands to several has no place of its own.
            if run.words.len() != run.statement.words().len() {
                continue;
            }
            for (word, written) in run.words.iter().zip(run.statement.words()).skip(1) {
                let place = written.range.clone();
                let globbed = run.content.text.get(place.clone()).is_some_and(|source| source.ends_with('*'));
                let finding = match word.pieces() {
                    [Piece::Text(path), Piece::Unknown] if globbed => pattern(view, path),
                    [Piece::Name(name), Piece::Text(rest)] if rest == "/" => begins_unset(view, script, name, "/"),
                    [Piece::Name(name), Piece::Text(rest), Piece::Unknown] if rest == "/" && globbed => {
                        begins_unset(view, script, name, "/*")
                    }
                    _ => None,
                };
                let Some((message, help)) = finding else { continue };
                out.push(Diagnostic::new(&DELETES_FOREIGN_RESOURCE, run.content.span(place), message).help(help));
            }
        }
    }
}

/// `gh issue list` in cleanup, whose results are deleted: without the label that each run gives its own issues, these are all issues
/// of the repository; without `--state all`, only the open ones.
fn listed(view: &TaskView<'_>, out: &mut Diagnostics) {
    const FILTERS: [&str; 12] = [
        "--label",
        "-l",
        "--search",
        "-S",
        "--author",
        "-A",
        "--assignee",
        "-a",
        "--milestone",
        "-m",
        "--mention",
        "--app",
    ];
    let said = view.effects.prompt.shown().to_lowercase();
    let of = |phase: PhaseKind| view.effects.scripts.iter().filter(move |script| script.view.phase == phase);
    let created: Vec<&Run<'_>> = of(PhaseKind::Setup)
        .flat_map(|script| &script.trace.runs)
        .filter(|run| {
            let words: Vec<&str> = run.words.iter().take(3).filter_map(Value::literal).collect();
            matches!(words.as_slice(), ["gh", "issue", "create"])
        })
        .collect();
    let has_label = |run: &&Run<'_>| {
        run.words
            .iter()
            .filter_map(Value::literal)
            .any(|word| matches!(word, "--label" | "-l") || word.starts_with("--label="))
    };
    let labelled = !created.is_empty() && created.iter().all(has_label);
    for script in of(PhaseKind::Cleanup) {
        for run in script.trace.runs.iter().filter(|run| run.statement.name() == "gh") {
            let words: Vec<&str> = run.words.iter().map(|word| word.literal().unwrap_or_default()).collect();
            let &[_, kind @ ("issue" | "pr"), "list", ref rest @ ..] = words.as_slice() else { continue };
            let ends = if kind == "issue" { "delete" } else { "close" };
            if !script.view.content.text.contains(&format!("gh {kind} {ends}")) {
                continue;
            }
            let has =
                |options: &[&str]| rest.iter().any(|word| options.contains(&word.split('=').next().unwrap_or(word)));
            let span = run.content.span(run.statement.range.clone());
            // A filter selects those of the task.
            let selects = script.view.content.text.contains("select(");
            if !has(&FILTERS) && labelled && !selects {
                let message = format!("this lists every {kind} of the repository, not only those of the task");
                let help = "list only what has the label that setup gives: `--label …`";
                out.push(Diagnostic::new(&DELETES_FOREIGN_RESOURCE, span, message).help(help));
            }
            let closes = texts::has_word(&said, "close") || texts::has_word(&said, "closed");
            if kind == "issue" && closes && !has(&["--state", "-s", "--search", "-S"]) {
                let message = "this lists only open issues: those that the agent closes are never deleted";
                out.push(Diagnostic::new(&RESOURCE_NOT_RELEASED, span, message).help("add `--state all`"));
            }
        }
    }
}

fn removes_folders(run: &Run<'_>) -> bool {
    let recursive = |word: &str| {
        word == "--recursive" || word.starts_with('-') && !word.starts_with("--") && word.contains(['r', 'R'])
    };
    run.statement.name() == "rm" && run.words.iter().filter_map(Value::literal).any(recursive)
}

/// `rm -rf /tmp/tb-*`, where the task creates only `/tmp/tb-notes`. `begin` is the pattern without its last character.
fn pattern(view: &TaskView<'_>, begin: &str) -> Option<(String, String)> {
    let (folder, stem) = begin.rsplit_once('/')?;
    let (path, file) = (format!("{begin}*"), format!("{stem}*"));
    if !matches!(folder, "/tmp" | "/var/tmp" | "/home" | "/root" | "/opt" | "/srv") || stem.len() < 2 {
        return None;
    }
    let mut made: Vec<String> = Vec::new();
    for act in view.effects.acts.iter().filter(|act| act.verb == Verb::Creates && act.thing.system == "file") {
        let name = act.thing.name.as_ref()?;
        let shown = name.shown();
        let Some(rest) = shown.strip_prefix(begin) else { continue };
        // Only the directory or file directly in the shared directory.
        made.push(format!("{begin}{}", rest.split('/').next().unwrap_or_default()));
    }
    made.sort_unstable();
    made.dedup();
    let [only] = made.as_slice() else { return None };
    let bare = stem.trim_end_matches(['-', '_', '.']);
    // The task's own name makes the pattern its own, and others may be created under names that are not known.
    let named = texts::has_word(&view.task.name.value.replace(['-', '_', ' '], " "), bare);
    let said = view.effects.prompt.shown();
    let texts = crate::lint::analysis::facts::elsewhere(view);
    let all = [said.as_str(), texts.verify.as_str(), texts.rest.as_str()];
    let others = all.iter().flat_map(|text| text.match_indices(begin).map(|(at, _)| &text[at..])).any(|rest| {
        let part = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | '*'));
        let name =
            rest[folder.len() + 1..].split(part).next().unwrap_or_default().split('/').next().unwrap_or_default();
        name != file && name != stem && format!("{folder}/{}", name.trim_end_matches('.')) != *only
    });
    let bare_name = bare.len() > 1 && !named;
    if only.strip_prefix(begin).is_some_and(|rest| rest.starts_with("{random.")) && bare_name && !others {
        let message = format!("this deletes everything that matches `{path}`, also of other runs");
        return Some((message, format!("delete only what this run created: `{only}`")));
    }
    let random = only.contains(['{', '$']) || all.iter().any(|text| text.contains("mktemp"));
    (bare_name && *only != begin && !others && !random).then(|| {
        (
            format!("this deletes everything that matches `{path}`, but the task creates only `{only}`"),
            format!("delete by name what the task created: `rm -rf {only}`"),
        )
    })
}

/// `rm -rf $DIR/*`, where nothing sets the variable: without it, this is `rm -rf /*`.
fn begins_unset(view: &TaskView<'_>, script: &Followed<'_>, name: &str, rest: &str) -> Option<(String, String)> {
    let name = name.strip_prefix('$')?;
    let program = &script.view.content.program;
    let known = script.trace.sets.contains(name)
        || view.task.env.iter().any(|(known, _)| known.value == name)
        || script.view.step.arg("env").is_some_and(|env| env.get(name).is_some())
        || crate::lint::task::env::read_by_programs(name)
        || bash::sets_by_itself(name)
        || matches!(name, "HOME" | "TMPDIR" | "PWD" | "OLDPWD" | "RUNNER_TEMP" | "GITHUB_WORKSPACE")
        || script.trace.opaque
        || program.sets('u', "nounset");
    // `[ -n "$DIR" ] && rm -rf "$DIR"/*`.
    let text = &script.view.content.text;
    let tested = ["-n ", "-d ", "-e ", "-z "]
        .iter()
        .any(|test| ["\"$", "$", "\"${", "${"].iter().any(|open| text.contains(&format!("{test}{open}{name}"))));
    (!known && !tested && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')).then(|| {
        (
            format!("nothing in the task sets `${name}`: if it is empty, this deletes `{rest}`"),
            format!("set it in this script, and write `${{{name}:?}}`, which ends the script if it is empty"),
        )
    })
}
