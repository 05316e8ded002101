//! Assertions that always hold, that contradict each other, or that match other calls than intended.

use indexmap::IndexSet;

use crate::{
    diagnostic::{Diagnostic, Diagnostics},
    dialect::eval::ALWAYS_TRUE_ASSERTION,
    hir::{Assertion, AssertionKind, Assertions, CallKind, CallMatcher, Name},
    lint::{
        EvalView,
        analysis::pattern::{Texts, covers, exactly, matches_all},
    },
    rule,
    source::Span,
};

rule! {
    pub static CONTRADICTORY_ASSERTIONS = "contradictory-assertions", Verdict;
    pub static UNANCHORED_TOOL_PATTERN = "unanchored-tool-pattern", Warning;
    pub static REDUNDANT_NAME_AND_PATTERN = "redundant-name-and-pattern", Warning;
}

fn sets<'a>(view: &EvalView<'a>) -> impl Iterator<Item = &'a Assertions> {
    view.eval.task_sets.iter().filter_map(|s| s.assertions.as_ref())
}

fn matchers(item: &Assertion) -> Option<(CallKind, &[CallMatcher])> {
    match &item.kind {
        AssertionKind::AllUsed(kind, m) | AssertionKind::AnyUsed(kind, m) | AssertionKind::NoneUsed(kind, m) => {
            Some((*kind, m))
        }
        _ => None,
    }
}

/// `minToolCalls: 0` always holds.
pub fn always(view: &EvalView<'_>, out: &mut Diagnostics) {
    crate::lint::eval::asserted_arguments::check(view, out);
    for item in sets(view).flat_map(|s| &s.items) {
        if matches!(item.kind, AssertionKind::MinToolCalls(0)) {
            out.push(
                Diagnostic::new(
                    &ALWAYS_TRUE_ASSERTION,
                    item.span,
                    "`minToolCalls: 0` has no effect: every run makes at least 0 calls",
                )
                .help("write 1 or more, or remove the assertion"),
            );
        }
    }
}

/// Reports a call that one assertion requires and another of the same task forbids.
pub fn contradictory(view: &EvalView<'_>, out: &mut Diagnostics) {
    let together: IndexSet<&[usize]> = view.unit.selected.iter().map(|s| s.sets.as_slice()).collect();
    for sets in together {
        let items: Vec<&Assertion> =
            sets.iter().filter_map(|&i| view.eval.task_sets[i].assertions.as_ref()).flat_map(|a| &a.items).collect();
        for demanded in items.iter().flat_map(|i| demands(i)) {
            let forbidden = demanded.iter().map(|d| items.iter().find_map(|i| forbids(i, d)));
            let Some(forbidden) = forbidden.collect::<Option<Vec<Span>>>() else { continue };
            let (Some(demand), Some(place)) = (demanded.first(), forbidden.first()) else { continue };
            out.push(
                Diagnostic::new(
                    &CONTRADICTORY_ASSERTIONS,
                    demand.span,
                    "this assertion can never pass, because another one forbids the call",
                )
                .here("required here")
                .label(*place, "forbidden here")
                .help("remove one of the two, or narrow the forbidden calls"),
            );
        }
        too_many(&items, out);
        none_left(view, &items, out);
    }
}

/// A call that must be made.
struct Demand<'a> {
    kind: CallKind,
    server: &'a str,
    /// A pattern that matches its names.
    pattern: String,
    span: Span,
}

impl<'a> Demand<'a> {
    fn of(kind: CallKind, m: &'a CallMatcher) -> Self {
        Self { kind, server: &m.server.value, pattern: pattern(m), span: m.span }
    }
}

/// Returns sets of calls. At least one call of each set must be made.
fn demands<'a>(item: &'a Assertion) -> Vec<Vec<Demand<'a>>> {
    match &item.kind {
        AssertionKind::AllUsed(kind, all) => all.iter().map(|m| vec![Demand::of(*kind, m)]).collect(),
        AssertionKind::AnyUsed(kind, any) => vec![any.iter().map(|m| Demand::of(*kind, m)).collect()],
        AssertionKind::CallOrder(calls) => {
            let demand = |c: &'a crate::hir::OrderedCall| {
                vec![Demand { kind: c.kind, server: &c.server.value, pattern: exactly(&c.name.value), span: c.span }]
            };
            calls.iter().map(demand).collect()
        }
        _ => Vec::new(),
    }
}

fn forbids(item: &Assertion, demand: &Demand<'_>) -> Option<Span> {
    let AssertionKind::NoneUsed(kind, list) = &item.kind else { return None };
    let whole = |m: &&CallMatcher| m.arguments.is_none() && m.status.is_none() && m.max_duration.is_none();
    let same = |m: &&CallMatcher| *kind == demand.kind && m.server.value == demand.server;
    let all: Vec<&CallMatcher> = list.iter().filter(whole).filter(same).collect();
    let one = all.iter().find(|m| covers(&pattern(m), &demand.pattern, Texts::Names));
    // Matchers that do not cover the names individually may cover them together.
    let together = || {
        let union: Vec<_> = all.iter().map(|m| format!("(?:{})", pattern(m))).collect();
        let covered = all.len() > 1 && covers(&union.join("|"), &demand.pattern, Texts::Names);
        all.first().filter(|_| covered)
    };
    one.or_else(together).map(|m| m.span)
}

/// Reports assertions that require calls but forbid all tools of all servers.
fn none_left(view: &EvalView<'_>, items: &[&Assertion], out: &mut Diagnostics) {
    let least = items.iter().find(|i| matches!(i.kind, AssertionKind::MinToolCalls(1..)));
    let (Some(least), Some(mcp)) = (least, &view.unit.mcp) else { return };
    let forbidden = mcp.servers.iter().filter(|s| !s.disabled).map(|server| {
        let any = Demand { kind: CallKind::Tool, server: &server.name.value, pattern: String::new(), span: least.span };
        items.iter().find_map(|i| forbids(i, &any))
    });
    let Some(forbidden) = forbidden.collect::<Option<Vec<Span>>>() else { return };
    let Some(first) = forbidden.first() else { return };
    out.push(
        Diagnostic::new(
            &CONTRADICTORY_ASSERTIONS,
            least.span,
            "every call that could satisfy this assertion is forbidden",
        )
        .here("required here")
        .label(*first, "forbidden here")
        .help("remove one of the two, or narrow the forbidden calls"),
    );
}

/// Returns the pattern of the names that match. Either the name or the pattern may match;
/// without both, every name does.
fn pattern(m: &CallMatcher) -> String {
    match (&m.name, &m.pattern) {
        (None, None) => String::new(),
        (Some(name), None) => exactly(&name.value),
        (None, Some(pattern)) => pattern.value.clone(),
        (Some(name), Some(pattern)) => format!("(?:{})|(?:{})", exactly(&name.value), pattern.value),
    }
}

/// Reports assertions that require more calls than `maxToolCalls` allows.
fn too_many(items: &[&Assertion], out: &mut Diagnostics) {
    for max in items {
        let AssertionKind::MaxToolCalls(most) = max.kind else { continue };
        for item in items {
            let least = match &item.kind {
                AssertionKind::CallOrder(calls) => calls.iter().filter(|c| c.kind == CallKind::Tool).count() as u64,
                AssertionKind::AllUsed(CallKind::Tool, list) => distinct(list).max(1),
                AssertionKind::AnyUsed(CallKind::Tool, _) => 1,
                _ => continue,
            };
            if least > most {
                out.push(
                    Diagnostic::new(
                        &CONTRADICTORY_ASSERTIONS,
                        max.span,
                        format!("at most {most} calls are allowed, but at least {least} are required"),
                    )
                    .label(item.key.span, "required here")
                    .help("allow more calls, or require fewer"),
                );
            }
        }
    }
}

/// Returns the number of distinct tools that are named.
fn distinct(list: &[CallMatcher]) -> u64 {
    let exact = list.iter().filter(|m| m.pattern.is_none());
    let names: IndexSet<_> = exact.filter_map(|m| Some((&m.server.value, &m.name.as_ref()?.value))).collect();
    names.len() as u64
}

/// Reports a pattern that matches tools other than those it was written for.
pub fn unanchored(view: &EvalView<'_>, out: &mut Diagnostics) {
    for item in sets(view).flat_map(|s| &s.items) {
        let Some((kind, list)) = matchers(item) else { continue };
        for matcher in list {
            let Some(pattern) = &matcher.pattern else { continue };
            // `.*` is intentional.
            if matches_all(&pattern.value, Texts::Names) {
                continue;
            }
            let tools = view.unit.lock.tools(&matcher.server.value).filter(|_| kind == CallKind::Tool);
            let Some(tools) = tools else { continue };
            let extra = unlisted(&pattern.value, tools.keys().map(String::as_str));
            if extra.is_empty() {
                continue;
            }
            let words: Vec<_> = extra.iter().take(6).map(|t| format!("`{t}`")).collect();
            out.push(
                Diagnostic::new(
                    &UNANCHORED_TOOL_PATTERN,
                    pattern.span,
                    format!("this pattern also matches {}", words.join(", ")),
                )
                .help(
                    "a pattern matches anywhere in a name: anchor it with `^` and `$`, or use `tool` for a single name",
                ),
            );
        }
    }
}

/// Returns the tools that a pattern matches by accident. If it matches the full name of a tool, these are all others.
/// If it is a word, these are the tools in which it only matches in the middle of a word.
fn unlisted<'t>(pattern: &str, tools: impl Iterator<Item = &'t str> + Clone) -> Vec<&'t str> {
    let (Ok(part), Ok(whole)) = (regex::Regex::new(pattern), regex::Regex::new(&format!("^(?:{pattern})$"))) else {
        return Vec::new();
    };
    if tools.clone().any(|t| whole.is_match(t)) {
        return tools.filter(|t| part.is_match(t) && !whole.is_match(t)).collect();
    }
    if !pattern.chars().all(|c| c.is_ascii_alphanumeric()) {
        return Vec::new();
    }
    let begins_word = |tool: &str, at: usize| {
        let before = tool[..at].chars().next_back();
        let first = tool[at..].chars().next();
        before.is_none_or(|b| {
            !b.is_ascii_alphanumeric() || (b.is_ascii_lowercase() && first.is_some_and(|f| f.is_ascii_uppercase()))
        })
    };
    let inside = |tool: &&str| {
        let mut at = part.find_iter(tool).map(|m| m.start()).peekable();
        at.peek().is_some() && at.all(|at| !begins_word(tool, at))
    };
    tools.filter(inside).collect()
}

/// Reports a matcher with both a name and a pattern: either may match, which is rarely intended.
pub fn both(view: &EvalView<'_>, out: &mut Diagnostics) {
    let mut report = |name: &Option<Name>, pattern: &Option<Name>| {
        if let (Some(name), Some(pattern)) = (name, pattern) {
            out.push(
                Diagnostic::new(
                    &REDUNDANT_NAME_AND_PATTERN,
                    pattern.span,
                    "a name and a pattern are both given: a call may match either",
                )
                .label(name.span, "the name")
                .help("keep one of them, or write two items"),
            );
        }
    };
    for item in sets(view).flat_map(|s| &s.items) {
        if let Some((_, list)) = matchers(item) {
            list.iter().for_each(|m| report(&m.name, &m.pattern));
        }
        if let AssertionKind::SkillsLoaded(list) | AssertionKind::SkillsNotLoaded(list) = &item.kind {
            list.iter().for_each(|m| report(&m.skill, &m.pattern));
        }
    }
}
