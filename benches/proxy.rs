//! What gevals adds to a call of an MCP server, and to a step: see the README beside this file.
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

use gevals::{
    event::{Event, EventKind, TaskRun, recording::Line},
    journal::{self, Header, Journal, Settings, Snapshot, Writer},
    mcp::{Client, ClientOptions, Hub, HubOptions, Recorder, Recording, ServerSpec, SessionKind, Transport},
    secrets::Secrets,
};
use indexmap::IndexMap;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, Command},
};

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
    runtime.block_on(throughput());
    runtime.block_on(journalling());
}

/// A server with one tool.
fn echo() {
    let (stdin, mut stdout) = (std::io::stdin().lock(), std::io::stdout().lock());
    for line in stdin.lines() {
        let message: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let result = match message["method"].as_str().unwrap_or_default() {
            "initialize" => {
                json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "echo", "version": "1"}})
            }
            "tools/call" => json!({"content": [{"type": "text", "text": message["params"]["arguments"]["message"]}]}),
            _ => continue,
        };
        writeln!(stdout, "{}", json!({"jsonrpc": "2.0", "id": message["id"], "result": result})).unwrap();
        stdout.flush().unwrap();
    }
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

/// The least that a recorder must do: read lines, parse each for its id and method, write it to a file, pass it on.
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
    Recording::open(file, &first, move || Arc::clone(&secrets)).unwrap()
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
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    for client in [&direct, &relayed, &through] {
        p50(client).await;
    }
    for _ in 0..ROUNDS {
        for (client, times) in [&direct, &relayed, &through].into_iter().zip(&mut times) {
            times.push(p50(client).await);
        }
    }
    written.flush().unwrap();
    let lines = std::fs::read_to_string(dir.path().join("recording")).unwrap().lines().count();
    let messages = (ROUNDS + 1) * CALLS * 2;
    assert!(lines > messages, "{lines} lines of {messages} messages");
    let [direct, relay, through] = times.map(median);
    println!(
        "a call, p50: direct {direct:.0} µs; minimal relay +{:.0} µs; gevals +{:.0} µs",
        relay - direct,
        through - direct
    );
    println!("gevals / minimal relay: {:.2}", through / relay);
    hub.close().await;
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

/// What a step costs: a few lines, and one of them on the disk before it starts.
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
            runs: None,
            parallel: 1,
            allow_unchecked: false,
            exit_zero: false,
            gate: None,
            isolate: false,
            require_server_use: false,
            retry_broken: 0,
            max_time: None,
            max_tokens: None,
            max_cost: None,
            prices: None,
            overrides: journal::Overrides::default(),
        },
        files: Snapshot::default(),
    };
    let journal = Arc::new(Journal::create(dir.path(), header, Writer::own("mark", "a benchmark")).unwrap());
    let mut times = Vec::new();
    for seq in 0..1000 {
        let started = Instant::now();
        let kind = EventKind::CleanupPaid { cleanup: "cleanup/0".to_owned() };
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
