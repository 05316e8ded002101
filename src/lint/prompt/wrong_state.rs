//! Verify waits or checks for the opposite of what the prompt asks for.

use std::cell::LazyCell;

use rustc_hash::FxHashSet;

use crate::{
    ascii::{Ascii, ascii},
    bash::{flow, program::Kind},
    diagnostic::{Diagnostic, Diagnostics},
    effects::{
        Act, Followed, Verb,
        asked::{Demand, Form, Question},
        value::Value,
    },
    hir::{Arg, ArgKind, Def, OperationKind, PhaseKind},
    lint::{
        TaskView,
        analysis::{orders, texts},
    },
    rule,
    source::Span,
};

rule! {
    pub static WRONG_STATE = "wrong-state", Warning;
}

/// Conditions that are true for a healthy resource.
const GOOD: [&str; 9] = [
    "Ready",
    "Available",
    "Complete",
    "Established",
    "Initialized",
    "ContainersReady",
    "PodScheduled",
    "AgentConnected",
    "Healthy",
];

/// Reports a wait until a good condition is false or a resource is deleted, if the prompt asks for no such thing, and
/// checks that fail if a resource exists that the prompt asks to create (or the other way round).
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    let Some(prompt) = &view.task.prompt else { return };
    let said = view.effects.prompt.shown();
    let mut found: Vec<(Span, String)> = Vec::new();
    waits(view, &said, &mut found);
    early(view, &said, &mut found);
    presence(view, &said, &mut found);
    before(view, &said, &mut found);
    reversed(view, &said, &mut found);
    one_of(view, &said, &mut found);
    both(view, &mut found);
    kept(view, out);
    for (span, message) in found {
        out.push(
            Diagnostic::new(&WRONG_STATE, span, message)
                .label(prompt.text.span, "the task of the agent")
                .help("check for the state that the agent must bring about"),
        );
    }
}

fn waits(view: &TaskView<'_>, said: &str, found: &mut Vec<(Span, String)>) {
    let stops = LazyCell::new(|| STOPS.is_match(said));
    let deletes = LazyCell::new(|| orders::DELETES.is_match(said));
    for script in view.effects.scripts.iter().filter(|script| script.view.phase == PhaseKind::Verify) {
        for run in script.trace.runs.iter().filter(|run| run.statement.tool() == "kubectl") {
            let words: Vec<String> = run.words.iter().map(Value::shown).collect();
            if words.get(1).map(String::as_str) != Some("wait") && !words.iter().any(|word| word == "wait") {
                continue;
            }
            let asked = words.windows(2).find(|pair| pair[0] == "--for").map(|pair| pair[1].as_str());
            let asked = asked.or_else(|| words.iter().find_map(|word| word.strip_prefix("--for="))).unwrap_or_default();
            let span = run.content.span(run.statement.range.clone());
            if asked != "delete" && !*stops && !*deletes && !FORBIDS.is_match(said) {
                let (succeeded, failed) = flow::outcomes(&run.content.program, &run.statement.range);
                if succeeded == flow::Status::OTHER && failed.zero {
                    found.push((span, "verify passes only if this wait fails".to_owned()));
                    continue;
                }
            }
            match asked.split('=').collect::<Vec<_>>().as_slice() {
                // Scaling down deletes pods.
                ["delete"] if !*deletes && !*stops && !SCALES.is_match(said) && !is_going(view, &words) => {
                    found.push((
                        span,
                        "this waits for a deletion, but the prompt does not ask to delete anything".to_owned(),
                    ));
                }
                ["condition", name, value]
                    if value.eq_ignore_ascii_case("false") && is_good(name) && !*stops && !*deletes =>
                {
                    found.push((span, format!("this waits until the condition `{name}` is false")));
                }
                _ => {}
            }
        }
    }
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            let OperationKind::Extension { operation, .. } = &step.op.kind else { return };
            let literal = |key: &str| step.arg(key).and_then(|arg| Some((arg.span, arg.as_literal()?)));
            if let (true, Some((_, name)), Some((span, value))) =
                (operation.contains("wait"), literal("condition"), literal("status"))
                && value.eq_ignore_ascii_case("false")
                && is_good(name)
                && !*stops
                && !*deletes
            {
                found.push((span, format!("this waits until the condition `{name}` is false")));
            }
        });
    });
}

/// `if grep -q red <<<"$x"; then exit 1; fi` followed by `grep -q red <<<"$x"`: no text passes both.
fn both(view: &TaskView<'_>, found: &mut Vec<(Span, String)>) {
    let runs = || view.effects.scripts.iter().flat_map(|script| &script.trace.runs);
    let always = |question: &Question<'_>| {
        let parts = || match &question.statement.kind {
            crate::bash::program::Kind::Pipeline(parts) => parts.last(),
            _ => Some(question.statement),
        };
        runs().any(|run| parts().is_some_and(|part| std::ptr::eq(run.statement, part)) && !run.maybe)
    };
    let asked: Vec<_> = view
        .asked()
        .iter()
        .filter(|question| matches!(&question.demand, Demand::Matches { options, .. } if !options.contains('v')))
        .filter_map(|question| Some((question, question.is_wanted()?)))
        .collect();
    for (question, _) in asked.iter().filter(|(_, wanted)| *wanted) {
        let same = |(other, wanted): &&(&Question<'_>, bool)| {
            !wanted
                && other.demand == question.demand
                && other.runs.len() == question.runs.len()
                && other.runs.iter().zip(&question.runs).all(|(a, b)| std::ptr::eq(*a, *b))
                && std::ptr::eq(other.content, question.content)
        };
        if asked.iter().any(|other| same(&other) && always(other.0)) && always(question) {
            found.push((
                question.span,
                "an earlier check fails if this one succeeds: no answer can pass both".to_owned(),
            ));
        }
    }
}

/// Whether setup has already deleted what a command names: `kubectl delete pod stuck --wait=false`, if a finalizer
/// blocks the deletion.
fn is_going(view: &TaskView<'_>, words: &[String]) -> bool {
    let acts: Vec<&Act> = view.effects.in_phase(PhaseKind::Setup).collect();
    let last = acts.iter().rev().find(|act| {
        let name = act.thing.name.as_ref().filter(|name| name.is_known()).map(Value::shown);
        let named = |name: &str| words.iter().any(|word| word.rsplit('/').next() == Some(name));
        matches!(act.verb, Verb::Creates | Verb::Deletes) && name.is_some_and(|name| named(&name))
    });
    last.is_some_and(|act| act.verb == Verb::Deletes)
}

/// Conditions that can be true before a resource works, and the word of a prompt that asks for no more.
const EARLY: [(&str, &str); 4] = [
    ("PodScheduled", "schedul"),
    ("Initialized", "init"),
    ("PodReadyToStartContainers", "sandbox"),
    ("Progressing", "progress"),
];

/// A wait for a condition that is also true if a container never starts.
fn early(view: &TaskView<'_>, said: &str, found: &mut Vec<(Span, String)>) {
    let lower = said.to_lowercase();
    let early =
        |name: &str| EARLY.iter().any(|(known, word)| known.eq_ignore_ascii_case(name) && !lower.contains(word));
    let message = |name: &str| format!("the condition `{name}` can be true although nothing runs");
    for script in view.effects.scripts.iter().filter(|script| script.view.phase == PhaseKind::Verify) {
        for run in script.trace.runs.iter().filter(|run| run.statement.tool() == "kubectl") {
            for word in run.words.iter().filter_map(Value::literal) {
                let name = word.strip_prefix("--for=").unwrap_or(word).strip_prefix("condition=");
                if let Some(name) = name.filter(|name| early(name)) {
                    found.push((run.content.span(run.statement.range.clone()), message(name)));
                }
            }
        }
    }
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            let condition = step.arg("condition").and_then(|arg| Some((arg.span, arg.as_literal()?)));
            if let (OperationKind::Extension { operation, .. }, Some((span, name))) = (&step.op.kind, condition)
                && operation.contains("wait")
                && step.arg("status").is_none()
                && early(name)
            {
                found.push((span, message(name)));
            }
        });
    });
}

fn is_good(condition: &str) -> bool {
    GOOD.iter().any(|good| good.eq_ignore_ascii_case(condition))
}

/// What programs print if a resource is healthy or a request succeeds.
const WELL: [&str; 14] = [
    "200",
    "201",
    "204",
    "Running",
    "running",
    "deployed",
    "True",
    "Bound",
    "Complete",
    "Succeeded",
    "Active",
    "Ready",
    "healthy",
    "active",
];

/// `if [ "$code" = 200 ]; then exit 1; fi`: verify fails for a good value, or for the value in the prompt. The latter
/// requires that setup does not have it.
fn reversed(view: &TaskView<'_>, said: &str, found: &mut Vec<(Span, String)>) {
    for question in view.asked() {
        let Demand::Compared { operator, with } = &question.demand else { continue };
        differs(question, operator, with, found);
        if with.len() < 2 && !with.starts_with(|c: char| c.is_ascii_digit()) {
            continue;
        }
        // Whether the value itself is expected. With `more than 3`, it is another one.
        let wanted = match operator.as_str() {
            "=" | "==" | "-eq" => question.is_wanted(),
            "-ge" | "-le" if !ABOUT.is_match(said) => question.is_wanted(),
            _ => continue,
        };
        if wanted != Some(false) {
            continue;
        }
        let ends = || STOPS.is_match(said) || orders::DELETES.is_match(said) || FORBIDS.is_match(said);
        let is_well = WELL.contains(&with.as_str()) && !ends();
        let named = || {
            let mut places = said.match_indices(with.as_str()).map(|(at, _)| &said[orders::sentence(said, at)]);
            texts::has_word(said, with)
                && !REPAIRS.is_match(said)
                && !texts::has_word(&crate::lint::analysis::facts::elsewhere(view).rest, with)
                && !crate::lint::analysis::facts::given(view).iter().any(|fact| fact.text() == *with)
                && !places.any(|sentence| NEGATES.is_match(sentence) || FORBIDS.is_match(sentence))
                && !is_left(said, with)
        };
        if is_well || named() {
            found.push((question.span, format!("verify fails if this is `{with}`")));
        }
    }
}

/// `if [ "$port" != 8080 ] && [ "$target" != 80 ]; then exit 1; fi`: verify fails only if both are wrong, but the
/// prompt asks for each.
fn one_of(view: &TaskView<'_>, said: &str, found: &mut Vec<(Span, String)>) {
    for script in view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify) {
        let content = &script.content;
        let mut told: Vec<std::ops::Range<usize>> = Vec::new();
        content.program.walk(&mut |s| {
            let text = content.text.get(s.range.clone()).unwrap_or_default();
            let is_list = matches!(s.kind, Kind::And(_) | Kind::Test) && text.contains("&&") && !text.contains("||");
            if !is_list
                || text.contains('(')
                || told.iter().any(|known| known.start <= s.range.start && s.range.end <= known.end)
            {
                return;
            }
            let words = crate::bash::ast::split(text, s.range.start);
            let differ = words.windows(3).filter(|triple| matches!(triple[1].source.as_str(), "!=" | "-ne"));
            let pairs: Vec<(&str, String)> =
                differ.filter_map(|triple| Some((triple[0].source.as_str(), triple[2].literal()?))).collect();
            let others = words.iter().any(|word| matches!(word.source.as_str(), "=" | "==" | "-z" | "-n" | "!"));
            let apart = pairs.iter().enumerate().all(|(nth, (left, right))| {
                left.contains('$') && !pairs[..nth].iter().any(|(l, r)| l == left || r == right)
            });
            // A value that the prompt does not name may be optional.
            let named = pairs.iter().filter(|(_, right)| texts::has_word(said, right)).count();
            // The key and the value of one label, in different places.
            let is_label = |(key, value): (&(&str, String), &(&str, String))| {
                said.contains(&format!("{}={}", key.1, value.1)) || said.contains(&format!("{}={}", value.1, key.1))
            };
            if named < 2 || others || !apart || pairs.iter().zip(pairs.iter().skip(1)).any(is_label) {
                return;
            }
            let (succeeded, failed) = flow::outcomes(&content.program, &s.range);
            if succeeded == flow::Status::OTHER && failed.zero {
                told.push(s.range.clone());
                let all: Vec<&str> = pairs.iter().map(|(_, right)| right.as_str()).collect();
                found.push((
                    content.span(s.range.clone()),
                    format!("one of `{}` is sufficient here, but the prompt asks for all of them", all.join("`, `")),
                ));
            }
        });
    }
}

/// `if [ "$tag" != 1.0 ]; then exit 0; fi`: verify passes for other values, and may fail for the right one.
fn differs(question: &Question<'_>, operator: &str, with: &str, found: &mut Vec<(Span, String)>) {
    let (succeeded, failed) = question.outcomes();
    let (other, right) = match operator {
        "!=" | "-ne" => (succeeded, failed),
        "=" | "==" | "-eq" => (failed, succeeded),
        _ => return,
    };
    // Without a value, there may be nothing to check.
    let is_value = !matches!(with, "" | "0" | "null" | "<none>" | "None");
    if is_value
        && question.is_alone()
        && matches!(question.form, Form::Field(_))
        && other == flow::Status::ZERO
        // If the right value certainly fails, `if [ "$x" = y ]; then exit 1; fi`, the check is deliberate.
        && right.zero
        && right.other
    {
        found.push((question.span, format!("verify accepts any value except `{with}` here")));
    }
}

/// A field of a manifest, its value, and a state that it prevents.
const KEPT: [(&str, &str, &str); 6] = [
    ("runStrategy", "Always", "Stopped"),
    ("runStrategy", "Halted", "Running"),
    ("runStrategy", "Halted", "Ready"),
    ("running", "true", "Stopped"),
    ("running", "false", "Running"),
    ("running", "false", "Ready"),
];

/// Setup waits for a state that its own manifest prevents, such as `Stopped` for a machine that always runs. Requires
/// that setup does not change what it has created.
fn kept(view: &TaskView<'_>, out: &mut Diagnostics) {
    let model = view.effects;
    let starts = |script: &Followed<'_>| script.trace.runs.iter().any(|run| run.statement.tool() == "virtctl");
    let changes = model.in_phase(PhaseKind::Setup).any(|act| act.verb == Verb::Changes);
    let mut scripts = model.scripts.iter().filter(|script| script.view.phase == PhaseKind::Setup);
    if changes || !model.sees(PhaseKind::Setup) || scripts.any(starts) {
        return;
    }
    let mut awaited: Vec<(Span, String)> = Vec::new();
    for script in model.scripts.iter().filter(|script| script.view.phase == PhaseKind::Setup) {
        for run in script.trace.runs.iter().filter(|run| run.statement.tool() == "kubectl") {
            let wanted = run.words.iter().filter_map(Value::literal).find_map(|word| {
                let word = word.strip_prefix("--for=").unwrap_or(word);
                word.strip_prefix("condition=")
                    .or_else(|| word.strip_prefix("jsonpath=")?.rsplit_once('=').map(|(_, value)| value))
            });
            awaited.extend(wanted.map(|wanted| (run.content.span(run.statement.range.clone()), wanted.to_owned())));
        }
    }
    view.task.setup.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            let waits =
                matches!(&step.op.kind, OperationKind::Extension { operation, .. } if operation.contains("wait"));
            let wanted = step.arg("value").or_else(|| step.arg("condition")).filter(|_| waits);
            awaited.extend(wanted.and_then(|arg| Some((arg.span, arg.as_literal()?.to_owned()))));
        });
    });
    if awaited.is_empty() {
        return;
    }
    let given = crate::lint::analysis::facts::given(view);
    for (span, wanted) in awaited {
        let wanted = wanted.split('=').next().unwrap_or_default().trim_matches(['"', '\'']);
        let keeps = |(field, value, state): &&(&str, &str, &str)| {
            let mut same = given.iter().filter(|fact| fact.key == *field).peekable();
            *state == wanted && same.peek().is_some() && same.all(|fact| fact.text() == *value)
        };
        if let Some((field, value, _)) = KEPT.iter().find(keeps) {
            let made = given.iter().find(|fact| fact.key == *field).map_or(span, |fact| fact.span);
            out.push(
                Diagnostic::new(
                    &WRONG_STATE,
                    span,
                    format!("because of `{field}: {value}`, this can never be `{wanted}`"),
                )
                .label(made, "setup sets it here")
                .help("wait for the state that the manifest results in"),
            );
        }
    }
}

/// Verbs in a prompt, and the states before the action.
const BEFORE: [(&str, &[&str]); 23] = [
    ("close", &["open", "opened"]),
    ("reopen", &["closed"]),
    ("resolve", &["open", "unresolved", "triggered"]),
    ("merge", &["open", "opened"]),
    ("stop", &["running", "started", "active"]),
    ("start", &["stopped", "exited", "halted"]),
    ("pause", &["running", "active"]),
    ("suspend", &["running", "active"]),
    ("resume", &["paused", "suspended"]),
    ("unpause", &["paused"]),
    ("archive", &["active"]),
    ("publish", &["draft", "unpublished"]),
    ("unpublish", &["published"]),
    ("approve", &["pending"]),
    ("reject", &["pending"]),
    ("complete", &["todo", "open", "pending", "in_progress"]),
    ("cancel", &["active", "scheduled", "confirmed"]),
    ("activate", &["inactive"]),
    ("deactivate", &["active"]),
    ("enable", &["disabled"]),
    ("disable", &["enabled"]),
    ("lock", &["unlocked"]),
    ("unlock", &["locked"]),
];

static OTHER_STATE: Ascii = ascii(r"[?&](?:state|status)=\w");

/// `state: open`, if the prompt says `close the ticket`. Requires that no other state is checked, and that the prompt
/// does not name this one.
fn before(view: &TaskView<'_>, said: &str, found: &mut Vec<(Span, String)>) {
    let is_state = |key: &str| matches!(key.to_lowercase().as_str(), "state" | "status" | "phase" | "printablestatus");
    let mut asked: Vec<(Span, String)> = Vec::new();
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| step.expect.iter().for_each(|(_, expect)| states(expect, &is_state, &mut asked)));
    });
    for question in view.asked() {
        if let (Form::Field(path), Demand::Compared { operator, with }) = (&question.form, &question.demand)
            && is_state(path.rsplit('.').next().unwrap_or_default())
        {
            let equal = matches!(operator.as_str(), "=" | "==");
            if question.is_wanted() == Some(equal) && (equal || operator == "!=") {
                asked.push((question.span, with.clone()));
            } else {
                return;
            }
        }
    }
    let Some((span, state)) = asked.first().filter(|(_, first)| asked.iter().all(|(_, other)| other == first)) else {
        return;
    };
    let lower = said.to_lowercase();
    if texts::has_word(&lower, &state.to_lowercase()) || NEGATES.is_match(said) {
        return;
    }
    // Another request lists those in the state after it: `?state=closed`.
    if OTHER_STATE.is_match(&crate::lint::analysis::facts::elsewhere(view).verify) {
        return;
    }
    let verb = BEFORE.iter().find(|(verb, states)| {
        states.iter().any(|known| known.eq_ignore_ascii_case(state)) && texts::has_word(&lower, verb)
    });
    if let Some((verb, _)) = verb {
        found.push((*span, format!("the prompt says `{verb}`, but `{state}` is the state before that")));
    }
}

/// Collects the expected states: `{path: $.state, equals: open}`.
fn states(arg: &Arg<Def>, is_state: &dyn Fn(&str) -> bool, found: &mut Vec<(Span, String)>) {
    match &arg.kind {
        ArgKind::Record(fields) => {
            let path =
                arg.get("path").and_then(|path| path.as_literal()).and_then(crate::lint::analysis::facts::last_name);
            if let Some(value) = arg.get("equals").filter(|_| path.is_some_and(|path| is_state(&path))) {
                found.extend(value.as_literal().map(|text| (value.span, text.to_owned())));
            }
            fields.iter().for_each(|(_, arg)| states(arg, is_state, found));
        }
        ArgKind::List(items) => items.iter().for_each(|arg| states(arg, is_state, found)),
        _ => {}
    }
}

/// `if kubectl get pod web; then exit 1; fi`, if the prompt says `create a pod web`.
fn presence(view: &TaskView<'_>, said: &str, found: &mut Vec<(Span, String)>) {
    let names: FxHashSet<String> = view
        .effects
        .in_phase(PhaseKind::Verify)
        .filter(|act| act.verb == Verb::Reads && matches!(act.thing.system.as_str(), "kubernetes" | "docker" | "helm"))
        .filter_map(|act| act.thing.name.as_ref().filter(|name| name.is_known()).map(Value::shown))
        .filter(|name| name.len() > 2 && said.contains(name.as_str()))
        .collect();
    if names.is_empty() {
        return;
    }
    let (makes, deletes) = (orders::MAKES.is_match(said), orders::DELETES.is_match(said));
    let asked = |name: &String| {
        let (made, gone) = (
            makes && orders::is_object(said, name, &orders::MAKES, &|_| true),
            deletes && orders::is_object(said, name, &orders::DELETES, &|_| true),
        );
        (made != gone).then_some(made)
    };
    let asked: Vec<(String, bool)> =
        names.into_iter().filter_map(|name| asked(&name).map(|made| (name, made))).collect();
    if asked.is_empty() {
        return;
    }
    for script in view
        .effects
        .scripts
        .iter()
        .filter(|script| script.view.phase == PhaseKind::Verify && script.view.decides_by_status())
    {
        let content = &script.view.content;
        for run in script.trace.runs.iter().filter(|run| std::ptr::eq(run.content, &**content)) {
            let span = content.span(run.statement.range.clone());
            let act = view
                .effects
                .in_phase(PhaseKind::Verify)
                .find(|act| act.verb == Verb::Reads && act.span.file == span.file && act.span.start == span.start);
            let name = act.and_then(|act| act.thing.name.as_ref()).map(Value::shown);
            let Some((name, made)) = asked.iter().find(|(known, _)| Some(known) == name.as_ref()) else { continue };
            let (there, gone) = flow::outcomes(&content.program, &run.statement.range);
            // A wait for a deletion succeeds if the resource is gone.
            let until_gone = run.words.windows(2).any(|pair| {
                pair[1].literal() == Some("--for=delete")
                    || pair[0].literal() == Some("--for") && pair[1].literal() == Some("delete")
            });
            let wants = match (there.zero, gone.zero) {
                (true, false) => !until_gone,
                (false, true) => until_gone,
                _ => continue,
            };
            // A virtual machine and its instance have the same name.
            let is_other_kind = |other: &Act| {
                act.is_some_and(|act| act.thing.kind != other.thing.kind)
                    && other.thing.name.as_ref().map(Value::shown).as_ref() == Some(name)
            };
            if wants != *made && !view.effects.in_phase(PhaseKind::Verify).any(is_other_kind) {
                let (asks, fails) = if *made { ("make", "if it exists") } else { ("delete", "if it does not exist") };
                found.push((span, format!("the prompt asks to {asks} `{name}`, but verify fails {fails}")));
            }
        }
    }
}

/// Whether the prompt names a value as the old one: `from VALUE to another`.
fn is_left(said: &str, value: &str) -> bool {
    said.match_indices(value).any(|(at, _)| {
        let before = said[..at].trim_end_matches(['`', '"', '\'']);
        let behind = said[at + value.len()..].trim_start_matches(['`', '"', '\'']);
        before.to_lowercase().ends_with("from ") && behind.starts_with(" to ")
    })
}

static ABOUT: Ascii = ascii(
    r"(?i)\b(?:more|fewer|less|greater|larger|smaller|lower|higher) than\b|\b(?:under|below|above|over|at least|at most)\b",
);
static NEGATES: Ascii = ascii(r"(?i)\b(?:not|never|without|unless|again)\b");

/// A prompt that asks for a repair names the faulty state: `it is in CrashLoopBackOff`.
static REPAIRS: Ascii = ascii(
    r"(?i)\b(?:fix|repair|resolve|troubleshoot|investigate|diagnose|find out|debug|recover|heal|stuck|broken|fail(?:s|ed|ing)?|crash(?:es|ed|ing)?|hangs?)\b",
);

static FORBIDS: Ascii = ascii(
    r"(?i)\b(?:forbid|deny|block|restrict|revoke|prevent|refuse|instead|no longer|until|away|reject|unreachable)",
);

static STOPS: Ascii =
    ascii(r"(?i)\b(?:stop|halt|pause|suspend|unready|shut|cordon|drain|to 0|to zero|isolate|disable)");

static SCALES: Ascii =
    ascii(r"(?i)\bscal(?:e|es|ed|ing)\b[^.\n]*\b(?:down|back|in|to (?:0|1|2|zero|one|two))\b|\breplac(?:e|ing)\b");
