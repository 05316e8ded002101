//! Checks valid evals: the list as a whole, and each against the tools of its server.

use std::collections::HashMap;

use serde_json::Value;

use super::{Document, EVAL_ID, Eval, ExactMatch, Expected, Input, SAME_EVAL_TWICE, Tools};
use crate::{
    decode::{INVALID_VALUE, MISSING_FIELD, SECRET_IN_CLEAR, UNKNOWN_FIELD, UNKNOWN_TOOL, WRONG_TYPE, quote},
    diagnostic::{Diagnostic, Diagnostics, Strength, nearest},
    hir::Name,
    secrets::{is_secret_name, looks_drawn, password, tokens},
    signature::{FaultKind, Schema},
    source::Span,
    ty::canonical,
    yaml::{Data, Node},
};

/// Checks the evals of all documents as one list. Without `tools`, the tools that they name are not checked.
pub fn check(documents: &[Document], tools: Option<&Tools>, out: &mut Diagnostics) {
    let mut ids: HashMap<&str, Span> = HashMap::new();
    let mut asked: HashMap<String, &Eval> = HashMap::new();
    for document in documents {
        for eval in &document.evals {
            let first = *ids.entry(&eval.id.value).or_insert(eval.id.span);
            if first != eval.id.span {
                let message = format!("duplicate id `{}`", eval.id.value);
                out.push(
                    Diagnostic::new(&EVAL_ID, eval.id.span, message)
                        .label(first, "first used here")
                        .help("clients identify an eval by its id, so ids must be unique"),
                );
            }
            let first = *asked.entry(question(eval)).or_insert(eval);
            if first.id.value != eval.id.value {
                out.push(again(first, eval));
            }
            if let Some(tools) = tools {
                against(document, eval, tools, out);
            }
        }
        secrets(document.tree.root(), None, out);
    }
}

/// What an eval asks, normalized for what does not matter to a model: case, spaces, punctuation.
fn question(eval: &Eval) -> String {
    let level = eval.level();
    match &eval.input {
        Input::Execution { tool, arguments } => {
            format!("{level} {} {}", tool.value, String::from_utf8_lossy(&canonical::canonical(&arguments.value)))
        }
        input => {
            let mut said = level.to_string();
            for message in input.messages() {
                said += if message.content.iter().all(|block| block.get("text").is_some()) { "\n" } else { "\n\0" };
                said += message.role.name();
                let others = message.content.iter().filter(|block| block.get("text").is_none());
                said.extend(others.map(ToString::to_string));
                let text = message.text();
                let marks = |c: char| matches!(c, '.' | ',' | ';' | ':' | '!' | '?');
                for word in text.split_whitespace().map(|word| word.trim_end_matches(marks)) {
                    said.push(' ');
                    said += &word.to_lowercase();
                }
            }
            said
        }
    }
}

fn again(first: &Eval, eval: &Eval) -> Diagnostic {
    let same = first.json.get("expected") == eval.json.get("expected");
    let message = format!("`{}` has the same input as `{}`", eval.id.value, first.id.value);
    let diagnostic = Diagnostic::new(&SAME_EVAL_TWICE, eval.id.span, message).label(first.id.span, "first used here");
    diagnostic.help(match same {
        true => "it costs a run and tests nothing new: remove one, or change its input",
        false => "the expected results differ: if one passes, the other may fail; combine them into one eval",
    })
}

/// Checks the tools that an eval names, and their arguments.
fn against(document: &Document, eval: &Eval, tools: &Tools, out: &mut Diagnostics) {
    if let Input::Execution { tool, arguments } = &eval.input
        && let Some(schema) = known(tool, tools, out)
        && !expects_error(&eval.expected)
        && let Some(node) = document.node(arguments.span)
    {
        // The rubric may say that a wrong call must be refused.
        let strength = matches!(eval.expected, Expected::LlmAsJudge { .. }).then_some(Strength::Warning);
        conforms(node, schema, tools, false, strength, out);
    }
    if let (Input::Invocation { .. }, Expected::ExactMatch(ExactMatch { tool: Some(tool), arguments, .. })) =
        (&eval.input, &eval.expected)
        && let Some(schema) = known(tool, tools, out)
        && let Some(node) = arguments.as_ref().and_then(|arguments| document.node(arguments.span))
    {
        conforms(node, schema, tools, true, None, out);
    }
}

fn expects_error(expected: &Expected) -> bool {
    let Expected::ExactMatch(expected) = expected else { return false };
    expected.content.as_ref().is_some_and(|content| content.value.get("isError") == Some(&Value::Bool(true)))
}

fn known<'a>(tool: &Name, tools: &'a Tools, out: &mut Diagnostics) -> Option<&'a Schema> {
    if let Some(schema) = tools.schemas.get(&tool.value) {
        return Some(schema);
    }
    let names = tools.schemas.keys().map(String::as_str);
    let message = format!("the server `{}` has no tool `{}`", tools.server, tool.value);
    let diagnostic = Diagnostic::new(&UNKNOWN_TOOL, tool.span, message);
    out.push(match nearest(&tool.value, names.clone()) {
        Some(near) => {
            diagnostic.here(format!("did you mean `{near}`?")).fix(format!("write `{near}`"), tool.span, near)
        }
        None => {
            let names: Vec<_> = names.take(12).map(|name| format!("`{name}`")).collect();
            diagnostic.help(if names.is_empty() {
                "it has none".to_owned()
            } else {
                format!("it has {}", names.join(", "))
            })
        }
    });
    None
}

/// Checks arguments against the schema of their tool; if `partial`, reports only what is wrong regardless of the other
/// arguments.
fn conforms(
    arguments: Node<'_>,
    schema: &Schema,
    tools: &Tools,
    partial: bool,
    strength: Option<Strength>,
    out: &mut Diagnostics,
) {
    let faults = schema.faults(&arguments.to_json(), &[]);
    // A missing key that is present in a misspelled form is one fault.
    let misspelt = |at: &str, key: &str| {
        faults.iter().any(|f| f.at == at && matches!(&f.kind, FaultKind::Unknown(k) if nearest(k, [key]).is_some()))
    };
    for fault in &faults {
        let whole = fault.at.is_empty();
        if partial && whole && !matches!(fault.kind, FaultKind::Unknown(_)) {
            continue;
        }
        let (place, name) = below(arguments, &fault.at);
        let subject = name.unwrap_or_else(|| "`arguments`".to_owned());
        let diagnostic = match &fault.kind {
            FaultKind::Missing(key) if misspelt(&fault.at, key) => continue,
            FaultKind::Missing(key) => {
                Diagnostic::new(&MISSING_FIELD, place.span(), format!("{subject} has no `{key}`"))
            }
            FaultKind::Unknown(key) => {
                let span = place.entry(key).map_or(place.span(), |entry| entry.key.span());
                let diagnostic = Diagnostic::new(&UNKNOWN_FIELD, span, format!("unknown key `{key}` in {subject}"));
                let known = schema.json().get("properties").and_then(Value::as_object).filter(|_| whole);
                match known.and_then(|known| nearest(key, known.keys().map(String::as_str))) {
                    Some(near) => diagnostic.here(format!("did you mean `{near}`?")).fix(
                        format!("write `{near}`"),
                        span,
                        flow_key(near),
                    ),
                    None => diagnostic,
                }
            }
            FaultKind::Type(demand) => Diagnostic::new(&WRONG_TYPE, place.span(), format!("{subject} {demand}")),
            FaultKind::Value(demand) => Diagnostic::new(&INVALID_VALUE, place.span(), format!("{subject} {demand}")),
        };
        let diagnostic = diagnostic.help(tools.says.clone());
        out.push(match strength {
            Some(strength) => diagnostic.strength(strength),
            None => diagnostic,
        });
    }
}

/// A key, quoted if needed to be valid in any mapping.
fn flow_key(key: &str) -> String {
    let plain = key.starts_with(|c: char| c.is_ascii_alphabetic())
        && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if plain { key.to_owned() } else { quote(key) }
}

/// The node at a JSON pointer, and its name in messages.
fn below<'t>(node: Node<'t>, pointer: &str) -> (Node<'t>, Option<String>) {
    let (mut place, mut name) = (node, None);
    for token in pointer.split('/').skip(1) {
        let token = token.replace("~1", "/").replace("~0", "~");
        let next = match place.data() {
            Data::Seq => token.parse().ok().and_then(|index: usize| place.items().nth(index)),
            _ => place.get(&token),
        };
        let Some(next) = next else { break };
        place = next;
        name = Some(match (name, place.data()) {
            (Some(name), _) if token.bytes().all(|b| b.is_ascii_digit()) => format!("{name}[{token}]"),
            (Some(name), _) => format!("{name}.{token}"),
            (None, _) => token,
        });
    }
    (place, name.map(|name| format!("`{name}`")))
}

/// Reports secrets in fixtures: every client of the server gets them. The value is never shown.
fn secrets(node: Node<'_>, key: Option<&str>, out: &mut Diagnostics) {
    const HELP: &str = "every client of the server receives this value: use a dummy value";
    match node.data() {
        Data::Map => node.entries().for_each(|entry| secrets(entry.value, Some(entry.name), out)),
        Data::Seq => node.items().for_each(|item| secrets(item, key, out)),
        Data::Str(text) => {
            let named = key.filter(|key| is_secret_name(key) && looks_drawn(text));
            let message = match named {
                Some(key) => format!("the value of `{key}` looks like a hardcoded secret"),
                None if tokens(text).next().is_some() || password(text).is_some() => {
                    "this looks like a hardcoded secret".to_owned()
                }
                None => return,
            };
            out.push(Diagnostic::new(&SECRET_IN_CLEAR, node.span().head(), message).help(HELP));
        }
        _ => {}
    }
}
