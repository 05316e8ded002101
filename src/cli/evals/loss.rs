//! The loss report of `export` and `import`: what the other format cannot express.

use serde_json::{Value, json};

use crate::{
    builtin::count,
    diagnostic::{Diagnostic, visible},
    primitive::bridge::{Effect, Loss},
    source::{Sources, Span},
};

/// If more losses than this are alike, only the first is shown, with the names of the others.
const ALIKE: usize = 3;
/// The maximum number of these names.
const NAMED: usize = 8;

/// A loss, and the task or eval that has it.
#[derive(Debug)]
pub struct Lost {
    /// The name of the task or the eval.
    pub of: String,
    path: String,
    line: usize,
    column: usize,
    pub effect: Effect,
    message: String,
}

impl Lost {
    /// A loss of a task or an eval.
    pub fn new(of: &str, loss: &Loss, sources: &Sources) -> Self {
        Self::at(of, loss.span, loss.effect, &loss.message, sources)
    }

    /// A task or an eval that is left out because of an error in it.
    pub fn found(of: &str, found: &Diagnostic, span: Span, sources: &Sources) -> Self {
        Self::at(of, span, Effect::LeftOut, &found.message, sources)
    }

    /// A loss at a location.
    pub fn at(of: &str, span: Span, effect: Effect, message: &str, sources: &Sources) -> Self {
        let source = sources.get(span.file);
        let at = source.position(span.start);
        Self {
            of: of.to_owned(),
            path: source.path().display().to_string(),
            line: at.line,
            column: at.column,
            effect,
            message: message.to_owned(),
        }
    }
}

/// What was written and what was lost, for programs: `{written, losses}`.
pub fn document(written: &[Value], lost: &[Lost]) -> String {
    let loss = |lost: &Lost| {
        json!({
            "of": lost.of, "effect": lost.effect.name(), "message": lost.message,
            "path": lost.path, "line": lost.line, "column": lost.column,
        })
    };
    format!("{:#}\n", json!({"written": written, "losses": lost.iter().map(loss).collect::<Vec<_>>()}))
}

/// A line for each loss, or one for many that are alike.
pub fn text(lost: &[Lost]) -> String {
    let mut order: Vec<&Lost> = lost.iter().collect();
    order.sort_by_key(|lost| lost.effect);
    let mut groups: Vec<Vec<&Lost>> = Vec::new();
    for lost in order {
        match groups.iter_mut().find(|group| group[0].effect == lost.effect && group[0].message == lost.message) {
            Some(group) => group.push(lost),
            None => groups.push(vec![lost]),
        }
    }
    let mut text = String::new();
    for group in groups {
        let told = if group.len() > ALIKE { &group[..1] } else { &group[..] };
        for lost in told {
            let Lost { of, path, line, column, effect, message } = lost;
            let others: Vec<String> = group[told.len()..].iter().map(|lost| format!("`{}`", lost.of)).collect();
            let more = others.len().saturating_sub(NAMED);
            let and = if more > 0 { format!(", and {more} more") } else { String::new() };
            let alike = match others.is_empty() {
                true => String::new(),
                false => format!("; the same for {}{and}", others[..others.len().min(NAMED)].join(", ")),
            };
            let line = format!("{path}:{line}:{column}: {effect}: `{of}`: {message}{alike}");
            text += &format!("{}\n", visible(&line.replace('\n', " ")));
        }
    }
    text
}

/// How many losses change the result, in words; empty if none do.
pub fn summary(lost: &[Lost]) -> String {
    let decide = lost.iter().filter(|lost| matches!(lost.effect, Effect::Weaker | Effect::Differs)).count();
    match decide {
        0 => String::new(),
        n => format!("; {} the result", count(n, "loss changes", "losses change")),
    }
}
