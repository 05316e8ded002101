//! The prompt asks for one thing, and verify for another.

use std::{collections::BTreeSet, sync::LazyLock};

use regex::Regex;

use super::{TaskView, texts};
use crate::{
    diagnostic::{Diagnostic, Diagnostics, nearest},
    effects::{Verb, value::Value},
    hir::{ArgKind, PhaseKind},
    rule,
    source::Span,
};

rule! {
    pub static PROMPT_DISAGREES = "prompt-disagrees", Warning;
}

/// Verify expects a number, an amount, an image or a word in capitals that stands nowhere else, and the prompt has one of the same form that
/// nothing else in the task has: one of them was changed alone.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    let Some(prompt) = &view.task.prompt else { return };
    let said = texts::written(&prompt.text);
    paths(view, prompt.text.span, out);
    names(view, &said, prompt.text.span, out);
    near(view, &said, prompt.text.span, out);
    numbers(view, &said, prompt.text.span, out);
    let mut asked = values(&said);
    // In a prompt numbers may be words.
    let lower = said.to_lowercase();
    for (number, word) in ["two", "three", "four", "five", "six", "seven", "eight", "nine"].iter().enumerate() {
        if lower.contains(word) && texts::has_word(&lower, word) {
            asked.insert(Item { form: "number of 1".to_owned(), text: (number + 2).to_string() });
        }
    }
    if asked.is_empty() {
        return;
    }
    let expected: Vec<(Span, Item)> = expected(view)
        .into_iter()
        .flat_map(|(span, text)| values(&text).into_iter().map(move |item| (span, item)))
        .filter(|(_, item)| !asked.contains(item))
        .collect();
    if expected.is_empty() {
        return;
    }
    // What stands elsewhere in the task is known to be meant.
    let (mut others, mut verified) = (String::new(), String::new());
    view.task.env.iter().for_each(|(_, template)| others.push_str(&format!("{}\n", texts::written(template))));
    for script in view.scripts {
        let text = if script.phase == PhaseKind::Verify { &mut verified } else { &mut others };
        // Numbers of streams say nothing about the world.
        text.push_str(&STREAM.replace_all(&script.content.text, " "));
        text.push('\n');
    }
    view.task.walk(&mut |phase, step| {
        let text = if phase == PhaseKind::Verify { &mut verified } else { &mut others };
        step.templates(&mut |template| text.push_str(&format!("{}\n", texts::written(template))));
        let mut add = |arg: &crate::hir::Arg<crate::hir::Def>| {
            text.push_str(&format!("{}\n", arg.as_value().unwrap_or_default()))
        };
        step.args.iter().for_each(|(_, arg)| add(arg));
        step.expect.iter().for_each(|(_, arg)| add(arg));
    });
    let (others, verified) = (values(&others), values(&verified));
    let free: Vec<&Item> = asked.iter().filter(|item| !others.contains(*item) && !verified.contains(*item)).collect();
    if free.is_empty() {
        return;
    }
    let mut told = BTreeSet::new();
    for (span, item) in expected {
        if others.contains(&item) || !told.insert(item.clone()) {
            continue;
        }
        if let [other] = free.iter().filter(|other| other.form == item.form).collect::<Vec<_>>()[..] {
            out.push(disagrees(span, &item.text, &other.text, prompt.text.span));
        }
    }
}

/// A number of a stream: `>&2`, `2>&1`, `2>/dev/null`; a pause; the status of an exit.
#[expect(clippy::unwrap_used, reason = "a constant")]
static STREAM: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"[12]?>&[12]|2>|\b(?:sleep|exit|return)\s+\d+|\bseq\s+\d+(?:\s+\d+)*|\{\d+\.\.\d+\}").unwrap()
});

/// The files that verify reads by their whole path, as far as that is known.
pub(super) fn read_paths(view: &TaskView<'_>) -> Vec<(Span, String)> {
    let mut found = Vec::new();
    let acts =
        view.effects.in_phase(PhaseKind::Verify).filter(|act| act.thing.system == "file" && act.verb == Verb::Reads);
    for act in acts {
        // Who expects an error, or that nothing is there, names what is not there.
        let mut absent = false;
        view.task.walk(&mut |_, step| {
            let expects = |key: &str, value: bool| {
                step.expect
                    .as_ref()
                    .and_then(|(_, expect)| expect.get(key))
                    .and_then(crate::hir::Arg::as_value)
                    .is_some_and(|found| found == value)
            };
            absent |= step.key == act.step && (expects("isError", true) || expects("exists", false));
        });
        if absent {
            continue;
        }
        let name = act.thing.name.as_ref().filter(|name| name.is_known()).map(Value::shown);
        found.extend(name.map(|name| (act.span, name)));
    }
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

/// Verify reads a file that nobody makes or names, and the prompt names one that nobody else does.
fn paths(view: &TaskView<'_>, prompt: Span, out: &mut Diagnostics) {
    let model = view.effects;
    let said = model.prompt.shown();
    let is_path = |path: &str| path.starts_with('/') && path.len() > 4;
    let touched: Vec<String> = model
        .acts
        .iter()
        .filter(|act| act.thing.system == "file")
        .filter_map(|act| act.thing.name.as_ref())
        .map(Value::shown)
        .collect();
    let asked: Vec<&str> = PATH.find_iter(&said).map(|m| m.as_str().trim_end_matches(['.', ','])).collect();
    let read = read_paths(view);
    let free: Vec<&str> = asked
        .iter()
        .copied()
        .filter(|path| !read.iter().any(|(_, r)| r.starts_with(path)))
        .filter(|path| {
            is_path(path) && !touched.iter().any(|t| t.starts_with(path) || path.starts_with(t.trim_end_matches('*')))
        })
        .filter(|path| !view.scripts.iter().any(|script| script.content.text.contains(path)))
        .collect();
    let [free] = free.as_slice() else { return };
    for (span, name) in &read {
        let made = model.acts.iter().any(|made| {
            made.verb == Verb::Creates
                && made.thing.system == "file"
                && made.thing.name.as_ref().is_some_and(|m| name.starts_with(&m.shown()))
        });
        let kind =
            |path: &str| path.rsplit('/').next().and_then(|file| file.rsplit_once('.')).map(|(_, end)| end.to_owned());
        if is_path(name) && !made && !said.contains(name.as_str()) && kind(name) == kind(free) {
            out.push(disagrees(*span, name, free, prompt));
            return;
        }
    }
}

fn disagrees(span: Span, expected: &str, said: &str, prompt: Span) -> Diagnostic {
    Diagnostic::new(&PROMPT_DISAGREES, span, format!("verify expects `{expected}`, and the prompt says `{said}`"))
        .label(prompt, "in this prompt")
        .help("one of them was changed alone: make them say the same")
}

/// Verify looks for a name that stands nowhere else, and the prompt has one that stands nowhere else and is made of the same parts.
fn names(view: &TaskView<'_>, said: &str, prompt: Span, out: &mut Diagnostics) {
    let (mut others, mut verified) = (String::new(), String::new());
    view.task.env.iter().for_each(|(_, template)| others.push_str(&format!("{}\n", texts::written(template))));
    view.task.walk(&mut |phase, step| {
        let text = if phase == PhaseKind::Verify { &mut verified } else { &mut others };
        step.templates(&mut |template| text.push_str(&format!("{}\n", texts::written(template))));
    });
    for script in view.scripts {
        let text = if script.phase == PhaseKind::Verify { &mut verified } else { &mut others };
        text.push_str(&script.content.text);
    }
    let has = |text: &str, name: &str| super::cluster::whole(text, name);
    let free: Vec<&str> = NAME
        .find_iter(said)
        .map(|m| m.as_str())
        .filter(|name| !has(&others, name) && !verified.contains(name))
        .collect();
    if free.is_empty() || !view.effects.sees(PhaseKind::Setup) {
        return;
    }
    let mut told = BTreeSet::new();
    for (span, text) in looked_for(view) {
        for name in NAME.find_iter(&text).map(|m| m.as_str()) {
            if said.contains(name) || others.contains(name) || !told.insert(name.to_owned()) {
                continue;
            }
            let near: Vec<&str> = free.iter().copied().filter(|other| is_kin(name, other)).collect();
            if let [near] = near.as_slice() {
                out.push(disagrees(span, name, near, prompt));
            }
        }
    }
}

/// Verify compares with a word that is nearly one of the prompt's, and stands nowhere else.
fn near(view: &TaskView<'_>, said: &str, prompt: Span, out: &mut Diagnostics) {
    let quoted: Vec<&str> = QUOTED
        .captures_iter(said)
        .filter_map(|quoted| quoted.get(1).or_else(|| quoted.get(2)))
        .map(|m| m.as_str())
        .filter(|word| word.len() > 3 && !word.contains(char::is_whitespace))
        .collect();
    if quoted.is_empty() {
        return;
    }
    let mut asked: Vec<(Span, String)> =
        super::facts::asked(view).into_iter().map(|fact| (fact.span, fact.text())).collect();
    // Where a program is told which database, user or branch.
    for script in view.effects.scripts.iter().filter(|script| script.view.phase == PhaseKind::Verify) {
        for run in &script.trace.runs {
            let words: Vec<&str> = run.words.iter().map(|word| word.literal().unwrap_or_default()).collect();
            let span = run.content.span(run.statement.range.clone());
            for pair in words.windows(2) {
                if matches!(pair[0], "-d" | "--dbname" | "-D" | "--database" | "-U" | "--username" | "-b" | "--branch")
                {
                    asked.push((span, pair[1].to_owned()));
                }
            }
            if words.first() == Some(&"git") {
                let revisions = words[1..].iter().flat_map(|word| word.split("..")).flat_map(|word| word.split(':'));
                asked.extend(revisions.filter(|word| !word.starts_with('-')).map(|word| (span, word.to_owned())));
            }
        }
    }
    let mut others = String::new();
    view.task.env.iter().for_each(|(_, template)| others.push_str(&format!("{}\n", texts::written(template))));
    view.scripts.iter().filter(|s| s.phase != PhaseKind::Verify).for_each(|s| others.push_str(&s.content.text));
    view.task.walk(&mut |phase, step| {
        if phase != PhaseKind::Verify {
            step.templates(&mut |template| others.push_str(&format!("{}\n", texts::written(template))));
        }
    });
    let same = |a: &str, b: &str| {
        let letters = |text: &str| text.chars().filter(char::is_ascii_alphanumeric).collect::<String>();
        letters(a) == letters(b)
    };
    let mut told = BTreeSet::new();
    for (span, word) in asked {
        let plain =
            word.len() > 3 && word.chars().any(|c| c.is_ascii_alphabetic()) && !word.contains(char::is_whitespace);
        if !plain || said.contains(&word) || others.contains(&word) || !told.insert(word.clone()) {
            continue;
        }
        // Of a value and its opposite letters are shared as well: only one or two may differ.
        let other = quoted.iter().copied().find(|known| same(known, &word));
        if let Some(other) = other.or_else(|| {
            nearest(&word, quoted.iter().copied()).filter(|known| {
                !known.eq_ignore_ascii_case(&word)
                    && !known.contains(word.as_str())
                    && !word.contains(known)
                    && super::misspelt::is_slip(&word, known)
            })
        }) {
            out.push(disagrees(span, &word, other, prompt));
        }
    }
}

/// `set threads to 8`, and verify asks for `.threads == 16`.
fn numbers(view: &TaskView<'_>, said: &str, prompt: Span, out: &mut Diagnostics) {
    for fact in super::facts::asked(view) {
        let value = fact.text();
        if value.parse::<f64>().is_err() || fact.key.len() < 3 || texts::has_word(said, &value) {
            continue;
        }
        let behind = said.match_indices(fact.key.as_str()).map(|(at, _)| &said[at + fact.key.len()..]);
        let given: BTreeSet<&str> = behind
            .filter_map(|rest| NUMBER.captures(rest))
            .filter_map(|found| found.get(1))
            .map(|m| m.as_str())
            .collect();
        if let [given] = given.iter().copied().collect::<Vec<_>>()[..]
            && given.parse::<f64>().ok() != value.parse::<f64>().ok()
        {
            out.push(disagrees(fact.span, &value, given, prompt));
        }
    }
}

/// The number right behind the name of a field.
#[expect(clippy::unwrap_used, reason = "a constant")]
static NUMBER: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"^[`"']?\s*(?:to|=|:|is|of|at)?\s*[`"']?(\d+(?:\.\d+)?)\b"#).unwrap());

#[expect(clippy::unwrap_used, reason = "a constant")]
static QUOTED: LazyLock<Regex> =
    LazyLock::new(|| Regex::new("[`\"']([^`\"'\n]+)[`\"']|\\b([a-z]+[/-][a-z0-9./-]*[a-z0-9])\\b").unwrap());

/// The literal texts that verify compares with or looks for, and the names of what it looks at.
fn looked_for(view: &TaskView<'_>) -> Vec<(Span, String)> {
    let mut found = expected(view);
    for act in view.effects.in_phase(PhaseKind::Verify) {
        let name = act.thing.name.as_ref().and_then(|name| name.literal()).filter(|_| act.thing.system != "file");
        found.extend(name.map(|name| (act.span, name.to_owned())));
    }
    for script in view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify) {
        for quoted in LOOKED.captures_iter(&script.content.text) {
            if let Some(m) = quoted.get(1) {
                found.push((script.content.span(m.range()), m.as_str().to_owned()));
            }
        }
    }
    found
}

/// Whether two names are made of the same parts, but for one or two.
fn is_kin(a: &str, b: &str) -> bool {
    let parts = |name: &str| -> BTreeSet<String> {
        name.split(['-', '_', '.', '/']).filter(|part| part.len() > 1).map(str::to_lowercase).collect()
    };
    let (a, b) = (parts(a), parts(b));
    let common = a.intersection(&b).count();
    common > 0 && common * 2 >= a.len().min(b.len()) && a != b
}

/// Names as authors give them: of parts, with a hyphen or an underscore between.
#[expect(clippy::unwrap_used, reason = "a constant")]
static NAME: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\b[a-z][a-z0-9]*(?:[-_][a-z0-9]+)+\b").unwrap());

#[expect(clippy::unwrap_used, reason = "a constant")]
static PATH: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"/(?:tmp|var|srv|opt|home|work|data)(?:/[\w.{}-]+)+").unwrap());

/// What stands in quotes behind `grep`, and in comparisons of SQL and jq.
#[expect(clippy::unwrap_used, reason = "a constant")]
static LOOKED: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"(?:\bgrep\s[^|\n"']*["']|==\s*\\?"|\s=\s*')([^"'\n]+)["']"#).unwrap());

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Item {
    form: String,
    text: String,
}

/// What has a form: numbers from 2, amounts, images with a tag, words in capitals.
fn values(text: &str) -> BTreeSet<Item> {
    let mut found = BTreeSet::new();
    for word in VALUE.find_iter(text).map(|m| m.as_str()) {
        let form = match word {
            _ if word.contains(':') => format!("image {}", word.split(':').next().unwrap_or_default()),
            _ if word.bytes().all(|b| b.is_ascii_digit()) => {
                if matches!(word.trim_start_matches('0'), "" | "1") {
                    continue;
                }
                format!("number of {}", word.len())
            }
            _ if word.starts_with(|c: char| c.is_ascii_digit()) => {
                format!("amount {}", word.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.'))
            }
            _ => "capitals".to_owned(),
        };
        found.insert(Item { form, text: word.to_owned() });
    }
    found
}

#[expect(clippy::unwrap_used, reason = "a constant")]
static VALUE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?-u)\b(?:[a-z][a-z0-9-]*(?:/[a-z0-9-]+)*:v?\d[\w.-]*\w|\d+(?:\.\d+)?(?:Ki|Mi|Gi|Ti|m|MB|GB|KB)\b|\d+\b|[A-Z][A-Z0-9_]{4,}\b)").unwrap()
});

/// The literal texts that verify compares with, each with its place.
fn expected(view: &TaskView<'_>) -> Vec<(Span, String)> {
    let mut found = Vec::new();
    for script in view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify) {
        let content = &script.content;
        for found_in in COMPARED.captures_iter(&content.text) {
            if let Some(m) = (1..4).find_map(|group| found_in.get(group)) {
                found.push((content.span(m.range()), m.as_str().to_owned()));
            }
        }
    }
    for step in &view.task.verify.steps {
        step.walk(&mut |step| {
            let mut add = |arg: &crate::hir::Arg<crate::hir::Def>, key: &str| {
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

fn expectations(arg: &crate::hir::Arg<crate::hir::Def>, found: &mut Vec<(Span, String)>) {
    match &arg.kind {
        ArgKind::Record(fields) => fields.iter().for_each(|(key, arg)| match key.value.as_str() {
            "status" | "exitCode" | "path" | "matches" | "timeout" => {}
            _ => expectations(arg, found),
        }),
        ArgKind::List(items) => items.iter().for_each(|arg| expectations(arg, found)),
        _ => leaves(arg, found),
    }
}

fn leaves(arg: &crate::hir::Arg<crate::hir::Def>, found: &mut Vec<(Span, String)>) {
    match arg.as_value() {
        Some(serde_json::Value::String(text)) => found.push((arg.span, text)),
        Some(serde_json::Value::Number(number)) => found.push((arg.span, number.to_string())),
        _ => {}
    }
}

/// `= "x"`, `-eq 3`, `grep -q x`.
#[expect(clippy::unwrap_used, reason = "a constant")]
static COMPARED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"(?:\s(?:=|==|!=|-eq|-ne|-ge|-le)\s+|\bgrep\s+(?:-\w+\s+)*)(?:"([^"$`\n]+)"|'([^'\n]+)'|([\w.:/-]+))"#)
        .unwrap()
});
