//! Evals that are packed and run elsewhere: shared by the tests of packs and of their engines.

use std::fs;

use serde_json::Value;

use crate::support::world::World;

/// Its tasks are those in `tasks`, in files or in directories of their own.
pub const EVAL: &str = "kind: Eval
metadata: {name: e}
config:
  agent: {type: builtin.noop}
  taskSets: [{glob: tasks/**/*.yaml}]
";

/// Creates a file, and waits until it is killed, unless `quick` exists. Its cleanup is the task's own `clean.sh`.
pub const SLOW: &str = r#"kind: Task
apiVersion: mcp-eval/v1
metadata: {name: slow}
spec:
  prompt: Do it.
  env: {F: "WORLD/made-{random.id}"}
  setup:
    - command: {run: "touch $F"}
    - command: {run: "echo begun >> WORLD/begun; ls WORLD > WORLD/seen; touch WORLD/here; test -e WORLD/quick || exec sleep 300"}
  verify: [{command: {run: "test -f $F"}}]
  cleanup: [{command: {run: "sh clean.sh $F"}}]
"#;

/// Returns the number of files that units have created and not removed.
pub fn made(world: &World) -> usize {
    let entries = fs::read_dir(world.path(".")).unwrap().flatten();
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("made-")).count()
}

pub fn json(world: &World, path: &str) -> Value {
    serde_json::from_str(&world.read(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The parts of a result: task, run, outcome, whether it passed, and the digest of its plan.
pub type Told = (String, u64, String, bool, Value);

/// Returns what must be equal in a run and in its merged units: no times, no IDs of runs, nothing that depends on the
/// machine.
pub fn told(results: &Value) -> Vec<Told> {
    let one = |r: &Value| {
        let text = |key: &str| r[key].as_str().unwrap().to_owned();
        let run = r["runIndex"].as_u64().unwrap_or_default();
        (text("taskName"), run, text("outcome"), r["taskPassed"].as_bool().unwrap(), r["planDigest"].clone())
    };
    let mut told: Vec<_> = results["results"].as_array().unwrap().iter().map(one).collect();
    told.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
    told
}
