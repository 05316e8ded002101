//! What somebody else wrote, read as code.

use super::{
    TaskView,
    script::{self, Content, ScriptView},
};
use crate::{
    diagnostic::{Diagnostic, Diagnostics},
    hir::{ArgKind, Def, Hole, OperationKind, Target, Task},
    rule,
    ty::Type,
    yaml::Style,
};

rule! {
    pub static SHELL_INJECTION = "shell-injection", Warning;
}

/// The agent's words, and what tools and requests answered, in the text of a shell or in an address.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    for text in view.scripts {
        in_script(view, text, out);
    }
    view.task.walk(&mut |_, step| {
        let Some(url) = matches!(step.op.kind, OperationKind::Builtin("http")).then(|| step.arg("url")).flatten()
        else {
            return;
        };
        url.templates(&mut |template| {
            for hole in template.holes().filter(|h| h.reference.target == Target::AgentOutput && is_text(h)) {
                out.push(
                    Diagnostic::new(&SHELL_INJECTION, hole.span, "the agent's words become a part of this address")
                        .here("they may hold `/`, `?` or another host")
                        .help("ask a fixed address, and compare what it answers with the agent's words"),
                );
            }
        });
    });
}

fn in_script(view: &TaskView<'_>, text: &ScriptView<'_>, out: &mut Diagnostics) {
    let ArgKind::Text(template) = &text.value.kind else { return };
    let holes = template.holes().zip(&text.content.holes);
    let foreign: Vec<_> = holes.filter_map(|(hole, range)| Some((hole, range, origin(view.task, hole)?))).collect();
    let [(first, _, origin), others @ ..] = foreign.as_slice() else { return };
    let mut diagnostic =
        Diagnostic::new(&SHELL_INJECTION, first.span, format!("{origin} becomes a part of the shell's text"))
            .here("a quote, a `$` or a line break in it changes the commands");
    for (hole, ..) in others {
        diagnostic = diagnostic.label(hole.span, "and here");
    }
    diagnostic = diagnostic.help("hand it on as a variable: under `env`, and `\"$NAME\"` in the text");
    let edits = edits(view, text, &foreign.iter().map(|(h, r, _)| (*h, (*r).clone())).collect::<Vec<_>>());
    for (at, edit) in edits.into_iter().flatten() {
        diagnostic = diagnostic.fix("hand it on as a variable", at, edit);
    }
    out.push(diagnostic);
}

/// Whose words a hole brings, where they are not the author's: what his own commands print is his.
fn origin(task: &Task<Def>, hole: &Hole<Def>) -> Option<&'static str> {
    if !is_text(hole) {
        return None;
    }
    match &hole.reference.target {
        Target::AgentOutput => Some("what the agent said"),
        Target::Output { step: id, .. } => {
            let mut found = None;
            task.walk(&mut |_, step| {
                if step.id.as_ref().is_some_and(|i| i.value == *id) {
                    found = match step.op.kind {
                        OperationKind::Tool { .. } => Some("what a tool answered"),
                        OperationKind::Builtin("http") => Some("what a server answered"),
                        _ => None,
                    };
                }
            });
            found
        }
        _ => None,
    }
}

fn is_text(hole: &Hole<Def>) -> bool {
    !matches!(hole.reference.ty, Type::Number | Type::Bool)
}

type Edit = (crate::source::Span, String);

/// The edits that pass every one of these by `env`; none where one of them cannot be moved.
fn edits(
    view: &TaskView<'_>,
    text: &ScriptView<'_>,
    holes: &[(&Hole<Def>, std::ops::Range<usize>)],
) -> Option<Vec<Edit>> {
    let mut edits = Vec::new();
    let mut entries: Vec<(String, String)> = Vec::new();
    for (hole, range) in holes {
        let name = variable(hole)?;
        let value = hole.text.clone();
        if value.contains(['"', '\\']) {
            return None;
        }
        match entries.iter().find(|(n, _)| *n == name) {
            Some((_, known)) if *known == value => {}
            Some(_) => return None,
            None => entries.push((name.clone(), value)),
        }
        let reference = reference(&text.content, range, &name)?;
        let written = match text.content.style? {
            Style::DoubleQuoted => reference.replace('"', "\\\""),
            Style::SingleQuoted => reference.replace('\'', "''"),
            _ => reference,
        };
        edits.push((hole.span, written));
    }
    let entries: Vec<_> = entries.into_iter().map(|(n, v)| (n, format!("\"{v}\""))).collect();
    match text.step.args.iter().find(|(k, _)| k.value == "env") {
        Some((_, env)) => {
            let ArgKind::Record(fields) = &env.kind else { return None };
            let (first, _) = fields.first()?;
            for (name, value) in entries {
                if fields.iter().any(|(k, _)| k.value == name) {
                    return None;
                }
                edits.push(script::before_key(view, first.span, &name, &value)?);
            }
        }
        None => {
            let list: Vec<_> = entries.iter().map(|(n, v)| format!("{n}: {v}")).collect();
            edits.push(script::before_key(view, text.key, "env", &format!("{{{}}}", list.join(", ")))?);
        }
    }
    Some(edits)
}

fn variable(hole: &Hole<Def>) -> Option<String> {
    let name = match &hole.reference.target {
        Target::AgentOutput => "AGENT_OUTPUT".to_owned(),
        Target::Output { step, name } => format!("{step}_{name}"),
        _ => return None,
    };
    Some(name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect())
}

/// How the variable is written where the hole stands.
fn reference(content: &Content, range: &std::ops::Range<usize>, name: &str) -> Option<String> {
    let script = content.script().filter(|s| s.is_sound())?;
    let node = script.root().descendant_for_byte_range(range.start, range.end)?;
    let within = |kind: &str| {
        let mut at = Some(node);
        std::iter::from_fn(|| {
            let n = at?;
            at = n.parent();
            Some(n)
        })
        .any(|n| n.kind() == kind)
    };
    if within("arithmetic_expansion") || within("expansion") || within("comment") {
        return None;
    }
    match node.kind() {
        "word" | "concatenation" => Some(format!("\"${name}\"")),
        "string" | "string_content" => Some(format!("${{{name}}}")),
        "raw_string" => Some(format!("'\"${name}\"'")),
        _ => None,
    }
}
