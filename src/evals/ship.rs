//! Evals that are shipped beside a server: what a hub adds to it.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
    time::{Duration, SystemTime},
};

use serde_json::{Map, Value, json};

use crate::{
    diagnostic::{Diagnostic, Diagnostics},
    mcp::{Added, Hub, HubOptions, SessionKind, serve_stdio},
    primitive::{self, CAPABILITY, Document, EXTENSION, METHOD, PAGE, Pages},
    source::Sources,
    yaml,
};

/// How often the file is checked for changes.
const INTERVAL: Duration = Duration::from_millis(200);
/// Delay before reading: an editor may write a file in several steps.
const SETTLE: Duration = Duration::from_millis(50);
/// The JSON-RPC error code for invalid params.
const INVALID_PARAMS: i64 = -32602;

/// Evals beside a server. A server written in Rust ships its own with [`Shipped::serve_stdio`]:
///
/// ```no_run
/// # async fn my_server(stream: tokio::io::DuplexStream) {}
/// # async fn ship() -> Result<(), gevals::evals::Fault> {
/// let evals = gevals::evals::Shipped::parse("evals.yaml", "kind: McpEvals\nevals: []\n")?;
/// let (near, far) = tokio::io::duplex(64 * 1024);
/// tokio::spawn(my_server(far)); // as it would serve standard input and output: one message per line
/// evals.serve_stdio(near).await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Shipped {
    pages: Arc<RwLock<Pages>>,
}

/// Why a file of evals cannot be shipped.
#[derive(Debug)]
pub struct Fault {
    pub findings: Vec<Diagnostic>,
    /// The text that the findings refer to.
    pub sources: Sources,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = String::new();
        crate::diagnostic::concise(&self.findings, &self.sources, &crate::diagnostic::Pretty::default(), &mut text)?;
        f.write_str(text.trim_end())
    }
}

impl std::error::Error for Fault {}

/// Reads the evals of a file, and the findings about it.
///
/// # Errors
/// The file contains an error.
fn read(path: &Path, bytes: Vec<u8>) -> Result<(Document, Fault), Fault> {
    let (sources, mut out) = (Sources::default(), Diagnostics::default());
    let document = match yaml::decode_utf8(bytes) {
        Ok(text) => {
            let file = sources.add(path, text.as_str());
            yaml::parse(file, text, &mut out).map(|tree| primitive::file(tree, &mut out))
        }
        Err(fault) => {
            let file = sources.add(path, fault.text.as_str());
            Err(out.error(fault.diagnostic(file)))
        }
    };
    if let Ok(document) = &document {
        primitive::check(std::slice::from_ref(document), None, &mut out);
    }
    let is_wrong = out.has_error();
    let said = Fault { findings: out.into_sorted(&sources), sources };
    match document {
        Ok(document) if !is_wrong => Ok((document, said)),
        _ => Err(said),
    }
}

impl Shipped {
    /// Parses the evals of a file; `path` is its name in messages.
    ///
    /// # Errors
    /// The file contains an error.
    pub fn parse(path: impl AsRef<Path>, text: impl Into<String>) -> Result<Self, Fault> {
        let (document, _) = read(path.as_ref(), text.into().into_bytes())?;
        Ok(Self::new(&document, PAGE))
    }

    /// Parses the evals of a file, with at most `size` per page; also returns its warnings.
    ///
    /// # Errors
    /// The file contains an error.
    pub fn read(path: &Path, bytes: Vec<u8>, size: usize) -> Result<(Self, Fault), Fault> {
        let (document, said) = read(path, bytes)?;
        Ok((Self::new(&document, size), said))
    }

    fn new(document: &Document, size: usize) -> Self {
        Self { pages: Arc::new(RwLock::new(Pages::new(&document.evals, size))) }
    }

    /// The number of evals.
    pub fn len(&self) -> usize {
        self.pages.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether there are no evals.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Replaces the evals with those of another text; returns `false` if it lists the same evals.
    ///
    /// # Errors
    /// The text contains an error; the current evals are kept.
    pub fn replace(&self, path: &Path, bytes: Vec<u8>) -> Result<bool, Fault> {
        let (document, _) = read(path, bytes)?;
        Ok(self.pages.write().unwrap_or_else(PoisonError::into_inner).replace(&document.evals))
    }

    /// What a hub adds to its server.
    pub fn added(&self) -> Arc<Added> {
        let pages = self.pages.clone();
        let answer = move |method: &str, params: Option<&str>| {
            (method == METHOD).then(|| answer(&pages.read().unwrap_or_else(PoisonError::into_inner), params))
        };
        let capability = json!({"listChanged": true});
        let capabilities = Map::from_iter([
            (CAPABILITY.to_owned(), capability.clone()),
            ("experimental".to_owned(), json!({CAPABILITY: capability})),
            ("extensions".to_owned(), json!({EXTENSION: capability})),
        ]);
        Arc::new(Added { answer: Box::new(answer), capabilities, subscription: "evalsListChanged" })
    }

    /// Serves a client on standard input and output on behalf of a server that is connected through `stream`, one
    /// message per line, until the client disconnects. The client sees both as one server.
    pub async fn serve_stdio<S>(&self, stream: S)
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        let hub = self.hub(stream);
        serve_stdio(&hub, SessionKind::Client).await;
        hub.close().await;
    }

    /// A hub for a server that is connected through `stream`, one message per line: it serves any number of clients,
    /// also over HTTP.
    pub fn hub<S>(&self, stream: S) -> Hub
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        let (reader, writer) = tokio::io::split(stream);
        Hub::from_streams("server", reader, writer, HubOptions { added: Some(self.added()), ..HubOptions::default() })
    }
}

fn answer(pages: &Pages, params: Option<&str>) -> Result<String, (i64, String)> {
    let params: Option<Value> = match params.map(serde_json::from_str).transpose() {
        Ok(params) => params,
        Err(error) => return Err((INVALID_PARAMS, format!("`params` cannot be read: {error}"))),
    };
    let version = params.as_ref().and_then(|p| p.pointer("/_meta/io.modelcontextprotocol~1protocolVersion"));
    pages.list(params.as_ref(), version.is_some()).map_err(|why| (INVALID_PARAMS, why))
}

/// Watches the file forever. If it has changed and is valid, its evals are shipped, and `announce` is called if they
/// differ; if it is invalid, `complain` is called, and the evals are unchanged.
pub async fn watch(shipped: &Shipped, path: PathBuf, announce: impl Fn(), complain: impl Fn(&str)) {
    let mut known = stamp(&path);
    loop {
        tokio::time::sleep(INTERVAL).await;
        if stamp(&path) == known {
            continue;
        }
        tokio::time::sleep(SETTLE).await;
        known = stamp(&path);
        match std::fs::read(&path).map(|bytes| shipped.replace(&path, bytes)) {
            Ok(Ok(true)) => announce(),
            Ok(Ok(false)) => {}
            Ok(Err(fault)) => complain(&format!("the evals are unchanged:\n{fault}")),
            Err(error) => complain(&format!("the evals are unchanged: cannot read `{}`: {error}", path.display())),
        }
    }
}

fn stamp(path: &Path) -> Option<(SystemTime, u64)> {
    let meta = std::fs::metadata(path).ok()?;
    Some((meta.modified().ok()?, meta.len()))
}
