//! Conditions of verify that hold before the agent has done anything.

use std::cell::LazyCell;

use rustc_hash::FxHashMap;

use crate::{
    ascii::{Ascii, ascii},
    bash::{fields, flow},
    diagnostic::{Diagnostic, Diagnostics},
    effects::{
        Act, Thing, Verb,
        asked::{self, Demand, Form, Question},
        script::ScriptView,
        shell::Run,
        value::Value,
    },
    hir::{ArgKind, BlockRole, Def, OperationKind, PhaseKind, Step},
    lint::{
        TaskView,
        analysis::{
            checked_resource,
            facts::{self, alike},
            orders::{CHANGES, DELETES, KEEPS, LEAVES_ALONE, NEGATES, is_changed, is_ordered, sentence},
            present_state::{any_value, given_up, lines, no_rows, only_there, things, values, waits},
            texts,
        },
    },
    rule,
    source::{FileId, Span, resolve},
};

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

/// Returns the files that setup creates, each with its content if known.
pub fn files(view: &TaskView<'_>) -> Vec<(Value, Option<String>, Span)> {
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
    for run in checked_resource::runs(view, PhaseKind::Verify).filter(|run| run.statement.tool() == "kubectl") {
        let has = |text: &str| run.words.iter().any(|word| word.literal() == Some(text));
        let place = checked_resource::place(run);
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
                    first.get_or_insert(checked_resource::place(run));
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
