//! Arguments that differ slightly from a word that their operation knows.

use std::{
    borrow::Cow,
    cell::{LazyCell, RefCell},
    sync::OnceLock,
};

use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::Value as Json;

use crate::{
    ascii::{Ascii, ascii},
    bash::{
        tools::{self, Tool},
        types,
    },
    diagnostic::{Diagnostic, Diagnostics, Strength, nearest},
    effects::{
        asked::{self, Demand, Form},
        shell::Run,
        value::{Piece, Value},
    },
    hir::{Def, OperationKind, PhaseKind, Step},
    kubernetes::operation::is_known_group,
    lint::{TaskView, resources::odd_word},
    rule,
    source::Span,
};

rule! {
    pub static MISSPELT_VALUE = "misspelt-value", Verdict;
}

/// `condition: Avialable`, `resource: deploymnt/web`, `kind: podz`: not one of the examples in the argument's schema,
/// but close to one. Requires a schema, from the lock or a bundled extension. Words that are not close to any example
/// are not reported.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    view.task.walk(&mut |_, step| {
        if matches!(step.op.kind, OperationKind::Extension { .. }) {
            arguments(step, out);
        }
    });
    commands(view, out);
    paths(view, out);
    states(view, out);
    requested(view, out);
    programs(view, out);
    durations(view, out);
    capitals(view, out);
}

/// `kubctl get pod`: not a known program, but close to one. A check may take the exit status for a missing program,
/// 127, for an answer.
fn programs(view: &TaskView<'_>, out: &mut Diagnostics) {
    let mut told: Vec<&str> = Vec::new();
    for script in view.scripts {
        script.content.program.walk(&mut |command| {
            let name = command.name();
            if name.len() < 4 || told.contains(&name) || PROGRAMS.contains(&name) {
                return;
            }
            let plain = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
            let near = || PROGRAMS.iter().find(|known| odd_word::is_slip(name, known));
            let Some(near) = plain.then(near).flatten().filter(|_| view.tools.tool(name).is_none()) else { return };
            let defines = |script: &crate::lint::script::ScriptView<'_>| {
                let mut defines = false;
                script.content.program.walk(&mut |s| defines |= s.function() == Some(name));
                defines
            };
            let sources = view.effects.scripts.iter().any(|script| !script.trace.sources.is_empty());
            if !sources && !view.scripts.iter().any(defines) {
                told.push(name);
                out.push(
                    Diagnostic::new(
                        &MISSPELT_VALUE,
                        script.content.span(command.words()[0].range.clone()),
                        format!("`{name}` is not a known program"),
                    )
                    .here(format!("did you mean `{near}`?"))
                    .help("if it is intended, add `# gevals: allow(misspelt-value)`")
                    .strength(Strength::Warning),
                );
            }
        });
    }
}

/// `helm install … --timeout 180`: the program refuses a duration without a unit.
fn durations(view: &TaskView<'_>, out: &mut Diagnostics) {
    let number = |text: &str| !text.is_empty() && text != "0" && text.bytes().all(|b| b.is_ascii_digit());
    for script in &view.effects.scripts {
        for run in &script.trace.runs {
            let Some(tool) = view.tools.tool(run.statement.tool()).filter(|tool| !tool.durations.is_empty()) else {
                continue;
            };
            let written = run.statement.words();
            // A word that expands to several has no place of its own.
            if written.len() != run.words.len() {
                continue;
            }
            // After `--`, the options are those of another program.
            let own = run.words.iter().take_while(|word| word.literal() != Some("--"));
            for (nth, word) in own.enumerate() {
                let Some(text) = word.literal() else { continue };
                let (option, value) =
                    text.split_once('=').map_or((text, None), |(option, value)| (option, Some(value)));
                if !tool.durations.iter().any(|known| known == option) {
                    continue;
                }
                let (at, value) = match value {
                    Some(value) => (nth, Some(value)),
                    None => (nth + 1, run.words.get(nth + 1).and_then(Value::literal)),
                };
                let (Some(value), Some(place)) = (value.filter(|value| number(value)), written.get(at)) else {
                    continue;
                };
                let span = run.content.span(place.range.clone());
                let message = format!("`{value}` is not a duration: `{}` refuses it", run.statement.tool());
                let finding = Diagnostic::new(&MISSPELT_VALUE, span, message).help(format!("add the unit: `{value}s`"));
                out.push(match place.text.ends_with(value) {
                    true => {
                        let end = place.range.end;
                        finding.fix("write it in seconds", run.content.span(end..end), "s")
                    }
                    false => finding,
                });
            }
        }
    }
}

/// The programs that scripts use most, and a few builtins, with names of at least four characters.
#[rustfmt::skip]
const PROGRAMS: [&str; 52] = [
    "kubectl", "helm", "docker", "podman", "nerdctl", "virtctl", "gcloud", "psql", "mysql", "sqlite3", "redis", "mongosh", "curl", "wget", "terraform",
    "openssl", "istioctl", "argocd", "systemctl", "journalctl", "python3", "python", "node", "bash", "grep", "egrep", "sleep", "echo", "test", "printf",
    "mkdir", "rmdir", "touch", "chmod", "chown", "xargs", "head", "tail", "sort", "uniq", "diff", "stat", "find", "exit", "return", "export", "base64",
    "timeout", "mktemp", "source", "local", "true",
];

/// Signs that a script folds case before it compares.
const FOLDS: [&str; 9] =
    ["[:lower:]", "[:upper:]", "a-z", "tolower", "toupper", "ascii_downcase", "ascii_upcase", "lower()", "\\L"];

/// `contains: Bike Repair Miller`, if setup writes `Bike repair Miller`. Requires a phrase of several words that
/// appears nowhere else with the capitalization of verify.
fn capitals(view: &TaskView<'_>, out: &mut Diagnostics) {
    let mut asked: Vec<(Span, String)> = Vec::new();
    let folds = |text: &str| FOLDS.iter().any(|sign| text.contains(sign));
    for question in view.asked() {
        if question.runs.iter().flat_map(|run| &run.words).any(|word| folds(&word.shown())) {
            continue;
        }
        match &question.demand {
            Demand::Matches { pattern, options } if !options.contains(['i', 'v']) => {
                asked.push((question.span, pattern.clone()))
            }
            Demand::Compared { with, .. } => asked.push((question.span, with.clone())),
            _ => {}
        }
    }
    view.task.walk(&mut |phase, step| {
        let plain = || !crate::lint::analysis::texts::script(step).is_some_and(|text| folds(&text));
        let texts = step.expect.iter().filter(|_| phase == PhaseKind::Verify && plain());
        let texts =
            texts.flat_map(|(_, expect)| crate::lint::analysis::texts::PRINTED.map(|key| expect.get(key))).flatten();
        for text in texts {
            let demands = ["equals", "contains", "matches"].map(|key| text.get(key));
            for demand in demands.into_iter().flatten().chain([text]) {
                asked.extend(
                    demand
                        .as_literal()
                        .filter(|text| !text.starts_with("(?"))
                        .map(|text| (demand.span, text.to_owned())),
                );
            }
        }
    });
    if asked.is_empty() {
        return;
    }
    let elsewhere = crate::lint::analysis::facts::elsewhere(view);
    let said = view.effects.prompt.shown();
    let plain: LazyCell<String, _> = LazyCell::new(|| format!("{said}\n{}", elsewhere.rest).to_lowercase());
    for (span, text) in asked {
        let text = ESCAPE.replace_all(&text, |_| "\n".to_owned());
        for run in text.split(|c: char| !(c.is_ascii_alphabetic() || c == ' ')).map(str::trim) {
            let is_phrase = run.contains(' ') && run.len() > 9;
            if !is_phrase || said.contains(run) || elsewhere.rest.contains(run) || !plain.contains(&run.to_lowercase())
            {
                continue;
            }
            let message = format!("`{run}` appears elsewhere in the task only with different capitalization");
            out.push(
                Diagnostic::new(&MISSPELT_VALUE, span, message)
                    .here("setup or the prompt spells it differently")
                    .help("if it is intended, add `# gevals: allow(misspelt-value)`")
                    .strength(Strength::Warning),
            );
        }
    }
}

static ESCAPE: Ascii = ascii(r"\\[A-Za-z]");

/// `gh issue view 7 --json title,labels` followed by `.assignees` or `.labels[].title`: the output is empty.
fn requested(view: &TaskView<'_>, out: &mut Diagnostics) {
    let Some(tool) = view.tools.tool("gh") else { return };
    let mut told: Vec<(Span, String)> = Vec::new();
    for followed in &view.effects.scripts {
        let own = followed.trace.runs.iter().filter(|run| run.statement.name() == "gh").filter_map(|run| {
            let words: Vec<&str> = run.words.iter().map(|word| word.literal().unwrap_or_default()).collect();
            Some((run, run, asked::value_of(&words, "-q", "--jq")?.to_owned()))
        });
        for (first, run, filter) in own.chain(asked::filtered_by(followed)) {
            let words: Vec<&str> = first.words.iter().map(|word| word.literal().unwrap_or_default()).collect();
            let given = asked::value_of(&words, "--json", "--json").filter(|_| first.statement.name() == "gh");
            let own = asked::value_of(&words, "-q", "--jq").unwrap_or(".");
            let is_whole = !words.iter().any(|word| matches!(*word, "-t" | "--template")) && is_choice(own);
            let Some(given) = given.filter(|_| std::ptr::eq(first, run) || is_whole) else { continue };
            let path = leading(&filter);
            let path = path.strip_prefix(".[").and_then(|rest| Some(rest.split_once(']')?.1)).unwrap_or(path);
            let mut names = path
                .split('.')
                .skip(1)
                .map(|name| name.split(['[', ']']).next().unwrap_or_default().trim_end_matches('?'));
            let (Some(field), inner) = (names.next().filter(|name| !name.is_empty()), names.next()) else { continue };
            let asked: Vec<&str> = given.split(',').collect();
            let known = inner.map(|_| tool.under("json", field)).unwrap_or_default();
            let message = match inner.filter(|inner| !known.is_empty() && !inner.is_empty() && !known.contains(inner)) {
                _ if !asked.contains(&field) => {
                    format!("`--json {given}` does not include `{field}`: the output is empty")
                }
                Some(inner) => format!("`{field}` have no field `{inner}`: the output is empty"),
                None => continue,
            };
            let span = run.content.span(run.statement.range.clone());
            if !told.contains(&(span, message.clone())) {
                let help = match asked.contains(&field) {
                    true => format!("their fields are {}", known.join(", ")),
                    false => format!("add the field: `--json {given},{field}`"),
                };
                out.push(
                    Diagnostic::new(&MISSPELT_VALUE, span, message.clone()).help(help).strength(Strength::Warning),
                );
                told.push((span, message));
            }
        }
    }
}

/// Whether a filter only selects items and outputs them unchanged: `.[0]`, `.[] | select(…)`.
fn is_choice(filter: &str) -> bool {
    let (list, rest) = filter.split_once('|').map_or((filter, ""), |(list, rest)| (list, rest.trim()));
    let chosen = rest.is_empty() || rest.starts_with("select(") && rest.ends_with(')') && !rest.contains('|');
    chosen
        && (list.trim() == "."
            || list.trim().strip_prefix(".[").is_some_and(|at| at.ends_with(']') && !at.contains('.')))
}

/// The path at the beginning of a jq filter: `.spec.replicas` in `.spec.replicas // 0`.
fn leading(filter: &str) -> &str {
    let filter = filter.trim_start_matches(['[', '(', ' ']);
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '[' | ']' | '?');
    let path = filter.find(|c| !part(c)).map_or(filter, |end| &filter[..end]);
    if path.starts_with('.') { path } else { "" }
}

/// `grep -c Runing` in the output of `kubectl get pods`, `.status.phase` compared with `Runing`: not a known state, but
/// close to one.
fn states(view: &TaskView<'_>, out: &mut Diagnostics) {
    let mut found: Vec<(Span, String, &Tool)> = Vec::new();
    // Custom resources and events have other states.
    let tool_of = |run: &Run<'_>| {
        let tool = view.tools.tool(run.statement.tool())?;
        let kind = view.effects.read_by(run).map_or("", |act| act.thing.kind.as_str());
        (tool.kinds.is_empty() || tool.kind(kind).is_some() && kind != "event").then_some(tool)
    };
    let span = |run: &Run<'_>| run.content.span(run.statement.range.clone());
    for question in view.asked() {
        if let (Some(run), Form::Field(path), Demand::Compared { with, .. }) =
            (question.runs.first(), &question.form, &question.demand)
            && matches!(path.rsplit('.').next(), Some("phase" | "printableStatus" | "Status"))
        {
            found.extend(tool_of(run).map(|tool| (question.span, with.clone(), tool)));
        }
    }
    let asked = found.len();
    // `value: Bounded` in an operation that compares the phase.
    let compares =
        |path: &str| matches!(path.trim_end_matches('}').rsplit('.').next(), Some("phase" | "printableStatus"));
    if let Some(tool) = view.tools.tool("kubectl") {
        view.task.walk(&mut |phase, step| {
            if phase != PhaseKind::Verify {
                return;
            }
            let path = step.arg("jsonpath").and_then(|path| path.as_literal());
            if let (Some(value), OperationKind::Extension { .. }) = (step.arg("value"), &step.op.kind)
                && let (Some(text), true) = (value.as_literal(), path.is_some_and(compares))
            {
                found.push((value.span, text.to_owned(), tool));
            }
        });
    }
    // A comparison contains the whole word; a search in a list may omit its end.
    let whole = found.len();
    for (first, others) in view.effects.scripts.iter().flat_map(asked::lists) {
        let Some(tool) = tool_of(first) else { continue };
        for run in others {
            let Some(text) = asked::operand(run) else { continue };
            match run.statement.name() {
                "grep" | "egrep" | "fgrep" if !asked::options(run).contains('i') => found.push((span(run), text, tool)),
                // `$3 == "Runing"`
                "awk" => {
                    found.extend(text.split('"').skip(1).step_by(2).map(|word| (span(run), word.to_owned(), tool)))
                }
                _ => {}
            }
        }
    }
    for run in view.effects.scripts.iter().flat_map(|script| &script.trace.runs) {
        let Some(tool) = view.tools.tool(run.statement.tool()) else { continue };
        let phase = run.words.iter().filter_map(Value::literal).find_map(|word| {
            let word = word.strip_prefix("--field-selector=").unwrap_or(word);
            word.strip_prefix("status.phase")?.strip_prefix(['!', '=']).map(|rest| rest.trim_start_matches('='))
        });
        found.extend(phase.map(|phase| (span(run), phase.to_owned(), tool)));
    }
    let others = &crate::lint::analysis::facts::elsewhere(view).rest;
    for (at, (span, word, tool)) in found.into_iter().enumerate() {
        let word = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        let longer = |state: &str| {
            at < whole && word.len().abs_diff(state.len()) < 4 && (word.starts_with(state) || state.starts_with(word))
        };
        let plain = word.len() > 4 && word.bytes().all(|b| b.is_ascii_alphabetic());
        if !plain
            || tool.states.iter().any(|state| state == word)
            // Other rules report a different case in an operation.
            || (asked..whole).contains(&at) && tool.states.iter().any(|state| state.eq_ignore_ascii_case(word))
            || view.effects.prompt.shown().contains(word)
            || others.contains(word)
        {
            continue;
        }
        if let Some(near) = tool.states.iter().find(|state| state.len() > 4 && (is_slip(word, state) || longer(state)))
        {
            let finding = Diagnostic::new(&MISSPELT_VALUE, span, format!("`{word}` is not a known state"));
            out.push(
                finding
                    .here(format!("did you mean `{near}`?"))
                    .help("if it is intended, add `# gevals: allow(misspelt-value)`"),
            );
        }
    }
}

/// `$.asignee`, if setup sends `assignee`.
fn paths(view: &TaskView<'_>, out: &mut Diagnostics) {
    let mut asked: Vec<(Span, String)> = Vec::new();
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            if matches!(step.op.kind, OperationKind::Builtin("http") | OperationKind::Tool { .. }) {
                step.expect.iter().for_each(|(_, expect)| names(expect, &mut asked));
            }
        });
    });
    if asked.is_empty() {
        return;
    }
    let given = crate::lint::analysis::facts::given(view);
    for (span, name) in asked {
        let known: Vec<&str> = given.iter().map(|fact| fact.key.as_str()).filter(|key| key.len() > 3).collect();
        if name.len() < 4 || given.iter().any(|fact| fact.key == name) {
            continue;
        }
        if let Some(near) = nearest(&name, known.iter().copied()) {
            out.push(
                Diagnostic::new(&MISSPELT_VALUE, span, format!("setup does not send `{name}`"))
                    .here(format!("did you mean `{near}`?"))
                    .help("if it is intended, add `# gevals: allow(misspelt-value)`")
                    .strength(Strength::Warning),
            );
        }
    }
}

/// Collects the last name of every path in an expectation.
fn names(arg: &crate::hir::Arg<Def>, found: &mut Vec<(Span, String)>) {
    match &arg.kind {
        crate::hir::ArgKind::Record(fields) => {
            if let Some(path) = arg.get("path") {
                found.extend(
                    path.as_literal().and_then(crate::lint::analysis::facts::last_name).map(|name| (path.span, name)),
                );
            }
            fields.iter().for_each(|(_, arg)| names(arg, found));
        }
        crate::hir::ArgKind::List(items) => items.iter().for_each(|arg| names(arg, found)),
        _ => {}
    }
}

/// The same checks for commands: kinds, conditions of `kubectl wait`, fields of objects without types. The known words
/// are in the table of the program.
fn commands(view: &TaskView<'_>, out: &mut Diagnostics) {
    let Some(tool) = view.tools.tool("kubectl") else { return };
    let mut foreign: Vec<(Span, String, String)> = Vec::new();
    let (mut found, mut named): (Vec<(Span, String, String)>, Vec<(Span, String, String)>) = Default::default();
    for script in &view.effects.scripts {
        for run in &script.trace.runs {
            if run.statement.tool() != "kubectl" {
                continue;
            }
            // Of `pipelinerun/$RUN`, the kind is known.
            let texts: Vec<Cow<'_, str>> = run
                .words
                .iter()
                .map(|word| word.literal().map_or_else(|| kind_of(word).into(), Cow::Borrowed))
                .collect();
            let words: Vec<&str> = texts.iter().map(|text| &**text).collect();
            let span = |text: &str| {
                let word = run.statement.words().iter().find(|word| word.text.contains(text));
                run.content.span(word.map_or_else(|| run.statement.range.clone(), |word| word.range.clone()))
            };
            let operands: Vec<&str> = tools::operands("kubectl", &words[1..]).copied().collect();
            let kind = match operands.as_slice() {
                [
                    "get" | "describe" | "delete" | "wait" | "scale" | "label" | "annotate" | "patch" | "expose",
                    kind,
                    ..,
                ] => Some(*kind),
                ["rollout", _, kind, ..] | ["auth", "can-i", _, kind, ..] => Some(*kind),
                _ => None,
            };
            let qualified = kind.map(|kind| kind.split('/').next().unwrap_or(kind)).filter(|kind| !kind.contains(','));
            let kind = qualified.filter(|kind| !kind.contains('.'));
            if let Some(word) = kind.filter(|word| !word.is_empty() && tool.kind(word).is_none()) {
                let known: Vec<&str> = tool.kinds().collect();
                found.extend(
                    near(&word.to_lowercase(), &known).map(|near| (span(word), word.to_owned(), near.to_owned())),
                );
            }
            let asked = words
                .windows(2)
                .find(|pair| pair[0] == "--for")
                .map(|pair| pair[1])
                .or_else(|| words.iter().find_map(|word| word.strip_prefix("--for=")));
            if let Some(asked) = asked.filter(|asked| !asked.is_empty()) {
                let (form, rest) = asked.split_once('=').unwrap_or((asked, ""));
                // kubectl accepts `Delete` as well.
                let is_event = ["delete", "create"].iter().any(|event| form.eq_ignore_ascii_case(event));
                if !is_event && !matches!(form, "condition" | "jsonpath") {
                    found.extend(
                        nearest(form, ["condition", "delete", "create", "jsonpath"])
                            .map(|near| (span(asked), form.to_owned(), near.to_owned())),
                    );
                }
                let condition = rest.split('=').next().unwrap_or(rest);
                if form == "condition" && !condition.is_empty() {
                    match of_kind(condition, qualified, tool) {
                        Unknown::Near(near) => found.push((span(condition), condition.to_owned(), near)),
                        Unknown::Foreign(kind) => foreign.push((span(condition), condition.to_owned(), kind)),
                        Unknown::No => {}
                    }
                }
            }
            for condition in run.words.iter().filter_map(crate::lint::shell::impossible_values::asked_condition) {
                if let Unknown::Foreign(kind) = of_kind(&condition, qualified, tool) {
                    foreign.push((span("jsonpath"), condition, kind));
                }
            }
            let known_kind = kind.and_then(|kind| tool.kind(kind)).is_some_and(|(kind, _)| is_untyped(kind));
            for path in words.iter().filter(|word| known_kind && word.contains("{.")) {
                named.extend(fields(path, tool).map(|(word, near)| (span(path), word, near)));
            }
        }
    }
    view.task.walk(&mut |_, step| {
        let path = step.arg("jsonpath").filter(|_| matches!(step.op.kind, OperationKind::Extension { .. }));
        let condition =
            step.arg("condition").or_else(|| step.arg("type").filter(|_| step.op.name.ends_with("condition")));
        let condition = condition.filter(|_| matches!(step.op.kind, OperationKind::Extension { .. }));
        if let Some((condition, name)) = condition.and_then(|arg| Some((arg, arg.as_literal()?)))
            && let Some(resource) = step.arg("resource").or_else(|| step.arg("kind")).and_then(|arg| arg.as_literal())
            && let Unknown::Foreign(kind) = of_kind(name, Some(resource), tool)
        {
            foreign.push((condition.span, name.to_owned(), kind));
        }
        let resource = step.arg("resource").or_else(|| step.arg("kind")).and_then(|arg| arg.as_literal());
        let kind = resource.map(|resource| tool.kind(resource.split('/').next().unwrap_or(resource)));
        let known = kind.is_none_or(|kind| kind.is_some_and(|(kind, _)| is_untyped(kind)));
        if let Some((arg, text)) = path.and_then(|arg| Some((arg, arg.as_literal()?))).filter(|_| known) {
            named.extend(fields(text, tool).map(|(word, near)| (arg.span, word, near)));
        }
    });
    for (span, condition, kind) in foreign {
        out.push(
            Diagnostic::new(
                &MISSPELT_VALUE,
                span,
                format!("a {kind} has no condition `{condition}`: it is never true"),
            )
            .help(
                match tool.conditions.get(&kind).map(|all| all.join(", ")).filter(|all| !all.is_empty()) {
                    Some(all) => format!("the conditions of a {kind} are {all}"),
                    None => format!("a {kind} has no conditions: check its fields"),
                },
            ),
        );
    }
    let finding = |(span, word, near): (Span, String, String), what: &str| {
        Diagnostic::new(&MISSPELT_VALUE, span, format!("`{word}` is not a known {what}"))
            .here(format!("did you mean `{near}`?"))
            .help("if it is intended, add `# gevals: allow(misspelt-value)`")
    };
    found.into_iter().for_each(|fault| out.push(finding(fault, "kind or condition")));
    named.retain(|(span, ..)| !out.iter().any(|known| known.span.contains(*span) || span.contains(known.span)));
    // An unknown field may be new.
    named.into_iter().for_each(|fault| out.push(finding(fault, "field").strength(Strength::Warning)));
}

/// Whether fields of a kind are only known by their names.
fn is_untyped(kind: &str) -> bool {
    types::version(kind).is_none_or(|version| version.contains("kubevirt.io"))
}

/// The kind in `KIND/$NAME`, with its slash; empty if that is not the form of a word.
fn kind_of(word: &Value) -> String {
    let kind = match word.pieces().first() {
        Some(Piece::Text(text)) => text.split_once('/').map(|(kind, _)| kind),
        _ => None,
    };
    let plain = |kind: &&str| !kind.is_empty() && kind.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.');
    kind.filter(plain).map(|kind| format!("{kind}/")).unwrap_or_default()
}

/// The problem with a condition.
enum Unknown {
    No,
    /// It is close to this known condition.
    Near(String),
    /// This kind has other conditions only.
    Foreign(String),
}

fn of_kind(condition: &str, kind: Option<&str>, tool: &Tool) -> Unknown {
    // Controllers add conditions of their own to these kinds.
    const OPEN: [&str; 4] = ["pod", "node", "virtualmachine", "virtualmachineinstance"];
    let own = kind.and_then(|kind| tool.conditions_of(kind));
    // A kind of an unknown API group may have any conditions.
    if own.is_none() && kind.is_some_and(|kind| kind.split('/').next().unwrap_or(kind).contains('.')) {
        return Unknown::No;
    }
    let is = |known: &String| known.eq_ignore_ascii_case(condition);
    let known: Vec<&String> = match own {
        Some((_, own)) => own.iter().collect(),
        None => tool.conditions.values().flatten().collect(),
    };
    if known.iter().any(|known| is(known)) {
        return Unknown::No;
    }
    let near = nearest(condition, known.iter().map(|known| known.as_str()));
    let others = tool.conditions.values().flatten().any(is);
    // A condition of another kind is not one that controllers add to pods.
    // `Running` is a phase, which no controller uses as the name of a condition.
    let phase = tool.states.iter().any(|state| state == condition) && !matches!(condition, "True" | "False" | "Error");
    match (near, own.filter(|(kind, _)| !OPEN.contains(kind) || *kind == "pod" && others || phase)) {
        (Some(near), _) if !others => Unknown::Near(near.to_owned()),
        (_, Some((kind, _))) => Unknown::Foreign(kind.to_owned()),
        (Some(near), None) => Unknown::Near(near.to_owned()),
        (None, None) => Unknown::No,
    }
}

/// Names in a JSONPath that are not known fields but close to one, each with that field.
fn fields(path: &str, tool: &Tool) -> impl Iterator<Item = (String, String)> + use<> {
    let known = KNOWN.get_or_init(|| types::names().collect());
    let is_own = |name: &str| tool.is_field(name);
    let mut found = Vec::new();
    // The author chooses the names below these fields.
    let free = [
        "labels",
        "annotations",
        "data",
        "matchLabels",
        "nodeSelector",
        "stringData",
        "binaryData",
        "capacity",
        "limits",
        "requests",
        "used",
        "hard",
    ];
    let signs = ['.', '{', '}', '[', ']', '(', ')', '@', '?', '*', ' ', '=', '"', '\'', ':', ',', '\\'];
    // Names are inside braces; quoted strings are compared values.
    let braced = path.split('{').skip(1).filter_map(|part| part.split_once('}')).map(|(inside, _)| inside);
    let paths = braced.flat_map(|inside| inside.split(['"', '\'']).step_by(2));
    for name in paths.flat_map(|path| path.split(signs).take_while(|name| !free.contains(name))) {
        let plain =
            name.len() > 4 && name.bytes().all(|b| b.is_ascii_alphabetic()) && name.starts_with(char::is_lowercase);
        if !plain || known.contains(name) || is_own(name) {
            continue;
        }
        found.extend(near_field(name, known).map(|near| (name.to_owned(), near.to_owned())));
    }
    found.into_iter()
}

/// The field that was probably meant. Cached: the same names recur in a suite, and a search is more expensive than a
/// lookup.
fn near_field(name: &str, known: &FxHashSet<&'static str>) -> Option<&'static str> {
    thread_local! {
        static SEEN: RefCell<FxHashMap<String, Option<&'static str>>> = RefCell::default();
    }
    if let Some(near) = SEEN.with_borrow(|seen| seen.get(name).copied()) {
        return near;
    }
    let parts = parts(name);
    let turned = || known.iter().find(|known| known.len() == name.len() && self::parts(known) == parts).copied();
    let near = turned().or_else(|| nearest(name, known.iter().copied()));
    SEEN.with_borrow_mut(|seen| {
        if seen.len() < 1000 {
            seen.insert(name.to_owned(), near);
        }
    });
    near
}

/// The names of all known fields.
static KNOWN: OnceLock<FxHashSet<&'static str>> = OnceLock::new();

/// The lowercase words of a camel-case name, sorted.
fn parts(name: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() || parts.is_empty() {
            parts.push(String::new());
        }
        if let Some(last) = parts.last_mut() {
            last.push(c.to_ascii_lowercase());
        }
    }
    parts.sort();
    parts
}

fn arguments(step: &Step<Def>, out: &mut Diagnostics) {
    let Some(schema) = &step.op.signature.schema else { return };
    let version = step.args.iter().find(|(name, _)| name.value == "apiVersion").map(|(_, arg)| arg.as_literal());
    for (name, arg) in &step.args {
        let Some(text) = arg.as_literal() else { continue };
        let examples = schema.json()["properties"][&name.value]["examples"].as_array();
        let examples: Vec<&str> = examples.into_iter().flatten().filter_map(Json::as_str).collect();
        // `pod/NAME` is an example for the part before the slash.
        let named: Vec<&str> = examples.iter().filter_map(|example| example.strip_suffix("/NAME")).collect();
        let known = if named.is_empty() { examples } else { named };
        let word = match name.value.as_str() {
            "kind" | "resource" => {
                let kind = text.split('/').next().unwrap_or(text);
                let (word, group) = kind.split_once('.').unwrap_or((kind, ""));
                // A custom resource may have any name.
                if !is_known_group(group)
                    || name.value == "kind" && !version.is_none_or(|v| v.is_some_and(is_known_group))
                {
                    continue;
                }
                word
            }
            _ => text,
        };
        if known.iter().any(|known| known.eq_ignore_ascii_case(word)) {
            continue;
        }
        if let Some(near) = near(word, &known) {
            let message = format!("`{word}` is not a known value of `{}`", name.value);
            out.push(
                Diagnostic::new(&MISSPELT_VALUE, arg.span, message)
                    .here(format!("did you mean `{near}`?"))
                    .help("if it is intended, add `# gevals: allow(misspelt-value)`"),
            );
        }
    }
}

/// The known word that was probably meant: preferably with the same initial case, and in the singular.
fn near<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let is_upper = |word: &str| word.starts_with(char::is_uppercase);
    let mut words: Vec<&str> = known.iter().copied().filter(|known| is_upper(known) == is_upper(word)).collect();
    if words.is_empty() {
        words = known.to_vec();
    }
    // Words of two or three letters are all close to one another.
    if word.chars().count() < 4 {
        return words.into_iter().find(|known| is_swapped(word, known));
    }
    let singular = |word: &&str| word.strip_suffix('s').is_none_or(|singular| !known.contains(&singular));
    nearest(word, words.iter().copied())
        .or_else(|| nearest(word, words.iter().copied().filter(singular)))
        .filter(|near| is_slip(word, near))
}

/// Whether two words differ by at most two typos. This excludes kinds that merely contain another: `AppProject` and
/// `VirtualMachineClone` are not typos of `project` and `virtualmachine`.
pub fn is_slip(word: &str, near: &str) -> bool {
    strsim::osa_distance(&word.to_lowercase(), &near.to_lowercase()) <= 2
}

/// Whether a word of at least three letters differs from another by two swapped adjacent letters.
fn is_swapped(word: &str, known: &str) -> bool {
    let [word, known] = [word, known].map(|text| text.to_lowercase().into_bytes());
    let differ = || word.iter().zip(&known).enumerate().filter(|(_, (a, b))| a != b).map(|(at, _)| at);
    let places: Vec<_> = differ().collect();
    match places.as_slice() {
        &[a, b] => {
            word.len() == known.len() && known.len() > 2 && b == a + 1 && word[a] == known[b] && word[b] == known[a]
        }
        _ => false,
    }
}
