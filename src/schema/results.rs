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
    /// One result per run of each task, in the order in which the runs ended.
    pub results: Vec<TaskResult>,
    /// Findings that did not prevent the run, as `gevals check --format json` prints them.
    pub findings: Vec<Finding>,
}

/// What was run, with which agent and servers, and how it ended.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Summary {
    pub agent: SummaryAgent,
    /// The judge, if the eval has one.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub judge: Option<SummaryAgent>,
    /// The servers, sorted by name.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub mcp_servers: Option<Vec<SummaryServer>>,
    /// The skills of the agent, if the eval provides any.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub skills: Option<Vec<SummarySkills>>,
    pub evals: SummaryEvals,
    /// Time limits of the eval and of the command line, if any.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<SummaryTimeout>,
    pub parallel_workers: u32,
    pub runs: u32,
    /// The version of this format; readers refuse newer versions than they know.
    pub version: u64,
    /// The eval's name.
    pub eval: String,
    /// The shard of the eval, if the run was sharded.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
    /// The unit of a pack, if the run was of a unit.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub unit: Option<SummaryUnit>,
    /// How many runs of each task had to pass, if not all.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub gate: Option<SummaryGate>,
    /// Tasks that were run until their gate was decided, by name.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub decided: Option<IndexMap<String, Decided>>,
    /// The seed of the random order, if the order was random.
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
    /// The isolation level of the agent, if the agent is a process.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Isolation>,
    /// The isolation mechanism: `bubblewrap` or `landlock`.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub isolation_by: Option<String>,
    /// Why the agent was not isolated, if this was not requested.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub isolation_reason: Option<String>,
    /// Why the run ended early.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub cancelled: Option<String>,
    /// Whether every run of every selected task (in a shard: of the shard's tasks) has a verdict. `false` while the run is in progress,
    /// and permanently if it was interrupted.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub complete: Option<bool>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub duration_seconds: Option<f64>,
    /// The exit status.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub exit: Option<u8>,
    /// The limits of the run and what was used, if the run has limits.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limited>,
    /// The currency of costs.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
    /// How many results were reduced to what decides the verdict, because the file would have exceeded `--max-results`.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub cut: Option<u64>,
}

/// Which shard of the tasks was run.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Shard {
    /// The number of the shard, starting at 1.
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

/// How many runs out of how many must pass, and the rate and confidence that this shows.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct SummaryGate {
    pub passes: u32,
    pub of: u32,
    /// The required pass rate.
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
    /// The number of runs after which it was decided.
    pub runs: u32,
}

/// How many runs out of how many must pass.
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
    /// The URL without query, fragment and user.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The tools that the agent may call without asking; absent if the server was never started.
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

/// Time limits, such as `1m30s`.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct SummaryTimeout {
    /// The limit of tasks that have none.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub default_task: Option<String>,
    /// The limit of all tasks.
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
    /// The names of all selected tasks, including those of other shards.
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
    /// Whether verification passed, not counting assertions.
    pub task_passed: bool,
    /// The agent's prompt, with all holes filled.
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
    /// The tags from the task's metadata, if any.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
    /// The reason that the first judge gave.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub task_judge_reason: Option<String>,
    /// Why a judge did not return a judgment.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub task_judge_error: Option<String>,
    /// The token usage of all judges together.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub judge_token_usage: Option<TokenUsage>,
    /// Whether part of the usage is counted from prompts and answers, because a judge did not report it.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub judge_tokens_estimated: Option<bool>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub parallel: Option<bool>,
    /// The index of the run: absent for the first run, 1 for the second, and so on.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub run_index: Option<u32>,
    pub total_runs: u32,
    /// Results of the assertions, by kind; null if there are no assertions.
    pub assertion_results: AssertionResults,
    pub all_assertions_passed: bool,
    /// The agent's calls; null if the agent did not run.
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
    /// The reason for the outcome; empty if the task passed.
    pub reason: String,
    pub duration_seconds: f64,
    pub cleanup_failed: bool,
    /// The tokens that the agent used, including attempts that were retried; only for agents that have a model or a limit.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub token_estimate: Option<TokenEstimate>,
    /// The reasons for retries, one per retry.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub retries: Option<Vec<String>>,
    /// How many runs of this task had to pass, if not all.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub gate: Option<Gate>,
    /// Remarks that the verdict does not express.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub remarks: Option<Vec<Remark>>,
    /// Whether answer, calls and steps are omitted because the file would have exceeded `--max-results`.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub cut: Option<bool>,
    /// The digest of the task's plan.
    pub plan_digest: String,
}

/// The assertion results of a task, by assertion key.
#[derive(JsonSchema, Debug)]
#[schemars(untagged)]
pub enum AssertionResults {
    None(()),
    ByKind(IndexMap<String, AssertionResult>),
}

/// The result of an assertion.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct AssertionResult {
    pub passed: bool,
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub details: Option<Vec<String>>,
    /// The failures as expected and actual values, with their locations.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub differences: Option<Vec<Difference>>,
    /// The file and line of the first assertion that failed.
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

/// The agent's calls as recorded by the proxy; secrets are masked.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "PascalCase", deny_unknown_fields)]
pub struct CallHistory {
    pub tool_calls: Calls,
    pub resource_reads: Calls,
    pub prompt_gets: Calls,
}

/// Calls in the order in which they started; null if there were none.
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
    /// Whether the server answered; a tool error is an answer.
    pub success: bool,
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The name of the tool or prompt.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The URI of the resource.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    pub tokens: CallTokens,
    pub request: Request,
    pub status: CallStatus,
    pub duration_seconds: f64,
}

/// Token counts of a call's request and response.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct CallTokens {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub total_tokens: u64,
}

/// The agent's request.
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
    /// The error; empty if the phase passed.
    pub error: String,
    /// What the agent reports about its turn; only for the agent phase.
    #[schemars(rename = "agentDetails", skip_serializing_if = "Option::is_none")]
    pub agent_details: Option<AgentDetails>,
}

/// What an agent reports about its own work.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentDetails {
    /// The agent's calls of its own tools and of server tools.
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
    /// A one-line description of the step.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub meaning: Option<String>,
    /// The step's file and line.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    pub success: bool,
    pub message: String,
    /// The step's outputs, as text.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub outputs: Option<IndexMap<String, String>>,
    /// The error, if the step could not be executed.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The ID of the planned action, with `[round]` and `#attempt` appended.
    pub id: String,
    pub report: ActionReport,
    /// The steps that ran inside this step.
    #[schemars(skip_serializing_if = "Option::is_none")]
    pub steps: Option<Vec<StepResult>>,
}
