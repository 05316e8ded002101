//! `builtin.script`: makes the calls in an oracle file, and returns its output. No model and no shortcut: its calls are
//! recorded like those of any other agent.

use serde_json::{Map, Value};

use super::{AgentContext, AgentDone, AgentFault};
use crate::{
    hir::{Arg, ArgKind, CallKind, Def, OracleCall, Template},
    template,
};

pub async fn run(cx: &AgentContext<'_>, calls: &[OracleCall<Def>], output: Option<&Template<Def>>) -> AgentDone {
    let mut transcript = String::new();
    let result = tokio::select! {
        biased;
        () = cx.cancel.cancelled() => Err(AgentFault::Cancelled),
        done = play(cx, calls, output, &mut transcript) => done.map_err(AgentFault::Failed),
        () = cx.host.sleep(cx.timeout) => Err(AgentFault::TimedOut(cx.timeout)),
    };
    match result {
        Ok(output) => {
            transcript += &output;
            AgentDone { transcript, ..AgentDone::ended(Ok(()), output) }
        }
        Err(fault) => AgentDone { transcript, ..AgentDone::ended(Err(fault), String::new()) },
    }
}

async fn play(
    cx: &AgentContext<'_>,
    calls: &[OracleCall<Def>],
    output: Option<&Template<Def>>,
    transcript: &mut String,
) -> Result<String, String> {
    let mut results = Value::Array(Vec::new());
    for (i, call) in calls.iter().enumerate() {
        let at = |why: String| format!("call {i} of the oracle: {why}");
        let name = fill_text(cx, &call.name, &results).map_err(at)?;
        let fields = call.args.iter().map(|(key, arg)| Ok((key.value.clone(), (cx.fill)(arg, &results)?)));
        let args: Map<String, Value> = fields.collect::<Result<_, String>>().map_err(at)?;
        let args = Value::Object(args);
        *transcript += &format!("{} {} on {}: {args}\n", call.kind.name(), name, call.server.value);
        let mut result = cx.calls.call(&call.server.value, call.kind, &name, args).await.map_err(at)?;
        *transcript += &format!("→ {result}\n");
        // Members that a server may omit have a default, which `check` relies on.
        if let (CallKind::Tool, Value::Object(answer)) = (call.kind, &mut result) {
            answer.entry("isError").or_insert(Value::Bool(false));
            answer.entry("structuredContent").or_insert(Value::Null);
        }
        if let Value::Array(results) = &mut results {
            results.push(result);
        }
    }
    output.map_or_else(|| Ok(String::new()), |output| fill_text(cx, output, &results))
}

fn fill_text(cx: &AgentContext<'_>, text: &Template<Def>, results: &Value) -> Result<String, String> {
    let arg = Arg::new(ArgKind::Text(text.clone()), text.span);
    Ok(template::render(&(cx.fill)(&arg, results)?))
}
