//! Functions for rules that inspect the texts of a task.

use crate::{
    ascii::{Ascii, ascii},
    hir::{Def, Hole, Part, PhaseKind, Step, Target, Task, Template},
    lint::TaskView,
};

/// The keys in `expect` for the output of a command, a request, an operation or a tool.
pub const PRINTED: [&str; 4] = ["stdout", "text", "body", "content"];

/// The script of a step, with its holes as written.
pub fn script(step: &Step<Def>) -> Option<String> {
    script_text(step.arg("run").or_else(|| step.arg("inline"))?)
}

/// The text of an argument, with its holes as written.
pub fn script_text(arg: &crate::hir::Arg<Def>) -> Option<String> {
    match &arg.kind {
        crate::hir::ArgKind::Text(template) => Some(written(template)),
        _ => None,
    }
}

/// The text of a template, with its holes as written and without escaping.
pub fn written(template: &Template<Def>) -> String {
    let parts = template.parts.iter().map(|p| match p {
        Part::Text(text) => text.as_str(),
        Part::Hole(hole) => hole.text.as_str(),
    });
    parts.collect()
}

/// Visits every hole in a task's templates, with the phase of its step.
pub fn holes<'t>(task: &'t Task<Def>, visit: &mut dyn FnMut(Option<PhaseKind>, &'t Hole<Def>)) {
    for (_, template) in &task.env {
        template.holes().for_each(|h| visit(None, h));
    }
    if let Some(prompt) = &task.prompt {
        prompt.text.holes().for_each(|h| visit(None, h));
    }
    task.walk(&mut |phase, step| step.templates(&mut |t| t.holes().for_each(|h| visit(Some(phase), h))));
}

/// Whether a step uses the agent's output.
pub fn sees_answer(step: &Step<Def>) -> bool {
    let mut sees = false;
    step.templates(&mut |t| sees |= t.holes().any(|h| h.reference.target == Target::AgentOutput));
    sees
}

/// Whether a script uses a value in place of the output of a command: `|| echo VALUE`, `|| x=VALUE`, `${x:-VALUE}`.
pub fn is_fallback(script: &str, value: &str) -> bool {
    if value.is_empty() {
        return false;
    }
    script.match_indices(value).any(|(at, _)| {
        let quotes = ['"', '\''];
        let before = script[..at].trim_end_matches(quotes);
        let behind = script[at + value.len()..].trim_start_matches(quotes);
        let is_whole = behind.is_empty() || behind.starts_with([' ', '\t', '\n', ')', '}', ';', '|', '&', '>']);
        let prints = || {
            let line = before.rsplit('\n').next().unwrap_or_default();
            let command = line.rsplit(['|', ';', '&', '(', '{']).next().unwrap_or_default().trim();
            let command = command.strip_prefix("then ").or_else(|| command.strip_prefix("else ")).unwrap_or(command);
            let mut words = command.split_whitespace();
            words.next().is_some_and(|word| word == "echo" || word == "printf")
                && words.all(|word| word.starts_with(['-', '\'', '"', '%']))
        };
        let is_assigned = || {
            before.strip_suffix('=').is_some_and(|rest| {
                let name = |c: char| c.is_ascii_alphanumeric() || c == '_';
                let head = rest.trim_end_matches(name);
                head.len() < rest.len() && (head.ends_with("|| ") || head.ends_with("&& "))
            })
        };
        is_whole && (before.ends_with(":-") || before.ends_with(":=") || prints() || is_assigned())
    })
}

/// The words of a text, with their byte offsets. Between two adjacent separators, there is an empty word.
pub fn words(text: &str, is_part: fn(char) -> bool) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    text.split_inclusive(move |c| !is_part(c)).map(move |word| {
        let start = at;
        at += word.len();
        (start, word.strip_suffix(|c| !is_part(c)).unwrap_or(word))
    })
}

/// Whether `text` contains `word` as a whole word.
pub fn has_word(text: &str, word: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        !text[..at].chars().next_back().is_some_and(part) && !text[at + word.len()..].chars().next().is_some_and(part)
    })
}

/// Number of bytes before and after a position in which the ends of its sentence are searched: a text may have none.
const SENTENCE: usize = 1000;

/// Returns the range of the sentence around a position.
pub fn sentence(text: &str, at: usize) -> std::ops::Range<usize> {
    let from = text.floor_char_boundary(at.saturating_sub(SENTENCE));
    let to = text.ceil_char_boundary((at + SENTENCE).min(text.len()));
    let (before, behind) = (&text.as_bytes()[from..at], &text.as_bytes()[at..to]);
    // Number of bytes that end a sentence here.
    let ends = |text: &[u8]| match text {
        [b';', ..] => Some(1),
        [b'.', b' ' | b'\n', ..] | [b'\n', b'\n' | b'-' | b'*', ..] => Some(2),
        _ => None,
    };
    let start = (0..before.len()).rev().find_map(|end| Some(from + end + ends(&before[end..])?)).unwrap_or(from);
    let end = (0..behind.len()).find(|end| ends(&behind[*end..]).is_some()).map_or(to, |end| at + end);
    start..end
}

/// Whether a range is part of a longer quoted text, such as a title: `"Add retry to client"` contains `retry`.
pub fn in_quoted_phrase(text: &str, range: std::ops::Range<usize>) -> bool {
    let (before, behind) = (&text[..range.start], &text[range.end..]);
    let (before, behind) = (&before[before.rfind("\n\n").unwrap_or(0)..], behind.split("\n\n").next().unwrap_or(""));
    let is_part = |open: usize, end: usize| {
        let whole = [&before[open..], &text[range.clone()], &behind[..end]].concat();
        let around = [&before[open..], &behind[..end]].concat();
        whole.trim().contains(char::is_whitespace) && around.chars().any(char::is_alphanumeric)
    };
    let paired = match before.matches('"').count() % 2 {
        1 => before.rfind('"').zip(behind.find('"')),
        _ => None,
    };
    let curly = || {
        let open = before.rfind('“').filter(|open| !before[*open..].contains('”'))?;
        Some((open, behind.find('”')?))
    };
    // An apostrophe is between two letters, or ends a word: only one that begins a word opens a quotation.
    let single = || {
        let letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        let (open, _) = before
            .rmatch_indices('\'')
            .find(|(at, _)| !(letter(before[..*at].chars().next_back()) && letter(before[at + 1..].chars().next())))?;
        let opens = !letter(before[..open].chars().next_back()) && letter(before[open + 1..].chars().next());
        let (end, _) = behind.match_indices('\'').find(|(at, _)| !letter(behind[at + 1..].chars().next()))?;
        opens.then_some((open, end))
    };
    paired.or_else(curly).or_else(single).is_some_and(|(open, end)| is_part(open, end))
}

/// Whether a name after this text may belong to a resource of a kind: the preceding word does not name another kind.
pub fn speaks_of(view: &TaskView<'_>, before: &str, kind: &str) -> bool {
    // Short names of kinds are also English words: `is` in `the deployment is web` does not mean an image stream.
    let known = |word: &str| {
        matches!(
            word,
            "release" | "chart" | "container" | "network" | "volume" | "image" | "branch" | "tag" | "table" | "route"
        ) || word.len() > 2 && view.tools.tool("kubectl").is_some_and(|tool| tool.kind(word).is_some())
    };
    let same = |word: &str| {
        word == kind
            || view.tools.tool("kubectl").and_then(|tool| tool.kind(word)).is_some_and(|(known, _)| known == kind)
    };
    let part = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let before = before.trim_end_matches(['`', '"', '\'', ' ']);
    // `a HorizontalPodAutoscaler with the name "web"`
    let names = ["with the name", "with name", "named", "called"].iter().find_map(|name| before.strip_suffix(name));
    let before = names.map_or(before, str::trim_end);
    let word = before.rsplit(|c: char| !part(c)).next().unwrap_or_default().to_lowercase();
    if kind == "job" && CRON.is_match(before) {
        return false;
    }
    !known(&word) || same(&word) || written_apart(before, kind)
}

pub static CRON: Ascii = ascii(r"(?i)\bcron[ -]?jobs?\W*$");

/// Whether a text ends with the name of a kind: `a cron job`, `the virtual service`.
pub fn written_apart(text: &str, kind: &str) -> bool {
    // `a cron job` is no job.
    if kind == "job" && CRON.is_match(text) {
        return false;
    }
    let letters = text.chars().rev().filter(|c| !matches!(c, ' ' | '-')).flat_map(char::to_lowercase);
    let ends = |skipped: usize| kind.chars().rev().eq(letters.clone().skip(skipped).take(kind.chars().count()));
    ends(0) || text.ends_with('s') && ends(1)
}

/// The verbs that may bring about a state: `close` for `closed`, `stop` for `stopped`. Both are in lower case.
pub fn verbs_for(state: &str) -> Vec<String> {
    let stem = state.strip_suffix("ed").filter(|stem| stem.len() > 2 && stem.bytes().all(|b| b.is_ascii_lowercase()));
    let Some(stem) = stem else { return Vec::new() };
    let single = stem.as_bytes().windows(2).last().filter(|pair| pair[0] == pair[1]).map(|_| &stem[..stem.len() - 1]);
    [Some(stem.to_owned()), Some(format!("{stem}e")), single.map(str::to_owned)].into_iter().flatten().collect()
}

/// Opposite states: a check that accepts both decides nothing.
const OPPOSITES: [(&str, &str); 14] = [
    ("open", "closed"),
    ("opened", "closed"),
    ("true", "false"),
    ("yes", "no"),
    ("on", "off"),
    ("enabled", "disabled"),
    ("active", "inactive"),
    ("running", "stopped"),
    ("public", "private"),
    ("locked", "unlocked"),
    ("read", "unread"),
    ("present", "absent"),
    ("up", "down"),
    ("allow", "deny"),
];

/// Whether no other state than these two exists.
pub fn are_opposites(one: &str, other: &str) -> bool {
    let (one, other) = (one.to_lowercase(), other.to_lowercase());
    OPPOSITES.iter().any(|(a, b)| (one == *a && other == *b) || (one == *b && other == *a))
}

/// `forwards port 9100 to the container port 9113`: the two ports.
pub static FORWARDS: Ascii = ascii(
    r"(?i)\bport (\d+),? (?:of the service )?(?:(?:that |which )?forwards to (?:the )?(?:(?:container|target) )?port|to (?:the )?(?:container port|target port|targetPort|container's port)) (\d+)",
);

/// Words after a key that are no values.
#[rustfmt::skip]
pub const FILLERS: [&str; 37] = [
    "the", "a", "an", "it", "its", "be", "that", "this", "each", "all", "both", "one", "your", "their", "what", "something", "is", "are", "has",
    "must", "should", "with", "and", "or", "of", "to", "in", "on", "for", "from", "default", "name", "type", "which", "as", "not", "by",
];

pub static QUOTED: Ascii = ascii("[`\"']([^`\"'\n]+)[`\"']|\\b([a-z]+[/-][a-z0-9./-]*[a-z0-9])\\b");
