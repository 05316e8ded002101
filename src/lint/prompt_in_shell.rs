//! Agents that get their prompt through a shell.

use super::EvalView;
use crate::{
    bash::{
        gotext,
        prompt::{self, Context, Fault},
    },
    diagnostic::{Diagnostic, Diagnostics, Strength, nearest},
    hir::{Agent, Name},
    rule,
    source::Span,
    yaml::{self, Tree},
};

rule! {
    pub static UNKNOWN_TEMPLATE_FIELD = "unknown-template-field", Hard;
    pub static PROMPT_IN_SHELL_TEXT = "prompt-in-shell-text", Verdict;
}

/// `{{ .Promt }}` (`tests/coverage.md` D8).
pub fn fields(view: &EvalView<'_>, out: &mut Diagnostics) {
    agents(view).for_each(|(agent, tree)| fields_of(agent, &tree, out));
}

fn fields_of(agent: &Agent, tree: &Tree, out: &mut Diagnostics) {
    let Some(commands) = &agent.commands else { return };
    let templates: [(&Option<Name>, &[&str]); 3] = [
        (&commands.run_prompt, &prompt::FIELDS),
        (&commands.mcp_server_arg, &["File", "URL"]),
        (&commands.allowed_tool_arg, &["ToolName", "ServerName"]),
    ];
    for (template, known) in templates {
        let Some(template) = template else { continue };
        let Err(Fault { range, message }) = gotext::scan(&template.value, known) else { continue };
        let text = &template.value[range.clone()];
        let mut diagnostic = Diagnostic::new(&UNKNOWN_TEMPLATE_FIELD, place(tree, template, range.clone()), message);
        let field = text.find('.').map(|dot| dot + 1).and_then(|from| {
            let name = &text[from..];
            let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(name.len());
            Some((from, name.get(..end)?))
        });
        if let Some((from, name)) = field
            && let Some(near) = nearest(name, known.iter().copied())
        {
            let at = range.start + from..range.start + from + name.len();
            diagnostic = diagnostic.here(format!("did you mean `{near}`?")).fix(
                format!("write `{near}`"),
                place(tree, template, at),
                near,
            );
        }
        out.push(diagnostic);
    }
}

/// Where the prompt stands in the line that a shell reads (`tests/coverage.md` D11).
pub fn context(view: &EvalView<'_>, out: &mut Diagnostics) {
    agents(view).for_each(|(agent, tree)| context_of(agent, &tree, out));
}

fn context_of(agent: &Agent, tree: &Tree, out: &mut Diagnostics) {
    let Some(template) = agent.commands.as_ref().and_then(|c| c.run_prompt.as_ref()) else { return };
    if gotext::scan(&template.value, &prompt::FIELDS).is_err() {
        return;
    }
    match prompt::prompt_context(&template.value) {
        Err(Fault { range, message }) => out.push(
            Diagnostic::new(&PROMPT_IN_SHELL_TEXT, place(tree, template, range), message)
                .here("a prompt with quotes or `$` would be read as code")
                .help("let the prompt stand as a word of the command, in quotes or without"),
        ),
        Ok(places) => {
            let pasted = places.into_iter().find(|(_, context)| *context != Context::QuotedHeredoc);
            if let Some((range, _)) = pasted {
                out.push(
                    Diagnostic::new(
                        &PROMPT_IN_SHELL_TEXT,
                        place(tree, template, range),
                        "other tools paste the prompt into this line",
                    )
                    .strength(Strength::Note)
                    .here("gevals hands it on as data; elsewhere a quote or `$` in it is read as code")
                    .help("a here-document with a quoted delimiter (`<<'PROMPT'`) is safe in every tool"),
                );
            }
        }
    }
}

/// The eval's agent and judge, with their files once more for the places in them.
fn agents<'a>(view: &EvalView<'a>) -> impl Iterator<Item = (&'a Agent, Tree)> {
    view.unit.agent_files().filter_map(|agent| {
        let source = view.sources.get(agent.file);
        let tree = yaml::parse(agent.file, source.text(), &mut Diagnostics::default()).ok()?;
        Some((agent, tree))
    })
}

fn place(tree: &Tree, text: &Name, range: std::ops::Range<usize>) -> Span {
    tree.node_at(text.span).map_or(text.span, |node| node.cooked(range))
}
