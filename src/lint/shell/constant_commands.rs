//! Checks of verify that have the same result whatever the agent did, because of how a command works.

use std::cell::LazyCell;

use crate::{
    bash::program::{Kind, Repeat, Statement},
    diagnostic::{Diagnostic, Diagnostics, Strength},
    effects::{script::Content, shell::Run, value::Value},
    hir::PhaseKind,
    lint::{
        TaskView,
        shell::{always_true::ALWAYS_TRUE, embedded, impossible_values::IMPOSSIBLE_VALUE},
    },
};

fn runs<'v>(view: &'v TaskView<'_>) -> impl Iterator<Item = &'v Run<'v>> {
    let model: &'v crate::effects::Model<'v> = view.effects;
    model.scripts.iter().filter(|script| script.view.phase == PhaseKind::Verify).flat_map(|script| &script.trace.runs)
}

/// Whether the output of a command is piped or captured.
fn is_read(run: &Run<'_>) -> bool {
    let range = &run.statement.range;
    let piped = run.content.text.get(range.end..).is_some_and(|rest| rest.trim_start_matches(' ').starts_with('|'));
    let mut captured = false;
    run.content.program.walk(&mut |s| {
        captured |= s.nested.iter().any(|inner| inner.range.start <= range.start && range.end <= inner.range.end);
    });
    piped || captured
}

/// Checks of verify that always succeed: `kubectl rollout status --watch=false`, and the same check for each value of a loop.
pub fn always(view: &TaskView<'_>, out: &mut Diagnostics) {
    for run in runs(view).filter(|run| run.statement.tool() == "kubectl") {
        let words: Vec<&str> = run.words.iter().filter_map(Value::literal).collect();
        let unwatched = ["rollout", "status", "--watch=false"].iter().all(|word| words.contains(word));
        if unwatched && !is_read(run) {
            let message =
                "with `--watch=false`, this prints the status and succeeds, also if the rollout is not complete";
            let finding = Diagnostic::new(&ALWAYS_TRUE, run.content.span(run.statement.range.clone()), message);
            out.push(finding.help("remove `--watch=false`, and set `--timeout`").strength(Strength::Warning));
        }
    }
    for script in view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify) {
        let content = &*script.content;
        let reported = LazyCell::new(|| embedded::rounds(content));
        content.program.walk(&mut |s| {
            let is_reported = || reported.iter().any(|(place, ..)| content.span(s.range.clone()).contains(*place));
            if let Some(name) = same_for_all(s, content).filter(|_| !is_reported()) {
                let message = format!("each round checks the same: only a message contains `${name}`");
                let finding = Diagnostic::new(&ALWAYS_TRUE, content.span(embedded::first_line(content, s)), message);
                out.push(finding.help("use the variable in the check").strength(Strength::Warning));
            }
        });
    }
}

/// The variable of a `for` loop over words that only messages of its body contain.
fn same_for_all<'c>(s: &Statement, content: &'c Content) -> Option<&'c str> {
    let Kind::Loop { repeat: Repeat::For, body, .. } = &s.kind else { return None };
    let text = content.text.get(embedded::first_line(content, s))?.strip_prefix("for ")?;
    let (name, list) = text.split_once(" in ")?;
    let items: Vec<&str> = list.split_whitespace().collect();
    let plain =
        |item: &&str| item.starts_with(|c: char| c.is_ascii_alphabetic()) && !item.contains(['*', '$', '{', '(', '`']);
    if items.len() < 2 || !items.iter().all(plain) {
        return None;
    }
    let dollar = [format!("${name}"), format!("${{{name}")];
    let reads = |text: &str| dollar.iter().any(|form| text.contains(form));
    let (mut messages, mut others) = (false, false);
    for statement in body {
        statement.walk(&mut |inner| {
            let own = content.text.get(inner.range.clone()).unwrap_or_default();
            let is_leaf = !matches!(
                inner.kind,
                Kind::If { .. }
                    | Kind::Loop { .. }
                    | Kind::And(_)
                    | Kind::Or(_)
                    | Kind::Not(_)
                    | Kind::Group(_)
                    | Kind::Pipeline(_)
                    | Kind::Case(_)
                    | Kind::Subshell(_)
            );
            if !is_leaf || !reads(own) {
                return;
            }
            let is_message = matches!(inner.name(), "echo" | "printf")
                || ["fail", "die", "err", "log", "warn", "info", "msg"].iter().any(|word| inner.name().contains(word));
            if is_message && !own.contains("$(") { messages = true } else { others = true }
        });
    }
    // A `case` reads it, or a function that the body calls.
    let whole = content.text.get(s.range.clone())?;
    let in_case =
        dollar.iter().any(|form| whole.contains(&format!("case {form}")) || whole.contains(&format!("case \"{form}")));
    let mut in_function = false;
    content.program.walk(&mut |f| {
        if let Kind::Function { .. } = &f.kind
            && !(f.range.start <= s.range.start && s.range.end <= f.range.end)
        {
            in_function |= reads(content.text.get(f.range.clone()).unwrap_or_default());
        }
    });
    (messages && !others && !in_case && !in_function && !whole.contains("export ")).then_some(name)
}

/// Fields whose values may have several lines.
const MANY_LINES: [&str; 8] =
    [".data", ".stringData", ".binaryData", "annotations", "message", ".args", ".command", "managedFields"];

/// `kubectl get … -o jsonpath=… | wc -l`: the output has no newline.
pub fn counts(view: &TaskView<'_>, out: &mut Diagnostics) {
    for script in
        view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify && script.content.text.contains("wc "))
    {
        let content = &*script.content;
        content.program.walk(&mut |s| {
            let Kind::Pipeline(list) = &s.kind else { return };
            let source = |s: &Statement| content.text.get(s.range.clone()).unwrap_or_default();
            let is_one_line = |template: &str| {
                let quoted = template.strip_prefix('"').unwrap_or(template);
                !template.contains(['\\', '$'])
                    && !MANY_LINES.iter().any(|field| template.contains(field))
                    && !template.contains("range")
                    && quoted.trim_start_matches('\'').starts_with('{')
            };
            for pair in list.windows(2) {
                let (first, last) = (&pair[0], &pair[1]);
                let lines = last.name() == "wc" && last.words().len() == 2 && last.words()[1].text == "-l";
                let template = source(first).split_once("jsonpath=").map(|(_, template)| template);
                if lines && first.tool() == "kubectl" && template.is_some_and(is_one_line) {
                    let message = "kubectl prints these values in one line without a newline, so `wc -l` is always 0";
                    let place = content.span(first.range.start..last.range.end);
                    out.push(Diagnostic::new(&IMPOSSIBLE_VALUE, place, message).help("count words: `wc -w`"));
                }
            }
        });
    }
}
