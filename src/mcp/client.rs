//! The client for requests that gevals itself makes: steps, `lock`, the scripted agent, the evals primitive.
//!
//! Results stay JSON values. rmcp's client would decode and re-encode them through types that drop unknown members (a
//! tool's vendor fields, a result that happens to contain `content`), overwrite progress tokens, and declare
//! capabilities of its own.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::{Map, Value, json};
use thiserror::Error;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    sync::{broadcast, mpsc, oneshot},
};
use tokio_util::{bytes::Bytes, task::AbortOnDropHandle};

use super::{
    ServerError,
    child::Lines,
    message::{self, Message, Shape},
};

/// The first protocol version without a handshake.
const STATELESS: &str = "2026-07-28";
/// Timeout for the answer to `server/discover`.
const DISCOVERY: Duration = Duration::from_secs(5);

/// Maximum number of pages in one list; beyond it, the server is assumed to loop.
const PAGES: usize = 1000;

/// How a client introduces itself, and how long it waits for answers.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    pub name: String,
    pub version: String,
    pub protocol: String,
    /// Declared in `initialize`; what a server offers may depend on it.
    pub capabilities: Value,
    /// How long one request may take; after that it is canceled.
    pub timeout: Option<Duration>,
    /// The longest message, in bytes.
    pub max_message: usize,
}

impl Default for ClientOptions {
    fn default() -> Self {
        ClientOptions {
            name: "gevals".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            protocol: "2025-11-25".to_owned(),
            capabilities: json!({}),
            timeout: None,
            max_message: 64 << 20,
        }
    }
}

/// Why a request has no result.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum CallError {
    #[error("{message} ({code})")]
    Protocol { code: i64, message: String, data: Option<Value> },
    #[error("no answer within {} s", .0.as_secs_f64())]
    TimedOut(Duration),
    #[error("the connection is closed")]
    Closed,
    /// The server has ended, or did not accept the request; the text gives the reason.
    #[error("{0}")]
    Lost(String),
    #[error("the server's answer to `{method}` is malformed: {problem}")]
    Malformed { method: String, problem: String },
}

impl CallError {
    pub(super) fn at_initialize(self, server: &str) -> ServerError {
        let server = server.to_owned();
        match self {
            CallError::Protocol { code, message, .. } => ServerError::Refused { server, code, message },
            CallError::TimedOut(within) => ServerError::NoAnswer { server, within, stderr: String::new() },
            CallError::Closed | CallError::Lost(_) => ServerError::Closed { server },
            CallError::Malformed { .. } => ServerError::NotMcp { server, excerpt: self.to_string() },
        }
    }
}

/// The result of `tools/call`.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResult {
    pub content: Vec<Value>,
    pub structured: Option<Value>,
    pub is_error: bool,
    /// The complete result.
    pub raw: Value,
}

impl ToolResult {
    /// The text contents, joined with line feeds.
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self.content.iter().filter_map(|block| block.get("text")?.as_str()).collect();
        texts.join("\n")
    }
}

/// A notification from the server.
#[derive(Debug, Clone, PartialEq)]
pub struct Notification {
    pub method: String,
    pub params: Value,
}

/// A client on any byte stream. Dropping the future of a call cancels the call.
#[derive(Debug)]
pub struct Client {
    options: ClientOptions,
    shared: Arc<Shared>,
    server: OnceLock<Value>,
    /// Set if the server uses a protocol without a handshake, in which every request identifies its sender.
    stateless: OnceLock<()>,
    counter: AtomicU64,
    _tasks: [AbortOnDropHandle<()>; 2],
}

#[derive(Debug)]
struct Shared {
    /// `None` once no more answers can arrive.
    waiting: Mutex<Option<HashMap<u64, oneshot::Sender<Answer>>>>,
    out: mpsc::UnboundedSender<Bytes>,
    notifications: broadcast::Sender<Notification>,
}

type Answer = Result<Value, CallError>;

impl Client {
    /// Starts reading; call [`Client::initialize`] first.
    pub fn start<S>(stream: S, options: ClientOptions) -> Client
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let (reader, mut writer) = tokio::io::split(stream);
        let (out, mut queue) = mpsc::unbounded_channel::<Bytes>();
        let shared = Arc::new(Shared {
            waiting: Mutex::new(Some(HashMap::new())),
            out,
            notifications: broadcast::channel(256).0,
        });
        let write = tokio::spawn(async move {
            while let Some(message) = queue.recv().await {
                let mut line = message.to_vec();
                line.push(b'\n');
                if writer.write_all(&line).await.is_err() || writer.flush().await.is_err() {
                    return;
                }
            }
        });
        let lines = Lines::new(reader, options.max_message);
        let read = tokio::spawn(read_all(lines, shared.clone()));
        Client {
            options,
            shared,
            server: OnceLock::new(),
            stateless: OnceLock::new(),
            counter: AtomicU64::new(0),
            _tasks: [AbortOnDropHandle::new(write), AbortOnDropHandle::new(read)],
        }
    }

    /// Performs the handshake and returns the server's result. If the server refuses `initialize`, tries
    /// `server/discover` of 2026-07-28, which needs no handshake.
    pub async fn initialize(&self) -> Result<Value, CallError> {
        let params = json!({
            "protocolVersion": self.options.protocol,
            "capabilities": self.options.capabilities,
            "clientInfo": {"name": self.options.name, "version": self.options.version},
        });
        let result = match self.request("initialize", Some(params)).await {
            Err(refusal @ CallError::Protocol { .. }) => return self.discover().await.ok_or(refusal),
            result => result?,
        };
        if !result.is_object() {
            return Err(malformed("initialize", "it is no object"));
        }
        self.notify("notifications/initialized", None);
        Ok(self.server.get_or_init(|| result).clone())
    }

    async fn discover(&self) -> Option<Value> {
        let params = json!({ "_meta": self.introduction() });
        // A server that refused one greeting may never answer the other.
        let asked = tokio::time::timeout(DISCOVERY, self.request("server/discover", Some(params)));
        let result = asked.await.ok()?.ok().filter(Value::is_object)?;
        self.stateless.get_or_init(|| ());
        Some(self.server.get_or_init(|| result).clone())
    }

    /// How a request without a handshake identifies its sender.
    fn introduction(&self) -> Value {
        json!({
            "io.modelcontextprotocol/protocolVersion": STATELESS,
            "io.modelcontextprotocol/clientInfo": {"name": self.options.name, "version": self.options.version},
            "io.modelcontextprotocol/clientCapabilities": self.options.capabilities,
        })
    }

    /// The result of `initialize`, or of `server/discover`.
    pub fn server(&self) -> Option<&Value> {
        self.server.get()
    }

    /// Whether the server declares this capability.
    pub fn offers(&self, capability: &str) -> bool {
        self.server
            .get()
            .is_some_and(|server| server["capabilities"].get(capability).is_some_and(|value| !value.is_null()))
    }

    /// Lists every tool, over all pages; empty if the server does not offer tools.
    ///
    /// # Errors
    /// The server refused the request, or was lost.
    pub async fn list_tools(&self) -> Result<Vec<Value>, CallError> {
        self.list_offered("tools", "tools/list", "tools").await
    }

    /// Lists all resources, over all pages.
    pub async fn list_resources(&self) -> Result<Vec<Value>, CallError> {
        self.list_offered("resources", "resources/list", "resources").await
    }

    /// Lists all resource templates, over all pages.
    pub async fn list_resource_templates(&self) -> Result<Vec<Value>, CallError> {
        self.list_offered("resources", "resources/templates/list", "resourceTemplates").await
    }

    /// Lists all prompts, over all pages.
    pub async fn list_prompts(&self) -> Result<Vec<Value>, CallError> {
        self.list_offered("prompts", "prompts/list", "prompts").await
    }

    async fn list_offered(&self, capability: &str, method: &str, key: &str) -> Result<Vec<Value>, CallError> {
        if self.offers(capability) { self.list(method, key, Map::new()).await } else { Ok(Vec::new()) }
    }

    /// All pages of any list with MCP's cursors; `key` names the member that contains the items of a page.
    pub async fn list(&self, method: &str, key: &str, params: Map<String, Value>) -> Result<Vec<Value>, CallError> {
        let mut items = Vec::new();
        let mut cursors = HashSet::new();
        let mut params = params;
        for _ in 0..PAGES {
            let sent = (!params.is_empty()).then(|| Value::Object(params.clone()));
            let mut page = self.request(method, sent).await?;
            match page.get_mut(key).map(Value::take) {
                Some(Value::Array(found)) => items.extend(found),
                _ => return Err(malformed(method, &format!("`{key}` is no list"))),
            }
            match page.get("nextCursor") {
                None | Some(Value::Null) => return Ok(items),
                Some(Value::String(cursor)) => {
                    if !cursors.insert(cursor.clone()) {
                        return Err(malformed(method, "its pages go round in a circle"));
                    }
                    params.insert("cursor".to_owned(), Value::from(cursor.clone()));
                }
                Some(_) => return Err(malformed(method, "`nextCursor` is no string")),
            }
        }
        Err(malformed(method, &format!("it has more than {PAGES} pages")))
    }

    /// Calls a tool. An error of the tool itself is a result, with `isError`.
    pub async fn call_tool(&self, name: &str, arguments: Value) -> Result<ToolResult, CallError> {
        let raw = self.request("tools/call", Some(json!({"name": name, "arguments": arguments}))).await?;
        if !raw.is_object() {
            return Err(malformed("tools/call", "it is no object"));
        }
        let structured = raw.get("structuredContent").filter(|value| !value.is_null()).cloned();
        let content = match raw.get("content") {
            None if structured.is_some() => Vec::new(),
            None => return Err(malformed("tools/call", "it has no `content`")),
            Some(Value::Array(blocks)) => blocks.clone(),
            Some(_) => return Err(malformed("tools/call", "`content` is no list")),
        };
        let is_error = match raw.get("isError") {
            None => false,
            Some(Value::Bool(is_error)) => *is_error,
            Some(_) => return Err(malformed("tools/call", "`isError` is no boolean")),
        };
        Ok(ToolResult { content, structured, is_error, raw })
    }

    /// Reads a resource.
    pub async fn read_resource(&self, uri: &str) -> Result<Value, CallError> {
        self.request("resources/read", Some(json!({"uri": uri}))).await
    }

    /// Gets a prompt, expanded with the arguments.
    pub async fn get_prompt(&self, name: &str, arguments: Value) -> Result<Value, CallError> {
        self.request("prompts/get", Some(json!({"name": name, "arguments": arguments}))).await
    }

    /// Sends any request.
    ///
    /// # Errors
    /// The server refused the request, or was lost, or took longer than the options allow.
    pub async fn request(&self, method: &str, params: Option<Value>) -> Result<Value, CallError> {
        let id = self.counter.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = oneshot::channel();
        match &mut *self.shared.lock() {
            Some(waiting) => waiting.insert(id, sender),
            None => return Err(CallError::Closed),
        };
        let mut request = json!({"jsonrpc": "2.0", "id": id, "method": method});
        if let Some(params) = params {
            request["params"] = params;
        }
        if self.stateless.get().is_some() {
            request["params"]["_meta"] = self.introduction();
        }
        let given_up = GivenUp { shared: &self.shared, id, cancellable: method != "initialize" };
        self.shared.send(request.to_string().into());
        let answer = match self.options.timeout {
            None => receiver.await,
            Some(within) => match tokio::time::timeout(within, receiver).await {
                Ok(answer) => answer,
                Err(_) => return Err(CallError::TimedOut(within)),
            },
        };
        drop(given_up);
        answer.unwrap_or(Err(CallError::Closed))
    }

    /// Sends a notification; notifications have no answer.
    pub fn notify(&self, method: &str, params: Option<Value>) {
        let mut notification = json!({"jsonrpc": "2.0", "method": method});
        if let Some(params) = params {
            notification["params"] = params;
        }
        self.shared.send(notification.to_string().into());
    }

    /// Subscribes to notifications from now on; a slow reader loses the oldest.
    pub fn notifications(&self) -> broadcast::Receiver<Notification> {
        self.shared.notifications.subscribe()
    }
}

/// Cancels a request on the server when its future is dropped before the answer.
struct GivenUp<'a> {
    shared: &'a Shared,
    id: u64,
    cancellable: bool,
}

impl Drop for GivenUp<'_> {
    fn drop(&mut self) {
        let open = self.shared.lock().as_mut().is_some_and(|waiting| waiting.remove(&self.id).is_some());
        if open && self.cancellable {
            self.shared.send(message::cancelled(&self.id.to_string(), "no longer wanted"));
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Option<HashMap<u64, oneshot::Sender<Answer>>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, message: Bytes) {
        // A failed send means that the connection is closed, which ends the waiting calls.
        let _ = self.out.send(message);
    }
}

async fn read_all(mut lines: Lines<impl AsyncRead + Unpin>, shared: Arc<Shared>) {
    while let Ok(Some(line)) = lines.next().await {
        for bytes in message::unbatch(line) {
            if let Some(message) = Message::parse(bytes) {
                take(&shared, &message);
            }
        }
    }
    // Dropping the senders wakes the waiting calls.
    *shared.lock() = None;
}

fn take(shared: &Shared, message: &Message) {
    let id = message.id().unwrap_or("null");
    match message.shape() {
        Shape::Response => {
            let sender = id.parse().ok().and_then(|id: u64| shared.lock().as_mut()?.remove(&id));
            if let Some(sender) = sender {
                let _ = sender.send(answer_of(message));
            }
        }
        Shape::Request if message.method.as_deref() == Some("ping") => shared.send(message::answer(id, "{}")),
        Shape::Request => shared.send(message::refusal(id, -32601, "method not found")),
        Shape::Notification => {
            let params = message.params().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
            let method = message.method.clone().unwrap_or_default();
            let _ = shared.notifications.send(Notification { method, params });
        }
    }
}

fn answer_of(message: &Message) -> Answer {
    let decode = |text| serde_json::from_str::<Value>(text).map_err(|error| malformed("a request", &error.to_string()));
    match (message.error(), message.result()) {
        (Some(error), _) => {
            let error = decode(error)?;
            if message::is_lost(&error) {
                let why = error.get("message").and_then(Value::as_str).unwrap_or_default();
                return Err(CallError::Lost(why.to_owned()));
            }
            Err(CallError::Protocol {
                code: error.get("code").and_then(Value::as_i64).unwrap_or_default(),
                message: error.get("message").and_then(Value::as_str).unwrap_or_default().to_owned(),
                data: error.get("data").cloned(),
            })
        }
        (None, result) => decode(result.unwrap_or("null")),
    }
}

fn malformed(method: &str, problem: &str) -> CallError {
    CallError::Malformed { method: method.to_owned(), problem: problem.to_owned() }
}
