//! Shell variables in prompts.

use crate::{
    ascii::{Ascii, ascii},
    diagnostic::{Diagnostic, Diagnostics},
    hir::Dialect,
    lint::TaskView,
    rule,
    source::Span,
};

rule! {
    pub static SHELL_VARIABLE_IN_PROMPT = "shell-variable-in-prompt", Warning;
}

static VARIABLE: Ascii = ascii(r"\$\{([A-Z_][A-Z0-9_]*)(?::?[-=?+][^}\n]*)?\}|\$([A-Z_][A-Z0-9_]+)");

/// The agent receives the prompt unchanged: no shell expands it (author mistake 13).
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    let Some(prompt) = &view.task.prompt else { return };
    let span = prompt.text.span;
    let node = view.unit.tree.node_at(span).filter(|_| prompt.file.is_none());
    let file = view.sources.get(span.file);
    let text = match node {
        Some(node) => node.text().unwrap_or_default(),
        None if prompt.file.is_some() => file.text(),
        None => return,
    };
    if !text.contains('$') {
        return;
    }
    let map = node.map(crate::yaml::Node::source_map);
    for found in VARIABLE.captures_iter(text) {
        let (Some(whole), Some(name)) = (found.get(0), found.get(1).or(found.get(2))) else { continue };
        let place = match &map {
            Some(map) => map.span(whole.range()),
            None => Span::new(span.file, whole.range()),
        };
        // In backticks, it is code that the prompt is about; in a hole, it is filled.
        let quoted = text[..whole.start()].matches('`').count() % 2 == 1;
        if quoted || text[..whole.start()].ends_with('\\') || prompt.text.holes().any(|h| h.span.contains(place)) {
            continue;
        }
        let name = name.as_str();
        let diagnostic = Diagnostic::new(
            &SHELL_VARIABLE_IN_PROMPT,
            place,
            format!("`{}` is not expanded in the prompt", whole.as_str()),
        )
        .here("no shell reads a prompt");
        let declared = view.declares(name);
        out.push(match (view.task.dialect, declared) {
            (Dialect::Portable, true) => {
                diagnostic.fix(format!("write `{{env.{name}}}`"), place, format!("{{env.{name}}}"))
            }
            (Dialect::Portable, false) => {
                diagnostic.help(format!("set it under `spec.env`, and write `{{env.{name}}}`"))
            }
            _ => diagnostic.help("write the value itself; the portable dialect fills `{env.NAME}` in prompts"),
        });
    }
}
