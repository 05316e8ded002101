//! Containers that nothing creates, in paths of kubectl.

use crate::{
    ascii::{Ascii, ascii},
    diagnostic::{Diagnostic, Diagnostics, Strength},
    effects::{asked, shell::Run, value::Value},
    hir::PhaseKind,
    lint::{
        TaskView,
        analysis::texts,
        shell::{answers::place, misspelt::MISSPELT_VALUE},
    },
    source::Span,
};

pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    let mut found: Vec<(Span, String, String)> = Vec::new();
    containers(view, &mut found);
    let mut told: Vec<Span> = out.iter().map(|known| known.span).collect();
    for (span, message, help) in found {
        if !told.iter().any(|known| known.contains(span) || span.contains(*known)) {
            told.push(span);
            out.push(Diagnostic::new(&MISSPELT_VALUE, span, message).help(help).strength(Strength::Warning));
        }
    }
}

static NAMED: Ascii = ascii(r#"[cC]ontainers\[\?\(@\.name ?== ?\\?["']([A-Za-z0-9-]+)\\?["']\)\]"#);

/// `containers[?(@.name=="web")]`, if setup creates no container of this name and the prompt asks for none.
fn containers(view: &TaskView<'_>, found: &mut Vec<(Span, String, String)>) {
    let asked = |run: &Run<'_>| {
        run.words.iter().filter_map(Value::literal).find_map(|word| {
            let found = if word.contains("ontainers[?") { NAMED.captures(word) } else { None };
            Some(found?.get(1)?.as_str().to_owned())
        })
    };
    let verify = view.effects.scripts.iter().filter(|followed| followed.view.phase == PhaseKind::Verify);
    let questions: Vec<(&Run<'_>, String)> =
        verify.flat_map(|followed| &followed.trace.runs).filter_map(|run| Some((run, asked(run)?))).collect();
    if questions.is_empty() {
        return;
    }
    let Some(known) = created(view) else { return };
    let said = view.effects.prompt.shown();
    for (run, name) in questions {
        let workload = view.effects.read_by(run).and_then(|act| act.thing.name.as_ref()).and_then(Value::literal);
        let Some((_, containers)) = known.iter().find(|(of, _)| Some(of.as_str()) == workload) else { continue };
        let lower = said.to_lowercase();
        let asks = texts::has_word(&said, &name) && (lower.contains("container") || lower.contains("sidecar"));
        if !containers.contains(&name) && !asks {
            let message = format!("the container is not called `{name}`: the output is empty");
            found.push((
                place(run, &name),
                message,
                format!("setup creates the container `{}`", containers.join("`, `")),
            ));
        }
    }
}

/// The workloads that setup creates, with the names of their containers. `None` if there may be others.
fn created(view: &TaskView<'_>) -> Option<Vec<(String, Vec<String>)>> {
    if !view.effects.sees(PhaseKind::Setup) {
        return None;
    }
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    for run in view.effects.scripts.iter().filter(|s| s.view.phase == PhaseKind::Setup).flat_map(|s| &s.trace.runs) {
        if run.statement.tool() != "kubectl" {
            continue;
        }
        let words: Vec<&str> = run.words.iter().map(|word| word.literal().unwrap_or_default()).collect();
        if words.iter().any(|word| matches!(*word, "patch" | "edit" | "replace")) {
            return None;
        }
        let image = asked::value_of(&words, "--image", "--image");
        match crate::bash::tools::operands("kubectl", words.get(1..)?).copied().collect::<Vec<_>>().as_slice() {
            ["create", "deployment" | "deploy", name] => {
                let image = image?.rsplit('/').next().unwrap_or_default();
                let container = image.split([':', '@']).next().unwrap_or_default();
                found.push(((*name).to_owned(), vec![container.to_owned()]));
            }
            ["run", name, ..] => found.push(((*name).to_owned(), vec![(*name).to_owned()])),
            _ => {}
        }
        if let Some(text) = run.input.as_ref().map(Value::shown).filter(|text| text.contains("ontainers:")) {
            found.extend(text.split("\n---").filter_map(of_document));
        }
    }
    Some(found)
}

/// The name of the workload in a manifest, and of its containers.
fn of_document(text: &str) -> Option<(String, Vec<String>)> {
    let value = |line: &str| {
        let value = line.split_once("name:")?.1.trim().trim_matches(['"', '\'', '}', ' ']);
        let plain = value.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.'));
        (plain && !value.is_empty()).then(|| value.to_owned())
    };
    let indent = |line: &str| line.len() - line.trim_start().len();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let at = lines.iter().position(|line| line.starts_with("metadata:"))?;
    let own = lines.get(at..)?.iter().enumerate();
    let mut own = own.take_while(|(nth, line)| *nth == 0 || line.starts_with(' ')).map(|(_, line)| *line);
    let name = own.find_map(|line| value(line).filter(|_| line.contains(['{', ' ']) && indent(line) <= 2))?;
    let mut containers = Vec::new();
    for (nth, _) in lines.iter().enumerate().filter(|(_, line)| line.trim().ends_with("ontainers:")) {
        let inside = |line: &&&str| {
            indent(line) > indent(lines[nth])
                || line.trim_start().starts_with("- ") && indent(line) == indent(lines[nth])
        };
        let block: Vec<&&str> = lines.get(nth + 1..)?.iter().take_while(|line| inside(line)).collect();
        let depth = indent(block.first()?);
        for line in block {
            let text = line.trim_start();
            let own = indent(line) == depth && text.starts_with("- name:")
                || indent(line) == depth + 2 && text.starts_with("name:");
            if own {
                containers.push(value(line)?);
            } else if indent(line) == depth && text.starts_with("- {") {
                return None;
            }
        }
    }
    (!containers.is_empty()).then_some((name, containers))
}
