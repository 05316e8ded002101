//! Images of containers that verify expects, and that neither setup nor the prompt names.

use crate::{
    diagnostic::{Diagnostic, Diagnostics},
    lint::{
        TaskView,
        analysis::{facts, texts},
        prompt::disagrees::PROMPT_DISAGREES,
    },
};

/// `image` must be `busybox:1.35`, setup deploys `busybox:1.36`, and the prompt asks for no other tag.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    let Some(prompt) = &view.task.prompt else { return };
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '/' | ':');
    let images = facts::asked(view).iter().filter(|fact| fact.exact && fact.key == "image");
    for fact in images {
        let image = fact.text();
        let Some((name, tag)) = image.rsplit_once(':').filter(|(name, tag)| {
            !name.is_empty() && tag.starts_with(|c: char| c.is_ascii_digit()) && image.chars().all(is_part)
        }) else {
            continue;
        };
        let said = view.effects.prompt.shown();
        // Without the tag, the prompt may ask for another one: `the newest patch release`.
        let asks = ["version", "tag", "upgrade", "update", "downgrade", "roll", "newer", "latest", "release", "bump"];
        if said.contains(tag) || asks.iter().any(|word| said.to_lowercase().contains(word)) {
            continue;
        }
        let mut of_setup = facts::elsewhere(view).rest.clone();
        of_setup.push_str(facts::data(view));
        let mut others = texts::words(&of_setup, is_part).filter_map(|(_, word)| {
            let other = word.strip_prefix(name)?.strip_prefix(':')?;
            other.starts_with(|c: char| c.is_ascii_digit()).then_some(word)
        });
        let Some(other) = others.next().filter(|other| *other != image && others.all(|word| word != image)) else {
            continue;
        };
        out.push(
            Diagnostic::new(
                &PROMPT_DISAGREES,
                fact.span,
                format!("verify expects the image `{image}`, but setup has `{other}`"),
            )
            .label(prompt.text.span, "the prompt names no image with this tag")
            .help("use the same image in setup and verify, or name the other one in the prompt"),
        );
    }
}
