//! Misbehaving agents: they hang, fork, ignore SIGTERM, close their output, print endlessly, exit immediately, or
//! violate their protocol. Each one has a clear outcome within its time limit, uses a bounded amount of memory, and
//! leaves nothing running.
#![cfg(all(feature = "run", target_os = "linux"))]

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

use crate::support::world::{ACP, World};

const EVAL: &str = "\
kind: Eval
metadata: {name: e}
config:
  agent: {type: file, path: agent.yaml}
  mcpConfigFile: mcp.yaml
  taskSets: [{path: task.yaml}]
";
const TASK: &str = "\
kind: Task
apiVersion: mcp-eval/v1
metadata: {name: t}
spec:
  prompt: Go.
  verify: [{command: {run: 'test -d /'}}]
  cleanup: [{command: {run: touch WORLD/cleaned}}]
";
const MCP: &str = "\
mcpServers:
  notes: {command: gevals, args: [demo-server, --dir, WORLD/notes], enableAllTools: true}
";

/// The time limit of those that hang; all others have far more time than they need.
const LATE: &str = "task exceeded timeout of 2s";
/// The same, for those that hang after their prompt.
const LATE_IN_ITS_TURN: &str = "task exceeded timeout of 4s";
const ENOUGH: &str = "40s";
/// Including the grace period before gevals kills a process, and the writing of 16 MB of output by a debug build on a
/// machine that is busy. Those that hang do so for longer.
const WITHIN: Duration = Duration::from_secs(50);
/// In KiB: 4 MiB of an agent's output are kept, in several copies; a message may have 16 MiB.
const MEMORY: u64 = 300 << 10;

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// A command line.
    Shell,
    /// The command line of Claude Code, without an adapter.
    Claude,
    /// ACP, in bash.
    Acp,
}

/// Name and script of an agent; the exit status of the run, and its output.
type Row<'a> = (&'a str, &'a str, i32, &'a str);

/// Runs agents, some in parallel: most of them sleep.
fn each(kind: Kind, rows: &[Row<'_>]) {
    let rows = Mutex::new(rows.iter());
    let next = || rows.lock().unwrap().next();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(row) = next() {
                    outcome(kind, *row);
                }
            });
        }
    });
}

fn outcome(kind: Kind, (name, script, exit, said): Row<'_>) -> World {
    let world = World::new(&[("eval.yaml", EVAL), ("task.yaml", TASK), ("mcp.yaml", MCP)]);
    let agent = match kind {
        Kind::Shell => {
            let indented: String = script.lines().map(|line| format!("    {line}\n")).collect();
            format!("commands:\n  runPrompt: |\n    : {{{{ .Prompt }}}}\n{indented}")
        }
        Kind::Claude => {
            world.program("claude", &format!("#!/bin/bash\ncat > /dev/null\n{script}\n"));
            "builtin: {type: claude-code}\n".to_owned()
        }
        Kind::Acp => {
            world.write("acp.sh", &format!("{ACP}{script}\n"));
            "acp: {cmd: bash, args: [WORLD/acp.sh]}\n".to_owned()
        }
    };
    world.write("agent.yaml", &format!("kind: Agent\n{agent}"));
    let limit = said.strip_prefix("task exceeded timeout of ").unwrap_or(ENOUGH);
    let mut command = world.command(&["run", "eval.yaml", "--task-timeout", limit]);
    command.env("PATH", world.programs());
    let started = Instant::now();
    let ran = world.start(command).end_within(WITHIN);
    let took = started.elapsed();
    eprintln!("{name}: {:?} after {took:?}, {} KiB", ran.code, ran.peak);
    let ran = ran.expect(exit, &[said]);
    assert!(took < WITHIN, "{name}: {took:?}");
    assert!(ran.peak < MEMORY, "{name} took {} KiB", ran.peak);
    assert_eq!(world.survivors(), Vec::<String>::new(), "{name}");
    assert!(world.path("cleaned").exists(), "{name}: the cleanup was not run");
    let left: Vec<_> = std::fs::read_dir(world.path("tmp")).unwrap().flatten().map(|e| e.path()).collect();
    // The directory of a failed shell agent is kept, because it may explain the failure.
    assert!(left.is_empty() || kind == Kind::Shell, "{name} left {left:?}");
    world
}

/// Programs that are useless as any kind of agent.
fn useless(exit: i32) -> [Row<'static>; 5] {
    [
        ("it hangs", "sleep 60", exit, LATE),
        ("it ignores SIGTERM", "trap '' TERM; while :; do sleep 1; done", exit, LATE),
        ("it forks and leaves its session", "setsid sh -c 'trap \"\" TERM; sleep 60' & sleep 60", exit, LATE),
        ("it complains without end", "yes >&2", exit, LATE),
        ("it fails at once", "echo no key >&2; exit 7", exit, "it exited with status 7 (on standard error: no key)"),
    ]
}

#[test]
fn shell_agents() {
    each(
        Kind::Shell,
        &[
            ("it hangs", "sleep 60", 1, LATE),
            ("it ignores SIGTERM", "trap '' TERM; while :; do sleep 1; done", 1, LATE),
            ("its children ignore SIGTERM", "for i in 1 2 3; do (trap '' TERM; sleep 60) & done; wait", 1, LATE),
            (
                "it forks and leaves its session",
                "setsid sh -c 'trap \"\" TERM; sleep 60' & setsid sleep 60 & sleep 60",
                1,
                LATE,
            ),
            ("it forks and ends", "(setsid sh -c 'trap \"\" TERM; sleep 60') & echo done", 0, "1 of 1 task passed"),
            ("it closes its output and goes on", "exec >&- 2>&-; sleep 60", 1, LATE),
            ("it prints a gigabyte", "head -c 1000000000 /dev/zero | tr '\\0' x", 0, "1 of 1 task passed"),
            ("it prints lines without end", "yes", 1, LATE),
            ("it ends at once", "exit 0", 0, "1 of 1 task passed"),
            ("it fails at once", "exit 7", 1, "it exited with status 7"),
            ("it kills itself", "kill -9 $$", 1, "it was killed by signal 9"),
        ],
    );
}

#[test]
fn claude_code_without_its_adapter() {
    let done = r#"echo '{"type":"result","subtype":"success","is_error":false,"result":"done"}'"#;
    let stopped = r#"echo '{"type":"result","subtype":"error_max_turns","is_error":false}'"#;
    each(Kind::Claude, &useless(1));
    each(
        Kind::Claude,
        &[
            ("it works", done, 0, "1 of 1 task passed"),
            ("it ends at once", "exit 0", 1, "it ended without a result"),
            ("it complains and ends", "echo log in first >&2", 1, "(on standard error: log in first)"),
            ("it speaks of something else", "echo Welcome", 1, "it ended without a result"),
            ("it closes its output and goes on", "exec >&- 2>&-; sleep 60", 1, LATE),
            ("it kills itself", "kill -9 $$", 1, "it was killed by signal 9"),
            ("it prints a gigabyte", "head -c 1000000000 /dev/zero | tr '\\0' x", 1, "printed a line of more than"),
            ("it prints lines without end", "yes", 1, LATE),
            ("it comes to no end", stopped, 1, "it ended with an error: error_max_turns"),
        ],
    );
}

#[test]
fn acp_agents_that_stop_early() {
    for (why, said) in [
        ("refusal", "it refused to continue"),
        ("max_tokens", "it reached its token limit"),
        ("max_turn_requests", "it reached its limit of model requests"),
        ("end_turn", ""),
    ] {
        let stops = format!("handshake; reply \"$prompt\" '\"result\":{{\"stopReason\":\"{why}\"}}'; sleep 60");
        let warning = format!("warning: the agent stopped before it was done: {said}");
        let world = outcome(Kind::Acp, (why, &stops, 0, if said.is_empty() { "1 of 1 task passed" } else { &warning }));
        let remarks = world.results("e")["results"][0]["remarks"].to_string();
        assert_eq!(remarks.contains("agentStopped"), !said.is_empty(), "{remarks}");
    }
}

#[test]
fn acp_agents_that_do_not_answer() {
    each(Kind::Acp, &useless(3));
    each(
        Kind::Acp,
        &[
            ("it ends at once", "exit 0", 3, "its output ended before the answer: it exited with status 0"),
            ("it closes its output", "exec >&-; sleep 60", 3, "its output ended before the answer"),
            (
                "it closes its input",
                r#"read -r i; exec <&-; reply "$i" '"result":{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"http":true}}}'; sleep 60"#,
                3,
                "could not be started",
            ),
            ("it says something else", "echo Welcome to my agent; exit 1", 3, "outside the protocol: Welcome to"),
            ("it prints a gigabyte", "head -c 1000000000 /dev/zero | tr '\\0' x; sleep 60", 3, "does not speak ACP"),
            ("it prints lines without end", "yes", 3, "does not speak ACP"),
        ],
    );
}

#[test]
fn acp_agents_that_violate_the_protocol() {
    const UPDATE: &str =
        r#""jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"#;
    let chunks = format!(
        r#"handshake; yes '{{{UPDATE}"agent_message_chunk","content":{{"type":"text","text":"hello "}}}}}}}}'"#
    );
    let calls = format!(
        r#"handshake; seq 1000000 | sed 's/.*/{{{}"tool_call","toolCallId":"&","title":"t"}}}}}}/'"#,
        UPDATE.replace('/', "\\/")
    );
    each(
        Kind::Acp,
        &[
            (
                "it refuses",
                r#"read -r i; reply "$i" '"error":{"code":-32000,"message":"log in first"}'; sleep 60"#,
                3,
                "log in first",
            ),
            ("its answer is none", r#"read -r i; reply "$i" '"result":7'; sleep 60"#, 3, "`initialize`"),
            (
                "it speaks of the future",
                r#"read -r i; reply "$i" '"result":{"protocolVersion":99}'; sleep 60"#,
                3,
                "protocol version 99",
            ),
            (
                "it knows no HTTP",
                r#"read -r i; reply "$i" '"result":{"protocolVersion":1}'; sleep 60"#,
                3,
                "does not accept MCP servers over HTTP",
            ),
            (
                "it answers another question",
                r#"read -r i; echo '{"jsonrpc":"2.0","id":"x","result":{}}'; sleep 60"#,
                3,
                LATE,
            ),
            (
                "it half answers",
                r#"read -r i; printf '{"jsonrpc":"2.0","id":'; exit 0"#,
                3,
                "its output ended before the answer",
            ),
            ("it works for ever", "handshake; while :; do sleep 1; done", 1, LATE_IN_ITS_TURN),
            ("it dies in its turn", "handshake; kill -9 $$", 1, "it was killed by signal 9"),
            ("it talks without end", &chunks, 1, LATE_IN_ITS_TURN),
            (
                "it asks without end",
                r#"handshake; yes '{"jsonrpc":"2.0","id":1,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"c"},"options":[]}}'"#,
                1,
                "it asked more than 10000 times",
            ),
            ("it calls without end", &calls, 1, "it reported more than 10000 calls"),
        ],
    );
}

/// A server with the tool `put`, which answers with the contents of the file `answer`.
const SERVER: &str = r#"#!/bin/sh
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\|"[^"]*"\).*/\1/p')
  say() { printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$1"; }
  case $line in
    *'"initialize"'*) say '"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}' ;;
    *'"tools/list"'*) say '"result":{"tools":[{"name":"put","inputSchema":{"type":"object"}}]}' ;;
    *'"tools/call"'*) say "$(cat WORLD/answer)" ;;
  esac
done
"#;
const NOOP: &str = "\
kind: Eval
metadata: {name: e}
config:
  agent: {type: builtin.noop}
  mcpConfigFile: mcp.yaml
  taskSets: [{path: task.yaml}]
";

fn with_server(task: &str) -> World {
    let task = format!("kind: Task\napiVersion: mcp-eval/v1\nmetadata: {{name: t}}\nspec:\n  prompt: Go.\n{task}");
    let mcp = "mcpServers:\n  s: {command: sh, args: [WORLD/server.sh], enableAllTools: true}\n";
    World::new(&[("eval.yaml", NOOP), ("task.yaml", &task), ("mcp.yaml", mcp), ("server.sh", SERVER)])
}

/// No step passes because of what is missing in a malformed answer.
#[test]
fn a_malformed_answer_does_not_count_as_one_without_errors() {
    let step = "  requires: [{mcpServer: s, as: s}]\n  verify: [{s.put: {args: {}, expect: {isError: false, content: {not: {contains: bad}}}}}]\n";
    let world = with_server(step);
    for (answer, exit, said) in [
        (r#""result":{"content":[{"type":"text","text":"good"}],"isError":false}"#, 0, "PASS"),
        (r#""error":null,"result":{"content":[{"type":"text","text":"good"}]}"#, 0, "PASS"),
        (r#""result":{"content":[],"structuredContent":{"a":1}}"#, 0, "PASS"),
        (r#""result":{"content":[{"type":"text","text":"good"}],"isError":"true"}"#, 1, "`isError` is no boolean"),
        (r#""result":{"content":[{"type":"text","text":"good"}],"isError":1}"#, 1, "`isError` is no boolean"),
        (r#""result":{"content":[{"type":"text","text":"good"}],"isError":null}"#, 1, "`isError` is no boolean"),
        (r#""result":{}"#, 1, "it has no `content`"),
    ] {
        world.write("answer", answer);
        eprintln!("{answer}");
        world.run(&["run", "eval.yaml"]).expect(exit, &[said]);
    }
}

/// An assertion that forbids a misspelled tool could never fail.
#[test]
fn nothing_is_run_if_an_assertion_misspells_a_tool() {
    let task = |tool: &str| {
        let world = with_server("  verify: [{command: {run: test -d /}}]\n");
        let set = format!("{{path: task.yaml, assertions: {{toolsNotUsed: [{{server: s, tool: {tool}}}]}}}}");
        world.write("eval.yaml", &NOOP.replace("{path: task.yaml}", &set));
        world
    };
    task("putt").run(&["run", "eval.yaml"]).expect(3, &["the tool `putt`", "did you mean `put`?"]);
    task("put").run(&["run", "eval.yaml"]).expect(0, &["PASS"]);
    task("delete_everything").run(&["run", "eval.yaml"]).expect(0, &["PASS"]);
}

#[test]
fn a_script_that_contradicts_its_own_checks_is_broken() {
    let script = |passed: bool| {
        let answer = format!(r#"{{"passed":true,"checks":[{{"name":"a","passed":{passed}}}]}}"#);
        with_server(&format!(
            "  verify: [{{script: {{protocol: json, inline: \"#!/bin/sh\\necho '{}'\"}}}}]\n",
            answer.replace('"', "\\\"")
        ))
    };
    script(true).run(&["run", "eval.yaml"]).expect(0, &["PASS"]);
    script(false).run(&["run", "eval.yaml"]).expect(1, &["broken: its answer contradicts itself"]);
}
