//! What a plan masks.

use crate::{
    hir::{ArgKind, Def, Expand, ExpandPart, Name, Part, Template, Transport},
    plan::{ActionKind, AgentKind, EvalPlan, Plan},
    secrets::{in_arguments, is_secret_name, told},
};

/// Every header but those of content negotiation (`decisions.md` §10).
pub fn is_secret_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    !(name == "accept" || name.starts_with("accept-") || name.starts_with("content-") || name == "user-agent")
}

/// The literal texts that a plan masks.
pub fn literal_secrets(plan: &Plan) -> Vec<String> {
    let (mut secrets, mut others) = (Vec::new(), Vec::new());
    let mut literals = |template: &Template<Def>| {
        for part in &template.parts {
            if let Part::Text(text) = part {
                // A text of several lines is indented where it is written.
                secrets.extend(text.lines().map(|line| line.trim().to_owned()));
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

/// The secrets that an eval has in clear: of its tasks, its servers, its extensions and the files of its agents.
pub fn eval_secrets(plan: &EvalPlan) -> Vec<String> {
    let mut secrets: Vec<String> = plan.tasks.iter().flat_map(literal_secrets).collect();
    let mut add = |pairs: &[(Name, Expand)], is_secret: fn(&str) -> bool| {
        for (name, value) in pairs {
            secrets.extend(told(&value.display()));
            if !is_secret(&name.value) {
                continue;
            }
            for part in &value.parts {
                match part {
                    ExpandPart::Text(text) => {
                        // Behind a scheme, as in `Bearer …`.
                        secrets.extend(text.split_once(' ').map(|(_, rest)| rest.to_owned()));
                        secrets.push(text.clone());
                    }
                    ExpandPart::Var { default, .. } => secrets.extend(default.clone()),
                }
            }
        }
    };
    for server in &plan.servers {
        match &server.transport {
            Transport::Stdio { env, .. } => add(env, is_secret_name),
            Transport::Http { headers, .. } => add(headers, is_secret_header),
        }
    }
    for server in &plan.servers {
        match &server.transport {
            Transport::Stdio { args, .. } => {
                secrets.extend(in_arguments(&args.iter().map(Expand::display).collect::<Vec<_>>()));
            }
            Transport::Http { url, .. } => secrets.extend(told(&url.display())),
        }
    }
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
    // What is still to be filled in is no secret.
    secrets.retain(|secret| !secret.contains("${") && !secret.contains("{{"));
    secrets.sort();
    secrets.dedup();
    secrets
}
