//! The prompt and verify ask for different things. `prompt_paths`, `prompt_names`, `prompt_amounts` and `prompt_values`
//! compare what they understand; here, values are compared by their form.

use std::{borrow::Cow, cell::LazyCell, collections::BTreeSet};

use crate::{
    ascii::{Ascii, ascii},
    diagnostic::{Diagnostic, Diagnostics},
    hir::{Arg, ArgKind, Def, PhaseKind},
    lint::{
        TaskView,
        analysis::{expected::expected, facts, quantity::Quantity, texts},
    },
    rule,
    source::Span,
};

rule! {
    pub static PROMPT_DISAGREES = "prompt-disagrees", Warning;
}

/// Verify expects a number, an amount, an image or a word in capitals that appears nowhere else, and the prompt has one
/// of the same form that nothing else in the task has: probably only one of them was changed.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    let Some((said, prompt)) = facts::prompt(view) else { return };
    let (mut asked, mut known_of_prompt) = (values(said), mentioned(said));
    // A prompt may contain numbers as words.
    let lower = said.to_lowercase();
    let present = without_past(&lower);
    for (number, word) in NUMBERS.iter().enumerate() {
        if is_spoken(&present, word) {
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
        .flat_map(|(span, text)| values(text).into_iter().map(move |item| (span, item)))
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
        step.args.iter().for_each(|(_, arg)| facts::constants_in(arg, text));
        step.expect.iter().for_each(|(_, arg)| facts::constants_in(arg, text));
    });
    verified.push_str(&facts::expected_files(view));
    let is_sum = AGGREGATE.is_match(&verified);
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
        // `Insert 1 and 2`, and verify expects their sum.
        let is_derived = is_sum && item.form.starts_with("number");
        let fits =
            |other: &Item| !is_newer && !is_derived && (!is_measured(&lower, &other.text) || !counts.contains(&span));
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

/// The sentences of a prompt that do not tell what was before: `Two links were already broken`.
fn without_past(lower: &str) -> Cow<'_, str> {
    if !lower.contains("already") {
        return Cow::Borrowed(lower);
    }
    let sentences = lower.split_inclusive(['.', ';', '\n']);
    sentences.filter(|sentence| !PAST.is_match(sentence)).collect()
}

static PAST: Ascii = ascii(r"\b(?:were|was|have been|has been)\s+already\b");

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
    fn collect(arg: &Arg<Def>, found: &mut BTreeSet<Span>) {
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

/// Functions of SQL and jq that make one number of several.
static AGGREGATE: Ascii = ascii(r"(?i:\b(?:sum|avg|max|min|total)\s*\()|\|\s*add\b");

/// Numbers that are not values: file descriptors (`>&2`, `2>/dev/null`), pauses, exit statuses, ranges (`seq 1 5`).
static STREAM: Ascii = ascii(r"[12]?>&[12]|2>|\b(?:sleep|exit|return)\s+\d+|\bseq\s+\d+(?:\s+\d+)*|\{\d+\.\.\d+\}");

pub fn disagrees(span: Span, expected: &str, said: &str, prompt: Span) -> Diagnostic {
    Diagnostic::new(&PROMPT_DISAGREES, span, format!("verify expects `{expected}`, but the prompt says `{said}`"))
        .label(prompt, "in this prompt")
        .help("use the same value in both")
}

/// Words of a prompt that asks for a version without naming it.
pub static NEWER: Ascii = ascii(r"\b(?:next|newer|newest|latest|bump|minor|major|patch|older)\b");

/// Whether two different names share at least half of the parts of the shorter one.
pub fn is_kin(a: &str, b: &str) -> bool {
    fn parts(name: &str) -> impl Iterator<Item = &str> {
        name.split(['-', '_', '.', '/']).filter(|part| part.len() > 1)
    }
    let common = parts(a).filter(|part| parts(b).any(|other| other.eq_ignore_ascii_case(part))).count();
    let (of_a, of_b) = (parts(a).count(), parts(b).count());
    common > 0 && common * 2 >= of_a.min(of_b) && !(common == of_a && common == of_b)
}

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
pub fn is_joined(mut text: impl Iterator<Item = char>) -> bool {
    text.next().is_some_and(|c| matches!(c, '-' | ':' | '/' | '_')) && text.next().is_some_and(char::is_alphanumeric)
}

static MONTH: Ascii = ascii(
    r"\b(?:January|February|March|April|May|June|July|August|September|October|November|December)(?: \d{1,2})?,? $",
);

pub static VALUE: Ascii = ascii(
    r"(?-u)\b(?:[a-z][a-z0-9-]*(?:/[a-z0-9-]+)*:v?\d[\w.-]*\w|\d+(?:\.\d+)?(?:Ki|Mi|Gi|Ti|m|MB|GB|KB)\b|\d+\b|[A-Z][A-Z0-9_]{4,}\b)",
);
