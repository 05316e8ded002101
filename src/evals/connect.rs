//! A connection to a server whose evals are listed.

use std::{sync::Arc, time::Duration};

use serde_json::Value;

use crate::{
    mcp::{CallError, Client, ClientOptions, Hub, HubOptions, ServerError, ServerSpec, SessionKind},
    primitive::{CAPABILITY, Tools},
    secrets::Secrets,
};

/// Options for a connection to a server.
#[derive(Debug, Clone)]
pub struct ConnectOptions {
    /// Timeout for each answer.
    pub timeout: Duration,
    /// Maximum size of a message, in either direction, in bytes.
    pub max_message: usize,
    /// Masked in messages about the server.
    pub secrets: Arc<Secrets>,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        let HubOptions { initialize_timeout: timeout, max_message, secrets, .. } = HubOptions::default();
        Self { timeout, max_message, secrets }
    }
}

/// A server that has completed the handshake, with an open session.
#[derive(Debug)]
pub struct Server {
    pub hub: Hub,
    pub client: Client,
    /// The name that it reports; otherwise the name that it was configured under.
    pub name: String,
    /// The version that it reports, or empty.
    pub version: String,
    /// Its capability for evals: `{"listChanged": true}`. `None`: it does not support the primitive.
    pub capability: Option<Value>,
}

/// Starts or connects to a server, and opens a session.
///
/// # Errors
/// It does not start, cannot be reached, or does not speak MCP.
pub async fn connect(spec: ServerSpec, options: ConnectOptions) -> Result<Server, ServerError> {
    let ConnectOptions { timeout, max_message, secrets } = options;
    let reached = spec.name.clone();
    let options = HubOptions { initialize_timeout: timeout, max_message, secrets, ..HubOptions::default() };
    let hub = Hub::start(spec, options).await?;
    let options = ClientOptions { timeout: Some(timeout), ..ClientOptions::default() };
    let client = match hub.client(SessionKind::Own, options).await {
        Ok(client) => client,
        Err(error) => {
            hub.close().await;
            return Err(error);
        }
    };
    let said = client.server().cloned().unwrap_or_default();
    let text = |key: &str| {
        // Without a handshake the server's name is in `_meta`, or in its former place.
        let pointers = [format!("/serverInfo/{key}"), format!("/_meta/io.modelcontextprotocol~1serverInfo/{key}")];
        pointers.iter().find_map(|at| said.pointer(at)?.as_str()).map(str::to_owned)
    };
    let name = text("name").filter(|name| !name.trim().is_empty()).unwrap_or(reached);
    let version = text("version").unwrap_or_default();
    let capability = declared(&said);
    Ok(Server { hub, client, name, version, capability })
}

/// The capability for evals in the answer to `initialize` or `server/discover`: at the top of the capabilities, or in
/// the places for clients and libraries that drop unknown keys.
fn declared(server: &Value) -> Option<Value> {
    let capabilities = server.get("capabilities")?;
    let extensions = capabilities.get("extensions").and_then(Value::as_object).into_iter().flatten();
    let extension = extensions.filter(|(name, _)| name.rsplit('/').next() == Some(CAPABILITY)).map(|(_, value)| value);
    let mut places = [capabilities.get(CAPABILITY), capabilities.pointer("/experimental/evals")]
        .into_iter()
        .flatten()
        .chain(extension);
    places.find(|value| value.is_object()).cloned()
}

impl Server {
    /// Lists its tools, over all pages.
    ///
    /// # Errors
    /// It refused the request, or was lost.
    pub async fn tools(&self) -> Result<Tools, CallError> {
        Ok(Tools::listed(&self.name, &self.client.list_tools().await?))
    }

    /// Ends the session and the server.
    pub async fn close(self) {
        drop(self.client);
        self.hub.close().await;
    }

    /// The message of an error; if the server has ended, the reason for that.
    pub fn lost(&self, error: &CallError) -> String {
        match (error, self.hub.failure()) {
            (CallError::Lost(_) | CallError::Closed, Some(failure)) => failure.to_string(),
            _ => error.to_string(),
        }
    }
}
