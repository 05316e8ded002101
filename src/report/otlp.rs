//! `--otlp`: a run as OpenTelemetry traces, following the semantic conventions for GenAI and MCP
//! (`open-telemetry/semantic-conventions-genai`), for tests and for CI.
//!
//! One trace per run: the eval, and inside it the runs of tasks, their phases, actions and calls. The spans of a task are
//! exported when it ends, those of the eval at the end of the run. Content (prompts, answers, arguments and results of calls) is
//! included only if `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` is `true`, as the conventions require.

mod export;

pub use export::Destination;
pub(super) use export::Exporter;

use std::{collections::HashMap, sync::Arc};

use jiff::Timestamp;
use opentelemetry_proto::tonic::{
    common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value},
    resource::v1::Resource,
    trace::v1::{
        ResourceSpans, ScopeSpans, Span, Status, TracesData,
        span::{Event as SpanEvent, SpanKind},
        status::StatusCode,
    },
};
use serde_json::{Value, json};

use crate::{
    event::{ActionReport, CallReport, Event, EventKind, ExitReport, Outcome, TaskRun, Verdict},
    hir::{CallKind, CallStatus},
    plan::EvalPlan,
    random,
};

/// The longest text of an attribute, in bytes; collectors reject much longer ones.
const LONGEST: usize = 32 << 10;

/// Settings from environment variables named in the OpenTelemetry specification.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES`.
    resource: Vec<(String, String)>,
    /// `TRACEPARENT`: the trace and the span that the run belongs to.
    parent: Option<([u8; 16], [u8; 8])>,
    /// `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`.
    content: bool,
}

impl Surroundings {
    /// Reads the variables.
    ///
    /// # Errors
    /// Which variable cannot be read, and its expected format.
    pub fn read(env: &dyn Fn(&str) -> Option<String>) -> Result<Self, String> {
        let given = |name: &str| env(name).filter(|value| !value.trim().is_empty());
        let mut resource = vec![("service.name".to_owned(), "gevals".to_owned())];
        resource.push(("service.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()));
        let named =
            given("OTEL_RESOURCE_ATTRIBUTES").map(|list| pairs("OTEL_RESOURCE_ATTRIBUTES", &list)).transpose()?;
        let service = given("OTEL_SERVICE_NAME").map(|name| ("service.name".to_owned(), name));
        for (key, value) in named.into_iter().flatten().chain(service) {
            match resource.iter_mut().find(|(there, _)| *there == key) {
                Some((_, there)) => *there = value,
                None => resource.push((key, value)),
            }
        }
        let parent = given("TRACEPARENT").map(|text| {
            trace_parent(text.trim()).ok_or_else(|| {
                format!(
                    "TRACEPARENT is `{text}`, but must have the form 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
                )
            })
        });
        let content = given("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT");
        Ok(Self {
            resource,
            parent: parent.transpose()?,
            content: content.is_some_and(|value| value.trim().eq_ignore_ascii_case("true")),
        })
    }
}

/// Parses comma-separated `key=value` pairs with percent-encoded values (the format of W3C Baggage).
fn pairs(name: &str, list: &str) -> Result<Vec<(String, String)>, String> {
    let entries = list.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    let pair = |entry: &str| {
        let (key, value) = entry.split_once('=')?;
        let (key, value) = (decoded(key.trim())?, decoded(value.trim())?);
        (!key.is_empty()).then_some((key, value))
    };
    // The entry itself may be a secret, so the message does not quote it.
    let fault = || {
        format!(
            "{name} must have the form `key=value,other=value`, with special characters escaped as in a URL, like `%20`"
        )
    };
    entries.map(|entry| pair(entry).ok_or_else(fault)).collect()
}

/// Decodes percent-encoding such as `%20`.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, more @ ..] = rest {
        match (first, more) {
            (b'%', [high, low, more @ ..]) => {
                let digits = [*high, *low];
                bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
                rest = more;
            }
            (b'%', _) => return None,
            (byte, more) => {
                bytes.push(*byte);
                rest = more;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

/// Parses the ids in a `traceparent` (W3C Trace Context, version 00 and later).
fn trace_parent(text: &str) -> Option<([u8; 16], [u8; 8])> {
    let mut parts = text.split('-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let mut ids = ([0; 16], [0; 8]);
    hex::decode_to_slice(trace, &mut ids.0).ok()?;
    hex::decode_to_slice(span, &mut ids.1).ok()?;
    let whole = version.len() == 2 && version != "ff" && flags.len() == 2;
    (whole && ids.0 != [0; 16] && ids.1 != [0; 8]).then_some(ids)
}

/// Folds the events of a run into spans.
pub(super) struct Traces {
    plan: Arc<EvalPlan>,
    surroundings: Surroundings,
    trace: Vec<u8>,
    root: Option<Span>,
    tasks: HashMap<TaskRun, Spans>,
}

/// The spans of one run of a task; the first one is its own. A span that has not ended has no end time.
#[derive(Default)]
struct Spans {
    spans: Vec<Span>,
    phase: Option<usize>,
    agent: Option<usize>,
    /// The actions that have started and not ended.
    open: Vec<(String, usize)>,
}

impl Traces {
    pub fn new(plan: Arc<EvalPlan>, surroundings: Surroundings) -> Self {
        let trace = match &surroundings.parent {
            Some((trace, _)) => trace.to_vec(),
            None => [random::number().to_be_bytes(), random::number().to_be_bytes()].concat(),
        };
        Self { plan, surroundings, trace, root: None, tasks: HashMap::new() }
    }

    /// Takes the next event. Returns the spans that it completes.
    pub fn take(&mut self, event: &Event) -> Option<TracesData> {
        let at = event.at;
        let done = match (&event.task, &event.kind) {
            (None, kind) => self.take_own(at, kind),
            (Some(task), EventKind::TaskStarted { plan_digest }) => {
                // The spans of a broken attempt that is now retried.
                let before = self.tasks.remove(task).map(|spans| spans.spans).unwrap_or_default();
                let mut span = self.span(format!("task {}", task.name), self.root_id(), at);
                add(&mut span, "test.case.name", task.name.as_str());
                add(&mut span, "gevals.task.run", i64::from(task.run));
                add(&mut span, "gevals.plan.digest", plan_digest.as_str());
                self.tasks.insert(task.clone(), Spans { spans: vec![span], ..Spans::default() });
                before
            }
            (Some(task), EventKind::TaskFinished { verdict, reason, cleanup_failed, .. }) => {
                let spans = self.tasks.remove(task).unwrap_or_default();
                spans.finish(at, task, *verdict, reason, *cleanup_failed)
            }
            (Some(task), kind) => {
                self.take_of(task, at, kind);
                Vec::new()
            }
        };
        (!done.is_empty()).then(|| self.data(done))
    }

    fn take_own(&mut self, at: Timestamp, kind: &EventKind) -> Vec<Span> {
        match kind {
            EventKind::RunStarted { run_id, eval, plan_digest, tasks, runs, .. } => {
                let parent = self.surroundings.parent.map(|(_, span)| span.to_vec()).unwrap_or_default();
                let mut root = self.span(format!("eval {eval}"), parent, at);
                add(&mut root, "test.suite.name", eval.as_str());
                add(&mut root, "gevals.run.id", run_id.as_str());
                add(&mut root, "gevals.plan.digest", plan_digest.as_str());
                add(&mut root, "gevals.tasks", whole(*tasks as u64));
                add(&mut root, "gevals.runs", whole(*runs as u64));
                self.root = Some(root);
            }
            EventKind::ServerNotice { server, message } => {
                if let Some(root) = &mut self.root {
                    let attributes =
                        vec![pair("gevals.server", server.as_str()), pair("gevals.message", message.as_str())];
                    root.events.push(happened(at, "gevals.server.notice", attributes));
                }
            }
            EventKind::Cancelled { reason } => {
                if let Some(root) = &mut self.root {
                    root.events.push(happened(at, "gevals.cancelled", vec![pair("gevals.reason", reason.as_str())]));
                }
            }
            EventKind::RunFinished { exit, .. } => {
                let mut left: Vec<Span> = self.tasks.drain().flat_map(|(_, spans)| spans.spans).collect();
                if let Some(mut root) = self.root.take() {
                    let status = match exit {
                        0 => "success",
                        128.. => "aborted",
                        _ => "failure",
                    };
                    add(&mut root, "test.suite.run.status", status);
                    add(&mut root, "gevals.exit_code", i64::from(*exit));
                    if *exit != 0 {
                        root.status = Some(failed(format!("exit status {exit}")));
                    }
                    left.push(root);
                }
                left.iter_mut().filter(|span| span.end_time_unix_nano == 0).for_each(|span| end(span, at));
                return left;
            }
            _ => {}
        }
        Vec::new()
    }

    fn take_of(&mut self, task: &TaskRun, at: Timestamp, kind: &EventKind) {
        let Some(mut of_task) = self.tasks.remove(task) else { return };
        let content = self.surroundings.content;
        let spans = &mut of_task;
        match kind {
            EventKind::PhaseStarted { phase } => {
                spans.end_phase(at);
                let mut span = self.span(phase.clone(), spans.id(0), at);
                add(&mut span, "gevals.phase", phase.as_str());
                spans.phase = Some(spans.push(span));
            }
            EventKind::ActionStarted { action } => {
                let parent = spans.holder(action).or(spans.phase).unwrap_or(0);
                let is_agent = action == "agent";
                let name = if is_agent { format!("invoke_agent {}", self.plan.agent_name) } else { action.clone() };
                let mut span = self.span(name, spans.id(parent), at);
                add(&mut span, "gevals.action", action.as_str());
                if is_agent {
                    self.describe_agent(&mut span);
                }
                let own = spans.push(span);
                spans.agent = if is_agent { Some(own) } else { spans.agent };
                spans.open.push((action.clone(), own));
            }
            EventKind::ActionFinished { action, report } => {
                if let Some(place) = spans.open.iter().rposition(|(open, _)| open == action) {
                    let (_, own) = spans.open.remove(place);
                    spans.judged(at, action, report);
                    finish_action(&mut spans.spans[own], at, report, content);
                }
            }
            EventKind::CallRecorded { call } => {
                let parent = spans.agent.unwrap_or(0);
                let mut span = self.span(String::new(), spans.id(parent), call.started);
                describe_call(&mut span, call, content);
                end(&mut span, call.started + call.duration);
                spans.push(span);
            }
            EventKind::AgentPrompted { text } if content => spans.on_agent(|span| {
                let said = json!([{ "role": "user", "parts": [{ "type": "text", "content": text }] }]);
                add(span, "gen_ai.input.messages", said.to_string());
            }),
            EventKind::AgentSpoke { text } if content => spans.on_agent(|span| {
                let parts = json!([{ "type": "text", "content": text }]);
                let said = json!([{ "role": "assistant", "parts": parts, "finish_reason": "stop" }]);
                add(span, "gen_ai.output.messages", said.to_string());
            }),
            EventKind::TokensCounted { tokens } => spans.on_agent(|span| {
                add(span, "gen_ai.usage.input_tokens", whole(tokens.input_tokens));
                add(span, "gen_ai.usage.output_tokens", whole(tokens.output_tokens));
                add(span, "gevals.usage.source", tokens.source.as_str());
                if let Some(actual) = &tokens.actual {
                    add(span, "gen_ai.usage.cache_read.input_tokens", whole(actual.cached_read_tokens));
                    add(span, "gen_ai.usage.cache_creation.input_tokens", whole(actual.cached_write_tokens));
                }
                if let Some(cost) = tokens.cost {
                    add(span, "gevals.cost", any_value::Value::DoubleValue(cost));
                }
            }),
            EventKind::Remarked { remark } => {
                let attributes = vec![pair("gevals.message", remark.message.as_str())];
                spans.spans[0].events.push(happened(at, "gevals.remark", attributes));
            }
            _ => {}
        }
        self.tasks.insert(task.clone(), of_task);
    }

    fn describe_agent(&self, span: &mut Span) {
        add(span, "gen_ai.operation.name", "invoke_agent");
        add(span, "gen_ai.agent.name", self.plan.agent_name.as_str());
        let Some(model) = &self.plan.model else { return };
        let (provider, model) = model.split_once(':').map_or((None, model.as_str()), |(p, model)| (Some(p), model));
        if let Some(provider) = provider {
            add(span, "gen_ai.provider.name", provider);
        }
        add(span, "gen_ai.request.model", model);
    }

    fn root_id(&self) -> Vec<u8> {
        self.root.as_ref().map(|root| root.span_id.clone()).unwrap_or_default()
    }

    fn span(&self, name: String, parent: Vec<u8>, at: Timestamp) -> Span {
        Span {
            trace_id: self.trace.clone(),
            span_id: random::number().max(1).to_be_bytes().to_vec(),
            parent_span_id: parent,
            name,
            kind: SpanKind::Internal as i32,
            start_time_unix_nano: nanoseconds(at),
            // Sampled.
            flags: 1,
            ..Span::default()
        }
    }

    fn data(&self, spans: Vec<Span>) -> TracesData {
        let attributes = self.surroundings.resource.iter().map(|(key, value)| pair(key, value.as_str())).collect();
        let scope = InstrumentationScope {
            name: "gevals".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..InstrumentationScope::default()
        };
        TracesData {
            resource_spans: vec![ResourceSpans {
                resource: Some(Resource { attributes, ..Resource::default() }),
                scope_spans: vec![ScopeSpans { scope: Some(scope), spans, ..ScopeSpans::default() }],
                ..ResourceSpans::default()
            }],
        }
    }
}

impl Spans {
    fn push(&mut self, span: Span) -> usize {
        self.spans.push(span);
        self.spans.len() - 1
    }

    fn id(&self, at: usize) -> Vec<u8> {
        self.spans.get(at).map(|span| span.span_id.clone()).unwrap_or_default()
    }

    /// The innermost open action that contains an action, as `made` contains `made[0]/note`.
    fn holder(&self, action: &str) -> Option<usize> {
        let holds = |open: &str| action.strip_prefix(open).is_some_and(|rest| rest.starts_with(['/', '[', '#']));
        let holders = self.open.iter().filter(|(open, _)| holds(open));
        holders.max_by_key(|(open, _)| open.len()).map(|(_, own)| *own)
    }

    fn on_agent(&mut self, change: impl FnOnce(&mut Span)) {
        if let Some(span) = self.agent.and_then(|own| self.spans.get_mut(own)) {
            change(span);
        }
    }

    fn end_phase(&mut self, at: Timestamp) {
        if let Some(phase) = self.phase.take() {
            end(&mut self.spans[phase], at);
        }
    }

    /// Records a judgement as the conventions define it: as an event on the span that was evaluated.
    fn judged(&mut self, at: Timestamp, action: &str, report: &ActionReport) {
        let Some(judgement) = &report.judgement else { return };
        let Some(passed) = judgement.passed else { return };
        let mut attributes = evaluation(action, passed, &judgement.reason);
        attributes.push(pair("gevals.judge", judgement.judge.as_str()));
        let on = self.agent.unwrap_or(0);
        self.spans[on].events.push(happened(at, "gen_ai.evaluation.result", attributes));
    }

    fn finish(
        mut self,
        at: Timestamp,
        task: &TaskRun,
        verdict: Verdict,
        reason: &str,
        cleanup_failed: bool,
    ) -> Vec<Span> {
        let passed = verdict == Verdict::Passed;
        // A judged turn has an evaluation, even if something else decided the verdict.
        if let (true, Some(agent)) = (matches!(verdict, Verdict::Passed | Verdict::Failed), self.agent) {
            let attributes = evaluation(&task.name, passed, reason);
            self.spans[agent].events.push(happened(at, "gen_ai.evaluation.result", attributes));
        }
        if let Some(span) = self.spans.first_mut() {
            match verdict {
                Verdict::Passed => add(span, "test.case.result.status", "pass"),
                Verdict::Failed | Verdict::Broken => add(span, "test.case.result.status", "fail"),
                Verdict::Unchecked | Verdict::Cancelled => {}
            }
            add(span, "gevals.verdict", verdict.name());
            if cleanup_failed {
                add(span, "gevals.cleanup_failed", any_value::Value::BoolValue(true));
            }
            if !passed {
                span.status = Some(failed(reason.to_owned()));
            }
        }
        self.spans.iter_mut().filter(|span| span.end_time_unix_nano == 0).for_each(|span| end(span, at));
        self.spans
    }
}

fn finish_action(span: &mut Span, at: Timestamp, report: &ActionReport, content: bool) {
    add(span, "gevals.outcome", report.outcome.name());
    add(span, "gevals.comparisons", i64::from(report.comparisons));
    if let Some(ExitReport::Exited { code }) = report.exit {
        add(span, "process.exit.code", i64::from(code));
    }
    if content {
        for (key, text) in
            [("gevals.stdout", &report.stdout), ("gevals.stderr", &report.stderr), ("gevals.answer", &report.answer)]
        {
            if !text.is_empty() {
                add(span, key, text.as_str());
            }
        }
        for difference in &report.differences {
            let sides = [
                ("gevals.subject", &difference.subject),
                ("gevals.expected", &difference.expected),
                ("gevals.actual", &difference.actual),
            ];
            let attributes = sides.map(|(key, text)| pair(key, text.as_str())).to_vec();
            span.events.push(happened(at, "gevals.difference", attributes));
        }
    }
    if matches!(report.outcome, Outcome::Failed | Outcome::Broken) {
        add(span, "error.type", report.outcome.name());
        span.status = Some(failed(report.message.clone()));
    }
    end(span, at);
}

/// Describes a call according to the conventions for MCP clients.
fn describe_call(span: &mut Span, call: &CallReport, content: bool) {
    let method = match call.kind {
        CallKind::Tool => "tools/call",
        CallKind::Resource => "resources/read",
        CallKind::Prompt => "prompts/get",
    };
    // Including the URI would create a separate span name per resource.
    span.name = match call.kind {
        CallKind::Resource => method.to_owned(),
        _ => format!("{method} {}", call.name),
    };
    span.kind = SpanKind::Client as i32;
    add(span, "mcp.method.name", method);
    add(span, "gevals.server", call.server.as_str());
    match call.kind {
        CallKind::Tool => {
            add(span, "gen_ai.operation.name", "execute_tool");
            add(span, "gen_ai.tool.name", call.name.as_str());
        }
        CallKind::Resource => add(span, "mcp.resource.uri", call.name.as_str()),
        CallKind::Prompt => add(span, "gen_ai.prompt.name", call.name.as_str()),
    }
    if content && call.kind == CallKind::Tool {
        let arguments = call.params.get("arguments").unwrap_or(&Value::Null);
        add(span, "gen_ai.tool.call.arguments", arguments.to_string());
        if let Some(result) = &call.result {
            add(span, "gen_ai.tool.call.result", result.to_string());
        }
    }
    let error = match call.status {
        CallStatus::Ok => return,
        CallStatus::ToolError => "tool_error",
        CallStatus::ProtocolError => "_OTHER",
    };
    add(span, "error.type", error);
    span.status = Some(failed(call.error.clone().unwrap_or_default()));
}

fn evaluation(name: &str, passed: bool, why: &str) -> Vec<KeyValue> {
    let mut attributes = vec![
        pair("gen_ai.evaluation.name", name),
        pair("gen_ai.evaluation.score.label", if passed { "pass" } else { "fail" }),
        pair("gen_ai.evaluation.score.value", any_value::Value::DoubleValue(f64::from(u8::from(passed)))),
    ];
    if !why.is_empty() {
        attributes.push(pair("gen_ai.evaluation.explanation", why));
    }
    attributes
}

fn happened(at: Timestamp, name: &str, attributes: Vec<KeyValue>) -> SpanEvent {
    SpanEvent { time_unix_nano: nanoseconds(at), name: name.to_owned(), attributes, ..SpanEvent::default() }
}

fn failed(message: String) -> Status {
    Status { message: bounded(&message), code: StatusCode::Error as i32 }
}

fn end(span: &mut Span, at: Timestamp) {
    span.end_time_unix_nano = nanoseconds(at).max(span.start_time_unix_nano);
}

fn nanoseconds(at: Timestamp) -> u64 {
    u64::try_from(at.as_nanosecond()).unwrap_or_default()
}

/// Converts a count to an attribute value.
fn whole(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn add(span: &mut Span, key: &str, value: impl Attribute) {
    span.attributes.push(pair(key, value));
}

fn pair(key: &str, value: impl Attribute) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value.value()) }), ..KeyValue::default() }
}

/// A value that can be used for an attribute.
trait Attribute {
    fn value(self) -> any_value::Value;
}

impl Attribute for &str {
    fn value(self) -> any_value::Value {
        any_value::Value::StringValue(bounded(self))
    }
}

impl Attribute for String {
    fn value(self) -> any_value::Value {
        self.as_str().value()
    }
}

impl Attribute for i64 {
    fn value(self) -> any_value::Value {
        any_value::Value::IntValue(self)
    }
}

impl Attribute for any_value::Value {
    fn value(self) -> any_value::Value {
        self
    }
}

fn bounded(text: &str) -> String {
    match text.len() > LONGEST {
        true => format!("{}…", &text[..text.floor_char_boundary(LONGEST)]),
        false => text.to_owned(),
    }
}
