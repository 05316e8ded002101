//! What the steps that run a process share: its environment, its result, a private directory.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
};

use indexmap::IndexMap;
use serde_json::Value;

use super::{Context, Done, limit};
use crate::{
    bash::tools::SHELLS,
    event::{ExitReport, Outcome},
    host::{Captured, Exec, Exit, Finished, Host, INLINE, Snapshot, StartFault},
    secrets::CUT,
    source::Stat,
};

/// How many bytes of a stream a report keeps: half from the start and half from the end.
const REPORTED: usize = 64 << 10;

/// A process with the task's variables and the step's own.
pub fn exec(cx: &Context<'_>, program: impl Into<OsString>, cwd: &Path, env: &IndexMap<String, String>) -> Exec {
    let mut exec = Exec::new(program, cwd).timeout(cx.timeout);
    let variables = cx.env.iter().map(|(name, value)| (name, value)).chain(env);
    exec.env = variables.map(|(name, value)| (name.into(), value.into())).collect();
    exec
}

/// A script file; its copy is run if there is one. A file without the executable bit, or whose copy cannot be executed directly, is run by
/// the interpreter in its first line, as the system would do.
///
/// # Errors
/// The file does not exist, or does not name an interpreter.
pub fn script_file(
    cx: &Context<'_>,
    file: &str,
    path: &Path,
    cwd: &Path,
    env: &IndexMap<String, String>,
) -> Result<Exec, String> {
    let copy = cx.snapshot.and_then(|snapshot| snapshot.of(path));
    let path = copy.as_deref().unwrap_or(path);
    let starts = copy.is_none() || cx.snapshot.is_some_and(Snapshot::is_executable);
    match cx.host.files().stat(path) {
        None => Err(format!("there is no file `{file}`")),
        Some(Stat::Dir) => Err(format!("`{file}` is a folder, not a script")),
        Some(Stat::File { executable: true }) if starts => Ok(exec(cx, path, cwd, env)),
        Some(Stat::File { .. }) => {
            let bytes = cx.host.files().read(path).map_err(|e| format!("`{file}` could not be read: {e}"))?;
            let (program, argument) = shebang(&bytes).ok_or_else(|| {
                format!("`{file}` is not executable and names no interpreter; begin it with a line such as `#!/bin/sh`")
            })?;
            Ok(exec(cx, program, cwd, env).args(argument).args([path]))
        }
    }
}

/// Whether an inline script names its interpreter and may look for the files beside itself.
pub fn looks_beside(text: &str) -> bool {
    const OWN_PATH: [&str; 3] = ["$0", "${0", "BASH_SOURCE"];
    let text = text.trim_start();
    let is_shell = || {
        let mut words = text.lines().next().unwrap_or_default().split([' ', '\t', '/']);
        words.any(|word| SHELLS.contains(&word))
    };
    text.starts_with("#!") && (!is_shell() || OWN_PATH.iter().any(|own| text.contains(own)))
}

/// The file of an inline script that names its interpreter: among links to the files of the task's directory if it may look for them
/// (§1.10 of the upstream behaviour), otherwise in a directory of its own, which `private` keeps.
///
/// # Errors
/// The file cannot be written.
pub fn inline_script<'a>(cx: &Context<'a>, text: &str, private: &mut Option<Private<'a>>) -> Result<PathBuf, String> {
    static WRITTEN: AtomicUsize = AtomicUsize::new(0);
    let text = text.trim_start();
    let copy = cx.snapshot.filter(|_| looks_beside(text)).and_then(|s| s.of(&absolute(&cx.dir.join(INLINE))));
    match copy {
        Some(copy) => {
            let name = format!("{INLINE}-{}", WRITTEN.fetch_add(1, Ordering::Relaxed));
            written(cx.host, copy.with_file_name(name), text, 0o700)
        }
        None => private.insert(Private::new(cx.host)?).file("script", text, 0o700),
    }
}

fn written(host: &dyn Host, path: PathBuf, text: &str, mode: u32) -> Result<PathBuf, String> {
    let written = host.write(&path, text.as_bytes(), Some(mode));
    written.map(|()| path).map_err(|e| format!("no temporary file could be written: {e}"))
}

/// Parses the interpreter in the first line as Linux does (execve(2)): one program, and the rest of the line as a single argument.
fn shebang(bytes: &[u8]) -> Option<(String, Option<String>)> {
    const BLANK: [char; 2] = [' ', '\t'];
    let line = bytes.strip_prefix(b"#!")?.split(|b| *b == b'\n').next()?;
    let line = String::from_utf8_lossy(line);
    let line = line.trim_matches(BLANK);
    let (program, argument) = line.split_once(BLANK).unwrap_or((line, ""));
    let argument = argument.trim_matches(BLANK);
    (!program.trim().is_empty()).then(|| (program.to_owned(), (!argument.is_empty()).then(|| argument.to_owned())))
}

/// The working directory.
pub fn workdir(cx: &Context<'_>, workdir: Option<&str>) -> PathBuf {
    workdir.map_or_else(|| cx.dir.to_path_buf(), |dir| cx.dir.join(dir))
}

/// An absolute path, which is valid in any working directory.
#[expect(clippy::disallowed_methods, reason = "it asks for the current folder, and the disk for nothing")]
pub fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
}

/// The result of a process: passed, with its exit status, if it exited by itself; otherwise broken or cancelled.
pub fn ended(cx: &Context<'_>, finished: Finished) -> (Done, Option<i32>) {
    let mut done = Done::new(Outcome::Broken, "");
    let mut status = None;
    let report = match finished.exit {
        Exit::Exited(code) => {
            done.outcome = Outcome::Passed;
            done.locals.insert("exitCode".to_owned(), code.into());
            status = Some(code);
            ExitReport::Exited { code }
        }
        Exit::Signalled(signal) => {
            // The exit status that a shell would report.
            done.locals.insert("exitCode".to_owned(), (128 + signal).into());
            done.message = format!("it was killed by signal {signal}{}", signal_name(signal));
            ExitReport::Signalled { signal }
        }
        Exit::TimedOut { killed } => {
            done.message = format!("it did not end within {} and was {}", limit(cx.timeout), end_word(killed));
            ExitReport::TimedOut { killed }
        }
        Exit::Cancelled { killed } => {
            (done.outcome, done.message) = (Outcome::Cancelled, format!("it was {}", end_word(killed)));
            ExitReport::Cancelled { killed }
        }
        Exit::NotStarted(fault) => {
            done.message = not_started(&fault);
            ExitReport::NotStarted { reason: fault.to_string() }
        }
    };
    done.exit = Some(report);
    for (name, captured) in [("stdout", &finished.stdout), ("stderr", &finished.stderr)] {
        if captured.dropped == 0 {
            done.locals.insert(name.to_owned(), Value::String(captured.text()));
        } else if status.is_some() {
            let total = captured.bytes.len() as u64 + captured.dropped;
            done.message = format!("`{name}` has {total} bytes, too many to keep");
        }
    }
    done.stdout = reported(&finished.stdout);
    done.stderr = reported(&finished.stderr);
    done.leftover = finished.leftover;
    (done, status)
}

fn end_word(killed: bool) -> &'static str {
    if killed { "killed" } else { "terminated" }
}

fn not_started(fault: &StartFault) -> String {
    let hint = match fault {
        StartFault::NotExecutable(_) => "; make it so with `chmod +x`",
        StartFault::ExecFormat(_) => "; a line such as `#!/bin/sh` at its beginning says what runs it",
        _ => "",
    };
    format!("it could not be started: {fault}{hint}")
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        1 => " (SIGHUP)",
        2 => " (SIGINT)",
        6 => " (SIGABRT)",
        9 => " (SIGKILL)",
        11 => " (SIGSEGV)",
        13 => " (SIGPIPE)",
        15 => " (SIGTERM)",
        _ => "",
    }
}

/// Returns `it exited with status N`, with the meaning of the status in shells.
pub fn exited(status: i32) -> String {
    let meaning = match status {
        126 => " (not executable)",
        127 => " (command not found)",
        _ => "",
    };
    format!("it exited with status {status}{meaning}")
}

/// A stream as shown in the report.
pub fn reported(captured: &Captured) -> String {
    let bytes = &captured.bytes;
    if bytes.len() <= REPORTED && captured.dropped == 0 {
        return captured.text();
    }
    let (head, tail) = (&bytes[..REPORTED.min(bytes.len()) / 2], &bytes[bytes.len() - REPORTED.min(bytes.len()) / 2..]);
    let left_out = bytes.len() - head.len() - tail.len();
    let (head, tail) = (String::from_utf8_lossy(head), String::from_utf8_lossy(tail));
    let end = if captured.dropped == 0 { String::new() } else { format!("{CUT}{} bytes more", captured.dropped) };
    format!("{head}{CUT}{left_out} bytes left out …\n{}{end}", tail.trim_end_matches('\n'))
}

/// A directory that only this user can access; removed when this is dropped.
pub struct Private<'a> {
    host: &'a dyn Host,
    pub path: PathBuf,
}

impl<'a> Private<'a> {
    pub fn new(host: &'a dyn Host) -> Result<Self, String> {
        let path = host.temp_dir().map_err(|e| format!("no temporary folder could be made: {e}"))?;
        Ok(Self { host, path })
    }

    pub fn file(&self, name: &str, text: &str, mode: u32) -> Result<PathBuf, String> {
        written(self.host, self.path.join(name), text, mode)
    }
}

impl Drop for Private<'_> {
    fn drop(&mut self) {
        let _ = self.host.remove(&self.path);
    }
}
