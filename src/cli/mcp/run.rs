//! The tool `run`, offered with `--allow-run`: runs `gevals run` as a separate process.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{Read, Seek, SeekFrom},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::Mutex,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    project,
    result::{self, summary},
    tool::{Answer, Effect, Stop, Tool, given, schema, taken},
};
use crate::{Plans, cli::project_files, report::results_path, results, source::Files};

/// How many bytes of the end of the report are returned.
const REPORT: u64 = 20_000;
/// How often the run is polled.
const TICK: Duration = Duration::from_millis(20);

pub const TOOL: Tool = Tool {
    name: "run",
    title: "Run an eval",
    about: "Runs an eval: starts its servers, its agent, and the scripts of its tasks. This may take minutes. Reports which tasks passed, \
            and why the others did not; `result` with `details` shows more. Cancelling the call ends the run; its cleanups still run.",
    effect: Effect::Runs,
    input: schema::<Input>,
    output: schema::<Output>,
    call: |arguments, stop| run(&taken(arguments)?, stop),
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The file of an eval below the root.
    eval: String,
    /// A regular expression: only tasks whose name matches.
    #[serde(default)]
    task: Option<String>,
    /// Another agent, as `--agent` has it. With `builtin.noop`, which does nothing, a task that passes checks nothing.
    #[serde(default)]
    agent: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct Output {
    /// The exit status of `gevals run`: 0 all passed, 1 a task did not, 3 nothing could run, 4 a cleanup did not pass.
    status: i32,
    /// The end of what it printed.
    report: String,
    /// The results file, below the root.
    results: String,
    /// What the results say, where there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<result::Output>,
}

/// Runs with the same root would write the same files, so there is only one at a time.
static UNDER_WAY: Mutex<()> = Mutex::new(());

fn run(input: &Input, stop: &Stop) -> Answer {
    let looked =
        project::named(std::slice::from_ref(&input.eval), BTreeMap::new())?.compiled(Plans::Evals, false).meant()?;
    // An agent is a file, or a built-in agent that may read one.
    for part in
        input.agent.iter().flat_map(|agent| [agent.as_str(), agent.split_once(':').map_or("", |(_, path)| path)])
    {
        project::inside(Path::new(part))?;
    }
    let mut plans = looked.compiled.evals.iter().flatten();
    let (Some(plan), None) = (plans.next(), plans.next()) else {
        return Err(format!("`{}` is not a single eval: specify its file", input.eval));
    };
    let results = results_path(Path::new(""), &plan.name);
    let Ok(_one) = UNDER_WAY.try_lock() else {
        return Err("another run is in progress: wait for it to end".to_owned());
    };
    let fault = |error: std::io::Error| format!("the run could not be started: {error}");
    let said = tempfile::tempfile().map_err(fault)?;
    let mut command = Command::new(std::env::current_exe().map_err(fault)?);
    // A signal to this server's process group must not interrupt the cleanups. If the server is killed, its end of the
    // pipe is closed.
    command.args(["run", "--color=never", "--end-with-stdin"]).stdin(Stdio::piped()).process_group(0);
    for (option, value) in [("--run", &input.task), ("--agent", &input.agent)] {
        command.args(value.as_ref().map(|value| format!("{option}={value}")));
    }
    command.arg("--").arg(&input.eval);
    command.stdout(said.try_clone().map_err(fault)?).stderr(said.try_clone().map_err(fault)?);
    let status = ended(command.spawn().map_err(fault)?, stop).map_err(fault)?;
    let report = end_of(said).map_err(|error| format!("cannot read the output of the run: {error}"))?;
    // If the run was refused, or ended before it had results, the file has the results of an earlier run.
    let (file, status) = match status.code() {
        Some(status @ (0 | 1 | 4)) => {
            (project_files(&[]).read(&results).ok().and_then(|bytes| String::from_utf8(bytes).ok()), status)
        }
        _ => return Err(format!("the run ended with {status}:\n{report}")),
    };
    let file = file.and_then(|text| results::read(&text).ok());
    let summary = file.map(|file| summary(&file, &file.only(None), false, false));
    given(&Output { status, report, results: results.display().to_string(), summary })
}

/// Waits until no run is in progress. Called when the server ends and has interrupted the run.
pub fn finished() {
    drop(UNDER_WAY.lock());
}

/// Waits for a run. Cancelling the call interrupts it, and its cleanups are run.
fn ended(mut child: Child, stop: &Stop) -> std::io::Result<ExitStatus> {
    let mut interrupted = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if stop.is_wanted() && !interrupted {
            interrupted = true;
            if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                kill_process(pid, Signal::TERM)?;
            }
        }
        std::thread::sleep(TICK);
    }
}

fn end_of(mut file: File) -> std::io::Result<String> {
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(REPORT)))?;
    let mut bytes = Vec::new();
    file.take(REPORT).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
