//! The prompt and verify name different amounts: numbers, limits, units, times.

use std::collections::BTreeSet;

use crate::{
    ascii::{Ascii, Captures, ascii},
    diagnostic::Diagnostics,
    hir::PhaseKind,
    lint::{
        TaskView,
        analysis::{expected::expected, facts, quantity::Quantity, texts},
        prompt::disagrees::disagrees,
    },
    source::Span,
};

/// Each question is a function.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    let Some((said, prompt)) = facts::prompt(view) else { return };
    numbers(view, said, prompt, out);
    ports(view, said, prompt, out);
    bounds(view, said, prompt, out);
    quantities(view, said, prompt, out);
    limits(view, said, prompt, out);
    units(view, said, prompt, out);
    times(view, said, prompt, out);
    clocks(view, said, prompt, out);
    schedules(view, said, prompt, out);
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

/// A prompt that asks to undo a change, and describes it.
static REVERTS: Ascii =
    ascii(r"(?i)\b(?:roll\w* (?:it )?back|rollback|undo|revert|mistake|by accident|accidentally)\b");

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
            let sentence = crate::lint::analysis::orders::sentence(said, at);
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

/// `refreshes every minute`, but verify checks for `.refresh == "30s"`.
fn quantities(view: &TaskView<'_>, said: &str, prompt: Span, out: &mut Diagnostics) {
    let facts = facts::asked(view);
    let measured: Vec<(&facts::Fact, Quantity)> =
        facts.iter().filter_map(|fact| Some((fact, Quantity::of_value(&fact.text())?))).collect();
    if measured.is_empty() {
        return;
    }
    let lower = said.to_lowercase();
    let told = Quantity::all(&lower);
    let wanted = || Quantity::all(&facts::known(view).verified.to_lowercase()).into_iter().map(|(_, q)| q);
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
fn limits(view: &TaskView<'_>, said: &str, prompt: Span, out: &mut Diagnostics) {
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
        if is_bound && word.len() > 1 && !facts::known(view).anywhere(word) {
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

/// `from 15:00 to 16:30 UTC`, but verify looks for `T150000Z` and `T173000Z`.
fn clocks(view: &TaskView<'_>, said: &str, prompt: Span, out: &mut Diagnostics) {
    let told: BTreeSet<(u32, u32)> = TIME.captures_iter(said).filter_map(|time| hour_and_minute(&time)).collect();
    if told.len() < 2 {
        return;
    }
    let stamps = |text: &str| -> BTreeSet<(u32, u32)> {
        STAMP.captures_iter(text).filter_map(|stamp| hour_and_minute(&stamp)).collect()
    };
    let (verified, others) = (stamps(&facts::known(view).verified), stamps(&facts::known(view).others));
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
    let in_steps = || expected(view).find(|(_, text)| stamps(text).contains(odd)).map(|(span, _)| span);
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
    let daily = expected(view).filter(|(_, text)| DAILY.is_match(&format!("'{text}'")));
    found.extend(daily.map(|(span, text)| (span, text.to_owned())));
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

/// The number directly after the name of a field.
static NUMBER: Ascii = ascii(r#"^[`"']?\s*(?:to|=|:|is|of|at)?\s*[`"']?(\d+(?:\.\d+)?)\b"#);
