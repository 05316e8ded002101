//! Extensions as programs: both protocols, and programs that follow neither.
#![cfg(all(feature = "run", target_os = "linux"))]

use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use gevals::{
    extension::{Answer, Call, Extensions, usable},
    hir::Sandbox,
    host::RealHost,
    plan,
};
use serde_json::{Value, json};

use crate::support::world::World;

/// A directory with programs.
struct Programs(tempfile::TempDir);

impl Programs {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn program(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// A Python program that answers `initialize`, and then runs the body for each `request`.
    fn session(&self, name: &str, body: &str) -> PathBuf {
        let body = body.lines().map(|line| format!("        {line}\n")).collect::<String>();
        let text = format!(
            r#"#!/usr/bin/env python3
import json, os, subprocess, sys, time
def say(value): print(json.dumps(value), flush=True)
def answer(result): say({{"jsonrpc": "2.0", "id": request["id"], "result": result}})
for line in sys.stdin:
    request = json.loads(line)
    if request["method"] == "initialize":
        config = request["params"].get("config")
        answer({{"name": "x", "version": "1", "protocolVersion": "0.0.1", "operations": {{"do": {{}}}}}})
    elif request["method"] == "shutdown":
        answer({{}})
        break
    else:
        params = request["params"]
        args = params["args"]
{body}"#
        );
        self.program(name, &text)
    }

    async fn execute(&self, extensions: &Extensions<'_>, name: &str, args: Value) -> Result<Answer, String> {
        let env = [("NS".to_owned(), "demo".to_owned())];
        let call = Call {
            operation: "do",
            args,
            phase: "verify",
            run_id: "r1",
            workdir: self.path(),
            env: &env,
            agent: Some(("a prompt", "an answer")),
            timeout: Duration::from_secs(20),
        };
        extensions.execute(name, self.path(), &call).await
    }

    /// Makes one call of a program in this directory.
    async fn once(&self, name: &str, args: Value) -> Result<Answer, String> {
        let host = RealHost::new();
        let none = plan::Extensions::default();
        let extensions = Extensions::new(&host, &none, None);
        let answer = self.execute(&extensions, name, args).await;
        extensions.close().await;
        answer
    }
}

#[tokio::test]
async fn an_operation_receives_its_context_and_returns_outputs() {
    let programs = Programs::new();
    let echo = "say({'jsonrpc': '2.0', 'method': 'log', 'params': {'level': 'info', 'message': 'at work'}})\n\
                answer({'success': True, 'message': 'done', 'outputs': {'params': params, 'config': config, 'TOKEN': os.environ.get('TOKEN')}})";
    programs.session("ext/echo", echo);
    let host = RealHost::new();
    let declared = plan::Extension {
        alias: "echo".to_owned(),
        package: "./echo".to_owned(),
        dir: programs.path().join("ext"),
        env: vec![("TOKEN".to_owned(), "${PATH}!".to_owned())],
        config: json!({"home": "{env.PATH}", "n": 1}),
        granted: Default::default(),
    };
    let declared = plan::Extensions { declared: vec![declared], ..Default::default() };
    let extensions = Extensions::new(&host, &declared, None);
    let answer = programs.execute(&extensions, "echo", json!({"a": [1]})).await.unwrap();
    extensions.close().await;
    let path = std::env::var("PATH").unwrap();
    assert!(answer.success);
    assert_eq!((answer.message.as_str(), answer.log.as_slice()), ("done", &["info: at work".to_owned()][..]));
    assert_eq!(answer.outputs["config"], json!({"home": path, "n": 1}));
    assert_eq!(answer.outputs["TOKEN"], format!("{path}!"));
    let context = json!({
        "workdir": programs.path(),
        "phase": "verify",
        "runId": "r1",
        "env": {"NS": "demo"},
        "timeout": "20s",
        "agent": {"prompt": "a prompt", "output": "an answer"},
    });
    assert_eq!(answer.outputs["params"], json!({"operation": "do", "args": {"a": [1]}, "context": context}));
}

#[tokio::test]
async fn a_program_with_a_manifest_is_started_for_each_call() {
    let programs = Programs::new();
    let manifest = "name: shot\nversion: 1.0.0\nchecks: [{name: do}]\n";
    std::fs::create_dir(programs.path().join("shot")).unwrap();
    std::fs::write(programs.path().join("shot/extension.yaml"), manifest).unwrap();
    let text = "#!/bin/sh\necho working >&2\nprintf '{\"success\": true, \"outputs\": {\"words\": \"%s %s\", \"input\": %s}}' \"$1\" \"$2\" \"$(cat \"$4\")\"\n";
    programs.program("shot/shot", text);
    let answer = programs.once("./shot", json!({"a": 1})).await.unwrap();
    assert!(answer.success);
    assert_eq!(answer.outputs["words"], "check do");
    assert_eq!(answer.outputs["input"]["args"], json!({"a": 1}));
    assert_eq!(answer.outputs["input"]["context"]["env"], json!({"NS": "demo"}));
    assert_eq!(answer.log, ["working"]);
    let host = RealHost::new();
    let declared = plan::Extension {
        alias: "shot".to_owned(),
        package: "./shot".to_owned(),
        dir: programs.path().to_owned(),
        env: Vec::new(),
        config: json!({"level": 3}),
        granted: Default::default(),
    };
    let declared = plan::Extensions { declared: vec![declared], ..Default::default() };
    let extensions = Extensions::new(&host, &declared, None);
    let answer = programs.execute(&extensions, "shot", json!({})).await.unwrap();
    assert_eq!(answer.outputs["input"]["config"], json!({"level": 3}));
    for (text, part) in [
        ("echo oops >&2; exit 3", "answered with no JSON"),
        ("echo oops >&2; exit 3", ": oops"),
        ("echo '{\"success\": true}'; exit 3", "reports success and ended with exit status: 3"),
        ("echo '{\"ok\": true}'", "without a `success`"),
        ("echo '[1]'", "which is no result"),
    ] {
        programs.program("shot/shot", &format!("#!/bin/sh\n{text}\n"));
        let why = programs.once("./shot", json!({})).await.unwrap_err();
        assert!(why.contains(part), "{text}: {why}");
    }
    programs.program("shot/shot", "#!/bin/sh\necho '{\"success\": false, \"error\": \"not there\"}'; exit 1\n");
    let answer = programs.once("./shot", json!({})).await.unwrap();
    assert_eq!((answer.success, answer.message.as_str()), (false, "not there"));
}

#[tokio::test]
async fn invalid_extensions_are_named() {
    let programs = Programs::new();
    std::fs::write(programs.path().join("data"), "x").unwrap();
    std::fs::create_dir(programs.path().join("empty")).unwrap();
    programs.program("early", "#!/bin/sh\necho no such luck >&2\nexit 7\n");
    programs.program("hello", "#!/bin/sh\necho Usage: hello\n");
    programs.program("odd", "#!/bin/sh\nread -r line\necho '{\"jsonrpc\": \"2.0\", \"id\": 1, \"result\": {\"name\": \"odd\"}}'\nsleep 60\n");
    programs.program("refuses", "#!/bin/sh\nread -r line\necho '{\"jsonrpc\": \"2.0\", \"id\": 1, \"error\": {\"code\": -32602, \"message\": \"not this version\"}}'\nsleep 60\n");
    for (name, part) in [
        ("./nowhere", "is not there"),
        ("./data", "is not executable"),
        ("./empty", "without an extension.yaml"),
        ("./early", "exited with status 7: no such luck"),
        ("./hello", "it printed `Usage: hello`, which is no message of the protocol"),
        ("./odd", "its answer names no operations"),
        ("./refuses", "not this version (-32602)"),
        ("github.com/acme/thing@v1", "is a release"),
        ("builtin:kube", "is not a bundled extension"),
        ("thing", "is not a path"),
    ] {
        let begun = Instant::now();
        let why = programs.once(name, json!({})).await.unwrap_err();
        assert!(why.contains(part), "{name}: {why}");
        assert!(begun.elapsed() < Duration::from_secs(9), "{name}: {:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn a_silent_program_times_out() {
    let programs = Programs::new();
    programs.program("silent", "#!/bin/sh\nsleep 600\n");
    let begun = Instant::now();
    let why = programs.once("./silent", json!({})).await.unwrap_err();
    assert!(why.contains("speaks neither protocol"), "{why}");
    assert!((9..15).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn failed_calls_report_the_reason() {
    let programs = Programs::new();
    for (body, part) in [
        ("print('boom', file=sys.stderr, flush=True)\nos._exit(3)", "exited with status 3: boom"),
        ("os.kill(os.getpid(), 9)", "was killed by signal 9"),
        ("os.close(1)\ntime.sleep(0.2)", "it closed its output"),
        ("answer({'message': 'x'})", "without a `success`"),
        ("answer('x')", "which is no result"),
        ("answer({'success': True, 'outputs': [1]})", "which is no record"),
        ("say({'id': request['id'], 'error': {'code': -32000, 'message': 'cannot'}})", "cannot (-32000)"),
        ("say({'id': request['id']})", "neither a result nor an error"),
        ("sys.stdout.write('x' * (70 * 1024 * 1024))\nsys.stdout.flush()\ntime.sleep(5)", "a line of more than 64 MiB"),
    ] {
        programs.session("bad", body);
        let why = programs.once("./bad", json!({})).await.unwrap_err();
        assert!(why.contains(part), "{body}: {why}");
    }
}

#[tokio::test]
async fn invalid_output_requests_and_long_lines_are_tolerated() {
    let programs = Programs::new();
    let body = "print('hello, I am a library that prints')\n\
                say([1, 2])\n\
                say({'jsonrpc': '2.0', 'id': 99, 'method': 'sampling', 'params': {}})\n\
                say({'jsonrpc': '2.0', 'id': 4711, 'result': {'success': False}})\n\
                answer({'success': True, 'outputs': {'text': 'x' * 5_000_000}})";
    programs.session("noisy", body);
    let answer = programs.once("./noisy", json!({})).await.unwrap();
    assert_eq!(answer.outputs["text"].as_str().unwrap().len(), 5_000_000);
}

/// A call that was given up is answered during the next one, with its own ID.
#[tokio::test]
async fn a_late_answer_is_dropped() {
    let programs = Programs::new();
    programs.session("late", "time.sleep(args['for'])\nanswer({'success': True, 'outputs': {'n': args['n']}})");
    let host = RealHost::new();
    let none = plan::Extensions::default();
    let extensions = Extensions::new(&host, &none, None);
    let first = programs.execute(&extensions, "./late", json!({"for": 1, "n": 1}));
    let first = tokio::time::timeout(Duration::from_millis(300), first);
    let second = async {
        // After the first one, so that the program is still in use.
        tokio::time::sleep(Duration::from_millis(100)).await;
        programs.execute(&extensions, "./late", json!({"for": 0, "n": 2})).await
    };
    let (first, second) = tokio::join!(first, second);
    assert!(first.is_err());
    assert_eq!(second.unwrap().outputs["n"], 2);
    extensions.close().await;
}

/// A call that was given up has no later effects, and the next call has a program.
#[tokio::test]
async fn abandoned_calls_are_ended() {
    let programs = Programs::new();
    programs.session(
        "slow",
        "time.sleep(args['for'])\nopen('done', 'w').write('x') if args['for'] else None\nanswer({'success': True, 'outputs': {'pid': os.getpid()}})",
    );
    let host = RealHost::new();
    let none = plan::Extensions::default();
    let extensions = Extensions::new(&host, &none, None);
    let before = programs.execute(&extensions, "./slow", json!({"for": 0})).await.unwrap();
    let slow = programs.execute(&extensions, "./slow", json!({"for": 1}));
    assert!(tokio::time::timeout(Duration::from_millis(300), slow).await.is_err());
    let after = programs.execute(&extensions, "./slow", json!({"for": 0})).await.unwrap();
    assert_ne!(before.outputs["pid"], after.outputs["pid"]);
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert!(!programs.path().join("done").exists());
    extensions.close().await;
}

#[tokio::test]
async fn no_processes_are_left_running() {
    let programs = Programs::new();
    let body = "child = subprocess.Popen(['sleep', '600'])\nanswer({'success': True, 'outputs': {'pids': [os.getpid(), child.pid]}})";
    programs.session("parent", body);
    let answer = programs.once("./parent", json!({})).await.unwrap();
    for pid in answer.outputs["pids"].as_array().unwrap() {
        let begun = Instant::now();
        while std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z")) {
            assert!(begun.elapsed() < Duration::from_secs(5), "{pid} is left");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test]
async fn cleanup_gets_a_new_process_after_a_crash() {
    let programs = Programs::new();
    programs.session("frail", "if args['crash']: os._exit(1)\nanswer({'success': True, 'outputs': {'NS': os.environ['NS'], 'in': os.getcwd()}})");
    let host = RealHost::new();
    let none = plan::Extensions::default();
    let extensions = Extensions::new(&host, &none, None);
    assert!(programs.execute(&extensions, "./frail", json!({"crash": true})).await.is_err());
    let answer = programs.execute(&extensions, "./frail", json!({"crash": false})).await.unwrap();
    assert!(answer.success);
    // Its environment contains `spec.env`, and its working directory is that of the task.
    assert_eq!(answer.outputs["NS"], "demo");
    assert_eq!(answer.outputs["in"], json!(programs.path()));
    extensions.close().await;
}

/// A program that tries what its argument specifies, and returns the result.
const ATTACKER: &str = r#"
what, target = args["what"], args.get("target")
try:
    if what == "read": got = open(target).read()
    elif what == "write": got = open(target, "w").write("x")
    elif what == "list": got = os.listdir(target)
    elif what == "connect":
        import socket
        got = socket.create_connection(("127.0.0.1", target), 2).getsockname()
    elif what == "send":
        import socket
        got = socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", target))
    elif what == "own":
        import tempfile
        got = tempfile.NamedTemporaryFile(delete=False).name
    elif what == "env": got = sorted(os.environ)
    elif what == "kill": got = os.kill(target, 15)
    elif what == "fill":
        with open(os.path.join(target, "full"), "w") as file: got = os.posix_fallocate(file.fileno(), 0, 2 << 30)
    elif what == "memory": got = len(bytearray(6 << 30))
    elif what == "flee":
        got = subprocess.Popen(["sleep", str(target)], start_new_session=True).pid
    elif what == "fork":
        got = 0
        for _ in range(3000):
            if os.fork() == 0: time.sleep(600)
            got += 1
    answer({"success": True, "outputs": {"got": got}})
except BaseException as error:
    answer({"success": False, "error": type(error).__name__ + ": " + str(error)})
"#;

/// Returns the number of processes with this command line.
fn count(words: &str) -> usize {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " ")).filter(|line| line.trim() == words).count()
}

#[tokio::test]
async fn bubblewrap_contains_the_extension() {
    a_sandbox_holds_what_tries_to_leave_it(Sandbox::Bwrap).await;
}

#[tokio::test]
async fn landlock_contains_the_extension() {
    a_sandbox_holds_what_tries_to_leave_it(Sandbox::Landlock).await;
}

async fn a_sandbox_holds_what_tries_to_leave_it(sandbox: Sandbox) {
    if let Err(why) = usable(sandbox, &|_| None) {
        eprintln!("NOT RUN: the sandbox `{}`: {why}", sandbox.name());
        return;
    }
    let by_kernel = sandbox == Sandbox::Landlock;
    // The escaped process is recognized by how long it sleeps.
    let seconds = if by_kernel { 615 } else { 614 };
    let (missing, read_only) =
        if by_kernel { ("Permission denied", "Permission denied") } else { ("No such file", "Read-only") };
    let gevals = Some(PathBuf::from(env!("CARGO_BIN_EXE_gevals")));
    let programs = Programs::new();
    programs.session("ext/attacker", ATTACKER.trim());
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("secret");
    std::fs::write(&secret, "hidden").unwrap();
    std::fs::write(programs.path().join("task.txt"), "mine").unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let host = RealHost::new();
    let declared = |granted: plan::Granted| {
        let attacker = plan::Extension {
            alias: "attacker".to_owned(),
            package: "./ext/attacker".to_owned(),
            dir: programs.path().to_owned(),
            env: vec![("OWN".to_owned(), "given".to_owned())],
            config: Value::Null,
            granted,
        };
        plan::Extensions { declared: vec![attacker], sandbox, ..Default::default() }
    };
    let jailed = declared(plan::Granted::default());
    let extensions = Extensions::new(&host, &jailed, gevals.clone());
    let tries = async |extensions: &Extensions<'_>, what: &str, target: Value| {
        programs.execute(extensions, "attacker", json!({"what": what, "target": target})).await
    };
    let fails = async |what: &str, target: Value, why: &str| {
        let answer = tries(&extensions, what, target.clone()).await.unwrap();
        assert!(!answer.success, "{what} {target}: {:?}", answer.outputs);
        assert!(answer.message.contains(why), "{what} {target}: {}", answer.message);
    };
    // Files that are not granted do not exist, or cannot be written.
    fails("read", json!(secret), missing).await;
    fails("write", json!(outside.path().join("new")), "").await;
    fails("write", json!(programs.path().join("new")), read_only).await;
    fails("write", json!("/usr/bin/new"), read_only).await;
    fails("list", json!(std::env::var("HOME").unwrap()), missing).await;
    fails("connect", json!(port), "").await;
    if by_kernel {
        // In its own namespace, it could only send to itself.
        fails("send", json!(port), "PermissionError").await;
    }
    fails("kill", json!(std::process::id()), "").await;
    fails("memory", Value::Null, "MemoryError").await;
    if !by_kernel {
        // All of these are in memory.
        let bounds = gevals::sandbox::find().is_ok_and(|bwrap| gevals::sandbox::bounds(&bwrap));
        if bounds {
            fails("fill", json!("/tmp"), "No space left").await;
            fails("fill", json!("/dev/shm"), "No space left").await;
        } else {
            eprintln!("NOT RUN: filling the memory of a sandbox: this bubblewrap cannot bound folders");
        }
        fails("write", json!("/new"), read_only).await;
        fails("write", json!("/dev/new"), read_only).await;
    }
    // The directory of the task can be read, and there is a directory for the program's own files.
    let read = tries(&extensions, "read", json!(programs.path().join("task.txt"))).await.unwrap();
    assert_eq!(read.outputs["got"], "mine");
    let own = tries(&extensions, "own", Value::Null).await.unwrap();
    assert!(own.success, "{}", own.message);
    let own = PathBuf::from(own.outputs["got"].as_str().unwrap());
    let env = tries(&extensions, "env", Value::Null).await.unwrap();
    let names: Vec<_> = env.outputs["got"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    assert!(names.contains(&"OWN") && names.contains(&"NS"), "{names:?}");
    assert!(!names.iter().any(|name| name.starts_with("CARGO")), "{names:?}");
    // Nothing survives the sandbox: neither a separate session, nor a thousand children.
    let fled = tries(&extensions, "flee", json!(seconds)).await.unwrap();
    assert_ne!(fled.success, by_kernel, "the kernel lets nothing leave its group: {}", fled.message);
    let sleeps = || count(&format!("sleep {seconds}")) > 0;
    for _ in 0..200 {
        if sleeps() == fled.success {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(sleeps(), fled.success);
    let forked = tokio::time::timeout(Duration::from_secs(20), tries(&extensions, "fork", Value::Null)).await;
    // A limit on processes does not apply to root; ending the sandbox does.
    let root = rustix::process::getuid().is_root();
    assert!(root || !matches!(forked, Ok(Ok(Answer { success: true, .. }))), "3000 processes were made");
    extensions.close().await;
    let begun = Instant::now();
    while count(&format!("sleep {seconds}"))
        + count(&format!("python3 {}", programs.path().join("ext/attacker").display()))
        > 0
    {
        assert!(begun.elapsed() < Duration::from_secs(10), "a child survived its sandbox");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(!own.exists());
    // Granted permissions work.
    let granted = declared(plan::Granted {
        network: true,
        read: vec![secret.clone()],
        write: vec!["out".into()],
        env: vec!["PATH".to_owned(), "CARGO_PKG_NAME".to_owned()],
    });
    std::fs::create_dir(programs.path().join("out")).unwrap();
    let extensions = Extensions::new(&host, &granted, gevals.clone());
    assert_eq!(tries(&extensions, "read", json!(secret)).await.unwrap().outputs["got"], "hidden");
    assert!(tries(&extensions, "write", json!(programs.path().join("out/new"))).await.unwrap().success);
    assert!(programs.path().join("out/new").exists());
    assert!(tries(&extensions, "connect", json!(port)).await.unwrap().success);
    extensions.close().await;
}

/// A `docker` that logs its arguments, and runs the program without a container.
const DOCKER: &str = r#"#!/bin/sh
echo "$@" >> "${0%/bin/docker}/asked"
case " $* " in
*" version "*) echo 28.0.0 ;;
*" run "*)
    while [ "$1" != --entrypoint ]; do shift; done
    program=$2
    shift 3
    exec "$program" "$@" ;;
esac
"#;

#[test]
fn docker_receives_only_what_is_granted() {
    let world = World::new(&[
        (
            "eval.yaml",
            "kind: Eval\nmetadata: {name: e}\nconfig:\n  agent: {type: builtin.noop}\n  taskSets: [{path: t.yaml}]\n  extensions:\n    sandbox: docker\n    files: {package: ./ext/files, permissions: {read: [data], write: [out]}, env: {OWN: given}}\n",
        ),
        (
            "t.yaml",
            "kind: Task\napiVersion: mcpchecker/v1alpha2\nmetadata: {name: t}\nspec:\n  requires: [{extension: files}]\n  prompt: {inline: Do nothing.}\n  verify:\n    - files.look: {expect: {own: given, path: \"\"}}\n",
        ),
        (
            "ext/files/extension.yaml",
            "name: files\nversion: 1.0.0\nchecks:\n- name: look\n  args: {}\n  outputs: {own: {type: string}, path: {type: string}}\n",
        ),
        (
            "ext/files/files",
            "#!/bin/sh\necho '{\"success\": true, \"outputs\": {\"own\": \"'\"$OWN\"'\", \"path\": \"'\"$SECRET_OF_MINE\"'\"}}'\n",
        ),
        ("bin/docker", DOCKER),
        ("data/a", ""),
        ("out/a", ""),
    ]);
    for program in ["ext/files/files", "bin/docker"] {
        std::fs::set_permissions(world.path(program), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let run = |args: &[&str]| {
        let mut command = world.command(args);
        let path = format!("{}:{}", world.path("bin").display(), std::env::var("PATH").unwrap());
        command.env("PATH", path).env("DOCKER_HOST", world.path("")).env("SECRET_OF_MINE", "hidden");
        world.start(command).end()
    };
    run(&["lock", "eval.yaml"]).expect(0, &["1 extension"]);
    run(&["run", "eval.yaml"]).expect(0, &["1 of 1 task passed"]);
    let asked = world.read("asked");
    let line = asked.lines().find(|line| line.contains(" run ")).unwrap();
    let here = world.path("t.yaml").parent().unwrap().display().to_string();
    let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
    for words in [
        "--rm --interactive --init --name gevals-",
        "--read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges",
        "--pids-limit 512 --memory 4294967296",
        &format!("--ulimit nofile=1024:1024 --user {}:{}", user.as_raw(), group.as_raw()),
        "--network none",
        "--env OWN",
        &format!("--mount type=bind,\"source={here}/ext/files\",\"target={here}/ext/files\",readonly"),
        &format!("--mount type=bind,\"source={here}/data\",\"target={here}/data\",readonly"),
        &format!("--mount type=bind,\"source={here}/out\",\"target={here}/out\" "),
        "debian:stable-slim check look --input",
    ] {
        assert!(line.contains(words), "{words}\n{line}");
    }
    assert!(!line.contains("given") && !line.contains("SECRET_OF_MINE") && !line.contains("hidden"), "{line}");
    // The container is removed after the call.
    let name = line.split(" --name ").nth(1).unwrap().split(' ').next().unwrap();
    assert!(asked.lines().last().unwrap().ends_with(&format!("rm --force {name}")), "{asked}");

    std::fs::write(world.path("bin/docker"), "#!/bin/sh\necho 'Cannot connect to the Docker daemon' >&2\nexit 1\n")
        .unwrap();
    run(&["run", "eval.yaml"]).expect(3, &["docker does not answer: Cannot connect to the Docker daemon"]);
}

/// An eval with a task that verifies with `x.do` of the program `ext/x`.
fn with_program(extensions: &str, program: &str) -> World {
    let eval = "kind: Eval\nmetadata: {name: e}\nconfig:\n  agent: {type: builtin.noop}\n  taskSets: [{path: t.yaml}]\n  extensions: ";
    let task = "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {name: t}\nspec:\n  imports: [{package: ./ext/x, as: x}]\n  prompt: Do nothing.\n  verify:\n    - x.do: {}\n";
    let world = World::new(&[("eval.yaml", &format!("{eval}{extensions}\n")), ("t.yaml", task), ("ext/x", program)]);
    world.executable("ext/x");
    world
}

/// A crash, and a call that exceeds the time limit of the eval.
#[test]
fn failures_in_a_sandbox_are_broken() {
    let programs = Programs::new();
    let cases = [("os._exit(3)", "30s", "exited with status 3"), ("time.sleep(600)", "1s", "it did not end within 1s")];
    for sandbox in [Sandbox::None, Sandbox::Bwrap, Sandbox::Landlock] {
        if let Err(why) = usable(sandbox, &|_| None) {
            eprintln!("NOT RUN: the sandbox `{}`: {why}", sandbox.name());
            continue;
        }
        for (body, timeout, why) in cases {
            let program = std::fs::read_to_string(programs.session("x", body)).unwrap();
            let extensions = format!("{{sandbox: {}, timeout: {timeout}}}", sandbox.name());
            let world = with_program(&extensions, &program);
            world.run(&["run", "eval.yaml"]).expect(1, &["BROKEN  t", why]);
            assert_eq!(world.survivors(), [""; 0], "{extensions}");
        }
    }
}

/// Arguments are validated after their holes are filled, before the program receives them: here, there is no cluster.
#[cfg(feature = "kubernetes")]
#[test]
fn calls_with_invalid_arguments_are_not_made() {
    let world = World::new(&[
        (
            "eval.yaml",
            "kind: Eval\nmetadata: {name: e}\nconfig:\n  agent: {type: builtin.noop}\n  taskSets: [{path: t.yaml}]\n",
        ),
        (
            "t.yaml",
            "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {name: t}\nspec:\n  imports: [{package: \"builtin:kubernetes\", as: k8s}]\n  prompt: Do nothing.\n  setup:\n    - command: {id: a, run: echo KIND, outputs: {kind: \"{stdout}\"}}\n    - k8s.patch: {resource: configmap/a, type: \"{steps.a.outputs.kind}\", patch: {}}\n  verify:\n    - k8s.resource-exists: {resource: configmap/a}\n",
        ),
    ]);
    world
        .run(&["run", "eval.yaml"])
        .expect(1, &["the arguments do not fit `patch`, so it was not called: `type` must be "]);
    let text = world.read("t.yaml").replace("KIND", "merge");
    world.write("t.yaml", &text);
    world.run(&["run", "eval.yaml"]).expect(1, &["no cluster: "]);
}

/// Endless output of a program uses no memory, in either protocol.
#[test]
fn endless_output_of_an_extension_uses_no_memory() {
    let sandbox = usable(Sandbox::Auto, &|_| None).map_or("none", |_| "auto");
    const LOGS: &str = "for _ in range(150): say({'jsonrpc': '2.0', 'method': 'log', 'params': {'level': 'info', 'message': 'x' * (1 << 20)}})\nanswer({'success': True})";
    const RUBBISH: &str = "for _ in range(150): print('x' * (1 << 20))\nanswer({'success': True})";
    let shot = |does: &str| format!("#!/bin/sh\n{does}\n");
    let programs = Programs::new();
    let session = |body: &str| std::fs::read_to_string(programs.session("x", body)).unwrap();
    let cases = [
        ("answers", true, shot("exec yes"), "it printed more than 16 MiB"),
        ("complains", true, shot("head -c 200000000 /dev/zero | tr '\\0' x >&2\necho '{\"success\": true}'"), ""),
        ("logs", false, session(LOGS), ""),
        ("chatters", false, session(RUBBISH), ""),
    ];
    for (name, manifest, program, why) in cases {
        let world = World::new(&[
            (
                "eval.yaml",
                &format!(
                    "kind: Eval\nmetadata: {{name: e}}\nconfig:\n  agent: {{type: builtin.noop}}\n  taskSets: [{{path: t.yaml}}]\n  extensions: {{sandbox: {sandbox}}}\n"
                ),
            ),
            (
                "t.yaml",
                "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {name: t}\nspec:\n  imports: [{package: ./ext/x, as: x}]\n  prompt: Do nothing.\n  verify:\n    - x.do: {}\n",
            ),
        ]);
        let path = if manifest { "ext/x/x" } else { "ext/x" };
        world.write(path, &program);
        std::fs::set_permissions(world.path(path), std::fs::Permissions::from_mode(0o755)).unwrap();
        if manifest {
            world.write("ext/x/extension.yaml", "name: x\nversion: 1.0.0\nchecks: [{name: do}]\n");
        }
        let ran = world.run(&["run", "eval.yaml", "--allow-unchecked"]);
        let said = match why {
            "" => ran.expect(0, &["1 of 1 task passed"]),
            why => ran.expect(1, &[why]),
        };
        assert!(said.peak < 150_000, "{name}: {} KiB", said.peak);
    }
}

/// In the median, at most a millisecond (`cargo test --test all extension:: -- --ignored --nocapture`).
#[tokio::test]
#[ignore = "measures; benches/README.md has the figure"]
async fn the_overhead_of_a_call() {
    let programs = Programs::new();
    programs.session("echo", "answer({'success': True, 'outputs': {'n': args['n']}})");
    let host = RealHost::new();
    let none = plan::Extensions::default();
    let extensions = Extensions::new(&host, &none, None);
    programs.execute(&extensions, "./echo", json!({"n": 0})).await.unwrap();
    let mut times = Vec::new();
    for n in 0..2000 {
        let begun = Instant::now();
        let answer = programs.execute(&extensions, "./echo", json!({"n": n})).await.unwrap();
        times.push(begun.elapsed());
        assert_eq!(answer.outputs["n"], n);
    }
    extensions.close().await;
    times.sort();
    let at = |percent: usize| times[times.len() * percent / 100];
    println!("a call of an extension in Python: p50 {:?}, p95 {:?}, p99 {:?}", at(50), at(95), at(99));
    assert!(at(50) < Duration::from_millis(1), "{:?}", at(50));
}
