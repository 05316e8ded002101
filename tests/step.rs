//! The results of the built-in steps: with real processes, files and HTTP, and with a fake host where timing matters.
#![cfg(all(feature = "run", target_os = "linux"))]

use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{Arc, LazyLock},
    time::Duration,
};

use axum::{Router, body::Bytes, http::HeaderMap, routing};
use futures_util::future::BoxFuture;
use gevals::{
    builtin::{
        BUILTINS,
        expect::{JsonExpect, TextExpect, TextFields},
        steps_http::FieldExpect,
        tool,
    },
    event::{ExitReport, Outcome},
    hir::{Dialect, Operation, OperationKind},
    host::{FakeHost, Host, HttpFault, HttpFaultKind, RealHost},
    plan::StepAction,
    signature::{Control, Schema},
    step::{
        AgentState, Context, Contract, Done, TaskState, ToolAnswer, ToolFault, Tools, compare, no_such_tool, run_of,
    },
};
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

static HOST: LazyLock<RealHost> = LazyLock::new(RealHost::new);

/// Answers every call in the same way.
struct Answer {
    call: Result<ToolAnswer, ToolFault>,
    /// What the server lists first, and what it lists when it is queried again.
    contracts: [Result<Contract, ToolFault>; 2],
}

impl Answer {
    fn new(call: Result<ToolAnswer, ToolFault>) -> Self {
        Self { call, contracts: [Ok(Contract::default()), Ok(Contract::default())] }
    }
}

impl Tools for Answer {
    fn contract<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, Result<Contract, ToolFault>> {
        Box::pin(async { self.contracts[0].clone() })
    }

    fn contract_anew<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, Result<Contract, ToolFault>> {
        Box::pin(async { self.contracts[1].clone() })
    }

    fn call<'a>(&'a self, server: &'a str, tool: &'a str, args: Value) -> BoxFuture<'a, Result<ToolAnswer, ToolFault>> {
        assert_eq!((server, tool), ("notes", "search"));
        assert_eq!(args, json!({ "query": "x" }));
        Box::pin(async { self.call.clone() })
    }
}

struct Step<'a> {
    host: &'a dyn Host,
    dialect: Dialect,
    dir: PathBuf,
    env: Vec<(String, String)>,
    timeout: Duration,
    cancel: CancellationToken,
    task: TaskState,
    tools: Answer,
}

impl Step<'static> {
    fn new(dialect: Dialect, dir: &Path) -> Self {
        Self::with(&*HOST, dialect, dir)
    }
}

impl<'a> Step<'a> {
    fn with(host: &'a dyn Host, dialect: Dialect, dir: &Path) -> Self {
        Self {
            host,
            dialect,
            dir: dir.to_owned(),
            env: vec![("FROM".to_owned(), "task".to_owned()), ("BOTH".to_owned(), "task".to_owned())],
            timeout: Duration::from_secs(10),
            cancel: CancellationToken::new(),
            task: TaskState::default(),
            tools: Answer::new(Err(ToolFault::Lost("nobody".to_owned()))),
        }
    }

    async fn run(&self, name: &'static str, args: Value) -> Done {
        self.expect(name, args, Value::Null).await
    }

    async fn expect(&self, name: &'static str, args: Value, expect: Value) -> Done {
        let builtin = BUILTINS.iter().find(|b| b.name == name && b.dialect == self.dialect).unwrap();
        self.go(OperationKind::Builtin(name), (builtin.signature)(), args, expect).await
    }

    async fn tool(&self, expect: Value) -> Done {
        let kind = OperationKind::Tool { server: "notes".to_owned(), tool: "search".to_owned() };
        let signature = tool::signature(self.dialect, "n.search", None);
        self.go(kind, signature, json!({ "args": { "query": "x" } }), expect).await
    }

    async fn go(
        &self,
        kind: OperationKind,
        signature: gevals::signature::Signature,
        args: Value,
        expect: Value,
    ) -> Done {
        let run = run_of(&kind, self.dialect);
        let op = Operation { name: signature.name.clone(), kind, signature: Arc::new(signature) };
        let step = StepAction { id: None, op, args: Vec::new(), expect: None, outputs: None, var: None };
        run(Context {
            host: self.host,
            step: &step,
            dialect: self.dialect,
            dir: &self.dir,
            env: &self.env,
            args,
            expect: &|_: &Map<String, Value>| Ok((!expect.is_null()).then(|| expect.clone())),
            timeout: self.timeout,
            cancel: &self.cancel,
            task: &self.task,
            tools: &self.tools,
            extensions: &gevals::extension::Extensions::new(self.host, &gevals::plan::Extensions::default(), None),
            phase: "setup",
            judge: None,
            secret: &|_| {},
            snapshot: None,
            judged: &|_| {},
        })
        .await
    }
}

/// A directory that is removed at the end of its test.
struct Temp(PathBuf);

impl Temp {
    fn new() -> Self {
        Self(HOST.temp_dir().unwrap())
    }

    fn file(&self, name: &str, text: &str, mode: u32) {
        HOST.write(&self.0.join(name), text.as_bytes(), Some(mode)).unwrap();
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        let _ = HOST.remove(&self.0);
    }
}

#[track_caller]
fn outcome(done: &Done, outcome: Outcome, message: &str) {
    assert_eq!(done.outcome, outcome, "{done:?}");
    assert!(done.message.contains(message), "{done:?}");
}

fn subjects(done: &Done) -> Vec<&str> {
    done.differences.iter().map(|d| d.subject.as_str()).collect()
}

#[test]
fn every_leaf_step_is_implemented() {
    let temp = Temp::new();
    for builtin in BUILTINS.iter().filter(|b| matches!((b.signature)().control, Control::Leaf)) {
        let step = Step::new(builtin.dialect, &temp.0);
        let run = step.run(builtin.name, json!({}));
        let done = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(run);
        outcome(&done, Outcome::Broken, "");
        assert!(!done.message.contains("by itself"), "{}: {done:?}", builtin.name);
    }
}

#[tokio::test]
async fn commands() {
    let temp = Temp::new();
    std::fs::create_dir(temp.0.join("sub")).unwrap();
    let step = Step::new(Dialect::Portable, &temp.0);

    let done = step.run("command", json!({ "run": "echo out; echo err >&2; printf '\\n\\n'" })).await;
    outcome(&done, Outcome::Passed, "");
    assert_eq!(Value::Object(done.locals), json!({ "stdout": "out", "stderr": "err", "exitCode": 0 }));

    let env = json!({ "BOTH": "step", "PORT": 80 });
    let done = step.run("command", json!({ "run": "echo $FROM $BOTH $PORT; pwd", "env": env, "workdir": "sub" })).await;
    assert_eq!(done.stdout, format!("task step 80\n{}", temp.0.join("sub").display()));

    outcome(&step.run("command", json!({ "run": "exit 3" })).await, Outcome::Failed, "status 3");
    outcome(&step.run("command", json!({ "run": "nosuch" })).await, Outcome::Failed, "command not found");
    let expect = json!({ "exitCode": 3, "stdout": "a\n", "stderr": { "contains": "b", "matches": "^b+$" } });
    let run = json!({ "run": "echo a; echo bb >&2; exit 3" });
    outcome(&step.expect("command", run.clone(), expect).await, Outcome::Passed, "");
    let any = json!({ "exitCode": "any", "stdout": "a" });
    outcome(&step.expect("command", run.clone(), any).await, Outcome::Passed, "");
    let fails = json!({ "exitCode": { "not": 0 } });
    outcome(&step.expect("command", run.clone(), fails.clone()).await, Outcome::Passed, "");
    outcome(&step.expect("command", json!({ "run": "true" }), fails.clone()).await, Outcome::Failed, "status 0");
    // A command that does not exist or is killed does not fail as expected.
    for (run, message) in [
        ("nosuch get pod web", "status 127 (command not found)"),
        ("/etc/passwd", "status 126 (not executable)"),
        ("kill -9 $$", "signal 9 (SIGKILL)"),
    ] {
        outcome(&step.expect("command", json!({ "run": run }), fails.clone()).await, Outcome::Broken, message);
    }
    let done = step.expect("command", run, json!({ "stdout": "b", "stderr": { "matches": "c" } })).await;
    outcome(&done, Outcome::Failed, "status 3; `stdout`, `stderr` are not as expected");
    assert_eq!(subjects(&done), ["exitCode", "stdout", "stderr"]);

    outcome(
        &step.expect("command", json!({ "run": "true" }), json!({ "stdout": { "matches": "(" } })).await,
        Outcome::Broken,
        "not a pattern",
    );
    // A text that is not JSON meets no condition, not even that a value is absent.
    for (printed, wanted, outcome_, message) in [
        (r#"{"n": 2}"#, json!({ "path": "$.n", "equals": 2 }), Outcome::Passed, ""),
        (
            r#"{"n": 2}"#,
            json!([{ "path": "$.n", "type": "number" }, { "path": "$.n", "above": 2 }]),
            Outcome::Failed,
            "`stdout.json $.n`",
        ),
        ("n: 2", json!({ "path": "$.n", "exists": false }), Outcome::Failed, "`stdout` is not as expected"),
    ] {
        let run = json!({ "run": format!("echo '{printed}'") });
        outcome(&step.expect("command", run, json!({ "stdout": { "json": wanted } })).await, outcome_, message);
    }
    // Even if the status differs: nothing was compared.
    let bad = step.expect("command", json!({ "run": "exit 3" }), json!({ "stdout": { "matches": "(" } })).await;
    outcome(&bad, Outcome::Broken, "`(` is not a pattern");
    outcome(&step.run("command", json!({ "run": "kill -9 $$" })).await, Outcome::Broken, "signal 9 (SIGKILL)");
    let nul = json!({ "run": "true", "env": { "A": "an answer\0" } });
    outcome(&step.run("command", nul).await, Outcome::Broken, "its variable `A` contains a NUL character");
    outcome(
        &step.expect("command", json!({ "run": "kill -9 $$" }), json!({ "exitCode": 137 })).await,
        Outcome::Passed,
        "",
    );
    outcome(
        &step.expect("command", json!({ "run": "kill -9 $$" }), json!({ "exitCode": "any" })).await,
        Outcome::Passed,
        "",
    );
    outcome(&step.run("command", json!({ "run": "true", "workdir": "no" })).await, Outcome::Broken, "does not exist");
    outcome(
        &step.run("command", json!({ "run": "true", "shell": "/no/sh" })).await,
        Outcome::Broken,
        "no program `/no/sh`",
    );

    let step = Step { timeout: Duration::from_millis(300), ..step };
    let done = step.run("command", json!({ "run": "echo begun; sleep 60" })).await;
    outcome(&done, Outcome::Broken, "did not end within 300ms");
    assert_eq!((done.stdout.as_str(), done.exit), ("begun", Some(ExitReport::TimedOut { killed: false })));
    step.cancel.cancel();
    outcome(&step.run("command", json!({ "run": "sleep 60" })).await, Outcome::Cancelled, "");
}

#[tokio::test]
async fn truncated_output_is_never_compared() {
    let temp = Temp::new();
    let step = Step::new(Dialect::Portable, &temp.0);
    let run = json!({ "run": "echo first; head -c 9000000 /dev/zero; echo last" });
    let done = step.run("command", run.clone()).await;
    outcome(&done, Outcome::Passed, "too many to keep");
    assert!(done.stdout.starts_with("first\n") && done.stdout.len() < 80_000 && !done.locals.contains_key("stdout"));
    outcome(
        &step.expect("command", run, json!({ "stdout": { "contains": "first" } })).await,
        Outcome::Broken,
        "too long",
    );
}

#[tokio::test]
async fn scripts() {
    let temp = Temp::new();
    temp.file("ok.sh", "#!/bin/sh\necho \"$1 $FROM\"; pwd\n", 0o755);
    temp.file("plain.sh", "#!/bin/sh\necho \"$1\"\n", 0o644);
    temp.file("split.sh", "#! /usr/bin/env -S sh -e \nfalse\necho no\n", 0o644);
    temp.file("neither.sh", "echo hi\n", 0o644);
    temp.file("bare", "echo hi\n", 0o755);
    temp.file("odd", "#!/no/interpreter\n", 0o755);
    let step = Step::new(Dialect::Portable, &temp.0);

    let done = step.run("script", json!({ "file": "ok.sh", "args": ["a b"], "workdir": "/" })).await;
    outcome(&done, Outcome::Passed, "");
    assert_eq!(done.locals["stdout"], "a b task\n/");
    for (file, message) in [
        ("neither.sh", "names no interpreter"),
        ("bare", "#!/bin/sh"),
        ("odd", "interpreter"),
        ("none", "no file `none`"),
        (".", "folder"),
    ] {
        outcome(&step.run("script", json!({ "file": file })).await, Outcome::Broken, message);
    }
    // A file that is not executable is run as its first line specifies: the interpreter, one argument, the file.
    let done = step.run("script", json!({ "file": "plain.sh", "args": ["a b"] })).await;
    outcome(&done, Outcome::Passed, "");
    assert_eq!(done.locals["stdout"], "a b");
    outcome(&step.run("script", json!({ "file": "split.sh" })).await, Outcome::Failed, "status 1");
    outcome(&step.run("script", json!({ "inline": "echo x; exit 4" })).await, Outcome::Failed, "status 4");
    let done = step.run("script", json!({ "inline": "echo $0-$1", "args": ["it's"] })).await;
    assert!(done.stdout.ends_with("/script-it's"), "{done:?}");
    let done = step.run("script", json!({ "inline": "#!/bin/cat\nnot shell: `(" })).await;
    assert_eq!(done.stdout, "#!/bin/cat\nnot shell: `(");
    let left: Vec<_> = std::fs::read_dir(&temp.0).unwrap().collect();
    assert_eq!(left.len(), 6, "scripts leave nothing");
}

#[tokio::test]
async fn the_json_protocol() {
    let temp = Temp::new();
    let task = TaskState {
        name: "t".to_owned(),
        run_id: "r1".to_owned(),
        prompt: "do".to_owned(),
        agent: Some(AgentState { output: "did".to_owned(), exit_code: 0 }),
        call_history: json!({ "toolCalls": [{ "toolName": "x" }], "resourceReads": [], "promptGets": [] }),
        steps: json!({ "a": { "outputs": { "n": 1 } } }),
    };
    let step = Step { task, ..Step::new(Dialect::Portable, &temp.0) };
    let run = async |text: &str| step.run("script", json!({ "inline": text, "protocol": "json" })).await;

    let done = run("#!/bin/sh\nprintf '{\"passed\": true, \"outputs\": {\"heard\": %s}}' \"$(cat)\"").await;
    outcome(&done, Outcome::Passed, "");
    let heard = json!({
        "task": { "name": "t", "prompt": "do" },
        "agent": { "output": "did", "exitCode": 0 },
        "mcp": { "callHistory": { "toolCalls": [{ "toolName": "x" }], "resourceReads": [], "promptGets": [] } },
        "env": { "FROM": "task", "BOTH": "task" },
        "steps": { "a": { "outputs": { "n": 1 } } },
    });
    assert_eq!(done.locals["result"]["heard"], heard);

    let checks = r#"{"passed": false, "reason": "bad", "checks": [
        {"name": "one", "passed": true}, {"name": "two", "passed": false, "message": "two pods"}]}"#;
    let done = run(&format!("cat <<'E'\n{checks}\nE\n")).await;
    outcome(&done, Outcome::Failed, "bad");
    assert_eq!((subjects(&done), done.differences[0].actual.as_str()), (vec!["two"], "two pods"));

    outcome(&run("echo '{\"passed\": true}'; exit 2").await, Outcome::Broken, "status 2");
    outcome(&run("echo checking; echo '{\"passed\": true}'").await, Outcome::Broken, "not one JSON value");
    outcome(&run("echo '{\"pass\": true}'").await, Outcome::Broken, "passed");
    outcome(&run("true").await, Outcome::Broken, "printed nothing");
    // Two verdicts that contradict each other are none.
    let both = run("echo '{\"passed\": false, \"passed\": true}'").await;
    outcome(&both, Outcome::Broken, "the key `passed` appears twice");
}

#[tokio::test]
async fn scripts_of_the_steps_dialect() {
    let temp = Temp::new();
    std::fs::create_dir(temp.0.join("sub")).unwrap();
    temp.file("sub/plain.sh", "#!/bin/sh\npwd; echo err >&2\n", 0o644);
    temp.file("sub/none", "true\n", 0o644);
    let step = Step::new(Dialect::Steps, &temp.0);

    let done = step.run("script", json!({ "file": "sub/plain.sh" })).await;
    outcome(&done, Outcome::Passed, &format!("{}\nerr", temp.0.join("sub").display()));
    let mode = std::fs::metadata(temp.0.join("sub/plain.sh")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o644, "the author's file stays as it is");
    outcome(&step.run("script", json!({ "file": "sub/none" })).await, Outcome::Broken, "names no interpreter");
    outcome(&step.run("script", json!({ "inline": "\n  #!/bin/cat\nx" })).await, Outcome::Passed, "#!/bin/cat\nx");
    outcome(
        &step.run("script", json!({ "inline": "false; pwd" })).await,
        Outcome::Passed,
        &temp.0.display().to_string(),
    );
    outcome(&step.run("script", json!({ "inline": "exit 1" })).await, Outcome::Failed, "status 1");
    let legacy = Step { dialect: Dialect::Legacy, ..Step::new(Dialect::Steps, &temp.0) };
    let kind = OperationKind::Builtin("script");
    let signature = (BUILTINS.iter().find(|b| b.name == "script" && b.dialect == Dialect::Steps).unwrap().signature)();
    outcome(&legacy.go(kind, signature, json!({ "inline": "echo hi" }), Value::Null).await, Outcome::Passed, "hi");
}

async fn server() -> String {
    let app = Router::new()
        .route(
            "/json",
            routing::get(|| async {
                ([("x-one", "1"), ("Content-Type", "text/plain")], r#"{"status":"up","n":[1,2]}"#)
            }),
        )
        .route("/latin-1", routing::get(|| async { b"{\"n\": 1, \"name\": \"\xe9\"}".to_vec() }))
        .route("/teapot", routing::get(|| async { (axum::http::StatusCode::IM_A_TEAPOT, "short and stout") }))
        .route("/slow", routing::get(|| async { tokio::time::sleep(Duration::from_secs(60)).await }))
        .route(
            "/echo",
            routing::any(|method: axum::http::Method, headers: HeaderMap, body: Bytes| async move {
                let kind = headers.get("content-type").map_or("none", |v| v.to_str().unwrap()).to_owned();
                let twice = [("x-twice", "a"), ("x-twice", "b")];
                (axum::response::AppendHeaders(twice), format!("{method} {kind} {}", String::from_utf8_lossy(&body)))
            }),
        );
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    url
}

#[tokio::test]
async fn requests() {
    let temp = Temp::new();
    let (url, step) = (server().await, Step::new(Dialect::Portable, &temp.0));
    let at = |path: &str| json!({ "url": format!("{url}{path}") });

    let done = step.run("http", at("/json")).await;
    outcome(&done, Outcome::Passed, "");
    let response = &done.locals["response"];
    assert_eq!(
        (&response["status"], &response["json"]["n"][1], &response["headers"]["x-one"]),
        (&json!(200), &json!(2), &json!("1"))
    );
    let expect = json!({ "status": [200, 204], "body": { "contains": "up", "matches": "^\\{", "json": [
        { "path": "$.status", "equals": "up" }, { "path": "$.n[*]", "equals": [1.0, 2] }, { "path": "$.no", "exists": false },
    ] } });
    outcome(&step.expect("http", at("/json"), expect).await, Outcome::Passed, "");
    let expect = json!({ "body": { "json": { "path": "$.no", "equals": null } } });
    let done = step.expect("http", at("/json"), expect).await;
    outcome(&done, Outcome::Failed, "`body.json $.no` is not as expected");

    // JSON is UTF-8.
    let expect = json!({ "body": { "json": { "path": "$.n", "equals": 1 } } });
    outcome(&step.expect("http", at("/latin-1"), expect).await, Outcome::Failed, "`body` is not as expected");

    let done = step.run("http", at("/teapot")).await;
    outcome(&done, Outcome::Failed, "the answer has status 418");
    assert!(done.locals["response"].get("json").is_none());
    outcome(&step.expect("http", at("/teapot"), json!({ "status": "4xx" })).await, Outcome::Passed, "");
    let expect = json!({ "status": 418, "body": { "json": { "path": "$" } } });
    outcome(&step.expect("http", at("/teapot"), expect).await, Outcome::Failed, "`body`");

    let mut post = at("/echo");
    (post["method"], post["body"]) = (json!("POST"), json!({ "json": { "a": [1] } }));
    let done = step.run("http", post.clone()).await;
    assert_eq!(done.locals["response"]["body"], "POST application/json {\"a\":[1]}");
    assert_eq!(done.locals["response"]["headers"]["x-twice"], "a, b");
    (post["body"], post["headers"]) = (json!("raw"), json!({ "content-type": "text/x" }));
    assert_eq!(step.run("http", post).await.locals["response"]["body"], "POST text/x raw");

    outcome(&step.run("http", json!({ "url": "http://127.0.0.1:1/" })).await, Outcome::Broken, "no answer");
    outcome(&step.run("http", json!({ "url": "" })).await, Outcome::Broken, "URL");
    let step = Step { timeout: Duration::from_millis(200), ..step };
    outcome(&step.run("http", at("/slow")).await, Outcome::Broken, "did not end within 200ms");
}

/// The HTTP client also applies the time limit of its step, and may be the first to notice that it has passed.
#[tokio::test]
async fn a_timeout_of_the_http_client_is_a_timeout_of_the_step() {
    let host = FakeHost::new();
    for (kind, message) in [
        (HttpFaultKind::Timeout, "it did not end within 10s"),
        (HttpFaultKind::Tls, "there was no answer: as the client says it"),
    ] {
        let url = format!("http://a.test/{kind:?}");
        host.on_http(&url, Err(HttpFault { kind, message: "as the client says it".to_owned() }));
        let done = Step::with(&host, Dialect::Portable, Path::new("/w")).run("http", json!({ "url": url })).await;
        assert_eq!((done.outcome, done.message.as_str()), (Outcome::Broken, message));
    }
}

#[tokio::test]
async fn requests_of_the_steps_dialect() {
    let temp = Temp::new();
    let (url, step) = (server().await, Step::new(Dialect::Steps, &temp.0));
    let at = |path: &str| json!({ "url": format!("{url}{path}") });

    outcome(&step.run("http", at("/teapot")).await, Outcome::Passed, "418");
    outcome(&step.expect("http", at("/teapot"), json!({ "status": 200 })).await, Outcome::Failed, "`status`");
    let fields = json!([{ "path": "n[1]", "equals": "2" }, { "path": "status", "type": "string", "match": "^u" }]);
    outcome(
        &step.expect("http", at("/json"), json!({ "body": { "match": "up", "fields": fields } })).await,
        Outcome::Passed,
        "",
    );
    let expect = json!({ "body": { "fields": [{ "path": "n[2]", "equals": 2 }] } });
    outcome(&step.expect("http", at("/json"), expect.clone()).await, Outcome::Failed, "`body n[2]`");
    outcome(&step.expect("http", at("/teapot"), expect).await, Outcome::Failed, "`body`");
    let mut post = at("/echo");
    (post["method"], post["body"]) = (json!("put"), json!({ "raw": "x" }));
    outcome(&step.expect("http", post, json!({ "body": { "match": "^put none x$" } })).await, Outcome::Passed, "");
}

#[tokio::test]
async fn files() {
    let temp = Temp::new();
    let step = Step::new(Dialect::Portable, &temp.0);
    let make = json!({ "path": "a/b/c.txt", "content": "hello", "mode": "0600" });
    outcome(&step.run("file", make).await, Outcome::Passed, "");
    let look = async |expect| step.expect("file", json!({ "path": "a/b/c.txt" }), expect).await;
    outcome(&look(json!({ "contains": "ell", "matches": "^h.*o$", "mode": "600" })).await, Outcome::Passed, "");
    let done = look(json!({ "contains": "x", "mode": "0644" })).await;
    outcome(&done, Outcome::Failed, "");
    assert_eq!(subjects(&done), ["a/b/c.txt", "mode of a/b/c.txt"]);
    outcome(&look(json!({ "exists": false })).await, Outcome::Failed, "");
    // The contents of a file that must not exist are not checked.
    let done = look(json!({ "exists": false, "contains": "x", "mode": "0644" })).await;
    outcome(&done, Outcome::Failed, "");
    assert_eq!(subjects(&done), ["a/b/c.txt"]);
    for mode in ["+600", "10600", "0o+600", "9", ""] {
        let message = format!("`{mode}` is not an octal mode");
        outcome(&look(json!({ "mode": mode })).await, Outcome::Broken, &message);
        let make = json!({ "path": "a/b/none.txt", "content": "", "mode": mode });
        outcome(&step.run("file", make).await, Outcome::Broken, &message);
    }
    assert!(!temp.0.join("a/b/none.txt").exists());
    outcome(&step.run("file", json!({ "path": "a/b", "absent": true })).await, Outcome::Broken, "folder");
    for _ in 0..2 {
        outcome(&step.run("file", json!({ "path": "a/b/c.txt", "absent": true })).await, Outcome::Passed, "");
    }
    outcome(&look(json!({})).await, Outcome::Failed, "");
    outcome(&look(json!({ "exists": false })).await, Outcome::Passed, "");
    outcome(&step.run("file", json!({ "path": "/proc/no/file", "content": "" })).await, Outcome::Broken, "written");
}

/// A pipe or a broken link is no file, but its path is not free either. Writing to a pipe would block forever.
#[tokio::test]
async fn paths_that_are_not_files() {
    use std::os::unix::{fs::symlink, net::UnixListener};
    let temp = Temp::new();
    let step = Step::new(Dialect::Portable, &temp.0);
    outcome(&step.run("command", json!({ "run": "mkfifo pipe" })).await, Outcome::Passed, "");
    let _socket = UnixListener::bind(temp.0.join("socket")).unwrap();
    symlink("nowhere", temp.0.join("broken")).unwrap();
    symlink("circle", temp.0.join("circle")).unwrap();
    std::fs::create_dir(temp.0.join("folder")).unwrap();
    symlink("folder", temp.0.join("link")).unwrap();
    for (path, exists, actual) in [
        ("pipe", true, "it exists, and is a pipe"),
        ("socket", true, "it exists, and is a socket"),
        ("broken", false, "it is a link that leads nowhere"),
        ("circle", false, "it is a link that leads nowhere"),
        ("link", true, "it exists"),
    ] {
        let look = async |exists: bool| step.expect("file", json!({ "path": path }), json!({ "exists": exists })).await;
        let gone = look(false).await;
        outcome(&gone, Outcome::Failed, "");
        assert_eq!(gone.differences[0].actual, actual, "{path}");
        outcome(&look(true).await, if exists { Outcome::Passed } else { Outcome::Failed }, "");
    }
    for (path, kind) in [("pipe", "a pipe"), ("socket", "a socket")] {
        let done = step.run("file", json!({ "path": path, "content": "x" })).await;
        outcome(&done, Outcome::Broken, &format!("could not be written: it is {kind}, not a file"));
    }
    // Of a link, only the link is removed.
    outcome(&step.run("file", json!({ "path": "link", "absent": true })).await, Outcome::Passed, "");
    assert!(temp.0.join("folder").is_dir() && temp.0.join("link").symlink_metadata().is_err());
}

#[tokio::test]
async fn tools() {
    let temp = Temp::new();
    let answer = |text: &str, is_error| {
        let content = json!([{ "type": "text", "text": text }]);
        Answer::new(Ok(ToolAnswer { content, structured_content: None, is_error }))
    };
    let step = |dialect, tools| Step { tools, ..Step::new(dialect, &temp.0) };
    let refused = || Answer::new(Err(ToolFault::Protocol { code: -32602, message: "no such arg".to_owned() }));

    let good = step(Dialect::Portable, answer(r#"{"n":1,"html":"<b>"}"#, false));
    outcome(&good.tool(Value::Null).await, Outcome::Passed, "");
    let expect = json!({ "content": { "contains": "<b>", "json": { "path": "$.n", "equals": 1 } } });
    outcome(&good.tool(expect).await, Outcome::Passed, "");
    outcome(&good.tool(json!({ "isError": true })).await, Outcome::Failed, "reports no error");
    let bad = step(Dialect::Portable, answer("no pod", true));
    outcome(&bad.tool(Value::Null).await, Outcome::Failed, "no pod");
    outcome(&bad.tool(json!({ "isError": true, "content": { "contains": "pod" } })).await, Outcome::Passed, "");
    let refusing = step(Dialect::Portable, refused());
    outcome(&refusing.tool(Value::Null).await, Outcome::Broken, "no such arg (-32602)");
    outcome(&refusing.tool(json!({ "isError": true, "content": { "contains": "arg" } })).await, Outcome::Passed, "");
    let lost = Step::new(Dialect::Portable, &temp.0);
    outcome(&lost.tool(json!({ "isError": true })).await, Outcome::Broken, "did not answer");

    let good = step(Dialect::Steps, answer("<b>", false));
    let expect = json!({ "content": { "match": r"\\u003cb", "fields": [{ "path": "[0].type", "equals": "text" }] } });
    let done = good.tool(expect).await;
    outcome(&done, Outcome::Passed, "");
    assert_eq!(done.locals["content"], r#"[{"type":"text","text":"\u003cb\u003e"}]"#);
    outcome(&good.tool(json!({ "isError": true })).await, Outcome::Passed, "");
    outcome(&step(Dialect::Steps, answer("oh", true)).tool(Value::Null).await, Outcome::Failed, "oh");
    outcome(&step(Dialect::Steps, refused()).tool(json!({ "isError": true })).await, Outcome::Passed, "");
    outcome(&step(Dialect::Steps, refused()).tool(Value::Null).await, Outcome::Broken, "refused the call: no such arg");
}

#[tokio::test]
async fn whole_values_of_an_answer_are_compared() {
    let temp = Temp::new();
    let content = json!([{ "type": "text", "text": "up" }]);
    let structured_content = Some(json!({ "n": 1 }));
    let tools = Answer::new(Ok(ToolAnswer { content: content.clone(), structured_content, is_error: false }));
    let step = Step { tools, ..Step::new(Dialect::Portable, &temp.0) };
    // The absence of an error is compared as well.
    let done = step.tool(json!({ "structuredContent": { "n": 1.0 }, "content": { "equals": content } })).await;
    outcome(&done, Outcome::Passed, "");
    assert_eq!(done.comparisons, 3);

    let other = json!([{ "type": "text", "text": "down" }]);
    let done = step.tool(json!({ "structuredContent": { "n": 2 }, "content": { "equals": other } })).await;
    outcome(&done, Outcome::Failed, "not as expected");
    let told = |d: &gevals::event::Difference| format!("{}: {} / {}", d.subject, d.expected, d.actual);
    let told: Vec<_> = done.differences.iter().map(told).collect();
    assert_eq!(told, [r#"structuredContent.n: 2 / 1"#, r#"content[0].text: "down" / "up""#]);
    assert_eq!(done.comparisons, 3);

    let tools = Answer::new(Ok(ToolAnswer { content, structured_content: None, is_error: false }));
    let step = Step { tools, ..Step::new(Dialect::Portable, &temp.0) };
    let done = step.tool(json!({ "structuredContent": { "n": 1 } })).await;
    outcome(&done, Outcome::Failed, "");
    assert_eq!((subjects(&done), done.differences[0].actual.as_str()), (vec!["structuredContent"], "nothing"));
}

#[test]
fn an_unknown_tool_is_reported_with_the_known_tools() {
    let names = |n: usize| (0..n).map(|i| format!("other{i}")).collect::<Vec<_>>();
    let told = |listed: &[String]| {
        let said = no_such_tool("notes", "search", listed);
        let (what, others) = said.split_once(": ").unwrap();
        assert_eq!(what, "the tool `search`, which the server `notes` does not list");
        others.to_owned()
    };
    assert_eq!(told(&[]), "it lists none");
    assert_eq!(told(&["serach".to_owned()]), "did you mean `serach`?");
    assert_eq!(told(&names(2)), "it lists `other0`, `other1`");
    // At most twelve are named.
    assert!(told(&names(12)).ends_with("`other10`, `other11`"));
    assert!(told(&names(13)).ends_with("`other10`, `other11`, …"));
}

#[tokio::test]
async fn calls_and_answers_of_tools_are_validated_by_their_schemas() {
    let temp = Temp::new();
    let takes =
        |schema: Value, output: Option<Value>| Contract { input: Schema::new(schema), output: output.map(Schema::new) };
    let long = takes(json!({ "properties": { "query": { "minLength": 3 } }, "required": ["limit"] }), None);
    let any = takes(json!({ "type": "object" }), None);
    let numbered = takes(json!({}), Some(json!({ "type": "object", "properties": { "n": { "type": "integer" } } })));
    let answer = |n: Value, is_error| ToolAnswer {
        content: json!([{ "type": "text", "text": "x" }]),
        structured_content: Some(json!({ "n": n })),
        is_error,
    };
    for dialect in [Dialect::Portable, Dialect::Steps] {
        let step = |answer, [first, anew]: [&Contract; 2]| Step {
            tools: Answer { call: Ok(answer), contracts: [Ok(first.clone()), Ok(anew.clone())] },
            ..Step::new(dialect, &temp.0)
        };
        // The server is not called: its answer would be about its own validation.
        let done = step(answer(json!(1), false), [&long, &long]).tool(Value::Null).await;
        let message =
            "the schema of `search`, so it was not called: it has no `limit`; `query` must have at least 3 characters";
        outcome(&done, Outcome::Broken, message);
        // Three faults are named; the others are counted.
        let short = |n: usize| takes(json!({ "required": &["limit", "order", "page", "size", "sort"][..n] }), None);
        for (n, message) in [
            (3, "it has no `limit`; it has no `order`; it has no `page`"),
            (4, "it has no `limit`; it has no `order`; it has no `page`; 1 more"),
            (5, "it has no `limit`; it has no `order`; it has no `page`; 2 more"),
        ] {
            let done = step(answer(json!(1), false), [&short(n), &short(n)]).tool(Value::Null).await;
            let message = format!("the arguments do not fit the schema of `search`, so it was not called: {message}");
            assert_eq!((done.outcome, done.message), (Outcome::Broken, message));
        }
        // The schema may have changed since.
        outcome(&step(answer(json!(1), false), [&long, &any]).tool(Value::Null).await, Outcome::Passed, "");
        // A tool that was removed is not called, and the error of one that never existed is not the expected one.
        let gone = || Err(ToolFault::Unlisted(vec!["find".to_owned(), "search_all".to_owned()]));
        for contracts in [[Ok(long.clone()), gone()], [gone(), gone()]] {
            let expect = if contracts[0].is_ok() { Value::Null } else { json!({ "isError": true }) };
            let tools = Answer { call: Ok(answer(json!(1), true)), contracts };
            let done = Step { tools, ..Step::new(dialect, &temp.0) }.tool(expect).await;
            outcome(&done, Outcome::Broken, "the tool `search`, which the server `notes` does not list");
        }

        outcome(&step(answer(json!(1), false), [&numbered, &numbered]).tool(Value::Null).await, Outcome::Passed, "");
        let done = step(answer(json!("one"), false), [&numbered, &numbered]).tool(Value::Null).await;
        let message =
            "`notes` breaks its own `outputSchema` of `search`: in `structuredContent`, `n` must be an integer";
        outcome(&done, Outcome::Broken, message);
        // An error does not need to match the output schema.
        outcome(&step(answer(json!("one"), true), [&numbered, &numbered]).tool(Value::Null).await, Outcome::Failed, "");
    }
}

#[tokio::test]
async fn a_step_without_a_judge_never_passes() {
    let temp = Temp::new();
    let step = Step::new(Dialect::Portable, &temp.0);
    outcome(&step.run("llm", json!({ "contains": "x" })).await, Outcome::Broken, "judge");
    let steps = Step::new(Dialect::Steps, &temp.0);
    outcome(&steps.run("llmJudge", json!({ "contains": "x" })).await, Outcome::Broken, "judge");
}

#[tokio::test(start_paused = true)]
async fn sleeping() {
    let host = FakeHost::new();
    let step = Step::with(&host, Dialect::Portable, Path::new("/w"));
    outcome(&step.run("sleep", json!({ "duration": "5s" })).await, Outcome::Passed, "");
    assert_eq!(host.elapsed(), Duration::from_secs(5));
    outcome(&step.run("sleep", json!({ "duration": "1h" })).await, Outcome::Broken, "within 10s");
    outcome(&step.run("sleep", json!({ "duration": "soon" })).await, Outcome::Broken, "not a duration");
    let cancel = step.cancel.clone();
    let begun = host.elapsed();
    let (done, ()) = tokio::join!(step.run("sleep", json!({ "duration": "9s" })), async { cancel.cancel() });
    outcome(&done, Outcome::Cancelled, "");
    assert_eq!(host.elapsed(), begun);
}

#[test]
fn values_are_compared_with_their_types() {
    let document = json!({ "items": [{ "n": "a" }], "none": null });
    let met = |expect: Value| {
        let expect: JsonExpect = serde_json::from_value(expect).unwrap();
        compare::json("x", &[expect], &document).unwrap().differences.is_empty()
    };
    assert!(met(json!({ "path": "$.items[*].n", "equals": ["a"] })), "a list of one match");
    assert!(met(json!({ "path": "$.items[*].n", "equals": "a" })));
    assert!(!met(json!({ "path": "$.items[0].n", "equals": ["a"] })), "no list");
    assert!(
        !met(json!({ "path": "$.items[*].n", "equals": ["b"] }))
            && !met(json!({ "path": "$.items[*].n", "equals": ["a", "a"] }))
    );
    // The message contains the expectation that is not met.
    for (expect, said) in [
        (json!({ "path": "$.gone", "equals": 5 }), "5"),
        (json!({ "path": "$.gone", "matches": "^a" }), "matches `^a`"),
        (json!({ "path": "$.gone", "type": "array" }), "type array"),
        (json!({ "path": "$.gone" }), "a value"),
    ] {
        let expect: JsonExpect = serde_json::from_value(expect).unwrap();
        let found = compare::json("x", &[expect], &document).unwrap().differences;
        assert_eq!((found[0].expected.as_str(), found[0].actual.as_str()), (said, "nothing at this path"));
    }
    // The existence of a value is always compared.
    for (expect, made) in [
        (json!({ "path": "$.gone", "exists": false }), 1),
        (json!({ "path": "$.none" }), 1),
        (json!({ "path": "$.none", "equals": null, "type": "null" }), 3),
    ] {
        let expect: JsonExpect = serde_json::from_value(expect).unwrap();
        let found = compare::json("x", &[expect], &document).unwrap();
        assert_eq!((found.made, found.differences.len()), (made, 0));
    }
    assert!(met(json!({ "path": "$.none", "equals": null, "type": "null", "exists": true })));
    assert!(!met(json!({ "path": "$.gone" })) && !met(json!({ "path": "$.none", "matches": "" })));
}

/// Differences are shown where they occur, and counted.
#[test]
fn differences_are_shown_and_named() {
    let expect: JsonExpect = serde_json::from_value(json!({ "path": "$", "equals": [5] })).unwrap();
    let found = compare::json("x", &[expect], &json!({ "n": 6 })).unwrap().differences;
    assert_eq!((found[0].expected.as_str(), found[0].actual.as_str()), ("[5]", "{\"n\":6}"));

    let x = "x".repeat(1000);
    let found = compare::unequal("x", &format!("{x}b"), &format!("{x}c"));
    assert_eq!((found.expected, found.actual), (format!("…{}b", &x[..60]), format!("…{}c", &x[..60])));
    let found = compare::unequal("x", &x, &x[..300]);
    assert_eq!((found.expected, found.actual), (format!("…{}…", &x[..400]), format!("…{}", &x[..60])));

    let summary = |n: usize| compare::summary(&vec![compare::difference("a", "b", "c"); n]);
    assert_eq!([1, 3].map(summary), ["`a` is not as expected", "`a`, `a`, `a` are not as expected"]);
    assert_eq!(summary(4), "`a`, `a`, `a` and 1 more are not as expected");
}

/// §6.1 of the upstream behavior.
#[test]
fn fields_are_compared_as_in_upstream() {
    let document = json!({ "n": 5, "small": 1e-7, "big": 10_000_000, "t": true, "o": { "x": 1, "a": "b" }, "a": { "0": "key" }, "l": [[1, 2]] });
    let met = |expect: Value| {
        let expect: FieldExpect = serde_json::from_value(expect).unwrap();
        compare::fields("x", &[expect], &document).unwrap().differences.is_empty()
    };
    for (path, equals) in [
        ("n", json!("5")),
        ("n", json!(5.0)),
        ("t", json!("true")),
        ("o", json!("map[a:b x:1]")),
        ("big", json!("1e+07")),
        ("a.0", json!("key")),
        ("l[0][1]", json!(2)),
        ("l[0x]", json!("[1 2]")),
        ("small", json!("1e-07")),
        ("n", json!(null)),
    ] {
        assert!(met(json!({ "path": path, "equals": equals })), "{path} {equals}");
    }
    assert!(!met(json!({ "path": "big", "equals": "10000000" })) && !met(json!({ "path": "l[-1]", "type": "array" })));
    assert!(met(json!({ "path": "typo" })), "upstream demands nothing of it");
    assert!(!met(json!({ "path": "typo", "exists": true })) && met(json!({ "path": "typo", "exists": false })));
    assert!(
        !met(json!({ "path": "n", "exists": true, "equals": 6 }))
            && met(json!({ "path": "n", "exists": true, "equals": 5 }))
    );
    assert!(!met(json!({ "path": "n", "exists": false })) && !met(json!({ "path": "n", "match": "5" })));
}

proptest! {
    #[test]
    fn a_difference_is_bounded_and_shows_its_location(same in ".{0,900}", a in "[ab]{1,900}", b in "[cd]{1,900}") {
        let (expected, actual) = (format!("{same}{a}"), format!("{same}{b}"));
        let expect = TextExpect(TextFields { equals: Some(expected), ..TextFields::default() });
        let found = compare::text("stdout", &expect, &actual).unwrap().differences;
        prop_assert_eq!(found.len(), 1);
        prop_assert!(found[0].expected.chars().count() <= 402 && found[0].actual.chars().count() <= 402);
        prop_assert_ne!(&found[0].expected, &found[0].actual);
    }
}
