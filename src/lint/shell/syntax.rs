//! Scripts that no shell can parse.

use crate::{
    bash::{
        DEPTH,
        syntax::{self, Fault, Grammar, Report},
    },
    diagnostic::{Diagnostic, Diagnostics, Strength},
    effects::sourced::read_by,
    lint::{
        TaskView,
        script::{Reader, ScriptView},
    },
    rule,
};

rule! {
    pub static SCRIPT_SYNTAX = "script-syntax", Verdict;
}

/// The shell reports a syntax error only when it gets there: everything before it has already run.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    for script in view.scripts {
        let Some(grammar) = grammar(script) else { continue };
        let content = &script.content;
        if !content.is_plain && content.script().is_none() {
            let message = format!("this {} is nested too deeply: no other rule checks it", script.what());
            let help =
                format!("at most {DEPTH} levels of nesting are allowed, and {} commands in a chain of `&&`", DEPTH / 2);
            out.push(
                Diagnostic::new(&SCRIPT_SYNTAX, content.span(0..0), message).strength(Strength::Warning).help(help),
            );
            continue;
        }
        let report = if content.is_plain { Report::default() } else { report(&content.text, grammar) };
        if let Some(fault) = &report.fault {
            let message = format!("the shell cannot parse this {}: {}", script.what(), fault.message);
            let mut diagnostic = Diagnostic::new(&SCRIPT_SYNTAX, content.span(fault.at.clone()), message);
            if let Some((at, what)) = &fault.open {
                diagnostic = diagnostic.label(content.span(at.clone()), what.as_str());
            }
            out.push(diagnostic.help(help(&content.text, fault, report.endless.is_some())));
        } else if let Some((at, delimiter)) = &report.endless {
            out.push(
                Diagnostic::new(&SCRIPT_SYNTAX, content.span(at.clone()), endless(delimiter))
                    .strength(Strength::Warning)
                    .help("the shell reads the rest of the script as its content, and runs none of it"),
            );
        }
        for (word, path) in read_by(script) {
            let text = view.files.read(&path).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            let Some(text) = text else { continue };
            if let Some(fault) = self::report(&text, grammar).fault {
                let line = text[..fault.at.start].matches('\n').count() + 1;
                let message = format!("the shell cannot parse `{}`: in line {line}, {}", word.text, fault.message);
                let help = "the script ends here, or continues without the definitions in this file";
                out.push(Diagnostic::new(&SCRIPT_SYNTAX, content.span(word.range.clone()), message).help(help));
            }
        }
    }
}

/// The grammar that a script must follow, if known.
fn grammar(script: &ScriptView<'_>) -> Option<Grammar> {
    match script.reader {
        Reader::Bash => Some(Grammar::Bash),
        Reader::Posix => Some(Grammar::Posix),
        // The user's own shell, unless the author specifies one.
        Reader::Shell => {
            let named = script.content.text.trim_start().starts_with("#!") || script.step.arg("shell").is_some();
            (!named).then_some(Grammar::Posix)
        }
        Reader::Nothing | Reader::Foreign => None,
    }
}

/// `sh` is bash on one machine and dash on another: only what neither can parse is an error.
fn report(text: &str, grammar: Grammar) -> Report {
    let report = syntax::check(text, Grammar::Bash);
    let refused = || grammar == Grammar::Bash || syntax::check(text, Grammar::Posix).fault.is_some();
    Report { fault: report.fault.filter(|_| refused()), ..report }
}

fn help(text: &str, fault: &Fault, endless: bool) -> &'static str {
    if text.contains("\r\n") {
        "the lines end with CRLF, and the shell reads `\\r` as part of the last word: use LF line endings"
    } else if endless {
        "an earlier here-document is not closed: its delimiter must be alone on a line, without spaces"
    } else if fault.open.as_ref().is_some_and(|(_, what)| what.contains("[[")) {
        "bash prints an error, skips the rest of the script, and exits with status 0"
    } else {
        "the shell stops here: commands before this may have run, the rest does not"
    }
}

fn endless(delimiter: &str) -> String {
    format!("this here-document is not closed: there is no line `{delimiter}`")
}
