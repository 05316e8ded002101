//! The judge: an agent that reads another agent's answer and reports through a single tool whether the answer is right.
//!
//! What is judged is data ([`prompt`]); a verdict is a call of the tool and nothing else (`server`). A judge that submits no
//! verdict has not judged: that is neither a pass nor a failure.

pub mod prompt;
mod server;

use std::{path::Path, time::Duration};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

pub use prompt::{Criterion, Question};
use server::{Received, Server, TOOL};

use crate::{
    agent::{self, AgentCalls, AgentContext, AgentDone, AgentFault, AgentServer, Spent, Usage},
    event::{FailureCategory, TokenUsage},
    hir::{Arg, ArgKind, CallKind, OracleCall, Template},
    host::{Capability, Host},
    plan::AgentKind,
    source::{Span, Spanned},
    tokens::count,
    ty::duration,
};

/// A judge with a fixed verdict, for simulated worlds. `check` rejects one in an eval.
pub fn scripted(passed: bool, span: Span) -> AgentKind {
    let name = |text: &str| Spanned::new(text.to_owned(), span);
    let category = if passed { FailureCategory::None } else { FailureCategory::SemanticMismatch };
    let call = OracleCall {
        span,
        kind: CallKind::Tool,
        server: name(SERVER),
        name: Template::literal(TOOL, span),
        args: vec![
            (name("passed"), Arg::new(ArgKind::Bool(passed), span)),
            (name("reason"), Arg::text("as this world has it", span)),
            (name("failureCategory"), Arg::text(category.name(), span)),
        ],
    };
    AgentKind::Script { calls: vec![call], output: None, entry: true }
}

/// How many times at most a judge is asked that ends without a verdict.
const ATTEMPTS: u32 = 2;
/// The name of the judge's server.
const SERVER: &str = "judge";

/// The inputs of a query to a judge.
pub struct Asking<'a> {
    pub host: &'a dyn Host,
    pub agent: &'a AgentKind,
    /// The task's name, for messages.
    pub task: &'a str,
    /// The task's directory.
    pub dir: &'a Path,
    /// For all attempts together.
    pub timeout: Duration,
    pub cancel: &'a CancellationToken,
    /// Receives the capability, which must not appear in any result: anyone who has it can judge.
    pub secret: &'a (dyn Fn(&Capability) + Send + Sync),
    /// Receives what all attempts have used so far.
    pub used: &'a (dyn Fn(TokenUsage) + Send + Sync),
}

/// The outcome of a query to a judge.
#[derive(Debug)]
pub struct Asked {
    pub result: Result<Verdict, Unjudged>,
    /// Everything that the judge printed.
    pub transcript: String,
    pub attempts: u32,
    /// Of all attempts.
    pub usage: Option<TokenUsage>,
    /// Whether some of the usage is estimated from prompt and answer, because it was not reported.
    pub estimated: bool,
}

/// The verdict that a judge submitted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verdict {
    pub passed: bool,
    pub reason: String,
    pub category: FailureCategory,
}

/// Why there is no verdict.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unjudged {
    Broken(String),
    Cancelled,
}

/// Asks the judge whether an answer is right.
pub async fn judge(asking: &Asking<'_>, question: &Question<'_>) -> Asked {
    if let Some(why) = question.unanswerable() {
        return Asked::broken(why);
    }
    // An agent that says nothing has not done what was asked.
    if question.is_without_answer() {
        let reason = "the agent gave no answer".to_owned();
        let verdict = Verdict { passed: false, reason, category: FailureCategory::MissingInformation };
        return Asked { result: Ok(verdict), attempts: 0, ..Asked::broken("") };
    }
    match Capability::new() {
        Ok(nonce) => ask(asking, &prompt::prompt(question, nonce.as_str())).await,
        Err(error) => Asked::broken(format!("cannot generate a random number to mark data: {error}")),
    }
}

/// Asks a judge with this prompt, and a second time if it ends without a verdict.
pub async fn ask(asking: &Asking<'_>, prompt: &str) -> Asked {
    let deadline = asking.host.elapsed().saturating_add(asking.timeout);
    let mut asked = Asked { attempts: 0, ..Asked::broken("") };
    let mut refused = None;
    while asked.attempts < ATTEMPTS {
        let left = deadline.saturating_sub(asking.host.elapsed());
        if left.is_zero() {
            break;
        }
        asked.attempts += 1;
        let (done, received) = match attempt(asking, prompt, left, asked.usage).await {
            Ok(attempt) => attempt,
            Err(why) => return Asked { result: Err(Unjudged::Broken(why)), ..asked },
        };
        if asked.attempts > 1 {
            asked.transcript += "\n\n--- asked once more, as no verdict was submitted ---\n\n";
        }
        asked.transcript += &done.transcript;
        if !matches!(done.result, Err(AgentFault::NotStarted(_))) {
            asked.estimated |= !matches!(done.usage, Some(Spent::Reported(_)));
            let used = used(done.usage, || estimate(prompt, &done.output));
            let all = asked.usage.unwrap_or_default().and(used);
            asked.usage = Some(all);
            (asking.used)(all);
        }
        refused = received.refused.or(refused);
        if let (Ok(()), Some(one), Some(other)) = (&done.result, &received.verdict, &received.contradiction) {
            let (pass, fail) = if one.passed { (one, other) } else { (other, one) };
            let why = format!(
                "two contradictory verdicts were submitted, and neither counts: passed (“{}”) and failed (“{}”)",
                pass.reason, fail.reason
            );
            return Asked { result: Err(Unjudged::Broken(why)), ..asked };
        }
        let result = match (done.result, received.verdict) {
            (Ok(()), Some(verdict)) => Ok(verdict),
            (Ok(()), None) => continue,
            (Err(AgentFault::Cancelled), _) => Err(Unjudged::Cancelled),
            (Err(fault), verdict) => Err(Unjudged::Broken(broken(&fault, verdict.is_some(), asking.timeout))),
        };
        return Asked { result, ..asked };
    }
    let times = if asked.attempts == 1 { "once" } else { "twice" };
    let refused = refused.map(|why| format!("; what it tried was refused: {why}")).unwrap_or_default();
    let why = format!("the judge was asked {times} and submitted no verdict{refused}");
    Asked { result: Err(Unjudged::Broken(why)), ..asked }
}

fn broken(fault: &AgentFault, submitted: bool, timeout: Duration) -> String {
    let what = match fault {
        AgentFault::NotStarted(why) => format!("the judge could not be started: {why}"),
        AgentFault::Failed(why) => format!("the judge failed: {why}"),
        AgentFault::Malformed(why) => format!("the judge made a malformed call: {why}"),
        AgentFault::TimedOut(_) => {
            // The remaining time is rarely a round number.
            let limit = Duration::from_millis(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
            format!("the judge did not end within {}", duration::format(limit))
        }
        AgentFault::Cancelled => "the judge was cancelled".to_owned(),
    };
    if submitted { format!("{what}; the verdict that it had submitted does not count") } else { what }
}

/// The reported usage, or the estimate.
fn used(told: Option<Spent>, estimate: impl FnOnce() -> TokenUsage) -> TokenUsage {
    match told {
        Some(Spent::Reported(usage)) => token_usage(usage),
        Some(Spent::AtLeast(tokens)) => estimate().at_least(tokens),
        None => estimate(),
    }
}

/// Estimates what a judge that does not report its usage used.
fn estimate(prompt: &str, answer: &str) -> TokenUsage {
    let (input_tokens, output_tokens) = (count(prompt), count(answer));
    TokenUsage { input_tokens, output_tokens, total_tokens: input_tokens + output_tokens, ..TokenUsage::default() }
}

async fn attempt(
    asking: &Asking<'_>,
    prompt: &str,
    timeout: Duration,
    before: Option<TokenUsage>,
) -> Result<(AgentDone, Received), String> {
    let capability = Capability::new().map_err(|e| format!("there is no randomness for an address: {e}"))?;
    (asking.secret)(&capability);
    let server = Server::start(&capability).await.map_err(|e| format!("no port for the judge's tool: {e}"))?;
    let servers = [AgentServer {
        name: SERVER.to_owned(),
        url: server.url.clone(),
        allowed: vec![TOOL.to_owned()],
        titles: Vec::new(),
        enable_all_tools: true,
    }];
    let context = AgentContext {
        host: asking.host,
        prompt,
        task: asking.task,
        run: 0,
        dir: asking.dir,
        servers: &servers,
        skills: None,
        timeout,
        cancel: asking.cancel,
        fill: &|arg, _| arg.as_value().ok_or_else(|| "a judge's script has no holes".to_owned()),
        used: &|now| (asking.used)(before.unwrap_or_default().and(used(Some(now), TokenUsage::default))),
        calls: &server,
        jail: None,
    };
    let mut done = match asking.agent {
        AgentKind::Replay { .. } | AgentKind::Noop => {
            let why = "an agent without a model cannot judge".to_owned();
            return Err(format!("the judge could not be started: {why}"));
        }
        kind => agent::run(kind, context).await,
    };
    // A judge is not part of the task's world.
    if let Some(leftover) = done.leftover.take() {
        asking.host.reap(leftover).await;
    }
    Ok((done, server.received()))
}

impl AgentCalls for Server {
    fn tools<'a>(&'a self, server: &'a str) -> BoxFuture<'a, Result<Vec<Value>, String>> {
        Box::pin(async move {
            match server {
                SERVER => Ok(vec![serde_json::to_value(server::tool()).unwrap_or_default()]),
                _ => Err(format!("a judge has no server `{server}`")),
            }
        })
    }

    fn call<'a>(
        &'a self,
        server: &'a str,
        kind: CallKind,
        name: &'a str,
        args: Value,
    ) -> BoxFuture<'a, Result<Value, String>> {
        Box::pin(async move {
            if (server, kind, name) != (SERVER, CallKind::Tool, TOOL) {
                return Err(format!("a judge has nothing but the tool `{TOOL}` of the server `{SERVER}`"));
            }
            let (text, is_error) = match self.submit(args) {
                Ok(text) => (text, false),
                Err(text) => (text, true),
            };
            Ok(json!({ "content": [{ "type": "text", "text": text }], "isError": is_error }))
        })
    }
}

impl Asked {
    fn broken(why: impl Into<String>) -> Self {
        let result = Err(Unjudged::Broken(why.into()));
        Self { result, transcript: String::new(), attempts: 0, usage: None, estimated: false }
    }
}

/// Converts usage to the form used in events.
pub fn token_usage(usage: Usage) -> TokenUsage {
    let Usage { input_tokens, output_tokens, total_tokens, thought_tokens, cached_read_tokens, cached_write_tokens } =
        usage;
    TokenUsage { input_tokens, output_tokens, total_tokens, thought_tokens, cached_read_tokens, cached_write_tokens }
}
