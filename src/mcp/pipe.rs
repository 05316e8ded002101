//! The connection to a server that uses a pair of byte streams, one message per line; usually a process.

use std::{io, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    sync::mpsc,
};
use tokio_util::sync::CancellationToken;

use super::{
    ServerError,
    child::Lines,
    message::{self, Skim},
    relay::{Outgoing, Relay},
};

/// Consecutive lines that are not messages, after which gevals gives up on the server.
const RUBBISH: usize = 200;

pub(super) async fn write(
    mut writer: impl AsyncWrite + Unpin,
    mut queue: mpsc::UnboundedReceiver<Outgoing>,
    over: CancellationToken,
) {
    let writing = async {
        let mut line = Vec::new();
        while let Some(outgoing) = queue.recv().await {
            line.clear();
            line.extend_from_slice(&message::single_line(outgoing.message));
            line.push(b'\n');
            // If the server no longer reads, its output shows that it has ended.
            if writer.write_all(&line).await.is_err() || writer.flush().await.is_err() {
                break;
            }
            line.shrink_to(1 << 20);
        }
        let _ = writer.shutdown().await;
    };
    tokio::select! {
        () = writing => {}
        () = over.cancelled() => {}
    }
}

pub(super) async fn read(relay: Arc<Relay>, reader: impl AsyncRead + Unpin) {
    let mut lines = Lines::new(reader, relay.options.max_message);
    let mut rubbish = 0;
    // A descendant that left the group may keep the output open after the server has ended.
    let straggling = async {
        match relay.process() {
            Some(process) => {
                process.wait().await;
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            None => std::future::pending().await,
        }
    };
    tokio::pin!(straggling);
    let server = relay.name.clone();
    let error = loop {
        let line = tokio::select! {
            line = lines.next() => line,
            () = &mut straggling => break ended(&relay).await,
            () = relay.over.cancelled() => return,
        };
        match line {
            Ok(Some(line)) if line.trim_ascii().is_empty() => {}
            Ok(Some(line)) => {
                if relay.from_server(0, line.clone()) {
                    rubbish = 0;
                    continue;
                }
                rubbish += 1;
                let excerpt = relay.excerpt(&line, 100);
                if rubbish > RUBBISH {
                    break ServerError::NotMcp { server, excerpt };
                }
                if rubbish <= 5 {
                    relay.notice(None, &format!("the server printed a line that is no message: {excerpt}"));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                let mut skim = Skim::default();
                let skipped = tokio::select! {
                    skipped = lines.skip(|piece| skim.feed(piece)) => skipped,
                    () = &mut straggling => break ended(&relay).await,
                    () = relay.over.cancelled() => return,
                };
                match skipped {
                    Ok(true) => relay.too_long_from_server(0, &skim),
                    _ => break ServerError::TooLong { server, limit: relay.options.max_message },
                }
            }
            Ok(None) | Err(_) => break ended(&relay).await,
        }
    };
    relay.fail(error);
    if let Some(process) = relay.process() {
        process.close(relay.options.close_grace).await;
    }
}

async fn ended(relay: &Relay) -> ServerError {
    let status = match relay.process() {
        Some(process) => tokio::time::timeout(Duration::from_secs(1), process.wait_for_all()).await.ok(),
        None => None,
    };
    ServerError::Exited {
        server: relay.name.clone(),
        status: status.unwrap_or_else(|| "closed its output".to_owned()),
        stderr: relay.stderr(),
    }
}
