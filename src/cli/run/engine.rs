//! `gevals run SUITE.gevals --engine temporal`: starts the workflow of a pack, shows its progress, and writes the
//! results at the end.
//!
//! All output is a fold of the workflow's history, so a client that is restarted after a crash shows everything again.

#[cfg(feature = "temporal")]
mod client;
pub mod options;

use super::args::Args as RunArgs;
#[cfg(not(feature = "temporal"))]
use crate::cli::worker;
use crate::cli::{Global, complain, status};

#[cfg(not(feature = "temporal"))]
pub fn main(_: &RunArgs, _: Global) -> u8 {
    complain(worker::NOT_HERE);
    status::USAGE
}

#[cfg(feature = "temporal")]
pub fn main(args: &RunArgs, global: Global) -> u8 {
    if let Some(option) = foreign(args) {
        complain(&format!(
            "`{option}` cannot be used with an engine, because the pack determines what is run and how; pass it to `gevals pack` if supported there"
        ));
        return status::USAGE;
    }
    match client::run(args, global) {
        Ok(exit) => exit,
        Err((exit, why)) => {
            complain(&why);
            exit
        }
    }
}

/// Returns an option that has no meaning with an engine.
#[cfg(feature = "temporal")]
fn foreign(args: &RunArgs) -> Option<&'static str> {
    let given = [
        ("--run", args.run.is_some()),
        ("--label-selector", !args.label_selector.is_empty()),
        ("--tag", !args.tag.is_empty()),
        ("--shard", args.shard.is_some()),
        ("--shuffle", args.shuffle),
        ("--runs", args.runs.is_some()),
        ("--fail-fast", args.fail_fast),
        ("--agent", !args.agent.is_empty()),
        ("--model", !args.model.is_empty()),
        ("--mcp-config-file", args.mcp_config_file.is_some()),
        ("--task-timeout", args.task_timeout.is_some()),
        ("--default-task-timeout", args.default_task_timeout.is_some()),
        ("--cleanup-timeout", args.cleanup_timeout.is_some()),
        ("--default-cleanup-timeout", args.default_cleanup_timeout.is_some()),
        ("--max-tokens", args.max_tokens.is_some()),
        ("--gate", args.gate.is_some()),
        ("--until-decided", args.until_decided),
        ("--retry-broken", args.retry_broken > 0),
        ("--prices", args.prices.is_some()),
        ("--isolate", args.isolate),
        ("--isolation", args.isolation.is_some()),
        ("--keep", args.keep.is_some()),
        ("--keep-going", args.keep_going),
        ("--phase", args.phase.is_some()),
        ("--resume", args.resume.is_some()),
        ("--preflight", args.preflight),
        ("--require-server-use", args.require_server_use),
        ("--replay", args.replay.is_some()),
        ("--strict", args.strict),
        ("--allow-unchecked", args.allow_unchecked),
        ("--format", args.format.is_some()),
        ("--report", args.report.is_some()),
        ("--max-results", args.max_results != 256),
        ("--keep-runs", args.keep_runs != 50),
        #[cfg(feature = "otlp")]
        ("--otlp", args.otlp.is_some()),
    ];
    given.into_iter().find(|(_, is_given)| *is_given).map(|(option, _)| option)
}
