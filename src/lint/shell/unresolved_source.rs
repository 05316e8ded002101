//! Scripts that source a missing script, and commands whose input file is missing.

use std::{
    collections::{BTreeSet, HashSet},
    path::{Component, Path, PathBuf},
};

use crate::{
    bash::{
        Word,
        program::{Kind, Statement},
    },
    diagnostic::{Diagnostic, Diagnostics, Rule, nearest},
    effects::sourced::{beside, of_own_folder, placed, sourced},
    hir::{Dialect, OperationKind, PhaseKind},
    lint::{
        TaskView,
        analysis::texts,
        script::{Reader, ScriptView},
    },
    rule,
    source::{Files, Span, Stat, resolve},
};

rule! {
    pub static UNRESOLVED_SOURCE = "unresolved-source", Verdict;
    pub static NO_SUCH_FILE = "no-such-file", Warning;
}

/// `source x` without a file `x` in the script's working directory (author mistake 12).
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    for script in view.scripts {
        // Only unconditional statements: `[ -f x ] && . x` allows for a missing file.
        for (statement, dir) in placed(script) {
            if let (Some(word), Some(dir)) = (sourced(statement), dir) {
                let path = resolve(&dir, &word.text);
                let finding = missing(view, script, word, &dir, &path, &UNRESOLVED_SOURCE, sources);
                out.extend(finding.map(|f| repaired(f, view, script, word, &dir)));
            } else if let Some((word, path)) = beside(statement, script) {
                out.extend(missing(view, script, word, Path::new(""), &path, &UNRESOLVED_SOURCE, |s, file| {
                    matches!(s.name(), "source" | ".") && s.words().get(1).is_some_and(|w| w.text.ends_with(file))
                }));
            } else if script.on_stdin && view.task.dialect != Dialect::Portable {
                out.extend(without_file(script, statement));
            }
        }
    }
}

/// The finding for `source "$(dirname "$0")/x"` in an inline script that `$SHELL` reads from its standard input: `$0` is the path of the
/// shell.
fn without_file(script: &ScriptView<'_>, statement: &Statement) -> Option<Diagnostic> {
    let word = matches!(statement.name(), "source" | ".").then(|| statement.words().get(1))??;
    let text = word.text.replace('"', "");
    let own = ["$(dirname $0)/", "$(dirname -- $0)/", "${0%/*}/"];
    own.iter().any(|own| text.starts_with(own)).then(|| {
        let span = script.content.span(word.range.clone());
        Diagnostic::new(&UNRESOLVED_SOURCE, span, "an inline script without `#!` has no file that `$0` could name")
            .here("a path in the directory of the shell")
            .help("begin the script with `#!/usr/bin/env bash`, or write the path relative to the task's directory")
    })
}

/// The finding for a missing file. `None` if it exists, or if the scripts mention its name in another way: then a step
/// may create it.
fn missing(
    view: &TaskView<'_>,
    script: &ScriptView<'_>,
    word: &Word,
    dir: &Path,
    path: &Path,
    rule: &'static Rule,
    uses: impl Fn(&Statement, &str) -> bool,
) -> Option<Diagnostic> {
    // Files outside the project are unknown.
    if view.files.stat(path).is_some() || view.files.refusal(path).is_some() {
        return None;
    }
    let file = path.file_name()?.to_string_lossy();
    let mentions = view.scripts.iter().map(|s| s.content.text.matches(&*file).count()).sum::<usize>();
    let commands = view.scripts.iter().flat_map(|s| s.content.program.commands());
    if mentions > commands.filter(|c| uses(c, &file)).count() {
        return None;
    }
    let span = script.content.span(word.range.clone());
    let mut diagnostic = Diagnostic::new(rule, span, format!("the file `{}` does not exist", word.text));
    let folder = path.parent().unwrap_or(Path::new(""));
    if let Some(near) = nearest(&file, view.files.list(folder).iter().map(String::as_str)) {
        diagnostic = diagnostic.here(format!("did you mean `{near}`?"));
    }
    Some(match word.literal {
        true => diagnostic.help(format!("the {} runs in `{}`", script.what(), shown(dir))),
        false => diagnostic.help(format!("it is resolved to `{}`", path.display())),
    })
}

/// Adds a fix with the path that the author probably meant, if the file exists relative to a parent directory.
fn repaired(
    diagnostic: Diagnostic,
    view: &TaskView<'_>,
    script: &ScriptView<'_>,
    word: &Word,
    dir: &Path,
) -> Diagnostic {
    match upwards(dir, &word.text, view.files) {
        Some(found) => diagnostic.here("the file exists relative to a parent directory").fix(
            format!("write `{found}`"),
            script.content.span(word.range.clone()),
            found,
        ),
        None => diagnostic,
    }
}

/// The files that scripts source, run or read, if their location is known: their content matters as much as that of the
/// scripts. Excludes files that a script may write.
pub fn helpers(scripts: &[ScriptView<'_>], files: &dyn Files) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for script in scripts {
        for statement in script.content.program.commands() {
            let words = statement.words();
            let read = match statement.tool() {
                "source" | "." | "bash" | "sh" | "python3" | "python" | "node" | "ruby" | "perl" => {
                    &words[..words.len().min(2)]
                }
                "kubectl" | "cat" | "jq" | "grep" | "diff" | "cmp" => words,
                _ => &words[..1],
            };
            found.extend(read.iter().filter_map(|word| of_own_folder(word, script)));
            let literal = sourced(statement).or_else(|| given_file(statement));
            found.extend(literal.and_then(|word| Some(resolve(script.dir.as_ref()?, &word.text))));
        }
    }
    let writes = |line: &str, name: &str| {
        let to = |rest: &str| {
            rest.trim_start_matches(['>', ' ']).split_whitespace().next().is_some_and(|word| word.contains(name))
        };
        ["tee ", "cp ", "mv ", "ln ", "curl ", "install ", "sed -i", " -o ", "--output", "truncate "]
            .iter()
            .any(|word| line.contains(word))
            || line.match_indices('>').any(|(at, _)| to(&line[at..]))
    };
    found.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_written = |script: &ScriptView<'_>| {
            script.content.text.lines().any(|line| line.contains(&*name) && writes(line, &name))
        };
        matches!(files.stat(path), Some(Stat::File { .. })) && !scripts.iter().any(is_written)
    });
    found
}

fn sources(statement: &Statement, file: &str) -> bool {
    sourced(statement).is_some_and(|w| w.text.ends_with(file))
}

fn shown(dir: &Path) -> String {
    let text = dir.display().to_string();
    if text.is_empty() { ".".to_owned() } else { text }
}

/// `./check.sh`, `bash scripts/verify.sh`, `kubectl apply -f pod.yaml` without such a file, if nothing before can
/// create it.
pub fn commands(view: &TaskView<'_>, out: &mut Diagnostics) {
    let candidate = |s: &ScriptView<'_>| s.content.program.body.iter().any(|s| given_file(first(s)).is_some());
    if !view.scripts.iter().any(candidate) {
        return;
    }
    let plain = first_steps(view);
    let mut opaque = false;
    let mut phase = PhaseKind::Setup;
    for script in view.scripts {
        // The agent runs between setup and verify.
        if script.phase != phase {
            phase = script.phase;
            opaque |= agent_makes_files(view);
        }
        opaque |= !plain.contains(&script.step.key);
        let program = &script.content.program;
        if opaque || !program.sound || script.reader == Reader::Foreign {
            return;
        }
        for statement in &program.body {
            let first = first(statement);
            if let (Some(dir), Some(word)) = (&script.dir, given_file(first)) {
                let path = resolve(dir, &word.text);
                let used = |s: &Statement, file: &str| given_file(s).is_some_and(|w| w.text.ends_with(file));
                let finding = missing(view, script, word, dir, &path, &NO_SUCH_FILE, used);
                if let Some(finding) = finding.filter(|_| !told(view, &path)) {
                    out.push(repaired(finding, view, script, word, dir));
                }
            }
            let mut makes = false;
            statement.walk(&mut |s| {
                makes |= !s.words().is_empty() && !HARMLESS.contains(&s.tool()) && given_file(s).is_none()
            });
            // An existing script may create any file.
            let runs = given_file(first).is_some_and(|_| first.tool() != "kubectl");
            if makes || runs {
                return;
            }
        }
    }
}

/// Whether the prompt may make agents write files.
fn agent_makes_files(view: &TaskView<'_>) -> bool {
    const WORDS: [&str; 10] =
        ["file", "script", "program", "code", "write", "implement", "save", "function", "fix", "project"];
    view.task.prompt.as_ref().is_none_or(|prompt| {
        let said = texts::written(&prompt.text).to_lowercase();
        prompt.text.holes().next().is_some() || WORDS.iter().any(|w| said.contains(w))
    })
}

/// Whether the prompt, a variable or another step mentions the file.
fn told(view: &TaskView<'_>, path: &Path) -> bool {
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let mut named = view.task.prompt.as_ref().is_some_and(|p| texts::written(&p.text).contains(&name));
    view.task.env.iter().for_each(|(_, t)| named |= texts::written(t).contains(&name));
    view.task.walk(&mut |_, step| {
        let shell = step.arg("run").or_else(|| step.arg("inline")).map(|a| a.span);
        step.args.iter().filter(|(_, a)| Some(a.span) != shell).for_each(|(_, a)| {
            a.templates(&mut |t| named |= texts::written(t).contains(&name));
        });
    });
    named
}

/// The steps before the first one that may create files without a script, or whose script cannot be read.
fn first_steps(view: &TaskView<'_>) -> HashSet<Span> {
    let read: HashSet<Span> = view.scripts.iter().map(|s| s.step.key).collect();
    let (mut first, mut others) = (HashSet::new(), false);
    view.task.walk(&mut |_, step| {
        others |= match &step.op.kind {
            OperationKind::Builtin("command" | "script") => !read.contains(&step.key),
            OperationKind::Builtin(_) => false,
            _ => true,
        };
        if !others {
            first.insert(step.key);
        }
    });
    first
}

/// The first command of a statement, which runs unconditionally.
fn first(statement: &Statement) -> &Statement {
    match &statement.kind {
        Kind::And(pair) => first(&pair[0]),
        Kind::Pipeline(parts) => parts.first().map_or(statement, first),
        _ => statement,
    }
}

/// The file that a command needs, relative to its working directory.
fn given_file(statement: &Statement) -> Option<&Word> {
    let words = statement.words();
    let runs = |word: &&Word| {
        let kinds = [".sh", ".bash", ".py", ".js", ".mjs", ".ts", ".rb", ".pl"];
        kinds.iter().any(|k| word.text.ends_with(k))
    };
    let word = match statement.tool() {
        "bash" | "sh" | "python3" | "python" | "node" | "ruby" | "perl" => {
            let plain = |w: &&Word| !matches!(w.text.as_str(), "-e" | "-x" | "-u" | "-eu" | "-ex" | "-eux");
            words[1..].iter().find(plain).filter(runs)?
        }
        "kubectl" => {
            let makes = words.iter().any(|w| matches!(w.text.as_str(), "apply" | "create" | "replace"));
            let flag = |w: &Word| matches!(w.text.as_str(), "-f" | "--filename");
            let at = words.iter().position(flag).filter(|_| makes)?;
            words
                .get(at + 1)
                .filter(|w| w.text.ends_with(".yaml") || w.text.ends_with(".yml") || w.text.ends_with(".json"))?
        }
        _ => words.first().filter(|w| w.text.contains('/'))?,
    };
    let plain =
        !word.text.starts_with(['/', '~', '-']) && !word.text.contains(['*', '?', '[', ':', ',', '$', '%', '\\']);
    (word.literal && plain).then_some(word)
}

/// Commands that create no files except by redirection.
const HARMLESS: &[&str] = &[
    "kubectl", "echo", "printf", "cat", "sleep", "set", "test", "[", "grep", "jq", "true", "false", ":", "exit",
    "head", "tail", "wc", "sort", "tr", "cut", "seq", "date", "wait", "kill", "export", "mkdir", "rm", "chmod",
    "command", "type", "which",
];

/// The path from `dir` to a file that has the path `path` relative to a parent directory.
fn upwards(dir: &Path, path: &str, files: &dyn Files) -> Option<String> {
    let mut up = PathBuf::new();
    let depth = dir.components().filter(|c| matches!(c, Component::Normal(_))).count();
    for _ in 0..depth {
        up.push("..");
        let candidate = up.join(crate::source::normalize(Path::new(path)));
        if matches!(files.stat(&resolve(dir, &candidate.to_string_lossy())), Some(Stat::File { .. })) {
            return Some(candidate.to_string_lossy().into_owned());
        }
    }
    None
}
