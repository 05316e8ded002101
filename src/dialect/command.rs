//! Programs with arguments, as given in MCP configs and agent files.

use crate::{
    decode::{Reader, flow_list, plain_words, quote},
    diagnostic::{Diagnostic, Strength},
    rule,
    secrets::is_secret_name,
    source::Span,
    yaml::{Entry, Node, Style},
};

rule! {
    pub static UNSPLIT_COMMAND = "unsplit-command", Hard;
    pub static DEAF_CONTAINER = "deaf-container", Warning;
}

/// Programs that are started with another program or script as an argument.
const LAUNCHERS: [&str; 14] =
    ["npx", "uvx", "pipx", "bunx", "uv", "node", "deno", "bun", "python", "python3", "docker", "podman", "go", "sh"];

/// Reports `command: npx -y server`: no shell splits it, so it is the name of a single program, which does not exist.
pub fn one_word(reader: &mut Reader<'_>, command: Entry<'_>, mapping: Node<'_>, args: Option<Node<'_>>) {
    let Some(text) = command.value.as_str() else { return };
    let mut words = text.split_whitespace();
    let (Some(program), Some(_)) = (words.next(), words.next()) else { return };
    let has_option = text.split_whitespace().any(|w| w.starts_with('-'));
    let on_path = !program.contains(['/', '\\', '$']);
    // The path of a program may contain spaces; a program that is looked up on PATH and has options after it does not.
    let sure = on_path && (has_option || LAUNCHERS.contains(&program));
    if !on_path && !has_option && text[program.len()..].contains(['/', '\\']) {
        return;
    }
    // The text after the program may be a secret.
    let message = match sure {
        true => format!("`{program} …` is used as a single program name: no shell splits it"),
        false => format!("`{program} …` is used as a single program name: no shell splits it"),
    };
    let diagnostic = Diagnostic::new(&UNSPLIT_COMMAND, command.value.span(), message);
    let diagnostic = match plain_words(text) {
        Some(words) => split(diagnostic, command, &words, mapping, args),
        None => diagnostic
            .help(format!("write `{}: sh` and `args: [\"-c\", …]`, or only the name of the program", command.name)),
    };
    match sure {
        true => reader.error(diagnostic),
        false => reader.out.push(diagnostic.strength(Strength::Warning)),
    }
}

/// Adds a fix that keeps the program and moves everything else to `args`.
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
    let description = "move the arguments to `args`";
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
            let diagnostic =
                diagnostic.help(format!("write `{key}: {program}`, and put `{bare}` at the start of `args`"));
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

/// Reports `args: ["--port 8080"]`, which no shell splits, and words after the text of `sh -c`, which become its `$0` and `$1`.
/// Arguments may be secret, so their values are not repeated.
pub fn arguments(reader: &mut Reader<'_>, program: &str, list: Node<'_>, args: &[Node<'_>]) {
    let texts: Vec<&str> = args.iter().map(|arg| arg.as_str().unwrap_or_default()).collect();
    if SHELLS.contains(&program.rsplit('/').next().unwrap_or(program)) {
        if let ["-c", text, _, ..] = texts.as_slice()
            && !text.contains('$')
        {
            reader.out.push(
                Diagnostic::new(
                    &UNSPLIT_COMMAND,
                    args[2].span(),
                    format!("`{program} -c` runs only the text after it, so this argument is not part of the command"),
                )
                .strength(Strength::Warning)
                .help("write the whole command as a single argument: `args: [\"-c\", \"COMMAND ARGUMENT …\"]`"),
            );
        }
        return;
    }
    for (nth, (arg, text)) in args.iter().zip(&texts).enumerate() {
        let Some((option, value)) = text.split_once(' ') else { continue };
        let name = option.trim_start_matches('-');
        let is_option = option.len() > name.len()
            && option.len() - name.len() < 3
            && name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        // A word after another option may be its value.
        let is_value = nth > 0 && texts[nth - 1].starts_with('-');
        if !is_option || is_value || value.is_empty() || value.contains(char::is_whitespace) {
            continue;
        }
        let message = format!("`{option} …` is passed as a single argument: no shell splits it");
        let finding = Diagnostic::new(&UNSPLIT_COMMAND, arg.span(), message)
            .strength(Strength::Warning)
            .help(format!("write two arguments: `\"{option}\", \"…\"`"));
        let words = flow_list([option, value]);
        reader.out.push(match list.style() {
            Style::Flow if !arg.is_alias() && !is_secret_name(&name.replace('-', "_")) => {
                finding.fix("split into two arguments", arg.span(), words.trim_matches(['[', ']']))
            }
            _ => finding,
        });
    }
}

/// Programs that accept `-c TEXT`.
const SHELLS: [&str; 5] = ["sh", "bash", "zsh", "dash", "ash"];

/// Checks a server in a container: without `-i` its input is closed, a terminal corrupts its output, and it gets only the variables
/// that an option names.
pub fn container(reader: &mut Reader<'_>, program: Entry<'_>, args: &[Node<'_>], env: Option<Entry<'_>>) {
    let texts: Vec<&str> = args.iter().map(|arg| arg.as_str().unwrap_or_default()).collect();
    let name = program.value.as_str().unwrap_or_default().rsplit('/').next().unwrap_or_default();
    // `docker mcp gateway run` and `docker compose run` are different commands.
    let at = match texts.as_slice() {
        ["run", ..] => 0,
        ["container", "run", ..] => 1,
        _ => return,
    };
    if !["docker", "podman", "nerdctl"].contains(&name) {
        return;
    }
    let given = &texts[at + 1..];
    // The options of the image are among these words, but one more does no harm.
    let cluster = |text: &str, flag: char| {
        text.strip_prefix('-').is_some_and(|flags| {
            flags.contains(flag) && flags.chars().all(|c| matches!(c, 'i' | 't' | 'd' | 'P' | 'q'))
        })
    };
    let attached = |text: &&str| {
        cluster(text, 'i')
            || ["--interactive", "--attach"].iter().any(|option| text.starts_with(option))
            || *text == "-a"
    };
    let mut warn = |span, message: String, help: String| {
        reader.out.push(Diagnostic::new(&DEAF_CONTAINER, span, message).help(help));
    };
    if !given.iter().any(attached) {
        let message =
            format!("`{name} run` without `-i` closes the server's standard input, so the server receives nothing");
        warn(args[at].span(), message, "write `run`, `-i`".to_owned());
    }
    if let Some(nth) = given.iter().position(|text| cluster(text, 't') && cluster(text, 'i'))
        && name == "docker"
    {
        let message =
            format!("`{}` requests a terminal, but a server does not have one: docker refuses to run", given[nth]);
        warn(args[at + 1 + nth].span(), message, "write `-i`".to_owned());
    }
    if given.iter().any(|text| text.starts_with("--env-file") || text.starts_with("--env-host")) {
        return;
    }
    for entry in env.iter().flat_map(|env| env.value.entries()) {
        let own = ["DOCKER", "PODMAN", "CONTAINER", "BUILDKIT", "XDG"].iter().any(|word| entry.name.starts_with(word));
        let named = given.iter().any(|text| text.contains(entry.name));
        if !own && !named && !matches!(entry.name, "PATH" | "HOME") {
            let message = format!("`{}` is set for `{name}`, but is not passed to the container", entry.name);
            warn(entry.key.span(), message, format!("add it to `args`, before the image: `-e`, `{}`", entry.name));
        }
    }
}
