//! Conditions of verify that always hold: an assignment instead of a comparison, a word instead of a test.

use crate::{
    ascii::{Ascii, ascii},
    bash::{
        Word as Plain,
        ast::{self, Part, Word},
        fields,
        program::{Kind, Program, Statement},
        tools,
    },
    diagnostic::{Diagnostic, Diagnostics, Strength},
    effects::{
        asked::{Demand, Form},
        value::Value,
    },
    hir::PhaseKind,
    lint::{
        TaskView,
        analysis::pattern,
        script::{Content, HOLE},
        shell::{comparison, constant, embedded},
    },
    rule,
    source::Span,
};

rule! {
    pub static ALWAYS_TRUE = "always-true", Verdict;
}

/// Location, message, and help.
type Fault = (Span, String, &'static str);

pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    let mut found: Vec<Fault> = Vec::new();
    for script in view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify) {
        let content = &script.content;
        content.program.walk(&mut |s| found.extend(test(s, content).or_else(|| command(s, content))));
        arithmetic(&content.program, content, &mut found);
        lengths(content, &mut found);
        own_name(content, out);
        booleans(content, out);
        constant::check(content, &mut found);
    }
    for script in view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify) {
        two_values(&script.content, &mut found);
    }
    for question in view.asked() {
        let program = question.runs.first().map_or("", |run| run.statement.tool());
        let is_number = match &question.form {
            Form::Field(path) => path.rsplit('.').next().is_some_and(|field| fields::is_number(program, field)),
            Form::Count | Form::Status => true,
            _ => false,
        };
        if matches!(&question.demand, Demand::Compared { operator, with } if is_nothing(operator, with))
            && is_number
            && !found.iter().any(|(span, ..)| *span == question.span)
        {
            found.push((
                question.span,
                "this number is never less than 0".to_owned(),
                "require at least one, `-gt 0`, or the expected number",
            ));
        }
    }
    view.task.walk(&mut |phase, step| {
        if phase != PhaseKind::Verify {
            return;
        }
        let texts =
            step.expect.iter().flat_map(|(_, expect)| crate::lint::analysis::texts::PRINTED.map(|key| expect.get(key)));
        for pattern in texts.flatten().filter_map(|text| text.get("matches")) {
            if pattern.as_literal().is_some_and(may_be_empty) {
                let message = format!("`{}` also matches an empty text", pattern.as_literal().unwrap_or_default());
                out.push(
                    Diagnostic::new(&ALWAYS_TRUE, pattern.span, message)
                        .help("require at least one character: `+` instead of `*`")
                        .strength(Strength::Warning),
                );
            }
        }
    });
    for followed in view.effects.scripts.iter().filter(|followed| followed.view.phase == PhaseKind::Verify) {
        let content = &followed.view.content;
        two_constants(followed, &mut found);
        content.program.walk(&mut |s| {
            if embedded::program(followed, s).is_some_and(|text| text.lines().any(has_constant_branch)) {
                found.push((
                    content.span(embedded::first_line(content, s)),
                    "the operand of `or` is a non-empty text or a number, which is always true".to_owned(),
                    "use `in` to compare with each value: `x in (3, 4)`",
                ));
            }
        });
    }
    for question in view.asked() {
        let (Some(run), Demand::Matches { pattern, options }) = (question.runs.first(), &question.demand) else {
            continue;
        };
        let has = |text: &str| run.words.iter().any(|word| word.literal() == Some(text));
        let word = if options.contains('i') { pattern.to_uppercase() } else { pattern.clone() };
        let is_header =
            matches!(word.trim_end_matches(':'), "STATUS" | "NAME" | "NAMESPACE" | "REVISION" | "LAST DEPLOYED");
        if run.statement.tool() == "helm" && has("status") && !has("-o") && is_header && !options.contains(['v', 'x']) {
            found.push((
                question.span,
                format!("`helm status` prints a line with `{word}` whatever the state of the release"),
                "look for the state itself: `STATUS: deployed`",
            ));
        }
    }
    for run in crate::lint::analysis::checked_resource::runs(view, PhaseKind::Verify)
        .filter(|run| matches!(run.statement.name(), "cmp" | "diff"))
    {
        let is_option = |word: &&Value| word.literal().is_some_and(|word| word.starts_with('-'));
        let files: Vec<&Value> = run.words[1..].iter().filter(|word| !is_option(word)).collect();
        if let [one, other] = files[..]
            && one.is(other)
        {
            found.push((
                crate::lint::analysis::checked_resource::place(run),
                "a file is compared with itself, so they never differ".to_owned(),
                "compare with the file that has the expected content",
            ));
        }
    }
    for (span, message, help) in found {
        out.push(Diagnostic::new(&ALWAYS_TRUE, span, message).help(help));
    }
}

static DEFINITION: Ascii = ascii(
    r"(?i)select\s+(?:indexdef\s+from\s+pg_indexes|sql\s+from\s+sqlite_(?:master|schema))\b[^;]*\b(?:indexname|name)\s*=\s*'([^']+)'",
);

/// `case $def in *customer*)` for the definition of the index `idx_customer`, which contains its name.
fn own_name(content: &Content, out: &mut Diagnostics) {
    if !content.text.contains("indexdef") && !content.text.contains("sqlite_") {
        return;
    }
    let text = |s: &Statement| content.text.get(s.range.clone()).unwrap_or_default();
    let mut definitions: Vec<(&str, String)> = Vec::new();
    let mut push = |span: Span, pattern: &str, names: &[&str]| {
        // The beginning of the name may be there to check that the index exists.
        let part = |name: &&str| name.contains(pattern) && !name.starts_with(pattern);
        let plain = pattern.len() > 2 && pattern.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if plain && let Some(name) = names.iter().copied().find(part) {
            let message = format!("the definition contains the name `{name}`, so it always matches `{pattern}`");
            let finding = Diagnostic::new(&ALWAYS_TRUE, span, message).strength(Strength::Warning);
            out.push(finding.help("match what must be defined, such as `(column)`"));
        }
    };
    content.program.walk(&mut |s| match &s.kind {
        Kind::Assignment | Kind::Declaration => {
            let name = text(s).split_once('=').map(|(name, _)| name.rsplit(' ').next().unwrap_or(name));
            definitions.extend(name.zip(DEFINITION.captures(text(s)).map(|found| found[1].to_owned())));
        }
        Kind::Case(arms) => {
            let head = text(s).split(" in").next().unwrap_or_default();
            let subject = head.trim_start_matches("case").trim().trim_matches(['"', '$', '{', '}']);
            for arm in arms.iter().filter(|arm| arm.is_empty()).take(1) {
                let rest = text(s).split_once(" in").map(|(_, rest)| rest.trim_start()).unwrap_or_default();
                let pattern = rest.split(')').next().filter(|_| arm.is_empty()).unwrap_or_default();
                if let Some(inner) = pattern.strip_prefix('*').and_then(|rest| rest.strip_suffix('*')) {
                    let names: Vec<&str> =
                        definitions.iter().filter(|(name, _)| *name == subject).map(|(_, of)| of.as_str()).collect();
                    push(content.span(s.range.start..s.range.start + head.len()), inner, &names);
                }
            }
        }
        Kind::Test => {
            for triple in ast::split(text(s), s.range.start).windows(3) {
                let inner = triple[2].source.strip_prefix('*').and_then(|rest| rest.strip_suffix('*'));
                let (Some(inner), "==" | "=") = (inner, triple[1].source.as_str()) else { continue };
                let subject = triple[0].source.trim_matches(['"', '$', '{', '}']);
                let names: Vec<&str> =
                    definitions.iter().filter(|(name, _)| *name == subject).map(|(_, of)| of.as_str()).collect();
                push(content.span(s.range.clone()), inner.trim_matches('"'), &names);
            }
        }
        Kind::Pipeline(parts) => {
            if let [first, last] = parts.as_slice()
                && last.name() == "grep"
                && let Some(pattern) = tools::searched(&last.words()[1..])
                && !last.words().iter().any(|word| word.text.starts_with('-') && word.text.contains('v'))
            {
                let name = DEFINITION.captures(text(first)).map(|found| found[1].to_owned());
                push(content.span(s.range.clone()), &pattern.text, &name.as_deref().into_iter().collect::<Vec<_>>());
            }
        }
        _ => {}
    });
}

static LENGTH: Ascii = ascii(
    r"(?i)(?:\blen\((?:[^()\n]|\([^()\n]*\))*\)|\blength(?:\(\))?|\.length|\bcount\(\*\)|\.size\(\))\s*(?:>=\s*0|>\s*-1)(?:[^.\d]|$)",
);

/// `length >= 0` in a filter, `len(x) >= 0` in a program, `count(*) >= 0` in a query.
fn lengths(content: &Content, found: &mut Vec<Fault>) {
    if !content.text.contains('>') {
        return;
    }
    for length in LENGTH.find_iter(&content.text) {
        let start = length.range().start;
        let line = &content.text[content.line_start(start)..start];
        if !line.trim_start().starts_with(['#', '/']) {
            let end = length.as_str().trim_end_matches(|c: char| !c.is_ascii_digit()).len();
            found.push((
                content.span(start..start + end),
                "a length is never less than 0".to_owned(),
                "require at least one, `> 0`, or the expected number",
            ));
        }
    }
}

/// `[ $n=3 ]`, `[ "$count" -ge 0 ]`, `[[ $x =~ .* ]]`.
fn test(statement: &Statement, content: &Content) -> Option<Fault> {
    let text = content.text.get(statement.range.clone())?;
    let is_test = matches!(statement.kind, Kind::Test) || matches!(statement.name(), "test" | "[");
    if !is_test || text.starts_with("((") {
        return None;
    }
    let words = ast::split(text, statement.range.start);
    let is_end = |word: &Word| matches!(word.source.as_str(), "test" | "[" | "[[" | "]" | "]]" | "!" | "(" | ")");
    let is_between = |word: &Word| matches!(word.source.as_str(), "&&" | "||" | "-a" | "-o");
    for part in words.split(is_between) {
        let part: Vec<&Word> = part.iter().filter(|word| !is_end(word)).collect();
        let span = || content.span(statement.range.clone());
        match part.as_slice() {
            [word] if is_glued(word) => {
                return Some((
                    span(),
                    format!(
                        "`{}` is a single word, and a non-empty word is always true",
                        word.source.replace(HOLE, "…")
                    ),
                    "put spaces around the operator: `[ \"$n\" = 3 ]`",
                ));
            }
            [left, compares, right]
                if right.literal().is_some_and(|right| is_nothing(&compares.source, &right))
                    && is_count(left, content) =>
            {
                return Some((
                    span(),
                    "a count is never less than 0".to_owned(),
                    "require at least one, `-gt 0`, or the expected number",
                ));
            }
            [left, compares, right]
                if matches!(
                    (compares.source.as_str(), right.literal().as_deref()),
                    ("-lt", Some("0")) | ("-le", Some("-1"))
                ) && is_count(left, content) =>
            {
                return Some((
                    span(),
                    "a count is never less than 0: this is always false".to_owned(),
                    "require none, `-eq 0`, or the expected number",
                ));
            }
            [left, compares, right]
                if left.source == right.source
                    && matches!(compares.source.as_str(), "=" | "==" | "!=" | "-eq" | "-ne")
                    && is_same_each_time(&left.source) =>
            {
                let truth = if matches!(compares.source.as_str(), "!=" | "-ne") { "false" } else { "true" };
                return Some((
                    span(),
                    format!("both sides are the same, so this is always {truth}"),
                    "compare with what is expected, or read the other value on one side",
                ));
            }
            [_, matches, pattern] if matches.source == "=~" && is_everything(&pattern.source) => {
                return Some((
                    span(),
                    format!("`{}` matches every text, including an empty one", pattern.source),
                    "match what must be present, anchored with `^` and `$` if nothing else may be",
                ));
            }
            _ => {}
        }
    }
    None
}

/// Whether a word is a variable, or a substitution that prints the same each time: not a request, a random number or the time.
fn is_same_each_time(source: &str) -> bool {
    const VARIES: [&str; 12] =
        ["date", "random", "uuid", "mktemp", "shuf", "curl", "wget", "next", "ps ", "top", "uptime", "openssl"];
    let lower = source.to_lowercase();
    source.contains('$') && !VARIES.iter().any(|word| lower.contains(word))
}

/// `-ge 0`, `-gt -1`: every count meets this.
fn is_nothing(operator: &str, with: &str) -> bool {
    matches!((operator, with), ("-ge", "0") | ("-gt", "-1"))
}

/// `[[ $x != true && $x != false ]]`, `[ "$x" = true ] || [ "$x" = false ]`: this only asks whether there is a boolean.
fn booleans(content: &Content, out: &mut Diagnostics) {
    content.program.walk(&mut |s| {
        let is_list = matches!(s.kind, Kind::Or(_) | Kind::And(_) | Kind::Test) && only_tests(s);
        let Some(text) = content.text.get(s.range.clone()).filter(|_| is_list) else { return };
        let operators = match (text.contains("||"), text.contains("&&")) {
            (true, false) => ["=", "=="],
            (false, true) => ["!=", "!="],
            _ => return,
        };
        let words = ast::split(text, s.range.start);
        let compared = words.windows(3).filter(|triple| operators.contains(&triple[1].source.as_str()));
        let pairs: Vec<_> = compared.filter_map(|triple| Some((&triple[0].source, triple[2].literal()?))).collect();
        if let [(left, one), (other, two)] = pairs.as_slice()
            && left == other
            && crate::lint::analysis::texts::are_opposites(one, two)
        {
            let message = format!("`{}` may be {one} or {two} here: both are accepted", left.trim_matches('"'));
            out.push(
                Diagnostic::new(&ALWAYS_TRUE, content.span(s.range.clone()), message)
                    .help("compare with the one that is wanted")
                    .strength(Strength::Warning),
            );
        }
    });
}

/// `[[ $x != a || $x != b ]]`, `[ "$x" = a ] && [ "$x" = b ]`: no value equals both.
fn two_values(content: &Content, found: &mut Vec<Fault>) {
    let mut told: Vec<std::ops::Range<usize>> = Vec::new();
    content.program.walk(&mut |s| {
        let is_list = matches!(s.kind, Kind::Or(_) | Kind::And(_) | Kind::Test);
        let text = content.text.get(s.range.clone()).filter(|text| is_list && !text.starts_with("(("));
        let Some(text) = text.filter(|text| (text.contains("||") || text.contains("&&")) && !text.contains('(')) else {
            return;
        };
        // All operators must be the same. With brackets or both operators, the meaning is not determined here.
        let signs = (text.contains("||"), text.contains("&&"));
        if signs == (true, true)
            || !only_tests(s)
            || told.iter().any(|known| known.start <= s.range.start && s.range.end <= known.end)
        {
            return;
        }
        let words = ast::split(text, s.range.start);
        if let Some(left) = no_range(&words, signs.0) {
            told.push(s.range.clone());
            let message =
                if signs.0 { "every number satisfies one of these bounds" } else { "no number satisfies both bounds" };
            let help =
                if signs.0 { "write `&&` between the two conditions" } else { "write `||` between the two conditions" };
            found.push((content.span(s.range.clone()), format!("`{}`: {message}", left.trim_matches('"')), help));
            return;
        }
        let (operators, message) =
            if signs.0 { (["!=", "!="], "this is always true") } else { (["=", "=="], "this is always false") };
        let compared: Vec<(&str, String)> = words
            .windows(3)
            .filter(|triple| operators.contains(&triple[1].source.as_str()))
            // Without quotes, it may be a pattern.
            .filter(|triple| triple[2].source.starts_with(['"', '\'']) || !triple[2].source.contains(['*', '?', '[']))
            .filter_map(|triple| Some((triple[0].source.as_str(), triple[2].literal()?)))
            .filter(|(left, right)| left.contains('$') && !right.contains(HOLE))
            .collect();
        let negated = words.iter().any(|word| word.source == "!");
        let twice = compared.iter().enumerate().find_map(|(nth, (left, right))| {
            let other = compared[nth + 1..].iter().find(|(other, value)| other == left && value != right)?;
            Some((*left, right.clone(), other.1.clone()))
        });
        if let Some((left, one, other)) = twice.filter(|_| !negated) {
            told.push(s.range.clone());
            found.push((
                content.span(s.range.clone()),
                format!("`{}` cannot equal both `{one}` and `{other}`: {message}", left.trim_matches('"')),
                if signs.0 {
                    "to require that it differs from both, write `&&` between the two conditions"
                } else {
                    "to accept either value, write `||` between the two conditions"
                },
            ));
        }
    });
}

/// `[ "$got" != "$want" ] || [ "$got" != "$other" ]`, where both variables are different constants.
fn two_constants(followed: &crate::effects::Followed<'_>, found: &mut Vec<Fault>) {
    let (content, tests) = (&followed.view.content, &followed.trace.tests);
    content.program.walk(&mut |s| {
        let Kind::Or(pair) = &s.kind else { return };
        let compared: Vec<(&str, &str)> = pair
            .iter()
            .filter_map(|s| {
                let test = tests.iter().find(|test| std::ptr::eq(test.statement, s))?;
                let [_, sign, value] = test.words.as_slice() else { return None };
                let left = content.text.get(s.range.clone())?.split_whitespace().find(|word| word.contains('$'))?;
                (sign.literal() == Some("!=")).then_some((left, value.literal()?))
            })
            .collect();
        let [(left, one), (same, other)] = compared.as_slice() else { return };
        let is_plain = |text: &str| content.text[s.range.clone()].contains(text);
        if left == same && one != other && !is_plain(one) && !is_plain(other) {
            found.push((
                content.span(s.range.clone()),
                format!("`{}` cannot equal both constants: this is always true", left.trim_matches('"')),
                "to require that it differs from both, write `&&` between the two conditions",
            ));
        }
    });
}

/// Returns the word with two bounds that no number satisfies together or (`either`) of which every number satisfies at
/// least one: `[ $n -lt 10 ] && [ $n -gt 20 ]`.
fn no_range(words: &[Word], either: bool) -> Option<&str> {
    // Each bound is the range of numbers that satisfy it.
    let bounds = words.windows(3).filter_map(|triple| {
        let number: i64 = triple[2].literal()?.parse().ok()?;
        let (low, high) = match triple[1].source.as_str() {
            "-gt" => (number.checked_add(1)?, i64::MAX),
            "-ge" => (number, i64::MAX),
            "-lt" => (i64::MIN, number.checked_sub(1)?),
            "-le" => (i64::MIN, number),
            _ => return None,
        };
        Some((triple[0].source.as_str(), low, high))
    });
    let bounds: Vec<(&str, i64, i64)> = bounds.filter(|(left, ..)| left.contains('$')).collect();
    let negated = words.iter().any(|word| word.source == "!");
    let [(left, low, high), (again, other_low, other_high)] = bounds.as_slice() else { return None };
    // With a default, it is still the same variable.
    let name = |text: &str| text.trim_matches(['"', '$', '{', '}']).split(':').next().unwrap_or_default().to_owned();
    let met = if either {
        let from = if *low == i64::MIN { *other_low } else { *low };
        let to = if *low == i64::MIN { *high } else { *other_high };
        (*low == i64::MIN) != (*other_low == i64::MIN) && from.saturating_sub(1) <= to
    } else {
        low.max(other_low) > high.min(other_high)
    };
    (!negated && met && name(left) == name(again)).then_some(*left)
}

/// Whether a list consists of tests only.
fn only_tests(s: &Statement) -> bool {
    match &s.kind {
        Kind::Test => true,
        Kind::Or(pair) | Kind::And(pair) => pair.iter().all(only_tests),
        _ => matches!(s.name(), "test" | "["),
    }
}

/// Whether a word contains both operands and the operator between them.
fn is_glued(word: &Word) -> bool {
    if let Some(text) = word.literal() {
        return text.contains('=');
    }
    let expands = word.parts.iter().any(|part| matches!(part, Part::Var { .. } | Part::Command { .. }));
    let signs = |text: &str| ["==", "!=", "="].iter().any(|sign| text == *sign || text.starts_with(sign));
    let behind = word.parts.windows(2).any(|pair| match pair {
        [Part::Var { .. } | Part::Command { .. }, Part::Text { text, .. }] => signs(text),
        _ => false,
    });
    expands && behind
}

fn is_count(word: &Word, content: &Content) -> bool {
    match word.parts.as_slice() {
        [Part::Var { name, default: None, .. }] => comparison::counts(content, name),
        [Part::Command { text, .. }] => {
            text.contains("wc -l") || text.contains("grep -c") || text.to_ascii_lowercase().contains("\"select count(")
        }
        _ => false,
    }
}

/// Whether a pattern, in the syntax that all pattern languages share, matches every text.
fn is_everything(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "[]-.*^$ ".contains(c);
    text.contains('*') && text.chars().all(plain) && pattern::matches_all(text, pattern::Texts::Names)
}

/// Whether every part of an anchored pattern may be empty: `^[0-9.]*$`. With `?` or `|`, this is intentional.
fn may_be_empty(pattern: &str) -> bool {
    let Some(mut rest) = pattern.strip_prefix('^').and_then(|rest| rest.strip_suffix('$')) else { return false };
    let mut parts = 0;
    while !rest.is_empty() {
        let end = match rest.as_bytes() {
            [b'[', ..] => rest.find(']').map_or(rest.len(), |at| at + 1),
            [b'\\', ..] => rest.char_indices().nth(2).map_or(rest.len(), |(at, _)| at),
            [b'(' | b')' | b'|' | b'.', ..] => return false,
            _ => rest.char_indices().nth(1).map_or(rest.len(), |(at, _)| at),
        };
        let blank = rest.starts_with("\\s");
        let Some(behind) = rest[end..].strip_prefix('*') else { return false };
        parts += usize::from(!blank);
        rest = behind;
    }
    parts > 0
}

/// `jq -e '.replicas = 3'`, `awk '{ if ($4 = 3) … }'`, `grep -q '[0-9]*'`.
fn command(statement: &Statement, content: &Content) -> Option<Fault> {
    let words = statement.words();
    let has = |letter: char, long: &str| {
        words.iter().skip(1).any(|w| {
            w.text == long || w.text.starts_with('-') && !w.text.starts_with("--") && w.text[1..].contains(letter)
        })
    };
    match statement.name() {
        "jq" => {
            let filter = tools::operands("jq", &words[1..]).next()?;
            let answers = has('e', "--exit-status");
            let asks = answers && !statement.written;
            let last = filter.text.rsplit('|').next().unwrap_or_default().trim();
            if answers && matches!(last, "length" | "tostring" | "keys" | "tojson" | "type" | "add // 0") {
                return Some((
                    content.span(filter.range.clone()),
                    format!("`{last}` is never `false` or `null`, so `jq -e` always succeeds"),
                    "add a comparison: `length == 0`",
                ));
            }
            let at = assignment(&filter.text, &["select", "any", "all"], asks)?;
            Some((
                within(content, filter, at),
                "`=` is an assignment in jq: this is true regardless of the value".to_owned(),
                "use `==` to compare",
            ))
        }
        "awk" | "gawk" | "mawk" => {
            // A regular expression in awk may contain any character.
            let program = tools::operands("awk", &words[1..]).next().filter(|program| !program.text.contains('/'))?;
            let at = assignment(&program.text, &["if", "while"], false)?;
            // `if (n = split($0, a))` tests the result of a function.
            if CALL.is_match(&program.text[at + 1..]) {
                return None;
            }
            Some((
                within(content, program, at),
                "`=` is an assignment in awk: this is true unless the assigned value is empty or 0".to_owned(),
                "use `==` to compare",
            ))
        }
        "grep" | "egrep" => {
            let options = words.iter().skip(1).filter(|word| word.text.starts_with('-'));
            let plain = options.clone().all(|word| word.text[1..].chars().all(|c| "qsEPi".contains(c)));
            let pattern = tools::searched(words.get(1..)?).filter(|pattern| pattern.literal && plain)?;
            // `.*` tests whether there is a line at all.
            let meant = pattern.text.chars().all(|c| ".*^$".contains(c));
            (!meant && is_everything(&pattern.text)).then(|| {
                (
                    content.span(pattern.range.clone()),
                    format!("`{}` matches every line, including an empty one", pattern.text),
                    "require at least one character: `[0-9][0-9]*`, `.`",
                )
            })
        }
        _ => None,
    }
}

static CALL: Ascii = ascii(r"^\s*[A-Za-z_]\w*\(");

/// Returns the span of a byte of a word that is written literally in the script; otherwise, the span of the word.
fn within(content: &Content, word: &Plain, at: usize) -> Span {
    let range = word.range.clone();
    let source = content.text.get(range.clone()).unwrap_or_default();
    match source.get(1..).is_some_and(|inner| inner.starts_with(&*word.text)) {
        true => content.span(range.start + 1 + at..range.start + 2 + at),
        false => content.span(range),
    }
}

/// Returns the position of `=` in a program of jq or awk: in the parentheses after one of these words
/// or, if `asks`, in its last part.
fn assignment(text: &str, within: &[&str], asks: bool) -> Option<usize> {
    let bytes = text.as_bytes();
    // The words before the open brackets, and the `=` of the last part outside of all brackets.
    let (mut open, mut last): (Vec<&str>, Option<usize>) = (Vec::new(), None);
    let mut quoted = false;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\\' if quoted => at += 1,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'(' | b'[' | b'{' => {
                let before = text[..at].trim_end();
                let word = before
                    .rfind(|c: char| !c.is_ascii_alphanumeric())
                    .map_or(0, |end| before.ceil_char_boundary(end + 1));
                open.push(if byte == b'(' { before.get(word..).unwrap_or_default() } else { "" });
            }
            b')' | b']' | b'}' => drop(open.pop()),
            b'|' | b',' | b';' if open.is_empty() && bytes.get(at + 1) != Some(&b'=') => last = None,
            b'=' => {
                let joined = |byte: Option<&u8>| byte.is_some_and(|b| b"=!<>|+-*/%?~^".contains(b));
                let before = at.checked_sub(1).and_then(|at| bytes.get(at));
                if !joined(before) && !matches!(bytes.get(at + 1), Some(b'=' | b'~')) {
                    match open.last() {
                        Some(word) if within.contains(word) => return Some(at),
                        None => last = Some(at),
                        Some(_) => {}
                    }
                }
            }
            _ => {}
        }
        at += 1;
    }
    last.filter(|_| asks && !quoted)
}

/// `(( n = 3 ))` if its exit status is used.
fn arithmetic(program: &Program, content: &Content, found: &mut Vec<Fault>) {
    // `n =! 3` sets `n` to 0.
    static SETS: Ascii = ascii(r"^\(\(\s*[A-Za-z_]\w*\s*=\s*(!?)\s*[1-9]\d*\s*\)\)$");
    let mut asked: Vec<&Statement> = program.body.last().into_iter().collect();
    program.walk(&mut |s| match &s.kind {
        Kind::If { branches, .. } => asked.extend(branches.iter().filter_map(|branch| branch.condition.last())),
        Kind::And(pair) | Kind::Or(pair) => asked.push(&pair[0]),
        _ => {}
    });
    for s in asked.into_iter().filter(|s| matches!(s.kind, Kind::Test)) {
        let text = content.text.get(s.range.clone()).unwrap_or_default();
        let Some(negated) = SETS.captures(text).map(|found| found.get(1).is_some_and(|sign| !sign.as_str().is_empty()))
        else {
            continue;
        };
        let (message, help) = match negated {
            false => ("`=` is an assignment here: this is always true", "use `==` to compare: `(( n == 3 ))`"),
            true => ("`=!` is an assignment here: this is always false", "use `!=` to compare: `(( n != 3 ))`"),
        };
        found.push((content.span(s.range.clone()), message.to_owned(), help));
    }
}

/// `assert n == 3 or 4`.
fn has_constant_branch(line: &str) -> bool {
    static OR: Ascii = ascii(r#"\bor\s+(?:[1-9]\d*|"[^"]+"|'[^']+'|True)\s*(?:[,:]|$)"#);
    let line = line.trim();
    let asks = ["assert ", "if ", "elif ", "while "].iter().any(|word| line.starts_with(word));
    asks && OR.find_iter(line).any(|or| {
        let before = &line[..or.start()];
        before.matches(['(', '[', '{']).count() == before.matches([')', ']', '}']).count()
            && before.matches('"').count().is_multiple_of(2)
            && !before.contains('#')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignments_are_distinguished_from_comparisons() {
        let jq = |text: &str| assignment(text, &["select", "any", "all"], true).is_some();
        for filter in
            [".a = 1", ".items[] | select(.n = 3)", "any(.[]; .x=1)", ".a | .b=2", "select( .a = \"b\" ) | .c"]
        {
            assert!(jq(filter), "{filter}");
        }
        for filter in [
            ".a == 1",
            ".a >= 1 and .b <= 2 and .c != 3",
            ".a = 1 | .a == 2",
            "map(.a = 1) | length == 2",
            ".a |= 1 | .b == 1",
            ".a //= 1 | .b",
            "select(.a == \"x = y\")",
            "select(.a | test(\"^x=\"))",
        ] {
            assert!(!jq(filter), "{filter}");
        }
        assert!(assignment(".a = 1", &["select"], false).is_none(), "what is printed may be meant");
        let awk = |text: &str| assignment(text, &["if", "while"], false).is_some();
        assert!(awk("{ if ($4 = 3) exit 0; exit 1 }") && !awk("{ n = 3; if (n == $4) exit 1 }") && !awk("$1=$1"));
    }

    #[test]
    fn constant_branches_are_detected() {
        for line in ["assert n == 3 or 4", "if x == 'a' or 'b':", "assert a or \"b\", 'why'"] {
            assert!(has_constant_branch(line), "{line}");
        }
        for line in
            ["assert f(a or 1, 2)", "n = a or 4", "assert n == 3 or n == 4", "if a or 'b' in c:", "assert x # or 4"]
        {
            assert!(!has_constant_branch(line), "{line}");
        }
    }
}
