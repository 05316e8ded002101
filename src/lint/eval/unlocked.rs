//! Names that cannot be checked because no lock describes them; schemas in the lock that are only partly supported.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    diagnostic::{Diagnostic, Diagnostics},
    hir::{AssertionKind, CallKind, CallMatcher},
    lint::EvalView,
    package::{self, Package},
    project::{Used, references},
    rule,
    source::Span,
};

rule! {
    pub static NOT_LOCKED = "not-locked", Note;
    pub static UNREAD_SCHEMA = "unread-schema", Note;
}

/// The maximum number of names to show; the others are only counted.
const SHOWN: usize = 8;

/// Tools of servers and operations of extensions that are used but not in the lock.
pub fn check(view: &EvalView<'_>, out: &mut Diagnostics) {
    let (tools, operations) = used(view);
    let place = view.eval.mcp_config.as_ref().map_or(view.eval.config, |name| name.span);
    for server in view.unit.mcp.iter().flat_map(|m| &m.servers).filter(|s| !s.disabled) {
        let mut names = tools.get(server.name.value.as_str()).cloned().unwrap_or_default();
        names.extend(server.always_allow.iter().map(|t| t.value.as_str()));
        if view.unit.lock.tools(&server.name.value).is_none() && !names.is_empty() {
            let what = format!("the server `{}`", server.name.value);
            out.push(finding(place, &what, &names).help(LOCK_IT));
        }
    }
    for (extension, names) in operations {
        let declared = view.eval.extensions.iter().find(|e| e.alias.value == extension);
        let package = declared.map_or(Some(extension), |e| e.package.as_ref().map(|p| p.value.as_str()));
        let substitute = view.unit.lock.substitute;
        let read = package.map(|p| package::package(p, substitute));
        let known = view.unit.lock.extensions.contains_key(extension) || matches!(read, Some(Ok(Package::Bundled(_))));
        // Another rule reports a release that is not locked.
        if known || matches!(read, Some(Ok(Package::Release { .. }))) {
            continue;
        }
        let named = || {
            references(view.eval, view.tasks.iter().copied()).iter().find(|r| r.package == extension).map(|r| r.span)
        };
        if let Some(span) = declared.map(|e| e.alias.span).or_else(named) {
            out.push(finding(span, &format!("the extension `{extension}`"), &names).help(LOCK_IT));
        }
    }
}

/// Schemas of used tools and operations that are not checked completely.
pub fn unread(view: &EvalView<'_>, out: &mut Diagnostics) {
    let (tools, operations) = used(view);
    let lock = &view.unit.lock;
    let of_tools = tools.iter().flat_map(|(server, names)| {
        let known = lock.tools(server);
        names.iter().filter_map(move |name| Some((server, name, &known?.get(*name)?.input_schema)))
    });
    let of_operations = operations.iter().flat_map(|(extension, names)| {
        let known = lock.extensions.get(*extension).map(|e| &e.operations);
        names.iter().filter_map(move |name| Some((extension, name, &known?.get(*name)?.input_schema)))
    });
    let place = view.eval.mcp_config.as_ref().map_or(view.eval.config, |name| name.span);
    for (owner, name, schema) in of_tools.chain(of_operations) {
        if let Some(gap) = schema.gap() {
            let message = format!("the schema of `{owner}.{name}` is only partly supported: {gap}");
            let help = "this part of the schema is not checked before the server is called";
            out.push(Diagnostic::new(&UNREAD_SCHEMA, place, message).help(help));
        }
    }
}

const LOCK_IT: &str = "create a lock file, and update it after each change: `gevals lock EVAL`";

fn finding(span: Span, what: &str, names: &BTreeSet<&str>) -> Diagnostic {
    let mut words: Vec<_> = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
    if names.len() > SHOWN {
        words.push(format!("{} more", names.len() - SHOWN));
    }
    let label = format!("{} {} not checked", words.join(", "), if names.len() == 1 { "is" } else { "are" });
    // All evals that use the server share the message. The label lists what each of them uses.
    Diagnostic::new(&NOT_LOCKED, span, format!("no lock file describes {what}")).here(label)
}

type Names<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// The tools and operations in tasks, oracle and assertions, by server and by extension.
fn used<'a>(view: &EvalView<'a>) -> (Names<'a>, Names<'a>) {
    let (mut tools, mut operations) = (Names::new(), Names::new());
    for uses in view.tasks.iter().map(|unit| unit.uses()) {
        let add = |names: &mut Names<'a>, used: &'a [Used]| {
            for Used { owner, name } in used {
                names.entry(owner).or_default().insert(name);
            }
        };
        add(&mut tools, &uses.tools);
        add(&mut operations, &uses.operations);
    }
    for call in view.unit.oracle.iter().flat_map(|o| &o.tasks).flat_map(|t| &t.calls) {
        if let (CallKind::Tool, Some(name)) = (call.kind, call.name.as_literal()) {
            tools.entry(&call.server.value).or_default().insert(name);
        }
    }
    for item in view.eval.task_sets.iter().filter_map(|s| s.assertions.as_ref()).flat_map(|a| &a.items) {
        let matchers: &[CallMatcher] = match &item.kind {
            AssertionKind::AllUsed(CallKind::Tool, m)
            | AssertionKind::AnyUsed(CallKind::Tool, m)
            | AssertionKind::NoneUsed(CallKind::Tool, m) => m,
            AssertionKind::CallOrder(calls) => {
                for call in calls.iter().filter(|c| c.kind == CallKind::Tool) {
                    tools.entry(&call.server.value).or_default().insert(&call.name.value);
                }
                &[]
            }
            _ => &[],
        };
        for matcher in matchers {
            if let Some(name) = &matcher.name {
                tools.entry(&matcher.server.value).or_default().insert(&name.value);
            }
        }
    }
    (tools, operations)
}
