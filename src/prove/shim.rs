//! What stands in the place of a command in the jail: it writes down that it was called, and answers as the world says.
#![expect(clippy::disallowed_methods, reason = "this is a program of its own")]

use std::{
    fs,
    io::{Read, Write},
    path::Path,
};

use super::{
    curl, kubectl,
    trace::{self, PAUSE, record},
    world::{Answer, Call, HANGS, WORLD, World, hang},
};
use crate::source::normalize;

/// Where the jail keeps the time that was slept.
const SLEPT: &str = "/world/slept";
/// Seconds a script may take.
const PATIENCE: f64 = 300.0;
/// Where the task lies.
pub const TASK: &str = "/task";

/// Whether this process was started under the name of a command, in a jail; then its exit status.
pub fn main() -> Option<u8> {
    let mut args = std::env::args_os().skip(1);
    if args.next()? != ASKED || !Path::new(WORLD).exists() {
        return None;
    }
    let mut args = args.map(|a| a.to_string_lossy().into_owned());
    let name = args.next()?;
    let args: Vec<String> = args.collect();
    if name == "sleep" {
        return Some(sleep(&args));
    }
    if name == "date" {
        // Time stands still; two runs see the same.
        let text = if args.iter().any(|a| a == "+%s") { "1700000000" } else { "2023-11-14T22:13:20Z" };
        let _ = writeln!(std::io::stdout(), "{text}");
        return Some(0);
    }
    let world = World::read()?;
    let written = Call { argv: std::iter::once(name).chain(args).collect(), stdin: None };
    let call = asked(&world, written.clone());
    if call.argv[0] == "curl" {
        return Some(curl::main(&world, &call));
    }
    let nth = record(&call);
    let answer = |n| {
        let answer = world.answer(&call, n);
        if world.operations { kubectl::consistent(&call, answer) } else { answer }
    };
    let constant = answer(nth);
    // What is asked with a text is asked anew; an answer that changes is given by the dice.
    if call.stdin.is_none() && !written.argv.iter().any(|arg| arg == "-") && (0..ROUNDS).all(|n| answer(n) == constant) {
        know(&written, &call, &constant);
    }
    let answer = constant;
    if answer.status == HANGS {
        return Some(hang());
    }
    let _ = std::io::stdout().write_all(answer.stdout.as_bytes());
    let _ = std::io::stderr().write_all(answer.stderr.as_bytes());
    Some(u8::try_from(answer.status).unwrap_or(1))
}

/// By this word `shim.sh` asks.
const ASKED: &str = "prove-shim";
/// The answers that `shim.sh` gives by itself.
pub const KNOWN: &str = "/world/known";
/// A script that has asked more often has been killed for the time it took.
const ROUNDS: usize = 320;

/// Lets `shim.sh` answer this question in this world from now on.
fn know(written: &Call, call: &Call, answer: &Answer) {
    if answer.status == HANGS {
        return;
    }
    let quoted = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
    let line = serde_json::to_string(call).unwrap_or_default();
    let mut text = format!("if [ \"$asked\" = {} ]; then\n", quoted(&written.key()));
    text += &format!("printf '%s\\n' {} >>{}\n", quoted(&line), trace::TRACE);
    for (said, to) in [(&answer.stdout, ""), (&answer.stderr, " >&2")] {
        if !said.is_empty() {
            text += &format!("printf '%s' {}{to} 2>/dev/null\n", quoted(said));
        }
    }
    text += &format!("exit {}\nfi\n", answer.status);
    trace::append_to(KNOWN, &text);
}

/// Takes no time; but who sleeps too long is killed, as a script that takes too long is.
fn sleep(args: &[String]) -> u8 {
    let seconds = args.first().and_then(|a| a.trim_end_matches('s').parse::<f64>().ok()).unwrap_or(1.0);
    let before: f64 = fs::read_to_string(SLEPT).ok().and_then(|t| t.parse().ok()).unwrap_or(0.0);
    let _ = fs::write(SLEPT, (before + seconds).to_string());
    trace::append(PAUSE);
    if before + seconds >= PATIENCE { hang() } else { 0 }
}

/// A new script has all its time.
pub fn wake() {
    let _ = fs::remove_file(SLEPT);
}

/// What was asked, however it was written: a file that is handed over by its name counts as its text.
pub fn asked(world: &World, call: Call) -> Call {
    let cwd = std::env::current_dir().unwrap_or_default();
    let mut stdin = call.stdin;
    let mut args = call.argv.into_iter();
    let mut argv: Vec<String> = args.by_ref().take(1).collect();
    let mut file_next = false;
    let cluster = matches!(argv[0].as_str(), "kubectl" | "oc");
    for arg in args {
        let handed = std::mem::take(&mut file_next);
        if handed && arg == "-" {
            argv.push("-".to_owned());
            if stdin.is_some() {
                continue;
            }
            let mut text = Vec::new();
            let _ = std::io::stdin().lock().read_to_end(&mut text);
            stdin = Some(manifest(&text));
            continue;
        }
        let path = normalize(&cwd.join(&arg));
        if handed && cluster && path.is_file() {
            stdin = Some(manifest(&fs::read(&path).unwrap_or_default()));
            argv.push("-".to_owned());
            continue;
        }
        file_next = cluster && matches!(arg.as_str(), "-f" | "--filename");
        argv.push(match path.strip_prefix(TASK) {
            Ok(inside) if arg.contains('/') && path.exists() => inside.to_string_lossy().into_owned(),
            _ => fixed(&arg),
        });
    }
    let call = Call { argv, stdin };
    if world.operations { kubectl::normal(call) } else { call }
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
