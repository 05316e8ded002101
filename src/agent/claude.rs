//! `builtin.claude-code`: Claude Code, through its adapter for the Agent Client Protocol if that is installed,
//! otherwise through its command line.

use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use serde_json::Value;
use tokio::io::AsyncWriteExt;

use super::{
    AgentContext, AgentDone, AgentFault, AgentStepKind, Complaints, KEPT, Said, Spent, TRANSCRIPT, Usage, Work, acp,
    shell::mcp_config, skills,
};
use crate::{
    host::{Exec, Exit, Host, Process},
    mcp::Lines,
};

/// The commands of Claude Code: the adapter under its names, then the command line.
const ADAPTERS: [&str; 2] = ["claude-agent-acp", "claude-code-acp"];
const CLI: &str = "claude";
/// The tool that reads a skill.
pub const SKILL_TOOL: &str = "Skill";
/// Maximum length of a line, in bytes.
const LONGEST: usize = 16 << 20;
/// How long to wait for the rest of its standard error.
const DRAIN: std::time::Duration = std::time::Duration::from_millis(100);
/// Maximum number of model answers that may be in progress at the same time.
const ANSWERS: usize = 64;

pub async fn run(cx: &AgentContext<'_>, model: Option<&str>) -> AgentDone {
    let program = match adapter_or_cli(cx.host) {
        Ok(program) => program,
        Err(why) => return AgentDone::ended(Err(AgentFault::NotStarted(why)), String::new()),
    };
    // The model may have a provider prefix, as for other agents.
    let model = model.map(|model| model.strip_prefix("anthropic:").unwrap_or(model).to_owned());
    if program.file_name().is_some_and(|name| name != CLI) {
        let env = model.map(|model| ("ANTHROPIC_MODEL", model)).into_iter().collect();
        return acp::run(cx, acp::Start { program, args: Vec::new(), env }).await;
    }
    let dir = match cx.host.temp_dir() {
        Ok(dir) => dir,
        Err(e) => {
            let why = format!("cannot create a temporary directory: {e}");
            return AgentDone::ended(Err(AgentFault::NotStarted(why)), String::new());
        }
    };
    let done = headless(cx, &program, model, &dir).await;
    let _ = cx.host.remove(&dir);
    done.unwrap_or_else(|why| AgentDone::ended(Err(AgentFault::NotStarted(why)), String::new()))
}

/// Finds the program of Claude Code.
///
/// # Errors
/// None is installed.
pub fn adapter_or_cli(host: &dyn Host) -> Result<PathBuf, String> {
    let found = ADAPTERS.iter().chain([&CLI]).find_map(|name| host.which(name));
    found.ok_or_else(|| format!("neither `{}` nor `{CLI}` is on the PATH", ADAPTERS[0]))
}

async fn headless(
    cx: &AgentContext<'_>,
    program: &Path,
    model: Option<String>,
    dir: &Path,
) -> Result<AgentDone, String> {
    // The config is outside of the working directory, where it could be mistaken for part of the task.
    let work = dir.join("work");
    cx.host.create_dir_all(&work).map_err(|e| format!("cannot create a directory: {e}"))?;
    skills::mount(cx, &work)?;
    let config = dir.join("mcp-server.json");
    let written = cx.host.write(&config, mcp_config(cx.servers).as_bytes(), Some(0o600));
    written.map_err(|e| format!("the MCP config could not be written: {e}"))?;
    let tools = cx.servers.iter().flat_map(|s| s.allowed.iter().map(|tool| format!("mcp__{}__{tool}", s.name)));
    let tools: Vec<String> = tools.chain(cx.skills.map(|_| SKILL_TOOL.to_owned())).collect();
    let mut args =
        ["-p", "--output-format", "stream-json", "--verbose", "--strict-mcp-config"].map(str::to_owned).to_vec();
    args.extend(["--mcp-config".to_owned(), config.to_string_lossy().into_owned()]);
    if !tools.is_empty() {
        args.extend(["--allowedTools".to_owned(), tools.join(",")]);
    }
    if let Some(model) = model {
        args.extend(["--model".to_owned(), model]);
    }
    let (exec, _doors) = cx.confined(Exec::new(program, &work).args(args), &[dir], &[program.to_owned()])?;
    let Process { mut stdin, stdout, mut stderr, mut handle } =
        cx.host.spawn(exec).await.map_err(|fault| fault.to_string())?;
    let (mut told, mut complaints) = (Told::default(), Complaints::default());
    let result = {
        let feed = async move {
            let _ = stdin.write_all(cx.prompt.as_bytes()).await;
            let _ = stdin.shutdown().await;
        };
        let hear = async {
            let mut lines = Lines::new(stdout, LONGEST);
            loop {
                match lines.next().await {
                    Ok(Some(line)) => {
                        let before = told.usage;
                        told.work.now = Some(cx.host.now());
                        told.hear(&line);
                        if let Some(used) = told.usage.filter(|_| told.usage != before) {
                            (cx.used)(Spent::Reported(used));
                        }
                    }
                    Ok(None) => return Ok(()),
                    Err(_) => return Err(format!("it printed a line of more than {LONGEST} bytes")),
                }
            }
        };
        // Never completes: another process may keep the other end of the pipe open for longer.
        let drain = async {
            complaints.read(&mut stderr).await;
            std::future::pending().await
        };
        let work = async {
            let ((), heard) = tokio::join!(feed, hear);
            heard?;
            match super::ended(cx.jail, handle.wait().await) {
                Exit::Exited(0) => Ok(()),
                Exit::Exited(code) => Err(format!("it exited with status {code}")),
                Exit::Signalled(signal) => Err(format!("it was killed by signal {signal}")),
                _ => Err("it ended".to_owned()),
            }
        };
        tokio::select! {
            biased;
            () = cx.cancel.cancelled() => Err(AgentFault::Cancelled),
            () = cx.host.sleep(cx.timeout) => Err(AgentFault::TimedOut(cx.timeout)),
            done = work => done.map_err(AgentFault::Failed),
            never = drain => never,
        }
    };
    let _ = tokio::time::timeout(DRAIN, complaints.read(&mut stderr)).await;
    handle.end().await;
    let result = match (result, &told.fault) {
        (Ok(()), None) if told.ended => Ok(()),
        (Ok(()), None) => Err(AgentFault::Failed(complaints.explain("it ended without a result".to_owned()))),
        (Ok(()), Some(why)) => Err(AgentFault::Failed(why.clone())),
        (Err(AgentFault::Failed(how)), None) => Err(AgentFault::Failed(complaints.explain(how))),
        (Err(AgentFault::Failed(how)), Some(why)) => Err(AgentFault::Failed(format!("{why}: {how}"))),
        (Err(fault), _) => Err(fault),
    };
    let Told { said, message, usage, work, .. } = told;
    Ok(AgentDone {
        transcript: said.into_text(),
        usage: usage.map(Spent::Reported),
        steps: Some(work.steps),
        ..AgentDone::ended(result, message.into_text())
    })
}

/// What its JSON stream reported.
#[derive(Default)]
struct Told {
    said: Said<TRANSCRIPT>,
    message: Said<KEPT>,
    work: Work,
    usage: Option<Usage>,
    /// Whether it reported its result.
    ended: bool,
    /// The usage of the model's latest answers, by id, and the total usage of earlier ones.
    answers: IndexMap<String, Usage>,
    before: Usage,
    fault: Option<String>,
}

impl Told {
    fn hear(&mut self, line: &[u8]) {
        let Ok(event @ Value::Object(_)) = serde_json::from_slice(line) else {
            self.said.line(&String::from_utf8_lossy(line));
            return;
        };
        match event["type"].as_str().unwrap_or_default() {
            "assistant" => {
                let message = &event["message"];
                for part in message["content"].as_array().into_iter().flatten() {
                    self.part(part);
                }
                self.answered(message);
            }
            // Results of calls.
            "user" => {
                for part in event.pointer("/message/content").and_then(Value::as_array).into_iter().flatten() {
                    let Some(id) = part["tool_use_id"].as_str() else { continue };
                    self.work.output(id, &part["content"]);
                    if self.work.calls.contains_key(id)
                        && let Some(call) = self.work.call(id)
                    {
                        let failed = part["is_error"] == Value::Bool(true);
                        call.status = Some(if failed { "failed" } else { "completed" }.to_owned());
                    }
                }
            }
            "result" => {
                self.ended = true;
                let text = event["result"].as_str().unwrap_or_default();
                let subtype = event["subtype"].as_str().unwrap_or_default();
                if event["is_error"] == Value::Bool(true) || subtype.starts_with("error") {
                    let what = if text.is_empty() { event["subtype"].as_str().unwrap_or("an error") } else { text };
                    self.fault =
                        Some(format!("it ended with an error: {}", what.chars().take(500).collect::<String>()));
                } else if !text.is_empty() {
                    self.message = Said::default();
                    self.message.push(text);
                }
                self.usage = usage(&event["usage"]).or(self.usage);
            }
            _ => {}
        }
    }

    /// An answer of the model arrives in several messages with the same id, each with the usage of the whole answer so
    /// far.
    fn answered(&mut self, message: &Value) {
        let Some(used) = usage(&message["usage"]) else { return };
        let id: String = message["id"].as_str().unwrap_or_default().chars().take(200).collect();
        if id.is_empty() {
            self.before.add(used);
        } else {
            self.answers.insert(id, used);
        }
        if self.answers.len() > ANSWERS
            && let Some((_, oldest)) = self.answers.shift_remove_index(0)
        {
            self.before.add(oldest);
        }
        let mut all = self.before;
        self.answers.values().for_each(|used| all.add(*used));
        self.usage = Some(all);
    }

    fn part(&mut self, part: &Value) {
        match part["type"].as_str().unwrap_or_default() {
            "text" => {
                let text = part["text"].as_str().unwrap_or_default();
                self.message = Said::default();
                self.message.push(text);
                self.said.line(text);
                self.work.text(AgentStepKind::Message, text, true);
            }
            "thinking" => {
                self.work.text(AgentStepKind::Thinking, part["thinking"].as_str().unwrap_or_default(), true);
            }
            "tool_use" => {
                let (name, input) = (part["name"].as_str().unwrap_or_default(), &part["input"]);
                self.said.line(&format!("tool {name} {input}"));
                let id = match part["id"].as_str() {
                    Some(id) => id.to_owned(),
                    None => self.work.steps.len().to_string(),
                };
                if let Some(call) = self.work.call(&id) {
                    name.clone_into(&mut call.title);
                }
                self.work.input(&id, input);
            }
            _ => {}
        }
    }
}

/// The reported usage; the input includes tokens read from and written to the cache, which the report excludes.
fn usage(told: &Value) -> Option<Usage> {
    let count = |name: &str| told[name].as_u64().unwrap_or_default();
    let (read, written) = (count("cache_read_input_tokens"), count("cache_creation_input_tokens"));
    let input = count("input_tokens").saturating_add(read).saturating_add(written);
    let output = count("output_tokens");
    let total = input.saturating_add(output);
    (total > 0).then_some(Usage {
        input_tokens: input,
        output_tokens: output,
        total_tokens: total,
        thought_tokens: 0,
        cached_read_tokens: read,
        cached_write_tokens: written,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_counted_once_even_if_its_messages_are_interleaved() {
        let mut told = Told::default();
        let mut hear = |id: &str, tokens: u64| {
            let message = serde_json::json!({ "id": id, "usage": { "input_tokens": tokens, "output_tokens": 1 } });
            told.hear(serde_json::json!({ "type": "assistant", "message": message }).to_string().as_bytes());
            told.usage.unwrap().total_tokens
        };
        // From an agent and its subagent.
        assert_eq!(["a", "b", "a", "b"].map(|id| hear(id, 9)), [10, 20, 20, 20]);
        // The latest usage of an answer replaces the earlier one.
        assert_eq!((hear("a", 19), hear("", 4), hear("", 4)), (30, 35, 40));
        for n in 0..1000 {
            hear(&n.to_string(), 9);
        }
        assert_eq!(hear("c", 9), 10_050);
        assert_eq!([hear("d", u64::MAX), hear("e", u64::MAX)], [u64::MAX; 2]);
        assert_eq!(told.answers.len(), ANSWERS);
    }
}
