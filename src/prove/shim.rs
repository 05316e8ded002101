//! What stands in the place of a command in the jail: it writes down that it was called, and answers as the world says.
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
    curl, kubectl,
    trace::{self, PAUSE, record},
    world::{Answer, Call, Given, HANGS, WORLD, World, hang, has_hung},
};
use crate::source::normalize;

/// Where the jail keeps the time that was slept.
pub const SLEPT: &str = "/world/slept";
/// Seconds a script may take, where nothing else is said.
const PATIENCE: f64 = 300.0;
/// So often a script sleeps in a world that is hasty.
const HASTE: u32 = 6;
/// The time of each world, as `date` prints it.
pub const DATE: &str = "2023-11-14T22:13:20Z";
/// The same in seconds.
pub const SECONDS: &str = "1700000000";
/// Where the task lies.
pub const TASK: &str = "/task";

/// Whether this process was started under the name of a command, in a jail; then its exit status.
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
        _ => {}
    }
    if name == "date" {
        // Time stands still; two runs see the same.
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

/// What a command says, and writes down that it was asked.
pub fn answer(world: &World, call: &Call, cwd: &Path) -> Answer {
    let time = record(call);
    let answer = world.answer(call, time);
    let answer = if world.operations { kubectl::consistent(call, answer) } else { answer };
    // Who says nothing has done nothing, and who says what is waited for has done it, whatever comes then.
    let has_done_it = match world.gives(call, time) {
        Some(Given::Silent) => false,
        Some(Given::FailsSaying) => true,
        _ => answer.status == 0,
    };
    if has_done_it {
        make(call, cwd);
    }
    answer
}

/// Makes what a command leaves for those behind it to go to, or to look for: a repository, a database.
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

/// How a command ends that does.
pub fn status(answer: &Answer) -> u8 {
    u8::try_from(answer.status).unwrap_or(1)
}

/// What a script has slept, how often, for how long it may, and how often.
struct Slept {
    time: f64,
    rounds: f64,
    limit: f64,
    most: f64,
}

impl Slept {
    fn read() -> Self {
        let text = fs::read_to_string(SLEPT).unwrap_or_default();
        let mut numbers = text.split_whitespace().map(|number| number.parse::<f64>().ok());
        let mut next = |default: f64| numbers.next().flatten().unwrap_or(default);
        Self { time: next(0.0), rounds: next(0.0), limit: next(PATIENCE), most: next(f64::INFINITY) }
    }

    fn write(&self) {
        let Self { time, rounds, limit, most } = self;
        let _ = fs::write(SLEPT, format!("{time} {rounds} {limit} {most}\n"));
    }
}

/// `timeout 60 bash -c …`: the time of the jail is what runs out.
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
        // It is not this limit that has run out.
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

/// Takes no time; but who sleeps too long is killed, as a script that takes too long is.
fn sleep(args: &[String]) -> u8 {
    let Slept { time, rounds, limit, most } = Slept::read();
    let rounds = rounds + 1.0;
    let time = time + args.iter().map(|arg| seconds(arg).unwrap_or(1.0)).sum::<f64>();
    Slept { time, rounds, limit, most }.write();
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

/// A new script has all its time, and nothing in it has hung.
pub fn wake(limit: Duration, hasty: bool) {
    let most = if hasty { HASTE } else { u32::MAX };
    let _ = fs::write(SLEPT, format!("0 0 {} {most}\n", limit.as_secs_f64()));
    has_hung();
}

/// For how long it has slept.
pub fn slept() -> Duration {
    let text = fs::read_to_string(SLEPT).unwrap_or_default();
    let seconds = text.split(' ').next().and_then(|number| number.parse().ok());
    seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).unwrap_or_default()
}

/// What was asked, however it was written: a file that is handed over by its name counts as its text.
/// `None`: it is handed to its standard input, and that is not there.
pub fn asked(world: &World, call: Call, cwd: &Path, mut input: Option<&mut dyn Read>) -> Option<Call> {
    let mut stdin = call.stdin;
    let mut args = call.argv.into_iter();
    let mut argv: Vec<String> = args.by_ref().take(1).collect();
    let mut file_next = false;
    let mut cluster = matches!(argv[0].as_str(), "kubectl" | "oc");
    for arg in args {
        // Behind it stand the words of another command.
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
        argv.push(match path.strip_prefix(TASK) {
            Ok(inside) if arg.contains('/') && path.exists() => inside.to_string_lossy().into_owned(),
            _ => fixed(&arg),
        });
    }
    // The folder it runs in is a part of what it is given, save where it looks at none.
    let placeless = ["kubectl", "oc", "helm", "curl", "wget", "sleep", "date", "command", "http"];
    if stdin.is_none() && cwd != Path::new(TASK) && !placeless.contains(&argv[0].as_str()) {
        stdin = Some(format!("in {}", cwd.display()));
    }
    let call = Call { argv, stdin };
    Some(if world.operations { kubectl::normal(call) } else { call })
}

/// The manifests of a folder, in the order in which kubectl reads them.
fn manifests(folder: &Path) -> Vec<PathBuf> {
    let is_manifest = |path: &PathBuf| {
        path.is_file() && path.extension().is_some_and(|end| end == "yaml" || end == "yml" || end == "json")
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<PathBuf> = entries.filter(is_manifest).collect();
    found.sort();
    found
}

/// Blank lines at its end do not change what a manifest says.
fn manifest(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let body = text.trim_end_matches('\n');
    if body.is_empty() { String::new() } else { format!("{body}\n") }
}

/// What `mktemp` has named differs from run to run.
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
