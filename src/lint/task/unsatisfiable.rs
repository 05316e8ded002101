//! Expectations that nothing can meet.

use serde_json::Value;

use crate::{
    builtin::expect::JsonType,
    diagnostic::{Diagnostic, Diagnostics, Strength},
    hir::{Arg, ArgKind, AssertionKind, CallKind, CallMatcher, Def, Dialect, Name, OperationKind, PhaseKind},
    lint::{
        EvalView, TaskView,
        analysis::{
            expected::{absent_paths, read_paths},
            pattern::{Names, Texts, matches_all, matches_none},
        },
    },
    rule,
    source::Span,
};

rule! {
    pub static UNSATISFIABLE_EXPECTATION = "unsatisfiable-expectation", Verdict;
    pub static IMPOSSIBLE_TOOL_NAME = "impossible-tool-name", Verdict;
}

/// Contradictory expectations, patterns that match no text, impossible exit statuses and response statuses.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    let dialect = view.task.dialect;
    view.task.walk(&mut |_, step| {
        let Some((_, expect)) = step.expect.as_ref().filter(|(_, expect)| !view.has_unread(expect.span)) else {
            return;
        };
        if let Some(code) = expect.get("exitCode")
            && let ArgKind::Int(n) = code.kind
            && !(0..=255).contains(&n)
        {
            out.push(
                never(code.span, format!("a process cannot exit with status {n}"))
                    .help("an exit status is between 0 and 255"),
            );
        }
        if let (Some(status), OperationKind::Builtin("http"), Dialect::Steps) =
            (expect.get("status"), &step.op.kind, dialect)
            && let ArgKind::Int(n @ 1..=99) = status.kind
        {
            out.push(
                never(status.span, format!("a response cannot have status {n}"))
                    .help("a status is between 100 and 599"),
            );
        }
        if dialect == Dialect::Steps {
            rooted(expect, out);
        }
        record(expect, "", dialect, out);
    });
    there_and_not(view, out);
}

/// `{path: $.state}` in `fields`: the paths of the steps dialect consist of keys, and no key is called `$`.
fn rooted(expect: &Arg<Def>, out: &mut Diagnostics) {
    match &expect.kind {
        ArgKind::Record(fields) => fields.iter().for_each(|(_, inner)| rooted(inner, out)),
        ArgKind::List(items) => {
            for item in items {
                let path = item.get("path").and_then(|path| Some((path.span, path.as_literal()?)));
                let Some((span, path)) = path.filter(|(_, path)| path.starts_with("$.") || path.starts_with("$["))
                else {
                    continue;
                };
                let keys = path.trim_start_matches('$').trim_start_matches('.');
                out.push(
                    never(span, format!("`{path}` never exists: in this dialect, a path does not begin with `$`"))
                        .help(format!("write `{keys}`")),
                );
            }
        }
        _ => {}
    }
}

/// Two verify steps, one of which requires a file that the other forbids.
fn there_and_not(view: &TaskView<'_>, out: &mut Diagnostics) {
    let absent = absent_paths(view);
    if absent.is_empty() {
        return;
    }
    let steps = view.effects.in_phase(PhaseKind::Verify).filter(|act| act.span == act.step && !act.maybe);
    let sure: Vec<Span> = steps.map(|act| act.span).collect();
    let there = read_paths(view);
    let mut told: Vec<Span> = Vec::new();
    for (span, path) in there.iter().filter(|(span, _)| sure.contains(span)) {
        let other = absent.iter().find(|(other, known)| known == path && sure.contains(other));
        if let Some((other, _)) = other.filter(|_| !told.contains(span)) {
            told.push(*span);
            out.push(
                never(*span, format!("`{path}` must both exist and not exist: verify never passes"))
                    .label(*other, "it must not exist here")
                    .help("use the intended file in each place"),
            );
        }
    }
}

/// Checks the expectations under `key`.
fn record(arg: &Arg<Def>, key: &str, dialect: Dialect, out: &mut Diagnostics) {
    match &arg.kind {
        ArgKind::List(items) => {
            below_nothing(items, out);
            items.iter().for_each(|item| record(item, key, dialect, out));
        }
        ArgKind::Record(fields) => {
            absent(fields, out);
            bounds(arg, out);
            if let Some(not) = arg.get("not") {
                refused(arg, not, out);
            }
            let output = matches!(key, "stdout" | "stderr");
            let pattern = arg.get("matches").or(arg.get("match"));
            if let Some((pattern, text)) = pattern.and_then(|p| Some((p, p.as_literal()?)))
                && matches_none(text, output)
            {
                out.push(
                    never(pattern.span, "this pattern cannot match any text".to_owned())
                        .help("`^` matches the start of the text and `$` its end: add `(?m)` to match at each line"),
                );
            } else {
                together(arg, pattern, key, dialect, out);
            }
            for (name, value) in fields.iter().filter(|(name, _)| name.value == "structuredContent") {
                taken_literally(name, value, out);
            }
            // Literal values contain no expectations.
            let value = |name: &Name| matches!(name.value.as_str(), "equals" | "structuredContent" | "not" | "oneOf");
            let demands = fields.iter().filter(|(name, _)| dialect != Dialect::Portable || !value(name));
            demands.for_each(|(name, inner)| record(inner, &name.value, dialect, out));
        }
        _ => {}
    }
}

/// `structuredContent: {json: {path: …}}`: matchers, where the whole value is expected.
fn taken_literally(name: &Name, value: &Arg<Def>, out: &mut Diagnostics) {
    let ArgKind::Record(fields) = &value.kind else { return };
    let [(json, conditions)] = fields.as_slice() else { return };
    let has_path = match &conditions.kind {
        ArgKind::List(items) => items.iter().any(|item| item.get("path").is_some()),
        _ => conditions.get("path").is_some(),
    };
    if json.value == "json" && has_path {
        let message = "`structuredContent` is compared as a whole: `json` is a key of the expected value here";
        out.push(
            never(json.span, message.to_owned())
                .label(name.span, "the whole structured content")
                .help("write `content: {json: …}` for conditions on the JSON of the result, or the whole value")
                .strength(Strength::Warning),
        );
    }
}

/// Expectations for a value that must not exist.
fn absent(fields: &[(Name, Arg<Def>)], out: &mut Diagnostics) {
    let is_absent =
        |(name, arg): &&(Name, Arg<Def>)| name.value == "exists" && matches!(arg.kind, ArgKind::Bool(false));
    let Some((exists, _)) = fields.iter().find(is_absent) else { return };
    let other = fields.iter().find(|(name, arg)| {
        let demands = matches!(
            name.value.as_str(),
            "equals"
                | "type"
                | "matches"
                | "match"
                | "contains"
                | "mode"
                | "oneOf"
                | "empty"
                | "lines"
                | "length"
                | "atLeast"
                | "atMost"
                | "above"
                | "below"
                | "sorted"
                | "all"
                | "any"
                | "not"
        );
        demands && !matches!(arg.kind, ArgKind::Null)
    });
    if let Some((other, _)) = other {
        let message = format!("a missing value cannot have `{}`", other.value);
        out.push(
            never(other.span, message)
                .label(exists.span, "the value must not exist")
                .help(format!("remove `{}`, or `exists: false`", other.value)),
        );
    }
}

/// `{path: items[0], exists: false}` together with `{path: items[0].text, equals: x}`.
fn below_nothing(items: &[Arg<Def>], out: &mut Diagnostics) {
    let path = |item: &Arg<Def>| item.get("path").and_then(Arg::as_literal).map(str::to_owned);
    let is_absent = |item: &Arg<Def>| {
        let exists = item.get("exists").filter(|exists| matches!(exists.kind, ArgKind::Bool(false)))?;
        path(item).map(|path| (exists.span, path))
    };
    for (item, (span, absent)) in items.iter().filter_map(|item| Some((item, is_absent(item)?))) {
        // A missing value meets all other expectations here.
        let demands = |item: &Arg<Def>| {
            let ArgKind::Record(fields) = &item.kind else { return false };
            fields.iter().any(|(key, arg)| match key.value.as_str() {
                "equals" | "matches" | "match" | "contains" | "type" | "above" | "below" | "atLeast" | "atMost" => {
                    !matches!(arg.kind, ArgKind::Null)
                }
                "exists" => matches!(arg.kind, ArgKind::Bool(true)),
                _ => false,
            })
        };
        let others = items.iter().filter(|other| !std::ptr::eq(*other, item) && demands(other));
        let other = others.into_iter().find_map(|item| {
            let path = path(item)?;
            let behind = path.strip_prefix(&absent)?;
            (behind.is_empty() || behind.starts_with(['.', '['])).then_some((item.span, path))
        });
        if let Some((other, path)) = other {
            out.push(
                never(span, format!("`{absent}` must not exist, but `{path}` must exist"))
                    .label(other, "this is required here")
                    .help("remove one of the two, or correct the path"),
            );
        }
    }
}

/// Bounds without a number in between, and an output that must be empty and not empty.
fn bounds(arg: &Arg<Def>, out: &mut Diagnostics) {
    let number = |key: &str| {
        let bound = arg.get(key)?;
        let text =
            bound.as_literal().map(str::to_owned).or_else(|| Some(bound.as_value()?.as_number()?.to_string()))?;
        Some((bound, text))
    };
    for (low, high, may_meet) in [
        ("atLeast", "atMost", true),
        ("atLeast", "below", false),
        ("above", "atMost", false),
        ("above", "below", false),
    ] {
        let (Some((low, least)), Some((high, most))) = (number(low), number(high)) else { continue };
        let Some(order) = crate::ty::number::compare(&least, &most) else { continue };
        if order.is_gt() || order.is_eq() && !may_meet {
            out.push(exclude(high, low, "no number is in this range"));
        }
    }
    if let Some(empty) = arg.get("empty").filter(|empty| matches!(empty.kind, ArgKind::Bool(true))) {
        let holds = ["contains", "atLeast", "atMost", "above", "below"].into_iter().find_map(|key| arg.get(key));
        if let Some(other) = holds {
            out.push(exclude(other, empty, "an empty text cannot match this"));
        }
    }
}

/// Expectations that are both required and negated, and negations that no text can meet.
fn refused(arg: &Arg<Def>, not: &Arg<Def>, out: &mut Diagnostics) {
    if let (Some(equals), Some(value)) = (arg.get("equals"), arg.get("equals").and_then(Arg::as_value)) {
        let other = if matches!(not.kind, ArgKind::Text(_)) { Some(not) } else { not.get("equals") };
        if let Some(other) = other.filter(|other| other.as_value().as_ref() == Some(&value)) {
            out.push(exclude(other, equals, "this is required here"));
        }
    }
    for key in ["contains", "matches"] {
        let (Some(wanted), Some(other)) = (arg.get(key), not.get(key)) else { continue };
        if wanted.as_literal().is_some() && wanted.as_literal() == other.as_literal() {
            out.push(exclude(other, wanted, "this is required here"));
        }
    }
    if let Some(part) = not.get("contains").filter(|part| part.as_literal() == Some("")) {
        out.push(never(part.span, "every text contains the empty text".to_owned()).help("write `empty: false`"));
    }
    if let Some(pattern) = not.get("matches")
        && pattern.as_literal().is_some_and(|text| matches_all(text, Texts::Lines))
    {
        out.push(
            never(pattern.span, "this pattern matches every text".to_owned())
                .help("write a pattern for what must not be present"),
        );
    }
}

/// Contradictory literal expectations.
fn together(arg: &Arg<Def>, pattern: Option<&Arg<Def>>, key: &str, dialect: Dialect, out: &mut Diagnostics) {
    let Some(equals) = arg.get("equals") else {
        if let (Some(pattern), Some(ty)) = (pattern, arg.get("type"))
            && ty.as_literal().is_some_and(|ty| ty != "string")
        {
            out.push(exclude(ty, pattern, "only a string can match a pattern"));
        }
        return;
    };
    let Some(value) = equals.as_value() else { return };
    // The steps dialect compares values as text.
    if let (Some(ty), Dialect::Portable) = (arg.get("type"), dialect)
        && ty.as_literal().is_some_and(|ty| ty != JsonType::of(&value).name())
    {
        out.push(exclude(ty, equals, &format!("the type of this value is {}", JsonType::of(&value).name())));
    }
    let Value::String(text) = &value else {
        if let (Some(pattern), Dialect::Portable) = (pattern, dialect) {
            out.push(exclude(pattern, equals, "only a string can match a pattern"));
        }
        return;
    };
    let text = if matches!(key, "stdout" | "stderr") { text.trim_end_matches('\n') } else { text.as_str() };
    if let Some(part) = arg.get("contains")
        && part.as_literal().is_some_and(|part| !text.contains(part))
    {
        out.push(exclude(part, equals, "this does not contain it"));
    }
    if let Some(pattern) = pattern
        && pattern.as_literal().and_then(|p| regex::Regex::new(p).ok()).is_some_and(|p| !p.is_match(text))
    {
        out.push(exclude(pattern, equals, "this does not match"));
    }
}

fn exclude(one: &Arg<Def>, other: &Arg<Def>, why: &str) -> Diagnostic {
    never(one.span, "no value can meet both of these expectations".to_owned())
        .label(other.span, why)
        .help("remove one of the two")
}

fn never(span: Span, message: String) -> Diagnostic {
    Diagnostic::new(&UNSATISFIABLE_EXPECTATION, span, message)
}

/// Names and patterns of tools that no server can offer (*Tool Names* of MCP: letters, digits, `_`, `-`, `.`, `/`), and
/// names with the prefix of an agent's client.
pub fn tool_names(view: &EvalView<'_>, out: &mut Diagnostics) {
    for server in view.unit.mcp.iter().flat_map(|mcp| &mcp.servers) {
        for tool in server.always_allow.iter().filter(|tool| tool.value.contains('*')) {
            let message = format!("`alwaysAllow` does not support patterns: no tool is named `{}`", tool.value);
            let finding = Diagnostic::new(&IMPOSSIBLE_TOOL_NAME, tool.span, message);
            out.push(finding.help(match tool.value.as_str() {
                "*" => "use `enableAllTools: true` instead",
                _ => "list the names of the tools, or set `enableAllTools: true`",
            }));
        }
    }
    let sets = view.eval.task_sets.iter().filter_map(|set| set.assertions.as_ref());
    for item in sets.flat_map(|set| &set.items) {
        match &item.kind {
            AssertionKind::AllUsed(CallKind::Tool, list)
            | AssertionKind::AnyUsed(CallKind::Tool, list)
            | AssertionKind::NoneUsed(CallKind::Tool, list) => {
                for CallMatcher { server, name, pattern, .. } in list {
                    name.iter().for_each(|name| legal(view, server, name, false, out));
                    pattern.iter().for_each(|pattern| legal(view, server, pattern, true, out));
                }
            }
            AssertionKind::CallOrder(calls) => {
                let tools = calls.iter().filter(|call| call.kind == CallKind::Tool);
                tools.for_each(|call| legal(view, &call.server, &call.name, false, out));
            }
            _ => {}
        }
    }
}

fn legal(view: &EvalView<'_>, server: &Name, name: &Name, is_pattern: bool, out: &mut Diagnostics) {
    // If the lock lists the server's tools, other rules check the names.
    if view.unit.lock.tools(&server.value).is_some() {
        return;
    }
    let text = name.value.as_str();
    let bare = if is_pattern { text.trim_start_matches("\\A").trim_start_matches('^') } else { text };
    let (what, why) =
        if is_pattern { ("pattern", "no tool matches this pattern") } else { ("name", "no tool has this name") };
    let diagnostic = |message: String| Diagnostic::new(&IMPOSSIBLE_TOOL_NAME, name.span, message);
    if let Some(rest) = bare.strip_prefix("mcp__") {
        let prefix = format!("{}__", server.value);
        let own = rest.strip_prefix(&prefix).filter(|own| !own.is_empty());
        let diagnostic = diagnostic(format!("this {what} has a client's prefix: servers do not use `mcp__`"))
            .help("use the name that the server gives the tool");
        out.push(match own {
            Some(own) if !is_pattern => diagnostic.here(format!("the server's name for it is `{own}`")),
            _ => diagnostic,
        });
    } else if is_pattern && Names::none_matches(text)
        || !is_pattern && !text.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c))
    {
        out.push(diagnostic(why.to_owned()).help("tool names contain only letters, digits, `_`, `-`, `.` and `/`"));
    }
}
