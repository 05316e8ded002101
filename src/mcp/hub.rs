//! One server: started or connected to, shared by sessions, and closed.

use std::{io, net::SocketAddr, sync::Arc};

use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
};

use super::{
    Client, ClientOptions, HttpFront, ServerError, ServerSpec, Session, Transport,
    child::{self, Process},
    front, http, pipe,
    record::Notice,
    relay::{HubOptions, Relay, SessionKind, Twin, Uplink},
};

/// A connection to one MCP server. Dropping it kills the process group of the server; [`Hub::close`] shuts it down
/// gracefully.
#[derive(Debug)]
pub struct Hub {
    relay: Arc<Relay>,
    /// Set for a server that is reached by HTTP.
    http: Option<http::Server>,
}

impl Hub {
    /// Starts the process, or prepares the HTTP client. Nothing is sent to the server before the first session sends
    /// something.
    ///
    /// # Errors
    /// The program cannot be started, or the URL is not valid.
    #[expect(clippy::unused_async, reason = "needs a runtime, and says so")]
    pub async fn start(spec: ServerSpec, options: HubOptions) -> Result<Hub, ServerError> {
        let ServerSpec { name, transport } = spec;
        match transport {
            Transport::Stdio { command, args, env, cwd } => {
                let (process, stdin, stdout) = child::spawn(&name, &command, &args, &env, cwd.as_deref())?;
                let (again, quiet) = (name.clone(), HubOptions { on_message: None, ..options.clone() });
                let twin = Twin::new(move || {
                    let (process, stdin, stdout) = child::spawn(&again, &command, &args, &env, cwd.as_deref())?;
                    Ok(over(again.clone(), stdout, stdin, Some(process), None, quiet.clone()))
                });
                Ok(Hub { relay: over(name, stdout, stdin, Some(process), Some(twin), options), http: None })
            }
            Transport::Http { url, headers } => {
                let server = http::Server::new(&name, &url, &headers, options.max_message)?;
                let each = server.clone();
                let serve = Box::new(move |relay, session, queue| each.serve(relay, session, queue));
                let relay = Relay::new(name, Uplink::Each(serve), None, None, options);
                Ok(Hub { relay, http: Some(server) })
            }
        }
    }

    /// A server that is reached through any pair of byte streams, one message per line.
    pub fn from_streams<R, W>(name: impl Into<String>, reader: R, writer: W, options: HubOptions) -> Hub
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        Hub { relay: over(name.into(), reader, writer, None, None, options), http: None }
    }

    /// The server's name in the MCP config.
    pub fn name(&self) -> &str {
        &self.relay.name
    }

    /// Opens a session in this process: one JSON-RPC message per line, in both directions. Dropping the session ends
    /// it.
    pub fn connect(&self, kind: SessionKind) -> Session {
        Session::open(&self.relay, kind)
    }

    /// Serves sessions of this kind over streamable HTTP on a free port of 127.0.0.1 until the front is dropped. Only
    /// clients that were given the URL can connect: it contains a capability.
    ///
    /// # Errors
    /// There is no free port, or no randomness.
    pub async fn serve_http(&self, kind: SessionKind) -> io::Result<HttpFront> {
        front::serve(self.relay.clone(), kind).await
    }

    /// Like [`Hub::serve_http`], at the given address of this machine, at `/mcp`, for every local client.
    ///
    /// # Errors
    /// The address is already used, or does not belong to this machine.
    pub async fn serve_http_at(&self, kind: SessionKind, address: SocketAddr) -> io::Result<HttpFront> {
        front::serve_at(self.relay.clone(), kind, address).await
    }

    /// Sends a notification without params to every client; clients without a handshake get it if they subscribed to
    /// what is [`Added`](super::Added).
    pub fn announce(&self, method: &str) {
        for relay in std::iter::once(&self.relay).chain(self.relay.twin()) {
            relay.announce(method);
        }
    }

    /// Waits until the server can no longer be used.
    pub async fn ended(&self) {
        self.relay.dead.cancelled().await;
    }

    /// Opens a session and returns an initialized client on it.
    ///
    /// # Errors
    /// The server did not answer `initialize` in time, or refused it, or ended.
    pub async fn client(&self, kind: SessionKind, options: ClientOptions) -> Result<Client, ServerError> {
        // What the hub lets through must fit.
        let options = ClientOptions { max_message: self.relay.options.max_message, ..options };
        let client = Client::start(self.connect(kind), options);
        match client.initialize().await {
            Ok(_) => Ok(client),
            Err(error) => Err(self.failure().unwrap_or_else(|| error.at_initialize(self.name()))),
        }
    }

    /// The result of `initialize`, once available.
    pub fn server(&self) -> Option<Value> {
        self.relay.server()
    }

    /// Why the server can no longer be used, if so.
    pub fn failure(&self) -> Option<ServerError> {
        self.relay.failure()
    }

    /// Whether any request is waiting for an answer.
    pub fn is_busy(&self) -> bool {
        self.relay.is_busy()
    }

    /// Everything unusual so far.
    pub fn notices(&self) -> Vec<Notice> {
        let mut notices = self.relay.notices();
        notices.extend(self.relay.twin().map(|twin| twin.notices()).unwrap_or_default());
        notices
    }

    /// The last 64 KiB that the process printed to its standard error.
    pub fn stderr_tail(&self) -> String {
        self.relay.stderr()
    }

    /// The process ID of the server, which leads its own process group.
    pub fn pid(&self) -> Option<u32> {
        self.relay.process()?.pid()
    }

    /// How the process ended, as text, if it has ended.
    pub fn exited(&self) -> Option<String> {
        self.relay.process().and_then(Process::exited)
    }

    /// Ends all sessions and the server: closes its input, then sends SIGTERM, then kills its group.
    pub async fn close(&self) {
        let relays = || std::iter::once(&self.relay).chain(self.relay.twin());
        for relay in relays() {
            relay.end_all();
            relay.fail(ServerError::Closed { server: relay.name.clone() });
        }
        futures_util::future::join_all(relays().map(|relay| async {
            if let Some(process) = relay.process() {
                process.close(relay.options.close_grace).await;
            }
        }))
        .await;
        if let Some(server) = &self.http {
            // The sessions' DELETE requests are still being sent.
            let _ = tokio::time::timeout(self.relay.options.close_grace, server.idle()).await;
        }
        for relay in relays() {
            relay.over.cancel();
        }
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        for relay in std::iter::once(&self.relay).chain(self.relay.twin()) {
            relay.fail(ServerError::Closed { server: relay.name.clone() });
            if let Some(process) = relay.process() {
                process.kill();
            }
            relay.over.cancel();
        }
    }
}

fn over<R, W>(
    name: String,
    reader: R,
    writer: W,
    process: Option<Process>,
    twin: Option<Twin>,
    options: HubOptions,
) -> Arc<Relay>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let (queue, queued) = mpsc::unbounded_channel();
    let relay = Relay::new(name, Uplink::Shared { process }, Some(queue), twin, options);
    tokio::spawn(pipe::write(writer, queued, relay.over.clone()));
    tokio::spawn(pipe::read(relay.clone(), reader));
    relay
}
