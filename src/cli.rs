//! The command line: one file a command. The edge, where paths become texts and findings become lines.
#![expect(clippy::disallowed_methods, reason = "the command line is the edge: it prints and reads arguments")]

mod again;
#[cfg(feature = "run")]
mod between;
mod check;
#[cfg(feature = "run")]
mod combination;
mod completion;
mod config;
mod convert;
mod coverage;
#[cfg(feature = "run")]
mod demo_server;
#[cfg(feature = "run")]
mod emit;
#[cfg(feature = "run")]
mod evals;
mod explain;
#[cfg(feature = "run")]
mod ext;
mod git;
#[cfg(feature = "run")]
mod itself;
#[cfg(feature = "kubernetes")]
mod kube;
#[cfg(feature = "run")]
mod lock;
mod log;
mod lsp;
mod man;
#[cfg(feature = "run")]
mod mcp;
#[cfg(feature = "run")]
mod new;
mod overlay;
#[cfg(feature = "run")]
mod packages;
#[cfg(feature = "run")]
mod packed;
mod plan;
#[cfg(feature = "run")]
mod proxy;
mod result;
#[cfg(feature = "run")]
mod preflight;
#[cfg(feature = "run")]
mod recover;
#[cfg(feature = "run")]
mod run;
mod schema;
mod watch;
#[cfg(feature = "run")]
mod worker;

use std::{
    io::{ErrorKind, IsTerminal, Write},
    path::PathBuf,
    process::ExitCode,
    sync::OnceLock,
};

use log::Stream;

use clap::{CommandFactory, Parser, Subcommand, ValueEnum};

use crate::{
    Compiled, Options, compile_with,
    diagnostic::{self, Diagnostic, Pretty},
    host::{disk::Disk, within::Within},
    source::Sources,
};

/// Exit statuses (`decisions.md` §11).
pub mod status {
    /// Everything is as it should be.
    pub const OK: u8 = 0;
    /// The work was done and the answer is no.
    pub const NO: u8 = 1;
    /// The command was used wrongly, or what it was given cannot be run.
    pub const USAGE: u8 = 2;
    /// Nothing could run.
    pub const BROKEN: u8 = 3;
    /// Cleanups are still pending.
    #[cfg(feature = "run")]
    pub const PENDING: u8 = 4;
}

const EXAMPLES: &str = "\
Examples:
  gevals new eval                     write an eval to begin with
  gevals check                        check every task and eval below this directory
  gevals plan eval.yaml               show what would happen, without running anything
  gevals run eval.yaml                run an eval and write its results
  gevals run eval.yaml --run '^web'   run only the tasks whose names begin with `web`
  gevals pack eval.yaml -o s.gevals   pack an eval into one file, to run it on other machines
  gevals result diff a.json b.json    show what got worse between two runs
  gevals proxy --record c.jsonl -- my-server     show and record what a client calls
  gevals recover                      clean up after runs that were killed
  gevals explain unknown-field        explain a rule and how to fix its findings
  gevals config                       list the settings and where they come from
  gevals self check                   list what this machine lacks, and what it is needed for
  source <(gevals completion bash)    complete commands and options in this shell

Exit status:
  0  success            1  the answer is no        2  usage error, or it cannot be run
  3  nothing could run  4  tasks passed, but a cleanup did not  129, 130, 143  interrupted";

/// A compiler and runner for evaluations of MCP servers: if it compiles, it runs, and green means something.
#[derive(Parser, Debug)]
#[command(name = "gevals", version, after_help = EXAMPLES, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    global: Global,
    /// The directory of the project; gevals reads no file outside it. By default, the repository of the given path, or the
    /// directory with `gevals.toml`.
    #[arg(long, global = true, value_name = "DIR")]
    root: Option<PathBuf>,
}

/// The root that the command line names.
static ROOT: OnceLock<PathBuf> = OnceLock::new();

/// What every command understands.
#[derive(clap::Args, Clone, Copy, Debug)]
struct Global {
    /// When to use colors.
    #[arg(long, global = true, value_enum, default_value_t = Colour::Auto, value_name = "WHEN")]
    color: Colour,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Colour {
    /// On a terminal, unless NO_COLOR, CLICOLOR=0 or TERM=dumb is set; FORCE_COLOR and CLICOLOR_FORCE turn colors on elsewhere.
    Auto,
    Always,
    Never,
}

#[derive(Subcommand, Debug)]
enum Command {
    Check(check::Args),
    /// Check, and apply the safe fixes (same as `check --fix`).
    Fix(check::Args),
    Convert(convert::Args),
    Coverage(coverage::Args),
    Explain(explain::Args),
    Plan(plan::Args),
    Schema(schema::Args),
    Lsp(lsp::Args),
    #[cfg(feature = "run")]
    Mcp(mcp::Args),
    Result(result::Args),
    #[cfg(feature = "run")]
    #[command(visible_alias = "eval")]
    Run(Box<run::Args>),
    #[cfg(feature = "run")]
    Prove(run::prove::Args),
    #[cfg(feature = "run")]
    Pack(run::pack::Args),
    #[cfg(feature = "run")]
    Units(run::unit::ListArgs),
    #[cfg(feature = "run")]
    ExecUnit(run::unit::Args),
    #[cfg(feature = "run")]
    Emit(emit::Args),
    #[cfg(feature = "run")]
    Worker(worker::Args),
    #[cfg(feature = "run")]
    Recover(recover::Args),
    #[cfg(feature = "run")]
    New(new::Args),
    #[cfg(feature = "run")]
    Lock(lock::Args),
    #[cfg(feature = "run")]
    Ext(ext::Args),
    #[cfg(feature = "run")]
    Proxy(proxy::Args),
    #[cfg(feature = "run")]
    Evals(Box<evals::Args>),
    #[cfg(feature = "kubernetes")]
    Kube(kube::Args),
    #[cfg(feature = "run")]
    DemoServer(demo_server::Args),
    Config(config::Args),
    #[cfg(feature = "run")]
    #[command(name = "self")]
    Itself(itself::Args),
    Completion(completion::Args),
    Man(man::Args),
    /// Print the version (same as `--version`).
    Version,
}

/// What `gevals explain` says of a word.
pub fn explained(word: &str) -> Option<String> {
    explain::explained(word)
}

/// The commands with their options, for pages that speak of them.
pub fn commands() -> clap::Command {
    Cli::command()
}

/// Reads the arguments and does what they say.
pub fn main() -> ExitCode {
    #[cfg(feature = "run")]
    if let Some(code) = crate::prove::in_jail() {
        return ExitCode::from(code);
    }
    #[cfg(all(feature = "run", target_os = "linux"))]
    if std::env::args_os().nth(1).is_some_and(|first| first == crate::sandbox::confine::ARGUMENT) {
        return ExitCode::from(crate::sandbox::confine::run());
    }
    #[cfg(feature = "run")]
    if std::env::args_os().nth(1).is_some_and(|first| first == crate::sandbox::doors::ARGUMENT) {
        return ExitCode::from(crate::sandbox::doors::run());
    }
    #[cfg(feature = "kubernetes")]
    if std::env::args().nth(1).as_deref() == Some(crate::kubernetes::ARGUMENT) {
        return ExitCode::from(crate::cluster::serve::run());
    }
    #[cfg(not(feature = "run"))]
    if let Some(code) = not_in_this_build() {
        return ExitCode::from(code);
    }
    let args = std::env::args_os();
    #[cfg(feature = "run")]
    let args = {
        use crate::run::attended;
        let first = std::env::args_os().nth(1);
        let is_attended =
            [attended::ARGUMENT, attended::SERVING].iter().any(|word| first.as_deref() == Some((*word).as_ref()));
        if is_attended {
            attended::begin(first.as_deref() == Some(attended::SERVING.as_ref()));
        }
        args.enumerate().filter(move |(nth, _)| *nth != 1 || !is_attended).map(|(_, arg)| arg)
    };
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        // Help is asked for, and printed; else the arguments are wrong.
        Err(told) => {
            let (text, global) = (told.render(), Global { color: wanted_colour() });
            let as_it_is = |coloured: bool| if coloured { text.ansi().to_string() } else { text.to_string() };
            match told.use_stderr() {
                true => tell(&as_it_is(global.colour(&std::io::stderr()))),
                false => print(&as_it_is(global.colour(&std::io::stdout()))),
            }
            return ExitCode::from(after_printing(u8::try_from(told.exit_code()).unwrap_or(status::USAGE)));
        }
    };
    if let Some(root) = cli.root {
        if let Err(why) = Within::of(&[], Some(&root)) {
            complain(&why);
            return ExitCode::from(status::USAGE);
        }
        // `gevals mcp` works in it.
        let _ = ROOT.set(std::path::absolute(&root).unwrap_or(root));
    }
    let code = match cli.command {
        Command::Check(args) => check::main(&args, cli.global),
        Command::Fix(args) => check::main(&args.fixing(), cli.global),
        Command::Convert(args) => convert::main(&args, cli.global),
        Command::Coverage(args) => coverage::main(&args, cli.global),
        Command::Explain(args) => explain::main(&args),
        Command::Plan(args) => plan::main(&args, cli.global),
        Command::Schema(args) => schema::main(&args),
        Command::Lsp(args) => lsp::main(&args),
        #[cfg(feature = "run")]
        Command::Mcp(args) => mcp::main(&args),
        Command::Result(args) => result::main(&args),
        #[cfg(feature = "run")]
        Command::Run(args) => run::main(&args, cli.global),
        #[cfg(feature = "run")]
        Command::Prove(args) => run::prove::main(&args, cli.global),
        #[cfg(feature = "run")]
        Command::Pack(args) => run::pack::main(&args, cli.global),
        #[cfg(feature = "run")]
        Command::Units(args) => run::unit::list(&args),
        #[cfg(feature = "run")]
        Command::ExecUnit(args) => run::unit::main(&args, cli.global),
        #[cfg(feature = "run")]
        Command::Emit(args) => emit::main(&args),
        #[cfg(feature = "run")]
        Command::Worker(args) => worker::main(&args, cli.global),
        #[cfg(feature = "run")]
        Command::Recover(args) => recover::main(&args, cli.global),
        #[cfg(feature = "run")]
        Command::New(args) => new::main(&args),
        #[cfg(feature = "run")]
        Command::Lock(args) => lock::main(&args, cli.global),
        #[cfg(feature = "run")]
        Command::Ext(args) => ext::main(&args, cli.global),
        #[cfg(feature = "run")]
        Command::Proxy(args) => proxy::main(&args),
        #[cfg(feature = "run")]
        Command::Evals(args) => evals::main(&args, cli.global),
        #[cfg(feature = "kubernetes")]
        Command::Kube(args) => kube::main(&args),
        #[cfg(feature = "run")]
        Command::DemoServer(args) => demo_server::main(&args),
        Command::Config(args) => config::main(&args, cli.global),
        #[cfg(feature = "run")]
        Command::Itself(args) => itself::main(&args),
        Command::Completion(args) => completion::main(&args),
        Command::Man(args) => man::main(&args),
        Command::Version => {
            print(&Cli::command().render_version());
            status::OK
        }
    };
    ExitCode::from(after_printing(code))
}

/// The exit status of a command that has printed all it had to say: never 0 where that could not be written.
fn after_printing(code: u8) -> u8 {
    match UNWRITTEN.get() {
        Some(error) if error.kind() != ErrorKind::BrokenPipe => {
            complain(&format!("cannot write to standard output: {error}"));
            if code == status::OK { status::BROKEN } else { code }
        }
        _ => code,
    }
}

/// The first error in writing to standard output.
static UNWRITTEN: OnceLock<std::io::Error> = OnceLock::new();

fn unwritten(error: std::io::Error) {
    let _ = UNWRITTEN.set(error);
}

/// Whether nobody reads what is printed any more.
fn is_over() -> bool {
    UNWRITTEN.get().is_some()
}

/// Standard output. What cannot be written stops nothing, and decides the exit status; a reader that went away is no error.
struct Output;

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        std::io::stdout().lock().write(bytes).inspect_err(|error| unwritten(copied(error)))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        std::io::stdout().lock().flush().inspect_err(|error| unwritten(copied(error)))
    }
}

fn copied(error: &std::io::Error) -> std::io::Error {
    error.raw_os_error().map_or_else(|| error.kind().into(), std::io::Error::from_raw_os_error)
}

/// The compiler alone says of the other commands that they exist.
#[cfg(not(feature = "run"))]
fn not_in_this_build() -> Option<u8> {
    let command = std::env::args().nth(1).filter(|c| {
        matches!(
            c.as_str(),
            "run"
                | "eval"
                | "pack"
                | "units"
                | "exec-unit"
                | "emit"
                | "worker"
                | "new"
                | "lock"
                | "ext"
                | "proxy"
                | "evals"
                | "kube"
                | "demo-server"
                | "mcp"
                | "self"
        )
    })?;
    complain(&format!(
        "this build of gevals contains only the compiler: `{command}` needs a build with the feature `run`"
    ));
    Some(status::USAGE)
}

/// What `--color` says where the other arguments cannot be read, or ask for help.
fn wanted_colour() -> Colour {
    let args: Vec<String> = std::env::args().skip(1).take_while(|arg| arg != "--").collect();
    let spaced =
        args.iter().zip(args.iter().skip(1)).filter(|(arg, _)| *arg == "--color").map(|(_, value)| value.as_str());
    let joined = args.iter().filter_map(|arg| arg.strip_prefix("--color="));
    spaced.chain(joined).last().and_then(|word| Colour::from_str(word, false).ok()).unwrap_or(Colour::Auto)
}

/// Whether the terminal understands plain text only.
fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

impl Global {
    /// Whether to colour what goes to this stream.
    fn colour(self, stream: &impl IsTerminal) -> bool {
        self.colour_by(stream).0
    }

    /// The same, and what decides it.
    fn colour_by(self, stream: &impl IsTerminal) -> (bool, &'static str) {
        let is = |name, test: &dyn Fn(&str) -> bool| std::env::var(name).is_ok_and(|value| test(&value));
        let forced = |name| is(name, &|value| !matches!(value, "" | "0"));
        match self.color {
            Colour::Always => (true, "--color"),
            Colour::Never => (false, "--color"),
            Colour::Auto if is("NO_COLOR", &|value| !value.is_empty()) => (false, "NO_COLOR"),
            Colour::Auto if forced("FORCE_COLOR") => (true, "FORCE_COLOR"),
            Colour::Auto if forced("CLICOLOR_FORCE") => (true, "CLICOLOR_FORCE"),
            Colour::Auto if is("CLICOLOR", &|value| value == "0") => (false, "CLICOLOR"),
            Colour::Auto if is_dumb() => (false, "TERM"),
            Colour::Auto if stream.is_terminal() => (true, "a terminal"),
            Colour::Auto => (false, "no terminal"),
        }
    }

    fn pretty(self, stream: &impl IsTerminal) -> Pretty {
        Pretty { colour: self.colour(stream), width: 100, ..Pretty::default() }
    }
}

/// The files of the projects that some paths belong to.
fn project_files(paths: &[PathBuf]) -> Within {
    let here = [PathBuf::from(".")];
    // A root that is no folder any more has no files.
    Within::of(if paths.is_empty() { &here } else { paths }, ROOT.get().map(PathBuf::as_path)).unwrap_or_default()
}

/// Compiles what the paths name; the current folder where they name nothing.
/// For commands that ask what files mean, and not whether that is good.
fn compile_paths(paths: &[PathBuf], sources: &Sources) -> Compiled {
    let here = [PathBuf::from(".")];
    let options = Options { soft: false, ..Options::default() };
    compile_with(if paths.is_empty() { &here } else { paths }, &options, sources, &project_files(paths))
}

/// Says which of the named paths could not be read.
fn unreadable(compiled: &Compiled) -> bool {
    for path in &compiled.project.unreadable {
        let reason = crate::source::Files::read(&Disk, path).err().map_or_else(String::new, |e| format!(": {e}"));
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let beside = crate::source::Files::list(&Disk, path.parent().unwrap_or(std::path::Path::new("")));
        let others = beside.iter().map(String::as_str).filter(|other| *other != name);
        let near = diagnostic::nearest(&name, others);
        let hint =
            near.map(|near| format!("; did you mean `{}`?", path.with_file_name(near).display())).unwrap_or_default();
        complain(&format!("cannot read `{}`{reason}{hint}", path.display()));
    }
    !compiled.project.unreadable.is_empty()
}

/// An error that has no place in a file.
fn complain(message: &str) {
    tell(&format!("error: {message}\n"));
}

/// Prints to standard error.
fn tell(text: &str) {
    let _ = log::put(Stream::Err, text);
}

/// What is being done, for a user who waits.
#[cfg(feature = "run")]
fn note(message: &str) {
    tell(&format!("{message}\n"));
}

/// What deserves attention, and stops nothing.
fn warn(message: &str) {
    tell(&format!("warning: {message}\n"));
}

/// The findings that did not keep the eval from running, as results have them.
#[cfg(feature = "run")]
fn tolerated_findings(compiled: &Compiled, sources: &Sources) -> Vec<serde_json::Value> {
    let tolerated: Vec<_> =
        compiled.diagnostics.iter().filter(|d| d.strength <= diagnostic::Strength::Warning).cloned().collect();
    let report = diagnostic::report(&diagnostic::gather(tolerated), sources, compiled.project.files());
    report.diagnostics.iter().filter_map(|f| serde_json::to_value(f).ok()).collect()
}

/// Prints findings where a run, or a plan, must stop for them.
fn print_findings(findings: &[Diagnostic], sources: &Sources, files: usize, global: Global) {
    let err = std::io::stderr();
    let mut text = String::new();
    let findings = diagnostic::gather(findings.to_vec());
    let _ = diagnostic::print(&findings, sources, &global.pretty(&err), &mut text);
    tell(&format!("{text}{}\n", diagnostic::summary(&findings, files)));
}

/// Whether nobody is there to answer or to look closely.
#[cfg(feature = "run")]
fn in_ci() -> bool {
    std::env::var_os("CI").is_some_and(|ci| !ci.is_empty() && ci != "false" && ci != "0")
}

/// Prints to standard output: see [`Output`].
fn print(text: &str) {
    let _ = log::put(Stream::Out, text);
}

/// That one of these evals in a folder is to be named, with the first of them.
#[cfg(feature = "run")]
fn several_evals<'a>(folder: &str, evals: impl ExactSizeIterator<Item = &'a std::path::Path>) -> String {
    const SHOWN: usize = 5;
    let all = evals.len();
    let (number, more) = match all.saturating_sub(SHOWN) {
        0 => ("several".to_owned(), String::new()),
        more => (all.to_string(), format!(" and {more} more")),
    };
    let names: Vec<_> = evals.take(SHOWN).map(|path| format!("`{}`", path.display())).collect();
    format!("`{folder}` contains {number} evals; specify one: {}{more}", names.join(", "))
}

fn shown(path: &std::path::Path) -> String {
    path.display().to_string()
}

/// What this machine calls itself.
#[cfg(feature = "temporal")]
fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// A path as a word of a shell.
#[cfg(feature = "run")]
fn quoted(path: &std::path::Path) -> String {
    crate::bash::quote(&shown(path))
}
