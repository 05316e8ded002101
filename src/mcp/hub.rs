//! One server and the sessions that share it. Messages pass as the bytes they came in; only an id or a progress token that
//! another request holds is replaced on the way to the server, and put back on the way to its owner.
//!
//! A process has one connection, so its sessions are distinguished by the ids of their requests. A streamable HTTP server has
//! a session of its own for each of ours. Everything that both ways have in common happens in `State`, under one lock that is
//! never held across an await; what it sends goes into unbounded queues, whose size is bounded at their entrances.

use std::{
    collections::{HashMap, VecDeque},
    fmt, io,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use jiff::Timestamp;
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
};
use tokio_util::{bytes::Bytes, sync::CancellationToken};

use super::{
    Client, ClientOptions, HttpFront, ServerError, ServerSpec, Transport,
    child::{self, Lines, Process},
    front, http,
    message::{self, IdKey, Message, Shape},
    record::{CallKind, CallOutcome, Notice, OpenCall, Recorder},
    shortened,
};
use crate::secrets::Secrets;

/// Messages on their way to the server, over all sessions, before their senders have to wait.
const QUEUED: usize = 64;
/// Lines in a row that are no messages, before the server is given up.
const RUBBISH: usize = 200;
/// Notices of one kind that are worth keeping.
const NOTICES: usize = 100;

/// What a session of the hub did, or was sent, in bytes as they were on the wire. Not masked.
#[derive(Debug, Clone, Copy)]
pub struct Traffic<'a> {
    pub server: &'a str,
    /// Unique within the hub.
    pub session: u64,
    /// The recorder of an agent's session.
    pub agent: Option<&'a Recorder>,
    pub direction: Direction,
    pub message: &'a [u8],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    ToServer,
    FromServer,
}

pub type Tap = Arc<dyn Fn(Traffic<'_>) + Send + Sync>;

#[derive(Clone)]
pub struct HubOptions {
    /// How long the answer to `initialize` may take.
    pub initialize_timeout: Duration,
    /// How long a process may take to end when its input is closed, and again when it is asked to.
    pub close_grace: Duration,
    /// The longest message, either way, in bytes.
    pub max_message: usize,
    /// Masked in records, notices and error texts.
    pub secrets: Arc<Secrets>,
    /// Sees every message of every session, in order. It is called under the hub's lock: it must be quick, and must not
    /// call the hub.
    pub on_message: Option<Tap>,
}

impl Default for HubOptions {
    fn default() -> Self {
        HubOptions {
            initialize_timeout: Duration::from_secs(30),
            close_grace: Duration::from_secs(2),
            max_message: 64 << 20,
            secrets: Arc::default(),
            on_message: None,
        }
    }
}

impl fmt::Debug for HubOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("HubOptions")
            .field("initialize_timeout", &self.initialize_timeout)
            .finish_non_exhaustive()
    }
}

/// Whose session it is.
#[derive(Debug, Clone)]
pub enum SessionKind {
    /// An agent's: its calls are recorded, and the server's own requests go to it.
    Agent(Recorder),
    /// Of gevals itself.
    Own,
}

/// A connection to one MCP server. Dropping it kills the process group of the server; [`Hub::close`] is the kind way.
#[derive(Debug)]
pub struct Hub {
    inner: Arc<Inner>,
}

impl Hub {
    /// Starts the process, or makes ready to speak HTTP. Nothing is sent to the server before the first session sends.
    #[expect(clippy::unused_async, reason = "needs a runtime, and says so")]
    pub async fn start(spec: ServerSpec, options: HubOptions) -> Result<Hub, ServerError> {
        let ServerSpec { name, transport } = spec;
        match transport {
            Transport::Stdio { command, args, env, cwd } => {
                let (process, stdin, stdout) = child::spawn(&name, &command, &args, &env, cwd.as_deref())?;
                Ok(Hub::over(name, stdout, stdin, Some(process), options))
            }
            Transport::Http { url, headers } => {
                let server = http::Server::new(&name, &url, &headers, options.max_message)?;
                let inner = Inner::new(name, Upstream::Http(server), options);
                Ok(Hub { inner })
            }
        }
    }

    /// A server that is reached through any pair of byte streams, one message a line.
    pub fn from_streams<R, W>(name: impl Into<String>, reader: R, writer: W, options: HubOptions) -> Hub
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        Hub::over(name.into(), reader, writer, None, options)
    }

    fn over<R, W>(name: String, reader: R, writer: W, process: Option<Process>, options: HubOptions) -> Hub
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let (queue, queued) = mpsc::unbounded_channel();
        let inner = Inner::new(name, Upstream::Pipe(process), options);
        inner.lock().pipe = Some(queue);
        tokio::spawn(write_pipe(writer, queued, inner.over.clone()));
        tokio::spawn(read_pipe(inner.clone(), reader));
        Hub { inner }
    }

    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Opens a session in this process: one JSON-RPC message a line, both ways. It ends when it is dropped.
    pub fn connect(&self, kind: SessionKind) -> Session {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let port = self.inner.open(kind);
        let (inner, id) = (self.inner.clone(), port.id);
        let (reader, writer) = tokio::io::split(far);
        let ended = port.ended.clone();
        tokio::spawn(read_session(inner, id, reader, ended.clone()));
        tokio::spawn(write_session(port, writer));
        Session { stream: near, inner: self.inner.clone(), id, ended }
    }

    /// Serves sessions of this kind over streamable HTTP on a free port of 127.0.0.1, until the front is dropped.
    pub async fn serve_http(&self, kind: SessionKind) -> io::Result<HttpFront> {
        front::serve(self.inner.clone(), kind).await
    }

    /// An initialized client on a session of its own.
    pub async fn client(&self, kind: SessionKind, options: ClientOptions) -> Result<Client, ServerError> {
        let client = Client::start(self.connect(kind), options);
        match client.initialize().await {
            Ok(_) => Ok(client),
            Err(error) => Err(self.failure().unwrap_or_else(|| error.at_initialize(self.name()))),
        }
    }

    /// The result of `initialize`, as soon as there is one.
    pub fn server(&self) -> Option<Value> {
        self.inner.lock().server.as_deref().and_then(|text| serde_json::from_str(text).ok())
    }

    /// Why the server can no longer be used, if so.
    pub fn failure(&self) -> Option<ServerError> {
        self.inner.lock().failure.clone().map(|error| error.masked(&self.inner.options.secrets))
    }

    /// Does anyone wait for an answer?
    pub fn is_busy(&self) -> bool {
        self.inner.lock().pending.values().any(|pending| !pending.given_up)
    }

    /// What was odd so far.
    pub fn notices(&self) -> Vec<Notice> {
        self.inner.lock().notices.clone()
    }

    /// The last 64 KiB that the process printed to its standard error.
    pub fn stderr_tail(&self) -> String {
        self.inner.stderr()
    }

    /// Of the process, which leads a group of its own.
    pub fn pid(&self) -> Option<u32> {
        self.inner.process()?.pid()
    }

    /// How the process ended, in words, if it has.
    pub fn exited(&self) -> Option<String> {
        self.inner.process().and_then(Process::exited)
    }

    /// Ends all sessions and the server: its input is closed, then it is asked to end, then its group is killed.
    pub async fn close(&self) {
        let sessions: Vec<u64> = self.inner.lock().sessions.keys().copied().collect();
        for session in sessions {
            self.inner.end(session);
        }
        self.inner.fail(ServerError::Closed { server: self.inner.name.clone() });
        if let Some(process) = self.inner.process() {
            process.close(self.inner.options.close_grace).await;
        }
        if let Upstream::Http(server) = &self.inner.upstream {
            // The DELETE requests of the sessions are on their way.
            let _ = tokio::time::timeout(self.inner.options.close_grace, server.idle()).await;
        }
        self.inner.over.cancel();
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.inner.fail(ServerError::Closed { server: self.inner.name.clone() });
        if let Some(process) = self.inner.process() {
            process.kill();
        }
        self.inner.over.cancel();
    }
}

/// The near end of a session in this process.
pub struct Session {
    stream: DuplexStream,
    inner: Arc<Inner>,
    id: u64,
    ended: CancellationToken,
}

impl Session {
    /// The session's number in [`Traffic`].
    pub fn id(&self) -> u64 {
        self.id
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Session({}, {})", self.inner.name, self.id)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.inner.end(self.id);
        self.ended.cancel();
    }
}

impl AsyncRead for Session {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Session {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// The hub's end of a session: what it is sent comes out of here. The session ends when this is dropped.
pub(super) struct Port {
    pub id: u64,
    outbox: mpsc::UnboundedReceiver<Bytes>,
    queued: Arc<AtomicUsize>,
    /// Ends the task that serves the session.
    pub ended: CancellationToken,
    inner: Arc<Inner>,
}

impl Port {
    pub async fn next(&mut self) -> Option<Bytes> {
        let message = self.outbox.recv().await?;
        self.queued.fetch_sub(message.len(), Ordering::Relaxed);
        Some(message)
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.inner.end(self.id);
    }
}

#[derive(Debug)]
enum Upstream {
    Pipe(Option<Process>),
    Http(http::Server),
}

/// A message to the server; the permit is what its sender waited for.
pub(super) struct Outgoing {
    pub message: Bytes,
    pub permit: Option<OwnedSemaphorePermit>,
}

pub(super) struct Inner {
    pub name: String,
    pub options: HubOptions,
    upstream: Upstream,
    permits: Arc<Semaphore>,
    state: Mutex<State>,
    /// Everything that serves this hub ends with it.
    pub over: CancellationToken,
}

impl fmt::Debug for Inner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Inner({})", self.name)
    }
}

/// Ids and tokens are unique within a space: all sessions of a pipe share space 0, an HTTP session has its own.
type Place = (u64, IdKey);

#[derive(Default)]
struct State {
    sessions: HashMap<u64, Member>,
    /// Requests of the sessions, under the id that the server sees.
    pending: HashMap<Place, Pending>,
    /// Progress tokens, as the server sees them, of pending requests.
    tokens: HashMap<Place, Token>,
    /// Requests of the server, and who was asked.
    asked: HashMap<Place, Asked>,
    handshake: Handshake,
    /// The server of a pipe hears `notifications/initialized` once.
    greeted: bool,
    /// The result of `initialize`.
    server: Option<String>,
    failure: Option<ServerError>,
    /// Nothing can be sent any more. An HTTP server may fail now and answer later.
    dead: bool,
    notices: Vec<Notice>,
    pipe: Option<mpsc::UnboundedSender<Outgoing>>,
    /// Counts sessions, replaced ids, and moments of activity.
    counter: u64,
}

/// `initialize` over a pipe, where there is one for all.
#[derive(Default)]
enum Handshake {
    #[default]
    New,
    Running {
        capabilities: String,
        waiting: VecDeque<(u64, Message)>,
    },
    Done {
        capabilities: String,
        result: String,
    },
}

struct Member {
    kind: SessionKind,
    outbox: mpsc::UnboundedSender<Bytes>,
    queued: Arc<AtomicUsize>,
    ended: CancellationToken,
    last_active: u64,
    /// It has its answer to `initialize`, or does without.
    ready: bool,
    /// To its own HTTP session.
    http: Option<mpsc::UnboundedSender<Outgoing>>,
}

struct Pending {
    session: u64,
    /// The id as the session wrote it.
    id: String,
    /// The id as the server got it, if it is another.
    replaced: Option<String>,
    token: Option<IdKey>,
    call: Option<OpenCall>,
    initialize: bool,
    /// Cancelled, or its session has ended. An answer may still come, so the id stays taken.
    given_up: bool,
}

struct Token {
    session: u64,
    /// The token as the session wrote it, if the server got another.
    original: Option<String>,
}

struct Asked {
    session: u64,
    id: String,
}

impl Inner {
    fn new(name: String, upstream: Upstream, options: HubOptions) -> Arc<Inner> {
        Arc::new(Inner {
            name,
            options,
            upstream,
            permits: Arc::new(Semaphore::new(QUEUED)),
            state: Mutex::default(),
            over: CancellationToken::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn process(&self) -> Option<&Process> {
        match &self.upstream {
            Upstream::Pipe(process) => process.as_ref(),
            Upstream::Http(_) => None,
        }
    }

    fn stderr(&self) -> String {
        let text = self.process().map(Process::stderr).unwrap_or_default();
        self.options.secrets.mask(&text).into_owned()
    }

    fn space(&self, session: u64) -> u64 {
        match self.upstream {
            Upstream::Pipe(_) => 0,
            Upstream::Http(_) => session,
        }
    }

    pub fn open(self: &Arc<Self>, kind: SessionKind) -> Port {
        let mut state = self.lock();
        state.counter += 1;
        let id = state.counter;
        let (outbox, received) = mpsc::unbounded_channel();
        let http = match &self.upstream {
            Upstream::Pipe(_) => None,
            Upstream::Http(server) => {
                let (queue, queued) = mpsc::unbounded_channel();
                server.serve(self.clone(), id, queued);
                Some(queue)
            }
        };
        let (queued, ended) = (Arc::new(AtomicUsize::new(0)), self.over.child_token());
        let member =
            Member { kind, outbox, queued: queued.clone(), ended: ended.clone(), last_active: id, ready: false, http };
        state.sessions.insert(id, member);
        Port { id, outbox: received, queued, ended, inner: self.clone() }
    }

    /// The session is over: what it asked for is given up, and what it was asked will not be answered.
    pub fn end(&self, session: u64) {
        let mut guard = self.lock();
        let state = &mut *guard;
        if !state.sessions.contains_key(&session) {
            return;
        }
        let space = self.space(session);
        if let Handshake::Running { waiting, .. } = &mut state.handshake {
            waiting.retain(|(waiter, _)| *waiter != session);
        }
        let mut unwanted = Vec::new();
        for pending in state.pending.values_mut().filter(|pending| pending.session == session) {
            if std::mem::replace(&mut pending.given_up, true) {
                continue;
            }
            if let Some(call) = pending.call.take() {
                call.ended(CallOutcome::Cancelled);
            }
            if !pending.initialize {
                let id = pending.replaced.as_ref().unwrap_or(&pending.id);
                unwanted.push(message::cancelled(id, "the session has ended"));
            }
        }
        for asked in state.asked.extract_if(|_, asked| asked.session == session).map(|(_, asked)| asked) {
            unwanted.push(message::refusal(&asked.id, -32603, "the session of the client has ended"));
        }
        for message in unwanted {
            send(state, space, message, None);
        }
        state.tokens.retain(|_, token| token.session != session);
        if space != 0 {
            state.pending.retain(|(of, _), _| *of != space);
        }
        if let Some(member) = state.sessions.remove(&session) {
            member.ended.cancel();
        }
    }

    /// Takes what a session says. Waits when the server is slow to read.
    pub async fn from_session(self: &Arc<Self>, session: u64, bytes: Bytes) {
        for bytes in message::unbatch(bytes) {
            if bytes.trim_ascii().is_empty() {
                continue;
            }
            let permit = self.permits.clone().acquire_owned().await.ok();
            let mut guard = self.lock();
            let state = &mut *guard;
            let Some(member) = state.sessions.get_mut(&session) else { return };
            state.counter += 1;
            member.last_active = state.counter;
            self.tap(session, &member.kind, Direction::ToServer, &bytes);
            match Message::parse(bytes) {
                None => {
                    self.remark(state, Some(session), "a client sent something that is no JSON-RPC message");
                    self.deliver(state, session, message::refusal("null", -32700, "not a JSON-RPC message"));
                }
                Some(message) => match message.shape() {
                    Shape::Request => self.request(state, session, message, permit),
                    Shape::Notification => self.notification(state, session, &message, permit),
                    Shape::Response => self.response(state, session, message, permit),
                },
            }
        }
    }

    fn request(
        self: &Arc<Self>,
        state: &mut State,
        session: u64,
        message: Message,
        permit: Option<OwnedSemaphorePermit>,
    ) {
        let space = self.space(session);
        let (Some(key), Some(id), Some(id_place)) = (message.key(), message.id(), message.id_place()) else { return };
        let id = id.to_owned();
        let initialize = message.method.as_deref() == Some("initialize");
        let Some(member) = state.sessions.get_mut(&session) else { return };
        member.ready |= !initialize;
        let call = match (&member.kind, message.method.as_deref().and_then(CallKind::of_method)) {
            (SessionKind::Agent(recorder), Some(kind)) => Some(recorder.open(&self.name, kind, message.params())),
            _ => None,
        };
        if state.dead {
            if let Some(call) = call {
                call.ended(CallOutcome::Lost);
            }
            let text = state.failure.as_ref().map_or_else(String::new, ServerError::brief);
            self.deliver(state, session, message::lost(&id, &text));
            return;
        }
        if initialize && space == 0 {
            let capabilities = message.param("capabilities").unwrap_or("{}").to_owned();
            match &mut state.handshake {
                Handshake::New => state.handshake = Handshake::Running { capabilities, waiting: VecDeque::new() },
                Handshake::Running { waiting, .. } => return waiting.push_back((session, message)),
                Handshake::Done { .. } => return self.greet(state, session, &message),
            }
        }
        let mut edits = Vec::new();
        let mut place = (space, key);
        let mut replaced = None;
        if state.pending.contains_key(&place) {
            let other = unused(&mut state.counter, &id, |key| !state.pending.contains_key(&(space, key)));
            place.1 = IdKey::of(&other);
            edits.push((id_place, other.clone()));
            replaced = Some(other);
        }
        let mut token_key = None;
        if let Some(token) = message.meta("progressToken") {
            let mut token_place = (space, IdKey::of(token));
            let mut original = None;
            if state.tokens.contains_key(&token_place) {
                let other = unused(&mut state.counter, token, |key| !state.tokens.contains_key(&(space, key)));
                token_place.1 = IdKey::of(&other);
                edits.push((message.place_of(token), other));
                original = Some(token.to_owned());
            }
            token_key = Some(token_place.1.clone());
            state.tokens.insert(token_place, Token { session, original });
        }
        let bytes = message::splice(&message.bytes, edits);
        if initialize {
            let (inner, place) = (self.clone(), place.clone());
            tokio::spawn(async move {
                tokio::select! {
                    () = inner.over.cancelled() => {}
                    () = tokio::time::sleep(inner.options.initialize_timeout) => inner.too_late(&place),
                }
            });
        }
        state
            .pending
            .insert(place, Pending { session, id, replaced, token: token_key, call, initialize, given_up: false });
        send(state, space, bytes, permit);
    }

    /// Answers `initialize` in the place of a server that has heard one already.
    fn greet(&self, state: &mut State, session: u64, message: &Message) {
        let Handshake::Done { capabilities, result } = &state.handshake else { return };
        let answer = message::answer(message.id().unwrap_or("null"), result);
        let wanted = message.param("capabilities").unwrap_or("{}");
        if let (Ok(wanted), Ok(first)) = (serde_json::from_str(wanted), serde_json::from_str(capabilities))
            && exceeds(&wanted, &first)
        {
            let text = format!(
                "a client with the capabilities {wanted} shares a server that got {first} from the client before it"
            );
            self.remark(state, Some(session), &text);
        }
        if let Some(member) = state.sessions.get_mut(&session) {
            member.ready = true;
        }
        self.deliver(state, session, answer);
    }

    fn notification(&self, state: &mut State, session: u64, message: &Message, permit: Option<OwnedSemaphorePermit>) {
        let space = self.space(session);
        if let Some(kind) = message.method.as_deref().and_then(CallKind::of_method)
            && let Some(SessionKind::Agent(recorder)) = state.sessions.get(&session).map(|member| &member.kind)
        {
            recorder.open(&self.name, kind, message.params()).unanswerable();
        }
        let mut edits = Vec::new();
        match message.method.as_deref() {
            Some("notifications/initialized") if space == 0 => {
                if state.greeted {
                    return;
                }
                state.greeted = true;
            }
            Some("notifications/cancelled") => {
                let Some(raw) = message.param("requestId") else { return };
                let key = IdKey::of(raw);
                let own = state
                    .pending
                    .values_mut()
                    .find(|pending| pending.session == session && IdKey::of(&pending.id) == key);
                if let Some(pending) = own {
                    pending.given_up = true;
                    if let Some(call) = pending.call.take() {
                        call.ended(CallOutcome::Cancelled);
                    }
                    if let Some(other) = &pending.replaced {
                        edits.push((message.place_of(raw), other.clone()));
                    }
                } else if state.pending.contains_key(&(space, key)) {
                    // The request has been answered, and its id is another session's now.
                    return;
                }
            }
            _ => {}
        }
        send(state, space, message::splice(&message.bytes, edits), permit);
    }

    fn response(&self, state: &mut State, session: u64, message: Message, permit: Option<OwnedSemaphorePermit>) {
        let space = self.space(session);
        if let Some(key) = message.key() {
            let place = (space, key);
            match state.asked.get(&place) {
                Some(asked) if asked.session != session => return,
                _ => {
                    state.asked.remove(&place);
                }
            }
        }
        send(state, space, message.bytes, permit);
    }

    /// Takes what the server says in a space; `false` if it is no message.
    pub fn from_server(self: &Arc<Self>, space: u64, bytes: Bytes) -> bool {
        let mut understood = true;
        for bytes in message::unbatch(bytes) {
            let Some(message) = Message::parse(bytes) else {
                understood = false;
                continue;
            };
            let mut guard = self.lock();
            let state = &mut *guard;
            match message.shape() {
                Shape::Request => self.server_request(state, space, message),
                Shape::Notification => self.server_notification(state, space, &message),
                Shape::Response => self.server_response(state, space, &message),
            }
        }
        understood
    }

    fn server_response(self: &Arc<Self>, state: &mut State, space: u64, message: &Message) {
        let found = message.key().and_then(|key| state.pending.remove(&(space, key)));
        let Some(pending) = found else {
            let mut sessions = state.sessions.keys().filter(|id| space == 0 || **id == space);
            match (sessions.next().copied(), sessions.next()) {
                (Some(only), None) => self.deliver(state, only, message.bytes.clone()),
                _ => self.remark(state, None, "the server answered a request that nobody is waiting for"),
            }
            return;
        };
        if let Some(token) = pending.token {
            state.tokens.remove(&(space, token));
        }
        if let Some(call) = pending.call {
            call.answered(message.result(), message.error());
        }
        let edits = match (pending.replaced, message.id_place()) {
            (Some(_), Some(place)) => vec![(place, pending.id)],
            _ => Vec::new(),
        };
        if let Some(member) = state.sessions.get_mut(&pending.session) {
            member.ready = true;
        }
        self.deliver(state, pending.session, message::splice(&message.bytes, edits));
        if !pending.initialize {
            return;
        }
        if let Some(result) = message.result() {
            state.server = Some(result.to_owned());
            if !state.dead {
                state.failure = None;
            }
        }
        if space == 0
            && let Handshake::Running { capabilities, waiting } = std::mem::take(&mut state.handshake)
        {
            if let Some(result) = message.result() {
                state.handshake = Handshake::Done { capabilities, result: result.to_owned() };
            }
            for (session, message) in waiting {
                self.request(state, session, message, None);
            }
        }
    }

    fn server_notification(&self, state: &mut State, space: u64, message: &Message) {
        let mut edits = Vec::new();
        let owner = match message.method.as_deref() {
            Some("notifications/progress") => message.param("progressToken").and_then(|raw| {
                let token = state.tokens.get(&(space, IdKey::of(raw)))?;
                edits.extend(token.original.clone().map(|original| (message.place_of(raw), original)));
                Some(token.session)
            }),
            Some("notifications/cancelled") => message
                .param("requestId")
                .and_then(|raw| state.asked.remove(&(space, IdKey::of(raw))))
                .map(|asked| asked.session),
            _ => None,
        };
        let bytes = message::splice(&message.bytes, edits);
        let listeners: Vec<u64> = match owner {
            Some(owner) => vec![owner],
            None if space != 0 => vec![space],
            None if state.sessions.len() == 1 => state.sessions.keys().copied().collect(),
            None => state.sessions.iter().filter(|(_, member)| member.ready).map(|(id, _)| *id).collect(),
        };
        for session in listeners {
            self.deliver(state, session, bytes.clone());
        }
    }

    fn server_request(&self, state: &mut State, space: u64, message: Message) {
        let (Some(key), Some(id)) = (message.key(), message.id()) else { return };
        let agent = |id: &u64| matches!(state.sessions.get(id), Some(Member { kind: SessionKind::Agent(_), .. }));
        let target = if space != 0 {
            Some(space)
        } else {
            state
                .sessions
                .iter()
                .filter(|(id, _)| agent(id))
                .max_by_key(|(id, member)| {
                    (
                        state.pending.values().any(|pending| pending.session == **id && !pending.given_up),
                        member.last_active,
                    )
                })
                .map(|(id, _)| *id)
        };
        match target {
            Some(session) => {
                state.asked.insert((space, key), Asked { session, id: id.to_owned() });
                self.deliver(state, session, message.bytes);
            }
            None if message.method.as_deref() == Some("ping") => {
                send(state, space, message::answer(id, "{}"), None);
            }
            None => send(state, space, message::refusal(id, -32601, "no agent is connected"), None),
        }
    }

    fn deliver(&self, state: &mut State, session: u64, bytes: Bytes) {
        let Some(member) = state.sessions.get(&session) else { return };
        self.tap(session, &member.kind, Direction::FromServer, &bytes);
        let queued = member.queued.fetch_add(bytes.len(), Ordering::Relaxed) + bytes.len();
        // A failed send is a session that is about to end.
        let _ = member.outbox.send(bytes);
        if queued > self.options.max_message.saturating_mul(4) {
            member.ended.cancel();
            self.remark(state, Some(session), "a client was disconnected: it does not read what it is sent");
        }
    }

    fn tap(&self, session: u64, kind: &SessionKind, direction: Direction, message: &[u8]) {
        if let Some(tap) = &self.options.on_message {
            let agent = match kind {
                SessionKind::Agent(recorder) => Some(recorder),
                SessionKind::Own => None,
            };
            tap(Traffic { server: &self.name, session, agent, direction, message });
        }
    }

    fn remark(&self, state: &mut State, session: Option<u64>, text: &str) {
        let text = self.options.secrets.mask(text).into_owned();
        let notice = Notice { server: self.name.clone(), text, at: Timestamp::now() };
        if let Some(SessionKind::Agent(recorder)) =
            session.and_then(|session| state.sessions.get(&session)).map(|member| &member.kind)
        {
            recorder.notice(notice.clone());
        }
        if state.notices.len() < NOTICES {
            state.notices.push(notice);
        }
    }

    /// The beginning of what a server said, for a message. Masked first: half a secret would not be found.
    pub fn excerpt(&self, bytes: &[u8], most: usize) -> String {
        shortened(&self.options.secrets.mask(&String::from_utf8_lossy(bytes)), most)
    }

    pub fn notice(&self, session: Option<u64>, text: &str) {
        self.remark(&mut self.lock(), session, text);
    }

    fn too_late(&self, place: &Place) {
        let running = self.lock().pending.get(place).is_some_and(|pending| pending.initialize);
        if running {
            let within = self.options.initialize_timeout;
            let error = ServerError::NoAnswer { server: self.name.clone(), within, stderr: self.stderr() };
            if place.0 == 0 { self.fail(error) } else { self.lost(place.0, &place.1, error) }
        }
    }

    /// One request to an HTTP server came to nothing.
    pub fn lost(&self, space: u64, key: &IdKey, error: ServerError) {
        let mut guard = self.lock();
        let state = &mut *guard;
        if let Some(pending) = state.pending.remove(&(space, key.clone())) {
            self.refuse(state, pending, &error);
            if state.server.is_none() && !state.dead {
                state.failure = Some(error);
            }
        }
    }

    fn refuse(&self, state: &mut State, pending: Pending, error: &ServerError) {
        if let Some(call) = pending.call {
            call.ended(CallOutcome::Lost);
        }
        if let Some(token) = pending.token {
            state.tokens.remove(&(self.space(pending.session), token));
        }
        let text = error.brief();
        let text = self.options.secrets.mask(&text);
        self.deliver(state, pending.session, message::lost(&pending.id, &text));
    }

    /// The server is of no use any more: pending and later calls get this error.
    fn fail(&self, error: ServerError) {
        let mut guard = self.lock();
        let state = &mut *guard;
        if state.dead {
            return;
        }
        state.dead = true;
        state.pipe = None;
        for (_, pending) in std::mem::take(&mut state.pending) {
            self.refuse(state, pending, &error);
        }
        if let Handshake::Running { waiting, .. } = std::mem::take(&mut state.handshake) {
            for (session, message) in waiting {
                let answer = message::lost(message.id().unwrap_or("null"), &error.brief());
                self.deliver(state, session, answer);
            }
        }
        state.failure = Some(error);
    }
}

/// Queues a message for the server.
fn send(state: &mut State, space: u64, message: Bytes, permit: Option<OwnedSemaphorePermit>) {
    let queue = match space {
        0 => state.pipe.as_ref(),
        session => state.sessions.get(&session).and_then(|member| member.http.as_ref()),
    };
    if let Some(queue) = queue {
        // A failed send is a connection that is about to be declared dead.
        let _ = queue.send(Outgoing { message, permit });
    }
}

/// An id of the kind of the given one that is free.
fn unused(counter: &mut u64, like: &str, free: impl Fn(IdKey) -> bool) -> String {
    loop {
        *counter += 1;
        let candidate = if like.starts_with('"') {
            format!("\"gevals-{counter}\"")
        } else {
            format!("{}", 1_000_000_000 + *counter)
        };
        if free(IdKey::of(&candidate)) {
            return candidate;
        }
    }
}

/// Does the first say anything that the second does not?
fn exceeds(later: &Value, first: &Value) -> bool {
    match (later, first) {
        (Value::Object(later), Value::Object(first)) => {
            later.iter().any(|(key, value)| first.get(key).is_none_or(|other| exceeds(value, other)))
        }
        _ => later != first,
    }
}

async fn write_pipe(
    mut writer: impl AsyncWrite + Unpin,
    mut queue: mpsc::UnboundedReceiver<Outgoing>,
    over: CancellationToken,
) {
    let writing = async {
        let mut line = Vec::new();
        while let Some(outgoing) = queue.recv().await {
            line.clear();
            line.extend_from_slice(&message::single_line(outgoing.message));
            line.push(b'\n');
            // A server that no longer reads is found out by its output.
            if writer.write_all(&line).await.is_err() || writer.flush().await.is_err() {
                break;
            }
            line.shrink_to(1 << 20);
        }
        let _ = writer.shutdown().await;
    };
    tokio::select! {
        () = writing => {}
        () = over.cancelled() => {}
    }
}

async fn read_pipe(inner: Arc<Inner>, reader: impl AsyncRead + Unpin) {
    let mut lines = Lines::new(reader, inner.options.max_message);
    let mut rubbish = 0;
    // A descendant that left the group may hold the output open after the server's end.
    let straggling = async {
        match inner.process() {
            Some(process) => {
                process.wait().await;
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            None => std::future::pending().await,
        }
    };
    tokio::pin!(straggling);
    let server = inner.name.clone();
    let error = loop {
        let line = tokio::select! {
            line = lines.next() => line,
            () = &mut straggling => break ended(&inner).await,
            () = inner.over.cancelled() => return,
        };
        match line {
            Ok(Some(line)) if line.trim_ascii().is_empty() => {}
            Ok(Some(line)) => {
                if inner.from_server(0, line.clone()) {
                    rubbish = 0;
                    continue;
                }
                rubbish += 1;
                let excerpt = inner.excerpt(&line, 100);
                if rubbish > RUBBISH {
                    break ServerError::NotMcp { server, excerpt };
                }
                if rubbish <= 5 {
                    inner.notice(None, &format!("the server printed a line that is no message: {excerpt}"));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                break ServerError::TooLong { server, limit: inner.options.max_message };
            }
            Ok(None) | Err(_) => break ended(&inner).await,
        }
    };
    inner.fail(error);
    if let Some(process) = inner.process() {
        process.close(inner.options.close_grace).await;
    }
}

async fn ended(inner: &Inner) -> ServerError {
    let status = match inner.process() {
        Some(process) => tokio::time::timeout(Duration::from_secs(1), process.wait_for_all()).await.ok(),
        None => None,
    };
    ServerError::Exited {
        server: inner.name.clone(),
        status: status.unwrap_or_else(|| "closed its output".to_owned()),
        stderr: inner.stderr(),
    }
}

async fn read_session(inner: Arc<Inner>, session: u64, reader: impl AsyncRead + Unpin, ended: CancellationToken) {
    let mut lines = Lines::new(reader, inner.options.max_message);
    let reading = async {
        loop {
            match lines.next().await {
                Ok(Some(line)) => inner.from_session(session, line).await,
                // It may still read: dropping it is what ends a session.
                Ok(None) => return,
                Err(_) => {
                    let limit = inner.options.max_message;
                    let text = format!("a client was disconnected: it sent a message of more than {limit} bytes");
                    inner.notice(Some(session), &text);
                    return inner.end(session);
                }
            }
        }
    };
    tokio::select! {
        () = reading => {}
        () = ended.cancelled() => {}
    }
}

async fn write_session(mut port: Port, mut writer: impl AsyncWrite + Unpin) {
    let ended = port.ended.clone();
    let writing = async {
        while let Some(message) = port.next().await {
            let mut line = Vec::with_capacity(message.len() + 1);
            line.extend_from_slice(&message::single_line(message));
            line.push(b'\n');
            if writer.write_all(&line).await.is_err() {
                break;
            }
        }
    };
    tokio::select! {
        () = writing => {}
        () = ended.cancelled() => {}
    }
}
