//! Servers that are used but not configured, and servers without permitted tools.

use crate::{
    diagnostic::{Diagnostic, Diagnostics, Strength, nearest},
    dialect::eval::ALWAYS_TRUE_ASSERTION,
    hir::{AssertionKind, CallKind, CallMatcher, Eval, Name, RequirementKind},
    lint::{EvalView, UnderView},
    project::EvalUnit,
    rule,
};

rule! {
    pub static UNKNOWN_SERVER = "unknown-server", Hard;
    pub static NO_TOOLS_PERMITTED = "no-tools-permitted", Warning;
    pub static REDUNDANT_ALWAYS_ALLOW = "redundant-always-allow", Warning;
}

/// Servers that a task requires, checked for each eval that selects it.
pub fn required(view: &UnderView<'_, '_>, out: &mut Diagnostics) {
    let Some(eval) = view.eval else { return };
    let config = eval.eval.mcp_config.as_ref().map_or(eval.eval.config, |name| name.span);
    for requirement in &view.task.requires {
        let RequirementKind::McpServer(name) = &requirement.kind else { continue };
        out.extend(missing(eval.unit, eval.eval, name).map(|fault| match fault.fix {
            // A misspelled name is reported at the task, everything else at each eval without the server.
            Some(_) => fault,
            None => Diagnostic { span: config, ..fault }.label(name.span, "required here"),
        }));
    }
}

/// Reports a server that is missing from the eval's MCP config or disabled.
pub fn known(view: &EvalView<'_>, name: &Name, out: &mut Diagnostics) {
    out.extend(missing(view.unit, view.eval, name));
}

fn missing(unit: &EvalUnit, eval: &Eval, name: &Name) -> Option<Diagnostic> {
    let Some(mcp) = &unit.mcp else {
        if eval.mcp_config.is_some() || unit.reported.is_some() {
            return None;
        }
        let missing =
            Diagnostic::new(&UNKNOWN_SERVER, name.span, format!("the server `{}` is not configured", name.value))
                .label(eval.config, "this eval has no `mcpConfigFile`");
        // `decisions.md` §13: the environment is known only at run time.
        return Some(match unit.may_be_served {
            true => missing
                .strength(Strength::Warning)
                .help("add `mcpConfigFile: FILE` to the eval's config, or configure the server with `MCP_*` variables at run time"),
            false => missing.help("add `mcpConfigFile: FILE` to the eval's config, or set `MCP_COMMAND` or `MCP_URL`"),
        });
    };
    let mut servers = mcp.servers.iter().filter(|s| s.name.value == name.value);
    match servers.next() {
        Some(server) if !server.disabled => None,
        Some(server) => Some(
            Diagnostic::new(&UNKNOWN_SERVER, name.span, format!("the server `{}` is disabled", name.value))
                .label(server.name.span, "`disabled: true` here"),
        ),
        None => {
            let names: Vec<_> = mcp.servers.iter().map(|s| s.name.value.as_str()).collect();
            let mut diagnostic =
                Diagnostic::new(&UNKNOWN_SERVER, name.span, format!("unknown server `{}`", name.value));
            if let Some(near) = nearest(&name.value, names.iter().copied()) {
                diagnostic =
                    diagnostic.here(format!("did you mean `{near}`?")).fix(format!("write `{near}`"), name.span, near);
            }
            let words: Vec<_> = names.iter().map(|n| format!("`{n}`")).collect();
            Some(diagnostic.help(format!("the MCP config contains {}", words.join(", "))))
        }
    }
}

/// `alwaysAllow` together with `enableAllTools: true`: either of them permits a tool.
pub fn redundant(view: &EvalView<'_>, out: &mut Diagnostics) {
    for server in view.unit.mcp.iter().flat_map(|m| &m.servers) {
        let Some(all) = server.enable_all_tools.as_ref().filter(|all| all.value) else { continue };
        let (Some(first), Some(last)) = (server.always_allow.first(), server.always_allow.last()) else { continue };
        out.push(
            Diagnostic::new(&REDUNDANT_ALWAYS_ALLOW, first.span.to(last.span), "this list has no effect")
                .label(all.span, "all tools are already permitted here")
                .help("remove `enableAllTools` to permit only these tools, or `alwaysAllow` to permit all"),
        );
    }
}

/// Servers without permitted tools, and unknown servers and tools in `alwaysAllow` and in assertions.
pub fn permitted(view: &EvalView<'_>, out: &mut Diagnostics) {
    for server in view.unit.mcp.iter().flat_map(|m| &m.servers) {
        let silent = server.enable_all_tools.is_none_or(|e| !e.value) && server.always_allow.is_empty();
        if silent && !server.disabled {
            out.push(
                Diagnostic::new(&NO_TOOLS_PERMITTED, server.name.span, format!("the server `{}` has no permitted tools", server.name.value))
                    .help("set `enableAllTools: true`, or list tools under `alwaysAllow`; agents that ask for permission are refused every call"),
            );
        }
        for tool in &server.always_allow {
            locked(view, &server.name, tool, out);
        }
    }
    for set in view.eval.task_sets.iter().filter_map(|s| s.assertions.as_ref()) {
        for item in &set.items {
            let matchers: &[CallMatcher] = match &item.kind {
                AssertionKind::AllUsed(_, m) | AssertionKind::AnyUsed(_, m) | AssertionKind::NoneUsed(_, m) => m,
                AssertionKind::CallOrder(calls) => {
                    for call in calls {
                        known(view, &call.server, out);
                        if call.kind == CallKind::Tool {
                            locked(view, &call.server, &call.name, out);
                        }
                    }
                    &[]
                }
                _ => &[],
            };
            for matcher in matchers {
                known(view, &matcher.server, out);
                let tool =
                    matcher.name.as_ref().filter(|_| item.key.value.contains("ools") || item.key.value == "requireAny");
                if let Some(tool) = tool {
                    locked(view, &matcher.server, tool, out);
                }
                idle(view, &item.kind, matcher, out);
            }
        }
    }
}

/// A pattern that matches no tool of the server in the lock: the assertion is always false, or always true.
fn idle(view: &EvalView<'_>, kind: &AssertionKind, matcher: &CallMatcher, out: &mut Diagnostics) {
    let demanded = match kind {
        AssertionKind::AllUsed(CallKind::Tool, _) | AssertionKind::AnyUsed(CallKind::Tool, _) => true,
        AssertionKind::NoneUsed(CallKind::Tool, _) => false,
        _ => return,
    };
    let (None, Some(pattern), Some(tools)) =
        (&matcher.name, &matcher.pattern, view.unit.lock.tools(&matcher.server.value))
    else {
        return;
    };
    let matches = regex::Regex::new(&pattern.value).map(|p| tools.keys().any(|tool| p.is_match(tool)));
    if !matches.is_ok_and(|any| !any) {
        return;
    }
    let known: Vec<_> = tools.keys().take(12).map(|k| format!("`{k}`")).collect();
    let help = format!("tools in `gevals.lock`: {}", known.join(", "));
    let server = &matcher.server.value;
    out.push(if demanded {
        let message = format!("the server `{server}` has no tool that matches `{}`", pattern.value);
        Diagnostic::new(&crate::decode::UNKNOWN_TOOL, pattern.span, message).help(help)
    } else {
        let message = format!("no tool of the server `{server}` matches this pattern: the assertion is always true");
        Diagnostic::new(&ALWAYS_TRUE_ASSERTION, pattern.span, message).strength(Strength::Warning).help(help)
    });
}

/// Reports a tool that a server does not have, if the lock lists the server's tools.
fn locked(view: &EvalView<'_>, server: &Name, tool: &Name, out: &mut Diagnostics) {
    if let Some(tools) = view.unit.lock.tools(&server.value)
        && !tools.contains_key(&tool.value)
    {
        out.push(crate::check::unknown_tool(&server.value, &tool.value, tool.span, tools.keys().map(String::as_str)));
    }
}
