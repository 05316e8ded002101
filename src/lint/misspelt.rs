//! Arguments that are nearly a word that their operation knows.

use serde_json::Value;

use super::TaskView;
use crate::{
    diagnostic::{Diagnostic, Diagnostics, nearest},
    hir::{Def, OperationKind, Step},
    kubernetes::operation::is_known_group,
    rule,
};

rule! {
    pub static MISSPELT_VALUE = "misspelt-value", Verdict;
}

/// `condition: Avialable`, `resource: deploymnt/web`, `kind: podz`: the schema of the argument has examples, this is none of them and nearly one.
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
    let version = step.args.iter().find(|(name, _)| name.value == "apiVersion").map(|(_, arg)| arg.as_literal());
    for (name, arg) in &step.args {
        let Some(text) = arg.as_literal() else { continue };
        let examples = schema.json()["properties"][&name.value]["examples"].as_array();
        let examples: Vec<&str> = examples.into_iter().flatten().filter_map(Value::as_str).collect();
        // `pod/NAME` is an example of what stands before the slash.
        let named: Vec<&str> = examples.iter().filter_map(|example| example.strip_suffix("/NAME")).collect();
        let known = if named.is_empty() { examples } else { named };
        let word = match name.value.as_str() {
            "kind" | "resource" => {
                let kind = text.split('/').next().unwrap_or(text);
                let (word, group) = kind.split_once('.').unwrap_or((kind, ""));
                // A custom resource may have any name.
                if !is_known_group(group)
                    || name.value == "kind" && !version.is_none_or(|v| v.is_some_and(is_known_group))
                {
                    continue;
                }
                word
            }
            _ => text,
        };
        if known.iter().any(|known| known.eq_ignore_ascii_case(word)) {
            continue;
        }
        if let Some(near) = near(word, &known) {
            let message = format!("`{word}` is none of the known values of `{}`, and nearly one", name.value);
            out.push(
                Diagnostic::new(&MISSPELT_VALUE, arg.span, message)
                    .here(format!("did you mean `{near}`?"))
                    .help("where it is meant, say so: `# gevals: allow(misspelt-value)`"),
            );
        }
    }
}

/// The known word that was meant: in the case of the first letter, and of a singular and its plural the singular.
fn near<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let is_upper = |word: &str| word.starts_with(char::is_uppercase);
    let mut words: Vec<&str> = known.iter().copied().filter(|known| is_upper(known) == is_upper(word)).collect();
    if words.is_empty() {
        words = known.to_vec();
    }
    // Among words of two or three letters all are near to one another.
    if word.chars().count() < 4 {
        return words.into_iter().find(|known| is_swapped(word, known));
    }
    let singular = |word: &&str| word.strip_suffix('s').is_none_or(|singular| !known.contains(&singular));
    nearest(word, words.iter().copied()).or_else(|| nearest(word, words.iter().copied().filter(singular)))
}

/// Whether two neighbouring letters changed places in a word of at least three.
fn is_swapped(word: &str, known: &str) -> bool {
    let [word, known] = [word, known].map(|text| text.to_lowercase().into_bytes());
    let differ = || word.iter().zip(&known).enumerate().filter(|(_, (a, b))| a != b).map(|(at, _)| at);
    let places: Vec<_> = differ().collect();
    match places.as_slice() {
        &[a, b] => {
            word.len() == known.len() && known.len() > 2 && b == a + 1 && word[a] == known[b] && word[b] == known[a]
        }
        _ => false,
    }
}
