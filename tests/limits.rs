//! What a run uses and may use: calls that were not made, tokens, money, time. As users see it, end to end.
#![cfg(all(feature = "run", target_os = "linux"))]
#![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test looks at the world from outside")]

#[path = "support/world.rs"]
#[expect(dead_code, reason = "shared with other tests")]
mod world;

use serde_json::{Value, json};
use world::World;

const MCP: &str = "
mcpServers:
  notes: {command: gevals, args: [demo-server, --dir, WORLD/notes], enableAllTools: true}
";
const EVAL: &str = "
kind: Eval
metadata: {name: e}
config:
  agent: {type: builtin.script, path: oracle.yaml}
  mcpConfigFile: mcp.yaml
  taskSets: [{glob: 'tasks/*.yaml'}]
";

fn task(name: &str, more: &str) -> String {
    format!(
        "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {{name: {name}}}\nspec:\n  prompt: Write it down.\n  verify: [{{command: {{run: 'test -d WORLD'}}}}]\n{more}"
    )
}

/// Tasks, and the calls that the scripted agent makes in each.
fn world(tasks: &[(&str, &str, &str)]) -> World {
    let world = World::new(&[("eval.yaml", EVAL), ("mcp.yaml", MCP)]);
    let mut oracle = "kind: Oracle\ntasks:\n".to_owned();
    for (name, more, calls) in tasks {
        world.write(&format!("tasks/{name}.yaml"), &task(name, more));
        oracle += &format!("  {name}:\n    calls: {calls}\n    output: I wrote it down.\n");
    }
    world.write("oracle.yaml", &oracle);
    world
}

fn result<'r>(results: &'r Value, task: &str) -> &'r Value {
    let found = results["results"].as_array().unwrap().iter().find(|r| r["taskName"] == task);
    found.unwrap_or_else(|| panic!("no {task}: {results}"))
}

const LIST: &str = "[{server: notes, tool: notes_list, args: {}}]";
/// The server answers that there is no such note.
const FAILS: &str = "[{server: notes, tool: notes_read, args: {title: nothing}}]";

#[test]
fn green_that_tested_nothing_is_told_everywhere() {
    let world = world(&[("none", "", "[]"), ("used", "", LIST), ("in-vain", "", FAILS)]);
    let said = "green that tested nothing: no call to a server under test succeeded";
    world.run(&["run", "eval.yaml"]).expect(0, &["3 of 3 tasks passed", &format!("warning: {said}: in-vain, none\n")]);
    let results = world.results("e");
    let remark = json!([{ "kind": "serverUnused", "message": said }]);
    assert_eq!(result(&results, "none")["remarks"], remark);
    assert_eq!(result(&results, "in-vain")["remarks"], remark);
    assert!(result(&results, "used").get("remarks").is_none());
    let out = "gevals-e-out.json";
    world.run(&["result", "summary", out]).expect(0, &[said]);
    world.run(&["result", "view", out]).expect(0, &[&format!("Remark:     {said}")]);
    let junit = world.run(&["result", "convert", "junit", out]).expect(0, &["gevals.serverUnused"]);
    assert!(!junit.out.contains("<failure"), "{}", junit.out);
    let mut actions = world.command(&["run", "eval.yaml"]);
    actions.env("GITHUB_ACTIONS", "true").env("GITHUB_STEP_SUMMARY", world.path("page.md"));
    world.start(actions).end().expect(0, &["::warning file=tasks/none.yaml,line=3", said]);
    assert!(world.read("page.md").contains(said));

    world.run(&["run", "eval.yaml", "--require-server-use"]).expect(
        1,
        &["1 of 3 tasks passed, 2 failed", "`--require-server-use` demands one", "rerun: ", " --require-server-use"],
    );
    let results = world.results("e");
    assert_eq!(
        (&result(&results, "none")["outcome"], &result(&results, "none")["taskPassed"]),
        (&json!("failed"), &json!(false))
    );
    world.run(&["result", "convert", "junit", out]).expect(0, &["type=\"ServerUnused\""]);
    world.run(&["result", "verify", out, "--task", "0.5"]).expect(1, &[]);
}

#[test]
fn an_agent_that_is_to_call_nothing_has_tested_something() {
    let world = world(&[("none", "", "[]")]);
    world.write(
        "eval.yaml",
        &EVAL.replace("glob: 'tasks/*.yaml'", "glob: 'tasks/*.yaml', assertions: {maxToolCalls: 0}"),
    );
    let ran = world.run(&["run", "eval.yaml", "--require-server-use"]).expect(0, &["1 of 1 task passed"]);
    assert!(!ran.out.contains("tested nothing"), "{}", ran.out);
    // Nor has an eval without servers any to be called.
    world.write("eval.yaml", &EVAL.replace("  mcpConfigFile: mcp.yaml\n", ""));
    world.run(&["run", "eval.yaml", "--require-server-use"]).expect(0, &["1 of 1 task passed"]);
}
