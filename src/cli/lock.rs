//! `gevals lock`: asks the servers of an eval what tools they have, and writes it down for `check`.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use indexmap::IndexMap;

use super::{Global, compile_paths, complain, print, print_findings, shown, status, unreadable};
use crate::{
    diagnostic::Strength,
    hir::{Server, Transport},
    host::disk::write_atomic,
    lock::{FILE_NAME, Lock, LockedServer, LockedTool},
    mcp::{self, ClientOptions, Hub, HubOptions, ServerSpec, SessionKind},
    source::Sources,
};

const EXAMPLES: &str = "\
Examples:
  gevals lock eval.yaml      write gevals.lock beside the eval

`gevals check` is pure and offline: it knows the tools of a server from this file only.";

/// Start the servers of an eval, list their tools, and write gevals.lock beside it.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// An eval file.
    eval: PathBuf,
}

pub fn main(args: &Args, global: Global) -> u8 {
    let sources = Sources::default();
    let compiled = compile_paths(std::slice::from_ref(&args.eval), &sources);
    if unreadable(&compiled) {
        return status::USAGE;
    }
    let [unit] = compiled.project.evals.as_slice() else {
        complain(&format!("`{}` is not one eval", shown(&args.eval)));
        return status::USAGE;
    };
    let Some(config) = &unit.mcp else {
        let hard: Vec<_> = compiled.diagnostics.iter().filter(|d| d.strength == Strength::Hard).cloned().collect();
        print_findings(&hard, &sources, compiled.project.files(), global);
        complain("the eval has no MCP config to lock");
        return status::USAGE;
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(&format!("cannot start: {error}"));
            return status::BROKEN;
        }
    };
    // Where `run` starts them, too.
    let dir = unit.eval.as_ref().map_or_else(PathBuf::new, |eval| eval.dir.clone());
    let mut lock = Lock { version: 1, servers: IndexMap::new() };
    for server in config.servers.iter().filter(|s| !s.disabled) {
        match runtime.block_on(ask(server, &dir)) {
            Ok(locked) => {
                lock.servers.insert(server.name.value.clone(), locked);
            }
            Err(message) => {
                complain(&message);
                return status::BROKEN;
            }
        }
    }
    let path = unit.path.parent().unwrap_or(std::path::Path::new("")).join(FILE_NAME);
    let written = serde_yaml::to_string(&lock)
        .map_err(|e| e.to_string())
        .and_then(|text| write_atomic(&path, text.as_bytes()).map_err(|e| e.to_string()));
    if let Err(error) = written {
        complain(&format!("cannot write `{}`: {error}", path.display()));
        return status::BROKEN;
    }
    let tools: usize = lock.servers.values().map(|s| s.tools.len()).sum();
    print(&format!("locked {tools} tools of {} servers in {}\n", lock.servers.len(), path.display()));
    status::OK
}

async fn ask(server: &Server, dir: &Path) -> Result<LockedServer, String> {
    let name = &server.name.value;
    let spec = spec(server, dir)?;
    let hub = Hub::start(spec, HubOptions::default()).await.map_err(|e| e.to_string())?;
    let hub = Arc::new(hub);
    let client = hub.client(SessionKind::Own, ClientOptions::default()).await.map_err(|e| e.to_string())?;
    let tools = client.list_tools().await.map_err(|e| format!("the server `{name}` does not list its tools: {e}"))?;
    let version = client.server().and_then(|s| s.pointer("/serverInfo/version")?.as_str().map(str::to_owned));
    drop(client);
    hub.close().await;
    let tools = tools.into_iter().filter_map(|tool| {
        let name = tool.get("name")?.as_str()?.to_owned();
        let description = tool.get("description").and_then(|d| d.as_str()).unwrap_or_default().to_owned();
        let input_schema = tool.get("inputSchema").cloned().unwrap_or_default();
        Some((name, LockedTool { description, input_schema }))
    });
    Ok(LockedServer { version: version.unwrap_or_default(), tools: tools.collect() })
}

fn spec(server: &Server, dir: &Path) -> Result<ServerSpec, String> {
    let name = server.name.value.clone();
    let fill = |text: &crate::hir::Expand| {
        text.fill(|v| std::env::var(v).ok())
            .map_err(|v| format!("the server `{name}` needs the variable `{v}`, which is not set"))
    };
    let transport = match &server.transport {
        Transport::Http { url, headers } => mcp::Transport::Http {
            url: fill(url)?,
            headers: headers.iter().map(|(k, v)| Ok((k.value.clone(), fill(v)?))).collect::<Result<_, String>>()?,
        },
        Transport::Stdio { command, args, env } => {
            let command = fill(command)?;
            // The word `gevals` means this program (`decisions.md` §2).
            let command = match command.as_str() {
                "gevals" => std::env::current_exe().map_or(command, |p| p.display().to_string()),
                _ => command,
            };
            mcp::Transport::Stdio {
                command,
                args: args.iter().map(fill).collect::<Result<_, _>>()?,
                env: env.iter().map(|(k, v)| Ok((k.value.clone(), fill(v)?))).collect::<Result<_, String>>()?,
                cwd: Some(dir.to_owned()).filter(|dir| !dir.as_os_str().is_empty()),
            }
        }
    };
    Ok(ServerSpec { name, transport })
}
