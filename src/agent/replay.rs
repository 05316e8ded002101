//! `builtin.replay`: repeats the calls of a recording, in order, on the current servers. Answers that differ from the
//! recorded ones are reported. Random values are the same as in the recording.

use std::{borrow::Cow, path::Path, sync::LazyLock};

use indexmap::IndexMap;
use jiff::{Timestamp, ToSpan};
use regex::{Captures, Regex};
use serde_json::{Value, json};

use super::{AgentContext, AgentDone, AgentFault, Said, TRANSCRIPT};
use crate::{
    event::{
        Difference,
        recording::{Line, VERSION, Way},
    },
    hir::{Arg, CallKind, OracleCall, Template},
    host::Host,
    plan::{ActionKind, AgentKind, Plan},
    secrets::MASK,
    source::Spanned,
    ty::number::same_value,
};

/// Maximum number of differences reported one by one.
const TOLD: usize = 20;
/// Maximum number of characters of a value that are shown.
const SHOWN: usize = 200;
/// Maximum number of these before, and after, the difference.
const AROUND: usize = 32;

pub async fn run(cx: &AgentContext<'_>, path: &Path) -> AgentDone {
    let part = match read(cx.host, path, cx.task, cx.run) {
        Ok(part) => part,
        Err(why) => return AgentDone::ended(Err(AgentFault::NotStarted(why)), String::new()),
    };
    let mut played = Played::default();
    let result = tokio::select! {
        biased;
        () = cx.cancel.cancelled() => Err(AgentFault::Cancelled),
        done = play(cx, path, &part.calls, &mut played) => done.map_err(AgentFault::Failed),
        () = cx.host.sleep(cx.timeout) => Err(AgentFault::TimedOut(cx.timeout)),
    };
    played.said.push(&part.output);
    let output = if result.is_ok() { part.output } else { String::new() };
    let Played { said, differences, others } = played;
    let diverged = differences.first().map(|first| {
        let all = part.calls.len();
        format!("{others} of the {all} calls differ from the recording, first {}", first.subject)
    });
    AgentDone { transcript: said.into_text(), differences, diverged, ..AgentDone::ended(result, output) }
}

/// The random values of a recorded run of a task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Drawn {
    pub id: String,
    pub port: Option<u16>,
}

/// The random values of the run of the task that is replayed, if the recording contains them.
pub fn drawn(host: &dyn Host, path: &Path, task: &str, run: u32) -> Option<Drawn> {
    read(host, path, task, run).ok()?.drawn
}

/// Turns the plan of a task whose agent replays a recording into one that makes the calls as a script, of which mutants
/// can be made. Other plans are unchanged. Fails if the recording contains nothing of the task, or not all of it.
pub fn follow(host: &dyn Host, plan: &mut Plan) -> Result<(), String> {
    let (ix, task) = (plan.agent, plan.task.name.value.clone());
    let action = plan.action_mut(ix);
    let span = action.span;
    let ActionKind::Agent(turn) = &mut action.kind else { return Ok(()) };
    let AgentKind::Replay { path } = &turn.kind else { return Ok(()) };
    let part = read(host, path, &task, 0)?;
    let name = |text: String| Spanned::new(text, span);
    let script = |call: Call| {
        if call.args.to_string().contains(MASK) {
            let (line, path) = (call.line, path.display());
            return Err(format!(
                "line {line} of the recording `{path}` has a secret that was masked: it cannot be sent"
            ));
        }
        let args = match call.args {
            Value::Object(args) => {
                args.iter().map(|(key, value)| (name(key.clone()), Arg::of_value(value, span))).collect()
            }
            _ => Vec::new(),
        };
        let (server, called) = (name(call.server), Template::literal(call.name, span));
        Ok(OracleCall { span, kind: call.kind, server, name: called, args })
    };
    let calls = part.calls.into_iter().map(script).collect::<Result<_, _>>()?;
    let output = (!part.output.is_empty()).then(|| Template::literal(part.output, span));
    turn.recorded = Some(path.clone());
    turn.kind = AgentKind::Script { calls, output, entry: true };
    Ok(())
}

/// What a recording contains of one run of a task.
#[derive(Default)]
struct Part {
    drawn: Option<Drawn>,
    calls: Vec<Call>,
    output: String,
    /// Whether an agent got the prompt. The calls of `gevals proxy` belong to no run: it has neither random values nor a prompt.
    prompted: bool,
    /// The agent's exit status, if the recording contains the end of its turn.
    ended: Option<i32>,
    /// The first message that was too long for the recording: its line, and its size in bytes.
    cut: Option<(usize, u64)>,
}

struct Call {
    server: String,
    kind: CallKind,
    name: String,
    args: Value,
    /// The line of the recording, from 1.
    line: usize,
    /// `None` if there was no answer.
    result: Option<(Timestamp, Value)>,
}

fn read(host: &dyn Host, path: &Path, task: &str, run: u32) -> Result<Part, String> {
    let shown = path.display().to_string();
    let bytes = host.files().read(path).map_err(|e| format!("the recording `{shown}` cannot be read: {e}"))?;
    part(&String::from_utf8_lossy(&bytes), &shown, task, run)
}

/// The same run of the task, or the first recorded one. If a run was repeated, its last attempt.
fn part(text: &str, shown: &str, wanted: &str, run: u32) -> Result<Part, String> {
    let mut lines = text.lines().enumerate().peekable();
    match lines.next().map(|(_, line)| Line::read(line)) {
        Some(Ok(Line::Recording { version, .. })) if version <= VERSION => {}
        Some(Ok(Line::Recording { version, .. })) => {
            return Err(format!(
                "the recording `{shown}` has version {version}, which this version of gevals does not support"
            ));
        }
        _ => return Err(format!("`{shown}` is not a recording")),
    }
    let mut runs: IndexMap<u32, Part> = IndexMap::new();
    let mut open: IndexMap<(String, u64, String), (u32, usize)> = IndexMap::new();
    let mut full = false;
    while let Some((number, text)) = lines.next() {
        let line = match Line::read(text) {
            Ok(line) => line,
            // After a crash the last line may be truncated; unknown types are skipped.
            Err(_) if lines.peek().is_none() || serde_json::from_str::<Value>(text).is_ok() => continue,
            Err(e) => return Err(format!("line {} of the recording `{shown}` is not JSON: {e}", number + 1)),
        };
        match line {
            // An attempt starts here, and its agent's turn with the prompt.
            Line::Random { task, id, port, .. } if task.name == wanted => {
                open.retain(|_, (run, _)| *run != task.run);
                runs.insert(task.run, Part { drawn: Some(Drawn { id, port }), ..Part::default() });
            }
            Line::Prompt { task, .. } if task.name == wanted => {
                open.retain(|_, (run, _)| *run != task.run);
                let part = runs.entry(task.run).or_default();
                *part = Part { drawn: part.drawn.take(), prompted: true, ..Part::default() };
            }
            Line::Cut { .. } => full = true,
            Line::Message { task: Some(task), cut: Some(bytes), .. } if task.name == wanted => {
                runs.entry(task.run).or_default().cut.get_or_insert((number + 1, bytes));
            }
            Line::Message { at, task: Some(task), server, session, direction, mut message, .. }
                if task.name == wanted =>
            {
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
                        part.calls.push(Call { server, kind, name, args, line: number + 1, result: None });
                    }
                    (Way::FromServer, None) => {
                        let Some((run, place)) = open.swap_remove(&(server, session, id)) else { continue };
                        let answer = match message.get("error") {
                            Some(error) => refusal(error),
                            None => message["result"].take(),
                        };
                        if let Some(call) = runs.get_mut(&run).and_then(|part| part.calls.get_mut(place)) {
                            call.result = Some((at, answer));
                        }
                    }
                    _ => {}
                }
            }
            Line::Output { task, text, exit_code, .. } if task.name == wanted => {
                let part = runs.entry(task.run).or_default();
                (part.output, part.ended) = (text, Some(exit_code));
            }
            _ => {}
        }
    }
    let first = runs.keys().copied().min();
    let chosen = if runs.contains_key(&run) { Some(run) } else { first };
    let part = chosen
        .and_then(|run| runs.swap_remove(&run))
        .ok_or_else(|| format!("the recording `{shown}` contains nothing for the task `{wanted}`"))?;
    // A pass would mean nothing without the missing calls.
    if let Some((line, bytes)) = part.cut {
        return Err(format!(
            "line {line} of the recording `{shown}` replaces a message of {bytes} bytes, which was too long: record \
             it again with a larger `--max-recorded`"
        ));
    }
    if full && part.ended.is_none() {
        return Err(format!(
            "the recording `{shown}` was full before the task `{wanted}` had ended: record it again with a larger \
             `--max-recording`"
        ));
    }
    match part.ended {
        Some(0) => Ok(part),
        None if !part.prompted && part.drawn.is_none() => Ok(part),
        Some(_) => Err(format!(
            "the agent had failed when `{wanted}` was recorded in `{shown}`, so its calls are not complete: record it again"
        )),
        None => Err(format!(
            "the recording `{shown}` ends before the agent of `{wanted}` had ended, so calls are missing: record it again"
        )),
    }
}

fn kind_of(method: &str) -> Option<CallKind> {
    match method {
        "tools/call" => Some(CallKind::Tool),
        "resources/read" => Some(CallKind::Resource),
        "prompts/get" => Some(CallKind::Prompt),
        _ => None,
    }
}

/// A refusal by the server, as the result that agents within gevals get.
fn refusal(error: &Value) -> Value {
    let text = format!("{} ({})", error["message"].as_str().unwrap_or_default(), error["code"]);
    json!({ "content": [{ "type": "text", "text": text }], "isError": true })
}

#[derive(Default)]
struct Played {
    said: Said<TRANSCRIPT>,
    differences: Vec<Difference>,
    /// The number of calls whose result differs.
    others: usize,
}

async fn play(cx: &AgentContext<'_>, path: &Path, calls: &[Call], played: &mut Played) -> Result<(), String> {
    for (i, call) in calls.iter().enumerate() {
        let Call { server, kind, name, args, line, result } = call;
        let subject = format!("call {} of the recording, {server}.{name} ({}:{line})", i + 1, path.display());
        let mut otherwise = Vec::new();
        played.said.line(&format!("{} {name} on {server}: {args}", kind.name()));
        if args.to_string().contains(MASK) {
            otherwise.push(("what it is given", "a secret, which was masked".to_owned(), MASK.to_owned()));
        }
        let found =
            cx.calls.call(server, *kind, name, args.clone()).await.map_err(|why| format!("{subject}: {why}"))?;
        played.said.line(&format!("→ {found}"));
        let now = cx.host.now();
        let same =
            |(then, recorded): &(Timestamp, Value)| is_as_recorded(recorded, &found, Moments { then: *then, now });
        if !result.as_ref().is_some_and(same) {
            let expected = result.as_ref().map_or_else(|| "no answer".to_owned(), |(_, recorded)| recorded.to_string());
            let (expected, actual) = apart(&expected, &found.to_string());
            played.said.line(&format!("≠ {expected}"));
            otherwise.push(("its answer", expected, actual));
        }
        played.others += usize::from(!otherwise.is_empty());
        for (what, expected, actual) in otherwise {
            if played.differences.len() < TOLD {
                let subject = format!("{what} in {subject}");
                played.differences.push(Difference { subject, expected, actual, at: None, place: None });
            }
        }
    }
    Ok(())
}

/// The time of a message, in the recording and now.
#[derive(Clone, Copy)]
struct Moments {
    then: Timestamp,
    now: Timestamp,
}

/// Replaces the timestamps of the past hour in a text, because they differ between runs.
fn timeless(text: &str, now: Timestamp) -> Cow<'_, str> {
    static MOMENT: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)").ok());
    let Some(pattern) = &*MOMENT else { return text.into() };
    pattern.replace_all(text, |found: &Captures<'_>| {
        let recent = |at: &Timestamp| *at > now - 1.hour() && *at < now + 1.minute();
        match found[0].parse::<Timestamp>().ok().filter(recent) {
            Some(_) => "\0".to_owned(),
            None => found[0].to_owned(),
        }
    })
}

/// Whether a value matches the recorded one; a masked secret matches anything, and a recent timestamp matches a recent
/// timestamp.
fn is_as_recorded(recorded: &Value, found: &Value, when: Moments) -> bool {
    match (recorded, found) {
        (Value::String(recorded), Value::String(found)) => {
            fits(recorded, found) || fits(&timeless(recorded, when.then), &timeless(found, when.now))
        }
        (Value::String(recorded), Value::Number(found)) => {
            recorded.contains(MASK) && fits(recorded, &found.to_string())
        }
        (Value::Array(recorded), Value::Array(found)) => {
            recorded.len() == found.len()
                && recorded.iter().zip(found).all(|(one, other)| is_as_recorded(one, other, when))
        }
        (Value::Object(recorded), Value::Object(found)) => {
            recorded.len() == found.len()
                && recorded.iter().all(|(key, value)| match found.get(key) {
                    Some(other) => is_as_recorded(value, other, when),
                    None => found.iter().any(|(name, other)| fits(key, name) && is_as_recorded(value, other, when)),
                })
        }
        _ => same_value(recorded, found),
    }
}

/// Whether a text matches a text with masks.
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

/// Two texts around their difference, with some of the context they have in common.
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
    fn a_mask_matches_any_value() {
        let when = Moments { then: Timestamp::UNIX_EPOCH, now: Timestamp::UNIX_EPOCH };
        let is = |recorded: Value, found: Value| is_as_recorded(&recorded, &found, when);
        assert!(is(json!({ "t": "token is ***" }), json!({ "t": "token is abc" })));
        assert!(is(json!({ "t": ["a***b***c", "***"] }), json!({ "t": ["a1b2c", 12345678] })));
        assert!(is(json!({ "***": 1 }), json!({ "secret": 1 })));
        for (recorded, found) in [
            (json!("token is ***"), json!("a token is x")),
            (json!("***: no"), json!("x: yes")),
            (json!("a***b***c"), json!("acb")),
            // Each part comes after the previous one.
            (json!("***b***b"), json!("xb")),
            (json!(["***"]), json!([])),
            (json!({ "a": "***" }), json!({ "b": "x" })),
            (json!("x"), json!("xy")),
            (json!("5"), json!(5)),
            (json!(5), json!("5")),
        ] {
            assert!(!is(recorded.clone(), found.clone()), "{recorded} {found}");
        }
    }

    /// Recent timestamps match recent timestamps; older ones must be equal.
    #[test]
    fn recent_timestamps_match_recent_timestamps() {
        let at = |text: &str| text.parse().unwrap();
        let when = Moments { then: at("2026-01-01T10:00:00Z"), now: at("2026-05-05T20:00:00Z") };
        let is = |recorded: &str, found: &str| is_as_recorded(&json!(recorded), &json!({ "x": found })["x"], when);
        assert!(is("made 2026-01-01T09:59:59.5Z by me", "made 2026-05-05T21:59:00+02:00 by me"));
        assert!(is("2026-01-01T10:00:30Z", "2026-05-05T19:00:01Z"));
        for (recorded, found) in [
            ("due 2026-01-01T08:59:59Z", "due 2026-05-05T19:59:59Z"),
            ("due 2026-01-01T09:59:59Z", "due 2026-05-05T18:59:59Z"),
            ("due 2026-01-01T09:59:59Z", "due 2026-05-05T20:01:01Z"),
            ("due 2026-01-01T10:01:01Z", "due 2026-05-05T20:00:00Z"),
            // Exactly an hour before is not within the hour, nor is exactly a minute later within the minute.
            ("due 2026-01-01T09:00:00Z", "due 2026-05-05T20:00:00Z"),
            ("due 2026-01-01T10:01:00Z", "due 2026-05-05T20:00:00Z"),
            ("made 2026-01-01T09:59:59Z", "lost 2026-05-05T19:59:59Z"),
            ("2026-01-01T09:59:59Z", "today"),
        ] {
            assert!(!is(recorded, found), "{recorded} {found}");
        }
        assert!(is("2025-01-01T00:00:00Z", "2025-01-01T00:00:00Z"));
    }

    #[test]
    fn the_last_attempt_of_a_retried_run_is_replayed() {
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
        let random = |run| json!({ "type": "random", "at": at, "task": task(run), "id": "abc", "port": 1 });
        let output = |run, text| json!({ "type": "output", "at": at, "task": task(run), "text": text, "exitCode": 0 });
        // An attempt starts with its random values, or with its prompt if it has none.
        for begun in [prompt(0), random(0)] {
            let lines = [
                head.clone(),
                prompt(0),
                called(0, 1, "first"),
                output(0, "lost"),
                prompt(1),
                called(1, 2, "other"),
                begun,
                called(0, 3, "second"),
                // From the first attempt, too late.
                answered(0, 1, "first"),
                answered(0, 3, "second"),
                answered(1, 2, "other"),
                output(0, "done"),
                output(1, ""),
            ];
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            let played = |run| {
                let part = part(&text, "x", "t", run).unwrap();
                let calls = part.calls.into_iter().map(|call| (call.name, call.result.unwrap().1["text"].take()));
                (calls.collect::<Vec<_>>(), part.output)
            };
            assert_eq!(played(0), (vec![("second".to_owned(), json!("second"))], "done".to_owned()));
            assert_eq!(played(1).0, [("other".to_owned(), json!("other"))]);
        }
    }

    #[test]
    fn unreadable_lines_are_errors_except_at_the_end() {
        let head = |version: u32| {
            format!(
                r#"{{"type":"recording","version":{version},"run":"r","eval":"e","planDigest":"d","at":"2026-01-01T00:00:00Z"}}"#
            )
        };
        let output = r#"{"type":"output","at":"2026-01-01T00:00:00Z","task":{"index":0,"name":"t","run":0},"text":"done","exitCode":0}"#;
        let read = |lines: &[&str]| part(&lines.join("\n"), "x", "t", 0).map(|part| part.output);
        for version in 0..=VERSION {
            assert_eq!(read(&[&head(version), output]), Ok("done".to_owned()));
        }
        let newer = "the recording `x` has version 2, which this version of gevals does not support";
        assert_eq!(read(&[&head(VERSION + 1), output]), Err(newer.to_owned()));
        for lines in [&[][..], &[output], &["", output]] {
            assert_eq!(read(lines), Err("`x` is not a recording".to_owned()));
        }
        // A crash truncates the last line; a newer gevals may write other types.
        assert_eq!(read(&[&head(1), output, r#"{"type":"mess"#]), Ok("done".to_owned()));
        assert_eq!(read(&[&head(1), r#"{"type":"new"}"#, output]), Ok("done".to_owned()));
        let cut = read(&[&head(1), r#"{"type":"mess"#, output]).unwrap_err();
        assert!(cut.starts_with("line 2 of the recording `x` is not JSON: "), "{cut}");
        assert_eq!(read(&[&head(1)]), Err("the recording `x` contains nothing for the task `t`".to_owned()));
    }

    /// An incomplete recording is not replayed as if it were complete.
    #[test]
    fn only_complete_parts_of_a_truncated_recording_are_replayed() {
        let at = "2026-01-01T00:00:00Z";
        let head = json!({ "type": "recording", "version": 1, "run": "r", "eval": "e", "planDigest": "d", "at": at });
        let task = |name: &str| json!({ "index": 0, "name": name, "run": 0 });
        let message = |name: &str, message: Value| {
            json!({ "type": "message", "at": at, "task": task(name), "server": "s", "session": 1,
                "direction": "toServer", "message": message })
        };
        let called = |name| {
            message(name, json!({ "id": 1, "method": "tools/call", "params": { "name": "a", "arguments": {} } }))
        };
        let long = |name, bytes: u64| {
            let mut line = message(name, Value::Null);
            line["cut"] = bytes.into();
            line
        };
        let output = |name| json!({ "type": "output", "at": at, "task": task(name), "text": "", "exitCode": 0 });
        let full = json!({ "type": "cut", "at": at });
        let read = |lines: &[Value]| {
            let text: String = [&head].into_iter().chain(lines).map(|line| format!("{line}\n")).collect();
            part(&text, "x", "t", 0).map(|part| part.calls.iter().map(|call| call.line).collect::<Vec<_>>())
        };
        // Calls are identified by their lines.
        assert_eq!(read(&[called("t"), called("u"), called("t"), output("t")]), Ok(vec![2, 4]));

        let too_long = "line 3 of the recording `x` replaces a message of 7 bytes, which was too long: record it \
                        again with a larger `--max-recorded`";
        let lines = [called("t"), long("t", 7), long("t", 8), output("t")];
        assert_eq!(read(&lines), Err(too_long.to_owned()), "the first of them");
        assert_eq!(read(&[called("t"), long("u", 7), output("t")]), Ok(vec![2]), "of another task");

        let was_full = "the recording `x` was full before the task `t` had ended: record it again with a larger \
                        `--max-recording`";
        assert_eq!(read(&[called("t"), output("u"), full.clone()]), Err(was_full.to_owned()));
        assert_eq!(read(&[called("t"), output("t"), called("u"), full]), Ok(vec![2]), "it had ended");
        assert_eq!(read(&[called("t")]), Ok(vec![2]), "the calls of a proxy belong to no run");
        let random = json!({ "type": "random", "at": at, "task": task("t"), "id": "a" });
        let died = "the recording `x` ends before the agent of `t` had ended, so calls are missing: record it again";
        assert_eq!(read(&[random]), Err(died.to_owned()), "the run died before the prompt");
    }

    #[test]
    fn a_difference_is_shown_with_its_surroundings() {
        let long = |at: &str| format!("{}{{\"at\":\"{at}\"}}{}", "x".repeat(1000), "y".repeat(1000));
        let (a, b) = apart(&long("2026-01-01T10:00:00Z"), &long("2026-01-01T11:30:00Z"));
        assert!(a.contains("T10:00:00Z") && b.contains("T11:30:00Z") && a.chars().count() < 90, "{a}");
        assert_eq!(apart("aa", "aaa"), ("aa".to_owned(), "aaa".to_owned()));
        assert_eq!(apart("", "x"), (String::new(), "x".to_owned()));
        // Omissions are marked, and only those.
        let long = |n: usize| "x".repeat(n);
        let within = |c: &str| apart(&format!("{0}{c}{0}", long(100)), &format!("{0}b{0}", long(100))).0;
        assert_eq!(within("a"), format!("…{0}a{0}…", long(AROUND)));
        assert_eq!(apart(&long(100), &long(101)), (format!("…{}", long(32)), format!("…{}", long(33))));
        let (a, _) = apart(&long(300), "y");
        assert_eq!(a, format!("{}…", long(SHOWN)));
    }
}
