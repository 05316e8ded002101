//! `gevals evals lock`: records which evals a server ships.

use std::path::PathBuf;

use super::{Global, Reach, pinned, pinned::Pinned, ready, with_server};
use crate::{
    builtin::count,
    cli::{complain, packages, print, status},
    diagnostic::visible,
    host::disk::write_atomic,
    lock::{Lock, LockedEvals},
};

const EXAMPLES: &str = "\
Examples:
  gevals evals lock -- my-server                     writes gevals.lock in this directory
  gevals evals lock --mcp-config mcp.json notes      beside the config, under the name `notes`
  gevals evals lock --lock ci/gevals.lock https://example.org/mcp

The lock contains digests, not the evals themselves. Its other entries are kept: tools of servers,
extensions, sources. `gevals evals diff` shows what has changed since; `gevals evals run --locked`
runs nothing that differs from the lock.

Exit status: 0 written, 2 usage error, or the server ships no evals or invalid ones, 3 the server
does not start or does not list them, or the lock cannot be written";

/// Lock the evals that a server ships: record their digests in gevals.lock.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A URL, or a name in the MCP config.
    server: Option<String>,
    /// The lock [default: gevals.lock beside the MCP config, or in the current directory].
    #[arg(long, value_name = "FILE")]
    lock: Option<PathBuf>,
    #[command(flatten)]
    reach: Reach,
}

pub fn main(args: &Args, _: Global) -> u8 {
    let reached = match args.reach.server(args.server.as_deref()) {
        Ok(reached) => reached,
        Err((code, why)) => {
            complain(&why);
            return code;
        }
    };
    let pinned = Pinned::of(args.lock.as_deref(), &args.reach, &reached);
    with_server(reached, async |server| {
        let shipped = ready::sound(server, None).await?;
        let now = LockedEvals::of(&server.version, &shipped.evals);
        let mut lock = pinned.read()?.unwrap_or_default();
        let name = pinned.name(server).to_owned();
        if let Some(then) = lock.evals.get(&name) {
            print(&pinned::told(&then.changes(&now)));
        }
        let evals = count(now.evals.len(), "eval", "evals");
        lock.evals.insert(name.clone(), now);
        let path = pinned.path.display();
        let fault = |why: String| (status::BROKEN, format!("cannot write `{path}`: {why}"));
        let text = packages::text(&Lock { version: 1, ..lock }).map_err(fault)?;
        write_atomic(&pinned.path, text.as_bytes()).map_err(|error| fault(error.to_string()))?;
        print(&format!("locked {evals} of {} in {path}\n", visible(&name.replace('\n', " "))));
        Ok(status::OK)
    })
}
