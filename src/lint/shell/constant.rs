//! Conditions that do not depend on what they seem to check: a test of a constant word, a text that is searched for in
//! the file from which it is read, a constant as a condition of SQL.

use crate::{
    ascii::{Ascii, ascii},
    bash::{
        ast::{self, Word},
        program::{Kind, Statement},
        tools,
    },
    lint::script::{Content, HOLE},
    source::Span,
};

/// Location, message, and help.
type Fault = (Span, String, &'static str);

/// Reports all such conditions of a script.
pub fn check(content: &Content, found: &mut Vec<Fault>) {
    let mut endless: Vec<std::ops::Range<usize>> = Vec::new();
    content.program.walk(&mut |s| {
        if let Kind::Loop { condition, .. } = &s.kind {
            endless.extend(condition.iter().map(|s| s.range.clone()));
        }
    });
    content.program.walk(&mut |s| {
        found.extend(constant_word(s, content, &endless));
        found.extend(set_by_shell(s, content));
        found.extend(never_changes(s, content));
        sql(s, content, found);
    });
    own_file(content, found);
    own_command(content, found);
}

/// `tag=$(git rev-parse v2)`, and then `[ "$tag" = "$(git rev-parse v2)" ]`.
fn own_command(content: &Content, found: &mut Vec<Fault>) {
    if !content.text.contains("=$(") && !content.text.contains("=\"$(") {
        return;
    }
    // Options that only change what a failure prints are not compared. Other programs may print something else the second time.
    let asks = |s: &Statement| -> Option<Vec<String>> {
        const READS: [&str; 7] = ["rev-parse", "rev-list", "log", "show", "describe", "merge-base", "cat-file"];
        let is_read = match s.name() {
            "git" => s.words().iter().any(|word| READS.contains(&word.text.as_str())),
            name => matches!(name, "jq" | "yq" | "wc" | "sha256sum" | "md5sum"),
        };
        let source = |word: &crate::bash::Word| unquoted(content.text.get(word.range.clone()).unwrap_or_default());
        let matters = |word: &&str| !matches!(*word, "-q" | "--quiet" | "-s" | "--silent" | "--verify");
        let words: Vec<String> = s.words().iter().map(source).filter(matters).map(str::to_owned).collect();
        (words.len() > 1 && is_read).then_some(words)
    };
    let mut look = |list: &[Statement]| {
        for pair in list.windows(2) {
            let ([taken], Kind::Assignment) = (pair[0].nested.as_slice(), &pair[0].kind) else { continue };
            let test = match &pair[1].kind {
                Kind::If { branches, .. } => branches.first().and_then(|branch| branch.condition.first()),
                Kind::And(inner) | Kind::Or(inner) => Some(&inner[0]),
                Kind::Test => Some(&pair[1]),
                _ => None,
            };
            let Some(test) = test.filter(|test| matches!(test.kind, Kind::Test) || test.name() == "[") else {
                continue;
            };
            let source = content.text.get(pair[0].range.clone()).unwrap_or_default();
            let Some((name, value)) = source.split_once('=').filter(|(name, _)| ast::is_name(name)) else { continue };
            let is_whole = unquoted(value).starts_with("$(") && unquoted(value).ends_with(')');
            let text = content.text.get(test.range.clone()).unwrap_or_default();
            let is_read = text.contains(&format!("\"${name}\"")) || text.contains(&format!("\"${{{name}}}\""));
            let compares = [" = ", " == ", " != "].iter().any(|sign| text.contains(sign));
            if let ([again], true, true, true) = (test.nested.as_slice(), is_whole, is_read, compares)
                && asks(taken).is_some_and(|words| asks(again).as_ref() == Some(&words))
            {
                found.push((
                    content.span(test.range.clone()),
                    format!("`${name}` is the output of the same command, so the two never differ"),
                    "compare with the expected value, or with the output of another command",
                ));
            }
        }
    };
    look(&content.program.body);
    content.program.walk(&mut |s| s.lists(&mut look));
}

/// `[ -n notes.txt ]`, `[[ errors ]]`. `endless` are the conditions of loops: `while [ 1 ]` is meant.
fn constant_word(s: &Statement, content: &Content, endless: &[std::ops::Range<usize>]) -> Option<Fault> {
    let is_test = matches!(s.kind, Kind::Test) || matches!(s.name(), "test" | "[");
    let text = content.text.get(s.range.clone()).filter(|text| is_test && !text.starts_with("(("))?;
    let words = ast::split(text, s.range.start);
    // `-a` is also a test of a file, and a pattern may contain any word.
    let mixed = |word: &Word| matches!(word.source.as_str(), "-a" | "-o" | "=~" | "(" | ")");
    if words.iter().any(mixed) || endless.contains(&s.range) {
        return None;
    }
    let is_end = |word: &Word| matches!(word.source.as_str(), "test" | "[" | "[[" | "]" | "]]" | "!");
    words.split(|word| matches!(word.source.as_str(), "&&" | "||")).find_map(|part| {
        let part: Vec<&Word> = part.iter().filter(|word| !is_end(word)).collect();
        let (operator, word) = match part.as_slice() {
            [word] => ("", *word),
            [operator, word] if matches!(operator.source.as_str(), "-n" | "-z") => (operator.source.as_str(), *word),
            _ => return None,
        };
        let constant = word.literal().filter(|text| is_plain(text))?;
        if operator.is_empty() && matches!(constant.as_str(), "1" | "true") {
            return None;
        }
        let truth = if operator == "-z" { "false" } else { "true" };
        Some((
            content.span(s.range.clone()),
            format!("`{constant}` is a constant text that is not empty: this test is always {truth}"),
            "to test a file, write `-e`, `-f` or `-s`; to test a variable, write `\"$name\"`; to test a command, omit the brackets",
        ))
    })
}

/// Variables that bash sets at its start.
const OF_BASH: [&str; 12] = [
    "HOSTNAME",
    "UID",
    "EUID",
    "PPID",
    "PWD",
    "RANDOM",
    "SECONDS",
    "BASHPID",
    "BASH_VERSION",
    "OSTYPE",
    "HOSTTYPE",
    "MACHTYPE",
];

/// `[ -z "$HOSTNAME" ]`, in a script of bash that does not set this variable.
fn set_by_shell(s: &Statement, content: &Content) -> Option<Fault> {
    let is_bash = |line: &str| line.starts_with("#!") && line.contains("bash");
    content.text.lines().next().filter(|line| is_bash(line))?;
    let is_test = matches!(s.kind, Kind::Test) || matches!(s.name(), "test" | "[");
    let text =
        content.text.get(s.range.clone()).filter(|text| is_test && (text.contains("-z") || text.contains("-n")))?;
    let words = ast::split(text, s.range.start);
    words.windows(2).find_map(|pair| {
        let truth = match pair[0].source.as_str() {
            "-z" => "false",
            "-n" => "true",
            _ => return None,
        };
        let name = pair[1].variable()?;
        let own = OF_BASH.contains(&name) && mentions(&content.text, name).all(|(_, before)| is_read(before));
        own.then(|| {
            (
                content.span(s.range.clone()),
                format!("bash itself sets `{name}`, so it is never empty: this test is always {truth}"),
                "test the variable that this script sets",
            )
        })
    })
}

/// Every place of a name as a word, with the text before it.
fn mentions<'t>(text: &'t str, name: &'t str) -> impl Iterator<Item = (usize, &'t str)> {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices(name).filter_map(move |(at, _)| {
        let whole = !text[..at].ends_with(part) && !text[at + name.len()..].starts_with(part);
        whole.then(|| (at, &text[..at]))
    })
}

/// Whether a name after this text is read, and not set.
fn is_read(before: &str) -> bool {
    before.ends_with('$') || before.ends_with("${")
}

/// Whether a name between these texts is set.
fn is_set(before: &str, after: &str) -> bool {
    let assigned = ["=", "+=", "-=", "*=", "/=", "++", "--"].iter().any(|sign| after.trim_start().starts_with(sign));
    let named = ["for", "-v", "let", "local", "unset"].iter().any(|word| before.trim_end().ends_with(word));
    assigned && !after.trim_start().starts_with("==") || named || before.ends_with("++") || before.ends_with("--")
}

static COUNTER: Ascii = ascii(
    r#"\"?\$\{?([A-Za-z_]\w*)\}?"?\s+-(?:lt|le|gt|ge|ne|eq)\s+"?(?:\d+|\$\{?([A-Za-z_]\w*)\}?)"?|\(\(\s*\$?([A-Za-z_]\w*)\s*(?:[<>]=?|!=|==)\s*(?:\d+|\$?([A-Za-z_]\w*))\s*\)\)"#,
);

/// `while [ $n -lt 30 ]; do …; done`, where nothing in the loop changes the number.
fn never_changes(s: &Statement, content: &Content) -> Option<Fault> {
    let Kind::Loop { condition, body, .. } = &s.kind else { return None };
    let (first, last) = (condition.first()?, condition.last()?);
    let test = content.text.get(first.range.start..last.range.end)?;
    let inside = content.text.get(last.range.end..s.range.end)?;
    let found = COUNTER.captures(test)?;
    let name = found.get(1).or_else(|| found.get(3))?.as_str();
    let limit = found.get(2).or_else(|| found.get(4)).map(|limit| limit.as_str());
    let sets = |word: &&str| matches!(*word, "eval" | "source" | "." | "read" | "mapfile" | "getopts" | "wait");
    let runs = |s: &Statement| s.words().first().is_some_and(|word| sets(&word.text.as_str()));
    let mut open = false;
    for statement in condition.iter().chain(body) {
        statement.walk(&mut |s| open |= runs(s) || is_function(content, s));
    }
    let stays = |name: &str| {
        let is_number = |(at, _): (usize, &str)| {
            let rest = content.text[at + name.len()..].strip_prefix('=').unwrap_or_default();
            rest.trim_start_matches('"').starts_with(|c: char| c.is_ascii_digit())
        };
        !OF_BASH.contains(&name)
            && mentions(&content.text[..s.range.start], name).any(is_number)
            && !mentions(inside, name).any(|(at, before)| is_set(before, &inside[at + name.len()..]))
            && mentions(test, name).count() == 1
            && !test.contains("++")
    };
    (!open && stays(name) && limit.is_none_or(stays)).then(|| {
        (
            content.span(first.range.start..last.range.end),
            format!("nothing in this loop changes `{name}`, so this condition never changes"),
            "count the rounds: `n=$((n + 1))`",
        )
    })
}

/// Whether a statement calls a function of the script, which may set a variable.
fn is_function(content: &Content, call: &Statement) -> bool {
    let mut found = false;
    content.program.walk(&mut |s| found |= matches!(&s.kind, Kind::Function { name, .. } if name == call.name()));
    found
}

/// Whether a text is a word without operators and patterns.
fn is_plain(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_'))
        && !text.contains(HOLE)
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_./:-".contains(&b))
}

/// A variable that holds the text of a file, or a part of it.
struct Taken {
    name: String,
    file: String,
    at: usize,
}

/// `uid=$(cat F)`, and then `grep -q "$uid" F`.
fn own_file(content: &Content, found: &mut Vec<Fault>) {
    if !content.text.contains("$(") || !content.text.contains("grep") {
        return;
    }
    let taken = taken(content);
    if taken.is_empty() {
        return;
    }
    content.program.walk(&mut |s| {
        if !matches!(s.name(), "grep" | "egrep" | "fgrep") || !is_only_tested(s) {
            return;
        }
        let source = |range: &std::ops::Range<usize>| content.text.get(range.clone()).unwrap_or_default();
        let Some(pattern) = tools::searched(&s.words()[1..]) else { return };
        let word = Word::read(source(&pattern.range), pattern.range.start);
        let Some(name) = word.variable() else { return };
        let Some(known) = taken.iter().find(|taken| taken.name == name && taken.at < s.range.start) else { return };
        let operands: Vec<&str> = s.words()[1..]
            .iter()
            .filter(|word| word.range != pattern.range && !word.text.starts_with('-'))
            .map(|word| source(&word.range))
            .collect();
        let is_file = matches!(operands.as_slice(), [file] if unquoted(file) == known.file);
        if is_file && !is_written(content, &known.file, known.at..s.range.start) {
            found.push((
                content.span(s.range.clone()),
                format!("`${name}` is read from this file, so the file always contains it"),
                "search for the expected text, or read the text that is searched for from its source",
            ));
        }
    });
}

/// The variables that are assigned exactly once, from a file: `x=$(cat F)`, `x=$(< F)`, `x=$(head -n 1 F)`.
fn taken(content: &Content) -> Vec<Taken> {
    let mut all: Vec<(String, Option<Taken>)> = Vec::new();
    content.program.walk(&mut |s| {
        if s.words().first().is_some_and(|word| matches!(word.text.as_str(), "read" | "mapfile" | "readarray")) {
            all.extend(s.words().iter().map(|word| (word.text.clone(), None)));
        }
        if !matches!(s.kind, Kind::Assignment | Kind::Declaration | Kind::Loop { .. }) {
            return;
        }
        let text = content.text.get(s.range.clone()).unwrap_or_default();
        if let Kind::Loop { .. } = s.kind {
            all.extend(text.split_whitespace().nth(1).map(|name| (name.to_owned(), None)));
            return;
        }
        for word in ast::split(text, s.range.start) {
            let Some((name, value)) = word.source.split_once('=') else { continue };
            let file = file_of(value);
            let name = name.trim_end_matches('+');
            let taken = file.map(|file| Taken { name: name.to_owned(), file, at: s.range.end });
            all.push((name.to_owned(), taken));
        }
    });
    let times = |name: &str| all.iter().filter(|(known, _)| known == name).count();
    let once: Vec<bool> = all.iter().map(|(name, _)| times(name) == 1).collect();
    all.into_iter().zip(once).filter(|(_, once)| *once).filter_map(|((_, taken), _)| taken).collect()
}

/// The file whose text, or one of whose lines, a substitution prints.
fn file_of(value: &str) -> Option<String> {
    let inner = unquoted(value).strip_prefix("$(")?.strip_suffix(')')?.trim();
    if inner.contains(['|', ';', '&', '`', '(', '>', HOLE]) {
        return None;
    }
    if let Some(file) = inner.strip_prefix('<') {
        return Some(unquoted(file.trim()).to_owned()).filter(|file| !file.contains(char::is_whitespace));
    }
    let words = ast::split(inner, 0);
    let (program, rest) = words.split_first()?;
    let is_number = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let file = match (program.source.as_str(), rest) {
        ("cat", [file]) => file,
        ("head" | "tail", [option, file]) if option.source.starts_with('-') => file,
        ("head" | "tail", [option, number, file]) if option.source == "-n" && is_number(&number.source) => file,
        _ => return None,
    };
    Some(unquoted(&file.source).to_owned()).filter(|file| !file.starts_with(['-', '<']) && file.len() > 1)
}

/// The text of a word without the double quotes around it.
fn unquoted(source: &str) -> &str {
    source.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(source)
}

/// Whether anything but a test or a message may run in this part of the script, so that a file may have changed.
fn is_written(content: &Content, file: &str, part: std::ops::Range<usize>) -> bool {
    let text = content.text.get(part).unwrap_or_default();
    text.contains(file)
        || ["sleep", "wait", "exec", "kubectl", "docker", "curl", "./", "bash", "python"]
            .iter()
            .any(|word| text.contains(word))
}

/// Whether a grep only tests whether there is a match, and neither counts nor prints matches.
fn is_only_tested(s: &Statement) -> bool {
    let options = s.words().iter().skip(1).map(|word| word.text.as_str()).filter(|text| text.starts_with('-'));
    let mut quiet = s.written;
    for option in options {
        match option {
            "--" => break,
            "--quiet" | "--silent" => quiet = true,
            "--invert-match" | "--count" | "--files-without-match" => return false,
            _ if option.starts_with("--") => {}
            _ if option.contains(['v', 'c', 'o', 'n', 'l', 'L', 'A', 'B', 'C']) => return false,
            _ => quiet |= option.contains('q'),
        }
    }
    quiet
}

/// A string, between `and` or `or` and the end of the condition: `status = 'open' AND 'done'`.
static OPERAND: Ascii = ascii(
    r#"(?i)\b(and|or)\s+'([^'\n]*)'\s*(?:$|["');]|\band\s|\bor\s|\border\s+by\b|\bgroup\s+by\b|\blimit\b|\bunion\b|\breturning\b)"#,
);
/// A number after `or`: `id = 1 OR 2`.
static NUMBER: Ascii =
    ascii(r#"(?i)=\s*\d+\s+(or)\s+([1-9]\d*)\s*(?:$|["');]|\bor\s|\border\s+by\b|\bgroup\s+by\b|\blimit\b)"#);

/// `WHERE status = 'open' AND 'done'`: the second operand is no comparison.
fn sql(s: &Statement, content: &Content, found: &mut Vec<Fault>) {
    if !matches!(s.kind, Kind::Command(_)) {
        return;
    }
    const CLIENTS: [&str; 6] = ["sqlite3", "psql", "mysql", "mariadb", "duckdb", "sqlcmd"];
    if !s.words().iter().any(|word| CLIENTS.contains(&word.text.rsplit('/').next().unwrap_or_default())) {
        return;
    }
    let Some(text) = content.text.get(s.range.clone()) else { return };
    for operand in OPERAND.captures_iter(text).chain(NUMBER.captures_iter(text)) {
        let (Some(operator), Some(constant)) = (operand.get(1), operand.get(2)) else { continue };
        let before = text[..operator.start()].to_ascii_lowercase();
        let Some(clause) = before.rfind(" where ").or_else(|| before.rfind("\nwhere ")) else { continue };
        // In `BETWEEN 'a' AND 'b'`, both are bounds. `'true'` is a boolean of PostgreSQL.
        let last = [" and ", " or "].iter().filter_map(|word| before.rfind(word)).max().unwrap_or(clause);
        let is_between = before[last..].contains("between");
        let is_boolean = matches!(
            constant.as_str().to_ascii_lowercase().as_str(),
            "true" | "false" | "t" | "f" | "yes" | "no" | "on" | "off" | ""
        );
        // An odd number of quotes: the text is inside a string.
        let is_escaped = constant.as_str().contains(['\\', '"']);
        let inside = before[clause..].matches('\'').count() % 2 == 1;
        if is_between || is_boolean || is_escaped || inside || before[clause..].contains(';') {
            continue;
        }
        let range = s.range.start + operator.start()..s.range.start + constant.end();
        found.push((
            content.span(range),
            format!("`{}` is a condition of its own here, and is not compared with anything", constant.as_str()),
            "to accept several values, write `column IN ('a', 'b')`; otherwise compare it: `column = 'b'`",
        ));
    }
}
