//! A stream whose input ends only when everything that was asked on it is answered: who pipes requests into a server and closes
//! the pipe wants the answers.

use std::{
    collections::HashSet,
    io,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, Waker, ready},
};

use rmcp::{RoleServer, service::RxJsonRpcMessage, transport::async_rw::DEFAULT_MAX_LINE_LENGTH};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::bytes::Bytes;

use crate::mcp::message::{IdKey, Message, Shape};

/// What was asked and is not answered.
#[derive(Default)]
struct Pending {
    ids: HashSet<IdKey>,
    /// Of the reader, once its input has ended.
    reader: Option<Waker>,
}

type Shared = Arc<Mutex<Pending>>;

pub(super) struct Input<R> {
    inner: R,
    line: Vec<u8>,
    pending: Shared,
}

pub(super) struct Output<W> {
    inner: W,
    line: Vec<u8>,
    pending: Shared,
}

pub(super) fn both<R, W>(input: R, output: W) -> (Input<R>, Output<W>) {
    let pending = Shared::default();
    let input = Input { inner: input, line: Vec::new(), pending: pending.clone() };
    (input, Output { inner: output, line: Vec::new(), pending })
}

/// Looks at each line that is complete now.
fn scan(line: &mut Vec<u8>, bytes: &[u8], mut see: impl FnMut(Message)) {
    for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
        line.extend_from_slice(piece);
        if piece.ends_with(b"\n") {
            Message::parse(Bytes::from(std::mem::take(line))).map(&mut see);
        }
    }
}

fn readable(message: &Message) -> bool {
    message.bytes.len() <= DEFAULT_MAX_LINE_LENGTH
        && serde_json::from_slice::<RxJsonRpcMessage<RoleServer>>(&message.bytes).is_ok()
}

impl<R: AsyncRead + Unpin> AsyncRead for Input<R> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buf.filled().len();
        ready!(Pin::new(&mut this.inner).poll_read(cx, buf))?;
        let mut pending = this.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let read = &buf.filled()[before..];
        scan(&mut this.line, read, |message| match (message.shape(), message.key()) {
            // What is no request to the one that answers has no answer with its id.
            (Shape::Request, Some(id)) if readable(&message) => drop(pending.ids.insert(id)),
            (Shape::Notification, _) if message.method.as_deref() == Some("notifications/cancelled") => {
                message.param("requestId").map(|id| pending.ids.remove(&IdKey::of(id)));
            }
            _ => {}
        });
        if read.is_empty() && buf.remaining() > 0 && !pending.ids.is_empty() {
            pending.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }
}

impl<W: AsyncWrite + Unpin> AsyncWrite for Output<W> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let written = ready!(Pin::new(&mut this.inner).poll_write(cx, buf))?;
        scan(&mut this.line, &buf[..written], |message| {
            if let (Shape::Response, Some(id)) = (message.shape(), message.key()) {
                let mut pending = this.pending.lock().unwrap_or_else(PoisonError::into_inner);
                pending.ids.remove(&id);
            }
        });
        Poll::Ready(Ok(written))
    }

    /// What has not been flushed is not answered.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.inner).poll_flush(cx))?;
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        if pending.ids.is_empty()
            && let Some(reader) = pending.reader.take()
        {
            reader.wake();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
