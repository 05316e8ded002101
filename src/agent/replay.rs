//! `builtin.replay`: makes the calls of a recording once more, in their order, on the servers as they are now. What they
//! answer otherwise than then is reported.

use std::path::Path;

use indexmap::IndexMap;
use serde_json::{Value, json};

use super::{AgentContext, AgentDone, AgentFault, Said};
use crate::{
    event::{
        Difference,
        recording::{Line, VERSION, Way},
    },
    hir::CallKind,
    secrets::MASK,
    ty::number::same_value,
};

/// Differences told one by one.
const TOLD: usize = 20;
/// Characters of a value that are shown.
const SHOWN: usize = 200;
/// Of these, before and after what differs.
const AROUND: usize = 32;

pub async fn run(cx: &AgentContext<'_>, path: &Path) -> AgentDone {
    let part = match read(cx, path) {
        Ok(part) => part,
        Err(why) => return AgentDone::ended(Err(AgentFault::NotStarted(why)), String::new()),
    };
    let mut played = Played::default();
    let result = tokio::select! {
        biased;
        () = cx.cancel.cancelled() => Err(AgentFault::Cancelled),
        done = play(cx, &part.calls, &mut played) => done.map_err(AgentFault::Failed),
        () = cx.host.sleep(cx.timeout) => Err(AgentFault::TimedOut(cx.timeout)),
    };
    played.said.push(&part.output);
    let output = if result.is_ok() { part.output } else { String::new() };
    let (transcript, Played { differences, remarks, .. }) =
        (played.said.into_text(), Played { said: Said::default(), ..played });
    AgentDone { transcript, differences, remarks, ..AgentDone::ended(result, output) }
}

/// What a recording has of one run of a task.
#[derive(Default)]
struct Part {
    calls: Vec<Call>,
    output: String,
}

struct Call {
    server: String,
    kind: CallKind,
    name: String,
    args: Value,
    /// None where there was no answer.
    result: Option<Value>,
}

fn read(cx: &AgentContext<'_>, path: &Path) -> Result<Part, String> {
    let shown = path.display().to_string();
    let bytes = cx.host.files().read(path).map_err(|e| format!("the recording `{shown}` cannot be read: {e}"))?;
    part(&String::from_utf8_lossy(&bytes), &shown, cx.task, cx.run)
}

/// The same run of the task, or the first one that was recorded. Of a run that was made again, the last attempt.
fn part(text: &str, shown: &str, wanted: &str, run: u32) -> Result<Part, String> {
    let mut lines = text.lines().enumerate().peekable();
    match lines.next().map(|(_, line)| Line::read(line)) {
        Some(Ok(Line::Recording { version, .. })) if version <= VERSION => {}
        Some(Ok(Line::Recording { version, .. })) => {
            return Err(format!("the recording `{shown}` has version {version}, which this version does not know"));
        }
        _ => return Err(format!("`{shown}` is no recording")),
    }
    let mut runs: IndexMap<u32, Part> = IndexMap::new();
    let mut open: IndexMap<(String, u64, String), (u32, usize)> = IndexMap::new();
    while let Some((number, text)) = lines.next() {
        let line = match Line::read(text) {
            Ok(line) => line,
            // Of a run that died the last line may be cut; a type that is not known is passed over.
            Err(_) if lines.peek().is_none() || serde_json::from_str::<Value>(text).is_ok() => continue,
            Err(e) => return Err(format!("line {} of the recording `{shown}` is not JSON: {e}", number + 1)),
        };
        match line {
            // Here an attempt begins.
            Line::Prompt { task, .. } if task.name == wanted => {
                open.retain(|_, (run, _)| *run != task.run);
                runs.insert(task.run, Part::default());
            }
            Line::Message { task: Some(task), server, session, direction, mut message, .. } if task.name == wanted => {
                let id = message.get("id").map(Value::to_string).unwrap_or_default();
                match (direction, message.get("method").and_then(Value::as_str).and_then(kind_of)) {
                    (Way::ToServer, Some(kind)) => {
                        let part = runs.entry(task.run).or_default();
                        let mut params = message["params"].take();
                        let key = if kind == CallKind::Resource { "uri" } else { "name" };
                        let name = params[key].as_str().unwrap_or_default().to_owned();
                        let args = match params["arguments"].take() {
                            Value::Null => json!({}),
                            args => args,
                        };
                        open.insert((server.clone(), session, id), (task.run, part.calls.len()));
                        part.calls.push(Call { server, kind, name, args, result: None });
                    }
                    (Way::FromServer, None) => {
                        let Some((run, at)) = open.swap_remove(&(server, session, id)) else { continue };
                        let answer = match message.get("error") {
                            Some(error) => refusal(error),
                            None => message["result"].take(),
                        };
                        if let Some(call) = runs.get_mut(&run).and_then(|part| part.calls.get_mut(at)) {
                            call.result = Some(answer);
                        }
                    }
                    _ => {}
                }
            }
            Line::Output { task, text, .. } if task.name == wanted => {
                runs.entry(task.run).or_default().output = text;
            }
            _ => {}
        }
    }
    let first = runs.keys().copied().min();
    let chosen = if runs.contains_key(&run) { Some(run) } else { first };
    chosen
        .and_then(|run| runs.swap_remove(&run))
        .ok_or_else(|| format!("the recording `{shown}` has nothing of the task `{wanted}`"))
}

fn kind_of(method: &str) -> Option<CallKind> {
    match method {
        "tools/call" => Some(CallKind::Tool),
        "resources/read" => Some(CallKind::Resource),
        "prompts/get" => Some(CallKind::Prompt),
        _ => None,
    }
}

/// As the result of a call that a server refuses is given to agents within gevals.
fn refusal(error: &Value) -> Value {
    let text = format!("{} ({})", error["message"].as_str().unwrap_or_default(), error["code"]);
    json!({ "content": [{ "type": "text", "text": text }], "isError": true })
}

#[derive(Default)]
struct Played {
    said: Said,
    differences: Vec<Difference>,
    remarks: Vec<(String, String)>,
}

async fn play(cx: &AgentContext<'_>, calls: &[Call], played: &mut Played) -> Result<(), String> {
    for (i, call) in calls.iter().enumerate() {
        let Call { server, kind, name, args, result } = call;
        let subject = format!("call {} of the recording, {server}.{name}", i + 1);
        played.said.line(&format!("{} {name} on {server}: {args}", kind.name()));
        if args.to_string().contains(MASK) {
            let text =
                format!("{subject}: a secret in its arguments was masked when it was recorded, and is missing now");
            played.remarks.push((server.clone(), text));
        }
        let found =
            cx.calls.call(server, *kind, name, args.clone()).await.map_err(|why| format!("{subject}: {why}"))?;
        played.said.line(&format!("→ {found}"));
        if result.as_ref().is_some_and(|recorded| is_as_recorded(recorded, &found)) {
            continue;
        }
        let expected = result.as_ref().map_or_else(|| "no answer".to_owned(), Value::to_string);
        let (expected, actual) = apart(&expected, &found.to_string());
        played.said.line(&format!("≠ {expected}"));
        if played.differences.len() < TOLD {
            let text = format!("{subject}, is answered otherwise than recorded: {actual} instead of {expected}");
            played.remarks.push((server.clone(), text));
            played.differences.push(Difference { subject, expected, actual, at: None });
        }
    }
    Ok(())
}

/// Whether this is what was recorded; a secret that was masked then may be anything.
fn is_as_recorded(recorded: &Value, found: &Value) -> bool {
    match (recorded, found) {
        (Value::String(recorded), Value::String(found)) => fits(recorded, found),
        (Value::String(recorded), Value::Number(found)) => {
            recorded.contains(MASK) && fits(recorded, &found.to_string())
        }
        (Value::Array(recorded), Value::Array(found)) => {
            recorded.len() == found.len() && recorded.iter().zip(found).all(|(one, other)| is_as_recorded(one, other))
        }
        (Value::Object(recorded), Value::Object(found)) => {
            recorded.len() == found.len()
                && recorded.iter().all(|(key, value)| match found.get(key) {
                    Some(other) => is_as_recorded(value, other),
                    None => found.iter().any(|(name, other)| fits(key, name) && is_as_recorded(value, other)),
                })
        }
        _ => same_value(recorded, found),
    }
}

/// Whether a text is one with masks in it.
fn fits(masked: &str, text: &str) -> bool {
    let mut parts = masked.split(MASK);
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, between)) = parts.split_last() else { return rest.is_empty() };
    for part in between {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// Two texts where they part, with a little of what they have in common around it.
fn apart(a: &str, b: &str) -> (String, String) {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let before = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
    let rest = a.len().min(b.len()) - before;
    let after = a.iter().rev().zip(b.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
    let cut = |text: &[char]| {
        let from = before.saturating_sub(AROUND);
        let to = (text.len() - after + AROUND).min(text.len()).min(from + SHOWN);
        let shown: String = text[from..to].iter().collect();
        let (begin, end) = (if from > 0 { "…" } else { "" }, if to < text.len() { "…" } else { "" });
        format!("{begin}{shown}{end}")
    };
    (cut(&a), cut(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_may_have_been_anything() {
        let is = |recorded: Value, found: Value| is_as_recorded(&recorded, &found);
        assert!(is(json!({ "t": "token is ***" }), json!({ "t": "token is abc" })));
        assert!(is(json!({ "t": ["a***b***c", "***"] }), json!({ "t": ["a1b2c", 12345678] })));
        assert!(is(json!({ "***": 1 }), json!({ "secret": 1 })));
        for (recorded, found) in [
            (json!("token is ***"), json!("a token is x")),
            (json!("***: no"), json!("x: yes")),
            (json!("a***b***c"), json!("acb")),
            (json!(["***"]), json!([])),
            (json!({ "a": "***" }), json!({ "b": "x" })),
            (json!("x"), json!("xy")),
            (json!("5"), json!(5)),
            (json!(5), json!("5")),
        ] {
            assert!(!is(recorded.clone(), found.clone()), "{recorded} {found}");
        }
    }

    #[test]
    fn of_a_run_that_was_made_again_the_last_attempt_is_played() {
        let at = "2026-01-01T00:00:00Z";
        let task = |run: u32| json!({ "index": 0, "name": "t", "run": run });
        let head = json!({ "type": "recording", "version": 1, "run": "r", "eval": "e", "planDigest": "d", "at": at });
        let message = |run, session: u64, direction, message: Value| {
            json!({ "type": "message", "at": at, "task": task(run), "server": "s", "session": session,
                "direction": direction, "message": message })
        };
        let called = |run, session, name| {
            let params = json!({ "name": name, "arguments": {} });
            message(run, session, "toServer", json!({ "id": 1, "method": "tools/call", "params": params }))
        };
        let answered =
            |run, session, text| message(run, session, "fromServer", json!({ "id": 1, "result": { "text": text } }));
        let prompt = |run| json!({ "type": "prompt", "at": at, "task": task(run), "text": "Do it." });
        let output = |run, text| json!({ "type": "output", "at": at, "task": task(run), "text": text, "exitCode": 0 });
        let lines = [
            head,
            prompt(0),
            called(0, 1, "first"),
            output(0, "lost"),
            prompt(1),
            called(1, 2, "other"),
            prompt(0),
            called(0, 3, "second"),
            // Of the first attempt, too late.
            answered(0, 1, "first"),
            answered(0, 3, "second"),
            answered(1, 2, "other"),
            output(0, "done"),
        ];
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let played = |run| {
            let part = part(&text, "x", "t", run).unwrap();
            let calls = part.calls.into_iter().map(|call| (call.name, call.result.unwrap_or_default()["text"].take()));
            (calls.collect::<Vec<_>>(), part.output)
        };
        assert_eq!(played(0), (vec![("second".to_owned(), json!("second"))], "done".to_owned()));
        assert_eq!(played(1).0, [("other".to_owned(), json!("other"))]);
    }

    #[test]
    fn a_difference_is_shown_where_it_is() {
        let long = |at: &str| format!("{}{{\"at\":\"{at}\"}}{}", "x".repeat(1000), "y".repeat(1000));
        let (a, b) = apart(&long("2026-01-01T10:00:00Z"), &long("2026-01-01T11:30:00Z"));
        assert!(a.contains("T10:00:00Z") && b.contains("T11:30:00Z") && a.chars().count() < 90, "{a}");
        assert_eq!(apart("aa", "aaa"), ("aa".to_owned(), "aaa".to_owned()));
        assert_eq!(apart("", "x"), (String::new(), "x".to_owned()));
    }
}
