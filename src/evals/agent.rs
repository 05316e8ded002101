//! Scenarios that an agent works on: it reaches the server through the recording proxy, as in a run, which records its
//! calls.

use serde_json::{Value, json};

use super::Server;
use crate::{
    agent::{self, AgentContext, AgentFault, AgentServer},
    builtin::count,
    host::Host,
    mcp::{CallKind, CallOutcome, CallRecord, Recorder, SessionKind},
    plan::AgentKind,
    primitive::{Message, Role},
    sandbox::agent::Jail,
};

/// An agent for scenarios.
#[derive(Clone, Copy)]
pub struct Doer<'a> {
    pub kind: &'a AgentKind,
    /// Isolates it from the machine, if it is a process.
    pub jail: Option<&'a Jail>,
}

/// Lets an agent do what the messages ask for, with at most `most` rounds of calls. The transcript has one JSON value
/// per line: the calls and results in order, then what the agent said.
///
/// # Errors
/// Why it did not complete its turn.
pub async fn work(
    context: AgentContext<'_>,
    doer: Doer<'_>,
    server: &Server,
    tools: &[Value],
    most: usize,
) -> Result<String, AgentFault> {
    let recorder = Recorder::default();
    let mut live = recorder.subscribe();
    let front = server.hub.serve_http(SessionKind::Agent(recorder.clone())).await;
    let front = front.map_err(|e| AgentFault::NotStarted(format!("no port to serve MCP on: {e}")))?;
    let servers = [offered(server, tools, front.url.clone())];
    // Stops only the agent.
    let stop = context.cancel.child_token();
    let context = AgentContext { servers: &servers, cancel: &stop, jail: doer.jail, ..context };
    let host: &dyn Host = context.host;
    let (mut calls, mut too_many): (Vec<CallRecord>, bool) = (Vec::new(), false);
    let mut done = {
        let work = agent::run(doer.kind, context);
        tokio::pin!(work);
        loop {
            tokio::select! {
                biased;
                Some(call) = live.recv() => {
                    calls.push(call);
                    if rounds(&calls) > most {
                        too_many = true;
                        stop.cancel();
                    }
                }
                done = &mut work => break done,
            }
        }
    };
    if let Some(leftover) = done.leftover.take() {
        host.reap(leftover).await;
    }
    // Its sessions have ended, and with them the calls that were still pending.
    drop(front);
    tokio::task::yield_now().await;
    match done.result {
        Err(AgentFault::Cancelled) if too_many => {
            done.cut = Some(format!("the agent still called tools after {}", count(most, "round", "rounds")));
        }
        result => result?,
    }
    let mut lines: Vec<String> = recorder.records().iter().flat_map(lines).collect();
    if done.transcript.trim() != done.output.trim() {
        lines.push(json!({ "transcript": done.transcript }).to_string());
    }
    lines.push(json!({ "says": done.output }).to_string());
    lines.extend(done.cut.map(|why| json!({ "cut": why }).to_string()));
    Ok(lines.join("\n"))
}

/// The messages as one prompt. In a dialog, each message is prefixed with its author.
pub fn prompt(messages: &[Message]) -> String {
    let all = |role: Role| messages.iter().all(|message| message.role == role);
    let said = |message: &Message| match all(Role::User) {
        true => message.text(),
        false if message.role == Role::User => format!("User: {}", message.text()),
        false => format!("Assistant: {}", message.text()),
    };
    let said: Vec<String> = messages.iter().map(said).collect();
    match all(Role::User) {
        true => said.join("\n\n"),
        false => format!("Go on with this conversation, as the assistant.\n\n{}", said.join("\n\n")),
    }
}

/// The server as the agent sees it. A server chooses its own name, which may be used in the agent's files and command
/// lines, so it is sanitized.
fn offered(server: &Server, tools: &[Value], url: String) -> AgentServer {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '-' };
    let text = |tool: &Value, at: &str| tool.pointer(at).and_then(Value::as_str).map(str::to_owned);
    let title = |tool: &Value| text(tool, "/title").or_else(|| text(tool, "/annotations/title"));
    AgentServer {
        name: server.name.chars().take(60).map(plain).collect(),
        url,
        allowed: tools.iter().filter_map(|tool| text(tool, "/name")).collect(),
        titles: tools.iter().filter_map(title).collect(),
        enable_all_tools: true,
    }
}

/// The number of rounds of tool calls. Calls that overlap in time are one round: an answer of a model may request
/// several calls.
fn rounds(calls: &[CallRecord]) -> usize {
    let mut spans: Vec<_> = calls
        .iter()
        .filter(|call| call.kind == CallKind::Tool)
        .map(|call| (call.started, call.started.checked_add(call.duration).unwrap_or(call.started)))
        .collect();
    spans.sort();
    let (mut rounds, mut until) = (0, None);
    for (start, end) in spans {
        if until.is_none_or(|until| start >= until) {
            rounds += 1;
        }
        until = until.max(Some(end));
    }
    rounds
}

/// A call and its result, as lines of the transcript.
fn lines(call: &CallRecord) -> [String; 2] {
    let called = match call.kind {
        CallKind::Tool => {
            let arguments = call.params.get("arguments").cloned().unwrap_or_else(|| json!({}));
            json!({ "calls": call.name, "arguments": arguments })
        }
        CallKind::Resource => json!({ "reads": call.name }),
        CallKind::Prompt => json!({ "prompt": call.name }),
    };
    let result = match (&call.outcome, &call.result) {
        (CallOutcome::ProtocolError { code, message }, _) => json!({ "error": format!("{message} ({code})") }),
        (CallOutcome::Lost | CallOutcome::Cancelled, _) => json!({ "error": "there was no answer" }),
        (_, result) => json!({ "result": result }),
    };
    [called.to_string(), result.to_string()]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn calls_that_overlap_are_one_round() {
        let call = |start: i64, ms: u64| CallRecord {
            server: "s".to_owned(),
            kind: CallKind::Tool,
            name: "t".to_owned(),
            params: Value::Null,
            started: jiff::Timestamp::from_millisecond(start).unwrap(),
            duration: Duration::from_millis(ms),
            outcome: CallOutcome::Ok,
            result: None,
            headers: Default::default(),
            unmasked: None,
        };
        assert_eq!(rounds(&[]), 0);
        assert_eq!(rounds(&[call(0, 10), call(5, 10), call(12, 1)]), 1);
        assert_eq!(rounds(&[call(20, 5), call(0, 10), call(10, 5)]), 3);
        let read = CallRecord { kind: CallKind::Resource, ..call(40, 1) };
        assert_eq!(rounds(&[call(0, 10), read]), 1);
    }
}
