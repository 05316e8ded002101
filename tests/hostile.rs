//! Hostile MCP servers over HTTP: each one leads to a clear outcome, in time, and with bounded memory.
#![cfg(all(feature = "run", target_os = "linux"))]

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::Arc,
    thread,
    time::Duration,
};

use serde_json::{Value, json};

use crate::support::world::{self, World};

/// What a server does when it receives the request.
type Deed = fn(&Value, &mut TcpStream) -> std::io::Result<()>;

/// The misbehavior, the function, and a part of the report.
const DEEDS: &[(&str, Deed, &str)] = &[
    ("never answers", never, "within"),
    ("answers a byte at a time", dribbles, "within"),
    ("answers with a gigabyte", gigabyte, "more than 67108864 bytes"),
    ("answers without end", endless, "more than 67108864 bytes"),
    ("streams an event without end", endless_event, "notes"),
    ("streams notifications without end", endless_notifications, "within"),
    ("streams comments without end", endless_comments, "within"),
    ("answers with a page", page, "no message"),
    ("answers somebody else", foreign_id, "has another id"),
    ("answers with nothing", |_, s| answer(s, "200 OK", "application/json", ""), "no message"),
    ("takes a request for a notification", |_, s| answer(s, "202 Accepted", "text/plain", ""), "no message"),
    ("has nothing to say", |_, s| answer(s, "204 No Content", "text/plain", ""), "no message"),
    ("sends in circles", circle, "HTTP status 307"),
    ("sends elsewhere", |_, s| redirect(s, "http://127.0.0.2:9/mcp"), "HTTP status 307"),
    (
        "closes in the midst of an event",
        |_, s| unfinished(s, "text/event-stream", "data: {\"jsonrpc\":"),
        "ended early",
    ),
    ("closes in the midst of an answer", |_, s| unfinished(s, "application/json", "{\"jsonrpc\":"), "notes"),
    ("closes at once", |_, _| Ok(()), "notes"),
    (
        "fails",
        |_, s| answer(s, "500 Internal Server Error", "text/plain", "out of \u{1b}[31mluck"),
        "HTTP status 500: out of",
    ),
    (
        "knows no session",
        |_, s| answer(s, "404 Not Found", "application/json", "{\"error\":\"no session\"}"),
        "HTTP status 404",
    ),
    (
        "wants a password",
        |_, s| answer(s, "401 Unauthorized", "text/plain", "who are you"),
        "HTTP status 401: who are you",
    ),
    ("speaks no HTTP", |_, s| s.write_all(b"\x16\x03\x01\x00garbage\r\n\r\n"), "notes"),
    ("has headers without end", headers, "notes"),
    ("answers with nested brackets", nested, "notes"),
];

#[test]
fn misbehavior_at_startup() {
    each("initialize", |name, said, world| {
        let ran = world.run(&["run", "eval.yaml", "--server-timeout", "2s"]).expect(3, &["notes", said]);
        assert_eq!(
            ran.out.matches("`notes`").count() + ran.err.matches("`notes`").count(),
            1,
            "{name}: {}{}",
            ran.out,
            ran.err
        );
        ran
    });
}

#[test]
fn misbehavior_in_a_call_of_the_agent() {
    each("tools/call", |_, said, world| {
        let ran = world
            .run(&["run", "eval.yaml"])
            .expect(1, &["BROKEN", if said == "within" { "task exceeded timeout of 2s" } else { said }]);
        assert_eq!(world.results("e")["results"][0]["outcome"], "broken");
        assert!(world.path("cleaned").exists(), "{}", ran.out);
        ran
    });
}

#[test]
fn misbehavior_in_a_step() {
    each("tools/call", |name, said, world| {
        // An expected tool error does not cover this one.
        let step = "notes.x: {args: {}, timeout: 20s, expect: {isError: true}}";
        let task = world.read("task.yaml").replace("command: {run: test -e eval.yaml}", step);
        world.write("task.yaml", &task.replace("  prompt", "  requires: [{mcpServer: notes}]\n  prompt"));
        world.write("oracle.yaml", "kind: Oracle\ntasks: {t: {output: Done.}}\n");
        let ran = world
            .run(&["run", "eval.yaml"])
            .expect(1, &["BROKEN", if said == "within" { "task exceeded timeout of 2s" } else { said }]);
        assert_eq!(world.results("e")["results"][0]["outcome"], "broken", "{name}");
        ran
    });
}

#[test]
fn an_agent_does_not_wait_forever_for_a_list_of_tools() {
    let world = world_of("tools/list", never);
    world.write("agent.yaml", "kind: Agent\nmetadata: {name: a}\ncommands: {runPrompt: 'echo {{ .Prompt }}'}\n");
    world.write(
        "eval.yaml",
        &world.read("eval.yaml").replace("type: builtin.script, path: oracle.yaml", "type: file, path: agent.yaml"),
    );
    world.run(&["run", "eval.yaml"]).expect(1, &["BROKEN", "task exceeded timeout of 2s"]);
    assert!(world.path("cleaned").exists());
}

#[test]
fn an_https_url_without_tls_is_reported() {
    let world = world_of("initialize", never);
    world.write("mcp.yaml", &world.read("mcp.yaml").replace("http://", "https://"));
    world.run(&["run", "eval.yaml"]).expect(3, &["could not reach `notes`"]);
}

/// Runs each misbehavior in a world of its own, several in parallel.
fn each(method: &'static str, check: fn(&str, &str, &World) -> world::Ran) {
    let work = |&(name, deed, said): &(&'static str, Deed, &'static str)| {
        move || {
            let world = world_of(method, deed);
            eprintln!("a server that {name}");
            let ran = check(name, said, &world);
            assert!(!ran.out.contains('\u{1b}') && !ran.err.contains('\u{1b}'), "{name}");
            assert!(ran.peak < 700 << 10, "{name}: {} KiB", ran.peak);
            assert!(world.survivors().is_empty(), "{name}");
        }
    };
    for some in DEEDS.chunks(4) {
        let threads: Vec<_> = some.iter().map(|deed| thread::spawn(work(deed))).collect();
        for thread in threads {
            thread.join().unwrap();
        }
    }
}

/// An eval with a server that misbehaves when it receives `method`, and otherwise answers correctly.
fn world_of(method: &'static str, deed: Deed) -> World {
    let address = serve(method, deed);
    World::new(&[
        (
            "eval.yaml",
            "kind: Eval\nmetadata: {name: e}\nconfig:\n  agent: {type: builtin.script, path: oracle.yaml}\n  mcpConfigFile: mcp.yaml\n  taskSets: [{path: task.yaml}]\n",
        ),
        ("mcp.yaml", &format!("mcpServers:\n  notes: {{url: \"http://{address}/mcp\", enableAllTools: true}}\n")),
        ("oracle.yaml", "kind: Oracle\ntasks: {t: {calls: [{server: notes, tool: x}], output: Done.}}\n"),
        (
            "task.yaml",
            "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {name: t, timeout: 2s}\nspec:\n  prompt: Go.\n  verify: [{command: {run: test -e eval.yaml}}]\n  cleanup: [{command: {run: touch WORLD/cleaned}}]\n",
        ),
    ])
}

fn serve(method: &'static str, deed: Deed) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let own: Arc<str> = address.as_str().into();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let own = own.clone();
            thread::spawn(move || converse(stream, method, deed, &own));
        }
    });
    address
}

fn converse(mut stream: TcpStream, method: &str, deed: Deed, own: &str) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    loop {
        let (mut line, mut length) = (String::new(), 0);
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let posted = line.starts_with("POST");
        loop {
            let mut header = String::new();
            if reader.read_line(&mut header)? == 0 || header == "\r\n" {
                break;
            }
            if let Some(value) = header.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let mut request: Value = serde_json::from_slice(&body).unwrap_or_default();
        request["own"] = json!(own);
        let id = &request["id"];
        match request["method"].as_str() {
            Some(asked) if asked == method => return deed(&request, &mut stream),
            Some("initialize") => {
                let result = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}});
                message(&mut stream, &json!({"jsonrpc": "2.0", "id": id, "result": result}))?;
            }
            Some("tools/list") => message(
                &mut stream,
                &json!({"jsonrpc": "2.0", "id": id, "result": {"tools": [{"name": "x", "inputSchema": {"type": "object"}}]}}),
            )?,
            _ if posted => answer(&mut stream, "202 Accepted", "text/plain", "")?,
            _ => answer(&mut stream, "405 Method Not Allowed", "text/plain", "")?,
        }
    }
}

fn message(stream: &mut TcpStream, message: &Value) -> std::io::Result<()> {
    answer(stream, "200 OK", "application/json", &message.to_string())
}

fn answer(stream: &mut TcpStream, status: &str, kind: &str, body: &str) -> std::io::Result<()> {
    write!(stream, "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn redirect(stream: &mut TcpStream, to: &str) -> std::io::Result<()> {
    write!(
        stream,
        "HTTP/1.1 307 Temporary Redirect\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    )
}

fn circle(request: &Value, stream: &mut TcpStream) -> std::io::Result<()> {
    redirect(stream, &format!("http://{}/mcp", request["own"].as_str().unwrap()))
}

/// Writes the head of a response without a length.
fn begin(stream: &mut TcpStream, kind: &str) -> std::io::Result<()> {
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n")
}

fn unfinished(stream: &mut TcpStream, kind: &str, body: &str) -> std::io::Result<()> {
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: 1000\r\n\r\n{body}")
}

fn never(_: &Value, stream: &mut TcpStream) -> std::io::Result<()> {
    // Waits until the other side closes the connection.
    stream.read(&mut [0]).map(drop)
}

fn dribbles(_: &Value, stream: &mut TcpStream) -> std::io::Result<()> {
    begin(stream, "application/json")?;
    repeat(stream, b" ", Duration::from_millis(50))
}

fn gigabyte(request: &Value, stream: &mut TcpStream) -> std::io::Result<()> {
    let start = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{\"content\":[{{\"type\":\"text\",\"text\":\"",
        request["id"]
    );
    let (end, block) = ("\"}]}}", vec![b'x'; 1 << 20]);
    let length = start.len() + (1 << 30) + end.len();
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{start}")?;
    for _ in 0..1 << 10 {
        stream.write_all(&block)?;
    }
    stream.write_all(end.as_bytes())
}

fn endless(_: &Value, stream: &mut TcpStream) -> std::io::Result<()> {
    begin(stream, "application/json")?;
    repeat(stream, &vec![b' '; 1 << 16], Duration::ZERO)
}

fn endless_event(_: &Value, stream: &mut TcpStream) -> std::io::Result<()> {
    begin(stream, "text/event-stream")?;
    repeat(stream, &vec![b'x'; 1 << 16], Duration::ZERO)
}

fn endless_notifications(_: &Value, stream: &mut TcpStream) -> std::io::Result<()> {
    begin(stream, "text/event-stream")?;
    let params = json!({"level": "info", "data": "x".repeat(10_000)});
    let message = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params});
    repeat(stream, format!("data: {message}\n\n").as_bytes(), Duration::ZERO)
}

fn endless_comments(_: &Value, stream: &mut TcpStream) -> std::io::Result<()> {
    begin(stream, "text/event-stream")?;
    repeat(stream, b": still here\n\n", Duration::from_millis(1))
}

fn repeat(stream: &mut TcpStream, block: &[u8], pause: Duration) -> std::io::Result<()> {
    loop {
        stream.write_all(block)?;
        thread::sleep(pause);
    }
}

fn page(_: &Value, stream: &mut TcpStream) -> std::io::Result<()> {
    answer(stream, "200 OK", "text/html", "<html>Please log in.</html>")
}

fn foreign_id(_: &Value, stream: &mut TcpStream) -> std::io::Result<()> {
    message(stream, &json!({"jsonrpc": "2.0", "id": "another", "result": {}}))
}

fn headers(_: &Value, stream: &mut TcpStream) -> std::io::Result<()> {
    stream.write_all(b"HTTP/1.1 200 OK\r\n")?;
    repeat(stream, b"X-More: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\n", Duration::ZERO)
}

fn nested(request: &Value, stream: &mut TcpStream) -> std::io::Result<()> {
    let deep = "[".repeat(1_000_000) + &"]".repeat(1_000_000);
    answer(
        stream,
        "200 OK",
        "application/json",
        &format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{deep}}}", request["id"]),
    )
}
