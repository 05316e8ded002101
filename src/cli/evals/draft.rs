//! `gevals evals draft`: a first suite for a server, from its tools.

use std::path::PathBuf;

use super::{Fault, Global, Reach, visible_lines, with_server};
use crate::{
    builtin::count,
    cli::{between, complain, print, status},
    evals::{Drafted, draft},
    host::disk::{Disk, write_atomic},
    source::Files,
};

const EXAMPLES: &str = "\
Examples:
  gevals evals draft -- my-server > evals.yaml
  gevals evals draft --output evals.yaml https://example.org/mcp
  gevals evals draft --allow-execution -- my-server
all tools, not only those declared as read-only

Each tool is called twice, with arguments from its schema: only the required ones, by `default`,
`const`, `enum`, `examples`, or the simplest value. A tool is skipped if its answers differ, contain
a secret or the environment, or report an error; standard error shows which tools, and why.

Exit status: 0 written, 1 no eval could be drafted: nothing is written, 2 usage error, or the file
already exists, 3 the server does not start or does not list its tools";

/// The minimum length in bytes of a variable's value that cannot be in a text by chance.
const SHORTEST: usize = 4;

/// Draft a first suite of evals from the tools of a server.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A URL, or a name in the MCP config.
    server: Option<String>,
    /// Write to this file instead of standard output; an existing file is not overwritten.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Also call tools that are not declared as read-only: they may change or delete something.
    #[arg(long)]
    allow_execution: bool,
    #[command(flatten)]
    reach: Reach,
}

pub fn main(args: &Args, _: Global) -> u8 {
    let reached = free(args).and_then(|()| args.reach.server(args.server.as_deref()));
    let reached = match reached {
        Ok(reached) => reached,
        Err((code, why)) => {
            complain(&why);
            return code;
        }
    };
    let secrets = reached.options.secrets.clone();
    let variables: Vec<(String, String)> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(_, value)| value.len() >= SHORTEST)
        .collect();
    let private = |text: &str| {
        let shown = |(name, value): &&(String, String)| text.contains(name.as_str()) && text.contains(value.as_str());
        match variables.iter().filter(shown).count() {
            _ if secrets.mask(text) != text => Some("its answer contains a secret".to_owned()),
            0 | 1 => None,
            _ => Some("its answer contains environment variables".to_owned()),
        }
    };
    with_server(reached, async |server| {
        let drafted = draft(server, args.allow_execution, &private).await;
        let drafted =
            drafted.map_err(|e| (status::BROKEN, format!("`tools/list` of `{}`: {}", server.name, server.lost(&e))))?;
        let Drafted { text, evals, left_out } = drafted;
        for (tool, why) in &left_out {
            between::say(&visible_lines(&format!("skipped: `{tool}`: {why}")));
        }
        if evals == 0 {
            return Err((status::NO, format!("no eval can be drafted for `{}`", server.name)));
        }
        match &args.output {
            None => print(&text),
            Some(path) => {
                free(args)?;
                let fault = |e: std::io::Error| (status::BROKEN, format!("cannot write `{}`: {e}", path.display()));
                write_atomic(path, text.as_bytes()).map_err(fault)?;
                print(&format!("wrote {}: {}\n", path.display(), count(evals, "eval", "evals")));
            }
        }
        Ok(status::OK)
    })
}

fn free(args: &Args) -> Result<(), Fault> {
    match args.output.as_deref().filter(|path| Disk.stat(path).is_some()) {
        Some(path) => Err((status::USAGE, format!("`{}` already exists and will not be overwritten", path.display()))),
        None => Ok(()),
    }
}
