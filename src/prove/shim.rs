//! What stands in the place of a command in the jail: it writes down that it was called, and answers as the world says.
#![expect(clippy::disallowed_methods, reason = "this is a program of its own")]

use std::{
    fs,
    io::{Read, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    curl, kubectl,
    trace::{self, PAUSE, record},
    world::{Answer, Call, HANGS, WORLD, World, hang, has_hung},
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
    if name == "sleep" {
        return Some(sleep(&args));
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
    let answer = answer(&world, &call);
    if answer.status == HANGS {
        return Some(hang());
    }
    let _ = std::io::stdout().write_all(answer.stdout.as_bytes());
    let _ = std::io::stderr().write_all(answer.stderr.as_bytes());
    Some(status(&answer))
}

/// What a command says, and writes down that it was asked.
pub fn answer(world: &World, call: &Call) -> Answer {
    let answer = world.answer(call, record(call));
    if world.operations { kubectl::consistent(call, answer) } else { answer }
}

/// How a command ends that does.
pub fn status(answer: &Answer) -> u8 {
    u8::try_from(answer.status).unwrap_or(1)
}

/// Takes no time; but who sleeps too long is killed, as a script that takes too long is.
fn sleep(args: &[String]) -> u8 {
    let before = fs::read_to_string(SLEPT).unwrap_or_default();
    let mut numbers = before.split_whitespace().map(|number| number.parse::<f64>().ok());
    let mut next = |default: f64| numbers.next().flatten().unwrap_or(default);
    let (time, rounds, limit, most) = (next(0.0), next(0.0) + 1.0, next(PATIENCE), next(f64::INFINITY));
    let time = time + args.iter().map(|arg| seconds(arg).unwrap_or(1.0)).sum::<f64>();
    let _ = fs::write(SLEPT, format!("{time} {rounds} {limit} {most}\n"));
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
