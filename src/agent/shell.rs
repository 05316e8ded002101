//! `type: file` with `commands`: a command line a prompt (§3.4 of the upstream behaviour). The prompt reaches it as data:
//! see [`bash::prompt`](crate::bash::prompt).

use std::path::Path;

use serde_json::{Map, Value, json};

use super::{AgentContext, AgentDone, AgentFault, KEPT};
use crate::{
    bash::{
        gotext,
        prompt::{Frame, VARIABLE},
    },
    hir::{Name, ShellAgent},
    host::{Exec, Exit},
};

pub async fn run(cx: &AgentContext<'_>, agent: &ShellAgent) -> AgentDone {
    let not_started = |why| AgentDone::ended(Err(AgentFault::NotStarted(why)), String::new());
    if cx.prompt.contains('\0') {
        return not_started("the prompt holds a NUL, which no process can be given".to_owned());
    }
    let dir = match cx.host.temp_dir() {
        Ok(dir) => dir,
        Err(e) => return not_started(format!("no temporary folder could be made: {e}")),
    };
    let done = match command_line(cx, agent, &dir) {
        Ok(line) => execute(cx, line, &dir).await,
        Err(why) => not_started(why),
    };
    // What a failed agent left there may explain it.
    match &done.result {
        Err(AgentFault::Failed(why)) => {
            let why = format!("{why}; its folder is kept: {}", dir.display());
            AgentDone { result: Err(AgentFault::Failed(why)), ..done }
        }
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
    let config = match cx.servers {
        [] => String::new(),
        [server] => {
            let file = dir.join("mcp-server.json");
            cx.host
                .write(&file, mcp_config(cx).as_bytes(), Some(0o600))
                .map_err(|e| format!("the MCP config could not be written: {e}"))?;
            let file = safe("path", &file.to_string_lossy())?;
            let values = [("File", file.as_str()), ("URL", &safe("URL", &server.url)?)];
            gotext::render(text(&agent.mcp_server_arg), &values)
                .map_err(|f| format!("`argTemplateMcpServer` cannot be filled: {f}"))?
        }
        many => return Err(format!("a shell agent can use one MCP server, and {} are enabled", many.len())),
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
    let frame = Frame::new(run_prompt, &values).map_err(|f| format!("`runPrompt` cannot be used: {f}"))?;
    Ok(frame.fill(cx.prompt))
}

fn text(name: &Option<Name>) -> &str {
    name.as_ref().map_or("", |n| n.value.as_str())
}

/// These words are put into shell text as they are, and a server chooses the names of its tools.
fn safe(what: &str, word: &str) -> Result<String, String> {
    let plain = |c: char| c.is_alphanumeric() || "_-./:@%+=,".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => Ok(word.to_owned()),
        false => Err(format!("the {what} `{word}` cannot stand in a command line as it is")),
    }
}

/// One file for all servers, in the form MCP clients share. Headers of the real server stay with the recorder.
fn mcp_config(cx: &AgentContext<'_>) -> String {
    let servers = cx.servers.iter().map(|server| {
        let entry = json!({ "type": "http", "url": server.url, "enableAllTools": server.enable_all_tools });
        (server.name.clone(), entry)
    });
    let servers: Map<String, Value> = servers.collect();
    format!("{:#}\n", json!({ "mcpServers": servers }))
}

async fn execute(cx: &AgentContext<'_>, line: String, dir: &Path) -> AgentDone {
    let exec = Exec::new(shell(cx), dir).args(["-c", &line]).env(VARIABLE, cx.prompt).timeout(cx.timeout);
    let exec = Exec { merge_stderr: true, capture_limit: KEPT, ..exec };
    let finished = cx.host.exec(exec, cx.cancel.clone()).await;
    let (result, exit_code) = match finished.exit {
        Exit::Exited(0) => (Ok(()), 0),
        Exit::Exited(code) => (Err(AgentFault::Failed(format!("it exited with status {code}"))), code),
        Exit::Signalled(signal) => (Err(AgentFault::Failed(format!("it was killed by signal {signal}"))), 128 + signal),
        Exit::TimedOut { .. } => (Err(AgentFault::TimedOut(cx.timeout)), 1),
        Exit::Cancelled { .. } => (Err(AgentFault::Cancelled), 1),
        Exit::NotStarted(fault) => (Err(AgentFault::NotStarted(fault.to_string())), 1),
    };
    let mut output = finished.stdout.text();
    if finished.stdout.dropped > 0 {
        output += &format!("\n… {} bytes more", finished.stdout.dropped);
    }
    AgentDone { exit_code, leftover: finished.leftover, ..AgentDone::ended(result, output) }
}

/// `$SHELL` where it quotes as bash does, else bash, else sh.
fn shell(cx: &AgentContext<'_>) -> String {
    const ALIKE: [&str; 7] = ["bash", "zsh", "sh", "dash", "ksh", "mksh", "ash"];
    let alike = |shell: &String| ALIKE.iter().any(|a| shell.rsplit('/').next() == Some(a));
    let usual = || cx.host.which("bash").map(|p| p.to_string_lossy().into_owned());
    cx.host.env("SHELL").filter(alike).or_else(usual).unwrap_or_else(|| "/bin/sh".to_owned())
}
