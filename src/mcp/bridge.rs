//! Makes a streamable HTTP server available to clients that use standard input and output.

use std::time::Duration;

use indexmap::IndexMap;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::{Hub, HubOptions, ServerError, ServerSpec, SessionKind, Transport};

/// Serves MCP on standard input and output on behalf of a streamable HTTP server.
pub async fn bridge_stdio(url: &str) -> Result<(), ServerError> {
    bridge(url, tokio::io::stdin(), tokio::io::stdout()).await
}

/// Serves MCP, one message per line, on behalf of a streamable HTTP server, until the input ends and all requests are
/// answered.
pub async fn bridge<R, W>(url: &str, input: R, output: W) -> Result<(), ServerError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let transport = Transport::Http { url: url.to_owned(), headers: IndexMap::new() };
    // Both ends have their own deadlines.
    let options = HubOptions { initialize_timeout: Duration::from_secs(24 * 60 * 60), ..HubOptions::default() };
    let hub = Hub::start(ServerSpec { name: "gevals".to_owned(), transport }, options).await?;
    serve(&hub, SessionKind::Own, input, output).await;
    hub.close().await;
    Ok(())
}

/// Serves a session of the hub on standard input and output, until the input ends and all requests are answered.
pub async fn serve_stdio(hub: &Hub, kind: SessionKind) {
    serve(hub, kind, tokio::io::stdin(), tokio::io::stdout()).await;
}

async fn serve<R, W>(hub: &Hub, kind: SessionKind, mut input: R, mut output: W)
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let (mut reader, mut writer) = tokio::io::split(hub.connect(kind));
    let inwards = async {
        let _ = tokio::io::copy(&mut input, &mut writer).await;
        // The last input is still on its way into the hub, and the last answer on its way out.
        loop {
            tokio::time::sleep(Duration::from_millis(50)).await;
            if !hub.is_busy() {
                return tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    };
    let outwards = async {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(read @ 1..) = reader.read(&mut buffer).await {
            if output.write_all(&buffer[..read]).await.is_err() || output.flush().await.is_err() {
                break;
            }
        }
    };
    tokio::select! {
        () = inwards => {}
        () = outwards => {}
    }
}
