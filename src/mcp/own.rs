//! Servers that gevals itself provides: over a byte stream, or over HTTP for clients on this machine.

use std::{io, sync::Arc};

use rmcp::{
    ServerHandler, ServiceExt,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
    },
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
};
use tokio_util::sync::CancellationToken;

use super::stream;
use crate::host::listen;

/// Serves on standard input and output, until the client disconnects and all requests are answered. `left` is canceled
/// when it disconnects.
///
/// # Errors
/// The server stopped because of an internal error.
pub async fn serve_stdio(server: impl ServerHandler, left: CancellationToken) -> io::Result<()> {
    serve(server, tokio::io::join(tokio::io::stdin(), tokio::io::stdout()), left).await
}

/// Like [`serve_stdio`], on any byte stream.
///
/// # Errors
/// The server stopped because of an internal error.
pub async fn serve(
    server: impl ServerHandler,
    stream: impl AsyncRead + AsyncWrite + Send + 'static,
    left: CancellationToken,
) -> io::Result<()> {
    // It is not an error if a client disconnects before the handshake.
    if let Ok(running) = server.serve(stream::of(stream, left)).await {
        running.waiting().await.map_err(io::Error::other)?;
    }
    Ok(())
}

/// Serves streamable HTTP at `/mcp`, until `stop` is canceled. Requests whose `Host` is not this machine are refused.
///
/// # Errors
/// The listener fails.
pub async fn serve_http(
    server: impl ServerHandler + Clone,
    listener: TcpListener,
    stop: CancellationToken,
) -> io::Result<()> {
    let config = StreamableHttpServerConfig::default().with_cancellation_token(stop.clone());
    let service =
        StreamableHttpService::new(move || Ok(server.clone()), Arc::new(LocalSessionManager::default()), config);
    let router = axum::Router::new().route_service("/mcp", service);
    axum::serve(listen::without_delay(listener), router).with_graceful_shutdown(stop.cancelled_owned()).await
}
