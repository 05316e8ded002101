//! Tasks that are too large to compare their parts with each other.

use crate::{
    diagnostic::Diagnostic,
    effects::script::ScriptView,
    hir::{Def, Part, Task},
    rule,
};

rule! {
    pub static TOO_LARGE = "too-large", Warning;
}

/// The maximum number of steps and statements of scripts: many rules compare each with each.
const PARTS: usize = 10_000;
/// The maximum size of the prompt and all scripts together, in bytes: many rules search them for each name.
const BYTES: usize = 256 << 10;

/// The warning about a task that is too large for rules other than those for hard errors.
pub fn too_large(task: &Task<Def>, scripts: &[ScriptView<'_>]) -> Option<Diagnostic> {
    let mut steps = 0;
    task.walk(&mut |_, _| steps += 1);
    let parts = steps + scripts.iter().map(|script| script.content.program.size).sum::<usize>();
    let literal = |part: &Part<Def>| if let Part::Text(text) = part { text.len() } else { 0 };
    let prompt = task.prompt.iter().flat_map(|prompt| &prompt.text.parts).map(literal);
    let bytes = prompt.sum::<usize>() + scripts.iter().map(|script| script.content.text.len()).sum::<usize>();
    let (message, limit) = match (parts > PARTS, bytes > BYTES) {
        (true, _) => (format!("this task has {parts} steps and statements"), format!("{PARTS}")),
        (_, true) => {
            (format!("prompt and scripts of this task have {} KiB", bytes >> 10), format!("{} KiB", BYTES >> 10))
        }
        _ => return None,
    };
    let help =
        format!("with more than {limit}, only rules for hard errors check a task: split it, or move data into files");
    Some(Diagnostic::new(&TOO_LARGE, task.name.span, message).help(help))
}
