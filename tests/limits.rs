//! Usage and limits of a run: calls that were not made, tokens, cost, time. As users see them, end to end.
#![cfg(all(feature = "run", target_os = "linux"))]

use serde_json::{Value, json};

use crate::support::{
    model::{self, Model, call, text},
    world::{ACP, World, result},
};

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

/// Tasks, and the calls of the scripted agent in each.
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

const LIST: &str = "[{server: notes, tool: notes_list, args: {}}]";
/// The server answers that this note does not exist.
const FAILS: &str = "[{server: notes, tool: notes_read, args: {title: nothing}}]";

#[test]
fn a_pass_that_tested_nothing_is_reported() {
    let world = world(&[("none", "", "[]"), ("used", "", LIST), ("in-vain", "", FAILS)]);
    let said = "passed without testing anything: no call to a server under test succeeded";
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
        &["1 of 3 tasks passed, 2 failed", "`--require-server-use` requires one", "rerun: ", " --require-server-use"],
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
fn a_pass_counts_if_no_calls_are_expected() {
    let world = world(&[("none", "", "[]")]);
    world.write(
        "eval.yaml",
        &EVAL.replace("glob: 'tasks/*.yaml'", "glob: 'tasks/*.yaml', assertions: {maxToolCalls: 0}"),
    );
    let ran = world.run(&["run", "eval.yaml", "--require-server-use"]).expect(0, &["1 of 1 task passed"]);
    assert!(!ran.out.contains("without testing anything"), "{}", ran.out);
    // In an eval without servers, there is none to call.
    world.write("eval.yaml", &EVAL.replace("  mcpConfigFile: mcp.yaml\n", ""));
    world.run(&["run", "eval.yaml", "--require-server-use"]).expect(0, &["1 of 1 task passed"]);
}

const TWICE: &str = "[{server: notes, tool: notes_list, args: {}}, {server: notes, tool: notes_list, args: {}}]";
const CLEANUP: &str = "  cleanup: [{command: {run: 'touch WORLD/cleaned-{task.name}'}}]\n";

#[test]
fn a_task_that_exceeds_its_limits_fails_and_is_cleaned_up() {
    let limits = |limits: &str| format!("  limits: {{{limits}}}\n{CLEANUP}");
    let calls = format!("[{}, {}]", &TWICE[1..TWICE.len() - 1], &TWICE[1..TWICE.len() - 1]);
    let world = world(&[
        ("calls", &limits("maxToolCalls: 2"), &calls),
        ("enough", &limits("maxToolCalls: 4, maxTokens: 100000"), &calls),
        ("tokens", &limits("maxTokens: 20"), LIST),
    ]);
    world
        .run(&["plan", "eval.yaml", "--expand"])
        .expect(0, &["limits   the agent may use 100000 tokens, 4 tool calls"]);
    world.run(&["run", "eval.yaml"]).expect(
        1,
        &[
            "1 of 3 tasks passed, 2 failed",
            "the agent exceeded its limit of 2 tool calls: 3 were made",
            "limit of 20 tokens: ",
        ],
    );
    let results = world.results("e");
    let beyond = result(&results, "calls");
    assert_eq!((&beyond["outcome"], &beyond["taskPassed"]), (&json!("failed"), &json!(false)), "{beyond}");
    assert_eq!(beyond["callHistory"]["ToolCalls"].as_array().unwrap().len(), 3);
    assert_eq!(result(&results, "enough")["outcome"], "passed");
    assert!(result(&results, "enough")["tokenEstimate"]["totalTokens"].as_u64().unwrap() > 10);
    for name in ["calls", "enough", "tokens"] {
        assert!(world.path(&format!("cleaned-{name}")).exists());
    }
}

#[test]
fn a_run_that_reached_its_limit_starts_no_more_tasks() {
    let tasks = ["a", "b", "c", "d"].map(|name| (name, CLEANUP, TWICE));
    let world = world(&tasks);
    world.write("eval.yaml", &EVAL.replace("  taskSets", "  limits: {maxToolCalls: 3}\n  taskSets"));
    world.run(&["plan", "eval.yaml"]).expect(0, &["all tasks together may use 3 tool calls"]);
    world
        .run(&["run", "eval.yaml"])
        .expect(1, &["1 of 4 tasks passed, 3 cancelled", "the run exceeded its limit of 3 tool calls: 4 were made"]);
    let results = world.results("e");
    let outcomes: Vec<_> = ["a", "b", "c", "d"].map(|name| result(&results, name)["outcome"].clone()).into();
    assert_eq!(outcomes, ["passed", "cancelled", "cancelled", "cancelled"]);
    assert!(result(&results, "d")["reason"].as_str().unwrap().contains("exceeded its limit"));
    assert!(results["summary"]["cancelled"].as_str().unwrap().contains("exceeded its limit"));
    // Tasks that started are cleaned up, others are not.
    assert_eq!(["a", "b", "c"].map(|name| world.path(&format!("cleaned-{name}")).exists()), [true, true, false]);
    // Usage counts even if the run is completed later.
    world
        .run(&["run", "eval.yaml", "--resume"])
        .expect(1, &["the run exceeded its limit of 3 tool calls: 4 were made"]);
    assert_eq!(["c", "d"].map(|name| world.path(&format!("cleaned-{name}")).exists()), [false, false]);
    // A limit on the command line overrides that of the eval.
    world.write("eval.yaml", &EVAL.replace("  taskSets", "  limits: {maxTokens: 5}\n  taskSets"));
    world.run(&["run", "eval.yaml"]).expect(1, &["0 of 4 tasks passed"]);
    world.run(&["run", "eval.yaml", "--max-tokens", "1000000"]).expect(0, &["4 of 4 tasks passed"]);
    world.run(&["run", "eval.yaml", "--max-tokens", "0"]).expect(2, &[]);
}

#[test]
fn the_time_of_a_run_is_limited() {
    let slow = format!("  setup: [{{command: {{run: sleep 20}}}}]\n{CLEANUP}");
    let world = world(&[("a", &slow, LIST), ("b", &slow, LIST)]);
    world
        .run(&["run", "eval.yaml", "--max-time", "4s"])
        .expect(1, &["0 of 2 tasks passed, 2 cancelled", "the run exceeded its limit of 4s"]);
    assert!(world.path("cleaned-a").exists() && !world.path("cleaned-b").exists());
    assert!(world.survivors().is_empty());
}

#[test]
fn usage_of_a_model_is_counted_and_priced() {
    let go = |args: &[&str]| {
        let model = Model::new([call("notes_list", json!({})), text("done")]);
        let world = world(&[("t", "", "[]")]);
        let agent =
            EVAL.replace("{type: builtin.script, path: oracle.yaml}", "{type: builtin.llm-agent, model: 'openai:m-1'}");
        world.write("eval.yaml", &agent);
        world.write("prices.yaml", "currency: EUR\nmodels:\n  m-1: {input: 1000, output: 2000}\n");
        world.write("others.json", "{\"models\": {\"x\": {\"input\": 1, \"output\": 1}}}");
        world.write("wrong.yaml", "models: {m-1: {input: 1, ouput: 2}}");
        let mut command = world.command(&[&["run", "eval.yaml"], args].concat());
        command.env("OPENAI_BASE_URL", format!("{}/v1", model.url)).env("OPENAI_API_KEY", "sk-test-test");
        (world.start(command).end(), world)
    };
    let (ran, world) = go(&["--prices", "prices.yaml"]);
    let ran = ran.expect(0, &["1 of 1 task passed", "the agent used "]);
    let results = world.results("e");
    let tokens = &result(&results, "t")["tokenEstimate"];
    assert_eq!(tokens["source"], "actual", "{tokens}");
    let count = |key: &str| tokens[key].as_u64().unwrap();
    assert_eq!(count("totalTokens"), tokens["actual"]["totalTokens"].as_u64().unwrap());
    assert!(count("mcpSchemaTokens") > 100 && count("promptTokens") == 4 && count("toolOutputTokens") > 0, "{tokens}");
    let cost = (count("inputTokens") * 1000 + count("outputTokens") * 2000) as f64 / 1e6;
    assert!((tokens["cost"].as_f64().unwrap() - cost).abs() < 1e-9 && cost > 0.0);
    assert!(ran.out.contains(&format!("{cost:.4} EUR")), "{}", ran.out);
    let summary = world.run(&["result", "summary", "gevals-e-out.json"]).expect(0, &["Agent used: ", "of MCP schemas"]);
    assert!(summary.out.contains(&format!("Cost:       {cost:.4} EUR")), "{}", summary.out);
    assert!(summary.out.contains("Tokens:     26 (") && !summary.out.contains("estimated"), "{}", summary.out);

    let (ran, world) = go(&["--prices", "prices.yaml", "--max-cost", "0.000001"]);
    ran.expect(1, &["1 cancelled", "the run exceeded its limit of a cost of 0.000001"]);
    assert_eq!(result(&world.results("e"), "t")["outcome"], "cancelled");
    go(&["--prices", "prices.yaml", "--max-cost", "100"]).0.expect(0, &[]);
    go(&["--max-cost", "1"]).0.expect(3, &["nothing tells what `openai:m-1` costs: `--prices` does"]);
    go(&["--prices", "others.json", "--max-cost", "1"]).0.expect(3, &["has no price for `openai:m-1`"]);
    go(&["--prices", "wrong.yaml"]).0.expect(2, &["wrong.yaml:", "unknown key `ouput`", "did you mean `output`?"]);
    go(&["--prices", "none.yaml"]).0.expect(2, &["cannot read `none.yaml`"]);
}

/// Runs an agent with limits of its task and additional arguments, and checks the reason why it was stopped.
fn stopped(
    agent: &str,
    limits: &str,
    prepare: impl FnOnce(&World, &mut std::process::Command),
    args: &[&str],
    said: &str,
) {
    let world = world(&[("t", &format!("{limits}{CLEANUP}"), "[]")]);
    world.write("eval.yaml", &EVAL.replace("{type: builtin.script, path: oracle.yaml}", agent));
    world.write("prices.yaml", "models: {m-1: {input: 1000, output: 2000}}\n");
    let mut command = world.command(&[&["run", "eval.yaml"], args].concat());
    prepare(&world, &mut command);
    world.start(command).end().expect(1, &[said]);
    assert!(world.path("cleaned-t").exists() && world.survivors().is_empty());
}

#[test]
fn a_model_is_stopped_at_the_answer_that_exceeds_a_limit() {
    // A model that uses 13 tokens per answer, endlessly; the fourth answer exceeds the limit.
    for (limits, args, said) in [
        ("  limits: {maxTokens: 40}\n", &[][..], "the agent exceeded its limit of 40 tokens: 52 were used"),
        ("", &["--max-tokens", "40"], "the run exceeded its limit of 40 tokens: 52 were used"),
        ("  limits: {maxCost: 0.05}\n", &["--prices", "prices.yaml"], "limit of a cost of 0.05: it was 0.064"),
        ("", &["--prices", "prices.yaml", "--max-cost", "0.05"], "the run exceeded its limit of a cost of 0.05"),
    ] {
        let model = Model::new([call("notes_list", json!({}))]);
        let agent = "{type: builtin.llm-agent, model: 'openai:m-1'}";
        let key = |_: &World, command: &mut std::process::Command| {
            command.env("OPENAI_BASE_URL", format!("{}/v1", model.url));
        };
        stopped(agent, limits, key, args, said);
        assert_eq!(model.asked().len(), 4, "{said}");
    }
}

#[test]
fn several_models_share_one_limit() {
    let world = world(&[("t", "", "[]")]);
    let agent = "{type: builtin.llm-agent, model: 'openai:m-1'}";
    world.write("eval.yaml", &EVAL.replace("{type: builtin.script, path: oracle.yaml}", agent));
    let go = |args: &[&str]| {
        // Two answers of 13 tokens for each task.
        let turn = || [call("notes_list", json!({})), text("done")];
        let model = Model::new([turn(), turn(), turn()].into_iter().flatten());
        let mut command = world.command(&[&["run", "eval.yaml", "-o", "out"], args].concat());
        command.env("OPENAI_BASE_URL", format!("{}/v1", model.url));
        (world.start(command).end(), model.asked().len())
    };
    let three = ["--model", "openai:a", "--model", "openai:b", "--model", "openai:c"];
    let (ran, asked) = go(&[&three[..], &["--max-tokens", "40"]].concat());
    let ran = ran
        .expect(1, &["used of the limits for all tasks together: 26 of 40 tokens", "limit of 40 tokens: 52 were used"]);
    assert_eq!(asked, 4, "{}", ran.out);
    for (model, tokens, outcome) in [("a", 26, "passed"), ("b", 52, "cancelled"), ("c", 52, "cancelled")] {
        let results: Value =
            serde_json::from_str(&world.read(&format!("out/openai-{model}/gevals-e-out.json"))).unwrap();
        assert_eq!(results["results"][0]["outcome"], outcome);
        let limits = &results["summary"]["limits"];
        assert_eq!((&limits["maxTokens"], &limits["tokens"]), (&json!(40), &json!(tokens)), "{model}");
    }
    world.run(&["result", "summary", "out/openai-b/gevals-e-out.json"]).expect(0, &["Limits:     52 of 40 tokens"]);
    // A model that cannot be run is detected before any other starts.
    let (ran, asked) = go(&["--model", "openai:a", "--model", "nope"]);
    ran.expect(2, &["`nope` has no provider", "nope cannot be run, so nothing is"]);
    assert_eq!(asked, 0);
}

/// Reports its usage so far, until that exceeds the limit.
const TELLS: &str = r#"
handshake
for n in 1000 2000 3000 4000; do
  sleep 0.05
  echo "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"s\",\"update\":{USED}}}"
done
exec sleep 60
"#;
/// Each answer of its model arrives in two messages.
const CLAUDE: &str = r#"#!/bin/sh
cat > /dev/null
for n in 1 2 3 4; do
  sleep 0.05
  for text in one two; do
    echo "{\"type\":\"assistant\",\"message\":{\"id\":\"$n\",\"content\":[{\"type\":\"text\",\"text\":\"$text\"}],\"usage\":{\"input_tokens\":600,\"cache_read_input_tokens\":300,\"output_tokens\":100}}}"
  done
done
exec sleep 60
"#;

#[test]
fn an_agent_that_reports_usage_beyond_its_limit_is_stopped() {
    let said = "the agent exceeded its limit of 3000 tokens: 4000 were used";
    let limits = "  limits: {maxTokens: 3000}\n";
    for used in [
        r#"\"sessionUpdate\":\"usage_update\",\"used\":$n,\"size\":100000"#,
        r#"\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\".\"},\"_meta\":{\"usage\":{\"total_tokens\":$n}}"#,
    ] {
        let prepare = |world: &World, _: &mut std::process::Command| {
            world.write("acp.sh", &format!("{ACP}{}", TELLS.replace("USED", used)));
            world.write("agent.yaml", "kind: Agent\nacp: {cmd: bash, args: [WORLD/acp.sh]}\n");
        };
        stopped("{type: file, path: agent.yaml}", limits, prepare, &[], said);
    }
    let prepare = |world: &World, command: &mut std::process::Command| {
        world.program("claude", CLAUDE);
        command.env("PATH", world.programs());
    };
    stopped("{type: builtin.claude-code}", limits, prepare, &[], said);
}

#[test]
fn broken_runs_are_retried_only_on_request() {
    let flaky = "  setup: [{command: {run: 'test -e WORLD/again || { touch WORLD/again; false; }'}}]\n";
    let world = world(&[("t", flaky, LIST)]);
    world.run(&["run", "eval.yaml"]).expect(1, &["0 of 1 task passed, 1 broken"]);
    std::fs::remove_file(world.path("again")).unwrap();
    let ran = world.run(&["run", "eval.yaml", "--retry-broken", "2"]);
    ran.expect(
        0,
        &["1 of 1 task passed", "t is retried (1 of at most 2)", "note: t was broken and retried: `setup/0` failed"],
    );
    let results = world.results("e");
    assert_eq!(results["results"].as_array().unwrap().len(), 1);
    assert_eq!(result(&results, "t")["retries"].as_array().unwrap().len(), 1);
    assert_eq!(result(&results, "t")["outcome"], "passed");
    // A failure is a result, and is not repeated.
    world.write("tasks/t.yaml", &task("t", "").replace("test -d WORLD", "echo . >> WORLD/runs; false"));
    world.run(&["run", "eval.yaml", "--retry-broken", "2"]).expect(1, &["0 of 1 task passed, 1 failed"]);
    assert_eq!(world.read("runs"), ".\n");
}

#[test]
fn a_task_can_set_its_gate() {
    let world = world(&[("t", "", LIST)]);
    let flaky = task("t", "").replace("metadata: {name: t}", "metadata: {name: t, gate: {passes: 2, of: 3}}");
    let flaky = flaky.replace("test -d WORLD", "echo . >> WORLD/runs; test $(wc -l < WORLD/runs) != 2");
    world.write("tasks/t.yaml", &flaky);
    world.run(&["plan", "eval.yaml"]).expect(0, &["2 of 3 runs must pass"]);
    world
        .run(&["run", "eval.yaml"])
        .expect(0, &["2 of 3 runs passed, 1 failed", "t: 2 of 3 runs passed, and 2 of 3 must: met"]);
    assert_eq!(result(&world.results("e"), "t")["gate"], json!({ "passes": 2, "of": 3 }));
    world.write("tasks/t.yaml", &flaky.replace("passes: 2", "passes: 3"));
    std::fs::remove_file(world.path("runs")).unwrap();
    world.run(&["run", "eval.yaml"]).expect(1, &["and 3 of 3 must: missed"]);
    // With a number of runs on the command line, all of them must pass.
    std::fs::remove_file(world.path("runs")).unwrap();
    world.run(&["run", "eval.yaml", "-n", "3"]).expect(1, &["2 of 3 runs passed"]);
    std::fs::remove_file(world.path("runs")).unwrap();
    world.run(&["run", "eval.yaml", "--gate", "1/2"]).expect(0, &["the gate is 1 passes of 2 runs: met"]);
    for (wrong, said) in [
        ("passes: 4", "a task cannot pass 4 of 3 runs"),
        ("passes: 0", "must be greater than 0"),
        ("passed: 2", "passed"),
    ] {
        world.write("tasks/t.yaml", &flaky.replace("passes: 2", wrong));
        world.run(&["check", "eval.yaml"]).expect(1, &[said]);
    }
    world.write("tasks/t.yaml", &flaky.replace("name: t,", "name: t, runs: 2,"));
    world.run(&["check", "eval.yaml"]).expect(1, &["the gate expects 3 runs, but the task runs 2 times"]);
    world.write("tasks/t.yaml", &task("t", "  limits: {maxTokens: 0, maxCost: x, maxCalls: 1}\n"));
    world
        .run(&["check", "eval.yaml"])
        .expect(1, &["`maxTokens` must be greater than 0", "`maxCost` must be a number", "maxCalls"]);
}

#[test]
fn fail_fast_respects_the_gate_of_a_task() {
    let world = world(&[("t", "", LIST), ("u", "", LIST)]);
    let flaky = task("t", "").replace("metadata: {name: t}", "metadata: {name: t, gate: {passes: 2, of: 3}}");
    let flaky = flaky.replace("test -d WORLD", "echo . >> WORLD/runs; test $(wc -l < WORLD/runs) != 1");
    world.write("tasks/t.yaml", &flaky);
    world
        .run(&["run", "eval.yaml", "--fail-fast"])
        .expect(0, &["3 of 4 runs passed, 1 failed", "t: 2 of 3 runs passed, and 2 of 3 must: met"]);
    // Once the gate can no longer be met, nothing more is started.
    world.write("tasks/t.yaml", &flaky.replace("passes: 2", "passes: 3"));
    std::fs::remove_file(world.path("runs")).unwrap();
    world.run(&["run", "eval.yaml", "--fail-fast"]).expect(1, &["0 of 4 runs passed, 1 failed, 3 cancelled"]);
}

#[test]
fn several_models_share_one_budget_even_if_one_is_refused() {
    let world = world(&[("t", "", "[]")]);
    let agent = "{type: builtin.llm-agent, model: 'openai:m-1'}";
    world.write("eval.yaml", &EVAL.replace("{type: builtin.script, path: oracle.yaml}", agent));
    let go = |models: &[&str]| {
        let model =
            Model::new([call("notes_list", json!({})), text("done"), call("notes_list", json!({})), text("done")]);
        let limits = ["run", "eval.yaml", "-o", "out", "--max-cost", "0.03", "--prices", "prices.yaml"];
        let models: Vec<_> = models.iter().flat_map(|model| ["--model", model]).collect();
        let mut command = world.command(&[&limits[..], &models].concat());
        command.env("OPENAI_BASE_URL", format!("{}/v1", model.url));
        (world.start(command).end(), model.asked().len())
    };
    // A missing price is detected before anything is spent.
    world.write("prices.yaml", "models: {m-1: {input: 1000, output: 1000}}\n");
    let (ran, asked) = go(&["openai:m-1", "openai:m-2"]);
    ran.expect(3, &["has no price for `openai:m-2`", "openai:m-2 cannot be run, so nothing is"]);
    assert_eq!(asked, 0);
    // One of them is refused at its turn: its directory is a file. What the first one used, 26 tokens, still counts.
    world.write(
        "prices.yaml",
        "models: {a: {input: 1000, output: 1000}, b: {input: 1000, output: 1000}, c: {input: 1000, output: 1000}}\n",
    );
    std::fs::create_dir_all(world.path("out/openai-b")).unwrap();
    std::fs::create_dir_all(world.path("out/openai-b/gevals-e-out.json")).unwrap();
    let (ran, asked) = go(&["openai:a", "openai:b", "openai:c"]);
    ran.expect(3, &["openai-b/gevals-e-out.json`: ", "the run exceeded its limit of a cost of 0.03"]);
    assert_eq!(asked, 3);
}

#[test]
fn usage_of_retried_attempts_is_in_the_results() {
    // The second attempt has two answers of 13 tokens; the first has one before a refusal.
    let denied = model::Reply::Status(400, None, "{\"error\": {\"message\": \"no\"}}");
    let model = Model::new([call("notes_list", json!({})), denied, call("notes_list", json!({})), text("done")]);
    let world = world(&[("t", "", "[]")]);
    let agent = "{type: builtin.llm-agent, model: 'openai:m-1'}";
    world.write("eval.yaml", &EVAL.replace("{type: builtin.script, path: oracle.yaml}", agent));
    world.write("prices.yaml", "models: {m-1: {input: 1000, output: 1000}}\n");
    let mut command =
        world.command(&["run", "eval.yaml", "--retry-broken", "1", "--max-cost", "9", "--prices", "prices.yaml"]);
    command.env("OPENAI_BASE_URL", format!("{}/v1", model.url));
    world.start(command).end().expect(0, &["t is retried"]);
    let results = world.results("e");
    let (tokens, limits) = (&result(&results, "t")["tokenEstimate"], &results["summary"]["limits"]);
    assert_eq!((&tokens["totalTokens"], &limits["tokens"]), (&json!(39), &json!(39)), "{tokens} {limits}");
    assert_eq!(tokens["cost"], limits["cost"]);
}

/// Neither a line, nor a job summary, nor a page is made from the file of an earlier run.
#[test]
fn an_old_results_file_is_not_shown_if_the_new_one_cannot_be_written() {
    let world = world(&[("a", "", "[]")]);
    world.run(&["run", "eval.yaml"]).expect(0, &["results: gevals-e-out.json"]);
    // A directory in place of the run's own results, which are written at its end.
    let block =
        "for run in WORLD/.gevals/runs/*/; do rm -f $run/results.json; mkdir $run/results.json; done; test -z \"$run\"";
    world.write("tasks/a.yaml", &task("a", "").replace("test -d WORLD", block));
    let mut command = world.command(&["run", "eval.yaml", "--report", "html"]);
    command.env("GITHUB_STEP_SUMMARY", world.path("page.md"));
    let ran = world.start(command).end().expect(3, &["cannot write"]);
    assert!(!ran.out.contains("results: "), "{}", ran.out);
    assert!(!world.path("page.md").exists() && !world.path("gevals-e-out.html").exists());
}

/// A run that was broken or never started does not contribute to a pass rate.
#[test]
fn runs_that_never_ran_have_no_interval() {
    let world = world(&[("a", "", "[]")]);
    world.write("mcp.yaml", "mcpServers: {notes: {command: /nowhere/at/all, enableAllTools: true}}\n");
    let ran = world.run(&["run", "eval.yaml", "-n", "2"]);
    assert!(ran.out.contains("0 of 2 runs passed") && !ran.out.contains("pass rate"), "{}", ran.out);
    assert!(!ran.out.contains("confidence"), "{}", ran.out);
    let told = world.run(&["result", "summary", "gevals-e-out.json"]);
    assert!(!told.out.contains("with 95 % confidence"), "{}", told.out);
}
