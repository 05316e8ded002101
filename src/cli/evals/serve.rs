//! `gevals evals serve`: adds evals to any MCP server.

use std::{net::SocketAddr, path::PathBuf};

use super::{Fault, Global, Reach, Reached};
use crate::{
    builtin::count,
    cli::{
        between::{self, Ended},
        status,
    },
    diagnostic,
    evals::{Fault as Wrong, Shipped, watch},
    host::disk::Disk,
    mcp::{Hub, HubOptions, SessionKind},
    primitive::{LIST_CHANGED, PAGE},
    source::Files,
};

const EXAMPLES: &str = "\
Examples:
  gevals evals serve evals.yaml -- npx -y @modelcontextprotocol/server-everything
      as a server command in a client's config
  gevals evals serve evals.yaml --http 127.0.0.1:8080 -- my-server
      over HTTP
  gevals evals serve evals.yaml --url https://example.org/mcp
      for an HTTP server

The server declares `evals`, answers `evals/list`, and notifies clients when the file changes. If a
changed file has errors, they are reported on standard error, and the previous evals stay in use.
All other messages are passed on unchanged.

Exit status: 0 the client has disconnected, 2 usage error, or the file has errors, 3 the server does
not start or has ended";

/// Add evals to any server, unmodified, through a proxy between it and the client.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A file of evals.
    file: PathBuf,
    /// A URL, or a name in the MCP config.
    server: Option<String>,
    /// Serve streamable HTTP at this address, at /mcp, instead of using standard input and output; local clients only.
    #[arg(long, value_name = "ADDR")]
    http: Option<SocketAddr>,
    /// Number of evals per page of the list.
    #[arg(long, value_name = "N", default_value_t = PAGE, value_parser = page_size)]
    page_size: usize,
    #[command(flatten)]
    reach: Reach,
}

fn page_size(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|size| *size > 0).ok_or_else(|| "write a number above 0".to_owned())
}

pub fn main(args: &Args, global: Global) -> u8 {
    between::run(args.http, serve(args, global))
}

async fn serve(args: &Args, global: Global) -> Result<(), Fault> {
    let Reached { spec, options, .. } = args.reach.server(args.server.as_deref())?;
    let path = &args.file;
    let bytes =
        Disk.read(path).map_err(|error| (status::USAGE, format!("cannot read `{}`: {error}", path.display())))?;
    let shipped = match Shipped::read(path, bytes, args.page_size) {
        Ok((shipped, warnings)) => {
            print(&warnings, global);
            shipped
        }
        Err(wrong) => {
            print(&wrong, global);
            return Err((status::USAGE, format!("`{}` has errors and is not served", path.display())));
        }
    };
    let secrets = options.secrets.clone();
    let options = HubOptions {
        initialize_timeout: options.timeout,
        max_message: options.max_message,
        secrets: options.secrets,
        added: Some(shipped.added()),
        ..HubOptions::default()
    };
    let broken = |why: String| (status::BROKEN, secrets.mask(&why).into_owned());
    let hub = Hub::start(spec, options).await.map_err(|error| broken(error.to_string()))?;
    let announce = || {
        between::say(&format!("`{}` has changed: {}", path.display(), count(shipped.len(), "eval", "evals")));
        hub.announce(LIST_CHANGED);
    };
    let complain = |why: &str| why.lines().for_each(between::say);
    let watching = watch(&shipped, path.clone(), announce, complain);
    let served = between::serve(&hub, SessionKind::Client, args.http, watching).await;
    let failure = hub.failure();
    hub.close().await;
    for notice in hub.notices() {
        between::say(&format!("note: {}", notice.text));
    }
    match (served?, failure) {
        (Ended::Lost, Some(failure)) => Err(broken(failure.to_string())),
        _ => Ok(()),
    }
}

/// Prints findings to standard error, because standard output belongs to the client.
fn print(wrong: &Wrong, global: Global) {
    if wrong.findings.is_empty() {
        return;
    }
    let err = std::io::stderr();
    let mut text = String::new();
    let found = diagnostic::gather(wrong.findings.clone());
    let _ = diagnostic::print(&found, &wrong.sources, &global.pretty(&err), &mut text);
    let _ = std::io::Write::write_all(&mut err.lock(), text.as_bytes());
}
