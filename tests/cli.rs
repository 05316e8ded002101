//! The command line from end to end: real processes, and nothing but sh and gevals itself.
#![cfg(all(feature = "run", target_os = "linux"))]

use std::{collections::BTreeSet, io::BufRead, os::unix::fs::PermissionsExt, process::Stdio};

use gevals::event::{Event, EventKind};
use rustix::process::Signal;
use serde_json::Value;

use crate::support::world::{self, World};

/// A check that passes, and could fail.
const OK: &str = "test -d WORLD";

/// One portable task with an agent that does nothing; `SETUP`, `VERIFY` and `CLEANUP` are command lines.
fn small(setup: &str, verify: &str, cleanup: &str) -> World {
    let agent = "type: builtin.noop";
    with_agent(agent, setup, verify, cleanup)
}

fn with_agent(agent: &str, setup: &str, verify: &str, cleanup: &str) -> World {
    let world = World::new(&[]);
    world.write(
        "eval.yaml",
        &format!(
            "kind: Eval\nmetadata: {{name: e}}\nconfig:\n  agent: {{{agent}}}\n  taskSets: [{{path: task.yaml}}]\n"
        ),
    );
    let step = |line: &str| {
        if line.is_empty() {
            "[]".to_owned()
        } else {
            format!("\n  - command:\n      timeout: 60s\n      run: |\n        {line}")
        }
    };
    world.write(
        "task.yaml",
        &format!(
            "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {{name: t}}\nspec:\n  prompt: Do it.\n  setup: {}\n  verify: {}\n  cleanup: {}\n",
            step(setup),
            step(verify),
            step(cleanup)
        ),
    );
    world
}

/// The quickstart with this server.
fn served(mcp: &str) -> World {
    let world = World::new(&[]);
    world.copy("examples/quickstart", "q");
    world.write("q/mcp.yaml", &format!("mcpServers:\n  notes: {mcp}\n"));
    world
}

#[test]
fn output_that_scripts_parse_is_stable() {
    let world = small("", "grep -q x WORLD/x", "");
    let ran = world.run(&["run", "eval.yaml", "--format", "classic"]).expect(1, &["0 of 1 task passed"]);
    let (_, last) = ran.out.split_once("=== Overall Statistics ===\n").unwrap();
    assert!(last.starts_with("Total Tasks: 1\nTasks Passed: 0/1\nAssertions Passed: 0/0\n\nCompleted in "), "{last}");
    let version = world.run(&["version"]).expect(0, &[]).out;
    assert_eq!(version, world.run(&["--version"]).expect(0, &[]).out);
    assert_eq!(version, format!("gevals {}\n", env!("CARGO_PKG_VERSION")));
    for (shell, word) in [("bash", "complete -F"), ("zsh", "#compdef gevals"), ("fish", "complete -c gevals")] {
        let script = world.run(&["completion", shell]).expect(0, &[word]).out;
        assert!(script.contains("max-cost") && !script.contains("prove-inside"), "{shell}");
    }
    // Terms of the language are completed as well; with another spelling, the command itself suggests the right one.
    world.write("completion.bash", &world.run(&["completion", "bash"]).expect(0, &[]).out);
    for (typed, wanted) in [
        ("explain unused-req", "unused-requirement"),
        ("explain differenc", "differences"),
        ("check -D unused-req", "unused-requirement"),
        ("fix --allow unused-req", "unused-requirement"),
        ("schema mcp-c", "mcp-config"),
        ("self check bubb", "bubblewrap"),
    ] {
        let ask = format!(
            "source ./completion.bash; COMP_WORDS=(gevals {typed}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _gevals gevals \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD - 1]}}\"; echo \"${{COMPREPLY[*]}}\""
        );
        let mut bash = std::process::Command::new("bash");
        let said = bash.args(["--norc", "-c", &ask]).current_dir(world.path(".")).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&said.stdout).trim(), wanted, "{typed}");
    }
    world.run(&["schema", "evl"]).expect(2, &["did you mean `eval`?"]);
    world.run(&["completion", "--help"]).expect(0, &["source <(gevals completion bash)"]);
}

/// Commands in help texts exist, and have the options shown.
#[test]
fn help_texts_show_only_existing_options() {
    fn wrong(command: &clap::Command, root: &clap::Command, all: &mut Vec<String>) {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        // File names of packs that contain `gevals` are not commands.
        let starts = help.match_indices("gevals ").filter(|(at, _)| !help[..*at].ends_with(['.', '-', '/']));
        for shown in starts.map(|(at, word)| &help[at + word.len()..]) {
            let end = ["\n", "  ", "`", ")", " && ", " | ", " -- "].iter().filter_map(|end| shown.find(end)).min();
            let mut words = shown[..end.unwrap_or(shown.len())].split_whitespace().peekable();
            let mut called = root;
            while let Some(inner) = words.peek().and_then(|word| called.find_subcommand(word)) {
                called = inner;
                words.next();
            }
            let has = |called: &clap::Command, long: &str| {
                called.get_arguments().any(|arg| {
                    arg.get_long() == Some(long) || arg.get_all_aliases().unwrap_or_default().contains(&long)
                })
            };
            for long in words.filter_map(|word| word.strip_prefix("--")).filter_map(|word| word.split('=').next()) {
                if !["help", "version"].contains(&long) && !has(called, long) && !has(root, long) {
                    all.push(format!("{}: `gevals {}` has no --{long}", command.get_name(), called.get_name()));
                }
            }
        }
        command.get_subcommands().for_each(|inner| wrong(inner, root, all));
    }
    let root = gevals::cli::commands();
    let mut all = Vec::new();
    wrong(&root, &root, &mut all);
    assert_eq!(all, [""; 0]);
    let world = small("", "true", "");
    world.run(&["explain", "chekc"]).expect(2, &["did you mean `check`?"]);
}

#[test]
fn manual_pages_are_written_for_every_command() {
    fn names(command: &clap::Command, before: &str, all: &mut BTreeSet<String>) {
        let name = format!("{before}{}", command.get_name());
        command.get_subcommands().for_each(|inner| names(inner, &format!("{name}-"), all));
        all.insert(format!("{name}.1"));
    }
    let world = small("", "true", "");
    let mut all = BTreeSet::new();
    names(&gevals::cli::commands(), "", &mut all);
    for _ in 0..2 {
        world.run(&["man", "share/man1"]).expect(0, &[&format!("{} pages to share/man1", all.len())]);
    }
    let written = std::fs::read_dir(world.path("share/man1"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(written.collect::<BTreeSet<_>>(), all);
    let page = world.read("share/man1/gevals-run.1");
    let title = concat!(r#".TH gevals-run 1 " " "gevals "#, env!("CARGO_PKG_VERSION"), "\" gevals\n");
    for part in [
        title,
        ".SH NAME\ngevals\\-run \\- ",
        "\\fB\\-\\-max\\-cost\\fR",
        ".SH EXAMPLES\n.nf\n  gevals run ",
        ".SH \"EXIT STATUS\"\n0 all tasks passed",
    ] {
        assert!(page.contains(part), "{part}\n{page}");
    }
    assert!(!all.iter().any(|name| name.contains("prove-inside")));
    world.write("file", "");
    world.run(&["man", "file"]).expect(3, &["cannot write `file/gevals.1`"]);
}

/// Sends these lines to a process; returns its standard output and standard error.
fn talk(mut command: std::process::Command, lines: &[&str]) -> (String, String) {
    use std::io::Write;
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    lines.iter().for_each(|line| writeln!(stdin, "{line}").unwrap());
    drop(stdin);
    let ended = child.wait_with_output().unwrap();
    let [out, err] = [ended.stdout, ended.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert_eq!(ended.status.code(), Some(0), "{out}{err}");
    (out, err)
}

const GREETING: [&str; 2] = [
    r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
];
const CREATE: &str = r#"{"jsonrpc":"2.0","id":"é","method":"tools/call","params":{"name":"notes_create","arguments":{"title":"List","body":"Bread {made.of} hunter2hunter2"}}}"#;
const WRONG: &str =
    r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"notes_read","arguments":{"title":"None"}}}"#;

#[test]
fn a_proxy_shows_and_records_calls_and_the_recording_is_replayed() {
    let world = World::new(&[]);
    let gevals = world::gevals().into_string().unwrap();
    let server = ["--", gevals.as_str(), "demo-server", "--dir", "notes"];
    let lines = [GREETING[0], GREETING[1], CREATE, WRONG];
    let mut proxy =
        world.command(&[&["proxy", "--name", "notes", "--record", "calls.jsonl", "--task", "t"][..], &server].concat());
    proxy.env("MY_TOKEN", "hunter2hunter2");
    let (out, err) = talk(proxy, &lines);
    for answer in [r#""serverInfo":{"name":"gevals-notes""#, r#""id":"é","result":{"#, "there is no note `None`"] {
        assert!(out.contains(answer), "{answer}: {out}");
    }
    assert!(err.contains("  notes.notes_create  ok  ") && err.contains("  notes.notes_read  tool error  "), "{err}");
    let recorded = world.read("calls.jsonl");
    assert!(recorded.starts_with(r#"{"type":"recording""#) && !recorded.contains("hunter2"), "{recorded}");
    assert_eq!(recorded.matches(r#""direction":"toServer""#).count(), 4, "{recorded}");

    world.write(
        "mcp.yaml",
        "mcpServers: {notes: {command: gevals, args: [demo-server, --dir, fresh], enableAllTools: true}}",
    );
    world.write(
        "eval.yaml",
        "kind: Eval\nmetadata: {name: e}\nconfig:\n  agent: {type: builtin.replay, path: calls.jsonl}\n  mcpConfigFile: mcp.yaml\n  taskSets: [{path: task.yaml}]\n",
    );
    world.write(
        "task.yaml",
        "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {name: t}\nspec:\n  requires: [{mcpServer: notes}]\n  prompt: Do it.\n  verify:\n    - notes.notes_read:\n        args: {title: List}\n        expect: {content: {contains: Bread}}\n",
    );
    world.run(&["run", "eval.yaml"]).expect(0, &["1 of 1 task passed"]);

    // It can be viewed, but has no verdict.
    let shown = ["RECORDED (nothing was verified)", "✓ notes.notes_create", "✗ notes.notes_read", "no note `None`"];
    world.run(&["result", "view", "calls.jsonl"]).expect(0, &shown);
    world.run(&["result", "verify", "calls.jsonl"]).expect(2, &["it is a recording, which has no verdicts"]);

    // And it can be the basis of an eval.
    let from = ["--from-server", "gevals demo-server --dir other", "--from-recording", "calls.jsonl"];
    world.run(&[&["new", "eval", "begun/eval.yaml"][..], &from].concat()).expect(0, &["begun/oracle.yaml"]);
    let oracle = world.read("begun/oracle.yaml");
    assert!(oracle.contains(r"Bread \\{made.of}"), "{oracle}");
    assert!(oracle.contains("tool: notes_create, args:") && oracle.contains("tool: notes_read, args:"), "{oracle}");
    let eval = world.read("begun/eval.yaml");
    assert!(eval.contains("tool: notes_create") && !eval.contains("tool: notes_read"), "{eval}");
    world.run(&["check", "begun/eval.yaml"]).expect(0, &[]);
    world.run(&["run", "begun/eval.yaml"]).expect(0, &["1 of 1 task passed"]);
    world
        .run(&["new", "eval", "more/eval.yaml", "--from-server", "gevals demo-server", "--from-recording", "eval.yaml"])
        .expect(2, &["it is not a recording"]);

    // Calls that `check` would refuse are left out.
    let invalid = WRONG.replace(r#"{"title":"None"}"#, r#"{"titel":"None"}"#);
    let record = |lines: &[&str]| {
        drop(std::fs::remove_file(world.path("invalid.jsonl")));
        let args = [&["proxy", "--name", "notes", "--record", "invalid.jsonl"][..], &server].concat();
        talk(world.command(&args), lines);
    };
    let from = ["--from-server", "gevals demo-server --dir third", "--from-recording", "invalid.jsonl"];
    record(&[GREETING[0], GREETING[1], &invalid, CREATE]);
    let wrote = ["1 of 2 calls are left out: they failed, and their arguments are invalid"];
    world.run(&[&["new", "eval", "third/eval.yaml"][..], &from].concat()).expect(0, &wrote);
    assert!(!world.read("third/oracle.yaml").contains("titel"));
    world.run(&["check", "third/eval.yaml"]).expect(0, &[]);
    record(&[GREETING[0], GREETING[1], &invalid]);
    let refused = ["the arguments of all calls in the recording are invalid"];
    world.run(&[&["new", "eval", "fourth/eval.yaml"][..], &from].concat()).expect(2, &refused);
}

#[test]
fn a_proxy_bridges_processes_and_http() {
    let world = World::new(&[]);
    let gevals = world::gevals().into_string().unwrap();
    struct Killed(std::process::Child);
    impl Drop for Killed {
        fn drop(&mut self) {
            let _ = self.0.kill();
        }
    }
    let served = world
        .command(&["proxy", "--http", "127.0.0.1:0", "--", &gevals, "demo-server", "--dir", "notes"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut served = Killed(served);
    let mut said = std::io::BufReader::new(served.0.stderr.take().unwrap()).lines();
    let line = said.next().unwrap().unwrap();
    let url = line.split_once(" is listening on ").unwrap().1;
    let (out, err) = talk(world.command(&["proxy", "--url", url]), &[GREETING[0], GREETING[1], CREATE]);
    assert!(out.lines().count() == 3 && out.contains(r#""id":"é""#), "{out}");
    assert!(err.contains("  127.0.0.1.notes_create  ok  "), "{err}");
    assert!(said.next().unwrap().unwrap().contains("  gevals.notes_create  ok  "));
    rustix::process::kill_process(rustix::process::Pid::from_child(&served.0), Signal::TERM).unwrap();
    assert_eq!(served.0.wait().unwrap().code(), Some(0));

    world.run(&["proxy"]).expect(2, &["<SERVER>"]);
    world.run(&["proxy", "--url", "http://x/mcp", "--", "true"]).expect(2, &["cannot be used with"]);
    world.run(&["proxy", "--http", "0.0.0.0:0", "--", "true"]).expect(2, &["only local clients are served"]);
    world.run(&["proxy", "--http", "127.0.0.1:0", "--", "none-such"]).expect(3, &["no such command `none-such`"]);
    world.run(&["proxy", "--http", "127.0.0.1:0", "--", "true"]).expect(3, &["exited with status 0"]);
    world.run(&["proxy", "--help"]).expect(0, &["builtin.replay:calls.jsonl", "gevals proxy --record"]);
}

#[test]
fn internal_commands_are_not_suggested() {
    let world = World::new(&[]);
    let ran = world.run(&["prove-insid"]).expect(2, &["unrecognized subcommand 'prove-insid'"]);
    assert!(!ran.err.contains("prove-inside"), "{}", ran.err);
    let ran = world.run(&["--help"]).expect(0, &["completion", "version"]);
    assert!(!ran.out.contains("prove-inside"), "{}", ran.out);
}

#[test]
fn the_quickstart_passes_and_a_changed_expectation_is_explained() {
    let world = World::new(&[]);
    world.copy("examples/quickstart", "q");
    let checked = world.run(&["check", "q"]).expect(0, &[]);
    assert!(!checked.out.contains("error[") && !checked.out.contains("warning["), "{}", checked.out);
    let ran =
        world.run(&["run", "q/eval.yaml"]).expect(0, &["4 of 4 tasks passed", "results: gevals-quickstart-out.json"]);
    assert!(ran.err.is_empty(), "{}", ran.err);
    let results = world.results("quickstart");
    assert!(
        results["results"]
            .as_array()
            .unwrap()
            .iter()
            .all(|r| r["taskPassed"] == true && r["allAssertionsPassed"] == true)
    );
    assert_eq!(results["summary"]["exit"], 0);

    // Cleanup does not report what the agent did not create.
    let idle = ["run", "q", "--run", "write-note", "--agent", "builtin.noop", "-o", "idle"];
    let ran = world.run(&idle).expect(1, &["0 of 1 task passed"]);
    assert!(!ran.out.contains("cleanup") && ran.err.is_empty(), "{}{}", ran.out, ran.err);
    world.run(&["recover", "idle"]).expect(0, &["no cleanup is pending"]);

    let task = world.read("q/tasks/write-note.yaml");
    let line = task.lines().position(|line| line.contains("contains: Bread")).unwrap() + 1;
    world.write("q/tasks/write-note.yaml", &task.replace("contains: Bread", "contains: Cake"));
    let place = format!("at q/tasks/write-note.yaml:{line}: content");
    world.run(&["run", "q"]).expect(
        1,
        &[
            "3 of 4 tasks passed, 1 failed",
            &place,
            "expected  contains `Cake`",
            "actual    Bread, milk",
            "rerun: gevals run q --run '^write-note$'",
        ],
    );
    world.run(&["run", "q", "--run", "^write-note$", "--exit-zero"]).expect(0, &["0 of 1 task passed"]);
    assert!(world.survivors().is_empty());
}

#[test]
fn a_failed_assertion_is_shown_at_its_location_in_the_eval() {
    let world = World::new(&[]);
    world.copy("examples/quickstart", "q");
    let eval = world.read("q/eval.yaml");
    world.write("q/eval.yaml", &eval.replace("maxToolCalls: 3", "maxToolCalls: 0"));
    world.run(&["run", "q"]).expect(1, &["at q/eval.yaml:", "at most 0 tool calls", "1 tool call"]);
}

/// Unsuitable files: each one leads to an error with its location, and the exit status that shows the cause.
#[test]
fn bad_files_are_rejected_with_a_location() {
    let world = World::new(&[
        ("empty.yaml", ""),
        ("folder/readme.txt", "nothing here"),
        ("other/mcp.yaml", "mcpServers: {}\n"),
    ]);
    std::fs::write(
        world.path("binary.yaml"),
        (0..4096u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect::<Vec<_>>(),
    )
    .unwrap();
    world.write("brackets.yaml", &format!("kind: Eval\nmetadata: {{name: x}}\nconfig: {}", "[".repeat(100_000)));
    let item = format!("  - {}\n", "x".repeat(80));
    world.write(
        "large.yaml",
        &format!("kind: Eval\nmetadata: {{name: x}}\njunk:\n{}", item.repeat((10 << 20) / item.len())),
    );
    let mut laughs = "kind: Eval\nmetadata: {name: x}\na0: &a0 [lol, lol]\n".to_owned();
    for i in 1..10 {
        laughs += &format!("a{i}: &a{i} [{}]\n", vec![format!("*a{}", i - 1); 9].join(", "));
    }
    world.write("laughs.yaml", &format!("{laughs}config: *a9\n"));

    let located = [
        ("empty.yaml", "empty.yaml:1:1"),
        ("binary.yaml", "binary.yaml:1:"),
        ("brackets.yaml", "brackets.yaml:3:"),
        ("large.yaml", "large.yaml:3:1"),
        ("laughs.yaml", "laughs.yaml:9:"),
    ];
    for (file, place) in located {
        world.run(&["check", file]).expect(1, &["error[", place]);
        world.run(&["run", file]).expect(2, &["error[", "run"]);
        world.run(&["plan", file]).expect(2, &["error["]);
        let json = world.run(&["check", "--format", "json", file]).expect(1, &[]);
        let document: Value = serde_json::from_str(&json.out).unwrap();
        assert_eq!(document["diagnostics"][0]["path"], file);
        assert!(json.err.is_empty(), "{}", json.err);
        assert!(json.peak < 400 << 10, "{file}: {} KiB", json.peak);
    }
    let ran = world.run(&["check", "folder"]).expect(2, &["no tasks or evals found"]);
    assert!(ran.out.is_empty(), "{}", ran.out);
    world.run(&["run", "folder"]).expect(2, &["there is no eval in `folder`"]);
    world.run(&["run", "other"]).expect(2, &["there is no eval in"]);
    for command in ["check", "run", "plan"] {
        let ran = world.run(&[command, "missing.yaml"]).expect(2, &["cannot read `missing.yaml`: no such file"]);
        assert!(ran.out.is_empty(), "{}", ran.out);
    }
    world.run(&["explain", "no-such-rule"]).expect(2, &["no rule, topic or word named `no-such-rule`"]);
    world.run(&["explain", ""]).expect(2, &["no rule, topic or word named ``"]);
    world.run(&["explain", "unknown-field"]).expect(0, &["unknown-field"]);
    world.run(&["explain"]).expect(0, &["unknown-field", "Topics: agents, running, ci, convert"]);
    world.run(&["explain", "agents"]).expect(0, &["builtin.llm-agent", "skills"]);
    world.run(&["explain", "runing"]).expect(2, &["did you mean `running`?"]);
}

#[test]
fn usage_errors_are_reported_before_anything_runs() {
    let world = small("touch WORLD/ran", OK, "");
    world.run(&["run", "eval.yaml", "--run", "("]).expect(2, &["--run"]);
    world.run(&["run", "eval.yaml", "--run", "^nothing$"]).expect(2, &["no task name matches `^nothing$`"]);
    world.run(&["run", "eval.yaml", "--runs", "0"]).expect(2, &["--runs"]);
    world.run(&["run", "eval.yaml", "--server-timeout", "30"]).expect(2, &["the unit is missing"]);
    world.run(&["run", "eval.yaml", "--format", "xml"]).expect(2, &["xml"]);
    world.run(&["run", "task.yaml"]).expect(2, &["is a task"]);
    world.run(&["run", "eval.yml"]).expect(2, &["no such file; did you mean `eval.yaml`"]);
    std::os::unix::fs::symlink("nowhere", world.path("link.yaml")).unwrap();
    let ran = world.run(&["check", "link.yaml"]).expect(2, &["`link.yaml`: it is a link that leads nowhere"]);
    assert!(!ran.err.contains("did you mean `link.yaml`"), "{}", ran.err);
    std::fs::remove_file(world.path("link.yaml")).unwrap();
    world.run(&["run", "eval.yaml", "--task", "^nothing$"]).expect(2, &["no task name matches `^nothing$`"]);
    world.run(&["plan", "eval.yaml", "--run", "nope"]).expect(2, &["no task name matches `nope`"]);
    world.run(&["plan", "eval.yaml", "--why", "verify/0"]).expect(0, &["verify/0  in ", "waits for", "agent", "order"]);
    world
        .run(&["plan", "eval.yaml", "--why", "agent", "--format", "json"])
        .expect(0, &["\"waitsFor\"", "\"kind\": \"order\""]);
    world.run(&["plan", "eval.yaml", "--why", "verfy/0"]).expect(2, &["no step named `verfy/0`", "`verify/0`"]);
    world.run(&["plan", "eval.yaml", "--why", "agent", "--format", "svg"]).expect(2, &["tree or json, not `svg`"]);
    world.run(&["plan", "eval.yaml", "--why", "agent", "--open"]).expect(2, &["cannot be used with"]);
    world
        .run(&["run", "eval.yaml", "--agent", "llm-agent"])
        .expect(2, &["did you mean `builtin.llm-agent:PROVIDER:MODEL`?"]);
    world.run(&["run", "eval.yaml", "--agent", "noop"]).expect(2, &["did you mean `builtin.noop`?"]);
    world.write("mcp.yaml", "mcpServers: {}\n");
    world.run(&["lock", "mcp.yaml"]).expect(2, &["is an MCP config: lock the eval that uses it"]);
    world.write("more/a.yaml", &world.read("eval.yaml").replace("task.yaml", "../task.yaml"));
    world.write("more/b.yaml", &world.read("more/a.yaml"));
    world
        .run(&["lock", "more"])
        .expect(2, &["`more` contains several evals; specify one: `more/a.yaml`, `more/b.yaml`"]);
    for nth in 10..20 {
        world.write(&format!("more/e{nth}.yaml"), &world.read("more/a.yaml"));
    }
    for command in ["lock", "run"] {
        let refused =
            world.run(&[command, "more"]).expect(2, &["`more` contains 12 evals", "`more/e12.yaml` and 7 more"]);
        assert!(!refused.err.contains("e13"), "{}", refused.err);
    }
    world.run(&["run"]).expect(2, &["EVAL"]);
    world.run(&["frobnicate"]).expect(2, &["frobnicate"]);
    // Results that cannot be written would be lost.
    world.write("file", "");
    world.run(&["run", "eval.yaml", "-o", "file"]).expect(3, &["cannot write `file/gevals-e-out.json`"]);
    world.run(&["run", "eval.yaml", "-o", "/proc/none"]).expect(3, &["cannot write"]);
    world.write("taken/gevals-e-out.json/file", "");
    world.run(&["run", "eval.yaml", "-o", "taken"]).expect(3, &["cannot write", "directory"]);
    assert!(!world.path("ran").exists());
    world.run(&["run", "eval.yaml", "-o", "new/folder"]).expect(0, &[]);
    assert!(world.path("new/folder/gevals-e-out.json").exists());
}

/// Results replace the old file as a whole, even if it is read-only or shared.
#[test]
fn read_only_results_are_replaced() {
    let world = small("", OK, "");
    world.write("gevals-e-out.json", "old");
    let path = world.path("gevals-e-out.json");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o444)).unwrap();
    world.run(&["run", "eval.yaml"]).expect(0, &[]);
    assert_eq!(world.results("e")["results"][0]["outcome"], "passed");
    let names: Vec<_> = std::fs::read_dir(world.path(".")).unwrap().flatten().map(|e| e.file_name()).collect();
    assert!(!names.iter().any(|n| n.to_string_lossy().starts_with(".gevals-")), "{names:?}");
}

/// Servers that fail to start: nothing could run, and one explanation for all tasks is enough.
#[test]
fn servers_that_do_not_start_are_reported_once() {
    let sh = |script: &str| format!("{{command: sh, args: [-c, \"{script}\"], enableAllTools: true}}");
    let cases = [
        (
            sh("echo no config >&2; echo in sight >&2; exit 7"),
            vec!["`notes` exited with status 7", "    no config\n    in sight\n"],
        ),
        (sh("exit 0"), vec!["`notes` exited with status 0"]),
        (
            sh("sleep 300 & setsid sleep 300 & exec cat > /dev/null"),
            vec!["`notes` did not answer `initialize` within 1 s"],
        ),
        (sh("echo warming up; sleep 300"), vec!["`notes` did not answer `initialize` within 1 s"]),
        (sh("exec yes rubbish"), vec!["`notes` does not speak MCP: it printed `rubbish`"]),
        (sh("exec tr '\\\\0' x < /dev/zero"), vec!["`notes` "]),
        (
            sh("echo '[]'; echo '{}'; echo '{\\\"jsonrpc\\\":\\\"2.0\\\"}'; kill -9 $$"),
            vec!["`notes` was killed by signal 9"],
        ),
        (
            sh(
                "read l; echo '{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":0,\\\"error\\\":{\\\"code\\\":-1,\\\"message\\\":\\\"go away\\\"}}'; sleep 300",
            ),
            vec!["`notes` refused `initialize`: go away (-1)"],
        ),
        (
            "{command: no-such-server-anywhere, enableAllTools: true}".to_owned(),
            vec!["no such command `no-such-server-anywhere`"],
        ),
        ("{command: ./q/eval.yaml, enableAllTools: true}".to_owned(), vec!["could not start `notes`"]),
        (
            "{url: \"http://127.0.0.1:9/mcp\", enableAllTools: true}".to_owned(),
            vec!["could not reach `notes`", "connection refused"],
        ),
        (
            "{url: \"http://${NO_SUCH_VARIABLE}/mcp\", enableAllTools: true}".to_owned(),
            vec!["`${NO_SUCH_VARIABLE}`, which is not set"],
        ),
    ];
    for (mcp, said) in cases {
        let world = served(&mcp);
        let ran = world.run(&["run", "q", "--server-timeout", "1s"]).expect(3, &said);
        let told = ran.out.matches(said[0]).count() + ran.err.matches(said[0]).count();
        assert_eq!(told, 1, "{mcp}: {}{}", ran.out, ran.err);
        assert!(ran.peak < 500 << 10, "{mcp}: {} KiB", ran.peak);
        let survivors = world.survivors();
        assert!(survivors.is_empty(), "{mcp}: {survivors:?}");
    }
}

/// A command that hangs, and has to be stopped, with processes in the background, one of them in its own session.
const HANG: &str = "set -e; touch WORLD/hanging; sleep 300 & setsid sleep 300 & wait; test -d WORLD";

#[test]
fn signals_stop_any_phase_and_clean_up() {
    let agent = "type: file, path: agent.yaml";
    for (phase, signal) in
        [("setup", Signal::INT), ("agent", Signal::TERM), ("verify", Signal::INT), ("verify", Signal::TERM)]
    {
        let at = |name: &str| if phase == name { HANG } else { OK };
        let world = with_agent(agent, at("setup"), at("verify"), "echo cleaned >> WORLD/log");
        world.write(
            "agent.yaml",
            &format!(
                "kind: Agent\nmetadata: {{name: a}}\ncommands:\n  runPrompt: |\n    echo '{{{{ .Prompt }}}}'\n    {}\n",
                at("agent")
            ),
        );
        let running = world.start(world.command(&["run", "eval.yaml"]));
        world.wait_for("hanging");
        running.signal(signal);
        let (code, name) = if signal == Signal::INT { (130, "SIGINT") } else { (143, "SIGTERM") };
        running.end().expect(code, &[name, "CANCELLED"]);
        assert_eq!(world.read("log"), "cleaned\n", "{phase}");
        let results = world.results("e");
        assert_eq!(results["results"][0]["outcome"], "cancelled", "{phase}");
        assert_eq!(results["summary"]["exit"], code);
        let survivors = world.survivors();
        assert!(survivors.is_empty(), "{phase}: {survivors:?}");
    }
}

#[test]
fn a_signal_during_cleanup_lets_it_finish() {
    let world =
        small("", OK, "touch WORLD/hanging; while [ ! -e WORLD/go ]; do sleep 0.02; done; echo cleaned >> WORLD/log");
    let running = world.start(world.command(&["run", "eval.yaml"]));
    world.wait_for("hanging");
    running.signal(Signal::INT);
    std::thread::sleep(std::time::Duration::from_millis(200));
    world.write("go", "");
    running.end().expect(130, &["SIGINT"]);
    assert_eq!(world.read("log"), "cleaned\n");
}

#[test]
fn a_second_signal_kills() {
    let deaf = "trap '' TERM INT; touch WORLD/hanging; while true; do sleep 1; done";
    let world = small("", OK, deaf);
    let running = world.start(world.command(&["run", "eval.yaml"]));
    world.wait_for("hanging");
    running.signal(Signal::TERM);
    // Within a second, both signals would count as one stop.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    running.signal(Signal::TERM);
    running.end().expect(143, &["SIGTERM", "cleanup"]);
    assert_eq!(world.results("e")["results"][0]["cleanupFailed"], true);
    assert!(world.survivors().is_empty());
}

#[test]
fn signals_during_server_startup_leave_no_processes() {
    let world = served(
        "{command: sh, args: [-c, \"touch WORLD/hanging; sleep 300 & setsid sleep 300 & wait\"], enableAllTools: true}",
    );
    let running = world.start(world.command(&["run", "q"]));
    world.wait_for("hanging");
    running.signal(Signal::INT);
    running.end().expect(130, &["4 cancelled"]);
    let survivors = world.survivors();
    assert!(survivors.is_empty(), "{survivors:?}");
}

/// `gevals run … | head -1`.
#[test]
fn a_run_continues_after_the_reader_of_its_output_exits() {
    for format in ["json", "text"] {
        let world = small(
            "",
            "set -e; touch WORLD/hanging; while [ ! -e WORLD/go ]; do sleep 0.02; done; test -d WORLD",
            "echo cleaned > WORLD/log",
        );
        let mut command = world.command(&["run", "eval.yaml", "--format", format, "--runs", "2"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut reader = std::io::BufReader::new(child.stdout.take().unwrap());
        drop(child.stderr.take());
        world.wait_for("hanging");
        if format == "json" {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            assert!(line.contains("runStarted"), "{line}");
        }
        drop(reader);
        world.write("go", "");
        assert_eq!(child.wait().unwrap().code(), Some(0), "{format}");
        assert_eq!(world.read("log"), "cleaned\n");
        assert_eq!(world.results("e")["results"].as_array().unwrap().len(), 2);
    }
}

#[test]
fn colors_are_used_only_where_wanted() {
    let world = small("", "false", "");
    let coloured = |args: &[&str], env: &[(&str, &str)]| {
        let mut command = world.command(args);
        command.envs(env.iter().copied());
        let ran = world.start(command).end();
        ran.out.contains('\u{1b}') || ran.err.contains('\u{1b}')
    };
    let run = ["run", "eval.yaml"];
    assert!(!coloured(&run, &[]));
    assert!(coloured(&run, &[("CLICOLOR_FORCE", "1")]));
    assert!(!coloured(&run, &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
    assert!(coloured(&["run", "eval.yaml", "--color", "always"], &[("NO_COLOR", "1")]));
    assert!(!coloured(&["run", "eval.yaml", "--color", "never"], &[("CLICOLOR_FORCE", "1")]));
    world.write("bad.yaml", "kind: Task\nmetadata: {}\n");
    assert!(coloured(&["check", "bad.yaml", "--color", "always"], &[]));
    assert!(!coloured(&["check", "bad.yaml"], &[]));
}

/// The output of a step cannot control the terminal.
#[test]
fn output_of_steps_cannot_control_the_terminal() {
    let world = small("", "printf '\\033]0;title\\007\\033[2Jgone' >&2; exit 1", "");
    let ran = world.run(&["run", "eval.yaml"]).expect(1, &["gone"]);
    assert!(!ran.out.contains('\u{1b}') && !ran.out.contains('\u{7}'), "{}", ran.out);
}

#[test]
fn events_are_printed_only_as_json_lines() {
    let world = World::new(&[]);
    world.copy("examples/quickstart", "q");
    let ran = world.run(&["run", "q", "--format", "json", "--runs", "2"]).expect(0, &[]);
    let events: Vec<Event> =
        ran.out.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect();
    assert!(events.iter().zip(0..).all(|(event, seq)| event.seq == seq), "numbered without gaps");
    assert!(matches!(events.first().unwrap().kind, EventKind::RunStarted { version: 1, tasks: 4, runs: 8, .. }));
    assert!(matches!(events.last().unwrap().kind, EventKind::RunFinished { exit: 0, .. }));
    let mut open = Vec::new();
    for event in &events {
        match &event.kind {
            EventKind::ActionStarted { action } => open.push((event.task.clone(), action.clone())),
            EventKind::ActionFinished { action, .. } => {
                let key = (event.task.clone(), action.clone());
                open.retain(|started| *started != key);
            }
            _ => {}
        }
    }
    assert!(open.is_empty(), "{open:?}");
    let count = |wanted: fn(&EventKind) -> bool| events.iter().filter(|e| wanted(&e.kind)).count();
    assert_eq!(count(|k| matches!(k, EventKind::TaskFinished { .. })), 8);
    assert!(count(|k| matches!(k, EventKind::CleanupPending { .. })) >= 8);
    assert!(count(|k| matches!(k, EventKind::CleanupDone { .. })) >= 8);
    // Even on errors, standard output is for programs.
    let world = served("{command: sh, args: [-c, exit 1], enableAllTools: true}");
    let ran = world.run(&["run", "q", "--format", "json"]).expect(3, &["exited with status 1"]);
    for line in ran.out.lines() {
        let _: Event = serde_json::from_str(line).unwrap();
    }
    assert!(ran.err.contains("exited with status 1"), "{}", ran.err);
}

/// A failed cleanup determines the exit status only if nothing else does.
#[test]
fn exit_statuses_have_an_order_of_precedence() {
    small("", OK, "false").run(&["run", "eval.yaml"]).expect(4, &["cleanup failed"]);
    small("", OK, "false").run(&["run", "eval.yaml", "--exit-zero"]).expect(0, &["cleanup failed"]);
    small("", "false", "false").run(&["run", "eval.yaml"]).expect(1, &["FAIL"]);
    small("false", OK, "").run(&["run", "eval.yaml"]).expect(1, &["BROKEN"]);
    let unchecked = small("", "", "");
    unchecked.run(&["run", "eval.yaml"]).expect(2, &["no-verdict"]);
    unchecked.run(&["run", "eval.yaml", "--allow-unchecked"]).expect(0, &["UNCHECKED"]);
    let misspelt = small("", OK, "");
    misspelt.write("task.yaml", &misspelt.read("task.yaml").replace("verify:", "verifi: []\n  verify:"));
    misspelt.run(&["check", "task.yaml"]).expect(1, &["task.yaml:", "verifi"]);
    misspelt.run(&["run", "eval.yaml"]).expect(2, &["verifi"]);
}

/// Code that traverses a script is recursive: a script with extremely deep nesting or long chains must not crash the
/// program.
#[test]
fn an_extremely_nested_script_is_reported_by_check_and_convert() {
    let (deep, chain) = (3_000, 5_000);
    for (name, script) in [
        ("chain", vec!["true"; chain].join(" && ")),
        ("pipe", vec!["cat"; chain].join(" | ")),
        ("substitution", format!("echo {}true{}", "$(".repeat(deep), ")".repeat(deep))),
        ("subshell", format!("{}true{}", "( ".repeat(deep), " )".repeat(deep))),
        ("condition", format!("{}true{}", "if true; then ".repeat(deep), "; fi".repeat(deep))),
        ("group", format!("{}true;{}", "{ ".repeat(deep), " }; ".repeat(deep))),
        ("negation", format!("{}true", "! ".repeat(deep))),
        ("arithmetic", format!("echo $(({}1{}))", "(".repeat(deep), ")".repeat(deep))),
        ("expansion", format!("echo {}x{}", "${a:-".repeat(deep), "}".repeat(deep))),
        ("case", format!("{}true{}", "case a in a) ".repeat(deep), ";; esac".repeat(deep))),
    ] {
        let world = World::new(&[]);
        let portable = "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {name: t}\nspec:\n  prompt: Do it.\n  verify:\n    - command:\n        shell: bash\n        run: |\n          ";
        world.write("portable.yaml", &format!("{portable}{script}\n"));
        let legacy = "kind: Task\nmetadata: {name: t, difficulty: easy}\nsteps:\n  prompt: {inline: Do it.}\n  verify:\n    inline: |\n      #!/usr/bin/env bash\n      ";
        world.write("legacy.yaml", &format!("{legacy}{script}\n"));
        for file in ["portable.yaml", "legacy.yaml"] {
            let checked = world.run(&["check", file]);
            assert!(matches!(checked.code, Some(0 | 1)), "{name}, {file}: {:?}\n{}", checked.code, checked.err);
            if !matches!(name, "pipe" | "negation" | "arithmetic" | "expansion") {
                assert!(checked.out.contains("nested too deeply"), "{name}, {file}: {}", checked.out);
            }
        }
        let converted = world.run(&["convert", "legacy.yaml", "--target", "builtin", "--no-verify"]);
        assert!(matches!(converted.code, Some(0 | 1)), "{name}: {:?}\n{}", converted.code, converted.err);
    }
}

/// 20,000 opening constructs without an end, within a CPU time that a quadratic algorithm would exceed.
#[test]
fn unclosed_constructs_in_a_script_take_linear_time() {
    let world = World::new(&[]);
    world.write(
        "t.yaml",
        "kind: Task\nmetadata: {name: t, difficulty: easy}\nsteps:\n  prompt: {inline: Do it.}\n  verify: {file: v.sh}\n",
    );
    for opening in [
        "a | ",
        "a && ",
        "a || (",
        "x=(",
        ": $[",
        ": $((",
        ": \"$((",
        ": $(",
        ": \"$(",
        ": ${",
        ": ${a[",
        ": \"${a:-",
        ": `",
        ": \"`",
        "(",
        "((",
        "{ ",
        "if ",
        "while ",
        "until ",
        "for i in a; do ",
        "case x in ",
        "f() { ",
        "[[ ( ",
        "! ",
        "time ",
        "coproc ",
        "sudo ",
        "a <(",
        "<<A\n",
        "eval \"$(",
        "$(a; \"$(",
        "\\\n",
    ] {
        let (first, rest) = opening.strip_prefix(": ").map_or(("", opening), |rest| (": ", rest));
        world.write("v.sh", &format!("#!/usr/bin/env bash\n{first}{}\n", rest.repeat(20_000)));
        for command in ["check t.yaml", "plan t.yaml", "convert t.yaml --target builtin --no-verify"] {
            let gevals = env!("CARGO_BIN_EXE_gevals");
            let ran = world.shell(&format!("ulimit -t 4; exec {gevals} {command}"));
            assert!(matches!(ran.code, Some(0..=2)), "{opening:?}, {command}: {:?} {}", ran.code, ran.err);
        }
    }
}

/// Thousands of statements of one kind, within a CPU time that a quadratic rule would exceed: in a task just below the size that
/// `too-large` reports, and in one far beyond it.
#[test]
fn tasks_with_thousands_of_statements_take_linear_time() {
    let world = World::new(&[]);
    // `@` is the number of the statement.
    let constructs = [
        ["", "jq -e '.a@ == @' /tmp/f.json >/dev/null", ""],
        ["", "[ \"$(cat /tmp/f)\" = same@ ] || exit 1", ""],
        ["", "grep -qv abc /tmp/f@", ""],
        ["", "grep -q k@=w@ /tmp/f", ""],
        ["", "kubectl get deployment worker-@", ""],
        ["", "f@() { echo x; }; f@ || exit 1", ""],
        ["", "if [ \"$a@\" != 0 ] && [ \"$b@\" != 3 ]; then exit 1; fi", ""],
        ["", "test \"$REPO_DIR\" = x@", ""],
        ["", "curl -fsS http://svc@.ns.svc:8080/ | jq -e .ok", ""],
        ["", "v@=$(kubectl get pod web -o json); [ \"$v@\" = x ] || exit 1", ""],
        ["A@=\"${A@:-x}\"", "A@=\"${A@:-y}\"; test \"$A@\" = x", ""],
        ["for q in q1 q2; do echo x > /tmp/z/$q-@; done", "for q in q1 q3; do test -f /tmp/z/$q-@; done", ""],
        ["kubectl create deployment worker-@ --image=nginx", "", "kubectl delete deployment worker-@"],
        ["kubectl cordon node-@", "", "kubectl uncordon node-@"],
        ["curl -fsS -X POST -d a=1 http://h/items/i@", "", "curl -fsS -X DELETE http://h/items/i@"],
        ["docker compose -p p@ up -d", "", "docker compose -p p@ down"],
        ["mkdir /tmp/tb-@", "", "rm -rf /tmp/tb-@-*"],
        ["gh label create l@ --repo a/b", "", "gh label delete l@ --repo a/b --yes"],
        ["git push origin b@", "", "git push origin --delete b@"],
        [
            "psql -c \"CREATE ROLE r@\"",
            "[ \"$(psql -Atc \"SELECT count(*) FROM t@ WHERE name = 'n@'\")\" = 1 ]",
            "psql -c \"DROP ROLE r@\"",
        ],
    ];
    let lines = |line: &str, count: usize| -> String {
        let numbered = |nth: usize| format!("{}\n", line.replace('@', &nth.to_string()));
        (0..count).map(numbered).collect()
    };
    let prompt = (0..300).map(|nth| format!("Set k{nth}=v{nth}. ")).collect::<String>();
    world.write(
        "t.yaml",
        &format!(
            "kind: Task\nmetadata: {{name: t, difficulty: easy}}\nsteps:\n  prompt: {{inline: \"{prompt}\"}}\n  \
             setup: {{file: setup.sh}}\n  verify: {{file: verify.sh}}\n  cleanup: {{file: cleanup.sh}}\n"
        ),
    );
    let write = |scripts: [String; 3]| {
        for (name, script) in ["setup.sh", "verify.sh", "cleanup.sh"].iter().zip(scripts) {
            world.write(name, &format!("#!/usr/bin/env bash\nset -e\ntrue\n{script}"));
        }
    };
    let within = |commands: &[&str], what: &str| {
        for command in commands {
            let gevals = env!("CARGO_BIN_EXE_gevals");
            let ran = world.shell(&format!("ulimit -t 6; exec {gevals} {command} t.yaml"));
            assert!(matches!(ran.code, Some(0..=2)), "{what}, {command}: {:?} {}", ran.code, ran.err);
            assert_eq!(ran.out.contains("too-large"), *command == "check" && what == "all", "{what}: {}", ran.out);
        }
    };
    for construct in constructs {
        let used = construct.iter().filter(|line| !line.is_empty()).count();
        write(construct.map(|line| if line.is_empty() { String::new() } else { lines(line, 1200 / used) }));
        within(&["check", "convert --target builtin --no-verify"], &construct.concat());
    }
    let all = |nth: usize| constructs.iter().map(|construct| lines(construct[nth], 500)).collect::<String>();
    write([all(0), all(1), all(2)]);
    within(&["check", "plan", "convert --target builtin --no-verify"], "all");
}

/// What scripted agents, steps and assertions cover of a locked server, and what they do not.
#[test]
fn coverage_lists_what_no_task_uses() {
    let world = World::new(&[]);
    let quickstart = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/quickstart");
    let ran = world.run(&["coverage", quickstart]).expect(0, &["5 of 6 tools", "never called: notes_search"]);
    let uncalled = ran.out.lines().find(|line| line.contains("never called")).unwrap();
    assert!(!uncalled.contains("notes_create"), "{uncalled}");
    world.run(&["coverage", quickstart, "--min", "0.9"]).expect(1, &["use 5 of 6 tools"]);
    let ran = world.run(&["coverage", quickstart, "--format", "json"]).expect(0, &[]);
    let told: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(told["evals"][0]["totals"]["tools"], serde_json::json!({"touched": 5, "all": 6}));
    let tools = told["evals"][0]["servers"][0]["tools"].as_array().unwrap();
    let search = tools.iter().find(|tool| tool["tool"] == "notes_search").unwrap();
    assert_eq!(search["tasks"], serde_json::json!([]));
    // Without a lock, the interface of the server is unknown.
    let bare = small(OK, OK, OK);
    bare.run(&["coverage", "eval.yaml"]).expect(2, &["no server has locked tools"]);
}
