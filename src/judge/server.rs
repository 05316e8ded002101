//! The judge's MCP server: one tool, on 127.0.0.1, at an address that only the judge gets. It runs for one attempt.

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use axum::{
    extract::{Request, State},
    http::StatusCode,
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, InitializeResult,
        ListToolsResult, PaginatedRequestParams, ServerCapabilities, Tool,
    },
    service::RequestContext,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
    },
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::Verdict;
use crate::{
    event::FailureCategory,
    host::{Capability, is_same, listen},
};

/// The only tool.
pub const TOOL: &str = "submit_judgement";

/// A server for one attempt; it stops when it is dropped.
pub struct Server {
    pub url: String,
    received: Arc<Mutex<Received>>,
    _running: DropGuard,
}

/// The submissions received.
#[derive(Clone, Default, Debug)]
pub struct Received {
    /// The first verdict; later ones that agree with it are dropped.
    pub verdict: Option<Verdict>,
    /// A later verdict that contradicts the first: it is unknown which of them the judge means, or whether both are its
    /// own.
    pub contradiction: Option<Verdict>,
    /// Why the last invalid submission was refused.
    pub refused: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Submission {
    passed: bool,
    reason: String,
    failure_category: FailureCategory,
}

impl Submission {
    fn verdict(self) -> Verdict {
        let reason = match self.reason.trim() {
            "" => "the judge gave no reason".to_owned(),
            _ => self.reason,
        };
        Verdict { passed: self.passed, reason, category: self.failure_category }
    }
}

impl Server {
    pub async fn start(capability: &Capability) -> io::Result<Self> {
        let (listener, port) = listen::loopback().await?;
        let stop = CancellationToken::new();
        let received = Arc::new(Mutex::default());
        let handler = Handler { received: Arc::clone(&received) };
        let config = StreamableHttpServerConfig::default().with_cancellation_token(stop.clone());
        let service =
            StreamableHttpService::new(move || Ok(handler.clone()), Arc::new(LocalSessionManager::default()), config);
        let path = capability.path();
        let known = middleware::from_fn_with_state(Arc::new(path.clone()), known);
        let router = axum::Router::new().fallback_service(service).layer(known);
        let ended = stop.clone();
        tokio::spawn(async move {
            // The only error is one of `accept`, and axum retries those.
            let _ = axum::serve(listener, router).with_graceful_shutdown(ended.cancelled_owned()).await;
        });
        Ok(Self { url: format!("http://127.0.0.1:{port}{path}"), received, _running: stop.drop_guard() })
    }

    pub fn received(&self) -> Received {
        open(&self.received).clone()
    }

    /// Submits a verdict.
    ///
    /// # Errors
    /// What is wrong with the submission, in words for the judge.
    pub fn submit(&self, arguments: Value) -> Result<String, String> {
        submit(&self.received, arguments)
    }
}

/// Responds with 404 unless the request has the secret path.
async fn known(State(path): State<Arc<String>>, request: Request, next: Next) -> Response {
    match is_same(request.uri().path(), &path) {
        true => next.run(request).await,
        false => StatusCode::NOT_FOUND.into_response(),
    }
}

fn open(received: &Mutex<Received>) -> MutexGuard<'_, Received> {
    received.lock().unwrap_or_else(PoisonError::into_inner)
}

fn submit(received: &Mutex<Received>, arguments: Value) -> Result<String, String> {
    let mut received = open(received);
    let submission = serde_json::from_value(arguments).map_err(|e| format!("bad arguments: {e}"));
    let submission = submission.and_then(|s: Submission| match (s.passed, s.failure_category) {
        (true, FailureCategory::None) | (false, _) => Ok(s),
        (true, other) => {
            Err(format!("`passed: true` goes with `failureCategory: n/a`, and this one has `{}`", other.name()))
        }
    });
    match (submission, &received.verdict) {
        (Ok(later), Some(first)) if later.passed == first.passed => {
            Ok("A verdict was submitted before; this one is dropped. You are done.".to_owned())
        }
        (Ok(later), Some(_)) => {
            received.contradiction.get_or_insert(later.verdict());
            Err("another verdict was submitted before, and this one contradicts it: neither counts".to_owned())
        }
        (Ok(first), None) => {
            received.verdict = Some(first.verdict());
            Ok("The verdict is noted. You are done.".to_owned())
        }
        (Err(why), _) => {
            received.refused = Some(why.clone());
            Err(why)
        }
    }
}

#[derive(Clone)]
struct Handler {
    received: Arc<Mutex<Received>>,
}

impl ServerHandler for Handler {
    fn get_info(&self) -> InitializeResult {
        let mut info = InitializeResult::new(ServerCapabilities::builder().enable_tools().build());
        info.server_info = Implementation::new("llm-judge", env!("CARGO_PKG_VERSION"));
        info
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(vec![tool()]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if request.name != TOOL {
            return Err(ErrorData::invalid_params(format!("there is no tool `{}`", request.name), None));
        }
        let result = submit(&self.received, Value::Object(request.arguments.unwrap_or_default()));
        Ok(match result {
            Ok(text) => CallToolResult::success(vec![ContentBlock::text(text)]),
            Err(text) => CallToolResult::error(vec![ContentBlock::text(text)]),
        }
        .into())
    }
}

/// The tool, as listed by `tools/list`.
pub fn tool() -> Tool {
    let categories = FailureCategory::ALL.map(FailureCategory::name);
    let schema = json!({
        "type": "object",
        "properties": {
            "passed": {"type": "boolean", "description": "Whether the answer meets the criterion"},
            "reason": {"type": "string", "description": "What decided, in one or two sentences"},
            "failureCategory": {
                "type": "string", "enum": categories, "description": "Why it failed; `n/a` where it passed",
            },
        },
        "required": ["passed", "reason", "failureCategory"],
        "additionalProperties": false,
    });
    let schema = Arc::new(schema.as_object().cloned().unwrap_or_default());
    Tool::new(TOOL, "Submits the verdict on the answer. Call it exactly once", schema)
}
