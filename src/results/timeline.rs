//! Converts an agent's output to a list of what it did. Supports JSON lines in two formats, plain text under headings,
//! and paragraphs.

use serde_json::Value;

/// One action or statement of an agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// `note`, `thinking`, `plan`, `command`, `tool` or `message`.
    pub kind: &'static str,
    pub text: String,
}

/// Parses a task's output.
pub fn timeline(output: &str) -> Vec<Entry> {
    let lines: Vec<&str> = output.lines().filter(|l| !l.trim().is_empty()).collect();
    let json: Vec<Value> = lines.iter().filter_map(|l| serde_json::from_str(l.trim()).ok()).collect();
    let typed = |v: &Value| v.get("type").is_some_and(Value::is_string);
    if !json.is_empty() && json.len() * 2 >= lines.len() && json.iter().any(typed) {
        return json.iter().filter_map(entry).filter(|e| !e.text.trim().is_empty()).collect();
    }
    match headed(output) {
        entries if entries.is_empty() => {
            let paragraphs = output.split("\n\n").map(str::trim).filter(|p| !p.is_empty());
            paragraphs.map(|text| Entry { kind: "note", text: text.to_owned() }).collect()
        }
        entries => entries,
    }
}

fn entry(line: &Value) -> Option<Entry> {
    let kind = line.get("type")?.as_str()?;
    if let Some(item) = line.get("item").filter(|_| kind.starts_with("item.")) {
        // An item that has started is reported again when it completes.
        if kind == "item.started" {
            return None;
        }
        return Some(match text_of(item, &["type", "item_type"]).as_str() {
            "reasoning" => Entry { kind: "thinking", text: text_of(item, &["text"]) },
            "command_execution" => {
                let exit = item.get("exit_code").and_then(Value::as_i64).map(|c| format!(" (exit {c})"));
                let output = text_of(item, &["aggregated_output", "output"]);
                let text = format!("{}{}\n{output}", text_of(item, &["command"]), exit.unwrap_or_default());
                Entry { kind: "command", text }
            }
            "mcp_tool_call" => {
                let status = text_of(item, &["status"]);
                let status = if status.is_empty() { status } else { format!(" ({status})") };
                let (server, tool) = (text_of(item, &["server"]), text_of(item, &["tool", "name"]));
                Entry { kind: "tool", text: format!("{server}.{tool}{status}") }
            }
            "todo_list" => {
                let items = item.get("items").and_then(Value::as_array).into_iter().flatten().map(|todo| {
                    let done = todo.get("completed").and_then(Value::as_bool) == Some(true);
                    format!("[{}] {}", if done { 'x' } else { ' ' }, text_of(todo, &["text"]))
                });
                Entry { kind: "plan", text: items.collect::<Vec<_>>().join("\n") }
            }
            _ => Entry { kind: "message", text: text_of(item, &["text", "message"]) },
        });
    }
    match kind {
        "message" | "assistant" | "result" => {
            Some(Entry { kind: "message", text: text_of(line, &["text", "content", "message", "result"]) })
        }
        "thinking" | "reasoning" => {
            Some(Entry { kind: "thinking", text: text_of(line, &["text", "content", "thinking"]) })
        }
        "tool_use" | "tool_call" => {
            let input = line.get("input").map(|i| format!(" {i}")).unwrap_or_default();
            Some(Entry { kind: "tool", text: format!("{}{input}", text_of(line, &["name", "tool"])) })
        }
        "tool_result" => {
            Some(Entry { kind: "tool", text: format!("→ {}", text_of(line, &["content", "text", "output"])) })
        }
        _ => None,
    }
}

/// The first of these keys that exists, as text: a string, or the texts of a list of blocks.
fn text_of(value: &Value, keys: &[&str]) -> String {
    match keys.iter().find_map(|key| value.get(*key)) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(blocks)) => {
            let texts = blocks.iter().filter_map(|b| b.as_str().or_else(|| b.get("text")?.as_str()));
            texts.collect::<Vec<_>>().join("\n")
        }
        Some(Value::Object(inner)) if inner.contains_key("content") => {
            text_of(&Value::Object(inner.clone()), &["content"])
        }
        Some(other) => other.to_string(),
    }
}

/// Plain text in which one-word lines name the speaker; empty if it has no such line.
fn headed(output: &str) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut skipping = false;
    let mut known = false;
    for line in output.lines() {
        let word = line.trim().trim_start_matches('[').trim_end_matches([':', ']']).to_lowercase();
        let heading = match word.as_str() {
            "thinking" | "analysis" | "reasoning" => Some("thinking"),
            "plan" | "todo" => Some("plan"),
            "exec" | "command" => Some("command"),
            "tool" => Some("tool"),
            "assistant" | "codex" => Some("message"),
            "user" | "system" | "tokens used" => {
                skipping = true;
                continue;
            }
            _ => None,
        };
        match heading {
            Some(kind) => {
                (skipping, known) = (false, true);
                entries.push(Entry { kind, text: String::new() });
            }
            None if skipping => {}
            None => {
                if entries.is_empty() {
                    entries.push(Entry { kind: "note", text: String::new() });
                }
                if let Some(last) = entries.last_mut() {
                    last.text.push_str(line);
                    last.text.push('\n');
                }
            }
        }
    }
    entries.iter_mut().for_each(|e| e.text = e.text.trim().to_owned());
    entries.retain(|e| !e.text.is_empty());
    if known { entries } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(output: &str) -> Vec<String> {
        timeline(output).into_iter().map(|e| format!("{}: {}", e.kind, e.text)).collect()
    }

    #[test]
    fn four_formats_are_parsed() {
        let items = concat!(
            r#"{"type":"item.started","item":{"type":"command_execution","command":"ls"}}"#,
            "\n",
            r#"{"type":"item.completed","item":{"type":"command_execution","command":"ls","exit_code":0,"aggregated_output":"a"}}"#,
            "\n",
            r#"{"type":"item.completed","item":{"type":"mcp_tool_call","server":"s","tool":"t","status":"completed"}}"#,
            "\n",
            r#"{"type":"item.completed","item":{"type":"todo_list","items":[{"text":"x","completed":true},{"text":"y"}]}}"#,
            "\n",
            r#"{"type":"turn.completed"}"#,
        );
        assert_eq!(shown(items), ["command: ls (exit 0)\na", "tool: s.t (completed)", "plan: [x] x\n[ ] y"]);
        let flat = concat!(
            r#"{"type":"message","content":[{"type":"text","text":"hi"}]}"#,
            "\n",
            r#"{"type":"tool_use","name":"t","input":{"a":1}}"#,
            "\n",
            r#"{"type":"tool_result","content":"done"}"#,
        );
        assert_eq!(shown(flat), ["message: hi", "tool: t {\"a\":1}", "tool: → done"]);
        let plain = "user\nDo it.\nthinking\nHm.\nexec\nls -l\ncodex\nDone.\ntokens used\n500\n";
        assert_eq!(shown(plain), ["thinking: Hm.", "command: ls -l", "message: Done."]);
        assert_eq!(shown("One.\nTwo.\n\nThree."), ["note: One.\nTwo.", "note: Three."]);
        assert_eq!(shown(""), Vec::<String>::new());
    }
}
