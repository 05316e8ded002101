//! What an editor requests at every keystroke and cursor movement: completion where it helps and nowhere else, and
//! cheap answers.

use serde_json::{Value, json};

use super::{EVAL, Editor, TASK, edited, labels, quickstart, world};

/// Replaces the text `old` and requests completion at `¦` of the new one.
fn completed(editor: &mut Editor, task: &str, version: u64, old: &str, new: &str) -> (String, Value) {
    assert!(task.contains(old), "{old}");
    let marked = task.replacen(old, new, 1);
    let (before, behind) = marked.split_once('¦').unwrap();
    let text = format!("{before}{behind}");
    editor.change("tasks/write-note.yaml", version, json!([{ "text": text }]));
    let found = editor.at("textDocument/completion", "tasks/write-note.yaml", &text, before);
    (text, found)
}

#[test]
fn flow_collections_are_completed_like_blocks() {
    let world = quickstart();
    let task = world.read("suite/tasks/write-note.yaml");
    let mut editor = Editor::start(&world, &json!({}));
    editor.open("tasks/write-note.yaml", &task);
    let args = "        args: {title: \"{env.TITLE}\"}\n";
    // Arguments of a tool: at the start, in the middle of a word, after others, and before a missing closing bracket.
    for (nth, (new, wanted)) in [
        ("        args: {¦}\n", "        args: {title: }\n"),
        ("        args: {ti¦}\n", "        args: {title: }\n"),
        ("        args: {ti¦tl: x}\n", "        args: {title: x}\n"),
        ("        args: {odd: [1], ti¦}\n", "        args: {odd: [1], title: }\n"),
        ("        args: {ti¦\n", "        args: {title: \n"),
    ]
    .into_iter()
    .enumerate()
    {
        let (text, found) = completed(&mut editor, &task, 10 + nth as u64, args, new);
        assert_eq!(labels(&found), ["title"], "{new}");
        let text = edited(&text, &json!([found["items"][0]["textEdit"]]));
        assert!(text.contains(wanted), "{new}: {text}");
    }
    // An existing argument is not offered again; a hole in quotes is still completed.
    let (_, found) = completed(&mut editor, &task, 20, args, "        args: {title: x, ¦}\n");
    assert!(labels(&found).is_empty(), "{found}");
    let (_, found) = completed(&mut editor, &task, 21, args, "        args: {title: \"{en¦\"}\n");
    assert!(labels(&found).contains(&"env"), "{found}");
    // Words, including in quotes: an existing word is replaced as a whole.
    for (nth, value) in ["ea¦", "e¦asy", "\"e¦a\"", "'¦'", "¦"].into_iter().enumerate() {
        let new = format!("difficulty: {value}");
        let (text, found) = completed(&mut editor, &task, 30 + nth as u64, "difficulty: easy", &new);
        assert_eq!(labels(&found), ["easy", "medium", "hard"], "{value}");
        assert_eq!(edited(&text, &json!([found["items"][0]["textEdit"]])), task, "{value}");
        let metadata = "metadata:\n  name: write-note\n";
        let new = format!("metadata: {{difficulty: {value}, name: write-note}}\nx-rest:\n");
        let (text, found) = completed(&mut editor, &task, 50 + nth as u64, metadata, &new);
        if !value.starts_with(['"', '\'']) {
            assert_eq!(labels(&found), ["easy", "medium", "hard"], "{new}");
            let text = edited(&text, &json!([found["items"][0]["textEdit"]]));
            assert!(text.contains("{difficulty: easy, name: write-note}"), "{text}");
        }
    }
    assert!(editor.end().success());
}

#[test]
fn nothing_is_completed_in_comments_or_before_existing_text() {
    let world = quickstart();
    let task = world.read("suite/tasks/write-note.yaml");
    let mut editor = Editor::start(&world, &json!({}));
    editor.open("tasks/write-note.yaml", &task);
    for (nth, (old, new)) in [
        ("# The smallest", "# The ¦ smallest"),
        ("# The smallest", "#¦  smallest"),
        ("  difficulty: easy", "  difficulty: easy  # or ¦ so"),
        ("  difficulty: easy", " ¦  difficulty: easy"),
        ("  difficulty: easy", "  ¦  # difficulty: {env.\n  difficulty: [easy"),
        ("  difficulty: easy", "  # difficulty ¦\n  difficulty: [easy"),
        ("    - notes.notes_read:", "    -¦ notes.notes_read:"),
    ]
    .into_iter()
    .enumerate()
    {
        let (_, found) = completed(&mut editor, &task, 10 + nth as u64, old, new);
        assert!(labels(&found).is_empty(), "{new}: {found}");
    }
    // Completion works before a comment.
    let (_, found) = completed(&mut editor, &task, 30, "  difficulty: easy", "  diff¦  # how hard");
    assert!(labels(&found).contains(&"difficulty"), "{found}");
    assert!(editor.end().success());
}

/// Trying all fixes means compiling everything several times, and VS Code requests actions whenever the cursor moves.
#[test]
fn all_fixes_are_computed_only_when_requested() {
    let world = world();
    let wrong = TASK.replace("verify:", "verfy:");
    let lazy = json!({ "textDocument": { "codeAction": { "resolveSupport": { "properties": ["edit"] } } } });
    let mut editor = Editor::start(&world, &lazy);
    editor.open("tasks/t.yaml", &wrong);
    let uri = editor.uri("tasks/t.yaml");
    let begin = json!({ "line": 0, "character": 0 });
    let range = json!({ "start": begin, "end": begin });
    let params = json!({ "textDocument": { "uri": uri }, "range": range, "context": { "diagnostics": [] } });
    let actions = editor.ask("textDocument/codeAction", params.clone());
    let action = actions.as_array().unwrap().iter().find(|one| one["kind"] == "source.fixAll").unwrap();
    assert!(action.get("edit").is_none(), "{action}");
    let resolved = editor.ask("codeAction/resolve", action.clone());
    assert_eq!(edited(&wrong, &resolved["edit"]["changes"][&uri]), TASK);
    // If there is no safe fix, nothing is offered.
    editor.change("tasks/t.yaml", 2, json!([{ "text": TASK }]));
    let actions = editor.ask("textDocument/codeAction", params);
    assert!(!actions.to_string().contains("source.fixAll"), "{actions}");
    assert!(editor.end().success());
}

#[test]
fn cancelled_requests_are_not_processed() {
    let world = world();
    let mut editor = Editor::start(&world, &json!({}));
    editor.open("tasks/t.yaml", TASK);
    let uri = editor.uri("tasks/t.yaml");
    let position = json!({ "line": 2, "character": 0 });
    // In one piece, so that all messages have arrived when the first one is read.
    let mut all = String::new();
    for message in [
        json!({ "jsonrpc": "2.0", "id": "a", "method": "textDocument/hover", "params": { "textDocument": { "uri": uri }, "position": position } }),
        json!({ "jsonrpc": "2.0", "id": "b", "method": "textDocument/hover", "params": { "textDocument": { "uri": uri }, "position": position } }),
        json!({ "jsonrpc": "2.0", "method": "$/cancelRequest", "params": { "id": "b" } }),
        json!({ "jsonrpc": "2.0", "method": "$/cancelRequest", "params": { "id": 77 } }),
    ] {
        let body = message.to_string();
        all += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
    }
    std::io::Write::write_all(editor.input.as_mut().unwrap(), all.as_bytes()).unwrap();
    let mut answers = std::collections::BTreeMap::new();
    while answers.len() < 2 {
        let message = editor.messages.recv_timeout(super::LIMIT).unwrap();
        match message["id"].as_str().filter(|id| ["a", "b"].contains(id)) {
            Some(id) => drop(answers.insert(id.to_owned(), message.clone())),
            None => editor.note(message),
        }
    }
    assert!(answers["a"].get("result").is_some(), "{answers:?}");
    assert_eq!(answers["b"]["error"]["code"], -32800, "{answers:?}");
    assert!(editor.end().success());
}

#[test]
fn findings_link_to_their_pages_and_names_to_their_uses() {
    let world = world();
    let mut editor = Editor::start(&world, &json!({}));
    editor.open("eval.yaml", &EVAL.replace("tasks/*", "nothing/*"));
    editor.rules("eval.yaml", 1);
    let shown = editor.shown[&editor.uri("eval.yaml")]["diagnostics"][0].clone();
    assert!(shown["codeDescription"]["href"].as_str().unwrap().ends_with("/lints/empty-glob.md"), "{shown}");
    editor.open("tasks/t.yaml", TASK);
    let places = editor.at("textDocument/documentHighlight", "tasks/t.yaml", TASK, "{A: \"{steps.ma");
    let found = edited(
        TASK,
        &places.as_array().unwrap().iter().map(|one| json!({ "range": one["range"], "newText": "X" })).collect(),
    );
    assert_eq!(found, TASK.replace("id: made", "id: X").replace("steps.made", "steps.X"));
    assert_eq!(editor.at("textDocument/documentHighlight", "tasks/t.yaml", TASK, "echo he"), json!([]));
    assert!(editor.end().success());
}

/// Lines may end with CRLF: a position beyond the end of a line is before both characters.
#[test]
fn a_change_beyond_the_end_of_a_line_keeps_the_line_ending() {
    let world = world();
    let text = TASK.replace('\n', "\r\n");
    let mut editor = Editor::start(&world, &json!({}));
    editor.open("tasks/t.yaml", &text);
    let before = editor.rules("tasks/t.yaml", 1);
    let end = json!({ "line": 8, "character": 999 });
    editor.change("tasks/t.yaml", 2, json!([{ "range": { "start": end, "end": end }, "text": " world" }]));
    assert_eq!(editor.rules("tasks/t.yaml", 2), before);
    let hover = editor.at("textDocument/hover", "tasks/t.yaml", &text, "outputs: {wo");
    assert!(hover.is_object(), "{hover}");
    assert!(editor.end().success());
}

/// A file that exists only in the editor is not read by anything else: its faults are reported there or nowhere.
#[test]
fn an_unsaved_file_keeps_its_findings_while_it_is_unreadable() {
    let world = world();
    for folders in
        [json!([{ "uri": format!("file://{}", world.path("suite").display()), "name": "suite" }]), Value::Null]
    {
        let mut editor = Editor::start_in(&world, &json!({}), &folders);
        editor.open("tasks/new.yaml", TASK);
        editor.change("tasks/new.yaml", 2, json!([{ "text": TASK.replace("{name: t}", "{name: t") }]));
        assert_eq!(editor.rules("tasks/new.yaml", 2), ["syntax"], "{folders}");
        editor.change("tasks/new.yaml", 3, json!([{ "text": TASK.replace("kind: Task", "kind: Tsk") }]));
        assert_eq!(editor.rules("tasks/new.yaml", 3), ["unknown-kind"], "{folders}");
        // A file of another program, and a script that writes one of ours, have no findings.
        editor.open("chart.yaml", "apiVersion: tekton.dev/v1\nkind: Task\nspec: [\n");
        assert!(editor.rules("chart.yaml", 1).is_empty());
        editor.open("make.sh", "cat >task.yaml <<.\nkind: Task\n.\n");
        assert!(editor.rules("make.sh", 1).is_empty());
        assert!(editor.end().success());
    }
}

/// The last resort: the finding is correct, but the author wants it that way.
#[test]
fn a_finding_can_be_allowed_by_a_comment() {
    let world = world();
    let mut editor = Editor::start(&world, &json!({}));
    let path = "tasks/t.yaml";
    // Several findings on one line, and several in one block of text.
    let task = "kind: Task
apiVersion: mcp-eval/v1
metadata: {name: t}
spec:
  env: {ODD: x}
  setup:
  - command:
      run: |
        kubectl create namespace a-fixed-name
  prompt: Say it.
  verify:
  - command:
      run: |
        echo so
        test \"$ODD\" = \"$ODD\"
        curl http://localhost/x | grep $NOT_SET
";
    let mut text = task.to_owned();
    editor.open(path, &text);
    let mut version = 1;
    let before = editor.rules(path, version);
    assert!(before.len() > 3, "{before:?}");
    let uri = editor.uri(path);
    // Each one is allowed, one after another, until none is left.
    for _ in 0..before.len() {
        let Some(first) = editor.shown[&uri]["diagnostics"].as_array().unwrap().first().cloned() else { break };
        let context = json!({ "diagnostics": [first], "only": ["quickfix"] });
        let params = json!({ "textDocument": { "uri": uri }, "range": first["range"], "context": context });
        let actions = editor.ask("textDocument/codeAction", params);
        let title = format!("allow `{}` here", first["code"].as_str().unwrap());
        let action = actions.as_array().unwrap().iter().find(|one| one["title"] == title);
        text = edited(&text, &action.unwrap_or_else(|| panic!("{title}: {actions}"))["edit"]["changes"][&uri]);
        version += 1;
        editor.change(path, version, json!([{ "text": text }]));
        editor.rules(path, version);
    }
    assert_eq!(editor.rules(path, version), [""; 0], "{text}");
    // A hard error cannot be allowed.
    version += 1;
    editor.change(path, version, json!([{ "text": task.replace("verify:", "verfy:") }]));
    assert!(editor.rules(path, version).contains(&"unknown-field".to_owned()));
    let finding = editor.shown[&uri]["diagnostics"].as_array().unwrap().iter().find(|d| d["code"] == "unknown-field");
    let context = json!({ "diagnostics": [], "only": ["quickfix"] });
    let params = json!({ "textDocument": { "uri": uri }, "range": finding.unwrap()["range"], "context": context });
    let actions = editor.ask("textDocument/codeAction", params).to_string();
    assert!(!actions.contains("allow `"), "{actions}");
    assert!(editor.end().success());
}
