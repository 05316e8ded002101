//! The overhead of gevals per call of an MCP server, and per step: see the README in this directory.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a benchmark, which starts servers and writes files"
)]

use std::{
    io::{BufRead, Write},
    path::Path,
    process::Stdio,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::response::IntoResponse;
use gevals::{
    evals::Shipped,
    event::{Event, EventKind, TaskRun, recording::Line},
    journal::{self, Header, Journal, Settings, Snapshot, Writer},
    mcp::{
        Client, ClientOptions, Hub, HubOptions, Recorder, Recording, RecordingBounds, ServerSpec, SessionKind,
        Transport,
    },
    secrets::Secrets,
};
use indexmap::IndexMap;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    process::{Child, Command},
};
use tokio_util::sync::CancellationToken;

const ROUNDS: usize = 15;
const CALLS: usize = 400;

fn main() {
    if std::env::args().any(|arg| arg == "--echo") {
        return echo();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("load {}", load.trim());
    runtime.block_on(calls());
    runtime.block_on(http_calls());
    runtime.block_on(throughput());
    runtime.block_on(journalling());
}

/// A server with one tool.
fn echo() {
    let (stdin, mut stdout) = (std::io::stdin().lock(), std::io::stdout().lock());
    for line in stdin.lines() {
        if let Some(answer) = reply(&serde_json::from_str(&line.unwrap()).unwrap()) {
            writeln!(stdout, "{answer}").unwrap();
            stdout.flush().unwrap();
        }
    }
}

fn reply(message: &Value) -> Option<Value> {
    let result = match message["method"].as_str().unwrap_or_default() {
        "initialize" => {
            json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "echo", "version": "1"}})
        }
        "tools/call" => json!({"content": [{"type": "text", "text": message["params"]["arguments"]["message"]}]}),
        _ => return None,
    };
    Some(json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
}

fn server() -> (String, Vec<String>) {
    let words = std::env::var("EVERYTHING").unwrap_or_default();
    let mut words = words.split_whitespace().map(str::to_owned);
    match words.next() {
        Some(command) => (command, words.collect()),
        None => (std::env::current_exe().unwrap().display().to_string(), vec!["--echo".to_owned()]),
    }
}

fn child() -> Child {
    let (command, args) = server();
    let mut command = Command::new(command);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    command.spawn().unwrap()
}

async fn direct() -> (Client, Child) {
    let mut child = child();
    let stream = tokio::io::join(child.stdout.take().unwrap(), child.stdin.take().unwrap());
    let client = Client::start(stream, ClientOptions::default());
    client.initialize().await.unwrap();
    (client, child)
}

/// The minimum that a recorder must do: read lines, parse each one for its ID and method, write it to a file, and
/// forward it.
async fn relayed(file: &Path) -> (Client, Child) {
    #[derive(serde::Deserialize)]
    struct Seen<'m> {
        #[serde(borrow)]
        id: Option<&'m serde_json::value::RawValue>,
        method: Option<&'m str>,
    }
    let mut child = child();
    let (near, far) = tokio::io::duplex(64 * 1024);
    let (from_client, mut to_client) = tokio::io::split(far);
    let (from_server, mut to_server) = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
    let file = Arc::new(std::sync::Mutex::new(std::io::BufWriter::new(std::fs::File::create(file).unwrap())));
    let keep = move |line: &str| {
        if let Ok(seen) = serde_json::from_str::<Seen<'_>>(line) {
            std::hint::black_box((seen.id.map(serde_json::value::RawValue::get), seen.method));
        }
        file.lock().unwrap().write_all(line.as_bytes()).unwrap();
    };
    let kept = keep.clone();
    tokio::spawn(async move {
        let (mut lines, mut line) = (BufReader::new(from_client), String::new());
        while lines.read_line(&mut line).await.unwrap_or(0) > 0 {
            kept(&line);
            to_server.write_all(line.as_bytes()).await.unwrap();
            line.clear();
        }
    });
    tokio::spawn(async move {
        let (mut lines, mut line) = (BufReader::new(from_server), String::new());
        while lines.read_line(&mut line).await.unwrap_or(0) > 0 {
            keep(&line);
            if to_client.write_all(line.as_bytes()).await.is_err() {
                return;
            }
            line.clear();
        }
    });
    let client = Client::start(near, ClientOptions::default());
    client.initialize().await.unwrap();
    (client, child)
}

fn recording(file: &Path) -> Arc<Recording> {
    let (run, eval, plan_digest) = ("r".to_owned(), "e".to_owned(), String::new());
    let first = Line::Recording { version: 1, run, eval, plan_digest, at: jiff::Timestamp::now() };
    let secrets = Arc::new(Secrets::new(["a-secret-that-is-not-there"]));
    Recording::open(file, &first, RecordingBounds::default(), move || Arc::clone(&secrets)).unwrap()
}

async fn hub(recording: &Arc<Recording>) -> Hub {
    let (command, args) = server();
    let transport = Transport::Stdio { command, args, env: IndexMap::new(), cwd: None };
    let spec = ServerSpec { name: "echo".to_owned(), transport };
    Hub::start(spec, HubOptions { on_message: Some(recording.tap()), ..HubOptions::default() }).await.unwrap()
}

fn agent() -> SessionKind {
    let task = TaskRun { index: 0, name: "t".to_owned(), run: 0 };
    SessionKind::Agent(Recorder::new(Arc::default()).of_task(task))
}

async fn p50(client: &Client) -> f64 {
    let mut times = Vec::with_capacity(CALLS);
    for i in 0..CALLS {
        let message = format!("message {i}");
        let started = Instant::now();
        let answer = client.call_tool("echo", json!({"message": message})).await.unwrap();
        times.push(started.elapsed().as_secs_f64() * 1e6);
        assert!(answer.text().contains(&message));
    }
    median(times)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

async fn calls() {
    let dir = tempfile::tempdir().unwrap();
    let (direct, _one) = direct().await;
    let (relayed, _two) = relayed(&dir.path().join("relay")).await;
    let written = recording(&dir.path().join("recording"));
    let hub = hub(&written).await;
    let through = hub.client(agent(), ClientOptions::default()).await.unwrap();
    let shim = shim().await;
    let shipped = shim.client(SessionKind::Client, ClientOptions::default()).await.unwrap();
    let clients = [&direct, &relayed, &through, &shipped];
    let mut times = [Vec::new(), Vec::new(), Vec::new(), Vec::new()];
    for client in clients {
        p50(client).await;
    }
    for _ in 0..ROUNDS {
        for (client, times) in clients.into_iter().zip(&mut times) {
            times.push(p50(client).await);
        }
    }
    written.flush().unwrap();
    let lines = std::fs::read_to_string(dir.path().join("recording")).unwrap().lines().count();
    let messages = (ROUNDS + 1) * CALLS * 2;
    assert!(lines > messages, "{lines} lines of {messages} messages");
    let [direct, relay, through, shipped] = times.map(median);
    println!(
        "a call, p50: direct {direct:.0} µs; minimal relay +{:.0} µs; gevals +{:.0} µs; gevals evals serve +{:.0} µs",
        relay - direct,
        through - direct,
        shipped - direct
    );
    println!("gevals / minimal relay: {:.2}", through / relay);
    hub.close().await;
    shim.close().await;
}

/// The configuration of `gevals evals serve`: nothing is recorded, and evals are added.
async fn shim() -> Hub {
    let (command, args) = server();
    let transport = Transport::Stdio { command, args, env: IndexMap::new(), cwd: None };
    let spec = ServerSpec { name: "echo".to_owned(), transport };
    let shipped = Shipped::parse("evals.yaml", "kind: McpEvals\nevals: []\n").unwrap();
    Hub::start(spec, HubOptions { added: Some(shipped.added()), ..HubOptions::default() }).await.unwrap()
}

/// The path that agents use: an HTTP client with a persistent connection, through an `HttpFront`.
async fn http_calls() {
    let dir = tempfile::tempdir().unwrap();
    let written = recording(&dir.path().join("recording"));
    let (url, over) = web_server().await;
    let spec = ServerSpec {
        name: "web".to_owned(),
        transport: Transport::Http { url: url.clone(), headers: IndexMap::new() },
    };
    let web = Hub::start(spec, HubOptions { on_message: Some(written.tap()), ..HubOptions::default() }).await.unwrap();
    let process = hub(&written).await;
    let fronts = [web.serve_http(agent()).await.unwrap(), process.serve_http(agent()).await.unwrap()];
    let (mut stdio, _child) = direct().await;
    let mut direct = Raw::start(&url).await;
    let mut through = [Raw::start(&fronts[0].url).await, Raw::start(&fronts[1].url).await];
    let mut times: [Vec<f64>; 4] = Default::default();
    for round in 0..=ROUNDS {
        for _ in 0..CALLS {
            let sample =
                [direct.call().await, through[0].call().await, stdio_call(&mut stdio).await, through[1].call().await];
            // The first round is a warm-up.
            if round > 0 {
                times.iter_mut().zip(sample).for_each(|(times, sample)| times.push(sample));
            }
        }
    }
    let [(web_50, web_99), (http_50, http_99), (pipe_50, pipe_99), (front_50, front_99)] = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        (times[times.len() / 2], times[times.len() * 99 / 100])
    });
    println!(
        "over HTTP to an HTTP server, p50 / p99: direct {web_50:.0} / {web_99:.0} µs, through the front {http_50:.0} / {http_99:.0} µs: +{:.0} µs",
        http_50 - web_50
    );
    println!(
        "over HTTP to a process, p50 / p99: directly by its pipes {pipe_50:.0} / {pipe_99:.0} µs, through the front {front_50:.0} / {front_99:.0} µs: +{:.0} µs",
        front_50 - pipe_50
    );

    const SESSIONS: usize = 100;
    const EACH: usize = 200;
    let mut clients = Vec::new();
    for _ in 0..SESSIONS {
        clients.push(Raw::start(&fronts[1].url).await);
    }
    let started = Instant::now();
    let work = clients.into_iter().map(|mut client| {
        tokio::spawn(async move {
            for _ in 0..EACH {
                client.call().await;
            }
        })
    });
    for done in futures_util::future::join_all(work).await {
        done.unwrap();
    }
    let rate = (SESSIONS * EACH) as f64 / started.elapsed().as_secs_f64();
    println!("{SESSIONS} sessions over HTTP to a process: {rate:.0} calls a second");
    over.cancel();
    web.close().await;
    process.close().await;
}

async fn stdio_call(client: &mut Client) -> f64 {
    let started = Instant::now();
    let answer = client.call_tool("echo", json!({"message": "m"})).await.unwrap();
    let took = started.elapsed().as_secs_f64() * 1e6;
    assert_eq!(answer.text(), "m");
    took
}

/// The echo server over HTTP: one JSON document for each request.
async fn web_server() -> (String, CancellationToken) {
    use axum::serve::ListenerExt;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let listener = listener.tap_io(|socket| socket.set_nodelay(true).unwrap());
    let answer = |body: String| async move {
        let message: Value = serde_json::from_str(&body).unwrap();
        match reply(&message) {
            Some(result) => (axum::http::StatusCode::OK, axum::Json(result)).into_response(),
            None => axum::http::StatusCode::ACCEPTED.into_response(),
        }
    };
    let router = axum::Router::new().route("/mcp", axum::routing::post(answer));
    let over = CancellationToken::new();
    let ended = over.clone();
    tokio::spawn(async move { axum::serve(listener, router).with_graceful_shutdown(ended.cancelled_owned()).await });
    (url, over)
}

/// A minimal client that writes a request and reads its response, on one connection.
struct Raw {
    stream: BufReader<tokio::net::TcpStream>,
    /// The path of the URL: that of a front is a secret.
    path: String,
    session: String,
    id: u64,
}

impl Raw {
    async fn start(url: &str) -> Self {
        let (address, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let mut raw = Self { stream: BufReader::new(stream), path: path.to_owned(), session: String::new(), id: 0 };
        let params =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}});
        raw.post(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})).await;
        raw.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        raw
    }

    async fn call(&mut self) -> f64 {
        self.id += 1;
        let params = json!({"name": "echo", "arguments": {"message": "m"}});
        let message = json!({"jsonrpc": "2.0", "id": self.id, "method": "tools/call", "params": params});
        let started = Instant::now();
        let body = self.post(&message).await;
        let took = started.elapsed().as_secs_f64() * 1e6;
        let answer: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((&answer["id"], &answer["result"]["content"][0]["text"]), (&json!(self.id), &json!("m")));
        took
    }

    async fn post(&mut self, message: &Value) -> Vec<u8> {
        let body = message.to_string();
        let session = match self.session.as_str() {
            "" => String::new(),
            id => format!("mcp-session-id: {id}\r\n"),
        };
        let request = format!(
            "POST /{} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\n{session}content-length: {}\r\n\r\n{body}",
            self.path,
            self.stream.get_ref().peer_addr().unwrap().port(),
            body.len(),
        );
        self.stream.write_all(request.as_bytes()).await.unwrap();
        let (mut length, mut line) = (0, String::new());
        loop {
            line.clear();
            assert!(self.stream.read_line(&mut line).await.unwrap() > 0, "the connection was closed");
            let header = line.trim_end();
            if header.is_empty() {
                break;
            }
            if let Some((name, value)) = header.split_once(": ") {
                match name.to_ascii_lowercase().as_str() {
                    "content-length" => length = value.parse().unwrap(),
                    "mcp-session-id" => self.session = value.to_owned(),
                    // A stream would have neither a length nor JSON.
                    "content-type" => assert_eq!(value, "application/json"),
                    _ => {}
                }
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).await.unwrap();
        body
    }
}

async fn throughput() {
    const SESSIONS: usize = 16;
    const EACH: usize = 4000;
    let dir = tempfile::tempdir().unwrap();
    let written = recording(&dir.path().join("recording"));
    let hub = hub(&written).await;
    let mut clients = Vec::new();
    for _ in 0..SESSIONS {
        clients.push(hub.client(agent(), ClientOptions::default()).await.unwrap());
    }
    let started = Instant::now();
    let work = clients.into_iter().map(|client| {
        tokio::spawn(async move {
            for _ in 0..EACH {
                client.call_tool("echo", json!({"message": "m"})).await.unwrap();
            }
        })
    });
    futures_util::future::join_all(work).await;
    let rate = (SESSIONS * EACH) as f64 / started.elapsed().as_secs_f64();
    written.flush().unwrap();
    let lines = std::fs::read_to_string(dir.path().join("recording")).unwrap().lines().count();
    assert!(lines >= SESSIONS * EACH * 2);
    println!("{SESSIONS} sessions: {rate:.0} calls a second, {lines} lines recorded");
    hub.close().await;
}

/// The cost of a step: a few lines, one of which must be on disk before the step starts.
async fn journalling() {
    let dir = tempfile::tempdir().unwrap();
    let header = Header {
        version: journal::VERSION,
        run: "r".to_owned(),
        gevals: String::new(),
        at: jiff::Timestamp::now(),
        eval: "eval.yaml".into(),
        name: "e".to_owned(),
        cwd: dir.path().to_owned(),
        results: "out.json".into(),
        plan_digest: String::new(),
        settings: Settings {
            strict_replay: false,
            runs: None,
            parallel: 1,
            allow_unchecked: false,
            exit_zero: false,
            trials: false,
            keep_going: false,
            gate: None,
            rate: None,
            until_decided: false,
            isolate: false,
            isolation: None,
            require_server_use: false,
            retry_broken: 0,
            max_time: None,
            max_tokens: None,
            max_cost: None,
            prices: None,
            servers: IndexMap::default(),
            overrides: journal::Overrides::default(),
        },
        files: Snapshot::default(),
    };
    let journal = Arc::new(
        Journal::create(dir.path(), header, Writer::own(&gevals::host::RealHost::new(), "a benchmark")).unwrap(),
    );
    let mut times = Vec::new();
    for seq in 0..1000 {
        let started = Instant::now();
        let kind = EventKind::CleanupDone { cleanup: "cleanup/0".to_owned() };
        let task = Some(TaskRun { index: 0, name: "t".to_owned(), run: 0 });
        journal.event(&Event { seq, at: jiff::Timestamp::now(), task, kind });
        journal.sync().await;
        times.push(started.elapsed().as_secs_f64() * 1e6);
        tokio::time::sleep(Duration::from_micros(200)).await;
    }
    let mut sorted = times.clone();
    sorted.sort_by(f64::total_cmp);
    println!("a journalled step: p50 {:.0} µs, p99 {:.0} µs", median(times), sorted[990]);
}
