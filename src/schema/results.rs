//! The results file. Its beginnings, capitals included, are those of the tools it stays compatible with.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde_json::Value;

use crate::{
    diagnostic::Finding,
    event::{
        ActionReport, AgentCall, AgentStep, Difference, Limited, Remark, ServerTool, TokenEstimate, TokenUsage, Verdict,
    },
    hir::{CallStatus, Isolation},
};

/// `gevals-EVAL-out.json`.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Results {
    pub summary: Summary,
    /// One for each run of each task, in the order they ended.
    pub results: Vec<TaskResult>,
    /// Findings that did not keep the eval from running, as `gevals check --format json` prints them.
    pub findings: Vec<Finding>,
}

/// What was run, on what, and how it ended.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Summary {
    pub agent: SummaryAgent,
    /// Who judges, where the eval says so.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub judge: Option<SummaryAgent>,
    /// By name.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub mcp_servers: Option<Vec<SummaryServer>>,
    /// What the agent may read, where the eval gives it something.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub skills: Option<Vec<SummarySkills>>,
    pub evals: SummaryEvals,
    /// Limits of the eval and of the command line, where they give any.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<SummaryTimeout>,
    pub parallel_workers: u32,
    pub runs: u32,
    /// Of this shape; a reader refuses what is newer than it.
    pub version: u64,
    /// The eval's name.
    pub eval: String,
    /// Which part of the eval this is, where it was divided.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
    /// Which unit of a pack this is, where it is one.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub unit: Option<SummaryUnit>,
    /// How many runs of each task had to pass, where not all.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub gate: Option<SummaryGate>,
    /// Of tasks that were run until their gate was decided, by name.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub decided: Option<IndexMap<String, Decided>>,
    /// Of the random order, where there was one.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    pub gevals_version: String,
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// The digest of the eval's plan.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub plan_digest: Option<String>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// What kept the agent apart from the machine, where it is a process.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Isolation>,
    /// The means of this machine: `bubblewrap` or `landlock`.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub isolation_by: Option<String>,
    /// Why nothing did, where nobody asked for that.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub isolation_reason: Option<String>,
    /// Why the run ended early.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub cancelled: Option<String>,
    /// Whether every run of every selected task has its verdict, in a shard of its own tasks. `false` while the run goes on, and
    /// for ever where it was cut short.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub complete: Option<bool>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub duration_seconds: Option<f64>,
    /// The exit status.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub exit: Option<u8>,
    /// Of a run that may only use so much: how much, and what was used.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limited>,
    /// What costs are counted in.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
    /// How many results have lost what does not decide, since the file would have become larger than `--max-results`.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub cut: Option<u64>,
}

/// Which part of the tasks was run.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Shard {
    /// From 1.
    pub index: u32,
    pub of: u32,
}

/// Which unit of a pack was run.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct SummaryUnit {
    pub id: String,
    /// The digest of the pack.
    pub pack: String,
}

/// How many runs of how many must pass, and what that shows.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct SummaryGate {
    pub passes: u32,
    pub of: u32,
    /// A pass rate.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
}

/// How a task's gate was decided.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Decided {
    pub met: bool,
    pub passes: u32,
    /// After so many.
    pub runs: u32,
}

/// How many runs of how many must pass.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Gate {
    pub passes: u32,
    pub of: u32,
}

/// The agent that was run.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct SummaryAgent {
    #[schemars(rename = "type")]
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// A server under test.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct SummaryServer {
    pub name: String,
    /// `stdio` or `http`.
    #[schemars(rename = "type")]
    pub kind: String,
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Without query, fragment and user.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Those that the agent may call without asking; absent where the server was never started.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<ServerTool>>,
}

/// A source of skills.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct SummarySkills {
    /// `path`.
    #[schemars(rename = "type")]
    pub kind: String,
    pub path: String,
}

/// Limits of time, like `1m30s`.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct SummaryTimeout {
    /// Of tasks that have none.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub default_task: Option<String>,
    /// Of all tasks.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub default_cleanup: Option<String>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub cleanup: Option<String>,
}

/// What was run.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct SummaryEvals {
    /// Of the tasks that were meant, those of other shards too.
    pub names: Vec<String>,
    pub task_sets: Vec<SummarySet>,
}

/// A task set of the eval.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct SummarySet {
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub glob: Option<String>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<IndexMap<String, String>>,
}

/// One run of one task.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct TaskResult {
    pub task_name: String,
    pub task_path: String,
    /// Whether verification passed, assertions aside.
    pub task_passed: bool,
    /// What the agent was asked, with every hole filled.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The agent's answer.
    pub task_output: String,
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub task_error: Option<String>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub timed_out: Option<bool>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub agent_execution_error: Option<bool>,
    pub difficulty: String,
    /// Of its metadata, where it has some.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
    /// What the first judge found.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub task_judge_reason: Option<String>,
    /// Why a judge did not judge.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub task_judge_error: Option<String>,
    /// Of all judges together.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub judge_token_usage: Option<TokenUsage>,
    /// Whether some of that is counted from prompts and answers, as a judge did not report it.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub judge_tokens_estimated: Option<bool>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub parallel: Option<bool>,
    /// Which run, from 1 for the second.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub run_index: Option<u32>,
    pub total_runs: u32,
    /// By kind; null where nothing was asserted.
    pub assertion_results: AssertionResults,
    pub all_assertions_passed: bool,
    /// Null where the agent did not run.
    pub call_history: History,
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub setup_output: Option<PhaseOutput>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub agent_output: Option<PhaseOutput>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub verify_output: Option<PhaseOutput>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub cleanup_output: Option<PhaseOutput>,
    pub outcome: Verdict,
    /// Why; empty where it passed.
    pub reason: String,
    pub duration_seconds: f64,
    pub cleanup_failed: bool,
    /// What the agent used, in attempts that were made again as well; only of agents that have a model, or a limit.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub token_estimate: Option<TokenEstimate>,
    /// Why the run was made again, once for each time.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub retries: Option<Vec<String>>,
    /// How many runs of this task had to pass, where not all.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub gate: Option<Gate>,
    /// What the verdict does not say.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub remarks: Option<Vec<Remark>>,
    /// Whether answer, calls and steps are left out, since the file would have become larger than `--max-results`.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub cut: Option<bool>,
    /// The digest of the task's plan.
    pub plan_digest: String,
}

/// The assertions of a task, by their keys.
#[derive(JsonSchema, Debug)]
#[schemars(untagged)]
pub enum AssertionResults {
    None(()),
    ByKind(IndexMap<String, AssertionResult>),
}

/// What became of one assertion.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct AssertionResult {
    pub passed: bool,
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub details: Option<Vec<String>>,
    /// The same as what was expected and what was found, with the places.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub differences: Option<Vec<Difference>>,
    /// The file and the line of the first one that did not hold.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

/// The calls of the agent.
#[derive(JsonSchema, Debug)]
#[schemars(untagged)]
pub enum History {
    None(()),
    Calls(CallHistory),
}

/// The agent's calls, as the proxy saw them; secrets are masked.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "PascalCase", deny_unknown_fields)]
pub struct CallHistory {
    pub tool_calls: Calls,
    pub resource_reads: Calls,
    pub prompt_gets: Calls,
}

/// In the order they began; null where there were none.
#[derive(JsonSchema, Debug)]
#[schemars(untagged)]
pub enum Calls {
    None(()),
    Some(Vec<Call>),
}

/// One call of the agent to a server.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Call {
    pub server_name: String,
    pub timestamp: String,
    /// Whether the server answered; a tool's error is an answer.
    pub success: bool,
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Of a tool or prompt.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Of a resource.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    pub tokens: CallTokens,
    pub request: Request,
    pub status: CallStatus,
    pub duration_seconds: f64,
}

/// What a call asked and what it was answered, counted.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct CallTokens {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub total_tokens: u64,
}

/// What the agent asked for.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "PascalCase", deny_unknown_fields)]
pub struct Request {
    pub session: Value,
    pub params: Value,
    pub extra: Value,
}

/// What a phase did.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "PascalCase", deny_unknown_fields)]
pub struct PhaseOutput {
    pub steps: Vec<StepResult>,
    pub success: bool,
    /// Empty where the phase passed.
    pub error: String,
    /// Of the agent's turn: what the agent reports of it.
    #[schemars(rename = "agentDetails", skip_serializing_if = "Option::is_none")]
    pub agent_details: Option<AgentDetails>,
}

/// What an agent reports of its own work.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentDetails {
    /// Its calls, of tools of its own and of servers.
    pub tool_calls: Vec<AgentCall>,
    /// Thoughts, messages and calls, in order.
    pub output_steps: Vec<AgentStep>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub token_estimate: Option<TokenEstimate>,
}

/// What a step did.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct StepResult {
    /// The operation, `agent`, or the kind of assertion.
    #[schemars(rename = "type")]
    pub kind: String,
    /// What it does, in a line.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub meaning: Option<String>,
    /// Its file and line.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    pub success: bool,
    pub message: String,
    /// As text.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub outputs: Option<IndexMap<String, String>>,
    /// Where it could not be carried out.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The planned action, with `[round]` and `#attempt` added.
    pub id: String,
    pub report: ActionReport,
    /// What ran inside it.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub steps: Option<Vec<StepResult>>,
}
