//! Semantic tokens for holes and embedded shell scripts. Editors highlight YAML themselves.

use std::ops::Range;

use serde_json::{Value, json};

use super::{
    reading::{Reading, steps},
    scripts::{self, Inline},
    text::Lines,
};
use crate::{
    bash::{self, BUILTINS},
    dialect::FileKind,
    effects::script::{self, Reader},
    hir::{Arg, Dialect, Hole, Name},
    source::Span,
    template::{self, Path},
    yaml::Node,
};

/// The kinds of tokens. The protocol uses their indexes in this list.
const KINDS: [&str; 9] =
    ["operator", "variable", "property", "function", "string", "number", "keyword", "comment", "parameter"];
/// The only modifier, for what the language itself defines.
const MODIFIERS: [&str; 1] = ["defaultLibrary"];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Operator,
    Variable,
    Property,
    Function,
    String,
    Number,
    Keyword,
    Comment,
    Parameter,
}

/// A range of the file and its kind.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Token {
    range: Range<usize>,
    kind: Kind,
    /// Whether the language itself defines it.
    own: bool,
}

/// The legend of the tokens.
pub fn legend() -> Value {
    json!({ "tokenTypes": KINDS, "tokenModifiers": MODIFIERS })
}

/// The tokens of a text, as the protocol encodes them: five numbers each, with positions relative to the previous
/// token.
pub fn of(text: &str, reading: &Reading, lines: &Lines<'_>) -> Value {
    let mut found = Vec::new();
    if let Some(task) = reading.task() {
        for step in steps(task) {
            step.args
                .iter()
                .for_each(|arg| script_of(reading, task.dialect, &step.op.value, &step.args, arg, &mut found));
        }
        reading.holes().into_iter().for_each(|(span, written)| of_hole(text, span, written, &mut found));
    }
    if let (Some(FileKind::Oracle), Some(tree)) = (reading.kind, reading.tree()) {
        templates(tree.root(), &mut |hole| of_hole(text, hole.span, &hole.text, &mut found));
    }
    encode(text, found, lines)
}

fn encode(text: &str, mut tokens: Vec<Token>, lines: &Lines<'_>) -> Value {
    tokens.retain(|token| text.get(token.range.clone()).is_some_and(|text| !text.is_empty() && !text.contains('\n')));
    // A hole in a script is part of both: if two tokens start at the same byte, the shorter one wins.
    tokens.sort_by_key(|token| (token.range.start, token.range.end));
    let mut data: Vec<usize> = Vec::new();
    let (mut line, mut column, mut end) = (0, 0, 0);
    for token in tokens {
        if token.range.start < end {
            continue;
        }
        end = token.range.end;
        let (at, start) = lines.place(token.range.start);
        let length = lines.place(token.range.end).1 - start;
        let delta = if at == line { start - column } else { start };
        data.extend([at - line, delta, length, token.kind as usize, usize::from(token.own)]);
        (line, column) = (at, start);
    }
    json!({ "data": data })
}

/// Visits the holes of all texts below a node.
fn templates(node: Node<'_>, visit: &mut dyn FnMut(&Hole<Path>)) {
    if node.as_str().is_some() && !node.is_alias() {
        crate::decode::portable(node).holes().for_each(visit);
        return;
    }
    node.entries().for_each(|entry| templates(entry.value, visit));
    node.items().for_each(|item| templates(item, visit));
}

/// The tokens of a hole: braces, path and filters. A hole in an escaped or folded text has none.
fn of_hole(text: &str, span: Span, written: &str, out: &mut Vec<Token>) {
    let start = span.range().start;
    if text.get(span.range()) != Some(written) {
        return;
    }
    let mut push = |range: Range<usize>, kind, own| {
        out.push(Token { range: start + range.start..start + range.end, kind, own });
    };
    let scan = template::scan(written);
    let Some(inside) = scan.single_hole() else {
        // A hole of another dialect: `${NAME}`, `{source.field}`.
        push(0..written.len(), Kind::Variable, false);
        return;
    };
    push(0..1, Kind::Operator, false);
    push(inside.path.root.range.clone(), Kind::Variable, true);
    for segment in &inside.path.segments {
        push(segment.range.clone(), Kind::Property, false);
    }
    let mut end = inside.path.range().end;
    for filter in &inside.filters {
        if let Some(bar) = written[end..filter.range.start].find('|') {
            push(end + bar..end + bar + 1, Kind::Operator, false);
        }
        push(filter.name.range.clone(), Kind::Function, true);
        for arg in &filter.args {
            let kind = match arg.value {
                Value::String(_) => Kind::String,
                Value::Number(_) => Kind::Number,
                _ => Kind::Keyword,
            };
            push(arg.range.clone(), kind, false);
        }
        end = filter.range.end;
    }
    push(written.len() - 1..written.len(), Kind::Operator, false);
}

/// The tokens of an argument that is a shell script.
fn script_of(
    reading: &Reading,
    dialect: Dialect,
    operation: &str,
    args: &[(Name, Arg<Path>)],
    arg: &(Name, Arg<Path>),
    out: &mut Vec<Token>,
) {
    let Some(inline) = scripts::inline(reading, dialect, operation, args, arg) else { return };
    let Inline { written, holes, map, reader } = inline;
    if reader == Some(Reader::Foreign) {
        return;
    }
    let Some(parsed) = bash::parse(&script::masked(written, &holes)) else { return };
    for (range, kind, own) in runs(&paint(&parsed, written.len(), &holes), written) {
        out.push(Token { range: map.span(range).range(), kind, own });
    }
}

type Paint = Option<(Kind, bool)>;

/// The kind of each byte of a script. Inner nodes replace outer ones, and holes have no kind.
fn paint(script: &bash::Script, length: usize, holes: &[Range<usize>]) -> Vec<Paint> {
    let mut painted = vec![None; length];
    for node in script.nodes() {
        let kind = match node.kind() {
            "comment" => (Kind::Comment, false),
            "string" | "raw_string" | "ansi_c_string" | "translated_string" | "heredoc_body" | "heredoc_content" => {
                (Kind::String, false)
            }
            "heredoc_start" | "heredoc_end" => (Kind::Keyword, false),
            "number" | "file_descriptor" => (Kind::Number, false),
            "variable_name" | "special_variable_name" => (Kind::Variable, false),
            "command_name" => (Kind::Function, BUILTINS.contains(&script.text(node))),
            "function_definition" => continue,
            "word" if script.text(node).starts_with('-') => (Kind::Parameter, false),
            "$" | "${" | "$(" | "$((" | "))" | "|" | "||" | "&&" | "&" | ";;" | ">" | ">>" | "<" | "<<" | "<<-"
            | "<<<" | ">&" | "&>" | "|&" | "=" | "+=" | "==" | "!=" | "=~" => (Kind::Operator, false),
            "if" | "then" | "else" | "elif" | "fi" | "for" | "while" | "until" | "do" | "done" | "case" | "esac"
            | "function" | "select" | "in" | "[[" | "]]" | "[" | "]" | "!" | "export" | "local" | "declare"
            | "readonly" | "unset" => (Kind::Keyword, false),
            // An expansion inside of a string is not part of the string.
            "command_substitution" | "expansion" | "simple_expansion" => {
                painted.get_mut(node.byte_range()).into_iter().for_each(|bytes| bytes.fill(None));
                continue;
            }
            _ => continue,
        };
        painted.get_mut(node.byte_range()).into_iter().for_each(|bytes| bytes.fill(Some(kind)));
    }
    for hole in holes {
        painted.get_mut(hole.clone()).into_iter().for_each(|bytes| bytes.fill(None));
    }
    painted
}

/// The ranges of one kind, none of which crosses the end of a line.
fn runs(painted: &[Paint], text: &str) -> Vec<(Range<usize>, Kind, bool)> {
    let mut found = Vec::new();
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < painted.len() {
        let start = at;
        let paint = painted[start];
        at += 1;
        let Some((kind, own)) = paint.filter(|_| bytes[start] != b'\n') else { continue };
        while at < painted.len() && painted[at] == paint && bytes[at] != b'\n' {
            at += 1;
        }
        found.push((start..at, kind, own));
    }
    found
}
