//! Programs that a task requires, but none of its scripts runs.

use crate::{
    check::UNUSED_REQUIREMENT,
    diagnostic::{Diagnostic, Diagnostics, Strength},
    hir::{Arg, OperationKind, RequirementKind, Transport},
    lint::{UnderView, analysis::texts, script::Reader},
};

/// Only a note: the agent or its servers may need the program.
pub fn check(view: &UnderView<'_, '_>, out: &mut Diagnostics) {
    let commands = view.task.requires.iter().filter_map(|r| match &r.kind {
        RequirementKind::Command(name) => Some(name),
        _ => None,
    });
    let commands: Vec<_> = commands.filter(|name| !mentioned(view, &name.value)).collect();
    if commands.is_empty() || opaque(view) {
        return;
    }
    for name in commands {
        out.push(
            Diagnostic::new(&UNUSED_REQUIREMENT, name.span, format!("no script of the task runs `{}`", name.value))
                .strength(Strength::Note)
                .help("remove the requirement: without the program, the task cannot run"),
        );
    }
}

/// Whether any text of the task, or a server of the eval, names the program.
fn mentioned(view: &UnderView<'_, '_>, name: &str) -> bool {
    let mut found = view.scripts.iter().any(|s| texts::has_word(&s.content.text, name));
    found |= view.task.prompt.as_ref().is_some_and(|p| texts::has_word(&texts::written(&p.text), name));
    view.task.walk(&mut |_, step| step.templates(&mut |t| found |= texts::has_word(&texts::written(t), name)));
    let servers = view.eval.iter().filter_map(|e| e.unit.mcp.as_ref()).flat_map(|m| &m.servers);
    found |= servers.into_iter().any(|server| match &server.transport {
        Transport::Stdio { command, args, .. } => {
            std::iter::once(command).chain(args).any(|part| texts::has_word(&part.display(), name))
        }
        Transport::Http { .. } => false,
    });
    found
}

/// Whether the task runs anything that is not analyzed: other files, scripts of other programs, extensions.
fn opaque(view: &UnderView<'_, '_>) -> bool {
    const RUNNERS: [&str; 22] = [
        "source", ".", "eval", "exec", "bash", "sh", "zsh", "python", "python3", "node", "npm", "npx", "make", "just",
        "task", "go", "cargo", "uv", "uvx", "docker", "podman", "xargs",
    ];
    let unread = view.scripts.is_empty()
        || view.scripts.iter().any(|s| {
            s.reader == Reader::Foreign
                || !s.content.program.sound
                || s.content.program.commands().iter().any(|c| {
                    let name = c.words().first();
                    RUNNERS.contains(&c.name()) || name.is_some_and(|w| w.text.contains('/') || !w.literal)
                })
        });
    let mut other = unread;
    view.task.walk(&mut |_, step| {
        other |= match &step.op.kind {
            OperationKind::Builtin("command" | "script") => {
                let shell = step.arg("shell").is_some_and(|s: &Arg<_>| s.as_literal() != Some("none"));
                !view.scripts.iter().any(|s| s.step.key == step.key) && !shell
            }
            OperationKind::Extension { .. } => true,
            _ => false,
        };
    });
    other
}
