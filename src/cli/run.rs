//! `gevals run`: does what the plan says.

mod matrix;

use std::{
    collections::{HashMap, HashSet},
    io::{IsTerminal, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use clap::builder::PossibleValuesParser;
use regex::Regex;

use super::{
    Global, complain, preflight, print_findings,
    recover::{What, make_up, name_of},
    shown, status, unreadable,
};
use crate::{
    Compiled, Options, compile_with,
    diagnostic::{self, Diagnostic, Diagnostics, Strength},
    event::Used,
    hir::{Bounds, Budget, Dialect},
    host::{Host, RealHost, disk::Disk},
    journal::{self, Header, Journal, Past, Refusal, Settings, Snapshot, TaskPast, Watched, Writer},
    lint,
    plan::{EvalPlan, wire},
    prices::Prices,
    project::{AgentChoice, EnvServer, LimitOverrides, Overrides},
    report::{self, Detail, REPORTS, ReportInput},
    results::{self, github},
    run::{self, Gate, Keep, KeptWorld, Labels, Only, RunOptions, Selection, Shard, interrupts},
    secrets::Secrets,
    source::{Files, Sources},
    ty::duration,
};

const EXAMPLES: &str = "\
Examples:
  gevals run eval.yaml                      run all tasks, one by one
  gevals run eval.yaml --run '^create'      only tasks whose name matches
  gevals run eval.yaml -l suite=core        only tasks that have this label
  gevals run eval.yaml -n 5 -p 4            five runs a task, four parallel tasks at a time
  gevals run eval.yaml --gate 4/5           five runs a task, of which four must pass
  gevals run eval.yaml --agent builtin.noop a task that passes now checks nothing
  gevals run eval.yaml --model openai:gpt-5 --model anthropic:claude-sonnet-4-5   both models, compared
  gevals run eval.yaml --shard 1/3 -o one   the first third; `gevals result merge` puts results together
  gevals run eval.yaml --max-cost 5 --prices prices.yaml   stop when that much is spent
  gevals run eval.yaml --format json        events as JSON lines, for other programs
  gevals run eval.yaml --resume             finish a run that was interrupted
  gevals run eval.yaml --preflight          look whether everything is there, and run no task
  gevals run eval.yaml --run '^web$' --phase setup     set up, and leave the world standing
  gevals run eval.yaml --run '^web$' --phase verify    judge that world, without an agent
  gevals run eval.yaml --run '^web$' --phase cleanup   and clean it up

The results are written to gevals-NAME-out.json as tasks finish; `gevals result` looks at them.
In GitHub Actions failures are annotated, and the page of the job gets a summary.

Where the eval names no MCP config, variables describe the server: MCP_COMMAND, with MCP_ARGS and
MCP_ENV, or MCP_URL (or MCP_HOST, MCP_PORT and MCP_PATH), with MCP_HEADERS; MCP_SERVER_NAME is its
name, MCP_ENABLE_ALL_TOOLS=false permits no tools.

What is owed in cleanup stands in a journal, .gevals/runs/RUN/journal.jsonl, and beside it a recording
of all that agents and servers said.

Exit status: 0 all passed, 1 a task did not, 2 the eval cannot be run, 3 nothing could run,
             4 tasks passed but a cleanup did not, 130 or 143 interrupted (cleanups were run)";

/// Run an eval: start its servers, let the agent do the tasks, verify, clean up.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// An eval file, or a folder that holds one.
    eval: PathBuf,
    /// Only tasks whose name matches this pattern.
    #[arg(short, long, visible_alias = "task", value_name = "REGEX", value_parser = pattern, help_heading = "Which tasks")]
    run: Option<Regex>,
    /// Only tasks with these labels: KEY=VALUE, by commas; several values of a key are alternatives.
    #[arg(short, long, value_name = "LABELS", help_heading = "Which tasks")]
    label_selector: Vec<Labels>,
    /// Only tasks with this tag in their metadata; several, by commas or repeated, are alternatives.
    #[arg(long, value_name = "TAG", value_delimiter = ',', help_heading = "Which tasks")]
    tag: Vec<String>,
    /// Only the I-th of N parts of the tasks, from 1.
    #[arg(long, value_name = "I/N", help_heading = "Which tasks")]
    shard: Option<Shard>,
    /// Run the tasks in random order.
    #[arg(long, help_heading = "Which tasks")]
    shuffle: bool,
    /// The random order of an earlier run.
    #[arg(long, value_name = "N", requires = "shuffle", help_heading = "Which tasks")]
    seed: Option<u64>,
    /// How often each task is run, instead of what it says itself.
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "How")]
    runs: Option<u32>,
    /// How many tasks run side by side, among those that allow it; one by default.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=512), help_heading = "How")]
    parallel: Option<u16>,
    /// Start nothing more once a task has not passed, or can no longer meet its gate.
    #[arg(long, help_heading = "How")]
    fail_fast: bool,
    /// Another agent: a file of kind Agent or Oracle, or builtin.NAME, builtin.NAME:MODEL or builtin.replay:RECORDING. Several are
    /// run one after another.
    #[arg(long, value_name = "AGENT", help_heading = "How")]
    agent: Vec<String>,
    /// Another model for the agent: PROVIDER:MODEL. Several are run one after another, with each agent.
    #[arg(long, value_name = "MODEL", help_heading = "How")]
    model: Vec<String>,
    /// Other servers: an MCP config, instead of the one that the eval names.
    #[arg(long, value_name = "FILE", help_heading = "How")]
    mcp_config_file: Option<PathBuf>,
    /// How long a run of a task may take, whatever it says itself.
    #[arg(long, value_name = "DURATION", value_parser = limit, help_heading = "Limits")]
    task_timeout: Option<Duration>,
    /// The same, for tasks that say nothing.
    #[arg(long, value_name = "DURATION", value_parser = limit, help_heading = "Limits")]
    default_task_timeout: Option<Duration>,
    /// How long the cleanup of a run may take, whatever the task says.
    #[arg(long, value_name = "DURATION", value_parser = limit, help_heading = "Limits")]
    cleanup_timeout: Option<Duration>,
    /// The same, for tasks that say nothing.
    #[arg(long, value_name = "DURATION", value_parser = limit, help_heading = "Limits")]
    default_cleanup_timeout: Option<Duration>,
    /// How long the whole run may take; what is left undone then is cancelled.
    #[arg(long, value_name = "DURATION", value_parser = limit, help_heading = "Limits")]
    max_time: Option<Duration>,
    /// How many tokens all agents and judges together may read and write.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Limits")]
    max_tokens: Option<u64>,
    /// What all agents and judges together may cost, by the prices.
    #[arg(long, value_name = "AMOUNT", value_parser = amount, help_heading = "Limits")]
    max_cost: Option<f64>,
    /// What models cost: a file that `gevals schema prices` describes.
    #[arg(long, value_name = "FILE", help_heading = "Limits")]
    prices: Option<PathBuf>,
    /// How long a server may take to start.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = limit, help_heading = "Limits")]
    server_timeout: Duration,
    /// Where results are written.
    #[arg(short, long, value_name = "DIR", default_value = ".", help_heading = "Output")]
    output_dir: PathBuf,
    /// What is printed; `text` by default, and `github` in GitHub Actions.
    #[arg(long, value_parser = PossibleValuesParser::new(REPORTS.iter().map(|r| r.name)), help_heading = "Output")]
    format: Option<String>,
    /// Print the summary only, and what did not pass.
    #[arg(short, long, conflicts_with = "verbose", help_heading = "Output")]
    quiet: bool,
    /// Print a line for every step and every call.
    #[arg(short, long, help_heading = "Output")]
    verbose: bool,
    /// Refuse findings that may fool the author in every dialect, not only the portable one.
    #[arg(long, help_heading = "Verdicts")]
    strict: bool,
    /// Let tasks pass that nothing decides.
    #[arg(long, help_heading = "Verdicts")]
    allow_unchecked: bool,
    /// Let no task pass whose agent made no successful call to a server.
    #[arg(long, help_heading = "Verdicts")]
    require_server_use: bool,
    /// Run each task N times, of which P must pass.
    #[arg(long, value_name = "P/N", conflicts_with_all = ["runs", "fail_fast"], help_heading = "Verdicts")]
    gate: Option<Gate>,
    /// Make a run again that is broken, at most N times; each is reported. One whose cleanup failed, or whose world is kept, is not.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=10), help_heading = "Verdicts")]
    retry_broken: u32,
    /// Exit with 0 where it would be 1 or 4.
    #[arg(long, help_heading = "Verdicts")]
    exit_zero: bool,
    /// Start servers for each task alone, instead of sharing them.
    #[arg(long, help_heading = "How")]
    isolate: bool,
    /// Leave the world of tasks standing instead of cleaning up; `gevals recover` does that later.
    #[arg(long, value_name = "WHEN", value_enum, help_heading = "How")]
    keep: Option<KeepArg>,
    /// Run one phase alone: set up a world and keep it, judge it without an agent, or clean it up.
    #[arg(long, value_enum, conflicts_with_all = ["keep", "resume"], help_heading = "How")]
    phase: Option<Phase>,
    /// Finish a run that was interrupted – the latest of this eval, or the one with this id: tasks with results are kept.
    #[arg(long, value_name = "RUN", num_args = 0..=1, require_equals = true, default_missing_value = "", help_heading = "How", conflicts_with_all = ["run", "runs", "gate", "label_selector", "tag", "shard", "shuffle"])]
    resume: Option<String>,
    /// Look whether commands, servers, agents and extensions are there, without running a task.
    #[arg(long, conflicts_with_all = ["phase", "resume", "keep"], help_heading = "How")]
    preflight: bool,
}

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum KeepArg {
    Always,
    OnFailure,
}

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Setup,
    Verify,
    Cleanup,
}

pub fn main(args: &Args, global: Global) -> u8 {
    let each = matrix::combinations(&args.agent, &args.model);
    match each.as_slice() {
        [_] => one(args, global),
        several => matrix::run(args, several, global),
    }
}

fn one(args: &Args, global: Global) -> u8 {
    match prepare(args, global) {
        Ok(ready) => go(args, global, ready, Used::default(), Duration::ZERO).0,
        Err(exit) => exit,
    }
}

/// An eval that can be run, and what is to be said of it before.
struct Ready {
    plan: EvalPlan,
    selection: Selection,
    sources: Sources,
    findings: Vec<serde_json::Value>,
    tolerated: Vec<Diagnostic>,
    files: Snapshot,
    read: usize,
    prices: Option<Arc<Prices>>,
}

impl Ready {
    /// Why its limits of cost mean nothing.
    fn unpriced(&self, args: &Args) -> Vec<String> {
        let selected = self.selection.of(&self.plan);
        run::unpriced(&self.plan, &selected, &bounds(args), self.prices.as_ref(), &|name| std::env::var(name).ok())
    }
}

/// Runs it, or looks whether it could be; `used` is what others have used of a budget that it shares, and `time` how long they took.
/// Gives back the exit status, and what all of them have used now.
fn go(args: &Args, global: Global, ready: Ready, used: Used, time: Duration) -> (u8, Used) {
    print_tolerated(args, &ready.tolerated, &ready.sources, ready.read, global);
    if args.preflight {
        let tasks: Vec<_> = ready.selection.of(&ready.plan).into_iter().map(|index| &ready.plan.tasks[index]).collect();
        return (preflight::main(&ready.plan, &tasks, args.server_timeout), used);
    }
    if args.phase == Some(Phase::Cleanup) {
        return (clean_up(args, &ready.plan, &ready.selection), used);
    }
    let mut used = used;
    let exit = execute(args, global, ready, &mut used, time);
    (exit, used)
}

/// Reads the eval; nothing is run.
///
/// # Errors
/// The exit status; why, is said.
fn prepare(args: &Args, global: Global) -> Result<Ready, u8> {
    // mcpchecker's `-o` says what is printed.
    if let Some(format @ ("json" | "text")) = args.output_dir.to_str().filter(|_| !args.output_dir.exists()) {
        complain(&format!(
            "`-o {format}` would write the results to a folder `{format}`: write `--format {format}`, or `-o ./{format}`"
        ));
        return Err(status::USAGE);
    }
    let overrides = match overrides(args) {
        Ok(overrides) => overrides,
        Err(message) => {
            complain(&message);
            return Err(status::USAGE);
        }
    };
    let files = Watched::new(&Disk);
    let Ok(prices) = args.prices.as_ref().map(|path| prices(path, &files, global)).transpose() else {
        return Err(status::USAGE);
    };
    let sources = Sources::default();
    let server = overrides.server.is_some() && args.mcp_config_file.is_none();
    let options = Options { overrides, ..Options::default() };
    let mut compiled = compile_with(std::slice::from_ref(&args.eval), &options, &sources, &files);
    if unreadable(&compiled) {
        return Err(status::USAGE);
    }
    let plan = match the_eval(args, &compiled) {
        Ok(plan) => plan,
        Err(message) => {
            if !compiled.diagnostics.is_empty() {
                print_findings(&compiled.diagnostics, &sources, compiled.project.files(), global);
            }
            complain(&message);
            return Err(status::USAGE);
        }
    };
    let selection = selection(args);
    leave_out(&selection, plan.as_ref(), &mut compiled);
    let refused = refused(args, &compiled);
    if !refused.is_empty() {
        print_findings(&refused, &sources, compiled.project.files(), global);
        complain("the eval is not run: green would mean nothing");
        return Err(status::USAGE);
    }
    let tolerated: Vec<Diagnostic> =
        compiled.diagnostics.iter().filter(|d| d.strength <= Strength::Warning).cloned().collect();
    let Some(plan) = plan else {
        complain("no task is selected");
        return Err(status::USAGE);
    };
    if selection.all(&plan).is_empty() {
        // They may tell why the eval itself selects none.
        if plan.tasks.is_empty() && !tolerated.is_empty() {
            print_findings(&tolerated, &sources, compiled.project.files(), global);
        }
        complain(&format!("no task is selected: {}", selection.nothing(&plan)));
        return Err(status::USAGE);
    }
    if server && compiled.project.evals.iter().any(|unit| unit.eval.as_ref().is_some_and(|e| e.mcp_config.is_some())) {
        super::warn(
            "the server that `MCP_*` variables describe is not used: the eval names an MCP config; `--mcp-config-file` \
             puts another in its place",
        );
    }
    let findings = super::tolerated_findings(&compiled, &sources);
    let (read, files) = (compiled.project.files(), files.into_snapshot());
    Ok(Ready { plan, selection, sources, findings, tolerated, files, read, prices })
}

/// What the command line and the environment put in the place of what the eval says.
fn overrides(args: &Args) -> Result<Overrides, String> {
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

fn selection(args: &Args) -> Selection {
    Selection {
        name: args.run.clone(),
        labels: args.label_selector.iter().cloned().fold(Labels::tagged(&args.tag), Labels::and),
        shard: args.shard,
        // Few digits, as people copy it.
        shuffle: args.shuffle.then(|| args.seed.unwrap_or_else(|| fastrand::u64(..1_000_000))),
    }
}

/// Of the command line, what decides how a task goes, and where its world and results are.
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
        ("--retry-broken", (args.retry_broken > 0).then(|| args.retry_broken.to_string())),
    ];
    let values = values.into_iter().filter_map(|(name, value)| Some([name.to_owned(), value?]));
    let flags = [
        ("--isolate", args.isolate),
        ("--allow-unchecked", args.allow_unchecked),
        ("--require-server-use", args.require_server_use),
    ];
    let flags = flags.into_iter().filter(|(_, given)| *given).map(|(name, _)| name.to_owned());
    values.flatten().chain(flags).collect()
}

/// Warnings are shown that anybody will read; the others are counted.
const WARNINGS: usize = 5;

/// Findings that keep nothing from running. Those that may fool the author are told one by one (`decisions.md` §1).
fn print_tolerated(args: &Args, found: &[Diagnostic], sources: &Sources, files: usize, global: Global) {
    let (errors, mild): (Vec<_>, Vec<_>) = found.iter().cloned().partition(|d| d.strength.is_error());
    let told = if args.verbose || (mild.len() <= WARNINGS && !args.quiet) { found } else { &errors };
    if errors.len() > WARNINGS && !args.verbose {
        let err = std::io::stderr();
        let mut text = String::new();
        let _ = diagnostic::concise(told, sources, &global.pretty(&err), &mut text);
        let _ = writeln!(err.lock(), "{text}{}", diagnostic::summary(told, files));
    } else if !told.is_empty() {
        print_findings(told, sources, files, global);
    }
    if told.len() < found.len() && !args.quiet {
        let eval = report::quoted(&shown(&args.eval));
        eprintln!("{} warnings and notes are not shown: `gevals check {eval}` tells them\n", found.len() - told.len());
    }
}

fn pattern(text: &str) -> Result<Regex, String> {
    Regex::new(text).map_err(|e| format!("it is no pattern\n{e}"))
}

/// What something may cost.
fn amount(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(amount) if f64::is_finite(amount) && amount > 0.0 => Ok(amount),
        _ => Err("write a number above 0, such as `2.50`".to_owned()),
    }
}

/// The file of prices. What is wrong with it is told.
fn prices(path: &Path, files: &dyn Files, global: Global) -> Result<Arc<Prices>, ()> {
    let bytes = files.read(path).map_err(|e| e.to_string());
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).map_err(|_| "it is no UTF-8".to_owned()));
    let text = text.map_err(|why| complain(&format!("cannot read `{}`: {why}", shown(path))))?;
    let (sources, mut found) = (Sources::default(), Diagnostics::default());
    let prices = Prices::decode(sources.add(path, text.as_str()), &text, &mut found);
    // `gevals check --fix` knows no files of prices.
    let found: Vec<_> = found.into_iter().map(|fault| Diagnostic { fix: None, ..fault }).collect();
    if !found.is_empty() {
        print_findings(&found, &sources, 1, global);
    }
    prices.map(Arc::new).ok_or(())
}

/// What all tasks may use together, by the command line.
fn bounds(args: &Args) -> Bounds {
    Bounds { tokens: args.max_tokens, cost: args.max_cost, tool_calls: None }
}

/// A time that something may take.
fn limit(text: &str) -> Result<Duration, String> {
    match duration::parse(text) {
        Ok(Duration::ZERO) => Err("it must be longer than that".to_owned()),
        Ok(limit) => Ok(limit),
        Err(fault) => Err(format!("{fault}; write a duration such as `30s` or `1m30s`")),
    }
}

/// The eval that the path names, with its plan where it has one.
fn the_eval(args: &Args, compiled: &Compiled) -> Result<Option<EvalPlan>, String> {
    let path = shown(&args.eval);
    match (compiled.project.evals.as_slice(), compiled.evals.as_slice()) {
        ([_], [plan]) => Ok(plan.clone()),
        ([], _) if compiled.diagnostics.iter().any(|d| d.strength == Strength::Hard) => {
            Err(format!("`{path}` cannot be run"))
        }
        ([], _) if compiled.project.tasks.is_empty() => Err(format!("there is no eval in `{path}`")),
        ([], _) => Err(format!("`{path}` is a task: a run needs an eval, which says with which agent and servers")),
        (evals, _) => {
            let names: Vec<_> = evals.iter().map(|e| format!("`{}`", e.path.display())).collect();
            Err(format!("there are several evals in `{path}`, name one: {}", names.join(", ")))
        }
    }
}

/// Drops findings in tasks that are not to be run: they fool nobody now. What keeps the eval from a plan is not among them.
fn leave_out(selection: &Selection, plan: Option<&EvalPlan>, compiled: &mut Compiled) {
    let Some(plan) = plan else { return };
    let wanted: Vec<_> = selection.all(plan).into_iter().map(|index| plan.tasks[index].task.name.span.file).collect();
    let others = compiled.project.tasks.iter().map(|t| t.file).filter(|file| !wanted.contains(file));
    let others: Vec<_> = others.collect();
    compiled.diagnostics.retain(|d| !others.contains(&d.span.file));
}

/// Hard errors, and verdict errors where they are refused (`decisions.md` §1).
fn refused(args: &Args, compiled: &Compiled) -> Vec<Diagnostic> {
    let dialect_of = |d: &Diagnostic| compiled.project.tasks.iter().find(|t| t.file == d.span.file).map(|t| t.dialect);
    let all_portable = compiled.project.tasks.iter().all(|t| t.dialect == Dialect::Portable);
    let refuses = |d: &&Diagnostic| match d.strength {
        Strength::Hard => true,
        // An explicit permission of what the finding warns of.
        Strength::Verdict if d.rule.name == "no-verdict" && args.allow_unchecked => false,
        Strength::Verdict if args.strict => true,
        Strength::Verdict => dialect_of(d).map_or(all_portable, |dialect| dialect == Dialect::Portable),
        _ => false,
    };
    compiled.diagnostics.iter().filter(refuses).cloned().collect()
}

fn execute(args: &Args, global: Global, ready: Ready, used: &mut Used, time: Duration) -> u8 {
    let Ready { plan, selection, sources, findings, files, mut prices, .. } = ready;
    let results = report::results_path(&args.output_dir, &plan.name);
    // Held until this process ends.
    let _claim = match journal::claim(&args.output_dir, &results) {
        Ok(claim) => claim,
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
            complain(&format!(
                "another run writes to `{}`: wait for it, or give this one a folder with `--output-dir`",
                results.display()
            ));
            return status::BROKEN;
        }
        Err(error) => {
            complain(&format!("`{}` cannot be written: {error}", results.display()));
            return status::BROKEN;
        }
    };
    make_up_for_others(args);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(&format!("cannot start: {error}"));
            return status::BROKEN;
        }
    };
    let host = Arc::new(RealHost::new());
    let resumed = match args.resume.as_ref().map(|run| resume(args, &plan, run, host.mark())).transpose() {
        Ok(resumed) => resumed,
        Err((exit, message)) => {
            complain(&message);
            return exit;
        }
    };
    let started;
    let args = match &resumed {
        None => args,
        Some(Resumed { past, .. }) => {
            started = as_started(args, &past.header.settings);
            &started
        }
    };
    if let (None, Some(path), Some(Resumed { past, .. })) = (&prices, &args.prices, &resumed) {
        prices = match self::prices(path, &past.header.files.over(&Disk), global) {
            Ok(prices) => Some(prices),
            Err(()) => return status::USAGE,
        };
    }
    let mut options = RunOptions {
        runs: args.gate.map(|gate| gate.of).or(args.runs),
        parallel: usize::from(args.parallel.unwrap_or(1)),
        selection,
        fail_fast: args.fail_fast,
        gate: args.gate,
        output_dir: args.output_dir.clone(),
        allow_unchecked: args.allow_unchecked,
        require_server_use: args.require_server_use,
        prices,
        budget: Budget { time: args.max_time, bounds: bounds(args) },
        used: *used,
        used_time: time,
        retry_broken: args.retry_broken,
        exit_zero: args.exit_zero,
        executable: std::env::current_exe().ok(),
        secrets: crate::run::environment_secrets(),
        server_timeout: args.server_timeout,
        isolate: args.isolate,
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
    };
    if options.only == Some(Only::Verify) {
        options.worlds = kept_worlds(args, &plan);
        let names = names(&plan, &options.selection);
        if let Some(name) = names.iter().find(|name| !options.worlds.contains_key(*name)) {
            complain(&format!("no world of `{name}` is kept: `--phase setup` or `--keep always` makes one"));
            return status::USAGE;
        }
    }
    let mut earlier = None;
    if let Some(Resumed { journal, past, done }) = resumed {
        earlier = Some((journal.dir().to_owned(), done));
        (options.journal, options.past) = (Some(Arc::new(journal)), Some(Arc::new(past)));
    // Of a shard without tasks there is nothing to tell.
    } else if !options.selection.of(&plan).is_empty() {
        options.journal = match begin(args, &plan, files, &options, host.as_ref()) {
            Ok(journal) => Some(Arc::new(journal)),
            Err(error) => {
                complain(&format!("no journal can be written: {error}"));
                return status::BROKEN;
            }
        };
    }
    let in_actions = std::env::var_os("GITHUB_ACTIONS").is_some_and(|v| v == "true");
    let format = args.format.as_deref().unwrap_or(if in_actions { "github" } else { "text" });
    let for_people = format != "json";
    let mut input = ReportInput::new(Arc::new(plan), Arc::new(sources), shown(&args.eval), &options);
    input.colour = global.colour(&std::io::stdout());
    if let Some(journal) = options.journal.clone() {
        host.on_start(move |pid| journal.group(pid));
    }
    input.findings = findings;
    input.earlier = earlier;
    if let (Some(_), Some(journal)) = (options.only, &options.journal) {
        // Half a run's results are not to stand where a whole one's are looked for.
        input.results = journal.dir().join("results.json");
    }
    input.flags = repeated(args);
    let phase = args.phase.and_then(|phase| clap::ValueEnum::to_possible_value(&phase));
    input.flags.extend(phase.into_iter().flat_map(|phase| ["--phase".to_owned(), phase.get_name().to_owned()]));
    input.detail = match (args.quiet, args.verbose) {
        (true, _) => Detail::Quiet,
        (_, true) => Detail::Verbose,
        _ => Detail::Normal,
    };
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    input.live = for_people && !args.quiet && !dumb && std::io::stderr().is_terminal();
    let Some(format) = REPORTS.iter().find(|r| r.name == format) else { return status::USAGE };
    let summary = runtime.block_on(async {
        let interrupts = match interrupts() {
            Ok(interrupts) => interrupts,
            Err(error) => return Err(format!("cannot listen for signals: {error}")),
        };
        Ok(report::run(&input, &options, host, interrupts, format, &mut std::io::stdout()).await)
    });
    runtime.shutdown_timeout(std::time::Duration::from_millis(200));
    match summary {
        Ok(summary) => {
            *used = summary.used.unwrap_or(*used);
            // The text report has told already what kept every task from running.
            let told = |fault: &&String| for_people && summary.tasks.iter().any(|t| t.reason.ends_with(*fault));
            for fault in summary.faults.iter().filter(|fault| !told(fault)) {
                complain(&fault.trim_end().replace('\n', "\n  "));
            }
            tell_kept(args, &summary.kept, options.journal.as_ref().map_or("", |journal| journal.run()));
            if let (Some(shard), [], 0) = (args.shard, summary.tasks.as_slice(), summary.exit) {
                eprintln!("shard {shard} has no task: there are fewer tasks than shards");
            }
            if let Some(journal) = options.journal.as_ref().filter(|_| summary.tasks.is_empty()) {
                // Nothing was begun.
                journal.close(false);
            }
            if summary.exit != status::USAGE {
                add_step_summary(&input);
            }
            summary.exit
        }
        Err(message) => {
            complain(&message);
            status::BROKEN
        }
    }
}

/// What the command line of a run said counts for its resumption as well, where that says nothing else.
fn as_started(args: &Args, settings: &Settings) -> Args {
    Args {
        runs: settings.runs,
        parallel: args.parallel.or(settings.parallel.try_into().ok()),
        gate: settings.gate.map(|(passes, of)| Gate { passes, of }),
        isolate: args.isolate || settings.isolate,
        allow_unchecked: args.allow_unchecked || settings.allow_unchecked,
        require_server_use: args.require_server_use || settings.require_server_use,
        exit_zero: args.exit_zero || settings.exit_zero,
        retry_broken: if args.retry_broken > 0 { args.retry_broken } else { settings.retry_broken },
        max_time: args.max_time.or(settings.max_time),
        max_tokens: args.max_tokens.or(settings.max_tokens),
        max_cost: args.max_cost.or(settings.max_cost),
        prices: args.prices.clone().or_else(|| settings.prices.clone()),
        ..args.clone()
    }
}

/// A new run: its journal.
fn begin(
    args: &Args,
    plan: &EvalPlan,
    files: Snapshot,
    options: &RunOptions,
    host: &dyn Host,
) -> std::io::Result<Journal> {
    let literal = plan.tasks.iter().flat_map(wire::literal_secrets);
    let secrets = Secrets::new(options.secrets.iter().cloned().chain(literal));
    let results = report::results_path(&args.output_dir, &plan.name);
    let header = Header {
        version: journal::VERSION,
        run: host.random_id(),
        gevals: env!("CARGO_PKG_VERSION").to_owned(),
        at: host.now(),
        eval: args.eval.clone(),
        name: plan.name.clone(),
        cwd: std::env::current_dir()?,
        results,
        plan_digest: wire::eval_digest(plan),
        settings: Settings {
            runs: options.runs,
            parallel: options.parallel,
            allow_unchecked: options.allow_unchecked,
            exit_zero: options.exit_zero,
            gate: options.gate.map(|gate| (gate.passes, gate.of)),
            isolate: options.isolate,
            require_server_use: options.require_server_use,
            retry_broken: options.retry_broken,
            max_time: args.max_time,
            max_tokens: args.max_tokens,
            max_cost: args.max_cost,
            prices: args.prices.clone(),
            overrides: journalled(args, &secrets),
        },
        files: files.without(&secrets),
    };
    let writer = Writer::own(host.mark(), &format!("a run of `{}`", plan.name));
    Journal::create(&args.output_dir, header, writer)
}

/// What the plan rests on besides files; variables that hold secrets are read again.
fn journalled(args: &Args, secrets: &Secrets) -> journal::Overrides {
    const VARIABLES: [&str; 8] = [
        "MCP_COMMAND",
        "MCP_ARGS",
        "MCP_URL",
        "MCP_HOST",
        "MCP_PORT",
        "MCP_PATH",
        "MCP_SERVER_NAME",
        "MCP_ENABLE_ALL_TOOLS",
    ];
    let variables = VARIABLES.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)));
    journal::Overrides {
        agent: args.agent.first().cloned(),
        model: args.model.first().cloned(),
        mcp_config: args.mcp_config_file.clone(),
        limits: [args.task_timeout, args.cleanup_timeout, args.default_task_timeout, args.default_cleanup_timeout],
        variables: variables.filter(|(_, v)| matches!(secrets.mask(v), std::borrow::Cow::Borrowed(_))).collect(),
    }
}

/// The names of the selected tasks.
fn names(plan: &EvalPlan, selection: &Selection) -> Vec<String> {
    selection.of(plan).into_iter().map(|index| plan.tasks[index].task.name.value.clone()).collect()
}

/// An interrupted run once more, and the tasks whose results are kept.
struct Resumed {
    journal: Journal,
    past: Past,
    done: HashSet<crate::event::TaskRun>,
}

/// Opens a run again: what it owed is paid first.
fn resume(args: &Args, plan: &EvalPlan, run: &str, mark: &str) -> Result<Resumed, (u8, String)> {
    let of_eval = |dir: &PathBuf| Past::read(dir).is_ok_and(|(past, _)| past.header.name == plan.name);
    let runs = journal::runs(&args.output_dir);
    let found = match run {
        "" => runs.into_iter().rev().find(of_eval),
        id => runs.into_iter().find(|dir| name_of(dir) == id),
    };
    let Some(dir) = found else {
        let which = if run.is_empty() { format!("no run of `{}`", plan.name) } else { format!("no run `{run}`") };
        return Err((status::USAGE, format!("{which} has a journal in `{}`", args.output_dir.display())));
    };
    let id = name_of(&dir);
    let refused = |refusal: Refusal| {
        let exit = if matches!(refusal, Refusal::Live(_)) { status::USAGE } else { status::BROKEN };
        (exit, format!("run `{id}` cannot be resumed: {refusal}"))
    };
    let paid = absolutely(&dir, &What { kept: true, only: None }).map_err(refused)?;
    if paid.is_some_and(|exit| exit != status::OK) {
        return Err((status::BROKEN, format!("run `{id}` cannot be resumed: what it owes could not be paid")));
    }
    let (journal, past) = Journal::reopen(&dir).map_err(refused)?;
    if past.header.plan_digest != wire::eval_digest(plan) {
        let changed = past.selected.iter().find(|s| {
            plan.tasks.get(s.index).is_none_or(|t| t.task.name.value != s.name || wire::digest(t) != s.digest)
        });
        let what = changed.map_or_else(|| "the eval".to_owned(), |s| format!("the task `{}`", s.name));
        return Err((
            status::USAGE,
            format!("run `{id}` cannot be resumed: {what} has changed since; run it anew, without `--resume`"),
        ));
    }
    let done: HashSet<_> = past.wanted().map(|(_, task)| task).filter(|task| past.result(task).is_some()).collect();
    let wanted = past.wanted().count();
    if done.len() == wanted && wanted > 0 {
        return Err((status::USAGE, format!("run `{id}` came to its end: there is nothing to resume")));
    }
    journal
        .enter(Writer::own(mark, &format!("a run of `{}`", plan.name)))
        .map_err(|error| (status::BROKEN, error.to_string()))?;
    note(&format!("resuming run `{id}`: {} of {wanted} results are there", done.len()));
    Ok(Resumed { journal, past, done })
}

/// Runs that were killed in the same output directory are made up for, and it is said so.
fn make_up_for_others(args: &Args) {
    for dir in journal::runs(&args.output_dir) {
        // Whoever holds a lock is at work; what cannot be read is `recover`'s to complain about.
        let _ = absolutely(&dir, &What { kept: false, only: None });
    }
}

/// `make_up` changes folders on its way, so its path is made absolute.
fn absolutely(dir: &Path, what: &What) -> Result<Option<u8>, Refusal> {
    make_up(&std::path::absolute(dir)?, what, &mut |line| note(line))
}

/// For people, and not on standard output: that belongs to the report.
fn note(line: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// The worlds of the eval's tasks that are kept, the latest of each.
fn kept_worlds(args: &Args, plan: &EvalPlan) -> HashMap<String, Arc<TaskPast>> {
    let mut worlds = HashMap::new();
    for dir in journal::runs(&args.output_dir).iter().filter(|dir| !journal::is_closed(dir)) {
        let Ok((past, _)) = Past::read(dir) else { continue };
        if past.header.name == plan.name && !past.closed {
            let kept = past.tasks.into_iter().filter(|(_, of)| of.kept);
            worlds.extend(kept.map(|(task, of)| (task.name, Arc::new(of))));
        }
    }
    worlds
}

/// `--phase cleanup`: pays for the kept worlds of the selected tasks.
fn clean_up(args: &Args, plan: &EvalPlan, selection: &Selection) -> u8 {
    let names = names(plan, selection);
    let mut worst = None;
    for dir in journal::runs(&args.output_dir).iter().filter(|dir| !journal::is_closed(dir)) {
        let of_eval = Past::read(dir).is_ok_and(|(past, _)| {
            past.header.name == plan.name && past.tasks.iter().any(|(task, of)| of.kept && names.contains(&task.name))
        });
        if !of_eval {
            continue;
        }
        match absolutely(dir, &What { kept: true, only: Some(names.clone()) }) {
            Ok(exit) => worst = worst.max(exit),
            Err(refusal) => {
                complain(&format!("run `{}`: {refusal}", name_of(dir)));
                worst = worst.max(Some(status::BROKEN));
            }
        }
    }
    worst.unwrap_or_else(|| {
        complain("no world of these tasks is kept");
        status::USAGE
    })
}

/// How to enter what was left standing, and how to leave it.
fn tell_kept(args: &Args, kept: &[KeptWorld], run: &str) {
    let eval = report::quoted(&shown(&args.eval));
    let flags: String = repeated(args).iter().map(|flag| format!(" {}", report::quoted(flag))).collect();
    for world in kept {
        let name = &world.task.name;
        let task = report::quoted(&format!("^{}$", regex::escape(name)));
        let again = format!("gevals run {eval} --run {task}{flags}");
        note(&format!("the world of `{name}` is left standing:"));
        note(&format!("  enter    cd {}", report::quoted(&shown(&world.dir))));
        for (variable, value) in &world.env {
            note(&format!("           export {variable}={}", report::quoted(value)));
        }
        note(&format!("  judge    {again} --phase verify"));
        note(&format!("  clean up {again} --phase cleanup"));
    }
    if !kept.is_empty() {
        let dir = if args.output_dir == Path::new(".") { run.to_owned() } else { shown(&args.output_dir) };
        note(&format!("everything of this run is cleaned up by `gevals recover {}`", report::quoted(&dir)));
    }
}

/// Tells the page of the job in GitHub Actions how it went.
fn add_step_summary(input: &ReportInput) {
    let Some(page) = std::env::var_os("GITHUB_STEP_SUMMARY").filter(|page| !page.is_empty()) else { return };
    let text = Disk.read(&input.results).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let Some(file) = text.and_then(|text| results::read(&text).ok()) else { return };
    let added = std::fs::OpenOptions::new().create(true).append(true).open(&page);
    let added = added.and_then(|mut page| page.write_all(github::step_summary(&file).as_bytes()));
    if let Err(error) = added {
        super::warn(&format!("cannot add to `{}`: {error}", PathBuf::from(page).display()));
    }
}
