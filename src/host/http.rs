//! HTTP for steps: one request, one answer, everything limited.

use std::{sync::OnceLock, time::Duration};

/// A request to send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HttpRequest {
    pub method: String,
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub body: Option<Vec<u8>>,
    /// For everything: connecting, redirects, the body.
    pub timeout: Duration,
    /// How many bytes of the answer's body are read, at most.
    pub max_body: usize,
}

/// An answer, whatever its status.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HttpResponse {
    pub status: u16,
    /// In the order received; a name may occur more than once.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Whether the body was longer than `max_body`.
    pub truncated: bool,
}

/// Why there is no answer.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct HttpFault {
    pub kind: HttpFaultKind,
    pub message: String,
}

/// The kind of a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HttpFaultKind {
    Connect,
    Timeout,
    Tls,
    Redirect,
    Body,
    Other,
}

/// Two clients, because like Go's client, ours uses no proxy for this machine.
#[derive(Debug, Default)]
pub(super) struct Clients {
    local: OnceLock<Result<reqwest::Client, HttpFault>>,
    remote: OnceLock<Result<reqwest::Client, HttpFault>>,
}

impl Clients {
    pub(super) async fn send(&self, request: HttpRequest) -> Result<HttpResponse, HttpFault> {
        let bad = |what: &str, e: &dyn std::fmt::Display| HttpFault {
            kind: HttpFaultKind::Other,
            message: format!("{what}: {e}"),
        };
        let url = reqwest::Url::parse(&request.url).map_err(|e| bad("the URL is not valid", &e))?;
        let method =
            reqwest::Method::from_bytes(request.method.as_bytes()).map_err(|e| bad("the method is not valid", &e))?;
        let local = is_local(&url);
        let client = if local { &self.local } else { &self.remote };
        let client = client.get_or_init(|| client_for(local)).as_ref().map_err(Clone::clone)?;

        let mut builder = client.request(method, url).timeout(request.timeout);
        for (name, value) in &request.headers {
            builder = builder.header(name, value);
        }
        if let Some(body) = request.body {
            builder = builder.body(body);
        }
        let mut answer = builder.send().await.map_err(fault)?;
        let mut response = HttpResponse {
            status: answer.status().as_u16(),
            headers: (answer.headers().iter())
                .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
                .collect(),
            body: Vec::new(),
            truncated: false,
        };
        while let Some(chunk) = answer.chunk().await.map_err(fault)? {
            let keep = chunk.len().min(request.max_body - response.body.len());
            response.body.extend_from_slice(&chunk[..keep]);
            if keep < chunk.len() {
                response.truncated = true;
                break;
            }
        }
        Ok(response)
    }
}

/// Installs a provider for rustls, which has no default here. A process can do so only once.
pub fn install_tls() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

/// A client for one service. It follows no redirects, because a key must not be passed on.
///
/// # Errors
/// The URL is not valid, or TLS cannot be set up.
pub fn service_client(url: &str) -> Result<reqwest::Client, HttpFault> {
    let bad = |e| HttpFault { kind: HttpFaultKind::Other, message: format!("the URL is not valid: {e}") };
    let url = reqwest::Url::parse(url).map_err(bad)?;
    builder(is_local(&url)).redirect(reqwest::redirect::Policy::none()).build().map_err(fault)
}

fn is_local(url: &reqwest::Url) -> bool {
    let host = url.host_str().unwrap_or("").trim_matches(['[', ']']);
    host == "localhost" || host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
}

fn builder(local: bool) -> reqwest::ClientBuilder {
    install_tls();
    let builder = reqwest::Client::builder().user_agent(concat!("gevals/", env!("CARGO_PKG_VERSION")));
    if local { builder.no_proxy() } else { builder }
}

fn client_for(local: bool) -> Result<reqwest::Client, HttpFault> {
    // Ten requests in total, like Go's client.
    builder(local).redirect(reqwest::redirect::Policy::limited(9)).build().map_err(fault)
}

/// The message leaves out the URL: it can contain secrets, and the caller knows it.
fn fault(error: reqwest::Error) -> HttpFault {
    let error = error.without_url();
    let mut message = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(inner) = source {
        let text = inner.to_string();
        if !message.contains(&text) {
            message = format!("{message}: {text}");
        }
        source = inner.source();
    }
    let kind = if error.is_timeout() {
        HttpFaultKind::Timeout
    } else if error.is_redirect() {
        HttpFaultKind::Redirect
    } else if is_tls(&error) {
        HttpFaultKind::Tls
    } else if error.is_connect() {
        HttpFaultKind::Connect
    } else if error.is_body() || error.is_decode() {
        HttpFaultKind::Body
    } else {
        HttpFaultKind::Other
    };
    HttpFault { kind, message }
}

/// Also checks what an `io::Error` wraps, which is not its `source`.
fn is_tls(error: &(dyn std::error::Error + 'static)) -> bool {
    let wrapped = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    error.is::<rustls::Error>() || wrapped.is_some_and(|e| is_tls(e)) || error.source().is_some_and(is_tls)
}
