//! The integrity of the record of an agent's calls: the actual calls are judged, whatever is masked, hidden, answered
//! twice or lost.

use std::process::Command;

use serde_json::{Value, json};

use crate::support::world::{World, result};

/// A server whose tools ignore the case of keys, as Go's decoder does, over stdio and, with `http`, over HTTP: each
/// call is a line in the file `called`; `create` is answered a second time when the next call arrives; `die` exits
/// without an answer.
const SERVER: &str = r#"
import json, os, sys
late = []
def answer(m, text):
    return {"jsonrpc": "2.0", "id": m["id"], "result": {"content": [{"type": "text", "text": text}]}}
def serve(line, out):
    m = {k.lower(): v for k, v in json.loads(line).items()}
    p = {k.lower(): v for k, v in m.get("params", {}).items()}
    if m["method"] == "tools/call":
        with open("WORLD/called", "a") as f: f.write(p["name"] + "\n")
    if "id" not in m: return
    if m["method"] == "initialize":
        out({"jsonrpc": "2.0", "id": m["id"], "result": {"protocolVersion": m["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}})
    elif m["method"] == "tools/list":
        out({"jsonrpc": "2.0", "id": m["id"], "result": {"tools": [{"name": n, "inputSchema": {"type": "object"}} for n in ("echo", "create", "read", "delete", "die")]}})
    elif m["method"] == "ping":
        out({"jsonrpc": "2.0", "id": m["id"], "result": {}})
    else:
        for old in late: out(old)
        late.clear()
        if p["name"] == "die": os._exit(1)
        if p["name"] == "create": late.append(answer(m, "created"))
        out(answer(m, "done " + p["name"]))
if sys.argv[1:] == ["http"]:
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
    class H(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        def log_message(self, *a): pass
        def end(self, code, body=b""):
            self.send_response(code); self.send_header("Content-Type", "application/json"); self.send_header("Content-Length", str(len(body))); self.end_headers(); self.wfile.write(body)
        def do_GET(self): self.end(405)
        def do_DELETE(self): self.end(405)
        def do_POST(self):
            said = []
            line = self.rfile.read(int(self.headers["content-length"]))
            if b"teapot" in line: return self.end(418, b"I am a teapot")
            serve(line, said.append)
            self.end(200, json.dumps(said[0]).encode()) if said else self.end(202)
    server = ThreadingHTTPServer(("127.0.0.1", 0), H)
    with open("WORLD/port", "w") as f: f.write("%d\n" % server.server_port)
    server.serve_forever()
def out(m):
    sys.stdout.write(json.dumps(m) + "\n"); sys.stdout.flush()
for line in sys.stdin: serve(line, out)
"#;

/// A client that sends the lines of its prompt, one after the other, or all at once after `at once`.
const CLIENT: &str = r#"
import json, os, sys, threading, urllib.request
url, lines = sys.argv[1], open(os.environ["GEVALS_PROMPT_FILE"]).read().strip().split("\n")
session = None
def post(body):
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    if session: headers["Mcp-Session-Id"] = session
    try:
        r = urllib.request.urlopen(urllib.request.Request(url, body.encode(), headers), timeout=20)
        print(r.read().decode())
        return r.headers.get("Mcp-Session-Id")
    except Exception as e: print("ERR", e)
session = post('{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}')
post('{"jsonrpc":"2.0","method":"notifications/initialized"}')
if lines[0] == "at once":
    threads = [threading.Thread(target=post, args=(line,)) for line in lines[1:]]
    [t.start() for t in threads]; [t.join() for t in threads]
else:
    for line in lines: post(line)
"#;

const AGENT: &str = "
kind: Agent
metadata: {name: sh}
commands: {argTemplateMcpServer: '{{ .URL }}', runPrompt: 'python3 WORLD/client.py {{ .McpServerFileArgs }} : {{ .Prompt }}'}
";
const STDIO: &str = "mcpServers: {s: {command: python3, args: [WORLD/server.py], enableAllTools: true}}\n";

/// Tasks with what their agent sends, their limits, and their assertions.
fn client(tasks: &[(&str, &[String], Value, Value)]) -> World {
    let world = World::new(&[("server.py", SERVER), ("client.py", CLIENT), ("agent.yaml", AGENT), ("mcp.yaml", STDIO)]);
    let mut sets = Vec::new();
    for (name, sent, limits, assertions) in tasks {
        let spec = json!({
            "requires": [{"mcpServer": "s"}],
            "limits": limits,
            "prompt": sent.join("\n"),
            "verify": [{"command": {"run": "test -d /"}}],
        });
        let task = json!({"kind": "Task", "apiVersion": "mcp-eval/v1", "metadata": {"name": name}, "spec": spec});
        world.write(&format!("{name}.yaml"), &task.to_string());
        sets.push(json!({"path": format!("{name}.yaml"), "assertions": assertions}));
    }
    eval(&world, &json!({"type": "file", "path": "agent.yaml", "isolation": "none"}), &sets);
    world
}

fn eval(world: &World, agent: &Value, sets: &[Value]) {
    let config = json!({"agent": agent, "mcpConfigFile": "mcp.yaml", "taskSets": sets});
    world.write("eval.yaml", &json!({"kind": "Eval", "metadata": {"name": "e"}, "config": config}).to_string());
}

fn call(id: usize, name: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{name}","arguments":{{}}}}}}"#)
}

fn names(result: &Value) -> Vec<&str> {
    let calls = result["callHistory"]["ToolCalls"].as_array();
    calls.into_iter().flatten().map(|call| call["name"].as_str().unwrap()).collect()
}

/// Tokens that are recognized by their format alone.
const ONE: &str = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";
const OTHER: &str = "ghp_zyxwvutsrqponmlkjihgfedcba0123456789";

/// The value of a variable is masked wherever it is written, but masking does not affect verdicts.
#[test]
fn masking_does_not_affect_verdicts() {
    let echo = |value: &str| json!([{"server": "s", "tool": "echo", "argumentsMatch": {"t": value}}]);
    let tasks = [
        ("env", json!({"toolsNotUsed": echo("production")}), vec!["production"], "failed"),
        ("own", json!({"toolsUsed": echo("battery-staple")}), vec!["{env.SERVICE_PASSWORD}"], "passed"),
        ("not-own", json!({"toolsNotUsed": echo("battery-staple")}), vec!["{env.SERVICE_PASSWORD}"], "failed"),
        ("token", json!({"toolsUsed": echo(ONE), "noDuplicateCalls": true}), vec![ONE, OTHER], "passed"),
        ("other", json!({"toolsNotUsed": echo(ONE)}), vec![OTHER], "passed"),
        ("twice", json!({"noDuplicateCalls": true}), vec![ONE, ONE], "failed"),
    ];
    let world = World::new(&[("server.py", SERVER), ("mcp.yaml", STDIO)]);
    let (mut sets, mut oracle) = (Vec::new(), json!({"kind": "Oracle", "tasks": {}}));
    for (name, assertions, values, _) in &tasks {
        let spec = json!({
            "requires": [{"mcpServer": "s"}],
            "env": {"SERVICE_PASSWORD": "battery-staple"},
            "prompt": "Go.",
            "verify": [{"script": {"inline": "#!/bin/sh\ncat > WORLD/story\necho '{\"passed\": true}'", "protocol": "json"}}],
        });
        let task = json!({"kind": "Task", "apiVersion": "mcp-eval/v1", "metadata": {"name": name}, "spec": spec});
        world.write(&format!("{name}.yaml"), &task.to_string());
        sets.push(json!({"path": format!("{name}.yaml"), "assertions": assertions}));
        let calls = values.iter().map(|value| json!({"server": "s", "tool": "echo", "args": {"t": value}}));
        oracle["tasks"][*name] = json!({"calls": calls.collect::<Vec<_>>(), "output": "done"});
    }
    world.write("oracle.yaml", &oracle.to_string());
    eval(&world, &json!({"type": "builtin.script", "path": "oracle.yaml"}), &sets);
    for secret in [None, Some("production")] {
        let mut command = world.command(&["run", "eval.yaml", "-v"]);
        command.envs(secret.map(|secret| ("DEPLOY_KEY", secret)));
        let ran = world.start(command).end().expect(1, &["3 of 6 tasks passed"]);
        let results = world.results("e");
        for (name, _, _, outcome) in &tasks {
            assert_eq!(result(&results, name)["outcome"], **outcome, "{name} with {secret:?}");
        }
        // A script receives the calls as they are reported, masked.
        let story: Value = serde_json::from_str(&world.read("story")).unwrap();
        let story = story["mcp"].to_string();
        assert!(story.contains("***"), "{story}");
        for (what, text) in [
            ("output", ran.out),
            ("errors", ran.err),
            ("results", results.to_string()),
            ("story", story),
            ("journal", journals(&world)),
        ] {
            let hidden = ["battery-staple", ONE, OTHER].into_iter().chain(secret);
            let told: Vec<_> = hidden.filter(|secret| text.contains(secret)).collect();
            assert!(told.is_empty(), "{told:?} in {what}");
        }
        std::fs::remove_dir_all(world.path(".gevals")).unwrap();
    }
}

/// Returns everything that a run writes beside its results: journals, recordings.
fn journals(world: &World) -> String {
    let mut found = String::new();
    let mut folders = vec![world.path(".gevals")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            match entry.file_type().unwrap().is_dir() {
                true => folders.push(entry.path()),
                false => found += &String::from_utf8_lossy(&std::fs::read(entry.path()).unwrap()),
            }
        }
    }
    assert!(found.contains("\"callRecorded\""), "{found}");
    found
}

/// For a kept world, only the masked calls are left. They cannot decide a verdict.
#[test]
fn assertions_on_calls_that_exist_only_masked_are_broken() {
    let not = |value: &str| json!({"toolsNotUsed": [{"server": "s", "tool": "echo", "argumentsMatch": {"t": value}}]});
    let echo = call(1, "echo").replace("{}", &format!(r#"{{"t":"{ONE}"}}"#));
    let world = client(&[("t", &[echo], json!({}), not(OTHER))]);
    world.run(&["run", "eval.yaml", "--keep", "always"]).expect(0, &["1 of 1 task passed"]);
    world.run(&["run", "eval.yaml", "--phase", "verify"]).expect(1, &["BROKEN", "contain masked secrets"]);
    let text = world.read("eval.yaml").replace("\"t\":", "\"u\":");
    world.write("eval.yaml", &text);
    world.run(&["run", "eval.yaml", "--phase", "verify"]).expect(0, &["1 of 1 task passed"]);
    world.run(&["run", "eval.yaml", "--phase", "cleanup"]).expect(0, &[]);
}

/// Servers that ignore the case of keys, or use the first of two equal keys, would execute calls that are not recorded.
#[test]
fn messages_with_ambiguous_keys_cannot_hide_a_call() {
    let sent = [
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/call","params":{"name":"delete"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call","params":{"name":"delete"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","Name":"delete"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"delete","name":"read"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read"},"paramſ":{"name":"delete"}}"#,
        r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"read","NAME":"delete"}}"#,
        r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping","Method":"tools/call","params":{"name":"delete"}}]"#,
    ];
    let assertions = json!({"toolsNotUsed": [{"server": "s", "tool": "delete"}]});
    let lines: Vec<[String; 2]> = sent.iter().map(|line| [call(7, "read"), (*line).to_owned()]).collect();
    let names: Vec<String> = (0..lines.len()).map(|nth| format!("t{nth}")).collect();
    let mut tasks: Vec<(&str, &[String], Value, Value)> = Vec::new();
    for (name, lines) in names.iter().zip(&lines) {
        tasks.push((name, lines, json!({}), assertions.clone()));
    }
    // Arguments are interpreted only by the tool.
    let plain = [call(7, "read").replace("{}", r#"{"name":1,"Name":2}"#)];
    tasks.push(("plain", &plain, json!({}), assertions.clone()));
    let world = client(&tasks);
    let failed = names.len();
    let passed = format!("1 of {} tasks passed, {failed} failed", failed + 1);
    world
        .run(&["run", "eval.yaml"])
        .expect(1, &[&passed, "twice, or in another case, and servers differ in what they make of that"]);
    assert_eq!(result(&world.results("e"), "plain")["outcome"], "passed");
    assert_eq!(world.read("called"), "read\n".repeat(failed + 1), "what reached the server");
}

/// All tasks share a pipe, and each client numbers its requests from the start.
#[test]
fn a_late_answer_is_not_attributed_to_another_request() {
    let read = json!({"toolsUsed": [{"server": "s", "tool": "read"}]});
    let world = client(&[
        ("a", &[call(1, "create")], json!({}), json!({"minToolCalls": 1})),
        ("b", &[call(1, "read")], json!({}), read),
    ]);
    world.run(&["run", "eval.yaml"]).expect(0, &["2 of 2 tasks passed", "the server answered a request once more"]);
    let results = world.results("e");
    let answers = ["a", "b"].map(|task| result(&results, task)["callHistory"]["ToolCalls"][0]["result"].to_string());
    assert!(answers[0].contains("done create") && answers[1].contains("done read"), "{answers:?}");
}

/// If a server dies before it answers, the agent's turn proves nothing, over stdio and over HTTP.
#[test]
fn a_server_that_dies_during_the_turn_breaks_the_task() {
    let some = || json!({"minToolCalls": 1});
    let dies = [call(1, "echo"), call(2, "die")];
    let odd = [call(1, "echo"), call(2, "teapot")];
    let tasks: [(&str, &[String], Value, Value); 2] =
        [("a-odd", &odd, json!({}), some()), ("b-dies", &dies, json!({}), some())];
    client(&tasks[1..]).run(&["run", "eval.yaml"]).expect(1, &["BROKEN", "a server was lost while the agent worked"]);
    let world = client(&tasks);
    let mut server = world.bare("python3".as_ref());
    let server: &mut Command = server.arg(world.path("server.py")).arg("http");
    let mut server = server.spawn().unwrap();
    while !world.read("port").ends_with('\n') {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let url = format!("http://127.0.0.1:{}/mcp", world.read("port").trim());
    world.write(
        "mcp.yaml",
        &json!({"mcpServers": {"s": {"type": "http", "url": url, "enableAllTools": true}}}).to_string(),
    );
    let ran = world.run(&["run", "eval.yaml"]);
    let _ = (server.kill(), server.wait());
    ran.expect(
        1,
        &[
            "1 of 2 tasks passed, 1 broken",
            "a server was lost while the agent worked: no answer came from `s` to `die`",
        ],
    );
    let results = world.results("e");
    // A server that answers with a status is still alive.
    let odd = result(&results, "a-odd");
    assert_eq!(odd["outcome"], "passed");
    assert!(odd["callHistory"]["ToolCalls"][1]["error"].to_string().contains("HTTP status 418"), "{odd}");
}

/// A call beyond a limit does not reach the server, however many arrive at once, and all of them are counted.
#[test]
fn calls_beyond_a_limit_do_not_reach_the_server() {
    let one_by_one: Vec<String> = (1..=6).map(|id| call(id, "echo")).collect();
    let at_once: Vec<String> = ["at once".to_owned()].into_iter().chain((1..=20).map(|id| call(id, "read"))).collect();
    let silent = [call(1, "delete").replace("\"id\":1,", ""), call(1, "delete").replace("\"id\":1,", "")];
    let limit = |most: u64| json!({"maxToolCalls": most});
    let world = client(&[
        ("a", &one_by_one, limit(2), json!({"minToolCalls": 1})),
        ("b", &at_once, limit(5), json!({"minToolCalls": 1})),
        ("c", &silent, limit(1), json!({"minToolCalls": 1})),
        ("d", &one_by_one, limit(6), json!({"minToolCalls": 1})),
    ]);
    world.run(&["run", "eval.yaml"]).expect(1, &["1 of 4 tasks passed, 3 failed"]);
    let called = world.read("called");
    let count = |name: &str| called.lines().filter(|line| *line == name).count();
    assert_eq!((count("echo"), count("read"), count("delete")), (2 + 6, 5, 1));
    let results = world.results("e");
    for (task, limit) in [("a", 2), ("b", 5), ("c", 1)] {
        let result = result(&results, task);
        let made = names(result).len();
        assert!(made > limit, "{result}");
        let told = format!("the agent exceeded its limit of {limit} tool calls: {made} were made");
        assert_eq!(result["reason"], told);
    }
}
