//! The journal of a run: a new one, or the reopened one of an interrupted run.

use std::{
    borrow::Cow,
    collections::HashSet,
    path::{Path, PathBuf},
};

use indexmap::IndexMap;

use super::args::Args;
use crate::{
    cli::{
        recover::{What, forgets, name_of, recover},
        status,
    },
    event::TaskRun,
    host::Host,
    journal::{self, Header, Journal, Past, Refusal, Settings, Snapshot, Writer},
    plan::{EvalPlan, reach, wire},
    report,
    run::{RunOptions, specs},
    secrets::{Secrets, is_secret_name},
};

/// Creates the journal of a new run.
pub fn begin(
    args: &Args,
    plan: &EvalPlan,
    files: Snapshot,
    options: &RunOptions,
    host: &dyn Host,
) -> std::io::Result<Journal> {
    let literal = plan.tasks.iter().flat_map(wire::literal_secrets);
    let secrets = Secrets::new(options.secrets.iter().cloned().chain(literal));
    let run = host.random_id();
    // Results of a single phase must not be where results of a whole run are expected.
    let results = match options.only {
        Some(_) => journal::results(&journal::folder(&args.output_dir, &run)),
        None => report::results_path(&args.output_dir, &plan.name),
    };
    let header = Header {
        version: journal::VERSION,
        run,
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
            trials: options.trials.is_some(),
            gate: options.gate.map(|gate| (gate.passes, gate.of)),
            rate: options.rate.map(|rate| (rate.at_least, rate.confidence)),
            until_decided: options.until_decided.is_some(),
            isolate: options.isolate,
            isolation: options.isolation,
            require_server_use: options.require_server_use,
            strict_replay: options.strict_replay,
            retry_broken: options.retry_broken,
            keep_going: options.keep_going,
            max_time: args.max_time,
            max_tokens: args.max_tokens,
            max_cost: args.max_cost,
            prices: args.prices.clone(),
            servers: servers_read(plan, host, &secrets),
            overrides: journalled(args, &secrets),
        },
        files: files.without(&secrets),
    };
    let writer = Writer::own(host, &format!("a run of `{}`", plan.name));
    Journal::create(&args.output_dir, header, writer)
}

/// The environment variables that the configurations of servers read, without secrets: a later gevals starts the same
/// servers.
fn servers_read(plan: &EvalPlan, host: &dyn Host, secrets: &Secrets) -> IndexMap<String, String> {
    let executable = std::env::current_exe().ok();
    let own = specs(&plan.servers, &plan.dir, host, executable.as_ref()).map(|(_, secrets)| secrets);
    let own = Secrets::new(own.unwrap_or_default());
    let open = |value: &String| [secrets, &own].iter().all(|all| matches!(all.mask(value), Cow::Borrowed(_)));
    let names = reach::of_eval(plan).env.into_iter().filter(|name| !is_secret_name(name));
    names.filter_map(|name| host.env(&name).filter(open).map(|value| (name, value))).collect()
}

/// What the plan depends on besides files. Variables that hold secrets are left out, and read again later.
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
        variables: variables.filter(|(_, v)| matches!(secrets.mask(v), Cow::Borrowed(_))).collect(),
    }
}

/// A reopened run, and the tasks whose results are kept.
pub struct Resumed {
    pub journal: Journal,
    pub past: Past,
    pub done: HashSet<TaskRun>,
}

/// Reopens a run. Its pending cleanups are run first.
pub fn resume(args: &Args, plan: &EvalPlan, run: &str, host: &dyn Host) -> Result<Resumed, (u8, String)> {
    let of_eval = |dir: &PathBuf| {
        Past::read(dir).is_ok_and(|(past, _)| past.header.name == plan.name && !past.header.settings.trials)
    };
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
    let exit = absolutely(&dir, &What { kept: true, only: None }).map_err(refused)?;
    if let Some(exit) = exit.filter(|exit| *exit != status::OK) {
        let why = format!(
            "run `{id}` cannot be resumed: its pending cleanups did not pass; if nothing is left to clean up, run `{}`",
            forgets(&dir)
        );
        return Err((if exit >= 128 { exit } else { status::BROKEN }, why));
    }
    let (journal, past) = Journal::reopen(&dir).map_err(refused)?;
    if past.header.settings.trials {
        return Err((status::USAGE, format!("run `{id}` belongs to `gevals prove`: there is nothing to resume")));
    }
    if past.header.plan_digest != wire::eval_digest(plan) {
        let changed = past.selected.iter().find(|s| {
            plan.tasks.get(s.index).is_none_or(|t| t.task.name.value != s.name || wire::digest(t) != s.digest)
        });
        let what = changed.map_or_else(|| "the eval".to_owned(), |s| format!("the task `{}`", s.name));
        return Err((
            status::USAGE,
            format!("run `{id}` cannot be resumed: {what} has changed since; start a new run, without `--resume`"),
        ));
    }
    let done: HashSet<_> = past.wanted().map(|(_, task)| task).filter(|task| past.result(task).is_some()).collect();
    let wanted = past.wanted().count();
    if done.len() == wanted && wanted > 0 {
        return Err((status::USAGE, format!("run `{id}` was completed: there is nothing to resume")));
    }
    journal
        .enter(Writer::own(host, &format!("a run of `{}`", plan.name)))
        .map_err(|error| (status::BROKEN, error.to_string()))?;
    note(&format!("resuming run `{id}`: {} of {wanted} results are available", done.len()));
    Ok(Resumed { journal, past, done })
}

/// Recovers runs that were killed in the same output directory, and reports it. Returns the exit status if a signal
/// interrupted that.
pub fn recover_others(args: &Args) -> Option<u8> {
    for dir in journal::runs(&args.output_dir) {
        // A run that holds its lock is active. Unreadable journals are reported by `gevals recover`.
        let exit = absolutely(&dir, &What { kept: false, only: None });
        if let Ok(Some(exit @ 128..)) = exit {
            return Some(exit);
        }
    }
    None
}

/// Recovers a run. `recover` changes the working directory, so the path is made absolute.
pub fn absolutely(dir: &Path, what: &What) -> Result<Option<u8>, Refusal> {
    recover(&std::path::absolute(dir)?, what, &mut |line| note(line))
}

/// Prints a line for people, not to standard output, which is for the report.
pub fn note(line: &str) {
    crate::cli::note(line);
}
