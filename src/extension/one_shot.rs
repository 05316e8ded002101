//! The one-shot protocol of `portable-format.md`: a process an operation, `PROGRAM action|check NAME --input FILE`.

use std::path::PathBuf;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{Answer, Call, Fault, Place, Program, rpc, session};
use crate::{
    host::{Exit, Host},
    lock::ManifestOperation,
    plan::PlanPhase,
};

pub(super) async fn call(
    host: &dyn Host,
    program: &Program,
    operation: &ManifestOperation,
    place: &Place,
    call: Call<'_>,
) -> Result<Answer, Fault> {
    let input = Input::new(
        host,
        &json!({
            "args": call.args,
            "config": program.config,
            "context": rpc::context(place, &call),
        }),
    )
    .map_err(Fault::new)?;
    let verb = match call.phase {
        PlanPhase::Verify if operation.check => "check",
        PlanPhase::Setup | PlanPhase::Cleanup if operation.action => "action",
        _ if operation.action => "action",
        _ => "check",
    };
    let mut exec = session::exec(program, place).args([verb, call.operation, "--input"]).args([&input.file]);
    exec.timeout = call.timeout;
    let finished = host.exec(exec, CancellationToken::new()).await;
    let log = finished.stderr.text();
    let fault = |why: String| Fault { why, log: log.clone() };
    let status = match finished.exit {
        Exit::Exited(status) => status,
        Exit::Signalled(signal) => return Err(fault(format!("it was killed by signal {signal}"))),
        Exit::TimedOut { .. } => return Err(fault("it did not end in time".to_owned())),
        Exit::Cancelled { .. } => return Err(fault("it was cancelled".to_owned())),
        Exit::NotStarted(why) => return Err(fault(format!("it could not be started: {why}"))),
    };
    if finished.stdout.dropped > 0 {
        return Err(fault("its answer is too long".to_owned()));
    }
    let answer = serde_json::from_slice::<Value>(&finished.stdout.bytes)
        .map_err(|e| match finished.stdout.text().trim() {
            "" => format!("it printed no answer on standard output, and exited with status {status}"),
            _ => format!(
                "its standard output is not one JSON value: {e}; what is not its answer belongs on standard error"
            ),
        })
        .and_then(rpc::answer)
        .map_err(fault)?;
    if answer.success && status != 0 {
        return Err(fault(format!("it answered with success, and exited with status {status}")));
    }
    Ok(Answer { log, leftover: finished.leftover, ..answer })
}

/// The file of a call, in a folder of its own; removed when this is dropped.
struct Input<'a> {
    host: &'a dyn Host,
    dir: PathBuf,
    file: PathBuf,
}

impl<'a> Input<'a> {
    fn new(host: &'a dyn Host, input: &Value) -> Result<Self, String> {
        let dir = host.temp_dir().map_err(|e| format!("no temporary folder could be made: {e}"))?;
        let file = dir.join("input.json");
        let input_file = Self { host, dir, file };
        let written = host.write(&input_file.file, input.to_string().as_bytes(), Some(0o600));
        written.map(|()| input_file).map_err(|e| format!("no temporary file could be written: {e}"))
    }
}

impl Drop for Input<'_> {
    fn drop(&mut self) {
        let _ = self.host.remove(&self.dir);
    }
}
