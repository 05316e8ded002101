//! The hub's connection to a streamable HTTP server: one HTTP session for each session of the hub, messages unchanged.

use std::{
    error::Error,
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use indexmap::IndexMap;
use reqwest::{
    RequestBuilder, Response, StatusCode, Url,
    header::{ACCEPT, ALLOW, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE},
    redirect::Policy,
};
use tokio::{sync::mpsc, task::JoinSet};
use tokio_util::{bytes::Bytes, task::TaskTracker};

use super::{
    ServerError,
    message::{IdKey, META_VERSION, Message, Shape, members, unbatch},
    relay::{Aside, Envelope, Outgoing, Receipt, Relay},
    sse::Events,
};

pub(super) const SESSION_ID: &str = "mcp-session-id";
pub(super) const PROTOCOL_VERSION: &str = "mcp-protocol-version";
pub(super) const LAST_EVENT_ID: &str = "last-event-id";
const EVENT_STREAM: &str = "text/event-stream";
/// Timeout for the receipt of a notification.
const RECEIPT: Duration = Duration::from_secs(30);
/// Maximum number of consecutive attempts to resume a broken stream.
const ATTEMPTS: u32 = 5;

#[derive(Debug, Clone)]
pub(super) struct Server {
    name: String,
    url: Url,
    client: reqwest::Client,
    headers: HeaderMap,
    limit: usize,
    sessions: TaskTracker,
}

impl Server {
    pub fn new(name: &str, url: &str, headers: &IndexMap<String, String>, limit: usize) -> Result<Self, ServerError> {
        let unreachable =
            |reason: String| ServerError::Unreachable { server: name.to_owned(), url: url.to_owned(), reason };
        let parsed = Url::parse(url).map_err(|error| unreachable(format!("not a URL: {error}")))?;
        if !matches!(parsed.scheme(), "http" | "https") {
            return Err(unreachable("neither http nor https".to_owned()));
        }
        let mut map = HeaderMap::new();
        for (key, value) in headers {
            let bad = || unreachable(format!("the header `{key}` is malformed"));
            let key_parsed = HeaderName::try_from(key.as_str()).map_err(|_| bad())?;
            let mut value = HeaderValue::try_from(value.as_str()).map_err(|_| bad())?;
            value.set_sensitive(true);
            map.insert(key_parsed, value);
        }
        // An error means that a provider is already installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        // A redirect to another origin would send the configured headers to another server.
        let same_origin = Policy::custom(|attempt| {
            let origin = attempt.previous().first().map(Url::origin);
            if attempt.previous().len() < 5 && origin == Some(attempt.url().origin()) {
                attempt.follow()
            } else {
                attempt.stop()
            }
        });
        let mut builder =
            reqwest::Client::builder().redirect(same_origin).connect_timeout(Duration::from_secs(10)).tcp_nodelay(true);
        if matches!(parsed.host_str(), Some("localhost" | "127.0.0.1" | "[::1]")) {
            builder = builder.no_proxy();
        }
        let client = builder.build().map_err(|error| unreachable(root_of(&error)))?;
        Ok(Server { name: name.to_owned(), url: parsed, client, headers: map, limit, sessions: TaskTracker::new() })
    }

    /// Runs a session until its queue ends.
    pub fn serve(&self, relay: Arc<Relay>, session: u64, queue: mpsc::UnboundedReceiver<Outgoing>) {
        let server = self.clone();
        self.sessions.spawn(async move {
            let over = relay.over.clone();
            tokio::select! {
                () = over.cancelled() => {}
                () = server.run(relay, session, queue) => {}
            }
        });
    }

    /// Waits until every session has ended.
    pub async fn idle(&self) {
        self.sessions.close();
        self.sessions.wait().await;
    }

    async fn run(&self, relay: Arc<Relay>, session: u64, mut queue: mpsc::UnboundedReceiver<Outgoing>) {
        let link = Link {
            relay,
            server: self.clone(),
            session,
            handshake: Arc::default(),
            listening: Arc::default(),
            renewing: Arc::default(),
        };
        let mut tasks = JoinSet::new();
        loop {
            let outgoing = tokio::select! {
                outgoing = queue.recv() => outgoing,
                Some(_) = tasks.join_next() => continue,
            };
            let Some(Outgoing { message, envelope }) = outgoing else { break };
            if message.is_empty() {
                let link = link.clone();
                tasks.spawn(async move { link.listen(envelope.aside).await });
                continue;
            }
            let Some(message) = Message::parse(message) else { continue };
            match (message.shape(), message.method.as_deref()) {
                // The following messages need the session that the answer opens.
                (Shape::Request, Some("initialize")) => {
                    let within = link.relay.options.initialize_timeout;
                    let _ = tokio::time::timeout(within, link.exchange(&message, envelope)).await;
                }
                (Shape::Request, _) => {
                    let link = link.clone();
                    tasks.spawn(async move {
                        if link.exchange(&message, envelope).await {
                            link.listen(None).await;
                        }
                    });
                }
                (_, method) => {
                    // A client of a front decides itself whether to listen.
                    let initialized = method == Some("notifications/initialized") && envelope.headers.is_none();
                    let renewed = tokio::time::timeout(RECEIPT, link.exchange(&message, envelope)).await;
                    if initialized || renewed == Ok(true) {
                        let link = link.clone();
                        tasks.spawn(async move { link.listen(None).await });
                    }
                }
            }
        }
        tasks.shutdown().await;
        if link.handshake().session.is_some() {
            let _ = tokio::time::timeout(
                Duration::from_secs(2),
                link.with_headers(self.client.delete(self.url.clone())).send(),
            )
            .await;
        }
    }

    fn broken(&self, reason: &str) -> ServerError {
        ServerError::Unreachable { server: self.name.clone(), url: self.url.to_string(), reason: reason.to_owned() }
    }

    fn failed(&self, error: &reqwest::Error) -> ServerError {
        let (server, url) = (self.name.clone(), self.url.to_string());
        if let Some(reason) = find(error, &|cause| cause.downcast_ref::<rustls::Error>().map(ToString::to_string)) {
            return ServerError::Tls { server, url, reason };
        }
        let refused = |cause: &(dyn Error + 'static)| {
            let kind = cause.downcast_ref::<io::Error>()?.kind();
            (kind == io::ErrorKind::ConnectionRefused).then_some(())
        };
        match find(error, &refused) {
            Some(()) => ServerError::ConnectionRefused { server, url },
            None => ServerError::Unreachable { server, url, reason: root_of(error) },
        }
    }
}

/// Searches an error and its causes; `io::Error::source` skips the error that it wraps.
fn find<T>(error: &(dyn Error + 'static), look: &dyn Fn(&(dyn Error + 'static)) -> Option<T>) -> Option<T> {
    let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    look(error).or_else(|| find(wrapped?, look)).or_else(|| find(error.source()?, look))
}

#[derive(Debug, Clone, Default)]
struct Handshake {
    session: Option<HeaderValue>,
    protocol: Option<HeaderValue>,
    /// The `initialize` request that opened the session.
    greeting: Option<Bytes>,
}

#[derive(Clone)]
struct Link {
    relay: Arc<Relay>,
    server: Server,
    session: u64,
    handshake: Arc<Mutex<Handshake>>,
    /// Whether a stream for unsolicited messages of the server is open.
    listening: Arc<AtomicBool>,
    /// Held while a lost session is reopened.
    renewing: Arc<tokio::sync::Mutex<()>>,
}

/// Where to resume a stream.
#[derive(Default)]
struct Resume {
    last: Option<HeaderValue>,
    retry: Option<Duration>,
    /// The stream was abandoned because a message exceeded the limit.
    too_long: bool,
}

impl Link {
    /// Posts a message and relays everything that comes back; returns `true` if the session was lost and a new one was
    /// opened.
    async fn exchange(&self, message: &Message, mut envelope: Envelope) -> bool {
        let wanted = match message.shape() {
            Shape::Request => message.key(),
            Shape::Notification | Shape::Response => None,
        };
        // A client of a front opens its sessions itself.
        let (ours, session) = (envelope.headers.is_none(), self.handshake().session);
        let mut result = self.post(message, wanted.as_ref(), &mut envelope).await;
        let mut renewed = false;
        if let (true, Some(session), Err(ServerError::HttpStatus { status: 404, .. })) = (ours, session, &result) {
            renewed = self.renew(&session).await;
            if renewed {
                result = self.post(message, wanted.as_ref(), &mut envelope).await;
            }
        }
        if let Err(error) = result {
            match &wanted {
                Some(key) => self.relay.lost(self.session, key, error),
                None => self.relay.notice(Some(self.session), &format!("a notification was not delivered: {error}")),
            }
        }
        renewed
    }

    /// Replaces a session that the server no longer knows, as MCP requires; returns `true` if there is a new session.
    async fn renew(&self, lost: &HeaderValue) -> bool {
        let _one_at_a_time = self.renewing.lock().await;
        let Handshake { session, greeting, .. } = self.handshake();
        if session.as_ref() != Some(lost) {
            return true;
        }
        let Some(greeting) = greeting.and_then(Message::parse) else { return false };
        let within = self.relay.options.initialize_timeout;
        let opened = tokio::time::timeout(within, self.greet(&greeting)).await.ok().flatten();
        let Some((session, protocol)) = opened else { return false };
        {
            let mut handshake = self.handshake.lock().unwrap_or_else(PoisonError::into_inner);
            (handshake.session, handshake.protocol) = (session, protocol);
        }
        let initialized = self.post_json(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.into());
        let _ = tokio::time::timeout(RECEIPT, self.with_headers(initialized).send()).await;
        self.relay.notice(Some(self.session), "the server had forgotten the session: another was opened");
        true
    }

    /// Repeats `initialize` without relaying the answer; returns the session and the protocol that the server answers
    /// with.
    async fn greet(&self, greeting: &Message) -> Option<(Option<HeaderValue>, Option<HeaderValue>)> {
        let request = self.post_json(greeting.bytes.clone()).headers(self.server.headers.clone());
        let mut response = request.send().await.ok().filter(|response| response.status().is_success())?;
        let session = response.headers().get(SESSION_ID).cloned();
        let (streaming, mut events, mut body) = (is_event_stream(&response), Events::default(), Vec::new());
        let mut heard = Vec::new();
        loop {
            let chunk = response.chunk().await.ok()?;
            match &chunk {
                Some(chunk) if streaming => heard.extend(events.feed(chunk).into_iter().map(|event| event.data.into())),
                Some(chunk) => body.extend_from_slice(chunk),
                None => heard.push(std::mem::take(&mut body).into()),
            }
            let mut messages = heard.drain(..).flat_map(|bytes: Bytes| unbatch(bytes)).filter_map(Message::parse);
            if let Some(message) = messages.find(|m| m.shape() == Shape::Response && m.key() == greeting.key()) {
                let [version] = members(message.result()?, ["protocolVersion"])?;
                let version = version.and_then(|version| serde_json::from_str::<String>(version).ok());
                return Some((session, version.and_then(|version| HeaderValue::try_from(version).ok())));
            }
            if chunk.is_none() || body.len().max(events.size()) > self.server.limit {
                return None;
            }
        }
    }

    fn post_json(&self, body: Bytes) -> RequestBuilder {
        let request = self.server.client.post(self.server.url.clone());
        request
            .header(ACCEPT, "application/json, text/event-stream")
            .header(CONTENT_TYPE, "application/json")
            .body(body)
    }

    async fn post(
        &self,
        message: &Message,
        wanted: Option<&IdKey>,
        envelope: &mut Envelope,
    ) -> Result<(), ServerError> {
        let initialize = message.method.as_deref() == Some("initialize");
        let request = self.post_json(message.bytes.clone());
        let request = match envelope.headers.take() {
            Some(headers) => self.with_session(request).headers(headers).headers(self.server.headers.clone()),
            None => self.with_meta(self.with_headers(request), message),
        };
        let response = request.send().await.map_err(|error| self.server.failed(&error))?;
        let status = response.status();
        let mut receipt = Receipt { status, headers: mirrored(response.headers()), body: None };
        let aside = envelope.aside.take();
        let tell = |receipt| say(aside.as_ref(), Aside::Head(receipt));
        if initialize {
            let mut handshake = self.handshake.lock().unwrap_or_else(PoisonError::into_inner);
            handshake.session = response.headers().get(SESSION_ID).cloned();
            handshake.greeting = Some(message.bytes.clone());
        }
        let streaming = is_event_stream(&response);
        if status.is_success() && streaming {
            tell(receipt);
            let mut resume = Resume::default();
            if self.events(response, wanted, &mut resume, aside.as_ref()).await {
                return Ok(());
            }
            if resume.too_long {
                return Err(self.too_long());
            }
            if resume.last.is_some() {
                say(aside.as_ref(), Aside::Paused);
            }
            return match wanted {
                Some(wanted) => self.resume(wanted, resume).await,
                None => Ok(()),
            };
        }
        let body = self.body(response).await?;
        if !status.is_success() && !holds(&body, wanted) {
            receipt.body = Some(body.clone());
        }
        tell(receipt);
        let answered = !body.trim_ascii().is_empty() && self.take(&body, wanted);
        if wanted.is_none() && status.is_success() || answered {
            return Ok(());
        }
        if status.is_success() {
            let other = unbatch(body).into_iter().filter_map(Message::parse).find(|m| m.shape() == Shape::Response);
            return Err(self.server.broken(match other {
                Some(_) => "the answer to a request has another id",
                None => "the answer to a request is no message",
            }));
        }
        Err(ServerError::HttpStatus {
            server: self.server.name.clone(),
            url: self.server.url.to_string(),
            status: status.as_u16(),
            body: self.relay.excerpt(&body, 1000),
        })
    }

    /// Relays a message; returns `true` if it is the wanted answer.
    fn take(&self, bytes: &Bytes, wanted: Option<&IdKey>) -> bool {
        let mut found = false;
        for part in unbatch(bytes.clone()) {
            let Some(message) = Message::parse(part) else { continue };
            if wanted.is_some() && message.shape() == Shape::Response && message.key().as_ref() == wanted {
                found = true;
                self.remember_protocol(&message);
            }
            self.relay.from_server(self.session, message.bytes);
        }
        found
    }

    fn remember_protocol(&self, answer: &Message) {
        let mut handshake = self.handshake.lock().unwrap_or_else(PoisonError::into_inner);
        if handshake.protocol.is_none()
            && let Some(result) = answer.result()
            && let Some([Some(version), Some(_)]) = members(result, ["protocolVersion", "serverInfo"])
            && let Ok(version) = serde_json::from_str::<String>(version)
        {
            handshake.protocol = HeaderValue::try_from(version).ok();
        }
    }

    /// Relays a stream to its end; returns `true` if it contained the wanted answer.
    async fn events(
        &self,
        mut response: Response,
        wanted: Option<&IdKey>,
        resume: &mut Resume,
        aside: Option<&mpsc::UnboundedSender<Aside>>,
    ) -> bool {
        let mut parser = Events::default();
        let mut found = false;
        loop {
            // A server that has answered should end the stream; some do not.
            let chunk = match found {
                true => match tokio::time::timeout(Duration::from_secs(5), response.chunk()).await {
                    Ok(chunk) => chunk,
                    Err(_) => return true,
                },
                false => response.chunk().await,
            };
            let Ok(Some(chunk)) = chunk else { return found };
            for event in parser.feed(&chunk) {
                let named = event.id.is_some();
                if let Some(id) = event.id {
                    resume.last = HeaderValue::try_from(id).ok();
                }
                resume.retry = event.retry.or(resume.retry);
                if !event.data.is_empty() {
                    found |= self.take(&Bytes::from(event.data), wanted);
                } else if named {
                    say(aside, Aside::Begun { retry: resume.retry });
                }
            }
            if parser.size() > self.server.limit {
                self.relay.notice(Some(self.session), &self.too_long().to_string());
                resume.too_long = true;
                return found;
            }
        }
    }

    fn too_long(&self) -> ServerError {
        ServerError::TooLong { server: self.server.name.clone(), limit: self.server.limit }
    }

    /// Requests the rest of a stream that ended before the answer.
    async fn resume(&self, wanted: &IdKey, mut resume: Resume) -> Result<(), ServerError> {
        let early = || self.server.broken("the stream of an answer ended early");
        let mut attempts = 0;
        while attempts < ATTEMPTS {
            let Some(last) = resume.last.clone() else { return Err(early()) };
            tokio::time::sleep(resume.retry.unwrap_or(Duration::from_secs(1))).await;
            attempts += 1;
            let Ok(response) = self.get().header(LAST_EVENT_ID, last.clone()).send().await else { continue };
            if !response.status().is_success() || !is_event_stream(&response) {
                return Err(early());
            }
            if self.events(response, Some(wanted), &mut resume, None).await {
                return Ok(());
            }
            if resume.last.as_ref() != Some(&last) {
                attempts = 0;
            }
        }
        Err(early())
    }

    /// Relays the stream of unsolicited messages for as long as the server provides one.
    async fn listen(&self, mut aside: Option<mpsc::UnboundedSender<Aside>>) {
        if self.listening.swap(true, Ordering::Relaxed) {
            return;
        }
        let mut resume = Resume::default();
        let mut pause = Duration::from_secs(1);
        loop {
            let mut request = self.get();
            if let Some(last) = &resume.last {
                request = request.header(LAST_EVENT_ID, last.clone());
            }
            let asked = aside.take();
            if let Ok(response) = request.send().await {
                let status = response.status();
                let head = Receipt { status, headers: mirrored(response.headers()), body: None };
                if status.is_success() && is_event_stream(&response) {
                    say(asked.as_ref(), Aside::Head(head));
                    pause = Duration::from_secs(1);
                    self.events(response, None, &mut resume, None).await;
                } else if asked.is_some() || !status.is_server_error() || status == StatusCode::NOT_IMPLEMENTED {
                    let body = self.body(response).await.ok();
                    say(asked.as_ref(), Aside::Head(Receipt { body, ..head }));
                    break;
                }
            }
            tokio::time::sleep(resume.retry.unwrap_or(pause)).await;
            pause = (pause * 2).min(RECEIPT);
        }
        self.listening.store(false, Ordering::Relaxed);
    }

    fn get(&self) -> RequestBuilder {
        self.with_headers(self.server.client.get(self.server.url.clone()).header(ACCEPT, EVENT_STREAM))
    }

    fn handshake(&self) -> Handshake {
        self.handshake.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn with_session(&self, request: RequestBuilder) -> RequestBuilder {
        match self.handshake().session {
            Some(session) => request.header(SESSION_ID, session),
            None => request,
        }
    }

    fn with_headers(&self, request: RequestBuilder) -> RequestBuilder {
        let mut request = self.with_session(request);
        if let Some(protocol) = self.handshake().protocol {
            request = request.header(PROTOCOL_VERSION, protocol);
        }
        request.headers(self.server.headers.clone())
    }

    /// Since 2026-07-28, a request that needs no session repeats some of its members in headers.
    fn with_meta(&self, mut request: RequestBuilder, message: &Message) -> RequestBuilder {
        let text = |raw: &str| serde_json::from_str::<String>(raw).ok();
        let Some(version) = message.meta(META_VERSION).and_then(text) else {
            return request;
        };
        if self.handshake().protocol.is_none() {
            request = request.header(PROTOCOL_VERSION, version);
        }
        if let Some(method) = &message.method {
            request = request.header("mcp-method", method);
            let name = match method.as_str() {
                "tools/call" | "prompts/get" => message.param("name"),
                "resources/read" | "resources/subscribe" | "resources/unsubscribe" => message.param("uri"),
                _ => None,
            };
            if let Some(Ok(name)) = name.and_then(text).map(HeaderValue::try_from) {
                request = request.header("mcp-name", name);
            }
        }
        request
    }

    async fn body(&self, mut response: Response) -> Result<Bytes, ServerError> {
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.server.failed(&error))? {
            body.extend_from_slice(&chunk);
            if body.len() > self.server.limit {
                return Err(self.too_long());
            }
        }
        Ok(body.into())
    }
}

/// A failed send means that the client has left.
fn say(aside: Option<&mpsc::UnboundedSender<Aside>>, said: Aside) {
    if let Some(aside) = aside {
        let _ = aside.send(said);
    }
}

/// The headers of a server's answer that a client gets: the content type, the MCP headers, and those that explain a
/// refusal. The session belongs to the front.
fn mirrored(headers: &HeaderMap) -> HeaderMap {
    let kept = headers.iter().filter(|(name, _)| {
        **name != SESSION_ID
            && (name.as_str().starts_with("mcp-")
                || matches!(**name, CONTENT_TYPE | WWW_AUTHENTICATE | ALLOW | RETRY_AFTER))
    });
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Whether this body contains the wanted answer.
fn holds(body: &Bytes, wanted: Option<&IdKey>) -> bool {
    let messages = unbatch(body.clone()).into_iter().filter_map(Message::parse);
    wanted.is_some()
        && messages.filter(|message| message.shape() == Shape::Response).any(|m| m.key().as_ref() == wanted)
}

fn is_event_stream(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    kind.trim().to_ascii_lowercase().starts_with(EVENT_STREAM)
}

/// The root cause of an error; reqwest's own messages repeat the URL.
fn root_of(error: &dyn Error) -> String {
    let mut root = error;
    while let Some(source) = root.source() {
        root = source;
    }
    root.to_string()
}
