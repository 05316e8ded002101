//! One server: started or reached, given out in sessions, and closed.

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

/// A connection to one MCP server. Dropping it kills the process group of the server; [`Hub::close`] is the kind way.
#[derive(Debug)]
pub struct Hub {
    relay: Arc<Relay>,
    /// Of a server that is reached by HTTP.
    http: Option<http::Server>,
}

impl Hub {
    /// Starts the process, or makes ready to speak HTTP. Nothing is sent to the server before the first session sends.
    ///
    /// # Errors
    /// The program cannot be started, or the URL is none.
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

    /// A server that is reached through any pair of byte streams, one message a line.
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

    /// Opens a session in this process: one JSON-RPC message a line, both ways. It ends when it is dropped.
    pub fn connect(&self, kind: SessionKind) -> Session {
        Session::open(&self.relay, kind)
    }

    /// Serves sessions of this kind over streamable HTTP on a free port of 127.0.0.1, until the front is dropped, to clients that
    /// were given its URL: it holds a capability.
    ///
    /// # Errors
    /// There is no free port, or no randomness.
    pub async fn serve_http(&self, kind: SessionKind) -> io::Result<HttpFront> {
        front::serve(self.relay.clone(), kind).await
    }

    /// The same at an address of this machine, at `/mcp`, to every local client.
    ///
    /// # Errors
    /// The address is taken, or is none of this machine.
    pub async fn serve_http_at(&self, kind: SessionKind, address: SocketAddr) -> io::Result<HttpFront> {
        front::serve_at(self.relay.clone(), kind, address).await
    }

    /// Sends a notification without params to every client: to those without a handshake, if they subscribed to what is
    /// [`Added`](super::Added).
    pub fn announce(&self, method: &str) {
        for relay in std::iter::once(&self.relay).chain(self.relay.twin()) {
            relay.announce(method);
        }
    }

    /// Waits until the server can no longer be used.
    pub async fn ended(&self) {
        self.relay.dead.cancelled().await;
    }

    /// An initialized client on a session of its own.
    ///
    /// # Errors
    /// The server did not answer `initialize` in time, or refused it, or ended.
    pub async fn client(&self, kind: SessionKind, options: ClientOptions) -> Result<Client, ServerError> {
        // What the hub lets through fits.
        let options = ClientOptions { max_message: self.relay.options.max_message, ..options };
        let client = Client::start(self.connect(kind), options);
        match client.initialize().await {
            Ok(_) => Ok(client),
            Err(error) => Err(self.failure().unwrap_or_else(|| error.at_initialize(self.name()))),
        }
    }

    /// The result of `initialize`, as soon as there is one.
    pub fn server(&self) -> Option<Value> {
        self.relay.server()
    }

    /// Why the server can no longer be used, if so.
    pub fn failure(&self) -> Option<ServerError> {
        self.relay.failure()
    }

    /// Does anyone wait for an answer?
    pub fn is_busy(&self) -> bool {
        self.relay.is_busy()
    }

    /// What was odd so far.
    pub fn notices(&self) -> Vec<Notice> {
        let mut notices = self.relay.notices();
        notices.extend(self.relay.twin().map(|twin| twin.notices()).unwrap_or_default());
        notices
    }

    /// The last 64 KiB that the process printed to its standard error.
    pub fn stderr_tail(&self) -> String {
        self.relay.stderr()
    }

    /// Of the process, which leads a group of its own.
    pub fn pid(&self) -> Option<u32> {
        self.relay.process()?.pid()
    }

    /// How the process ended, in words, if it has.
    pub fn exited(&self) -> Option<String> {
        self.relay.process().and_then(Process::exited)
    }

    /// Ends all sessions and the server: its input is closed, then it is asked to end, then its group is killed.
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
            // The DELETE requests of the sessions are on their way.
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
