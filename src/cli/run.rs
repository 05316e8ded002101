//! `gevals run`: does what the plan says.

use std::{path::PathBuf, sync::Arc, time::Duration};

use regex::Regex;

use super::{Global, compile_paths, complain, print_findings, shown, status, unreadable};
use crate::{
    Compiled,
    diagnostic::{self, Diagnostic, Strength},
    hir::Dialect,
    host::RealHost,
    plan::EvalPlan,
    report::{self, REPORTS, ReportInput},
    run::{RunOptions, interrupts},
    source::Sources,
    ty::duration,
};

const EXAMPLES: &str = "\
Examples:
  gevals run eval.yaml                      run all tasks, one by one
  gevals run eval.yaml --run '^create'      only tasks whose name matches
  gevals run eval.yaml -n 5 -p 4            five runs a task, four parallel tasks at a time
  gevals run eval.yaml --format json        events as JSON lines, for other programs

The results are written to gevals-NAME-out.json as tasks finish.

Exit status: 0 all passed, 1 a task did not, 2 the eval cannot be run, 3 nothing could run,
             4 tasks passed but a cleanup did not, 130 or 143 interrupted (cleanups were run)";

/// Run an eval: start its servers, let the agent do the tasks, verify, clean up.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// An eval file, or a folder that holds one.
    eval: PathBuf,
    /// Only tasks whose name matches this pattern.
    #[arg(short, long, value_name = "REGEX")]
    run: Option<Regex>,
    /// How often each task is run, instead of what it says itself.
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    runs: Option<u32>,
    /// How many tasks run side by side, among those that allow it.
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=512))]
    parallel: u16,
    /// Where results are written.
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    output_dir: PathBuf,
    /// What is printed.
    #[arg(long, default_value = "text", value_parser = clap::builder::PossibleValuesParser::new(REPORTS.iter().map(|r| r.name)))]
    format: String,
    /// How long a server may take to start.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = limit)]
    server_timeout: Duration,
    /// Refuse findings that may fool the author in every dialect, not only the portable one.
    #[arg(long)]
    strict: bool,
    /// Let tasks pass that nothing decides.
    #[arg(long)]
    allow_unchecked: bool,
    /// Exit with 0 where it would be 1 or 4.
    #[arg(long)]
    exit_zero: bool,
}

pub fn main(args: &Args, global: Global) -> u8 {
    let sources = Sources::default();
    let compiled = compile_paths(std::slice::from_ref(&args.eval), &sources);
    if unreadable(&compiled) {
        return status::USAGE;
    }
    let plan = match the_eval(args, &compiled) {
        Ok(plan) => plan,
        Err(message) => {
            if !compiled.diagnostics.is_empty() {
                print_findings(&compiled.diagnostics, &sources, compiled.project.files(), global);
            }
            complain(&message);
            return status::USAGE;
        }
    };
    let refused = refused(args, &compiled);
    if !refused.is_empty() {
        print_findings(&refused, &sources, compiled.project.files(), global);
        complain("the eval is not run: green would mean nothing");
        return status::USAGE;
    }
    let tolerated: Vec<Diagnostic> =
        compiled.diagnostics.iter().filter(|d| d.strength <= Strength::Warning).cloned().collect();
    if !tolerated.is_empty() {
        print_findings(&tolerated, &sources, compiled.project.files(), global);
    }
    let Some(plan) = plan.filter(|p| selects(args, p)) else {
        complain("no task is selected");
        return status::USAGE;
    };
    let findings = diagnostic::report(&tolerated, &sources, compiled.project.files());
    let findings = findings.diagnostics.iter().filter_map(|f| serde_json::to_value(f).ok()).collect();
    execute(args, global, plan, sources, findings)
}

/// A time that something may take.
fn limit(text: &str) -> Result<Duration, String> {
    match duration::parse(text) {
        Ok(Duration::ZERO) => Err("it must be longer than that".to_owned()),
        Ok(limit) => Ok(limit),
        Err(fault) => Err(format!("{fault}; write a duration such as `30s` or `1m30s`")),
    }
}

fn selects(args: &Args, plan: &EvalPlan) -> bool {
    plan.tasks.iter().any(|t| args.run.as_ref().is_none_or(|r| r.is_match(&t.task.name.value)))
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

fn execute(args: &Args, global: Global, plan: EvalPlan, sources: Sources, findings: Vec<serde_json::Value>) -> u8 {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(&format!("cannot start: {error}"));
            return status::BROKEN;
        }
    };
    let options = RunOptions {
        runs: args.runs,
        parallel: usize::from(args.parallel),
        filter: args.run.clone(),
        output_dir: args.output_dir.clone(),
        allow_unchecked: args.allow_unchecked,
        exit_zero: args.exit_zero,
        executable: std::env::current_exe().ok(),
        secrets: crate::run::environment_secrets(),
        server_timeout: args.server_timeout,
    };
    let mut input = ReportInput::new(Arc::new(plan), Arc::new(sources), shown(&args.eval), &options);
    input.colour = global.colour(&std::io::stdout());
    input.findings = findings;
    let Some(format) = REPORTS.iter().find(|r| r.name == args.format) else { return status::USAGE };
    let summary = runtime.block_on(async {
        let interrupts = match interrupts() {
            Ok(interrupts) => interrupts,
            Err(error) => return Err(format!("cannot listen for signals: {error}")),
        };
        let host = Arc::new(RealHost::new());
        Ok(report::run(&input, &options, host, interrupts, format, &mut std::io::stdout()).await)
    });
    runtime.shutdown_timeout(std::time::Duration::from_millis(200));
    match summary {
        Ok(summary) => {
            // The text report has told already what kept every task from running.
            let told = |fault: &&String| args.format == "text" && summary.tasks.iter().any(|t| t.reason == **fault);
            for fault in summary.faults.iter().filter(|fault| !told(fault)) {
                complain(&fault.trim_end().replace('\n', "\n  "));
            }
            summary.exit
        }
        Err(message) => {
            complain(&message);
            status::BROKEN
        }
    }
}
