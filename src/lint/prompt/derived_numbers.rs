//! Numbers that verify expects and that follow neither from setup nor from the prompt.

use rustc_hash::FxHashSet;

use crate::{
    ascii::{Ascii, ascii},
    diagnostic::{Diagnostic, Diagnostics},
    effects::value::Piece,
    lint::{
        TaskView,
        analysis::{
            facts::{self, Fact, alike},
            orders, texts,
        },
        initial::already_true::ALREADY_TRUE,
        prompt::{disagrees::PROMPT_DISAGREES, numbers},
        shell::impossible_values::IMPOSSIBLE_VALUE,
    },
    source::Span,
};

/// Fields whose number follows from more than is written in a task.
const OPEN: [&str; 19] = [
    "status",
    "code",
    "count",
    "total",
    "length",
    "size",
    "id",
    "iid",
    "revision",
    "version",
    "generation",
    "exitCode",
    "index",
    "restartCount",
    "number",
    "sum",
    "balance",
    "updated",
    "created",
];

/// `price` must be 21, where setup sets it to 20 and the prompt has no number that leads to 21.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    let Some(prompt) = &view.task.prompt else { return };
    let asked = facts::asked(view);
    let number = |fact: &Fact| fact.text().parse::<f64>().ok();
    let mut numbers = asked.iter().filter(|fact| fact.exact && number(fact).is_some()).peekable();
    if numbers.peek().is_none() {
        return;
    }
    let lower = view.effects.prompt.shown().to_lowercase();
    let told = told(&lower);
    let elsewhere = facts::elsewhere(view);
    for fact in numbers {
        let Some(wanted) = number(fact) else { continue };
        let text = fact.text();
        let is_written = || {
            texts::has_word(&lower, &text)
                || told.contains(&wanted)
                || has_number(&elsewhere.rest, &text)
                || has_number(facts::data(view), &text)
        };
        if fact.key.len() < 3 || wanted < 2.0 || OPEN.contains(&fact.key.as_str()) || is_written() {
            continue;
        }
        let found = keyed(&lower, fact).map(|said| format!("the prompt says `{said}`")).or_else(|| {
            let was = given(view, fact).filter(|_| is_mentioned(&lower, &fact.key))?;
            (!VAGUE.is_match(&lower) && !follows(was, wanted, &told))
                .then(|| format!("setup sets it to {was}, and no number in the prompt leads to {text}"))
        });
        if let Some(why) = found.filter(|_| !crate::lint::resources::elsewhere::out_has(out, fact.span)) {
            out.push(
                Diagnostic::new(
                    &PROMPT_DISAGREES,
                    fact.span,
                    format!("verify expects {text} for `{}`: {why}", fact.key),
                )
                .label(prompt.text.span, "the task of the agent")
                .help("the two must agree: correct the one that is wrong"),
            );
            return;
        }
    }
}

/// Whether a text has a number that is not a part of a version, an address or a time.
fn has_number(text: &str, number: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_');
    text.match_indices(number).any(|(at, _)| {
        let behind = &text[at + number.len()..];
        let joined = behind.starts_with('.') && behind[1..].starts_with(|c: char| c.is_ascii_digit());
        !text[..at].ends_with(part) && !joined && !behind.starts_with(|c: char| c.is_ascii_digit() || c == '_')
    })
}

/// Whether a prompt mentions a field, by its name or the last word of it.
fn is_mentioned(lower: &str, key: &str) -> bool {
    let words = crate::effects::words(key);
    let noun = words.last().map(|word| word.trim_end_matches('s')).filter(|noun| noun.len() > 3);
    lower.contains(&key.to_lowercase()) || noun.is_some_and(|noun| lower.contains(noun))
}

/// The numbers of a text, in digits or as words.
fn told(lower: &str) -> Vec<f64> {
    let words = lower.split(|c: char| !(c.is_ascii_alphanumeric() || c == '.')).map(|word| word.trim_matches('.'));
    let number = |word: &str| -> Option<f64> {
        let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let spelt = numbers::number(word).and_then(|number| u32::try_from(number).ok()).map(f64::from);
        spelt.or_else(|| digits.parse().ok())
    };
    words.filter_map(number).collect()
}

/// Whether what a finding says verify expects follows from setup and the prompt: the number is the sum, difference or product of one in setup
/// and the one of the prompt, in a sentence that speaks of a change; `total=7` is one of the answers `total=N`.
pub fn explains(view: &TaskView<'_>, finding: &Diagnostic) -> bool {
    let compares = finding.message.contains("the prompt says");
    let Some(expected) = finding.message.strip_prefix("verify expects ").filter(|_| compares) else { return false };
    let is_placeholder = |told: &str| {
        let value = told.rsplit(['=', ':', ' ']).next().unwrap_or_default();
        value.len() < told.len()
            && (value.len() == 1 && value.bytes().all(|b| b.is_ascii_uppercase()) || value.starts_with('<'))
    };
    if finding.message.split('`').nth(3).is_some_and(is_placeholder) {
        return true;
    }
    let number = |text: &str| text.split(['`', ' ']).next().and_then(|text| text.parse::<f64>().ok());
    let said = finding.message.split("the prompt says ").nth(1).and_then(|said| number(said.trim_start_matches('`')));
    let Some((wanted, by)) = number(expected.trim_start_matches('`')).zip(said) else { return false };
    let lower = view.effects.prompt.shown().to_lowercase();
    // The sentence with this number must speak of a change.
    let mut sentences = lower.split(['.', ';', '\n']).filter(|sentence| CHANGE.is_match(sentence));
    let Some(sentence) = sentences.find(|sentence| told(sentence).contains(&by)) else { return false };
    let setup = [facts::elsewhere(view).rest.as_str(), facts::data(view)].concat();
    let was = told(&setup);
    let is = |value: f64| (value - wanted).abs() < 1e-6;
    let is_factor = by > 1.0 && TIMES.is_match(sentence);
    was.iter().any(|was| by > 0.0 && (is(was + by) || is(was - by) || is_factor && is(was * by)))
}

/// Words with which a prompt multiplies a number.
static TIMES: Ascii = ascii(r"\b(?:times|doubl\w*|twice|tripl\w*)\b");

/// Words with which a prompt changes a number by another.
static CHANGE: Ascii = ascii(
    r"\b(?:more|less|fewer|additional|extra|another|adds?|added|adding|increas\w*|decreas\w*|rais\w*|lower\w*|reduc\w*|by|pay\w*|transfer\w*|move\w*|withdraw\w*|deposit\w*|refund\w*|spend\w*|sells?|sold|buys?|bought|ships?|shipped|restock\w*|remov\w*|delet\w*|takes?|gives?|books?|booked|subtract\w*|grow\w*|shrink\w*|times|doubl\w*|twice|tripl\w*)\b",
);

/// Words with which a prompt describes a number that it does not contain.
static VAGUE: Ascii = ascii(
    r"\b(?:half|halve|double|twice|triple|third|quarter|tenth|dozen|average|mean|sum|total|increment|decrement|next|previous|same|copy|like|all|every|each|per|until|enough|match|maximum|minimum|max|min|largest|smallest|compute|calculate|convert|recommended|appropriate|suitable|fit|as many|autoscal\w*|default)\b",
);

/// Whether a number follows from the one in setup and those of the prompt by a single operation.
fn follows(was: f64, wanted: f64, told: &[f64]) -> bool {
    let near = |value: f64| (value - wanted).abs() < 0.01 * wanted.abs().max(1.0) * 0.5;
    let with = |number: &f64| {
        let part = number / 100.0;
        [
            was + number,
            was - number,
            was * number,
            if *number == 0.0 { f64::NAN } else { was / number },
            was * part,
            was * (1.0 - part),
            was * (1.0 + part),
            number * 60.0,
            number * 3600.0,
            number * 86400.0,
            number * 1000.0,
            number * 1024.0,
            number * 1_048_576.0,
            number * 1_073_741_824.0,
            number * 100.0,
        ]
    };
    let among = |a: &f64| {
        told.iter().any(|b| near(a + b) || near(a - b) || near(a * b) || near(was + a + b) || near(was + a - b))
    };
    near(was + 1.0) && told.is_empty()
        || near(was - 1.0) && told.is_empty()
        || told.iter().any(|number| with(number).into_iter().any(near) || among(number))
}

/// The only number that setup gives to a field.
fn given(view: &TaskView<'_>, fact: &Fact) -> Option<f64> {
    let same = facts::given(view).iter().filter(|given| {
        let parents = given.parent.is_none() || fact.parent.is_none() || given.parent == fact.parent;
        alike(&given.key, &fact.key) && parents
    });
    let values: Option<Vec<f64>> = same.map(|given| given.text().parse().ok()).collect();
    let values = values?;
    let first = *values.first()?;
    values.iter().all(|value| value.to_bits() == first.to_bits()).then_some(first)
}

/// `replicas` must be 3, where setup sets it to 2 and the prompt asks for three more.
pub fn added(view: &TaskView<'_>, out: &mut Diagnostics) {
    let Some(prompt) = &view.task.prompt else { return };
    let lower = view.effects.prompt.shown().to_lowercase();
    let mut more = ADDED.captures_iter(&lower);
    let (Some(only), None) = (more.next(), more.next()) else { return };
    let Some(more) = told(&only[1]).first().copied().filter(|more| *more > 0.0) else { return };
    // Setup may give one value and the resource that is meant another one, so only the number itself is certainly wrong.
    let is_wrong = |fact: &&Fact| fact.exact && alike(&fact.key, "replicas") && fact.text().parse() == Ok(more);
    let Some((fact, was)) =
        facts::asked(view).iter().filter(is_wrong).find_map(|fact| Some((fact, given(view, fact)?)))
    else {
        return;
    };
    if was > 0.0 && was.to_bits() != more.to_bits() {
        let message = format!(
            "verify expects {more} for `{}`, but {more} more than the {was} of setup are {}",
            fact.key,
            was + more
        );
        out.push(
            Diagnostic::new(&PROMPT_DISAGREES, fact.span, message)
                .label(prompt.text.span, "the task of the agent")
                .help("the two must agree: correct the one that is wrong"),
        );
    }
}

static ADDED: Ascii =
    ascii(r"\b(\d+|two|three|four|five|six|seven|eight|nine|ten)\s+(?:more|additional|extra|further)\b");

/// `three replicas` of the prompt, for another number of the field `replicas`.
fn keyed(lower: &str, fact: &Fact) -> Option<String> {
    let words = crate::effects::words(&fact.key);
    let noun = words.last()?.trim_end_matches('s').to_owned();
    if noun.len() < 5 {
        return None;
    }
    let mut found: FxHashSet<String> = FxHashSet::default();
    for (at, _) in lower.match_indices(noun.as_str()) {
        let sentence = &lower[texts::sentence(lower, at)];
        if RELATIVE.is_match(sentence) || orders::KEEPS.is_match(sentence) {
            return None;
        }
        let head = &lower[..at];
        if !head.ends_with([' ', '\n']) {
            continue;
        }
        let before = head.split_whitespace().next_back().unwrap_or_default();
        if numbers::number(before).is_some_and(|number| number > 1) {
            found.insert(before.to_owned());
        }
    }
    let mut found = found.into_iter();
    found.next().filter(|_| found.next().is_none()).map(|number| format!("{number} {noun}s"))
}

static RELATIVE: Ascii = ascii(
    r"\b(?:by|more|additional|another|extra|fewer|less|further|double|half|twice|each|per|every|between|range|from|total|sum|up to|at most|maximum|minimum|at least|if|when|while|until|currently|now|has|have|had|was|were)\b",
);

/// `onSale` must be false, as setup sets it, where the prompt says to put it on sale.
pub fn booleans(view: &TaskView<'_>, out: &mut Diagnostics) {
    let Some(prompt) = &view.task.prompt else { return };
    for fact in facts::asked(view).iter().filter(|fact| fact.exact && fact.value.is_boolean()) {
        let words = crate::effects::words(&fact.key);
        if words.len() < 2 {
            continue;
        }
        let phrase = words.join(" ").to_lowercase();
        let said = view.effects.prompt.shown();
        let lower = said.to_ascii_lowercase();
        // Each clause has a meaning of its own.
        let clause = |at: usize| {
            let whole = texts::sentence(&said, at);
            let start = said[whole.start..at].rfind([',', ':']).map_or(whole.start, |mark| whole.start + mark + 1);
            let end = said[at..whole.end].find([',', ':']).map_or(whole.end, |mark| at + mark);
            &said[start..end]
        };
        let mut places = lower.match_indices(&phrase).map(|(at, _)| clause(at)).peekable();
        let is_asked = places.peek().is_some()
            && places.all(|sentence| {
                !orders::KEEPS.is_match(sentence) && !sentence.contains(" no ") && CHANGES.is_match(sentence)
            });
        let mut given = facts::given(view).iter().filter(|given| given.key == fact.key).peekable();
        let Some(made) = given.peek().map(|given| given.span) else { continue };
        if is_asked
            && given.all(|given| given.text() == fact.text())
            && !crate::lint::resources::elsewhere::out_has(out, fact.span)
        {
            out.push(
                Diagnostic::new(
                    &ALREADY_TRUE,
                    fact.span,
                    format!("`{}: {}` is already present before the agent runs", fact.key, fact.text()),
                )
                .label(made, "setup creates it here")
                .label(prompt.text.span, "the prompt asks for it here")
                .help("start from a different state in setup: the task must not pass if the agent does nothing"),
            );
            return;
        }
    }
}

static CHANGES: Ascii = ascii(r"(?i)\b(?:put|set|turn|switch|make|mark|take|change|enable|disable|move|bring|let)\b");

/// `on TCP port 160`, where verify checks ports and nothing else in the task has this one.
pub fn ports(view: &TaskView<'_>, out: &mut Diagnostics) {
    let Some(prompt) = &view.task.prompt else { return };
    let said = view.effects.prompt.shown();
    let texts = facts::elsewhere(view);
    // Another rule has compared them.
    if !out.is_empty() || !said.contains("port ") || !texts.verify.contains("ort") {
        return;
    }
    let has = |number: &str| {
        texts::has_word(&texts.verify, number)
            || texts::has_word(&texts.rest, number)
            || texts::has_word(facts::data(view), number)
    };
    let lost = PORT.captures_iter(&said).filter_map(|found| Some(found.get(1)?.as_str())).find(|port| !has(port));
    let Some(port) = lost else { return };
    // Verify has a port that the prompt does not mention.
    let other = CHECKED
        .captures_iter(&texts.verify)
        .filter_map(|found| Some(found.get(1)?.as_str()))
        .find(|other| !texts::has_word(&said, other));
    if let Some(other) = other {
        out.push(
            Diagnostic::new(
                &PROMPT_DISAGREES,
                prompt.text.span,
                format!("the prompt asks for port {port}, which nothing else in the task has: verify checks {other}"),
            )
            .help("the two must agree: correct the one that is wrong"),
        );
    }
}

static PORT: Ascii = ascii(r"\bports? (\d{2,5})\b");
static CHECKED: Ascii = ascii(r#"(?i)\bports?["'\])}]*\s*(?:[:=!]=?|-eq|-ne)\s*["']?(\d{2,5})\b"#);

/// `namespace: /tmp/chart`: a value that no namespace can have.
pub fn namespaces(view: &TaskView<'_>, out: &mut Diagnostics) {
    let mut told: FxHashSet<Span> = FxHashSet::default();
    for act in view.effects.acts.iter().filter(|act| act.thing.system == "kubernetes") {
        let Some(space) = &act.thing.space else { continue };
        let is_odd = |c: char| c.is_ascii_uppercase() || matches!(c, '/' | ':' | '_' | '.' | '@');
        let odd = space
            .pieces()
            .iter()
            .any(|piece| matches!(piece, Piece::Text(text) if text.contains(is_odd) && !text.contains(['{', '$'])));
        if odd && told.insert(act.span) {
            out.push(
                Diagnostic::new(
                    &IMPOSSIBLE_VALUE,
                    act.span,
                    format!("`{}` cannot be the name of a namespace", space.shown()),
                )
                .help("use the namespace that setup creates"),
            );
        }
    }
}
