//! The two ends of a hub, simulated line by line.

use std::time::Duration;

use gevals::mcp::{Hub, HubOptions, Recorder, ServerSpec, Session, SessionKind, Transport};
use indexmap::IndexMap;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWrite, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};

type Lines<S> = tokio::io::Lines<BufReader<ReadHalf<S>>>;

pub struct FakeServer {
    pub reader: Lines<DuplexStream>,
    pub writer: WriteHalf<DuplexStream>,
}

pub struct Agent {
    reader: Lines<Session>,
    writer: WriteHalf<Session>,
}

pub fn hub(options: HubOptions) -> (Hub, FakeServer) {
    let (near, far) = tokio::io::duplex(64 * 1024);
    let (reader, writer) = tokio::io::split(near);
    let hub = Hub::from_streams("fake", reader, writer, options);
    let (reader, writer) = tokio::io::split(far);
    (hub, FakeServer { reader: BufReader::new(reader).lines(), writer })
}

pub fn agent_kind() -> SessionKind {
    SessionKind::Agent(Recorder::default())
}

pub fn stdio(command: &str, args: &[&str]) -> ServerSpec {
    ServerSpec {
        name: "srv".to_owned(),
        transport: Transport::Stdio {
            command: command.to_owned(),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            env: IndexMap::new(),
            cwd: None,
        },
    }
}

pub fn shell(script: &str) -> ServerSpec {
    stdio("sh", &["-c", script])
}

pub async fn write_line(writer: &mut (impl AsyncWrite + Unpin), line: &str) {
    // A hub that has given up no longer reads.
    let _ = writer.write_all(format!("{line}\n").as_bytes()).await;
}

async fn next_of<R: tokio::io::AsyncBufRead + Unpin>(lines: &mut tokio::io::Lines<R>) -> String {
    let line = tokio::time::timeout(Duration::from_secs(10), lines.next_line()).await;
    line.expect("a line in time").expect("a readable stream").expect("a line")
}

impl FakeServer {
    pub async fn send(&mut self, line: &str) {
        write_line(&mut self.writer, line).await;
    }

    pub async fn next(&mut self) -> String {
        next_of(&mut self.reader).await
    }

    pub async fn next_json(&mut self) -> Value {
        serde_json::from_str(&self.next().await).unwrap()
    }

    pub async fn reply(&mut self, request: &Value, result: Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}).to_string()).await;
    }

    pub async fn answer_initialize(&mut self, capabilities: Value) {
        let request = self.next_json().await;
        assert_eq!(request["method"], "initialize");
        let result = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities,
            "serverInfo": {"name": "fake", "version": "1"}});
        self.reply(&request, result).await;
        assert_eq!(self.next_json().await["method"], "notifications/initialized");
    }
}

impl Agent {
    pub fn on(hub: &Hub, kind: SessionKind) -> Agent {
        let (reader, writer) = tokio::io::split(hub.connect(kind));
        Agent { reader: BufReader::new(reader).lines(), writer }
    }

    pub async fn send(&mut self, line: &str) {
        write_line(&mut self.writer, line).await;
    }

    pub async fn next(&mut self) -> String {
        next_of(&mut self.reader).await
    }

    pub async fn next_json(&mut self) -> Value {
        serde_json::from_str(&self.next().await).unwrap()
    }
}

/// Whether a process runs; one that has exited may still wait to be reaped by its parent.
pub async fn is_running(pid: rustix::process::Pid) -> bool {
    let stat = tokio::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).await.unwrap_or_default();
    !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z')
}

/// A notification, or the answer to the request with this ID, in an unusual but valid JSON form.
pub fn odd_message(random: &mut fastrand::Rng, id: usize, answer: bool) -> String {
    let mut members = vec![(r#""jsonrpc""#.to_owned(), r#""2.0""#.to_owned())];
    if answer {
        let id = match random.u8(0..3) {
            0 => format!("{id}.0"),
            1 => format!("{id}e0"),
            _ => id.to_string(),
        };
        members.push((r#""\u0069d""#.to_owned(), id));
        members.push((r#""result""#.to_owned(), odd_value(random, 3)));
    } else {
        members.push((r#""method""#.to_owned(), odd_string(random)));
        if random.bool() {
            members.push((r#""params""#.to_owned(), odd_value(random, 3)));
        }
    }
    for _ in 0..random.u8(0..3) {
        members.push((format!("\"vendor{}\"", random.u8(..)), odd_value(random, 2)));
    }
    random.shuffle(&mut members);
    let fields: Vec<String> = members
        .into_iter()
        .map(|(key, value)| {
            format!("{}{key}{}:{}{value}{}", space(random), space(random), space(random), space(random))
        })
        .collect();
    format!("{}{{{}}}{}", space(random), fields.join(","), space(random))
}

fn space(random: &mut fastrand::Rng) -> &'static str {
    ["", "", "", " ", "\t", "  "][random.usize(0..6)]
}

fn odd_string(random: &mut fastrand::Rng) -> String {
    let parts =
        ["a", "é", "😀", r"\u00e9", r"\ud83d\ude00", r"\n", r#"\""#, r"\/", "/", "\u{2028}", r"\u0000", "{", "]", "id"];
    let text: String = (0..random.usize(0..8)).map(|_| parts[random.usize(0..parts.len())]).collect();
    format!("\"{text}\"")
}

fn odd_value(random: &mut fastrand::Rng, depth: u8) -> String {
    let numbers = ["0", "-0", "1.10", "1E+2", "123456789012345678901234567890", "1e999", "-0.0e-7", "9007199254740993"];
    match random.u8(0..if depth == 0 { 4 } else { 6 }) {
        0 => numbers[random.usize(0..numbers.len())].to_owned(),
        1 => odd_string(random),
        2 => "true".to_owned(),
        3 => "null".to_owned(),
        4 => {
            let items: Vec<String> = (0..random.u8(0..4)).map(|_| odd_value(random, depth - 1)).collect();
            format!("[{}{}]", space(random), items.join(", "))
        }
        _ => {
            let key = |random: &mut fastrand::Rng| {
                ["\"id\"", "\"progressToken\"", "\"\"", "\"k\"", "\"k\""][random.usize(0..5)]
            };
            let items: Vec<String> =
                (0..random.u8(0..4)).map(|_| format!("{}:{}", key(random), odd_value(random, depth - 1))).collect();
            format!("{{{}{}}}", items.join(" ,"), space(random))
        }
    }
}
