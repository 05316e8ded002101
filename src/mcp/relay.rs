//! Relays messages between one server and the sessions that share it. Messages pass as the bytes they arrived in; only
//! an id or a progress token that another request uses, or an id that was used before, is replaced on the way to the
//! server, and restored on the way back to its owner.
//!
//! A process has one connection, so its sessions are distinguished by the ids of their requests. A streamable HTTP
//! server has a separate session for each of ours. Everything that both transports have in common happens in `State`,
//! under one lock that is never held across an await; messages go into unbounded queues, whose size is limited where
//! messages enter. This module does not know what fills and empties these queues (pipes, HTTP, sessions of this
//! process).

mod era;
mod from_server;
mod to_server;

use std::{
    collections::{HashMap, HashSet, VecDeque},
    fmt,
    hash::{BuildHasher as _, RandomState},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::{bytes::Bytes, sync::CancellationToken};

use self::era::Era;
pub(super) use self::era::Twin;
use super::{
    ServerError,
    child::Process,
    message::{self, IdKey, Message},
    record::{CallOutcome, Notice, OpenCall, Recorder},
    shortened,
};
use crate::secrets::Secrets;

/// How many messages may be on their way to the server, over all sessions, before their senders have to wait.
const QUEUED: usize = 64;
/// How many notices are kept.
const NOTICES: usize = 100;

/// What a session of the hub sent or received, in the bytes on the wire. Not masked.
#[derive(Debug, Clone, Copy)]
pub struct Traffic<'a> {
    pub server: &'a str,
    /// Unique within the hub.
    pub session: u64,
    /// The recorder, if the session is an agent's.
    pub agent: Option<&'a Recorder>,
    pub direction: Direction,
    pub message: &'a [u8],
}

/// Which way a message goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    ToServer,
    FromServer,
}

/// Sees every message before it is passed on.
pub type Tap = Arc<dyn Fn(Traffic<'_>) + Send + Sync>;

/// How a hub treats its server.
#[derive(Clone)]
pub struct HubOptions {
    /// How long the answer to `initialize` may take.
    pub initialize_timeout: Duration,
    /// How long a process may take to end after its input is closed, and again after SIGTERM.
    pub close_grace: Duration,
    /// The longest message, either way, in bytes.
    pub max_message: usize,
    /// Masked in records, notices and error texts.
    pub secrets: Arc<Secrets>,
    /// Sees every message of every session, in order. It is called under the hub's lock: it must be quick, and must not
    /// call the hub.
    pub on_message: Option<Tap>,
    /// What clients get in addition to what the server offers.
    pub added: Option<Arc<Added>>,
}

/// What a hub adds to its server. Everything else is relayed unchanged.
pub struct Added {
    /// Answers a request by its method and its params: returns a result as JSON text, or the code and the message of an
    /// error. `None`: the server answers. It is called under the hub's lock: it must be quick, and must not call the
    /// hub.
    pub answer: Box<Answer>,
    /// Merged into the capabilities that the server declares.
    pub capabilities: Map<String, Value>,
    /// What a client without a handshake requests in `subscriptions/listen` to receive
    /// [`Hub::announce`](super::Hub::announce).
    pub subscription: &'static str,
}

/// See [`Added::answer`].
pub type Answer = dyn Fn(&str, Option<&str>) -> Option<Result<String, (i64, String)>> + Send + Sync;

impl Default for HubOptions {
    fn default() -> Self {
        HubOptions {
            initialize_timeout: Duration::from_secs(30),
            close_grace: Duration::from_secs(2),
            max_message: 64 << 20,
            secrets: Arc::default(),
            on_message: None,
            added: None,
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

/// The owner of a session.
#[derive(Debug, Clone)]
pub enum SessionKind {
    /// An agent: its calls are recorded, and the server's own requests go to it.
    Agent(Recorder),
    /// A client that is not recorded; the server's own requests go to it as well.
    Client,
    /// gevals itself.
    Own,
}

/// The hub's end of a session, which receives what is sent to the session. Dropping it ends the session.
pub(super) struct Port {
    pub id: u64,
    outbox: mpsc::UnboundedReceiver<Bytes>,
    queued: Arc<AtomicUsize>,
    /// Canceled to end the task that serves the session.
    pub ended: CancellationToken,
    relay: Arc<Relay>,
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
        self.relay.end(self.id);
    }
}

/// How messages of sessions reach the server.
pub(super) enum Uplink {
    /// One queue for all sessions, to the process of the server or to other streams.
    Shared { process: Option<Process> },
    /// One queue per session, which this function reads.
    Each(Box<Serve>),
}

pub(super) type Serve = dyn Fn(Arc<Relay>, u64, mpsc::UnboundedReceiver<Outgoing>) + Send + Sync;

/// A message to the server; an empty one asks a server that is reached by HTTP for the stream of its unsolicited
/// messages.
pub(super) struct Outgoing {
    pub message: Bytes,
    pub envelope: Envelope,
}

/// What goes with a message to the server.
#[derive(Default)]
pub(super) struct Envelope {
    /// The permit that its sender waited for.
    pub permit: Option<OwnedSemaphorePermit>,
    /// All headers of the HTTP request that contained the message, for the record.
    pub said: Option<Arc<HeaderMap>>,
    /// The MCP headers of the HTTP request that contained the message: a server that is reached by HTTP gets these, and
    /// no other MCP headers.
    pub headers: Option<HeaderMap>,
    /// Receives what a server that is reached by HTTP sends in addition to messages.
    pub aside: Option<mpsc::UnboundedSender<Aside>>,
}

/// What a server that is reached by HTTP sends in addition to the messages of an answer.
#[derive(Debug)]
pub(super) enum Aside {
    /// The head; precedes every message.
    Head(Receipt),
    /// The stream has started, and can be resumed, after `retry` if the server specifies it.
    Begun { retry: Option<Duration> },
    /// The server has closed the stream before its end.
    Paused,
}

/// The head of an answer; and its body, if it does not contain the requested answer.
#[derive(Debug)]
pub(super) struct Receipt {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Option<Bytes>,
}

pub(super) struct Relay {
    pub name: String,
    pub options: HubOptions,
    uplink: Uplink,
    /// Set for a program that can be started a second time.
    twin: Option<Twin>,
    permits: Arc<Semaphore>,
    state: Mutex<State>,
    /// Canceled when the server can no longer be used.
    pub dead: CancellationToken,
    /// Canceled to end all tasks of this hub.
    pub over: CancellationToken,
}

impl fmt::Debug for Relay {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Relay({})", self.name)
    }
}

/// Ids and tokens are unique within a space: all sessions of a pipe share space 0, an HTTP session has its own.
type Place = (u64, IdKey);

#[derive(Default)]
struct State {
    sessions: HashMap<u64, Member>,
    /// Requests of the sessions, by the id that the server sees.
    pending: HashMap<Place, Pending>,
    /// Ids that were sent to the server over a pipe: a later message with such an id belongs to that request.
    used: Used,
    /// Progress tokens of pending requests, as the server sees them.
    tokens: HashMap<Place, Token>,
    /// Requests of the server, and the session that each was sent to.
    asked: HashMap<Place, Asked>,
    handshake: Handshake,
    /// The server of a pipe gets `notifications/initialized` once.
    greeted: bool,
    /// The result of `initialize`.
    server: Option<String>,
    /// The era of the clients served here, once the first has connected; `settled` once the server has answered one of
    /// them.
    era: Option<Era>,
    settled: bool,
    /// For each tool, the arguments that HTTP clients repeat in headers.
    repeated: HashMap<String, Vec<(String, String)>>,
    /// It was reported that there are clients of both eras.
    doubled: bool,
    failure: Option<ServerError>,
    /// Nothing can be sent any more. An HTTP server may fail now and answer later.
    dead: bool,
    notices: Vec<Notice>,
    pipe: Option<mpsc::UnboundedSender<Outgoing>>,
    /// Counts sessions, replaced ids, and moments of activity.
    counter: u64,
}

/// Used ids, stored as hashes because there may be many. On a hash collision, an unused id is replaced as well.
#[derive(Default)]
struct Used {
    ids: HashSet<u64>,
    state: RandomState,
}

impl Used {
    /// Adds an id; returns whether it is new. Sessions over HTTP have their own ids.
    fn insert(&mut self, place: &Place) -> bool {
        place.0 != 0 || self.ids.insert(self.state.hash_one(&place.1))
    }

    fn contains(&self, place: &Place) -> bool {
        place.0 == 0 && self.ids.contains(&self.state.hash_one(&place.1))
    }
}

/// The state of `initialize` over a pipe, where there is one handshake for all sessions.
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
    /// It has its answer to `initialize`, or does not need one.
    ready: bool,
    /// It has its answer to `initialize`.
    greeted: bool,
    /// The queue to the server, if this session has its own.
    own: Option<mpsc::UnboundedSender<Outgoing>>,
    /// Whether its messages go to the twin, because of its era; `there` is its session at the twin.
    away: bool,
    there: Option<u64>,
}

struct Pending {
    session: u64,
    /// The id as the session wrote it.
    id: String,
    /// The id as the server got it, if it differs.
    replaced: Option<String>,
    token: Option<IdKey>,
    call: Option<OpenCall>,
    initialize: bool,
    /// Its answer declares the capabilities of the server.
    declares: bool,
    /// It subscribes to what this hub announces.
    subscribes: bool,
    /// Canceled, or its session has ended. An answer may still arrive, so the id stays reserved.
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

impl Relay {
    /// `pipe` is the queue of a shared uplink. When the relay fails, it drops the queue, which closes the server's
    /// input.
    pub fn new(
        name: String,
        uplink: Uplink,
        pipe: Option<mpsc::UnboundedSender<Outgoing>>,
        twin: Option<Twin>,
        options: HubOptions,
    ) -> Arc<Relay> {
        Arc::new(Relay {
            name,
            options,
            uplink,
            twin,
            permits: Arc::new(Semaphore::new(QUEUED)),
            state: Mutex::new(State { pipe, ..State::default() }),
            dead: CancellationToken::new(),
            over: CancellationToken::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn process(&self) -> Option<&Process> {
        match &self.uplink {
            Uplink::Shared { process } => process.as_ref(),
            Uplink::Each(_) => None,
        }
    }

    pub fn stderr(&self) -> String {
        let text = self.process().map(Process::stderr).unwrap_or_default();
        self.options.secrets.mask(&text).into_owned()
    }

    /// The result of `initialize`, once available.
    pub fn server(&self) -> Option<Value> {
        let known = self.lock().server.as_deref().and_then(|text| serde_json::from_str(text).ok());
        known.or_else(|| self.twin()?.server())
    }

    pub fn failure(&self) -> Option<ServerError> {
        self.lock().failure.clone().map(|error| error.masked(&self.options.secrets))
    }

    pub fn is_busy(&self) -> bool {
        self.lock().pending.values().any(|pending| !pending.given_up) || self.twin().is_some_and(|twin| twin.is_busy())
    }

    pub fn notices(&self) -> Vec<Notice> {
        self.lock().notices.clone()
    }

    /// Whether each session has its own connection to the server, over HTTP.
    pub fn is_apart(&self) -> bool {
        matches!(self.uplink, Uplink::Each(_))
    }

    fn space(&self, session: u64) -> u64 {
        match self.uplink {
            Uplink::Shared { .. } => 0,
            Uplink::Each(_) => session,
        }
    }

    pub fn open(self: &Arc<Self>, kind: SessionKind) -> Port {
        let mut state = self.lock();
        state.counter += 1;
        let id = state.counter;
        let (outbox, received) = mpsc::unbounded_channel();
        let own = match &self.uplink {
            Uplink::Shared { .. } => None,
            Uplink::Each(serve) => {
                let (queue, queued) = mpsc::unbounded_channel();
                serve(self.clone(), id, queued);
                Some(queue)
            }
        };
        let (queued, ended) = (Arc::new(AtomicUsize::new(0)), self.over.child_token());
        let member = Member {
            kind,
            outbox,
            queued: queued.clone(),
            ended: ended.clone(),
            last_active: id,
            ready: false,
            greeted: false,
            own,
            away: false,
            there: None,
        };
        state.sessions.insert(id, member);
        Port { id, outbox: received, queued, ended, relay: self.clone() }
    }

    /// Asks a server that is reached by HTTP for the stream of its unsolicited messages.
    pub fn listen(&self, session: u64, envelope: Envelope) {
        send(&mut self.lock(), session, Bytes::new(), envelope);
    }

    /// Sends a notification with this method to every client: without params to clients that did a handshake, and with
    /// the id of their subscription to those that have subscribed.
    pub fn announce(&self, method: &str) {
        let mut guard = self.lock();
        let state = &mut *guard;
        let notification = |params: Option<Value>| {
            let mut notification = json!({"jsonrpc": "2.0", "method": method});
            if let Some(params) = params {
                notification["params"] = params;
            }
            Bytes::from(notification.to_string())
        };
        let greeted = state.sessions.iter().filter(|(_, member)| member.greeted);
        let mut messages: Vec<_> = greeted.map(|(session, _)| (*session, notification(None))).collect();
        for pending in state.pending.values().filter(|pending| pending.subscribes && !pending.given_up) {
            let id = message::decoded(&pending.id);
            messages.push((pending.session, notification(Some(json!({"_meta": {message::META_SUBSCRIPTION: id}})))));
        }
        for (session, bytes) in messages {
            self.deliver(state, session, bytes);
        }
    }

    pub fn end_all(&self) {
        let sessions: Vec<u64> = self.lock().sessions.keys().copied().collect();
        for session in sessions {
            self.end(session);
        }
    }

    /// Ends a session: cancels its requests, and answers the requests of the server that are still open with an error.
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
            send(state, space, message, Envelope::default());
        }
        state.tokens.retain(|_, token| token.session != session);
        if space != 0 {
            state.pending.retain(|(of, _), _| *of != space);
        }
        if let Some(member) = state.sessions.remove(&session) {
            member.ended.cancel();
        }
    }

    fn deliver(&self, state: &mut State, session: u64, bytes: Bytes) {
        let Some(member) = state.sessions.get(&session) else { return };
        self.tap(session, &member.kind, Direction::FromServer, &bytes);
        let queued = member.queued.fetch_add(bytes.len(), Ordering::Relaxed) + bytes.len();
        // A failed send means that the session is about to end.
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
                SessionKind::Client | SessionKind::Own => None,
            };
            tap(Traffic { server: &self.name, session, agent, direction, message });
        }
    }

    fn remark(&self, state: &mut State, sessions: impl IntoIterator<Item = u64>, text: &str) {
        let text = self.options.secrets.mask(text).into_owned();
        let notice = Notice { server: self.name.clone(), text, at: Timestamp::now() };
        for member in sessions.into_iter().filter_map(|session| state.sessions.get(&session)) {
            if let SessionKind::Agent(recorder) = &member.kind {
                recorder.notice(notice.clone());
            }
        }
        if state.notices.len() < NOTICES {
            state.notices.push(notice);
        }
    }

    /// The start of what a server sent, for a message. Masked before it is shortened: a truncated secret would not be
    /// found.
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

    /// Fails one request to an HTTP server.
    pub fn lost(&self, space: u64, key: &IdKey, error: ServerError) {
        let mut guard = self.lock();
        let state = &mut *guard;
        if let Some(pending) = state.pending.remove(&(space, key.clone())) {
            let greeting = pending.initialize;
            self.refuse(state, pending, &error);
            if greeting && state.server.is_none() && !state.dead {
                state.failure = Some(error);
            }
        }
    }

    fn refuse(&self, state: &mut State, pending: Pending, error: &ServerError) {
        if let Some(call) = pending.call {
            call.ended(match error {
                // The server is available, and has sent an answer.
                ServerError::HttpStatus { .. } | ServerError::TooLong { .. } => {
                    CallOutcome::ProtocolError { code: -32000, message: error.brief() }
                }
                _ => CallOutcome::Lost,
            });
        }
        if let Some(token) = pending.token {
            state.tokens.remove(&(self.space(pending.session), token));
        }
        let text = error.brief();
        let text = self.options.secrets.mask(&text);
        self.deliver(state, pending.session, message::lost(&pending.id, &text));
    }

    /// Marks the server as unusable: pending and later calls get this error.
    pub fn fail(&self, error: ServerError) {
        let mut guard = self.lock();
        let state = &mut *guard;
        if state.dead {
            return;
        }
        state.dead = true;
        self.dead.cancel();
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
fn send(state: &mut State, space: u64, message: Bytes, envelope: Envelope) {
    let queue = match space {
        0 => state.pipe.as_ref(),
        session => state.sessions.get(&session).and_then(|member| member.own.as_ref()),
    };
    if let Some(queue) = queue {
        // A failed send means that the connection is about to be declared dead.
        let _ = queue.send(Outgoing { message, envelope });
    }
}
