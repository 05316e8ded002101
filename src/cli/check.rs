//! `gevals check`: prints every finding with its location, and does nothing else.

mod index;
mod kept;
mod scope;

use std::{
    collections::BTreeMap,
    io::IsTerminal as _,
    path::{Path, PathBuf},
};

use index::{Index, Miss};
pub use kept::folder as kept_in;
use kept::{Answer, Kept};
use rustc_hash::FxHashSet;
use scope::{Looked, look};

use super::{
    Global,
    again::Again,
    complain,
    log::{self, Stream},
    overlay::{Edited, Overlay},
    print, status, unreadable, warn,
};
use crate::{
    Compiled, Memory, Options, Plans,
    affected::Changed,
    builtin::count,
    compile_changed, compile_with,
    diagnostic::{self, Diagnostic, Mended, Texts, WRITERS},
    host::disk::{Disk, write_atomic},
    lint,
    plan::wire::server_secrets,
    policy::Level,
    project::Project,
    secrets::{Secrets, veil},
    source::{Files, Sources, normalize},
};

const EXAMPLES: &str = "\
Examples:
  gevals check                        check everything below this directory
  gevals check eval.yaml              check an eval and everything it refers to
  gevals check tasks/pod/verify.sh    check what refers to a script, prompt or config
  gevals check --changed-since main   check what differs from a revision and what refers to it
  gevals check --watch                check again whenever a file changes
  gevals check --fix tasks/           apply the safe fixes (same as `gevals fix tasks/`)
  gevals check --unsafe-fixes tasks/  also apply the fixes that may change what a file means
  gevals check --fix --dry-run        show what would be fixed
  gevals check --format github        write annotations for a pull request
  gevals check -D unused-requirement  treat a warning as an error
  gevals check --write-baseline known.json && gevals check --baseline known.json

The printed output is kept in the user's cache (`gevals config checks` shows where) and printed
again until a file that affects it changes. After an edit, only the affected tasks are compiled.

A comment `# gevals: allow(RULE)` silences a rule on its line and the next one (including the block
scalar that starts there); gevals.toml sets levels for all files.

Exit status: 0 no errors, 1 errors were found, 2 a given path cannot be read, or there was nothing
to check";

/// Check tasks, evals and the files they refer to, without running anything.
///
/// This only reads files: it starts no program and uses no network, and the same files produce the same findings everywhere.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Files and directories to check [default: the current directory].
    ///
    /// For a script, a prompt or a config, every task and eval of the repository that refers to it is checked.
    paths: Vec<PathBuf>,
    /// Treat the paths as changed files: check what they affect, and ignore files that affect no task.
    ///
    /// Use this in hooks. A task includes the evals that select it; evals are searched for up to the root of the repository.
    #[arg(long, requires = "paths", conflicts_with_all = ["changed_since", "stdin", "workspace"])]
    affected: bool,
    /// Check what has changed since a revision of the git repository, and everything that refers to it.
    #[arg(long, value_name = "REV", conflicts_with_all = ["stdin", "workspace"])]
    changed_since: Option<String>,
    /// Check again whenever a file changes, until interrupted.
    #[arg(long, conflicts_with_all = ["fix", "unsafe_fixes", "stdin", "write_baseline", "list_rules"])]
    watch: bool,
    /// Output format of findings.
    #[arg(long, default_value = "pretty", value_parser = clap::builder::PossibleValuesParser::new(WRITERS.iter().map(|w| w.name)))]
    format: String,
    /// Apply the safe fixes of findings, then check again.
    ///
    /// A fix that adds an error or does not resolve its finding is rolled back.
    #[arg(long)]
    fix: bool,
    /// Also apply unsafe fixes, which may change what a file means.
    #[arg(long)]
    unsafe_fixes: bool,
    /// With --fix or --unsafe-fixes: print the changes without writing them.
    #[arg(long)]
    dry_run: bool,
    /// Exit with 0, whatever is found.
    #[arg(long)]
    exit_zero: bool,
    /// Treat the findings of a rule as errors.
    #[arg(short = 'D', long, value_name = "RULE")]
    deny: Vec<String>,
    /// Treat the findings of a rule as warnings.
    #[arg(short = 'W', long, value_name = "RULE")]
    warn: Vec<String>,
    /// Turn a rule off.
    #[arg(short = 'A', long, value_name = "RULE")]
    allow: Vec<String>,
    /// Treat the paths as a whole suite: report tasks that no eval selects.
    #[arg(long)]
    workspace: bool,
    /// Read one file from standard input, in place of --stdin-filename.
    #[arg(long, requires = "stdin_filename")]
    stdin: bool,
    /// The path of the file that is read from standard input.
    #[arg(long, value_name = "PATH")]
    stdin_filename: Option<PathBuf>,
    /// Print the number of places per rule instead of the findings.
    #[arg(long)]
    statistics: bool,
    /// List all rules.
    #[arg(long)]
    list_rules: bool,
    /// Maximum number of findings to show; machine-readable formats show all.
    #[arg(long, value_name = "N", default_value_t = 50)]
    max_findings: usize,
    /// Show only findings that are not in this baseline; the known ones are counted.
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Write the current findings to a baseline.
    #[arg(long, value_name = "FILE", conflicts_with = "baseline")]
    write_baseline: Option<PathBuf>,
    /// List the files that are not gevals files and were skipped.
    #[arg(short, long)]
    verbose: bool,
    /// Do not use the cache: neither store the output nor print a stored one.
    #[arg(long)]
    no_cache: bool,
}

impl Args {
    /// The same with safe fixes, for `gevals fix`.
    pub fn fixing(self) -> Self {
        Self { fix: true, ..self }
    }

    fn mends(&self) -> bool {
        self.fix || self.unsafe_fixes
    }
}

pub fn main(args: &Args, global: Global) -> u8 {
    if args.list_rules {
        print(&super::explain::list());
        return status::OK;
    }
    let overlay = || match overlay(args) {
        Ok(overlay) => Ok(overlay),
        Err((code, message)) => {
            complain(&message);
            Err(code)
        }
    };
    let once = |overlay: &Overlay, again: Option<&Again>| {
        run(args, overlay, again, global).unwrap_or_else(|(code, message)| {
            complain(&message);
            code
        })
    };
    if !args.watch {
        return overlay().map_or_else(|code| code, |overlay| once(&overlay, None));
    }
    let mut again = Again::default();
    loop {
        // Links may have changed.
        let overlay = match overlay() {
            Ok(overlay) => overlay,
            Err(code) => return code,
        };
        if std::io::stdout().is_terminal() && !super::is_dumb() {
            print("\x1b[2J\x1b[3J\x1b[H");
        }
        again.with(&overlay);
        once(&overlay, Some(&again));
        print("watching; Ctrl-C ends\n");
        if super::is_over() {
            return status::OK;
        }
        again.wait();
    }
}

type Fault = (u8, String);

/// The format whose lines are commands to a CI runner.
const ANNOTATIONS: &str = "github";

fn run(args: &Args, files: &Overlay, again: Option<&Again>, global: Global) -> Result<u8, Fault> {
    let options = options(args)?;
    if args.dry_run && !args.mends() {
        return Err((status::USAGE, "--dry-run requires --fix or --unsafe-fixes".to_owned()));
    }
    let mut mended = Mended::default();
    if args.mends() {
        mended = mend(args, &options, files)?;
        for refused in &mended.refused {
            complain(&format!("a fix was rolled back: {refused}"));
        }
        if args.dry_run {
            let sources = Sources::default();
            let secrets = clear(&look(args, files, &fresh(&options, files, &sources), &sources)?.compiled.project);
            return dry_run(&mended, files, args, &secrets);
        }
        for (path, text) in &mended.texts {
            write_atomic(path, text).map_err(|e| (status::USAGE, format!("cannot write `{}`: {e}", path.display())))?;
        }
    }
    let fixed = mended.texts.len();
    let kept = Kept::of(args, files, global);
    if let Some(Answer { text, code }) = kept.as_ref().and_then(Kept::answer) {
        put(&text, args.format == ANNOTATIONS);
        return Ok(code);
    }
    let noted = kept.as_ref().map(|kept| kept.noting(files));
    let seen = noted.as_ref().map_or(files as &dyn Files, |noted| noted);
    let own = Sources::default();
    let (part, whole) = (Memory::default(), Memory::default());
    let index = kept.as_ref().and_then(|_| Index::of(args, files, &options));
    let quick = index.as_ref().map(|index| index.look(args, files, &options, &part));
    let is_quick = matches!(quick, Some(Ok(_)));
    let index = index.filter(|_| matches!(quick, Some(Err(Miss::Stale))));
    let (sources, looked) = match (quick, again) {
        (Some(Ok(looked)), _) => (part.sources(), Ok(looked)),
        // What is known from the last time is complete.
        (_, Some(again)) => {
            let sources = again.sources();
            (sources, look(args, files, &|paths, _| again.compile(paths, &options, files), sources))
        }
        (Some(Err(Miss::Stale)), None) => {
            let sources = whole.sources();
            let compile =
                |paths: &[PathBuf], _: Option<Changed<'_>>| whole.compile(paths, &options, seen, &FxHashSet::default());
            (sources, look(args, seen, &compile, sources))
        }
        (_, None) => (&own, look(args, seen, &fresh(&options, seen, &own), &own)),
    };
    let Looked { compiled, mut found, files, may_be_empty, unrelated } = looked?;
    unrelated.iter().for_each(|why| complain(why));
    // A deleted file concerns whatever referred to it; a mistyped name concerns nothing.
    for path in args.paths.iter().filter(|path| args.affected && files == 0 && Disk.stat(path).is_none()) {
        warn(&format!("`{}` does not exist, and nothing refers to it", path.display()));
    }
    let unreadable = unreadable(&compiled) || !unrelated.is_empty();
    if let Some(path) = &args.write_baseline {
        Baseline::refuse_others(path)?;
        let text =
            serde_json::to_string_pretty(&Baseline::of(&found, sources, &|p| place(p, path, &compiled.project)).0)
                .unwrap_or_default();
        write_atomic(path, format!("{text}\n").as_bytes())
            .map_err(|e| (status::USAGE, format!("cannot write `{}`: {e}", path.display())))?;
        put(&format!("{} written to {}\n", counted(&diagnostic::gather(found)), path.display()), false);
        return Ok(status::OK);
    }
    let mut known = (Vec::new(), Vec::new());
    if let Some(path) = &args.baseline {
        seen.note(path);
        known = Baseline::read(path)?.take(&mut found, sources, &|p| place(p, path, &compiled.project));
    }
    if files == 0 && found.is_empty() && !may_be_empty {
        return match unreadable {
            true => Ok(status::USAGE),
            false => Err((
                status::USAGE,
                "no tasks or evals found; specify a file or directory that contains some".to_owned(),
            )),
        };
    }
    let (found, known) = (diagnostic::gather(found), (diagnostic::gather(known.0), known.1));
    let Some(writer) = WRITERS.iter().find(|w| w.name == args.format) else { return Ok(status::USAGE) };
    if args.statistics && writer.machine {
        return Err((status::USAGE, format!("--statistics does not support the format `{}`", args.format)));
    }
    let mut style = global.pretty(&std::io::stdout());
    style.limit = (!writer.machine).then_some(args.max_findings);
    let mut text = match args.statistics && !writer.machine {
        true => statistics(&found),
        false => (writer.write)(&found, sources, files, &style),
    };
    if !writer.machine {
        for path in compiled.project.foreign.iter().filter(|_| args.verbose) {
            text += &format!("skipped: {}\n", path.display());
        }
        if fixed > 0 {
            text += &format!("fixed {}\n", count(fixed, "file", "files"));
        }
        if !known.0.is_empty() {
            text += &format!("known and not shown: {}\n", counted(&known.0));
        }
        for entry in &known.1 {
            text += &format!("the baseline contains a finding that no longer occurs: {entry}\n");
        }
        text += &diagnostic::summary(&found, files);
        text.push('\n');
    }
    let text = clear(&compiled.project).mask(&text);
    let text = Secrets::default().mask(&text);
    put(&text, args.format == ANNOTATIONS);
    let failed = found.iter().any(|d| d.strength.is_error()) && !args.exit_zero;
    // `seen` does not record why a file cannot be read.
    if let Some(kept) = kept.as_ref().filter(|_| !unreadable && !is_quick)
        && let Some(names) = kept.trail().written()
    {
        if let Some(index) = index {
            let (given, tokens) = (clear(&compiled.project), Secrets::default());
            let is_clear = |text: &str| given.mask(text) == text && tokens.mask(text) == text;
            index.keep((&names, seen), &compiled, &whole, &is_clear);
        }
        kept.keep(&text, if failed { status::NO } else { status::OK }, &names);
    }
    if !args.watch {
        // The process ends here: freeing the memory of a large suite would take a tenth of the time.
        std::mem::forget((compiled, own, part, whole));
    }
    Ok(match (unreadable, failed) {
        (true, _) => status::USAGE,
        (false, true) => status::NO,
        (false, false) => status::OK,
    })
}

/// The named files; with `--stdin`, standard input replaces one of them.
fn overlay(args: &Args) -> Result<Overlay, Fault> {
    let (true, Some(path)) = (args.stdin, &args.stdin_filename) else { return Ok(Overlay::of(&args.paths, [])) };
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut std::io::stdin().lock(), &mut bytes)
        .map_err(|e| (status::USAGE, format!("cannot read standard input: {e}")))?;
    let named: Vec<PathBuf> = args.paths.iter().chain([path]).cloned().collect();
    Ok(Overlay::of(&named, [(path.as_path(), bytes)]))
}

/// Compiles everything, or what a change concerns.
fn fresh<'a>(
    options: &'a Options,
    files: &'a dyn Files,
    sources: &'a Sources,
) -> impl Fn(&[PathBuf], Option<Changed<'_>>) -> Compiled + 'a {
    |paths, changed| match changed {
        Some(changed) => compile_changed(paths, options, changed, sources, files),
        None => compile_with(paths, options, sources, files),
    }
}

fn options(args: &Args) -> Result<Options, Fault> {
    let mut options = Options { workspace: args.workspace, plans: Plans::None, ..Options::default() };
    for (rules, level) in [(&args.deny, Level::Error), (&args.warn, Level::Warning), (&args.allow, Level::Off)] {
        for name in rules {
            let Some(rule) = lint::rule(name) else { return Err((status::USAGE, super::explain::unknown(name))) };
            if rule.strength == diagnostic::Strength::Hard && level != Level::Error {
                return Err((
                    status::USAGE,
                    format!("`{name}` is a hard error and cannot be silenced: without it there is no plan"),
                ));
            }
            options.levels.push((name.clone(), level));
        }
    }
    Ok(options)
}

/// Prints to standard output; `own` is set for annotations of gevals.
fn put(text: &str, own: bool) {
    let _ = if own { log::put_own(Stream::Out, text) } else { log::put(Stream::Out, text) };
}

/// Computes the fixes in memory.
fn mend(args: &Args, options: &Options, files: &Overlay) -> Result<Mended, Fault> {
    let look = |texts: &Texts, sources: &Sources| {
        let files = &Edited { under: files, texts };
        Ok(look(args, files, &fresh(options, files, sources), sources)?.found)
    };
    let mut mended = diagnostic::mend(args.unsafe_fixes, look)?;
    mended.texts.retain(|path, text| files.read(path).ok().as_ref() != Some(text));
    // The named path is a link to another file, which would be written.
    let refused = &mut mended.refused;
    mended.texts.retain(|path, _| match files.link(path) {
        None => true,
        Some(link) => {
            let link = link.display();
            refused.insert(format!(
                "`{}` is not written: `{link}` is a symbolic link; fix its target instead",
                path.display()
            ));
            false
        }
    });
    Ok(mended)
}

/// The plain-text secrets of servers' configs, which must not be shown.
pub(super) fn clear(project: &Project) -> Secrets {
    let configs = project.evals.iter().filter_map(|unit| unit.mcp.as_ref());
    Secrets::new(configs.flat_map(|config| server_secrets(&config.servers)))
}

/// Prints the fixes as a diff.
fn dry_run(mended: &Mended, files: &dyn Files, args: &Args, secrets: &Secrets) -> Result<u8, Fault> {
    for (path, text) in &mended.texts {
        let old = files.read(path).unwrap_or_default();
        let (old, text) = (String::from_utf8_lossy(&old), String::from_utf8_lossy(text));
        let path = path.display().to_string();
        let diff = similar::TextDiff::from_lines(&*old, &*text);
        let diff = diff.unified_diff().header(&path, &path).to_string();
        put(&secrets.mask(&diff.split_inclusive('\n').map(veil).collect::<String>()), false);
    }
    Ok(match mended.texts.is_empty() || args.exit_zero {
        true => status::OK,
        false => status::NO,
    })
}

/// Counts the places at which each rule is violated.
fn statistics(found: &[Diagnostic]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for d in found {
        *counts.entry(d.rule.name).or_default() += diagnostic::places(std::slice::from_ref(d));
    }
    let mut rows: Vec<_> = counts.into_iter().collect();
    rows.sort_by_key(|(name, n)| (std::cmp::Reverse(*n), *name));
    rows.into_iter().map(|(name, n)| format!("{n:6}  {name}\n")).collect()
}

/// The number of findings, and of their places if there are more.
fn counted(found: &[Diagnostic]) -> String {
    let places = diagnostic::places(found);
    let findings = count(found.len(), "finding", "findings");
    if places > found.len() { format!("{findings} (at {places} places)") } else { findings }
}

/// Known findings, identified by rule, task and message regardless of location, with one entry per place.
struct Baseline(Vec<Known>);

#[derive(PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Known {
    rule: String,
    /// The name of the task; for other files, the path relative to the baseline's directory.
    place: String,
    /// The message, with white space normalized.
    message: String,
}

/// Returns how a baseline refers to the file of a finding.
type Place<'a> = &'a dyn Fn(&Path) -> String;

impl Baseline {
    fn of(found: &[Diagnostic], sources: &Sources, place: Place<'_>) -> Self {
        Self(found.iter().map(|d| Self::key(d, sources, place)).collect())
    }

    fn key(d: &Diagnostic, sources: &Sources, place: Place<'_>) -> Known {
        let message = d.message.split_whitespace().collect::<Vec<_>>().join(" ");
        Known { rule: d.rule.name.to_owned(), place: place(&sources.path(d.span)), message }
    }

    fn read(path: &Path) -> Result<Self, Fault> {
        let fault = |e: String| (status::USAGE, format!("cannot read the baseline `{}`: {e}", path.display()));
        let bytes = Disk.read(path).map_err(|e| fault(e.to_string()))?;
        serde_json::from_slice(&bytes).map(Self).map_err(|e| fault(e.to_string()))
    }

    /// Refuses to overwrite a file that is not a baseline, such as an eval that was named by mistake.
    fn refuse_others(path: &Path) -> Result<(), Fault> {
        let there = Disk.read(path).unwrap_or_default();
        if there.is_empty() || serde_json::from_slice::<Vec<Known>>(&there).is_ok() {
            return Ok(());
        }
        let why =
            format!("`{}` already exists and is not a baseline: choose another file, or delete it", path.display());
        Err((status::USAGE, why))
    }

    /// Removes known findings from `found`. Returns them, and the entries of the baseline that nothing matched.
    fn take(
        mut self,
        found: &mut Vec<Diagnostic>,
        sources: &Sources,
        place: Place<'_>,
    ) -> (Vec<Diagnostic>, Vec<String>) {
        let mut known = Vec::new();
        for d in std::mem::take(found) {
            let key = Self::key(&d, sources, place);
            match self.0.iter().position(|k| *k == key) {
                Some(at) => {
                    self.0.swap_remove(at);
                    known.push(d);
                }
                None => found.push(d),
            }
        }
        let gone = self.0.iter().map(|k| format!("{}: {}: {}", k.place, k.rule, k.message)).collect();
        (known, gone)
    }
}

/// The task of a file, or its path relative to the directory of `base`.
fn place(path: &Path, base: &Path, project: &Project) -> String {
    let unit = project.tasks.iter().find(|unit| unit.path == path);
    if let Some(task) = unit.and_then(|unit| unit.task.as_ref()) {
        return task.name.value.clone();
    }
    let whole = |path: &Path| std::path::absolute(path).map_or_else(|_| path.to_owned(), |p| normalize(&p));
    let (path, base) = (whole(path), whole(base));
    let relative = base.parent().and_then(|dir| path.strip_prefix(dir).ok());
    relative.unwrap_or(&path).display().to_string().replace('\\', "/")
}
