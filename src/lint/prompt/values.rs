//! The prompt and verify name different values of a field.

use std::collections::BTreeSet;

use crate::{
    ascii::{Ascii, ascii},
    diagnostic::{Diagnostic, Diagnostics},
    hir::{Arg, ArgKind, Def, PhaseKind},
    lint::{
        TaskView,
        analysis::{
            facts,
            quantity::Quantity,
            texts::{self, FILLERS, QUOTED},
        },
        prompt::disagrees::{NEWER, PROMPT_DISAGREES, VALUE, disagrees},
    },
    source::Span,
};

/// Each question is a function.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    let Some((said, prompt)) = facts::prompt(view) else { return };
    metadata(view, said, prompt, out);
    labels_in_files(view, said, prompt, out);
    keys(view, said, prompt, out);
    nulls(view, said, prompt, out);
    given_values(view, said, prompt, out);
    named_values(view, said, prompt, out);
    told_values(view, said, prompt, out);
    set_values(view, said, prompt, out);
    images(view, said, prompt, out);
}

/// `role: api` in a manifest that verify compares with, where the prompt says `app=api`.
fn labels_in_files(view: &TaskView<'_>, said: &str, prompt: Span, out: &mut Diagnostics) {
    let files = facts::expected_files(view);
    if files.is_empty() {
        return;
    }
    let step = view.task.verify.steps.iter().find(|step| step.arg("expected").is_some());
    for label in LABEL.captures_iter(said) {
        let (Some(key), Some(value)) = (label.get(1), label.get(2)) else { continue };
        let lines = || files.lines().filter_map(|line| line.trim().trim_start_matches("- ").split_once(": "));
        let of_value = || lines().filter(|(_, other)| other.trim_matches(['"', '\'']) == value.as_str());
        let other = of_value().next().filter(|_| of_value().all(|(other, _)| other != key.as_str() && other != "name"));
        if let Some(((other, _), step)) = other.zip(step).filter(|((other, _), _)| !texts::has_word(said, other)) {
            let (expected, told) =
                (format!("{other}: {}", value.as_str()), format!("{}={}", key.as_str(), value.as_str()));
            out.push(disagrees(step.key, &expected, &told, prompt));
            return;
        }
    }
}

static LABEL: Ascii = ascii(r"\b([a-z][\w./-]*)=([a-z][\w.-]*\w)");

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

/// Verify compares with an object that has the key `total`, but the prompt calls it `sum`.
fn keys(view: &TaskView<'_>, said: &str, prompt: Span, out: &mut Diagnostics) {
    let free: BTreeSet<&str> = said
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|word| {
            word.len() > 2
                && word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
                && !facts::known(view).anywhere(word)
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
            && !texts::has_word(&facts::known(view).others, &key)
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
fn nulls(view: &TaskView<'_>, said: &str, prompt: Span, out: &mut Diagnostics) {
    if !said.contains("NULL") || said.contains("NOT NULL") {
        return;
    }
    let verified = facts::known(view).verified.to_lowercase();
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
fn named_values(view: &TaskView<'_>, said: &str, prompt: Span, out: &mut Diagnostics) {
    let quoted: Vec<(usize, &str)> = QUOTED
        .captures_iter(said)
        .filter_map(|quoted| Some((quoted.get(0)?.start(), quoted.get(1).or_else(|| quoted.get(2))?.as_str())))
        .collect();
    if quoted.is_empty() {
        return;
    }
    let lower = said.to_lowercase();
    if lower.len() != said.len() {
        return;
    }
    for fact in facts::asked(view) {
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
            (near && !other.contains(' ') && !facts::known(view).anywhere(other)).then(|| other.to_owned())
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
            let sentence = crate::lint::analysis::orders::sentence(&lower, at);
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
fn images(view: &TaskView<'_>, said: &str, prompt: Span, out: &mut Diagnostics) {
    if !said.contains(':') || NEWER.is_match(&said.to_ascii_lowercase()) {
        return;
    }
    let told: BTreeSet<(&str, &str)> = tagged(said).map(|(_, name, image)| (name, image)).collect();
    for script in view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify && !told.is_empty()) {
        for (at, name, image) in tagged(&script.content.text) {
            let same: Vec<&str> = told.iter().filter(|(other, _)| *other == name).map(|(_, image)| *image).collect();
            let [asked] = same.as_slice() else { continue };
            let tag = asked.split_once(':').map_or("", |(_, tag)| tag);
            let only = || tagged(&facts::known(view).verified).all(|(_, other, known)| other != name || known == image);
            // An image that setup uses is another's, unless nothing else mentions the one of the prompt.
            let is_free = || !facts::known(view).others.contains(image) || !facts::known(view).others.contains(asked);
            let is_forwarded = || name == "localhost" && facts::known(view).verified.contains("port-forward");
            if *asked != image && !is_forwarded() && !facts::known(view).verified.contains(tag) && only() && is_free() {
                out.push(disagrees(script.content.span(at..at + image.len()), image, asked, prompt));
                return;
            }
        }
    }
}

/// `in the folder whose uid is eval-team`, but verify only checks that `folderUid` exists.
fn given_values(view: &TaskView<'_>, said: &str, prompt: Span, out: &mut Diagnostics) {
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
            if parts.iter().all(|word| head.contains(word.as_str())) && !facts::known(view).verified.contains(value) {
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
fn existing(arg: &Arg<Def>, found: &mut Vec<(Span, String)>) {
    match &arg.kind {
        ArgKind::Record(fields) => {
            let path = arg.get("path").and_then(|path| path.as_literal()).and_then(facts::last_name);
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
