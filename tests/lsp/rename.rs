//! Every name in a suite that can be renamed is renamed, and `gevals check` has the same findings afterwards.

use std::{collections::BTreeMap, process::Command};

use serde_json::{Value, json};

use super::{
    Editor, edited,
    world::{World, gevals},
};

const EVAL: &str =
    "kind: Eval\nmetadata: {name: e}\nconfig:\n  agent: {type: builtin.noop}\n  taskSets:\n  - glob: tasks/*.yaml\n";
const A: &str = "kind: Task
apiVersion: mcp-eval/v1
metadata: {name: a}
spec:
  env: {TITLE: \"x {random.id}\", HEAD: h}
  prompt: {file: ask.md}
  verify:
  - command:
      run: |
        echo \"𝄞 ${TITLE:-x}\" \"$TITLE\" | grep -q x
  - command:
      run: test \"$TITLE\" = z
      env: {TITLE: z}
  - command:
      run: |
        TITLE=own
        test \"$TITLE\" = own
  - script: {file: a.sh}
";
const B: &str = "kind: Task
apiVersion: mcp-eval/v1
metadata: {name: b}
spec:
  env: {HEAD: h}
  prompt: {file: ask.md}
  verify:
  - command: {run: test -e x}
";

fn world() -> World {
    let world = World::new(&[
        ("suite/s/eval.yaml", EVAL),
        ("suite/s/tasks/a.yaml", A),
        ("suite/s/tasks/b.yaml", B),
        ("suite/s/tasks/ask.md", "Say {env.HEAD}.\n"),
        ("suite/s/tasks/a.sh", "#!/bin/sh\ntest -n \"${TITLE}\"\n"),
    ]);
    world.copy("examples/quickstart", "suite/q");
    world
}

/// Returns the findings in the whole suite: rule, file and message, with the new name replaced.
fn findings(world: &World, new: &str, old: &str) -> Vec<String> {
    let folder = world.path("suite");
    let output = Command::new(gevals()).args(["check", "--format", "json"]).arg(folder).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let found = report["diagnostics"].as_array().unwrap().iter();
    let mut found: Vec<String> = found
        .map(|one| format!("{} {} {}", one["rule"], one["places"][0]["path"], one["message"]).replace(new, old))
        .collect();
    found.sort();
    found
}

/// Returns the answer to a rename request at a byte of a file.
fn rename(editor: &mut Editor, method: &str, path: &str, text: &str, at: usize) -> Value {
    let line = text[..at].matches('\n').count();
    let character = text[text[..at].rfind('\n').map_or(0, |at| at + 1)..at].encode_utf16().count();
    let document = json!({ "uri": editor.uri(path) });
    let position = json!({ "line": line, "character": character });
    editor.ask(
        &format!("textDocument/{method}"),
        json!({ "textDocument": document, "position": position, "newName": "renamed" }),
    )
}

#[test]
fn a_rename_does_not_change_the_findings() {
    let world = world();
    let before = findings(&world, "renamed", "renamed");
    let mut editor = Editor::start(&world, &json!({}));
    let mut renamed = Vec::new();
    for path in ["s/tasks/a.yaml", "s/tasks/b.yaml", "q/tasks/tidy-up.yaml", "q/tasks/write-note.yaml"] {
        let text = world.read(&format!("suite/{path}"));
        editor.open(path, &text);
        let mut done: Vec<Value> = Vec::new();
        let begins =
            |at: &usize| text[*at..].starts_with(char::is_alphabetic) && !text[..*at].ends_with(char::is_alphanumeric);
        for at in text.char_indices().map(|(at, _)| at).filter(begins) {
            let name = rename(&mut editor, "prepareRename", path, &text, at)["placeholder"].clone();
            let answer = rename(&mut editor, "rename", path, &text, at);
            if !name.is_string() || done.contains(&answer) {
                continue;
            }
            done.push(answer.clone());
            let name = name.as_str().unwrap();
            let Some(changes) = answer["changes"].as_object() else {
                let why = answer["message"].as_str().unwrap().to_owned();
                renamed.push(format!("{path} {name}: {why}"));
                continue;
            };
            renamed.push(format!("{path} {name}"));
            let mut old = BTreeMap::new();
            for (uri, edits) in changes {
                let file = format!("suite/{}", &uri[editor.root.len() + 1..]);
                let text = world.read(&file);
                std::fs::write(world.path(&file), edited(&text, edits)).unwrap();
                old.insert(file, text);
            }
            assert_eq!(findings(&world, "renamed", name), before, "{path}: {name}");
            for (file, text) in old {
                std::fs::write(world.path(&file), text).unwrap();
            }
        }
    }
    for wanted in ["q/tasks/tidy-up.yaml title", "q/tasks/tidy-up.yaml note", "s/tasks/a.yaml TITLE"] {
        assert!(renamed.contains(&wanted.to_owned()), "{wanted}: {renamed:#?}");
    }
    // The prompt file also belongs to another task.
    for (task, other) in [("a", "b"), ("b", "a")] {
        let refused = renamed.iter().find(|one| one.starts_with(&format!("s/tasks/{task}.yaml HEAD: "))).unwrap();
        assert!(refused.contains(&format!("the task `{other}`")), "{refused}");
    }
    assert!(editor.end().success());
}

/// `check` does not report a variable that a script no longer receives, so this test compares the edits.
#[test]
fn a_variable_is_renamed_in_scripts_that_receive_it_from_the_task() {
    let world = world();
    let mut editor = Editor::start(&world, &json!({}));
    editor.open("s/tasks/a.yaml", A);
    let answer = rename(&mut editor, "rename", "s/tasks/a.yaml", A, A.find("TITLE").unwrap());
    let task =
        A.replace("{TITLE: \"x", "{renamed: \"x").replace("${TITLE:-x}\" \"$TITLE\"", "${renamed:-x}\" \"$renamed\"");
    for (path, wanted) in [("s/tasks/a.yaml", task.as_str()), ("s/tasks/a.sh", "#!/bin/sh\ntest -n \"${renamed}\"\n")] {
        let text = world.read(&format!("suite/{path}"));
        assert_eq!(edited(&text, &answer["changes"][editor.uri(path)]), wanted, "{path}");
    }
    assert!(editor.end().success());
}
