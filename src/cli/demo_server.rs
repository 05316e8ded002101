//! `gevals demo-server`: a small MCP server for experiments.

use std::{net::SocketAddr, path::PathBuf};

use tokio_util::sync::CancellationToken;

use super::{complain, note, status};
use crate::mcp::demo;

const EXAMPLES: &str = "\
Examples:
  gevals demo-server                          as a server command in a client's config
  gevals demo-server --http 127.0.0.1:8080    over HTTP, until Ctrl-C

Exit status: 0 the client has disconnected, or the server was stopped, 2 usage error, 3 the address
or the directory cannot be used";

/// Serve a notes store over MCP, with tools, resources and prompts to try gevals on.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The directory for the notes, one file per note; created if it does not exist.
    #[arg(long, default_value = "notes")]
    dir: PathBuf,
    /// Serve streamable HTTP at this address instead of using standard input and output.
    #[arg(long, value_name = "ADDR")]
    http: Option<SocketAddr>,
}

pub fn main(args: &Args) -> u8 {
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(&format!("cannot start: {error}"));
            return status::BROKEN;
        }
    };
    let served = runtime.block_on(async {
        let Some(address) = args.http else { return demo::serve_stdio(&args.dir).await };
        let listener = tokio::net::TcpListener::bind(address).await?;
        note(&format!("listening on http://{}/mcp", listener.local_addr()?));
        let stop = CancellationToken::new();
        let stopper = stop.clone();
        tokio::spawn(async move {
            let _ = tokio::signal::ctrl_c().await;
            stopper.cancel();
        });
        demo::serve_http(&args.dir, listener, stop).await
    });
    // Standard input is read by a thread that cannot be stopped.
    runtime.shutdown_background();
    match served {
        Ok(()) => status::OK,
        Err(error) => {
            complain(&format!("the notes server ended: {error}"));
            status::BROKEN
        }
    }
}
