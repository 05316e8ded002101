//! `gevals run`: executes the plan.

mod args;
mod engine;
mod journals;
mod matrix;
pub mod pack;
pub mod prove;
mod ready;
pub mod unit;
mod worlds;

use std::{
    io::{IsTerminal, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

pub use self::args::Args;
use self::{
    args::{Phase, again, as_started, options},
    journals::{Resumed, begin, recover_others, resume},
    ready::{Ready, prepare, print_tolerated},
    worlds::{clean_up, kept_worlds, names, tell_kept},
};
use super::{Global, combination, complain, log, packages, packed, preflight, shown, status};
use crate::{
    event::Used,
    host::{
        Gathered, RealHost, descriptors,
        disk::{Disk, write_atomic},
    },
    journal,
    plan::wire,
    report::{self, Detail, REPORTS, ReportInput},
    results::{self, github, html},
    run::{Only, interrupts},
    source::Files,
};

pub fn main(args: &Args, global: Global) -> u8 {
    if let Err(why) = args::gate(args) {
        complain(&why);
        return status::USAGE;
    }
    if args.end_with_stdin {
        end_with_stdin();
    }
    if args.engine.engine.is_some() {
        return engine::main(args, global);
    }
    if packed::is_pack(&args.eval) {
        return unit::packed(args, |args| each(args, global));
    }
    each(args, global)
}

/// Sends SIGTERM to this process when its standard input ends.
fn end_with_stdin() {
    std::thread::spawn(|| {
        // No input is expected.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TERM);
    });
}

fn each(args: &Args, global: Global) -> u8 {
    let each = combination::combinations(&args.agent, &args.model);
    match each.as_slice() {
        [_] => one(args, global),
        several => matrix::run(args, several, global),
    }
}

fn one(args: &Args, global: Global) -> u8 {
    match prepare(args, global) {
        Ok(ready) if args.replay.is_some() && !ready.plan.tasks.iter().any(|task| task.recording().is_some()) => {
            complain("`--replay` requires the agent `builtin.replay`, but this eval has another one");
            status::USAGE
        }
        Ok(ready) => go(args, global, ready, Used::default(), Duration::ZERO).0,
        Err(exit) => exit,
    }
}

/// Runs the eval, or only does what `--preflight` or `--phase cleanup` asks for. `used` is what other runs have used of
/// a shared budget, and `time` how long they took. Returns the exit status and the new total of what was used.
fn go(args: &Args, global: Global, ready: Ready, used: Used, time: Duration) -> (u8, Used) {
    print_tolerated(args, &ready.tolerated, &ready.sources, ready.read, global);
    if args.preflight {
        let selected = ready.selection.of(&ready.plan);
        let options = args::options(args, ready.selection, None);
        return (preflight::main(&ready.plan, &selected, &options), used);
    }
    if args.phase == Some(Phase::Cleanup) {
        return (clean_up(args, &ready.plan, &ready.selection), used);
    }
    let mut used = used;
    let exit = execute(args, global, ready, &mut used, time);
    (exit, used)
}

fn execute(args: &Args, global: Global, ready: Ready, used: &mut Used, time: Duration) -> u8 {
    let Ready { plan, selection, sources, findings, files, mut prices, group, .. } = ready;
    let results = report::results_path(&args.output_dir, &plan.name);
    // Held until this process ends.
    let _claim = match journal::claim(&args.output_dir, &results) {
        Ok(claim) => claim,
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
            complain(&format!(
                "another run is writing to `{}`: wait for it to end, or use another directory with `--output-dir`",
                results.display()
            ));
            return status::BROKEN;
        }
        Err(error) => {
            complain(&format!("cannot write `{}`: {error}", results.display()));
            return status::BROKEN;
        }
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(&format!("cannot start: {error}"));
            return status::BROKEN;
        }
    };
    // From here on, no signal is lost: a signal that stops a recovery also stops the run.
    let mut interrupts = match runtime.block_on(async { interrupts() }) {
        Ok(interrupts) => interrupts,
        Err(error) => {
            complain(&format!("cannot listen for signals: {error}"));
            return status::BROKEN;
        }
    };
    if let Some(exit) = recover_others(args) {
        return exit;
    }
    // Held until this function ends.
    let group = group.unwrap_or_else(|| Arc::new(Gathered::enter()));
    let host = Arc::new(RealHost::within(&group));
    let resumed = match args.resume.as_ref().map(|run| resume(args, &plan, run, host.as_ref())).transpose() {
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
        prices = match ready::prices(path, &past.header.files.over(&Disk), global) {
            Ok(prices) => Some(prices),
            Err(()) => return status::USAGE,
        };
    }
    let ensured = runtime.block_on(async {
        tokio::select! {
            ensured = packages::ensure(&plan, &host) => Ok(ensured),
            Some(signal) = interrupts.recv() => Err(signal),
        }
    });
    match ensured {
        Ok(Ok(())) => {}
        Ok(Err(faults)) => {
            faults.iter().for_each(|fault| complain(fault));
            return status::BROKEN;
        }
        Err(signal) => return signal.exit(),
    }
    let mut options = options(args, selection, prices);
    options.secrets.extend(wire::eval_secrets(&plan));
    (options.used, options.used_time) = (*used, time);
    if options.only == Some(Only::Verify) {
        options.worlds = kept_worlds(args, &plan);
        let names = names(&plan, &options.selection);
        if let Some(name) = names.iter().find(|name| !options.worlds.contains_key(*name)) {
            complain(&format!("no environment of `{name}` is kept: `--phase setup` or `--keep always` keeps one"));
            return status::USAGE;
        }
    }
    let mut earlier = None;
    if let Some(Resumed { journal, past, done }) = resumed {
        earlier = Some((journal.dir().to_owned(), done));
        (options.journal, options.past) = (Some(Arc::new(journal)), Some(Arc::new(past)));
    // A shard without tasks needs no journal.
    } else if !options.selection.of(&plan).is_empty() {
        options.journal = match begin(args, &plan, files, &options, host.as_ref()) {
            Ok(journal) => {
                journal::prune(&args.output_dir, args.keep_runs as usize);
                Some(Arc::new(journal))
            }
            Err(error) => {
                complain(&format!("cannot write a journal: {error}"));
                return status::BROKEN;
            }
        };
    }
    if let Some((fewer, limit)) = descriptors::too_few(options.parallel, plan.servers.len(), options.isolate) {
        let tasks =
            if fewer == 1 { "tasks run one at a time".to_owned() } else { format!("{fewer} tasks run in parallel") };
        super::warn(&format!(
            "`-p {}` needs more open files than the limit of {limit}: {tasks}; `ulimit -Hn` raises the limit",
            options.parallel
        ));
        options.parallel = fewer;
    }
    let in_actions = std::env::var_os("GITHUB_ACTIONS").is_some_and(|v| v == "true");
    let format = args.format.as_deref().unwrap_or(if in_actions { "github" } else { "text" });
    let for_people = format != "json";
    let mut input = ReportInput::new(Arc::new(plan), sources, shown(&args.eval), &options);
    input.colour = global.colour(&std::io::stdout());
    if let Some(journal) = options.journal.clone() {
        host.on_start(move |pid| journal.group(pid));
    }
    input.findings = findings;
    input.earlier = earlier;
    if let (Some(_), Some(journal)) = (options.only, &options.journal) {
        // Results of a single phase must not be where results of a whole run are expected.
        input.results = journal::results(journal.dir());
    }
    #[cfg(feature = "otlp")]
    input.otlp.clone_from(&args.otlp);
    (input.eval, input.flags) = again(args, &input.plan);
    let phase = args.phase.and_then(|phase| clap::ValueEnum::to_possible_value(&phase));
    input.flags.extend(phase.into_iter().flat_map(|phase| ["--phase".to_owned(), phase.get_name().to_owned()]));
    input.detail = match (args.quiet, args.verbose) {
        (true, _) => Detail::Quiet,
        (_, true) => Detail::Verbose,
        _ => Detail::Normal,
    };
    let dumb = super::is_dumb();
    input.live = for_people && !args.quiet && !dumb && std::io::stderr().is_terminal();
    let Some(format) = REPORTS.iter().find(|r| r.name == format) else { return status::USAGE };
    let mut out = log::Report { own: format.name == "github" };
    let summary = runtime.block_on(report::run(&input, &options, host, interrupts, format, &mut out));
    runtime.shutdown_timeout(std::time::Duration::from_millis(200));
    *used = summary.used.unwrap_or(*used);
    // The report has already shown faults that are the reason of a task.
    let reported = |fault: &&String| for_people && summary.tasks.iter().any(|t| t.reason.ends_with(*fault));
    for fault in summary.faults.iter().filter(|fault| !reported(fault)) {
        complain(&fault.trim_end().replace('\n', "\n  "));
    }
    summary.cuts.iter().for_each(|cut| super::warn(cut));
    tell_kept(args, &input.plan, &summary.kept, options.journal.as_ref().map_or("", |journal| journal.run()));
    if let (Some(shard), [], 0) = (args.shard, summary.tasks.as_slice(), summary.exit) {
        super::note(&format!("shard {shard} has no task: there are fewer tasks than shards"));
    }
    if let Some(journal) = options.journal.as_ref().filter(|_| summary.tasks.is_empty()) {
        // Nothing was started.
        journal.close(false);
    }
    if let Some(journal) = options.journal.as_ref().filter(|journal| journal.has_pending() && summary.kept.is_empty()) {
        let run = crate::bash::quote(&shown(journal.dir()));
        let forget = super::recover::forgets(journal.dir());
        super::note(&format!(
            "cleanups are still pending: `gevals recover {run}` runs them again, and so does the next run; if nothing is left to \
             clean up, run `{forget}`"
        ));
    }
    if summary.written {
        add_step_summary(&input);
        if let (Some(args::ReportArg::Html), None) = (args.report, args.phase) {
            let text = Disk.read(&input.results).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            if let Some(file) = text.and_then(|text| results::read(&text).ok()) {
                write_page(&input.results.with_extension("html"), &[(shown(&input.results), &file)], &args.eval);
            }
        }
    }
    summary.exit
}

/// Writes an HTML page of these results. Several files are those of several agents and models.
fn write_page(path: &Path, files: &[(String, &results::ResultsFile)], eval: &Path) {
    let page = super::result::page(files, html::Order::Beside, None, &[eval.to_owned()]);
    match write_atomic(path, page.as_bytes()) {
        Ok(()) => super::note(&format!("report: {}", shown(path.strip_prefix(".").unwrap_or(path)))),
        Err(error) => super::warn(&format!("cannot write `{}`: {error}", path.display())),
    }
}

/// Adds a summary to the page of the job in GitHub Actions.
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
