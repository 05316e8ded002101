//! `script`: a program or an inline script, judged by its exit status or by its answer in the JSON protocol.

use std::path::Path;

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Context, Done, Stop, compare, process};
use crate::{
    builtin::script::{Protocol, Script},
    event::Outcome,
    host::Exec,
    ty::unique,
};

pub fn run(cx: Context<'_>) -> BoxFuture<'_, Done> {
    Box::pin(async move { Done::from(script(&cx).await) })
}

async fn script(cx: &Context<'_>) -> Result<Done, Stop> {
    let script: Script = cx.decode()?;
    // Keeps the file of an inline script until the end.
    let mut private = None;
    let cwd = process::workdir(cx, script.workdir.as_deref());
    let exec = |program: &Path| process::exec(cx, program, &cwd, &script.env);
    let mut exec = match (&script.file, &script.inline) {
        (Some(file), None) => {
            process::script_file(cx, file, &process::absolute(&cx.dir.join(file)), &cwd, &script.env)?
        }
        (None, Some(text)) if text.trim_start().starts_with("#!") => {
            exec(&process::inline_script(cx, text, &mut private)?)
        }
        (None, Some(text)) if script.args.is_empty() && script.protocol == Protocol::None => {
            exec(Path::new(&script.shell)).stdin(text.as_str())
        }
        // Standard input is already used, or there are arguments to pass.
        (None, Some(text)) => {
            let file = private.insert(process::Private::new(cx.host)?).file("script", text, 0o600)?;
            exec(Path::new(&script.shell)).args([file])
        }
        _ => return Err("exactly one of `file` and `inline` is needed".to_owned().into()),
    };
    exec = exec.args(&script.args);
    if script.protocol == Protocol::Json {
        exec = exec.stdin(story(cx).to_string());
    }
    Ok(judge(cx, script.protocol, exec).await)
}

async fn judge(cx: &Context<'_>, protocol: Protocol, exec: Exec) -> Done {
    let (mut done, status) = process::ended(cx, cx.host.exec(exec, cx.cancel.clone()).await);
    match (status, protocol) {
        (None, _) => done,
        (Some(0), Protocol::None) => Done { comparisons: 1, ..done },
        (Some(status), Protocol::None) => {
            (done.outcome, done.message, done.comparisons) = (Outcome::Failed, process::exited(status), 1);
            done
        }
        (Some(0), Protocol::Json) => match verdict(done.locals.get("stdout").and_then(Value::as_str)) {
            Ok(verdict) => decide(done, verdict),
            Err(message) => done.judged(Err(message)),
        },
        (Some(status), Protocol::Json) => {
            let message = format!("{}, which in the json protocol means that it broke", process::exited(status));
            done.judged(Err(message))
        }
    }
}

/// The data that a script receives in the JSON protocol.
fn story(cx: &Context<'_>) -> Value {
    let agent = cx.task.agent.as_ref();
    let history = match &cx.task.call_history {
        Value::Object(history) => Value::Object(history.clone()),
        _ => json!({ "toolCalls": [], "resourceReads": [], "promptGets": [] }),
    };
    let env: Map<String, Value> = cx.env.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    json!({
        "task": { "name": cx.task.name, "prompt": cx.task.prompt },
        "agent": agent.map(|a| json!({ "output": a.output, "exitCode": a.exit_code })),
        "mcp": { "callHistory": history },
        "env": env,
        "steps": if cx.task.steps.is_object() { cx.task.steps.clone() } else { json!({}) },
    })
}

/// The answer of a script in the JSON protocol.
#[derive(Deserialize)]
struct Answer {
    passed: bool,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    checks: Option<Vec<Check>>,
    #[serde(default)]
    outputs: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
struct Check {
    name: String,
    passed: bool,
    #[serde(default)]
    message: Option<String>,
}

fn verdict(stdout: Option<&str>) -> Result<Answer, String> {
    let text = stdout.ok_or("its standard output is too long to be an answer")?;
    if text.trim().is_empty() {
        return Err("it printed nothing, and in the json protocol its answer is expected on standard output".to_owned());
    }
    let value: Value = serde_json::from_str(text).map_err(|e| {
        format!("its standard output is not one JSON value: {e}; what is not its answer belongs on standard error")
    })?;
    unique::check(text).map_err(|e| format!("its answer does not follow the json protocol: {e}"))?;
    serde_json::from_value(value).map_err(|e| format!("its answer does not follow the json protocol: {e}"))
}

fn decide(mut done: Done, answer: Answer) -> Done {
    let checks = answer.checks.unwrap_or_default();
    // The verdict and the checks that it is based on.
    done.comparisons = 1 + u32::try_from(checks.len()).unwrap_or(u32::MAX - 1);
    let bad: Vec<&Check> = checks.iter().filter(|c| !c.passed).collect();
    done.message = answer.reason.unwrap_or_default();
    if answer.passed {
        if let Some(check) = bad.first() {
            done.message =
                format!("its answer contradicts itself: `passed` is true, and its check `{}` did not pass", check.name);
            done.outcome = Outcome::Broken;
            return done;
        }
        done.locals.insert("result".to_owned(), Value::Object(answer.outputs.unwrap_or_default()));
        return done;
    }
    done.outcome = Outcome::Failed;
    let difference = |c: &&Check| {
        let message = c.message.as_deref().filter(|m| !m.is_empty()).unwrap_or("it did not pass");
        compare::difference(&c.name, "it passes", message)
    };
    done.differences = bad.iter().map(difference).collect();
    if done.message.is_empty() {
        done.message = "the script's verdict is no".to_owned();
    }
    done
}
