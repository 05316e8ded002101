//! JSON-RPC 2.0 over standard input and output, version 0.0.1 (§7.4 of the upstream behaviour).

use std::{
    collections::HashMap,
    ffi::OsString,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use indexmap::IndexMap;
use serde_json::{Value, json};
use tokio::{
    io::AsyncWriteExt,
    process::{ChildStdin, ChildStdout},
    sync::oneshot,
};

use super::{Answer, Call, Started, answer};
use crate::{
    kubernetes::PROTOCOL,
    mcp::{Lines, Process, spawn_with},
    ty::duration,
};

/// The maximum length of a line in bytes.
const LONGEST: usize = 64 * 1024 * 1024;
/// The maximum number of log lines kept per call, and of characters per line.
const LOGGED: usize = 1000;
const LOGGED_OF_LINE: usize = 1000;
/// The time that a program has to end.
const GRACE: Duration = Duration::from_secs(5);

/// A running extension.
pub(super) struct Session {
    name: String,
    process: Process,
    input: tokio::sync::Mutex<Option<ChildStdin>>,
    next: AtomicU64,
    shared: Arc<Shared>,
    /// Its answer to `initialize`.
    pub manifest: Value,
}

#[derive(Default)]
struct Shared {
    waiting: Mutex<HashMap<u64, oneshot::Sender<Result<Value, String>>>>,
    log: Mutex<Vec<String>>,
    /// The last line that was not a message.
    rubbish: Mutex<Option<String>>,
    /// The reason why the output is no longer read.
    ended: Mutex<Option<String>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Session {
    /// Starts a program and performs the handshake.
    pub async fn start(
        name: &str,
        (program, args): (PathBuf, Vec<OsString>),
        (env, inherited): (&IndexMap<String, String>, bool),
        folder: &Path,
        config: Value,
        started: Option<&Started>,
    ) -> Result<Self, String> {
        let command = program.to_string_lossy();
        let args: Vec<_> = args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
        let spawned = spawn_with(name, &command, &args, env, Some(folder), inherited);
        let (process, input, output) = spawned.map_err(|e| e.to_string())?;
        if let (Some(started), Some(pid)) = (started, process.pid()) {
            started(pid);
        }
        let shared = Arc::new(Shared::default());
        tokio::spawn(read(output, Arc::clone(&shared)));
        let input = tokio::sync::Mutex::new(Some(input));
        let next = AtomicU64::new(1);
        let mut session = Self { name: name.to_owned(), process, input, next, shared, manifest: Value::Null };
        let mut params = json!({"protocolVersion": PROTOCOL});
        if !config.is_null() {
            params["config"] = config;
        }
        let manifest = session.request("initialize", params).await;
        let manifest = manifest.map_err(|why| format!("the extension `{name}` did not begin: {why}"))?;
        if !manifest.get("operations").is_some_and(Value::is_object) {
            return Err(format!("the extension `{name}` did not begin: its answer names no operations"));
        }
        session.manifest = manifest;
        Ok(session)
    }

    /// Runs an operation.
    pub async fn execute(&self, call: &Call<'_>) -> Result<Answer, String> {
        let mut context = json!({
            "workdir": call.workdir,
            "phase": call.phase,
            "runId": call.run_id,
            "env": call.env.iter().cloned().collect::<IndexMap<_, _>>(),
            "timeout": duration::format(call.timeout),
        });
        if let Some((prompt, output)) = call.agent {
            context["agent"] = json!({"prompt": prompt, "output": output});
        }
        lock(&self.shared.log).clear();
        let mut given_up = GivenUp { session: self, answered: false };
        let result =
            self.request("execute", json!({"operation": call.operation, "args": call.args, "context": context})).await;
        given_up.answered = true;
        let log = std::mem::take(&mut *lock(&self.shared.log));
        let result =
            result.map_err(|why| format!("the extension `{}` did not do `{}`: {why}", self.name, call.operation))?;
        answer(&format!("{}.{}", self.name, call.operation), result, log)
    }

    async fn request(&self, method: &str, params: Value) -> Result<Value, String> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        lock(&self.shared.waiting).insert(id, answer);
        let line = format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        let written = match &mut *self.input.lock().await {
            Some(input) => {
                async {
                    input.write_all(line.as_bytes()).await?;
                    input.flush().await
                }
                .await
            }
            None => return Err("it was closed".to_owned()),
        };
        if written.is_err() || lock(&self.shared.ended).is_some() {
            return Err(self.end().await);
        }
        match answered.await {
            Ok(answer) => answer,
            // The reader has ended, and dropped all waiting calls.
            Err(_) => Err(self.end().await),
        }
    }

    /// Whether it has ended, or its output can no longer be read.
    pub fn is_dead(&self) -> bool {
        self.process.exited().is_some() || lock(&self.shared.ended).is_some()
    }

    /// A description of how it ended, for a message.
    async fn end(&self) -> String {
        let why = lock(&self.shared.ended).clone();
        let exit = tokio::time::timeout(Duration::from_millis(500), self.process.wait_for_all()).await.ok();
        let what = match (exit, why) {
            (Some(exit), _) => format!("it {exit}"),
            (None, Some(why)) => why,
            (None, None) => "it closed its output".to_owned(),
        };
        let stderr = self.process.stderr();
        let last = stderr.lines().rev().find(|line| !line.trim().is_empty()).map(|line| format!(": {}", line.trim()));
        let rubbish = lock(&self.shared.rubbish).clone().filter(|_| last.is_none());
        let rubbish = rubbish.map(|line| format!("; it printed `{line}`, which is no message of the protocol"));
        what + &last.or(rubbish).unwrap_or_default()
    }

    /// Requests a shutdown, and enforces it.
    pub async fn close(&self) {
        let asked = tokio::time::timeout(GRACE, self.request("shutdown", json!({}))).await;
        drop(self.input.lock().await.take());
        self.process.close(if asked.is_ok() { GRACE } else { Duration::from_millis(100) }).await;
    }
}

/// A guard for a call that is dropped before its answer arrives. If no other call waits for the program, the program is
/// killed, because a call that was given up must not change the world later.
struct GivenUp<'s> {
    session: &'s Session,
    answered: bool,
}

impl Drop for GivenUp<'_> {
    fn drop(&mut self) {
        if self.answered {
            return;
        }
        let mut waiting = lock(&self.session.shared.waiting);
        waiting.retain(|_, answer| !answer.is_closed());
        if waiting.is_empty() {
            *lock(&self.session.shared.ended) = Some("it was ended, as it had not answered in time".to_owned());
            self.session.process.kill();
        }
    }
}

/// Kills a session that is dropped without being closed.
impl Drop for Session {
    fn drop(&mut self) {
        if self.process.exited().is_none() {
            self.process.kill();
        }
    }
}

/// Passes answers on to the waiting calls, until the output ends.
async fn read(output: ChildStdout, shared: Arc<Shared>) {
    let mut lines = Lines::new(output, LONGEST);
    let why = loop {
        match lines.next().await {
            Ok(Some(line)) if line.iter().all(u8::is_ascii_whitespace) => {}
            Ok(Some(line)) => message(&line, &shared),
            Ok(None) => break "it closed its output".to_owned(),
            Err(e) if e.kind() == std::io::ErrorKind::InvalidData => {
                break format!("it wrote a line of more than {} MiB", LONGEST / 1024 / 1024);
            }
            Err(e) => break e.to_string(),
        }
    };
    *lock(&shared.ended) = Some(why);
    lock(&shared.waiting).clear();
}

fn message(line: &[u8], shared: &Shared) {
    let message: Value = match serde_json::from_slice(line) {
        Ok(message @ Value::Object(_)) => message,
        _ => {
            let text: String = String::from_utf8_lossy(line).chars().take(120).collect();
            *lock(&shared.rubbish) = Some(text);
            return;
        }
    };
    if message["method"].as_str() == Some("log") {
        let text = |key: &str| message["params"][key].as_str().unwrap_or_default();
        let mut log = lock(&shared.log);
        if log.len() < LOGGED {
            let line = format!("{}: {}", text("level"), text("message"));
            log.push(line.trim_start_matches(": ").chars().take(LOGGED_OF_LINE).collect());
        }
        return;
    }
    // The answer to a call that was given up is dropped.
    let Some(waits) = message["id"].as_u64().and_then(|id| lock(&shared.waiting).remove(&id)) else { return };
    let _ = waits.send(match (message.get("error").filter(|e| !e.is_null()), message.get("result")) {
        (Some(error), _) => {
            Err(format!("{} ({})", error["message"].as_str().unwrap_or("an error without a message"), error["code"]))
        }
        (None, Some(result)) => Ok(result.clone()),
        (None, None) => Err("it answered with neither a result nor an error".to_owned()),
    });
}
