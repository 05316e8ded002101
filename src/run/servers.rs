//! The MCP servers of an eval: one hub per server, shared by all tasks; a server that died is restarted for the next
//! task.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, PoisonError},
    time::Duration,
};

use futures_util::future::BoxFuture;
use indexmap::IndexMap;
use serde_json::Value;
use tokio::sync::{Mutex, OnceCell};

use super::emit::{Emitter, header_secrets};
use crate::{
    event::{EventKind, ServerTool},
    hir::{Expand, ExpandPart, KubeWorld, Server, Transport},
    host::{Host, MARK},
    mcp::{self, CallError, Client, ClientOptions, Hub, HubOptions, Recording, ServerError, ServerSpec, SessionKind},
    plan::wire::is_secret_header,
    secrets::{in_arguments, is_secret_name, told},
    signature::Schema,
    step::{Contract, ToolAnswer, ToolFault, Tools},
    tokens,
};

/// A server that answered `initialize`.
pub(super) struct Running {
    pub hub: Hub,
    /// The session for the steps' own calls, which are not recorded.
    own: OnceCell<Client>,
    /// The tools, if gevals listed them before any agent connected.
    asked: Option<Result<Vec<Value>, CallError>>,
    /// The schemas of its tools, once a step has needed them.
    contracts: std::sync::Mutex<Option<IndexMap<String, Contract>>>,
    /// How many tokens its description costs agents.
    described: OnceCell<u64>,
    config: Server,
}

impl Running {
    /// Why it can no longer be used, in one line.
    pub fn lost(&self) -> Option<String> {
        let failure = self.hub.failure()?.to_string();
        let line = failure.lines().next().unwrap_or_default().trim_end_matches(':');
        Some(format!("a server was lost while the agent worked: {line}"))
    }

    pub fn enables_all(&self) -> bool {
        self.config.enable_all_tools.is_some_and(|e| e.value)
    }

    /// The tools that agents may call without asking (§4.3 of the upstream behaviour).
    pub async fn allowed(&self) -> Result<Vec<Value>, CallError> {
        let allows =
            |tool: &Value| tool.get("name").and_then(Value::as_str).is_some_and(|name| self.config.allows(name));
        Ok(self.tools().await?.into_iter().filter(allows).collect())
    }

    /// Counts the tokens of its instructions and of the tools that agents may call (§3.7 of the upstream behaviour).
    pub async fn schema_tokens(&self) -> u64 {
        let count_all = || async {
            let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            let instructions = self.hub.server().map(|server| text(&server, "instructions")).unwrap_or_default();
            let allowed = self.allowed().await.unwrap_or_default();
            let of_tool = |tool: &Value| {
                let schema = tool.get("inputSchema").map(Value::to_string).unwrap_or_default();
                tokens::count(&format!("{} {}", text(tool, "name"), text(tool, "description"))) + tokens::count(&schema)
            };
            tokens::count(&instructions) + allowed.iter().map(of_tool).sum::<u64>()
        };
        *self.described.get_or_init(count_all).await
    }

    /// The names of its tools.
    pub async fn names(&self) -> Result<Vec<String>, CallError> {
        let name = |tool: &Value| tool.get("name").and_then(Value::as_str).map(str::to_owned);
        Ok(self.tools().await?.iter().filter_map(name).collect())
    }

    async fn tools(&self) -> Result<Vec<Value>, CallError> {
        match (&self.asked, self.own.get()) {
            (_, Some(own)) => own.list_tools().await,
            (Some(asked), None) => asked.clone(),
            (None, None) => self.own().await.map_err(|e| CallError::Lost(e.to_string()))?.list_tools().await,
        }
    }

    fn fault(&self, error: CallError) -> ToolFault {
        match error {
            CallError::Protocol { code, message, .. } => ToolFault::Protocol { code, message },
            error => {
                ToolFault::Lost(self.hub.failure().map_or_else(|| error.to_string(), |failure| failure.to_string()))
            }
        }
    }

    /// The session of gevals itself.
    pub async fn own(&self) -> Result<&Client, ServerError> {
        self.own.get_or_try_init(|| self.hub.client(SessionKind::Own, ClientOptions::default())).await
    }
}

pub(super) struct Servers<'a> {
    specs: Specs,
    running: IndexMap<String, Mutex<Option<Arc<Running>>>>,
    emitter: &'a Emitter<'a>,
    /// The timeout of `initialize`.
    timeout: Duration,
    /// The longest message that is let through, in bytes.
    longest: usize,
    recording: Option<Arc<Recording>>,
    /// Whether an agent connects by itself, with capabilities that only it knows.
    clients: bool,
    /// Why no server can be started.
    unset: Option<String>,
}

/// How to reach each server, and what agents may do with it.
pub type Specs = IndexMap<String, (ServerSpec, Server)>;

/// Returns the servers' specifications with every `${VAR}` expanded, and the secrets in them.
///
/// # Errors
/// A message for each variable that is not set.
pub fn specs(
    servers: &[Server],
    dir: &Path,
    host: &dyn Host,
    executable: Option<&PathBuf>,
) -> Result<(Specs, Vec<String>), Vec<String>> {
    let (mut specs, mut secrets, mut faults) = (IndexMap::new(), Vec::new(), Vec::new());
    for server in servers.iter().filter(|s| !s.disabled) {
        let mut fill = |expand: &Expand, secret: bool| {
            for part in &expand.parts {
                if let ExpandPart::Var { name, .. } = part
                    && (secret || is_secret_name(name))
                {
                    secrets.extend(host.env(name));
                }
            }
            expand.fill(|name| host.env(name)).map_or_else(
                |name| {
                    faults.push(format!("server `{}` needs `${{{name}}}`, which is not set", server.name.value));
                    String::new()
                },
                |value| {
                    if secret {
                        secrets.extend(header_secrets(&value));
                    }
                    value
                },
            )
        };
        let mut transport = transport(server, dir, executable, &mut fill);
        match &transport {
            mcp::Transport::Stdio { args, env, .. } => {
                secrets.extend(in_arguments(args));
                secrets.extend(env.values().flat_map(|value| told(value)));
            }
            mcp::Transport::Http { url, .. } => secrets.extend(told(url)),
        }
        if let mcp::Transport::Stdio { env, .. } = &mut transport {
            for (name, value) in host.given() {
                match name == KubeWorld::KUBECONFIG {
                    true => drop(env.insert(name.clone(), value.clone())),
                    false => drop(env.entry(name.clone()).or_insert_with(|| value.clone())),
                }
            }
            env.insert(MARK.to_owned(), marks(host));
        }
        let name = server.name.value.clone();
        specs.insert(name.clone(), (ServerSpec { name, transport }, server.clone()));
    }
    if faults.is_empty() { Ok((specs, secrets)) } else { Err(faults) }
}

/// The mark that identifies a server's process. A gevals that runs inside another one appends to the outer mark.
fn marks(host: &dyn Host) -> String {
    match host.env(MARK) {
        Some(outer) if !outer.is_empty() => format!("{outer},{}.server", host.mark()),
        _ => format!("{}.server", host.mark()),
    }
}

fn transport(
    server: &Server,
    dir: &Path,
    executable: Option<&PathBuf>,
    fill: &mut dyn FnMut(&Expand, bool) -> String,
) -> mcp::Transport {
    match &server.transport {
        Transport::Stdio { command, args, env } => {
            let mut command = fill(command, false);
            // A command that is exactly `gevals` means this executable (`decisions.md` §2).
            if let (true, Some(executable)) = (command == "gevals", executable) {
                command = executable.to_string_lossy().into_owned();
            }
            mcp::Transport::Stdio {
                command,
                args: args.iter().map(|arg| fill(arg, false)).collect(),
                env: env
                    .iter()
                    .map(|(n, v)| (n.value.clone(), fill(v, v.has_variables() || is_secret_name(&n.value))))
                    .collect(),
                // The operating system does not accept an empty path as a directory.
                cwd: Some(dir.to_owned()).filter(|dir| !dir.as_os_str().is_empty()),
            }
        }
        Transport::Http { url, headers } => mcp::Transport::Http {
            url: fill(url, false),
            headers: headers.iter().map(|(n, v)| (n.value.clone(), fill(v, is_secret_header(&n.value)))).collect(),
        },
    }
}

impl<'a> Servers<'a> {
    pub fn new(specs: Specs, emitter: &'a Emitter<'a>, timeout: Duration, clients: bool) -> Self {
        let running = specs.keys().map(|name| (name.clone(), Mutex::default())).collect();
        let longest = HubOptions::default().max_message;
        Self { specs, running, emitter, timeout, longest, recording: None, clients, unset: None }
    }

    /// The same servers again, to be started for a single task.
    pub fn another(&self) -> Self {
        self.of(self.specs.clone())
    }

    /// Other servers, with the same settings.
    pub fn of(&self, specs: Specs) -> Self {
        Self {
            recording: self.recording.clone(),
            unset: self.unset.clone(),
            longest: self.longest,
            ..Self::new(specs, self.emitter, self.timeout, self.clients)
        }
    }

    /// Records the messages.
    pub fn recorded(self, recording: Option<Arc<Recording>>) -> Self {
        Self { recording, ..self }
    }

    /// Sets the reason why no server can be started, if there is one.
    pub fn lacking(self, unset: Option<String>) -> Self {
        Self { unset, ..self }
    }

    /// Limits the length of messages, in bytes.
    pub fn up_to(self, longest: usize) -> Self {
        Self { longest, ..self }
    }

    /// Returns all servers, and starts those that are not running.
    pub async fn all(&self) -> Result<Vec<Arc<Running>>, String> {
        if let Some(why) = &self.unset {
            return Err(why.clone());
        }
        let mut all = Vec::new();
        for name in self.specs.keys() {
            all.push(self.get(name).await?);
        }
        Ok(all)
    }

    /// Returns a working server; one that died is restarted.
    async fn get(&self, name: &str) -> Result<Arc<Running>, String> {
        let (Some((spec, config)), Some(slot)) = (self.specs.get(name), self.running.get(name)) else {
            return Err(self.unset.clone().unwrap_or_else(|| format!("the eval has no server `{name}`")));
        };
        let mut slot = slot.lock().await;
        if let Some(running) = slot.as_ref() {
            match running.hub.failure() {
                None => return Ok(Arc::clone(running)),
                Some(failure) => {
                    self.emitter.notice(None, name, &format!("{failure}; it is restarted"));
                }
            }
        }
        let options = HubOptions {
            secrets: self.emitter.vault.secrets(),
            initialize_timeout: self.timeout,
            max_message: self.longest,
            on_message: self.recording.as_ref().map(Recording::tap),
            ..HubOptions::default()
        };
        let start = || async {
            let hub = Hub::start(spec.clone(), options.clone()).await.map_err(|e| e.to_string())?;
            if let (Some(journal), Some(pid)) = (self.emitter.journal(), hub.pid()) {
                journal.group(pid);
            }
            Ok::<_, String>(hub)
        };
        let hub = start().await?;
        let own = hub.client(SessionKind::Own, ClientOptions::default()).await.map_err(|e| e.to_string())?;
        let mut running = Running {
            hub,
            own: OnceCell::from(own),
            asked: None,
            contracts: std::sync::Mutex::default(),
            described: OnceCell::new(),
            config: config.clone(),
        };
        // A process receives a single `initialize`. It should come from the agent, whose capabilities are unknown
        // before it connects, so gevals lists the tools in a process that it then ends.
        if self.clients && matches!(spec.transport, mcp::Transport::Stdio { .. }) {
            let own = running.own.take();
            running.asked = match &own {
                Some(own) => Some(own.list_tools().await),
                None => None,
            };
            drop(own);
            running.hub.close().await;
            running.hub = start().await?;
        }
        let running = Arc::new(running);
        *slot = Some(Arc::clone(&running));
        // Only for the record; code that needs the tools lists them again.
        let tools = tokio::time::timeout(RECORDED, running.allowed()).await;
        let tools = tools.unwrap_or(Ok(Vec::new())).unwrap_or_else(|error| {
            // A lost server is reported by the step that needs it.
            if matches!(error, CallError::Protocol { .. } | CallError::Malformed { .. }) {
                self.emitter.notice(None, name, &format!("its tools cannot be listed: {error}"));
            }
            Vec::new()
        });
        let tools = tools.iter().filter_map(server_tool).collect();
        self.emitter.emit(None, EventKind::ServerStarted { server: name.to_owned(), tools });
        Ok(running)
    }

    /// Returns a server that a step calls; it was started before the task.
    async fn there(&self, server: &str) -> Result<Arc<Running>, ToolFault> {
        let Some(slot) = self.running.get(server) else {
            return Err(ToolFault::Lost(format!("the eval has no server `{server}`")));
        };
        slot.lock().await.clone().ok_or_else(|| ToolFault::Lost(format!("`{server}` is not running")))
    }

    /// Shuts all servers down gracefully and reports their notices.
    pub async fn close(&self) {
        for (name, slot) in &self.running {
            let Some(running) = slot.lock().await.take() else { continue };
            for notice in running.hub.notices() {
                self.emitter.notice(None, name, &notice.text);
            }
            running.hub.close().await;
        }
    }
}

/// How long a server has to list its tools for the results file.
const RECORDED: Duration = Duration::from_secs(5);

/// Converts a tool to the form in the results file.
fn server_tool(tool: &Value) -> Option<ServerTool> {
    let name = tool.get("name")?.as_str()?.to_owned();
    let description = tool.get("description").and_then(Value::as_str).unwrap_or_default().to_owned();
    Some(ServerTool { name, description, input_schema: tool.get("inputSchema").cloned() })
}

/// Returns a tool's name and schemas from its entry in `tools/list`.
fn contract(tool: &Value) -> Option<(String, Contract)> {
    let schema = |key: &str| tool.get(key).filter(|schema| schema.is_object()).cloned().map(Schema::new);
    let contract = Contract { input: schema("inputSchema").unwrap_or_default(), output: schema("outputSchema") };
    Some((tool.get("name")?.as_str()?.to_owned(), contract))
}

impl Tools for Servers<'_> {
    fn contract<'c>(&'c self, server: &'c str, tool: &'c str) -> BoxFuture<'c, Result<Contract, ToolFault>> {
        Box::pin(async move {
            let running = self.there(server).await?;
            let known = || running.contracts.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(contract) = known().as_ref().and_then(|contracts| contracts.get(tool)) {
                return Ok(contract.clone());
            }
            self.contract_anew(server, tool).await
        })
    }

    fn contract_anew<'c>(&'c self, server: &'c str, tool: &'c str) -> BoxFuture<'c, Result<Contract, ToolFault>> {
        Box::pin(async move {
            let running = self.there(server).await?;
            let own = running.own().await.map_err(|error| ToolFault::Lost(error.to_string()))?;
            let tools = own.list_tools().await.map_err(|error| running.fault(error))?;
            let contracts: IndexMap<_, _> = tools.iter().filter_map(contract).collect();
            let found = contracts.get(tool).cloned();
            let found = found.ok_or_else(|| ToolFault::Unlisted(contracts.keys().cloned().collect()));
            *running.contracts.lock().unwrap_or_else(PoisonError::into_inner) = Some(contracts);
            found
        })
    }

    fn call<'c>(&'c self, server: &'c str, tool: &'c str, args: Value) -> BoxFuture<'c, Result<ToolAnswer, ToolFault>> {
        Box::pin(async move {
            let running = self.there(server).await?;
            let own = running.own().await.map_err(|error| ToolFault::Lost(error.to_string()))?;
            match own.call_tool(tool, args).await {
                Ok(result) => Ok(ToolAnswer {
                    content: Value::Array(result.content),
                    structured_content: result.structured,
                    is_error: result.is_error,
                }),
                Err(error) => Err(running.fault(error)),
            }
        })
    }
}
