//! `llm`: the eval's judge reads the agent's answer. Without a verdict nothing was judged, and the step is broken.

use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use super::{Context, Done, Stop};
use crate::{
    builtin::llm::Llm,
    event::{Difference, Judgement, Outcome},
    judge::{self, Asking, Criterion, Question, Unjudged},
};

pub fn run(cx: Context<'_>) -> BoxFuture<'_, Done> {
    Box::pin(async move { llm(&cx).await.into() })
}

async fn llm(cx: &Context<'_>) -> Result<Done, Stop> {
    let Some(planned) = cx.judge else {
        return Err(Stop::Broken("the eval configures no judge, so nothing was judged".to_owned()));
    };
    let (criterion, reference) = match cx.decode()? {
        Llm { contains: Some(reference), exact: None, rubric: None } => (Criterion::Contains, reference),
        Llm { contains: None, exact: Some(reference), rubric: None } => (Criterion::Exact, reference),
        Llm { contains: None, exact: None, rubric: Some(reference) } => (Criterion::Rubric, reference),
        _ => return Err(Stop::Broken("a judge is asked one of `contains`, `exact` and `rubric`".to_owned())),
    };
    let asking = Asking {
        host: cx.host,
        agent: &planned.kind,
        task: &cx.task.name,
        dir: cx.dir,
        timeout: cx.timeout,
        cancel: cx.cancel,
        secret: cx.secret,
        used: cx.judged,
    };
    let answer = cx.task.agent.as_ref().map_or("", |agent| agent.output.as_str());
    let work = (criterion == Criterion::Rubric).then(|| transcript(&cx.task.call_history, answer));
    let answer = work.as_deref().unwrap_or(answer);
    let question = Question { criterion, reference: &reference, task: &cx.task.prompt, answer };
    let asked = judge::judge(&asking, &question).await;
    let mut judgement = Judgement {
        judge: planned.name.clone(),
        model: planned.agent.model.as_ref().map(|m| m.value.clone()),
        passed: None,
        reason: String::new(),
        failure_category: None,
        attempts: asked.attempts,
        usage: asked.usage,
        estimated: asked.estimated,
    };
    let mut done = match asked.result {
        Err(Unjudged::Cancelled) => return Err(Stop::Cancelled),
        Err(Unjudged::Broken(why)) => Done::new(Outcome::Broken, why),
        Ok(verdict) => {
            judgement.passed = Some(verdict.passed);
            judgement.reason.clone_from(&verdict.reason);
            judgement.failure_category = Some(verdict.category);
            if verdict.passed {
                Done::new(Outcome::Passed, verdict.reason)
            } else {
                let (key, expected) = match criterion {
                    Criterion::Contains => ("contains", "says"),
                    Criterion::Exact => ("exact", "is"),
                    Criterion::Rubric => ("rubric", "meets"),
                };
                let mut done = Done::new(Outcome::Failed, format!("{}: {}", verdict.category.name(), verdict.reason));
                done.differences.push(Difference {
                    subject: format!("the answer, by {}", planned.title()),
                    expected: format!("{expected} “{reference}”"),
                    actual: answer.to_owned(),
                    at: cx
                        .step
                        .args
                        .iter()
                        .find(|(name, _)| name.value == key)
                        .map(|(_, arg)| (arg.span.start, arg.span.end)),
                    place: None,
                });
                done
            }
        }
    };
    done.comparisons = u32::from(judgement.passed.is_some());
    done.stdout = asked.transcript;
    done.judgement = Some(Box::new(judgement));
    Ok(done)
}

/// The agent's calls and answer, one JSON value per line, so that text of the agent cannot be taken for a tool's
/// answer.
fn transcript(calls: &Value, answer: &str) -> String {
    let kinds = ["toolCalls", "resourceReads", "promptGets"];
    let all = kinds.iter().filter_map(|kind| calls.get(kind)?.as_array()).flatten();
    let mut all: Vec<&Value> = all.collect();
    let started = |call: &&Value| call.get("timestamp")?.as_str()?.parse::<jiff::Timestamp>().ok();
    all.sort_by_key(started);
    let mut lines: Vec<String> = all.into_iter().map(|call| json!({ "call": call }).to_string()).collect();
    if !answer.trim().is_empty() {
        lines.push(json!({ "answer": answer }).to_string());
    }
    lines.join("\n")
}
