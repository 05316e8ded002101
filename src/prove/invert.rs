//! What a filter must read to print what is expected, so that worlds have answers that get past `jq`, `awk` and the like. A wrong
//! guess makes a world in which something fails; a proof never relies on it.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use regex_syntax::hir::{Class, Hir, HirKind};
use serde_json::{Map, Value, json};

/// Texts that this command may read to print one of these; if none is wanted, to succeed.
pub fn inputs(argv: &[String], wanted: &[String]) -> Vec<String> {
    let Some((name, words)) = argv.split_first() else { return Vec::new() };
    let flag = |flag: &str| {
        words.iter().enumerate().find_map(|(i, w)| {
            let rest = w.strip_prefix(flag)?;
            if rest.is_empty() { words.get(i + 1).cloned() } else { Some(rest.to_owned()) }
        })
    };
    let program = words.iter().rev().nth(1).cloned().unwrap_or_default();
    match name.as_str() {
        "jq" => documents(&with_arguments(&program, words), wanted).into_iter().map(|d| d.to_string()).collect(),
        "wc" => {
            let ending = if words.iter().any(|word| word == "-w") { ' ' } else { '\n' };
            let lines = |n: usize| (0..n.min(50)).map(|i| format!("thing-{i}{ending}")).collect();
            wanted.iter().filter_map(|n| n.parse().ok()).map(lines).collect()
        }
        "grep" if words.iter().any(|word| matches!(word.as_str(), "-c" | "--count")) => {
            let part = program.replace(['^', '$', '\\'], "").replace(".*", "-");
            let lines = |n: usize| (0..n.min(50)).map(|i| format!("some {part} {i}\n")).collect();
            wanted.iter().filter_map(|n| n.parse().ok()).map(lines).collect()
        }
        "grep" if words.iter().any(|word| word.starts_with("-A")) => {
            let part = program.replace(['^', '$', '\\'], "").replace(".*", "-");
            let colon = if program.ends_with('$') { "" } else { ":" };
            wanted.iter().map(|text| format!("{part}{colon}\n{text}\n")).collect()
        }
        "grep" => {
            let short = |word: &String| word.strip_prefix('-').is_some_and(|w| !w.starts_with('-') && w.contains('x'));
            let whole = words.iter().any(|word| short(word) || word == "--line-regexp");
            let (before, behind) = (
                if whole || program.starts_with('^') { "" } else { "some " },
                if whole || program.ends_with('$') { "" } else { " more" },
            );
            let part = sample(&program, words.iter().any(|word| word.starts_with('-') && word.contains('E')));
            // Another filter searches for its text in the same lines.
            let with = |line: &str| match (line.contains(&part), behind) {
                (true, _) => line.to_owned(),
                // The first field has any text so far.
                _ if before.is_empty()
                    && line.strip_prefix('a').is_some_and(|l| !l.starts_with(char::is_alphanumeric)) =>
                {
                    format!("{part}{}", &line[1..])
                }
                (false, "") => format!("{line} {part}"),
                (false, _) => format!("{part} {line}"),
            };
            let all = |text: &String| text.lines().map(with).collect::<Vec<_>>().join("\n");
            let line = format!("{before}{part}{behind}");
            wanted.iter().map(all).chain([line]).collect()
        }
        "&&" => Vec::new(),
        "sed" if substitution(words).is_some() => {
            let (before, behind) = substitution(words).unwrap_or_default();
            wanted.iter().map(|text| format!("{before}{text}{behind}")).collect()
        }
        "sed" | "awk" | "tail" if skipped(name, words).is_some() => {
            let lines = |n: usize| (1..=n).map(|i| format!("line {i}\n")).collect::<String>();
            let before = lines(skipped(name, words).unwrap_or_default());
            wanted.iter().map(|text| format!("{before}{text}")).collect()
        }
        "base64" => wanted.iter().map(|w| STANDARD.encode(w)).collect(),
        "awk" | "cut" => {
            let field = match name.as_str() {
                "awk" => program.split_once("print $").map(|(_, rest)| rest),
                _ => None,
            };
            let cut = flag("-f");
            let field: String =
                field.or(cut.as_deref()).unwrap_or("1").chars().take_while(char::is_ascii_digit).collect();
            let separator = match name.as_str() {
                "awk" => flag("-F").unwrap_or_else(|| " ".to_owned()),
                _ => flag("-d").unwrap_or_else(|| "\t".to_owned()),
            };
            let before = field.parse::<usize>().unwrap_or(1).saturating_sub(1).min(20);
            if name == "awk"
                && let Some(fields) = selected(&program, words)
            {
                let width = fields.iter().map(|(at, _)| *at).max().unwrap_or_default().max(before + 1);
                // `$1 = ""` leaves the first field out.
                let is_rest = !program.contains("print $") && program.contains("print");
                let row = |text: &String| {
                    if is_rest {
                        let key = fields.first().map_or("a", |(_, value)| value.as_str());
                        return if program.contains("$1 = \"\"") {
                            format!("{key}{separator}{text}")
                        } else {
                            text.clone()
                        };
                    }
                    let field = |at: usize| match fields.iter().find(|(own, _)| *own == at + 1) {
                        Some((_, value)) => value.clone(),
                        // A field contains no separator.
                        None if at == before => text.trim_end().replace(&separator, "-"),
                        None => "a".to_owned(),
                    };
                    (0..width).map(field).collect::<Vec<_>>().join(&separator)
                };
                // `{ found = 1 } END { exit !found }`
                let nothing = [String::new()];
                return if wanted.is_empty() { &nothing } else { wanted }.iter().map(row).collect();
            }
            let line = |text: &str| format!("{}{text}{separator}more", format!("a{separator}").repeat(before));
            let lines = |text: &String| text.lines().map(line).collect::<Vec<_>>().join("\n");
            wanted.iter().map(|text| if text.is_empty() { line(text) } else { lines(text) }).collect()
        }
        "xargs" | "tr" | "paste" if joins(name, words).is_some() => {
            let sign = joins(name, words).unwrap_or_default();
            wanted.iter().map(|text| text.trim_end_matches(sign).replace(sign, "\n")).collect()
        }
        _ => wanted.to_vec(),
    }
}

/// A text that `grep -o PATTERN` prints, with this text in the field that `cut` or `awk` selects from it.
pub fn in_field(grep: &[String], selects: &[String], wanted: &str) -> Option<String> {
    let is_only = grep.iter().any(|word| word.starts_with('-') && !word.starts_with("--") && word.contains('o'));
    let pattern = grep.iter().skip(1).find(|word| !word.starts_with('-')).filter(|_| is_only)?;
    let is_extended = grep.iter().any(|word| word.starts_with('-') && word.contains('E'));
    let sampled = sample(pattern, is_extended);
    let inverted = inputs(selects, &[String::new()]).into_iter().next()?;
    let separator = inverted.chars().find(|c| !c.is_alphanumeric())?;
    let before = inverted.split(separator).take_while(|field| *field == "a").count();
    let mut fields: Vec<&str> = sampled.split(separator).collect();
    *fields.get_mut(before)? = wanted;
    Some(fields.join(&separator.to_string()))
}

/// What surrounds the text that `sed -n 's/^a \(.*\) b/\1/p'` keeps, or that `sed 's/^v//'` removes.
fn substitution(words: &[String]) -> Option<(String, String)> {
    let is_extended = words.iter().any(|word| word.starts_with('-') && word.contains(['E', 'r']));
    let program = words.iter().find_map(|word| word.trim().strip_prefix('s'))?;
    let sign = program.chars().next().filter(char::is_ascii_punctuation)?;
    let [pattern, by, _] = program[1..].split(sign).collect::<Vec<_>>().try_into().ok()?;
    let sampled = |part: &str| if part.is_empty() { String::new() } else { sample(part, is_extended) };
    if by.is_empty() {
        return match (pattern.strip_prefix('^'), pattern.strip_suffix('$')) {
            (Some(begin), None) => Some((sampled(begin), String::new())),
            (None, Some(end)) => Some((String::new(), sampled(end))),
            _ => None,
        };
    }
    let (open, close) = if is_extended { ("(", ")") } else { ("\\(", "\\)") };
    let (before, rest) = pattern.split_once(open)?;
    let (_, behind) = rest.split_once(close).filter(|_| by == "\\1")?;
    (!behind.contains(open)).then(|| (sampled(before), sampled(behind)))
}

/// What `xargs`, `tr '\n' ','` and `paste -sd,` put between lines.
fn joins(name: &str, words: &[String]) -> Option<char> {
    let plain: Vec<&str> = words.iter().map(String::as_str).filter(|word| *word != "-").collect();
    match (name, plain.as_slice()) {
        ("xargs", []) => Some(' '),
        ("tr", ["\\n" | "\n", by]) => by.chars().next().filter(|_| by.len() == 1),
        ("paste", ["-sd" | "-s", by]) => by.trim_start_matches("-d").chars().next(),
        ("paste", ["-s", "-d", by]) => by.chars().next(),
        ("paste", [one]) => one.strip_prefix("-sd")?.chars().next(),
        _ => None,
    }
}

/// How many lines are before the one that `sed -n 2p`, `awk 'NR==2'` and `tail -n +2` print first.
fn skipped(name: &str, words: &[String]) -> Option<usize> {
    let number = |text: &str| text.parse::<usize>().ok().filter(|n| (1..=20).contains(n)).map(|n| n - 1);
    words.iter().find_map(|word| match name {
        "sed" => number(word.strip_suffix('p')?),
        "tail" => number(word.trim_start_matches("-n").strip_prefix('+')?),
        _ => {
            let program: String = word.chars().filter(|c| !c.is_whitespace()).collect();
            let line = program.strip_prefix("NR==").map(|rest| rest.split('{').next().unwrap_or_default().to_owned());
            // `NR > 1 { … }` with fields is for `selected`.
            number(&line.filter(|_| !program.contains('$'))?)
        }
    })
}

/// The line that `sed -n 2p` and `awk 'NR==2'` print, counted from 0.
pub fn nth_line(argv: &[String]) -> Option<usize> {
    let (name, words) = argv.split_first()?;
    skipped(name, words).filter(|_| matches!(name.as_str(), "sed" | "awk"))
}

/// The field that `awk '{print $2}'` or `cut -d, -f2` prints, counted from 1, and the separator of fields. `None` for other filters.
pub fn field(argv: &[String]) -> Option<(usize, String)> {
    let option = |flag: &str| {
        argv.iter().enumerate().find_map(|(i, word)| {
            let rest = word.strip_prefix(flag)?;
            if rest.is_empty() { argv.get(i + 1).cloned() } else { Some(rest.to_owned()) }
        })
    };
    let (at, separator) = match argv.first()?.as_str() {
        "awk" => {
            let program = argv.iter().find_map(|word| word.trim().strip_prefix('{')?.strip_suffix('}'))?;
            let at = program.trim().trim_end_matches(';').strip_prefix("print $")?.to_owned();
            (at, option("-F").unwrap_or_else(|| " ".to_owned()))
        }
        "cut" => (option("-f")?, option("-d").unwrap_or_else(|| "\t".to_owned())),
        _ => return None,
    };
    let at = at.trim().parse().ok().filter(|at| (1..=20).contains(at))?;
    Some((at, separator))
}

/// What an `awk` program requires of the fields of a row, by their numbers: `$1 == "web" && $2 == n { … }`. `None` if it requires
/// nothing, or something else.
fn selected(program: &str, words: &[String]) -> Option<Vec<(usize, String)>> {
    let (pattern, _) = program.split_once('{')?;
    let given = |name: &str| {
        let mut all = words.windows(2).filter(|pair| pair[0] == "-v").map(|pair| pair[1].as_str());
        all.find_map(|word| word.strip_prefix(name)?.strip_prefix('=')).map(str::to_owned)
    };
    let mut fields = Vec::new();
    for condition in pattern.split("&&") {
        let (field, value) = condition.split_once("==")?;
        // `$1 == name ":"`: values that follow each other are one text.
        let text = |value: &str| match value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
            Some(text) => Some(text.to_owned()),
            None => given(value).or_else(|| value.parse::<i64>().ok().map(|number| number.to_string())),
        };
        let value = value.trim();
        let text = text(value).or_else(|| value.split(' ').map(text).collect::<Option<String>>())?;
        fields.push((field.trim().strip_prefix('$')?.parse().ok().filter(|at| (1..=20).contains(at))?, text));
    }
    Some(fields)
}

/// A text that matches a pattern: a basic one, in which `\|` separates alternatives, or an extended one.
pub fn sample(pattern: &str, is_extended: bool) -> String {
    let mut plain = String::new();
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match (c, is_extended) {
            ('\\', _) => {
                let next = chars.next().unwrap_or('\\');
                let is_sign = !is_extended && matches!(next, '|' | '+' | '?' | '(' | ')' | '{' | '}');
                // Only the shell needs a backslash before a blank.
                let bare = is_sign || !(next.is_ascii_punctuation() || next.is_alphanumeric());
                plain.extend((!bare).then_some('\\'));
                plain.push(next);
            }
            ('|' | '+' | '?' | '(' | ')' | '{' | '}', false) => plain.extend(['\\', c]),
            _ => plain.push(c),
        }
    }
    let found = regex_syntax::parse(&plain).ok().map(|hir| sampled(&hir));
    let fits = |text: &String| regex::Regex::new(&plain).is_ok_and(|regex| regex.is_match(text));
    // A guess, if it is not a valid pattern.
    let guess = || {
        let text = pattern.replace(".*", "-").replace(['^', '$', '\\'], "");
        text.split('|').next().unwrap_or_default().to_owned()
    };
    found.filter(fits).unwrap_or_else(guess)
}

/// A text that matches the pattern of `[[ … =~ PATTERN ]]`, in which a backslash only quotes a character for the shell.
pub fn sample_of_shell(pattern: &str) -> String {
    sample(&pattern.replace("\\<", "<").replace("\\>", ">"), true)
}

fn sampled(hir: &Hir) -> String {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => String::new(),
        HirKind::Literal(literal) => String::from_utf8_lossy(&literal.0).into_owned(),
        HirKind::Class(Class::Unicode(class)) => {
            let has = |c: &char| class.iter().any(|range| (range.start()..=range.end()).contains(c));
            // `.` is mostly meant to be a dot.
            let any = class.iter().map(|range| u32::from(range.end()) - u32::from(range.start())).sum::<u32>() > 1000;
            let plain = ['.'].into_iter().filter(|_| any).chain(['a', '1', 'A', '-', ' ']).find(has);
            plain
                .or_else(|| class.iter().next().map(regex_syntax::hir::ClassUnicodeRange::start))
                .map_or_else(String::new, String::from)
        }
        HirKind::Class(Class::Bytes(_)) => String::new(),
        HirKind::Repetition(repetition) => sampled(&repetition.sub).repeat(repetition.min.min(20) as usize),
        HirKind::Capture(capture) => sampled(&capture.sub),
        HirKind::Concat(parts) => parts.iter().map(sampled).collect(),
        HirKind::Alternation(parts) => parts.first().map_or_else(String::new, sampled),
    }
}

/// Variants of a text, each with one difference: a value of a document is another one or null, a list in it is empty or has one more
/// item, or a syntax error follows the document; a line is missing, or is a part of another one; a number is one less, one more or 0.
pub fn spoiled(text: &str) -> Vec<String> {
    let Ok(document @ (Value::Object(_) | Value::Array(_))) = serde_json::from_str::<Value>(text) else {
        let lines: Vec<&str> = text.lines().collect();
        let without = |skip: usize| {
            let rest = lines.iter().enumerate().filter(|(i, _)| *i != skip).map(|(_, line)| format!("{line}\n"));
            rest.collect::<String>()
        };
        return match (lines.as_slice(), text.trim().parse::<u32>()) {
            (_, Ok(n)) => [n.saturating_sub(1), n.saturating_add(1), 0].map(|n| format!("{n}\n")).to_vec(),
            ([] | [_], Err(_)) => vec![format!("not-{text}")],
            _ => {
                // With more before and behind it, a line still contains what it should equal.
                let within = |at: usize| {
                    let line = |(i, line): (usize, &&str)| {
                        if i == at { format!("not-{line}-so\n") } else { format!("{line}\n") }
                    };
                    lines.iter().enumerate().map(line).collect::<String>()
                };
                (0..lines.len().min(6)).map(without).chain((0..lines.len().min(4)).map(within)).collect()
            }
        };
    };
    let mut places = Vec::new();
    leaves(&document, &mut Vec::new(), &mut places);
    let mut found = vec![format!("{document}\n}}\n")];
    for place in places.iter().take(10) {
        for value in [Value::Null, json!("other")] {
            let mut other = document.clone();
            put(&mut other, place, value);
            found.push(format!("{other}\n"));
        }
        // With the outermost list on its path empty.
        if let Some(list) = place.iter().position(|segment| matches!(segment, Segment::Index(_))) {
            let mut other = document.clone();
            put(&mut other, &place[..list], json!([]));
            found.push(format!("{other}\n"));
            // With one more item in that list.
            if let Some(Value::Array(items)) = at(&document, &place[..list])
                && let Some(item) = items.first()
            {
                let mut more = place[..list].to_vec();
                more.push(Segment::Index(items.len()));
                let mut other = document.clone();
                put(&mut other, &more, item.clone());
                let other = format!("{other}\n");
                if !found.contains(&other) {
                    found.push(other);
                }
            }
        }
    }
    found
}

/// Variants of a text with several values, each with another value in place of one of them: a number is one more or one less. None for a
/// document, see [`spoiled`].
pub fn with_other_values(text: &str) -> Vec<String> {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_');
    let mut places: Vec<(usize, &str)> = Vec::new();
    let mut at = 0;
    for value in text.split(|c| !is_part(c)) {
        places.extend((!value.is_empty()).then_some((at, value)));
        at += value.len() + text[at + value.len()..].chars().next().map_or(0, char::len_utf8);
    }
    if places.len() < 2 || text.starts_with(['{', '[']) {
        return Vec::new();
    }
    let others = |value: &str| match value.parse::<u64>() {
        Ok(n) => vec![n.saturating_add(1).to_string(), n.saturating_sub(1).to_string()],
        Err(_) => vec!["other".to_owned()],
    };
    let with = |(at, value): (usize, &str)| {
        let (before, behind) = (&text[..at], &text[at + value.len()..]);
        others(value).into_iter().map(move |other| format!("{before}{other}{behind}"))
    };
    places.into_iter().take(8).flat_map(with).collect()
}

/// The paths of a document's values.
fn leaves(value: &Value, path: &mut Vec<Segment>, found: &mut Vec<Vec<Segment>>) {
    let mut inner = |segment, value: &Value| {
        path.push(segment);
        leaves(value, path, found);
        path.pop();
    };
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| inner(Segment::Key(key.clone()), value)),
        Value::Array(items) => items.iter().enumerate().for_each(|(i, value)| inner(Segment::Index(i), value)),
        _ => found.push(path.clone()),
    }
}

/// One text for several filters, each of which may read one of its own texts. If that yields no document: all these texts, and what else
/// is wanted.
pub fn combined(filters: &[Vec<String>], else_wanted: &[String]) -> Vec<String> {
    let first =
        |skip: usize| filters.iter().enumerate().filter(move |(i, _)| *i != skip).filter_map(|(_, f)| f.first());
    let mut found = Vec::new();
    for apart in [false, true] {
        for (i, inputs) in filters.iter().enumerate() {
            for input in inputs {
                let all: Vec<&String> = std::iter::once(input).chain(first(i)).collect();
                found.extend(merged(&all, apart).filter(|text| !found.contains(text)));
            }
        }
        // Each way gets its share.
        found.truncate(if apart { 12 } else { 8 });
    }
    if found.is_empty() {
        // Each filter may find a row of its own.
        let rows: Vec<&str> = first(usize::MAX).map(|text| text.trim_end_matches('\n')).collect();
        let rows = Some(rows.join("\n")).filter(|_| filters.len() > 1);
        return rows.into_iter().chain(filters.concat()).chain(else_wanted.iter().cloned()).collect();
    }
    found
}

/// One document that contains what each of several documents contains. `apart`: items with different lists are different items.
fn merged(documents: &[&String], apart: bool) -> Option<String> {
    let read: Vec<Option<Value>> = documents.iter().map(|text| serde_json::from_str(text).ok()).collect();
    let mut all = Value::Null;
    for document in read.iter().flatten() {
        merge(&mut all, document.clone(), apart);
    }
    // A text that is not a document can be a value in one.
    for (text, _) in documents.iter().zip(&read).filter(|(_, read)| read.is_none()) {
        if !all.is_object() {
            return None;
        }
        merge(&mut all, json!({ "more": text }), apart);
    }
    (all.is_object() || all.is_array()).then(|| settled(all).to_string())
}

/// Marks what every item of a list should have: `all(.[]; .n > 0)`.
const EACH: &str = "for each";

/// A document in which every item has what every item should have.
fn settled(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            Value::Object(map.into_iter().filter(|(key, _)| key != EACH).map(|(key, v)| (key, settled(v))).collect())
        }
        Value::Array(items) => {
            let (common, mut own): (Vec<Value>, Vec<Value>) = items.into_iter().partition(|i| i.get(EACH).is_some());
            if own.is_empty() {
                return Value::Array(common.into_iter().map(settled).collect());
            }
            own.iter_mut().for_each(|item| common.iter().for_each(|more| merge(item, more.clone(), false)));
            Value::Array(own.into_iter().map(settled).collect())
        }
        value => value,
    }
}

fn merge(into: &mut Value, from: Value, apart: bool) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value, apart);
            }
        }
        (Value::Array(into), Value::Array(from)) => {
            for (i, value) in from.into_iter().enumerate() {
                // What is meant for another item does not belong to this one.
                let at = if into.get(i).is_some_and(|item| agrees(item, &value, apart)) { Some(i) } else { None };
                match at.or_else(|| into.iter().position(|item| agrees(item, &value, apart))) {
                    Some(at) => merge(&mut into[at], value, apart),
                    None => into.push(value),
                }
            }
        }
        (into, from) if into.is_null() => *into = from,
        _ => {}
    }
}

/// Whether two values do not contradict each other. `apart`: neither may their lists.
fn agrees(a: &Value, b: &Value, apart: bool) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) if a.contains_key(EACH) != b.contains_key(EACH) => false,
        (Value::Object(a), Value::Object(b)) => b.iter().all(|(key, b)| a.get(key).is_none_or(|a| agrees(a, b, apart))),
        (Value::Array(a), Value::Array(b)) if apart => a.iter().zip(b).all(|(a, b)| agrees(a, b, apart)),
        (Value::Array(_), Value::Array(_)) | (Value::Null, _) | (_, Value::Null) => true,
        (a, b) => a == b,
    }
}

/// One segment of a path.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Segment {
    Key(String),
    Index(usize),
}

/// A jq program with its variables replaced by the values of `--arg` and `--argjson`.
fn with_arguments(program: &str, words: &[String]) -> String {
    let mut given: Vec<(String, String)> = Vec::new();
    for window in words.windows(3) {
        match window {
            [flag, name, value] if flag == "--arg" => given.push((format!("${name}"), json!(value).to_string())),
            [flag, name, value] if flag == "--argjson" => given.push((format!("${name}"), value.clone())),
            _ => {}
        }
    }
    // `$name` is a prefix of `$namespace`.
    given.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
    given.iter().fold(program.to_owned(), |program, (name, value)| program.replace(name, value))
}

fn documents(program: &str, wanted: &[String]) -> Vec<Value> {
    if let Some(encoded) = program.trim_end().strip_suffix("@base64d").filter(|_| !wanted.is_empty()) {
        let wanted: Vec<String> = wanted.iter().map(|text| STANDARD.encode(text)).collect();
        return documents(encoded.trim_end().trim_end_matches('|'), &wanted);
    }
    // The program only reads.
    if wanted.is_empty() && matches!(program.trim(), "." | "empty") {
        return vec![Value::Null];
    }
    let value = |text: &String| serde_json::from_str(text).unwrap_or_else(|_| json!(text));
    let wanted: Vec<Value> = if wanted.is_empty() { vec![json!(true)] } else { wanted.iter().map(value).collect() };
    let make = |last: &Value| {
        if let Some((list, separator)) = joined(program) {
            // `to_entries | map("\(.key)=\(.value)") | join(",")`
            if let Some((before, inner)) = list.split_once("to_entries | map(")
                && let Some(inner) = inner.trim_end().strip_suffix(')')
            {
                let lines = last.as_str().unwrap_or_default().replace(&separator, "\n");
                let doc = of_entries(&format!("{before}to_entries[] | {inner}"), &lines);
                if let Some(doc) = doc {
                    return doc;
                }
            }
            return of_items(&list, last.as_str().unwrap_or(&last.to_string()).split(&separator));
        }
        if let Some(doc) = of_entries(program, last.as_str().unwrap_or_default()) {
            return doc;
        }
        if let (Some(item), Value::Array(items)) = (collected(program), last) {
            return of_values(item, items.iter().cloned(), &[]);
        }
        if let Some((item, items)) = equal_list(program) {
            return of_values(&item, items.into_iter(), &[]);
        }
        // Each line is the text of an item.
        if let Some(text) = last.as_str().filter(|text| text.trim_end().contains('\n') && program.contains("[]")) {
            return of_values(program, text.trim_end().lines().map(|line| json!(line)), &[]);
        }
        let mut doc = Value::Null;
        let end = run(program, Vec::new(), last, &mut doc);
        // What the program itself has put there is right.
        match at(&doc, &end) {
            Some(known @ Value::Object(_)) if last.is_object() => {
                let mut both = known.clone();
                merge(&mut both, last.clone(), false);
                put(&mut doc, &end, both);
            }
            known => {
                if is_free(known) {
                    put(&mut doc, &end, last.clone());
                }
            }
        }
        doc
    };
    wanted.iter().take(6).map(make).collect()
}

/// `[.a[].b]`, `[.a[].b] | sort`: what makes the items of the list.
fn collected(program: &str) -> Option<&str> {
    let parts = split(program, "|");
    let (first, rest) = parts.split_first()?;
    let is_order = |part: &&str| matches!(part.trim(), "sort" | "unique");
    inside(first.trim(), "[", "]").filter(|item| item.contains("[]") && rest.iter().all(is_order))
}

/// `[.a[].b] | sort == ["x", "y"]`: what makes the items of the list, and the items.
fn equal_list(program: &str) -> Option<(String, Vec<Value>)> {
    let mut parts = split(program, "|");
    let (left, Value::Array(items)) = comparison(parts.pop()?)? else { return None };
    parts.extend(Some(left).filter(|left| left.trim() != "."));
    Some((collected(&parts.join("|"))?.to_owned(), items))
}

/// A program that is false where this one is true, for a program with one comparison.
pub fn negated(program: &str) -> Option<String> {
    const SIGNS: [(&str, &str); 6] = [("<=", ">"), (">=", "<"), ("==", "!="), ("!=", "=="), ("<", ">="), (">", "<=")];
    let (sign, other) = SIGNS.into_iter().find(|(sign, _)| program.contains(sign))?;
    let (left, right) = program.split_once(sign)?;
    if right.contains(['<', '>', '=']) {
        return None;
    }
    let left = match left.split_once("any(") {
        Some((before, rest)) => format!("{before}all({rest}"),
        None => left.replacen("all(", "any(", 1),
    };
    Some(format!("{left}{other}{right}"))
}

/// For a program that joins what it finds: the program that finds it, and the separator.
fn joined(program: &str) -> Option<(String, String)> {
    let mut parts = split(program, "|");
    let separator = serde_json::from_str(call(parts.pop()?.trim(), "join")?.trim()).ok()?;
    let orders = |part: &&str| {
        let part = part.trim();
        matches!(part, "sort" | "unique" | "reverse") || part.starts_with("sort_by(") || part.starts_with("unique_by(")
    };
    while parts.last().is_some_and(orders) {
        parts.pop();
    }
    let is_separator = |text: &String| !text.is_empty();
    Some((parts.join("|"), separator)).filter(|(_, separator)| is_separator(separator))
}

/// The object whose entries a program prints, one per line: `to_entries[] | "\(.key)=\(.value)"`.
fn of_entries(program: &str, text: &str) -> Option<Value> {
    let (before, behind) = program.split_once("to_entries[]")?;
    let (first, pieces) = interpolated(behind.trim_start().strip_prefix('|')?.trim())?;
    let [(".key", between), (".value", last)] = pieces.as_slice() else { return None };
    let entry = |line: &str| {
        let (key, value) = line.strip_prefix(first)?.strip_suffix(last)?.split_once(between)?;
        Some((key.to_owned(), json!(value)))
    };
    let entries: Map<String, Value> = text.trim_end().lines().map(entry).collect::<Option<_>>()?;
    let mut doc = Value::Null;
    let end = run(before.trim_end().trim_end_matches('|'), Vec::new(), &Value::Null, &mut doc);
    put(&mut doc, &end, Value::Object(entries));
    Some(doc)
}

/// A document in which a program finds these items in order.
fn of_items<'t>(program: &str, items: impl Iterator<Item = &'t str>) -> Value {
    let last = split(program, "|").last().map_or("", |part| part.trim());
    let is_list = !(last.starts_with('[') || last.starts_with("map("));
    let place: &[Segment] = if is_list { &[Segment::Index(0)] } else { &[] };
    of_values(program, items.map(|item| json!(item)), place)
}

/// A document in which a program finds these values in order, each at a place below what the program prints.
fn of_values(program: &str, values: impl Iterator<Item = Value>, place: &[Segment]) -> Value {
    let mut all = Value::Null;
    for value in values.take(FURTHEST) {
        let mut doc = Value::Null;
        let mut end = run(program, Vec::new(), &value, &mut doc);
        end.extend_from_slice(place);
        if at(&doc, &end).is_none_or(Value::is_null) {
            put(&mut doc, &end, value);
        }
        merge(&mut all, doc, false);
    }
    all
}

/// Walks through a program, adds what it reads to the document, and returns the path of its output.
fn run(program: &str, from: Vec<Segment>, last: &Value, doc: &mut Value) -> Vec<Segment> {
    run_on(program, (from, false), last, doc)
}

/// Does the same for a path that, with `true`, is that of the items of a list that the program before it has made.
fn run_on(program: &str, (from, listed): (Vec<Segment>, bool), last: &Value, doc: &mut Value) -> Vec<Segment> {
    let mut path = from;
    let mut collects = listed;
    let parts = split(program, "|");
    if let [conditions @ .., last] = parts.as_slice()
        && last.trim() == "not"
    {
        // What is absent is not true.
        let is_path = |part: &&str| part.trim().starts_with('.') && comparison(part).is_none();
        if !conditions.is_empty() && conditions.iter().all(is_path) {
            path = run(&conditions.join("|"), path, &Value::Null, doc);
            put(doc, &path, json!(false));
        }
        return path;
    }
    for part in parts {
        let part = split(part.trim(), "//").first().map_or("", |p| p.trim());
        // One of several conditions is enough.
        let part = split(part, " or ").first().map_or("", |p| p.trim());
        let is_listed = collects;
        let counts = collects && part == "length";
        collects = part.starts_with('[') || part.starts_with("map(") || collects && matches!(part, "sort" | "unique");
        // `[…][0]`: one of the items.
        let item = part.strip_suffix("[0]").and_then(|list| inside(list, "[", "]"));
        // Of `(.a, .b)`, one is enough.
        let group = || inside(part, "(", ")").and_then(|group| split(group, ",").first().copied());
        let inner = item.or_else(|| inside(part, "[", "]")).or_else(group);
        let listed_parts = inside(part, "[", "]").filter(|_| last.is_array()).map(|inner| split(inner, ","));
        if matches!(part, "first" | "last") {
            path.extend((!is_listed).then_some(Segment::Index(0)));
        } else if let Some(parts) = listed_parts.filter(|parts| parts.len() > 1) {
            // `[.a, .b]`
            for (nth, part) in parts.into_iter().enumerate() {
                let value = last.get(nth).cloned().unwrap_or_default();
                let place = run(part, path.clone(), &value, doc);
                if is_free(at(doc, &place)) {
                    put(doc, &place, value);
                }
            }
        } else if let Some(inner) = inner.or_else(|| call(part, "first")) {
            path = run(inner, path, last, doc);
        } else if let [first, rest @ ..] = split(part, " and ").as_slice()
            && !rest.is_empty()
        {
            for condition in std::iter::once(first).chain(rest) {
                let place = run_on(condition, (path.clone(), is_listed), &json!(true), doc);
                if is_listed {
                    continue;
                }
                if at(doc, &place).is_none_or(Value::is_null) {
                    put(doc, &place, json!(true));
                }
            }
        } else if part.starts_with("if ") && part.ends_with(" end") {
            // The value stays as it is in one of the branches.
        } else if let Some(left) = part.strip_suffix("!= null") {
            let place = run_on(left, (path.clone(), is_listed), &Value::Null, doc);
            if at(doc, &place).is_none_or(Value::is_null) {
                put(doc, &place, json!(OTHER));
            }
        } else if let Some((left, right)) = comparison(part) {
            if split(left, "|").last().is_some_and(|last| last.trim() == "length") {
                run_on(left, (path.clone(), is_listed), &right, doc);
                continue;
            }
            // `[…] == [70]`
            let (left, right) = match (inside(left.trim(), "[", "]"), right) {
                (Some(item), Value::Array(mut items)) if items.len() == 1 => (item, items.remove(0)),
                (_, right) => (left, right),
            };
            let place = run(left, path.clone(), &Value::Null, doc);
            put(doc, &place, right);
        } else if let Some(pieces) = interpolated(part) {
            let text = last.as_str().unwrap_or_default();
            let mut rest = text.strip_prefix(pieces.0).unwrap_or(text);
            for (expression, literal) in pieces.1 {
                let end = if literal.is_empty() { None } else { rest.find(literal) };
                let (value, behind) = end.map_or((rest, ""), |end| (&rest[..end], &rest[end + literal.len()..]));
                let value = json!(value);
                let place = run(expression, path.clone(), &value, doc);
                if is_free(at(doc, &place)) {
                    put(doc, &place, value);
                }
                rest = behind;
            }
        } else if let Some(condition) = call(part, "select") {
            let place = run(condition, path.clone(), &json!(true), doc);
            // `select(.ready)`
            if place != path && at(doc, &place).is_none_or(Value::is_null) {
                put(doc, &place, json!(true));
            }
        } else if let Some(inner) = call(part, "any").or_else(|| call(part, "all")) {
            let parts = split(inner, ";");
            let (each, condition) = match parts.as_slice() {
                [each, condition] => (*each, *condition),
                _ => (".[]", inner),
            };
            let mut place = run(each, path.clone(), &Value::Null, doc);
            run(condition, place.clone(), &json!(true), doc);
            if part.starts_with("all") && matches!(place.last(), Some(Segment::Index(_))) {
                place.push(Segment::Key(EACH.to_owned()));
                put(doc, &place, json!(true));
            }
        } else if let Some(inner) = call(part, "map") {
            let mut place = path.clone();
            // The path of a list that was made of items is already that of one.
            place.extend((!is_listed).then_some(Segment::Index(0)));
            path = run(inner, place.clone(), last, doc);
            // `map` needs an item.
            if path == place && at(doc, &place).is_none_or(Value::is_null) {
                put(doc, &place, json!({}));
            }
        } else if let Some(word) =
            ["index", "contains", "test", "startswith", "endswith"].iter().find_map(|f| call(part, f))
        {
            let word = word.trim_matches(['[', ']']);
            let word: Value = serde_json::from_str(word).unwrap_or_else(|_| json!(word));
            let mut place = path.clone();
            // In a list that was made of a field of each item, the field has the value.
            if !is_listed && (part.starts_with("index") || part.contains("([")) {
                place.push(Segment::Index(0));
            }
            put(doc, &place, word);
        } else if let Some(key) = call(part, "has") {
            let mut place = path.clone();
            place.push(Segment::Key(key.trim_matches('"').to_owned()));
            put(doc, &place, json!("x"));
        } else if part == "length" {
            let count = last.as_u64().unwrap_or(1).min(12);
            let first = path.iter().rposition(|part| matches!(part, Segment::Index(0)));
            // `[.items[].name] | index("a") != null and length == 2`: nothing is known of the other items.
            if listed && let Some(end) = first {
                let place = [&path[..end], &[Segment::Index((count as usize).max(1) - 1)]].concat();
                if at(doc, &place).is_none() {
                    put(doc, &place, Value::Null);
                }
                continue;
            }
            // `[.items[] | select(.a == 1)] | length`: every item meets the condition.
            if let Some(end) = first.filter(|_| counts)
                && let Some(item) = at(doc, &path[..=end]).filter(|item| item.is_object()).cloned()
            {
                // No item may meet it.
                if count == 0 {
                    path.truncate(end);
                    put(doc, &path, json!([]));
                    continue;
                }
                let mut place = path[..=end].to_vec();
                for i in 1..count as usize {
                    place[end] = Segment::Index(i);
                    let mut item = item.clone();
                    merge(&mut item, json!({ "metadata": { "name": format!("thing-{i}") } }), false);
                    put(doc, &place, item);
                }
                continue;
            }
            for i in 0..count {
                let mut place = path.clone();
                if matches!(place.last(), Some(Segment::Index(0))) {
                    place.pop();
                }
                place.push(Segment::Index(i as usize));
                let item = json!({ "metadata": { "name": format!("thing-{i}") } });
                if at(doc, &place).is_none() {
                    put(doc, &place, item);
                }
            }
        } else if part.starts_with('.') {
            // An item of a list that was made of items: the path is already that of one.
            let of_item = part.strip_prefix(".[").filter(|_| is_listed).and_then(|rest| rest.split_once(']'));
            path.extend(segments(of_item.map_or(part, |(_, rest)| rest)));
        }
    }
    path
}

/// `LEFT == literal`: LEFT, and a value for it that makes the comparison true.
fn comparison(text: &str) -> Option<(&str, Value)> {
    for (sign, shift) in [("==", 0), ("!=", 1), (">=", 0), ("<=", 0), (">", 1), ("<", -1)] {
        if let [left, right] = split(text, sign).as_slice() {
            let right: Value = serde_json::from_str(right.trim()).ok()?;
            let right = match (&right, shift) {
                (Value::Number(n), 0) if n.as_i64().is_none() => right,
                (Value::Number(n), shift) => {
                    // The next whole number, if it is a decimal fraction.
                    let fraction = n.as_f64().map_or(0, |n| if shift > 0 { n.floor() } else { n.ceil() } as i64);
                    json!(n.as_i64().unwrap_or(fraction).saturating_add(shift))
                }
                (_, 1) => json!(OTHER),
                _ => right,
            };
            return Some((left, right));
        }
    }
    None
}

/// The first literal of `"a\(.b)c\(.d)"`, and its expressions with the literals after them.
fn interpolated(text: &str) -> Option<(&str, Vec<(&str, &str)>)> {
    let mut pieces = text.strip_prefix('"')?.strip_suffix('"')?.split("\\(");
    let first = pieces.next()?;
    let pieces: Vec<_> = pieces.map(|piece| piece.rsplit_once(')')).collect::<Option<_>>()?;
    (!pieces.is_empty()).then_some((first, pieces))
}

/// The arguments of `NAME(…)`.
fn call<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    inside(text.strip_prefix(name)?, "(", ")")
}

/// The text inside brackets that enclose the whole text.
fn inside<'t>(text: &'t str, open: &str, close: &str) -> Option<&'t str> {
    let inner = text.strip_prefix(open)?.strip_suffix(close)?;
    let mut depth = 0i32;
    let mut quoted = false;
    for c in inner.chars() {
        match c {
            '"' => quoted = !quoted,
            '(' | '[' | '{' if !quoted => depth += 1,
            ')' | ']' | '}' if !quoted => depth -= 1,
            _ => {}
        }
        if depth < 0 {
            return None;
        }
    }
    Some(inner)
}

/// Splits a program at the separators that are outside of brackets and quotes.
fn split<'t>(text: &'t str, separator: &str) -> Vec<&'t str> {
    let mut parts = Vec::new();
    let (mut depth, mut quoted, mut from) = (0i32, false, 0);
    let mut skip = 0;
    for (i, c) in text.char_indices() {
        if i < skip {
            continue;
        }
        match c {
            '"' => quoted = !quoted,
            '(' | '[' | '{' if !quoted => depth += 1,
            ')' | ']' | '}' if !quoted => depth -= 1,
            _ => {}
        }
        if depth == 0 && !quoted && text[i..].starts_with(separator) {
            parts.push(&text[from..i]);
            from = i + separator.len();
            skip = from;
        }
    }
    parts.push(&text[from..]);
    parts
}

/// A value that differs from one that a program excludes.
const OTHER: &str = "other";

/// The largest index in a list, whatever a program asks for.
const FURTHEST: usize = 63;

/// The segments of `.a.b["c"][0][]?`, up to an unclosed bracket.
fn segments(path: &str) -> Vec<Segment> {
    let mut found = Vec::new();
    let mut rest = path;
    while let Some(c) = rest.chars().next() {
        let len = match c {
            '[' => {
                let Some(end) = rest.find(']') else { break };
                let inner = &rest[1..end];
                found.push(match inner.strip_prefix('"').and_then(|i| i.strip_suffix('"')) {
                    Some(key) => Segment::Key(key.to_owned()),
                    None => Segment::Index(inner.parse().unwrap_or(0).min(FURTHEST)),
                });
                end + 1
            }
            c if c.is_ascii_alphanumeric() || c == '_' => {
                let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
                found.push(Segment::Key(rest[..end].to_owned()));
                end
            }
            '"' => {
                let end = rest[1..].find('"').map_or(rest.len(), |e| e + 2);
                found.push(Segment::Key(rest[1..end].trim_end_matches('"').to_owned()));
                end
            }
            c => c.len_utf8(),
        };
        rest = &rest[len.min(rest.len())..];
    }
    found
}

/// Whether a place may have any value: it has none, or one that only differs from another.
fn is_free(value: Option<&Value>) -> bool {
    value.is_none_or(|value| value.is_null() || value == OTHER)
}

fn at<'v>(doc: &'v Value, path: &[Segment]) -> Option<&'v Value> {
    path.iter().try_fold(doc, |value, segment| match segment {
        Segment::Key(key) => value.get(key),
        Segment::Index(index) => value.get(index),
    })
}

fn put(doc: &mut Value, path: &[Segment], value: Value) {
    let mut place = doc;
    for segment in path {
        place = match segment {
            Segment::Key(key) => {
                if !place.is_object() {
                    *place = Value::Object(Map::new());
                }
                match place.as_object_mut() {
                    Some(map) => map.entry(key).or_insert(Value::Null),
                    None => return,
                }
            }
            Segment::Index(index) => {
                if !place.is_array() {
                    *place = Value::Array(Vec::new());
                }
                match place.as_array_mut() {
                    Some(items) => {
                        while items.len() <= *index {
                            items.push(Value::Null);
                        }
                        &mut items[*index]
                    }
                    None => return,
                }
            }
        };
    }
    *place = value;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_of_filters_lead_to_what_they_should_print() {
        let cases = [
            (r"sed -n s/^psql\ \([0-9]*\).*/\1/p -", "15", "psql 15"),
            (r"sed s/^v// -", "1.2", "v1.2"),
            (r"sed -E s/.*image:(.*)$/\1/ -", "web", "image:web"),
            ("sed -n 2p -", "two", "line 1\ntwo"),
            ("awk NR==3{print} -", "x", "line 1\nline 2\nx"),
            ("tail -n +2 -", "1,a", "line 1\n1,a"),
            ("awk $1==\"web\"&&$2==\"3/3\"{f=1}END{exit!f} -", "", "web 3/3"),
            ("xargs", "a b", "a\nb"),
            ("tr \\n , -", "a,b,", "a\nb"),
            ("paste -sd, -", "a,b", "a\nb"),
            ("cut -d, -f2 -", "x\ny", "a,x,more\na,y,more"),
        ];
        for (line, wanted, input) in cases {
            let words: Vec<String> = line.replace("\\ ", "\u{1}").split(' ').map(|w| w.replace('\u{1}', " ")).collect();
            let wanted: Vec<String> = Some(wanted.to_owned()).filter(|text| !text.is_empty()).into_iter().collect();
            assert_eq!(inputs(&words, &wanted), [input], "{line}");
        }
    }

    #[test]
    fn each_value_of_a_text_is_replaced() {
        assert_eq!(with_other_values("a=1|web-2\n"), ["other=1|web-2\n", "a=2|web-2\n", "a=0|web-2\n", "a=1|other\n"]);
        assert!(with_other_values("ü").is_empty() && with_other_values("{\"a\": 1}").is_empty());
    }

    #[test]
    fn documents_contain_what_programs_query() {
        let cases = [
            (".spec.host", "a", json!({"spec": {"host": "a"}})),
            (".items[0].name", "3", json!({"items": [{"name": 3}]})),
            (
                "any(.spec.http[]?; .fault.delay.percentage == 100)",
                "",
                json!({"spec": {"http": [{"fault": {"delay": {"percentage": 100}}}]}}),
            ),
            (".types | index(\"Egress\")", "", json!({"types": ["Egress"]})),
            (".labels[\"a.b/c\"] == \"x\"", "", json!({"labels": {"a.b/c": "x"}})),
            (
                "[.spec.ingress[].from[].podSelector.matchLabels.role]",
                r#"["front","back"]"#,
                json!({"spec": {"ingress": [{"from": [
                    {"podSelector": {"matchLabels": {"role": "front"}}},
                    {"podSelector": {"matchLabels": {"role": "back"}}},
                ]}]}}),
            ),
            ("[.ports[].port] | sort", "[80,443]", json!({"ports": [{"port": 80}, {"port": 443}]})),
            (
                "[.e[].p[]? | select(.n == 53) | .q] | sort == [\"TCP\",\"UDP\"]",
                "",
                json!({"e": [{"p": [{"n": 53, "q": "TCP"}, {"n": 53, "q": "UDP"}]}]}),
            ),
            (".total == 150.5", "", json!({"total": 150.5})),
            (".total > 150.5", "", json!({"total": 151})),
            (".rules[] | select(.port == 53) | .protocol", "UDP", json!({"rules": [{"port": 53, "protocol": "UDP"}]})),
            (
                "[.items[] | select(.s.p == \"R\")] | length",
                "2",
                json!({"items": [{"s": {"p": "R"}}, {"s": {"p": "R"}, "metadata": {"name": "thing-1"}}]}),
            ),
            (
                "[.i[].t | select(.a)] | length",
                "2",
                json!({"i": [{"t": {"a": true}}, {"t": {"a": true}, "metadata": {"name": "thing-1"}}]}),
            ),
            (".data.user | @base64d", "admin", json!({"data": {"user": "YWRtaW4="}})),
            ("[.items[] | select(.a == \"x\")][0]", r#"{"b":1}"#, json!({"items": [{"a": "x", "b": 1}]})),
            (".spec.suspend | not", "", json!({"spec": {"suspend": false}})),
            (".labels | map(.name) | index(\"bug\")", "", json!({"labels": [{"name": "bug"}]})),
            (".roles | index(\"editor\") != null", "", json!({"roles": ["editor"]})),
            ("[.c[].name] | index(\"app\") != null and length == 2", "", json!({"c": [{"name": "app"}, null]})),
            ("last | .status", "deployed", json!([{"status": "deployed"}])),
            ("[.items[] | .mode] | first // \"\"", "STRICT", json!({"items": [{"mode": "STRICT"}]})),
            (
                "[.c[0] | (.a[]?.name, .b[]?.name)] | map(select(. == \"x\")) | length",
                "1",
                json!({"c": [{"a": [{"name": "x"}]}]}),
            ),
            (
                ".c[] | select(.name == \"a\") | [.path, .readOnly]",
                "[\"/x\",true]",
                json!({"c": [{"name": "a", "path": "/x", "readOnly": true}]}),
            ),
            (
                ".[] | select(.name != \"new\") | \"\\(.name)=\\(.on)\"",
                "old=true",
                json!([{"name": "old", "on": "true"}]),
            ),
            (
                ".n | map(select(.m == \"a\" or .m == \"x/a\")) | .[0].name // empty",
                "net",
                json!({"n": [{"m": "a", "name": "net"}]}),
            ),
            (
                r#".s | to_entries | map("\(.key)=\(.value)") | join(",")"#,
                "a=b,c=d",
                json!({"s": {"a": "b", "c": "d"}}),
            ),
            (".count // 1", "2", json!({"count": 2})),
            (".types | join(\",\")", "In,Out", json!({"types": ["In", "Out"]})),
            (".a | map(.b) | sort | join(\" \")", "x y", json!({"a": [{"b": "x"}, {"b": "y"}]})),
            ("[.[].b] | join(\",\")", "x,y", json!([{"b": "x"}, {"b": "y"}])),
            (".a | map(if .b then .b |= sort else . end) | sort_by(.)", "", json!({"a": [{}]})),
            (".a and .b > 2", "", json!({"a": true, "b": 3})),
            (
                ".a | length == 1 and .[0].port == 5 and (.[0].p // \"T\") == \"T\"",
                "",
                json!({"a": [{"metadata": {"name": "thing-0"}, "port": 5, "p": "T"}]}),
            ),
            ("[.m[]? | select(.n == \"cpu\") | .v] == [70]", "", json!({"m": [{"n": "cpu", "v": 70}]})),
            (
                r#".data // {} | to_entries[] | "\(.key)=\(.value)""#,
                "a=1\nb.c=2",
                json!({"data": {"a": "1", "b.c": "2"}}),
            ),
            (
                r#".r[] | .b[] | "\(.n):\(.p)""#,
                "x:1\ny:2",
                json!({"r": [{"b": [{"n": "x", "p": "1"}, {"n": "y", "p": "2"}]}]}),
            ),
            (".l == {\"app\": \"db\"}", "", json!({"l": {"app": "db"}})),
            ("[.r[] | select(.a[]?.w != null)] | length", "0", json!({"r": []})),
            (
                r#".to | "to \(.kind)/\(.name)""#,
                "to Service/hello",
                json!({"to": {"kind": "Service", "name": "hello"}}),
            ),
        ];
        for (program, wanted, expected) in cases {
            let wanted: Vec<String> = if wanted.is_empty() { Vec::new() } else { vec![wanted.to_owned()] };
            assert_eq!(documents(program, &wanted)[0], expected, "{program}");
        }
        assert_eq!(documents(".items | length", &["2".to_owned()])[0]["items"].as_array().map(Vec::len), Some(2));
        let other = spoiled(r#"{"a":[{"b":1}],"c":"x"}"#);
        assert_eq!(other[0], "{\"a\":[{\"b\":1}],\"c\":\"x\"}\n}\n");
        assert!(other.contains(&"{\"a\":[{\"b\":null}],\"c\":\"x\"}\n".to_owned()), "{other:?}");
        assert!(other.contains(&"{\"a\":[],\"c\":\"x\"}\n".to_owned()), "{other:?}");
        assert!(other.contains(&"{\"a\":[{\"b\":1},{\"b\":1}],\"c\":\"x\"}\n".to_owned()), "{other:?}");
        for (pattern, is_extended, expected) in [
            (r"^\*/[0-9]+\ \*", true, "*/1 *"),
            ("a|b", true, "a"),
            (r"x\|y", false, "x"),
            ("a(b)", false, "a(b)"),
            ("^v[0-9]{2}[.]", true, "v11."),
            ("Running.*web", false, "Runningweb"),
            ("[", true, "["),
        ] {
            assert_eq!(sample(pattern, is_extended), expected, "{pattern}");
        }
        assert_eq!(spoiled("a\nb\n"), ["b\n", "a\n", "not-a-so\nb\n", "a\nnot-b-so\n"]);
        assert_eq!(spoiled("a"), ["not-a"]);
        assert_eq!(spoiled("5\n"), ["4\n", "6\n", "0\n"]);
        let argv = ["jq", "--arg", "name", "web", ".[] | select(.name == $name) | .is", "-"].map(str::to_owned);
        assert_eq!(inputs(&argv, &["up".to_owned()]), [r#"[{"name":"web","is":"up"}]"#]);
        let argv = ["grep", "-q", "^USER nobody", "/tmp/x"].map(str::to_owned);
        assert_eq!(inputs(&argv, &[]), ["USER nobody more"]);
        let argv = ["grep", "-qx", "hi you", "/tmp/x"].map(str::to_owned);
        assert_eq!(inputs(&argv, &[]), ["hi you"]);
        let argv = ["grep", "web", "-"].map(str::to_owned);
        assert_eq!(inputs(&argv, &["5/5".to_owned(), "a web\nb\n".to_owned()])[..2], ["web 5/5", "a web\nweb b"]);
        let argv = ["wc", "-w", "-"].map(str::to_owned);
        assert_eq!(inputs(&argv, &["2".to_owned()]), ["thing-0 thing-1 "]);
        // Two items of one list, and two properties of one item.
        let items = [r#"[{"n":"a","x":1}]"#, r#"[{"n":"b","y":2}]"#, r#"[{"n":"a","z":3}]"#];
        let items = items.map(|text| vec![text.to_owned()]);
        assert_eq!(combined(&items, &[])[0], r#"[{"n":"a","x":1,"z":3},{"n":"b","y":2}]"#);
        // What all items should have.
        let items = [r#"[{"n":"a"}]"#, r#"[{"for each":true,"x":1}]"#, r#"[{"n":"b","x":5}]"#];
        let items = items.map(|text| vec![text.to_owned()]);
        assert_eq!(combined(&items, &[])[0], r#"[{"n":"a","x":1},{"n":"b","x":5}]"#);
        assert_eq!(combined(&items[1..2], &[])[0], r#"[{"x":1}]"#);
        // Programs that are invalid, or that ask for something impossible, stop no proof.
        for program in
            [".a[", ".a[é", ".a[18446744073709551615]", ".[] | select(.n > 9223372036854775807)", ".a[\"b", "\""]
        {
            let argv = ["jq", program, "/tmp/x"].map(str::to_owned);
            assert!(inputs(&argv, &["1".to_owned()]).concat().len() < 1000, "{program}");
        }
        let argv = ["awk", "-v", "q=web", "$1 == q { print $3 }", "-"].map(str::to_owned);
        assert_eq!(inputs(&argv, &["7".to_owned()]), ["web a 7"]);
        let argv = ["awk", "{print $2}", "/tmp/x"].map(str::to_owned);
        assert_eq!(inputs(&argv, &["Bound".to_owned()]), ["a Bound more"]);
    }
}
