//! Runs evals: asks a model or calls a tool, and grades the answer. The grade is not sent to the server.

use std::{path::Path, time::Duration};

use futures_util::{StreamExt, future::BoxFuture, stream};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    Server,
    agent::{self, Doer},
};
use crate::{
    agent::{AgentCalls, AgentContext, AgentFault, AgentServer, Conversation, Speaker, converse},
    hir::{CallKind, ModelAgent},
    host::Host,
    judge::{Asking, Criterion, Question, Unjudged, judge},
    mcp::CallError,
    plan::AgentKind,
    primitive::{Call, Eval, Expected, Input, Message, Mismatch, Role, execution, invocation},
};

/// Number of model answers in a scenario that does not specify it.
const TURNS: u32 = 20;

/// What to run evals with.
#[derive(Clone, Copy)]
pub struct Running<'a> {
    pub host: &'a dyn Host,
    /// For invocations, and for scenarios without an agent.
    pub model: Option<&'a ModelAgent>,
    /// For scenarios.
    pub agent: Option<Doer<'a>>,
    /// For evals that an LLM grades.
    pub judge: Option<&'a ModelAgent>,
    /// How often each eval is run.
    pub runs: u32,
    /// How many evals run at the same time.
    pub parallel: usize,
    /// For a conversation with a model, and for a judge's decision.
    pub timeout: Duration,
    pub cancel: &'a CancellationToken,
}

/// How an eval ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    Passed,
    Failed,
    /// It could not be run, so there is no answer.
    Broken,
}

impl Ended {
    /// The word in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Broken => "broken",
        }
    }
}

/// One run of one eval.
#[derive(Clone, Debug)]
pub struct Done {
    pub id: String,
    /// The repetition, from 0.
    pub run: u32,
    pub ended: Ended,
    /// Why; a judge gives a reason for a pass as well. Otherwise empty if it passed.
    pub reason: String,
    pub duration: Duration,
    /// What was graded: a result, the message of a model, or a transcript.
    pub answer: String,
    /// For an execution: the result of the call.
    pub result: Option<Value>,
}

/// Runs evals on one session with the server, in the given order. `tools` is what models are offered: the items of
/// `tools/list`.
pub async fn run(running: &Running<'_>, server: &Server, tools: &[Value], evals: &[&Eval]) -> Vec<Done> {
    let each = evals.iter().flat_map(|eval| (0..running.runs).map(move |nth| (*eval, nth)));
    let all: Vec<_> = each.map(|(eval, nth)| one(running, server, tools, eval, nth)).collect();
    stream::iter(all).buffered(running.parallel.max(1)).collect().await
}

/// An answer to be graded, or how the eval ended without one.
enum Answered {
    Calls(Vec<Call>, String),
    Result(Value),
    Transcript(String),
    Ended(Ended, String),
}

/// Runs an eval once.
pub async fn one(running: &Running<'_>, server: &Server, tools: &[Value], eval: &Eval, nth: u32) -> Done {
    let began = running.host.elapsed();
    let answered = answer(running, server, tools, eval).await;
    let (mut text, mut result) = (String::new(), None);
    let (ended, reason) = match answered {
        Answered::Ended(ended, why) => (ended, why),
        Answered::Result(answer) => {
            text = answer.to_string();
            let graded = grade(running, eval, &answer).await;
            result = Some(answer);
            graded
        }
        Answered::Calls(calls, answer) => {
            text = answer;
            match &eval.expected {
                Expected::ExactMatch(expected) => matched(invocation(expected, &calls)),
                Expected::LlmAsJudge { rubric } => judged(running, eval, &rubric.value, &text).await,
            }
        }
        Answered::Transcript(answer) => {
            text = answer;
            match &eval.expected {
                Expected::LlmAsJudge { rubric } => judged(running, eval, &rubric.value, &text).await,
                Expected::ExactMatch(_) => (Ended::Broken, "a scenario needs a judge".to_owned()),
            }
        }
    };
    let duration = running.host.elapsed().saturating_sub(began);
    Done { id: eval.id.value.clone(), run: nth, ended, reason, duration, answer: text, result }
}

/// Grades the result of a tool call.
pub async fn grade(running: &Running<'_>, eval: &Eval, result: &Value) -> (Ended, String) {
    match &eval.expected {
        Expected::ExactMatch(expected) => matched(execution(expected, result)),
        Expected::LlmAsJudge { rubric } => judged(running, eval, &rubric.value, &result.to_string()).await,
    }
}

async fn answer(running: &Running<'_>, server: &Server, tools: &[Value], eval: &Eval) -> Answered {
    let broken = |why: String| Answered::Ended(Ended::Broken, why);
    let (messages, most, calls_tools) = match &eval.input {
        Input::Execution { tool, arguments } => {
            return match server.client.call_tool(&tool.value, Value::Object(arguments.value.clone())).await {
                Ok(result) => Answered::Result(result.raw),
                Err(error @ (CallError::Protocol { .. } | CallError::Malformed { .. })) => {
                    Answered::Ended(Ended::Failed, format!("`{}` gave no result: {error}", tool.value))
                }
                Err(error) => broken(server.lost(&error)),
            };
        }
        Input::Invocation { messages } => (messages, 1, false),
        Input::Scenario { messages, max_turns } => {
            (messages, max_turns.as_ref().map_or(TURNS, |most| most.value), true)
        }
    };
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let model = match running.agent.filter(|_| calls_tools) {
        Some(Doer { kind: AgentKind::Model(model), .. }) => Some(model),
        Some(doer) => {
            if let Some(why) = messages.iter().find_map(|message| said(message).err()) {
                return broken(why);
            }
            let prompt = agent::prompt(messages);
            // The agent's calls come through the proxy; it does not use these.
            let offered = Offered { server, tools };
            let context = context(running, &prompt, &eval.id.value, &offered);
            return match agent::work(context, doer, server, tools, most).await {
                Ok(transcript) => Answered::Transcript(transcript),
                Err(fault) => unanswered(&fault),
            };
        }
        None => running.model,
    };
    let Some(model) = model else { return broken("no model is given".to_owned()) };
    let messages: Vec<_> = match messages.iter().map(said).collect() {
        Ok(messages) => messages,
        Err(why) => return broken(why),
    };
    let offered = Offered { server, tools };
    let servers = [AgentServer {
        name: server.name.clone(),
        url: String::new(),
        allowed: Vec::new(),
        titles: Vec::new(),
        enable_all_tools: true,
    }];
    let context = AgentContext { servers: &servers, ..context(running, "", &eval.id.value, &offered) };
    let done = converse(&context, model, &Conversation { messages: &messages, most, calls_tools }).await;
    if let Err(fault) = done.result {
        return unanswered(&fault);
    }
    let calls = done.calls().map(|(tool, arguments)| Call { tool: tool.to_owned(), arguments: arguments.clone() });
    let calls: Vec<Call> = calls.collect();
    // One JSON value per line, so that a text of the model cannot be mistaken for a tool result.
    let mut lines: Vec<String> = done.turns.iter().map(Value::to_string).collect();
    lines.extend(done.cut.map(|why| json!({ "cut": why }).to_string()));
    match calls_tools {
        true => Answered::Transcript(lines.join("\n")),
        false => Answered::Calls(calls, lines.join("\n")),
    }
}

/// The context of an agent or a model, without servers.
fn context<'a>(running: &Running<'a>, prompt: &'a str, id: &'a str, calls: &'a dyn AgentCalls) -> AgentContext<'a> {
    AgentContext {
        host: running.host,
        prompt,
        task: id,
        run: 0,
        dir: Path::new(""),
        servers: &[],
        skills: None,
        timeout: running.timeout,
        cancel: running.cancel,
        fill: &|_, _| Err("a conversation has no holes".to_owned()),
        used: &|_| {},
        calls,
        jail: None,
    }
}

/// If it is the agent's own fault, the eval fails; otherwise it is broken.
fn unanswered(fault: &AgentFault) -> Answered {
    let ended = match fault {
        AgentFault::Malformed(_) | AgentFault::TimedOut(_) => Ended::Failed,
        _ => Ended::Broken,
    };
    Answered::Ended(ended, fault.to_string())
}

/// A message as it is sent to models.
fn said(message: &Message) -> Result<(Speaker, String), String> {
    let other = message.content.iter().filter_map(|block| block.get("type")?.as_str()).find(|kind| *kind != "text");
    if let Some(kind) = other {
        return Err(format!("a message has content of the type `{kind}`, but models are only given text"));
    }
    let speaker = match message.role {
        Role::User => Speaker::User,
        Role::Assistant => Speaker::Model,
    };
    Ok((speaker, message.text()))
}

fn matched(result: Result<(), Vec<Mismatch>>) -> (Ended, String) {
    match result {
        Ok(()) => (Ended::Passed, String::new()),
        Err(differences) => {
            let lines: Vec<String> = differences.iter().map(ToString::to_string).collect();
            (Ended::Failed, lines.join("\n"))
        }
    }
}

/// Asks the judge. Rubric, input and answer are data to it.
async fn judged(running: &Running<'_>, eval: &Eval, rubric: &str, answer: &str) -> (Ended, String) {
    let Some(model) = running.judge else { return (Ended::Broken, "no judge is given".to_owned()) };
    let task = match &eval.input {
        Input::Execution { tool, arguments } => {
            json!({ "calls": tool.value, "arguments": arguments.value }).to_string()
        }
        input => {
            let line = |message: &Message| json!({ (message.role.name()): message.text() }).to_string();
            input.messages().iter().map(line).collect::<Vec<_>>().join("\n")
        }
    };
    let agent = AgentKind::Model(model.clone());
    let asking = Asking {
        host: running.host,
        agent: &agent,
        task: &eval.id.value,
        dir: Path::new(""),
        timeout: running.timeout,
        cancel: running.cancel,
        // A judge that is a model has no server whose address must be kept secret.
        secret: &|_| {},
        used: &|_| {},
    };
    let answer = if answer.is_empty() { "(no answer)" } else { answer };
    let question = Question { criterion: Criterion::Rubric, reference: rubric, task: &task, answer };
    match judge(&asking, &question).await.result {
        Ok(verdict) if verdict.passed => (Ended::Passed, verdict.reason),
        Ok(verdict) => (Ended::Failed, format!("{}: {}", verdict.category.name(), verdict.reason)),
        Err(Unjudged::Broken(why)) => (Ended::Broken, why),
        Err(Unjudged::Cancelled) => (Ended::Broken, "the judge was cancelled".to_owned()),
    }
}

/// The server as a model uses it, with these tools.
struct Offered<'a> {
    server: &'a Server,
    tools: &'a [Value],
}

impl AgentCalls for Offered<'_> {
    fn tools<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Vec<Value>, String>> {
        Box::pin(async { Ok(self.tools.to_vec()) })
    }

    fn call<'a>(&'a self, _: &'a str, _: CallKind, name: &'a str, args: Value) -> BoxFuture<'a, Result<Value, String>> {
        Box::pin(async move {
            match self.server.client.call_tool(name, args).await {
                Ok(result) => Ok(result.raw),
                Err(error @ CallError::Protocol { .. }) => {
                    Ok(json!({"content": [{"type": "text", "text": error.to_string()}], "isError": true}))
                }
                Err(error) => Err(self.server.lost(&error)),
            }
        })
    }
}
