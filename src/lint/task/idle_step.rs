//! Verify steps that decide nothing, although others do.

use crate::{
    bash::fields,
    diagnostic::{Diagnostic, Diagnostics},
    effects::Verb,
    hir::{Arg, ArgKind, BlockRole, Def, Dialect, OperationKind, PhaseKind, Step, Target, Template},
    lint::{
        TaskView,
        analysis::{facts, pattern, texts},
        shell::exit_status,
        task::verify,
    },
    rule,
    signature::{Control, Effects},
    source::Span,
};

rule! {
    pub static STEP_DECIDES_NOTHING = "step-decides-nothing", Warning;
}

/// `cd DIRECTORY` as a step: the next step runs in another shell, in its own directory.
fn moves(view: &TaskView<'_>, out: &mut Diagnostics) {
    for script in view.scripts {
        if let ([statement], true) = (script.content.program.body.as_slice(), script.content.program.sound)
            && statement.name() == "cd"
            && let [_, folder] = statement.words()
        {
            let message = format!("the next step runs in its own shell, so it does not start in `{}`", folder.text);
            let finding = Diagnostic::new(&STEP_DECIDES_NOTHING, script.content.span(statement.range.clone()), message);
            out.push(finding.help(match view.task.dialect {
                Dialect::Portable => format!("set `workdir: {}` in the steps that must run there", folder.text),
                _ => "add `cd` to the scripts that must run there".to_owned(),
            }));
        }
    }
}

/// A step that passes whatever the agent does and provides nothing for other steps. If no verify step can fail,
/// `unfalsifiable-verify` reports it.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    moves(view, out);
    let steps = &view.task.verify.steps;
    if steps.iter().all(|step| verify::cannot_fail(step, view)) || exit_status::in_vain(view) {
        return;
    }
    again(view, out);
    for step in steps {
        step.walk(&mut |step| {
            told(step, out);
            rounds(step, out);
            if step.op.signature.control == Control::Any {
                for branch in step.blocks.iter().filter(|block| block.role == BlockRole::Branch) {
                    let beside =
                        || step.blocks.iter().filter(|other| !std::ptr::eq(*other, branch)).flat_map(|b| &b.steps);
                    let open = branch.steps.iter().all(|step| {
                        verify::cannot_fail(step, view)
                            || is_true_already(step, view)
                            || asks_what_it_is(step) && beside().any(|other| same_thing(step, other))
                    });
                    if let (Some(first), true) = (branch.steps.first(), open) {
                        out.push(
                            Diagnostic::new(
                                &STEP_DECIDES_NOTHING,
                                first.key,
                                "this branch passes whatever the agent does, and so does the whole step",
                            )
                            .help("check for what the agent must do, or remove the branch"),
                        );
                    }
                }
                return;
            }
            let is_script = matches!(step.op.kind, OperationKind::Builtin("command" | "script" | "sleep"));
            if step.op.signature.control != Control::Leaf || is_script || view.has_unread(step.span) {
                return;
            }
            let writes = matches!(step.op.kind, OperationKind::Builtin("file"))
                && step.arg("content").is_some()
                && step.expect.is_none()
                && !is_handed_on(step, view);
            let gives = step.id.is_some() || step.outputs.as_ref().is_some_and(|outputs| !outputs.is_empty());
            if writes || !gives && !is_handed_on(step, view) && verify::cannot_fail(step, view) {
                let message = if writes {
                    "this step writes the file that it should check"
                } else {
                    "this step passes whatever the agent does"
                };
                out.push(
                    Diagnostic::new(&STEP_DECIDES_NOTHING, step.key, message)
                        .help("add what is expected (`expect`), or remove the step"),
                );
            }
        });
    }
}

/// Whether a later verify step reads the file that this step writes, and neither the prompt nor setup mentions it.
fn is_handed_on(step: &Step<Def>, view: &TaskView<'_>) -> bool {
    let source = view.sources.get(view.unit.file);
    let text = source.text();
    let Some(path) = step.arg("path").and_then(|path| text.get(path.span.start as usize..path.span.end as usize))
    else {
        return false;
    };
    let path = path.trim_matches(['"', '\'']);
    let behind = step.span.end as usize;
    let end = view.task.verify.steps.last().map_or(behind, |last| last.span.end as usize);
    let read = text.get(behind..end.max(behind)).is_some_and(|later| later.contains(path));
    let setup = || view.task.setup.steps.iter().filter_map(|s| text.get(s.span.start as usize..s.span.end as usize));
    read && !path.is_empty() && !view.effects.prompt.shown().contains(path) && !setup().any(|step| step.contains(path))
}

/// A step that repeats an earlier check, with nothing in between that changes anything.
fn again(view: &TaskView<'_>, out: &mut Diagnostics) {
    let source = view.sources.get(view.unit.file);
    let looks = |step: &Step<Def>| {
        let http = matches!(step.op.kind, OperationKind::Builtin("http")) && step.arg("method").is_none();
        let file = matches!(step.op.kind, OperationKind::Builtin("file")) && step.arg("content").is_none();
        let typed = matches!(step.op.kind, OperationKind::Extension { .. } | OperationKind::Tool { .. })
            && step.op.signature.effects == Effects::None;
        http || file || typed
    };
    let mut asked: Vec<(String, Span)> = Vec::new();
    for step in &view.task.verify.steps {
        if !looks(step) || step.id.is_some() || step.outputs.is_some() {
            // This step may change something, or take a while.
            asked.clear();
            continue;
        }
        let (start, end) = (step.key.start as usize, step.span.end as usize);
        let text = source.text().get(start..end.max(start)).unwrap_or_default();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if let Some((_, first)) = asked.iter().find(|(known, _)| *known == text && text.len() > 12) {
            out.push(
                Diagnostic::new(&STEP_DECIDES_NOTHING, step.key, "this step repeats an earlier check")
                    .label(*first, "first checked here")
                    .help("check for the result of the task, or remove the step"),
            );
        }
        asked.push((text, step.key));
    }
}

/// A command whose output or exit status is not checked, or only by a pattern that every number matches.
fn told(step: &Step<Def>, out: &mut Diagnostics) {
    let Some(run) = step.arg("run").and_then(texts::script_text) else { return };
    if !matches!(step.op.kind, OperationKind::Builtin("command")) {
        return;
    }
    let expect = step.expect.as_ref().map(|(_, expect)| expect);
    let pattern = expect.and_then(|expect| expect.get("stdout")?.get("matches"));
    if let Some((arg, pattern)) = pattern.and_then(|arg| Some((arg, arg.as_literal()?))) {
        if prints_number(&run) && pattern::covers(pattern, r"\A[0-9]+\z", pattern::Texts::Lines) {
            out.push(
                Diagnostic::new(
                    &STEP_DECIDES_NOTHING,
                    arg.span,
                    "the output is a number, and every number matches this pattern",
                )
                .help("specify the expected number"),
            );
        }
        return;
    }
    let gives_nothing = step.id.is_none() && step.outputs.as_ref().is_none_or(Vec::is_empty);
    if let Some(arg) = expect.filter(|_| gives_nothing).and_then(|expect| expect.get("exitCode"))
        && arg.as_literal() == Some("any")
        && expect.is_some_and(|expect| matches!(&expect.kind, ArgKind::Record(fields) if fields.len() == 1))
        && (texts_alone(&run) || runs_sql(&run))
    {
        out.push(
            Diagnostic::new(&STEP_DECIDES_NOTHING, arg.span, "this accepts any exit code, and nothing else is checked")
                .help("specify the expected exit code or output"),
        );
        return;
    }
    let only_status = expect.is_none_or(|expect| expect.as_value() == Some(serde_json::json!({"exitCode": 0})));
    let gives = step.id.is_some() || step.outputs.as_ref().is_some_and(|outputs| !outputs.is_empty());
    if only_status && !gives && asks_value(&run) {
        let place = step.expect.as_ref().map_or(step.key, |(_, expect)| expect.span);
        out.push(
            Diagnostic::new(&STEP_DECIDES_NOTHING, place, "the output of this command is not checked")
                .help("compare the output: `expect: {stdout: …}`"),
        );
    }
}

/// Whether a command only reads. A command that changes something may be there for its effect.
fn texts_alone(run: &str) -> bool {
    crate::bash::tools::looks(run.trim()) && !run.contains(['|', '>', ';', '&'])
}

/// Whether a command only runs SQL.
fn runs_sql(run: &str) -> bool {
    matches!(run.split_whitespace().next(), Some("psql" | "mysql" | "sqlite3")) && !run.contains(['|', '&'])
}

/// Whether a command always prints a number.
fn prints_number(run: &str) -> bool {
    let last = run.trim().rsplit('|').next().unwrap_or(run).trim();
    let field = || facts::field(run).and_then(facts::last_name);
    last.starts_with("wc -")
        || last.starts_with("grep -c")
        || run.contains("--query 'length(")
        || run.contains("--query \"length(")
        || last.starts_with("jq ") && last.trim_end_matches(['\'', '"', ' ']).ends_with("length")
        || counts(run)
        || field().is_some_and(|field| ["kubectl", "docker"].iter().any(|program| fields::is_number(program, &field)))
}

/// `SELECT count(*) …` that returns nothing else.
fn counts(run: &str) -> bool {
    let lower = run.to_lowercase();
    let Some(at) = lower.find("select count(") else { return false };
    let list = lower[at..].split(" from ").next().unwrap_or_default();
    !list.contains(',') && !list.contains("group by") && !lower.contains('|')
}

/// Whether a command prints one value, and succeeds whatever it is.
fn asks_value(run: &str) -> bool {
    let run = run.trim();
    // `psql -c 'SELECT count(*) FROM orders;'` is one query.
    let query = run.trim_end_matches(['"', '\'', ';', ' ']);
    let lower = run.to_lowercase();
    let alone = !run.contains(['\n', ';', '|', '&', '>']) && !run.contains("$(");
    let words: Vec<&str> = run.split_whitespace().collect();
    let sql = || {
        let Some(at) = lower.find("select ") else { return false };
        let asks = ["count(", "sum(", "avg(", "max(", "min(", "typeof(", "group_concat(", "string_agg("];
        asks.iter().any(|function| lower[at..].contains(function))
    };
    let field = || {
        facts::field(run)
            .and_then(facts::last_name)
            .is_some_and(|field| !matches!(field.as_str(), "name" | "uid" | "namespace" | "items" | "Id" | "Name"))
    };
    match words.first().copied().unwrap_or_default() {
        "sqlite3" | "psql" | "mysql" => sql() && !query.contains([';', '\n', '|', '&', '>']) && !lower.contains("1/"),
        "kubectl" | "oc" => alone && words.contains(&"get") && field(),
        "docker" | "podman" => alone && words.contains(&"inspect") && field(),
        _ => false,
    }
}

/// A loop whose iterations all check the same resource: its variable is not used, or only in the expectation.
fn rounds(step: &Step<Def>, out: &mut Diagnostics) {
    let (Control::Each, Some(var), Some(ArgKind::List(values))) =
        (step.op.signature.control, &step.var, step.arg("in").map(|list| &list.kind))
    else {
        return;
    };
    let several = values.len() > 1 && values.iter().skip(1).any(|value| value.as_value() != values[0].as_value());
    if !several {
        return;
    }
    let uses = |template: &Template<Def>| {
        template.holes().any(|hole| matches!(&hole.reference.target, Target::Loop(name) if *name == var.value))
    };
    let mut anywhere = false;
    let inner = || step.blocks.iter().flat_map(|block| &block.steps);
    inner().for_each(|step| step.walk(&mut |step| step.templates(&mut |template| anywhere |= uses(template))));
    if !anywhere {
        out.push(
            Diagnostic::new(
                &STEP_DECIDES_NOTHING,
                var.span,
                format!("every iteration does the same: `{{{}}}` is not used in the loop", var.value),
            )
            .help("use the variable in the steps of the loop"),
        );
        return;
    }
    for inner in inner().filter(|inner| inner.op.signature.control == Control::Leaf) {
        let mut looked = false;
        inner.args.iter().for_each(|(_, arg)| arg.templates(&mut |template| looked |= uses(template)));
        let expected = inner.expect.as_ref().filter(|_| !looked).and_then(|(_, expect)| exactly(expect, &uses));
        if let Some(span) = expected {
            out.push(
                Diagnostic::new(
                    &STEP_DECIDES_NOTHING,
                    span,
                    "every iteration checks the same resource, but expects a different value",
                )
                .label(inner.key, format!("`{{{}}}` is not used here", var.value))
                .help("use the variable to select what each iteration checks"),
            );
            continue;
        }
        // `resource: service/shop` in a loop over `shop` and others.
        let mut anywhere = false;
        inner.templates(&mut |template| anywhere |= uses(template));
        let literal = inner.args.iter().filter(|_| !anywhere).find_map(|(_, arg)| {
            let text = arg.as_literal()?;
            let mut words = text.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')));
            let word =
                words.find(|word| word.len() > 2 && values.iter().any(|value| value.as_literal() == Some(word)))?;
            Some((arg.span, word))
        });
        if let Some((span, word)) = literal {
            out.push(
                Diagnostic::new(&STEP_DECIDES_NOTHING, span, format!("every iteration checks `{word}`"))
                    .label(var.span, format!("`{{{}}}` takes this value and others", var.value))
                    .help(format!("use `{{{}}}` instead, or move the step out of the loop", var.value)),
            );
        }
    }
}

/// The span of an expected value that must equal the loop variable.
fn exactly(expect: &Arg<Def>, uses: &dyn Fn(&Template<Def>) -> bool) -> Option<Span> {
    match &expect.kind {
        ArgKind::Text(template) if uses(template) => Some(expect.span),
        ArgKind::Record(fields) => fields.iter().find_map(|(key, arg)| match key.value.as_str() {
            "contains" | "matches" | "match" | "path" | "fields" | "not" | "oneOf" => None,
            _ => exactly(arg, uses),
        }),
        _ => None,
    }
}

/// Whether a step queries a property that selected the resource: its kind, API version, name or namespace.
fn asks_what_it_is(step: &Step<Def>) -> bool {
    let path = step.arg("jsonpath").and_then(|path| path.as_literal()).unwrap_or_default();
    matches!(step.op.kind, OperationKind::Extension { .. })
        && matches!(path, "{.kind}" | "{.apiVersion}" | "{.metadata.name}" | "{.metadata.namespace}")
}

fn same_thing(a: &Step<Def>, b: &Step<Def>) -> bool {
    let thing = |step: &Step<Def>| step.arg("resource").and_then(texts::script_text);
    thing(a).is_some_and(|a| thing(b) == Some(a))
}

/// Whether a step checks the existence of a resource that setup has created.
fn is_true_already(step: &Step<Def>, view: &TaskView<'_>) -> bool {
    let exists = matches!(&step.op.kind, OperationKind::Extension { operation, .. } if operation.contains("exists"));
    let made = |act: &crate::effects::Act| {
        view.effects
            .in_phase(PhaseKind::Setup)
            .any(|made| made.verb == Verb::Creates && !made.maybe && made.thing.is(&act.thing))
    };
    exists && view.effects.in_phase(PhaseKind::Verify).any(|act| act.step == step.key && made(act))
}
