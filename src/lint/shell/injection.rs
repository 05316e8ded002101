//! Untrusted text that is interpreted as code.

use std::{collections::HashMap, ops::Range};

use crate::{
    bash::{Word, tools},
    diagnostic::{Diagnostic, Diagnostics},
    hir::{Arg, ArgKind, Def, Hole, OperationKind, Target, Task},
    lint::{
        TaskView,
        script::{Content, ScriptView},
    },
    rule,
    ty::Type,
    yaml::Style,
};

rule! {
    pub static SHELL_INJECTION = "shell-injection", Warning;
}

/// The agent's output and the responses of tools and servers, inserted into shell code or a URL.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    let origins = Origins::of(view.task);
    for text in view.scripts {
        in_script(view, &origins, text, out);
        by_variable(&origins, text, out);
        by_value(view, text, out);
    }
    view.task.walk(&mut |_, step| {
        let Some(url) = matches!(step.op.kind, OperationKind::Builtin("http")).then(|| step.arg("url")).flatten()
        else {
            return;
        };
        url.templates(&mut |template| {
            for hole in template.holes() {
                // A response to the author's own request, usually an ID, is a common part of a URL.
                let Some(origin @ (Origin::Agent | Origin::Tool)) = origins.of_hole(hole) else { continue };
                let message = match origin {
                    Origin::Agent => "the agent's output is inserted into this URL".to_owned(),
                    _ => format!("{} is inserted into this URL", origin.words()),
                };
                out.push(
                    Diagnostic::new(&SHELL_INJECTION, hole.span, message)
                        .here("it may contain `/`, `?` or another host")
                        .help("request a fixed URL, and compare the response with this value"),
                );
            }
        });
    });
}

fn in_script(view: &TaskView<'_>, origins: &Origins<'_>, text: &ScriptView<'_>, out: &mut Diagnostics) {
    let ArgKind::Text(template) = &text.value.kind else { return };
    let holes = template.holes().zip(&text.content.holes);
    let foreign: Vec<_> = holes.filter_map(|(hole, range)| Some((hole, range, origins.of_hole(hole)?))).collect();
    let [(first, _, origin), others @ ..] = foreign.as_slice() else { return };
    let mut diagnostic =
        Diagnostic::new(&SHELL_INJECTION, first.span, format!("{} is inserted into shell code", origin.words()))
            .here("a quote, a `$` or a line break in it changes the commands");
    for (hole, ..) in others {
        diagnostic = diagnostic.label(hole.span, "and here");
    }
    let interpreter = foreign.iter().find_map(|(_, range, _)| interpreter(&text.content, range));
    diagnostic = diagnostic.help(match interpreter {
        Some(program) => format!("pass it as a variable: set it under `env`, and read it in the code for `{program}`"),
        None => "pass it as a variable: set it under `env`, and write `\"$NAME\"` in the script".to_owned(),
    });
    // In code for another program, the text of a variable is code, too.
    let holes: Vec<_> = foreign.iter().map(|(hole, range, _)| (*hole, (*range).clone())).collect();
    let edits = interpreter.is_none().then(|| edits(view, text, &holes)).flatten();
    for (at, edit) in edits.into_iter().flatten() {
        diagnostic = diagnostic.fix("pass it as a variable", at, edit);
    }
    out.push(diagnostic);
}

/// Returns the name of the command that has a hole in one of its arguments.
fn command<'t>(content: &'t Content, hole: &Range<usize>) -> Option<&'t str> {
    let holds = |word: &Word| word.range.start <= hole.start && hole.end <= word.range.end;
    let mut found = None;
    // Only the statements around the hole are read.
    let mut lists = vec![content.program.body.as_slice()];
    while let Some(list) = lists.pop() {
        let around = list.partition_point(|statement| statement.range.end < hole.end);
        let Some(statement) = list.get(around).filter(|statement| statement.range.start <= hole.start) else {
            continue;
        };
        if statement.words().iter().skip(1).any(holds) {
            found = Some(statement.name());
        }
        statement.lists(&mut |inner| lists.push(inner));
    }
    found
}

/// Returns the program that interprets the argument in which a hole lies as code.
fn interpreter<'t>(content: &'t Content, hole: &Range<usize>) -> Option<&'t str> {
    command(content, hole).filter(|name| tools::SHELLS.contains(name) || INTERPRETERS.contains(name))
}

/// Programs that interpret an argument as code, besides shells.
const INTERPRETERS: [&str; 20] = [
    "python", "python3", "node", "deno", "bun", "perl", "ruby", "awk", "gawk", "mawk", "sed", "jq", "yq", "gojq",
    "eval", "psql", "mysql", "sqlite3", "mongosh", "ssh",
];

/// `printf '%s' {env.TITLE}`, where the value of the variable contains syntax of the shell.
fn by_value(view: &TaskView<'_>, text: &ScriptView<'_>, out: &mut Diagnostics) {
    let ArgKind::Text(template) = &text.value.kind else { return };
    for (hole, range) in template.holes().zip(&text.content.holes) {
        let Target::TaskEnv(name) = &hole.reference.target else { continue };
        let written = view.task.env.iter().find(|(known, _)| known.value == *name);
        let value = written.and_then(|(_, value)| Some((value.span, value.as_literal()?)));
        let Some((span, value)) = value.filter(|_| hole.filters.is_empty()) else { continue };
        // Most values consist of plain words.
        if value.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'/' | b':')) {
            continue;
        }
        let is_code = || {
            let quotes = Quotes::at(&text.content, range)?;
            quotes.interpreted(view, value).filter(|_| interpreter(&text.content, range).is_none())
        };
        // Most programs take several arguments, and the value may be a list. These take one pattern or operand.
        let splits = || {
            let takes_one = matches!(command(&text.content, range), Some("grep" | "egrep" | "fgrep" | "test" | "["));
            let is_list = value.split(' ').any(|word| word.is_empty() || word.starts_with('-'));
            takes_one && value.contains(' ') && !is_list && Quotes::at(&text.content, range) == Some(Quotes::None)
        };
        let message = match is_code() {
            Some(syntax) => format!("the shell interprets `{syntax}` in the value of `{name}` as code"),
            None if splits() => format!("the shell splits the value of `{name}` into several arguments"),
            None => continue,
        };
        out.push(
            Diagnostic::new(&SHELL_INJECTION, hole.span, message)
                .here("the value is inserted here before the shell parses the text")
                .label(span, "the value")
                .help(format!("variables of the task are also environment variables: write `\"${name}\"`")),
        );
    }
}

/// How a hole is quoted in a script.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quotes {
    None,
    Double,
    Single,
}

impl Quotes {
    /// `None` where the hole may be code on purpose, as in the place of a command, or where quotes have no meaning.
    fn at(content: &Content, hole: &Range<usize>) -> Option<Self> {
        let script = content.script().filter(|script| script.is_sound())?;
        let node = script.root().descendant_for_byte_range(hole.start, hole.end)?;
        let parents = std::iter::successors(Some(node), tree_sitter::Node::parent);
        let is_apart = |kind: &str| {
            matches!(kind, "command_name" | "arithmetic_expansion" | "expansion" | "comment" | "heredoc_body" | "array")
        };
        if parents.take_while(|node| node.kind() != "command").any(|node| is_apart(node.kind())) {
            return None;
        }
        match node.kind() {
            "word" | "concatenation" => Some(Self::None),
            "string" | "string_content" => Some(Self::Double),
            "raw_string" => Some(Self::Single),
            _ => None,
        }
    }

    /// Returns the first syntax of the shell in a value. Blanks and `*` separate and select words, which is often
    /// intended; so are `$HOME` and the variables of the task.
    fn interpreted<'v>(self, view: &TaskView<'_>, value: &'v str) -> Option<&'v str> {
        let mut escaped = false;
        value.char_indices().find_map(|(at, c)| {
            let end = at + c.len_utf8();
            if std::mem::take(&mut escaped) {
                return None;
            }
            let rest = &value[end..];
            let is_syntax = match c {
                '\'' => self != Self::Double,
                _ if self == Self::Single => false,
                '\\' => {
                    escaped = true;
                    false
                }
                '"' | '`' => true,
                '$' => {
                    let name = rest.strip_prefix('{').unwrap_or(rest);
                    let name =
                        &name[..name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(name.len())];
                    let is_known = matches!(name, "HOME" | "USER" | "PWD" | "PATH" | "TMPDIR")
                        || view.task.env.iter().any(|(known, _)| known.value == name);
                    (!name.is_empty() && !is_known) || rest.starts_with(['(', '$', '?', '!', '@', '*', '#'])
                }
                ';' | '|' | '&' | '<' | '>' | '(' | ')' | '\n' => self == Self::None,
                _ => false,
            };
            is_syntax.then(|| &value[at..end])
        })
    }
}

/// The source of an untrusted text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    Agent,
    Tool,
    Server,
}

impl Origin {
    fn words(self) -> &'static str {
        match self {
            Self::Agent => "the agent's output",
            Self::Tool => "the output of a tool",
            Self::Server => "a server's response",
        }
    }
}

/// The maximum number of nested loops that are followed to the source of a loop variable.
const LOOPS: usize = 4;

/// The sources of step outputs and loop items, by name.
struct Origins<'a> {
    outputs: HashMap<&'a str, Origin>,
    loops: HashMap<&'a str, Vec<&'a Arg<Def>>>,
}

impl<'a> Origins<'a> {
    fn of(task: &'a Task<Def>) -> Self {
        let mut origins = Self { outputs: HashMap::new(), loops: HashMap::new() };
        task.walk(&mut |_, step| {
            let origin = match step.op.kind {
                OperationKind::Tool { .. } => Some(Origin::Tool),
                OperationKind::Builtin("http") => Some(Origin::Server),
                _ => None,
            };
            if let Some((id, origin)) = step.id.as_ref().zip(origin) {
                origins.outputs.insert(&id.value, origin);
            }
            if let Some((var, list)) = step.var.as_ref().zip(step.arg("in")) {
                origins.loops.entry(&var.value).or_default().push(list);
            }
        });
        origins
    }

    /// The source of a hole's text, if it is untrusted. The output of the author's own commands is trusted.
    fn of_hole(&self, hole: &Hole<Def>) -> Option<Origin> {
        self.within(hole, LOOPS)
    }

    fn within(&self, hole: &Hole<Def>, loops: usize) -> Option<Origin> {
        if !is_text(hole) {
            return None;
        }
        match &hole.reference.target {
            Target::AgentOutput => Some(Origin::Agent),
            Target::Output { step: id, .. } => self.outputs.get(id.as_str()).copied(),
            Target::Loop(name) if loops > 0 => {
                let mut found = None;
                for list in self.loops.get(name.as_str()).into_iter().flatten() {
                    list.templates(&mut |t| {
                        found = found.or_else(|| t.holes().find_map(|h| self.within(h, loops - 1)))
                    });
                }
                found
            }
            _ => None,
        }
    }
}

/// `eval "$A"` and `sh -c "… $A"` with untrusted text in the variable, which is expanded before the code is parsed.
fn by_variable(origins: &Origins<'_>, text: &ScriptView<'_>, out: &mut Diagnostics) {
    let Some(ArgKind::Record(env)) = text.step.arg("env").map(|e| &e.kind) else { return };
    let foreign: Vec<_> = env
        .iter()
        .filter_map(|(name, value)| {
            let mut found = None;
            value.templates(&mut |t| found = found.or_else(|| t.holes().find_map(|h| origins.of_hole(h))));
            Some((name, found?))
        })
        .collect();
    if foreign.is_empty() {
        return;
    }
    for command in text.content.program.commands() {
        let words = command.words();
        let code = match command.name() {
            "eval" => &words[1..],
            shell if tools::SHELLS.contains(&shell) => {
                let is_c = |w: &Word| w.text.starts_with('-') && !w.text.starts_with("--") && w.text.contains('c');
                let at = words.iter().skip(1).take_while(|w| w.text.starts_with('-')).position(is_c);
                at.and_then(|at| words.get(at + 2..at + 3)).unwrap_or_default()
            }
            _ => continue,
        };
        let filled = code.iter().filter(|w| !w.literal).find_map(|word| {
            foreign.iter().find(|(name, _)| expands(&word.text, &name.value)).map(|(name, origin)| (word, name, origin))
        });
        if let Some((word, name, origin)) = filled {
            out.push(
                Diagnostic::new(
                    &SHELL_INJECTION,
                    text.content.span(word.range.clone()),
                    format!("{} is inserted into shell code", origin.words()),
                )
                .here(format!("`${}` is expanded before this is parsed as code", name.value))
                .help(format!("pass it as an argument: `sh -c '… \"$1\"' sh \"${}\"`", name.value)),
            );
        }
    }
}

/// Whether a word contains `$NAME` or `${NAME}`.
fn expands(word: &str, name: &str) -> bool {
    let ends = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    word.match_indices('$').any(|(at, _)| {
        let rest = &word[at + 1..];
        rest.strip_prefix('{').unwrap_or(rest).strip_prefix(name).is_some_and(ends)
    })
}

fn is_text(hole: &Hole<Def>) -> bool {
    !matches!(hole.reference.ty, Type::Number | Type::Bool)
}

type Edit = (crate::source::Span, String);

/// The edits that pass each of these by `env`. `None` if one of them cannot be moved.
fn edits(view: &TaskView<'_>, text: &ScriptView<'_>, holes: &[(&Hole<Def>, Range<usize>)]) -> Option<Vec<Edit>> {
    let mut edits = Vec::new();
    let mut entries: Vec<(String, String)> = Vec::new();
    for (hole, range) in holes {
        let name = variable(hole)?;
        let value = hole.text.clone();
        if value.contains(['"', '\\']) {
            return None;
        }
        match entries.iter().find(|(n, _)| *n == name) {
            Some((_, known)) if *known == value => {}
            Some(_) => return None,
            None => entries.push((name.clone(), value)),
        }
        let reference = reference(&text.content, range, &name)?;
        let written = match text.content.style? {
            Style::DoubleQuoted => reference.replace('"', "\\\""),
            Style::SingleQuoted => reference.replace('\'', "''"),
            _ => reference,
        };
        edits.push((hole.span, written));
    }
    let entries: Vec<_> = entries.into_iter().map(|(n, v)| (n, format!("\"{v}\""))).collect();
    match text.step.args.iter().find(|(k, _)| k.value == "env") {
        Some((_, env)) => {
            let ArgKind::Record(fields) = &env.kind else { return None };
            let (first, _) = fields.first()?;
            for (name, value) in entries {
                if fields.iter().any(|(k, _)| k.value == name) {
                    return None;
                }
                edits.push(crate::lint::before_key(view, first.span, &name, &value)?);
            }
        }
        None => {
            let list: Vec<_> = entries.iter().map(|(n, v)| format!("{n}: {v}")).collect();
            edits.push(crate::lint::before_key(view, text.key, "env", &format!("{{{}}}", list.join(", ")))?);
        }
    }
    Some(edits)
}

fn variable(hole: &Hole<Def>) -> Option<String> {
    let name = match &hole.reference.target {
        Target::AgentOutput => "AGENT_OUTPUT".to_owned(),
        Target::Output { step, name } => format!("{step}_{name}"),
        _ => return None,
    };
    Some(name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect())
}

/// How the variable is written in place of the hole.
fn reference(content: &Content, range: &Range<usize>, name: &str) -> Option<String> {
    let script = content.script().filter(|s| s.is_sound())?;
    let node = script.root().descendant_for_byte_range(range.start, range.end)?;
    let within = |kind: &str| {
        let mut at = Some(node);
        std::iter::from_fn(|| {
            let n = at?;
            at = n.parent();
            Some(n)
        })
        .any(|n| n.kind() == kind)
    };
    if within("arithmetic_expansion") || within("expansion") || within("comment") {
        return None;
    }
    match node.kind() {
        "word" | "concatenation" => Some(format!("\"${name}\"")),
        "string" | "string_content" => Some(format!("${{{name}}}")),
        "raw_string" => Some(format!("'\"${name}\"'")),
        _ => None,
    }
}
