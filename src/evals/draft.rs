//! A first suite for a server, from its tools: each tool is called twice, and if both answers are equal, an eval expects
//! that answer.

use std::time::Duration;

use serde_json::{Value, json};

use super::Server;
use crate::{
    decode::SECRET_IN_CLEAR,
    diagnostic::{Diagnostic, Diagnostics},
    mcp::CallError,
    primitive::{self, KIND, Tools},
    signature::{Schema, arguments},
    source::Sources,
    yaml,
};

/// Between the first call and the second, so that an answer that contains the time differs.
const PAUSE: Duration = Duration::from_millis(1100);
/// Maximum size of an answer in a suite, in bytes.
const LONGEST: usize = 16 << 10;

/// A first suite.
#[derive(Debug)]
pub struct Drafted {
    /// The content of the file, without the tools that were left out.
    pub text: String,
    /// The number of evals.
    pub evals: usize,
    /// Tools that have no eval, and why.
    pub left_out: Vec<(String, String)>,
}

/// A tool, and the eval that calls it.
type Draft = (String, Value);

/// Drafts evals. Without `any`, only tools that are declared read-only are called; `private` returns why a text must
/// not be in a file.
///
/// # Errors
/// The server does not list its tools.
pub async fn draft(server: &Server, any: bool, private: impl Fn(&str) -> Option<String>) -> Result<Drafted, CallError> {
    let listed = server.client.list_tools().await?;
    let (mut left_out, mut asked) = (Vec::new(), Vec::new());
    for tool in &listed {
        let Some(name) = tool.get("name").and_then(Value::as_str) else { continue };
        match question(tool, any) {
            Ok(arguments) => {
                let answer = call(server, name, &arguments).await;
                asked.push((name.to_owned(), arguments, answer));
            }
            Err(why) => left_out.push((name.to_owned(), why)),
        }
    }
    if asked.iter().any(|(.., answer)| answer.is_ok()) {
        tokio::time::sleep(PAUSE).await;
    }
    let mut drafts: Vec<Draft> = Vec::new();
    for (name, arguments, answer) in asked {
        let again = match &answer {
            Ok(_) => call(server, &name, &arguments).await,
            Err(_) => answer.clone(),
        };
        match (answer, again) {
            (Err(why), _) => left_out.push((name, why)),
            (_, Err(why)) => left_out.push((name, format!("the second time, {why}"))),
            (Ok(first), Ok(second)) if first != second => {
                left_out.push((name, "its answer is different each time".to_owned()));
            }
            (Ok(content), Ok(_)) => match strings(&content).into_iter().find_map(&private) {
                Some(why) => left_out.push((name, why)),
                None => drafts.push((name.clone(), eval(&name, arguments, content))),
            },
        }
    }
    checked(&Tools::listed(&server.name, &listed), &mut drafts, &mut left_out);
    let evals: Vec<Value> = drafts.into_iter().map(|(_, eval)| eval).collect();
    let text = yaml::write(&json!({"kind": KIND, "evals": evals})).unwrap_or_default();
    Ok(Drafted { text, evals: evals.len(), left_out })
}

/// The arguments for a call of the tool, or why it is not called.
fn question(tool: &Value, any: bool) -> Result<Value, String> {
    let reads = tool.pointer("/annotations/readOnlyHint") == Some(&Value::Bool(true));
    if !reads && !any {
        return Err("it is not declared as read-only (`readOnlyHint`); --allow-execution calls it anyway".to_owned());
    }
    let schema = Schema::new(tool.get("inputSchema").filter(|s| s.is_object()).cloned().unwrap_or(Value::Bool(true)));
    let arguments = Value::Object(arguments(schema.json()));
    match schema.faults(&arguments, &[]).first() {
        None => Ok(arguments),
        Some(fault) => Err(format!("no arguments were found that match its schema: {arguments}, but {fault}")),
    }
}

/// Calls a tool, and returns the part of the result that is compared.
async fn call(server: &Server, name: &str, arguments: &Value) -> Result<Value, String> {
    let result = server.client.call_tool(name, arguments.clone()).await.map_err(|error| server.lost(&error))?;
    let short = |text: String| text.chars().take(200).collect::<String>();
    if result.is_error {
        return Err(short(format!("called with {arguments}, it reports an error: {}", result.text())));
    }
    let content = match (result.content.is_empty(), result.structured) {
        (false, _) => Value::Array(result.content),
        (true, Some(structured)) => json!({"structuredContent": structured}),
        (true, None) => return Err("its answer is empty".to_owned()),
    };
    match content.to_string().len() {
        size if size > LONGEST => Err(format!("its answer has {size} bytes, too many for an eval")),
        _ => Ok(content),
    }
}

/// All strings in a value.
fn strings(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(items) => items.iter().flat_map(strings).collect(),
        Value::Object(fields) => {
            fields.iter().flat_map(|(name, value)| [vec![name.as_str()], strings(value)].concat()).collect()
        }
        _ => Vec::new(),
    }
}

fn eval(name: &str, arguments: Value, content: Value) -> Value {
    let id: String = name.chars().map(|c| if c.is_control() || c.is_whitespace() { '-' } else { c }).collect();
    json!({
        "id": format!("{id}-answers"),
        "name": format!("{name} answers as it did when this eval was drafted"),
        "description": "Drafted: check that this is the right answer, and describe here what it shows.",
        "gradingType": "exact-match",
        "input": {"type": "execution", "toolName": name, "arguments": arguments},
        "expected": {"type": "exact-match", "content": content},
    })
}

/// Leaves out evals that `gevals evals check` would not accept.
fn checked(tools: &Tools, drafts: &mut Vec<Draft>, left_out: &mut Vec<(String, String)>) {
    drafts.retain(|(name, eval)| {
        let (text, mut found) =
            (yaml::write(&json!({"kind": KIND, "evals": [eval]})).unwrap_or_default(), Diagnostics::default());
        let sources = Sources::default();
        if let Ok(tree) = yaml::parse(sources.add("draft", text.as_str()), text, &mut found) {
            let document = primitive::file(tree, &mut found);
            primitive::check(&[document], Some(tools), &mut found);
        }
        // In a file that a person wrote, a secret is only a warning.
        let unfit = |d: &&Diagnostic| d.strength.is_error() || std::ptr::eq(d.rule, &raw const SECRET_IN_CLEAR);
        let error = found.iter().find(unfit).map(|d| d.message.clone());
        if let Some(error) = &error {
            left_out.push((name.clone(), format!("in its answer, {error}")));
        }
        error.is_none()
    });
}
