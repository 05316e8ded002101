//! `world: kube`: a disposable control plane for an eval, from end to end. It requires etcd and kube-apiserver (in
//! `KUBEBUILDER_ASSETS` or on `PATH`); if they are not available, the tests that start one report that they did not
//! run.
#![cfg(all(feature = "kubernetes", target_os = "linux"))]

use std::{
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use gevals::cluster::plane;
use rustix::process::Signal;

use crate::support::world::{Ran, World};

/// Starting two control planes at once takes half a minute on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

const EVAL: &str = "kind: Eval\nmetadata: {name: w}\nconfig:\n  world: SHARE\n  agent: {type: file, path: agent.yaml}\n  mcpConfigFile: mcp.yaml\n  extensions: {theirs: {package: \"builtin:kubernetes\", config: {kubeconfig: WORLD/of-the-user, context: theirs}, env: {KUBECONFIG: WORLD/of-the-user}}}\n  taskSets: [{glob: \"tasks/*.yaml\"}]\n";
/// The agent, the server and the setup log what they see.
const AGENT: &str = "kind: Agent\nmetadata: {name: sh}\ncommands:\n  argTemplateMcpServer: '{{ .URL }}'\n  runPrompt: 'echo \"agent $KUBE_NAMESPACE $KUBECONFIG\" >> WORLD/seen; : {{ .McpServerFileArgs }} {{ .Prompt }}'\n";
const SERVERS: &str = "mcpServers:\n  demo:\n    command: sh\n    args: [\"-c\", \"echo \\\"server $KUBE_NAMESPACE $KUBECONFIG $SAME\\\" >> WORLD/seen; exec \\\"$GEVALS\\\" demo-server\"]\n    env: {SAME: \"${KUBECONFIG}\", KUBECONFIG: WORLD/of-the-user}\n    enableAllTools: true\n";
const TASK: &str = r#"
kind: Task
apiVersion: mcp-eval/v1
metadata: {name: TASKNAME, parallel: true}
spec:
  imports: [{package: "builtin:kubernetes", as: k8s}]
  env: {WHERE: "{env.KUBE_NAMESPACE}", KUBECONFIG: WORLD/of-the-user}
  prompt: Look.
  setup:
    - k8s.create: {apiVersion: v1, kind: ConfigMap, metadata: {name: same, namespace: "{env.WHERE}"}, data: {of: TASKNAME}}
    - command: {run: "echo \"setup $KUBE_NAMESPACE $KUBECONFIG\" >> WORLD/seen"}
    - command: {run: "HOLD"}
  verify:
    - k8s.get: {resource: configmap/same, jsonpath: "{.data.of}", expect: {value: TASKNAME}}
    - k8s.count: {kind: configmap, selector: "", fields: metadata.name=same, equals: 1}
  cleanup:
    - command: {run: "echo TASKNAME >> WORLD/cleaned"}
    - k8s.delete: {resource: configmap/same}
"#;

fn world(share: &str, tasks: &[&str], hold: &str) -> World {
    let world =
        World::new(&[("eval.yaml", &EVAL.replace("SHARE", share)), ("agent.yaml", AGENT), ("mcp.yaml", SERVERS)]);
    for name in tasks {
        world.write(&format!("tasks/{name}.yaml"), &TASK.replace("TASKNAME", name).replace("HOLD", hold));
    }
    world
}

fn command(world: &World, args: &[&str]) -> Command {
    let mut command = world.command(args);
    if let Some(assets) = std::env::var_os("KUBEBUILDER_ASSETS") {
        command.env("KUBEBUILDER_ASSETS", assets);
    }
    // A cluster of the user, which nothing may access.
    command.env("KUBECONFIG", world.path("of-the-user")).env("KUBE_NAMESPACE", "of-the-user");
    command
}

fn run(world: &World, args: &[&str]) -> Ran {
    world.start(command(world, args)).end_within(PATIENCE)
}

/// Returns what was logged: by whom, the namespace, and the kubeconfigs.
fn seen(world: &World) -> Vec<Vec<String>> {
    let text = world.read("seen");
    text.lines().map(|line| line.split(' ').map(str::to_owned).collect()).collect()
}

/// Checks that nothing runs, and that the directory of the run is empty.
#[track_caller]
fn nothing_is_left(world: &World) {
    assert_eq!(world.survivors(), [""; 0]);
    for run in std::fs::read_dir(world.path(".gevals/runs")).unwrap().flatten() {
        assert!(!run.path().join("kube").exists(), "{:?}", std::fs::read_dir(run.path().join("kube")));
    }
}

/// In sequence: a control plane needs half a gigabyte of memory.
#[test]
fn clusters_are_created_for_a_run_and_removed_afterwards() {
    if !plane::missing().is_empty() {
        eprintln!("NOT RUN: no Kubernetes control plane (set KUBEBUILDER_ASSETS)");
        return;
    }
    each_task_has_a_namespace();
    each_task_has_an_api();
    a_killed_run_is_recovered();
    a_kept_world_stays_until_it_is_cleaned_up();
    a_control_plane_is_up_with_all_its_programs();
}

fn each_task_has_a_namespace() {
    let world = world("kube", &["a", "b"], "true");
    run(&world, &["run", "eval.yaml", "--parallel", "2"]).expect(0, &["2 of 2 tasks passed"]);
    let seen = seen(&world);
    let of = |who: &str| {
        let mut found: Vec<_> = seen.iter().filter(|line| line[0] == who).map(|line| line[1..].to_vec()).collect();
        found.sort();
        found.dedup();
        found
    };
    let setups = of("setup");
    assert_eq!(setups.len(), 2, "{seen:?}");
    for (line, name) in setups.iter().zip(["task-a-", "task-b-"]) {
        assert!(line[0].starts_with(name) && line[1].ends_with(&format!("{}.kubeconfig", line[0])), "{line:?}");
        assert!(Path::new(&line[1]).starts_with(world.path(".gevals/runs")), "{line:?}");
    }
    assert_eq!(of("agent"), setups, "{seen:?}");
    // A server receives the variables, and `${KUBECONFIG}` in its configuration has the same value.
    let servers: Vec<_> =
        of("server").into_iter().map(|line| [line[0].clone(), line[1].clone(), line[2].clone()]).collect();
    assert_eq!(servers.len(), 2, "{seen:?}");
    assert!(
        servers.iter().zip(&setups).all(|(server, task)| server[..2] == task[..] && server[1] == server[2]),
        "{seen:?}"
    );
    let mut cleaned: Vec<_> = world.read("cleaned").lines().map(str::to_owned).collect();
    cleaned.sort();
    assert_eq!(cleaned, ["a", "b"]);
    nothing_is_left(&world);
}

fn each_task_has_an_api() {
    let world = world("{kube: api}", &["a", "b"], "true");
    run(&world, &["run", "eval.yaml", "--parallel", "2"]).expect(0, &["2 of 2 tasks passed"]);
    let mut setups: Vec<_> = seen(&world).into_iter().filter(|line| line[0] == "setup").collect();
    assert!(setups.iter().all(|line| line[1] == "default"), "{setups:?}");
    setups.dedup_by(|a, b| a[2] == b[2]);
    assert_eq!(setups.len(), 2, "each has a kubeconfig of its own: {setups:?}");
    nothing_is_left(&world);
}

/// Its cleanup uses the same control plane, whether that is still running or not.
fn a_killed_run_is_recovered() {
    for plane_too in [false, true] {
        let world = world("kube", &["a"], "touch WORLD/held; sleep 600");
        let running = world.start(command(&world, &["run", "eval.yaml"]));
        let begun = Instant::now();
        while !world.path("held").exists() {
            assert!(begun.elapsed() < PATIENCE, "{}{}", world.read("stdout"), world.read("stderr"));
            std::thread::sleep(Duration::from_millis(20));
        }
        running.signal(Signal::KILL);
        running.end();
        if plane_too {
            // As after a power failure.
            let run = std::fs::read_dir(world.path(".gevals/runs")).unwrap().next().unwrap().unwrap().path();
            assert_eq!(plane::down(&run.join("kube/first")).unwrap().last(), Some(&"etcd"));
        }
        run(&world, &["recover"]).expect(0, &["cleanup/0 is done", "cleanup/1 is done"]);
        assert_eq!(world.read("cleaned"), "a\n");
        nothing_is_left(&world);
    }
}

fn a_kept_world_stays_until_it_is_cleaned_up() {
    let world = world("kube", &["a"], "true");
    let said = run(&world, &["run", "eval.yaml", "--phase", "setup"])
        .expect(0, &["export KUBECONFIG=", "export KUBE_NAMESPACE=task-a-"]);
    let exported = said.out.lines().chain(said.err.lines()).filter(|line| line.contains("export KUBE"));
    assert!(
        exported.clone().count() >= 2 && !exported.clone().any(|line| line.contains("of-the-user")),
        "{}",
        said.err
    );
    run(&world, &["run", "eval.yaml", "--phase", "verify"]).expect(0, &["1 of 1 task passed"]);
    run(&world, &["run", "eval.yaml", "--phase", "cleanup"]).expect(0, &["cleanup/1 is done"]);
    assert_eq!(world.read("cleaned"), "a\n");
    nothing_is_left(&world);
}

#[test]
fn nothing_is_started_if_programs_are_missing() {
    let world = world("kube", &["a"], "true");
    let gevals = |args: &[&str]| {
        let mut command = world.command(args);
        command.env("PATH", "/usr/bin:/bin").env("KUBEBUILDER_ASSETS", world.path("nowhere"));
        world.start(command).end()
    };
    if !["etcd", "kube-apiserver"].iter().any(|name| Path::new("/usr/bin").join(name).exists()) {
        let why = "`etcd` and `kube-apiserver` are neither in KUBEBUILDER_ASSETS nor on the PATH: `setup-envtest use -p path`";
        gevals(&["run", "eval.yaml"]).expect(3, &["`world: kube`:", why]);
        gevals(&["run", "eval.yaml", "--preflight"]).expect(3, &["missing", why]);
        assert!(!world.path("seen").exists());
    }
    gevals(&["plan", "eval.yaml"]).expect(0, &["world", "a disposable Kubernetes namespace for each run of a task"]);
    let plan = gevals(&["plan", "eval.yaml", "--format", "json"]).expect(0, &[]);
    assert!(plan.out.contains("\"kube\": \"namespace\"") && !plan.out.contains("KUBE_NAMESPACE\","), "{}", plan.out);
    world.write("eval.yaml", &EVAL.replace("SHARE", "{kube: apy}"));
    gevals(&["check", "eval.yaml"]).expect(1, &["unknown share of a control plane `apy`", "did you mean `api`?"]);
}

/// Without its controller manager, namespaces are never deleted and deployments have no pods, and nothing explains why.
fn a_control_plane_is_up_with_all_its_programs() {
    let Some(manager) = plane::program("kube-controller-manager") else { return };
    let world = World::new(&[]);
    std::fs::create_dir(world.path("bin")).unwrap();
    for name in plane::PROGRAMS {
        std::os::unix::fs::symlink(plane::program(name).unwrap(), world.path("bin").join(name)).unwrap();
    }
    let play = |script: &str| {
        let path = world.path("bin/kube-controller-manager");
        let _ = std::fs::remove_file(&path);
        let script =
            format!("#!/bin/sh\n[ \"$1\" != --version ] || exec '{0}' --version\n{script}\n", manager.display());
        std::fs::write(&path, script.replace("REAL", &manager.display().to_string())).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    };
    let kube = |verb: &str| {
        let mut command = world.command(&["kube", verb, "plane"]);
        command.env("KUBEBUILDER_ASSETS", world.path("bin"));
        world.start(command).end_within(PATIENCE)
    };
    // Its port was already in use.
    play("echo once >> \"$0.log\"; [ $(wc -l < \"$0.log\") -gt 1 ] || exit 1; exec REAL \"$@\"");
    kube("up").expect(0, &["plane/kubeconfig"]);
    assert_eq!(world.read("bin/kube-controller-manager.log"), "once\nonce\n");
    assert!(plane::is_up(&world.path("plane")));
    let pid: i32 = world.read("plane/kube-controller-manager.pid").trim().parse().unwrap();
    let manager = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(manager, Signal::KILL).unwrap();
    let begun = Instant::now();
    while plane::is_up(&world.path("plane")) {
        assert!(begun.elapsed() < PATIENCE, "it is up without its controller manager");
        std::thread::sleep(Duration::from_millis(20));
    }
    kube("down").expect(0, &["stopped kube-apiserver, etcd"]);
    play("echo I1127 starting; echo F1127 no port; echo goroutine 1; exit 255");
    let said = kube("up").expect(3, &["`kube-controller-manager` has exited: F1127 no port (see "]);
    assert_eq!(said.out, "");
    assert_eq!(world.survivors(), [""; 0]);
}
