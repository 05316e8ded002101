//! The requirements of the stateless revision (2026-07-28) for HTTP servers, implemented for a server that is a
//! process: headers repeat parts of the body, every request contains its version and the client's capabilities, and
//! some errors have an HTTP status. A server that is reached by HTTP implements all of this itself.

use axum::http::{HeaderMap, StatusCode};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::Value;

use crate::mcp::{
    http::PROTOCOL_VERSION,
    message::{self, Message, Shape},
};

const INVALID_PARAMS: i64 = -32602;
const HEADER_MISMATCH: i64 = -32020;

/// A header that repeats an argument: its name, without `mcp-param-`, and the path of the argument as a JSON pointer.
pub(super) type Repeated = (String, String);

/// Whether the client that sent this works without a handshake.
pub(super) fn is_stateless(headers: &HeaderMap, message: &Message) -> bool {
    declares(headers) || message.meta(message::META_VERSION).is_some()
}

/// Whether the headers declare a protocol version since 2026-07-28, in which requests need no handshake and no session.
pub(super) fn declares(headers: &HeaderMap) -> bool {
    headers.get(PROTOCOL_VERSION).and_then(|value| value.to_str().ok()).is_some_and(|version| version >= "2026")
}

/// Why a request is refused: an error code and a message.
pub(super) fn fault(
    headers: &HeaderMap,
    message: &Message,
    repeated: impl Fn(&str) -> Vec<Repeated>,
) -> Option<(i64, String)> {
    if message.shape() != Shape::Request {
        return None;
    }
    let text = |raw: Option<&str>| raw.and_then(|raw| serde_json::from_str::<String>(raw).ok());
    let Some(version) = text(message.meta(message::META_VERSION)) else {
        return Some((INVALID_PARAMS, format!("the request does not say `_meta.{}`", message::META_VERSION)));
    };
    if message.meta(message::META_CAPABILITIES).is_none_or(|raw| !raw.starts_with('{')) {
        return Some((INVALID_PARAMS, format!("the request does not say `_meta.{}`", message::META_CAPABILITIES)));
    }
    let method = message.method.clone().unwrap_or_default();
    let name = match method.as_str() {
        "tools/call" | "prompts/get" => text(message.param("name")),
        "resources/read" => text(message.param("uri")),
        _ => None,
    };
    let mut wanted = vec![(PROTOCOL_VERSION.to_owned(), version), ("mcp-method".to_owned(), method.clone())];
    if method == "tools/call" {
        let arguments: Value = message.param("arguments").map(message::decoded).unwrap_or_default();
        for (header, path) in repeated(name.as_deref().unwrap_or_default()) {
            match arguments.pointer(&path) {
                Some(Value::String(text)) => wanted.push((format!("mcp-param-{header}"), text.clone())),
                Some(value @ (Value::Bool(_) | Value::Number(_))) => {
                    wanted.push((format!("mcp-param-{header}"), value.to_string()));
                }
                _ => {}
            }
        }
    }
    wanted.extend(name.map(|name| ("mcp-name".to_owned(), name)));
    wanted.into_iter().find_map(|(header, said)| {
        let found = headers.get(&header).map(|value| value.to_str().ok().and_then(decoded));
        let why = match found {
            Some(Some(found)) if found == said => return None,
            Some(Some(found)) => format!("the header `{header}` says `{found}`, and the body `{said}`"),
            Some(None) => format!("the header `{header}` cannot be read"),
            None => format!("the header `{header}` is missing, which repeats `{said}` of the body"),
        };
        Some((HEADER_MISMATCH, why))
    })
}

/// A value that is not valid in a header is wrapped in `=?base64?…?=`.
fn decoded(value: &str) -> Option<String> {
    match value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) {
        Some(inner) => String::from_utf8(BASE64_STANDARD.decode(inner).ok()?).ok(),
        None => Some(value.to_owned()),
    }
}

/// The HTTP status of an answer.
pub(super) fn status(answer: &[u8]) -> StatusCode {
    let message = str::from_utf8(answer).ok().and_then(|text| message::members(text, ["error"]));
    let code = message.and_then(|[error]| message::decoded(error?).get("code")?.as_i64());
    match code {
        Some(-32601) => StatusCode::NOT_FOUND,
        // Parse error, invalid request; header mismatch, missing client capability, unsupported version.
        Some(-32700 | -32600 | HEADER_MISMATCH | -32021 | -32022) => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}
