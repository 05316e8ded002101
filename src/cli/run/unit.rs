//! Commands for packs: `gevals run SUITE.gevals` runs all of a pack, `gevals exec-unit` one unit or several, and
//! `gevals units` lists them.
//!
//! A pack is unpacked below the output directory and run there like any project. The directory is kept while a cleanup
//! is pending, because that runs in it.

use std::{
    cell::RefCell,
    collections::HashMap,
    fs,
    io::{self, ErrorKind, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use clap::{Parser, builder::PossibleValuesParser};
use serde_json::{Value, json};

use super::{
    args::{Args as RunArgs, Said},
    go,
    journals::absolutely,
    ready::{Ready, prepare},
};
#[cfg(feature = "otlp")]
use crate::report::otlp::Destination;
use crate::{
    builtin::count,
    cli::{
        Global, ROOT, complain,
        packed::read,
        print,
        recover::{What, forgets},
        shown, status,
    },
    diagnostic::{nearest, visible},
    event::Used,
    host::{Gathered, disk::Disk},
    journal,
    pack::{self, Contents, Manifest, Settings, Unit},
    plan::wire,
    project::AgentChoice,
    report::REPORTS,
    results::{self, ResultsFile},
    run::{Chosen, Enough, Shard, attended},
    source::Files,
    ty::duration,
};

/// Relative to the output directory.
const FOLDER: &str = ".gevals/pack";
/// If the time is limited, no further unit is started once the journal has this many bytes: the results of a batch must
/// fit in one message.
const ENOUGH: u64 = 512 << 10;
/// The agent that takes a path.
pub const REPLAY: &str = "builtin.replay";

type Fault = (u8, String);

const EXEC: &str = "\
Examples:
  gevals units suite.gevals                                   list the units
  gevals exec-unit suite.gevals --unit make-pod-1-3f9a2c1b07 --out out/make-pod-1-3f9a2c1b07
  gevals exec-unit suite.gevals --unit a-1-3f9a2c1b07 --unit a-2-77c01d9e45 --out out/a     two
  gevals result merge --pack suite.gevals out -o all.json     merge their results into one run

A unit is one run of one task with one agent and one model. The results are written to its
directory, and the journal and the recording below .gevals/runs there. Give each unit its own
directory. If an earlier attempt was killed, the same command with the same directory first cleans
up after it and then runs the unit again; if that cleanup fails, the unit is not run. A signal
(TERM, INT) stops the agent and runs the cleanup.

Several units share the directory to which the pack is unpacked, like the tasks of an eval; each has
its own servers. They must have the same agent and model.

Exit status: 0 it passed, 1 it did not, 2 there is no such unit, or the pack cannot be run,
             3 nothing could run, or the cleanup after an earlier attempt failed,
             4 it passed, but a cleanup did not, 129, 130 or 143 interrupted (cleanups were run)";

/// Run one or several units of a pack. A unit is one run of one task.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXEC)]
pub struct Args {
    /// A pack, as written by `gevals pack`.
    pack: PathBuf,
    /// The id of the unit, as listed by `gevals units`. Several run one after another, with one directory, journal and results file.
    #[arg(long, value_name = "ID", required = true)]
    unit: Vec<String>,
    /// With several units, start none after this time; missing ones are not in the results, and the exit status is not 0.
    #[arg(long, value_name = "DURATION", value_parser = within)]
    begin_within: Option<Duration>,
    /// The directory for the results and the journal; created if it does not exist.
    #[arg(short, long, value_name = "DIR")]
    out: PathBuf,
    /// Exit with 0 instead of 1 or 4, so that a verdict does not make the job fail.
    #[arg(long)]
    exit_zero: bool,
    /// A file with the prices of models.
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// Output format [default: text; github in GitHub Actions].
    #[arg(long, value_parser = PossibleValuesParser::new(REPORTS.iter().map(|r| r.name)))]
    format: Option<String>,
}

const LIST: &str = "\
Examples:
  gevals units suite.gevals                    one line per unit
  gevals units suite.gevals --json             everything known about them
  gevals units suite.gevals --json --history old.json      with the expected time and cost
  gevals units suite.gevals --ids --shard 1/4  the ids of the first quarter

The expected time and cost of a unit are the mean of the results of its task in the files given by
--history; results with the same plan are preferred. Without results they are unknown.

Exit status: 0 success, 2 not a pack, or a results file cannot be read";

/// List the units of a pack.
#[derive(clap::Args, Debug)]
#[command(after_help = LIST)]
pub struct ListArgs {
    /// A pack, as written by `gevals pack`.
    pack: PathBuf,
    /// Print JSON, with labels, limits and needs.
    #[arg(long)]
    json: bool,
    /// Only print the ids, one per line.
    #[arg(long, conflicts_with_all = ["json", "history"])]
    ids: bool,
    /// Only list one part: `1/4` is the first of four parts of nearly equal size.
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
    /// Results of earlier runs, to estimate the time and cost of tasks.
    #[arg(long, value_name = "FILE")]
    history: Vec<PathBuf>,
}

impl Args {
    /// The options that a command to run units again must repeat.
    fn repeated(&self) -> Vec<String> {
        let prices = self.prices.iter().flat_map(|path| ["--prices".to_owned(), shown(path)]);
        ["--out".to_owned(), shown(&self.out)].into_iter().chain(prices).collect()
    }
}

fn within(text: &str) -> Result<Duration, String> {
    duration::parse(text).map_err(|fault| format!("{fault}; write a duration such as `2s`"))
}

pub fn main(args: &Args, global: Global) -> u8 {
    if attended::is_serving() {
        return told(serve(args, global));
    }
    told(Known::read(args).and_then(|known| known.exec(args, global, None)))
}

/// Returns the exit status, and prints the reason if there is one.
fn told(done: Result<u8, Fault>) -> u8 {
    done.unwrap_or_else(|(exit, why)| {
        if !why.is_empty() {
            complain(&why);
        }
        exit
    })
}

/// Executes orders, one after another. The unit on the command line only determines the agent and model for which the
/// eval is compiled in advance, in the given directory, which is removed afterwards.
fn serve(args: &Args, global: Global) -> Result<u8, Fault> {
    let known = Known::read(args)?;
    let of = known.chosen(args)?.first().map_or(0, |unit| unit.at.0);
    let place = Place::new(&args.out)?;
    let ready = place.unpack(&known.files).and_then(|()| known.ready(of, args, global, &place));
    place.leave();
    let _ = fs::remove_dir_all(&place.out);
    ready?;
    let mut last = status::OK;
    loop {
        // Each order has its own control group. It is created while this process waits for the order, because that
        // takes the system some time.
        let group = Arc::new(Gathered::enter());
        let Some(order) = attended::next() else { return Ok(last) };
        let begin_within = Some(Duration::try_from_secs_f64(order.seconds).unwrap_or_default());
        let args = Args { unit: order.units, out: order.out, begin_within, ..args.clone() };
        last = told(known.exec(&args, global, Some(group.clone())));
        if attended::answer(&attended::Answer::Ended(last)).is_none() {
            return Ok(last);
        }
    }
}

/// A pack that was read, and the eval as compiled for one of its combinations of agent and model.
struct Known {
    manifest: Manifest,
    files: Contents,
    ready: RefCell<Option<(usize, Ready)>>,
}

impl Known {
    fn read(args: &Args) -> Result<Self, Fault> {
        no_root()?;
        let (manifest, files) = read(&args.pack)?;
        Ok(Self { manifest, files, ready: RefCell::default() })
    }

    /// The units on the command line, which must have the same agent and model.
    fn chosen(&self, args: &Args) -> Result<Vec<Unit<'_>>, Fault> {
        let units = self.manifest.units();
        let by_id: HashMap<&str, &Unit<'_>> = units.iter().map(|unit| (unit.id.as_str(), unit)).collect();
        let chosen = args.unit.iter().map(|id| {
            by_id.get(id.as_str()).map(|unit| (*unit).clone()).ok_or_else(|| {
                let near = nearest(id, units.iter().map(|unit| unit.id.as_str()));
                let hint = near.map_or_else(
                    || format!("`gevals units {}` lists them", crate::bash::quote(&shown(&args.pack))),
                    |near| format!("did you mean `{near}`?"),
                );
                (status::USAGE, format!("the pack has no unit `{}`: {hint}", visible(id)))
            })
        });
        let chosen = chosen.collect::<Result<Vec<_>, Fault>>()?;
        let of = chosen.first().map_or(0, |unit| unit.at.0);
        if let Some(other) = chosen.iter().find(|unit| unit.at.0 != of) {
            let why =
                format!("unit `{}` has another agent or model than `{}`: run it by itself", other.id, chosen[0].id);
            return Err((status::USAGE, why));
        }
        let is_twice = |(nth, id): &(usize, &String)| args.unit[..*nth].contains(id);
        if let Some((_, twice)) = args.unit.iter().enumerate().find(is_twice) {
            return Err((status::USAGE, format!("unit `{twice}` is specified twice")));
        }
        Ok(chosen)
    }

    /// The command line for a combination in this directory, and the eval as compiled for it, which is the same in
    /// every directory.
    fn ready(&self, of: usize, args: &Args, global: Global, place: &Place) -> Result<(RunArgs, Ready), Fault> {
        let combination = &self.manifest.combinations[of];
        let words = run_args(
            Path::new(&self.manifest.eval),
            &self.manifest.settings,
            combination.agent.as_deref(),
            combination.model.as_deref(),
            &place.out,
        );
        let words = words.map_err(|why| (status::USAGE, why))?;
        // The path is relative to the initial working directory.
        let prices = args.prices.as_ref().map(|prices| place.here.join(prices));
        // State that a server keeps from one unit must not affect another.
        let isolate = args.unit.len() > 1;
        let words = RunArgs { exit_zero: args.exit_zero, format: args.format.clone(), prices, isolate, ..words };
        if let Some((_, ready)) = self.ready.borrow().as_ref().filter(|(known, _)| *known == of) {
            return Ok((words, ready.clone()));
        }
        let ready = prepare(&words, global).map_err(|exit| (exit, String::new()))?;
        same_plan(&self.manifest, &combination.plan_digest, &wire::eval_digest(&ready.plan))?;
        if attended::is_serving() {
            self.ready.replace(Some((of, ready.clone())));
        }
        Ok((words, ready))
    }

    fn exec(&self, args: &Args, global: Global, group: Option<Arc<Gathered>>) -> Result<u8, Fault> {
        let chosen = self.chosen(args)?;
        let of = chosen.first().map_or(0, |unit| unit.at.0);
        let place = Place::new(&args.out)?;
        // A verdict in an environment that was not cleaned up would be meaningless.
        if let Some((exit, run)) = place.recover()? {
            let exit = if exit >= 128 { exit } else { status::BROKEN };
            let why = format!(
                "an earlier attempt left pending cleanups that did not pass now, so the unit is not run; if nothing is left to \
                 clean up, run `{}`",
                forgets(&run)
            );
            return Err((exit, why));
        }
        place.unpack(&self.files)?;
        let run = || {
            let (mut words, mut ready) = self.ready(of, args, global, &place)?;
            words.said = Some(Said::Units { pack: shown(&args.pack), flags: args.repeated() });
            let unit = |unit: &Unit<'_>| {
                let is_it =
                    |task: &crate::plan::Plan| task.task.name.value == unit.task && shown(&task.task.path) == unit.path;
                let index = ready.plan.tasks.iter().position(is_it);
                let index =
                    index.ok_or_else(|| (status::USAGE, format!("the eval has no task `{}`", visible(unit.task))))?;
                Ok(Chosen { id: unit.id.clone(), pack: self.manifest.digest.clone(), index, run: unit.run - 1 })
            };
            ready.selection.units = chosen.iter().map(unit).collect::<Result<_, Fault>>()?;
            ready.group = group;
            ready.selection.enough = args.begin_within.map(|time| Enough { time, bytes: ENOUGH });
            Ok(go(&words, global, ready, Used::default(), Duration::ZERO).0)
        };
        let done = run();
        place.leave();
        done
    }
}

/// Refuses `--root`, because a pack has its own root.
fn no_root() -> Result<(), Fault> {
    match ROOT.get() {
        Some(_) => Err((status::USAGE, "`--root` cannot be used with a pack, which has its own root".to_owned())),
        None => Ok(()),
    }
}

/// Verifies that the plan made here is the one that was packed.
fn same_plan(manifest: &Manifest, packed: &str, here: &str) -> Result<(), Fault> {
    if packed == here {
        return Ok(());
    }
    let own = env!("CARGO_PKG_VERSION");
    let why = match manifest.gevals == own {
        true => "an `MCP_*` environment variable changes it".to_owned(),
        false => format!("it was packed by gevals {}, and this is gevals {own}", visible(&manifest.gevals)),
    };
    Err((status::USAGE, format!("the plan differs from the one that was packed: {why}")))
}

/// Runs a whole pack with `run`. The command line takes precedence over the settings of the pack.
pub fn packed(args: &RunArgs, run: impl FnOnce(&RunArgs) -> u8) -> u8 {
    let prepared = || {
        no_root()?;
        let (manifest, files) = read(&args.eval)?;
        let args = of_pack(args, &manifest).map_err(|error| (status::BROKEN, error.to_string()))?;
        let place = Place::new(&args.output_dir)?;
        // Cleanups that are still pending are reported, and the next run tries them again.
        if let Some((exit @ 128.., _)) = place.recover()? {
            return Err((exit, String::new()));
        }
        place.unpack(&files)?;
        Ok((args, place))
    };
    match prepared() {
        Ok((args, place)) => {
            let exit = run(&RunArgs { output_dir: place.out.clone(), ..args });
            place.leave();
            exit
        }
        Err((exit, why)) => {
            if !why.is_empty() {
                complain(&why);
            }
            exit
        }
    }
}

/// The command line, completed by the settings of the pack. Its paths are resolved against the current directory.
fn of_pack(args: &RunArgs, manifest: &Manifest) -> io::Result<RunArgs> {
    let whole = |path: &PathBuf| std::path::absolute(path);
    let said = Some(Said::Run(Box::new(args.clone())));
    let mut own = RunArgs { eval: PathBuf::from(&manifest.eval), said, ..args.clone() };
    if args.agent.is_empty() && args.model.is_empty() {
        let unique = |words: Vec<Option<&String>>| {
            let words: indexmap::IndexSet<String> = words.into_iter().flatten().cloned().collect();
            words.into_iter().collect::<Vec<_>>()
        };
        own.agent = unique(manifest.combinations.iter().map(|one| one.agent.as_ref()).collect());
        own.model = unique(manifest.combinations.iter().map(|one| one.model.as_ref()).collect());
    } else {
        for agent in &mut own.agent {
            match AgentChoice::parse(agent) {
                AgentChoice::File(path) => *agent = shown(&whole(&path)?),
                AgentChoice::Builtin { kind, rest: Some(rest) } if kind == REPLAY => {
                    *agent = format!("{kind}:{}", shown(&whole(&PathBuf::from(rest))?));
                }
                AgentChoice::Builtin { .. } => {}
            }
        }
    }
    own.mcp_config_file = match &args.mcp_config_file {
        Some(path) => Some(whole(path)?),
        None => manifest.settings.mcp_config.as_ref().map(PathBuf::from),
    };
    own.prices = args.prices.as_ref().map(whole).transpose()?;
    if args.gate.is_none() && args.resume.is_none() {
        own.runs = args.runs.or(manifest.settings.runs);
    }
    own.strict |= manifest.settings.strict;
    own.allow_unchecked |= manifest.settings.allow_unchecked;
    #[cfg(feature = "otlp")]
    if let Some(Destination::File(path)) = &args.otlp {
        own.otlp = Some(Destination::File(whole(path)?));
    }
    Ok(own)
}

/// The options of `gevals run`, by themselves.
#[derive(Parser)]
#[command(name = "run", no_binary_name = true)]
struct Words {
    #[command(flatten)]
    args: RunArgs,
}

/// The command line of a run with these settings.
///
/// # Errors
/// The defaults cannot be parsed.
pub fn run_args(
    eval: &Path,
    settings: &Settings,
    agent: Option<&str>,
    model: Option<&str>,
    out: &Path,
) -> Result<RunArgs, String> {
    // Only defaults are parsed, so that no word of a pack is interpreted as an option.
    let words = Words::try_parse_from(["eval"]).map_err(|error| error.to_string())?;
    Ok(RunArgs {
        eval: eval.to_owned(),
        agent: agent.into_iter().map(str::to_owned).collect(),
        model: model.into_iter().map(str::to_owned).collect(),
        runs: settings.runs,
        mcp_config_file: settings.mcp_config.as_ref().map(PathBuf::from),
        strict: settings.strict,
        allow_unchecked: settings.allow_unchecked,
        output_dir: out.to_owned(),
        ..words.args
    })
}

/// Writes the files of a pack to `folder`, which is replaced if it exists.
///
/// # Errors
/// The files cannot be written.
pub fn put_files(files: &Contents, folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => fs::create_dir_all(folder)?,
    }
    let mut last = PathBuf::new();
    for (path, (bytes, executable)) in files {
        let target = folder.join(path);
        let dir = target.parent().unwrap_or(folder);
        if dir != last {
            fs::create_dir_all(dir)?;
            dir.clone_into(&mut last);
        }
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, if *executable { 0o755 } else { 0o644 });
        options.open(&target)?.write_all(bytes)?;
    }
    Ok(())
}

/// The directory in which a pack is unpacked and run.
struct Place {
    /// The output directory.
    out: PathBuf,
    /// The initial working directory.
    here: PathBuf,
    /// Prevents others from using the directory.
    _claim: journal::Claim,
}

impl Place {
    fn new(out: &Path) -> Result<Self, Fault> {
        let fault = |error: io::Error| (status::BROKEN, format!("cannot write `{}`: {error}", shown(out)));
        let whole = std::path::absolute(out).map_err(fault)?;
        fs::create_dir_all(&whole).map_err(fault)?;
        let claim = journal::claim(&whole, Path::new("pack")).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => (
                status::BROKEN,
                format!(
                    "a pack is already being run in `{}`: give each run and each unit its own directory",
                    shown(out)
                ),
            ),
            _ => fault(error),
        })?;
        Ok(Self { out: whole, here: std::env::current_dir().map_err(fault)?, _claim: claim })
    }

    fn folder(&self) -> PathBuf {
        self.out.join(FOLDER)
    }

    /// The directories of runs in it, including those of several agents and models, that are not closed.
    fn open(&self) -> Vec<PathBuf> {
        let below = Disk.entries(&self.out);
        let folders = below.iter().filter(|(name, is_dir)| *is_dir && !name.starts_with('.'));
        let folders = folders.map(|(name, _)| self.out.join(name)).filter(|dir| dir.join(".gevals").is_dir());
        let all = std::iter::once(self.out.clone()).chain(folders).flat_map(|dir| journal::runs(&dir));
        all.filter(|run| !journal::is_closed(run)).collect()
    }

    /// Cleans up after runs that were killed here. If something is still pending, returns the worst exit status and its
    /// run.
    fn recover(&self) -> Result<Option<(u8, PathBuf)>, Fault> {
        let mut worst = None;
        for run in self.open() {
            let exit = match absolutely(&run, &What { kept: false, only: None }) {
                Ok(None) => continue,
                Ok(Some(exit)) => exit,
                Err(refusal) => {
                    complain(&format!("run `{}` cannot be recovered: {refusal}", shown(&run)));
                    status::BROKEN
                }
            };
            if exit != status::OK && worst.as_ref().is_none_or(|(worst, _)| *worst < exit) {
                worst = Some((exit, run));
            }
        }
        Ok(worst)
    }

    /// Writes the files to their directory, and makes it the working directory.
    fn unpack(&self, files: &Contents) -> Result<(), Fault> {
        let folder = self.folder();
        let put = || -> io::Result<()> {
            put_files(files, &folder)?;
            std::env::set_current_dir(&folder)
        };
        put().map_err(|error| (status::BROKEN, format!("cannot unpack to `{}`: {error}", shown(&folder))))?;
        // It is already set if this process serves orders: the first directory is the one in which the eval is
        // compiled.
        let _ = ROOT.set(folder);
        Ok(())
    }

    /// Restores the working directory, and removes the files unless something pending needs them.
    fn leave(&self) {
        let back = std::env::set_current_dir(&self.here);
        if back.is_ok() && self.open().is_empty() {
            let _ = fs::remove_dir_all(self.folder());
        }
    }
}

pub fn list(args: &ListArgs) -> u8 {
    match listed(args) {
        Ok(text) => {
            print(&text);
            status::OK
        }
        Err((exit, why)) => {
            complain(&why);
            exit
        }
    }
}

fn listed(args: &ListArgs) -> Result<String, Fault> {
    let (manifest, _) = read(&args.pack)?;
    let mut units = manifest.units();
    if let Some(Shard { index, of }) = args.shard {
        let mut nth = 0;
        units.retain(|_| {
            nth += 1;
            (nth - 1) % of == index - 1
        });
    }
    if args.ids {
        return Ok(units.iter().map(|unit| format!("{}\n", unit.id)).collect());
    }
    let known = History::read(&args.history)?;
    if args.json {
        let unit = |unit: &Unit<'_>| {
            let mut out = json!(unit);
            let (seconds, cost) = known.of(unit, &manifest.combinations[unit.at.0].plan_digest);
            out["expectedSeconds"] = json!(seconds);
            out["expectedCost"] = json!(cost);
            out
        };
        let document = json!({
            "version": pack::VERSION,
            "pack": manifest.digest,
            "eval": manifest.name,
            "needs": manifest.needs,
            "units": units.iter().map(unit).collect::<Vec<_>>(),
        });
        return Ok(format!("{document:#}\n"));
    }
    let rows: Vec<_> = units.iter().map(|unit| row(unit, &known, &manifest)).collect();
    let width = rows.iter().map(|(id, _)| id.len()).max().unwrap_or_default();
    let mut text: String = rows.iter().map(|(id, rest)| format!("{id:width$}  {rest}\n")).collect();
    text.push_str(&format!(
        "{} of `{}`, {}\n",
        count(units.len(), "unit", "units"),
        visible(&manifest.name),
        manifest.digest
    ));
    Ok(text)
}

fn row(unit: &Unit<'_>, known: &History, manifest: &Manifest) -> (String, String) {
    let mut rest = visible(unit.task).into_owned();
    if unit.runs > 1 {
        rest.push_str(&format!(" (run {}/{})", unit.run, unit.runs));
    }
    for word in [unit.agent, unit.model].into_iter().flatten() {
        rest.push_str(&format!("  {}", visible(word)));
    }
    let (seconds, cost) = known.of(unit, &manifest.combinations[unit.at.0].plan_digest);
    let seconds = seconds.map(|seconds| format!("  {seconds:.1} s"));
    let cost = cost.map(|cost| format!("  {}", crate::prices::money(cost)));
    rest.extend(seconds.into_iter().chain(cost));
    (unit.id.clone(), rest)
}

/// How long tasks took, and what they cost.
struct History {
    /// By the digest of the plan, the name and the path of the task; also with an empty digest.
    seen: HashMap<(String, String, String), Vec<(f64, Option<f64>)>>,
}

impl History {
    fn read(paths: &[PathBuf]) -> Result<Self, Fault> {
        let mut seen: HashMap<_, Vec<_>> = HashMap::new();
        for path in paths {
            let fault = |why: String| (status::USAGE, format!("cannot read the results in `{}`: {why}", shown(path)));
            let bytes = Disk.read(path).map_err(|why| fault(why.to_string()))?;
            let text = String::from_utf8(bytes).map_err(|_| fault("it is not text".to_owned()))?;
            let file: ResultsFile = results::read(&text).map_err(fault)?;
            let plan = file.summary.get("planDigest").and_then(Value::as_str).unwrap_or_default();
            for result in file.results.iter().filter(|result| result.outcome() != Some("cancelled")) {
                let Some(seconds) = result.0.get("durationSeconds").and_then(Value::as_f64) else { continue };
                let cost = result.0.get("tokenEstimate").and_then(|tokens| tokens.get("cost")?.as_f64());
                let key = |plan: &str| (plan.to_owned(), result.name().to_owned(), result.path().to_owned());
                seen.entry(key(plan)).or_default().push((seconds, cost));
                if !plan.is_empty() {
                    seen.entry(key("")).or_default().push((seconds, cost));
                }
            }
        }
        Ok(Self { seen })
    }

    fn of(&self, unit: &Unit<'_>, plan: &str) -> (Option<f64>, Option<f64>) {
        let key = |plan: &str| (plan.to_owned(), unit.task.to_owned(), unit.path.to_owned());
        let Some(seen) = self.seen.get(&key(plan)).or_else(|| self.seen.get(&key(""))) else { return (None, None) };
        let mean = |values: Vec<f64>| {
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            (!values.is_empty()).then(|| (mean * 1e4).round() / 1e4)
        };
        (
            mean(seen.iter().map(|(seconds, _)| *seconds).collect()),
            mean(seen.iter().filter_map(|(_, cost)| *cost).collect()),
        )
    }
}
