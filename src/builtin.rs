//! The built-in steps: their arguments and outputs. No IO: `step` implements them.
//!
//! A built-in is a record that serde reads and schemars describes, with a signature around it. Property: *what checks,
//! decodes.*

pub mod any_of;
pub mod command;
pub mod consistently;
pub mod eventually;
pub mod expect;
pub mod extension;
pub mod file;
pub mod foreach;
pub mod group;
pub mod http;
pub mod llm;
pub mod script;
pub mod sleep;
pub mod steps_http;
pub mod steps_judge;
pub mod steps_script;
pub mod tool;

use std::sync::LazyLock;

use crate::{
    hir::{Arg, ArgKind, Def, Dialect, Name, Step},
    secrets::{is_secret_name, looks_drawn, tokens},
    signature::{Signature, Vocabularies, Vocabulary},
};

/// One built-in step.
#[derive(Debug)]
pub struct Builtin {
    /// The key in a task.
    pub name: &'static str,
    pub dialect: Dialect,
    pub signature: fn() -> Signature,
    /// One line for people: what this step will do.
    pub meaning: fn(&Step<Def>) -> String,
}

/// All built-in steps. The legacy dialect has no steps of its own: its scripts are those of the steps dialect.
pub const BUILTINS: &[Builtin] = &[
    command::BUILTIN,
    script::BUILTIN,
    http::BUILTIN,
    file::BUILTIN,
    llm::BUILTIN,
    foreach::BUILTIN,
    any_of::BUILTIN,
    group::BUILTIN,
    eventually::BUILTIN,
    consistently::BUILTIN,
    sleep::BUILTIN,
    extension::BUILTIN,
    steps_http::BUILTIN,
    steps_script::BUILTIN,
    steps_judge::BUILTIN,
];

/// The operations of every dialect.
pub fn vocabularies() -> &'static Vocabularies {
    static MADE: LazyLock<Vocabularies> = LazyLock::new(|| {
        let of = |dialect| {
            let known = BUILTINS.iter().filter(|b| b.dialect == dialect);
            Vocabulary::new(known.map(|b| (b.name, b.signature)))
        };
        Vocabularies { steps: of(Dialect::Steps), portable: of(Dialect::Portable) }
    });
    &MADE
}

/// The built-in with this name; the legacy dialect uses those of the steps dialect.
pub fn builtin(name: &str, dialect: Dialect) -> Option<&'static Builtin> {
    let dialect = if dialect == Dialect::Legacy { Dialect::Steps } else { dialect };
    BUILTINS.iter().find(|b| b.name == name && b.dialect == dialect)
}

/// An argument as text, with holes as written; empty if it is missing.
fn text(step: &Step<Def>, key: &str) -> String {
    text_or(step, key, "")
}

fn text_or(step: &Step<Def>, key: &str, default: &str) -> String {
    match step.arg(key).map(|arg| &arg.kind) {
        Some(ArgKind::Text(template)) => template.display(),
        Some(_) => "…".to_owned(),
        None => default.to_owned(),
    }
}

/// How much of a text is shown, in characters.
const EXCERPT: usize = 60;

/// The first line that is not blank, shortened.
pub fn excerpt(text: &str) -> String {
    shorten(text.lines().map(str::trim).filter(|line| !line.is_empty()))
}

/// The arguments of an operation, on one line: ` {name: web, count: 2}`; empty without arguments. Values that are named
/// like a secret, or look like one, are not shown.
pub fn call(args: &[(Name, Arg<Def>)]) -> String {
    if args.is_empty() {
        return String::new();
    }
    let shown = |(name, arg): &(Name, Arg<Def>)| {
        let value = match &arg.kind {
            ArgKind::List(items) => format!("[{}]", count(items.len(), "item", "items")),
            ArgKind::Record(fields) => format!("{{{}}}", count(fields.len(), "key", "keys")),
            _ => inline(arg),
        };
        format!("{}: {}", name.value, if is_secret_name(&name.value) { "***" } else { &value })
    };
    let line: Vec<_> = args.iter().map(shown).collect();
    format!(" {{{}}}", excerpt(&line.join(", ")))
}

/// What a step expects, on one line: `exitCode: 0, stdout: {contains: Bread}`. Secrets are hidden as by [`call`].
pub fn expected(expect: &Arg<Def>) -> String {
    let text = inline(expect);
    excerpt(text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or(&text))
}

fn inline(arg: &Arg<Def>) -> String {
    match &arg.kind {
        ArgKind::Null => "null".to_owned(),
        ArgKind::Bool(value) => value.to_string(),
        ArgKind::Int(value) => value.to_string(),
        ArgKind::Float(value) => value.to_string(),
        ArgKind::Text(text) => match text.display() {
            text if looks_drawn(&text) || tokens(&text).next().is_some() => "***".to_owned(),
            text => excerpt(&text),
        },
        ArgKind::List(items) => format!("[{}]", items.iter().map(inline).collect::<Vec<_>>().join(", ")),
        ArgKind::Record(fields) => {
            let field = |(name, arg): &(Name, Arg<Def>)| {
                let value = if is_secret_name(&name.value) { "***".to_owned() } else { inline(arg) };
                format!("{}: {value}", name.value)
            };
            format!("{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(", "))
        }
    }
}

/// The first command of a shell text, shortened, in backticks.
fn code(text: &str) -> String {
    let idle = |line: &&str| line.is_empty() || line.starts_with('#') || line.starts_with("set -");
    let shown = shorten(text.lines().map(str::trim).filter(|line| !idle(line)));
    format!("`{}`", if shown.is_empty() { excerpt(text) } else { shown })
}

fn shorten<'a>(mut lines: impl Iterator<Item = &'a str>) -> String {
    let first = lines.next().unwrap_or_default();
    let long = first.len() > EXCERPT;
    let cut = long.then(|| first.char_indices().nth(EXCERPT)).flatten().map_or(first.len(), |(end, _)| {
        // Between two words, if a word ends shortly before.
        first[..end].rfind(' ').filter(|space| end - space < EXCERPT / 3).unwrap_or(end)
    });
    let more = cut < first.len() || lines.next().is_some();
    format!("{}{}", first[..cut].trim_end(), if more { " …" } else { "" })
}

/// `1 step`, `3 steps`.
pub fn count(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}
