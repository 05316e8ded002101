//! Passes a prompt to a shell agent as data: the place of `{{ .Prompt }}` in `runPrompt`, read as bash, determines how
//! the prompt is written there (`decisions.md` §8). No IO.
//!
//! Property: *in each context, for any prompt without NUL, the agent reads exactly that prompt.*

use std::ops::Range;

use tree_sitter::Node;

pub use super::gotext::Fault;
use super::{
    Script, Word, gotext,
    stand_in::{StandIns, Text},
    tools::{SHELLS, canonical},
};
use crate::ascii::{Ascii, ascii};

/// The fields that `runPrompt` may use.
pub const FIELDS: [&str; 3] = ["McpServerFileArgs", "AllowedToolArgs", PROMPT];
const PROMPT: &str = "Prompt";

/// The variable that contains the prompt, if the prompt is short enough for a variable.
pub const VARIABLE: &str = "GEVALS_PROMPT";
/// The variable that contains the path of a file with the prompt.
pub const FILE_VARIABLE: &str = "GEVALS_PROMPT_FILE";

/// The context in which a prompt is placed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Context {
    /// Written as one single-quoted word.
    Bare,
    /// Inside `"…"`: a reference to the variable.
    DoubleQuoted,
    /// Inside `'…'`: the text itself, with its quotes written as `'\''`.
    SingleQuoted,
    /// In a here-document: a reference to the variable.
    Heredoc,
    /// In a here-document with a quoted delimiter: the text itself, under a delimiter that it does not contain.
    QuotedHeredoc,
}

/// A sample prompt, used when there is no actual one.
const PROBE: &str = "Create the pod `web`, and say when it is ready. Its image is \"nginx\".";

/// Every place of the prompt in a `runPrompt` template, with its context.
///
/// # Errors
/// If the template cannot be parsed, or if the prompt would not be data in some place: in `$(…)`, a nested shell, a
/// comment.
pub fn prompt_context(run_prompt: &str) -> Result<Vec<(Range<usize>, Context)>, Fault> {
    let mut found = Vec::new();
    // Branches of the template may or may not be taken.
    for value in ["x", ""] {
        let frame = Frame::new(run_prompt, &[("McpServerFileArgs", value), ("AllowedToolArgs", value)], PROBE)?;
        let places = frame.places.into_iter().map(|place| (place.text.origin, place.context));
        found.extend(places);
    }
    found.sort_by_key(|(range, _)| range.start);
    found.dedup();
    Ok(found)
}

/// A command line, and the places of the prompt in it.
#[derive(Debug)]
pub struct Frame {
    /// The line with placeholder words instead of the prompt.
    line: String,
    places: Vec<Place>,
}

#[derive(Debug)]
struct Place {
    /// Range of the placeholder word.
    range: Range<usize>,
    text: Text,
    /// Whether the text is the whole prompt, as in [`VARIABLE`].
    whole: bool,
    context: Context,
    /// Set for a quoted here-document.
    heredoc: Option<Heredoc>,
}

#[derive(Clone, PartialEq, Debug)]
struct Heredoc {
    start: Range<usize>,
    body: Range<usize>,
    end: Range<usize>,
}

impl Frame {
    /// Evaluates a `runPrompt` template.
    ///
    /// # Errors
    /// Same as [`prompt_context`].
    pub fn new(run_prompt: &str, values: &[(&str, &str)], prompt: &str) -> Result<Self, Fault> {
        let whole = |message: &str| Fault { range: 0..run_prompt.len(), message: message.to_owned() };
        let words = StandIns::new(run_prompt).map_err(|error| whole(&error.to_string()))?;
        let mut template = run_prompt.to_owned();
        for field in gotext::fields(run_prompt, &FIELDS)?.into_iter().rev().filter(|field| field.name == PROMPT) {
            let text = Text { value: prompt.to_owned(), bare: None, origin: field.range.clone() };
            template.replace_range(field.range, &format!("\"{}\"", words.add(text)));
        }
        let values: Vec<_> = FIELDS.iter().map(|field| (*field, value(values, field))).collect();
        let line = gotext::evaluate(&template, &values, words.functions())
            // The fault's range refers to another text.
            .map_err(|fault| whole(&fault.message))?;
        let spots = words.places(&line);
        if spots.is_empty() {
            return Ok(Self { line, places: Vec::new() });
        }
        let not_bash = || whole("this cannot be parsed as bash, so the position of the prompt is unknown");
        let script = sound(&line).ok_or_else(not_bash)?;
        let places = spots.into_iter().map(|(range, text)| {
            let (context, heredoc) = place(&script, &range).map_err(|why| Fault {
                range: text.origin.clone(),
                message: format!("the prompt is not allowed {why}"),
            })?;
            let whole = text.value == prompt;
            Ok(Place { range, text, whole, context, heredoc })
        });
        let places = places.collect::<Result<_, Fault>>()?;
        Ok(Self { line, places })
    }

    /// Whether the command line refers to [`VARIABLE`].
    pub fn needs_variable(&self) -> bool {
        self.line.contains(VARIABLE)
            || self.places.iter().any(|p| p.whole && matches!(p.context, Context::DoubleQuoted | Context::Heredoc))
    }

    /// The command line. [`VARIABLE`] must contain the prompt when it runs.
    pub fn fill(&self) -> String {
        let mut edits: Vec<(Range<usize>, String)> = Vec::new();
        let mut renamed: Vec<&Heredoc> = Vec::new();
        for place in &self.places {
            edits.push((place.range.clone(), place.written()));
            if let Some(heredoc) = place.heredoc.as_ref().filter(|h| !renamed.contains(h)) {
                renamed.push(heredoc);
                let delimiter = &self.line[heredoc.end.clone()];
                let inside = |p: &&Place| heredoc.body.start <= p.range.start && p.range.end <= heredoc.body.end;
                let texts = self.places.iter().filter(inside).map(|p| (p.range.clone(), p.written()));
                let body = edited(&self.line, heredoc.body.clone(), texts);
                if body.contains(delimiter) {
                    let mut fresh = "GEVALS_END".to_owned();
                    while body.contains(&fresh) {
                        fresh.push('_');
                    }
                    edits.push((heredoc.start.clone(), format!("'{fresh}'")));
                    edits.push((heredoc.end.clone(), fresh));
                }
            }
        }
        edits.sort_by_key(|(range, _)| range.start);
        edited(&self.line, 0..self.line.len(), edits.into_iter())
    }
}

fn value<'v>(values: &[(&str, &'v str)], field: &str) -> &'v str {
    values.iter().find(|(name, _)| *name == field).map_or("", |(_, value)| value)
}

/// A part of a text in which some ranges, given in order, are replaced.
fn edited(text: &str, part: Range<usize>, edits: impl Iterator<Item = (Range<usize>, String)>) -> String {
    let mut out = String::new();
    let mut at = part.start;
    for (range, new) in edits {
        out += &text[at..range.start];
        out += &new;
        at = range.end;
    }
    out + &text[at..part.end]
}

impl Place {
    fn written(&self) -> String {
        let Text { value, bare, .. } = &self.text;
        match self.context {
            Context::Bare => format!("'{}'", bare.as_ref().unwrap_or(value).replace('\'', r"'\''")),
            Context::SingleQuoted => value.replace('\'', r"'\''"),
            Context::QuotedHeredoc => value.clone(),
            Context::DoubleQuoted | Context::Heredoc if self.whole => format!("${{{VARIABLE}}}"),
            Context::DoubleQuoted => escaped(value, &['\\', '$', '`', '"']),
            Context::Heredoc => escaped(value, &['\\', '$', '`']),
        }
    }
}

fn escaped(text: &str, special: &[char]) -> String {
    text.chars().flat_map(|c| special.contains(&c).then_some('\\').into_iter().chain([c])).collect()
}

/// The parsed script, if all of it is understood. The grammar does not know a redirection between a here-document and a
/// pipe (`<<'EOT' 2>&1 | tee log`); such redirections are replaced with blanks of the same length, so that the quotes
/// stay where they were.
fn sound(text: &str) -> Option<Script> {
    let whole = super::parse(text)?;
    if whole.is_sound() {
        return Some(whole);
    }
    static REDIRECTION: Ascii = ascii(r"[0-9]*>>?(&[0-9-]|[ \t]*[A-Za-z0-9_./-]+)");
    let blank = REDIRECTION.replace_all(text, |found| " ".repeat(found.len()));
    super::parse(&blank).filter(Script::is_sound)
}

/// Node kinds whose words keep their meaning.
const PLAIN: [&str; 23] = [
    "program",
    "list",
    "pipeline",
    "redirected_statement",
    "command",
    "concatenation",
    "variable_assignment",
    "variable_assignments",
    "declaration_command",
    "array",
    "herestring_redirect",
    "heredoc_redirect",
    "subshell",
    "compound_statement",
    "negated_command",
    "if_statement",
    "elif_clause",
    "else_clause",
    "while_statement",
    "for_statement",
    "do_group",
    "function_definition",
    "string",
];

/// The context of a place, or a description of the place if the prompt is not allowed there.
fn place(script: &Script, range: &Range<usize>) -> Result<(Context, Option<Heredoc>), String> {
    let node = script.root().descendant_for_byte_range(range.start, range.end).ok_or("there")?;
    let (context, heredoc, held) = match (node.kind(), node.parent()) {
        ("word", parent) => (Context::Bare, None, parent),
        ("raw_string", parent) => (Context::SingleQuoted, None, parent),
        ("string_content", Some(string)) if string.kind() == "string" => (Context::DoubleQuoted, None, string.parent()),
        ("string", parent) => (Context::DoubleQuoted, None, parent),
        ("heredoc_body" | "heredoc_content", _) => in_heredoc(script, node)?,
        (kind, _) => return Err(describe(kind)),
    };
    if matches!(context, Context::Bare | Context::DoubleQuoted | Context::Heredoc)
        && script.text[..range.start].ends_with(['\\', '$'])
    {
        return Err("directly after `\\` or `$`".to_owned());
    }
    let mut outer = held;
    while let Some(node) = outer {
        if !PLAIN.contains(&node.kind()) {
            return Err(describe(node.kind()));
        }
        outer = node.parent();
    }
    nested_shell(script, range)?;
    Ok((context, heredoc))
}

type InHeredoc<'t> = (Context, Option<Heredoc>, Option<Node<'t>>);

fn in_heredoc<'t>(script: &Script, node: Node<'t>) -> Result<InHeredoc<'t>, String> {
    let body = if node.kind() == "heredoc_body" { Some(node) } else { node.parent() };
    let body = body.filter(|b| b.kind() == "heredoc_body").ok_or("there")?;
    let redirect = body.parent().filter(|r| r.kind() == "heredoc_redirect").ok_or("there")?;
    let child = |kind| {
        let mut cursor = redirect.walk();
        redirect.children(&mut cursor).find(|c| c.kind() == kind)
    };
    let (Some(start), Some(end)) = (child("heredoc_start"), child("heredoc_end")) else {
        return Err("in an unclosed heredoc".to_owned());
    };
    if !script.text(start).contains(['\'', '"', '\\']) {
        if script.text(body).contains('`') {
            return Err("in a heredoc with backticks".to_owned());
        }
        return Ok((Context::Heredoc, None, Some(redirect)));
    }
    if script.text(redirect).starts_with("<<-") {
        return Err("in a heredoc with `<<-`, which removes its tabs".to_owned());
    }
    let text = script.text(end);
    let trimmed = end.start_byte() + (text.len() - text.trim_start().len());
    let end = trimmed..trimmed + text.trim().len();
    let heredoc = Heredoc { start: start.byte_range(), body: body.byte_range(), end };
    Ok((Context::QuotedHeredoc, Some(heredoc), Some(redirect)))
}

fn describe(kind: &str) -> String {
    match kind {
        "command_substitution" => "in `$(…)` or backticks, which would change it".to_owned(),
        "process_substitution" => "in `<(…)`".to_owned(),
        "expansion" | "simple_expansion" => "in `${…}`".to_owned(),
        "comment" => "in a comment".to_owned(),
        "command_name" => "as the name of the command".to_owned(),
        "ansi_c_string" => "in `$'…'`".to_owned(),
        "translated_string" => "in `$\"…\"`".to_owned(),
        "file_redirect" => "in a file name".to_owned(),
        "ERROR" => "here, because this cannot be parsed as bash".to_owned(),
        other => format!("here (in a {})", other.replace('_', " ")),
    }
}

/// Commands that pass their words or their input to a shell.
const EVALUATORS: [&str; 6] = ["eval", "ssh", "su", "watch", "parallel", "trap"];
/// Commands that run the command given as their arguments.
const WRAPPERS: [&str; 12] =
    ["sudo", "doas", "env", "timeout", "nice", "nohup", "exec", "command", "stdbuf", "setsid", "docker", "kubectl"];

/// Rejects a prompt that a shell would read a second time: as the code of `-c`, by `eval`, or on the standard input of a
/// shell, which any part of the line may reach.
fn nested_shell(script: &Script, range: &Range<usize>) -> Result<(), String> {
    let holds = |held: &Range<usize>| held.start <= range.start && range.end <= held.end;
    for command in script.of_kind("command") {
        let words = script.words(command);
        let name = |i: usize| words.get(i).and_then(|w| w.text.rsplit('/').next()).unwrap_or_default();
        let wrapped = WRAPPERS.contains(&canonical(name(0)));
        let candidates = || 0..if wrapped { words.len() } else { 1 };
        if let Some(i) = candidates().find(|i| EVALUATORS.contains(&name(*i)))
            && (holds(&command.byte_range())
                || command.parent().is_some_and(|p| is_redirected(p) && holds(&p.byte_range())))
        {
            return Err(format!("in text that `{}` evaluates", name(i)));
        }
        // Shells evaluate the text they are given as code.
        for shell in (0..words.len()).filter(|i| SHELLS.contains(&name(*i)) || name(*i) == "fish") {
            match code(&words[shell + 1..]) {
                Code::Word(word) if holds(&word.range) => {
                    return Err(format!("in the code of `{} -c`; pass it as an argument", name(shell)));
                }
                Code::Input if candidates().contains(&shell) => {
                    return Err(format!("on a line that is connected to the standard input of `{}`", name(shell)));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

fn is_redirected(node: Node<'_>) -> bool {
    node.kind() == "redirected_statement"
}

/// Where a shell's code comes from.
enum Code<'w> {
    Word(&'w Word),
    File,
    Input,
}

fn code(args: &[Word]) -> Code<'_> {
    let mut args = args.iter();
    let (mut inline, mut input) = (false, false);
    while let Some(word) = args.next() {
        match word.text.strip_prefix(['-', '+']) {
            Some(long) if long.starts_with('-') => {}
            Some(flags) if !flags.is_empty() => {
                inline |= flags.contains('c');
                input |= flags.contains('s');
                if flags.ends_with(['o', 'O']) {
                    args.next();
                }
            }
            _ if inline => return Code::Word(word),
            _ if input => return Code::Input,
            _ => return Code::File,
        }
    }
    Code::Input
}
