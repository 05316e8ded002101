//! Arguments of a function in the opposite order to its other calls.

use crate::{
    bash::{
        Word,
        program::{Kind, Statement},
    },
    diagnostic::{Diagnostic, Diagnostics, Strength},
    hir::PhaseKind,
    lint::{TaskView, script::Content, shell::comparison::COMPARES_OTHERWISE},
};

/// The number of other calls that establish the order.
const OTHERS: usize = 2;

/// `check .spec.replicas 3`, twice, and once `check 3 .spec.replicas`.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    for script in view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify) {
        let content = &*script.content;
        // Functions, and whether each reads fields: `.env` is a path only for them.
        let mut names: Vec<(&str, bool)> = Vec::new();
        content.program.walk(&mut |s| {
            if let Kind::Function { name, .. } = &s.kind {
                let text = content.text.get(s.range.clone()).unwrap_or_default();
                names.push((name, ["jq", "yq", "jsonpath", "--format"].iter().any(|word| text.contains(word))));
            }
        });
        if names.is_empty() || names.len() > 50 {
            continue;
        }
        let mut calls: Vec<&Statement> = Vec::new();
        content.program.walk(&mut |s| {
            if s.words().len() > 2 && names.iter().any(|(name, _)| *name == s.name()) {
                calls.push(s);
            }
        });
        for (name, has_fields) in names {
            of_function(content, name, has_fields, &calls, out);
        }
    }
}

fn of_function(content: &Content, name: &str, has_fields: bool, calls: &[&Statement], out: &mut Diagnostics) {
    let calls: Vec<&Statement> = calls.iter().copied().filter(|call| call.name() == name).collect();
    let Some(count) = calls.iter().map(|call| call.words().len()).min().filter(|_| calls.len() > OTHERS) else {
        return;
    };
    for at in 1..count.saturating_sub(1) {
        for shape in [is_path, is_number].into_iter().skip(usize::from(!has_fields)) {
            let order = |call: &&&Statement| match (call.words().get(at), call.words().get(at + 1)) {
                (Some(a), Some(b)) if a.literal && b.literal => Some((shape(a), shape(b))),
                _ => None,
            };
            let orders: Option<Vec<(bool, bool)>> = calls.iter().map(|call| order(&call)).collect();
            let Some(orders) = orders else { continue };
            for known in [(true, false), (false, true)] {
                let turned = (known.1, known.0);
                let mut odd = orders.iter().enumerate().filter(|(_, order)| **order == turned);
                let (Some((odd, _)), None) = (odd.next(), odd.next()) else { continue };
                let is_order = orders.iter().enumerate().all(|(at, order)| at == odd || *order == known);
                let (Some(call), true) = (calls.get(odd), is_order) else { continue };
                let Some(first) = calls.iter().enumerate().find(|(at, _)| *at != odd).map(|(_, call)| call) else {
                    continue;
                };
                out.push(
                    Diagnostic::new(
                        &COMPARES_OTHERWISE,
                        content.span(call.range.clone()),
                        format!("the arguments of `{name}` are in the opposite order to all its other calls"),
                    )
                    .label(content.span(first.range.clone()), "the order here")
                    .strength(Strength::Warning)
                    .help("exchange the two arguments"),
                );
                return;
            }
        }
    }
}

/// Whether a word is a path to a field: `.spec.replicas`, `{.spec.replicas}`, `$.items`.
fn is_path(word: &Word) -> bool {
    [".", "{.", "{{", "$."].iter().any(|head| word.text.starts_with(head)) && word.text.len() > 2
}

fn is_number(word: &Word) -> bool {
    word.text.parse::<f64>().is_ok()
}
