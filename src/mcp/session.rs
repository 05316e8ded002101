//! A session in this process: one JSON-RPC message per line, in both directions.

use std::{
    fmt, io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf};
use tokio_util::sync::CancellationToken;

use super::{
    child::Lines,
    message::{self, Skim},
    relay::{Envelope, Port, Relay, SessionKind},
};

/// The near end of a session in this process. Dropping it ends the session.
pub struct Session {
    stream: DuplexStream,
    relay: Arc<Relay>,
    id: u64,
    ended: CancellationToken,
}

impl Session {
    pub(super) fn open(relay: &Arc<Relay>, kind: SessionKind) -> Session {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let port = relay.open(kind);
        let id = port.id;
        let (reader, writer) = tokio::io::split(far);
        let ended = port.ended.clone();
        tokio::spawn(read(relay.clone(), id, reader, ended.clone()));
        tokio::spawn(write(port, writer));
        Session { stream: near, relay: relay.clone(), id, ended }
    }

    /// The session's number in [`Traffic`](super::Traffic).
    pub fn id(&self) -> u64 {
        self.id
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Session({}, {})", self.relay.name, self.id)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.relay.end(self.id);
        self.ended.cancel();
    }
}

impl AsyncRead for Session {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Session {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

async fn read(relay: Arc<Relay>, session: u64, reader: impl AsyncRead + Unpin, ended: CancellationToken) {
    let mut lines = Lines::new(reader, relay.options.max_message);
    let reading = async {
        loop {
            match lines.next().await {
                Ok(Some(line)) => relay.from_session(session, line, Envelope::default()).await,
                // The client may still read; only dropping the session ends it.
                Ok(None) => return,
                Err(_) => {
                    let mut skim = Skim::default();
                    match lines.skip(|piece| skim.feed(piece)).await {
                        Ok(true) => relay.too_long_from_session(session, &skim),
                        _ => {
                            let limit = relay.options.max_message;
                            let text = format!("a client was disconnected: it sent a line of more than {limit} bytes");
                            relay.notice(Some(session), &text);
                            return relay.end(session);
                        }
                    }
                }
            }
        }
    };
    tokio::select! {
        () = reading => {}
        () = ended.cancelled() => {}
    }
}

async fn write(mut port: Port, mut writer: impl AsyncWrite + Unpin) {
    let ended = port.ended.clone();
    let writing = async {
        while let Some(message) = port.next().await {
            let mut line = Vec::with_capacity(message.len() + 1);
            line.extend_from_slice(&message::single_line(message));
            line.push(b'\n');
            if writer.write_all(&line).await.is_err() {
                break;
            }
        }
    };
    tokio::select! {
        () = writing => {}
        () = ended.cancelled() => {}
    }
}
