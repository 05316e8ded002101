//! The agent under test as an adversary, with other users of the machine as accomplices: the only way to pass is to do
//! the work.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;

use crate::support::world::{Running, World, result};

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
";
const MCP: &str = "\
mcpServers:
  notes: {command: gevals, args: [demo-server, --dir, WORLD/notes], enableAllTools: true}
";

/// `call URL TOOL ARGUMENTS`: a whole MCP session with curl, which prints the status of each answer and then the last
/// answer.
const CALL: &str = r#"
call() {
  post() { curl -s -m 10 -D "$heads" -o "$body" -w '%{http_code}\n' -H "$session" -H 'Content-Type: application/json' \
    -H 'Accept: application/json, text/event-stream' -d "$1" "$url"; }
  url=$1 session='X-None: 1' heads=$(mktemp) body=$(mktemp)
  post '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}'
  id=$(sed -n 's/^mcp-session-id: *\([^[:space:]]*\).*/\1/Ip' "$heads")
  [ -z "$id" ] || session="Mcp-Session-Id: $id"
  post '{"jsonrpc":"2.0","method":"notifications/initialized"}'
  post '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"'"$2"'","arguments":'"$3"'}}'
  cat "$body"
  rm -f "$heads" "$body"
}
"#;

/// Runs a script as another user of this machine; only root can.
fn as_nobody(script: &str) -> Option<Output> {
    if !rustix::process::getuid().is_root() {
        eprintln!("not run: only root can be another user");
        return None;
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "bash", "-c", script]);
    command.env_clear().env("PATH", "/usr/bin:/bin").env("TMPDIR", "/tmp").current_dir("/");
    Some(command.output().unwrap())
}

/// Returns the ports of 127.0.0.1 on which a process listens.
fn ports(process: u32) -> BTreeSet<u16> {
    let sockets = fs::read_dir(format!("/proc/{process}/fd")).unwrap().flatten();
    let sockets = sockets.filter_map(|fd| fs::read_link(fd.path()).ok()?.to_str().map(str::to_owned));
    let sockets: BTreeSet<String> =
        sockets.filter_map(|name| Some(name.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())).collect();
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let lines = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let listening = lines.filter(|fields| fields[3] == "0A" && sockets.contains(fields[9]));
    listening.map(|fields| u16::from_str_radix(fields[1].rsplit_once(':').unwrap().1, 16).unwrap()).collect()
}

/// Returns the URL in an MCP config that an agent received, and its unguessable part.
fn given(world: &World, file: &str, server: &str) -> (String, String) {
    let config: Value = serde_json::from_str(&world.read(file)).unwrap();
    let url = config["mcpServers"][server]["url"].as_str().unwrap().to_owned();
    let capability = url.split('/').nth(3).unwrap().to_owned();
    assert!(capability.len() == 32 && url.ends_with("/mcp"), "{url}");
    (url, capability)
}

/// Fails if a secret occurs in a file in a directory, except in those with one of these names.
fn hides(dir: &Path, secret: &str, but: &[&str]) {
    for path in fs::read_dir(dir).unwrap().flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            hides(&path, secret, but);
        } else if !but.iter().any(|name| path.ends_with(name)) {
            let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
            assert!(!text.contains(secret), "the capability stands in {}", path.display());
        }
    }
}

fn start(world: &World, args: &[&str]) -> Running {
    world.start(world.command(&[&["run", "eval.yaml"], args].concat()))
}

#[test]
fn calls_of_another_user_are_not_attributed_to_the_agent() {
    const AGENT: &str = "\
kind: Agent
metadata: {name: a}
commands:
  argTemplateMcpServer: '{{ .File }}'
  runPrompt: |
    : {{ .Prompt }}
    cat mcp-server.json; cp mcp-server.json WORLD/known.new; mv WORLD/known.new WORLD/known
    while [ ! -e WORLD/attacked ]; do sleep 0.02; done
";
    let world = World::new(&[("eval.yaml", EVAL), ("task.yaml", TASK), ("mcp.yaml", MCP), ("agent.yaml", AGENT)]);
    let run = start(&world, &[]);
    world.wait_for("known");
    let (url, capability) = given(&world, "known", "notes");
    let create = r#"notes_create '{"title":"forged","body":"x"}'"#;
    let mut tried = 0;
    for port in ports(run.pid()) {
        for path in ["/mcp", "/00000000000000000000000000000000/mcp"] {
            let Some(output) = as_nobody(&format!("{CALL}\ncall http://127.0.0.1:{port}{path} {create}")) else {
                return;
            };
            assert_eq!(String::from_utf8_lossy(&output.stdout), "404\n404\n404\n", "{port}{path}");
            tried += 1;
        }
    }
    assert!(tried >= 2, "no port is listened on");
    assert!(!world.path("notes/forged.md").exists(), "the server was reached");
    // With the capability, the same request is a call of the agent: so only the capability was missing before.
    let output = as_nobody(&format!("{CALL}\ncall {url} {}", create.replace("forged", "known"))).unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.starts_with("200\n202\n200\n"), "{said}");
    world.write("attacked", "");
    let ran = run.end().expect(0, &[]);
    let results = world.results("e");
    let calls = result(&results, "t")["callHistory"]["ToolCalls"].as_array().unwrap().clone();
    assert_eq!(calls.len(), 1, "{calls:?}");
    assert!(calls[0].to_string().contains("known"), "{calls:?}");
    // Although the agent printed it, it is in no result, journal, recording or output.
    assert!(!ran.out.contains(&capability) && !ran.err.contains(&capability), "{}{}", ran.out, ran.err);
    assert!(
        result(&results, "t")["taskOutput"].as_str().unwrap().contains("127.0.0.1"),
        "the agent has printed nothing"
    );
    hides(&world.path("."), &capability, &["known"]);
}

#[test]
fn verdicts_of_another_user_are_not_accepted_from_the_judge() {
    const JUDGED: &str = "\
kind: Task
apiVersion: mcp-eval/v1
metadata: {name: t}
spec:
  prompt: Go.
  verify: [{llm: {contains: something}}]
";
    let eval = EVAL.replace("  mcpConfigFile: mcp.yaml\n", "  llmJudge: {ref: {type: file, path: judge.yaml}}\n");
    let judge = "\
kind: Agent
metadata: {name: judge}
commands:
  argTemplateMcpServer: '{{ .File }}'
  runPrompt: |
    : {{ .Prompt }}
    cat mcp-server.json; cp mcp-server.json WORLD/known.new; mv WORLD/known.new WORLD/known
    while [ ! -e WORLD/attacked ]; do sleep 0.02; done
    bash WORLD/submits \"$(sed -n 's/.*\"url\": \"\\(.*\\)\".*/\\1/p' mcp-server.json)\"
";
    let agent = "kind: Agent\nmetadata: {name: a}\ncommands: {runPrompt: 'echo {{ .Prompt }}'}\n";
    let verdict = |passed: bool, reason: &str, category: &str| {
        format!(r#"submit_judgement '{{"passed":{passed},"reason":"{reason}","failureCategory":"{category}"}}'"#)
    };
    let submits = format!("{CALL}\ncall \"$1\" {}", verdict(false, "said by the judge", "semantic_mismatch"));
    let world = World::new(&[
        ("eval.yaml", &eval),
        ("task.yaml", JUDGED),
        ("agent.yaml", agent),
        ("judge.yaml", judge),
        ("submits", &submits),
    ]);
    let run = start(&world, &[]);
    world.wait_for("known");
    let (_, capability) = given(&world, "known", "judge");
    let forged = verdict(true, "forged", "n/a");
    let mut tried = 0;
    for port in ports(run.pid()) {
        for path in ["/mcp", "/00000000000000000000000000000000/mcp"] {
            let Some(output) = as_nobody(&format!("{CALL}\ncall http://127.0.0.1:{port}{path} {forged}")) else {
                return;
            };
            assert_eq!(String::from_utf8_lossy(&output.stdout), "404\n404\n404\n", "{port}{path}");
            tried += 1;
        }
    }
    assert!(tried >= 2, "no port is listened on");
    world.write("attacked", "");
    let ran = run.end().expect(1, &["said by the judge"]);
    let results = world.results("e");
    assert_eq!(result(&results, "t")["outcome"], "failed");
    assert!(!results.to_string().contains("forged"), "{results}");
    assert!(!ran.out.contains(&capability) && !ran.err.contains(&capability), "{}{}", ran.out, ran.err);
    hides(&world.path("."), &capability, &["known"]);
}

/// The three dialects, each with one script that verifies.
const DIALECTS: [(&str, &str); 3] = [
    (
        "portable",
        "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {name: t}\nspec:\n  prompt: Go.\n  verify: [{script: {file: ./verify.sh}}]\n",
    ),
    (
        "steps",
        "kind: Task\napiVersion: mcpchecker/v1alpha2\nmetadata: {name: t, difficulty: easy}\nspec:\n  \
         prompt: {inline: Go.}\n  verify: [{script: {file: ./verify.sh}}]\n",
    ),
    (
        "legacy",
        "kind: Task\nmetadata: {name: t, difficulty: easy}\nsteps:\n  prompt: {inline: Go.}\n  verify: {file: ./verify.sh}\n",
    ),
];

/// Waits until the helper that it sources next has been changed, and again until the change has been reverted.
const VERIFY: &str = "\
#!/bin/bash
touch WORLD/judging; until [ -e WORLD/swapped ]; do sleep 0.02; done
source \"$(dirname \"$0\")/lib.sh\"
touch WORLD/judged; until [ -e WORLD/restored ]; do sleep 0.02; done
cat \"$(dirname \"$0\")/data\" || exit 1
is_done
";
const HELPER: &str = "is_done() { test -e WORLD/work; }\n";

/// An agent that does nothing, but leaves a process that changes the helper's answer, and then restores it.
const SWAPS: &str = "\
kind: Agent
metadata: {name: a}
commands:
  runPrompt: |
    (
      until [ -e WORLD/judging ]; do sleep 0.02; done
      cp -p WORLD/lib.sh WORLD/kept; echo 'is_done() { true; }' > WORLD/lib.sh; touch WORLD/swapped
      until [ -e WORLD/judged ]; do sleep 0.02; done
      cat WORLD/kept > WORLD/lib.sh; touch -r WORLD/kept WORLD/lib.sh; touch WORLD/restored
      exec sleep 60
    ) > /dev/null 2>&1 &
    echo {{ .Prompt }}
";

fn swapping(task: &str) -> World {
    let eval = EVAL.replace("  mcpConfigFile: mcp.yaml\n", "");
    let world = World::new(&[
        ("eval.yaml", &eval),
        ("task.yaml", task),
        ("verify.sh", VERIFY),
        ("lib.sh", HELPER),
        ("data", "its data\n"),
        ("agent.yaml", SWAPS),
    ]);
    world.executable("verify.sh");
    world
}

#[test]
fn a_script_replaced_by_the_agent_does_not_decide_the_verdict() {
    // In the portable dialect, the text of an inline script is only known when it runs.
    let inline = format!("inline: {}", Value::from(format!("{VERIFY}# {{random.id}}\n")));
    let tasks = DIALECTS
        .map(|(dialect, task)| [(dialect, task.to_owned()), (dialect, task.replace("file: ./verify.sh", &inline))]);
    for (dialect, task) in tasks.into_iter().flatten() {
        let world = swapping(&task);
        start(&world, &["--isolation", "none", "-v"]).end().expect(1, &["lib.sh", "since the agent started"]);
        let results = world.results("e");
        let task = result(&results, "t");
        // The planned script ran, and failed; and the attempt is reported.
        assert_eq!(task["outcome"], "broken", "{dialect}: {task:#}");
        let verified = task["verifyOutput"].to_string();
        assert!(verified.contains(r#""outcome":"failed""#), "{dialect}: {verified}");
        assert!(verified.contains("its data"), "{dialect}: the script has not found what stands beside it: {verified}");
        assert_eq!(world.survivors(), Vec::<String>::new());
        let left: Vec<_> = fs::read_dir(world.path("tmp")).unwrap().flatten().map(|entry| entry.path()).collect();
        assert!(left.is_empty(), "{dialect} left {left:?}");
    }
}

#[test]
fn files_that_scripts_write_beside_themselves_are_available_to_later_scripts() {
    for (dialect, task) in DIALECTS {
        let task = match dialect {
            "legacy" => {
                task.replace("steps:\n", "steps:\n  setup: {file: ./setup.sh}\n  cleanup: {file: ./cleanup.sh}\n")
            }
            _ => task.replace(
                "spec:\n",
                "spec:\n  setup: [{script: {file: ./setup.sh}}]\n  cleanup: [{script: {file: ./cleanup.sh}}]\n",
            ),
        };
        let eval = EVAL.replace("  mcpConfigFile: mcp.yaml\n", "");
        let here = "#!/bin/sh\ncd \"$(dirname \"$0\")\" || exit 1\n";
        let world = World::new(&[
            ("eval.yaml", &eval),
            ("task.yaml", &task),
            ("setup.sh", &format!("{here}echo 42 > state\n")),
            ("verify.sh", &format!("{here}test \"$(cat state)\" = 42 && test \"$(cat WORLD/state)\" = 42\n")),
            ("cleanup.sh", &format!("{here}rm state\n")),
            ("agent.yaml", "kind: Agent\nmetadata: {name: a}\ncommands: {runPrompt: 'echo {{ .Prompt }}'}\n"),
        ]);
        ["setup.sh", "verify.sh", "cleanup.sh"].iter().for_each(|script| world.executable(script));
        start(&world, &[]).end().expect(0, &[]);
        assert!(!world.path("state").exists(), "{dialect}: it is still there");
    }
}

/// Whether agents can run in a jail on this machine.
fn has_jail() -> bool {
    let mut tried = Command::new("bwrap");
    tried.args(["--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "--proc", "/proc", "true"]);
    let works = tried.output().is_ok_and(|ran| ran.status.success());
    if !works {
        eprintln!("not run: bubblewrap does not work here");
    }
    works
}

#[test]
fn an_agent_cannot_change_the_scripts_that_verify_it() {
    if !has_jail() {
        return;
    }
    for (dialect, task) in DIALECTS {
        let world = swapping(task);
        start(&world, &[]).end().expect(1, &[]);
        let results = world.results("e");
        // Verify waits for what the agent's process does, which survives in its jail, and then decides independently.
        assert_eq!(result(&results, "t")["outcome"], "failed", "{dialect}: {results:#}");
        assert_eq!(
            world.read("lib.sh"),
            HELPER.replace("WORLD", world.path("").to_str().unwrap().trim_end_matches('/'))
        );
        assert_eq!(results["summary"]["isolation"], "auto");
        assert_eq!(world.survivors(), Vec::<String>::new());
    }
}

/// Prints what it can see and do, including what it should not be able to.
const CURIOUS: &str = "\
kind: Agent
metadata: {name: a}
commands:
  argTemplateMcpServer: '{{ .File }}'
  runPrompt: |
    exec 2> /dev/null
    : {{ .Prompt }}
    grep -q . WORLD/project/tasks/one/task.yaml && echo reads the task
    [ -n \"$(ls -A WORLD/project)\" ] && echo reads the folder of the eval
    [ -n \"$(cat WORLD/.gevals/runs/*/journal.jsonl)\" ] && echo reads the journal
    grep -q . WORLD/gevals-old-out.json && echo reads results
    grep -q . \"$HOME/.cache/gevals/checks/answer\" && echo reads what a check printed
    grep -qa 'demo-[s]erver' /proc/[0-9]*/cmdline && echo sees the server
    [ \"$(ls -d /proc/[0-9]* | wc -l)\" -gt 20 ] && echo sees other processes
    kill -0 $(cat WORLD/pid) && echo signals gevals
    mv WORLD/project WORLD/moved && { echo moves the eval away; mv WORLD/moved WORLD/project; }
    echo x > WORLD/project/tasks/one/forged && { echo writes beside the task; rm WORLD/project/tasks/one/forged; }
    echo x > /etc/gevals-forged && { echo writes to the machine; rm /etc/gevals-forged; }
    echo x > \"$HOME/of-the-agent\" && echo works at home
    scratch=${TMPDIR:-/tmp}/of-the-agent-$$
    echo x > $scratch && { echo works in scratch; rm $scratch; }
    echo x > here && echo works in its folder
    [ \"$SOME_VARIABLE\" = set ] && echo has the environment
    grep -q '\"url\"' mcp-server.json && echo has its servers
";

fn curious(isolation: &str, args: &[&str]) -> (World, Vec<String>, Value) {
    let world = curious_world(isolation);
    let command = world.command(&["-c", "echo $$ > pid; exec \"$GEVALS\" run project/eval.yaml \"$@\"", "sh"]);
    satisfy(world, command, args)
}

fn curious_world(isolation: &str) -> World {
    let eval = EVAL.replace("path: agent.yaml", &format!("path: WORLD/agents/agent.yaml{isolation}"));
    let eval = eval.replace("task.yaml", "tasks/one/task.yaml");
    World::new(&[
        ("project/eval.yaml", &eval),
        ("project/tasks/one/task.yaml", TASK),
        ("project/mcp.yaml", MCP),
        ("agents/agent.yaml", CURIOUS),
        ("gevals-old-out.json", "{}"),
        ("home/file", ""),
        ("home/.cache/gevals/checks/answer", "x"),
        (".cache/gevals/checks/answer", "x"),
    ])
}

fn satisfy(world: World, mut command: Command, args: &[&str]) -> (World, Vec<String>, Value) {
    command.args(args).env("SOME_VARIABLE", "set");
    let mut shell = Command::new("sh");
    shell.args(command.get_args()).current_dir(world.path("")).env_clear();
    for (name, value) in command.get_envs() {
        shell.env(name, value.unwrap());
    }
    world.start(shell).end().expect(0, &[]);
    let results = world.results("e");
    let said = result(&results, "t")["taskOutput"].as_str().unwrap().lines().map(str::to_owned).collect();
    (world, said, results)
}

/// What it should be able to do.
const GOOD: [&str; 5] =
    ["works at home", "works in scratch", "works in its folder", "has the environment", "has its servers"];

#[test]
fn an_agent_sees_neither_tasks_nor_results_nor_processes_by_default() {
    if !has_jail() {
        return;
    }
    let (world, said, results) = curious("", &[]);
    assert_eq!(said, GOOD, "{results:#}");
    assert!(world.path("of-the-agent").exists(), "home is another one");
    assert_eq!(results["summary"]["isolation"], "auto");
    // Without a jail, it can do all of this: so the jail prevents it.
    let (_, said, results) = curious("", &["--isolation", "none"]);
    let bad =
        ["reads the task", "reads the folder of the eval", "reads the journal", "reads results", "sees the server"];
    let all: BTreeSet<&str> = said.iter().map(String::as_str).collect();
    let wanted: BTreeSet<&str> = bad.into_iter().chain(GOOD).collect();
    assert!(wanted.is_subset(&all), "{said:?}");
    for bad in ["signals gevals", "moves the eval away", "writes beside the task"] {
        assert!(all.contains(bad), "{bad}: {said:?}");
    }
    assert_eq!(results["summary"]["isolation"], "none");
}

#[test]
fn without_bubblewrap_landlock_hides_files_outside_of_home() {
    let curious = |home: &str| {
        let world = curious_world("");
        world.program("bwrap", "#!/bin/sh\nexit 1\n");
        let mut command = world.command(&["-c", "echo $$ > pid; exec \"$GEVALS\" run project/eval.yaml \"$@\"", "sh"]);
        command.env("PATH", world.programs()).env("HOME", world.path(home));
        satisfy(world, command, &[])
    };
    let (world, said, results) = curious("home");
    let reason = results["summary"]["isolationReason"].as_str().unwrap_or_default();
    if reason.contains("Landlock of version 6") {
        eprintln!("not run: {reason}");
        return;
    }
    let visible = ["sees the server", "sees other processes"];
    let said: Vec<&str> = said.iter().map(String::as_str).filter(|line| !visible.contains(line)).collect();
    assert_eq!(said, GOOD, "{results:#}");
    assert!(world.path("home/of-the-agent").exists(), "home is another one");
    assert!(
        !world.path("home/.cache/gevals/checks").exists(),
        "what cannot be hidden and can be made again is removed"
    );
    assert_eq!(
        (&results["summary"]["isolation"], &results["summary"]["isolationBy"]),
        (&"auto".into(), &"landlock".into())
    );
    assert_eq!(world.survivors(), Vec::<String>::new());
    // In the home directory, files cannot be hidden, and that is reported.
    let (world, said, results) = curious("");
    assert!(said.contains(&"reads the task".to_owned()), "{said:?}");
    assert_eq!(results["summary"]["isolation"], "none");
    let reason = results["summary"]["isolationReason"].as_str().unwrap();
    let home = world.path("").canonicalize().unwrap();
    assert!(reason.contains(&format!("Landlock cannot hide {}", home.display())), "{reason}");
}

#[test]
fn a_strict_jail_contains_only_what_is_granted() {
    const AGENT: &str = "\
kind: Agent
metadata: {name: a}
isolation: {level: strict, read: [somewhere], env: [GRANTED]}
commands:
  argTemplateMcpServer: '{{ .File }}'
  runPrompt: |
    : {{ .Prompt }}
    {
      grep -q . WORLD/eval.yaml && echo reads the eval
      grep -q . WORLD/se\"\"cret && echo reads home
      [ -n \"$SOME_VARIABLE\" ] && echo has the environment
      [ \"$(ls -d /proc/[0-9]* | wc -l)\" -gt 20 ] && echo sees other processes
      echo x > WORLD/granted/x && echo writes what it may read
      curl -s -m 2 http://127.0.0.1:PORT && echo reaches other ports
      curl -s -m 2 --unix-socket WORLD/door http://x && echo reaches a socket that is a file
      [ \"$GRANTED\" = yes ] && echo has the granted variable
      [ \"$HOME\" = \"$PWD\" ] && echo x > here && echo works in its folder
      . WORLD/granted/call
      call \"$(sed -n 's/.*\"url\": \"\\(.*\\)\".*/\\1/p' mcp-server.json)\" notes_create '{\"title\":\"strict\",\"body\":\"x\"}' | head -n 3
    } 2> /dev/null
";
    if has_jail() {
        strict(AGENT, true);
    }
    strict(AGENT, false);
}

/// Runs an agent in a strict jail, with or without bubblewrap.
fn strict(agent: &str, bwrap: bool) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let _ = std::io::Write::write_all(&mut client, b"HTTP/1.0 200 OK\r\n\r\n");
        }
    });
    let eval = EVAL
        .replace("path: agent.yaml", "path: agent.yaml, isolation: {level: strict, read: [granted], env: [GRANTED]}");
    let world = World::new(&[
        ("eval.yaml", &eval),
        ("task.yaml", TASK),
        ("mcp.yaml", MCP),
        ("agent.yaml", &agent.replace("PORT", &port.to_string())),
        ("granted/call", CALL),
        ("secret", "x"),
    ]);
    world.run(&["plan", "eval.yaml"]).expect(
        0,
        &[
            "sandbox  strict, for the agent",
            "its file requests read somewhere, env GRANTED",
            "the eval grants read granted, env GRANTED",
        ],
    );
    let door = std::os::unix::net::UnixListener::bind(world.path("door")).unwrap();
    std::thread::spawn(move || {
        for mut client in door.incoming().flatten() {
            let _ = std::io::Write::write_all(&mut client, b"HTTP/1.0 200 OK\r\n\r\n");
        }
    });
    let mut command = world.command(&["run", "eval.yaml"]);
    command.env("SOME_VARIABLE", "set").env("GRANTED", "yes");
    if !bwrap {
        world.program("bwrap", "#!/bin/sh\nexit 1\n");
        command.env("PATH", world.programs());
    }
    let ran = world.start(command).end();
    if !bwrap && ran.err.contains("Landlock") {
        eprintln!("not run: this kernel has no Landlock of the version that is needed");
        return;
    }
    ran.expect(0, &[]);
    let results = world.results("e");
    let task = result(&results, "t");
    let said: Vec<&str> = task["taskOutput"].as_str().unwrap().lines().collect();
    assert_eq!(said, ["has the granted variable", "works in its folder", "200", "202", "200"], "{task:#}");
    assert!(world.path("notes/strict.md").exists());
    assert_eq!(task["callHistory"]["ToolCalls"].as_array().unwrap().len(), 1);
    assert_eq!(results["summary"]["isolation"], "strict");
    assert_eq!(world.survivors(), Vec::<String>::new());
}

#[test]
fn a_run_does_not_start_if_the_requested_isolation_is_unavailable() {
    const AGENT: &str =
        "kind: Agent\nmetadata: {name: a}\ncommands: {runPrompt: 'touch WORLD/ran; echo {{ .Prompt }}'}\n";
    const REFUSES: &str = "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n";
    const WHY: &str = "bubblewrap does not work on this machine: bwrap: No permissions to create new namespace";
    let eval = EVAL.replace("  mcpConfigFile: mcp.yaml\n", "");
    let run = |isolation: &str, args: &[&str]| {
        let eval = eval.replace("path: agent.yaml", &format!("path: agent.yaml{isolation}"));
        let world = World::new(&[("eval.yaml", &eval), ("task.yaml", TASK), ("agent.yaml", AGENT)]);
        world.program("bwrap", REFUSES);
        let mut command = world.command(&[&["run", "eval.yaml"], args].concat());
        command.env("PATH", world.programs());
        let ran = world.start(command).end();
        (world, ran)
    };
    for (isolation, args) in [
        (", isolation: auto", &[][..]),
        (", isolation: {level: auto, read: [somewhere]}", &[]),
        (", isolation: none", &["--isolation", "auto"]),
        ("", &["--isolation", "auto"]),
    ] {
        let (world, ran) = run(isolation, args);
        ran.expect(3, &["the agent cannot be isolated", WHY]);
        assert!(!world.path("ran").exists(), "{isolation} {args:?}");
    }
    // By default, the agent runs, and the missing isolation is reported, once.
    let (world, ran) = run("", &[]);
    let ran = ran.expect(0, &[&format!("isolation: none ({WHY}; ")]);
    assert_eq!((ran.out + &ran.err).matches(WHY).count(), 1);
    let summary = &world.results("e")["summary"];
    assert_eq!((&summary["isolation"], &summary["isolationBy"]), (&"none".into(), &Value::Null));
    assert!(summary["isolationReason"].as_str().unwrap().starts_with(WHY), "{summary:#}");
    // The command line may reduce the isolation that the eval specifies, and that is reported as well.
    let (world, ran) = run(", isolation: strict", &["--isolation", "none"]);
    ran.expect(0, &["isolation: none, instead of strict"]);
    assert_eq!(world.results("e")["summary"]["isolation"], "none");
}
