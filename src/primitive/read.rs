//! Decodes evals from YAML and JSON: files that people write, and pages of `evals/list` that a server sent.

use serde_json::{Map, Value};

use super::{
    Document, EVAL_GRADING, Eval, ExactMatch, Expected, Grading, Input, Level, Message, Role, SAMPLING_MESSAGE,
    UNUSED_EXPECTATION,
};
use crate::{
    decode::{Fields, INVALID_VALUE, Leniency, Reader, VACUOUS_EXPECTATION, WRONG_TYPE, quote, unknown_field},
    diagnostic::{Diagnostic, Diagnostics, Strength, nearest},
    hir::Name,
    source::{Span, Spanned},
    yaml::{Data, Entry, Node, Tree},
};

/// The `kind` of a file of evals. A file that is named explicitly may omit it, like the result of `evals/list`.
pub const KIND: &str = "McpEvals";

/// The types of message blocks, and their required keys.
const BLOCKS: [(&str, &[&str]); 5] = [
    ("text", &["text"]),
    ("image", &["data", "mimeType"]),
    ("audio", &["data", "mimeType"]),
    ("tool_use", &["id", "name", "input"]),
    ("tool_result", &["toolUseId", "content"]),
];

/// Decodes a file that `gevals evals serve` accepts.
pub fn file(tree: Tree, out: &mut Diagnostics) -> Document {
    let mut reader = Reader::new(out, Leniency::Strict);
    let (mut evals, mut listed, mut server) = (Vec::new(), 0, None);
    let root = tree.root();
    if let Some(mut fields) = reader.fields(root, "a file of evals") {
        let head = root.entries().next().map_or(root.span(), |e| e.key.span());
        for known in ["kind", "apiVersion", "metadata"] {
            fields.take(&mut reader, known);
        }
        server = fields.take(&mut reader, "server").and_then(|n| reader.name(n, "the server of a file of evals"));
        let entry = fields.require_entry(&mut reader, "evals", head, None);
        fields.finish(&mut reader);
        let items = entry.map(|e| reader.items(e.value, "`evals`")).unwrap_or_default();
        listed = items.len();
        evals.extend(items.into_iter().filter_map(|item| eval(&mut reader, item)));
    }
    Document { evals, listed, server, tree }
}

/// Decodes the result of one `evals/list`. Results are open: keys other than `evals` belong to MCP.
pub fn page(tree: Tree, out: &mut Diagnostics) -> Document {
    let mut reader = Reader::new(out, Leniency::Strict);
    let (mut evals, mut listed) = (Vec::new(), 0);
    let root = tree.root();
    if let Some(mut fields) = reader.fields(root, "a page of evals") {
        let node = fields.require(&mut reader, "evals", root.span());
        let items = node.map(|n| reader.items(n, "`evals`")).unwrap_or_default();
        listed = items.len();
        evals.extend(items.into_iter().filter_map(|item| eval(&mut reader, item)));
    }
    Document { evals, listed, server: None, tree }
}

fn eval(reader: &mut Reader<'_>, node: Node<'_>) -> Option<Eval> {
    let mut fields = reader.fields(node, "an eval")?;
    let head = node.entries().next().map_or(node.span(), |e| e.key.span());
    let id = fields.require(reader, "id", head).and_then(|n| identifier(reader, n));
    let name = fields.require(reader, "name", head).and_then(|n| reader.name(n, "the name of an eval"));
    let description = fields.take(reader, "description").and_then(|n| reader.string(n, "the description of an eval"));
    let grading = fields
        .require(reader, "gradingType", head)
        .and_then(|n| word(reader, n, "`gradingType`", Grading::ALL.map(|g| (g.name(), g))));
    let input = fields.require_entry(reader, "input", head, None);
    let expected = fields.require_entry(reader, "expected", head, None);
    fields.take(reader, "_meta");
    fields.finish(reader);
    let input = input.and_then(|e| self::input(reader, e));
    let level = input.as_ref().map(|(level, ..)| *level);
    let expected = expected.and_then(|e| self::expected(reader, e, level, grading));
    let (id, name, grading) = (id?, name?, grading?);
    let (level, at, input) = input?;
    let (expected, kind) = expected?;
    if level == Level::Scenario && grading.value == Grading::ExactMatch {
        reader.error(
            Diagnostic::new(&EVAL_GRADING, grading.span, "a scenario cannot be graded with `exact-match`")
                .label(at, "the level")
                .help("models take a different path each time: use `llm-as-judge` and a `rubric`"),
        );
        return None;
    }
    if expected.grading() != grading.value {
        let message =
            format!("`gradingType` is `{}`, but the type of `expected` is `{}`", grading.value, expected.grading());
        reader.error(
            Diagnostic::new(&EVAL_GRADING, kind, message)
                .label(grading.span, "`gradingType`")
                .help("both must be the same"),
        );
        return None;
    }
    Some(Eval { span: node.span(), id, name, description, grading, input, expected, json: written(node) })
}

/// The eval as JSON. Among its own keys, a null value counts as absent.
fn written(node: Node<'_>) -> Value {
    let mut json = node.to_json();
    let mut trim = |pointer: &str| {
        if let Some(Value::Object(map)) = json.pointer_mut(pointer) {
            map.retain(|_, value| !value.is_null());
        }
    };
    trim("");
    trim("/input");
    trim("/expected");
    json
}

fn identifier(reader: &mut Reader<'_>, node: Node<'_>) -> Option<Name> {
    let id = reader.name(node, "the id of an eval")?;
    if id.value.trim() != id.value || id.value.contains(char::is_control) {
        let diagnostic = Diagnostic::new(
            &INVALID_VALUE,
            node.span(),
            "an id must not start or end with spaces, or contain control characters",
        );
        reader.error(diagnostic.help("ids are used on command lines and in lists"));
        return None;
    }
    Some(id)
}

/// Decodes one of several words.
fn word<T: Copy, const N: usize>(
    reader: &mut Reader<'_>,
    node: Node<'_>,
    what: &str,
    words: [(&'static str, T); N],
) -> Option<Spanned<T>> {
    let text = reader.string(node, what)?;
    if let Some((_, value)) = words.iter().find(|(word, _)| *word == text.value) {
        return Some(Spanned::new(*value, text.span));
    }
    let known: Vec<_> = words.iter().map(|(word, _)| format!("`{word}`")).collect();
    let diagnostic = Diagnostic::new(&INVALID_VALUE, text.span, format!("{what} cannot be `{}`", text.value))
        .help(format!("expected one of {}", known.join(", ")));
    reader.error(match nearest(&text.value, words.map(|(word, _)| word)) {
        Some(near) => {
            diagnostic.here(format!("did you mean `{near}`?")).fix(format!("write `{near}`"), text.span, near)
        }
        None => diagnostic,
    });
    None
}

fn input(reader: &mut Reader<'_>, entry: Entry<'_>) -> Option<(Level, Span, Input)> {
    let (node, place) = (entry.value, entry.key.span());
    let level = kind(reader, node, place, "`input`", Level::ALL.map(|l| (l.name(), l)))?;
    let what = match level.value {
        Level::Invocation => "the input of an invocation",
        Level::Execution => "the input of an execution",
        Level::Scenario => "the input of a scenario",
    };
    let mut fields = reader.fields(node, what)?;
    fields.take(reader, "type");
    let input = match level.value {
        Level::Invocation => {
            let messages = fields.require_entry(reader, "messages", place, None);
            fields.finish(reader);
            Input::Invocation { messages: self::messages(reader, messages?)? }
        }
        Level::Execution => {
            let tool = fields.require(reader, "toolName", place).and_then(|n| reader.name(n, "`toolName`"));
            let none = Some("write `arguments: {}` to call a tool without arguments");
            let arguments = fields.require_entry(reader, "arguments", place, none);
            fields.finish(reader);
            let arguments = arguments.and_then(|e| record(reader, e.value, "`arguments`"));
            Input::Execution { tool: tool?, arguments: arguments? }
        }
        Level::Scenario => {
            let messages = fields.require_entry(reader, "messages", place, None);
            let turns = fields.take(reader, "maxTurns");
            fields.finish(reader);
            let max_turns = match turns {
                Some(node) => Some(self::turns(reader, node)?),
                None => None,
            };
            Input::Scenario { messages: self::messages(reader, messages?)?, max_turns }
        }
    };
    Some((level.value, level.span, input))
}

fn turns(reader: &mut Reader<'_>, node: Node<'_>) -> Option<Spanned<u32>> {
    let number = reader.integer(node, "`maxTurns`")?;
    let turns = u32::try_from(number.value).ok().filter(|turns| *turns > 0);
    if turns.is_none() {
        let message = format!("`maxTurns` must be between 1 and {}", u32::MAX);
        let diagnostic = Diagnostic::new(&WRONG_TYPE, node.span(), message);
        reader.error(diagnostic.help("remove it to let the client decide"));
    }
    Some(Spanned::new(turns?, number.span))
}

/// The value of `type`, which decides which other keys are allowed.
fn kind<T: Copy, const N: usize>(
    reader: &mut Reader<'_>,
    node: Node<'_>,
    place: Span,
    what: &'static str,
    words: [(&'static str, T); N],
) -> Option<Spanned<T>> {
    let mut fields = reader.fields(node, what)?;
    let known: Vec<_> = words.iter().map(|(word, _)| format!("`type: {word}`")).collect();
    if let (None, Some(near)) = (node.entry("type"), node.entries().find(|e| nearest(e.name, ["type"]).is_some())) {
        reader.error(unknown_field(near.name, near.key.span(), what, ["type"], []).strength(Strength::Hard));
        return None;
    }
    let entry = fields.require_entry(reader, "type", place, Some(&format!("write {}", known.join(" or "))))?;
    word(reader, entry.value, &format!("the type of {what}"), words)
}

fn record(reader: &mut Reader<'_>, node: Node<'_>, what: &str) -> Option<Spanned<Map<String, Value>>> {
    match node.to_json() {
        Value::Object(map) => Some(Spanned::new(map, node.span())),
        _ => {
            reader.wrong_type(node, "a mapping", what);
            None
        }
    }
}

fn messages(reader: &mut Reader<'_>, entry: Entry<'_>) -> Option<Vec<Message>> {
    let node = entry.value;
    if !matches!(node.data(), Data::Seq) {
        reader.wrong_type(node, "a list", "`messages`");
        return None;
    }
    if node.is_empty() {
        let diagnostic =
            Diagnostic::new(&SAMPLING_MESSAGE, node.span(), "there are no messages: nothing is sent to the model");
        reader.error(diagnostic.help("write `- {role: user, content: {type: text, text: …}}`"));
        return None;
    }
    let listed = node.len();
    let messages: Vec<_> = node.items().filter_map(|item| message(reader, item)).collect();
    if let Some(last) = messages.last().filter(|last| last.role == Role::Assistant) {
        reader.out.push(
            Diagnostic::new(
                &SAMPLING_MESSAGE,
                last.span,
                "the last message is from the model itself, so there is nothing to answer",
            )
            .strength(Strength::Warning)
            .help("add a message with `role: user` at the end"),
        );
    }
    (messages.len() == listed).then_some(messages)
}

fn message(reader: &mut Reader<'_>, node: Node<'_>) -> Option<Message> {
    let mut fields = reader.fields(node, "a message")?;
    let role = fields.require(reader, "role", node.span());
    let content = fields.require(reader, "content", node.span());
    fields.take(reader, "_meta");
    fields.finish(reader);
    let role = role.and_then(|n| self::role(reader, n));
    let content = match content? {
        node if matches!(node.data(), Data::Seq) => {
            if node.is_empty() {
                reader.error(Diagnostic::new(&SAMPLING_MESSAGE, node.span(), "the message has no content"));
                return None;
            }
            let blocks: Vec<_> = node.items().filter_map(|item| block(reader, item)).collect();
            (blocks.len() == node.len()).then_some(blocks)
        }
        node => block(reader, node).map(|block| vec![block]),
    };
    Some(Message { span: node.span(), role: role?, content: content? })
}

fn role(reader: &mut Reader<'_>, node: Node<'_>) -> Option<Role> {
    if node.as_str() == Some("system") {
        reader.error(
            Diagnostic::new(&SAMPLING_MESSAGE, node.span(), "MCP messages do not support the role `system`")
                .help("use a message with `role: user`"),
        );
        return None;
    }
    Some(word(reader, node, "the role of a message", Role::ALL.map(|r| (r.name(), r)))?.value)
}

fn block(reader: &mut Reader<'_>, node: Node<'_>) -> Option<Value> {
    if let Some(text) = node.as_str() {
        let written = format!("{{type: text, text: {}}}", quote(text));
        reader.error(
            Diagnostic::new(&SAMPLING_MESSAGE, node.span(), "the content of a message must be a block, not a string")
                .help("write `{type: text, text: …}`")
                .fix("convert it to a block", node.span(), written),
        );
        return None;
    }
    let kind = kind(reader, node, node.span(), "a block of a message", BLOCKS.map(|b| (b.0, b)))?;
    let (name, keys) = kind.value;
    let mut complete = true;
    for &key in keys {
        let value = node.get(key);
        let (wanted, fits) = match (name, key) {
            ("tool_use", "input") => ("a mapping", value.is_some_and(|v| matches!(v.data(), Data::Map))),
            ("tool_result", "content") => ("a list", value.is_some_and(|v| matches!(v.data(), Data::Seq))),
            _ => ("a string", value.is_some_and(|v| v.as_str().is_some())),
        };
        match value {
            _ if fits => {}
            Some(value) => reader.wrong_type(value, wanted, &format!("`{key}`")),
            None => {
                let message = format!("a block of type `{name}` has no `{key}`");
                reader.error(Diagnostic::new(&SAMPLING_MESSAGE, node.span(), message));
            }
        }
        complete &= fits;
    }
    if let (true, Some(data)) = (complete, node.get("data").filter(|_| matches!(name, "image" | "audio"))) {
        use base64::Engine;
        if base64::prelude::BASE64_STANDARD.decode(data.as_str().unwrap_or_default()).is_err() {
            reader.error(Diagnostic::new(&SAMPLING_MESSAGE, data.span(), "`data` is not valid base64"));
            complete = false;
        }
    }
    complete.then(|| node.to_json())
}

fn expected(
    reader: &mut Reader<'_>,
    entry: Entry<'_>,
    level: Option<Level>,
    grading: Option<Spanned<Grading>>,
) -> Option<(Expected, Span)> {
    let (node, place) = (entry.value, entry.key.span());
    let kind = kind(reader, node, place, "`expected`", Grading::ALL.map(|g| (g.name(), g)))?;
    let agrees = grading.is_none_or(|grading| grading.value == kind.value);
    let what = match kind.value {
        Grading::ExactMatch => "what an exact match expects",
        Grading::LlmAsJudge => "the expectation for a judge",
    };
    let mut fields = reader.fields(node, what)?;
    fields.take(reader, "type");
    let expected = match kind.value {
        Grading::ExactMatch => {
            let tool = fields.take_entry(reader, "toolName");
            let arguments = fields.take_entry(reader, "arguments");
            let content = fields.take_entry(reader, "content");
            misplaced(reader, &mut fields, "rubric", "a rubric requires a judge: `type: llm-as-judge`");
            fields.finish(reader);
            let sensible = agrees && level != Some(Level::Scenario);
            let unused = match level.filter(|_| sensible) {
                Some(Level::Invocation) => [None, None, content],
                Some(Level::Execution) => [tool, arguments, None],
                _ => [None; 3],
            };
            unused.into_iter().flatten().for_each(|entry| self::unused(reader, entry, level));
            if let Some(level) = level.filter(|_| sensible)
                && unused.iter().all(Option::is_none)
            {
                vacuous(reader, place, level, tool.or(arguments), content);
            }
            let tool = tool.map(|e| reader.name(e.value, "`toolName`"));
            let arguments = arguments.map(|e| record(reader, e.value, "`arguments`"));
            Expected::ExactMatch(ExactMatch {
                // An invalid value makes the whole eval invalid.
                tool: flatten(tool)?,
                arguments: flatten(arguments)?,
                content: content.map(|e| Spanned::new(e.value.to_json(), e.value.span())),
            })
        }
        Grading::LlmAsJudge => {
            let rubric = fields.require(reader, "rubric", place).and_then(|n| reader.name(n, "a rubric"));
            for key in ["toolName", "arguments", "content"] {
                misplaced(reader, &mut fields, key, "a judge only reads the rubric: put it there");
            }
            fields.finish(reader);
            Expected::LlmAsJudge { rubric: rubric? }
        }
    };
    Some((expected, kind.span))
}

/// `Some(None)` if the value is absent; `None` if it is present but invalid.
fn flatten<T>(value: Option<Option<T>>) -> Option<Option<T>> {
    match value {
        None => Some(None),
        Some(value) => value.map(Some),
    }
}

/// Reports a key of the other grading.
fn misplaced(reader: &mut Reader<'_>, fields: &mut Fields<'_>, key: &'static str, help: &str) {
    if let Some(entry) = fields.take_entry(reader, key) {
        let message = format!("`{key}` has no effect here");
        reader.error(Diagnostic::new(&UNUSED_EXPECTATION, entry.key.span(), message).help(help));
    }
}

/// Reports a key of another level.
fn unused(reader: &mut Reader<'_>, entry: Entry<'_>, level: Option<Level>) {
    let (level, help) = match level {
        Some(Level::Invocation) => {
            ("invocation", "an invocation compares `toolName` and `arguments`: the tool is not called")
        }
        _ => ("execution", "an execution compares `content`: the call is specified in `input`"),
    };
    let message = format!("`{}` has no effect in an {level}: it is not compared", entry.name);
    reader.error(Diagnostic::new(&UNUSED_EXPECTATION, entry.key.span(), message).help(help));
}

/// Reports an expectation that every answer satisfies.
fn vacuous(reader: &mut Reader<'_>, place: Span, level: Level, call: Option<Entry<'_>>, content: Option<Entry<'_>>) {
    let (compared, help) = match level {
        Level::Invocation => (call, "add `toolName` with the tool that must be called"),
        Level::Execution => (content, "add `content` with the expected result of the tool"),
        Level::Scenario => return,
    };
    if compared.is_none() {
        let message = format!("the exact match of this {level} expects nothing: every answer passes");
        reader.error(Diagnostic::new(&VACUOUS_EXPECTATION, place, message).help(help));
    } else if let Some(empty) = compared.filter(|e| e.name == "arguments" && e.value.is_empty()) {
        let message = "`arguments` expects nothing: any call passes";
        reader.error(Diagnostic::new(&VACUOUS_EXPECTATION, empty.key.span(), message).help(help));
    }
}
