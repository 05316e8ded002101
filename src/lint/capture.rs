//! Commands whose answer is looked at as a text, where their status gets in the way, or was needed.

use super::TaskView;
use crate::{
    bash::program::{Kind, Statement},
    diagnostic::{Diagnostic, Diagnostics, Strength},
    hir::PhaseKind,
    rule,
};

rule! {
    pub static GREP_ENDS_SCRIPT = "grep-ends-script", Warning;
    pub static CURL_WITHOUT_FAIL = "curl-without-fail", Warning;
}

/// `n=$(… | grep -c x)` under `set -e`: where grep finds nothing the script ends, before anybody looks at `$n`.
pub fn grep(view: &TaskView<'_>, out: &mut Diagnostics) {
    for script in view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify) {
        let (content, program) = (&script.content, &script.content.program);
        if !program.sound || !program.stops_at_errors() {
            continue;
        }
        let pipefail = program.sets('\0', "pipefail");
        program.walk(&mut |statement| {
            let (Kind::Assignment, [inner]) = (&statement.kind, statement.nested.as_slice()) else { return };
            let ends = |s: &Statement| matches!(s.name(), "grep" | "egrep" | "fgrep");
            let found = match &inner.kind {
                Kind::Command(_) if ends(inner) => Some(inner),
                Kind::Pipeline(parts) => parts
                    .iter()
                    .enumerate()
                    .find(|(at, part)| ends(part) && (pipefail || at + 1 == parts.len()))
                    .map(|(_, part)| part),
                _ => None,
            };
            if found.is_none() {
                return;
            }
            let text = content.text.get(statement.range.clone()).unwrap_or_default();
            let name = text.split('=').next().unwrap_or_default().trim();
            // Whether it is expected that there is nothing.
            let none = [
                format!("\"${name}\" -eq 0"),
                format!("${name} -eq 0"),
                format!("\"${name}\" = 0"),
                format!("-z \"${name}\""),
                format!("\"${name}\" -gt 0"),
                format!("\"${name}\" -ne 0"),
                format!("\"${name}\" = \"0\""),
                format!("\"${name}\" == \"0\""),
                format!("\"${name}\" != \"0\""),
                format!("-n \"${name}\""),
                format!("${{{name}}}\" -eq 0"),
                format!("${{{name}}}\" -gt 0"),
                format!("${name} -gt 0"),
                format!("{name} == 0"),
                format!("{name} > 0"),
                format!("\"${name}\" -lt "),
                format!("\"${name}\" -eq "),
                format!("${{{name}}}\" -eq "),
            ];
            if let Some(grep) = found.filter(|_| none.iter().any(|test| content.text.contains(test))) {
                let range = grep.range.clone();
                out.push(
                    Diagnostic::new(
                        &GREP_ENDS_SCRIPT,
                        content.span(range),
                        "where this finds nothing, `set -e` ends the script",
                    )
                    .label(content.span(statement.range.clone()), "before anybody looks at this")
                    .help("write `|| true` behind the grep, or count by `wc -l` of what `grep … || true` prints"),
                );
            }
        });
    }
}

/// Set-up asks an API for something by curl, and nobody looks at the answer: an error is a success.
pub fn curl(view: &TaskView<'_>, out: &mut Diagnostics) {
    for script in view.scripts.iter().filter(|script| script.phase == PhaseKind::Setup && script.decides_by_status()) {
        let (content, program) = (&script.content, &script.content.program);
        if !program.sound {
            continue;
        }
        let mut seen: Vec<&Statement> = Vec::new();
        program.walk(&mut |statement| {
            seen.extend(&statement.nested);
            match &statement.kind {
                Kind::Pipeline(parts) => seen.extend(parts),
                Kind::Or(pair) | Kind::And(pair) => seen.extend(pair.iter()),
                Kind::If { branches, .. } => branches.iter().for_each(|branch| seen.extend(&branch.condition)),
                Kind::Loop { condition, .. } => seen.extend(condition),
                Kind::Not(inner) => seen.push(inner),
                _ => {}
            }
        });
        for command in program.commands() {
            let words = command.words();
            let short = |letter: char| {
                words
                    .iter()
                    .skip(1)
                    .any(|w| w.text.starts_with('-') && !w.text.starts_with("--") && w.text.contains(letter))
            };
            let method = words
                .windows(2)
                .find(|pair| matches!(pair[0].text.as_str(), "-X" | "--request"))
                .map(|pair| pair[1].text.to_uppercase());
            let joined = words.iter().any(|word| matches!(word.text.as_str(), "-XPOST" | "-XPUT" | "-XPATCH"));
            let makes = joined || method.is_some_and(|method| matches!(method.as_str(), "POST" | "PUT" | "PATCH"));
            let fails = short('f') || words.iter().any(|word| word.text.starts_with("--fail"));
            let looked = seen.iter().any(|s| std::ptr::eq(*s, command))
                || words.iter().any(|w| matches!(w.text.as_str(), "-w" | "--write-out" | "-o" | "--output"));
            if command.name() == "curl" && makes && !fails && !looked {
                let range = words[0].range.clone();
                out.push(
                    Diagnostic::new(
                        &CURL_WITHOUT_FAIL,
                        content.span(range.clone()),
                        "an answer of 404 or 500 is a success here, and the agent begins in another world",
                    )
                    .strength(Strength::Warning)
                    .help("add `--fail`")
                    .fix("add `--fail`", content.span(range.end..range.end), " --fail"),
                );
            }
        }
    }
}
