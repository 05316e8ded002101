//! Parts of an agent file that have no effect, and agent files without a command.

use crate::{
    diagnostic::{Diagnostic, Diagnostics, Strength},
    hir::{Agent, AgentRef, Name},
    lint::EvalView,
    rule,
    source::Span,
};

rule! {
    pub static IGNORED_AGENT_PART = "ignored-agent-part", Verdict;
    pub static EMPTY_COMMANDS = "empty-commands", Verdict;
    pub static SERVERS_NOT_PASSED = "servers-not-passed", Verdict;
}

/// Keys next to `builtin` or `acp` have no effect (`tests/coverage.md` D9, D10).
pub fn ignored(view: &EvalView<'_>, out: &mut Diagnostics) {
    view.unit.agent_files().for_each(|agent| {
        ignored_of(agent, out);
        unfilled(agent, view, out);
    });
    let judge = view.eval.judge.as_ref().and_then(|j| j.agent.as_ref());
    for (reference, file) in [(view.eval.agent.as_ref(), &view.unit.agent), (judge, &view.unit.judge)] {
        if let Some(reference) = reference {
            ignored_in(view, reference, file.as_ref(), out);
        }
    }
}

/// Reports a path for an agent type that reads no file, and a model for one that uses none.
fn ignored_in(view: &EvalView<'_>, reference: &AgentRef, file: Option<&Agent>, out: &mut Diagnostics) {
    let kind = reference.kind.value.as_str();
    let mut push = |name: &Name, part: &str, why: &str| {
        let diagnostic = Diagnostic::new(&IGNORED_AGENT_PART, name.span, format!("`{part}` has no effect: {why}"))
            .help(format!("remove `{part}`"));
        // A model that a user typed would be mistaken for the one that was measured.
        let typed = part == "model" && view.sources.get(name.span.file).is_given();
        out.push(if typed { diagnostic.strength(Strength::Hard) } else { diagnostic });
    };
    if let Some(path) = reference.path.as_ref().filter(|_| crate::lint::AGENT_TYPES.contains(&kind))
        && !matches!(kind, "file" | "builtin.script" | "builtin.replay")
    {
        push(path, "path", &format!("`{kind}` does not read a file"));
    }
    let Some(model) = &reference.model else { return };
    match (kind, file) {
        ("builtin.noop" | "builtin.script" | "builtin.replay", _) => {
            push(model, "model", &format!("`{kind}` does not use a model"));
        }
        ("file", Some(Agent { builtin: None, acp: Some(_), .. })) => {
            push(model, "model", "an ACP program does not receive it; pass the model in `acp.args`");
        }
        ("file", Some(Agent { builtin: None, commands: Some(_), .. })) => {
            push(model, "model", "a command line does not receive it; pass the model in `runPrompt`");
        }
        _ => {}
    }
}

/// Reports a hole in the command line that is always empty, and a template whose hole is missing.
fn unfilled(agent: &Agent, view: &EvalView<'_>, out: &mut Diagnostics) {
    let Agent { builtin: None, acp: None, commands: Some(commands), .. } = agent else { return };
    let Some(line) = &commands.run_prompt else { return };
    let is_agents = view.unit.agent.as_ref().is_some_and(|own| own.file == agent.file);
    // A judge always has a server; an agent has one only if the eval does.
    let serves = !is_agents || view.unit.mcp.as_ref().is_some_and(|mcp| mcp.servers.iter().any(|s| !s.disabled));
    for (hole, key, template) in [
        ("McpServerFileArgs", "argTemplateMcpServer", &commands.mcp_server_arg),
        ("AllowedToolArgs", "argTemplateAllowedTools", &commands.allowed_tool_arg),
    ] {
        let written = template.as_ref().filter(|t| !t.value.trim().is_empty());
        match (line.value.contains(&format!(".{hole}")), written) {
            (true, None) if serves => out.push(
                Diagnostic::new(
                    &IGNORED_AGENT_PART,
                    line.span,
                    format!("`{{{{ .{hole} }}}}` is always empty: `{key}` is not set"),
                )
                .help(match key {
                    "argTemplateMcpServer" => {
                        "for example, write `argTemplateMcpServer: \"--mcp-config {{ .File }}\"`, or use `{{ .URL }}`"
                    }
                    _ => "for example, write `argTemplateAllowedTools: \"mcp__{{ .ServerName }}__{{ .ToolName }}\"`",
                }),
            ),
            (false, Some(template)) => out.push(
                Diagnostic::new(
                    &IGNORED_AGENT_PART,
                    template.span,
                    format!("`{key}` has no effect: `runPrompt` does not contain `{{{{ .{hole} }}}}`"),
                )
                .help(format!("add `{{{{ .{hole} }}}}` to `runPrompt`, or remove `{key}`"))
                // The agent may get them in other ways.
                .strength(Strength::Warning),
            ),
            _ => {}
        }
    }
}

/// Reports a command line without a hole for the servers. Such an agent calls none of them, because the addresses of
/// their recorders are unpredictable.
pub fn served(view: &EvalView<'_>, out: &mut Diagnostics) {
    let (Some(agent), Some(mcp)) = (&view.unit.agent, &view.unit.mcp) else { return };
    let (Some(server), Agent { builtin: None, acp: None, commands: Some(commands), .. }) =
        (mcp.servers.iter().find(|server| !server.disabled), agent)
    else {
        return;
    };
    let Some(line) = &commands.run_prompt else { return };
    let text = &line.value;
    let template = commands.mcp_server_arg.as_ref().filter(|template| !template.value.trim().is_empty());
    // The file in the agent's working directory has this name.
    let names = |text: &str, words: &[&str]| words.iter().chain(&["mcp-server"]).any(|word| text.contains(word));
    match template {
        // A template without these is the same in every run, but the addresses are not.
        Some(template) if text.contains(".McpServerFileArgs") && !names(&template.value, &[".File", ".URL"]) => {
            let message =
                "`argTemplateMcpServer` does not refer to a server: it contains neither `{{ .File }}` nor `{{ .URL }}`";
            out.push(
                Diagnostic::new(&SERVERS_NOT_PASSED, template.span, message)
                    .label(server.name.span, "the agent does not receive this server")
                    .help("for example, write `--mcp-config {{ .File }}`"),
            );
            return;
        }
        // A template that is not used in the command line is reported by `unfilled`.
        Some(_) => return,
        None if text.trim().is_empty() || names(text, &["McpServer"]) => return,
        None => {}
    }
    let part = |c: char| !(c.is_ascii_alphanumeric() || "-_./".contains(c));
    let program = text.split(part).filter_map(|word| word.rsplit('/').next()).find(|word| CLIENTS.contains(word));
    let finding = Diagnostic::new(
        &SERVERS_NOT_PASSED,
        line.span,
        format!("the server `{}` is not passed to this command: the agent cannot call any tools", server.name.value),
    )
    .label(server.name.span, "configured here")
    .help(
        "add `{{ .McpServerFileArgs }}` to `runPrompt`, and set `argTemplateMcpServer`, for example to `\"--mcp-config {{ .File }}\"`, or use `{{ .URL }}`",
    );
    // Any other program may read the file itself, or be a stub that calls nothing.
    out.push(if program.is_some() { finding } else { finding.strength(Strength::Warning) });
}

/// Programs that know only the servers that are passed to them or configured by their user.
const CLIENTS: [&str; 4] = ["claude", "codex", "gemini", "opencode"];

fn ignored_of(agent: &Agent, out: &mut Diagnostics) {
    let mut drop = |span, part: &str, winner: &str, by| {
        out.push(
            Diagnostic::new(&IGNORED_AGENT_PART, span, format!("`{part}` has no effect because `{winner}` is set"))
                .label(by, "this takes precedence")
                .help(format!("remove `{part}` or `{winner}`")),
        );
    };
    if let Some(builtin) = &agent.builtin {
        if let Some(acp) = &agent.acp {
            drop(acp.span, "acp", "builtin", builtin.span);
        }
        if let Some(skills) = &agent.skills {
            drop(skills.span, "skills", "builtin", builtin.span);
        }
    }
    if let Some(commands) = &agent.commands {
        let winner =
            agent.acp.as_ref().map(|a| ("acp", a.span)).or(agent.builtin.as_ref().map(|b| ("builtin", b.span)));
        if let Some((winner, by)) = winner {
            drop(commands.span, "commands", winner, by);
        }
        if let Some(home) = commands.use_virtual_home.filter(|h| h.value) {
            out.push(
                Diagnostic::new(
                    &IGNORED_AGENT_PART,
                    home.span,
                    "`useVirtualHome` has no effect: no virtual home is created",
                )
                .help("remove it; set HOME in `runPrompt` if the agent needs its own home directory"),
            );
        }
    }
}

/// An agent without a command succeeds with an empty answer.
pub fn empty(view: &EvalView<'_>, out: &mut Diagnostics) {
    let place = |reference: Option<&AgentRef>| {
        reference.map_or(view.eval.config, |a| a.path.as_ref().map_or(a.span, |p| p.span))
    };
    let judge = view.eval.judge.as_ref().and_then(|j| j.agent.as_ref());
    for agent in view.unit.agent_files() {
        let is_agents = view.unit.agent.as_ref().is_some_and(|own| own.file == agent.file);
        empty_of(agent, place(if is_agents { view.eval.agent.as_ref() } else { judge }), out);
    }
}

fn empty_of(agent: &Agent, place: Span, out: &mut Diagnostics) {
    if agent.builtin.is_some() || agent.acp.is_some() {
        return;
    }
    match &agent.commands {
        None => out.push(
            Diagnostic::new(&EMPTY_COMMANDS, place, "this agent file does not specify how to run the agent")
                .strength(Strength::Hard)
                .help("add `commands: {runPrompt: …}`, `acp: {cmd: …}` or `builtin: {type: …}`"),
        ),
        Some(commands) if commands.run_prompt.as_ref().is_none_or(|r| r.value.trim().is_empty()) => out.push(
            Diagnostic::new(
                &EMPTY_COMMANDS,
                commands.run_prompt.as_ref().map_or(commands.span, |r| r.span),
                "`runPrompt` is missing: these commands do not run an agent",
            )
            .help("add `runPrompt:` with the command line that answers a prompt"),
        ),
        Some(_) => {}
    }
}
