//! `command`: a shell command.

use futures_util::future::BoxFuture;
use serde_json::Value;

use super::{
    Context, Done, Stop,
    compare::{self, Compared},
    process,
};
use crate::{
    builtin::{
        command::{Command, ExitCode, Expect},
        expect::TextExpect,
    },
    event::{ExitReport, Outcome},
};

pub fn run(cx: Context<'_>) -> BoxFuture<'_, Done> {
    Box::pin(async move { Done::from(command(&cx).await) })
}

async fn command(cx: &Context<'_>) -> Result<Done, Stop> {
    let Command { run, shell, workdir, env } = cx.decode()?;
    let exec = process::exec(cx, shell, &process::workdir(cx, workdir.as_deref()), &env).args(["-c", &run]);
    let (done, status) = process::ended(cx, cx.host.exec(exec, cx.cancel.clone()).await);
    let expect = match (status, &done.exit) {
        (None, Some(ExitReport::Signalled { .. })) | (Some(_), _) => cx.expected::<Expect>(&done.locals),
        _ => return Ok(done),
    };
    let expect = match expect {
        Ok(expect) => expect.unwrap_or_default(),
        Err(message) => return Ok(done.judged(Err(message))),
    };
    // A command that was not found, or was killed, has not failed in the way that `{not: 0}` expects.
    let denies = matches!(expect.exit_code, ExitCode::Not(_));
    let status = match done.exit {
        Some(ExitReport::Exited { code: code @ (126 | 127) }) if denies => {
            return Ok(Done { outcome: Outcome::Broken, message: process::exited(code), ..done });
        }
        Some(ExitReport::Exited { code }) => code,
        // An expected death by signal, with the exit status that a shell would report.
        Some(ExitReport::Signalled { signal }) if !denies && expect.exit_code.admits(128 + signal) => 128 + signal,
        _ => return Ok(done),
    };
    let judged = judge(&expect, status, &done);
    let note = done.message.clone();
    let mut done = done.judged(judged);
    if !expect.exit_code.admits(status) && done.differences.first().is_some_and(|d| d.subject == "exitCode") {
        let rest = &done.differences[1..];
        let rest = if rest.is_empty() { String::new() } else { format!("; {}", compare::summary(rest)) };
        done.message = process::exited(status) + &rest;
    } else if done.message.is_empty() {
        done.message = note;
    }
    Ok(done)
}

fn judge(expect: &Expect, status: i32, done: &Done) -> Result<Compared, String> {
    let mut found = Compared::default();
    let expected = match expect.exit_code {
        ExitCode::Any => None,
        ExitCode::Is(expected) => Some(expected.to_string()),
        ExitCode::Not(other) => Some(format!("not {other}")),
    };
    if let Some(expected) = expected {
        let differs = !expect.exit_code.admits(status);
        found.add(differs.then(|| compare::difference("exitCode", &expected, &status.to_string())));
    }
    for (name, expect) in [("stdout", &expect.stdout), ("stderr", &expect.stderr)] {
        if let Some(expect) = expect {
            found.extend(judge_text(name, expect, done)?);
        }
    }
    Ok(found)
}

fn judge_text(name: &str, expect: &TextExpect, done: &Done) -> Result<Compared, String> {
    match done.locals.get(name).and_then(Value::as_str) {
        Some(actual) => compare::text(name, expect, actual),
        None => Err(format!("`{name}` is too long to be compared")),
    }
}
