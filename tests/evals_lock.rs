//! `gevals evals lock` and `diff`: what a server ships now, compared with what it shipped when it was locked.
#![cfg(all(feature = "run", target_os = "linux"))]

use serde_json::{Value, json};

use crate::support::world::{Ran, World, gevals};

const EVALS: &str = r#"kind: McpEvals
evals:
  - id: no-such-note
    name: Says that there is no such note
    gradingType: exact-match
    input: {type: execution, toolName: notes_read, arguments: {title: none}}
    expected: {type: exact-match, content: {isError: true}}
  - id: delete-plan
    name: Deletes the note
    gradingType: exact-match
    input: {type: invocation, messages: [{role: user, content: {type: text, text: Delete my note plan.}}]}
    expected: {type: exact-match, toolName: notes_delete, arguments: {title: plan}}
"#;

/// Runs `gevals evals WHAT ARGS` on the demo server with the evals beside it.
fn evals(world: &World, args: &[&str]) -> Ran {
    let own = gevals().into_string().unwrap();
    let server = ["--", &own, "evals", "serve", "evals.yaml", "--", &own, "demo-server", "--dir", "notes"];
    world.run(&[&["evals"][..], args, &server].concat())
}

#[test]
fn a_lock_reports_changes_and_keeps_other_entries() {
    let world = World::new(&[("evals.yaml", EVALS)]);
    let release = "releases:\n  github.com/a/b@v1:\n    tag: v1\n    files: {}\n";
    world.write("gevals.lock", &format!("version: 1\n{release}"));
    let run = ["run", "--level", "execution", "--allow-execution"];
    let locked = [&run[..], &["--locked"]].concat();
    // A lock from a version without evals can be read, and contains none.
    evals(&world, &["diff"]).expect(2, &["`gevals.lock` has no evals of the server `gevals-notes`", "evals lock"]);
    evals(&world, &locked).expect(2, &["nothing is run: `gevals.lock` has no evals"]);
    let unlocked = evals(&world, &run).expect(0, &["1 of 1 run passed"]);
    assert!(!unlocked.err.contains("gevals.lock"), "{}", unlocked.err);

    evals(&world, &["lock"]).expect(0, &["locked 2 evals of gevals-notes in gevals.lock"]);
    let text = world.read("gevals.lock");
    assert!(text.contains(release.trim_start()) && text.contains("tool: notes_read"), "{text}");
    assert!(!text.contains("Delete my note"), "{text}");
    evals(&world, &["diff"]).expect(0, &["2 evals of gevals-notes are the same as in gevals.lock"]);
    let passed = evals(&world, &locked).expect(0, &["1 of 1 run passed"]);
    assert!(!passed.err.contains("gevals.lock"), "{}", passed.err);

    // The invocation is removed, and the expectation of the execution is weaker.
    let weaker =
        EVALS.split("  - id: delete-plan").next().unwrap().replace("{isError: true}", "{content: [], isError: true}");
    world.write("evals.yaml", &weaker);
    let changed = "changed: `no-such-note`: `expected`";
    let differs =
        ["removed: `delete-plan`", changed, "the tool `notes_delete` no longer has any evals", "2 differences between"];
    let diff = evals(&world, &["diff"]).expect(1, &differs);
    assert_eq!(diff.out.lines().count(), 4, "{}", diff.out);
    let told = evals(&world, &["diff", "--format", "json"]).expect(1, &[]);
    let told: Value = serde_json::from_str(&told.out).unwrap();
    assert_eq!(told["changed"], json!([{"id": "no-such-note", "parts": ["expected"]}]));
    assert_eq!((&told["toolsWithoutEvals"], &told["same"]), (&json!(["notes_delete"]), &json!(false)));
    // If only one level is selected, the others do not count.
    let warned = evals(&world, &run).expect(1, &["differ from `gevals.lock`", changed]);
    assert!(!warned.err.contains("delete-plan"), "{}", warned.err);
    let refused = evals(&world, &locked).expect(2, &["nothing is run: the evals of", changed]);
    assert_eq!(refused.out, "");
    evals(&world, &["strength", "--allow-execution", "--locked"]).expect(2, &["nothing is run", "delete-plan"]);

    evals(&world, &["lock"]).expect(0, &[changed, "locked 1 eval of"]);
    evals(&world, &["diff"]).expect(0, &["1 eval of"]);
    // A server that no longer declares evals has removed them all.
    let own = gevals().into_string().unwrap();
    let bare = ["evals", "diff", "--", &own, "demo-server", "--dir", "notes"];
    world.run(&bare).expect(1, &["does not declare the capability `evals`", "removed: `no-such-note`"]);
    // A lock that cannot be read is not overwritten.
    world.write("gevals.lock", "version: 1\nevals: {a: {tools: []}}\n");
    evals(&world, &["lock"]).expect(2, &["cannot read `gevals.lock`", "tools", "delete it and recreate it"]);
    evals(&world, &run).expect(1, &["cannot read `gevals.lock`"]);
    assert!(world.read("gevals.lock").contains("tools"));
}

#[test]
fn files_and_lists_are_compared() {
    let world = World::new(&[("evals.yaml", EVALS)]);
    let listed = evals(&world, &["list", "--format", "json"]).expect(0, &[]);
    world.write("old.json", &listed.out);
    evals(&world, &["diff", "old.json"]).expect(0, &["2 evals of gevals-notes are the same as in old.json"]);
    world
        .run(&["evals", "diff", "old.json", "evals.yaml"])
        .expect(0, &["2 evals of evals.yaml are the same as in old.json"]);
    world.write("new.yaml", &EVALS.replace("id: delete-plan", "id: delete").replace("Says that", "Tells that"));
    let said = ["changed: `no-such-note`: `name`", "renamed: `delete-plan` to `delete`", "2 differences between"];
    let ran = world.run(&["evals", "diff", "old.json", "new.yaml"]).expect(1, &said);
    assert_eq!(ran.out.lines().count(), 3, "{}", ran.out);
    for (args, said) in [
        (&["old.json"][..], "nothing to compare `old.json` with"),
        (&["none.yaml", "new.yaml"], "cannot read `none.yaml`"),
        (&["stdout", "new.yaml"], "stdout:1:1"),
        (&[], "specify a server"),
    ] {
        world.run(&[&["evals", "diff"], args].concat()).expect(2, &[said]);
    }
    let twice = EVALS.replace("id: delete-plan", "id: no-such-note");
    world.write("twice.yaml", &twice);
    world.run(&["evals", "diff", "old.json", "twice.yaml"]).expect(2, &["duplicate id"]);
}

/// `gevals lock` for an eval and `gevals evals lock` for its server write to one file, and each keeps the other's
/// entries.
#[test]
fn the_tools_and_the_evals_of_a_server_are_locked_in_one_file() {
    let own = gevals().into_string().unwrap();
    let world = World::new(&[("suite/evals.yaml", EVALS)]);
    let mcp = json!({"mcpServers": {"notes": {"command": own, "args":
        ["evals", "serve", "evals.yaml", "--", own, "demo-server", "--dir", "notes"], "enableAllTools": true}}});
    world.write("suite/mcp.json", &mcp.to_string());
    world.write(
        "suite/eval.yaml",
        "kind: Eval\nmetadata: {name: e}\nconfig:\n  agent: {type: builtin.noop}\n  mcpConfigFile: mcp.json\n  taskSets: [{path: task.yaml}]\n",
    );
    world.write("suite/task.yaml", "apiVersion: mcp-eval/v1\nkind: Task\nmetadata: {name: t}\nspec: {prompt: p, verify: [{command: {id: a, run: 'false'}}]}\n");
    let reach = ["--mcp-config", "suite/mcp.json", "notes"];
    world.run(&[&["evals", "lock"][..], &reach].concat()).expect(0, &["locked 2 evals of notes in suite/gevals.lock"]);
    world.run(&["lock", "suite/eval.yaml"]).expect(0, &["locked"]);
    let text = world.read("suite/gevals.lock");
    assert!(text.contains("delete-plan:") && text.contains("inputSchema:"), "{text}");
    world.run(&[&["evals", "lock"][..], &reach].concat()).expect(0, &[]);
    assert_eq!(world.read("suite/gevals.lock"), text);
    world.run(&["lock", "suite/eval.yaml", "--check"]).expect(0, &["nothing differs from"]);
    world
        .run(&[&["evals", "diff"][..], &reach].concat())
        .expect(0, &["2 evals of notes are the same as in suite/gevals.lock"]);
    // A lock that contains only evals does not make the tools of the server unknown.
    std::fs::remove_file(world.path("suite/gevals.lock")).unwrap();
    world.run(&[&["evals", "lock"][..], &reach].concat()).expect(0, &[]);
    world.run(&["lock", "suite/eval.yaml", "--check"]).expect(1, &["server `notes` was added"]);
}
