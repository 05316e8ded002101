//! Conditions of verify that hold before the agent has done anything.

use std::cell::LazyCell;

use rustc_hash::{FxHashMap, FxHashSet};

use super::{
    TaskView,
    facts::{self, alike},
    owner::{self, Owned},
    quantity::Quantity,
    script::ScriptView,
    texts,
};
use crate::{
    ascii::{Ascii, Match, ascii},
    bash::{fields, flow},
    diagnostic::{Diagnostic, Diagnostics},
    effects::{
        Act, Thing, Verb,
        asked::{self, Demand, Form, Question},
        shell::Run,
        value::Value,
    },
    hir::{ArgKind, BlockRole, Def, OperationKind, PhaseKind, Step},
    rule,
    source::{FileId, Span, resolve},
};

pub(super) use texts::sentence;

rule! {
    pub static ALREADY_TRUE = "already-true", Warning;
}

/// Requires that the prompt asks the agent for a value, a line or a resource (`set the mode to live`), that verify
/// checks for it, and that setup already provides it.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    let Some(prompt) = &view.task.prompt else { return };
    let said = view.effects.prompt.shown();
    let mut found: Vec<(Span, Span, String)> = Vec::new();
    values(view, &said, &mut found);
    lines(view, &said, &mut found);
    things(view, &said, &mut found);
    given_up(view, &said, &mut found);
    in_files(view, &said, out);
    file_steps(view, &said, out);
    waits(view, &mut found);
    only_there(view, &said, &mut found);
    no_rows(view, &said, &mut found);
    any_value(view, &said, &mut found);
    never_made(view, &said, out);
    old_values(view, &said, out);
    holds(view, &said, out);
    branches(view, out);
    denials(view, &said, out);
    never_there(view, out);
    uninstalled(view, &said, out);
    as_it_is(view, &said, out);
    let mut told: Vec<String> = Vec::new();
    for (span, made, what) in found {
        if told.contains(&what) {
            continue;
        }
        out.push(
            Diagnostic::new(&ALREADY_TRUE, span, format!("{what} is already present before the agent runs"))
                .label(made, "setup creates it here")
                .label(prompt.text.span, "the prompt asks for it here")
                .help("start from a different state in setup: the task must not pass if the agent does nothing"),
        );
        told.push(what);
    }
}

/// `set the mode to live`, where setup gives the field this value and no other.
fn values(view: &TaskView<'_>, said: &str, found: &mut Vec<(Span, Span, String)>) {
    let asked = facts::asked(view);
    if asked.is_empty() {
        return;
    }
    let (given, urls) = (facts::given(view), urls(view));
    for question in asked {
        let value = question.text();
        // `suspend the cron job`: the name of a boolean field is the verb.
        // `{name: X, value: Y}` is handled by its name.
        if question.key == "value" && owner::selected(view, question).is_some()
            || is_one_of_several(view, question.span)
            || facts::is_of_selector(view, question)
        {
            continue;
        }
        let is_verb = matches!(value.as_str(), "true" | "false")
            && ((value == "true" || !COPIES.is_match(said)) && is_told(said, &question.key)
                || fields::verbs(&value, &question.key).iter().any(|verb| is_ordered(said, verb)))
            || is_brought_about(said, &value)
            || is_consequence(said, &question.key)
            || is_purpose(said, &value);
        if value.is_empty() || !(is_verb || is_asked(said, &value) || is_wanted(said, question, &value)) {
            continue;
        }
        // `Turn the checkout flag to on` does not refer to the flag `search`.
        let of_another = || {
            let named = |key: &str, sentence: &str| key.len() > 3 && texts::has_word(sentence, key);
            let places = said.match_indices(value.as_str()).map(|(at, _)| &said[sentence(said, at)]);
            let places: Vec<&str> = places.filter(|sentence| texts::has_word(sentence, &value)).collect();
            let others = |sentence: &&str| {
                // `Assign it to lena` refers to the assignee.
                let stem = question.key.get(..5).unwrap_or(&question.key).to_lowercase();
                !sentence.to_lowercase().contains(&stem)
                    && asked.iter().any(|other| other.key != question.key && named(&other.key, sentence))
            };
            !places.is_empty() && places.iter().all(others)
        };
        let url = url_of(&urls, question.span);
        let beside = |fact: &facts::Fact| match (&fact.parent, &question.parent) {
            // A fact about one URL says nothing about another.
            _ if url.zip(url_of(&urls, fact.span)).is_some_and(|(a, b)| !is_one_url(a, b)) => false,
            _ if url.is_some_and(|url| is_of_other_step(view, url, fact.span)) => false,
            // The label of a node is no node selector of a pod.
            (a, Some(b)) if b == "nodeSelector" => a.as_ref() == Some(b),
            // `Name` by itself is ambiguous.
            (Some(a), Some(b)) if question.key.eq_ignore_ascii_case("name") => a == b,
            _ => true,
        };
        let owned = match owner::owned(view, question) {
            Owned::Missing => continue,
            Owned::By(facts) => facts,
            Owned::Unknown => Vec::new(),
        };
        let own = !owned.is_empty();
        let all = if own { &*owned } else { given };
        let mut same = all.iter().filter(|fact| alike(&fact.key, &question.key) && (own || beside(fact))).peekable();
        let Some(first) = same.peek().map(|fact| fact.span) else { continue };
        let amount = Quantity::of_value(&value);
        let equal = |text: &str| {
            let memory = || amount.as_ref().filter(|amount| amount.amount > 1024.0).zip(Quantity::of_memory(text));
            text == value || memory().is_some_and(|(amount, memory)| memory.is(amount))
        };
        if same.all(|fact| equal(&fact.text())) && !of_another() {
            found.push((question.span, first, format!("`{}: {value}`", question.key)));
        }
    }
}

/// Whether a value is one of several that one element of a list must have: `any(.ports[]; .port == 80 and .name == "http")`; or that of a
/// probe, where setup has the same port for another purpose.
fn is_one_of_several(view: &TaskView<'_>, place: Span) -> bool {
    let source = view.sources.get(place.file);
    let text = source.text();
    let start = text[..place.start as usize].rfind('\n').map_or(0, |at| at + 1);
    let line = text[start..].lines().next().unwrap_or_default();
    let is_probe = || line.contains("Probe") && !facts::elsewhere(view).rest.contains("Probe");
    line.contains("any(") && line.contains(" and ") || is_probe()
}

/// Returns the steps that send requests in order, each with its URL if known.
fn urls(view: &TaskView<'_>) -> Vec<(Span, Option<String>)> {
    let acts = view.effects.acts.iter().filter(|act| act.thing.system == "http");
    let known: FxHashMap<Span, &Value> = acts.filter_map(|act| Some((act.step, act.thing.name.as_ref()?))).collect();
    let mut found = Vec::new();
    view.task.walk(&mut |_, step| {
        if let Some(url) = known.get(&step.key) {
            let whole = Span { start: step.key.start, ..step.span };
            found.push((whole, url.is_known().then(|| url.shown())));
        }
    });
    found.sort_by_key(|(step, _)| step.start);
    found
}

/// Returns the URL of the request that contains a span.
fn url_of(urls: &[(Span, Option<String>)], place: Span) -> Option<&str> {
    let at = urls.partition_point(|(step, _)| step.start <= place.start).checked_sub(1)?;
    let (step, url) = &urls[at];
    url.as_deref().filter(|_| step.file == place.file && place.end <= step.end)
}

/// Whether two URLs refer to the same resource: they are equal, or one is below the other.
fn is_one_url(a: &str, b: &str) -> bool {
    let [a, b] = [a, b].map(|url| url.trim_end_matches('/'));
    let lies_in = |inner: &str, outer: &str| inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'));
    a == b || lies_in(a, b) || lies_in(b, a)
}

/// Whether a URL contains the output of a step of setup, and `made` is in another step that has an ID as well.
fn is_of_other_step(view: &TaskView<'_>, url: &str, made: Span) -> bool {
    let Some(id) = url.split_once("{steps.").and_then(|(_, rest)| rest.split_once('.')).map(|(id, _)| id) else {
        return false;
    };
    let mut other = false;
    view.task.walk(&mut |phase, step| {
        let contains = step.span.file == made.file && step.key.start <= made.start && made.end <= step.span.end;
        if phase == PhaseKind::Setup && contains && matches!(step.op.kind, OperationKind::Builtin("http")) {
            other |= step.id.as_ref().is_some_and(|own| own.value != id);
        }
    });
    other
}

/// Whether a prompt asks for a state with the verb that brings it about: `close the issue` for `closed`.
fn is_brought_about(said: &str, value: &str) -> bool {
    texts::verbs_for(value).iter().any(|verb| is_ordered(said, verb))
}

/// Whether a state is what an order is for: `start it, so that it runs always`, where the value is `Always`.
fn is_purpose(said: &str, value: &str) -> bool {
    let is_word = value.len() > 3 && value.bytes().all(|b| b.is_ascii_alphabetic());
    is_word
        && said.match_indices("so that").any(|(at, found)| {
            let rest = said[at + found.len()..sentence(said, at).end].to_lowercase();
            let clause = rest.split([',', ';', ':']).next().unwrap_or_default();
            texts::has_word(clause, &value.to_lowercase()) && !KEEPS.is_match(clause) && !NEGATES.is_match(clause)
        })
}

/// Whether the prompt names a field as what must be right in the end: `…, so that the stock is right again`.
fn is_consequence(said: &str, key: &str) -> bool {
    if key.len() < 4 || !said.contains("so that") {
        return false;
    }
    said.match_indices("so that").any(|(at, found)| {
        let rest = &said[at + found.len()..sentence(said, at).end];
        let clause = rest.split([',', ';', ':']).next().unwrap_or_default();
        let words: Vec<&str> = clause.split_whitespace().map(|word| word.trim_matches('`')).take(3).collect();
        matches!(words.as_slice(), ["the" | "its" | "their", field, "is" | "are"] if *field == key)
            && !KEEPS.is_match(clause)
            && !NEGATES.is_match(clause)
    })
}

/// `set the password to winter`, where verify expects `autumn`, the value from setup.
fn old_values(view: &TaskView<'_>, said: &str, out: &mut Diagnostics) {
    let asked = facts::asked(view);
    if asked.is_empty() {
        return;
    }
    let (given, lower) = (facts::given(view), said.to_lowercase());
    let mut told: Vec<String> = Vec::new();
    for question in asked {
        let (value, key) = (question.text(), question.key.to_lowercase());
        // `Deactivate the hook`, where verify expects `active: true`.
        let opposite = match value.as_str() {
            "true" => "false",
            "false" => "true",
            _ => "",
        };
        let is_reversed = fields::verbs(opposite, &question.key).iter().any(|verb| is_ordered(said, verb))
            && !fields::verbs(&value, &question.key).iter().any(|verb| is_ordered(said, verb));
        if key.len() < 4 || value.len() < 2 || texts::has_word(said, &value) || told.contains(&value) {
            continue;
        }
        let mut same = given.iter().filter(|fact| alike(&fact.key, &question.key)).peekable();
        let Some(first) = same.peek().map(|fact| fact.span) else { continue };
        let changes = lower.match_indices(&key).any(|(at, _)| {
            let around = sentence(&lower, at);
            let (head, tail) = (&lower[around.start..at], &lower[at + key.len()..around.end]);
            let clause = tail.split([',', ';']).next().unwrap_or_default();
            let is_next = clause.starts_with(" to ") || clause.starts_with("` to ");
            // `change the currency in the config map shop to CHF`
            let ends = || {
                let told = clause.rsplit_once(" to ").map(|(_, told)| told.trim().trim_matches(['.', '`', '"', '\'']));
                told.is_some_and(|told| told.len() > 1 && !told.contains(char::is_whitespace))
            };
            CHANGES.is_match(head) && !KEEPS.is_match(head) && (is_next || ends())
        });
        // The new value is required as well, so the old one is that of another resource.
        let is_changed = asked.iter().any(|other| {
            let text = other.text();
            alike(&other.key, &question.key) && text != value && texts::has_word(said, &text)
        });
        if (changes || is_reversed) && !is_changed && same.all(|fact| fact.text() == value) {
            told.push(value.clone());
            out.push(
                Diagnostic::new(
                    &ALREADY_TRUE,
                    question.span,
                    format!("setup already sets `{}: {value}`, but the prompt asks for another value", question.key),
                )
                .label(first, "setup sets it here")
                .help("check for the value in the prompt: the task must not pass if the agent does nothing"),
            );
        }
    }
}

/// Reports conditions of scripts that hold in the state after setup: `[ "$ready" -ge 1 ]` with one replica,
/// `jq -e .spec.replicas` with any.
fn holds(view: &TaskView<'_>, said: &str, out: &mut Diagnostics) {
    let mut told: Vec<Span> = Vec::new();
    let mut tell = |span: Span, made: Span, message: String| {
        if !told.contains(&span) {
            let finding = Diagnostic::new(&ALREADY_TRUE, span, message).label(made, "setup creates it here");
            out.push(finding.help("check for something that is true only after the agent has done its work"));
            told.push(span);
        }
    };
    for question in view.asked() {
        let Some(run) = question.runs.first() else { continue };
        // `if [ "$n" -lt 1 ]; then exit 1; fi` requires the opposite.
        let met = |number: f64| question.demand.is_met_by(number).is_some_and(|met| question.is_wanted() == Some(met));
        let (Some(tool), Some(act)) = (view.tools.tool(run.statement.tool()), view.effects.read_by(run)) else {
            continue;
        };
        let made = || {
            let mut made = view.effects.in_phase(PhaseKind::Setup);
            made.find(|made| made.verb == Verb::Creates && !made.maybe && made.thing.is(&act.thing))
        };
        match (&question.form, &question.demand) {
            (Form::Field(_), Demand::There) | (Form::Object, Demand::Matches { .. }) => {
                let path = match (&question.form, &question.demand) {
                    (Form::Field(path), _) => path.as_str(),
                    (_, Demand::Matches { pattern, options }) if !options.contains(['v', 'x']) => {
                        pattern.trim_matches(|c: char| !c.is_ascii_alphanumeric())
                    }
                    _ => continue,
                };
                let whole = question.form != Form::Object;
                let mut always = tool.always.get(&act.thing.kind).into_iter().flatten();
                let is_it =
                    |known: &&String| if whole { *known == path } else { known.rsplit('.').next() == Some(path) };
                if question.is_wanted() == Some(false) {
                    continue;
                }
                let Some(made) = made() else { continue };
                if let Some(field) = always.find(is_it) {
                    let message = format!("every {} has `{field}`, whatever its value", act.thing.kind);
                    tell(question.span, made.span, message);
                } else if let Demand::Matches { pattern, .. } = &question.demand
                    && pattern.trim_end().strip_suffix(':') == Some(path)
                    && facts::given(view).iter().any(|fact| fact.key == path)
                    && is_changed(said, path)
                {
                    let message =
                        format!("setup already gives the {} a `{path}`, and its value is not checked", act.thing.kind);
                    tell(question.span, made.span, message);
                }
            }
            (Form::Field(path), Demand::Compared { operator, .. })
                if matches!(operator.as_str(), "-ge" | "-gt" | "-le" | "-lt") =>
            {
                let key = path.rsplit('.').next().unwrap_or(path);
                let Some(value) = given_number(view, key, &act.thing.kind) else { continue };
                // A quota may keep the pods from being created.
                if key != "replicas" && facts::elsewhere(view).rest.to_lowercase().contains("resourcequota") {
                    continue;
                }
                // Next to a check that does not hold yet, a weaker check is acceptable.
                let fails = |other: &Question<'_>| {
                    let same =
                        matches!(&other.form, Form::Field(path) if alike(path.rsplit('.').next().unwrap_or(path), key));
                    let met = other.demand.is_met_by(value);
                    same && met.is_some_and(|met| other.is_wanted() == Some(!met))
                };
                if let (true, true, Some(made)) = (is_changed(said, key), met(value), made())
                    && !view.asked().iter().any(fails)
                {
                    tell(
                        question.span,
                        made.span,
                        format!("`{key}` is already {value} before the agent runs, so this check passes"),
                    );
                }
            }
            (Form::Count, Demand::Compared { .. }) => {
                let Some(rows) = rows(&question.runs) else { continue };
                let Some((count, made)) = counted(view, &act.thing, said) else { continue };
                if met(count + rows) {
                    tell(
                        question.span,
                        made,
                        format!("this is already true before the agent runs: setup creates {count}"),
                    );
                }
            }
            _ => {}
        }
    }
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            let number = |key: &str| step.arg(key).and_then(crate::hir::Arg::as_value).and_then(|value| value.as_f64());
            let counts = matches!(&step.op.kind, OperationKind::Extension { operation, .. } if operation == "count");
            let act = view.effects.in_phase(PhaseKind::Verify).find(|act| act.step == step.key).filter(|_| counts);
            let Some((count, made)) = act.and_then(|act| counted(view, &act.thing, said)) else { return };
            let bounds = [
                number("equals").map(|n| n == count),
                number("min").map(|n| n <= count),
                number("max").map(|n| n >= count),
            ];
            if bounds.iter().any(Option::is_some) && bounds.iter().flatten().all(|met| *met) {
                tell(step.key, made, format!("this is already true before the agent runs: setup creates {count}"));
            }
        });
    });
}

/// Every step of verify checks a field that has this value in the only manifests of setup, or compares with what setup has read.
fn as_it_is(view: &TaskView<'_>, said: &str, out: &mut Diagnostics) {
    if view.task.verify.steps.len() > MOST {
        return;
    }
    let model = view.effects;
    let is_changed =
        || model.in_phase(PhaseKind::Setup).any(|act| !matches!(act.verb, Verb::Creates | Verb::Awaits | Verb::Reads));
    if KEEPS.is_match(said)
        || LEAVES_ALONE.is_match(said)
        || NEGATES.is_match(said)
        || !model.sees(PhaseKind::Setup)
        || is_changed()
    {
        return;
    }
    let is_operation = |step: &Step<Def>, names: &[&str]| matches!(&step.op.kind, OperationKind::Extension { operation, .. } if names.contains(&operation.as_str()));
    let (asked, given) = (facts::asked(view), facts::given(view));
    let mut held: Option<(Span, Span, String)> = None;
    for step in &view.task.verify.steps {
        if is_operation(step, &["field-equals"]) {
            let Some(question) = asked.iter().find(|fact| step.span.contains(fact.span)) else { return };
            let read = model.in_phase(PhaseKind::Verify).find(|act| act.step == step.key);
            let is_made = read.is_some_and(|act| {
                let mut setup = model.in_phase(PhaseKind::Setup);
                setup.any(|made| made.verb == Verb::Creates && made.thing.is(&act.thing))
            });
            let mut same = given.iter().filter(|fact| fact.key == question.key).peekable();
            let Some(first) = same.peek().map(|fact| fact.span).filter(|_| is_made) else { return };
            if !same.all(|fact| fact.text() == question.text()) {
                return;
            }
            held.get_or_insert((question.span, first, format!("`{}: {}`", question.key, question.text())));
        } else if is_operation(step, &["get"]) {
            let value = step.expect.as_ref().and_then(|(_, expect)| texts::script_text(expect.get("value")?));
            let is_old = value.is_some_and(|value| {
                let id = value.strip_prefix("{steps.").and_then(|rest| rest.split('.').next());
                view.task.setup.steps.iter().any(|step| step.id.as_ref().is_some_and(|known| id == Some(&known.value)))
            });
            if !is_old {
                return;
            }
        } else {
            return;
        }
    }
    if let Some((span, made, what)) = held {
        let message = format!("all that verify checks is already so before the agent runs, such as {what}");
        out.push(
            Diagnostic::new(&ALREADY_TRUE, span, message)
                .label(made, "setup creates it here")
                .help("start from a different state in setup: the task must not pass if the agent does nothing"),
        );
    }
}

/// The most steps of a verify that are compared with all of setup.
const MOST: usize = 32;

/// Returns the number that setup gives to a field, if it gives no other.
fn given_number(view: &TaskView<'_>, key: &str, kind: &str) -> Option<f64> {
    let mut same = facts::given(view).iter().filter(|fact| alike(&fact.key, key)).map(facts::Fact::text).peekable();
    // A deployment without `replicas` has one.
    let default =
        || (kind == "deployment" && alike("replicas", key) && view.effects.sees(PhaseKind::Setup)).then_some(1.0);
    let Some(first) = same.peek().cloned() else { return default() };
    same.all(|value| value == first).then(|| first.parse().ok())?
}

/// Returns the number of rows in a list that are headers. `None` if the rows are filtered by anything but `Running`.
fn rows(runs: &[&Run<'_>]) -> Option<f64> {
    let (first, others) = runs.split_first()?;
    let plain = others.iter().all(|run| matches!(run.statement.name(), "wc" | "tr" | "xargs" | "cat"));
    let states = |run: &&Run<'_>| run.words.iter().any(|word| word.literal() == Some("Running"));
    let headed = plain && asked::is_headed(first);
    (plain || others.iter().all(states)).then_some(f64::from(u8::from(headed)))
}

/// Returns how many resources of a kind setup leaves in a namespace, and where one is created, if the prompt
/// asks for a change of their number.
fn counted(view: &TaskView<'_>, asked: &Thing, said: &str) -> Option<(f64, Span)> {
    const MAKERS: [&str; 8] = [
        "statefulset",
        "daemonset",
        "job",
        "cronjob",
        "pod",
        "replicaset",
        "replicationcontroller",
        "deploymentconfig",
    ];
    const KINDS: [&str; 10] = [
        "deployment",
        "service",
        "statefulset",
        "daemonset",
        "job",
        "cronjob",
        "ingress",
        "networkpolicy",
        "persistentvolumeclaim",
        "poddisruptionbudget",
    ];
    let model = view.effects;
    let space = asked.space.as_ref().filter(|space| space.is_known())?;
    if asked.system != "kubernetes" || asked.name.is_some() || !model.sees(PhaseKind::Setup) || DELETES.is_match(said) {
        return None;
    }
    let acts = |kinds: &[&str]| -> Vec<&Act> {
        let of = |act: &&Act| {
            act.thing.system == "kubernetes"
                && (kinds.contains(&&*act.thing.kind) || act.thing.kind.is_empty() || act.thing.kind == "all")
                && act.thing.space.as_ref().is_none_or(|other| other.may_be(space))
                && matches!(act.verb, Verb::Creates | Verb::Changes | Verb::Deletes)
        };
        model.in_phase(PhaseKind::Setup).filter(of).collect()
    };
    let pods = asked.kind == "pod";
    let kind = if pods { "deployment" } else { KINDS.iter().find(|kind| **kind == asked.kind)? };
    let done = acts(&[kind]);
    let sure = done
        .iter()
        .all(|act| act.verb == Verb::Creates && !act.maybe && act.thing.space.as_ref().is_some_and(|s| s.is(space)));
    let first = done.first().filter(|_| sure)?;
    let count = match pods {
        true if done.len() == 1 && acts(&MAKERS).is_empty() => given_number(view, "replicas", "deployment")?,
        true => return None,
        false => done.len() as f64,
    };
    // Otherwise, the prompt may demand that there are no others.
    let asks = match pods {
        true => is_changed(said, "replicas"),
        false => !KEEPS.is_match(said) && !texts::has_word(said, "only") && !texts::has_word(said, "one"),
    };
    asks.then_some((count, first.span))
}

/// Whether a prompt asks to change a field, in a sentence that contains its name.
fn is_changed(said: &str, key: &str) -> bool {
    let words = if alike("replicas", key) { vec!["replica".to_owned()] } else { crate::effects::words(key) };
    let Some(word) = words.last().filter(|word| word.len() > 3) else { return false };
    // ASCII lowercase keeps byte offsets valid: `İ` has more bytes in lowercase.
    said.to_ascii_lowercase().match_indices(word.as_str()).any(|(at, _)| {
        let whole = &said[sentence(said, at)];
        (CHANGES.is_match(whole) || WANTS.is_match(whole)) && !KEEPS.is_match(whole)
    })
}

/// Whether a prompt asks for a value in words that name its field: `let it allow 6 pods` for `pods`,
/// `at least 2 must stay available` for `minAvailable`.
fn is_wanted(said: &str, question: &facts::Fact, value: &str) -> bool {
    let around = question.parent.iter().filter(|_| question.key.eq_ignore_ascii_case("name"));
    let words: Vec<String> = std::iter::once(&question.key)
        .chain(around)
        .flat_map(|key| crate::effects::words(key))
        .filter(|word| {
            word.len() > 2
                && !matches!(word.as_str(), "name" | "value" | "min" | "max" | "spec" | "status" | "key" | "text")
        })
        .map(|word| word.trim_end_matches('s').to_owned())
        .collect();
    if words.is_empty() || matches!(value, "true" | "false") {
        return false;
    }
    // In `Do not change the replicas`, the number is only mentioned.
    let keeps = |at: usize| {
        let sentence = &said[sentence(said, at)].to_lowercase();
        words.iter().any(|word| sentence.contains(word.as_str())) && !texts::has_word(sentence, value)
    };
    if LEAVES_ALONE.find_iter(said).any(|found| keeps(found.start())) {
        return false;
    }
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let whole = said.match_indices(value).map(|(at, _)| at).filter(|at| {
        let (before, behind) = (&said[..*at], &said[at + value.len()..]);
        !before.ends_with(part) && !behind.starts_with(part) && !before.ends_with('.')
    });
    let mut places: Vec<usize> = whole.collect();
    // `256 MiB` equals 268435456.
    if let Some(amount) = Quantity::of_value(value).filter(|amount| places.is_empty() && amount.amount > 59.0) {
        let lower = said.to_ascii_lowercase();
        let told = Quantity::all(&lower).into_iter().filter(|(_, q)| !q.unit.is_empty() && q.is(&amount));
        places.extend(told.map(|(at, _)| at).filter(|at| said.is_char_boundary(*at)));
    }
    // `The team scaled it to 4 replicas`: the value is the state that the agent finds, and verify guards it.
    if places.iter().any(|at| is_past(&said[sentence(said, *at).start..*at])) {
        return false;
    }
    places.into_iter().any(|at| {
        let whole = sentence(said, at);
        let start = said[whole.start..at].rfind([',', ':']).map_or(whole.start, |mark| whole.start + mark + 1);
        let end = said[at..whole.end].find([',', ':']).map_or(whole.end, |mark| at + mark);
        let clause = said[start..end].to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ");
        let clause = clause.replace("stay available", "be available").replace("stay up", "be up");
        // The rest may be `…, as they are now`.
        let rest = said[end..whole.end].split_whitespace().collect::<Vec<_>>().join(" ");
        WANTS.is_match(&said[whole.clone()])
            && !KEEPS.is_match(&clause)
            && !AS_IT_IS.is_match(&rest)
            && !LIMIT_STAYS.is_match(&rest)
            && words.iter().any(|word| clause.contains(word.as_str()))
    })
}

/// Whether the text before a value says that it was set earlier: `the team scaled the deployment to `.
fn is_past(head: &str) -> bool {
    PAST.captures_iter(head).any(|found| {
        let before = head[..found.get(0).map_or(0, |all| all.start())].trim_end().to_ascii_lowercase();
        // `It must be scaled to 4`, `scaled to 4 it would start`.
        let words = before.trim_end_matches(|c: char| !c.is_ascii_alphabetic());
        let last = words.rsplit(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
        !matches!(last, "" | "be" | "get" | "gets" | "is" | "are" | "when" | "if" | "once" | "and")
    })
}

/// `append the line "2. Elections"`, where a file written by setup already contains it.
fn lines(view: &TaskView<'_>, said: &str, found: &mut Vec<(Span, Span, String)>) {
    let mut written: Vec<(Span, String)> = Vec::new();
    view.task.setup.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            if matches!(step.op.kind, OperationKind::Tool { .. } | OperationKind::Builtin("file")) {
                step.args
                    .iter()
                    .for_each(|(_, arg)| arg.templates(&mut |text| written.push((step.key, texts::written(text)))));
            }
        });
    });
    for script in view.effects.scripts.iter().filter(|script| script.view.phase == PhaseKind::Setup) {
        for run in script.trace.runs.iter().filter(|run| run.output.is_some()) {
            let span = run.content.span(run.statement.range.clone());
            match run.statement.name() {
                "echo" | "printf" => written.extend(run.words.iter().skip(1).map(|word| (span, word.shown()))),
                _ => written.extend(run.input.iter().map(|text| (span, text.shown()))),
            }
        }
    }
    if written.is_empty() {
        return;
    }
    cut(view, said, &written, found);
    let mut told = FxHashSet::default();
    for quoted in QUOTED.captures_iter(said) {
        let (Some(whole), Some(text)) = (quoted.get(0), quoted.get(1).or_else(|| quoted.get(2))) else { continue };
        let (text, sentence) = (text.as_str(), sentence(said, whole.start()));
        let head = &said[sentence.start..whole.start()];
        // A single word is usually a key, or refers to something else.
        let is_line = text.contains([' ', ':', '=', '#', '.']);
        let object = !AWAY.is_match(&head[ADDS.find_iter(head).last().map_or(0, |verb| verb.end())..]);
        if text.len() < 4
            || !is_line
            || !object
            || !ADDS.is_match(head)
            || KEEPS.is_match(&said[sentence.clone()])
            || told.contains(text)
            || head.contains(" from ")
        {
            continue;
        }
        told.insert(text);
        let Some((made, _)) = written.iter().find(|(_, known)| known.contains(text)) else { continue };
        // Another sentence may say `… is there already`.
        let stays = || said.match_indices(text).any(|(at, _)| KEEPS.is_match(&said[self::sentence(said, at)]));
        if let Some(span) = looks_for(view, text).filter(|_| !stays()) {
            found.push((span, *made, format!("`{text}`")));
        }
    }
}

/// `contains: "debug ="`, where setup writes `debug = true` and the prompt asks for `debug = false`: both contain it.
fn cut(view: &TaskView<'_>, said: &str, written: &[(Span, String)], found: &mut Vec<(Span, Span, String)>) {
    let mut asked: Vec<(Span, String)> = Vec::new();
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            let contains = step.expect.as_ref().and_then(|(_, expect)| expect.get("contains"));
            let of_file = matches!(step.op.kind, OperationKind::Builtin("file"));
            asked.extend(contains.filter(|_| of_file).and_then(|arg| Some((arg.span, arg.as_literal()?.to_owned()))));
        });
    });
    for question in view.asked() {
        if let (true, Demand::Matches { pattern, options }) = (question.runs.is_empty(), &question.demand)
            && !options.contains(['v', 'x', 'w', 'c'])
        {
            asked.push((question.span, pattern.trim_start_matches('^').to_owned()));
        }
    }
    for (span, text) in asked {
        let bare = text.trim_end();
        if bare.len() < 3 || !bare.ends_with(['=', ':']) {
            continue;
        }
        let behind = |whole: &str| -> Option<String> {
            let rest = whole[whole.find(bare)? + bare.len()..].trim_start_matches(' ');
            let value = rest
                .split(|c: char| c.is_whitespace() || matches!(c, ')' | ',' | '`' | '"'))
                .next()?
                .trim_end_matches('.');
            (!value.is_empty()).then(|| value.to_owned())
        };
        let Some(wanted) = behind(said) else { continue };
        if let Some((made, _)) = written.iter().find(|(_, known)| behind(known).is_some_and(|value| value != wanted)) {
            found.push((span, *made, format!("`{text}` (without its value)")));
        }
    }
}

/// Returns the files that setup creates, each with its content if known.
pub(super) fn files(view: &TaskView<'_>) -> Vec<(Value, Option<String>, Span)> {
    let acts = view.effects.in_phase(PhaseKind::Setup).filter(|act| act.thing.system == "file");
    let acts = acts.filter(|act| matches!(act.verb, Verb::Creates | Verb::Changes));
    let mut found: Vec<(Value, Option<String>, Span)> = Vec::new();
    let mut places: FxHashMap<(FileId, u32), Vec<usize>> = FxHashMap::default();
    for act in acts {
        let Some(name) = act.thing.name.clone() else { continue };
        places.entry((act.span.file, act.span.start)).or_default().push(found.len());
        let script = view.scripts.iter().find(|script| script.step.key == act.step);
        found.push((seen_from(script, &name), None, act.span));
    }
    let mut write = |span: Span, text: Option<String>| {
        for at in places.get(&(span.file, span.start)).into_iter().flatten() {
            found[*at].1.clone_from(&text);
        }
    };
    view.task.setup.steps.iter().for_each(|step| {
        let content = step.arg("content").filter(|_| matches!(step.op.kind, OperationKind::Builtin("file")));
        if let Some(content) = content.and_then(|content| content.as_literal()) {
            write(step.key, Some(content.to_owned()));
        }
    });
    for script in view.effects.scripts.iter().filter(|script| script.view.phase == PhaseKind::Setup) {
        for run in script.trace.runs.iter().filter(|run| run.output.is_some() && !run.maybe) {
            let text = match run.statement.name() {
                "cat" if run.words.len() == 1 => run.input.as_ref().and_then(Value::literal).map(str::to_owned),
                "printf" if run.words.len() == 2 => {
                    let text = run.words[1].literal().filter(|text| !text.contains('%'));
                    text.map(|text| text.replace("\\n", "\n"))
                }
                "echo" if run.words.len() == 2 => run.words[1].literal().map(|text| format!("{text}\n")),
                _ => None,
            };
            write(run.content.span(run.statement.range.clone()), text);
        }
    }
    found
}

/// `grep -q 'workers:' app.yaml`, where the file from setup has such a line and the prompt asks to change it.
fn in_files(view: &TaskView<'_>, said: &str, out: &mut Diagnostics) {
    let asked = view.asked().iter().filter(|question| question.file.is_some());
    let asked: Vec<&Question<'_>> = asked.collect();
    if asked.is_empty() || !view.effects.sees(PhaseKind::Setup) {
        return;
    }
    let files = LazyCell::new(|| files(view));
    for question in asked {
        let (Some(file), Demand::Matches { pattern, options }) = (&question.file, &question.demand) else { continue };
        // The name of the setting to change: the first word of the pattern that is longer than two characters.
        let part = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
        let key = pattern.split(part).find(|word| word.len() > 2);
        if files.is_empty() || key.is_none() || !options.chars().all(|c| "qsEFiwxn".contains(c)) {
            continue;
        }
        let script = view.scripts.iter().find(|script| std::ptr::eq(&*script.content, question.content));
        let file = [file.clone(), seen_from(script, file)];
        // A file that is created twice, or changed, may have any content.
        let mut same = files.iter().filter(|(name, ..)| file.iter().any(|file| name.may_be(file)));
        let (Some((name, Some(text), made)), None) = (same.next(), same.next()) else { continue };
        if !file.iter().any(|file| name.is(file)) || !key.is_some_and(|key| is_changed(said, key)) {
            continue;
        }
        let pattern_of = match (options.contains('F'), options.contains('E') || question.statement.name() == "egrep") {
            (true, _) => regex::escape(pattern),
            (_, true) => pattern.clone(),
            // Of basic regular expressions, only those that mean the same in both syntaxes.
            _ if pattern.contains(['\\', '+', '?', '(', '{', '|']) => continue,
            _ => pattern.clone(),
        };
        let (head, tail) = match (options.contains('x'), options.contains('w')) {
            (true, _) => ("^(?:", ")$"),
            (_, true) => (r"\b(?:", r")\b"),
            _ => ("(?:", ")"),
        };
        let letters = if options.contains('i') { "(?mi)" } else { "(?m)" };
        let Ok(regex) = regex::Regex::new(&format!("{letters}{head}{pattern_of}{tail}")) else { continue };
        if regex.is_match(text) && question.is_wanted() == Some(true) {
            out.push(
                Diagnostic::new(
                    &ALREADY_TRUE,
                    question.span,
                    format!("a line that matches `{pattern}` already exists before the agent runs"),
                )
                .label(*made, "setup creates the file here")
                .help("check for the line that the prompt asks for: the task must not pass if the agent does nothing"),
            );
        }
    }
}

/// Resolves the path of a file in the directory of a script that never changes to another one.
fn seen_from(script: Option<&ScriptView<'_>>, name: &Value) -> Value {
    let place = || {
        let script = script.filter(|script| script.content.program.commands().iter().all(|c| !goes_away(c.name())))?;
        let path = name.literal().filter(|path| !path.starts_with(['/', '~']))?;
        Some(Value::text(resolve(script.dir.as_ref()?, path).to_string_lossy()))
    };
    place().unwrap_or_else(|| name.clone())
}

fn goes_away(command: &str) -> bool {
    matches!(command, "cd" | "pushd" | "popd")
}

/// Reports a verify that only checks files written by setup, where every check already
/// succeeds on the content from setup.
fn file_steps(view: &TaskView<'_>, said: &str, out: &mut Diagnostics) {
    let (setup, verify) = (&view.task.setup.steps, &view.task.verify.steps);
    let is_file = |step: &Step<Def>| matches!(step.op.kind, OperationKind::Builtin("file"));
    if view.asserted || !CHANGES.is_match(said) || KEEPS.is_match(said) || !setup.iter().chain(verify).all(is_file) {
        return;
    }
    let path = |step: &Step<Def>| Some(resolve(&view.task.dir, step.arg("path")?.as_literal()?));
    let written: Option<Vec<_>> =
        setup.iter().map(|step| Some((path(step)?, step.arg("content")?.as_literal()?, step.key))).collect();
    let Some(written) = written else { return };
    let made = verify.iter().map(|step| {
        let path = path(step)?;
        let (_, content, made) = written.iter().rev().find(|(known, ..)| *known == path)?;
        let (_, expect) = step.expect.as_ref()?;
        finds(&expect.as_value()?, content).then_some(*made)
    });
    let Some(made) = made.collect::<Option<Vec<_>>>() else { return };
    if let (Some(first), Some(made)) = (verify.first(), made.first()) {
        let message = "these files already have the expected content before the agent runs";
        let finding = Diagnostic::new(&ALREADY_TRUE, first.key, message).label(*made, "setup writes it here");
        out.push(finding.help("check for what the prompt asks for: the task must not pass if the agent does nothing"));
    }
}

/// `anyOf` with a branch that only looks for a text in a file, which setup writes with this text: the other branches decide nothing.
fn branches(view: &TaskView<'_>, out: &mut Diagnostics) {
    let path = |step: &Step<Def>| match &step.arg("path")?.kind {
        ArgKind::Text(path) => Some(texts::written(path)),
        _ => None,
    };
    let is_file = |step: &Step<Def>| matches!(step.op.kind, OperationKind::Builtin("file"));
    let mut written: Vec<(String, String, Span)> = Vec::new();
    view.task.setup.steps.iter().filter(|step| is_file(step)).for_each(|step| {
        let content = step.arg("content").and_then(|content| content.as_literal());
        written.extend(path(step).zip(content).map(|(path, content)| (path, content.to_owned(), step.key)));
    });
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            if !matches!(step.op.kind, OperationKind::Builtin("anyOf")) {
                return;
            }
            for branch in step.blocks.iter().filter(|block| block.role == BlockRole::Branch) {
                let [only] = branch.steps.as_slice() else { continue };
                if let Some(made) = is_given(view, only) {
                    let message = "this branch of `anyOf` succeeds before the agent runs";
                    let finding =
                        Diagnostic::new(&ALREADY_TRUE, only.key, message).label(made, "setup creates it here");
                    out.push(
                        finding.help("look for what the agent changes: with this branch, the others decide nothing"),
                    );
                    continue;
                }
                let name = path(only).filter(|_| is_file(only));
                let mut same = written.iter().filter(|(known, ..)| name.as_ref() == Some(known));
                let (Some((_, content, made)), None) = (same.next(), same.next()) else { continue };
                let expect = only.expect.as_ref().and_then(|(_, expect)| expect.as_value());
                if expect.is_some_and(|expect| finds(&expect, content)) {
                    let message = "this branch of `anyOf` succeeds before the agent runs";
                    let finding =
                        Diagnostic::new(&ALREADY_TRUE, only.key, message).label(*made, "setup writes it here");
                    out.push(
                        finding.help("look for what the agent writes: with this branch, the others decide nothing"),
                    );
                }
            }
        });
    });
}

/// Where setup gives a field the value that a `field-equals` expects, if it gives it no other and creates the resource.
fn is_given(view: &TaskView<'_>, step: &Step<Def>) -> Option<Span> {
    let is_check = matches!(&step.op.kind, OperationKind::Extension { operation, .. } if operation == "field-equals");
    let value = step.arg("value").filter(|_| is_check)?;
    let asked = facts::asked(view).iter().find(|fact| fact.span == value.span)?;
    let act = view.effects.in_phase(PhaseKind::Verify).find(|act| act.step == step.key)?;
    let mut made = view.effects.in_phase(PhaseKind::Setup);
    made.find(|made| made.verb == Verb::Creates && !made.maybe && made.thing.is(&act.thing))?;
    let mut same = facts::given(view).iter().filter(|fact| fact.key == asked.key).peekable();
    let first = same.peek()?.span;
    same.all(|fact| fact.text() == asked.text()).then_some(first)
}

/// `kubectl wait pod/import-3 --for=delete`, where setup only creates other pods.
fn never_there(view: &TaskView<'_>, out: &mut Diagnostics) {
    let model = view.effects;
    if !model.sees(PhaseKind::Setup) {
        return;
    }
    let mut told: Vec<Span> = Vec::new();
    for run in owner::runs(view, PhaseKind::Verify).filter(|run| run.statement.tool() == "kubectl") {
        let has = |text: &str| run.words.iter().any(|word| word.literal() == Some(text));
        let place = owner::place(run);
        let is_known = out.iter().any(|known| known.span == place);
        if run.lenient || !has("wait") || !has("--for=delete") || told.contains(&place) || is_known {
            continue;
        }
        let awaited: Vec<&Act> = model
            .in_phase(PhaseKind::Verify)
            .filter(|act| act.span.file == place.file && act.span.start == place.start && act.thing.name.is_some())
            .collect();
        let made = |thing: &Thing| {
            let of_kind = |act: &&Act| act.verb == Verb::Creates && act.thing.kind == thing.kind;
            let known: Vec<&Act> = model.in_phase(PhaseKind::Setup).filter(of_kind).collect();
            let may_be = |act: &&Act| act.thing.name.as_ref().zip(thing.name.as_ref()).is_none_or(|(a, b)| a.may_be(b));
            (!known.is_empty() && !known.iter().any(may_be)).then(|| known.first().map(|act| act.span))
        };
        // A workload makes pods with its name and a suffix.
        let name = |thing: &Thing| thing.name.as_ref().and_then(Value::literal).unwrap_or_default().to_owned();
        let derived = |thing: &Thing| {
            let own = name(thing);
            let makers = model.acts.iter().filter(|act| act.verb == Verb::Creates && act.thing.kind != thing.kind);
            own.is_empty()
                || makers
                    .filter_map(|act| act.thing.name.as_ref())
                    .any(|maker| maker.literal().is_none_or(|maker| own.starts_with(maker)))
        };
        // `unknown-resource` reports a single one.
        let several = awaited.len() > 1;
        let missing = awaited.iter().filter(|_| several).find(|act| !derived(&act.thing) && made(&act.thing).is_some());
        if let Some(act) = missing {
            told.push(place);
            let message =
                format!("the {} is already absent before the agent runs: nothing creates it", act.thing.shown());
            let finding = Diagnostic::new(&ALREADY_TRUE, place, message);
            let finding = match made(&act.thing).flatten() {
                Some(other) => finding.label(other, "setup creates others"),
                None => finding,
            };
            out.push(finding.help("wait for what setup creates and the prompt asks to delete"));
        }
    }
}

/// A verify that only asks what an account must not be allowed, where the prompt asks to allow it something.
fn denials(view: &TaskView<'_>, said: &str, out: &mut Diagnostics) {
    if !GRANTS.is_match(said) || !view.effects.sees(PhaseKind::Setup) {
        return;
    }
    let grants = |act: &Act| act.verb == Verb::Creates && act.thing.kind.contains("role");
    let (mut first, mut others) = (None, false);
    for script in view.effects.scripts.iter().filter(|script| script.view.phase == PhaseKind::Verify) {
        for run in &script.trace.runs {
            let has = |text: &str| run.words.iter().any(|word| word.literal() == Some(text));
            let (succeeded, failed) = flow::outcomes(&run.content.program, &run.statement.range);
            match run.statement.tool() {
                "kubectl" if has("can-i") && failed.zero && !succeeded.zero => {
                    first.get_or_insert(owner::place(run));
                }
                "echo" | "printf" | "exit" | "true" | ":" | "set" => {}
                _ => others = true,
            }
        }
    }
    let only_scripts = view.task.verify.steps.iter().all(|step| view.script_of(step).is_some());
    if let Some(first) = first.filter(|_| !others && only_scripts)
        && !view.effects.in_phase(PhaseKind::Setup).any(grants)
    {
        out.push(
            Diagnostic::new(
                &ALREADY_TRUE,
                first,
                "verify only checks what must be forbidden, and setup allows nothing",
            )
            .help("also check what the prompt asks to allow: the task must not pass if the agent does nothing"),
        );
    }
}

static GRANTS: Ascii = ascii(r"(?i)\b(?:be able to|(?:is|are) allowed to|may|allow|grant|permit)\b");

/// `uninstall the release old`, where setup installs others, but not this one.
fn uninstalled(view: &TaskView<'_>, said: &str, out: &mut Diagnostics) {
    let model = view.effects;
    let is_release = |act: &&Act| act.verb == Verb::Creates && act.thing.system == "helm";
    let mut made = model.in_phase(PhaseKind::Setup).filter(is_release).peekable();
    let (Some(prompt), Some(_)) = (&view.task.prompt, made.peek()) else { return };
    let names: Vec<&Value> = made.filter_map(|act| act.thing.name.as_ref()).collect();
    for found in RELEASE.captures_iter(said) {
        let name = found[1].trim_end_matches('.').to_owned();
        let value = Value::text(name.clone());
        let in_setup =
            view.scripts.iter().any(|s| s.phase == PhaseKind::Setup && texts::has_word(&s.content.text, &name));
        if names.iter().all(|known| !known.may_be(&value)) && !in_setup {
            out.push(
                Diagnostic::new(
                    &ALREADY_TRUE,
                    prompt.text.span,
                    format!("the release `{name}` is already absent before the agent runs"),
                )
                .help("install it in setup: the task must not pass if the agent does nothing"),
            );
        }
    }
}

static RELEASE: Ascii =
    ascii(r#"(?i)\b(?:uninstall|delete|remove)\s+the\s+(?:helm\s+)?release\s+[`"']?([a-z0-9][a-z0-9-]+)"#);

/// Whether a text satisfies the `expect` of a `file` step. Returns `false` for comparisons
/// other than the two common ones.
fn finds(expect: &serde_json::Value, text: &str) -> bool {
    let Some(expect) = expect.as_object().filter(|expect| !expect.is_empty()) else { return false };
    expect.iter().all(|(key, wanted)| match (key.as_str(), wanted.as_str()) {
        ("contains", Some(part)) => text.contains(part),
        ("matches", Some(pattern)) => regex::Regex::new(pattern).is_ok_and(|regex| regex.is_match(text)),
        _ => false,
    })
}

/// Returns the location at which verify looks for a text.
pub(super) fn looks_for(view: &TaskView<'_>, text: &str) -> Option<Span> {
    let mut found = None;
    let escaped = [text.to_owned(), regex::escape(text), text.replace('.', "\\.")];
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            let mut has = false;
            let mut look = |arg: &crate::hir::Arg<crate::hir::Def>| {
                arg.templates(&mut |t| has |= escaped.iter().any(|text| texts::written(t).contains(text)));
                has |= matches!(&arg.kind, ArgKind::Text(t) if escaped.iter().any(|text| texts::written(t).contains(text)));
            };
            step.expect.iter().for_each(|(_, expect)| look(expect));
            step.arg("run").or_else(|| step.arg("inline")).into_iter().for_each(look);
            if has {
                found.get_or_insert(step.key);
            }
        });
    });
    for script in view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify) {
        let content = &script.content;
        if let Some(at) = escaped.iter().find_map(|text| content.text.find(text.as_str())) {
            found.get_or_insert(content.span(at..at + text.len()));
        }
    }
    found
}

/// `create a role binding web`, where setup creates it and verify checks it.
fn things(view: &TaskView<'_>, said: &str, found: &mut Vec<(Span, Span, String)>) {
    let model = view.effects;
    if !MAKES.is_match(said) {
        return;
    }
    for made in model.in_phase(PhaseKind::Setup).filter(|act| act.verb == Verb::Creates) {
        let Some(name) = made.thing.name.as_ref().filter(|name| name.is_known()).map(Value::shown) else {
            continue;
        };
        // `make the file readable` does not create a file.
        // `Add the label triaged to the issue` does not create one.
        let verbs = match made.thing.system.as_str() {
            "file" => &WRITES,
            "github" => &CREATES,
            _ => &MAKES,
        };
        let speaks = |before: &str| super::texts::speaks_of(view, before, &made.thing.kind);
        if name.len() < 3 || !is_object(said, &name, verbs, &speaks) {
            continue;
        }
        // `add an index on customers(email)`
        if made.thing.kind == "table" && !said.to_ascii_lowercase().contains("table") {
            continue;
        }
        let behind = model.acts.iter().skip_while(|act| !std::ptr::eq(*act, made)).skip(1);
        let gone = behind
            .filter(|act| act.phase == PhaseKind::Setup && act.verb == Verb::Deletes)
            .any(|act| act.thing.may_be(&made.thing));
        let looked = model.in_phase(PhaseKind::Verify).find(|act| act.thing.is(&made.thing)).map(|act| act.span);
        let by_name = matches!(made.thing.system.as_str(), "git" | "github") || made.thing.kind == "constraint";
        let looked = looked.or_else(|| looks_for(view, &name).filter(|_| by_name));
        if let Some(span) = looked.filter(|_| !gone) {
            found.push((span, made.span, format!("the {} `{name}`", made.thing.kind)));
        }
    }
}

/// `delete the customers that …`, where verify expects exactly the rows that setup inserted.
fn no_rows(view: &TaskView<'_>, said: &str, found: &mut Vec<(Span, Span, String)>) {
    if !DELETES.is_match(said) || INSERTS.is_match(said) {
        return;
    }
    let mut tables: Vec<(String, Span, Vec<Vec<String>>)> = Vec::new();
    for script in view.effects.scripts.iter().filter(|script| script.view.phase == PhaseKind::Setup) {
        for run in script.trace.runs.iter().filter(|run| matches!(run.statement.name(), "sqlite3" | "psql" | "mysql")) {
            let span = run.content.span(run.statement.range.clone());
            let texts = run.input.iter().chain(&run.words).map(Value::shown).filter(|text| text.len() > 20);
            for (table, rows) in texts.flat_map(|text| inserted(&text)) {
                match tables.iter_mut().find(|(known, ..)| *known == table) {
                    Some((_, _, known)) => known.extend(rows),
                    None => tables.push((table, span, rows)),
                }
            }
        }
    }
    tables.retain(|(table, ..)| {
        said.match_indices(table.as_str()).any(|(at, _)| {
            let sentence = &said[sentence(said, at)];
            DELETES.is_match(sentence) && !NEGATES.is_match(sentence)
        })
    });
    if tables.is_empty() {
        return;
    }
    // Text that is compared with a list as a whole.
    let mut asked: Vec<(Span, String)> = Vec::new();
    for script in view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify) {
        let content = &script.content;
        content.program.walk(&mut |s| {
            if matches!(s.kind, crate::bash::program::Kind::Test) {
                let words = crate::bash::ast::split(&content.text[s.range.clone()], 0);
                for triple in words.windows(3).filter(|triple| matches!(triple[1].source.as_str(), "=" | "==" | "!=")) {
                    asked.extend(triple[2].literal().map(|text| (content.span(s.range.clone()), text)));
                }
            }
        });
    }
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            let stdout = step.expect.as_ref().and_then(|(_, expect)| expect.get("stdout"));
            let stdout = stdout.map(|out| out.get("equals").unwrap_or(out));
            asked.extend(stdout.and_then(|out| Some((out.span, out.as_literal()?.to_owned()))));
        });
    });
    for (table, made, rows) in &tables {
        let columns = rows.iter().map(Vec::len).min().unwrap_or(0);
        for (span, text) in &asked {
            let mut items: Vec<&str> =
                text.split([',', '\n', ' ', ';']).map(str::trim).filter(|item| !item.is_empty()).collect();
            items.sort_unstable();
            let is_column = |column: usize| {
                let mut values: Vec<&str> = rows.iter().filter_map(|row| row.get(column)).map(String::as_str).collect();
                values.sort_unstable();
                values == items
            };
            if !items.is_empty() && (0..columns).any(is_column) {
                found.push((*span, *made, format!("the table `{table}` with no rows except `{}`", items.join(", "))));
            }
        }
    }
}

/// `set the status to sold-out`, where verify checks whether a `status` exists, and setup has set one.
fn any_value(view: &TaskView<'_>, said: &str, found: &mut Vec<(Span, Span, String)>) {
    let url = |step: &crate::hir::Step<crate::hir::Def>| {
        let url = step.arg("url").filter(|_| matches!(step.op.kind, OperationKind::Builtin("http")))?;
        let text = texts::script_text(url)?;
        Some(text.split('?').next().unwrap_or_default().trim_end_matches('/').to_owned())
    };
    let mut given: Vec<(String, Span, String)> = Vec::new();
    view.task.setup.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            if let (Some(url), Some(body)) = (url(step), step.arg("body")) {
                let mut text = String::new();
                body.templates(&mut |template| text.push_str(&texts::written(template)));
                keys_of(body, &mut text);
                // `…/_bulk` is an action, and not part of the resource's name.
                let own = url.rsplit_once('/').filter(|(_, last)| last.starts_with('_'));
                given.push((own.map_or(url.clone(), |(own, _)| own.to_owned()), step.key, text));
            }
        });
    });
    if given.is_empty() {
        return;
    }
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            let Some((here, (_, expect))) = url(step).zip(step.expect.as_ref()) else { return };
            let mut asked = Vec::new();
            exists(expect, &mut asked);
            for (span, key) in asked {
                let has = |text: &str| text.contains(&format!("\"{key}\""));
                let made =
                    given.iter().find(|(url, _, text)| url.len() > 10 && here.starts_with(url.as_str()) && has(text));
                if let Some((_, made, _)) = made.filter(|_| key.len() > 2 && texts::has_word(said, &key)) {
                    found.push((span, *made, format!("a field `{key}`")));
                }
            }
        });
    });
}

/// Collects the names of fields in a body, in quotes.
fn keys_of(arg: &crate::hir::Arg<crate::hir::Def>, text: &mut String) {
    match &arg.kind {
        ArgKind::Record(fields) => fields.iter().for_each(|(key, arg)| {
            text.push_str(&format!(" \"{}\"", key.value));
            keys_of(arg, text);
        }),
        ArgKind::List(items) => items.iter().for_each(|arg| keys_of(arg, text)),
        _ => {}
    }
}

/// Finds `{path: $.a.status, exists: true}` without any other condition.
fn exists(arg: &crate::hir::Arg<crate::hir::Def>, found: &mut Vec<(Span, String)>) {
    match &arg.kind {
        ArgKind::Record(fields) => {
            let path = arg.get("path").and_then(|path| path.as_literal()).and_then(facts::last_name);
            let only = fields.len() == 2
                && arg.get("exists").and_then(crate::hir::Arg::as_value) == Some(serde_json::Value::Bool(true));
            found.extend(path.filter(|_| only).map(|key| (arg.span, key)));
            fields.iter().for_each(|(_, arg)| exists(arg, found));
        }
        ArgKind::List(items) => items.iter().for_each(|arg| exists(arg, found)),
        _ => {}
    }
}

/// Returns the rows that `INSERT INTO table VALUES (…), (…)` inserts.
fn inserted(text: &str) -> Vec<(String, Vec<Vec<String>>)> {
    let mut found = Vec::new();
    let lower = text.to_ascii_lowercase();
    for (at, head) in lower.match_indices("insert into ") {
        let rest = &text[at + head.len()..];
        let name =
            rest.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '.'))).next().unwrap_or_default();
        let end = rest.find(';').unwrap_or(rest.len());
        let Some(values) = rest[..end].to_ascii_lowercase().find("values") else { continue };
        let (mut rows, mut row, mut item) = (Vec::new(), Vec::new(), String::new());
        let (mut quoted, mut depth) = (false, 0_usize);
        for c in rest[values + "values".len()..end].chars() {
            match c {
                '\'' => quoted = !quoted,
                '(' if !quoted => depth += 1,
                ',' if !quoted && depth == 1 => row.push(std::mem::take(&mut item).trim().to_owned()),
                ')' if !quoted && depth == 1 => {
                    row.push(std::mem::take(&mut item).trim().to_owned());
                    rows.push(std::mem::take(&mut row));
                    depth = 0;
                }
                ')' if !quoted => depth = depth.saturating_sub(1),
                c if depth > 0 => item.push(c),
                _ => {}
            }
        }
        if !name.is_empty() && !rows.is_empty() {
            found.push((name.to_owned(), rows));
        }
    }
    found
}

/// `add a line to notes.md`, where verify only checks that the file exists, and setup has created it.
fn only_there(view: &TaskView<'_>, said: &str, found: &mut Vec<(Span, Span, String)>) {
    let model = view.effects;
    let mut asked: Vec<Span> = Vec::new();
    let mut texts = String::new();
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            let exists = match &step.op.kind {
                OperationKind::Builtin("file") => {
                    let expect = step.expect.as_ref().and_then(|(_, expect)| expect.as_value());
                    step.arg("content").is_none() && expect == Some(serde_json::json!({"exists": true}))
                }
                OperationKind::Extension { operation, .. } => operation.contains("exists") && step.expect.is_none(),
                _ => false,
            };
            if exists {
                asked.push(step.key);
            } else {
                step.templates(&mut |template| texts.push_str(&texts::written(template)));
            }
        });
    });
    if asked.is_empty() {
        return;
    }
    view.scripts.iter().filter(|s| s.phase == PhaseKind::Verify).for_each(|s| texts.push_str(&s.content.text));
    for act in model.in_phase(PhaseKind::Verify).filter(|act| asked.contains(&act.step)) {
        let Some(name) = act.thing.name.as_ref().filter(|name| name.is_known()).map(Value::shown) else { continue };
        let name = name.rsplit('/').next().unwrap_or_default();
        let Some(made) = model
            .in_phase(PhaseKind::Setup)
            .find(|made| made.verb == Verb::Creates && !made.maybe && made.thing.is(&act.thing))
        else {
            continue;
        };
        // If verify names the file elsewhere, it checks more than its existence.
        if name.len() < 3 || texts.contains(name) {
            continue;
        }
        let is_changed = said.match_indices(name).any(|(at, _)| {
            let whole = sentence(said, at);
            let head = &said[whole.start..at];
            (ADDS.is_match(head) || CHANGES.is_match(head))
                && !KEEPS.is_match(&said[whole.clone()])
                && !MAKES_NEW.is_match(head)
        });
        if is_changed {
            found.push((act.span, made.span, format!("`{name}`")));
        }
    }
}

/// Kinds of which no controller makes resources with the name of another one.
const STANDALONE: [&str; 10] = [
    "configmap",
    "secret",
    "service",
    "deployment",
    "serviceaccount",
    "ingress",
    "role",
    "rolebinding",
    "networkpolicy",
    "cronjob",
];

/// `delete the service old`, where verify accepts its absence, and nothing has ever created it.
fn never_made(view: &TaskView<'_>, said: &str, out: &mut Diagnostics) {
    let model = view.effects;
    let Some(prompt) = view.task.prompt.as_ref().filter(|_| model.sees(PhaseKind::Setup)) else { return };
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            let absent = match &step.op.kind {
                OperationKind::Builtin("file") => {
                    let exists = step
                        .expect
                        .as_ref()
                        .and_then(|(_, expect)| expect.get("exists"))
                        .and_then(crate::hir::Arg::as_value);
                    exists == Some(serde_json::Value::Bool(false))
                }
                OperationKind::Extension { operation, .. } => operation.contains("absent"),
                _ => false,
            };
            let act = model.in_phase(PhaseKind::Verify).find(|act| act.step == step.key).filter(|_| absent);
            let Some(act) = act else { return };
            let Some(name) = act.thing.name.as_ref().filter(|name| name.is_known()) else { return };
            let made = model.acts.iter().any(|made| {
                made.verb == Verb::Creates
                    && made.thing.system == act.thing.system
                    && !(made.thing.kind != act.thing.kind
                        && [&made.thing, &act.thing].iter().all(|thing| STANDALONE.contains(&thing.kind.as_str())))
                    && made.thing.name.as_ref().is_none_or(|n| n.may_be(name))
            });
            // A program may create resources with any name.
            let shown = name.shown();
            let in_text = view.scripts.iter().any(|s| {
                s.phase == PhaseKind::Setup && s.content.text.contains(shown.rsplit('/').next().unwrap_or(&shown))
            });
            let there = said.match_indices(shown.as_str()).any(|(at, _)| !NEGATES.is_match(&said[sentence(said, at)]));
            if !made && !in_text && there {
                out.push(
                    Diagnostic::new(
                        &ALREADY_TRUE,
                        step.key,
                        format!("`{shown}` is already absent before the agent runs"),
                    )
                    .label(prompt.text.span, "the prompt mentions it here")
                    .help("create it in setup: the task must not pass if the agent does nothing"),
                );
            }
        });
    });
}

/// `listen on 8443 instead of 8080`, where verify looks for the value from setup.
fn given_up(view: &TaskView<'_>, said: &str, found: &mut Vec<(Span, Span, String)>) {
    let old: Vec<&str> =
        OLD.captures_iter(said).filter_map(|old| old.get(1)).map(|m| m.as_str().trim_end_matches('.')).collect();
    let old: Vec<&str> = old
        .into_iter()
        .filter(|word| {
            word.len() > 1
                && said.matches(word).count()
                    == OLD.captures_iter(said).filter(|o| o[1].trim_end_matches('.') == *word).count()
        })
        .collect();
    if old.is_empty() {
        return;
    }
    let given = facts::given(view);
    let mut written: Vec<(Span, String)> = given.iter().map(|fact| (fact.span, fact.text())).collect();
    view.task.setup.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            if let Some(text) = step.arg("content").and_then(|content| content.as_literal()) {
                written.push((step.key, text.to_owned()));
            }
        });
    });
    let mut asked: Vec<(Span, String)> = facts::asked(view).iter().map(|fact| (fact.span, fact.text())).collect();
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            let Some((_, expect)) = &step.expect else { return };
            let texts = ["content", "stdout", "body"].iter().filter_map(|key| expect.get(key));
            for contains in texts.chain([expect]).filter_map(|arg| arg.get("contains")) {
                asked.extend(contains.as_literal().map(|text| (contains.span, text.to_owned())));
            }
        });
    });
    for (span, text) in asked {
        let made = written.iter().find(|(_, known)| known.contains(&text));
        if let Some((made, _)) = made.filter(|_| text.len() > 1 && old.iter().any(|word| texts::has_word(&text, word)))
        {
            found.push((span, *made, format!("`{text}`")));
        }
    }
}

/// Verify waits for the same value for which setup has waited.
fn waits(view: &TaskView<'_>, found: &mut Vec<(Span, Span, String)>) {
    let asked = |phase: PhaseKind| {
        let mut all: Vec<(Span, [Option<String>; 4])> = Vec::new();
        view.task.phase(phase).steps.iter().for_each(|step| {
            step.walk(&mut |step| {
                let text = |key: &str| {
                    step.arg(key).map(|arg| {
                        arg.as_value().map_or_else(|| texts::script_text(arg).unwrap_or_default(), |v| v.to_string())
                    })
                };
                let parts = ["resource", "namespace", "jsonpath", "value"].map(text);
                if matches!(step.op.kind, OperationKind::Extension { .. })
                    && parts[0].is_some()
                    && parts[2].is_some()
                    && parts[3].is_some()
                {
                    all.push((step.key, parts));
                }
            });
        });
        all
    };
    let verified = asked(PhaseKind::Verify);
    if verified.is_empty() {
        return;
    }
    let kind = |parts: &[Option<String>; 4]| {
        let resource = parts[0].clone().unwrap_or_default().replace('"', "");
        let (kind, name) =
            resource.split_once('/').map_or((resource.clone(), String::new()), |(a, b)| (a.to_owned(), b.to_owned()));
        let kind = view
            .tools
            .tool("kubectl")
            .and_then(|tool| tool.kind(&kind))
            .map_or(kind.clone(), |(kind, _)| kind.to_owned());
        let kind = match kind.as_str() {
            "vm" | "virtualmachines" => "virtualmachine".to_owned(),
            _ => kind,
        };
        (kind, name, parts[1].clone(), parts[2].clone(), parts[3].clone())
    };
    for (made, known) in asked(PhaseKind::Setup) {
        if let Some((span, parts)) = verified.iter().find(|(_, parts)| kind(parts) == kind(&known)) {
            // Verify may wait again until what the agent has changed is ready.
            let is_number = parts[3].as_ref().is_some_and(|value| value.parse::<u64>().is_ok());
            let waits_again = is_number && parts[2].as_ref().is_some_and(|path| path.contains(".status."));
            if waits_again && verified.len() > 1 {
                continue;
            }
            let value = parts[3].clone().unwrap_or_default().replace('"', "");
            found.push((*span, made, format!("`{value}`")));
        }
    }
}

/// Whether a prompt uses the name of a field as a verb, in a sentence that does not keep things as they are.
fn is_told(said: &str, key: &str) -> bool {
    said.match_indices(key).any(|(at, _)| {
        let alone = !said[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '`' | '.'))
            && said[at + key.len()..].starts_with(' ');
        alone && !KEEPS.is_match(&said[clause(said, at)])
    })
}

/// Whether a prompt contains a verb in a clause that neither negates it nor keeps things as they are: `Resume it`.
pub(super) fn is_ordered(said: &str, verb: &str) -> bool {
    let lower = said.to_ascii_lowercase();
    lower.match_indices(verb).any(|(at, _)| {
        let clause = &said[clause(said, at)];
        let is_word = !said[..at].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '`' | '.'))
            && said[at + verb.len()..].starts_with([' ', '\n'])
            && !texts::in_quoted_phrase(said, at..at + verb.len());
        is_word && !KEEPS.is_match(clause) && !NEGATES.is_match(clause)
    })
}

/// Whether a prompt says `to VALUE`, in a sentence that does not keep things as they are.
pub(super) fn is_asked(said: &str, value: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | ':');
    said.match_indices(value).any(|(at, _)| {
        let (before, behind) = (&said[..at], &said[at + value.len()..]);
        let ends = behind.trim_start_matches('.').chars().next().is_none_or(|c| !part(c)) || behind.starts_with(". ");
        let sentence = sentence(said, at);
        let head = &said[sentence.start..at];
        let before = before.trim_end_matches(['`', '"', '\'']);
        ends && (TO.is_match(before) && CHANGES.is_match(head) || GIVES.is_match(before))
            && !KEEPS.is_match(&said[clause(said, at)])
            && !texts::in_quoted_phrase(said, at..at + value.len())
    })
}

/// The clause around a place, between commas: in `Set the mode to live, and leave the queue`, each has a meaning of its own.
fn clause(said: &str, at: usize) -> std::ops::Range<usize> {
    let whole = sentence(said, at);
    let start = said[whole.start..at].rfind(',').map_or(whole.start, |comma| whole.start + comma);
    let end = said[at..whole.end].find(',').map_or(whole.end, |comma| at + comma);
    start..end
}

/// Whether a prompt asks to create a resource of this name: the name is the object of the verb, with nothing in
/// between. `speaks` returns whether the text before a name may refer to this resource.
pub(super) fn is_object(said: &str, name: &str, verbs: &Ascii, speaks: &dyn Fn(&str) -> bool) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    said.match_indices(name).any(|(at, _)| {
        if said[..at].ends_with(part) || said[at + name.len()..].starts_with(part) || !speaks(&said[..at]) {
            return false;
        }
        // `Merge "Add retry to client"` does not ask to add anything.
        if texts::in_quoted_phrase(said, at..at + name.len()) {
            return false;
        }
        let sentence = sentence(said, at);
        let head = &said[sentence.start..at];
        // In `the tag v1`, `tag` is not a verb.
        let is_noun = |verb: &Match<'_>| {
            let before = head[..verb.start()].trim_end().to_lowercase().replace('\n', " ");
            ["the", "a", "an", "this", "that", "its"]
                .iter()
                .any(|word| before == *word || before.ends_with(&format!(" {word}")))
        };
        let Some(verb) = verbs.find_iter(head).filter(|verb| !is_noun(verb)).last() else { return false };
        let between = head[verb.end()..].to_lowercase().replace('\n', " ");
        // `create a network a and a volume b`, `create a project with the key c`.
        let lists = [" and a ", " and an ", " with the key ", " with the name ", " with the id ", " with the slug "];
        let start = lists.iter().filter_map(|list| Some(between.rfind(list)? + list.len())).max().unwrap_or(0);
        let between = &between[start..];
        let away = [
            " in ", " into ", " from ", " of ", " on ", " to ", " for ", " using ", " by ", " that ", " which ",
            " and ", ",", " at ", " under ", ":", " within ", " above ", " below ", " before ", " after ", " behind ",
            " off ", " with ",
        ];
        // `make the service web reach its pods` changes a service; `make a service web` creates one.
        let restores = verb.as_str().eq_ignore_ascii_case("make")
            && (said[at..sentence.end].contains(" again") || between.starts_with(" the "));
        // In `Create a label x, and close the issue as not planned`, each clause has a meaning of its own.
        let start = head[..verb.start()].rfind(',').map_or(sentence.start, |comma| sentence.start + comma);
        let end = said[at..sentence.end].find(',').map_or(sentence.end, |comma| at + comma);
        let keeps = KEEPS.is_match(&said[start..end]) || AT_MOST_ONCE.is_match(&said[sentence]);
        !restores && !away.iter().any(|word| between.contains(word)) && !keeps
    })
}

pub(super) static CREATES: Ascii = ascii(r"(?i)\b(?:create|define|declare|provision|set up)\b");
static WRITES: Ascii = ascii(r"(?i)\b(?:create|write|save)\b");
static TO: Ascii = ascii(
    r"(?i)\b(?:to|to be|as)\s+(?:the\s+)?(?:(?:new|image|version|tag|value|size|class|level|state|status|type|policy|mode|memory|storage|port|schedule|branch)\s+){0,2}$",
);
static GIVES: Ascii = ascii(r"(?i)\bgive (?:it|them)\s+$");
static CHANGES: Ascii = ascii(
    r"(?i)\b(?:set|change|update|scale|switch|move|mark|turn|raise|increase|lower|reduce|upgrade|bring|rename|put|patch|adjust|correct|convert|enlarge|expand|extend|grow|shrink|resize|widen|double|halve|bump|modify|edit|configure|replace|restore|limit|cap|roll|migrate|point|promote|pin)\b",
);
static WANTS: Ascii = ascii(
    r"(?i)\b(?:set|change|update|scale|switch|move|raise|increase|lower|reduce|let|allow|make|must|should|shall|give|gets?|meant|at least|at most|need|needs|want)\b",
);
static PAST: Ascii = ascii(
    r#"(?i)\b(?:scaled|raised|increased|lowered|reduced|changed|switched|moved|updated|upgraded|bumped|limited|configured)\s[^,;:]{0,60}?\bto\s+[`\"']?$"#,
);
/// `…, so do not raise the quota`: the value before it is a limit that stays.
static LIMIT_STAYS: Ascii = ascii(
    r"(?i)\b(?:do not|don't|never|must not|may not|cannot)\s+(?:change|raise|lower|increase|reduce|extend|exceed|touch|modify|edit)\s+(?:it|this|that|(?:the|its|this|that)\s+(?:\w+\s+)?(?:quota|limits?|budget|cap|maximum|minimum))\b",
);
static AS_IT_IS: Ascii = ascii(r"(?i)^\W*(?:just )?as (?:it|they|before|now)\b|\b(?:already|unchanged)\b");
static INSERTS: Ascii = ascii(r"(?i)\b(?:insert|add)\b");
static MAKES_NEW: Ascii = ascii(r"(?i)\b(?:create|copy|like|from|new)\b");
static ADDS: Ascii = ascii(r"(?i)\b(?:append|add|insert|write|put|give|label|set)\b");
pub(super) static MAKES: Ascii =
    ascii(r"(?i)\b(?:create|make|add|deploy|launch|provision|tag|set up|define|install)\b");
/// Verbs for what setup removes first, so that the agent can make it.
pub(super) static MAKES_AGAIN: Ascii = ascii(
    r"(?i)\b(?:create|make|add|deploy|launch|provision|tag|set up|define|install|start|run|register|publish|write|save|open)\b",
);
pub(super) static DELETES: Ascii =
    ascii(r"(?i)\b(?:delete|remove|uninstall|drop|destroy|tear down|get rid of|clean up|evict|terminate)\b");
static NEGATES: Ascii = ascii(r"(?i)\b(?:not|never|no|without|avoid)\b");
static OLD: Ascii = ascii(
    r#"(?i)\b(?:instead of|rather than|in place of|no longer(?:\s+(?:on|in|at|to|with|for|by))?)\s+[`"']?([\w.:/-]+)"#,
);
static AT_MOST_ONCE: Ascii = ascii(
    r"(?i)\bunless\s|\b(?:already|if|exists?|leave|leaves|keep|keeps|kept|stays?|remains?|unchanged|still|without)\b",
);
/// The old value may be in a copy.
static COPIES: Ascii = ascii(r"(?i)\b(?:copy|copies|backup|back up|as it was)\b");
static AWAY: Ascii = ascii(r"(?i)\b(?:in|into|from|of|on|for|above|below|before|after|behind|under)\s");
pub(super) static KEEPS: Ascii = ascii(
    r"(?i)\b(?:leave|leaves|left (?:as|alone|unchanged|untouched|intact)|keep|keeps|kept|stay|stays|remain|remains|unchanged|still|already|not|never|without)\b",
);
static LEAVES_ALONE: Ascii =
    ascii(r"(?i)\b(?:do not|don't|never)\s+(?:change|touch|modify|alter|scale)\b|\b(?:leave|keep)\b");
static QUOTED: Ascii = ascii(r#"(?:"([^"\n]+)"|`([^`\n]+)`)"#);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_in_a_prompt_are_recognized() {
        assert!(is_asked("Set the mode to `live`, and leave the queue.", "live"));
        assert!(!is_asked("Set the queue to `a`, and leave the mode set to `live`.", "live"));
        assert!(is_asked("Set the mode to `live`. Leave the queue as it is.", "live"));
        assert!(is_asked("Scale it to 3 replicas and expose it", "3") && !is_asked("Scale it to 30 replicas", "3"));
        assert!(is_object("Create a role binding `web` in demo", "web", &MAKES, &|_| true));
        assert!(is_object("Create the branch \"retry\" of \"the client\"", "retry", &MAKES, &|_| true));
        assert!(!is_object("Merge \"Add retry to client\" (squash)", "retry", &MAKES, &|_| true));
        assert!(!is_object("Merge “Add retry”", "retry", &MAKES, &|_| true));
        assert!(!is_object("Merge 'Add retry to Ann's client'", "retry", &MAKES, &|_| true));
        assert!(is_object("In the users' list, don't stop: create the branch retry", "retry", &MAKES, &|_| true));
        assert!(!is_asked("Close the issue \"Set the mode to live again\"", "live"));
        assert!(!is_object("In the namespace demo, create a service for web", "web", &MAKES, &|_| true));
        assert!(!is_object("create a pod in demo", "demo", &MAKES, &|_| true));
    }
}
