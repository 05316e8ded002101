//! Agents that receive their prompt through a shell.

use std::ops::Range;

use crate::{
    bash::{
        gotext,
        prompt::{self, Context, Fault},
    },
    diagnostic::{Diagnostic, Diagnostics, Strength, nearest},
    hir::{Agent, Name},
    lint::EvalView,
    rule,
    source::Span,
    yaml::{self, Tree},
};

rule! {
    pub static UNKNOWN_TEMPLATE_FIELD = "unknown-template-field", Hard;
    pub static PROMPT_IN_SHELL_TEXT = "prompt-in-shell-text", Verdict;
    pub static PROMPT_NOT_PASSED = "prompt-not-passed", Verdict;
}

/// Unknown fields in templates: `{{ .Promt }}` (`tests/coverage.md` D8).
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
        for fault in gotext::faults(&template.value, known) {
            out.push(unknown_field(fault, template, known, tree));
        }
    }
}

fn unknown_field(Fault { range, message }: Fault, template: &Name, known: &[&str], tree: &Tree) -> Diagnostic {
    let text = &template.value[range.clone()];
    let diagnostic = Diagnostic::new(&UNKNOWN_TEMPLATE_FIELD, place(tree, template, range.clone()), message);
    let field = text.find('.').map(|dot| dot + 1).and_then(|from| {
        let name = &text[from..];
        let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(name.len());
        Some((from, name.get(..end)?))
    });
    let near = |name: &str| {
        // `McpServerFile` is a prefix of `McpServerFileArgs`.
        let head = || known.iter().copied().find(|k| !name.is_empty() && k.starts_with(name));
        nearest(name, known.iter().copied()).or_else(head)
    };
    match field.and_then(|(from, name)| Some((from, name, near(name)?))) {
        Some((from, name, near)) => {
            let at = range.start + from..range.start + from + name.len();
            let (label, description) = (format!("did you mean `{near}`?"), format!("write `{near}`"));
            diagnostic.here(label).fix(description, place(tree, template, at), near)
        }
        None => diagnostic,
    }
}

/// A command that never receives the prompt has no task.
pub fn passed(view: &EvalView<'_>, out: &mut Diagnostics) {
    for agent in view.unit.agent_files() {
        let deaf = |template: &Name| {
            let text = &template.value;
            let unfilled = !text.contains(prompt::VARIABLE) && !text.trim().is_empty();
            let fields = gotext::fields(text, &prompt::FIELDS);
            unfilled && fields.is_ok_and(|fields| !fields.iter().any(|field| field.name == "Prompt"))
        };
        // These take precedence over the command.
        if agent.acp.is_some() || agent.builtin.is_some() {
            continue;
        }
        let Some(template) = agent.commands.as_ref().and_then(|c| c.run_prompt.as_ref()).filter(|t| deaf(t)) else {
            continue;
        };
        let diagnostic = |span| Diagnostic::new(&PROMPT_NOT_PASSED, span, "this command does not receive the prompt");
        let Some(range) = hollow(&template.value) else {
            // It may be a stub that needs no prompt.
            out.push(
                diagnostic(template.span)
                    .strength(Strength::Warning)
                    .help("add `{{ .Prompt }}` to the command: `my-cli -p \"{{ .Prompt }}\"`"),
            );
            continue;
        };
        let span = tree(view, agent).map_or(template.span, |tree| place(&tree, template, range.clone()));
        let help = format!("write `{{{{ .Prompt }}}}` instead of `{}`", &template.value[range]);
        let diagnostic = diagnostic(span).here("this is never set").help(help);
        let mut mended = view.sources.get(agent.file).text().to_owned();
        mended.replace_range(span.range(), "{{ .Prompt }}");
        // In a flow mapping, it would need quotes.
        out.push(match yaml::parse(agent.file, mended, &mut Diagnostics::default()) {
            Ok(_) => diagnostic.fix("write `{{ .Prompt }}`", span, "{{ .Prompt }}"),
            Err(_) => diagnostic,
        });
    }
}

/// Where the author expected the prompt to be inserted: `$PROMPT`, `{prompt}`.
fn hollow(text: &str) -> Option<Range<usize>> {
    let lower = text.to_ascii_lowercase();
    let spellings = ["${prompt}", "$prompt", "{prompt}", "<prompt>", "%prompt%"];
    let ends = |range: &Range<usize>| {
        !text[range.end..].starts_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '[' | ':'))
    };
    let mut found = spellings.iter().flat_map(|s| lower.match_indices(s).map(|(at, s)| at..at + s.len()));
    let range = found.find(ends)?;
    // The command itself may set the variable.
    let begins = |at: usize| lower[..at].chars().next_back().is_none_or(|c| c.is_whitespace() || ";&|(`'".contains(c));
    let sets = lower.match_indices("prompt=").any(|(at, _)| begins(at))
        || ["read prompt", "-r prompt", "for prompt"].iter().any(|s| lower.contains(s));
    (!sets).then_some(range)
}

/// The position of the prompt in the command line that a shell parses (`tests/coverage.md` D11).
pub fn context(view: &EvalView<'_>, out: &mut Diagnostics) {
    agents(view).for_each(|(agent, tree)| context_of(agent, &tree, out));
}

fn context_of(agent: &Agent, tree: &Tree, out: &mut Diagnostics) {
    let Some(template) = agent.commands.as_ref().and_then(|c| c.run_prompt.as_ref()) else { return };
    if !gotext::faults(&template.value, &prompt::FIELDS).is_empty() {
        return;
    }
    match prompt::prompt_context(&template.value) {
        Err(Fault { range, message }) => out.push(
            Diagnostic::new(&PROMPT_IN_SHELL_TEXT, place(tree, template, range), message)
                .here("quotes or `$` in the prompt would be read as code")
                .help("use the prompt as a separate word of the command, quoted or unquoted"),
        ),
        Ok(places) => {
            let pasted = places.into_iter().find(|(_, context)| *context != Context::QuotedHeredoc);
            if let Some((range, _)) = pasted {
                out.push(
                    Diagnostic::new(
                        &PROMPT_IN_SHELL_TEXT,
                        place(tree, template, range),
                        "other tools insert the prompt into this line",
                    )
                    .strength(Strength::Note)
                    .here("gevals passes it as data; in other tools, a quote or `$` in it is read as code")
                    .help("a here-document with a quoted delimiter (`<<'PROMPT'`) is safe in all tools"),
                );
            }
        }
    }
}

/// The files of the eval's agent and judge, each parsed again to locate spans.
fn agents<'a>(view: &EvalView<'a>) -> impl Iterator<Item = (&'a Agent, Tree)> {
    view.unit.agent_files().filter_map(|agent| Some((agent, tree(view, agent)?)))
}

fn tree(view: &EvalView<'_>, agent: &Agent) -> Option<Tree> {
    let source = view.sources.get(agent.file);
    yaml::parse(agent.file, source.text(), &mut Diagnostics::default()).ok()
}

fn place(tree: &Tree, text: &Name, range: Range<usize>) -> Span {
    tree.node_at(text.span).map_or(text.span, |node| node.cooked(range))
}
