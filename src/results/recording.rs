//! Converts the runs of tasks in a recording to results that were never verified.

use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use super::RunResult;
use crate::event::recording::{Line, VERSION, Way};

/// One run of a task: the agent's prompt, calls and output.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Recorded {
    pub task: String,
    /// Counted from 0.
    pub run: u32,
    pub prompt: String,
    pub output: String,
    pub calls: Vec<Call>,
}

/// A call of an agent.
#[derive(Clone, PartialEq, Debug)]
pub struct Call {
    pub server: String,
    /// `tools/call`, `resources/read` or `prompts/get`.
    pub method: String,
    /// As sent, without secrets.
    pub params: Value,
    /// The result or the error; `None` if no answer came.
    pub answer: Option<Result<Value, Value>>,
}

/// Whether a text is a recording instead of a results file.
pub fn is_recording(text: &str) -> bool {
    matches!(text.lines().next().map(Line::read), Some(Ok(Line::Recording { .. })))
}

/// Returns the runs of tasks in a recording, in order; messages of gevals itself are left out.
///
/// # Errors
/// What is wrong with the recording, for people.
pub fn runs(text: &str) -> Result<Vec<Recorded>, String> {
    match text.lines().next().map(Line::read) {
        Some(Ok(Line::Recording { version, .. })) if version <= VERSION => {}
        Some(Ok(Line::Recording { version, .. })) => {
            return Err(format!(
                "it has version {version}, but this gevals supports up to {VERSION}: use a newer gevals"
            ));
        }
        _ => return Err("it is not a recording".to_owned()),
    }
    let mut runs: IndexMap<(String, u32), Recorded> = IndexMap::new();
    let mut open: IndexMap<(String, u64, String), ((String, u32), usize)> = IndexMap::new();
    // Lines of unknown types are skipped, and so is an incomplete last line of a run that died.
    for line in text.lines().filter_map(|line| Line::read(line).ok()) {
        match line {
            Line::Prompt { task, text, .. } => {
                let key = (task.name.clone(), task.run);
                open.retain(|_, (of, _)| *of != key);
                // For a run that was retried, the last attempt counts.
                runs.insert(key, Recorded { task: task.name, run: task.run, prompt: text, ..Recorded::default() });
            }
            Line::Output { task, text, .. } => of(&mut runs, task.name, task.run).output = text,
            Line::Message { task: Some(task), server, session, direction, mut message, .. } => {
                let id = message.get("id").map(Value::to_string).unwrap_or_default();
                let method = message.get("method").and_then(Value::as_str).unwrap_or_default().to_owned();
                match (direction, method.as_str()) {
                    (Way::ToServer, "tools/call" | "resources/read" | "prompts/get") => {
                        let key = (task.name.clone(), task.run);
                        let calls = &mut of(&mut runs, task.name, task.run).calls;
                        open.insert((server.clone(), session, id), (key, calls.len()));
                        calls.push(Call { server, method, params: message["params"].take(), answer: None });
                    }
                    (Way::FromServer, "") => {
                        let Some((key, at)) = open.swap_remove(&(server, session, id)) else { continue };
                        let answer = match message.get_mut("error") {
                            Some(error) => Err(error.take()),
                            None => Ok(message["result"].take()),
                        };
                        if let Some(call) = runs.get_mut(&key).and_then(|run| run.calls.get_mut(at)) {
                            call.answer = Some(answer);
                        }
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }
    Ok(runs.into_values().collect())
}

fn of(runs: &mut IndexMap<(String, u32), Recorded>, task: String, run: u32) -> &mut Recorded {
    let key = (task.clone(), run);
    runs.entry(key).or_insert_with(|| Recorded { task, run, ..Recorded::default() })
}

impl Call {
    /// The name of the tool or prompt, or the URI.
    pub fn name(&self) -> &str {
        let key = if self.method == "resources/read" { "uri" } else { "name" };
        self.params.get(key).and_then(Value::as_str).unwrap_or_default()
    }

    /// Whether it was answered without an error.
    pub fn succeeded(&self) -> bool {
        matches!(&self.answer, Some(Ok(result)) if result.get("isError") != Some(&Value::Bool(true)))
    }

    fn record(&self) -> Value {
        let error = match &self.answer {
            Some(Err(error)) => error.get("message").and_then(Value::as_str).unwrap_or("an error"),
            Some(Ok(_)) => "",
            None => "no answer",
        };
        let result = self.answer.as_ref().and_then(|answer| answer.as_ref().ok());
        let key = if self.method == "resources/read" { "uri" } else { "name" };
        json!({
            "serverName": self.server, key: self.name(), "success": error.is_empty(), "error": error,
            "result": result, "request": { "Params": self.params },
        })
    }
}

impl Recorded {
    /// Converts it to a result that was recorded but not verified.
    pub fn result(&self) -> RunResult {
        let of = |method: &str| -> Vec<Value> {
            self.calls.iter().filter(|call| call.method == method).map(Call::record).collect()
        };
        let (tools, resources, prompts) = (of("tools/call"), of("resources/read"), of("prompts/get"));
        let mut result = Map::new();
        let fields = [
            ("taskName", json!(self.task)),
            ("runIndex", json!(self.run)),
            ("outcome", json!("recorded")),
            ("taskOutput", json!(self.output)),
            ("callHistory", json!({ "ToolCalls": tools, "ResourceReads": resources, "PromptGets": prompts })),
        ];
        result.extend(fields.map(|(key, value)| (key.to_owned(), value)));
        RunResult(result)
    }
}
