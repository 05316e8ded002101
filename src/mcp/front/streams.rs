//! One session of a front, and the streams on which its client can be reached. Messages on a stream of a client that
//! keeps a session have an id, and are kept for a while: a client whose connection broke requests what followed the
//! last id it received.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::mpsc;
use tokio_util::bytes::Bytes;

use crate::mcp::{
    message::{self, IdKey, Message, Shape},
    relay::Port,
};

/// Bytes that are kept for a client that reconnects; the newest message is kept regardless of its size.
const KEPT: usize = 4 << 20;
/// The stream of a GET, for messages that belong to no request.
const UNASKED: u64 = 0;

pub(super) type Receiver = mpsc::UnboundedReceiver<Outgoing>;

/// A session and the streams on which its client can be reached.
#[derive(Debug)]
pub(super) struct Conversation {
    pub session: u64,
    /// Whether the client knows the session, and so can reconnect.
    lasting: bool,
    routes: Mutex<Routes>,
}

/// A message on its way to a client.
#[derive(Debug)]
pub(super) struct Outgoing {
    /// Set on a resumable stream.
    pub id: Option<EventId>,
    pub bytes: Bytes,
    /// The answer to the last request of its POST, on a stream that has not started: a client may get it as plain JSON.
    pub plain: bool,
}

/// The position of a message: its stream and its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EventId {
    stream: u64,
    number: u64,
}

impl fmt::Display for EventId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.stream, self.number)
    }
}

impl EventId {
    pub fn parse(text: &str) -> Option<Self> {
        let (stream, number) = text.split_once('-')?;
        Some(EventId { stream: stream.parse().ok()?, number: number.parse().ok()? })
    }
}

#[derive(Debug, Default)]
struct Routes {
    /// Requests being answered, oldest first.
    posts: Vec<Post>,
    /// The stream of a GET, and the number of the last message that was sent on it.
    unasked: Option<mpsc::UnboundedSender<Outgoing>>,
    taken: u64,
    /// Counts streams and messages.
    counter: u64,
    kept: VecDeque<(EventId, Bytes)>,
    kept_size: usize,
}

/// The requests of one POST.
#[derive(Debug)]
struct Post {
    stream: u64,
    /// Empty once all requests are answered; then the stream ends.
    waiting: Vec<IdKey>,
    tokens: Vec<IdKey>,
    /// Whether the client reads streams.
    streaming: bool,
    /// Whether something other than the answer has been sent.
    begun: bool,
    sender: mpsc::UnboundedSender<Outgoing>,
}

impl Conversation {
    pub fn new(session: u64, lasting: bool) -> Arc<Self> {
        Arc::new(Conversation { session, lasting, routes: Mutex::default() })
    }

    fn routes(&self) -> MutexGuard<'_, Routes> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Routes the messages of the session to the streams they belong to.
    pub async fn dispatch(self: Arc<Self>, mut port: Port) {
        let ended = port.ended.clone();
        loop {
            let message = tokio::select! {
                biased;
                message = port.next() => message,
                () = ended.cancelled() => None,
            };
            let Some(message) = message else { break };
            self.routes().send(message, self.lasting);
        }
        *self.routes() = Routes::default();
    }

    /// Registers a POST with these requests and progress tokens; returns the number of its stream, and the receiver of
    /// its messages.
    pub fn post(&self, waiting: Vec<IdKey>, tokens: Vec<IdKey>, streaming: bool) -> (u64, Receiver) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut routes = self.routes();
        let stream = routes.count();
        routes.posts.push(Post { stream, waiting, tokens, streaming, begun: false, sender });
        (stream, receiver)
    }

    /// From now on everything on this stream is an event. Returns the id of the first event, if the client can
    /// reconnect; `None` if the answer is already on its way.
    pub fn begin(&self, stream: u64) -> Option<EventId> {
        let mut routes = self.routes();
        routes.posts.iter_mut().find(|post| post.stream == stream)?.begun = true;
        let number = routes.count();
        self.lasting.then_some(EventId { stream, number })
    }

    /// The stream of messages that belong to no request; a second one replaces the first, which the client has probably
    /// lost.
    pub fn unasked(&self) -> Receiver {
        let mut routes = self.routes();
        let number = routes.taken;
        routes.resume(EventId { stream: UNASKED, number })
    }

    /// The messages on a stream after the given one, past and future.
    pub fn resume(&self, last: EventId) -> Receiver {
        self.routes().resume(last)
    }
}

impl Routes {
    fn count(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    fn resume(&mut self, last: EventId) -> Receiver {
        let (sender, receiver) = mpsc::unbounded_channel();
        for (id, bytes) in &self.kept {
            if id.stream == last.stream && id.number > last.number {
                // Cannot fail: the receiver is still in scope.
                let _ = sender.send(Outgoing { id: Some(*id), bytes: bytes.clone(), plain: false });
                if id.stream == UNASKED {
                    self.taken = id.number;
                }
            }
        }
        if last.stream == UNASKED {
            self.unasked = Some(sender);
        } else if let Some(post) = self.posts.iter_mut().find(|post| post.stream == last.stream) {
            post.sender = sender;
        }
        receiver
    }

    fn keep(&mut self, stream: u64, bytes: &Bytes) -> EventId {
        let id = EventId { stream, number: self.count() };
        self.kept_size += bytes.len();
        self.kept.push_back((id, bytes.clone()));
        while self.kept_size > KEPT && self.kept.len() > 1 {
            if let Some((_, oldest)) = self.kept.pop_front() {
                self.kept_size -= oldest.len();
            }
        }
        id
    }

    fn send(&mut self, bytes: Bytes, lasting: bool) {
        let Some(message) = Message::parse(bytes.clone()) else { return };
        if message.shape() == Shape::Response {
            let Some(key) = message.key() else { return };
            let Some(at) = self.posts.iter().position(|post| post.waiting.contains(&key)) else { return };
            self.posts[at].waiting.retain(|waiting| *waiting != key);
            self.send_to(at, bytes, lasting);
            if self.posts[at].waiting.is_empty() {
                self.posts.remove(at);
            }
            return;
        }
        // Sent with the answer it belongs to, if that is known; otherwise on a stream that the client is reading.
        let token = match message.method.as_deref() {
            Some("notifications/progress") => message.param("progressToken").map(IdKey::of),
            _ => None,
        };
        let subscription = message.meta(message::META_SUBSCRIPTION).map(IdKey::of);
        let open = |post: &Post| post.streaming && !post.sender.is_closed();
        let owns = |post: &Post| {
            token.as_ref().is_some_and(|token| post.tokens.contains(token))
                || subscription.as_ref().is_some_and(|id| post.waiting.contains(id))
        };
        let at = self
            .posts
            .iter()
            .position(|post| owns(post) && (open(post) || post.begun && lasting))
            .or_else(|| self.posts.iter().rposition(open));
        if let Some(at) = at {
            return self.send_to(at, bytes, lasting);
        }
        let id = self.keep(UNASKED, &bytes);
        let outgoing = Outgoing { id: Some(id), bytes, plain: false };
        if self.unasked.as_ref().is_some_and(|unasked| unasked.send(outgoing).is_ok()) {
            self.taken = id.number;
        }
    }

    fn send_to(&mut self, at: usize, bytes: Bytes, lasting: bool) {
        let (stream, streaming) = (self.posts[at].stream, self.posts[at].streaming);
        let plain = !streaming || !self.posts[at].begun && self.posts[at].waiting.is_empty();
        let id = (lasting && !plain).then(|| self.keep(stream, &bytes));
        let post = &mut self.posts[at];
        post.begun |= !plain;
        // A client that has left may reconnect for it.
        let _ = post.sender.send(Outgoing { id, bytes, plain });
    }
}
