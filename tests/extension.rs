//! Sessions with extensions: both protocols, and programs that break them in every way we could think of.
#![cfg(all(feature = "run", target_os = "linux"))]
#![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test looks at the world from outside")]

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    sync::LazyLock,
    time::{Duration, Instant},
};

use gevals::{
    extension::{Answer, Call, Extensions, Fault, Place},
    host::RealHost,
    package::Source,
    plan::{PlanPhase, PlannedExtension},
};
use indexmap::IndexMap;
use serde_json::{Map, Value, json};
use tempfile::TempDir;

static HOST: LazyLock<RealHost> = LazyLock::new(RealHost::new);

/// A JSON-RPC extension in Python with one operation, `go`; `{}` is what it does when it is called: `answer(success, outputs)`.
const PYTHON: &str = r#"#!/usr/bin/env python3
import json, os, sys, time
def send(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()
for line in sys.stdin:
    request = json.loads(line)
    id, params = request.get("id"), request.get("params", {})
    def reply(result): send({"jsonrpc": "2.0", "id": id, "result": result})
    def answer(success, **outputs): reply({"success": success, "message": "done", "error": "no", "outputs": outputs})
    if request["method"] == "initialize":
        config = params.get("config", {})
        reply({"name": "x", "version": "1", "protocolVersion": "0.0.1", "operations": {"go": {"params":
            {"type": "object", "properties": {"n": {"type": "integer"}}}}}})
    elif request["method"] == "shutdown":
        open("shut-down", "w").close()
        reply({})
        sys.exit(0)
    else:
        args, context = params["args"], params["context"]
        BODY
"#;

struct World {
    dir: TempDir,
    planned: IndexMap<String, PlannedExtension>,
}

impl World {
    /// A program `ext`, and files beside it.
    fn new(program: &str, files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ext");
        fs::write(&path, program).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        for (name, text) in files {
            fs::write(dir.path().join(name), text).unwrap();
        }
        let planned = PlannedExtension {
            package: "./ext".to_owned(),
            source: Ok(Source::Path(path)),
            env: vec![("OWN".to_owned(), "${PATH}".to_owned())],
            config: json!({ "greeting": "hello" }),
        };
        Self { dir, planned: IndexMap::from([("x".to_owned(), planned)]) }
    }

    fn python(body: &str) -> Self {
        Self::new(&PYTHON.replace("BODY", &body.replace('\n', "\n        ")), &[])
    }

    fn extensions(&self) -> Extensions<'_> {
        let env = vec![("TASK".to_owned(), "t".to_owned()), ("OWN".to_owned(), "task's".to_owned())];
        Extensions::new(&*HOST, &self.planned, Place { dir: self.dir.path().to_owned(), env })
    }

    fn has(&self, name: &str) -> bool {
        self.dir.path().join(name).exists()
    }

    /// Whether a process runs in the folder of this world.
    fn lives(&self) -> bool {
        let cwd = |pid: &str| fs::read_link(format!("/proc/{pid}/cwd")).ok();
        let entries = fs::read_dir("/proc").unwrap().flatten();
        entries
            .filter_map(|e| e.file_name().into_string().ok())
            .any(|pid| cwd(&pid).as_deref() == Some(self.dir.path()))
    }
}

fn call<'a>(operation: &'a str, args: Value, phase: PlanPhase) -> Call<'a> {
    let args = args.as_object().cloned().unwrap_or_default();
    Call { operation, args, phase, timeout: Duration::from_secs(5), agent: None }
}

async fn go(extensions: &Extensions<'_>) -> Result<Answer, Fault> {
    extensions.call("x", call("go", json!({}), PlanPhase::Setup)).await
}

/// Why a call gave no answer; nothing of the extension is left.
async fn why(world: &World) -> String {
    let extensions = world.extensions();
    let fault = go(&extensions).await.unwrap_err();
    extensions.close().await;
    assert!(!world.lives(), "{}", fault.why);
    fault.why
}

#[tokio::test]
async fn json_rpc_tells_all_there_is_to_tell() {
    let world = World::python(
        r#"send({"jsonrpc": "2.0", "method": "log", "params": {"level": "warn", "message": "hot", "data": {"a": 1}}})
answer(args.get("n") == 3, args=args, context=context, config=config, own=os.environ["OWN"], task=os.environ["TASK"])"#,
    );
    let extensions = world.extensions();
    let asked = Call {
        agent: Some(("Go.".to_owned(), "Gone.".to_owned())),
        ..call("go", json!({ "n": 3 }), PlanPhase::Verify)
    };
    let answer = extensions.call("x", asked).await.unwrap();
    assert!(answer.success);
    assert_eq!(answer.log, "warn: hot {\"a\":1}");
    assert_eq!(answer.outputs["config"], json!({ "greeting": "hello" }));
    let context = &answer.outputs["context"];
    assert_eq!(context["phase"], "verify");
    assert_eq!(context["timeout"], "5s");
    assert_eq!(context["env"]["TASK"], "t");
    assert_eq!(context["workdir"], json!(world.dir.path()));
    assert_eq!(context["agent"], json!({ "prompt": "Go.", "output": "Gone." }));
    assert_eq!(answer.outputs["own"], json!(std::env::var("PATH").unwrap()), "its own variables are the strongest");
    let no = extensions.call("x", call("go", json!({ "n": 4 }), PlanPhase::Verify)).await.unwrap();
    assert!(!no.success && no.error == "no");
    // By the schema of its manifest.
    let fault = extensions.call("x", call("go", json!({ "n": "3" }), PlanPhase::Verify)).await.unwrap_err();
    assert!(fault.why.contains("`n` must be an integer"), "{}", fault.why);
    let fault = extensions.call("x", call("og", json!({}), PlanPhase::Verify)).await.unwrap_err();
    assert!(fault.why.contains("did you mean `go`?"), "{}", fault.why);
    assert!(world.lives());
    extensions.close().await;
    assert!(world.has("shut-down") && !world.lives());
}

#[tokio::test]
async fn one_process_serves_a_task_and_calls_side_by_side() {
    // Answers in the opposite order.
    let world = World::python(
        r#"waiting = globals().setdefault("waiting", [])
waiting.append((id, args["n"]))
if len(waiting) == 100:
    for id, n in reversed(waiting): answer(True, n=n, pid=os.getpid())"#,
    );
    let extensions = world.extensions();
    let calls = (0..100).map(|n| extensions.call("x", call("go", json!({ "n": n }), PlanPhase::Setup)));
    let answers = futures_util::future::join_all(calls).await;
    let answers: Vec<_> = answers.into_iter().map(Result::unwrap).collect();
    for (n, answer) in answers.iter().enumerate() {
        assert_eq!(answer.outputs["n"], json!(n));
        assert_eq!(answer.outputs["pid"], answers[0].outputs["pid"]);
    }
    extensions.close().await;
}

#[tokio::test]
async fn lines_may_be_long_and_not_without_end() {
    let world = World::python(r#"answer(True, text="x" * (15 << 20))"#);
    let extensions = world.extensions();
    assert_eq!(go(&extensions).await.unwrap().outputs["text"].as_str().unwrap().len(), 15 << 20);
    extensions.close().await;
    let world = World::python(r#"answer(True, text="x" * (17 << 20))"#);
    assert_eq!(why(&world).await, "it wrote a line of more than 16 MiB");
}

#[tokio::test]
async fn what_breaks_the_protocol_is_named() {
    for (body, named) in [
        (
            r#"print("Hello.", flush=True)"#,
            "it wrote a line to standard output that is no message of JSON-RPC: `Hello.`",
        ),
        ("sys.exit(3)", "it ended before it answered, with status 3"),
        ("os.kill(os.getpid(), 9)", "it was killed by signal 9 before it answered"),
        (
            r#"sys.stdout.write('{"jsonrpc": "2.0", "id":'); sys.stdout.flush(); sys.exit(0)"#,
            "that is no message of JSON-RPC",
        ),
        (
            r#"send({"jsonrpc": "2.0", "id": 99, "result": {}})"#,
            "it answered a request with the id 99, which nobody made",
        ),
        (
            r#"send({"jsonrpc": "2.0", "id": "2", "result": {}})"#,
            "it answered a request with the id \"2\", which nobody made",
        ),
        (r#"send({"jsonrpc": "2.0", "id": 1, "result": {}})"#, "it answered request 1 twice"),
        (r#"send({"jsonrpc": "2.0", "id": id})"#, "it answered with neither `result` nor `error`"),
        (
            r#"send({"jsonrpc": "2.0", "id": id, "error": {"code": -32603, "message": "oh"}})"#,
            "it answered with an error: oh (-32603)",
        ),
        (
            r#"send({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "what?"}})"#,
            "it answered with an error: what? (-32700)",
        ),
        (r#"reply({"ok": True})"#, "its answer is no result of an operation: missing field `success`"),
        (r#"reply({"success": "yes"})"#, "its answer is no result of an operation: invalid type"),
        (r#"reply([])"#, "its answer is no result of an operation"),
        (r#"os.close(1); time.sleep(60)"#, "it closed its standard output"),
        (
            r#"[send({"jsonrpc": "2.0", "id": n, "method": "ask"}) for n in range(100000)]"#,
            "it asks and does not read the answers",
        ),
    ] {
        let found = why(&World::python(body)).await;
        assert!(found.contains(named), "{body}: {found}");
    }
}

#[tokio::test]
async fn what_does_no_harm_is_borne() {
    for body in [
        r#"print("", flush=True); answer(True)"#,
        r#"print("to people", file=sys.stderr, flush=True); answer(True)"#,
        r#"send({"jsonrpc": "2.0", "method": "progress", "params": {"n": 1}}); answer(True)"#,
        r#"send({"jsonrpc": "2.0", "id": "q", "method": "ask"}); assert json.loads(sys.stdin.readline())["error"]["code"] == -32601; answer(True)"#,
        r#"sys.stderr.write("x" * (1 << 20)); sys.stderr.flush(); answer(True)"#,
        r#"reply({"success": True})"#,
        r#"reply({"success": True, "message": None, "error": None, "outputs": None})"#,
    ] {
        let world = World::python(body);
        let extensions = world.extensions();
        let answer = go(&extensions).await.unwrap_or_else(|fault| panic!("{body}: {}", fault.why));
        assert!(answer.success && answer.log.len() <= 64 << 10);
        extensions.close().await;
    }
}

/// Its helpers hold its pipes open, it ignores SIGTERM, it does not end when it is asked to: nothing is left.
#[tokio::test]
async fn nothing_of_an_extension_is_left() {
    for body in [
        "import subprocess; subprocess.Popen(['sleep', '300']); answer(True)",
        "import subprocess; subprocess.Popen(['setsid', 'sleep', '300']); sys.exit(1)",
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); answer(True)\nfor line in sys.stdin: pass\ntime.sleep(300)",
    ] {
        let world = World::python(body);
        let extensions = world.extensions();
        let _ = go(&extensions).await;
        extensions.close().await;
        assert!(!world.lives(), "{body}");
    }
    // Dropped without a word, as when a run is cut off.
    let world = World::python("answer(True)");
    let extensions = world.extensions();
    go(&extensions).await.unwrap();
    drop(extensions);
    let started = Instant::now();
    while world.lives() {
        assert!(started.elapsed() < Duration::from_secs(5));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_crash_does_not_keep_the_cleanup_from_a_new_process() {
    let world = World::python("if context['phase'] == 'setup': sys.exit(1)\nanswer(True, pid=os.getpid())");
    let extensions = world.extensions();
    assert!(go(&extensions).await.is_err());
    assert!(extensions.call("x", call("go", json!({}), PlanPhase::Cleanup)).await.unwrap().success);
    extensions.close().await;
}

#[tokio::test]
async fn a_call_beyond_its_time_is_given_up() {
    let world =
        World::python("time.sleep(0 if context['phase'] == 'cleanup' else args['n'])\nanswer(True, pid=os.getpid())");
    let extensions = world.extensions();
    let slow = |n: u32| extensions.call("x", call("go", json!({ "n": n }), PlanPhase::Setup));
    let limit = Duration::from_millis(500);
    // Another one is in flight, so the process lives on, and the late answer is dropped.
    let (late, other) = tokio::join!(tokio::time::timeout(limit, slow(1)), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        slow(1).await
    });
    assert!(late.is_err());
    let pid = other.unwrap().outputs["pid"].clone();
    extensions.give_up("x").await;
    assert_eq!(slow(0).await.unwrap().outputs["pid"], pid);
    // Nothing else is: it is ended.
    assert!(tokio::time::timeout(limit, slow(60)).await.is_err());
    extensions.give_up("x").await;
    assert!(!world.lives());
    let after = extensions.call("x", call("go", json!({}), PlanPhase::Cleanup)).await.unwrap();
    assert_ne!(after.outputs["pid"], pid);
    extensions.close().await;
}

#[tokio::test]
async fn what_is_no_extension_is_known_within_ten_seconds() {
    for (program, named) in [
        ("#!/bin/sh\necho usage >&2\nexit 2\n", "it ended before it answered, with status 2 (it says: usage)"),
        ("#!/bin/sh\necho hello; sleep 60\n", "that is no message of JSON-RPC: `hello`"),
        ("#!/bin/sh\nsleep 60\n", "it did not answer `initialize` within 10s"),
        ("#!/bin/sh\ncat\n", "it asks and does not read the answers"),
        ("#!/no/such/interpreter\n", "cannot be started"),
        (
            "#!/bin/sh\nread line\necho '{\"id\": 1, \"result\": {\"operations\": 5}}'; sleep 60\n",
            "its manifest is none",
        ),
    ] {
        let world = World::new(program, &[]);
        let started = Instant::now();
        let found = why(&world).await;
        assert!(started.elapsed() < Duration::from_secs(12), "{program}");
        // `cat` sends the request back: it is answered, and sent back, and so on.
        assert!(found.contains(named) || program.contains("cat"), "{program}: {found}");
    }
}

const MANIFEST: &str = "name: ext\nversion: 1.0.0\nPROTOCOL\nactions:\n- name: go\n  args: {n: {type: integer}}\nchecks:\n- name: look\n- name: go\n  args: {n: {type: integer}}\n";

#[tokio::test]
async fn one_shot_is_a_process_a_call() {
    let program = "#!/bin/sh\necho \"$1 $2 $3\" >> calls\ncp \"$4\" input.json\necho note >&2\necho '{\"success\": true, \"outputs\": {\"a\": [1]}}'\n";
    for protocol in ["protocol: one-shot", ""] {
        let world = World::new(program, &[("extension.yaml", &MANIFEST.replace("PROTOCOL", protocol))]);
        let extensions = world.extensions();
        for (operation, phase) in [
            ("go", PlanPhase::Setup),
            ("go", PlanPhase::Verify),
            ("go", PlanPhase::Cleanup),
            ("look", PlanPhase::Cleanup),
        ] {
            let answer = extensions.call("x", call(operation, json!({ "n": 1 }), phase)).await;
            let answer = match operation {
                // It takes no arguments.
                "look" => extensions.call("x", call(operation, json!({}), phase)).await.unwrap(),
                _ => answer.unwrap(),
            };
            assert!(answer.success && answer.log == "note");
            assert_eq!(answer.outputs["a"], json!([1]));
        }
        let calls = fs::read_to_string(world.dir.path().join("calls")).unwrap();
        let calls: Vec<_> = calls.lines().filter(|line| line.ends_with("--input")).collect();
        assert_eq!(calls, ["action go --input", "check go --input", "action go --input", "check look --input"]);
        let input: Map<String, Value> =
            serde_json::from_str(&fs::read_to_string(world.dir.path().join("input.json")).unwrap()).unwrap();
        assert_eq!(input["config"], json!({ "greeting": "hello" }));
        assert_eq!(input["context"]["env"]["TASK"], "t");
        assert_eq!(input["context"]["workdir"], json!(world.dir.path()));
        extensions.close().await;
        assert!(!world.lives());
    }
}

#[tokio::test]
async fn one_shot_answers_are_held_to_the_protocol() {
    let manifest = MANIFEST.replace("PROTOCOL", "protocol: one-shot");
    for (body, named) in [
        ("exit 0", "it printed no answer on standard output, and exited with status 0"),
        ("echo hi", "its standard output is not one JSON value"),
        ("echo '{\"success\": true}'; echo '{\"success\": true}'", "its standard output is not one JSON value"),
        ("echo '{\"success\": true}'; exit 1", "it answered with success, and exited with status 1"),
        ("echo '{\"passed\": true}'", "missing field `success`"),
        ("kill -9 $$", "it was killed by signal 9"),
    ] {
        let world = World::new(&format!("#!/bin/sh\n{body}\n"), &[("extension.yaml", &manifest)]);
        let found = why(&world).await;
        assert!(found.contains(named), "{body}: {found}");
    }
    let world = World::new(
        "#!/bin/sh\necho '{\"success\": false, \"error\": \"no\"}'; exit 1\n",
        &[("extension.yaml", &manifest)],
    );
    let extensions = world.extensions();
    let answer = go(&extensions).await.unwrap();
    assert!(!answer.success && answer.error == "no");
    let world = World::new("#!/bin/sh\nsleep 60\n", &[("extension.yaml", &manifest)]);
    let extensions = world.extensions();
    let short = Call { timeout: Duration::from_millis(200), ..call("go", json!({}), PlanPhase::Setup) };
    assert_eq!(extensions.call("x", short).await.unwrap_err().why, "it did not end in time");
    assert!(!world.lives());
}

#[tokio::test]
async fn a_call_takes_no_time() {
    let world = World::python("answer(True)");
    let extensions = world.extensions();
    go(&extensions).await.unwrap();
    let mut times = Vec::new();
    for _ in 0..200 {
        let started = Instant::now();
        go(&extensions).await.unwrap();
        times.push(started.elapsed());
    }
    times.sort();
    // The bar is 1 ms in a release build on a quiet machine.
    assert!(times[100] < Duration::from_millis(20), "{:?}", times[100]);
    println!("p50 of a call: {:?}", times[100]);
    extensions.close().await;
}
