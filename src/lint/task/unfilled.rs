//! Holes in texts that are executed unchanged: script files, and the scripts of legacy tasks.

use crate::{
    check::{UNEXPANDED_HOLE, UNFILLED_LEGACY},
    diagnostic::{Diagnostic, Diagnostics, Strength},
    dialect::steps::looks_like_holes,
    hir::Dialect,
    lint::{
        TaskView,
        script::{Form, Reader},
    },
};

pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    let dialect = view.task.dialect;
    for script in view.scripts {
        let is_file = matches!(script.form, Form::File { .. });
        if script.reader == Reader::Foreign || !(is_file || dialect == Dialect::Legacy) {
            continue;
        }
        let text = &script.content.text;
        // The braces may be in a multi-line Python f-string.
        if text.contains("f\"\"\"") || text.contains("f'''") {
            continue;
        }
        for (range, root) in looks_like_holes(text) {
            let (hole, name) = (&text[range.clone()], &text[range.start + root.len() + 2..range.end - 1]);
            let start = script.content.line_start(range.start);
            let before = &text[start..range.start];
            // Ignore lines that replace the hole, Python f-strings and comments.
            let known = match root.as_str() {
                "random" => matches!(name, "id" | "port"),
                "agent" => matches!(name, "output" | "prompt"),
                "steps" => name.contains('.'),
                _ => !name.contains('.'),
            };
            let other =
                ["sed ", "f\"", "f'"].iter().any(|w| before.contains(w)) || before.trim_start().starts_with('#');
            if !known || other {
                continue;
            }
            let help = match (root.as_str(), dialect) {
                ("env", _) => format!("in a shell, read it from the environment: write `\"${name}\"`"),
                (_, Dialect::Legacy) => UNFILLED_LEGACY.to_owned(),
                _ => format!("pass it to the step, `env: {{NAME: \"{hole}\"}}`, and write `\"$NAME\"`"),
            };
            let what = if is_file { "in a script file" } else { "here" };
            let message = format!("`{hole}` is not filled {what}");
            let span = script.content.span(range.clone());
            out.push(
                Diagnostic::new(&UNEXPANDED_HOLE, span, message)
                    .strength(Strength::Warning)
                    .here("the shell reads it literally")
                    .help(help),
            );
        }
    }
}
