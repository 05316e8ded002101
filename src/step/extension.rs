//! Operations of extensions, in both forms: `ALIAS.OPERATION`, and `extension: {package, action, args}`.

use futures_util::future::BoxFuture;
use serde_json::Value;

use super::{
    Context, Done, Stop,
    compare::{self, Compared, TextDemands},
    process,
};
use crate::{
    builtin::extension::{Expect, OutputExpect},
    event::Outcome,
    extension::{Answer, Call},
    hir::OperationKind,
    ty::number::same_value,
};

pub fn run(cx: Context<'_>) -> BoxFuture<'_, Done> {
    Box::pin(async move { Done::from(extension(&cx).await) })
}

async fn extension(cx: &Context<'_>) -> Result<Done, Stop> {
    // `check` resolves both forms to the same kind.
    let OperationKind::Extension { package, operation } = &cx.step.op.kind else {
        return Err(format!("`{}` is no operation of an extension", cx.step.op.name).into());
    };
    let args = cx.args.clone();
    if let Some(schema) = &cx.step.op.signature.schema {
        let faults = schema.faults(&args, &[]);
        if !faults.is_empty() {
            let faults: Vec<_> = faults.iter().map(ToString::to_string).collect();
            return Err(
                format!("the arguments do not fit `{operation}`, so it was not called: {}", faults.join("; ")).into()
            );
        }
    }
    let agent = cx.task.agent.as_ref().map(|agent| (cx.task.prompt.as_str(), agent.output.as_str()));
    let workdir = process::absolute(cx.dir);
    let workdir = workdir.as_path();
    let (phase, run_id, timeout) = (cx.phase, cx.task.run_id.as_str(), cx.timeout);
    let call = Call { operation, args, phase, run_id, workdir, env: cx.env, agent, timeout };
    let answer = cx.within(cx.extensions.execute(package, cx.dir, &call)).await??;
    let mut done = Done::new(Outcome::Passed, "");
    done.stderr = answer.log.join("\n");
    done.locals.extend(answer.outputs.clone());
    done.locals.insert("result".to_owned(), Value::Object(answer.outputs.clone()));
    let expect: Expect = match cx.expected(&done.locals) {
        Ok(expect) => expect.unwrap_or_default(),
        Err(message) => return Ok(done.judged(Err(message))),
    };
    if !answer.success {
        done.comparisons = 1;
        done.outcome = Outcome::Failed;
        done.message = if answer.message.is_empty() { format!("`{operation}` failed") } else { answer.message };
        return Ok(done);
    }
    let judged = judge(&expect, &answer);
    let mut done = done.judged(judged);
    // The operation's own success counts as a comparison.
    done.comparisons += 1;
    Ok(done)
}

fn judge(expect: &Expect, answer: &Answer) -> Result<Compared, String> {
    let mut found = Compared::default();
    // An operation that runs a command is judged like a command.
    if let (Some(code), None) =
        (answer.outputs.get("exitCode").filter(|code| code.is_number()), expect.0.get("exitCode"))
    {
        let differs = code.as_i64() != Some(0);
        found.add(differs.then(|| compare::difference("exitCode", "0", &code.to_string())));
    }
    for (name, expect) in &expect.0 {
        let Some(value) = answer.outputs.get(name) else {
            let known: Vec<_> = answer.outputs.keys().map(|name| format!("`{name}`")).collect();
            let known =
                if known.is_empty() { "it gave none".to_owned() } else { format!("it gave {}", known.join(", ")) };
            return Err(format!("the operation gave no output `{name}`, of which something is expected: {known}"));
        };
        match expect {
            OutputExpect::Matchers(matchers) => {
                let text = crate::template::render(value);
                if let Some(expected) = &matchers.equals {
                    found.add(unequal(name, expected, value));
                }
                let demands = matchers.demands();
                found.extend(compare::part(name, &TextDemands { json: None, ..demands }, &text)?);
                if let Some(json) = demands.json {
                    let parsed = match value {
                        Value::String(text) => serde_json::from_str(text).ok(),
                        value => Some(value.clone()),
                    };
                    match parsed {
                        Some(document) => found.extend(compare::json(name, json, &document)?),
                        None => found.add(Some(compare::difference(name, "JSON", &text))),
                    }
                }
            }
            OutputExpect::Value(expected) => found.add(unequal(name, expected, value)),
        }
    }
    Ok(found)
}

fn unequal(name: &str, expected: &Value, value: &Value) -> Option<crate::event::Difference> {
    // Trailing newlines are ignored, as in the output of processes.
    let same = match (expected, value) {
        (Value::String(a), Value::String(b)) => a.trim_end_matches('\n') == b.trim_end_matches('\n'),
        (a, b) => same_value(a, b),
    };
    let text = crate::template::render;
    (!same).then(|| compare::unequal(name, &text(expected), &text(value)))
}
