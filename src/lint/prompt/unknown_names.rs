//! The prompt names a thing that nothing else in the task has, where setup creates another one of its kind.

use crate::{
    ascii::{Ascii, ascii},
    diagnostic::{Diagnostic, Diagnostics},
    effects::{Verb, value::Value},
    hir::PhaseKind,
    lint::{TaskView, analysis::texts, prompt::disagrees::PROMPT_DISAGREES},
};

/// `` has a table `people` ``, where setup creates only the table `contacts`, and verify queries that.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    let Some(prompt) = &view.task.prompt else { return };
    let said = view.effects.prompt.shown();
    if !view.effects.sees(PhaseKind::Setup) || !NAMED.is_match(&said) {
        return;
    }
    let texts = crate::lint::analysis::facts::elsewhere(view);
    for found in NAMED.captures_iter(&said) {
        let (Some(word), Some(name)) = (found.get(1), found.get(2)) else { continue };
        let kind = kind_of(word.as_str());
        let sentence = texts::sentence(&said, name.start());
        // Each clause has a meaning of its own.
        let head = said.get(sentence.start..word.start()).unwrap_or_default();
        let head = head.rsplit([',', ':']).next().unwrap_or_default();
        let name = name.as_str();
        let is_elsewhere =
            [&texts.verify, &texts.rest].iter().any(|text| text.to_lowercase().contains(&name.to_lowercase()))
                || crate::lint::analysis::facts::data(view).to_lowercase().contains(&name.to_lowercase());
        // What the agent is asked to create is not there.
        if name.len() < 3 || is_elsewhere || MAKES.is_match(head) {
            continue;
        }
        let made: Vec<&str> = view
            .effects
            .in_phase(PhaseKind::Setup)
            .filter(|act| act.verb == Verb::Creates && act.thing.kind == kind)
            .filter_map(|act| act.thing.name.as_ref().and_then(Value::literal))
            .collect();
        let Some(other) = made.first().filter(|_| !made.iter().any(|made| is_whole(&said, made))) else {
            continue;
        };
        let is_read = view.effects.in_phase(PhaseKind::Verify).any(|act| {
            act.thing.kind == kind
                && act.thing.name.as_ref().and_then(Value::literal).is_some_and(|name| made.contains(&name))
        });
        let is_near = made.iter().any(|made| {
            made.starts_with(name) || name.starts_with(made) || crate::lint::resources::odd_word::is_slip(name, made)
        });
        if is_read || is_near {
            let finding = Diagnostic::new(
                &PROMPT_DISAGREES,
                prompt.text.span,
                format!("the prompt names the {} `{name}`, and setup creates `{other}`", word.as_str()),
            );
            out.push(finding.help("the two must agree: correct the one that is wrong"));
            return;
        }
    }
}

/// Whether a text has a name that is not a part of a longer name or path.
fn is_whole(text: &str, name: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '/');
    text.match_indices(name).any(|(at, _)| !text[..at].ends_with(part) && !text[at + name.len()..].starts_with(part))
}

/// The kind as the effects of a task name it.
fn kind_of(word: &str) -> String {
    let lower = word.to_lowercase().replace([' ', '-'], "");
    match lower.as_str() {
        "persistentvolumeclaim" => "pvc".to_owned(),
        _ => lower,
    }
}

static NAMED: Ascii = ascii(
    r"(?i)\b(table|view|schema|database|deployment|service account|service|pod|namespace|config ?map|secret|stateful ?set|daemon ?set|cron ?job|branch|tag|bucket|queue|topic|volume|network|container|role|user|index|release|virtual machine)(?:\s+(?:named|called))?\s+[`\x22]([A-Za-z][\w.-]*)[`\x22]",
);
static MAKES: Ascii = ascii(
    r"(?i)\b(?:create|make|add|define|build|write|new|rename|copy|name it|called|into|set up|insert|store|save|deploy|install|move|no|not|without)\b",
);
