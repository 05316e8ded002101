//! Assertions over the calls an agent made (§5.5 of the upstream behaviour, `decisions.md` §7).

use indexmap::IndexMap;
use regex::Regex;
use serde_json::Value;

use crate::{
    event::{ActionReport, CallReport, Difference, Outcome},
    hir::{Assertion, AssertionKind, CallKind, CallMatcher, CallStatus, OrderedCall, SkillMatcher},
    mcp::Unmasked,
    secrets::MASK,
    source::Span,
    ty::number::same_value,
};

/// A call to be judged. Messages use the report, in which secrets are masked.
pub struct Seen {
    pub report: CallReport,
    pub made: Made,
}

/// The call as it was actually made.
pub enum Made {
    AsReported,
    Otherwise(Unmasked),
    /// As reported, except for what is masked; the unmasked call is no longer available.
    Masked,
}

/// The fault of an assertion that depends on masked text.
const MASKED: &str =
    "the recorded calls of the agent contain masked secrets: it is unknown whether one of them matches";

impl Seen {
    fn name(&self) -> &str {
        match &self.made {
            Made::Otherwise(call) => &call.name,
            Made::AsReported | Made::Masked => &self.report.name,
        }
    }

    fn arguments(&self) -> Option<&Value> {
        let params = match &self.made {
            Made::Otherwise(call) => &call.params,
            Made::AsReported | Made::Masked => &self.report.params,
        };
        params.get("arguments")
    }

    /// Returns the text, unless only its masked form is known.
    fn text<'t>(&self, text: &'t str) -> Option<&'t str> {
        let masked = matches!(self.made, Made::Masked) && text.contains(MASK);
        (!masked).then_some(text)
    }

    /// Returns the value, unless only its masked form is known.
    fn value<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        let is_known = match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => true,
            Value::String(text) => self.text(text).is_some(),
            Value::Array(items) => items.iter().all(|item| self.value(item).is_some()),
            Value::Object(map) => map.iter().all(|(key, item)| self.text(key).is_some() && self.value(item).is_some()),
        };
        is_known.then_some(value)
    }
}

/// Evaluates one assertion. `calls` are in the order in which they started; `skills` are the inputs of the agent's tool
/// that reads skills, if the agent reports its tool calls. Returns `None` if there is nothing to evaluate
/// (`noDuplicateCalls: false`, an empty list).
pub fn evaluate(assertion: &Assertion, calls: &[Seen], skills: Option<&[Value]>) -> Option<ActionReport> {
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

fn all_used(key: &str, kind: CallKind, items: &[CallMatcher], calls: &[Seen]) -> Judged {
    let mut report = ActionReport::new(Outcome::Passed, "");
    let mut unknown = false;
    for item in items {
        match find(kind, item, calls)? {
            Found::Call(_) => {}
            Found::Unknown => unknown = true,
            Found::Nothing => {
                let expected = format!("a call of {}", describe(kind, item));
                report.differences.push(difference(key, item.span, expected, made(kind, calls)));
            }
        }
    }
    if unknown && report.differences.is_empty() {
        return Err(MASKED.to_owned());
    }
    if let Some(first) = report.differences.first() {
        report.outcome = Outcome::Failed;
        report.message = format!("there was no {}", first.expected.trim_start_matches("a "));
    }
    Ok(report)
}

fn any_used(key: &str, kind: CallKind, items: &[CallMatcher], span: Span, calls: &[Seen]) -> Judged {
    let mut unknown = false;
    for item in items {
        match find(kind, item, calls)? {
            Found::Call(call) => {
                return Ok(ActionReport::new(Outcome::Passed, format!("{} was called", name(call))));
            }
            Found::Unknown => unknown = true,
            Found::Nothing => {}
        }
    }
    if unknown {
        return Err(MASKED.to_owned());
    }
    let wanted: Vec<_> = items.iter().map(|item| describe(kind, item)).collect();
    let mut report = ActionReport::new(Outcome::Failed, "none of them was called");
    report.differences.push(difference(key, span, format!("a call of {}", wanted.join(" or ")), made(kind, calls)));
    Ok(report)
}

fn none_used(key: &str, kind: CallKind, items: &[CallMatcher], calls: &[Seen]) -> Judged {
    let mut report = ActionReport::new(Outcome::Passed, "");
    let mut unknown = false;
    for item in items {
        let call = match find(kind, item, calls)? {
            Found::Call(call) => &call.report,
            Found::Unknown => {
                unknown = true;
                continue;
            }
            Found::Nothing => continue,
        };
        let expected = format!("no call of {}", describe(kind, item));
        let arguments = call.params.get("arguments").map(|a| format!(" {a}")).unwrap_or_default();
        report.differences.push(difference(key, item.span, expected, format!("{}{arguments}", shown(call))));
        report.outcome = Outcome::Failed;
        report.message = format!("{} was called", shown(call));
    }
    if unknown && report.differences.is_empty() {
        return Err(MASKED.to_owned());
    }
    Ok(report)
}

fn call_order(key: &str, order: &[OrderedCall], calls: &[Seen]) -> Judged {
    // How many of the calls came in this order: at least (`false`) or at most (`true`).
    let came = |unknown: bool| {
        let mut next = 0;
        for call in calls {
            let Some(wanted) = order.get(next) else { break };
            let CallReport { kind, server, .. } = &call.report;
            let named = || call.text(call.name()).map_or(unknown, |name| name == wanted.name.value);
            if *kind == wanted.kind && *server == wanted.server.value && named() {
                next += 1;
            }
        }
        next
    };
    let next = came(false);
    let Some(lacking) = order.get(next) else { return Ok(ActionReport::new(Outcome::Passed, "")) };
    if came(true) == order.len() {
        return Err(MASKED.to_owned());
    }
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

fn no_duplicates(key: &str, span: Span, calls: &[Seen]) -> Judged {
    let calls: Vec<_> = tools(calls).collect();
    let empty = Value::Object(serde_json::Map::new());
    let mut unknown = false;
    for (i, call) in calls.iter().enumerate() {
        let arguments = call.arguments().unwrap_or(&empty);
        let same = |other: &&&Seen| {
            other.report.server == call.report.server
                && other.name() == call.name()
                && same_value(other.arguments().unwrap_or(&empty), arguments)
        };
        if !calls[..i].iter().any(|other| same(&other)) {
            continue;
        }
        // Values that look the same when masked may be different.
        if call.text(call.name()).is_none() || call.value(arguments).is_none() {
            unknown = true;
            continue;
        }
        let times = calls.iter().filter(same).count();
        let message = format!("{} was called {times} times with the same arguments", name(call));
        let arguments = call.report.params.get("arguments").unwrap_or(&empty);
        let actual = format!("{times} times {} {arguments}", name(call));
        return demand(false, key, span, || (message, "every call at most once".to_owned(), actual));
    }
    match unknown {
        true => Err(MASKED.to_owned()),
        false => Ok(ActionReport::new(Outcome::Passed, "")),
    }
}

/// A skill matches if its name appears in quotes in the input, or if its pattern matches (§5.5.2 of the upstream
/// behaviour).
fn skills_loaded(key: &str, items: &[SkillMatcher], skills: Option<&[Value]>, wanted: bool) -> Judged {
    let Some(skills) = skills else {
        return Err("the agent does not report which skills it loads; agents over ACP and Claude Code do".to_owned());
    };
    let mut report = ActionReport::new(Outcome::Passed, "");
    for item in items {
        let pattern = match &item.pattern {
            Some(pattern) => {
                Some(Regex::new(&pattern.value).map_err(|_| format!("`{}` is not a valid pattern", pattern.value))?)
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

/// `words` returns the message, what was expected, and what was found.
fn demand(met: bool, key: &str, span: Span, words: impl FnOnce() -> (String, String, String)) -> Judged {
    if met {
        return Ok(ActionReport::new(Outcome::Passed, ""));
    }
    let (message, expected, actual) = words();
    let mut report = ActionReport::new(Outcome::Failed, message);
    report.differences.push(difference(key, span, expected, actual));
    Ok(report)
}

/// The calls that a matcher matches.
enum Found<'c> {
    /// The first call that matches.
    Call(&'c Seen),
    Nothing,
    /// None for certain, but a masked call might match.
    Unknown,
}

fn find<'c>(kind: CallKind, item: &CallMatcher, calls: &'c [Seen]) -> Result<Found<'c>, String> {
    let pattern = match &item.pattern {
        Some(pattern) => {
            Some(Regex::new(&pattern.value).map_err(|_| format!("`{}` is not a valid pattern", pattern.value))?)
        }
        None => None,
    };
    // `None`: unknown because of a mask.
    let named = |call: &Seen| match (&item.name, &pattern) {
        (None, None) => Some(true),
        (name, pattern) => call.text(call.name()).map(|called| {
            name.as_ref().is_some_and(|n| n.value == called) || pattern.as_ref().is_some_and(|p| p.is_match(called))
        }),
    };
    let same = |call: &Seen, given: Option<&Value>, wanted: &Value| match given {
        Some(given) => call.value(given).map(|given| same_value(given, wanted)),
        None => Some(false),
    };
    let argued = |call: &Seen| match item.arguments.as_ref().map(|a| &a.value) {
        None => Some(true),
        Some(Value::Object(wanted)) => {
            let given = call.arguments();
            // A missing argument may be present under a masked name.
            let unnamed =
                given.and_then(Value::as_object).is_some_and(|g| g.keys().any(|key| call.text(key).is_none()));
            let one = |(key, value): (&String, &Value)| match given.and_then(|given| given.get(key)) {
                None if unnamed || given.is_some_and(|given| call.value(given).is_none() && !given.is_object()) => None,
                given => same(call, given, value),
            };
            all(wanted.iter().map(one))
        }
        Some(wanted) => same(call, call.arguments(), wanted),
    };
    let means = |call: &Seen| {
        let CallReport { kind: of, server, status, duration, .. } = &call.report;
        let known = *of == kind
            && *server == item.server.value
            && item.status.is_none_or(|s| s.value == *status)
            && item.max_duration.is_none_or(|d| *duration <= d.value);
        if known { all([named(call), argued(call)]) } else { Some(false) }
    };
    let mut found = Found::Nothing;
    for call in calls {
        match means(call) {
            Some(true) => return Ok(Found::Call(call)),
            Some(false) => {}
            None => found = Found::Unknown,
        }
    }
    Ok(found)
}

/// Whether all are true; `None` if unknown.
fn all(each: impl IntoIterator<Item = Option<bool>>) -> Option<bool> {
    let mut all = Some(true);
    for one in each {
        match one {
            Some(true) => {}
            Some(false) => return Some(false),
            None => all = None,
        }
    }
    all
}

fn tools(calls: &[Seen]) -> impl Iterator<Item = &Seen> {
    calls.iter().filter(|call| call.report.kind == CallKind::Tool)
}

fn tool_calls(n: u64) -> String {
    format!("{n} tool call{}", if n == 1 { "" } else { "s" })
}

fn calls_made(n: u64) -> String {
    format!("the agent made {}", tool_calls(n))
}

fn name(call: &Seen) -> String {
    shown(&call.report)
}

fn shown(call: &CallReport) -> String {
    format!("`{}.{}`", call.server, call.name)
}

/// The calls of one kind, limited to what fits in a line. A failed call is listed with its error.
fn made(kind: CallKind, calls: &[Seen]) -> String {
    let mut counts: IndexMap<String, usize> = IndexMap::new();
    for call in calls.iter().map(|call| &call.report).filter(|call| call.kind == kind) {
        let failure = failure(call).map(|why| format!(" failed: {why}")).unwrap_or_default();
        *counts.entry(shown(call) + &failure).or_default() += 1;
    }
    let counted = counts.into_iter().map(|(name, n)| if n > 1 { format!("{name} ({n} times)") } else { name });
    listed(&counted.collect::<Vec<_>>())
}

/// Why a call failed: the first line of the server's answer.
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
        let seen = |report: &CallReport| Seen { report: report.clone(), made: Made::AsReported };
        let calls: Vec<_> = calls.iter().map(seen).collect();
        evaluate(&Assertion { key: word("key"), span: span(), kind }, &calls, skills)
    }

    /// The outcome for calls with one argument, given as reported, and as it was made if that is known.
    fn outcome(kind: &AssertionKind, calls: &[(&str, Made)]) -> Outcome {
        let seen = |(shown, made): &(&str, Made)| Seen {
            report: CallReport {
                params: serde_json::json!({"name": "x", "arguments": {"t": shown}}),
                ..call(CallKind::Tool, "a", "x")
            },
            made: match made {
                Made::AsReported => Made::AsReported,
                Made::Masked => Made::Masked,
                Made::Otherwise(call) => Made::Otherwise(call.clone()),
            },
        };
        let assertion = Assertion { key: word("key"), span: span(), kind: kind.clone() };
        evaluate(&assertion, &calls.iter().map(seen).collect::<Vec<_>>(), None).unwrap().outcome
    }

    fn otherwise(value: &str) -> Made {
        let params = serde_json::json!({"name": "x", "arguments": {"t": value}});
        Made::Otherwise(Unmasked { name: "x".to_owned(), params })
    }

    #[test]
    fn masked_calls_are_judged_by_their_original_values() {
        use Outcome::{Broken, Failed, Passed};
        let wanted = |value: &str| {
            let arguments = Some(Spanned::new(serde_json::json!({ "t": value }), span()));
            vec![CallMatcher { arguments, ..any("a") }]
        };
        let not = |value: &str| AssertionKind::NoneUsed(CallKind::Tool, wanted(value));
        let used = |value: &str| AssertionKind::AllUsed(CallKind::Tool, wanted(value));
        let one_of = |value: &str| AssertionKind::AnyUsed(CallKind::Tool, wanted(value));
        let once = AssertionKind::NoDuplicateCalls(true);
        for (made, [not_used, all_used, any_used]) in [
            (otherwise("hidden"), [Failed, Passed, Passed]),
            (otherwise("other"), [Passed, Failed, Failed]),
            (Made::Masked, [Broken, Broken, Broken]),
            // The agent itself may have written `***`.
            (Made::AsReported, [Passed, Failed, Failed]),
        ] {
            let calls = [("***", made)];
            assert_eq!(outcome(&not("hidden"), &calls), not_used);
            assert_eq!(outcome(&used("hidden"), &calls), all_used);
            assert_eq!(outcome(&one_of("hidden"), &calls), any_used);
            assert_eq!(outcome(&once, &calls), Passed);
        }
        // Certain results stay certain even if other calls are masked.
        let calls = [("***", Made::Masked), ("plain", Made::Masked)];
        assert_eq!(outcome(&not("plain"), &calls), Failed);
        assert_eq!(outcome(&used("plain"), &calls), Passed);
        assert_eq!(outcome(&once, &calls), Passed);
        assert_eq!(outcome(&once, &[("***", Made::Masked), ("***", Made::Masked)]), Broken);
        assert_eq!(outcome(&once, &[("***", otherwise("a")), ("***", otherwise("b"))]), Passed);
        assert_eq!(outcome(&once, &[("***", otherwise("a")), ("***", otherwise("a"))]), Failed);
        assert_eq!(outcome(&once, &[("***", Made::AsReported), ("***", Made::AsReported)]), Failed);
        let ordered = |name: &str, made: fn() -> Made| {
            let order = vec![OrderedCall { span: span(), kind: CallKind::Tool, server: word("a"), name: word("x") }];
            let assertion = Assertion { key: word("key"), span: span(), kind: AssertionKind::CallOrder(order) };
            let calls = [Seen { report: call(CallKind::Tool, "a", name), made: made() }];
            evaluate(&assertion, &calls, None).unwrap().outcome
        };
        assert_eq!(ordered("***", || Made::Masked), Broken);
        assert_eq!(ordered("***", || otherwise("")), Passed);
        assert_eq!(ordered("***", || Made::AsReported), Failed);
    }

    fn any(server: &str) -> CallMatcher {
        CallMatcher {
            span: span(),
            server: word(server),
            name: None,
            pattern: None,
            arguments: None,
            argument_places: Vec::new(),
            status: None,
            max_duration: None,
        }
    }

    #[test]
    fn assertions_without_requirements_are_not_judged() {
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
    fn call_order_compares_kind_server_and_name() {
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
    fn the_list_of_calls_is_summarized_in_one_line() {
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
    fn a_skill_is_loaded_if_its_name_or_a_pattern_is_in_the_input() {
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
