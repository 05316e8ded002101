//! Checks the form of a single eval, requirement by requirement, on plain JSON, for a conformance run that lists each
//! violation. `read` stops at the first fault of an eval; this reports all of them.

use serde_json::{Map, Value};

use super::{Grading, Level};

/// Each requirement that this eval violates, and why; the ids are those of the conformance run.
pub fn faults(eval: &Value) -> Vec<(&'static str, String)> {
    let mut out = Vec::new();
    let Some(eval) = eval.as_object() else {
        return vec![("E14", format!("an eval is {}, not an object", kind(Some(eval))))];
    };
    let name = match eval.get("id") {
        Some(Value::String(id)) if !id.trim().is_empty() => format!("`{id}`"),
        id => {
            out.push(("E14", format!("an `id` is {}", kind(id))));
            format!("the eval without an id named {}", kind(eval.get("name")))
        }
    };
    let mut fault = |id: &'static str, why: String| out.push((id, format!("in {name}, {why}")));
    let text = |of: &Map<String, Value>, key: &str| of.get(key).and_then(Value::as_str).map(str::to_owned);
    if text(eval, "name").is_none() {
        fault("E17", format!("`name` is {}", kind(eval.get("name"))));
    }
    if eval.get("description").is_some_and(|d| !d.is_string()) {
        fault("E18", format!("`description` is {}", kind(eval.get("description"))));
    }
    if eval.contains_key("level") {
        fault("E33", "there is a `level` next to `input.type`".to_owned());
    }
    let grading = text(eval, "gradingType").and_then(|g| Grading::ALL.into_iter().find(|known| known.name() == g));
    if grading.is_none() {
        fault("E19", format!("`gradingType` is {}", kind(eval.get("gradingType"))));
    }
    let input = eval.get("input").and_then(Value::as_object);
    let level = input.and_then(|input| Level::named(&text(input, "type")?));
    match (input, level) {
        (Some(input), Some(level)) => self::input(input, level, &mut fault),
        (Some(input), None) => fault("E20", format!("`input.type` is {}", kind(input.get("type")))),
        (None, _) => fault("E20", format!("`input` is {}", kind(eval.get("input")))),
    }
    let Some(expected) = eval.get("expected").and_then(Value::as_object) else {
        fault("E21", format!("`expected` is {}", kind(eval.get("expected"))));
        return out;
    };
    if let (Some(grading), of) = (grading, text(expected, "type"))
        && of.as_deref() != Some(grading.name())
    {
        fault("E21", format!("`gradingType` is `{grading}`, but `expected.type` is {}", kind(expected.get("type"))));
        return out;
    }
    match grading {
        Some(Grading::ExactMatch) if level == Some(Level::Scenario) => {
            fault("E22", "a scenario is graded by `exact-match`".to_owned());
        }
        Some(Grading::ExactMatch) => exact(expected, level, &mut fault),
        Some(Grading::LlmAsJudge) if text(expected, "rubric").is_none_or(|rubric| rubric.trim().is_empty()) => {
            fault("E30", format!("`rubric` is {}", kind(expected.get("rubric"))));
        }
        _ => {}
    }
    out
}

fn input(input: &Map<String, Value>, level: Level, fault: &mut impl FnMut(&'static str, String)) {
    if level == Level::Execution {
        if input.get("toolName").and_then(Value::as_str).is_none_or(str::is_empty) {
            fault("E26", format!("`toolName` is {}", kind(input.get("toolName"))));
        }
        if !input.get("arguments").is_some_and(Value::is_object) {
            fault("E27", format!("`arguments` is {}", kind(input.get("arguments"))));
        }
        return;
    }
    match input.get("messages").and_then(Value::as_array) {
        Some(messages) if !messages.is_empty() => {
            for message in messages {
                let role = message.get("role").and_then(Value::as_str);
                if !matches!(role, Some("user" | "assistant")) {
                    fault("E24", format!("the `role` of a message is {}", kind(message.get("role"))));
                }
                if let Err(why) = content(message.get("content")) {
                    fault("E25", why);
                }
            }
        }
        Some(_) => fault("E23", "`messages` is empty".to_owned()),
        None => fault("E23", format!("`messages` is {}", kind(input.get("messages")))),
    }
    if let Some(turns) = input.get("maxTurns").filter(|_| level == Level::Scenario)
        && turns.as_u64().is_none_or(|turns| turns == 0)
    {
        fault("E28", format!("`maxTurns` is {turns}"));
    }
}

fn content(content: Option<&Value>) -> Result<(), String> {
    let blocks = match content {
        Some(Value::Array(blocks)) => blocks.as_slice(),
        Some(block @ Value::Object(_)) => std::slice::from_ref(block),
        other => return Err(format!("the `content` of a message is {}", kind(other))),
    };
    for block in blocks {
        let keys: &[&str] = match block.get("type").and_then(Value::as_str) {
            Some("text") => &["text"],
            Some("image" | "audio") => &["data", "mimeType"],
            Some("tool_use") => &["id", "name"],
            Some("tool_result") => &["toolUseId"],
            _ => return Err(format!("the `type` of a block is {}", kind(block.get("type")))),
        };
        if let Some(key) = keys.iter().find(|key| !block.get(**key).is_some_and(Value::is_string)) {
            return Err(format!("the `{key}` of a block is {}", kind(block.get(*key))));
        }
    }
    Ok(())
}

fn exact(expected: &Map<String, Value>, level: Option<Level>, fault: &mut impl FnMut(&'static str, String)) {
    if expected.get("toolName").is_some_and(|name| !name.is_string()) {
        fault("E29", format!("`expected.toolName` is {}", kind(expected.get("toolName"))));
    }
    if expected.get("arguments").is_some_and(|arguments| !arguments.is_object()) {
        fault("E29", format!("`expected.arguments` is {}", kind(expected.get("arguments"))));
    }
    let compares = match level {
        Some(Level::Invocation) => expected.contains_key("toolName") || expected.contains_key("arguments"),
        Some(Level::Execution) => expected.contains_key("content"),
        _ => true,
    };
    if !compares {
        fault("E34", "the exact match has no expectation that its level compares".to_owned());
    }
}

/// A short description of a value.
fn kind(value: Option<&Value>) -> String {
    match value {
        None => "missing".to_owned(),
        Some(Value::Array(_)) => "a list".to_owned(),
        Some(Value::Object(_)) => "an object".to_owned(),
        Some(value) => {
            let text = value.to_string();
            text.char_indices().nth(60).map_or(format!("`{text}`"), |(end, _)| format!("`{}…`", &text[..end]))
        }
    }
}
