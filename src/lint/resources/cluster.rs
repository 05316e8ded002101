//! What a task creates in a cluster and where it looks for it: missing namespaces, deletions that fail, races.

use crate::{
    bash::{
        Word,
        program::{Kind, Statement},
        tools,
    },
    diagnostic::{Diagnostic, Diagnostics},
    hir::{Arg, ArgKind, Def, Dialect, OperationKind, PhaseKind, Step},
    lint::{
        TaskView,
        analysis::texts,
        script::{Reader, ScriptView},
        shell::exit_status::errexit_line,
    },
    rule,
    source::Span,
};

rule! {
    pub static UNKNOWN_NAMESPACE = "unknown-namespace", Warning;
    pub static CLEANUP_NEEDS_IGNORE_NOT_FOUND = "cleanup-needs-ignore-not-found", Warning;
    pub static DELETE_THEN_CREATE = "delete-then-create", Warning;
}

/// `kubectl create namespace NAME`, `kubectl create KIND NAME`: the verb, the kind, and the name.
pub struct Call<'s> {
    pub words: &'s [Word],
    /// Index of the verb.
    verb: usize,
}

impl<'s> Call<'s> {
    pub fn of(command: &'s Statement, verb: &str) -> Option<Self> {
        if command.tool() != "kubectl" {
            return None;
        }
        let words = command.words();
        let at = words.iter().position(|w| w.text == verb)?;
        (at <= 3 && !tools::is_dry(words)).then_some(Self { words, verb: at })
    }

    /// Returns the words after the verb that are not flags.
    pub fn named(&self) -> Vec<&'s Word> {
        tools::operands("kubectl", &self.words[self.verb + 1..]).collect()
    }

    pub fn has(&self, flags: &[&str]) -> bool {
        let given =
            |word: &str, flag| word.strip_prefix(flag).is_some_and(|rest| rest.is_empty() || rest.starts_with('='));
        self.words.iter().any(|w| flags.iter().any(|flag| given(&w.text, flag)))
    }

    pub fn namespace(&self) -> Option<&'s Word> {
        self.words.windows(2).find(|w| matches!(w[0].text.as_str(), "-n" | "--namespace")).map(|w| &w[1])
    }
}

pub fn is_namespace(kind: &str) -> bool {
    matches!(kind, "namespace" | "namespaces" | "ns")
}

pub fn in_phase<'v>(view: &TaskView<'v>, phase: PhaseKind) -> impl Iterator<Item = &'v ScriptView<'v>> {
    view.scripts.iter().filter(move |s| s.phase == phase)
}

pub fn is_plain(step: &Step<Def>) -> bool {
    !matches!(
        step.op.kind,
        OperationKind::Extension { .. } | OperationKind::Tool { .. } | OperationKind::Builtin("extension" | "http")
    )
}

/// Verify looks in a namespace that neither setup nor the prompt names (author mistake 2).
pub fn namespace(view: &TaskView<'_>, out: &mut Diagnostics) {
    let made: Vec<&Word> = in_phase(view, PhaseKind::Setup)
        .flat_map(|s| s.content.program.commands())
        .filter_map(|c| match Call::of(c, "create")?.named()[..] {
            [kind, name, ..] if is_namespace(&kind.text) && name.literal => Some(name),
            _ => None,
        })
        .collect();
    let plain = in_phase(view, PhaseKind::Setup).all(|s| s.reader != Reader::Foreign && s.content.program.sound);
    let mut other = false;
    view.task.setup.steps.iter().for_each(|s| s.walk(&mut |s| other |= !is_plain(s)));
    let Some(prompt) = view.task.prompt.as_ref().filter(|p| p.text.holes().next().is_none()) else { return };
    if made.is_empty() || !plain || other {
        return;
    }
    let said = texts::written(&prompt.text);
    let known = |name: &str| {
        matches!(name, "default")
            || name.starts_with("kube-")
            || texts::has_word(&said, name)
            || in_phase(view, PhaseKind::Setup).any(|s| whole(&s.content.text, name))
    };
    for script in view.scripts.iter().filter(|s| s.phase != PhaseKind::Setup) {
        for command in script.content.program.commands().into_iter().filter(|c| tools::takes(c.name(), "--namespace")) {
            let call = Call { words: command.words(), verb: 0 };
            let Some(used) = call.namespace().filter(|w| w.literal && !known(&w.text)) else { continue };
            let mut diagnostic = Diagnostic::new(
                &UNKNOWN_NAMESPACE,
                script.content.span(used.range.clone()),
                format!("neither setup nor the prompt mentions the namespace `{}`", used.text),
            );
            if let Some(near) = crate::diagnostic::nearest(&used.text, made.iter().map(|w| w.text.as_str())) {
                diagnostic = diagnostic.here(format!("did you mean `{near}`?"));
            }
            let words: Vec<_> = made.iter().map(|w| format!("`{}`", w.text)).collect();
            out.push(diagnostic.help(format!("setup creates {}", words.join(", "))));
        }
    }
}

/// Whether `name` occurs in `text` without letters, digits or hyphens next to it.
pub fn whole(text: &str, name: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '-';
    text.match_indices(name).any(|(at, _)| {
        !text[..at].chars().next_back().is_some_and(part) && !text[at + name.len()..].chars().next().is_some_and(part)
    })
}

/// Reports deletions that fail if there is nothing to delete: in setup before the creation, and in cleanup
/// of what only the agent creates.
fn first_run(view: &TaskView<'_>, out: &mut Diagnostics) {
    let model = view.effects;
    for script in model.scripts.iter().filter(|script| script.view.phase != PhaseKind::Verify && !script.trace.opaque) {
        let content = &script.view.content;
        let program = &content.program;
        let phase = script.view.phase;
        let stops = program.stops_at_errors() || errexit_line(&content.text);
        if script.view.step.continue_on_error.as_ref().is_some_and(|lenient| lenient.value) {
            continue;
        }
        for run in script.trace.runs.iter().filter(|run| std::ptr::eq(run.content, &**content)) {
            let last = program.body.last().is_some_and(|last| last.range == run.statement.range);
            let span = content.span(run.statement.range.clone());
            let act = model.in_phase(phase).find(|act| {
                act.verb == crate::effects::Verb::Deletes && act.span.file == span.file && act.span.start == span.start
            });
            let Some(act) = act.filter(|act| !act.lenient && !act.maybe && (stops || last)) else { continue };
            let same = |other: &crate::effects::Act| {
                other.thing.may_be(&act.thing) || act.thing.system == "file" && other.thing.name == act.thing.name
            };
            let made = model
                .in_phase(PhaseKind::Setup)
                .take_while(|other| phase == PhaseKind::Cleanup || !std::ptr::eq(*other, act))
                .any(|other| other.verb == crate::effects::Verb::Creates && same(other));
            // What setup deletes may exist permanently. It belongs to the task if setup also
            // creates it, or cleanup deletes it.
            let own = || {
                model.in_phase(PhaseKind::Setup).any(|other| other.verb == crate::effects::Verb::Creates && same(other))
                    || model
                        .in_phase(PhaseKind::Cleanup)
                        .any(|other| other.verb == crate::effects::Verb::Deletes && same(other))
            };
            let by_name = act.thing.name.as_ref().is_some_and(crate::effects::value::Value::is_known);
            // Deletions of Kubernetes objects and Helm releases in cleanup are reported by `ignore_not_found`.
            let own_rule = phase == PhaseKind::Cleanup && matches!(act.thing.system.as_str(), "kubernetes" | "helm");
            // The agent was not asked to create what the prompt does not name.
            let name = act.thing.name.as_ref().map(crate::effects::value::Value::shown).unwrap_or_default();
            let asked = phase == PhaseKind::Setup || model.prompt.shown().contains(&name) && !name.contains("{steps.");
            // `cp -R files DIR`: setup may create what it names in another command.
            let named = phase == PhaseKind::Cleanup
                && (model
                    .in_phase(PhaseKind::Setup)
                    .any(|other| other.thing.name.as_ref().is_some_and(|other| other.shown().starts_with(&name)))
                    || model.scripts.iter().filter(|script| script.view.phase == PhaseKind::Setup).any(|script| {
                        script.trace.runs.iter().any(|run| {
                            run.statement.name() != "rm" && run.words.iter().any(|word| word.shown().contains(&name))
                        })
                    }));
            if named
                || made
                || own_rule
                || !asked
                || !by_name
                || phase == PhaseKind::Setup && !own()
                || !model.sees(PhaseKind::Setup)
            {
                continue;
            }
            let (message, help) = match (phase, act.thing.system.as_str()) {
                (PhaseKind::Setup, "kubernetes" | "helm") => {
                    ("this fails on the first run, when there is nothing to delete", "write `--ignore-not-found`")
                }
                (PhaseKind::Setup, _) => (
                    "this fails on the first run, when there is nothing to delete",
                    "delete it only if it exists (`-f`, `IF EXISTS`, `|| true`)",
                ),
                _ => (
                    "this fails if the agent has created nothing",
                    "delete it only if it exists (`-f`, `IF EXISTS`, `|| true`)",
                ),
            };
            out.push(Diagnostic::new(&CLEANUP_NEEDS_IGNORE_NOT_FOUND, span, message).help(help));
        }
    }
}

/// Reports a request in cleanup that requires a resource that only the agent creates.
fn not_found(view: &TaskView<'_>, out: &mut Diagnostics) {
    let model = view.effects;
    view.task.cleanup.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            let is_delete = matches!(step.op.kind, OperationKind::Builtin("http"))
                && step.arg("method").and_then(|m| m.as_literal()).is_some_and(|m| m.eq_ignore_ascii_case("delete"));
            if !is_delete || step.continue_on_error.as_ref().is_some_and(|lenient| lenient.value) {
                return;
            }
            let Some((status, value)) = step
                .expect
                .as_ref()
                .and_then(|(_, expect)| expect.get("status"))
                .and_then(|status| Some((status.span, status.as_value()?)))
            else {
                return;
            };
            let accepts = value == 404
                || value.as_array().is_some_and(|all| all.iter().any(|code| code == 404))
                || value.is_string();
            let url = model
                .in_phase(PhaseKind::Cleanup)
                .find(|act| act.step == step.key)
                .and_then(|act| act.thing.name.as_ref());
            // A collection, which may be empty.
            let Some(url) = url.map(crate::effects::value::Value::shown).filter(|url| !url.ends_with('/')) else {
                return;
            };
            // Something that setup requests at this address, or creates at its parent.
            let parent = url.rsplit_once('/').map_or("", |(parent, _)| parent);
            let made = model.in_phase(PhaseKind::Setup).any(|act| {
                act.thing.system == "http"
                    && act.thing.name.as_ref().is_some_and(|made| {
                        let made = made.shown();
                        let made = made.split('?').next().unwrap_or(&made).trim_end_matches('/').to_owned();
                        made == parent || made == url
                    })
            });
            if !accepts
                && !made
                && !url.contains("{steps.")
                && model.sees(PhaseKind::Setup)
                && !named_in_setup(view, step, &url)
            {
                let help = match view.task.dialect {
                    Dialect::Steps => "cleanup also runs if the agent fails: remove `status`, so that 404 is accepted",
                    _ => "cleanup also runs if the agent fails: accept the status 404 as well",
                };
                let message = "this fails if the agent has created nothing";
                out.push(Diagnostic::new(&CLEANUP_NEEDS_IGNORE_NOT_FOUND, status, message).help(help));
            }
        });
    });
}

/// Whether setup names what a request deletes: in the body of another request, or in a script. Setup then creates it
/// under this name, and not the agent.
fn named_in_setup(view: &TaskView<'_>, step: &Step<Def>, url: &str) -> bool {
    let written = step.arg("url").and_then(texts::script_text).unwrap_or_default();
    let (Some(shown), Some(written)) = (last_segment(url), last_segment(&written)) else { return false };
    let mut named = false;
    view.task.setup.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            let method = step.arg("method").and_then(|method| method.as_literal()).unwrap_or("GET");
            let removes = step.op.name.to_ascii_lowercase().contains("delete");
            let sends = !matches!(method.to_ascii_uppercase().as_str(), "GET" | "HEAD" | "DELETE");
            if !removes && (sends || !matches!(step.op.kind, OperationKind::Builtin("http"))) {
                step.templates(&mut |template| named |= whole(&texts::written(template), written));
            }
        });
    });
    let scripts = view.effects.scripts.iter().filter(|script| script.view.phase == PhaseKind::Setup);
    let runs = scripts.flat_map(|script| &script.trace.runs);
    named
        || runs
            .filter(|run| !run.words.iter().any(|word| word.shown().to_ascii_lowercase().contains("delete")))
            .any(|run| run.words.iter().chain(&run.input).any(|word| whole(&word.shown(), shown)))
}

/// Returns the last segment of a URL's path, without the format: `eval` in `…/projects/eval.json?force=1`.
fn last_segment(url: &str) -> Option<&str> {
    let path = url.split('?').next()?.trim_end_matches('/');
    let last = path.rsplit('/').next()?;
    let last = [".json", ".xml", ".yaml"].iter().find_map(|format| last.strip_suffix(format)).unwrap_or(last);
    (!last.is_empty()).then_some(last)
}

/// Cleanup also runs if setup failed early. There is then nothing to delete: deletion fails (author mistake 11).
pub fn ignore_not_found(view: &TaskView<'_>, out: &mut Diagnostics) {
    not_found(view, out);
    first_run(view, out);
    let accepts_any = |step: &Step<Def>| {
        let status = step.expect.as_ref().and_then(|(_, expect)| expect.get("exitCode"));
        step.continue_on_error.is_some_and(|c| c.value) || status.and_then(Arg::as_literal) == Some("any")
    };
    for script in in_phase(view, PhaseKind::Cleanup).filter(|script| !accepts_any(script.step)) {
        let content = &script.content;
        let mut guarded: Vec<&Statement> = Vec::new();
        content.program.walk(&mut |s| match &s.kind {
            Kind::Or(pair) => pair[0].walk(&mut |s| guarded.push(s)),
            Kind::If { branches, .. } => branches
                .iter()
                .flat_map(|b| b.condition.iter().chain(&b.body))
                .for_each(|s| s.walk(&mut |s| guarded.push(s))),
            Kind::And(pair) => pair[1].walk(&mut |s| guarded.push(s)),
            _ => {}
        });
        for command in content.program.commands() {
            let releases = command.name() == "helm"
                && command.words().get(1).is_some_and(|w| matches!(w.text.as_str(), "uninstall" | "delete"));
            let call =
                if releases { Some(Call { words: command.words(), verb: 1 }) } else { Call::of(command, "delete") };
            let Some(call) = call else { continue };
            let lenient = call.has(&["--ignore-not-found", "-l", "--selector", "--all"]);
            // If errors do not stop the script, only its last command decides.
            let last = content
                .program
                .body
                .last()
                .is_some_and(|s| s.range.end >= command.range.end && s.range.start <= command.range.start);
            let decides = last || content.program.stops_at_errors() || errexit_line(&content.text);
            if lenient || !decides || guarded.iter().any(|g| std::ptr::eq(*g, command)) {
                continue;
            }
            let verb = content.span(call.words[call.verb].range.clone());
            let behind = Span { start: verb.end, ..verb };
            out.push(
                Diagnostic::new(&CLEANUP_NEEDS_IGNORE_NOT_FOUND, verb, "this fails if there is nothing to delete")
                    .help("cleanup also runs if setup fails early: write `--ignore-not-found`")
                    .fix("add `--ignore-not-found`", behind, " --ignore-not-found"),
            );
        }
    }
}

/// Cleanup deletes a namespace without waiting, and setup creates it: the next run may start too early.
fn next_run(view: &TaskView<'_>, out: &mut Diagnostics) {
    let model = view.effects;
    let runs = |phase: PhaseKind| {
        model.scripts.iter().filter(move |script| script.view.phase == phase).flat_map(|script| &script.trace.runs)
    };
    let named = |run: &crate::effects::shell::Run<'_>, verb: &str| {
        let words: Vec<String> = run.words.iter().map(crate::effects::value::Value::shown).collect();
        let tool = words.first().is_some_and(|name| tools::canonical(name) == "kubectl") && !tools::is_dry(&words);
        let operands: Vec<&String> = tools::operands("kubectl", words.get(1..)?).collect();
        match operands.as_slice() {
            [first, kind, name, ..] if tool && *first == verb && is_namespace(kind) => {
                Some((words.clone(), (*name).clone()))
            }
            _ => None,
        }
    };
    // If cleanup waits for anything, this may be included.
    if !model.sees(PhaseKind::Cleanup)
        || runs(PhaseKind::Cleanup).any(|run| run.words.iter().any(|word| word.literal() == Some("wait")))
    {
        return;
    }
    for gone in runs(PhaseKind::Cleanup) {
        let Some((words, name)) = named(gone, "delete") else { continue };
        if !words.iter().any(|word| word == "--wait=false") || name.contains("random.") {
            continue;
        }
        for made in runs(PhaseKind::Setup) {
            // A lenient setup continues if the namespace still exists.
            if made.lenient || named(made, "create").is_none_or(|(_, made)| made != name) {
                continue;
            }
            let before = runs(PhaseKind::Setup).take_while(|run| !std::ptr::eq(*run, made));
            let waits = before.into_iter().any(|run| {
                run.words.iter().any(|word| word.literal() == Some("wait"))
                    || matches!(run.words.first().and_then(crate::effects::value::Value::literal), Some("sleep"))
                    || named(run, "delete")
                        .is_some_and(|(words, gone)| gone == name && !words.iter().any(|w| w == "--wait=false"))
                    || run.words.iter().any(|word| word.literal() == Some("get"))
            });
            if !waits && model.sees(PhaseKind::Setup) {
                out.push(
                    Diagnostic::new(
                        &DELETE_THEN_CREATE,
                        made.content.span(made.statement.range.clone()),
                        format!(
                            "`{name}` may still exist when the task runs again: cleanup does not wait for its deletion"
                        ),
                    )
                    .label(gone.content.span(gone.statement.range.clone()), "deleted here, without waiting")
                    .help("wait in cleanup, or start setup with `kubectl delete namespace NAME --ignore-not-found`"),
                );
            }
        }
    }
}

/// A namespace is deleted without waiting, and created again (author mistake 16).
pub fn race(view: &TaskView<'_>, out: &mut Diagnostics) {
    next_run(view, out);
    let mut gone: Vec<(String, Span)> = Vec::new();
    let mut by_step: indexmap::IndexMap<Span, Vec<&ScriptView<'_>>> = indexmap::IndexMap::new();
    in_phase(view, PhaseKind::Setup).for_each(|s| by_step.entry(s.step.key).or_default().push(s));
    let mut report = |name: &str, at: Span, gone: &[(String, Span)]| {
        if let Some((_, deleted)) = gone.iter().find(|(n, _)| n == name) {
            out.push(
                Diagnostic::new(
                    &DELETE_THEN_CREATE,
                    at,
                    format!("`{name}` may still exist: its deletion does not wait"),
                )
                .label(*deleted, "deleted here")
                .help("wait until it is deleted, or use a unique name: add `{random.id}` to it"),
            );
        }
    };
    for step in &view.task.setup.steps {
        if let OperationKind::Extension { operation, .. } = &step.op.kind {
            let namespace = text(step, "kind").is_some_and(|k| k == "Namespace");
            let name = step.arg("metadata").and_then(|m| m.get("name")).and_then(|n| n.as_literal());
            match (operation.as_str(), name.filter(|_| namespace)) {
                ("delete", Some(name)) if !waits(step) => gone.push((name.to_owned(), step.key)),
                ("create", Some(name)) => report(name, step.key, &gone),
                ("wait", _) => gone.clear(),
                _ => {}
            }
            continue;
        }
        for script in by_step.get(&step.key).into_iter().flatten() {
            for command in script.content.program.commands() {
                let at = script.content.span(command.range.clone());
                if command.name() == "sleep"
                    || command.words().get(1).is_some_and(|w| w.text == "wait")
                    || unseen(command)
                {
                    gone.clear();
                }
                let name = |call: &Call<'_>| match call.named()[..] {
                    [kind, name, ..] if is_namespace(&kind.text) => Some(name.text.clone()),
                    _ => None,
                };
                if let Some(call) =
                    Call::of(command, "delete").filter(|c| c.words.iter().any(|w| w.text == "--wait=false"))
                {
                    gone.extend(name(&call).map(|n| (n, at)));
                } else if let Some(name) = Call::of(command, "create").as_ref().and_then(name) {
                    report(&name, at, &gone);
                }
            }
        }
    }
}

/// Whether a deletion waits, according to the step or else by default of the operation.
fn waits(step: &Step<Def>) -> bool {
    match step.arg("wait").map(|arg| &arg.kind) {
        Some(ArgKind::Bool(wait)) => *wait,
        Some(_) => true,
        None => step
            .op
            .signature
            .schema
            .as_ref()
            .and_then(|schema| schema.json().pointer("/properties/wait/default"))
            .is_some_and(|default| default == &serde_json::Value::Bool(true)),
    }
}

/// Whether a command runs another file, which may also wait.
fn unseen(command: &Statement) -> bool {
    matches!(command.name(), "source" | ".") || command.words().first().is_some_and(|w| w.text.contains('/'))
}

fn text<'s>(step: &'s Step<Def>, key: &str) -> Option<&'s str> {
    match &step.arg(key)?.kind {
        ArgKind::Text(template) => template.as_literal(),
        _ => None,
    }
}
