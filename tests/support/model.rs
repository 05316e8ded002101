//! The endpoint of a model with prepared answers, over a real socket and in each provider's protocol.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Json, Router,
    body::Body,
    extract::State,
    http::{HeaderMap, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value, json};

#[derive(Clone)]
pub enum Reply {
    Text(String),
    /// Calls of tools with these arguments.
    Calls(Vec<(String, Value)>),
    /// A status, a header, and a body.
    Status(u16, Option<(&'static str, &'static str)>, &'static str),
    Raw(&'static str, &'static str),
    Hang,
}

pub fn call(tool: &str, args: Value) -> Reply {
    Reply::Calls(vec![(tool.to_owned(), args)])
}

pub fn text(text: &str) -> Reply {
    Reply::Text(text.to_owned())
}

#[derive(Clone, Debug)]
pub struct Asked {
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Value,
}

impl Asked {
    pub fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(n, _)| n == name).map_or("", |(_, value)| value)
    }

    /// Returns the names of the tools, in any protocol.
    pub fn tools(&self) -> Vec<String> {
        let tools = match &self.body["tools"] {
            Value::Array(tools) => tools.clone(),
            _ => Vec::new(),
        };
        let of_gemini = tools.iter().filter_map(|tool| tool["functionDeclarations"].as_array()).flatten().cloned();
        let all: Vec<Value> = of_gemini.chain(tools.iter().cloned()).collect();
        let name = |tool: &Value| tool["function"]["name"].as_str().or(tool["name"].as_str()).map(str::to_owned);
        all.iter().filter_map(name).collect()
    }
}

pub struct Model {
    pub url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

#[derive(Clone)]
struct Script {
    /// The last one is repeated.
    replies: Arc<Mutex<VecDeque<Reply>>>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Model {
    /// Starts a model that gives these replies, and repeats the last one.
    pub fn new(replies: impl IntoIterator<Item = Reply>) -> Model {
        let asked = Arc::default();
        let script = Script { replies: Arc::new(Mutex::new(replies.into_iter().collect())), asked: Arc::clone(&asked) };
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                let router = Router::new().fallback(answer).with_state(script);
                axum::serve(listener, router).await.unwrap();
            });
        });
        Model { url, asked }
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

async fn answer(State(script): State<Script>, uri: Uri, headers: HeaderMap, body: String) -> Response {
    let text = |value: &axum::http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers = headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
    let path = uri.path().to_owned();
    let body = serde_json::from_str(&body).unwrap_or_default();
    script.asked.lock().unwrap().push(Asked { path: path.clone(), headers, body });
    let reply = {
        let mut replies = script.replies.lock().unwrap();
        if replies.len() > 1 { replies.pop_front() } else { replies.front().cloned() }
    };
    match reply {
        None => StatusCode::NOT_FOUND.into_response(),
        Some(Reply::Hang) => {
            tokio::time::sleep(Duration::from_secs(600)).await;
            StatusCode::OK.into_response()
        }
        Some(Reply::Raw(kind, text)) => ([(header::CONTENT_TYPE, kind)], text).into_response(),
        Some(Reply::Status(status, header, text)) => {
            let mut response = Response::builder().status(status);
            if let Some((name, value)) = header {
                response = response.header(name, value);
            }
            response.body(Body::from(text)).unwrap()
        }
        Some(Reply::Text(text)) => Json(spoken(&path, Some(&text), &[])).into_response(),
        Some(Reply::Calls(calls)) => Json(spoken(&path, None, &calls)).into_response(),
    }
}

fn spoken(path: &str, text: Option<&str>, calls: &[(String, Value)]) -> Value {
    let object = |args: &Value| if args.is_null() { Value::Object(Map::new()) } else { args.clone() };
    if path.ends_with("/messages") {
        let text = text.map(|text| json!({ "type": "text", "text": text }));
        let calls = calls.iter().enumerate().map(
            |(i, (name, args))| json!({ "type": "tool_use", "id": format!("call-{i}"), "name": name, "input": object(args) }),
        );
        let content: Vec<Value> = text.into_iter().chain(calls).collect();
        return json!({
            "id": "m", "type": "message", "role": "assistant", "model": "m", "content": content,
            "stop_reason": "end_turn", "usage": { "input_tokens": 10, "output_tokens": 3 },
        });
    }
    if path.contains(":generateContent") {
        let text = text.map(|text| json!({ "text": text }));
        let calls = calls.iter().map(|(name, args)| json!({ "functionCall": { "name": name, "args": object(args) } }));
        let parts: Vec<Value> = text.into_iter().chain(calls).collect();
        return json!({
            "candidates": [{ "content": { "role": "model", "parts": parts }, "finishReason": "STOP" }],
            "usageMetadata": { "promptTokenCount": 10, "candidatesTokenCount": 3, "totalTokenCount": 13 },
        });
    }
    let calls: Vec<Value> = calls
        .iter()
        .enumerate()
        .map(|(i, (name, args))| {
            let function = json!({ "name": name, "arguments": object(args).to_string() });
            json!({ "id": format!("call-{i}"), "type": "function", "function": function })
        })
        .collect();
    let mut message = json!({ "role": "assistant", "content": text });
    if !calls.is_empty() {
        message["tool_calls"] = json!(calls);
    }
    json!({
        "id": "c", "object": "chat.completion", "model": "m",
        "choices": [{ "index": 0, "message": message, "finish_reason": "stop" }],
        "usage": { "prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13 },
    })
}
