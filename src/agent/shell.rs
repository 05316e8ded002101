//! `type: file` with `commands`: one command line per prompt (§3.4 of the upstream behaviour). The prompt is passed as
//! data: see [`bash::prompt`](crate::bash::prompt).

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::{AgentContext, AgentDone, AgentFault, AgentServer, KEPT};
use crate::{
    bash::{
        gotext,
        prompt::{FILE_VARIABLE, Frame, VARIABLE},
        tools::SHELLS,
    },
    hir::{Name, ShellAgent},
    host::{Exec, Exit},
    secrets::CUT,
};

/// Size in bytes of a variable or an argument that every system supports; Linux supports 128 KiB.
const SHORT: usize = 100_000;

/// The file in the agent's directory that contains the prompt unchanged.
const PROMPT_FILE: &str = "prompt.txt";

/// If set, the agent's directory is kept, and the agent gets a directory for debug output; the name is upstream's.
const DEBUG: &str = "MCPCHECKER_DEBUG";

pub async fn run(cx: &AgentContext<'_>, agent: &ShellAgent) -> AgentDone {
    let not_started = |why| AgentDone::ended(Err(AgentFault::NotStarted(why)), String::new());
    if cx.prompt.contains('\0') {
        return not_started("the prompt contains a NUL, which cannot be passed to a process".to_owned());
    }
    let dir = match cx.host.temp_dir() {
        Ok(dir) => dir,
        Err(e) => return not_started(format!("cannot create a temporary directory: {e}")),
    };
    let debug = match cx.host.env(DEBUG).filter(|value| !value.is_empty()).map(|_| cx.host.temp_dir()) {
        Some(Ok(debug)) => Some(debug),
        Some(Err(e)) => return not_started(format!("cannot create a temporary directory: {e}")),
        None => None,
    };
    let mut done = match command_line(cx, agent, &dir) {
        Ok(line) => execute(cx, agent, line, &dir, debug.as_deref()).await,
        Err(why) => not_started(why),
    };
    if let Some(debug) = &debug {
        let note = format!(
            "\n[{DEBUG}: the agent's directory is {}, and its notes for you are in {}]",
            dir.display(),
            debug.display()
        );
        done.output += &note;
        done.transcript += &note;
    }
    // The files that a failed agent left may explain the failure.
    match &done.result {
        Err(AgentFault::Failed(why)) => {
            let why = format!("{why}; its directory is kept: {}", dir.display());
            AgentDone { result: Err(AgentFault::Failed(why)), ..done }
        }
        _ if debug.is_some() => done,
        _ => {
            let _ = cx.host.remove(&dir);
            done
        }
    }
}

fn command_line(cx: &AgentContext<'_>, agent: &ShellAgent, dir: &Path) -> Result<String, String> {
    let run_prompt = text(&agent.run_prompt);
    if run_prompt.trim().is_empty() {
        return Err("the agent file has no `runPrompt`".to_owned());
    }
    super::skills::mount(cx, dir)?;
    let config = match cx.servers {
        [] => String::new(),
        // One file lists all servers; a template that contains the URL of one is filled for each.
        many => {
            let template = text(&agent.mcp_server_arg);
            let parts = if template.contains(".URL") { many.chunks(1).collect() } else { vec![many] };
            let args = parts.iter().enumerate().map(|(i, servers)| mcp_server_arg(cx, dir, template, servers, i));
            args.collect::<Result<Vec<_>, _>>()?.join(" ")
        }
    };
    let mut tools = Vec::new();
    for server in cx.servers {
        for tool in &server.allowed {
            let values =
                [("ServerName", &*safe("server name", &server.name)?), ("ToolName", &*safe("tool name", tool)?)];
            let arg = gotext::render(text(&agent.allowed_tool_arg), &values);
            tools.push(arg.map_err(|f| format!("`argTemplateAllowedTools` cannot be filled: {f}"))?);
        }
    }
    let separator = agent.allowed_tools_separator.as_ref().map_or(" ", |s| s.value.as_str());
    let values = [("McpServerFileArgs", config.as_str()), ("AllowedToolArgs", &tools.join(separator))];
    let frame = Frame::new(run_prompt, &values, cx.prompt).map_err(|f| format!("`runPrompt` cannot be used: {f}"))?;
    let written = cx.host.write(&dir.join(PROMPT_FILE), cx.prompt.as_bytes(), Some(0o600));
    written.map_err(|e| format!("the prompt could not be written to a file: {e}"))?;
    let line = frame.fill();
    // A long prompt is a shell variable that is not exported. The `x` preserves its trailing newlines.
    let read = match cx.prompt.len() > SHORT && frame.needs_variable() {
        true => format!("{VARIABLE}=$(cat \"${FILE_VARIABLE}\"; echo x); {VARIABLE}=${{{VARIABLE}%x}}; "),
        false => String::new(),
    };
    Ok(read + &line)
}

fn mcp_server_arg(
    cx: &AgentContext<'_>,
    dir: &Path,
    template: &str,
    servers: &[AgentServer],
    nth: usize,
) -> Result<String, String> {
    let name = if nth == 0 { "mcp-server.json".to_owned() } else { format!("mcp-server-{}.json", nth + 1) };
    let file = dir.join(name);
    let written = cx.host.write(&file, mcp_config(servers).as_bytes(), Some(0o600));
    written.map_err(|e| format!("the MCP config could not be written: {e}"))?;
    let file = safe("path", &file.to_string_lossy())
        .map_err(|why| format!("`$TMPDIR` must be a directory with a plain path: {why}"))?;
    let url = servers.first().map_or(Ok(String::new()), |server| safe("URL", &server.url))?;
    let values = [("File", file.as_str()), ("URL", url.as_str())];
    gotext::render(template, &values).map_err(|f| format!("`argTemplateMcpServer` cannot be filled: {f}"))
}

fn text(name: &Option<Name>) -> &str {
    name.as_ref().map_or("", |n| n.value.as_str())
}

/// These words are inserted into shell text unquoted, and a server chooses the names of its tools.
fn safe(what: &str, word: &str) -> Result<String, String> {
    let plain = |c: char| c.is_alphanumeric() || "_-./:@%+=,".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => Ok(word.to_owned()),
        false => Err(format!("the {what} `{word}` cannot be used in a command line unquoted")),
    }
}

/// One file for several servers, in the format that MCP clients share. Headers of the real server stay with the
/// recorder.
pub fn mcp_config(servers: &[AgentServer]) -> String {
    let servers = servers.iter().map(|server| {
        let entry = json!({ "type": "http", "url": server.url, "enableAllTools": server.enable_all_tools });
        (server.name.clone(), entry)
    });
    let servers: Map<String, Value> = servers.collect();
    format!("{:#}\n", json!({ "mcpServers": servers }))
}

/// The absolute paths in a command line, as its author wrote it.
fn named(line: &str) -> Vec<PathBuf> {
    let words = line.split(|c: char| c.is_whitespace() || "'\"`;|&()<>=,".contains(c));
    words.filter(|word| word.len() > 1 && word.starts_with('/')).map(PathBuf::from).collect()
}

async fn execute(
    cx: &AgentContext<'_>,
    agent: &ShellAgent,
    line: String,
    dir: &Path,
    debug: Option<&Path>,
) -> AgentDone {
    let mut exec = Exec::new(shell(cx), dir).env(FILE_VARIABLE, dir.join(PROMPT_FILE)).timeout(cx.timeout);
    if cx.prompt.len() <= SHORT {
        exec = exec.env(VARIABLE, cx.prompt);
    }
    if line.len() <= SHORT {
        exec = exec.args(["-c", &line]);
    } else {
        let script = dir.join("run-prompt.sh");
        if let Err(e) = cx.host.write(&script, line.as_bytes(), Some(0o600)) {
            let why = format!("its command line could not be written to a file: {e}");
            return AgentDone::ended(Err(AgentFault::NotStarted(why)), String::new());
        }
        exec = exec.args([script]);
    }
    if let Some(debug) = debug {
        exec = exec.env(DEBUG, "1").env(format!("{DEBUG}_DIR"), debug);
    }
    let exec = Exec { merge_stderr: true, capture_limit: KEPT, ..exec };
    let own: Vec<&Path> = [dir].into_iter().chain(debug).collect();
    let (exec, _doors) = match cx.confined(exec, &own, &named(text(&agent.run_prompt))) {
        Ok(confined) => confined,
        Err(why) => return AgentDone::ended(Err(AgentFault::NotStarted(why)), String::new()),
    };
    let finished = cx.host.exec(exec, cx.cancel.clone()).await;
    let (result, exit_code) = match super::ended(cx.jail, finished.exit) {
        Exit::Exited(0) => (Ok(()), 0),
        // Exit statuses of a shell if a program does not exist or cannot be executed.
        Exit::Exited(code @ (126 | 127)) => {
            let why = finished.stdout.text().lines().last().map(|line| line.chars().take(200).collect());
            let mut why: String = why.unwrap_or_else(|| format!("its command line exited with status {code}"));
            if cx.prompt.len() > SHORT && code == 126 {
                let size = cx.prompt.len();
                why = format!(
                    "a prompt of {size} bytes is too long for an argument: write `< \"${FILE_VARIABLE}\"` ({why})"
                );
            }
            (Err(AgentFault::NotStarted(why)), code)
        }
        Exit::Exited(code) => (Err(AgentFault::Failed(format!("it exited with status {code}"))), code),
        Exit::Signalled(signal) => (Err(AgentFault::Failed(format!("it was killed by signal {signal}"))), 128 + signal),
        Exit::TimedOut { .. } => (Err(AgentFault::TimedOut(cx.timeout)), 1),
        Exit::Cancelled { .. } => (Err(AgentFault::Cancelled), 1),
        Exit::NotStarted(fault) => (Err(AgentFault::NotStarted(fault.to_string())), 1),
    };
    let mut output = finished.stdout.text();
    if finished.stdout.dropped > 0 {
        output += &format!("{CUT}{} bytes more", finished.stdout.dropped);
    }
    AgentDone { exit_code, leftover: finished.leftover, ..AgentDone::ended(result, output) }
}

/// `$SHELL` if it quotes like bash; otherwise bash, otherwise sh.
fn shell(cx: &AgentContext<'_>) -> String {
    let alike = |shell: &String| SHELLS.iter().any(|a| shell.rsplit('/').next() == Some(a));
    let usual = || cx.host.which("bash").map(|p| p.to_string_lossy().into_owned());
    cx.host.env("SHELL").filter(alike).or_else(usual).unwrap_or_else(|| "/bin/sh".to_owned())
}
