//! Syntax that only bash supports, in scripts that `/bin/sh` runs.

use tree_sitter::Node;

use crate::{
    bash::Script,
    diagnostic::{Diagnostic, Diagnostics},
    lint::{
        TaskView,
        analysis::texts,
        script::{Content, Form, Reader},
    },
    rule,
};

rule! {
    pub static BASHISM = "bashism", Warning;
}

/// `/bin/sh` is bash on one machine and dash, which supports none of this, on the next (`decisions.md` §4).
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    for text in view.scripts.iter().filter(|s| s.reader == Reader::Posix) {
        let content = &text.content;
        let found = find(content);
        let [(first, what), others @ ..] = found.as_slice() else { continue };
        let reader = match text.form {
            Form::Line | Form::Inline if !content.text.trim_start().starts_with("#!") => {
                "`/bin/sh`, which runs this script,"
            }
            _ => "`sh`, which the first line requests,",
        };
        let mut diagnostic =
            Diagnostic::new(&BASHISM, content.span(first.clone()), format!("{reader} may not support {what}"))
                .here("bash supports it");
        for (range, what) in others.iter().take(3) {
            diagnostic = diagnostic.label(content.span(range.clone()), format!("{what} is not supported either"));
        }
        out.push(match shebang(&content.text) {
            Some(range) => diagnostic.help("request bash in the first line").fix(
                "write `#!/usr/bin/env bash`",
                content.span(range),
                "#!/usr/bin/env bash",
            ),
            None => {
                let diagnostic = diagnostic.help("add `shell: bash`");
                let fix = match text.step.arg("shell") {
                    Some(shell) => Some((shell.span, "bash".to_owned())),
                    None => crate::lint::before_key(view, text.key, "shell", "bash"),
                };
                match fix {
                    Some((at, text)) => diagnostic.fix("write `shell: bash`", at, text),
                    None => diagnostic,
                }
            }
        });
    }
}

fn shebang(text: &str) -> Option<std::ops::Range<usize>> {
    text.starts_with("#!").then(|| 0..text.find('\n').unwrap_or(text.len()))
}

type Found = (std::ops::Range<usize>, &'static str);

/// A text with none of these, and without the word `let`, has no bashisms. Most texts have none.
#[rustfmt::skip]
const MARKS: [&str; 26] = [
    "[[", "==", "((", "<(", ">(", "=(", "]=", "]+=", "<<<", "|&", "&>", "${", "$'", "..", "BASH_SOURCE", "RANDOM", "declare",
    "function", "mapfile", "pipefail", "popd", "pushd", "readarray", "shopt", "source", "typeset",
];

fn find(content: &Content) -> Vec<Found> {
    if !is_marked(&content.text) {
        return Vec::new();
    }
    content.script().map(parsed).unwrap_or_default()
}

fn is_marked(text: &str) -> bool {
    // `delete` does not contain the command `let`.
    MARKS.iter().any(|mark| text.contains(mark)) || texts::has_word(text, "let")
}

fn parsed(script: &Script) -> Vec<Found> {
    let mut found: Vec<Found> = Vec::new();
    for node in script.nodes() {
        if let Some((range, what)) = bash_only(script, node)
            && !found.iter().any(|(_, w)| *w == what)
        {
            found.push((range, what));
        }
    }
    found.sort_by_key(|(range, _)| range.start);
    found
}

fn bash_only(script: &Script, node: Node<'_>) -> Option<Found> {
    let token = |tokens: &[&str]| {
        let mut cursor = node.walk();
        node.children(&mut cursor).find(|c| tokens.contains(&c.kind())).map(|c| c.byte_range())
    };
    let whole = || Some(node.byte_range());
    let (range, what) = match node.kind() {
        "test_command" => (token(&["[["]), "`[[ … ]]`"),
        "binary_expression" if in_brackets(script, node) => (token(&["=="]), "`==` in `[ … ]`"),
        "array" => (whole(), "arrays"),
        "subscript" => (whole(), "arrays"),
        "herestring_redirect" => (token(&["<<<"]), "`<<<`"),
        "function_definition" => (token(&["function"]), "`function`"),
        "process_substitution" => (whole(), "`<(…)`"),
        "file_redirect" => (token(&["&>", "&>>"]), "`&>`"),
        "pipeline" => (token(&["|&"]), "`|&`"),
        "expansion" => {
            (token(&[",", ",,", "^", "^^", "/", "//", "/#", "/%", ":", "@", "!"]).and_then(|_| whole()), "this `${…}`")
        }
        "ansi_c_string" => (whole(), "`$'…'`"),
        "brace_expression" => (whole(), "`{a..b}`"),
        "c_style_for_statement" => (token(&["(("]), "`for ((…))`"),
        "compound_statement" => (token(&["(("]), "`((…))`"),
        "declaration_command" => (token(&["declare", "typeset"]), "`declare`"),
        "command_name" => match script.text(node) {
            "source" => (whole(), "`source`"),
            "shopt" => (whole(), "`shopt`"),
            "pushd" | "popd" => (whole(), "`pushd`"),
            "let" => (whole(), "`let`"),
            "mapfile" | "readarray" => (whole(), "`mapfile`"),
            _ => return None,
        },
        "word" if script.text(node) == "pipefail" => (whole(), "`pipefail`"),
        "variable_name"
            if ["BASH_SOURCE", "RANDOM"].contains(&script.text(node))
                && node.parent().is_some_and(|p| p.kind().ends_with("expansion")) =>
        {
            (node.parent().map(|p| p.byte_range()), "this variable")
        }
        _ => return None,
    };
    range.map(|range| (range, what))
}

fn in_brackets(script: &Script, node: Node<'_>) -> bool {
    node.parent().is_some_and(|p| p.kind() == "test_command" && !script.text(p).starts_with("[["))
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*, sample::select};

    use super::*;
    use crate::bash;

    /// Syntax that only bash supports, and surrounding text.
    #[rustfmt::skip]
    const PIECES: [&str; 44] = [
        "[[ a ]]", "[ a == b ]", "(( 1 ))", "a=(1)", "a+=(1)", "a[0]=1", "a[0]+=1", "cat <<<a", "function f { a; }",
        "a |& b", "a &> b", "a &>> b", "\"${a/b/c}\"", "${a^}", "${a[0]}", "$'a'", "{1..3}",
        "for ((;;)); do a; done", "declare a", "typeset a", "source a", "shopt a", "pushd a", "popd", "let a",
        "let\ta=1", "let", "mapfile a", "readarray a", "set -o pipefail", "$RANDOM", "$BASH_SOURCE", "cat <(a)",
        "a > >(b)", "unset a[0]", "$((a[0]))", "echo", "kubectl delete a", "if a; then b; fi", "(a)", "$(a)",
        "{ a; }", "a || b", "# a",
    ];

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn findings_have_a_valid_range(pieces in vec((select(&PIECES[..]), select(&[" ", "\n", ";", ""][..])), 1..4)) {
            let text: String = pieces.into_iter().flat_map(|(piece, end)| [piece, end]).collect();
            // Guesses about a text that is not a valid script do not count.
            let script = bash::parse(&text).filter(Script::is_sound);
            let found = script.map(|script| parsed(&script)).unwrap_or_default();
            prop_assert!(found.is_empty() || is_marked(&text), "{text:?}: {found:?}");
        }
    }
}
