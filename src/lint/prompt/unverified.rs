//! Values that the prompt tells the agent to set, but verify never checks.

use crate::{
    diagnostic::{Diagnostic, Diagnostics},
    effects::value::Value,
    hir::{Arg, ArgKind, Def, OperationKind, PhaseKind},
    lint::{
        TaskView, UnderView,
        analysis::{facts, orders, quantity::Quantity, texts},
    },
    rule,
    source::mentions,
};

rule! {
    pub static VALUE_NOT_VERIFIED = "value-not-verified", Warning;
}

/// Requires that the prompt tells the agent to set a value (`set the mode to live`, `with 3 replicas`), that the value
/// appears nowhere else in the task or the assertions of the eval in any form, and that verify decides by itself, without a judge.
pub fn check(view: &UnderView<'_, '_>, out: &mut Diagnostics) {
    let Some((said, prompt)) = facts::prompt(view) else { return };
    // An empty model: only findings outside of the task are wanted.
    let is_modeled = view.effects.prompt != Value::default();
    if !is_modeled || view.task.verify.steps.is_empty() || judged(view) {
        return;
    }
    let mut wanted = wanted(said);
    wanted.extend(made(said));
    wanted.extend(attributes(said));
    wanted.extend(published(said));
    let sentences = sentences(said);
    if wanted.is_empty() && sentences.is_empty() || has_one_of(said, &SHOWS) || is_dry(said) {
        return;
    }
    let mut known = facts::elsewhere(view).verify.clone();
    before_cleanup(view, &mut known);
    view.task.walk(&mut |phase, step| {
        if phase == PhaseKind::Cleanup {
            return;
        }
        step.args.iter().for_each(|(_, arg)| numbers(arg, &mut known));
        step.expect.iter().for_each(|(_, arg)| numbers(arg, &mut known));
    });
    for script in &view.effects.scripts {
        script.trace.sources.iter().for_each(|content| known.push_str(&content.text));
    }
    // `promtool test rules rules_test.yml`: the expectations of a test are in a file beside the task.
    let verify = facts::elsewhere(view).verify.as_str();
    if verify.contains("test ") {
        let tests = mentions(verify, &view.task.dir, view.files);
        let texts = tests.keys().filter_map(|path| view.files.read(path).ok());
        texts.for_each(|text| known.push_str(&String::from_utf8_lossy(&text)));
    }
    // What setup has under another name says nothing about a sentence.
    let verified = known.get(..facts::elsewhere(view).verify.len()).unwrap_or_default().to_lowercase();
    // Assertions may require the value as an argument.
    if let Some(eval) = view.eval.filter(|_| view.asserted) {
        known.push_str(view.sources.get(eval.unit.file).text());
    }
    let known = known.to_lowercase();
    // An amount also counts as part of another format, such as the schedule `15 * * * *` or a pattern.
    let amounts = Quantity::all(&known);
    let bare_known = bare(&known);
    let told = wanted.into_iter().map(|value| (value, false)).chain(sentences.into_iter().map(|text| (text, true)));
    for (value, is_sentence) in told {
        let lower = value.to_lowercase();
        let stands = known.contains(&lower)
            || is_sentence && long_words(&lower).any(|word| verified.contains(word))
            || lower.len() > 3 && lower.starts_with(char::is_alphabetic) && bare_known.contains(&bare(&lower))
            || cents(&lower).is_some_and(|cents| texts::has_word(&known, &cents))
            || Quantity::of_value(&lower).is_some_and(|quantity| amounts.iter().any(|(_, other)| other.is(&quantity)));
        if !stands {
            out.push(
                Diagnostic::new(
                    &VALUE_NOT_VERIFIED,
                    prompt,
                    format!("the prompt asks for `{value}`, but verify does not check it"),
                )
                .help("check this value in verify: otherwise an agent passes that uses a different one"),
            );
            return;
        }
    }
}

/// The letters and digits of a text: `on-failure` is `OnFailure` in another spelling.
fn bare(text: &str) -> String {
    text.chars().filter(char::is_ascii_alphanumeric).collect()
}

/// Adds the texts of variables and setup. What only cleanup mentions is not checked.
fn before_cleanup(view: &TaskView<'_>, known: &mut String) {
    let mut push = |text: &str| {
        known.push_str(text);
        known.push('\n');
    };
    view.task.env.iter().for_each(|(_, template)| push(&texts::written(template)));
    view.task.walk(&mut |phase, step| {
        if phase == PhaseKind::Setup {
            step.templates(&mut |template| push(&texts::written(template)));
        }
    });
    let scripts = view.scripts.iter().filter(|script| script.phase == PhaseKind::Setup);
    scripts.for_each(|script| push(&script.content.text));
}

/// The amount `4.50` in cents.
fn cents(amount: &str) -> Option<String> {
    let (whole, part) = amount.split_once('.')?;
    let is_number = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    (part.len() == 2 && is_number(whole) && is_number(part)).then(|| format!("{}{part}", whole.trim_start_matches('0')))
}

/// Whether the prompt asks for a dry run: `Dry run the update`.
fn is_dry(said: &str) -> bool {
    let lower = said.to_ascii_lowercase();
    lower.contains("dry run") || lower.contains("dry-run")
}

/// Adds the literal values that are not text: `equals: 3`.
fn numbers(arg: &Arg<Def>, known: &mut String) {
    match &arg.kind {
        ArgKind::Record(fields) => fields.iter().for_each(|(_, arg)| numbers(arg, known)),
        ArgKind::List(items) => items.iter().for_each(|arg| numbers(arg, known)),
        _ => known.extend(arg.as_value().map(|value| format!("{value}\n"))),
    }
}

/// Whether a judge or a program that is not analyzed takes part in the decision.
pub fn judged(view: &TaskView<'_>) -> bool {
    let mut judged = !view.effects.sees(PhaseKind::Verify);
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| judged |= matches!(step.op.kind, OperationKind::Builtin("llm")));
    });
    judged
}

/// The values that a prompt tells the agent to set: after `to`, a quoted word, a number or a version; after `with`, a
/// count. Runs for every prompt, and regular expressions would be slower.
fn wanted(said: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for lead in ["to ", "version ", "tag ", "with "] {
        for (at, _) in said.match_indices(lead) {
            if said[..at].ends_with(|c: char| c.is_ascii_alphanumeric()) {
                continue;
            }
            let behind = &said[at + lead.len()..];
            let quote = behind.chars().next().filter(|c| matches!(c, '"' | '`'));
            let start = at + lead.len() + usize::from(quote.is_some());
            // In quotes, it may also be a pair: `"stage=production"`.
            let part = |c: char| {
                c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | ':' | '-' | '%') || c == '=' && quote.is_some()
            };
            let end = said[start..].find(|c: char| !part(c)).map_or(said.len(), |end| start + end);
            let text = said[start..end].trim_end_matches(['.', ':']);
            let is_number = text.trim_start_matches('v').starts_with(|c: char| c.is_ascii_digit());
            let is_value = match quote {
                // Otherwise, the quoted text also contains a hole, a space or a path.
                Some(quote) => said[end..].starts_with(quote),
                None => is_number && !said[end..].starts_with(['/', '{']),
            };
            let counts = lead != "with "
                || text.bytes().all(|b| b.is_ascii_digit())
                    && said[end..]
                        .strip_prefix(' ')
                        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase()));
            if !is_value || !counts || text.is_empty() || text.len() < 2 && !is_number {
                continue;
            }
            let sentence = orders::sentence(said, start);
            let head = &said[sentence.start..at];
            // `Set the mode to live, and leave the queue`: consider each clause separately.
            let clause = head.rfind([',', ';', '(']).map_or(head, |mark| &head[mark..]);
            let behind = start + text.len();
            let rest = &said[behind..sentence.end.max(behind)];
            let rest = rest.split([',', ';', ')']).next().unwrap_or_default();
            let gives = has_one_of(head, &GIVES) || head.to_ascii_lowercase().contains("roll out");
            if gives
                && !last_word(clause).is_some_and(|word| AWAY.contains(&word))
                && !orders::KEEPS.is_match(clause)
                && !orders::KEEPS.is_match(rest)
                && !orders::DELETES.is_match(clause)
                && !found.iter().any(|known| known == text)
            {
                found.push(text.to_owned());
            }
        }
    }
    found
}

/// The exact values of attributes that a prompt gives to what the agent creates: `create … with the restart policy `unless-stopped``.
fn attributes(said: &str) -> Vec<String> {
    let mut found = Vec::new();
    for noun in ATTRIBUTES {
        for (at, _) in said.match_indices(noun) {
            let Some(behind) = said[at + noun.len()..].strip_prefix([' ', '\n']).map(str::trim_start) else { continue };
            let Some(quote) = behind.chars().next().filter(|c| matches!(c, '"' | '`')) else { continue };
            let Some((text, rest)) = behind[1..].split_once(quote).filter(|(text, _)| text.len() <= LONGEST) else {
                continue;
            };
            let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
            let sentence = orders::sentence(said, at);
            let head = &said[sentence.start..at];
            let clause = rest.split([',', ';', '.', '\n']).next().unwrap_or_default();
            // `a list of all tickets with the status `open``: this selects something.
            let is_given = has_one_of(head, &MAKES) && !has_one_of(head, &SELECTS);
            let is_kept =
                orders::KEEPS.is_match(head) || orders::KEEPS.is_match(clause) || orders::DELETES.is_match(head);
            if text.len() > 2 && text.chars().all(part) && is_given && !is_kept {
                found.push(text.to_owned());
            }
        }
    }
    found
}

/// The versions that a prompt tells the agent to publish: `publish the release v1.3.0`.
fn published(said: &str) -> Vec<String> {
    let mut found = Vec::new();
    for lead in [" release ", " tag ", " version "] {
        for (at, _) in said.match_indices(lead) {
            let text = token(&said[at + lead.len()..]).trim_matches(['`', '"']);
            let is_version = text.matches('.').count() > 0
                && text.trim_start_matches('v').starts_with(|c: char| c.is_ascii_digit())
                && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-'));
            let sentence = orders::sentence(said, at);
            let head = &said[sentence.start..at];
            let near: Vec<&str> = words(head).rev().take(3).collect();
            let is_object = near.iter().position(|word| PUBLISHES.contains(&word.to_lowercase().as_str()));
            let is_object = is_object.is_some_and(|verb| !near[..verb].iter().any(|word| LEADS.contains(word)));
            if is_version && is_object && !orders::KEEPS.is_match(head) && !orders::DELETES.is_match(&said[at..]) {
                found.push(text.to_owned());
            }
        }
    }
    found
}

/// Nouns before the value of an attribute.
const ATTRIBUTES: [&str; 16] = [
    "policy",
    "mode",
    "level",
    "strategy",
    "priority",
    "severity",
    "visibility",
    "driver",
    "timezone",
    "locale",
    "encoding",
    "region",
    "license",
    "theme",
    "role",
    "color",
];
/// Verbs that create something that may have attributes.
const MAKES: [&str; 13] = [
    "create",
    "recreate",
    "configure",
    "start",
    "restart",
    "run",
    "deploy",
    "launch",
    "give",
    "make",
    "publish",
    "set",
    "provision",
];
/// Words of a clause that selects something by its attribute.
const SELECTS: [&str; 16] = [
    "all", "every", "each", "any", "which", "whose", "that", "where", "report", "list", "summary", "count", "those",
    "only", "find", "other",
];
/// Verbs that make a version available.
const PUBLISHES: [&str; 7] = ["publish", "release", "cut", "create", "draft", "tag", "ship"];

/// The names and texts that a prompt tells the agent to add, and the paths to which it should copy or write something:
/// `add the feature "export"`, `a section that mentions undo`, `copy it to archive/2024/`.
fn made(said: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut add = |at: usize, verbs: &[&str], text: &str| {
        let sentence = orders::sentence(said, at);
        let head = &said[sentence.start..at];
        // The verb may be in an earlier clause: `create a tag, named v2`.
        let is_kept = orders::KEEPS.is_match(&said[sentence.clone()]) || orders::DELETES.is_match(head);
        if has_one_of(head, verbs) && !is_kept && text.len() > 2 && !has_one_of(text, &LOOSE) {
            found.push(text.to_owned());
        }
    };
    for (at, text) in quoted_objects(said) {
        let is_plain = text.chars().all(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        if is_plain {
            add(at, &ADDS, text);
        }
    }
    for lead in [" mentions ", " mentioning "] {
        for (at, _) in said.match_indices(lead) {
            let text = token(&said[at + lead.len()..]);
            let is_name = text.starts_with(|c: char| c.is_ascii_alphanumeric());
            if is_name {
                add(at, &ADDS, text);
            }
        }
    }
    for lead in [" to ", " into "] {
        for (at, _) in said.match_indices(lead) {
            let text = token(&said[at + lead.len()..]).trim_matches(['`', '"', '\'']);
            let name = text.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
            let is_path = text.contains('/') && !text.contains(['{', '$', '*', ':']);
            let is_far = orders::sentence(said, at).start + 80 < at;
            if is_path && !is_far {
                add(at, &COPIES, if text.ends_with('/') { text.trim_end_matches('/') } else { name });
            }
        }
    }
    found
}

/// The texts in quotes that a prompt tells the agent to add, with their places.
fn quoted_objects(said: &str) -> impl Iterator<Item = (usize, &str)> {
    said.match_indices(['"', '`']).filter_map(move |(at, quote)| {
        let before = &said[..at];
        let len = said[at + 1..].find(quote).filter(|len| *len <= LONGEST && before.ends_with(' '))?;
        // `add "a" to "b"`: nothing between the verb and its object leads to another thing.
        let clause = &before[orders::sentence(said, at).start..];
        let near: Vec<&str> = words(clause).rev().take(3).collect();
        let verb = near.iter().position(|word| ADDS.contains(&word.to_lowercase().as_str()))?;
        (!near[..verb].iter().any(|word| LEADS.contains(word))).then(|| (at, &said[at + 1..at + 1 + len]))
    })
}

/// The sentences that a prompt tells the agent to add: `add the line "Tuesday - fixed the login"`. Verify may look for any part of one.
fn sentences(said: &str) -> Vec<String> {
    let is_sentence = |text: &str| has_one_of(text, &LOOSE) && long_words(text).count() > 1;
    quoted_objects(said)
        .filter(|(at, text)| {
            let around = &said[orders::sentence(said, *at)];
            is_sentence(text) && !orders::KEEPS.is_match(around) && !orders::DELETES.is_match(around)
        })
        .map(|(_, text)| text.to_owned())
        .collect()
}

/// The words of a text that a check would look for.
fn long_words(text: &str) -> impl Iterator<Item = &str> {
    words(text).filter(|word| word.len() > 3)
}

/// The first word of a text, without punctuation after it.
fn token(text: &str) -> &str {
    text.split_whitespace().next().unwrap_or_default().trim_end_matches(['.', ',', ';', ':', ')'])
}

/// The number of bytes of the longest text that a prompt is assumed to quote.
const LONGEST: usize = 60;
/// Verbs that add something new.
const ADDS: [&str; 6] = ["add", "append", "insert", "include", "enable", "write"];
/// Verbs that put something at a path.
const COPIES: [&str; 6] = ["copy", "move", "save", "write", "export", "store"];
/// Words after which another thing is meant than the object of the verb.
const LEADS: [&str; 10] = ["to", "in", "into", "from", "of", "on", "for", "with", "after", "before"];
/// Words that a check rarely contains literally.
const LOOSE: [&str; 12] = ["the", "a", "an", "this", "that", "it", "its", "how", "what", "why", "which", "all"];

fn words(text: &str) -> impl DoubleEndedIterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty())
}

fn last_word(text: &str) -> Option<&str> {
    words(text).next_back()
}

fn has_one_of(text: &str, known: &[&str]) -> bool {
    words(text).any(|word| known.iter().any(|known| known.eq_ignore_ascii_case(word)))
}

/// Verbs that set a value.
const GIVES: [&str; 21] = [
    "set",
    "pin",
    "rename",
    "change",
    "update",
    "scale",
    "switch",
    "turn",
    "raise",
    "increase",
    "lower",
    "reduce",
    "upgrade",
    "bump",
    "patch",
    "adjust",
    "resize",
    "extend",
    "label",
    "tag",
    "downgrade",
];
/// Words before `to` after which no value follows: `up to 5`, `pages 2 to 4`.
const AWAY: [&str; 12] =
    ["up", "close", "next", "listen", "connect", "belong", "similar", "relative", "reply", "answer", "page", "line"];
/// Words of a prompt that asks for no change.
const SHOWS: [&str; 4] = ["would", "preview", "explain", "how"];
