//! Assertions over the calls an agent made (§5.5 of the upstream behaviour, `decisions.md` §7).

use indexmap::IndexMap;
use regex::Regex;
use serde_json::Value;

use crate::{
    event::{ActionReport, CallReport, Difference, Outcome},
    hir::{Assertion, AssertionKind, CallKind, CallMatcher, CallStatus, OrderedCall, SkillMatcher},
    source::Span,
    ty::number::same_value,
};

/// Judges one assertion; `calls` are in the order of their starts, `skills` the inputs of the agent's tool that reads one,
/// where the agent tells what it calls. `None`: there is nothing to judge (`noDuplicateCalls: false`, an empty list).
pub fn evaluate(assertion: &Assertion, calls: &[CallReport], skills: Option<&[Value]>) -> Option<ActionReport> {
    let key = assertion.key.value.as_str();
    let verdict = match &assertion.kind {
        AssertionKind::AllUsed(_, items) | AssertionKind::AnyUsed(_, items) | AssertionKind::NoneUsed(_, items)
            if items.is_empty() =>
        {
            return None;
        }
        AssertionKind::AllUsed(kind, items) => all_used(key, *kind, items, calls),
        AssertionKind::AnyUsed(kind, items) => any_used(key, *kind, items, assertion.span, calls),
        AssertionKind::NoneUsed(kind, items) => none_used(key, *kind, items, calls),
        AssertionKind::MinToolCalls(n) => {
            let made = tools(calls).count() as u64;
            let words = || (calls_made(made), format!("at least {}", tool_calls(*n)), tool_calls(made));
            demand(made >= *n, key, assertion.span, words)
        }
        AssertionKind::MaxToolCalls(n) => {
            let made = tools(calls).count() as u64;
            let words = || (calls_made(made), format!("at most {}", tool_calls(*n)), tool_calls(made));
            demand(made <= *n, key, assertion.span, words)
        }
        AssertionKind::CallOrder(order) if order.is_empty() => return None,
        AssertionKind::CallOrder(order) => call_order(key, order, calls),
        AssertionKind::NoDuplicateCalls(false) => return None,
        AssertionKind::NoDuplicateCalls(true) => no_duplicates(key, assertion.span, calls),
        AssertionKind::SkillsLoaded(items) | AssertionKind::SkillsNotLoaded(items) if items.is_empty() => return None,
        AssertionKind::SkillsLoaded(items) => skills_loaded(key, items, skills, true),
        AssertionKind::SkillsNotLoaded(items) => skills_loaded(key, items, skills, false),
    };
    Some(verdict.unwrap_or_else(|why| ActionReport::new(Outcome::Broken, why)))
}

type Judged = Result<ActionReport, String>;

fn all_used(key: &str, kind: CallKind, items: &[CallMatcher], calls: &[CallReport]) -> Judged {
    let mut report = ActionReport::new(Outcome::Passed, "");
    for item in items {
        if find(kind, item, calls)?.is_none() {
            let expected = format!("a call of {}", describe(kind, item));
            report.differences.push(difference(key, item.span, expected, made(kind, calls)));
        }
    }
    if let Some(first) = report.differences.first() {
        report.outcome = Outcome::Failed;
        report.message = format!("there was no {}", first.expected.trim_start_matches("a "));
    }
    Ok(report)
}

fn any_used(key: &str, kind: CallKind, items: &[CallMatcher], span: Span, calls: &[CallReport]) -> Judged {
    for item in items {
        if let Some(call) = find(kind, item, calls)? {
            return Ok(ActionReport::new(Outcome::Passed, format!("{} was called", name(call))));
        }
    }
    let wanted: Vec<_> = items.iter().map(|item| describe(kind, item)).collect();
    let mut report = ActionReport::new(Outcome::Failed, "none of them was called");
    report.differences.push(difference(key, span, format!("a call of {}", wanted.join(" or ")), made(kind, calls)));
    Ok(report)
}

fn none_used(key: &str, kind: CallKind, items: &[CallMatcher], calls: &[CallReport]) -> Judged {
    let mut report = ActionReport::new(Outcome::Passed, "");
    for item in items {
        if let Some(call) = find(kind, item, calls)? {
            let expected = format!("no call of {}", describe(kind, item));
            let arguments = call.params.get("arguments").map(|a| format!(" {a}")).unwrap_or_default();
            report.differences.push(difference(key, item.span, expected, format!("{}{arguments}", name(call))));
            report.outcome = Outcome::Failed;
            report.message = format!("{} was called", name(call));
        }
    }
    Ok(report)
}

fn call_order(key: &str, order: &[OrderedCall], calls: &[CallReport]) -> Judged {
    let mut next = 0;
    for call in calls {
        let Some(wanted) = order.get(next) else { break };
        if call.kind == wanted.kind && call.server == wanted.server.value && call.name == wanted.name.value {
            next += 1;
        }
    }
    let Some(lacking) = order.get(next) else { return Ok(ActionReport::new(Outcome::Passed, "")) };
    let message = format!("{next} of {} calls came in this order", order.len());
    let mut report = ActionReport::new(Outcome::Failed, message);
    let after = match next.checked_sub(1).map(|i| &order[i]) {
        Some(before) => format!(" after `{}.{}`", before.server.value, before.name.value),
        None => String::new(),
    };
    let expected = format!("{} `{}.{}`{after}", lacking.kind.name(), lacking.server.value, lacking.name.value);
    let made = listed(&calls.iter().map(name).collect::<Vec<_>>());
    report.differences.push(difference(key, lacking.span, expected, made));
    Ok(report)
}

fn no_duplicates(key: &str, span: Span, calls: &[CallReport]) -> Judged {
    let calls: Vec<_> = tools(calls).collect();
    let empty = Value::Object(serde_json::Map::new());
    let arguments = |call: &'_ CallReport| call.params.get("arguments").unwrap_or(&empty).clone();
    for (i, call) in calls.iter().enumerate() {
        let same = |other: &&&CallReport| {
            other.server == call.server && other.name == call.name && same_value(&arguments(other), &arguments(call))
        };
        if calls[..i].iter().any(|other| same(&other)) {
            let times = calls.iter().filter(same).count();
            let message = format!("{} was called {times} times with the same arguments", name(call));
            let actual = format!("{times} times {} {}", name(call), arguments(call));
            return demand(false, key, span, || (message, "every call at most once".to_owned(), actual));
        }
    }
    Ok(ActionReport::new(Outcome::Passed, ""))
}

/// A skill is meant by what stands in quotes in the input, or by a pattern (§5.5.2 of the upstream behaviour).
fn skills_loaded(key: &str, items: &[SkillMatcher], skills: Option<&[Value]>, wanted: bool) -> Judged {
    let Some(skills) = skills else {
        return Err("the agent does not tell which skills it loads; agents over ACP and Claude Code do".to_owned());
    };
    let mut report = ActionReport::new(Outcome::Passed, "");
    for item in items {
        let pattern = match &item.pattern {
            Some(pattern) => {
                Some(Regex::new(&pattern.value).map_err(|_| format!("`{}` is no pattern", pattern.value))?)
            }
            None => None,
        };
        let meant = |input: &&String| {
            item.skill.as_ref().is_some_and(|skill| input.contains(&Value::from(skill.value.as_str()).to_string()))
                || pattern.as_ref().is_some_and(|pattern| pattern.is_match(input))
        };
        let inputs: Vec<String> = skills.iter().map(Value::to_string).collect();
        let found = inputs.iter().find(meant);
        if found.is_some() == wanted {
            continue;
        }
        let name = match (&item.skill, &item.pattern) {
            (Some(skill), _) => format!("the skill `{}`", skill.value),
            (None, Some(pattern)) => format!("a skill like `{}`", pattern.value),
            (None, None) => "a skill".to_owned(),
        };
        report.outcome = Outcome::Failed;
        let (expected, actual) = match (wanted, found) {
            (true, _) if inputs.is_empty() => (format!("{name} is loaded"), "no skill".to_owned()),
            (true, _) => (format!("{name} is loaded"), inputs.join(", ")),
            (false, found) => (format!("{name} is not loaded"), found.cloned().unwrap_or_default()),
        };
        report.message = if wanted { format!("{name} was not loaded") } else { format!("{name} was loaded") };
        report.differences.push(difference(key, item.span, expected, actual));
    }
    Ok(report)
}

/// `words`: the message, what was expected, what was found.
fn demand(met: bool, key: &str, span: Span, words: impl FnOnce() -> (String, String, String)) -> Judged {
    if met {
        return Ok(ActionReport::new(Outcome::Passed, ""));
    }
    let (message, expected, actual) = words();
    let mut report = ActionReport::new(Outcome::Failed, message);
    report.differences.push(difference(key, span, expected, actual));
    Ok(report)
}

/// The first call the matcher means.
fn find<'c>(kind: CallKind, item: &CallMatcher, calls: &'c [CallReport]) -> Result<Option<&'c CallReport>, String> {
    let pattern = match &item.pattern {
        Some(pattern) => Some(Regex::new(&pattern.value).map_err(|_| format!("`{}` is no pattern", pattern.value))?),
        None => None,
    };
    let named = |call: &CallReport| match (&item.name, &pattern) {
        (None, None) => true,
        (name, pattern) => {
            name.as_ref().is_some_and(|n| n.value == call.name)
                || pattern.as_ref().is_some_and(|p| p.is_match(&call.name))
        }
    };
    let argued = |call: &CallReport| match item.arguments.as_ref().map(|a| &a.value) {
        None => true,
        Some(Value::Object(wanted)) => {
            let given = call.params.get("arguments");
            wanted.iter().all(|(key, value)| given.and_then(|g| g.get(key)).is_some_and(|g| same_value(g, value)))
        }
        Some(wanted) => call.params.get("arguments").is_some_and(|given| same_value(given, wanted)),
    };
    Ok(calls.iter().find(|call| {
        call.kind == kind
            && call.server == item.server.value
            && named(call)
            && argued(call)
            && item.status.is_none_or(|s| s.value == call.status)
            && item.max_duration.is_none_or(|d| call.duration <= d.value)
    }))
}

fn tools(calls: &[CallReport]) -> impl Iterator<Item = &CallReport> {
    calls.iter().filter(|call| call.kind == CallKind::Tool)
}

fn tool_calls(n: u64) -> String {
    format!("{n} tool call{}", if n == 1 { "" } else { "s" })
}

fn calls_made(n: u64) -> String {
    format!("the agent made {}", tool_calls(n))
}

fn name(call: &CallReport) -> String {
    format!("`{}.{}`", call.server, call.name)
}

/// The calls of one kind, as far as a line holds them. A call that failed stands with its error.
fn made(kind: CallKind, calls: &[CallReport]) -> String {
    let mut counts: IndexMap<String, usize> = IndexMap::new();
    for call in calls.iter().filter(|call| call.kind == kind) {
        let failure = failure(call).map(|why| format!(" failed: {why}")).unwrap_or_default();
        *counts.entry(name(call) + &failure).or_default() += 1;
    }
    let counted = counts.into_iter().map(|(name, n)| if n > 1 { format!("{name} ({n} times)") } else { name });
    listed(&counted.collect::<Vec<_>>())
}

/// Why a call failed, in the first line of what the server answered.
fn failure(call: &CallReport) -> Option<String> {
    if call.status == CallStatus::Ok {
        return None;
    }
    let text = || call.result.as_ref()?.pointer("/content/0/text")?.as_str();
    let said = call.error.as_deref().or_else(text).unwrap_or_default();
    let line = said.lines().find(|line| !line.trim().is_empty()).map_or("no reason given", str::trim);
    Some(match line.char_indices().nth(200) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    })
}

fn listed(names: &[String]) -> String {
    match names.len() {
        0 => "no call".to_owned(),
        n if n > 8 => format!("{}, and {} more", names[..8].join(", "), n - 8),
        _ => names.join(", "),
    }
}

fn describe(kind: CallKind, item: &CallMatcher) -> String {
    let server = &item.server.value;
    let mut out = match (&item.name, &item.pattern) {
        (Some(name), None) => format!("`{server}.{}`", name.value),
        (Some(name), Some(pattern)) => format!("`{server}.{}` or one like `{}`", name.value, pattern.value),
        (None, Some(pattern)) => format!("a {} of `{server}` like `{}`", kind.name(), pattern.value),
        (None, None) => format!("any {} of `{server}`", kind.name()),
    };
    if let Some(arguments) = &item.arguments {
        out.push_str(&format!(" with {}", arguments.value));
    }
    if let Some(status) = &item.status {
        out.push_str(match status.value {
            CallStatus::Ok => " that succeeds",
            CallStatus::ToolError => " that reports an error",
            CallStatus::ProtocolError => " that gets no result",
        });
    }
    if let Some(limit) = &item.max_duration {
        out.push_str(&format!(" within {}", crate::ty::duration::format(limit.value)));
    }
    out
}

fn difference(subject: &str, span: Span, expected: String, actual: String) -> Difference {
    Difference { subject: subject.to_owned(), expected, actual, at: Some((span.start, span.end)), place: None }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        hir::Name,
        source::{Sources, Spanned},
    };

    fn span() -> Span {
        Span::new(Sources::default().add(std::path::Path::new("eval.yaml"), ""), 0..0)
    }

    fn word(text: &str) -> Name {
        Spanned::new(text.to_owned(), span())
    }

    fn call(kind: CallKind, server: &str, name: &str) -> CallReport {
        CallReport {
            server: server.to_owned(),
            kind,
            name: name.to_owned(),
            params: Value::Null,
            started: jiff::Timestamp::UNIX_EPOCH,
            duration: Duration::ZERO,
            status: CallStatus::Ok,
            error: None,
            result: None,
            headers: Default::default(),
        }
    }

    fn judge(kind: AssertionKind, calls: &[CallReport], skills: Option<&[Value]>) -> Option<ActionReport> {
        evaluate(&Assertion { key: word("key"), span: span(), kind }, calls, skills)
    }

    fn any(server: &str) -> CallMatcher {
        CallMatcher {
            span: span(),
            server: word(server),
            name: None,
            pattern: None,
            arguments: None,
            status: None,
            max_duration: None,
        }
    }

    #[test]
    fn what_demands_nothing_is_not_judged() {
        let kinds = [
            AssertionKind::AllUsed(CallKind::Tool, Vec::new()),
            AssertionKind::AnyUsed(CallKind::Tool, Vec::new()),
            AssertionKind::NoneUsed(CallKind::Tool, Vec::new()),
            AssertionKind::CallOrder(Vec::new()),
            AssertionKind::NoDuplicateCalls(false),
            AssertionKind::SkillsLoaded(Vec::new()),
            AssertionKind::SkillsNotLoaded(Vec::new()),
        ];
        for kind in kinds {
            assert!(judge(kind.clone(), &[], Some(&[])).is_none(), "{kind:?}");
        }
    }

    #[test]
    fn an_order_is_one_of_kind_server_and_name() {
        let order =
            |kind, server: &str, name: &str| OrderedCall { span: span(), kind, server: word(server), name: word(name) };
        let wanted = vec![order(CallKind::Tool, "a", "x"), order(CallKind::Tool, "a", "y")];
        let x = call(CallKind::Tool, "a", "x");
        for (second, outcome) in [
            (call(CallKind::Tool, "a", "y"), Outcome::Passed),
            (call(CallKind::Resource, "a", "y"), Outcome::Failed),
            (call(CallKind::Tool, "b", "y"), Outcome::Failed),
            (call(CallKind::Tool, "a", "z"), Outcome::Failed),
            (x.clone(), Outcome::Failed),
        ] {
            let calls = [x.clone(), second];
            let report = judge(AssertionKind::CallOrder(wanted.clone()), &calls, None).unwrap();
            assert_eq!(report.outcome, outcome, "{calls:?}");
            if outcome == Outcome::Failed {
                assert_eq!(report.message, "1 of 2 calls came in this order");
                assert_eq!(report.differences[0].expected, "tool `a.y` after `a.x`");
            }
        }
    }

    #[test]
    fn what_was_called_is_said_as_far_as_a_line_holds_it() {
        let actual = |calls: &[CallReport]| {
            let kind = AssertionKind::AllUsed(CallKind::Tool, vec![any("other")]);
            judge(kind, calls, None).unwrap().differences[0].actual.clone()
        };
        let tool = |name: &str| call(CallKind::Tool, "a", name);
        assert_eq!(actual(&[]), "no call");
        assert_eq!(actual(&[call(CallKind::Resource, "a", "x")]), "no call");
        assert_eq!(actual(&[tool("x"), tool("y"), tool("x")]), "`a.x` (2 times), `a.y`");
        let mut refused = tool("x");
        refused.status = CallStatus::ToolError;
        refused.result =
            Some(serde_json::json!({"content": [{"type": "text", "text": "\n conflict: try again\nmore"}]}));
        assert_eq!(actual(&[tool("x"), refused.clone()]), "`a.x`, `a.x` failed: conflict: try again");
        refused.error = Some("é".repeat(201));
        assert_eq!(actual(&[refused.clone()]), format!("`a.x` failed: {}…", "é".repeat(200)));
        refused.error = Some("é".repeat(200));
        assert_eq!(actual(&[refused.clone()]), format!("`a.x` failed: {}", "é".repeat(200)));
        (refused.error, refused.result) = (None, None);
        assert_eq!(actual(&[refused]), "`a.x` failed: no reason given");
        let many = |n: usize| (0..n).map(|i| tool(&i.to_string())).collect::<Vec<_>>();
        assert!(actual(&many(8)).ends_with("`a.6`, `a.7`"), "{}", actual(&many(8)));
        assert!(actual(&many(9)).ends_with("`a.7`, and 1 more"), "{}", actual(&many(9)));
        assert!(actual(&many(11)).ends_with("`a.7`, and 3 more"), "{}", actual(&many(11)));
        let made = judge(AssertionKind::MinToolCalls(2), &many(1), None).unwrap();
        assert_eq!(
            (made.message.as_str(), made.differences[0].expected.as_str(), made.differences[0].actual.as_str()),
            ("the agent made 1 tool call", "at least 2 tool calls", "1 tool call")
        );
    }

    #[test]
    fn a_skill_is_loaded_where_its_name_or_a_pattern_is_in_the_input() {
        let skill = |skill: Option<&str>, pattern: Option<&str>| {
            vec![SkillMatcher { span: span(), skill: skill.map(word), pattern: pattern.map(word) }]
        };
        let inputs = [serde_json::json!({ "skill": "notes" })];
        let loaded = |items: &[SkillMatcher], skills: &[Value]| {
            judge(AssertionKind::SkillsLoaded(items.to_vec()), &[], Some(skills)).unwrap()
        };
        for (items, found) in [
            (skill(Some("notes"), None), true),
            (skill(Some("note"), None), false),
            (skill(None, Some("^.*not")), true),
            (skill(None, Some("cook")), false),
            (skill(Some("cook"), Some("not")), true),
            (skill(Some("notes"), Some("cook")), true),
        ] {
            let outcome = |passes: bool| if passes { Outcome::Passed } else { Outcome::Failed };
            let report = loaded(&items, &inputs);
            assert_eq!(report.outcome, outcome(found), "{items:?}");
            let not = judge(AssertionKind::SkillsNotLoaded(items.clone()), &[], Some(&inputs)).unwrap();
            assert_eq!(not.outcome, outcome(!found), "{items:?}");
        }
        let actual = |skills: &[Value]| loaded(&skill(Some("cook"), None), skills).differences[0].actual.clone();
        assert_eq!((actual(&[]), actual(&inputs)), ("no skill".to_owned(), "{\"skill\":\"notes\"}".to_owned()));
        let untold = judge(AssertionKind::SkillsLoaded(skill(Some("notes"), None)), &[], None).unwrap();
        assert_eq!(untold.outcome, Outcome::Broken);
    }
}
