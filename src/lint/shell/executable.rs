//! Script files that cannot be executed.

use std::path::Path;

use crate::{
    diagnostic::{Diagnostic, Diagnostics},
    lint::{
        TaskView,
        script::{Form, Reader},
    },
    rule,
    source::Span,
};

rule! {
    pub static SCRIPT_NOT_EXECUTABLE = "script-not-executable", Note;
    pub static SCRIPT_WITHOUT_SHEBANG = "script-without-shebang", Verdict;
    pub static SHEBANG_NOT_FIRST = "shebang-not-first", Warning;
}

/// A file that is not executable, or that cannot be executed (`tests/coverage.md` B14).
pub fn file(view: &TaskView<'_>, out: &mut Diagnostics) {
    for script in view.scripts {
        let Form::File { path, executable } = &script.form else { continue };
        let name = script.value.as_literal().unwrap_or_default();
        let first = script.content.text.split('\n').next().unwrap_or_default();
        if let Some(program) = first.strip_prefix("#!").and_then(|line| line.strip_suffix('\r')) {
            let message =
                format!("`{name}` cannot be run: its lines end with a carriage return (Windows line endings)");
            out.push(
                Diagnostic::new(&SCRIPT_WITHOUT_SHEBANG, script.value.span, message)
                    .label(
                        script.content.span(0..first.len()),
                        format!("the interpreter is read as `{}\\r`", program.trim()),
                    )
                    .help(format!("run `sed -i 's/\\r$//' {name}`, and add `{name} text eol=lf` to `.gitattributes`")),
            );
            continue;
        }
        if script.reader == Reader::Nothing {
            let head = script.content.span(0..0);
            let mut diagnostic = Diagnostic::new(
                &SCRIPT_WITHOUT_SHEBANG,
                script.value.span,
                format!("`{name}` does not specify its interpreter"),
            )
            .label(first_line(&script.content.text, head), "the first line")
            .help("start the script with a line such as `#!/usr/bin/env bash`");
            if let Some(interpreter) = interpreter(path) {
                diagnostic = diagnostic.fix("add the line", head, format!("#!/usr/bin/env {interpreter}\n"));
            }
            out.push(diagnostic);
        } else if !executable {
            let chmod =
                format!("run `chmod +x {name}`, and `git update-index --chmod=+x {name}` if git ignores file modes");
            out.push(
                Diagnostic::new(&SCRIPT_NOT_EXECUTABLE, script.value.span, format!("`{name}` is not executable"))
                    .here("gevals uses the interpreter in its first line; other tools may not")
                    .help(chmod),
            );
        }
    }
}

fn first_line(text: &str, head: Span) -> Span {
    Span::new(head.file, 0..text.find('\n').unwrap_or(text.len()))
}

fn interpreter(path: &Path) -> Option<&'static str> {
    match path.extension().and_then(|e| e.to_str()) {
        None | Some("sh" | "bash") => Some("bash"),
        Some("py") => Some("python3"),
        _ => None,
    }
}

/// Blank lines before `#!` in an inline script (`tests/coverage.md` B14).
pub fn blank_lines(view: &TaskView<'_>, out: &mut Diagnostics) {
    for script in view.scripts.iter().filter(|s| s.form == Form::Inline) {
        let content = &script.content;
        let text = content.text.trim_start();
        let at = content.text.len() - text.len();
        if at == 0 || !text.starts_with("#!") {
            continue;
        }
        let line = at..at + text.find('\n').unwrap_or(text.len());
        out.push(
            Diagnostic::new(
                &SHEBANG_NOT_FIRST,
                content.span(line),
                "the `#!` line is not the first line of the script",
            )
            .here("other tools execute the text unchanged, and the system only recognizes `#!` in the first two bytes")
            .help("remove what precedes it")
            .fix("remove what precedes it", content.span(0..at), ""),
        );
    }
}
