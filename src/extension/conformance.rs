//! Tests whether a program conforms to one of the protocols for extensions, as numbered requirements. The tests only call an unknown
//! operation, or an operation without its required arguments, so that nothing is done.

use std::{ffi::OsString, path::Path, process::Stdio, time::Duration};

use indexmap::IndexMap;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{ChildStdin, ChildStdout, Command},
    time::Instant,
};

use super::{Found, HANDSHAKE, program};
use crate::{
    conformance::{Demand, Kept, Requirement, Rule},
    kubernetes::PROTOCOL,
    lock::LockedExtension,
    mcp::{Lines, Process, spawn_with},
    plan,
};

/// The time that a program has to end.
const GRACE: Duration = Duration::from_secs(5);
/// How long to wait for an answer that must not come.
const SILENCE: Duration = Duration::from_millis(300);
/// An operation that no extension has.
const NOBODYS: &str = "gevals-conformance-no-such-operation";

const SESSION: [(&str, &str); 13] = [
    ("J1", "`initialize` is answered within 10 s, with a result"),
    ("J2", "the manifest has `name`, `version`, and `protocolVersion: 0.0.1`"),
    ("J3", "`operations` is a non-empty mapping, and each `params` is a JSON Schema for an object"),
    ("J4", "`phases` lists only setup, verify and cleanup; `outputs` is a mapping"),
    ("J5", "an unknown method is answered with an error"),
    ("J6", "an unknown operation is answered with an error or `success: false`"),
    ("J7", "arguments that violate `params` are answered with an error or `success: false`"),
    ("J8", "requests sent together are each answered with their own id"),
    ("J9", "a line that is not JSON does not end the process"),
    ("J10", "a notification is not answered"),
    ("J11", "standard output contains only messages"),
    ("J12", "`shutdown` is answered, and the process ends within 5 s with status 0"),
    ("J13", "the process ends within 5 s when its standard input is closed"),
];

const ONESHOT: [(&str, &str); 6] = [
    ("S1", "`extension.yaml` has `name`, `version`, and operations with arguments of known types"),
    ("S2", "next to it is a program for this machine, named NAME-OS-ARCH or NAME"),
    (
        "S3",
        "an unknown action ends within 10 s with a nonzero status, and prints one JSON object with `success: false`",
    ),
    ("S4", "the same applies to an unknown check"),
    ("S5", "the same applies to an operation without a required argument"),
    ("S6", "if its input file is missing, the program ends with a nonzero status"),
];

/// Tests all requirements of the protocol of a program: the one-shot protocol if there is an `extension.yaml` next to it.
///
/// # Errors
/// If there is no such program.
#[expect(clippy::disallowed_methods, reason = "a manifest is read where its program is")]
pub async fn conformance(path: &Path) -> Result<Vec<Requirement>, String> {
    let folder = tempfile::tempdir().map_err(|e| format!("cannot be tested: {e}"))?;
    if let Some(name) = path.to_str().filter(|name| name.starts_with("builtin:")) {
        let own = std::env::current_exe().ok();
        return match program(&plan::Extensions::default(), name, Path::new("."), own.as_deref())? {
            Found::Bundled { program, args } => Ok(session(&program, &args, folder.path()).await),
            _ => Err("is not a program that can be tested".to_owned()),
        };
    }
    let absolute = std::path::absolute(path).map_err(|e| format!("has no absolute path: {e}"))?;
    std::fs::metadata(&absolute).map_err(|e| format!("does not exist: {e}"))?;
    let manifest = super::manifest_path(&absolute);
    let reference = absolute.to_string_lossy().into_owned();
    let found = program(&plan::Extensions::default(), &reference, Path::new("."), None);
    match std::fs::read_to_string(manifest) {
        Ok(text) => Ok(oneshot(&text, found, folder.path()).await),
        Err(_) => match found? {
            Found::Session(program) => Ok(session(&program, &[], folder.path()).await),
            _ => Err("is not a program that can be tested".to_owned()),
        },
    }
}

fn report(
    names: &[(&'static str, &'static str)],
    mut kept: IndexMap<&'static str, Kept>,
    why: &str,
) -> Vec<Requirement> {
    let requirement = |&(id, text): &(&'static str, &'static str)| {
        let kept = kept.shift_remove(id).unwrap_or_else(|| Kept::Untried(why.to_owned()));
        Requirement { rule: Rule { id, demand: Demand::Must, text }, kept }
    };
    names.iter().map(requirement).collect()
}

fn kept(good: bool, why: impl FnOnce() -> String) -> Kept {
    if good { Kept::Yes } else { Kept::No(why()) }
}

/// A program under test that speaks JSON-RPC.
struct Peer {
    process: Process,
    input: Option<ChildStdin>,
    output: Lines<ChildStdout>,
    rubbish: Option<String>,
    next: u64,
}

impl Peer {
    fn start(program: &Path, args: &[OsString], folder: &Path) -> Result<Self, String> {
        let args: Vec<String> = args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
        let started = spawn_with("extension", &program.to_string_lossy(), &args, &IndexMap::new(), Some(folder), true);
        let (process, input, output) = started.map_err(|e| e.to_string())?;
        Ok(Self { process, input: Some(input), output: Lines::new(output, 64 << 20), rubbish: None, next: 1 })
    }

    async fn write(&mut self, text: &str) -> Result<(), String> {
        let input = self.input.as_mut().ok_or("its standard input is closed")?;
        let written = async {
            input.write_all(text.as_bytes()).await?;
            input.flush().await
        };
        written.await.map_err(|e| format!("it does not read its standard input: {e}"))
    }

    fn request(&mut self, method: &str, params: &Value) -> (u64, String) {
        let id = self.next;
        self.next += 1;
        (id, format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})))
    }

    /// Waits for the next message with an id.
    async fn answer(&mut self, patience: Duration) -> Result<Value, String> {
        let until = Instant::now() + patience;
        loop {
            let line = tokio::time::timeout_at(until, self.output.next()).await;
            let line = line.map_err(|_| format!("no answer within {} s", patience.as_secs_f32()))?;
            let line = line.map_err(|e| format!("its standard output cannot be read: {e}"))?;
            let Some(line) = line else { return Err("it closed its standard output".to_owned()) };
            match serde_json::from_slice::<Value>(&line) {
                Ok(message) if message.get("jsonrpc").is_some_and(|v| v == "2.0") => {
                    if message.get("id").is_some() {
                        return Ok(message);
                    }
                }
                _ if line.is_empty() => {}
                _ => self.rubbish = Some(String::from_utf8_lossy(&line).chars().take(200).collect()),
            }
        }
    }

    async fn call(&mut self, method: &str, params: &Value) -> Result<Value, String> {
        let (id, line) = self.request(method, params);
        self.write(&line).await?;
        let answer = self.answer(HANDSHAKE).await?;
        match answer["id"] == id {
            true => Ok(answer),
            false => Err(format!("the id of the answer is {}, but that of the request is {id}", answer["id"])),
        }
    }

    async fn begin(&mut self) -> Result<Value, String> {
        let answer = self.call("initialize", &json!({"protocolVersion": PROTOCOL})).await?;
        let result = answer.get("result").filter(|result| result.is_object());
        result.cloned().ok_or_else(|| format!("the answer has no result: {answer}"))
    }

    /// The status it ended with, if it ended in time.
    async fn end(&self) -> Option<String> {
        tokio::time::timeout(GRACE, self.process.wait_for_all()).await.ok()
    }
}

fn call(operation: &str) -> Value {
    json!({
        "operation": operation,
        "args": {},
        "context": {"workdir": "/", "phase": "verify", "runId": "0", "timeout": "10s", "env": {}},
    })
}

/// Whether an answer is a refusal.
fn refused(answer: Result<Value, String>) -> Kept {
    match answer {
        Ok(answer) if answer.get("error").is_some_and(Value::is_object) => Kept::Yes,
        Ok(answer) => {
            kept(answer.pointer("/result/success") == Some(&Value::Bool(false)), || format!("the answer is {answer}"))
        }
        Err(why) => Kept::No(why),
    }
}

async fn session(program: &Path, args: &[OsString], folder: &Path) -> Vec<Requirement> {
    let mut out = IndexMap::new();
    let mut peer = match Peer::start(program, args, folder) {
        Ok(peer) => peer,
        Err(why) => {
            out.insert("J1", Kept::No(why));
            return report(&SESSION, out, "it did not start");
        }
    };
    let manifest = match peer.begin().await {
        Ok(manifest) => manifest,
        Err(why) => {
            out.insert("J1", Kept::No(why));
            return report(&SESSION, out, "it did not start");
        }
    };
    out.insert("J1", Kept::Yes);
    let text = |key: &str| manifest.get(key).and_then(Value::as_str).unwrap_or_default();
    let named = !text("name").is_empty() && !text("version").is_empty() && text("protocolVersion") == PROTOCOL;
    out.insert(
        "J2",
        kept(named, || {
            format!("they are {}, {} and {}", manifest["name"], manifest["version"], manifest["protocolVersion"])
        }),
    );
    let operations = manifest.get("operations").and_then(Value::as_object);
    let empty = serde_json::Map::new();
    let bad = |judge: &dyn Fn(&Value) -> Option<String>| {
        operations.unwrap_or(&empty).iter().find_map(|(name, op)| Some(format!("`{name}`: {}", judge(op)?)))
    };
    let shape = bad(&|op| {
        let Some(params) = op.get("params") else { return (!op.is_object()).then(|| "is not a mapping".to_owned()) };
        let object = params.get("type").is_none_or(|kind| kind == "object");
        match jsonschema::validator_for(params) {
            _ if !object => Some("its `params` do not describe an object".to_owned()),
            Ok(_) => None,
            Err(e) => Some(format!("its `params` are not a JSON Schema: {e}")),
        }
    });
    let shape =
        shape.or_else(|| operations.is_none_or(serde_json::Map::is_empty).then(|| "it has no operations".to_owned()));
    out.insert("J3", shape.map_or(Kept::Yes, Kept::No));
    let words = bad(&|op| {
        let known = |phase: &Value| phase.as_str().is_some_and(|p| matches!(p, "setup" | "verify" | "cleanup"));
        let phases = op.get("phases").is_none_or(|p| p.as_array().is_some_and(|p| p.iter().all(known)));
        let outputs = op.get("outputs").is_none_or(Value::is_object);
        (!phases || !outputs).then(|| format!("`phases` is {}, `outputs` is {}", op["phases"], op["outputs"]))
    });
    out.insert("J4", words.map_or(Kept::Yes, Kept::No));
    let answer = peer.call("gevals/no-such-method", &json!({})).await;
    out.insert(
        "J5",
        match answer {
            Ok(answer) => kept(answer.get("error").is_some_and(Value::is_object), || format!("the answer is {answer}")),
            Err(why) => Kept::No(why),
        },
    );
    out.insert("J6", refused(peer.call("execute", &call(NOBODYS)).await));
    let demanding = operations.into_iter().flatten().find(|(_, op)| {
        op.pointer("/params/required").and_then(Value::as_array).is_some_and(|required| !required.is_empty())
    });
    out.insert(
        "J7",
        match demanding {
            Some((name, _)) => refused(peer.call("execute", &call(name)).await),
            None => Kept::Untried("no operation requires an argument".to_owned()),
        },
    );
    let ((first, one), (second, two)) =
        (peer.request("execute", &call(NOBODYS)), peer.request("execute", &call(NOBODYS)));
    let together = async {
        peer.write(&format!("{one}{two}")).await?;
        let (a, b) = (peer.answer(HANDSHAKE).await?, peer.answer(HANDSHAKE).await?);
        let ids = [&a["id"], &b["id"]];
        let both = ids.iter().any(|id| **id == first) && ids.iter().any(|id| **id == second);
        if both { Ok(()) } else { Err(format!("ids {first}, {second} were answered with {}, {}", a["id"], b["id"])) }
    };
    out.insert("J8", together.await.map_or_else(Kept::No, |()| Kept::Yes));
    let torn = async {
        peer.write("this is no message\n").await?;
        let (id, line) = peer.request("execute", &call(NOBODYS));
        peer.write(&line).await?;
        loop {
            // The invalid line may be answered with an error without an id.
            if peer.answer(HANDSHAKE).await?["id"] == id {
                return Ok::<(), String>(());
            }
        }
    };
    out.insert("J9", torn.await.map_or_else(Kept::No, |()| Kept::Yes));
    let notified = async {
        peer.write("{\"jsonrpc\":\"2.0\",\"method\":\"gevals/no-such-notification\",\"params\":{}}\n").await?;
        Ok::<_, String>(peer.answer(SILENCE).await.ok())
    };
    out.insert(
        "J10",
        match notified.await {
            Ok(None) => Kept::Yes,
            Ok(Some(answer)) => Kept::No(format!("the answer is {answer}")),
            Err(why) => Kept::No(why),
        },
    );
    let ended = match peer.call("shutdown", &json!({})).await {
        Ok(answer) if answer.get("error").is_some() => Kept::No(format!("the answer is {answer}")),
        Ok(_) => match peer.end().await {
            Some(how) => kept(how == "exited with status 0", || format!("it {how}")),
            None => Kept::No("it is still running".to_owned()),
        },
        Err(why) => Kept::No(why),
    };
    out.insert("J12", ended);
    peer.process.kill();
    let printed = peer.rubbish.take().map(|line| Kept::No(format!("it printed `{line}`")));
    out.insert("J11", printed.unwrap_or(Kept::Yes));
    let closed = async {
        let mut peer = Peer::start(program, args, folder)?;
        peer.begin().await?;
        drop(peer.input.take());
        let ended = peer.end().await;
        peer.process.kill();
        ended.map(drop).ok_or_else(|| "it is still running".to_owned())
    };
    out.insert("J13", closed.await.map_or_else(Kept::No, |()| Kept::Yes));
    report(&SESSION, out, "the process ended early")
}

async fn oneshot(manifest: &str, found: Result<Found, String>, folder: &Path) -> Vec<Requirement> {
    let mut out = IndexMap::new();
    let locked = LockedExtension::from_manifest(manifest);
    let name = serde_yaml::from_str::<Value>(manifest).ok().and_then(|m| Some(m.get("name")?.as_str()?.to_owned()));
    out.insert(
        "S1",
        match &locked {
            Err(why) => Kept::No(why.clone()),
            Ok(_) if name.is_none_or(|name| name.is_empty()) => Kept::No("it has no `name`".to_owned()),
            Ok(locked) if locked.version.is_empty() => Kept::No("it has no `version`".to_owned()),
            Ok(locked) if locked.operations.is_empty() => Kept::No("it has neither `actions` nor `checks`".to_owned()),
            Ok(_) => Kept::Yes,
        },
    );
    let program = match found {
        Ok(Found::OneShot(program)) => program,
        Ok(_) => return report(&ONESHOT, out, "there is no program to test"),
        Err(why) => {
            out.insert("S2", Kept::No(format!("it {why}")));
            return report(&ONESHOT, out, "there is no program to test");
        }
    };
    out.insert("S2", Kept::Yes);
    for (id, verb) in [("S3", "action"), ("S4", "check")] {
        out.insert(id, said_no(once(&program, folder, [verb, NOBODYS], true).await));
    }
    let demanding = locked.iter().flat_map(|locked| &locked.operations).find(|(_, op)| {
        op.input_schema.json().get("required").and_then(Value::as_array).is_some_and(|required| !required.is_empty())
    });
    out.insert(
        "S5",
        match demanding {
            Some((name, op)) => {
                let verb = if op.check { "check" } else { "action" };
                said_no(once(&program, folder, [verb, name], true).await)
            }
            None => Kept::Untried("no operation requires an argument".to_owned()),
        },
    );
    out.insert(
        "S6",
        match once(&program, folder, ["check", NOBODYS], false).await {
            Ok((code, _)) => kept(code != Some(0), || "it ended with status 0".to_owned()),
            Err(why) => Kept::No(why),
        },
    );
    report(&ONESHOT, out, "there is no program to test")
}

fn said_no(ran: Result<(Option<i32>, String), String>) -> Kept {
    let (code, printed) = match ran {
        Ok(ran) => ran,
        Err(why) => return Kept::No(why),
    };
    let value: Option<Value> = serde_json::from_str(printed.trim()).ok();
    match value.as_ref().and_then(|value| value.get("success")) {
        Some(Value::Bool(false)) => kept(code != Some(0), || "it ended with status 0".to_owned()),
        _ => Kept::No(format!("it printed `{}`", printed.trim().chars().take(200).collect::<String>())),
    }
}

/// Runs the program once. Returns its status and its output.
async fn once(
    program: &Path,
    folder: &Path,
    [verb, operation]: [&str; 2],
    with_input: bool,
) -> Result<(Option<i32>, String), String> {
    let fault = |e: std::io::Error| format!("it cannot be run: {e}");
    let input = folder.join("input.json");
    let missing = folder.join("missing.json");
    let given = json!({"args": {}, "context": {"workdir": folder, "phase": "verify", "runId": "0", "env": {}}});
    tokio::fs::write(&input, given.to_string()).await.map_err(fault)?;
    let mut command = Command::new(program);
    command.args([verb, operation, "--input"]).arg(if with_input { &input } else { &missing });
    command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.kill_on_drop(true).spawn().map_err(fault)?;
    let mut output = child.stdout.take().ok_or("it has no standard output")?.take(1 << 20);
    let ran = async {
        let mut printed = Vec::new();
        output.read_to_end(&mut printed).await.map_err(fault)?;
        let status = child.wait().await.map_err(fault)?;
        Ok((status.code(), String::from_utf8_lossy(&printed).into_owned()))
    };
    tokio::time::timeout(HANDSHAKE, ran).await.map_err(|_| format!("it still runs after {} s", HANDSHAKE.as_secs()))?
}
