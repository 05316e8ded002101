//! Programs inside scripts, in other languages: jq filters, patterns, awk, Python. They are read as
//! text, as far as a rule requires.

use crate::{
    ascii::{Ascii, ascii},
    bash::{
        ast,
        program::{Kind, Repeat, Statement},
        tools,
    },
    effects::{Followed, script::Reader, value::Value},
    hir::PhaseKind,
    lint::{TaskView, analysis::python, script::Content},
    source::Span,
};

/// Location, message, and help.
pub type Fault = (Span, String, &'static str);

/// Reports invalid patterns, and numbers that are searched for as digits.
pub fn patterns(content: &Content, found: &mut Vec<Fault>) {
    content.program.walk(&mut |s| {
        let words = s.words();
        match s.tool() {
            "jq" | "yq" => {
                let Some(filter) = tools::operands("jq", &words[1..]).next() else { return };
                if let Some(pattern) = in_filter(&filter.text).into_iter().find(|pattern| unclosed(pattern).is_some()) {
                    found.push(no_pattern(content.span(filter.range.clone()), &pattern));
                }
            }
            "grep" | "egrep" => {
                let extended = s.name() == "egrep"
                    || words.iter().skip(1).any(|word| {
                        let letters = word.text.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
                        word.text == "--extended-regexp" || letters.is_some_and(|rest| rest.contains(['E', 'P']))
                    });
                let pattern = tools::searched(&words[1..]);
                if let Some(pattern) = pattern.filter(|word| extended && word.literal && unclosed(&word.text).is_some())
                {
                    found.push(no_pattern(content.span(pattern.range.clone()), &pattern.text));
                }
            }
            "awk" | "gawk" | "mawk" => awk(content, s, found),
            _ => {}
        }
    });
}

/// `for svc in shop docs; do kubectl get service shop …; done`: the body contains one value of
/// the loop instead of its variable.
pub fn rounds(content: &Content) -> Vec<Fault> {
    let mut found = Vec::new();
    content.program.walk(&mut |whole| {
        let Kind::Loop { repeat: Repeat::For, body, .. } = &whole.kind else { return };
        let text = content.text.get(whole.range.clone()).unwrap_or_default();
        let head = text.split([';', '\n']).next().unwrap_or_default();
        let mut words = head.split_whitespace().skip(1);
        let (Some(name), Some("in")) = (words.next(), words.next()) else { return };
        let values: Vec<&str> = words.filter(|word| word.len() > 2 && crate::bash::is_safe(word)).collect();
        let uses = |range: &std::ops::Range<usize>| {
            let text = content.text.get(range.clone()).unwrap_or_default();
            text.contains(&format!("${name}")) || text.contains(&format!("${{{name}"))
        };
        let chosen = [
            format!("case ${name}"),
            format!("case \"${name}"),
            format!("case \"${{{name}"),
            format!("case ${{{name}"),
        ];
        if values.len() < 2 || chosen.iter().any(|case| text.contains(case)) {
            return;
        }
        body.iter().for_each(|s| {
            s.walk(&mut |s| {
                if !matches!(
                    s.tool(),
                    "kubectl"
                        | "docker"
                        | "helm"
                        | "curl"
                        | "psql"
                        | "mysql"
                        | "sqlite3"
                        | "redis-cli"
                        | "gcloud"
                        | "aws"
                        | "az"
                        | "gh"
                ) || uses(&s.range)
                {
                    return;
                }
                let operands = s.words().iter().skip(1).filter(|word| word.literal);
                let word = operands
                    .flat_map(|word| word.text.split(['/', ' ', '\'', '"', '=', ',']))
                    .find(|word| values.contains(word));
                if let Some(word) = word {
                    found.push((
                        content.span(first_line(content, s)),
                        format!("every iteration uses `{word}`"),
                        "use the loop variable instead",
                    ));
                }
            });
        });
    });
    found
}

/// `and` next to `or` without parentheses.
pub fn mixtures(content: &Content) -> Vec<Fault> {
    let mut found = Vec::new();
    content.program.walk(&mut |s| {
        let words = s.words();
        match s.tool() {
            "jq" | "yq" => {
                let filter = tools::operands("jq", &words[1..]).next();
                if let Some(filter) = filter.filter(|filter| mixed(&filter.text, " and ", " or ", &['|', ',', ';'])) {
                    found.push(mixes(content.span(filter.range.clone()), "or", "and"));
                }
            }
            "psql" | "mysql" | "sqlite3" => {
                for word in words.iter().skip(1) {
                    let Some(at) = find_word(&word.text, "where") else { continue };
                    let condition = word.text[at..].to_lowercase().replace('\n', " ");
                    // `BETWEEN a AND b` is one condition.
                    if !condition.contains(" between ") && mixed(&condition, " and ", " or ", &[';']) {
                        found.push(mixes(content.span(word.range.clone()), "OR", "AND"));
                    }
                }
            }
            _ => {}
        }
        if matches!(s.kind, Kind::Test) {
            let text = content.text.get(s.range.clone()).unwrap_or_default();
            if text.starts_with("[[") && mixed(&text[2..], " && ", " || ", &[]) {
                found.push(mixes(content.span(s.range.clone()), "||", "&&"));
            }
        }
    });
    found
}

fn mixes(span: Span, or: &str, and: &str) -> Fault {
    (
        span,
        format!("`{and}` binds more tightly than `{or}`: either side of `{or}` is sufficient"),
        "add parentheses to group the conditions",
    )
}

fn no_pattern(span: Span, pattern: &str) -> Fault {
    (
        span,
        format!("`{pattern}` is not a valid pattern: a bracket is not closed"),
        "escape a literal bracket with a backslash",
    )
}

fn find_word(text: &str, word: &str) -> Option<usize> {
    let lower = text.to_ascii_lowercase();
    lower.match_indices(word).map(|(at, _)| at).find(|&at| {
        let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        !lower[..at].ends_with(part) && !lower[at + word.len()..].starts_with(part)
    })
}

/// Whether two operators are mixed without parentheses. A separator starts a new condition.
fn mixed(text: &str, and: &str, or: &str, separators: &[char]) -> bool {
    let bytes = text.as_bytes();
    let mut open: Vec<(bool, bool)> = vec![(false, false)];
    let mut quote: Option<u8> = None;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match (quote, byte) {
            (Some(_), b'\\') => at += 1,
            (Some(end), _) if byte == end => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b'(' | b'[' | b'{') => open.push((false, false)),
            (None, b')' | b']' | b'}') => {
                open.pop();
                if open.is_empty() {
                    open.push((false, false));
                }
            }
            (None, _) => {
                let Some(frame) = open.last_mut() else { return false };
                let rest = &bytes[at..];
                if separators.iter().any(|separator| *separator as u32 == u32::from(byte)) {
                    *frame = (false, false);
                } else if rest.starts_with(and.as_bytes()) {
                    frame.0 = true;
                } else if rest.starts_with(or.as_bytes()) {
                    frame.1 = true;
                }
                if *frame == (true, true) {
                    return true;
                }
            }
        }
        at += 1;
    }
    false
}

/// Returns the patterns in a jq filter.
fn in_filter(filter: &str) -> Vec<String> {
    let mut found = Vec::new();
    for function in ["test(\"", "match(\"", "capture(\"", "scan(\"", "sub(\""] {
        for (at, _) in filter.match_indices(function) {
            let (mut pattern, mut rest) = (String::new(), filter[at + function.len()..].chars());
            while let Some(c) = rest.next().filter(|c| *c != '"') {
                match c {
                    // An interpolation in a string, or an escaped character.
                    '\\' => match rest.next() {
                        Some('(') | None => {
                            pattern.clear();
                            break;
                        }
                        Some(c) => pattern.push(c),
                    },
                    c => pattern.push(c),
                }
            }
            found.push(pattern);
        }
    }
    found
}

/// Returns a bracket that is not closed.
fn unclosed(pattern: &str) -> Option<char> {
    let (mut depth, mut at) = (0_usize, 0);
    let bytes = pattern.as_bytes();
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 1,
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            b'[' => {
                // A `]` directly after the opening bracket is literal; `[:space:]` is a class.
                let mut end = at + 1;
                end += usize::from(bytes.get(end) == Some(&b'^'));
                end += usize::from(bytes.get(end) == Some(&b']'));
                loop {
                    match bytes.get(end) {
                        None => return Some('['),
                        Some(b']') => break,
                        Some(b'[') if bytes.get(end + 1) == Some(&b':') => {
                            end += pattern[end..].find(":]").map_or(1, |length| length + 1);
                        }
                        Some(b'\\') => end += 1,
                        Some(_) => {}
                    }
                    end += 1;
                }
                at = end;
            }
            _ => {}
        }
        at += 1;
    }
    (depth > 0).then_some('(')
}

/// `$0 ~ min`, where `min` is a number: its digits may occur anywhere in the line.
fn awk(content: &Content, s: &Statement, found: &mut Vec<Fault>) {
    let words = s.words();
    let given = words.windows(2).filter(|pair| pair[0].text == "-v").map(|pair| pair[1].text.as_str());
    let glued = words.iter().filter_map(|word| word.text.strip_prefix("-v")).filter(|rest| rest.contains('='));
    let names: Vec<&str> = given.chain(glued).filter_map(|pair| pair.split_once('=')).map(|(name, _)| name).collect();
    for word in words.iter().skip(1) {
        for (at, _) in word.text.match_indices('~') {
            let operand = word.text[at + 1..].trim_start();
            let end = operand.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(operand.len());
            let name = &operand[..end];
            let is_number = |name: &str| {
                let value = names.contains(&name).then(|| number_of(content, words, name))?;
                value.filter(|value| value.parse::<f64>().is_ok())
            };
            if let Some(value) = is_number(name) {
                found.push((
                    content.span(word.range.clone()),
                    format!("`~ {name}` matches the digits `{value}` anywhere, including inside other numbers"),
                    "compare the field as a number: `$4 >= min`, `$4 == min`",
                ));
                return;
            }
        }
    }
}

/// Returns the value that `-v NAME=…` passes to awk, through at most one shell variable.
fn number_of(content: &Content, words: &[crate::bash::Word], name: &str) -> Option<String> {
    let value =
        words.iter().find_map(|word| word.text.trim_start_matches("-v").strip_prefix(name)?.strip_prefix('='))?;
    let value = value.trim_matches(['"', '\'']);
    let Some(variable) = value.strip_prefix('$') else { return Some(value.to_owned()) };
    let variable = variable.trim_matches(['{', '}']);
    let mut assigned = None;
    content.program.walk(&mut |s| {
        if matches!(s.kind, Kind::Assignment | Kind::Declaration) {
            let text = content.text.get(s.range.clone()).unwrap_or_default();
            for word in ast::split(text, 0) {
                if let Some(value) = word.source.strip_prefix(variable).and_then(|rest| rest.strip_prefix('=')) {
                    assigned = Some(value.trim_matches(['"', '\'']).to_owned());
                }
            }
        }
    });
    assigned
}

/// Returns the locations of programs of verify that compare something and print what is wrong,
/// but always exit with status 0.
pub fn never_failing(view: &TaskView<'_>) -> Vec<Span> {
    let mut found = Vec::new();
    for followed in view.effects.scripts.iter().filter(|followed| followed.view.phase == PhaseKind::Verify) {
        if followed.view.decides_by_status() {
            let body = &followed.view.content.program.body;
            deciding(body, &mut |s| {
                let script = followed.view.content.text.get(s.range.clone()).unwrap_or_default();
                // Output in the middle of a script may be for its reader.
                let ends = body.last().is_some_and(|last| last.range.start <= s.range.start);
                if program(followed, s).is_some_and(|text| is_silent(&text, ends)) || is_silent_script(s, script) {
                    found.push(followed.view.content.span(first_line(&followed.view.content, s)));
                }
            });
        }
    }
    for script in view.scripts.iter().filter(|s| s.phase == PhaseKind::Verify && s.reader == Reader::Foreign) {
        let text = &script.content.text;
        let line = text.lines().next().unwrap_or_default();
        if line.starts_with("#!")
            && line.contains("python")
            && script.step.expect.is_none()
            && script.step.arg("protocol").is_none()
            && is_silent(text, true)
        {
            found.push(script.content.span(0..line.len()));
        }
    }
    found
}

pub fn first_line(content: &Content, s: &Statement) -> std::ops::Range<usize> {
    let text = content.text.get(s.range.clone()).unwrap_or_default();
    s.range.start..s.range.start + text.find('\n').unwrap_or(text.len())
}

/// Visits statements whose exit status is used and whose output is not.
fn deciding<'s>(list: &'s [Statement], visit: &mut dyn FnMut(&'s Statement)) {
    for s in list {
        match &s.kind {
            Kind::Command(_) if !s.written => visit(s),
            Kind::Pipeline(parts) => deciding(parts.last().map(std::slice::from_ref).unwrap_or_default(), visit),
            Kind::Command(_) => {}
            Kind::If { branches, otherwise } => {
                for branch in branches {
                    deciding(&branch.condition, visit);
                    deciding(&branch.body, visit);
                }
                deciding(otherwise.as_deref().unwrap_or_default(), visit);
            }
            Kind::And(pair) | Kind::Or(pair) => deciding(pair.as_slice(), visit),
            Kind::Not(inner) => deciding(std::slice::from_ref(inner), visit),
            Kind::Group(list) | Kind::Subshell(list) => deciding(list, visit),
            _ => {}
        }
    }
}

/// Returns the text of the program that a command passes to Python.
pub fn program(followed: &Followed<'_>, s: &Statement) -> Option<String> {
    if !matches!(s.name(), "python" | "python3") {
        return None;
    }
    let run = followed.trace.runs.iter().find(|run| std::ptr::eq(run.statement, s))?;
    let inline = run.words.windows(2).find(|pair| pair[0].literal() == Some("-c")).map(|pair| pair[1].shown());
    // The content of a program file is not known here. After `-`, there are arguments.
    let operand = run.words.get(1).map(Value::shown);
    let reads = operand.as_deref().is_none_or(|word| word == "-" || word.starts_with('-') && word != "-m");
    inline.or_else(|| run.input.as_ref().filter(|_| reads).map(Value::shown))
}

/// Whether a Python program compares something, but nothing in it can make it fail. `verdicts`: whether printing the
/// result also counts as a comparison.
fn is_silent(text: &str, verdicts: bool) -> bool {
    let asks = text.lines().any(|line| line.trim_start().starts_with("if ") || verdicts && VERDICT.is_match(line))
        && [" == ", " != ", " not in ", " in ", " < ", " > ", " <= ", " >= "].iter().any(|o| text.contains(o));
    let exits = ["exit(", "_exit("].iter().any(|call| {
        text.match_indices(call).any(|(at, _)| {
            let argument = text[at + call.len()..].split(')').next().unwrap_or_default().trim();
            !matches!(argument, "" | "0")
        })
    });
    let fails = ["raise", "assert", "abort", "unittest", "pytest", "subprocess", "SystemExit", "exec("];
    asks && text.contains("print") && !exits && !fails.iter().any(|word| text.contains(word)) || python::swallows(text)
}

/// `print("ok" if ok else "not ok")`, `print("ok") if ok else print("not ok")`: a line that only prints the result.
static VERDICT: Ascii = ascii(
    r#"^\s*print\(\s*(?:f?"[^"]*"|f?'[^']*')\s*\)?\s+if\s.+\selse\s+(?:print\(\s*)?(?:f?"[^"]*"|f?'[^']*')\s*(?:,.*)?\)\s*$"#,
);

/// The same for JavaScript of `mongosh` or `node` that ends with `quit()` or `process.exit()` after its output.
fn is_silent_script(s: &Statement, text: &str) -> bool {
    let ends = |call: &str| {
        let arguments =
            text.match_indices(call).map(|(at, _)| text[at + call.len()..].split(')').next().unwrap_or_default());
        arguments.map(str::trim).collect::<Vec<_>>()
    };
    let all: Vec<&str> = ["quit(", "exit("].iter().flat_map(|call| ends(call)).collect();
    matches!(s.name(), "mongosh" | "mongo" | "node")
        && text.contains("if (")
        && (text.contains("print(") || text.contains("console."))
        && !all.is_empty()
        && all.iter().all(|argument| matches!(*argument, "" | "0"))
        && !["throw", "assert", "exitCode", "abort"].iter().any(|word| text.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixed_operators_without_parentheses_are_detected() {
        let jq = |text| mixed(text, " and ", " or ", &['|', ',', ';']);
        assert!(jq(".a == 1 and .b == 2 or .c == 3") && jq("map(.a or .b and .c)"));
        assert!(!jq("(.a or .b) and .c") && !jq(".a and .b | .c or .d") && !jq(r#".a == "x and y" or .b"#));
    }

    #[test]
    fn unclosed_brackets_are_detected() {
        for pattern in ["a(b", "[a", "x(y[)]", "(["] {
            assert!(unclosed(pattern).is_some(), "{pattern}");
        }
        for pattern in ["a(b)", r"a\(b", "[(]", "[]]", "[^]]x", "[[:space:]]+", r"[\]]", ")"] {
            assert!(unclosed(pattern).is_none(), "{pattern}");
        }
        assert_eq!(in_filter(r#".x | test("a\\(b")"#), [r"a\(b"]);
        assert_eq!(in_filter(r#"test("\(.x)(")"#), [""]);
    }

    #[test]
    fn programs_that_never_fail_are_detected() {
        assert!(is_silent("for k in d:\n    if d[k] != w[k]:\n        print(k)\n        break\n", true));
        assert!(is_silent("if a == b:\n  print('no')\n  sys.exit(0)", true));
        assert!(
            !is_silent("if a != b:\n  print(a)\n  sys.exit(1)", true)
                && !is_silent("assert a == b\nif a == b: print(1)", true)
        );
        assert!(!is_silent("print(a == b)", true));
        assert!(is_silent("ok = a == b\nprint('ok' if ok else 'not ok')", true));
        assert!(!is_silent("ok = a == b\nprint('ok' if ok else 'not ok')", false));
        assert!(!is_silent("n = a == b\nprint(f'{n} row', 's' if n != 1 else '')", true));
        assert!(!is_silent("ok = a == b\nprint('ok' if ok else 'not ok')\nsys.exit(not ok)", true));
    }
}
