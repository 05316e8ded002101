//! The calls of an agent and their outcomes. One recorder serves one run of a task, over all its servers.

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use axum::http::HeaderMap;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::message::decoded;
use crate::{
    event::{Headers, TaskRun},
    hir::{WrongAnswer, WrongKind},
    plan::wire::is_secret_header,
    secrets::Secrets,
};

/// The JSON-RPC error code for an invalid request.
const INVALID_REQUEST: i64 = -32600;

/// One `tools/call`, `resources/read` or `prompts/get` of an agent, with secrets masked.
#[derive(Debug, Clone, PartialEq)]
pub struct CallRecord {
    pub server: String,
    pub kind: CallKind,
    /// The tool, the prompt or the URI.
    pub name: String,
    /// The complete `params` of the request.
    pub params: Value,
    pub started: Timestamp,
    pub duration: Duration,
    pub outcome: CallOutcome,
    /// The complete `result` of the answer.
    pub result: Option<Value>,
    /// The headers of the request, if it came over HTTP.
    pub headers: Headers,
    /// The call as the agent made it, if a part of it is masked above.
    pub unmasked: Option<Unmasked>,
}

/// The name and the params of a call, for evaluating it. They are never written anywhere.
#[derive(Clone, PartialEq)]
pub struct Unmasked {
    pub name: String,
    pub params: Value,
}

impl fmt::Debug for Unmasked {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Unmasked")
    }
}

/// What a call asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind {
    Tool,
    Resource,
    Prompt,
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallOutcome {
    Ok,
    /// A tool's result with `isError: true`.
    ToolError,
    ProtocolError {
        code: i64,
        message: String,
    },
    /// The server exited or the connection broke before an answer arrived.
    Lost,
    /// The agent canceled the call, or disconnected.
    Cancelled,
}

/// Counts tool calls against a limit.
#[derive(Debug, Default)]
pub struct Allowance {
    most: Option<u64>,
    made: AtomicU64,
}

impl Allowance {
    /// `made` is the number of calls made before.
    pub fn new(most: Option<u64>, made: u64) -> Self {
        Allowance { most, made: AtomicU64::new(made) }
    }

    /// The calls so far, including those that were refused.
    pub fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    /// Counts one more call; returns whether it may be made.
    pub fn admits(&self) -> bool {
        let before = self.made.fetch_add(1, Ordering::Relaxed);
        self.most.is_none_or(|most| before < most)
    }
}

/// Something unusual that the hub saw and that nothing else would report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub server: String,
    pub text: String,
    pub at: Timestamp,
}

/// Collects the calls of agent sessions. Clones share one list.
#[derive(Debug, Clone, Default)]
pub struct Recorder {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    secrets: Arc<Secrets>,
    task: OnceLock<TaskRun>,
    wrong: OnceLock<WrongAnswer>,
    limits: OnceLock<Limits>,
    calls: Mutex<Calls>,
}

#[derive(Debug)]
struct Limits {
    allowances: Vec<Arc<Allowance>>,
    /// Canceled when the first call beyond an allowance has been refused.
    beyond: CancellationToken,
}

#[derive(Debug, Default)]
struct Calls {
    /// In the order of their start; `None` is still running.
    slots: Vec<Option<CallRecord>>,
    /// The number of calls that do not say what they call.
    unreadable: usize,
    notices: Vec<Notice>,
    listeners: Vec<mpsc::UnboundedSender<CallRecord>>,
}

impl Recorder {
    /// A recorder that masks these secrets.
    pub fn new(secrets: Arc<Secrets>) -> Self {
        Recorder { shared: Arc::new(Shared { secrets, ..Shared::default() }) }
    }

    /// Sets the run of the task that is recorded.
    pub fn of_task(self, task: TaskRun) -> Self {
        let _ = self.shared.task.set(task);
        self
    }

    /// Makes one call get another answer than the server's.
    pub fn with(self, wrong: Option<WrongAnswer>) -> Self {
        if let Some(wrong) = wrong {
            let _ = self.shared.wrong.set(wrong);
        }
        self
    }

    /// A tool call beyond one of these allowances does not reach its server, and stops the agent.
    pub fn within(self, allowances: Vec<Arc<Allowance>>, beyond: CancellationToken) -> Self {
        let _ = self.shared.limits.set(Limits { allowances, beyond });
        self
    }

    /// The run of a task that is recorded, if any.
    pub fn task(&self) -> Option<&TaskRun> {
        self.shared.task.get()
    }

    /// The finished calls, in the order in which they started.
    pub fn records(&self) -> Vec<CallRecord> {
        self.lock().slots.iter().flatten().cloned().collect()
    }

    /// The number of calls whose target cannot be read; if there are any, it is not known what the agent did.
    pub fn unreadable(&self) -> usize {
        self.lock().unreadable
    }

    /// The number of calls without an answer so far; they end when their session ends.
    pub fn running(&self) -> usize {
        self.lock().slots.iter().filter(|slot| slot.is_none()).count()
    }

    /// Receives every call that finishes from now on, in the order in which they finish.
    pub fn subscribe(&self) -> mpsc::UnboundedReceiver<CallRecord> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.lock().listeners.push(sender);
        receiver
    }

    /// The hubs' notices about the sessions of this recorder.
    pub fn notices(&self) -> Vec<Notice> {
        self.lock().notices.clone()
    }

    /// Counts a message of the agent that a server may read as another call than the recorded one. It was not passed
    /// on.
    pub(super) fn doubtful(&self) {
        self.lock().unreadable += 1;
    }

    pub(super) fn notice(&self, notice: Notice) {
        self.lock().notices.push(notice);
    }

    pub(super) fn open(
        &self,
        server: &str,
        kind: CallKind,
        params: Option<&str>,
        headers: Option<&HeaderMap>,
    ) -> OpenCall {
        let started = Timestamp::now();
        let text = params.unwrap_or("null");
        let mut params = decoded(text);
        let named = params.get(kind.name_key()).and_then(Value::as_str);
        let readable = named.is_some();
        let name = self.shared.secrets.mask(named.unwrap_or_default()).into_owned();
        let unmasked = self.shared.secrets.mask_json(&mut params).then(|| {
            let params = decoded(text);
            let name = params.get(kind.name_key()).and_then(Value::as_str).unwrap_or_default().to_owned();
            Unmasked { name, params }
        });
        let limits = self.shared.limits.get().filter(|_| kind == CallKind::Tool);
        // Every allowance counts the call.
        let refusing = |limits: &Limits| limits.allowances.iter().filter(|one| !one.admits()).count();
        let is_beyond = limits.is_some_and(|limits| refusing(limits) > 0);
        let headers = headers.map(|headers| shown(headers, &self.shared.secrets)).unwrap_or_default();
        let mut calls = self.lock();
        calls.unreadable += usize::from(!readable);
        calls.slots.push(None);
        OpenCall {
            recorder: self.clone(),
            slot: calls.slots.len() - 1,
            is_beyond,
            clock: Instant::now(),
            record: CallRecord {
                server: server.to_owned(),
                kind,
                name,
                params,
                started,
                duration: Duration::ZERO,
                outcome: CallOutcome::Lost,
                result: None,
                headers,
                unmasked,
            },
        }
    }

    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.shared.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Headers as they are recorded: names capitalized as in Go, and credentials masked.
fn shown(headers: &HeaderMap, secrets: &Secrets) -> Headers {
    let capital = |part: &str| part[..1].to_uppercase() + &part[1..];
    let mut shown = Headers::new();
    for (name, value) in headers {
        let key: Vec<_> =
            name.as_str().split('-').map(|part| if part.is_empty() { String::new() } else { capital(part) }).collect();
        let value = match value.to_str() {
            _ if value.is_sensitive() || is_secret_header(name.as_str()) => "***".to_owned(),
            Ok(text) => secrets.mask(text).into_owned(),
            Err(_) => "…".to_owned(),
        };
        shown.entry(key.join("-")).or_default().push(value);
    }
    shown
}

impl CallKind {
    pub(super) fn of_method(method: &str) -> Option<CallKind> {
        match method {
            "tools/call" => Some(CallKind::Tool),
            "resources/read" => Some(CallKind::Resource),
            "prompts/get" => Some(CallKind::Prompt),
            _ => None,
        }
    }

    fn name_key(self) -> &'static str {
        match self {
            CallKind::Tool | CallKind::Prompt => "name",
            CallKind::Resource => "uri",
        }
    }
}

/// A result as JSON, or the code and the message of an error.
pub(super) type Refusal = Result<String, (i64, &'static str)>;

/// A call without an answer so far.
#[derive(Debug)]
pub(super) struct OpenCall {
    recorder: Recorder,
    slot: usize,
    /// Whether the call exceeds an allowance.
    is_beyond: bool,
    clock: Instant,
    record: CallRecord,
}

impl OpenCall {
    /// The answer to a call that does not reach the server.
    pub fn refusal(&self) -> Option<Refusal> {
        const OUT: &str = "out of service";
        match self.record.kind {
            _ if self.is_beyond => Some(Err((INVALID_REQUEST, "no more tool calls may be made"))),
            _ if self.wrong() != Some(WrongKind::Error) => None,
            CallKind::Tool => {
                Some(Ok(json!({ "content": [{ "type": "text", "text": OUT }], "isError": true }).to_string()))
            }
            CallKind::Resource | CallKind::Prompt => Some(Err((-32603, OUT))),
        }
    }

    /// Records the answer of [`OpenCall::refusal`].
    pub fn refused(self, refusal: &Refusal) {
        match refusal {
            Ok(result) => self.answered(Some(result), None),
            Err((code, why)) => self.ended(CallOutcome::ProtocolError { code: *code, message: (*why).to_owned() }),
        }
    }

    /// The result that the agent gets instead of the server's, as JSON.
    pub fn replaced(&self) -> Option<String> {
        let result = match self.wrong()? {
            WrongKind::Error => return None,
            WrongKind::Empty => match self.record.kind {
                CallKind::Tool => json!({ "content": [] }),
                CallKind::Resource => json!({ "contents": [] }),
                CallKind::Prompt => json!({ "messages": [] }),
            },
            WrongKind::Of(other) => self.recorder.lock().slots.get(other)?.as_ref()?.result.clone()?,
        };
        Some(result.to_string())
    }

    fn wrong(&self) -> Option<WrongKind> {
        self.recorder.shared.wrong.get().filter(|wrong| wrong.call == self.slot).map(|wrong| wrong.kind)
    }

    /// Records the server's answer; one of the two arguments is its text.
    pub fn answered(mut self, result: Option<&str>, error: Option<&str>) {
        self.record.outcome = match error.map(decoded) {
            Some(error) => CallOutcome::ProtocolError {
                code: error.get("code").and_then(Value::as_i64).unwrap_or_default(),
                message: error.get("message").and_then(Value::as_str).unwrap_or_default().to_owned(),
            },
            None => {
                let result = decoded(result.unwrap_or("null"));
                let is_error = result.get("isError").filter(|_| self.record.kind == CallKind::Tool);
                let outcome = match is_error {
                    None | Some(Value::Bool(false)) => CallOutcome::Ok,
                    Some(Value::Bool(true)) => CallOutcome::ToolError,
                    Some(other) => CallOutcome::ProtocolError {
                        code: INVALID_REQUEST,
                        message: format!("the server answered with an `isError` that is no boolean: {other}"),
                    },
                };
                self.record.result = Some(result);
                outcome
            }
        };
        self.finish();
    }

    /// The call has no id, so it cannot be answered.
    pub fn unanswerable(self) {
        let message = "sent without an id: whether the server carried it out is not known".to_owned();
        self.ended(CallOutcome::ProtocolError { code: INVALID_REQUEST, message });
    }

    pub fn ended(mut self, outcome: CallOutcome) {
        self.record.outcome = outcome;
        self.finish();
    }

    fn finish(self) {
        let OpenCall { recorder, slot, is_beyond, clock, mut record } = self;
        record.duration = clock.elapsed();
        let secrets = &recorder.shared.secrets;
        if let Some(result) = &mut record.result {
            secrets.mask_json(result);
        }
        if let CallOutcome::ProtocolError { message, .. } = &mut record.outcome {
            *message = secrets.mask(message).into_owned();
        }
        let mut calls = recorder.lock();
        calls.listeners.retain(|listener| listener.send(record.clone()).is_ok());
        if let Some(place) = calls.slots.get_mut(slot) {
            *place = Some(record);
        }
        drop(calls);
        // Only now, so that the code that this stops finds the call among the records.
        if let Some(limits) = recorder.shared.limits.get().filter(|_| is_beyond) {
            limits.beyond.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn only_authorization_headers_are_masked() {
        let mut headers = HeaderMap::new();
        let mut sensitive = HeaderValue::from_static("abc");
        sensitive.set_sensitive(true);
        headers.insert("accept-sensitive", sensitive);
        headers.insert("authorization", HeaderValue::from_static("Bearer abc"));
        headers.insert("x-api-key", HeaderValue::from_static("abc"));
        headers.insert("accept", HeaderValue::from_static("text/plain"));
        headers.append("accept", HeaderValue::from_static("text/hunter22"));
        headers.insert("content-bytes", HeaderValue::from_bytes(b"\xff").unwrap());
        let shown = shown(&headers, &Secrets::new(["hunter22".to_owned()]));
        let mut shown: Vec<_> = shown.iter().map(|(name, values)| format!("{name}: {}", values.join(", "))).collect();
        shown.sort_unstable();
        let wanted = [
            "Accept-Sensitive: ***",
            "Accept: text/plain, text/***",
            "Authorization: ***",
            "Content-Bytes: …",
            "X-Api-Key: ***",
        ];
        assert_eq!(shown, wanted);
    }
}
