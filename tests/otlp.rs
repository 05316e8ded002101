//! `run --otlp`: what is written to a file and sent to a real socket, read back as OTLP messages.
#![cfg(all(feature = "otlp", target_os = "linux"))]

use std::{
    collections::HashMap,
    fs,
    sync::{Arc, Mutex},
};

use axum::{Router, body::Bytes, extract::State, http::HeaderMap, http::StatusCode, routing::post};
use opentelemetry_proto::tonic::{
    collector::trace::v1::{ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse},
    common::v1::any_value::Value,
    trace::v1::{ResourceSpans, Span, TracesData, span::SpanKind, status::StatusCode as Code},
};
use prost::Message;

use crate::support::world::World;

/// A task that passes, one whose verification fails, and one with a call that the server refuses.
fn world() -> World {
    let task = |name: &str, verify: &str| {
        format!(
            "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {{name: {name}}}\nspec:\n  requires: [{{mcpServer: notes, as: n}}]\n  setup:\n  \
             - foreach: {{in: [a, b], var: x, steps: [{{command: {{run: 'echo $X', env: {{X: '{{x}}'}}}}}}]}}\n  \
             prompt: Write it, s3cret-words.\n  verify:\n  - {verify}\n"
        )
    };
    World::new(&[
        (
            "eval.yaml",
            "kind: Eval\nmetadata: {name: e}\nconfig:\n  agent: {type: builtin.script, path: oracle.yaml}\n  mcpConfigFile: mcp.yaml\n  \
             taskSets: [{glob: 'tasks/*.yaml'}]\n",
        ),
        (
            "mcp.yaml",
            "mcpServers: {notes: {command: gevals, args: [demo-server, --dir, WORLD/notes], enableAllTools: true}}\n",
        ),
        (
            "tasks/good.yaml",
            &task("good", "n.notes_read: {args: {title: T good}, expect: {content: {contains: hello}}}"),
        ),
        (
            "tasks/wrong.yaml",
            &task("wrong", "n.notes_read: {args: {title: T wrong}, expect: {content: {contains: else}}}"),
        ),
        ("tasks/refused.yaml", &task("refused", "n.notes_list: {expect: {content: {contains: Nothing}}}")),
        (
            "oracle.yaml",
            "kind: Oracle\ntasks:\n  good:\n    calls: [{server: notes, tool: notes_create, args: {title: T good, body: hello}}]\n    output: Done.\n  \
             wrong:\n    calls: [{server: notes, tool: notes_create, args: {title: T wrong, body: hello}}]\n    output: Done.\n  \
             refused:\n    calls: [{server: notes, tool: notes_delete, args: {title: Nothing}}]\n    output: Done.\n",
        ),
    ])
}

fn spans(resources: &[ResourceSpans]) -> Vec<Span> {
    resources.iter().flat_map(|resource| &resource.scope_spans).flat_map(|scope| &scope.spans).cloned().collect()
}

/// Reads the contents of a file: one line of JSON per batch. JSON is also YAML, and this YAML reader does not keep
/// numbers as text.
fn in_file(text: &str) -> Vec<ResourceSpans> {
    text.lines().flat_map(|line| serde_yaml::from_str::<TracesData>(line).unwrap().resource_spans).collect()
}

/// Returns an attribute as text.
fn of(span: &Span, key: &str) -> Option<String> {
    text_of(span.attributes.iter().find(|attribute| attribute.key == key)?.value.clone()?.value?)
}

fn text_of(value: Value) -> Option<String> {
    match value {
        Value::StringValue(text) => Some(text),
        Value::IntValue(number) => Some(number.to_string()),
        Value::DoubleValue(number) => Some(number.to_string()),
        _ => None,
    }
}

fn named<'s>(spans: &'s [Span], name: &str) -> &'s Span {
    let found: Vec<_> = spans.iter().filter(|span| span.name == name).collect();
    assert_eq!(found.len(), 1, "{name}: {:?}", spans.iter().map(|span| &span.name).collect::<Vec<_>>());
    found[0]
}

/// Returns the names of a span's ancestors, from the outside, and its own.
fn path(spans: &[Span], span: &Span) -> Vec<String> {
    let by_id: HashMap<_, _> = spans.iter().map(|span| (&span.span_id, span)).collect();
    let mut path = vec![span.name.clone()];
    let mut at = span;
    while let Some(parent) = by_id.get(&at.parent_span_id) {
        assert!(parent.start_time_unix_nano <= at.start_time_unix_nano, "{} begins before {}", at.name, parent.name);
        path.insert(0, parent.name.clone());
        at = parent;
    }
    path
}

#[test]
fn a_trace_in_a_file_follows_the_conventions() {
    let world = world();
    world.run(&["run", "eval.yaml", "--otlp", "traces.jsonl"]).expect(1, &["1 of 3 tasks passed"]);
    let text = world.read("traces.jsonl");
    let spans = spans(&in_file(&text));

    // One trace, in which every span has an end, a unique ID, and a parent.
    let ids: std::collections::HashSet<_> = spans.iter().map(|span| &span.span_id).collect();
    assert_eq!(ids.len(), spans.len());
    let roots: Vec<_> = spans.iter().filter(|span| span.parent_span_id.is_empty()).collect();
    assert_eq!(roots.iter().map(|root| root.name.as_str()).collect::<Vec<_>>(), ["eval e"]);
    for span in &spans {
        assert_eq!(span.trace_id, roots[0].trace_id);
        assert!(span.trace_id.len() == 16 && span.span_id.len() == 8);
        assert!(span.end_time_unix_nano >= span.start_time_unix_nano && span.start_time_unix_nano > 0, "{}", span.name);
        assert!(span.parent_span_id.is_empty() || ids.contains(&span.parent_span_id), "{}", span.name);
    }
    assert_eq!(of(roots[0], "test.suite.run.status").as_deref(), Some("failure"));

    // The hierarchy.
    let round =
        |task: &str| spans.iter().find(|s| s.name == "setup/0[1]/0" && path(&spans, s)[1] == format!("task {task}"));
    assert_eq!(path(&spans, round("good").unwrap()), ["eval e", "task good", "setup", "setup/0", "setup/0[1]/0"]);
    let call = spans.iter().find(|s| s.name == "tools/call notes_create" && path(&spans, s)[1] == "task good").unwrap();
    assert_eq!(
        path(&spans, call)[2..],
        ["agent", "invoke_agent builtin.script", "tools/call notes_create"].map(String::from)[..]
    );
    assert_eq!(call.kind, SpanKind::Client as i32);
    for (key, value) in [
        ("mcp.method.name", "tools/call"),
        ("gen_ai.operation.name", "execute_tool"),
        ("gen_ai.tool.name", "notes_create"),
    ] {
        assert_eq!(of(call, key).as_deref(), Some(value), "{key}");
    }
    assert!(call.status.is_none() && of(call, "error.type").is_none());

    // The outcomes.
    let passed = named(&spans, "task good");
    assert_eq!(of(passed, "test.case.result.status").as_deref(), Some("pass"));
    assert!(passed.status.is_none());
    let wrong = named(&spans, "task wrong");
    assert_eq!(of(wrong, "test.case.result.status").as_deref(), Some("fail"));
    assert_eq!(wrong.status.clone().unwrap().code, Code::Error as i32);
    assert!(wrong.status.clone().unwrap().message.contains("verify/0"), "{wrong:?}");
    let refused = named(&spans, "tools/call notes_delete");
    assert_eq!(of(refused, "error.type").as_deref(), Some("tool_error"));
    let turn = spans.iter().find(|s| s.name.starts_with("invoke_agent") && path(&spans, s)[1] == "task wrong").unwrap();
    assert_eq!(of(turn, "gen_ai.operation.name").as_deref(), Some("invoke_agent"));
    let evaluated: Vec<_> = turn.events.iter().filter(|e| e.name == "gen_ai.evaluation.result").collect();
    let label = evaluated[0].attributes.iter().find(|a| a.key == "gen_ai.evaluation.score.label").unwrap();
    assert_eq!(label.value.clone().unwrap().value, Some(Value::StringValue("fail".to_owned())));

    // No content, unless requested; and lines are appended.
    for said in ["s3cret-words", "gen_ai.tool.call", "hello", "else"] {
        assert!(!text.contains(said), "{said}: {text}");
    }
    let lines = text.lines().count();
    let mut again = world.command(&["run", "eval.yaml", "--otlp", "traces.jsonl", "--run", "good"]);
    again.env("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true");
    // The note already exists.
    world.start(again).end();
    let more = world.read("traces.jsonl");
    assert!(more.starts_with(&text) && more.lines().count() == lines + 2);
    for said in ["s3cret-words", "gen_ai.tool.call.arguments", "gen_ai.input.messages", "gen_ai.output.messages"] {
        assert!(more[text.len()..].contains(said), "{said}: {more}");
    }
}

/// The requests that a collector received, and what it answers.
#[derive(Default)]
struct Collector {
    requests: Mutex<Vec<(HeaderMap, ExportTraceServiceRequest)>>,
    refusals: Mutex<Vec<StatusCode>>,
    rejects: bool,
}

/// Starts a server on a real socket; returns its address.
fn collector(collector: Arc<Collector>) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let take = async |State(collector): State<Arc<Collector>>, headers: HeaderMap, body: Bytes| {
        if let Some(status) = collector.refusals.lock().unwrap().pop() {
            return (status, Vec::new());
        }
        let request = ExportTraceServiceRequest::decode(body).unwrap();
        collector.requests.lock().unwrap().push((headers, request));
        let partly = ExportTracePartialSuccess { rejected_spans: 2, error_message: "too old".to_owned() };
        let partial_success = collector.rejects.then_some(partly);
        (StatusCode::OK, ExportTraceServiceResponse { partial_success }.encode_to_vec())
    };
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let router = Router::new().route("/v1/traces", post(take)).with_state(collector);
            axum::serve(tokio::net::TcpListener::from_std(listener).unwrap(), router).await.unwrap();
        });
    });
    format!("http://{address}")
}

#[test]
fn a_collector_receives_everything_even_if_it_is_busy_at_first() {
    let world = world();
    let refusals = Mutex::new(vec![StatusCode::SERVICE_UNAVAILABLE, StatusCode::TOO_MANY_REQUESTS]);
    let there = Arc::new(Collector { refusals, ..Collector::default() });
    let mut command = world.command(&["run", "eval.yaml", "--otlp", &collector(Arc::clone(&there)), "-p", "2"]);
    command
        .env("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20t0ken,x-scope=a")
        .env("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=ci,service.version=9")
        .env("OTEL_SERVICE_NAME", "nightly")
        .env("TRACEPARENT", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    let ran = world.start(command).end().expect(1, &["1 of 3 tasks passed"]);
    assert!(!ran.err.contains("traces"), "{}", ran.err);
    let requests = there.requests.lock().unwrap();
    // One per task, and one at the end.
    assert_eq!(requests.len(), 4);
    for (headers, request) in requests.iter() {
        assert_eq!(headers["authorization"], "Bearer t0ken");
        assert_eq!(headers["content-type"], "application/x-protobuf");
        assert_eq!(headers["x-scope"], "a");
        let resource = request.resource_spans[0].resource.clone().unwrap();
        let of = |key: &str| {
            resource.attributes.iter().find(|a| a.key == key).and_then(|a| text_of(a.value.clone()?.value?))
        };
        assert_eq!(of("service.name").as_deref(), Some("nightly"));
        assert_eq!(of("service.version").as_deref(), Some("9"));
        assert_eq!(of("deployment.environment.name").as_deref(), Some("ci"));
    }
    let spans: Vec<_> = requests.iter().flat_map(|(_, request)| spans(&request.resource_spans)).collect();
    let trace = hex::decode("4bf92f3577b34da6a3ce929d0e0e4736").unwrap();
    assert!(spans.iter().all(|span| span.trace_id == trace));
    assert_eq!(hex::encode(&named(&spans, "eval e").parent_span_id), "00f067aa0ba902b7");
    // Each task is contained once, even if it was sent twice.
    assert_eq!(spans.iter().filter(|span| span.name.starts_with("task ")).count(), 3);
}

#[test]
fn failures_of_a_collector_are_reported_and_do_not_change_verdicts() {
    let world = world();
    let passed = ["run", "eval.yaml", "--run", "^good$", "--otlp"];
    let run = |to: &str, code: i32, said: &[&str]| {
        let _ = fs::remove_dir_all(world.path("notes"));
        world.run(&[&passed[..], &[to]].concat()).expect(code, said);
    };
    let refuses = Collector { refusals: Mutex::new(vec![StatusCode::UNAUTHORIZED; 9]), ..Collector::default() };
    run(&collector(Arc::new(refuses)), 0, &["2 of 2 batches of traces were not taken", "the status 401"]);
    let rejects = Collector { rejects: true, ..Collector::default() };
    run(&collector(Arc::new(rejects)), 0, &["rejected 2 spans: too old"]);
    // Detected before anything runs.
    run("WORLD/none/traces.jsonl", 3, &["traces.jsonl` cannot be written"]);
    run("ftp://localhost", 2, &["http://"]);
    run("-", 2, &["name a file"]);
    assert!(!world.path("notes").exists());
    let mut odd = world.command(&[&passed[..], &["traces.jsonl"]].concat());
    odd.env("TRACEPARENT", "00-0-0-01");
    world.start(odd).end().expect(3, &["TRACEPARENT is `00-0-0-01`"]);
    let mut odd = world.command(&[&passed[..], &["http://127.0.0.1:9"]].concat());
    odd.env("OTEL_EXPORTER_OTLP_HEADERS", "hunter2%zz");
    let ran = world.start(odd).end().expect(3, &["OTEL_EXPORTER_OTLP_HEADERS must have the form"]);
    assert!(!ran.err.contains("hunter2"));
}
