//! Tests of shell that compare something else than their author thinks.

use super::{TaskView, script::Content};
use crate::{
    bash::{
        ast::{self, Part},
        program::{Kind, Statement},
    },
    diagnostic::{Diagnostic, Diagnostics, Strength},
    hir::PhaseKind,
    rule,
    source::Span,
};

rule! {
    pub static COMPARES_OTHERWISE = "compares-otherwise", Verdict;
    pub static QUOTED_VARIABLE = "quoted-variable", Verdict;
}

/// `[ $n > 3 ]` writes a file `3`, `[[ $n > 10 ]]` compares letters, `[ $x -eq Running ]` fails, `[ -n $x ]` is always true.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    values(view, out);
    for script in view.scripts.iter().filter(|script| script.reader != super::script::Reader::Foreign) {
        let content = &script.content;
        let mut found = Vec::new();
        content.program.walk(&mut |statement| found.extend(otherwise(statement, content)));
        for (span, message, help) in found {
            let finding = Diagnostic::new(&COMPARES_OTHERWISE, span, message).help(help);
            out.push(if script.phase == PhaseKind::Verify { finding } else { finding.strength(Strength::Warning) });
        }
    }
}

/// `value: "80"` for a field that holds a number: `field-equals` compares values, and a text is none.
fn values(view: &TaskView<'_>, out: &mut Diagnostics) {
    const NUMBERS: [&str; 16] = [
        "port",
        "containerPort",
        "nodePort",
        "replicas",
        "readyReplicas",
        "availableReplicas",
        "updatedReplicas",
        "restartCount",
        "completions",
        "parallelism",
        "generation",
        "observedGeneration",
        "minReplicas",
        "maxReplicas",
        "backoffLimit",
        "succeeded",
    ];
    view.task.walk(&mut |_, step| {
        let path = step.arg("jsonpath").and_then(|path| path.as_literal()).map(|path| {
            path.trim_end_matches('}')
                .trim_end_matches(']')
                .trim_end_matches(|c: char| c.is_ascii_digit())
                .trim_end_matches('[')
        });
        let value = step.arg("value").and_then(|value| Some((value.span, value.as_literal()?)));
        if let (Some(path), Some((span, text))) = (path, value)
            && matches!(&step.op.kind, crate::hir::OperationKind::Extension { operation, .. } if operation == "field-equals")
            && path.rsplit('.').next().is_some_and(|field| NUMBERS.contains(&field))
            && text.parse::<i64>().is_ok()
        {
            out.push(
                Diagnostic::new(
                    &COMPARES_OTHERWISE,
                    span,
                    format!("the field holds a number, and \"{text}\" is a text"),
                )
                .help(format!("write {text} without quotes"))
                .fix("leave the quotes off", span, text.to_owned()),
            );
        }
    });
}

type Fault = (Span, String, &'static str);

fn otherwise(statement: &Statement, content: &Content) -> Option<Fault> {
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
                        "`{}` is a redirection here: this {} a file",
                        word.source,
                        if word.source == ">" { "writes" } else { "reads" }
                    ),
                    "compare numbers by `-gt`, `-ge`, `-lt`, `-le`",
                ));
            }
            ">" | "<" if left.is_some_and(is_number) || right.is_some_and(is_number) => {
                return Some((
                    span(),
                    format!("`{}` compares the letters: 10 comes before 9", word.source),
                    "compare numbers by `-gt`, `-ge`, `-lt`, `-le`, or in `(( … ))`",
                ));
            }
            "-eq" | "-ne" | "-gt" | "-ge" | "-lt" | "-le" => {
                let text = |word: &ast::Word| {
                    word.literal().filter(|text| !text.is_empty() && text.trim().parse::<i64>().is_err())
                };
                let operand = [left, right].into_iter().flatten().find_map(text);
                // In `[[ … ]]` a name is a variable.
                let operand = operand.filter(|text| {
                    !(is_double && ast::is_name(text))
                        || text.contains(|c: char| {
                            c.is_ascii_uppercase() && text.contains(|c: char| c.is_ascii_lowercase())
                        })
                });
                if let Some(operand) = operand.filter(|operand| !operand.contains(super::script::HOLE)) {
                    return Some((
                        span(),
                        format!("`{}` compares numbers, and `{operand}` is none", word.source),
                        "compare texts by `=` and `!=`",
                    ));
                }
            }
            "-z" | "-n" if right.and_then(|word| word.variable()).is_some_and(|name| counts(content, name)) => {
                return Some((
                    span(),
                    "a count is never empty: where there is nothing it is 0".to_owned(),
                    "compare with 0: `-eq 0`, `-gt 0`",
                ));
            }
            "-n" if !is_double && unquoted(right) && words.len() <= 4 => {
                return Some((
                    span(),
                    "this is true also where the variable is empty".to_owned(),
                    "put the variable in double quotes: `[ -n \"$x\" ]`",
                ));
            }
            "=" | "==" | "!=" if is_double && right.is_some_and(is_quoted_pattern) => {
                return Some((
                    span(),
                    "the pattern is quoted: a `*` in it is a star".to_owned(),
                    "leave the quotes off the `*`",
                ));
            }
            "=" | "==" | "!=" => {
                if let (Some(left), Some(right)) = (left, right)
                    && left.source == right.source
                    && left.parts.iter().any(|part| matches!(part, Part::Var { .. }))
                    && !left.parts.iter().any(|part| matches!(part, Part::Command { .. }))
                {
                    return Some((span(), "both sides are the same".to_owned(), "compare with what is expected"));
                }
            }
            _ => {}
        }
    }
    None
}

/// `"nginx:*"`, where the quotes are around a star.
fn is_quoted_pattern(word: &ast::Word) -> bool {
    let text = word.source.trim_matches(['"', '\'']);
    word.source.starts_with(['"', '\''])
        && word.literal().is_some()
        && (text.ends_with('*') || text.starts_with('*'))
        && text.len() > 1
}

/// Whether a variable only ever gets what `wc` or `grep -c` prints.
fn counts(content: &Content, name: &str) -> bool {
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
            last.name() == "wc" || last.name() == "grep" && words.iter().any(|word| word.text == "-c")
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

/// `kubectl get pod -n '$NS'`: single quotes keep the shell from putting in a variable that the task has.
pub fn quoted(view: &TaskView<'_>, out: &mut Diagnostics) {
    for followed in &view.effects.scripts {
        let content = &followed.view.content;
        if !(content.text.contains('\'') && content.text.contains('$')) {
            continue;
        }
        let mut words: Vec<ast::Word> = Vec::new();
        content.program.walk(&mut |statement| {
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
                && !statement.words().iter().any(|word| matches!(word.text.as_str(), "--" | "-c" | "sh" | "bash"))
            {
                let source = |range: &std::ops::Range<usize>| content.text.get(range.clone()).unwrap_or_default();
                let quoted = statement.words().iter().filter(|word| source(&word.range).contains('\''));
                words.extend(quoted.map(|word| ast::Word::read(source(&word.range), word.range.start)));
            }
        });
        let known = |name: &str| {
            followed.trace.sets.contains(name)
                || view.task.env.iter().any(|(known, _)| known.value == name)
                || followed.view.step.arg("env").is_some_and(|env| env.get(name).is_some())
        };
        for word in words {
            for (at, inner) in single_quoted(&word.source) {
                let Some(name) = variable_in(inner).filter(|name| known(name)) else { continue };
                let range = word.range.start + at..word.range.start + at + inner.len() + 2;
                let span = content.span(range);
                let mut finding =
                    Diagnostic::new(&QUOTED_VARIABLE, span, format!("`${name}` stays as it is in single quotes"))
                        .help(format!("write `\"…${name}…\"` with double quotes"));
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
                    format!("`${name}` stays as it is in this here-document: its end is quoted"),
                )
                .help("leave the quotes off the word behind `<<`"),
            );
        }
    }
}

/// The parts of a word in single quotes, each with its place; not those inside double quotes.
fn single_quoted(source: &str) -> Vec<(usize, &str)> {
    let (mut found, mut at, mut double) = (Vec::new(), 0, false);
    while let Some(c) = source[at..].chars().next() {
        match c {
            '"' => double = !double,
            '\\' => at += source[at + 1..].chars().next().map_or(0, char::len_utf8),
            '\'' if !double => {
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

/// The variable that a text in single quotes seems to hold, where the text is for no program that reads `$` in its own way.
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
    ast::is_name(name).then_some(name)
}
