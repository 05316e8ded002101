//! Programs with arguments, as MCP configs and agent files name them.

use crate::{
    decode::{Reader, flow_list, plain_words, quote},
    diagnostic::{Diagnostic, Strength},
    rule,
    source::Span,
    yaml::{Entry, Node, Style},
};

rule! {
    pub static UNSPLIT_COMMAND = "unsplit-command", Hard;
}

/// Programs that are started with what they shall run.
const LAUNCHERS: [&str; 14] =
    ["npx", "uvx", "pipx", "bunx", "uv", "node", "deno", "bun", "python", "python3", "docker", "podman", "go", "sh"];

/// `command: npx -y server`: no shell splits it, so it is the name of one program, which nobody has.
pub fn one_word(reader: &mut Reader<'_>, command: Entry<'_>, mapping: Node<'_>, args: Option<Node<'_>>) {
    let Some(text) = command.value.as_str() else { return };
    let mut words = text.split_whitespace();
    let (Some(program), Some(_)) = (words.next(), words.next()) else { return };
    let has_option = text.split_whitespace().any(|w| w.starts_with('-'));
    let on_path = !program.contains(['/', '\\', '$']);
    // The path of a program may hold spaces; what is looked for on PATH and followed by options does not.
    let sure = on_path && (has_option || LAUNCHERS.contains(&program));
    if !on_path && !has_option && text[program.len()..].contains(['/', '\\']) {
        return;
    }
    let message = match sure {
        true => format!("`{text}` is one word: no shell splits it"),
        false => format!("`{text}` is one word, the name of one program: no shell splits it"),
    };
    let diagnostic = Diagnostic::new(&UNSPLIT_COMMAND, command.value.span(), message);
    let diagnostic = match plain_words(text) {
        Some(words) => split(diagnostic, command, &words, mapping, args),
        None => {
            diagnostic.help(format!("write `{}: sh` and `args: [\"-c\", …]`, or name the program alone", command.name))
        }
    };
    match sure {
        true => reader.error(diagnostic),
        false => reader.out.push(diagnostic.strength(Strength::Warning)),
    }
}

/// The program alone, and all else under `args`.
fn split(
    diagnostic: Diagnostic,
    command: Entry<'_>,
    words: &[&str],
    mapping: Node<'_>,
    args: Option<Node<'_>>,
) -> Diagnostic {
    let (key, program, value) = (command.name, words[0], command.value);
    let list = flow_list(words[1..].iter().copied());
    let bare = list.trim_matches(['[', ']']);
    let written = if value.is_plain() { program.to_owned() } else { quote(program) };
    let description = "put the arguments under `args`";
    match args {
        None => {
            let args = if command.key.is_plain() { "args" } else { "\"args\"" };
            let next = match mapping.style() {
                Style::Flow => ", ".to_owned(),
                _ => format!("\n{}", " ".repeat(command.key.column())),
            };
            diagnostic.help(format!("write `{key}: {program}` and `args: {list}`")).fix(
                description,
                value.span(),
                format!("{written}{next}{args}: {list}"),
            )
        }
        Some(args) => {
            let diagnostic = diagnostic.help(format!("write `{key}: {program}`, and `{bare}` at the head of `args`"));
            match args.style() {
                Style::Flow if !args.is_empty() && !args.is_alias() => {
                    let head = Span { start: args.span().start + 1, end: args.span().start + 1, ..args.span() };
                    diagnostic.fix(description, value.span(), written).fix(description, head, format!("{bare}, "))
                }
                _ => diagnostic,
            }
        }
    }
}
