//! Evals that are packed and run elsewhere: what the tests of packs and of their engines have in common.

use std::fs;

use serde_json::Value;

use crate::world::World;

/// Its tasks are those below `tasks`, in files or in folders of their own.
pub const EVAL: &str = "kind: Eval
metadata: {name: e}
config:
  agent: {type: builtin.noop}
  taskSets: [{glob: tasks/**/*.yaml}]
";

/// Makes a file, and waits until it is killed, unless `quick` is there. Its cleanup is the task's own `clean.sh`.
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

/// How many files units have made and not removed.
pub fn made(world: &World) -> usize {
    let entries = fs::read_dir(world.path(".")).unwrap().flatten();
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("made-")).count()
}

pub fn json(world: &World, path: &str) -> Value {
    serde_json::from_str(&world.read(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Of a result: task, run, outcome, whether it passed, and the digest of its plan.
pub type Told = (String, u64, String, bool, Value);

/// What must not differ between a run and its units together: no times, no ids of runs, nothing of the machine.
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
