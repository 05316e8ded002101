//! The one-shot protocol, with one process per call: `PROGRAM action|check NAME --input FILE` (`portable-format.md`,
//! extensions).

use std::{io::Write, path::PathBuf, process::Stdio};

use indexmap::IndexMap;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::Command,
};

use super::{
    Answer, Call, Started, answer,
    jail::{Jail, Jailed},
};

/// The maximum size of an answer on standard output, in bytes.
const MOST: usize = 16 << 20;
/// The maximum number of bytes of standard error that are kept.
const LOGGED: u64 = 1 << 20;

/// A program that is started for each call.
pub(super) struct OneShot {
    pub name: String,
    pub program: PathBuf,
    pub env: IndexMap<String, String>,
    /// Its configuration in the eval, or null.
    pub config: Value,
    /// The jail, if it runs in a sandbox.
    pub jail: Option<Jail>,
}

impl OneShot {
    /// Runs an operation.
    pub async fn execute(&self, call: &Call<'_>, started: Option<&Started>) -> Result<Answer, String> {
        let what = format!("{}.{}", self.name, call.operation);
        let fault = |e: std::io::Error| format!("`{what}` was not done: {e}");
        let env: IndexMap<_, _> = call.env.iter().cloned().collect();
        let mut context = json!({"env": env, "workdir": call.workdir, "phase": call.phase, "runId": call.run_id});
        if let Some((prompt, output)) = call.agent {
            context["agent"] = json!({"prompt": prompt, "output": output});
        }
        let mut said = json!({"args": call.args, "context": context});
        if !self.config.is_null() {
            said["config"] = self.config.clone();
        }
        let mut input = tempfile::NamedTempFile::new().map_err(fault)?;
        input.write_all(said.to_string().as_bytes()).map_err(fault)?;
        let verb = if call.phase == "verify" { "check" } else { "action" };
        let Jailed { program, args, container } = match &self.jail {
            Some(jail) => jail.command(&self.program, call.workdir, Some(input.path()), &self.env),
            None => Jailed { program: self.program.clone(), args: Vec::new(), container: None },
        };
        let mut command = Command::new(program);
        if self.jail.is_some() {
            command.env_clear();
        }
        command.args(args).args([verb, call.operation, "--input"]).arg(input.path());
        command.envs(&self.env).current_dir(call.workdir);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0).kill_on_drop(true);
        let mut child = command.spawn().map_err(fault)?;
        let group = Group(child.id());
        if let (Some(started), Some(pid)) = (started, child.id()) {
            started(pid);
        }
        let all = tokio::try_join!(whole(child.stdout.take()), head(child.stderr.take()));
        let (stdout, stderr) = all.map_err(fault)?;
        let status = child.wait().await.map_err(fault)?;
        drop((group, container));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let log: Vec<_> = text(&stderr).lines().map(str::to_owned).collect();
        let value: Value = match serde_json::from_str(text(&stdout).trim()) {
            Ok(value) => value,
            Err(e) => {
                let said = log.last().map(|line| format!(": {line}")).unwrap_or_default();
                return Err(format!("`{what}` ended with {status} and answered with no JSON ({e}){said}"));
            }
        };
        let answer = answer(&what, value, log)?;
        match (answer.success, status.success()) {
            (true, false) => Err(format!("`{what}` reports success and ended with {status}")),
            _ => Ok(answer),
        }
    }
}

/// Reads a whole answer. Fails if it exceeds the maximum.
async fn whole(stream: Option<impl AsyncRead + Unpin>) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        stream.take(MOST as u64 + 1).read_to_end(&mut bytes).await?;
    }
    match bytes.len() > MOST {
        true => Err(std::io::Error::other(format!("it printed more than {} MiB", MOST >> 20))),
        false => Ok(bytes),
    }
}

/// Reads the start of a log. The rest is read and discarded, so that the writer does not block.
async fn head(stream: Option<impl AsyncRead + Unpin>) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(mut stream) = stream {
        (&mut stream).take(LOGGED).read_to_end(&mut bytes).await?;
        tokio::io::copy(&mut stream, &mut tokio::io::sink()).await?;
    }
    Ok(bytes)
}

/// Kills all processes left by a call when dropped.
struct Group(Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0.and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw) {
            // ESRCH: no process was left.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }
}
