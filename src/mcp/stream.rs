//! A server's end of a byte stream, one message per line. Its input ends only when all requests are answered: a client
//! that pipes requests into a server and closes the pipe wants the answers.

use std::{collections::HashSet, io, sync::Arc};

use rmcp::{
    RoleServer,
    model::{ClientNotification, JsonRpcMessage, RequestId},
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::{Transport, async_rw::DEFAULT_MAX_LINE_LENGTH},
};
use serde::de::IgnoredAny;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf},
    sync::{Mutex, watch},
    task::JoinHandle,
};
use tokio_util::{bytes::Bytes, sync::CancellationToken};

use super::{
    child::Lines,
    message::{self, Message, Shape},
};

const NO_JSON: i64 = -32700;
const NO_MESSAGE: i64 = -32600;

pub(super) struct Stream<S> {
    lines: Lines<ReadHalf<S>>,
    /// Inside a line that is too long.
    skipping: bool,
    output: Output<S>,
    /// Requests that have not been answered.
    pending: watch::Sender<HashSet<RequestId>>,
    /// The answer to an invalid message, while it is being written.
    refusal: Option<JoinHandle<io::Result<()>>>,
    left: CancellationToken,
}

/// `None` once it is closed.
type Output<S> = Arc<Mutex<Option<WriteHalf<S>>>>;

/// `left` is canceled when the client has closed its end.
pub(super) fn of<S: AsyncRead + AsyncWrite>(stream: S, left: CancellationToken) -> Stream<S> {
    let (input, output) = tokio::io::split(stream);
    let lines = Lines::new(input, DEFAULT_MAX_LINE_LENGTH);
    let (pending, output) = (watch::Sender::default(), Arc::new(Mutex::new(Some(output))));
    Stream { lines, skipping: false, output, pending, refusal: None, left }
}

async fn write<S: AsyncRead + AsyncWrite>(output: &Output<S>, mut line: Vec<u8>) -> io::Result<()> {
    line.push(b'\n');
    let mut output = output.lock().await;
    let output = output.as_mut().ok_or(io::ErrorKind::NotConnected)?;
    output.write_all(&line).await?;
    output.flush().await
}

/// Parses a message; on failure, returns the refusal to send. Invalid notifications and responses get no answer.
fn read(line: &[u8]) -> Result<RxJsonRpcMessage<RoleServer>, Option<Bytes>> {
    if line.trim_ascii().is_empty() {
        return Err(None);
    }
    serde_json::from_slice(line).map_err(|error| {
        if str::from_utf8(line).is_err() || serde_json::from_slice::<IgnoredAny>(line).is_err() {
            return Some(message::refusal("null", NO_JSON, &format!("this line is no JSON: {error}")));
        }
        let message = Message::parse(Bytes::copy_from_slice(line));
        match message.as_ref().map(Message::shape) {
            Some(Shape::Notification | Shape::Response) => None,
            _ => {
                let id = message.as_ref().and_then(Message::id).unwrap_or("null");
                Some(message::refusal(id, NO_MESSAGE, "this is no message of JSON-RPC 2.0"))
            }
        }
    })
}

impl<S: AsyncRead + AsyncWrite + Send + 'static> Stream<S> {
    fn refuse(&mut self, line: Bytes) {
        let output = self.output.clone();
        self.refusal = Some(tokio::spawn(async move { write(&output, line.into()).await }));
    }
}

impl<S: AsyncRead + AsyncWrite + Send + 'static> Transport<RoleServer> for Stream<S> {
    type Error = io::Error;

    fn send(&mut self, message: TxJsonRpcMessage<RoleServer>) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let (output, pending) = (self.output.clone(), self.pending.clone());
        async move {
            let written = match serde_json::to_vec(&message) {
                Ok(line) => write(&output, line).await,
                Err(error) => Err(error.into()),
            };
            let answered = match message {
                JsonRpcMessage::Response(response) => Some(response.id),
                JsonRpcMessage::Error(error) => error.id,
                JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
            };
            pending.send_if_modified(|ids| answered.is_some_and(|id| ids.remove(&id)));
            written
        }
    }

    /// Cancellation-safe: may be dropped at any await without losing anything.
    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            if let Some(refusal) = &mut self.refusal {
                let written = refusal.await;
                self.refusal = None;
                written.ok()?.ok()?;
            }
            if self.skipping {
                let is_over = self.lines.skip(|_| true).await.ok()?;
                self.skipping = false;
                if is_over {
                    let why = format!("a line of more than {DEFAULT_MAX_LINE_LENGTH} bytes is not read");
                    self.refuse(message::refusal("null", NO_MESSAGE, &why));
                    continue;
                }
            }
            let line = match self.lines.next().await {
                Ok(Some(line)) => line,
                Ok(None) => {
                    self.left.cancel();
                    let _ = self.pending.subscribe().wait_for(HashSet::is_empty).await;
                    return None;
                }
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    self.skipping = true;
                    continue;
                }
                Err(_) => return None,
            };
            match read(line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&line)) {
                Ok(message) => {
                    self.pending.send_if_modified(|ids| match &message {
                        JsonRpcMessage::Request(request) => ids.insert(request.id.clone()),
                        JsonRpcMessage::Notification(notification) => match &notification.notification {
                            ClientNotification::CancelledNotification(cancelled) => {
                                cancelled.params.request_id.as_ref().is_some_and(|id| ids.remove(id))
                            }
                            _ => false,
                        },
                        _ => false,
                    });
                    return Some(message);
                }
                Err(Some(refusal)) => self.refuse(refusal),
                Err(None) => {}
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        drop(self.output.lock().await.take());
        Ok(())
    }
}
