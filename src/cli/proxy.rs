//! `gevals proxy`: the recorder by itself, between any client and any server.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use jiff::Timestamp;

use super::{
    between::{self, Ended},
    status,
};
use crate::{
    event::{
        TaskRun,
        recording::{Line, VERSION},
    },
    mcp::{CallOutcome, CallRecord, Hub, HubOptions, Recorder, Recording, RecordingBounds, SessionKind},
    run::environment_secrets,
    secrets::Secrets,
};

const EXAMPLES: &str = "\
Examples:
  gevals proxy -- npx -y @modelcontextprotocol/server-everything
      as a server command in a client's config
  gevals proxy --record calls.jsonl --task write-note -- my-server
      record every message as well
  gevals proxy --http 127.0.0.1:8080 -- my-server
      serve a process over HTTP
  gevals proxy --url https://example.org/mcp
      make an HTTP server available to a client that starts processes

Messages are passed on unchanged. Every call is logged on standard error, with its outcome and
duration. In an eval with a server of the same name, the agent `builtin.replay:calls.jsonl` repeats
the calls of a recording.

Exit status: 0 the client has disconnected, 2 usage error, 3 the server does not start or has ended";

/// Run a proxy between an MCP client and a server, to show and record what is called.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The command of the server and its arguments.
    #[arg(last = true, value_name = "SERVER", required_unless_present = "url", conflicts_with = "url")]
    server: Vec<String>,
    /// The URL of a streamable HTTP server.
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// A header for every request to the URL, as `Name: value`; repeat it for several.
    #[arg(long, value_name = "HEADER", requires = "url", value_parser = between::header)]
    header: Vec<(String, String)>,
    /// Serve streamable HTTP at this address, at /mcp, instead of using standard input and output; local clients only.
    #[arg(long, value_name = "ADDR")]
    http: Option<SocketAddr>,
    /// Append every message to this file, as JSON lines.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// The name of the server in the recording [default: the name of the command, or the host].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The task name for the calls in the recording: `builtin.replay` repeats them in a task of this name.
    #[arg(long, value_name = "NAME", default_value = "proxy", requires = "record")]
    task: String,
    /// Maximum size of a message, in either direction, in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=4096))]
    max_message: u16,
    /// Maximum size of a recorded message, in MiB; of a larger message, only the size is recorded.
    #[arg(long, value_name = "MIB", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=4096), requires = "record")]
    max_recorded: u16,
    /// Maximum size of the recording, in MiB; what follows is not recorded.
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..), requires = "record")]
    max_recording: u32,
}

pub fn main(args: &Args) -> u8 {
    between::run(args.http, serve(args))
}

async fn serve(args: &Args) -> Result<(), (u8, String)> {
    let spec = between::spec(&args.server, args.url.as_deref(), &args.header, args.name.as_deref());
    let headers = args.header.iter().map(|(_, value)| value.clone());
    let secrets = Arc::new(Secrets::new(environment_secrets().into_iter().chain(headers)));
    let recording = match &args.record {
        Some(path) => Some(record(path, bounds(args), &secrets).map_err(|why| (status::USAGE, why))?),
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
            between::say(&line(&call));
        }
    });
    let kind = SessionKind::Agent(recorder.clone());
    let served = between::serve(&hub, kind, args.http, std::future::pending()).await;
    let failure = hub.failure();
    hub.close().await;
    for notice in hub.notices() {
        between::say(&format!("note: {}", notice.text));
    }
    drop((hub, recorder));
    let _ = tokio::time::timeout(std::time::Duration::from_millis(200), shown).await;
    if let Some(recording) = recording {
        recording.flush().map_err(|why| broken(format!("the recording is incomplete: {why}")))?;
        recording.cuts().iter().for_each(|cut| between::say(&format!("warning: {cut}")));
    }
    match (served?, failure) {
        (Ended::Lost, Some(failure)) => Err(broken(failure.to_string())),
        _ => Ok(()),
    }
}

fn bounds(args: &Args) -> RecordingBounds {
    RecordingBounds { message: usize::from(args.max_recorded) << 20, file: u64::from(args.max_recording) << 20 }
}

/// Opens a recording that belongs to no eval.
fn record(path: &Path, bounds: RecordingBounds, secrets: &Arc<Secrets>) -> Result<Arc<Recording>, String> {
    let first = Line::Recording {
        version: VERSION,
        run: format!("{:016x}", crate::random::number()),
        eval: String::new(),
        plan_digest: String::new(),
        at: Timestamp::now(),
    };
    let secrets = secrets.clone();
    Recording::open(path, &first, bounds, move || secrets.clone())
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
