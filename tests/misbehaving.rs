//! Agents that do not do what agents should: hang, fork, ignore SIGTERM, close their output, print without end, end at once,
//! speak a broken protocol. Each has a clear outcome within its time, takes bounded memory, and leaves nothing running.
#![cfg(all(feature = "run", target_os = "linux"))]
#![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test looks at the world from outside")]

#[path = "support/world.rs"]
#[expect(dead_code, reason = "shared with other tests")]
mod world;

use std::time::{Duration, Instant};

use world::World;

const EVAL: &str = "\
kind: Eval
metadata: {name: e}
config:
  agent: {type: file, path: agent.yaml}
  mcpConfigFile: mcp.yaml
  taskSets: [{path: task.yaml}]
";
/// What an agent may take, and what gevals may take beyond it: a grace before it kills, and a slow machine.
const LIMIT: &str = "2s";
const WITHIN: Duration = Duration::from_secs(20);
const TASK: &str = "\
kind: Task
apiVersion: mcp-eval/v1
metadata: {name: t, timeout: 2s}
spec:
  prompt: Go.
  verify: [{command: {run: 'true'}}]
  cleanup: [{command: {run: touch WORLD/cleaned}}]
";
const MCP: &str = "\
mcpServers:
  notes: {command: gevals, args: [demo-server, --dir, WORLD/notes], enableAllTools: true}
";
/// In KiB: 4 MiB of what an agent says are kept, in copies of several forms; a message may have 16 MiB.
const MEMORY: u64 = 300 << 10;

/// The first lines of an agent that speaks ACP as it should, to the prompt.
const ACP: &str = r#"
read -r initialize
echo '{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"http":true}}}}' | sed "s/\"id\":0/\"id\":$(id "$initialize")/"
read -r session
echo '{"jsonrpc":"2.0","id":0,"result":{"sessionId":"s"}}' | sed "s/\"id\":0/\"id\":$(id "$session")/"
read -r prompt
"#;
const ID: &str = r#"id() { echo "$1" | sed 's/.*"id":\("[^"]*"\|[0-9]*\).*/\1/'; }"#;

/// Runs an agent; it must come to this, and the run must say so.
fn outcome(name: &str, agent: &str, exit: i32, said: &str) -> World {
    let world = World::new(&[("eval.yaml", EVAL), ("task.yaml", TASK), ("mcp.yaml", MCP), ("agent.yaml", agent)]);
    eprintln!("{name}");
    let mut command_path = None;
    if let Some((_, script)) = agent.split_once("claude-code}\n# ") {
        use std::os::unix::fs::PermissionsExt;
        world.write("bin/claude", &format!("#!/bin/bash\ncat > /dev/null\n{}\n", script.replace("\n# ", "\n")));
        std::fs::set_permissions(world.path("bin/claude"), std::fs::Permissions::from_mode(0o755)).unwrap();
        command_path = Some(format!("{}:/usr/bin:/bin", world.path("bin").display()));
    }
    let started = Instant::now();
    // That much takes a while to read.
    let (limit, within) = if name.contains("gigabyte") { ("20s", 3 * WITHIN) } else { (LIMIT, WITHIN) };
    let mut command = world.command(&["run", "eval.yaml", "--task-timeout", limit]);
    command.envs(command_path.map(|path| ("PATH", path)));
    let ran = world.start(command).end();
    let took = started.elapsed();
    let ran = ran.expect(exit, &[said]);
    assert!(took < within, "{name}: {took:?}");
    assert!(ran.peak < MEMORY, "{name} took {} KiB", ran.peak);
    assert_eq!(world.survivors(), Vec::<String>::new(), "{name}");
    assert!(world.path("cleaned").exists(), "{name}: the cleanup was not run");
    let left: Vec<_> = std::fs::read_dir(world.path("tmp")).unwrap().flatten().map(|e| e.path()).collect();
    // What a failed shell agent left there may explain it.
    assert!(left.is_empty() || agent.contains("runPrompt"), "{name} left {left:?}");
    world
}

fn shell(name: &str, script: &str, exit: i32, said: &str) -> World {
    let indented: String = script.lines().map(|line| format!("    {line}\n")).collect();
    outcome(name, &format!("kind: Agent\ncommands:\n  runPrompt: |\n    : {{{{ .Prompt }}}}\n{indented}"), exit, said)
}

fn acp(name: &str, script: &str, exit: i32, said: &str) -> World {
    let indented: String = format!("{ID}\n{script}").lines().map(|line| format!("      {line}\n")).collect();
    outcome(name, &format!("kind: Agent\nacp:\n  cmd: bash\n  args:\n    - -c\n    - |\n{indented}"), exit, said)
}

#[test]
fn shell_agents() {
    let late = format!("task exceeded timeout of {LIMIT}");
    shell("it hangs", "sleep 60", 1, &late);
    shell("it ignores SIGTERM", "trap '' TERM; while :; do sleep 1; done", 1, &late);
    shell("its children ignore SIGTERM", "for i in 1 2 3; do (trap '' TERM; sleep 60) & done; wait", 1, &late);
    shell(
        "it forks and leaves its session",
        "setsid sh -c 'trap \"\" TERM; sleep 60' & setsid sleep 60 & sleep 60",
        1,
        &late,
    );
    shell("it forks and ends", "(setsid sh -c 'trap \"\" TERM; sleep 60') & echo done", 0, "1 of 1 task passed");
    shell("it closes its output and goes on", "exec >&- 2>&-; sleep 60", 1, &late);
    shell("it prints a gigabyte", "head -c 1000000000 /dev/zero | tr '\\0' x", 0, "1 of 1 task passed");
    shell("it prints lines without end", "yes", 1, &late);
    shell("it ends at once", "exit 0", 0, "1 of 1 task passed");
    shell("it fails at once", "exit 7", 1, "it exited with status 7");
    shell("it kills itself", "kill -9 $$", 1, "it was killed by signal 9");
}

/// The command line of Claude Code, without its adapter.
fn claude(name: &str, script: &str, exit: i32, said: &str) -> World {
    let agent = "kind: Agent\nbuiltin: {type: claude-code}\n";
    outcome(name, &format!("{agent}# {}", script.replace('\n', "\n# ")), exit, said)
}

#[test]
fn claude_code_without_its_adapter() {
    let late = format!("task exceeded timeout of {LIMIT}");
    let done = r#"echo '{"type":"result","subtype":"success","is_error":false,"result":"done"}'"#;
    claude("it works", done, 0, "1 of 1 task passed");
    claude("it hangs", "sleep 60", 1, &late);
    claude("it ignores SIGTERM", "trap '' TERM; while :; do sleep 1; done", 1, &late);
    claude("it forks and leaves its session", "setsid sh -c 'trap \"\" TERM; sleep 60' & sleep 60", 1, &late);
    claude("it ends at once", "exit 0", 1, "it ended without a result");
    claude("it complains and ends", "echo log in first >&2", 1, "(it said on its standard error: log in first)");
    claude(
        "it fails at once",
        "echo no key >&2; exit 7",
        1,
        "it exited with status 7 (it said on its standard error: no key)",
    );
    claude("it speaks of something else", "echo Welcome", 1, "it ended without a result");
    claude("it closes its output and goes on", "exec >&- 2>&-; sleep 60", 1, &late);
    claude("it kills itself", "kill -9 $$", 1, "it was killed by signal 9");
    claude("it prints a gigabyte", "head -c 1000000000 /dev/zero | tr '\\0' x", 1, "printed a line of more than");
    claude("it prints lines without end", "yes", 1, &late);
    claude("it complains without end", "yes >&2", 1, &late);
    let stopped = r#"echo '{"type":"result","subtype":"error_max_turns","is_error":false}'"#;
    claude("it comes to no end", stopped, 1, "it ended with an error: error_max_turns");
}

#[test]
fn acp_agents_that_stop_early() {
    let stops = |why: &str| {
        format!(
            "{ACP}\necho \"{{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":$(id \"$prompt\"),\\\"result\\\":{{\\\"stopReason\\\":\\\"{why}\\\"}}}}\"; sleep 60"
        )
    };
    for (why, said) in [
        ("refusal", "it refused to go on"),
        ("max_tokens", "it had used the tokens"),
        ("max_turn_requests", "it had asked its model as often"),
    ] {
        let world = acp(why, &stops(why), 0, &format!("warning: the agent stopped before it was done: {said}"));
        let remarks = world.results("e")["results"][0]["remarks"].to_string();
        assert!(remarks.contains("agentStopped"), "{remarks}");
    }
    acp("it is done", &stops("end_turn"), 0, "1 of 1 task passed");
}

#[test]
fn acp_agents_that_do_not_speak() {
    let late = format!("task exceeded timeout of {LIMIT}");
    acp("it hangs", "sleep 60", 3, &late);
    acp("it ignores SIGTERM", "trap '' TERM; while :; do sleep 1; done", 3, &late);
    acp("it forks and leaves its session", "setsid sh -c 'trap \"\" TERM; sleep 60' & sleep 60", 3, &late);
    acp("it ends at once", "exit 0", 3, "its output ended before the answer: it exited with status 0");
    acp(
        "it fails at once",
        "echo no key >&2; exit 7",
        3,
        "it exited with status 7 (it said on its standard error: no key)",
    );
    acp("it closes its output", "exec >&-; sleep 60", 3, "its output ended before the answer");
    // How that is seen depends on when.
    acp("it closes its input", "exec <&-; sleep 60", 3, "could not be started");
    acp("it says something else", "echo Welcome to my agent; exit 1", 3, "not of the protocol: Welcome to");
    acp("it prints a gigabyte", "head -c 1000000000 /dev/zero | tr '\\0' x; sleep 60", 3, "does not speak ACP");
    acp("it prints lines without end", "yes", 3, "does not speak ACP");
    acp("it complains without end", "yes >&2", 3, &late);
    outcome("there is none", "kind: Agent\nacp: {cmd: no-such-agent}\n", 3, "there is no program `no-such-agent`");
}

#[test]
fn acp_agents_that_speak_badly() {
    let late = format!("task exceeded timeout of {LIMIT}");
    let answer = |result: &str| {
        format!(
            "read -r i; echo '{{\"jsonrpc\":\"2.0\",\"id\":0,{result}}}' | sed \"s/\\\"id\\\":0/\\\"id\\\":$(id \"$i\")/\"; sleep 60"
        )
    };
    acp("it refuses", &answer("\"error\":{\"code\":-32000,\"message\":\"log in first\"}"), 3, "log in first");
    acp("its answer is none", &answer("\"result\":7"), 3, "`initialize`");
    acp("it speaks of the future", &answer("\"result\":{\"protocolVersion\":99}"), 3, "protocol version 99");
    acp("it knows no HTTP", &answer("\"result\":{\"protocolVersion\":1}"), 3, "takes no MCP servers over HTTP");
    acp(
        "it answers another question",
        "read -r i; echo '{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"result\":{}}'; sleep 60",
        3,
        &late,
    );
    acp(
        "it half answers",
        "read -r i; printf '{\"jsonrpc\":\"2.0\",\"id\":'; exit 0",
        3,
        "its output ended before the answer",
    );
    acp("it works for ever", &format!("{ACP} while :; do sleep 1; done"), 1, &late);
    acp("it dies in its turn", &format!("{ACP} kill -9 $$"), 1, "it was killed by signal 9");
    acp(
        "it talks without end",
        &format!(
            "{ACP} yes '{{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{{\"sessionId\":\"s\",\"update\":{{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{{\"type\":\"text\",\"text\":\"hello \"}}}}}}}}'"
        ),
        1,
        &late,
    );
    acp(
        "it asks without end",
        &format!(
            "{ACP} yes '{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"session/request_permission\",\"params\":{{\"sessionId\":\"s\",\"toolCall\":{{\"toolCallId\":\"c\"}},\"options\":[]}}}}'"
        ),
        1,
        "it asked more than 10000 times",
    );
    acp(
        "it calls without end",
        &format!(
            "{ACP} i=0; while :; do i=$((i+1)); echo \"{{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"method\\\":\\\"session/update\\\",\\\"params\\\":{{\\\"sessionId\\\":\\\"s\\\",\\\"update\\\":{{\\\"sessionUpdate\\\":\\\"tool_call\\\",\\\"toolCallId\\\":\\\"$i\\\",\\\"title\\\":\\\"t\\\"}}}}}}\"; done"
        ),
        1,
        "it told of more than 10000 calls",
    );
}
