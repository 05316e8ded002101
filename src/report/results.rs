//! The results file, `gevals-EVAL-out.json`: the format that tools for upstream's results read (§8 of the upstream
//! behaviour), with additional keys of gevals.

use std::{
    collections::HashMap,
    io::{self, Write},
    ops::Range,
    sync::Arc,
    time::Duration,
};

use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use super::ReportInput;
use crate::{
    event::{
        ActionReport, AgentStep, CallReport, Difference, Event, EventKind, Outcome, Remark, TaskRun, TokenEstimate,
        TokenUsage, Verdict,
    },
    hir::{CallKind, CallStatus, Transport},
    journal::Spool,
    plan::{ActionKind, EvalPlan, Plan, PlanPhase, planned_id},
    results,
    source::{Sources, Span},
    tokens::count,
    ty::duration,
};

/// Collects results, as a fold over events.
pub struct Results {
    plan: Arc<EvalPlan>,
    /// For the locations of what did not pass.
    sources: Arc<Sources>,
    summary: Map<String, Value>,
    findings: Vec<Value>,
    currency: String,
    runs: Option<u32>,
    /// How many runs of tasks were selected.
    expected: usize,
    /// Whether the tasks' own gates apply.
    gated: bool,
    tasks: IndexMap<TaskRun, Running>,
    /// In the order in which they ended.
    done: IndexMap<TaskRun, Done>,
    /// Stores finished results.
    spool: Spool,
    /// Why the spool could not store a result.
    failure: Option<io::Error>,
    /// The maximum and the current size of the results, in bytes.
    most: u64,
    bytes: u64,
    /// Runs that were retried.
    retried: HashMap<TaskRun, Retried>,
}

/// A result that is stored in the spool, and what is still needed of it.
struct Done {
    at: Range<u64>,
    cancelled: bool,
    priced: bool,
    /// Whether it was cut down to what decides the verdict.
    cut: bool,
    /// What a retry must add to its own usage; set for broken runs only, since only those are retried.
    used: Option<Box<Retried>>,
}

/// Attempts that no longer count: why they were broken, and what they used.
#[derive(Default)]
struct Retried {
    reasons: Vec<String>,
    tokens: Option<TokenEstimate>,
    judged: Option<TokenUsage>,
    judged_in_part: bool,
}

/// One run of a task, so far.
#[derive(Default)]
struct Running {
    plan_digest: String,
    /// The planned actions by id.
    types: HashMap<String, Planned>,
    prompt: String,
    /// Finished actions; nested ones are inside their parents.
    actions: Vec<(String, Value)>,
    reports: Vec<(String, ActionReport)>,
    calls: Vec<CallReport>,
    remarks: Vec<Remark>,
    tokens: Option<TokenEstimate>,
    output: String,
    /// What the agent reported about its own work.
    steps: Vec<AgentStep>,
    phases: Vec<String>,
}

impl Results {
    /// Collects the results of a new run in a spool.
    pub fn new(input: &ReportInput, spool: Spool) -> Self {
        let plan = Arc::clone(&input.plan);
        Self {
            summary: summary(&plan, input),
            findings: input.findings.clone(),
            currency: input.currency.clone(),
            runs: input.runs,
            expected: match input.selection.units.len() {
                0 => input.selection.of(&plan).into_iter().map(|i| runs_of(input.runs, &plan, i) as usize).sum(),
                units => units,
            },
            gated: input.own_gates(),
            sources: Arc::clone(&input.sources),
            plan,
            tasks: IndexMap::new(),
            done: IndexMap::new(),
            spool,
            failure: None,
            most: input.max_results,
            bytes: 0,
            retried: HashMap::new(),
        }
    }

    /// Takes an event of the run.
    pub fn take(&mut self, event: &Event) {
        match (&event.task, &event.kind) {
            (None, kind) => self.take_own(event, kind),
            (Some(task), EventKind::TaskFinished { verdict, reason, duration, cleanup_failed }) => {
                let mut running = self.tasks.shift_remove(task).unwrap_or_default();
                if let Some(plan) = self.plan.tasks.get(task.index) {
                    plan.in_written_order(&mut running.actions);
                    plan.in_written_order(&mut running.reports);
                }
                let result = self.result(task, &mut running, *verdict, reason, *duration, *cleanup_failed);
                self.keep(task, *verdict, result);
            }
            (Some(task), EventKind::GateDecided { met, passes, runs }) => {
                let spared = runs_of(self.runs, &self.plan, task.index).saturating_sub(*runs) as usize;
                self.expected = self.expected.saturating_sub(spared);
                let decided = self.summary.entry("decided").or_insert_with(|| json!({}));
                decided[&task.name] = json!({ "met": met, "passes": passes, "runs": runs });
            }
            (Some(task), kind) => {
                let running = self.tasks.entry(task.clone()).or_default();
                match kind {
                    EventKind::TaskStarted { plan_digest } => {
                        let types = self.plan.tasks.get(task.index).map(|plan| types_of(plan, &self.sources));
                        let types = types.unwrap_or_default();
                        *running = Running { plan_digest: plan_digest.clone(), types, ..Running::default() };
                    }
                    EventKind::PhaseStarted { phase } => running.phases.push(phase.clone()),
                    EventKind::ActionFinished { action, report } => {
                        running.finish(action, report, &self.sources);
                        // The name of a model that is set by variables is known only now.
                        if let Some(model) = report.judgement.as_ref().and_then(|judgement| judgement.model.as_ref())
                            && let Some(Value::Object(judge)) = self.summary.get_mut("judge")
                        {
                            judge.entry("model").or_insert_with(|| json!(model));
                        }
                    }
                    EventKind::AgentPrompted { text } => running.prompt.clone_from(text),
                    EventKind::AgentSpoke { text } => running.output.clone_from(text),
                    EventKind::AgentWorked { steps } => running.steps.clone_from(steps),
                    EventKind::CallRecorded { call } => running.calls.push(call.clone()),
                    EventKind::TokensCounted { tokens } => running.tokens = Some((**tokens).clone()),
                    EventKind::TaskRetried { reason, .. } => {
                        // The result of a retried attempt no longer counts; the fact that it was made, and what it
                        // used, does.
                        let retried = self.retried.entry(task.clone()).or_default();
                        retried.reasons.push(reason.clone());
                        // Its figures include what earlier attempts used.
                        if let Some(used) = self.done.shift_remove(task).and_then(|done| done.used) {
                            let reasons = std::mem::take(&mut retried.reasons);
                            *retried = Retried { reasons, ..*used };
                        }
                    }
                    EventKind::Remarked { remark } => running.remarks.push(remark.clone()),
                    _ => {}
                }
            }
        }
    }

    fn take_own(&mut self, event: &Event, kind: &EventKind) {
        let mut set = |key: &str, value: Value| self.summary.insert(key.to_owned(), value);
        match kind {
            EventKind::RunStarted { run_id, plan_digest, .. } => {
                set("runId", json!(run_id));
                set("planDigest", json!(plan_digest));
                set("startedAt", json!(event.at));
            }
            EventKind::AgentIsolated { level, by, reason, .. } => {
                set("isolation", json!(level));
                if let Some(by) = by {
                    set("isolationBy", json!(by));
                }
                if let Some(reason) = reason {
                    set("isolationReason", json!(reason));
                }
            }
            EventKind::ServerStarted { server, tools } => {
                let servers = self.summary.get_mut("mcpServers").and_then(Value::as_array_mut);
                for entry in servers.into_iter().flatten().filter(|entry| entry["name"] == server.as_str()) {
                    entry["tools"] = json!(tools);
                }
            }
            EventKind::Cancelled { reason } => {
                set("cancelled", json!(reason));
            }
            EventKind::RunFinished { duration, exit, limits } => {
                set("durationSeconds", seconds(*duration));
                set("exit", json!(exit));
                set(
                    "complete",
                    json!(self.done.len() >= self.expected && !self.done.values().any(|done| done.cancelled)),
                );
                if let Some(limits) = limits {
                    set("limits", json!(limits));
                }
                if limits.is_some_and(|limits| limits.max_cost.is_some()) || self.done.values().any(|done| done.priced)
                {
                    set("currency", json!(self.currency));
                }
                let cut = self.done.values().filter(|done| done.cut).count();
                if cut > 0 {
                    set("cut", json!(cut));
                }
            }
            _ => {}
        }
    }

    /// Stores a finished result.
    fn keep(&mut self, task: &TaskRun, verdict: Verdict, mut result: Value) {
        let mut bytes = results::size(&result, 2);
        let cut = self.bytes + bytes > self.most;
        if cut {
            strip(&mut result);
            bytes = results::size(&result, 2);
        }
        let used = (verdict == Verdict::Broken).then(|| {
            Box::new(Retried {
                reasons: Vec::new(),
                tokens: serde_json::from_value(result["tokenEstimate"].clone()).ok(),
                judged: serde_json::from_value(result["judgeTokenUsage"].clone()).ok(),
                judged_in_part: result["judgeTokensEstimated"] == true,
            })
        });
        let priced = result.pointer("/tokenEstimate/cost").is_some();
        match self.spool.append(&result.to_string()) {
            Ok(at) => {
                self.bytes += bytes;
                let done = Done { at, cancelled: verdict == Verdict::Cancelled, priced, cut, used };
                self.done.shift_remove(task);
                self.done.insert(task.clone(), done);
            }
            Err(error) => {
                self.failure.get_or_insert(error);
            }
        }
    }

    /// How many results were cut down to what decides, because the results were too large in total.
    pub fn cut(&self) -> usize {
        self.done.values().filter(|done| done.cut).count()
    }

    /// Returns the whole file.
    pub fn json(&mut self) -> Value {
        let lines: Vec<_> = self.done.values().filter_map(|done| self.spool.line(&done.at).ok()).collect();
        let results: Vec<Value> = lines.iter().filter_map(|line| serde_json::from_slice(line).ok()).collect();
        json!({ "summary": self.summary, "results": results, "findings": self.findings })
    }

    /// Writes the results file as [`results::text`] would write [`Self::json`], but with only few results in memory at
    /// a time.
    ///
    /// # Errors
    /// The file cannot be written, or a result could not be stored.
    pub fn write(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        let (places, spool): (Vec<_>, _) = (self.done.values().map(|done| &done.at).collect(), &self.spool);
        let result = |at: &&Range<u64>| Ok(serde_json::from_slice(&spool.line(at)?)?);
        results::write_file(&json!(self.summary), &places, result, &json!(self.findings), out)
    }

    /// Called when the results file is written.
    pub fn written(&self) {
        self.spool.remove();
    }

    /// Completes the results of a run that had nothing to do.
    pub fn finish_empty(&mut self) {
        self.summary.insert("exit".to_owned(), json!(0));
        self.summary.insert("complete".to_owned(), json!(true));
    }

    fn result(
        &self,
        task: &TaskRun,
        running: &mut Running,
        verdict: Verdict,
        reason: &str,
        duration: Duration,
        cleanup_failed: bool,
    ) -> Value {
        let mut out = Map::new();
        let mut set = |key: &str, value: Value| out.insert(key.to_owned(), value);
        let agent = running.outcome("agent").filter(|outcome| *outcome != Outcome::Skipped);
        let agent_failed = agent.is_some_and(|o| o != Outcome::Passed);
        let setup_failed = agent.is_none();
        // A skipped assertion judges nothing.
        let is_judged =
            |(id, report): &&(String, ActionReport)| id.starts_with("assert/") && report.outcome != Outcome::Skipped;
        let asserted: Vec<_> = running.reports.iter().filter(is_judged).collect();
        let verified = running.reports.iter().filter(|(id, _)| is_top(id, "verify"));
        let all_verified = verified.clone().all(|(_, r)| r.outcome == Outcome::Passed);
        let passed = match verdict {
            Verdict::Passed => true,
            // Upstream distinguishes the case in which only assertions failed.
            Verdict::Failed => {
                !agent_failed && all_verified && asserted.iter().any(|(_, r)| r.outcome != Outcome::Passed)
            }
            Verdict::Broken | Verdict::Unchecked | Verdict::Cancelled => false,
        };
        let planned = self.plan.tasks.get(task.index);
        set("taskName", json!(task.name));
        set("taskPath", json!(planned.map(|p| p.task.path.display().to_string()).unwrap_or_default()));
        set("taskPassed", json!(passed));
        if !running.prompt.is_empty() {
            set("prompt", Value::String(std::mem::take(&mut running.prompt)));
        }
        set("taskOutput", Value::String(std::mem::take(&mut running.output)));
        if !passed {
            set("taskError", json!(error_text(verdict, reason, agent_failed, setup_failed)));
        }
        if reason.starts_with("task exceeded timeout of") {
            set("timedOut", json!(true));
        }
        if agent_failed {
            set("agentExecutionError", json!(true));
        }
        set("difficulty", json!(planned.and_then(|p| p.task.difficulty.clone()).unwrap_or_default()));
        if let Some(tags) = planned.map(|p| &p.task.tags).filter(|tags| !tags.is_empty()) {
            set("tags", json!(tags));
        }
        if planned.is_some_and(|p| p.task.parallel) {
            set("parallel", json!(true));
        }
        if task.run > 0 {
            set("runIndex", json!(task.run));
        }
        set("totalRuns", json!(runs_of(self.runs, &self.plan, task.index)));
        let judged: Vec<_> = running.reports.iter().filter(|(id, _)| !id.starts_with("cleanup/")).collect();
        let judged: Vec<_> = judged.iter().filter_map(|(_, r)| Some((&r.message, r.judgement.as_ref()?))).collect();
        if let Some((message, _)) = judged.first().filter(|(message, _)| !message.is_empty()) {
            set("taskJudgeReason", json!(message));
        }
        if let Some((message, _)) = judged.iter().find(|(_, judgement)| judgement.passed.is_none()) {
            set("taskJudgeError", json!(message));
        }
        let retried = self.retried.get(task);
        let before = retried.and_then(|retried| retried.judged);
        let used = judged.iter().filter_map(|(_, judgement)| judgement.usage).chain(before).reduce(TokenUsage::and);
        if let Some(used) = used.filter(|used| used.input_tokens + used.output_tokens > 0) {
            set("judgeTokenUsage", json!(used));
            let in_part = retried.is_some_and(|retried| retried.judged_in_part);
            if in_part || judged.iter().any(|(_, judgement)| judgement.estimated) {
                set("judgeTokensEstimated", json!(true));
            }
        }
        set("assertionResults", assertion_results(&asserted, &running.types));
        set("allAssertionsPassed", json!(!setup_failed && asserted.iter().all(|(_, r)| r.outcome == Outcome::Passed)));
        set("callHistory", if setup_failed { Value::Null } else { history(&running.calls) });
        for phase in [PlanPhase::Setup, PlanPhase::Agent, PlanPhase::Verify, PlanPhase::Cleanup] {
            if running.phases.iter().any(|p| p == phase.name()) {
                set(&format!("{}Output", phase.name()), running.phase(phase.name()));
            }
        }
        set("outcome", json!(verdict.name()));
        set("reason", json!(reason));
        set("durationSeconds", seconds(duration));
        set("cleanupFailed", json!(cleanup_failed));
        let before = retried.and_then(|retried| retried.tokens.clone());
        if let Some(tokens) = running.tokens.iter().cloned().chain(before).reduce(TokenEstimate::and) {
            set("tokenEstimate", json!(tokens));
        }
        if let Some(retried) = retried {
            set("retries", json!(retried.reasons));
        }
        if let Some((passes, of)) = planned.and_then(|p| p.task.gate).filter(|_| self.gated) {
            set("gate", json!({ "passes": passes, "of": of }));
        }
        if !running.remarks.is_empty() {
            set("remarks", json!(running.remarks));
        }
        set("planDigest", json!(running.plan_digest));
        Value::Object(out)
    }
}

impl Running {
    fn finish(&mut self, id: &str, report: &ActionReport, sources: &Sources) {
        let planned = self.types.get(&planned_id(id));
        let mut report = report.clone();
        for difference in &mut report.differences {
            let span = planned.zip(difference.at).map(|(planned, (start, end))| Span { start, end, ..planned.span });
            difference.place = span.map(|span| place(sources, span));
        }
        let report = &report;
        let inside = |other: &str| other.strip_prefix(id).is_some_and(|rest| rest.starts_with(['/', '[', '#']));
        let (nested, rest) = std::mem::take(&mut self.actions).into_iter().partition(|(other, _)| inside(other));
        self.actions = rest;
        let nested: Vec<(String, Value)> = nested;
        let mut record = Map::new();
        record.insert("type".to_owned(), json!(planned.map(|planned| planned.name.as_str()).unwrap_or_default()));
        if let Some(Planned { meaning, place, .. }) = planned {
            for (key, text) in [("meaning", meaning), ("place", place)] {
                if !text.is_empty() {
                    record.insert(key.to_owned(), json!(text));
                }
            }
        }
        record.insert("success".to_owned(), json!(report.outcome == Outcome::Passed));
        record.insert("message".to_owned(), json!(report.message));
        if !report.outputs.is_empty() {
            let texts = report.outputs.iter().map(|(k, v)| (k.clone(), json!(crate::template::render(v))));
            record.insert("outputs".to_owned(), Value::Object(texts.collect()));
        }
        if report.outcome == Outcome::Broken {
            record.insert("error".to_owned(), json!(report.message));
        }
        record.insert("id".to_owned(), json!(id));
        record.insert("report".to_owned(), serde_json::to_value(report).unwrap_or_default());
        if !nested.is_empty() {
            let nested = nested.into_iter().map(|(_, record)| record).collect();
            record.insert("steps".to_owned(), Value::Array(nested));
        }
        self.actions.push((id.to_owned(), Value::Object(record)));
        self.reports.push((id.to_owned(), report.clone()));
    }

    fn outcome(&self, id: &str) -> Option<Outcome> {
        self.reports.iter().rev().find(|(other, _)| other == id).map(|(_, report)| report.outcome)
    }

    /// Returns the output of a phase, with keys capitalized as in upstream.
    fn phase(&self, phase: &str) -> Value {
        let in_phase = |id: &str| id == phase || id.strip_prefix(phase).is_some_and(|rest| rest.starts_with('/'));
        let steps: Vec<_> = self.actions.iter().filter(|(id, _)| in_phase(id)).map(|(_, r)| r.clone()).collect();
        let bad = self.reports.iter().find(|(id, r)| {
            (id == phase || is_top(id, phase)) && !matches!(r.outcome, Outcome::Passed | Outcome::Skipped)
        });
        // In verification, a check that was skipped counts as not passed.
        let unmade = |(id, r): &&(String, ActionReport)| is_top(id, phase) && r.outcome == Outcome::Skipped;
        let verify = phase == PlanPhase::Verify.name();
        let bad = bad.or_else(|| self.reports.iter().filter(|_| verify).find(unmade));
        let error = bad.map(|(id, r)| format!("{id}: {}", r.message)).unwrap_or_default();
        let mut output = json!({ "Steps": steps, "Success": bad.is_none(), "Error": error });
        if phase == PlanPhase::Agent.name() && !self.steps.is_empty() {
            let calls: Vec<_> = self.steps.iter().filter_map(|step| step.tool_call.as_ref()).collect();
            output["agentDetails"] = json!({ "toolCalls": calls, "outputSteps": self.steps });
            if let Some(tokens) = &self.tokens {
                output["agentDetails"]["tokenEstimate"] = json!(tokens);
            }
        }
        output
    }
}

/// What results contain about a planned action.
struct Planned {
    name: String,
    meaning: String,
    place: String,
    span: Span,
}

/// `tasks/a.yaml:24`
fn place(sources: &Sources, span: Span) -> String {
    let source = sources.get(span.file);
    format!("{}:{}", source.path().display(), source.position(span.start).line)
}

/// The planned actions by id.
fn types_of(plan: &Plan, sources: &Sources) -> HashMap<String, Planned> {
    let mut types = HashMap::new();
    plan.walk(&mut |_, _, action| {
        let name = match &action.kind {
            ActionKind::Step(step) => step.op.name.as_str(),
            ActionKind::Agent(_) => "agent",
            ActionKind::Assertion(assertion) => assertion.key.value.as_str(),
        };
        let (name, meaning, span) = (name.to_owned(), action.meaning.clone(), action.span);
        types.insert(action.id.clone(), Planned { name, meaning, place: place(sources, span), span });
    });
    types
}

/// How often a task is run.
fn runs_of(runs: Option<u32>, plan: &EvalPlan, index: usize) -> u32 {
    runs.or(plan.tasks.get(index).map(|plan| plan.task.runs)).unwrap_or(1).max(1)
}

/// Removes from a result everything except what decides the verdict and what is counted.
fn strip(result: &mut Value) {
    let Value::Object(result) = result else { return };
    for phase in [PlanPhase::Setup, PlanPhase::Agent, PlanPhase::Verify, PlanPhase::Cleanup] {
        result.shift_remove(&format!("{}Output", phase.name()));
    }
    result.shift_remove("prompt");
    for (key, nothing) in [("taskOutput", json!("")), ("callHistory", Value::Null), ("cut", json!(true))] {
        result.insert(key.to_owned(), nothing);
    }
}

/// Whether an id is `PHASE/ID`, neither nested nor a round.
fn is_top(id: &str, phase: &str) -> bool {
    id.strip_prefix(phase).and_then(|rest| rest.strip_prefix('/')).is_some_and(|rest| !rest.contains(['/', '[', '#']))
}

/// The prefixes are upstream's (§8.3).
fn error_text(verdict: Verdict, reason: &str, agent_failed: bool, setup_failed: bool) -> String {
    match verdict {
        Verdict::Broken if reason.starts_with("task exceeded timeout of") => reason.to_owned(),
        Verdict::Broken if setup_failed => format!("failed to setup task: {reason}"),
        Verdict::Broken if agent_failed => format!("failed to run agent: {reason}"),
        Verdict::Broken => format!("verification failed: {reason}"),
        Verdict::Failed if agent_failed => format!("failed to run agent: {reason}"),
        Verdict::Failed => format!("one or more verification steps failed: {reason}"),
        Verdict::Unchecked | Verdict::Cancelled | Verdict::Passed => reason.to_owned(),
    }
}

/// The results by kind, with several sets merged (§5.5.3); null if nothing was asserted.
fn assertion_results(asserted: &[&(String, ActionReport)], types: &HashMap<String, Planned>) -> Value {
    let mut merged: IndexMap<String, (bool, Vec<String>, Vec<String>)> = IndexMap::new();
    let mut differences: IndexMap<String, Vec<&Difference>> = IndexMap::new();
    let mut places: IndexMap<String, &str> = IndexMap::new();
    for (id, report) in asserted {
        let planned = types.get(id);
        let key = planned.map_or_else(|| id.clone(), |planned| planned.name.clone());
        let passed = report.outcome == Outcome::Passed;
        let (all, reasons, details) = merged.entry(key.clone()).or_insert((true, Vec::new(), Vec::new()));
        if !passed {
            *all = false;
            differences.entry(key.clone()).or_default().extend(&report.differences);
            places.entry(key).or_insert(planned.map(|planned| planned.place.as_str()).unwrap_or_default());
            reasons.push(report.message.clone());
            details.extend(report.differences.iter().map(|d| format!("expected {}, found {}", d.expected, d.actual)));
        }
    }
    if merged.is_empty() {
        return Value::Null;
    }
    let results = merged.into_iter().map(|(key, (passed, reasons, details))| {
        let mut result = json!({ "passed": passed });
        match reasons.as_slice() {
            [] => {}
            [one] => result["reason"] = json!(one),
            _ => {
                result["reason"] = json!("multiple assertion failures");
                result["details"] = json!(reasons.iter().chain(&details).collect::<Vec<_>>());
            }
        }
        if result.get("details").is_none() && !details.is_empty() {
            result["details"] = json!(details);
        }
        if let Some(differences) = differences.get(&key).filter(|differences| !differences.is_empty()) {
            result["differences"] = json!(differences);
        }
        if let Some(place) = places.get(&key).filter(|place| !place.is_empty()) {
            result["place"] = json!(place);
        }
        (key, result)
    });
    Value::Object(results.collect())
}

/// The call history, with keys capitalized as in upstream; empty lists are null.
fn history(calls: &[CallReport]) -> Value {
    let of = |kind: CallKind| {
        let mut calls: Vec<_> = calls.iter().filter(|c| c.kind == kind).collect();
        calls.sort_by_key(|c| c.started);
        let records: Vec<_> = calls.into_iter().map(record).collect();
        if records.is_empty() { Value::Null } else { Value::Array(records) }
    };
    json!({ "ToolCalls": of(CallKind::Tool), "ResourceReads": of(CallKind::Resource), "PromptGets": of(CallKind::Prompt) })
}

fn record(call: &CallReport) -> Value {
    let mut out = Map::new();
    let mut set = |key: &str, value: Value| out.insert(key.to_owned(), value);
    set("serverName", json!(call.server));
    set("timestamp", json!(call.started));
    set("success", json!(call.status != CallStatus::ProtocolError));
    if let Some(error) = &call.error {
        set("error", json!(error));
    }
    set(if call.kind == CallKind::Resource { "uri" } else { "name" }, json!(call.name));
    if call.result.is_some() || call.kind != CallKind::Tool {
        set("result", json!(call.result));
    }
    set("tokens", tokens_of(call));
    set(
        "request",
        json!({ "Session": {}, "Params": call.params, "Extra": { "TokenInfo": null, "Header": call.headers } }),
    );
    set("status", json!(call.status));
    set("durationSeconds", seconds(call.duration));
    Value::Object(out)
}

/// Counts the tokens of a call's request and response (§5.2).
fn tokens_of(call: &CallReport) -> Value {
    let of = |value: Option<&Value>| value.map_or(0, |value| count(&value.to_string()));
    let input = match call.kind {
        CallKind::Resource => count(&call.name),
        CallKind::Tool | CallKind::Prompt => of(call.params.get("arguments")),
    };
    let content = match call.kind {
        CallKind::Tool => "content",
        CallKind::Resource => "contents",
        CallKind::Prompt => "messages",
    };
    let output = of(call.result.as_ref().and_then(|result| result.get(content)));
    json!({ "inputTokens": input, "outputTokens": output, "totalTokens": input + output })
}

fn summary(plan: &EvalPlan, input: &ReportInput) -> Map<String, Value> {
    let mut agent = Map::new();
    if let Some(reference) = &plan.agent {
        agent.insert("type".to_owned(), json!(reference.kind.value));
        agent.insert("name".to_owned(), json!(plan.agent_name));
        for (key, value) in [("model", &reference.model), ("path", &reference.path)] {
            if let Some(value) = value {
                agent.insert(key.to_owned(), json!(value.value));
            }
        }
    }
    let judge = plan.judge.as_ref().map(|judge| {
        let mut out = Map::new();
        out.insert("type".to_owned(), json!(judge.agent.kind.value));
        out.insert("name".to_owned(), json!(judge.name));
        for (key, value) in [("model", &judge.agent.model), ("path", &judge.agent.path)] {
            if let Some(value) = value {
                out.insert(key.to_owned(), json!(value.value));
            }
        }
        out
    });
    let mut servers: Vec<_> = plan.servers.iter().filter(|s| !s.disabled).collect();
    servers.sort_by(|a, b| a.name.value.cmp(&b.name.value));
    let servers = servers.into_iter().map(|server| match &server.transport {
        Transport::Stdio { command, .. } => {
            json!({ "name": server.name.value, "type": "stdio", "command": command.display() })
        }
        Transport::Http { url, .. } => {
            json!({ "name": server.name.value, "type": "http", "url": public_url(&url.display()) })
        }
    });
    let servers: Vec<_> = servers.collect();
    let mut out = Map::new();
    out.insert("agent".to_owned(), Value::Object(agent));
    if let Some(judge) = judge {
        out.insert("judge".to_owned(), Value::Object(judge));
    }
    if !servers.is_empty() {
        out.insert("mcpServers".to_owned(), json!(servers));
    }
    // The tasks of all shards, so that a missing shard is noticed.
    let selected = input.selection.all(plan).into_iter().map(|index| plan.tasks[index].task.name.value.as_str());
    let names: Vec<_> = selected.collect();
    let sets = plan.written.task_sets.iter().map(|set| {
        let given = [("glob", &set.glob), ("path", &set.path)];
        let mut out: Map<_, _> =
            given.into_iter().filter_map(|(key, text)| Some((key.to_owned(), json!(text.as_ref()?)))).collect();
        if !set.labels.is_empty() {
            out.insert("labelSelector".to_owned(), json!(set.labels));
        }
        Value::Object(out)
    });
    out.insert("evals".to_owned(), json!({ "names": names, "taskSets": sets.collect::<Vec<_>>() }));
    if !plan.written.skills.is_empty() {
        let skills: Vec<_> = plan.written.skills.iter().map(|path| json!({ "type": "path", "path": path })).collect();
        out.insert("skills".to_owned(), json!(skills));
    }
    let timeouts = ["defaultTask", "task", "defaultCleanup", "cleanup"].into_iter().zip(plan.written.timeouts);
    let timeouts: Map<_, _> =
        timeouts.filter_map(|(key, limit)| Some((key.to_owned(), json!(duration::format(limit?))))).collect();
    if !timeouts.is_empty() {
        out.insert("timeout".to_owned(), Value::Object(timeouts));
    }
    out.insert("parallelWorkers".to_owned(), json!(input.parallel.max(1)));
    out.insert("runs".to_owned(), json!(input.runs.unwrap_or(1)));
    out.insert("version".to_owned(), json!(results::VERSION));
    out.insert("complete".to_owned(), json!(false));
    out.insert("eval".to_owned(), json!(plan.name));
    if let Some(shard) = input.selection.shard {
        out.insert("shard".to_owned(), json!({ "index": shard.index, "of": shard.of }));
    }
    if let [unit] = input.selection.units.as_slice() {
        out.insert("unit".to_owned(), json!({ "id": unit.id, "pack": unit.pack }));
    }
    if let Some(gate) = input.gate {
        let mut shown = json!({ "passes": gate.passes, "of": gate.of });
        if let Some(rate) = input.rate {
            shown["rate"] = json!(rate.at_least);
            shown["confidence"] = json!(rate.confidence);
        }
        out.insert("gate".to_owned(), shown);
    }
    if let Some(seed) = input.selection.shuffle {
        out.insert("seed".to_owned(), json!(seed));
    }
    out.insert("gevalsVersion".to_owned(), json!(env!("CARGO_PKG_VERSION")));
    out
}

/// A URL without query, fragment and user.
fn public_url(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let (authority, path) = rest.find('/').map_or((rest, ""), |i| rest.split_at(i));
            let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
            format!("{scheme}://{host}{path}")
        }
        None => url.to_owned(),
    }
}

fn seconds(duration: Duration) -> Value {
    json!((duration.as_secs_f64() * 1e3).round() / 1e3)
}
