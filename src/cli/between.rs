//! Shared by `gevals proxy` and `gevals evals serve`, which are between an MCP client and a server.

use std::{future::Future, io::Write, net::SocketAddr, path::Path};

use indexmap::IndexMap;

use super::{complain, status};
use crate::{
    diagnostic::visible,
    mcp::{Hub, ServerSpec, SessionKind, Transport, serve_stdio},
};

/// An exit status, and the reason.
pub type Fault = (u8, String);

/// Parses a header on a command line.
pub fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("write it as `Name: value`")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

/// The server on a command line: a command and its arguments, or a URL. Without a name, it is named after the program
/// or the host.
pub fn spec(command: &[String], url: Option<&str>, headers: &[(String, String)], name: Option<&str>) -> ServerSpec {
    let (called, transport) = match (url, command.split_first()) {
        (None, Some((command, rest))) => {
            let file = Path::new(command).file_name().map(|name| name.to_string_lossy().into_owned());
            let (command, args) = (command.clone(), rest.to_vec());
            (file, Transport::Stdio { command, args, env: IndexMap::new(), cwd: None })
        }
        (url, _) => {
            let url = url.unwrap_or_default().to_owned();
            let host = url.split("//").nth(1).and_then(|rest| rest.split(['/', ':', '?']).next()).map(str::to_owned);
            (host, Transport::Http { url, headers: headers.iter().cloned().collect() })
        }
    };
    let name = name.map(str::to_owned).or(called).filter(|name| !name.is_empty());
    ServerSpec { name: name.unwrap_or_else(|| "server".to_owned()), transport }
}

/// Runs a command that serves, possibly over HTTP, and returns its exit status.
pub fn run(http: Option<SocketAddr>, serve: impl Future<Output = Result<(), Fault>>) -> u8 {
    if let Some(address) = http
        && !address.ip().is_loopback()
    {
        complain(&format!(
            "`--http {address}` is reachable from other machines, but only local clients are served: use 127.0.0.1"
        ));
        return status::USAGE;
    }
    crate::host::descriptors::raise();
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(&format!("cannot start: {error}"));
            return status::BROKEN;
        }
    };
    let done = runtime.block_on(serve);
    // Standard input is read by a thread that cannot be stopped.
    runtime.shutdown_background();
    match done {
        Ok(()) => status::OK,
        Err((code, why)) => {
            complain(&why);
            code
        }
    }
}

/// Why serving ended.
pub enum Ended {
    /// The client has disconnected, or the user has ended it.
    Left,
    /// The server can no longer be used.
    Lost,
}

/// Serves clients on standard input and output, or over HTTP, until they have disconnected or the server has ended.
/// `beside` runs meanwhile.
pub async fn serve(
    hub: &Hub,
    kind: SessionKind,
    http: Option<SocketAddr>,
    beside: impl Future<Output = ()>,
) -> Result<Ended, Fault> {
    let interrupted = interrupted();
    let front = match http {
        Some(address) => {
            let front = hub.serve_http_at(kind.clone(), address).await;
            let front = front.map_err(|error| (status::USAGE, format!("cannot serve at {address}: {error}")))?;
            say(&format!("{} is listening on {}", hub.name(), front.url));
            Some(front)
        }
        None => None,
    };
    let client = async {
        match front {
            Some(_) => std::future::pending().await,
            None => serve_stdio(hub, kind).await,
        }
    };
    Ok(tokio::select! {
        () = client => Ended::Left,
        _ = interrupted => Ended::Left,
        () = hub.ended() => Ended::Lost,
        () = beside => Ended::Left,
    })
}

/// Prints a line to standard error, because standard output may belong to the client.
pub fn say(text: &str) {
    let shown: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let _ = writeln!(std::io::stderr().lock(), "{}", visible(&shown));
}

/// Waits until the user or the system requests an end, and returns the exit status for that. Signals are caught from
/// the call on, not only once the future is polled.
pub fn interrupted() -> impl Future<Output = u8> {
    use tokio::signal::unix::{Signal, SignalKind, signal};
    async fn came(listening: Option<Signal>) {
        match listening {
            Some(mut signal) => _ = signal.recv().await,
            None => std::future::pending().await,
        }
    }
    let [terminated, stopped] = [SignalKind::terminate(), SignalKind::interrupt()].map(|kind| signal(kind).ok());
    async move {
        tokio::select! {
            () = came(terminated) => 143,
            () = came(stopped) => 130,
        }
    }
}
