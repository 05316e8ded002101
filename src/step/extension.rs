//! An operation of an extension, and what is expected of what it gives.

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};

use super::{
    Context, Done, Stop,
    compare::{self, Compared},
};
use crate::{
    builtin::{
        expect::TextExpect,
        extension::{self, Demand},
    },
    event::Outcome,
    extension::{Answer, Call, Fault},
    hir::OperationKind,
};

pub fn run(cx: Context<'_>) -> BoxFuture<'_, Done> {
    Box::pin(async move { Done::from(operation(&cx).await) })
}

async fn operation(cx: &Context<'_>) -> Result<Done, Stop> {
    let OperationKind::Extension { package, operation } = &cx.step.op.kind else {
        return Err(format!("`{}` names no operation of an extension", cx.step.op.name).into());
    };
    let args = match super::fit(&cx.step.op.signature.params, cx.args.clone()) {
        Value::Object(args) => args,
        _ => Map::new(),
    };
    let agent = cx.task.agent.as_ref().map(|agent| (cx.task.prompt.clone(), agent.output.clone()));
    let call = Call { operation, args, phase: cx.phase, timeout: cx.timeout, agent };
    let called = cx.within(cx.extensions.call(package, call)).await;
    if called.is_err() {
        cx.extensions.give_up(package).await;
    }
    Ok(match called? {
        Ok(answer) => judge(cx, answer),
        Err(Fault { why, log }) => {
            let message = format!("the extension `{package}`: {why}");
            Done { stderr: log, ..Done::new(Outcome::Broken, message) }
        }
    })
}

fn judge(cx: &Context<'_>, answer: Answer) -> Done {
    let mut done = Done::new(Outcome::Passed, "");
    done.stderr.clone_from(&answer.log);
    done.leftover = answer.leftover;
    done.locals = extension::values(&answer.outputs);
    let said = said(answer.success, &answer.message, &answer.error, &answer.outputs);
    let expected = match cx.expected::<Map<String, Value>>(&done.locals) {
        Ok(expected) => expected,
        Err(message) => return done.judged(Err(message)),
    };
    let wanted = expected.as_ref().and_then(|expect| expect.get("success")).is_none_or(|wanted| *wanted == true);
    let judged = compared(expected.as_ref(), &said, answer.success, wanted);
    let mut done = done.judged(judged);
    if answer.success != wanted {
        done.message = match (answer.success, answer.error.is_empty(), answer.message.is_empty()) {
            (true, ..) => "it succeeded, and was expected to fail".to_owned(),
            (false, false, _) => answer.error,
            (false, true, false) => answer.message,
            (false, true, true) => "the extension says no, and not why".to_owned(),
        };
    }
    done
}

/// What an expectation may ask for, by name.
fn said(success: bool, message: &str, error: &str, outputs: &Map<String, Value>) -> Map<String, Value> {
    let own = [("success", Value::from(success)), ("message", message.into()), ("error", error.into())];
    let own = own.into_iter().map(|(name, value)| (name.to_owned(), value));
    outputs.clone().into_iter().chain(own).collect()
}

fn compared(
    expected: Option<&Map<String, Value>>,
    said: &Map<String, Value>,
    success: bool,
    wanted: bool,
) -> Result<Compared, String> {
    let mut found = Compared::default();
    let word = |success: bool| if success { "success" } else { "failure" };
    found.add((success != wanted).then(|| compare::difference("success", word(wanted), word(success))));
    // What a failure leaves is no output: that it failed is what differs.
    if success != wanted {
        return Ok(found);
    }
    for (name, demand) in expected.into_iter().flatten().filter(|(name, _)| *name != "success") {
        let Some(actual) = said.get(name) else {
            found.add(Some(compare::difference(name, "a value", "the operation gave none of this name")));
            continue;
        };
        found.extend(demanded(name, demand, actual)?);
    }
    Ok(found)
}

fn demanded(name: &str, demand: &Value, actual: &Value) -> Result<Compared, String> {
    let mut found = Compared::default();
    let equal = |wanted: &Value| {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let same = match (wanted, actual) {
            (Value::String(wanted), Value::String(actual)) => {
                wanted.trim_end_matches('\n') == actual.trim_end_matches('\n')
            }
            _ => compare::same(wanted, actual),
        };
        (!same).then(|| compare::unequal(name, &text(wanted), &text(actual)))
    };
    if !demand.is_object() {
        found.add(equal(demand));
        return Ok(found);
    }
    let demand: Demand =
        serde_json::from_value(demand.clone()).map_err(|e| format!("`expect.{name}` does not fit: {e}"))?;
    if let Some(wanted) = &demand.equals {
        found.add(equal(wanted));
    }
    if demand.contains.is_some() || demand.matches.is_some() {
        match actual {
            Value::String(actual) => {
                let text = TextExpect { contains: demand.contains, matches: demand.matches, equals: None };
                found.extend(compare::text(name, &text, actual)?);
            }
            other => found.add(Some(compare::difference(name, "a text", &other.to_string()))),
        }
    }
    if let Some(json) = &demand.json {
        let parsed = actual.as_str().and_then(|text| serde_json::from_str(text).ok());
        match parsed.as_ref().or((!actual.is_string()).then_some(actual)) {
            Some(document) => found.extend(compare::json(name, &json.0, document)?),
            None => found.add(Some(compare::difference(name, "JSON", &actual.to_string()))),
        }
    }
    match found.made {
        0 => Err(format!("`expect.{name}` compares nothing: no part of it demands anything")),
        _ => Ok(found),
    }
}
