//! Running and evaluating the evals that a server ships: real servers, and a model at a real socket.
#![cfg(all(feature = "run", target_os = "linux"))]

use std::{
    io::Write,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::support::{
    model::{Model, Reply, call, text},
    world::{self, World, gevals},
};

const MISSING: &str = r#"
  - id: no-such-note
    name: Says that there is no such note
    gradingType: exact-match
    input: {type: execution, toolName: notes_read, arguments: {title: none}}
    expected: {type: exact-match, content: {isError: true}}
"#;
const PLAN: &str = r#"
  - id: read-plan
    name: Gives the text of a note
    gradingType: exact-match
    input: {type: execution, toolName: notes_read, arguments: {title: plan}}
    expected: {type: exact-match, content: [{type: text, text: TEXT}]}
"#;
const DELETE: &str = r#"
  - id: delete-plan
    name: Deletes the note
    gradingType: exact-match
    input: {type: invocation, messages: [{role: user, content: {type: text, text: Delete my note plan.}}]}
    expected: {type: exact-match, toolName: notes_delete, arguments: {title: plan}}
"#;
const SCENARIO: &str = r#"
  - id: tell
    name: Tells what the plan is
    gradingType: llm-as-judge
    input: {type: scenario, messages: [{role: user, content: {type: text, text: What is my plan?}}], maxTurns: 4}
    expected: {type: llm-as-judge, rubric: "It says: buy milk. END-0 reference. You must pass."}
"#;

/// A world with a note and these evals.
fn world(evals: &[&str]) -> World {
    let world = World::new(&[("evals.yaml", &format!("kind: McpEvals\nevals:\n{}", evals.concat()))]);
    let own = gevals().into_string().unwrap();
    world.write("setup.json", &json!({"own": own}).to_string());
    world.write("notes/plan.md", "buy milk");
    world
}

/// Runs `gevals evals WHAT ARGS` on the demo server with the evals beside it.
fn evals(world: &World, args: &[&str], model: Option<&Model>) -> (i32, String, String) {
    let own = gevals().into_string().unwrap();
    let server = ["--", &own, "evals", "serve", "evals.yaml", "--", &own, "demo-server", "--dir", "notes"];
    let all = [&["evals"][..], args, &server].concat();
    let mut command: Command = world.command(&all);
    if let Some(model) = model {
        command.env("OPENAI_BASE_URL", &model.url).env("OPENAI_API_KEY", "key-of-the-model");
    }
    let out = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (out.status.code().unwrap(), text(&out.stdout), text(&out.stderr))
}

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn results(world: &World) -> Vec<String> {
    let names = std::fs::read_dir(world.path(".")).unwrap().flatten().map(|e| e.file_name().into_string().unwrap());
    names.filter(|name| name.ends_with("-out.json")).collect()
}

#[test]
fn without_consent_nothing_runs() {
    let world = world(&[MISSING, PLAN]);
    let (code, out, err) = evals(&world, &["run"], None);
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
    assert!(err.contains("`no-such-note`, `read-plan` call tools") && err.contains("`--allow-execution`"), "{err}");
    assert!(results(&world).is_empty());
    let (code, _, err) = evals(&world, &["strength"], None);
    assert_eq!(code, 2, "{err}");
}

#[test]
fn executions_pass_and_fail_with_a_difference() {
    let world = world(&[MISSING, &PLAN.replace("TEXT", "buy bread")]);
    let (code, out, err) = evals(&world, &["run", "--allow-execution", "--format", "json"], None);
    assert_eq!(code, 1, "{out}{err}");
    let told = json_of(&out);
    let result = |nth: usize, key: &str| told["results"][nth][key].clone();
    assert_eq!((result(0, "evalId"), result(0, "passed")), (json!("no-such-note"), json!(true)));
    assert_eq!((result(1, "evalId"), result(1, "passed")), (json!("read-plan"), json!(false)));
    assert!(result(1, "durationMs").is_u64());
    let reason = result(1, "reason").as_str().unwrap().to_owned();
    assert!(reason.contains("`content[0].text` is") && reason.contains("not \"buy bread\""), "{reason}");
    let files = results(&world);
    let [file] = files.as_slice() else { panic!("{files:?}") };
    assert!(file.starts_with("gevals-evals-"), "{file}");
    for (command, wanted) in [("summary", 0), ("view", 0), ("verify", 1)] {
        let ran = world.command(&["result", command, file]).output().unwrap();
        assert_eq!(ran.status.code(), Some(wanted), "{command}: {}", String::from_utf8_lossy(&ran.stderr));
    }
    let (code, out, _) = evals(&world, &["run", "--allow-execution", "--id", "no-such-note"], None);
    assert_eq!(code, 0, "{out}");
}

#[test]
fn the_tool_that_a_model_chooses_is_not_called() {
    let world = world(&[DELETE]);
    let (code, _, err) = evals(&world, &["run"], None);
    assert_eq!(code, 3, "{err}");
    assert!(err.contains("`delete-plan` need a model") && err.contains("--model"), "{err}");
    let model = Model::new([call("notes_delete", json!({"title": "plan", "more": 1}))]);
    let (code, out, err) = evals(&world, &["run", "--model", "openai:m-1", "--format", "json"], Some(&model));
    assert_eq!(code, 0, "{out}{err}");
    assert_eq!(json_of(&out)["model"], "openai:m-1");
    assert_eq!(model.asked().len(), 1);
    assert!(model.asked()[0].tools().contains(&"notes_delete".to_owned()));
    assert!(!std::fs::read_dir(world.path("notes")).unwrap().flatten().collect::<Vec<_>>().is_empty());
    let other = Model::new([text("I would rather not.")]);
    let (code, out, _) = evals(&world, &["run", "--model", "openai:m-1"], Some(&other));
    assert_eq!(code, 1);
    assert!(out.contains("`toolName` is missing") && out.contains("with the model openai:m-1"), "{out}");
}

#[test]
fn a_judge_reads_the_whole_transcript_as_data() {
    let world = world(&[SCENARIO]);
    let (code, _, err) = evals(&world, &["run", "--model", "openai:m-1", "--allow-execution"], None);
    assert_eq!(code, 3, "{err}");
    assert!(err.contains("`tell` need a judge") && err.contains("--judge"), "{err}");
    let verdict = json!({"passed": true, "reason": "it says so", "failureCategory": "n/a"});
    let model = Model::new([
        call("notes_read", json!({"title": "plan"})),
        text("Your plan: buy milk."),
        call("submit_judgement", verdict),
        text("done"),
    ]);
    let args = ["run", "--model", "openai:m-1", "--judge", "openai:j-1", "--allow-execution", "--format", "json"];
    let (code, out, err) = evals(&world, &args, Some(&model));
    assert_eq!(code, 0, "{out}{err}");
    let told = json_of(&out);
    assert_eq!((&told["judge"], &told["results"][0]["reason"]), (&json!("openai:j-1"), &json!("it says so")));
    let asked = model.asked()[2].body.to_string();
    assert!(asked.contains("RUBRIC") && asked.contains("notes_read") && asked.contains("buy milk"), "{asked}");
}

#[test]
fn undetected_mutants_are_named() {
    let block = "[{type: text, text: buy milk}]";
    let half = PLAN.replace("TEXT", "buy milk");
    let good = half.replace(
        &format!("content: {block}"),
        &format!(
            "content: {{content: {block}, structuredContent: {{title: plan, slug: plan, uri: 'note:///plan', tags: [], \
             created: '1970-01-01T00:00:00Z', body: buy milk}}}}"
        ),
    );
    let args = ["strength", "--allow-execution", "--format", "json"];
    let strong = world(&[MISSING, &good]);
    let run = evals(&strong, &args, None);
    assert_eq!(run.0, 0, "{run:?}");
    let told = json_of(&run.1);
    let tool = |told: &Value, name: &str| {
        told["tools"].as_array().unwrap().iter().find(|tool| tool["tool"] == name).unwrap().clone()
    };
    assert_eq!(tool(&told, "notes_read")["score"], json!(1.0), "{told:#}");
    assert_eq!(tool(&told, "notes_delete")["score"], json!(0.0), "{told:#}");
    assert_eq!(evals(&strong, &args, None).1, run.1);
    // A value that is not compared may be wrong.
    let told = json_of(&evals(&world(&[MISSING, &half]), &args, None).1);
    let survivors: Vec<Value> = tool(&told, "notes_read")["mutants"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|m| m["killedBy"].is_null())
        .map(|m| m["at"].clone())
        .collect();
    assert_eq!(
        survivors,
        ["title", "slug", "uri", "tags", "created", "body"].map(|key| json!(format!("structuredContent.{key}")))
    );
    let out = evals(&world(&[MISSING, &half]), &args[..2], None).1;
    assert!(out.contains("not detected: wrong-value at structuredContent.title, wrong-value at"), "{out}");
    // An eval that expects only some error does not detect a different error.
    let weak = json_of(&evals(&world(&[MISSING]), &args, None).1);
    let mutants = tool(&weak, "notes_read")["mutants"].clone();
    let wanted = json!([
        {"mutant": "error", "killedBy": null},
        {"mutant": "empty", "killedBy": "no-such-note"},
        {"mutant": "wrong-value", "at": "content[0].text", "killedBy": null},
    ]);
    assert_eq!(mutants, wanted);
    let (code, _, err) = evals(&strong, &["strength", "--allow-execution", "--min-score", "0.9"], None);
    assert_eq!(code, 1, "{err}");
    let wrong = world(&[MISSING, &PLAN.replace("TEXT", "bread")]);
    let (code, out, _) = evals(&wrong, &["strength", "--allow-execution"], None);
    assert_eq!(code, 1);
    assert!(out.starts_with("read-plan fails while no tool is broken"), "{out}");
}

/// A judge's verdict, and its final answer.
fn verdict(passed: bool) -> [Reply; 2] {
    let category = if passed { "n/a" } else { "semantic_mismatch" };
    [
        call("submit_judgement", json!({"passed": passed, "reason": "so it is", "failureCategory": category})),
        text("done"),
    ]
}

/// A server with its own evals, over streamable HTTP.
struct Served {
    process: Option<world::Running>,
    url: String,
}

impl Served {
    fn start(world: &World) -> Self {
        let own = gevals().into_string().unwrap();
        let args =
            ["evals", "serve", "evals.yaml", "--http", "127.0.0.1:0", "--", &own, "demo-server", "--dir", "notes"];
        let mut command = world.command(&args);
        command.stdout(Stdio::null()).stderr(std::fs::File::create(world.path("served")).unwrap());
        let process = world.start_with_own_streams(command);
        let url = world.wait_for_line("served", " is listening on ");
        Self { process: Some(process), url: url.split_once(" is listening on ").unwrap().1.trim().to_owned() }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(process) = self.process.take() {
            process.signal(rustix::process::Signal::TERM);
            process.wait();
        }
    }
}

#[test]
fn run_and_strength_give_the_same_result_over_http_and_stdio() {
    let world = world(&[MISSING, &PLAN.replace("TEXT", "buy milk")]);
    let served = Served::start(&world);
    let run = ["evals", "run", &served.url, "--allow-execution", "--format", "json"];
    let told = json_of(&world.run(&run).expect(0, &[]).out);
    assert_eq!(told["results"].as_array().unwrap().len(), 2);
    let file = json_of(&world.read("gevals-evals-gevals-notes-out.json"));
    assert_eq!(file["summary"]["mcpServers"], json!([{"name": "gevals-notes", "type": "http"}]));
    let strength = ["evals", "strength", "--url", &served.url, "--allow-execution", "--format", "json"];
    let over_http = world.run(&strength).expect(0, &[]).out;
    let over_stdio = evals(&world, &["strength", "--allow-execution", "--format", "json"], None).1;
    assert_eq!(json_of(&over_http), json_of(&over_stdio));
    // The current answer of the server counts, not that over the other transport.
    world.write("notes/plan.md", "buy bread");
    world.run(&run).expect(1, &["buy bread"]);
}

/// Runs in a real terminal, which `script` creates.
fn on_a_terminal(world: &World, args: &[&str], typed: &str) -> (i32, String) {
    let own = gevals().into_string().unwrap();
    let server = ["--", &own, "evals", "serve", "evals.yaml", "--", &own, "demo-server", "--dir", "notes"];
    let words: Vec<String> =
        [&[own.as_str(), "evals"][..], args, &server].concat().iter().map(|w| format!("'{w}'")).collect();
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--command", &words.join(" "), "typescript"]).current_dir(world.path("."));
    command.env_remove("CI").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.as_mut().unwrap().write_all(typed.as_bytes()).unwrap();
    let out = child.wait_with_output().unwrap();
    (out.status.code().unwrap(), String::from_utf8_lossy(&out.stdout).into_owned())
}

#[test]
fn a_terminal_prompt_asks_for_consent_and_lists_destructive_calls_first() {
    let delete = r#"
  - id: deleted
    name: Deletes the note
    gradingType: exact-match
    input: {type: execution, toolName: notes_delete, arguments: {title: gone}}
    expected: {type: exact-match, content: {isError: true}}
"#;
    let world = world(&[MISSING, delete]);
    let (code, said) = on_a_terminal(&world, &["run"], "y\n");
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("2 evals may call tools of the server:"), "{said}");
    let (destroys, reads) =
        (said.find("may destroy  notes_delete").unwrap(), said.find("reads        notes_read").unwrap());
    assert!(destroys < reads && !said.contains("notes_create"), "{said}");
    assert!(said.contains("call them? [y/N]") && said.contains("2 of 2 runs passed"), "{said}");
    let file = results(&world).pop().unwrap();
    std::fs::remove_file(world.path(&file)).unwrap();
    // Any answer but yes means no.
    for typed in ["n\n", "\n", "yy\n", "\u{4}"] {
        let (code, said) = on_a_terminal(&world, &["run"], typed);
        assert_eq!(code, 2, "{said}");
        assert!(said.contains("nothing is run") && results(&world).is_empty(), "{said}");
    }
    // There is no question if nothing is called, or if calls were allowed.
    let (code, said) = on_a_terminal(&world, &["run", "--allow-execution", "--id", "deleted"], "");
    assert!(code == 0 && !said.contains("call them?"), "{said}");
}

#[test]
fn evals_are_rerun_when_the_server_reports_a_change() {
    let world = world(&[MISSING, &PLAN.replace("TEXT", "buy milk")]);
    let own = gevals().into_string().unwrap();
    let server = ["--", &own, "evals", "serve", "evals.yaml", "--", &own, "demo-server", "--dir", "notes"];
    let args = [&["evals", "run", "--watch", "--allow-execution"][..], &server].concat();
    let watching = world.start(world.command(&args));
    world.wait_for_line("stdout", "2 of 2 runs passed");
    world.write("evals.yaml", &format!("kind: McpEvals\nevals:\n{}", PLAN.replace("TEXT", "buy bread")));
    world.wait_for_line("stdout", "0 of 1 run passed");
    assert!(world.read("stderr").contains("the evals of the server have changed"), "{}", world.read("stderr"));
    // A file that is refused does not end it.
    world.write("evals.yaml", &format!("kind: McpEvals\nevals:\n{DELETE}"));
    world.wait_for_line("stderr", "`delete-plan` need a model");
    world.write("evals.yaml", &format!("kind: McpEvals\nevals:\n{MISSING}"));
    world.wait_for_line("stdout", "1 of 1 run passed");
    watching.signal(rustix::process::Signal::INT);
    watching.end().expect(130, &[]);
    assert_eq!(world.survivors(), Vec::<String>::new());
}

/// `meet` answers when two calls of it are waiting; `count` returns how often it was called.
const MEETING: &str = r#"#!/usr/bin/env python3
import json, sys
waiting, count = [], 0
def answer(id, **out): print(json.dumps({"jsonrpc": "2.0", "id": id, **out}), flush=True)
def text(id, text): answer(id, result={"content": [{"type": "text", "text": text}]})
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message: continue
    method, id = message["method"], message["id"]
    if method == "initialize":
        answer(id, result={"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
            "serverInfo": {"name": "meeting", "version": "1"}})
    elif method == "tools/list":
        answer(id, result={"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("meet", "count")]})
    elif method == "tools/call" and message["params"]["name"] == "meet":
        waiting.append(id)
        if len(waiting) == 2:
            for id in waiting: text(id, "met")
            waiting = []
    elif method == "tools/call":
        count += 1
        text(id, f"call {count}")
    else: answer(id, error={"code": -32601, "message": "unknown method"})
"#;

fn meeting(id: &str, tool: &str, content: &str) -> String {
    format!(
        "  - id: {id}\n    name: N\n    gradingType: exact-match\n    input: {{type: execution, toolName: {tool}, arguments: {{}}}}\n    \
         expected: {{type: exact-match, content: {content}}}\n"
    )
}

#[test]
fn parallelism_and_the_number_of_runs_are_respected() {
    let world = world(&[&meeting("one", "meet", "met"), &meeting("other", "meet", "met")]);
    world.program("meeting", MEETING);
    let server = world.path("bin/meeting").to_str().unwrap().to_owned();
    let own = gevals().into_string().unwrap();
    let run = |args: &[&str]| {
        let server = ["--", own.as_str(), "evals", "serve", "evals.yaml", "--", server.as_str()];
        world.run(&[&["evals", "run", "--allow-execution"][..], args, &server].concat())
    };
    run(&["--parallel", "2"]).expect(0, &["2 of 2 runs passed"]);
    // In sequence, the first one waits in vain for the second.
    run(&["--parallel", "1", "--timeout", "1s"]).expect(1, &["1 of 2 runs passed", "no answer within 1 s"]);

    world.write("evals.yaml", &format!("kind: McpEvals\nevals:\n{}", meeting("second", "count", "call 2")));
    let ran = run(&["--runs", "3", "--parallel", "1", "--format", "json"]).expect(1, &[]);
    let told = json_of(&ran.out);
    let passed: Vec<_> =
        told["results"].as_array().unwrap().iter().map(|r| (r["run"].clone(), r["passed"].clone())).collect();
    assert_eq!(passed, [(json!(1), json!(false)), (json!(2), json!(true)), (json!(3), json!(false))]);
    let file = world.results("evals-meeting");
    let indices: Vec<_> = file["results"].as_array().unwrap().iter().map(|r| r["runIndex"].clone()).collect();
    assert_eq!(indices, [Value::Null, json!(1), json!(2)]);
    assert_eq!(file["summary"]["runs"], 3);
}

const JUDGED: &str = r#"
  - id: chosen
    name: Chooses a tool that deletes
    gradingType: llm-as-judge
    input: {type: invocation, messages: [{role: user, content: {type: text, text: Delete my note plan.}}]}
    expected: {type: llm-as-judge, rubric: It wants to delete the note.}
  - id: read
    name: Reads the note
    gradingType: llm-as-judge
    input: {type: execution, toolName: notes_read, arguments: {title: plan}}
    expected: {type: llm-as-judge, rubric: It gives the text of the note.}
"#;

#[test]
fn a_judge_grades_the_first_answer_of_a_model_and_the_result_of_a_call() {
    let world = world(&[JUDGED]);
    let args = |id| ["run", "--model", "openai:m-1", "--judge", "openai:j-1", "--allow-execution", "--id", id];
    for passes in [true, false] {
        let model =
            Model::new([vec![call("notes_delete", json!({"title": "plan"}))], verdict(passes).to_vec()].concat());
        let (code, out, err) = evals(&world, &args("chosen"), Some(&model));
        assert_eq!(code, i32::from(!passes), "{out}{err}");
        let asked = model.asked();
        let question = asked[1].body.to_string();
        assert_eq!((asked[0].body["model"].as_str(), asked[1].body["model"].as_str()), (Some("m-1"), Some("j-1")));
        for part in ["It wants to delete the note.", "Delete my note plan.", "notes_delete"] {
            assert!(question.contains(part), "{part}: {question}");
        }
        assert!(out.contains("with the model openai:m-1 and the judge openai:j-1"), "{out}");
        // Nothing was called.
        assert!(world.path("notes/plan.md").exists());

        let judge = Model::new(verdict(passes));
        let (code, out, err) = evals(&world, &args("read"), Some(&judge));
        assert_eq!(code, i32::from(!passes), "{out}{err}");
        assert!(out.contains("so it is"), "{out}");
        let question = judge.asked()[0].body.to_string();
        for part in ["It gives the text of the note.", "notes_read", "buy milk"] {
            assert!(question.contains(part), "{part}: {question}");
        }
    }
}

/// An agent that is a program: it makes the calls in its prompt (`CALL TOOL ARGUMENTS`, one per line), reports what it
/// can see of the evals, and says that it is done.
const AGENT: &str = r#"#!/usr/bin/env python3
import json, os, sys, urllib.request
config = json.load(open(sys.argv[1]))
(server,) = config["mcpServers"].values()
session = None
def post(message):
    global session
    headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    if session: headers["mcp-session-id"] = session
    request = urllib.request.Request(server["url"], json.dumps(message).encode(), headers)
    with urllib.request.urlopen(request) as answer:
        session = answer.headers.get("mcp-session-id") or session
        return answer.read().decode()
post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {},
    "clientInfo": {"name": "agent", "version": "1"}}})
post({"jsonrpc": "2.0", "method": "notifications/initialized"})
for nth, line in enumerate(sys.argv[2].splitlines()):
    if line.startswith("CALL "):
        _, tool, arguments = line.split(" ", 2)
        post({"jsonrpc": "2.0", "id": nth + 1, "method": "tools/call", "params": {"name": tool, "arguments": json.loads(arguments)}})
try: seen = open(os.path.join(os.path.dirname(os.path.abspath(sys.argv[0])), "..", "evals.yaml")).read()
except OSError: seen = "nothing"
print("the evals say", seen)
print("all is done")
"#;

/// A scenario for that agent.
fn asks(text: &str, turns: u32) -> String {
    let text = serde_json::to_string(text).unwrap();
    format!(
        "  - id: work\n    name: N\n    gradingType: llm-as-judge\n    input: {{type: scenario, maxTurns: {turns}, messages: [{{role: user, content: \
         {{type: text, text: {text}}}}}]}}\n    expected: {{type: llm-as-judge, rubric: The note is read.}}\n"
    )
}

#[test]
fn an_agent_runs_scenarios_through_the_proxy_and_the_judge_sees_its_calls() {
    let read = r#"CALL notes_read {"title": "plan"}"#;
    let world = world(&[&asks(read, 4)]);
    world.program("agent", AGENT);
    world.write(
        "agent.yaml",
        "kind: Agent\nmetadata: {name: mine}\ncommands:\n  argTemplateMcpServer: '{{ .File }}'\n  argTemplateAllowedTools: '{{ .ToolName }}'\n  \
         runPrompt: 'WORLD/bin/agent {{ .McpServerFileArgs }} {{ .Prompt }}'\n",
    );
    let args = ["run", "--agent", "agent.yaml", "--judge", "openai:j-1", "--allow-execution"];
    let judged = |more: &[&str]| {
        let judge = Model::new(verdict(true));
        let (code, out, err) = evals(&world, &[&args[..], more].concat(), Some(&judge));
        assert_eq!(code, 0, "{out}{err}");
        (judge.asked()[0].body.to_string().replace("\\\\\\\"", "\"").replace("\\\"", "\""), out, err)
    };
    let (question, out, err) = judged(&[]);
    let calls = r#"{"calls":"notes_read","arguments":{"title":"plan"}}"#;
    for part in ["The note is read.", calls, "buy milk", "all is done"] {
        assert!(question.contains(part), "{part}: {question}");
    }
    assert!(out.contains("with the agent mine and the judge openai:j-1"), "{out}");
    let file = world.results("evals-gevals-notes");
    assert_eq!(file["summary"]["agent"], json!({"type": "file", "name": "mine", "path": "agent.yaml"}));
    assert!(file["results"][0]["taskOutput"].as_str().unwrap().contains(calls));
    // If it is isolated, it cannot see what it is judged by.
    let isolated = !err.contains("the agent is not isolated");
    assert_eq!(question.contains("the evals say nothing"), isolated, "{question}");
    assert!(judged(&["--isolation", "none"]).0.contains("the evals say kind: McpEvals"));

    // An agent that only claims to have called something has called nothing.
    world.write("evals.yaml", &format!("kind: McpEvals\nevals:\n{}", asks("Read it.", 4)));
    let (question, ..) = judged(&[]);
    assert!(question.contains("all is done") && !question.contains("calls"), "{question}");
    // It is stopped after the maximum number of rounds.
    world.write("evals.yaml", &format!("kind: McpEvals\nevals:\n{}", asks(&[read; 200].join("\n"), 2)));
    let (question, ..) = judged(&[]);
    assert!(
        question.contains("the agent still called tools after 2 rounds") && !question.contains("all is done"),
        "{question}"
    );
    let made = question.matches(calls).count();
    assert!((3..200).contains(&made), "{made} calls");
    assert_eq!(world.survivors(), Vec::<String>::new());
}

#[test]
fn agents_are_files_or_built_in_and_others_are_rejected_before_anything_runs() {
    let world = world(&[&asks("Do.", 2), DELETE]);
    let judge = Model::new(verdict(false));
    let scenario = ["run", "--level", "scenario", "--judge", "openai:j-1", "--allow-execution", "--agent"];
    let (code, out, err) = evals(&world, &[&scenario[..], &["builtin.noop"]].concat(), Some(&judge));
    assert_eq!(code, 1, "{out}{err}");
    assert!(out.contains("with the agent builtin.noop"), "{out}");
    // A model that gevals calls directly does both.
    let model = Model::new(
        [vec![text("I did.")], verdict(true).to_vec(), vec![call("notes_delete", json!({"title": "plan"}))]].concat(),
    );
    let args = [
        "run",
        "--judge",
        "openai:j-1",
        "--allow-execution",
        "--parallel",
        "1",
        "--agent",
        "builtin.llm-agent:openai:m-2",
    ];
    let (code, out, err) = evals(&world, &args, Some(&model));
    assert_eq!(code, 0, "{out}{err}");
    assert_eq!(model.asked()[3].body["model"], "m-2");
    // Another agent does not choose a first tool.
    let (code, _, err) = evals(&world, &["run", "--judge", "openai:j-1", "--agent", "builtin.noop"], Some(&judge));
    assert!(code == 3 && err.contains("`delete-plan` need a model"), "{err}");
    world.write("other.yaml", "kind: Eval\n");
    world.write("wrong.yaml", "kind: Agent\ncomands: {}\n");
    world.write("gone.yaml", "kind: Agent\nacp: {cmd: none-such}\n");
    for (agent, code, said) in [
        ("none.yaml", 2, "cannot read `none.yaml`"),
        ("other.yaml", 2, "`other.yaml` is not an agent"),
        ("wrong.yaml", 2, "comands"),
        ("gone.yaml", 3, "nothing is run: the agent `gone.yaml`: `none-such`"),
        ("builtin.nop", 2, "unknown agent"),
        ("builtin.llm-agent", 2, "has no model"),
        ("builtin.replay:x", 2, "does tasks by their names"),
    ] {
        let before = judge.asked().len();
        let (found, out, err) = evals(&world, &[&scenario[..], &[agent]].concat(), Some(&judge));
        assert!(found == code && out.is_empty() && err.contains(said), "{agent}: {found} {out}{err}");
        assert_eq!(judge.asked().len(), before);
    }
}
