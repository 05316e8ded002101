//! Shell tests that compare something other than what their author intends.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::{
    ascii::{Ascii, ascii},
    bash::{
        ast::{self, Part},
        fields,
        program::{Kind, Statement},
        tools,
    },
    diagnostic::{Diagnostic, Diagnostics, Strength},
    effects::{
        asked::{self, Demand, Form},
        value::Value,
    },
    hir::PhaseKind,
    lint::{TaskView, analysis::jq_types, script::Content, shell::embedded},
    rule,
    source::Span,
};

rule! {
    pub static COMPARES_OTHERWISE = "compares-otherwise", Verdict;
    pub static QUOTED_VARIABLE = "quoted-variable", Verdict;
}

/// `[ $n > 3 ]` writes a file `3`, `[[ $n > 10 ]]` compares strings, `[ $x -eq Running ]`
/// fails, `[ -n $x ]` is always true.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    values(view, out);
    types(view, out);
    phases(view, out);
    numbers(view, out);
    headers(view, out);
    lines_of_json(view, out);
    partial(view, out);
    for script in view.scripts.iter().filter(|script| script.reader != crate::lint::script::Reader::Foreign) {
        let content = &script.content;
        let mut found = Vec::new();
        let followed = view.followed(script);
        let known = |name: &str| {
            followed.is_none_or(|followed| followed.trace.opaque || followed.trace.sets.contains(name))
                || view.declares(name)
                || script.step.arg("env").is_some_and(|env| env.get(name).is_some())
        };
        content.program.walk(&mut |statement| found.extend(otherwise(statement, content, &known)));
        if script.phase == PhaseKind::Verify {
            unquoted_conditions(content, &mut found);
            printed_forms(content, &mut found);
            defaults(content, &mut found);
            searches(content, followed, &mut found);
            bytes(content, &mut found);
            embedded::patterns(content, &mut found);
            if crate::lint::analysis::texts::sees_answer(script.step) {
                digits(content, &mut found);
            }
            for (span, message, help) in embedded::mixtures(content).into_iter().chain(embedded::rounds(content)) {
                out.push(Diagnostic::new(&COMPARES_OTHERWISE, span, message).help(help).strength(Strength::Warning));
            }
        }
        for (span, message, help) in found {
            let finding = Diagnostic::new(&COMPARES_OTHERWISE, span, message).help(help);
            out.push(if script.phase == PhaseKind::Verify { finding } else { finding.strength(Strength::Warning) });
        }
    }
}

/// `value: "80"` for a field with a number, `.data.size == 3` for one with strings, `64m` for a number of bytes.
fn values(view: &TaskView<'_>, out: &mut Diagnostics) {
    let mut programs: FxHashSet<&str> = FxHashSet::default();
    for script in view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify) {
        script.content.program.walk(&mut |s| {
            programs.insert(s.tool());
        });
    }
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            if matches!(step.op.kind, crate::hir::OperationKind::Extension { .. }) && step.arg("jsonpath").is_some() {
                programs.insert("kubectl");
            }
        });
    });
    // Data from other sources may have fields with the same names.
    if programs.contains("curl") || programs.is_empty() {
        return;
    }
    for fact in crate::lint::analysis::facts::asked(view) {
        let is_number = programs.iter().any(|program| fields::is_number(program, &fact.key));
        let in_texts = fact.parent.as_ref().is_some_and(|parent| programs.iter().any(|p| fields::has_texts(p, parent)));
        let text = fact.text();
        let (message, right) = match &fact.value {
            _ if in_texts && fact.typed && (fact.value.is_number() || fact.value.is_boolean()) => {
                (format!("this field contains a string, but {text} is not a string"), format!("\"{text}\""))
            }
            serde_json::Value::String(_)
                if !in_texts
                    && fact.typed
                    && matches!(text.as_str(), "true" | "false")
                    && programs.iter().any(|program| fields::is_boolean(program, &fact.key)) =>
            {
                (format!("this field contains a Boolean, but \"{text}\" is a string"), text.clone())
            }
            serde_json::Value::String(_) if in_texts || !is_number => continue,
            serde_json::Value::String(_) if fact.typed && text.parse::<i64>().is_ok() => {
                (format!("this field contains a number, but \"{text}\" is a string"), text.clone())
            }
            serde_json::Value::String(_)
                // Several numbers, or what `tr` and the like make of them.
                if !text.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_punctuation() || b == b' ')
                    && text.starts_with(|c: char| c.is_ascii_alphanumeric())
                    && text.parse::<f64>().is_err()
                    && !matches!(text.as_str(), "null" | "None" | "none" | "nil")
                    && !text.contains([crate::lint::script::HOLE, '$', '(']) =>
            {
                out.push(
                    Diagnostic::new(
                        &COMPARES_OTHERWISE,
                        fact.span,
                        format!("`{}` is a number, so it never equals `{text}`", fact.key),
                    )
                    .help("compare with the printed number: bytes, seconds, a count"),
                );
                continue;
            }
            _ => continue,
        };
        let source = view.sources.get(fact.span.file);
        let here = source.text().get(fact.span.start as usize..fact.span.end as usize).unwrap_or_default();
        let mut finding = Diagnostic::new(&COMPARES_OTHERWISE, fact.span, message);
        if here.trim_matches(['"', '\'']) == text {
            let fix = if in_texts { "add quotes" } else { "remove the quotes" };
            let help =
                if in_texts { format!("write {right} in quotes") } else { format!("write {right} without quotes") };
            finding = finding.help(help).fix(fix, fact.span, right);
        } else {
            finding = finding.help(format!("compare with {right}"));
        }
        out.push(finding);
    }
}

/// `equals: "1"` for a field that setup has set to a number: JSON distinguishes the two.
fn types(view: &TaskView<'_>, out: &mut Diagnostics) {
    let is_json = |step: &crate::hir::Step<crate::hir::Def>| {
        matches!(step.op.kind, crate::hir::OperationKind::Builtin("http") | crate::hir::OperationKind::Tool { .. })
    };
    let mut spans: Vec<Span> = Vec::new();
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            spans.extend(step.expect.iter().filter(|_| is_json(step)).map(|(_, expect)| expect.span))
        });
    });
    let inside = |span: Span| spans.iter().any(|s| s.file == span.file && s.start <= span.start && span.end <= s.end);
    let asked: Vec<_> =
        crate::lint::analysis::facts::asked(view).iter().filter(|fact| inside(fact.span) || fact.typed).collect();
    if asked.is_empty() {
        return;
    }
    let given = crate::lint::analysis::facts::given(view);
    for question in &asked {
        let mut same = given.iter().filter(|fact| fact.key == question.key).peekable();
        let Some(first) = same.peek().copied() else {
            let number = question.value.as_str().is_some_and(|text| text.parse::<u64>().is_ok());
            if number && fields::is_number("jq", &question.key) {
                out.push(
                    Diagnostic::new(
                        &COMPARES_OTHERWISE,
                        question.span,
                        format!("`{}` is probably a number, but \"{}\" is a string", question.key, question.text()),
                    )
                    .help("JSON values are equal only if their types are equal")
                    .strength(Strength::Warning),
                );
            } else if let Some(other) = asked.iter().find(|other| is_other_type(question, other)) {
                out.push(
                    Diagnostic::new(
                        &COMPARES_OTHERWISE,
                        question.span,
                        format!(
                            "`{}` is {} here, and {} in another check",
                            question.key,
                            noun(&question.value),
                            noun(&other.value)
                        ),
                    )
                    .label(other.span, "the other check")
                    .help("JSON values are equal only if their types are equal")
                    .strength(Strength::Warning),
                );
            }
            continue;
        };
        let kind = |value: &serde_json::Value| (value.is_number(), value.is_string(), value.is_boolean());
        let scalar = |value: &serde_json::Value| value.is_number() || value.is_string() || value.is_boolean();
        if scalar(&question.value) && same.all(|fact| scalar(&fact.value) && kind(&fact.value) != kind(&question.value))
        {
            let (text, number) = (question.text(), first.value.is_number());
            let reads = match number {
                true => text.parse::<f64>().is_ok(),
                false => true,
            };
            // The values of options, as in `--set replicaCount=1`, have no type.
            if reads && (number || inside(question.span)) {
                out.push(
                    Diagnostic::new(
                        &COMPARES_OTHERWISE,
                        question.span,
                        format!(
                            "setup sets `{}` to {}, but this is {}",
                            question.key,
                            noun(&first.value),
                            noun(&question.value)
                        ),
                    )
                    .label(first.span, "set here")
                    .help("JSON values are equal only if their types are equal")
                    .strength(if inside(question.span) {
                        Strength::Verdict
                    } else {
                        Strength::Warning
                    }),
                );
            }
        }
    }
}

/// Whether a check compares a field with a number or a Boolean in quotes, and another check compares a field of this name,
/// in an object of the same name, with one without quotes.
fn is_other_type(question: &crate::lint::analysis::facts::Fact, other: &crate::lint::analysis::facts::Fact) -> bool {
    // Fields in which objects of different kinds have values of different types.
    let mixed = matches!(question.key.as_str(), "value" | "id" | "version" | "default" | "key" | "data" | "result");
    let text = question.value.as_str().unwrap_or_default();
    let alike = match &other.value {
        serde_json::Value::Number(_) => text.parse::<f64>().is_ok(),
        serde_json::Value::Bool(_) => matches!(text, "true" | "false"),
        _ => false,
    };
    // At the top level, fields of unrelated documents may have the same name.
    let same = question.parent.is_some() && question.parent == other.parent && question.key == other.key;
    alike && same && !mixed && question.exact && other.exact
}

/// `contains: web` for a field that setup sets to `web-old`, which also contains it.
fn partial(view: &TaskView<'_>, out: &mut Diagnostics) {
    let mut asked: Vec<(Span, String, String)> = Vec::new();
    let mut loops: Vec<(&str, Vec<&str>)> = Vec::new();
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            if let (Some(var), Some(crate::hir::ArgKind::List(values))) =
                (&step.var, step.arg("in").map(|list| &list.kind))
            {
                loops.push((&var.value, values.iter().filter_map(|value| value.as_literal()).collect()));
            }
            let Some(key) = step
                .arg("jsonpath")
                .and_then(|path| path.as_literal())
                .and_then(crate::lint::analysis::facts::last_name)
            else {
                return;
            };
            let expect = step.expect.as_ref().and_then(|(_, expect)| expect.get("value")?.get("contains"));
            let Some(contains) = expect else { return };
            let written = crate::lint::analysis::texts::script_text(contains).unwrap_or_default();
            let of_loop = loops.iter().find(|(var, _)| written == format!("{{{var}}}"));
            match of_loop {
                Some((_, values)) => {
                    asked.extend(values.iter().map(|value| (contains.span, key.clone(), (*value).to_owned())))
                }
                None => asked.push((contains.span, key, written)),
            }
        });
    });
    if asked.is_empty() {
        return;
    }
    let given = crate::lint::analysis::facts::given(view);
    let mut told: FxHashSet<Span> = FxHashSet::default();
    for (span, key, wanted) in asked.into_iter().filter(|(.., wanted)| wanted.len() > 1 && !wanted.contains('{')) {
        let other = given.iter().find(|fact| fact.key == key && fact.text() != wanted && fact.text().contains(&wanted));
        if let Some(other) = other.filter(|_| told.insert(span)) {
            out.push(
                Diagnostic::new(&COMPARES_OTHERWISE, span, format!("`{}` also contains `{wanted}`", other.text()))
                    .label(other.span, "setup sets the field to this value")
                    .help("compare the whole value")
                    .strength(Strength::Warning),
            );
        }
    }
}

/// `grep -q 3` in an answer: 13 and 30 also contain the digit.
fn digits(content: &Content, found: &mut Vec<Fault>) {
    content.program.walk(&mut |s| {
        if !matches!(s.name(), "grep" | "egrep" | "fgrep") {
            return;
        }
        let words = s.words();
        let whole = words.iter().skip(1).any(|word| {
            let letters = word.text.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
            letters.is_some_and(|rest| rest.contains(['w', 'x', 'o', 'v'])) || word.text.starts_with("--")
        });
        let pattern = tools::searched(&words[1..]);
        if let Some(pattern) = pattern.filter(|word| {
            !whole && word.literal && (1..4).contains(&word.text.len()) && word.text.bytes().all(|b| b.is_ascii_digit())
        }) {
            found.push((content.span(s.range.clone()), any_number(&pattern.text), AS_A_WHOLE));
        }
    });
}

/// `kubectl get deployment web -o jsonpath='{.spec.replicas}' | grep -q 3`: 13 and 30 also contain the digit. Requires
/// that a number or a list is printed.
fn numbers(view: &TaskView<'_>, out: &mut Diagnostics) {
    for question in view.asked() {
        let Demand::Matches { pattern, options } = &question.demand else { continue };
        let program = question.runs.first().map_or("", |run| run.statement.tool());
        let counts = match &question.form {
            Form::Rows | Form::Count => true,
            Form::Field(path) => path.rsplit('.').next().is_some_and(|field| fields::is_number(program, field)),
            _ => false,
        };
        let bare = pattern.len() < 4 && !pattern.is_empty() && pattern.bytes().all(|b| b.is_ascii_digit());
        if counts && bare && !options.contains(['w', 'x', 'o', 'v']) {
            out.push(Diagnostic::new(&COMPARES_OTHERWISE, question.span, any_number(pattern)).help(AS_A_WHOLE));
        }
    }
}

/// `helm list -o json | grep -x web`: in a line of JSON, a name is quoted.
fn lines_of_json(view: &TaskView<'_>, out: &mut Diagnostics) {
    for question in view.asked() {
        let (Demand::Matches { pattern, options }, [run]) = (&question.demand, question.runs.as_slice()) else {
            continue;
        };
        let words: Vec<&str> = run.words.iter().filter_map(Value::literal).collect();
        let json = matches!(run.statement.tool(), "kubectl" | "helm" | "docker")
            && asked::value_of(&words, "-o", "--output").is_some_and(|form| form == "json");
        let anchored = pattern.strip_prefix('^').and_then(|rest| rest.strip_suffix('$'));
        let word = anchored.or(Some(pattern.as_str()).filter(|_| options.contains('x'))).unwrap_or_default();
        let plain = word.len() > 1
            && word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !matches!(word, "true" | "false" | "null");
        if json && plain && word.bytes().any(|b| b.is_ascii_alphabetic()) {
            let message = format!("this output is JSON: no line consists of `{word}` alone");
            let help = "extract the names first: `jq -r '.[].name'`";
            out.push(
                Diagnostic::new(&COMPARES_OTHERWISE, question.span, message).help(help).strength(Strength::Warning),
            );
        }
    }
}

/// `[ $(kubectl get pods | wc -l) -eq 3 ]`: the first line is a header. Requires that the
/// prompt names exactly this number.
fn headers(view: &TaskView<'_>, out: &mut Diagnostics) {
    let said = view.effects.prompt.shown().to_lowercase();
    const WORDS: [&str; 9] = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"];
    for question in view.asked() {
        let ([first, last], Form::Count, Demand::Compared { operator, with }) =
            (question.runs.as_slice(), &question.form, &question.demand)
        else {
            continue;
        };
        let equal = matches!(operator.as_str(), "=" | "==" | "!=" | "-eq" | "-ne" | "-ge");
        let word = with.parse::<usize>().ok().and_then(|number| WORDS.get(number.checked_sub(1)?));
        let named = crate::lint::analysis::texts::has_word(&said, with)
            || word.is_some_and(|word| crate::lint::analysis::texts::has_word(&said, word));
        if equal && named && last.statement.name() == "wc" && asked::is_headed(first) {
            out.push(
                Diagnostic::new(&COMPARES_OTHERWISE, question.span, "the header line is counted as well")
                    .help("omit the header: `--no-headers`, `-o name`"),
            );
        }
    }
}

fn any_number(digits: &str) -> String {
    format!("any number that contains `{digits}` matches: 1{digits}, {digits}0")
}

const AS_A_WHOLE: &str = "match the whole number: `grep -w`";

/// `running` instead of `Running`: phases are case-sensitive.
fn phases(view: &TaskView<'_>, out: &mut Diagnostics) {
    const PHASES: [&str; 18] = [
        "Pending",
        "Running",
        "Succeeded",
        "Failed",
        "Unknown",
        "Bound",
        "Active",
        "Terminating",
        "Available",
        "Released",
        "Lost",
        "Stopped",
        "Starting",
        "Provisioning",
        "Migrating",
        "Paused",
        "Scheduling",
        "Scheduled",
    ];
    for fact in crate::lint::analysis::facts::asked(view) {
        let text = fact.text();
        let phase = PHASES.iter().find(|phase| phase.eq_ignore_ascii_case(&text) && **phase != text);
        if let Some(phase) = phase.filter(|_| matches!(fact.key.as_str(), "phase" | "printableStatus")) {
            out.push(
                Diagnostic::new(
                    &COMPARES_OTHERWISE,
                    fact.span,
                    format!("the {} is spelled `{phase}`, with a capital letter", fact.key),
                )
                .help(format!("write `{phase}`")),
            );
        }
    }
}

fn noun(value: &serde_json::Value) -> &'static str {
    match value {
        serde_json::Value::Number(_) => "a number",
        serde_json::Value::Bool(_) => "a boolean",
        _ => "a string",
    }
}

type Fault = (Span, String, &'static str);

fn otherwise(statement: &Statement, content: &Content, known: &dyn Fn(&str) -> bool) -> Option<Fault> {
    let text = content.text.get(statement.range.clone())?;
    let span = || content.span(statement.range.clone());
    let is_test = matches!(statement.kind, Kind::Test) || statement.name() == "test" || statement.name() == "[";
    if !is_test || text.starts_with("((") {
        return None;
    }
    let is_double = text.starts_with("[[");
    let words = ast::split(text, statement.range.start);
    let is_number =
        |word: &ast::Word| word.literal().is_some_and(|text| !text.is_empty() && text.parse::<f64>().is_ok());
    for (at, word) in words.iter().enumerate() {
        let (left, right) = (at.checked_sub(1).and_then(|at| words.get(at)), words.get(at + 1));
        match word.source.as_str() {
            ">" | "<" if !is_double => {
                return Some((
                    span(),
                    format!(
                        "`{}` is a redirection here: it {} a file",
                        word.source,
                        if word.source == ">" { "writes" } else { "reads" }
                    ),
                    "use `-gt`, `-ge`, `-lt` or `-le` to compare numbers",
                ));
            }
            ">" | "<"
                if left.is_some_and(is_number)
                    || right.is_some_and(is_number)
                    || [left, right].into_iter().flatten().any(|word| is_counter(word, content)) =>
            {
                return Some((
                    span(),
                    format!("`{}` compares strings: 10 sorts before 9", word.source),
                    "use `-gt`, `-ge`, `-lt`, `-le` or `(( … ))` to compare numbers",
                ));
            }
            "-eq" | "-ne" | "-gt" | "-ge" | "-lt" | "-le" => {
                let text = |word: &ast::Word| {
                    word.literal().filter(|text| !text.is_empty() && text.trim().parse::<i64>().is_err())
                };
                let operand = [left, right].into_iter().flatten().find_map(text);
                // In `[[ … ]]` a name is a variable.
                let operand = operand.filter(|text| !(is_double && ast::is_name(text) && known(text)));
                if let Some(operand) = operand.filter(|operand| !operand.contains(crate::lint::script::HOLE)) {
                    return Some((
                        span(),
                        format!("`{}` compares numbers, but `{operand}` is not a number", word.source),
                        "use `=` or `!=` to compare strings",
                    ));
                }
            }
            "-z" | "-n" if right.and_then(|word| word.variable()).is_some_and(|name| counts(content, name)) => {
                return Some((
                    span(),
                    "a count or a status is never empty: if there is nothing, it is 0".to_owned(),
                    "compare with 0: `-eq 0`, `-gt 0`",
                ));
            }
            "-n" if !is_double && unquoted(right) && words.len() <= 4 => {
                return Some((
                    span(),
                    "this is true even if the variable is empty".to_owned(),
                    "put the variable in double quotes: `[ -n \"$x\" ]`",
                ));
            }
            "=~" if right.is_some_and(|word| is_quoted_regex(word, content)) => {
                return Some((
                    span(),
                    "the pattern is quoted, so it is matched literally".to_owned(),
                    "remove the quotes, or put the pattern into a variable: `[[ $x =~ $pattern ]]`",
                ));
            }
            "=" | "==" | "!=" if is_double && right.is_some_and(is_quoted_pattern) => {
                return Some((
                    span(),
                    "the pattern is quoted, so `*` is matched literally".to_owned(),
                    "do not quote the `*`",
                ));
            }
            "=" | "==" | "!=" => {
                if let (Some(left), Some(right)) = (left, right)
                    && left.source == right.source
                    && left.parts.iter().any(|part| matches!(part, Part::Var { .. }))
                    && !left.parts.iter().any(|part| matches!(part, Part::Command { .. }))
                {
                    return Some((span(), "both operands are the same".to_owned(), "compare with the expected value"));
                }
            }
            _ => {}
        }
    }
    None
}

/// `[ "${ready:-3}" -eq 3 ]`: if nothing was found, the default equals the expected value.
fn defaults(content: &Content, found: &mut Vec<Fault>) {
    content.program.walk(&mut |s| {
        if !(matches!(s.kind, Kind::Test) || s.name() == "test") {
            return;
        }
        let words = ast::split(content.text.get(s.range.clone()).unwrap_or_default(), s.range.start);
        for triple in words.windows(3) {
            let compares = matches!(triple[1].source.as_str(), "=" | "==" | "!=" | "-eq" | "-ne" | "-ge" | "-le");
            let given = match triple[0].parts.as_slice() {
                [Part::Var { name, default: Some(default), .. }] => ast::literal(default).map(|value| (name, value)),
                _ => None,
            };
            let Some((name, value)) = given.filter(|_| compares) else { continue };
            let wanted = triple[2].literal().filter(|wanted| *wanted == value);
            // A word such as `missing` indicates that nothing was found.
            let counts = value.parse::<u64>().is_ok_and(|number| number > 0);
            let holds = counts
                || matches!(value.as_str(), "true" | "True" | "running" | "Running" | "Ready" | "ok" | "OK" | "200");
            if let Some(wanted) = wanted.filter(|_| holds && captured(content).contains(name)) {
                found.push((
                    content.span(s.range.clone()),
                    format!("if `{name}` is empty, it defaults to `{wanted}`, which is the expected value"),
                    "use a default that fails the test: `${x:-}`, `${x:-0}`",
                ));
            }
        }
    });
}

/// `grep -qF 'a|b'`, in which no character is special, and `grep "$ANSWER"`, in which the
/// agent's answer is the pattern.
fn searches(content: &Content, followed: Option<&crate::effects::Followed<'_>>, found: &mut Vec<Fault>) {
    for command in content.program.commands().into_iter().filter(|command| matches!(command.name(), "grep" | "fgrep")) {
        let words = command.words();
        let short = |letter: char| {
            words.iter().any(|w| w.text.starts_with('-') && !w.text.starts_with("--") && w.text.contains(letter))
        };
        let fixed = command.name() == "fgrep" || short('F') || words.iter().any(|word| word.text == "--fixed-strings");
        let Some(pattern) = tools::searched(&words[1..]) else { continue };
        let text = pattern.text.as_str();
        let letters = |text: &str| text.ends_with(|c: char| c.is_ascii_alphabetic());
        let either = short('i')
            && text
                .split_once('|')
                .is_some_and(|(a, b)| letters(a.trim_end()) && b.trim().starts_with(char::is_alphanumeric));
        if fixed && pattern.literal && (either || text.contains(".*") || text.starts_with('^')) {
            found.push((
                content.span(command.range.clone()),
                format!("`-F` searches for the literal text `{text}`, not for a pattern"),
                "remove `-F`: `grep -E 'a|b'`",
            ));
        }
    }
    for run in followed.iter().flat_map(|followed| &followed.trace.runs).filter(|run| run.statement.name() == "grep") {
        let is_option = |word: &Value| word.shown().starts_with('-');
        let mut operands = run.words.iter().skip(1).filter(|word| !is_option(word));
        let is_answer = operands.next().is_some_and(|word| *word == Value::name("{agent.output}"));
        let whole = run.words.iter().any(|word| {
            let word = word.shown();
            word == "--line-regexp" || word.starts_with('-') && !word.starts_with("--") && word.contains('x')
        });
        if is_answer && !whole && std::ptr::eq(run.content, content) {
            found.push((
                content.span(run.statement.range.clone()),
                "the agent's answer is used as the pattern here: an empty answer or `.` matches everything".to_owned(),
                "search the answer for the expected text: `printf '%s' \"$ANSWER\" | grep -qF \"$EXPECTED\"`",
            ));
        }
    }
}

/// `n=$(kubectl get … -o jsonpath='{.items[*]…}' | wc -c)`, and then `n < 2`: characters
/// are counted instead of resources.
fn bytes(content: &Content, found: &mut Vec<Fault>) {
    content.program.walk(&mut |s| {
        let Kind::Pipeline(parts) = &s.kind else { return };
        let [before @ .., last] = parts.as_slice() else { return };
        let counts = last.name() == "wc" && last.words().iter().any(|word| matches!(word.text.as_str(), "-c" | "-m"));
        let lists = before.iter().flat_map(Statement::words).any(|word| {
            matches!(word.text.as_str(), "ls" | "name" | "--no-headers" | "find")
                || word.text.contains("[*]")
                || word.text.contains(".items")
        });
        let thins = before.iter().any(|part| matches!(part.name(), "tr" | "sed"));
        if counts && lists && !thins && is_several(content, s) {
            found.push((
                content.span(last.range.clone()),
                "`wc -c` counts bytes, not the items of a list".to_owned(),
                "count words or lines: `wc -w`, `wc -l`",
            ));
        }
    });
}

/// Whether the output of a command is compared with 2 or more.
fn is_several(content: &Content, command: &Statement) -> bool {
    let start = content.text[..command.range.start].rfind('\n').map_or(0, |at| at + 1);
    let head = content.text[start..command.range.start].trim();
    let name = head.strip_suffix("=$(").or_else(|| head.strip_suffix("=\"$("));
    let name = name.map(|name| name.rsplit(' ').next().unwrap_or(name)).filter(|name| ast::is_name(name));
    let asks = |line: &str| SEVERAL.captures_iter(line).any(|found| found[1].parse::<u64>().is_ok_and(|n| n > 1));
    match name {
        Some(name) => content.text.lines().any(|line| line.contains(name) && asks(line)),
        None => content.text[start..].lines().next().is_some_and(asks),
    }
}

static SEVERAL: Ascii = ascii(r"(?:-(?:eq|ne|lt|le|gt|ge)|[<>=!]=|[<>])\s*(\d+)\b");

/// Whether a word is a numeric variable: a number of seconds, or a counter.
fn is_counter(word: &ast::Word, content: &Content) -> bool {
    word.variable().is_some_and(|name| {
        matches!(name, "SECONDS" | "EPOCHSECONDS" | "RANDOM" | "LINENO")
            || content.text.contains(&format!("{name}=$(("))
            || content.text.contains(&format!("(({name}++"))
            || content.text.contains(&format!("{name}=$(date +%s"))
            || counts(content, name)
    })
}

/// `=~ "^v1"`, where the whole pattern is quoted.
fn is_quoted_regex(word: &ast::Word, content: &Content) -> bool {
    // Uses the source text, because the word splitter may split the pattern.
    let text = content.text.get(word.range.clone()).unwrap_or_default();
    text.starts_with(['"', '\''])
        && text.len() > 2
        && text.ends_with(['"', '\''])
        && word.literal().is_some_and(|inner| {
            inner.starts_with('^')
                || inner.ends_with('$')
                || [".*", ".+", "|", "[0-9]", "[a-z", "\\d"].iter().any(|sign| inner.contains(sign))
        })
}

/// `if [ $x != ok ]; then exit 1; fi`: if `$x` is empty, the test is an error, which
/// counts as false, and verify passes.
fn unquoted_conditions(content: &Content, found: &mut Vec<Fault>) {
    let program = &content.program;
    let captured = captured(content);
    let mut fails: Vec<&str> = Vec::new();
    program.walk(&mut |s| match &s.kind {
        Kind::Function { name, body } if body.iter().any(ends_badly) => fails.push(name),
        _ => {}
    });
    let ends = |list: &[Statement]| list.iter().any(|s| ends_badly(s) || fails.contains(&s.name()));
    let mut conditions: Vec<&Statement> = Vec::new();
    program.walk(&mut |s| match &s.kind {
        Kind::If { branches, otherwise: None } => {
            for branch in branches {
                if let ([.., last], true) = (branch.condition.as_slice(), ends(&branch.body)) {
                    conditions.push(last);
                }
            }
        }
        Kind::And(pair) if ends(&pair[1..]) => conditions.push(&pair[0]),
        _ => {}
    });
    for condition in conditions {
        // Both operands of `||` and `&&` are tests of their own.
        let mut open = vec![condition];
        while let Some(condition) = open.pop() {
            if let Kind::Or(pair) | Kind::And(pair) = &condition.kind {
                open.extend(pair.iter());
                continue;
            }
            let text = content.text.get(condition.range.clone()).unwrap_or_default();
            let single = matches!(condition.kind, Kind::Test) && !text.starts_with("[[") && !text.starts_with("((")
                || condition.name() == "test";
            if !single {
                continue;
            }
            let words = ast::split(text, condition.range.start);
            let compares = words.iter().any(|word| {
                matches!(word.source.as_str(), "=" | "==" | "!=" | "-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge")
            });
            let bare = words.iter().find(|word| match word.parts.as_slice() {
                [Part::Var { quoted: false, name, .. }] => captured.contains(name),
                [Part::Command { quoted: false, .. }] => {
                    condition.nested.is_empty() || !condition.nested.iter().all(always_prints)
                }
                _ => false,
            });
            if let Some(word) = bare.filter(|_| compares) {
                found.push((
                    content.span(condition.range.clone()),
                    format!("if `{}` is empty, this test is an error, which counts as false", word.source),
                    "put it in double quotes, or compare in `[[ … ]]`",
                ));
            }
        }
    }
}

/// Returns the variables that hold the output of a command, which may be empty.
fn captured(content: &Content) -> Vec<String> {
    let mut found = Vec::new();
    content.program.walk(&mut |s| {
        if matches!(s.kind, Kind::Assignment | Kind::Declaration) && !s.nested.iter().all(always_prints) {
            let text = content.text.get(s.range.clone()).unwrap_or_default();
            found.extend(ast::words(text, 0).filter_map(|word| Some(word.source.split_once('=')?.0.to_owned())));
        }
    });
    found
}

/// `… | wc -l` and `… | grep -c` print a number in any case.
fn always_prints(statement: &Statement) -> bool {
    match &statement.kind {
        Kind::Pipeline(parts) => parts.last().is_some_and(|last| last.name() == "wc" || counts_input(last)),
        // `… | grep -c x || true`
        Kind::Or(pair) => always_prints(&pair[0]),
        _ => false,
    }
}

/// Whether a command is `grep -c` without a file, which prints 0 if its input is empty.
fn counts_input(statement: &Statement) -> bool {
    let Some((_, words)) = statement.words().split_first().filter(|_| is_grep(statement)) else { return false };
    let mut counts = false;
    for option in words.iter().map(|word| word.text.as_str()).filter(|text| text.starts_with('-')) {
        match option {
            "--count" => counts = true,
            _ if option.starts_with("--") => return false,
            _ if option.contains(['q', 'L', 'l', 'e', 'f', 'r', 'm']) => return false,
            _ => counts |= option.contains('c'),
        }
    }
    counts && words.iter().filter(|word| !word.text.starts_with('-')).count() == 1
}

fn is_grep(statement: &Statement) -> bool {
    matches!(statement.name(), "grep" | "egrep" | "fgrep")
}

/// `exit 1`, `return 1`.
fn ends_badly(statement: &Statement) -> bool {
    matches!(statement.name(), "exit" | "return") && statement.words().get(1).is_some_and(|word| word.text != "0")
        || matches!(&statement.kind, Kind::Group(list) if list.iter().any(ends_badly))
}

/// Output formats of programs: `jq` without `-r` quotes strings, `-o name` adds the kind before a name.
fn printed_forms(content: &Content, found: &mut Vec<Fault>) {
    let program = &content.program;
    // Captures whose output is assigned to each variable, and the variables that are also assigned other values.
    let mut captures: FxHashMap<String, Vec<&Statement>> = FxHashMap::default();
    let mut others: FxHashSet<String> = FxHashSet::default();
    program.walk(&mut |s| {
        if matches!(s.kind, Kind::Assignment | Kind::Declaration) {
            let text = content.text.get(s.range.clone()).unwrap_or_default();
            for word in ast::split(text, 0) {
                let Some((name, value)) = word.source.split_once('=') else { continue };
                let value = value.trim_matches('"');
                match s.nested.as_slice() {
                    [inner] if value.starts_with("$(") && value.ends_with(')') => {
                        captures.entry(name.to_owned()).or_default().push(inner)
                    }
                    _ => drop(others.insert(name.to_owned())),
                }
            }
        }
    });
    program.walk(&mut |s| {
        let text = content.text.get(s.range.clone()).unwrap_or_default();
        if !(matches!(s.kind, Kind::Test) || s.name() == "test") || text.starts_with("((") {
            return;
        }
        let words = ast::split(text, s.range.start);
        for triple in words.windows(3) {
            let [left, operator, right] = triple else { continue };
            let counts = matches!(operator.source.as_str(), "-eq" | "-ne" | "-ge" | "-gt" | "-le" | "-lt");
            if !counts && !matches!(operator.source.as_str(), "=" | "==" | "!=") {
                continue;
            }
            let Some(expected) = right.literal().filter(|text| !text.is_empty() && !text.contains('*')) else {
                continue;
            };
            let inner = match left.parts.as_slice() {
                // `[ "$(jq …)" = "[1,2]" ]`
                [Part::Command { .. }] if s.nested.len() == 1 => &s.nested[0],
                _ => {
                    let Some(name) = left.variable().filter(|name| !others.contains(*name)) else { continue };
                    let Some([inner]) = captures.get(name).map(Vec::as_slice) else { continue };
                    inner
                }
            };
            let last = match &inner.kind {
                Kind::Pipeline(parts) => parts.last().unwrap_or(inner),
                _ => inner,
            };
            let quoted = left.source.starts_with('"');
            // `answers` reports the other forms of a direct comparison.
            let is_direct = matches!(left.parts.as_slice(), [Part::Command { .. }]);
            if is_direct && !(last.tool() == "jq" && jq_types::is_spread(last.words(), &expected)) {
                continue;
            }
            let form = if counts { None } else { form(last, &expected) };
            if let Some(form) = form.or_else(|| of_table(last, &expected, quoted && !counts)) {
                found.push((content.span(s.range.clone()), form.0, form.1));
            }
        }
    });
}

/// `psql -c` without `-t`, and `mysql -e` without `-N`: a header precedes the value that is compared with a number.
/// `padded`: whether a leading blank matters.
fn of_table(command: &Statement, expected: &str, padded: bool) -> Option<(String, &'static str)> {
    let words = command.words();
    let at = words.iter().position(|word| matches!(word.text.as_str(), "psql" | "mysql" | "mariadb"))?;
    let within = matches!(command.tool(), "docker" | "kubectl") && at > 0;
    let options: Vec<&str> = words[at + 1..].iter().map(|word| word.text.as_str()).collect();
    let short = |letters: &[char]| {
        options.iter().any(|word| word.starts_with('-') && !word.starts_with("--") && word.contains(letters))
    };
    let long = |names: &[&str]| options.iter().any(|word| names.iter().any(|name| word.starts_with(name)));
    if !(at == 0 || within) || expected.parse::<f64>().is_err() {
        return None;
    }
    if words[at].text != "psql" {
        let asks = options.contains(&"-e") || long(&["--execute"]);
        let bare = short(&['N', 's', 'E']) || long(&["--skip-column", "--silent", "--vertical", "--disable-column"]);
        return (asks && !bare).then(|| {
            (
                format!("`mysql` prints a header line: its output is never equal to `{expected}`"),
                "omit the header: `mysql -N`",
            )
        });
    }
    let asks = short(&['c']) || long(&["--command"]);
    let shaped = short(&['P', 'H', 'x', 'o']) || long(&["--pset", "--html", "--expanded", "--output", "--csv"]);
    let (bare, aligned) = (short(&['t']) || long(&["--tuples-only"]), !(short(&['A']) || long(&["--no-align"])));
    match (bare, aligned) {
        _ if !asks || shaped => None,
        (false, _) => Some((
            format!("`psql` prints a header line and a row count: its output is never equal to `{expected}`"),
            "omit them: `psql -tA`",
        )),
        (true, true) if padded => Some((
            format!("`psql -t` prints a leading space: its output is never equal to `{expected}`"),
            "omit the space: `psql -tA`",
        )),
        _ => None,
    }
}

/// Returns what is wrong if the output of a command is compared with this text.
fn form(command: &Statement, expected: &str) -> Option<(String, &'static str)> {
    let words = command.words();
    let has = |options: &[&str]| words.iter().any(|word| options.contains(&word.text.as_str()));
    match command.tool() {
        "jq" if jq_types::is_spread(words, expected) => Some((
            format!("`jq` prints this over several lines: its output is never equal to `{expected}`"),
            "write `jq -c`",
        )),
        "jq" => {
            let raw = words.iter().skip(1).any(|w| {
                matches!(w.text.as_str(), "--raw-output" | "--join-output" | "--raw-output0" | "--tojson")
                    || w.text.starts_with('-') && !w.text.starts_with("--") && w.text.contains(['r', 'j'])
            });
            let filter = words.iter().skip(1).find(|word| !word.text.starts_with('-'))?;
            let path = filter.text.trim_matches(['\'', '"']);
            let is_path = path.starts_with('.')
                && path.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '[' | ']' | '-'));
            let plain = expected.parse::<f64>().is_err()
                && !matches!(expected, "true" | "false" | "null")
                && !expected.starts_with(['"', '{', '[']);
            (is_path && !raw && plain).then(|| {
                (format!("`jq` prints strings in quotes: its output is never equal to `{expected}`"), "write `jq -r`")
            })
        }
        "kubectl" => {
            let named = has(&["-oname", "-o=name", "--output=name"])
                || words
                    .windows(2)
                    .any(|pair| matches!(pair[0].text.as_str(), "-o" | "--output") && pair[1].text == "name");
            (named && !expected.contains('/')).then(|| {
                (
                    format!("`-o name` prints the kind before the name: its output is never equal to `{expected}`"),
                    "compare with `KIND/NAME`, or use `-o jsonpath={.metadata.name}`",
                )
            })
        }
        _ => None,
    }
}

/// `"nginx:*"`, with a star inside the quotes. In the schedule `"0 0 * * *"`, a star is a word of its own.
fn is_quoted_pattern(word: &ast::Word) -> bool {
    let text = word.source.trim_matches(['"', '\'']);
    word.source.starts_with(['"', '\''])
        && word.literal().is_some()
        && (text.ends_with('*') || text.starts_with('*'))
        && text.len() > 1
        && !(text.split(' ').count() > 4 && text.bytes().all(|b| b.is_ascii_digit() || b" */,-".contains(&b)))
}

static COUNT: Ascii = ascii(r"(?i)^[\s\S]{0,80}\bselect\s+count\(");

/// Whether a variable is only ever set to the output of `wc`, `grep -c` or `curl -w`, or to
/// the result of `select count(*)`.
pub fn counts(content: &Content, name: &str) -> bool {
    let (mut all, mut any) = (true, false);
    content.program.walk(&mut |statement| {
        if !matches!(statement.kind, Kind::Assignment | Kind::Declaration) {
            return;
        }
        let text = content.text.get(statement.range.clone()).unwrap_or_default();
        let Some(value) = ast::split(text, 0)
            .into_iter()
            .find_map(|word| Some(word.source.strip_prefix(name)?.strip_prefix('=')?.to_owned()))
        else {
            return;
        };
        any = true;
        let last = statement.nested.last().map(|last| match &last.kind {
            Kind::Pipeline(parts) => parts.last().unwrap_or(last),
            _ => last,
        });
        let is_count = last.is_some_and(|last| {
            let words = last.words();
            let writes = words.iter().any(|word| matches!(word.text.as_str(), "-w" | "--write-out"));
            last.name() == "wc"
                || last.name() == "grep" && words.iter().any(|word| word.text == "-c")
                // curl writes `000` if there is no answer.
                || last.name() == "curl" && writes
                || COUNT.is_match(&value) && words.last().is_some_and(|word| COUNT.is_match(&word.text))
        });
        all &= is_count && statement.nested.len() == 1 && value.trim_matches('"').starts_with("$(");
    });
    any && all
}

fn unquoted(word: Option<&ast::Word>) -> bool {
    word.is_some_and(|word| {
        matches!(word.parts.as_slice(), [Part::Var { quoted: false, .. } | Part::Command { quoted: false, .. }])
    })
}

/// `kubectl get pod -n '$NS'`: single quotes prevent the expansion of a variable that the task has.
pub fn quoted(view: &TaskView<'_>, out: &mut Diagnostics) {
    for followed in &view.effects.scripts {
        let content = &followed.view.content;
        if !(content.text.contains('\'') && content.text.contains('$')) {
            continue;
        }
        let mut words: Vec<ast::Word> = Vec::new();
        let text_of = |statement: &Statement| content.text.get(statement.range.clone()).unwrap_or_default();
        let mut tests = String::new();
        content.program.walk(&mut |statement| {
            if matches!(statement.kind, Kind::Test) {
                tests.push_str(text_of(statement));
                tests.push(' ');
            }
        });
        // A variable that a test compares.
        let is_compared = |name: &str| tests.contains(&format!("${name}")) || tests.contains(&format!("${{{name}}}"));
        content.program.walk(&mut |statement| {
            if matches!(statement.kind, Kind::Assignment)
                && text_of(statement)
                    .split_once('=')
                    .is_some_and(|(name, value)| value.starts_with('\'') && is_compared(name))
            {
                words.extend(ast::split(text_of(statement), statement.range.start));
            }
            let takes = matches!(
                statement.tool(),
                "kubectl"
                    | "helm"
                    | "docker"
                    | "curl"
                    | "test"
                    | "["
                    | "echo"
                    | "printf"
                    | "virtctl"
                    | "git"
                    | "mkdir"
                    | "rm"
                    | "cat"
                    | "grep"
                    | "psql"
            );
            if matches!(statement.kind, Kind::Test) {
                let text = content.text.get(statement.range.clone()).unwrap_or_default();
                words.extend(ast::split(text, statement.range.start));
            } else if takes
                && !statement.words().iter().any(|word| {
                    matches!(word.text.as_str(), "--" | "sh" | "bash")
                        || word.text == "-c" && statement.tool() != "psql"
                })
            {
                let source = |range: &std::ops::Range<usize>| content.text.get(range.clone()).unwrap_or_default();
                let quoted = statement.words().iter().filter(|word| source(&word.range).contains('\''));
                words.extend(quoted.map(|word| ast::Word::read(source(&word.range), word.range.start)));
            }
        });
        filters(followed, view, out);
        let positional = content.program.body.iter().any(|s| s.function().is_some());
        let known = |name: &str| {
            followed.trace.sets.contains(name)
                || positional && name.len() == 1 && name.starts_with(|c: char| c.is_ascii_digit() && c != '0')
                || view.declares(name)
                || followed.view.step.arg("env").is_some_and(|env| env.get(name).is_some())
        };
        for word in words {
            for (at, inner) in single_quoted(&word.source) {
                let Some(name) = variable_in(inner).filter(|name| known(name)) else { continue };
                let range = word.range.start + at..word.range.start + at + inner.len() + 2;
                let span = content.span(range);
                let mut finding =
                    Diagnostic::new(&QUOTED_VARIABLE, span, format!("`${name}` is not expanded in single quotes"))
                        .help(format!("use double quotes: `\"…${name}…\"`"));
                if !inner.contains(['"', '`', '\\'])
                    && inner.matches('$').count() == 1
                    && content.style.is_none_or(|style| style == crate::yaml::Style::Literal)
                {
                    finding = finding.fix("use double quotes", span, format!("\"{inner}\""));
                }
                out.push(finding);
            }
        }
        documents(followed, &known, out);
    }
}

/// `<<'EOF'` around a variable that the script itself sets.
fn documents(followed: &crate::effects::Followed<'_>, known: &dyn Fn(&str) -> bool, out: &mut Diagnostics) {
    for run in followed.trace.runs.iter().filter(|run| run.statement.fed) {
        let text = run.content.text.get(run.statement.range.clone()).unwrap_or_default();
        let is_quoted = ["<<'", "<<\"", "<<-'", "<<-\""]
            .iter()
            .any(|mark| text.lines().next().is_some_and(|line| line.replace(' ', "").contains(mark)));
        let Some(input) = run.input.as_ref().and_then(crate::effects::value::Value::literal).filter(|_| is_quoted)
        else {
            continue;
        };
        let manifest = input.contains("apiVersion:") || input.trim_start().starts_with('{');
        let name = input.split('$').skip(1).find_map(|rest| {
            let rest = rest.trim_start_matches('{');
            let name = &rest[..rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len())];
            (known(name) && manifest).then_some(name)
        });
        if let Some(name) = name {
            let range = run.statement.range.start..run.statement.range.start + text.find('\n').unwrap_or(text.len());
            out.push(
                Diagnostic::new(
                    &QUOTED_VARIABLE,
                    run.content.span(range),
                    format!("`${name}` is not expanded in this here-document, because its delimiter is quoted"),
                )
                .help("remove the quotes around the delimiter after `<<`"),
            );
        }
    }
}

/// Returns the parts of a word in single quotes with their offsets, except inside double quotes. In `$(…)`, quoting starts
/// anew: the apostrophes in `"$(f "a '$x'")"` do not quote.
fn single_quoted(source: &str) -> Vec<(usize, &str)> {
    // For each `$(…)` around a position: whether it is inside double quotes, and the number of open parentheses.
    let (mut found, mut at, mut around) = (Vec::new(), 0, vec![(false, 0)]);
    while let Some(c) = source[at..].chars().next() {
        let is_inner = around.len() > 1;
        let Some((double, open)) = around.last_mut() else { break };
        match c {
            '"' => *double = !*double,
            '\\' => at += source[at + 1..].chars().next().map_or(0, char::len_utf8),
            '$' if source[at + 1..].starts_with('(') => {
                around.push((false, 0));
                at += 1;
            }
            '(' if !*double => *open += 1,
            ')' if !*double && *open > 0 => *open -= 1,
            ')' if !*double && is_inner => {
                around.pop();
            }
            '\'' if !*double => {
                let Some(end) = source[at + 1..].find('\'') else { break };
                found.push((at, &source[at + 1..at + 1 + end]));
                at += end + 1;
            }
            _ => {}
        }
        at += c.len_utf8();
    }
    found
}

/// Returns the variable that a single-quoted text seems to contain, unless the text is for a
/// program that interprets `$` itself.
fn variable_in(inner: &str) -> Option<&str> {
    if inner.contains(['(', ')', ';', '|', ' ', '\n'])
        || inner.contains("{.")
        || inner.contains("{{")
        || inner.ends_with('$')
    {
        return None;
    }
    let rest = inner.split_once('$')?.1.trim_start_matches('{');
    let name = &rest[..rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len())];
    let positional = inner == format!("${name}") && name.bytes().all(|b| b.is_ascii_digit());
    (ast::is_name(name) || positional).then_some(name)
}

/// Returns the positions of `$NAME` without a backslash.
fn places_of<'t>(text: &'t str, name: &'t str) -> impl Iterator<Item = usize> + 't {
    text.match_indices('$').map(|(at, _)| at).filter(move |at| {
        let rest = &text[at + 1..];
        !text[..*at].ends_with('\\')
            && rest
                .strip_prefix(name)
                .is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_'))
    })
}

/// `jq '.[] | select(.name == "$NAME")'`: a filter in single quotes with a shell variable inside a string; or in double
/// quotes with a jq variable, which the shell expands.
fn filters(followed: &crate::effects::Followed<'_>, view: &TaskView<'_>, out: &mut Diagnostics) {
    let content = &followed.view.content;
    let known = |name: &str| followed.trace.sets.contains(name) || view.declares(name);
    content.program.walk(&mut |statement| {
        if !matches!(statement.tool(), "jq" | "yq" | "awk" | "sed" | "kubectl" | "grep") {
            return;
        }
        if statement.words().iter().any(|word| matches!(word.text.as_str(), "--" | "sh" | "bash")) {
            return;
        }
        let given: Vec<&str> = statement
            .words()
            .windows(2)
            .filter(|pair| matches!(pair[0].text.as_str(), "--arg" | "--argjson" | "--slurpfile" | "--rawfile"))
            .map(|pair| pair[1].text.as_str())
            .collect();
        for word in statement.words() {
            let source = content.text.get(word.range.clone()).unwrap_or_default();
            let bound = given
                .iter()
                .find(|name| source.starts_with('"') && places_of(source, name).next().is_some() && !known(name));
            if let Some(name) = bound.filter(|_| statement.tool() == "jq") {
                out.push(
                    Diagnostic::new(
                        &QUOTED_VARIABLE,
                        content.span(word.range.clone()),
                        format!("the shell expands `${name}` in double quotes, so jq does not see it"),
                    )
                    .help("put the filter in single quotes"),
                );
            }
            for (at, inner) in single_quoted(source) {
                // A variable on its own is reported by `quoted`.
                if variable_in(inner).is_some() || !inner.contains('$') {
                    continue;
                }
                let name = inner.split('$').skip(1).find_map(|rest| {
                    let rest = rest.trim_start_matches('{');
                    let name =
                        &rest[..rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len())];
                    let bound = inner.contains(&format!("as ${name}")) || given.contains(&name);
                    (ast::is_name(name) && name.len() > 1 && known(name) && !bound).then_some(name)
                });
                let Some(name) = name else { continue };
                let range = word.range.start + at..word.range.start + at + inner.len() + 2;
                out.push(
                    Diagnostic::new(
                        &QUOTED_VARIABLE,
                        content.span(range),
                        format!("`${name}` is not expanded by the shell in single quotes"),
                    )
                    .help(match statement.tool() {
                        "jq" => "pass it as an argument: `jq --arg x \"$X\" '… $x …'`",
                        "awk" => "pass it as an argument: `awk -v x=\"$X\" '… x …'`",
                        _ => "use double quotes, and escape what the shell must not expand with a backslash",
                    }),
                );
            }
        }
    });
}
