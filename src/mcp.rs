//! MCP: the hub between agents and a server, which records calls and relays messages unchanged; a client for the
//! requests that gevals itself makes; a demonstration server.
#![expect(clippy::disallowed_methods, reason = "servers are processes and connections; calls are timed")]

mod bridge;
mod child;
mod client;
pub mod demo;
mod front;
mod http;
mod hub;
mod message;
pub mod own;
mod pipe;
mod record;
mod recording;
mod relay;
mod session;
mod sse;
mod stream;

use std::{path::PathBuf, time::Duration};

use indexmap::IndexMap;
use thiserror::Error;

pub use bridge::{bridge, bridge_stdio, serve_stdio};
pub(crate) use child::{Lines, Process, spawn_with};
pub use client::{CallError, Client, ClientOptions, Notification, ToolResult};
pub use front::HttpFront;
pub use hub::Hub;
pub use record::{Allowance, CallKind, CallOutcome, CallRecord, Notice, Recorder, Unmasked};
pub use recording::{Recording, RecordingBounds};
pub use relay::{Added, Answer, Direction, HubOptions, SessionKind, Tap, Traffic};
pub use session::Session;

/// How to reach one MCP server.
#[derive(Debug, Clone)]
pub struct ServerSpec {
    pub name: String,
    pub transport: Transport,
}

/// How a server is reached, with all variables expanded.
#[derive(Debug, Clone)]
pub enum Transport {
    /// A child process that exchanges messages over its standard input and output; `env` is added to the inherited
    /// environment.
    Stdio { command: String, args: Vec<String>, env: IndexMap<String, String>, cwd: Option<PathBuf> },
    /// Streamable HTTP; `headers` are added to every request.
    Http { url: String, headers: IndexMap<String, String> },
}

/// Why a server cannot be used. The messages contain no secrets, except in what the server itself printed: [`Hub`]
/// masks those.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ServerError {
    #[error("could not start `{server}`: no such command `{command}`{}", unsplit(.command))]
    CommandNotFound { server: String, command: String },
    #[error("could not start `{server}`: no such directory `{dir}`")]
    NoDirectory { server: String, dir: String },
    #[error("could not start `{server}`: `{command}`: {reason}")]
    CannotRun { server: String, command: String, reason: String },
    #[error("`{server}` {status}{}", printed(.stderr))]
    Exited { server: String, status: String, stderr: String },
    #[error("`{server}` did not answer `initialize` within {}{}", seconds(*.within), printed(.stderr))]
    NoAnswer { server: String, within: Duration, stderr: String },
    #[error("`{server}` does not speak MCP: it printed `{excerpt}` where messages are expected")]
    NotMcp { server: String, excerpt: String },
    #[error("`{server}` sent a message of more than {limit} bytes, which is the limit (`--max-message`)")]
    TooLong { server: String, limit: usize },
    #[error("`{server}` refused `initialize`: {message} ({code})")]
    Refused { server: String, code: i64, message: String },
    #[error("could not reach `{server}`: {url}: connection refused")]
    ConnectionRefused { server: String, url: String },
    #[error("could not reach `{server}`: {url}: TLS: {reason}")]
    Tls { server: String, url: String, reason: String },
    #[error("could not reach `{server}`: {url}: {reason}")]
    Unreachable { server: String, url: String, reason: String },
    #[error("`{server}` answered with HTTP status {status}{}", excerpt(.body))]
    HttpStatus { server: String, url: String, status: u16, body: String },
    #[error("`{server}` was closed")]
    Closed { server: String },
}

impl ServerError {
    fn masked(mut self, secrets: &crate::secrets::Secrets) -> Self {
        let text = match &mut self {
            ServerError::Exited { stderr, .. } | ServerError::NoAnswer { stderr, .. } => stderr,
            ServerError::NotMcp { excerpt, .. } => excerpt,
            ServerError::Refused { message, .. } => message,
            ServerError::ConnectionRefused { url, .. } => url,
            ServerError::Tls { url, reason, .. } | ServerError::Unreachable { url, reason, .. } => {
                *url = secrets.mask(url).into_owned();
                reason
            }
            ServerError::HttpStatus { url, body, .. } => {
                *url = secrets.mask(url).into_owned();
                body
            }
            ServerError::CommandNotFound { .. }
            | ServerError::NoDirectory { .. }
            | ServerError::CannotRun { .. }
            | ServerError::TooLong { .. }
            | ServerError::Closed { .. } => return self,
        };
        *text = secrets.mask(text).into_owned();
        self
    }

    /// The first line of the message, without what the server printed.
    fn brief(&self) -> String {
        self.to_string().lines().next().unwrap_or_default().trim_end_matches(':').to_owned()
    }
}

fn printed(stderr: &str) -> String {
    let text = stderr.trim_end();
    if text.is_empty() { String::new() } else { format!(":\n{text}") }
}

fn excerpt(body: &str) -> String {
    let text = body.trim();
    if text.is_empty() { String::new() } else { format!(": {}", shortened(text, 300)) }
}

fn unsplit(command: &str) -> &'static str {
    match command.contains(char::is_whitespace) {
        true => "; it is one word, for no shell splits it: its arguments stand under `args`",
        false => "",
    }
}

fn seconds(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f64())
}

/// The first `most` characters of a text, on one line.
fn shortened(text: &str, most: usize) -> String {
    let mut short: String = text.chars().take(most).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(most).is_some() {
        short.push('…');
    }
    short
}
