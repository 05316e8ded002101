//! `gevals mcp`: gevals as an MCP server, for agents that write evals.

mod check;
mod convert;
mod explain;
mod new;
mod plan;
mod project;
mod result;
mod run;
mod tool;

use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, InitializeResult,
        ListPromptsRequestMethod, ListPromptsResult, ListResourceTemplatesRequestMethod, ListResourceTemplatesResult,
        ListResourcesRequestMethod, ListResourcesResult, ListToolsResult, PaginatedRequestParams, ServerCapabilities,
    },
    service::RequestContext,
};
use tokio_util::sync::CancellationToken;

use super::{
    ROOT,
    between::{self, Fault},
    status,
};
use crate::{mcp::own, secrets::Secrets};
use tool::{Effect, Stop, Tool};

/// All tools. To add one, add a file and a line here.
const TOOLS: [Tool; 8] =
    [check::TOOL, plan::TOOL, explain::TOOL, convert::TOOL, new::TOOL, new::WRITER, result::TOOL, run::TOOL];

/// The tools that are offered. `new` has two forms.
fn offered(write: bool, run: bool) -> Vec<Tool> {
    let is_offered = |tool: &Tool| match tool.effect {
        Effect::Reads => !(write && tool.name == new::TOOL.name),
        Effect::Adds => write,
        Effect::Runs => run,
    };
    TOOLS.into_iter().filter(is_offered).collect()
}

const EXAMPLES: &str = "\
Examples:
  gevals mcp                                       as a server command in a client's config
  gevals mcp --root ~/evals --allow-write          allow writing new files below the root
  gevals mcp --allow-run                           allow running evals, which starts what they name
  gevals mcp --http 127.0.0.1:8080                 over HTTP, for clients on this machine

Tools: check, plan, explain, convert, new, result; with --allow-run also run. Nothing is written and
nothing is started unless an option allows it. Only files below the root are accessible: `--root`,
or the current directory by default.

Exit status: 0 the client has disconnected, or the server was stopped, 2 usage error, 3 the address
cannot be used";

/// Serve gevals over MCP, for agents that write evals: check, plan, explain, convert, new, result.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Allow the tool `new` to write new files below the root; it never overwrites one.
    #[arg(long)]
    allow_write: bool,
    /// Offer the tool `run`, which starts the agents, servers and scripts of an eval as `gevals run` does.
    #[arg(long)]
    allow_run: bool,
    /// Serve streamable HTTP at this address, at /mcp, instead of using standard input and output; local clients only.
    #[arg(long, value_name = "ADDR")]
    http: Option<SocketAddr>,
}

pub fn main(args: &Args) -> u8 {
    between::run(args.http, serve(args))
}

async fn serve(args: &Args) -> Result<(), Fault> {
    // Paths of clients are relative to the root.
    let here =
        std::env::current_dir().map_err(|e| (status::USAGE, format!("cannot read the current directory: {e}")))?;
    let root = ROOT.get_or_init(|| here);
    std::env::set_current_dir(root).map_err(|e| (status::USAGE, format!("the root `{}`: {e}", root.display())))?;
    let over = CancellationToken::new();
    let server = Server { tools: offered(args.allow_write, args.allow_run).into(), over: over.clone() };
    let served = served(server, args.http).await;
    over.cancel();
    // An interrupted run is given the time to clean up.
    let _ = tokio::task::spawn_blocking(run::finished).await;
    served
}

async fn served(server: Server, http: Option<SocketAddr>) -> Result<(), Fault> {
    let broken = |error: std::io::Error| (status::BROKEN, format!("the server failed: {error}"));
    let interrupted = between::interrupted();
    let Some(address) = http else {
        // A client that closes the input does not wait for a run any more.
        let left = server.over.clone();
        return tokio::select! {
            served = own::serve_stdio(server, left) => served.map_err(broken),
            _ = interrupted => Ok(()),
        };
    };
    let unbound = |error: std::io::Error| (status::BROKEN, format!("cannot serve at {address}: {error}"));
    let listener = tokio::net::TcpListener::bind(address).await.map_err(unbound)?;
    let bound = listener.local_addr().map_err(unbound)?;
    between::say(&format!("gevals is listening on http://{bound}/mcp"));
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    tokio::spawn(async move {
        interrupted.await;
        stopped.cancel();
    });
    own::serve_http(server, listener, stop).await.map_err(broken)
}

#[derive(Clone)]
struct Server {
    tools: Arc<[Tool]>,
    /// Cancelled when its client has disconnected, or it ends.
    over: CancellationToken,
}

impl ServerHandler for Server {
    fn get_info(&self) -> InitializeResult {
        let mut info = InitializeResult::new(ServerCapabilities::builder().enable_tools().build());
        info.server_info = Implementation::new("gevals", env!("CARGO_PKG_VERSION"));
        info.instructions = Some(
            "Checks evals of MCP servers like a compiler. Start with `explain` (topics: task, eval, steps, holes) or \
             with `new`; call `check` after every change until there are no findings, also with `files` that are not written yet; \
             then `plan` shows what would happen. Paths are relative to the root of the project."
                .to_owned(),
        );
        info
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.iter().map(Tool::listed).collect()))
    }

    // Methods that are not declared must not exist, but the library would return empty lists.
    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListPromptsRequestMethod>())
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListResourcesRequestMethod>())
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListResourceTemplatesRequestMethod>())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = self.tools.iter().find(|tool| tool.name == request.name).copied() else {
            let names: Vec<_> = self.tools.iter().map(|tool| tool.name).collect();
            let why = format!("unknown tool `{}`; available: {}", request.name, names.join(", "));
            return Err(ErrorData::invalid_params(why, None));
        };
        let arguments = request.arguments.unwrap_or_default();
        let stop = Stop { call: context.ct, server: self.over.clone() };
        // Compiling is CPU-bound.
        let called = tokio::task::spawn_blocking(move || (tool.call)(arguments.into(), &stop)).await;
        let mut told = called
            .unwrap_or_else(|error| Err(format!("internal error in gevals: `{}` failed with {error}", tool.name)));
        if let Ok(value) = &mut told {
            Secrets::default().mask_json(value);
        }
        Ok(match told {
            Ok(value) => CallToolResult::structured(value),
            Err(why) => CallToolResult::error(vec![ContentBlock::text(Secrets::default().mask(&why))]),
        }
        .into())
    }
}

/// A path relative to the root.
fn path(text: &str) -> PathBuf {
    PathBuf::from(text)
}
