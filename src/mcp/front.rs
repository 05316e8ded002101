//! The hub as a streamable HTTP server for agents.

mod stateless;
mod streams;

use std::{
    collections::HashMap,
    convert::Infallible,
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    extract::{DefaultBodyLimit, Request, State, rejection::BytesRejection},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::post,
};
use futures_util::StreamExt;
use tokio::sync::mpsc;
use tokio_util::{bytes::Bytes, sync::CancellationToken};

use self::streams::{Conversation, EventId, Outgoing, Receiver};
use super::{
    http::{LAST_EVENT_ID, PROTOCOL_VERSION, SESSION_ID},
    message::{self, IdKey, Message, Shape},
    relay::{Aside, Envelope, Receipt, Relay, SessionKind},
    sse,
};
use crate::host::{Capability, is_same, listen};

/// How long a stream is silent before a comment is sent to keep it open.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How long a client that reads streams waits for a plain answer: it can come back for an answer that takes longer.
const PATIENCE: Duration = Duration::from_secs(5);
/// When a client should reconnect, unless the server specifies it.
const RETRY: Duration = Duration::from_secs(1);

/// A streamable HTTP server on 127.0.0.1. Dropping it ends its sessions.
#[derive(Debug)]
pub struct HttpFront {
    /// `http://127.0.0.1:PORT/CAPABILITY/mcp`; without the capability if every local client is allowed.
    pub url: String,
    /// Restricts the clients to those that were given the URL.
    pub capability: Option<Capability>,
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
    /// The only path that exists.
    path: String,
    /// Keyed by `Mcp-Session-Id`.
    sessions: Mutex<HashMap<String, Arc<Conversation>>>,
    over: CancellationToken,
}

pub(super) async fn serve(relay: Arc<Relay>, kind: SessionKind) -> io::Result<HttpFront> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    start(relay, kind, address, Some(Capability::new()?)).await
}

pub(super) async fn serve_at(relay: Arc<Relay>, kind: SessionKind, address: SocketAddr) -> io::Result<HttpFront> {
    start(relay, kind, address, None).await
}

async fn start(
    relay: Arc<Relay>,
    kind: SessionKind,
    address: SocketAddr,
    capability: Option<Capability>,
) -> io::Result<HttpFront> {
    let (listener, address) = listen::at(address).await?;
    let port = address.port();
    let over = relay.over.child_token();
    let limit = relay.options.max_message;
    let path = capability.as_ref().map_or_else(|| "/mcp".to_owned(), Capability::path);
    let url = format!("http://{address}{path}");
    let front = Arc::new(Front { relay, kind, port, path, sessions: Mutex::default(), over: over.clone() });
    let router = Router::new()
        .fallback(post(on_post).get(on_get).delete(on_delete))
        .layer(DefaultBodyLimit::max(limit))
        .layer(middleware::from_fn_with_state(front.clone(), known))
        .with_state(front.clone());
    let ended = over.clone();
    tokio::spawn(async move {
        // Only `accept` can fail, and axum retries it.
        let _ = axum::serve(listener, router).with_graceful_shutdown(ended.cancelled_owned()).await;
    });
    let ended = front.clone();
    tokio::spawn(async move {
        over.cancelled().await;
        ended.close();
    });
    Ok(HttpFront { url, capability, front })
}

/// Answers 404 to clients that do not know the path, without reading anything they send.
async fn known(State(front): State<Arc<Front>>, request: Request, next: Next) -> Response {
    match is_same(request.uri().path(), &front.path) {
        true => next.run(request).await,
        false => StatusCode::NOT_FOUND.into_response(),
    }
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

    /// `lasting`: the client is given the session id.
    fn converse(&self, lasting: bool) -> Arc<Conversation> {
        let port = self.relay.open(self.kind.clone());
        let conversation = Conversation::new(port.id, lasting);
        tokio::spawn(conversation.clone().dispatch(port));
        if self.over.is_cancelled() {
            self.relay.end(conversation.session);
        }
        conversation
    }

    /// Guards against DNS rebinding: a web page may have resolved its own name to 127.0.0.1.
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
    // A server that is reached by HTTP checks this itself.
    let stateless = !front.relay.is_apart() && messages.iter().any(|message| stateless::is_stateless(headers, message));
    if stateless {
        for message in &messages {
            if let Some((code, why)) = stateless::fault(headers, message, |tool| front.relay.repeated(tool)) {
                let body = message::refusal(message.id().unwrap_or("null"), code, &why);
                return Err(Box::new(json_answer(StatusCode::BAD_REQUEST, body)));
            }
        }
    }
    let greets = |message: &Message| message.method.as_deref() == Some("initialize");
    let initialize = !stateless && messages.iter().any(greets);
    let mut issued = None;
    let mut passing = None;
    let conversation = if initialize && !headers.contains_key(SESSION_ID) {
        let id = Capability::new().map_err(|_| refused(StatusCode::INTERNAL_SERVER_ERROR, "there is no randomness"))?;
        let id = id.as_str().to_owned();
        let conversation = front.converse(true);
        front.sessions().insert(id.clone(), conversation.clone());
        issued = HeaderValue::try_from(id).ok();
        conversation
    } else if !headers.contains_key(SESSION_ID) && (front.relay.is_apart() || stateless) {
        // A server that is reached by HTTP decides itself what to do with a request without a session.
        let conversation = front.converse(false);
        passing = Some(EndLater { relay: front.relay.clone(), session: conversation.session });
        conversation
    } else {
        front.find(headers)?
    };

    let requests: Vec<IdKey> =
        messages.iter().filter(|message| message.shape() == Shape::Request).filter_map(Message::key).collect();
    let accepted = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("*/*");
    let streaming = accepted.contains("text/event-stream") || accepted.contains("*/*");
    let tokens = messages.iter().filter_map(|message| message.meta("progressToken").map(IdKey::of)).collect();
    let (stream, answers) = match requests.len() {
        0 => (0, mpsc::unbounded_channel().1),
        _ => conversation.post(requests.clone(), tokens, streaming),
    };
    let (mut envelope, mut asides) = (Envelope::default(), None);
    if front.relay.is_apart() && messages.len() == 1 {
        let (aside, heard) = mpsc::unbounded_channel();
        envelope = Envelope { headers: Some(of_mcp(headers)), aside: Some(aside), ..envelope };
        asides = Some(heard);
    }
    let said = matches!(front.kind, SessionKind::Agent(_)).then(|| Arc::new(headers.clone()));
    for message in messages {
        let envelope = Envelope { said: said.clone(), ..std::mem::take(&mut envelope) };
        front.relay.from_session(conversation.session, message.bytes, envelope).await;
    }
    let mut response = if requests.is_empty() {
        let told = head(&mut asides).await;
        drop(passing);
        told.map_or_else(|| StatusCode::ACCEPTED.into_response(), |told| mirrored(StatusCode::OK.into_response(), told))
    } else if streaming {
        let json = accepted.contains("application/json") || accepted.contains("*/*");
        let wire = Wire {
            conversation: conversation.clone(),
            stream,
            answers,
            asides,
            passing,
            primed: is_primed(headers),
            stateless,
        };
        streamed(wire, json).await
    } else {
        let response = json_answers(answers, requests.len(), stateless).await;
        drop(passing);
        // The head of the server's answer arrives before the answer.
        match asides.and_then(|mut asides| asides.try_recv().ok()) {
            Some(Aside::Head(told)) => mirrored(response, told),
            _ => response,
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

/// The headers to pass to the server as the client sent them. The session belongs to the front.
fn of_mcp(headers: &HeaderMap) -> HeaderMap {
    let kept = headers.iter().filter(|(name, _)| name.as_str().starts_with("mcp-") && **name != SESSION_ID);
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Gives a response the server's status and headers, and its body if the body is not the answer.
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

async fn on_get(State(front): State<Arc<Front>>, headers: HeaderMap) -> Response {
    if !front.is_local(&headers) {
        return *refused(StatusCode::FORBIDDEN, "only local clients are served");
    }
    if !headers.contains_key(SESSION_ID) && stateless::declares(&headers) {
        return only_posts();
    }
    let conversation = match front.find(&headers) {
        Ok(conversation) => conversation,
        Err(refusal) => return *refusal,
    };
    let last = headers.get(LAST_EVENT_ID).map(|id| id.to_str().ok().and_then(EventId::parse));
    let answers = match last {
        Some(Some(last)) => conversation.resume(last),
        Some(None) => return *refused(StatusCode::BAD_REQUEST, "the header Last-Event-ID is no id of this server"),
        None => {
            // A server that is reached by HTTP decides itself whether it offers such a stream.
            if front.relay.is_apart() {
                let (aside, heard) = mpsc::unbounded_channel();
                front.relay.listen(conversation.session, Envelope { aside: Some(aside), ..Envelope::default() });
                match head(&mut Some(heard)).await {
                    Some(told) if !told.status.is_success() => return mirrored(StatusCode::OK.into_response(), told),
                    _ => {}
                }
            }
            conversation.unasked()
        }
    };
    event_stream(None, answers, None, None)
}

async fn on_delete(State(front): State<Arc<Front>>, headers: HeaderMap) -> Response {
    if !front.is_local(&headers) {
        return *refused(StatusCode::FORBIDDEN, "only local clients are served");
    }
    if !headers.contains_key(SESSION_ID) && stateless::declares(&headers) {
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

/// Without sessions only POST is allowed (2026-07-28).
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

/// The head of the server's answer, as soon as it is known.
async fn head(asides: &mut Option<mpsc::UnboundedReceiver<Aside>>) -> Option<Receipt> {
    while let Some(aside) = asides.as_mut()?.recv().await {
        if let Aside::Head(told) = aside {
            return Some(told);
        }
    }
    None
}

/// Whether the client expects a stream to start with an event that contains only an id (2025-11-25; later revisions
/// have no resumable streams).
fn is_primed(headers: &HeaderMap) -> bool {
    let version = headers.get(PROTOCOL_VERSION).and_then(|value| value.to_str().ok());
    version.is_some_and(|version| ("2025-11-25".."2026").contains(&version))
}

/// How the answer to a POST arrives.
struct Wire {
    conversation: Arc<Conversation>,
    stream: u64,
    answers: Receiver,
    asides: Option<mpsc::UnboundedReceiver<Aside>>,
    passing: Option<EndLater>,
    primed: bool,
    stateless: bool,
}

/// The answer to a POST whose client reads streams: one JSON document if the answer is the first message to arrive, as
/// with most servers; otherwise a stream.
async fn streamed(mut wire: Wire, json: bool) -> Response {
    let mut told = None;
    let patience = tokio::time::sleep(PATIENCE);
    tokio::pin!(patience);
    let (first, retry) = loop {
        tokio::select! {
            biased;
            Some(aside) = heard(&mut wire.asides) => match aside {
                Aside::Head(head) => told = Some(head),
                Aside::Begun { retry } if wire.primed => break (None, retry.unwrap_or(RETRY)),
                Aside::Begun { .. } | Aside::Paused => {}
            },
            message = wire.answers.recv() => break (message, RETRY),
            // A client that receives nothing at all may give up.
            () = &mut patience => break (None, RETRY),
        }
    };
    let response = match first {
        Some(answer) if answer.plain && json => {
            drop(wire.passing);
            json_answer(status(wire.stateless, &answer.bytes), answer.bytes)
        }
        first => {
            let beginning = match first {
                None => wire.conversation.begin(wire.stream).filter(|_| wire.primed),
                Some(_) => None,
            };
            let beginning = beginning.map(|id| sse::beginning(&id, retry));
            let beginning = beginning.or_else(|| first.map(|message| event(&message)));
            // The stream stays open for a client that cannot reconnect.
            let asides = wire.asides.filter(|_| wire.primed);
            event_stream(beginning, wire.answers, asides, wire.passing)
        }
    };
    match told {
        Some(told) => mirrored(response, told),
        None => response,
    }
}

async fn heard(asides: &mut Option<mpsc::UnboundedReceiver<Aside>>) -> Option<Aside> {
    asides.as_mut()?.recv().await
}

fn event(message: &Outgoing) -> Bytes {
    sse::event(message.id.as_ref().map(|id| id as _), &message.bytes)
}

/// A stream of events; it ends with the last answer, or when the server pauses it.
fn event_stream(
    first: Option<Bytes>,
    answers: Receiver,
    asides: Option<mpsc::UnboundedReceiver<Aside>>,
    passing: Option<EndLater>,
) -> Response {
    let first = futures_util::stream::iter(first.map(Ok::<_, Infallible>));
    let events =
        futures_util::stream::unfold((answers, asides, passing), |(mut answers, mut asides, passing)| async move {
            loop {
                let chunk = tokio::select! {
                    biased;
                    message = answers.recv() => event(&message?),
                    Some(aside) = heard(&mut asides) => match aside {
                        Aside::Paused => return None,
                        Aside::Head(_) | Aside::Begun { .. } => continue,
                    },
                    () = tokio::time::sleep(KEEP_ALIVE) => Bytes::from_static(b":\n\n"),
                };
                return Some((Ok::<_, Infallible>(chunk), (answers, asides, passing)));
            }
        });
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")];
    (headers, Body::from_stream(first.chain(events))).into_response()
}

/// For a client that cannot read streams: only the answers, as one JSON document.
async fn json_answers(mut receiver: Receiver, requests: usize, stateless: bool) -> Response {
    let mut answers = Vec::new();
    while let Some(answer) = receiver.recv().await {
        answers.push(answer.bytes);
    }
    let body = match answers.len() {
        0 => return *refused(StatusCode::NOT_FOUND, "the session has ended"),
        1 if requests == 1 => answers.remove(0),
        _ => [&b"["[..], &answers.join(&b","[..]), &b"]"[..]].concat().into(),
    };
    json_answer(status(stateless, &body), body)
}

fn status(stateless: bool, answer: &[u8]) -> StatusCode {
    if stateless { stateless::status(answer) } else { StatusCode::OK }
}

fn json_answer(status: StatusCode, body: Bytes) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], Body::from(body)).into_response()
}
