//! The program that replaces a command in the jail: it records that it was called, and answers as the world says.
#![expect(clippy::disallowed_methods, reason = "this is a program of its own")]

use std::{
    fs,
    io::{Read, Write},
    os::unix::process::{CommandExt, ExitStatusExt},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use super::{
    curl, kubectl, pure,
    trace::{self, PAUSE, record},
    world::{Answer, Call, Given, HANGS, WORLD, World, hang, has_hung, patience},
};
use crate::source::normalize;

/// The file in which the jail keeps the time that was slept.
pub const SLEPT: &str = "/world/slept";
/// How many seconds a script may take if nothing else is specified.
const PATIENCE: f64 = 300.0;
/// How often a script may sleep in a hasty world.
const HASTE: u32 = 6;
/// After so many short sleeps of a script, time passes faster, and doubles its speed after so many more.
const TIGHT: f64 = 60.0;
const DOUBLES: f64 = 4.0;
/// The time in every world, as `date` prints it.
pub const DATE: &str = "2023-11-14T22:13:20Z";
/// The same in seconds.
pub const SECONDS: &str = "1700000000";
/// The directory of the task.
pub const TASK: &str = "/task";

/// Acts as a command, if this process was started under its name in a jail, and returns the exit status.
pub fn main() -> Option<u8> {
    let mut args = std::env::args_os();
    let name = PathBuf::from(args.next()?).file_name()?.to_str()?.to_owned();
    if name.starts_with("gevals") || !Path::new(WORLD).exists() {
        return None;
    }
    let args: Vec<String> = args.map(|a| a.to_string_lossy().into_owned()).collect();
    match name.as_str() {
        "sleep" => return Some(sleep(&args)),
        "timeout" => return Some(timeout(&args)),
        "jq" => return Some(pure::jq(&args)),
        _ => {}
    }
    if name == "date" {
        // Time stands still, so that two runs see the same.
        let text = if args.iter().any(|a| a == "+%s") { SECONDS } else { DATE };
        let _ = writeln!(std::io::stdout(), "{text}");
        return Some(0);
    }
    let world = World::read()?;
    let call = Call { argv: std::iter::once(name).chain(args).collect(), stdin: None };
    let cwd = std::env::current_dir().unwrap_or_default();
    let call = asked(&world, call, &cwd, Some(&mut std::io::stdin().lock()))?;
    if call.argv[0] == "curl" {
        return Some(curl::main(&world, &call));
    }
    let answer = answer(&world, &call, &cwd);
    if answer.status == HANGS {
        return Some(hang());
    }
    let _ = std::io::stdout().write_all(answer.stdout.as_bytes());
    let _ = std::io::stderr().write_all(answer.stderr.as_bytes());
    Some(status(&answer))
}

/// Records that a command was called, and returns its answer.
pub fn answer(world: &World, call: &Call, cwd: &Path) -> Answer {
    let time = record(call);
    let answer = world.answer(call, time);
    let answer = if world.operations { kubectl::consistent(call, answer) } else { answer };
    // A command that prints nothing has done nothing. One that prints what is expected has done it, whatever its status.
    let has_done_it = match world.gives(call, time) {
        Some(Given::Silent) => false,
        Some(Given::FailsSaying) => true,
        _ => answer.status == 0,
    };
    if has_done_it {
        make(call, cwd);
    }
    match patience(call).filter(|_| answer.status == 0 && world.gives(call, time) == Some(&Given::Slow)) {
        Some(takes) if pass(takes.as_secs_f64()) => Answer { status: HANGS, ..Answer::default() },
        _ => answer,
    }
}

/// Lets time pass for a script. Returns whether it is killed, because it takes too long.
fn pass(seconds: f64) -> bool {
    let before = Slept::read();
    let now = Slept { time: before.time + seconds, ..before };
    now.write();
    now.time >= now.limit
}

/// Creates what a command leaves for later ones to enter or to read: a repository, a database.
fn make(call: &Call, cwd: &Path) {
    let words: Vec<&str> = call.argv.iter().map(String::as_str).collect();
    let plain = |words: &[&str], valued: &[&str]| {
        let is_value = |at: usize| at > 0 && valued.contains(&words[at - 1]);
        let plain = words.iter().enumerate().filter(|(at, word)| !word.starts_with('-') && !is_value(*at));
        plain.map(|(_, word)| (*word).to_owned()).collect::<Vec<_>>()
    };
    match words.as_slice() {
        ["git", rest @ ..] => {
            const VALUED: [&str; 8] =
                ["-b", "--branch", "--initial-branch", "--depth", "-o", "--origin", "-c", "--config"];
            let Some(verb) = rest.iter().position(|word| matches!(*word, "init" | "clone")) else { return };
            let from = rest[..verb].iter().position(|word| *word == "-C").and_then(|at| rest.get(at + 1));
            let plain = plain(&rest[verb + 1..], &VALUED);
            let folder = match (rest[verb], plain.as_slice()) {
                ("init", [folder, ..]) | ("clone", [_, folder, ..]) => folder.as_str(),
                ("clone", [url]) => {
                    url.trim_end_matches('/').trim_end_matches(".git").rsplit(['/', ':']).next().unwrap_or_default()
                }
                _ => return,
            };
            let _ = fs::create_dir_all(cwd.join(from.unwrap_or(&"")).join(folder));
        }
        ["sqlite3", rest @ ..] => {
            let plain = plain(rest, &["-separator", "-cmd", "-newline", "-nullvalue"]);
            let Some((file, said)) = plain.split_first() else { return };
            let writes = |sql: &String| ["create", "insert"].iter().any(|word| sql.to_ascii_lowercase().contains(word));
            let path = cwd.join(file);
            if (said.is_empty() || said.iter().any(writes)) && !path.exists() && !file.starts_with(':') {
                let _ = fs::write(path, "SQLite format 3\n");
            }
        }
        _ => {}
    }
}

/// The exit status of a command with this answer.
pub fn status(answer: &Answer) -> u8 {
    u8::try_from(answer.status).unwrap_or(1)
}

/// For how long and how often a script has slept, and for how long and how often it may.
struct Slept {
    time: f64,
    rounds: f64,
    limit: f64,
    most: f64,
    /// 1 if short sleeps are only in loops that end by nothing but their condition.
    endless: f64,
}

impl Slept {
    fn read() -> Self {
        let text = fs::read_to_string(SLEPT).unwrap_or_default();
        let mut numbers = text.split_whitespace().map(|number| number.parse::<f64>().ok());
        let mut next = |default: f64| numbers.next().flatten().unwrap_or(default);
        Self {
            time: next(0.0),
            rounds: next(0.0),
            limit: next(PATIENCE),
            most: next(f64::INFINITY),
            endless: next(0.0),
        }
    }

    fn write(&self) {
        let Self { time, rounds, limit, most, endless } = self;
        let _ = fs::write(SLEPT, format!("{time} {rounds} {limit} {most} {endless}\n"));
    }
}

/// `timeout 60 bash -c …`: the limit is one of the time of the jail.
fn timeout(args: &[String]) -> u8 {
    let mut words = args.iter().map(String::as_str).peekable();
    let mut killing = false;
    while let Some(option) = words.next_if(|word| word.starts_with('-')) {
        let value = if matches!(option, "-k" | "-s" | "--kill-after" | "--signal") { words.next() } else { None };
        killing |= option.contains("KILL") || value.is_some_and(|value| value.contains("KILL"));
    }
    let (Some(time), Some(program)) = (words.next().and_then(seconds), words.next()) else { return 125 };
    let before = Slept::read();
    let end = if time > 0.0 { before.time + time } else { f64::INFINITY };
    Slept { limit: before.limit.min(end), ..before }.write();
    let started = Command::new(program).args(words).process_group(0).status();
    let now = Slept::read();
    let late = has_hung() || now.time >= now.limit;
    Slept { limit: before.limit, time: if late { now.time.min(end) } else { now.time }, ..now }.write();
    match started {
        Err(why) => 126 + u8::from(why.kind() == std::io::ErrorKind::NotFound),
        // Another limit than this one has run out.
        Ok(_) if late && (end >= before.limit || now.rounds > now.most) => hang(),
        Ok(_) if late => {
            trace::append(PAUSE);
            Slept { time: end, limit: before.limit, ..now }.write();
            if killing { 137 } else { 124 }
        }
        Ok(status) => status
            .code()
            .or(status.signal().map(|signal| 128 + signal))
            .and_then(|code| u8::try_from(code).ok())
            .unwrap_or(1),
    }
}

/// Takes no real time. A script that sleeps too long is killed, like one that takes too long.
fn sleep(args: &[String]) -> u8 {
    let Slept { time, rounds, limit, most, endless } = Slept::read();
    let rounds = rounds + 1.0;
    let asked = args.iter().map(|arg| seconds(arg).unwrap_or(1.0)).sum::<f64>();
    // `until A; do sleep 0.2; done` would take thousands of rounds. A loop that counts its rounds must see all of them.
    let sped = if asked < 1.0 && endless > 0.0 { ((rounds - TIGHT) / DOUBLES).max(0.0).exp2() } else { 1.0 };
    let time = time + asked * sped;
    Slept { time, rounds, limit, most, endless }.write();
    trace::append(PAUSE);
    if time >= limit || rounds > most { hang() } else { 0 }
}

/// `5`, `0.5s`, `2m`
fn seconds(text: &str) -> Option<f64> {
    let units = [('s', 1.0), ('m', 60.0), ('h', 3600.0), ('d', 86400.0)];
    let unit = units.into_iter().find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)));
    let (number, unit) = unit.unwrap_or((text, 1.0));
    Some(number.parse::<f64>().ok()? * unit)
}

/// Prepares for a new script, which has slept for no time and in which nothing has hung.
pub fn wake(limit: Duration, world: &World) {
    let most = if world.hasty { HASTE } else { u32::MAX };
    let endless = u8::from(world.endless);
    let _ = fs::write(SLEPT, format!("0 0 {} {most} {endless}\n", limit.as_secs_f64()));
    has_hung();
}

/// For how long the script has slept.
pub fn slept() -> Duration {
    let text = fs::read_to_string(SLEPT).unwrap_or_default();
    let seconds = text.split(' ').next().and_then(|number| number.parse().ok());
    seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).unwrap_or_default()
}

/// The call, independent of how it was written: a file that is passed by name counts as its text. `None` if it is to read standard
/// input, and there is none.
pub fn asked(world: &World, call: Call, cwd: &Path, mut input: Option<&mut dyn Read>) -> Option<Call> {
    let mut stdin = call.stdin;
    let mut args = call.argv.into_iter();
    let mut argv: Vec<String> = args.by_ref().take(1).collect();
    let mut file_next = false;
    let mut cluster = matches!(argv[0].as_str(), "kubectl" | "oc");
    for arg in args {
        // The words after it belong to another command.
        cluster &= arg != "--";
        let handed = std::mem::take(&mut file_next);
        if handed && arg == "-" {
            argv.push("-".to_owned());
            if stdin.is_some() {
                continue;
            }
            let mut text = Vec::new();
            let _ = input.as_mut()?.read_to_end(&mut text);
            stdin = Some(manifest(&text));
            continue;
        }
        let path = normalize(&cwd.join(&arg));
        if handed && cluster && path.is_file() {
            stdin = Some(manifest(&fs::read(&path).unwrap_or_default()));
            argv.push("-".to_owned());
            continue;
        }
        if handed && cluster && path.is_dir() {
            let read = |path: &PathBuf| fs::read(path).unwrap_or_default();
            stdin = Some(manifests(&path).iter().map(|path| manifest(&read(path))).collect::<Vec<_>>().join("---\n"));
            argv.push("-".to_owned());
            continue;
        }
        file_next = cluster && matches!(arg.as_str(), "-f" | "--filename");
        argv.push(in_task(&arg, cwd).unwrap_or_else(|| fixed(&arg)));
    }
    if stdin.is_none()
        && reads_input(&argv)
        && let Some(input) = input.as_mut()
    {
        let mut text = Vec::new();
        let _ = input.read_to_end(&mut text);
        stdin = Some(manifest(&text)).filter(|text| !text.is_empty());
    }
    // The working directory is part of the input, except for commands that do not depend on it. A command that names a file depends on it.
    let placeless = ["kubectl", "oc", "helm", "curl", "wget", "sleep", "date", "command", "http"];
    let is_placeless = placeless.contains(&argv[0].as_str()) && !argv[1..].iter().any(|word| names_file(word, cwd));
    if stdin.is_none() && cwd != Path::new(TASK) && !is_placeless {
        stdin = Some(format!("in {}", cwd.display()));
    }
    let call = Call { argv, stdin };
    Some(if world.operations { kubectl::normal(call) } else { call })
}

/// An argument that names a file of the task, as calls record it: with the path from the task's directory, also in
/// `--from-file=./web.yaml` and `@./body.json`. `None` if it names none.
pub fn in_task(arg: &str, cwd: &Path) -> Option<String> {
    let value = arg.find(['=', '@']).map_or(0, |at| at + 1);
    [0, value].into_iter().find_map(|at| {
        let word = &arg[at..];
        let path = word.contains('/').then(|| normalize(&cwd.join(word)))?;
        let inside = path.strip_prefix(TASK).ok()?;
        let is_path = word.starts_with("./") || word.starts_with("../") || path.exists();
        is_path.then(|| format!("{}{}", &arg[..at], inside.display()))
    })
}

/// Whether a word names an existing file by a relative path: `--cert=tls.crt`.
fn names_file(word: &str, cwd: &Path) -> bool {
    let path = word.rsplit('=').next().unwrap_or(word);
    !path.is_empty() && !path.starts_with(['/', '-']) && cwd.join(path).is_file()
}

/// Whether a client of a database reads its statements from standard input, because no word contains or names them.
fn reads_input(argv: &[String]) -> bool {
    let Some((name, words)) = argv.split_first() else { return false };
    let short = |letters: &[char]| {
        words.iter().any(|word| word.starts_with('-') && !word.starts_with("--") && word.ends_with(letters))
    };
    let long = |names: &[&str]| words.iter().any(|word| names.iter().any(|name| word.starts_with(name)));
    match name.as_str() {
        "psql" => !short(&['c', 'f']) && !long(&["--command", "--file"]),
        "mysql" | "mariadb" => !short(&['e']) && !long(&["--execute"]),
        // The file, and no statement.
        "sqlite3" => words.iter().filter(|word| !word.starts_with('-')).count() <= 1,
        "mongosh" => !short(&['f']) && !long(&["--eval", "--file"]),
        _ => false,
    }
}

/// The programs that may read statements from standard input.
pub const DATABASES: [&str; 5] = ["psql", "mysql", "mariadb", "sqlite3", "mongosh"];

/// The manifests of a directory, in the order in which kubectl reads them.
fn manifests(folder: &Path) -> Vec<PathBuf> {
    let is_manifest = |path: &PathBuf| {
        path.is_file() && path.extension().is_some_and(|end| end == "yaml" || end == "yml" || end == "json")
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<PathBuf> = entries.filter(is_manifest).collect();
    found.sort();
    found
}

/// A manifest without the line feeds at its end, which do not change its meaning.
fn manifest(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let body = text.trim_end_matches('\n');
    if body.is_empty() { String::new() } else { format!("{body}\n") }
}

/// A word without the random part of names from `mktemp`, which differs from run to run.
fn fixed(arg: &str) -> String {
    const MADE: &str = "/tmp/tmp.";
    let mut out = String::new();
    let mut rest = arg;
    while let Some((before, behind)) = rest.split_once(MADE) {
        out += before;
        out += MADE;
        rest = behind.trim_start_matches(|c: char| c.is_ascii_alphanumeric());
    }
    out + rest
}
