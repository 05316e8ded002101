//! The evals primitive from end to end: listing, checking and serving, between real processes.
#![cfg(all(feature = "run", target_os = "linux"))]

use std::{
    io::{BufRead, BufReader, Read, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{self, Receiver},
    time::{Duration, Instant},
};

use gevals::{
    evals::Shipped,
    mcp::{Client, ClientOptions, HubOptions, SessionKind, demo},
    primitive::LIST_CHANGED,
};
use serde_json::{Value, json};

use crate::support::{
    mcp::{self as fakes, Agent},
    world::{World, gevals},
};

const EVALS: &str = r#"kind: McpEvals
server: notes
evals:
  - id: read-plan
    name: Reads the note that is asked for
    gradingType: exact-match
    input:
      type: invocation
      messages:
        - {role: user, content: {type: text, text: What does my note called plan say?}}
    expected: {type: exact-match, toolName: notes_read, arguments: {title: plan}}
  - id: no-such-note
    name: Says that there is no such note
    gradingType: exact-match
    input: {type: execution, toolName: notes_read, arguments: {title: none}}
    expected: {type: exact-match, content: {isError: true}}
  - id: rename
    name: Renames a note
    gradingType: llm-as-judge
    input:
      type: scenario
      messages:
        - {role: user, content: {type: text, text: Rename my note "plan" to "old plan".}}
      maxTurns: 8
    expected: {type: llm-as-judge, rubric: The note has its new name.}
"#;

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const TOOLS: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;

/// A process, line by line.
struct Talk {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
}

/// Sends the lines of a stream as they arrive.
fn lines(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Returns the next line; if it takes longer, the process hangs.
fn next(lines: &Receiver<String>) -> String {
    lines.recv_timeout(Duration::from_secs(20)).expect("a line in time")
}

impl Talk {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), lines(child.stdout.take().unwrap()));
        let stderr = lines(child.stderr.take().unwrap());
        Self { child, stdin, stdout, stderr }
    }

    fn say(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    fn next(&mut self) -> String {
        next(&self.stdout)
    }

    fn ask(&mut self, line: &str) -> String {
        self.say(line);
        self.next()
    }

    fn list(&mut self, params: Value) -> Value {
        let request = json!({"jsonrpc": "2.0", "id": "l", "method": "evals/list", "params": params});
        serde_json::from_str(&self.ask(&request.to_string())).unwrap()
    }

    /// Waits for a line on standard error that contains this.
    fn complains(&mut self, of: &str) -> String {
        loop {
            let line = next(&self.stderr);
            if line.contains(of) {
                return line;
            }
        }
    }

    /// Closes its input; returns its exit status, and its remaining standard error.
    fn end(mut self) -> (Option<i32>, Vec<String>) {
        drop(self.stdin.take());
        let status = self.child.wait().unwrap().code();
        (status, self.stderr.iter().collect())
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The arguments for the demo server with evals beside it.
fn served<'a>(own: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["evals", "serve", "evals.yaml"][..], more, &["--", own, "demo-server", "--dir", "notes"]].concat()
}

fn own() -> String {
    gevals().into_string().unwrap()
}

/// A server as a shell script: `CASES` are the branches of a `case` over each line, in which `reply MEMBER` answers.
fn odd(cases: &str) -> String {
    format!(
        r#"reply() {{ rest=${{line#*\"id\":}}; printf '{{"jsonrpc":"2.0","id":%s,%s}}\n' "${{rest%%,*}}" "$1"; }}
server='"serverInfo":{{"name":"odd","version":"1.2"}},"protocolVersion":"2025-06-18"'
while read -r line; do case "$line" in
{cases}
  *'"initialize"'*) reply "\"result\":{{\"capabilities\":{{\"evals\":{{}},\"tools\":{{}}}},$server}}";;
  *'"tools/list"'*) reply '"result":{{"tools":[{{"name":"t","inputSchema":{{"type":"object"}}}}]}}';;
  *'"id"'*) reply '"error":{{"code":-32601,"message":"unknown method"}}';;
esac; done"#
    )
}

fn eval(id: &str, level: &str) -> Value {
    let input = match level {
        "execution" => json!({"type": level, "toolName": "t", "arguments": {"id": id}}),
        _ => json!({"type": level, "messages": [
            {"role": "user", "content": {"type": "text", "text": format!("Do what {id} says.")}}]}),
    };
    let expected = json!({"type": "llm-as-judge", "rubric": "It is done."});
    json!({"id": id, "name": format!("The eval {id}"), "gradingType": "llm-as-judge", "input": input, "expected": expected})
}

#[test]
fn a_shim_adds_evals_to_a_server_and_changes_nothing_else() {
    let world = World::new(&[("evals.yaml", EVALS)]);
    let own = own();
    let mut direct = Talk::start(world.command(&["demo-server", "--dir", "notes"]));
    let mut shim = Talk::start(world.command(&served(&own, &["--page-size", "2"])));
    let (plain, greeting) = (direct.ask(INITIALIZE), shim.ask(INITIALIZE));
    let added = r#""evals":{"listChanged":true},"experimental":{"evals":{"listChanged":true}},"extensions":{"gevals/evals":{"listChanged":true}},"#;
    assert_eq!(greeting.replacen(added, "", 1), plain);
    let said: Value = serde_json::from_str(&greeting).unwrap();
    assert_eq!(said.pointer("/result/capabilities/evals/listChanged"), Some(&json!(true)));
    for talk in [&mut direct, &mut shim] {
        talk.say(INITIALIZED);
    }
    // Everything else is forwarded unchanged: answers, refusals, IDs, spaces.
    let read = r#"{"id" : 7e0,"jsonrpc":"2.0", "method":"tools/call","params":{"name":"notes_read","arguments":{"title":"é"}}}"#;
    for line in [TOOLS, read, r#"{"jsonrpc":"2.0","id":9,"method":"evals/run"}"#] {
        assert_eq!(shim.ask(line), direct.ask(line), "{line}");
    }
    let first = shim.list(json!({}));
    assert_eq!((&first["id"], first["result"]["evals"].as_array().unwrap().len()), (&json!("l"), 2));
    let wanted: Value = serde_json::to_value(serde_yaml::from_str::<serde_yaml::Value>(EVALS).unwrap()).unwrap();
    assert_eq!(first["result"]["evals"][1], wanted["evals"][1]);
    let second = shim.list(json!({"cursor": first["result"]["nextCursor"]}));
    assert_eq!((&second["result"]["evals"][0], second["result"].get("nextCursor")), (&wanted["evals"][2], None));
    let of_level = shim.list(json!({"level": "execution"}));
    assert_eq!(of_level["result"], json!({"evals": [wanted["evals"][1]]}));
    for (params, message) in [
        (json!({"level": "unit"}), "unknown level `\"unit\"`; valid levels are `invocation`, `execution`, `scenario`"),
        (json!({"level": 3}), "unknown level `3`; valid levels are `invocation`, `execution`, `scenario`"),
        (json!({"cursor": "nothing"}), "`\"nothing\"` is not a cursor of `evals/list`"),
        (json!({"cursor": {"a": 1}}), "`{\"a\":1}` is not a cursor of `evals/list`"),
        (
            json!({"cursor": first["result"]["nextCursor"], "level": "scenario"}),
            "the cursor belongs to a list with another `level`: start without a cursor",
        ),
        (json!([]), "`params` of `evals/list` must be an object, not []"),
    ] {
        assert_eq!(shim.list(params)["error"], json!({"code": -32602, "message": message}));
    }
    assert_eq!(shim.end(), (Some(0), Vec::new()));
}

#[test]
fn a_server_can_be_given_as_a_command_a_url_or_a_config() {
    let world = World::new(&[("evals.yaml", EVALS)]);
    let own = own();
    let quoted = served(&own, &[]).iter().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(", ");
    let quoted = quoted.split_once(", ").unwrap().1.to_owned();
    world.write(
        "mcp.yaml",
        &format!("mcpServers:\n  shim: {{command: gevals, args: [\"evals\", {quoted}]}}\n  bare: {{command: gevals, args: [demo-server]}}\n"),
    );
    let rows = ["read-plan     invocation  exact-match   Reads the note that is asked for", "3 evals of "];
    let command = [&["evals", "list", "--", own.as_str()][..], &served(&own, &[])].concat();
    world.run(&command).expect(0, &rows);
    world.run(&["evals", "list", "--mcp-config", "mcp.yaml", "shim"]).expect(0, &rows);

    // HTTP on both sides.
    let mut process = Talk::start(world.command(&served(&own, &["--http", "127.0.0.1:0"])));
    let url = process.complains(" is listening on ").split_once(" is listening on ").unwrap().1.to_owned();
    world.run(&["evals", "list", &url]).expect(0, &rows);
    world.run(&["evals", "list", "--url", &url]).expect(0, &rows);
    let listed = world.run(&["evals", "list", "--url", &url, "--level", "scenario", "--format", "json"]).expect(0, &[]);
    let listed: Value = serde_json::from_str(&listed.out).unwrap();
    assert_eq!((&listed["evals"][0]["id"], listed["evals"].as_array().unwrap().len()), (&json!("rename"), 1));
    assert!(listed["digest"].as_str().unwrap().starts_with("sha256:"));
    let mut demo = Talk::start(world.command(&["demo-server", "--dir", "notes", "--http", "127.0.0.1:0"]));
    let url = demo.complains("listening on ").split_once("listening on ").unwrap().1.to_owned();
    world.run(&["evals", "list", &url]).expect(2, &["ships no evals", "`gevals evals serve` adds evals to any server"]);
    let behind = ["evals", "serve", "evals.yaml", "--http", "127.0.0.1:0", "--url", &url];
    let mut behind = Talk::start(world.command(&behind));
    let url = behind.complains(" is listening on ").split_once(" is listening on ").unwrap().1.to_owned();
    world.run(&["evals", "list", &url]).expect(0, &rows);
    world.run(&["evals", "check", &url]).expect(0, &["no findings in 1 file"]);
    drop((process, demo, behind));

    for (args, said) in [
        (&["evals", "list"][..], "specify a server: `-- COMMAND`, a URL, or `--mcp-config FILE NAME`"),
        (&["evals", "list", "notes"], "`notes` is not a URL"),
        (&["evals", "list", "--url", "http://x/", "--", "true"], "specify one server"),
        (&["evals", "list", "--mcp-config", "mcp.yaml"], "specify a server of `mcp.yaml`: `shim`, `bare`"),
        (&["evals", "list", "--mcp-config", "mcp.yaml", "shi"], "did you mean `shim`?"),
        (&["evals", "list", "--mcp-config", "none.yaml", "a"], "cannot read `none.yaml`: no such file"),
        (&["evals", "list", "--mcp-config", "evals.yaml", "a"], "evals.yaml:1:1"),
        (&["evals", "list", "--level", "unit", "--", "true"], "expected one of invocation, execution, scenario"),
        (&["evals", "list", "--header", "a: b", "--", "true"], "`--header` requires a server with a URL"),
        (&["evals", "list", "--mcp-config", "mcp.yaml", "bare"], "ships no evals"),
        (&["evals", "serve", "none.yaml", "--", "true"], "cannot read `none.yaml`"),
        (&["evals", "serve", "mcp.yaml", "--", "true"], "`mcp.yaml` has errors and is not served"),
        (&["evals", "serve", "evals.yaml", "--page-size", "0", "--", "true"], "write a number above 0"),
    ] {
        world.run(args).expect(2, &[said]);
    }
    world.run(&["evals", "list", "--", "none-such"]).expect(3, &["no such command `none-such`"]);
    world.run(&["evals", "list", "--", "true"]).expect(3, &["exited with status 0"]);
    world
        .run(&["evals", "serve", "evals.yaml", "--http", "127.0.0.1:0", "--", "true"])
        .expect(3, &["exited with status 0"]);
    assert_eq!(world.survivors(), Vec::<String>::new());
}

#[test]
fn a_changed_file_is_served_unless_it_is_invalid() {
    let world = World::new(&[("evals.yaml", EVALS)]);
    let own = own();
    let mut shim = Talk::start(world.command(&served(&own, &["--page-size", "1"])));
    shim.ask(INITIALIZE);
    shim.say(INITIALIZED);
    let mut seen = Vec::new();
    let mut page = shim.list(json!({}));
    seen.push(page["result"]["evals"][0]["id"].clone());
    let changed = || json!({"jsonrpc": "2.0", "method": LIST_CHANGED});
    world.write("evals.yaml", &EVALS.replace("id: rename", "id: rename-it"));
    assert_eq!(serde_json::from_str::<Value>(&shim.next()).unwrap(), changed());
    // A client that has read a part of the old list can read the rest of it.
    while let Some(cursor) = page["result"].get("nextCursor").cloned() {
        page = shim.list(json!({"cursor": cursor}));
        seen.push(page["result"]["evals"][0]["id"].clone());
    }
    assert_eq!(seen, ["read-plan", "no-such-note", "rename"]);
    let ids = |shim: &mut Talk| shim.list(json!({"level": "scenario"}))["result"]["evals"][0]["id"].clone();
    assert_eq!(ids(&mut shim), "rename-it");
    // Broken, then deleted, then restored: only a valid file has an effect, and an unchanged one is not announced.
    world.write("evals.yaml", &EVALS.replace("toolName: notes_read,", "tolName: notes_read,"));
    let line = shim.complains("error[");
    assert!(line.contains("evals.yaml:11") && line.contains("tolName"), "{line}");
    std::fs::remove_file(world.path("evals.yaml")).unwrap();
    shim.complains("the evals are unchanged: cannot read `evals.yaml`");
    assert_eq!(ids(&mut shim), "rename-it");
    world.write("evals.yaml", EVALS);
    assert_eq!(serde_json::from_str::<Value>(&shim.next()).unwrap(), changed());
    assert_eq!(ids(&mut shim), "rename");
    assert_eq!(shim.end().0, Some(0));
}

#[test]
fn ten_thousand_evals_and_a_large_fixture_are_served() {
    let world = World::new(&[]);
    let mut evals: Vec<Value> = (0..10_000).map(|n| eval(&format!("e{n}"), "execution")).collect();
    world.write("evals.yaml", &json!({"kind": "McpEvals", "evals": evals}).to_string());
    let own = own();
    let command = [&["evals", "list", "--format", "json", "--", own.as_str()][..], &served(&own, &[])].concat();
    let started = Instant::now();
    let listed = world.run(&command).expect(0, &[]);
    println!("10,000 evals, listed by a process from a process: {:?}", started.elapsed());
    let listed: Value = serde_json::from_str(&listed.out).unwrap();
    assert_eq!(listed["evals"], Value::from(evals.clone()));

    evals.truncate(3);
    evals[1]["input"]["arguments"] = json!({"blob": "Fixture of a page. ".repeat(60_000)});
    world.write("evals.yaml", &json!({"evals": evals}).to_string());
    let listed = world.run(&command).expect(0, &[]);
    let listed: Value = serde_json::from_str(&listed.out).unwrap();
    assert_eq!(listed["evals"], Value::from(evals));
    let check = [&["evals", "check", "evals.yaml", "--", own.as_str()][..], &served(&own, &[])].concat();
    // The demo server has no tool `t`; the output about the file is short nevertheless.
    let checked = world.run(&check).expect(1, &["error[unknown-tool]: the server `", "has no tool `t`"]);
    assert!(checked.out.len() < 20_000, "{} bytes", checked.out.len());
}

#[test]
fn invalid_servers_are_reported_and_endless_lists_are_stopped() {
    let world = World::new(&[]);
    let items = |ids: &[(&str, &str)]| Value::from(ids.iter().map(|(id, level)| eval(id, level)).collect::<Vec<_>>());
    let list = |cases: &str, args: &[&str]| {
        let script = odd(cases);
        world.run(&[&["evals", "list"][..], args, &["--", "sh", "-c", &script]].concat())
    };
    let reply = |result: Value| format!("reply '\"result\":{}'", result.to_string().replace('\'', "'\\''"));
    let page = |evals: &Value, next: Option<&str>| {
        let next = next.map(Value::from).unwrap_or_default();
        reply(json!({"evals": evals, "nextCursor": next}))
    };
    let two = items(&[("a", "invocation"), ("b", "execution")]);

    // Any level, regardless of the requested one.
    let all = format!("*evals/list*) {};;", page(&two, None));
    let ran = list(&all, &["--level", "execution"]).expect(0, &["b   execution", "1 eval of odd 1.2"]);
    assert!(
        ran.err.contains("the server ignores `level: execution`: 1 eval of another level is left out here"),
        "{}",
        ran.err
    );
    assert!(!ran.out.contains("invocation"), "{}", ran.out);

    for (cases, why) in [
        (format!("*evals/list*) {};;", page(&two, Some("x"))), "its pages are circular: a cursor was returned twice"),
        (
            format!("*evals/list*) n=$((n+1)); {};;", page(&json!([]), Some("'$n'")).replace("'\\''$n'\\''", "'$n'")),
            "the list has more than 10000 pages",
        ),
        ("*evals/list*) reply '\"result\":{\"tools\":[]}';;".to_owned(), "the result has no list `evals`"),
        ("*evals/list*) reply '\"result\":{\"evals\":{}}';;".to_owned(), "the result has no list `evals`"),
        (
            "*evals/list*) reply '\"result\":{\"evals\":[],\"nextCursor\":3}';;".to_owned(),
            "`nextCursor` is not a string",
        ),
        ("*evals/list*) reply '\"error\":{\"code\":-32000,\"message\":\"not now\"}';;".to_owned(), "not now (-32000)"),
        (
            format!(
                "*'\"cursor\"'*) reply '\"error\":{{\"code\":-32602,\"message\":\"no\"}}';; *evals/list*) {};;",
                page(&two, Some("x"))
            ),
            "it refuses its own cursor: no (-32602)",
        ),
        ("*evals/list*) exit 7;;".to_owned(), "`sh` exited with status 7"),
    ] {
        list(&cases, &[]).expect(3, &[&format!("error: `evals/list` of `odd`: {why}")]);
    }
    list("*evals/list*) ;;", &["--timeout", "300ms"]).expect(3, &["no answer within 0.3 s"]);

    // If the list changes in the middle, it is read again, and contains no duplicates.
    let moved = items(&[("a", "invocation"), ("c", "invocation")]);
    let cases = format!(
        "*'\"cursor\"'*) case $n in 1) echo '{{\"jsonrpc\":\"2.0\",\"method\":\"{LIST_CHANGED}\"}}'; {};; *) {};; esac;;
         *evals/list*) n=$((n+1)); {};;",
        page(&items(&[("a", "invocation")]), None),
        page(&items(&[("d", "invocation")]), None),
        page(&moved, Some("x")),
    );
    let listed = list(&cases, &["--format", "json"]).expect(0, &[]);
    let listed: Value = serde_json::from_str(&listed.out).unwrap();
    let ids: Vec<_> = listed["evals"].as_array().unwrap().iter().map(|e| e["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["a", "c", "d"]);

    // Texts that would control a terminal.
    let mut hostile = eval("a", "invocation");
    hostile["name"] = "\u{1b}[2J\u{202e}gone\r\nsecond".into();
    let ran =
        list(&format!("*evals/list*) {};;", page(&json!([hostile]), None)), &[]).expect(0, &[r"\u{1b}[2J\u{202e}gone"]);
    assert!(!ran.out.contains(['\u{1b}', '\u{202e}', '\r']), "{:?}", ran.out);
}

#[test]
fn evals_of_a_server_are_checked_with_their_location() {
    let world = World::new(&[]);
    let check = |evals: Value, more: &[&str]| {
        let result = json!({"evals": evals}).to_string().replace('\'', "'\\''");
        let script = odd(&format!("*evals/list*) reply '\"result\":{result}';;"));
        world.run(&[&["evals", "check"][..], more, &["--", "sh", "-c", &script]].concat())
    };
    let with = |change: &dyn Fn(&mut Value)| {
        let mut eval = eval("a", "execution");
        change(&mut eval);
        json!([eval])
    };
    check(json!([eval("a", "execution")]), &[]).expect(0, &["no findings in 1 file"]);
    check(json!([]), &[]).expect(0, &["no findings in 1 file"]);
    // A page from a server is not in a file: its location is that of the list, and there are no fixes.
    let twice = check(json!([eval("a", "execution"), eval("a", "invocation")]), &[])
        .expect(1, &["error[eval-id]: duplicate id `a`", "[evals/list of odd:", "first used here"]);
    assert!(!twice.out.contains("--fix"), "{}", twice.out);
    let json = check(with(&|eval| eval["input"]["toolName"] = "tt".into()), &["--format", "json"]).expect(1, &[]);
    let report: Value = serde_json::from_str(&json.out).unwrap();
    let finding = &report["diagnostics"][0];
    assert_eq!(
        (&finding["rule"], &finding["path"], &finding["line"], &finding["fix"]),
        (&json!("unknown-tool"), &json!("evals/list of odd"), &json!(9), &Value::Null)
    );
    // A server cannot silence findings in what it sends.
    let silent = with(&|eval| {
        eval["expected"]["rubric"] = "ghp_abcdefghijklmnopqrstuvwxyz0123456789 # gevals: allow(secret-in-clear)".into();
    });
    check(silent, &[]).expect(0, &["warning[secret-in-clear]"]);
    check(with(&|eval| eval["extra"] = 1.into()), &[]).expect(1, &["unknown key `extra` in an eval"]);
    check(with(&|eval| eval["id"] = Value::Null), &[]).expect(1, &["an eval has no `id`"]);
    check(json!([3, []]), &[]).expect(1, &["an eval must be a mapping, not a number"]);

    // A name that would control a terminal.
    let named =
        odd(r#"*'"initialize"'*) reply '"result":{"capabilities":{"evals":{}},"serverInfo":{"name":"a\u001b[2J"}}';;
           *evals/list*) reply '"result":{"evals":[3]}';;"#);
    let ran = world.run(&["evals", "check", "--", "sh", "-c", &named]).expect(1, &[r"evals/list of a\u{1b}[2J:"]);
    assert!(!ran.out.contains('\u{1b}'), "{:?}", ran.out);

    // An interrupt also stops the server.
    let waiting = world.start(world.command(&["evals", "list", "--", "sh", "-c", "touch begun; exec sleep 100"]));
    world.wait_for("begun");
    waiting.signal(rustix::process::Signal::TERM);
    waiting.end().expect(143, &[]);
    assert_eq!(world.survivors(), Vec::<String>::new());

    // IDs that are different each time.
    let one = json!({"evals": [eval("x$n", "execution")]}).to_string().replace("x$n", "x'$n'");
    let script = odd(&format!("*evals/list*) n=$((n+1)); reply '\"result\":{one}';;"));
    world
        .run(&["evals", "check", "--", "sh", "-c", &script])
        .expect(1, &["error[eval-id]: the id `x1` is missing when the list is read again"]);
    let lost = odd("*tools/list*) exit 3;; *evals/list*) reply '\"result\":{\"evals\":[]}';;");
    world
        .run(&["evals", "check", "--", "sh", "-c", &lost])
        .expect(3, &["`tools/list` of `odd`", "exited with status 3"]);
}

#[test]
fn a_file_is_checked_with_and_without_a_server() {
    let world =
        World::new(&[("evals.yaml", EVALS), ("page.json", &json!({"evals": [eval("a", "scenario")]}).to_string())]);
    let own = own();
    let example = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/evals/notes.yaml");
    world.write("examples/notes.yaml", &std::fs::read_to_string(example).unwrap());
    let example = ["evals", "check", "examples/notes.yaml", "--", &own, "demo-server", "--dir", "notes"];
    world.run(&example).expect(0, &["no findings in 1 file"]);
    world.run(&["evals", "check", "evals.yaml"]).expect(0, &["no findings in 1 file"]);
    world.run(&["check", "evals.yaml"]).expect(0, &["no findings in 1 file"]);
    world.run(&["check", "."]).expect(0, &["no findings in 2 files"]);
    world.run(&["evals", "check", "page.json"]).expect(0, &["no findings in 1 file"]);
    // A name is corrected manually here, because `gevals check --fix` does not know the tools of this server.
    world.write(
        "slip.yaml",
        &world.read("examples/notes.yaml").replacen("toolName: notes_read", "toolName: notes_raed", 1),
    );
    let slip = ["evals", "check", "slip.yaml", "--", &own, "demo-server", "--dir", "notes"];
    let slip = world.run(&slip).expect(1, &["has no tool `notes_raed`", "did you mean `notes_read`?"]);
    assert!(!slip.out.contains("--fix"), "{}", slip.out);
    let beside = ["evals", "check", "evals.yaml", "--", &own, "demo-server", "--dir", "notes"];
    world.run(&beside).expect(0, &["no findings in 1 file"]);
    world.write(
        "evals.yaml",
        &EVALS.replace("{title: none}", "{titel: none}").replace("content: {isError: true}", "content: none"),
    );
    world.run(&["evals", "check", "evals.yaml"]).expect(0, &[]);
    let misspelt =
        ["unknown key `titel` in `arguments`", "did you mean `title`?", "according to its schema", "evals.yaml:15:"];
    world.run(&beside).expect(1, &misspelt);
    // Offline, the lock knows the tools.
    let tool = r#"{inputSchema: {type: object, properties: {title: {type: string}}, additionalProperties: false}}"#;
    world.write("gevals.lock", &format!("version: 1\nservers: {{notes: {{tools: {{notes_read: {tool}}}}}}}\n"));
    for command in [&["evals", "check", "evals.yaml"][..], &["check", "evals.yaml"]] {
        world
            .run(command)
            .expect(1, &["unknown key `titel` in `arguments`", "according to its schema in `gevals.lock`"]);
    }
    world.write("evals.yaml", "\u{1b}[2J");
    let ran = world.run(&["evals", "check", "evals.yaml"]).expect(1, &["error["]);
    assert!(!ran.out.contains('\u{1b}'), "{:?}", ran.out);
    std::fs::write(world.path("evals.yaml"), b"evals: [\xff]").unwrap();
    world.run(&["evals", "check", "evals.yaml"]).expect(1, &["error[syntax]"]);
    world.run(&["evals", "check", "none.yaml"]).expect(2, &["cannot read `none.yaml`: no such file"]);
    world.run(&["explain", "evals"]).expect(0, &["# Evals that a server ships"]);
    world.run(&["schema", "evals"]).expect(0, &["Evals of an MCP server"]);
}

#[test]
fn the_file_in_the_documentation_is_valid() {
    let page = include_str!("../docs/evals.md");
    let file = page.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    let (shipped, said) = Shipped::read("evals.yaml".as_ref(), file.into(), 100).unwrap();
    assert_eq!((shipped.len(), said.to_string()), (3, String::new()));
}

fn shipped() -> Shipped {
    Shipped::parse("evals.yaml", EVALS).unwrap()
}

#[tokio::test]
async fn clients_without_a_handshake_are_served_and_notified_of_requested_changes() {
    let shipped = shipped();
    let (hub, mut server) = fakes::hub(HubOptions { added: Some(shipped.added()), ..HubOptions::default() });
    let mut client = Agent::on(&hub, SessionKind::Client);
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}});
    let request = |id: u32, method: &str, mut params: Value| {
        params["_meta"] = meta.clone();
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
    };
    client.send(&request(1, "server/discover", json!({}))).await;
    let asked = server.next().await;
    assert_eq!(asked, request(1, "server/discover", json!({})));
    server.send(r#"{"jsonrpc":"2.0","id":1,"result": {"supportedVersions":["2026-07-28"], "capabilities" :{"tools":{} },"x":1.0}}"#).await;
    let capability = r#"{"listChanged":true}"#;
    assert_eq!(
        client.next().await,
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"result": {{"supportedVersions":["2026-07-28"], "capabilities" :{{"evals":{capability},"experimental":{{"evals":{capability}}},"extensions":{{"gevals/evals":{capability}}},"tools":{{}} }},"x":1.0}}}}"#
        )
    );
    client.send(&request(2, "evals/list", json!({"level": "scenario"}))).await;
    let listed = client.next_json().await;
    assert_eq!(
        (&listed["result"]["evals"][0]["id"], &listed["result"]["resultType"]),
        (&json!("rename"), &json!("complete"))
    );
    client.send(&request(3, "evals/list", json!({"cursor": "?"}))).await;
    assert_eq!(client.next_json().await["error"]["code"], -32602);
    // Nothing is sent without a subscription.
    hub.announce(LIST_CHANGED);
    let notifications = json!({"toolsListChanged": true, "evalsListChanged": true});
    client.send(&request(4, "subscriptions/listen", json!({"notifications": notifications}))).await;
    assert_eq!(server.next_json().await["params"]["notifications"], notifications);
    server.send(r#"{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/subscriptionId":4}}}"#).await;
    let acknowledged = client.next_json().await;
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(acknowledged["params"]["notifications"], notifications);
    hub.announce(LIST_CHANGED);
    let meta = json!({"io.modelcontextprotocol/subscriptionId": 4});
    assert_eq!(client.next_json().await, json!({"jsonrpc": "2.0", "method": LIST_CHANGED, "params": {"_meta": meta}}));
}

#[tokio::test]
async fn a_second_client_reuses_the_handshake_and_both_are_notified_of_changes() {
    let shipped = shipped();
    let (hub, mut server) = fakes::hub(HubOptions { added: Some(shipped.added()), ..HubOptions::default() });
    let (mut one, mut other) = (Agent::on(&hub, SessionKind::Client), Agent::on(&hub, SessionKind::Client));
    one.send(INITIALIZE).await;
    // If a server implements the primitive itself, the capability is declared only once.
    let request = server.next_json().await;
    server
        .reply(&request, json!({"capabilities": {"evals": {"listChanged": false, "own": 1}}, "serverInfo": {}}))
        .await;
    let greeting = one.next_json().await;
    let capability = json!({"listChanged": true});
    assert_eq!(
        greeting["result"]["capabilities"],
        json!({"evals": {"listChanged": true, "own": 1}, "experimental": {"evals": capability},
            "extensions": {"gevals/evals": capability}})
    );
    other.send(INITIALIZE).await;
    assert_eq!(other.next_json().await, greeting);
    hub.announce(LIST_CHANGED);
    for client in [&mut one, &mut other] {
        assert_eq!(client.next_json().await, json!({"jsonrpc": "2.0", "method": LIST_CHANGED}));
        client.send(r#"{"jsonrpc":"2.0","id":1,"method":"evals/list"}"#).await;
        assert_eq!(client.next_json().await["result"]["evals"].as_array().unwrap().len(), 3);
    }
    // The server's own requests are sent to a client, and its answer to the server.
    server.send(r#"{"jsonrpc":"2.0","id":5,"method":"roots/list"}"#).await;
    assert_eq!(other.next_json().await["method"], "roots/list");
    other.send(r#"{"jsonrpc":"2.0","id":5,"result":{"roots":[]}}"#).await;
    assert_eq!(server.next_json().await["result"], json!({"roots": []}));
}

/// Over HTTP, the rules are the same, for clients with and without a session.
#[tokio::test]
async fn the_front_over_http_serves_evals_in_both_eras() {
    let shipped = shipped();
    let (hub, mut server) = fakes::hub(HubOptions { added: Some(shipped.added()), ..HubOptions::default() });
    let front = hub.serve_http(SessionKind::Client).await.unwrap();
    let _ = rustls::crypto::ring::default_provider().install_default();
    let http = reqwest::Client::new();
    let post = |body: String, headers: Vec<(&'static str, String)>| {
        let accept = "application/json, text/event-stream";
        let request = http.post(&front.url).header("accept", accept).header("content-type", "application/json");
        headers.into_iter().fold(request, |request, (name, value)| request.header(name, value)).body(body)
    };
    let (greeting, ()) = tokio::join!(post(INITIALIZE.to_owned(), vec![]).send(), async {
        let request = server.next_json().await;
        server.reply(&request, json!({"capabilities": {}, "serverInfo": {}})).await;
    });
    let greeting = greeting.unwrap();
    let session = greeting.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    let greeting: Value = serde_json::from_str(&greeting.text().await.unwrap()).unwrap();
    assert_eq!(greeting.pointer("/result/capabilities/evals"), Some(&json!({"listChanged": true})));
    let ask = async |method: &str, params: Value, headers: Vec<(&'static str, String)>| {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let response = post(body, headers).send().await.unwrap();
        let status = response.status().as_u16();
        (status, serde_json::from_str::<Value>(&response.text().await.unwrap()).unwrap())
    };
    let with_session = || vec![("mcp-session-id", session.clone())];
    let (status, listed) = ask("evals/list", json!({"level": "execution"}), with_session()).await;
    assert_eq!((status, &listed["result"]["evals"][0]["id"]), (200, &json!("no-such-note")));
    let (status, refused) = ask("evals/list", json!({"level": "unit"}), with_session()).await;
    assert_eq!((status, &refused["error"]["code"]), (200, &json!(-32602)));
    // Messages that belong to no request arrive on the stream of a GET.
    let stream = http.get(&front.url).header("accept", "text/event-stream").header("mcp-session-id", &session);
    let mut stream = stream.send().await.unwrap();
    hub.announce(LIST_CHANGED);
    let event = tokio::time::timeout(Duration::from_secs(10), stream.chunk()).await.unwrap().unwrap().unwrap();
    assert!(String::from_utf8_lossy(&event).contains(LIST_CHANGED), "{event:?}");

    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}});
    let stateless =
        |method: &str| vec![("mcp-protocol-version", "2026-07-28".to_owned()), ("mcp-method", method.to_owned())];
    let (status, listed) = ask("evals/list", json!({"_meta": meta}), stateless("evals/list")).await;
    assert_eq!((status, &listed["result"]["resultType"]), (200, &json!("complete")));
    let params = json!({"_meta": meta, "cursor": "?"});
    let (status, refused) = ask("evals/list", params, stateless("evals/list")).await;
    assert_eq!((status, &refused["error"]["code"]), (200, &json!(-32602)));
    let (status, refused) = ask("evals/list", json!({"_meta": meta}), stateless("tools/list")).await;
    assert_eq!((status, &refused["error"]["code"]), (400, &json!(-32020)));
}

/// A server written with rmcp, whose types have no field for the capability.
#[tokio::test]
async fn a_server_in_rust_ships_its_own_evals() {
    let dir = tempfile::tempdir().unwrap();
    let (near, far) = tokio::io::duplex(64 * 1024);
    let notes = dir.path().to_owned();
    tokio::spawn(async move { demo::serve(&notes, far).await });
    let hub = shipped().hub(near);
    let client = hub.client(SessionKind::Client, ClientOptions::default()).await.unwrap();
    assert!(client.offers("evals") && client.offers("tools"));
    let listed = client.request("evals/list", None).await.unwrap();
    assert_eq!(listed["evals"][2]["input"]["maxTurns"], 8);
    let answer = client.call_tool("notes_read", json!({"title": "none"})).await.unwrap();
    assert!(answer.is_error);
    let wrong =
        Shipped::parse("evals.yaml", EVALS.replace("gradingType: exact-match", "gradingType: exact")).unwrap_err();
    assert!(
        wrong.to_string().contains("evals.yaml:6:18: error[invalid-value] `gradingType` cannot be `exact`"),
        "{wrong}"
    );
    drop(client);
    hub.close().await;
}

/// Arbitrary params that a client may send to list evals.
#[tokio::test]
async fn the_shim_handles_any_params() {
    let shipped = shipped();
    let (hub, mut server) = fakes::hub(HubOptions { added: Some(shipped.added()), ..HubOptions::default() });
    let client = Client::start(hub.connect(SessionKind::Client), ClientOptions::default());
    let (client, ()) = tokio::join!(async { client.initialize().await.map(|_| client).unwrap() }, async {
        server.answer_initialize(json!({})).await;
    });
    let mut faults = 0;
    for params in
        [json!(null), json!(3), json!("x"), json!({"cursor": ""}), json!({"level": ""}), json!({"cursor": "////"})]
    {
        match client.request("evals/list", Some(params.clone())).await {
            Ok(result) => assert!(params.is_null() && result["evals"].is_array(), "{params}"),
            Err(error) => {
                faults += 1;
                assert!(error.to_string().ends_with("(-32602)"), "{params}: {error}");
            }
        }
    }
    assert_eq!(faults, 5);
}
