//! `gevals lock`: asks the servers of an eval what tools they have, and writes it down for `check`.

use std::{path::PathBuf, time::Duration};

use indexmap::IndexMap;

use super::{Global, compile_paths, complain, print, print_findings, shown, status, unreadable};
use crate::{
    builtin::count,
    diagnostic::Strength,
    host::{RealHost, disk::write_atomic},
    lock::{FILE_NAME, Lock, LockedServer, LockedTool},
    mcp::{ClientOptions, Hub, HubOptions, ServerSpec, SessionKind},
    run,
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
    let executable = std::env::current_exe().ok();
    let specs = match run::specs(&config.servers, &dir, &RealHost::new(), executable.as_ref()) {
        Ok((specs, _)) => specs,
        Err(faults) => {
            faults.iter().for_each(|fault| complain(fault));
            return status::BROKEN;
        }
    };
    for (name, (spec, _)) in specs {
        match runtime.block_on(ask(spec)) {
            Ok(locked) => {
                lock.servers.insert(name, locked);
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
    print(&format!(
        "locked {} of {} in {}\n",
        count(tools, "tool", "tools"),
        count(lock.servers.len(), "server", "servers"),
        path.display()
    ));
    status::OK
}

/// How long a server may take to list its tools.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Starts a server and asks what it has.
pub(super) async fn ask(spec: ServerSpec) -> Result<LockedServer, String> {
    let name = spec.name.clone();
    let hub = Hub::start(spec, HubOptions::default()).await.map_err(|e| e.to_string())?;
    let options = ClientOptions { timeout: Some(TIMEOUT), ..ClientOptions::default() };
    let client = hub.client(SessionKind::Own, options).await.map_err(|e| e.to_string())?;
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
