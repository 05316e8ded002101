//! Values that are never used, and values that are overwritten before they are used.

use indexmap::{IndexMap, IndexSet};

use crate::{
    diagnostic::{Diagnostic, Diagnostics, nearest},
    hir::{Arg, Def, Dialect, OperationKind, OracleTask, PhaseKind, Step, Target, Template},
    lint::{TaskView, UnderView, analysis::texts},
    rule,
    source::Span,
    template::{Path, SegmentKind},
};

rule! {
    pub static UNUSED_OUTPUT = "unused-output", Warning;
    pub static OVERWRITTEN_OUTPUT = "overwritten-output", Warning;
    pub static UNPRINTED_OUTPUT = "unprinted-output", Verdict;
}

/// Holes for an output that a script with `protocol: json` does not print. Requires that the script writes its outputs
/// as one object with literal keys.
pub fn unprinted(view: &TaskView<'_>, out: &mut Diagnostics) {
    let mut printed: IndexMap<&str, (Span, Vec<&str>)> = IndexMap::new();
    view.task.walk(&mut |_, step| {
        let is_json = step.arg("protocol").and_then(Arg::as_literal) == Some("json");
        if let Some((id, script)) = step.id.as_ref().filter(|_| is_json).zip(view.script_of(step))
            && let Some(keys) = printed_outputs(&script.content.text)
        {
            printed.insert(&id.value, (id.span, keys));
        }
    });
    if printed.is_empty() {
        return;
    }
    texts::holes(view.task, &mut |_, hole| {
        let Target::Output { step, name } = &hole.reference.target else { return };
        let Some((place, keys)) = printed.get(step.as_str()).filter(|(_, keys)| !keys.contains(&name.as_str())) else {
            return;
        };
        let span = hole.spans.get(3).copied().unwrap_or(hole.span);
        let message = format!("the script of `{step}` does not print an output `{name}`");
        let finding = Diagnostic::new(&UNPRINTED_OUTPUT, span, message).label(*place, "this script");
        let listed = keys.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
        let finding = finding.help(format!("it prints {listed}"));
        out.push(match nearest(name, keys.iter().copied()) {
            Some(near) => finding.fix(format!("write `{near}`"), span, near),
            None => finding,
        });
    });
}

/// The keys of `"outputs": {"total": …}`, if this is the script's only mention of outputs.
fn printed_outputs(text: &str) -> Option<Vec<&str>> {
    let mut mentions = text.match_indices("outputs");
    let ((at, word), None) = (mentions.next()?, mentions.next()) else { return None };
    let behind = text[at + word.len()..].trim_start_matches(['"', '\'']).trim_start().strip_prefix(':')?;
    let object = behind.trim_start().strip_prefix('{')?;
    let mut depth = 0;
    let mut keys = Vec::new();
    let mut rest = object;
    while let Some(c) = rest.chars().next() {
        match c {
            '}' if depth == 0 => return (!keys.is_empty()).then_some(keys),
            '{' | '[' | '(' => depth += 1,
            '}' | ']' | ')' => depth -= 1,
            '"' | '\'' => {
                let inner = rest[1..].split(c).next()?;
                let behind = rest.get(inner.len() + 2..)?;
                if depth == 0 && behind.trim_start().starts_with(':') {
                    keys.push(inner);
                }
                rest = behind;
                continue;
            }
            // Spread, computed or escaped keys.
            '*' | '.' | '$' | '\\' | '`' if depth == 0 => return None,
            _ => {}
        }
        rest = &rest[c.len_utf8()..];
    }
    None
}

/// Outputs that a step declares and nothing uses.
pub fn unused(view: &UnderView<'_, '_>, out: &mut Diagnostics) {
    let task = view.task;
    if task.dialect != Dialect::Portable {
        return;
    }
    let mut used: IndexSet<(String, String)> = IndexSet::new();
    texts::holes(task, &mut |_, hole| {
        if let Target::Output { step, name } = &hole.reference.target {
            used.insert((step.clone(), name.clone()));
        }
    });
    let oracle = view
        .eval
        .and_then(|e| e.unit.oracle.as_ref())
        .and_then(|o| o.tasks.iter().find(|t| t.task.value == task.name.value));
    if let Some(entry) = oracle {
        named_by_agent(entry, &mut used);
    }
    for kind in PhaseKind::ALL {
        for step in &task.phase(kind).steps {
            walk(step, false, &used, out);
        }
    }
}

/// `all`: a hole uses the `rounds` of an enclosing loop, and so possibly every output in it.
fn walk(step: &Step<Def>, all: bool, used: &IndexSet<(String, String)>, out: &mut Diagnostics) {
    let id = step.id.as_ref().map(|i| i.value.clone());
    for (name, _) in step.outputs.iter().flatten() {
        let diagnostic = match &id {
            _ if all && id.is_some() => continue,
            Some(id) if used.contains(&(id.clone(), name.value.clone())) => continue,
            Some(_) => Diagnostic::new(&UNUSED_OUTPUT, name.span, format!("unused output `{}`", name.value))
                .help("use the output, or remove it"),
            None => Diagnostic::new(
                &UNUSED_OUTPUT,
                name.span,
                format!("the output `{}` cannot be used: the step has no `id`", name.value),
            )
            .label(step.key, "this step")
            .help("add `id: …` to the step's body, or remove the output"),
        };
        out.push(diagnostic);
    }
    let all = all || id.is_some_and(|id| used.contains(&(id, "rounds".to_owned())));
    step.blocks.iter().flat_map(|b| &b.steps).for_each(|s| walk(s, all, used, out));
}

/// Adds the outputs that the scripted agent's calls use.
fn named_by_agent(entry: &OracleTask<Path>, used: &mut IndexSet<(String, String)>) {
    let mut visit = |template: &Template<Path>| {
        for path in template.holes().map(|h| &h.reference) {
            let name = |i: usize| match path.segments.get(i).map(|s| &s.kind) {
                Some(SegmentKind::Name(name)) => Some(name.clone()),
                _ => None,
            };
            if let ("steps", Some(step), Some(output)) = (path.root.text.as_str(), name(0), name(2)) {
                used.insert((step, output));
            }
        }
    };
    entry.output.iter().for_each(&mut visit);
    for call in &entry.calls {
        visit(&call.name);
        call.args.iter().for_each(|(_, a): &(_, Arg<Path>)| a.templates(&mut |t| visit(t)));
    }
}

/// In the steps dialect, holes refer to a step by its type: of two, to the later one (`tests/coverage.md` C10).
pub fn overwritten(view: &TaskView<'_>, out: &mut Diagnostics) {
    let task = view.task;
    if task.dialect != Dialect::Steps {
        return;
    }
    let mut makers: IndexMap<(PhaseKind, String), Vec<Span>> = IndexMap::new();
    task.walk(&mut |phase, step| {
        if let Some(name) = gives(step) {
            makers.entry((phase, name)).or_default().push(step.key);
        }
    });
    let mut reported = IndexSet::new();
    texts::holes(task, &mut |phase, hole| {
        let Target::Output { step, .. } = &hole.reference.target else { return };
        let from = if phase == Some(PhaseKind::Verify) { PhaseKind::Verify } else { PhaseKind::Setup };
        let before: Vec<Span> = makers
            .get(&(from, step.clone()))
            .into_iter()
            .flatten()
            .filter(|m| phase != Some(from) || m.start < hole.span.start)
            .copied()
            .collect();
        if let [first, .., last] = before.as_slice()
            && reported.insert((*last, hole.span))
        {
            out.push(
                Diagnostic::new(&OVERWRITTEN_OUTPUT, hole.span, format!("two steps set the outputs of `{step}`: this is the value of the later one"))
                    .label(*first, "the outputs of this step are overwritten")
                    .label(*last, "the outputs of this step are used")
                    .help("use the outputs before the next step overwrites them, or use the portable dialect, which identifies outputs by the step's id"),
            );
        }
    });
}

/// The name under which holes refer to a step's outputs.
fn gives(step: &Step<Def>) -> Option<String> {
    match &step.op.kind {
        OperationKind::Builtin(_) => None,
        OperationKind::Tool { server, tool } => Some(format!("{server}.{tool}")),
        OperationKind::Extension { package, operation } => Some(format!("{package}.{operation}")),
    }
}
