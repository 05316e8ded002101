//! Arguments that are nearly a word that their operation knows.

use serde_json::Value;

use super::TaskView;
use crate::{
    diagnostic::{Diagnostic, Diagnostics, nearest},
    hir::{Def, OperationKind, Step},
    rule,
};

rule! {
    pub static MISSPELT_VALUE = "misspelt-value", Verdict;
}

/// `condition: Avialable`, `resource: deploymnt/web`: the schema of the argument has examples, this is none of them and nearly one.
/// Needs a schema of the operation, from the lock or of a bundled extension; a word that is near to none is no matter of this rule.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    view.task.walk(&mut |_, step| {
        if matches!(step.op.kind, OperationKind::Extension { .. }) {
            arguments(step, out);
        }
    });
}

fn arguments(step: &Step<Def>, out: &mut Diagnostics) {
    let Some(schema) = &step.op.signature.schema else { return };
    for (name, arg) in &step.args {
        let Some(text) = arg.as_literal() else { continue };
        let examples = schema.json()["properties"][&name.value]["examples"].as_array();
        let examples: Vec<&str> = examples.into_iter().flatten().filter_map(Value::as_str).collect();
        // `pod/NAME` is an example of what stands before the slash.
        let named: Vec<&str> = examples.iter().filter_map(|example| example.strip_suffix("/NAME")).collect();
        let (word, known) = match named.is_empty() {
            true => (text, examples),
            false => (text.split(['/', '.']).next().unwrap_or(text), named),
        };
        // Among words of two or three letters all are near to one another.
        if word.chars().count() < 4 || known.iter().any(|known| known.eq_ignore_ascii_case(word)) {
            continue;
        }
        if let Some(near) = nearest(word, known) {
            let message = format!("`{word}` is none of the known values of `{}`, and nearly one", name.value);
            out.push(
                Diagnostic::new(&MISSPELT_VALUE, arg.span, message)
                    .here(format!("did you mean `{near}`?"))
                    .help("where it is meant, say so: `# gevals: allow(misspelt-value)`"),
            );
        }
    }
}
