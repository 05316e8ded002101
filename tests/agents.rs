//! Agents from end to end: gevals as users run it, with real sockets and processes, and real servers behind the proxy.
#![cfg(all(feature = "run", target_os = "linux"))]

use serde_json::{Value, json};

use crate::support::{
    model::{Asked, Model, Reply, call, text},
    world::{Ran, World},
};

const KEY: &str = "sk-this-key-is-never-printed";

/// An eval with one task: the agent must write a note, and confirm it.
const EVAL: &str = "\
kind: Eval
metadata: {name: e}
config:
  agent: {AGENT}
  mcpConfigFile: mcp.yaml
  taskSets:
    - path: task.yaml
      assertions: {toolsUsed: [{server: notes, tool: notes_create}], minToolCalls: 1}
";
const TASK: &str = "\
kind: Task
apiVersion: mcp-eval/v1
metadata: {name: t, timeout: 20s}
spec:
  prompt: Write down that I need bread.
  verify:
    - file: {path: WORLD/notes/bread.md, expect: {contains: rye}}
    - command: {run: 'test \"$SAID\" = done', env: {SAID: \"{agent.output}\"}}
";
const MCP: &str = "\
mcpServers:
  notes: {command: gevals, args: [demo-server, --dir, WORLD/notes], enableAllTools: true}
";

fn world(agent: &str) -> World {
    World::new(&[("eval.yaml", &EVAL.replace("AGENT", agent)), ("task.yaml", TASK), ("mcp.yaml", MCP)])
}

/// Runs it with the endpoint and the key of a provider in the environment.
fn run(world: &World, provider: &str, url: &str, args: &[&str]) -> Ran {
    let mut command = world.command(args);
    let (variable, key) = match provider {
        "openai" => ("OPENAI_BASE_URL", "OPENAI_API_KEY"),
        "anthropic" => ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"),
        _ => ("GOOGLE_GEMINI_BASE_URL", "GEMINI_API_KEY"),
    };
    // OpenAI's own clients expect a URL that includes the version.
    command.env(variable, if provider == "openai" { format!("{url}/v1") } else { url.to_owned() }).env(key, KEY);
    let ran = world.start(command).end();
    assert!(!ran.out.contains(KEY) && !ran.err.contains(KEY), "the key is printed: {}{}", ran.out, ran.err);
    hides(&world.path("."), KEY);
    assert_eq!(world.survivors(), Vec::<String>::new());
    ran
}

fn hides(dir: &std::path::Path, secret: &str) {
    for path in std::fs::read_dir(dir).unwrap().flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            hides(&path, secret);
        } else {
            let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
            assert!(!text.contains(secret), "`{secret}` stands in {}", path.display());
        }
    }
}

fn bread() -> Value {
    json!({ "title": "bread", "body": "rye" })
}

#[test]
fn a_model_of_each_provider_works_with_the_tools() {
    for (provider, path, key) in [
        ("openai", "/v1/chat/completions", "authorization"),
        ("anthropic", "/v1/messages", "x-api-key"),
        ("gemini", "/v1beta/models/some-model:generateContent", "x-goog-api-key"),
    ] {
        let model = Model::new([call("notes_create", bread()), text("done")]);
        let world = world(&format!("type: builtin.llm-agent, model: \"{provider}:some-model\""));
        run(&world, provider, &model.url, &["run", "eval.yaml", "-v"]).expect(0, &["notes_create"]);
        let asked = model.asked();
        assert_eq!(asked.len(), 2, "{provider}");
        assert_eq!(asked[0].path, path);
        assert!(asked[0].header(key).ends_with(KEY), "{provider}: {asked:?}");
        assert!(asked[0].tools().contains(&"notes_create".to_owned()), "{provider}: {:?}", asked[0].body);
        assert!(asked[0].body.to_string().contains("I need bread"));
        // The second request contains the answer of the tool.
        assert!(asked[1].body.to_string().contains("note:///bread"), "{provider}: {:#}", asked[1].body);
        let results = world.results("e");
        assert_eq!(results["results"][0]["callHistory"]["ToolCalls"][0]["name"], "notes_create");
        assert_eq!(results["results"][0]["taskOutput"], "done");
    }
}

#[test]
fn old_agent_names_imply_openai_with_a_notice() {
    let model = Model::new([call("notes_create", bread()), text("done")]);
    for agent in ["builtin.openai-agent", "builtin.openai-acp"] {
        let world = world(&format!("type: {agent}, model: some-model"));
        run(&world, "openai", &model.url, &["run", "eval.yaml"]);
        run(&world, "openai", &model.url, &["check"]).expect(0, &["deprecated-agent", "model-without-provider"]);
    }
    assert_eq!(model.asked()[0].path, "/v1/chat/completions");
    assert_eq!(model.asked()[0].body["model"], "some-model");
}

#[test]
fn an_agent_file_names_the_endpoint_and_the_variable_of_the_key() {
    let model = Model::new([call("notes_create", bread()), text("done")]);
    let world = world("type: file, path: agent.yaml");
    let file = format!(
        "kind: Agent\nmetadata: {{name: mine}}\nbuiltin:\n  type: llm-agent\n  model: anthropic:some-model\n  \
         baseUrl: {}\n  apiKey: OUR_ACCESS\n",
        model.url
    );
    world.write("agent.yaml", &file);
    let mut command = world.command(&["run", "eval.yaml"]);
    command.env("OUR_ACCESS", KEY);
    world.start(command).end().expect(0, &[]);
    hides(&world.path("."), KEY);
    assert_eq!(model.asked()[0].header("x-api-key"), KEY);
    // Without the key, no request is sent.
    world.run(&["run", "eval.yaml"]).expect(3, &["`OUR_ACCESS`, which must contain the key of the model, is not set"]);
    world.run(&["run", "eval.yaml", "--preflight"]).expect(3, &["`OUR_ACCESS`"]);
}

#[test]
fn settings_that_an_agent_ignores_are_reported_before_it_runs() {
    const SHELL: &str = "kind: Agent\nmetadata: {name: sh}\ncommands:\n  runPrompt: 'my-agent {{ .Prompt }}'\n";
    const MODEL: &str = "kind: Agent\nbuiltin: {type: llm-agent, model: openai:m}\n";
    let said = |agent: &str, more: &str, file: &str| {
        let world = world(agent);
        world
            .write("eval.yaml", &world.read("eval.yaml").replace("  mcpConfigFile", &format!("{more}  mcpConfigFile")));
        world.write("agent.yaml", file);
        world.write("copy.yaml", file);
        world.run(&["check", "eval.yaml"])
    };
    for (agent, file, exit, expected) in [
        (
            "type: file, path: agent.yaml, model: x",
            SHELL,
            1,
            "`model` has no effect: a command line does not receive it",
        ),
        (
            "type: file, path: agent.yaml, model: x",
            "kind: Agent\nacp: {cmd: a}\n",
            1,
            "`model` has no effect: an ACP program",
        ),
        ("type: builtin.noop, model: x", "", 1, "`model` has no effect: `builtin.noop` does not use a model"),
        (
            "type: builtin.claude-code, path: agent.yaml",
            SHELL,
            1,
            "`path` has no effect: `builtin.claude-code` does not read a file",
        ),
        (
            "type: file, path: agent.yaml",
            "kind: Agent\ncommands: {runPrompt: 'a {{ .McpServerFileArgs }} {{ .Prompt }}'}\n",
            1,
            "`{{ .McpServerFileArgs }}` is always empty",
        ),
        (
            "type: file, path: agent.yaml",
            "kind: Agent\ncommands: {runPrompt: 'a {{ .Prompt }}', argTemplateMcpServer: '{{ .File }}'}\n",
            0, // a warning: the agent may know its servers in other ways
            "`argTemplateMcpServer` has no effect",
        ),
        ("type: file, path: agent.yaml", "kind: Agent\nacp: {args: [x]}\n", 1, "help: add `cmd:`"),
        ("path: agent.yaml", SHELL, 1, "help: write `type: file` for an agent file"),
        ("type: builtin.replay, path: none.jsonl", "", 1, "help: each run writes one"),
        ("type: builtin.replay, path: agent.yaml", SHELL, 1, "the recording `agent.yaml` is not a recording"),
    ] {
        said(agent, "", file).expect(exit, &[expected]);
    }
    said("type: builtin.noop", "  llmJudge: {ref: {}}\n", "")
        .expect(1, &["help: write `type: builtin.llm-agent` and a `model`"]);
    // The same agent, written differently, is still the same.
    for (agent, judge, file, same) in [
        ("type: builtin.llm-agent, model: \"gemini:g\"", "type: builtin.llm-agent, model: \"google:g\"", "", true),
        ("type: builtin.openai-agent, model: m", "type: builtin.llm-agent, model: \"openai:m\"", "", true),
        ("type: file, path: agent.yaml", "type: file, path: copy.yaml", SHELL, true),
        ("type: file, path: agent.yaml", "type: builtin.llm-agent, model: \"openai:m\"", MODEL, true),
        ("type: builtin.claude-code", "type: builtin.claude-code, model: opus", "", true),
        ("type: builtin.claude-code, model: sonnet", "type: builtin.claude-code, model: opus", "", false),
        ("type: builtin.llm-agent, model: \"openai:m\"", "type: builtin.llm-agent, model: \"openai:n\"", "", false),
    ] {
        let ran = said(agent, &format!("  llmJudge: {{ref: {{{judge}}}}}\n"), file);
        assert_eq!(format!("{}{}", ran.out, ran.err).contains("judge-is-agent"), same, "{agent} {judge}: {}", ran.out);
    }
}

#[test]
fn faults_in_command_line_arguments_are_shown_at_their_location() {
    let world = world("type: builtin.noop");
    let ran = world.run(&["run", "eval.yaml", "--agent", "builtin.llmagent"]);
    let ran =
        ran.expect(2, &["[the command line:1:9]", "--agent builtin.llmagent", "did you mean `builtin.llm-agent`?"]);
    assert!(!ran.err.contains("--fix") && !ran.out.contains("--fix"), "{}{}", ran.out, ran.err);
    world
        .run(&["run", "eval.yaml", "--agent", "builtin.llm-agent", "--model", "nope"])
        .expect(2, &["the model `nope` has no provider", "--model nope"]);
    world.run(&["run", "eval.yaml", "--agent", "builtin.claude-code:"]).expect(2, &["the agent's model has no name"]);
}

#[test]
fn a_key_goes_only_to_the_endpoint_it_belongs_to() {
    const OWN: &str = "sk-of-the-environment";
    let file = |more: &str| {
        format!("kind: Agent\nmetadata: {{name: mine}}\nbuiltin:\n  type: llm-agent\n  model: openai:m\n{more}")
    };
    // The agent file, the environment, and additional arguments; returns the key that the model receives, if it
    // receives a request.
    let key = |more: &str, variables: &[(&str, &str)], args: &[&str]| {
        let model = Model::new([call("notes_create", bread()), text("done")]);
        let world = world("type: file, path: agent.yaml");
        let url = format!("{}/v1", model.url);
        world.write("agent.yaml", &file(&more.replace("URL", &url)));
        let mut command = world.command(&[&["run", "eval.yaml"], args].concat());
        for (name, value) in variables {
            command.env(name, value.replace("URL", &url));
        }
        let ran = world.start(command).end();
        let headers = |asked: &Asked| ["authorization", "x-api-key"].map(|name| asked.header(name)).concat();
        let sent = model.asked().first().map(|asked| headers(asked).trim_start_matches("Bearer ").to_owned());
        (sent, ran)
    };
    let sent = |more: &str, variables: &[(&str, &str)]| key(more, variables, &[]).0.unwrap();
    let (url, both) = ("  baseUrl: URL\n", "  baseUrl: URL\n  apiKey: MYLOCAL\n");
    let own = ("OPENAI_API_KEY", OWN);
    assert_eq!(sent(both, &[("MYLOCAL", KEY), own]), KEY);
    assert_eq!(sent(url, &[own]), "none");
    assert_eq!(sent(both, &[("MYLOCAL", KEY), ("OPENAI_BASE_URL", "URL")]), "none");
    assert_eq!(sent(both, &[("MYLOCAL", KEY), ("OPENAI_BASE_URL", "URL"), own]), OWN);
    assert_eq!(sent("  apiKey: MYLOCAL\n", &[("MYLOCAL", KEY), ("OPENAI_BASE_URL", "URL")]), KEY);
    // A variable that is named but not set is reported as missing, whatever else is set.
    for variables in [&[][..], &[own]] {
        let (sent, ran) = key(both, variables, &[]);
        assert_eq!(sent, None);
        ran.expect(3, &["`MYLOCAL`, which must contain the key of the model, is not set"]);
        key(both, variables, &["--preflight"])
            .1
            .expect(3, &["missing agent `mine`", "`MYLOCAL`, which must contain the key of the model, is not set"]);
    }
    // A model of another provider is not requested from this endpoint, and uses another key.
    let (asked, ran) = key(both, &[("MYLOCAL", KEY)], &["--model", "anthropic:x"]);
    assert_eq!(asked, None);
    ran.expect(3, &["`ANTHROPIC_API_KEY`, which must contain the key of the model, is not set"]);
    let elsewhere = Model::new([text("done")]);
    let others = [("MYLOCAL", KEY), ("ANTHROPIC_API_KEY", OWN), ("ANTHROPIC_BASE_URL", elsewhere.url.as_str())];
    assert_eq!(key(both, &others, &["--model", "anthropic:x"]).0, None);
    assert_eq!(elsewhere.asked()[0].header("x-api-key"), OWN);
    // A password in a URL is never shown.
    let world = world("type: builtin.llm-agent, model: \"openai:m\"");
    for (args, exit, said) in
        [(&["run", "eval.yaml", "--preflight"][..], 0, "127.0.0.1:9"), (&["run", "eval.yaml"], 1, "cannot be reached")]
    {
        let mut command = world.command(args);
        command.env("OPENAI_BASE_URL", "http://user:hunter2pw@127.0.0.1:9/v1");
        world.start(command).end().expect(exit, &[said]);
        // The output of gevals is in this directory as well.
        hides(&world.path("."), "hunter2pw");
    }
}

#[test]
fn calls_not_permitted_by_the_config_are_rejected_and_do_not_reach_a_server() {
    let model = Model::new([
        Reply::Calls(vec![("notes_create".to_owned(), bread()), ("no_such_tool".to_owned(), Value::Null)]),
        text("done"),
    ]);
    let world = world("type: builtin.llm-agent, model: \"openai:m\"");
    world.write("mcp.yaml", &MCP.replace("enableAllTools: true", "alwaysAllow: [notes_list]"));
    run(&world, "openai", &model.url, &["run", "eval.yaml"]).expect(1, &["there was no call of `notes.notes_create`"]);
    let second = model.asked()[1].body.to_string();
    assert!(second.contains("permission denied") && second.contains("no such tool"), "{second}");
    assert_eq!(world.results("e")["results"][0]["callHistory"]["ToolCalls"], Value::Null);
}

#[test]
fn tools_of_two_servers_with_the_same_name_are_distinguished() {
    let model = Model::new([call("other__notes_create", bread()), text("done")]);
    let world = world("type: builtin.llm-agent, model: \"openai:m\"");
    world.write(
        "mcp.yaml",
        &format!("{MCP}  other: {{command: gevals, args: [demo-server, --dir, WORLD/other], enableAllTools: true}}\n"),
    );
    run(&world, "openai", &model.url, &["run", "eval.yaml"]).expect(1, &["notes.notes_create"]);
    assert!(world.path("other/bread.md").exists() && !world.path("notes/bread.md").exists());
    let tools = model.asked()[0].tools();
    assert!(tools.contains(&"notes__notes_create".to_owned()), "{tools:?}");
    assert_eq!(world.results("e")["results"][0]["callHistory"]["ToolCalls"][0]["serverName"], "other");
}

#[test]
fn endpoint_errors_break_the_task_and_are_reported() {
    let echo: &str = "{\"error\": {\"message\": \"bad key sk-this-key-is-never-printed\"}}";
    let refuse = |status, body| vec![Reply::Status(status, None, body)];
    let wait = Some(("retry-after", "0"));
    for (replies, requests, said) in [
        (refuse(401, echo), 1, "refuses the key: 401 bad key ***"),
        (refuse(404, "{\"error\": \"no such model\"}"), 1, "404 no such model"),
        (refuse(400, "<html>what?</html>"), 1, "400 <html>what?</html>"),
        (vec![Reply::Status(429, wait, "{}")], 3, "429 {}, 3 times"),
        (vec![Reply::Status(500, wait, "oops"); 1], 3, "500 oops, 3 times"),
        (vec![Reply::Raw("application/json", "{\"choices\": [")], 1, "malformed JSON"),
        (vec![Reply::Raw("application/json", "[1]")], 1, "the model's endpoint gave no answer of its protocol"),
        (vec![Reply::Raw("application/json", "{}")], 1, "the model's endpoint gave no answer of its protocol"),
        (vec![Reply::Raw("text/html", "<p>log in")], 1, "did not answer with JSON: <p>log in"),
    ] {
        let model = Model::new(replies);
        let world = world("type: builtin.llm-agent, model: \"openai:m\"");
        run(&world, "openai", &model.url, &["run", "eval.yaml"]).expect(1, &[said]);
        assert_eq!(world.results("e")["results"][0]["outcome"], "broken", "{said}");
        assert_eq!(model.asked().len(), requests, "{said}");
    }
    // Nothing listens there.
    let world = world("type: builtin.llm-agent, model: \"openai:m\"");
    run(&world, "openai", "http://127.0.0.1:9", &["run", "eval.yaml"]).expect(1, &["cannot be reached"]);
}

#[test]
fn a_busy_endpoint_is_retried() {
    let busy = || Reply::Status(429, Some(("retry-after", "0")), "{}");
    let model = Model::new([busy(), busy(), call("notes_create", bread()), busy(), text("done")]);
    let world = world("type: builtin.llm-agent, model: \"openai:m\"");
    run(&world, "openai", &model.url, &["run", "eval.yaml"]).expect(0, &[]);
    assert_eq!(model.asked().len(), 5);
}

#[test]
fn a_model_that_hangs_or_never_finishes_is_stopped() {
    let model = Model::new([Reply::Hang]);
    let world = world("type: builtin.llm-agent, model: \"openai:m\"");
    run(&world, "openai", &model.url, &["run", "eval.yaml", "--task-timeout", "1s"])
        .expect(1, &["task exceeded timeout of 1s"]);

    let model = Model::new([call("notes_list", Value::Null)]);
    run(&world, "openai", &model.url, &["run", "eval.yaml"]).expect(1, &["still called tools after 50 answers"]);
    assert_eq!(model.asked().len(), 50);
}

/// Returns the recording of the latest run.
fn recording(world: &World) -> String {
    let runs = std::fs::read_dir(world.path(".gevals/runs")).unwrap().flatten();
    let latest = runs.max_by_key(|run| run.metadata().unwrap().modified().unwrap()).unwrap();
    format!(".gevals/runs/{}/recording.jsonl", latest.file_name().to_str().unwrap())
}

#[test]
fn a_replay_makes_the_calls_of_a_recording_and_reports_differences() {
    let calls = [bread(), bread(), json!({ "query": "rye" })];
    let [create, again, search] =
        calls.map(|args| (if args["query"].is_null() { "notes_create" } else { "notes_search" }, args));
    let model = Model::new([call(create.0, create.1), call(again.0, again.1), call(search.0, search.1), text("done")]);
    let world = world("type: builtin.llm-agent, model: \"openai:m\"");
    run(&world, "openai", &model.url, &["run", "eval.yaml"]).expect(0, &[]);
    let first = world.results("e")["results"][0]["callHistory"]["ToolCalls"].clone();
    assert_eq!(first.as_array().unwrap().len(), 3);
    let replay = format!("builtin.replay:{}", recording(&world));

    // On a fresh server, only the time of creation differs: it is recent now, as it was then.
    std::fs::remove_dir_all(world.path("notes")).unwrap();
    let ran = world.run(&["run", "eval.yaml", "--agent", &replay, "--replay", "strict"]).expect(0, &[]);
    assert!(!ran.out.contains("of the recording"), "{}", ran.out);
    let second = world.results("e")["results"][0].clone();
    assert_eq!(second["taskOutput"], "done");
    let calls = second["callHistory"]["ToolCalls"].as_array().unwrap();
    let params = |call: &Value| call["request"]["Params"]["arguments"].clone();
    assert!(calls.iter().map(params).eq(first.as_array().unwrap().iter().map(params)), "{calls:#?}");

    // Now the note already exists.
    world
        .run(&["run", "eval.yaml", "--agent", &replay])
        .expect(0, &["its answer in call 1 of the recording, notes.notes_create", "differs from the recording"]);

    // A file that is not a recording, or contains nothing about the task, is reported.
    world
        .run(&["run", "eval.yaml", "--agent", "builtin.replay:no.jsonl"])
        .expect(2, &["cannot read the recording `no.jsonl`"]);
    world.run(&["run", "eval.yaml", "--agent", "builtin.replay"]).expect(2, &["has no `path`"]);
    world
        .run(&["run", "eval.yaml", "--agent", "builtin.replay:task.yaml"])
        .expect(2, &["the recording `task.yaml` is not a recording"]);
    let head = world.read(&recording(&world)).lines().next().unwrap().to_owned();
    world.write("empty.jsonl", &head);
    world
        .run(&["run", "eval.yaml", "--agent", "builtin.replay:empty.jsonl"])
        .expect(2, &["the recording does not contain the task `t`"]);
    world.write("new.jsonl", &head.replace("\"version\":1", "\"version\":99"));
    world
        .run(&["run", "eval.yaml", "--agent", "builtin.replay:new.jsonl"])
        .expect(2, &["the recording `new.jsonl` has version 99"]);
}

/// A server with one tool, which answers as the file `mode` specifies.
const MOODY: &str = r#"#!/bin/sh
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\|"[^"]*"\).*/\1/p')
  say() { printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$1"; }
  mode=$(cat WORLD/mode)
  case $mode-$line in
    *'"initialize"'*) say '"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}' ;;
    gone-*'"tools/list"'*) say '"result":{"tools":[]}' ;;
    refused-*'"tools/list"'*) say '"error":{"code":-32603,"message":"the catalogue is closed"}' ;;
    grown-*'"tools/list"'*) say '"result":{"tools":[{"name":"more","inputSchema":{"type":"object"}}]}' ;;
    *'"tools/list"'*) say '"result":{"tools":[{"name":"ask","inputSchema":{"type":"object"}}]}' ;;
    grows-*'"tools/call"'*)
      echo grown > WORLD/mode
      printf '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n'
      say '"result":{"content":[{"type":"text","text":"there is more"}]}' ;;
    same-*'"tools/call"'* | grown-*'"tools/call"'*) say '"result":{"content":[{"type":"text","text":"yes"}]}' ;;
    other-*'"tools/call"'*) say '"result":{"content":[{"type":"text","text":"no"}]}' ;;
    error-*'"tools/call"'*) say '"result":{"content":[{"type":"text","text":"yes"}],"isError":true}' ;;
    gone-*'"tools/call"'*) say '"error":{"code":-32602,"message":"no such tool"}' ;;
    *'"id"'*) say '"result":{}' ;;
  esac
done
"#;

/// An agent that calls the tool of this server this many times.
fn moody(calls: usize) -> World {
    let oracle = format!(
        "kind: Oracle\ntasks: {{t: {{calls: [{}], output: done}}}}\n",
        vec!["{server: s, tool: ask, args: {of: '{random.id}'}}"; calls].join(", ")
    );
    let world = World::new(&[
        (
            "eval.yaml",
            "kind: Eval\nmetadata: {name: e}\nconfig: {agent: {type: builtin.script, path: oracle.yaml}, mcpConfigFile: mcp.yaml, taskSets: [{path: task.yaml}]}\n",
        ),
        ("mcp.yaml", "mcpServers: {s: {command: WORLD/bin/server, enableAllTools: true}}\n"),
        ("oracle.yaml", &oracle),
        (
            "task.yaml",
            "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {name: t}\nspec:\n  prompt: Ask.\n  verify:\n  - command: {run: 'echo {random.id} {random.port} >> WORLD/drawn'}\n",
        ),
        ("mode", "same"),
    ]);
    world.program("server", MOODY);
    world
}

/// Tools that a server adds later are offered to the model.
#[test]
fn tools_added_during_a_turn_are_offered_to_the_model() {
    let world = moody(0);
    world.write("mode", "grows");
    let eval =
        world.read("eval.yaml").replace("builtin.script, path: oracle.yaml", "builtin.llm-agent, model: 'openai:m'");
    world.write("eval.yaml", &eval);
    let nothing = || serde_json::json!({});
    let model = Model::new([call("ask", nothing()), call("more", nothing()), text("done")]);
    run(&world, "openai", &model.url, &["run", "eval.yaml"]).expect(0, &[]);
    let offered: Vec<Value> =
        model.asked().iter().map(|asked| asked.body["tools"][0]["function"]["name"].clone()).collect();
    assert_eq!(offered, ["ask", "more", "more"]);
    let calls = world.results("e")["results"][0]["callHistory"]["ToolCalls"].clone();
    assert_eq!((&calls[1]["name"], &calls[1]["success"]), (&json!("more"), &json!(true)), "{calls}");
}

/// To an agent, an empty list and a refusal look the same; users are told which one it was.
#[test]
fn a_server_that_refuses_to_list_its_tools_is_reported() {
    let world = moody(0);
    world.run(&["run", "eval.yaml"]).expect(0, &[]);
    world.write("mode", "refused");
    let ran = world.run(&["run", "eval.yaml"]);
    let said = [ran.out, ran.err].concat();
    assert!(said.contains("its tools cannot be listed") && said.contains("the catalogue is closed"), "{said}");
}

/// A pass means that the servers behave as before; random values are the same as in the recording.
#[test]
fn a_strict_replay_is_broken_by_any_difference() {
    let world = moody(1);
    world.run(&["run", "eval.yaml"]).expect(0, &[]);
    std::fs::rename(world.path(&recording(&world)), world.path("r.jsonl")).unwrap();
    let replay = ["run", "eval.yaml", "--agent", "builtin.replay:r.jsonl"];
    let ran = |how: &[&str], ci: &str| {
        let mut command = world.command(&[&replay, how].concat());
        world
            .start({
                command.env("CI", ci);
                command
            })
            .end()
    };
    ran(&["--replay", "strict"], "").expect(0, &[]);
    for (mode, actual) in [("other", "no"), ("error", "isError\":true"), ("gone", "no such tool")] {
        world.write("mode", mode);
        let at = "call 1 of the recording, s.ask (r.jsonl:";
        // Strict is the default if `CI` is set.
        for broken in [ran(&["--replay", "strict"], ""), ran(&[], "true")] {
            let broken = broken.expect(1, &["broken", "1 of the 1 calls differ from the recording", at, actual]);
            assert!(!broken.out.contains("PASS  "), "{}", broken.out);
            let result = world.results("e")["results"][0].clone();
            assert_eq!((&result["outcome"], &result["taskPassed"]), (&json!("broken"), &json!(false)), "{result:#}");
        }
        for tolerated in [ran(&["--replay", "tolerant"], "true"), ran(&[], "false")] {
            tolerated.expect(0, &["warning: its answer in call 1", at, "differs from the recording", actual]);
            let remarks = world.results("e")["results"][0]["remarks"].clone();
            let diverged = remarks.as_array().unwrap().iter().filter(|remark| remark["kind"] == "diverged");
            assert_eq!(diverged.count(), 1, "{remarks}");
        }
    }
    let drawn = world.read("drawn");
    assert_eq!(drawn.lines().collect::<std::collections::HashSet<_>>().len(), 1, "{drawn}");

    // Without the end of the agent's turn, or if the agent failed, calls are missing: a pass would mean nothing.
    let whole = world.read("r.jsonl");
    let is_end = |line: &&str| line.contains(r#""type":"output""#);
    let end = whole.lines().find(is_end).unwrap();
    world.write("mode", "same");
    for (text, why) in [
        (whole.replace(&format!("{end}\n"), ""), "the recording ends before the agent had ended in the task `t`"),
        (
            whole.replace(end, &end.replace("\"exitCode\":0", "\"exitCode\":1")),
            "the agent had failed in the recorded run of the task `t`",
        ),
        (
            whole
                .lines()
                .filter(|line| line.contains("recording\"") || line.contains("random\""))
                .map(|line| format!("{line}\n"))
                .collect(),
            "the recording ends before the agent had ended in the task `t`",
        ),
    ] {
        world.write("r.jsonl", &text);
        ran(&["--replay", "tolerant"], "").expect(2, &["no-oracle-entry", why]);
    }
    world.write("r.jsonl", &whole);

    // A secret that was masked in the recording cannot be restored.
    world.write("mode", "same");
    let recorded = world.read("r.jsonl");
    let id = drawn.split(' ').next().unwrap();
    world.write("r.jsonl", &recorded.replace(&format!("\"of\":\"{id}\""), "\"of\":\"***\""));
    ran(&["--replay", "strict"], "").expect(1, &["what it is given in call 1 of the recording, s.ask"]);
    // A server that no longer exists cannot be called.
    world.write("r.jsonl", &recorded.replace("\"server\":\"s\"", "\"server\":\"x\""));
    ran(&["--replay", "tolerant"], "").expect(1, &["call 1 of the recording, x.ask (r.jsonl:"]);
    // `--replay` is refused for other agents.
    world.run(&["run", "eval.yaml", "--replay", "strict"]).expect(2, &["--replay", "builtin.replay"]);
}

/// A call that a server refused must be refused with the same message in the replay; if there are many differences,
/// twenty are listed.
#[test]
fn a_refusal_is_replayed_as_a_refusal_and_all_calls_are_in_the_transcript() {
    let world = moody(21);
    world.write("mode", "gone");
    world.run(&["run", "eval.yaml"]).expect(0, &[]);
    std::fs::rename(world.path(&recording(&world)), world.path("r.jsonl")).unwrap();
    let replay = |how| world.run(&["run", "eval.yaml", "--agent", "builtin.replay:r.jsonl", "--replay", how]);
    replay("strict").expect(0, &[]);

    world.write("mode", "same");
    replay("strict").expect(1, &["21 of the 21 calls differ from the recording", "no such tool"]);
    replay("tolerant").expect(0, &["its answer in call 20 of the recording"]);
    let result = world.results("e")["results"][0].clone();
    let remarks = result["remarks"].as_array().unwrap().iter();
    assert_eq!(remarks.filter(|remark| remark["kind"] == "diverged").count(), 20, "{result:#}");
    let transcript = result["agentOutput"]["Steps"][0]["report"]["stdout"].as_str().unwrap();
    let lines: Vec<&str> = transcript.lines().collect();
    assert_eq!(lines.len(), 21 * 3 + 1, "{transcript}");
    for call in lines[..63].chunks(3) {
        assert!(call[0].starts_with("tool ask on s: {\"of\":\""), "{transcript}");
        assert_eq!(call[1], r#"→ {"content":[{"type":"text","text":"yes"}]}"#);
        assert!(call[2].starts_with("≠ …") && call[2].contains("no such tool (-32602)"), "{transcript}");
    }
    assert_eq!(lines[63], "done");
}

#[test]
fn the_replay_of_the_quickstart_passes() {
    let world = World::new(&[]);
    world.copy("examples/quickstart", "q");
    std::fs::create_dir_all(world.path("tmp")).unwrap();
    world.run(&["run", "q/eval.yaml"]).expect(0, &[]);
    std::fs::rename(world.path(&recording(&world)), world.path("r.jsonl")).unwrap();
    for _ in 0..5 {
        let ran = world.run(&["run", "q/eval.yaml", "--agent", "builtin.replay:r.jsonl", "--replay", "strict"]);
        ran.expect(0, &["4 of 4"]);
    }
}

/// An ACP agent: this test binary itself; `FAKE_AGENT` selects the scenario.
fn acp(world: &World) {
    let exe = std::env::current_exe().unwrap();
    let file = format!(
        "kind: Agent\nmetadata: {{name: fake}}\nacp:\n  cmd: {}\n  args: [agents::fake_acp_agent, --exact, --ignored, --nocapture]\n\
         skills: {{mountPath: .fake/skills, toolName: Load}}\n",
        exe.display()
    );
    world.write("agent.yaml", &file);
}

fn run_acp(world: &World, fake: &str, args: &[&str]) -> Ran {
    acp(world);
    let mut command = world.command(args);
    command.env("FAKE_AGENT", fake);
    let ran = world.start(command).end();
    assert_eq!(world.survivors(), Vec::<String>::new());
    ran
}

/// Behaves like an agent, following its scenario: reports, asks, calls, answers, and ends.
#[test]
#[ignore = "it is a program that other tests start"]
fn fake_acp_agent() {
    let Ok(fake) = std::env::var("FAKE_AGENT") else { return };
    let say = |message: Value| println!("{message}");
    let update = |update: Value| {
        let params = json!({ "sessionId": "s", "update": update });
        say(json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }));
    };
    let chunk =
        |kind: &str, text: &str| update(json!({ "sessionUpdate": kind, "content": { "type": "text", "text": text } }));
    let mut lines = std::io::stdin().lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    let answer = |to: &Value, result: Value| say(json!({ "jsonrpc": "2.0", "id": to["id"], "result": result }));

    let initialize = next();
    assert_eq!(initialize["method"], "initialize");
    assert_eq!(initialize["params"]["clientCapabilities"]["fs"]["readTextFile"], fake == "skill");
    let http = fake != "stdio";
    answer(&initialize, json!({ "protocolVersion": 1, "agentCapabilities": { "mcpCapabilities": { "http": http } } }));
    let session = next();
    assert_eq!(session["method"], "session/new");
    let params = session["params"].clone();
    answer(&session, json!({ "sessionId": "s" }));
    let prompt = next();
    assert_eq!(prompt["params"]["prompt"][0]["text"], "Write down that I need bread.");

    chunk("agent_thought_chunk", "hm, ");
    chunk("agent_message_chunk", "I will.");
    let tool = |title: &str, input: Value| {
        update(json!({ "sessionUpdate": "tool_call", "toolCallId": "c", "title": title, "rawInput": input }));
    };
    match fake.as_str() {
        "skill" => {
            tool("Load", json!({ "skill": "baking" }));
            let cwd = params["cwd"].as_str().unwrap();
            let mut read = |path: String| {
                let params = json!({ "sessionId": "s", "path": path, "line": 2, "limit": 1 });
                say(json!({ "jsonrpc": "2.0", "id": 7, "method": "fs/read_text_file", "params": params }));
                next()
            };
            assert_eq!(read(format!("{cwd}/.fake/skills/baking/SKILL.md"))["result"]["content"], "Use rye.\n");
            assert!(read(format!("{cwd}/../../etc/passwd"))["error"].is_object());
        }
        "write" => {
            say(
                json!({ "jsonrpc": "2.0", "id": 7, "method": "fs/write_text_file", "params": { "sessionId": "s", "path": "/tmp/x", "content": "" } }),
            );
            assert!(next()["error"].is_object());
        }
        "cancel" => {
            assert_eq!(next()["method"], "session/cancel");
            std::fs::write(std::env::var("FAKE_NOTE").unwrap(), "cancelled").unwrap();
            answer(&prompt, json!({ "stopReason": "cancelled" }));
            return;
        }
        _ => tool("mcp__notes__notes_create", bread()),
    }
    // As real agents ask for permission.
    let options = json!([
        { "optionId": "no", "name": "No", "kind": "reject_once" },
        { "optionId": "yes", "name": "Yes", "kind": "allow_once" },
        { "optionId": "ever", "name": "Always", "kind": "allow_always" },
    ]);
    let ask = json!({ "sessionId": "s", "toolCall": { "toolCallId": "c", "title": "mcp__notes__notes_create" }, "options": options });
    say(json!({ "jsonrpc": "2.0", "id": 8, "method": "session/request_permission", "params": ask }));
    let permission = next();
    let chosen = permission["result"]["outcome"]["optionId"].as_str().unwrap_or_default().to_owned();
    if chosen == "ever" {
        let url = params["mcpServers"][0]["url"].as_str().unwrap().to_owned();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let transport = gevals::mcp::Transport::Http { url, headers: indexmap::IndexMap::new() };
            let spec = gevals::mcp::ServerSpec { name: "notes".to_owned(), transport };
            let hub = gevals::mcp::Hub::start(spec, gevals::mcp::HubOptions::default()).await.unwrap();
            let client =
                hub.client(gevals::mcp::SessionKind::Own, gevals::mcp::ClientOptions::default()).await.unwrap();
            client.call_tool("notes_create", bread()).await.unwrap();
            hub.close().await;
        });
    }
    update(json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed", "rawOutput": {} }));
    println!("a line for people, which is not of the protocol");
    chunk("agent_message_chunk", "do");
    chunk("agent_message_chunk", "ne");
    let usage = json!({ "input_tokens": 7, "output_tokens": 5 });
    answer(&prompt, json!({ "stopReason": "end_turn", "_meta": { "usage": usage } }));
    assert_eq!(chosen, if fake == "refused" { "no" } else { "ever" });
    // Waits, as real agents do, and must be stopped.
    let _ = lines.next();
}

#[test]
fn an_acp_agent_uses_permitted_tools() {
    let world = world("type: file, path: agent.yaml");
    run_acp(&world, "work", &["run", "eval.yaml", "-v"]).expect(0, &["notes_create"]);
    let result = &world.results("e")["results"][0];
    assert_eq!(result["taskOutput"], "done");
    assert_eq!(result["callHistory"]["ToolCalls"][0]["name"], "notes_create");
    let said = world.read(&recording(&world)) + &world.results("e").to_string();
    assert!(said.contains("done"), "{said}");
    let details = &result["agentOutput"]["agentDetails"];
    eprintln!("{details:#}");
    let kinds: Vec<_> = details["outputSteps"].as_array().unwrap().iter().map(|step| &step["type"]).collect();
    assert!(kinds.contains(&&json!("tool_call")) && kinds.contains(&&json!("message")), "{details:#}");
    assert_eq!(details["toolCalls"][0]["rawInput"]["title"], "bread", "{details:#}");
    assert_eq!(details["outputSteps"].as_array().unwrap().last().unwrap()["content"], "done");
    // Its requests came over HTTP.
    let header = &result["callHistory"]["ToolCalls"][0]["request"]["Extra"]["Header"];
    assert_eq!(header["Content-Type"][0], "application/json", "{header}");

    world.write("mcp.yaml", &MCP.replace("enableAllTools: true", "alwaysAllow: [notes_list, create]"));
    std::fs::remove_dir_all(world.path("notes")).unwrap();
    run_acp(&world, "refused", &["run", "eval.yaml"]).expect(1, &["there was no call of `notes.notes_create`"]);

    world.write("mcp.yaml", MCP);
    run_acp(&world, "write", &["run", "eval.yaml"]).expect(0, &[]);
    run_acp(&world, "stdio", &["run", "eval.yaml"]).expect(3, &["does not accept MCP servers over HTTP"]);
}

#[test]
fn an_acp_agent_is_cancelled_at_its_timeout() {
    let world = world("type: file, path: agent.yaml");
    acp(&world);
    let mut command = world.command(&["run", "eval.yaml", "--task-timeout", "2s"]);
    command.env("FAKE_AGENT", "cancel").env("FAKE_NOTE", world.path("note"));
    world.start(command).end().expect(1, &["task exceeded timeout of 2s"]);
    assert_eq!(world.read("note"), "cancelled");
    assert_eq!(world.survivors(), Vec::<String>::new());
}

#[test]
fn skills_are_mounted_and_assertions_see_which_are_loaded() {
    let skills =
        "  mcpConfigFile: mcp.yaml\n  skills: {sources: [{type: path, path: skills}, {type: path, path: more}]}\n";
    let world = world("type: file, path: agent.yaml");
    let asserted = |with: &str| {
        let eval = EVAL.replace("AGENT", "type: file, path: agent.yaml").replace("  mcpConfigFile: mcp.yaml\n", skills);
        world.write("eval.yaml", &eval.replace("minToolCalls: 1", with));
    };
    world.write("skills/baking/SKILL.md", "# Baking\nUse wheat.\n");
    world.write("more/baking/SKILL.md", "# Baking\nUse rye.\nNo other.\n");
    world.write("skills/bak/SKILL.md", "None.\n");
    world.write("skills/cooking/SKILL.md", "None.\n");
    asserted(
        "skillsLoaded: [{skill: baking}, {skillPattern: ^.*bak}], skillsNotLoaded: [{skill: bak}, {skill: cooking}]",
    );
    run_acp(&world, "skill", &["run", "eval.yaml"]).expect(0, &[]);
    asserted("skillsLoaded: [{skill: cooking}], skillsNotLoaded: [{skill: baking}]");
    run_acp(&world, "skill", &["run", "eval.yaml"])
        .expect(1, &["the skill `cooking` was not loaded", "the skill `baking` was loaded"]);

    // A shell agent receives skills as well, but does not report that it loads them.
    asserted("skillsLoaded: [{skill: baking}]");
    world.write(
        "agent.yaml",
        "kind: Agent\nmetadata: {name: sh}\nskills: {mountPath: .sh, toolName: Load}\ncommands: {runPrompt: 'cat .sh/baking/SKILL.md; : {{ .Prompt }}'}\n",
    );
    world.run(&["run", "eval.yaml"]).expect(2, &["skills-not-seen", "is broken in every run: the agent `sh`"]);
    asserted("maxToolCalls: 9");
    world.run(&["run", "eval.yaml"]);
    assert!(world.results("e")["results"][0]["taskOutput"].as_str().unwrap().contains("Use rye."));

    // Impossible combinations are reported before anything runs.
    world.write("agent.yaml", "kind: Agent\ncommands: {runPrompt: 'cat {{ .Prompt }}'}\n");
    world.run(&["check"]).expect(0, &["skills-not-taken"]);
    std::fs::remove_dir_all(world.path("more")).unwrap();
    world.run(&["check"]).expect(1, &["the skill source `more`"]);
}

#[test]
fn a_debugged_shell_agent_keeps_its_folder_and_gets_a_debug_folder() {
    let world = world("type: file, path: agent.yaml");
    world.write(
        "agent.yaml",
        "kind: Agent\ncommands: {runPrompt: 'touch here; touch \"$MCPCHECKER_DEBUG_DIR/there\"; echo {{ .Prompt }}'}\n",
    );
    let mut command = world.command(&["run", "eval.yaml"]);
    command.env("MCPCHECKER_DEBUG", "yes");
    world.start(command).end().expect(1, &[]);
    let output = world.results("e")["results"][0]["taskOutput"].as_str().unwrap().to_owned();
    let folders: Vec<_> = output.split([' ', ',', ']']).filter(|word| word.starts_with('/')).collect();
    let holds = |folder: &str, file: &str| std::path::Path::new(folder).join(file).exists();
    assert!(holds(folders[0], "here") && holds(folders[1], "there"), "{output}");
    world.run(&["run", "eval.yaml"]);
    assert!(!world.results("e").to_string().contains("MCPCHECKER_DEBUG"));
}

/// The kernel limits a single argument or variable of a program to 128 KiB. An agent that reads the prompt in the
/// shell, from a file or from standard input receives all of it; for one that takes it as an argument, the message
/// explains what to use instead.
#[test]
fn prompts_and_answers_of_any_size_are_transferred() {
    let prompt = |times: usize| format!("{}'\"$`\\ the end\n", "Look at each note. ".repeat(times));
    let world = World::new(&[("prompt.txt", &prompt(10_000))]);
    let task = "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {name: t}\nspec:\n  prompt: {file: prompt.txt}\n  verify:\n    - command: {run: cmp said prompt.txt}\n";
    world.write("task.yaml", task);
    let eval = "kind: Eval\nmetadata: {name: e}\nconfig:\n  agent: {type: file, path: agent.yaml}\n  taskSets: [{path: task.yaml}]\n";
    world.write("eval.yaml", eval);
    let said = world.path("said");
    let said = said.display();
    let agent = |line: &str| {
        let line: String = line.lines().map(|line| format!("    {line}\n")).collect();
        world.write("agent.yaml", &format!("kind: Agent\nmetadata: {{name: a}}\ncommands:\n  runPrompt: |\n{line}"));
    };
    for line in [
        format!("cat \"$GEVALS_PROMPT_FILE\" > {said}"),
        format!("printf %s \"{{{{ .Prompt }}}}\" > {said}"),
        format!("printf %s {{{{ .Prompt }}}} > {said}"),
        format!("printf %s '{{{{ .Prompt }}}}' > {said}"),
        format!("head -c -1 > {said} <<EOT\n{{{{ .Prompt }}}}\nEOT"),
        format!("head -c -1 > {said} <<'EOT'\n{{{{ .Prompt }}}}\nEOT"),
        format!("printf %s \"$GEVALS_PROMPT\" | tee {said}"),
    ] {
        agent(&line);
        let _ = std::fs::remove_file(world.path("said"));
        world.run(&["run", "eval.yaml"]).expect(0, &["1 of 1 task passed"]);
    }
    let prompt = prompt(550_000);
    world.write("prompt.txt", &prompt);
    world.run(&["run", "eval.yaml"]).expect(0, &["1 of 1 task passed"]);
    let results = world.results("e");
    assert_eq!(results["results"][0]["taskOutput"].as_str().unwrap().len(), prompt.trim_end().len());
    agent("/bin/echo \"{{ .Prompt }}\"");
    world.run(&["run", "eval.yaml"]).expect(3, &["write `< \"$GEVALS_PROMPT_FILE\"`"]);
}

/// If nothing could run, nothing is judged, and what was set up is cleaned up.
#[test]
fn nothing_is_judged_if_the_agent_cannot_be_started() {
    const TASK: &str = "\
kind: Task
apiVersion: mcp-eval/v1
metadata: {name: t}
spec:
  prompt: Write down that I need bread.
  setup: [{command: {run: touch WORLD/set-up}}]   # gevals: allow(resource-not-released)
  verify: [{command: {run: touch WORLD/verified && test -e WORLD/nothing}}]
  cleanup: [{command: {run: touch WORLD/cleaned-up}}]
";
    const ACP: &str = "kind: Agent\nmetadata: {name: a}\nacp: {cmd: CMD}\n";
    const SHELL: &str = "kind: Agent\nmetadata: {name: a}\ncommands: {argTemplateMcpServer: '{{ .File }}', runPrompt: 'CMD {{ .McpServerFileArgs }} {{ .Prompt }}'}\n";
    const RECORDING: &str = r#"{"type":"recording","version":1,"run":"r","eval":"e","planDigest":"d","at":"2026-01-01T00:00:00Z"}
no JSON
{"type":"output","at":"2026-01-01T00:00:00Z","task":{"index":0,"name":"t","run":0},"text":"","exitCode":0}
"#;
    let file = "type: file, path: agent.yaml";
    let (replay, model) = ("type: builtin.replay, path: r.jsonl", "type: builtin.llm-agent, model: \"openai:m\"");
    // Problems that are visible on the machine are reported before anything is set up.
    for (agent, text, why) in [
        ("type: builtin.claude-code", String::new(), "neither `claude-agent-acp` nor `claude` is on the PATH"),
        (model, String::new(), "`OPENAI_API_KEY`"),
        (file, ACP.replace("CMD", "no-such-agent"), "`no-such-agent` is not on the PATH"),
        (file, ACP.replace("CMD", "WORLD/agent.yaml"), "is not an executable program"),
    ] {
        let world = world(agent);
        world.write("task.yaml", TASK);
        world.write("agent.yaml", &text);
        let mut command = world.command(&["run", "eval.yaml", "--keep-going"]);
        command.env("PATH", world.programs());
        world.start(command).end().expect(3, &["cannot be started: ", why]);
        assert!(!world.path("set-up").exists() && !world.path("cleaned-up").exists(), "{agent}");
    }
    for (agent, text, why) in [
        (replay, RECORDING.to_owned(), "line 2 of the recording"),
        (file, ACP.replace("cmd: CMD", "cmd: sh, args: [-c, echo no login >&2; exit 3]"), "exited with status 3"),
        (file, ACP.replace("cmd: CMD", "cmd: sh, args: [-c, echo hello; sleep 1]"), "hello"),
        (file, SHELL.replace("CMD", "no-such-agent"), "no-such-agent: command not found"),
        (file, SHELL.replace("CMD", "WORLD/task.yaml"), "ermission denied"),
    ] {
        let world = world(agent);
        world.write("task.yaml", TASK);
        world.write("agent.yaml", &text);
        world.write("r.jsonl", &text);
        let mut command = world.command(&["run", "eval.yaml", "-v"]);
        command.env("PATH", world.programs()).env("SHELL", "/bin/bash");
        let ran = world.start(command).end();
        let ran = ran.expect(3, &["BROKEN", "the agent could not be started: ", why]);
        assert!(
            !ran.out.contains("FAIL") && !ran.out.contains("tokens") && ran.err.is_empty(),
            "{}{}",
            ran.out,
            ran.err
        );
        let there = |name: &str| world.path(name).exists();
        assert!(there("set-up") && !there("verified") && there("cleaned-up"), "{agent}");
        let result = &world.results("e")["results"][0];
        assert_eq!((&result["outcome"], &result["agentExecutionError"]), (&json!("broken"), &json!(true)), "{agent}");
    }
    // If another task had its turn, something ran.
    let world = world(file);
    world.write("task.yaml", TASK);
    world.write("other.yaml", &TASK.replace("name: t", "name: other").replace("prompt: Write", "prompt: Wrong"));
    world.write(
        "agent.yaml",
        &SHELL.replace(
            "CMD {{ .McpServerFileArgs }} {{ .Prompt }}",
            "p={{ .Prompt }}; : {{ .McpServerFileArgs }}; case $p in Wrong*) no-such-agent;; esac",
        ),
    );
    let tasks = "[{path: task.yaml}, {path: other.yaml}]";
    world.write("eval.yaml", &format!("kind: Eval\nmetadata: {{name: e}}\nconfig:\n  agent: {{{file}}}\n  mcpConfigFile: mcp.yaml\n  taskSets: {tasks}\n"));
    world.run(&["run", "eval.yaml"]).expect(1, &["FAIL    t", "BROKEN  other"]);
}

/// Prints what `claude -p --output-format stream-json` prints, and records how it was called.
const CLAUDE: &str = r#"#!/bin/sh
echo "$@" > WORLD/args
cat > WORLD/prompt
cat .claude/skills/baking/SKILL.md > WORLD/skill
while [ "$1" != --mcp-config ]; do shift; done
cp "$2" WORLD/config
echo '{"type":"system","subtype":"init"}'
echo '{"type":"assistant","message":{"content":[{"type":"text","text":"Well."},{"type":"tool_use","id":"1","name":"Skill","input":{"command":"baking"}}]}}'
echo '{"type":"result","subtype":"success","is_error":ERROR,"result":"done","usage":{"input_tokens":5,"output_tokens":2,"cache_read_input_tokens":4}}'
"#;

#[test]
fn claude_code_is_run_by_its_adapter_or_its_command_line() {
    let world = world("type: builtin.claude-code, model: \"anthropic:claude-test\"");
    let eval = world.read("eval.yaml").replace(
        "  mcpConfigFile: mcp.yaml\n",
        "  mcpConfigFile: mcp.yaml\n  skills: {sources: [{type: path, path: skills}]}\n",
    );
    world.write(
        "eval.yaml",
        &eval.replace(
            "toolsUsed: [{server: notes, tool: notes_create}], minToolCalls: 1",
            "skillsLoaded: [{skill: baking}]",
        ),
    );
    world.write("task.yaml", "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {name: t}\nspec:\n  prompt: -Write that.\n  verify:\n    - command: {run: 'test \"$SAID\" = done', env: {SAID: \"{agent.output}\"}}\n");
    world.write("skills/baking/SKILL.md", "Use rye.\n");
    world.write("mcp.yaml", &MCP.replace("enableAllTools: true", "alwaysAllow: [notes_list, notes_create]"));
    let run = |scripts: &[(&str, &str)]| {
        scripts.iter().for_each(|(name, text)| world.program(name, text));
        let mut command = world.command(&["run", "eval.yaml"]);
        command.env("PATH", world.programs());
        world.start(command).end()
    };
    run(&[]).expect(3, &["neither `claude-agent-acp` nor `claude` is on the PATH"]);
    run(&[("claude", &CLAUDE.replace("ERROR", "false"))]).expect(0, &[]);
    assert_eq!((world.read("prompt").as_str(), world.read("skill").as_str()), ("-Write that.", "Use rye.\n"));
    let config: Value = serde_json::from_str(&world.read("config")).unwrap();
    assert!(config["mcpServers"]["notes"]["url"].as_str().unwrap().starts_with("http://127.0.0.1:"));
    let args = world.read("args");
    assert!(
        args.contains("--allowedTools mcp__notes__notes_create,mcp__notes__notes_list,Skill --model claude-test"),
        "{args}"
    );
    run(&[("claude", &CLAUDE.replace("ERROR", "true"))]).expect(1, &["it ended with an error: done"]);

    // The adapter is preferred; here, one that exits immediately.
    run(&[("claude-agent-acp", "#!/bin/sh\necho \"$ANTHROPIC_MODEL\" > WORLD/model; echo no login >&2; exit 3\n")])
        .expect(3, &["it exited with status 3 (on standard error: no login)"]);
    assert_eq!(world.read("model"), "claude-test\n");
}

#[test]
fn several_agents_and_models_run_sequentially_with_separate_results() {
    let model = Model::new([call("notes_create", bread()), text("done"), text("I cannot.")]);
    let world = world("type: builtin.llm-agent, model: \"openai:any\"");
    world.write("other.yaml", "kind: Agent\nmetadata: {name: other}\nbuiltin: {type: llm-agent, model: openai:x}\n");
    let args =
        ["run", "eval.yaml", "--model", "openai:one", "--model", "openai:two", "--agent", "other.yaml", "-o", "out"];
    let ran = run(&world, "openai", &model.url, &args).expect(1, &["=== other.yaml with openai:one", "0 of 1 passed"]);
    assert!(ran.err.contains("other.yaml with openai:one  exit 0  1 of 1 passed"), "{}", ran.err);
    let models: Vec<_> = model.asked().iter().map(|asked| asked.body["model"].as_str().unwrap().to_owned()).collect();
    assert_eq!(models, ["one", "one", "two"]);
    for (folder, outcome) in [("other.yaml+openai-one", "passed"), ("other.yaml+openai-two", "failed")] {
        let results: Value = serde_json::from_str(&world.read(&format!("out/{folder}/gevals-e-out.json"))).unwrap();
        assert_eq!(results["results"][0]["outcome"], outcome);
        assert_eq!(results["summary"]["agent"]["model"], folder.replace("other.yaml+openai-", "openai:"));
    }
    // A single model replaces that of the eval, and the results are written to the usual place.
    let again = Model::new([call("notes_list", Value::Null), text("done")]);
    run(&world, "openai", &again.url, &["run", "eval.yaml", "--model", "openai:three"]);
    assert_eq!(again.asked()[0].body["model"], "three");
    assert_eq!(world.results("e")["summary"]["agent"]["model"], "openai:three");

    let noop = ["run", "eval.yaml", "--agent", "builtin.noop", "--model", "openai:x"];
    world.run(&noop).expect(
        2,
        &["`model` has no effect: `builtin.noop` does not use a model", "[the command line:1:9]", "--model openai:x"],
    );
    world.run(&["run", "eval.yaml", "--model", "gpt-5"]).expect(2, &["has no provider"]);
    world
        .run(&["run", "eval.yaml", "--model", "openai:a", "--model", "openai:b", "--resume"])
        .expect(2, &["one at a time"]);
}

#[test]
fn output_of_an_agent_that_cannot_be_started_is_masked() {
    let world = world("type: file, path: agent.yaml");
    let line = ": {{ .McpServerFileArgs }} {{ .Prompt }}; echo \"no login with $OPENAI_API_KEY\"; exit 127";
    world.write("agent.yaml", &format!("kind: Agent\nmetadata: {{name: a}}\ncommands:\n  argTemplateMcpServer: '{{{{ .File }}}}'\n  runPrompt: '{line}'\n"));
    for format in ["json", "text"] {
        let ran = run(&world, "openai", "http://127.0.0.1:9", &["run", "eval.yaml", "--format", format]);
        let ran = ran.expect(3, &["the agent could not be started: no login with ***"]);
        assert_eq!(ran.err.contains("no login"), format == "json", "{}", ran.err);
    }
}

/// A client of a server, for use in shells.
#[tokio::test]
#[ignore = "it is a program that other tests start"]
async fn fake_mcp_client() {
    let Ok(url) = std::env::var("FAKE_URL") else { return };
    let transport = gevals::mcp::Transport::Http { url, headers: indexmap::IndexMap::new() };
    let spec = gevals::mcp::ServerSpec { name: "notes".to_owned(), transport };
    let hub = gevals::mcp::Hub::start(spec, gevals::mcp::HubOptions::default()).await.unwrap();
    let client = hub.client(gevals::mcp::SessionKind::Own, gevals::mcp::ClientOptions::default()).await.unwrap();
    client.call_tool("notes_create", bread()).await.unwrap();
    hub.close().await;
}

/// Creates a note, then sends a given message, for use in shells.
#[tokio::test]
#[ignore = "it is a program that other tests start"]
async fn fake_raw_client() {
    let (Ok(url), Ok(call)) = (std::env::var("FAKE_URL"), std::env::var("FAKE_CALL")) else { return };
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::new();
    let post = |session: String, body: String| {
        let request = client.post(&url).header("accept", "application/json, text/event-stream").body(body);
        if session.is_empty() { request } else { request.header("mcp-session-id", session) }.send()
    };
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}"#;
    let session = post(String::new(), hello.to_owned()).await.unwrap();
    let session = session.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    post(session.clone(), ready.to_owned()).await.unwrap();
    let params = json!({ "name": "notes_create", "arguments": bread() });
    let create = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params });
    post(session.clone(), create.to_string()).await.unwrap().text().await.unwrap();
    // A server may handle this in any way.
    let _ = tokio::time::timeout(std::time::Duration::from_secs(1), post(session, call)).await;
}

/// An agent is responsible for its calls: the task never passes with a call that cannot be read, and is not repeated.
#[test]
fn an_unreadable_call_fails_the_task_without_a_retry() {
    let exe = std::env::current_exe().unwrap();
    let args = ["run", "eval.yaml", "--retry-broken", "2", "-v"];
    for (params, says) in [
        ("{\"arguments\":{}}", "does not name what it calls"),
        ("{\"name\":[\"notes_delete\"]}", "does not name what it calls"),
        ("7", "does not name what it calls"),
        ("{\"name\":\"notes_list\",\"arguments\":\"all\"}", ""),
    ] {
        let world = world("type: file, path: agent.yaml");
        let call = format!(r#"{{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{params}}}"#);
        let line = format!(
            "FAKE_URL={{{{ .McpServerFileArgs }}}} FAKE_CALL=\"$(cat WORLD/call)\" {} agents::fake_raw_client --exact --ignored > WORLD/client 2>&1; echo {{{{ .Prompt }}}} > WORLD/prompt; echo x >> WORLD/turns; echo done",
            exe.display()
        );
        world.write("call", &call);
        world.write(
            "agent.yaml",
            &format!("kind: Agent\nmetadata: {{name: sh}}\ncommands:\n  argTemplateMcpServer: '{{{{ .URL }}}}'\n  runPrompt: '{line}'\n"),
        );
        let ran = world.run(&args);
        let outcome = if says.is_empty() { "passed" } else { "failed" };
        let ran = ran.expect(i32::from(!says.is_empty()), &[says]);
        assert!(!ran.out.contains("retried") && !ran.err.contains("retried"), "{params}: {}{}", ran.out, ran.err);
        assert_eq!(world.results("e")["results"][0]["outcome"], outcome, "{params}");
        assert_eq!(world.read("turns"), "x\n", "{params}");
    }

    // The same for a model whose arguments are not JSON: in OpenAI's protocol, they are text. Its usage counts
    // nevertheless.
    const HALF: &str = r#"{"usage":{"prompt_tokens":5100,"completion_tokens":10,"total_tokens":5110},"choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"notes_create","arguments":"{\"title\": \"bre"}}]}}]}"#;
    let model = Model::new([call("notes_create", bread()), Reply::Raw("application/json", HALF), text("done")]);
    let world = world("type: builtin.llm-agent, model: \"openai:m\"");
    run(&world, "openai", &model.url, &args).expect(1, &["made a malformed call: the arguments of `notes_create`"]);
    assert_eq!(world.results("e")["results"][0]["outcome"], "failed");
    assert_eq!(model.asked().len(), 2);
    let used = &world.results("e")["results"][0]["tokenEstimate"];
    assert!(used["totalTokens"].as_u64().unwrap() >= 5110, "{used}");

    // And for one whose arguments have a key twice: readers disagree about which of them counts.
    let twice = HALF.replace(r#"{\"title\": \"bre"#, r#"{\"title\": \"bread\", \"title\": \"rye\"}"#);
    let model = Model::new([Reply::Raw("application/json", Box::leak(twice.into_boxed_str())), text("done")]);
    let why = "made a malformed call: the arguments of `notes_create`: the key `title` appears twice";
    run(&world, "openai", &model.url, &args).expect(1, &[why]);
    assert_eq!(world.results("e")["results"][0]["outcome"], "failed");
}

/// If a part of the usage is estimated, the sum counts as estimated; a call of a tool that does not exist is recorded.
#[test]
fn missing_usage_is_estimated_and_calls_of_unknown_tools_are_recorded() {
    const SILENT: &str =
        r#"{"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"done"}}]}"#;
    let model = Model::new([call("no_such_tool", serde_json::json!({})), Reply::Raw("application/json", SILENT)]);
    let world = world("type: builtin.llm-agent, model: \"openai:m\"");
    run(&world, "openai", &model.url, &["run", "eval.yaml"]).expect(1, &[]);
    let results = world.results("e");
    let result = &results["results"][0];
    assert_eq!(result["tokenEstimate"]["source"], "estimated", "{}", result["tokenEstimate"]);
    assert_eq!(result["callHistory"]["ToolCalls"][0]["name"], "no_such_tool", "{}", result["callHistory"]);
}

/// A shell also exits with this status if only the last program of the line is missing: an agent that made calls did
/// start.
#[test]
fn an_agent_that_made_calls_counts_as_started_whatever_its_exit_status() {
    let world = world("type: file, path: agent.yaml");
    let exe = std::env::current_exe().unwrap();
    let client =
        format!("FAKE_URL={{{{ .McpServerFileArgs }}}} {} agents::fake_mcp_client --exact --ignored", exe.display());
    world.write(
        "agent.yaml",
        &format!("kind: Agent\nmetadata: {{name: sh}}\ncommands:\n  argTemplateMcpServer: '{{{{ .URL }}}}'\n  runPrompt: '{client} && no-such-notifier {{{{ .Prompt }}}}'\n"),
    );
    world
        .run(&["run", "eval.yaml"])
        .expect(1, &["BROKEN", "the agent failed: ", "no-such-notifier: command not found"]);
    let results = world.results("e");
    assert_eq!(results["results"][0]["callHistory"]["ToolCalls"].as_array().unwrap().len(), 1);
    assert!(world.path("notes/bread.md").exists());
}

/// The user chooses the temporary directory, and the message names it.
#[test]
fn a_temporary_folder_with_an_unusable_name_is_reported() {
    let world = moody(0);
    world.write(
        "eval.yaml",
        &world.read("eval.yaml").replace("{type: builtin.script, path: oracle.yaml}", "{type: file, path: agent.yaml}"),
    );
    let agent = "kind: Agent\nmetadata: {name: sh}\ncommands: {argTemplateMcpServer: '{{ .File }}', runPrompt: 'cat {{ .McpServerFileArgs }}'}\n";
    world.write("agent.yaml", agent);
    world.run(&["run", "eval.yaml"]).expect(0, &[]);
    std::fs::create_dir(world.path("it's")).unwrap();
    let mut command = world.command(&["run", "eval.yaml"]);
    command.env("TMPDIR", world.path("it's"));
    world.start(command).end().expect(3, &["`$TMPDIR` must be a directory with a plain path"]);
}

#[test]
fn a_replay_of_a_retried_run_makes_only_the_calls_of_the_last_attempt() {
    let denied = Reply::Status(400, None, "{\"error\": {\"message\": \"no\"}}");
    let model = Model::new([call("notes_list", json!({})), denied, call("notes_create", bread()), text("done")]);
    let world = world("type: builtin.llm-agent, model: \"openai:m\"");
    run(&world, "openai", &model.url, &["run", "eval.yaml", "--retry-broken", "1"]).expect(0, &["retried"]);
    let replay = format!("builtin.replay:{}", recording(&world));
    std::fs::remove_dir_all(world.path("notes")).unwrap();
    world.run(&["run", "eval.yaml", "--agent", &replay]).expect(0, &[]);
    let calls = world.results("e")["results"][0]["callHistory"]["ToolCalls"].clone();
    assert_eq!(calls.as_array().unwrap().len(), 1, "{calls:#}");
    assert_eq!(calls[0]["name"], "notes_create");
}

/// Two judges at once: what the agent left is frozen until both have answered.
#[test]
fn processes_left_by_an_agent_are_frozen_until_all_judges_have_answered() {
    let world = World::new(&[
        (
            "eval.yaml",
            "kind: Eval\nmetadata: {name: e}\nconfig:\n  agent: {type: file, path: agent.yaml}\n  llmJudge: {ref: {type: file, path: judge.yaml}}\n  taskSets: [{path: task.yaml}]\n",
        ),
        (
            "task.yaml",
            "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {name: t}\nspec:\n  prompt: Do it.\n  verify:\n    - foreach: {var: x, in: [quickly, at leisure], parallel: 2, steps: [{llm: {contains: \"{x}\"}}]}\n",
        ),
        (
            "agent.yaml",
            "kind: Agent\ncommands: {runPrompt: '(while :; do echo . >> WORLD/ticks; sleep 0.02; done) > /dev/null 2>&1 & echo {{ .Prompt }}'}\n",
        ),
        (
            // Neither can judge; one takes longer to find that out.
            "judge.yaml",
            "kind: Agent\nmetadata: {name: j}\ncommands:\n  argTemplateMcpServer: '{{ .File }}'\n  runPrompt: ': {{ .McpServerFileArgs }}; p={{ .Prompt }}; case $p in *quickly*) ;; *) sleep 0.1; cp WORLD/ticks WORLD/before; sleep 1; cmp WORLD/ticks WORLD/before || touch WORLD/moved; touch WORLD/asked;; esac'\n",
        ),
    ]);
    world.run(&["run", "eval.yaml"]).expect(1, &["submitted no verdict"]);
    assert!(world.path("asked").exists() && !world.path("moved").exists());
    assert!(world.survivors().is_empty());
}
