//! Coverage of a server's interface by the tasks of an eval: its tools, their parameters, the values that these accept,
//! and errors. The interface comes from the lock; the calls that agents made come from recordings.

use indexmap::IndexMap;
use regex::Regex;
use serde::Serialize;
use serde_json::Value;

use crate::{
    hir::{Arg, ArgKind, AssertionKind, CallKind, CallMatcher, CallStatus, Def, OperationKind, OracleCall},
    lock::{Lock, LockedTool},
    plan::{Action, ActionKind, AgentAction, AgentKind, EvalPlan, StepAction},
    results::recording::Recorded,
};

/// The tools of one server, and which of them are covered.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerCoverage {
    pub server: String,
    pub tools: Vec<ToolCoverage>,
}

/// One tool.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCoverage {
    pub tool: String,
    /// The tasks that call it, or require that it is called.
    pub tasks: Vec<String>,
    /// Whether a call of it is expected to fail, or has failed: with an error of the tool, or with an error of the
    /// protocol, such as for invalid arguments.
    pub fails: bool,
    pub tool_error: bool,
    pub protocol_error: bool,
    pub parameters: Vec<ParameterCoverage>,
}

/// One parameter of a tool, from its schema. A nested parameter is named by its path: `filter.tag`, `items[].name`.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ParameterCoverage {
    pub parameter: String,
    pub given: bool,
    /// The values that its schema lists, and whether each one was given.
    pub values: IndexMap<String, bool>,
}

/// How many of several items are covered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Share {
    pub touched: usize,
    pub all: usize,
}

impl Share {
    fn add(&mut self, touched: bool) {
        self.all += 1;
        self.touched += usize::from(touched);
    }

    /// From 0 to 1; 1 if there are no items.
    pub fn rate(self) -> f64 {
        if self.all == 0 { 1.0 } else { self.touched as f64 / self.all as f64 }
    }
}

/// Coverage of each kind of item.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    pub tools: Share,
    pub parameters: Share,
    /// Values listed in schemas.
    pub values: Share,
    /// Tools with a call that fails with either kind of error.
    pub errors: Share,
    /// Tools with a call that fails with a tool error, and tools with a call that fails with a protocol error.
    pub tool_errors: Share,
    pub protocol_errors: Share,
}

/// Returns the coverage of the servers in a lock. `recordings`: the calls of agents in earlier runs, by task name.
pub fn of_eval(eval: &EvalPlan, lock: &Lock, recordings: &[Recorded]) -> Vec<ServerCoverage> {
    let named = eval.servers.iter().filter_map(|server| Some((&server.name.value, lock.tools(&server.name.value)?)));
    let mut all: IndexMap<String, ServerCoverage> =
        named.map(|(name, tools)| (name.clone(), surface(name, tools))).collect();
    for plan in &eval.tasks {
        let task = &plan.task.name.value;
        plan.walk(&mut |_, _, action| of_action(action, task, &mut all));
    }
    let tasks = |name: &str| eval.tasks.iter().any(|plan| plan.task.name.value == name);
    for run in recordings.iter().filter(|run| tasks(&run.task)) {
        for call in run.calls.iter().filter(|call| call.method == "tools/call") {
            let name = call.params.get("name").and_then(Value::as_str).unwrap_or_default();
            let Some(tool) = tool_of(&mut all, &call.server, name) else { continue };
            tool.touch(&run.task);
            let arguments = call.params.get("arguments").and_then(Value::as_object);
            arguments.into_iter().flatten().for_each(|(key, value)| tool.give(key, Some(value)));
            match &call.answer {
                Some(Ok(result)) if result.get("isError").and_then(Value::as_bool) == Some(true) => {
                    tool.fail(true, false)
                }
                Some(Err(_)) => tool.fail(false, true),
                _ => {}
            }
        }
    }
    all.into_values().collect()
}

/// Returns the sums over all servers.
pub fn totals(servers: &[ServerCoverage]) -> Totals {
    let mut totals = Totals::default();
    for tool in servers.iter().flat_map(|server| &server.tools) {
        totals.tools.add(!tool.tasks.is_empty());
        totals.errors.add(tool.fails);
        totals.tool_errors.add(tool.tool_error);
        totals.protocol_errors.add(tool.protocol_error);
        for parameter in &tool.parameters {
            totals.parameters.add(parameter.given);
            parameter.values.values().for_each(|given| totals.values.add(*given));
        }
    }
    totals
}

fn surface(server: &str, tools: &IndexMap<String, LockedTool>) -> ServerCoverage {
    let tool = |(name, tool): (&String, &LockedTool)| {
        let mut parameters = Vec::new();
        within("", tool.input_schema.json(), DEPTH, &mut parameters);
        ToolCoverage { tool: name.clone(), parameters, ..ToolCoverage::default() }
    };
    ServerCoverage { server: server.to_owned(), tools: tools.iter().map(tool).collect() }
}

/// Maximum nesting of parameters; a schema may contain itself.
const DEPTH: usize = 4;

/// Collects the parameters of a schema, each before those nested in it.
fn within(path: &str, schema: &Value, depth: usize, found: &mut Vec<ParameterCoverage>) {
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, schema) in properties.into_iter().flatten() {
        let parameter = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        // A parameter that occurs in several alternatives counts once.
        if !found.iter().any(|known| known.parameter == parameter) {
            let values = listed(schema).into_iter().map(|value| (value, false)).collect();
            found.push(ParameterCoverage { parameter: parameter.clone(), given: false, values });
        }
        if depth > 1 {
            within(&parameter, schema, depth - 1, found);
        }
    }
    if path.is_empty() {
        return;
    }
    if let Some(items) = schema.get("items") {
        within(&format!("{path}[]"), items, depth, found);
    }
    for key in ["anyOf", "oneOf", "allOf"] {
        let parts = schema.get(key).and_then(Value::as_array).into_iter().flatten();
        parts.for_each(|part| within(path, part, depth, found));
    }
}

/// Returns the values that a schema lists: its own, those of list items, and those of alternatives.
fn listed(schema: &Value) -> Vec<String> {
    let values = schema.get("enum").and_then(Value::as_array).into_iter().flatten();
    let mut found: Vec<String> = values.map(shown).collect();
    if schema.get("type").and_then(Value::as_str) == Some("boolean") {
        found.extend(["true".to_owned(), "false".to_owned()]);
    }
    found.extend(schema.get("items").map(listed).unwrap_or_default());
    for key in ["anyOf", "oneOf"] {
        let parts = schema.get(key).and_then(Value::as_array).into_iter().flatten();
        found.extend(parts.flat_map(listed));
    }
    found
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn tool_of<'c>(
    all: &'c mut IndexMap<String, ServerCoverage>,
    server: &str,
    tool: &str,
) -> Option<&'c mut ToolCoverage> {
    all.get_mut(server)?.tools.iter_mut().find(|known| known.tool == tool)
}

impl ToolCoverage {
    fn touch(&mut self, task: &str) {
        if !self.tasks.iter().any(|known| known == task) {
            self.tasks.push(task.to_owned());
        }
    }

    fn fail(&mut self, of_tool: bool, of_protocol: bool) {
        self.tool_error |= of_tool;
        self.protocol_error |= of_protocol;
        self.fails |= of_tool || of_protocol;
    }

    /// Marks a parameter and those nested in it as given; `value`: the value given, if known.
    fn give(&mut self, parameter: &str, value: Option<&Value>) {
        let known = self.parameters.iter_mut().find(|known| known.parameter == parameter);
        if let Some(known) = known {
            known.given = true;
            let one = std::slice::from_ref(value.unwrap_or(&Value::Null));
            for value in value.and_then(Value::as_array).map_or(one, Vec::as_slice) {
                if let Some(given) = known.values.get_mut(&shown(value)) {
                    *given = true;
                }
            }
        }
        match value {
            Some(Value::Object(fields)) => {
                fields.iter().for_each(|(key, field)| self.give(&format!("{parameter}.{key}"), Some(field)));
            }
            Some(Value::Array(items)) => {
                let inner = items.iter().filter(|item| item.is_object() || item.is_array());
                inner.for_each(|item| self.give(&format!("{parameter}[]"), Some(item)));
            }
            _ => {}
        }
    }
}

fn of_action(action: &Action, task: &str, all: &mut IndexMap<String, ServerCoverage>) {
    match &action.kind {
        ActionKind::Step(step) => of_step(step, task, all),
        ActionKind::Agent(AgentAction { kind: AgentKind::Script { calls, .. }, .. }) => {
            calls.iter().for_each(|call| of_oracle(call, task, all));
        }
        ActionKind::Agent(_) => {}
        ActionKind::Assertion(assertion) => match &assertion.kind {
            AssertionKind::AllUsed(CallKind::Tool, list) | AssertionKind::AnyUsed(CallKind::Tool, list) => {
                list.iter().for_each(|matcher| of_matcher(matcher, task, all));
            }
            AssertionKind::CallOrder(calls) => {
                for call in calls.iter().filter(|call| call.kind == CallKind::Tool) {
                    if let Some(tool) = tool_of(all, &call.server.value, &call.name.value) {
                        tool.touch(task);
                    }
                }
            }
            _ => {}
        },
    }
}

fn of_step(step: &StepAction, task: &str, all: &mut IndexMap<String, ServerCoverage>) {
    let OperationKind::Tool { server, tool } = &step.op.kind else { return };
    let Some(tool) = tool_of(all, server, tool) else { return };
    tool.touch(task);
    for (name, arg) in &step.args {
        // The arguments of a tool are written beside the step's own keys, or together under `args`.
        match (&arg.kind, name.value.as_str()) {
            (ArgKind::Record(fields), "args") => fields.iter().for_each(|(key, arg)| given(tool, &key.value, arg)),
            _ => given(tool, &name.value, arg),
        }
    }
    let expects = step.expect.as_ref().and_then(|expect| expect.get("isError")).and_then(Arg::as_value);
    tool.fail(expects.is_some_and(|value| value == true || value == "any"), false);
}

fn given(tool: &mut ToolCoverage, parameter: &str, arg: &Arg<Def>) {
    tool.give(parameter, arg.as_value().as_ref());
    // If a part of the value is filled in later, the other parts are known.
    match &arg.kind {
        ArgKind::Record(fields) => {
            fields.iter().for_each(|(key, field)| given(tool, &format!("{parameter}.{}", key.value), field));
        }
        ArgKind::List(items) => {
            for item in items {
                match &item.kind {
                    ArgKind::Record(_) | ArgKind::List(_) => given(tool, &format!("{parameter}[]"), item),
                    _ => given(tool, parameter, item),
                }
            }
        }
        _ => {}
    }
}

fn of_oracle(call: &OracleCall<Def>, task: &str, all: &mut IndexMap<String, ServerCoverage>) {
    if call.kind != CallKind::Tool {
        return;
    }
    let Some(name) = call.name.as_literal() else { return };
    let Some(tool) = tool_of(all, &call.server.value, name) else { return };
    tool.touch(task);
    call.args.iter().for_each(|(name, arg)| given(tool, &name.value, arg));
}

fn of_matcher(matcher: &CallMatcher, task: &str, all: &mut IndexMap<String, ServerCoverage>) {
    let pattern = matcher.pattern.as_ref().and_then(|pattern| Regex::new(&pattern.value).ok());
    let Some(server) = all.get_mut(&matcher.server.value) else { return };
    let named = |tool: &str| matcher.name.as_ref().is_some_and(|name| name.value == tool);
    let mut fitting: Vec<&mut ToolCoverage> = server
        .tools
        .iter_mut()
        .filter(|tool| named(&tool.tool) || pattern.as_ref().is_some_and(|pattern| pattern.is_match(&tool.tool)))
        .collect();
    // If a pattern matches several tools, it is unknown which one is called.
    let [tool] = fitting.as_mut_slice() else { return };
    tool.touch(task);
    let arguments = matcher.arguments.as_ref().and_then(|arguments| arguments.value.as_object());
    arguments.into_iter().flatten().for_each(|(key, value)| tool.give(key, Some(value)));
    let status = matcher.status.as_ref().map(|status| status.value);
    tool.fail(status == Some(CallStatus::ToolError), status == Some(CallStatus::ProtocolError));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nested_parameters_and_their_values_are_counted() {
        let schema = json!({"type": "object", "properties": {
            "filter": {"type": "object", "properties": {"state": {"enum": ["open", "closed"]}, "tag": {"type": "string"}}},
            "rules": {"type": "array", "items": {"type": "object", "properties": {"hard": {"type": "boolean"}}}},
        }});
        let mut parameters = Vec::new();
        within("", &schema, DEPTH, &mut parameters);
        let mut tool = ToolCoverage { parameters, ..ToolCoverage::default() };
        tool.give("filter", Some(&json!({"state": "open"})));
        tool.give("rules", Some(&json!([{"hard": true}, {"hard": true}])));
        let given: Vec<_> = tool.parameters.iter().map(|p| (p.parameter.as_str(), p.given)).collect();
        let wanted =
            [("filter", true), ("filter.state", true), ("filter.tag", false), ("rules", true), ("rules[].hard", true)];
        assert_eq!(given, wanted);
        let values = |name: &str| -> Vec<bool> {
            let found = tool.parameters.iter().find(|p| p.parameter == name).unwrap();
            found.values.values().copied().collect()
        };
        assert_eq!(values("filter.state"), [true, false]);
        assert_eq!(values("rules[].hard"), [true, false]);
    }

    #[test]
    fn tool_errors_are_distinguished_from_protocol_errors() {
        let mut tool = ToolCoverage::default();
        tool.fail(false, false);
        assert!(!tool.fails);
        tool.fail(false, true);
        let server = ServerCoverage { server: "s".to_owned(), tools: vec![tool] };
        let totals = totals(&[server]);
        let touched = [totals.errors, totals.tool_errors, totals.protocol_errors].map(|share| share.touched);
        assert_eq!(touched, [1, 0, 1]);
    }
}
