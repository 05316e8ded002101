//! `gevals evals conformance`: whether a server conforms to the evals primitive.

use std::path::PathBuf;

use super::{Fault, Global, Reach, Reached, with_server};
use crate::{
    cli::{complain, print, status},
    conformance::{FORMATS, Judgement, listed, write},
    evals::{REQUIREMENTS, conformance, connect},
    host::disk::Disk,
    source::Files,
};

const EXAMPLES: &str = "\
Examples:
  gevals evals conformance -- my-server
  gevals evals conformance --format junit https://example.org/mcp > conformance.xml
  gevals evals conformance --expected-failures known.txt -- my-server
  gevals evals conformance --list                    list the requirements, with their numbers

gevals connects to the server twice. Nothing is run: no tool is called, no model is used.

A file of expected failures has one number per line; `#` starts a comment. A listed requirement that
does not fail is a failure. A SHOULD that is not followed is a warning, or a failure with --strict.

Exit status: 0 the server meets every MUST that could be tested, 1 it does not, 2 usage error, or
the server ships no evals, 3 the server does not start";

/// Test whether a server conforms to the evals primitive, requirement by requirement.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A URL, or a name in the MCP config.
    server: Option<String>,
    /// Output format.
    #[arg(long, default_value = FORMATS[0], value_parser = FORMATS)]
    format: String,
    /// A file of requirements that the server is known to violate.
    #[arg(long, value_name = "FILE")]
    expected_failures: Option<PathBuf>,
    /// Treat SHOULD as MUST.
    #[arg(long)]
    strict: bool,
    /// Only list the requirements.
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    reach: Reach,
}

pub fn main(args: &Args, _: Global) -> u8 {
    if args.list {
        print(&listed(&REQUIREMENTS));
        return status::OK;
    }
    let wanted = judgement(args).and_then(|judgement| Ok((judgement, args.reach.server(args.server.as_deref())?)));
    let (judgement, reached) = match wanted {
        Ok(wanted) => wanted,
        Err((code, why)) => {
            complain(&why);
            return code;
        }
    };
    let Reached { spec, options, .. } = reached;
    let once_more = (spec.clone(), options.clone());
    with_server(Reached { spec, options, configured: None }, async |server| {
        let (spec, options) = once_more;
        let again = connect(spec, options).await.map_err(|error| (status::BROKEN, error.to_string()))?;
        let results = conformance(server, &again).await;
        again.close().await;
        let Some(results) = results else {
            let why =
                format!("the server `{}` ships no evals: it does not declare the capability `evals`", server.name);
            return Err((status::USAGE, why));
        };
        print(&write(&args.format, &server.name, &results, &judgement));
        Ok(if judgement.is_met(&results) { status::OK } else { status::NO })
    })
}

fn judgement(args: &Args) -> Result<Judgement, Fault> {
    let Some(path) = &args.expected_failures else { return Ok(Judgement::of(args.strict)) };
    let usage = |why: String| (status::USAGE, why);
    let bytes = Disk.read(path).map_err(|error| usage(format!("cannot read `{}`: {error}", path.display())))?;
    let text = String::from_utf8(bytes).map_err(|_| usage(format!("`{}` is not valid UTF-8", path.display())))?;
    Judgement::read(&text, &REQUIREMENTS, args.strict).map_err(|why| usage(format!("`{}`, {why}", path.display())))
}
