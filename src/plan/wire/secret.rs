//! What a plan masks.

use crate::{
    hir::{ArgKind, Def, Expand, ExpandPart, Part, Server, Template, Transport},
    plan::{ActionKind, AgentKind, EvalPlan, Plan},
    secrets::{in_arguments, is_secret_name, told},
};

/// Whether a header is secret: every header that is not part of content negotiation (`decisions.md` §10).
pub fn is_secret_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    !(name == "accept" || name.starts_with("accept-") || name.starts_with("content-") || name == "user-agent")
}

/// Returns the literal texts that a plan masks.
pub fn literal_secrets(plan: &Plan) -> Vec<String> {
    let (mut secrets, mut others) = (Vec::new(), Vec::new());
    let mut literals = |template: &Template<Def>| {
        for part in &template.parts {
            if let Part::Text(text) = part {
                // A multi-line text is indented where it is written.
                secrets.extend(text.lines().map(|line| line.trim().to_owned()));
                secrets.extend(credentials(text).map(str::to_owned));
            }
        }
    };
    plan.env.iter().filter(|(name, _)| is_secret_name(name)).for_each(|(_, template)| literals(template));
    plan.walk(&mut |_, _, action| {
        let ActionKind::Step(step) = &action.kind else { return };
        for (name, arg) in &step.args {
            let secret: fn(&str) -> bool = match name.value.as_str() {
                "env" => is_secret_name,
                "headers" => is_secret_header,
                _ => continue,
            };
            let ArgKind::Record(entries) = &arg.kind else { continue };
            for (_, arg) in entries.iter().filter(|(name, _)| secret(&name.value)) {
                arg.templates(&mut literals);
                others.extend(arg.as_value().filter(|v| !v.is_string()).map(|v| v.to_string()));
            }
        }
    });
    secrets.append(&mut others);
    secrets
}

/// Returns the secrets that the specifications of servers contain literally.
pub fn server_secrets(servers: &[Server]) -> Vec<String> {
    let mut secrets = Vec::new();
    for server in servers {
        let (pairs, is_secret): (_, fn(&str) -> bool) = match &server.transport {
            Transport::Stdio { args, env, .. } => {
                secrets.extend(in_arguments(&args.iter().map(Expand::display).collect::<Vec<_>>()));
                (env, is_secret_name)
            }
            Transport::Http { url, headers } => {
                secrets.extend(told(&url.display()));
                (headers, is_secret_header)
            }
        };
        for (name, value) in pairs {
            secrets.extend(told(&value.display()));
            for part in value.parts.iter().filter(|_| is_secret(&name.value)) {
                match part {
                    ExpandPart::Text(text) => secrets
                        .extend([Some(text.as_str()), credentials(text)].into_iter().flatten().map(str::to_owned)),
                    ExpandPart::Var { default, .. } => secrets.extend(default.clone()),
                }
            }
        }
    }
    secrets
}

/// Returns what follows the scheme in the value of a header, as in `Bearer …`.
fn credentials(value: &str) -> Option<&str> {
    let (scheme, rest) = value.trim().split_once(' ')?;
    scheme.bytes().all(|b| b.is_ascii_alphabetic()).then(|| rest.trim())
}

/// Returns the secrets that an eval contains literally: in its tasks, its servers, its extensions and the files
/// of its agents.
pub fn eval_secrets(plan: &EvalPlan) -> Vec<String> {
    let mut secrets: Vec<String> = plan.tasks.iter().flat_map(literal_secrets).collect();
    secrets.extend(server_secrets(&plan.servers));
    for (name, value) in plan.extensions.declared.iter().flat_map(|extension| &extension.env) {
        secrets.extend(told(value));
        secrets.extend(is_secret_name(name).then(|| value.clone()));
    }
    let own = plan.tasks.iter().filter_map(|task| match &task.action(task.agent).kind {
        ActionKind::Agent(agent) => Some(&agent.kind),
        _ => None,
    });
    let agents = own.chain(plan.judge.as_ref().map(|judge| &judge.kind));
    for agent in agents {
        match agent {
            AgentKind::Shell(shell) => {
                let texts = [&shell.run_prompt, &shell.mcp_server_arg, &shell.allowed_tool_arg, &shell.get_version];
                secrets.extend(texts.into_iter().flatten().flat_map(|text| told(&text.value)));
            }
            AgentKind::Acp(acp) => {
                secrets.extend(in_arguments(&acp.args.iter().map(|arg| arg.value.as_str()).collect::<Vec<_>>()));
            }
            _ => {}
        }
    }
    // A text that is still to be filled in is not a secret.
    secrets.retain(|secret| !secret.contains("${") && !secret.contains("{{"));
    secrets.sort();
    secrets.dedup();
    secrets
}
