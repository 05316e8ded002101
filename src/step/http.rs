//! `http`: sends a request and checks the response.

use futures_util::future::BoxFuture;
use indexmap::IndexMap;
use serde_json::{Map, Value};

use super::{
    Context, Done, Stop,
    compare::{self, Compared},
};
use crate::{
    builtin::http::{Body, Expect, Http},
    event::Outcome,
    host::{HttpRequest, HttpResponse},
};

/// How many bytes of a body are read.
const MAX_BODY: usize = 8 << 20;

pub fn run(cx: Context<'_>) -> BoxFuture<'_, Done> {
    Box::pin(async move { Done::from(http(&cx).await) })
}

async fn http(cx: &Context<'_>) -> Result<Done, Stop> {
    let Http { url, method, headers, body } = cx.decode()?;
    let (body, json) = match body {
        None => (None, false),
        Some(Body::Text(text)) => (Some(text.into_bytes()), false),
        Some(Body::Json(value)) => (Some(value.to_string().into_bytes()), true),
    };
    let answer = send(cx, method, url, &headers, body, json).await?;
    let mut done = Done::new(Outcome::Passed, "");
    done.locals.insert("response".to_owned(), Value::Object(response(&answer)));
    let judged = cx.expected::<Expect>(&done.locals).and_then(|e| judge(&e.unwrap_or_default(), &answer));
    let status = answer.status;
    let mut done = done.judged(judged);
    if done.differences.first().is_some_and(|d| d.subject == "status") {
        let rest = &done.differences[1..];
        let rest = if rest.is_empty() { String::new() } else { format!("; {}", compare::summary(rest)) };
        done.message = format!("the answer has status {status}{rest}");
    }
    Ok(done)
}

/// Sends a request and reads the response.
pub(super) async fn send(
    cx: &Context<'_>,
    method: String,
    url: String,
    headers: &IndexMap<String, String>,
    body: Option<Vec<u8>>,
    json: bool,
) -> Result<HttpResponse, Stop> {
    let mut headers: Vec<_> = headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    if json && !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
        headers.push(("Content-Type".to_owned(), "application/json".to_owned()));
    }
    let request = HttpRequest { method, url, headers, body, timeout: cx.timeout, max_body: MAX_BODY };
    let answer = cx.within(cx.host.http(request)).await?;
    answer.map_err(|fault| match fault.kind {
        crate::host::HttpFaultKind::Timeout => Stop::Broken(cx.too_long()),
        _ => Stop::Broken(format!("there was no answer: {fault}")),
    })
}

/// The value of `response`: header names are in lower case because HTTP header names are case-insensitive; repeated
/// headers are joined. `body` is set only if the body was read completely, and `json` only if it is also valid JSON.
fn response(answer: &HttpResponse) -> Map<String, Value> {
    let mut headers: Map<String, Value> = Map::new();
    for (name, value) in &answer.headers {
        let entry = headers.entry(name.to_ascii_lowercase()).or_insert(Value::Null);
        *entry = match &entry {
            Value::String(before) => format!("{before}, {value}").into(),
            _ => value.as_str().into(),
        };
    }
    let mut response = Map::new();
    response.insert("status".to_owned(), answer.status.into());
    if !answer.truncated {
        response.insert("body".to_owned(), String::from_utf8_lossy(&answer.body).into());
        if let Ok(json) = serde_json::from_slice(&answer.body) {
            response.insert("json".to_owned(), json);
        }
    }
    response.insert("headers".to_owned(), Value::Object(headers));
    response
}

fn judge(expect: &Expect, answer: &HttpResponse) -> Result<Compared, String> {
    let mut found = Compared::default();
    // If any status is accepted, the response itself counts as a comparison.
    let differs = !expect.status.admits(answer.status);
    found.add(differs.then(|| compare::difference("status", &expect.status.describe(), &answer.status.to_string())));
    if let Some(expected) = &expect.body {
        let body = whole_body(answer)?;
        let mut demands = expected.demands();
        // In a text, bytes that are not UTF-8 are replaced. JSON must not have any.
        if demands.json.is_some() && std::str::from_utf8(&answer.body).is_err() {
            found.add(Some(compare::difference("body", "JSON", &body)));
            demands.json = None;
        }
        found.extend(compare::part("body", &demands, &body)?);
    }
    Ok(found)
}

/// Returns the body if it was read completely.
pub(super) fn whole_body(answer: &HttpResponse) -> Result<String, String> {
    match answer.truncated {
        true => Err(format!("the body is longer than {MAX_BODY} bytes, too long to be compared")),
        false => Ok(String::from_utf8_lossy(&answer.body).into_owned()),
    }
}
