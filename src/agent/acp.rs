//! Agents that implement the Agent Client Protocol over the standard streams of a process (§3.5 of the upstream
//! behaviour). gevals is the client: the agent gets the prompt and the servers, reports what it does, and asks for
//! permission.
//!
//! Its reports are read before the protocol library sees them, so that a flood of them uses no memory, and messages
//! that are not part of the protocol break nothing.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use agent_client_protocol::{
    Agent, Client, Error, Lines as Transport,
    schema::ProtocolVersion,
    v1::{
        ConnectionTo,
        schema::{
            CancelNotification, ClientCapabilities, ContentBlock, FileSystemCapabilities, Implementation,
            InitializeRequest, McpServer, McpServerHttp, NewSessionRequest, PermissionOption, PermissionOptionKind,
            PromptRequest, ReadTextFileRequest, ReadTextFileResponse, RequestPermissionOutcome,
            RequestPermissionRequest, RequestPermissionResponse, SelectedPermissionOutcome, StopReason, TextContent,
        },
    },
};
use futures_util::{sink, stream};
use serde_json::Value;
use tokio::{io::AsyncWriteExt, sync::watch};
use tokio_util::sync::CancellationToken;

use super::{
    AgentContext, AgentDone, AgentFault, AgentServer, AgentStepKind, Complaints, KEPT, Said, Spent, TRANSCRIPT, Usage,
    Work, skills,
};
use crate::{
    hir::AcpAgent,
    host::{Exec, Exit, Process},
    mcp::Lines,
};

/// Maximum size of a message, in bytes.
const LONGEST: usize = 16 << 20;
/// Bytes that are not part of the protocol, before the agent is assumed to use another one.
const NOISE: usize = 1 << 20;
/// Maximum number of requests of the agent, and of calls that it reports.
const REQUESTS: usize = 10_000;
const ENDED: &str = "its output ended before the answer";
/// How long it may take to report that it has stopped.
const FAREWELL: Duration = Duration::from_secs(1);
/// How long after its input the end of its output may arrive.
const LAST_WORD: Duration = Duration::from_secs(1);

/// How to start its process.
pub struct Start {
    pub program: PathBuf,
    pub args: Vec<String>,
    pub env: Vec<(&'static str, String)>,
}

impl Start {
    /// A command with a slash is relative to the agent file.
    pub fn of(agent: &AcpAgent) -> Self {
        let program = program(agent);
        let args = agent.args.iter().map(|arg| arg.value.clone()).collect();
        Self { program, args, env: Vec::new() }
    }
}

/// The program to start: looked up on the PATH, or relative to the agent file.
pub fn program(agent: &AcpAgent) -> PathBuf {
    let command = &agent.command.value;
    if command.contains('/') { absolute(&agent.dir.join(command)) } else { PathBuf::from(command) }
}

/// Made absolute because the process works in its own directory.
#[expect(clippy::disallowed_methods, reason = "this is where processes are started")]
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

pub async fn run(cx: &AgentContext<'_>, start: Start) -> AgentDone {
    let not_started = |why| AgentDone::ended(Err(AgentFault::NotStarted(why)), String::new());
    let dir = match cx.host.temp_dir() {
        Ok(dir) => dir,
        Err(e) => return not_started(format!("cannot create a temporary directory: {e}")),
    };
    let done = match skills::mount(cx, &dir) {
        Ok(()) => converse(cx, start, &dir).await,
        Err(why) => not_started(why),
    };
    let _ = cx.host.remove(&dir);
    done
}

async fn converse(cx: &AgentContext<'_>, start: Start, dir: &Path) -> AgentDone {
    let mut exec = Exec::new(start.program.as_os_str(), dir).args(&start.args);
    for (name, value) in &start.env {
        exec = exec.env(name, value);
    }
    let named = start.args.iter().map(PathBuf::from).chain([start.program.clone()]);
    let named: Vec<PathBuf> = named.filter(|path| path.is_absolute()).collect();
    let (exec, _doors) = match cx.confined(exec, &[dir], &named) {
        Ok(confined) => confined,
        Err(why) => return AgentDone::ended(Err(AgentFault::NotStarted(why)), String::new()),
    };
    let Process { stdin, stdout, mut stderr, mut handle } = match cx.host.spawn(exec).await {
        Ok(process) => process,
        Err(fault) => return AgentDone::ended(Err(AgentFault::NotStarted(fault.to_string())), String::new()),
    };
    let heard = Arc::new(Mutex::new(Heard::new(cx, dir)));
    let stop = CancellationToken::new();
    let (result, tail) = {
        let work = talk(cx, dir, Lines::new(stdout, LONGEST), stdin, &heard, &stop);
        tokio::pin!(work);
        let mut tail = Complaints::default();
        let complaints = async {
            tail.read(&mut stderr).await;
            std::future::pending().await
        };
        let mut uses = lock(&heard).uses.subscribe();
        let counts = async {
            while uses.changed().await.is_ok() {
                (cx.used)(*uses.borrow_and_update());
            }
            std::future::pending().await
        };
        let mut result = {
            let ended = async {
                let ended = tokio::select! {
                    // Polled in this order: an agent that never stops talking would starve the other branches.
                    biased;
                    () = cx.cancel.cancelled() => Err(AgentFault::Cancelled),
                    () = cx.host.sleep(cx.timeout) => Err(AgentFault::TimedOut(cx.timeout)),
                    done = &mut work => return done.map_err(AgentFault::Failed),
                };
                stop.cancel();
                tokio::select! {
                    biased;
                    () = cx.host.sleep(FAREWELL) => {}
                    _ = &mut work => {}
                }
                ended
            };
            tokio::select! {
                result = ended => result,
                never = complaints => never,
                never = counts => never,
            }
        };
        // The exit status, if there is one, explains why it stopped talking.
        if let Err(AgentFault::Failed(why)) = &mut result
            && let Ok(exit) = tokio::time::timeout(Duration::from_millis(300), handle.wait()).await
        {
            let how = match super::ended(cx.jail, exit) {
                // An error that the agent reported itself is not explained by exit status 0.
                Exit::Exited(0) if !why.ends_with(ENDED) => None,
                Exit::Exited(code) => Some(format!("it exited with status {code}")),
                Exit::Signalled(signal) => Some(format!("it was killed by signal {signal}")),
                _ => None,
            };
            if let Some(how) = how {
                *why = format!("{why}: {how}");
            }
        }
        (result, tail)
    };
    handle.end().await;
    let heard = std::mem::replace(&mut *lock(&heard), Heard::new(cx, dir));
    let (result, cut) = match result {
        Ok(cut) => (Ok(()), cut),
        Err(AgentFault::Failed(why)) if heard.prompted => (Err(AgentFault::Failed(heard.explained(why, &tail))), None),
        Err(AgentFault::Failed(why)) => (Err(AgentFault::NotStarted(heard.explained(why, &tail))), None),
        Err(AgentFault::TimedOut(limit)) if !heard.prompted => {
            let why = format!("it was not ready within {}", crate::ty::duration::format(limit));
            (Err(AgentFault::NotStarted(heard.explained(why, &tail))), None)
        }
        Err(other) => (Err(other), None),
    };
    AgentDone {
        transcript: heard.said.into_text(),
        usage: heard.usage,
        steps: Some(heard.work.steps),
        cut,
        ..AgentDone::ended(result, heard.message.into_text())
    }
}

/// The conversation, to the end of the turn; returns why the agent stopped, if it was not done.
async fn talk(
    cx: &AgentContext<'_>,
    dir: &Path,
    lines: Lines<impl tokio::io::AsyncRead + Send + Unpin + 'static>,
    stdin: impl tokio::io::AsyncWrite + Send + Unpin + 'static,
    heard: &Arc<Mutex<Heard>>,
    stop: &CancellationToken,
) -> Result<Option<String>, String> {
    let outgoing = sink::unfold(stdin, async |mut stdin, line: String| {
        let written = match stdin.write_all(format!("{line}\n").as_bytes()).await {
            Ok(()) => stdin.flush().await,
            fault => fault,
        };
        if let Err(fault) = written {
            // An agent that has exited has closed both streams: the end of its output is the better explanation.
            tokio::time::sleep(LAST_WORD).await;
            return Err(fault);
        }
        Ok::<_, io::Error>(stdin)
    });
    let listening = Arc::clone(heard);
    let incoming = stream::unfold((lines, listening, false), async |(mut lines, heard, over)| {
        if over {
            return None;
        }
        loop {
            let fault = match lines.next().await {
                Ok(None) => {
                    lock(&heard).over = true;
                    return None;
                }
                Ok(Some(line)) => {
                    let told = lock(&heard).hear(&line);
                    match told {
                        Ok(None) => continue,
                        Ok(Some(text)) => return Some((Ok(text), (lines, heard, false))),
                        Err(why) => why,
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::InvalidData => {
                    format!("it does not speak ACP: it sent a line of more than {LONGEST} bytes")
                }
                Err(e) => e.to_string(),
            };
            lock(&heard).fault.get_or_insert_with(|| fault.clone());
            return Some((Err(io::Error::other(fault)), (lines, heard, true)));
        }
    });
    let (asked, read) = (Arc::clone(heard), Arc::clone(heard));
    let client = Client
        .v1()
        .name("gevals")
        .on_receive_request(
            async move |request: RequestPermissionRequest, responder, _| {
                responder.respond(lock(&asked).permit(&request))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |request: ReadTextFileRequest, responder, _| {
                let root = lock(&read).readable.clone();
                match read_file(root.as_deref(), &request) {
                    Ok(text) => responder.respond(ReadTextFileResponse::new(text)),
                    Err(why) => responder.respond_with_error(Error::invalid_params().data(why)),
                }
            },
            agent_client_protocol::on_receive_request!(),
        );
    let fault = client
        .connect_with(
            Transport::new(Box::pin(outgoing), Box::pin(incoming)),
            async |connection: ConnectionTo<Agent>| Ok(turn(cx, dir, &connection, heard, stop).await),
        )
        .await;
    // The cause of the broken connection explains more than the resulting error.
    if let Some(why) = &lock(heard).fault {
        return Err(why.clone());
    }
    match fault {
        Ok(result) => result,
        // It may have exited before it was asked anything; then it is the request that fails.
        Err(_) if lock(heard).over => Err(ENDED.to_owned()),
        Err(error) => Err(message(&error)),
    }
}

async fn turn(
    cx: &AgentContext<'_>,
    dir: &Path,
    connection: &ConnectionTo<Agent>,
    heard: &Mutex<Heard>,
    stop: &CancellationToken,
) -> Result<Option<String>, String> {
    let reads = FileSystemCapabilities::new().read_text_file(cx.skills.is_some());
    let initialize = InitializeRequest::new(ProtocolVersion::V1)
        .client_capabilities(ClientCapabilities::new().fs(reads))
        .client_info(Implementation::new("gevals", env!("CARGO_PKG_VERSION")));
    let at = |stage: &'static str| move |error: Error| format!("{stage}: {}", message(&error));
    let agent = connection.send_request(initialize).block_task().await.map_err(at("`initialize`"))?;
    if agent.protocol_version != ProtocolVersion::V1 {
        return Err(format!("it speaks version {} of the protocol, not 1", agent.protocol_version));
    }
    if !cx.servers.is_empty() && !agent.agent_capabilities.mcp_capabilities.http {
        return Err("it does not accept MCP servers over HTTP (`mcpCapabilities.http`)".to_owned());
    }
    let server = |s: &AgentServer| McpServer::Http(McpServerHttp::new(s.name.clone(), s.url.clone()));
    let session = NewSessionRequest::new(dir).mcp_servers(cx.servers.iter().map(server).collect::<Vec<_>>());
    let session = connection.send_request(session).block_task().await.map_err(at("`session/new`"))?.session_id;
    lock(heard).prompted = true;
    let prompt = vec![ContentBlock::Text(TextContent::new(cx.prompt))];
    let prompt = connection.send_request(PromptRequest::new(session.clone(), prompt)).block_task();
    tokio::pin!(prompt);
    let answer = tokio::select! {
        answer = &mut prompt => answer,
        () = stop.cancelled() => {
            let _ = connection.send_notification(CancelNotification::new(session));
            prompt.await
        }
    };
    let cut = match answer.map_err(at("`session/prompt`"))?.stop_reason {
        StopReason::EndTurn => return Ok(None),
        StopReason::Cancelled => return Err("it reported that its turn was cancelled".to_owned()),
        StopReason::Refusal => "it refused to continue",
        StopReason::MaxTokens => "it reached its token limit",
        StopReason::MaxTurnRequests => "it reached its limit of model requests",
        _ => "for an unknown reason",
    };
    Ok(Some(cut.to_owned()))
}

fn message(error: &Error) -> String {
    if error.data.as_ref().is_some_and(|data| data["reason"] == "incoming_transport_closed") {
        return ENDED.to_owned();
    }
    let data = error.data.as_ref().map(|data| match data {
        Value::String(text) => format!(": {text}"),
        other => format!(": {other}"),
    });
    let text: String = format!("{}{}", error.message, data.unwrap_or_default());
    text.chars().take(500).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn lock(heard: &Mutex<Heard>) -> MutexGuard<'_, Heard> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the agent has reported so far.
struct Heard {
    said: Said<TRANSCRIPT>,
    /// The latest uninterrupted sequence of chunks of its message.
    message: Said<KEPT>,
    speaking: Speaking,
    work: Work,
    /// A time of day and the corresponding instant of a monotonic clock.
    clock: (jiff::Timestamp, tokio::time::Instant),
    usage: Option<Spent>,
    uses: watch::Sender<Spent>,
    /// The start of the output that is not part of the protocol.
    noise: String,
    noises: usize,
    requests: usize,
    /// Whether the prompt was sent: before that, the agent counts as not started.
    prompted: bool,
    fault: Option<String>,
    /// Whether its output has ended.
    over: bool,
    servers: Vec<AgentServer>,
    /// The directory it may read files from, if any.
    readable: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Speaking {
    Nothing,
    Thought,
    Message,
}

impl Heard {
    fn new(cx: &AgentContext<'_>, dir: &Path) -> Self {
        Self {
            said: Said::default(),
            message: Said::default(),
            speaking: Speaking::Nothing,
            work: Work::default(),
            clock: (cx.host.now(), tokio::time::Instant::now()),
            usage: None,
            uses: watch::Sender::new(Spent::AtLeast(0)),
            noise: String::new(),
            noises: 0,
            requests: 0,
            prompted: false,
            fault: None,
            over: false,
            servers: cx.servers.to_vec(),
            readable: cx.skills.map(|_| dir.to_owned()),
        }
    }

    /// Processes a line; returns what to pass to the protocol library.
    fn hear(&mut self, line: &[u8]) -> Result<Option<String>, String> {
        if line.trim_ascii().is_empty() {
            return Ok(None);
        }
        let parsed = line.trim_ascii_start().starts_with(b"{").then(|| serde_json::from_slice(line));
        let message: Value = match parsed {
            Some(Ok(message @ Value::Object(_))) => message,
            _ => {
                self.noises += line.len();
                if self.noise.len() < 200 {
                    self.noise.extend(String::from_utf8_lossy(line).chars().take(200));
                    self.noise.push(' ');
                }
                let much = || format!("it does not speak ACP: it printed {} bytes of something else", self.noises);
                return if self.noises > NOISE { Err(much()) } else { Ok(None) };
            }
        };
        match (message.get("method").and_then(Value::as_str), message.get("id")) {
            (Some("session/update"), None) => {
                let (began, clock) = self.clock;
                self.work.now = began.checked_add(clock.elapsed()).ok();
                self.update(&message["params"])?;
                Ok(None)
            }
            (method, _) => {
                if method.is_some() {
                    self.requests += 1;
                    if self.requests > REQUESTS {
                        return Err(format!("it asked more than {REQUESTS} times"));
                    }
                } else if message.pointer("/result/stopReason").is_some() {
                    let told = message.pointer("/result/_meta/usage").or(message.pointer("/result/usage"));
                    told.and_then(usage).into_iter().for_each(|usage| self.use_up(Spent::Reported(usage)));
                }
                Ok(Some(String::from_utf8_lossy(line).into_owned()))
            }
        }
    }

    fn use_up(&mut self, usage: Spent) {
        self.usage = Some(usage);
        self.uses.send_replace(usage);
    }

    fn update(&mut self, params: &Value) -> Result<(), String> {
        let update = &params["update"];
        if let Some(usage) = update.pointer("/_meta/usage").and_then(usage) {
            self.use_up(Spent::Reported(usage));
        }
        if update["sessionUpdate"] == "usage_update"
            && let Some(context) = update["used"].as_u64()
        {
            match self.usage {
                Some(Spent::Reported(_)) => {}
                Some(Spent::AtLeast(before)) if before >= context => {}
                _ => self.use_up(Spent::AtLeast(context)),
            }
        }
        let text = || update.pointer("/content/text").and_then(Value::as_str).unwrap_or_default();
        match update["sessionUpdate"].as_str().unwrap_or_default() {
            "agent_message_chunk" => {
                let begins = self.speak(Speaking::Message);
                if begins {
                    self.message = Said::default();
                }
                self.work.text(AgentStepKind::Message, text(), begins);
                self.message.push(text());
                self.said.push(text());
            }
            "agent_thought_chunk" => {
                let begins = self.speak(Speaking::Thought);
                self.work.text(AgentStepKind::Thinking, text(), begins);
                self.said.push(text());
            }
            kind @ ("tool_call" | "tool_call_update") => self.call(kind, update)?,
            _ => {}
        }
        Ok(())
    }

    /// Returns whether a new sequence of text begins.
    fn speak(&mut self, what: Speaking) -> bool {
        let begins = self.speaking != what;
        if begins && self.speaking != Speaking::Nothing {
            self.said.push("\n");
        }
        if begins && what == Speaking::Thought {
            self.said.push("(thinking) ");
        }
        self.speaking = what;
        begins
    }

    fn call(&mut self, kind: &str, update: &Value) -> Result<(), String> {
        let id = update["toolCallId"].as_str().unwrap_or_default();
        let is_new = !self.work.calls.contains_key(id);
        if is_new || kind == "tool_call" {
            self.speak(Speaking::Nothing);
        }
        if is_new && self.work.calls.len() >= REQUESTS {
            return Err(format!("it reported more than {REQUESTS} calls"));
        }
        let Some(call) = self.work.call(id) else { return Ok(()) };
        let told = |key: &str| update[key].as_str().filter(|text| !text.is_empty());
        let told = |key: &str| told(key).map(|text| text.chars().take(1000).collect::<String>());
        if let Some(title) = told("title") {
            call.title = title;
        }
        call.kind = told("kind").or(call.kind.take());
        call.status = told("status").or(call.status.take());
        self.work.input(id, &update["rawInput"]);
        self.work.output(id, &update["rawOutput"]);
        if is_new && let Some(call) = self.work.call(id) {
            let input = call.raw_input.as_ref().map(|input| format!(" {input}")).unwrap_or_default();
            let line = format!("tool {}{input}", call.title);
            self.said.line(&line);
        }
        Ok(())
    }

    fn permit(&mut self, request: &RequestPermissionRequest) -> RequestPermissionResponse {
        let id = request.tool_call.tool_call_id.0.as_ref();
        let known = self.work.calls.get(id).and_then(|at| self.work.steps.get(*at)?.tool_call.as_ref());
        let known = known.map(|call| call.title.clone());
        let title = request.tool_call.fields.title.clone().filter(|t| !t.is_empty()).or(known).unwrap_or_default();
        let allowed = permitted(&title, &self.servers);
        self.speak(Speaking::Nothing);
        self.said.line(&format!("permission for {title}: {}", if allowed { "granted" } else { "refused" }));
        let chosen = choice(allowed, &request.options);
        RequestPermissionResponse::new(match chosen {
            Some(option) => {
                RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(option.option_id.clone()))
            }
            None => RequestPermissionOutcome::Cancelled,
        })
    }

    /// Adds the agent's other output to an error message.
    fn explained(&self, why: String, complaints: &Complaints) -> String {
        match (complaints.last().is_empty(), self.noise.trim()) {
            (false, _) | (true, "") => complaints.explain(why),
            (true, noise) => format!("{why} (it printed output outside the protocol: {noise})"),
        }
    }
}

/// Whether a tool that is requested under this title may be called (§3.5).
fn permitted(title: &str, servers: &[AgentServer]) -> bool {
    servers.iter().any(|server| {
        server.titles.iter().any(|t| t == title)
            || server.allowed.iter().any(|tool| {
                title == tool
                    || (title.contains("mcp") || title.contains(&server.name)) && names(title, tool, &server.name)
            })
    })
}

/// Whether `tool` is a separate word in the title: `mcp__notes__notes_delete` does not request `delete`.
fn names(title: &str, tool: &str, server: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    title.match_indices(tool).any(|(at, _)| {
        let (before, after) = (&title[..at], &title[at + tool.len()..]);
        let begins = !before.ends_with(inside)
            || before.ends_with("__")
            || before
                .strip_suffix(['_', '-'])
                .and_then(|before| before.strip_suffix(server))
                .is_some_and(|before| !before.ends_with(inside));
        begins && !after.starts_with(inside)
    })
}

fn choice(allowed: bool, options: &[PermissionOption]) -> Option<&PermissionOption> {
    use PermissionOptionKind::{AllowAlways, AllowOnce, RejectAlways, RejectOnce};
    let kinds = if allowed { [AllowAlways, AllowOnce] } else { [RejectAlways, RejectOnce] };
    kinds.iter().find_map(|kind| options.iter().rev().find(|option| option.kind == *kind))
}

/// Reads a file in the agent's directory, or some of its lines.
#[expect(clippy::disallowed_methods, reason = "the paths are the agent's, and links must be seen through")]
fn read_file(root: Option<&Path>, request: &ReadTextFileRequest) -> Result<String, String> {
    let root = root.ok_or("there are no files to read")?;
    let inside = root.canonicalize().and_then(|root| Ok((root, request.path.canonicalize()?)));
    let path = match inside {
        Ok((root, path)) if request.path.is_absolute() && path.starts_with(&root) => path,
        _ => return Err(format!("`{}` is not a file of this session", request.path.display())),
    };
    let text = std::fs::read_to_string(&path).map_err(|e| e.to_string())?;
    if request.line.is_none() && request.limit.is_none() {
        return Ok(text);
    }
    let first = request.line.unwrap_or(1).max(1) as usize - 1;
    let count = request.limit.map_or(usize::MAX, |limit| limit as usize);
    Ok(text.split_inclusive('\n').skip(first).take(count).collect())
}

/// Reads token counts, under the names used here or in the protocol, given as numbers or as text.
pub fn usage(told: &Value) -> Option<Usage> {
    let count = |names: [&str; 2]| {
        let told = names.iter().find_map(|name| told.get(name))?;
        told.as_u64().or_else(|| Some(told.as_f64()? as u64)).or_else(|| told.as_str()?.trim().parse().ok())
    };
    let input = count(["input_tokens", "inputTokens"]).unwrap_or_default();
    let output = count(["output_tokens", "outputTokens"]).unwrap_or_default();
    let total = count(["total_tokens", "totalTokens"]).filter(|&n| n > 0).unwrap_or(input.saturating_add(output));
    (total > 0).then(|| Usage {
        input_tokens: input,
        output_tokens: output,
        total_tokens: total,
        thought_tokens: count(["thought_tokens", "thoughtTokens"]).unwrap_or_default(),
        cached_read_tokens: count(["cached_read_tokens", "cachedReadTokens"]).unwrap_or_default(),
        cached_write_tokens: count(["cached_write_tokens", "cachedWriteTokens"]).unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_requested_tool_is_found_in_a_title() {
        let server = AgentServer {
            name: "notes".to_owned(),
            url: String::new(),
            allowed: vec!["delete".to_owned(), "notes_create".to_owned()],
            titles: vec!["Create a note".to_owned()],
            enable_all_tools: false,
        };
        let asks = |title: &str| permitted(title, std::slice::from_ref(&server));
        for title in [
            "delete",
            "notes_create",
            "Create a note",
            "mcp__notes__notes_create",
            "mcp__notes__delete",
            "notes_delete",
            "notes_notes_create",
            "mcp.notes.delete",
            "delete (notes MCP Server)",
            "notes - delete: {\"title\": \"x\"}",
        ] {
            assert!(asks(title), "{title}");
        }
        for title in [
            "",
            "bash",
            "delete everything",
            "mcp__notes__notes_delete",
            "mcp__notes__notes_delete_all",
            "mcp__notes__undelete",
            "mcp__other__x",
        ] {
            assert!(!asks(title), "{title}");
        }
    }

    #[test]
    fn usage_is_read_in_all_its_formats() {
        let told = serde_json::json!({ "input_tokens": "12", "outputTokens": 3.7 });
        let used = usage(&told).unwrap();
        assert_eq!((used.input_tokens, used.output_tokens, used.total_tokens), (12, 3, 15));
        assert_eq!(usage(&serde_json::json!({ "input_tokens": 0 })), None);
    }
}
