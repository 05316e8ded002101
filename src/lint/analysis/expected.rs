//! What verify expects: values, files, and the texts that it looks for.

use std::collections::BTreeSet;

use rustc_hash::FxHashSet;

use crate::{
    ascii::{Ascii, ascii},
    bash::program::Kind,
    effects::{Act, Verb, script::Content, value::Value},
    hir::{Arg, ArgKind, Def, PhaseKind},
    lint::{TaskView, analysis::facts},
    source::Span,
};

/// The files that verify reads, with their full paths as far as they are known.
pub fn read_paths(view: &TaskView<'_>) -> Vec<(Span, String)> {
    // A step that expects an error or absence names a file that does not exist.
    let mut found: Vec<(Span, String)> =
        by_steps(view).into_iter().filter(|(_, _, absent)| !absent).map(|(s, p, _)| (s, p)).collect();
    for script in view.effects.scripts.iter().filter(|script| script.view.phase == PhaseKind::Verify) {
        for run in &script.trace.runs {
            let looks = !matches!(
                run.statement.name(),
                "echo"
                    | "printf"
                    | "cd"
                    | "mkdir"
                    | "mktemp"
                    | "cp"
                    | "mv"
                    | "rm"
                    | "touch"
                    | "tee"
                    | "docker"
                    | "kubectl"
                    | "curl"
            );
            for word in run.words.iter().skip(1).filter(|word| looks && word.is_known()) {
                let text = word.shown();
                let whole = text.contains('/')
                    && !text.contains([' ', '*', ':', '='])
                    && (text.starts_with('/') || text.starts_with('{'));
                if whole {
                    found.push((run.content.span(run.statement.range.clone()), text));
                }
            }
        }
    }
    found
}

/// The files that verify steps or redirections read: the span, the path, and whether the file must be absent.
fn by_steps(view: &TaskView<'_>) -> Vec<(Span, String, bool)> {
    let acts =
        view.effects.in_phase(PhaseKind::Verify).filter(|act| act.thing.system == "file" && act.verb == Verb::Reads);
    let mut acts = acts.peekable();
    if acts.peek().is_none() {
        return Vec::new();
    }
    let mut absent: FxHashSet<Span> = FxHashSet::default();
    view.task.walk(&mut |_, step| {
        let Some((_, expect)) = &step.expect else { return };
        let expects =
            |key: &str, value: bool| expect.get(key).and_then(Arg::as_value).is_some_and(|found| found == value);
        if expects("isError", true) || expects("exists", false) {
            absent.insert(step.key);
        }
    });
    acts.filter_map(|act| {
        let name = act.thing.name.as_ref().filter(|name| name.is_known()).map(Value::shown)?;
        Some((act.span, name, absent.contains(&act.step)))
    })
    .collect()
}

/// Files that must be absent.
pub fn absent_paths(view: &TaskView<'_>) -> Vec<(Span, String)> {
    by_steps(view).into_iter().filter(|(_, _, absent)| *absent).map(|(span, path, _)| (span, path)).collect()
}

/// The literal texts that verify compares with or looks for, and the names of the resources that it checks.
pub fn looked_for(view: &TaskView<'_>) -> Vec<(Span, String)> {
    let mut found = view.facts.expected(|| find(view)).to_vec();
    // What verify creates itself may have any name.
    let acts = || view.effects.in_phase(PhaseKind::Verify);
    let made: Vec<&Act> = acts().filter(|act| act.verb == Verb::Creates).collect();
    for act in acts().filter(|act| !made.iter().any(|made| made.thing.is(&act.thing))) {
        let name = act.thing.name.as_ref().and_then(|name| name.literal()).filter(|_| act.thing.system != "file");
        found.extend(name.map(|name| (act.span, name.to_owned())));
    }
    for script in view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify) {
        for quoted in LOOKED.captures_iter(&script.content.text) {
            if let Some(m) = quoted.get(1) {
                found.push((script.content.span(m.range()), m.as_str().to_owned()));
            }
        }
        constants(&script.content, &mut found);
    }
    found
}

/// Constants that the script compares with something: `POLICY=allkeys-lru`.
pub fn constants(content: &Content, found: &mut Vec<(Span, String)>) {
    content.program.body.iter().filter(|s| matches!(s.kind, Kind::Assignment)).for_each(|s| {
        let text = content.text.get(s.range.clone()).unwrap_or_default();
        let Some((name, value)) = text.split_once('=') else { return };
        let value = value.trim_matches(['"', '\'']);
        let compared = || {
            ["= \"$", "= $", "= \"${", "= ${"].iter().any(|sign| {
                content.text.match_indices(&format!("{sign}{name}")).any(|(at, found)| {
                    !content.text[at + found.len()..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
                })
            })
        };
        if !value.is_empty() && !value.contains(['$', '`', '(', ' ']) && compared() {
            found.push((content.span(s.range.end - value.len()..s.range.end), value.to_owned()));
        }
    });
}

/// Quoted strings after `grep`, and in comparisons of SQL and jq.
static LOOKED: Ascii = ascii(r#"(?:\bgrep\s[^|\n"']*["']|==\s*\\?"|\bhas\(\\?"|\s=\s*')([^"'\n]+)["']"#);

/// The literal texts that verify compares with, and their spans.
/// The values with which verify compares, and where.
pub fn expected<'a>(view: &TaskView<'a>) -> impl Iterator<Item = (Span, &'a str)> {
    view.facts.expected(|| find(view)).iter().map(|(span, text)| (*span, text.as_str()))
}

fn find(view: &TaskView<'_>) -> Vec<(Span, String)> {
    let mut found = Vec::new();
    for script in view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify) {
        let content = &script.content;
        for found_in in COMPARED.captures_iter(&content.text) {
            if let Some(m) = (1..4).find_map(|group| found_in.get(group)) {
                found.push((content.span(m.range()), m.as_str().to_owned()));
            }
        }
    }
    // Values that are arguments of a function.
    let known: BTreeSet<Span> = found.iter().map(|(span, _)| *span).collect();
    let asked = facts::asked(view).iter().filter(|fact| fact.exact && !fact.typed);
    found.extend(asked.map(|fact| (fact.span, fact.text())).filter(|(span, _)| !known.contains(span)));
    for step in &view.task.verify.steps {
        step.walk(&mut |step| {
            let mut add = |arg: &Arg<Def>, key: &str| {
                if matches!(
                    key,
                    "value"
                        | "equals"
                        | "contains"
                        | "mode"
                        | "replicas"
                        | "image"
                        | "stdout"
                        | "min"
                        | "max"
                        | "expected"
                ) {
                    leaves(arg, &mut found);
                }
            };
            step.args.iter().for_each(|(key, arg)| add(arg, &key.value));
            if let Some((_, expect)) = &step.expect {
                expectations(expect, &mut found);
            }
        });
    }
    found
}

fn expectations(arg: &Arg<Def>, found: &mut Vec<(Span, String)>) {
    match &arg.kind {
        ArgKind::Record(fields) => fields.iter().for_each(|(key, arg)| match key.value.as_str() {
            "status" | "exitCode" | "path" | "matches" | "timeout" | "not" | "type" | "sorted" => {}
            _ => expectations(arg, found),
        }),
        ArgKind::List(items) => items.iter().for_each(|arg| expectations(arg, found)),
        _ => leaves(arg, found),
    }
}

fn leaves(arg: &Arg<Def>, found: &mut Vec<(Span, String)>) {
    match arg.as_value() {
        Some(serde_json::Value::String(text)) => found.push((arg.span, text)),
        Some(serde_json::Value::Number(number)) => found.push((arg.span, number.to_string())),
        _ => {}
    }
}

/// `= "x"`, `-eq 3`, `grep -q x`.
static COMPARED: Ascii =
    ascii(r#"(?:\s(?:=|==|!=|-eq|-ne|-ge|-le)\s+|\bgrep\s+(?:-\w+\s+)*)(?:"([^"$`\n]+)"|'([^'\n]+)'|([\w.:/-]+))"#);
