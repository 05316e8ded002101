//! Words that appear in one part of a task and, spelled slightly differently, in another: one of them is a typo.

use rustc_hash::FxHashMap;

use crate::{
    ascii::{Ascii, ascii},
    bash::tools,
    diagnostic::{Diagnostic, Diagnostics},
    hir::{Def, OperationKind, Part, PhaseKind, Template},
    lint::{TaskView, script::Content},
    rule,
    source::Span,
};

rule! {
    pub static ODD_WORD = "odd-word", Warning;
}

/// The minimum length of a word: shorter words are often similar.
const SHORTEST: usize = 6;
/// The minimum length of a capitalized word: mostly names, and states that programs print.
const SHORTEST_NAME: usize = 4;

/// The parts of a task, as bits.
const PROMPT: u8 = 1;
const ENV: u8 = 2;

fn bit(phase: PhaseKind) -> u8 {
    match phase {
        PhaseKind::Setup => 4,
        PhaseKind::Verify => 8,
        PhaseKind::Cleanup => 16,
    }
}

/// A word and its first location.
struct Word<'v> {
    text: &'v str,
    count: usize,
    parts: u8,
    place: Place<'v>,
    /// Whether it is always a word of a sentence in the prompt: without quotes, hyphens or underscores.
    spoken: bool,
}

#[derive(Clone, Copy)]
enum Place<'v> {
    Script(&'v Content, usize),
    Text(Span),
}

impl Place<'_> {
    fn span(self, length: usize) -> Span {
        match self {
            Self::Script(content, at) => content.span(at..at + length),
            Self::Text(span) => span,
        }
    }
}

/// A prompt that asks to find or to repair a fault.
pub static REPAIRS: Ascii = ascii(
    r"(?i)\b(?:fix\w*|repair\w*|debug|troubleshoot|diagnose|broken|broke|wrong|fails?|failing|does not|doesn't|cannot|can't|not (?:working|reachable|ready)|problem|misconfigured)\b",
);

/// The maximum number of words with the same initial to compare with each word: a task with more was generated.
const COMPARED: usize = 512;

/// A word of at least six letters that appears in only one part of the task (prompt, variables, setup, verify,
/// cleanup), or only once, and differs by one typo from a word elsewhere. More specific rules run first.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    if view.task.prompt.is_none() || view.task.verify.steps.is_empty() {
        return;
    }
    let said = view.effects.prompt.shown();
    // The task is about spelling.
    if ["spell", "spelt", "typo"].iter().any(|word| said.contains(word)) {
        return;
    }
    files(view, out);
    let words = words(view);
    let repairs = REPAIRS.is_match(&said);
    // Typos rarely change the first letter.
    let mut by_letter: FxHashMap<u8, Vec<usize>> = FxHashMap::default();
    for (at, word) in words.iter().enumerate() {
        by_letter.entry(word.text.as_bytes()[0].to_ascii_lowercase()).or_default().push(at);
    }
    for (at, word) in words.iter().enumerate() {
        // The fault that the agent must find.
        let is_planted = repairs && word.parts == bit(PhaseKind::Setup);
        if word.spoken || is_planted || !word.parts.is_power_of_two() {
            continue;
        }
        let state = (word.parts == bit(PhaseKind::Verify)).then(|| near_state(word.text)).flatten();
        if let Some(state) = state.filter(|_| !out.iter().any(|known| known.message.contains(word.text))) {
            out.push(
                Diagnostic::new(
                    &ODD_WORD,
                    word.place.span(word.text.len()),
                    format!("`{}` is not a known state", word.text),
                )
                .here(format!("did you mean `{state}`?"))
                .help("if it is intended, add `# gevals: allow(odd-word)`"),
            );
            continue;
        }
        let others = &by_letter[&word.text.as_bytes()[0].to_ascii_lowercase()];
        let near =
            others.iter().take(COMPARED).filter(|other| **other != at).map(|other| (*other, &words[*other])).find(
                |(place, other)| {
                    let apart = other.parts & word.parts == 0;
                    let odd = if apart {
                        // If each appears in one part only, report the one in verify.
                        other.count > word.count
                            || !other.parts.is_power_of_two()
                            || word.parts == bit(PhaseKind::Verify)
                            || other.parts != bit(PhaseKind::Verify) && (other.spoken || *place < at)
                    } else {
                        word.count == 1 && other.count > 2
                    };
                    let long = word.text.len().max(other.text.len()) >= SHORTEST;
                    odd && (long || is_name(word.text) && is_name(other.text)) && is_slip(word.text, other.text)
                },
            );
        let Some((_, near)) = near.filter(|_| !is_of_program(word.text)) else { continue };
        // A word of a message decides nothing, and `COLOR` does not misspell `colour` in a sentence of the prompt.
        let is_upper = |text: &str| !text.bytes().any(|b| b.is_ascii_lowercase());
        let is_variable = is_upper(word.text) && near.spoken && !is_upper(near.text)
            || near.spoken && american(word.text) == american(near.text);
        if word.count == 1 && is_printed(word.place) || is_variable {
            continue;
        }
        if out.iter().any(|known| known.message.contains(word.text) || known.message.contains(near.text)) {
            continue;
        }
        out.push(
            Diagnostic::new(
                &ODD_WORD,
                word.place.span(word.text.len()),
                format!("`{}` appears only here; a similar word appears elsewhere", word.text),
            )
            .here(format!("did you mean `{}`?", near.text))
            .label(near.place.span(near.text.len()), "as here")
            .help("use the same spelling everywhere; if it is intended, add `# gevals: allow(odd-word)`"),
        );
    }
}

/// Whether a word is in the argument of an `echo` whose output nothing reads.
fn is_printed(place: Place<'_>) -> bool {
    let Place::Script(content, at) = place else { return false };
    let text = content.text.as_str();
    let start = text[..at].rfind(['\n', ';', '{', '&', '|', '(']).map_or(0, |before| before + 1);
    let rest = text[at..].lines().next().unwrap_or_default().replace(">&2", "");
    text[start..at].trim_start().starts_with("echo ") && !rest.contains(['|', '>', ')'])
}

/// Whether a program uses the word: as a field, a kind, a state or a name.
pub fn is_of_program(word: &str) -> bool {
    tools::all().any(|tool| {
        tool.kind(word).is_some()
            || tool.states.iter().chain(&tool.names).any(|known| known == word)
            || tool.is_field(word)
    })
}

/// Whether a word is capitalized: `Bound`, `North`.
fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_uppercase()) && word.bytes().skip(1).all(|b| b.is_ascii_lowercase())
}

/// File name extensions.
#[rustfmt::skip]
const ENDINGS: [&str; 20] = [
    "txt", "json", "yaml", "yml", "conf", "cfg", "csv", "tsv", "log", "md", "sh", "py", "toml", "ini", "html", "sql", "xml", "env", "pem", "crt",
];

/// `report.csv` in verify, if the rest of the task says `reports.csv`. In file names, a different word ending counts as
/// a typo too.
fn files(view: &TaskView<'_>, out: &mut Diagnostics) {
    let said = view.effects.prompt.shown();
    let mut known: Option<Vec<&str>> = None;
    let mut look =
        |text: &'_ str, place: &dyn Fn(usize, usize) -> Span, told: &mut Vec<String>, out: &mut Diagnostics| {
            for (name, at) in file_names(text) {
                let elsewhere = crate::lint::analysis::facts::elsewhere(view);
                if said.contains(name) || elsewhere.rest.contains(name) || told.iter().any(|known| known == name) {
                    continue;
                }
                let known = known.get_or_insert_with(|| {
                    file_names(&said).chain(file_names(&elsewhere.rest)).map(|(name, _)| name).collect()
                });
                let near = known.iter().find(|known| {
                    let digit = |text: &str| text.bytes().filter(u8::is_ascii_digit).count();
                    known.len().min(name.len()) > 6
                        && digit(known) == 0
                        && digit(name) == 0
                        && known.rsplit('.').next() == name.rsplit('.').next()
                        && strsim::osa_distance(known, name) == 1
                        && !is_series(known, name)
                });
                let span = place(at, name.len());
                if let Some(near) = near.filter(|_| !out.iter().any(|known| known.message.contains(name))) {
                    out.push(
                        Diagnostic::new(
                            &ODD_WORD,
                            span,
                            format!("`{name}` appears only in verify; a similar name appears elsewhere"),
                        )
                        .here(format!("did you mean `{near}`?"))
                        .help("use the same spelling everywhere; if it is intended, add `# gevals: allow(odd-word)`"),
                    );
                    told.push(name.to_owned());
                }
            }
        };
    let mut told: Vec<String> = Vec::new();
    for script in view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify) {
        let content = &script.content;
        look(&content.text, &|at, length| content.span(at..at + length), &mut told, out);
    }
    view.task.walk(&mut |phase, step| {
        if phase == PhaseKind::Verify && view.script_of(step).is_none() {
            step.templates(&mut |template| {
                look(&crate::lint::analysis::texts::written(template), &|_, _| template.span, &mut told, out)
            });
        }
    });
}

/// Whether two names differ in a part of one letter: `report-a.md` and `report-b.md`.
fn is_series(a: &str, b: &str) -> bool {
    let parts = |name: &'_ str| name.split(['-', '_', '.']).map(str::len).collect::<Vec<_>>();
    let differ = a.split(['-', '_', '.']).zip(b.split(['-', '_', '.'])).filter(|(a, b)| a != b);
    parts(a) == parts(b) && differ.into_iter().all(|(a, _)| a.len() == 1)
}

/// The names of files in a text, without directories, and their offsets.
fn file_names(text: &str) -> impl Iterator<Item = (&str, usize)> {
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    text.match_indices('.').filter_map(move |(dot, _)| {
        let behind = &text[dot + 1..];
        let end = behind.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(behind.len());
        if !ENDINGS.contains(&&behind[..end]) {
            return None;
        }
        let start = text[..dot].rfind(|c| !part(c)).map_or(0, |at| text.ceil_char_boundary(at + 1));
        let stem = &text[start..dot];
        let whole = !behind[end..].trim_end_matches('.').starts_with(['-', '_', '.']);
        (stem.len() > 2 && !stem.contains('.') && whole).then(|| (&text[start..dot + 1 + end], start))
    })
}

/// A known state that differs from the word by one typo, if the word itself is not a state.
fn near_state(word: &str) -> Option<&'static str> {
    if !is_name(word) {
        return None;
    }
    let states = || tools::all().flat_map(|tool| &tool.states);
    let near = states().find(|state| state.len() > SHORTEST_NAME && is_slip(word, state))?;
    (!states().any(|state| state == word)).then_some(near)
}

/// All words that are long enough, in order of first appearance.
fn words<'v>(view: &TaskView<'v>) -> Vec<Word<'v>> {
    let mut found: Vec<Word<'v>> = Vec::new();
    let mut known: FxHashMap<&'v str, usize> = FxHashMap::default();
    let mut add = |text: &'v str, at: usize, before: u8, part: u8, place: Place<'v>| {
        let spoken = part == PROMPT && !text.contains(['-', '_']) && !matches!(before, b'`' | b'"' | b'\'');
        let place = match place {
            Place::Script(content, start) => Place::Script(content, start + at),
            text => text,
        };
        match known.get(text) {
            Some(nth) => {
                let word = &mut found[*nth];
                word.count += 1;
                word.parts |= part;
                word.spoken &= spoken;
            }
            None => {
                known.insert(text, found.len());
                found.push(Word { text, count: 1, parts: part, place, spoken });
            }
        }
    };
    let task = view.task;
    let mut template = |template: &'v Template<Def>, part: u8| {
        for piece in &template.parts {
            if let Part::Text(text) = piece {
                split(text, false, &mut |word, at, before| add(word, at, before, part, Place::Text(template.span)));
            }
        }
    };
    task.prompt.iter().for_each(|prompt| template(&prompt.text, PROMPT));
    task.env.iter().for_each(|(_, value)| template(value, ENV));
    task.walk(&mut |phase, step| {
        let is_shell = matches!(step.op.kind, OperationKind::Builtin("command" | "script"));
        for (key, arg) in &step.args {
            if !(is_shell && matches!(key.value.as_str(), "run" | "inline" | "file")) {
                arg.templates(&mut |text| template(text, bit(phase)));
            }
        }
        step.expect.iter().for_each(|(_, expect)| expect.templates(&mut |text| template(text, bit(phase))));
    });
    for followed in &view.effects.scripts {
        let own: &'v Content = &followed.view.content;
        for content in std::iter::once(own).chain(followed.trace.sources.iter().copied()) {
            split(&content.text, true, &mut |word, at, before| {
                add(word, at, before, bit(followed.view.phase), Place::Script(content, 0))
            });
        }
    }
    found
}

/// Calls `visit` with each word of a text, its offset and the byte before it. If `code` is set, comments are skipped.
fn split<'t>(text: &'t str, code: bool, visit: &mut dyn FnMut(&'t str, usize, u8)) {
    let bytes = text.as_bytes();
    let part = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    let mut at = 0;
    loop {
        let Some(next) = bytes[at..].iter().position(|b| part(*b) || code && *b == b'#') else { return };
        at += next;
        if bytes[at] == b'#' {
            let opens = at == 0 || matches!(bytes[at - 1], b' ' | b'\t' | b'\n');
            at = if opens { text[at..].find('\n').map_or(bytes.len(), |end| at + end) } else { at + 1 };
            continue;
        }
        let start = at;
        at += bytes[at..].iter().position(|b| !part(*b)).unwrap_or(bytes.len() - at);
        let least = if bytes[start].is_ascii_uppercase() { SHORTEST_NAME } else { SHORTEST };
        if at - start < least {
            continue;
        }
        let before = start.checked_sub(1).map_or(b' ', |before| bytes[before]);
        // Skip the rest of an escape before the word: `\n`, `%3D`.
        let from = start
            + match before {
                b'\\' => 1,
                b'%' => 2.min(at - start),
                _ => 0,
            };
        // Skip parts of words in other alphabets and of patterns such as `cancell?ed`.
        let open = |b: u8| b >= 0x80 || matches!(b, b'?' | b'*' | b'+');
        if open(before) || bytes.get(at).is_some_and(|b| open(*b)) || before == b']' {
            continue;
        }
        let mut word = &text[from..at];
        let mut from = from;
        if !word.starts_with(|c: char| c.is_ascii_alphanumeric()) || !bytes[at - 1].is_ascii_alphanumeric() {
            let trimmed = word.trim_start_matches(['-', '_']);
            from += word.len() - trimmed.len();
            word = trimmed.trim_end_matches(['-', '_']);
        }
        if word.len() >= least && word.as_bytes()[0].is_ascii_alphabetic() {
            visit(word, from, before);
        }
    }
}

/// A word in American spelling: `license` for `licence`, as fields of files have it.
fn american(word: &str) -> String {
    let pairs = [("our", "or"), ("ise", "ize"), ("yse", "yze"), ("ence", "ense"), ("grey", "gray"), ("ogue", "og")];
    pairs.iter().fold(word.to_ascii_lowercase(), |word, (from, to)| word.replace(from, to))
}

/// Whether two words differ by one letter that is missing, doubled, wrong or swapped with the next. Differences in
/// case, a digit, an ending, a hyphen or the first letter of a part do not count.
pub fn is_slip(a: &str, b: &str) -> bool {
    if a.len().abs_diff(b.len()) > 1 {
        return false;
    }
    let (short, long) = if a.len() < b.len() { (a.as_bytes(), b.as_bytes()) } else { (b.as_bytes(), a.as_bytes()) };
    let same = |(a, b): &(&u8, &u8)| a.eq_ignore_ascii_case(b);
    let at = short.iter().zip(long).take_while(same).count();
    // Whether a part of the word begins or ends here.
    let edge = |byte: Option<&u8>| byte.is_none_or(|b| matches!(b, b'-' | b'_'));
    let plain = |b: u8| b.is_ascii_alphabetic();
    if short.len() < long.len() {
        let ends = match long.get(at + 1) {
            None => matches!(long[at].to_ascii_lowercase(), b's' | b'd' | b'r' | b'y' | b'n' | b'e'),
            Some(b'-' | b'_') => long[at].eq_ignore_ascii_case(&b's'),
            Some(_) => false,
        };
        let begins = at == 0 || edge(long.get(at - 1));
        // A single letter is a part of its own.
        return plain(long[at])
            && !ends
            && !(begins && edge(long.get(at + 1)))
            && at > 0
            && short[at..].eq_ignore_ascii_case(&long[at + 1..]);
    }
    let swapped = |at: usize| {
        short.get(at + 1).is_some_and(|next| {
            plain(short[at])
                && plain(*next)
                && next.eq_ignore_ascii_case(&long[at])
                && short[at].eq_ignore_ascii_case(&long[at + 1])
        }) && short[at + 2..].eq_ignore_ascii_case(&long[at + 2..])
    };
    let inside = |at: usize| at > 0 && !edge(short.get(at - 1)) && !edge(short.get(at + 1));
    at > 0
        && at < short.len()
        && (swapped(at)
            || plain(short[at])
                && plain(long[at])
                && inside(at)
                && short[at + 1..].eq_ignore_ascii_case(&long[at + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspellings_are_distinguished_from_other_differences() {
        for (a, b) in [
            ("terraform_data", "terrafom_data"),
            ("eval-mute", "eva-mute"),
            ("Elcetions", "Elections"),
            ("cancelled", "canceled"),
            ("storage", "stirage"),
        ] {
            assert!(is_slip(a, b) && is_slip(b, a), "{a} {b}");
        }
        for (a, b) in [
            ("silences", "silenced"),
            ("note-eval", "notes-eval"),
            ("server1", "server2"),
            ("setfacl", "getfacl"),
            ("node-a-x", "node-b-x"),
            ("web-app", "webapp"),
            ("web-app", "web_app"),
            ("Storage", "storage"),
            ("test-b-one", "test-one"),
        ] {
            assert!(!is_slip(a, b) && !is_slip(b, a), "{a} {b}");
        }
    }

    #[test]
    fn texts_are_split_into_words() {
        let of = |text: &'static str, code| {
            let mut found = Vec::new();
            split(text, code, &mut |word, at, _| found.push((word, at)));
            found
        };
        assert_eq!(of("a\\nretries %3DEvalDisk # comment", true), [("retries", 3), ("EvalDisk", 14)]);
        assert_eq!(of("--timeout=5 größer 2025-01-01", false), [("timeout", 2)]);
    }
}
