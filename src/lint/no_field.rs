//! Fields that objects of Kubernetes do not have, in filters of jq and in paths, and containers that nothing creates.

use super::{TaskView, answers::place, misspelt, misspelt::MISSPELT_VALUE, texts};
use crate::{
    ascii::{Ascii, ascii},
    bash::tools::{self, Tool},
    diagnostic::{Diagnostic, Diagnostics, Strength},
    effects::{asked, shell::Run, value::Value},
    hir::PhaseKind,
    source::Span,
};

pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    let Some(tool) = view.tools.tool("kubectl") else { return };
    let mut found: Vec<(Span, String, String)> = Vec::new();
    for followed in view.effects.scripts.iter().filter(|followed| followed.view.phase == PhaseKind::Verify) {
        for (first, run, filter) in asked::filtered_by(followed) {
            if first.statement.tool() == "kubectl" && asked::is_object(first) {
                let act = view.effects.read_by(first);
                if act.is_some_and(|act| act.thing.name.is_none()) {
                    of_list(first, &filter, run, &mut found);
                }
                let kind = act.map_or("", |act| act.thing.kind.as_str());
                let kind = tool.kind(kind).map_or("", |(kind, _)| kind);
                in_path(tool, kind, &filter, run, &mut found);
                of_items(tool, kind, &filter, run, &mut found);
            }
        }
    }
    containers(view, &mut found);
    chart_values(view, &mut found);
    let mut told: Vec<Span> = out.iter().map(|known| known.span).collect();
    for (span, message, help) in found {
        if !told.iter().any(|known| known.contains(span) || span.contains(*known)) {
            told.push(span);
            out.push(Diagnostic::new(&MISSPELT_VALUE, span, message).help(help).strength(Strength::Warning));
        }
    }
}

/// `kubectl get hpa -o json | jq .spec.maxReplicas`: without a name, this is a list of resources.
fn of_list(first: &Run<'_>, filter: &str, run: &Run<'_>, found: &mut Vec<(Span, String, String)>) {
    let words: Vec<String> = first.words.iter().skip(1).map(Value::shown).collect();
    // Files may contain one resource, and so may a value that is not known.
    let is_open = |word: &String| matches!(word.as_str(), "-f" | "--filename" | "--raw");
    if words.iter().any(is_open) || !first.words.iter().all(Value::is_known) {
        return;
    }
    let operands: Vec<&String> = tools::operands("kubectl", &words).collect();
    let is_list = matches!(operands.as_slice(), [verb, kind] if *verb == "get" && !kind.contains(['/', ',']));
    let field = [".spec", ".status", ".data", ".metadata.name"].into_iter().find(|field| {
        let rest = filter.trim_start_matches(['(', ' ', '\n']).strip_prefix(field);
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric()))
    });
    if let Some(field) = field.filter(|_| is_list) {
        let kind = operands[1];
        let message =
            format!("without a name, this is a list of {kind}, which has no field `{field}`: the result is null");
        found.push((place(run, field), message, format!("name the resource, or select an item: `.items[0]{field}`")));
    }
}

static PAIR: Ascii = ascii(r"\.(\w+)(?:\[\w*\])?\??\.([A-Za-z]\w*)");

/// `.metadata.label`, `.valueFrom.secretRef`: the object in the first field never has the second.
fn in_path(tool: &Tool, kind: &str, filter: &str, run: &Run<'_>, found: &mut Vec<(Span, String, String)>) {
    // A text in the object may be JSON of another form.
    if filter.contains("fromjson") {
        return;
    }
    let mut at = 0;
    while let Some(pair) = PAIR.captures_at(filter, at) {
        let (Some(whole), Some(outer), Some(inner)) = (pair.get(0), pair.get(1), pair.get(2)) else { return };
        at = inner.range().start - 1;
        let known = tool.under("any", outer.as_str());
        // Custom resources have other fields with the same names.
        let before = &filter[..whole.range().start];
        let own = !before.ends_with(|c: char| c.is_ascii_alphanumeric() || c == ']')
            || ["emplate", "items[]", "items[0]"].iter().any(|outer| before.ends_with(outer));
        let is_known = outer.as_str() == "metadata" && own || !kind.is_empty();
        if is_known && !known.is_empty() && !known.contains(&inner.as_str()) {
            let message = format!("`{}` has no field `{}`: the result is null", outer.as_str(), inner.as_str());
            found.push((
                place(run, whole.as_str()),
                message,
                format!("the fields of `{}` are {}", outer.as_str(), known.join(", ")),
            ));
        }
    }
}

static ITEM: Ascii = ascii(r"(?:^|[\s(\[{:|!])(\.(?:spec|status)\.[A-Za-z][\w.]*)");

/// `.items[] | select(.spec.node == $n)`: a field that the items do not have.
fn of_items(tool: &Tool, kind: &str, filter: &str, run: &Run<'_>, found: &mut Vec<(Span, String, String)>) {
    // In a template, the paths start at another object.
    if kind.is_empty() || filter.contains("emplate") || filter.contains("as $") {
        return;
    }
    for path in ITEM.captures_iter(filter).filter_map(|item| item.get(1)) {
        let Some((outer, name, known)) = misspelt::unknown_place(tool, kind, path.as_str()) else { continue };
        if known.is_empty() {
            continue;
        }
        let message = format!("a {kind} has no field `{outer}.{name}`: the result is null");
        found.push((place(run, path.as_str()), message, format!("the fields of `{outer}` are {}", known.join(", "))));
    }
}

/// `.replicas` of `helm get values`, if setup sets the value `replicaCount`, which verify never reads.
fn chart_values(view: &TaskView<'_>, found: &mut Vec<(Span, String, String)>) {
    let first_of =
        |path: &str| path.split(['.', '[', '=']).find(|part| !part.is_empty()).unwrap_or_default().to_owned();
    let verify = view.effects.scripts.iter().filter(|followed| followed.view.phase == PhaseKind::Verify);
    let mut read: Vec<(&Run<'_>, String)> = Vec::new();
    for (first, run, filter) in verify.flat_map(asked::filtered_by) {
        let is_values = first.statement.tool() == "helm" && asked::is_object(first);
        let operation: Vec<&str> = first.words.iter().skip(1).filter_map(Value::literal).take(2).collect();
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '.';
        if is_values && operation == ["get", "values"] && filter.starts_with('.') && filter.chars().all(plain) {
            read.push((run, first_of(&filter)));
        }
    }
    if read.is_empty() {
        return;
    }
    let setup = view.effects.scripts.iter().filter(|followed| followed.view.phase == PhaseKind::Setup);
    let mut set: Vec<String> = Vec::new();
    for run in setup.flat_map(|followed| &followed.trace.runs).filter(|run| run.statement.tool() == "helm") {
        let words: Vec<&str> = run.words.iter().map(|word| word.literal().unwrap_or_default()).collect();
        for (nth, word) in words.iter().enumerate() {
            let option = ["--set", "--set-string"].iter().find_map(|option| word.strip_prefix(option));
            let pairs = option.and_then(|rest| rest.strip_prefix('=').or_else(|| words.get(nth + 1).copied()));
            set.extend(pairs.unwrap_or_default().split(',').filter(|pair| pair.contains('=')).map(first_of));
        }
    }
    for (run, name) in &read {
        let begins_alike = |known: &&String| known.bytes().zip(name.bytes()).take_while(|(a, b)| a == b).count() >= 6;
        let is_read = |known: &String| read.iter().any(|(_, name)| name == known);
        if let Some(known) = set.iter().find(begins_alike).filter(|known| !set.contains(name) && !is_read(known)) {
            let message = format!("setup sets the value `{known}` of the chart, not `{name}`: the result is null");
            found.push((place(run, name), message, format!("did you mean `.{known}`?")));
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
