//! What a plan masks.

use crate::{
    hir::{ArgKind, Def, Part, Template},
    plan::{ActionKind, Plan},
    secrets::is_secret_name,
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
