//! Commands that have the same result whatever the agent did.

use std::cell::LazyCell;

use super::{
    TaskView, always_true::ALWAYS_TRUE, embedded, prompt_disagrees::PROMPT_DISAGREES, released::RESOURCE_NOT_RELEASED,
    values::IMPOSSIBLE_VALUE,
};
use crate::{
    bash::program::{Kind, Repeat, Statement},
    diagnostic::{Diagnostic, Diagnostics, Strength},
    effects::{asked, script::Content, shell::Run, value::Value},
    hir::PhaseKind,
};

fn runs<'v>(view: &'v TaskView<'_>, phase: PhaseKind) -> impl Iterator<Item = &'v Run<'v>> {
    let model: &'v crate::effects::Model<'v> = view.effects;
    model.scripts.iter().filter(move |script| script.view.phase == phase).flat_map(|script| &script.trace.runs)
}

fn literals<'r>(run: &'r Run<'_>) -> Vec<&'r str> {
    run.words.iter().map(|word| word.literal().unwrap_or_default()).collect()
}

/// Checks of verify that always succeed: `kubectl rollout status --watch=false`, and the same check for each value of a loop.
pub fn always(view: &TaskView<'_>, out: &mut Diagnostics) {
    for run in runs(view, PhaseKind::Verify).filter(|run| run.statement.tool() == "kubectl") {
        let words = literals(run);
        let piped = run
            .content
            .text
            .get(run.statement.range.end..)
            .is_some_and(|rest| rest.trim_start_matches(' ').starts_with('|'));
        if words.contains(&"rollout") && words.contains(&"status") && words.contains(&"--watch=false") && !piped {
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
            let is_reported = |name: &&str| {
                !name.is_empty() && reported.iter().any(|(place, ..)| content.span(s.range.clone()).contains(*place))
            };
            if let Some(name) = same_for_all(s, content).filter(|name| !is_reported(name)) {
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

/// What cleanup cannot do or does not undo: `psql -d shop -c 'DROP DATABASE shop'`, and labels of nodes.
pub fn leaves(view: &TaskView<'_>, out: &mut Diagnostics) {
    for run in runs(view, PhaseKind::Cleanup).filter(|run| run.statement.name() == "psql") {
        let words: Vec<String> = run.words.iter().map(Value::shown).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let Some(database) = asked::value_of(&words, "-d", "--dbname") else { continue };
        let drops = words.iter().any(|word| {
            let mut parts = word.split_whitespace();
            let names = parts.by_ref().skip_while(|part| !part.eq_ignore_ascii_case("database")).skip(1);
            let mut names =
                names.skip_while(|part| part.eq_ignore_ascii_case("if") || part.eq_ignore_ascii_case("exists"));
            word.to_ascii_lowercase().trim_start().starts_with("drop database")
                && names.next().is_some_and(|name| name.trim_matches(['"', ';']) == database)
        });
        if drops {
            let message = format!("PostgreSQL refuses to drop `{database}`, because this command is connected to it");
            let finding =
                Diagnostic::new(&RESOURCE_NOT_RELEASED, run.content.span(run.statement.range.clone()), message);
            out.push(finding.help("connect to another database: `-d postgres`, or use `dropdb`"));
        }
    }
    labels(view, out);
}

/// `kubectl label node NODE eval=1` in setup, and nothing that removes the label.
fn labels(view: &TaskView<'_>, out: &mut Diagnostics) {
    let labelled = |run: &&Run<'_>| {
        run.statement.tool() == "kubectl"
            && run.words.iter().any(|word| matches!(word.literal(), Some("label" | "annotate")))
    };
    if !runs(view, PhaseKind::Setup).any(|run| labelled(&run)) {
        return;
    }
    let scripts = view.scripts.iter().filter(|script| script.phase == PhaseKind::Cleanup);
    let cleanup = scripts.map(|script| script.content.text.as_str()).collect::<Vec<_>>().join("\n");
    let own = ["kind create", "kind delete", "k3d", "minikube", "kwokctl", "vcluster"];
    if cleanup.is_empty() || own.iter().any(|word| cleanup.contains(word)) || !view.effects.sees(PhaseKind::Cleanup) {
        return;
    }
    for run in runs(view, PhaseKind::Setup).filter(labelled) {
        let words = literals(run);
        let at = words.iter().position(|word| matches!(*word, "label" | "annotate"));
        let is_node =
            at.is_some_and(|at| words.get(at + 1).is_some_and(|kind| matches!(*kind, "node" | "nodes" | "no")));
        let Some(label) = words.iter().find(|word| is_node && !word.starts_with('-') && word.contains('=')) else {
            continue;
        };
        let key = label.split('=').next().unwrap_or_default();
        if key.is_empty() || cleanup.contains(key) {
            continue;
        }
        let what = if words.contains(&"label") { "label" } else { "annotation" };
        let message = format!("the {what} `{key}` of the node stays after the task");
        let finding = Diagnostic::new(&RESOURCE_NOT_RELEASED, run.content.span(run.statement.range.clone()), message);
        let verb = if what == "label" { "label" } else { "annotate" };
        out.push(finding.help(format!("add to cleanup: `kubectl {verb} nodes NODE {key}-`")));
        return;
    }
}

/// Fields that are easily confused, each with the word for it.
const SIBLINGS: [(&str, &str); 5] = [
    ("livenessProbe", "liveness"),
    ("readinessProbe", "readiness"),
    ("startupProbe", "startup"),
    ("minReplicas", "minimum"),
    ("maxReplicas", "maximum"),
];

/// `.readinessProbe` in verify, where setup and the prompt are about `livenessProbe` only.
pub fn siblings(view: &TaskView<'_>, out: &mut Diagnostics) {
    let texts = super::facts::elsewhere(view);
    let read = SIBLINGS.iter().filter(|(field, _)| texts.verify.contains(field)).collect::<Vec<_>>();
    let [(field, word)] = read.as_slice() else { return };
    let said = view.effects.prompt.shown();
    let lower = said.to_lowercase();
    let is_told = |field: &str, word: &str| texts.rest.contains(field) || said.contains(field) || lower.contains(word);
    let end = |name: &str| name.trim_start_matches(|c: char| c.is_ascii_lowercase()).to_owned();
    let mut others = SIBLINGS.iter().filter(|(other, _)| other != field && end(other) == end(field));
    let Some((other, _)) = others.find(|(other, word)| is_told(other, word)).filter(|_| !is_told(field, word)) else {
        return;
    };
    for script in view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify) {
        let Some(at) = script.content.text.find(field) else { continue };
        let message = format!("verify reads `{field}`, but the rest of the task only mentions `{other}`");
        let place = script.content.span(at..at + field.len());
        out.push(Diagnostic::new(&PROMPT_DISAGREES, place, message).help("check what the prompt asks for"));
        return;
    }
}
