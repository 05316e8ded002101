//! Converts evals to portable tasks, and creates the eval files that run them.

use serde_json::{Map, Value, json};

use super::{CALLS, Effect, Loss, MAX_TURNS, NAME};
use crate::{
    primitive::{Eval, ExactMatch, Expected, Input, Level, Message, Role, compare::whole},
    template::escape,
};

/// The prompt of a task whose agent does nothing: a prompt must not be empty.
const IDLE: &str = "No agent works on this. The step below calls the tool.";

/// An eval converted to a task.
#[derive(Clone, Debug)]
pub struct Imported {
    pub id: String,
    pub level: Level,
    /// The content of the task file.
    pub task: Value,
    /// The eval file's assertions about the agent's calls.
    pub assertions: Option<Value>,
    /// What the task expresses differently, or not at all.
    pub losses: Vec<Loss>,
}

/// The models that work on the tasks, and that judge them: `provider:model`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Agents<'a> {
    pub model: Option<&'a str>,
    pub judge: Option<&'a str>,
}

/// Returns the task that passes if the eval passes, for a server that the MCP config calls `server`.
///
/// # Errors
/// Why there is none.
pub fn import(eval: &Eval, server: &str) -> Result<Imported, Loss> {
    let mut losses = Vec::new();
    let mut assertions = None;
    let mut annotations = Map::new();
    if eval.name.value != eval.id.value {
        annotations.insert(NAME.to_owned(), eval.name.value.as_str().into());
    }
    let spec = match (&eval.input, &eval.expected) {
        (Input::Execution { tool, arguments }, Expected::ExactMatch(expected)) => {
            let Some(content) = &expected.content else {
                return Err(Loss::left_out(eval.id.span, "the eval expects nothing"));
            };
            let mut body = Map::new();
            if !arguments.value.is_empty() {
                body.insert("args".to_owned(), literal(&Value::Object(arguments.value.clone())));
            }
            body.insert("expect".to_owned(), expect(&content.value));
            let step = Map::from_iter([(format!("{server}.{}", tool.value), Value::Object(body))]);
            // The step calls the server; the agent must not.
            assertions = Some(json!({"maxToolCalls": 0}));
            json!({"requires": [{"mcpServer": server}], "prompt": IDLE, "verify": [step]})
        }
        (Input::Invocation { messages }, Expected::ExactMatch(expected)) => {
            let prompt = prompt(eval, messages, &mut losses)?;
            assertions = Some(demanded(expected, server));
            let message = "the agent's call is executed, and all its calls count, not only those of its first answer";
            losses.push(Loss::new(Effect::Differs, eval.id.span, message));
            json!({"requires": [{"mcpServer": server}], "prompt": prompt, "verify": []})
        }
        (Input::Scenario { messages, max_turns }, Expected::LlmAsJudge { rubric }) => {
            let prompt = prompt(eval, messages, &mut losses)?;
            if let Some(turns) = max_turns {
                annotations.insert(MAX_TURNS.to_owned(), turns.value.to_string().into());
                let message = format!(
                    "a task cannot limit an agent to {} answers: `maxTurns` becomes an annotation",
                    turns.value
                );
                losses.push(Loss::new(Effect::Differs, turns.span, message));
            }
            let verify = json!([{"llm": {"rubric": escape(&rubric.value)}}]);
            json!({"requires": [{"mcpServer": server}], "prompt": prompt, "verify": verify})
        }
        (_, Expected::LlmAsJudge { rubric }) => {
            let what = match eval.level() {
                Level::Execution => "the result of a tool",
                _ => "a single answer of a model",
            };
            return Err(Loss::left_out(
                rubric.span,
                format!("the judge of a task evaluates the work of an agent, not {what}"),
            ));
        }
        (Input::Scenario { .. }, Expected::ExactMatch(_)) => {
            return Err(Loss::left_out(eval.grading.span, "a scenario cannot be graded with `exact-match`"));
        }
    };
    if eval.json.get("_meta").is_some() {
        losses.push(Loss::new(Effect::Dropped, eval.id.span, "a task does not support `_meta`"));
    }
    let mut metadata = Map::from_iter([("name".to_owned(), Value::from(eval.id.value.as_str()))]);
    if let Some(description) = &eval.description {
        metadata.insert("description".to_owned(), description.value.as_str().into());
    }
    if !annotations.is_empty() {
        metadata.insert("annotations".to_owned(), annotations.into());
    }
    let task = json!({"kind": "Task", "apiVersion": "mcp-eval/v1", "metadata": metadata, "spec": spec});
    Ok(Imported { id: eval.id.value.clone(), level: eval.level(), task, assertions, losses })
}

/// What the step expects of the tool's answer.
fn expect(content: &Value) -> Value {
    let mut expect = Map::new();
    match whole(content) {
        Some(named) => {
            for (key, value) in named {
                let value = literal(value);
                expect.insert(key.clone(), if key == "content" { json!({"equals": value}) } else { value });
            }
        }
        None => {
            expect.insert("content".to_owned(), json!({"equals": literal(content)}));
        }
    }
    expect.into()
}

/// The eval file's assertions about the agent's calls.
fn demanded(expected: &ExactMatch, server: &str) -> Value {
    let mut call = Map::from_iter([("server".to_owned(), Value::from(server))]);
    if let Some(tool) = &expected.tool {
        call.insert("tool".to_owned(), tool.value.as_str().into());
    }
    if let Some(arguments) = &expected.arguments {
        call.insert("argumentsMatch".to_owned(), arguments.value.clone().into());
    }
    json!({"toolsUsed": [call], "maxToolCalls": CALLS})
}

/// A prompt is a single text of the user.
fn prompt(eval: &Eval, messages: &[Message], losses: &mut Vec<Loss>) -> Result<String, Loss> {
    let [message] = messages else {
        let at = messages.get(1).map_or(eval.id.span, |message| message.span);
        return Err(Loss::left_out(at, format!("a prompt must be a single message, but there are {}", messages.len())));
    };
    if message.role == Role::Assistant {
        return Err(Loss::left_out(message.span, "a prompt must be a message of the user, not of the model"));
    }
    let kind = |block: &Value| block.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    if let Some(other) = message.content.iter().map(kind).find(|kind| kind != "text") {
        return Err(Loss::left_out(
            message.span,
            format!("a prompt must be text, but this message contains `{other}`"),
        ));
    }
    let text = message.text();
    if text.trim().is_empty() {
        return Err(Loss::left_out(message.span, "this message is empty"));
    }
    if message.content.len() > 1 {
        let message_text =
            format!("its {} texts are joined to one prompt, each on separate lines", message.content.len());
        losses.push(Loss::new(Effect::Differs, message.span, message_text));
    }
    let more = |block: &Value| block.as_object().is_some_and(|block| block.len() > 2);
    if message.content.iter().any(more) {
        losses.push(Loss::new(Effect::Dropped, message.span, "only the text is used for the prompt"));
    }
    Ok(escape(&text))
}

/// Escapes a value so that nothing in it is read as a hole.
fn literal(value: &Value) -> Value {
    match value {
        Value::String(text) => escape(text).into(),
        Value::Array(items) => items.iter().map(literal).collect(),
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), literal(value))).collect(),
        other => other.clone(),
    }
}

/// The eval file that runs tasks of one level; the task files are next to it.
pub fn suite(name: &str, level: Level, agents: Agents<'_>, tasks: &[(String, &Imported)]) -> Value {
    let model = |model: Option<&str>| json!({"type": "builtin.llm-agent", "model": model});
    let agent = match level {
        Level::Execution => json!({"type": "builtin.noop"}),
        Level::Invocation | Level::Scenario => model(agents.model),
    };
    let mut config = Map::from_iter([("agent".to_owned(), agent)]);
    if level == Level::Scenario {
        config.insert("llmJudge".to_owned(), json!({"ref": model(agents.judge)}));
    }
    config.insert("mcpConfigFile".to_owned(), "mcp.yaml".into());
    let set = |(path, task): &(String, &Imported)| {
        let mut set = Map::from_iter([("path".to_owned(), Value::from(path.as_str()))]);
        if let Some(assertions) = &task.assertions {
            set.insert("assertions".to_owned(), assertions.clone());
        }
        set
    };
    config.insert("taskSets".to_owned(), tasks.iter().map(set).map(Value::from).collect());
    json!({"kind": "Eval", "metadata": {"name": name}, "config": config})
}
