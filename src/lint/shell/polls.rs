//! Polling loops: the number of iterations and the total time.

use std::time::Duration;

use crate::{
    bash::{
        ast,
        program::{Kind, Repeat, Statement},
    },
    diagnostic::{Diagnostic, Diagnostics},
    lint::{TaskView, script::Content},
    rule,
    ty::duration,
};

rule! {
    pub static ONE_ROUND_LOOP = "one-round-loop", Verdict;
}

/// `for i in 20`, `for i in seq 1 20`, `for i in {1..$N}`: the list is not the intended range.
pub fn rounds(view: &TaskView<'_>, out: &mut Diagnostics) {
    for script in view.scripts.iter().filter(|script| script.content.text.contains("for ")) {
        let content = &script.content;
        content.program.walk(&mut |s| {
            let Kind::Loop { repeat: Repeat::For, body, .. } = &s.kind else { return };
            let Some((_, words)) = listed(content, s, body) else { return };
            let looks_again = body.iter().any(|s| {
                let mut found = false;
                s.walk(&mut |s| found |= matches!(s.name(), "sleep" | "break" | "exit" | "return"));
                found
            });
            if let Some((message, help)) = looks_again.then(|| as_one(&words)).flatten() {
                let range = words[0].range.start..words[words.len() - 1].range.end;
                out.push(Diagnostic::new(&ONE_ROUND_LOOP, content.span(range), message).help(help));
            }
        });
    }
}

/// The message and the help for a list that is not the intended range.
fn as_one(words: &[ast::Word]) -> Option<(String, String)> {
    let is_number = |text: &str| !text.is_empty() && text.len() < 6 && text.bytes().all(|b| b.is_ascii_digit());
    let sources: Vec<&str> = words.iter().map(|word| word.source.as_str()).collect();
    match sources.as_slice() {
        [one] if is_number(one) => {
            let help = format!("`for i in $(seq 1 {one})` runs {one} times");
            Some((format!("this loop runs once: `{one}` is a list of one word"), help))
        }
        ["seq", rest @ ..] if (1..4).contains(&rest.len()) && rest.iter().all(|word| is_number(word)) => Some((
            "the loop iterates over the word `seq` and its arguments".to_owned(),
            format!("write `$(seq {})` to use the output of `seq`", rest.join(" ")),
        )),
        [one] => {
            let inner = one.strip_prefix('{').and_then(|inner| inner.strip_suffix('}'));
            let (from, to) = inner.unwrap_or(one).split_once("..").or_else(|| inner?.split_once('-'))?;
            // Brace expansion precedes variable expansion, and requires two dots.
            let filled = inner.is_some() && to.starts_with('$');
            let (numbers, bare) = (is_number(from) && is_number(to), inner.is_none() || !one.contains(".."));
            (is_number(from) && filled || numbers && bare)
                .then(|| (format!("this loop runs once: `{one}` is not a list"), format!("write `$(seq {from} {to})`")))
        }
        _ => None,
    }
}

/// The variable and the words of `for NAME in WORDS`.
pub fn listed(content: &Content, s: &Statement, body: &[Statement]) -> Option<(String, Vec<ast::Word>)> {
    let end = body.first().map_or(s.range.end, |first| first.range.start);
    let clause = content.text.get(s.range.start..end)?.strip_prefix("for")?;
    if clause.trim_start().starts_with("((") {
        return None;
    }
    let mut words = ast::split(clause, s.range.start + 3).into_iter();
    let name = words.next()?.source;
    let words: Vec<ast::Word> = words
        .skip_while(|word| word.source == "in")
        .take_while(|word| !matches!(word.source.as_str(), "do" | ";"))
        .collect();
    (!words.is_empty()).then_some((name, words))
}

/// The maximum time that each loop of a script waits, if its iterations and pauses are known.
pub fn longest(content: &Content) -> Vec<(&Statement, Duration)> {
    let mut found = Vec::new();
    if !content.text.contains("sleep") && !content.text.contains("SECONDS") {
        return found;
    }
    content.program.walk(&mut |s| {
        let Kind::Loop { repeat, condition, body } = &s.kind else { return };
        let pause: Duration = body.iter().filter_map(|s| pause(content, s)).sum();
        let rounds = match repeat {
            Repeat::For => fixed(content, s, body),
            Repeat::While | Repeat::Until => counted(content, condition),
        };
        let time = rounds.and_then(|rounds| pause.checked_mul(rounds)).filter(|time| !time.is_zero());
        found.extend(time.or_else(|| deadline(content, s, condition, body)).map(|time| (s, time)));
    });
    found
}

/// The time that a statement in the body waits per iteration.
fn pause(content: &Content, s: &Statement) -> Option<Duration> {
    match &s.kind {
        Kind::Or(pair) => pause(content, &pair[1]),
        Kind::Command(words) if s.name() == "sleep" => {
            let text = words.get(1)?.text.as_str();
            let text = value(content, text)?;
            text.parse().map(Duration::from_secs).ok().or_else(|| duration::parse(text).ok())
        }
        _ => None,
    }
}

/// The number of iterations of a `for` loop.
fn fixed(content: &Content, s: &Statement, body: &[Statement]) -> Option<u32> {
    let end = body.first().map_or(s.range.end, |first| first.range.start);
    let head = content.text.get(s.range.start..end)?;
    if let Some((_, clause)) = head.split_once("((") {
        let mut parts = clause.split(';');
        let begin = parts.next()?.split_once('=')?.1.trim().parse::<u32>().ok()?;
        return bound(content, parts.next()?).and_then(|bound| bound.checked_sub(begin));
    }
    let (_, words) = listed(content, s, body)?;
    let [word] = words.as_slice() else {
        return words
            .iter()
            .all(|word| ast::literal(&word.parts).is_some())
            .then(|| u32::try_from(words.len()).ok())?;
    };
    let number = |text: &str| value(content, text)?.parse::<u32>().ok();
    if let Some((from, to)) = word.source.strip_prefix('{').and_then(|w| w.strip_suffix('}')?.split_once("..")) {
        return (number(to)? + 1).checked_sub(number(from)?);
    }
    let inner = word.source.trim_matches('"').strip_prefix("$(seq ")?.strip_suffix(')')?;
    let numbers: Vec<&str> = inner.split_whitespace().collect();
    match numbers.as_slice() {
        [to] => number(to),
        [from, to] => (number(to)? + 1).checked_sub(number(from)?),
        _ => None,
    }
}

/// The number of iterations of `while [ $n -lt 30 ]`, if `n` starts at 0 or 1 and is incremented by one.
fn counted(content: &Content, condition: &[Statement]) -> Option<u32> {
    let [test] = condition else { return None };
    let text = content.text.get(test.range.clone())?;
    let name: String = text
        .split_once('$')?
        .1
        .trim_start_matches('{')
        .chars()
        .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
        .collect();
    let begin = (0..2).find(|begin| {
        let assignment = format!("{name}={begin}");
        content.text.lines().any(|line| line.trim() == assignment)
    })?;
    let grows = ["+1", "+ 1", "++", "+=1", "+= 1"].iter().any(|by| content.text.contains(by));
    if name == "SECONDS" || !grows {
        return None;
    }
    bound(content, text)?.checked_sub(begin)
}

/// The time of `deadline=$((SECONDS + 300))`, if the loop compares with it.
fn deadline(content: &Content, s: &Statement, condition: &[Statement], body: &[Statement]) -> Option<Duration> {
    let text = |list: &[Statement]| {
        list.iter().filter_map(|s| content.text.get(s.range.clone())).collect::<Vec<_>>().join(" ")
    };
    let compared = format!("{} {}", text(condition), text(body));
    if !compared.contains("SECONDS") && !compared.contains("date +%s") {
        return None;
    }
    content.text[..s.range.start].lines().rev().find_map(|line| {
        let (name, value) = line.trim().split_once('=')?;
        let sum = value.strip_prefix("$((")?.strip_suffix("))")?;
        let (clock, by) =
            sum.rsplit_once('+').filter(|(clock, _)| clock.contains("SECONDS") || clock.contains("date"))?;
        let is_clock = ast::is_name(name) && compared.contains(name) && !clock.contains('*');
        let by = by.trim().trim_start_matches('$').trim_matches(['{', '}']);
        let by = if by.starts_with(|c: char| c.is_ascii_digit()) { by } else { constant(content, &format!("${by}"))? };
        Some(Duration::from_secs(by.parse().ok()?)).filter(|_| is_clock)
    })
}

/// The exclusive upper bound of a comparison with `<`, `<=`, `-lt` or `-le`.
fn bound(content: &Content, text: &str) -> Option<u32> {
    let one = |sign: &str| text.split_once(sign).map(|(_, rest)| rest);
    let (rest, more) = match (one("<="), one("-le "), one("<"), one("-lt ")) {
        (Some(rest), ..) | (_, Some(rest), ..) => (rest, 1),
        (.., Some(rest), _) | (.., Some(rest)) => (rest, 0),
        _ => return None,
    };
    let word = rest.trim().trim_end_matches([']', ')', ' ']).trim_matches('"');
    value(content, word)?.parse::<u32>().ok().map(|bound| bound + more)
}

/// The text itself if it is a number, or the value of its variable if the script assigns it exactly once.
fn value<'t>(content: &'t Content, text: &'t str) -> Option<&'t str> {
    match text.starts_with(|c: char| c.is_ascii_digit()) {
        true => Some(text),
        false => constant(content, text.trim_matches('"')),
    }
}

/// The value of `$NAME`, if the script assigns it exactly once.
pub fn constant<'t>(content: &'t Content, word: &str) -> Option<&'t str> {
    let name = word.strip_prefix("${").and_then(|w| w.strip_suffix('}')).or_else(|| word.strip_prefix('$'))?;
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return None;
    }
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut named = content.text.match_indices(name).map(|(at, _)| at).filter(|at| {
        let (before, after) = (&content.text[..*at], &content.text[at + name.len()..]);
        !before.ends_with(is_part) && !after.starts_with(is_part) && !before.ends_with(['$', '{'])
    });
    let (Some(at), None) = (named.next(), named.next()) else { return None };
    let line = content.text[content.line_start(at)..].lines().next()?.trim();
    let value = line.strip_prefix(name)?.strip_prefix('=')?.split([';', ' ', '#']).next()?;
    Some(value.trim_matches(['"', '\'']))
}
