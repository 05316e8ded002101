//! `gevals proxy`: the recorder for itself, between any client and any server.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use indexmap::IndexMap;
use jiff::Timestamp;

use super::{complain, status};
use crate::{
    event::{
        TaskRun,
        recording::{Line, VERSION},
    },
    mcp::{
        CallOutcome, CallRecord, Hub, HubOptions, Recorder, Recording, ServerSpec, SessionKind, Transport, serve_stdio,
    },
    run::environment_secrets,
    secrets::Secrets,
};

const EXAMPLES: &str = "\
Examples:
  gevals proxy -- npx -y @modelcontextprotocol/server-everything     as the command of a client's config
  gevals proxy --record calls.jsonl --task write-note -- my-server   and keep every message
  gevals proxy --http 127.0.0.1:8080 -- my-server                    a process, served over HTTP
  gevals proxy --url https://example.org/mcp                         an HTTP server, for a client of processes

Messages pass as they are. Every call is a line on standard error, with its outcome and how long it took. In an eval
with a server of the same name, the agent `builtin.replay:calls.jsonl` makes the calls of a recording again.

Exit status: 0 the client has left, 2 used wrongly, 3 the server does not start or has ended";

/// Stand between an MCP client and a server: see, and record, what is called.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The command of the server, and its arguments.
    #[arg(last = true, value_name = "SERVER", required_unless_present = "url", conflicts_with = "url")]
    server: Vec<String>,
    /// The server's streamable HTTP.
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// A header for every request to URL, as `Name: value`; repeat it for several.
    #[arg(long, value_name = "HEADER", requires = "url", value_parser = header)]
    header: Vec<(String, String)>,
    /// Serve streamable HTTP here, at /mcp, instead of standard input and output; local clients only.
    #[arg(long, value_name = "ADDR")]
    http: Option<SocketAddr>,
    /// Append every message to this file, as JSON lines.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// What the server is called in the recording; by default the command's name, or the host.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The task whose calls these are, in the recording: `builtin.replay` makes them again in a task of this name.
    #[arg(long, value_name = "NAME", default_value = "proxy", requires = "record")]
    task: String,
    /// The longest message, either way, in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=4096))]
    max_message: u16,
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("write it as `Name: value`")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

pub fn main(args: &Args) -> u8 {
    if let Some(address) = args.http
        && !address.ip().is_loopback()
    {
        complain(&format!(
            "`--http {address}` is reached from other machines, and only local clients are served: write 127.0.0.1"
        ));
        return status::USAGE;
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(&format!("cannot start: {error}"));
            return status::BROKEN;
        }
    };
    let done = runtime.block_on(serve(args));
    // Standard input is read on a thread that nothing can stop.
    runtime.shutdown_background();
    match done {
        Ok(()) => status::OK,
        Err((code, why)) => {
            complain(&why);
            code
        }
    }
}

async fn serve(args: &Args) -> Result<(), (u8, String)> {
    let spec = spec(args);
    let name = spec.name.clone();
    let headers = args.header.iter().map(|(_, value)| value.clone());
    let secrets = Arc::new(Secrets::new(environment_secrets().into_iter().chain(headers)));
    let recording = match &args.record {
        Some(path) => Some(record(path, &secrets).map_err(|why| (status::USAGE, why))?),
        None => None,
    };
    let options = HubOptions {
        max_message: usize::from(args.max_message) << 20,
        secrets: secrets.clone(),
        on_message: recording.as_ref().map(Recording::tap),
        ..HubOptions::default()
    };
    let broken = |why: String| (status::BROKEN, why);
    let hub = Hub::start(spec, options).await.map_err(|error| broken(error.to_string()))?;
    let task = TaskRun { index: 0, name: args.task.clone(), run: 0 };
    let recorder = Recorder::new(secrets).of_task(task);
    let mut calls = recorder.subscribe();
    let shown = tokio::spawn(async move {
        while let Some(call) = calls.recv().await {
            say(&line(&call));
        }
    });
    let kind = SessionKind::Agent(recorder.clone());
    let served = match args.http {
        Some(address) => {
            let front = hub.serve_http_at(kind, address).await;
            let front = front.map_err(|error| (status::USAGE, format!("cannot serve at {address}: {error}")))?;
            say(&format!("{name} is at {}", front.url));
            tokio::select! {
                () = interrupted() => Ok(()),
                () = hub.ended() => Err(()),
            }
        }
        None => tokio::select! {
            () = serve_stdio(&hub, kind) => Ok(()),
            () = interrupted() => Ok(()),
            () = hub.ended() => Err(()),
        },
    };
    let failure = hub.failure();
    hub.close().await;
    for notice in hub.notices() {
        say(&format!("note: {}", notice.text));
    }
    drop((hub, recorder));
    let _ = tokio::time::timeout(std::time::Duration::from_millis(200), shown).await;
    if let Some(recording) = recording {
        recording.flush().map_err(|why| broken(format!("the recording is not complete: {why}")))?;
    }
    match (served, failure) {
        (Err(()), Some(failure)) => Err(broken(failure.to_string())),
        _ => Ok(()),
    }
}

fn spec(args: &Args) -> ServerSpec {
    let (name, transport) = match (&args.url, args.server.split_first()) {
        (None, Some((command, rest))) => {
            let file = Path::new(command).file_name().map(|name| name.to_string_lossy().into_owned());
            let (command, args) = (command.clone(), rest.to_vec());
            (file, Transport::Stdio { command, args, env: IndexMap::new(), cwd: None })
        }
        (url, _) => {
            let url = url.clone().unwrap_or_default();
            let host = url.split("//").nth(1).and_then(|rest| rest.split(['/', ':', '?']).next()).map(str::to_owned);
            (host, Transport::Http { url, headers: args.header.iter().cloned().collect() })
        }
    };
    let name = args.name.clone().or(name).filter(|name| !name.is_empty()).unwrap_or_else(|| "server".to_owned());
    ServerSpec { name, transport }
}

/// A recording of no eval.
fn record(path: &Path, secrets: &Arc<Secrets>) -> Result<Arc<Recording>, String> {
    let first = Line::Recording {
        version: VERSION,
        run: format!("{:016x}", fastrand::u64(..)),
        eval: String::new(),
        plan_digest: String::new(),
        at: Timestamp::now(),
    };
    let secrets = secrets.clone();
    Recording::open(path, &first, move || secrets.clone())
        .map_err(|error| format!("`{}` cannot be written: {error}", path.display()))
}

/// `12:03:01  notes.create_note  ok  12 ms`
fn line(call: &CallRecord) -> String {
    let outcome = match &call.outcome {
        CallOutcome::Ok => "ok".to_owned(),
        CallOutcome::ToolError => "tool error".to_owned(),
        CallOutcome::ProtocolError { code, message } => {
            format!("error {code}: {}", message.lines().next().unwrap_or_default())
        }
        CallOutcome::Lost => "no answer".to_owned(),
        CallOutcome::Cancelled => "cancelled".to_owned(),
    };
    let time = call.started.strftime("%H:%M:%S");
    format!("{time}  {}.{}  {outcome}  {} ms", call.server, call.name, call.duration.as_millis())
}

/// Standard output may be the client's.
fn say(text: &str) {
    let shown: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    super::note(&shown);
}

async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminated) = signal(SignalKind::terminate()) else { return std::future::pending().await };
    tokio::select! {
        _ = terminated.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}
