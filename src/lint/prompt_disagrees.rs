//! The prompt and verify ask for different things.

use std::{borrow::Cow, cell::LazyCell, collections::BTreeSet};

use rustc_hash::FxHashSet;

use super::{
    TaskView,
    facts::{self, Elsewhere},
    quantity::Quantity,
    texts,
};
use crate::{
    ascii::{Ascii, Captures, ascii},
    bash::program::Kind,
    diagnostic::{Diagnostic, Diagnostics, nearest},
    effects::{Act, Verb, asked::Demand, script::Content, value::Value},
    hir::{ArgKind, Def, OperationKind, PhaseKind, Step},
    rule,
    source::Span,
};

rule! {
    pub static PROMPT_DISAGREES = "prompt-disagrees", Warning;
}

/// Verify expects a number, an amount, an image or a word in capitals that appears nowhere else, and the prompt has one
/// of the same form that nothing else in the task has: probably only one of them was changed.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    let Some(prompt) = &view.task.prompt else { return };
    let said = texts::written(&prompt.text);
    let (said, prompt) = (said.as_str(), prompt.text.span);
    paths(view, prompt, out);
    names(view, said, prompt, out);
    near(view, said, prompt, out);
    rearranged(view, said, prompt, out);
    other_digits(view, said, prompt, out);
    numbers(view, said, prompt, out);
    ports(view, said, prompt, out);
    crossed(view, said, prompt, out);
    bounds(view, said, prompt, out);
    metadata(view, said, prompt, out);
    prefixes(view, said, prompt, out);
    let known = LazyKnown::new(Box::new(|| Known::of(view)));
    quantities(view, said, &known, prompt, out);
    limits(view, said, &known, prompt, out);
    units(view, said, prompt, out);
    times(view, said, prompt, out);
    path_words(view, said, &known, prompt, out);
    keys(view, said, &known, prompt, out);
    nulls(view, said, &known, prompt, out);
    given_values(view, said, &known, prompt, out);
    named_values(view, said, &known, prompt, out);
    told_values(view, said, prompt, out);
    set_values(view, said, prompt, out);
    images(view, said, &known, prompt, out);
    phrases(view, said, &known, prompt, out);
    clocks(view, said, &known, prompt, out);
    schedules(view, said, prompt, out);
    addresses(view, said, &known, prompt, out);
    nouns(view, said, &known, prompt, out);
    cases(view, said, prompt, out);
    namespaces(view, said, prompt, out);
    let (mut asked, mut known_of_prompt) = (values(said), mentioned(said));
    // A prompt may contain numbers as words.
    let lower = said.to_lowercase();
    for (number, word) in NUMBERS.iter().enumerate() {
        if is_spoken(&lower, word) {
            let item = Item { form: "number of 1".to_owned(), text: (number + 2).to_string() };
            known_of_prompt.insert(item.clone());
            asked.insert(item);
        }
    }
    if asked.is_empty() {
        return;
    }
    // Only values of a form that also occurs in the prompt can be meant by it.
    let forms: BTreeSet<&str> = asked.iter().map(|item| item.form.as_str()).collect();
    let expected: Vec<(Span, Item)> = expected(view)
        .into_iter()
        .flat_map(|(span, text)| values(&text).into_iter().map(move |item| (span, item)))
        .filter(|(_, item)| {
            forms.contains(item.form.as_str())
                && !known_of_prompt.contains(item)
                && !is_told(&lower, &item.text)
                && !is_state_of(&lower, &item.text)
                && !is_spelled(&lower, &item.text)
        })
        .collect();
    if expected.is_empty() {
        return;
    }
    // A value that appears elsewhere in the task is intended.
    let (mut others, mut verified) = (String::new(), String::new());
    view.task.env.iter().for_each(|(_, template)| others.push_str(&format!("{}\n", texts::written(template))));
    for script in view.scripts {
        let (text, written) = match script.phase {
            PhaseKind::Verify => (&mut verified, Cow::Owned(facts::without_messages(&script.content))),
            _ => (&mut others, Cow::Borrowed(script.content.text.as_str())),
        };
        // File descriptors and similar numbers are not values.
        text.push_str(&STREAM.replace_all(&written, |_| " ".to_owned()));
        text.push('\n');
    }
    view.task.walk(&mut |phase, step| {
        let text = if phase == PhaseKind::Verify { &mut verified } else { &mut others };
        step.templates(&mut |template| {
            let written = texts::written(template);
            let written = facts::message_free(view, (phase, step), &written).unwrap_or(written);
            text.push_str(&format!("{written}\n"));
        });
        step.args.iter().for_each(|(_, arg)| constants_in(arg, text));
        step.expect.iter().for_each(|(_, arg)| constants_in(arg, text));
    });
    verified.push_str(&facts::expected_files(view));
    let (others, verified) = (mentioned(&others), mentioned(&verified));
    let is_counted = |item: &Item| {
        !item.form.starts_with("number")
            || !is_added(&lower, &item.text)
                && !is_database(&lower, &item.text)
                && is_counted(&lower, &item.text, &facts::elsewhere(view).verify)
    };
    let free: Vec<&Item> =
        asked.iter().filter(|item| !others.contains(*item) && !verified.contains(*item) && is_counted(item)).collect();
    if free.is_empty() {
        return;
    }
    let counts = LazyCell::new(|| counts(view));
    let data = LazyCell::new(|| mentioned(facts::data(view)));
    let mut told = BTreeSet::new();
    for (span, item) in expected {
        if others.contains(&item) || !told.insert(item.clone()) || data.contains(&item) {
            continue;
        }
        // A number of lines is no percentage and no duration.
        let is_newer = item.form.starts_with("image") && NEWER.is_match(&lower);
        let fits = |other: &Item| !is_newer && (!is_measured(&lower, &other.text) || !counts.contains(&span));
        let same = |other: &&&Item| other.form == item.form && fits(other);
        if let [other] = free.iter().filter(same).collect::<Vec<_>>()[..] {
            let finding = disagrees(span, &item.text, &other.text, prompt);
            // The checks above may have reported the same disagreement.
            if !out.iter().any(|known| known.message == finding.message) {
                out.push(finding);
            }
        }
    }
}

const NUMBERS: [&str; 8] = ["two", "three", "four", "five", "six", "seven", "eight", "nine"];

/// The positions of a number that are not part of a longer word or number: `5`, not in `15`.
fn whole_numbers<'t>(text: &'t str, number: &'t str) -> impl Iterator<Item = usize> {
    let is_part = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    text.match_indices(number).map(|(at, _)| at).filter(move |at| {
        let bytes = text.as_bytes();
        !is_part(at.checked_sub(1).and_then(|before| bytes.get(before))) && !is_part(bytes.get(at + number.len()))
    })
}

/// Whether a word occurs on its own: not in `two.txt` or `two-step`.
fn is_spoken(lower: &str, word: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '/' | '.');
    lower.match_indices(word).any(|(at, _)| {
        let behind = &lower[at + word.len()..];
        let continues = behind.strip_prefix(['.', '-', '/']).unwrap_or(behind);
        !lower[..at].ends_with(part) && !continues.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
    })
}

/// Whether the prompt adds this number to another or subtracts it: verify then checks the result.
fn is_added(lower: &str, number: &str) -> bool {
    let word = number.parse::<usize>().ok().and_then(|number| NUMBERS.get(number.checked_sub(2)?)).copied();
    let is_taken = |at: usize| {
        let before = lower[..at].trim_end();
        let before = ["the", "these", "those"].iter().find_map(|word| before.strip_suffix(word)).unwrap_or(before);
        const VERBS: [&str; 10] =
            ["delete", "remove", "drop", "close", "archive", "cancel", "transfer", "deposit", "withdraw", "refund"];
        VERBS.iter().any(|verb| before.trim_end().ends_with(verb))
    };
    if word.is_some_and(|word| whole_numbers(lower, word).any(is_taken)) {
        return true;
    }
    whole_numbers(lower, number).any(|at| {
        let before = lower[..at].trim_end();
        let behind = lower[at + number.len()..].trim_start();
        is_taken(at)
            || ["add", "adding", "subtract", "by", "plus", "minus"].iter().any(|word| before.ends_with(word))
            || ["more", "additional", "extra", "further", "fewer"].iter().any(|word| behind.starts_with(word))
    })
}

/// Whether the prompt has this quantity in another form: `10 minutes` for `10m`.
fn is_told(lower: &str, text: &str) -> bool {
    let Some(quantity) = Quantity::of_value(text).filter(|quantity| !quantity.unit.is_empty()) else { return false };
    Quantity::all(lower).iter().any(|(_, other)| !other.unit.is_empty() && other.is(&quantity))
}

/// Whether a word in capitals is the state after a verb of the prompt: `CLOSED`, for `close it`.
fn is_state_of(lower: &str, word: &str) -> bool {
    texts::verbs_for(&word.to_ascii_lowercase()).iter().any(|verb| texts::has_word(lower, verb))
}

/// Whether each occurrence of a number in the prompt is followed by a unit.
fn is_measured(lower: &str, number: &str) -> bool {
    let units = ["%", "percent", "second", "minute", "hour", "day", "week", "month", "year", "byte", "kb", "mb", "gb"];
    whole_numbers(lower, number).all(|at| {
        let behind = lower[at + number.len()..].trim_start_matches([' ', '-']);
        units.iter().any(|unit| behind.starts_with(unit))
    })
}

/// The spans of expectations of a number of lines or items.
fn counts(view: &TaskView<'_>) -> BTreeSet<Span> {
    fn collect(arg: &crate::hir::Arg<crate::hir::Def>, found: &mut BTreeSet<Span>) {
        match &arg.kind {
            ArgKind::Record(fields) => fields.iter().for_each(|(key, inner)| {
                if matches!(key.value.as_str(), "lines" | "length") {
                    found.insert(inner.span);
                }
                collect(inner, found);
            }),
            ArgKind::List(items) => items.iter().for_each(|item| collect(item, found)),
            _ => {}
        }
    }
    let mut found = BTreeSet::new();
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| step.expect.iter().for_each(|(_, expect)| collect(expect, &mut found)));
    });
    // `run: … | jq '.hard | length'`, with the number in `stdout`.
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            let counts = view.script_of(step).is_some_and(|script| COUNTS.is_match(script.content.text.trim_end()));
            let stdout = step.expect.as_ref().filter(|_| counts).and_then(|(_, expect)| expect.get("stdout"));
            found.extend(stdout.map(|stdout| stdout.span));
        });
    });
    // `jq -e '.rules | length == 2'`
    for script in view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify) {
        let numbers = LENGTH.captures_iter(&script.content.text).filter_map(|length| length.get(1));
        found.extend(numbers.map(|number| script.content.span(number.range())));
    }
    found
}

/// A command whose output is a number of things.
static COUNTS: Ascii = ascii(r#"(?:\|\s*length\s*["']?|\bwc -l|\bgrep -c\b[^|]*)$"#);

static LENGTH: Ascii = ascii(r"\blength\s*(?:==|!=|[<>]=?)\s*(\d+)");

/// Whether verify may check this number: for `three services`, it must mention services.
fn is_counted(lower: &str, number: &str, verified: &str) -> bool {
    let word = number.parse::<usize>().ok().and_then(|number| NUMBERS.get(number.checked_sub(2)?)).copied();
    let verified = LazyCell::new(|| verified.to_ascii_lowercase());
    word.into_iter().chain([number]).any(|number| {
        whole_numbers(lower, number).any(|at| {
            let behind = lower[at + number.len()..].strip_prefix(' ').unwrap_or_default();
            let noun = behind.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
            let is_unit = matches!(noun, "seconds" | "minutes" | "hours" | "days" | "bytes" | "times");
            let stem = noun.strip_suffix('s').filter(|stem| stem.len() > 3 && !is_unit);
            stem.is_none_or(|stem| verified.contains(stem))
        })
    })
}

/// Numbers that are not values: file descriptors (`>&2`, `2>/dev/null`), pauses, exit statuses, ranges (`seq 1 5`).
static STREAM: Ascii = ascii(r"[12]?>&[12]|2>|\b(?:sleep|exit|return)\s+\d+|\bseq\s+\d+(?:\s+\d+)*|\{\d+\.\.\d+\}");

/// The files that verify reads, with their full paths as far as they are known.
pub(super) fn read_paths(view: &TaskView<'_>) -> Vec<(Span, String)> {
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
        let expects = |key: &str, value: bool| {
            expect.get(key).and_then(crate::hir::Arg::as_value).is_some_and(|found| found == value)
        };
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
pub(super) fn absent_paths(view: &TaskView<'_>) -> Vec<(Span, String)> {
    by_steps(view).into_iter().filter(|(_, _, absent)| *absent).map(|(span, path, _)| (span, path)).collect()
}

/// Verify reads a file that nothing creates or mentions, and the prompt names one that nothing else mentions.
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

pub(super) fn disagrees(span: Span, expected: &str, said: &str, prompt: Span) -> Diagnostic {
    Diagnostic::new(&PROMPT_DISAGREES, span, format!("verify expects `{expected}`, but the prompt says `{said}`"))
        .label(prompt, "in this prompt")
        .help("use the same value in both")
}

/// Verify looks for a name that appears nowhere else, and the prompt has one that appears nowhere else and shares most
/// of its parts.
fn names(view: &TaskView<'_>, said: &str, prompt: Span, out: &mut Diagnostics) {
    let Elsewhere { verify: verified, rest: others } = facts::elsewhere(view);
    // A message may have the name that the check misses.
    let verified = MESSAGE.replace_all(verified, |_| " ".to_owned());
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let is_checked = |name: &str| {
        verified
            .match_indices(name)
            .any(|(at, _)| !verified[..at].ends_with(is_part) && !verified[at + name.len()..].starts_with(is_part))
    };
    let free: Vec<&str> = NAME.find_iter(said).map(|m| m.as_str()).filter(|name| !is_checked(name)).collect();
    // What setup mentions is not only in the prompt.
    let is_free = |name: &&str| !is_checked(name) && !others.contains(name);
    let dotted: Vec<&str> = DOTTED.find_iter(said).map(|m| m.as_str()).filter(is_free).collect();
    if free.is_empty() && dotted.is_empty() || !view.effects.sees(PhaseKind::Setup) {
        return;
    }
    let mut told = BTreeSet::new();
    for (span, text) in looked_for(view) {
        for name in NAME.find_iter(&text).map(|m| m.as_str()) {
            let is_combined = |(at, sign): (usize, &str)| {
                [&name[..at], &name[at + sign.len()..]].iter().all(|part| said.contains(part) || others.contains(part))
            };
            // The pods and claims of a StatefulSet are numbered.
            let ordinal = name.rsplit_once('-').filter(|(_, end)| end.bytes().all(|b| b.is_ascii_digit()));
            let is_numbered = ordinal.is_some_and(|(stem, _)| stem.split('-').all(|part| texts::has_word(said, part)));
            // A chart names its objects after the release and itself.
            if is_numbered
                || said.contains(name)
                || others.contains(name)
                || others.contains("helm") && name.match_indices(['-', '_']).any(is_combined)
                || !told.insert(name.to_owned())
            {
                continue;
            }
            let near: Vec<&str> = free.iter().copied().filter(|other| is_kin(name, other)).collect();
            if let [near] = near.as_slice() {
                out.push(disagrees(span, name, near, prompt));
            }
        }
        // `u1.small`, if the prompt says `u1.medium`.
        for name in DOTTED.find_iter(&text).map(|m| m.as_str()) {
            let parts = |name: &str| name.split('.').map(str::to_owned).collect::<Vec<_>>();
            let is_near = |other: &&str| {
                let (a, b) = (parts(name), parts(other));
                a.len() == b.len() && a.iter().zip(&b).filter(|(a, b)| a != b).count() == 1
            };
            if said.contains(name) || others.contains(name) || !told.insert(name.to_owned()) {
                continue;
            }
            if let [near] = dotted.iter().copied().filter(is_near).collect::<Vec<_>>()[..] {
                out.push(disagrees(span, name, near, prompt));
            }
        }
    }
}

/// Verify compares with a word that appears nowhere else and is similar to a quoted word of the prompt.
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
    let mut asked: Vec<(Span, String)> = facts::asked(view).iter().map(|fact| (fact.span, fact.text())).collect();
    for question in view.asked() {
        if let Demand::Matches { pattern, options } = &question.demand
            && options.contains('x')
        {
            asked.push((question.span, pattern.clone()));
        }
    }
    // Options that select a database, user or branch.
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
    let Elsewhere { verify, rest: others } = facts::elsewhere(view);
    // The value of a variable is another form of the quoted word: `warning` for `"warn"`.
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            let Some(ArgKind::Record(env)) = step.arg("env").map(|arg| &arg.kind) else { return };
            for (span, value) in env.iter().filter_map(|(_, arg)| Some((arg.span, arg.as_literal()?))) {
                let is_form = |word: &str| {
                    let (short, long) = if word.len() < value.len() { (word, value) } else { (value, word) };
                    short.len() > 3 && long.starts_with(short) && long.len() <= short.len() + 4
                };
                let is_free = |word: &str| !texts::has_word(verify, word) && !texts::has_word(others, word);
                let is_word = value.bytes().all(|b| b.is_ascii_alphanumeric()) && !texts::has_word(said, value);
                let near = quoted.iter().find(|word| **word != value && is_form(word) && is_free(word));
                if let Some(near) = near.filter(|_| is_word && !texts::has_word(others, value)) {
                    out.push(disagrees(span, value, near, prompt));
                }
            }
        });
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
        // A value and its opposite also share letters, so only one or two may differ.
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

/// `typo-fix`, which appears nowhere else, if the prompt says `fix-typo`; `= 'idx_orders'`, if it says
/// `idx_orders_total`.
fn rearranged(view: &TaskView<'_>, said: &str, prompt: Span, out: &mut Diagnostics) {
    let asked: BTreeSet<&str> = NAME.find_iter(said).map(|m| m.as_str()).collect();
    if asked.is_empty() {
        return;
    }
    let sorted = |name: &str| {
        let mut parts: Vec<String> = name.split(['-', '_']).map(str::to_owned).collect();
        parts.sort_unstable();
        parts
    };
    let others = &facts::elsewhere(view).rest;
    let mut told = BTreeSet::new();
    for content in view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify).map(|s| &s.content) {
        for found in NAME.find_iter(&content.text) {
            let (name, before) = (found.as_str(), &content.text[..found.start()]);
            // Options, fields and variables are not names of resources.
            let is_own = before.ends_with(['-', '.', '$', '{']) || content.text[found.end()..].starts_with(['=', '(']);
            if is_own || asked.contains(name) || others.contains(name) || told.contains(name) {
                continue;
            }
            let compared = ["= '", "= \"", "=='", "==\""].iter().any(|sign| before.ends_with(sign))
                && !["!= ", "!== "].iter().any(|sign| before.trim_end_matches(['\'', '"']).ends_with(sign))
                && content.text[found.end()..].starts_with(['\'', '"']);
            let begins =
                |other: &str| compared && other.strip_prefix(name).is_some_and(|end| end.starts_with(['-', '_']));
            let is_same = |other: &&&str| begins(other) || sorted(other) == sorted(name);
            if let [other] = asked.iter().filter(is_same).collect::<Vec<_>>()[..] {
                told.insert(name);
                out.push(disagrees(content.span(found.range()), name, other, prompt));
            }
        }
    }
}

/// `--prefix archive/2024/`, which appears nowhere else, if the prompt says `archive/2023/` and verify does not use that.
fn other_digits(view: &TaskView<'_>, said: &str, prompt: Span, out: &mut Diagnostics) {
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '_' | '.' | ':');
    let is_name = |word: &str| {
        word.len() > 4
            && word.bytes().any(|b| b.is_ascii_digit())
            && word.bytes().any(|b| matches!(b, b'/' | b'-'))
            && word.bytes().filter(u8::is_ascii_alphabetic).count() > 2
            && !word.contains("://")
    };
    let masked = |word: &str| word.replace(|c: char| c.is_ascii_digit(), "0");
    let texts = facts::elsewhere(view);
    if !said.bytes().any(|b| b.is_ascii_digit()) {
        return;
    }
    let words =
        said.split_whitespace().map(|word| word.trim_matches(|c: char| !(c.is_ascii_alphanumeric() || c == '/')));
    let mut asked: BTreeSet<&str> =
        words.filter(|word| is_name(word) && word.chars().all(part) && !texts.verify.contains(word)).collect();
    if asked.is_empty() {
        return;
    }
    // `"$log.gz"` in a loop is each of several names.
    for run in view.effects.scripts.iter().filter(|s| s.view.phase == PhaseKind::Verify).flat_map(|s| &s.trace.runs) {
        run.words.iter().skip(1).filter_map(Value::literal).for_each(|word| {
            asked.remove(word);
        });
    }
    let mut told = BTreeSet::new();
    for script in view.effects.scripts.iter().filter(|script| script.view.phase == PhaseKind::Verify) {
        for run in &script.trace.runs {
            for word in run.words.iter().skip(1).filter_map(Value::literal) {
                let word = word.rsplit('=').next().unwrap_or(word);
                let is_own = word.starts_with('-') || !is_name(word) || !word.chars().all(part);
                if is_own || said.contains(word) || texts.rest.contains(word) || !told.insert(word.to_owned()) {
                    continue;
                }
                let same: Vec<&&str> = asked.iter().filter(|asked| masked(asked) == masked(word)).collect();
                if let [other] = same.as_slice() {
                    out.push(disagrees(run.content.span(run.statement.range.clone()), word, other, prompt));
                }
            }
        }
    }
}

/// `on port 8080 that forwards to port 80`, but verify requires `port` 80 and `targetPort` 8080.
fn ports(view: &TaskView<'_>, said: &str, prompt: Span, out: &mut Diagnostics) {
    let facts = facts::asked(view);
    let of = |key: &str, value: &str| facts.iter().find(|fact| fact.key == key && fact.text() == value);
    if !facts.iter().any(|fact| fact.key == "targetPort") {
        return;
    }
    for found in texts::FORWARDS.captures_iter(said) {
        let (outer, inner) = (&found[1], &found[2]);
        let is_told = of("port", outer).is_some() || of("targetPort", inner).is_some();
        if let (Some(port), Some(_), false) = (of("port", inner), of("targetPort", outer), is_told) {
            out.push(disagrees(port.span, &format!("port {inner} and targetPort {outer}"), &found[0], prompt));
        }
    }
}

/// `close it with the resolution "fixed"`, but verify requires `status` fixed and `resolution` closed.
fn crossed(view: &TaskView<'_>, said: &str, prompt: Span, out: &mut Diagnostics) {
    let facts = facts::asked(view);
    if !(2..=64).contains(&facts.len()) {
        return;
    }
    let lower = said.to_ascii_lowercase();
    let named = |fact: &facts::Fact| {
        let words = crate::effects::words(&fact.key);
        (words.last().is_some_and(|word| word.len() > 3)).then(|| words.join(" "))
    };
    // `the resolution "fixed"`, `port 80`
    let told = |key: &str, longer: &str, value: &str| {
        let value = value.to_ascii_lowercase();
        lower.match_indices(&value).any(|(at, _)| {
            let ends = !lower[at + value.len()..].starts_with(|c: char| c.is_ascii_alphanumeric());
            let before = lower[..at].trim_end_matches(['"', '`', '\'']);
            let before = before.strip_suffix(' ').unwrap_or_default();
            let is_key =
                before.strip_suffix(key).is_some_and(|rest| !rest.ends_with(|c: char| c.is_ascii_alphanumeric()));
            ends && is_key && !before.ends_with(longer)
        })
    };
    for a in facts.iter().filter(|fact| fact.exact) {
        let (Some(key), value) = (named(a), a.text()) else { continue };
        let part = |c: char| c.is_ascii_alphanumeric();
        if value.len() < 2 || texts::words(said, part).filter(|(_, word)| *word == value).count() != 1 {
            continue;
        }
        let other = facts.iter().filter(|b| b.exact && b.key != a.key && b.parent == a.parent).find(|b| {
            let (other, its) = (b.text(), named(b));
            its.is_some_and(|its| {
                let longer = if key.len() > its.len() { key.as_str() } else { "\n" };
                its != key && other != value && told(&its, longer, &value) && !told(&its, longer, &other)
            })
        });
        let is_right = |fact: &facts::Fact| facts.iter().any(|other| other.key == fact.key && other.text() == value);
        if let Some(other) = other.filter(|other| !is_right(other)) {
            let what = format!("{} {value} and {} {}", a.key, other.key, other.text());
            out.push(disagrees(a.span, &what, &format!("{} {value}", other.key), prompt));
            return;
        }
    }
}

/// A prompt that asks to undo a change, and describes it.
static REVERTS: Ascii =
    ascii(r"(?i)\b(?:roll\w* (?:it )?back|rollback|undo|revert|mistake|by accident|accidentally)\b");

/// `Annotate the service with owner=sales`, but verify reads its labels, or the other way round.
fn metadata(view: &TaskView<'_>, said: &str, prompt: Span, out: &mut Diagnostics) {
    let lower = said.to_lowercase();
    let (annotates, labels) = (lower.contains("annotat"), lower.contains("label"));
    if annotates == labels {
        return;
    }
    let (told, other) = if annotates { ("annotations", "labels") } else { ("labels", "annotations") };
    let verify = &facts::elsewhere(view).verify;
    // `-l owner=sales` reads labels as well.
    if verify.contains(told) || labels && verify.contains(" -l ") {
        return;
    }
    let read = facts::asked(view).iter().find(|fact| {
        fact.parent.as_deref() == Some(other) && texts::has_word(said, &fact.key) && texts::has_word(said, &fact.text())
    });
    if let Some(fact) = read {
        let what = format!("{} of the {other}", fact.key);
        out.push(disagrees(fact.span, &what, &format!("{} of the {told}", fact.key), prompt));
    }
}

/// `8Gi of memory limits`, but verify requires it of `requests.memory`.
fn bounds(view: &TaskView<'_>, said: &str, prompt: Span, out: &mut Diagnostics) {
    if !said.contains("imit") {
        return;
    }
    let facts = facts::asked(view);
    let of = |fact: &facts::Fact, bound: &str| {
        fact.parent.as_deref() == Some(bound) || fact.key.strip_prefix(bound).is_some_and(|rest| rest.starts_with('.'))
    };
    if facts.iter().any(|fact| of(fact, "limits")) {
        return;
    }
    for fact in facts.iter().filter(|fact| of(fact, "requests")) {
        let value = fact.text();
        // `Limit it to 250m`, `8Gi of memory limits`
        let is_limit = said.match_indices(&value).any(|(at, _)| {
            let sentence = super::already_true::sentence(said, at);
            let (head, tail) = (said[sentence.start..at].to_lowercase(), said[at..sentence.end].to_lowercase());
            let behind: Vec<&str> = tail.split_whitespace().skip(1).take(3).collect();
            let is_told = |words: &str| words.contains("limit") && !words.contains("request");
            is_told(&behind.join(" ")) || is_told(&head) && !tail.contains("request")
        });
        if value.ends_with(|c: char| c.is_ascii_alphabetic()) && is_limit {
            out.push(disagrees(fact.span, &format!("requests of {value}"), &format!("a limit of {value}"), prompt));
            return;
        }
    }
}

/// `the prefix "tmp/"`, but verify requires `.Prefix == "tmp"`.
fn prefixes(view: &TaskView<'_>, said: &str, prompt: Span, out: &mut Diagnostics) {
    for fact in facts::asked(view).iter().filter(|fact| fact.exact && fact.key.to_lowercase().ends_with("prefix")) {
        let value = fact.text();
        let mut places = said.match_indices(&value).filter(|(at, _)| !said[..*at].ends_with(char::is_alphanumeric));
        let is_folder = |(at, word): (usize, &str)| {
            let behind = said[at + word.len()..].strip_prefix('/');
            behind.is_some_and(|behind| !behind.starts_with(char::is_alphanumeric))
        };
        if value.len() > 1 && said.contains(&value) && places.all(is_folder) {
            out.push(disagrees(fact.span, &value, &format!("{value}/"), prompt));
            return;
        }
    }
}

/// `set threads to 8`, but verify checks for `.threads == 16`.
fn numbers(view: &TaskView<'_>, said: &str, prompt: Span, out: &mut Diagnostics) {
    let lower = said.to_ascii_lowercase();
    // `An upgrade has set the replicas to 0. Undo it.`
    if REVERTS.is_match(said) {
        return;
    }
    for fact in facts::asked(view) {
        let value = fact.text();
        // `.port.number`
        let key = fact.parent.as_deref().filter(|_| fact.key == "number").unwrap_or(&fact.key);
        if value.parse::<f64>().is_err() || key.len() < 3 || texts::has_word(said, &value) {
            continue;
        }
        // `container port 8080`, for the field `containerPort`.
        let words = crate::effects::words(key);
        let phrase = if words.len() > 1 { words.join(" ") } else { key.to_owned() };
        let spoken = lower.match_indices(&phrase).filter(|_| words.len() > 1);
        let behind = said.match_indices(key).chain(spoken).map(|(at, name)| &said[at + name.len()..]);
        let given: BTreeSet<&str> = behind
            .filter_map(|rest| NUMBER.captures(rest))
            .filter_map(|found| found.get(1))
            .map(|m| m.as_str())
            .collect();
        // In `an object like {"total": 0}`, the number stands for any other.
        let is_example = |given: &str| given == "0" && said.contains(&format!("\"{}\": 0", fact.key));
        if let [given] = given.iter().copied().collect::<Vec<_>>()[..]
            && !is_example(given)
            && given.parse::<f64>().ok() != value.parse::<f64>().ok()
            && !is_of_another(view, fact, given)
            && !is_result(view, fact, said)
        {
            out.push(disagrees(fact.span, &value, given, prompt));
        }
    }
}

/// Whether a number of the prompt, added to what setup gives the field or subtracted from it, is the value: 40 in stock, 15 are sold,
/// and 25 are left. Of numbers below ten, this would be true by chance.
fn is_result(view: &TaskView<'_>, fact: &facts::Fact, said: &str) -> bool {
    let number = |text: &str| text.parse::<i64>().ok().filter(|number| (10..1_000_000).contains(number));
    let Some(result) = number(&fact.text()) else { return false };
    let said: Vec<i64> = numbers_of(said).filter_map(|(_, text)| number(text)).collect();
    let mut given =
        facts::given(view).iter().filter(|given| given.key == fact.key).filter_map(|given| number(&given.text()));
    given.any(|given| said.iter().any(|said| given + said == result || (given - said).abs() == result))
}

/// Whether setup gives a field this value, and another check requires the value from the prompt: there are two of them.
fn is_of_another(view: &TaskView<'_>, fact: &facts::Fact, told: &str) -> bool {
    let has = |facts: &[facts::Fact], value: &str| facts.iter().any(|f| f.key == fact.key && f.text() == value);
    has(facts::asked(view), told) && has(facts::given(view), &fact.text())
}

/// All texts of a task except its prompt: those of verify, and the others.
struct Known {
    verified: String,
    others: String,
}

/// Appends the keys of an argument and its values that are not texts, one per line.
fn constants_in(arg: &crate::hir::Arg<crate::hir::Def>, text: &mut String) {
    match &arg.kind {
        ArgKind::Record(fields) => fields.iter().for_each(|(key, inner)| {
            text.push_str(&format!("{}\n", key.value));
            constants_in(inner, text);
        }),
        ArgKind::List(items) => items.iter().for_each(|item| constants_in(item, text)),
        ArgKind::Text(_) => {}
        _ => text.push_str(&format!("{}\n", arg.as_value().unwrap_or_default())),
    }
}

/// Computed on first use.
type LazyKnown<'k> = LazyCell<Known, Box<dyn FnOnce() -> Known + 'k>>;

impl Known {
    fn of(view: &TaskView<'_>) -> Self {
        let mut known = Self { verified: String::new(), others: String::new() };
        view.task
            .env
            .iter()
            .for_each(|(_, template)| known.others.push_str(&format!("{}\n", texts::written(template))));
        for script in view.scripts {
            let text = if script.phase == PhaseKind::Verify { &mut known.verified } else { &mut known.others };
            text.push_str(&script.content.text);
            text.push('\n');
        }
        view.task.walk(&mut |phase, step| {
            let text = if phase == PhaseKind::Verify { &mut known.verified } else { &mut known.others };
            let mut add = |arg: &crate::hir::Arg<crate::hir::Def>| {
                // Names in holes are not words of the text.
                arg.templates(&mut |template| {
                    template.parts.iter().for_each(|part| match part {
                        crate::hir::Part::Text(part) => text.push_str(part),
                        crate::hir::Part::Hole(_) => text.push(' '),
                    });
                    text.push('\n');
                });
                constants_in(arg, text);
            };
            step.args.iter().for_each(|(_, arg)| add(arg));
            step.expect.iter().for_each(|(_, arg)| add(arg));
        });
        known
    }

    fn anywhere(&self, word: &str) -> bool {
        texts::has_word(&self.verified, word) || texts::has_word(&self.others, word)
    }
}

/// `refreshes every minute`, but verify checks for `.refresh == "30s"`.
fn quantities(view: &TaskView<'_>, said: &str, known: &LazyKnown<'_>, prompt: Span, out: &mut Diagnostics) {
    let facts = super::facts::asked(view);
    let measured: Vec<(&super::facts::Fact, Quantity)> =
        facts.iter().filter_map(|fact| Some((fact, Quantity::of_value(&fact.text())?))).collect();
    if measured.is_empty() {
        return;
    }
    let lower = said.to_lowercase();
    let told = Quantity::all(&lower);
    let wanted = || Quantity::all(&known.verified.to_lowercase()).into_iter().map(|(_, q)| q);
    for (fact, quantity) in measured {
        if told.iter().any(|(_, other)| other.is(&quantity)) {
            continue;
        }
        let parts = crate::effects::words(&fact.key);
        let words = parts.iter().map(|word| word.trim_end_matches('s')).filter(|word| word.len() > 3);
        let near = words
            .flat_map(|word| lower.match_indices(word).map(|(at, word)| at + word.len()).collect::<Vec<_>>())
            .filter_map(|at| {
                let (start, other) = told.iter().find(|(start, _)| *start >= at)?;
                let between = &lower[at..*start];
                (between.len() < 24 && !between.contains(['.', ',', ';', '`', '\n'])).then_some(other)
            })
            .find(|other| !other.unit.is_empty() && (other.unit == quantity.unit || quantity.unit.is_empty()));
        if let Some(other) = near
            && !wanted().any(|q| (!q.unit.is_empty() || q.amount > 2.0) && q.is(other))
        {
            // With the prompt's spelling.
            let place = said.to_ascii_lowercase().find(&other.text);
            let written = place.and_then(|at| said.get(at..at + other.text.len())).unwrap_or(&other.text);
            out.push(disagrees(fact.span, &fact.text(), written, prompt));
            return;
        }
    }
}

/// `a status of 400 or more`, but verify starts at `MIN=500`.
fn limits(view: &TaskView<'_>, said: &str, known: &LazyKnown<'_>, prompt: Span, out: &mut Diagnostics) {
    let mut asked: Vec<&str> = Vec::new();
    for (at, word) in numbers_of(said) {
        let around = said[said[..at].rfind(['.', '\n']).map_or(0, |end| end + 1)..at].to_lowercase();
        let behind: String = said[at + word.len()..].chars().take(24).collect::<String>().to_lowercase();
        let bounds = [
            "at least",
            "at most",
            "more than",
            "less than",
            "fewer than",
            "over ",
            "above",
            "below",
            "under ",
            "from ",
            "older than",
        ];
        let follows = ["or more", "or less", "or higher", "or above", "and more", "and above", "or older", "or fewer"];
        let is_bound = bounds
            .iter()
            .any(|word| around.ends_with(&format!("{word} ")) || around.trim_end().ends_with(word.trim_end()))
            || follows.iter().any(|word| behind.trim_start().starts_with(word));
        if is_bound && word.len() > 1 && !known.anywhere(word) {
            asked.push(word);
        }
    }
    let [free] = asked.as_slice() else { return };
    for script in view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify) {
        let text = &script.content.text;
        for (at, word) in numbers_of(text) {
            let before = text[..at].trim_end_matches([' ', '"', '\'']);
            let line = &text[script.content.line_start(at)..at];
            let compared = [">=", "<=", ">", "<", "-ge", "-gt", "-le", "-lt"].iter().any(|sign| before.ends_with(sign))
                && !before.ends_with("->");
            let constant = line
                .trim_start()
                .strip_suffix('=')
                .is_some_and(|name| !name.is_empty() && name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_'));
            if (compared || constant) && word.len() == free.len() && !texts::has_word(said, word) {
                out.push(disagrees(script.content.span(at..at + word.len()), word, free, prompt));
                return;
            }
        }
    }
}

/// `of 2Gi`, but verify checks for `2G`.
fn units(view: &TaskView<'_>, said: &str, prompt: Span, out: &mut Diagnostics) {
    for fact in facts::asked(view) {
        let text = fact.text();
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        if number.is_empty() || !is_size(unit) || texts::has_word(said, &text) {
            continue;
        }
        let words = said.split(|c: char| !c.is_ascii_alphanumeric());
        let other = words.into_iter().find(|word| {
            word.strip_prefix(number).is_some_and(|other| is_size(other) && other != unit && other[..1] == unit[..1])
        });
        if let Some(other) = other {
            out.push(disagrees(fact.span, &text, other, prompt));
            return;
        }
    }
}

/// Whether this is a unit of storage, as Kubernetes and people write it.
fn is_size(unit: &str) -> bool {
    matches!(
        unit,
        "K" | "M" | "G" | "T" | "Ki" | "Mi" | "Gi" | "Ti" | "KB" | "MB" | "GB" | "TB" | "KiB" | "MiB" | "GiB" | "TiB"
    )
}

/// `each night at 03:15`, but verify checks for the schedule `15 2 * * *`.
fn times(view: &TaskView<'_>, said: &str, prompt: Span, out: &mut Diagnostics) {
    for fact in facts::asked(view) {
        let text = fact.text();
        let fields: Vec<&str> = text.split(' ').collect();
        let [minute, hour, _, _, _] = fields.as_slice() else { continue };
        let (Ok(minute), Ok(hour)) = (minute.parse::<u32>(), hour.parse::<u32>()) else { continue };
        let told: BTreeSet<(u32, u32, &str)> = TIME
            .captures_iter(said)
            .filter_map(|time| {
                let (hour, minute) = hour_and_minute(&time)?;
                Some((hour, minute, time.get(0)?.as_str()))
            })
            .collect();
        if let [(h, m, shown)] = told.into_iter().collect::<Vec<_>>()[..]
            && (h, m) != (hour, minute)
        {
            out.push(disagrees(fact.span, &text, shown, prompt));
            return;
        }
    }
}

static TIME: Ascii = ascii(r"\b([01]?\d|2[0-3]):([0-5]\d)\b");

/// `requests for /assets`, but verify looks for `/static`.
fn path_words(view: &TaskView<'_>, said: &str, known: &LazyKnown<'_>, prompt: Span, out: &mut Diagnostics) {
    let plain = |word: &&str| {
        word.len() > 3
            && word.starts_with('/')
            && word.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'/' | b'-' | b'_' | b'.'))
            && !["/tmp", "/dev", "/usr", "/bin", "/etc", "/proc", "/var", "/home", "/opt", "/root"]
                .iter()
                .any(|own| word.starts_with(own))
    };
    let quoted: BTreeSet<&str> = said.split('`').skip(1).step_by(2).filter(plain).collect();
    let free: Vec<&str> =
        quoted.into_iter().filter(|word| !known.verified.contains(word) && !known.others.contains(word)).collect();
    let [free] = free.as_slice() else { return };
    let mut strange: Vec<(Span, &str)> = Vec::new();
    for script in view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify) {
        let text = script.content.text.as_str();
        for (at, word) in text.match_indices('/').map(|(at, _)| {
            let end = text[at..].find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '_' | '.')));
            (at, &text[at..end.map_or(text.len(), |end| at + end)])
        }) {
            let begins = text[..at].ends_with([' ', '"', '\'', '=', '(', '[', ',']);
            if begins
                && plain(&word)
                && !said.contains(word)
                && !known.others.contains(word)
                && strange.iter().all(|(_, known)| *known != word)
            {
                strange.push((script.content.span(at..at + word.len()), word));
            }
        }
    }
    if let [(span, word)] = strange.as_slice() {
        out.push(disagrees(*span, word, free, prompt));
    }
}

/// The whole numbers in a text that are separate words or follow `=`, and their offsets.
fn numbers_of(text: &str) -> impl Iterator<Item = (usize, &str)> {
    texts::words(text, |c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/' | ':' | '='))
        .map(|(start, word)| (start, word.trim_end_matches(['.', ':'])))
        .map(|(start, word)| match word.rfind('=') {
            Some(equal) => (start + equal + 1, &word[equal + 1..]),
            None => (start, word),
        })
        .filter(|(_, word)| !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit()))
}

/// Verify compares with an object that has the key `total`, but the prompt calls it `sum`.
fn keys(view: &TaskView<'_>, said: &str, known: &LazyKnown<'_>, prompt: Span, out: &mut Diagnostics) {
    let free: BTreeSet<&str> = said
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|word| {
            word.len() > 2 && word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') && !known.anywhere(word)
        })
        .collect();
    let [free] = free.iter().copied().collect::<Vec<_>>()[..] else { return };
    let mut found: Vec<(Span, String)> = Vec::new();
    let mut add = |text: &str, span: &dyn Fn(std::ops::Range<usize>) -> Span| {
        for (at, _) in text.match_indices('"') {
            // `{"total": 3`, `, "total": 3`: a key of an object.
            if !text[..at].trim_end().ends_with(['{', ',']) {
                continue;
            }
            let Some(end) = text[at + 1..].find('"').map(|end| at + 1 + end) else { break };
            let key = &text[at + 1..end];
            let plain = key.len() > 2 && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            if plain && text[end + 1..].trim_start().starts_with(':') {
                found.push((span(at..end + 1), key.to_owned()));
            }
        }
    };
    for script in view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify) {
        add(&script.content.text, &|range| script.content.span(range));
    }
    let lower = said.to_lowercase();
    let mut strange: Vec<(Span, String)> = Vec::new();
    for (span, key) in found {
        if !lower.contains(&key.to_lowercase())
            && !texts::has_word(&known.others, &key)
            && !strange.iter().any(|(_, known)| *known == key)
        {
            strange.push((span, key));
        }
    }
    if let [(span, key)] = strange.as_slice() {
        out.push(disagrees(*span, key, free, prompt));
    }
}

/// The prompt asks for NULL in a table, but verify never checks for it.
fn nulls(view: &TaskView<'_>, said: &str, known: &LazyKnown<'_>, prompt: Span, out: &mut Diagnostics) {
    if !said.contains("NULL") || said.contains("NOT NULL") {
        return;
    }
    let verified = known.verified.to_lowercase();
    if ["null", "none", "coalesce", "empty", "-z "].iter().any(|word| verified.contains(word)) {
        return;
    }
    let mut first = None;
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            let run = texts::script(step).unwrap_or_default();
            if ["sqlite3", "psql", "mysql"].iter().any(|tool| run.contains(tool)) {
                first.get_or_insert(step.key);
            }
        });
    });
    if let Some(span) = first {
        out.push(
            Diagnostic::new(&PROMPT_DISAGREES, span, "the prompt asks for NULL, but verify never checks for it")
                .label(prompt, "in this prompt")
                .help("NULL is not equal to anything, not even to itself: use `IS NULL`"),
        );
    }
}

/// `` the severity `page` ``, but verify checks for `.severity == "critical"`.
fn named_values(view: &TaskView<'_>, said: &str, known: &LazyKnown<'_>, prompt: Span, out: &mut Diagnostics) {
    let quoted: Vec<(usize, &str)> = QUOTED
        .captures_iter(said)
        .filter_map(|quoted| quoted.get(1).or_else(|| quoted.get(2)))
        .map(|m| (m.start() - 1, m.as_str()))
        .collect();
    if quoted.is_empty() {
        return;
    }
    let lower = said.to_lowercase();
    if lower.len() != said.len() {
        return;
    }
    for fact in super::facts::asked(view) {
        let value = fact.text();
        // In `.milestone.title`, the first part is the distinctive name.
        let outer = fact.parent.as_deref().filter(|_| matches!(fact.key.as_str(), "title" | "name" | "id" | "key"));
        let key = outer.unwrap_or(&fact.key);
        let part = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_') || outer.is_some() && b == b'.';
        let plain = value.len() > 2 && value.bytes().all(part);
        let number = outer.is_none() && value.parse::<f64>().is_ok();
        if key.len() < 4 || !plain || number || lower.contains(&value.to_lowercase()) {
            continue;
        }
        let words = crate::effects::words(key);
        let name = words.join(" ");
        let found = quoted.iter().find_map(|&(open, other)| {
            let head = lower[..open].split_whitespace().rev().take(4 + words.len()).collect::<Vec<_>>();
            let head: Vec<&str> = head.into_iter().rev().collect();
            let head = head.join(" ");
            let head = [" to", " is", " of", " as", ":", " the"]
                .iter()
                .fold(head.as_str(), |head, end| head.strip_suffix(end).unwrap_or(head));
            let near = head.ends_with(&name) || head.ends_with(&key.to_lowercase());
            (near && !other.contains(' ') && !known.anywhere(other)).then(|| other.to_owned())
        });
        if let Some(other) = found {
            out.push(disagrees(fact.span, &value, &other, prompt));
            return;
        }
    }
}

/// `turn the flag checkout to "on"`, `with the role editor.`, but verify checks for another value of the field.
fn told_values(view: &TaskView<'_>, said: &str, prompt: Span, out: &mut Diagnostics) {
    let lower = said.to_ascii_lowercase();
    for fact in facts::asked(view) {
        let value = fact.text();
        let words = crate::effects::words(&fact.key);
        let [key] = words.as_slice() else { continue };
        let is_word = |text: &str| text.bytes().any(|b| b.is_ascii_alphabetic()) && !text.contains(' ');
        if key.len() < 4 || !is_word(&value) || texts::has_word(&lower, &value.to_ascii_lowercase()) {
            continue;
        }
        let told = lower.match_indices(key.as_str()).find_map(|(at, _)| {
            let sentence = super::already_true::sentence(&lower, at);
            let rest = &said[at + key.len()..sentence.end.max(at + key.len())];
            let rest = rest.strip_prefix('s').unwrap_or(rest);
            let clause = rest.split([',', ';', ')']).next().unwrap_or_default();
            let with = ["with the ", "with a ", "in the ", "to the "].iter().any(|word| lower[..at].ends_with(word));
            let listed = lower[..at].ends_with("and the ");
            let changed = CHANGED.is_match(&lower[..at]);
            let found = TOLD.captures(clause)?;
            let group = |name: &str| found.name(name).map(|m| m.as_str().trim_end_matches('.'));
            group("value")
                .or_else(|| group("code"))
                .or_else(|| {
                    group("bare").filter(|bare| {
                        let is_name = bare.starts_with(|c: char| c.is_ascii_uppercase());
                        with || listed && is_name
                    })
                })
                .or_else(|| group("plain").filter(|plain| changed && !FILLERS.contains(plain)))
                .map(str::to_owned)
        });
        let Some(told) = told.filter(|told| is_word(told) && !told.eq_ignore_ascii_case(&value)) else { continue };
        // Verify may check that the old value is gone; an expectation of a step requires its value.
        let in_script = view.scripts.iter().any(|script| {
            let whole = script.content.span(0..script.content.text.len());
            whole.file == fact.span.file && whole.start <= fact.span.start && fact.span.end <= whole.end
        });
        let is_old = in_script && facts::given(view).iter().any(|given| given.key == fact.key && given.text() == value);
        let asked_too = facts::asked(view).iter().any(|other| other.key == fact.key && other.text() == told);
        if !is_old && !asked_too {
            out.push(disagrees(fact.span, &value, &told, prompt));
            return;
        }
    }
}

/// The text after the name of a field: `… to "on"`, or the value itself at the end of the clause.
static TOLD: Ascii = ascii(
    r#"^(?:[\w\s`']{0,60}?\bto\s+(?:"(?P<value>[\w.-]+)"|`(?P<code>[\w.-]+)`)|\s+to\s+(?P<plain>[A-Za-z][\w-]+)\s*(?:$|and\b)|\s+(?P<bare>[A-Za-z][\w-]+)\s*(?:$|and\b))"#,
);

/// The words before a field that is changed: `switch the`.
static CHANGED: Ascii = ascii(r"\b(?:set|change|switch|move|upgrade|downgrade|update)\s+(?:the|its|their)\s+$");

/// `with LOG_LEVEL set to debug`, `the label tier=frontend`, `the restart policy to always`, but verify checks for another
/// value of the key.
fn set_values(view: &TaskView<'_>, said: &str, prompt: Span, out: &mut Diagnostics) {
    let lower = said.to_ascii_lowercase();
    for fact in facts::asked(view) {
        let value = fact.text();
        // `env.WANT` and `$want` in jq are no constants.
        let is_constant = !value.is_empty() && !value.starts_with(['$', '.']) && !value.starts_with("env.");
        if fact.key.len() < 2 || !is_constant || texts::has_word(said, &value) {
            continue;
        }
        let [told] = set_to(said, &lower, fact).into_iter().collect::<Vec<_>>()[..] else { continue };
        let asked = || facts::asked(view).iter().any(|other| other.key == fact.key && other.text() == told);
        let same = told == value
            || encodes(&value, told)
            || told.eq_ignore_ascii_case(&value) && !is_case_kept(fact)
            || Quantity::of_value(told).zip(Quantity::of_value(&value)).is_some_and(|(a, b)| a.is(&b));
        // What setup gives the field may be checked on another resource.
        let is_given = || facts::given(view).iter().any(|given| given.key == fact.key && given.text() == value);
        if !same && !asked() && !is_given() {
            out.push(disagrees(fact.span, &value, told, prompt));
            return;
        }
    }
}

/// Whether a text is the base64 encoding of another one.
fn encodes(text: &str, plain: &str) -> bool {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.decode(text).is_ok_and(|decoded| decoded == plain.as_bytes())
}

/// Whether the value of this field has no other spelling: that of a label or of an environment variable.
fn is_case_kept(fact: &facts::Fact) -> bool {
    matches!(fact.parent.as_deref(), Some("data" | "labels" | "annotations" | "env" | "stringData"))
}

/// The values that the prompt gives to the field of a fact.
fn set_to<'s>(said: &'s str, lower: &str, fact: &facts::Fact) -> BTreeSet<&'s str> {
    let key = fact.key.as_str();
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    let whole = |at: usize| !said[..at].ends_with(part);
    let value = |rest: &'s str, pattern: &Ascii| {
        let found = pattern.captures(rest)?.get(1)?;
        let value = found.as_str().trim_end_matches(['.', ':', '-']);
        // `set duplicateOf to the older one` describes the value.
        let is_description = rest
            .get(found.end()..)?
            .split_whitespace()
            .next()
            .is_some_and(|word| word.trim_end_matches(['.', ',', ';']) == "one");
        (!value.is_empty() && !FILLERS.contains(&value) && !is_description).then_some(value)
    };
    // An ordinary word in a sentence may not be the key.
    let is_written = key.len() > 3 && key.bytes().any(|b| b.is_ascii_uppercase() || matches!(b, b'_' | b'-'));
    let written = said.match_indices(key).filter(|(at, _)| whole(*at)).filter_map(|(at, _)| {
        let rest = said.get(at + key.len()..)?;
        value(rest, &PAIR).or_else(|| if is_written { value(rest, &SET) } else { None })
    });
    let found: BTreeSet<&str> = written.collect();
    // `the restart policy to always` for `.RestartPolicy.Name`.
    let outer = fact.parent.as_deref().filter(|_| matches!(key, "Name" | "name" | "value"));
    let words = crate::effects::words(outer.unwrap_or(key));
    if !found.is_empty() || words.len() < 2 {
        return found;
    }
    let phrase = words.join(" ");
    let spoken = lower.match_indices(&phrase).filter(|(at, _)| whole(*at));
    spoken.filter_map(|(at, _)| value(said.get(at + phrase.len()..)?, &SPOKEN)).collect()
}

/// Words after a key that are no values.
#[rustfmt::skip]
const FILLERS: [&str; 37] = [
    "the", "a", "an", "it", "its", "be", "that", "this", "each", "all", "both", "one", "your", "their", "what", "something", "is", "are", "has",
    "must", "should", "with", "and", "or", "of", "to", "in", "on", "for", "from", "default", "name", "type", "which", "as", "not", "by",
];

/// The value directly after a key: `=frontend`.
static PAIR: Ascii = ascii(r"^=([A-Za-z0-9][\w./:-]*)");

/// The value after a spoken key: ` to always`, ` set to "always"`.
static SPOKEN: Ascii =
    ascii(r#"^\s+(?:is\s+)?(?:set\s+)?to\s+[`"']?([A-Za-z][\w-]+)[`"']?(?:[.,;)]|\s*$|\s+(?:and|for|in|on|of)\b)"#);

/// The text after a key: `set to debug`, `with the value "debug"`, `=debug`.
static SET: Ascii = ascii(
    r#"^[`"']?(?:\s*[=:]\s*|\s+(?:is\s+|be\s+)?(?:set\s+)?(?:to|with)\s+(?:the\s+)?(?:value\s+)?)[`"']?([\w./:-]+)"#,
);

/// The images with a tag in a text: the place, the name and the whole text.
fn tagged(text: &str) -> impl Iterator<Item = (usize, &str, &str)> {
    VALUE.find_iter(text).filter_map(|m| Some((m.start(), m.as_str().split_once(':')?.0, m.as_str())))
}

/// `the image nginx:1.26`, but the only tag of `nginx` in verify is another one.
fn images(view: &TaskView<'_>, said: &str, known: &LazyKnown<'_>, prompt: Span, out: &mut Diagnostics) {
    if !said.contains(':') || NEWER.is_match(&said.to_ascii_lowercase()) {
        return;
    }
    let told: BTreeSet<(&str, &str)> = tagged(said).map(|(_, name, image)| (name, image)).collect();
    for script in view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify && !told.is_empty()) {
        for (at, name, image) in tagged(&script.content.text) {
            let same: Vec<&str> = told.iter().filter(|(other, _)| *other == name).map(|(_, image)| *image).collect();
            let [asked] = same.as_slice() else { continue };
            let tag = asked.split_once(':').map_or("", |(_, tag)| tag);
            let only = || tagged(&known.verified).all(|(_, other, known)| other != name || known == image);
            // An image that setup uses is another's, unless nothing else mentions the one of the prompt.
            let is_free = || !known.others.contains(image) || !known.others.contains(asked);
            let is_forwarded = || name == "localhost" && known.verified.contains("port-forward");
            if *asked != image && !is_forwarded() && !known.verified.contains(tag) && only() && is_free() {
                out.push(disagrees(script.content.span(at..at + image.len()), image, asked, prompt));
                return;
            }
        }
    }
}

/// Words of a prompt that asks for a version without naming it.
pub(super) static NEWER: Ascii = ascii(r"\b(?:next|newer|newest|latest|bump|minor|major|patch|older)\b");

/// `the message "hello from helm"`, but verify compares with `hello helm`.
fn phrases(view: &TaskView<'_>, said: &str, known: &LazyKnown<'_>, prompt: Span, out: &mut Diagnostics) {
    let words = |text: &str| -> BTreeSet<String> {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
        words.map(str::to_ascii_lowercase).collect()
    };
    let quoted: Vec<&str> = QUOTED
        .captures_iter(said)
        .filter_map(|quoted| Some(quoted.get(1)?.as_str()))
        .filter(|text| text.trim().contains(' ') && text.len() < 200 && !known.verified.contains(*text))
        .collect();
    if quoted.is_empty() {
        return;
    }
    let flat = said.split_whitespace().collect::<Vec<_>>().join(" ");
    for (span, text) in looked_for(view) {
        let own = words(&text);
        let plain =
            text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b' ' | b'-' | b'.' | b',' | b'!' | b'?'));
        if own.len() < 2 || !plain || !text.contains(' ') || flat.contains(text.trim()) || known.others.contains(&text)
        {
            continue;
        }
        let near = quoted.iter().filter(|known| {
            let other = words(known);
            let common = own.intersection(&other).count();
            // A part of the text may be enough for a search.
            common * 4 > own.len().max(other.len()) * 2 && !known.to_lowercase().contains(&text.to_lowercase())
        });
        if let [near] = near.collect::<Vec<_>>()[..]
            && !out.iter().any(|known| known.span == span)
        {
            out.push(disagrees(span, &text, near, prompt));
            return;
        }
    }
}

/// `support@shop.example`, but verify expects `support@shop.example.org`.
fn addresses(view: &TaskView<'_>, said: &str, known: &LazyKnown<'_>, prompt: Span, out: &mut Diagnostics) {
    let told: BTreeSet<&str> = ADDRESS.find_iter(said).map(|m| m.as_str()).collect();
    if told.is_empty() {
        return;
    }
    let is_checked = |address: &str| ADDRESS.find_iter(&known.verified).any(|m| m.as_str() == address);
    for (span, text) in looked_for(view) {
        let Some((user, _)) =
            text.split_once('@').filter(|_| ADDRESS.find_iter(&text).next().is_some_and(|m| m.as_str() == text))
        else {
            continue;
        };
        let is_free = !told.contains(text.as_str()) && !known.others.contains(&text);
        let near = told.iter().filter(|other| other.split_once('@').is_some_and(|(name, _)| name == user));
        if let [near] = near.collect::<Vec<_>>()[..]
            && is_free
            && !is_checked(near)
        {
            out.push(disagrees(span, &text, near, prompt));
            return;
        }
    }
}

/// An e-mail address.
static ADDRESS: Ascii = ascii(r"\b[\w+-]+(?:\.[\w+-]+)*@[\w-]+(?:\.[\w-]+)+");

/// `a column status`, but verify looks for `column_name = 'state'`; `the label stale`, but it lists those with
/// `--label outdated`.
fn nouns(view: &TaskView<'_>, said: &str, known: &LazyKnown<'_>, prompt: Span, out: &mut Diagnostics) {
    for script in view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify) {
        let text = &script.content.text;
        let columns = CATALOG.captures_iter(text).filter_map(|found| Some((found.get(1)?.as_str(), found.get(2)?)));
        let options = OPTION.captures_iter(text).filter_map(|found| Some((found.get(1)?.as_str(), found.get(2)?)));
        for (key, value) in columns.chain(options) {
            let noun = NOUNS.iter().find(|(known, _)| *known == key).map_or(key, |(_, noun)| noun);
            let name = value.as_str();
            // Names that the database gives to indexes.
            let is_generated = ["_pkey", "_key", "_fkey", "_idx"].iter().any(|end| name.ends_with(end));
            if is_generated || texts::has_word(said, name) || texts::has_word(&known.others, name) {
                continue;
            }
            let told: BTreeSet<&str> = said
                .match_indices(noun)
                .filter(|(at, _)| said[..*at].ends_with([' ', '\n']))
                .filter_map(|(at, noun)| Some(NAMED.captures(&said[at + noun.len()..])?.get(1)?.as_str()))
                .filter(|told| !FILLERS.contains(told))
                .collect();
            let new: Vec<&&str> = told.iter().filter(|told| !texts::has_word(&known.others, told)).collect();
            let all: Vec<&&str> = told.iter().collect();
            if let ([told], _) | (_, [told]) = (new.as_slice(), all.as_slice()) {
                out.push(disagrees(script.content.span(value.range()), name, told, prompt));
                return;
            }
        }
    }
}

/// Columns of the catalogs of databases, and the words for what they name.
const NOUNS: [(&str, &str); 9] = [
    ("column_name", "column"),
    ("attname", "column"),
    ("table_name", "table"),
    ("tablename", "table"),
    ("indexname", "index"),
    ("index_name", "index"),
    ("rolname", "role"),
    ("usename", "user"),
    ("datname", "database"),
];

static CATALOG: Ascii = ascii(
    r"\b(column_name|attname|table_name|tablename|indexname|index_name|rolname|usename|datname)\s*=\s*'([A-Za-z][\w-]+)'",
);

/// Options of clients that select by a name.
static OPTION: Ascii = ascii(r#"\s--(label|branch|milestone|bucket|queue|topic)[= ]["']?([A-Za-z][\w.-]+)"#);

/// The name after the word for what it names.
static NAMED: Ascii = ascii(
    r#"^\s+(?:named\s+|called\s+)?[`"']?([A-Za-z][\w-]+)[`"']?(?:[.,;)]|\s*$|\s+(?:of|to|in|on|and|from|with|for|as|must|must not|should)\b)"#,
);

/// `from 15:00 to 16:30 UTC`, but verify looks for `T150000Z` and `T173000Z`.
fn clocks(view: &TaskView<'_>, said: &str, known: &LazyKnown<'_>, prompt: Span, out: &mut Diagnostics) {
    let told: BTreeSet<(u32, u32)> = TIME.captures_iter(said).filter_map(|time| hour_and_minute(&time)).collect();
    if told.len() < 2 {
        return;
    }
    let stamps = |text: &str| -> BTreeSet<(u32, u32)> {
        STAMP.captures_iter(text).filter_map(|stamp| hour_and_minute(&stamp)).collect()
    };
    let (verified, others) = (stamps(&known.verified), stamps(&known.others));
    // One of the times must be the same, so that both are in the same time zone.
    let missing: Vec<&(u32, u32)> = told.difference(&verified).collect();
    let odd: Vec<&(u32, u32)> = verified.iter().filter(|time| !told.contains(time) && !others.contains(time)).collect();
    let ([missing], [odd]) = (missing.as_slice(), odd.as_slice()) else { return };
    if others.contains(missing) || told.is_disjoint(&verified) {
        return;
    }
    let (shown, asked) = (format!("{:02}:{:02}", odd.0, odd.1), format!("{:02}:{:02}", missing.0, missing.1));
    let in_scripts = view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify).find_map(|script| {
        let text = &script.content.text;
        let found = STAMP.captures_iter(text).find(|stamp| hour_and_minute(stamp).as_ref() == Some(odd))?;
        found.get(0).map(|m| script.content.span(m.range()))
    });
    let in_steps = || expected(view).into_iter().find(|(_, text)| stamps(text).contains(odd)).map(|(span, _)| span);
    if let Some(span) = in_scripts.or_else(in_steps) {
        out.push(disagrees(span, &shown, &asked, prompt));
    }
}

/// `every night at 03:30`, but verify expects the schedule `30 2 * * *`.
fn schedules(view: &TaskView<'_>, said: &str, prompt: Span, out: &mut Diagnostics) {
    let lower = said.to_ascii_lowercase();
    let daily = [
        "every night",
        "every day",
        "every morning",
        "every evening",
        "each night",
        "each day",
        "nightly",
        "daily",
        "cron",
    ];
    // A time in another time zone, or on a clock with twelve hours, has another number.
    let zone = ["utc", "gmt", "time zone", "timezone", "am", "pm", "a.m", "p.m", "cet", "pst", "est"];
    if !daily.iter().any(|word| lower.contains(word)) || zone.iter().any(|word| texts::has_word(&lower, word)) {
        return;
    }
    let times: BTreeSet<(u32, u32)> = TIME.captures_iter(said).filter_map(|time| hour_and_minute(&time)).collect();
    let [told] = times.into_iter().collect::<Vec<_>>()[..] else { return };
    let scripts = view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify);
    let scripts = scripts.filter(|script| script.content.text.contains("chedule"));
    let mut found: Vec<(Span, String)> = Vec::new();
    for script in scripts {
        let all = DAILY.captures_iter(&script.content.text).filter_map(|found| found.get(1));
        found.extend(all.map(|m| (script.content.span(m.range()), m.as_str().to_owned())));
    }
    found.extend(expected(view).into_iter().filter(|(_, text)| DAILY.is_match(&format!("'{text}'"))));
    // A schedule of setup may have to be kept, or to go.
    let others = &facts::elsewhere(view).rest;
    for (span, text) in found {
        let mut fields = text.split_whitespace().filter_map(|field| field.parse::<u32>().ok());
        let (Some(minute), Some(hour)) = (fields.next(), fields.next()) else { continue };
        let is_time = hour < 24 && minute < 60;
        if is_time
            && (hour, minute) != told
            && !others.contains(&text)
            && !said.contains(&text)
            && !others.contains("chedule")
        {
            out.push(disagrees(span, &text, &format!("{:02}:{:02}", told.0, told.1), prompt));
            return;
        }
    }
}

/// A schedule of cron for every day.
static DAILY: Ascii = ascii(r#"["'](\d{1,2} \d{1,2} \* \* \*)["']"#);

fn hour_and_minute(time: &Captures<'_>) -> Option<(u32, u32)> {
    let part = |group: usize| time.get(group)?.as_str().parse::<u32>().ok();
    Some((part(1)?, part(2)?))
}

/// A date with a time of day: `20300611T163000Z`, `2031-05-06T14:00`.
static STAMP: Ascii = ascii(r"\d\dT([01]\d|2[0-3]):?([0-5]\d)");

/// `that says "back soon"`, but verify looks for `Back soon`.
fn cases(view: &TaskView<'_>, said: &str, prompt: Span, out: &mut Diagnostics) {
    let quoted = || QUOTED.captures_iter(said).filter_map(|quoted| Some(quoted.get(1)?.as_str()));
    // `grep -qi`, `--ignore-case`, `${x,,}`, `ascii_downcase`.
    let either = |text: &str| {
        let mut options = text.split_whitespace().filter(|word| word.starts_with('-') && !word.starts_with("--"));
        options.any(|word| word.contains('i'))
            || ["tr ", ",,}", "^^}", "case", "lower", "upper"].iter().any(|word| text.contains(word))
    };
    // The prompt is about letter case.
    if ["capital", "case", "caps"].iter().any(|word| said.contains(word)) {
        return;
    }
    let others = &facts::elsewhere(view).rest;
    for (span, text) in expected(view).into_iter().chain(in_statements(view)) {
        if out.iter().any(|known| known.span == span)
            || text.len() < 4
            || said.contains(&text)
            || others.contains(&text)
        {
            continue;
        }
        let lower = text.to_lowercase();
        // `Ingress` is not another spelling of a part of `db-ingress`.
        let is_joined = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
        let has = |known: &&str| {
            let known = known.to_lowercase();
            known
                .match_indices(&lower)
                .any(|(at, _)| !known[..at].ends_with(is_joined) && !known[at + lower.len()..].starts_with(is_joined))
        };
        let Some(known) = quoted().find(has) else { continue };
        let holds = |content: &&Content| {
            let whole = content.span(0..content.text.len());
            whole.file == span.file && whole.start <= span.start && span.end <= whole.end
        };
        let content = view.scripts.iter().map(|script| &*script.content).find(holds);
        if content.is_none_or(|content| !either(&content.text)) {
            out.push(disagrees(span, &text, known, prompt));
            return;
        }
    }
}

/// The texts with which SQL in the arguments of verify compares a column.
fn in_statements(view: &TaskView<'_>) -> Vec<(Span, String)> {
    let mut found = Vec::new();
    let mut add = |step: &Step<Def>| {
        for (_, arg) in &step.args {
            arg.templates(&mut |template| {
                let text = texts::written(template);
                let quoted = SQL_TEXT.captures_iter(&text).filter_map(|text| Some(text.get(1)?.as_str().to_owned()));
                found.extend(quoted.map(|text| (arg.span, text)));
            });
        }
    };
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            if matches!(step.op.kind, OperationKind::Tool { .. } | OperationKind::Extension { .. }) {
                add(step);
            }
        });
    });
    found
}

/// `WHERE status = 'open'`, if no function changes the letter case.
static SQL_TEXT: Ascii = ascii(r"\b(?:WHERE|AND|where|and)\s+[\w.]+\s*=\s*'([^'\n]+)'");

/// `create a pod web-server in the default namespace`, but verify looks for it in another.
fn namespaces(view: &TaskView<'_>, said: &str, prompt: Span, out: &mut Diagnostics) {
    if !said.contains("namespace") {
        return;
    }
    let plain =
        |word: &str| word.len() > 1 && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    let quotes = ['"', '\'', '`', '.', ','];
    let told: BTreeSet<&str> = said
        .match_indices("namespace")
        .filter(|(at, word)| !said[at + word.len()..].starts_with(char::is_alphanumeric))
        .filter_map(|(at, word)| {
            // `in the default namespace`, `the namespace default`.
            let before: Vec<&str> = said[..at].split(' ').rev().skip(1).take(3).collect();
            let name = before.first().map(|name| name.trim_matches(quotes)).filter(|_| said[..at].ends_with(' '));
            let leads = before[1.min(before.len())..].iter().any(|word| matches!(*word, "in" | "to" | "from" | "of"));
            let behind = said[at + word.len()..].strip_prefix(' ').and_then(|rest| rest.split([' ', '\n']).next());
            let is_name = |name: &&str| plain(name) && !COMMON.contains(name);
            name.filter(|_| leads)
                .filter(is_name)
                .or_else(|| behind.map(|name| name.trim_matches(quotes)).filter(is_name))
        })
        .collect();
    let [told] = told.into_iter().collect::<Vec<_>>()[..] else { return };
    let part = |c: char| c.is_ascii_alphanumeric() || c == '-';
    // `unknown-namespace` reports others.
    let in_setup = |space: &str| texts::words(&facts::elsewhere(view).rest, part).any(|(_, word)| word == space);
    for act in view.effects.in_phase(PhaseKind::Verify).filter(|act| act.thing.system == "kubernetes") {
        let literal = |value: &Option<Value>| value.as_ref().and_then(Value::literal).map(str::to_owned);
        let (Some(name), Some(space)) = (literal(&act.thing.name), literal(&act.thing.space)) else { continue };
        if matches!(act.verb, Verb::Reads | Verb::Awaits)
            && name.len() > 2
            && texts::has_word(said, &name)
            && !texts::words(said, part).any(|(_, word)| word == space)
            && (!said.contains(&space) || in_setup(&space))
            && space != told
        {
            out.push(disagrees(act.span, &space, told, prompt));
            return;
        }
    }
}

/// Words next to `namespace` that are not names.
const COMMON: [&str; 22] = [
    "the", "this", "that", "a", "an", "its", "same", "and", "in", "is", "with", "of", "new", "own", "my", "called",
    "named", "each", "every", "for", "to", "has",
];

/// `in the folder whose uid is eval-team`, but verify only checks that `folderUid` exists.
fn given_values(view: &TaskView<'_>, said: &str, known: &LazyKnown<'_>, prompt: Span, out: &mut Diagnostics) {
    let mut fields: Vec<(Span, String)> = Vec::new();
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            if let Some((_, expect)) = &step.expect {
                existing(expect, &mut fields);
            }
        });
    });
    for (span, key) in fields {
        let parts = crate::effects::words(&key);
        if parts.is_empty() {
            continue;
        }
        for (at, _) in said.match_indices('`').step_by(2) {
            let Some(value) = said[at + 1..].split('`').next().filter(|value| !value.is_empty()) else { continue };
            let start = said[..at].rfind(['.', ';', ':', '\n']).map_or(0, |end| end + 1);
            // The words of the key must precede the value, with no other value in between.
            let start = said[start..at].rfind('`').map_or(start, |tick| start + tick + 1);
            let head = said[start..at].to_lowercase();
            if parts.iter().all(|word| head.contains(word.as_str())) && !known.verified.contains(value) {
                out.push(
                    Diagnostic::new(
                        &PROMPT_DISAGREES,
                        span,
                        format!("the prompt asks for `{value}`, but this accepts any `{key}`"),
                    )
                    .label(prompt, "in this prompt")
                    .help(format!("compare the value: `equals: {value}`")),
                );
                return;
            }
        }
    }
}

/// Collects every `{path: $.meta.folderUid, exists: true}`.
fn existing(arg: &crate::hir::Arg<crate::hir::Def>, found: &mut Vec<(Span, String)>) {
    match &arg.kind {
        ArgKind::Record(fields) => {
            let path = arg.get("path").and_then(|path| path.as_literal()).and_then(super::facts::last_name);
            let only = fields.iter().all(|(key, _)| matches!(key.value.as_str(), "path" | "exists" | "type"));
            if let Some(key) = path.filter(|_| only && fields.len() > 1) {
                found.push((arg.span, key));
            }
            fields.iter().for_each(|(_, arg)| existing(arg, found));
        }
        ArgKind::List(items) => items.iter().for_each(|arg| existing(arg, found)),
        _ => {}
    }
}

/// The number directly after the name of a field.
static NUMBER: Ascii = ascii(r#"^[`"']?\s*(?:to|=|:|is|of|at)?\s*[`"']?(\d+(?:\.\d+)?)\b"#);

static QUOTED: Ascii = ascii("[`\"']([^`\"'\n]+)[`\"']|\\b([a-z]+[/-][a-z0-9./-]*[a-z0-9])\\b");

/// The literal texts that verify compares with or looks for, and the names of the resources that it checks.
fn looked_for(view: &TaskView<'_>) -> Vec<(Span, String)> {
    let mut found = expected(view);
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
fn constants(content: &Content, found: &mut Vec<(Span, String)>) {
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

/// Whether two different names share at least half of the parts of the shorter one.
pub(super) fn is_kin(a: &str, b: &str) -> bool {
    fn parts(name: &str) -> impl Iterator<Item = &str> {
        name.split(['-', '_', '.', '/']).filter(|part| part.len() > 1)
    }
    let common = parts(a).filter(|part| parts(b).any(|other| other.eq_ignore_ascii_case(part))).count();
    let (of_a, of_b) = (parts(a).count(), parts(b).count());
    common > 0 && common * 2 >= of_a.min(of_b) && !(common == of_a && common == of_b)
}

/// A message of a script.
static MESSAGE: Ascii = ascii(r#"\b(?:echo|printf|fail|die)\s+(?:"[^"\n$]*"|'[^'\n]*')"#);

/// Typical names of resources: several parts, separated by hyphens or underscores.
static NAME: Ascii = ascii(r"\b[a-z][a-z0-9]*(?:[-_][a-z0-9]+)+\b");

/// Names whose parts are separated by dots: hosts, types, files.
static DOTTED: Ascii = ascii(r"\b[a-z][a-z0-9-]*(?:\.[a-z0-9-]*[a-z][a-z0-9-]*)+\b");

static PATH: Ascii = ascii(r"/(?:tmp|var|srv|opt|home|work|data)(?:/[\w.{}-]+)+");

/// Quoted strings after `grep`, and in comparisons of SQL and jq.
static LOOKED: Ascii = ascii(r#"(?:\bgrep\s[^|\n"']*["']|==\s*\\?"|\bhas\(\\?"|\s=\s*')([^"'\n]+)["']"#);

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Item {
    form: String,
    text: String,
}

/// The values with a form: numbers from 2, amounts, images with a tag, words in capitals.
fn values(text: &str) -> BTreeSet<Item> {
    read_values(text, false)
}

/// These, and the numbers that are parts of dates, times, names and addresses.
fn mentioned(text: &str) -> BTreeSet<Item> {
    read_values(text, true)
}

/// Whether a number is that of a database of Redis wherever the prompt has it: `coordinates` compares these.
fn is_database(lower: &str, number: &str) -> bool {
    let mut places = lower.match_indices(number).peekable();
    places.peek().is_some() && places.all(|(at, _)| lower[..at].ends_with("database "))
}

/// Whether a prompt has a value in capitals as plain words: `NOT_PLANNED`, where it says `as not planned`.
fn is_spelled(lower: &str, value: &str) -> bool {
    value.contains('_') && lower.contains(&value.to_lowercase().replace('_', " "))
}

fn read_values(text: &str, with_parts: bool) -> BTreeSet<Item> {
    let mut found = BTreeSet::new();
    for m in VALUE.find_iter(text) {
        let (word, behind) = (m.as_str(), text[m.end()..].trim_start_matches(' '));
        // The range of an expression: `rate(requests[5m])`.
        if text[..m.start()].ends_with('[') && behind.starts_with(']') && word.ends_with('m') {
            continue;
        }
        // A part of a date, a time, a name or an address.
        let is_number = !with_parts && word.bytes().all(|b| b.is_ascii_digit());
        if is_number && (is_joined(text[..m.start()].chars().rev()) || is_joined(text[m.end()..].chars())) {
            continue;
        }
        if is_number && word.len() == 4 && MONTH.is_match(&text[..m.start()]) {
            continue;
        }
        let form = match word {
            _ if behind.starts_with('%') || behind.starts_with("percent") => "percentage".to_owned(),
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

/// Whether a text goes on with a sign within a word and more of the word.
fn is_joined(mut text: impl Iterator<Item = char>) -> bool {
    text.next().is_some_and(|c| matches!(c, '-' | ':' | '/' | '_')) && text.next().is_some_and(char::is_alphanumeric)
}

static MONTH: Ascii = ascii(
    r"\b(?:January|February|March|April|May|June|July|August|September|October|November|December)(?: \d{1,2})?,? $",
);

static VALUE: Ascii = ascii(
    r"(?-u)\b(?:[a-z][a-z0-9-]*(?:/[a-z0-9-]+)*:v?\d[\w.-]*\w|\d+(?:\.\d+)?(?:Ki|Mi|Gi|Ti|m|MB|GB|KB)\b|\d+\b|[A-Z][A-Z0-9_]{4,}\b)",
);

/// The literal texts that verify compares with, and their spans.
pub(super) fn expected(view: &TaskView<'_>) -> Vec<(Span, String)> {
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
            "status" | "exitCode" | "path" | "matches" | "timeout" | "not" | "type" | "sorted" => {}
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
static COMPARED: Ascii =
    ascii(r#"(?:\s(?:=|==|!=|-eq|-ne|-ge|-le)\s+|\bgrep\s+(?:-\w+\s+)*)(?:"([^"$`\n]+)"|'([^'\n]+)'|([\w.:/-]+))"#);
