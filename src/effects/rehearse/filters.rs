//! The output of programs that only process text: `grep`, `wc`, `sort`, `jq`.

use serde_json::Value as Json;

use super::{Done, MOST, OPEN, Text, json};

/// Runs a filter on a text. Returns `None` if the program or one of its arguments is not supported here.
pub fn run(name: &str, args: &[&str], input: &str) -> Option<Done> {
    // Only a part of the text is known.
    if let Some(known) = input.strip_prefix(OPEN) {
        return of_open(name, args, known);
    }
    if input.contains(OPEN) || input.len() > MOST {
        return None;
    }
    let lines: Vec<&str> = input.lines().collect();
    let letters = |at: usize| args.get(at).and_then(|arg| arg.strip_prefix('-')).filter(|arg| !arg.starts_with('-'));
    let joined = |lines: Vec<&str>| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    match name {
        "cat" if args.is_empty() => Done::prints(input),
        "grep" | "egrep" | "fgrep" => grep(name, args, &lines),
        "wc" => {
            let count = match args {
                ["-l"] => input.matches('\n').count(),
                ["-w"] => input.split_whitespace().count(),
                ["-c"] => input.len(),
                ["-m"] => input.chars().count(),
                _ => return None,
            };
            Done::prints(&format!("{count}\n"))
        }
        // `tail -n +2` counts from the start.
        "head" | "tail" if args.iter().any(|arg| arg.contains('+')) => None,
        "head" | "tail" => {
            let count: usize = match args {
                [] => 10,
                ["-n", count] => count.parse().ok()?,
                [count] => count.trim_start_matches("-n").trim_start_matches('-').parse().ok()?,
                _ => return None,
            };
            let from = if name == "head" { 0 } else { lines.len().saturating_sub(count) };
            Done::prints(&joined(lines.into_iter().skip(from).take(count).collect()))
        }
        "sort" => {
            let options: String = args.iter().map(|arg| arg.strip_prefix('-')).collect::<Option<Vec<_>>>()?.concat();
            if !options.chars().all(|c| matches!(c, 'u' | 'r' | 'n')) {
                return None;
            }
            let mut lines = lines;
            if options.contains('n') {
                let numbers: Option<Vec<i64>> = lines.iter().map(|line| line.trim().parse().ok()).collect();
                numbers?;
                lines.sort_by_key(|line| line.trim().parse::<i64>().unwrap_or_default());
            } else {
                // The order of other characters depends on the locale.
                let plain = |line: &&str| line.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
                lines.iter().all(plain).then_some(())?;
                lines.sort_unstable();
            }
            if options.contains('u') {
                lines.dedup();
            }
            if options.contains('r') {
                lines.reverse();
            }
            Done::prints(&joined(lines))
        }
        "uniq" if args.is_empty() => {
            let mut lines = lines;
            lines.dedup();
            Done::prints(&joined(lines))
        }
        "tr" => {
            let set = |set: &str| -> Option<Vec<char>> {
                Some(match set {
                    "[:space:]" => vec![' ', '\n', '\t', '\r'],
                    "\\n" => vec!['\n'],
                    "\\r" => vec!['\r'],
                    "[:upper:]" | "A-Z" => ('A'..='Z').collect(),
                    "[:lower:]" | "a-z" => ('a'..='z').collect(),
                    _ if set.contains(['-', '[', '\\']) => return None,
                    _ => set.chars().collect(),
                })
            };
            match args {
                ["-d", gone] => {
                    let gone = set(gone)?;
                    Done::prints(&input.replace(gone.as_slice(), ""))
                }
                [from, to] if !from.starts_with('-') => {
                    let (from, to) = (set(from)?, set(to)?);
                    let last = *to.last()?;
                    let other = |c: char| {
                        from.iter().position(|known| *known == c).map_or(c, |at| to.get(at).copied().unwrap_or(last))
                    };
                    Done::prints(&input.chars().map(other).collect::<String>())
                }
                _ => None,
            }
        }
        "cut" => {
            let (mut between, mut field) = ('\t', None);
            let mut rest = args.iter();
            while let Some(arg) = rest.next() {
                match *arg {
                    "-d" => between = rest.next()?.chars().next()?,
                    "-f" => field = rest.next()?.parse::<usize>().ok(),
                    _ if arg.starts_with("-d") => between = arg.chars().nth(2)?,
                    _ if arg.starts_with("-f") => field = arg[2..].parse().ok(),
                    _ => return None,
                }
            }
            let at = field?.checked_sub(1)?;
            let of = |line: &&str| {
                let mut parts = line.split(between);
                if line.contains(between) { parts.nth(at).unwrap_or_default().to_owned() } else { (*line).to_owned() }
            };
            Done::prints(&lines.iter().map(|line| of(line) + "\n").collect::<String>())
        }
        "xargs" if args.is_empty() => {
            (!input.contains(['\'', '"', '\\'])).then_some(())?;
            Done::prints(&(input.split_whitespace().collect::<Vec<_>>().join(" ") + "\n"))
        }
        "jq" => jq(args, input, false),
        "sed" => {
            let [script] = args else { return None };
            let rest = script.strip_prefix('s')?;
            let sign = rest.chars().next()?;
            let parts: Vec<&str> = rest[sign.len_utf8()..].split(sign).collect();
            let [from, to, flags] = parts.as_slice() else { return None };
            if to.contains(['\\', '&']) || !matches!(*flags, "" | "g") {
                return None;
            }
            let pattern = regex::Regex::new(&basic(from)?).ok()?;
            let to = to.replace('$', "$$");
            let of = |line: &&str| match *flags {
                "g" => pattern.replace_all(line, to.as_str()).into_owned(),
                _ => pattern.replace(line, to.as_str()).into_owned(),
            };
            Done::prints(&lines.iter().map(|line| of(line) + "\n").collect::<String>())
        }
        "awk" => {
            let [script] = args else { return None };
            let at: usize = script.strip_prefix("{print $")?.strip_suffix('}')?.trim().parse().ok()?;
            let of = |line: &&str| line.split_whitespace().nth(at.wrapping_sub(1)).unwrap_or_default().to_owned();
            (at > 0).then(|| Done::prints(&lines.iter().map(|line| of(line) + "\n").collect::<String>()))?
        }
        "base64" if letters(0).is_some_and(|l| l == "d") || args == ["--decode"] => {
            Done::prints(&unwrapped(input.trim())?)
        }
        _ => None,
    }
}

/// Decodes base64, as encoded by [`wrapped`].
fn unwrapped(text: &str) -> Option<String> {
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for c in text.trim_end_matches('=').bytes() {
        let at = ALPHABET.iter().position(|known| *known == c)?;
        bits = bits << 6 | u32::try_from(at).ok()?;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 0xff).ok()?);
            bits &= (1 << count) - 1;
        }
    }
    String::from_utf8(bytes).ok()
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Encodes a text in base64.
pub fn wrapped(text: &str) -> String {
    let mut out = String::new();
    for three in text.as_bytes().chunks(3) {
        let at = |n: usize| u32::from(three.get(n).copied().unwrap_or_default());
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for n in 0..4 {
            let letter = ALPHABET[(bits >> (18 - 6 * n) & 63) as usize];
            out.push(if n <= three.len() { char::from(letter) } else { '=' });
        }
    }
    out
}

fn of_open(name: &str, args: &[&str], known: &str) -> Option<Done> {
    match name {
        "jq" => jq(args, known, true),
        "cat" if args.is_empty() => Some(Done { status: Some(true), out: Some(format!("{OPEN}{known}")) }),
        // A match is certain; a missing match may be in the unknown part.
        "grep" | "egrep" | "fgrep" => {
            let counts = args
                .iter()
                .any(|arg| arg.starts_with('-') && !arg.starts_with("--") && arg.contains(['v', 'c', 'x', 'o', 'w']));
            let done = grep(name, args, &known.lines().collect::<Vec<_>>()).filter(|_| !counts)?;
            (done.status == Some(true)).then_some(Done { status: Some(true), out: None })
        }
        _ => None,
    }
}

fn grep(name: &str, args: &[&str], lines: &[&str]) -> Option<Done> {
    let (mut options, mut patterns, mut words) = (String::new(), Vec::new(), Vec::new());
    let mut rest = args.iter();
    let mut ended = false;
    while let Some(arg) = rest.next() {
        match *arg {
            "--" => ended = true,
            "-e" if !ended => patterns.push(*rest.next()?),
            "--quiet" | "--silent" if !ended => options.push('q'),
            _ if arg.starts_with("--") && !ended => return None,
            _ if arg.starts_with('-') && arg.len() > 1 && !ended => options.push_str(&arg[1..]),
            _ => words.push(*arg),
        }
    }
    if patterns.is_empty() {
        patterns.push(words.first()?);
        words.remove(0);
    }
    if !words.is_empty() || !options.chars().all(|c| "qivcxwEFsoh".contains(c)) || options.contains('o') {
        return None;
    }
    let has = |c: char| options.contains(c);
    let pattern_of = |pattern: &str| -> Option<String> {
        Some(match (has('F') || name == "fgrep", has('E') || name == "egrep") {
            (true, _) => regex::escape(pattern),
            (_, true) => wide(pattern)?,
            _ => basic(pattern)?,
        })
    };
    let all: Option<Vec<String>> = patterns.iter().map(|pattern| pattern_of(pattern)).collect();
    let all = all?.join("|");
    let (head, tail) = match (has('x'), has('w')) {
        (true, _) => ("^(?:", ")$"),
        (_, true) => (r"(?:^|\W)(?:", r")(?:\W|$)"),
        _ => ("(?:", ")"),
    };
    let letters = if has('i') { "(?i)" } else { "" };
    let regex = regex::Regex::new(&format!("{letters}{head}{all}{tail}")).ok()?;
    let found: Vec<&&str> = lines.iter().filter(|line| regex.is_match(line) != has('v')).collect();
    let out = match (has('q'), has('c')) {
        (true, _) => String::new(),
        (_, true) => format!("{}\n", found.len()),
        _ => found.iter().map(|line| format!("{line}\n")).collect(),
    };
    Some(Done { status: Some(!found.is_empty()), out: Some(out) })
}

/// An extended regular expression. Returns `None` if it contains escapes such as `\\d`, which programs and the library
/// read differently.
fn wide(pattern: &str) -> Option<String> {
    let mut chars = pattern.chars();
    let mut inside = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' if inside => return None,
            '\\' => {
                let escaped = chars.next()?;
                (!escaped.is_ascii_alphanumeric() && !matches!(escaped, '<' | '>' | '`' | '\'')
                    || "bBwWsS".contains(escaped))
                .then_some(())?;
            }
            '[' => inside = true,
            ']' => inside = false,
            _ => {}
        }
    }
    Some(pattern.to_owned())
}

/// Converts a basic regular expression to an extended one. Returns `None` if it uses features that only the basic form
/// has.
fn basic(pattern: &str) -> Option<String> {
    let mut out = String::new();
    let mut chars = pattern.chars().peekable();
    let mut inside = false;
    while let Some(c) = chars.next() {
        match c {
            '[' if !inside => {
                inside = true;
                out.push(c);
            }
            ']' => {
                inside = false;
                out.push(c);
            }
            // Inside brackets, it is a literal character.
            '\\' if inside => return None,
            _ if inside => out.push(c),
            '\\' => match chars.next()? {
                c @ ('(' | ')' | '|' | '{' | '}' | '+' | '?') => out.push(c),
                c @ ('.' | '*' | '[' | ']' | '^' | '$' | '/' | '-' | '"' | '\\') => {
                    out.push('\\');
                    out.push(c);
                }
                c @ ('b' | 'w' | 's') => {
                    out.push('\\');
                    out.push(c);
                }
                _ => return None,
            },
            '(' | ')' | '|' | '{' | '}' | '+' | '?' => {
                out.push('\\');
                out.push(c);
            }
            _ => out.push(c),
        }
    }
    Some(out)
}

fn jq(args: &[&str], input: &str, open: bool) -> Option<Done> {
    let (mut raw, mut exit, mut compact) = (false, false, false);
    let (mut filter, mut given) = (None, Vec::new());
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        match *arg {
            "--arg" => given.push(((*rest.next()?).to_owned(), Json::String((*rest.next()?).to_owned()))),
            "--argjson" => given.push(((*rest.next()?).to_owned(), serde_json::from_str(rest.next()?).ok()?)),
            "--raw-output" => raw = true,
            "--exit-status" => exit = true,
            "--compact-output" => compact = true,
            _ if arg.starts_with('-') && !arg.starts_with("--") => {
                if !arg[1..].chars().all(|c| "rec".contains(c)) {
                    return None;
                }
                raw |= arg.contains('r');
                exit |= arg.contains('e');
                compact |= arg.contains('c');
            }
            _ if arg.starts_with('-') || filter.is_some() => return None,
            _ => filter = Some(*arg),
        }
    }
    let value: Json = serde_json::from_str(input).ok()?;
    let found = json::by_filter(filter?, &value, open, &given)?;
    let shown = |value: &Json| -> Text {
        Some(match value {
            Json::String(text) if raw => text.clone(),
            Json::Array(items) if items.is_empty() => "[]".to_owned(),
            Json::Array(_) | Json::Object(_) if open && matches!(value, Json::Object(_)) => return None,
            Json::Array(_) | Json::Object(_) if compact => value.to_string(),
            Json::Array(_) | Json::Object(_) => serde_json::to_string_pretty(value).ok()?,
            value => value.to_string(),
        })
    };
    let texts: Option<Vec<String>> = found.iter().map(shown).collect();
    let last = found.last();
    let status = !exit || last.is_some_and(|value| !matches!(value, Json::Null | Json::Bool(false)));
    let out = texts.map(|texts| texts.iter().map(|text| format!("{text}\n")).collect());
    Some(Done { status: Some(status), out })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_print_what_they_find() {
        let ask = |name: &str, args: &[&str], input: &str| run(name, args, input).map(|done| (done.status, done.out));
        let said = |text: &str| Some((Some(true), Some(text.to_owned())));
        assert_eq!(ask("grep", &["-c", "a\\.b"], "a.b\naxb\n"), said("1\n"));
        assert_eq!(ask("grep", &["-qE", "^(x|a)"], "a\n"), said(""));
        assert_eq!(ask("grep", &["-vw", "a"], "a b\nab\n"), said("ab\n"));
        assert_eq!(ask("wc", &["-l"], "a\nb\n"), said("2\n"));
        assert_eq!(ask("tr", &["-d", "[:space:]"], " 2\n"), said("2"));
        assert_eq!(ask("cut", &["-d:", "-f2"], "a:b\nc\n"), said("b\nc\n"));
        assert_eq!(ask("sed", &["s/a/$b/g"], "aa\n"), said("$b$b\n"));
        assert_eq!(ask("tail", &["-n", "1"], "a\nb\n"), said("b\n"));
        assert_eq!(ask("jq", &["-e", ".a == 2"], "{\"a\": 2}"), said("true\n"));
        assert_eq!(ask("base64", &["-d"], &wrapped("hello")), said("hello"));
        let open = format!("{OPEN}name: web\n");
        assert_eq!(ask("grep", &["-q", "web"], &open), Some((Some(true), None)));
        for unknown in [("grep", "x"), ("wc", "-l"), ("sort", "-u")] {
            assert_eq!(ask(unknown.0, &[unknown.1], &open), None, "{unknown:?}");
        }
        assert_eq!(ask("grep", &["-P", "a"], "a\n"), None);
    }
}
