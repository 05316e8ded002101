//! `gevals evals`: the evals that an MCP server ships with its tools.

mod agent;
mod check;
mod conformance;
mod diff;
mod draft;
mod export;
mod import;
mod list;
mod lock;
mod loss;
mod pinned;
mod ready;
mod run;
mod serve;
mod strength;

use std::{
    future::Future,
    path::{Path, PathBuf},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use super::{
    Global,
    between::{self, Fault},
    complain, status, warn,
};
use crate::{
    diagnostic::{Diagnostics, Pretty, Strength, concise, nearest},
    dialect::mcp_config,
    evals::{ConnectOptions, Server, connect},
    host::{RealHost, disk::Disk},
    mcp::ServerSpec,
    primitive::Level,
    run::{environment_secrets, specs},
    secrets::Secrets,
    source::{Files, Sources},
    ty::duration,
    yaml,
};

const EXAMPLES: &str = "\
Examples:
  gevals evals list -- my-server                         list the evals that a server ships
  gevals evals list --level invocation https://x.org/mcp
  gevals evals check --mcp-config mcp.json notes         check them
  gevals evals check evals.yaml                          check a file that is not shipped yet
  gevals evals run --allow-execution -- my-server        run them
  gevals evals strength --allow-execution -- my-server   measure which broken tools they detect
  gevals evals serve evals.yaml -- my-server             add evals to any server, unmodified
  gevals evals conformance -- my-server                  test whether it conforms to the primitive
  gevals evals draft -- my-server                        draft a first suite from its tools
  gevals evals lock -- my-server                         lock the evals it ships
  gevals evals diff -- my-server                         show what has changed since
  gevals evals import -o suite -- my-server              write portable tasks for a server's evals
  gevals evals export suite -o evals.yaml                write evals for portable tasks

`gevals explain evals` describes what an eval is and what a file of evals contains.";

/// List, check, run, measure, serve and lock the evals that an MCP server ships with its tools.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    List(list::Args),
    Check(check::Args),
    Run(Box<run::Args>),
    Strength(Box<strength::Args>),
    Serve(serve::Args),
    Conformance(conformance::Args),
    Draft(draft::Args),
    Lock(lock::Args),
    Diff(diff::Args),
    Export(export::Args),
    Import(Box<import::Args>),
}

pub fn main(args: &Args, global: Global) -> u8 {
    match &args.command {
        Command::List(args) => list::main(args, global),
        Command::Check(args) => check::main(args, global),
        Command::Run(args) => run::main(args, global),
        Command::Strength(args) => strength::main(args, global),
        Command::Serve(args) => serve::main(args, global),
        Command::Conformance(args) => conformance::main(args, global),
        Command::Draft(args) => draft::main(args, global),
        Command::Lock(args) => lock::main(args, global),
        Command::Diff(args) => diff::main(args, global),
        Command::Export(args) => export::main(args, global),
        Command::Import(args) => import::main(args, global),
    }
}

/// The options that say how a server is reached.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Reach {
    /// The URL of a streamable HTTP server.
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// A header for every request to the URL, as `Name: value`; repeat it for several.
    #[arg(long, value_name = "HEADER", value_parser = between::header)]
    header: Vec<(String, String)>,
    /// An MCP config; SERVER is a name in it.
    #[arg(long, value_name = "FILE")]
    mcp_config: Option<PathBuf>,
    /// Timeout of each answer of the server.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = limit)]
    timeout: Duration,
    /// Maximum size of a message, in either direction, in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=4096))]
    max_message: u16,
    /// The command of the server and its arguments.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

fn limit(text: &str) -> Result<Duration, String> {
    match duration::parse(text) {
        Ok(limit) if !limit.is_zero() => Ok(limit),
        Ok(_) => Err("it must not be zero".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Parses a level.
fn level(text: &str) -> Result<Level, String> {
    let known = || Level::ALL.map(Level::name).join(", ");
    Level::named(text).ok_or_else(|| format!("expected one of {}", known()))
}

/// How a server is reached, and the secrets that must be masked.
struct Reached {
    spec: ServerSpec,
    options: ConnectOptions,
    /// Its entry in the MCP config, with the directory of that file.
    configured: Option<(crate::hir::Server, PathBuf)>,
}

/// A server of an MCP config: how it is reached, its secrets, and its entry.
type Configured = (ServerSpec, Vec<String>, Option<(crate::hir::Server, PathBuf)>);

impl Reach {
    /// Interprets the words of a command line: a word that does not name a server is a file. If a server is named, it
    /// is resolved.
    fn wanted<'a>(&self, words: &'a [String]) -> Result<Wanted<'a>, Fault> {
        let is_url = |word: &str| word.starts_with("http://") || word.starts_with("https://");
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let names_server = |word: &str| is_url(word) || self.mcp_config.is_some();
        let (file, server) = match words.as_slice() {
            [] => (None, None),
            [one] if names_server(one) => (None, Some(*one)),
            [file] => (Some(*file), None),
            [file, server] => (Some(*file), Some(*server)),
            _ => return Err((status::USAGE, "specify a file and a server".to_owned())),
        };
        let has_server = server.is_some() || self.names_one() || self.mcp_config.is_some();
        let server = match file.is_none() || has_server {
            true => Some(self.server(server)?),
            false => None,
        };
        Ok(Wanted { file, server })
    }

    /// Whether the options name a server without a further word.
    fn names_one(&self) -> bool {
        self.url.is_some() || !self.command.is_empty()
    }

    /// The server that the options and an optional word specify: a URL, or a name in the MCP config.
    fn server(&self, word: Option<&str>) -> Result<Reached, Fault> {
        let usage = |text: &str| (status::USAGE, text.to_owned());
        let is_url = |word: &&str| word.starts_with("http://") || word.starts_with("https://");
        let url = self.url.as_deref().or(word.filter(is_url).filter(|_| self.mcp_config.is_none()));
        let ways = [!self.command.is_empty(), url.is_some(), self.mcp_config.is_some()];
        if ways.iter().filter(|way| **way).count() > 1 {
            return Err(usage("specify one server: `-- COMMAND`, a URL, or `--mcp-config FILE NAME`"));
        }
        if !self.header.is_empty() && url.is_none() {
            return Err(usage("`--header` requires a server with a URL"));
        }
        let (spec, secrets, configured) = match &self.mcp_config {
            Some(path) => self.configured(path, word)?,
            None if url.is_some() || !self.command.is_empty() => {
                if let Some(word) = word.filter(|word| Some(*word) != url) {
                    return Err((
                        status::USAGE,
                        format!("unexpected argument `{word}`: the server is already specified"),
                    ));
                }
                (between::spec(&self.command, url, &self.header, None), Vec::new(), None)
            }
            None => {
                let what = word.map_or_else(String::new, |word| format!("`{word}` is not a URL; "));
                let help = "specify a server: `-- COMMAND`, a URL, or `--mcp-config FILE NAME`";
                return Err((status::USAGE, format!("{what}{help}")));
            }
        };
        let headers = self.header.iter().map(|(_, value)| value.clone());
        let secrets = Secrets::new(environment_secrets().into_iter().chain(headers).chain(secrets));
        let options = ConnectOptions {
            timeout: self.timeout,
            max_message: usize::from(self.max_message) << 20,
            secrets: Arc::new(secrets),
        };
        Ok(Reached { spec, options, configured })
    }

    fn configured(&self, path: &Path, word: Option<&str>) -> Result<Configured, Fault> {
        let shown = path.display();
        let usage = |text: String| (status::USAGE, text);
        let bytes = Disk.read(path).map_err(|error| usage(format!("cannot read `{shown}`: {error}")))?;
        let (sources, mut out) = (Sources::default(), Diagnostics::default());
        let text = yaml::decode_utf8(bytes).map_err(|_| usage(format!("`{shown}` is not valid UTF-8")))?;
        let dir = path.parent().unwrap_or(Path::new(""));
        let file = sources.add(path, text.as_str());
        let config = yaml::parse(file, text, &mut out)
            .ok()
            .and_then(|tree| mcp_config::decode(tree.root(), file, dir, &mut out).value);
        let Some(config) = config.filter(|_| !out.has_hard()) else {
            let hard: Vec<_> = out.into_sorted(&sources).into_iter().filter(|d| d.strength == Strength::Hard).collect();
            let mut text = String::new();
            let _ = concise(&hard, &sources, &Pretty::default(), &mut text);
            return Err(usage(text.trim_end().to_owned()));
        };
        let names: Vec<_> = config.servers.iter().map(|server| server.name.value.as_str()).collect();
        let listed = || names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let server = match word {
            Some(word) => config.servers.iter().find(|server| server.name.value == word).ok_or_else(|| {
                let near = nearest(word, names.iter().copied());
                let hint =
                    near.map_or_else(|| format!("it has {}", listed()), |near| format!("did you mean `{near}`?"));
                usage(format!("`{shown}` has no server `{word}`; {hint}"))
            })?,
            None if config.servers.len() == 1 => &config.servers[0],
            None => return Err(usage(format!("specify a server of `{shown}`: {}", listed()))),
        };
        let server = crate::hir::Server { disabled: false, ..server.clone() };
        let executable = std::env::current_exe().ok();
        let (mut specs, secrets) = specs(std::slice::from_ref(&server), dir, &RealHost::new(), executable.as_ref())
            .map_err(|faults| (status::BROKEN, faults.join("; ")))?;
        let (_, (spec, _)) = specs.pop().ok_or_else(|| usage(format!("`{shown}` has no server")))?;
        Ok((spec, secrets, Some((server, dir.to_owned()))))
    }
}

/// The arguments of a command that takes a file, a server or both.
struct Wanted<'a> {
    file: Option<&'a str>,
    server: Option<Reached>,
}

/// The specified server, or the exit status if there is none.
fn reached(reach: &Reach, word: Option<&str>) -> Result<Reached, u8> {
    reach.server(word).map_err(|(code, why)| {
        complain(&why);
        code
    })
}

/// Connects to a server, runs `work`, and closes the connection in any case.
fn with_server(reached: Reached, work: impl AsyncFnOnce(&Server) -> Result<u8, Fault>) -> u8 {
    let Reached { spec, options, .. } = reached;
    block(async {
        let secrets = options.secrets.clone();
        let broken = |why: String| (status::BROKEN, secrets.mask(&why).into_owned());
        // An interrupt also ends a server that is starting.
        let mut interrupted = pin!(between::interrupted());
        let server = tokio::select! {
            server = connect(spec, options) => server.map_err(|error| broken(error.to_string()))?,
            status = &mut interrupted => return Ok(status),
        };
        let done = tokio::select! {
            done = work(&server) => done.map_err(|(code, why)| (code, secrets.mask(&why).into_owned())),
            status = &mut interrupted => Ok(status),
        };
        for notice in server.hub.notices() {
            between::say(&format!("note: {}", notice.text));
        }
        server.close().await;
        done
    })
}

/// Runs a command, and prints the reason if it fails.
fn block(work: impl Future<Output = Result<u8, Fault>>) -> u8 {
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(&format!("cannot start: {error}"));
            return status::BROKEN;
        }
    };
    let done = runtime.block_on(work);
    runtime.shutdown_background();
    done.unwrap_or_else(|(code, why)| {
        complain(&visible_lines(&why));
        code
    })
}

/// Makes a text of several lines safe for a terminal.
fn visible_lines(text: &str) -> String {
    crate::diagnostic::visible(text).into_owned()
}

/// Prints irregularities in the lists of a server.
fn notices(notices: &[String]) {
    notices.iter().for_each(|notice| warn(&visible_lines(notice)));
}
