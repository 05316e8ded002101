//! JSON-RPC 2.0, version 0.0.1, a message a line on standard input and output (§7.4 of the upstream behaviour).
//!
//! Calls may run side by side. What breaks the protocol – a line that is no message, an answer to nothing or a second one –
//! ends the connection: whose answer is whose is no longer certain.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    sync::{mpsc, oneshot},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use super::{Answer, Call, Fault, Place};
use crate::{
    host::{Exec, Exit, Handle, Host, Process},
    mcp::Lines,
    ty::duration,
};

/// Of the protocol.
pub const VERSION: &str = "0.0.1";
/// The longest line, in bytes.
pub const LONGEST: usize = 16 << 20;
/// How long it may take to answer `shutdown`, and then to end.
const PARTING: Duration = Duration::from_secs(2);
/// How long what it printed before its end is waited for.
const DRAIN: Duration = Duration::from_millis(200);
/// Bytes kept of what it logs between two answers.
const LOGGED: usize = 64 << 10;
/// Messages on their way to it.
const QUEUE: usize = 256;

/// A program that answered `initialize`.
pub(super) struct Connection {
    shared: Arc<Shared>,
    out: Mutex<Option<mpsc::Sender<String>>>,
    /// Ends the process at once.
    stop: CancellationToken,
    keeper: tokio::sync::Mutex<Option<JoinHandle<()>>>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

#[derive(Default)]
struct Shared(Mutex<State>);

#[derive(Default)]
struct State {
    last: u64,
    pending: HashMap<u64, oneshot::Sender<Result<Value, String>>>,
    /// Asked, and not waited for any more.
    given_up: HashSet<u64>,
    /// Why it is lost.
    failure: Option<String>,
    log: VecDeque<u8>,
}

impl Connection {
    /// Starts a program and shakes hands. Gives what it answered: its manifest.
    pub async fn start(
        host: &dyn Host,
        exec: Exec,
        config: &Map<String, Value>,
        limit: Duration,
    ) -> Result<(Self, Value), String> {
        let Process { stdin, stdout, stderr, handle } =
            host.spawn(exec).await.map_err(|why| format!("cannot be started: {why}"))?;
        let shared = Arc::new(Shared::default());
        let (out, messages) = mpsc::channel::<String>(QUEUE);
        let stop = CancellationToken::new();
        tokio::spawn(write(stdin, messages));
        tokio::spawn(listen(stderr, Arc::clone(&shared)));
        let keeper = tokio::spawn(keep(stdout, handle, Arc::clone(&shared), out.downgrade(), stop.clone()));
        let connection =
            Self { shared, out: Mutex::new(Some(out)), stop, keeper: tokio::sync::Mutex::new(Some(keeper)) };
        let mut params = json!({ "protocolVersion": VERSION });
        if !config.is_empty() {
            params["config"] = Value::Object(config.clone());
        }
        let answered = tokio::select! {
            answered = connection.request("initialize", params) => answered,
            () = host.sleep(limit) => Err(format!("it did not answer `initialize` within {}", duration::format(limit))),
        };
        match answered {
            Ok(manifest) => Ok((connection, manifest)),
            Err(why) => {
                let log = connection.shared.take_log();
                connection.end().await;
                let last = log.lines().rev().find(|line| !line.trim().is_empty());
                let said = last.map_or_else(String::new, |line| format!(" (it says: {})", line.trim()));
                Err(format!("is no extension that speaks JSON-RPC: {why}{said}"))
            }
        }
    }

    /// Calls an operation. If the future is dropped, a late answer is, too.
    pub async fn call(&self, place: &Place, call: Call<'_>) -> Result<Answer, Fault> {
        let context = context(place, &call);
        let params = json!({ "operation": call.operation, "args": call.args, "context": context });
        let answered = self.request("execute", params).await.and_then(answer);
        // What it wrote to standard error before its answer may be on its way.
        if answered.is_err() {
            tokio::task::yield_now().await;
        }
        let log = self.shared.take_log();
        match answered {
            Ok(answer) => Ok(Answer { log, ..answer }),
            Err(why) => Err(Fault { why, log }),
        }
    }

    /// Whether it is lost, or nothing is awaited of it but what was given up.
    pub fn is_stale(&self) -> bool {
        let state = self.shared.state();
        state.failure.is_some() || state.pending.is_empty() && !state.given_up.is_empty()
    }

    /// `shutdown`, the end of its input, and where that is not enough, of its process.
    pub async fn close(&self) {
        if !self.is_stale() {
            let _ = tokio::time::timeout(PARTING, self.request("shutdown", json!({}))).await;
        }
        self.hang_up();
        let mut keeper = self.keeper.lock().await;
        if let Some(task) = keeper.as_mut()
            && tokio::time::timeout(PARTING, task).await.is_ok()
        {
            *keeper = None;
        }
        drop(keeper);
        self.end().await;
    }

    /// Ends its process, and all that this started.
    pub async fn end(&self) {
        self.hang_up();
        self.stop.cancel();
        if let Some(keeper) = self.keeper.lock().await.take() {
            let _ = keeper.await;
        }
    }

    fn hang_up(&self) {
        drop(self.out.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    async fn request(&self, method: &str, params: Value) -> Result<Value, String> {
        let (sender, receiver) = oneshot::channel();
        let id = self.shared.ask(sender)?;
        let _asked = Asked { id, shared: &self.shared };
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let out = self.out.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // Where it cannot be written, the process is ending, and its keeper says why.
        if let Some(out) = out {
            let _ = out.send(message.to_string()).await;
        }
        receiver.await.unwrap_or_else(|_| Err("it is no longer there".to_owned()))
    }
}

/// A request in flight: dropped before the answer, it is given up.
struct Asked<'a> {
    id: u64,
    shared: &'a Shared,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        if state.pending.remove(&self.id).is_some() {
            state.given_up.insert(self.id);
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(&self, sender: oneshot::Sender<Result<Value, String>>) -> Result<u64, String> {
        let mut state = self.state();
        if let Some(why) = &state.failure {
            return Err(why.clone());
        }
        state.last += 1;
        let id = state.last;
        state.pending.insert(id, sender);
        Ok(id)
    }

    fn fail(&self, why: &str) {
        let mut state = self.state();
        state.failure.get_or_insert_with(|| why.to_owned());
        for (_, sender) in state.pending.drain() {
            let _ = sender.send(Err(why.to_owned()));
        }
    }

    fn log(&self, text: &[u8]) {
        let log = &mut self.state().log;
        log.extend(text);
        let excess = log.len().saturating_sub(LOGGED);
        log.drain(..excess);
    }

    fn take_log(&self) -> String {
        let log = std::mem::take(&mut self.state().log);
        String::from_utf8_lossy(&log.into_iter().collect::<Vec<_>>()).trim_end_matches('\n').to_owned()
    }

    /// Takes a line. Gives what is to be answered.
    ///
    /// # Errors
    /// It breaks the protocol.
    fn take(&self, line: &[u8]) -> Result<Option<String>, String> {
        if line.iter().all(u8::is_ascii_whitespace) {
            return Ok(None);
        }
        let message: Message = serde_json::from_slice(line).map_err(|_| {
            let text = String::from_utf8_lossy(line);
            let head: String = text.chars().take(100).collect();
            let more = if head.len() < text.len() { "…" } else { "" };
            format!(
                "it wrote a line to standard output that is no message of JSON-RPC: `{head}{more}`; what is not protocol belongs on standard error"
            )
        })?;
        match (message.method, message.id) {
            (Some(method), None | Some(Value::Null)) => {
                if method == "log" {
                    self.log(logged(&message.params).as_bytes());
                }
                Ok(None)
            }
            (Some(method), Some(id)) => {
                let error = json!({ "code": -32601, "message": format!("gevals has no method `{method}`") });
                Ok(Some(json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string()))
            }
            (None, id) => self.answered(id.as_ref(), message.result, message.error).map(|()| None),
        }
    }

    fn answered(&self, id: Option<&Value>, result: Option<Value>, error: Option<Error>) -> Result<(), String> {
        let answer = match (result, error) {
            (_, Some(error)) => Err(format!("it answered with an error: {} ({})", error.message, error.code)),
            (Some(result), None) => Ok(result),
            (None, None) => Err("it answered with neither `result` nor `error`".to_owned()),
        };
        let mut state = self.state();
        let Some(number) = id.and_then(Value::as_u64) else {
            // It could not read a request, and so cannot say which.
            return Err(match (id, answer) {
                (None | Some(Value::Null), Err(why)) => why,
                (id, _) => {
                    format!("it answered a request with the id {}, which nobody made", id.unwrap_or(&Value::Null))
                }
            });
        };
        match state.pending.remove(&number) {
            Some(sender) => drop(sender.send(answer)),
            None if state.given_up.remove(&number) => {}
            None if number > 0 && number <= state.last => return Err(format!("it answered request {number} twice")),
            None => return Err(format!("it answered a request with the id {number}, which nobody made")),
        }
        Ok(())
    }
}

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    id: Option<Value>,
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    params: Value,
    #[serde(default, deserialize_with = "crate::builtin::expect::present")]
    result: Option<Value>,
    #[serde(default)]
    error: Option<Error>,
}

#[derive(Deserialize)]
struct Error {
    code: i64,
    message: String,
}

/// A line of its log.
fn logged(params: &Value) -> String {
    let text = |key: &str| params.get(key).and_then(Value::as_str);
    let data = params.get("data").filter(|data| !data.is_null()).map(|data| format!(" {data}")).unwrap_or_default();
    format!("{}: {}{data}\n", text("level").unwrap_or("info"), text("message").unwrap_or_default())
}

/// What surrounds a call, in both protocols.
pub(super) fn context(place: &Place, call: &Call<'_>) -> Value {
    let env: Map<String, Value> = place.env.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    let mut context = json!({
        "workdir": place.dir,
        "phase": call.phase.name(),
        "env": env,
        "timeout": duration::format(call.timeout),
    });
    if let Some((prompt, output)) = &call.agent {
        context["agent"] = json!({ "prompt": prompt, "output": output });
    }
    context
}

#[derive(Deserialize)]
struct Said {
    success: bool,
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    outputs: Option<Map<String, Value>>,
}

/// The result of an operation, in both protocols.
pub(super) fn answer(value: Value) -> Result<Answer, String> {
    let said: Said =
        serde_json::from_value(value).map_err(|e| format!("its answer is no result of an operation: {e}"))?;
    Ok(Answer {
        success: said.success,
        message: said.message.unwrap_or_default(),
        error: said.error.unwrap_or_default(),
        outputs: said.outputs.unwrap_or_default(),
        ..Answer::default()
    })
}

/// Ends with the queue, which ends its input.
async fn write(mut stdin: impl tokio::io::AsyncWrite + Unpin, mut messages: mpsc::Receiver<String>) {
    while let Some(mut message) = messages.recv().await {
        message.push('\n');
        if stdin.write_all(message.as_bytes()).await.is_err() || stdin.flush().await.is_err() {
            return;
        }
    }
}

async fn listen(mut stderr: impl AsyncRead + Unpin, shared: Arc<Shared>) {
    let mut chunk = [0; 4096];
    while let Ok(read @ 1..) = stderr.read(&mut chunk).await {
        shared.log(&chunk[..read]);
    }
}

/// Reads until the process ends, breaks the protocol or is stopped; then there is nothing left of it.
async fn keep(
    stdout: impl AsyncRead + Unpin,
    mut handle: Handle,
    shared: Arc<Shared>,
    out: mpsc::WeakSender<String>,
    stop: CancellationToken,
) {
    let mut lines = Lines::new(stdout, LONGEST);
    let read = async {
        loop {
            match lines.next().await {
                Ok(Some(line)) => match shared.take(&line) {
                    Ok(None) => {}
                    Ok(Some(reply)) => {
                        if out.upgrade().is_some_and(|out| out.try_send(reply).is_err()) {
                            return Some("it asks and does not read the answers".to_owned());
                        }
                    }
                    Err(why) => return Some(why),
                },
                Ok(None) => return None,
                Err(_) => return Some(format!("it wrote a line of more than {} MiB", LONGEST >> 20)),
            }
        }
    };
    tokio::pin!(read);
    let why = tokio::select! {
        broke = &mut read => match broke {
            Some(why) => why,
            None => match tokio::time::timeout(DRAIN, handle.wait()).await {
                Ok(exit) => ended(&exit),
                Err(_) => "it closed its standard output".to_owned(),
            },
        },
        exit = handle.wait() => match tokio::time::timeout(DRAIN, &mut read).await {
            Ok(Some(why)) => why,
            _ => ended(&exit),
        },
        () = stop.cancelled() => "it was ended".to_owned(),
    };
    shared.fail(&why);
    handle.end().await;
}

fn ended(exit: &Exit) -> String {
    match exit {
        Exit::Exited(status) => format!("it ended before it answered, with status {status}"),
        Exit::Signalled(signal) => format!("it was killed by signal {signal} before it answered"),
        _ => "it ended before it answered".to_owned(),
    }
}
