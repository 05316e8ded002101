//! `gevals lsp` as an editor uses it: a process, its standard streams, and messages in the order of an editing session.
#![cfg(all(feature = "run", target_os = "linux"))]

mod rename;

mod replay;

mod typing;

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, channel},
    time::Duration,
};

use serde_json::{Value, json};

use crate::support::{
    page,
    world::{self, World},
};

/// Far longer than any answer takes.
const LIMIT: Duration = Duration::from_secs(20);

struct Editor {
    child: Child,
    input: Option<ChildStdin>,
    messages: Receiver<Value>,
    next: u64,
    /// The diagnostics currently shown for each file.
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

    /// Sends a request and returns the answer; an error is returned as it is.
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

    /// Sends a request for the position after `mark` in `text`, which is the text of the file.
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

    /// Waits for the diagnostics of this version of a file, and returns their rules.
    fn rules(&mut self, path: &str, version: u64) -> Vec<String> {
        let uri = self.uri(path);
        while self.shown.get(&uri).is_none_or(|shown| shown["version"] != version) {
            let message = self.messages.recv_timeout(LIMIT).unwrap();
            self.note(message);
        }
        let diagnostics = self.shown[&uri]["diagnostics"].as_array().unwrap();
        diagnostics.iter().map(|diagnostic| diagnostic["code"].as_str().unwrap().to_owned()).collect()
    }

    /// Waits until the diagnostics of a file satisfy `fits`. Those of files that are not being edited are published
    /// later.
    fn until(&mut self, uri: &str, fits: impl Fn(&Value) -> bool) {
        while self.shown.get(uri).is_none_or(|shown| !fits(&shown["diagnostics"])) {
            let message = self.messages.recv_timeout(LIMIT).unwrap();
            self.note(message);
        }
    }

    fn end(mut self) -> ExitStatus {
        assert_eq!(self.ask("shutdown", Value::Null), Value::Null);
        self.tell("exit", Value::Null);
        self.child.wait().unwrap()
    }
}

const EVAL: &str =
    "kind: Eval\nmetadata: {name: e}\nconfig:\n  agent: {type: builtin.noop}\n  taskSets:\n  - glob: tasks/*.yaml\n";
/// With a character of two UTF-16 units before the positions of requests.
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

/// The labels of a completion.
fn labels(answer: &Value) -> Vec<&str> {
    answer["items"].as_array().unwrap().iter().map(|item| item["label"].as_str().unwrap()).collect()
}

/// Applies the edits of an answer to a text.
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
fn after_many_changes_the_open_file_is_checked_first_and_none_is_skipped() {
    let wrong = TASK.replace("verify:", "verfy:");
    let names: Vec<String> = (0..300).map(|nth| format!("suite/many/{nth}.yaml")).collect();
    let mut files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), wrong.as_str())).collect();
    files.push(("suite/many/z.yaml", &wrong));
    let world = World::new(&files);
    let mut editor = Editor::start(&world, &json!({}));
    editor.open("many/z.yaml", &wrong);
    let all = |editor: &mut Editor, found: bool| {
        let uri = editor.uri("many/z.yaml");
        let mut first = None;
        let is_so = |shown: &Value| shown["diagnostics"].as_array().unwrap().is_empty() != found;
        while editor.shown.len() <= names.len()
            || !editor.shown.values().all(is_so)
            || editor.shown[&uri]["version"] != 1
        {
            let message = editor.messages.recv_timeout(LIMIT).unwrap();
            if message["method"] == "textDocument/publishDiagnostics" {
                first.get_or_insert(message["params"]["uri"] == uri);
            }
            editor.note(message);
        }
        first
    };
    all(&mut editor, true);
    world.write("suite/gevals.toml", "exclude = [\"many/*\"]\n");
    let change = json!({ "uri": editor.uri("gevals.toml"), "type": 1 });
    editor.tell("workspace/didChangeWatchedFiles", json!({ "changes": [change] }));
    assert_eq!(all(&mut editor, false), Some(true));
    assert!(editor.end().success());
}

#[test]
fn findings_appear_while_typing_and_can_be_fixed() {
    let world = world();
    let mut editor = Editor::start(&world, &json!({}));
    editor.open("tasks/t.yaml", TASK);
    let before = editor.rules("tasks/t.yaml", 1);
    assert!(!before.contains(&"unknown-field".to_owned()), "{before:?}");
    // A key is misspelled letter by letter, after a character of two UTF-16 units.
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
    // The quick fix, and all fixes together, restore the text.
    let uri = editor.uri("tasks/t.yaml");
    for only in ["quickfix", "source.fixAll"] {
        let context = json!({ "diagnostics": [], "only": [only] });
        let params = json!({ "textDocument": { "uri": uri }, "range": finding["range"], "context": context });
        let actions = editor.ask("textDocument/codeAction", params);
        let action = actions.as_array().unwrap().iter().find(|action| action["kind"] == only).unwrap();
        assert_eq!(edited(&wrong, &action["edit"]["changes"][&uri]), TASK, "{only}");
    }
    // A new file exists only in the editor; when it is closed, its diagnostics are removed.
    editor.open(
        "tasks/new.yaml",
        "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {name: n}\nspec: {prompt: x, verify: [], odd: 1}\n",
    );
    let rules = editor.rules("tasks/new.yaml", 1);
    assert!(rules.contains(&"unknown-field".to_owned()), "{rules:?}");
    let new = editor.uri("tasks/new.yaml");
    editor.tell("textDocument/didClose", json!({ "textDocument": { "uri": new } }));
    editor.until(&new, |shown| *shown == json!([]));
    // Tasks and evals are found by name, including those in files that are not open.
    let named = editor.ask("workspace/symbol", json!({ "query": "E" }));
    assert_eq!(named.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect::<Vec<_>>(), ["e"]);
    let named = editor.ask("workspace/symbol", json!({ "query": "" }));
    let task = named.as_array().unwrap().iter().find(|one| one["name"] == "t").unwrap();
    assert_eq!(task["location"]["uri"], uri);
    assert_eq!(task["location"]["range"]["start"], json!({ "line": 2, "character": 17 }));
    // Changes on disk are noticed when the editor reports them.
    world.write("suite/eval.yaml", &EVAL.replace("tasks/*", "nothing/*"));
    editor.tell("workspace/didChangeWatchedFiles", json!({ "changes": [] }));
    editor.until(&editor.uri("eval.yaml"), |shown| shown.to_string().contains("empty-glob"));
    assert!(editor.end().success());
}

#[test]
fn completion_hover_definition_and_rename() {
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
    // Keys of a phase, keys of a step, steps themselves, and words.
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
    // Holes: roots, the task's variables, steps and their outputs.
    for (hole, wanted) in
        [("{ran", "random.id"), ("{env.W", "WORD"), ("{steps.m", "made"), ("{steps.made.outputs.", "word")]
    {
        let text = TASK.replace("Say it.", &format!("Say {hole}"));
        let found = completed(&mut editor, &text, hole);
        assert!(labels(&found).contains(&wanted), "{hole}: {found}");
    }
    version += 1;
    editor.change(path, version, json!([{ "text": TASK }]));
    // Hover: what something is.
    let step = editor.at("textDocument/hover", path, TASK, "  - comm");
    assert!(step["contents"]["value"].as_str().unwrap().contains("## command"), "{step}");
    let field = editor.at("textDocument/hover", path, TASK, "  promp");
    assert!(field["contents"]["value"].as_str().unwrap().contains("**prompt**"), "{field}");
    let hole = editor.at("textDocument/hover", path, TASK, "{A: \"{steps.ma");
    let said = hole["contents"]["value"].as_str().unwrap();
    assert!(
        said.contains("is a string") && said.contains("output `word` of the step `made` (command): `{stdout}`"),
        "{hole}"
    );
    // Definition: where something is.
    let id = TASK[..TASK.find("id: made").unwrap()].matches('\n').count();
    let defined = editor.at("textDocument/definition", path, TASK, "B: \"{env.WORD} {steps.ma");
    assert_eq!(defined[0]["range"]["start"], json!({ "line": id, "character": 10 }));
    let variable = editor.at("textDocument/definition", path, TASK, "{env.W");
    assert_eq!(variable[0]["range"]["start"], json!({ "line": 4, "character": 8 }));
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

/// A file that is opened by itself may be in a home directory: nothing beside it is searched, and only open files have
/// diagnostics.
#[test]
fn without_a_folder_only_open_files_are_checked() {
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
fn any_message_of_an_editor_is_handled() {
    let world = world();
    let mut editor = Editor::start(&world, &json!({ "general": { "positionEncodings": ["utf-8", "utf-16"] } }));
    let uri = editor.uri("tasks/t.yaml");
    let closed = editor.at("textDocument/hover", "tasks/t.yaml", TASK, "kind");
    assert_eq!(closed["code"], -32602, "{closed}");
    assert_eq!(editor.ask("gevals/nothing", json!({}))["code"], -32601);
    editor.open("tasks/t.yaml", TASK);
    editor.open("notes.txt", "nothing of ours: [");
    // Every prefix of the task, with the cursor at its end: no request fails on half-typed text.
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
    // Positions beyond the end, and a change of a file that is not open.
    let far = json!({ "line": 99999, "character": 99999 });
    editor.ask("textDocument/completion", json!({ "textDocument": { "uri": uri }, "position": far }));
    editor.change("tasks/none.yaml", 1, json!([{ "text": "x" }]));
    editor.change(
        "tasks/t.yaml",
        9000,
        json!([{ "range": { "start": far, "end": { "line": 0, "character": 0 } }, "text": "x" }]),
    );
    assert!(editor.end().success());
    // If an editor dies, the server exits.
    let mut editor = Editor::start(&world, &json!({}));
    drop(editor.input.take());
    assert_eq!(editor.child.wait().unwrap().code(), Some(1));
}

/// The files of an example, as the suite.
fn example(name: &str, files: &[&str]) -> World {
    let read = |path: &&str| {
        let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name).join(path);
        (format!("suite/{path}"), std::fs::read_to_string(source).unwrap())
    };
    let files: Vec<(String, String)> = files.iter().map(read).collect();
    World::new(&files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect::<Vec<_>>())
}

fn quickstart() -> World {
    let tasks = ["tasks/write-note.yaml", "tasks/tidy-up.yaml", "tasks/weekly-review.yaml"];
    let others = ["eval.yaml", "oracle.yaml", "mcp.yaml", "gevals.lock"];
    example("quickstart", &[&tasks[..], &others[..]].concat())
}

#[test]
fn operations_arguments_filters_and_anchors_are_completed() {
    let world = quickstart();
    let mut editor = Editor::start(&world, &json!({}));
    let path = "tasks/write-note.yaml";
    let task = world.read(&format!("suite/{path}"));
    editor.open(path, &task);
    let mut version = 1;
    let mut completed = |editor: &mut Editor, old: &str, new: &str, mark: &str| {
        assert!(task.contains(old), "{old}");
        let text = task.replacen(old, new, 1);
        version += 1;
        editor.change(path, version, json!([{ "text": text }]));
        editor.at("textDocument/completion", path, &text, mark)
    };
    // Operations from the lock beside the built-in ones, with their descriptions.
    let found = completed(&mut editor, "  cleanup:\n", "  cleanup:\n    - no\n", "cleanup:\n    - no");
    assert!(labels(&found).contains(&"notes.notes_create") && labels(&found).contains(&"command"), "{found}");
    let create = found["items"].as_array().unwrap().iter().find(|item| item["label"] == "notes.notes_create").unwrap();
    assert!(create["documentation"]["value"].as_str().unwrap().starts_with("Creates a note"), "{create}");
    // If the key exists, only its name is replaced.
    editor.change(path, 800, json!([{ "text": task }]));
    let found = editor.at("textDocument/completion", path, &task, "    # Ask the server...\n    - notes.no");
    let create = found["items"].as_array().unwrap().iter().find(|item| item["label"] == "notes.notes_create").unwrap();
    let wanted = task.replacen("- notes.notes_read:", "- notes.notes_create:", 1);
    assert_eq!(edited(&task, &json!([create["textEdit"]])), wanted);
    // Their arguments, except those that are already given.
    let args = "        args: {title: \"{env.TITLE}\"}\n";
    let found = completed(&mut editor, args, "        args:\n          ti\n", "          ti");
    assert_eq!(labels(&found), ["title"]);
    let found = completed(&mut editor, args, "        args:\n          title: x\n          ti\n", "          ti");
    assert!(labels(&found).is_empty(), "{found}");
    // Filters, including after other filters, and in a hole that is not closed yet.
    for hole in ["{env.TITLE | lo", "{env.TITLE|lower | re"] {
        let found = completed(&mut editor, "called \"", &format!("called {hole} \""), hole);
        assert!(labels(&found).contains(&"replace"), "{hole}: {found}");
    }
    // Values of the step itself, including their fields.
    let found = completed(&mut editor, "{content[0].text}", "{con}", "{con");
    assert!(labels(&found).contains(&"structuredContent"), "{found}");
    // A step that lists no outputs has those of its operation.
    let bare = "        outputs:\n          text: \"{content[0].text}\"\n";
    let text = task.replacen(bare, "", 1).replace("steps.read.outputs.text", "steps.read.outputs.");
    editor.change(path, 900, json!([{ "text": text }]));
    let found = editor.at("textDocument/completion", path, &text, "steps.read.outputs.");
    assert!(labels(&found).contains(&"structuredContent"), "{found}");
    // Anchors defined before the position.
    let anchored =
        task.replacen("TITLE: Shopping", "TITLE: &title Shopping", 1).replacen("NOTES: \"", "NOTES: * #\"", 1);
    editor.change(path, 901, json!([{ "text": anchored }]));
    let found = editor.at("textDocument/completion", path, &anchored, "NOTES: *");
    assert_eq!(labels(&found), ["title"]);
    // In an eval and an oracle: servers, their tools, and arguments.
    let eval = world.read("suite/eval.yaml");
    let text = eval.replacen("tool: notes_create", "tool: no", 1);
    editor.open("eval.yaml", &text);
    let found = editor.at("textDocument/completion", "eval.yaml", &text, "tool: no");
    assert!(labels(&found).contains(&"notes_append"), "{found}");
    let oracle = world.read("suite/oracle.yaml");
    let text = oracle.replacen("          tags: [home]", "          ta", 1);
    editor.open("oracle.yaml", &text);
    let found = editor.at("textDocument/completion", "oracle.yaml", &text, "          ta");
    assert_eq!(labels(&found), ["tags"]);
    assert!(editor.end().success());
}

#[test]
fn references_are_found_in_all_files_of_a_suite() {
    let world = quickstart();
    let mut editor = Editor::start(&world, &json!({}));
    let path = "tasks/write-note.yaml";
    let task = world.read(&format!("suite/{path}"));
    let eval = world.read("suite/eval.yaml");
    editor.open(path, &task);
    editor.open("eval.yaml", &eval);
    let uri = editor.uri(path);
    // From the eval to its tasks, and from a task to the evals that select it.
    let tasks = editor.at("textDocument/definition", "eval.yaml", &eval, "path: tasks/wr");
    assert_eq!(tasks[0]["uri"], uri.as_str());
    let evals = editor.at("textDocument/references", path, &task, "name: wri");
    assert_eq!(evals[0]["uri"], editor.uri("eval.yaml").as_str());
    let lines = eval[..eval.find("path: tasks/write-note").unwrap()].matches('\n').count();
    assert_eq!(evals[0]["range"]["start"]["line"], lines);
    let file = editor.at("textDocument/definition", "eval.yaml", &eval, "mcpConfigFile: mc");
    assert_eq!(file["uri"], editor.uri("mcp.yaml").as_str());
    // The server of a step is defined where the task requires it.
    let required = editor.at("textDocument/definition", path, &task, "    - notes.no");
    assert_eq!(
        required["range"]["start"]["line"],
        task[..task.find("mcpServer: notes").unwrap()].matches('\n').count()
    );
    // Renaming a variable includes the oracle, and renaming an output includes its uses; nothing else changes.
    let renamed = editor.at("textDocument/rename", path, &task, "    TIT");
    let oracle = world.read("suite/oracle.yaml");
    for (name, old, wanted) in [
        (path, &task, task.replace("TITLE", "renamed")),
        ("oracle.yaml", &oracle, oracle.replace("env.TITLE", "env.renamed")),
    ] {
        assert_eq!(edited(old, &renamed["changes"][editor.uri(name)]), wanted, "{name}");
    }
    let renamed = editor.at("textDocument/rename", path, &task, "outputs.te");
    let wanted = task
        .replace("          text: \"{content", "          renamed: \"{content")
        .replace("outputs.text", "outputs.renamed");
    assert_eq!(edited(&task, &renamed["changes"][&uri]), wanted);
    // A name that is already used, or an invalid one.
    let params = |new: &str| json!({ "textDocument": { "uri": uri }, "position": { "line": 12, "character": 6 }, "newName": new });
    assert!(task.lines().nth(12).unwrap().starts_with("    TITLE"));
    for wrong in ["NOTES", "a b", "1", ""] {
        assert_eq!(editor.ask("textDocument/rename", params(wrong))["code"], -32602, "{wrong}");
    }
    assert!(editor.end().success());
}

#[test]
fn hover_hints_lenses_and_folding() {
    let world = quickstart();
    let mut editor = Editor::start(&world, &json!({}));
    let path = "tasks/write-note.yaml";
    let task = world
        .read(&format!("suite/{path}"))
        .replace("NOTES: \"", "API_TOKEN: hunter2hunter2\n    NOTES: \"{env.API_TOKEN}");
    editor.open(path, &task);
    let uri = editor.uri(path);
    let document = json!({ "textDocument": { "uri": uri } });
    let whole = json!({ "start": { "line": 0, "character": 0 }, "end": { "line": 999, "character": 0 } });
    // A known value and a secret one; what a step does, and its time limit.
    let title = editor.at("textDocument/hover", path, &task, "called \"{env.T")["contents"]["value"].to_string();
    assert!(title.contains("is a string") && title.contains("`Shopping {random.id}`"), "{title}");
    let token = editor.at("textDocument/hover", path, &task, "NOTES: \"{env.API")["contents"]["value"].to_string();
    assert!(token.contains("`***`") && !token.contains("hunter2"), "{token}");
    let step = editor.at("textDocument/hover", path, &task, "    - notes.notes_de")["contents"]["value"].to_string();
    assert!(step.contains("the tool `notes_delete`") && step.contains("Time limit: 1m (default)"), "{step}");
    // Hints are limited to the requested range.
    let hints = editor.ask("textDocument/inlayHint", json!({ "textDocument": { "uri": uri }, "range": whole }));
    let labels: Vec<&str> = hints.as_array().unwrap().iter().map(|hint| hint["label"].as_str().unwrap()).collect();
    assert!(labels.contains(&"timeout 1m") && labels.contains(&"8 letters and digits"), "{labels:?}");
    let top = json!({ "start": { "line": 0, "character": 0 }, "end": { "line": 2, "character": 0 } });
    assert_eq!(
        editor.ask("textDocument/inlayHint", json!({ "textDocument": { "uri": uri }, "range": top })),
        json!([])
    );
    let lenses = editor.ask("textDocument/codeLens", document.clone());
    let titles: Vec<&str> =
        lenses.as_array().unwrap().iter().map(|lens| lens["command"]["title"].as_str().unwrap()).collect();
    assert_eq!(titles, ["run this task", "run one phase", "show plan"]);
    let argument = json!({ "eval": editor.uri("eval.yaml"), "task": "write-note" });
    assert_eq!(lenses[0]["command"]["arguments"], json!([argument]));
    let folds = editor.ask("textDocument/foldingRange", document.clone());
    let line = |mark: &str| task[..task.find(mark).unwrap()].matches('\n').count();
    assert!(
        folds
            .as_array()
            .unwrap()
            .contains(&json!({ "startLine": line("  verify:"), "endLine": line("  cleanup:") - 1 })),
        "{folds}"
    );
    // The type of an output, from its step.
    editor.open("tasks/typed.yaml", TASK);
    let typed = json!({ "textDocument": { "uri": editor.uri("tasks/typed.yaml") }, "range": whole });
    let hints = editor.ask("textDocument/inlayHint", typed);
    assert!(hints.as_array().unwrap().iter().any(|hint| hint["label"] == "(a string)"), "{hints}");
    // The eval shows how many tasks its task sets select.
    editor.open("eval.yaml", &world.read("suite/eval.yaml"));
    let sets = json!({ "textDocument": { "uri": editor.uri("eval.yaml") }, "range": whole });
    let hints = editor.ask("textDocument/inlayHint", sets);
    assert_eq!((&hints[0]["label"], &hints[0]["tooltip"]), (&json!("1 task"), &json!("write-note")));
    // Other YAML files get none of this.
    editor.open("deploy.yaml", "apiVersion: v1\nkind: Service\nspec:\n  a: 1\n  b: 2\n");
    let other = json!({ "textDocument": { "uri": editor.uri("deploy.yaml") } });
    for method in ["codeLens", "foldingRange", "documentSymbol"] {
        assert_eq!(editor.ask(&format!("textDocument/{method}"), other.clone()), json!([]), "{method}");
    }
    assert!(editor.end().success());
}

/// For each kind of script and hole: the tokens in it.
#[test]
fn tokens_distinguish_holes_and_shell() {
    let world = world();
    let task = TASK.replace(
        "      run: echo hello\n",
        "      run: |\n        # 𝄞\n        if grep -q \"$A {env.WORD|replace('a', 'b')}\" x | sort; then echo 1; fi\n      env: {A: \"\\\"{env.WORD}\"}\n",
    );
    let mut editor = Editor::start(&world, &json!({}));
    editor.open("tasks/t.yaml", &task);
    let answer = editor
        .ask("textDocument/semanticTokens/full", json!({ "textDocument": { "uri": editor.uri("tasks/t.yaml") } }));
    let numbers: Vec<usize> = answer["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|number| usize::try_from(number.as_u64().unwrap()).unwrap())
        .collect();
    let kinds = ["operator", "variable", "property", "function", "string", "number", "keyword", "comment", "parameter"];
    let (mut line, mut column) = (0, 0);
    let mut words = Vec::new();
    for token in numbers.chunks_exact(5) {
        column = if token[0] > 0 { token[1] } else { column + token[1] };
        line += token[0];
        let units: Vec<u16> = task.lines().nth(line).unwrap().encode_utf16().collect();
        words.push((String::from_utf16(&units[column..column + token[2]]).unwrap(), kinds[token[3]], token[4]));
    }
    let words: Vec<(&str, &str, usize)> = words.iter().map(|(word, kind, own)| (word.as_str(), *kind, *own)).collect();
    for wanted in [
        ("# 𝄞", "comment", 0),
        ("if", "keyword", 0),
        ("grep", "function", 0),
        ("echo", "function", 1),
        ("-q", "parameter", 0),
        ("$", "operator", 0),
        ("A", "variable", 0),
        ("env", "variable", 1),
        ("WORD", "property", 0),
        ("replace", "function", 1),
        ("'b'", "string", 0),
        ("fi", "keyword", 0),
    ] {
        assert!(words.contains(&wanted), "{wanted:?} in {words:?}");
    }
    assert!(editor.end().success());
}

/// Formatting changes only how holes are written, not their meaning: the plan of the formatted text is the same except
/// for the spelling.
#[test]
fn formatting_changes_only_holes() {
    let world = world();
    let wild = TASK
        .replace(
            "B: \"{env.WORD} {steps.made.outputs.word}\"",
            "B: \"{ env.WORD|replace( 'a' ,\\\"x\\\" ) } {  steps.made.outputs.word |trim()|lower }\"",
        )
        .replace("Say it.", "Say \\{ env.WORD } {env.WORD   | upper} { some text }");
    let tidy = wild
        .replace("{  steps.made.outputs.word |trim()|lower }", "{steps.made.outputs.word | trim | lower}")
        .replace("{env.WORD   | upper}", "{env.WORD | upper}");
    let mut editor = Editor::start(&world, &json!({}));
    editor.open("tasks/t.yaml", &wild);
    let uri = editor.uri("tasks/t.yaml");
    let format = |editor: &mut Editor| {
        let options = json!({ "tabSize": 2, "insertSpaces": true });
        editor.ask("textDocument/formatting", json!({ "textDocument": { "uri": uri }, "options": options }))
    };
    let edits = format(&mut editor);
    // A hole in which quotes are escaped differs from its source text, so it is not formatted.
    assert_eq!(edited(&wild, &edits), tidy);
    let plan = |text: &str| {
        world.write("suite/tasks/t.yaml", text);
        let plan = std::process::Command::new(world::gevals())
            .args(["plan", "--format", "json"])
            .arg(world.path("suite/tasks/t.yaml"))
            .output()
            .unwrap();
        let plan: Value = serde_json::from_slice(&plan.stdout).unwrap();
        plan["tasks"][0]["plan"].to_string().replace([' ', '(', ')'], "")
    };
    assert_eq!(plan(&wild), plan(&tidy));
    editor.change("tasks/t.yaml", 2, json!([{ "text": tidy }]));
    assert_eq!(format(&mut editor), json!([]));
    assert!(editor.end().success());
}
