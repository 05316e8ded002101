//! The overhead of `builtin.llm-agent` per model response with one tool call: see the README in this directory.
#![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "a benchmark, which starts servers")]

use std::{
    io::{BufRead, Write},
    net::Ipv4Addr,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;
use gevals::{
    agent::{self, AgentCalls, AgentContext, AgentServer},
    hir::{CallKind, ModelAgent, Provider},
    host::RealHost,
    mcp::{Client, ClientOptions, Hub, HubOptions, Recorder, ServerSpec, SessionKind, Transport},
    plan::AgentKind,
    source::{Sources, Span, Spanned},
};
use indexmap::IndexMap;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpListener,
};
use tokio_util::sync::CancellationToken;

/// Responses with a tool call, before the final one; the agent itself stops at fifty.
const TURNS: usize = 40;
const ROUNDS: usize = 15;

fn main() {
    if std::env::args().any(|arg| arg == "--echo") {
        return echo();
    }
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("load {}", load.trim());
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(turns());
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
            "tools/list" => json!({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}),
            "tools/call" => json!({"content": [{"type": "text", "text": message["params"]["arguments"]["message"]}]}),
            _ => continue,
        };
        writeln!(stdout, "{}", json!({"jsonrpc": "2.0", "id": message["id"], "result": result})).unwrap();
        stdout.flush().unwrap();
    }
}

/// An endpoint with OpenAI's protocol and no model: answers with the requested number of tool calls, then with a word.
async fn endpoint(answers: Arc<AtomicUsize>) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let answer = |message: Value| {
        let body = json!({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).to_string();
        format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len())
    };
    let function = json!({"name": "echo", "arguments": "{\"message\":\"hello\"}"});
    let calls = json!([{"id": "c", "type": "function", "function": function}]);
    let call = answer(json!({"role": "assistant", "content": null, "tool_calls": calls}));
    let end = answer(json!({"role": "assistant", "content": "done"}));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (answers, call, end) = (answers.clone(), call.clone(), end.clone());
            stream.set_nodelay(true).unwrap();
            tokio::spawn(async move {
                let mut stream = BufReader::new(stream);
                loop {
                    let (mut line, mut length) = (String::new(), 0);
                    loop {
                        line.clear();
                        if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
                            return;
                        }
                        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                            length = value.trim().parse().unwrap();
                        }
                        if line == "\r\n" {
                            break;
                        }
                    }
                    stream.read_exact(&mut vec![0; length]).await.unwrap();
                    let last = answers.fetch_add(1, Ordering::Relaxed) % (TURNS + 1) == TURNS;
                    let answer = if last { &end } else { &call };
                    stream.write_all(answer.as_bytes()).await.unwrap();
                }
            });
        }
    });
    url
}

struct Calls(Client);

impl AgentCalls for Calls {
    fn tools<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Vec<Value>, String>> {
        Box::pin(async { self.0.list_tools().await.map_err(|e| e.to_string()) })
    }

    fn call<'a>(&'a self, _: &'a str, _: CallKind, name: &'a str, args: Value) -> BoxFuture<'a, Result<Value, String>> {
        Box::pin(async move { self.0.call_tool(name, args).await.map(|r| r.raw).map_err(|e| e.to_string()) })
    }
}

async fn turns() {
    let answers = Arc::new(AtomicUsize::new(0));
    let url = endpoint(answers.clone()).await;
    let transport = Transport::Stdio {
        command: std::env::current_exe().unwrap().to_string_lossy().into_owned(),
        args: vec!["--echo".to_owned()],
        env: IndexMap::new(),
        cwd: None,
    };
    let hub = Hub::start(ServerSpec { name: "echo".to_owned(), transport }, HubOptions::default()).await.unwrap();
    let recorder = Recorder::default();
    let calls = Calls(hub.client(SessionKind::Agent(recorder.clone()), ClientOptions::default()).await.unwrap());
    let span = Span { file: Sources::default().add("x", ""), start: 0, end: 0 };
    let agent = ModelAgent {
        provider: Provider::OpenAi,
        model: "m".to_owned(),
        base_url: Some(Spanned { value: url.clone(), span }),
        api_key: None,
        meant: false,
    };
    let server = AgentServer {
        name: "echo".to_owned(),
        url: String::new(),
        allowed: Vec::new(),
        titles: Vec::new(),
        enable_all_tools: true,
    };
    let host = RealHost::new();

    let mut took = Vec::new();
    for _ in 0..ROUNDS {
        let cx = AgentContext {
            host: &host,
            prompt: "Say hello.",
            task: "t",
            run: 0,
            dir: Path::new("."),
            servers: std::slice::from_ref(&server),
            skills: None,
            timeout: Duration::from_secs(60),
            cancel: &CancellationToken::new(),
            fill: &|_, _| Err("no template".to_owned()),
            used: &|_| (),
            calls: &calls,
            jail: None,
        };
        let started = Instant::now();
        let done = agent::run(&AgentKind::Model(agent.clone()), cx).await;
        took.push(started.elapsed() / (TURNS as u32 + 1));
        assert!(done.result.is_ok() && done.output == "done", "{done:?}");
    }
    assert_eq!(recorder.records().len(), ROUNDS * TURNS);
    took.sort();
    println!("an answer and its call: median {:?}, best {:?}, worst {:?}", took[ROUNDS / 2], took[0], took[ROUNDS - 1]);
}
