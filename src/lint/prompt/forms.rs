//! The prompt and verify use different values of a recognizable form: time zones, durations, paths, titles.

use std::cell::LazyCell;

use crate::{
    ascii::{Ascii, ascii},
    diagnostic::{Diagnostic, Diagnostics},
    hir::PhaseKind,
    lint::{
        TaskView,
        analysis::{
            expected::read_paths,
            facts::{self, Fact},
            quantity::Quantity,
            texts,
        },
        prompt::disagrees::{PROMPT_DISAGREES, disagrees},
    },
    source::Span,
};

/// Runs the checks of `prompt-disagrees` for values of these forms.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    let Some((said, prompt)) = facts::prompt(view) else { return };
    zones(view, said, prompt, out);
    dates(view, said, prompt, out);
    durations(view, said, prompt, out);
    similar_path(view, said, prompt, out);
    titles(view, said, prompt, out);
    quoted_numbers(view, said, prompt, out);
    in_parentheses(view, said, prompt, out);
}

/// `Europe/Berlin`, but verify expects `Europe/Vienna`.
fn zones(view: &TaskView<'_>, said: &str, prompt: Span, out: &mut Diagnostics) {
    let told: Vec<&str> = ZONE.find_iter(said).map(|found| found.as_str()).collect();
    let [told] = told.as_slice() else { return };
    let elsewhere = facts::elsewhere(view);
    if elsewhere.verify.contains(*told) {
        return;
    }
    for (span, text) in crate::lint::analysis::expected::expected(view) {
        let is_zone = ZONE.find_iter(text).any(|found| found.as_str() == text.trim());
        if is_zone && !elsewhere.rest.contains(text.trim()) {
            out.push(disagrees(span, text.trim(), told, prompt));
            return;
        }
    }
}

static ZONE: Ascii =
    ascii(r"\b(?:Africa|America|Antarctica|Asia|Atlantic|Australia|Europe|Indian|Pacific)/[A-Z][A-Za-z_]+");

/// `written like that: 15.12.2026`, but verify expects `2026-12-15`. Requires that the prompt has the date in one form only, and speaks of it.
fn dates(view: &TaskView<'_>, said: &str, prompt: Span, out: &mut Diagnostics) {
    // A date has eight digits, or six.
    if said.bytes().filter(u8::is_ascii_digit).count() < 6 {
        return;
    }
    let told: Vec<_> = DATE.captures_iter(said).collect();
    let ([date], true) = (told.as_slice(), LIKE.is_match(said)) else { return };
    let part = |nth: usize| date.get(nth).map_or("", |part| part.as_str());
    let other = format!("{}-{:0>2}-{:0>2}", part(3), part(2), part(1));
    if said.contains(&other) {
        return;
    }
    let place =
        crate::lint::analysis::expected::expected(view).find(|(_, text)| text.contains(&other)).map(|(span, _)| span);
    if let Some(span) = place {
        out.push(disagrees(span, &other, part(0), prompt));
    }
}

static DATE: Ascii = ascii(r"\b(\d{1,2})\.(\d{1,2})\.(\d{4})\b");
/// Words by which a prompt asks for a form.
static LIKE: Ascii = ascii(r"(?i)\b(?:like (?:that|this)|in th(?:is|at) (?:form|format)|written as|formatted)\b");

/// The only duration of the prompt is `3 seconds`, and the only one that verify compares with is `5s`.
fn durations(view: &TaskView<'_>, said: &str, prompt: Span, out: &mut Diagnostics) {
    let is_time = |quantity: &Quantity| quantity.unit == "s";
    let lower = said.to_lowercase();
    let told: Vec<(usize, Quantity)> = Quantity::all(&lower).into_iter().filter(|(_, q)| is_time(q)).collect();
    let [(at, told)] = told.as_slice() else { return };
    // `within 30 seconds` is a limit for the agent, and `every minute` may be written in many ways.
    if LIMIT.is_match(&lower[..*at]) || !told.text.starts_with(|c: char| c.is_ascii_digit()) {
        return;
    }
    let is_written = |text: &str| {
        text.len() > 1
            && text.ends_with(|c: char| c.is_ascii_lowercase())
            && text.starts_with(|c: char| c.is_ascii_digit())
    };
    let compared: Vec<(&Fact, Quantity)> = facts::asked(view)
        .iter()
        .filter(|fact| fact.exact && is_written(&fact.text()))
        .filter_map(|fact| Some((fact, Quantity::of_value(&fact.text())?)))
        .filter(|(_, quantity)| is_time(quantity))
        .collect();
    let [(fact, quantity)] = compared.as_slice() else { return };
    let elsewhere = facts::elsewhere(view);
    let is_known =
        Quantity::all(&elsewhere.verify.to_lowercase()).iter().any(|(_, other)| is_time(other) && other.is(told));
    let word = crate::effects::words(&fact.key).pop().unwrap_or_default();
    let is_about = word.len() > 3 && lower.contains(word.as_str());
    if !quantity.is(told) && !is_known && is_about && !elsewhere.rest.contains(fact.text().as_str()) {
        out.push(disagrees(fact.span, &fact.text(), said.get(*at..at + told.text.len()).unwrap_or(&told.text), prompt));
    }
}

static LIMIT: Ascii = ascii(r"(?:\b(?:within|after|at most|up to|wait(?: for)?|last|past|older than|every)\s+)$");

/// Verify reads `/tmp/edge-answer/code.txt`, and the prompt names `/tmp/edge-answers/code.txt`, which nothing else does.
fn similar_path(view: &TaskView<'_>, said: &str, prompt: Span, out: &mut Diagnostics) {
    let elsewhere = facts::elsewhere(view);
    for told in PATH.find_iter(said) {
        let told = told.as_str().trim_end_matches(['.', ',', '/']);
        if told.len() < 8 || elsewhere.verify.contains(told) || elsewhere.rest.contains(told) {
            continue;
        }
        let scripts = view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify);
        let written = scripts.flat_map(|script| {
            let content = &script.content;
            PATH.find_iter(&content.text).map(|path| (content.span(path.range()), path.as_str().to_owned()))
        });
        for (span, read) in read_paths(view).into_iter().chain(written) {
            let distance = strsim::levenshtein(told, &read);
            let numbered = |text: &str| text.bytes().filter(u8::is_ascii_digit).count();
            if (1..=2).contains(&distance)
                && read.matches('/').count() == told.matches('/').count()
                && numbered(&read) == numbered(told)
                && !said.contains(read.as_str())
                && !out.iter().any(|known| known.span == span)
            {
                out.push(disagrees(span, &read, told, prompt));
                return;
            }
        }
    }
}

static PATH: Ascii = ascii(r"/(?:tmp|var|opt|srv|home|data|work|workspace|etc)/[\w./-]+");

/// The prompt names `"Checkout crashes with empty cart"`, and setup and verify use `Checkout crashes on empty basket`.
fn titles(view: &TaskView<'_>, said: &str, prompt: Span, out: &mut Diagnostics) {
    if !said.contains('"') {
        return;
    }
    let elsewhere = facts::elsewhere(view);
    let sourced = LazyCell::new(|| {
        let all = view.effects.scripts.iter().flat_map(|script| &script.trace.sources);
        all.map(|content| content.text.as_str()).collect::<String>()
    });
    for told in TITLE.captures_iter(said) {
        let Some(told) = told.get(1).map(|told| told.as_str()) else { continue };
        let lower = told.to_lowercase();
        let all = [&elsewhere.rest, &elsewhere.verify, &*sourced];
        if words(&lower).count() < 3 || all.iter().any(|text| text.to_lowercase().contains(&lower)) {
            continue;
        }
        for (span, text) in constants(view) {
            let other = text.to_lowercase();
            let (a, b): (Vec<&str>, Vec<&str>) = (words(&lower).collect(), words(&other).collect());
            let common = a.iter().filter(|word| b.contains(word)).count();
            let is_used = elsewhere.rest.contains(text.as_str()) || sourced.contains(text.as_str());
            if b.len() > 2
                && a.len().abs_diff(b.len()) < 2
                && common * 2 > a.len().max(b.len())
                && common > 1
                && is_used
            {
                out.push(
                    Diagnostic::new(
                        &PROMPT_DISAGREES,
                        span,
                        format!("setup and verify use `{text}`, but the prompt says `{told}`"),
                    )
                    .label(prompt, "in this prompt")
                    .help("use the same text in both"),
                );
                return;
            }
        }
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() > 1)
}

static TITLE: Ascii = ascii(r#"\b(?:titled|called|named|title|subject|message)\s+"([^"\n]{8,80})""#);

/// The texts that scripts assign to variables: `TITLE="…"`.
fn constants(view: &TaskView<'_>) -> Vec<(Span, String)> {
    let mut found = Vec::new();
    let mut add = |content: &crate::effects::script::Content| {
        for constant in CONSTANT.captures_iter(&content.text) {
            if let Some(text) = constant.get(1) {
                found.push((content.span(text.range()), text.as_str().to_owned()));
            }
        }
    };
    for script in view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify) {
        add(&script.content);
    }
    for script in view.effects.scripts.iter().filter(|script| script.view.phase == PhaseKind::Verify) {
        script.trace.sources.iter().for_each(|content| add(content));
    }
    found
}

static CONSTANT: Ascii = ascii(r#"(?m)^\s*(?:readonly |export )?[A-Z][A-Z0-9_]*="([^"$`\n]{8,80})"$"#);

/// `set version to the number 2`, but verify compares with the text `"2"`.
fn quoted_numbers(view: &TaskView<'_>, said: &str, prompt: Span, out: &mut Diagnostics) {
    if !said.contains(" the number ") {
        return;
    }
    for told in NUMBER.captures_iter(said) {
        let (Some(field), Some(number)) = (told.get(1), told.get(2)) else { continue };
        let wrong = facts::asked(view)
            .iter()
            .find(|fact| fact.typed && fact.key == field.as_str() && fact.value.as_str() == Some(number.as_str()));
        if let Some(fact) = wrong {
            out.push(disagrees(
                fact.span,
                &format!("\"{}\"", number.as_str()),
                &format!("the number {}", number.as_str()),
                prompt,
            ));
        }
    }
}

static NUMBER: Ascii = ascii(r#"([A-Za-z_]\w*)[`"]? (?:to|is|as|with|being) the number (\d+)"#);

/// `publish the article (state published)`, but verify checks for `draft`, which setup sets.
fn in_parentheses(view: &TaskView<'_>, said: &str, prompt: Span, out: &mut Diagnostics) {
    if !said.contains('(') {
        return;
    }
    for told in VALUE.captures_iter(said) {
        let (Some(field), Some(value)) = (told.get(1), told.get(2)) else { continue };
        let asked: Vec<&Fact> =
            facts::asked(view).iter().filter(|fact| fact.exact && fact.key == field.as_str()).collect();
        let [fact] = asked.as_slice() else { continue };
        let is_word = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphabetic() || b == b'_');
        let text = fact.text();
        let sentence = &said[texts::sentence(said, field.start())];
        if is_word(&text)
            && !text.eq_ignore_ascii_case(value.as_str())
            && !texts::has_word(&HOLE.replace_all(said, |_| " ".to_owned()), &text)
            && !facts::elsewhere(view).verify.contains(value.as_str())
            && !crate::lint::analysis::orders::KEEPS.is_match(sentence)
        {
            out.push(disagrees(fact.span, &text, value.as_str(), prompt));
        }
    }
}

static HOLE: Ascii = ascii(r"\{[^{}\n]*\}");
static VALUE: Ascii = ascii(r"\((?:the )?([a-z][A-Za-z_]{2,}) ([a-z_]{3,})\)");
