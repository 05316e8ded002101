//! Checks that accept more than they are meant to, or whose conditions cannot all hold.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    ascii::{Ascii, ascii},
    bash::program::{Branch, Kind, Repeat, Statement},
    diagnostic::{Diagnostic, Diagnostics, Strength},
    effects::{
        asked,
        script::{Form, ScriptView},
    },
    hir::{Arg, ArgKind, Def, PhaseKind},
    lint::{
        TaskView,
        analysis::checked_resource,
        initial::already_true::ALREADY_TRUE,
        shell::{always_true::ALWAYS_TRUE, comparison::COMPARES_OTHERWISE, dead_check::STATUS_IGNORED},
        task::unsatisfiable::UNSATISFIABLE_EXPECTATION,
    },
    source::Span,
};

fn of_verify<'v>(view: &TaskView<'v>) -> impl Iterator<Item = &'v ScriptView<'v>> {
    view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify)
}

/// `(.limits.memory // "256Mi") == "256Mi"`: what the agent must set also counts as set if it is missing.
pub fn missing(view: &TaskView<'_>, out: &mut Diagnostics) {
    for script in of_verify(view).filter(|script| script.content.text.contains("//")) {
        for found in DEFAULT.captures_iter(&script.content.text) {
            let (Some(default), Some(wanted)) = (found.get(1), found.get(2)) else { continue };
            // `// "default"` is often what the server itself uses.
            let is_special = default.as_str().bytes().any(|b| b.is_ascii_digit()) && default.as_str().len() > 2;
            if is_special && default.as_str() == wanted.as_str() {
                out.push(
                    Diagnostic::new(
                        &ALREADY_TRUE,
                        script.content.span(default.range()),
                        format!("a missing value counts as `{}` here, the value that verify wants", wanted.as_str()),
                    )
                    .help("remove the default: otherwise an agent passes that sets nothing"),
                );
            }
        }
    }
}

static DEFAULT: Ascii = ascii(r#"\.[\w.\[\]]+\s*//\s*"([^"\n]+)"\s*\)?\s*==\s*"([^"\n]+)""#);

/// `jq -e '.debug == false, .port == 80'`: only the last of the outputs decides.
pub fn outputs(view: &TaskView<'_>, out: &mut Diagnostics) {
    let mut told: Vec<Span> = Vec::new();
    for run in checked_resource::runs(view, PhaseKind::Verify).filter(|run| run.statement.name() == "jq") {
        let strict =
            asked::options(run).contains('e') || run.words.iter().any(|word| word.literal() == Some("--exit-status"));
        let Some(filter) = asked::operand(run).filter(|filter| strict && filter.contains(',')) else { continue };
        let parts = at_top(&filter);
        let (place, decides) =
            (checked_resource::place(run), |part: &&str| DECIDES.is_match(part) && !part.contains('|'));
        if parts.len() > 1 && parts.iter().all(decides) && !told.contains(&place) {
            told.push(place);
            out.push(
                Diagnostic::new(&STATUS_IGNORED, place, "only the last output decides, and this filter has several")
                    .help("join the conditions with `and`"),
            );
        }
    }
}

static DECIDES: Ascii = ascii(r"==|!=|[<>]|\b(?:has|test|any|all|contains|startswith|endswith|IN|index)\b");

/// The parts of a filter between commas that are in no brackets and in no text.
fn at_top(filter: &str) -> Vec<&str> {
    let (mut depth, mut quoted, mut escaped, mut start) = (0i32, false, false, 0);
    let mut found = Vec::new();
    for (at, c) in filter.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => quoted = !quoted,
            _ if quoted => {}
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                found.push(&filter[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(&filter[start..]);
    found
}

/// `?status=shipped`, where the API calls the field `state`: it ignores parameters that it does not know, and lists everything.
pub fn parameters(view: &TaskView<'_>, out: &mut Diagnostics) {
    let verify = &crate::lint::analysis::facts::elsewhere(view).verify;
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            let url = step.arg("url").and_then(|url| Some((url.span, crate::lint::analysis::texts::script_text(url)?)));
            let Some((span, url)) = url.filter(|(_, url)| url.contains('?')) else { return };
            for (one, other) in [("status", "state"), ("state", "status")] {
                let reads = |name: &str| {
                    [format!("$.{name}"), format!("].{name}"), format!("@.{name}")]
                        .iter()
                        .any(|path| verify.contains(path))
                };
                let has = [format!("?{one}="), format!("&{one}=")].iter().any(|key| url.contains(key));
                if has && reads(other) && !reads(one) {
                    out.push(
                        Diagnostic::new(
                            &COMPARES_OTHERWISE,
                            span,
                            format!("this filters by `{one}`, but the field of this API is `{other}`"),
                        )
                        .strength(Strength::Warning)
                        .help(format!("write `{other}=…`: most APIs ignore parameters that they do not know")),
                    );
                }
            }
        });
    });
}

/// `matches: "3"`, which `13` matches as well; `grep -c 500`, which counts sizes with these digits.
pub fn patterns(view: &TaskView<'_>, out: &mut Diagnostics) {
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| step.expect.iter().for_each(|(_, expect)| literal_patterns(expect, false, out)));
    });
    let mut told: Vec<Span> = Vec::new();
    for run in checked_resource::runs(view, PhaseKind::Verify) {
        let pattern = match run.statement.tool() {
            "grep" => {
                let options = asked::options(run);
                asked::operand(run).filter(|_| !options.contains(['w', 'x', 'o', 'v', 'P']) && run.words.len() > 3)
            }
            "awk" => run.words.get(1).and_then(|word| {
                let text = word.shown();
                Some(FIELD.captures_iter(&text).next()?.get(1)?.as_str().to_owned())
            }),
            _ => None,
        };
        let place = checked_resource::place(run);
        let is_number = |text: &str| !text.is_empty() && text.len() < 4 && text.bytes().all(|b| b.is_ascii_digit());
        if let Some(pattern) = pattern.filter(|text| is_number(text))
            && !told.contains(&place)
        {
            told.push(place);
            out.push(
                wider(place, &pattern, &format!("1{pattern}"))
                    .help("add what stands before and after it: `^`, `$`, a blank, a quote"),
            );
        }
    }
}

/// `$9 ~ /5/`
static FIELD: Ascii = ascii(r"\$\d+\s*~\s*/(\d+)/");

fn wider(span: Span, pattern: &str, other: &str) -> Diagnostic {
    Diagnostic::new(&COMPARES_OTHERWISE, span, format!("this finds `{pattern}` anywhere: `{other}` also matches"))
        .strength(Strength::Warning)
}

fn literal_patterns(arg: &Arg<Def>, negated: bool, out: &mut Diagnostics) {
    match &arg.kind {
        ArgKind::Record(fields) => fields.iter().for_each(|(key, inner)| {
            let pattern = inner.as_value().and_then(|value| Some(value.as_str()?.to_owned()));
            match (key.value.as_str(), pattern) {
                ("matches", Some(pattern)) if !negated => {
                    let digits =
                        pattern.len() < 4 && !pattern.is_empty() && pattern.bytes().all(|b| b.is_ascii_digit());
                    if digits {
                        out.push(
                            wider(inner.span, &pattern, &format!("1{pattern}"))
                                .help("compare the whole value, or write `^…$`"),
                        );
                    } else if HOST.is_match(&pattern) {
                        let other = format!("old{pattern}");
                        out.push(wider(inner.span, &pattern, &other).help("compare the whole value, or write `^…$`"));
                    }
                }
                ("not", _) => literal_patterns(inner, true, out),
                _ => literal_patterns(inner, negated, out),
            }
        }),
        ArgKind::List(items) => items.iter().for_each(|item| literal_patterns(item, negated, out)),
        _ => {}
    }
}

/// A host name, as a whole and without any sign of a pattern.
static HOST: Ascii = ascii(r"^[a-z0-9-]+(?:\.[a-z0-9-]+)+$");

/// `ready=yes` before a loop that sets `ready=yes`, and then `[ "$ready" = yes ]`: the variable has no other value.
pub fn flags(view: &TaskView<'_>, out: &mut Diagnostics) {
    for script in of_verify(view) {
        let text = &script.content.text;
        // A sourced file may set it as well.
        if !text.contains("break") || SOURCES.is_match(text) {
            continue;
        }
        let mut set: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for assigned in ASSIGNED.captures_iter(text) {
            let (Some(name), Some(value)) = (assigned.get(1), assigned.get(2)) else { continue };
            set.entry(name.as_str()).or_default().insert(value.as_str().trim_matches(['"', '\'']));
            *counts.entry(name.as_str()).or_default() += 1;
        }
        for tested in TESTED.captures_iter(text) {
            let (Some(whole), Some(name), Some(value)) = (tested.get(0), tested.get(1), tested.get(2)) else {
                continue;
            };
            let only = set.get(name.as_str()).filter(|values| values.len() == 1 && counts[name.as_str()] > 1);
            let Some(only) = only.and_then(|values| values.first()) else { continue };
            let is_plain = !only.is_empty() && only.bytes().all(|b| b.is_ascii_alphanumeric());
            let otherwise = [
                format!("read {}", name.as_str()),
                format!("{}+=", name.as_str()),
                format!("{}++", name.as_str()),
                format!("for {} ", name.as_str()),
                format!("-v {}", name.as_str()),
                format!("{{{}:", name.as_str()),
            ];
            if is_plain && value.as_str() == *only && !otherwise.iter().any(|other| text.contains(other)) {
                out.push(
                    Diagnostic::new(
                        &ALWAYS_TRUE,
                        script.content.span(whole.range()),
                        format!("`${}` is always `{only}`: nothing sets it to anything else", name.as_str()),
                    )
                    .strength(Strength::Warning)
                    .help("start with another value"),
                );
                break;
            }
        }
    }
}

static SOURCES: Ascii = ascii(r"(?m)(?:^|[;&|]\s*)(?:source|\.|eval)\s");
static ASSIGNED: Ascii = ascii(r#"(?m)(?:^|[\s;{(|&!)])([a-z_]+)=("[^"\n]*"|'[^'\n]*'|[^\s;&|]*)"#);
static TESTED: Ascii = ascii(r#"\[\[?\s+"?\$\{?([a-z_]+)\}?"?\s+(?:=|==|!=|-eq|-ne)\s+"?'?(\w+)'?"?\s+\]"#);

/// `until check; do if [ "$n" -ge 15 ]; then echo …; break; fi; …; done`, and nothing looks at `$n` afterwards: the script continues as
/// if the check had passed.
pub fn breaks(view: &TaskView<'_>, out: &mut Diagnostics) {
    for script in of_verify(view).filter(|script| script.decides_by_status()) {
        let content = &script.content;
        for whole in &content.program.body {
            let Kind::Loop { repeat: Repeat::Until | Repeat::While, condition, body } = &whole.kind else { continue };
            let text = |statement: &Statement| content.text.get(statement.range.clone()).unwrap_or_default();
            let after = content.text.get(whole.range.end..).unwrap_or_default();
            let is_check = condition
                .iter()
                .any(|s| !matches!(s.kind, Kind::Test) && !text(s).contains("$((") && !text(s).starts_with("read"));
            // A check of the same thing behind the loop decides.
            let asked = condition.first().map_or("", text);
            let asked = asked.split_inclusive(char::is_whitespace).take(3).collect::<String>();
            let is_asked_again = after.contains(asked.trim_end_matches(|c: char| c.is_whitespace() || c == ';'));
            if !is_check || is_asked_again {
                continue;
            }
            for inner in body {
                let Kind::If { branches, otherwise: None } = &inner.kind else { continue };
                let [Branch { condition, body: given_up }] = branches.as_slice() else { continue };
                let [test] = condition.as_slice() else { continue };
                let Some(counter) = COUNTER.captures_iter(text(test)).next().and_then(|c| Some(c.get(1)?.as_str()))
                else {
                    continue;
                };
                let only_says = given_up.iter().all(|s| matches!(s.name(), "echo" | "printf" | "break" | ":"));
                let leaves = given_up.iter().any(|s| s.name() == "break");
                let is_known = out.iter().any(|known| known.rule.name == "poll-ends-in-success");
                if only_says
                    && leaves
                    && !is_known
                    && !crate::lint::analysis::texts::has_word(after, counter)
                    && !after.trim().is_empty()
                {
                    out.push(
                        Diagnostic::new(
                            &STATUS_IGNORED,
                            content.span(test.range.clone()),
                            "after the last attempt, the script continues as if the condition were met",
                        )
                        .help("write `exit 1` instead of `break`"),
                    );
                }
            }
        }
    }
}

/// A query whose result is the answer: any other one may be run to see whether its columns exist.
static QUERY: Ascii = ascii(r"(?i)\bselect\s+(?:case|exists|(?:count|sum|min|max|group_concat|string_agg)\s*\()");

/// `timeout 30 bash -c 'until …' || echo "no answer"`: the wait passes when its time is up.
pub fn waits(view: &TaskView<'_>, out: &mut Diagnostics) {
    for script in of_verify(view).filter(|script| script.decides_by_status()) {
        let content = &script.content;
        let last = content.program.body.last().map(|statement| statement.range.clone());
        for statement in &content.program.body {
            // Its result is neither captured nor searched: `sqlite3 a.db 'SELECT …'` passes with any.
            let text = content.text.get(statement.range.clone()).unwrap_or_default();
            let is_client = script.form != Form::Line
                && matches!(statement.tool(), "sqlite3" | "psql" | "mysql")
                && QUERY.is_match(text);
            if is_client
                && !statement.written
                && !text.contains(".bail")
                && !text.contains("RAISE")
                && last.as_ref() == Some(&statement.range)
            {
                out.push(
                    Diagnostic::new(
                        &STATUS_IGNORED,
                        content.span(statement.range.clone()),
                        "this only prints what it finds: it passes with any result",
                    )
                    .help("compare the output: `test \"$(…)\" = …`, or `… | grep -qx …`"),
                );
            }
            let Kind::Or(pair) = &statement.kind else { continue };
            let text = content.text.get(pair[0].range.clone()).unwrap_or_default();
            let polls = text.starts_with("timeout ") && ["until ", "while "].iter().any(|word| text.contains(word));
            let only_says = matches!(pair[1].name(), "echo" | "printf" | ":" | "true");
            let is_known = out.iter().any(|known| known.span.contains(content.span(statement.range.clone())));
            if polls && !is_known && only_says && last.as_ref() == Some(&statement.range) {
                out.push(
                    Diagnostic::new(
                        &STATUS_IGNORED,
                        content.span(statement.range.clone()),
                        "when its time is up, this wait passes",
                    )
                    .help("write `exit 1` after the message, or remove it"),
                );
            }
        }
    }
}

static COUNTER: Ascii = ascii(r#"\$\{?(\w+)\}?"?\s+-(?:ge|gt|eq)\s"#);

/// `if [[ "$subjects" != "fix" && -z "$subjects" ]]`: the first condition always holds if the second does.
pub fn both(view: &TaskView<'_>, out: &mut Diagnostics) {
    for script in of_verify(view) {
        for found in BOTH.captures_iter(&script.content.text) {
            let (Some(whole), Some(one), Some(other)) = (found.get(0), found.get(1), found.get(2)) else { continue };
            if one.as_str() == other.as_str() {
                out.push(
                    Diagnostic::new(
                        &STATUS_IGNORED,
                        script.content.span(whole.range()),
                        format!("this is only true if `${}` is empty: the comparison decides nothing", one.as_str()),
                    )
                    .help("remove the second condition, or write `||`"),
                );
            }
        }
    }
}

static BOTH: Ascii = ascii(
    r#""?\$\{?(\w+)\}?"?\s+!=\s+(?:"[^"$\n]+"|'[^'\n]+'|\w[\w.-]*)\s+(?:&&|\]\]?\s+&&\s+\[\[?)\s+-z\s+"?\$\{?(\w+)"#,
);

/// `{path: $, length: 3}` beside four keys that must exist.
pub fn lengths(view: &TaskView<'_>, out: &mut Diagnostics) {
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| step.expect.iter().for_each(|(_, expect)| length(expect, out)));
    });
}

fn length(arg: &Arg<Def>, out: &mut Diagnostics) {
    match &arg.kind {
        ArgKind::List(items) => {
            let path = |item: &Arg<Def>| Some(item.get("path")?.as_literal()?.to_owned());
            let whole = items.iter().find_map(|item| {
                let length = item.get("length").filter(|_| path(item).as_deref() == Some("$"))?;
                Some((length.as_value()?.as_u64()?, length.span))
            });
            let needs = |item: &&Arg<Def>| match &item.kind {
                ArgKind::Record(fields) => fields.iter().any(|(key, value)| match key.value.as_str() {
                    "equals" | "contains" | "matches" | "length" | "min" | "max" | "atLeast" | "atMost" => true,
                    "exists" => value.as_value().and_then(|value| value.as_bool()) == Some(true),
                    _ => false,
                }),
                _ => false,
            };
            let mut keys = BTreeSet::new();
            for item in items.iter().filter(needs) {
                let path = path(item).unwrap_or_default();
                if let Some(key) = path.strip_prefix("$.") {
                    keys.insert(key.split(['.', '[']).next().unwrap_or_default().to_owned());
                }
            }
            if let Some((length, span)) = whole.filter(|(length, _)| (*length as usize) < keys.len()) {
                let message = format!("the value has {length} keys here, but other conditions need {}", keys.len());
                let names: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
                out.push(
                    Diagnostic::new(&UNSATISFIABLE_EXPECTATION, span, message)
                        .help(format!("they need {}: both conditions cannot be met", names.join(", "))),
                );
            }
            items.iter().for_each(|item| length(item, out));
        }
        ArgKind::Record(fields) => fields.iter().for_each(|(_, inner)| length(inner, out)),
        _ => {}
    }
}
