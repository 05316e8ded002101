//! `gevals new`: creates files to start from, which check and run as they are. Nothing is overwritten.

use std::path::{Path, PathBuf};

use clap::{Subcommand, ValueEnum};
use indexmap::{IndexMap, IndexSet};
use serde_json::{Value, json};

use super::{complain, convert::tree::relative, print, status};
use crate::{
    host::disk::{Disk, write_atomic},
    lock::{FILE_NAME, Lock, LockedServer, LockedTool},
    mcp::{ServerSpec, Transport, demo},
    results::recording::{self, Call, Recorded},
    signature::{Sample, Schema, sample},
    source::{Files, normalize},
};

const EXAMPLES: &str = "\
Examples:
  gevals new eval                          an eval with servers, a scripted agent and a first task
  gevals new eval --from-server 'npx -y @modelcontextprotocol/server-everything@2025.9.25'
  gevals new eval --from-server my-server --from-recording calls.jsonl
  gevals new task tasks/create-note.yaml   another task
  gevals new task tasks/create-note.yaml --from-server https://example.org/mcp

With --from-server, gevals starts the server and lists its tools: the task calls one of them, a
comment lists the others, and gevals.lock makes them all known to `gevals check`. It picks a tool
that only reads and whose arguments the schema determines; placeholder values are reported. The
files that are written pass `gevals check`.

Exit status: 0 written, 2 a file already exists: nothing is written, 3 the server does not start";

/// Create a first task or eval.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    Task(Task),
    Eval(Eval),
}

/// Create a task.
#[derive(clap::Args, Debug)]
struct Task {
    /// The file; the task is named after it.
    #[arg(value_name = "FILE")]
    path: PathBuf,
    /// The dialect of the task.
    #[arg(long, value_enum, default_value_t = Form::Portable)]
    dialect: Form,
    #[command(flatten)]
    from: From,
}

/// Create an eval with everything it needs: servers, a scripted agent and a task.
#[derive(clap::Args, Debug)]
struct Eval {
    /// The file of the eval, or the directory for an `eval.yaml`.
    #[arg(value_name = "PATH", default_value = "eval.yaml")]
    path: PathBuf,
    #[command(flatten)]
    from: From,
    /// A recording made by `gevals proxy --record` or by a run: the scripted agent makes its calls, and the eval expects them.
    #[arg(long, value_name = "FILE", requires = "from_server")]
    from_recording: Option<PathBuf>,
}

#[derive(clap::Args, Debug)]
struct From {
    /// The server to evaluate: a command line, or the URL of a streamable HTTP server.
    #[arg(long, value_name = "COMMAND")]
    from_server: Option<String>,
    /// The name of the server [default: derived from its command].
    #[arg(long, value_name = "NAME", requires = "from_server")]
    server_name: Option<String>,
}

#[derive(ValueEnum, serde::Deserialize, schemars::JsonSchema, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase")]
pub(super) enum Form {
    /// `mcp-eval/v1`.
    Portable,
    /// `mcpchecker/v1alpha2`.
    Steps,
    /// `mcpchecker/v1alpha1`.
    Legacy,
}

/// An exit status and its message.
type Fault = (u8, String);

pub fn main(args: &Args) -> u8 {
    let written = match &args.what {
        What::Task(args) => task(args),
        What::Eval(args) => eval(args),
    };
    match written {
        Ok(said) => {
            print(&said);
            status::OK
        }
        Err((code, message)) => {
            complain(&message);
            code
        }
    }
}

/// A server and its own description.
struct Server {
    name: String,
    /// Its entry in an MCP config.
    config: Value,
    locked: LockedServer,
    /// The MCP `annotations` of its tools, by name.
    hints: IndexMap<String, Value>,
}

impl Server {
    /// The first directory on its command line.
    fn folder(&self) -> Option<String> {
        let args = self.config.get("args").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        let words = args.map(|arg| arg.split_once('=').map_or(arg, |(_, value)| value));
        let mut folders = words.filter(|word| word.contains('/')).filter(|word| Path::new(word).is_dir());
        Some(std::fs::canonicalize(folders.next()?).ok()?.to_string_lossy().into_owned())
    }
}

fn task(args: &Task) -> Result<String, Fault> {
    let path = yaml_file(&args.path, "task");
    let name = name_of(&path)?;
    refuse_existing([path.as_path()])?;
    let server = server(&args.from, None)?;
    if server.is_some() && args.dialect != Form::Portable {
        return Err((status::USAGE, "a task from a server is only available in the portable dialect".to_owned()));
    }
    write(&path, &task_text(&name, args.dialect, server.as_ref()))?;
    let told = server.as_ref().and_then(|server| unknown(server, std::slice::from_ref(&path)));
    let told = told.map(|told| format!("{told}\n")).unwrap_or_default();
    Ok(format!(
        "wrote {}\n\n{told}check it with `gevals check {}`\nto run it, add `- path: {}`, relative to the eval, to the `taskSets` of an eval; \
         a scripted agent also needs an entry `{}` in its file\n",
        path.display(),
        super::quoted(&path),
        word(&path.display().to_string()),
        word(&name),
    ))
}

fn eval(args: &Eval) -> Result<String, Fault> {
    let path = match Disk.stat(&args.path) {
        Some(crate::source::Stat::Dir) => args.path.join("eval.yaml"),
        _ => eval_file(&args.path),
    };
    refuse_existing(places(&path).iter().map(PathBuf::as_path))?;
    let name = eval_name(&path)?;
    let mut recorded = args.from_recording.as_deref().map(|path| recorded(path, &args.from)).transpose()?;
    let server_name = recorded.as_ref().and_then(|run| run.calls.first()).map(|call| call.server.clone());
    let server = match server(&args.from, server_name)? {
        Some(mut server) => {
            rebase(&mut server.config, path.parent().unwrap_or(Path::new("")));
            server
        }
        // This server is always available.
        None => demo(),
    };
    let mut said = String::new();
    if let Some(run) = &mut recorded {
        let all = run.calls.len();
        run.calls.retain(|call| call.succeeded() || is_valid(call, &server));
        match all - run.calls.len() {
            0 => {}
            left => {
                said += &format!("{left} of {all} calls are left out: they failed, and their arguments are invalid\n")
            }
        }
        if run.calls.is_empty() {
            return Err((status::USAGE, "the arguments of all calls in the recording are invalid".to_owned()));
        }
    }
    for (path, text) in eval_files(&path, &name, &server, recorded.as_ref()) {
        write(&path, &text)?;
        said += &format!("wrote {}\n", path.display());
    }
    if recorded.is_none() {
        let [task, oracle, ..] = places(&path);
        said += &unknown(&server, &[task, oracle]).map(|told| format!("\n{told}")).unwrap_or_default();
    }
    let eval = super::quoted(&path);
    Ok(format!("{said}\ncheck them with `gevals check {eval}` and run them with `gevals run {eval}`\n"))
}

/// Whether the server has the tool of a call, with such arguments.
fn is_valid(call: &Call, server: &Server) -> bool {
    let none = json!({});
    let args = call.params.get("arguments").unwrap_or(&none);
    server.locked.tools.get(call.name()).is_some_and(|tool| tool.input_schema.faults(args, &[]).is_empty())
}

/// The name of an eval: that of its file, or if that is `eval`, that of its directory.
fn eval_name(path: &Path) -> Result<String, Fault> {
    let stem = name_of(path)?;
    let dir = path.parent().unwrap_or(Path::new(""));
    Ok(if stem == "eval" { folder_name(dir).unwrap_or(stem) } else { stem })
}

/// The paths of the files of an eval: its first task, the script of its agent, its servers, the lock, and the eval
/// itself.
fn places(eval: &Path) -> [PathBuf; 5] {
    let beside = |name| eval.with_file_name(name);
    [beside("tasks/first.yaml"), beside("oracle.yaml"), beside("mcp.yaml"), beside(FILE_NAME), eval.to_owned()]
}

/// These files with their texts.
fn eval_files(path: &Path, name: &str, server: &Server, recorded: Option<&Recorded>) -> Vec<(PathBuf, String)> {
    let config = json!({ "mcpServers": { &server.name: server.config } });
    let mut locked = Lock { version: 1, ..Lock::default() };
    locked.servers.insert(server.name.clone(), server.locked.clone());
    let texts = [
        portable("first", Some(server)),
        scripted(server, recorded),
        format!("# The servers. `gevals lock` asks them for their tools again.\n{}", yaml(&config)),
        crate::yaml::write(&locked).unwrap_or_default(),
        suite(name, server, recorded),
    ];
    places(path).into_iter().zip(texts).collect()
}

fn task_text(name: &str, dialect: Form, server: Option<&Server>) -> String {
    match dialect {
        Form::Portable => portable(name, server),
        Form::Steps => steps(name),
        Form::Legacy => legacy(name),
    }
}

/// The files that `gevals new` would write for a task or an eval, for `gevals mcp`.
pub(super) fn first_files(path: &Path, dialect: Option<Form>) -> Result<Vec<(PathBuf, String)>, String> {
    let said = |(_, why): Fault| why;
    match dialect {
        Some(dialect) => {
            let path = yaml_file(path, "task");
            let text = task_text(&name_of(&path).map_err(said)?, dialect, None);
            Ok(vec![(path, text)])
        }
        None => {
            let path = eval_file(path);
            let name = eval_name(&path).map_err(said)?;
            Ok(eval_files(&path, &name, &demo(), None))
        }
    }
}

/// Writes new files: all, or none if one of them already exists.
pub(super) fn write_new(files: &[(PathBuf, String)]) -> Result<(), String> {
    let said = |(_, why): Fault| why;
    refuse_existing(files.iter().map(|(path, _)| path.as_path())).map_err(said)?;
    files.iter().try_for_each(|(path, text)| write(path, text).map_err(said))
}

/// The server that is always available. Its tools are known without starting it.
fn demo() -> Server {
    let tools = demo::listed()
        .map(|(name, description, schema)| (name, LockedTool { description, input_schema: Schema::new(schema) }));
    Server {
        name: "notes".to_owned(),
        config: json!({ "command": "gevals", "args": ["demo-server"], "enableAllTools": true }),
        locked: LockedServer { version: env!("CARGO_PKG_VERSION").to_owned(), tools: tools.collect() },
        hints: IndexMap::new(),
    }
}

/// `NAME` becomes `NAME.yaml`.
fn yaml_file(path: &Path, what: &str) -> PathBuf {
    match path.extension().and_then(|e| e.to_str()) {
        Some("yaml" | "yml" | "json") => path.to_owned(),
        _ if path.as_os_str().is_empty() => PathBuf::from(format!("{what}.yaml")),
        _ => PathBuf::from(format!("{}.yaml", path.display())),
    }
}

/// The same for an eval. A path that ends with `/` is a directory, whether it exists or not.
fn eval_file(path: &Path) -> PathBuf {
    if path.to_string_lossy().ends_with('/') { path.join("eval.yaml") } else { yaml_file(path, "eval") }
}

fn name_of(path: &Path) -> Result<String, Fault> {
    let stem = path.file_stem().and_then(|s| s.to_str()).unwrap_or_default();
    let fits = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    // A name that starts with a dot is hidden; a directory (`.`, `tasks/`) would also result in such a name.
    if stem.is_empty() || stem.starts_with('.') || !stem.chars().all(fits) {
        return Err((
            status::USAGE,
            format!(
                "cannot derive a name from `{}`: use letters, digits, `-`, `_` and, except at the start, `.`",
                path.display()
            ),
        ));
    }
    Ok(stem.to_owned())
}

/// The name of the directory to which an eval is written.
fn folder_name(dir: &Path) -> Option<String> {
    let dir = if dir.as_os_str().is_empty() { std::env::current_dir().ok()? } else { dir.canonicalize().ok()? };
    let name = dir.file_name()?.to_str()?.to_owned();
    name.chars().all(|c| c.is_alphanumeric() || "-_.".contains(c)).then_some(name)
}

fn refuse_existing<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Result<(), Fault> {
    let there: Vec<_> = paths.into_iter().filter(|p| Disk.stat(p).is_some()).collect();
    if there.is_empty() {
        return Ok(());
    }
    let names: Vec<_> = there.iter().map(|p| format!("`{}`", p.display())).collect();
    let exist = if there.len() == 1 { "exists" } else { "exist" };
    Err((status::USAGE, format!("{} already {exist}; nothing was written", names.join(", "))))
}

fn write(path: &Path, text: &str) -> Result<(), Fault> {
    let fault = |e: std::io::Error| (status::BROKEN, format!("cannot write `{}`: {e}", path.display()));
    if let Some(dir) = path.parent().filter(|d| !d.as_os_str().is_empty()) {
        std::fs::create_dir_all(dir).map_err(fault)?;
    }
    write_atomic(path, text.as_bytes()).map_err(fault)
}

/// The run of a recording that has the most calls of tools of the server, with only these calls.
fn recorded(path: &Path, from: &From) -> Result<Recorded, Fault> {
    let fault = |why: String| (status::USAGE, format!("cannot read the recording `{}`: {why}", path.display()));
    let bytes = Disk.read(path).map_err(|e| fault(e.to_string()))?;
    let mut runs = recording::runs(&String::from_utf8_lossy(&bytes)).map_err(fault)?;
    for run in &mut runs {
        run.calls.retain(|call| call.method == "tools/call");
        let first = run.calls.first().map(|call| call.server.clone());
        let server = from.server_name.clone().or(first);
        run.calls.retain(|call| Some(&call.server) == server.as_ref());
    }
    let most = runs.into_iter().max_by_key(|run| run.calls.len()).filter(|run| !run.calls.is_empty());
    most.ok_or_else(|| fault("it contains no call of a tool of this server".to_owned()))
}

/// The server of `--from-server`. `otherwise` is its name if none is given.
fn server(from: &From, otherwise: Option<String>) -> Result<Option<Server>, Fault> {
    let Some(command) = &from.from_server else { return Ok(None) };
    let (config, words) = match command.contains("://") {
        true => (json!({ "url": command }), vec![command.trim_end_matches('/').to_owned()]),
        false => {
            let words = words(command).map_err(|why| (status::USAGE, format!("`{command}`: {why}")))?;
            let Some((program, args)) = words.split_first() else {
                return Err((status::USAGE, "--from-server contains no command".to_owned()));
            };
            let mut config = json!({ "command": program });
            if !args.is_empty() {
                config["args"] = json!(args);
            }
            (config, words)
        }
    };
    let name = from.server_name.clone().or(otherwise).unwrap_or_else(|| server_name(&words));
    ask(&name, config).map(Some)
}

/// Makes relative paths in the command of a server relative to the directory of its MCP config, in which it will be
/// started, instead of the current directory. What does not exist is not a path, like the name of a package.
fn rebase(config: &mut Value, dir: &Path) {
    let Ok(dir) = std::path::absolute(dir).map(|dir| normalize(&dir)) else { return };
    if std::env::current_dir().is_ok_and(|here| normalize(&here) == dir) {
        return;
    }
    let rebased = |word: &str| {
        let path = Path::new(word);
        let there = std::path::absolute(path).ok().filter(|_| path.is_relative() && Disk.stat(path).is_some())?;
        let moved = relative(&dir, &normalize(&there)).to_string_lossy().into_owned();
        Some(if moved.starts_with("..") { moved } else { format!("./{moved}") })
    };
    let mut replace = |word: &mut Value| {
        // A word without a slash may be a subcommand.
        let path = word.as_str().filter(|word| word.contains('/') || matches!(*word, "." | ".."));
        if let Some(moved) = path.and_then(rebased) {
            *word = Value::from(moved);
        }
    };
    config.get_mut("command").into_iter().for_each(&mut replace);
    config.get_mut("args").and_then(Value::as_array_mut).into_iter().flatten().for_each(replace);
}

/// Starts a server as described by an MCP config, and asks for its tools.
fn ask(name: &str, mut config: Value) -> Result<Server, Fault> {
    config["enableAllTools"] = json!(true);
    let text = |key: &str| config.get(key).and_then(Value::as_str).map(str::to_owned);
    let transport = match (text("url"), text("command")) {
        (Some(url), _) => Transport::Http { url, headers: IndexMap::new() },
        (None, command) => {
            let own = std::env::current_exe().ok().map(|p| p.to_string_lossy().into_owned());
            let command = command.filter(|c| c != "gevals").or(own).unwrap_or_default();
            let args = config.get("args").and_then(Value::as_array).into_iter().flatten();
            let args = args.filter_map(|a| a.as_str().map(str::to_owned)).collect();
            Transport::Stdio { command, args, env: IndexMap::new(), cwd: None }
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|e| (status::BROKEN, format!("cannot start: {e}")))?;
    let spec = ServerSpec { name: name.to_owned(), transport };
    let (locked, hints) = runtime.block_on(super::lock::ask_all(spec)).map_err(|why| (status::BROKEN, why))?;
    Ok(Server { name: name.to_owned(), config, locked, hints })
}

/// The words of a command line, with quotes as in a shell; nothing is expanded.
fn words(line: &str) -> Result<Vec<String>, &'static str> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(chars.next()),
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    if quote.is_some() { Err("a quote is not closed") } else { Ok(words) }
}

/// `everything` of `npx -y @modelcontextprotocol/server-everything@1.2`.
fn server_name(words: &[String]) -> String {
    let launchers = ["npx", "uvx", "uv", "node", "python", "python3", "docker", "podman", "sh", "bash", "env"];
    let named = words.iter().filter(|w| !w.starts_with('-') && !launchers.contains(&w.as_str()) && *w != "run");
    let word = named.map(String::as_str).next().or(words.first().map(String::as_str)).unwrap_or_default();
    let word = word.split_once("://").map_or(word, |(_, rest)| rest.split(['/', ':']).next().unwrap_or_default());
    let last = word.rsplit('/').find(|part| !part.is_empty()).unwrap_or_default();
    let last = last.split_once('@').map_or(last, |(name, _)| name);
    let last = last.split(['.', ':', '=']).next().unwrap_or_default();
    let bare = last.trim_start_matches("mcp-server-").trim_start_matches("server-").trim_start_matches("mcp-");
    let bare = bare.trim_end_matches("-mcp-server").trim_end_matches("-server").trim_end_matches("-mcp");
    let name: String = bare.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' }).collect();
    let name = name.trim_matches('-').to_owned();
    if name.starts_with(|c: char| c.is_ascii_alphabetic()) { name } else { "server".to_owned() }
}

/// A tool, and the arguments for calling it.
struct Guess<'a> {
    tool: &'a str,
    args: Value,
    /// The arguments whose values are made up.
    made_up: Vec<String>,
}

/// Words in the names of tools that only read, and of tools that change something.
const LOOKS: [&str; 14] = [
    "echo", "list", "get", "read", "search", "find", "show", "status", "info", "describe", "query", "count", "current",
    "fetch",
];
const CHANGES: [&str; 40] = [
    "create", "write", "delete", "remove", "update", "set", "add", "edit", "move", "rename", "insert", "drop",
    "execute", "exec", "run", "kill", "reset", "commit", "push", "trigger", "toggle", "start", "stop", "send", "post",
    "put", "append", "close", "open", "click", "install", "apply", "checkout", "clear", "simulate", "upload",
    "navigate", "merge", "force", "process",
];
/// Words in the names of tools whose output would be stored in results but may be secret.
const SECRET: [&str; 6] = ["env", "environment", "secret", "secrets", "token", "credentials"];

/// How doubtful it is that a tool only reads (lower is more certain), according to the server's hints, then to the
/// words of its name.
fn doubt(name: &str, hints: &Value) -> u8 {
    let mut spaced = String::new();
    for c in name.chars() {
        if c.is_uppercase() {
            spaced.push(' ');
        }
        spaced.extend(c.to_lowercase());
    }
    let has = |words: &[&str]| spaced.split(|c: char| !c.is_alphanumeric()).any(|word| words.contains(&word));
    let says = |hint: &str| hints.get(hint).and_then(Value::as_bool);
    match (says("readOnlyHint"), has(&CHANGES), has(&LOOKS)) {
        _ if has(&SECRET) => 5,
        (Some(true), false, true) => 0,
        (None, false, true) => 1,
        (Some(true), ..) => 2,
        (None, false, false) => 3,
        _ => 4,
    }
}

/// The tool that is most likely to answer and to only read: preferably one whose arguments are all known, of these one
/// that reads, and of these the one with the fewest required arguments.
fn a_tool(server: &Server) -> Option<Guess<'_>> {
    let folder = server.folder();
    let known = |name: &str| known(name, folder.as_deref());
    let needs =
        |tool: &LockedTool| tool.input_schema.json().get("required").and_then(Value::as_array).map_or(0, Vec::len);
    let rank = |name: &String, tool: &LockedTool| {
        let doubt = doubt(name, server.hints.get(name).unwrap_or(&Value::Null));
        let made_up = sample(tool.input_schema.json(), &known).made_up.len();
        // A tool that changes something is the last resort, even if it takes no arguments.
        (doubt >= 4, made_up, doubt, needs(tool))
    };
    let (name, tool) = server.locked.tools.iter().min_by_key(|(name, tool)| rank(name, tool))?;
    let Sample { arguments, made_up } = sample(tool.input_schema.json(), &known);
    Some(Guess { tool: name, args: Value::Object(arguments), made_up })
}

/// A value for an argument with this name; `folder` is a directory that the server was given.
fn known(name: &str, folder: Option<&str>) -> Option<Value> {
    let name = name.to_lowercase().replace(['_', '-'], "");
    let ends = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
    if ends(&["path", "dir", "directory", "folder", "repo", "repository", "root", "cwd"]) && !name.contains("file") {
        return folder.map(|folder| json!(folder));
    }
    let values = [
        (&["timezone", "tz"][..], "UTC"),
        (&["command", "cmd"][..], "echo hello"),
        (&["expression"][..], "1 + 1"),
        (&["sql"][..], "SELECT 1"),
    ];
    values.into_iter().find(|(names, _)| ends(names)).map(|(_, value)| json!(value))
}

/// A message about the values in the first task's call that could not be guessed, and where they are.
fn unknown(server: &Server, files: &[PathBuf]) -> Option<String> {
    let call = a_tool(server)?;
    let names: Vec<String> = call.made_up.iter().map(|name| format!("`{name}`")).collect();
    let (is, it) = if names.len() == 1 { ("is", "its value") } else { ("are", "their values") };
    let places: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "before you run it: {} of the tool `{}` {is} made up; write {it} into {}\n",
            names.join(" and "),
            call.tool,
            places.join(" and ")
        )
    })
}

/// Flow YAML. JSON is YAML, except for text that would be read as a hole.
fn flow(value: &Value) -> String {
    value.to_string()
}

fn yaml(value: &Value) -> String {
    crate::yaml::write(value).unwrap_or_default()
}

/// A YAML scalar, quoted if necessary: `2024` would be a number, and some parsers read `n` as false.
fn word(text: &str) -> String {
    const OTHERS: [&str; 9] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_alphanumeric() || "-_./".contains(c))
        && !OTHERS.contains(&text.to_lowercase().as_str());
    if plain { text.to_owned() } else { flow(&json!(text)) }
}

/// The tools of the server, as comments.
fn tools(server: &Server) -> String {
    let line = |(name, tool): (&String, &LockedTool)| {
        let about: String = tool.description.lines().next().unwrap_or_default().chars().take(80).collect();
        let required = tool.input_schema.json().get("required").and_then(Value::as_array).into_iter().flatten();
        let required: Vec<_> = required.filter_map(Value::as_str).collect();
        format!("#   {name}({}){}{about}\n", required.join(", "), if about.is_empty() { "" } else { "  " })
    };
    let lines: String = server.locked.tools.iter().map(line).collect();
    format!("# The tools of `{}`, with the arguments they need:\n{lines}", server.name)
}

fn portable(name: &str, server: Option<&Server>) -> String {
    let head = |about: &str| {
        format!(
            "# What an agent is asked to do, and how the result is verified. All keys: `gevals schema task`.\n{about}kind: Task\napiVersion: mcp-eval/v1\nmetadata:\n  name: {}\n  difficulty: easy\n  timeout: 5m\n",
            word(name)
        )
    };
    let called = server.and_then(|s| Some((s, a_tool(s)?)));
    match called {
        Some((server, Guess { tool, args, made_up })) => format!(
            "{}spec:
  requires:
    - mcpServer: {named}         # its tools become steps: {server}.TOOL
  prompt: |
    Use the tool {tool}, and tell me what it says.
  # These steps decide the verdict. Describe what must be true when the job is done: a step with an expectation can fail.
  verify:
    - {server}.{tool}:
        args: {}{}
        expect: {{isError: false}}      # add what it must answer: `content: {{contains: …}}`
    - command:
        run: test -n \"$ANSWER\"
        env: {{ANSWER: \"{{agent.output}}\"}}
  # Remove what setup and the agent created. Cleanup always runs, in reverse order.
  cleanup: []
",
            head(&tools(server)),
            flow(&args),
            if made_up.is_empty() { String::new() } else { format!("      # made up: {}", made_up.join(", ")) },
            named = word(&server.name),
            server = server.name
        ),
        _ => format!(
            "{}spec:
  env:
    FILE: /tmp/{name}-{{random.id}}.txt   # new in every run, so that runs do not conflict
  prompt: |
    Write the word \"hello\" into the file {{env.FILE}}.
  # These steps decide the verdict. Describe what must be true when the job is done.
  verify:
    - file:
        path: \"{{env.FILE}}\"
        expect: {{contains: hello}}
  # Remove what setup and the agent created. Cleanup always runs, in reverse order.
  cleanup:
    - file:
        path: \"{{env.FILE}}\"
        absent: true
",
            head("")
        ),
    }
}

fn steps(name: &str) -> String {
    format!(
        "# What an agent is asked to do, and how the result is verified.
kind: Task
apiVersion: mcpchecker/v1alpha2
metadata:
  name: {word}
  difficulty: easy
spec:
  limits: {{timeout: 5m, cleanupTimeout: 1m}}
  prompt:
    inline: Write the word \"hello\" into the file /tmp/gevals-{name}.txt.
  setup:
    - script:
        inline: rm -f /tmp/gevals-{name}.txt
  verify:
    - script:
        inline: grep -q hello /tmp/gevals-{name}.txt
  cleanup:
    - script:
        inline: rm -f /tmp/gevals-{name}.txt
",
        word = word(name)
    )
}

fn legacy(name: &str) -> String {
    format!(
        "# What an agent is asked to do, and how the result is verified.
kind: Task
metadata:
  name: {word}
  difficulty: easy
steps:
  setup:
    inline: rm -f /tmp/gevals-{name}.txt
  prompt:
    inline: Write the word \"hello\" into the file /tmp/gevals-{name}.txt.
  verify:
    inline: grep -q hello /tmp/gevals-{name}.txt
  cleanup:
    inline: rm -f /tmp/gevals-{name}.txt
",
        word = word(name)
    )
}

/// Escapes the texts of a value, so that none is read as a hole.
fn as_it_is(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(crate::template::escape(text)),
        Value::Array(items) => items.iter().map(as_it_is).collect(),
        Value::Object(fields) => {
            Value::Object(fields.iter().map(|(key, value)| (key.clone(), as_it_is(value))).collect())
        }
        other => other.clone(),
    }
}

/// The script of the agent for the first task.
fn scripted(server: &Server, recorded: Option<&Recorded>) -> String {
    let calls: Vec<(&str, Value)> = match recorded {
        Some(run) => {
            let args = |call: &Call| call.params.get("arguments").map_or_else(|| json!({}), as_it_is);
            run.calls.iter().map(|call| (call.name(), args(call))).collect()
        }
        None => a_tool(server).map(|guess| (guess.tool, guess.args)).into_iter().collect(),
    };
    let line = |(tool, args): &(&str, Value)| {
        format!("      - {{server: {}, tool: {}, args: {}}}\n", word(&server.name), word(tool), flow(args))
    };
    let lines: String = calls.iter().map(line).collect();
    let said = recorded.map(|run| run.output.trim()).filter(|said| !said.is_empty()).map(crate::template::escape);
    let said = said.as_deref().unwrap_or("Done.");
    format!(
        "# What the scripted agent does in each task. It needs no model: use it to test that a task can be done.
kind: Oracle
tasks:
  first:
{}{lines}    output: {}
",
        if lines.is_empty() { "" } else { "    calls:\n" },
        word(said)
    )
}

fn suite(name: &str, server: &Server, recorded: Option<&Recorded>) -> String {
    let tools: IndexSet<&str> = match recorded {
        Some(run) => run.calls.iter().filter(|call| call.succeeded()).map(Call::name).collect(),
        None => a_tool(server).map(|guess| guess.tool).into_iter().collect(),
    };
    let line = |tool: &&str| format!("          - {{server: {}, tool: {}}}\n", word(&server.name), word(tool));
    let lines: String = tools.iter().map(line).collect();
    let asserted = match lines.is_empty() {
        true => String::new(),
        false => format!(
            "      # What the agent must have called.
      assertions:
        toolsUsed:
{lines}"
        ),
    };
    format!(
        "# An eval: which agent does which tasks on which servers.
kind: Eval
metadata:
  name: {}
config:
  agent:
    type: builtin.script          # put a real agent here: {{type: file, path: agent.yaml}}
    path: oracle.yaml
  mcpConfigFile: mcp.yaml
  taskSets:
    - path: tasks/first.yaml
{asserted}",
        word(name)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_are_split_into_words() {
        assert_eq!(words(r#"a 'b c'  "d\"e" f\ g '' "#), Ok(["a", "b c", "d\"e", "f g", ""].map(str::to_owned).into()));
        assert_eq!(words(""), Ok(Vec::new()));
        assert!(words("a 'b").is_err());
    }

    #[test]
    fn words_are_quoted_as_yaml_strings() {
        for text in ["n", "Yes", "2024", "1e3", "-", "a b", "null", ".5", "first", "create-note", "tasks/a.yaml"] {
            let read: Value = serde_yaml::from_str(&word(text)).unwrap();
            assert_eq!(read, text);
        }
        assert_eq!((word("first").as_str(), word("n").as_str()), ("first", "\"n\""));
    }

    #[test]
    fn servers_are_named_after_their_programs() {
        let named = |line: &str| server_name(&words(line).unwrap_or_default());
        for (line, name) in [
            ("npx -y @modelcontextprotocol/server-everything@2025.9.25", "everything"),
            ("uvx mcp-server-git --repository .", "git"),
            ("./bin/kubernetes-mcp-server --read-only", "kubernetes"),
            ("gevals demo-server", "gevals"),
            ("https://example.org/mcp", "example"),
            ("http://127.0.0.1:8080/mcp", "server"),
            ("node server.js", "server"),
            ("", "server"),
        ] {
            assert_eq!(named(line), name, "{line}");
        }
    }
}
