//! Converts portable tasks to evals.

use serde_json::{Map, Value, json};

use super::{CALLS, Effect, Loss, MAX_TURNS, NAME};
use crate::{
    hir::{
        Arg, ArgKind, Assertion, AssertionKind, Assertions, CallKind, CallMatcher, Dialect, Name, RequirementKind,
        Step, Task, Template,
    },
    primitive::compare::{is_block, whole},
    source::Span,
    template::{Path, Piece, scan},
    yaml::Tree,
};

/// A task, and what an eval file adds to it.
#[derive(Clone, Copy, Debug)]
pub struct Portable<'a> {
    pub task: &'a Task<Path>,
    /// The syntax tree of its file.
    pub tree: &'a Tree,
    /// The text of the prompt, if it is in a separate file.
    pub prompt: Option<&'a str>,
    /// Whether the agent does nothing, so that the verify steps see the server unchanged.
    pub idle: bool,
    pub assertions: &'a [&'a Assertions],
    /// The only server of the MCP config.
    pub server: Option<&'a str>,
}

/// A task converted to an eval.
#[derive(Clone, Debug)]
pub struct Exported {
    /// As on the wire.
    pub eval: Value,
    /// The server whose tools it uses, under the task's name for it.
    pub server: Option<String>,
    /// What the eval expresses differently, or not at all.
    pub losses: Vec<Loss>,
}

/// Returns the eval that passes if the task passes.
///
/// # Errors
/// Why there is none.
pub fn export(of: &Portable<'_>) -> Result<Exported, Loss> {
    let task = of.task;
    if task.dialect != Dialect::Portable {
        let message = "it is not in the portable dialect: convert it with `gevals convert`";
        return Err(Loss::left_out(task.name.span, message));
    }
    let id = &task.name.value;
    if id.trim() != id || id.contains(char::is_control) {
        return Err(Loss::left_out(
            task.name.span,
            "an id must not start or end with spaces, or contain control characters",
        ));
    }
    if let Some(first) = task.setup.steps.first() {
        return Err(Loss::left_out(first.key, "an eval cannot prepare an environment, as `setup` does"));
    }
    let mut export = Export { of, losses: Vec::new() };
    let judges = task.verify.steps.iter().any(|step| step.op.value == "llm");
    let said = match task.verify.steps.first() {
        _ if of.idle => export.execution()?,
        Some(_) if judges => export.scenario()?,
        None => export.invocation()?,
        Some(first) => {
            let message = "the task checks the effect of the agent's work, which an eval cannot do: it calls one tool of the \
                           unmodified server (for a task with `builtin.noop`), checks one call, or asks a judge";
            return Err(Loss::left_out(first.key, message));
        }
    };
    export.dropped();
    let Said { input, expected, server } = said;
    let mut eval = Map::from_iter([("id".to_owned(), Value::from(id.as_str()))]);
    eval.insert("name".to_owned(), annotation(of.tree, NAME).unwrap_or_else(|| id.clone()).into());
    if let Some(description) = &task.meta.description {
        eval.insert("description".to_owned(), description.value.as_str().into());
    }
    eval.insert("gradingType".to_owned(), expected["type"].clone());
    eval.insert("input".to_owned(), input);
    eval.insert("expected".to_owned(), expected);
    let mut losses = export.losses;
    losses.sort_by_key(|loss| loss.effect);
    Ok(Exported { eval: eval.into(), server, losses })
}

/// The parts of an eval that a task determines.
struct Said {
    input: Value,
    expected: Value,
    server: Option<String>,
}

struct Export<'a> {
    of: &'a Portable<'a>,
    losses: Vec<Loss>,
}

impl<'a> Export<'a> {
    fn lose(&mut self, effect: Effect, span: Span, message: impl Into<String>) {
        self.losses.push(Loss::new(effect, span, message));
    }

    /// One tool call, and the expected answer.
    fn execution(&mut self) -> Result<Said, Loss> {
        let task = self.of.task;
        let mut found: Option<(&Step<Path>, String, String)> = None;
        for step in &task.verify.steps {
            match (self.tool(step), &found) {
                (Some((server, tool)), None) => found = Some((step, server, tool)),
                (Some(_), Some(_)) => {
                    return Err(Loss::left_out(step.key, "an eval calls one tool, but this is a second call"));
                }
                (None, _) => self.unsaid(step),
            }
        }
        let Some((step, server, tool)) = found else {
            let message = "an eval calls a tool of a server, but no step of this task does";
            return Err(Loss::left_out(task.verify.key.unwrap_or(task.name.span), message));
        };
        let arguments = match step.arg("args") {
            Some(args) => literal(args)?,
            None => json!({}),
        };
        let content = self.content(step)?;
        self.step(step);
        let said = self.of.assertions.iter().flat_map(|set| &set.items);
        for assertion in said.filter(|assertion| !matches!(assertion.kind, AssertionKind::MaxToolCalls(0))) {
            let message = format!("`{}` checks calls of an agent, but this eval has no agent", assertion.key.value);
            self.lose(Effect::Dropped, assertion.key.span, message);
        }
        Ok(Said {
            input: json!({"type": "execution", "toolName": tool, "arguments": arguments}),
            expected: json!({"type": "exact-match", "content": content}),
            server: Some(server),
        })
    }

    /// The expectation for the result.
    fn content(&mut self, step: &Step<Path>) -> Result<Value, Loss> {
        let (mut named, mut unsaid) = (Map::new(), None);
        if let Some((_, expect)) = &step.expect {
            if let Some(is_error) = expect.get("isError") {
                named.insert("isError".to_owned(), literal(is_error)?);
            }
            if let Some(structured) = expect.get("structuredContent") {
                named.insert("structuredContent".to_owned(), literal(structured)?);
            }
            if let Some(Arg { kind: ArgKind::Record(fields), .. }) = expect.get("content") {
                for (key, value) in fields {
                    match key.value.as_str() {
                        "equals" => {
                            named.insert("content".to_owned(), literal(value)?);
                        }
                        "json" if fields.len() == 1 && !named.contains_key("structuredContent") => match root(value)? {
                            Some(value) => {
                                let message =
                                    "it is compared with the text of the result, not with its structured content";
                                self.lose(Effect::Differs, key.span, message);
                                named.insert("content".to_owned(), value);
                            }
                            None => unsaid = Some(key),
                        },
                        _ => unsaid = Some(key),
                    }
                }
            }
        }
        let says = |named: &Map<String, Value>| {
            named.len() > 1 || named.iter().any(|(key, value)| key != "isError" || value == &Value::Bool(true))
        };
        if let Some(key) = unsaid {
            let message = format!("an exact match compares the whole content, but `{}` only a part of it", key.value);
            if !says(&named) {
                return Err(Loss::left_out(key.span, message));
            }
            self.lose(Effect::Weaker, key.span, message);
        }
        Ok(match named.get("content") {
            Some(content) if named.len() == 1 && whole(content).is_none() => content.clone(),
            _ if named.is_empty() => json!({"isError": false}),
            _ => named.into(),
        })
    }

    /// One call that a model must make.
    fn invocation(&mut self) -> Result<Said, Loss> {
        let of = self.of;
        let items: Vec<&Assertion> = of.assertions.iter().flat_map(|set| &set.items).collect();
        let mut calls = items.iter().filter_map(|item| match &item.kind {
            AssertionKind::AllUsed(CallKind::Tool, calls) => Some(calls),
            _ => None,
        });
        let mut calls: Vec<&CallMatcher> = calls.by_ref().flatten().collect();
        let call = calls.pop();
        let Some(call) = call.filter(|_| calls.is_empty()) else {
            let (at, message) = match call {
                Some(second) => (second.span, "an invocation expects one call, but `toolsUsed` has several"),
                None => (
                    of.task.verify.key.unwrap_or(of.task.name.span),
                    "nothing is expected: it has no verify steps, and no specified eval file requires a call with \
                     `toolsUsed`",
                ),
            };
            return Err(Loss::left_out(at, message));
        };
        if let Some(pattern) = &call.pattern {
            return Err(Loss::left_out(
                pattern.span,
                "an invocation expects one tool, but a pattern can match several",
            ));
        }
        let mut expected = Map::from_iter([("type".to_owned(), Value::from("exact-match"))]);
        if let Some(name) = &call.name {
            expected.insert("toolName".to_owned(), name.value.as_str().into());
        }
        match call.arguments.as_ref().map(|arguments| &arguments.value) {
            Some(Value::Object(arguments)) if !arguments.is_empty() => {
                expected.insert("arguments".to_owned(), arguments.clone().into());
            }
            _ if call.name.is_none() => {
                return Err(Loss::left_out(
                    call.span,
                    "an invocation expects a tool or arguments, but this matches any call",
                ));
            }
            _ => {}
        }
        let input = json!({"type": "invocation", "messages": [self.message()?]});
        for (there, at, key) in [
            (call.status.is_some(), call.status.map(|s| s.span), "status"),
            (call.max_duration.is_some(), call.max_duration.map(|d| d.span), "maxDuration"),
        ] {
            if let (true, Some(at)) = (there, at) {
                self.lose(
                    Effect::Weaker,
                    at,
                    format!("an invocation does not execute the call, so `{key}` is not checked"),
                );
            }
        }
        let mut limited = false;
        for item in items {
            match &item.kind {
                AssertionKind::AllUsed(CallKind::Tool, _) => {}
                AssertionKind::MaxToolCalls(CALLS) => limited = true,
                AssertionKind::MinToolCalls(0..=CALLS) | AssertionKind::NoDuplicateCalls(_) => {}
                _ => {
                    let message = format!("an invocation expects one call and cannot check `{}`", item.key.value);
                    self.lose(Effect::Weaker, item.key.span, message);
                }
            }
        }
        if !limited {
            let message = "the agent may make other calls before this one, but an eval only checks the first answer \
                           (`maxToolCalls: 1` is equivalent)";
            self.lose(Effect::Differs, call.span, message);
        }
        Ok(Said { input, expected: expected.into(), server: Some(call.server.value.clone()) })
    }

    /// A model's work, and the rubric for the judge.
    fn scenario(&mut self) -> Result<Said, Loss> {
        let of = self.of;
        let servers = of.task.requires.iter().filter_map(|requirement| match &requirement.kind {
            RequirementKind::McpServer(name) => Some(name),
            _ => None,
        });
        let servers: Vec<&Name> = servers.collect();
        if let [_, second, ..] = servers.as_slice() {
            return Err(Loss::left_out(second.span, "an eval has one server, but this is a second one"));
        }
        let message = self.message()?;
        let mut demands = Vec::new();
        for step in &of.task.verify.steps {
            if step.op.value != "llm" {
                self.unsaid(step);
                continue;
            }
            for (key, arg) in &step.args {
                let Value::String(text) = literal(arg)? else { continue };
                let (effect, text) = match key.value.as_str() {
                    "contains" => {
                        (Some(Effect::Differs), format!("The last answer states all of this, in meaning: {text}"))
                    }
                    "exact" => (
                        Some(Effect::Differs),
                        format!("The last answer states this, in meaning, and nothing else: {text}"),
                    ),
                    _ => (None, text),
                };
                if let Some(effect) = effect {
                    let message = format!("an eval only has a rubric, which describes `{}` in words", key.value);
                    self.lose(effect, key.span, message);
                }
                demands.push(text);
            }
            self.step(step);
        }
        let rubric = match demands.as_slice() {
            [one] => one.clone(),
            several => {
                self.lose(
                    Effect::Differs,
                    of.task.verify.key.unwrap_or(of.task.name.span),
                    "the judge is asked once about all of them",
                );
                let numbered = several.iter().enumerate().map(|(nth, demand)| format!("\n{}. {demand}", nth + 1));
                format!("Each of these must hold:{}", numbered.collect::<String>())
            }
        };
        for assertion in of.assertions.iter().flat_map(|set| &set.items) {
            let message = format!("a scenario cannot check calls: `{}` is not checked", assertion.key.value);
            self.lose(Effect::Weaker, assertion.key.span, message);
        }
        let mut input = json!({"type": "scenario", "messages": [message]});
        if let Some(turns) =
            annotation(of.tree, MAX_TURNS).and_then(|turns| turns.parse::<u32>().ok()).filter(|n| *n > 0)
        {
            input["maxTurns"] = turns.into();
        }
        let server = servers.first().map(|name| name.value.clone()).or_else(|| of.server.map(str::to_owned));
        Ok(Said { input, expected: json!({"type": "llm-as-judge", "rubric": rubric}), server })
    }

    /// The prompt, as the only message.
    fn message(&self) -> Result<Value, Loss> {
        let of = self.of;
        let Some(prompt) = &of.task.prompt else {
            return Err(Loss::left_out(of.task.name.span, "it has no prompt"));
        };
        let text = match of.prompt {
            Some(text) => match scan(text).pieces.as_slice() {
                [Piece::Text(text)] => text.clone(),
                _ => {
                    return Err(Loss::left_out(
                        prompt.text.span,
                        "the prompt in this file contains holes, or is empty",
                    ));
                }
            },
            None => plain(&prompt.text)?,
        };
        Ok(json!({"role": "user", "content": {"type": "text", "text": text}}))
    }

    /// The server and the tool, if the step calls one.
    fn tool(&self, step: &Step<Path>) -> Option<(String, String)> {
        let (prefix, tool) = step.op.value.split_once('.')?;
        let server = self.of.task.requires.iter().find_map(|requirement| match &requirement.kind {
            RequirementKind::McpServer(name) => {
                let alias = requirement.alias.as_ref().unwrap_or(name);
                (alias.value == prefix).then(|| name.value.clone())
            }
            _ => None,
        });
        Some((server?, tool.to_owned()))
    }

    /// Reports a verify step of a kind that evals do not have.
    fn unsaid(&mut self, step: &Step<Path>) {
        self.lose(
            Effect::Weaker,
            step.key,
            format!("an eval does not support steps of type `{}`: it is not checked", step.op.value),
        );
    }

    /// Reports the keys of a step that evals do not have.
    fn step(&mut self, step: &Step<Path>) {
        let parts = [
            ("id", step.id.is_some()),
            ("timeout", step.timeout.is_some()),
            ("continueOnError", step.continue_on_error.is_some()),
            ("outputs", step.outputs.is_some()),
        ];
        let there: Vec<_> = parts.iter().filter(|(_, there)| *there).map(|(key, _)| format!("`{key}`")).collect();
        if !there.is_empty() {
            let message = format!("an eval does not support these keys of a step: {}", there.join(", "));
            self.lose(Effect::Dropped, step.key, message);
        }
    }

    /// Reports the parts of a task other than its prompt and its checks.
    fn dropped(&mut self) {
        let task = self.of.task;
        let meta = &task.meta;
        if let Some(step) = task.cleanup.steps.first() {
            let message = "an eval has no cleanup: its changes remain";
            self.lose(Effect::Differs, task.cleanup.key.unwrap_or(step.key), message);
        }
        if let Some(gate) = &meta.gate {
            self.lose(Effect::Differs, gate.span, "every run of an eval must pass: `gate` is not supported");
        }
        let spans = [
            ("difficulty", meta.difficulty.as_ref().map(|x| x.span)),
            ("labels", meta.labels.values().next().map(|x| x.span)),
            ("tags", meta.tags.first().map(|x| x.span)),
            ("runs", meta.runs.map(|x| x.span)),
            ("timeout", meta.timeout.map(|x| x.span)),
            ("cleanupTimeout", meta.cleanup_timeout.map(|x| x.span)),
            ("limits", (!meta.bounds.is_empty()).then_some(task.name.span)),
            ("imports", task.imports.first().map(|x| x.package.span)),
            ("env", task.env.first().map(|(name, _)| name.span)),
        ];
        let there: Vec<_> = spans.into_iter().filter_map(|(key, span)| Some((format!("`{key}`"), span?))).collect();
        if let Some((_, first)) = there.first() {
            let keys: Vec<_> = there.iter().map(|(key, _)| key.as_str()).collect();
            let message = format!("an eval does not support {}", keys.join(", "));
            self.lose(Effect::Dropped, *first, message);
        }
    }
}

/// The value of an argument.
///
/// # Errors
/// It has holes.
fn literal(arg: &Arg<Path>) -> Result<Value, Loss> {
    arg.as_value().ok_or_else(|| {
        let mut hole = None;
        arg.templates(&mut |template| hole = hole.take().or_else(|| template.holes().next()));
        filled(hole.map_or((arg.span, "it"), |hole| (hole.span, &hole.text)))
    })
}

fn plain(template: &Template<Path>) -> Result<String, Loss> {
    template
        .as_literal()
        .map(str::to_owned)
        .ok_or_else(|| filled(template.holes().next().map_or((template.span, "it"), |hole| (hole.span, &hole.text))))
}

fn filled((span, text): (Span, &str)) -> Loss {
    Loss::left_out(span, format!("an eval is the same in each run, but `{text}` is filled when the task runs"))
}

/// The value that a JSON expectation requires of the whole document, if that is all it requires and an exact match can
/// express it.
fn root(json: &Arg<Path>) -> Result<Option<Value>, Loss> {
    let json = match &json.kind {
        ArgKind::List(items) if items.len() == 1 => &items[0],
        _ => json,
    };
    let ArgKind::Record(fields) = &json.kind else { return Ok(None) };
    let (Some("$"), Some(equals), 2) = (json.get("path").and_then(Arg::as_literal), json.get("equals"), fields.len())
    else {
        return Ok(None);
    };
    let value = literal(equals)?;
    let blocks = value.as_array().is_some_and(|items| items.iter().all(is_block));
    let other = value.is_string() || value.is_null() || blocks || is_block(&value) || whole(&value).is_some();
    Ok((!other).then_some(value))
}

/// An annotation of a task.
fn annotation(tree: &Tree, key: &str) -> Option<String> {
    let text = tree.root().get("metadata")?.get("annotations")?.get(key)?.as_str()?;
    Some(text.to_owned()).filter(|text| !text.is_empty())
}
