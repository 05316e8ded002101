//! `gevals evals import`: converts the evals of a server, or of a file for one, to portable tasks with everything that
//! runs them.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use indexmap::{IndexMap, IndexSet};
use serde_json::{Map, Value, json};

use super::{
    Fault, Global, Reach, Reached, Wanted, check,
    list::fault,
    loss::{self, Lost},
    notices,
    ready::{self, named},
    with_server,
};
use crate::{
    builtin::count,
    cli::{between, complain, print, quoted, status},
    compile::{Options, Plans, compile_with},
    diagnostic::{Diagnostic, Diagnostics, Strength},
    evals::{Server, list},
    hir::{self, Expand, ModelAgent},
    host::disk::Disk,
    lock::{self, Lock, LockedServer, LockedTool},
    plan::wire::is_secret_header,
    primitive::{
        self, Document, Eval, Level, Tools,
        bridge::{Agents, Effect, Imported, import, suite, text},
    },
    signature::Schema,
    source::{Files, MemoryFiles, Sources, Stat},
    yaml,
};

const EXAMPLES: &str = "\
Examples:
  gevals evals import -o suite --level execution -- my-server
  gevals evals import -o suite --model openai:gpt-5 --judge openai:gpt-5 https://example.org/mcp
  gevals evals import evals.yaml -o suite --level execution -- my-server
from a file, before a server ships it

The directory contains a task for each eval, an eval file for each level that runs them
(`execution.yaml`, …), the MCP config and gevals.lock; it passes `gevals check`. Differences between
a task and its eval are reported with their place: `left out`, there is no task for it; `weaker`,
less is checked; `differs`, it is decided in another way; `dropped`, it decides nothing.

Exit status: 0 every eval is a task, 1 some could not be imported, the others are written, 2 usage
error, the directory already exists, or the server ships no evals, 3 the server does not start or
does not list its evals or tools";

/// Import the evals that a server ships as portable tasks, with eval files that run them.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A file of evals, and optionally a server: a URL, or a name in the MCP config.
    #[arg(value_name = "FILE|SERVER", num_args = 0..=2)]
    words: Vec<String>,
    /// The directory to write to, which must not exist or must be empty.
    #[arg(long, short, value_name = "DIR")]
    output: PathBuf,
    /// Write to an existing directory, overwriting files with the same names.
    #[arg(long)]
    force: bool,
    /// Only import evals of this level: invocation, execution or scenario.
    #[arg(long, value_name = "LEVEL", value_parser = super::level)]
    level: Option<Level>,
    /// The model for invocations and scenarios, as `provider:model`.
    #[arg(long, value_name = "MODEL", value_parser = ready::model)]
    model: Option<ModelAgent>,
    /// The model that judges scenarios, as `provider:model`.
    #[arg(long, value_name = "MODEL", value_parser = ready::model)]
    judge: Option<ModelAgent>,
    /// The name of the server in tasks [default: the name it reports].
    #[arg(long, value_name = "NAME", value_parser = name)]
    name: Option<String>,
    /// How losses are reported.
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = ["text", "json"])]
    report: String,
    #[command(flatten)]
    reach: Reach,
}

fn name(text: &str) -> Result<String, String> {
    match plain(text) == text {
        true => Ok(text.to_owned()),
        false => Err("use a letter, then letters, digits, `-` and `_`".to_owned()),
    }
}

/// A name by which tasks can refer to a server.
fn plain(name: &str) -> String {
    let fits = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '-' };
    let name: String = name.chars().take(60).map(fits).collect();
    let name = name.trim_matches('-');
    if name.starts_with(|c: char| c.is_ascii_alphabetic()) { name.to_owned() } else { "server".to_owned() }
}

pub fn main(args: &Args, _: Global) -> u8 {
    let ready = free(args).and_then(|()| args.reach.wanted(&args.words)).and_then(|Wanted { file, server }| {
        let server = server.ok_or_else(|| {
            let help = "also specify its server: `-- COMMAND`, a URL, or `--mcp-config FILE NAME`";
            (status::USAGE, format!("`{}` is a file of evals; {help}", file.unwrap_or_default()))
        })?;
        let (entry, notes) = entry(&args.reach, &server);
        Ok((file, server, entry, notes))
    });
    let (file, reached, entry, notes) = match ready {
        Ok(ready) => ready,
        Err((code, why)) => {
            complain(&why);
            return code;
        }
    };
    let called = reached.configured.as_ref().map(|(server, _)| server.name.value.clone());
    with_server(reached, async |server| {
        let sources = Sources::default();
        let mut found = Diagnostics::default();
        let documents = match file {
            Some(path) => match check::read(Path::new(path), &sources, &mut found)? {
                Some(document) => vec![document],
                None => {
                    let why = found.iter().next().map_or("", |error| error.message.as_str());
                    return Err((
                        status::USAGE,
                        format!("`{path}` is invalid: {why}; `gevals evals check` shows more"),
                    ));
                }
            },
            None => {
                let listed = list(server, args.level, &sources).await.map_err(fault)?;
                notices(&listed.notices);
                found.extend(listed.findings);
                listed.documents
            }
        };
        let tools =
            server.client.list_tools().await.map_err(|error| {
                (status::BROKEN, format!("`tools/list` of `{}`: {}", server.name, server.lost(&error)))
            })?;
        primitive::check(&documents, Some(&Tools::listed(&server.name, &tools)), &mut found);
        let said = documents.first().and_then(|document| Some(document.server.as_ref()?.value.clone()));
        let called = called.or(said).unwrap_or_else(|| server.name.clone());
        let suites = Suites {
            args,
            server: args.name.clone().unwrap_or_else(|| plain(&called)),
            entry,
            locked: locked(server, &tools),
        };
        notes.iter().for_each(|note| between::say(&format!("note: {note}")));
        suites.write(&documents, &found, &sources)
    })
}

/// Checks that the directory may be written to.
fn free(args: &Args) -> Result<(), Fault> {
    let shown = args.output.display();
    match Disk.stat(&args.output) {
        Some(Stat::Dir) if args.force || Disk.list(&args.output).is_empty() => Ok(()),
        Some(Stat::Dir) => {
            let message = format!(
                "`{shown}` already exists and is not empty: use --force to overwrite files with the same names"
            );
            Err((status::USAGE, message))
        }
        Some(_) => Err((status::USAGE, format!("`{shown}` is not a directory"))),
        None => Ok(()),
    }
}

/// The server's entry for the MCP config, and notes for the user.
fn entry(reach: &Reach, reached: &Reached) -> (Value, Vec<String>) {
    let mut notes = Vec::new();
    let mut entry = match &reached.configured {
        Some((server, dir)) => configured(server, dir, &mut notes),
        None => match (&reached.spec.transport, reach.command.split_first()) {
            (crate::mcp::Transport::Http { url, .. }, _) => {
                let mut headers = Map::new();
                for (name, value) in &reach.header {
                    let value = match is_secret_header(name) {
                        false => value.clone(),
                        true => {
                            let upper = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
                            let variable: String = name.chars().map(upper).collect();
                            notes.push(format!(
                                "the value of the header `{name}` is not written: set it in `{variable}`"
                            ));
                            format!("${{{variable}}}")
                        }
                    };
                    headers.insert(name.clone(), value.into());
                }
                let mut entry = json!({ "url": url });
                if !headers.is_empty() {
                    entry["headers"] = headers.into();
                }
                entry
            }
            (_, command) => {
                let (command, args) = command.map_or(("", &[][..]), |(command, args)| (command.as_str(), args));
                let own = std::env::current_exe().is_ok_and(|own| own == Path::new(command));
                let command = if own { "gevals".to_owned() } else { command_of(command, Path::new(""), &mut notes) };
                let args = args.iter().map(|arg| from(arg, Path::new(""), &mut notes)).collect::<Vec<_>>();
                stdio(&command, &args)
            }
        },
    };
    entry["enableAllTools"] = true.into();
    (entry, notes)
}

fn stdio(command: &str, args: &[String]) -> Value {
    let mut entry = json!({ "command": command });
    if !args.is_empty() {
        entry["args"] = json!(args);
    }
    entry
}

/// The entry of another config. Variables are preserved.
fn configured(server: &hir::Server, dir: &Path, notes: &mut Vec<String>) -> Value {
    let pairs = |pairs: &[(hir::Name, Expand)]| -> Value {
        pairs
            .iter()
            .map(|(name, value)| (name.value.clone(), Value::from(value.display())))
            .collect::<Map<_, _>>()
            .into()
    };
    let mut placed = |text: &Expand, place: fn(&str, &Path, &mut Vec<String>) -> String| match text.has_variables() {
        true => text.display(),
        false => place(&text.display(), dir, notes),
    };
    match &server.transport {
        hir::Transport::Stdio { command, args, env } => {
            let command = placed(command, command_of);
            let args: Vec<String> = args.iter().map(|arg| placed(arg, from)).collect();
            let mut entry = stdio(&command, &args);
            if !env.is_empty() {
                entry["env"] = pairs(env);
            }
            entry
        }
        hir::Transport::Http { url, headers } => {
            let mut entry = json!({ "url": url.display() });
            if !headers.is_empty() {
                entry["headers"] = pairs(headers);
            }
            entry
        }
    }
}

/// A command. Without a slash, it is found on the PATH.
fn command_of(command: &str, dir: &Path, notes: &mut Vec<String>) -> String {
    if command.contains('/') { from(command, dir, notes) } else { command.to_owned() }
}

/// A word of a command line, adapted to another directory: a relative path of an existing file is made absolute.
fn from(word: &str, dir: &Path, notes: &mut Vec<String>) -> String {
    let there = dir.join(word);
    if word.is_empty() || word.starts_with('-') || Path::new(word).is_absolute() || Disk.stat(&there).is_none() {
        return word.to_owned();
    }
    match std::path::absolute(&there) {
        Ok(whole) => {
            let whole = whole.display().to_string();
            notes.push(format!("the server is started in another directory, so `{word}` is written as `{whole}`"));
            whole
        }
        Err(_) => word.to_owned(),
    }
}

fn locked(server: &Server, tools: &[Value]) -> LockedServer {
    let tool = |tool: &Value| {
        let name = tool.get("name")?.as_str()?.to_owned();
        let description = tool.get("description").and_then(Value::as_str).unwrap_or_default().to_owned();
        let input_schema = Schema::new(tool.get("inputSchema").cloned().unwrap_or_default());
        Some((name, LockedTool { description, input_schema }))
    };
    LockedServer { version: server.version.clone(), tools: tools.iter().filter_map(tool).collect() }
}

/// What is written.
struct Suites<'a> {
    args: &'a Args,
    /// The name by which tasks refer to the server.
    server: String,
    entry: Value,
    locked: LockedServer,
}

impl Suites<'_> {
    fn write(&self, documents: &[Document], found: &Diagnostics, sources: &Sources) -> Result<u8, Fault> {
        let args = self.args;
        let of_level = |level: &str| level.is_empty() || args.level.is_none_or(|wanted| wanted.name() == level);
        let mut lost: Vec<Lost> = Vec::new();
        let mut meaningless: IndexSet<(crate::source::FileId, usize)> = IndexSet::new();
        let hard = |d: &&Diagnostic| d.strength == Strength::Hard;
        for error in found.iter().filter(hard) {
            let (id, level, place) = owner(documents, error);
            if of_level(&level) && meaningless.insert((error.span.file, place)) {
                lost.push(Lost::found(&id, error, error.span, sources));
            }
        }
        let meant = |eval: &&Eval| !meaningless.contains(&(eval.span.file, eval.span.range().start));
        let evals: Vec<&Eval> = documents
            .iter()
            .flat_map(|document| &document.evals)
            .filter(|eval| of_level(eval.level().name()))
            .filter(meant)
            .collect();
        let all = evals.len() + lost.len();
        if all == 0 {
            return Err((status::USAGE, "no evals found: nothing is written".to_owned()));
        }
        let mut tasks: Vec<(&Eval, Imported)> = Vec::new();
        for eval in evals {
            match import(eval, &self.server) {
                Ok(task) => tasks.push((eval, task)),
                Err(loss) => lost.push(Lost::new(&eval.id.value, &loss, sources)),
            }
        }
        self.models(&tasks)?;
        // `gevals check` finds any error in the tasks. If there is one, each task is checked separately.
        if self.error(&tasks.iter().map(|(_, task)| task).collect::<Vec<_>>()).is_some() {
            tasks.retain(|(eval, task)| {
                let Some(why) = self.error(&[task]) else { return true };
                let why = format!("as a task, it has an error: {why}");
                lost.push(Lost::at(&eval.id.value, eval.id.span, Effect::LeftOut, &why, sources));
                false
            });
        }
        for (eval, task) in &tasks {
            lost.extend(task.losses.iter().map(|loss| Lost::new(&eval.id.value, loss, sources)));
        }
        let tasks: Vec<&Imported> = tasks.iter().map(|(_, task)| task).collect();
        let files = self.files(&tasks);
        if !tasks.is_empty() {
            put(&args.output, &files)
                .map_err(|(path, e)| (status::BROKEN, format!("cannot write `{}`: {e}", path.display())))?;
        }
        self.report(&tasks, &lost, all);
        Ok(match lost.iter().any(|lost| lost.effect == Effect::LeftOut) {
            true => status::NO,
            false => status::OK,
        })
    }

    /// Checks that there are models for the evals that need one.
    fn models(&self, tasks: &[(&Eval, Imported)]) -> Result<(), Fault> {
        let of = |levels: &[Level]| -> Vec<&Eval> {
            tasks.iter().map(|(eval, _)| *eval).filter(|eval| levels.contains(&eval.level())).collect()
        };
        let needs = [
            (of(&[Level::Invocation, Level::Scenario]), &self.args.model, "a model", "model"),
            (of(&[Level::Scenario]), &self.args.judge, "a judge", "judge"),
        ];
        for (evals, model, what, option) in needs {
            if !evals.is_empty() && model.is_none() {
                let evals = ready::ids(&evals);
                let help =
                    format!("specify it with `--{option} provider:model`, or skip them with `--level execution`");
                return Err((status::USAGE, format!("nothing is written: {evals} need {what}; {help}")));
            }
        }
        Ok(())
    }

    /// The files of a directory with these tasks.
    fn files(&self, tasks: &[&Imported]) -> IndexMap<PathBuf, String> {
        let (model, judge) = (self.args.model.as_ref().map(named), self.args.judge.as_ref().map(named));
        let agents = Agents { model: model.as_deref(), judge: judge.as_deref() };
        let mut files = IndexMap::new();
        let mut names: IndexSet<String> = IndexSet::new();
        let paths: Vec<String> = tasks.iter().map(|task| file_name(&task.id, &mut names)).collect();
        for level in Level::ALL {
            let own = paths.iter().zip(tasks).filter(|(_, task)| task.level == level);
            let own: Vec<(String, &Imported)> = own.map(|(path, task)| (path.clone(), *task)).collect();
            if own.is_empty() {
                continue;
            }
            let name = format!("{}-{level}", self.server);
            files.insert(PathBuf::from(format!("{level}.yaml")), text(&suite(&name, level, agents, &own)));
            files.extend(own.iter().map(|(path, task)| (PathBuf::from(path), text(&task.task))));
        }
        let config = json!({ "mcpServers": { &self.server: self.entry } });
        files.insert(PathBuf::from("mcp.yaml"), text(&config));
        let mut lock = Lock { version: 1, ..Lock::default() };
        lock.servers.insert(self.server.clone(), self.locked.clone());
        files.insert(PathBuf::from(lock::FILE_NAME), yaml::write(&lock).unwrap_or_default());
        files
    }

    /// The first error that `gevals check` finds in a directory with these tasks.
    fn error(&self, tasks: &[&Imported]) -> Option<String> {
        let mut files = MemoryFiles::default();
        for (path, text) in self.files(tasks) {
            files.add(Path::new("suite").join(path), text, false);
        }
        let options = Options { plans: Plans::None, ..Options::default() };
        let found = compile_with(&[PathBuf::from("suite")], &options, &Sources::default(), &files).diagnostics;
        found.into_iter().find(|d| d.strength.is_error()).map(|d| d.message)
    }

    fn report(&self, tasks: &[&Imported], lost: &[Lost], all: usize) {
        let dir = &self.args.output;
        if self.args.report == "json" {
            let row = |task: &&Imported| json!({"id": task.id, "level": task.level.name()});
            print(&loss::document(&tasks.iter().map(row).collect::<Vec<_>>(), lost));
            return;
        }
        print(&loss::text(lost));
        if tasks.is_empty() {
            complain("nothing is written: no task can express these evals");
            return;
        }
        let (written, evals) = (count(tasks.len(), "task", "tasks"), count(all, "eval", "evals"));
        let mut said = format!("wrote {}: {written} of {evals}{}\n", dir.display(), loss::summary(lost));
        let levels = Level::ALL.into_iter().filter(|level| tasks.iter().any(|task| task.level == *level));
        let runs: Vec<String> =
            levels.map(|level| format!("`gevals run {}`", quoted(&dir.join(format!("{level}.yaml"))))).collect();
        let check = quoted(dir);
        said += &format!("\ncheck them with `gevals check {check}` and run them with {}\n", runs.join(", "));
        print(&said);
    }
}

/// The eval that contains an error: its ID, its level as written, and its start.
fn owner(documents: &[Document], error: &Diagnostic) -> (String, String, usize) {
    let listed = documents.iter().filter_map(|document| document.tree.root().get("evals"));
    for item in listed.flat_map(|node| node.items().collect::<Vec<_>>()) {
        if item.span().contains(error.span) {
            let text = |node: Option<yaml::Node<'_>>| node.and_then(yaml::Node::as_str).unwrap_or_default().to_owned();
            let level = text(item.get("input").and_then(|input| input.get("type")));
            return (text(item.get("id")), level, item.span().range().start);
        }
    }
    (String::new(), String::new(), error.span.range().start)
}

/// Returns `tasks/ID.yaml`, with only the characters of the ID that a file name may have. The names are unique,
/// ignoring case.
fn file_name(id: &str, names: &mut IndexSet<String>) -> String {
    let fits = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let stem: String = id.chars().take(80).map(fits).collect();
    let stem = match stem.trim_matches(['.', '-']) {
        "" => "eval",
        stem => stem,
    };
    let mut name = stem.to_owned();
    let mut n = 2;
    while !names.insert(name.to_lowercase()) {
        name = format!("{stem}-{n}");
        n += 1;
    }
    format!("tasks/{name}.yaml")
}

/// Writes files below a directory, all or none: they are written next to it, and moved when all are complete.
fn put(dir: &Path, files: &IndexMap<PathBuf, String>) -> Result<(), (PathBuf, io::Error)> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |error: io::Error| (path, error)
    };
    for path in files.keys().map(|path| dir.join(path)) {
        if Disk.stat(&path) == Some(Stat::Dir) {
            return Err((path, io::Error::other("it is a directory")));
        }
    }
    let is_new = Disk.stat(dir).is_none();
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let within = if is_new { parent } else { dir };
    fs::create_dir_all(within).map_err(at(within))?;
    let made = within.join(format!(".gevals-import-{}", std::process::id()));
    fs::create_dir(&made).map_err(at(&made))?;
    let moved = (|| {
        for (path, text) in files {
            let path = made.join(path);
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder).map_err(at(folder))?;
            }
            fs::write(&path, text).map_err(at(&path))?;
        }
        if is_new {
            return fs::rename(&made, dir).map_err(at(dir));
        }
        for path in files.keys() {
            let target = dir.join(path);
            if let Some(folder) = target.parent() {
                fs::create_dir_all(folder).map_err(at(folder))?;
            }
            fs::rename(made.join(path), &target).map_err(at(&target))?;
        }
        Ok(())
    })();
    if moved.is_err() || !is_new {
        let _ = fs::remove_dir_all(&made);
    }
    moved
}
