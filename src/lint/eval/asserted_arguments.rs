//! Arguments that an assertion requires and no call has.

use serde_json::{Map, Value};

use crate::{
    ascii::{Ascii, ascii},
    check::UNEXPANDED_HOLE,
    decode::{INVALID_VALUE, UNKNOWN_FIELD, WRONG_TYPE},
    diagnostic::{Diagnostic, Diagnostics, Strength, nearest},
    dialect::{
        eval::{ALWAYS_TRUE_ASSERTION, INVALID_ASSERTION},
        steps::looks_like_holes,
    },
    hir::{AssertionKind, CallKind, CallMatcher, CallStatus, Name},
    lint::EvalView,
    lock::LockedTool,
    signature::{Fault, FaultKind},
    source::Span,
};

const LOCKED: &str = "according to its schema in `gevals.lock`";
const LITERAL: &str = "`argumentsMatch` compares values literally, for equality";

/// Reports holes and patterns in `argumentsMatch`, which are compared literally, and arguments that the tool does not
/// accept, as far as the lock file shows.
pub fn check(view: &EvalView<'_>, out: &mut Diagnostics) {
    for item in view.eval.task_sets.iter().filter_map(|set| set.assertions.as_ref()).flat_map(|set| &set.items) {
        let (AssertionKind::AllUsed(kind, matchers)
        | AssertionKind::AnyUsed(kind, matchers)
        | AssertionKind::NoneUsed(kind, matchers)) = &item.kind
        else {
            continue;
        };
        matchers.iter().for_each(|matcher| arguments(view, *kind, matcher, out));
    }
}

fn arguments(view: &EvalView<'_>, kind: CallKind, matcher: &CallMatcher, out: &mut Diagnostics) {
    let Some(given) = &matcher.arguments else { return };
    let Some(fields) = given.value.as_object() else { return };
    if fields.is_empty() {
        out.push(
            Diagnostic::new(&ALWAYS_TRUE_ASSERTION, given.span, "`argumentsMatch` is empty: it matches any arguments")
                .strength(Strength::Warning)
                .help("list the arguments that the call must have, or remove the key"),
        );
    }
    let tools = meant(view, kind, matcher);
    for (name, place) in &matcher.argument_places {
        let Some(value) = fields.get(&name.value) else { continue };
        if let Some(hole) = hole(value) {
            out.push(
                Diagnostic::new(&UNEXPANDED_HOLE, *place, format!("`{hole}` is not filled in an assertion"))
                    .strength(Strength::Warning)
                    .here("no call has this argument value")
                    .help(format!("{LITERAL}: write the value, or check the effect of the call in `verify`")),
            );
            continue;
        }
        if let Some(finding) = unlike(view, name, *place, value, &tools) {
            out.push(finding);
        } else if let Some(what) = comparison(&name.value, value) {
            out.push(
                Diagnostic::new(&INVALID_ASSERTION, *place, format!("`argumentsMatch` does not support {what}"))
                    .strength(Strength::Warning)
                    .here("no call is likely to have exactly this value")
                    .help(LITERAL),
            );
        }
    }
}

/// Returns the locked tools that may match. A call that fails may have any arguments.
fn meant<'v>(view: &'v EvalView<'_>, kind: CallKind, matcher: &CallMatcher) -> Vec<(&'v str, &'v LockedTool)> {
    let fails = matcher.status.is_some_and(|status| status.value != CallStatus::Ok);
    let Some(tools) = view.unit.lock.tools(&matcher.server.value).filter(|_| kind == CallKind::Tool && !fails) else {
        return Vec::new();
    };
    let pattern = matcher.pattern.as_ref().map(|pattern| regex::Regex::new(&pattern.value));
    let is_meant = |tool: &str| match (&matcher.name, &pattern) {
        (None, None) => true,
        (name, pattern) => {
            name.as_ref().is_some_and(|name| name.value == tool)
                || pattern.as_ref().is_some_and(|pattern| pattern.as_ref().is_ok_and(|pattern| pattern.is_match(tool)))
        }
    };
    tools.iter().map(|(name, tool)| (name.as_str(), tool)).filter(|(name, _)| is_meant(name)).collect()
}

/// Reports an argument that none of the tools accepts, or not with this value.
fn unlike(
    view: &EvalView<'_>,
    name: &Name,
    place: Span,
    value: &Value,
    tools: &[(&str, &LockedTool)],
) -> Option<Diagnostic> {
    let faults: Option<Vec<Fault>> = tools.iter().map(|(_, tool)| fault(tool, &name.value, value)).collect();
    let fault = faults?.into_iter().next()?;
    let (tool, locked) = tools.first()?;
    let key = &name.value;
    Some(match fault.kind {
        FaultKind::Unknown(_) | FaultKind::Missing(_) if fault.at.is_empty() => {
            let message = match tools {
                [_] => format!("the tool `{tool}` has no argument `{key}`: no call matches"),
                _ => format!("no matching tool has an argument `{key}`: no call matches"),
            };
            let known: Vec<&str> = properties(locked).into_iter().flat_map(Map::keys).map(String::as_str).collect();
            let finding = Diagnostic::new(&UNKNOWN_FIELD, name.span, message);
            match nearest(key, known.iter().copied()) {
                Some(near) => {
                    finding.here(format!("did you mean `{near}`?")).fix(format!("write `{near}`"), name.span, near)
                }
                None if known.is_empty() => {
                    finding.help("it has no arguments, according to its schema in `gevals.lock`")
                }
                None => finding.help(format!(
                    "its arguments are {}, according to its schema in `gevals.lock`",
                    known.iter().map(|known| format!("`{known}`")).collect::<Vec<_>>().join(", ")
                )),
            }
        }
        FaultKind::Type(demand) => {
            let finding =
                Diagnostic::new(&WRONG_TYPE, place, format!("`{key}` {demand}: no call matches")).help(LOCKED);
            let source = view.sources.get(place.file);
            let written = source.slice(place);
            let mended = match value {
                Value::String(text) => Some((text.clone(), serde_json::from_str::<Value>(text).ok())),
                Value::Number(_) | Value::Bool(_) => Some((format!("{written:?}"), Some(Value::from(written)))),
                _ => None,
            };
            match mended {
                Some((text, Some(other))) if tools.iter().all(|(_, tool)| self::fault(tool, key, &other).is_none()) => {
                    finding.fix(format!("write `{text}`"), place, text)
                }
                _ => finding,
            }
        }
        kind => {
            let at = fault.at.split('/').skip(2).map(|token| format!(".{token}")).collect::<String>();
            Diagnostic::new(&INVALID_VALUE, place, format!("`{key}{at}` {kind}: no call matches")).help(LOCKED)
        }
    })
}

/// Returns the violation of a tool's schema by one of its arguments.
fn fault(tool: &LockedTool, key: &str, value: &Value) -> Option<Fault> {
    let schema = tool.input_schema.json();
    let open =
        ["patternProperties", "$ref", "allOf", "anyOf", "oneOf", "if"].iter().any(|key| schema.get(key).is_some())
            || schema.get("additionalProperties").is_some_and(|more| *more != Value::Bool(false));
    if let Some(known) = properties(tool).filter(|known| !open && !known.contains_key(key)) {
        // A schema without any properties may be incomplete.
        return (!known.is_empty() || schema.get("additionalProperties").is_some())
            .then(|| Fault { at: String::new(), kind: FaultKind::Unknown(key.to_owned()) });
    }
    let whole = Value::Object([(key.to_owned(), value.clone())].into_iter().collect());
    let at = format!("/{}", key.replace('~', "~0").replace('/', "~1"));
    let below = |fault: &Fault| fault.at.strip_prefix(&at).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    tool.input_schema.faults(&whole, &[]).into_iter().find(below)
}

fn properties(tool: &LockedTool) -> Option<&Map<String, Value>> {
    tool.input_schema.json().get("properties")?.as_object()
}

/// Returns a hole in a string, or the whole string if it is a variable.
fn hole(value: &Value) -> Option<&str> {
    match value {
        Value::String(text) => match VARIABLE.is_match(text) {
            true => Some(text),
            false => looks_like_holes(text).next().map(|(range, _)| &text[range]),
        },
        Value::Array(items) => items.iter().find_map(hole),
        Value::Object(fields) => fields.values().find_map(hole),
        _ => None,
    }
}

static VARIABLE: Ascii = ascii(r"^\$\{[A-Z_][A-Z0-9_]*\}$");

/// Returns what the author probably expects `argumentsMatch` to support: patterns, or the matchers of `expect`. An
/// argument may itself be a pattern.
fn comparison(name: &str, value: &Value) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    if ["pattern", "reg", "query", "search", "filter", "match", "glob", "expr", "grep", "path"]
        .iter()
        .any(|word| name.contains(word))
    {
        return None;
    }
    match value {
        Value::String(text) => {
            let whole = text.len() > 2 && text.starts_with('^') && text.ends_with('$');
            (whole || text.ends_with(".*") || text.starts_with(".*")).then_some("patterns")
        }
        Value::Object(fields) => {
            let demands = ["equals", "contains", "matches", "match", "regex", "startsWith", "endsWith", "oneOf"];
            let all = !fields.is_empty() && fields.keys().all(|key| demands.contains(&key.as_str()));
            all.then_some("conditions such as `contains`")
        }
        _ => None,
    }
}
