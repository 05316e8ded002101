//! The command line of `gevals run`, and the overrides, selection and limits that it determines.

use std::{path::PathBuf, sync::Arc, time::Duration};

use clap::builder::PossibleValuesParser;
use regex::Regex;

#[cfg(feature = "otlp")]
use crate::report::otlp::Destination;
use crate::{
    cli::{ROOT, in_ci},
    hir::{Bounds, Budget, Isolation},
    host::disk::Disk,
    journal::Settings,
    lint,
    mcp::RecordingBounds,
    plan::EvalPlan,
    prices::Prices,
    project::{AgentChoice, EnvServer, LimitOverrides, Overrides},
    random,
    report::REPORTS,
    run::{Demand, Gate, Keep, Labels, Only, RunOptions, Selection, Shard},
    source::Files,
    statistics::{Rate, Sequential},
    ty::duration,
};

const EXAMPLES: &str = "\
Examples:
  gevals run eval.yaml                      run all tasks, one at a time
  gevals run eval.yaml --run '^create'      only tasks whose names match
  gevals run eval.yaml -l suite=core        only tasks with this label
  gevals run eval.yaml -n 5 -p 4            run each task five times, four tasks in parallel
  gevals run eval.yaml --gate 4/5           run each task five times; four runs must pass
  gevals run eval.yaml --gate 0.9@95%       run each task as often as needed to show, with 95 %
                                            confidence, that it passes 9 times out of 10
  gevals run eval.yaml --gate 0.8@95% --until-decided --max-runs 60   stop as soon as it is decided
  gevals run eval.yaml --agent builtin.noop  find tasks that check nothing: those that pass
  gevals run eval.yaml --model openai:gpt-5 --model anthropic:claude-sonnet-4-5   compare models
  gevals run eval.yaml --shard 1/3 -o one   the first third; `gevals result merge` merges results
  gevals run suite.gevals                   run all of a pack written by `gevals pack`
  gevals run suite.gevals --engine temporal -p 20     use the `gevals worker`s on any machine
  gevals run eval.yaml --max-cost 5 --prices prices.yaml   stop when this much is spent
  gevals run eval.yaml --format json        write events as JSON lines, for other programs
  gevals run eval.yaml --otlp http://localhost:4318   send traces to an OpenTelemetry collector
  gevals run eval.yaml --resume             finish a run that was interrupted
  gevals run eval.yaml --preflight          check that everything is available; run no tasks
  gevals run eval.yaml --run '^web$' --phase setup     set up the environment, and keep it
  gevals run eval.yaml --run '^web$' --phase verify    verify it, without an agent
  gevals run eval.yaml --run '^web$' --phase cleanup   clean it up

The results are written to gevals-NAME-out.json at the end; use `gevals result` to view them. In
GitHub Actions, failures are annotated, and the job summary page gets a summary.

If the eval has no MCP config, environment variables describe the server: MCP_COMMAND, with MCP_ARGS
and MCP_ENV, or MCP_URL (or MCP_HOST, MCP_PORT and MCP_PATH), with MCP_HEADERS; MCP_SERVER_NAME is
its name, and MCP_ENABLE_ALL_TOOLS=false allows no tools.

Pending cleanups are recorded in a journal, .gevals/runs/RUN/journal.jsonl. A recording of all
messages of agents and servers is written beside it.

Exit status: 0 all tasks passed, 1 a task did not pass, 2 the eval cannot be run, 3 nothing could
run, 4 tasks passed, but a cleanup did not, 129, 130 or 143 interrupted (cleanups were run)";

/// Run an eval: start its servers, let the agent do the tasks, verify the results, clean up.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// An eval file, a directory that contains one, or a pack.
    pub eval: PathBuf,
    /// Only run tasks whose names match REGEX.
    #[arg(short, long, visible_alias = "task", value_name = "REGEX", value_parser = pattern, help_heading = "Task selection")]
    pub run: Option<Regex>,
    /// Only run tasks with these labels: KEY=VALUE, separated by commas; several values of a key are alternatives.
    #[arg(short, long, value_name = "LABELS", help_heading = "Task selection")]
    pub label_selector: Vec<Labels>,
    /// Only run tasks with this tag in their metadata; several tags, repeated or separated by commas, are alternatives.
    #[arg(long, value_name = "TAG", value_delimiter = ',', help_heading = "Task selection")]
    pub tag: Vec<String>,
    /// Only run the I-th of N parts of the tasks, counted from 1.
    #[arg(long, value_name = "I/N", help_heading = "Task selection")]
    pub shard: Option<Shard>,
    /// Run the tasks in random order.
    #[arg(long, help_heading = "Task selection")]
    pub shuffle: bool,
    /// Repeat the random order of an earlier run.
    #[arg(long, value_name = "N", requires = "shuffle", help_heading = "Task selection")]
    pub seed: Option<u64>,
    /// Run each task N times, overriding the task's own setting.
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Execution")]
    pub runs: Option<u32>,
    /// Run up to N tasks in parallel, if they allow it [default: 1].
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=512), help_heading = "Execution")]
    pub parallel: Option<u16>,
    /// Start no more tasks once a task has not passed, or can no longer meet its gate.
    #[arg(long, help_heading = "Execution")]
    pub fail_fast: bool,
    /// Use this agent instead of the eval's: a file of kind Agent or Oracle, builtin.NAME, builtin.NAME:MODEL or
    /// builtin.replay:RECORDING. Repeat to run several agents one after another.
    #[arg(long, value_name = "AGENT", help_heading = "Execution")]
    pub agent: Vec<String>,
    /// Use this model for the agent: PROVIDER:MODEL. Repeat to run several models one after another, with each agent.
    #[arg(long, value_name = "MODEL", help_heading = "Execution")]
    pub model: Vec<String>,
    /// Use this MCP config instead of the eval's.
    #[arg(long, value_name = "FILE", help_heading = "Execution")]
    pub mcp_config_file: Option<PathBuf>,
    /// Timeout of each run of a task, overriding the task's own.
    #[arg(long, value_name = "DURATION", value_parser = limit, help_heading = "Limits")]
    pub task_timeout: Option<Duration>,
    /// Timeout of each run of a task that sets none.
    #[arg(long, value_name = "DURATION", value_parser = limit, help_heading = "Limits")]
    pub default_task_timeout: Option<Duration>,
    /// Timeout of the cleanup of each run, overriding the task's own.
    #[arg(long, value_name = "DURATION", value_parser = limit, help_heading = "Limits")]
    pub cleanup_timeout: Option<Duration>,
    /// Timeout of the cleanup of each run of a task that sets none.
    #[arg(long, value_name = "DURATION", value_parser = limit, help_heading = "Limits")]
    pub default_cleanup_timeout: Option<Duration>,
    /// Timeout of the whole run; remaining work is cancelled.
    #[arg(long, value_name = "DURATION", value_parser = limit, help_heading = "Limits")]
    pub max_time: Option<Duration>,
    /// Maximum number of tokens that all agents and judges together may read and write.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Limits")]
    pub max_tokens: Option<u64>,
    /// Maximum cost of all agents and judges together, according to --prices.
    #[arg(long, value_name = "AMOUNT", value_parser = amount, help_heading = "Limits")]
    pub max_cost: Option<f64>,
    /// A file with the prices of models, as described by `gevals schema prices`.
    #[arg(long, value_name = "FILE", help_heading = "Limits")]
    pub prices: Option<PathBuf>,
    /// Timeout for the start of a server.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = limit, help_heading = "Limits")]
    pub server_timeout: Duration,
    /// Maximum size of an MCP message, in either direction, in MiB; the call of a larger one fails, the connection stays open.
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=4096), help_heading = "Limits")]
    pub max_message: u16,
    /// Maximum size of a recorded message, in MiB; of a larger message, only the size is recorded.
    #[arg(long, value_name = "MIB", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=4096), help_heading = "Limits")]
    pub max_recorded: u16,
    /// Maximum size of the recording, in MiB; what follows is not recorded.
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..), help_heading = "Limits")]
    pub max_recording: u32,
    /// Maximum size of the results file, in MiB; beyond it, only the parts of results that decide verdicts are kept.
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..), help_heading = "Limits")]
    pub max_results: u32,
    /// Number of runs whose directories are kept in .gevals/runs, including this one; runs with pending cleanups are always kept.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..), help_heading = "Output")]
    pub keep_runs: u32,
    /// Directory for the results.
    #[arg(short, long, value_name = "DIR", default_value = ".", help_heading = "Output")]
    pub output_dir: PathBuf,
    /// Output format [default: text; github in GitHub Actions].
    #[arg(long, value_parser = PossibleValuesParser::new(REPORTS.iter().map(|r| r.name)), help_heading = "Output")]
    pub format: Option<String>,
    /// Also write the results as an interactive page; with several agents or models, also one that compares them all.
    #[arg(long, value_name = "KIND", value_enum, help_heading = "Output")]
    pub report: Option<ReportArg>,
    /// Write the run to a file, or send it to a collector, as OpenTelemetry traces: `http://localhost:4318`.
    #[cfg(feature = "otlp")]
    #[arg(long, value_name = "FILE|URL", value_parser = Destination::parse, help_heading = "Output")]
    pub otlp: Option<Destination>,
    /// Only print the summary and what did not pass.
    #[arg(short, long, conflicts_with = "verbose", help_heading = "Output")]
    pub quiet: bool,
    /// Print a line for every step and every call.
    #[arg(short, long, help_heading = "Output")]
    pub verbose: bool,
    /// Refuse findings that may mislead the author in every dialect, not only in the portable one.
    #[arg(long, help_heading = "Verdicts")]
    pub strict: bool,
    /// Allow tasks to pass that have nothing to decide their verdict.
    #[arg(long, help_heading = "Verdicts")]
    pub allow_unchecked: bool,
    /// Fail tasks whose agent made no successful call to a server.
    #[arg(long, help_heading = "Verdicts")]
    pub require_server_use: bool,
    /// Run each task N times, of which P must pass; or as often as needed to show a pass rate with a confidence (`0.9@95%`), or `--runs` times.
    #[arg(long, value_name = "P/N|RATE@CONFIDENCE", conflicts_with = "fail_fast", help_heading = "Verdicts")]
    pub gate: Option<Demand>,
    /// Stop running a task once its gate is decided either way; checking early does not make the gate easier to meet.
    #[arg(long, requires = "gate", conflicts_with = "runs", help_heading = "Verdicts")]
    pub until_decided: bool,
    /// Maximum number of runs of a task until its gate is decided.
    #[arg(long, value_name = "N", requires = "until_decided", value_parser = clap::value_parser!(u32).range(1..=i64::from(crate::statistics::MOST_RUNS)), help_heading = "Verdicts")]
    pub max_runs: Option<u32>,
    /// Retry a broken run up to N times; each retry is reported. Not retried if its cleanup failed or its environment is kept.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=10), help_heading = "Verdicts")]
    pub retry_broken: u32,
    /// Run the tasks that have all they need even if another task lacks a command, a variable, a tool, a judge or an extension.
    #[arg(long, help_heading = "Verdicts")]
    pub keep_going: bool,
    /// How `builtin.replay` treats differences from the recording [default: strict if `CI` is set, otherwise tolerant].
    #[arg(long, value_name = "HOW", help_heading = "Verdicts")]
    pub replay: Option<ReplayArg>,
    /// Exit with 0 instead of 1 or 4.
    #[arg(long, help_heading = "Verdicts")]
    pub exit_zero: bool,
    /// Start separate servers for each task instead of sharing them.
    #[arg(long, help_heading = "Execution")]
    pub isolate: bool,
    /// How the agent is isolated from the machine, overriding the eval's setting; with `none` it can see how it is judged.
    #[arg(long, value_name = "LEVEL", value_enum, help_heading = "Execution")]
    pub isolation: Option<IsolationArg>,
    /// Keep the environment of tasks instead of cleaning up; `gevals recover` cleans it up later.
    #[arg(long, value_name = "WHEN", value_enum, help_heading = "Execution")]
    pub keep: Option<KeepArg>,
    /// Run one phase only: set up an environment and keep it, verify it without an agent, or clean it up.
    #[arg(long, value_enum, conflicts_with_all = ["keep", "resume"], help_heading = "Execution")]
    pub phase: Option<Phase>,
    /// Finish an interrupted run, the latest of this eval or the one with this id; tasks that have results are not run again.
    #[arg(long, value_name = "RUN", num_args = 0..=1, require_equals = true, default_missing_value = "", help_heading = "Execution", conflicts_with_all = ["run", "runs", "gate", "until_decided", "label_selector", "tag", "shard", "shuffle"])]
    pub resume: Option<String>,
    #[command(flatten)]
    pub engine: super::engine::options::Options,
    /// Check that commands, servers, agents and extensions are available, without running any task.
    #[arg(long, conflicts_with_all = ["phase", "resume", "keep"], help_heading = "Execution")]
    pub preflight: bool,
    /// Stop as on SIGTERM, with all cleanups, when standard input ends: so a run does not outlive the program that started it, even one
    /// that was killed.
    #[arg(long, hide = true)]
    pub end_with_stdin: bool,
    /// What the user has said, where this is made of it and of what a pack says.
    #[arg(skip)]
    pub said: Option<Said>,
}

/// The original command line, if a pack is run.
#[derive(Clone, Debug)]
pub enum Said {
    /// It runs a whole pack.
    Run(Box<Args>),
    /// It runs some units: the path of the pack, and the options that apply to all units.
    Units { pack: String, flags: Vec<String> },
}

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReportArg {
    Html,
}

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeepArg {
    Always,
    OnFailure,
}

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReplayArg {
    /// The task is broken.
    Strict,
    /// The difference is reported, and the task continues.
    Tolerant,
}

impl ReplayArg {
    fn by_default() -> Self {
        match in_ci() {
            true => Self::Strict,
            false => Self::Tolerant,
        }
    }

    fn of(strict: bool) -> Self {
        if strict { Self::Strict } else { Self::Tolerant }
    }
}

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum IsolationArg {
    None,
    Auto,
    Strict,
}

impl IsolationArg {
    fn of(level: Isolation) -> Self {
        match level {
            Isolation::None => Self::None,
            Isolation::Auto => Self::Auto,
            Isolation::Strict => Self::Strict,
        }
    }

    fn level(self) -> Isolation {
        match self {
            Self::None => Isolation::None,
            Self::Auto => Isolation::Auto,
            Self::Strict => Isolation::Strict,
        }
    }
}

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    Setup,
    Verify,
    Cleanup,
}

/// What the command line and the environment override in the eval.
pub fn overrides(args: &Args) -> Result<Overrides, String> {
    let agent = args.agent.first().map(|agent| AgentChoice::parse(agent));
    let file = match &agent {
        Some(AgentChoice::File(path)) => Some(path),
        _ => None,
    };
    for path in file.into_iter().chain(&args.mcp_config_file) {
        Disk.read(path).map_err(|e| {
            let builtin = format!("builtin.{}", path.display());
            let kind = builtin.split(':').next().unwrap_or_default();
            let hint = match (file == Some(path) && lint::AGENT_TYPES.contains(&kind), kind == "builtin.llm-agent") {
                (true, true) if kind == builtin => format!("; did you mean `{builtin}:PROVIDER:MODEL`?"),
                (true, _) => format!("; did you mean `{builtin}`?"),
                _ => String::new(),
            };
            format!("cannot read `{}`: {e}{hint}", path.display())
        })?;
    }
    Ok(Overrides {
        agent,
        model: args.model.first().cloned(),
        mcp_config: args.mcp_config_file.clone(),
        server: EnvServer::read(&|name| std::env::var(name).ok())?,
        asked: true,
        limits: LimitOverrides {
            timeout: args.task_timeout,
            cleanup_timeout: args.cleanup_timeout,
            default_timeout: args.default_task_timeout,
            default_cleanup_timeout: args.default_cleanup_timeout,
        },
    })
}

pub fn selection(args: &Args) -> Selection {
    Selection {
        name: args.run.clone(),
        labels: args.label_selector.iter().cloned().fold(Labels::tagged(&args.tag), Labels::and),
        shard: args.shard,
        // Few digits, because people copy it.
        shuffle: args.shuffle.then(|| args.seed.unwrap_or_else(|| random::number() % 1_000_000)),
        units: Vec::new(),
        enough: None,
    }
}

/// The limits of the command line for all tasks together.
pub fn bounds(args: &Args) -> Bounds {
    Bounds { tokens: args.max_tokens, cost: args.max_cost, tool_calls: None }
}

/// The command line of a resumed run. Runs and gates are those of the original run; its other settings apply unless the
/// command line has its own.
pub fn as_started(args: &Args, settings: &Settings) -> Args {
    Args {
        runs: settings.runs,
        parallel: args.parallel.or(settings.parallel.try_into().ok()),
        gate: match (settings.rate, settings.gate) {
            (Some((at_least, confidence)), _) => Some(Demand::Rate(Rate { at_least, confidence })),
            (None, gate) => gate.map(|(passes, of)| Demand::Passes(Gate { passes, of })),
        },
        until_decided: settings.until_decided,
        max_runs: settings.runs.filter(|_| settings.until_decided),
        isolate: args.isolate || settings.isolate,
        isolation: args.isolation.or(settings.isolation.map(IsolationArg::of)),
        allow_unchecked: args.allow_unchecked || settings.allow_unchecked,
        require_server_use: args.require_server_use || settings.require_server_use,
        replay: args.replay.or(Some(ReplayArg::of(settings.strict_replay))),
        exit_zero: args.exit_zero || settings.exit_zero,
        keep_going: args.keep_going || settings.keep_going,
        retry_broken: if args.retry_broken > 0 { args.retry_broken } else { settings.retry_broken },
        max_time: args.max_time.or(settings.max_time),
        max_tokens: args.max_tokens.or(settings.max_tokens),
        max_cost: args.max_cost.or(settings.max_cost),
        prices: args.prices.clone().or_else(|| settings.prices.clone()),
        ..args.clone()
    }
}

/// How many of how many runs must pass, and, with `--until-decided`, when that is decided early.
///
/// # Errors
/// Says why the gate is impossible.
pub fn gate(args: &Args) -> Result<(Option<Gate>, Option<Arc<Sequential>>), String> {
    match args.gate {
        None => Ok((None, None)),
        Some(demand) if args.until_decided => {
            let decides = demand.until_decided(args.max_runs)?;
            Ok((decides.last().map(|passes| Gate { passes, of: decides.most() }), Some(Arc::new(decides))))
        }
        Some(demand) => demand.gate(args.runs).map(|gate| (Some(gate), None)),
    }
}

/// The options of the run, except for the use of a shared budget and the journal, which the caller sets.
pub fn options(args: &Args, selection: Selection, prices: Option<Arc<Prices>>) -> RunOptions {
    // An impossible gate was refused earlier.
    let (gate, until_decided) = gate(args).unwrap_or_default();
    RunOptions {
        runs: gate.map(|gate| gate.of).or(args.runs),
        parallel: usize::from(args.parallel.unwrap_or(1)),
        selection,
        fail_fast: args.fail_fast,
        gate,
        rate: match args.gate {
            Some(Demand::Rate(rate)) => Some(rate),
            _ => None,
        },
        until_decided,
        output_dir: args.output_dir.clone(),
        allow_unchecked: args.allow_unchecked,
        require_server_use: args.require_server_use,
        prices,
        budget: Budget { time: args.max_time, bounds: bounds(args) },
        retry_broken: args.retry_broken,
        strict_replay: args.replay.unwrap_or_else(ReplayArg::by_default) == ReplayArg::Strict,
        exit_zero: args.exit_zero,
        keep_going: args.keep_going,
        executable: std::env::current_exe().ok(),
        secrets: crate::run::environment_secrets(),
        server_timeout: args.server_timeout,
        max_message: usize::from(args.max_message) << 20,
        recording: RecordingBounds {
            message: usize::from(args.max_recorded) << 20,
            file: u64::from(args.max_recording) << 20,
        },
        max_results: u64::from(args.max_results) << 20,
        isolate: args.isolate,
        isolation: args.isolation.map(IsolationArg::level),
        keep: match args.keep {
            None => Keep::Never,
            Some(KeepArg::OnFailure) => Keep::OnFailure,
            Some(KeepArg::Always) => Keep::Always,
        },
        only: match args.phase {
            Some(Phase::Setup) => Some(Only::Setup),
            Some(Phase::Verify) => Some(Only::Verify),
            _ => None,
        },
        ..RunOptions::default()
    }
}

/// The arguments that a command to run tasks again must repeat: the eval, the options that affect how a task ends, and
/// where its environment and results are.
pub fn again(args: &Args, plan: &EvalPlan) -> (String, Vec<String>) {
    let name = |path: &PathBuf| path.display().to_string();
    // `--replay` is refused if the agent does not replay.
    let replay = args.replay.filter(|_| plan.tasks.iter().any(|task| task.recording().is_some()));
    let args = Args { replay, ..args.clone() };
    match &args.said {
        Some(Said::Units { pack, flags }) => (pack.clone(), flags.clone()),
        Some(Said::Run(said)) if said.agent.is_empty() && said.model.is_empty() => {
            let (agent, model) = (Vec::new(), Vec::new());
            let (mcp_config_file, output_dir) = (said.mcp_config_file.clone(), said.output_dir.clone());
            (name(&said.eval), repeated(&Args { agent, model, mcp_config_file, output_dir, ..args.clone() }))
        }
        Some(Said::Run(said)) => {
            let mcp_config_file = said.mcp_config_file.clone();
            (name(&said.eval), repeated(&Args { mcp_config_file, ..args.clone() }))
        }
        None => {
            let root = ROOT.get().into_iter().flat_map(|root| ["--root".to_owned(), name(root)]);
            (name(&args.eval), root.chain(repeated(&args)).collect())
        }
    }
}

fn repeated(args: &Args) -> Vec<String> {
    let path = |p: &PathBuf| p.display().to_string();
    let time = |d: &Option<Duration>| d.map(duration::format);
    let values = [
        ("--agent", args.agent.first().cloned()),
        ("--model", args.model.first().cloned()),
        ("--mcp-config-file", args.mcp_config_file.as_ref().map(path)),
        ("--task-timeout", time(&args.task_timeout)),
        ("--default-task-timeout", time(&args.default_task_timeout)),
        ("--cleanup-timeout", time(&args.cleanup_timeout)),
        ("--default-cleanup-timeout", time(&args.default_cleanup_timeout)),
        ("--output-dir", Some(path(&args.output_dir)).filter(|dir| dir != ".")),
        ("--prices", args.prices.as_ref().map(path)),
        ("--replay", args.replay.map(|how| (if how == ReplayArg::Strict { "strict" } else { "tolerant" }).to_owned())),
        ("--isolation", args.isolation.map(|isolation| isolation.level().name().to_owned())),
        ("--retry-broken", (args.retry_broken > 0).then(|| args.retry_broken.to_string())),
    ];
    let values = values.into_iter().filter_map(|(name, value)| Some([name.to_owned(), value?]));
    let flags = [
        ("--isolate", args.isolate),
        ("--allow-unchecked", args.allow_unchecked),
        ("--require-server-use", args.require_server_use),
        ("--keep-going", args.keep_going),
    ];
    let flags = flags.into_iter().filter(|(_, given)| *given).map(|(name, _)| name.to_owned());
    values.flatten().chain(flags).collect()
}

fn pattern(text: &str) -> Result<Regex, String> {
    Regex::new(text).map_err(|e| format!("not a valid regular expression\n{e}"))
}

/// Parses a maximum cost.
fn amount(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(amount) if f64::is_finite(amount) && amount > 0.0 => Ok(amount),
        _ => Err("write a number above 0, such as `2.50`".to_owned()),
    }
}

/// Parses a time limit.
fn limit(text: &str) -> Result<Duration, String> {
    match duration::parse(text) {
        Ok(Duration::ZERO) => Err("it must be longer than zero".to_owned()),
        Ok(limit) => Ok(limit),
        Err(fault) => Err(format!("{fault}; write a duration such as `30s` or `1m30s`")),
    }
}
