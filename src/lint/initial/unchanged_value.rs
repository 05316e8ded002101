//! The new value that the prompt gives is the one that setup already sets: nothing has to change.

use crate::{
    ascii::{Ascii, ascii},
    diagnostic::{Diagnostic, Diagnostics},
    lint::{
        TaskView,
        analysis::{facts, orders::KEEPS, texts},
        initial::already_true::ALREADY_TRUE,
    },
};

/// `--from-literal=password=autumn-2026` in setup, where the prompt says that the new value of the key password is `autumn-2026`.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    let Some(prompt) = &view.task.prompt else { return };
    let said = view.effects.prompt.shown();
    if !NEW.is_match(&said) {
        return;
    }
    let given = facts::given(view);
    // Each is compared with the others.
    if given.len() > MANY {
        return;
    }
    let verify = &facts::elsewhere(view).verify;
    for fact in given {
        let value = fact.text();
        let is_special =
            value.len() > 5 && value.bytes().any(|b| b.is_ascii_digit() || matches!(b, b'-' | b'_' | b'.'));
        if !is_special || fact.key.len() < 3 || !texts::has_word(verify, &value) {
            continue;
        }
        // Setup may set another value first, or the same one for something else.
        let is_only = given.iter().all(|other| other.key != fact.key || other.text() == value);
        let asks = said.match_indices(value.as_str()).any(|(at, _)| {
            let sentence = &said[texts::sentence(&said, at)];
            let head = &said[texts::sentence(&said, at).start..at];
            NEW.is_match(head)
                && LEADS.is_match(head)
                && texts::has_word(sentence, &fact.key)
                && !KEEPS.is_match(sentence)
                && !FROM.is_match(head)
        });
        if is_only && asks && !out.iter().any(|known| known.rule.name == ALREADY_TRUE.name) {
            out.push(
                Diagnostic::new(
                    &ALREADY_TRUE,
                    fact.span,
                    format!("setup already sets `{}` to `{value}`, the new value of the prompt", fact.key),
                )
                .label(prompt.text.span, "the prompt asks for it here")
                .help("set another value in setup: otherwise an agent passes that does nothing"),
            );
            return;
        }
    }
}

/// The most fields that are compared with each other.
const MANY: usize = 200;
static NEW: Ascii = ascii(r"(?i)\b(?:new|rotate|change|replace|update)\b");
/// Words directly before a new value.
static LEADS: Ascii = ascii(r"(?i)(?:\b(?:is|to|by|with|be)|=|:)\s*[`\x22']?$");
/// Words before a value that is to be replaced.
static FROM: Ascii = ascii(r"(?i)\b(?:from|instead of|currently|old|is now)\s+[`\x22']?$");
