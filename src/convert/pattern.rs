//! Translates patterns of `grep` and of `[[ … ]]` to RE2 syntax, and numbers to patterns. If the result is not certain,
//! it is `None`.

/// What a text must contain or match so that `grep PATTERN` finds a line in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wanted {
    Contains(String),
    Matches(String),
}

/// How `grep` reads its pattern.
#[derive(Clone, Copy, Default, Debug)]
pub struct Grep {
    pub fixed: bool,
    pub extended: bool,
    pub ignore_case: bool,
    /// The pattern must match the whole line.
    pub line: bool,
    /// The pattern must match whole words.
    pub word: bool,
}

/// Translates a pattern of `grep`, which matches within lines.
pub fn grep(pattern: &str, how: Grep) -> Option<Wanted> {
    if pattern.is_empty() || pattern.contains('\n') {
        return None;
    }
    let (text, literal) = match how.fixed {
        true => (escaped(pattern), true),
        false => translate(pattern, how.extended, true)?,
    };
    if how.word {
        let inside = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
        (literal && !how.line && inside(pattern.chars().next()) && inside(pattern.chars().last())).then_some(())?;
        let flags = if how.ignore_case { "(?i)" } else { "" };
        return Some(Wanted::Matches(format!(r"{flags}\b{text}\b")));
    }
    if literal && !how.ignore_case && !how.line {
        let plain = if how.fixed { pattern.to_owned() } else { unescape(pattern) };
        return Some(Wanted::Contains(plain));
    }
    // `[^x]` is no anchor.
    let anchors = text.replace("[^", "").contains(['^', '$']);
    let flags = match (how.ignore_case, how.line || anchors) {
        (false, false) => "",
        (true, false) => "(?i)",
        (false, true) => "(?m)",
        (true, true) => "(?im)",
    };
    Some(Wanted::Matches(if how.line { format!("{flags}^(?:{text})$") } else { format!("{flags}{text}") }))
}

/// Translates the right side of `=~`, which matches within the whole text.
pub fn whole(pattern: &str) -> Option<String> {
    let (text, _) = translate(pattern, true, false)?;
    Some(format!("(?s){text}"))
}

/// A text as a pattern that matches only this text. Outside of a class, `-` needs no backslash.
pub fn escaped(text: &str) -> String {
    regex::escape(text).replace(r"\-", "-")
}

fn unescape(pattern: &str) -> String {
    let mut out = String::new();
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        out.push(if c == '\\' { chars.next().unwrap_or(c) } else { c });
    }
    out
}

/// Translates to RE2 syntax, and returns whether the pattern is a plain text. `lines`: it matches within lines.
fn translate(pattern: &str, extended: bool, lines: bool) -> Option<(String, bool)> {
    let mut out = String::new();
    let mut literal = true;
    let mut chars = pattern.chars().peekable();
    let mut first = true;
    // A quantifier behind another one makes it lazy, and not optional.
    let mut quantified = false;
    while let Some(c) = chars.next() {
        let next = if c == '\\' && !extended { chars.peek().copied() } else { None };
        let quantifies = match next.unwrap_or(c) {
            '*' => next.is_none(),
            '+' | '?' | '{' => extended != next.is_some(),
            _ => false,
        };
        if quantifies && std::mem::replace(&mut quantified, true) {
            return None;
        }
        quantified = quantifies;
        match c {
            '\\' => match chars.next()? {
                c @ ('.' | '*' | '[' | ']' | '^' | '$' | '\\' | '/' | '-' | ' ' | ':' | '@') => {
                    out.push_str(&escaped(&c.to_string()))
                }
                c @ ('|' | '+' | '?' | '(' | ')' | '{' | '}') if extended => {
                    out.push_str(&escaped(&c.to_string()));
                }
                // In basic patterns these are special with a backslash, and literal without one.
                c @ ('|' | '+' | '?' | '(' | ')') => {
                    literal = false;
                    out.push(c);
                }
                _ => return None,
            },
            '.' => {
                literal = false;
                out.push('.');
            }
            '*' if !first => {
                literal = false;
                out.push('*');
            }
            '*' => return None,
            '^' if first => {
                literal = false;
                out.push('^');
            }
            '$' if chars.peek().is_none() => {
                literal = false;
                out.push('$');
            }
            '^' | '$' => return None,
            '[' => {
                literal = false;
                out.push('[');
                if chars.next_if_eq(&'^').is_some() {
                    // Here, a bracket that closes is a member of the class.
                    (chars.peek() != Some(&']')).then_some(())?;
                    out.push_str(if lines { "^\\n" } else { "^" });
                }
                loop {
                    match chars.next()? {
                        '[' if matches!(chars.peek(), Some(':')) => {
                            let mut name = String::from("[");
                            loop {
                                let c = chars.next()?;
                                name.push(c);
                                if c == ']' {
                                    break;
                                }
                            }
                            if name.contains("space") || name.contains("cntrl") {
                                return None;
                            }
                            out.push_str(&name);
                        }
                        ']' => break,
                        '\\' | '[' | '&' | '~' => return None,
                        // A range that begins or ends with `-`, but the difference of two classes in a step.
                        '-' if chars.peek() == Some(&'-') => return None,
                        c => out.push(c),
                    }
                }
                out.push(']');
            }
            '+' | '?' | '|' | '(' | ')' if extended => {
                if first && c != '(' || c == '(' && chars.peek() == Some(&'?') {
                    return None;
                }
                literal = false;
                out.push(c);
            }
            // `{2}`, `{2,}`, `{2,4}`
            '{' if extended && !first => {
                let mut count = String::new();
                loop {
                    match chars.next()? {
                        '}' => break,
                        c => count.push(c),
                    }
                }
                let number = |text: &str| text.parse::<u8>().is_ok() && text.bytes().all(|b| b.is_ascii_digit());
                let (least, most) = count.split_once(',').unwrap_or((&count, ""));
                (number(least) && (most.is_empty() || number(most))).then_some(())?;
                literal = false;
                out.push_str(&format!("{{{count}}}"));
            }
            '{' | '}' if extended => return None,
            c => out.push_str(&escaped(&c.to_string())),
        }
        first = matches!(c, '|' | '(') && extended;
    }
    regex::Regex::new(&out).ok()?;
    Some((out, literal))
}

/// How a number may be written, besides as a decimal without a sign.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Numeral {
    /// With blanks around it.
    pub padded: bool,
    /// With leading zeros, or negative.
    pub odd: bool,
    /// With leading zeros, and octal then.
    pub octal: bool,
}

/// Returns a pattern for the whole numbers that compare with a limit as `operator` says.
pub fn number(operator: &str, limit: u64, how: Numeral) -> Option<String> {
    let (number, negative) = match operator {
        "-eq" => (limit.to_string(), false),
        "-ge" => (at_least(limit), false),
        "-gt" => (at_least(limit.checked_add(1)?), false),
        "-le" => (at_most(limit), true),
        "-lt" => (at_most(limit.checked_sub(1)?), true),
        "-ne" if limit == 0 => (at_least(1), true),
        _ => return None,
    };
    let number = match (operator, limit) {
        // Up to this limit, octal and decimal digits are the same numbers.
        ("-eq" | "-ge", ..8) | ("-gt", ..7) if how.octal => {
            format!("({}|0+{})", number.trim_matches(['(', ')']), octal(operator, limit))
        }
        _ if how.octal => return None,
        _ if how.odd && negative => format!("(-0*[1-9][0-9]*|0*{number})"),
        _ if how.odd => format!("0*{number}"),
        _ => number,
    };
    // Before a number, the shell skips any white space, but after it only blanks.
    let (before, after) = if how.padded { (r"[ \t\n\v\f\r]*", r"[ \t]*") } else { ("", "") };
    Some(format!("^{before}{number}{after}$"))
}

/// Octal digits, at least one of which is not 0.
fn octal(operator: &str, limit: u64) -> String {
    let least = if operator == "-gt" { limit + 1 } else { limit };
    match (operator, least) {
        ("-eq", n) => n.to_string(),
        (_, 1) => "[1-7][0-7]*".to_owned(),
        (_, 8) => "[1-7][0-7]+".to_owned(),
        (_, n) => format!("({}|[1-7][0-7]+)", class(n as u32, 7)),
    }
}

fn at_least(n: u64) -> String {
    let text = n.to_string();
    if n == 0 {
        return format!("(0|[1-9]{})", many(0, DIGITS - 1));
    }
    let (head, zeros) = text.split_at(1);
    if head == "1" && zeros.bytes().all(|b| b == b'0') {
        return format!("[1-9]{}", many(zeros.len(), DIGITS - 1));
    }
    let digits: Vec<u32> = text.bytes().map(|b| u32::from(b - b'0')).collect();
    let mut choices = Vec::new();
    let prefix = |at: usize| -> String { digits[..at].iter().map(u32::to_string).collect() };
    for at in 0..digits.len() {
        let rest = digits.len() - at - 1;
        let from = digits[at] + u32::from(rest > 0);
        if from <= 9 {
            choices.push(format!("{}{}{}", prefix(at), class(from, 9), any(rest)));
        }
    }
    if digits.len() < DIGITS {
        choices.push(format!("[1-9]{}", many(digits.len(), DIGITS - 1)));
    }
    format!("({})", choices.join("|"))
}

fn at_most(n: u64) -> String {
    let digits: Vec<u32> = n.to_string().bytes().map(|b| u32::from(b - b'0')).collect();
    let mut choices = Vec::new();
    for len in 1..digits.len() {
        choices.push(if len == 1 { "[0-9]".to_owned() } else { format!("[1-9]{}", any(len - 1)) });
    }
    let prefix = |at: usize| -> String { digits[..at].iter().map(u32::to_string).collect() };
    for at in 0..digits.len() {
        let rest = digits.len() - at - 1;
        let lowest = u32::from(at == 0 && digits.len() > 1);
        let Some(to) = (if rest > 0 { digits[at].checked_sub(1) } else { Some(digits[at]) }) else { continue };
        if lowest <= to {
            choices.push(format!("{}{}{}", prefix(at), class(lowest, to), any(rest)));
        }
    }
    match choices.as_slice() {
        [one] => one.clone(),
        _ => format!("({})", choices.join("|")),
    }
}

/// How many digits a number may have: a shell reads numbers of 64 bits, and does not accept larger ones.
const DIGITS: usize = 18;

/// A pattern for `n` to `most` digits.
fn many(n: usize, most: usize) -> String {
    format!("[0-9]{{{n},{most}}}")
}

fn class(from: u32, to: u32) -> String {
    if from == to { from.to_string() } else { format!("[{from}-{to}]") }
}

fn any(n: usize) -> String {
    match n {
        0 => String::new(),
        1 => "[0-9]".to_owned(),
        n => format!("[0-9]{{{n}}}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_for_number_comparisons_match_the_same_numbers() {
        for limit in [0u64, 1, 3, 9, 10, 19, 42, 99, 100, 250] {
            for (operator, holds) in [
                ("-eq", (|a, b| a == b) as fn(u64, u64) -> bool),
                ("-ge", |a, b| a >= b),
                ("-gt", |a, b| a > b),
                ("-le", |a, b| a <= b),
                ("-lt", |a, b| a < b),
            ] {
                let compiled = |how| Some(regex::Regex::new(&number(operator, limit, how)?).unwrap());
                let Some(pattern) = compiled(Numeral::default()) else { continue };
                for n in 0..1200 {
                    assert_eq!(pattern.is_match(&n.to_string()), holds(n, limit), "{n} {operator} {limit}: {pattern}");
                }
                let odd = compiled(Numeral { odd: true, ..Numeral::default() }).unwrap();
                for n in 0..1200 {
                    assert_eq!(odd.is_match(&format!("00{n}")), holds(n, limit), "00{n} {operator} {limit}: {odd}");
                }
                assert_eq!(odd.is_match("-7"), matches!(operator, "-le" | "-lt"), "{operator} {limit}: {odd}");
                assert!(["", "-", "x1", "1 2"].iter().all(|text| !odd.is_match(text)), "{odd}");
                let padded = compiled(Numeral { padded: true, ..Numeral::default() }).unwrap();
                assert_eq!(padded.is_match("   42 "), holds(42, limit));
                let Some(octal) = compiled(Numeral { octal: true, ..Numeral::default() }).filter(|_| limit > 0) else {
                    continue;
                };
                for n in 1..1200 {
                    assert_eq!(octal.is_match(&n.to_string()), holds(n, limit), "{n} {operator} {limit}: {octal}");
                    assert_eq!(
                        octal.is_match(&format!("0{n:o}")),
                        holds(n, limit),
                        "0{n:o} {operator} {limit}: {octal}"
                    );
                }
            }
        }
    }

    #[test]
    fn patterns_are_interpreted_as_by_grep() {
        let plain = Grep::default();
        assert_eq!(grep("Running", plain), Some(Wanted::Contains("Running".to_owned())));
        assert_eq!(grep(r"10\.0", plain), Some(Wanted::Contains("10.0".to_owned())));
        assert_eq!(grep("^web", plain), Some(Wanted::Matches("(?m)^web".to_owned())));
        assert_eq!(grep("a|b", plain), Some(Wanted::Contains("a|b".to_owned())));
        let extended = Grep { extended: true, ..plain };
        assert_eq!(grep("a|b", extended), Some(Wanted::Matches("a|b".to_owned())));
        let matches = |text: &str| Some(Wanted::Matches(text.to_owned()));
        assert_eq!(grep("^[0-9a-f]{7,40}$", extended), matches("(?m)^[0-9a-f]{7,40}$"));
        assert_eq!(grep("[^/ ]+", extended), matches(r"[^\n/ ]+"));
        assert_eq!(whole("^[^/]+/[^/]{2}$"), Some("(?s)^[^/]+/[^/]{2}$".to_owned()));
        for strange in ["a.+?;", "a{2,}?", "a*+", "a?*", "[^]a]", r"\w", r"\<a", "{2}", "a{,2}", "a{x}", "a{2", "*a"] {
            assert_eq!(grep(strange, extended), None, "{strange}");
        }
    }
}
