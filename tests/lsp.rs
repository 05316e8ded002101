//! `gevals lsp` as an editor uses it: a process, its standard streams, and messages in the order of an editing session.
#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test looks at the world from outside")]

#[path = "support/world.rs"]
#[expect(dead_code, reason = "shared with other tests")]
mod world;

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, channel},
    time::Duration,
};

use serde_json::{Value, json};
use world::World;

/// Far more than an answer takes.
const LIMIT: Duration = Duration::from_secs(20);

struct Editor {
    child: Child,
    input: Option<ChildStdin>,
    messages: Receiver<Value>,
    next: u64,
    /// What is shown for each file by now.
    shown: BTreeMap<String, Value>,
    root: String,
}

impl Editor {
    fn start(world: &World, capabilities: &Value) -> Editor {
        let root = format!("file://{}", world.path("suite").display());
        Self::start_in(world, capabilities, &json!([{ "uri": root, "name": "suite" }]))
    }

    fn start_in(world: &World, capabilities: &Value, folders: &Value) -> Editor {
        let mut child = Command::new(world::gevals())
            .arg("lsp")
            .current_dir(world.path("."))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            loop {
                let mut length = 0;
                loop {
                    let mut line = String::new();
                    if output.read_line(&mut line).unwrap() == 0 {
                        return;
                    }
                    match line.trim_end() {
                        "" => break,
                        header => length = header.strip_prefix("Content-Length: ").unwrap().parse().unwrap(),
                    }
                }
                let mut body = vec![0; length];
                output.read_exact(&mut body).unwrap();
                if sender.send(serde_json::from_slice(&body).unwrap()).is_err() {
                    return;
                }
            }
        });
        let input = child.stdin.take();
        let root = format!("file://{}", world.path("suite").display());
        let mut editor = Editor { child, input, messages, next: 0, shown: BTreeMap::new(), root };
        let answer = editor.ask(
            "initialize",
            json!({ "processId": null, "rootUri": null, "workspaceFolders": folders, "capabilities": capabilities }),
        );
        assert_eq!(answer["serverInfo"]["name"], "gevals");
        editor.tell("initialized", json!({}));
        editor
    }

    fn send(&mut self, message: &Value) {
        let body = message.to_string();
        let input = self.input.as_mut().unwrap();
        write!(input, "Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        input.flush().unwrap();
    }

    fn tell(&mut self, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// The answer to a request; an error as itself.
    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let id = self.next;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        loop {
            let message = self.messages.recv_timeout(LIMIT).unwrap();
            if message["id"] == id && message.get("method").is_none() {
                return message.get("result").or_else(|| message.get("error")).unwrap().clone();
            }
            self.note(message);
        }
    }

    fn note(&mut self, message: Value) {
        if message["method"] == "textDocument/publishDiagnostics" {
            let params = &message["params"];
            self.shown.insert(params["uri"].as_str().unwrap().to_owned(), params.clone());
        }
        assert_ne!(message["method"], "window/logMessage", "{message}");
    }

    fn uri(&self, path: &str) -> String {
        format!("{}/{path}", self.root)
    }

    fn open(&mut self, path: &str, text: &str) {
        let document = json!({ "uri": self.uri(path), "languageId": "yaml", "version": 1, "text": text });
        self.tell("textDocument/didOpen", json!({ "textDocument": document }));
    }

    fn change(&mut self, path: &str, version: u64, changes: Value) {
        let document = json!({ "uri": self.uri(path), "version": version });
        self.tell("textDocument/didChange", json!({ "textDocument": document, "contentChanges": changes }));
    }

    /// What is asked at the place of `|` in `text`, which is that of the file without it.
    fn at(&mut self, method: &str, path: &str, text: &str, mark: &str) -> Value {
        let at = text.find(mark).unwrap() + mark.len();
        let line = text[..at].matches('\n').count();
        let character = text[text[..at].rfind('\n').map_or(0, |at| at + 1)..at].encode_utf16().count();
        let uri = self.uri(path);
        self.ask(
            method,
            json!({ "textDocument": { "uri": uri }, "position": { "line": line, "character": character }, "newName": "renamed" }),
        )
    }

    /// The rules of what is shown in a file of this version, as soon as it is.
    fn rules(&mut self, path: &str, version: u64) -> Vec<String> {
        let uri = self.uri(path);
        while self.shown.get(&uri).is_none_or(|shown| shown["version"] != version) {
            let message = self.messages.recv_timeout(LIMIT).unwrap();
            self.note(message);
        }
        let diagnostics = self.shown[&uri]["diagnostics"].as_array().unwrap();
        diagnostics.iter().map(|diagnostic| diagnostic["code"].as_str().unwrap().to_owned()).collect()
    }

    fn end(mut self) -> ExitStatus {
        assert_eq!(self.ask("shutdown", Value::Null), Value::Null);
        self.tell("exit", Value::Null);
        self.child.wait().unwrap()
    }
}

const EVAL: &str =
    "kind: Eval\nmetadata: {name: e}\nconfig:\n  agent: {type: builtin.noop}\n  taskSets:\n  - glob: tasks/*.yaml\n";
/// With a letter of two units before what is asked for.
const TASK: &str = "kind: Task
apiVersion: mcp-eval/v1
metadata: {name: t}
spec:
  env: {WORD: 𝄞}
  setup:
  - command:
      id: made
      run: echo hello
      outputs: {word: \"{stdout}\"}
  prompt: Say it.
  verify:
  - command:
      run: test \"$A\" = hello
      env: {A: \"{steps.made.outputs.word}\", B: \"{env.WORD} {steps.made.outputs.word}\"}
";

fn world() -> World {
    World::new(&[("suite/eval.yaml", EVAL), ("suite/tasks/t.yaml", TASK)])
}

/// The words of a completion.
fn labels(answer: &Value) -> Vec<&str> {
    answer["items"].as_array().unwrap().iter().map(|item| item["label"].as_str().unwrap()).collect()
}

/// A text with the edits that an answer makes in one file.
fn edited(text: &str, edits: &Value) -> String {
    let offset = |position: &Value| {
        let line = usize::try_from(position["line"].as_u64().unwrap()).unwrap();
        let start: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
        let mut units = usize::try_from(position["character"].as_u64().unwrap()).unwrap();
        let letters = text[start..].char_indices().find(|(_, letter)| match units {
            0 => true,
            _ => {
                units = units.saturating_sub(letter.len_utf16());
                false
            }
        });
        letters.map_or(text.len(), |(at, _)| start + at)
    };
    let mut edits: Vec<_> = edits.as_array().unwrap().iter().collect();
    edits.sort_by_key(|edit| std::cmp::Reverse(offset(&edit["range"]["start"])));
    edits.into_iter().fold(text.to_owned(), |mut text, edit| {
        let (start, end) = (offset(&edit["range"]["start"]), offset(&edit["range"]["end"]));
        text.replace_range(start..end, edit["newText"].as_str().unwrap());
        text
    })
}

#[test]
fn findings_come_as_one_types_and_are_mended() {
    let world = world();
    let mut editor = Editor::start(&world, &json!({}));
    editor.open("tasks/t.yaml", TASK);
    let before = editor.rules("tasks/t.yaml", 1);
    assert!(!before.contains(&"unknown-field".to_owned()), "{before:?}");
    // A key is misspelt, letter by letter behind one of two units.
    let wrong = TASK.replace("verify:", "verfy:");
    let line = TASK[..TASK.find("verify").unwrap()].matches('\n').count();
    let at = |character: u64| json!({ "line": line, "character": character });
    editor.change("tasks/t.yaml", 2, json!([{ "range": { "start": at(5), "end": at(6) }, "text": "" }]));
    let rules = editor.rules("tasks/t.yaml", 2);
    assert!(rules.contains(&"unknown-field".to_owned()), "{rules:?}");
    let shown = editor.shown[&editor.uri("tasks/t.yaml")]["diagnostics"].clone();
    let finding = shown.as_array().unwrap().iter().find(|d| d["code"] == "unknown-field").unwrap().clone();
    assert_eq!(finding["range"], json!({ "start": at(2), "end": at(7) }));
    assert_eq!(finding["severity"], 1);
    // The quick fix, and all fixes at once, lead back to the text.
    let uri = editor.uri("tasks/t.yaml");
    for only in ["quickfix", "source.fixAll"] {
        let context = json!({ "diagnostics": [], "only": [only] });
        let params = json!({ "textDocument": { "uri": uri }, "range": finding["range"], "context": context });
        let actions = editor.ask("textDocument/codeAction", params);
        let action = actions.as_array().unwrap().iter().find(|action| action["kind"] == only).unwrap();
        assert_eq!(edited(&wrong, &action["edit"]["changes"][&uri]), TASK, "{only}");
    }
    // Another file is new, and exists in the editor alone; then it is closed, and what was found in it goes.
    editor.open(
        "tasks/new.yaml",
        "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {name: n}\nspec: {prompt: x, verify: [], odd: 1}\n",
    );
    let rules = editor.rules("tasks/new.yaml", 1);
    assert!(rules.contains(&"unknown-field".to_owned()), "{rules:?}");
    let new = editor.uri("tasks/new.yaml");
    editor.tell("textDocument/didClose", json!({ "textDocument": { "uri": new } }));
    editor.ask("textDocument/documentSymbol", json!({ "textDocument": { "uri": uri } }));
    assert_eq!(editor.shown[&new]["diagnostics"], json!([]));
    // What changes on disk is seen when the editor says so.
    world.write("suite/eval.yaml", &EVAL.replace("tasks/*", "nothing/*"));
    editor.tell("workspace/didChangeWatchedFiles", json!({ "changes": [] }));
    editor.ask("textDocument/documentSymbol", json!({ "textDocument": { "uri": uri } }));
    let eval = editor.shown[&editor.uri("eval.yaml")]["diagnostics"].to_string();
    assert!(eval.contains("empty-glob"), "{eval}");
    assert!(editor.end().success());
}

#[test]
fn what_is_typed_is_completed_explained_found_and_renamed() {
    let world = world();
    let mut editor = Editor::start(&world, &json!({ "general": { "positionEncodings": ["utf-16"] } }));
    editor.open("tasks/t.yaml", TASK);
    let path = "tasks/t.yaml";
    let mut version = 1;
    let mut completed = |editor: &mut Editor, text: &str, mark: &str| {
        version += 1;
        editor.change(path, version, json!([{ "text": text }]));
        editor.at("textDocument/completion", path, text, mark)
    };
    // Keys of a phase, of a step, steps themselves, and words.
    let text = format!("{TASK}  cle");
    assert!(labels(&completed(&mut editor, &text, "  cle")).contains(&"cleanup"), "no cleanup");
    let text = TASK.replace("      run: echo hello\n", "      run: echo hello\n      exp\n");
    let keys = completed(&mut editor, &text, "      exp");
    assert!(labels(&keys).contains(&"expect") && !labels(&keys).contains(&"run"), "{keys}");
    let text = format!("{TASK}  - ht");
    assert!(labels(&completed(&mut editor, &text, "  - ht")).contains(&"http"));
    let text = TASK
        .replace("{name: t}", "{name: t}\n")
        .replace("metadata: {name: t}\n", "metadata:\n  name: t\n  difficulty: ea");
    let words = completed(&mut editor, &text, "difficulty: ea");
    assert_eq!(labels(&words), ["easy", "medium", "hard"]);
    assert_eq!(words["items"][0]["textEdit"]["newText"], "easy");
    // Holes: roots, the task's variables, steps and what they leave.
    for (hole, wanted) in
        [("{ran", "random.id"), ("{env.W", "WORD"), ("{steps.m", "made"), ("{steps.made.outputs.", "word")]
    {
        let text = TASK.replace("Say it.", &format!("Say {hole}"));
        let found = completed(&mut editor, &text, hole);
        assert!(labels(&found).contains(&wanted), "{hole}: {found}");
    }
    version += 1;
    editor.change(path, version, json!([{ "text": TASK }]));
    // What things are.
    let step = editor.at("textDocument/hover", path, TASK, "  - comm");
    assert!(step["contents"]["value"].as_str().unwrap().contains("## command"), "{step}");
    let field = editor.at("textDocument/hover", path, TASK, "  promp");
    assert!(field["contents"]["value"].as_str().unwrap().contains("**prompt**"), "{field}");
    let hole = editor.at("textDocument/hover", path, TASK, "{A: \"{steps.ma");
    assert!(hole["contents"]["value"].as_str().unwrap().contains("Outputs: `word`"), "{hole}");
    // Where they are.
    let id = TASK[..TASK.find("id: made").unwrap()].matches('\n').count();
    let defined = editor.at("textDocument/definition", path, TASK, "B: \"{env.WORD} {steps.ma");
    assert_eq!(defined["range"]["start"], json!({ "line": id, "character": 10 }));
    let variable = editor.at("textDocument/definition", path, TASK, "{env.W");
    assert_eq!(variable["range"]["start"], json!({ "line": 4, "character": 8 }));
    let uses = editor.at("textDocument/references", path, TASK, "id: ma");
    assert_eq!(uses.as_array().unwrap().len(), 3);
    let uri = editor.uri(path);
    let renamed = editor.at("textDocument/rename", path, TASK, "{A: \"{steps.ma");
    let new = TASK.replace("id: made", "id: renamed").replace("steps.made", "steps.renamed");
    assert_eq!(edited(TASK, &renamed["changes"][&uri]), new);
    assert_eq!(editor.at("textDocument/rename", path, TASK, "echo he")["code"], -32602);
    let outline = editor.ask("textDocument/documentSymbol", json!({ "textDocument": { "uri": uri } })).to_string();
    assert!(outline.contains("made (command)"), "{outline}");
    assert!(editor.end().success());
}

/// A file that is opened by itself may lie in a home: nothing beside it is searched, and files of others have no findings.
#[test]
fn without_a_folder_only_open_files_are_looked_at() {
    let world = world();
    let wrong = TASK.replace("verify:", "verfy:");
    world.write("suite/tasks/other.yaml", &wrong);
    let mut editor = Editor::start_in(&world, &json!({}), &Value::Null);
    editor.open("deploy.yaml", "apiVersion: v1\nkind: Service\n");
    assert!(editor.rules("deploy.yaml", 1).is_empty());
    editor.open("tasks/t.yaml", &wrong);
    let rules = editor.rules("tasks/t.yaml", 1);
    assert!(rules.contains(&"unknown-field".to_owned()), "{rules:?}");
    let shown: Vec<_> = editor.shown.keys().cloned().collect();
    assert_eq!(shown, [editor.uri("deploy.yaml"), editor.uri("tasks/t.yaml")]);
    assert!(editor.end().success());
}

#[test]
fn an_editor_may_say_anything() {
    let world = world();
    let mut editor = Editor::start(&world, &json!({ "general": { "positionEncodings": ["utf-8", "utf-16"] } }));
    let uri = editor.uri("tasks/t.yaml");
    let closed = editor.at("textDocument/hover", "tasks/t.yaml", TASK, "kind");
    assert_eq!(closed["code"], -32602, "{closed}");
    assert_eq!(editor.ask("gevals/nothing", json!({}))["code"], -32601);
    editor.open("tasks/t.yaml", TASK);
    editor.open("notes.txt", "nothing of ours: [");
    // Every beginning of the task, at its end: no request fails, whatever is half typed.
    for length in (0..TASK.len()).filter(|at| TASK.is_char_boundary(*at)).step_by(3) {
        let text = &TASK[..length];
        editor.change("tasks/t.yaml", 2 + length as u64, json!([{ "text": text }]));
        for method in ["completion", "hover", "definition", "references", "prepareRename"] {
            let line = text.matches('\n').count();
            let character = text.rsplit('\n').next().unwrap().len();
            let position = json!({ "line": line, "character": character });
            let answer = editor.ask(
                &format!("textDocument/{method}"),
                json!({ "textDocument": { "uri": uri }, "position": position }),
            );
            assert!(answer.get("code").is_none(), "{method} behind {text:?}: {answer}");
        }
    }
    // Positions beyond every end, and a change of nothing.
    let far = json!({ "line": 99999, "character": 99999 });
    editor.ask("textDocument/completion", json!({ "textDocument": { "uri": uri }, "position": far }));
    editor.change("tasks/none.yaml", 1, json!([{ "text": "x" }]));
    editor.change(
        "tasks/t.yaml",
        9000,
        json!([{ "range": { "start": far, "end": { "line": 0, "character": 0 } }, "text": "x" }]),
    );
    assert!(editor.end().success());
    // An editor that dies leaves nothing behind.
    let mut editor = Editor::start(&world, &json!({}));
    drop(editor.input.take());
    assert_eq!(editor.child.wait().unwrap().code(), Some(1));
}
