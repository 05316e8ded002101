//! `gevals result`: shows and compares results files, of gevals and of mcpchecker.

mod inputs;
#[cfg(feature = "run")]
mod parquet;
#[cfg(feature = "run")]
mod push;

use std::{
    ops::Range,
    path::{Path, PathBuf},
};

use clap::{Subcommand, ValueEnum};
use inputs::{Input, Run};

use super::{complain, print, project_files, shown, status, warn};
use crate::{
    host::disk::{Disk, write_atomic},
    results::{
        self, ResultsFile, compare, diff, html, junit, merge,
        recording::{self, Recorded},
        summary, view,
    },
    source::Files,
    statistics,
};

const EXAMPLES: &str = "\
Examples:
  gevals result summary out.json              one line per task, and the totals
  gevals result view out.json --task create   details of tasks with `create` in their names
  gevals result view calls.jsonl              the calls in a recording
  gevals result verify out.json               exit with 1 unless all tasks are present and passed
  gevals result verify out.json --task 0.8    exit with 1 if fewer than 80 % of the tasks passed
  gevals result diff --base old.json --current new.json
  gevals result html out.json -o report.html  an interactive page
  gevals result compare opus/out.json gpt/out.json      which agent or model is better
  gevals result convert junit out.json --output-file junit.xml
  gevals result merge shard-*/out.json -o out.json
  gevals result summary results.zip           from an archive, such as an artifact of a CI job
  gevals result verify s3://evals/nightly     from an object store
  gevals result push out s3://evals/nightly   upload results to an object store

An argument is a results file; a directory or an archive (zip, tar, tar.gz, tar.zst); or a URL
(s3://, gs://, az://, file://) of a file, an archive or a directory. From directories and archives,
the files named like those of `gevals run`, gevals-EVAL-out.json, are read, or if there are none,
results.json; parts of one run are merged. An archive may have 1,000,000 entries, 2 GiB per file and
16 GiB in total, and no links. Object stores need a build with the feature `store`; their
credentials are read from the environment: see docs/reference/config.md.

Files written by mcpchecker can be read as well, in both of their forms.

Exit status: 0 success, 1 the answer is no (a regression, a missed threshold, a missing shard, a
file in a store that `push` would have to replace), 2 usage error, or not a results file,
             3 a store cannot be reached, or the output cannot be written";

/// View, compare, merge and export results files.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    View(View),
    Summary(Summary),
    Verify(Verify),
    Diff(Diff),
    Compare(Compare),
    Html(Html),
    #[command(visible_alias = "export")]
    Convert(Convert),
    Merge(Merge),
    #[cfg(feature = "run")]
    Push(push::Args),
}

/// Show each result in full: why it failed, what was called, what the agent said.
#[derive(clap::Args, Debug)]
struct View {
    /// A results file or a recording; or a directory, an archive or a URL with results.
    file: PathBuf,
    /// Only show tasks whose names contain TEXT, ignoring case.
    #[arg(long, value_name = "TEXT")]
    task: Option<String>,
    /// Show what the agent said and did, in order.
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    timeline: bool,
    /// Maximum number of timeline entries to show; 0 shows all.
    #[arg(long, value_name = "N", default_value_t = 40)]
    max_events: usize,
    /// Maximum number of lines of an output to show.
    #[arg(long, value_name = "N", default_value_t = 6)]
    max_output_lines: usize,
    /// Maximum number of characters of a line to show; the reason why a step did not pass is always shown in full.
    #[arg(long, value_name = "N", default_value_t = 100)]
    max_line_length: usize,
}

/// Print one line per task, and the totals.
#[derive(clap::Args, Debug)]
struct Summary {
    /// A results file; or a directory, an archive or a URL with results.
    file: PathBuf,
    /// Only show tasks whose names contain TEXT, ignoring case.
    #[arg(long, value_name = "TEXT")]
    task: Option<String>,
    /// Output format.
    #[arg(short, long, visible_alias = "format", value_enum, default_value_t = SummaryFormat::Text)]
    output: SummaryFormat,
    /// Print KEY=VALUE lines, for `$GITHUB_OUTPUT`.
    #[arg(long)]
    github_output: bool,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum SummaryFormat {
    Text,
    Json,
}

const VERIFY: &str = "\
Examples:
  gevals result verify gevals-e-out.json                all tasks must have passed
  gevals result verify gevals-e-out.json --task 0.9 --assertion 0.9

The file must be complete: it must contain a result for every run of every selected task. Without a
threshold, all tasks must have passed; tasks with a gate as often as the gate demands. For
thresholds, every run counts as a task, and every kind of assertion of a result counts as an
assertion. A threshold of assertions is always met if there are no assertions.";

/// Exit with 1 unless the results are complete and all tasks, or as many as the thresholds demand, passed.
#[derive(clap::Args, Debug)]
#[command(after_help = VERIFY)]
struct Verify {
    /// A results file; or a directory, an archive or a URL with results.
    file: PathBuf,
    /// The minimum share of tasks that must have passed, from 0 to 1.
    #[arg(long, value_name = "SHARE", value_parser = share)]
    task: Option<f64>,
    /// The minimum share of assertions that must have passed, from 0 to 1.
    #[arg(long, value_name = "SHARE", value_parser = share)]
    assertion: Option<f64>,
}

const DIFF: &str = "\
Examples:
  gevals result diff --base main.json --current mine.json
  gevals result diff main.json mine.json -o markdown >> $GITHUB_STEP_SUMMARY

  gevals result diff main.json mine.json --fail-on any-loss

If fewer runs of a task passed, an exact test (Fisher's, with Holm's correction over the tasks)
decides whether that is a regression or may be chance; all tasks together are tested in pairs of
runs (McNemar's). By default, the exit status is 1 if a test finds a regression; if every task ran
once, if a task that passed no longer passes. It is always 1 if a task is gone, which counts as not
passed, and if the current results are incomplete.";

/// Compare two results files: show what got worse or better, and what is new or gone.
#[derive(clap::Args, Debug)]
#[command(after_help = DIFF)]
struct Diff {
    /// The two files: base, then current.
    #[arg(num_args = 2, value_names = ["BASE", "CURRENT"], conflicts_with_all = ["base", "current"], required_unless_present_all = ["base", "current"])]
    files: Vec<PathBuf>,
    /// The results to compare with.
    #[arg(long, value_name = "FILE", requires = "current")]
    base: Option<PathBuf>,
    /// The current results.
    #[arg(long, value_name = "FILE", requires = "base")]
    current: Option<PathBuf>,
    /// Output format.
    #[arg(short, long, visible_alias = "format", value_enum, default_value_t = DiffFormat::Text)]
    output: DiffFormat,
    /// Exit with 1 if a test finds a `regression`, or for `any-loss`: a task that passed in fewer of its runs.
    #[arg(long, value_name = "WHAT", value_enum)]
    fail_on: Option<FailOn>,
    /// The significance level of the tests: the probability of reporting a difference that is only chance.
    #[arg(long, value_name = "SHARE", default_value_t = statistics::ALPHA, value_parser = share)]
    alpha: f64,
    /// Exit with 0 instead of 1.
    #[arg(long)]
    exit_zero: bool,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum FailOn {
    Regression,
    AnyLoss,
}

/// Compare agents or models on the same tasks.
#[derive(clap::Args, Debug)]
struct Compare {
    /// The results of each agent or model; a directory, an archive or a URL may contain those of several.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The significance level of the tests: the probability of reporting a difference that is only chance.
    #[arg(long, value_name = "SHARE", default_value_t = statistics::ALPHA, value_parser = share)]
    alpha: f64,
}

const HTML: &str = "\
Examples:
  gevals result html gevals-e-out.json -o report.html
  gevals result html old.json new.json -o report.html        what got better and worse
  gevals result html --side-by-side opus.json gpt.json -o report.html   agents or models

The page is a single file that needs nothing else, not even a network. Two files are compared as by
`gevals result diff`; three or more, or two with --side-by-side, as by `gevals result compare`. The
page includes the source lines around failures if they can still be read. In GitHub Actions, source
locations link to the repository; elsewhere, `--source-url` makes them links.";

/// Write an interactive page: why each task failed, and what happened.
#[derive(clap::Args, Debug)]
#[command(after_help = HTML)]
struct Html {
    /// Results files; of two, the older one first.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Write to this file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// URL prefix that makes the paths of sources links, such as https://github.com/acme/evals/blob/main/
    #[arg(long, value_name = "URL", value_parser = source_url)]
    source_url: Option<String>,
    /// Treat two files as agents or models on the same tasks, not as before and after; three or more always are.
    #[arg(long)]
    side_by_side: bool,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum DiffFormat {
    Text,
    Markdown,
}

/// Export results in another format.
#[derive(clap::Args, Debug)]
struct Convert {
    #[command(subcommand)]
    to: Target,
}

#[derive(Subcommand, Debug)]
enum Target {
    Junit(Junit),
    #[cfg(feature = "run")]
    Parquet(parquet::Args),
}

/// JUnit XML, one test case per result: what failed is a failure, what could not be carried out is an error.
#[derive(clap::Args, Debug)]
struct Junit {
    /// A results file; or a directory, an archive or a URL with results.
    file: PathBuf,
    /// Only export tasks whose names contain TEXT, ignoring case.
    #[arg(long, value_name = "TEXT")]
    task: Option<String>,
    /// Write to this file instead of standard output.
    #[arg(long, value_name = "FILE")]
    output_file: Option<PathBuf>,
}

const MERGE: &str = "\
Examples:
  gevals run eval.yaml --shard 1/2 -o shard-1       on one machine
  gevals run eval.yaml --shard 2/2 -o shard-2       on another
  gevals result merge shard-1/*.json shard-2/*.json -o gevals-e-out.json
  gevals result merge --pack suite.gevals out -o gevals-e-out.json    the units of a pack

With --pack, the results of its units are merged, separately for each agent and model: if there are
several, the output is a directory with a subdirectory for each, as `gevals run` writes them. A
directory, an archive or a URL stands for all results files in it. Units without a result,
duplicate results, and results that do not belong to the pack are reported.

A shard or a result that is missing or duplicated is reported, and the exit status is 1; the
available results are still written.";

/// Merge the results of shards, as if they had been one run.
#[derive(clap::Args, Debug)]
#[command(after_help = MERGE)]
struct Merge {
    /// The results of the shards; a directory, an archive or a URL stands for all results files in it.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The pack to which the results belong.
    #[cfg(feature = "run")]
    #[arg(long, value_name = "SUITE")]
    pack: Option<PathBuf>,
    /// Write to this file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Exit with 0 even if results are missing.
    #[arg(long)]
    allow_missing: bool,
}

/// An exit status and its message.
type Fault = (u8, String);

pub fn main(args: &Args) -> u8 {
    let done = match &args.command {
        Command::View(args) => show(args),
        Command::Summary(args) => summarise(args),
        Command::Verify(args) => verify(args),
        Command::Diff(args) => differ(args),
        Command::Compare(args) => compare(args),
        Command::Html(args) => to_html(args),
        Command::Convert(Convert { to: Target::Junit(args) }) => to_junit(args),
        #[cfg(feature = "run")]
        Command::Convert(Convert { to: Target::Parquet(args) }) => parquet::main(args),
        Command::Merge(args) => put_together(args),
        #[cfg(feature = "run")]
        Command::Push(args) => push::main(args),
    };
    done.unwrap_or_else(|(code, message)| {
        complain(&message);
        code
    })
}

/// Parses a proportion from 0 to 1.
pub fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("write a number from 0 to 1, such as `0.8` for 80 %".to_owned()),
    }
}

/// Reads the results of the only run in an argument.
fn read(path: &Path) -> Result<ResultsFile, Fault> {
    let runs = inputs::runs(path, read_file)?;
    match <[Run; 1]>::try_from(runs) {
        Ok([run]) => Ok(told(run).1),
        Err(runs) => {
            let names: Vec<_> = runs.iter().map(|run| format!("`{}`", run.shown)).collect();
            let (count, names) = (names.len(), names.join(", "));
            Err((
                status::USAGE,
                format!("`{}` contains the results of {count} runs, specify one of them: {names}", shown(path)),
            ))
        }
    }
}

/// Reads the results of all runs in the arguments.
fn read_all(paths: &[PathBuf]) -> Result<Vec<(String, ResultsFile)>, Fault> {
    let mut all = Vec::new();
    for path in paths {
        all.extend(inputs::runs(path, read_file)?.into_iter().map(told));
    }
    Ok(all)
}

/// Prints what a run lacks.
fn told(run: Run) -> (String, ResultsFile) {
    for fault in &run.faults {
        warn(fault);
    }
    (run.shown, run.file)
}

/// Describes merged results in one line.
fn summary_of(results: usize, files: usize, path: &Path, faults: &[String]) -> String {
    let with = match faults.len() {
        0 => String::new(),
        1 => ", with 1 fault".to_owned(),
        many => format!(", with {many} faults"),
    };
    format!("{results} results of {files} files in {}{with}\n", path.display())
}

/// The maximum number of faults of merged results that are listed.
const MOST_FAULTS: usize = 10;

/// Prints faults of merged results, which can be as many as there are units.
fn complain_of(faults: &[String]) {
    faults.iter().take(MOST_FAULTS).for_each(|fault| complain(fault));
    let more = faults.len().saturating_sub(MOST_FAULTS);
    if more > 0 {
        complain(&format!("… and {more} more like these"));
    }
}

fn read_file(input: &Input) -> Result<ResultsFile, Fault> {
    Ok(read_with_places(input)?.0)
}

/// Reads a results file, and where its results are in it.
fn read_with_places(input: &Input) -> Result<(ResultsFile, Vec<Range<usize>>), Fault> {
    let fault = |why: String| (status::USAGE, format!("cannot read the results in `{}`: {why}", input.shown));
    let bytes = Disk.read(&input.path).map_err(|e| fault(e.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| fault("it is not text".to_owned()))?;
    if recording::is_recording(&text) {
        let why = "it is a recording, which has no verdicts: use `gevals result view` to show it";
        return Err(fault(why.to_owned()));
    }
    results::read_with_places(&text).map_err(fault)
}

/// The results of a file, or the runs of a recording.
fn read_either(path: &Path) -> Result<(ResultsFile, Vec<Recorded>), Fault> {
    let inputs = inputs::of(&[path.to_owned()])?;
    let [input] = inputs.files.as_slice() else { return Ok((read(path)?, Vec::new())) };
    let text = Disk.read(&input.path).ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
    if !recording::is_recording(&text) {
        return Ok((read_file(input)?, Vec::new()));
    }
    let fault = |why: String| (status::USAGE, format!("cannot read the recording `{}`: {why}", input.shown));
    let runs = recording::runs(&text).map_err(fault)?;
    Ok((ResultsFile { results: runs.iter().map(Recorded::result).collect(), ..ResultsFile::default() }, runs))
}

/// The results that pass a filter. It is an error if there are none, because nothing would be shown.
fn some<'a>(file: &'a ResultsFile, path: &Path, task: Option<&str>) -> Result<Vec<&'a results::RunResult>, Fault> {
    let found = file.only(task);
    match (found.is_empty(), task) {
        (false, _) => Ok(found),
        (true, Some(task)) => Err((status::USAGE, format!("no task in `{}` has `{task}` in its name", path.display()))),
        (true, None) => Err((status::USAGE, format!("there are no results in `{}`", path.display()))),
    }
}

/// Writes the output for these files, but does not overwrite one of them.
fn write(path: &Path, text: &str, of: &[PathBuf]) -> Result<(), Fault> {
    spare(path, of.iter().map(PathBuf::as_path))?;
    write_atomic(path, text.as_bytes()).map_err(|e| (status::BROKEN, format!("cannot write `{}`: {e}", path.display())))
}

/// Refuses to overwrite an input.
fn spare<'a>(path: &Path, mut read: impl Iterator<Item = &'a Path>) -> Result<(), Fault> {
    let Ok(path) = path.canonicalize() else { return Ok(()) };
    match read.any(|file| file.canonicalize().is_ok_and(|file| file == path)) {
        true => Err((status::USAGE, format!("`{}` would be overwritten: choose another file", path.display()))),
        false => Ok(()),
    }
}

fn show(args: &View) -> Result<u8, Fault> {
    let (file, recorded) = read_either(&args.file)?;
    let limits = view::Limits {
        timeline: args.timeline,
        events: args.max_events,
        lines: args.max_output_lines,
        width: args.max_line_length,
    };
    let mut out = Vec::new();
    for result in some(&file, &args.file, args.task.as_deref())? {
        let (run, _) = result.run();
        let asked = recorded.iter().find(|other| other.task == result.name() && u64::from(other.run) + 1 == run);
        let asked = asked.map(|other| other.prompt.clone()).filter(|prompt| !prompt.is_empty());
        out.push(view::view(result, asked.or_else(|| prompt(result.path())).as_deref(), limits));
    }
    print(&out.join("\n"));
    Ok(status::OK)
}

/// The prompt of a task, if its file still exists.
fn prompt(task: &str) -> Option<String> {
    // A results file may name any path: files outside of this project are not shown.
    let files = project_files(&[]);
    let text = |path: &Path| String::from_utf8(files.read(path).ok()?).ok();
    let path = Path::new(task);
    let beside = |file: &str| text(&path.parent()?.join(file));
    view::prompt(&text(path)?, &beside)
}

fn summarise(args: &Summary) -> Result<u8, Fault> {
    let file = read(&args.file)?;
    let (path, task) = (shown(&args.file), args.task.as_deref());
    if task.is_some() {
        some(&file, &args.file, task)?;
    }
    print(&match args.output {
        _ if args.github_output => summary::github(&file, &path, task),
        SummaryFormat::Text => summary::text(&file, task),
        SummaryFormat::Json => format!("{:#}\n", summary::json(&file, &path, task)),
    });
    Ok(status::OK)
}

fn verify(args: &Verify) -> Result<u8, Fault> {
    let file = read(&args.file)?;
    let (met, text) = summary::verify(&file, args.task, args.assertion);
    print(&text);
    Ok(if met { status::OK } else { status::NO })
}

fn differ(args: &Diff) -> Result<u8, Fault> {
    let (base, current) = match (args.files.as_slice(), &args.base, &args.current) {
        ([base, current], ..) => (base, current),
        (_, Some(base), Some(current)) => (base, current),
        _ => return Err((status::USAGE, "specify two files: `--base FILE --current FILE`".to_owned())),
    };
    let (base, current) = (read(base)?, read(current)?);
    let diff = diff::diff(&base, &current, args.alpha);
    let on = args.fail_on.map(|on| match on {
        FailOn::Regression => diff::FailOn::Regression,
        FailOn::AnyLoss => diff::FailOn::AnyLoss,
    });
    print(&match args.output {
        DiffFormat::Text => diff.text(),
        DiffFormat::Markdown => diff.markdown(),
    });
    Ok(if diff.fails(on) && !args.exit_zero { status::NO } else { status::OK })
}

fn compare(args: &Compare) -> Result<u8, Fault> {
    let files = read_all(&args.files)?;
    if files.len() < 2 {
        return Err((status::USAGE, "there is only one run: also specify the results of another one".to_owned()));
    }
    let files: Vec<_> = files.iter().map(|(path, file)| (path.clone(), file)).collect();
    print(&compare::text(&files, args.alpha));
    Ok(status::OK)
}

/// A link must lead to a page or a file, and do nothing else.
fn source_url(text: &str) -> Result<String, String> {
    match ["https://", "http://", "file://"].iter().any(|scheme| text.starts_with(scheme)) {
        true => Ok(text.to_owned()),
        false => Err("write a URL that starts with `https://`, `http://` or `file://`".to_owned()),
    }
}

/// The URL of the sources of the current job in GitHub Actions.
fn repository() -> Option<String> {
    let var = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let url = format!("{}/{}/blob/{}/", var("GITHUB_SERVER_URL")?, var("GITHUB_REPOSITORY")?, var("GITHUB_SHA")?);
    source_url(&url).ok()
}

/// A page of these results, for `gevals result html` and `gevals run --report html`. Sources are those of the project
/// that contains `of`, or else of the current one.
pub fn page(
    files: &[(String, &ResultsFile)],
    order: html::Order,
    source_url: Option<String>,
    of: &[PathBuf],
) -> String {
    // A results file may name any path: files outside of this project are not shown.
    let sources = project_files(of);
    let source = |path: &str| String::from_utf8(sources.read(Path::new(path)).ok()?).ok();
    let link = source_url.or_else(repository);
    html::page(files, &html::Look { order, link: link.as_deref(), source: &source })
}

fn to_html(args: &Html) -> Result<u8, Fault> {
    let files = read_all(&args.files)?;
    let named: Vec<_> = files.iter().map(|(path, file)| (path.clone(), file)).collect();
    let order = if args.side_by_side { html::Order::Beside } else { html::Order::Time };
    let text = page(&named, order, args.source_url.clone(), &[]);
    match &args.output {
        Some(path) => {
            write(path, &text, &args.files)?;
            print(&format!("{}\n", path.display()));
        }
        None => print(&text),
    }
    // The program ends here: to free many results takes longer than to show them.
    std::mem::forget((named, text));
    std::mem::forget(files);
    Ok(status::OK)
}

fn to_junit(args: &Junit) -> Result<u8, Fault> {
    let file = read(&args.file)?;
    let xml = junit::junit(&file, &some(&file, &args.file, args.task.as_deref())?);
    match &args.output_file {
        Some(path) => write(path, &xml, std::slice::from_ref(&args.file))?,
        None => print(&xml),
    }
    Ok(status::OK)
}

/// Merges the results of a pack's units.
#[cfg(feature = "run")]
fn put_units_together(args: &Merge, pack: &Path, files: &[Input]) -> Result<u8, Fault> {
    use super::packed;
    let (manifest, _) = packed::read(pack)?;
    let several = manifest.combinations.len() > 1;
    if several && args.output.is_none() {
        let why = "the pack has several agents or models: specify a directory for their results with `--output DIR`";
        return Err((status::USAGE, why.to_owned()));
    }
    let to = |nth: usize| match &args.output {
        Some(path) if several => Some(packed::results_of(&manifest, nth, path)),
        path => path.clone(),
    };
    let (count, faults) = inputs_together(&manifest, files, &to)?;
    if let Some(path) = &args.output {
        print(&summary_of(count, files.len(), path, &faults));
    }
    complain_of(&faults);
    Ok(if faults.is_empty() || args.allow_missing { status::OK } else { status::NO })
}

/// Merges the results of a pack's units from files on this machine.
///
/// # Errors
/// A file is not a results file, the files are not of one run, or the results cannot be written.
#[cfg(feature = "temporal")]
pub fn units_together(
    manifest: &crate::pack::Manifest,
    files: &[PathBuf],
    to: &dyn Fn(usize) -> Option<PathBuf>,
) -> Result<(usize, Vec<String>), Fault> {
    let files: Vec<Input> = files.iter().map(|path| Input::here(path)).collect();
    inputs_together(manifest, &files, to)
}

/// Merges the results in these files, and writes those of each combination to `to`. Each file is read once for an
/// index, and once more, as far as a result is taken from it, when that is written. Returns the number of results, and
/// what is wrong with them.
#[cfg(feature = "run")]
fn inputs_together(
    manifest: &crate::pack::Manifest,
    files: &[Input],
    to: &dyn Fn(usize) -> Option<PathBuf>,
) -> Result<(usize, Vec<String>), Fault> {
    let expected = super::packed::expected(manifest);
    let mut units = merge::Units::new(&expected);
    // This limits how many files are in memory.
    for some in files.chunks(16) {
        for (input, read) in some.iter().zip(crate::parallel::map(some, 2, read_with_places)) {
            let (file, places) = read?;
            units.add(&input.shown, &file, &places).map_err(|why| (status::USAGE, why))?;
        }
    }
    let (runs, mut faults) = units.done();
    let mut count = 0;
    for (nth, run) in runs.into_iter().enumerate() {
        count += run.results.len();
        // A combination without results has nothing to write.
        if !run.results.is_empty() {
            let path = to(nth);
            if let Some(folder) = path.as_deref().and_then(Path::parent).filter(|_| expected.len() > 1) {
                std::fs::create_dir_all(folder)
                    .map_err(|e| (status::BROKEN, format!("cannot write `{}`: {e}", folder.display())))?;
            }
            write_run(&run, files, path.as_deref())?;
        }
        faults.extend(run.faults);
    }
    Ok((count, faults))
}

/// Writes a run whose results are in these files.
#[cfg(feature = "run")]
fn write_run(run: &merge::Together, files: &[Input], path: Option<&Path>) -> Result<(), Fault> {
    use std::io::{self, Read, Seek, SeekFrom};
    let taken = |at: &merge::At| -> io::Result<serde_json::Value> {
        let mut file = std::fs::File::open(&files[at.file].path)?;
        file.seek(SeekFrom::Start(at.bytes.start as u64))?;
        let mut bytes = vec![0; at.bytes.len()];
        file.read_exact(&mut bytes)?;
        Ok(serde_json::from_slice(&bytes)?)
    };
    let taken = |at: &merge::At| {
        let named = |e| io::Error::other(format!("`{}` has changed since it was read: {e}", files[at.file].shown));
        taken(at).map_err(named)
    };
    let write = |out: &mut dyn io::Write| results::write_file(&run.summary, &run.results, taken, &run.findings, out);
    let Some(path) = path else {
        let mut text = Vec::new();
        write(&mut text).map_err(|e| (status::BROKEN, e.to_string()))?;
        print(&String::from_utf8_lossy(&text));
        return Ok(());
    };
    spare(path, files.iter().map(|file| file.path.as_path()))?;
    crate::host::disk::replace(path, None, write)
        .map_err(|e| (status::BROKEN, format!("cannot write `{}`: {e}", path.display())))
}

fn put_together(args: &Merge) -> Result<u8, Fault> {
    let inputs = inputs::of(&args.files)?;
    #[cfg(feature = "run")]
    if let Some(pack) = &args.pack {
        return put_units_together(args, pack, &inputs.files);
    }
    let one = |input: &Input| Ok((input.shown.clone(), read_file(input)?));
    let files = inputs.files.iter().map(one).collect::<Result<Vec<_>, Fault>>()?;
    let merged = merge::merge(&files).map_err(|why| (status::USAGE, why))?;
    let text = results::text(&merged.file);
    match &args.output {
        Some(path) => {
            write(path, &text, &inputs.files.iter().map(|input| input.path.clone()).collect::<Vec<_>>())?;
            let count = merged.file["results"].as_array().map_or(0, Vec::len);
            print(&summary_of(count, files.len(), path, &merged.faults));
        }
        None => print(&text),
    }
    complain_of(&merged.faults);
    Ok(if merged.faults.is_empty() || args.allow_missing { status::OK } else { status::NO })
}
