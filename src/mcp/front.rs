//! The hub as a streamable HTTP server for agents.

use std::{
    collections::{HashMap, VecDeque},
    convert::Infallible,
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    extract::{DefaultBodyLimit, State, rejection::BytesRejection},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    routing::post,
};
use futures_util::StreamExt;
use tokio::sync::{mpsc, oneshot};
use tokio_util::{bytes::Bytes, sync::CancellationToken};

use super::{
    http::{PROTOCOL_VERSION, SESSION_ID},
    message::{self, IdKey, Message, Shape},
    relay::{Envelope, Port, Receipt, Relay, SessionKind},
    sse::event,
};
use crate::host::listen;

/// Bytes that wait for an agent which has no stream open.
const BACKLOG: usize = 1 << 20;
/// Silence on a stream, before a comment is sent to keep it open.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A streamable HTTP server on 127.0.0.1. Dropping it ends its sessions.
#[derive(Debug)]
pub struct HttpFront {
    /// `http://127.0.0.1:PORT/mcp`
    pub url: String,
    front: Arc<Front>,
}

impl Drop for HttpFront {
    fn drop(&mut self) {
        self.front.close();
    }
}

#[derive(Debug)]
struct Front {
    relay: Arc<Relay>,
    kind: SessionKind,
    port: u16,
    /// By `Mcp-Session-Id`.
    sessions: Mutex<HashMap<String, Arc<Conversation>>>,
    over: CancellationToken,
}

pub(super) async fn serve(relay: Arc<Relay>, kind: SessionKind) -> io::Result<HttpFront> {
    serve_at(relay, kind, SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await
}

pub(super) async fn serve_at(relay: Arc<Relay>, kind: SessionKind, address: SocketAddr) -> io::Result<HttpFront> {
    let (listener, address) = listen::at(address).await?;
    let port = address.port();
    let over = relay.over.child_token();
    let limit = relay.options.max_message;
    let front = Arc::new(Front { relay, kind, port, sessions: Mutex::default(), over: over.clone() });
    let router = Router::new()
        .route("/mcp", post(on_post).get(on_get).delete(on_delete))
        .layer(DefaultBodyLimit::max(limit))
        .with_state(front.clone());
    let ended = over.clone();
    tokio::spawn(async move {
        // The only error is one of `accept`, and axum retries those.
        let _ = axum::serve(listener, router).with_graceful_shutdown(ended.cancelled_owned()).await;
    });
    let ended = front.clone();
    tokio::spawn(async move {
        over.cancelled().await;
        ended.close();
    });
    Ok(HttpFront { url: format!("http://{address}/mcp"), front })
}

impl Front {
    fn sessions(&self) -> MutexGuard<'_, HashMap<String, Arc<Conversation>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        self.over.cancel();
        for (_, conversation) in self.sessions().drain() {
            self.relay.end(conversation.session);
        }
    }

    fn close_one(&self, conversation: &Conversation) {
        self.sessions().retain(|_, other| other.session != conversation.session);
        self.relay.end(conversation.session);
    }

    fn converse(&self) -> Arc<Conversation> {
        let port = self.relay.open(self.kind.clone());
        let conversation = Arc::new(Conversation { session: port.id, routes: Mutex::default() });
        tokio::spawn(conversation.clone().dispatch(port));
        if self.over.is_cancelled() {
            self.relay.end(conversation.session);
        }
        conversation
    }

    /// A page in a browser may have resolved its own name to 127.0.0.1.
    fn is_local(&self, headers: &HeaderMap) -> bool {
        let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
        let ours = |authority: &str| {
            let (host, port) = authority.rsplit_once(':').unwrap_or((authority, "80"));
            matches!(host, "127.0.0.1" | "localhost" | "[::1]") && port.parse() == Ok(self.port)
        };
        let local_origin = |origin: &str| {
            let Some(authority) = origin.strip_prefix("http://").or(origin.strip_prefix("https://")) else {
                return false;
            };
            let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
            matches!(host, "127.0.0.1" | "localhost")
        };
        text(header::HOST).is_some_and(ours) && text(header::ORIGIN).is_none_or(local_origin)
    }

    fn find(&self, headers: &HeaderMap) -> Result<Arc<Conversation>, Box<Response>> {
        let Some(id) = headers.get(SESSION_ID) else {
            return Err(refused(StatusCode::BAD_REQUEST, "the header Mcp-Session-Id is missing"));
        };
        let found = id.to_str().ok().and_then(|id| self.sessions().get(id).cloned());
        found.ok_or_else(|| refused(StatusCode::NOT_FOUND, "there is no such session"))
    }
}

fn refused(status: StatusCode, text: &str) -> Box<Response> {
    let body = message::refusal("null", -32000, text);
    Box::new((status, [(header::CONTENT_TYPE, "application/json")], Body::from(body)).into_response())
}

async fn on_post(State(front): State<Arc<Front>>, headers: HeaderMap, body: Result<Bytes, BytesRejection>) -> Response {
    let body = match body {
        Ok(body) => body,
        Err(rejection) => return *refused(rejection.status(), &rejection.body_text()),
    };
    take_post(&front, &headers, body).await.unwrap_or_else(|refusal| *refusal)
}

async fn take_post(front: &Front, headers: &HeaderMap, body: Bytes) -> Result<Response, Box<Response>> {
    if !front.is_local(headers) {
        return Err(refused(StatusCode::FORBIDDEN, "only local clients are served"));
    }
    let mut messages = Vec::new();
    for part in message::unbatch(body) {
        messages.push(Message::parse(part).ok_or_else(unreadable)?);
    }
    let initialize = messages.iter().any(|message| message.method.as_deref() == Some("initialize"));
    let mut issued = None;
    let mut passing = None;
    let conversation = if initialize && !headers.contains_key(SESSION_ID) {
        let id = format!("{:032x}", fastrand::u128(..));
        let conversation = front.converse();
        front.sessions().insert(id.clone(), conversation.clone());
        issued = HeaderValue::try_from(id).ok();
        conversation
    } else if !headers.contains_key(SESSION_ID) && (front.relay.is_apart() || is_sessionless(headers)) {
        // A server that is reached by HTTP says itself what it thinks of a request without a session.
        let conversation = front.converse();
        passing = Some(EndLater { relay: front.relay.clone(), session: conversation.session });
        conversation
    } else {
        front.find(headers)?
    };

    let requests: Vec<IdKey> =
        messages.iter().filter(|message| message.shape() == Shape::Request).filter_map(Message::key).collect();
    let accepted = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("*/*");
    let streaming = accepted.contains("text/event-stream") || accepted.contains("*/*");
    let (sender, receiver) = mpsc::unbounded_channel();
    if !requests.is_empty() {
        let tokens = messages.iter().filter_map(|message| message.meta("progressToken").map(IdKey::of)).collect();
        conversation.routes().posts.push(Post { waiting: requests.clone(), tokens, streaming, sender });
    }
    let (mut envelope, mut receipt) = (Envelope::default(), None);
    if front.relay.is_apart() && messages.len() == 1 {
        let (asker, told) = oneshot::channel();
        envelope.headers = Some(of_mcp(headers));
        envelope.receipt = Some(asker);
        receipt = Some(told);
    }
    for message in messages {
        front.relay.from_session(conversation.session, message.bytes, std::mem::take(&mut envelope)).await;
    }
    let mut response = if requests.is_empty() {
        let told = match receipt {
            Some(receipt) => receipt.await.ok(),
            None => None,
        };
        drop(passing);
        told.map_or_else(|| StatusCode::ACCEPTED.into_response(), |told| mirrored(StatusCode::OK.into_response(), told))
    } else {
        let response = if streaming {
            streamed(receiver, passing, accepted).await
        } else {
            let response = json_answers(receiver, requests.len()).await;
            drop(passing);
            response
        };
        // What the server said of its answer precedes it.
        match receipt.and_then(|mut receipt| receipt.try_recv().ok()) {
            Some(told) => mirrored(response, told),
            None => response,
        }
    };
    if let Some(id) = issued {
        if response.status().is_success() {
            response.headers_mut().insert(SESSION_ID, id);
        } else {
            front.close_one(&conversation);
        }
    }
    Ok(response)
}

/// The headers that a server is to see as the client sent them. The session is the front's own.
fn of_mcp(headers: &HeaderMap) -> HeaderMap {
    let kept = headers.iter().filter(|(name, _)| name.as_str().starts_with("mcp-") && **name != SESSION_ID);
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The response as the server gave it: its status and headers, and its body where that is not the answer.
fn mirrored(mut response: Response, told: Receipt) -> Response {
    let Receipt { status, mut headers, body } = told;
    *response.status_mut() = status;
    match body {
        Some(body) => *response.body_mut() = Body::from(body),
        None => drop(headers.remove(header::CONTENT_TYPE)),
    }
    response.headers_mut().extend(headers);
    response
}

fn unreadable() -> Box<Response> {
    let body = message::refusal("null", -32700, "not a JSON-RPC message");
    Box::new((StatusCode::BAD_REQUEST, [(header::CONTENT_TYPE, "application/json")], Body::from(body)).into_response())
}

/// Since 2026-07-28 a request may come without a handshake and a session.
fn is_sessionless(headers: &HeaderMap) -> bool {
    headers.get(PROTOCOL_VERSION).and_then(|value| value.to_str().ok()).is_some_and(|version| version >= "2026")
}

async fn on_get(State(front): State<Arc<Front>>, headers: HeaderMap) -> Response {
    if !front.is_local(&headers) {
        return *refused(StatusCode::FORBIDDEN, "only local clients are served");
    }
    if !headers.contains_key(SESSION_ID) && is_sessionless(&headers) {
        return only_posts();
    }
    let conversation = match front.find(&headers) {
        Ok(conversation) => conversation,
        Err(refusal) => return *refusal,
    };
    let (sender, receiver) = mpsc::unbounded_channel();
    let mut routes = conversation.routes();
    for message in routes.backlog.drain(..) {
        // The receiver is right here.
        let _ = sender.send(Outgoing { bytes: message, last: false });
    }
    routes.backlog_size = 0;
    // A second stream takes over from the first, which its client has probably lost.
    routes.unasked = Some(sender);
    drop(routes);
    event_stream(None, receiver, None)
}

async fn on_delete(State(front): State<Arc<Front>>, headers: HeaderMap) -> Response {
    if !front.is_local(&headers) {
        return *refused(StatusCode::FORBIDDEN, "only local clients are served");
    }
    if !headers.contains_key(SESSION_ID) && is_sessionless(&headers) {
        return only_posts();
    }
    match front.find(&headers) {
        Ok(conversation) => {
            front.close_one(&conversation);
            StatusCode::OK.into_response()
        }
        Err(refusal) => *refusal,
    }
}

/// Without sessions there are no other methods (2026-07-28).
fn only_posts() -> Response {
    let mut response = *refused(StatusCode::METHOD_NOT_ALLOWED, "only POST is served without a session");
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
    response
}

/// Ends a session that served one request.
struct EndLater {
    relay: Arc<Relay>,
    session: u64,
}

impl Drop for EndLater {
    fn drop(&mut self) {
        self.relay.end(self.session);
    }
}

/// A message on its way to a client.
#[derive(Debug)]
struct Outgoing {
    bytes: Bytes,
    /// The answer to the last request of its POST: nothing follows it.
    last: bool,
}

/// The answer to a POST whose client reads streams: one JSON document where the answer is the first thing that comes, as
/// most servers have it, else a stream.
async fn streamed(
    mut receiver: mpsc::UnboundedReceiver<Outgoing>,
    passing: Option<EndLater>,
    accepted: &str,
) -> Response {
    let json = accepted.contains("application/json") || accepted.contains("*/*");
    // A client that hears nothing at all may give up.
    let first = tokio::time::timeout(KEEP_ALIVE, receiver.recv()).await.ok().flatten();
    match first {
        Some(answer) if answer.last && json => json_answer(answer.bytes),
        first => event_stream(first, receiver, passing),
    }
}

fn event_stream(
    first: Option<Outgoing>,
    receiver: mpsc::UnboundedReceiver<Outgoing>,
    passing: Option<EndLater>,
) -> Response {
    let first = futures_util::stream::iter(first.map(|message| Ok::<_, Infallible>(event(&message.bytes))));
    let events = futures_util::stream::unfold((receiver, passing), |(mut receiver, passing)| async move {
        let chunk = match tokio::time::timeout(KEEP_ALIVE, receiver.recv()).await {
            Ok(Some(message)) => event(&message.bytes),
            Ok(None) => return None,
            Err(_) => Bytes::from_static(b":\n\n"),
        };
        Some((Ok::<_, Infallible>(chunk), (receiver, passing)))
    });
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")];
    (headers, Body::from_stream(first.chain(events))).into_response()
}

/// For a client that cannot read streams: the answers alone, as one JSON document.
async fn json_answers(mut receiver: mpsc::UnboundedReceiver<Outgoing>, requests: usize) -> Response {
    let mut answers = Vec::new();
    while let Some(answer) = receiver.recv().await {
        answers.push(answer.bytes);
    }
    let body = match answers.len() {
        0 => return *refused(StatusCode::NOT_FOUND, "the session has ended"),
        1 if requests == 1 => answers.remove(0),
        _ => [&b"["[..], &answers.join(&b","[..]), &b"]"[..]].concat().into(),
    };
    json_answer(body)
}

fn json_answer(body: Bytes) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], Body::from(body)).into_response()
}

/// One session and the streams on which it can be reached.
#[derive(Debug)]
struct Conversation {
    session: u64,
    routes: Mutex<Routes>,
}

#[derive(Debug, Default)]
struct Routes {
    /// Requests being answered, oldest first.
    posts: Vec<Post>,
    /// The stream of a GET.
    unasked: Option<mpsc::UnboundedSender<Outgoing>>,
    backlog: VecDeque<Bytes>,
    backlog_size: usize,
}

#[derive(Debug)]
struct Post {
    /// Empty once all is answered; the stream ends then.
    waiting: Vec<IdKey>,
    tokens: Vec<IdKey>,
    streaming: bool,
    sender: mpsc::UnboundedSender<Outgoing>,
}

impl Conversation {
    fn routes(&self) -> MutexGuard<'_, Routes> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn dispatch(self: Arc<Self>, mut port: Port) {
        let ended = port.ended.clone();
        loop {
            let message = tokio::select! {
                biased;
                message = port.next() => message,
                () = ended.cancelled() => None,
            };
            let Some(message) = message else { break };
            self.routes().send(message);
        }
        *self.routes() = Routes::default();
    }
}

impl Routes {
    fn send(&mut self, bytes: Bytes) {
        let Some(message) = Message::parse(bytes.clone()) else { return };
        if message.shape() == Shape::Response {
            let Some(key) = message.key() else { return };
            if let Some(at) = self.posts.iter().position(|post| post.waiting.contains(&key)) {
                let post = &mut self.posts[at];
                post.waiting.retain(|waiting| *waiting != key);
                // A client that has left does not get its answer.
                let _ = post.sender.send(Outgoing { bytes, last: post.waiting.is_empty() });
                if post.waiting.is_empty() {
                    self.posts.remove(at);
                }
            }
            return;
        }
        // Beside the answer that it belongs to, if that can be told; else where the client reads right now.
        let token = match message.method.as_deref() {
            Some("notifications/progress") => message.param("progressToken").map(IdKey::of),
            _ => None,
        };
        let open = |post: &&Post| post.streaming && !post.sender.is_closed();
        let post = self
            .posts
            .iter()
            .filter(open)
            .find(|post| token.as_ref().is_some_and(|token| post.tokens.contains(token)))
            .or_else(|| self.posts.iter().rev().find(open));
        let outgoing = || Outgoing { bytes: bytes.clone(), last: false };
        if post.is_some_and(|post| post.sender.send(outgoing()).is_ok())
            || self.unasked.as_ref().is_some_and(|unasked| unasked.send(outgoing()).is_ok())
        {
            return;
        }
        self.backlog_size += bytes.len();
        self.backlog.push_back(bytes);
        while self.backlog_size > BACKLOG {
            match self.backlog.pop_front() {
                Some(oldest) => self.backlog_size -= oldest.len(),
                None => break,
            }
        }
    }
}
