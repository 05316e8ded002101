//! `gevals convert --prove-on`: tasks in the style of public suites and their conversions, on a real Kubernetes API.
//!
//! The API is started from `KUBEBUILDER_ASSETS` or `PATH`; if it is not available, the test reports that it did not
//! run. There are no real nodes: `support/kubelet.rs` updates the pods.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use gevals::{
    cluster::plane,
    convert::{self, Target},
    hir::Dialect,
    host::disk::Disk,
    prove::{
        Allowance,
        api::{self, OnApi, Pair},
    },
    source::Sources,
};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client, Config,
    api::PostParams,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::Value;
use tokio::sync::mpsc::unbounded_channel;

use super::{
    compiled, context, folder, kubelet,
    world::{Ran, World},
};

/// Thirty tasks, four runs each, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(600);

/// A control plane with a simulated kubelet; stopped when it is dropped.
struct Plane {
    folder: tempfile::TempDir,
    kubeconfig: PathBuf,
    _kubelet: tokio::runtime::Runtime,
}

impl Plane {
    fn up() -> Option<Self> {
        if !plane::missing().is_empty() {
            eprintln!("NOT RUN: no Kubernetes API (set KUBEBUILDER_ASSETS)");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = plane::up(folder.path()).unwrap();
        let kubelet = tokio::runtime::Runtime::new().unwrap();
        let client = kubelet.block_on(async {
            let config = Kubeconfig::read_from(&kubeconfig).unwrap();
            let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
            let client = Client::try_from(config).unwrap();
            let nodes: Api<Node> = Api::all(client.clone());
            for name in ["worker-1", "worker-2"] {
                let mut node = Node::default();
                node.metadata.name = Some(name.to_owned());
                nodes.create(&PostParams::default(), &node).await.unwrap();
            }
            client
        });
        kubelet.spawn(kubelet::run(client, ""));
        Some(Self { folder, kubeconfig, _kubelet: kubelet })
    }

    fn kubectl(&self, args: &[&str]) -> String {
        let ran = Command::new("kubectl").args(args).env("KUBECONFIG", &self.kubeconfig).output().unwrap();
        String::from_utf8(ran.stdout).unwrap()
    }

    fn convert(&self, world: &World, args: &[&str]) -> Ran {
        world.start(self.command(world, args)).end_within(PATIENCE)
    }

    fn command(&self, world: &World, args: &[&str]) -> Command {
        let mut command = world.command(&[&["convert", "--no-verify"][..], args].concat());
        command.env("KUBECONFIG", &self.kubeconfig);
        command.envs(std::env::var_os("KUBEBUILDER_ASSETS").map(|assets| ("KUBEBUILDER_ASSETS", assets)));
        command
    }

    /// Checks that no namespaces are left except the initial ones.
    #[track_caller]
    fn nothing_is_left(&self) {
        let found = self.kubectl(&["get", "namespaces", "-o", "name"]);
        let found: Vec<_> =
            found.lines().filter(|name| !name.contains("/kube-") && *name != "namespace/default").collect();
        assert_eq!(found, [""; 0]);
    }
}

impl Drop for Plane {
    fn drop(&mut self) {
        plane::down(self.folder.path()).unwrap();
    }
}

fn task(name: &str) -> PathBuf {
    folder("api").join(name).join(format!("{name}.yaml"))
}

fn solutions() -> PathBuf {
    folder("api").join("solutions")
}

/// The names of all tasks.
fn names() -> Vec<String> {
    let entries = fs::read_dir(folder("api")).unwrap().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.retain(|name| task(name).exists());
    names.sort();
    names
}

/// One API for all parts: it needs half a gigabyte of memory.
#[test]
#[ignore = "needs a Kubernetes API, kubectl and jq; .ci/run has them"]
fn on_api_original_and_conversion_do_the_same() {
    let Some(plane) = Plane::up() else { return };
    let started = Instant::now();
    all_agree(&plane);
    println!("all tasks: {} s", started.elapsed().as_secs());
    mistakes_are_caught(&plane);
    what_is_left_is_told_and_deleted(&plane);
    an_interrupt_deletes_what_was_made(&plane);
    println!("with mistakes and interrupts: {} s", started.elapsed().as_secs());
    drop(plane);
    a_disposable_one_is_started();
}

fn all_agree(plane: &Plane) {
    let names = names();
    assert!(names.len() >= 30, "only {} tasks", names.len());
    let world = World::new(&[]);
    let (paths, solutions) = (names.iter().map(|name| task(name)), solutions());
    let paths: Vec<_> = paths.map(|path| path.display().to_string()).collect();
    let mut args: Vec<&str> = paths.iter().map(String::as_str).collect();
    let solutions = solutions.display().to_string();
    args.extend([
        "--target",
        "kubernetes",
        "--prove-on",
        "gevals",
        "--solutions",
        solutions.as_str(),
        "--report",
        "json",
    ]);
    let ran = plane.convert(&world, &args);
    let report: Value = serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {}{}", ran.out, ran.err));
    let tasks = report["tasks"].as_array().unwrap();
    let unproved: Vec<_> =
        tasks.iter().filter(|task| task["onApi"]["proved"] != true).map(|task| &task["path"]).collect();
    assert!(unproved.is_empty(), "{} of {}: {unproved:?}\n{}", unproved.len(), tasks.len(), ran.err);
    assert_eq!((tasks.len(), ran.code), (names.len(), Some(0)), "{}", ran.err);
    println!("{} of {} tasks pass and fail alike", tasks.len(), names.len());
    plane.nothing_is_left();
}

/// An original and its conversion, in which one text may be replaced by another.
fn pair(name: &str, mistake: Option<(&str, &str)>) -> Pair {
    let (path, sources) = (task(name), Sources::default());
    let all = gevals::compile(std::slice::from_ref(&path), &sources, &Disk);
    let unit = &all.project.tasks[0];
    let new = convert::task(unit, context(&sources, &Disk, &all, Dialect::Portable, Target::Builtin));
    let new = new.unwrap_or_else(|refusal| panic!("{name}: {}", refusal.message));
    let text = match mistake {
        Some((right, wrong)) => {
            assert!(new.text.contains(right), "{right}:\n{}", new.text);
            new.text.replace(right, wrong)
        }
        None => new.text.clone(),
    };
    let plan = |compiled: gevals::Compiled| match compiled.tasks.into_iter().next().flatten() {
        Some(plan) => *plan,
        None => panic!("{name} has no plan: {:?}", compiled.diagnostics.first().map(|found| &found.message)),
    };
    let allow = Allowance::of(&new);
    let converted = plan(compiled(&path, &text, &Sources::default()));
    Pair { old: plan(all), new: converted, solution: Some(solutions().join(format!("{name}.sh"))), allow }
}

fn on_api(plane: &Plane, pairs: &[Pair]) -> api::Proof {
    let (_signals, mut none) = unbounded_channel();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(api::in_four(&plane.kubeconfig, pairs, &mut none, &|_| {})).unwrap()
}

/// A mistake in a conversion, and the world in which it shows.
const MISTAKES: [(&str, (&str, &str), &str); 5] = [
    // A different text, which passes too early.
    ("rolling-update", ("stdout: nginx:1.27", "stdout: nginx:1.21"), "without an agent"),
    // A different text, which never passes.
    ("create-namespace", ("stdout: blue", "stdout: red"), "with the solution"),
    // An inverted test.
    ("create-configmap", ("stdout: debug", "stdout: {not: debug}"), "with the solution"),
    // A different object.
    ("create-ingress", ("get ingress shop", "get ingress store"), "with the solution"),
    // A setup that does not complete.
    ("expose-deployment", ("kubectl create ns expose-test", "kubectl get ns expose-test"), "without an agent"),
];

fn mistakes_are_caught(plane: &Plane) {
    let wrong = MISTAKES.map(|(name, mistake, _)| pair(name, Some(mistake)));
    let found = on_api(plane, &wrong);
    for (on_api, (name, _, world)) in found.tasks.iter().zip(MISTAKES) {
        let differs = on_api.differs().unwrap_or_else(|| panic!("{name}: not caught: {}", on_api.shown()));
        assert!(differs.starts_with(world), "{name}: {differs}");
        assert!(differs.contains("original: ") && differs.contains("conversion: "), "{differs}");
    }
    let right = [pair("create-namespace", None)];
    let shown: Vec<_> = on_api(plane, &right).tasks.iter().map(OnApi::shown).collect();
    assert_eq!(shown, ["both pass and fail in the same cases"]);
    plane.nothing_is_left();
}

const LEAVES: &str = "kind: Task\nmetadata: {name: leaves, difficulty: easy}\nsteps:\n  setup: {inline: \"kubectl create namespace left-by-setup; kubectl create configmap left -n default\"}\n  verify: {inline: \"kubectl get configmap made -n left-by-setup\"}\n  prompt: {inline: Make it.}\n";

/// Also for a task without a solution, which does not count as proved, and for one that passes without an agent.
fn what_is_left_is_told_and_deleted(plane: &Plane) {
    let world = World::new(&[("leaves.yaml", LEAVES)]);
    let ran = plane.convert(&world, &["leaves.yaml", "--target", "builtin", "--prove-on", "gevals", "--report"]);
    let ran = ran.expect(1, &["on the real API: unproved: no passing world: the solution `leaves.sh` is missing"]);
    for side in ["originals", "conversions"] {
        let left = format!("left behind on the real API: namespace `left-by-setup` (the {side}, without an agent)");
        assert!(ran.err.contains(&left), "{left}: {}", ran.err);
        let left = format!("left behind on the real API: configmap `left` in `default` (the {side}, without an agent)");
        assert!(ran.err.contains(&left), "{left}: {}", ran.err);
    }
    assert_eq!(plane.kubectl(&["get", "configmap", "left", "-n", "default", "-o", "name", "--ignore-not-found"]), "");
    plane.nothing_is_left();
    world.write("leaves.yaml", &LEAVES.replace("get configmap made -n", "get namespace"));
    world.write("solutions/leaves.sh", "true");
    world.write("solutions/typo.sh", "true");
    let args = ["leaves.yaml", "--write", "--prove-on", "gevals", "--solutions", "solutions"];
    let ran = plane.convert(&world, &args);
    ran.expect(1, &["no failing world: both pass without an agent", "`typo`"]);
    assert!(!world.path("leaves.portable.yaml").exists());
}

fn an_interrupt_deletes_what_was_made(plane: &Plane) {
    let text = "kubectl create namespace interrupted; touch WORLD/begun; sleep 60";
    let world = World::new(&[("leaves.yaml", &LEAVES.replace("kubectl create namespace left-by-setup", text))]);
    let args = ["leaves.yaml", "--prove-on", "gevals", "--write", "--allow-unproved"];
    let running = world.start(plane.command(&world, &args));
    world.wait_for("begun");
    running.signal(rustix::process::Signal::INT);
    let ran = running.end_within(PATIENCE);
    assert_eq!(ran.code, Some(130), "{}", ran.err);
    assert!(!world.path("leaves.portable.yaml").exists());
    assert_eq!(world.survivors(), [""; 0]);
    let left: Vec<_> = fs::read_dir(world.path("tmp")).unwrap().flatten().map(|entry| entry.path()).collect();
    assert_eq!(left, Vec::<&Path>::new());
    plane.nothing_is_left();
}

fn a_disposable_one_is_started() {
    let world = World::new(&[]);
    let (path, solutions) = (task("create-namespace").display().to_string(), solutions().display().to_string());
    let args = ["--prove-on", "disposable", "--solutions", &solutions, "--report"];
    let mut command = world.command(&[&["convert", "--no-verify", &path][..], &args].concat());
    command.envs(std::env::var_os("KUBEBUILDER_ASSETS").map(|assets| ("KUBEBUILDER_ASSETS", assets)));
    world.start(command).end_within(PATIENCE).expect(0, &["on the real API: both pass and fail in the same cases"]);
    assert_eq!(world.survivors(), [""; 0]);
    assert_eq!(fs::read_dir(world.path("tmp")).unwrap().count(), 0);
}

#[test]
fn on_api_missing_programs_are_reported_before_anything_runs() {
    let world = World::new(&[("leaves.yaml", LEAVES)]);
    world.write(
        "config",
        "{apiVersion: v1, kind: Config, contexts: [{name: mine, context: {cluster: c}}], clusters: [{name: c, cluster: {server: \"http://127.0.0.1:1\"}}]}",
    );
    let run = |args: &[&str]| {
        let mut command = world.command(&[&["convert", "leaves.yaml", "--no-verify"][..], args].concat());
        command.env("KUBECONFIG", world.path("config"));
        world.start(command).end()
    };
    run(&["--prove-on", "other"]).expect(2, &["no context `other`: it has `mine`"]);
    run(&["--prove-on", "mine", "--solutions", "none"]).expect(2, &["`none` is not a directory of solutions"]);
    run(&["--solutions", "."]).expect(2, &["--prove-on"]);
    // The API does not answer; no script has run.
    run(&["--prove-on", "mine"]).expect(3, &["does not answer"]);
}
