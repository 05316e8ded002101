//! `gevals mcp` as clients use it: a process that speaks MCP on its standard streams or over HTTP.
#![cfg(all(feature = "run", target_os = "linux"))]

use std::{
    collections::BTreeMap,
    io::{BufRead, Write},
    path::Path,
    process::Stdio,
    time::Duration,
};

use gevals::mcp::{Client, ClientOptions, Hub, HubOptions, ServerSpec, SessionKind, Transport};
use indexmap::IndexMap;
use serde_json::{Value, json};

use crate::support::world::World;

/// A server, a client of it, and the output schemas of its tools.
struct Served {
    hub: Hub,
    client: Client,
    outputs: BTreeMap<String, jsonschema::Validator>,
    tools: BTreeMap<String, Value>,
}

impl Served {
    async fn at(transport: Transport) -> Served {
        let spec = ServerSpec { name: "gevals".to_owned(), transport };
        let hub = Hub::start(spec, HubOptions::default()).await.unwrap();
        let options = ClientOptions { timeout: Some(Duration::from_secs(60)), ..ClientOptions::default() };
        let client = hub.client(SessionKind::Own, options).await.unwrap();
        let tools: BTreeMap<String, Value> = client
            .list_tools()
            .await
            .unwrap()
            .into_iter()
            .map(|tool| (tool["name"].as_str().unwrap().to_owned(), tool))
            .collect();
        let outputs = tools
            .iter()
            .map(|(name, tool)| (name.clone(), jsonschema::draft202012::new(&tool["outputSchema"]).unwrap()))
            .collect();
        Served { hub, client, outputs, tools }
    }

    async fn with(root: &Path, options: &[&str]) -> Served {
        let mut args = vec!["mcp".to_owned(), "--root".to_owned(), root.display().to_string()];
        args.extend(options.iter().map(|option| (*option).to_owned()));
        let command = env!("CARGO_BIN_EXE_gevals").to_owned();
        Self::at(Transport::Stdio { command, args, env: IndexMap::new(), cwd: None }).await
    }

    /// Calls a tool; returns its structured result, which must match its schema.
    async fn gives(&self, tool: &str, arguments: Value) -> Value {
        let result = self.client.call_tool(tool, arguments).await.unwrap();
        assert!(!result.is_error, "{tool}: {}", result.text());
        let value = result.structured.clone().unwrap();
        if let Err(error) = self.outputs[tool].validate(&value) {
            panic!("{tool}: {error}: {value}");
        }
        // The text contains the same, for clients that do not read structured content.
        assert_eq!(serde_json::from_str::<Value>(&result.text()).unwrap(), value);
        value
    }

    /// Calls a tool that must return an error; returns its text.
    async fn refuses(&self, tool: &str, arguments: Value) -> String {
        let result = self.client.call_tool(tool, arguments.clone()).await.unwrap();
        assert!(result.is_error, "{tool} took {arguments}: {}", result.text());
        result.text()
    }
}

const TASK: &str = "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {name: t, timeout: 1m}\nspec:\n  prompt: Do it.\n  verify:\n    - command: {run: test -e WORLD/done}\n";

fn project() -> World {
    let world = World::new(&[]);
    world.write("p/task.yaml", TASK);
    world.write("p/bad.yaml", &TASK.replace("verify", "verfy"));
    world.write(
        "p/eval.yaml",
        "kind: Eval\nmetadata: {name: e}\nconfig:\n  agent: {type: builtin.noop}\n  taskSets: [{path: task.yaml}]\n",
    );
    world.write("p/legacy.yaml", "kind: Task\nmetadata: {name: old, difficulty: easy}\nsteps:\n  prompt: {inline: Do it.}\n  verify: {inline: test -e /tmp/x}\n");
    world.write("secret/task.yaml", "kind: Task\nmetadata: {name: BEYOND}\n");
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tools_have_annotations_about_their_effects() {
    let world = project();
    let hints = |served: &Served, tool: &str, hint: &str| served.tools[tool]["annotations"][hint].clone();
    let served = Served::with(&world.path("p"), &[]).await;
    assert_eq!(served.tools.keys().collect::<Vec<_>>(), ["check", "convert", "explain", "new", "plan", "result"]);
    for (name, tool) in &served.tools {
        assert_eq!(hints(&served, name, "readOnlyHint"), true, "{name}");
        assert_eq!(hints(&served, name, "openWorldHint"), false, "{name}");
        for schema in ["inputSchema", "outputSchema"] {
            assert_eq!(tool[schema]["type"], "object", "{name}");
            jsonschema::draft202012::new(&tool[schema]).unwrap();
        }
        assert_eq!(tool["inputSchema"]["additionalProperties"], false, "{name}");
        assert!(tool["description"].as_str().is_some_and(|about| about.len() > 40), "{name}");
    }
    let served = Served::with(&world.path("p"), &["--allow-write", "--allow-run"]).await;
    assert_eq!(served.tools.len(), 7);
    assert_eq!(hints(&served, "check", "readOnlyHint"), true);
    assert_eq!(
        (hints(&served, "new", "readOnlyHint"), hints(&served, "new", "destructiveHint")),
        (json!(false), json!(false))
    );
    assert_eq!(
        (hints(&served, "run", "readOnlyHint"), hints(&served, "run", "openWorldHint")),
        (json!(false), json!(true))
    );
    served.hub.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_author_finds_and_fixes_a_mistake() {
    let world = project();
    let served = Served::with(&world.path("p"), &[]).await;
    let found = served.gives("check", json!({"paths": ["bad.yaml"]})).await;
    assert_eq!((&found["ok"], &found["diagnostics"][0]["rule"]), (&json!(false), &json!("unknown-field")), "{found}");
    assert_eq!((&found["diagnostics"][0]["path"], &found["diagnostics"][0]["line"]), (&json!("bad.yaml"), &json!(6)));
    // Applying the edits of the fix corrects the text.
    let edit = &found["diagnostics"][0]["fix"]["edits"][0];
    let at = |key: &str| edit[key].as_u64().unwrap() as usize;
    let mut text = world.read("p/bad.yaml");
    text.replace_range(at("start")..at("end"), edit["text"].as_str().unwrap());
    let mended = served.gives("check", json!({"files": {"bad.yaml": text}})).await;
    assert_eq!((&mended["ok"], &mended["errors"]), (&json!(true), &json!(0)), "{mended}");
    // Files that are passed but not written yet are seen together with those on disk.
    let other = text.replace("name: t", "name: other");
    let set = "kind: Eval\nmetadata: {name: e2}\nconfig:\n  agent: {type: builtin.noop}\n  taskSets: [{path: other.yaml}, {path: task.yaml}]\n";
    let both = json!({"paths": ["e2.yaml"], "files": {"other.yaml": other, "e2.yaml": set}});
    assert_eq!(served.gives("check", both.clone()).await["errors"], 0);
    let plan = served.gives("plan", both).await;
    assert!(plan["text"].as_str().unwrap().contains("other"), "{plan}");
    assert!(!world.path("p/other.yaml").exists() && world.read("p/bad.yaml").contains("verfy"));
    // Without paths, everything below the root is checked, and no more findings than requested are returned.
    world.write("p/worse.yaml", &TASK.replace("prompt", "promt"));
    let all = served.gives("check", json!({"max_findings": 1})).await;
    assert!(all["found"].as_u64().unwrap() > 1 && all["diagnostics"].as_array().unwrap().len() == 1, "{all}");
    assert_eq!(all["diagnostics"][0]["level"], "error");
}

#[tokio::test(flavor = "multi_thread")]
async fn plan_explain_and_convert_return_their_output() {
    let world = project();
    let served = Served::with(&world.path("p"), &[]).await;
    for format in ["tree", "markdown", "mermaid"] {
        let plan = served.gives("plan", json!({"paths": ["eval.yaml"], "format": format})).await;
        assert!(
            plan["text"].as_str().unwrap().contains("verif") | (format == "markdown") && plan["truncated"] == false,
            "{plan}"
        );
    }
    let plan = served.gives("plan", json!({"paths": ["eval.yaml"], "format": "json", "task": "^t$"})).await;
    assert_eq!(plan["document"]["evals"][0]["name"], "e", "{plan}");
    assert!(served.refuses("plan", json!({"paths": ["bad.yaml"]})).await.contains("unknown-field"));
    assert!(
        served.refuses("plan", json!({"paths": ["eval.yaml"], "task": "none"})).await.contains("no task name matches")
    );
    assert!(served.refuses("plan", json!({"paths": ["eval.yaml"], "task": "("})).await.contains("`task`"));
    for word in ["unknown-field", "task", "oneOf", "sleep", "check", "GEVALS_CACHE_DIR"] {
        let told = served.gives("explain", json!({"word": word})).await;
        assert!(told["text"].as_str().unwrap().contains(word), "{word}");
    }
    assert!(served.gives("explain", json!({})).await["text"].as_str().unwrap().contains("resource-not-released"));
    assert!(
        served.refuses("explain", json!({"word": "unknown-feild"})).await.contains("did you mean `unknown-field`?")
    );
    let lifted = served.gives("convert", json!({"paths": ["legacy.yaml"], "target": "builtin"})).await;
    let text = lifted["tasks"][0]["text"].as_str().unwrap();
    assert!(text.contains("apiVersion: mcp-eval/v1") && !text.contains("inline:"), "{lifted}");
    assert_eq!(lifted["tasks"][0]["proof"], Value::Null);
    assert_eq!(served.gives("check", json!({"files": {"new.yaml": text}})).await["errors"], 0);
    assert!(!world.path("p/legacy.portable.yaml").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_outside_of_the_root_is_read_or_written() {
    let world = project();
    std::os::unix::fs::symlink(world.path("secret"), world.path("p/out")).unwrap();
    std::os::unix::fs::symlink(world.path("secret/task.yaml"), world.path("p/link.yaml")).unwrap();
    let served = Served::with(&world.path("p"), &["--allow-write"]).await;
    let absolute = world.path("secret/task.yaml").display().to_string();
    for path in [
        "../secret/task.yaml",
        &absolute,
        "out/task.yaml",
        "link.yaml",
        "/etc/passwd",
        "/no/such/file",
        "p/../../secret",
    ] {
        for (tool, arguments) in [
            ("check", json!({"paths": [path]})),
            ("check", json!({"files": {path: TASK}})),
            ("plan", json!({"paths": [path]})),
            ("convert", json!({"paths": [path]})),
            ("result", json!({"file": path})),
            ("new", json!({"what": "task", "path": path, "write": true})),
        ] {
            let why = served.refuses(tool, arguments).await;
            assert!(!why.contains("BEYOND") && !why.contains("/bin/"), "{why}");
        }
    }
    // A check of everything below the root reveals nothing about the target of a link.
    let found = served.gives("check", json!({})).await.to_string();
    assert!(!found.contains("BEYOND"), "{found}");
    for path in ["out/new.yaml", "link.yaml"] {
        served.refuses("new", json!({"what": "task", "path": path, "write": true})).await;
    }
    assert_eq!(std::fs::read_dir(world.path("secret")).unwrap().count(), 1);
    assert!(world.read("secret/task.yaml").contains("BEYOND"));
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_written_only_if_allowed_and_never_overwritten() {
    let world = project();
    let served = Served::with(&world.path("p"), &[]).await;
    let given = served.gives("new", json!({"what": "eval", "path": "fresh/eval.yaml"})).await;
    assert_eq!(given["written"], false);
    assert!(!world.path("p/fresh").exists() && !world.path("p/notes").exists());
    let files = given["files"].as_array().unwrap();
    assert_eq!(files.len(), 5, "{given}");
    let texts: serde_json::Map<String, Value> =
        files.iter().map(|file| (file["path"].as_str().unwrap().to_owned(), file["text"].clone())).collect();
    let found = served.gives("check", json!({"files": texts})).await;
    assert_eq!((&found["ok"], &found["found"]), (&json!(true), &json!(0)), "{found}");
    let why = served.refuses("new", json!({"what": "task", "path": "x.yaml", "write": true})).await;
    assert!(why.contains("unknown field `write`"), "{why}");
    let served = Served::with(&world.path("p"), &["--allow-write"]).await;
    assert_eq!(
        served.gives("new", json!({"what": "eval", "path": "fresh/eval.yaml", "write": true})).await["written"],
        true
    );
    assert_eq!(world.read("p/fresh/eval.yaml"), texts["fresh/eval.yaml"]);
    let why = served.refuses("new", json!({"what": "eval", "path": "fresh/eval.yaml", "write": true})).await;
    assert!(why.contains("already exist"), "{why}");
    served.gives("new", json!({"what": "task", "path": "fresh/tasks/more", "dialect": "legacy", "write": true})).await;
    assert!(world.read("p/fresh/tasks/more.yaml").contains("steps:"));
    // The generated files pass.
    world.run(&["run", "p/fresh/eval.yaml"]).expect(0, &["1 of 1 task passed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_arguments_are_rejected_with_a_reason() {
    let world = project();
    let served = Served::with(&world.path("p"), &[]).await;
    for (tool, arguments, why) in [
        ("check", json!({"path": "task.yaml"}), "unknown field `path`"),
        ("check", json!({"paths": "task.yaml"}), "`paths`: invalid type: string \"task.yaml\", expected a list"),
        ("check", json!({"files": []}), "`files`: invalid type: list, expected an object"),
        (
            "check",
            json!({"files": {}, "max_findings": "ten"}),
            "`max_findings`: invalid type: string \"ten\", expected a whole number",
        ),
        ("new", json!({"path": "a", "what": "tusk"}), "`what`: unknown variant `tusk`"),
        ("check", json!({"max_findings": 0}), "from 1 to 200"),
        ("check", json!({"paths": ["tsk.yaml"]}), "did you mean `task.yaml`"),
        ("check", json!({"files": {"notes.txt": "hello"}}), ""),
        ("plan", json!({"format": "svg"}), "`format`: unknown variant `svg`"),
        ("convert", json!({"paths": ["eval.yaml"], "to": "steps", "target": "builtin"}), "only wraps"),
        ("result", json!({}), "missing field `file`"),
        ("result", json!({"file": "task.yaml"}), "cannot read the results"),
        ("new", json!({"what": "eval", "path": "e", "dialect": "steps"}), "no `dialect`"),
        ("new", json!({"what": "task", "path": "a b"}), "cannot derive a name"),
    ] {
        let said = served.client.call_tool(tool, arguments.clone()).await.unwrap();
        assert!(why.is_empty() || said.is_error && said.text().contains(why), "{tool} {arguments}: {}", said.text());
    }
    let unknown = served.client.call_tool("rn", json!({})).await.unwrap_err().to_string();
    assert!(unknown.contains("unknown tool `rn`"), "{unknown}");
    // Capabilities that are not declared are not available.
    for method in ["prompts/list", "resources/list", "resources/templates/list"] {
        let refused = served.client.request(method, None).await.unwrap_err().to_string();
        assert!(refused.contains("-32601"), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn evals_are_run_only_if_allowed() {
    let world = project();
    let served = Served::with(&world.path("p"), &["--allow-run"]).await;
    let ran = served.gives("run", json!({"eval": "eval.yaml"})).await;
    assert_eq!((&ran["status"], &ran["summary"]["passed"]), (&json!(1), &json!(0)), "{ran}");
    let told = served.gives("result", json!({"file": ran["results"], "details": true})).await;
    assert_eq!((&told["ok"], &told["results"][0]["passed"]), (&json!(false), &json!(false)), "{told}");
    assert!(!told["results"][0]["why"].as_str().unwrap().is_empty(), "{told}");
    assert!(told["details"].as_str().unwrap().contains("verify"), "{told}");
    world.write("done", "");
    let ran = served.gives("run", json!({"eval": "eval.yaml", "task": "^t$"})).await;
    assert_eq!((&ran["status"], &ran["summary"]["ok"]), (&json!(0), &json!(true)), "{ran}");
    assert!(served.refuses("run", json!({"eval": "eval.yaml", "task": "--help"})).await.contains("status"));
    assert!(served.refuses("run", json!({"eval": "task.yaml"})).await.contains("is not a single eval"));
    // Nothing is revealed about files outside the root, not even whether they exist.
    world.write("beyond.yaml", "kind: Agent\ncommands: {runPrompt: 'echo sesame'}\n");
    for agent in ["../beyond.yaml", "../nowhere.yaml", "builtin.script:../beyond.yaml", "/etc/passwd"] {
        let said = served.refuses("run", json!({"eval": "eval.yaml", "agent": agent})).await;
        assert!(said.contains("is outside the root") && !said.contains("sesame"), "{said}");
    }
}

/// With an eval that waits in its setup, and creates a file there and in its cleanup.
fn slow_project() -> World {
    let world = project();
    world.write("p/slow.yaml", "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {name: slow, timeout: 5m}\nspec:\n  prompt: Do it.\n  setup:\n    - command: {run: \"touch WORLD/begun; sleep 200\"}\n  verify:\n    - command: {run: test -e WORLD/begun}\n  cleanup:\n    - command: {run: touch WORLD/cleaned}\n");
    world.write(
        "p/slow-eval.yaml",
        "kind: Eval\nmetadata: {name: s}\nconfig:\n  agent: {type: builtin.noop}\n  taskSets: [{path: slow.yaml}]\n",
    );
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_cancelled_cleans_up() {
    let world = slow_project();
    let served = Served::with(&world.path("p"), &["--allow-run"]).await;
    let call = served.client.call_tool("run", json!({"eval": "slow-eval.yaml"}));
    // The client cancels its call while the run is in progress.
    tokio::select! {
        ended = call => panic!("{ended:?}"),
        () = appears(&world, "begun") => {}
    }
    appears(&world, "cleaned").await;
    // If the client leaves without cancelling, the server is stopped, which stops the run.
    for file in ["begun", "cleaned"] {
        std::fs::remove_file(world.path(file)).unwrap();
    }
    let served = Served::with(&world.path("p"), &["--allow-run"]).await;
    let call = served.client.call_tool("run", json!({"eval": "slow-eval.yaml"}));
    let closing = async {
        appears(&world, "begun").await;
        served.hub.close().await;
    };
    let _ = tokio::join!(call, closing);
    appears(&world, "cleaned").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_ends_and_cleans_up_if_its_server_is_killed() {
    let world = slow_project();
    let (pid, gevals, root) = (world.path("pid"), env!("CARGO_BIN_EXE_gevals"), world.path("p"));
    let script = format!("echo $$ > {}; exec {gevals} mcp --root {} --allow-run", pid.display(), root.display());
    let args = vec!["-c".to_owned(), script];
    let served = Served::at(Transport::Stdio { command: "sh".to_owned(), args, env: IndexMap::new(), cwd: None }).await;
    let call = served.client.call_tool("run", json!({"eval": "slow-eval.yaml"}));
    let killing = async {
        appears(&world, "begun").await;
        let pid = std::fs::read_to_string(&pid).unwrap();
        assert!(std::process::Command::new("kill").args(["-9", pid.trim()]).status().unwrap().success());
    };
    let (answer, ()) = tokio::join!(call, killing);
    assert!(answer.is_err(), "{answer:?}");
    appears(&world, "cleaned").await;
}

/// Starts `gevals mcp` with plain streams, and sends the first messages.
fn at_its_streams(world: &World, options: &[&str]) -> (std::process::Child, std::process::ChildStdin) {
    let mut command = world.command(&[&["mcp", "--root", "p"], options].concat());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    for line in [
        json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
    ] {
        writeln!(input, "{line}").unwrap();
    }
    (child, input)
}

fn call(id: u32, tool: &str, arguments: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})
}

/// Returns all messages of the server by ID, after its input was closed.
fn all_said(child: std::process::Child) -> Vec<(Value, Value)> {
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let messages = String::from_utf8(output.stdout).unwrap();
    let message = |line: &str| serde_json::from_str::<Value>(line).unwrap();
    messages.lines().map(message).map(|message| (message["id"].clone(), message)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_closes_the_input_ends_its_run() {
    let world = slow_project();
    let (child, mut input) = at_its_streams(&world, &["--allow-run"]);
    writeln!(input, "{}", call(1, "run", &json!({"eval": "slow-eval.yaml"}))).unwrap();
    appears(&world, "begun").await;
    assert!(!world.path("cleaned").exists());
    // Only its input is closed; its output stays open.
    drop(input);
    let begun = std::time::Instant::now();
    let said = all_said(child);
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    assert!(world.path("cleaned").exists(), "{said:?}");
    assert!(said[1].0 == 1 && said[1].1["result"]["isError"] == true, "{said:?}");
}

#[test]
fn invalid_lines_are_rejected_and_requests_before_the_end_of_input_are_answered() {
    let world = project();
    let (child, mut input) = at_its_streams(&world, &[]);
    for line in ["{\"jsonrpc\": \"2.0\",", "", "hello", "[]", "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":3}"] {
        writeln!(input, "{line}").unwrap();
    }
    input.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"\xff\"}\n").unwrap();
    // A notification has no response.
    writeln!(input, "{}", json!({"jsonrpc": "2.0", "method": "notifications/unheard-of", "params": 3})).unwrap();
    // The last line does not need a newline.
    write!(input, "{}", call(9, "check", &json!({"paths": ["task.yaml"]}))).unwrap();
    drop(input);
    let said = all_said(child);
    let codes: Vec<_> =
        said.iter().filter(|(id, _)| id.is_null()).map(|(_, message)| message["error"]["code"].clone()).collect();
    assert_eq!(codes, [-32700, -32700, -32600, -32600, -32700], "{said:?}");
    assert!(said.iter().all(|(_, message)| message.get("id").is_some()), "{said:?}");
    let (id, last) = said.last().unwrap();
    assert!(*id == 9 && last["result"]["structuredContent"]["ok"] == true, "{said:?}");
    assert_eq!(said.len(), 7, "{said:?}");
}

async fn appears(world: &World, file: &str) {
    for _ in 0..500 {
        if world.path(file).exists() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("there is no `{file}` after ten seconds");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_in_an_answer() {
    let world = project();
    let token = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";
    world.write(
        "p/mcp.yaml",
        &format!("mcpServers:\n  s: {{command: x, env: {{API_TOKEN: {token}}}, args: [--password, hunter2hunter2]}}\n"),
    );
    world.write("p/eval.yaml", "kind: Eval\nmetadata: {name: e}\nconfig:\n  agent: {type: builtin.noop}\n  mcpConfigFile: mcp.yaml\n  taskSets: [{path: task.yaml}]\n");
    let served = Served::with(&world.path("p"), &[]).await;
    for (tool, arguments) in [
        ("check", json!({"paths": ["eval.yaml", "mcp.yaml"]})),
        ("plan", json!({"paths": ["eval.yaml"]})),
        ("plan", json!({"paths": ["eval.yaml"], "format": "json"})),
    ] {
        let told = served.gives(tool, arguments).await.to_string();
        assert!(!told.contains(token) && !told.contains("hunter2hunter2"), "{tool}: {told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_serves_http_only_to_local_clients() {
    let world = project();
    world.run(&["mcp", "--http", "0.0.0.0:0"]).expect(2, &["only local clients are served"]);
    world.run(&["mcp", "--root", "nowhere"]).expect(2, &["nowhere"]);
    let mut command = world.command(&["mcp", "--root", "p", "--http", "127.0.0.1:0"]);
    let mut child = command.stderr(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    std::io::BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let url = line.split_whitespace().last().unwrap().to_owned();
    assert!(url.starts_with("http://127.0.0.1:"), "{line}");
    let served = Served::at(Transport::Http { url: url.clone(), headers: IndexMap::new() }).await;
    assert_eq!(served.gives("check", json!({"paths": ["task.yaml"]})).await["ok"], true);
    // A page in a browser may resolve its own host name to 127.0.0.1.
    let headers: IndexMap<_, _> = [("Host".to_owned(), "evil.example".to_owned())].into();
    let spec = ServerSpec { name: "evil".to_owned(), transport: Transport::Http { url, headers } };
    let refused = match Hub::start(spec, HubOptions::default()).await {
        Err(_) => true,
        Ok(hub) => hub.client(SessionKind::Own, ClientOptions::default()).await.is_err(),
    };
    assert!(refused);
    child.kill().unwrap();
    child.wait().unwrap();
}
